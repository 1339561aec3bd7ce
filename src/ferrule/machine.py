"""Machines decide, the driver performs: the commands of one, the completions of the other.

A machine is a pure object. It does no I/O, reads no clock, draws no random
number and keeps all its state in itself; fed the same completions it comes to
the same commands. The agent loop and the workflow engine are machines; the
runtime knows only what stands on this page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from ferrule.message import Call, Message, Usage
from ferrule.result import ToolResult
from ferrule.suspension import Request

T = TypeVar("T")


def maker(kind: type[T]) -> Callable[[tuple[Any, ...]], T]:
    """What makes a named tuple from all of its fields, in half the time that calling its class takes.

    Args:
        kind: The class. The values are given in the order of its fields, and none may be left out.

    Since 0.1.
    """
    return partial(cast("Any", tuple).__new__, kind)


Status = Literal["done", "incomplete", "failed", "cancelled", "suspended", "blocked"]


class CallModel(NamedTuple):
    """Ask a model. Completed by its `ModelResponse`.

    Args:
        op: Id of the command, unique and deterministic within the run.
        model: The model.
        request: The `ModelRequest`.

    Since 0.1.
    """

    op: str
    model: Any
    request: Any


class CallTool(NamedTuple):
    """Run a tool. Completed by a `ToolResult` that is done or failed.

    Where the tool is a run inside this one, the machine hears of that run's end
    before, by a `RunResult` with the same op; nothing may follow from it but a sum.

    Args:
        op: Id of the command.
        call: What was asked for.
        tool: The tool; None when there is none to run.
        given: The result of a call that is not to be made.
        within: What a run inside may still consume: `Limits`.

    Since 0.1.
    """

    op: str
    call: Call
    tool: Any
    given: ToolResult | None = None
    within: Any = None


class Wait(NamedTuple):
    """Ask a person. Completed by an `Answer`.

    Args:
        op: Id of the command.
        request: What is asked.

    Since 0.1.
    """

    op: str
    request: Request


class Sleep(NamedTuple):
    """Let time pass. Completed by None.

    Args:
        op: Id of the command.
        seconds: How long.
        until: RFC 3339 time, in place of `seconds`.

    Since 0.1.
    """

    op: str
    seconds: float = 0.0
    until: str | None = None


class StartRun(NamedTuple):
    """Start a run inside this one. Completed by its `RunResult`.

    Args:
        op: Id of the command.
        definition: What is run.
        input: What it is given.

    Since 0.1.
    """

    op: str
    definition: Definition
    input: Any


class Cancel(NamedTuple):
    """Stop waiting for a command. It is completed all the same, by what came of it.

    Args:
        op: Id of that command.

    Since 0.1.
    """

    op: str


class Finish(NamedTuple):
    """The run has ended.

    Args:
        status: How.
        output: Text for people.
        value: What code reads.
        error: Why it did not succeed: a `ModelError`, or text.
        reason: The limit or rule that ended it early.

    Since 0.1.
    """

    status: Status
    output: str = ""
    value: Any = None
    error: Any = None
    reason: str | None = None


Command: TypeAlias = CallModel | CallTool | Wait | Sleep | StartRun | Cancel | Finish


class Completion(NamedTuple):
    """What came of a command, as the record of it says.

    Args:
        op: Id of the command; "" for what comes from outside: a cancellation.
        at: When it was recorded, in seconds since 1970. The only clock a machine has.
        outcome: What came of it.

    Since 0.1.
    """

    op: str
    at: float
    outcome: Any


class Cancelled(NamedTuple):
    """The outcome that tells a machine to come to an end: calls in flight are settled, no further ones are made.

    Args:
        by: Who cancelled the run; "" when nobody says.

    Since 0.1.
    """

    by: str = ""


class Machine(Protocol):
    """One run, as decisions.

    Since 0.1.
    """

    def start(self, input: Any, at: float) -> Sequence[Command]:
        """The first commands.

        Args:
            input: What the run is given.
            at: When it started, in seconds since 1970.
        """
        ...

    def on(self, completion: Completion) -> Sequence[Command]:
        """What to do next, until one of the commands is `Finish`.

        Args:
            completion: What happened.
        """
        ...

    @property
    def messages(self) -> Sequence[Message]:
        """The transcript so far; empty for machines without one."""
        ...

    @property
    def usage(self) -> Usage:
        """What models consumed so far, runs inside included."""
        ...


class Definition(Protocol):
    """Something that can be run: an agent, a workflow, a single tool.

    Since 0.1.
    """

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def hooks(self) -> Any:
        """What looks at each step and may change it; None for nothing."""
        ...

    def machine(self, options: Mapping[str, Any]) -> Machine:
        """A fresh machine for one run.

        Args:
            options: What the start of this run says differently, for example limits.
        """
        ...

    def rewritten(self, response: Any, messages: Sequence[Message]) -> Any:
        """The outcome of a request whose transcript a hook had replaced.

        Args:
            response: The `ModelResponse`.
            messages: The transcript that was sent.
        """
        ...

    def live(self, context: Mapping[str, Any]) -> Any:
        """The live objects that its tools get as `ctx.deps`, or an awaitable of them; None when it makes none.

        Args:
            context: The run's JSON object.
        """
        ...

    def heard_by(self, listener: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
        """Who hears of what happens in a run: the definition's own listeners, and one more.

        Args:
            listener: The one more.
        """
        ...
