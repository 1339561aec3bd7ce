"""The protocols that stores implement."""

from __future__ import annotations

from typing import Any, Protocol

from ferrule.journal.record import RecordType


class Journal(Protocol):
    """The growing journal of one run, held by whoever drives it.

    Records become durable strictly in order. Whoever lets something leave the
    process that follows from a record waits for `durable` first.

    Since 0.1.
    """

    run_id: str
    seq: int

    @property
    def volatile(self) -> bool:
        """Whether records never become durable, so that there is nothing to wait for."""
        ...

    def append(self, type: RecordType, *facts: Any) -> float:
        """Put a record at the end; it is written behind.

        Args:
            type: What happened.
            facts: As `FACTS` names them; not by name, as a journal that keeps none need not even hold them.

        Returns:
            When it was recorded, in seconds since 1970.
        """
        ...

    def child(self, op: str) -> Journal:
        """The journal of a run inside this one, the same for the same command.

        Args:
            op: The command that starts it.
        """
        ...

    async def durable(self) -> None:
        """Wait until every record so far would survive the process."""
        ...
