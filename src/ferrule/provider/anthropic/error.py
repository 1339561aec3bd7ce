"""What a refusal of the Messages API means: what to mend, and whether waiting helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ferrule.errors import ModelError
from ferrule.provider.foreign import as_object, as_text
from ferrule.provider.http.retry_after import retry_after
from ferrule.provider.refusal import reason, retryable
from ferrule.strict_json import clean

PROVIDER: Final = "anthropic"
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
        request_id=headers.get("request-id") or _text(as_object(data).get("request_id")),
        retryable=_retryable(status, code, headers),
        retry_after=retry_after(headers),
    )


def stream_error(data: Any) -> ModelError:
    """The error that an event inside a stream is.

    Args:
        data: The event's JSON.

    Since 0.1.
    """
    code, message = _said(data)
    status = _STATUS.get(_text(as_object(as_object(data).get("error")).get("type")) or "", 500)
    return ModelError(
        _reason(status, code, message),
        provider=PROVIDER,
        code=code,
        request_id=_text(as_object(data).get("request_id")),
        retryable=_retryable(status, code, {}),
    )


def _text(value: Any) -> str | None:
    return clean(as_text(value))[:200] or None


def _said(data: Any) -> tuple[str | None, str]:
    """The provider's word for it and its message; of a proxy's page its first characters."""
    if isinstance(data, str):
        return None, data
    error = as_object(data).get("error")
    if isinstance(error, str):
        return None, error
    found = as_object(error)
    code = _text(as_object(found.get("details")).get("error_code")) or _text(found.get("type"))
    return code, as_text(found.get("message"))


def _reason(status: int, code: str | None, message: str) -> str:
    what = ""
    if code in _SPENT:
        what = "the spend limit is reached. Raise it, or wait until it starts anew"
    elif status == 413:
        what = "the request is too large; the API takes 32 MB. Shorten the transcript, or attach files by URL"
    return reason(status, message, what, code)


def _retryable(status: int, code: str | None, headers: Mapping[str, str]) -> bool:
    return status != 402 and code not in _SPENT and retryable(status, headers)
