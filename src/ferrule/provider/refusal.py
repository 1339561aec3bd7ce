"""What all providers' refusals have in common: what to mend, what may be repeated of their words, when to ask again.

An adapter reads the body, each API in its own shape; what follows from it is
decided here. A provider's own sentence often is the only thing that tells what
is wrong, so it is shown. But it may quote the request, and an error must hold
no prompt. So what stands in quotation marks or braces is shown only when it
looks like a name, and whatever the transcript says is taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from ferrule.content import Part
from ferrule.errors import ModelError
from ferrule.message import ModelMessage
from ferrule.provider.base import ModelRequest
from ferrule.provider.retry_after import retry_after
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
# What is used up does not come back by waiting, whatever the status.
_SPENT: Final = (
    (
        re.compile(r"insufficient_quota|billing_(?:hard_limit_reached|not_active)|credit balance is too low"),
        _WHAT[402],
    ),
    (
        re.compile(r"(?:enforced|contract)_spend_limit_reached"),
        "the spend limit is reached. Raise it, or wait until it starts anew",
    ),
)
_REQUEST_IDS: Final = ("request-id", "x-request-id")  # the second may be of a proxy in between
_UNCLEAR: Final = frozenset({None, 400, 413, 422, 500})
_QUOTE = re.compile(r"(?<!\w)([\"'`“])(.*?)(?:(?:\1|”)(?!\w)|$)", re.DOTALL)
_BRACES = re.compile(r"\{.*(?:\}|$)|\[[^\[\]\s]*\s[^\[\]]*(?:\]|$)", re.DOTALL)
_NAME = re.compile(r"[\w.:/@+*\[\]-]{0,80}")
_WORD = re.compile(r"\w+")
_RUN: Final = 4  # so many words in a row that the transcript has too are a quotation


class Said(NamedTuple):
    """What the body of a refusal says.

    Args:
        message: For people, as the server wrote it.
        code: The server's word for it.
        status: The HTTP status it names; it counts where the answer itself is no refusal, as inside a stream.
        like: The HTTP status it is like, where neither it nor the answer has one.
        request_id: The provider's id of the request.
        what: What happened, where neither the status nor the words tell.
        again: Whether asking again may help, where the body tells and the status does not.
        wait: Seconds to wait before that.
        failed: The text of a call that the server did not take; None when the body has no such field.

    Since 0.1.
    """

    message: str
    code: str | None = None
    status: int | None = None
    like: int | None = None
    request_id: str | None = None
    what: str = ""
    again: bool | None = None
    wait: float | None = None
    failed: str | None = None


def model_error(provider: str, status: int | None, headers: Mapping[str, str], said: Said) -> ModelError:
    """The error that a refusal is.

    Args:
        provider: Name of the provider.
        status: The HTTP status; None inside an answer.
        headers: The response headers, in lower case.
        said: What the body says.

    Since 0.1.
    """
    known = said.status if status is None or status < 400 else status
    meant = said.like if known is None else known
    asked = retry_after(headers)
    wait = said.wait if asked is None else asked
    spent = _told(_SPENT, said)
    what = said.what or spent or (_told(_TOLD, said) if meant in _UNCLEAR else None) or _WHAT.get(meant or 0)
    return ModelError(
        f"{what or ('the request was refused' if meant and meant < 500 else 'the server failed')}: "
        f"{_shown(said.message)}",
        provider=provider,
        status=known,
        code=said.code,
        request_id=request_id(headers) or said.request_id,
        retryable=said.again if said.again is not None else not spent and _retryable(meant, headers, wait),
        retry_after=wait,
    )


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's id of a request.

    Args:
        headers: The response headers, in lower case.

    Since 0.1.
    """
    return next((headers[name][:200] for name in _REQUEST_IDS if headers.get(name)), None)


def _told(table: tuple[tuple[re.Pattern[str], str], ...], said: Said) -> str | None:
    text = f"{said.code} {said.message[: 4 * MAX_SAID]}".lower()
    return next((what for pattern, what in table if pattern.search(text)), None)


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


def _retryable(status: int | None, headers: Mapping[str, str], wait: float | None) -> bool:
    """Whether the same request may succeed later, as the status and the server's own advice say."""
    if status in FINAL:
        return False
    if status == 402:
        return wait is not None
    advice = headers.get("x-should-retry", "").lower()
    return advice == "true" if advice in ("true", "false") else status in _AGAIN
