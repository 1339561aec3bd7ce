"""One JSON Schema, written as each provider takes it.

A lowered schema is what a model is shown; arguments are checked by the
original. So lowering may widen (a bound it cannot write goes into the
description), and narrows in one way only: an object that lists its properties
and does not say whether it takes others is read as closed where a provider
wants every object closed. Each dialect is a table: what it keeps, and the
rewrites that turn the rest into something it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from ferrule.provider.schema import _rewrites as to
from ferrule.provider.schema._walk import MAX_DEPTH, Profile, Run, keywords
from ferrule.tool.reference import References, Schema, below, listed

Dialect = Literal["json-schema", "openai", "openai-strict", "anthropic-strict", "gemini", "gemini-openapi"]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A schema in a provider's dialect.

    Args:
        schema: What to send. It may share parts with the original: do not change it.
        strict_ok: Whether it may be sent with `strict: true`. False in dialects without a strict mode,
            and where the schema cannot be made strict; then `schema` is the non-strict form.
        notes: What was changed or dropped, each as `#/path/keyword: what became of it`.

    Since 0.1.
    """

    schema: Schema
    strict_ok: bool
    notes: tuple[str, ...] = ()


def lower(schema: Mapping[str, Any], dialect: Dialect) -> Lowered:
    """Write the schema of a tool's arguments in a dialect.

    Pure and total: every valid JSON Schema has a lowered form. Definitions that
    contain themselves stay references; where a dialect has none, they are
    written out `RECURSION_DEPTH` times.

    Args:
        schema: A JSON Schema of an object; the root becomes an object if it is not.
        dialect: `json-schema` is the schema as it is. `openai` suits every provider that takes JSON Schema
            with a plain object at the root. `gemini` is for parametersJsonSchema and responseJsonSchema,
            `gemini-openapi` for parameters and responseSchema.

    Returns:
        The schema to send, whether it is strict, and what was changed.

    Since 0.1.
    """
    root = dict(schema)
    if dialect == "json-schema":
        notes = () if root.get("type") == "object" else ("#/type: made object",)
        return Lowered(root if not notes else {**root, "type": "object"}, False, notes)
    profile = _PROFILES[dialect]
    run = Run(root, profile)
    lowered = run.document()
    if not run.obstacles:
        return Lowered(lowered, profile.strict, tuple(run.notes))
    plain = lower(root, "openai")
    return Lowered(plain.schema, False, (*run.obstacles, *plain.notes))


# -- the dialects -----------------------------------------------------------------------------------------------

_FORMATS = keywords("date-time time date duration email hostname ipv4 ipv6 uuid")
_SHARED = keywords("type enum anyOf $ref properties required additionalProperties items title description format")
_BLOCKS = keywords(
    "patternProperties if then else dependentSchemas dependencies unevaluatedProperties $dynamicRef $recursiveRef"
)
_WHOLE_OPTIONS = (to.infer_type, to.possible, to.distribute, to.split_types)

_PROFILES: dict[Dialect, Profile] = {
    "openai": Profile(keywords=None, refs="kept", before=(to.array_items,)),
    "openai-strict": Profile(
        keywords=_SHARED
        | keywords("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf pattern minItems maxItems"),
        refs="alone",
        before=(
            *(to.from_older_drafts, to.one_of_to_any_of, to.const_to_enum, *_WHOLE_OPTIONS),
            *(to.unevaluated_to_additional, to.scalar_enum, to.tuple_items, to.array_items),
            *(to.known_format, to.known_required),
        ),
        after=(to.flat_any_of, to.must_be_typed, to.closed_objects, to.all_required),
        formats={"string": _FORMATS},
        blocks=_BLOCKS,
        strict=True,
    ),
    "anthropic-strict": Profile(
        keywords=_SHARED | keywords("const minItems"),
        refs="alone",
        before=(
            *(to.from_older_drafts, to.one_of_to_any_of, *_WHOLE_OPTIONS),
            *(to.unevaluated_to_additional, to.scalar_enum, to.tuple_items, to.array_items),
            *(to.few_items, to.known_format, to.known_required),
        ),
        after=(to.flat_any_of, to.must_be_typed, to.closed_objects),
        formats={"string": _FORMATS | {"uri"}},
        blocks=_BLOCKS,
        strict=True,
    ),
    "gemini": Profile(
        keywords=_SHARED | keywords("$id prefixItems minItems maxItems minimum maximum propertyOrdering"),
        refs="alone",
        before=(
            *(to.from_older_drafts, to.one_of_to_any_of, to.const_to_enum, *_WHOLE_OPTIONS),
            *(to.unevaluated_to_additional, to.inclusive_bounds, to.array_items, to.patterns, to.known_required),
        ),
        after=(to.flat_any_of,),
        finish=to.loose_cycles,
    ),
    "gemini-openapi": Profile(
        keywords=keywords(
            "type format enum nullable anyOf items properties required description title default example pattern "
            "minimum maximum minItems maxItems minLength maxLength minProperties maxProperties propertyOrdering"
        ),
        refs="inlined",
        before=(
            *(to.nullable_option, to.from_older_drafts, to.const_to_enum, *_WHOLE_OPTIONS, to.null_type),
            *(to.unevaluated_to_additional, to.inclusive_bounds, to.tuple_items, to.array_items, to.patterns),
            *(to.known_format, to.text_enum, to.known_required, to.one_example, to.any_value, to.bare_any_of),
        ),
        after=(to.flat_any_of, to.upper_type, to.into_first),
        formats={
            "string": keywords("date-time"),
            "number": keywords("float double"),
            "integer": keywords("int32 int64"),
        },
    ),
}


# -- the way back -----------------------------------------------------------------------------------------------


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
    return cast("dict[str, Any]", _without_nulls(References(root), {"anyOf": [root]}, arguments, 0))


def _without_nulls(find: References, schema: Schema, data: Any, depth: int) -> Any:
    if not isinstance(data, dict | list) or depth > MAX_DEPTH:
        return cast("object", data)
    values = cast("list[Any] | Schema", data)
    views = list(find.views(schema, lambda _, inner: inner if _may_describe(inner, values) else None))
    if isinstance(values, list):
        return [_without_nulls(find, below(views, i), v, depth + 1) for i, v in enumerate(values)]
    always = {name for view in find.views(schema, sure=True) for name in view.get("required", ())}
    return {
        name: _without_nulls(find, below(views, name), value, depth + 1)
        for name, value in values.items()
        if value is not None or name in always or _null_stays(find, views, name)
    }


def _may_describe(schema: Schema, data: Any) -> bool:
    """Whether a tag in the data does not speak against a schema."""
    for name, part in schema.get("properties", {}).items():
        value = cast("Schema", data).get(name) if isinstance(data, dict) else None
        if value is not None and isinstance(part, dict):
            tags: list[Any] = [part["const"]] if "const" in part else cast("Schema", part).get("enum", [value])
            if value not in tags:
                return False
    return True


def _null_stays(find: References, views: list[Schema], name: str) -> bool:
    """Whether nobody describes the property, somebody lets it be null, or all who describe it require it."""
    saying = [v for v in views if name in v.get("properties", {})]
    return all(name in v.get("required", ()) for v in saying) or any(
        _admits_null(find, v["properties"][name], {}) for v in saying
    )


def _admits_null(find: References, schema: Any, known: dict[str, bool]) -> bool:
    """Whether null is valid; `known` says it of the references on the way."""
    if not isinstance(schema, dict):
        return schema is not False
    here = cast("Schema", schema)
    if here.get("nullable") is True:
        return True
    if "null" not in listed(here.get("type", "null")) or None not in here.get("enum", [here.get("const")]):
        return False
    found = find.locate(here["$ref"]) if "$ref" in here else None
    if found is not None and found[0] not in known:
        known[found[0]] = False  # a reference to itself does not make null valid
        known[found[0]] = _admits_null(find, found[1], known)
    if found is not None and not known[found[0]]:
        return False
    options = [here[k] for k in ("anyOf", "oneOf") if k in here]
    return all(_admits_null(find, s, known) for s in here.get("allOf", ())) and all(
        any(_admits_null(find, o, known) for o in each) for each in options
    )
