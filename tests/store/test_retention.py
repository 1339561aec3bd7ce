"""Runs that are over go by age or by the size of the store; what goes on, waits or is blocked never does."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from tests.store.conftest import Make, unique_schema
from tests.store.test_archive import DIGEST, answered, app, ended, file_of, opened, waiting
from tests.unit.runtime.test_fork import script

from ferrule import Agent, App, tool
from ferrule.errors import UsageError
from ferrule.journal.archive import import_run
from ferrule.journal.retention import Retention, described, keep_to, read_size, read_span, sweep
from ferrule.journal.sqlite import MemoryStore, SqliteStore
from ferrule.journal.store import Batch, Held, NewRun, Row, State, Store
from ferrule.strict_json import dumps, parse, restore, typed
from ferrule.testing import call

DAY = 86_400.0
OVER = {"done", "incomplete", "failed", "cancelled"}


@pytest.fixture
def postgres_schema() -> str:
    """One for each test: bytes that runs of another one share are not let go of."""
    return unique_schema()


async def run(
    store: Store, state: State, at: float, *, size: int = 10, parent: str | None = None, blob: bytes = b""
) -> str:
    """A run of some size that stood still at a time."""
    run_id = f"run_{os.urandom(6).hex()}"
    blobs = {hashlib.sha256(blob).hexdigest(): blob} if blob else {}
    started = Row(1, "run.started", 1, at, dumps({"input": "x" * size}))
    held = await store.create(NewRun(run_id, "d", started, parent=parent, root=parent, blobs=blobs), "w")
    assert isinstance(held, Held)
    await store.append(held, Batch([Row(2, "note", 1, at, b"{}")], state=state))
    return run_id


async def left(store: Store, run_ids: list[str]) -> list[str]:
    return [run_id for run_id in run_ids if await store.entry(run_id) is not None]


def test_runs_that_are_over_for_long_are_removed_and_no_others(make: Make) -> None:
    async def main() -> None:
        async with opened(make()) as store:
            old = {state: await run(store, state, 10 * DAY) for state in get_args(State)}
            young = [await run(store, state, 12 * DAY) for state in get_args(State)]
            await sweep(store, Retention(older_than=1.5 * DAY), now=13 * DAY)
            assert await left(store, young) == young
            assert {state for state, run_id in old.items() if await left(store, [run_id])} == {*old} - OVER

    asyncio.run(main())


def test_a_run_around_or_inside_one_that_is_open_stays_with_all_of_it(make: Make) -> None:
    async def main() -> None:
        async with opened(make()) as store:
            top = await run(store, "done", 1.0)
            inside = await run(store, "suspended", 1.0, parent=top)
            other = await run(store, "done", 1.0)
            below = await run(store, "failed", 1.0, parent=other)
            await sweep(store, Retention(older_than=DAY, keep_size=0))
            assert await left(store, [top, inside, other, below]) == [top, inside]

    asyncio.run(main())


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_beyond_a_size_the_runs_that_ended_first_go_and_not_more_than_need_be(kind: Any, tmp_path: Path) -> None:
    async def main() -> None:
        store = kind() if kind is MemoryStore else kind(tmp_path / "runs.db")
        async with opened(store):
            open_run = await run(store, "suspended", 0.0, size=200_000)
            runs = [await run(store, "done", 300.0 - n, size=100_000) for n in range(250)]
            before = await store.size()
            assert await sweep(store, Retention(keep_size=before)) == (0, 0)
            swept = await sweep(store, Retention(keep_size=before - 12_000_000))
            assert await store.size() <= before - 12_000_000
            assert 115 <= swept.runs <= 125
            assert await left(store, runs) == runs[: 250 - swept.runs]
            await sweep(store, Retention(keep_size=0))
            assert [entry.run_id for entry in await store.entries()] == [open_run]

    asyncio.run(main())


def test_the_bytes_of_runs_that_are_over_for_long_go_and_those_of_others_stay(make: Make) -> None:
    def bytes_of(word: str) -> bytes:
        return f"{word} {os.urandom(4).hex()}".encode() * 100

    async def main() -> None:
        async with opened(make()) as store:
            alone, shared, waits = bytes_of("alone"), bytes_of("shared"), bytes_of("waits")
            await run(store, "done", 1.0, blob=alone)
            await run(store, "failed", 1.0, blob=shared)
            await run(store, "done", 50 * DAY, blob=shared)
            await run(store, "suspended", 1.0, blob=waits)
            assert (await sweep(store, Retention(blobs_older_than=DAY), now=50.5 * DAY)).blobs >= 1
            found = [await store.blob(hashlib.sha256(blob).hexdigest()) for blob in (alone, shared, waits)]
            assert found == [None, shared, waits]

    asyncio.run(main())


def test_a_run_whose_bytes_are_gone_is_shown_with_what_they_were_and_can_be_moved(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "runs.db")  # a place where no other test keeps the same bytes
        run_id = await waiting(store)
        await answered(store, run_id)
        await ended(store, run_id, [])
        async with opened(store), opened(MemoryStore()) as other:
            await sweep(store, Retention(blobs_older_than=0.0), now=4e9)
            assert await store.blob(DIGEST) is None
            await import_run(other, await file_of(store, run_id))
        made = app(store)
        async with made.working(takes=False) as worker:
            result = await worker.result(run_id)
        assert (result.status, result.output) == ("done", "all is done")
        parts = [part for message in result.messages for part in getattr(message, "parts", ())]
        assert parts[1:] == [  # the first is what the user said
            {"type": "text", "text": f"[image image/png: 66,680 bytes with SHA-256 {DIGEST}, no longer kept]"}
        ]

    asyncio.run(main())


@tool(effect="once")
def write(text: str) -> str:
    """Write."""
    return f"{len(text)} written"


class Report(BaseModel):
    text: str


LONG = {"text": "z" * 60_000}
INNER = Agent("inner", script([call("write", LONG)], "inner done"), tools=[write])


@pytest.mark.parametrize(
    ("agent", "output", "is_compared"),
    [
        (Agent("flat", script([call("write", LONG)], "done"), tools=[write]), "done", True),
        (
            Agent("outer", script([call("inner", {"input": LONG["text"]})], "done"), tools=[INNER.as_tool()]),
            "done",
            False,
        ),
        (
            Agent("typed", script([call("write", LONG)], dumps(LONG).decode()), tools=[write], output=Report),
            "no longer kept",
            False,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_run_whose_arguments_are_gone_stays_what_it_was_and_is_not_forked_after_them(
    agent: Agent[Any, Any], output: str, is_compared: bool, tmp_path: Path
) -> None:
    """Neither is the code to blame, nor is a text about bytes taken for them."""
    made = App(agents=[agent], store=SqliteStore(tmp_path / "runs.db"))

    async def main() -> None:
        async with made.working(takes=False) as worker:
            before = await made.run(agent.name, "go")
            run_id = before.run_id
            assert (await sweep(made.store, Retention(blobs_older_than=0.0), now=4e9)).blobs > 0
            after = await worker.result(run_id)
            assert (after.status, after.error, len(after.messages)) == ("done", None, len(before.messages))
            assert output in after.output
            if is_compared:
                assert (await made.replay(run_id)).differences == ()
            else:
                with pytest.raises(UsageError, match="cannot be compared: bytes of its record 3 are no longer kept"):
                    await made.replay(run_id)
            with pytest.raises(UsageError, match="large bytes of its record 3 are no longer kept"):
                await made.fork(run_id, before="t1.0")
            assert (await made.fork(run_id, at=1)).output == before.output

    asyncio.run(main())


def test_text_that_is_gone_leaves_its_digest_too() -> None:
    kept: dict[str, bytes] = {}

    def spill(data: bytes) -> str:
        kept[digest := hashlib.sha256(data).hexdigest()] = data
        return digest

    value = {"here": "x" * 40_000, "there": ["y" * 40_000, {"$part": 1}]}
    body = dumps(typed(value, spill=spill))
    x = next(iter(kept))
    shown = restore(parse(described(body, {x})), load=lambda ref: kept[ref])
    assert shown["here"] == f"[40,000 bytes with SHA-256 {x}, no longer kept]"
    assert shown["there"] == value["there"]


def test_a_worker_sweeps_when_it_starts_and_goes_on_when_the_store_fails_once() -> None:
    async def main() -> None:
        store = MemoryStore()
        keeping = asyncio.create_task(keep_to(store, Retention(older_than=0.0), every=0.001))  # not open: it fails
        await asyncio.sleep(0)
        async with opened(store):
            run_id = await run(store, "done", 1.0)
            async with asyncio.timeout(20):
                while await store.entry(run_id) is not None:
                    await asyncio.sleep(0.002)
        keeping.cancel()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY), ("90 s", 90.0), ("1.5h", 5_400.0), ("10min", 600.0), ("2W", 14 * DAY)]
)
def test_a_span_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert read_span(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 * 10**9), ("1.5 mb", 1_500_000), ("10kB", 10_000), ("7B", 7)])
def test_a_size_is_read_as_people_write_it(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "30", "d", "30x", "-3d", "3 0d", "1e3d", "30m"])
def test_what_is_no_span_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"is not a span of time\. Write for example '30d'; units are s, min, h, d, w\."
    ):
        read_span(text)
    with pytest.raises(UsageError, match=r"is not a size\. Write for example '2GB'; units are B, KB, MB, GB, TB\."):
        read_size(text)
