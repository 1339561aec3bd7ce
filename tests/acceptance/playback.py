"""What a provider would say, told once and written down as each API writes it: whole or in pieces.

    answers = [say("openai", Turn(calls=[("c1", "add", '{"a": 1}')])), say("openai", Turn("Two."))]
    result, asked = await talk("openai", agent, answers, stream=False)

`talk` lets a real server say the answers and checks each request with the official types of the API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.unit.provider import anthropic_support, chat, gemini_oracle, responses
from tests.unit.provider.server import Answer, Asked, Server, answer, events

from ferrule import Agent, RunResult
from ferrule.message import Message, ModelMessage, ToolMessage, user
from ferrule.provider import presets
from ferrule.provider.base import Model

EXAMPLES = Path(__file__).parent.parent / "unit" / "provider" / "examples"
KEY = "FAKE-key-of-the-test"
NAMES = {"openai-chat": "openai-chat", "openai-responses": "openai", "anthropic": "anthropic", "gemini": "gemini"}
APIS = list(NAMES)
ORACLES: dict[str, Callable[[Any], None]] = {
    "openai-chat": lambda body: chat.judge(body, "openai-chat"),
    "openai-responses": responses.check,
    "anthropic": anthropic_support.check,
    "gemini": gemini_oracle.check,
}
End = Literal["whole", "length", "filter", "refusal", "malformed", "cut"]


@dataclass(frozen=True)
class Turn:
    """What a model says in one turn.

    Args:
        text: Its text.
        calls: Id, name and arguments of each call; arguments that are no JSON travel as text, where the API has text.
        end: Why it ends; `cut` is a stream that breaks off before it says so.
        announced: Whether it says that it ends with calls, when it has none.
    """

    text: str = ""
    calls: Sequence[tuple[str, str, Any]] = ()
    end: End = "whole"
    announced: bool = False

    @property
    def acts(self) -> bool:
        return bool(self.calls) or self.announced


def body_of(api: str, turn: Turn) -> Any:
    """The body of the turn's answer, when it is not streamed."""
    return _WHOLE[api](turn)


def say(api: str, turn: Turn, *, stream: bool = False) -> Answer:
    """The turn as the API's server says it."""
    if not stream:
        return answer(body_of(api, turn))
    pieces = list(_PIECES[api](turn))
    if turn.end == "cut":
        pieces = pieces[: _CUT[api]]
    return events(*pieces, done=api == "openai-chat" and turn.end != "cut")


def model(api: str, url: str, **options: Any) -> Model:
    """The API's example model at a server of ours."""
    return presets.model(f"{NAMES[api]}:example-model", base_url=url, key=KEY, **options)


async def talk(
    api: str,
    make: Callable[[Model], Agent[Any, Any]],
    answers: Iterable[Answer],
    *,
    stream: bool = False,
    prompt: Any = "Go on.",
    **options: Any,
) -> tuple[RunResult[Any], list[Asked]]:
    """Run an agent against a server that gives these answers; each request is checked."""
    async with Server(*answers) as server:
        result = await run(make(model(api, server.url)), prompt, stream=stream, **options)
        for asked in server.asked:
            check(api, asked)
        return result, server.asked


async def run(agent: Agent[Any, Any], prompt: Any, *, stream: bool, **options: Any) -> RunResult[Any]:
    if not stream:
        return await agent.run(prompt, **options)
    async with agent.stream(prompt, **options) as heard:
        async for _ in heard:
            pass
    return heard.result


def check(api: str, asked: Asked) -> None:
    """Fail where the API would refuse the request, or where a strict parser would."""
    ORACLES[api](json.loads(asked.body, parse_constant=_no_constant))


def _no_constant(word: str) -> Any:
    raise AssertionError(f"{word} is no JSON")


def normalised(messages: Iterable[Message]) -> list[Any]:
    """A transcript without what only its provider knows."""

    def of(message: Message) -> Any:
        if isinstance(message, ModelMessage):
            return message.text, [(c.id, c.name, json.loads(c.arguments)) for c in message.calls]
        if isinstance(message, ToolMessage):
            return message.call.id, message.output, message.is_error, len(message.parts)
        return user(message.text)

    return [of(m) for m in messages]


def told(result: RunResult[Any]) -> list[str]:
    """What the model was told of its calls."""
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


def example(api: str, name: str) -> Any:
    return json.loads((EXAMPLES / api / name).read_text(encoding="utf-8"))


def stream_of(api: str, name: str, *, done: bool = True) -> Answer:
    lines = (EXAMPLES / api / name).read_text(encoding="utf-8").splitlines()
    return events(*(json.loads(line) for line in lines if line.strip()), done=done and api in ("openai-chat", "compat"))


def _object(arguments: Any) -> Any:
    """Arguments for an API that has no text for them."""
    return json.loads(arguments) if isinstance(arguments, str) and arguments.strip() else arguments


def _halves(text: str) -> list[str]:
    return [half for half in (text[: len(text) // 2], text[len(text) // 2 :]) if half]


# -- Chat Completions -------------------------------------------------------------------------------------------

_CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


def _chat_end(turn: Turn) -> str:
    named = {"length": "length", "filter": "content_filter"}
    return named.get(turn.end, "tool_calls" if turn.acts else "stop")


def _chat_call(call: tuple[str, str, Any]) -> dict[str, Any]:
    id, name, arguments = call
    function = {"name": name} | ({} if arguments is None else {"arguments": arguments})
    return {"id": id, "type": "function", "function": function}


def _chat(turn: Turn) -> Any:
    said: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.end == "refusal":
        said |= {"content": None, "refusal": turn.text}
    if turn.calls:
        said["tool_calls"] = [_chat_call(c) for c in turn.calls]
    choice = {"index": 0, "message": said, "finish_reason": _chat_end(turn)}
    return {"id": "c1", "object": "chat.completion", "choices": [choice], "usage": _CHAT_USAGE}


def _chat_pieces(turn: Turn) -> Iterator[Any]:
    def chunk(delta: Any, end: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": None})
    for half in _halves(turn.text):
        yield chunk({"refusal" if turn.end == "refusal" else "content": half})
    for i, (id, name, arguments) in enumerate(turn.calls):
        yield chunk({"tool_calls": [{"index": i, "id": id, "type": "function", "function": {"name": name}}]})
        for half in _halves(arguments or ""):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": half}}]})
    yield chunk({}, _chat_end(turn))
    yield {"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": _CHAT_USAGE}


# -- Responses --------------------------------------------------------------------------------------------------

_RESPONSES_USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


def _items(turn: Turn) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.text:
        part: dict[str, Any] = {"type": "output_text", "text": turn.text, "annotations": []}
        if turn.end == "refusal":
            part = {"type": "refusal", "refusal": turn.text}
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    for i, (id, name, arguments) in enumerate(turn.calls):
        item = {"type": "function_call", "id": f"fc_{i}", "call_id": id, "name": name, "status": "completed"}
        items.append(item | ({} if arguments is None else {"arguments": arguments}))
    return items


def _response(turn: Turn, items: list[dict[str, Any]], status: str | None = None) -> dict[str, Any]:
    why = {"length": "max_output_tokens", "filter": "content_filter"}.get(turn.end)
    end = "failed" if turn.end == "malformed" else "incomplete" if why else "completed"
    made: dict[str, Any] = {"id": "r1", "object": "response", "status": status or end, "output": items}
    if turn.end == "malformed":
        made["error"] = {"code": "server_error", "message": "the answer was malformed"}
    return made | {"incomplete_details": {"reason": why} if why else None, "usage": _RESPONSES_USAGE}


def _responses(turn: Turn) -> Any:
    return _response(turn, _items(turn))


def _responses_pieces(turn: Turn) -> Iterator[Any]:
    yield {"type": "response.created", "response": _response(turn, [], "in_progress")}
    for i, item in enumerate(_items(turn)):
        at = {"output_index": i, "item_id": item["id"]}
        called = item["type"] == "function_call"
        empty: dict[str, Any] = {"arguments": ""} if called else {"content": []}
        yield {"type": "response.output_item.added", **at, "item": item | empty | {"status": "in_progress"}}
        kind = "function_call_arguments" if called else "refusal" if turn.end == "refusal" else "output_text"
        text = item.get("arguments") or "" if called else turn.text
        for half in _halves(text):
            yield {"type": f"response.{kind}.delta", **at, "delta": half, "content_index": 0}
        yield {"type": "response.output_item.done", **at, "item": item}
    whole = _responses(turn)
    yield {"type": f"response.{whole['status']}", "response": whole}


# -- Messages ---------------------------------------------------------------------------------------------------


def _anthropic_end(turn: Turn) -> str:
    named = {"length": "max_tokens", "refusal": "refusal", "filter": "refusal"}
    return named.get(turn.end, "tool_use" if turn.acts else "end_turn")


def _anthropic(turn: Turn) -> Any:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    for id, name, arguments in turn.calls:
        found = _object(arguments)
        blocks.append({"type": "tool_use", "id": id, "name": name} | ({} if found is None else {"input": found}))
    usage = {"input_tokens": 10, "output_tokens": 2}
    said = {"id": "m1", "type": "message", "role": "assistant", "model": "example-model", "content": blocks}
    return {**said, "stop_reason": _anthropic_end(turn), "stop_sequence": None, "usage": usage}


def _anthropic_pieces(turn: Turn) -> Iterator[Any]:
    start: dict[str, Any] = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "example-model",
        "content": [],
    }
    usage = {"input_tokens": 10, "output_tokens": 1}
    yield {"type": "message_start", "message": {**start, "stop_reason": None, "usage": usage}}
    blocks: list[tuple[Any, str, str, str]] = []
    if turn.text:
        blocks.append(({"type": "text", "text": ""}, "text_delta", "text", turn.text))
    for id, name, arguments in turn.calls:
        block: dict[str, Any] = {"type": "tool_use", "id": id, "name": name, "input": {}}
        blocks.append((block, "input_json_delta", "partial_json", arguments or ""))
    for i, (block, kind, key, text) in enumerate(blocks):
        yield {"type": "content_block_start", "index": i, "content_block": block}
        for half in _halves(text):
            yield {"type": "content_block_delta", "index": i, "delta": {"type": kind, key: half}}
        yield {"type": "content_block_stop", "index": i}
    yield {"type": "message_delta", "delta": {"stop_reason": _anthropic_end(turn)}, "usage": {"output_tokens": 2}}
    yield {"type": "message_stop"}


# -- Gemini -----------------------------------------------------------------------------------------------------

_GEMINI_END = {
    "length": "MAX_TOKENS",
    "filter": "SAFETY",
    "refusal": "SAFETY",
    "malformed": "MALFORMED_FUNCTION_CALL",
}
_GEMINI_USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}


def _gemini_parts(turn: Turn) -> list[Any]:
    parts: list[Any] = [{"text": turn.text}] if turn.text else []
    for id, name, arguments in turn.calls:
        found = _object(arguments)
        parts.append({"functionCall": {"id": id, "name": name} | ({} if found is None else {"args": found})})
    return parts


def _gemini_said(parts: list[Any], end: str | None) -> Any:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": end} if end else {})], "usageMetadata": _GEMINI_USAGE}


def _gemini(turn: Turn) -> Any:
    return _gemini_said(_gemini_parts(turn), _GEMINI_END.get(turn.end, "STOP"))


def _gemini_pieces(turn: Turn) -> Iterator[Any]:
    for part in _gemini_parts(turn):
        texts = _halves(part["text"]) if "text" in part else ()
        yield from (_gemini_said([{"text": half}], None) for half in texts)
        if not texts:
            yield _gemini_said([part], None)
    yield _gemini_said([], _GEMINI_END.get(turn.end, "STOP"))


_WHOLE = {"openai-chat": _chat, "openai-responses": _responses, "anthropic": _anthropic, "gemini": _gemini}
_PIECES = {
    "openai-chat": _chat_pieces,
    "openai-responses": _responses_pieces,
    "anthropic": _anthropic_pieces,
    "gemini": _gemini_pieces,
}
# Where a stream is cut: before what says that it has ended.
_CUT = {"openai-chat": -2, "openai-responses": -1, "anthropic": -2, "gemini": -1}
