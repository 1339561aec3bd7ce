"""Processes that are killed or stopped while they hold a run, and what must be true once another has ended it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

from tests.crash.world import ONCE, TURNS, Sink, app, asked, decide

import ferrule
from ferrule import RunResult
from ferrule.agent.loop import RunInput
from ferrule.errors import AnswerRefused, LeaseLost
from ferrule.journal.postgres import PostgresStore
from ferrule.journal.sqlite import SqliteStore
from ferrule.journal.store import Entry, Store
from ferrule.message import ModelMessage, ToolMessage, user
from ferrule.runtime.worker import Worker

T = TypeVar("T")
Site = Callable[[Path], tuple[str, Sink]]  # from a folder to a store's place, and what happens outside of it

ALL = os.environ.get("CRASH") == "all"  # what `make crash` tries beyond `make test`
LEASE = 1.0
LIMIT = 60.0  # seconds that anything here is waited for at most
ROOT = Path(__file__).parents[2]
OVER = ("done", "incomplete", "failed", "cancelled", "blocked")
BOTH: list[Any] = [[asked("pay", 3), asked("put", 2)], "all is done"]
PRINTED: list[Any] = [[asked("printed", 1)], "all is done"]
MIXED = ("look", "put", "flaky", "pay", "order", "mail", "pay", "order")


def script(name: str) -> list[Any]:
    """The turns of a model: the ones of the world, or by `mixed SEED` 50 calls in turns of up to five."""
    word, _, seed = name.partition(" ")
    if word != "mixed":
        return {"all": TURNS, "both": BOTH, "printed": PRINTED}[name]
    random, turns, n = Random(int(seed)), list[Any](), 100
    while n < 150:
        some = min(random.randint(3, 5), 150 - n)
        turns.append([asked(random.choice(MIXED), n + i) for i in range(some)])
        n += some
    return [*turns, "all is done"]


def store_at(place: str) -> Store:
    """The store at a place: the path of a file, or a server and a schema, `DSN#SCHEMA`."""
    server, _, schema = place.partition("#")
    return PostgresStore(server, schema=schema) if schema else SqliteStore(place)


async def until(what: Callable[[], Awaitable[T | None]], limit: float = LIMIT) -> T:
    """The first thing that is not None."""
    async with asyncio.timeout(limit):
        while (found := await what()) is None:
            await asyncio.sleep(0.005)
        return found


async def the_run(store: Any) -> Entry | None:
    """The only run of a store."""
    found = await store.entries(limit=2)
    assert len(found) < 2
    return found[0] if found else None


async def attended(place: str, sink: Sink, turns: list[Any], *, answers: bool = True) -> RunResult[Any]:
    """What a worker makes of the run, with a person who answers whatever is asked."""
    made = app(store_at(place), sink, turns)
    await made.store.open()
    try:
        async with Worker(made.store, made.agents, lease=LEASE, poll=0.02) as worker:
            worker.start()
            started = asyncio.create_task(worker.run("outer", RunInput(user("go")), key="run"))

            async def over() -> str | None:
                for request in await made.inbox.requests() if answers else ():
                    with contextlib.suppress(AnswerRefused):  # it was settled meanwhile
                        await made.inbox.answer(request.request_id, decide(request, sink), by="ada", channel="test")
                entry = await the_run(made.store)
                return entry.run_id if entry is not None and entry.state in OVER else None

            try:
                run_id = await until(over)
                with contextlib.suppress(LeaseLost):
                    await started
            finally:
                started.cancel()
            return await worker.result(run_id)
    finally:
        await made.store.close()


class Victim:
    """A process that drives a run."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pid = process.pid

    async def killed(self) -> None:
        """Wait until it is dead, by the signal and nothing else."""
        async with asyncio.timeout(LIMIT):
            _, said = await self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL, said.decode()

    async def stopped(self) -> None:
        """Wait until it stands still."""

        async def still() -> bool | None:
            assert self.process.returncode is None, "it ended"
            return True if os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) else None

        await until(still)

    async def says(self, text: str) -> None:
        """Wait until it has logged a line with a text."""
        assert self.process.stderr is not None
        async with asyncio.timeout(LIMIT):
            while line := await self.process.stderr.readline():
                if text in line.decode():
                    return
        raise AssertionError(f"it ended and never said {text!r}")

    async def ended(self) -> str:
        """Wait until it has ended by itself, and give what it said."""
        async with asyncio.timeout(LIMIT):
            _, said = await self.process.communicate()
        return said.decode()

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@contextlib.asynccontextmanager
async def victim(
    place: str, sink: Sink, at: str = "", *, by: str = "KILL", turns: str = "all", mode: str = "run"
) -> AsyncGenerator[Victim]:
    """A process that drives the run, until it dies at a point."""
    env = {**os.environ, "CRASH_AT": at, "CRASH_BY": by, "CRASH_SINK": str(sink.path)}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(ferrule.__file__).parents[1]), str(ROOT)])
    argv = [sys.executable, "-m", "tests.crash.victim", place, str(sink.path), turns, mode]
    process = await asyncio.create_subprocess_exec(*argv, env=env, cwd=ROOT, stderr=asyncio.subprocess.PIPE)
    try:
        yield Victim(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@contextlib.asynccontextmanager
async def opened(place: str) -> AsyncGenerator[Store]:
    store = store_at(place)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def assert_holds(store: Store, pid: int) -> Entry:
    """That the run is held by a process, dead or alive."""
    entry = await the_run(store)
    assert entry is not None
    workers = await store.workers()
    assert entry.state == "running", entry
    assert entry.worker in workers, (entry, workers)
    assert workers[entry.worker or ""][1]["pid"] == pid, (entry, workers, pid)
    return entry


async def ended_by_another(place: str, sink: Sink, turns: list[Any] = TURNS) -> RunResult[Any]:
    """The run, after a second worker has gone on with it to its end."""
    result = await attended(place, sink, turns)
    async with opened(place) as store:
        await assert_accounted(store, sink, result, turns)
    return result


async def at_each(points: Sequence[str], one: Callable[[Path, str], Awaitable[None]], folder: Path) -> None:
    """Try some points, a few at a time."""
    some = asyncio.Semaphore(4)

    async def tried(n: int, at: str) -> None:
        async with some:
            own = folder / str(n)
            own.mkdir()
            try:
                await one(own, at)
            except BaseException as error:
                error.add_note(f"at: {at}")
                raise

    async with asyncio.TaskGroup() as group:
        for n, at in enumerate(points):
            group.create_task(tried(n, at))


async def assert_accounted(store: Store, sink: Sink, result: RunResult[Any], turns: list[Any]) -> None:
    """That the run is done, nothing of it is lost, and nothing happened more often than its effect class allows."""
    assert (result.status, result.output) == ("done", "all is done"), result
    rows = await store.rows(result.run_id)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    await assert_settled_once(store, result.run_id)
    assert_paired(result, turns)
    assert await store.requests() == []
    assert_effects(sink)


async def assert_settled_once(store: Store, run_id: str) -> None:
    async with Worker(store, {}) as reader:
        records = await reader.records(run_id)
    ends = Counter(r.body["op"] for r in records if r.type == "tool.settled" and r.body.get("retry_in") is None)
    begun = {r.body["op"] for r in records if r.type == "tool.intended"}
    assert set(ends.values()) == {1}, ends
    assert begun <= set(ends), begun - set(ends)
    assert [r.type for r in records].count("run.settled") == 1


def assert_paired(result: RunResult[Any], turns: list[Any]) -> None:
    """Each call has one result, directly after it and in order; a result says what its call did, or that nobody knows."""
    wanted = sum(len(cast("list[Any]", turn)) for turn in turns if isinstance(turn, list))
    open_calls: list[Any] = []
    told: list[ToolMessage] = []
    for message in result.messages:
        if isinstance(message, ToolMessage):
            assert message.call.id == open_calls.pop(0).id
            told.append(message)
        else:
            assert not open_calls
            open_calls = list(message.calls) if isinstance(message, ModelMessage) else []
    assert not open_calls
    assert len(told) == wanted


def assert_effects(sink: Sink) -> None:
    """`once` at most once (a mail that nobody could ask about may be lost), all else at least once, under one key."""
    keys: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    count: Counter[tuple[str, str]] = Counter()
    for line in sink.lines():
        keys[line.tool, line.n].add(line.key)
        count[line.tool, line.n] += line.kind == "effect"
    for (name, n), times in count.items():
        if name in ONCE:
            assert times <= 1, (name, n, times)
        assert times >= 1 or name == "mail", (name, n, times)
        assert len(keys[name, n]) == 1, (name, n, keys[name, n])
