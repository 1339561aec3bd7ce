"""What the Messages API answered, whole or in pieces.

A streamed answer is put together into the message that would have come whole,
and read by the same code; so both ways give one result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from ferrule.errors import ModelError
from ferrule.message import Call, Finish, ModelMessage, Raw, Usage
from ferrule.provider.anthropic.error import PROVIDER, refused
from ferrule.provider.anthropic.turns import API
from ferrule.provider.base import TAIL, Decoder, Delta, ModelResponse, cut
from ferrule.provider.foreign import (
    Json,
    arguments_object,
    arguments_text,
    as_count,
    as_object,
    as_text,
    is_whole,
    sum_of,
    told_usage,
)
from ferrule.strict_json import clean

_FINISH: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_PAUSED = "the provider paused the work of its own tools. Send the transcript again with this turn last to go on"


def answer(data: Any, asked: str) -> ModelResponse:
    """The answer in a response body.

    Args:
        data: Its JSON, parsed.
        asked: The model that was asked.

    Raises:
        ModelError: It is no message.

    Since 0.1.
    """
    message = as_object(data)
    if message.get("type") == "error":
        raise refused(None, {}, message)
    if not isinstance(message.get("content"), list):
        raise ModelError("the answer is no message. Check the base URL", provider=PROVIDER)
    return _read(message, asked, {})


def _string(value: Any) -> str:
    return clean(as_text(value))


def _read(message: Json, asked: str, pieces: Mapping[int, _Piece]) -> ModelResponse:
    """The answer in a message; `pieces` are its blocks as a stream brought them, by position."""
    blocks = {i: as_object(item) for i, item in enumerate(message["content"]) if _is_block(as_object(item))}
    items = list(blocks.values())
    uses = [(i, item) for i, item in blocks.items() if item.get("type") == "tool_use"]
    finish, error = _finish(message.get("stop_reason"), bool(uses))
    whole = finish == "tool_calls"
    text = _join(items, "text", "")
    said = ModelMessage(
        "\n".join(filter(None, (text, _refusal(message, text) if finish == "refusal" else ""))),
        tuple(_call(item, pieces.get(i), whole) for i, item in uses),
        _join(items, "thinking", "\n\n"),
        Raw(API, asked, items),
    )
    return ModelResponse(
        said,
        finish,
        _usage(as_object(message.get("usage"))),
        _string(message.get("model")),
        error=error,
        paused=message.get("stop_reason") == "pause_turn" and bool(items) and not uses,
        flagged=(finish == "stop" and not text.strip()) or (message.get("stop_reason") == "tool_use" and not uses),
    )


_TEXTS = {"text": ("text",), "thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}


def _is_block(item: Json) -> bool:
    """Whether an item may be kept: the API would refuse it back without a type, or with a field that is no text."""
    kind = as_text(item.get("type"))
    return bool(kind) and all(isinstance(item.get(name, ""), str) for name in _TEXTS.get(kind, ()))


def _join(items: Iterable[Json], kind: str, between: str) -> str:
    return between.join(found for item in items if item.get("type") == kind and (found := _string(item.get(kind))))


def _finish(reason: Any, calls: bool) -> tuple[Finish, ModelError | None]:
    finish: Finish = _FINISH.get(reason, "unknown") if isinstance(reason, str) else "unknown"
    if finish in ("stop", "tool_calls"):  # the calls that are there decide, not the word
        return ("tool_calls" if calls else "stop"), None
    if finish != "unknown":
        return finish, None
    what = _PAUSED if reason == "pause_turn" else "the answer ended for no known reason"
    return finish, ModelError(what, provider=PROVIDER, code=_string(reason)[:100] or None)


def _call(item: Json, piece: _Piece | None, whole: bool) -> Call:
    name, arguments = _string(item.get("name")), piece.arguments if piece is not None else ""
    if not arguments.strip():
        arguments = arguments_text(item.get("input"))
    complete = whole and (piece is None or piece.ended) and is_whole(name, arguments)
    return Call("", name, arguments, _string(item.get("id")) or None, complete)


def _refusal(message: Json, text: str) -> str:
    details = as_object(message.get("stop_details"))
    category = _string(details.get("category"))
    told = f"The model refused to answer ({category})." if category else "" if text else "The model refused to answer."
    return _string(details.get("explanation")) or told


def _usage(counts: Json) -> Usage | None:
    return told_usage(
        Usage(
            input=sum_of(as_count(counts.get(name)) for name in _INPUTS),
            output=as_count(counts.get("output_tokens")),
            cached=as_count(counts.get("cache_read_input_tokens")),
            reasoning=as_count(as_object(counts.get("output_tokens_details")).get("thinking_tokens")),
        )
    )


# -- in pieces --------------------------------------------------------------------------------------------------


class _Piece:
    """One content block while it comes."""

    __slots__ = ("_came", "_start", "ended")

    def __init__(self, start: Json) -> None:
        self._start = start
        self._came: dict[str, list[Any]] = {}
        self.ended = False

    def add(self, field: str, value: Any) -> None:
        self._came.setdefault(field, []).append(value)

    def is_another(self, block: Json) -> bool:
        """Whether a block that begins under the same number is not this one said again."""
        return self.ended or any(block.get(key) != self._start.get(key) for key in ("type", "id"))

    @property
    def arguments(self) -> str:
        return clean("".join(self._came.get("partial_json", ())))

    def whole(self) -> Json:
        """The block as a body would hold it."""
        item = dict(self._start)
        for field in ("text", "thinking", "signature"):
            if field in self._came:
                item[field] = clean(_string(item.get(field)) + "".join(self._came[field]))
        if "citation" in self._came:
            item["citations"] = [*(item.get("citations") or ()), *self._came["citation"]]
        if self.arguments.strip():
            item["input"] = arguments_object(self.arguments)
        return item


_Shown = Literal["text", "reasoning", "call"]
# Of each kind of block and piece: the field that holds it, and what a reader of the stream is told.
_STARTS: dict[str, tuple[str, _Shown]] = {
    "text": ("text", "text"),
    "thinking": ("thinking", "reasoning"),
    "tool_use": ("name", "call"),
}
_FIELDS: dict[str, tuple[str, _Shown | None]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "reasoning"),
    "signature_delta": ("signature", None),
    "input_json_delta": ("partial_json", None),
    "citations_delta": ("citation", None),
}


class AnthropicDecoder(Decoder):
    """Puts a streamed answer of the Messages API together.

    Args:
        asked: The model that was asked.

    Since 0.1.
    """

    def __init__(self, asked: str) -> None:
        """Wait for the first event."""
        self._asked = asked
        self._message: Json = {}
        self._usage: Json = {}
        self._pieces: dict[int, _Piece] = {}
        self._at: dict[int, int] = {}  # under which number the latest block of an index is kept
        self._ended = False
        self._torn = False  # a piece came of a block that had not begun: what it belongs to is not what was meant

    def feed(self, event: str, data: Any) -> Iterable[Delta]:
        """Take one event.

        Args:
            event: Its name; the type inside its data comes first.
            data: Its JSON, parsed.

        Returns:
            The pieces in it, often none or one.

        Raises:
            ModelError: The provider reported an error inside the stream.
        """
        found = as_object(data)
        kind = found.get("type")
        take = _EVENTS.get(kind if isinstance(kind, str) else event)
        return take(self, found) if take is not None else ()

    def finish(self) -> ModelResponse:
        """The whole answer, once the body has ended.

        Returns:
            Without `message_stop` or a reason to stop, or with a piece of a block that had not begun: finish `unknown`
            with an error, and no call complete.
        """
        pieces = dict(enumerate(piece for _, piece in sorted(self._pieces.items())))
        message = {**self._message, "usage": self._usage, "content": [piece.whole() for piece in pieces.values()]}
        if self._ended and message.get("stop_reason") and not self._torn:
            return _read(message, self._asked, pieces)
        came = _read({**message, "stop_reason": None}, self._asked, pieces)
        said = ModelMessage(came.message.text, came.message.calls, came.message.reasoning)  # not signed to its end
        return ModelResponse(said, "unknown", came.usage, came.model, error=cut(PROVIDER))

    def _start(self, data: Json) -> Iterable[Delta]:
        self._message = {**as_object(data.get("message")), "stop_reason": None}
        self._count(self._message.get("usage"))
        return ()

    def _open(self, data: Json) -> Iterable[Delta]:
        block = as_object(data.get("content_block"))
        type = _string(block.get("type"))
        if not type:
            return ()
        index = self._index(data, len(self._pieces))
        known = self._pieces.get(self._at.get(index, index))
        if known is not None and not known.is_another(block):
            return ()  # said twice
        # A server that numbers its blocks wrongly begins another one here: it comes after all that are there.
        self._at[index] = index if known is None else max(self._pieces) + 1
        self._pieces[self._at[index]] = _Piece(block)
        field, kind = _STARTS.get(type, ("", "text"))
        text = _string(block.get(field))
        return (Delta(kind, text),) if text else ()

    def _grow(self, data: Json) -> Iterable[Delta]:
        delta = as_object(data.get("delta"))
        piece = self._piece(data)
        field, kind = _FIELDS.get(_string(delta.get("type")), ("", None))
        value = delta.get(field)
        if not (isinstance(value, str) or field == "citation"):
            return ()
        if piece is None:
            self._torn |= bool(value)
            return ()
        piece.add(field, value)
        return (Delta(kind, clean(value)),) if kind and value else ()

    def _close(self, data: Json) -> Iterable[Delta]:
        piece = self._piece(data)
        if piece is not None:
            piece.ended = True
        return ()

    def _tail(self, data: Json) -> Iterable[Delta]:
        said = {k: v for k, v in as_object(data.get("delta")).items() if v is not None}
        if _FINISH.get(as_text(self._message.get("stop_reason")), "stop") not in ("stop", "tool_calls"):
            said.pop("stop_reason", None)  # once it was cut, no later word makes it whole
        self._message.update(said)
        self._count(data.get("usage"))
        return ()

    def _end(self, data: Json) -> Iterable[Delta]:
        self._ended, self.tail = True, TAIL
        return ()

    def _fail(self, data: Json) -> Iterable[Delta]:
        raise refused(None, {}, data)

    def _count(self, usage: Any) -> None:
        """Counts are totals: later ones replace earlier ones, and those left out stay."""
        self._usage.update({name: number for name, number in as_object(usage).items() if number is not None})

    def _piece(self, data: Json) -> _Piece | None:
        """The block that an event is about; the latest where it does not say."""
        index = data.get("index")
        if isinstance(index, int) and index in self._at:
            return self._pieces[self._at[index]]  # nearly every event is like this
        return self._pieces.get(max(self._pieces, default=0)) if as_count(index) is None else None

    @staticmethod
    def _index(data: Json, default: int) -> int:
        index = as_count(data.get("index"))
        return default if index is None else index


_EVENTS: dict[str, Callable[[Any, Json], Iterable[Delta]]] = {
    "message_start": AnthropicDecoder._start,  # pyright: ignore[reportPrivateUsage]
    "content_block_start": AnthropicDecoder._open,  # pyright: ignore[reportPrivateUsage]
    "content_block_delta": AnthropicDecoder._grow,  # pyright: ignore[reportPrivateUsage]
    "content_block_stop": AnthropicDecoder._close,  # pyright: ignore[reportPrivateUsage]
    "message_delta": AnthropicDecoder._tail,  # pyright: ignore[reportPrivateUsage]
    "message_stop": AnthropicDecoder._end,  # pyright: ignore[reportPrivateUsage]
    "error": AnthropicDecoder._fail,  # pyright: ignore[reportPrivateUsage]
}
