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
from enum import Enum
from typing import Any, cast

from pydantic_core import PydanticCustomError, PydanticKnownError, SchemaValidator, core_schema, to_jsonable_python

from ferrule.strict_json import dumps
from ferrule.tool.schema.flag import flags_of, is_flag
from ferrule.tool.schema.reference import Schema

PARTS = (
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
    return SchemaValidator(_rewritten(core, _as_json), _use_prebuilt=False)


def finite_validator(core: Any) -> SchemaValidator:
    """Compile the core schema of a value to be sent: JSON has no NaN and no infinity.

    Args:
        core: As for `strict_validator`.

    Since 0.1.
    """
    return SchemaValidator(_rewritten(core, _as_sent))


def base64_schema(core: Any) -> Schema:
    """The JSON Schema of bytes as base64 text. Limits are of the bytes, and padding may be left out.

    Args:
        core: The core schema of the bytes.

    Since 0.1.
    """
    made: Schema = {"type": "string", "format": "base64url"}
    if core.get("min_length"):
        made["minLength"] = -(-4 * core["min_length"] // 3)
    if core.get("max_length") is not None:
        made["maxLength"] = -(-core["max_length"] // 3) * 4
    return made


def takes_anything(core: Any) -> bool:
    """Whether some place takes any value as it was read.

    Args:
        core: As for `strict_validator`.

    Since 0.1.
    """
    if isinstance(core, dict):
        node = cast("Schema", core)
        inside = [node[k] for k in PARTS if k in node] if isinstance(node.get("type"), str) else node.values()
        return node.get("type") == "any" or any(map(takes_anything, inside))
    return isinstance(core, (list, tuple)) and any(map(takes_anything, cast("list[Any]", core)))


def _rewritten(part: Any, rewrite: Callable[[Schema, bool], Any], *, settled: bool = False) -> Any:
    """A part of a core schema, `settled` where the user's own code or configuration decides how lax it is."""
    if isinstance(part, (list, tuple)):
        several = cast("list[Any]", part)
        return type(several)([_rewritten(p, rewrite, settled=settled) for p in several])
    if not isinstance(part, dict):
        return part
    node = cast("Schema", part)
    kind = node.get("type")
    if not isinstance(kind, str):  # a map, in which even a field may be named "type"
        return {k: _rewritten(v, rewrite, settled=settled) for k, v in node.items()}
    if kind in _CLASSES:
        settled = "strict" in (node.get("config") or ())
    elif kind in _BEFORE and not is_pydantics(node["function"]["function"]):
        settled = True
    parts = {k: _rewritten(node[k], rewrite, settled=settled) for k in PARTS if k in node}
    if node.get("config"):  # a class has its own in place of the one around it, and there bytes are text by default
        parts["config"] = {"val_json_bytes": "base64", **node["config"]}
    if "keys_schema" in node and rewrite is _as_json:
        parts["keys_schema"] = _rewritten(node["keys_schema"], _as_key, settled=settled)
    return rewrite({**node, **parts}, settled)


def _as_json(node: Schema, settled: bool) -> Any:
    kind = node["type"]
    if kind in MAPS:
        return _keyed(node)
    if kind == "generator":  # read lazily, its items would be checked after the call has begun
        return {**node, "type": "list"}
    if kind == "function-after" and node["schema"]["type"] == "bytes" and is_pydantics(node["function"]["function"]):
        return {**node, "schema": _behind(_encoded, node["schema"])}
    rewrite = None if settled or "strict" in node else _LEAVES.get(kind)
    return rewrite(node) if rewrite else node


def _as_key(node: Schema, settled: bool) -> Any:
    """A key is text whatever it stands for, so it is read from text; `1_000` and `yes` are no JSON even so."""
    rewrite = None if settled or "strict" in node else _KEYS.get(node["type"])
    return rewrite(node) if rewrite else node


def _as_sent(node: Schema, settled: bool) -> Schema:
    return {"allow_inf_nan": False, **node} if node["type"] == "float" else node


_CLASSES = ("model", "dataclass", "typed-dict", "named-tuple")
MAPS = ("dict", "counter", "frozendict", "ordered-dict")
_BEFORE = ("function-before", "function-wrap")


def is_pydantics(function: Any) -> bool:
    """Whether a function of a core schema is pydantic's own, and not the user's.

    Args:
        function: The function.

    Since 0.1.
    """
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


def _encoded(value: Any) -> Any:
    """Bytes that a type of pydantic's decodes itself, as they were sent."""
    return value.encode() if isinstance(value, str) else value


def _spelled(pattern: str, error: Any) -> Callable[[Schema], Any]:
    """A type whose text must be spelled so, where it is read from text."""
    spelling = re.compile(pattern)

    def look(value: Any) -> Any:
        if isinstance(value, str) and not spelling.fullmatch(value):
            raise PydanticKnownError(error)
        return value

    return lambda node: _behind(look, node)


_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_EPOCH = re.compile(r"[+-]?[\d.]+" + _EXPONENT)


def _as_text(name: str) -> Callable[[Schema], Any]:
    """A type that JSON writes as text: pydantic would take numbers, also written as text, for seconds since 1970."""

    def look(value: Any) -> Any:
        if isinstance(value, (int, float)) or (isinstance(value, str) and _EPOCH.fullmatch(value)):
            raise PydanticCustomError("iso_8601", "Input should be a {name} in ISO 8601", {"name": name})
        return value

    return lambda node: _behind(look, node)


def _complex(node: Schema) -> Any:
    return _behind(_no_number("Input should be a complex number as text"), node)


def _enum(node: Schema) -> Any:
    """An enum; one of text alone needs no second look, and its own `_missing_` is asked about other values."""
    members: list[Any] = node["members"]
    if all(type(m.value) is str for m in members):
        return node
    if is_flag(node["cls"]):
        return _behind(flags_of(node["cls"]), node)
    table = {_json(m.value): m for m in members}
    if len(table) < len(members):
        raise TypeError(f"two members of {node['cls'].__name__} have the same JSON")
    return _behind(_one_of(table, "enum", lenient=_asks_itself(node["cls"])), node)


def _asks_itself(cls: Any) -> bool:
    """Whether an enum makes something of values that are no member's, its author's way."""
    return cls._missing_.__func__ is not vars(Enum)["_missing_"].__func__


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
    if lax["type"] != "function-plain" or not is_pydantics(lax["function"]["function"]):
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
    "decimal": _spelled(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)" + _EXPONENT, "decimal_parsing"),
    "enum": _enum,
    "literal": _literal,
    "lax-or-strict": _address,
}
_KEYS = {k: _LEAVES[k] for k in ("date", "datetime", "time", "decimal")} | {
    "int": _spelled("-?[0-9]+", "int_parsing"),
    "float": _spelled(r"-?[0-9]+(?:\.[0-9]+)?" + _EXPONENT, "float_parsing"),
    "bool": _spelled("true|false", "bool_parsing"),
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
