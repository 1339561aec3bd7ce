"""What a command asked for, in a few digits: a replay sees by them whether it asks for the same."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from ferrule.errors import JSONSyntaxError
from ferrule.provider.base import ModelRequest
from ferrule.strict_json import dumps, parse, plain
from ferrule.tool.toolset import Toolset

_DIGITS: Final = 16
# What each set of tools was last asked with, and its digest: an agent asks with the same objects again and again.
_LAST: Final[WeakKeyDictionary[Toolset, tuple[Any, Any, Any, str]]] = WeakKeyDictionary()


def digest_of(data: bytes) -> str:
    """So many digits of a SHA-256 that no two things of one run are taken for each other by chance.

    Args:
        data: The bytes.

    Since 0.1.
    """
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def digest_of_arguments(text: str) -> str:
    """Of the arguments that were requested.

    Args:
        text: As the machine gives them. Nulls count as left out: whether the model was to write them is its own matter.

    Since 0.1.
    """
    if "null" in text:
        with suppress(JSONSyntaxError):  # they are told apart as they stand
            text = dumps(_without_nulls(parse(text, exact=True))).decode()
    return digest_of(text.encode(errors="surrogatepass"))


def digest_of_request(request: ModelRequest) -> str:
    """Of what a model is asked with: instructions, tools, settings, form of the answer; not of the transcript.

    That one follows from the records, and to digest it for each turn would make a run's cost grow with its square.

    Args:
        request: The machine's request, before hooks.

    Since 0.1.
    """
    _, instructions, tools, settings, output = request
    last = _LAST.get(tools)
    if last is not None and last[0] is instructions and last[1] is settings and last[2] is output:
        return last[3]
    shown = [[name, tools[name].description, tools[name].parameters.schema] for name in tools.names]
    digest = digest_of(dumps(plain([instructions, shown, settings, output])))
    _LAST[tools] = (instructions, settings, output, digest)
    return digest


def equal_arguments(text: str) -> str:
    """A digest that is one for all texts of the same arguments, whatever model wrote them.

    Args:
        text: JSON text.

    Since 0.1.
    """
    try:
        return digest_of(dumps(_sorted(_without_nulls(parse(text, exact=True)))))
    except JSONSyntaxError:
        return digest_of(text.encode(errors="surrogatepass"))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in cast("dict[str, Any]", value).items() if v is not None}
    return [_without_nulls(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {key: _sorted(found[key]) for key in sorted(found)}
    return [_sorted(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value
