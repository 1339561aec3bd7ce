"""A process that uses a store, for tests that need several: `python process.py HOW PLACE NUMBER`."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from ferrule.journal.postgres import PostgresStore
from ferrule.journal.sqlite import SqliteStore
from ferrule.journal.store import Batch, Held, NewRun, Row, Store

RUNS = 12
ROUNDS = 25
SHARED = 60  # runs that all processes start, under the same keys
POOL = [f"pool-{i}" for i in range(80)]  # runs that are there for whoever claims them
LEASE = 600.0


def open_store(place: str) -> Store:
    if "://" in place:
        dsn, _, schema = place.rpartition("#")
        return PostgresStore(dsn, schema=schema)
    return SqliteStore(place)


def row(seq: int, type: str = "note") -> Row:
    return Row(seq, type, 1, time.time(), b'{"text":"' + b"x" * 200 + b'"}')


async def write(store: Store, worker: str, run_id: str) -> int:
    """Write a run in appends of two records, and give the last that was acknowledged."""
    held = await store.create(NewRun(run_id, "own", row(1)), worker)
    assert isinstance(held, Held)
    seq = 1
    for _ in range(ROUNDS):
        behind = store.append(held, Batch([row(seq + 1), row(seq + 2)]))
        await store.append(held, Batch([row(seq + 3), row(seq + 4)]))
        await behind
        seq += 4
    return seq


async def start(store: Store, worker: str, number: int) -> str:
    made = await store.create(NewRun(f"{worker}-shared-{number}", "shared", row(1), key=f"key-{number}"), worker)
    return made.run_id


async def claim(store: Store, worker: str) -> list[str]:
    """Take and finish what is there, until nothing is."""
    mine: list[str] = []
    while taken := await store.claim(worker, ["pool"], 3, LEASE):
        for held in taken:
            await store.append(held, Batch([row(held.seq + 1)], state="done"))
            mine.append(held.run_id)
    return mine


async def busy(place: str, number: str) -> None:
    """Do everything that many processes do at once, and print what was acknowledged."""
    store = open_store(place)
    await store.open()
    worker = f"w{number}"
    await store.enlist(worker, {})
    for run_id in POOL[int(number) :: 8]:
        await store.create(NewRun(run_id, "pool", row(1)), None)
    wrote = [write(store, worker, f"{worker}-{i}") for i in range(RUNS)]
    shared = [start(store, worker, i) for i in range(SHARED)]
    done = await asyncio.gather(asyncio.gather(*wrote), asyncio.gather(*shared), claim(store, worker))
    told = {"wrote": {f"{worker}-{i}": seq for i, seq in enumerate(done[0])}, "shared": done[1], "claimed": done[2]}
    await store.close()
    print(json.dumps(told))


async def victim(place: str, number: str) -> None:
    """Write for ever, and print each seq once it is acknowledged."""
    store = open_store(place)
    await store.open()
    await store.enlist(f"w{number}", {})
    held = await store.create(NewRun("victim", "own", row(1)), f"w{number}")
    assert isinstance(held, Held)
    seq = 1
    while True:
        behind = store.append(held, Batch([row(seq + 1), row(seq + 2)]))
        seq += 2
        await behind
        print(seq, flush=True)


if __name__ == "__main__":
    _, how, place, number = sys.argv
    asyncio.run({"busy": busy, "victim": victim}[how](place, number))
