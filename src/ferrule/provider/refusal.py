"""What all providers' refusals have in common: what to mend, what may be repeated of their words, when to ask again.

A provider's own sentence often is the only thing that tells what is wrong, so
it is shown. But it may quote the request, and an error must hold no prompt. So
what stands in quotation marks or braces is shown only when it looks like a
name, and whatever the transcript says is taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from ferrule.content import Part
from ferrule.message import ModelMessage
from ferrule.provider.base import ModelRequest
from ferrule.redact import scrub
from ferrule.strict_json import clean

MAX_SAID: Final = 300
LEFT_OUT: Final = "[…]"
FINAL: Final = frozenset({400, 401, 403, 404, 413, 422})  # the same bytes get the same answer, whatever a header says
_AGAIN: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_WHAT: Final[Mapping[int, str]] = {
    401: "the key was not accepted. Check the key",
    402: "the account has no credit left. Add some, or use another key",
    403: "the key may not do this. Check its permissions",
    404: "not found. Check the model's name and the base URL",
    408: "the server gave up waiting",
    413: "the request is too large. Shorten the transcript or its parts",
    429: "too many requests",
    504: "the server gave up waiting",
    529: "the server is overloaded",
}
# What servers refuse under a status that does not tell, by their code or in their sentence.
_TOLD: Final = (
    (
        re.compile(
            r"context[ _](?:length|window|size|limit)|prompt is too long|input is too long"
            r"|(?:input token count|prompt).{0,60}exceeds the (?:maximum|model)"
        ),
        "the transcript is too long for the model. Shorten it",
    ),
    (re.compile(r"api[ _]key[ _](?:not[ _]valid|invalid|expired)|(?:invalid|incorrect)[ _]api[ _]key"), _WHAT[401]),
    (
        re.compile(
            r"model_not_found|invalid_model|invalid model(?: name| id)?\s*(?:[:=.]|$)|not a valid model"
            r"|unexpected model name"
            r"|\bmodels?[ /:]*(?:[\"'`]?[\w.:/@-]{1,100}[\"'`]? )?(?:does not exist|(?:is |was )?not found)"
        ),
        _WHAT[404],
    ),
)
_SPENT: Final = re.compile(r"insufficient_quota|billing_(?:hard_limit_reached|not_active)|credit balance is too low")
_UNCLEAR: Final = frozenset({None, 400, 413, 422, 500})
_QUOTE = re.compile(r"(?<!\w)([\"'`“])(.*?)(?:(?:\1|”)(?!\w)|$)", re.DOTALL)
_BRACES = re.compile(r"\{.*(?:\}|$)|\[[^\[\]\s]*\s[^\[\]]*(?:\]|$)", re.DOTALL)
_NAME = re.compile(r"[\w.:/@+*\[\]-]{0,80}")
_WORD = re.compile(r"\w+")
_RUN: Final = 4  # so many words in a row that the transcript has too are a quotation


def reason(status: int | None, message: str, what: str = "", code: str | None = None) -> str:
    """What happened and what to do about it, with the provider's words as far as they may be repeated.

    Args:
        status: The HTTP status, or the one that an error inside a stream stands for.
        message: What the provider says.
        what: What happened, where the status does not say it.
        code: The provider's word for it.

    Since 0.1.
    """
    known = (
        _told(status, code, message)
        or _WHAT.get(status or 0)
        or ("the request was refused" if status and status < 500 else "the server failed")
    )
    return f"{what or known}: {_shown(message)}"


def _told(status: int | None, code: str | None, message: str) -> str | None:
    said = f"{code} {message[: 4 * MAX_SAID]}".lower()
    if _SPENT.search(said):
        return _WHAT[402]
    if status not in _UNCLEAR:
        return None
    return next((what for pattern, what in _TOLD if pattern.search(said)), None)


def _shown(message: str) -> str:
    """A message for logs: one line, no credential, no quotation, not endless."""
    text = scrub(clean(message[: 4 * MAX_SAID]))
    text = _BRACES.sub(lambda found: LEFT_OUT, _QUOTE.sub(_name_only, text))
    line = " ".join(text.split())
    return (line if len(line) <= MAX_SAID else line[:MAX_SAID] + "…") or "it says nothing more"


def _name_only(found: re.Match[str]) -> str:
    return found[0] if _NAME.fullmatch(found[2]) else LEFT_OUT


def unquoted(text: str, request: ModelRequest) -> str:
    """An error's text without what the transcript of its request says.

    Args:
        text: The text.
        request: What was sent.

    Since 0.1.
    """
    said = " ".join(_WORD.findall(" ".join(_sayings(request)).casefold()))
    text = _QUOTE.sub(lambda found: LEFT_OUT if _is_in(found[2], said) else found[0], text)
    words = list(_WORD.finditer(text))
    spans: list[tuple[int, int]] = []
    at = 0
    while at + _RUN <= len(words):
        end = at + _RUN
        if not _is_in(text[words[at].start() : words[end - 1].end()], said):
            at += 1
            continue
        while end < len(words) and _is_in(text[words[at].start() : words[end].end()], said):
            end += 1
        spans.append((words[at].start(), words[end - 1].end()))
        at = end
    for start, end in reversed(spans):
        text = text[:start] + LEFT_OUT + text[end:]
    return text


def _is_in(words: str, said: str) -> bool:
    found = " ".join(_WORD.findall(words.casefold()))
    return bool(found) and found in said


def _sayings(request: ModelRequest) -> Iterator[str]:
    yield request.instructions
    for message in request.messages:
        if isinstance(message, ModelMessage):
            yield message.text
            yield from (call.arguments for call in message.calls)
            continue
        yield getattr(message, "output", "")
        for part in message.parts:
            yield (part.text if isinstance(part, Part) else cast("Any", part).get("text")) or ""


def retryable(status: int | None, headers: Mapping[str, str]) -> bool:
    """Whether the same request may succeed later, as the status and the server's own advice say.

    Args:
        status: The HTTP status, or the one that an error inside a stream stands for.
        headers: The response headers, in lower case.

    Since 0.1.
    """
    if status in FINAL:
        return False
    advice = headers.get("x-should-retry", "").lower()
    return advice == "true" if advice in ("true", "false") else status in _AGAIN
