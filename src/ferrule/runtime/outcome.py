"""How a run ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic

from typing_extensions import TypeVar

from ferrule.errors import FerruleError, RunError
from ferrule.exception import describe_exception
from ferrule.machine import Status
from ferrule.message import Message, Usage
from ferrule.result import ToolResult
from ferrule.strict_json import Codec, made_of_fields, register
from ferrule.suspension import Request

Out = TypeVar("Out", default=str)

_CODES = {
    "incomplete": "budget",
    "failed": "unavailable",
    "cancelled": "cancelled",
    "suspended": "refused",
    "blocked": "unavailable",
}


@dataclass(frozen=True)  # slots and `RunResult[int](…)` do not go together on Python 3.11
class RunResult(Generic[Out]):
    """How a run ended; not a tool's result.

    Args:
        run_id: The run's id.
        status: `done`, `incomplete` (a limit, named in `reason`), `failed`, `cancelled`, `suspended` (it waits for
            answers to `requests`), or `blocked` (it needs an operator).
        output: The text that was said last; with a failure what had come of it, while suspended nothing.
        value: What code reads: the checked output, or the text where no other type was asked for.
        error: Why it did not succeed: a `ModelError`, what the factory of `deps` raised, or text.
        reason: The limit or rule that ended it early.
        requests: What it waits for.
        usage: What models consumed, runs inside included.
        messages: The transcript; calls and results are paired.

    Since 0.1.
    """

    run_id: str
    status: Status
    output: str = ""
    value: Out = None  # pyright: ignore[reportAssignmentType] - None where there is no value
    error: Any = None
    reason: str | None = None
    requests: tuple[Request, ...] = ()
    usage: Usage = field(default_factory=Usage)
    messages: Sequence[Message] = ()

    def raise_for_status(self) -> RunResult[Out]:
        """This result, when the run is done.

        Raises:
            ModelError: A provider ended it.
            RunError: Anything else did.
        """
        if self.status == "done":
            return self
        if isinstance(self.error, Exception):
            raise self.error
        mend = " Give the run an on_request that answers." if self.status == "suspended" else ""
        raise RunError(self.describe() + mend)

    def describe(self) -> str:
        """One sentence on how the run ended."""
        why = self._why()
        return f"run {self.run_id} is {self.status}" + (f": {why}" if why else "") + "."

    def _why(self) -> str | None:
        if self.status == "suspended":
            return f"it waits for {len(self.requests)} answer{'s' * (len(self.requests) != 1)}"
        if isinstance(self.error, Exception) and not isinstance(self.error, FerruleError):
            return describe_exception(self.error)
        return self.reason if self.error is None else str(self.error)

    def as_tool_result(self, *, after_effects: bool = False) -> ToolResult:
        """What the model that asked for this run is told of it.

        Args:
            after_effects: Whether `once` calls had begun in it: when it failed, another one might repeat them.
        """
        if self.status == "done":
            return ToolResult.ok(self.value, output=self.output)
        text, code = f"It ended {self.status}: {self._why() or self.status}", _CODES[self.status]
        if self.output:
            text += f"\nIt had said: {self.output}"
        if after_effects:
            text += "\nCalls with effects had been begun in it, so do not simply ask for it again."
            code = "outcome_unknown"
        return ToolResult.failed(text, code=code)


def _fields_of(run: RunResult[Any]) -> dict[str, Any]:
    shown = {f.name: getattr(run, f.name) for f in fields(run)}
    return {**shown, "messages": list(run.messages), "error": str(run.error) if run.error is not None else None}


register(RunResult, Codec("$run", _fields_of, _fields_of, made_of_fields(RunResult)))
