"""The base of everything that an execution ends with."""

from abc import ABC

import ferrule

__all__ = ["ExecutionResult"]


class ExecutionResult(ABC):  # noqa: B024 - a common name for results; what they hold is theirs
    """What an execution ended with; its subclasses say more.

    Every `ferrule.ToolResult` counts as one.
    """

    __slots__ = ()


ExecutionResult.register(ferrule.ToolResult)
