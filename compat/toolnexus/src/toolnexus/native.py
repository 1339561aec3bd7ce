"""Tools made from functions, under toolnexus' name for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import ferrule
from toolnexus.types import Tool, tool_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["define_tool"]


class FunctionTool(Tool):
    """A toolnexus tool that is checked and run as ferrule's tool of the function.

    Args:
        inner: ferrule's tool.
        source: Where it comes from, for people.
    """

    def __init__(self, inner: ferrule.FunctionTool[..., Any], source: str) -> None:
        """Take over what ferrule read from the function."""
        super().__init__(inner.name, inner.description, inner.parameters.schema, source, self.call)
        self._start = inner.start
        for name in ("injected", "parameters", "output_check", "runs"):
            vars(self)[name] = getattr(inner, name)

    def start(self, values: dict[str, Any], context: ferrule.Context[Any] | None) -> Any:
        """Call the function.

        Args:
            values: Checked arguments by name.
            context: Goes to the parameters annotated `ToolContext`.
        """
        return self._start(values, tool_context(context, self.timeout) if self.injected else context)


@overload
def define_tool(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    source: str = "native",
) -> Tool: ...
@overload
def define_tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    source: str = "native",
) -> Callable[[Callable[..., Any]], Tool]: ...
def define_tool(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    source: str = "native",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, directly or as a decorator.

    Args:
        fn: Sync or async; a parameter annotated `ToolContext` gets the context.
        name: Default the function's name.
        description: Default the docstring without its parameter block.
        input_schema: JSON Schema of the arguments; default read from the annotations.
        source: Where it comes from, for people.

    Raises:
        ToolDefinitionError: The function cannot make a tool.
    """

    def make(function: Callable[..., Any]) -> Tool:
        inner = ferrule.FunctionTool(function, name or "", description or "", schema=input_schema)
        return FunctionTool(inner, source)

    return make if fn is None else make(fn)
