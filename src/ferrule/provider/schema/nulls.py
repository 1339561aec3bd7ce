"""Arguments on their way back from a strict dialect, where a null may stand for "left out"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferrule.errors import JSONSyntaxError
from ferrule.provider.schema._walk import MAX_DEPTH
from ferrule.strict_json import dumps, parse
from ferrule.tool.schema.reference import References, Schema, below, is_list, is_schema, listed


def drop_nulls(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without the nulls that stand for "left out" in a strict dialect.

    A null goes where the original schema describes the property, lets it be
    left out and does not let it be null. Every other value stays as it is, so a
    null that is wrong is still reported.

    Args:
        schema: The original schema, not the lowered one.
        arguments: What the model sent; not changed.

    Returns:
        A copy without those nulls, at every depth.

    Since 0.1.
    """
    root = dict(schema)
    return _without_nulls(References(root), {"anyOf": [root]}, dict(arguments), 0)


def without_nulls(schema: Mapping[str, Any], text: str) -> str:
    """JSON text without the nulls that stand for "left out" in a strict dialect.

    Args:
        schema: The original schema, not the lowered one.
        text: What the model wrote: arguments, or an answer.

    Returns:
        The text itself when there is no such null, and when it is no JSON object.

    Since 0.1.
    """
    if "null" not in text:
        return text
    try:
        data: Any = parse(text, exact=True)
    except JSONSyntaxError:
        return text  # the check says what is wrong with it
    if not is_schema(data):
        return text
    kept = drop_nulls(schema, data)
    return text if kept == data else dumps(kept).decode()


def _without_nulls(find: References, schema: Schema, data: Any, depth: int) -> Any:
    if isinstance(data, str | int | float | None) or depth > MAX_DEPTH:
        return data
    views = list(find.views(schema, lambda _, inner: inner if _may_describe(inner, data) else None))
    if is_list(data):
        return [_without_nulls(find, below(views, i), v, depth + 1) for i, v in enumerate(data)]
    sure = find.views(schema, sure=True) if None in data.values() else ()
    always = {name for view in sure for name in view.get("required", ())}
    return {
        name: _without_nulls(find, below(views, name), value, depth + 1)
        for name, value in data.items()
        if value is not None or name in always or _null_stays(find, views, name)
    }


def _may_describe(schema: Schema, data: Any) -> bool:
    """Whether a tag in the data does not speak against a schema."""
    for name, part in schema.get("properties", {}).items() if is_schema(data) else ():
        value = data.get(name)
        if value is not None and is_schema(part):
            tags: list[Any] = [part["const"]] if "const" in part else part.get("enum", [value])
            if value not in tags:
                return False
    return True


def _null_stays(find: References, views: list[Schema], name: str) -> bool:
    """Whether nobody describes the property, somebody lets it be null, or all who describe it require it."""
    saying = [v for v in views if name in v.get("properties", {})]
    if all(name in v.get("required", ()) for v in saying):
        return True
    return any(_admits_null(find, v["properties"][name], {}) for v in saying)


def _admits_null(find: References, schema: Any, known: dict[str, bool]) -> bool:
    """Whether null is valid; `known` says it of the references on the way."""
    if not is_schema(schema):
        return schema is not False
    if schema.get("nullable") is True:
        return True
    if "null" not in listed(schema.get("type", "null")) or None not in schema.get("enum", [schema.get("const")]):
        return False
    pointer, target = find.locate(schema.get("$ref")) or ("", True)
    if pointer not in known:
        known[pointer] = False  # a reference to itself does not make null valid
        known[pointer] = _admits_null(find, target, known)
    return (
        known[pointer]
        and all(_admits_null(find, s, known) for s in schema.get("allOf", ()))
        and all(any(_admits_null(find, o, known) for o in schema[k]) for k in ("anyOf", "oneOf") if k in schema)
    )
