"""Appends to a store: 200 runs at once, rounds of four records in two appends, of which the second is waited for."""

from __future__ import annotations

import asyncio
import os
import statistics
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
    """Durable rounds and rows in a second."""
    start = time.perf_counter()
    await asyncio.gather(*(produce(store, f"{mark}-{i}", ROUNDS) for i in range(RUNS)))
    seconds = time.perf_counter() - start
    return RUNS * ROUNDS / seconds, RUNS * (ROUNDS * 4 + 1) / seconds


async def turns(store: Store) -> tuple[float, float]:
    """The median of several turns on one store."""
    await store.open()
    try:
        found = [await measure(store, f"{turn}") for turn in range(TURNS)]
    finally:
        await store.close()
    return statistics.median(f[0] for f in found), statistics.median(f[1] for f in found)


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
            rounds, rows = asyncio.run(turns(store))
            print(f"{name:32} {rounds:9,.0f} durable rounds/s {rows:9,.0f} rows/s")


if __name__ == "__main__":
    main()
