"""What a tool is told about its call: ferrule's context and its variables."""

from ferrule.tool.context import Context as ExecutionContext
from ferrule.tool.context import Variables

__all__ = ["ExecutionContext", "Variables"]
