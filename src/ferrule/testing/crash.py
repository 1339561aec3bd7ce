"""Crashes at named points of a run's journal: what a tool did is then counted outside the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

from ferrule.journal.record import RecordType
from ferrule.journal.store import Batch, Held


class CrashPoint(NamedTuple):
    """A point where a process dies.

    Args:
        type: The record it is about.
        nth: Which of these, from 1.
        when: `before` it is durable, or `after`.

    Since 0.1.
    """

    type: RecordType
    nth: int = 1
    when: Literal["before", "after"] = "after"


def kill() -> None:
    """End this process as a power cut would: nothing is closed, nothing is written.

    Since 0.1.
    """
    os.kill(os.getpid(), signal.SIGKILL)


class CrashingStore:
    """A store in front of another, with which the process dies at a point.

    Args:
        store: The other.
        point: Where it dies.
        crash: What is done there; default `kill`.

    Since 0.1.
    """

    def __init__(self, store: Any, point: CrashPoint, crash: Callable[[], None] = kill) -> None:
        """Count from nothing."""
        self._store = store
        self._point = point
        self._crash = crash
        self._seen = 0

    def __getattr__(self, name: str) -> Any:
        """Everything else is the other store's."""
        return getattr(self._store, name)

    def append(self, held: Held, batch: Batch) -> Awaitable[None]:
        """Append as the other does, unless this is the point.

        Args:
            held: The holding.
            batch: What to write.
        """
        before = self._seen
        self._seen += sum(row.type == self._point.type for row in batch.rows)
        if not before < self._point.nth <= self._seen:
            return self._store.append(held, batch)
        if self._point.when == "before":
            self._crash()
        return self._appended(held, batch)

    async def _appended(self, held: Held, batch: Batch) -> None:
        await self._store.append(held, batch)
        if self._point.when == "after":
            self._crash()
