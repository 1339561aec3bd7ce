"""Arguments: strict JSON, nothing guessed, nothing echoed, every fault with its path and rule."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import ipaddress
import json
import logging
import math
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, BeforeValidator, ConfigDict, Field, Strict, field_validator
from tests.clock import run

from ferrule import Context, ToolDefinitionError, UsageError, tool
from ferrule.strict_json import parse
from ferrule.tool.schema.arguments import InvalidArguments, Parameters, SchemaParameters, read
from ferrule.tool.schema.signature import read_signature

CANARY = "tok_FAKE"


class Hue(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int


class Circle(BaseModel):
    kind: Literal["circle"]
    note: str
    sizes: list[int]


class Box(BaseModel):
    kind: Literal["box"]
    note: list[int]
    sizes: list[int]


def parameters_of(function: Any) -> Parameters:
    return read_signature(function, Context, function.__name__)


def checked(function: Any, arguments: object, *, omit_blank: bool = False) -> dict[str, Any]:
    return read(parameters_of(function), arguments, omit_blank=omit_blank)[0]


def refused(parameters: Any, arguments: object, *, omit_blank: bool = False) -> str:
    read_by = parameters if isinstance(parameters, SchemaParameters) else parameters_of(parameters)
    with pytest.raises(InvalidArguments) as caught:
        read(read_by, arguments, omit_blank=omit_blank)
    return str(caught.value)


def now() -> None: ...


def find(q: str) -> None: ...


def anything(value: Any = None) -> None: ...


def free(**values: Any) -> None: ...


# -- blank forms ------------------------------------------------------------------------------------------------

BLANK: list[object] = [
    None,
    "",
    "  ",
    "\n\t",
    "\u00a0",
    "null",
    " null ",
    b"",
    b" \n",
    b"null",
    "{}",
    b"{}",
    {},
    MappingProxyType({}),
]


@pytest.mark.case("C017")
@pytest.mark.parametrize("arguments", BLANK)
def test_blank_absent_and_null_equal_the_empty_object(arguments: object) -> None:
    values, text = read(parameters_of(now), arguments)
    assert (values, parse(text)) == ({}, {})


@pytest.mark.case("C017")
@pytest.mark.parametrize("arguments", BLANK)
def test_a_blank_form_misses_what_is_required(arguments: object) -> None:
    assert refused(find, arguments) == "The arguments do not fit the schema. q: is required."


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [([], "list"), (3, "int"), ({1}, "set"), (bytearray(b"{}"), "bytearray"), (Point(x=1), "Point")],
)
def test_what_is_neither_mapping_nor_text_is_wrong_use(arguments: object, kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked(anything, arguments)
    assert str(caught.value) == f"arguments must be a mapping, JSON text or None, not {kind}."


@pytest.mark.parametrize(("text", "kind"), [("[]", "array"), ("1", "integer"), ('"x"', "string"), ("true", "boolean")])
@pytest.mark.parametrize("parameters", [anything, free, SchemaParameters(None, "t")])
def test_json_that_is_no_object_is_refused_with_its_type(parameters: Any, text: str, kind: str) -> None:
    assert refused(parameters, text) == f"The arguments do not fit the schema. should be an object (got {kind})."


# -- strict JSON ------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)
BROKEN = [
    '{"value":1} ok',
    '```json\n{"value":1}\n```',
    '{"value":1}}',
    '{"value":1}{"value":2}',
    '{"value":1} {"value":1}',
    '{"value":1,}',
    '{"value":[1,2,3',
    '{"value":1',
    "{'value':1}",
    "{value:1}",
    '{"value":NaN}',
    '{"value":[-Infinity]}',
    '{"value":{"x":Infinity}}',
    '{"value":01}',
    '{"value":1.}',
    '{"value":.5}',
    '{"value":+1}',
    '{"value":True}',
    '{"value":"\x01"}',
    '{"value":"\n"}',
    '{"value":"\\x"}',
    '{"value":"\\ud83c"}',
    '{"value":1}\x00',
    '\ufeff{"value":1}',
    '{"value":1,"value":1}',
    '{"value":{"x":1,"x":1}}',
    '{"value":[{"x":{},"x":{}}]}',
    '{"value":{"x":1},"value":{"y":1}}',
    '{"value":1 /* one */}',
    "nul",
    "undefined",
]

# What is no JSON at all has a place; what JSON would allow and we do not has a name.
REASON = (
    r".+ at line \d+ column \d+"
    r"|the word -?(NaN|Infinity), which is not JSON.*|an object with a duplicate key.*|a lone surrogate.*"
)


@pytest.mark.case("C019")
@pytest.mark.case("C020")
@pytest.mark.parametrize("encode", [str, str.encode])
@pytest.mark.parametrize("parameters", [anything, free, SchemaParameters(None, "t")])
@pytest.mark.parametrize("text", BROKEN)
def test_what_is_not_strict_json_is_refused_with_its_place(text: str, parameters: Any, encode: Any) -> None:
    error = refused(parameters, encode(text))
    assert re.fullmatch(rf"The arguments are not valid JSON: ({REASON})\. Send one JSON object\.", error), error


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    assert refused(anything, b'{"value":"\xff"}').startswith("The arguments are not valid JSON: not UTF-8")


def test_a_default_of_the_check_does_not_hide_a_duplicate_key() -> None:
    def add(a: int, b: int = Field(2)) -> None: ...

    assert "duplicate key" in refused(add, '{"a":1,"a":2}')


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "duplicate: NaN, Infinity"])
def test_words_that_json_lacks_are_fine_inside_text(word: str) -> None:
    assert checked(anything, json.dumps({"value": word})) == {"value": word}


def test_nesting_without_end_is_refused() -> None:
    deep = '{"value":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert refused(anything, deep).startswith("The arguments are not valid JSON: nested too deeply")


def test_nesting_beyond_the_reader_is_refused_by_its_name() -> None:
    deep = '{"value":' + "[" * 300 + "]" * 300 + "}"
    assert refused(anything, deep) == "The arguments do not fit the schema. is nested too deeply."


@pytest.mark.case("C020")
@given(OBJECTS)
def test_a_valid_object_arrives_unchanged(data: dict[str, Any]) -> None:
    text = json.dumps(data)
    values, checked_text = read(parameters_of(free), text)
    assert values == data
    assert [*map(type, values.values())] == [*map(type, data.values())]
    assert checked_text == text
    assert read(SchemaParameters(None, "t"), text) == (data, text)


@pytest.mark.case("C020")
@given(OBJECTS, st.data())
def test_every_cut_off_object_is_refused(data: dict[str, Any], draw: st.DataObject) -> None:
    text = json.dumps(data)
    cut = text[: draw.draw(st.integers(1, len(text) - 1))]
    assert refused(free, cut).startswith("The arguments are not valid JSON: ")


@pytest.mark.case("C020")
def test_every_cut_off_prefix_of_one_object_is_refused() -> None:
    text = '{"code": "if(a){b}{c}", "items": [1, 2.5, {"x": null}], "é": "\\ud83c\\udf78"}'
    for end in range(1, len(text)):
        assert refused(free, text[:end]).startswith("The arguments are not valid JSON: ")


@pytest.mark.case("C020")
@pytest.mark.parametrize("value", ["if(a){b}{c}", "}{", '{"a":1}', "[1,2", "```", '\\"', ""])
def test_text_that_looks_like_json_stays_text(value: str) -> None:
    def note(code: str) -> None: ...

    assert checked(note, json.dumps({"code": value})) == {"code": value}


@given(OBJECTS)
def test_a_mapping_and_its_json_text_agree(data: dict[str, Any]) -> None:
    by_text = read(parameters_of(free), json.dumps(data))[0]
    assert read(parameters_of(free), data)[0] == by_text
    assert read(parameters_of(free), MappingProxyType(data))[0] == by_text
    assert read(parameters_of(free), json.dumps(data, ensure_ascii=False).encode())[0] == by_text


def test_a_mapping_of_python_values_meets_the_rules_of_json() -> None:
    def plan(at: dt.datetime, cost: Decimal, to: Point, key: uuid.UUID, raw: bytes, hues: set[Hue]) -> None: ...

    given_ = {
        "at": dt.datetime(2024, 5, 1, 9, tzinfo=dt.UTC),
        "cost": Decimal("1.50"),
        "to": Point(x=1),
        "key": uuid.UUID(int=7),
        "raw": b"\xff\xfe\x00",
        "hues": {Hue.RED},
    }
    assert checked(plan, given_) == given_


def test_a_mapping_is_taken_by_value() -> None:
    inner: list[int] = [1]
    values = checked(anything, {"value": inner})
    inner.append(2)
    assert values == {"value": [1]}


@pytest.mark.parametrize("number", [2**53 + 1, 2**64, -(2**200), 10**400])
def test_large_integers_arrive_exactly(number: int) -> None:
    def add(value: int) -> None: ...

    for parameters in (add, anything):
        assert checked(parameters, {"value": number}) == {"value": number}
        assert checked(parameters, json.dumps({"value": number})) == {"value": number}
    assert read(SchemaParameters(None, "t"), {"value": number})[0] == {"value": number}


# -- digits -----------------------------------------------------------------------------------------------------

DIGITS = "0.1234567890123456789012"


class Price(BaseModel):
    total: Decimal = Field(alias="Total")
    parts: list[Price] = []


@dataclass
class Sum:
    total: Decimal


class Pair(NamedTuple):
    left: Decimal
    right: float


class Row(TypedDict):
    total: Decimal


D = Decimal(DIGITS)
EXACT: list[tuple[Any, str, Any]] = [
    (Decimal, DIGITS, D),
    (Decimal, "1.10", Decimal("1.10")),
    (Decimal, "1.5", Decimal("1.5")),
    (Decimal, "7", Decimal(7)),
    (Decimal, "1e400", Decimal("1E+400")),
    (Decimal, "1e-400", Decimal("1E-400")),
    (Decimal, "9007199254740993.0", Decimal("9007199254740993.0")),
    (Decimal, f'"{DIGITS}"', D),
    (Decimal | None, DIGITS, D),
    (int | Decimal, DIGITS, D),
    (Annotated[Decimal, Field(ge=0, lt=1, decimal_places=22)], DIGITS, D),
    (Annotated[Decimal, Strict()], DIGITS, D),
    (list[Decimal], f"[{DIGITS}, 1, 2.50]", [D, Decimal(1), Decimal("2.50")]),
    (dict[str, Decimal], f'{{"a": {DIGITS}}}', {"a": D}),
    (tuple[float, Decimal], f"[1.10, {DIGITS}]", (1.1, D)),
    (set[Decimal], f"[{DIGITS}]", {D}),
    (Price, f'{{"Total": {DIGITS}, "parts": [{{"Total": 1.10}}]}}', Price(Total=D, parts=[Price(Total=Decimal("1.10"))])),
    (Sum, f'{{"total": {DIGITS}}}', Sum(D)),
    (Pair, f"[{DIGITS}, {DIGITS}]", Pair(D, float(DIGITS))),
    (Row, f'{{"total": {DIGITS}}}', {"total": D}),
    (Row | list[int], f'{{"total": {DIGITS}}}', {"total": D}),
    (Price, json.dumps(f'{{"Total": {DIGITS}}}'), Price(Total=D)),
    (float, DIGITS, float(DIGITS)),
    (Any, DIGITS, float(DIGITS)),
    (float | Decimal, DIGITS, float(DIGITS)),
    (str | Decimal, '"1.10"', "1.10"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "text", "expected"), EXACT, ids=[f"{i}" for i in range(len(EXACT))])
def test_a_decimal_has_all_the_digits_of_the_text(annotation: Any, text: str, expected: Any) -> None:
    def use(x, exact: Decimal = Decimal(0)): ...  # pyright: ignore

    use.__annotations__["x"] = annotation
    for form in (f'{{"x": {text}}}', f'{{"x": {text}}}'.encode()):
        found = checked(use, form)["x"]
        assert found == expected
        assert repr(found) == repr(expected)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_any_decimal_arrives_as_it_is_written_and_its_neighbours_too(exact: Decimal, other: float) -> None:
    def use(exact: list[Decimal], number: float, **more: Any) -> None: ...

    found = checked(use, f'{{"exact": [{exact}, "{exact}"], "number": {other!r}, "any": {other!r}}}')
    assert found == {"exact": [exact, exact], "number": other, "any": other}
    if not str(exact).lstrip("-").isdecimal():
        assert [str(d) for d in found["exact"]] == [str(exact)] * 2


def test_a_bound_holds_for_the_digits_that_a_float_would_lose() -> None:
    def use(x: Annotated[Decimal, Field(le=1)]) -> None: ...

    assert refused(use, '{"x": 1.00000000000000000000001}') == (
        "The arguments do not fit the schema. x: should be less than or equal to 1 (got number)."
    )


def test_the_schema_of_a_decimal_shows_no_mark() -> None:
    def use(price: Price, x: Decimal | None = None) -> None: ...

    assert "exact" not in json.dumps(parameters_of(use).schema)


def test_blanks_are_left_out_without_a_loss_of_digits() -> None:
    def use(x: Decimal, n: int | None = None) -> None: ...

    assert str(checked(use, f'{{"x": {DIGITS}, "n": ""}}', omit_blank=True)["x"]) == DIGITS


def test_a_decimal_beside_deep_or_large_values_arrives_exactly() -> None:
    def use(x: Decimal, more: Any) -> None: ...

    for more in ("[" * 90 + "1.10" + "]" * 90, str(2**70)):
        assert str(checked(use, f'{{"x": {DIGITS}, "more": {more}}}')["x"]) == DIGITS
    assert "nested too deeply" in refused(use, f'{{"x": {DIGITS}, "more": {"[" * 900 + "]" * 900}}}')


# -- surrogates -------------------------------------------------------------------------------------------------


@pytest.mark.case("C029")
@pytest.mark.parametrize(
    "arguments",
    [r'{"value":"\ud83c\udf78"}', rb'{"value":"\ud83c\udf78"}', '{"value":"\ud83c\udf78"}', {"value": "\ud83c\udf78"}],
)
@pytest.mark.parametrize("parameters", [anything, free, SchemaParameters(None, "t")])
def test_a_surrogate_pair_arrives_as_one_character(parameters: Any, arguments: Any) -> None:
    read_by = parameters if isinstance(parameters, SchemaParameters) else parameters_of(parameters)
    values, text = read(read_by, arguments)
    assert values == {"value": "🍸"}
    assert parse(text) == values


@pytest.mark.case("C029")
@pytest.mark.parametrize("arguments", ['{"value":"a\udc97b"}', {"value": "a\udc97b"}])
def test_a_lone_surrogate_is_refused_and_not_replaced(arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match="The arguments are not valid JSON: a lone surrogate"):
        checked(anything, arguments)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), object(), {"a": {1: object()}}, {(1, 2): 3}],
    ids=["nan", "infinity", "object", "nested object", "tuple key"],
)
def test_what_json_cannot_hold_is_refused_in_a_mapping_and_never_changed(value: Any) -> None:
    with pytest.raises(InvalidArguments, match="The arguments cannot be written as JSON"):
        checked(anything, {"value": value})


def test_a_mapping_is_passed_whole_whatever_its_size() -> None:
    assert len(checked(anything, {"value": [1] * 300_000})["value"]) == 300_000


# -- unwrapping JSON text ---------------------------------------------------------------------------------------


def draw(
    to: Point,
    via: list[Point] | None = None,
    sizes: dict[str, list[int]] | None = None,
    pair: tuple[list[int], str] = ([], ""),
    title: str = "",
) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"to": '{"x":1}'}, {"to": Point(x=1)}),
        ('"{\\"to\\": {\\"x\\": 1}}"', {"to": Point(x=1)}),
        ({"to": {"x": 1}, "via": '[{"x":2}]'}, {"to": Point(x=1), "via": [Point(x=2)]}),
        ({"to": {"x": 1}, "via": ['{"x":2}']}, {"to": Point(x=1), "via": [Point(x=2)]}),
        ({"to": {"x": 1}, "sizes": {"a": "[1]"}}, {"to": Point(x=1), "sizes": {"a": [1]}}),
        ({"to": {"x": 1}, "pair": ["[1]", "[1]"]}, {"to": Point(x=1), "pair": ([1], "[1]")}),
        ({"to": '{"x":1}', "title": '{"x":1}'}, {"to": Point(x=1), "title": '{"x":1}'}),
    ],
)
def test_json_text_is_unwrapped_where_an_object_or_array_is_wanted(arguments: object, expected: Any) -> None:
    values, text = read(parameters_of(draw), arguments)
    assert values == expected
    assert read(parameters_of(draw), text)[0] == expected


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"to": json.dumps(json.dumps({"x": 1}))}, "to: should be an object (got string)"),
        ({"to": '{"x":"[1]"}'}, "to.x: should be a valid integer (got string)"),
        ({"to": "[1]"}, "to: should be an object (got string)"),
        ({"to": '{"x":1} ok'}, "to: should be an object (got string)"),
        ({"to": '{"x":1,"x":2}'}, "to: should be an object (got string)"),
        ({"to": "x=1"}, "to: should be an object (got string)"),
        ('"\\"{}\\""', "should be an object (got string)"),
        ('""', "should be an object (got string)"),
    ],
)
def test_json_text_is_unwrapped_once_and_only_if_it_is_strict_and_fits(arguments: object, error: str) -> None:
    assert refused(draw, arguments) == f"The arguments do not fit the schema. {error}."


TEXT = '{"x": 1}'


ADMITS_TEXT: list[Any] = [
    {"type": "string"},
    {"type": ["string", "object"]},
    {"anyOf": [{"type": "object"}, {"type": "string"}]},
    {"anyOf": [{"type": "object"}, True]},
    {"oneOf": [{"type": "object"}, {"$ref": "#/$defs/text"}]},
    {"$ref": "#/$defs/text"},
    {"$ref": "#/$defs/loop"},
    {"anyOf": [{"type": "object"}, {}]},
    {"enum": [TEXT, {}]},
    {},
    True,
]


@pytest.mark.parametrize("field", ADMITS_TEXT)
def test_a_value_for_a_field_that_admits_text_is_never_unwrapped(field: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"field": field, "list": {"type": "array"}},
        "$defs": {"text": {"type": "string"}, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "string"}]}},
    }
    values, _ = read(SchemaParameters(schema, "t"), {"field": TEXT, "list": "[1]"})
    assert values == {"field": TEXT, "list": [1]}


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object"},
        {"type": ["object", "null"]},
        {"anyOf": [{"type": "object"}, {"type": "null"}]},
        {"allOf": [{"$ref": "#/$defs/point"}]},
        {"$ref": "#/$defs/point", "description": "Where."},
        {"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
        {"anyOf": [{"$ref": "#/$defs/point"}, {"$ref": "#/$defs/point"}]},
    ],
)
def test_a_field_of_a_foreign_schema_that_wants_an_object_is_unwrapped(field: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"field": field},
        "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "anyOf": [{"required": ["field"]}, {"required": ["other"]}],
    }
    assert read(SchemaParameters(schema, "t"), {"field": TEXT})[0] == {"field": {"x": 1}}


def test_text_of_one_alternative_is_not_unwrapped_because_another_wants_a_list() -> None:
    def show(shape: Circle | Box) -> None: ...

    sent = {"shape": {"kind": "circle", "note": "[1]", "sizes": "[1]"}}
    assert checked(show, sent) == {"shape": Circle(kind="circle", note="[1]", sizes=[1])}


def test_text_that_a_parameter_takes_by_itself_is_not_unwrapped() -> None:
    def pick(
        names: Annotated[list[str], BeforeValidator(lambda v: v.split(",") if isinstance(v, str) else v)],
    ) -> None: ...

    assert checked(pick, {"names": '["a"]'}) == {"names": ['["a"]']}


def test_a_foreign_schema_that_branches_without_end_is_read_in_one_pass() -> None:
    loop = {"anyOf": [{"$ref": f"#/$defs/{n}"} for n in "abcdefgh"]}
    schema = {
        "properties": {"field": loop, "n": {"type": "integer"}},
        "$defs": {n: {"anyOf": [*loop["anyOf"], {"type": "null"}]} for n in "abcdefgh"},
    }
    error = refused(SchemaParameters(schema, "t"), {"n": "x", "field": "[1]"})
    assert "n: value is not of type" in error


# -- errors a model can act on ----------------------------------------------------------------------------------


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


def order(
    number: Annotated[str, Field(pattern="^A-[0-9]+$")],
    count: Annotated[int, Field(ge=1, le=50)] = 1,
    hue: Hue = Hue.RED,
    to: list[Point] | None = None,
    key: int | list[int] | None = None,
    shape: Annotated[Circle | Box, Field(discriminator="kind")] | None = None,
    by_day: dict[int, str] | None = None,
    closed: Closed | None = None,
) -> None: ...


FAULTS: list[tuple[object, str]] = [
    ({}, "number: is required"),
    ({"number": "A-1", "cuont": 1}, "cuont: is not a parameter of this tool"),
    ({"number": "A-1", "closed": {"x": 1, "y": 2}}, "closed.y: is not declared"),
    ({"number": "x"}, "number: string should match pattern '^A-[0-9]+$' (got string)"),
    ({"number": 1}, "number: should be a valid string (got integer)"),
    ({"number": None}, "number: should be a valid string (got null)"),
    ({"number": "A-1", "count": 99}, "count: should be less than or equal to 50 (got integer)"),
    (
        {"number": "A-1", "count": 1.5},
        "count: should be a valid integer (got number)",
    ),
    ({"number": "A-1", "hue": "green"}, "hue: should be 'red' or 'blue' (got string)"),
    ({"number": "A-1", "to": [{"x": 1}, {}]}, "to[1].x: is required"),
    (
        {"number": "A-1", "to": [{"x": True}, {"x": []}]},
        "to[0].x: should be a valid integer (got boolean); to[1].x: should be a valid integer (got array)",
    ),
    (
        {"number": "A-1", "key": "x"},
        "key: should be a valid integer (got string) or should be a valid array (got string)",
    ),
    (
        {"number": "A-1", "key": {}},
        "key: should be a valid integer (got object) or should be a valid array (got object)",
    ),
    ({"number": "A-1", "shape": {"kind": "cone"}}, "shape: should have a tag among 'circle', 'box'"),
    (
        {"number": "A-1", "shape": {"kind": "box", "note": [], "sizes": [1, "x"]}},
        "shape.sizes[1]: should be a valid integer (got string)",
    ),
    (
        {"number": "A-1", "by_day": {"mon": "a"}},
        "by_day.mon: should be a valid integer, unable to parse string as an integer (got string)",
    ),
    (
        {"number": 1, "count": 0},
        "number: should be a valid string (got integer); count: should be greater than or equal to 1 (got integer)",
    ),
]


@pytest.mark.case("C022")
@pytest.mark.parametrize(("arguments", "error"), FAULTS)
def test_an_error_names_path_rule_and_received_type(arguments: object, error: str) -> None:
    assert refused(order, arguments) == f"The arguments do not fit the schema. {error}."


def test_at_most_ten_faults_are_told_and_the_rest_counted() -> None:
    def add(ns: list[int]) -> None: ...

    error = refused(add, {"ns": ["x"] * 25})
    assert error.count("should be a valid integer") == 10
    assert error.endswith("; and 15 more.")


def test_a_long_key_is_cut_in_the_path() -> None:
    assert len(refused(find, {"q": "x", "k" * 10_000: 1})) < 400


def test_a_foreign_schema_tells_path_rule_and_type_too() -> None:
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string"}, "rows": {"items": {"properties": {"n": {"maximum": 3}}}}},
        "required": ["q"],
    }
    assert refused(SchemaParameters(schema, "t"), {"rows": [{"n": 1}, {"n": 9}]}) == (
        "The arguments do not fit the schema. "
        "q: is required; rows[1].n: value is greater than the maximum of 3 (got integer)."
    )


@pytest.mark.parametrize("word", ["additionalProperties", "unevaluatedProperties"])
def test_a_foreign_schema_names_each_missing_and_each_undeclared_key_by_its_path(word: str) -> None:
    row: dict[str, Any] = {"type": "object", "properties": {"n": True, "m": True}, "required": ["n", "m"], word: False}
    schema: dict[str, Any] = {"type": "object", "properties": {"rows": {"items": row}}}
    assert sorted(SchemaParameters(schema, "t").faults({"rows": [{"n": 1, "m": 2}, {"x": 1, "y": 2}]})) == [
        ("rows[1].m", "is required"),
        ("rows[1].n", "is required"),
        ("rows[1].x", "is not declared"),
        ("rows[1].y", "is not declared"),
    ]


@pytest.mark.parametrize("kind", ["array", ["string", "null"]])
def test_a_schema_that_admits_no_object_is_refused(kind: Any) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        SchemaParameters({"type": kind}, "t")
    assert str(caught.value) == (
        'the schema of tool \'t\' admits no object, but arguments are one. Write {"type": "object", "properties": {…}}.'
    )


def test_a_validator_that_raises_anything_is_a_refusal_without_the_value() -> None:
    class Odd(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def refuse(cls, n: int) -> int:
            raise KeyError(n)

    def use(odd: Odd) -> None: ...

    assert refused(use, {"odd": {"n": 8_675_309}}) == (
        "The arguments do not fit the schema. cannot be checked, a validator raised KeyError (got object)."
    )


def test_the_rule_of_a_validator_reaches_the_model() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    def use(even: Even) -> None: ...

    assert refused(use, {"even": {"n": 1}}) == (
        "The arguments do not fit the schema. even.n: value error, must be even (got integer)."
    )


class Reached(BaseModel):
    password: str

    @field_validator("password")
    @classmethod
    def reach(cls, password: str) -> str:
        raise ValueError("no way to postgres://ann:FAKEFAKE1@db/x" + " and on" * 1_000)


def test_the_words_of_a_validator_are_bounded_and_lose_their_credentials() -> None:
    def use(door: Reached) -> None: ...

    told = refused(use, {"door": {"password": "x"}})
    start = "The arguments do not fit the schema. door.password: value error, no way to postgres://ann:[redacted]@db/x"
    assert told.startswith(start)
    assert len(told) < 2_500


def ages(ages: dict[str, int]) -> None: ...


@pytest.mark.parametrize(
    ("parameters", "path"),
    [(ages, ["ages"]), (now, []), (SchemaParameters({"additionalProperties": False}, "t"), [])],
)
def test_a_key_that_looks_like_a_credential_is_not_told(parameters: Any, path: list[str]) -> None:
    arguments: dict[str, Any] = {"ghp_" + "FAKE" * 9: "x"}
    told = refused(parameters, {path[0]: arguments} if path else arguments)
    assert told.startswith(f"The arguments do not fit the schema. {'.'.join([*path, '[redacted]'])}: ")
    assert "FAKE" not in told


def test_a_key_is_told_with_its_spaces() -> None:
    assert (
        refused(find, {"q": "", "q ": 1}) == "The arguments do not fit the schema. q : is not a parameter of this tool."
    )


def test_where_a_foreign_schema_declares_nothing_every_name_is_told() -> None:
    nothing = {"type": "object", "additionalProperties": False}
    empty = SchemaParameters(nothing, "t")
    assert refused(empty, {"a": 1, "b": {}}) == (
        "The arguments do not fit the schema. a: is not declared; b: is not declared."
    )
    below = SchemaParameters({"properties": {"rows": {"items": nothing}, "additionalProperties": False}}, "t")
    assert refused(below, {"rows": [{}, {"a": 1}]}) == (
        "The arguments do not fit the schema. rows[1].a: is not declared."
    )
    assert refused(below, {"additionalProperties": 1}).startswith(
        "The arguments do not fit the schema. additionalProperties: "
    )


# -- names that the function uses itself ------------------------------------------------------------------------


class Desk:
    def method(self, **more: Any) -> dict[str, Any]:
        return more

    @classmethod
    def of_class(cls, **more: Any) -> dict[str, Any]:
        return more

    def positional(self, /, **more: Any) -> dict[str, Any]:
        return more

    @tool
    def decorated(self, **more: Any) -> dict[str, Any]:
        return more

    __call__ = method


class Form:
    def __init__(self, **more: Any) -> None: ...


def with_context(ctx: Context[Any], **more: Any) -> dict[str, Any]:
    return more


def with_alias(n: Annotated[int, Field(alias="number")], **more: Any) -> dict[str, Any]:
    return {"n": n, **more}


def with_first(first: int, second: int = 2, **more: Any) -> dict[str, Any]:
    return {"second": second, **more}


def wrapping(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, tries: int = 3, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


TAKEN: list[tuple[Any, str, dict[str, Any]]] = [
    (Desk().method, "self", {}),
    (Desk.of_class, "cls", {}),
    (Desk(), "self", {}),
    (Form, "self", {}),
    (with_context, "ctx", {}),
    (with_alias, "n", {"number": 1}),
    (functools.partial(with_first, 1), "first", {"second": 3}),
    (wrapping(Desk().method), "tries", {}),
    (wrapping(Desk().method), "self", {}),
]


@pytest.mark.parametrize(
    ("function", "name", "more", "schema"),
    [
        *(pytest.param(*taken, None, id=f"{i} {taken[1]}-signature") for i, taken in enumerate(TAKEN)),
        *(
            pytest.param(*taken, {"type": "object"}, id=f"{i} {taken[1]}-schema")
            for i, taken in enumerate(TAKEN)
            if taken[0] is not with_alias  # a given schema knows no aliases
        ),
    ],
)
def test_a_name_that_the_function_uses_itself_is_refused_by_name(
    function: Any, name: str, more: dict[str, Any], schema: Any
) -> None:
    made = tool(name="t", schema=schema, effect="read")(function)
    for arguments in ({**more, name: 5}, json.dumps({name: 5, **more}), json.dumps({**more, name: 5}).encode()):
        result = asyncio.run(made.call(arguments))
        assert result.failure is not None
        assert (result.failure.code, result.error) == (
            "invalid_arguments",
            "Tool 't' was not called. The arguments do not fit the schema. "
            f"{name}: is not a parameter of this tool, which uses the name itself.",
        )


def test_a_tool_in_a_class_body_refuses_the_name_of_its_instance_too() -> None:
    result = asyncio.run(Desk().decorated.call({"self": 5}))
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (Desk().positional, {"self": 5}),
        (Desk().method, {"more": 5, "args": 6}),
        (functools.partial(with_first, 1), {"second": 3, "third": 4}),
        (functools.partial(with_first, 1, second=7), {"second": 3}),
        (wrapping(with_context), {"args": 5, "kwargs": 6, "more": 7}),
    ],
)
def test_any_other_name_arrives(function: Any, arguments: dict[str, Any]) -> None:
    for schema in (None, {"type": "object"}):
        assert asyncio.run(tool(name="t", schema=schema)(function).call(arguments)).value == arguments


# -- nothing is echoed ------------------------------------------------------------------------------------------


def all_kinds(
    a: uuid.UUID | None = None,
    b: dt.datetime | None = None,
    c: Decimal | None = None,
    d: AnyUrl | None = None,
    e: ipaddress.IPv4Address | None = None,
    f: dt.timedelta | None = None,
    g: dt.date | None = None,
    h: dt.time | None = None,
    i: bool | None = None,
    j: float | None = None,
    k: Literal["x"] | None = None,
    l: Annotated[str, Field(pattern="^x$")] = "x",  # noqa: E741
    m: Annotated[str, Field(max_length=2)] = "x",
    n: list[int] | None = None,
    o: dict[int, int] | None = None,
    p: tuple[int, int] | None = None,
    q: Hue | None = None,
    r: Circle | Box | None = None,
    s: Annotated[Circle | Box, Field(discriminator="kind")] | None = None,
    t: complex | None = None,
) -> None: ...


FOREIGN = SchemaParameters(
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"enum": ["x"]},
            "c": {"const": 5},
            "d": {"pattern": "^x"},
            "e": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "f": {"maxLength": 2},
            "g": {"not": {"type": "string"}},
            "h": {"items": {"type": "integer"}},
            "i": {"uniqueItems": True},
            "s": {"properties": {"kind": {"const": "x"}}},
        },
        "additionalProperties": {"maxLength": 3},
    },
    "t",
)
NESTED = [CANARY, [CANARY, CANARY], {"kind": CANARY}, {"kind": "circle", "note": [CANARY], "sizes": [CANARY]}]


@pytest.mark.case("C025")
@pytest.mark.parametrize("value", NESTED)
@pytest.mark.parametrize("parameters", [all_kinds, FOREIGN])
def test_no_refusal_of_any_rule_echoes_a_value(parameters: Any, value: object) -> None:
    for name in "abcdefghijklmnopqrst":
        read_by = parameters if isinstance(parameters, SchemaParameters) else parameters_of(parameters)
        error = refusal(read_by, {name: value})
        assert CANARY not in everything_about(error)
        assert error is None or name in str(error)


@pytest.mark.parametrize("letter", "zZ!%")
def test_not_even_one_character_of_a_value_is_echoed(letter: str) -> None:
    def use(key: uuid.UUID | None = None, raw: bytes = b"") -> None: ...

    for name in ("key", "raw"):
        error = refused(use, {name: letter + "-"})
        assert f"`{letter}`" not in error
        assert str(ord(letter)) not in error


@pytest.mark.case("C025")
@pytest.mark.parametrize("parameters", [anything, FOREIGN])
@pytest.mark.parametrize(
    "text",
    [
        f'{{"token":"{CANARY}",',
        f'{{"token":"{CANARY}"}} and {CANARY}',
        f'{{"value":"{CANARY}","value":"{CANARY}"}}',
        f'{{"value":{CANARY}}}',
        f'{{"value":["{CANARY}",NaN]}}',
        f"{CANARY}",
        f'"{CANARY}"',
        f'["{CANARY}"]',
        f'{{"value":"{CANARY}\\ud83c"}}',
    ],
)
def test_a_syntax_error_tells_the_place_and_not_the_text(
    text: str, parameters: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    read_by = parameters if isinstance(parameters, SchemaParameters) else parameters_of(parameters)
    with pytest.raises(InvalidArguments) as caught:
        read(read_by, text)
    assert CANARY not in everything_about(caught.value)
    assert CANARY not in caplog.text


def refusal(parameters: Parameters, arguments: object) -> InvalidArguments | None:
    try:
        read(parameters, arguments)
    except InvalidArguments as error:
        return error
    return None


def everything_about(error: BaseException | None) -> str:
    """The texts of an exception and of all it came from, shown or not."""
    told: list[str] = []
    todo: list[BaseException | None] = [error]
    while todo:
        here = todo.pop()
        if here is not None:
            told += [str(here), repr(here), repr(here.args), repr(vars(here))]
            todo += [here.__cause__, here.__context__]
    return "\n".join(told)


@pytest.mark.case("C025")
@pytest.mark.parametrize(
    "text", [f'{{"token":"{CANARY}",', f'{{"count":"{CANARY}"}}', f'{{"count":1,"note":{{"{CANARY}']
)
def test_a_failed_call_holds_the_tool_and_the_place_and_no_value(text: str, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def save(count: int) -> None: ...

    caplog.set_level(logging.DEBUG)
    result = run(save.call(text))
    assert result.error is not None
    assert result.error.startswith("Tool 'save' was not called. The arguments ")
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"
    assert CANARY not in repr(result) + repr(result.failure) + result.output + caplog.text


# -- blanks by policy -------------------------------------------------------------------------------------------


def post(
    q: str,
    channel_id: Annotated[str, Field(pattern="^C[0-9]+$")] | None = None,
    day: dt.date | None = None,
    count: int | None = None,
    where: Path = Path("here"),
    hue: Hue | None = None,
    mode: Literal["", "fast"] = "fast",
    title: str = "untitled",
    note: str | None = None,
    extra: Any = None,
) -> None: ...


@pytest.mark.case("C022")
def test_a_blank_for_an_optional_field_is_an_error_that_names_it() -> None:
    error = refused(post, {"q": "x", "channel_id": ""})
    assert error == (
        "The arguments do not fit the schema. channel_id: string should match pattern '^C[0-9]+$' (got string)."
    )


@pytest.mark.case("C022")
@pytest.mark.parametrize("name", ["channel_id", "day", "count", "where", "hue"])
def test_a_declared_policy_takes_a_blank_for_absent(name: str) -> None:
    values, text = read(parameters_of(post), {"q": "x", name: ""}, omit_blank=True)
    assert values == {"q": "x"}
    assert parse(text) == {"q": "x"}


@pytest.mark.case("C022")
@pytest.mark.parametrize("name", ["q", "mode", "title", "note", "extra"])
def test_the_policy_keeps_a_blank_that_is_text(name: str) -> None:
    sent = {"q": "x", "day": "", name: ""}
    assert checked(post, sent, omit_blank=True) == {"q": "x", name: ""} | ({"q": ""} if name == "q" else {})


def test_the_policy_leaves_other_values_and_a_required_blank_to_the_check() -> None:
    def plan(day: dt.date, count: int = 1) -> None: ...

    assert checked(plan, {"day": "2024-05-01", "count": 0}, omit_blank=True) == {"day": dt.date(2024, 5, 1), "count": 0}
    assert refused(plan, {"day": "", "count": ""}, omit_blank=True).startswith(
        "The arguments do not fit the schema. day: should be a valid date"
    )
    assert refused(plan, '{"day": "",', omit_blank=True).startswith("The arguments are not valid JSON: ")
    assert (
        refused(plan, "[]", omit_blank=True) == "The arguments do not fit the schema. should be an object (got array)."
    )


def test_blanks_inside_unwrapped_text_follow_the_policy() -> None:
    assert checked(post, json.dumps('{"q": "x", "day": ""}'), omit_blank=True) == {"q": "x"}


def test_a_tool_declares_the_policy() -> None:
    @tool(omit_blank=True)
    async def plan(day: dt.date | None = None) -> str:
        return str(day)

    assert run(plan.call({"day": ""})).value == "None"


# -- schemas from outside ---------------------------------------------------------------------------------------


@pytest.mark.case("C014")
def test_a_foreign_schema_of_many_shapes_is_taken_as_it_is() -> None:
    options = [{"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "array"}, {"enum": [1, "a"]}, {}]
    schema = {"type": "object", "properties": {"value": {"anyOf": options}}, "required": ["value"]}

    @tool(schema=schema)
    async def show(value: Any) -> Any:
        return value

    assert show.parameters.schema == schema
    for value in ("a", 1, 1.5, [1], None, {"x": 1}):
        assert run(show.call({"value": value})).value == value
    assert run(show.call({})).failure is not None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "nope"}, "value is not valid under any"),
        ({"properties": {"a": {"pattern": "("}}}, "value is not a"),
        ({"$ref": "#/nowhere"}, "Pointer '/nowhere' does not exist"),
        ({"$ref": "https://example.org/schema"}, "remote references are not followed"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "Resource 'other.json' is not present in a registry"),
        ({"$schema": "https://example.org/dialect"}, "Unknown meta-schema"),
        ({"default": object()}, "Type is not JSON serializable"),
    ],
)
def test_an_unusable_schema_is_refused_when_the_tool_is_defined(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        SchemaParameters(schema, "show")
    text = str(caught.value)
    assert text.startswith("the schema of tool 'show' is no usable JSON Schema: ")
    assert reason in text
    assert text.endswith(" Correct it.")


def test_a_schema_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"self": schema}
    with pytest.raises(ToolDefinitionError, match=r"^the schema of tool 'show' is no usable JSON Schema: "):
        SchemaParameters(schema, "show")


def test_no_schema_takes_any_object() -> None:
    parameters = SchemaParameters(None, "t")
    assert parameters.schema == {"type": "object"}
    assert read(parameters, {"a": [1, {"b": None}]})[0] == {"a": [1, {"b": None}]}


def test_many_calls_at_once_share_one_check() -> None:
    @tool
    async def add(to: Point, n: int) -> int:
        return to.x + n

    async def many() -> list[Any]:
        return [r.value for r in await asyncio.gather(*(add.call({"to": {"x": i}, "n": 1}) for i in range(200)))]

    assert run(many()) == [i + 1 for i in range(200)]


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_a_check_ends_in_arguments_or_in_a_refusal(data: Mapping[str, Any]) -> None:
    assume(not any(isinstance(v, float) and math.isinf(v) for v in data.values()))
    for parameters in (parameters_of(order), parameters_of(all_kinds), FOREIGN):
        error = refusal(parameters, data)
        if error is not None:
            assert str(error).startswith("The arguments do not fit the schema. ")
        else:
            values, text = read(parameters, data)
            assert parse(text) == data
            assert values.keys() == data.keys()


@pytest.mark.parametrize("place", ['"y": "[1]"', '"y": [1], "price": 1.10'])
def test_a_number_stays_one_beside_an_integer_beyond_64_bits(place: str) -> None:
    @tool
    def note(more: dict[str, Any], y: list[int], rate: float, price: Decimal = Decimal(0)) -> Any:
        return [more["a"], more["id"], rate]

    result = run(note.call('{"more": {"a": 2.50, "id": 18446744073709551616}, "rate": 1e15, ' + place + "}"))
    assert result.value == [2.5, 2**64, 1e15]
