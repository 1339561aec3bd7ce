"""What the tests of the Responses adapter share: the examples, two tools, and an oracle for request bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openai.types.responses import response_create_params
from pydantic import TypeAdapter

from ferrule.provider.base import Capabilities, ModelRequest
from ferrule.provider.openai_responses.wire import OpenAIResponses
from ferrule.strict_json import parse
from ferrule.tool import Toolset, tool

EXAMPLES = Path(__file__).parent / "examples" / "openai-responses"
MODEL = "example-model"
WIRE = OpenAIResponses()
STRICT = Capabilities(strict_tools=True)
_ORACLES: dict[bool, TypeAdapter[Any]] = {
    False: TypeAdapter(response_create_params.ResponseCreateParamsNonStreaming),
    True: TypeAdapter(response_create_params.ResponseCreateParamsStreaming),
}
_CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "City name"}},
    "required": ["city"],
    "additionalProperties": False,
}
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@tool(schema=_CITY)
def get_weather(**given: Any) -> str:
    """Current weather of a city."""
    return str(given)


@tool(schema=_NOTHING)
def read_chart(**given: Any) -> str:
    """Return the current chart."""
    return str(given)


TOOLS = Toolset([get_weather, read_chart])


def example(name: str) -> Any:
    return json.loads((EXAMPLES / name).read_text("utf-8"))


def events(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text("utf-8").splitlines()]


def ours(name: str) -> dict[str, Any]:
    """An example as we write it: always stateless, a text as a turn, and every list of required properties there."""
    body = {"include": ["reasoning.encrypted_content"], **example(name)}
    if isinstance(body["input"], str):
        body["input"] = [{"role": "user", "content": body["input"]}]
    for declared in body.get("tools", ()):
        declared["parameters"].setdefault("required", [])
    return body


def body(
    request: ModelRequest,
    capabilities: Capabilities = STRICT,
    *,
    stream: bool = False,
    model: str = MODEL,
    wire: OpenAIResponses = WIRE,
) -> dict[str, Any]:
    """The body as the server reads it, after the oracle has."""
    made = parse(wire.body(request, model, capabilities, stream=stream).json)
    check(made)
    return made


def check(made: dict[str, Any]) -> None:
    """Raise unless the official types take a body and its calls, results and reasoning are in order."""
    _drain(_ORACLES[bool(made.get("stream"))].validate_python(made, extra="forbid"))
    items: list[dict[str, Any]] = made["input"]
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert called == answered  # the types let an output go without
    assert len(set(called)) == len(called)
    assert all(0 < len(call_id) <= 64 for call_id in called)
    for item, follower in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") == "reasoning":
            assert follower.get("type") in ("function_call", "message", "reasoning")
        if item.get("type") == "function_call":
            json.loads(item["arguments"])


def _drain(value: Any) -> Any:
    """Walk what is checked only when walked."""
    if isinstance(value, dict):
        return {k: _drain(v) for k, v in value.items()}  # pyright: ignore
    if isinstance(value, list | tuple | Iterator):
        return [_drain(v) for v in value]  # pyright: ignore
    return value
