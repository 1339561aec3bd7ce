"""Runs, their records, their bytes, and their end."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from ferrule.errors import LeaseLost, StoreError
from ferrule.journal.store import Batch, Entry, Held, NewRun, Row
from ferrule.testing._store.ground import Ground, expect, only, refused, row, rows


async def a_new_run_is_held_with_its_first_record(g: Ground) -> None:
    worker = await g.enlist()
    new = g.new(session=f"s-{g.mark}", key=f"k-{g.mark}", tags={"team": "blue", "ring": "eins · zwei"})
    expect(await g.store.create(new, worker), Held(new.run_id, 1, 1), "the holding of a new run")
    expect(await g.store.rows(new.run_id), [new.started], "its records")
    at = new.started.at
    wanted = Entry(
        new.run_id, g.definition, "running", 1, 1, worker, None, new.run_id, new.session, new.key, new.tags, at, at,
        None, 0,
    )  # fmt: skip
    expect(await g.store.entry(new.run_id), wanted, "its entry")


async def a_run_for_nobody_waits_to_be_claimed(g: Ground) -> None:
    new = g.new()
    expect(await g.store.create(new, None), Held(new.run_id, 0, 1), "the holding of a run for nobody")
    await refused(g.store.append(Held(new.run_id, 0, 1), Batch(rows(2, 2))), LeaseLost, "an append by nobody")
    worker = await g.enlist()
    expect(await g.claim(worker), [Held(new.run_id, 1, 2, 1)], "what is claimed")


async def a_second_start_with_one_key_gives_the_first_run(g: Ground) -> None:
    key = f"k-{g.mark}"
    held = await g.held(key=key)
    second = g.new(key=key, blobs={"0" * 64: b"never kept"})
    expect(await g.store.create(second, g.worker), await g.entry(held.run_id), "the second start")
    expect(await g.store.entry(second.run_id), None, "a run of the second start")
    expect(await g.store.rows(second.run_id), [], "its records")


async def a_second_start_with_one_id_gives_the_first_run(g: Ground) -> None:
    held = await g.held()
    second = NewRun(held.run_id, "another", row(1))
    expect(await g.store.create(second, g.worker), await g.entry(held.run_id), "the second start")


async def of_many_starts_at_once_with_one_key_one_is_made(g: Ground) -> None:
    worker = await g.enlist()
    news = [g.new(key=f"k-{g.mark}") for _ in range(50)]
    made = await asyncio.gather(*(g.store.create(new, worker) for new in news))
    expect(sum(isinstance(one, Held) for one in made), 1, "how many were made")
    expect(len({one.run_id for one in made}), 1, "how many runs they were told of")


async def records_come_back_in_order_as_they_were_given(g: Ground) -> None:
    held = await g.held()
    given = [Row(2, "tool.settled", 3, 1234567890.123456, '{"text":"ä\\u0000"}'.encode()), Row(3, "note", 1, 0.1, b"")]
    await g.store.append(held, Batch(given))
    await g.store.append(held, Batch(rows(4, 6)))
    expect((await g.store.rows(held.run_id))[1:3], given, "the records")
    expect(await g.seqs(held.run_id), [1, 2, 3, 4, 5, 6], "their order")
    expect([found.seq for found in await g.store.rows(held.run_id, after=4)], [5, 6], "those after the fourth")
    expect(await g.store.rows(f"{held.run_id}-none"), [], "those of a run that is not there")
    expect((await g.entry(held.run_id)).seq, 6, "the last in the entry")


async def an_append_dates_the_run(g: Ground) -> None:
    held = await g.held()
    await g.store.append(held, Batch([Row(2, "note", 1, 4_000_000_000.25, b"{}")]))
    expect((await g.entry(held.run_id)).updated, 4_000_000_000.25, "when it was written last")


async def records_have_no_gap_and_no_double(g: Ground) -> None:
    held = await g.held()
    await g.store.append(held, Batch(rows(2, 3)))
    for wrong in (rows(5, 6), rows(3, 4), rows(2, 2), [row(4), row(6)], [row(4), row(4)], [row(5), row(4)]):
        what = f"records {[one.seq for one in wrong]} after the third"
        await refused(g.store.append(held, Batch(wrong)), StoreError, what)
    expect(await g.seqs(held.run_id), [1, 2, 3], "the records after that")
    await g.store.append(held, Batch(rows(4, 4)))


async def appends_of_one_holding_are_written_in_the_order_of_the_calls(g: Ground) -> None:
    helds = [await g.held() for _ in range(5)]
    waiting = [g.store.append(held, Batch(rows(seq, seq + 1))) for seq in range(2, 100, 2) for held in helds]
    await asyncio.gather(*waiting)
    for held in helds:
        expect(await g.seqs(held.run_id), [*range(1, 100)], "the records")


async def who_lost_a_run_cannot_write_to_it(g: Ground) -> None:
    held = await g.held()
    await g.store.retire(g.worker)
    taken = only(await g.claim(await g.enlist("-2")), "runs are due")
    expect(taken, Held(held.run_id, 2, 2, 1), "the new holding")
    for batch in (Batch(rows(2, 2)), Batch(rows(3, 3)), Batch([]), Batch([], state="done")):
        await refused(g.store.append(held, batch), LeaseLost, "an append under the old holding")
    expect(await g.seqs(held.run_id), [1, 2], "the records after that")
    expect((await g.entry(held.run_id)).state, "running", "the state after that")
    await g.store.append(taken, Batch(rows(3, 3)))


async def who_let_go_of_a_run_cannot_write_to_it(g: Ground) -> None:
    parked, ended, released = await g.parked(), await g.ended(), await g.held()
    await g.store.release(released)
    for held, seq in ((parked, 3), (ended, 3), (released, 2)):
        await refused(g.store.append(held, Batch(rows(seq, seq))), LeaseLost, "an append after letting go")
    unknown = Held(f"{parked.run_id}-none", 1, 1)
    await refused(g.store.append(unknown, Batch(rows(2, 2))), LeaseLost, "an append to a run that is not there")


async def an_append_writes_all_or_nothing(g: Ground) -> None:
    first = await g.open()
    held = await g.held()
    await g.store.post(held.run_id, "event", b"{}")
    letter = only(await g.store.letters(held.run_id), "letters there are")
    digest = hashlib.sha256(g.mark.encode()).hexdigest()
    batch = Batch(
        rows(2, 3), {digest: g.mark.encode()}, opened=[first], read=[letter.id], state="suspended", due=1.0
    )  # a request of that id is there already
    await refused(g.store.append(held, batch), StoreError, "a request id that is there")
    entry = await g.entry(held.run_id)
    expect((entry.seq, entry.state, entry.due, entry.worker), (1, "running", None, g.worker), "the run after that")
    expect(await g.seqs(held.run_id), [1], "its records")
    expect(await g.store.blob(digest), None, "the bytes")
    expect(await g.store.letters(held.run_id), [letter], "its letters")
    expect(await g.store.asked(first.request_id), first, "the request")


async def an_append_that_fails_takes_no_other_down(g: Ground) -> None:
    helds = [await g.held() for _ in range(20)]
    waiting = [g.store.append(held, Batch(rows(2 + i % 2, 3))) for i, held in enumerate(helds)]
    done = await asyncio.gather(*waiting, return_exceptions=True)
    expect([type(one) for one in done], [type(None), StoreError] * 10, "how they ended")
    expect([len(await g.seqs(held.run_id)) for held in helds], [3, 1] * 10, "how many records are there")


async def an_append_says_how_the_run_stands(g: Ground) -> None:
    held = await g.held()
    await g.store.append(held, Batch(rows(2, 2), state="running"))
    await g.store.append(held, Batch(rows(3, 3)))
    entry = await g.entry(held.run_id)
    expect((entry.state, entry.worker), ("running", g.worker), "a run that goes on")
    await g.store.append(held, Batch([], state="suspended", due=9e9))
    entry = await g.entry(held.run_id)
    expect((entry.state, entry.worker, entry.due, entry.seq), ("suspended", None, 9e9, 3), "a run that is parked")
    for state in ("done", "incomplete", "failed", "cancelled", "blocked"):
        entry = await g.entry((await g.ended(state, definition=f"{g.definition}-{state}")).run_id)
        expect((entry.state, entry.worker, entry.due), (state, None, None), "a run that has ended")


async def entries_are_found_the_latest_first(g: Ground) -> None:
    parent = await g.held()
    child = await g.parked(parent=parent.run_id, root=parent.run_id)
    last = await g.held()

    async def found(**filters: Any) -> list[str]:
        return [entry.run_id for entry in await g.store.entries(**filters)]

    mine = {"definition": g.definition}
    expect(await found(**mine), [last.run_id, child.run_id, parent.run_id], "runs of one definition")
    expect(await found(**mine, limit=2), [last.run_id, child.run_id], "the latest two")
    expect(await found(**mine, state="running"), [last.run_id, parent.run_id], "those that are running")
    expect(await found(parent=parent.run_id), [child.run_id], "those inside one")
    expect(await found(parent=parent.run_id, state="failed"), [], "those inside one that failed")
    expect((await g.entry(child.run_id)).root, parent.run_id, "the root of a run inside")
    expect(await g.store.entry(f"{last.run_id}-none"), None, "a run that is not there")


async def bytes_are_kept_once_and_for_all_who_refer_to_them(g: Ground) -> None:
    data = bytes(range(256)) * 200 + g.mark.encode()
    digest = hashlib.sha256(data).hexdigest()
    first, second = await g.held(), await g.held()
    await g.store.append(first, Batch(rows(2, 2), {digest: data}))
    # Those that are there stay: nobody compares the bytes of one digest.
    await g.store.append(second, Batch(rows(2, 2), {digest: data}, state="done"))
    await g.store.append(first, Batch(rows(3, 3), {digest: data}, state="done"))
    expect(await g.store.blob(digest), data, "the bytes")
    expect(await g.store.blob("f" * 64), None, "bytes that are not there")
    await g.store.remove([first.run_id])
    expect(await g.store.blob(digest), data, "the bytes, while another run refers to them")
    await g.store.remove([second.run_id])
    expect(await g.store.blob(digest), None, "the bytes, when nobody does")


async def a_run_may_start_with_bytes(g: Ground) -> None:
    data = g.mark.encode() * 99
    digest = hashlib.sha256(data).hexdigest()
    await g.held(blobs={digest: data})
    expect(await g.store.blob(digest), data, "the bytes")


async def runs_that_are_over_can_be_removed(g: Ground) -> None:
    key = f"k-{g.mark}"
    top = await g.held(key=key)
    child = await g.ended(parent=top.run_id, root=top.run_id)
    await g.store.append(
        top, Batch(rows(2, 2), opened=[g.asked(top)], closed=[g.asked(top).request_id], state="failed")
    )
    going, parked, blocked = await g.held(), await g.parked(), await g.ended("blocked")
    stay = [going.run_id, parked.run_id, blocked.run_id]
    expect(await g.store.remove([top.run_id, *stay, f"{top.run_id}-none"]), 2, "how many were removed")
    for run_id in (top.run_id, child.run_id):
        expect((await g.store.entry(run_id), await g.store.rows(run_id)), (None, []), "what is left of them")
    expect(await g.store.asked(g.asked(top).request_id), None, "a request of them")
    expect([len(await g.seqs(run_id)) for run_id in stay], [1, 2, 2], "what is left of those that are not over")
    again = await g.held(key=key)
    expect(again.epoch, 1, "a new start with the key of a removed run")


async def nothing_of_a_tree_that_goes_on_is_removed(g: Ground) -> None:
    top = await g.held()
    child = await g.ended(parent=top.run_id, root=top.run_id)
    above = await g.ended()
    below = await g.parked(parent=above.run_id, root=above.run_id)
    expect(await g.store.remove([child.run_id, above.run_id]), 0, "how many were removed")
    for run_id in (child.run_id, above.run_id, below.run_id):
        expect(await g.seqs(run_id), [1, 2], "its records")


async def a_fork_shares_the_records_before_it_and_goes_on_with_its_own(g: Ground) -> None:
    top = await g.held()
    await g.store.append(top, Batch(rows(2, 9), state="done"))
    whole = await g.store.rows(top.run_id)
    forked = await g.held(forked_from=top.run_id, forked_at=6)
    expect((forked.epoch, forked.seq), (1, 6), "the holding of a fork")
    entry = await g.entry(forked.run_id)
    expect((entry.seq, entry.forked_from, entry.forked_at), (6, top.run_id, 6), "what its entry tells")
    first = only([r for r in await g.store.rows(forked.run_id) if r.seq == 1], "first records there are")
    own = [row(n, "own") for n in (7, 8)]
    await g.store.append(forked, Batch(own))
    expect(await g.store.rows(forked.run_id), [first, *whole[1:6], *own], "its records")
    expect(await g.store.rows(forked.run_id, 4), [*whole[4:6], *own], "those after one that it shares")
    expect(await g.store.rows(forked.run_id, 7), own[1:], "those after one of its own")
    expect(await g.store.rows(top.run_id), whole, "the records of the other one")
    twice = await g.held(forked_from=forked.run_id, forked_at=7)
    early = await g.held(forked_from=forked.run_id, forked_at=3)
    expect(
        [r.type for r in await g.store.rows(twice.run_id)][1:], [r.type for r in [*whole[1:6], own[0]]], "a fork of it"
    )
    expect((await g.store.rows(early.run_id))[1:], whole[1:3], "a fork of it before that")
    found = await g.store.forks([top.run_id, forked.run_id, twice.run_id])
    expect(found, {top.run_id: [forked.run_id], forked.run_id: [twice.run_id, early.run_id]}, "who shares records")


async def a_fork_of_what_is_not_there_is_refused(g: Ground) -> None:
    held = await g.held()
    for run_id, at in ((f"{held.run_id}-none", 1), (held.run_id, 2), (held.run_id, 0)):
        new = g.new(forked_from=run_id, forked_at=at)
        await refused(g.store.create(new, g.worker), StoreError, "a fork of what is not there")
        expect(await g.store.entry(new.run_id), None, "a run of it")


async def a_run_that_has_forks_is_removed_with_or_after_them_only(g: Ground) -> None:
    data = b"shared" + g.mark.encode()
    digest = hashlib.sha256(data).hexdigest()
    top = await g.held(blobs={digest: data})
    await g.store.append(top, Batch(rows(2, 4), state="done"))
    forked = await g.held(forked_from=top.run_id, forked_at=3)
    expect(await g.store.remove([top.run_id]), 0, "how many were removed")
    expect(await g.store.remove([top.run_id, forked.run_id]), 0, "how many while the fork goes on")
    expect((await g.seqs(forked.run_id), await g.store.blob(digest)), ([1, 2, 3], data), "what the fork shares")
    await g.store.append(forked, Batch([row(4)], state="done"))
    expect(await g.store.remove([top.run_id, forked.run_id]), 2, "how many once it is over, whatever their order")
    expect(await g.store.entry(top.run_id), None, "the run")


async def a_closed_store_says_so_and_opens_again(g: Ground) -> None:
    held = await g.held()
    waiting = g.store.append(held, Batch(rows(2, 3)))
    await g.store.close()
    await waiting
    await refused(g.store.rows(held.run_id), StoreError, "reading a closed store")
    await refused(g.store.append(held, Batch(rows(4, 4))), StoreError, "writing to a closed store")
    await g.store.close()
    await g.store.open()
    await g.store.open()
    expect(await g.seqs(held.run_id), [1, 2, 3], "what was waiting when it was closed")
    await g.store.append(held, Batch(rows(4, 4)))
