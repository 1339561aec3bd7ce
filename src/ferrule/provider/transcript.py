"""From the transcript to an API's list of turns: what each part becomes, and bytes that are made once.

A turn group is one model message, or all that comes between two of them: the
results of its calls and what the user said then. APIs differ in how they order
and merge a group, never across groups; so a group is encoded once, and its
bytes serve every later request.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.content import Part, from_dict, placeholder_text, to_dict
from ferrule.errors import FetchError, UnsupportedPartError, UsageError
from ferrule.message import Call, Message, ModelMessage, ToolMessage, UserMessage, unpaired
from ferrule.provider.base import Capabilities, Sent
from ferrule.provider.capability import carry
from ferrule.strict_json import clean, dumps

if TYPE_CHECKING:
    import logging
else:
    from ferrule.lazy import LazyModule

    logging = LazyModule("logging")

Fetch = Callable[[str], Awaitable[Part]]
FAILED_SILENTLY: Final = "The call failed and said nothing."
_UNREADABLE: Final = "application/x-unreadable-"  # begins the type of a tool's part whose URL could not be read


def groups(messages: Sequence[Message], apart: tuple[type, ...] = (ModelMessage,)) -> Iterator[list[Message]]:
    """The turn groups of a transcript.

    Args:
        messages: The transcript.
        apart: Kinds of messages that are a group by themselves.

    Since 0.1.
    """
    group: list[Message] = []
    for message in messages:
        if isinstance(message, apart):
            if group:
                yield group
                group = []
            yield [message]
        else:
            group.append(message)
    if group:
        yield group


def encode(
    messages: Sequence[Message], key: Any, turn: Callable[[list[Message]], tuple[list[Any], list[Sent]]]
) -> tuple[bytes, tuple[Sent, ...]]:
    """The turns of a transcript as JSON, without the brackets around them.

    Args:
        messages: The transcript.
        key: All that the encoding depends on besides the messages; hashable.
        turn: From a group to its JSON values, and how its parts travel.

    Raises:
        UsageError: A call has no result, or a result no call.

    Since 0.1.
    """
    pieces: list[bytes] = []
    sent: list[Sent] = []
    for _, found, ways in encoded_groups(messages, key, turn):
        if found:
            pieces.append(found)
        sent += ways
    return b",".join(pieces), tuple(sent)


def encoded_groups(
    messages: Sequence[Message],
    key: Any,
    turn: Callable[[list[Message]], tuple[list[Any], list[Sent]]],
    apart: tuple[type, ...] = (ModelMessage,),
) -> Iterator[tuple[list[Message], bytes, list[Sent]]]:
    """Each group of a transcript with its JSON values, made once; for APIs that merge neighbouring groups.

    Args:
        messages: The transcript.
        key: All that the encoding depends on besides the messages; hashable.
        turn: From a group to its JSON values, and how its parts travel.
        apart: Kinds of messages that are a group by themselves.

    Raises:
        UsageError: A call has no result, or a result no call.

    Since 0.1.
    """
    wrong = unpaired(messages)
    if wrong is not None:
        raise UsageError(f"the transcript cannot be sent: {wrong}. Give each call one result, directly after it.")
    for group in groups(messages, apart):
        kept = _kept(group[0])
        rest, encoded, ways = kept.get((key, len(group)), ((), None, None))
        # Another message may stand beside the first one now: another prompt, a redacted result.
        if encoded is None or any(a is not b for a, b in zip(rest, group[1:], strict=True)):
            values, ways = turn(group)
            encoded = b",".join(map(dumps, values))
            kept[(key, len(group))] = (group[1:], encoded, ways)
        yield group, encoded, ways


def _kept(message: Message) -> dict[Any, Any]:
    if message.wire is None:
        object.__setattr__(message, "wire", {})
    return cast("dict[Any, Any]", message.wire)


# -- parts ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Shown:
    """What one tool result becomes.

    Args:
        text: The text of the result, with a word on what follows elsewhere.
        native: Parts that stay in the result.
        moved: Parts for a later user turn, each with the label that goes before it.
        placeholders: Lines of parts that are text, and lines that stand for parts that cannot travel.
        sent: How each part travelled.

    Since 0.1.
    """

    text: str
    native: list[Part] = field(default_factory=list[Part])
    moved: list[tuple[str, Part]] = field(default_factory=list[tuple[str, Part]])
    placeholders: list[str] = field(default_factory=list[str])
    sent: list[Sent] = field(default_factory=list[Sent])


def show_result(
    message: ToolMessage, api: str, capabilities: Capabilities, *, wire_id: str, where: str = " in the next message"
) -> Shown:
    """How a tool result travels.

    Args:
        message: The result.
        api: Name of the API.
        capabilities: What the model takes.
        wire_id: The id that the call has on the wire.
        where: Where relocated parts are found, as the model is told.

    Since 0.1.
    """
    silent = message.is_error and not message.parts and not message.output.strip()
    shown = Shown(FAILED_SILENTLY if silent else message.output)
    counts: Counter[str] = Counter()
    for given in message.parts:
        part = from_dict(given)
        if part.type == "text":
            shown.placeholders.append(part.text or "")
            continue
        way = carry(api, part, "tool", capabilities).way
        unread = _unread_kind(part)
        kind = unread or part.type
        shown.sent.append(Sent(kind, way, message.call.id))
        if way == "native":
            shown.native.append(part)
        elif way == "placeholder":
            shown.placeholders.append(placeholder(part))
            _warn_once(api, kind, unread is not None)
        else:
            counts[part.type] += 1
            name = part.name if part.type == "file" and part.name else str(counts[part.type])
            label = f"Output of tool {message.call.name} ({wire_id}), {part.type} {name}:"
            shown.moved.append((clean(label), part))
    if counts:
        note = ", ".join(f"{n} {_noun(kind, n)}" for kind, n in counts.items())
        verb = "follows" if sum(counts.values()) == 1 else "follow"
        shown.text = f"{shown.text} ({note} {verb}{where})".lstrip()
    return shown


_NOT_TAKEN: Final = "%s does not take every %s part of a tool result; the model is told what is missing."
_NOT_READ: Final = "%s: not every URL of the %s parts of tool results can be read; the model is told what is missing."


@lru_cache(maxsize=256)
def _warn_once(api: str, kind: str, unread: bool) -> None:
    logging.getLogger("ferrule.provider").warning(_NOT_READ if unread else _NOT_TAKEN, api, kind)


def told_in_words(message: ToolMessage, shown: Shown) -> str:
    """A result as one text, for APIs without a mark for a failed one: the text begins with the word instead.

    Args:
        message: The result.
        shown: What it becomes.

    Since 0.1.
    """
    text = shown.text
    if message.is_error and not text.lower().startswith("error"):
        text = f"Error: {text}"
    return "\n".join(line for line in (text, *shown.placeholders) if line)


def _noun(kind: str, n: int) -> str:
    if kind == "audio":
        return "audio part" if n == 1 else "audio parts"
    return kind if n == 1 else f"{kind}s"


def placeholder(part: Part) -> str:
    """The line that stands for a part that cannot travel, or whose URL could not be read.

    Args:
        part: The part.

    Since 0.1.
    """
    kind = _unread_kind(part)
    line = placeholder_text(part) if kind is None else f"[{kind} part whose URL could not be read]"
    return f"{line} {part.name}" if part.name else line


def _unread_kind(part: Part) -> str | None:
    """What kind of part it was whose URL could not be read; None for any other part."""
    found = part.mimeType or ""
    return found.removeprefix(_UNREADABLE) if found.startswith(_UNREADABLE) else None


def check_user_part(part: Part, api: str, capabilities: Capabilities) -> Sent:
    """How a part that the caller attached travels.

    Args:
        part: A part that is no text.
        api: Name of the API.
        capabilities: What the model takes.

    Raises:
        UnsupportedPartError: It cannot.

    Since 0.1.
    """
    way = carry(api, part, "user", capabilities).way
    if way == "placeholder":
        raise UnsupportedPartError(part.type, part.mimeType, api)
    return Sent(part.type, way)


async def fetched(
    messages: Sequence[Message], api: str, capabilities: Capabilities, fetch: Fetch, *, every: bool = False
) -> Sequence[Message]:
    """The transcript with every URL read that the provider would not read itself.

    Args:
        messages: The transcript; it stays as it is.
        api: Name of the API.
        capabilities: What the model takes.
        fetch: Reads one URL.
        every: Whether the others are read too, as far as their parts can travel.

    Raises:
        FetchError: A URL that the caller attached cannot be read; one of a tool's becomes a placeholder.

    Since 0.1.
    """
    changed: dict[int, Message] = {}
    for i, message in enumerate(messages):
        if isinstance(message, ModelMessage) or not message.parts:
            continue
        read = [k for k, part in enumerate(message.parts) if _downloads(message, part, api, capabilities, every)]
        if read:
            kept, key = _kept(message), ("fetched", api, capabilities, every)
            if key not in kept:
                kept[key] = await _with_data(message, read, fetch)
            changed[i] = kept[key]
    return [changed.get(i, m) for i, m in enumerate(messages)] if changed else messages


def _downloads(
    message: UserMessage | ToolMessage, part: Any, api: str, capabilities: Capabilities, every: bool
) -> bool:
    if isinstance(message, ToolMessage):
        return carry(api, part, "tool", capabilities, download=every).download
    return part.type != "text" and carry(api, part, "user", capabilities, download=every).download


async def _with_data(
    message: UserMessage | ToolMessage, read: Sequence[int], fetch: Fetch
) -> UserMessage | ToolMessage:
    parts: list[Any] = []
    for i, part in enumerate(message.parts):
        if i in read:
            made = part if isinstance(part, Part) else from_dict(part)
            try:
                kept = _with_content(made, await fetch(cast("str", made.url)))
            except FetchError:
                if isinstance(message, UserMessage):
                    raise
                # What a tool returned never ends a run: the model is told that it could not be read.
                kept = replace(made, type="file", mimeType=f"{_UNREADABLE}{made.type}")
            part = kept if isinstance(message, UserMessage) else to_dict(kept)
        parts.append(part)
    return replace(message, parts=tuple(parts))


def _with_content(part: Part, got: Part) -> Part:
    """The part with what its URL gave, if that is what the part says it is: a login page is no image."""
    if not got.data:
        raise FetchError(f"the URL of the {part.type} part gave no bytes.")
    found, declared = got.mimeType or "", part.mimeType or ""
    fits = {"image": ("image/",), "audio": ("audio/", "video/")}.get(part.type, ("application/pdf",))
    if declared.startswith(fits) and not found.startswith((*fits, "application/octet-stream")):
        raise FetchError(f"the URL of the {part.type} part gave {found or 'no type'} and not {declared}.")
    kept = found if found.startswith(fits) else declared
    return replace(part, url=None, data=got.data, mimeType=kept)


# -- call ids ---------------------------------------------------------------------------------------------------


def wire_id(call: Call, *, form: str = "call_{}", length: int = 24, keep: Callable[[str], bool] = bool) -> str:
    """The id that a call has on the wire: the provider's own where it may stay, else one made from ours.

    Args:
        call: The call.
        form: How a made id looks.
        length: How many letters and digits go into it.
        keep: Whether the API takes the id of another.

    Since 0.1.
    """
    if call.wire_id and keep(call.wire_id):
        return call.wire_id
    # A provider may give an id that is one of ours.
    seed = f"{len(call.wire_id)} {call.wire_id}" if call.wire_id else call.id
    return form.format(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:length])
