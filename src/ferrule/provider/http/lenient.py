"""JSON as providers send it: halves of characters, numbers that no count can be, and arguments that must not change."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any, Final

import orjson

from ferrule.strict_json import parse

_ARGUMENTS: Final = re.compile(rb'"(?:arg(?:ument)?s|input)"\s*:\s*\{')
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|u(?:[dD](?P<high>[89abAB])|[dD](?P<low>[c-fC-F]))[0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
_LOST: Final = rb"\ufffd"
_DIGITS: Final = 4_000  # Python reads no integer that is much longer


def read_json(data: bytes, halves: list[bytes] | None = None) -> Any:
    r"""What a provider sent.

    Objects of arguments are read strictly: orjson takes the last of duplicate
    keys and makes floats of long integers. Elsewhere a number that no float
    holds is null.

    Some servers cut text inside a character that JSON writes as two escapes.
    Half of one becomes U+FFFD; but of a stream, a half that ends a text is put
    before the text of the next event that begins with the other.

    Args:
        data: UTF-8.
        halves: Of a stream: what the last event left over, changed in place; else None.

    Raises:
        ValueError: It is no JSON.

    Since 0.1.
    """
    strict = (b'"arg' in data or b'"input"' in data) and _ARGUMENTS.search(data) is not None
    try:
        return parse(data) if strict else orjson.loads(data)
    except ValueError:
        text = _whole(data, halves).decode("utf-8", "replace")
    try:
        return parse(text) if strict else orjson.loads(text)
    except ValueError:
        if strict:
            raise
    found = None
    with suppress(RecursionError):
        found = _LENIENT.decode(text)
    if found is None:
        raise ValueError("no JSON that anybody can read")
    return found


def _whole(data: bytes, halves: list[bytes] | None) -> bytes:
    """The same without half characters."""
    left, end = iter(halves or ()), -1
    kept: list[bytes] = []

    def mend(found: re.Match[bytes]) -> bytes:
        nonlocal end
        escaped, end = end == found.start(), found.end()  # a quote before it is the text's first only if not escaped
        if found["low"] and not escaped and data[found.start() - 1 : found.start()] == b'"':
            half = next(left, None)
            return half + found[0] if half else _LOST
        if found["high"] and halves is not None and data[end : end + 1] == b'"':
            kept.append(found[0])
            return b""
        return _LOST if found["low"] or found["high"] else found[0]

    mended = _ESCAPE.sub(mend, data)
    if halves is not None and (kept or mended != data):
        halves[:] = kept
    return mended


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) < _DIGITS else None


def _float(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _nothing(word: str) -> None:
    """What `NaN` and its like stand for."""


_LENIENT: Final = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_nothing)
