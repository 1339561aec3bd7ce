"""Journals in memory: one that keeps its records, and one that only counts them."""

from __future__ import annotations

import time
from typing import Any

from ferrule.journal.record import FACTS, Record, RecordType


class MemoryJournal:
    """The journal of one run, in memory.

    Args:
        run_id: The run's id.
        keep: Whether records are kept. A run that nobody will look at again needs none.

    Since 0.1.
    """

    __slots__ = ("_keep", "records", "run_id", "seq")
    volatile = True

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
            body = dict(zip(FACTS[type], facts, strict=False))
            self.records.append(Record(self.run_id, self.seq, type, at, body))
        return at

    def child(self, op: str) -> MemoryJournal:
        """The journal of a run inside this one.

        Args:
            op: The command that starts it.
        """
        return MemoryJournal(f"{self.run_id}/{op}", keep=self._keep)

    async def durable(self) -> None:
        """Wait until every record so far would survive the process; here there is nothing to wait for."""
