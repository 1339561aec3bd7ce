"""Workers, what they hold, and the letters of runs."""

from __future__ import annotations

import asyncio
import time

from ferrule.errors import LeaseLost
from ferrule.journal.store import Batch, Held
from ferrule.strict_json import parse
from ferrule.testing._store.ground import Ground, expect, only, refused, rows


async def a_worker_is_alive_until_it_retires(g: Ground) -> None:
    expect(await g.store.beat(g.worker), False, "a beat of nobody")
    await g.store.enlist(g.worker, {"host": "ä", "pid": 7, "boot": None})
    since, about = (await g.store.workers())[g.worker]
    expect(about, {"host": "ä", "pid": 7, "boot": None}, "what it said of itself")
    expect(0 <= since < 60, True, f"the seconds since its last beat, {since}")
    expect(await g.store.beat(g.worker), True, "a beat")
    await g.store.retire(g.worker)
    expect(g.worker in await g.store.workers(), False, "whether it is enlisted after retiring")
    expect(await g.store.beat(g.worker), False, "a beat after retiring")
    await g.store.retire(g.worker)


async def runs_of_the_living_are_not_taken(g: Ground) -> None:
    await g.held()
    expect(await g.claimed(await g.enlist("-2")), [], "what another takes")


async def runs_of_whoever_retired_are_taken_with_a_record(g: Ground) -> None:
    held = await g.held()
    await g.store.retire(g.worker)
    second = await g.enlist("-2")
    expect(await g.claim(second), [Held(held.run_id, 2, 2, 1)], "what another takes")
    entry = await g.entry(held.run_id)
    found = (entry.state, entry.worker, entry.epoch, entry.seq, entry.takeovers)
    expect(found, ("running", second, 2, 2, 1), "its entry")
    taken = (await g.store.rows(held.run_id))[-1]
    expect((taken.seq, taken.type, taken.v), (2, "run.taken", 1), "its last record")
    expect(parse(taken.body), {"worker": second, "epoch": 2}, "what that says")
    expect(await g.claimed(await g.enlist("-3")), [], "what a third takes then")


async def runs_of_whoever_lapsed_are_taken_and_it_hears_of_that(g: Ground) -> None:
    held = await g.held()
    second = await g.enlist("-2")
    # With no time at all to stay alive in, everybody is dead: no need to wait for a lease to run out.
    expect(await g.claimed(second, lease=-1.0), [held.run_id], "what another takes")
    expect(await g.store.beat(g.worker), False, "a beat of the one that was found dead")
    await refused(g.store.append(held, Batch(rows(2, 2))), LeaseLost, "an append of it")


async def a_holder_is_alive_for_the_lease_that_it_has_itself(g: Ground) -> None:
    held = await g.held()
    await g.store.enlist(g.worker, {"lease": 600.0})
    second = await g.enlist("-2")
    expect(await g.claimed(second, lease=-1.0), [], "what is taken from one with a longer lease than the taker's")
    await g.store.enlist(g.worker, {"lease": -1.0})
    expect(await g.claimed(second, lease=600.0), [held.run_id], "what is taken from one whose own lease is over")


async def only_what_a_worker_can_run_is_taken_the_oldest_first(g: Ground) -> None:
    for_nobody = [g.new() for _ in range(3)]
    other = g.new(definition=f"{g.definition}-other")
    for new in (*for_nobody, other):
        await g.store.create(new, None)
    worker = await g.enlist()
    expect(await g.store.claim(worker, [], 10, 60.0), [], "what is taken by one that can run nothing")
    last = for_nobody.pop()
    took = await g.store.claim(worker, [g.definition], 10, 60.0, last.run_id)
    expect([held.run_id for held in took], [last.run_id], "the one that was named")
    for_nobody.append(g.new())
    await g.store.create(for_nobody[-1], None)
    expect(await g.claimed(worker, limit=2), [new.run_id for new in for_nobody[:2]], "the first two")
    expect(await g.claimed(worker, limit=2), [for_nobody[2].run_id], "the rest")
    expect((await g.entry(other.run_id)).worker, None, "who holds a run of another definition")


async def takeovers_are_counted_until_a_record_is_written(g: Ground) -> None:
    held = await g.held()
    for count in (1, 2, 3):
        await g.store.retire(g.worker)
        await g.enlist()
        held = only(await g.claim(g.worker), "runs are due")
        expect(held.takeovers, count, "how often it was taken")
    await g.store.append(held, Batch([]))
    expect((await g.entry(held.run_id)).takeovers, 3, "the takeovers, when nothing was recorded")
    await g.store.append(held, Batch(rows(held.seq + 1, held.seq + 1)))
    expect((await g.entry(held.run_id)).takeovers, 0, "the takeovers after a record of its own")


async def of_many_who_look_at_once_one_takes_a_run(g: Ground) -> None:
    news = [g.new() for _ in range(40)]
    await asyncio.gather(*(g.store.create(new, None) for new in news))
    workers = [await g.enlist(f"-{i}") for i in range(10)]
    taken = await asyncio.gather(*(g.claimed(worker, 7) for worker in workers))
    taken.append(await g.claimed(workers[0], 100))
    every = sorted(run_id for one in taken for run_id in one)
    expect(every, sorted(new.run_id for new in news), "what they took together")


async def a_parked_run_is_left_alone(g: Ground) -> None:
    await g.parked()
    await g.parked(due=time.time() + 1_000_000)
    expect(await g.claimed(await g.enlist()), [], "what is taken")


async def a_parked_run_past_its_time_is_due(g: Ground) -> None:
    late = await g.parked(due=time.time() - 1_000)
    held = only(await g.claim(await g.enlist()), "runs are due")
    expect((held.run_id, held.epoch, held.seq), (late.run_id, 2, 3), "what is taken")
    entry = await g.entry(late.run_id)
    expect((entry.state, entry.due), ("running", None), "how it stands then")


async def a_parked_run_with_a_letter_is_due_until_it_was_read(g: Ground) -> None:
    parked = await g.parked()
    expect(await g.store.post(parked.run_id, "event", b'{"n":1}'), True, "whether a letter was left")
    held = only(await g.claim(await g.enlist()), "runs are due")
    await g.store.append(held, Batch(rows(4, 4), state="suspended"))
    held = only(await g.claim(g.worker), "runs are due")
    read = [letter.id for letter in await g.store.letters(held.run_id)]
    await g.store.append(held, Batch(rows(held.seq + 1, held.seq + 1), read=read, state="suspended"))
    expect(await g.claimed(g.worker), [], "what is taken once it was read")


async def a_blocked_run_is_taken_to_be_cancelled_and_for_nothing_else(g: Ground) -> None:
    held = await g.ended("blocked")
    await g.store.post(held.run_id, "event", b"{}")
    expect(await g.claimed(g.worker), [], "what is taken for an event")
    await g.store.post(held.run_id, "cancel", b"{}")
    expect(await g.claimed(g.worker), [held.run_id], "what is taken when it is cancelled")
    expect((await g.entry(held.run_id)).state, "running", "how it stands then")


async def runs_that_have_ended_are_never_taken(g: Ground) -> None:
    for state in ("done", "incomplete", "failed", "cancelled"):
        held = await g.ended(state)
        await g.store.post(held.run_id, "event", b"{}")
    await g.store.retire(g.worker)
    expect(await g.claimed(await g.enlist("-2"), lease=-1.0), [], "what is taken")


async def a_blocked_run_is_left_alone_until_somebody_says_something_to_it(g: Ground) -> None:
    blocked = await g.ended("blocked")
    expect(await g.claimed(await g.enlist("-2"), lease=-1.0), [], "what is taken")
    await g.store.post(blocked.run_id, "resume", b"{}")
    expect(await g.claimed(g.worker), [blocked.run_id], "what is taken then")


async def a_run_let_go_of_is_taken_by_the_next(g: Ground) -> None:
    held = await g.held()
    await g.store.release(held)
    entry = await g.entry(held.run_id)
    expect((entry.state, entry.worker, entry.epoch), ("running", None, 1), "the run that was let go of")
    second = await g.enlist("-2")
    expect(await g.claimed(second), [held.run_id], "what another takes")
    await g.store.release(held)
    expect((await g.entry(held.run_id)).worker, second, "who holds it when the former lets go again")


async def letters_come_in_order_and_are_gone_when_read(g: Ground) -> None:
    held, other = await g.held(), await g.held()
    await g.store.post(other.run_id, "cancel", b'{"by":"me"}')
    bodies = [f'{{"n":{n}}}'.encode() for n in range(5)]
    for body in bodies:
        expect(await g.store.post(held.run_id, "event", body), True, "whether a letter was left")
    letters = await g.store.letters(held.run_id)
    expect([(letter.kind, letter.body) for letter in letters], [("event", body) for body in bodies], "the letters")
    expect(all(abs(letter.at - time.time()) < 3600 for letter in letters), True, "whether they say when they came")
    # Those of another run are not its to read.
    foreign = only(await g.store.letters(other.run_id), "letters there are")
    await g.store.append(held, Batch(rows(2, 2), read=[letters[0].id, letters[2].id, foreign.id]))
    expect(await g.store.letters(held.run_id), [letters[1], letters[3], letters[4]], "those that were not read")
    expect(await g.store.letters(other.run_id), [foreign], "those of another run")
    await g.store.append(held, Batch([], read=[letter.id for letter in letters]))
    await g.store.post(held.run_id, "late", b"{}")
    new = only(await g.store.letters(held.run_id), "letters there are")
    expect(new.id > letters[-1].id, True, "whether a number is used once")


async def letters_of_a_kind_are_found_for_all_runs_of_a_worker(g: Ground) -> None:
    mine, other = [await g.held(), await g.held()], await g.held(await g.enlist("-2"))
    for held in (*mine, other):
        await g.store.post(held.run_id, "event", b"{}")
        await g.store.post(held.run_id, "cancel", b'{"by":"me"}')
    found = [(run_id, letter.kind, letter.body) for run_id, letter in await g.store.letters_of(g.worker, "cancel")]
    expect(found, [(held.run_id, "cancel", b'{"by":"me"}') for held in mine], "the letters")


async def no_letter_is_left_for_a_run_that_is_over_or_not_there(g: Ground) -> None:
    held = await g.ended()
    for run_id in (held.run_id, f"{held.run_id}-none"):
        expect(await g.store.post(run_id, "event", b"{}"), False, "whether a letter was left")
        expect(await g.store.letters(run_id), [], "its letters")
    blocked = await g.ended("blocked")
    expect(await g.store.post(blocked.run_id, "cancel", b"{}"), True, "a letter for a run that is blocked")
