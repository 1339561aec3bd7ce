"""Schemas from signatures: every annotation is described exactly, and its instance arrives."""

from __future__ import annotations

import asyncio
import collections
import datetime as dt
import functools
import gc
import inspect
import os
import re
import subprocess
import sys
import textwrap
import types
import typing
import uuid
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import Annotated, Any, ForwardRef, Generic, Literal, NamedTuple, NewType, Optional, TypeVar, Union

import jsonschema_rs
import pytest
import typing_extensions
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    InstanceOf,
    PastDate,
    PositiveInt,
    RootModel,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from tests.clock import run

from ferrule import Context, FunctionTool, ToolDefinitionError, tool
from ferrule.strict_json import parse
from ferrule.tool.schema.annotation import readable
from ferrule.tool.schema.arguments import InvalidArguments, SchemaParameters, read
from ferrule.tool.schema.reference import Schema
from ferrule.tool.schema.signature import Signature, read_signature

T = TypeVar("T")


class Hue(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Row(typing.TypedDict):
    n: int


class Part(typing.TypedDict, total=False):
    rows: list[Row]
    parent: Part
    name: typing.Required[str]


class Cell(typing_extensions.TypedDict):
    n: int
    note: typing_extensions.NotRequired[str]


@dataclass
class Size:
    width: int
    hue: Hue = Hue.RED


@dataclass
class Pair(Generic[T]):
    first: T
    second: T


class Spot(NamedTuple):
    x: int
    y: int = 0


class Point(BaseModel):
    x: int


class Track(BaseModel):
    name: str
    points: list[Point] = []
    sizes: dict[str, Size] = {}


class Tree(BaseModel):
    kids: list[Tree] = []


class Page(BaseModel, Generic[T]):
    items: list[T]


Number = NewType("Number", int)
Few = Annotated[bytes, Field(min_length=2, max_length=4)]


def described(function: Any, name: str = "f") -> Signature:
    return read_signature(function, Context, name)


def with_parameter(annotation: Any) -> Any:
    """A function whose parameter `p` is annotated so."""

    def function(**kwargs: Any) -> None: ...

    function.__annotations__ = {"p": annotation}
    parameter = inspect.Parameter("p", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    function.__signature__ = inspect.Signature([parameter])  # pyright: ignore[reportFunctionMemberAccess]
    return function


def properties(function: Any) -> dict[str, Any]:
    return described(function).schema["properties"]


def arrives(function: Any, arguments: object) -> dict[str, Any]:
    return read(described(function), arguments)[0]


def refusal(function: Any, name: str = "f") -> str:
    with pytest.raises(ToolDefinitionError) as caught:
        described(function, name)
    return str(caught.value)


# -- every kind of annotation -----------------------------------------------------------------------------------

DURATION = {"anyOf": [{"type": "number", "description": "Seconds."}, {"type": "string", "format": "duration"}]}
KINDS: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (int, {"type": "integer"}, 3, 3),
    (float, {"type": "number"}, 3, 3.0),
    (str, {"type": "string"}, "3", "3"),
    (bool, {"type": "boolean"}, True, True),
    (None, {"type": "null"}, None, None),
    (Any, {}, {"x": [1]}, {"x": [1]}),
    (object, {}, 1, 1),
    (list, {"type": "array", "items": {}}, [1, "a"], [1, "a"]),
    (dict, {"type": "object", "additionalProperties": True}, {"a": 1}, {"a": 1}),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (dict[int, str], {"type": "object", "additionalProperties": {"type": "string"}}, {"1": "a"}, {1: "a"}),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [2, 1], {1, 2}),
    (frozenset[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a"], frozenset({"a"})),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        [1, "a"],
        (1, "a"),
    ),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (Iterable[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (typing.Iterable, {"type": "array", "items": {}}, [1], [1]),
    (list[Iterable[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, [[1]], [[1]]),
    (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (collections.deque[int], {"type": "array", "items": {"type": "integer"}}, [1], collections.deque([1])),
    (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}, None, None),  # noqa: UP045 - as people write it
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "7", "7"),  # noqa: UP007 - the same
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}, 1, 1),
    (Literal["a"], {"type": "string", "const": "a"}, "a", "a"),
    (Annotated[int, Field(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}, 5, 5),
    (Annotated[str, Field(pattern="^A")], {"type": "string", "pattern": "^A"}, "A", "A"),
    (Annotated[int, "a note"], {"type": "integer"}, 1, 1),
    (Annotated[int, Field(description="How many.")], {"type": "integer", "description": "How many."}, 1, 1),
    (dt.date, {"type": "string", "format": "date"}, "2024-05-01", dt.date(2024, 5, 1)),
    (dt.time, {"type": "string", "format": "time"}, "09:30:00", dt.time(9, 30)),
    (
        dt.datetime,
        {"type": "string", "format": "date-time"},
        "2024-05-01T09:30:00Z",
        dt.datetime(2024, 5, 1, 9, 30, tzinfo=dt.UTC),
    ),
    (dt.timedelta, DURATION, "PT90S", dt.timedelta(seconds=90)),
    (dt.timedelta, DURATION, 90.5, dt.timedelta(seconds=90.5)),
    (Decimal, {"anyOf": [{"type": "number"}, {"type": "string"}]}, "1.50", Decimal("1.50")),
    (uuid.UUID, {"type": "string", "format": "uuid"}, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
    (Path, {"type": "string", "format": "path"}, "a/b", Path("a/b")),
    (bytes, {"type": "string", "format": "base64url"}, "aGk-", b"hi>"),
    (bytes, {"type": "string", "format": "base64url"}, "aGk+", b"hi>"),
    (list[bytes], {"type": "array", "items": {"type": "string", "format": "base64url"}}, ["aGk="], [b"hi"]),
    (Few, {"type": "string", "format": "base64url", "minLength": 3, "maxLength": 8}, "aGk", b"hi"),
    (Few, {"type": "string", "format": "base64url", "minLength": 3, "maxLength": 8}, "aGVsbA==", b"hell"),
    (Base64Bytes, {"type": "string", "format": "base64"}, "aGk=", b"hi"),
    (Number, {"type": "integer"}, 1, 1),
    (T, {}, [1], [1]),
]


@pytest.mark.case("C001")
@pytest.mark.case("C013")
@pytest.mark.parametrize(("annotation", "schema", "sent", "instance"), KINDS)
def test_an_annotation_has_its_schema_and_its_instance_arrives(
    annotation: Any, schema: dict[str, Any], sent: Any, instance: Any
) -> None:
    function = with_parameter(annotation)
    assert described(function).schema == {
        "type": "object",
        "properties": {"p": schema},
        "required": ["p"],
        "additionalProperties": False,
    }
    value = arrives(function, {"p": sent})["p"]
    assert value == instance
    assert type(value) is type(instance)
    assert jsonschema_rs.is_valid(described(function).schema, {"p": sent})


class Upload(BaseModel):
    body: bytes = b"\xfe"
    all: list[bytes] = [b"hi"]
    own: Base64Bytes | None = None


@pydantic_dataclass
class Sealed:
    body: bytes


class Hexed(BaseModel, val_json_bytes="hex"):
    body: bytes = b"\xfe"


@pytest.mark.parametrize(
    ("annotation", "sent", "instance"),
    [
        (Upload, {"body": "/gA=", "all": ["aGk="], "own": "aGk="}, Upload.model_construct(body=b"\xfe\0", own=b"hi")),
        (Upload, {"body": b"\xfe\0"}, Upload(body=b"\xfe\0")),
        (Upload, Upload(body=b"\xfe\0"), Upload(body=b"\xfe\0")),
        (Sealed, {"body": "aGk="}, Sealed(b"hi")),
        (Sealed, Sealed(b"hi"), Sealed(b"hi")),
        (list[Upload], [{"body": b"hi"}], [Upload(body=b"hi")]),
        (Hexed, {"body": "6869"}, Hexed(body=b"hi")),  # its own word
    ],
)
def test_bytes_are_base64_inside_a_class_too_unless_it_says_how_it_reads_them(
    annotation: Any, sent: Any, instance: Any
) -> None:
    assert arrives(with_parameter(annotation), {"p": sent})["p"] == instance


def test_the_schema_of_a_class_tells_its_bytes_as_they_are_read() -> None:
    bytes_of = {"type": "string", "format": "base64url"}
    upload = described(with_parameter(Upload)).schema["$defs"]["Upload"]["properties"]
    assert upload["body"] == {**bytes_of, "default": "_g=="}
    assert upload["all"]["items"] == bytes_of
    assert upload["all"]["default"] == ["aGk="]
    assert described(with_parameter(Hexed)).schema["$defs"]["Hexed"]["properties"]["body"]["default"] == "fe"


POINT = {"type": "object", "properties": {"x": {"type": "integer", "title": "X"}}, "required": ["x"]}
NAMED: list[tuple[Any, str, list[str], Any, Any]] = [
    (Hue, "Hue", [], "blue", Hue.BLUE),
    (Level, "Level", [], 2, Level.HIGH),
    (Point, "Point", ["x"], {"x": "1"}, Point(x=1)),
    (Size, "Size", ["width"], {"width": 2, "hue": "blue"}, Size(2, Hue.BLUE)),
    (Spot, "Spot", [], {"x": 1}, Spot(1)),
    (Spot, "Spot", [], [1, 2], Spot(1, 2)),
    (Row, "Row", ["n"], {"n": 1}, {"n": 1}),
    (Cell, "Cell", ["n"], {"n": 1}, {"n": 1}),
    (Page[Point], "Page_Point_", ["items"], {"items": [{"x": 1}]}, Page[Point](items=[Point(x=1)])),
    (Pair[int], "Pair_int_", ["first", "second"], {"first": 1, "second": 2}, Pair(1, 2)),
    (Tree, "Tree", [], {"kids": [{}]}, Tree(kids=[Tree()])),
    (
        Track,
        "Track",
        ["name"],
        {"name": "a", "points": [{"x": 1}], "sizes": {"s": {"width": 1}}},
        Track(name="a", points=[Point(x=1)], sizes={"s": Size(1)}),
    ),
]


@pytest.mark.case("C013")
@pytest.mark.parametrize(("annotation", "name", "required", "sent", "instance"), NAMED)
def test_a_class_is_described_once_and_its_instance_arrives(
    annotation: Any, name: str, required: list[str], sent: Any, instance: Any
) -> None:
    function = with_parameter(annotation)
    schema = described(function).schema
    assert schema["properties"] == {"p": {"$ref": f"#/$defs/{name}"}}
    assert schema["$defs"][name].get("required", []) == required
    assert schema["$defs"][name].get("title") != name
    value = arrives(function, {"p": sent})["p"]
    assert value == instance
    assert type(value) is type(instance)


@pytest.mark.case("C001")
def test_optional_union_literal_and_enum_keep_their_constraint() -> None:
    def find(note: Optional[str], speed: Literal["slow", "quick"], hue: Hue, key: Union[str, int]) -> None: ...  # noqa: UP007, UP045

    schema = described(find).schema
    assert schema["properties"] == {
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "speed": {"type": "string", "enum": ["slow", "quick"]},
        "hue": {"$ref": "#/$defs/Hue"},
        "key": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    }
    assert schema["$defs"] == {"Hue": {"type": "string", "enum": ["red", "blue"]}}
    assert schema["required"] == ["note", "speed", "hue", "key"]


@pytest.mark.case("C013")
def test_instances_arrive_at_any_depth() -> None:
    def move(
        to: Point, via: list[Point], hue: Hue, at: dict[str, list[dt.date | None]], by: tuple[Size, Spot]
    ) -> None: ...

    sent = (
        '{"to": {"x": "1"}, "via": [{"x": 2}], "hue": "red", '
        '"at": {"a": ["2024-05-01", null]}, "by": [{"width": 1}, [2]]}'
    )
    assert arrives(move, sent) == {
        "to": Point(x=1),
        "via": [Point(x=2)],
        "hue": Hue.RED,
        "at": {"a": [dt.date(2024, 5, 1), None]},
        "by": (Size(1), Spot(2)),
    }


@pytest.mark.parametrize("annotation", [Part, list[Part], Part | None, Annotated[Part, "documented"], dict[str, Part]])
def test_a_typed_dict_of_typing_is_taken_at_any_depth_and_may_refer_to_itself(annotation: Any) -> None:
    schema = described(with_parameter(annotation)).schema
    assert schema["$defs"]["Part"]["required"] == ["name"]
    assert schema["$defs"]["Part"]["properties"]["parent"] == {"$ref": "#/$defs/Part"}
    assert schema["$defs"]["Row"]["properties"]["n"]["type"] == "integer"


def test_a_typed_dict_of_typing_is_checked_inside() -> None:
    def use(part: Part) -> None: ...

    whole = {"name": "a", "rows": [{"n": 1}], "parent": {"name": "b"}}
    assert arrives(use, {"part": whole}) == {"part": whole}
    with pytest.raises(InvalidArguments, match=r"part\.parent\.name: is required"):
        arrives(use, {"part": {"name": "a", "parent": {}}})


@pytest.mark.parametrize("annotation", [int, list[int], Callable[[int], str], Literal["a"], Annotated[int, 1], T, "X"])
def test_an_annotation_that_pydantic_takes_is_left_as_it_is(annotation: Any) -> None:
    assert readable(annotation) is annotation or readable(annotation) == annotation


@pytest.mark.case("C005")
def test_a_dataclass_of_another_module_with_string_annotations_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    other = types.ModuleType("other_module")
    monkeypatch.setitem(sys.modules, "other_module", other)
    source = """
        from __future__ import annotations
        import dataclasses, datetime
        @dataclasses.dataclass
        class Inner:
            on: datetime.date
        @dataclasses.dataclass
        class Config:
            n: int
            name: str
            inner: Inner | None = None
    """
    exec(textwrap.dedent(source), vars(other))

    def move(target: other.Config, note: str) -> None: ...  # pyright: ignore

    move.__annotations__ = {"target": vars(other)["Config"], "note": str}
    schema = described(move).schema
    assert list(schema["properties"]) == ["target", "note"]
    assert list(schema["$defs"]["Config"]["properties"]) == ["n", "name", "inner"]
    values = arrives(move, {"target": {"n": 1, "name": "a", "inner": {"on": "2024-05-01"}}, "note": "x"})
    assert values["target"] == vars(other)["Config"](1, "a", vars(other)["Inner"](dt.date(2024, 5, 1)))


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize("written", ['Optional["Item"]', 'List["Item"]', 'Annotated["Item", 1]', 'Dict[str, "Item"]'])
def test_classes_of_one_name_in_two_modules_are_told_apart(written: str, future: str) -> None:
    described_as: list[Any] = []
    for key in ("a", "b"):
        namespace: dict[str, Any] = {"__name__": f"module_{key}"}
        source = f"""{future}
from typing import *
class Item(TypedDict):
    {key}: int
def take(item: {written}) -> {written}: ...
"""
        exec(source, namespace)
        made = FunctionTool(namespace["take"])
        described_as.append(list(made.parameters.schema["$defs"]["Item"]["properties"]))
    assert described_as == [["a"], ["b"]]


def test_what_a_caller_calls_by_the_same_names_is_not_what_a_function_names() -> None:
    source = """
        from __future__ import annotations
        from typing_extensions import TypedDict
        from ferrule import tool
        class Order(TypedDict):
            number: int
        def make():
            class Item(TypedDict):
                weight: int
            @tool
            def take(item: Item, order: Order, note: str) -> None: ...
            return take
    """
    namespace: dict[str, Any] = {"__name__": "module_of_a_factory"}
    exec(textwrap.dedent(source), namespace)
    Order = Item = str = float  # noqa: F841 # pyright: ignore
    schema = namespace["make"]().parameters.schema
    assert {k: list(v["properties"]) for k, v in schema["$defs"].items()} == {"Item": ["weight"], "Order": ["number"]}
    assert schema["properties"]["note"] == {"type": "string"}


def test_classes_local_to_a_function_are_found_from_string_annotations() -> None:
    class Here(BaseModel):
        x: int

    @dataclass
    class There:
        here: Here | None = None

    class Table(typing.TypedDict):
        rows: list[There]

    @tool
    def use(a: Here, b: list[There], c: Table | None = None) -> None: ...

    assert list(use.parameters.schema["properties"]) == ["a", "b", "c"]
    assert use.parameters.check('{"a": {"x": 1}, "b": [{"here": {"x": 2}}], "c": {"rows": [{}]}}') == {
        "a": Here(x=1),
        "b": [There(Here(x=2))],
        "c": {"rows": [There()]},
    }


def test_a_class_in_the_closure_of_a_function_is_found_after_it_was_defined() -> None:
    def make() -> Any:
        class Here(BaseModel):
            x: int

        def use(a: Here) -> Any:
            return Here

        return use

    assert properties(make()) == {"a": {"$ref": "#/$defs/Here"}}


def test_a_name_that_has_no_value_yet_does_not_hide_the_others() -> None:
    def use(a: Here) -> Any:
        return late

    class Here(BaseModel):
        x: int

    assert properties(use) == {"a": {"$ref": "#/$defs/Here"}}
    late = 1
    assert use(Here(x=1)) == 1


def test_a_forward_reference_to_a_later_class_is_resolved() -> None:
    def use(a: "Later", b: "list[Later]") -> None: ...  # noqa: UP037

    assert properties(use) == {
        "a": {"$ref": "#/$defs/Later"},
        "b": {"type": "array", "items": {"$ref": "#/$defs/Later"}},
    }


class Later(BaseModel):
    x: int


# -- defaults ---------------------------------------------------------------------------------------------------

DEFAULTS: list[tuple[Any, Any]] = [
    (3, 3),
    (None, None),
    ("", ""),
    ([1], [1]),
    (Hue.RED, "red"),
    (Size(1), {"width": 1, "hue": "red"}),
    (Point(x=1), {"x": 1}),
    (dt.date(2024, 5, 1), "2024-05-01"),
    (dt.timedelta(seconds=90), "PT1M30S"),
    (Decimal("1.50"), "1.50"),
    (Path("a/b"), "a/b"),
    (b"hi>", "aGk-"),
    ((1, 2), [1, 2]),
    (10**30, 10**30),
]


def with_default(annotation: Any, default: Any) -> Any:
    def function(p: Any = default) -> None: ...

    function.__annotations__ = {"p": annotation}
    return function


@pytest.mark.case("C001")
@pytest.mark.parametrize(("default", "shown"), DEFAULTS)
def test_a_default_is_shown_and_left_to_the_function(default: Any, shown: Any) -> None:
    function = with_default(Any, default)
    assert described(function).schema == {
        "type": "object",
        "properties": {"p": {"default": shown}},
        "additionalProperties": False,
    }
    assert arrives(function, {}) == {}


@pytest.mark.parametrize(
    "default",
    [object(), float("nan"), float("inf"), [float("-inf")], {"a": float("nan")}, "\ud800", ..., lambda: 1, int],
)
def test_a_default_that_json_cannot_hold_stays_the_functions_own(default: Any) -> None:
    function = with_default(Any, default)
    assert described(function).schema == {"type": "object", "properties": {"p": {}}, "additionalProperties": False}
    assert arrives(function, {}) == {}


@pytest.mark.case("C002")
@pytest.mark.needs("numpy")
def test_a_default_whose_equality_is_no_bool_is_accepted() -> None:
    import numpy

    default = numpy.array([1, 2])

    @tool(thread=False)
    def total(p: Any = default) -> int:
        return int(p.sum())

    assert total.parameters.schema["properties"] == {"p": {}}
    assert run(total.call({})).value == 3


def test_a_default_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert refusal(with_default(list, loop), "grow") == (
        "the default of parameter 'p' of tool 'grow' contains itself. Use None and build it in the body."
    )


def test_a_default_beside_a_reference_is_shown() -> None:
    def paint(hue: Hue = Hue.RED, size: Size | None = None) -> None: ...

    assert properties(paint) == {
        "hue": {"$ref": "#/$defs/Hue", "default": "red"},
        "size": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}], "default": None},
    }


def test_a_field_as_default_brings_its_value_and_its_rule() -> None:
    def add(
        n: int = Field(3, ge=1, description="How many."),
        to: list[int] = Field(default_factory=lambda: [0]),  # noqa: B008
    ) -> None: ...

    assert properties(add) == {
        "n": {"type": "integer", "default": 3, "minimum": 1, "description": "How many."},
        "to": {"type": "array", "items": {"type": "integer"}},
    }
    assert "required" not in described(add).schema
    first, second = arrives(add, {}), arrives(add, {})
    assert first == {"n": 3, "to": [0]}
    assert first["to"] is not second["to"]


def test_a_field_without_default_is_required() -> None:
    def add(n: int = Field(ge=1)) -> None: ...

    assert described(add).schema["required"] == ["n"]


def test_a_default_in_the_annotation_counts_unless_the_function_has_one() -> None:
    def add(a: Annotated[int, Field(default=4)], b: Annotated[int, Field(default=4)] = 5) -> None: ...

    assert properties(add) == {"a": {"type": "integer", "default": 4}, "b": {"type": "integer", "default": 5}}
    assert arrives(add, {}) == {"a": 4, "b": 5}


@pytest.mark.parametrize("default", [float("inf"), [float("nan")]])
def test_a_default_of_a_field_that_json_cannot_hold_is_not_shown(default: Any) -> None:
    def add(n: Any = Field(default)) -> None: ...  # noqa: B008 - as people write it

    assert properties(add) == {"n": {}}
    assert list(arrives(add, {})) == ["n"]


def test_an_alias_is_what_the_model_sees() -> None:
    def add(n: Annotated[int, Field(alias="N")], m: Annotated[int, Field(alias="M")] = 3) -> None: ...

    assert described(add).schema == {
        "type": "object",
        "properties": {"N": {"type": "integer"}, "M": {"type": "integer", "default": 3}},
        "required": ["N"],
        "additionalProperties": False,
    }
    assert arrives(add, {"N": 1, "M": 2}) == {"n": 1, "m": 2}


@pytest.mark.case("C005")
def test_two_parameters_under_one_alias_are_refused() -> None:
    def add(n: Annotated[int, Field(alias="N")], m: Annotated[int, Field(alias="N")]) -> None: ...

    assert refusal(add) == "the parameters of tool 'f' cannot be described together: two of them share an alias."


def test_a_description_of_a_field_wins_over_the_docstring() -> None:
    def add(a: int, b: Annotated[int, Field(description="Own.")], c: int = Field(1, description="Own.")) -> None:
        """Add.

        Args:
            a: Told.
            b: Not told.
            c: Not told.
        """

    assert [p["description"] for p in properties(add).values()] == ["Told.", "Own.", "Own."]


@pytest.mark.parametrize(
    "name", ["self", "cls", "schema", "json", "model_config", "copy", "name", "values", "ctx", "é"]
)
def test_a_parameter_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: int): return {name}", namespace)
    assert list(properties(namespace["f"])) == [name]
    assert run(FunctionTool(namespace["f"], thread=False).call({name: 3})).value == 3


# -- variadics --------------------------------------------------------------------------------------------------


@pytest.mark.case("C002")
def test_keyword_variadics_become_additional_properties() -> None:
    def bare(q: str, **more: int) -> None: ...
    def free(**more: Any) -> None: ...
    def untyped(**more): ...  # pyright: ignore

    assert described(bare).schema == {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "required": ["q"],
        "additionalProperties": {"type": "integer"},
    }
    both: list[Any] = [free, untyped]
    for function in both:
        assert described(function).schema == {"type": "object", "properties": {}, "additionalProperties": True}
    assert arrives(bare, {"q": "x", "a.b": "2"}) == {"q": "x", "a.b": 2}
    with pytest.raises(InvalidArguments, match="a: should be a valid integer"):
        arrives(bare, {"q": "x", "a": "y"})


def test_instances_arrive_in_keyword_variadics_too() -> None:
    @tool(thread=False)
    def total(**points: Point) -> int:
        return sum(p.x for p in points.values())

    assert run(total.call({"a": {"x": 1}, "b": {"x": 2}})).value == 3


@pytest.mark.case("C002")
@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "def f(q: str, *rest: int): ...",
            "parameter 'rest' of tool 'f' collects positional arguments, which come by name. "
            "Use a list parameter instead.",
        ),
        (
            "def f(*ctx: Context): ...",
            "parameter 'ctx' of tool 'f' collects positional arguments, which come by name. "
            "Use a list parameter instead.",
        ),
        (
            "def f(q: str, /): ...",
            "parameter 'q' of tool 'f' is positional-only, but arguments come by name. Remove the '/' after it.",
        ),
        (
            "def f(ctx: Context, /, q: str): ...",
            "parameter 'ctx' of tool 'f' is positional-only, but arguments come by name. Remove the '/' after it.",
        ),
        (
            "def f(rows): ...",
            "parameter 'rows' of tool 'f' has no annotation. "
            "Annotate it, for example rows: int, or pass schema= to @tool.",
        ),
        (
            "def f(q: str, rows=3): ...",
            "parameter 'rows' of tool 'f' has no annotation. "
            "Annotate it, for example rows: int, or pass schema= to @tool.",
        ),
        (
            "def f(q: str, rows: 'Unknown'): ...",
            "the annotation of parameter 'rows' of tool 'f' cannot be read: name 'Unknown' is not defined. "
            "Define or import what it names before the tool, not only under TYPE_CHECKING.",
        ),
        (
            "def f(q: str) -> 'Unknown': ...",
            "the return annotation of tool 'f' cannot be read: name 'Unknown' is not defined. "
            "Define or import what it names before the tool, not only under TYPE_CHECKING.",
        ),
        (
            "def f(q: str, rows: 'int |'): ...",
            "the annotation of parameter 'rows' of tool 'f' cannot be read: "
            "Forward reference must be an expression -- got 'int |'. "
            "Define or import what it names before the tool, not only under TYPE_CHECKING.",
        ),
    ],
)
def test_what_cannot_be_passed_by_name_or_read_is_refused_with_its_name(source: str, text: str) -> None:
    namespace: dict[str, Any] = {"Context": Context}
    exec(source, namespace)
    assert refusal(namespace["f"]) == text


class Handle:
    """JSON cannot carry it."""


@pytest.mark.case("C005")
@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Handle, r"Unable to generate pydantic-core schema for <class '.*Handle'>"),
        (list[Handle], r"Unable to generate pydantic-core schema for <class '.*Handle'>"),
        (Handle | None, r"Unable to generate pydantic-core schema for <class '.*Handle'>"),
        (
            list[Context[Any]],
            r"Unable to generate pydantic-core schema for ferrule\.tool\.context\.Context\[typing\.Any\]",
        ),
        (Callable[[], int], r"Cannot generate a JsonSchema for core_schema\.CallableSchema"),
        (bytearray, r"Unable to generate pydantic-core schema for <class 'bytearray'>"),
        (typing.Self, r"its type stands for all parameters"),
        (typing.ClassVar[int], r".*"),
        (typing.Final[int], r".*"),
        (ForwardRef("Nowhere"), r".*"),
    ],
)
def test_what_cannot_be_described_is_refused_with_its_name(annotation: Any, reason: str) -> None:
    text = refusal(with_parameter(annotation), "move")
    assert re.match(r"(the annotation of )?parameter 'p' of tool 'move' cannot be ", text)
    if reason != ".*":
        mend = r"Use a type that JSON can carry, or pass schema= to @tool\."
        assert re.fullmatch(rf"parameter 'p' of tool 'move' cannot be described: {reason}\. {mend}", text)


@pytest.mark.parametrize(
    ("annotation", "name", "instead"),
    [
        (Generator[int, None, None], "Generator", "list[int]"),
        (typing.Generator[Point, None, None], "Generator", "list[tests.unit.tool.test_schema.Point]"),
        (Generator, "Generator", "list"),
        (typing.Iterator[int], "Iterator", "list[int]"),
        (Iterator[int] | None, "Iterator", "list[int]"),
        (list[AsyncIterator[str]], "AsyncIterator", "list[str]"),
        (Annotated[typing.AsyncIterable[int], "x"], "AsyncIterable", "list[int]"),
        (dict[str, AsyncGenerator[int, None]], "AsyncGenerator", "list[int]"),
    ],
)
def test_a_stream_is_refused_with_the_list_to_use(annotation: Any, name: str, instead: str) -> None:
    assert refusal(with_parameter(annotation)) == (
        f"parameter 'p' of tool 'f' cannot be described: JSON holds no {name}, only arrays: use {instead}."
    )


def test_the_parameter_at_fault_is_named_and_not_its_neighbour() -> None:
    def f(a: int, b: Handle, c: str = "") -> None: ...
    def g(a: int, **more: Handle) -> None: ...

    assert refusal(f).startswith("parameter 'b' of tool 'f' cannot be described: ")
    assert refusal(g).startswith("parameter 'more' of tool 'f' cannot be described: ")


class Loose(typing.TypedDict):
    row: Unknown  # pyright: ignore  # noqa: F821 - the point


def test_a_typed_dict_that_names_something_unknown_is_refused_with_its_name() -> None:
    assert refusal(with_parameter(list[Loose])).startswith("parameter 'p' of tool 'f' cannot be described: ")


def test_an_annotation_whose_own_hook_breaks_is_refused_with_its_name() -> None:
    class Broken:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            raise AttributeError("out of order")

    assert refusal(with_parameter(Broken)) == (
        "parameter 'p' of tool 'f' cannot be described: out of order. "
        "Use a type that JSON can carry, or pass schema= to @tool."
    )


@pytest.mark.parametrize("function", [type("NoSignature", (), {"__call__": dict.fromkeys, "__signature__": 3})(), dict])
def test_a_callable_without_a_readable_signature_is_refused(function: Any) -> None:
    assert refusal(function, "t").startswith(("the signature of tool 't' cannot be read.", "parameter "))


# -- the context ------------------------------------------------------------------------------------------------

CONTEXTS = [
    "Context",
    "'Context'",
    "Context[int]",
    "'Context[Any]'",
    "Context | None",
    "Optional[Context]",
    "Annotated[Context, 'documented']",
    "Annotated[Context[int] | None, 'documented']",
    "Special",
    "Alias",
]


class Special(Context[int]):
    """A context of the application's own."""


Alias = typing_extensions.TypeAliasType("Alias", Context[Any])
NAMES = {
    "Context": Context,
    "Any": Any,
    "Optional": Optional,
    "Annotated": Annotated,
    "Special": Special,
    "Alias": Alias,
}


@pytest.mark.case("C004")
@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize("form", ["ctx: {}", "ctx: {} = None", "*, ctx: {}"])
@pytest.mark.parametrize("annotation", CONTEXTS)
def test_the_context_is_injected_and_never_shown(annotation: str, form: str, future: str) -> None:
    namespace: dict[str, Any] = dict(NAMES)
    exec(f"{future}async def t(text: str, {form.format(annotation)}): return text, ctx.run_id", namespace)
    made = FunctionTool(namespace["t"])
    assert made.parameters.schema == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert run(made.call({"text": "x"}, Context(run_id="r1"))).value == ("x", "r1")


async def told(text: str, ctx: Context[Any]) -> str:
    """Tell.

    Args:
        text: What to tell.
        ctx: Where.
    """
    return f"{text} in {ctx.run_id}"


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def inner(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return inner


class Desk:
    def __init__(self, name: str = "desk") -> None:
        self.name = name

    async def told(self, text: str, ctx: Context[Any]) -> str:
        return f"{text} in {ctx.run_id}"

    @logged
    async def wrapped(self, text: str, ctx: Context[Any]) -> str:
        return f"{text} in {ctx.run_id}"

    @classmethod
    async def of_class(cls, text: str, ctx: Context[Any]) -> str:
        return f"{text} in {ctx.run_id}"

    @staticmethod
    async def static(text: str, ctx: Context[Any]) -> str:
        return f"{text} in {ctx.run_id}"

    @tool
    async def as_tool(self, text: str, ctx: Context[Any]) -> str:
        """Tell from a class body."""
        return f"{text} in {ctx.run_id}"

    async def __call__(self, text: str, ctx: Context[Any]) -> str:
        return f"{text} in {ctx.run_id}"


async def prefixed(prefix: str, text: str, ctx: Context[Any]) -> str:
    return f"{text} in {ctx.run_id}"


WRAPPINGS: dict[str, Any] = {
    "function": told,
    "wraps": logged(told),
    "wraps twice": logged(logged(told)),
    "bound method": Desk().told,
    "wrapped method": Desk().wrapped,
    "class method": Desk.of_class,
    "static method": Desk.static,
    "callable object": Desk(),
    "partial": functools.partial(prefixed, ""),
    "partial of a method": functools.partial(Desk().told),
    "wraps of a partial": functools.update_wrapper(logged(functools.partial(prefixed, "")), functools.partial(told)),
    "tool": tool(told),
}


@pytest.mark.case("C004")
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_the_context_is_injected_behind_every_wrapping(wrapping: str) -> None:
    made = FunctionTool(WRAPPINGS[wrapping], name="told")
    assert list(made.parameters.schema["properties"]) == ["text"]
    assert made.injected == ("ctx",)
    assert asyncio.run(made.call({"text": "x"}, Context(run_id="r1"))).value == "x in r1"


@pytest.mark.case("C004")
def test_a_tool_in_a_class_body_belongs_to_its_instance() -> None:
    made = Desk().as_tool
    assert list(made.parameters.schema["properties"]) == ["text"]
    assert run(made.call({"text": "x"}, Context(run_id="r1"))).value == "x in r1"


def test_an_annotated_self_is_no_parameter_of_a_tool_in_a_class_body() -> None:
    class Shelf:
        @tool(thread=False)
        def count(self: typing_extensions.Self, n: int) -> int:
            return n

    assert list(Shelf().count.parameters.schema["properties"]) == ["n"]
    assert run(Shelf().count.call({"n": 3})).value == 3


def test_a_model_cannot_pass_the_context_by_name() -> None:
    @tool
    async def t(text: str, ctx: Context[Any]) -> str:
        return text

    assert run(t.call({"text": "x", "ctx": {"run_id": "mine"}})).error == (
        "Tool 't' was not called. The arguments do not fit the schema. ctx: is not a parameter of this tool."
    )


def test_a_partial_shows_the_docstring_of_its_function() -> None:
    assert described(functools.partial(told)).description == "Tell."


def test_a_given_signature_counts() -> None:
    assert properties(with_parameter(int)) == {"p": {"type": "integer"}}


def test_a_class_as_function_is_described_by_its_constructor() -> None:
    assert list(properties(Size)) == ["width", "hue"]
    assert list(properties(Point)) == ["x"]


# -- one schema for each function -------------------------------------------------------------------------------


def test_a_signature_is_read_once_for_a_function_and_once_for_a_method() -> None:
    desk = Desk()
    assert described(told) is described(told)
    assert described(desk.told) is described(Desk().told)
    assert described(told) is not described(told, "other")


def test_what_a_signature_was_read_from_may_go_away() -> None:
    def make() -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        desk = Desk()

        def local(n: int) -> None: ...

        described(desk.told)
        described(local)
        return weakref.ref(desk), weakref.ref(local)

    refs = make()
    gc.collect()
    assert [r() for r in refs] == [None, None]


def test_a_callable_that_has_no_hash_is_read() -> None:
    @dataclass
    class Adder:
        by: list[int] = field(default_factory=list[int])

        def __call__(self, n: int) -> int:
            return n + sum(self.by)

    assert run(FunctionTool(Adder([2]), name="add", thread=False).call({"n": 1})).value == 3


BARE = """int str bool float None Any dt.date Decimal uuid.UUID Path bytes Hue Point Size Spot Row Cell
    Literal['a',1] Annotated[int,Field(ge=1)] Page[int]"""
ANNOTATIONS = st.recursive(
    st.sampled_from(BARE.split()),
    lambda inner: st.one_of(
        inner.map("list[{}]".format),
        inner.map("dict[str, {}]".format),
        inner.map("Optional[{}]".format),
        inner.map("Annotated[{}, Field(description='It.')]".format),
        st.tuples(inner, inner).map(lambda p: f"tuple[{p[0]}, {p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"Union[{p[0]}, {p[1]}]"),
    ),
    max_leaves=3,
)
PARAMETERS = st.dictionaries(st.sampled_from("abcde"), st.tuples(ANNOTATIONS, st.sampled_from(["", " = None", " = 3"])))


def source_of(parameters: dict[str, tuple[str, str]]) -> str:
    listed = ", ".join(f"{name}: {annotation}{default}" for name, (annotation, default) in parameters.items())
    return f"def f({'*, ' if parameters else ''}{listed}) -> None: ...\n"


@given(PARAMETERS)
@example({"a": ("Row", ""), "b": ("list[Union[Row, Hue]]", " = None")})
def test_string_annotations_change_nothing(parameters: dict[str, tuple[str, str]]) -> None:
    source = source_of(parameters)
    plain, future = dict(globals()), dict(globals())
    exec(compile(source, "plain", "exec", dont_inherit=True), plain)
    exec(compile("from __future__ import annotations\n" + source, "future", "exec", dont_inherit=True), future)
    assert [type(a) for a in future["f"].__annotations__.values()] == [str] * (len(parameters) + 1)
    assert described(plain["f"]) is not described(future["f"])
    assert described(plain["f"]).schema == described(future["f"]).schema


def test_a_schema_is_equal_in_another_process() -> None:
    code = textwrap.dedent(
        """
        import json
        from ferrule.tool.context import Context
        from pydantic import BaseModel, Field
        from ferrule.tool.schema.signature import read_signature
        NAMES = {str(i) for i in range(20)}
        class Model(BaseModel):
            names: set[str] = NAMES
        def f(
            a: int, b: "str | None" = None, d: set[str] = NAMES, e: "frozenset[int | str]" = frozenset({10, 2, "x"}),
            f: Model | None = None, g: set[str] = Field(default=NAMES), **c: float,
        ): ...
        print(json.dumps(read_signature(f, Context, "f").schema))
        """
    )
    namespace: dict[str, Any] = {}
    exec(code.replace("print(json.dumps", "told = (json.dumps"), namespace)
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == namespace["told"]
    shown = parse(namespace["told"])["properties"]
    assert (shown["d"]["default"], shown["e"]["default"]) == (sorted(namespace["NAMES"]), ["x", 10, 2])


# -- the schema and the check agree -----------------------------------------------------------------------------


class Everything(BaseModel):
    n: int
    names: list[str] = []
    hue: Hue | None = None


def everything(
    count: Annotated[int, Field(ge=0, le=9)],
    title: Annotated[str, Field(max_length=3)] = "",
    hue: Hue = Hue.RED,
    kind: Literal["a", 1] = "a",
    flags: dict[str, bool] | None = None,
    pair: tuple[bool, str] | None = None,
    inner: Everything | None = None,
    either: list[str] | dict[str, list[str]] = [],  # noqa: B006 - never changed
) -> None: ...


WORDS = st.sampled_from(["", "a", "red", "blue", "green", "abcd", "n"])
SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 12) | st.floats(-2, 12).filter(lambda x: x != int(x)) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "names", "hue", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
FITTING = st.fixed_dictionaries(
    {"count": st.integers(-1, 10)},
    optional={
        "title": WORDS,
        "hue": WORDS,
        "kind": st.sampled_from(["a", 1, "b", 2, None]),
        "flags": st.none() | st.dictionaries(WORDS, st.booleans() | SMALL, max_size=2),
        "pair": st.none() | st.tuples(st.booleans() | SMALL, WORDS).map(list),
        "inner": st.none()
        | st.fixed_dictionaries({"n": st.integers()}, optional={"names": st.lists(WORDS), "hue": WORDS}),
        "either": st.lists(WORDS) | st.dictionaries(WORDS, st.lists(WORDS), max_size=2) | SMALL,
        "more": SMALL,
    },
)
ARGUMENTS = FITTING | st.dictionaries(st.sampled_from(["count", "title", "hue", "inner", "either"]), SMALL, max_size=4)
VALIDATOR = jsonschema_rs.validator_for(described(everything).schema)


@given(ARGUMENTS)
@example({"count": 3, "kind": True})
@example({"count": 3, "either": {"a": ["b"]}})
def test_what_the_schema_takes_the_check_takes_and_the_other_way_about(arguments: dict[str, Any]) -> None:
    assert accepted(everything, arguments) or not VALIDATOR.is_valid(arguments)


def accepted(function: Any, arguments: dict[str, Any]) -> bool:
    """Whether the check takes arguments; what it takes, the schema takes too, in the form that was checked."""
    schema = described(function).schema
    try:
        _, text = read(described(function), arguments)
    except InvalidArguments:
        return False
    assert jsonschema_rs.is_valid(schema, parse(text))
    assert read(SchemaParameters(schema, "f"), arguments)[0] == parse(text)
    return True


class Mixed(Enum):
    PAIR = (1, 2)
    DAY = dt.date(2026, 1, 2)
    ONE = 1.0
    YES = "yes"


class Bits(Enum):
    LOW = 1
    HIGH = 2


class Right(Flag):
    READ = 1
    WRITE = 2


class Gaps(IntFlag):
    LOW = 1
    HIGH = 4
    BOTH = 5


class Reading(BaseModel):
    n: int
    at: dt.datetime | None = None
    level: Level = Level.LOW
    share: float = 0.0
    on: bool = False
    by_day: dict[dt.date, int] = {}


class Node(typing_extensions.TypedDict):
    kind: Literal[1]
    nodes: typing_extensions.NotRequired[list[Node]]


class Flagged(BaseModel):
    kind: Literal[2]
    on: bool


STRICT: list[Any] = [
    *(int, float, bool, str, bytes, Decimal, Fraction, complex, uuid.UUID, Path, None, Any, object),
    *(dt.date, dt.datetime, dt.time, dt.timedelta, AwareDatetime, PastDate, IPv4Address, IPv6Network, ByteSize),
    *(Hue, Level, Bits, Mixed, Right, Gaps, Literal["a", 1], Literal[True], Literal[1, True, None], Literal[Level.LOW]),
    *(list[int], Sequence[bool], tuple[int, str], tuple[float, ...], collections.deque[int], Mapping[int, bool]),
    *(dict[str, int], dict[float, int], dict[dt.date, int], collections.OrderedDict[str, int], collections.Counter[str]),
    *(int | bool, dt.datetime | int, dt.date | str, int | None, list[int] | dict[str, int], Point | int),
    *(Size, Point, Reading, Node, Page[int], Page[dt.date], Pair[bool], Tree, Number, PositiveInt),
    *(Annotated[int, AfterValidator(abs)], Annotated[Node | Flagged, Field(discriminator="kind")], Node | Flagged),
]  # fmt: skip
WORDY = st.sampled_from(
    [
        *("", "1", "01", "1.0", "1.5", "1_000", " 5 ", "+5", "1e5", "-0", "true", "t", "yes", "off", "null", "NaN", "a", "red"),
        *("2026-01-02", "2026-01-02T03:04:05Z", "03:04", "PT1S", "1700000000", "86400", "192.0.2.1", "1+2j", "1/3", "YQ=="),
        *("[1]", '{"x": 1}', str(uuid.UUID(int=7))),
    ]
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, 2, -1, 1.0, 1.5, 86400, 1.7e9, 2.0**53, 2.0**60, 10**30, 1e300]) | st.integers()
KEYS_USED = st.sampled_from(["n", "x", "at", "level", "share", "on", "by_day", "kind", "nodes", "items", "first"])
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDY,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS_USED | WORDY, inner, max_size=3)
        | st.fixed_dictionaries({"n": inner}, optional={"at": inner, "level": inner, "share": inner, "on": inner})
        | st.fixed_dictionaries(
            {"kind": st.sampled_from([1, 2, 1.0, True, "1"])}, optional={"on": inner, "nodes": inner}
        )
    ),
    max_leaves=4,
)


@settings(max_examples=1_000)
@given(st.sampled_from(range(len(STRICT))), VALUE)
def test_no_type_takes_what_its_schema_does_not_tell(which: int, value: Any) -> None:
    accepted(with_parameter(STRICT[which]), {"p": value})


BENT: list[tuple[Any, Any]] = [
    *((str, 3), (str, True), (list[int], {"0": 1}), (list[int], 3), (dict[str, int], []), (int, "x")),
    *((int, True), (int, "1_000"), (int, " 5 "), (int, "05"), (int, "+5"), (int, 12345678901234567.0), (int, 2.0**53)),
    *((float, "1e999"), (list[float], "[1e999]"), (int, "9" * 5_000), (float, 10**400)),
    *((int, "12345678901234567.0"), (int, 1.5), (int, "1.5"), (float, True), (float, "NaN"), (float, "1_0.5")),
    *((bool, 1), (bool, 0), (bool, 1.0), (bool, "t"), (bool, "off"), (bool, "yes"), (bool, "true"), (bool, "1")),
    *((dt.date, 0), (dt.date, "86400"), (dt.datetime, 1_700_000_000), (dt.datetime, "1700000000"), (dt.time, 1.5)),
    *((dt.datetime, "1.7e9"), (dt.datetime, True), (dt.time, 0), (AwareDatetime, 1), (dt.datetime | None, 1)),
    *((Decimal, "1_000"), (Decimal, " 5 "), (Decimal, "٣"), (Decimal, True), (complex, 1), (IPv4Address, 1)),
    *((IPv4Address, True), (ByteSize, True), (Level, True), (Level, 3), (Bits, True), (Literal[1], True)),
    *((Literal["a", 1], True), (Literal[True], 1), (Mixed, True), (Mixed, [1]), (set[int], [True])),
    *((Point, {"x": True}), (Size, {"width": "1_0"}), (Spot, [True]), (Row, {"n": True}), (Page[bool], {"items": [1]})),
    *((list[dict[str, Tree]], [{"a": {"kids": [{"kids": 1}]}}]), (collections.deque[bool], [1])),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "sent"), BENT)
def test_a_value_of_another_kind_is_not_bent(annotation: Any, sent: Any) -> None:
    with pytest.raises(InvalidArguments, match=r"^The arguments do not fit the schema\. p"):
        arrives(with_parameter(annotation), {"p": sent})


@pytest.mark.case("C013")
@pytest.mark.parametrize(
    ("annotation", "sent", "instance"),
    [
        *((int, "3", 3), (int, "-3", -3), (int, 3.0, 3), (int, -(2.0**52), -(2**52)), (int, "3.0", 3), (int, 1e3, 1000)),
        *((int, "123456789012345678901", 123456789012345678901), (int | None, "3", 3), (Level, "2", Level.HIGH)),
        *((float, "1.5", 1.5), (float, 3, 3.0), (float, "3", 3.0), (Literal[1], 1.0, 1), (Level, 2.0, Level.HIGH)),
        *((Bits, 1.0, Bits.LOW), (Mixed, 1, Mixed.ONE), (Mixed, [1, 2], Mixed.PAIR), (Mixed, "2026-01-02", Mixed.DAY)),
        *((Decimal, 1.5, Decimal("1.5")), (Decimal, "1E+5", Decimal("1E+5")), (Decimal, "-.5", Decimal("-.5"))),
        *((dt.datetime | int, 1_700_000_000, 1_700_000_000), (dt.date | str, "1700000000", "1700000000")),
        *((int | str, "3", "3"), (dict[str, Any] | str, "3", "3"), (Any, "3", "3")),
        *((list[Point], [{"x": "1"}, {"x": 2.0}], [Point(x=1), Point(x=2)]), (Size, {"width": "2"}, Size(2))),
    ],
)  # fmt: skip
def test_a_number_may_be_written_as_text_and_a_whole_one_with_a_fraction(
    annotation: Any, sent: Any, instance: Any
) -> None:
    value = arrives(with_parameter(annotation), {"p": sent})["p"]
    assert value == instance
    assert type(value) is type(instance)


def test_a_class_tool_of_the_same_schema_reads_numbers_in_text_too() -> None:
    schema = described(with_parameter(list[Point])).schema
    assert read(SchemaParameters(schema, "t"), {"p": [{"x": "1"}]})[0] == {"p": [{"x": 1}]}


# -- what the user's own classes settle -------------------------------------------------------------------------


class Relaxed(BaseModel):
    model_config = ConfigDict(strict=False)
    n: int
    point: Point | None = None


class Tight(BaseModel):
    model_config = ConfigDict(strict=True)
    n: float
    day: dt.date | None = None


class Field1(BaseModel):
    n: Annotated[int, Field(strict=False)]
    m: int = 0


class Money(BaseModel):
    cents: int

    @field_validator("cents", mode="before")
    @classmethod
    def without_sign(cls, value: Any) -> Any:
        return value.removeprefix("$") if isinstance(value, str) else value


class Place(BaseModel):
    x: int
    at: dt.date | None = None
    point: Point | None = None

    @model_validator(mode="before")
    @classmethod
    def from_text(cls, value: Any) -> Any:
        return {"x": value.partition(",")[0], "at": value.partition(",")[2]} if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("annotation", "sent", "instance"),
    [
        (Relaxed, {"n": True}, Relaxed(n=1)),
        (list[Relaxed], [{"n": "1_000"}], [Relaxed(n=1000)]),
        (Field1, {"n": True}, Field1(n=1)),
        (Money, {"cents": "$12"}, Money(cents=12)),
        (Place, "3,2026-01-02", Place(x=3, at=dt.date(2026, 1, 2))),
        (Place, {"x": "3", "point": {"x": 1}}, Place(x=3, point=Point(x=1))),
        (Annotated[int, BeforeValidator(lambda v: int(v, 16))], "ff", 255),
        (Annotated[dt.datetime, BeforeValidator(lambda v: v * 1)], 0, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
        (Tight, {"n": 1.5, "day": "2026-01-02"}, Tight(n=1.5, day=dt.date(2026, 1, 2))),
    ],
)
def test_what_a_class_field_or_validator_of_the_users_takes_is_taken(annotation: Any, sent: Any, instance: Any) -> None:
    assert arrives(with_parameter(annotation), {"p": sent})["p"] == instance


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (Relaxed, {"n": 1, "point": {"x": True}}),
        (Field1, {"n": 1, "m": True}),
        (Place, {"x": 1, "point": {"x": True}}),
        (Tight, {"n": True}),
    ],
)
def test_what_one_class_settles_says_nothing_of_another(annotation: Any, sent: Any) -> None:
    with pytest.raises(InvalidArguments):
        arrives(with_parameter(annotation), {"p": sent})


# -- maps, enums ------------------------------------------------------------------------------------------------


class Ledger(BaseModel):
    entries: dict[int, bytes] = {}


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (dict[int, str], {"1": "a", "01": "b"}),
        (Mapping[float, str], {"1": "a", "1.0": "b"}),
        (collections.defaultdict[dt.datetime, int], {"2026-01-02": 1, "2026-01-02T00:00:00": 2}),
        (dict[Decimal, str], {"1": "a", "1.0": "b"}),
        (dict[Path, str], {"a/b": "a", "a//b": "b"}),
        (dict[Level, str], {"1": "a", "01": "b"}),
        (collections.OrderedDict[int, str], {"1": "a", "01": "b"}),
        (collections.defaultdict[int, str], {"1": "a", "01": "b"}),
        (collections.Counter[int], {"1": 1, "01": 2}),
        (dict[Annotated[str, StringConstraints(to_lower=True)], int], {"a": 1, "A": 2}),
        (list[Ledger], [{"entries": {"1": "YQ==", "01": "YQ=="}}]),
    ],
)
def test_two_spellings_of_one_key_are_refused_for_one_value_would_be_lost(annotation: Any, sent: Any) -> None:
    with pytest.raises(InvalidArguments, match="two spellings of one key"):
        arrives(with_parameter(annotation), {"p": sent})


@pytest.mark.parametrize(
    ("annotation", "sent", "instance"),
    [
        (dict[int, bytes], {"1": "YQ==", "2": "YQ=="}, {1: b"a", 2: b"a"}),
        (dict[dt.date, set[int]], {"2026-01-02": [1]}, {dt.date(2026, 1, 2): {1}}),
        (collections.Counter[int], {"1": 1}, collections.Counter({1: 1})),
        (collections.OrderedDict[int, str], {"2": "a", "1": "b"}, collections.OrderedDict({2: "a", 1: "b"})),
        (collections.defaultdict[int, int], {"2": 1}, collections.defaultdict(int, {2: 1})),
        (dict[Annotated[int, Field(ge=1)], str], {"2": "a"}, {2: "a"}),
    ],
)
def test_keys_arrive_as_instances(annotation: Any, sent: Any, instance: Any) -> None:
    value = arrives(with_parameter(annotation), {"p": sent})["p"]
    assert value == instance
    assert type(value) is type(instance)


@pytest.mark.parametrize(
    ("annotation", "key"),
    [
        (int, "1_0"),
        (int, " 1"),
        (int, "1.0"),
        (float, "1_0"),
        (float, "NaN"),
        (bool, "t"),
        (dt.date, "86400"),
        (int, "x"),
    ],
)
def test_a_key_is_spelled_as_json_would_spell_its_value(annotation: Any, key: str) -> None:
    with pytest.raises(InvalidArguments):
        arrives(with_parameter(dict[annotation, int]), {"p": {key: 1}})


class Twins(Enum):
    LIST = [1]  # noqa: RUF012 - a member
    TUPLE = (1,)


class Things(Enum):
    THING = object()


@pytest.mark.parametrize("annotation", [Twins, Things])
def test_an_enum_whose_members_json_cannot_tell_apart_is_refused(annotation: Any) -> None:
    assert refusal(with_parameter(annotation)).startswith("parameter 'p' of tool 'f' cannot be described: ")


Wide: Any = IntFlag("Wide", {f"B{i}": 4**i for i in range(8)})
SENT = [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 16, True, 1.5, "READ", None, [1]]
FLAGS: list[tuple[Any, Schema, list[int]]] = [
    (Right, {"minimum": 0, "maximum": 3}, [0, 1, 2, 3]),
    (Gaps, {"enum": [0, 1, 4, 5]}, [0, 1, 4, 5]),
]


@pytest.mark.parametrize(("flags", "schema", "taken"), FLAGS)
def test_flags_take_what_their_schema_says(flags: Any, schema: Schema, taken: list[int]) -> None:
    function = with_parameter(flags)
    made = described(function).schema
    shown = made["$defs"][flags.__name__]
    assert {"type": "integer", **schema} == {k: v for k, v in shown.items() if k != "description"}
    assert all(f"{m.value} {m.name}" in shown["description"] for m in flags)
    assert [v for v in SENT if accepted(function, {"p": v})] == taken
    for value in taken:
        found = arrives(function, {"p": value})["p"]
        assert (type(found), found) == (flags, flags(value))
    assert arrives(function, {"p": flags(taken[-1])}) == {"p": flags(taken[-1])}
    assert [v for v in SENT if jsonschema_rs.is_valid(made, {"p": v})] == taken


def test_flags_of_many_bits_with_gaps_take_no_other_bits() -> None:
    shown = described(with_parameter(Wide)).schema["$defs"]["Wide"]
    assert (shown["minimum"], shown["maximum"]) == (0, 0x5555)
    assert arrives(with_parameter(Wide), {"p": 0x5555}) == {"p": Wide(0x5555)}
    with pytest.raises(InvalidArguments, match="p: should be 0, or combined bit by bit any of 1 B0, 4 B1, "):
        arrives(with_parameter(Wide), {"p": 2})


class Streamed(BaseModel):
    numbers: Iterable[int]
    more: Generator[int, None, None] | None = None


def test_the_items_of_an_iterable_field_are_checked_before_the_call() -> None:
    function = with_parameter(Streamed)
    found = arrives(function, {"p": {"numbers": [1, 2], "more": [3]}})["p"]
    assert (found.numbers, found.more) == ([1, 2], [3])
    sent: list[Any] = [["x"], "ab", {"a": 1}, 1, [True]]
    assert [v for v in sent if accepted(function, {"p": {"numbers": v}})] == []
    assert [v for v in sent if accepted(function, {"p": {"numbers": [], "more": v}})] == []


class Guess(IntEnum):
    LOW = 1

    @classmethod
    def _missing_(cls, value: object) -> Guess:
        return cls.LOW


def test_what_an_enum_makes_of_other_values_is_its_own_affair() -> None:
    assert arrives(with_parameter(Guess), {"p": 7}) == {"p": Guess.LOW}


@pytest.mark.parametrize("text", ['{"p": 1e400}', '{"p": [1e400]}', '{"p": NaN}', '{"p": [1, NaN]}'])
@pytest.mark.parametrize("annotation", [Any, list[Any], list, float, list[float], object, Sequence[float]])
def test_no_number_beyond_a_float_arrives(annotation: Any, text: str) -> None:
    with pytest.raises(InvalidArguments):
        arrives(with_parameter(annotation), text)


class Frozen(BaseModel, frozen=True):
    x: int


class Word(RootModel[str], frozen=True):
    pass


class Of(BaseModel):
    kind: type[int] = int


class Empty(Enum):
    pass


def reads(value: Any) -> Any:
    return int if value == "int" else tuple(value)


NO_CLASS = "no JSON value is a class"
NO_KEY = "keys of a JSON object are text, and not "
UNFILLABLE: list[tuple[Any, str]] = [
    *((a, NO_CLASS) for a in (type[int], type[int] | None, list[type[Point]], Of, Annotated[type[int], AfterValidator(id)])),
    *((a, "no JSON value is an instance of ") for a in (Enum, Empty, IntFlag("Nothing", {}))),
    *((a, f"{NO_KEY}a tuple") for a in (dict[tuple[int, int], int], dict[tuple[Any, ...], int], collections.Counter[tuple[int, int]])),
    *((a, f"{NO_KEY}a tuple") for a in (Mapping[Spot, int], list[collections.defaultdict[tuple[int], int]])),
    *((dict[frozenset[int], int], f"{NO_KEY}a set"), (dict[Frozen, Frozen], f"{NO_KEY}an object")),
    *((dict[None, int], f"{NO_KEY}None"), (dict[Literal[1, 2], int], f"{NO_KEY}a number")),
    *((a, f"{NO_KEY}a member of an enum without text") for a in (dict[Bits, int], dict[Right, int], dict[Gaps, int])),
    *((dict[tuple[int, int] | None, int], f"{NO_KEY}a tuple"), (collections.OrderedDict[Spot | Frozen, int], NO_KEY)),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "reason"), UNFILLABLE)
def test_what_no_json_can_fill_is_refused_with_its_name(annotation: Any, reason: str) -> None:
    text = refusal(with_parameter(annotation))
    assert text.startswith(f"parameter 'p' of tool 'f' cannot be described: {reason}")
    assert text.endswith("Use a type that JSON can carry, or pass schema= to @tool.")


@pytest.mark.parametrize(
    ("annotation", "sent", "instance"),
    [
        (Annotated[type[int], BeforeValidator(reads)], "int", int),
        (dict[Annotated[tuple[str, str], BeforeValidator(reads)], int], {"ab": 1}, {("a", "b"): 1}),
        (dict[Word, int], {"a": 1}, {Word("a"): 1}),
        (dict[int | tuple[int, int], int], {"1": 1}, {1: 1}),
        (dict[Level, int], {"1": 1}, {Level.LOW: 1}),
        (dict[int | None, int], {"1": 1}, {1: 1}),
        (InstanceOf[Frozen], {"x": 1}, Frozen(x=1)),
    ],
)
def test_what_some_json_fills_is_no_fault_of_the_type(annotation: Any, sent: Any, instance: Any) -> None:
    assert arrives(with_parameter(annotation), {"p": sent}) == {"p": instance}
