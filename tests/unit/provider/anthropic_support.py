"""What the tests of the Messages adapter share: an oracle made of the official types and of rules they cannot say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from anthropic.types import message_create_params as params
from pydantic import TypeAdapter

from ferrule import Tool, tool
from ferrule.message import Message, user
from ferrule.provider.anthropic.wire import AnthropicWire
from ferrule.provider.base import Body, Capabilities, ModelRequest, OutputSchema, Settings
from ferrule.strict_json import parse
from ferrule.tool.toolset import Toolset

EXAMPLES = Path(__file__).parent / "examples" / "anthropic"
MODEL = "example-model"
PLAIN = AnthropicWire(cache=None)

_TYPES: dict[bool, TypeAdapter[Any]] = {
    False: TypeAdapter(params.MessageCreateParamsNonStreaming),
    True: TypeAdapter(params.MessageCreateParamsStreaming),
}


@tool(
    name="get_weather",
    description="Current weather of a city.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string", "description": "City name"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
def get_weather(**arguments: str) -> str:
    return "4 degrees, rain"


@tool(
    name="read_chart",
    description="Return the current chart.",
    schema={"type": "object", "properties": {}, "additionalProperties": False},
)
def read_chart(**arguments: str) -> str:
    return "chart ready"


WEATHER = Toolset([get_weather])
BOTH = Toolset([get_weather, read_chart])


def some_tool(name: str) -> Tool:
    @tool(name=name, description="Does nothing.", schema={"type": "object", "properties": {}})
    def nothing(**arguments: str) -> None: ...

    return nothing


def example(name: str) -> Any:
    return json.loads((EXAMPLES / f"{name}.json").read_text("utf-8"))


def events(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines()]


def sent_by(
    wire: AnthropicWire,
    messages: Sequence[Message] | str,
    *,
    model: str = MODEL,
    capabilities: Capabilities | None = None,
    stream: bool = False,
    instructions: str = "",
    tools: Toolset | None = None,
    output: OutputSchema | None = None,
    **settings: Any,
) -> tuple[Any, Body]:
    """The body as JSON, checked by the oracle, and as the wire made it."""
    said = [user(messages)] if isinstance(messages, str) else messages
    request = ModelRequest(said, instructions, tools or Toolset(), Settings(**settings), output)
    body = wire.body(request, model, capabilities or Capabilities(), stream=stream)
    found = parse(body.json)
    check(found, sampling=wire.version == "2023-06-01")
    return found, body


def written(wire: AnthropicWire, messages: Sequence[Message] | str, **given: Any) -> Any:
    return sent_by(wire, messages, **given)[0]


def long(body: Any) -> Any:
    """A body with every short form of content written out: the API takes both as the same."""
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    return body


# -- the oracle -------------------------------------------------------------------------------------------------


def check(body: Any, *, sampling: bool = False) -> None:
    """Fail where the API would refuse a body."""
    typed = {k: v for k, v in body.items() if not (sampling and k in ("temperature", "top_p"))}
    _drain(_TYPES[bool(body.get("stream"))].validate_python(typed, extra="forbid"))
    assert len(list(markers(body))) <= 4
    _check_turns(body["messages"])
    for definition in body.get("tools", ()):
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", definition["name"])
    if body.get("thinking", {}).get("type") == "enabled":
        assert 1024 <= body["thinking"]["budget_tokens"] < body["max_tokens"]
        assert body.get("tool_choice", {}).get("type", "auto") in ("auto", "none")


def _drain(value: Any) -> Any:
    """Walk what is validated only when walked."""
    if isinstance(value, dict):
        return {k: _drain(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple | Iterator):
        return [_drain(v) for v in cast("Iterator[Any]", value)]
    return value


def _check_turns(messages: list[Any]) -> None:
    waiting: list[str] = []
    used: set[str] = set()
    role = ""
    for message in messages:
        assert message["role"] != role, "neighbours of one role"
        role, found = message["role"], message["content"]
        assert isinstance(found, list)
        content = cast("list[dict[str, Any]]", found)
        assert content
        results = [block for block in content if block["type"] == "tool_result"]
        assert [block["tool_use_id"] for block in results] == waiting
        assert content[: len(results)] == results
        assert all(block["text"].strip() for block in texts(content))
        for block in results:
            if block.get("is_error"):
                assert isinstance(block["content"], str) or {b["type"] for b in block["content"]} == {"text"}
                assert block["content"]
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        assert not used & set(waiting), "an id twice"
        used |= set(waiting)
        assert not waiting or content[-1]["type"] == "tool_use"
    assert not waiting


def texts(content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for block in content:
        if block["type"] == "text":
            yield block
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from texts(block["content"])


def markers(body: Any) -> Iterator[dict[str, Any]]:
    """Each block with a cache marker, in the order in which the provider reads them."""
    found: list[dict[str, Any]] = list(body.get("tools", ()))
    found += body["system"] if isinstance(body.get("system"), list) else []
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            found.append(block)
            found += block["content"] if isinstance(block.get("content"), list) else []
    yield from (block for block in [*found, body] if "cache_control" in block)
