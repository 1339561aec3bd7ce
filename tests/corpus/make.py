"""Make the corpus of the records that this code writes: `python -m tests.corpus.make`, once for each version of them.

A folder that is there already is left alone: its files are what that version wrote. Only while a version was never
released may its form still change; remove the folder then, and make it anew.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.corpus.world import AGENTS, decide

from ferrule.agent.loop import RunInput
from ferrule.journal.archive import export_run
from ferrule.journal.keeping import Whole
from ferrule.journal.record import VERSION
from ferrule.journal.sqlite import MemoryStore
from ferrule.journal.store import Row, Store
from ferrule.message import user
from ferrule.runtime.inbox import Inbox
from ferrule.runtime.worker import Worker

HERE = Path(__file__).parent
OVER = ("done", "incomplete", "failed", "cancelled", "blocked")


@asynccontextmanager
async def working(store: Store) -> AsyncGenerator[Worker]:
    """A worker with the agents of the corpus."""
    async with Worker(store, {agent.name: agent for agent in AGENTS}, poll=0.002) as worker:
        yield worker


async def started(store: Store, name: str) -> str:
    """A run, to its end or until it waits."""
    async with working(store) as worker:
        return (await worker.run(name, RunInput(user("go")), tags={"of": "corpus"})).run_id


async def answered(store: Store, run_id: str) -> None:
    """Answer all that a run waits for."""
    for asked in await store.requests(run_id=run_id):
        await Inbox(store).answer(asked.request_id, decide(asked), by="ada", channel="test")


async def ended(store: Store, run_id: str) -> None:
    """Go on with a run to its end, and answer whatever is asked."""
    async with working(store) as worker, asyncio.timeout(30):
        worker.start()
        while (entry := await store.entry(run_id)) is None or entry.state not in OVER:
            await answered(store, run_id)
            await asyncio.sleep(0.002)


async def left(store: Store, run_id: str, at: Callable[[Row], bool]) -> Whole:
    """What a process leaves that dies behind a record, before anybody was asked for anything."""
    whole = await store.whole(run_id)
    assert whole is not None
    last = next(n for n, row in enumerate(whole.rows, 1) if at(row))
    rows = whole.rows[:last]
    entry = whole.entry._replace(state="running", seq=last, updated=rows[-1].at, due=None)
    digests = [d for d in whole.digests if any(d.encode() in row.body for row in rows)]
    return Whole(entry, rows, digests=digests, blobs={d: await store.blob(d) or b"" for d in digests})


async def make(folder: Path) -> None:
    """Write one file for each run."""
    store = MemoryStore()
    await store.open()

    async def write(name: str, run_id: str, store: Store = store) -> None:
        lines = [line async for line in export_run(store, run_id)]
        folder.joinpath(f"{name}.jsonl").write_bytes(b"".join(lines))

    async def write_left(name: str, run_id: str, at: Callable[[Row], bool]) -> None:
        other = MemoryStore()
        await other.open()
        await other.adopt(await left(store, run_id, at))
        await write(name, run_id, other)
        await other.close()

    def nth(type: str, n: int = 1) -> Callable[[Row], bool]:
        seen = iter(range(1, 1_000))
        return lambda row: row.type == type and next(seen) == n

    approval = await started(store, "approval")
    await write("approval_open", approval)
    await answered(store, approval)
    await write("approval_answered", approval)
    await ended(store, approval)
    await write("approval_done", approval)

    around = await started(store, "around")
    await write("sub_agent_open", around)
    await ended(store, around)
    await write("sub_agent_done", around)

    cancelled = await started(store, "approval")
    await store.post(cancelled, "cancel", b'{"by":"ada"}')
    async with working(store) as worker:
        worker.start()
        while (await worker.result(cancelled)).status != "cancelled":
            await asyncio.sleep(0.002)
    await write("cancelled", cancelled)

    parallel = await started(store, "parallel")
    await write("parallel_done", parallel)
    await write_left("started", parallel, nth("run.started"))
    await write_left("parallel_open", parallel, lambda row: b"retry_in" in row.body or row.type == "run.settled")
    failed = await started(store, "failing")
    await write("failed", failed)
    await write_left("failing_open", failed, nth("tool.settled"))
    structured = await started(store, "structured")
    await write("structured_done", structured)
    await write_left("structured_open", structured, nth("model.responded", 2))
    await write_left("once_unsettled_check", structured, nth("tool.intended"))
    await write_left("once_unsettled_ask", await started(store, "unsettled"), nth("tool.intended"))
    await store.close()


def main() -> None:
    """Make the folder of this version."""
    folder = HERE / f"v{VERSION}"
    if folder.exists():
        sys.exit(f"{folder.name} is there already. Records of a version that was released are never made anew.")
    folder.mkdir()
    asyncio.run(make(folder))
    print(f"{folder.name}: {len([*folder.iterdir()])} runs")


if __name__ == "__main__":
    main()
