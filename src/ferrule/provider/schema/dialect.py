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
from typing import Any, Literal

from ferrule.provider.schema import _rewrites as to
from ferrule.provider.schema._keywords import keywords
from ferrule.provider.schema._walk import Profile, Rewrite, Run
from ferrule.tool.schema.reference import Schema

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
_OPTIONS = (to.distribute, to.one_type)
_SHAPE = (to.inclusive_bounds, to.tuple_items, to.array_items, to.few_items, to.known_format, to.known_required)


def _strict(taken: str, formats: frozenset[str], *after: Rewrite) -> Profile:
    return Profile(
        keywords=_SHARED | keywords(taken),
        refs="alone",
        before=(to.fewer_words, *_OPTIONS, to.scalar_enum, *_SHAPE),
        after=(to.flat_any_of, to.closed, *after),
        formats={"string": formats},
        blocks=keywords("patternProperties if then else dependentSchemas dependencies unevaluatedProperties")
        | keywords("$dynamicRef $recursiveRef"),
        strict=True,
    )


_PROFILES: dict[Dialect, Profile] = {
    "openai": Profile(keywords=None, refs="kept", before=(to.array_items,)),
    "openai-strict": _strict(
        "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf pattern minItems maxItems",
        _FORMATS,
        to.all_required,
    ),
    "anthropic-strict": _strict("const minItems", _FORMATS | {"uri"}),
    "gemini": Profile(
        keywords=_SHARED | keywords("$id prefixItems minItems maxItems minimum maximum propertyOrdering"),
        refs="alone",
        before=(to.fewer_words, *_OPTIONS, *_SHAPE, to.patterns),
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
            *(to.fewer_words, to.nullable_option, *_OPTIONS, to.null_type, *_SHAPE, to.patterns, to.text_enum),
            *(to.one_example, to.any_value, to.bare_any_of),
        ),
        after=(to.flat_any_of, to.openapi_form),
        formats={
            "string": keywords("date-time"),
            "number": keywords("float double"),
            "integer": keywords("int32 int64"),
        },
    ),
}
