"""Several processes on one store: nothing is lost, nothing is there twice, and a killed one is taken over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.store import process
from tests.store.conftest import unique_schema

from ferrule.errors import LeaseLost
from ferrule.journal.store import Batch, Held, Row, Store

PROCESSES = 8


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return f"{request.getfixturevalue('dsn')}#{unique_schema()}"


@contextmanager
def started(how: str, place: str, number: int) -> Generator[subprocess.Popen[str]]:
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, process.__file__, how, place, str(number)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=60)


async def seqs(store: Store, run_id: str) -> list[int]:
    return [row.seq for row in await store.rows(run_id)]


@pytest.mark.case("C076")
def test_many_processes_share_a_place_from_the_first_open_on(place: str) -> None:
    told = [json.loads(out) for out in asyncio.run(all_at_once(place))]

    async def look() -> None:
        store = process.open_store(place)
        await store.open()
        for run_id, last in ((run_id, seq) for one in told for run_id, seq in one["wrote"].items()):
            assert await seqs(store, run_id) == [*range(1, last + 1)]
        assert all(one["shared"] == told[0]["shared"] for one in told)
        assert len(await store.entries(definition="shared", limit=10_000)) == process.SHARED
        claimed = [run_id for one in told for run_id in one["claimed"]]
        assert len(claimed) == len(set(claimed))
        left = await store.entries(definition="pool", state="running", limit=10_000)
        assert sorted([*claimed, *(entry.run_id for entry in left)]) == sorted(process.POOL)
        await store.close()

    asyncio.run(look())


async def all_at_once(place: str) -> list[str]:
    def run(number: int) -> str:
        with started("busy", place, number) as child:
            out, err = child.communicate(timeout=120)
            assert child.returncode == 0, err
            return out

    return await asyncio.gather(*(asyncio.to_thread(run, number) for number in range(PROCESSES)))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no signal that kills")
def test_what_was_acknowledged_survives_the_killing_of_the_process_and_the_run_is_taken_over(place: str) -> None:
    with started("victim", place, 1) as child:
        assert child.stdout is not None
        said = [int(child.stdout.readline()) for _ in range(20)]
        assert child.poll() is None  # it is at work
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split()
        child.wait(60)
    last = max([*said, *map(int, rest)])
    asyncio.run(take_over(place, last))


async def take_over(place: str, last: int) -> None:
    store = process.open_store(place)
    await store.open()
    entry = await store.entry("victim")
    assert entry is not None
    assert (entry.state, entry.worker) == ("running", "w1")  # the victim held the run
    found = await seqs(store, "victim")
    assert found == [*range(1, len(found) + 1)]
    assert last <= len(found) <= last + 2  # at most the append that was not acknowledged yet
    await store.enlist("w2", {})
    assert await store.claim("w2", ["own"], 1, process.LEASE) == []  # nobody knows yet that it is dead
    (held,) = await store.claim("w2", ["own"], 1, -1.0)
    assert held == Held("victim", 2, len(found) + 1, 1)
    with pytest.raises(LeaseLost):
        await store.append(Held("victim", 1, len(found)), Batch([Row(len(found) + 1, "note", 1, 0.0, b"{}")]))
    await store.close()
