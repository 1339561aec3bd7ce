"""ToolResult with the constructor of bindai_tool."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, overload

import ferrule
from bindai_core.executable import ExecutionResult
from ferrule.result import model_text

__all__ = ["ToolResult"]


class ToolResult(ferrule.ToolResult, ExecutionResult):
    """How a tool's execution ended; `ferrule.ToolResult` made in another way.

    Every `ferrule.ToolResult` counts as one, and the same result made in either
    way is equal.

    Args:
        success: Whether the execution succeeded.
        value: What it produced; of a failure None, whatever is given.
        error: Why it failed, text or an exception; of a success None, whatever is given.
        output: What the model reads, default the value; stands in for a missing value.
        fields: In place of `success` and `error` the fields of `ferrule.ToolResult`, which is how
            `dataclasses.replace` makes a changed copy.

    Raises:
        UsageError: `success` is neither True nor False.
    """

    __slots__ = ()

    @overload
    def __init__(
        self, success: bool, value: Any = None, error: str | BaseException | None = None, *, output: Any = None
    ) -> None: ...
    @overload
    def __init__(
        self,
        *,
        output: str,
        is_error: bool,
        metadata: dict[str, Any] | None = None,
        parts: list[dict[str, Any]] | None = None,
        value: Any = None,
        failure: ferrule.Failure | None = None,
    ) -> None: ...
    def __init__(
        self, success: Any = None, value: Any = None, error: Any = None, *, output: Any = None, **fields: Any
    ) -> None:
        """Let ferrule make the result and take its fields."""
        if success is None and "is_error" in fields:
            made = ferrule.ToolResult(output, value=value, **fields)
        elif not isinstance(success, bool) or fields:
            raise ferrule.UsageError(
                "give success, True or False, then value and error: ToolResult(success=True, value=…)."
            )
        elif success:
            text = None if output is None else model_text(output)
            made = ferrule.ToolResult.ok(output if value is None else value, output=text)
        else:
            made = ferrule.ToolResult.failed("" if error is None else error)
        for name in _FIELDS:
            object.__setattr__(self, name, getattr(made, name))

    @classmethod
    def ok(cls, value: Any = None) -> ToolResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A result that succeeded.

        Args:
            value: What the tool produced; None is a value.
        """
        return cls(True, value)

    @classmethod
    def failed(cls, message: str | BaseException) -> ToolResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A result that failed.

        Args:
            message: What went wrong; an exception is described, credentials taken out.
        """
        return cls(False, error=message)

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        """Count every result of ferrule's as one of these."""
        return issubclass(other, ferrule.ToolResult) if cls is ToolResult else NotImplemented


_FIELDS = tuple(f.name for f in fields(ferrule.ToolResult))
