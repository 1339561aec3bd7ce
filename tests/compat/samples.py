"""What several of these tests use."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bindai_tool
import ferrule
import toolnexus

MEDIA = Path(__file__).parents[2] / "examples" / "media"
PNG = (MEDIA / "fixture.png").read_bytes()
PNG_TEXT = base64.b64encode(PNG).decode()
HAND_WRITTEN = {"type": "image", "mimeType": "image/png", "data": PNG_TEXT}
ANY_ARGUMENTS = {"type": "object"}
KEY = "sk-4f9a1c77"


def call(tool: ferrule.Tool, arguments: dict[str, Any] | None = None, context: Any = None) -> ferrule.ToolResult:
    """The checked call, from sync code."""
    return asyncio.run(tool.call(arguments, context))


def tool_that_returns(result: toolnexus.ToolResult) -> toolnexus.Tool:
    """A tool of toolnexus that always ends so."""

    async def execute(args: dict[str, Any], ctx: toolnexus.ToolContext) -> toolnexus.ToolResult:
        return result

    return toolnexus.Tool("sample", "Return what it was made with.", ANY_ARGUMENTS, "custom", execute)


class Sample(bindai_tool.Tool):
    """A class tool of bindai_tool whose body is given."""

    def __init__(self, body: Callable[[Any], Any]) -> None:
        self.body = body

    @property
    def name(self) -> str:
        return "sample"

    @property
    def description(self) -> str:
        return "Do what it was given."

    @property
    def definition(self) -> bindai_tool.ToolDefinition | None:
        return None

    def execute(self, context: Any) -> Any:
        return self.body(context)


def returns(result: Any) -> Callable[[Any], Any]:
    """A body that ends so."""
    return lambda context: result


def raises(error: Exception) -> Callable[[Any], Any]:
    """A body that raises."""

    def body(context: Any) -> Any:
        raise error

    return body


@bindai_tool.tool
def echo(text: str) -> str:
    """Repeat a text."""
    return text


class Address:
    """An object that JSON does not know."""

    def __init__(self, city: str) -> None:
        self.city = city
