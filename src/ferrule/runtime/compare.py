"""Two runs side by side: step by step by their ops, and where they first differ. It needs their records and no code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ferrule.journal.record import Record
from ferrule.message import Call
from ferrule.provider.base import ModelResponse
from ferrule.result import ToolResult
from ferrule.runtime.digest import digest_of
from ferrule.strict_json import dumps, typed
from ferrule.suspension import Answer

_ENDS: Final[Mapping[str, str]] = {
    "model.responded": "model", "tool.settled": "tool", "child.settled": "run", "timer.fired": "pause",
    "wait.answered": "question",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a run, and what came of it.

    Args:
        op: The command, with its path.
        kind: `model`, `tool`, `run` (one inside), `question` or `pause`.
        seq: The first record about it.
        name: The model, tool or definition.
        arguments: JSON of what a tool was called with, where it is not what the model had asked for.
        requested: The digest of what was asked for, or asked with.
        status: `done`, `failed` or `open`; of a model why it ended.
        output: The text that came of it.
        calls: What a model asked for: names and arguments.
        digest: Of all else that came of it: its value and parts.

    Since 0.1.
    """

    op: str
    kind: str
    seq: int
    name: str = ""
    arguments: str | None = None
    requested: str | None = None
    status: str = "open"
    output: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    digest: str = ""


_COMPARED: Final = ("kind", "name", "requested", "arguments", "status", "output", "calls", "digest")


@dataclass(frozen=True, slots=True)
class Pair:
    """The same op in two runs.

    Args:
        op: The command, with its path.
        a: What it was in the first run; None where it was not.
        b: The same of the second.
        differs: The fields of a `Step` that are not the same; "missing" where one of the runs has no such op.

    Since 0.1.
    """

    op: str
    a: Step | None
    b: Step | None
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, aligned.

    Args:
        a: The first run.
        b: The second.
        steps: Their ops, in the order of the first run; those of the second alone after the one that they followed.
        statuses: How each of them ended; None for one that goes on or waits.

    Since 0.1.
    """

    a: str
    b: str
    steps: tuple[Pair, ...]
    statuses: tuple[str | None, str | None] = (None, None)

    @property
    def first(self) -> Pair | None:
        """Where they first differ; None where no step does."""
        return next((pair for pair in self.steps if pair.differs), None)

    @property
    def same(self) -> bool:
        """Whether they did the same and came to the same end."""
        return self.first is None and self.statuses[0] == self.statuses[1]


def diff(a: Sequence[Record], b: Sequence[Record]) -> Comparison:
    """Compare two runs. Times, keys and what was consumed do not count.

    Args:
        a: The records of one.
        b: The records of the other.

    Since 0.1.
    """
    one, other = steps_of(a), steps_of(b)
    pairs = tuple(_pair(op, one.get(op), other.get(op)) for op in _aligned([*one], [*other]))
    return Comparison(a[0].run_id, b[0].run_id, pairs, (_status(a), _status(b)))


def steps_of(records: Sequence[Record]) -> dict[str, Step]:
    """What a run did, by op with its path, in the order of their first records.

    Args:
        records: Its records.

    Since 0.1.
    """
    found: dict[str, Step] = {}
    for record in records:
        op: str | None = record.body.get("op")
        if op is None or record.type == "hook.returned":
            continue
        step = found.get(op) or Step(op, record.type.partition(".")[0], record.seq)
        found[op] = _grown(step, record)
    return found


def _grown(step: Step, record: Record) -> Step:
    body, type = record.body, record.type
    if type == "model.intended":
        return replace(step, name=body["model"], requested=body.get("requested"))
    if type == "tool.intended":
        arguments = body.get("arguments", step.arguments)
        return replace(step, kind="tool", name=body["tool"], arguments=arguments, requested=body.get("requested"))
    if type == "child.started":
        return step if step.kind == "tool" else replace(step, kind="run", name=body["definition"])
    if type == "wait.opened":
        return replace(step, kind="question" if step.kind == "wait" else step.kind)
    if type not in _ENDS or body.get("retry_in") is not None or (type == "wait.answered" and step.kind != "question"):
        return step
    return _came_to(replace(step, kind=_ENDS[type]), body.get("outcome"))


def _came_to(step: Step, outcome: Any) -> Step:
    if isinstance(outcome, ToolResult):
        rest = [outcome.value, outcome.parts, outcome.failure and outcome.failure.code]
        status = "failed" if outcome.is_error else "done"
        return replace(step, status=status, output=outcome.output, digest=digest_of(dumps(typed(rest))))
    response = getattr(outcome, "response", outcome)  # of a request whose transcript a hook had replaced
    if isinstance(response, ModelResponse):
        asked: Sequence[Call] = response.message.calls
        return replace(
            step,
            status=response.finish,
            output=response.message.text,
            calls=tuple((call.name, call.arguments) for call in asked),
        )
    if isinstance(outcome, Answer):
        given = digest_of(dumps(typed([outcome.data, outcome.arguments])))
        return replace(step, status="done" if outcome.ok else "failed", output=outcome.reason or "", digest=given)
    return replace(step, status=getattr(outcome, "status", "done"), output=getattr(outcome, "output", ""))


def _pair(op: str, a: Step | None, b: Step | None) -> Pair:
    if a is None or b is None:
        return Pair(op, a, b, ("missing",))
    return Pair(op, a, b, tuple(name for name in _COMPARED if getattr(a, name) != getattr(b, name)))


def _aligned(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """The ops of both, in the order of the first; those of the other alone after the one that they followed there."""
    known, after = set(one), dict[str | None, list[str]]()
    last: str | None = None
    for op in other:
        if op in known:
            last = op
        else:
            after.setdefault(last, []).append(op)
    return [*after.get(None, ()), *(op for base in one for op in (base, *after.get(base, ())))]


def _status(records: Sequence[Record]) -> str | None:
    return next((record.body["status"] for record in reversed(records) if record.type == "run.settled"), None)
