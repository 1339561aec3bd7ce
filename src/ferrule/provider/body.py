"""The fields of a request body: what is absent left out, the caller's own on top, and what is JSON already as it is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from orjson import Fragment
from orjson import dumps as dumps_at_once

from ferrule.errors import UsageError
from ferrule.provider.foreign import Json
from ferrule.strict_json import dumps


def present(fields: Json) -> Json:
    """An object without its nulls.

    Args:
        fields: The object.

    Since 0.1.
    """
    return {key: value for key, value in fields.items() if value is not None}


def merged(ours: Json, theirs: Mapping[str, Any]) -> Json:
    """Both objects in one, as `Settings.extra` says: objects are merged key by key, of all else theirs wins.

    Args:
        ours: The object made from a request.
        theirs: What the caller wants in it.

    Since 0.1.
    """
    both = {**ours, **theirs}
    for key in ours.keys() & theirs.keys():
        if isinstance(ours[key], dict) and isinstance(theirs[key], Mapping):
            mine, yours = cast("Json", ours[key]), cast("Mapping[str, Any]", theirs[key])
            if yours.get("type", mine.get("type")) == mine.get("type"):  # else keys of one kind would stand in another
                both[key] = merged(mine, yours)
    return both


def written(fields: Json) -> bytes:
    """A body as JSON.

    Args:
        fields: Its fields, those of `Settings.extra` among them; a `Fragment` is JSON already.

    Raises:
        UsageError: A field of `Settings.extra` is no JSON; the value is not quoted.

    Since 0.1.
    """
    with suppress(TypeError):
        return dumps_at_once(fields)
    return b"{" + b",".join(_field(*item) for item in fields.items()) + b"}"


def _field(key: str, value: Any) -> bytes:
    with suppress(TypeError, ValueError, RecursionError):
        return dumps(str(key)) + b":" + (dumps_at_once(value) if isinstance(value, Fragment) else dumps(value))
    # Outside the handler: what was caught quotes the value.
    raise UsageError(f"settings.extra[{key!r}] cannot be sent as JSON. Use dict, list, str, numbers, bool and None.")
