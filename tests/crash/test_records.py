"""A process that dies in front of or behind any record: another one ends the run, and nothing is lost or made twice."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.crash.kit import ALL, Site, assert_holds, at_each, ended_by_another, opened, the_run, victim

TYPES: dict[str, tuple[list[int], int]] = {  # which of each in any case, and how many the run has
    "run.started": ([1], 1),
    "hook.returned": ([1], 20),
    "model.intended": ([3], 7),
    "model.responded": ([2], 7),
    "tool.intended": ([2, 5], 14),
    "tool.settled": ([3, 6], 14),
    "wait.opened": ([1], 2),
    "wait.answered": ([2], 2),
    "child.started": ([1], 1),
    "child.settled": ([1], 1),
    "run.settled": ([1], 1),
}


async def dies_at(site: Site, folder: Path, at: str) -> None:
    """One process dies at a point, another ends its run."""
    place, sink = site(folder)
    async with victim(place, sink, at) as first:
        await first.killed()
        async with opened(place) as store:
            entry = await the_run(store)
            if at == "record run.started 1 before":
                assert entry is None
            elif at.endswith("after") and entry is not None and entry.state in ("done", "suspended"):
                assert entry.worker is None  # the batch that held the record let go of the run
            else:
                await assert_holds(store, first.pid)
    await ended_by_another(place, sink)


@pytest.mark.parametrize("type", TYPES)
def test_a_run_whose_process_dies_at_a_record_is_ended_by_another(site: Site, tmp_path: Path, type: str) -> None:
    some, all = TYPES[type]
    points = [f"record {type} {n} {when}" for n in (range(1, all + 1) if ALL else some) for when in ("before", "after")]
    asyncio.run(at_each(points, partial(dies_at, site), tmp_path))


def test_a_run_whose_process_dies_when_it_has_taken_it_is_ended_by_another(site: Site, tmp_path: Path) -> None:
    asyncio.run(at_each(["record run.taken 1 after"], partial(dies_at, site), tmp_path))
