"""What the tests of Chat Completions share: examples, two tools, and OpenAI's own types as the judge of bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from openai.types.chat import ChatCompletionChunk
from openai.types.chat import completion_create_params as params
from pydantic import TypeAdapter

from ferrule import tool
from ferrule.message import Call, Message, ModelMessage, ToolMessage, Usage
from ferrule.provider.base import Capabilities, ModelRequest, ModelResponse
from ferrule.provider.openai_chat.wire import DIALECTS, ChatWire, Dialect
from ferrule.tool.toolset import Toolset

EXAMPLES = Path(__file__).parent / "examples"
USAGE = Usage(input=90, output=40, cached=64, reasoning=16)
OSLO = '{"city":"Oslo"}'
ROME = '{"city":"Rome"}'
EVERYTHING = Capabilities(audio=True)


@tool
def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: City name
    """
    return city


@tool
def read_chart() -> str:
    """Return the current chart."""
    return ""


TOOLS = Toolset([get_weather, read_chart])


def example(name: str) -> Any:
    return json.loads((EXAMPLES / name).read_text("utf-8"))


def events(name: str) -> list[Any]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text("utf-8").splitlines()]


def weather(city: str, wire_id: str | None, id: str = "c1") -> Call:
    return Call(id, "get_weather", json.dumps({"city": city}, separators=(",", ":")), wire_id)


def asked(*calls: Call, text: str = "", raw: Any = None) -> ModelMessage:
    return ModelMessage(text, calls, raw=raw)


def answered(call: Call, output: str = "4 degrees, rain", **more: Any) -> ToolMessage:
    return ToolMessage(call, output, **more)


def wire(api: str = "openai-chat") -> ChatWire:
    return ChatWire(DIALECTS[api])


def body(
    messages: Iterable[Message],
    dialect: str | Dialect = "openai-chat",
    *,
    model: str = "example-model",
    capabilities: Capabilities = EVERYTHING,
    stream: bool = False,
    **request: Any,
) -> Any:
    """The body for a request, after OpenAI's types and the rules of pairing have taken it."""
    made = ChatWire(dialect if isinstance(dialect, Dialect) else DIALECTS[dialect])
    sent = made.body(ModelRequest(list(messages), **request), model, capabilities, stream=stream)
    found = json.loads(sent.json)
    judge(found, made.api)
    return found


# -- the judge --------------------------------------------------------------------------------------------------

_PLAIN: TypeAdapter[Any] = TypeAdapter(params.CompletionCreateParamsNonStreaming)
_STREAMED: TypeAdapter[Any] = TypeAdapter(params.CompletionCreateParamsStreaming)
_CHUNK = TypeAdapter(ChatCompletionChunk)
# What compatible servers add to OpenAI's shape.
_ADDED = frozenset(
    [
        "reasoning_format",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "provider",
        "cache_control",
        "random_seed",
        "extra_content",
    ]
)
_ADDED_PARTS = {"document_url", "thinking"}


def _drained(value: Any) -> Any:
    """Iterable fields are checked only when walked."""
    if isinstance(value, dict):
        return {k: _drained(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple | Iterator):
        return [_drained(v) for v in cast("list[Any]", value)]
    return value


def _without_added(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_added(v) for k, v in cast("dict[str, Any]", value).items() if k not in _ADDED}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [
            _without_added(i) for i in items if not (isinstance(i, dict) and cast("Any", i).get("type") in _ADDED_PARTS)
        ]
    return value


def judge(found: Any, api: str) -> None:
    plain = found if api == "openai-chat" else _without_added(found)
    if plain.get("tool_choice") == "any":
        plain = {**plain, "tool_choice": "required"}
    _drained((_STREAMED if plain.get("stream") else _PLAIN).validate_python(plain, extra="forbid"))
    waiting: list[str] = []
    before = ""
    for message in found["messages"]:
        role = message["role"]
        if role == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
        else:
            assert waiting == []
            calls: list[Any] = message.get("tool_calls") or []
            assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
            waiting = [call["id"] for call in calls]
            assert len(set(waiting)) == len(waiting)
        if api == "mistral":
            assert (before, role) != ("tool", "user")
            assert all(re.fullmatch("[A-Za-z0-9]{9}", id) for id in waiting)
        before = role
    assert waiting == []


def is_chunk(event: Any) -> bool:
    """Whether OpenAI's type takes a chunk; raises when it does not."""
    _CHUNK.validate_json(json.dumps(event))
    return True


# -- streams ----------------------------------------------------------------------------------------------------


def decoded(stream: Iterable[Any], api: str = "openai-chat", *, done: bool = True) -> tuple[ModelResponse, list[Any]]:
    """The answer of a stream, and its deltas."""
    decoder = wire(api).decoder("example-model")
    deltas = [delta for event in stream for delta in decoder.feed("message", event)]
    if done:
        deltas += decoder.feed("message", None)
    return decoder.finish(), deltas


# -- answers --------------------------------------------------------------------------------------------------


def whole(message: Any, finish: str | None = "stop", api: str = "openai-chat", **more: Any) -> ModelResponse:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return wire(api).response({"choices": [choice], **more}, "example-model")


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(id: str | None = None, index: int | None = None, name: str | None = None, arguments: Any = None) -> Any:
    entry = {"id": id, "index": index, "function": {"name": name, "arguments": arguments}}
    return chunk(tool_calls=[{k: v for k, v in entry.items() if v is not None}])


def kept(answer: ModelResponse) -> Any:
    assert answer.message.raw is not None
    return answer.message.raw.items
