"""References and places of a JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.tool.schema.reference import HOLDERS, References, Schema, below, listed, subschemas

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
ROOT: Schema = {
    "$id": "https://example.org/whole",
    "$defs": {
        "a/b": {"type": "null"},
        "c~d": STRING,
        "e f": {"type": "boolean"},
        "list": [1],
        "never": False,
        "named": {"$anchor": "here", "type": "array"},
        "own": {"$id": "inner", "type": "number"},
        "chain": {"$ref": "#/$defs/c~0d"},
        "loop": {"$ref": "#/$defs/loop"},
    },
    "properties": {"x": {"anyOf": [STRING, INTEGER]}},
}


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("#", ("#", ROOT)),
        ("#/$defs/a~1b", ("#/$defs/a~1b", {"type": "null"})),
        ("#/$defs/c~0d", ("#/$defs/c~0d", STRING)),
        ("#/$defs/e%20f", ("#/$defs/e f", {"type": "boolean"})),
        ("#/$defs/never", ("#/$defs/never", False)),
        ("#/properties/x/anyOf/1", ("#/properties/x/anyOf/1", INTEGER)),
        ("#/$defs/chain", ("#/$defs/c~0d", STRING)),
        ("#here", ("#here", {"$anchor": "here", "type": "array"})),
        ("inner", ("inner", {"$id": "inner", "type": "number"})),
        ("https://example.org/whole#/$defs/c~0d", ("#/$defs/c~0d", STRING)),
        ("https://example.org/whole", ("#", ROOT)),
    ],
)
def test_a_reference_leads_to_a_pointer_and_its_schema(ref: str, expected: Any) -> None:
    assert References(ROOT).locate(ref) == expected


@pytest.mark.parametrize(
    "ref",
    ["#/nowhere/at/all", "#/$defs/list", "#/properties/x/anyOf/2", "#/$defs/loop", "#None", "https://example.org/", 1],
)
def test_a_reference_that_leads_nowhere_gives_nothing(ref: object) -> None:
    assert References(ROOT).locate(ref) is None


def test_subschemas_are_found_under_every_keyword_that_holds_them_and_nowhere_else() -> None:
    held: Schema = dict.fromkeys(HOLDERS, INTEGER) | {
        "properties": {"type": STRING, "b": True},
        "dependencies": {"a": ["b"], "c": STRING},
        "patternProperties": {},
        "dependentSchemas": {},
        "anyOf": [STRING, False],
        "enum": [{"type": "never"}],
        "default": {"type": "never"},
    }
    found = list(subschemas(held))
    assert found[:4] == [
        ("properties", "type", STRING),
        ("properties", "b", True),
        ("dependencies", "c", STRING),
        ("anyOf", 0, STRING),
    ]
    assert {keyword for keyword, *_ in found} == {*HOLDERS} - {"patternProperties", "dependentSchemas"}
    assert list(subschemas(held, ["properties"])) == found[:2]


def test_all_that_is_said_of_a_place_comes_outer_ones_first_and_each_reference_once() -> None:
    loop: Schema = {"$ref": "#/$defs/a", "anyOf": [STRING, True]}
    root: Schema = {"$defs": {"a": {"allOf": [loop, INTEGER], "oneOf": [{"$ref": "#/$defs/a"}, {"minimum": 1}]}}}
    assert list(References(root).views(loop)) == [
        *(loop, root["$defs"]["a"], loop, STRING, {}, INTEGER),
        *(root["$defs"]["a"]["oneOf"][0], {"minimum": 1}, STRING, {}),
    ]


def test_alternatives_are_not_sure_unless_there_is_only_one() -> None:
    place: Schema = {"anyOf": [{"allOf": [STRING, INTEGER]}], "oneOf": [STRING, INTEGER]}
    assert list(References({}).views(place, sure=True)) == [place, place["anyOf"][0], STRING, INTEGER]


def test_a_view_is_read_as_the_caller_wants_it_or_left_out() -> None:
    place: Schema = {"type": "object", "anyOf": [{"required": ["a"]}, STRING]}
    views = References({}).views(
        place, lambda outer, inner: None if "type" in inner else {**outer, **inner, "anyOf": []}
    )
    assert list(views) == [place, {"type": "object", "anyOf": [], "required": ["a"]}]


@pytest.mark.parametrize(
    ("schema", "key", "expected"),
    [
        ({"properties": {"a": STRING}, "additionalProperties": INTEGER}, "a", [STRING]),
        ({"properties": {"a": STRING}, "additionalProperties": INTEGER}, "b", [INTEGER]),
        ({"properties": {"a": STRING}, "additionalProperties": False}, "b", []),
        ({"prefixItems": [STRING], "items": INTEGER}, 0, [STRING]),
        ({"prefixItems": [STRING], "items": INTEGER}, 1, [INTEGER]),
        ({"items": [STRING], "additionalItems": INTEGER}, 0, [STRING]),
        ({"items": [STRING], "additionalItems": INTEGER}, 1, [INTEGER]),
        ({"items": [STRING]}, 1, []),
    ],
)
def test_what_is_said_of_a_property_or_an_item(schema: Schema, key: str | int, expected: list[Schema]) -> None:
    assert below([schema], key) == {"anyOf": expected}


def test_types_are_listed() -> None:
    assert [listed(kinds) for kinds in (None, "null", ["null", "string"])] == [[], ["null"], ["null", "string"]]
