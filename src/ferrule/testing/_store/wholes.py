"""Runs as wholes: handed on to another store, and let go of."""

from __future__ import annotations

import hashlib

from ferrule.journal.keeping import Whole
from ferrule.journal.store import Batch, Decision, NewRun
from ferrule.testing._store.ground import Ground, expect, row, rows


async def _full(g: Ground) -> Whole:
    """A run with one of everything."""
    blob = f"bytes of {g.mark}".encode()
    digest = hashlib.sha256(blob).hexdigest()
    held = await g.held(key=f"k-{g.mark}", session=f"s-{g.mark}", tags={"team": "blue"}, blobs={digest: blob})
    asked = [g.asked(held, name) for name in ("answered", "open")]
    await g.store.append(held, Batch(rows(2, 3), opened=asked, state="suspended", due=9e9))
    for decision in (Decision(b'{"ok":true}', "ada", "cli", "d" * 64), Decision(b'{"ok":false}', "eve", "http")):
        await g.store.answer(asked[0].request_id, decision, 4.5)
    whole = await g.store.whole(held.run_id)
    assert whole is not None, "a run that is there is handed on"
    return whole


async def a_run_is_handed_on_with_all_that_is_held_of_it(g: Ground) -> None:
    whole = await _full(g)
    run_id = whole.entry.run_id
    expect(whole.entry, await g.entry(run_id), "how it stands")
    expect(whole.rows, await g.store.rows(run_id), "its records")
    expect(whole.letters, await g.store.letters(run_id), "its letters")
    expect([letter.kind for letter in whole.letters], ["answer"], "the kinds of its letters")
    expect(whole.requests, await g.store.requests(run_id=run_id, state=None), "its requests")
    answers = [(whole.requests[0].request_id, given) for given in await g.store.answers(whole.requests[0].request_id)]
    expect(whole.answers, answers, "its audit")
    expect(len(answers), 2, "how many answers it tells of")
    expect(len(whole.digests), 1, "how many bytes it refers to")
    expect(await g.store.whole(f"nobody-{g.mark}"), None, "a run that is not there")


async def who_holds_a_run_is_handed_on_with_it(g: Ground) -> None:
    held = await g.held()
    whole = await g.store.whole(held.run_id)
    assert whole is not None, "a run that is there is handed on"
    assert whole.holder is not None, "a run that is held has a holder"
    expect(whole.holder[1], {"host": "here", "pid": 7}, "what the holder said of itself")
    expect(0 <= whole.holder[0] < 600, True, "that it was heard of just now")


def _other(whole: Whole, g: Ground) -> Whole:
    """The same run under another name, as no store holds it yet."""
    run_id = f"other-{whole.entry.run_id}"
    entry = whole.entry._replace(run_id=run_id, root=run_id, key=f"other-{g.mark}")
    names = {asked.request_id: f"other-{asked.request_id}" for asked in whole.requests}
    requests = [asked._replace(request_id=names[asked.request_id], run_id=run_id) for asked in whole.requests]
    return whole._replace(
        entry=entry, requests=requests, answers=[(names[request_id], given) for request_id, given in whole.answers]
    )


async def a_run_from_another_store_stands_as_it_stood_there(g: Ground) -> None:
    given = _other(await _full(g), g)
    blob = b"other bytes"
    digest = hashlib.sha256(blob).hexdigest()
    gone = "0" * 64
    given = given._replace(blobs={digest: blob}, digests=sorted([gone, digest]))
    expect(await g.store.adopt(given), None, "what is in the way")
    found = await g.store.whole(given.entry.run_id)
    assert found is not None, "a run that was taken in is there"
    letters = [letter._replace(id=0) for letter in found.letters]
    expect(letters, [letter._replace(id=0) for letter in given.letters], "its letters")
    expect(found._replace(letters=(), blobs={}), given._replace(letters=(), blobs={}), "all else of it")
    expect(await g.store.blob(digest), blob, "its bytes")
    expect(await g.store.blob(gone), None, "bytes that were gone")


async def a_run_from_another_store_is_due_like_one_of_this(g: Ground) -> None:
    given = _other(await _full(g), g)
    await g.store.adopt(given)
    worker = await g.enlist()
    claimed = await g.claimed(worker)
    expect(given.entry.run_id in claimed, True, "that a run with a letter is taken")


async def no_lease_comes_along_from_another_store(g: Ground) -> None:
    about = {"host": "there", "pid": 8}
    held = await g.held()
    whole = await g.store.whole(held.run_id)
    assert whole is not None, "a run that is there is handed on"
    given = _other(whole, g)
    dead = f"dead-{g.mark}"
    given = given._replace(entry=given.entry._replace(worker=dead), holder=(0.0, about))
    await g.store.adopt(given)
    known = await g.store.workers()
    expect(known.get(dead, (0, None))[1], about, "what is known of who held it there")
    expect(await g.store.beat(dead), False, "that its holder there is alive here")
    (taken,) = await g.claim(await g.enlist("me"))
    expect((taken.run_id, taken.epoch), (given.entry.run_id, given.entry.epoch + 1), "what is taken at once")


async def a_run_is_taken_in_once_and_one_in_its_way_stays(g: Ground) -> None:
    whole = await _full(g)
    expect(await g.store.adopt(whole), whole.entry, "a run of this id")
    expect(await g.store.whole(whole.entry.run_id), whole, "that run, afterwards")
    given = _other(whole, g)
    given = given._replace(entry=given.entry._replace(key=whole.entry.key))
    expect(await g.store.adopt(given), whole.entry, "a run of this key")
    expect(await g.store.entry(given.entry.run_id), None, "the run that was not taken in")
    expect(await g.store.requests(run_id=given.entry.run_id, state=None), [], "its requests")


async def a_run_that_was_taken_in_goes_on_like_any_other(g: Ground) -> None:
    given = _other(await _full(g), g)
    await g.store.adopt(given)
    worker = await g.enlist()
    held = next(held for held in await g.claim(worker) if held.run_id == given.entry.run_id)
    await g.store.append(held, Batch([row(held.seq + 1)], state="done"))
    expect(await g.seqs(held.run_id), [1, 2, 3, 4, 5], "its records")
    second = await g.store.create(NewRun(held.run_id, g.definition, row(1)), worker)
    expect(second, await g.entry(held.run_id), "a second start with its id")


async def runs_that_are_over_are_listed_by_their_end(g: Ground) -> None:
    states = ("done", "suspended", "failed", "blocked", "cancelled", "running", "incomplete")
    made = {state: await g.ended(state) for state in states}
    child = await g.ended(parent=made["done"].run_id, root=made["done"].run_id)
    mine = {held.run_id: state for state, held in made.items()} | {child.run_id: "inside"}
    ends = [(await g.entry(made[state].run_id)).updated for state in ("done", "failed", "cancelled", "incomplete")]
    expect(ends, sorted(ends), "the times of the ends")
    found = [mine[run_id] for run_id in await g.store.over() if run_id in mine]
    expect(found, ["done", "failed", "cancelled", "incomplete"], "outermost runs that are over")
    found = [mine[run_id] for run_id in await g.store.over(ends[2]) if run_id in mine]
    wanted = [state for state, end in zip(("done", "failed"), ends, strict=False) if end < ends[2]]
    expect(found, wanted, "those that ended before the third")


async def runs_weigh_what_they_hold(g: Ground) -> None:
    blob = g.mark.encode() * 1_000
    light = await g.ended()
    heavy = await g.ended(blobs={hashlib.sha256(blob).hexdigest(): blob})
    weights = await g.store.weigh([light.run_id, heavy.run_id, f"nobody-{g.mark}"])
    expect(sorted(weights), sorted([light.run_id, heavy.run_id]), "whose weights are told")
    expect(weights[heavy.run_id] - weights[light.run_id], len(blob), "what bytes add to a weight")


async def a_store_grows_by_what_it_holds(g: Ground) -> None:
    before = await g.store.size()
    blob = g.mark.encode() * 20_000
    held = await g.ended(blobs={hashlib.sha256(blob).hexdigest(): blob})
    with_it = await g.store.size()
    much = len(blob) * 9 // 10  # what begins a page may end up in one that was begun
    expect(with_it - before >= much, True, "that the store has grown by what was put in")
    await g.store.remove([held.run_id])
    expect(with_it - await g.store.size() >= much, True, "that it has shrunk when that was removed")


async def bytes_of_runs_that_are_over_for_long_can_be_removed(g: Ground) -> None:
    own, shared, waiting, young = (f"{word} {g.mark}".encode() for word in ("own", "shared", "waiting", "young"))
    blobs = {hashlib.sha256(blob).hexdigest(): blob for blob in (own, shared, waiting, young)}
    of_own, of_shared, of_waiting, of_young = blobs
    over = await g.ended(blobs={of_own: own, of_shared: shared, of_young: young})
    await g.parked(blobs={of_shared: shared, of_waiting: waiting})
    last = await g.ended(blobs={of_young: young})

    async def left() -> list[bytes]:
        return [blob for digest, blob in blobs.items() if await g.store.blob(digest) == blob]

    await g.store.remove_blobs((await g.entry(over.run_id)).updated)
    expect(await left(), [own, shared, waiting, young], "bytes of runs that are not over for so long")
    await g.store.remove_blobs((await g.entry(last.run_id)).updated)
    expect(await left(), [shared, waiting, young], "bytes when one that has them alone is over for so long")
    await g.store.remove_blobs((await g.entry(last.run_id)).updated + 600)
    expect(await left(), [shared, waiting], "bytes when all that are over are so for long")
    whole = await g.store.whole(over.run_id)
    expect(whole and whole.digests, sorted([of_own, of_shared, of_young]), "what the run refers to still")
    expect(await g.seqs(over.run_id), [1, 2], "its records")
