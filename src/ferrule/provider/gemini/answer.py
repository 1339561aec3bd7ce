"""What Gemini says: whole answers, streamed ones and refusals, in our terms.

A stream has no terminal sign. Only a finish reason proves that an answer is
complete; without one nothing in it is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from ferrule.errors import ModelError
from ferrule.message import Call, Finish, ModelMessage, Raw, Usage
from ferrule.provider.base import Decoder, Delta, ModelResponse, cut
from ferrule.provider.body import present
from ferrule.provider.foreign import (
    Json,
    arguments_text,
    as_count,
    as_object,
    as_objects,
    as_one,
    as_text,
    is_whole,
    sum_of,
    told_usage,
)
from ferrule.provider.refusal import Said, model_error

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
_TAIL: Final = 5.0  # nothing tells the last event from others: there were servers that gave each one a finish reason
_CUT: Final = _FINISHES.keys() - {"STOP"}
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
        candidate = next((c for c in as_objects(answer.get("candidates")) if not c.get("index")), first)
        parts = as_objects(as_object(candidate.get("content")).get("parts"))
        self._latest.update(present(answer))
        said = present(candidate)
        if as_text(self._candidate.get("finishReason")) in _CUT:
            said.pop("finishReason", None)  # once it was cut, no later word makes it whole
        self._candidate.update(said)
        if ("finishReason" in said or "promptFeedback" in answer) and self._word():
            self.tail = _TAIL
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
        said = [as_object(part["functionCall"]) for part in parts if "functionCall" in part]
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
            usage=_usage(as_object(self._latest.get("usageMetadata"))),
            model=as_text(self._latest.get("modelVersion")) or self._asked,
            request_id=as_text(self._latest.get("responseId")) or None,
            error=error,
            paused=bool(self._candidate.get("continuationToken")) and finish == "length" and not said,
            flagged=finish == "stop" and not message.text.strip(),
        )

    def _word(self) -> str:
        """Why the answer ended, as far as anything says that it has."""
        blocked = as_text(as_object(self._latest.get("promptFeedback")).get("blockReason"))
        return blocked or as_text(self._candidate.get("finishReason"))

    def _ending(self, called: bool) -> tuple[Finish, ModelError | None]:
        if as_text(as_object(self._latest.get("promptFeedback")).get("blockReason")):
            return "content_filter", None
        word = as_text(self._candidate.get("finishReason"))
        if not word:
            return "unknown", cut(API)
        beyond: Finish = "content_filter" if word.startswith("IMAGE_") else "unknown"
        finish = _FINISHES.get(word, beyond)
        if finish in ("error", "unknown"):
            why = _MISHAPS.get(word, "the answer ended for no known reason")
            return finish, ModelError(why, provider=API, code=_code(word), retryable=word.startswith("MALFORMED_"))
        return ("tool_calls" if finish == "stop" and called else finish), None

    def _raw(self, parts: list[Json]) -> Raw | None:
        token = as_text(self._candidate.get("continuationToken"))
        kept = {"parts": parts, **({"continuationToken": token} if token else {})}
        return Raw(API, self._asked, kept) if parts or token else None


def _answer(data: Any) -> Json:
    found = as_one(data)
    if not isinstance(found, dict):
        raise ModelError("the answer is no JSON object. Check the base URL", provider=API)
    answer = cast("Json", found)
    if answer.get("error"):
        code = as_object(answer["error"]).get("code")
        raise refused(code if isinstance(code, int) else 500, {}, answer)
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
        yield Delta("call", as_text(as_object(part["functionCall"]).get("name")))
    elif text := as_text(part.get("text")):
        yield Delta("reasoning" if _thought(part) else "text", text)


def _call(said: Json, whole: bool) -> Call:
    """A call; one that came in pieces, as other hosts of this API send it, has no arguments to trust."""
    name, arguments = as_text(said.get("name")), arguments_text(said.get("args"))
    pieces = said.get("willContinue") or said.get("partialArgs")
    return Call(
        "", name, arguments, as_text(said.get("id")) or None, whole and not pieces and is_whole(name, arguments)
    )


def _usage(counts: Json) -> Usage | None:
    def total(*keys: str) -> int | None:
        return sum_of(as_count(counts.get(key)) for key in keys)

    return told_usage(
        Usage(
            input=total("promptTokenCount", "toolUsePromptTokenCount"),
            output=total("candidatesTokenCount", "thoughtsTokenCount"),
            cached=total("cachedContentTokenCount"),
            reasoning=total("thoughtsTokenCount"),
        )
    )


# -- refusals ---------------------------------------------------------------------------------------------------

_SPENT: Final = "the quota of the day is used up"
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}", re.ASCII)
_DELAY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s?", re.ASCII)


def refused(status: int, headers: Mapping[str, str], data: Any) -> ModelError:
    """The error that a refusal is.

    Args:
        status: The HTTP status, or the code of an error inside a stream.
        headers: The response headers, in lower case.
        data: The body, JSON or text.

    Since 0.1.
    """
    body = as_one(data)
    found = as_object(body).get("error", body)
    error = as_object(found)
    details = as_objects(error.get("details"))
    spent = status == 429 and any(_is_per_day(detail) for detail in details)
    causes = [cause for detail in details if (cause := _code(detail.get("reason")))]
    said = Said(
        " ".join([*causes[:3], as_text(error.get("message", found))]),
        _code(error.get("status")),
        what=_SPENT if spent else "",
        again=False if spent else None,
        wait=_wait(details),
    )
    return model_error(API, status, headers, said)


def _code(value: Any) -> str | None:
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def _is_per_day(detail: Json) -> bool:
    violations = as_objects(detail.get("violations"))
    return _kind(detail) == "QuotaFailure" and any("PerDay" in str(v.get("quotaId")) for v in violations)


def _kind(detail: Json) -> str:
    return str(detail.get("@type")).rpartition("google.rpc.")[2]


def _wait(details: list[Json]) -> float | None:
    """Seconds to wait, by the hint among the details, which is where Gemini puts it."""
    hints = [detail.get("retryDelay") for detail in details if _kind(detail) == "RetryInfo"]
    delays = [float(match[1]) for hint in hints if (match := _DELAY.fullmatch(as_text(hint).strip()))]
    return next(iter(delays), None)
