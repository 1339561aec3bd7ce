"""The Anthropic Messages API: request bodies, and the door to reading its answers.

What the API does not take is left out where `Settings` says "where the model
takes it": a seed always, temperature and top_p under the version that refuses
them or beside thinking. A forced tool wins over a fixed thinking budget, which
the API refuses together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast

from ferrule.content import Part, decoded_len, describe_part
from ferrule.errors import ModelError, UsageError
from ferrule.message import Message, ModelMessage, SystemMessage, ToolMessage
from ferrule.provider.anthropic.answer import AnthropicDecoder, answer
from ferrule.provider.anthropic.error import refused
from ferrule.provider.anthropic.turns import API, blocks, family, starts_signed
from ferrule.provider.base import (
    Body,
    Capabilities,
    Decoder,
    Effort,
    ModelRequest,
    ModelResponse,
    OutputSchema,
    Sent,
    Wire,
)
from ferrule.provider.body import merged, present, written
from ferrule.provider.definition import Choice, tool_choice, tool_definition
from ferrule.provider.schema import lower
from ferrule.provider.transcript import encoded_groups
from ferrule.strict_json import clean, dumps
from ferrule.tool.names import wire_name
from ferrule.tool.toolset import Toolset

VERSION: Final = "2026-10-21"
SAMPLING_VERSION: Final = "2023-06-01"
MAX_BODY: Final = 32 * 1024 * 1024
MAX_TOKENS: Final = 8192
MAX_MARKERS: Final = 4
MIN_BUDGET: Final = 1024

Ttl = Literal["5m", "1h"]
_T = TypeVar("_T")

# Thinking counts against max_tokens, so the default grows by as much; with MAX_TOKENS no sum exceeds 32,000.
_BUDGETS: dict[Effort, int] = {
    "minimal": MIN_BUDGET,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 20480,
    "max": 23552,
}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_FORCING = frozenset({"any", "tool"})
_MARKS: dict[Ttl, bytes] = {
    "5m": b',"cache_control":{"type":"ephemeral"}}',
    "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}}',
}
_OPEN = {role: b'{"role":"%b","content":[' % role.encode() for role in ("user", "assistant", "system")}
_MODEL_APART = (ModelMessage,)
_SYSTEM_APART = (ModelMessage, SystemMessage)
_BEFORE_SYSTEM = frozenset({"user", "system"})  # anywhere else system text is refused, and told as a user's


@dataclass(frozen=True, slots=True)
class AnthropicWire(Wire):
    """Anthropic Messages.

    Cache markers are placed by themselves: on the last tool, the system text
    and the last two user turns, as far as the caller's own markers in
    `Settings.extra` leave room for them.

    Args:
        version: The API's version; `2023-06-01` keeps temperature and top_p.
        cache: How long tools and system text stay cached, the turns always five minutes; None places no markers.
        thinking: Which way of thinking the model takes when `Settings.reasoning` asks for it: `adaptive`
            with an effort, or `enabled` with a budget of tokens.
        max_tokens: Most output tokens where the settings do not say; thinking comes on top.

    Since 0.1.
    """

    version: str = VERSION
    cache: Ttl | None = "5m"
    thinking: Literal["adaptive", "enabled"] = "adaptive"
    max_tokens: int = MAX_TOKENS
    api: str = field(default=API, init=False)

    def path(self, model: str, *, stream: bool) -> str:
        """The path below the base URL.

        Args:
            model: The model's name; it stands in the body.
            stream: Whether the answer comes in pieces; that stands in the body too.
        """
        return "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers that carry key and version.

        Args:
            key: The API key, if there is one.
        """
        found = {"anthropic-version": self.version}
        return {**found, "authorization": f"Bearer {key}"} if key else found

    def body(self, request: ModelRequest, model: str, capabilities: Capabilities, *, stream: bool) -> Body:
        """The request body.

        Args:
            request: The question.
            model: The model's name.
            capabilities: What the model takes.
            stream: Whether the answer comes in pieces.

        Raises:
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results or is empty, the settings
                contradict each other, or the body is larger than the API takes.
        """
        extra = request.settings.extra
        turns = _turns(request.messages, family(model), capabilities)
        choice, tools = _choice(request, strict=capabilities.strict_tools)
        schema, told = _format(_Same(request.output)) if request.output is not None else (None, "")
        system = "\n\n".join(text for text in (clean(request.instructions), told) if text.strip())
        head = self._head(request, model, capabilities, choice)
        if schema is not None:
            head.setdefault("output_config", {})["format"] = schema
        if stream:
            head["stream"] = True
        sections = _Sections(tools, system, turns.pieces, turns.ends)
        marked = _mark(sections, _plan(self.cache, extra, sections))
        head = merged(head, extra)
        if _kind(head, "thinking") == "enabled" and _kind(head, "tool_choice") in _FORCING:
            raise UsageError("the API takes no forced tool beside a thinking budget. Leave one of them out.")
        json = _written(head, marked, extra)
        _check(json, request)
        return Body(json, tuple(turns.sent))

    def _head(
        self, request: ModelRequest, model: str, capabilities: Capabilities, choice: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """All but tools, system text and turns."""
        settings = request.settings
        thought = self._thought(request, family(model), forced=choice is not None and choice["type"] in _FORCING)
        limit = settings.max_tokens if settings.max_tokens is not None else self.max_tokens + thought.room
        thinks = thought.config is not None and thought.config["type"] != "disabled"
        samples = self.version == SAMPLING_VERSION and capabilities.sampling and not thinks
        return present(
            {
                "model": model,
                "max_tokens": limit,
                "thinking": thought.config,
                "output_config": {"effort": thought.effort} if thought.effort else None,
                "tool_choice": choice,
                "stop_sequences": list(settings.stop) or None,
                "temperature": settings.temperature if samples else None,
                "top_p": settings.top_p if samples else None,
            }
        )

    def _thought(self, request: ModelRequest, model: str, *, forced: bool) -> _Thought:
        effort, limit = request.settings.reasoning, request.settings.max_tokens
        if effort is None:
            return _Thought()
        if effort == "none":
            return _Thought({"type": "disabled"})
        if self.thinking == "adaptive":
            shown = {"type": "adaptive", "display": "summarized"}  # without it some models keep their thoughts back
            return _Thought(shown, "low" if effort == "minimal" else effort, _BUDGETS[effort])
        if forced or _unsigned(request.messages, model):
            return _Thought()
        budget = _budget(_BUDGETS[effort], limit)
        return _Thought({"type": "enabled", "budget_tokens": budget}, room=budget)

    def response(self, data: Any, model: str) -> ModelResponse:
        """The answer in a response body.

        Args:
            data: Its JSON, parsed.
            model: The model that was asked.

        Raises:
            ModelError: It is no answer.
        """
        return answer(data, model)

    def decoder(self, model: str) -> Decoder:
        """A fresh decoder for one stream.

        Args:
            model: The model that was asked.
        """
        return AnthropicDecoder(model)

    def error(self, status: int, headers: Mapping[str, str], data: Any) -> ModelError:
        """What a refusal means.

        Args:
            status: The HTTP status.
            headers: The response headers, in lower case.
            data: The body: JSON if it is any, else text.
        """
        return refused(status, headers, data)


class _Thought(NamedTuple):
    """How the model is asked to think, and the output tokens that takes."""

    config: dict[str, Any] | None = None
    effort: str | None = None
    room: int = 0


def _budget(wanted: int, limit: int | None) -> int:
    """The tokens for thinking: what the effort is worth, at most half of a limit that is set."""
    if limit is None:
        return wanted
    if limit <= MIN_BUDGET:
        raise UsageError(
            f"max_tokens={limit} leaves no room for thinking, which takes {MIN_BUDGET} tokens at least. "
            "Raise it, or leave reasoning out."
        )
    return min(wanted, max(MIN_BUDGET, limit // 2))


# -- turns ------------------------------------------------------------------------------------------------------


class _Turns(NamedTuple):
    pieces: list[bytes]
    ends: list[int]  # where in `pieces` the last blocks of each user turn are
    sent: list[Sent]


def _turns(messages: Sequence[Message], model: str, capabilities: Capabilities) -> _Turns:
    """The transcript as JSON in pieces, neighbours of one role merged."""
    turns = _Turns([], [], [])
    pieces, role = turns.pieces, ""
    turn = partial(blocks, model=model, capabilities=capabilities)
    apart = _SYSTEM_APART if capabilities.later_system else _MODEL_APART
    for group, found, ways in encoded_groups(messages, _key(model, capabilities), turn, apart):
        turns.sent.extend(ways)
        if not found:
            continue
        now = "assistant" if isinstance(group[0], ModelMessage) else "user"
        if isinstance(group[0], SystemMessage) and capabilities.later_system and role in _BEFORE_SYSTEM:
            now = "system"
        if now == role:
            pieces += (b",", found)
        else:
            pieces += (b"]}," if role else b"", _OPEN[now], found)
        if now == "user":
            turns.ends[len(turns.ends) - (now == role) :] = [len(pieces) - 1]
        role = now
    if not role:
        raise UsageError("the transcript says nothing. Give the model some text or a part.")
    pieces.append(b"]}")
    return turns


@lru_cache(maxsize=256)
def _key(model: str, capabilities: Capabilities) -> str:
    """All that the blocks of a group depend on; a text, whose hash is made once."""
    flags = (capabilities.images, capabilities.pdf, capabilities.audio, capabilities.tool_media)
    return f"{API} {model} {''.join('01'[flag] for flag in flags)}"


def _unsigned(messages: Sequence[Message], model: str) -> bool:
    """Whether the open turn has calls without the model's own thinking, which a fixed budget insists on."""
    if not messages or not isinstance(messages[-1], ToolMessage):
        return False
    last = next((m for m in reversed(messages) if isinstance(m, ModelMessage)), None)
    return last is not None and not starts_signed(last, model)


# -- tools and the format of the answer -------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _definitions(tools: Toolset, names: frozenset[str] | None, strict: bool) -> tuple[bytes, ...]:
    """The tools as JSON, each by itself; kept, because a run sends the same ones again and again."""
    return tuple(
        dumps(tool_definition(tool, "anthropic", strict=strict)[0])
        for tool in tools.definitions()
        if names is None or wire_name(tool.name) in names
    )


def _choice(request: ModelRequest, *, strict: bool) -> tuple[dict[str, Any] | None, tuple[bytes, ...]]:
    """Which tools the model must or may call, and the tools; of some, only those are sent."""
    parallel, chosen = request.settings.parallel_calls, tool_choice(request)
    if not request.tools:
        return None, ()
    mode, names = chosen or Choice("auto")
    choice: dict[str, Any] = {"type": _CHOICES[mode]}
    if isinstance(request.settings.tool_choice, str) and names:
        choice, names = {"type": "tool", "name": names[0]}, ()
    if parallel is not None and mode != "none":
        choice["disable_parallel_tool_use"] = not parallel
    said = choice if chosen is not None or "disable_parallel_tool_use" in choice else None
    return said, _definitions(request.tools, frozenset(names) or None, strict)


class _Same(Generic[_T]):
    """A key that is equal to itself only, for values that have no hash."""

    __slots__ = ("value",)

    def __init__(self, value: _T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and cast("_Same[Any]", other).value is self.value


@lru_cache(maxsize=32)
def _format(output: _Same[OutputSchema]) -> tuple[dict[str, Any] | None, str]:
    """The format the API enforces; where it cannot or shall not, words for the model."""
    schema = output.value.schema
    lowered = lower(schema, "anthropic-strict")
    if output.value.strict and lowered.strict_ok:
        return {"type": "json_schema", "schema": lowered.schema}, ""
    return None, f"Answer with nothing but JSON that fits this JSON Schema: {dumps(dict(schema)).decode()}"


# -- cache markers ----------------------------------------------------------------------------------------------


class _Sections(NamedTuple):
    """The long parts of a body, in the order in which the provider caches them."""

    tools: Sequence[bytes]
    system: str
    turns: list[bytes]
    ends: list[int]


_RANK = {"tools": 0, "system": 1}  # all else comes later: a marker at the top stands for the last block
_PLACES = ("last", "system", "before", "tools")  # what to mark first when room is short


def _plan(cache: Ttl | None, extra: Mapping[str, Any], sections: _Sections) -> dict[str, Ttl]:
    """Where to place markers, and for how long.

    The caller's own count first. A longer one may not come after a shorter one,
    so ours take the length of what follows them.
    """
    own = [(_RANK.get(key, 2), ttl) for key, value in extra.items() for ttl in _callers({key: value})]
    if len(own) > MAX_MARKERS:
        raise UsageError(f"the request has {len(own)} cache markers of its own; the API takes {MAX_MARKERS}.")
    if cache is None:
        return {}
    turns = 0 if {"messages", "cache_control"} & extra.keys() else len(sections.ends)
    room = {
        "last": turns > 0,
        "before": turns > 1,
        "system": bool(sections.system) and "system" not in extra,
        "tools": bool(sections.tools) and "tools" not in extra,
    }
    chosen = [place for place in _PLACES if room[place]][: MAX_MARKERS - len(own)]
    return {place: _ttl(_RANK.get(place, 2), own, cache) for place in chosen}


def _ttl(rank: int, own: Sequence[tuple[int, str]], cache: Ttl) -> Ttl:
    if rank == 2:
        return "5m"
    if any(ttl == "1h" for later, ttl in own if later > rank):
        return "1h"
    return "5m" if own else cache


def _callers(value: Any) -> Iterator[str]:
    """How long each marker inside a value lasts."""
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        mark = found.get("cache_control")
        if isinstance(mark, Mapping):
            yield str(cast("Mapping[str, Any]", mark).get("ttl", "5m"))
        for inner in found.values():
            yield from _callers(inner)
    elif isinstance(value, list | tuple):
        for inner in cast("Sequence[Any]", value):
            yield from _callers(inner)


def _mark(sections: _Sections, plan: Mapping[str, Ttl]) -> dict[str, list[bytes]]:
    """The sections as JSON in pieces, with markers on the blocks that end them."""
    tools, turns = list(sections.tools), list(sections.turns)
    if "tools" in plan:
        tools[-1] = _marked(tools[-1], plan["tools"])
    for place, at in (("last", -1), ("before", -2)):
        if place in plan:
            end = sections.ends[at]
            turns[end] = _marked(turns[end], plan[place])
    system = dumps(sections.system)
    if "system" in plan:
        system = b"[" + _marked(b'{"type":"text","text":' + system + b"}", plan["system"]) + b"]"
    written = {"messages": [b"[", *turns, b"]"]}
    if sections.system:
        written["system"] = [system]
    if tools:
        written["tools"] = [b"[", b",".join(tools), b"]"]
    return written


def _marked(piece: bytes, ttl: Ttl) -> bytes:
    """JSON blocks with a marker on the last; none ends in thinking or in empty text, for none is in a user turn."""
    return piece[:-1] + _MARKS[ttl]


# -- the whole --------------------------------------------------------------------------------------------------


def _kind(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    return str(cast("Mapping[str, Any]", found).get("type")) if isinstance(found, Mapping) else ""


def _written(head: dict[str, Any], sections: Mapping[str, list[bytes]], extra: Mapping[str, Any]) -> bytes:
    pieces = [written(head)[:-1]]
    for name, section in sections.items():
        if name not in extra:
            pieces += (b',"%s":' % name.encode(), *section)
    pieces.append(b"}")
    return b"".join(pieces)


def _check(json: bytes, request: ModelRequest) -> None:
    if len(json) <= MAX_BODY:
        return
    parts = [part for m in request.messages if not isinstance(m, ModelMessage) for part in m.parts]
    largest = max(parts, key=_size, default=None)
    what = f"its largest part is the {describe_part(largest)}" if largest is not None else "it is all text"
    raise UsageError(
        f"the request body has {len(json):,} bytes; anthropic takes {MAX_BODY:,}, and {what}. "
        "Shorten the transcript, or attach files by URL."
    )


def _size(part: Part | Mapping[str, Any]) -> int:
    data = part.data or part.text if isinstance(part, Part) else part.get("data")
    return decoded_len(data) if data else 0
