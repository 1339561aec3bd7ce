"""One immutable, versioned entry of a run's journal."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

RecordType = Literal[
    "run.started", "hook.returned", "model.intended", "model.responded", "tool.intended", "tool.settled",
    "wait.opened", "wait.answered", "timer.set", "timer.fired", "child.started", "child.settled",
    "cancel.requested", "note", "run.settled",
]  # fmt: skip


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
