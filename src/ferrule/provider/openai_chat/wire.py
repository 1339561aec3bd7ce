"""OpenAI Chat Completions, and the servers that speak it: Groq, Mistral, OpenRouter, Ollama, vLLM and others.

One `Wire` for all; what differs between them is a `Dialect`, a plain value.
Someone with a server of a further kind writes `replace(DIALECTS["vllm"], …)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, cast

from orjson import Fragment

from ferrule.content import Part
from ferrule.errors import JSONSyntaxError, ModelError
from ferrule.media import bare
from ferrule.message import Call, Message, ModelMessage, SystemMessage, ToolMessage, UserMessage
from ferrule.provider.base import (
    Body,
    Capabilities,
    Decoder,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    Sent,
    Settings,
    Wire,
)
from ferrule.provider.body import merged, present, written
from ferrule.provider.definition import Choice, tool_choice, tool_definitions
from ferrule.provider.foreign import Json
from ferrule.provider.openai_chat.answer import ChatDecoder, is_unchanged, whole_answer
from ferrule.provider.openai_chat.refused import refused_call
from ferrule.provider.openai_error import read_error
from ferrule.provider.refusal import model_error
from ferrule.provider.schema import lower
from ferrule.provider.transcript import Shown, check_user_part, encode, show_result, told_in_words, wire_id
from ferrule.strict_json import clean, dumps, parse
from ferrule.tool.names import wire_name
from ferrule.tool.toolset import Toolset

CacheMark = Literal["prompt_cache_breakpoint", "cache_control"]


class IdForm(NamedTuple):
    """Which call ids a server takes.

    Args:
        form: How an id of our making looks.
        length: How many letters and digits go into it.
        keep: The pattern of ids that may stay as they are.

    Since 0.1.
    """

    form: str = "call_{}"
    length: int = 24
    keep: str = r"[A-Za-z0-9_-]{1,40}"


_ANY_ID: Final = IdForm()


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between servers that speak Chat Completions.

    Args:
        api: Name of the API, a row of the capability table.
        system: Role of the instructions; `user` puts them into the first user turn, for models that take no other.
        empty: What stands for no text beside calls: `null`, empty `text`, or the key is left out (`omit`).
        required: Word for "some tool must be called".
        subset: Whether the choice may be narrowed to some tools; else only those are sent.
        strict: Whether the server knows `strict` at a tool.
        max_tokens: Key of the output limit.
        seed: Key of the seed.
        effort: Path of keys to the word for how hard to think.
        usage: Whether usage of a stream must be asked for.
        ids: Which call ids the server takes.
        bridge: A model turn between a tool message and a user message, where these may not meet; "" where they may.
        where: Where the media of a result follow, as the model is told.
        pdf: Shape of a PDF: `file`, or `document_url`.
        mark: Key of the cache mark that goes to the end of the instructions; None for no mark.

    Since 0.1.
    """

    api: str
    system: Literal["system", "developer", "user"] = "system"
    empty: Literal["null", "text", "omit"] = "null"
    required: str = "required"
    subset: bool = False
    strict: bool = True
    max_tokens: str = "max_completion_tokens"
    seed: str = "seed"
    effort: tuple[str, ...] = ("reasoning_effort",)
    usage: bool = True
    ids: IdForm = _ANY_ID
    bridge: str = ""
    where: str = " in the next message"
    pdf: Literal["file", "document_url"] = "file"
    mark: CacheMark | None = None


DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.api: dialect
    for dialect in (
        Dialect("openai-chat", subset=True),
        Dialect("groq", empty="omit", usage=False),
        Dialect(
            "mistral",
            empty="text",
            required="any",
            max_tokens="max_tokens",
            seed="random_seed",
            usage=False,
            ids=IdForm("{}", 9, "[A-Za-z0-9]{9}"),
            bridge="Understood.",
            where="",
            pdf="document_url",
        ),
        Dialect("openrouter", empty="text", max_tokens="max_tokens", effort=("reasoning", "effort")),
        Dialect("ollama", empty="text", strict=False, max_tokens="max_tokens"),
        Dialect("vllm", max_tokens="max_tokens"),
    )
}
_MARKS: dict[CacheMark, Json] = {
    "prompt_cache_breakpoint": {"mode": "explicit"},
    "cache_control": {"type": "ephemeral"},
}


class ChatWire(Wire):
    """Chat Completions in one dialect.

    Args:
        dialect: What the server does in its own way.

    Since 0.1.
    """

    def __init__(self, dialect: Dialect = DIALECTS["openai-chat"]) -> None:
        """Keep the dialect."""
        self.dialect = dialect
        self.api = dialect.api

    def path(self, model: str, *, stream: bool) -> str:
        """The path below the base URL, the same for all.

        Args:
            model: The model's name.
            stream: Whether the answer comes in pieces.
        """
        return "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        """The header that carries the key.

        Args:
            key: The API key; local servers need none.
        """
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, model: str, capabilities: Capabilities, *, stream: bool) -> Body:
        """The request body.

        Args:
            request: The question.
            model: The model's name.
            capabilities: What the model takes.
            stream: Whether the answer comes in pieces.

        Raises:
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results, or the settings name an unknown tool or
                hold what is no JSON.
        """
        turns, sent = _turns(self.dialect, request, capabilities, _family(model))
        fields: Json = {
            "model": model,
            "messages": Fragment(b"[" + turns + b"]"),
            **_tools(self.dialect, request, capabilities),
            **_options(self.dialect, request.settings, capabilities, stream=stream),
        }
        if request.output is not None:
            fields["response_format"] = _response_format(request.output)
        return Body(written(merged(fields, request.settings.extra)), sent)

    def response(self, data: Any, model: str) -> ModelResponse:
        """The answer in a response body.

        Args:
            data: Its JSON.
            model: The model that was asked.

        Raises:
            ModelError: It is no answer.
        """
        return whole_answer(self.api, data, model)

    def decoder(self, model: str) -> Decoder:
        """A decoder for one stream.

        Args:
            model: The model that was asked.
        """
        return ChatDecoder(self.api, model)

    def error(self, status: int, headers: Mapping[str, str], data: Any) -> ModelError | ModelResponse:
        """What a refusal means.

        Args:
            status: The HTTP status.
            headers: The response headers, in lower case.
            data: The body, JSON or text.

        Returns:
            The error; or the answer that the server did not take from its own model.
        """
        said = read_error(data)
        return refused_call("", said) or model_error(self.api, status, headers, said)


# -- tools and settings -----------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def _definitions(tools: Toolset, strict: bool) -> dict[str, bytes]:
    """Each tool's definition by wire name. A set never changes, so its bytes are made once."""
    entries = tool_definitions(tools.definitions(), "openai-chat", strict=strict)
    return {entry["function"]["name"]: dumps(entry) for entry in entries}


def _tools(dialect: Dialect, request: ModelRequest, capabilities: Capabilities) -> Json:
    """The keys that speak of tools; none without a tool, as servers refuse a choice among nothing."""
    definitions = _definitions(request.tools, capabilities.strict_tools and dialect.strict)
    choice, parallel = tool_choice(request), request.settings.parallel_calls
    if not definitions:
        return {}
    if choice is not None and len(choice.names) > 1 and not dialect.subset:
        definitions = {name: definitions[name] for name in choice.names}
    return present(
        {
            "tools": Fragment(b"[" + b",".join(definitions.values()) + b"]"),
            "tool_choice": choice and _choice(dialect, choice),
            "parallel_tool_calls": parallel,
        }
    )


def _choice(dialect: Dialect, choice: Choice) -> Any:
    """The `tool_choice`; a choice among some that the server does not know is one among all that are sent."""
    named = [{"type": "function", "function": {"name": name}} for name in choice.names]
    if len(named) == 1:
        return named[0]
    if named and dialect.subset:
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}
    return dialect.required if choice.mode == "required" else choice.mode


def _options(dialect: Dialect, settings: Settings, capabilities: Capabilities, *, stream: bool) -> Json:
    sampling = capabilities.sampling
    found = present(
        {
            "temperature": settings.temperature if sampling else None,
            "top_p": settings.top_p if sampling else None,
            dialect.seed: settings.seed,
            "stop": list(settings.stop) or None,
            dialect.max_tokens: settings.max_tokens,
        }
    )
    if settings.reasoning is not None:
        value: Any = settings.reasoning
        for key in reversed(dialect.effort[1:]):
            value = {key: value}
        found[dialect.effort[0]] = value
    if stream:
        found["stream"] = True
        if dialect.usage:
            found["stream_options"] = {"include_usage": True}
    return found


def _response_format(output: OutputSchema) -> Json:
    lowered = lower(output.schema, "openai-strict" if output.strict else "openai")
    shape = {"name": output.name, "schema": lowered.schema, "strict": lowered.strict_ok}
    return {"type": "json_schema", "json_schema": shape}


# -- messages ---------------------------------------------------------------------------------------------------


def _family(model: str) -> str:
    """What models share signatures: the vendor, or the first word of the name."""
    return re.split(r"[-/:.]", model, maxsplit=1)[0]


def _turns(
    dialect: Dialect, request: ModelRequest, capabilities: Capabilities, family: str
) -> tuple[bytes, tuple[Sent, ...]]:
    """Instructions and messages, without the brackets around them."""
    messages, history = request.messages, _history(dialect, capabilities, family)
    if not request.instructions:
        return encode(messages, history, history.group)
    text = _marked(dialect, {"type": "text", "text": clean(request.instructions)})
    plain = dialect.mark is None
    if dialect.system != "user":
        head, sent = dumps({"role": dialect.system, "content": text["text"] if plain else [text]}), ()
    else:
        head, sent, messages = _folded(history, messages, text)
    rest, more = encode(messages, history, history.group)
    return b",".join(filter(None, (head, rest))), (*sent, *more)


def _marked(dialect: Dialect, part: Json) -> Json:
    return {**part, dialect.mark: _MARKS[dialect.mark]} if dialect.mark is not None else part


def _folded(
    history: _History, messages: Sequence[Message], text: Json
) -> tuple[bytes, tuple[Sent, ...], Sequence[Message]]:
    """The first user turn with the instructions in front, and the messages after it."""
    sent: list[Sent] = []
    parts: list[Json] = []
    if messages and isinstance(messages[0], UserMessage):
        content = history.content(messages[0], sent)
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        messages = messages[1:]
    return dumps({"role": "user", "content": [text, *parts]}), tuple(sent), messages


@lru_cache(maxsize=256)
def _history(dialect: Dialect, capabilities: Capabilities, family: str) -> _History:
    """One object for each way to encode: it is the key of the bytes that messages keep."""
    return _History(dialect, capabilities, family)


class _History:
    """Turns a group of messages into theirs. Equal only to itself, so that it is cheap as a key."""

    def __init__(self, dialect: Dialect, capabilities: Capabilities, family: str) -> None:
        self.dialect, self.capabilities, self.family = dialect, capabilities, family
        self.keep: Callable[[str], bool] = lambda id: re.fullmatch(dialect.ids.keep, id) is not None

    def id(self, call: Call) -> str:
        form = self.dialect.ids
        return wire_id(call, form=form.form, length=form.length, keep=self.keep)

    def group(self, group: list[Message]) -> tuple[list[Json], list[Sent]]:
        """The turns of one group: results first, without a gap; then their media; then what the user said."""
        if isinstance(group[0], ModelMessage):
            return [self.model_turn(group[0])], []
        results = [m for m in group if isinstance(m, ToolMessage)]
        shown = [self.result(m) for m in results]
        turns = [self.tool_turn(m, s) for m, s in zip(results, shown, strict=True)]
        sent = [way for s in shown for way in s.sent]
        media = [part for s in shown for moved in s.moved for part in self.relocated(*moved)]
        said = [{"role": "user", "content": media}] if media else []
        for message in group:
            if isinstance(message, UserMessage):
                said.append({"role": self.role(message), "content": self.content(message, sent)})
        if turns and said and self.dialect.bridge:
            turns.append({"role": "assistant", "content": self.dialect.bridge})
        return turns + said, sent

    # results

    def result(self, message: ToolMessage) -> Shown:
        where = self.dialect.where
        return show_result(message, self.dialect.api, self.capabilities, wire_id=self.id(message.call), where=where)

    def tool_turn(self, message: ToolMessage, shown: Shown) -> Json:
        return {"role": "tool", "tool_call_id": self.id(message.call), "content": clean(told_in_words(message, shown))}

    def relocated(self, label: str, part: Part) -> tuple[Json, Json]:
        return {"type": "text", "text": clean(label)}, self.part(part)

    # what the user said

    def role(self, message: UserMessage) -> str:
        """Who speaks: system text later on is the user's where the server, or the model, takes no other."""
        later = isinstance(message, SystemMessage) and self.capabilities.later_system
        return self.dialect.system if later else "user"

    def content(self, message: UserMessage, sent: list[Sent]) -> str | list[Json]:
        sent += [check_user_part(p, self.dialect.api, self.capabilities) for p in message.parts if p.type != "text"]
        if len(message.parts) == 1 and message.parts[0].type == "text":
            return message.parts[0].text or ""
        return [self.part(part) for part in message.parts]

    def part(self, part: Part) -> Json:
        return _PARTS[f"{part.type} {self.dialect.pdf}" if part.type == "file" else part.type](part)

    # what the model said

    def model_turn(self, message: ModelMessage) -> Json:
        turn: Json = {"role": "assistant", "content": clean(message.text)}
        if message.calls and not message.text:
            turn["content"] = "" if self.dialect.empty == "text" else None
        kept = self.kept(message)
        extras: Any = kept.pop("tool_calls", None)
        turn.update(kept)
        if turn["content"] is None and self.dialect.empty == "omit":
            del turn["content"]
        if message.calls:
            more = cast("list[Json]", extras) if isinstance(extras, list) else list[Json]()
            if len(more) != len(message.calls):
                more = [Json() for _ in message.calls]
            turn["tool_calls"] = [self.call(c, m) for c, m in zip(message.calls, more, strict=True)]
        return turn

    def kept(self, message: ModelMessage) -> Json:
        """What only its sender understands: given back to the same API and family of models, else left out whole."""
        raw = message.raw
        if raw is None or raw.api != self.dialect.api or _family(raw.model) != self.family:
            return {}
        items: object = raw.items
        kept = dict(cast("Json", items)) if isinstance(items, dict) else Json()
        return kept if is_unchanged(message.text, kept) else {}

    def call(self, call: Call, more: Json) -> Json:
        function = {"name": wire_name(call.name), "arguments": sent_arguments(call.arguments)}
        return {**more, "id": self.id(call), "type": "function", "function": function}


def sent_arguments(arguments: str) -> str:
    """Arguments as a provider takes them back: JSON of an object, whatever the model wrote.

    Servers refuse a transcript with a call that does not parse, and some prompt
    templates fail on one that is no object. So the model's own text is shown to
    it inside an object.

    Args:
        arguments: The text as the model wrote it.

    Since 0.1.
    """
    if not arguments.strip():
        return "{}"
    try:
        found = parse(arguments)
    except JSONSyntaxError:
        found = arguments
    if found is None:
        return "{}"
    return arguments if isinstance(found, dict) else dumps({"invalid_arguments": clean(arguments)}).decode()


# -- parts ------------------------------------------------------------------------------------------------------


def _address(part: Part) -> str:
    return part.url if part.url is not None else f"data:{bare(part.mimeType)};base64,{part.data}"


def _text_part(part: Part) -> Json:
    return {"type": "text", "text": part.text}


def _image(part: Part) -> Json:
    return {"type": "image_url", "image_url": {"url": _address(part)}}


def _file(part: Part) -> Json:
    return {"type": "file", "file": {"filename": part.name or "document.pdf", "file_data": _address(part)}}


def _document(part: Part) -> Json:
    return {"type": "document_url", "document_url": _address(part)}


def _audio(part: Part) -> Json:
    format = "wav" if bare(part.mimeType) == "audio/wav" else "mp3"
    return {"type": "input_audio", "input_audio": {"data": part.data or part.url, "format": format}}


_PARTS: dict[str, Callable[[Part], Json]] = {
    "text": _text_part,
    "image": _image,
    "file file": _file,
    "file document_url": _document,
    "audio": _audio,
}
