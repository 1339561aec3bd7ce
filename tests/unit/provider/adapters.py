"""The four adapters side by side: one way to build a body, and one to make each API say the same thing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ferrule.message import Message
from ferrule.provider.anthropic.wire import AnthropicWire
from ferrule.provider.base import Body, Capabilities, Delta, ModelRequest, ModelResponse, Wire
from ferrule.provider.gemini.wire import Gemini
from ferrule.provider.openai_chat.wire import DIALECTS, ChatWire
from ferrule.provider.openai_responses.wire import OpenAIResponses
from ferrule.strict_json import dumps, parse

MODEL = "gemini-3-pro"  # a name that tells Gemini's generation and nothing to the others
WIRES: dict[str, Wire] = {w.api: w for w in (ChatWire(), OpenAIResponses(), AnthropicWire(cache=None), Gemini())}
EVERY_WIRE: dict[str, Wire] = {**WIRES, **{api: ChatWire(dialect) for api, dialect in DIALECTS.items()}}
APIS = tuple(WIRES)


@dataclass(frozen=True)
class Said:
    """What a model says, in the terms of none of the APIs.

    `finish` is the word of each API; the counts are those of each API.
    """

    text: str | None = None
    calls: tuple[tuple[str, str, str], ...] = ()  # id, name, arguments as JSON
    finish: Any = None
    usage: Any = None
    refusal: str | None = None
    thought: str | None = None
    why: str | None = None  # the reason of an incomplete Responses answer


def chat(said: Said) -> Any:
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in said.calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": said.refusal}
    if calls:
        message["tool_calls"] = calls
    if said.thought:
        message["reasoning"] = said.thought
    body = {"choices": [{"index": 0, "message": message, "finish_reason": said.finish}]}
    return {**body, "usage": said.usage} if said.usage is not None else body


def responses(said: Said) -> Any:
    output: list[Any] = []
    if said.thought:
        output.append({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": said.thought}]})
    content: list[Any] = [{"type": "output_text", "text": said.text}] if said.text is not None else []
    if said.refusal is not None:
        content.append({"type": "refusal", "refusal": said.refusal})
    if content:
        output.append(
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        )
    output += [
        {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": a, "status": "completed"}
        for id, name, a in said.calls
    ]
    body = {"status": said.finish, "output": output, "usage": said.usage}
    return {**body, "incomplete_details": {"reason": said.why}} if said.why else body


def anthropic(said: Said) -> Any:
    content: list[Any] = [{"type": "thinking", "thinking": said.thought, "signature": "s"}] if said.thought else []
    if said.text is not None:
        content.append({"type": "text", "text": said.text})
    content += [{"type": "tool_use", "id": id, "name": name, "input": parse(a)} for id, name, a in said.calls]
    body = {"type": "message", "role": "assistant", "content": content, "stop_reason": said.finish, "usage": said.usage}
    return {**body, "stop_details": {"explanation": said.refusal}} if said.refusal else body


def gemini(said: Said) -> Any:
    parts: list[Any] = [{"text": said.thought, "thought": True}] if said.thought else []
    if said.text is not None:
        parts.append({"text": said.text})
    parts += [{"functionCall": {"id": id, "name": name, "args": parse(a)}} for id, name, a in said.calls]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": said.finish}
    return {"candidates": [candidate], "usageMetadata": said.usage}


_SAY = {"openai-chat": chat, "openai-responses": responses, "anthropic": anthropic, "gemini": gemini}


def answered(api: str, said: Said) -> ModelResponse:
    """The answer, read from a body and from a stream of it: both must say the same."""
    body = _SAY[api](said)
    whole = WIRES[api].response(parse(dumps(body)), MODEL)
    streamed, _ = decoded(api, _STREAM[api](body))
    assert (whole.finish, whole.usage, whole.flagged) == (streamed.finish, streamed.usage, streamed.flagged)
    assert (whole.message.text, whole.message.calls) == (streamed.message.text, streamed.message.calls)
    assert whole.message.reasoning == streamed.message.reasoning
    assert (whole.error is None) == (streamed.error is None)
    return whole


def decoded(api: str, events: Sequence[Any]) -> tuple[ModelResponse, list[Delta]]:
    """The answer in a stream, and its pieces."""
    decoder = WIRES[api].decoder(MODEL)
    deltas = [delta for event in events for delta in decoder.feed("message", event)]
    return decoder.finish(), deltas


def _chat_events(body: Any) -> list[Any]:
    choice = body["choices"][0]
    message = {k: v for k, v in choice["message"].items() if v is not None}
    for i, call in enumerate(message.get("tool_calls", ())):
        call["index"] = i
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": message}]}]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if "usage" in body:
        chunks.append({"choices": [], "usage": body["usage"]})
    return [*chunks, None]


def _responses_events(body: Any) -> list[Any]:
    events: list[Any] = [{"type": "response.created", "response": {"status": "in_progress"}}]
    for i, item in enumerate(body["output"]):
        events.append(
            {"type": "response.output_item.added", "output_index": i, "item": {**item, "status": "in_progress"}}
        )
        events.append({"type": "response.output_item.done", "output_index": i, "item": item})
    end = "incomplete" if body["status"] == "incomplete" else "completed"
    return [*events, {"type": f"response.{end}", "response": body}]


def _anthropic_events(body: Any) -> list[Any]:
    events: list[Any] = [{"type": "message_start", "message": {"role": "assistant", "content": [], "usage": None}}]
    for i, block in enumerate(body["content"]):
        events.append({"type": "content_block_start", "index": i, "content_block": block})
        events.append({"type": "content_block_stop", "index": i})
    delta = {"stop_reason": body["stop_reason"], "stop_details": body.get("stop_details")}
    events.append({"type": "message_delta", "delta": delta, "usage": body["usage"]})
    return [*events, {"type": "message_stop"}]


def _gemini_events(body: Any) -> list[Any]:
    return [body]


_STREAM: dict[str, Callable[[Any], list[Any]]] = {
    "openai-chat": _chat_events,
    "openai-responses": _responses_events,
    "anthropic": _anthropic_events,
    "gemini": _gemini_events,
}


def stream_of(api: str, said: Said) -> list[Any]:
    """The events of a stream that says it."""
    return _STREAM[api](_SAY[api](said))


def is_end(event: Any) -> bool:
    """Whether an event tells why, or that, the answer has ended."""
    if event is None:
        return True
    kind = event.get("type", "")
    ended = any(c.get("finish_reason") for c in event.get("choices", ()))
    return ended or kind in ("message_delta", "message_stop", "response.completed", "response.incomplete")


def last_of(api: str) -> list[Any]:
    """What follows the reason to end, where anything does."""
    ends: dict[str, list[Any]] = {"openai-chat": [None], "anthropic": [{"type": "message_stop"}]}
    return ends.get(api, [])


def sent(
    api: str, messages: Sequence[Message], capabilities: Capabilities | None = None, **asked: Any
) -> tuple[Any, Body]:
    """The body as its JSON, and as the wire made it."""
    taken = capabilities or Capabilities(audio=True)
    body = EVERY_WIRE[api].body(ModelRequest(messages, **asked), MODEL, taken, stream=False)
    return parse(body.json), body
