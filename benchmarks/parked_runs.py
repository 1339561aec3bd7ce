"""A worker beside parked runs: what they cost it while they wait, how soon an answer is acted on, and one long run.

A parked run is rows of the store and nothing else, so a worker beside 100,000 of them should cost what it costs beside
none. `python -m benchmarks parked_runs`; PARKED_RUNS=1000 takes fewer.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ferrule import Agent, Answer, tool
from ferrule.agent.loop import Limits, RunInput
from ferrule.journal.sqlite import SqliteStore
from ferrule.message import ModelMessage, user
from ferrule.runtime.inbox import Inbox
from ferrule.runtime.worker import Worker
from ferrule.testing import call

PARKED = int(os.environ.get("PARKED_RUNS", "100000"))
WAIT = 10.0  # seconds that an idle worker is looked at
ANSWERS = 20
ROUNDS = int(os.environ.get("LONG_ROUNDS", "5000"))


@tool(effect="once", approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect="read")
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


def model(request: Any) -> Any:
    return "done" if any(isinstance(m, ModelMessage) for m in request.messages) else [call("pay", {"amount": 5})]


def memory() -> float:
    """Resident MB of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


@asynccontextmanager
async def working(
    file: Path, *agents: Agent[Any, Any], takes: bool = True
) -> AsyncGenerator[tuple[SqliteStore, Worker]]:
    store = SqliteStore(file)
    await store.open()
    try:
        async with Worker(store, {agent.name: agent for agent in agents}) as worker:
            if takes:
                worker.start()
            yield store, worker
    finally:
        await store.close()


async def park(file: Path, number: int) -> None:
    """Start runs that wait for an approval."""
    async with working(file, Agent("clerk", model, tools=[pay]), takes=False) as (_, worker):
        began = time.perf_counter()
        for at in range(0, number, 500):
            await asyncio.gather(*(worker.run("clerk", RunInput(user("go"))) for _ in range(min(500, number - at))))
        took = time.perf_counter() - began
    size = sum(f.stat().st_size for f in file.parent.iterdir())
    print(f"  {number:,} runs parked in {took:.0f} s, {size / number / 1e3:.1f} kB each on disk", flush=True)


async def idle(file: Path) -> None:
    """What a worker costs that has nothing to do; in a process of its own, which has done nothing else."""
    async with working(file, Agent("clerk", model, tools=[pay])):
        await asyncio.sleep(1)
        work, before = time.process_time(), memory()
        await asyncio.sleep(WAIT)
        cpu = (time.process_time() - work) / WAIT
        grown = memory() - before
        print(f"  an idle worker: {cpu * 100:.2f} % of a processor, {memory():.0f} MB ({grown:+.1f} meanwhile)")


async def answers(file: Path) -> None:
    """How soon somebody's answer is acted on."""
    async with working(file, Agent("clerk", model, tools=[pay])) as (store, _):
        inbox, taken = Inbox(store), list[float]()
        for asked in (await inbox.requests(limit=PARKED))[:: max(1, PARKED // ANSWERS)]:
            began = time.perf_counter()
            await inbox.answer(
                asked.request_id, Answer(asked.request_id, ok=True, digest=asked.digest), by="ada", channel="bench"
            )
            while (entry := await store.entry(asked.run_id)) is not None and entry.state != "done":
                await asyncio.sleep(0.005)
            taken.append(time.perf_counter() - began)
        print(
            f"  an answer is acted on, and its run over: {statistics.median(taken):.2f} s, at most {max(taken):.2f} s"
        )


async def long_run(file: Path) -> None:
    """Whether a record gets dearer as a run gets longer."""
    marks: list[float] = []

    def again(request: Any) -> Any:
        said = len(marks)
        marks.append(time.process_time())
        return "done" if said == ROUNDS else [call("look", {"n": said})]

    agent = Agent("long", again, tools=[look], limits=Limits(turns=ROUNDS + 1))
    async with working(file, agent, takes=False) as (store, worker):
        result = await worker.run("long", RunInput(user("go")))
        rows = await store.rows(result.run_id)
        assert (result.status, len(marks)) == ("done", ROUNDS + 1)
    fifth = ROUNDS // 5
    costs = [(marks[n + fifth] - marks[n]) / fifth * 1e6 for n in range(0, ROUNDS, fifth)]
    size = [sum(len(row.body) for row in rows[n : n + len(rows) // 5]) for n in range(0, len(rows) - 4, len(rows) // 5)]
    print(f"  {ROUNDS:,} rounds: {', '.join(f'{cost:.0f}' for cost in costs)} us of CPU a round, fifth by fifth,")
    print(f"  and {', '.join(f'{much / 1e3:.0f}' for much in size[:5])} kB of records")


def alone(file: Path) -> None:
    subprocess.run([sys.executable, "-m", "benchmarks.parked_runs", str(file)], check=True)


def main() -> None:
    """Print what a worker costs without parked runs and beside them."""
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as folder:
        none, full = Path(folder, "none", "runs.db"), Path(folder, "full", "runs.db")
        none.parent.mkdir()
        full.parent.mkdir()
        print("beside no run", flush=True)
        alone(none)
        print(f"beside {PARKED:,}", flush=True)
        asyncio.run(park(full, PARKED))
        alone(full)
        asyncio.run(answers(full))
        print("one long run")
        asyncio.run(long_run(none))


if __name__ == "__main__":
    asyncio.run(idle(Path(sys.argv[1]))) if sys.argv[1:] else main()
