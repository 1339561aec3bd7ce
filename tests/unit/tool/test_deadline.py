"""One timer for many deadlines: each is told in time, in order, and none that was removed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.clock import run

from ferrule.tool.body.deadline import Deadlines, deadlines


class Waits:
    def __init__(self, told: list[tuple[float, int]], number: int, until: float) -> None:
        self.until = until
        self.told = told
        self.number = number

    def expire(self) -> None:
        self.told.append((asyncio.get_running_loop().time(), self.number))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), max_size=30), st.integers(1, 20))
def test_each_expires_in_time_unless_it_was_removed_before(plan: list[tuple[int, int]], seconds: int) -> None:
    """Each begins at one second and is removed some seconds later."""

    async def main() -> list[tuple[float, int]]:
        loop = asyncio.get_running_loop()
        told: list[tuple[float, int]] = []
        timers = Deadlines()
        for number, (begins, lasts) in enumerate(plan):
            waits = Waits(told, number, begins + seconds)
            loop.call_at(begins, timers.add, waits, loop)
            # Half a second before or after the deadline, so that no two things come at the same time.
            loop.call_at(begins + lasts + (0.5 if lasts >= seconds else 0.25), timers.remove, waits)
        await asyncio.sleep(200)
        return told

    due = [(float(begins + seconds), n) for n, (begins, lasts) in enumerate(plan) if lasts >= seconds]
    assert sorted(run(main())) == sorted(due)


def test_one_timer_serves_all_that_wait() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        timers = deadlines(loop, 30.0)
        assert deadlines(loop, 30.0) is timers
        for n in range(1000):
            timers.add(Waits([], n, 30.0), loop)
        return len(loop._scheduled)  # pyright: ignore

    assert run(main()) == 1


def test_neither_a_loop_nor_the_context_of_whoever_was_first_is_kept() -> None:
    held: ContextVar[Any] = ContextVar("held")

    class Thing:
        pass

    async def main() -> tuple[Any, Any]:
        thing = Thing()
        held.set(thing)
        loop = asyncio.get_running_loop()
        waits = Waits([], 1, 30.0)
        timers = deadlines(loop, 30.0)
        timers.add(waits, loop)
        timers.remove(waits)
        return weakref.ref(thing), weakref.ref(loop)

    async def around() -> tuple[Any, Any]:
        refs = await asyncio.create_task(main())
        await asyncio.sleep(0)  # the step that woke this one has ended
        gc.collect()
        assert refs[0]() is None
        return refs

    _, loop = run(around())
    gc.collect()
    assert loop() is None
