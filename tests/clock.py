"""An event loop whose clock jumps to the next timer when nothing else is left to do.

Tests of deadlines say seconds and take none. While a worker thread is busy the
clock stands; what needs processes, or threads that wait, runs on the ordinary loop.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ferrule.tool.body.thread import POOL

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: asked to, it puts the clock forward instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.steps: list[Callable[[], Any]] = []  # what is done before each step to come, the next of them last

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.steps:
            self.steps.pop()()
        ready = super().select(0)
        while not ready and POOL.busy:  # a thread is at work, and its time is real
            ready = super().select(0.001)
        if not ready and timeout is None:
            raise RuntimeError("every task waits and no timer is set: the test would hang")
        if not ready and timeout:
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """A selector loop on that clock."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def at_step(self, step: int, act: Callable[[], Any]) -> None:
        """Do something once the loop has gone round so often, to meet every place where a task waits."""
        self._jumping.steps = [act] + [lambda: None] * step


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop whose clock jumps."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)
