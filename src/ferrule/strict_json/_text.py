"""Strict JSON text: encodable strings, compact bytes, and a reader that guesses nothing."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, NoReturn, cast

import orjson

from ferrule.errors import JSONSyntaxError


def is_clean(text: str) -> bool:
    """Whether UTF-8 can carry a text."""
    if str.isascii(text):
        return True
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return False
    return True


def clean(text: str) -> str:
    """Text that UTF-8 can carry: surrogate pairs joined, lone surrogates replaced by U+FFFD.

    Args:
        text: Any str.

    Since 0.1.
    """
    if not is_clean(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if type(text) is str else str.__str__(text)


def dumps(value: Any) -> bytes:
    """Compact strict JSON of a value made by `plain`, `typed` or `parse`.

    Args:
        value: dict with str keys, list, str, int, finite float, Decimal (as a number), bool or None.

    Since 0.1.
    """
    try:
        return orjson.dumps(value, _number)
    except TypeError:
        pass
    try:
        return orjson.dumps(_wide(value), _number)
    except (TypeError, RecursionError):  # nesting beyond orjson's bound; there decimals are text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_text).encode()


def _wide(value: Any) -> Any:
    """The value with integers beyond 64 bits, which orjson refuses, as Decimals of the same digits."""
    if isinstance(value, dict):
        return {k: _wide(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_wide(v) for v in cast("list[Any]", value)]
    return Decimal(value) if type(value) is int and not -(2**63) <= value < 2**64 else value


def _number(value: object) -> orjson.Fragment:
    return orjson.Fragment(_text(value))


def _text(value: object) -> str:
    if type(value) is Decimal and value.is_finite():
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def parse(text: str | bytes, *, exact: bool = False) -> Any:
    """Read strict JSON: no duplicate keys, no NaN or Infinity, no lone surrogates, integers of any size.

    Args:
        text: JSON text, or its UTF-8 bytes.
        exact: Whether numbers that a float would not give back digit by digit, such as `1.10`, become Decimal.

    Raises:
        JSONSyntaxError: With line and column where they are known; the text itself is not quoted.

    Since 0.1.
    """
    try:
        source = text.decode() if isinstance(text, bytes) else text
        value = (_EXACT if exact else _DECODER).decode(source)
        if is_clean(source) and ("\\u" not in source or is_clean(json.dumps(value, ensure_ascii=False, default=str))):
            return value
        problem = JSONSyntaxError("a lone surrogate")
    except json.JSONDecodeError as error:
        # The reason names no content, but some end in a preposition or a colon.
        problem = JSONSyntaxError(error.msg.rstrip(": ").removesuffix(" at"), error.lineno, error.colno)
    except RecursionError:
        problem = JSONSyntaxError("nested too deeply")
    except UnicodeDecodeError:
        problem = JSONSyntaxError("not UTF-8")
    except JSONSyntaxError as error:
        problem = error
    except ValueError:
        problem = JSONSyntaxError("a number with too many digits")
    raise problem  # not in a handler: what was caught holds the text


def reread(data: bytes) -> Any:
    """Read what `dumps` wrote of a value made by `typed`: as `parse` does, in a fraction of its time.

    Args:
        data: JSON in UTF-8, with no key twice in an object and no integer beyond 64 bits.

    Raises:
        JSONSyntaxError: It is damaged.

    Since 0.1.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # nested beyond its bound, or damaged, and then this says where
        return parse(data)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JSONSyntaxError("an object with a duplicate key")
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise JSONSyntaxError("a number beyond the range of a float")
    return number


def _exact(digits: str) -> float | Decimal:
    number = float(digits)
    try:
        return number if repr(number) == digits else Decimal(digits)
    except ArithmeticError:
        raise JSONSyntaxError("a number with an exponent beyond all bounds") from None


def _no_constant(name: str) -> NoReturn:
    raise JSONSyntaxError(f"the word {name}, which is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)
_EXACT = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_exact, parse_constant=_no_constant)
