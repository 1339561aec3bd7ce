"""Another run from somewhere in one that was recorded: what came before is shared, what comes after is done anew.

A call that had no end there belongs to the other run, with its approval and its
answers: the fork makes it anew, under an id and a key of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.errors import NonDeterminism, UsageError
from ferrule.journal.record import Record
from ferrule.machine import CallTool, Definition
from ferrule.result import ToolResult
from ferrule.runtime.replay import Seen, feed
from ferrule.strict_json import dumps, plain
from ferrule.tool.schema.arguments import InvalidArguments, read

Edits = Mapping[str, Mapping[str, Any]]
_KEYS = ("arguments", "result")


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a fork begins, and what is different in it.

    Args:
        at: The last record that is shared.
        edits: By op with its path, the `tool` and its `arguments` or its `result`.

    Since 0.1.
    """

    at: int
    edits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    def facts(self, started: Record, run_id: str, worker: str) -> tuple[Any, ...]:
        """The facts of the fork's own first record.

        Args:
            started: The first record of the other run.
            run_id: That run.
            worker: Who holds the fork.
        """
        body = started.body
        about = {"run": run_id, "at": self.at, "edits": {op: dict(edit) for op, edit in self.edits.items()}}
        return (body["definition"], body["input"], body.get("context") or {}, body.get("options"), worker, about)


def plan_fork(
    definition: Definition,
    records: Sequence[Record],
    *,
    at: int | None = None,
    before: str | None = None,
    edits: Edits | None = None,
) -> Fork:
    """Settle where a fork begins, and that what shall be different in it can be.

    Args:
        definition: What the records are a run of.
        records: All of them.
        at: The last record to share; or
        before: the op, with its path, before which the fork begins: after the last record with no call in flight
            before that was commanded.
        edits: By op, `{"arguments": {…}}` to make its call with, or the `{"result": …}` to take in place of it.

    Raises:
        UsageError: There is no such record or op, or an edit of what cannot be edited.
        NonDeterminism: Today's code commands something else before the fork begins.

    Since 0.1.
    """
    seen = feed(definition, records)
    if (at is None) == (before is None):
        raise UsageError("a fork begins at a record or before an op. Say at=… or before=…, and not both.")
    at = at if at is not None else _before(before or "", records, seen)
    if not 1 <= at <= len(records):
        raise UsageError(f"the run has records 1 to {len(records)}, and no record {at}.")
    wrong = next((d for d in seen.until_blocked() if d.blocks and d.seq <= at), None)
    if wrong is not None:
        raise NonDeterminism(wrong.seq, wrong.op, wrong.recorded, wrong.now)
    over = _begun(records[:at])
    made = {op: edit for op, edit in _edits_of(records).items() if op not in over}
    for op, edit in (edits or {}).items():
        made[op] = _edit(op, edit, seen, over)
    return Fork(at, made)


def _before(op: str, records: Sequence[Record], seen: Seen) -> int:
    """The last record with no call in flight before an op was commanded."""
    upto = seen.commanded.get(op)
    if upto is None:
        raise UsageError(f"the run has no op {op!r}. `ferrule logs` shows those that it has.")
    flying: set[str] = set()
    calm = 1
    for record in records[:upto]:
        if record.type == "tool.intended":
            flying.add(record.body["op"])
        elif record.type in ("tool.settled", "wait.opened", "child.started"):  # of a run inside each step is recorded
            flying.discard(record.body["op"])
        if not flying:
            calm = record.seq
    return calm


def _begun(records: Sequence[Record]) -> set[str]:
    """The ops that cannot be edited any more: those that have an end, and runs inside that have begun."""
    ended = ("tool.settled", "child.started", "model.responded", "wait.answered")
    return {r.body["op"] for r in records if r.type in ended and r.body.get("retry_in") is None}


def _edit(op: str, edit: Mapping[str, Any], seen: Seen, over: set[str]) -> Mapping[str, Any]:
    command = seen.commands.get(op)
    if not isinstance(command, CallTool) or command.tool is None:
        what = "is no call of a tool that there is" if command is not None else "is none of the run"
        raise UsageError(f"the op {op!r} {what}, and only those can be edited.")
    if op in over:
        raise UsageError(f"the op {op!r} lies in what the fork shares. Begin before it: before={op!r}.")
    if len(edit) != 1 or next(iter(edit)) not in _KEYS:
        raise UsageError(f"an edit of {op!r} has either 'arguments' or a 'result', not {', '.join(map(repr, edit))}.")
    if "result" in edit:
        given = edit["result"]
        result = given if isinstance(given, ToolResult) else ToolResult.ok(given)
        if result.pending is not None:
            raise UsageError(f"the result of {op!r} is a request. Give what the call comes to.")
        return {"tool": command.call.name, "result": result}
    try:
        read(command.tool.parameters, edit["arguments"], omit_blank=command.tool.omit_blank)
    except InvalidArguments as error:
        raise UsageError(f"the arguments for {op!r} do not fit tool {command.call.name!r}. {error}") from error
    return {"tool": command.call.name, "arguments": plain(edit["arguments"], big_ints="number")}


def substitutes(records: Sequence[Record]) -> Callable[[str, CallTool], ToolResult | str | None] | None:
    """What a driver asks for the edits of a run; None where it has none.

    An edit is one of a call of that tool: where the fork came to call another one there, it is left aside.

    Args:
        records: The records of the run.

    Since 0.1.
    """
    edits = _edits_of(records)

    def look(op: str, command: CallTool) -> ToolResult | str | None:
        edit = edits.get(op)
        if edit is None or edit["tool"] != command.call.name:
            return None
        return cast("ToolResult", edit["result"]) if "result" in edit else dumps(edit["arguments"]).decode()

    return look if edits else None


def _edits_of(records: Sequence[Record]) -> Edits:
    forked: Mapping[str, Any] | None = records[0].body.get("forked") if records else None
    return {} if forked is None else forked["edits"]


def recorded_result(records: Sequence[Record], op: str) -> ToolResult:
    """What a call came to in a run.

    Args:
        records: The records of that run.
        op: The call, with its path.

    Raises:
        UsageError: There it came to nothing.

    Since 0.1.
    """
    for record in records:
        if record.type == "tool.settled" and record.body["op"] == op and record.body.get("retry_in") is None:
            return record.body["outcome"]
    run_id = records[0].run_id if records else "?"
    raise UsageError(f"run {run_id} has no result of a call {op!r} to be taken.")
