"""Journals in memory: one that keeps its records, and one that only counts them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ferrule.journal.record import Record, RecordType, body_of
from ferrule.suspension import Answer


class MemoryJournal:
    """The journal of one run, in memory.

    Args:
        run_id: The run's id.
        keep: Whether records are kept. A run that nobody will look at again needs none.

    Since 0.1.
    """

    __slots__ = ("_keep", "records", "run_id", "seq")
    volatile = True
    behind = 0

    def __init__(self, run_id: str, *, keep: bool = True) -> None:
        """Start with no record."""
        self.run_id = run_id
        self.seq = 0
        self.records: list[Record] = []
        self._keep = keep

    def append(self, type: RecordType, *facts: Any) -> float:
        """Put a record at the end.

        Args:
            type: What happened.
            facts: As `FACTS` names them.

        Returns:
            When it was recorded.
        """
        self.seq += 1
        at = time.time()
        if self._keep:
            self.records.append(Record(self.run_id, self.seq, type, at, body_of(type, facts)))
        return at

    def as_recorded(self, outcome: Any) -> Any:
        """The object itself: this record holds it.

        Args:
            outcome: What was appended last.
        """
        return outcome

    def address(self, id: str) -> str:
        """Under what id a request is answered; here its own.

        Args:
            id: That.
        """
        return id

    def once_durable(self, tell: Callable[[], None]) -> None:
        """Do something once every record so far would survive the process; here at once.

        Args:
            tell: That.
        """
        tell()

    async def agreed(self, request_id: str, answer: Answer) -> tuple[Answer, str]:
        """The answer itself: nobody else can give one.

        Args:
            request_id: The request.
            answer: The answer.
        """
        return answer, "inline"

    async def durable(self) -> None:
        """Wait until every record so far would survive the process; here there is nothing to wait for."""

    def forget(self, letter: int) -> None:
        """Have the store forget a letter; here there are none.

        Args:
            letter: Its number.
        """

    async def quiet(self, holder: str | None, deadline: float) -> bool:
        """Wait until what a former holder began can no longer be going on; here there was none.

        Args:
            holder: The worker that began it.
            deadline: When it has to have ended.
        """
        return True

    async def end(self, status: str, due: float | None = None) -> None:
        """Let go of the run; here nobody else could take it.

        Args:
            status: How it stands.
            due: When to look at it again.
        """
