"""Crashes at named points of a run's journal: what a tool did is then counted outside the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from ferrule.journal.record import RecordType
from ferrule.journal.store import Asked, Batch, Decision, Entry, Held, NewRun, Verdict
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

T = TypeVar("T")

_KILL: Final[int] = getattr(signal, "SIGKILL", signal.SIGTERM)


class CrashPoint(NamedTuple):
    """A point where a process dies.

    Args:
        type: The record it is about; or `answer`, for somebody's answer on its way into the inbox.
        nth: Which of these that this process writes, from 1.
        when: `before` it is durable, or `after`. Whether a run will be taken is not known before: `run.taken` has
            `after` only.

    Since 0.1.
    """

    type: RecordType | Literal["answer"]
    nth: int = 1
    when: Literal["before", "after"] = "after"


def kill() -> None:
    """End this process as a power cut would: nothing is closed, nothing is written.

    Since 0.1.
    """
    os.kill(os.getpid(), _KILL)


class CrashingStore:
    """A store in front of another, with which the process dies at a point.

    Args:
        store: The other.
        point: Where it dies.
        crash: What is done there; default `kill`. Once it has returned, the store goes on as if nothing had been.

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
        return self._written([row.type for row in batch.rows], lambda: self._store.append(held, batch))

    async def create(self, new: NewRun, worker: str | None) -> Held | Entry:
        """Create a run as the other does, unless this is the point.

        Args:
            new: The run.
            worker: Who holds it.
        """
        return await self._written(["run.started"], lambda: self._store.create(new, worker))

    async def claim(
        self, worker: str, definitions: Sequence[str], limit: int, lease: float, run_id: str | None = None
    ) -> list[Held]:
        """Take runs as the other does, unless this is the point.

        Args:
            worker: Who takes them.
            definitions: What it can run.
            limit: At most so many.
            lease: Seconds without a beat after which a holder counts as dead.
            run_id: Only this run.
        """
        taken: list[Held] = await self._store.claim(worker, definitions, limit, lease, run_id)
        if self._is_here(["run.taken"] * len(taken)) and self._point.when == "after":
            self._crash()
        return taken

    async def answer(self, request_id: str, decision: Decision, now: float) -> tuple[Verdict, Asked | None]:
        """Take an answer as the other does, unless this is the point.

        Args:
            request_id: The request.
            decision: The answer.
            now: When it is given.
        """
        return await self._written(["answer"], lambda: self._store.answer(request_id, decision, now))

    def _is_here(self, types: Sequence[str]) -> bool:
        before = self._seen
        self._seen += sum(type == self._point.type for type in types)
        return before < self._point.nth <= self._seen

    def _written(self, types: Sequence[str], write: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        here = self._is_here(types)
        if here and self._point.when == "before":
            self._crash()
        writing = write()
        if not (here and self._point.when == "after"):
            return writing
        # Begun now, and not when somebody waits: what is written after it must not overtake it.
        return self._crashed(asyncio.ensure_future(writing))

    async def _crashed(self, writing: Awaitable[T]) -> T:
        written = await writing
        self._crash()
        return written
