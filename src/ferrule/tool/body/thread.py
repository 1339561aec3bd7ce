"""Worker threads for sync tools.

A thread cannot be stopped, so a call that ran into its deadline keeps its
thread until the function returns. The pool therefore grows while threads are
held, up to a bound; beyond it calls wait, and their deadline counts.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    from concurrent import futures
    from concurrent.futures import Future
else:
    futures = LazyModule("concurrent.futures")

MAX_THREADS = 256
IDLE_SECONDS = 10.0


class ThreadPool:
    """Daemon threads that live while there is work, and a little longer.

    Args:
        limit: Most threads at a time.

    Since 0.1.
    """

    def __init__(self, limit: int = MAX_THREADS) -> None:
        """Start with no thread."""
        self._limit = limit
        self._work: deque[tuple[Future[Any], contextvars.Context, Callable[[], Any]]] = deque()
        self._lock = threading.Condition()
        self._idle = 0
        self._threads = 0

    @property
    def threads(self) -> int:
        """How many threads are alive."""
        return self._threads

    @property
    def busy(self) -> bool:
        """Whether some thread is at work, or work waits for one."""
        return self._threads > self._idle or bool(self._work)

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Run a function in a thread, with a copy of the caller's context variables.

        Args:
            function: Takes nothing.

        Returns:
            A future; cancelling it before the start keeps the function from being called.

        Raises:
            RuntimeError: The system gives no further thread; the function is not called then.
        """
        future: Future[Any] = futures.Future()
        with self._lock:
            if self._idle > len(self._work):
                self._lock.notify()
            elif self._threads < self._limit:
                threading.Thread(target=self._serve, name="ferrule-tool", daemon=True).start()
                self._threads += 1
            self._work.append((future, contextvars.copy_context(), function))
        return future

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            future, context, function = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(context.run(function))
            except BaseException as error:  # handed to whoever waits, SystemExit included
                future.set_exception(error)
            del job, future, context, function

    def _next(self) -> tuple[Future[Any], contextvars.Context, Callable[[], Any]] | None:
        with self._lock:
            self._idle += 1
            if not self._work:
                self._lock.wait_for(lambda: bool(self._work), IDLE_SECONDS)
            self._idle -= 1
            if self._work:
                return self._work.popleft()
            self._threads -= 1
            return None


POOL = ThreadPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: POOL.__init__())  # its threads stayed with the parent
