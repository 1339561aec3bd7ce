"""What today's code makes of a run's records: whether it still commands the same, and what another model would do.

Neither dispatches a call with effects. A replay feeds the records and dispatches
nothing at all; a rehearsal asks models, and has tools answer from the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ferrule.errors import NonDeterminism
from ferrule.journal.memory import MemoryJournal
from ferrule.journal.record import Record
from ferrule.machine import CallModel, CallTool, Command, Definition, Machine
from ferrule.result import ToolResult
from ferrule.runtime.answer import OnRequest
from ferrule.runtime.digest import digest_of_request, equal_arguments
from ferrule.runtime.driver import Driver, Listener
from ferrule.runtime.info import RunInfo, new_run_id
from ferrule.runtime.outcome import RunResult
from ferrule.runtime.recovery import Found, Recovered, check_open, is_end, machine_inside, recover

OnMiss = Literal["stop", "read"]
_ENDS = ("run.settled", "cancel.requested")  # after these a run only has to end


class Divergence(NamedTuple):
    """Where today's code commands something else than a run's records tell.

    Args:
        seq: The record.
        op: The command, with its path; "" for the end of the run.
        recorded: What the record tells.
        now: What this code commands.
        blocks: Whether the run could not go on with this code. Another model, other instructions, tools or settings
            that a model is asked with, and tools that are gone since they were called, do not stop it.

    Since 0.1.
    """

    seq: int
    op: str
    recorded: str
    now: str
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of feeding a run's records to today's code.

    Args:
        run_id: The run.
        records: How many records it has.
        differences: In order, each kind of those that do not block once; the last of them may block, and what comes
            after that is unknown.

    Since 0.1.
    """

    run_id: str
    records: int
    differences: tuple[Divergence, ...] = ()

    @property
    def first(self) -> Divergence | None:
        """The first difference; None where there is none."""
        return self.differences[0] if self.differences else None

    @property
    def blocks(self) -> bool:
        """Whether the run could not go on with this code."""
        return any(found.blocks for found in self.differences)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What came of a run with other models or instructions, its tools answering from the journal.

    Args:
        run_id: The run that was recorded.
        result: How it would have ended; `incomplete` with the reason `not_recorded` where it stopped at a call.
        answered: Calls that the journal answered, by op.
        called: Calls of `read` tools that were made, by op.
        missed: The op of the call it stopped at.

    Since 0.1.
    """

    run_id: str
    result: RunResult[Any]
    answered: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    missed: str | None = None


@dataclass(slots=True)
class Seen:
    """What was seen while records were fed to a run and to the runs inside it.

    Args:
        differences: Where the code differs, in any order.
        commands: Every command that a record is about, by op with its path.
        commanded: After which record each command was given, by op with its path.
        settled: Tool calls and what came of them, in order.

    Since 0.1.
    """

    differences: list[Divergence] = field(default_factory=list[Divergence])
    commands: dict[str, Command] = field(default_factory=dict[str, Command])
    commanded: dict[str, int] = field(default_factory=dict[str, int])
    settled: list[tuple[CallTool, Any]] = field(default_factory=list[tuple[CallTool, Any]])

    @property
    def blocks(self) -> bool:
        """Whether one of the differences does."""
        return any(found.blocks for found in self.differences)

    def differ(self, error: NonDeterminism) -> None:
        """Keep a difference that blocks.

        Args:
            error: What tells of it.
        """
        self.differences.append(Divergence(error.seq, error.op, error.recorded, error.now))

    def until_blocked(self) -> tuple[Divergence, ...]:
        """The differences in order, up to the first that blocks; of those that do not, each kind once."""
        told: dict[tuple[str, str], Divergence] = {}
        for found in sorted(self.differences):
            told.setdefault((found.recorded, found.now), found)
            if found.blocks:
                break
        return tuple(told.values())


def replay(run_id: str, definition: Definition, records: Sequence[Record]) -> Replay:
    """Feed a run's records to a fresh machine of today's code, and dispatch nothing.

    Args:
        run_id: The run.
        definition: What it is a run of.
        records: All its records.

    Since 0.1.
    """
    seen = feed(definition, records)
    if not (seen.blocks or any(record.type in _ENDS for record in records)):  # as whoever goes on with it looks first
        machine, started = definition.machine(records[0].body.get("options") or {}), records[0]
        try:
            check_open(recover(machine, machine.start(started.body["input"], started.at), records), records)
        except NonDeterminism as error:
            seen.differ(error)
    return Replay(run_id, len(records), seen.until_blocked())


def feed(definition: Definition, records: Sequence[Record]) -> Seen:
    """Feed records to fresh machines, of the runs inside too, and see what they make of them.

    Args:
        definition: What the records are a run of.
        records: All its records.

    Since 0.1.
    """
    seen, started = Seen(), records[0]
    machine = definition.machine(started.body.get("options") or {})
    _feed(machine, machine.start(started.body["input"], started.at), records, "", seen)
    return seen


def _feed(
    machine: Machine, commands: Sequence[Command], records: Sequence[Record], path: str, seen: Seen, began: int = 1
) -> None:
    inside: list[tuple[Any, Found]] = []

    def watch(record: Record, command: Command, found: Found | None) -> None:
        op: str = record.body["op"]
        seen.commands[op] = command
        if record.type == "model.intended":
            seen.differences += _other_model(record, command)
        elif record.type == "tool.intended" and isinstance(command, CallTool) and command.given is not None:
            was = f"tool {record.body['tool']!r}"
            seen.differences.append(Divergence(record.seq, op, was, "a refusal of that call", blocks=False))
        elif record.type == "child.started":
            inside.append((command, Found(arguments=found.arguments if found is not None else None, inside=record)))
        elif isinstance(command, CallTool) and is_end(record, command):
            seen.settled.append((command, record.body.get("outcome")))

    told = Recovered()
    try:
        recover(machine, commands, records, path, watch=watch, into=told)
    except NonDeterminism as error:
        seen.differ(error)
    seen.commanded.update({path + op: max(seq, began) for op, seq in told.commanded.items()})
    for command, found in inside:
        try:
            within, first = machine_inside(command, found)
        except NonDeterminism as error:
            seen.differ(error)
        else:
            began = found.inside.seq if found.inside is not None else 1
            _feed(within, first, records, f"{path}{command.op}/", seen, began)


def _other_model(record: Record, command: Command) -> list[Divergence]:
    """What differs in a request to a model: a run goes on all the same."""
    if not isinstance(command, CallModel):
        return []
    was, op = record.body, record.body["op"]
    if was["model"] != command.model.name:
        return [Divergence(record.seq, op, f"model {was['model']!r}", f"model {command.model.name!r}", blocks=False)]
    now = digest_of_request(command.request)
    if was.get("requested", now) == now:
        return []
    asked = "instructions, tools, settings or form of the answer"
    return [Divergence(record.seq, op, f"{asked} {was['requested']}", f"others, {now}", blocks=False)]


# -- with other models ------------------------------------------------------------------------------------------


class _Missed(Exception):
    """A call that the journal does not know of, by its op."""


class _Answers:
    """What tools answer in place of being called.

    Args:
        settled: What was recorded.
        on_miss: What is done with calls that were not.
    """

    def __init__(self, settled: Sequence[tuple[CallTool, Any]], on_miss: OnMiss) -> None:
        """Sort them by tool and arguments."""
        self._on_miss = on_miss
        self._recorded: Mapping[Any, list[ToolResult]] = defaultdict(list)
        self.answered: list[str] = []
        self.called: list[str] = []
        for command, outcome in settled:
            self._recorded[_asked(command)].append(outcome)

    def __call__(self, op: str, command: CallTool) -> ToolResult | None:
        """The result of a call; None where it is made.

        Args:
            op: Its op, with its path.
            command: The call.

        Raises:
            _Missed: It is not known, and not to be made.
        """
        known = self._recorded.get(_asked(command))
        if known:
            self.answered.append(op)
            return known.pop(0) if len(known) > 1 else known[0]  # asked more often than then, the last one counts
        if self._on_miss == "stop" or command.tool.effect != "read":
            raise _Missed(op)
        self.called.append(op)
        return None


def _asked(command: CallTool) -> tuple[int, str]:
    return id(command.tool), equal_arguments(command.call.arguments)


async def rehearse(
    run_id: str,
    definition: Definition,
    recorded: Definition,
    records: Sequence[Record],
    *,
    on_miss: OnMiss = "stop",
    deps: Any = None,
    on_request: OnRequest | None = None,
    on_event: Listener | None = None,
) -> Rehearsal:
    """Run again in memory: models are asked, tools answer from the journal by name and arguments.

    Args:
        run_id: The run.
        definition: What is run, with its other model or instructions.
        recorded: What the records are a run of.
        records: All of them.
        on_miss: With `read`, tools of effect `read` are called where the journal has no answer; every other miss stops.
        deps: Live objects, for those.
        on_request: Answers what those ask.
        on_event: Hears of what happens.

    Since 0.1.
    """
    started = records[0].body
    answers = _Answers(feed(recorded, records).settled, on_miss)
    driver = Driver(
        definition,
        MemoryJournal(new_run_id(), keep=False),
        RunInfo(run_id, started.get("context") or {}, deps),
        options=started.get("options"),
        listener=definition.heard_by(on_event),
        on_request=on_request,
        substitute=answers,
    )
    missed: str | None = None
    try:
        result = await driver.run(started["input"])
    except _Missed as stopped:
        missed = str(stopped)
        why = f"the journal of run {run_id} has no result of the call {missed!r}"
        result = RunResult(run_id, "incomplete", error=why, reason="not_recorded", usage=driver.machine.usage)
    return Rehearsal(run_id, result, tuple(answers.answered), tuple(answers.called), missed)
