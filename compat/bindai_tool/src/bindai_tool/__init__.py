"""The bindai_tool names, handed on to ferrule.

`ToolDefinition` is ferrule's own; the other classes are subclasses with
bindai_tool's constructors, or hold ferrule's objects.
"""

from bindai_tool.registry import ToolRegistry
from bindai_tool.result import ToolResult
from bindai_tool.tool import FunctionTool, Tool, ToolDefinition, tool

__all__ = ["FunctionTool", "Tool", "ToolDefinition", "ToolRegistry", "ToolResult", "tool"]
