"""JSON of others: what is not of its kind counts as absent.

Servers leave fields out, send null for them, or something else altogether. No
answer may fail for that: what cannot be read is not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, cast

from ferrule.errors import JSONSyntaxError
from ferrule.message import Usage
from ferrule.strict_json import clean, dumps, parse

Json: TypeAlias = dict[str, Any]
_MOST: Final = 2**53  # a larger number is no count, and not every reader of JSON holds it


def as_object(value: Any) -> Json:
    """An object as it is; anything else as an empty one.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return cast("Json", value) if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Json]:
    """The objects of a list; none of anything else.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Json", item) for item in items if isinstance(item, dict)]


def as_one(value: Any) -> Any:
    """A body that on some paths is wrapped in a list of one, without the list.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return cast("list[Any]", value)[0] if isinstance(value, list) and value else cast("Any", value)


def as_text(value: Any) -> str:
    """A text as it is; anything else as an empty one.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int | None:
    """A number of things; None for anything that counts nothing.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


def as_amount(value: Any) -> float | None:
    """An amount of money; None for anything that is none.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _MOST:
        return None
    return float(value) if math.isfinite(value) else None


def sum_of(counts: Iterable[int | None]) -> int | None:
    """The sum of what is there; None when nothing is.

    Args:
        counts: Numbers, each there or not.

    Since 0.1.
    """
    found = [count for count in counts if count is not None]
    return sum(found) if found else None


def told_usage(usage: Usage) -> Usage | None:
    """A usage that says something, else None.

    Args:
        usage: As it was read.

    Since 0.1.
    """
    return None if usage == Usage() else usage


def arguments_text(value: Any) -> str:
    """Arguments as JSON text: text as it is, any other value written out, nothing as `{}`.

    Args:
        value: What a server sent as arguments.

    Since 0.1.
    """
    if value is None:
        return "{}"
    text = clean(value) if isinstance(value, str) else dumps(value).decode()
    return text if text.strip() else "{}"


def arguments_object(text: str) -> Json:
    """Arguments as the object that some APIs insist on; empty where they are none, and the call's result says so.

    Args:
        text: JSON text as the model wrote it.

    Since 0.1.
    """
    try:
        return as_object(parse(text))
    except JSONSyntaxError:
        return {}


def is_whole(name: str, arguments: str) -> bool:
    """Whether a call does not look cut: it has a name, and arguments that do not end before they are JSON.

    They may be wrong in another way; that is for the model to hear of.

    Args:
        name: The name of the tool.
        arguments: JSON text.

    Since 0.1.
    """
    try:
        parse(arguments)
    except JSONSyntaxError:
        return bool(name) and not _ends_early(arguments)
    return bool(name)


def _ends_early(text: str) -> bool:
    depth, quoted, escaped = 0, False, False
    for char in text:
        if quoted:
            quoted, escaped = escaped or char != '"', not escaped and char == "\\"
        elif char == '"':
            quoted = True
        else:
            depth += (char in "{[") - (char in "}]")
    return quoted or depth > 0
