"""What a refusal of an OpenAI-like server says.

Servers copy OpenAI's shape loosely, so one reader takes all of them: nested or
flat, a code in words or in digits, a text, a page of HTML from a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from ferrule.errors import JSONSyntaxError
from ferrule.provider.foreign import as_object, as_one, as_text
from ferrule.provider.refusal import Said
from ferrule.strict_json import clean, parse

REFUSED_CALL: Final = "tool_use_failed"


def read_error(data: Any) -> Said:
    """What an error body says, whatever its shape.

    Args:
        data: The body, JSON or text.

    Since 0.1.
    """
    data = as_one(data)
    body = as_object(data)
    error = body.get("error") or data
    if not isinstance(error, dict):
        return Said(str(error) if body else as_text(error), status=_status(body.get("status_code")))
    inner = as_object(error)
    code, numbers = inner.get("code"), (inner.get("status_code"), inner.get("code"), inner.get("raw_status_code"))
    word = code if isinstance(code, str) and code and not code.isdigit() else inner.get("type")
    return Said(
        _message(inner),
        word[:100] if isinstance(word, str) else None,
        next((status for n in numbers if (status := _status(n))), None),
        again=True if word == REFUSED_CALL else None,  # the model's slip, not the request's: it may say it better
        failed=_text(inner.get("failed_generation")),
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
    metadata = as_object(error.get("metadata"))
    if metadata:
        said = f"{said} {_upstream(metadata)}"
    return str(said).strip()


def _fault(item: Any) -> str:
    fault = as_object(item)
    if not fault:
        return str(item)
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
