"""What a refusal of the Messages API means: what to mend, and whether waiting helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from ferrule.errors import ModelError
from ferrule.provider.retry_after import retry_after
from ferrule.redact import scrub
from ferrule.strict_json import clean

PROVIDER: Final = "anthropic"
MAX_SAID: Final = 300
_NEVER = frozenset({400, 401, 402, 403, 404, 413, 422})  # the same bytes get the same answer, whatever a header says
_AGAIN = frozenset({408, 409, 429})
_SPENT = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})  # 429 until somebody pays
_STATUS: dict[str, int] = {  # what stands in for the HTTP status when an error comes inside a stream
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_WHAT: dict[int, str] = {
    400: "the request was refused",
    401: "the key was not accepted. Check the key",
    402: "the account has no credit left",
    403: "the key may not do this. Check its permissions",
    404: "not found. Check the model's name and the base URL",
    408: "the server gave up waiting",
    413: "the request is too large; the API takes 32 MB. Shorten the transcript, or attach files by URL",
    422: "the request was refused",
    429: "too many requests",
    504: "the server gave up waiting",
    529: "the server is overloaded",
}


def http_error(status: int, headers: Mapping[str, str], data: Any) -> ModelError:
    """The error that an HTTP answer is.

    Args:
        status: The HTTP status.
        headers: The response headers, in lower case.
        data: The body: JSON if it is any, else text.

    Since 0.1.
    """
    code, message = _said(data)
    return ModelError(
        _reason(status, code, message),
        provider=PROVIDER,
        status=status,
        code=code,
        request_id=headers.get("request-id") or _text(_dict(data).get("request_id")),
        retryable=_retryable(status, code, headers.get("x-should-retry", "").lower()),
        retry_after=retry_after(headers),
    )


def stream_error(data: Any) -> ModelError:
    """The error that an event inside a stream is.

    Args:
        data: The event's JSON.

    Since 0.1.
    """
    code, message = _said(data)
    status = _STATUS.get(_text(_dict(_dict(data).get("error")).get("type")) or "", 500)
    return ModelError(
        _reason(status, code, message),
        provider=PROVIDER,
        code=code,
        request_id=_text(_dict(data).get("request_id")),
        retryable=_retryable(status, code, ""),
    )


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return clean(value)[:200] if isinstance(value, str) and value else None


def _said(data: Any) -> tuple[str | None, str]:
    """The provider's word for it and its message; of a proxy's page its first characters."""
    if isinstance(data, str):
        return None, data
    error = _dict(data).get("error")
    if isinstance(error, str):
        return None, error
    found = _dict(error)
    code = _text(_dict(found.get("details")).get("error_code")) or _text(found.get("type"))
    message = found.get("message")
    return code, message if isinstance(message, str) else ""


def _reason(status: int, code: str | None, message: str) -> str:
    what = "the spend limit is reached. Raise it, or wait until it starts anew" if code in _SPENT else _WHAT.get(status)
    line = " ".join(scrub(clean(message[: 4 * MAX_SAID])).split())
    short = line if len(line) <= MAX_SAID else line[:MAX_SAID] + "…"
    return f"{what or 'the server failed'}: {short or 'it says nothing more'}"


def _retryable(status: int, code: str | None, advice: str) -> bool:
    if status in _NEVER or code in _SPENT:
        return False
    return advice == "true" if advice in ("true", "false") else status in _AGAIN or status >= 500
