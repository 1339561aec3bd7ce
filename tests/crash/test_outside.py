"""Answers and cancellations that another process sends during a live turn, and to a run whose holder has died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.crash.kit import LEASE, Site, attended, ended_by_another, opened, script, store_at, the_run, until, victim
from tests.crash.world import Sink, app, asked

from ferrule import RunResult
from ferrule.agent.loop import RunInput
from ferrule.journal.record import Record
from ferrule.message import ToolMessage, user
from ferrule.runtime.worker import Worker

HELD = [[asked("hold", 1), asked("ask", 2)], "all is done"]


@asynccontextmanager
async def two_live_runs(place: str, sink: Sink) -> AsyncGenerator[tuple[Worker, str, str]]:
    """Two runs in one worker, each in a turn in which one call goes on and another waits for an answer."""
    made = app(store_at(place), sink, HELD)
    await made.store.open()
    try:
        async with Worker(made.store, made.agents, lease=LEASE, poll=0.02) as worker:
            worker.start()
            tasks = [asyncio.create_task(worker.run("outer", RunInput(user("go")), key=key)) for key in ("a", "b")]

            async def live() -> bool | None:
                held = [line for line in sink.lines() if line.tool == "hold"]
                return True if len(held) == 2 and len(await made.inbox.requests()) == 2 else None

            try:
                await until(live)
                one, other = sorted((e for e in await made.store.entries()), key=lambda e: e.key or "")
                assert [e.state for e in (one, other)] == ["running", "running"]
                yield worker, one.run_id, other.run_id
            finally:
                sink.gate.touch()
                await asyncio.wait(tasks, timeout=20)
    finally:
        await made.store.close()


async def over(worker: Worker, run_id: str) -> RunResult[object]:
    async def ended() -> RunResult[object] | None:
        result = await worker.result(run_id)
        return None if result.status == "suspended" else result

    return await until(ended)


async def from_outside(place: str, sink: Sink, what: str) -> None:
    async with victim(place, sink, mode=what) as other:
        said = await other.ended()
        assert other.process.returncode == 0, said


async def of_type(worker: Worker, run_id: str, type: str) -> list[Record]:
    return [record for record in await worker.records(run_id) if record.type == type]


def test_an_answer_from_another_process_during_a_live_turn_is_acted_on_and_stops_nobody(
    site: Site, tmp_path: Path
) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        async with opened(place) as store, two_live_runs(place, sink) as (worker, one, other):
            await from_outside(place, sink, f"answer {one}")
            states = [(await store.entry(run_id)) for run_id in (one, other)]
            assert [e.state if e else "" for e in states] == ["running", "running"]
            sink.gate.touch()
            assert (await over(worker, one)).status == "done"
            result = await until(lambda: parked(worker, other))
            assert [r.kind for r in result.requests] == ["question"]
            (answered,) = await of_type(worker, one, "wait.answered")
            assert answered.body["by"] == "eve"
            assert [line.n for line in sink.lines() if (line.kind, line.tool) == ("effect", "hold")] == ["1", "1"]

    async def parked(worker: Worker, run_id: str) -> RunResult[object] | None:
        result = await worker.result(run_id)
        return result if result.status == "suspended" else None

    asyncio.run(main())


def test_a_cancellation_from_another_process_during_a_live_turn_ends_that_run_and_no_other(
    site: Site, tmp_path: Path
) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        async with opened(place) as store, two_live_runs(place, sink) as (worker, one, other):
            await from_outside(place, sink, f"cancel {one}")
            assert (await over(worker, one)).status == "cancelled"
            assert [r.body["by"] for r in await of_type(worker, one, "cancel.requested")] == ["eve"]
            assert await store.letters(one) == []
            assert [r.run_id for r in await store.requests()] == [other]
            sink.gate.touch()
            await from_outside(place, sink, f"answer {other}")
            assert (await over(worker, other)).status == "done"
            assert await of_type(worker, other, "cancel.requested") == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("body pay 1 before", "did not do it"),
        ("body pay 1 after", "pay 3"),
        ("body order 1 before", "may have happened"),
        ("body order 1 after", "may have happened"),
        ("body pay 3 after", "may have happened"),
    ],
)
def test_a_run_that_is_cancelled_after_its_process_died_says_what_became_of_its_calls(
    site: Site, tmp_path: Path, at: str, told: str
) -> None:
    name = "inner" if at == "body pay 3 after" else at.split(" ")[1]

    async def main() -> None:
        place, sink = site(tmp_path)
        async with victim(place, sink, at) as first:
            await first.killed()
        async with opened(place) as store:
            entry = await the_run(store)
            assert entry is not None
            await from_outside(place, sink, f"cancel {entry.run_id}")
            before = len(sink.lines())
            result = await attended(place, sink, script("all"))
            assert len(sink.lines()) == before
            assert result.status == "cancelled"
            said = [m.output for m in result.messages if isinstance(m, ToolMessage) and m.call.name == name][-1]
            assert told in said
            types = [row.type for row in await store.rows(entry.run_id)]
            assert types.count("cancel.requested") == 1
            assert await store.letters(entry.run_id) == []

    asyncio.run(main())


def test_the_process_of_a_body_ends_with_the_process_that_made_the_call(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        monkeypatch.setenv("CRASH_SINK", str(sink.path))
        async with victim(place, sink, turns="printed") as first:

            async def begun() -> int | None:
                return next((line.pid for line in sink.lines()), None)

            child = await until(begun)
            first.kill()
            await first.killed()

            async def gone() -> bool | None:
                return None if alive(child) else True

            await until(gone)
            assert not sink.happened("printed", 1)
            sink.gate.touch()
        await ended_by_another(place, sink, script("printed"))

    asyncio.run(main())


def alive(pid: int) -> bool:
    """Whether a process is there, and not only waits to be buried."""
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
