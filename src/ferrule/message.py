"""The provider-neutral transcript: what was said, called and answered.

A transcript is a sequence of messages, appended only. The invariant that every
provider insists on holds in each: a model message with calls is followed at
once by one tool message for each call, in call order.

Messages are values: nothing changes one. They are not frozen, because a frozen
dataclass takes three times as long to make, and each round makes several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

from ferrule.content import Part, describe_part, is_part_dict, text
from ferrule.errors import UsageError
from ferrule.result import ToolResult
from ferrule.strict_json import Codec, made_of_fields, register

Finish = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "error", "unknown"]
FINISHES: Final = get_args(Finish)


class Call(NamedTuple):
    """One request of a model to run one tool.

    Args:
        id: Our id, unique in the run; "" until the run has given it.
        name: The tool's name as the model said it.
        arguments: JSON text as the model wrote it; never repaired.
        wire_id: The provider's id, when it gave one and has not used it before in this transcript.
        complete: Whether there is positive evidence that the call is whole.

    Since 0.1.
    """

    id: str
    name: str
    arguments: str
    wire_id: str | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Raw:
    """What a provider sent for one model message, to be sent back byte for byte.

    Args:
        api: Who sent it: only the same API gets it back.
        model: The model that said it; signatures belong to its family.
        items: The provider's own JSON values.

    Since 0.1.
    """

    api: str
    model: str
    items: Any


@dataclass(slots=True)
class UserMessage:
    """What a person or a program says to the model.

    Args:
        parts: Text and media, in order.

    Since 0.1.
    """

    parts: tuple[Part, ...]
    wire: dict[Any, Any] | None = field(default=None, init=False, repr=False, compare=False)  # kept by adapters

    @property
    def text(self) -> str:
        """The text parts, one below the other."""
        return "\n".join(p.text or "" for p in self.parts if p.type == "text")


@dataclass(slots=True)
class SystemMessage(UserMessage):
    """What a program tells the model in the middle of a transcript, with the weight of the instructions.

    Where an API or a model knows no such thing, it is told like what a user says.

    Args:
        parts: Text.

    Raises:
        UsageError: A part that is no text.

    Since 0.1.
    """

    def __post_init__(self) -> None:
        """Check that it is all text."""
        if any(part.type != "text" for part in self.parts):
            raise UsageError("a system message holds text only. Put images, files and audio into a user message.")


@dataclass(slots=True)
class ModelMessage:
    """What the model said.

    Args:
        text: Its text.
        calls: The calls it asks for, in order.
        reasoning: Readable reasoning, for people; providers get theirs back through `raw`.
        raw: What the provider sent.

    Since 0.1.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    raw: Raw | None = None
    wire: dict[Any, Any] | None = field(default=None, init=False, repr=False, compare=False)  # kept by adapters


@dataclass(slots=True)
class ToolMessage:
    """What the model is told about one call.

    Args:
        call: The call.
        output: Text for the model.
        is_error: Whether the call did not succeed.
        parts: Media of the result, as part dicts.

    Since 0.1.
    """

    call: Call
    output: str
    is_error: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()
    wire: dict[Any, Any] | None = field(default=None, init=False, repr=False, compare=False)  # kept by adapters

    def __repr__(self) -> str:
        """All of it but the data of its parts."""
        parts = ", ".join(f"<{describe_part(p) if is_part_dict(p) else type(p).__name__}>" for p in self.parts)
        return f"ToolMessage(call={self.call}, output={self.output!r}, is_error={self.is_error}, parts=({parts}))"


Message: TypeAlias = UserMessage | ModelMessage | ToolMessage
Prompt: TypeAlias = str | Part | Sequence[str | Part] | UserMessage


def user(prompt: Prompt) -> UserMessage:
    """A user message from text, a part, or several of both.

    Args:
        prompt: What to say.

    Raises:
        UsageError: Something that is neither text nor a part, or nothing at all.

    Since 0.1.
    """
    if isinstance(prompt, UserMessage):
        return prompt
    if isinstance(prompt, str):
        return UserMessage((Part("text", text=prompt),))
    items: Any = (prompt,) if isinstance(prompt, Part) else prompt
    if not isinstance(items, list | tuple):
        raise UsageError(f"a prompt must be text, parts or a list of both, not {type(prompt).__name__}.")
    parts = tuple(text(item) if isinstance(item, str) else item for item in cast("list[Any]", items))
    foreign = [type(p).__name__ for p in parts if not isinstance(p, Part)]
    if foreign or not parts:
        what = f"holds {foreign[0]}" if foreign else "is empty"
        raise UsageError(f"the prompt {what}. Give text, parts made by image(), file() or audio(), or a list of both.")
    return UserMessage(parts)


def system(text: str) -> SystemMessage:
    """A system message from text.

    Args:
        text: What to tell.

    Since 0.1.
    """
    return SystemMessage((Part("text", text=text),))


def told(call: Call, result: ToolResult) -> ToolMessage:
    """What the model is told of a result.

    Args:
        call: The call it belongs to.
        result: How the call ended.

    Since 0.1.
    """
    parts = tuple(result.parts) if result.parts else ()
    return ToolMessage(call, result.output, result.is_error, parts)


class Transcript(Sequence[Message]):
    """The first messages of a growing transcript, without a copy.

    Args:
        messages: A list that is only ever appended to.
        length: How many of its messages belong; default all that are there now.

    Since 0.1.
    """

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message], length: int | None = None) -> None:
        """Look at the list as it is now."""
        self._messages = messages
        self._length = len(messages) if length is None else length

    def __len__(self) -> int:
        """How many messages there are."""
        return self._length

    def __getitem__(self, index: Any) -> Any:
        """One message, or a list of some."""
        if isinstance(index, slice):
            return [self._messages[i] for i in range(*cast("Any", index).indices(self._length))]
        at: int = cast("int", index) + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError("the transcript ends before this message")
        return self._messages[at]

    def __eq__(self, other: object) -> bool:
        """Equal when the messages are."""
        return isinstance(other, Transcript) and list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        """How long it is: messages hold people's words."""
        return f"Transcript({self._length} messages)"


def unpaired(messages: Iterable[Message]) -> str | None:
    """Why a transcript breaks the rule of calls and results; None when it holds.

    Args:
        messages: The transcript.

    Since 0.1.
    """
    open_calls: list[Call] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not open_calls or message.call.id != open_calls[0].id:
                return f"the result of call {message.call.id!r} ({message.call.name}) does not follow its call"
            del open_calls[0]
        elif open_calls:
            return f"call {open_calls[0].id!r} ({open_calls[0].name}) has no result"
        elif isinstance(message, ModelMessage):
            open_calls = list(message.calls)
        elif not isinstance(message, UserMessage):  # pyright: ignore[reportUnnecessaryIsInstance] - what callers give
            return f"it holds {type(message).__name__}, which is no message of ferrule.message"
    return f"call {open_calls[0].id!r} ({open_calls[0].name}) has no result" if open_calls else None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model call or a run consumed; what nobody told is None, never 0.

    Args:
        input: Input tokens, those from a cache included.
        output: Output tokens, reasoning included.
        cached: Input tokens read from a cache.
        reasoning: Output tokens spent on reasoning.
        cost: Money, in the currency of the prices that were given; None unless all of it is known.
        requests: Model calls made.
        tool_calls: Tool calls made.

    Since 0.1.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    cost: float | None = None
    requests: int = 0
    tool_calls: int = 0

    @property
    def unpriced(self) -> bool:
        """Whether something was consumed of which nobody knows the cost."""
        return self.cost is None and self != Usage()

    def __add__(self, other: Usage) -> Usage:
        """The sum; an absent addend counts as 0 unless both are absent.

        Not so the cost: a sum that leaves out what something cost would be taken for the whole, and is None.
        """
        return Usage(
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cached, other.cached),
            _sum(self.reasoning, other.reasoning),
            None if self.cost is other.cost is None or self.unpriced or other.unpriced else _sum(self.cost, other.cost),
            self.requests + other.requests,
            self.tool_calls + other.tool_calls,
        )


def miscounted(usage: object) -> str | None:
    """What is wrong with a usage that an application's own code may have made; None when it can be added up.

    Args:
        usage: What is said to be one; None tells nothing.

    Since 0.1.
    """
    if usage is None:
        return None
    if not isinstance(usage, Usage):
        return f"its usage is {type(usage).__name__}, not Usage or None"
    for name in _COUNTS:
        value: object = getattr(usage, name)
        if value is None and name not in ("requests", "tool_calls"):
            continue
        if not isinstance(value, int | float) or not (value >= 0 or (name == "cost" and value != value)):
            return f"its usage has {value!r:.50} for {name}, not a number from 0"
    return None


_COUNTS = tuple(f.name for f in fields(Usage))


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


# -- the journal's form -----------------------------------------------------------------------------------------


def _fields_of(kind: Any) -> Callable[[Any], dict[str, Any]]:
    """What gives the fields of an object that are not as they are by default."""
    known = [(f.name, f.default) for f in fields(kind) if f.init]
    return lambda value: {name: found for name, default in known if (found := getattr(value, name)) != default}


def _shown_as(role: str, fields_of: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """What people and HTTP clients are shown of a message: whose it is, and its fields."""
    return lambda value: {"role": role, **fields_of(value)}


def _call_fields(call: Call) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    if call.id:
        shown["id"] = call.id
    if call.wire_id is not None:
        shown["wire_id"] = call.wire_id
    if not call.complete:
        shown["complete"] = False
    return shown


def _call_from(found: dict[str, Any]) -> Call:
    return Call(
        found.get("id", ""), found["name"], found["arguments"], found.get("wire_id"), found.get("complete", True)
    )


register(Call, Codec("$call", Call._asdict, _call_fields, _call_from))
for _kind, _word in ((Raw, "$raw"), (Usage, "$usage")):
    register(_kind, Codec(_word, _fields_of(_kind), _fields_of(_kind), made_of_fields(_kind)))
for _kind, _role in ((UserMessage, "user"), (SystemMessage, "system"), (ModelMessage, "model"), (ToolMessage, "tool")):
    _told = _fields_of(_kind)
    register(_kind, Codec(f"${_role}", _shown_as(_role, _told), _told, made_of_fields(_kind)))
