"""What a run asks, and who answers it in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferrule.lazy import LazyModule
from ferrule.runtime.answer import OnRequest, asked, expired
from ferrule.runtime.event import Event
from ferrule.suspension import Answer, Request, parse_time, with_digest

if TYPE_CHECKING:
    import asyncio
    import logging

    from ferrule.runtime.driver import Driver
else:
    asyncio = LazyModule("asyncio")
    logging = LazyModule("logging")


class Questions:
    """The requests of one run.

    Args:
        run: The run.
        on_request: Answers them in this process; None leaves them open.

    Since 0.1.
    """

    __slots__ = ("_lock", "_on_request", "_run", "open")

    def __init__(self, run: Driver, on_request: OnRequest | None) -> None:
        """Nothing is asked yet."""
        self._run = run
        self._on_request = on_request
        self._lock: asyncio.Lock | None = None
        self.open: dict[str, Request] = {}

    async def ask(
        self,
        op: str,
        request: Request,
        why: str,
        attempt: int = 0,
        arguments: str | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> Answer | None:
        """Record a request, and ask whoever answers in this process; one request at a time.

        Args:
            op: The command that waits.
            request: What is asked.
            why: `approval`, `tool` (it asked by itself), `outcome` or `wait`.
            attempt: The attempt of the call that came to this.
            arguments: JSON text of its frozen arguments, where they are not what the model asked for.
            state: What the tool keeps for itself.

        Returns:
            The answer; None when it stays open, and when the run is ending: nobody is asked any more.

        Since 0.1.
        """
        run = self._run
        if run.ending:
            return None
        # Its address from the root: two runs inside this one may each ask under the same local name.
        request = with_digest(replace(request, id=run.journal.address(run.path + request.id)))
        run.journal.append("wait.opened", run.path + op, request, why, attempt, arguments, state or None)
        return await self.again(op, request)

    async def again(self, op: str, request: Request) -> Answer | None:
        """Ask for what was recorded before.

        Args:
            op: The command that waits.
            request: What is asked, as it was shown.

        Returns:
            The answer; None when it stays open.

        Since 0.1.
        """
        run, at = self._run, self._run.path + op
        if run.listener is not None:
            run.emit(Event("pending", at, run.journal.seq, request=request))
        answer = await self.answer(request)
        if answer is None:
            self.open[at] = request
            return None
        answer, by = await run.journal.agreed(request.id, answer)  # somebody elsewhere may have been faster
        run.journal.append("wait.answered", at, answer, by)
        return answer

    async def answer(self, request: Request) -> Answer | None:
        """What is said to a request in this process, one at a time; None when it stays open.

        Args:
            request: The request.

        Since 0.1.
        """
        if self._on_request is None:
            return expired(request)
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            try:
                return await asked(self._on_request, request)
            except Exception:  # whoever should answer failed, or answered something else; the request stays open
                logging.getLogger("ferrule.run").exception("answering a request of %s failed", self._run.info.run_id)
                return None

    def inside(self) -> OnRequest | None:
        """Who answers what a run inside this one asks."""
        return self.answer if self._on_request is not None else None

    def due(self) -> float | None:
        """When the first of those that are open expires, in seconds since 1970."""
        ends = (r.expiresAt for r in self.open.values())
        return min((parse_time(end).timestamp() for end in ends if end is not None), default=None)
