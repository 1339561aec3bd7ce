"""Places that no JSON can fill: a type may have a JSON Schema and yet take no value that comes as JSON.

What stands behind a validator of the user's is left alone, for that may make
anything of what was sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Flag
from typing import Any, cast

from ferrule.tool.schema.reference import Schema, is_schema
from ferrule.tool.schema.strict import MAPS, PARTS, is_pydantics

_FROM_JSON = {"json-or-python": ("json_schema",), "lax-or-strict": ("lax_schema",)}
"""Nodes of which only one part sees what was sent."""
_FUNCTIONS = ("function-before", "function-wrap", "function-plain")
_NO_TEXT = {
    **dict.fromkeys(("tuple", "named-tuple", "call"), "a tuple"),
    **dict.fromkeys(("set", "frozenset"), "a set"),
    **dict.fromkeys(("list", "generator"), "a list"),
    **dict.fromkeys((*MAPS, "typed-dict"), "a dict"),
    **dict.fromkeys(("model", "dataclass"), "an object"),
    **dict.fromkeys(("is-subclass", "is-instance"), "an object"),
    "none": "None",
}
"""What is never read from text."""


def refuse_unfillable(core: Any) -> None:
    """Refuse a type with a place that no JSON can fill.

    Args:
        core: `TypeAdapter(…).core_schema`.

    Raises:
        TypeError: Saying what to use instead.

    Since 0.1.
    """
    named: dict[str, Schema] = {}
    todo: list[Any] = [core]
    nodes: list[Schema] = []
    while todo:
        part = todo.pop()
        if isinstance(part, (list, tuple)):
            todo += cast("list[Any]", part)
        elif isinstance(part, dict):
            node = cast("Schema", part)
            if not isinstance(node.get("type"), str):  # a map, in which even a field may be named "type"
                todo += node.values()
            elif not _is_users(node):
                nodes.append(node)
                todo += _parts(node)
                named.setdefault(node.get("ref", ""), node)
    for node in nodes:
        why = _why_not(node, named)
        if why is not None:
            raise TypeError(why)


def _is_users(node: Schema) -> bool:
    return node["type"] in _FUNCTIONS and not is_pydantics(node["function"]["function"])


def _parts(node: Schema) -> Iterable[Any]:
    """The parts of a node that see what was sent."""
    if node["type"] == "chain":
        return node["steps"][:1]
    return [node[k] for k in _FROM_JSON.get(node["type"], PARTS) if k in node and k != "python_schema"]


def _why_not(node: Schema, named: dict[str, Schema]) -> str | None:
    kind = node["type"]
    if kind == "is-subclass":
        return "no JSON value is a class: use its name, a Literal for example"
    if kind == "is-instance":
        return f"no JSON value is an instance of {getattr(node['cls'], '__name__', node['cls'])}"
    if kind in MAPS:
        other = _no_text(node.get("keys_schema", {"type": "any"}), named)
        if other is not None:
            return f"keys of a JSON object are text, and not {other}: use a list of pairs, list[tuple[K, V]]"
    return None


def _no_text(key: Schema, named: dict[str, Schema]) -> str | None:
    """What a key is that is never read from text; None when some text stands for one."""
    kind = key["type"]
    if kind == "definition-ref":
        target = named.get(key["schema_ref"])
        return None if target is None else _no_text(target, named)
    if _is_users(key):
        return None
    if kind == "literal":
        return None if any(isinstance(getattr(e, "value", e), str) for e in key["expected"]) else "a number"
    if kind == "enum":
        takes_text = any(isinstance(m.value, str) for m in key["members"]) or "sub_type" in key
        return None if takes_text and not issubclass(key["cls"], Flag) else "a member of an enum without text"
    if kind in ("union", "tagged-union"):
        choices: Any = key["choices"]
        each: Iterable[Any] = choices.values() if kind == "tagged-union" else choices
        found = [_no_text(cast("Any", c[0] if isinstance(c, tuple) else c), named) for c in each]
        return None if None in found else found[0]
    if kind in _NO_TEXT and not key.get("root_model"):
        return _NO_TEXT[kind]
    inner = next((p for p in _parts(key) if is_schema(p)), None)
    return None if inner is None else _no_text(inner, named)
