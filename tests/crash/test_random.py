"""Processes that are killed at random moments of runs of 50 calls, one after another: still nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from tests.crash.kit import ALL, Site, assert_holds, at_each, ended_by_another, opened, script, the_run, until, victim
from tests.crash.world import Sink

RUNS = 200 if ALL else 25
GROUPS = 5  # so that several workers of pytest share them


class Figures(NamedTuple):
    """What became of the runs of a group."""

    kills: int
    left: int  # runs that the first process ended before it could be killed in them
    effects: int
    again: int  # bodies that were begun more than once for one call


async def killed_at(place: str, sink: Sink, turns: str, lines: int) -> bool:
    """Kill a process when its tools have told so many lines; whether it held the run then."""
    async with victim(place, sink, turns=turns) as one, opened(place) as store:

        async def far() -> bool | None:
            entry = await the_run(store)
            over = entry is not None and entry.state == "done"
            return True if over or len(sink.lines()) >= lines else None

        await until(far)
        one.kill()
        await one.ended()
        entry = await the_run(store)  # as it left it
        if entry is None or entry.state == "done":
            return False
        if entry.state == "suspended":  # for an answer about a call that another kill broke off
            assert entry.worker is None
        else:
            await assert_holds(store, one.pid)
        return True


async def one_run(site: Site, folder: Path, seed: int) -> Figures:
    random = Random(seed)
    place, sink = site(folder)
    turns = f"mixed {seed}"
    kills, lines = 0, 0
    for _ in range(random.randint(1, 3)):
        lines = random.randint(max(lines, len(sink.lines())) + 1, 145)
        if not await killed_at(place, sink, turns, lines):
            break
        kills += 1
        if len(sink.lines()) > 140:
            break
    await ended_by_another(place, sink, script(turns))
    told = Counter((line.kind, line.tool, line.n) for line in sink.lines())
    effects = sum(n for (kind, *_), n in told.items() if kind == "effect")
    return Figures(kills, kills == 0, effects, sum(kind == "begin" and n > 1 for (kind, *_), n in told.items()))


@pytest.mark.case("C061", "C043")
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_run_of_mixed_calls_survives_being_killed_at_random_moments(site: Site, tmp_path: Path, group: int) -> None:
    seeds = [str(seed) for seed in range(RUNS) if seed % GROUPS == group]
    figures: list[Figures] = []

    async def one(folder: Path, seed: str) -> None:
        figures.append(await one_run(site, folder, int(seed)))

    began = time.monotonic()
    asyncio.run(at_each(seeds, one, tmp_path))
    total = Figures(*map(sum, zip(*figures, strict=True)))
    print(
        f"{len(figures)} runs of 50 calls, {total.kills} kills, {total.left} ended first, {total.effects} effects, "
        f"{total.again} bodies begun again, {time.monotonic() - began:.0f} s"
    )
    assert total.kills >= len(figures) // 2, total
