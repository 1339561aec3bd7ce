"""What is known of keywords: which type they concern, how a description tells them, what two of them mean at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from ferrule.tool.schema.reference import Schema, is_list, is_schema, listed


def keywords(names: str) -> frozenset[str]:
    """The keywords in a text, with blanks between them."""
    return frozenset(names.split())


ANNOTATIONS = keywords(
    "title description default examples example deprecated readOnly writeOnly $comment $schema $id $anchor"
)
_NUMBER = keywords("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
BY_TYPE = {
    "object": keywords(
        "properties required additionalProperties patternProperties propertyNames minProperties maxProperties "
        "dependentRequired dependentSchemas dependencies unevaluatedProperties propertyOrdering"
    ),
    "array": keywords(
        "items prefixItems additionalItems unevaluatedItems contains minContains maxContains minItems maxItems "
        "uniqueItems"
    ),
    "string": keywords("minLength maxLength pattern contentEncoding contentMediaType contentSchema"),
    "number": _NUMBER,
    "integer": _NUMBER,
}
TYPED = frozenset[str]().union(*BY_TYPE.values())

_TOLD = TYPED - {"required", "propertyOrdering"} | keywords(
    "enum const not if then else format default examples example deprecated readOnly writeOnly"
)
_SAID = {
    "const": "always",
    "enum": "one of",
    "examples": "for example",
    "exclusiveMaximum": "below",
    "exclusiveMinimum": "above",
    "prefixItems": "in this order",
}
_RAW = keywords("pattern format contentEncoding contentMediaType")
# These are told without a value, and not at all when they have the one here.
_USUAL: dict[str, bool] = {
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties", "unevaluatedItems"), True),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), False),
}
_MAX_WORDS = 120


def in_words(keyword: str, value: Any) -> str | None:
    """A keyword as a description tells it, `multiple of 5`; None where it says nothing to a model."""
    if keyword not in _TOLD or value is _USUAL.get(keyword, ...):
        return None
    name = _SAID.get(keyword) or re.sub("[A-Z]", lambda m: " " + m[0].lower(), keyword)
    if isinstance(value, bool) and keyword in _USUAL:
        return name if value else f"no {name}"
    try:
        text = str(value) if keyword in _RAW else orjson.dumps(value).decode()
    except TypeError:  # too deep or too large for the encoder
        text = "…"
    return f"{name} {text if len(text) <= _MAX_WORDS else text[:_MAX_WORDS] + '…'}"


# -- two schemas at once: what holds for both -------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal; 1 is 1.0 but not true. False for those too deep to tell."""
    try:
        return _equal(a, b)
    except RecursionError:
        return False


def _equal(a: Any, b: Any) -> bool:
    if is_schema(a) and is_schema(b):
        return a.keys() == b.keys() and all(_equal(v, b[k]) for k, v in a.items())
    if is_list(a) and is_list(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def distinct(values: list[Any]) -> list[Any]:
    """Each value once, in order."""
    return [v for i, v in enumerate(values) if not any(same(v, earlier) for earlier in values[:i])]


def unite(a: list[Any], b: list[Any]) -> list[Any]:
    """A list with what another one has besides."""
    return [*a, *(v for v in b if v not in a)]


def both(a: Any, b: Any) -> Any:
    """What holds for both of two schemas."""
    if isinstance(a, bool) or isinstance(b, bool):
        return False if a is False or b is False else b if a is True else a
    return a if same(a, b) else {"allOf": [a, b]}


def _both_maps(a: Schema, b: Schema) -> Schema:
    return {k: both(a[k], b[k]) if k in a and k in b else {**b, **a}[k] for k in {**a, **b}}


def _common_types(a: str | list[str], b: str | list[str]) -> str | list[str]:
    left, right = listed(a), listed(b)
    found = [t for t in left if t in right or (t == "integer" and "number" in right)]
    found += [t for t in right if t == "integer" and "number" in left and t not in found]
    return found[0] if len(found) == 1 else found


def _each_with(keyword: str) -> Callable[[list[Any], list[Any]], list[Any]]:
    return lambda a, b: [{"allOf": [option, {keyword: b}]} for option in a]


MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "required": unite,
    "properties": _both_maps,
    "patternProperties": _both_maps,
    "type": _common_types,
    "enum": lambda a, b: [v for v in a if any(same(v, w) for w in b)],
    "anyOf": _each_with("anyOf"),
    "oneOf": _each_with("oneOf"),
    "uniqueItems": lambda a, b: a or b,
    "nullable": lambda a, b: a and b,
    **dict.fromkeys(("items", "additionalProperties", "unevaluatedProperties", "propertyNames"), both),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(ANNOTATIONS, lambda a, b: a),
}
