from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, cast, get_args

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ferrule.provider.schema import MAX_PLACES, RECURSION_DEPTH, Dialect, drop_nulls, lower
from ferrule.tool.schema.arguments import SchemaParameters

Schema = dict[str, Any]

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
STRICT: tuple[Dialect, ...] = ("openai-strict", "anthropic-strict")
GEMINI: tuple[Dialect, ...] = ("gemini", "gemini-openapi")

# Written apart from the library's own tables, so that a slip in one shows.
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_TAKEN: dict[Dialect, str] = {
    "openai-strict": (
        "type enum anyOf $ref $defs properties required additionalProperties items title description format minimum "
        "maximum exclusiveMinimum exclusiveMaximum multipleOf pattern minItems maxItems"
    ),
    "anthropic-strict": (
        "type enum const anyOf allOf $ref $defs properties required additionalProperties items minItems title "
        "description format"
    ),
    "gemini": (
        "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum "
        "anyOf oneOf properties additionalProperties required propertyOrdering"
    ),
    "gemini-openapi": (
        "format enum nullable anyOf items properties required description title default example pattern minimum "
        "maximum minItems maxItems minLength maxLength minProperties maxProperties propertyOrdering type"
    ),
}
ALLOWED = {dialect: set(taken.split()) for dialect, taken in _TAKEN.items()}


def tool(properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def place(schema: Any, dialect: Dialect, **more: Any) -> Any:
    """What becomes of one required property."""
    found = lower(tool({"x": schema}, required=["x"], **more), dialect).schema
    return found["properties"]["x"]


def places(schema: Schema) -> Iterator[Schema]:
    """Every schema inside a lowered one."""
    yield schema
    parts: list[Any] = [schema[k] for k in ("items", "additionalProperties", "not", "contains") if k in schema]
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        parts += schema.get(keyword, [])
    for keyword in ("properties", "$defs"):
        parts += schema.get(keyword, {}).values()
    for part in parts:
        if isinstance(part, dict):
            yield from places(cast("Schema", part))


def accepts(schema: Schema, value: Any) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(value)


NULL = {"type": "null"}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
SAME: Any = object()

# keyword, schema of a required property, then what it becomes; SAME where it stays, None where it cannot be strict.
TABLE: list[tuple[str, Schema, Any, Any, Any, Any]] = [
    ("plain", STRING, SAME, SAME, SAME, {"type": "STRING"}),
    (
        "type list with null",
        {"type": ["string", "null"], "description": "A name."},
        {"anyOf": [STRING, NULL], "description": "A name."},
        {"anyOf": [STRING, NULL], "description": "A name."},
        {"anyOf": [STRING, NULL], "description": "A name."},
        {"type": "STRING", "nullable": True, "description": "A name."},
    ),
    (
        "type list with bounds of each",
        {"type": ["string", "integer"], "pattern": "^a", "minimum": 2},
        {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "integer", "minimum": 2}]},
        {
            "anyOf": [
                {"type": "string", "description": "(pattern ^a)"},
                {"type": "integer", "description": "(minimum 2)"},
            ]
        },
        {"anyOf": [{"type": "string", "description": "(pattern ^a)"}, {"type": "integer", "minimum": 2}]},
        {"anyOf": [{"type": "STRING", "pattern": "^a"}, {"type": "INTEGER", "minimum": 2}]},
    ),
    (
        "enum of both members of allOf",
        {"allOf": [{"enum": [1, True, "a"]}, {"enum": [1.0, "a"]}]},
        {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "string", "enum": ["a"]}]},
        {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "string", "enum": ["a"]}]},
        {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "string", "enum": ["a"]}]},
        {
            "anyOf": [
                {"type": "INTEGER", "description": "(one of [1])"},
                {"type": "STRING", "format": "enum", "enum": ["a"]},
            ]
        },
    ),
    ("type list of one", {"type": ["string"]}, STRING, STRING, STRING, {"type": "STRING"}),
    ("type null", NULL, SAME, SAME, SAME, {"type": "STRING", "nullable": True, "description": "(always null)"}),
    (
        "const",
        {"const": "a"},
        {"type": "string", "enum": ["a"]},
        {"type": "string", "const": "a"},
        {"type": "string", "enum": ["a"]},
        {"type": "STRING", "format": "enum", "enum": ["a"]},
    ),
    (
        "enum",
        {"enum": ["a", "b"]},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "STRING", "format": "enum", "enum": ["a", "b"]},
    ),
    (
        "enum of numbers",
        {"type": "integer", "enum": [1, 2]},
        SAME,
        SAME,
        SAME,
        {"type": "INTEGER", "description": "(one of [1,2])"},
    ),
    (
        "enum with null",
        {"enum": ["a", None]},
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]},
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]},
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]},
        {"type": "STRING", "format": "enum", "enum": ["a"], "nullable": True},
    ),
    (
        "enum with other types than its own",
        {"type": "string", "enum": ["a", 1]},
        {"type": "string", "enum": ["a"]},
        {"type": "string", "enum": ["a"]},
        {"type": "string", "enum": ["a"]},
        {"type": "STRING", "format": "enum", "enum": ["a"]},
    ),
    (
        "exclusive bounds of an integer",
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
        SAME,
        {"type": "integer", "description": "(above 0; below 10)"},
        {"type": "integer", "minimum": 1, "maximum": 9},
        {"type": "INTEGER", "minimum": 1, "maximum": 9},
    ),
    (
        "exclusive bound of an integer between integers",
        {"type": "integer", "exclusiveMinimum": 0.5, "minimum": 3},
        SAME,
        {"type": "integer", "description": "(above 0.5; minimum 3)"},
        {"type": "integer", "minimum": 3},
        {"type": "INTEGER", "minimum": 3},
    ),
    (
        "exclusive bound of a number",
        {"type": "number", "exclusiveMinimum": 0},
        SAME,
        {"type": "number", "description": "(above 0)"},
        {"type": "number", "minimum": 0, "description": "(above 0)"},
        {"type": "NUMBER", "minimum": 0, "description": "(above 0)"},
    ),
    (
        "exclusive bound of draft 4",
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        {"type": "integer", "exclusiveMinimum": 0},
        {"type": "integer", "description": "(above 0)"},
        {"type": "integer", "minimum": 1},
        {"type": "INTEGER", "minimum": 1},
    ),
    (
        "multipleOf",
        {"type": "integer", "multipleOf": 5, "description": "Step."},
        SAME,
        {"type": "integer", "description": "Step. (multiple of 5)"},
        {"type": "integer", "description": "Step. (multiple of 5)"},
        {"type": "INTEGER", "description": "Step. (multiple of 5)"},
    ),
    (
        "length",
        {"type": "string", "minLength": 1, "maxLength": 9},
        {"type": "string", "description": "(min length 1; max length 9)"},
        {"type": "string", "description": "(min length 1; max length 9)"},
        {"type": "string", "description": "(min length 1; max length 9)"},
        {"type": "STRING", "minLength": 1, "maxLength": 9},
    ),
    (
        "pattern",
        {"type": "string", "pattern": "^a$"},
        SAME,
        {"type": "string", "description": "(pattern ^a$)"},
        {"type": "string", "description": "(pattern ^a$)"},
        {"type": "STRING", "pattern": "^a$"},
    ),
    (
        "known format",
        {"type": "string", "format": "date-time"},
        SAME,
        SAME,
        SAME,
        {"type": "STRING", "format": "date-time"},
    ),
    (
        "format uri",
        {"type": "string", "format": "uri"},
        {"type": "string", "description": "(format uri)"},
        SAME,
        SAME,
        {"type": "STRING", "description": "(format uri)"},
    ),
    (
        "default",
        {"type": "boolean", "default": False},
        {"type": "boolean", "description": "(default false)"},
        {"type": "boolean", "description": "(default false)"},
        {"type": "boolean", "description": "(default false)"},
        {"type": "BOOLEAN", "default": False},
    ),
    (
        "examples",
        {"type": "string", "examples": ["a", "b"]},
        {"type": "string", "description": '(for example ["a","b"])'},
        {"type": "string", "description": '(for example ["a","b"])'},
        {"type": "string", "description": '(for example ["a","b"])'},
        {"type": "STRING", "example": "a"},
    ),
    (
        "title, comment, flags",
        {"type": "string", "title": "T", "$comment": "c", "deprecated": True, "readOnly": False, "x-own": 1},
        {"type": "string", "title": "T", "description": "(deprecated)"},
        {"type": "string", "title": "T", "description": "(deprecated)"},
        {"type": "string", "title": "T", "description": "(deprecated)"},
        {"type": "STRING", "title": "T", "description": "(deprecated)"},
    ),
    (
        "array bounds",
        {"type": "array", "items": STRING, "minItems": 2, "maxItems": 3, "uniqueItems": True},
        {"type": "array", "items": STRING, "minItems": 2, "maxItems": 3, "description": "(unique items)"},
        {
            "type": "array",
            "items": STRING,
            "minItems": 1,
            "description": "(min items 2; max items 3; unique items)",
        },
        {"type": "array", "items": STRING, "minItems": 2, "maxItems": 3, "description": "(unique items)"},
        {
            "type": "ARRAY",
            "items": {"type": "STRING"},
            "minItems": 2,
            "maxItems": 3,
            "description": "(unique items)",
        },
    ),
    (
        "tuple",
        {"type": "array", "prefixItems": [STRING, INTEGER, STRING], "minItems": 1, "maxItems": 3},
        {
            "type": "array",
            "items": {"anyOf": [STRING, INTEGER]},
            "minItems": 1,
            "maxItems": 3,
            "description": '(in this order [{"type":"string"},{"type":"integer"},{"type":"string"}])',
        },
        {
            "type": "array",
            "items": {"anyOf": [STRING, INTEGER]},
            "minItems": 1,
            "description": '(in this order [{"type":"string"},{"type":"integer"},{"type":"string"}]; max items 3)',
        },
        SAME,
        {
            "type": "ARRAY",
            "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
            "minItems": 1,
            "maxItems": 3,
            "description": '(in this order [{"type":"string"},{"type":"integer"},{"type":"string"}])',
        },
    ),
    (
        "tuple of draft 7",
        {"type": "array", "items": [STRING], "additionalItems": False},
        {"type": "array", "items": STRING, "maxItems": 1, "description": '(in this order [{"type":"string"}])'},
        {
            "type": "array",
            "items": STRING,
            "description": '(in this order [{"type":"string"}]; max items 1)',
        },
        {"type": "array", "prefixItems": [STRING], "maxItems": 1},
        {
            "type": "ARRAY",
            "items": {"type": "STRING"},
            "maxItems": 1,
            "description": '(in this order [{"type":"string"}])',
        },
    ),
    (
        "anyOf",
        {"anyOf": [STRING, INTEGER], "description": "Either."},
        SAME,
        SAME,
        SAME,
        {"anyOf": [{"type": "STRING", "description": "Either."}, {"type": "INTEGER"}]},
    ),
    (
        "anyOf with a default",
        {"anyOf": [STRING, INTEGER], "default": 1},
        {"anyOf": [STRING, INTEGER], "description": "(default 1)"},
        {"anyOf": [STRING, INTEGER], "description": "(default 1)"},
        {"anyOf": [STRING, INTEGER], "description": "(default 1)"},
        {"anyOf": [{"type": "STRING", "description": "(default 1)"}, {"type": "INTEGER"}]},
    ),
    (
        "anyOf with null",
        {"anyOf": [STRING, NULL], "title": "T"},
        SAME,
        SAME,
        SAME,
        {"type": "STRING", "nullable": True, "title": "T"},
    ),
    ("anyOf of one", {"anyOf": [STRING]}, STRING, STRING, STRING, {"type": "STRING"}),
    (
        "anyOf inside anyOf",
        {"anyOf": [{"anyOf": [STRING, INTEGER]}, INTEGER]},
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
    ),
    (
        "anyOf beside a type",
        {"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
        {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}]},
        {
            "anyOf": [
                {"type": "string", "description": "(pattern ^a)"},
                {"type": "string", "description": "(pattern ^b)"},
            ]
        },
        {
            "anyOf": [
                {"type": "string", "description": "(pattern ^a)"},
                {"type": "string", "description": "(pattern ^b)"},
            ]
        },
        {"anyOf": [{"type": "STRING", "pattern": "^a"}, {"type": "STRING", "pattern": "^b"}]},
    ),
    (
        "oneOf",
        {"oneOf": [STRING, INTEGER]},
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [STRING, INTEGER]},
        {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
    ),
    (
        "allOf that can be merged",
        {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 3, "maximum": 5}], "description": "Count."},
        {"type": "integer", "minimum": 3, "maximum": 5, "description": "Count."},
        {"type": "integer", "description": "Count. (minimum 3; maximum 5)"},
        {"type": "integer", "minimum": 3, "maximum": 5, "description": "Count."},
        {"type": "INTEGER", "minimum": 3, "maximum": 5, "description": "Count."},
    ),
    (
        "allOf that cannot be merged",
        {"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "b"}]},
        None,
        None,
        {"type": "string", "description": "(pattern b; pattern a)"},
        {"type": "STRING", "pattern": "a", "description": "(pattern b)"},
    ),
    (
        "allOf of objects",
        {
            "allOf": [
                {"type": "object", "properties": {"a": STRING, "b": {"minimum": 1}}, "required": ["a"]},
                {"properties": {"b": INTEGER}, "required": ["b", "a"], "additionalProperties": True},
                {"additionalProperties": False, "title": "Both"},
                True,
            ]
        },
        {
            "type": "object",
            "title": "Both",
            "properties": {"a": STRING, "b": {"type": "integer", "minimum": 1}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "title": "Both",
            "properties": {"a": STRING, "b": {"type": "integer", "description": "(minimum 1)"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "title": "Both",
            "properties": {"a": STRING, "b": {"type": "integer", "minimum": 1}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        {
            "type": "OBJECT",
            "title": "Both",
            "properties": {"a": {"type": "STRING"}, "b": {"type": "INTEGER", "minimum": 1}},
            "required": ["a", "b"],
            "description": "(no additional properties)",
        },
    ),
    (
        "allOf of alternatives",
        {"allOf": [{"anyOf": [STRING, INTEGER]}, {"anyOf": [{"type": "number"}, NULL]}, {"type": ["integer", "null"]}]},
        {"anyOf": [INTEGER]},
        {"anyOf": [INTEGER]},
        {"anyOf": [INTEGER]},
        {"anyOf": [{"type": "INTEGER"}]},
    ),
    (
        "anyOf beside oneOf",
        {"type": "number", "anyOf": [{"minimum": 1}, {"maximum": 9}], "oneOf": [INTEGER, {"type": "number"}]},
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "number", "minimum": 1},
                {"type": "integer", "maximum": 9},
                {"type": "number", "maximum": 9},
            ]
        },
        {
            "anyOf": [
                {"type": "integer", "description": "(minimum 1)"},
                {"type": "number", "description": "(minimum 1)"},
                {"type": "integer", "description": "(maximum 9)"},
                {"type": "number", "description": "(maximum 9)"},
            ]
        },
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "number", "minimum": 1},
                {"type": "integer", "maximum": 9},
                {"type": "number", "maximum": 9},
            ]
        },
        {
            "anyOf": [
                {"type": "INTEGER", "minimum": 1},
                {"type": "NUMBER", "minimum": 1},
                {"type": "INTEGER", "maximum": 9},
                {"type": "NUMBER", "maximum": 9},
            ]
        },
    ),
    (
        "enum of lists",
        {"type": "array", "items": INTEGER, "enum": [[1], [2, 3]]},
        {"type": "array", "items": INTEGER, "description": "(one of [[1],[2,3]])"},
        {"type": "array", "items": INTEGER, "description": "(one of [[1],[2,3]])"},
        SAME,
        {"type": "ARRAY", "items": {"type": "INTEGER"}, "description": "(one of [[1],[2,3]])"},
    ),
    (
        "enum of whole numbers written as fractions",
        {"type": "integer", "enum": [1.0, 2.5]},
        {"type": "integer", "enum": [1.0]},
        {"type": "integer", "enum": [1.0]},
        {"type": "integer", "enum": [1.0]},
        {"type": "INTEGER", "description": "(one of [1.0])"},
    ),
    (
        "tuple of true and one",
        {"type": "array", "prefixItems": [{"const": True}, {"const": 1}, {"enum": [1.0]}], "maxItems": 3},
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "boolean", "enum": [True]},
                    {"type": "integer", "enum": [1]},
                    {"type": "number", "enum": [1.0]},
                ]
            },
            "maxItems": 3,
            "description": '(in this order [{"const":true},{"const":1},{"enum":[1.0]}])',
        },
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "boolean", "const": True},
                    {"type": "integer", "const": 1},
                    {"type": "number", "enum": [1.0]},
                ]
            },
            "description": '(in this order [{"const":true},{"const":1},{"enum":[1.0]}]; max items 3)',
        },
        {
            "type": "array",
            "prefixItems": [
                {"type": "boolean", "enum": [True]},
                {"type": "integer", "enum": [1]},
                {"type": "number", "enum": [1.0]},
            ],
            "maxItems": 3,
        },
        {
            "type": "ARRAY",
            "items": {
                "anyOf": [
                    {"type": "BOOLEAN", "description": "(one of [true])"},
                    {"type": "INTEGER", "description": "(one of [1])"},
                    {"type": "NUMBER", "description": "(one of [1.0])"},
                ]
            },
            "maxItems": 3,
            "description": '(in this order [{"const":true},{"const":1},{"enum":[1.0]}])',
        },
    ),
    (
        "open tuple",
        {"type": "array", "prefixItems": [STRING], "items": INTEGER},
        {
            "type": "array",
            "items": {"anyOf": [STRING, INTEGER]},
            "description": '(in this order [{"type":"string"}])',
        },
        {
            "type": "array",
            "items": {"anyOf": [STRING, INTEGER]},
            "description": '(in this order [{"type":"string"}])',
        },
        SAME,
        {
            "type": "ARRAY",
            "items": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
            "description": '(in this order [{"type":"string"}])',
        },
    ),
    (
        "unevaluatedProperties",
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "unevaluatedProperties": False},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
        {
            "type": "OBJECT",
            "properties": {"a": {"type": "STRING"}},
            "required": ["a"],
            "description": "(no additional properties)",
        },
    ),
    (
        "nullable enum of OpenAPI with an example",
        {"type": "string", "enum": ["a"], "nullable": True, "example": "a"},
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL], "description": '(for example ["a"])'},
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL], "description": '(for example ["a"])'},
        {"anyOf": [{"type": "string", "enum": ["a"]}, NULL], "description": '(for example ["a"])'},
        {"type": "STRING", "format": "enum", "enum": ["a"], "nullable": True, "example": "a"},
    ),
    (
        "not",
        {"type": "string", "not": {"const": "a"}},
        {"type": "string", "description": '(not {"const":"a"})'},
        {"type": "string", "description": '(not {"const":"a"})'},
        {"type": "string", "description": '(not {"const":"a"})'},
        {"type": "STRING", "description": '(not {"const":"a"})'},
    ),
    (
        "object",
        {"type": "object", "properties": {"a": STRING, "b": INTEGER}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": STRING, "b": {"anyOf": [INTEGER, NULL]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": STRING, "b": INTEGER},
            "required": ["a"],
            "additionalProperties": False,
        },
        SAME,
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "INTEGER"}}, "required": ["a"]},
    ),
    (
        "closed object without properties",
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        {"type": "object", "properties": {}, "additionalProperties": False},
        SAME,
        {"type": "OBJECT", "description": "(no additional properties)"},
    ),
    ("free object", {"type": "object"}, None, None, SAME, {"type": "OBJECT"}),
    (
        "map",
        {"type": "object", "additionalProperties": INTEGER},
        None,
        None,
        SAME,
        {"type": "OBJECT", "description": '(additional properties {"type":"integer"})'},
    ),
    (
        "patternProperties",
        {"type": "object", "patternProperties": {"^a": INTEGER}, "additionalProperties": False},
        None,
        None,
        {
            "type": "object",
            "description": '(no additional properties; pattern properties {"^a":{"type":"integer"}})',
        },
        {
            "type": "OBJECT",
            "description": '(no additional properties; pattern properties {"^a":{"type":"integer"}})',
        },
    ),
    (
        "an option that can never be",
        {"oneOf": [{"type": "object", "anyOf": [STRING, INTEGER]}, {"type": "string", "enum": [1]}, False, STRING]},
        {"anyOf": [STRING]},
        {"anyOf": [STRING]},
        {"anyOf": [STRING]},
        {"anyOf": [{"type": "STRING"}]},
    ),
    (
        "if",
        {"type": "object", "properties": {"a": STRING}, "if": {"required": ["a"]}},
        None,
        None,
        {"type": "object", "properties": {"a": STRING}, "description": '(if {"required":["a"]})'},
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "description": '(if {"required":["a"]})'},
    ),
    (
        "a property that can never be",
        {"type": "object", "properties": {"a": STRING, "b": False}, "required": ["a", "b"]},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
    ),
    (
        "required without a description",
        {"type": "object", "properties": {"a": STRING}, "required": ["b"]},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [STRING, NULL]}},
            "required": ["a"],
            "additionalProperties": False,
            "description": "(needs b)",
        },
        {"type": "object", "properties": {"a": STRING}, "additionalProperties": False, "description": "(needs b)"},
        {"type": "object", "properties": {"a": STRING}, "description": "(needs b)"},
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "description": "(needs b)"},
    ),
    (
        "nullable of OpenAPI",
        {"type": "string", "nullable": True},
        {"anyOf": [STRING, NULL]},
        {"anyOf": [STRING, NULL]},
        {"anyOf": [STRING, NULL]},
        {"type": "STRING", "nullable": True},
    ),
    (
        "a reference that leads nowhere",
        {"$ref": "#/$defs/Lost", "description": "Gone."},
        None,
        None,
        {"type": "object", "description": "Gone. (not described)"},
        {"type": "OBJECT", "description": "Gone. (not described)"},
    ),
]


@pytest.mark.parametrize(
    ("name", "schema", "dialect", "expected"),
    [
        pytest.param(name, schema, dialect, expected, id=f"{name} for {dialect}")
        for name, schema, *row in TABLE
        for dialect, expected in zip((*STRICT, *GEMINI), row, strict=True)
    ],
)
def test_what_a_keyword_becomes(name: str, schema: Schema, dialect: Dialect, expected: Any) -> None:
    lowered = lower(tool({"x": schema}, required=["x"]), dialect)
    if expected is None:
        assert not lowered.strict_ok
        assert lowered.schema == lower(tool({"x": schema}, required=["x"]), "openai").schema
        assert "not strict" in lowered.notes[0]
    else:
        assert lowered.schema["properties"]["x"] == (schema if expected is SAME else expected)
        assert lowered.strict_ok == (dialect in STRICT)


@pytest.mark.parametrize(("name", "schema"), [(row[0], row[1]) for row in TABLE if "nowhere" not in row[0]])
def test_plain_dialects_keep_every_keyword(name: str, schema: Schema) -> None:
    whole = tool({"x": schema}, required=["x"])
    assert lower(whole, "json-schema").schema == whole
    assert lower(whole, "openai").schema == whole


def test_each_change_is_noted_with_its_path_and_keyword() -> None:
    schema = tool({"a/b": {"type": "integer", "multipleOf": 5, "x-own": 1}, "c": {"const": "k"}})
    assert lower({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"}, "gemini").notes == (
        "#/$schema: dropped",
        "#/properties/a~1b/multipleOf: told in the description",
        "#/properties/a~1b/x-own: dropped",
        "#/properties/c/const: made enum",
    )


def test_a_long_dropped_value_is_cut_in_the_description() -> None:
    text: str = place({"type": "string", "pattern": "a" * 500}, "gemini")["description"]
    assert text == f"(pattern {'a' * 120}…)"


# -- the cases --------------------------------------------------------------------------------------------------

C010 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"]},
        "count": {"type": "integer", "exclusiveMinimum": 0},
        "paths": {"type": "array", "items": {"anyOf": [{"type": "array", "items": STRING}, STRING]}},
    },
    "required": ["count"],
}


@pytest.mark.case("C010")
def test_the_refused_schema_is_lowered_for_gemini_parameters() -> None:
    assert lower(C010, "gemini-openapi").schema == {
        "type": "OBJECT",
        "properties": {
            "name": {"type": "STRING", "nullable": True},
            "count": {"type": "INTEGER", "minimum": 1},
            "paths": {
                "type": "ARRAY",
                "items": {"anyOf": [{"type": "ARRAY", "items": {"type": "STRING"}}, {"type": "STRING"}]},
            },
        },
        "required": ["count"],
    }


@pytest.mark.case("C010")
def test_arguments_are_still_checked_by_the_whole_original_schema() -> None:
    before = copy.deepcopy(C010)
    parameters = SchemaParameters(C010, "count")
    for dialect in DIALECTS:
        lower(parameters.schema, dialect)
    assert before == C010
    assert parameters.faults({"count": 1, "name": None, "paths": [["a"], "b"]}) == []
    assert parameters.faults({"count": 0})[0][0] == "count"


HEADERS = {"type": "object", "properties": {"k": STRING}, "required": ["k"], "additionalProperties": False}
NODE = tool({"value": INTEGER, "next": {"$ref": "#/$defs/Node"}}, required=["value"])


@pytest.mark.case("C011")
@pytest.mark.parametrize("dialect", [*STRICT, *GEMINI])
def test_a_reference_to_a_sibling_property_is_written_out(dialect: Dialect) -> None:
    schema = tool(
        {"headers": HEADERS, "actions": {"type": "array", "items": {"$ref": "#/properties/headers"}}},
        required=["headers", "actions"],
    )
    lowered = lower(schema, dialect).schema
    assert lowered["properties"]["actions"]["items"] == lowered["properties"]["headers"]
    assert "k" in lowered["properties"]["headers"]["properties"]


@pytest.mark.case("C011")
def test_a_reference_to_a_sibling_property_stays_one_where_references_are_kept() -> None:
    schema = tool({"headers": HEADERS, "actions": {"type": "array", "items": {"$ref": "#/properties/headers"}}})
    assert lower(schema, "openai").schema == {
        **schema,
        "properties": {"headers": HEADERS, "actions": {"type": "array", "items": {"$ref": "#/$defs/headers"}}},
        "$defs": {"headers": HEADERS},
    }


@pytest.mark.case("C011")
@pytest.mark.parametrize(
    "ref",
    [
        "#/$defs/a~1b",
        "#/$defs/a~0b",
        "#/$defs/a%20b",
        "#/definitions/old",
        "#/properties/y/anyOf/1",
        "#named",
        "#/$defs/chain",
        "https://example.org/whole#/$defs/a~1b",
        "https://example.org/whole#named",
        "inner",
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS[1:])
def test_every_local_pointer_is_resolved(ref: str, dialect: Dialect) -> None:
    target = {"type": "integer", "description": "found"}
    schema = tool(
        {"x": {"$ref": ref}, "y": {"anyOf": [STRING, target]}},
        required=["x", "y"],
        **{
            "$id": "https://example.org/whole",
            "$defs": {
                "a/b": target,
                "a~b": target,
                "a b": target,
                "anchored": {**target, "$anchor": "named"},
                "identified": {**target, "$id": "inner"},
                "chain": {"$ref": "#/$defs/a~1b"},
            },
            "definitions": {"old": target},
        },
    )
    lowered = lower(schema, dialect).schema
    found = lowered["properties"]["x"]
    if "$ref" in found:
        found = lowered["$defs"][found["$ref"].removeprefix("#/$defs/")]
    assert found["type"].lower() == "integer"
    assert found["description"] == "found"


@pytest.mark.case("C011")
def test_a_definition_inside_itself_is_written_out_to_the_documented_depth() -> None:
    schema = tool({"x": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": NODE}})
    lowered = lower(schema, "gemini-openapi")
    here, depth = lowered.schema["properties"]["x"], 0
    while "properties" in here:
        here, depth = here["properties"]["next"], depth + 1
    assert depth == RECURSION_DEPTH
    assert here == {"type": "OBJECT", "description": "(nested further)"}
    assert "$ref: nested further; an open object instead" in lowered.notes[-1]


@pytest.mark.case("C011")
@pytest.mark.parametrize("dialect", ["openai", *STRICT, "gemini"])
def test_a_definition_inside_itself_stays_a_reference(dialect: Dialect) -> None:
    schema = tool({"x": {"$ref": "#/$defs/Node"}}, required=["x"], **{"$defs": {"Node": NODE}})
    lowered = lower(schema, dialect)
    assert lowered.schema["properties"]["x"] == {"$ref": "#/$defs/Node"}
    assert set(lowered.schema["$defs"]) == {"Node"}
    assert accepts(lowered.schema, {"x": {"value": 1, "next": {"value": 2, "next": {"value": 3}}}}) == (
        dialect != "openai-strict"
    )
    assert accepts(lowered.schema, {"x": {"value": 1, "next": {"value": 2, "next": None}}}) == (
        dialect == "openai-strict"
    )


MUTUAL = {
    "A": tool({"b": {"$ref": "#/$defs/B"}}),
    "B": tool({"a": {"$ref": "#/$defs/A", "description": "back"}}),
}


@pytest.mark.case("C011")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("schema", "valid"),
    [
        pytest.param(tool({"x": {"$ref": "#"}}), {"x": {"x": {"x": {}}}}, id="the root"),
        pytest.param(
            tool({"x": {"$ref": "#/$defs/A"}}, **{"$defs": MUTUAL}), {"x": {"b": {"a": {"b": {}}}}}, id="mutual"
        ),
        pytest.param(
            tool({"x": tool({"x": {"$ref": "#/properties/x"}})}), {"x": {"x": {"x": {}}}}, id="a sibling pointer"
        ),
        pytest.param(
            tool({"x": {"$ref": "#/$defs/L"}}, **{"$defs": {"L": {"type": "array", "items": {"$ref": "#/$defs/L"}}}}),
            cast("Any", {"x": [[[]], []]}),
            id="an array of itself",
        ),
        pytest.param(
            {
                "$ref": "#/$defs/N",
                "$defs": {"N": tool({"n": {"allOf": [{"$ref": "#/$defs/N"}], "description": "d"}})},
            },
            {"n": {"n": {}}},
            id="the root as a reference",
        ),
        pytest.param(tool({"x": {"$ref": "#/properties/x"}}), None, id="a reference to itself"),
        pytest.param(
            tool({}, anyOf=[{"$ref": "#"}, {"type": "object", "properties": {"y": STRING}}]), None, id="an option"
        ),
    ],
)
def test_recursion_ends_in_a_valid_schema(schema: Schema, valid: Any, dialect: Dialect) -> None:
    lowered = lower(schema, dialect).schema
    assert len(json.dumps(lowered)) < 5_000
    if dialect != "gemini-openapi":
        jsonschema_rs.meta.validate(lowered)
        if valid is not None and dialect != "openai-strict":
            assert accepts(lowered, valid)


def test_gemini_requires_nothing_that_contains_itself() -> None:
    kids = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    definitions = {
        "Node": tool({"leaf": {"$ref": "#/$defs/Leaf"}, "kids": kids}, required=["leaf", "kids"]),
        "Leaf": tool({"root": {"$ref": "#/$defs/Node"}, "only": {"$ref": "#/$defs/Only"}}),
        "Only": tool({"only": {"$ref": "#/$defs/Only"}}, required=["only"]),
    }
    schema = tool({"x": {"$ref": "#/$defs/Node"}}, required=["x"], **{"$defs": definitions})
    lowered = lower(schema, "gemini")
    assert lowered.schema["required"] == ["x"]
    assert {n: d.get("required") for n, d in lowered.schema["$defs"].items()} == {
        "Node": ["leaf"],
        "Leaf": None,
        "Only": None,
    }
    assert lowered.notes == (
        "#/$defs/Node/required: dropped for kids, which contain it",
        "#/$defs/Only/required: dropped for only, which contain it",
    )


@pytest.mark.parametrize("dialect", STRICT)
def test_a_reference_with_siblings_is_written_out(dialect: Dialect) -> None:
    found = place({"$ref": "#/$defs/A", "description": "here"}, dialect, **{"$defs": {"A": STRING}})
    assert found == {"type": "string", "description": "here"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_that_multiplies_itself_stays_finite(dialect: Dialect) -> None:
    definitions = {f"d{i}": tool({n: {"$ref": f"#/$defs/d{i + 1}"} for n in "abcd"}) for i in range(30)}
    lowered = lower(tool({"x": {"$ref": "#/$defs/d0"}}, **{"$defs": {**definitions, "d30": STRING}}), dialect).schema
    assert sum(1 for _ in places(lowered)) < 6 * MAX_PLACES


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("keyword", ["items", "not", "anyOf", "allOf", "default"])
def test_a_very_deep_schema_is_lowered(dialect: Dialect, keyword: str) -> None:
    deep: Any = {"type": "string"}
    for _ in range(5_000):
        deep = {"type": "array", keyword: [deep] if keyword in ("anyOf", "allOf") else deep}
    lowered = lower(tool({"x": deep}), dialect)
    assert lowered.schema["type"] in ("object", "OBJECT")


@pytest.mark.case("C014")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_union_of_six_with_one_empty_is_taken_as_it_is(dialect: Dialect) -> None:
    schema = tool({"x": {"anyOf": [STRING, INTEGER, {"type": "number"}, {"type": "array"}, {"enum": [1, "a"]}, {}]}})
    lowered = lower(schema, dialect)
    assert not lowered.strict_ok
    if dialect != "gemini-openapi":
        for value in ("s", 1, 1.5, [None], True, {"any": "thing"}):
            assert accepts(lowered.schema, {"x": value})


# -- the root ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"properties": {}}, {"type": ["object", "null"]}])
def test_the_root_becomes_an_object(schema: Schema, dialect: Dialect) -> None:
    lowered = lower(schema, dialect)
    assert lowered.schema["type"] in ("object", "OBJECT")
    assert "#/type: made object" in lowered.notes


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("dialect", DIALECTS[1:])
def test_alternatives_at_the_root_become_one_object(dialect: Dialect, keyword: str) -> None:
    forms = [
        tool({"do": {"const": "make"}, "name": STRING}, required=["do", "name"]),
        tool({"do": {"const": "drop"}, "id": INTEGER}, required=["do", "id"]),
        NULL,
    ]
    lowered = lower({keyword: forms}, dialect).schema
    assert not lowered.keys() & {"anyOf", "oneOf", "allOf"}
    assert set(lowered["properties"]) == {"do", "name", "id"}
    assert lowered["required"] == (["do", "name", "id"] if dialect == "openai-strict" else ["do"])
    assert 'needs name when do is "make", id when do is "drop"' in lowered["description"]
    if dialect not in ("openai-strict", "gemini-openapi"):
        assert accepts(lowered, {"do": "drop", "id": 1})
        assert not accepts(lowered, {"do": "other"})


def test_groups_of_required_properties_at_the_root_are_told() -> None:
    schema = {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    assert lower(schema, "openai").schema == {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "description": "(needs a or b)",
    }


@pytest.mark.parametrize(
    ("forms", "told"),
    [
        ([tool({"do": {"enum": ["all"]}}, required=["do"]), tool({"do": {"enum": ["one"]}, "id": INTEGER}, required=["do", "id"])], 'needs id when do is "one"'),
        ([tool({"do": {"const": 1}}, required=["do"]), tool({"do": {"const": 2}}, required=["do"])], None),
        ([tool({"do": {"const": 1}, "a": STRING}, required=["do", "a"]), tool({"do": {"const": 1}, "b": STRING}, required=["do", "b"])], "needs a or b"),
        ([tool({"a": STRING}, required=["a"]), tool({"b": STRING})], None),
    ],
)  # fmt: skip
def test_what_only_one_alternative_requires_is_told_by_the_value_that_names_it(forms: Any, told: str | None) -> None:
    description = lower({"oneOf": forms}, "openai").schema.get("description")
    assert (f"({told})" if told else None) == description


def test_a_property_of_every_alternative_is_bound_by_the_object_too() -> None:
    forms = [{"properties": {"a": {"minimum": 1}, "b": STRING}}, {"properties": {"a": {"minimum": 1}}}, True]
    whole = {"type": "object", "properties": {"a": INTEGER}}
    assert lower({**whole, "anyOf": forms}, "openai").schema["properties"] == {"a": INTEGER, "b": STRING}
    both = lower({**whole, "anyOf": forms[:2]}, "gemini").schema["properties"]
    assert both == {"a": {"type": "integer", "minimum": 1}, "b": STRING}


@pytest.mark.parametrize("dialect", STRICT)
def test_alternatives_of_a_free_map_cannot_be_strict(dialect: Dialect) -> None:
    forms = [{"type": "object", "additionalProperties": STRING}, tool({"a": STRING})]
    assert not lower({"anyOf": forms}, dialect).strict_ok


@pytest.mark.parametrize("dialect", [*STRICT, *GEMINI])
def test_a_property_of_some_objects_is_required_in_each_alternative(dialect: Dialect) -> None:
    schema = {
        "type": "object",
        "properties": {"a": STRING},
        "anyOf": [{"required": ["a"]}, {"properties": {"b": INTEGER}}],
    }
    options = place(schema, dialect)["anyOf"]
    assert ["a" in o["properties"] for o in options] == [True, True]
    assert "b" in options[1]["properties"]


# -- any schema -------------------------------------------------------------------------------------------------


VALUES = [None, True, 0, 1, 2.5, "", "a", "b"]
SCALARS = ("number", "text", "const", "enum", "types", "boolean", "any")
WHOLE = ("object", "array", "tuple", "union")
ODD = ("ref", "odd")


def _some(draw: st.DrawFn, options: Schema) -> Schema:
    """Any of the keywords, each with one of its values."""
    return {k: draw(st.sampled_from(v)) for k, v in options.items() if draw(st.booleans())}


def _scalar(draw: st.DrawFn, kind: str) -> Schema:
    if kind == "number":
        bounds = _some(draw, {"minimum": [-3, 0], "exclusiveMaximum": [4, 5.5], "multipleOf": [1], "default": [0, 1]})
        return {"type": draw(st.sampled_from(["integer", "number"])), **bounds}
    if kind == "text":
        limits = {"minLength": [0, 1], "maxLength": [3, 9], "pattern": ["", "^[a-z]*$"], "format": ["uri", "made-up"]}
        return {"type": "string", **_some(draw, {**limits, "examples": [["a"]], "description": ["D."]})}
    if kind == "const":
        return {"const": draw(st.sampled_from(VALUES))}
    if kind == "enum":
        return {"enum": draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique_by=repr))}
    if kind == "types":
        names = st.sampled_from(["string", "integer", "boolean", "null"])
        return {"type": draw(st.lists(names, min_size=1, max_size=3, unique=True))}
    return {"type": "boolean"} if kind == "boolean" else {}


def _compound(draw: st.DrawFn, kind: str, inner: st.SearchStrategy[Schema]) -> Schema:
    if kind == "object":
        found = draw(st.dictionaries(st.sampled_from(["a", "b", "c/d", "$ref", "type"]), inner, max_size=3))
        extra: Any = draw(st.one_of(st.sampled_from([None, None, True, False]), inner))
        required = sorted(found)[: draw(st.integers(0, 2))]
        closed = {} if extra is None else {"additionalProperties": extra}
        return {"type": "object", "properties": found, "required": required, **closed}
    if kind == "array":
        items = {"items": draw(inner)} if draw(st.booleans()) else {}
        return {"type": "array", **items, **_some(draw, {"maxItems": [2, 4], "uniqueItems": [True, False]})}
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    if kind == "tuple":
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    return {draw(st.sampled_from(["anyOf", "oneOf", "allOf"])): parts}


def _odd(draw: st.DrawFn, kind: str, inner: st.SearchStrategy[Schema]) -> Schema:
    if kind == "ref":
        beside: Schema = draw(st.sampled_from([{}, {"description": "here"}, {"type": "object"}]))
        refs = ["#/$defs/one", "#/$defs/two", "#", "#/properties/a", "#/$defs/none"]
        return {"$ref": draw(st.sampled_from(refs)), **beside}
    one = ["not", "if", "then", "propertyNames", "unevaluatedProperties", "contains"]
    keyword = draw(st.sampled_from([*one, "patternProperties", "dependentSchemas"]))
    part = draw(inner)
    return {"type": "object", keyword: part if keyword in one else {"a": part}}


@st.composite
def _schemas(draw: st.DrawFn, compound: tuple[str, ...], depth: int) -> Schema:
    kind = draw(st.sampled_from(SCALARS + compound * 2 if depth else SCALARS))
    if kind in SCALARS:
        return _scalar(draw, kind)
    inner = _schemas(compound, depth - 1)
    return _compound(draw, kind, inner) if kind in WHOLE else _odd(draw, kind, inner)


@st.composite
def _roots(draw: st.DrawFn) -> Schema:
    inner = _schemas(WHOLE + ODD, 1)
    return {**draw(_schemas(WHOLE + ODD, 2)), "$defs": {"one": draw(inner), "two": draw(inner)}}


ROOTS = _roots()
PLAIN = _schemas(WHOLE, 2)


@given(schema=ROOTS)
def test_any_schema_is_lowered_without_being_changed(schema: Schema) -> None:
    before = copy.deepcopy(schema)
    for dialect in DIALECTS:
        first, second = lower(schema, dialect), lower(copy.deepcopy(schema), dialect)
        assert schema == before
        assert (json.dumps(first.schema), first.notes) == (json.dumps(second.schema), second.notes)


@given(schema=ROOTS)
def test_any_lowered_schema_is_a_valid_one(schema: Schema) -> None:
    for dialect in DIALECTS[:-1]:
        jsonschema_rs.meta.validate(lower(schema, dialect).schema)


@given(schema=ROOTS)
def test_any_lowered_schema_has_only_keywords_of_its_dialect(schema: Schema) -> None:
    for dialect in (*STRICT, *GEMINI):
        lowered = lower(schema, dialect)
        for here in places(lowered.schema):
            assert here.keys() <= ALLOWED[dialect] or (dialect in STRICT and not lowered.strict_ok)


@given(schema=ROOTS)
def test_references_lead_to_definitions_and_stand_alone(schema: Schema) -> None:
    for dialect in ("openai", *STRICT, "gemini"):
        lowered = lower(schema, dialect)
        for here in places(lowered.schema):
            if "$ref" in here:
                assert here["$ref"].removeprefix("#/$defs/") in lowered.schema["$defs"]
                assert here.keys() == {"$ref"} or not (lowered.strict_ok or dialect == "gemini")


@given(schema=ROOTS)
def test_strict_objects_are_closed_and_nothing_is_without_a_type(schema: Schema) -> None:
    for dialect in STRICT:
        lowered = lower(schema, dialect)
        for here in places(lowered.schema) if lowered.strict_ok else ():
            assert here.keys() & {"type", "anyOf", "$ref"}
            assert here.get("format") in {None, *FORMATS, "uri"}
            assert here.get("type") != "object" or here["additionalProperties"] is False
            if here.get("type") == "object" and dialect == "openai-strict":
                assert here["required"] == list(here["properties"])


@given(schema=ROOTS)
def test_gemini_parameters_have_one_upper_case_type_or_bare_alternatives(schema: Schema) -> None:
    for here in places(lower(schema, "gemini-openapi").schema):
        assert here.keys() == {"anyOf"} or here.keys() == {"anyOf", "nullable"} or here["type"].isupper()
        assert "enum" not in here or (here["type"] == "STRING" and all(isinstance(v, str) for v in here["enum"]))
        assert set(here.get("required", ())) <= here.get("properties", {}).keys()
        assert here.get("type") != "ARRAY" or "items" in here


def _value(draw: st.DrawFn, schema: Schema) -> Any:
    """A value that was made for a schema; it has no property that the schema does not name."""
    for keyword in ("anyOf", "oneOf", "allOf", "enum"):
        if keyword in schema:
            chosen: Any = draw(st.sampled_from(schema[keyword]))
            return chosen if keyword == "enum" else _value(draw, chosen)
    if "const" in schema:
        return schema["const"]
    kind: Any = schema.get("type", ["string", "null", "object", "array"])
    if isinstance(kind, list):
        kind = draw(st.sampled_from(cast("list[str]", kind)))
    if kind == "object":
        found: Schema = schema.get("properties", {})
        kept = [n for n in found if n in schema.get("required", ()) or draw(st.booleans())]
        return {n: _value(draw, found[n]) for n in kept}
    if kind == "array":
        items = schema.get("prefixItems", [schema.get("items", {})] * draw(st.integers(0, 2)))
        return [_value(draw, i) for i in items]
    numbers = {"integer": [0, 1, -3, 4, 2.0], "number": [0, 1, 2.5, 5], "boolean": [True, False], "null": [None]}
    return draw(st.sampled_from(numbers.get(kind, ["", "a", "abc", "A", "abcdefgh"])))


@st.composite
def _fitting(draw: st.DrawFn, schemas: st.SearchStrategy[Schema]) -> tuple[Schema, Any]:
    """A schema with a value that fits it, if one is found in three tries."""
    schema = draw(schemas)
    for _ in range(3):
        value = _value(draw, schema)
        if accepts(schema, value):
            return schema, value
    return {}, None


@given(pair=_fitting(PLAIN), dialect=st.sampled_from(["openai", "anthropic-strict", "gemini"]))
def test_what_fits_the_original_fits_the_lowered_schema(pair: tuple[Schema, Any], dialect: Dialect) -> None:
    schema, value = pair
    lowered = lower(tool({"x": schema}, required=["x"]), dialect)
    assert accepts(lowered.schema, {"x": value})


def _filled(schema: Schema, value: Any) -> Any:
    """The value as a strict dialect wants it: null for each property that is left out."""
    if isinstance(value, dict) and "properties" in schema:
        given = cast("Schema", value)
        return {n: _filled(p, given[n]) if n in given else None for n, p in schema["properties"].items()}
    if isinstance(value, list):
        parts: list[Any] = schema.get("prefixItems", [schema.get("items", {})] * len(cast("list[Any]", value)))
        return [_filled(p, v) for p, v in zip(parts, cast("list[Any]", value), strict=True)]
    return cast("object", value)


@given(pair=_fitting(_schemas(("object", "array", "tuple"), 2)))
def test_what_fits_the_original_fits_the_strict_schema_with_nulls_for_what_is_left_out(
    pair: tuple[Schema, Any],
) -> None:
    schema, value = tool({"x": pair[0]}), {"x": pair[1]}
    assume("uniqueItems" not in repr(schema))  # two objects may differ only in what is left out
    sent = _filled(schema, value)
    lowered = lower(schema, "openai-strict")
    assert accepts(lowered.schema, sent if lowered.strict_ok else value)
    assert accepts(schema, drop_nulls(schema, sent))
    assert drop_nulls(schema, value) == value


def test_equal_parts_of_great_depth_are_merged() -> None:
    def deep() -> Any:
        found: Any = 1
        for _ in range(100_000):
            found = [found]
        return found

    one, other = {"type": "array", "items": {"default": deep()}}, {"type": "array", "items": {"default": deep()}}
    lowered = lower(tool({"x": {"allOf": [one, other]}}), "gemini").schema
    assert lowered["properties"]["x"]["items"] == {"description": "(default …)"}


def test_two_definitions_of_one_name_stay_two() -> None:
    schema = tool(
        {"x": {"$ref": "#/$defs/a b"}, "y": {"$ref": "#/definitions/a b"}, "z": {"$ref": "#/$defs/a_b"}},
        **{"$defs": {"a b": STRING, "a_b": INTEGER}, "definitions": {"a b": NULL}},
    )
    lowered = lower(schema, "openai").schema
    assert [p["$ref"] for p in lowered["properties"].values()] == ["#/$defs/a_b", "#/$defs/a_b_2", "#/$defs/a_b_3"]
    assert lowered["$defs"] == {"a_b": STRING, "a_b_2": NULL, "a_b_3": INTEGER}


def test_a_definition_that_allows_nothing_is_null_at_most() -> None:
    schema = tool({"x": {"$ref": "#/$defs/Never"}}, **{"$defs": {"Never": False}})
    assert lower(schema, "gemini").schema["$defs"] == {"Never": NULL}


# -- the way back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "sent", "kept"),
    [
        pytest.param(tool({"a": STRING}), {"a": None}, {}, id="optional"),
        pytest.param(tool({"a": STRING}, required=["a"]), {"a": None}, {"a": None}, id="required"),
        pytest.param(tool({"a": {"type": ["string", "null"]}}), {"a": None}, {"a": None}, id="type list"),
        pytest.param(tool({"a": {"anyOf": [STRING, NULL]}}), {"a": None}, {"a": None}, id="anyOf"),
        pytest.param(tool({"a": {"enum": ["x", None]}}), {"a": None}, {"a": None}, id="enum with null"),
        pytest.param(tool({"a": {"const": None}}), {"a": None}, {"a": None}, id="const null"),
        pytest.param(tool({"a": {"enum": ["x"]}}), {"a": None}, {}, id="enum"),
        pytest.param(tool({"a": {"type": "string", "nullable": True}}), {"a": None}, {"a": None}, id="nullable"),
        pytest.param(tool({"a": {}}), {"a": None}, {"a": None}, id="any value"),
        pytest.param(tool({"a": True}), {"a": None}, {"a": None}, id="true"),
        pytest.param(tool({"a": False}), {"a": None}, {}, id="false"),
        pytest.param(tool({}), {"a": None}, {"a": None}, id="unknown"),
        pytest.param(tool({"a": {"allOf": [{}, STRING]}}), {"a": None}, {}, id="allOf"),
        pytest.param(
            tool({"a": tool({"b": STRING, "c": INTEGER})}), {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="deep"
        ),
        pytest.param(
            tool({"a": {"type": "array", "items": tool({"b": STRING})}}),
            {"a": [{"b": None}, {"b": "x"}, None]},
            {"a": [{}, {"b": "x"}, None]},
            id="in items",
        ),
        pytest.param(
            tool({"a": {"type": "array", "prefixItems": [STRING, tool({"b": STRING})]}}),
            {"a": ["x", {"b": None}]},
            cast("Any", {"a": ["x", {}]}),
            id="in a tuple",
        ),
        pytest.param(
            tool({"a": {"type": "array", "items": [tool({"b": STRING})]}}),
            {"a": [{"b": None}]},
            cast("Any", {"a": [{}]}),
            id="draft 7",
        ),
        pytest.param(
            tool({"a": {"type": "object", "additionalProperties": tool({"b": STRING})}}),
            {"a": {"k": {"b": None}}},
            {"a": {"k": {}}},
            id="in a map",
        ),
        pytest.param(
            tool({"a": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": NODE}}),
            {"a": {"value": 1, "next": {"value": None, "next": None}}},
            {"a": {"value": 1, "next": {"value": None}}},
            id="recursive",
        ),
        pytest.param(
            tool({"a": {"anyOf": [tool({"b": STRING}), tool({"c": STRING}), NULL]}}),
            {"a": {"b": None, "c": None}},
            {"a": {}},
            id="in alternatives",
        ),
        pytest.param(
            tool(
                {"a": {"anyOf": [{"$ref": "#/$defs/X"}, {"$ref": "#/$defs/Y"}]}},
                **{
                    "$defs": {
                        "X": tool({"tag": {"const": "x"}, "b": {"type": ["string", "null"]}}, required=["tag"]),
                        "Y": tool({"tag": {"enum": ["y"]}, "b": STRING}, required=["tag"]),
                    }
                },
            ),
            {"a": {"tag": "y", "b": None}},
            {"a": {"tag": "y"}},
            id="by tag",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": STRING, "b": STRING}}, {"required": ["a"]}]},
            {"a": None, "b": None},
            {"a": None},
            id="required elsewhere",
        ),
    ],
)
def test_nulls_that_stand_for_left_out_are_dropped(schema: Schema, sent: Schema, kept: Schema) -> None:
    before = copy.deepcopy(sent)
    assert drop_nulls(schema, sent) == kept
    assert sent == before


def test_nulls_are_dropped_through_many_definitions_that_know_each_other() -> None:
    names = [f"d{i}" for i in range(30)]
    refs = [{"$ref": f"#/$defs/{n}"} for n in names]
    definitions = {n: {"anyOf": [tool({n: {"anyOf": refs}}), *refs]} for n in names}
    schema = tool({"x": {"anyOf": refs}}, **{"$defs": definitions})
    assert drop_nulls(schema, {"x": {"d3": {"d4": None}}, "y": None}) == {"x": {"d3": {}}, "y": None}
    assert drop_nulls(schema, {"x": None}) == {}


@pytest.mark.case("C010")
def test_a_strict_call_with_nulls_passes_the_check_by_the_original() -> None:
    schema = tool({"a": STRING, "b": tool({"c": INTEGER, "d": {"type": ["integer", "null"]}})}, required=["a"])
    sent = {"a": "x", "b": {"c": None, "d": None}}
    lowered = lower(schema, "openai-strict")
    assert lowered.strict_ok
    assert accepts(lowered.schema, sent)
    assert SchemaParameters(schema, "t").faults(sent) != []
    assert SchemaParameters(schema, "t").faults(drop_nulls(schema, sent)) == []
