"""Where a run stands, from its records: they are fed to a fresh machine, and nothing is done.

What is left open then goes on from where its last record left it: a call that
was begun and has no end, one that waits for an answer, one whose next attempt
is due at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ferrule.errors import NonDeterminism
from ferrule.journal.record import Record, RecordType
from ferrule.journal.retention import is_described
from ferrule.machine import (
    CallModel,
    CallTool,
    Cancel,
    Cancelled,
    Command,
    Completion,
    Definition,
    Finish,
    Machine,
    Sleep,
    StartRun,
    Wait,
)
from ferrule.runtime.digest import digest_of_arguments
from ferrule.suspension import Answer, Request, digest_of
from ferrule.tool.schema.arguments import InvalidArguments, read

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
        seq: The last record about it.
        inside: The record `child.started` of the run that the call is.

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
    seq: int = 0
    inside: Record | None = None


Watch: TypeAlias = Callable[[Record, Command, Found | None], None]


@dataclass(slots=True)
class Recovered:
    """Where a run stands.

    Args:
        commands: What it has commanded and not been told the end of.
        found: What is known of these, by op.
        commanded: After which record each of its commands was given, by op.
        cancelled_by: Who wanted it to end.
        finish: How it ended, if it has.
        foreign: Calls that were begun, have no end, and that this code does not command: op and attempt.

    Since 0.1.
    """

    commands: list[Command] = field(default_factory=list[Command])
    found: dict[str, Found] = field(default_factory=dict[str, Found])
    commanded: dict[str, int] = field(default_factory=dict[str, int])
    cancelled_by: str | None = None
    finish: Finish | None = None
    foreign: dict[str, int] = field(default_factory=dict[str, int])


def recover(
    machine: Machine,
    commands: Sequence[Command],
    records: Sequence[Record],
    path: str = "",
    *,
    watch: Watch | None = None,
    into: Recovered | None = None,
    strict: bool = True,
) -> Recovered:
    """Feed a machine what has been recorded.

    Args:
        machine: A fresh one, which has been started.
        commands: What it commanded at its start.
        records: The records of the whole run, in order.
        path: Where this run stands in that: the path of a run inside, ending in `/`.
        watch: Told of each record that is about a command, before the machine is.
        into: Is filled, for whoever wants to know how far it came where it raises.
        strict: Whether it must command what it did. For a run that only has to end, records of what it does not
            command are passed over.

    Returns:
        Where it stands.

    Raises:
        NonDeterminism: It commands something else than it did, and has to go on.

    Since 0.1.
    """
    told = into if into is not None else Recovered()
    opened: dict[str, Command] = {}
    _open(opened, told, commands, 1)
    holder: str | None = None
    cut: int = (records[0].body.get("forked") or {"at": 0})["at"] if records else 0
    for record in records:
        if 0 < cut < record.seq:
            cut, holder = _cut(told), records[0].body.get("worker")
        holder = record.body.get("worker", holder)
        if record.type == "cancel.requested":
            told.cancelled_by = record.body.get("by", "")
            given = machine.on(Completion("", record.at, Cancelled(told.cancelled_by or "")))
            _open(opened, told, given, record.seq)
            continue
        if record.type == "run.settled" and not path and strict:
            _ended(record, told, opened)
        op = _local(record.body.get("op"), path)
        if op is None:
            continue
        if record.type == "hook.returned":
            spent = record.body.get("spent")
            if spent is not None:
                machine.on(Completion(op, record.at, spent))
            continue
        command = opened.get(op)
        try:
            if command is None:
                raise NonDeterminism(record.seq, path + op, _told_by(record), _instead(told, opened, path))
            _known(record, command, path + op)
        except NonDeterminism:
            if strict:
                raise
            _note_foreign(told.foreign, record, op)
            continue
        if watch is not None:
            watch(record, command, told.found.get(op))
        if is_end(record, command):
            del opened[op]
            told.found.pop(op, None)
            given = machine.on(Completion(op, record.at, record.body.get("outcome")))
            _open(opened, told, given, record.seq)
        elif record.type == "child.settled":  # of the run that a call is: its machine hears of it before the call ends
            machine.on(Completion(op, record.at, record.body.get("outcome")))
        else:
            _note(told.found.setdefault(op, Found()), record, holder)
    if cut:
        _cut(told)
    told.commands = list(opened.values())
    return told


def _cut(told: Recovered) -> int:
    """Where a fork begins: a call with no end yet was another run's, its approval too. It is made anew.

    Of a run inside the steps are shared like any others: that one goes on.
    """
    told.found = {op: found for op, found in told.found.items() if found.inside is not None}
    return 0


def check_open(told: Recovered, records: Sequence[Record], path: str = "") -> None:
    """Look at what is still open before anything is done: a call that is refused by now, or a run inside that differs.

    Args:
        told: Where the run around them stands.
        records: The records of the whole run, in order.
        path: The path of the run around them.

    Raises:
        NonDeterminism: There is one. It stops the whole: nothing around it is settled.

    Since 0.1.
    """
    command: Any
    for command in told.commands:
        found = told.found.get(command.op)
        if found is not None and isinstance(command, CallTool) and command.given is not None:
            raise NonDeterminism(found.seq, path + command.op, described(command), "a refusal of that call")
        if found is not None and found.inside is not None:
            within = f"{path}{command.op}/"
            machine, commands = machine_inside(command, found)
            check_open(recover(machine, commands, records, within), records, within)


def machine_inside(command: Command, found: Found) -> tuple[Machine, Sequence[Command]]:
    """The machine of a run that a command is, started as it was.

    Args:
        command: The command.
        found: What its records tell: when the run inside began, and the call's frozen arguments.

    Raises:
        NonDeterminism: The call no longer takes those arguments.

    Since 0.1.
    """
    begun = found.inside
    try:
        definition, input = _inside_of(command, found.arguments)
    except InvalidArguments:
        seq, op = (begun.seq, begun.body["op"]) if begun is not None else (0, "")
        raise NonDeterminism(seq, op, "a run", "a call that does not take these arguments") from None
    machine = definition.machine({})
    return machine, machine.start(input, 0.0 if begun is None else begun.at)


def _inside_of(command: Any, arguments: str | None) -> tuple[Definition, Any]:
    if isinstance(command, StartRun):
        return command.definition, command.input
    tool = command.tool
    values, _ = read(tool.parameters, arguments or command.call.arguments, omit_blank=tool.omit_blank)
    return tool.agent, tool.input_of(values, command.within)


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


def _open(opened: dict[str, Command], told: Recovered, commands: Iterable[Command], seq: int) -> None:
    for command in commands:
        if isinstance(command, Finish):
            told.finish = command
        elif not isinstance(command, Cancel):
            opened[command.op] = command
            told.commanded[command.op] = seq


def is_end(record: Record, command: Command) -> bool:
    """Whether a record tells the end of its command.

    Args:
        record: The record.
        command: The command.

    Since 0.1.
    """
    if record.type == "tool.settled" and record.body.get("retry_in") is not None:
        return False
    return record.type == SETTLES.get(type(command))


# -- what differs -----------------------------------------------------------------------------------------------

_OF: Final = {"tool": CallTool, "model": CallModel, "timer": Sleep}
_WORDS: Final[Mapping[Any, str]] = {CallModel: "a model call", Sleep: "a pause", Wait: "a question"}
_NOT_ITS_OWN: Final = frozenset({"cancelled"})  # how a run ends whatever its machine wants


def _known(record: Record, command: Command, op: str) -> None:
    """That a record is one of this command: its kind, the name of what was called, and what with."""
    body = record.body
    kind = _OF.get(record.type.partition(".")[0])
    if kind is not None and type(command) is not kind:
        raise NonDeterminism(record.seq, op, _told_by(record), described(command))
    if isinstance(command, CallTool):
        now = command.call
        if body.get("tool", now.name) != now.name:
            raise NonDeterminism(record.seq, op, _told_by(record), described(command))
        was = body.get("requested")
        gone = is_described(now.arguments)  # of a run that is over and whose bytes retention has taken
        if was is not None and not gone and was != (is_now := digest_of_arguments(now.arguments)):
            raise NonDeterminism(
                record.seq, op, f"{_told_by(record)} with arguments {was}", f"the same with arguments {is_now}"
            )
        asked_about = _asked_about(record)
        if asked_about is not None and command.tool is not None and asked_about != command.tool.name:
            raise NonDeterminism(record.seq, op, f"tool {asked_about!r}", f"tool {command.tool.name!r}")
    if record.type == "child.started":
        _known_inside(record, command, op)
    elif record.type == "wait.opened" and isinstance(command, Wait):
        was, is_now = body["request"].digest, digest_of(command.request)
        if was is not None and was != is_now:
            raise NonDeterminism(record.seq, op, f"a question {was[:16]}", f"another one, {is_now[:16]}")


def _asked_about(record: Record) -> str | None:
    """The tool that a person was asked about: whether to call it, or what became of its call."""
    if record.type != "wait.opened" or record.body.get("why") not in ("approval", "outcome"):
        return None
    shown: Mapping[str, Any] = record.body["request"].data or {}
    return shown.get("tool")


def _known_inside(record: Record, command: Any, op: str) -> None:
    """That a run inside is one of the same definition, with an input that it still takes."""
    tool = getattr(command, "tool", None)
    definition = getattr(command, "definition", tool.agent if tool is not None and tool.runs == "run" else None)
    if definition is None or definition.name != record.body.get("definition", definition.name):
        now = described(command) if definition is None else f"a run of {definition.name!r}"
        raise NonDeterminism(record.seq, op, _told_by(record), now)


def _ended(record: Record, told: Recovered, opened: Mapping[str, Command]) -> None:
    """That the machine has come to the end that was recorded."""
    status = record.body.get("status")
    if status in _NOT_ITS_OWN or record.body.get("reason") == "deps":
        return
    if told.finish is None or told.finish.status != status:
        raise NonDeterminism(record.seq, "", f"the end ({status})", _instead(told, opened, ""))


def _told_by(record: Record) -> str:
    """What a record tells of, in words."""
    body, kind = record.body, record.type.partition(".")[0]
    if "tool" in body:
        return f"tool {body['tool']!r}"
    if record.type == "child.started":
        return f"a run of {body.get('definition')!r}"
    words = {"model": "a model call", "tool": "a tool call", "timer": "a pause", "wait": "a question"}
    return words.get(kind, record.type)


def described(command: Command) -> str:
    """A command in words, without what it was given.

    Args:
        command: The command.

    Since 0.1.
    """
    if isinstance(command, CallTool):
        return f"tool {command.call.name!r}"
    if isinstance(command, StartRun):
        return f"a run of {command.definition.name!r}"
    return _WORDS.get(type(command), type(command).__name__)


def _instead(told: Recovered, opened: Mapping[str, Command], path: str) -> str:
    """What is commanded in place of what a record tells of."""
    if told.finish is not None:
        return f"the end ({told.finish.status})"
    waiting = [op for op in opened if op not in told.found] or [*opened]
    return f"{described(opened[waiting[0]])} at {path + waiting[0]!r}" if waiting else "nothing"


def _note_foreign(foreign: dict[str, int], record: Record, op: str) -> None:
    if record.type == "tool.intended":
        foreign[op] = record.body["attempt"]
    elif record.type == "tool.settled":
        foreign.pop(op, None)


def _note(found: Found, record: Record, holder: str | None) -> None:
    body = record.body
    found.seq = record.seq
    if record.type == "child.started":
        found.inside = record
    elif record.type == "tool.intended":
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
