"""Gemini generateContent: our terms to its JSON and back.

Two habits of this API shape the code. A signature on any part must come back
on the same part, so the parts of a model's turn are kept whole and sent as they
came. And function responses stand alone in their content, as many as there were
calls, so what belongs to them but has another shape follows in the next one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import quote

from orjson import Fragment

from ferrule.content import Part
from ferrule.errors import ModelError, UsageError
from ferrule.message import Call, Message, ModelMessage, Raw, ToolMessage, UserMessage
from ferrule.provider.base import (
    Body,
    Capabilities,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    Sent,
    Settings,
    Wire,
)
from ferrule.provider.body import merged, present, written
from ferrule.provider.definition import tool_choice, tool_definitions
from ferrule.provider.foreign import Json, arguments_object, as_object, as_objects, as_text
from ferrule.provider.gemini.answer import API, GeminiDecoder, refused, texts
from ferrule.provider.schema import lower
from ferrule.provider.transcript import check_user_part, encode, show_result
from ferrule.strict_json import clean, dumps
from ferrule.tool.names import wire_name
from ferrule.tool.toolset import Toolset


class Schemas(NamedTuple):
    """Which form of schemas a server takes.

    Args:
        dialect: How a schema is lowered.
        output: The key of the schema of an answer.

    Since 0.1.
    """

    dialect: Literal["gemini", "gemini-openapi"]
    output: str


JSON_SCHEMA: Final = Schemas("gemini", "responseJsonSchema")
OPENAPI: Final = Schemas("gemini-openapi", "responseSchema")


class Gemini(Wire):
    """The Gemini Developer API.

    It has no switch for one call at a time, so `Settings.parallel_calls` changes
    nothing.

    Args:
        schemas: The form of schemas; `OPENAPI` for servers that do not know the JSON Schema keys yet.

    Since 0.1.
    """

    api = API

    def __init__(self, schemas: Schemas = JSON_SCHEMA) -> None:
        """Remember the form of schemas."""
        self._schemas = schemas

    def path(self, model: str, *, stream: bool) -> str:
        """The path below the base URL; a bare name is one of `models/`.

        Args:
            model: The model's name, or a resource such as `tunedModels/mine`.
            stream: Whether the answer comes in pieces.
        """
        resource = quote(model if "/" in model else f"models/{model}", safe="/")
        return f"/{resource}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def headers(self, key: str | None) -> dict[str, str]:
        """The header that carries the key.

        Args:
            key: The API key, if there is one.
        """
        return {"x-goog-api-key": key} if key else {}

    def body(self, request: ModelRequest, model: str, capabilities: Capabilities, *, stream: bool) -> Body:
        """The request body.

        Args:
            request: The question. A transcript that ends with an answer Gemini left off with a continuation token
                is sent as it was asked then, with that token.
            model: The model's name.
            capabilities: What the model takes.
            stream: Whether the answer comes in pieces; the path says so, the body does not.

        Raises:
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results, or a name cannot be sent.
        """
        messages, token = _continued(request.messages, model)
        turn = partial(_turn, model=model, capabilities=capabilities)
        contents, sent = encode(_joined(messages, model), (API, _family(model), capabilities), turn)
        system = {"role": "user", "parts": [{"text": clean(request.instructions)}]} if request.instructions else None
        fields: Json = {
            "contents": Fragment(b"[" + contents + b"]"),
            "systemInstruction": system,
            "tools": _tools(request.tools, self._schemas) if len(request.tools) else None,
            "toolConfig": _tool_config(request),
            "generationConfig": self._generation(request, model, capabilities),
            "continuationToken": token,
        }
        return Body(written(merged(present(fields), request.settings.extra)), sent)

    def _generation(self, request: ModelRequest, model: str, capabilities: Capabilities) -> Json | None:
        return {
            **_sampling(request.settings, capabilities),
            **_answer_form(request.output, self._schemas),
            **_thinking(request.settings, model),
        } or None

    def response(self, data: Any, model: str) -> ModelResponse:
        """The answer in a response body.

        Args:
            data: Its JSON, parsed.
            model: The model that was asked.

        Raises:
            ModelError: It is no answer.
        """
        whole = GeminiDecoder(model)
        # A stream whose server did not heed that it is to be one of events is a list of what the events would hold.
        listed = cast("list[Any]", data) if isinstance(data, list) and data else [cast("Any", data)]
        for one in listed:
            whole.feed("message", "" if one is None else one)  # to a decoder, nothing is the end
        return whole.finish()

    def decoder(self, model: str) -> GeminiDecoder:
        """A fresh decoder for one stream.

        Args:
            model: The model that was asked.
        """
        return GeminiDecoder(model)

    def error(self, status: int, headers: Mapping[str, str], data: Any) -> ModelError:
        """What a refusal means.

        Args:
            status: The HTTP status.
            headers: The response headers, in lower case.
            data: The body, JSON or text.
        """
        return refused(status, headers, data)


# -- models -----------------------------------------------------------------------------------------------------

_FAMILY: Final = re.compile(r"gemini-(\d+)(?:\.\d+)?(?:-(?:pro|flash-lite|flash))?")


def _family(model: str) -> str:
    """Whose signatures a model takes: those of its own version and size; where the name tells neither, its own."""
    found = _FAMILY.search(model)
    return found[0] if found else model


def _thinks_in_levels(model: str) -> bool:
    """Whether a model is of the third generation or later, as a name without a number is taken to be."""
    found = _FAMILY.search(model)
    return found is None or int(found[1]) >= 3


# -- what is asked ----------------------------------------------------------------------------------------------


_SAMPLING: Final = {"temperature": "temperature", "top_p": "topP", "seed": "seed"}


def _sampling(settings: Settings, capabilities: Capabilities) -> Json:
    taken = {wire: getattr(settings, ours) for ours, wire in _SAMPLING.items()} if capabilities.sampling else {}
    stop = list(settings.stop) or None
    return present({**taken, "maxOutputTokens": settings.max_tokens, "stopSequences": stop})


def _answer_form(output: OutputSchema | None, schemas: Schemas) -> Json:
    if output is None:
        return {}
    return {"responseMimeType": "application/json", schemas.output: lower(output.schema, schemas.dialect).schema}


_BUDGETS: Final = {  # tokens that every 2.5 model takes: the largest Flash takes 24,576, the smallest above 0 is 512
    "none": 0,
    "minimal": 512,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
_LEVELS: Final = {  # it cannot be turned off
    "none": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
    "max": "XHIGH",
}
_LEAST: Final = {"gemini-2.5-pro": 128}  # refuses 0


def _thinking(settings: Settings, model: str) -> Json:
    effort = settings.reasoning
    if effort is None:
        return {}
    if _thinks_in_levels(model):
        amount: Json = {"thinkingLevel": _LEVELS[effort]}
    else:
        amount = {"thinkingBudget": max(_BUDGETS[effort], _LEAST.get(_family(model), 0))}
    return {"thinkingConfig": amount if effort == "none" else {**amount, "includeThoughts": True}}


# -- tools ------------------------------------------------------------------------------------------------------

_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)


@lru_cache(maxsize=64)  # a set never changes, and its schemas are the dearest part of a short request
def _tools(tools: Toolset, schemas: Schemas) -> Fragment:
    listed = tool_definitions(tools.definitions(), schemas.dialect)
    if schemas is OPENAPI:
        for declared in listed[0]["functionDeclarations"]:
            _check_parameters(declared["name"], declared["parameters"])
    return Fragment(dumps(listed))


def _check_parameters(tool: str, schema: Json) -> None:
    """One bad name would fail the whole request, and the server would not say whose it is."""
    wrong = next((n for n in schema.get("properties", {}) if not _PARAMETER.fullmatch(n)), None)
    if wrong is not None:
        raise UsageError(
            f"Gemini takes no parameter {wrong[:100]!r} of tool {tool!r} in this form of schemas: up to 64 letters, "
            "digits and `_`. Rename it, or send JSON Schema."
        )


_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def _tool_config(request: ModelRequest) -> Json | None:
    choice = tool_choice(request)
    if choice is None:
        return None
    config = {"mode": _MODES[choice.mode], "allowedFunctionNames": list(choice.names) or None}
    return {"functionCallingConfig": present(config)}


# -- the transcript ---------------------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", re.ASCII)
# What Google documents for calls that never had a signature: base64 of "skip_thought_signature_validator".
_SKIP: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def _continued(messages: Sequence[Message], model: str) -> tuple[Sequence[Message], str | None]:
    """What was asked, and the token to go on with, when the last answers ended for want of room in one response."""
    end, token = len(messages), None
    while end and isinstance(message := messages[end - 1], ModelMessage) and (found := _token(message, model)):
        end, token = end - 1, token or found
    return (messages[:end] if token else messages), token


def _token(message: ModelMessage, model: str) -> str | None:
    return as_text(_kept(message, model).get("continuationToken")) or None


def _kept(message: ModelMessage, model: str) -> Json:
    """What a message keeps of Gemini's own form; nothing when another API or another family of models said it."""
    raw = message.raw
    if raw is None or raw.api != API or _family(raw.model) != _family(model):
        return {}
    return as_object(raw.items)


def _joined(messages: Sequence[Message], model: str) -> Sequence[Message]:
    """The transcript with model messages that follow one another made one, as turns of one role have to be."""
    kinds = [isinstance(message, ModelMessage) for message in messages]
    if not any(a and b for a, b in pairwise(kinds)):
        return messages
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if isinstance(message, ModelMessage) and isinstance(last, ModelMessage) and not last.calls:
            parts = [*_model_parts(last, model), *_model_parts(message, model)]
            joined[-1] = ModelMessage(last.text + message.text, message.calls, raw=Raw(API, model, {"parts": parts}))
        else:
            joined.append(message)
    return joined


def _turn(group: list[Message], *, model: str, capabilities: Capabilities) -> tuple[list[Json], list[Sent]]:
    first = group[0]
    if isinstance(first, ModelMessage):
        return _contents("model", _model_parts(first, model)), []
    answers: list[Json] = []
    after: list[Json] = []
    sent: list[Sent] = []
    for n, message in enumerate(group, 1):
        if isinstance(message, ToolMessage):
            sent += _put_result(message, n, capabilities, answers, after)
        elif isinstance(message, UserMessage):
            sent += _put_user(message, capabilities, after)
    # Nothing may stand beside function responses, so what follows them is a second content.
    return [*_contents("user", answers), *_contents("user", after)], sent


def _contents(role: str, parts: list[Json]) -> list[Json]:
    """One content, or none: a content without parts is refused."""
    return [{"role": role, "parts": parts}] if parts else []


def _put_result(
    message: ToolMessage, n: int, capabilities: Capabilities, answers: list[Json], after: list[Json]
) -> list[Sent]:
    named = message.call.wire_id or f"call {n}"
    shown = show_result(message, API, capabilities, wire_id=named, where=" in the next content")
    output = "\n".join(line for line in (shown.text, *shown.placeholders) if line)
    answer = _identified(message.call, {"response": {"error" if message.is_error else "output": clean(output)}})
    if shown.native:
        answer["parts"] = [_media(part) for part in shown.native]
    answers.append({"functionResponse": answer})
    for label, part in shown.moved:
        after += ({"text": label}, _media(part))
    return shown.sent


def _put_user(message: UserMessage, capabilities: Capabilities, after: list[Json]) -> list[Sent]:
    sent = [check_user_part(part, API, capabilities) for part in message.parts if part.type != "text"]
    # An empty text says nothing and is refused beside media; alone, it is what the caller said.
    parts = [part for part in message.parts if part.type != "text" or part.text] or message.parts
    after += (_media(part) if part.type != "text" else {"text": part.text} for part in parts)
    return sent


def _media(part: Part) -> Json:
    if part.data is not None:
        return {"inlineData": {"mimeType": part.mimeType, "data": part.data}}
    return {"fileData": {"mimeType": part.mimeType, "fileUri": part.url}}


def _identified(call: Call, rest: Json) -> Json:
    """A call or its response: the name the model said, and its id in both of them or in none."""
    name = call.name if _NAME.fullmatch(call.name) else wire_name(call.name)
    return {**({"id": clean(call.wire_id)} if call.wire_id else {}), "name": name, **rest}


# -- a model's turn ---------------------------------------------------------------------------------------------


def _model_parts(message: ModelMessage, model: str) -> list[Json]:
    parts = _echo(message, as_objects(_kept(message, model).get("parts"))) or _rebuilt(message)
    return _signed(parts) if _thinks_in_levels(model) else parts


def _echo(message: ModelMessage, parts: list[Json]) -> list[Json]:
    """The parts as they came; none when the message was changed since: then its text and calls are what counts."""
    names = [as_object(part["functionCall"]).get("name") or "" for part in parts if "functionCall" in part]
    if names != [call.name for call in message.calls] or "".join(texts(parts, thought=False)) != message.text:
        return []
    calls = iter(message.calls)
    return [_same_call(part, next(calls)) if "functionCall" in part else part for part in parts]


def _same_call(part: Json, call: Call) -> Json:
    """The part itself, unless its call goes by another id or name here, or has no object for arguments."""
    said = as_object(part["functionCall"])
    ours = _identified(call, {})
    args = said.get("args", {})
    if (said.get("id") or None, said.get("name")) == (ours.get("id"), ours["name"]) and isinstance(args, dict):
        return part
    rest = {key: value for key, value in said.items() if key not in ("id", "name")}
    if not isinstance(args, dict):  # some servers write them as text; the API takes an object
        rest["args"] = arguments_object(call.arguments)
    return {**part, "functionCall": {**ours, **rest}}


def _rebuilt(message: ModelMessage) -> list[Json]:
    text = [{"text": clean(message.text)}] if message.text else []
    return text + [
        {"functionCall": _identified(call, {"args": arguments_object(call.arguments)})} for call in message.calls
    ]


def _signed(parts: list[Json]) -> list[Json]:
    """With leave to skip the check of signatures, for a turn with calls that has none.

    From Gemini 3 on the first call of a step in the current turn needs a
    signature. Older turns get the leave too: what was sent once then never
    changes, so that the provider's cache of the prefix holds.
    """
    first = next((i for i, part in enumerate(parts) if "functionCall" in part), None)
    if first is None or any("thoughtSignature" in part for part in parts):
        return parts
    return [*parts[:first], {**parts[first], "thoughtSignature": _SKIP}, *parts[first + 1 :]]
