"""A process that dies in front of or behind any record: another one ends the run, and nothing is lost or made twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.crash.kit import assert_holds, at_each, ended_by_another, opened, the_run, victim
from tests.crash.world import Sink

TYPES = {  # which of each, in the order in which they are written
    "run.started": [1],
    "hook.returned": [1],
    "model.intended": [1, 3],
    "model.responded": [2],
    "tool.intended": [2, 3, 5, 8],
    "tool.settled": [1, 3, 6],
    "wait.opened": [1, 2],
    "wait.answered": [1, 2],
    "child.started": [1],
    "child.settled": [1],
    "run.settled": [1],
}
AT_THE_END = ("record child.settled 1 after", "record run.settled 1 after")  # what follows may be in one batch with it


async def dies_at(folder: Path, at: str) -> None:
    """One process dies at a point, another ends its run."""
    path, sink = folder / "runs.db", Sink(folder / "sink")
    async with victim(path, sink, at) as first:
        await first.killed()
        async with opened(path) as store:
            entry = await the_run(store)
            if at == "record run.started 1 before":
                assert entry is None
            elif at not in AT_THE_END or entry is None or entry.state != "done":
                await assert_holds(store, first.pid)
    await ended_by_another(path, sink)


@pytest.mark.parametrize("type", TYPES)
def test_a_run_whose_process_dies_at_a_record_is_ended_by_another(tmp_path: Path, type: str) -> None:
    points = [f"record {type} {nth} {when}" for nth in TYPES[type] for when in ("before", "after")]
    asyncio.run(at_each(points, dies_at, tmp_path))


def test_a_run_whose_process_dies_when_it_has_taken_it_is_ended_by_another(tmp_path: Path) -> None:
    asyncio.run(at_each(["record run.taken 1 after"], dies_at, tmp_path))
