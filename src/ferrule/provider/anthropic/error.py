"""What a refusal of the Messages API says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ferrule.errors import ModelError
from ferrule.provider.foreign import as_object, as_text
from ferrule.provider.refusal import Said, model_error
from ferrule.strict_json import clean

PROVIDER: Final = "anthropic"
_TOO_LARGE: Final = "the request is too large; the API takes 32 MB. Shorten the transcript, or attach files by URL"
_STATUS: dict[str, int] = {  # for an error inside a stream
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


def refused(status: int | None, headers: Mapping[str, str], data: Any) -> ModelError:
    """The error that a refusal is.

    Args:
        status: The HTTP status; None for an event inside a stream.
        headers: The response headers, in lower case.
        data: The body: JSON if it is any, else text.

    Since 0.1.
    """
    body = as_object(data)
    error = data if isinstance(data, str) else body.get("error")  # of a proxy's page its first characters
    found = as_object(error)
    kind = _text(found.get("type"))
    like = _STATUS.get(kind or "", 500)
    said = Said(
        error if isinstance(error, str) else as_text(found.get("message")),
        _text(as_object(found.get("details")).get("error_code")) or kind,
        like=like,
        request_id=_text(body.get("request_id")),
        what=_TOO_LARGE if 413 == (like if status is None else status) else "",
    )
    return model_error(PROVIDER, status, headers, said)


def _text(value: Any) -> str | None:
    return clean(as_text(value))[:200] or None
