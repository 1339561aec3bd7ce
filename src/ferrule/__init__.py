"""ferrule: tool calls you can account for.

A tool is written once; every call of it ends in a `ToolResult`: done, failed
or suspended. The names below load on first use, so importing costs little.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.agent.agent import Agent, Session
    from ferrule.agent.compaction import Compaction
    from ferrule.agent.hooks import Hooks
    from ferrule.agent.loop import Limits
    from ferrule.app import App
    from ferrule.content import Part, audio, file, image, text
    from ferrule.errors import (
        ConfigurationError,
        ContentPartError,
        FerruleError,
        JSONSyntaxError,
        ModelError,
        RequestError,
        RunError,
        SessionBusy,
        ToolDefinitionError,
        ToolNameError,
        UnknownToolError,
        UnsupportedPartError,
        UsageError,
    )
    from ferrule.provider.base import Settings
    from ferrule.provider.price import Priced
    from ferrule.result import Failure, ToolResult, auth_required, pending, pending_of
    from ferrule.runtime.event import Event
    from ferrule.runtime.info import RunInfo
    from ferrule.runtime.outcome import RunResult
    from ferrule.strict_json import Opaque, plain, restore, typed
    from ferrule.suspension import Answer, Request
    from ferrule.tool.context import Context, Variables
    from ferrule.tool.tool import FunctionTool, Tool, ToolDefinition, tool
    from ferrule.tool.toolset import Toolset

    __version__: str

__all__ = [
    "Agent",
    "Answer",
    "App",
    "Compaction",
    "ConfigurationError",
    "ContentPartError",
    "Context",
    "Event",
    "Failure",
    "FerruleError",
    "FunctionTool",
    "Hooks",
    "JSONSyntaxError",
    "Limits",
    "ModelError",
    "Opaque",
    "Part",
    "Priced",
    "Request",
    "RequestError",
    "RunError",
    "RunInfo",
    "RunResult",
    "Session",
    "SessionBusy",
    "Settings",
    "Tool",
    "ToolDefinition",
    "ToolDefinitionError",
    "ToolNameError",
    "ToolResult",
    "Toolset",
    "UnknownToolError",
    "UnsupportedPartError",
    "UsageError",
    "Variables",
    "__version__",
    "audio",
    "auth_required",
    "file",
    "image",
    "pending",
    "pending_of",
    "plain",
    "restore",
    "text",
    "tool",
    "typed",
]

_HOME: dict[str, str] = {
    "Agent": "ferrule.agent.agent",
    "Answer": "ferrule.suspension",
    "App": "ferrule.app",
    "Compaction": "ferrule.agent.compaction",
    "ConfigurationError": "ferrule.errors",
    "ContentPartError": "ferrule.errors",
    "Context": "ferrule.tool.context",
    "Event": "ferrule.runtime.event",
    "Failure": "ferrule.result",
    "FerruleError": "ferrule.errors",
    "FunctionTool": "ferrule.tool.tool",
    "Hooks": "ferrule.agent.hooks",
    "JSONSyntaxError": "ferrule.errors",
    "Limits": "ferrule.agent.loop",
    "ModelError": "ferrule.errors",
    "Opaque": "ferrule.strict_json",
    "Part": "ferrule.content",
    "Priced": "ferrule.provider.price",
    "Request": "ferrule.suspension",
    "RequestError": "ferrule.errors",
    "RunError": "ferrule.errors",
    "RunInfo": "ferrule.runtime.info",
    "RunResult": "ferrule.runtime.outcome",
    "Session": "ferrule.agent.agent",
    "SessionBusy": "ferrule.errors",
    "Settings": "ferrule.provider.base",
    "Tool": "ferrule.tool.tool",
    "ToolDefinition": "ferrule.tool.tool",
    "ToolDefinitionError": "ferrule.errors",
    "ToolNameError": "ferrule.errors",
    "ToolResult": "ferrule.result",
    "Toolset": "ferrule.tool.toolset",
    "UnknownToolError": "ferrule.errors",
    "UnsupportedPartError": "ferrule.errors",
    "UsageError": "ferrule.errors",
    "Variables": "ferrule.tool.context",
    "audio": "ferrule.content",
    "auth_required": "ferrule.result",
    "file": "ferrule.content",
    "image": "ferrule.content",
    "pending": "ferrule.result",
    "pending_of": "ferrule.result",
    "plain": "ferrule.strict_json",
    "restore": "ferrule.strict_json",
    "text": "ferrule.content",
    "tool": "ferrule.tool.tool",
    "typed": "ferrule.strict_json",
}


def _version() -> str:
    metadata = import_module("importlib.metadata")
    try:
        return metadata.version("ferrule")
    except metadata.PackageNotFoundError:  # run from its sources
        return "0+unknown"


class _Face(ModuleType):
    """The package as a module object: names load on first use.

    `tool` is both the decorator and the sub-package that holds it. The import
    system would put the package in the decorator's place; the property keeps
    the name for the decorator, and `from ferrule.tool import …` works as ever.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            value: Any = _version()
        elif name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
        else:
            raise AttributeError(f"module 'ferrule' has no attribute {name!r}")
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted(__all__)

    @property
    def tool(self) -> Any:
        return import_module("ferrule.tool.tool").tool

    @tool.setter
    def tool(self, package: ModuleType) -> None:
        """Leave the name to the decorator."""


sys.modules[__name__].__class__ = _Face
