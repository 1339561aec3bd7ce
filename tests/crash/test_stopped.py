"""A process that stands still for longer than its lease loses its runs, and when it goes on it starts and writes nothing."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

from tests.crash.kit import (
    BOTH,
    LEASE,
    Site,
    Victim,
    assert_accounted,
    assert_holds,
    attended,
    opened,
    the_run,
    until,
    victim,
)
from tests.crash.world import Line, Sink

from ferrule.journal.store import Row, Store

INTENDED = "record tool.intended 1 after"  # both calls have been recorded, and neither has begun


async def taken(store: Store) -> Row | None:
    """The record of a takeover."""
    entry = await the_run(store)
    assert entry is not None
    return next((row for row in await store.rows(entry.run_id) if row.type == "run.taken"), None)


async def taken_over(first: Victim, place: str, sink: Sink, *, ends: bool) -> list[Line]:
    """Stop a process, let another take its run and get as far as it may; what the first did after it went on.

    `ends` says whether a body is to come to its end there.
    """
    async with opened(place) as store:
        await first.stopped()
        holder = (await assert_holds(store, first.pid)).worker or ""
        beat = time.time() - (await store.workers())[holder][0]
        second = asyncio.create_task(attended(place, sink, BOTH))
        try:

            async def tried() -> bool | None:  # the other call of the turn need not wait
                return True if sink.happened("put", 2) else None

            row = await until(lambda: taken(store))
            await until(tried)
            before = len(sink.lines())
            first.send(signal.SIGCONT)
            await first.says("was let go")

            async def ended() -> bool | None:
                return True if [line for line in sink.lines() if line.kind == "end" and line.tool == "pay"] else None

            if ends:
                await until(ended)
            assert row.at - beat <= 2 * LEASE
            told = [line for line in sink.lines()[before:] if line.pid == first.pid]
            assert not [line for line in sink.lines() if line.tool == "pay" and line.pid != first.pid]
            first.send(signal.SIGKILL)  # its death is seen, and what it began can no longer happen
            await first.killed()
            result = await second
        finally:
            second.cancel()
        await assert_accounted(store, sink, result, BOTH)
        kinds = [row.type for row in await store.rows(result.run_id)]
        assert kinds.count("run.taken") == 1
    return told


def test_a_process_that_goes_on_after_its_lease_starts_no_effect_and_writes_nothing(site: Site, tmp_path: Path) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        async with victim(place, sink, INTENDED, by="STOP", turns="both") as first:
            assert await taken_over(first, place, sink, ends=False) == []
            assert {line.pid for line in sink.lines()}.isdisjoint({first.pid})

    asyncio.run(main())


def test_a_body_that_stood_still_may_end_and_is_not_made_again_beside_it(site: Site, tmp_path: Path) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        async with victim(place, sink, "body pay 1 before", by="STOP", turns="both") as first:
            told = await taken_over(first, place, sink, ends=True)
            assert ["effect", "end"] == [line.kind for line in told if line.tool == "pay"]

    asyncio.run(main())


def test_a_process_that_stood_still_takes_its_own_run_again_when_nobody_else_has(site: Site, tmp_path: Path) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        async with victim(place, sink, INTENDED, by="STOP", turns="both") as first, opened(place) as store:
            await first.stopped()
            holder = (await assert_holds(store, first.pid)).worker or ""

            async def lapsed() -> bool | None:
                return True if (await store.workers())[holder][0] > LEASE else None

            await until(lapsed)
            first.send(signal.SIGCONT)
            said = await first.ended()
            assert "was let go" in said
            assert first.process.returncode == 0, said
            # Nobody else can tell whether the process that is still there has done it: the deadline and a lease pass.
            result = await attended(place, sink, BOTH)
            await assert_accounted(store, sink, result, BOTH)

    asyncio.run(main())
