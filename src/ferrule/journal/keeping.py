"""What a store does for runs as wholes: it hands one on to another store, and lets go of old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ferrule.journal.store import Asked, Entry, Given, Letter, Row


class Whole(NamedTuple):
    """A run with all that a store holds of it, at one moment.

    Args:
        entry: How it stands.
        rows: Its records, all of them.
        letters: What has come for it and was not read.
        requests: What it asked, the oldest first.
        answers: The audit: the request's address, and an answer that was given to it, in order.
        digests: SHA-256 of the bytes that it refers to, in order.
        blobs: Those bytes, as far as they are at hand. A store gives none: they are read one by one.
        holder: Of a run that somebody holds: seconds since their last beat, and what they said of themselves.

    Since 0.1.
    """

    entry: Entry
    rows: Sequence[Row]
    letters: Sequence[Letter] = ()
    requests: Sequence[Asked] = ()
    answers: Sequence[tuple[str, Given]] = ()
    digests: Sequence[str] = ()
    blobs: Mapping[str, bytes] = {}
    holder: tuple[float, dict[str, Any]] | None = None


class Keeping(Protocol):
    """The part of a `Store` that moves whole runs, and lets go of them.

    Since 0.1.
    """

    async def whole(self, run_id: str) -> Whole | None:
        """All that the store holds of a run, as of one moment.

        Args:
            run_id: The run.
        """
        ...

    async def adopt(self, given: Whole) -> Entry | None:
        """Take in a run as another store gave it, all of it or nothing.

        It stands as it stood there. No lease comes along: who held it counts as lapsed, and is known to `workers` only
        for others to prove it dead.

        Args:
            given: The run, with its blobs; one whose bytes are gone is referred to without them.

        Returns:
            None; or the run that has this id or this idempotency key already, and then nothing was written.
        """
        ...

    async def over(self, before: float | None = None) -> list[str]:
        """Outermost runs that are over, those that ended first in front.

        Args:
            before: Only those whose last record is older, in seconds since 1970.
        """
        ...

    async def size(self) -> int:
        """Bytes that all runs together need."""
        ...

    async def weigh(self, run_ids: Sequence[str]) -> dict[str, int]:
        """About how many bytes each of some runs needs: its records, and its blobs as if only it had them.

        Args:
            run_ids: The runs.
        """
        ...

    async def remove_blobs(self, before: float) -> int:
        """Remove the bytes that only runs refer to which are over for long; what they said of them stays.

        Args:
            before: Runs whose last record is older, in seconds since 1970.

        Returns:
            How many blobs were removed.
        """
        ...
