"""OpenAI Responses: items in, items out, and nothing kept by the server.

The API would store each answer and go on from it. We ask it to store nothing:
the transcript is ours. What only the model can read, its encrypted reasoning,
comes back to us and travels along unchanged, directly before the item it led
to; one without the other is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import orjson

from ferrule.content import Part
from ferrule.errors import ModelError, UsageError
from ferrule.media import bare
from ferrule.message import Call, Message, ModelMessage, SystemMessage, ToolMessage, UserMessage
from ferrule.provider.base import Body, Capabilities, Decoder, ModelRequest, ModelResponse, OutputSchema, Sent, Wire
from ferrule.provider.body import merged, present, written
from ferrule.provider.definition import tool_choice, tool_definitions
from ferrule.provider.foreign import Json, arguments_text, as_object, as_objects
from ferrule.provider.openai_error import read_error
from ferrule.provider.openai_responses.answer import ResponsesDecoder, is_call, is_unchanged, read_answer, reported
from ferrule.provider.refusal import model_error
from ferrule.provider.schema import lower
from ferrule.provider.transcript import Shown, check_user_part, encode, show_result, told_in_words, wire_id
from ferrule.strict_json import clean, dumps
from ferrule.tool.names import wire_name
from ferrule.tool.toolset import Toolset

System = Literal["instructions", "developer", "user"]
OPAQUE_REASONING: Final = "reasoning.encrypted_content"
_MARK: Final[Json] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class OpenAIResponses(Wire):
    """The Responses API, stateless.

    Args:
        api: Its name; another one keeps the opaque items of a server with keys of its own apart.
        system: Where the instructions stand: in their own field, in a turn of the `developer`, or, for models that
            take neither, in front of what the `user` says first.
        mark: Whether a cache mark ends the instructions. A field cannot hold one, so the developer says them then.

    Since 0.1.
    """

    def __init__(self, api: str = "openai-responses", *, system: System = "instructions", mark: bool = False) -> None:
        """Speak it under a name."""
        self.api = api
        self._system: System = "developer" if mark and system == "instructions" else system
        self._mark = _MARK if mark else {}

    def path(self, model: str, *, stream: bool) -> str:
        """The path below the base URL.

        Args:
            model: The model's name.
            stream: Whether the answer comes in pieces.
        """
        return "/responses"

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers that carry the key.

        Args:
            key: The API key, if there is one.
        """
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, model: str, capabilities: Capabilities, *, stream: bool) -> Body:
        """The request body.

        Args:
            request: The question.
            model: The model's name.
            capabilities: What the model takes.
            stream: Whether the answer comes in pieces.

        Raises:
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results, or a setting names what is not there.
        """
        head, request = self._head(request)
        fields = _fields(request, model, capabilities, stream)
        turns, sent = encode(
            request.messages, f"{self.api} {capabilities}", lambda group: _turn(group, self.api, capabilities)
        )
        fields["input"] = orjson.Fragment(b"[%b]" % b",".join(filter(None, (head, turns))))
        if len(request.tools):
            fields["tools"] = _tools(request.tools, capabilities.strict_tools)
        return Body(written(merged(fields, request.settings.extra)), sent)

    def _head(self, request: ModelRequest) -> tuple[bytes, ModelRequest]:
        """The turn that holds the instructions, and what is left to send; no turn where they have a field."""
        if self._system == "instructions" or not request.instructions:
            return b"", request
        content = [{**_text(request.instructions), **self._mark}]
        first = request.messages[0] if request.messages else None
        if self._system == "user" and isinstance(first, UserMessage) and all(p.type == "text" for p in first.parts):
            content += [_content(part) for part in first.parts]
            request = request.but(messages=request.messages[1:])
        return dumps({"role": self._system, "content": content}), request.but(instructions="")

    def response(self, data: Any, model: str) -> ModelResponse:
        """The answer in a response body.

        Args:
            data: Its JSON, parsed.
            model: The model that was asked.

        Raises:
            ModelError: It is no answer.
        """
        found = as_object(data)
        if "output" in found or "status" in found:
            return read_answer(self.api, model, found, as_objects(found.get("output")))
        if found.get("error"):
            raise reported(self.api, found)
        raise ModelError("the body is no answer. Check that the base URL is of a Responses API", provider=self.api)

    def decoder(self, model: str) -> Decoder:
        """A fresh decoder for one stream.

        Args:
            model: The model that was asked.
        """
        return ResponsesDecoder(self.api, model)

    def error(self, status: int, headers: Mapping[str, str], data: Any) -> ModelError:
        """What a refusal means.

        Args:
            status: The HTTP status.
            headers: The response headers, in lower case.
            data: The body: JSON if it is any, else text.
        """
        return model_error(self.api, status, headers, read_error(data))


# -- the request ------------------------------------------------------------------------------------------------


def _fields(request: ModelRequest, model: str, capabilities: Capabilities, stream: bool) -> Json:
    """All of the body but the turns and the tools."""
    asked = request.settings
    if asked.stop:
        raise UsageError("the Responses API takes no stop texts. Leave out stop=, or use the model by openai-chat.")
    reasoning = asked.reasoning if capabilities.reasoning else None
    return present(
        {
            "model": model,
            "instructions": clean(request.instructions) or None,
            "store": False,
            "include": [OPAQUE_REASONING] if capabilities.reasoning else None,
            "reasoning": {"effort": reasoning} if reasoning else None,
            "max_output_tokens": asked.max_tokens,
            "temperature": asked.temperature if capabilities.sampling else None,
            "top_p": asked.top_p if capabilities.sampling else None,
            "text": {"format": _format(request.output)} if request.output else None,
            "tool_choice": _choice(request),
            "parallel_tool_calls": asked.parallel_calls if len(request.tools) else None,
            "stream": stream or None,
        }
    )


def _choice(request: ModelRequest) -> Any:
    """What the model is told of calling tools; a name that is not there is the caller's mistake."""
    choice = tool_choice(request)
    if choice is None or not choice.names:
        return choice and choice.mode
    some = [{"type": "function", "name": name} for name in choice.names]
    return some[0] if len(some) == 1 else {"type": "allowed_tools", "mode": choice.mode, "tools": some}


@lru_cache(maxsize=32)
def _tools(tools: Toolset, strict: bool) -> orjson.Fragment:
    """The definitions of a set, which never changes: lowering is dearer than all else in a request."""
    return orjson.Fragment(dumps(tool_definitions(tools.definitions(), "openai-responses", strict=strict)))


def _format(output: OutputSchema) -> Json:
    lowered = lower(output.schema, "openai-strict" if output.strict else "openai")
    return {"type": "json_schema", "name": output.name, "schema": lowered.schema, "strict": lowered.strict_ok}


# -- turns ------------------------------------------------------------------------------------------------------


def _turn(group: Sequence[Message], api: str, capabilities: Capabilities) -> tuple[list[Json], list[Sent]]:
    """The items of a group: what the model said; or all results, then what the user is shown and says."""
    if isinstance(group[0], ModelMessage):
        return _said(group[0], api), []
    results = [(m, _shown(m, api, capabilities)) for m in group if isinstance(m, ToolMessage)]
    users = [m for m in group if isinstance(m, UserMessage)]
    items = [_output(message, shown) for message, shown in results]
    moved = [p for _, shown in results for label, part in shown.moved for p in (_text(label), _content(part))]
    if moved:
        items.append({"role": "user", "content": moved})
    items += [_user(message, capabilities) for message in users]
    media = [p for m in users for p in m.parts if p.type != "text"]
    sent = [way for _, shown in results for way in shown.sent]
    return items, sent + [check_user_part(part, api, capabilities) for part in media]


def _user(message: UserMessage, capabilities: Capabilities) -> Json:
    parts = message.parts
    role = "developer" if isinstance(message, SystemMessage) and capabilities.later_system else "user"
    if len(parts) == 1 and parts[0].type == "text":
        return {"role": role, "content": parts[0].text}
    return {"role": role, "content": [_content(part) for part in parts]}


def _shown(message: ToolMessage, api: str, capabilities: Capabilities) -> Shown:
    return show_result(message, api, capabilities, wire_id=_call_id(message.call))


def _output(message: ToolMessage, shown: Shown) -> Json:
    told = told_in_words(message, shown)
    media = [_content(part) for part in shown.native]
    output: Any = ([_text(told)] if told else []) + media if media else clean(told)
    return {"type": "function_call_output", "call_id": _call_id(message.call), "output": output}


def _text(text: str) -> Json:
    return {"type": "input_text", "text": clean(text)}


def _content(part: Part) -> Json:
    if part.type == "text":
        return _text(part.text or "")
    if part.type == "image":
        return {"type": "input_image", "image_url": part.url or _data_url(part), "detail": "auto"}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.name or "document.pdf", "file_data": _data_url(part)}


def _data_url(part: Part) -> str:
    return f"data:{bare(part.mimeType)};base64,{part.data}"


def _said(message: ModelMessage, api: str) -> list[Json]:
    """What the model said: its own items where they are of this API and nobody changed them, else the normal form."""
    raw = message.raw
    items = as_objects(raw.items) if raw is not None and raw.api == api else []
    if items and is_unchanged(message, items):
        calls = iter(message.calls)
        return [_with_id(item, next(calls)) if is_call(item) else item for item in _units(items)]
    said: list[Json] = [{"role": "assistant", "content": clean(message.text)}] if message.text else []
    return said + [_function_call(call) for call in message.calls]


def _units(items: list[Json]) -> list[Json]:
    """The items without reasoning that led to none: an answer that was cut while it thought ends so."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    return items[:end]


def _with_id(item: Json, call: Call) -> Json:
    """A call's own item. The id of one that repeats another's is replaced, as in its result."""
    wanted = {"call_id": _call_id(call), "arguments": _valid(item.get("arguments"))}
    return item if wanted.items() <= item.items() else {**item, **wanted}


def _function_call(call: Call) -> Json:
    head = {"type": "function_call", "call_id": _call_id(call)}
    return {**head, "name": wire_name(call.name), "arguments": _valid(call.arguments)}


def _call_id(call: Call) -> str:
    return wire_id(call, keep=lambda given: _CALL_ID.fullmatch(given) is not None)


def _valid(arguments: Any) -> str:
    """Arguments that may be sent back. A call that was cut was never made, and the API takes no broken JSON."""
    text = arguments_text(arguments)
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return "{}"
    return text
