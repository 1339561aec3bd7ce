"""Where a run stands, from its records: they are fed to a fresh machine, and nothing is done.

What is left open then goes on from where its last record left it: a call that
was begun and has no end, one that waits for an answer, one whose next attempt
is due at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ferrule.errors import NonDeterminism
from ferrule.journal.record import Record, RecordType
from ferrule.machine import (
    CallModel,
    CallTool,
    Cancel,
    Cancelled,
    Command,
    Completion,
    Finish,
    Machine,
    Sleep,
    StartRun,
    Wait,
)
from ferrule.suspension import Answer, Request

SETTLES: Final[Mapping[Any, RecordType]] = {
    CallTool: "tool.settled",
    CallModel: "model.responded",
    StartRun: "child.settled",
    Sleep: "timer.fired",
    Wait: "wait.answered",
}


@dataclass(slots=True)
class Found:
    """What the records tell of a command that has no end yet.

    Args:
        attempt: The last attempt of a call of a tool or a model that was begun.
        begun: Whether that attempt has neither an end nor a question.
        holder: The worker that began it.
        at: When it was begun, or a timer set.
        arguments: JSON text of the frozen arguments, where they are not what the model asked for.
        original: The same before a person changed them.
        retry_at: When the next attempt is due.
        retried: How many attempts were made because one failed.
        request: What it waits for.
        why: `approval`, `tool` (it asked by itself), `outcome` or `wait`.
        answer: What was answered to that.
        answers: What the tool asked before, and the answers.
        state: What the tool kept for itself.

    Since 0.1.
    """

    attempt: int = 0
    begun: bool = False
    holder: str | None = None
    at: float = 0.0
    arguments: str | None = None
    original: str | None = None
    retry_at: float | None = None
    retried: int = 0
    request: Request | None = None
    why: str = ""
    answer: Answer | None = None
    answers: list[tuple[Request, Answer]] = field(default_factory=list[tuple[Request, Answer]])
    state: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Recovered:
    """Where a run stands.

    Args:
        commands: What it has commanded and not been told the end of.
        found: What is known of these, by op.
        cancelled_by: Who wanted it to end.
        finish: How it ended, if it has.
        foreign: Calls that were begun, have no end, and that this code does not command: op and attempt.

    Since 0.1.
    """

    commands: list[Command] = field(default_factory=list[Command])
    found: dict[str, Found] = field(default_factory=dict[str, Found])
    cancelled_by: str | None = None
    finish: Finish | None = None
    foreign: dict[str, int] = field(default_factory=dict[str, int])


def recover(
    machine: Machine, commands: Sequence[Command], records: Iterable[Record], path: str = "", *, strict: bool = True
) -> Recovered:
    """Feed a machine what has been recorded.

    Args:
        machine: A fresh one, which has been started.
        commands: What it commanded at its start.
        records: The records of the whole run, in order.
        path: Where this run stands in that: the path of a run inside, ending in `/`.
        strict: Whether it must command what it did. For a run that only has to end, records of what it does not
            command are passed over.

    Returns:
        Where it stands.

    Raises:
        NonDeterminism: It commands something else than it did, and has to go on.

    Since 0.1.
    """
    told = Recovered()
    opened: dict[str, Command] = {}
    _open(opened, told, commands)
    holder: str | None = None
    for record in records:
        holder = record.body.get("worker", holder)
        if record.type == "cancel.requested":
            told.cancelled_by = record.body.get("by", "")
            _open(opened, told, machine.on(Completion("", record.at, Cancelled(told.cancelled_by or ""))))
            continue
        op = _local(record.body.get("op"), path)
        if op is None:
            continue
        if record.type == "hook.returned":
            spent = record.body.get("spent")
            if spent is not None:
                machine.on(Completion(op, record.at, spent))
            continue
        command = opened.get(op)
        differs = _difference(record, command, op)
        if command is None or differs is not None:
            if strict:
                raise NonDeterminism(differs)
            _note_foreign(told.foreign, record, op)
        elif _ends(record, command):
            del opened[op]
            told.found.pop(op, None)
            _open(opened, told, machine.on(Completion(op, record.at, record.body.get("outcome"))))
        elif record.type == "child.settled":  # of the run that a call is: its machine hears of it before the call ends
            machine.on(Completion(op, record.at, record.body.get("outcome")))
        else:
            _note(told.found.setdefault(op, Found()), record, holder)
    told.commands = list(opened.values())
    return told


def open_requests(records: Iterable[Record]) -> set[str]:
    """Ids of the requests that wait for an answer, those of runs inside included.

    Args:
        records: The records of the whole run, in order.

    Since 0.1.
    """
    waiting: dict[str, str] = {}  # by op, with its path
    for record in records:
        if record.type == "wait.opened":
            waiting[record.body["op"]] = record.body["request"].id
        elif record.type in ("wait.answered", "tool.settled"):
            waiting.pop(record.body["op"], None)
    return set(waiting.values())


def _local(op: str | None, path: str) -> str | None:
    """An op of this very run, without its path; None for one of another run."""
    if op is None or not op.startswith(path):
        return None
    local = op[len(path) :]
    return None if "/" in local else local


def _open(opened: dict[str, Command], told: Recovered, commands: Iterable[Command]) -> None:
    for command in commands:
        if isinstance(command, Finish):
            told.finish = command
        elif not isinstance(command, Cancel):
            opened[command.op] = command


def _ends(record: Record, command: Command) -> bool:
    if record.type == "tool.settled" and record.body.get("retry_in") is not None:
        return False
    return record.type == SETTLES.get(type(command))


_OF: Final = {"tool": CallTool, "model": CallModel, "timer": Sleep}


def _difference(record: Record, command: Command | None, op: str) -> str | None:
    """Why a record is none of this command, which differs in its kind or in the name of what was called."""
    if command is None:
        return f"record {record.seq} tells of {op!r}, and this code commands no such thing there"
    kind = _OF.get(record.type.partition(".")[0])
    name = record.body.get("tool")
    if (kind is not None and type(command) is not kind) or (
        name is not None and isinstance(command, CallTool) and command.call.name != name
    ):
        was = f"tool {name!r}" if name else record.type
        now = f"tool {command.call.name!r}" if isinstance(command, CallTool) else type(command).__name__
        return f"record {record.seq} tells of {op!r} as {was}, and this code commands {now} there"
    return None


def _note_foreign(foreign: dict[str, int], record: Record, op: str) -> None:
    if record.type == "tool.intended":
        foreign[op] = record.body["attempt"]
    elif record.type == "tool.settled":
        foreign.pop(op, None)


def _note(found: Found, record: Record, holder: str | None) -> None:
    body = record.body
    if record.type == "tool.intended":
        found.attempt, found.begun, found.at, found.holder = body["attempt"], True, record.at, holder
        found.arguments = body.get("arguments", found.arguments)
        _answered(found)
        found.retry_at = None
    elif record.type == "model.intended":
        found.attempt = body["attempt"]
    elif record.type == "tool.settled":
        found.begun, found.retry_at = False, record.at + body["retry_in"]
        found.retried += 1
    elif record.type == "wait.opened":
        _answered(found)
        found.begun, found.request, found.why = False, body["request"], body.get("why", "wait")
        found.attempt = body.get("attempt", found.attempt)
        found.arguments = body.get("arguments", found.arguments)
        found.state = body.get("state", found.state)
    elif record.type == "wait.answered":
        found.answer = body["outcome"]


def _answered(found: Found) -> None:
    """What was waited for is over; the call has gone on with the answer."""
    request, answer = found.request, found.answer
    if request is not None and answer is not None:
        if found.why == "tool":
            found.answers.append((request, answer))
        elif found.why == "approval" and answer.arguments is not None and found.original is None:
            found.original = found.arguments or ""
    found.request = found.answer = None
