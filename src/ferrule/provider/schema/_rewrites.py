"""Rewrites: what turns a keyword that a dialect does not take into keywords that it takes.

Each one changes a single place. Those of the first part see the schema as it
was written, those of the second see its parts lowered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

from ferrule.provider.schema._walk import ANNOTATIONS, BY_TYPE, TYPED, Place, flatten, same, unite
from ferrule.tool.arguments import json_type
from ferrule.tool.reference import Schema, listed


def _takes(place: Place, keyword: str) -> bool:
    return keyword in (place.run.profile.keywords or ())


def from_older_drafts(place: Place) -> None:
    """Older drafts and OpenAPI in the words of draft 2020-12."""
    schema = place.schema
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        schema["items"] = schema.pop("additionalItems", True)
    schema.pop("additionalItems", None)
    for keyword, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(keyword), bool) and schema.pop(keyword) and bound in schema:
            schema[keyword] = schema.pop(bound)
    if "example" in schema:
        schema.setdefault("examples", [schema.pop("example")])
    if not _takes(place, "nullable") and schema.pop("nullable", False) is True and "type" in schema:
        schema["type"] = unite(listed(schema["type"]), ["null"])
        if "enum" in schema:
            schema["enum"] = unite(schema["enum"], [None])


def one_of_to_any_of(place: Place) -> None:
    """Exactly one becomes any: once widened, two may fit what only one did."""
    if "oneOf" in place.schema and "anyOf" not in place.schema:
        place.schema["anyOf"] = place.schema.pop("oneOf")
        place.note("oneOf", "made anyOf")


def nullable_option(place: Place) -> None:
    """`null` among the alternatives becomes `nullable`; one that is left is no alternative any more."""
    one_of_to_any_of(place)
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
        nullable_option(place)


def _only_null(option: Any) -> bool:
    if not isinstance(option, dict):
        return False
    schema = cast("Schema", option)
    return schema.get("type") == "null" or schema.get("enum") == [None] or schema.get("const", ...) is None


def const_to_enum(place: Place) -> None:
    """One value becomes an enum of one."""
    if "const" in place.schema:
        place.schema["enum"] = [place.schema.pop("const")]
        place.note("const", "made enum")


def infer_type(place: Place) -> None:
    """Say the type that the keywords of a place without one speak of."""
    schema = place.schema
    if schema.keys() & {"type", "anyOf", "oneOf", "$ref"}:
        return
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        kinds = list(dict.fromkeys(json_type(v) for v in values))
    else:
        kinds = [kind for kind, words in BY_TYPE.items() if kind != "integer" and words & schema.keys()]
    if len(kinds) == 1 or "enum" in schema:
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds


def possible(place: Place) -> None:
    """Leave enum values of other types out; a place without a type or a value is impossible."""
    schema = place.schema
    kinds = listed(schema["type"]) if "type" in schema else None
    if kinds is not None and "enum" in schema:
        schema["enum"] = [v for v in schema["enum"] if _has_type(v, kinds)]
    place.never |= kinds == [] or schema.get("enum") == []


def _has_type(value: Any, kinds: list[str]) -> bool:
    kind = json_type(value)
    if kind == "number" and float(value).is_integer() and "integer" in kinds:
        return True
    return kind in kinds or (kind == "integer" and "number" in kinds)


def distribute(place: Place) -> None:
    """What stands beside alternatives goes into each of them, so that each is whole."""
    schema = place.schema
    rest = {k: v for k, v in schema.items() if k not in ANNOTATIONS and k not in ("anyOf", "nullable")}
    if "anyOf" in schema and rest:
        for keyword in rest:
            del schema[keyword]
        schema["anyOf"] = [{"allOf": [option, rest]} for option in schema["anyOf"]]


def split_types(place: Place) -> None:
    """A list of types becomes alternatives, each with the keywords that concern it."""
    schema = place.schema
    if not isinstance(schema.get("type"), list):
        return
    kinds: list[str] = schema["type"]
    if _takes(place, "nullable") and "null" in kinds and len(kinds) > 1:
        kinds = [k for k in kinds if k != "null"]
        schema["nullable"] = True
        place.note("type", "null made nullable")
    if len(kinds) == 1:
        schema["type"] = kinds[0]
        return
    place.note("type", "list made anyOf")
    kept = {k: v for k, v in schema.items() if k in ANNOTATIONS or k == "nullable"}
    place.schema = {"anyOf": [_of_type(schema, k) for k in kinds], **kept}


def _of_type(schema: Schema, kind: str) -> Schema:
    if kind == "null":
        return {"type": "null"}
    others = TYPED - BY_TYPE.get(kind, frozenset())
    about = {k: v for k, v in schema.items() if k not in ANNOTATIONS and k not in others and k != "nullable"}
    return {**about, "type": kind}


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


def inclusive_bounds(place: Place) -> None:
    """Exclusive bounds become inclusive: exactly on integers, else a little wider."""
    _inclusive(place, "exclusiveMinimum", "minimum", max, lambda n: math.floor(n) + 1)
    _inclusive(place, "exclusiveMaximum", "maximum", min, lambda n: math.ceil(n) - 1)


def _inclusive(place: Place, keyword: str, bound: str, tighter: Callable[..., Any], step: Callable[[Any], int]) -> None:
    if keyword not in place.schema:
        return
    value = place.schema[keyword]
    if place.schema.get("type") == "integer":
        del place.schema[keyword]
        place.note(keyword, f"made {bound}")
        value = step(value)
    else:
        place.drop(keyword)
    place.schema[bound] = tighter(value, place.schema.get(bound, value))


def unevaluated_to_additional(place: Place) -> None:
    """Once all is in one place, what nothing else evaluates is what is additional."""
    for keyword, other in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if keyword in place.schema and not place.schema.keys() & {"anyOf", "oneOf", "if", other}:
            place.schema[other] = place.schema.pop(keyword)
            place.note(keyword, f"made {other}")


def patterns(place: Place) -> None:
    """Without patterns, what they allowed has to pass as any other property."""
    if "patternProperties" in place.schema and place.schema.get("additionalProperties", True) is not True:
        place.drop("additionalProperties")


def tuple_items(place: Place) -> None:
    """A fixed order of items becomes items of any of these kinds."""
    schema = place.schema
    if "prefixItems" not in schema:
        return
    options: list[Any] = list(schema["prefixItems"])
    length = len(options)
    place.drop("prefixItems")
    rest = schema.get("items", True)
    if rest is False or schema.get("maxItems", length + 1) <= length:
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    else:
        options.append(rest)
    distinct = [o for i, o in enumerate(options) if not any(same(o, earlier) for earlier in options[:i])]
    schema["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def array_items(place: Place) -> None:
    """An array says what its items are."""
    schema = place.schema
    if schema.get("items") is False and not isinstance(schema["items"], list):
        del schema["items"]
        length = len(schema.get("prefixItems", ()))
        schema["maxItems"] = min(length, schema.get("maxItems", length))
    if "array" in listed(schema.get("type")) and not schema.keys() & {"items", "prefixItems"}:
        schema["items"] = {}


def few_items(place: Place) -> None:
    """A least number of items can be none or one."""
    if place.schema.get("minItems", 0) > 1:
        place.drop("minItems")
        place.schema["minItems"] = 1


def known_format(place: Place) -> None:
    """Only formats the dialect knows stay."""
    known = place.run.profile.formats.get(place.schema.get("type", "string"), frozenset())
    if "format" in place.schema and place.schema["format"] not in known:
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


# -- of what is lowered --------------------------------------------------------------------------------


def flat_any_of(place: Place) -> None:
    """Alternatives of alternatives are alternatives; each once."""
    if "anyOf" in place.schema:
        inner: list[list[Schema]] = [o["anyOf"] if o.keys() == {"anyOf"} else [o] for o in place.schema["anyOf"]]
        found: list[Schema] = []
        for option in (o for options in inner for o in options):
            if not any(same(option, earlier) for earlier in found):
                found.append(option)
        place.schema["anyOf"] = found


def into_first(place: Place) -> None:
    """What would stand beside alternatives, and holds for all, is said in the first."""
    schema = place.schema
    if "anyOf" in schema:
        first = dict(schema["anyOf"][0])
        texts = [t for t in (schema.get("description"), first.get("description")) if t]
        about = {"description": " ".join(texts)} if texts else {}
        null = {"nullable": True} if "nullable" in schema else {}
        place.schema = {"anyOf": [{**first, **about, **null}, *schema["anyOf"][1:]]}


def upper_type(place: Place) -> None:
    """Type names are upper case."""
    if "type" in place.schema:
        place.schema["type"] = place.schema["type"].upper()


def must_be_typed(place: Place) -> None:
    """A place for any value cannot be strict."""
    if not place.schema.keys() & {"type", "anyOf"}:
        place.block("type", "any value")


def closed_objects(place: Place) -> None:
    """Every object is closed; one that is a free map cannot be strict."""
    schema = place.schema
    if schema.get("type") != "object":
        return
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
    options: list[Schema] = schema.get("anyOf", [])
    if schema.get("type") == "null" or any(o.get("type") == "null" for o in options):
        return schema
    if options:
        return {**schema, "anyOf": [*options, {"type": "null"}]}
    outside = {k: v for k, v in schema.items() if k in ("title", "description")}
    inside = {k: v for k, v in schema.items() if k not in outside}
    return {**outside, "anyOf": [inside, {"type": "null"}]}


def loose_cycles(place: Place, definitions: Schema) -> None:
    """A definition may contain itself only in properties that are not required."""
    direct = {name: set(_required_refs(body)) for name, body in definitions.items()}
    for name, body in definitions.items():
        back = {other for other in definitions if name in _reached(direct, other)}
        if name in back:
            _loosen(place, name, body, back)
            direct[name] = set(_required_refs(body))


def _reached(direct: dict[str, set[str]], name: str) -> set[str]:
    """The definitions that something valid under one has to contain."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for other in direct[pending.pop()] - found:
            found.add(other)
            pending.append(other)
    return found


def _loosen(place: Place, name: str, body: Schema, back: set[str]) -> None:
    for schema in list(_schemas(body)):
        bound = [n for n in schema.get("required", ()) if back & set(_required_refs(schema["properties"][n]))]
        if bound:
            place.run.notes[f"#/$defs/{name}/required: dropped for {', '.join(bound)}, which contain it"] = None
            schema["required"] = [n for n in schema["required"] if n not in bound]
            if not schema["required"]:
                del schema["required"]


def _schemas(schema: Schema, *, required: bool = False) -> Iterator[Schema]:
    """A lowered schema and those inside it; or only those inside that something valid has to have."""
    yield schema
    for keyword, value in schema.items():
        if keyword == "properties":
            parts = [p for n, p in value.items() if not required or n in schema.get("required", ())]
        else:
            parts = cast("list[Any]", value) if isinstance(value, list) else [value]
        for part in parts if keyword not in ("enum", "required") else ():
            if isinstance(part, dict):
                yield from _schemas(cast("Schema", part), required=required)


def _required_refs(schema: Schema) -> Iterator[str]:
    for part in _schemas(schema, required=True):
        if "$ref" in part:
            yield part["$ref"].removeprefix("#/$defs/")
