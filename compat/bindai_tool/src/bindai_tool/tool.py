"""Tools with the calling conventions of bindai_tool."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, overload

import ferrule
from bindai_core.context import ExecutionContext
from bindai_tool.result import ToolResult
from ferrule.result import as_result
from ferrule.tool.tool import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["FunctionTool", "Tool", "ToolDefinition", "settled", "tool"]


class Tool(ferrule.Tool):
    """The base of class tools: `name`, `description`, `definition` and `execute(context)`.

    `execute` called directly returns what the class returns; `await call({…})`
    is ferrule's checked call.
    """

    @property
    @abstractmethod
    def description(self) -> str:
        """What the tool does, for the model."""

    @abstractmethod
    def execute(self, context: Any) -> Any:
        """Do the work.

        Args:
            context: Its `variables` hold the arguments.

        Returns:
            A ToolResult.
        """


def settled(body: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The ToolResult that a direct call ends with.

    Args:
        body: What to call.
        args: Its arguments.
        kwargs: Its arguments by name.

    Returns:
        A ToolResult. When the body gives an awaitable and an event loop runs here, which must not be blocked, an
        awaitable of one.
    """
    try:
        value = body(*args, **kwargs)
    except Exception as error:  # a call ends in a result, whatever the tool does
        return as_result(error)
    if not inspect.isawaitable(value):
        return as_result(value)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(value))
    return _awaited(value)


async def _awaited(value: Awaitable[Any]) -> ferrule.ToolResult:
    try:
        return as_result(await value)
    except Exception as error:  # as above
        return as_result(error)


class FunctionTool(ferrule.FunctionTool[..., Any], Tool):  # pyright: ignore[reportIncompatibleVariableOverride]
    """ferrule's tool of a function, which ends in a ToolResult when called directly too.

    A coroutine function is awaited: here when no event loop runs, else the call
    gives an awaitable of the result.

    Args:
        function: Sync or async; its annotations make the schema.
        name: Default the function's name.
        description: Default the docstring without its parameter block.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            function: Callable[..., Any],
            name: str | None = None,
            description: str | None = None,
            **declaration: Any,
        ) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with arguments and give a ToolResult."""
        names = list(self.parameters.schema.get("properties", {}))
        if len(args) > len(names):
            return ToolResult.failed(f"{self.name} takes {len(names)} arguments, but {len(args)} were given.")
        return self.execute(ExecutionContext(variables={**dict(zip(names, args, strict=False)), **kwargs}))

    def execute(self, context: Any, **arguments: Any) -> Any:
        """Call the function with what it names among the variables and give a ToolResult.

        Args:
            context: Its `variables` hold the arguments.
            arguments: Variables to set before.
        """
        context.variables.update(arguments)
        return settled(super().execute, context)


@overload
def tool(func: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(*, name: str | None = None, **declaration: Any) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    func: Callable[..., Any] | None = None, /, *, name: str | None = None, **declaration: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function, bare or with a name.

    Args:
        func: The function, when used without parentheses.
        name: Default the function's name.
        declaration: More arguments of `ferrule.FunctionTool`.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(function, name, **declaration)

    return make if func is None else make(func)
