"""What an OpenAI Responses answer says: its items in our terms, whole or from a stream.

Servers that copy the API leave things out and add others. So nothing here
trusts a shape: what is not of its kind counts as absent, and a call counts as
whole only when its item says so in an answer that says it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from ferrule.errors import ModelError
from ferrule.message import Call, Finish, ModelMessage, Raw, Usage
from ferrule.provider.base import TAIL, Decoder, Delta, ModelResponse, cut
from ferrule.provider.foreign import (
    Json,
    arguments_text,
    as_count,
    as_object,
    as_objects,
    as_text,
    is_whole,
    told_usage,
)
from ferrule.provider.openai_error import read_error
from ferrule.provider.refusal import model_error


def is_call(item: Json) -> bool:
    """Whether an item asks for a tool of ours.

    Args:
        item: An output item.

    Since 0.1.
    """
    return item.get("type") == "function_call"


def is_unchanged(message: ModelMessage, items: list[Json]) -> bool:
    """Whether a message still says what these items say: after a hook has changed it, its text and calls count.

    Args:
        message: What the model said.
        items: The items that it came in.

    Since 0.1.
    """
    read = _read(items)
    names = [as_text(item.get("name")) for item in read.calls]
    return read.text == message.text and names == [call.name for call in message.calls]


# -- the answer -------------------------------------------------------------------------------------------------

_INCOMPLETE: dict[str, Finish] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_FAILED: dict[str, Finish] = {"failed": "error", "cancelled": "error"}
_PASSING = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout", "server_is_overloaded"})


class _Read(NamedTuple):
    text: str
    reasoning: str
    refused: bool
    calls: list[Json]


def read_answer(api: str, model: str, data: Json, items: list[Json], *, whole: bool = True) -> ModelResponse:
    """An answer in our terms.

    Args:
        api: Name of the API.
        model: The model that was asked.
        data: The response object.
        items: Its output.
        whole: Whether the items are all as the API finished them; others are not sent back.

    Since 0.1.
    """
    read = _read(items)
    finish = _finish(data, read)
    error = _problem(api, data) if finish in ("error", "unknown") else None
    speaker = as_text(data.get("model")) or model
    message = ModelMessage(
        read.text,
        tuple(_call(item, whole=finish == "tool_calls") for item in read.calls),
        read.reasoning,
        Raw(api, speaker, items) if items and whole and error is None else None,
    )
    silent = finish == "stop" and not read.text.strip()
    return ModelResponse(message, finish, _usage(data.get("usage")), speaker, error=error, flagged=silent)


def _read(items: list[Json]) -> _Read:
    messages = [item for item in items if item.get("type") == "message"]
    # What is said on the way to a final answer is no part of it: the answer may have to be JSON.
    final = any(item.get("phase") == "final_answer" for item in messages)
    aside: list[Json] = []
    spoken: list[Json] = []
    for item in messages:
        (aside if final and item.get("phase") == "commentary" else spoken).append(item)
    thoughts = map(_thought, (item for item in items if item.get("type") == "reasoning"))
    return _Read(
        _paragraphs(map(_message_text, spoken)),
        _paragraphs([*thoughts, *map(_message_text, aside)]),
        any(part.get("type") == "refusal" for item in messages for part in as_objects(item.get("content"))),
        [item for item in items if is_call(item)],
    )


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _message_text(item: Json) -> str:
    parts = as_objects(item.get("content"))
    said = ("".join(as_text(part.get(key)) for part in parts) for key in ("text", "refusal"))
    return "\n".join(filter(None, said))


def _thought(item: Json) -> str:
    """Reasoning for people: the summary, or the text itself of servers that show it."""
    for key in ("summary", "content"):
        found = _paragraphs(as_text(part.get("text")) for part in as_objects(item.get(key)))
        if found:
            return found
    return ""


def _call(item: Json, *, whole: bool) -> Call:
    name, arguments = as_text(item.get("name")), arguments_text(item.get("arguments"))
    complete = whole and item.get("status") == "completed" and is_whole(name, arguments)
    return Call("", name, arguments, as_text(item.get("call_id")) or None, complete)


def _finish(data: Json, read: _Read) -> Finish:
    status = as_text(data.get("status"))
    if status == "completed":
        return "refusal" if read.refused else "tool_calls" if read.calls else "stop"
    if status == "incomplete":
        return _INCOMPLETE.get(as_text(as_object(data.get("incomplete_details")).get("reason")), "unknown")
    return _FAILED.get(status, "unknown")


def _problem(api: str, data: Json) -> ModelError:
    """Why an answer of status failed, cancelled or none that is final cannot be used."""
    if as_object(data.get("error")):
        return reported(api, data)
    status = as_text(data.get("status"))[:40] or "missing"
    why = as_text(as_object(data.get("incomplete_details")).get("reason"))[:40]
    return ModelError(f"the answer's status is {status}{f' ({why})' if why else ''}", provider=api)


def reported(api: str, data: Json) -> ModelError:
    """An error inside an answer, which has no HTTP status: its code tells whether to ask again.

    Args:
        api: Name of the API.
        data: A response object or an event that holds an error.

    Since 0.1.
    """
    said = read_error(data)
    return model_error(api, None, {}, said._replace(again=True) if said.code in _PASSING else said)


def _usage(data: Any) -> Usage | None:
    found = as_object(data)
    return told_usage(
        Usage(
            as_count(found.get("input_tokens")),
            as_count(found.get("output_tokens")),
            as_count(as_object(found.get("input_tokens_details")).get("cached_tokens")),
            as_count(as_object(found.get("output_tokens_details")).get("reasoning_tokens")),
        )
    )


# -- the stream -------------------------------------------------------------------------------------------------

Place: TypeAlias = int | str
_PARTIAL: dict[str, Callable[[str], Json]] = {
    "function_call": lambda text: {"arguments": text},
    "message": lambda text: {"content": [{"type": "output_text", "text": text}]},
    "reasoning": lambda text: {"summary": [{"type": "summary_text", "text": text}]},
}


class ResponsesDecoder(Decoder):
    """Keeps the items that are done, and of those that are not the pieces so far.

    Args:
        api: Name of the API.
        model: The model that was asked.

    Since 0.1.
    """

    def __init__(self, api: str, model: str) -> None:
        """Begin with nothing."""
        self._api = api
        self._model = model
        self._opened: dict[Place, Json] = {}
        self._pieces: dict[Place, list[str]] = {}
        self._done: dict[Place, Json] = {}
        self._last: dict[str, tuple[Place, Any]] = {}
        self._ids: dict[tuple[Place, str], Place] = {}  # where the item of an index and an id is kept
        self._at: dict[Place, Place] = {}  # where the latest item of an index is kept
        self._final: Json | None = None

    def feed(self, event: str, data: Any) -> Iterable[Delta]:
        """Take one event; those that are not known say nothing.

        Args:
            event: Its name; the type inside wins.
            data: Its JSON, parsed.

        Raises:
            ModelError: The provider reported an error.
        """
        found = as_object(data)
        take = self._EVENTS.get(as_text(found.get("type")) or ("error" if found.get("error") else event))
        return take(self, found) if take else ()

    def finish(self) -> ModelResponse:
        """The whole answer, or as much of one as came."""
        if self._final is None:
            read = _read(self._items())
            message = ModelMessage(read.text, tuple(_call(item, whole=False) for item in read.calls), read.reasoning)
            return ModelResponse(message, "unknown", None, self._model, error=cut(self._api))
        listed, unfinished = as_objects(self._final.get("output")), self._opened.keys() - self._done.keys()
        if listed and (unfinished or len(listed) > len(self._done)):
            return read_answer(self._api, self._model, self._final, listed)
        return read_answer(self._api, self._model, self._final, self._items(), whole=not unfinished)

    def _items(self) -> list[Json]:
        """The items: as each was done, else as far as it came."""
        items = {place: self._done.get(place) or self._partial(place) for place in self._opened}
        return [items[place] for place in sorted(items, key=lambda place: place if isinstance(place, int) else 0)]

    def _partial(self, place: Place) -> Json:
        item, pieces = self._opened[place], self._pieces.get(place)
        fill = _PARTIAL.get(as_text(item.get("type")))
        # Whatever its beginning said of it, an item that did not end is not complete.
        return {**item, **(fill("".join(pieces)) if fill and pieces else {}), "status": "incomplete"}

    def _begin(self, data: Json) -> Iterable[Delta]:
        self._model = as_text(as_object(data.get("response")).get("model")) or self._model
        return ()

    def _add(self, data: Json) -> Iterable[Delta]:
        item = as_object(data.get("item"))
        place = self._place(data, item)
        known = place in self._opened
        self._opened[place] = item
        return () if known or not is_call(item) else (Delta("call", as_text(item.get("name"))),)

    def _end(self, data: Json) -> Iterable[Delta]:
        """An item is whole. What its server did not send in pieces is told now."""
        item = as_object(data.get("item"))
        place = self._place(data, item)
        started = self._add(data)
        self._done[place] = item
        if place in self._pieces or is_call(item):
            return started
        if item.get("type") == "reasoning":
            return self._tell("reasoning", place, None, _thought(item))
        return self._tell("text", place, None, _message_text(item)) if item.get("type") == "message" else ()

    def _text(self, data: Json) -> Iterable[Delta]:
        place = self._place(data)
        self._opened.setdefault(place, {"type": "message", "role": "assistant"})
        return self._tell("text", place, None, as_text(data.get("delta")))

    def _think(self, data: Json) -> Iterable[Delta]:
        part = data.get("summary_index", data.get("content_index"))
        return self._tell("reasoning", self._place(data), part, as_text(data.get("delta")))

    def _tell(self, kind: Literal["text", "reasoning"], place: Place, part: Any, piece: str) -> Iterable[Delta]:
        """One piece, set off from what came before where it begins another paragraph."""
        if not piece:
            return ()
        last = self._last.get(kind, (place, part))
        self._last[kind] = (place, part)
        told = piece if last == (place, part) else f"\n\n{piece}"
        self._pieces.setdefault(place, []).append(told if last[0] == place else piece)
        return (Delta(kind, told),)

    def _argue(self, data: Json) -> Iterable[Delta]:
        self._pieces.setdefault(self._place(data), []).append(as_text(data.get("delta")))
        return ()

    def _argued(self, data: Json) -> Iterable[Delta]:
        self._pieces[self._place(data)] = [as_text(data.get("arguments"))]
        return ()

    def _close(self, data: Json) -> Iterable[Delta]:
        if self._final is not None and self._final.get("status") != "completed":
            return ()  # once it was cut, no later word makes it whole
        response = as_object(data.get("response"))
        word = as_text(data.get("type")).rpartition(".")[2]
        self._final = response if as_text(response.get("status")) else {**response, "status": word}
        self.tail = TAIL
        return ()

    def _fail(self, data: Json) -> Iterable[Delta]:
        raise reported(self._api, data)

    def _place(self, data: Json, item: Json | None = None) -> Place:
        """Which item an event is about: by its index in the output, or by its id where a server sends no index.

        Some give one index to several items. The first event of another item begins a place of its own there, and
        the id tells which of them is meant.
        """
        given, at = data.get("output_index"), data.get("item_id")
        if item is None and isinstance(given, int) and isinstance(at, str) and (given, at) in self._ids:
            return self._ids[given, at]  # nearly every event is like this
        id, index = as_text(at) or as_text((item or {}).get("id")), as_count(given)
        key: Place = id if index is None else index
        place = self._ids.get((key, id), self._at.get(key, key))
        if item is not None and _is_another(self._opened.get(place, item), item):
            called = as_text(item.get("call_id"))
            free = 1 + max((p for p in self._opened if isinstance(p, int)), default=0)
            same = (p for p, known in self._opened.items() if called and known.get("call_id") == called)
            place = self._at[key] = next(same, free)
        self._ids[key, id] = place
        return place

    _EVENTS: ClassVar[dict[str, Callable[[ResponsesDecoder, Json], Iterable[Delta]]]] = {
        "response.created": _begin,
        "response.in_progress": _begin,
        "response.output_item.added": _add,
        "response.output_item.done": _end,
        "response.output_text.delta": _text,
        "response.refusal.delta": _text,
        "response.reasoning_summary_text.delta": _think,
        "response.reasoning_text.delta": _think,
        "response.function_call_arguments.delta": _argue,
        "response.function_call_arguments.done": _argued,
        "response.completed": _close,
        "response.incomplete": _close,
        "response.failed": _close,
        "error": _fail,
    }


def _is_another(known: Json, item: Json) -> bool:
    """Whether two items that a server gives one place are not the same."""
    return any(known.get(key) != item[key] for key in ("type", "call_id") if known.get(key) and item.get(key))
