"""The check of arguments without lax readings: what it takes, the JSON Schema of the same type takes too.

pydantic reads `true` as the integer 1, `"t"` as a truth value and an epoch number
as a date, so that a call means something else than the model wrote. Its strict
mode refuses more than JSON needs, and overrides what users say of their own
classes. So its schema is rewritten here, leaf by leaf, before it is compiled:
inside models and dataclasses too, but not where a class, a field or a validator
of the user's has settled how lax it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, cast

from pydantic_core import PydanticCustomError, PydanticKnownError, SchemaValidator, core_schema, to_jsonable_python

from ferrule.strict_json import dumps
from ferrule.tool.reference import Schema

_PARTS = (
    *("schema", "items_schema", "keys_schema", "values_schema", "extras_schema", "json_schema", "python_schema"),
    *("lax_schema", "strict_schema", "arguments_schema", "var_kwargs_schema"),
    *("fields", "choices", "steps", "definitions"),
)
"""Where a node of a core schema holds others: one, a list, or a map of names."""


def strict_validator(core: Any) -> SchemaValidator:
    """Compile the core schema of a type without the lax readings.

    Args:
        core: `TypeAdapter(…).core_schema`.

    Raises:
        TypeError: No JSON value tells some members of an enum or Literal apart.

    Since 0.1.
    """
    # Models bring a compiled check of their own, which would be used in place of what is written here.
    return SchemaValidator(_rewritten(core, settled=False), _use_prebuilt=False)


def takes_anything(core: Any) -> bool:
    """Whether some place takes any value as it was read.

    Args:
        core: As for `strict_validator`.

    Since 0.1.
    """
    if isinstance(core, dict):
        node = cast("Schema", core)
        inside = [node[k] for k in _PARTS if k in node] if isinstance(node.get("type"), str) else node.values()
        return node.get("type") == "any" or any(map(takes_anything, inside))
    return isinstance(core, (list, tuple)) and any(map(takes_anything, cast("list[Any]", core)))


def _rewritten(part: Any, *, settled: bool) -> Any:
    """A part of a core schema, `settled` where the user's own code or configuration decides how lax it is."""
    if isinstance(part, (list, tuple)):
        several = cast("list[Any]", part)
        return type(several)([_rewritten(p, settled=settled) for p in several])
    if not isinstance(part, dict):
        return part
    node = cast("Schema", part)
    kind = node.get("type")
    if not isinstance(kind, str):  # a map, in which even a field may be named "type"
        return {k: _rewritten(v, settled=settled) for k, v in node.items()}
    if kind in _CLASSES:
        settled = "strict" in (node.get("config") or ())
    elif kind in _BEFORE and not _is_pydantics(node["function"]["function"]):
        settled = True
    node = {k: _rewritten(v, settled=settled) if k in _PARTS else v for k, v in node.items()}
    rewrite = _KEYED.get(kind) or (None if settled or "strict" in node else _LEAVES.get(kind))
    return rewrite(node) if rewrite else node


_CLASSES = ("model", "dataclass", "typed-dict", "named-tuple")
_BEFORE = ("function-before", "function-wrap")


def _is_pydantics(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return str(getattr(function, "__module__", "")).startswith("pydantic.")


# -- leaves -----------------------------------------------------------------------------------------------------


def _strict(node: Schema) -> Schema:
    return {**node, "strict": True}


def _finite(node: Schema) -> Schema:
    return {"allow_inf_nan": False, **node, "strict": True}


def _behind(look: Callable[[Any], Any], node: Schema) -> Any:
    """The node behind a function that sees the value first."""
    inner = {k: v for k, v in node.items() if k != "ref"}
    return core_schema.no_info_before_validator_function(look, cast("Any", inner), ref=node.get("ref"))


_NUMBER = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def _as_text(name: str) -> Callable[[Schema], Any]:
    """A type that JSON writes as text: pydantic would take numbers, also written as text, for seconds since 1970."""

    def look(value: Any) -> Any:
        if isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
            raise PydanticCustomError("iso_8601", "Input should be a {name} in ISO 8601", {"name": name})
        return value

    return lambda node: _behind(look, node)


def _complex(node: Schema) -> Any:
    return _behind(_no_number("Input should be a complex number as text"), node)


def _decimal(node: Schema) -> Any:
    def look(value: Any) -> Any:
        if isinstance(value, str) and not _DECIMAL.fullmatch(value):
            raise PydanticKnownError("decimal_parsing")
        return value

    return _behind(look, node)


def _enum(node: Schema) -> Any:
    """An enum; one of text alone needs no second look, and its own `_missing_` is asked about other values."""
    members: list[Any] = node["members"]
    if all(type(m.value) is str for m in members):
        return node
    table = {_json(m.value): m for m in members}
    if len(table) < len(members):
        raise TypeError(f"two members of {node['cls'].__name__} have the same JSON")
    return _behind(_one_of(table, "enum", lenient="missing" in node), node)


def _literal(node: Schema) -> Any:
    expected: list[Any] = node["expected"]
    if all(type(e) is str for e in expected):
        return node
    return _behind(_one_of({_json(e): e for e in reversed(expected)}, "literal_error"), node)


def _one_of(table: dict[bytes, Any], error: str, *, lenient: bool = False) -> Callable[[Any], Any]:
    """From the JSON of a member to the member: 1 and true are equal in Python, and tuples are arrays in JSON."""
    *first, last = [key.decode() for key in table]
    expected = f"{', '.join(first)} or {last}" if first else last

    def look(value: Any) -> Any:
        if type(value) not in _JSON:
            return value  # a default that the class has checked
        found = table.get(_json(value), table)
        if found is not table:
            return found
        if lenient and type(value) is not bool:
            return value
        raise PydanticKnownError(cast("Any", error), {"expected": expected})

    return look


_JSON = frozenset({str, int, float, bool, type(None), list, dict})


def _json(value: Any) -> bytes:
    made = to_jsonable_python(value)
    return dumps(int(made) if type(made) is float and made.is_integer() else made)


def _address(node: Schema) -> Any:
    """An IP address, network or interface, which pydantic would make of a number too."""
    lax = node["lax_schema"]
    if lax["type"] != "function-plain" or not _is_pydantics(lax["function"]["function"]):
        return node
    return _behind(_no_number("Input should be an IP address as text"), node)


def _no_number(message: str) -> Callable[[Any], Any]:
    def look(value: Any) -> Any:
        if isinstance(value, (int, float)):
            raise PydanticCustomError("text_form", cast("Any", message))
        return value

    return look


_LEAVES: dict[str, Callable[[Schema], Any]] = {
    "int": _strict,
    "float": _finite,
    "bool": _strict,
    "date": _as_text("date"),
    "datetime": _as_text("date and time"),
    "time": _as_text("time"),
    "complex": _complex,
    "decimal": _decimal,
    "enum": _enum,
    "literal": _literal,
    "lax-or-strict": _address,
}

# -- maps -------------------------------------------------------------------------------------------------------


class _Key:
    """A key that equals no other, so that none is lost before they are counted."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _keyed(node: Schema) -> Any:
    """A map whose keys are no plain text: `"1"` and `"01"` are one integer, and one of their values would be lost."""
    keys: Schema = node.get("keys_schema", {"type": "any"})
    if keys["type"] == "any" or (keys["type"] == "str" and keys.keys().isdisjoint(_CHANGES)):
        return node
    wrapped = core_schema.no_info_after_validator_function(_Key, cast("Any", keys))
    inner = {k: v for k, v in node.items() if k != "ref"} | {"keys_schema": wrapped}
    return core_schema.no_info_after_validator_function(_unwrapped, cast("Any", inner), ref=node.get("ref"))


_CHANGES = ("strip_whitespace", "to_lower", "to_upper")


def _unwrapped(found: dict[Any, Any]) -> Any:
    by_value = {key.value: value for key, value in found.items()}
    if len(by_value) != len(found):
        raise PydanticCustomError("equal_keys", "Input should not have two spellings of one key")
    return type(found)(by_value)


_KEYED: dict[str, Callable[[Schema], Any]] = {"dict": _keyed, "counter": _keyed}
