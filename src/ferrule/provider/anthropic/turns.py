"""What the Messages API is told of a transcript: the content blocks of each turn group.

Blocks the model gave us go back as they came. Its thinking is signed for one
family of models; any other gets the turn without it, never with a changed one.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, cast

from ferrule.content import Part, from_dict
from ferrule.errors import UnsupportedPartError
from ferrule.media import bare
from ferrule.message import Call, Message, ModelMessage, ToolMessage, UserMessage
from ferrule.provider.base import Capabilities, Sent
from ferrule.provider.foreign import arguments_object
from ferrule.provider.transcript import Shown, check_user_part, show_result, wire_id
from ferrule.strict_json import clean
from ferrule.tool.names import wire_name

Block = dict[str, Any]

API: Final = "anthropic"
THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_BYTES = "application/octet-stream"
_ID = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_TEXT_KINDS = ("text/", "application/json", "application/xml", "application/yaml")
# The part of a model's name that does not tell its family: a date, an alias of the newest, a platform's version.
_EDITION = re.compile(r"(?:[-@]\d{8}|-latest|@latest|@default)?(?:-v\d+(?::\d+)?)?$", re.ASCII)


@lru_cache(maxsize=256)
def family(model: str) -> str:
    """The part of a model's name that its signatures depend on.

    Args:
        model: For example `claude-x-20260101`, `claude-x-latest`, or a platform's `us.anthropic.claude-x-v1:0`.

    Since 0.1.
    """
    name = model.lower().rpartition("/")[2]
    return _EDITION.sub("", name.rpartition("anthropic.")[2])


def blocks(group: Sequence[Message], model: str, capabilities: Capabilities) -> tuple[list[Block], list[Sent]]:
    """The content blocks of one turn group.

    Args:
        group: One model message, or all that comes between two of them.
        model: The family of the model that is asked.
        capabilities: What it takes.

    Returns:
        The blocks, perhaps none, and how each media part travels.

    Raises:
        UnsupportedPartError: The caller attached a part that cannot travel.

    Since 0.1.
    """
    first = group[0]
    if isinstance(first, ModelMessage):
        return list(_model_blocks(first, model)), []
    results, sent = _results([m for m in group if isinstance(m, ToolMessage)], capabilities)
    for message in group:
        if isinstance(message, UserMessage):
            for part in message.parts:
                results += _said(part, capabilities, sent)
    return results, sent


def _text(text: str) -> list[Block]:
    """A text block, or none: a blank one is refused."""
    return [{"type": "text", "text": clean(text)}] if text.strip() else []


# -- the model's turns ------------------------------------------------------------------------------------------


def echoed(message: ModelMessage, model: str) -> Sequence[Block] | None:
    """The blocks that the model itself gave, where they may go back to this one.

    Not to another family, and not when the message was changed since: then its
    text and calls are what counts.

    Args:
        message: What the model said.
        model: The family of the model that is asked.

    Since 0.1.
    """
    raw = message.raw
    if raw is None or raw.api != API or family(raw.model) != model:
        return None
    items = cast("list[Block]", raw.items)
    text = "".join(item["text"] for item in items if item["type"] == "text")
    names = [item.get("name") for item in items if item["type"] == "tool_use"]
    return items if text == message.text and names == [call.name for call in message.calls] else None


def _model_blocks(message: ModelMessage, model: str) -> Iterator[Block]:
    uses = zip(message.calls, wire_ids(message.calls), strict=True)
    items = echoed(message, model)
    if items is None:
        yield from _text(message.text)
        yield from (_use({"type": "tool_use"}, *use) for use in uses)
        return
    for item in items:
        if item["type"] == "tool_use":
            yield _use(_unmarked(item), *next(uses))
        elif _may_return(item):
            yield _unmarked(item)


def _use(item: Block, call: Call, id: str) -> Block:
    return {**item, "id": id, "name": _name(call.name), "input": arguments_object(call.arguments)}


def _name(name: str) -> str:
    """The name that the model said, unless it is none that the API takes: then the run has told the model so."""
    return name if _NAME.fullmatch(name) else wire_name(name)


def _unmarked(item: Block) -> Block:
    """The block without a cache marker of an earlier request: markers are placed anew in each."""
    return {k: v for k, v in item.items() if k != "cache_control"} if "cache_control" in item else item


def _may_return(item: Block) -> bool:
    """Whether a block is taken back: no blank text, and no thinking that was cut before its signature."""
    if item["type"] == "text":
        return bool(item.get("text", "").strip())
    return item["type"] != "thinking" or bool(item.get("signature"))


def starts_signed(message: ModelMessage, model: str) -> bool:
    """Whether a model message, as it is sent, begins with the model's own thinking.

    Args:
        message: What the model said.
        model: The family of the model that is asked.

    Since 0.1.
    """
    first = next((item for item in echoed(message, model) or () if _may_return(item)), None)
    return first is not None and first["type"] in THINKING


def wire_ids(calls: Sequence[Call]) -> list[str]:
    """The id of each call of one turn on the wire: the provider's own the first time, else made from ours.

    Args:
        calls: The calls of one model message.

    Since 0.1.
    """
    ids: list[str] = []
    for call in calls:
        id = _wire_id(call)
        ids.append(_wire_id(call._replace(wire_id=None)) if id in ids else id)
    return ids


def _wire_id(call: Call) -> str:
    return wire_id(call, form="toolu_{}", keep=lambda id: _ID.fullmatch(id) is not None)


# -- the user's turns -------------------------------------------------------------------------------------------


def _results(messages: Sequence[ToolMessage], capabilities: Capabilities) -> tuple[list[Block], list[Sent]]:
    """All results first, then the media that have no place in theirs."""
    results: list[Block] = []
    moved: list[Block] = []
    sent: list[Sent] = []
    for message, id in zip(messages, wire_ids([m.call for m in messages]), strict=True):
        # A failed result may hold text only, so its media follow; the API refuses the request otherwise.
        taken = replace(capabilities, tool_media=False) if message.is_error and message.parts else capabilities
        shown = show_result(_readable(message), API, taken, wire_id=id, where=" below")
        results.append(_result(message, id, shown))
        for label, part in shown.moved:
            moved += [*_text(label), *_media(part)]
        sent += shown.sent
    return results + moved, sent


def _result(message: ToolMessage, id: str, shown: Shown) -> Block:
    rest = [block for part in shown.native for block in _media(part)]
    rest += [block for line in shown.placeholders for block in _text(line)]
    block: Block = {"type": "tool_result", "tool_use_id": id}
    if rest or shown.text.strip():
        block["content"] = [*_text(shown.text), *rest] if rest else clean(shown.text)
    return {**block, "is_error": True} if message.is_error else block


def _readable(message: ToolMessage) -> ToolMessage:
    """The result with each text file that is none named as bytes, which have no shape and get a placeholder."""
    parts = tuple(part if _media(from_dict(part)) else {**part, "mimeType": _BYTES} for part in message.parts)
    return replace(message, parts=parts) if parts != message.parts else message


def _said(part: Part, capabilities: Capabilities, sent: list[Sent]) -> list[Block]:
    if part.type == "text":
        return _text(part.text or "")
    way, found = check_user_part(part, API, capabilities), _media(part)
    if not found:
        raise UnsupportedPartError(part.type, part.mimeType, API)
    sent.append(way)
    return found


# -- media ------------------------------------------------------------------------------------------------------


def _media(part: Part) -> list[Block]:
    """The block of an image or a document; none for a text file that is blank or no text."""
    if part.type == "image":
        return [{"type": "image", "source": _source(part)}]
    is_text = bare(part.mimeType).startswith(_TEXT_KINDS) and part.url is None
    source = _written(part) if is_text else _source(part)
    title = {"title": part.name} if part.name and part.name.strip() else {}
    return [{"type": "document", **title, "source": source}] if source else []


def _source(part: Part) -> Mapping[str, str]:
    if part.url is not None:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": bare(part.mimeType), "data": part.data or ""}


def _written(part: Part) -> Mapping[str, str] | None:
    try:
        text = b64decode(part.data or "").decode("utf-8-sig")
    except ValueError:
        return None
    return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None
