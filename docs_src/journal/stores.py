"""A store by itself: a run, its records, and a second start with the same key."""

from __future__ import annotations

import asyncio
import time

from ferrule.journal.sqlite import MemoryStore
from ferrule.journal.store import Batch, Held, NewRun, Row


async def main() -> None:
    store = MemoryStore()
    await store.open()
    await store.enlist("worker-1", {"pid": 7})
    started = Row(1, "run.started", 1, time.time(), b'{"input":"hello"}')
    held = await store.create(NewRun("run-1", "greeter", started, key="order-17"), "worker-1")
    assert isinstance(held, Held)
    await store.append(held, Batch([Row(2, "note", 1, time.time(), b'{"said":"hi"}')], state="done"))
    for row in await store.rows("run-1"):
        print(row.seq, row.type, row.body.decode())
    again = await store.create(NewRun("run-2", "greeter", started, key="order-17"), "worker-1")
    print(again.run_id, await store.entry("run-2"))
    await store.close()


asyncio.run(main())
