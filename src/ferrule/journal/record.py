"""One immutable, versioned entry of a run's journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

RecordType = Literal[
    "run.started", "hook.returned", "model.intended", "model.responded", "tool.intended", "tool.settled",
    "wait.opened", "wait.answered", "timer.fired", "child.started", "child.settled", "cancel.requested", "run.settled",
]  # fmt: skip

# What each record tells, in this order; what stands last may be absent.
FACTS: Final[Mapping[RecordType, tuple[str, ...]]] = {
    "run.started": ("definition", "context"),
    "hook.returned": ("point", "op", "changed", "spent"),
    "model.intended": ("op", "attempt", "model"),
    "model.responded": ("op", "outcome"),
    "tool.intended": ("op", "call", "arguments", "attempt"),
    "tool.settled": ("op", "outcome", "attempt", "retry_in"),
    "wait.opened": ("op", "request"),
    "wait.answered": ("op", "outcome", "by"),
    "timer.fired": ("op", "outcome"),
    "child.started": ("op", "run_id"),
    "child.settled": ("op", "outcome"),
    "cancel.requested": ("by",),
    "run.settled": ("status", "reason"),
}


class Record(NamedTuple):
    """One entry.

    Args:
        run_id: The run it belongs to.
        seq: Its place in the run, from 1, without gaps.
        type: What happened.
        at: When, in seconds since 1970.
        body: The facts, by name; objects of ours as they are.
        v: Version of the body's form.

    Since 0.1.
    """

    run_id: str
    seq: int
    type: RecordType
    at: float
    body: dict[str, Any]
    v: int = 1
