"""One immutable, versioned entry of a run's journal, and the form in which it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from ferrule.errors import StoreError
from ferrule.strict_json import Load, Spill, dumps, reread, restore, typed_fields

RecordType = Literal[
    "run.started", "run.taken", "hook.returned", "model.intended", "model.responded", "tool.intended", "tool.settled",
    "wait.opened", "wait.answered", "timer.fired", "child.started", "child.settled", "cancel.requested", "note",
    "run.settled",
]  # fmt: skip
VERSION: Final = 1  # 1: as below

# What each record tells, in this order; what stands last may be absent. An op is written with its path from the root.
FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "run.started": ("definition", "input", "context", "options", "worker", "forked"),  # forked: run, at, edits
    "run.taken": ("worker", "epoch"),
    "hook.returned": ("point", "op", "changed", "spent"),
    "model.intended": ("op", "attempt", "model", "requested"),  # requested: the digest of what it was asked with
    "model.responded": ("op", "outcome"),
    # arguments: JSON text, where it is not what was requested; requested: the digest of that
    "tool.intended": ("op", "tool", "attempt", "arguments", "requested"),
    "tool.settled": ("op", "outcome", "attempt", "retry_in"),  # a last one has no retry
    "wait.opened": ("op", "request", "why", "attempt", "arguments", "state"),
    "wait.answered": ("op", "outcome", "by"),
    "timer.fired": ("op", "outcome"),
    "child.started": ("op", "definition"),
    "child.settled": ("op", "outcome"),
    "cancel.requested": ("by",),
    "note": ("about", "reason", "error"),  # `blocked`: why it needs somebody
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
    v: int = VERSION


def body_of(type: RecordType, facts: tuple[Any, ...]) -> dict[str, Any]:
    """A record's facts by name.

    Args:
        type: What happened.
        facts: As `FACTS` names them.

    Since 0.1.
    """
    return dict(zip(FACTS[type], facts, strict=False))


def written(type: RecordType, facts: tuple[Any, ...], spill: Spill | None = None) -> bytes:
    """A record's facts as they are stored: tagged JSON.

    Args:
        type: What happened.
        facts: As `FACTS` names them.
        spill: Takes large leaves, as for `typed`.

    Since 0.1.
    """
    return dumps(typed_fields(FACTS[type], facts, spill=spill))


def read(run_id: str, seq: int, type: str, v: int, at: float, body: bytes, load: Load | None = None) -> Record:
    """A record from its stored form.

    Args:
        run_id: The run.
        seq: Its place.
        type: What happened.
        v: Version of the body's form.
        at: When.
        body: Its facts as they are stored.
        load: Gives large leaves, as for `restore`.

    Raises:
        StoreError: It was written by a newer version, or is damaged.

    Since 0.1.
    """
    if v > VERSION or type not in FACTS:
        raise StoreError(
            f"record {seq} of run {run_id} ({type}, version {v}) was written by a newer version of ferrule. "
            "Read it with that one."
        )
    try:
        told: dict[str, Any] = reread(body)
        facts = {k: restore(v, load=load) if isinstance(v, (dict, list)) else v for k, v in told.items()}
    except (ValueError, AttributeError) as error:
        raise StoreError(f"record {seq} of run {run_id} ({type}) is damaged. Restore the store.") from error
    return Record(run_id, seq, type, at, facts, v)  # pyright: ignore[reportArgumentType] - it is in FACTS
