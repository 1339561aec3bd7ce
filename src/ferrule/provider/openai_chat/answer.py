"""What a Chat Completions server answers, whole or in pieces, as one of our responses.

A whole answer and a streamed one are collected in the same `_Collected`, so
that the two ways cannot come to differ. What cannot be rebuilt from text and
calls (reasoning with its signatures, lists in place of text) is kept as it
came, to be sent back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ferrule.errors import ModelError
from ferrule.message import Call, Finish, ModelMessage, Raw, Usage
from ferrule.provider.base import TAIL, Decoder, Delta, ModelResponse, cut
from ferrule.provider.foreign import (
    Json,
    arguments_text,
    as_amount,
    as_count,
    as_object,
    as_objects,
    as_text,
    is_whole,
    told_usage,
)
from ferrule.provider.openai_chat.refused import refused_call
from ferrule.provider.openai_error import read_error
from ferrule.provider.refusal import Said, model_error
from ferrule.strict_json import clean

_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "error": "error",
}
_WHOLE: frozenset[Finish] = frozenset({"stop", "tool_calls"})
_RAN_OUT: frozenset[Finish] = frozenset({"error", "unknown"})  # not an answer, so nothing of it is sent back
_STRINGS = ("reasoning_content", "reasoning", "refusal")  # keys of a message that grow from piece to piece
_KEPT: Final = (*_STRINGS, "reasoning_details", "extra_content")
_PLAIN = frozenset({"role", "content", "tool_calls"})
_OF_CALL = frozenset({"id", "index", "type", "function"})
_JOINED = ("text", "summary", "data")  # keys of a reasoning item that grow

# -- calls in pieces --------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Pieces:
    """One call, as far as it has come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: Json = field(default_factory=dict[str, Any])

    def add(self, entry: Json) -> str:
        """Take a piece; returns the name when this piece made it known."""
        function = as_object(entry.get("function"))
        named = "" if self.name else as_text(function.get("name"))
        self.id, self.name = self.id or as_text(entry.get("id")), self.name or named
        piece = function.get("arguments")
        if piece is not None:
            self.arguments.append(piece if isinstance(piece, str) else arguments_text(piece))
        if not _OF_CALL.issuperset(entry):
            self.extra.update((k, v) for k, v in entry.items() if k not in _OF_CALL and v is not None)
        return named


class _Calls:
    """Puts calls together from pieces that servers number in their own ways, or not at all."""

    def __init__(self) -> None:
        self.all: list[_Pieces] = []
        self._by_id: dict[str, _Pieces] = {}
        self._by_index: dict[int, _Pieces] = {}
        self._latest: _Pieces | None = None

    def add(self, entry: Json) -> str:
        """Take one piece of a stream; returns the call's name when this piece made it known."""
        call = self._meant(entry)
        if call is None:
            call = self.open(entry)
        named = call.add(entry)
        if call.id:
            self._by_id[call.id] = call
        self._latest = call
        return named

    def open(self, entry: Json) -> _Pieces:
        call = _Pieces()
        self.all.append(call)
        index = entry.get("index")
        if isinstance(index, int):
            self._by_index[index] = call
        return call

    def _meant(self, entry: Json) -> _Pieces | None:
        """The call that a piece goes on with; None when it begins one."""
        id, name = as_text(entry.get("id")), as_text(as_object(entry.get("function")).get("name"))
        index = entry.get("index")
        numbered = self._by_index.get(index) if isinstance(index, int) else None
        if id:
            # An index may know its call before the id comes, but never one that has another id.
            call = self._by_id.get(id) or (numbered if numbered is not None and not numbered.id else None)
        elif isinstance(index, int):
            call = numbered
        else:
            call = None if name else self._latest
        return None if call is not None and name and call.name and name != call.name else call


# -- pieces of what is sent back --------------------------------------------------------------------------------


def _merge_details(known: list[Json], piece: Json) -> None:
    """Add a piece of `reasoning_details` to the item that it belongs to."""
    index = piece.get("index")
    same = [item for item in known if _same_item(item, piece)]
    if not same or (index is None and (same[-1] is not known[-1] or "data" in piece)):
        known.append(dict(piece))
        return
    item = same[-1]
    for key, value in piece.items():
        if key in _JOINED and isinstance(value, str) and isinstance(item.get(key), str):
            item[key] += value
        elif value is not None:
            item[key] = value


def _same_item(item: Json, piece: Json) -> bool:
    if any(item.get(key) != piece.get(key) for key in ("type", "index")):
        return False
    return item.get("id") is None or piece.get("id") in (None, item["id"])


def _merge_content(known: list[Json], piece: Json) -> None:
    """Add a piece of a content list: text to text, thinking to thinking."""
    kind = piece.get("type")
    if not known or known[-1].get("type") != kind or kind not in ("text", "thinking"):
        thoughts = (
            {"thinking": [dict(item) for item in as_objects(piece.get("thinking"))]} if kind == "thinking" else {}
        )
        known.append({**piece, **thoughts})
        return
    last = known[-1]
    if kind == "text":
        last["text"] = as_text(last.get("text")) + as_text(piece.get("text"))
        return
    for item in as_objects(piece.get("thinking")):
        _merge_content(last["thinking"], item)
    last.update((k, v) for k, v in piece.items() if k != "thinking" and v is not None)


def _text_of(content: Any) -> str:
    if not isinstance(content, list):
        return as_text(content)
    return "".join(as_text(c.get("text")) for c in as_objects(cast("Any", content)) if c.get("type") == "text")


def is_unchanged(text: str, kept: Json) -> bool:
    """Whether the text of a message is what its kept content says: after a hook has changed it, the text counts.

    Args:
        text: The text.
        kept: What is kept of the message as it came; it has its content only where the text alone would not do.

    Since 0.1.
    """
    if "content" not in kept:
        return True
    return text == "\n".join(filter(None, (clean(_text_of(kept["content"])), as_text(kept.get("refusal")))))


def _reasoning_of(message: Json) -> str:
    """Readable reasoning; one place only, since some servers say it in two."""
    found = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    if found:
        return found
    details = "".join(as_text(d.get("text") or d.get("summary")) for d in as_objects(message.get("reasoning_details")))
    if details or not isinstance(message.get("content"), list):
        return details
    thoughts = (c for c in as_objects(message["content"]) if c.get("type") == "thinking")
    return "".join(_text_of(t.get("thinking")) for t in thoughts)


# -- the answer -------------------------------------------------------------------------------------------------


class _Collected:
    """An answer, as far as it has come."""

    def __init__(self, api: str, model: str) -> None:
        self.api, self.model, self.answered_by = api, model, ""
        self.id: str | None = None
        self.word: str | None = None
        self.usage: Usage | None = None
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.grown: dict[str, list[str]] = {}
        self.opaque: Json = {}
        self.content: list[Json] | None = None
        self.calls = _Calls()

    def head(self, data: Json) -> None:
        """What is said of the answer as a whole, wherever it comes."""
        self.answered_by = as_text(data.get("model")) or self.answered_by
        self.id = self.id or as_text(data.get("id")) or None
        usage = data.get("usage")
        if "x_groq" in data:
            groq = as_object(data["x_groq"])
            self.id, usage = as_text(groq.get("id")) or self.id, usage or groq.get("usage")
        if usage:
            self.usage = read_usage(as_object(usage)) or self.usage

    def ends(self, choice: Json) -> None:
        word = as_text(choice.get("finish_reason"))
        if word and _FINISHES.get(self.word or "", "stop") in _WHOLE:  # once it was cut, no later word makes it whole
            self.word = word

    # a whole message

    def take(self, message: Json) -> None:
        """Take a whole message."""
        content = message.get("content")
        self.text.append(_text_of(content))
        self.reasoning.append(_reasoning_of(message))
        self.content = list(as_objects(cast("Any", content))) if isinstance(content, list) else None
        self.opaque = {k: message[k] for k in _KEPT if message.get(k)}
        for entry in as_objects(message.get("tool_calls")):
            self.calls.open(entry).add(entry)

    # a piece of one

    def grow(self, delta: Json) -> list[Delta]:
        """Take a piece of a message."""
        content: Any = delta.get("content")
        if self.content is None and not isinstance(content, list) and _PLAIN.issuperset(delta):
            found = self._say(as_text(content))  # nearly every piece is like this
        else:
            self._keep(delta)
            reasoning = _reasoning_of(delta)
            self.reasoning.append(reasoning)
            found = [Delta("reasoning", reasoning)] if reasoning else []
            found += self._say(_text_of(content), as_text(delta.get("refusal")))
        if "tool_calls" in delta:
            named = (self.calls.add(entry) for entry in as_objects(delta["tool_calls"]))
            found.extend(Delta("call", name) for name in named if name)
        return found

    def _say(self, text: str, refusal: str = "") -> list[Delta]:
        self.text.append(text)
        return [Delta("text", text + refusal)] if text or refusal else []

    def _keep(self, delta: Json) -> None:
        for key in _STRINGS:
            if as_text(delta.get(key)):
                self.grown.setdefault(key, []).append(delta[key])
        for item in as_objects(delta.get("reasoning_details")):
            _merge_details(self.opaque.setdefault("reasoning_details", []), item)
        self.opaque.setdefault("extra_content", {}).update(as_object(delta.get("extra_content")))
        self._keep_content(delta.get("content"))

    def _keep_content(self, content: Any) -> None:
        listed = isinstance(content, list)
        if self.content is None and listed:
            so_far = "".join(self.text)
            self.content = [{"type": "text", "text": so_far}] if so_far else []
        if self.content is not None and content:
            items: Iterable[Json] = as_objects(cast("Any", content)) if listed else [{"type": "text", "text": content}]
            for item in items:
                _merge_content(self.content, item)

    # the end

    def said(self) -> str:
        """The text so far."""
        return clean("".join(self.text))

    def made_calls(self, finish: Finish) -> tuple[Call, ...]:
        """The calls. One is complete when nothing says that it was cut."""
        found: list[Call] = []
        ids: set[str] = set()
        for call in self.calls.all:
            arguments = arguments_text("".join(call.arguments))
            own = call.id if call.id and call.id not in ids else None
            ids.add(call.id)
            complete = finish == "tool_calls" and is_whole(call.name, arguments)
            found.append(Call("", clean(call.name), arguments, own, complete))
        return tuple(found)

    def finish(self, *, ended: bool = True) -> ModelResponse:
        """The response."""
        self.opaque.update((key, clean("".join(pieces))) for key, pieces in self.grown.items())
        text, refusal = self.said(), as_text(self.opaque.get("refusal"))
        finish = self._finish(refusal) if ended else "unknown"
        calls = self.made_calls(finish)
        message = ModelMessage(
            "\n".join(filter(None, (text, refusal))),
            calls,
            clean("".join(self.reasoning)),
            self._raw(calls) if finish not in _RAN_OUT else None,
        )
        flagged = finish == "stop" and (self.word == "tool_calls" or not text.strip())
        error = cut(self.api) if not ended else self._error(finish) if finish in _RAN_OUT else None
        model = self.answered_by or self.model
        return ModelResponse(message, finish, self.usage, model, self.id, error, flagged)

    def _finish(self, refusal: str) -> Finish:
        finish = _FINISHES.get(self.word or "", "unknown")
        if finish not in ("stop", "tool_calls"):
            return finish
        # By what is there, not by the word: servers say "stop" beside calls, and "tool_calls" without any.
        return "refusal" if refusal else "tool_calls" if self.calls.all else "stop"

    def _error(self, finish: Finish) -> ModelError:
        word = (self.word or "")[:40]
        reason = "the server failed while it answered" if finish == "error" else "the answer ended for no known reason"
        return ModelError(reason, provider=self.api, code=word or None, retryable=finish == "error")

    def _raw(self, calls: tuple[Call, ...]) -> Raw | None:
        """What text and calls do not say, under the keys of the message; None when there is no such thing."""
        items = {key: value for key, value in self.opaque.items() if value}
        if self.content is not None:
            items["content"] = self.content
        elif "refusal" in items:
            items["content"] = self.said() or None  # the text of the message has the refusal too
        extras = [call.extra for call in self.calls.all]
        if any(extras) and len(extras) == len(calls):
            items["tool_calls"] = extras
        return Raw(self.api, self.model, items) if items else None


# -- usage ------------------------------------------------------------------------------------------------------

_COUNTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "input": (("prompt_tokens",),),
    "output": (("completion_tokens",),),
    "cached": (("prompt_tokens_details", "cached_tokens"), ("num_cached_tokens",), ("prompt_cache_hit_tokens",)),
    "reasoning": (("completion_tokens_details", "reasoning_tokens"),),
}


def read_usage(usage: Mapping[str, Any]) -> Usage | None:
    """What an answer consumed, as far as the server says.

    Args:
        usage: The `usage` object.

    Since 0.1.
    """
    known = {name: _first_count(usage, paths) for name, paths in _COUNTS.items()}
    cost = as_amount(usage.get("cost"))
    return told_usage(Usage(known["input"], known["output"], known["cached"], known["reasoning"], cost))


def _first_count(usage: Mapping[str, Any], paths: Iterable[tuple[str, ...]]) -> int | None:
    return next((count for path in paths if (count := _count(usage, path)) is not None), None)


def _count(usage: Mapping[str, Any], path: tuple[str, ...]) -> int | None:
    found: Any = usage
    for key in path:
        found = as_object(found).get(key)
    return as_count(found)


# -- the two ways -----------------------------------------------------------------------------------------------


def _is_error(data: Json) -> bool:
    return bool(data.get("error")) or data.get("object") == "error"


def _choice(data: Json) -> Json | None:
    """The candidate that counts: we ask for one only."""
    choices: object = data.get("choices")
    for choice in cast("list[Any]", choices) if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not cast("Json", choice).get("index"):
            return cast("Json", choice)
    return None


def whole_answer(api: str, data: Any, model: str) -> ModelResponse:
    """The answer in a response body.

    Args:
        api: Name of the API.
        data: The body.
        model: The model that was asked.

    Raises:
        ModelError: It is no answer.

    Since 0.1.
    """
    body = as_object(data)
    choice = _choice(body) or {}
    failed = body if _is_error(body) else choice if _is_error(choice) else None
    if failed is not None:
        said = read_error(failed)
        refused = refused_call(model, said)
        if refused is None:
            raise model_error(api, None, {}, said)
        return refused
    if not isinstance(choice.get("message"), dict):
        raise ModelError("the answer has no message in it. Check the base URL", provider=api)
    answer = _Collected(api, model)
    answer.head(body)
    answer.ends(choice)
    answer.take(as_object(choice["message"]))
    return answer.finish()


class ChatDecoder(Decoder):
    """Puts the chunks of one streamed answer together.

    Args:
        api: Name of the API.
        model: The model that was asked.

    Since 0.1.
    """

    def __init__(self, api: str, model: str) -> None:
        """Begin with nothing."""
        self._answer = _Collected(api, model)
        self._refused: ModelResponse | None = None
        self._done = False

    def feed(self, event: str, data: Any) -> Iterable[Delta]:
        """Take one chunk.

        Args:
            event: Its name.
            data: Its JSON; None for `[DONE]`.

        Raises:
            ModelError: The server reports an error.
        """
        if data is None:
            self._done, self.tail = True, TAIL
            return ()
        if self._refused is not None or self._done:
            return ()
        chunk = as_object(data)
        if event == "error" or _is_error(chunk):
            return self._fail(read_error(data))
        self._answer.head(chunk)
        choice = _choice(chunk)
        if choice is None:
            return ()
        if _is_error(choice):
            return self._fail(read_error(choice))
        self._answer.ends(choice)
        return self._answer.grow(as_object(choice.get("delta")))

    def _fail(self, said: Said) -> Iterable[Delta]:
        answer = self._answer
        self._refused = refused_call(answer.model, said, answer.said(), answer.made_calls("tool_calls"))
        if self._refused is None:
            raise model_error(answer.api, None, {}, said)
        self.tail = TAIL
        return ()

    def finish(self) -> ModelResponse:
        """The answer. It is whole when its reason to end and the word `[DONE]` have both come."""
        if self._refused is not None:
            return self._refused
        return self._answer.finish(ended=self._done and self._answer.word is not None)
