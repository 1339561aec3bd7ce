"""What a refusal of an OpenAI-like server means: whether to wait and ask again, and which are no refusals at all.

Servers copy OpenAI's shape loosely, so one reader takes all of them: nested or
flat, a code in words or in digits, a text, a page of HTML from a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from ferrule.errors import JSONSyntaxError, ModelError
from ferrule.message import Call
from ferrule.provider.foreign import arguments_text
from ferrule.provider.http.retry_after import retry_after
from ferrule.provider.refusal import reason, retryable
from ferrule.strict_json import clean, parse

REFUSED_CALL: Final = "tool_use_failed"
_SPENT = frozenset({"insufficient_quota"})


class Said(NamedTuple):
    """What an error body says.

    Args:
        message: For people, as the server wrote it.
        code: The server's word for it, else its type.
        status: The HTTP status it names, if any.
        failed: The text of a call that the server did not take; None when the body has no such field.

    Since 0.1.
    """

    message: str
    code: str | None = None
    status: int | None = None
    failed: str | None = None


def read_error(data: Any) -> Said:
    """What an error body says, whatever its shape.

    Args:
        data: The body, JSON or text.

    Since 0.1.
    """
    if isinstance(data, list) and data:
        data = cast("list[Any]", data)[0]
    if not isinstance(data, dict):
        return Said(data if isinstance(data, str) else "")
    body = cast("dict[str, Any]", data)
    error = body.get("error") or body
    if not isinstance(error, dict):
        return Said(str(error), status=_status(body.get("status_code")))
    inner = cast("dict[str, Any]", error)
    code, numbers = inner.get("code"), (inner.get("status_code"), inner.get("code"), inner.get("raw_status_code"))
    word = code if isinstance(code, str) and code and not code.isdigit() else inner.get("type")
    return Said(
        _message(inner),
        word[:100] if isinstance(word, str) else None,
        next((status for n in numbers if (status := _status(n))), None),
        _text(inner.get("failed_generation")),
    )


def _text(value: Any) -> str | None:
    return clean(value) if isinstance(value, str) else None


def _status(value: Any) -> int | None:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    return number if isinstance(number, int) and 100 <= number <= 599 else None


def _message(error: Mapping[str, Any]) -> str:
    """The message; with the upstream's own, which a router hides behind "Provider returned error"."""
    said: Any = error.get("message") or error.get("detail") or ""
    if isinstance(said, list):  # of a validator: places and rules; what else it lists are our own values
        said = "; ".join(_fault(item) for item in cast("list[Any]", said))
    elif isinstance(said, dict):
        said = _fault(cast("Any", said))
    metadata = error.get("metadata")
    if isinstance(metadata, dict):
        said = f"{said} {_upstream(cast('dict[str, Any]', metadata))}"
    return str(said).strip()


def _fault(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    fault = cast("dict[str, Any]", item)
    found = fault.get("loc")
    where = ".".join(map(str, cast("list[Any]", found))) if isinstance(found, list) else ""
    return f"{where} {fault.get('msg') or fault.get('message') or ''}".strip()


def _upstream(metadata: Mapping[str, Any]) -> str:
    name, raw = metadata.get("provider_name"), metadata.get("raw")
    if isinstance(raw, str) and raw.lstrip().startswith("{"):
        with suppress(JSONSyntaxError):  # shown as it is, like any other text
            raw = read_error(parse(raw)).message
    told = raw if isinstance(raw, str) else ""
    return f"({name}: {told})" if name else told


def model_error(provider: str, status: int | None, headers: Mapping[str, str], said: Said) -> ModelError:
    """The error that a refusal is.

    Args:
        provider: Name of the provider.
        status: The HTTP status; None inside a stream, unless the error names one.
        headers: The response headers, in lower case.
        said: What the body says.

    Since 0.1.
    """
    known = said.status if status is None or status < 400 else status
    wait = retry_after(headers)
    return ModelError(
        reason(known, said.message, code=said.code),
        provider=provider,
        status=known,
        code=said.code,
        request_id=headers.get("x-request-id"),
        retryable=_retryable(known, headers, said.code, wait),
        retry_after=wait,
    )


def _retryable(status: int | None, headers: Mapping[str, str], code: str | None, wait: float | None) -> bool:
    if code == REFUSED_CALL:
        return True  # the model's slip, not the request's: it may say it better
    if code in _SPENT:
        return False
    return wait is not None if status == 402 else retryable(status, headers)


# -- calls that the provider itself does not take ---------------------------------------------------------------


def failed_calls(failed: str) -> tuple[Call, ...]:
    """The calls in the text that a server did not take; none when it is plain text.

    Args:
        failed: The text of `failed_generation`.

    Since 0.1.
    """
    try:
        found: Any = parse(failed)
    except JSONSyntaxError:
        return ()
    items: Sequence[Any] = cast("list[Any]", found) if isinstance(found, list) else [found]
    calls = tuple(call for item in items if (call := _failed_call(item)) is not None)
    return calls if len(calls) == len(items) else ()


def _failed_call(item: Any) -> Call | None:
    if not isinstance(item, dict):
        return None
    made = cast("dict[str, Any]", item)
    name, arguments = made.get("name"), made.get("arguments", made.get("parameters"))
    if not isinstance(name, str) or not name:
        return None
    return Call("", name, arguments_text(arguments))
