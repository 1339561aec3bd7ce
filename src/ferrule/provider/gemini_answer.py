"""What Gemini says: whole answers, streamed ones and refusals, in our terms.

A stream has no terminal sign. Only a finish reason proves that an answer is
complete; without one nothing in it is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

from ferrule.errors import ModelError
from ferrule.message import Call, Finish, ModelMessage, Raw, Usage
from ferrule.provider.base import Decoder, Delta, ModelResponse
from ferrule.strict_json import dumps

Json: TypeAlias = dict[str, Any]
API: Final = "gemini"

# -- answers ----------------------------------------------------------------------------------------------------

_FINISHES: Final[dict[str, Finish]] = {
    "STOP": "stop",
    **dict.fromkeys(("MAX_TOKENS", "CONTINUATION"), "length"),
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
            *("ESCALATION", "PUP_LIMITED_DISABLED", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        ),
        "content_filter",
    ),
    **dict.fromkeys(
        (
            *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"),
            "MISSING_THOUGHT_SIGNATURE",
        ),
        "error",
    ),
    "IMAGE_OTHER": "unknown",
}
_MISHAPS: Final = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a call that is not well-formed. Ask again",
    "MALFORMED_RESPONSE": "the model wrote an answer that is not well-formed. Ask again",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that it was not offered; the call was not run",
    "TOO_MANY_TOOL_CALLS": "the model made too many calls in a row; none of them was run",
    "MISSING_THOUGHT_SIGNATURE": "a call in the transcript lacks the signature that the model gave it",
}


class GeminiDecoder(Decoder):
    """Puts a streamed answer together; a whole answer is a stream of one event.

    Args:
        model: The model that was asked.

    Since 0.1.
    """

    def __init__(self, model: str) -> None:
        """Nothing has come yet."""
        self._asked = model
        self._parts: list[tuple[Json, list[str]]] = []  # each with the pieces of its text
        self._latest: Json = {}  # the last of each field that stands beside the candidates
        self._candidate: Json = {}  # the last of each of its fields but the content

    def feed(self, event: str, data: Any) -> Iterable[Delta]:
        """Take one event.

        Args:
            event: Its name; the API gives none.
            data: Its JSON, parsed.

        Raises:
            ModelError: It is an error, or no answer at all.
        """
        if data is None:
            return ()
        answer = _answer(data)
        first: Json = {}
        candidate = next((c for c in items_of(answer.get("candidates")) if not c.get("index")), first)
        parts = items_of(mapping(candidate.get("content")).get("parts"))
        self._latest.update(present(answer))
        self._candidate.update(present(candidate))
        for i, part in enumerate(parts):
            self._take(part, goes_on=i == 0)
        return [delta for part in parts for delta in _deltas(part)]

    def _take(self, part: Json, *, goes_on: bool) -> None:
        """Keep a part. Text that goes on with what the last event said is one part with it, unless one is signed."""
        text = part.get("text")
        pieces = [text] if isinstance(text, str) else []
        last = self._parts[-1] if goes_on and self._parts else None
        if last is not None and _is_plain(last[0]) and _is_plain(part) and _thought(last[0]) == _thought(part):
            last[1].extend(pieces)
        else:
            self._parts.append((part, pieces))

    def finish(self) -> ModelResponse:
        """The whole answer, once the body has ended; without a finish reason it was cut."""
        parts = [part if len(pieces) < 2 else {**part, "text": "".join(pieces)} for part, pieces in self._parts]
        said = [mapping(part["functionCall"]) for part in parts if "functionCall" in part]
        finish, error = self._ending(bool(said))
        whole = finish in ("stop", "tool_calls")
        message = ModelMessage(
            text="".join(texts(parts, thought=False)),
            calls=tuple(_call(one, whole) for one in said),
            reasoning="".join(texts(parts, thought=True)),
            raw=self._raw(parts),
        )
        return ModelResponse(
            message=message,
            finish=finish,
            usage=_usage(mapping(self._latest.get("usageMetadata"))),
            model=word(self._latest.get("modelVersion")) or self._asked,
            request_id=word(self._latest.get("responseId")),
            error=error,
            flagged=finish == "stop" and not message.text,
        )

    def _ending(self, called: bool) -> tuple[Finish, ModelError | None]:
        if word(mapping(self._latest.get("promptFeedback")).get("blockReason")):
            return "content_filter", None
        reason = word(self._candidate.get("finishReason"))
        if reason is None:
            cut = "the answer ended without a finish reason, so it may be incomplete; no call in it was run"
            return "unknown", ModelError(cut, provider=API, retryable=True)
        beyond: Finish = "content_filter" if reason.startswith("IMAGE_") else "unknown"
        finish = _FINISHES.get(reason, beyond)
        if finish in ("error", "unknown"):
            why = _MISHAPS.get(reason, "the model stopped for a reason that it does not tell")
            return finish, ModelError(why, provider=API, code=_code(reason), retryable=reason.startswith("MALFORMED_"))
        return ("tool_calls" if finish == "stop" and called else finish), None

    def _raw(self, parts: list[Json]) -> Raw | None:
        token = word(self._candidate.get("continuationToken"))
        kept = {"parts": parts, **({"continuationToken": token} if token else {})}
        return Raw(API, self._asked, kept) if parts or token else None


def _answer(data: Any) -> Json:
    found = single(data)
    if not isinstance(found, dict):
        raise ModelError("the answer is no JSON object", provider=API)
    answer = cast("Json", found)
    if answer.get("error"):
        error = mapping(answer["error"])
        code = error.get("code")
        raise refusal(code if isinstance(code, int) else 500, {}, error)
    return answer


def _thought(part: Json) -> bool:
    return part.get("thought") is True


def _is_plain(part: Json) -> bool:
    """Whether a part is nothing but text: no signature hangs on where it begins and ends."""
    return isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}


def texts(parts: Iterable[Json], *, thought: bool) -> Iterator[str]:
    """The texts among parts: of the answer, or of the thinking before it.

    Args:
        parts: Parts as Gemini gives them.
        thought: Which of the two.

    Since 0.1.
    """
    for part in parts:
        if isinstance(text := part.get("text"), str) and _thought(part) is thought:
            yield text


def _deltas(part: Json) -> Iterator[Delta]:
    if "functionCall" in part:
        yield Delta("call", word(mapping(part["functionCall"]).get("name")) or "")
    elif text := word(part.get("text")):
        yield Delta("reasoning" if _thought(part) else "text", text)


def _call(said: Json, whole: bool) -> Call:
    """A call; one that came in pieces, as other hosts of this API send it, has no arguments to trust."""
    return Call(
        id="",
        name=word(said.get("name")) or "",
        arguments=dumps(said["args"] if said.get("args") is not None else {}).decode(),
        wire_id=word(said.get("id")),
        complete=whole and not said.get("willContinue") and not said.get("partialArgs"),
    )


_COUNTS: Final[dict[Literal["input", "output", "cached", "reasoning"], tuple[str, ...]]] = {
    "input": ("promptTokenCount", "toolUsePromptTokenCount"),
    "output": ("candidatesTokenCount", "thoughtsTokenCount"),
    "cached": ("cachedContentTokenCount",),
    "reasoning": ("thoughtsTokenCount",),
}


def _usage(counts: Json) -> Usage | None:
    if not counts:
        return None
    found = {ours: [n for key in keys if isinstance(n := counts.get(key), int)] for ours, keys in _COUNTS.items()}
    return Usage(**{ours: sum(numbers) for ours, numbers in found.items() if numbers})


# -- refusals ---------------------------------------------------------------------------------------------------

_RETRYABLE: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_REASONS: Final = {
    400: "the request was refused. It must be changed",
    401: "the API key was refused. Check it",
    402: "the account has to be paid for",
    403: "the API key may not do this. Check the key and its rights",
    404: "there is no such model or address. Check the model's name and the base URL",
    408: "the request took too long",
    413: "the request is too large. Send smaller media, or less of it",
    429: "too many requests. Wait, or ask for a higher quota",
    504: "the answer took too long",
}
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}", re.ASCII)
# A path into the request: numbers, our own field names and names from a schema, never a value.
_PLACE: Final = re.compile(
    r"\b(?:(?:contents|tools)\[\d{1,6}\]|(?:tool_config|system_instruction|generation_config)\b)"
    r"(?:\[\w{1,64}\]|\.[A-Za-z_]\w{0,63}){0,12}",
    re.ASCII,
)
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s?", re.ASCII)


def refusal(status: int, headers: Mapping[str, str], error: Json) -> ModelError:
    """The error that a refusal is.

    Args:
        status: The HTTP status, or the code of an error inside a stream.
        headers: The response headers, in lower case.
        error: What stands under `error`.

    Since 0.1.
    """
    details = items_of(error.get("details"))
    spent = status == 429 and any(_is_per_day(detail) for detail in details)
    reason = _REASONS.get(status, "the server failed" if status >= 500 else "the request was refused")
    if spent:
        reason = "the quota of the day is used up"
    return ModelError(
        reason + _why(error, details),
        provider=API,
        status=status,
        code=_code(error.get("status")),
        retryable=status in _RETRYABLE and not spent,
        retry_after=_wait(headers, details),
    )


def _why(error: Json, details: list[Json]) -> str:
    """The provider's short words for the cause, and the places in the request that it names; never its sentences."""
    words = [reason for detail in details if (reason := _code(detail.get("reason")))]
    places = list(dict.fromkeys(_PLACE.findall(word(error.get("message")) or "")))[:3]
    return (f" ({', '.join(words[:3])})" if words else "") + (f", at {', '.join(places)}" if places else "")


def _code(value: Any) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def _is_per_day(detail: Json) -> bool:
    violations = items_of(detail.get("violations"))
    return _kind(detail) == "QuotaFailure" and any("PerDay" in str(v.get("quotaId")) for v in violations)


def _kind(detail: Json) -> str:
    return str(detail.get("@type")).rpartition("google.rpc.")[2]


def _wait(headers: Mapping[str, str], details: list[Json]) -> float | None:
    """Seconds to wait: by a header, else by the hint among the details, which is where Gemini puts it."""
    hints = [detail.get("retryDelay") for detail in details if _kind(detail) == "RetryInfo"]
    millis = _seconds(headers.get("retry-after-ms"))
    found = [None if millis is None else millis / 1_000, *map(_seconds, (headers.get("retry-after"), *hints))]
    return next((seconds for seconds in found if seconds is not None), None)


def _seconds(text: Any) -> float | None:
    match = _SECONDS.fullmatch(text.strip()) if isinstance(text, str) else None
    return float(match[1]) if match else None


# -- JSON of others ---------------------------------------------------------------------------------------------


def single(data: Any) -> Any:
    """A body that on some paths is wrapped in a list of one.

    Args:
        data: The body.

    Since 0.1.
    """
    items = _list(data)
    return items[0] if items else data


def mapping(value: Any) -> Json:
    """An object; empty for anything else.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return cast("Json", value) if isinstance(value, dict) else {}


def items_of(value: Any) -> list[Json]:
    """The objects in a list; none for anything else.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return [cast("Json", item) for item in _list(value) if isinstance(item, dict)]


def word(value: Any) -> str | None:
    """A text that is not empty; None for anything else.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return value if isinstance(value, str) and value else None


def present(fields: Json) -> Json:
    """An object without its nulls.

    Args:
        fields: The object.

    Since 0.1.
    """
    return {key: value for key, value in fields.items() if value is not None}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
