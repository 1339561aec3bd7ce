"""Appends to a store: 200 runs at once, rounds of four records in two appends, of which the second is waited for."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from ferrule.journal.sqlite import MemoryStore, SqliteStore
from ferrule.journal.store import Batch, Held, NewRun, Row, Store

RUNS = 200
ROUNDS = 100
TURNS = 5
BODY = b'{"op":"t0","attempt":1,"outcome":{"value":{"id":7,"name":"ring","ok":true}},"text":"%s"}' % (b"x" * 150)


async def produce(store: Store, run_id: str, rounds: int) -> None:
    """One run: intents are written behind, outcomes are waited for."""
    held = await store.create(NewRun(run_id, "bench", Row(1, "run.started", 1, time.time(), b"{}")), "w")
    assert isinstance(held, Held)
    seq = 1
    for _ in range(rounds):
        behind = store.append(held, Batch([Row(seq + i, "tool.intended", 1, time.time(), BODY) for i in (1, 2)]))
        await store.append(held, Batch([Row(seq + i, "tool.settled", 1, time.time(), BODY) for i in (3, 4)]))
        await behind
        seq += 4


async def measure(store: Store, mark: str) -> tuple[float, float]:
    """Seconds on the clock, and of the processor in all threads, for one durable round."""
    start, work = time.perf_counter(), time.process_time()
    await asyncio.gather(*(produce(store, f"{mark}-{i}", ROUNDS) for i in range(RUNS)))
    rounds = RUNS * ROUNDS
    return (time.perf_counter() - start) / rounds, (time.process_time() - work) / rounds


async def turns(store: Store) -> tuple[float, float]:
    """The least of several turns on one store: others on the machine only ever add to it."""
    await store.open()
    try:
        found = [await measure(store, f"{turn}") for turn in range(TURNS)]
    finally:
        await store.close()
    return min(clock for clock, _ in found), min(work for _, work in found)


def main() -> None:
    """Print one line for each kind of store."""
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as folder:
        stores: dict[str, Store] = {
            "memory": MemoryStore(),
            "SQLite, durability='process'": SqliteStore(Path(folder, "process.db"), durability="process"),
            "SQLite, durability='power'": SqliteStore(Path(folder, "power.db"), durability="power"),
        }
        if dsn := os.environ.get("FERRULE_TEST_POSTGRES"):
            from ferrule.journal.postgres import PostgresStore

            stores["PostgreSQL"] = PostgresStore(dsn, schema=f"ferrule_bench_{os.getpid()}")
        for name, store in stores.items():
            clock, work = asyncio.run(turns(store))
            print(
                f"{name:30} {1 / clock:8,.0f} durable rounds/s {4 / clock:9,.0f} rows/s {work * 1e6:6.0f} us cpu each"
            )


if __name__ == "__main__":
    main()
