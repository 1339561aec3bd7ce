"""Rewrites: what turns a keyword that a dialect does not take into keywords that it takes.

Each one changes a single place. Those of the first part see the schema as it
was written, those of the second see its parts lowered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ferrule.provider.schema._keywords import ANNOTATIONS, BY_TYPE, TYPED, distinct, unite
from ferrule.provider.schema._walk import Place, flatten
from ferrule.tool.schema.arguments import json_type
from ferrule.tool.schema.reference import Schema, is_list, is_schema, listed, subschemas

NULL: Schema = {"type": "null"}


# A keyword, another one that says it more widely, and those beside which it does not: exactly one becomes any, for once
# widened two may fit; what nothing else evaluates is what is additional, once all is in one place.
_WIDER = (
    ("oneOf", "anyOf", {"anyOf"}),
    ("unevaluatedProperties", "additionalProperties", {"anyOf", "if", "additionalProperties"}),
    ("unevaluatedItems", "items", {"anyOf", "if", "items"}),
)


def fewer_words(place: Place) -> None:
    """Older drafts and OpenAPI in the words of draft 2020-12, and in fewer of them."""
    schema = place.schema
    if is_list(schema.get("items")):
        schema["prefixItems"] = schema.pop("items")
        schema["items"] = schema.pop("additionalItems", True)
    schema.pop("additionalItems", None)
    for keyword, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(keyword), bool) and schema.pop(keyword) and bound in schema:
            schema[keyword] = schema.pop(bound)
    if "example" in schema:
        schema.setdefault("examples", [schema.pop("example")])
    if not place.takes("nullable") and schema.pop("nullable", False) is True and "type" in schema:
        schema["type"] = unite(listed(schema["type"]), ["null"])
        if "enum" in schema:
            schema["enum"] = unite(schema["enum"], [None])
    if "const" in schema and not place.takes("const"):
        schema["enum"] = [schema.pop("const")]
        place.note("const", "made enum")
    for keyword, wider, beside in _WIDER:
        if keyword in schema and not beside & schema.keys():
            schema[wider] = schema.pop(keyword)
            place.note(keyword, f"made {wider}")


def nullable_option(place: Place) -> None:
    """`null` among the alternatives becomes `nullable`; one that is left is no alternative any more."""
    options: list[Any] = place.schema.get("anyOf", [])
    left = [o for o in options if not _only_null(o)]
    if not left:
        return
    if len(left) < len(options) and "null" in listed(place.schema.get("type", "null")):
        place.schema["nullable"] = True
        place.note("anyOf", "null made nullable")
    place.schema["anyOf"] = left
    if len(left) == 1:
        flatten(place)
        fewer_words(place)
        nullable_option(place)


def _only_null(option: Any) -> bool:
    return is_schema(option) and (
        option.get("type") == "null" or option.get("enum") == [None] or option.get("const", ...) is None
    )


def distribute(place: Place) -> None:
    """What stands beside alternatives goes into each of them, so that each is whole."""
    schema = place.schema
    rest = {k: v for k, v in schema.items() if k not in ANNOTATIONS and k not in ("anyOf", "nullable")}
    if "anyOf" in schema and rest:
        place.schema = {k: v for k, v in schema.items() if k not in rest}
        place.schema["anyOf"] = [{"allOf": [option, rest]} for option in schema["anyOf"]]


def one_type(place: Place) -> None:
    """One type, said or meant, and only enum values of it; several become alternatives, each with what concerns it."""
    schema = place.schema
    kinds = listed(schema["type"]) if "type" in schema else _meant(schema)
    if "enum" in schema:
        schema["enum"] = [v for v in schema["enum"] if _has_type(v, kinds)]
    place.never |= schema.get("type") == [] or schema.get("enum") == []
    if not kinds or place.never:
        return
    if place.takes("nullable") and "null" in kinds and len(kinds) > 1:
        kinds = [k for k in kinds if k != "null"]
        schema["nullable"] = True
        place.note("type", "null made nullable")
    if len(kinds) == 1:
        schema["type"] = kinds[0]
        return
    place.note("type", "list made anyOf")
    beside = {k: v for k, v in schema.items() if k in ANNOTATIONS or k == "nullable"}
    whole = {k: v for k, v in schema.items() if k not in beside}
    place.schema = {"anyOf": [_of_type(whole, kind) for kind in kinds], **beside}


def _meant(schema: Schema) -> list[str]:
    """The types that the keywords of a place without one speak of; none if that is not clear."""
    if "enum" in schema or "const" in schema:
        return list(dict.fromkeys(map(json_type, schema["enum"] if "enum" in schema else [schema["const"]])))
    kinds = [kind for kind, words in BY_TYPE.items() if kind != "integer" and words & schema.keys()]
    return kinds if len(kinds) == 1 and "anyOf" not in schema else []


def _has_type(value: Any, kinds: list[str]) -> bool:
    kind = json_type(value)
    whole = kind == "number" and float(value).is_integer()
    return kind in kinds or (kind == "integer" and "number" in kinds) or (whole and "integer" in kinds)


def _of_type(schema: Schema, kind: str) -> Schema:
    others = TYPED - BY_TYPE.get(kind, frozenset())
    return NULL if kind == "null" else {**{k: v for k, v in schema.items() if k not in others}, "type": kind}


def scalar_enum(place: Place) -> None:
    """An enum of lists or objects is told instead."""
    if any(isinstance(v, list | dict) for v in place.schema.get("enum", ())):
        place.drop("enum")


def text_enum(place: Place) -> None:
    """Only text can be an enum here; other values are told, so that the model still sends them as what they are."""
    schema = place.schema
    if "enum" not in schema:
        return
    if None in schema["enum"]:
        schema["nullable"] = True
        schema["enum"] = [v for v in schema["enum"] if v is not None]
    if schema.get("type") == "string" and "" not in schema["enum"]:
        schema["format"] = "enum"
    else:
        place.drop("enum")


def null_type(place: Place) -> None:
    """A place that is always null becomes nullable text."""
    if place.schema.get("type") == "null":
        place.schema = {**place.schema, "type": "string", "nullable": True}
        place.schema.pop("enum", None)
        place.note("type", "null made nullable")
        place.words.append("always null")


_INCLUSIVE: dict[str, tuple[str, Callable[..., Any], Callable[[Any], int]]] = {
    "exclusiveMinimum": ("minimum", max, lambda n: math.floor(n) + 1),
    "exclusiveMaximum": ("maximum", min, lambda n: math.ceil(n) - 1),
}


def inclusive_bounds(place: Place) -> None:
    """Exclusive bounds become inclusive where only those are taken: exactly on integers, else a little wider."""
    schema = place.schema
    for keyword, (bound, tighter, step) in _INCLUSIVE.items():
        if keyword in schema and place.takes(bound) and not place.takes(keyword):
            value = schema[keyword]
            if schema.get("type") == "integer":
                del schema[keyword]
                place.note(keyword, f"made {bound}")
                value = step(value)
            else:
                place.drop(keyword)
            schema[bound] = tighter(value, schema.get(bound, value))


def patterns(place: Place) -> None:
    """Without patterns, what they allowed has to pass as any other property."""
    if "patternProperties" in place.schema and place.schema.get("additionalProperties", True) is not True:
        place.drop("additionalProperties")


def tuple_items(place: Place) -> None:
    """A fixed order of items becomes items of any of these kinds."""
    schema = place.schema
    if "prefixItems" not in schema or place.takes("prefixItems"):
        return
    options: list[Any] = list(schema["prefixItems"])
    length = len(options)
    place.drop("prefixItems")
    rest = schema.get("items", True)
    if rest is False or schema.get("maxItems", length + 1) <= length:
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    else:
        options.append(rest)
    options = distinct(options)
    schema["items"] = options[0] if len(options) == 1 else {"anyOf": options}


def array_items(place: Place) -> None:
    """An array says what its items are."""
    schema = place.schema
    if schema.get("items") is False:
        del schema["items"]
        length = len(schema.get("prefixItems", ()))
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    if "array" in listed(schema.get("type")) and not schema.keys() & {"items", "prefixItems"}:
        schema["items"] = {}


def few_items(place: Place) -> None:
    """Where there is no most, a least number of items can be none or one."""
    if place.schema.get("minItems", 0) > 1 and not place.takes("maxItems"):
        place.drop("minItems")
        place.schema["minItems"] = 1


def known_format(place: Place) -> None:
    """Only formats the dialect knows stay."""
    known = place.run.profile.formats
    kind = place.schema.get("type", "string")
    if "format" in place.schema and known is not None and place.schema["format"] not in known.get(kind, ()):
        place.drop("format")


def known_required(place: Place) -> None:
    """Only properties that are described can be required."""
    schema = place.schema
    unknown = [n for n in schema.get("required", ()) if n not in schema.get("properties", {})]
    if unknown:
        place.note("required", f"dropped for {', '.join(unknown)}")
        place.words.append(f"needs {' and '.join(unknown)}")
        schema["required"] = [n for n in schema["required"] if n not in unknown]
    if schema.get("required") == []:
        del schema["required"]


def one_example(place: Place) -> None:
    """The first of the examples becomes the example."""
    if place.schema.get("examples"):
        place.schema["example"] = place.schema.pop("examples")[0]
        place.note("examples", "the first made example")


def any_value(place: Place) -> None:
    """A place without a type is refused; these are the types there are."""
    if not place.schema.keys() & {"type", "anyOf"}:
        scalars: list[Schema] = [{"type": kind} for kind in ("string", "number", "boolean", "object")]
        place.schema["anyOf"] = [*scalars, {"type": "array", "items": {"anyOf": scalars}}]
        place.schema["nullable"] = True
        place.note("type", "any value written as anyOf")


def bare_any_of(place: Place) -> None:
    """Nothing may stand beside alternatives, not even an annotation."""
    if "anyOf" in place.schema:
        for keyword in [k for k in place.schema if k not in ("anyOf", "nullable", "description")]:
            place.drop(keyword)


# -- of what is lowered -----------------------------------------------------------------------------------------


def flat_any_of(place: Place) -> None:
    """Alternatives of alternatives are alternatives; each once."""
    if "anyOf" in place.schema:
        inner: list[list[Schema]] = [o["anyOf"] if o.keys() == {"anyOf"} else [o] for o in place.schema["anyOf"]]
        place.schema["anyOf"] = distinct([option for options in inner for option in options])


def openapi_form(place: Place) -> None:
    """Type names are upper case; what would stand beside alternatives, and holds for all, is said in the first."""
    schema = place.schema
    if "type" in schema:
        schema["type"] = schema["type"].upper()
    if "anyOf" in schema:
        first = dict(schema["anyOf"][0])
        texts = [t for t in (schema.get("description"), first.get("description")) if t]
        about = {"description": " ".join(texts)} if texts else {}
        null = {"nullable": True} if "nullable" in schema else {}
        place.schema = {"anyOf": [{**first, **about, **null}, *schema["anyOf"][1:]]}


def closed(place: Place) -> None:
    """Every place has a type and every object is closed; any value and a free map cannot be strict."""
    schema = place.schema
    if not schema.keys() & {"type", "anyOf"}:
        place.block("type", "any value")
    if schema.get("type") == "object":
        extra = schema.get("additionalProperties")
        if extra not in (None, False) or (extra is None and "properties" not in schema):
            place.block("additionalProperties", "any other properties")
        place.schema = {**schema, "properties": schema.get("properties", {}), "additionalProperties": False}


def all_required(place: Place) -> None:
    """Every property is required; one that may be left out may be null instead."""
    schema = place.schema
    if schema.get("type") != "object":
        return
    properties: Schema = schema["properties"]
    optional = [n for n in properties if n not in schema.get("required", ())]
    if optional:
        place.note("required", f"made nullable instead of optional: {', '.join(optional)}")
    schema["properties"] = {n: _or_null(p) if n in optional else p for n, p in properties.items()}
    schema["required"] = list(properties)


def _or_null(schema: Schema) -> Schema:
    told = {k: v for k, v in schema.items() if k in ("title", "description")}
    inside = {k: v for k, v in schema.items() if k not in told}
    options: list[Schema] = inside.get("anyOf", [inside])
    if any(o.get("type") == "null" for o in options):
        return schema
    return {**told, "anyOf": [*options, NULL]}


def loose_cycles(place: Place, definitions: Schema) -> None:
    """A definition may contain itself only in properties that are not required."""
    needs = {name: _needed(body) for name, body in definitions.items()}
    for name, body in definitions.items():
        if name not in _reached(needs, name):
            continue
        back = {other for other in definitions if name in _reached(needs, other)}
        for schema in list(_inside(body)):
            bound = [n for n in schema.get("required", ()) if back & _needed(schema["properties"][n])]
            if bound:
                place.run.notes[f"#/$defs/{name}/required: dropped for {', '.join(bound)}, which contain it"] = None
                schema["required"] = [n for n in schema["required"] if n not in bound]
                if not schema["required"]:
                    del schema["required"]
        needs[name] = _needed(body)


def _reached(needs: dict[str, set[str]], name: str) -> set[str]:
    """The definitions that something valid under one has to contain."""
    found: set[str] = set()
    pending = [name]
    while pending:
        new = needs[pending.pop()] - found
        found |= new
        pending += new
    return found


def _needed(schema: Schema) -> set[str]:
    """The definitions that a schema itself makes necessary."""
    return {s["$ref"].removeprefix("#/$defs/") for s in _inside(schema, required=True) if "$ref" in s}


def _inside(schema: Schema, *, required: bool = False) -> Iterator[Schema]:
    """A lowered schema and those inside it; or only those inside that something valid has to have."""
    yield schema
    for keyword, name, part in subschemas(schema):
        free = keyword == "properties" and name not in schema.get("required", ())
        if is_schema(part) and not (required and free):
            yield from _inside(part, required=required)
