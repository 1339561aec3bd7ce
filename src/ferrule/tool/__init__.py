"""Tools: declaring them, checking their arguments, calling them."""

from ferrule.tool.context import Context, Variables
from ferrule.tool.tool import FunctionTool, Tool, ToolDefinition, tool
from ferrule.tool.toolset import Toolset

__all__ = ["Context", "FunctionTool", "Tool", "ToolDefinition", "Toolset", "Variables", "tool"]
