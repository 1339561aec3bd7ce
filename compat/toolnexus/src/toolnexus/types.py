"""Results, suspensions and tools under their toolnexus names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import ferrule
from ferrule.errors import RequestError, ToolDefinitionError
from ferrule.result import ToolResult, auth_required, pending, pending_of
from ferrule.suspension import REASONS, Answer, Request

__all__ = [
    "Answer",
    "Request",
    "Tool",
    "ToolContext",
    "ToolResult",
    "answer_declined",
    "answer_output",
    "auth_required",
    "pending",
    "pending_of",
    "sanitize",
]


def answer_output(id: str, output: str) -> Answer:
    """The answer that supplies the output of a waiting call.

    Args:
        id: The request's id.
        output: What the call ends with.

    Raises:
        TypeError: `output` is no str.
    """
    if not isinstance(output, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the output of an answer must be str, not {type(output).__name__}. Serialise it first.")
    return Answer(id, True, {"output": output})


def answer_declined(id: str, reason: str = "declined") -> Answer:
    """The answer that refuses a request.

    Args:
        id: The request's id.
        reason: `declined`, `cancelled` or `expired`.

    Raises:
        RequestError: Another reason; it is a ValueError.
    """
    if reason not in REASONS:
        raise RequestError(f"unknown reason {reason!r}. Use one of {', '.join(REASONS)}.")
    return Answer(id, False, reason=reason)


def sanitize(value: str) -> str:
    """The text with everything but ASCII letters, digits, `_` and `-` replaced by `_`.

    Args:
        value: A name, for example of a server.
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", value)


class ToolContext(ferrule.Context[Any]):
    """ferrule's context with toolnexus' three fields.

    Args:
        signal: Says that nobody waits any more; in a checked call the call's own context, with `cancelled()`.
        timeout: Seconds that the tool has.
        answer: The answer to what an earlier attempt asked.
        of_call: The arguments of `ferrule.Context`.
    """

    __slots__ = ("_given", "signal", "timeout")

    def __init__(
        self, signal: Any = None, timeout: float | None = None, answer: Answer | None = None, **of_call: Any
    ) -> None:
        """Keep the three fields beside ferrule's."""
        super().__init__(**of_call)
        self.signal = signal
        self.timeout = timeout
        self._given = answer

    @property
    def answer(self) -> Answer | None:
        """The answer given here, else the latest of the call."""
        return super().answer if self._given is None else self._given

    def cancelled(self) -> bool:
        """Whether nobody waits for this call any more."""
        told = getattr(self.signal, "cancelled", None)
        return super().cancelled() or (callable(told) and bool(told()))

    def for_call(self, arguments: Mapping[str, Any], deadline: float | None) -> ToolContext:
        """The context of one call made with this one.

        Args:
            arguments: The call's arguments by name.
            deadline: `time.monotonic()` after which nobody waits.
        """
        made = cast("ToolContext", super().for_call(arguments, deadline))
        made.signal, made.timeout, made._given = self.signal, self.timeout, self._given
        return made


def tool_context(context: ferrule.Context[Any] | None, timeout: float) -> ToolContext:
    """A context as toolnexus' tools know it.

    Args:
        context: Any context; it shares variables and state with the new one.
        timeout: Seconds that the tool has.
    """
    if isinstance(context, ToolContext):
        return context
    made = ToolContext(context, timeout)
    if context is not None:
        for name in ferrule.Context.__slots__:
            setattr(made, name, getattr(context, name))
    return made


@dataclass(eq=False, repr=False)
class Tool(ferrule.Tool):
    """A tool put together from its parts.

    Args:
        name: Its name.
        description: What it does.
        input_schema: JSON Schema of its arguments.
        source: Where it comes from, for people: `native`, `custom`, …
        execute: `(args, ctx)` to a result; sync or async.

    Raises:
        ToolDefinitionError: No name, or nothing to execute.
    """

    # A field without a default would get the base class's property for one.
    name: str = ""  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    description: str = ""  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    input_schema: dict[str, Any] = field(default_factory=dict[str, Any])
    source: str = "custom"
    execute: Callable[..., Any] = field(default=cast("Any", None))  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        """Refuse what could not be called."""
        if not self.name:
            raise ToolDefinitionError("a tool needs a name. Give name=.")
        if not callable(self.execute):
            raise ToolDefinitionError(
                f"tool {self.name!r} has nothing to execute. Give execute=, a function of (args, ctx)."
            )

    @property
    def definition(self) -> Mapping[str, Any]:
        """The schema of the arguments."""
        return self.input_schema

    def start(self, values: dict[str, Any], context: ferrule.Context[Any] | None) -> Any:
        """Begin the body with toolnexus' two arguments.

        Args:
            values: Checked arguments by name.
            context: The call's context.
        """
        return self.execute(values, tool_context(context, self.timeout))
