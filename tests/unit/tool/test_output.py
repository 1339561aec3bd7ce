"""What leaves a tool: held against its declared type, and cut to what a model may read."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from functools import partial
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import jsonschema_rs
import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, AnyUrl, BaseModel, Field, RootModel, computed_field, field_validator
from pydantic.alias_generators import to_camel
from tests.clock import run

from ferrule import Context, Failure, Part, Tool, ToolDefinitionError, ToolResult, tool
from ferrule.strict_json import plain, restore, typed
from ferrule.tool.output import OutputCheck, bounded, checked, output_check
from ferrule.tool.schema.arguments import schema_check


class Hue(Enum):
    RED = "red"


class Order(BaseModel):
    number: str
    total: Decimal = Decimal(0)
    due: dt.date | None = None


class Scan(BaseModel):
    page: Annotated[bytes, Field(max_length=3)] = b"\xfe"
    after: dt.timedelta = dt.timedelta(seconds=1)


@dataclass
class Size:
    width: int
    hue: Hue = Hue.RED


class Point(NamedTuple):
    x: int
    y: int = 0


class Row(TypedDict):
    n: int


class Picky(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def refuse(cls, n: int) -> int:
        raise KeyError(n)


class Reading(TypedDict):
    share: float


class Span(BaseModel):
    at: Point
    long: dt.timedelta


class Opaque:
    """JSON cannot describe it."""


def declared(annotation: Any) -> OutputCheck:
    check = output_check(None, annotation, "t")
    assert check is not None
    return check


def after(value: Any, annotation: Any) -> ToolResult:
    return checked(ToolResult.ok(value), declared(annotation), "t")


# -- the declared type ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 3),
        (str, "a"),
        (bool, True),
        (float, 1.5),
        (float, 2),
        (str | None, None),
        (Literal["a", "b"], "b"),
        (list[int], [1, 2]),
        (dict[str, int], {"a": 1}),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (Hue, Hue.RED),
        (dt.date, dt.date(2024, 5, 1)),
        (Decimal, Decimal("1.50")),
        (Order, Order(number="A-1")),
        (list[Order], [Order(number="A-1")]),
        (Size, Size(2)),
        (Point, Point(1)),
        (Row, {"n": 1}),
        (Annotated[int, Field(ge=1)], 1),
    ],
)
def test_a_value_of_the_declared_type_passes_untouched(annotation: Any, value: Any) -> None:
    result = ToolResult.ok(value)
    assert checked(result, declared(annotation), "t") is result


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, {"number": "A-1", "total": "1.50", "due": "2024-05-01"}),
        (Order, {"number": "A-1", "total": Decimal("1.50"), "due": dt.date(2024, 5, 1)}),
        (list[Order], ({"number": "A-1"},)),
        (Size, {"width": 2, "hue": "red"}),
        (Point, [1, 2]),
        (list[int], (1, 2)),
        (Hue, "red"),
        (dt.date, "2024-05-01"),
        (set[int], [1, 2]),
    ],
)
def test_a_value_whose_json_fits_passes_untouched(annotation: Any, value: Any) -> None:
    result = ToolResult.ok(value)
    assert checked(result, declared(annotation), "t") is result


@pytest.mark.parametrize(
    ("annotation", "value", "fault"),
    [
        (int, "3", "should be a valid integer (got string)"),
        (int, True, "should be a valid integer (got boolean)"),
        (str, 3, "should be a valid string (got integer)"),
        (list[int], [1, "2"], "[1]: should be a valid integer (got string)"),
        (Order, {"nr": "A-1"}, "number: is required"),
        (Order, None, "should be an object (got null)"),
        (dict[str, Size], {"a": {"width": "2"}}, "a.width: should be a valid integer (got string)"),
        (Row, {}, "n: is required"),
        (Annotated[int, Field(ge=1)], 0, "should be greater than or equal to 1 (got integer)"),
        (int | str, [1], "should be a valid integer (got array) or should be a valid string (got array)"),
        (list[int | str], [[1]], "[0]: should be a valid integer (got array) or should be a valid string (got array)"),
        (UUID, "xx-secret", "should be a valid UUID, invalid character (got string)"),
        (Picky, {"n": 1}, "a validator raised KeyError"),
        (None, 5, "should be null (got integer)"),
        (type(None), "", "should be null (got string)"),
        (int | None, "3", "should be a valid integer (got string)"),
        (float, float("nan"), "should be a valid number (got null)"),
        (float, float("-inf"), "should be a valid number (got null)"),
        (list[float], [1.0, float("nan")], "[1]: should be a valid number (got null)"),
        (dict[str, tuple[float, ...]], {"a": (float("inf"),)}, "a[0]: should be a valid number (got null)"),
        (Reading, {"share": float("nan")}, "share: should be a valid number (got null)"),
    ],
)
def test_a_value_of_another_type_is_a_failure_that_keeps_it(annotation: Any, value: Any, fault: str) -> None:
    result = after(value, annotation)
    assert result.error == f"Tool 't' returned a value that does not fit its declared output: {fault}."
    assert result.value is value
    assert result.failure == Failure("exception", "OutputMismatch")


SENT: list[tuple[Any, Any]] = [
    (None, None),
    (dt.timedelta, dt.timedelta(days=1, microseconds=1)),
    (dict[str, list[dt.timedelta | None]], {"a": [dt.timedelta(1), None]}),
    (Point, Point(1)),
    (list[Point], [Point(1, 2)]),
    (Order, Order(number="A-1")),
    (Span, Span(at=Point(1), long=dt.timedelta(1))),
    (Hue, Hue.RED),
    (Decimal, Decimal("1E+5")),
    (set[dt.date], {dt.date(2026, 1, 2)}),
    (dt.datetime, dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
    (dict[int, UUID], {1: UUID(int=1)}),
    (IPv4Address, IPv4Address("192.0.2.1")),
    (Fraction, Fraction(1, 3)),
    (complex, 1 + 2j),
    (ZoneInfo, ZoneInfo("UTC")),
    (AnyUrl, AnyUrl("https://example.org/a")),
    (int, 10**30),
    (Counter[str], Counter("a")),
    (Scan, Scan(page=b"\xff\0\1")),
    (Scan, {"page": b"\xff\0\1"}),
]


@pytest.mark.parametrize(("annotation", "value"), SENT)
def test_what_is_sent_of_a_value_fits_the_schema_that_is_told(annotation: Any, value: Any) -> None:
    result = after(value, annotation)
    assert result.success
    assert jsonschema_rs.is_valid(declared(annotation).schema, json.loads(ToolResult.ok([value]).output)[0])


def test_a_default_is_told_as_it_is_sent() -> None:
    told = declared(Scan).schema["properties"]
    assert (told["page"]["default"], told["after"]["default"]) == ("/g==", 1.0)


def test_a_tool_that_promises_nothing_and_returns_something_has_failed() -> None:
    @tool(thread=False)
    def forget() -> None:
        return 5  # pyright: ignore[reportReturnType] - that is the case

    @tool(thread=False)
    def keep() -> None: ...

    assert run(forget.call()).failure == Failure("exception", "OutputMismatch")
    assert run(keep.call()).success


def test_at_most_three_faults_are_told() -> None:
    error = after(["a", "b", "c", "d"], list[int]).error
    assert error is not None
    assert error.count("should be a valid integer") == 3


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        object,
        NoReturn,
        ToolResult,
        ToolResult | str,
        Annotated[ToolResult, "documented"],
        Part,
        list[Part],
        tuple[Part, ...],
        bytes,
        bytearray,
        Iterator[int],
        Iterable[int],
        AsyncIterator[int],
        Generator[int, None, str],
        Opaque,
        Callable[[], int],
    ],
)
def test_an_annotation_that_says_nothing_of_the_value_checks_nothing(annotation: Any) -> None:
    assert output_check(None, annotation, "t") is None


def test_a_generator_annotated_as_iterable_ends_with_what_it_returns() -> None:
    @tool(thread=False)
    def count() -> Iterable[int]:
        yield 1
        return 7

    assert asyncio.run(count.call()).value == 7


def test_a_typed_dict_of_typing_is_checked_too() -> None:
    assert declared(Row).schema["properties"] == {"n": {"title": "N", "type": "integer"}}


class Item(BaseModel):
    item_name: str = Field(alias="itemName")


class Cart(BaseModel):
    first_item: Item = Field(serialization_alias="firstItem")
    more_items: list[Item] = Field(default=[], validation_alias=AliasChoices("moreItems", "more"))


class Camel(BaseModel, alias_generator=to_camel, serialize_by_alias=True):
    first_name: str


class Counted(Camel):
    @computed_field(alias="nameLength")
    @property
    def name_length(self) -> int:
        return len(self.first_name)


@dataclass
class Measure:
    in_meters: Annotated[float, Field(alias="inMeters")]


@pydantic.dataclasses.dataclass
class Weight:
    in_grams: Annotated[float, Field(alias="inGrams")]


class Shelf(TypedDict):
    top_item: Annotated[Item, Field(alias="topItem")]


class Cat(BaseModel):
    pet_kind: Literal["cat"] = Field(alias="petKind")


class Dog(BaseModel):
    pet_kind: Literal["dog"] = Field(alias="petKind")


ITEM = Item(itemName="a")
CART = Cart.model_validate({"first_item": ITEM, "more": [ITEM]})
ALIASED: list[tuple[Any, Any, Any]] = [
    (Item, ITEM, {"item_name": "a"}),
    (Cart, CART, {"first_item": {"item_name": "a"}, "more_items": [{"item_name": "a"}]}),
    (Camel, Camel(firstName="Ann"), {"first_name": "Ann"}),  # pyright: ignore[reportCallIssue]
    (Counted, Counted(firstName="Ann"), {"first_name": "Ann", "name_length": 3}),  # pyright: ignore[reportCallIssue]
    (Measure, Measure(1.5), {"in_meters": 1.5}),
    (Weight, Weight(inGrams=2.5), {"in_grams": 2.5}),  # pyright: ignore[reportCallIssue]
    (Shelf, {"top_item": ITEM}, {"top_item": {"item_name": "a"}}),
    (RootModel[list[Item]], RootModel[list[Item]]([ITEM]), [{"item_name": "a"}]),
    (dict[str, Item | None], {"a": ITEM}, {"a": {"item_name": "a"}}),
    (Annotated[Cat | Dog, Field(discriminator="pet_kind")], Dog(petKind="dog"), {"pet_kind": "dog"}),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "sent"), ALIASED, ids=[f"{i}" for i in range(len(ALIASED))])
def test_the_schema_tells_the_names_that_are_sent_whatever_aliases_there_are(
    annotation: Any, value: Any, sent: Any
) -> None:
    check = declared(annotation)
    result = checked(ToolResult.ok(value), check, "t")
    assert result.success
    assert json.loads(result.output) == plain(result) == sent
    assert schema_check(check.schema, "the output")(sent) == []
    assert check.fault(sent) is None
    assert restore(typed(value), annotation=annotation) == value


def test_a_dict_in_the_names_of_aliases_is_not_what_the_schema_tells() -> None:
    assert declared(Item).fault({"itemName": "a"}) == "item_name: is required"


def test_a_failed_or_suspended_result_is_not_checked() -> None:
    failed = ToolResult.failed("no such order")
    assert checked(failed, declared(Order), "t") is failed


def test_a_tool_checks_its_return_annotation() -> None:
    @tool
    async def find(number: str) -> Order:
        return number  # pyright: ignore[reportReturnType] - the mismatch is the point

    result = run(find.call({"number": "A-1"}))
    assert (result.status, result.value) == ("failed", "A-1")


def test_the_words_of_a_validator_of_the_output_lose_their_credentials() -> None:
    class Unreached(BaseModel):
        key: str

        @field_validator("key")
        @classmethod
        def known(cls, key: str) -> str:
            raise ValueError("no way to postgres://ann:FAKEFAKE1@db/x")

    @tool
    async def load() -> Unreached:
        return {"key": "x"}  # pyright: ignore[reportReturnType] - only its JSON meets the validator

    assert run(load.call()).error == (
        "Tool 'load' returned a value that does not fit its declared output: "
        "key: value error, no way to postgres://ann:[redacted]@db/x (got string)."
    )


def test_a_declared_type_wins_over_the_annotation() -> None:
    @tool(output_schema=Order)
    async def find() -> Any:
        return {"total": 1}

    assert run(find.call()).error == (
        "Tool 'find' returned a value that does not fit its declared output: number: is required."
    )


# -- a declared JSON Schema -------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_declared_schema_is_held_against_the_json_of_the_value() -> None:
    check = output_check(SCHEMA, int, "t")
    assert check is not None
    assert (check.schema, check.annotation) == (SCHEMA, None)
    assert check.fault({"n": 1}) is None
    assert check.fault(Size(1)) == "n: is required"
    assert check.fault({"n": "x"}) == 'n: value is not of type "integer" (got string)'


def test_a_class_tool_declares_its_output_by_schema() -> None:
    class Count(Tool):
        """Count."""

        name = "count"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
        output_schema = SCHEMA

        async def execute(self, context: Context[Any]) -> Any:
            return {"n": "x"}

    assert run(Count().call()).error == (
        "Tool 'count' returned a value that does not fit its declared output: "
        'n: value is not of type "integer" (got string).'
    )


def test_an_unusable_output_schema_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match=r"^the schema of the output of tool 't' is no usable JSON Schema: "):
        output_check({"type": "nope"}, None, "t")


@pytest.mark.parametrize("annotation", [Opaque, Callable[[], int]])
def test_a_declared_type_that_json_cannot_describe_is_refused(annotation: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"^the output of tool 't' cannot be described: "):
        output_check(annotation, None, "t")


# -- the bound --------------------------------------------------------------------------------------------------

NOTICE = re.compile(r"\n\[([\d,]+) of ([\d,]+) characters left out; the whole output is kept with call_1\]\n")


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.case("C032")
@given(st.text(min_size=1, max_size=3000), st.integers(1, 3000))
def test_text_over_the_limit_is_head_notice_and_tail_within_it(text: str, limit: int) -> None:
    result = bounded(ToolResult(text, False), limit, "call_1")
    assert len(result.output) <= limit
    assert result.value == text
    assert result.output.encode()
    if len(text) <= limit:
        assert (result.output, result.metadata) == (text, None)
        return
    assert result.metadata == {"full_output": text}
    notice = NOTICE.search(result.output)
    if notice is not None:
        head, tail = result.output[: notice.start()], result.output[notice.end() :]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) >= len(tail)
        assert (number(notice[1]), number(notice[2])) == (len(text) - len(head) - len(tail), len(text))


@pytest.mark.case("C032")
@pytest.mark.parametrize(("length", "cut"), [(999, False), (1000, False), (1001, True)])
def test_the_limit_itself_is_not_cut(length: int, cut: bool) -> None:
    result = bounded(ToolResult("x" * length, False), 1000, "call_1")
    assert (result.output != "x" * length, NOTICE.search(result.output) is not None) == (cut, cut)
    assert len(result.output) <= 1000


@pytest.mark.case("C032")
def test_two_million_characters_are_cut_while_the_value_stays_whole() -> None:
    text = "🍸" * 2_000_000

    @tool
    async def pour() -> str:
        return text

    result = run(pour.call({}, Context(call_id="call_1")))
    assert (len(result.output), result.value) == (50_000, text)
    assert set(NOTICE.sub("", result.output)) == {"🍸"}
    assert result.metadata == {"full_output": text}


def test_no_limit_leaves_the_result_as_it_is() -> None:
    result = ToolResult("x" * 10, False)
    assert bounded(result, None, "call_1") is result


def test_a_limit_below_the_notice_still_holds() -> None:
    assert [bounded(ToolResult("x" * 100, False), n, "call_1").output for n in (1, 5)] == ["…", "xxxx…"]


def test_what_the_metadata_held_is_kept_beside_the_whole_output() -> None:
    result = bounded(ToolResult.failed("x" * 300, code="timeout", metadata={"a": 1}), 200, "call_1")
    assert (result.metadata, result.failure) == ({"a": 1, "full_output": "x" * 300}, Failure("timeout"))


def test_a_call_without_an_id_is_not_named_in_the_notice() -> None:
    assert "the whole output is kept]" in bounded(ToolResult("x" * 300, False), 200, None).output


@given(st.text(max_size=300), st.integers(min_value=1, max_value=300), st.none() | st.text(max_size=20))
def test_any_limit_holds_and_a_notice_is_whole_or_a_mark(text: str, limit: int, call_id: str | None) -> None:
    result = bounded(ToolResult(text, False), limit, call_id)
    assert len(result.output) <= limit
    if len(result.output) != len(text) or result.output != ToolResult(text, False).output:
        assert "characters left out; the whole output is kept" in result.output or result.output.endswith("…")


def test_what_a_tool_keeps_under_the_same_name_is_not_lost() -> None:
    result = bounded(ToolResult("x" * 300, False, {"full_output": "mine", "a": 1}), 200, None)
    assert result.metadata == {"full_output": "x" * 300, "full_output_of_tool": "mine", "a": 1}


@pytest.mark.parametrize("made", [Size, partial(Size, width=1), Order], ids=["dataclass", "partial", "model"])
def test_a_class_gives_its_objects_though_its_constructor_is_annotated_with_none(made: Any) -> None:
    arguments = {"number": "A-1"} if made is Order else {"width": 1}
    result = run(tool(name="make", effect="read")(made).call(arguments))
    assert result == ToolResult.ok(Order(number="A-1") if made is Order else Size(1))


class Right(Flag):
    READ = 1
    WRITE = 4


def test_the_output_schema_tells_flags_as_they_are_sent() -> None:
    @tool(effect="read")
    def rights() -> Right:
        return Right.READ | Right.WRITE

    result = run(rights.call())
    assert (result.status, result.output) == ("done", "5")
    assert rights.output_check is not None
    assert rights.output_check.schema["enum"] == [0, 1, 4, 5]
