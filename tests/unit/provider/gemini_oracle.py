"""What Google's own types and rules say of a request body, and the golden bodies they were tried on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from google.genai import types
from pydantic import TypeAdapter

Json = dict[str, Any]

EXAMPLES: Final = Path(__file__).parent / "examples" / "gemini"
# Google's models forbid unknown keys by themselves.
_TYPES: Final[dict[str, TypeAdapter[Any]]] = {
    "contents": TypeAdapter(list[types.Content]),
    "systemInstruction": TypeAdapter(types.Content),
    "tools": TypeAdapter(list[types.Tool]),
    "toolConfig": TypeAdapter(types.ToolConfig),
    "generationConfig": TypeAdapter(types.GenerationConfig),
    "continuationToken": TypeAdapter(bytes),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")


def example(name: str) -> Any:
    return json.loads((EXAMPLES / name).read_text("utf-8"))


def check(body: Json) -> None:
    """Fail unless the body has the API's shape and keeps its rules of pairs, order and names."""
    for key, value in body.items():
        _TYPES[key].validate_json(json.dumps(value))
    waiting: list[tuple[str, str | None]] = []
    for content in body["contents"]:
        parts: list[Json] = content["parts"]
        assert parts
        assert content["role"] in ("user", "model")
        answers = [_named(p["functionResponse"]) for p in parts if "functionResponse" in p]
        assert answers == waiting, "each call has one response, in order, in the next content"
        assert not answers or len(answers) == len(parts), "nothing stands beside function responses"
        waiting = [_named(p["functionCall"]) for p in parts if "functionCall" in p]
    assert not waiting, "each call has a response"


def _named(one: Json) -> tuple[str, str | None]:
    assert _NAME.fullmatch(one["name"])
    return one["name"], one.get("id")
