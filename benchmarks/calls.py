"""One call: five typed arguments from JSON text to an async function, beside the bare call in the same process."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from benchmarks.imports import slowness
from ferrule import tool

CALLS = 2_000
ROUNDS = 15
TEXT = '{"a": 7, "b": "ring", "c": 2.5, "d": true, "e": [1, 2, 3]}'


class Args(BaseModel):
    """What a hand-written loop validates with."""

    a: int
    b: str
    c: float
    d: bool
    e: list[int]


async def body(a: int, b: str, c: float = 0.0, d: bool = False, e: list[int] | None = None) -> str:
    """Do nothing much."""
    return b


async def waiting(a: int, b: str, c: float = 0.0, d: bool = False, e: list[int] | None = None) -> str:
    """Give the loop a turn."""
    await asyncio.sleep(0)
    return b


def threaded(a: int, b: str, c: float = 0.0, d: bool = False, e: list[int] | None = None) -> str:
    """Do nothing much, in a thread."""
    return b


async def per_call(call: Callable[[], Awaitable[Any]], calls: int) -> float:
    """CPU microseconds of one call."""
    start = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - start) / calls * 1e6


async def measure() -> dict[str, list[float]]:
    """Each way to call, in turns."""
    step, task, thread = tool(body), tool(waiting), tool(threaded)
    values = Args.model_validate_json(TEXT).model_dump()
    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "bare call": lambda: body(**values),
        "validated by hand": lambda: body(**Args.model_validate_json(TEXT).__dict__),
        "tool, JSON text": lambda: step.call(TEXT),
        "tool, mapping": lambda: step.call(values),
        "bare await": lambda: waiting(**values),
        "tool that awaits": lambda: task.call(TEXT),
        "bare to_thread": lambda: asyncio.to_thread(threaded, **values),
        "sync tool": lambda: thread.call(TEXT),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, call in ways.items():
            slow = "await" in name or "thread" in name or "sync" in name
            found[name].append(await per_call(call, CALLS // 10 if slow else CALLS))
    return found


def main() -> None:
    """Print the medians, and what a tool adds to the bare call."""
    found = asyncio.run(measure())
    middle = {name: statistics.median(times) for name, times in found.items()}
    for name, us in middle.items():
        print(f"{name:18} {us:7.1f} µs CPU (least {min(found[name]):.1f})")
    times = slowness()
    for what, name, bare in (("call", "tool, JSON text", "bare call"), ("await", "tool that awaits", "bare await")):
        over = middle[name] - middle[bare]
        print(
            f"over the bare {what:5}{over:7.1f} µs; {over / times:.1f} µs on the reference machine (goal: at most 15)"
        )


if __name__ == "__main__":
    main()
