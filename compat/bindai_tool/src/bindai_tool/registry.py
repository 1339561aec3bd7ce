"""A set of tools that can be added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ferrule
from bindai_core.context import ExecutionContext
from bindai_tool.tool import FunctionTool, settled

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ToolRegistry"]


class ToolRegistry:
    """A `ferrule.Toolset` that is replaced by a larger or smaller one."""

    def __init__(self) -> None:
        """Begin with no tool."""
        self._tools = ferrule.Toolset()

    def register(self, tool: ferrule.Tool | Callable[..., Any]) -> None:
        """Add a tool; a plain function becomes one.

        Args:
            tool: A tool or a function.

        Raises:
            ToolNameError: The name is taken.
            ToolDefinitionError: It is neither a tool nor a function.
        """
        if isinstance(tool, ferrule.Tool | type) or not callable(tool):
            self._tools = self._tools.add(tool)
        else:
            self._tools = self._tools.add(FunctionTool(tool))

    def get(self, name: str) -> ferrule.Tool:
        """The tool of a name.

        Args:
            name: Its name.

        Raises:
            UnknownToolError: There is none; it is a KeyError.
        """
        return self._tools[name]

    def contains(self, name: str) -> bool:
        """Whether there is such a tool.

        Args:
            name: Its name.
        """
        return name in self._tools

    def remove(self, name: str) -> None:
        """Remove a tool if it is there.

        Args:
            name: Its name.
        """
        self._tools = self._tools.filter(lambda tool: tool.name != name)

    def clear(self) -> None:
        """Remove all tools."""
        self._tools = ferrule.Toolset()

    def all(self) -> list[ferrule.Tool]:
        """The tools, in order of registration."""
        return list(self._tools)

    def definitions(self) -> list[ferrule.ToolDefinition]:
        """What to tell about each tool."""
        return self._tools.definitions()

    def execute(self, name: str, **arguments: Any) -> Any:
        """Execute a tool directly, unchecked, and give a ToolResult.

        Args:
            name: Its name.
            arguments: Become the variables of the context.

        Raises:
            UnknownToolError: There is none of that name.
        """
        return settled(self.get(name).execute, ExecutionContext(variables=arguments))

    def __len__(self) -> int:
        """How many tools there are."""
        return len(self._tools)
