"""`plain`: whatever a tool returns, as strict JSON that people, models and HTTP clients read."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import importlib
import json
import os
import re
import subprocess
import sys
from collections import UserString, deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, ip_interface
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import (
    AnyUrl,
    BaseModel,
    Field,
    NameEmail,
    PlainSerializer,
    PostgresDsn,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
)
from pydantic import model_serializer as serializer
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic_core import MultiHostUrl, Url
from tests.unit.values import (
    FEW,
    HOSTILE,
    KEY,
    MOMENT,
    OBJECTS,
    RICH,
    Hue,
    Line,
    Login,
    Order,
    Pair,
    Point,
    bomb,
    cycle,
    nested,
    shrink,
    strict,
)

from ferrule.strict_json import MAX_NODES, Opaque, dumps, parse, plain, text_of

HOUR = dt.timezone(dt.timedelta(hours=1))
NAN, INF = float("nan"), float("inf")


class Text(str):
    pass


class Loud:
    """An object that only has a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class Level(enum.IntEnum):
    LOW = 1


TABLE: list[tuple[Any, Any]] = [
    ("héllo", "héllo"),
    ("a\udc97b", "a\ufffdb"),
    ("\ud83c\udf78", "🍸"),
    (Text("sub"), "sub"),
    (True, True),
    (None, None),
    (7, 7),
    (2**53, 2**53),
    (-(2**53), -(2**53)),
    (2**53 + 1, "9007199254740993"),
    (-(2**70), "-1180591620717411303424"),
    (1.5, 1.5),
    (NAN, None),
    (INF, None),
    (-INF, None),
    (Decimal("1.10"), "1.10"),
    (Decimal("NaN"), "NaN"),
    (KEY, "12345678-1234-5678-1234-567812345678"),
    (Path("a/b"), "a/b"),
    (Path("a\udc97"), "a\ufffd"),
    (Hue.RED, "red"),
    (Level.LOW, 1),
    (MOMENT, "2026-01-02T03:04:05.678000"),
    (MOMENT.replace(tzinfo=dt.UTC), "2026-01-02T03:04:05.678000Z"),
    (MOMENT.replace(tzinfo=HOUR), "2026-01-02T03:04:05.678000+01:00"),
    (dt.date(2026, 1, 2), "2026-01-02"),
    (dt.time(3, 4, 5), "03:04:05"),
    (dt.time(3, 4, 5, tzinfo=dt.UTC), "03:04:05Z"),
    (dt.timedelta(minutes=1, milliseconds=500), 60.5),
    (b"\xff\x00", "/wA="),
    (bytearray(b"\xff\x00"), "/wA="),
    (memoryview(b"abcd")[::2], "YWM="),
    (Point(1), {"x": 1, "hue": "red"}),
    (Line([Point(2, Hue.BLUE)]), {"ends": [{"x": 2, "hue": "blue"}], "note": None}),
    (Pair(1, (2,)), {"left": 1, "right": [2]}),
    (Order(number="A-1", at=MOMENT), {"number": "A-1", "at": "2026-01-02T03:04:05.678000", "ends": []}),
    ({"a": {"b": (1, [2])}}, {"a": {"b": [1, [2]]}}),
    (deque([1, 2]), [1, 2]),
    (UserString("ab\ud800"), "ab\ufffd"),
    ({UserString("k"): UserString("")}, {"k": ""}),
    (range(3), [0, 1, 2]),
    ({"a": 1}.values(), [1]),
    ({"b": 1, "a": 2}.keys(), ["a", "b"]),
    ({"b", "a"}, ["a", "b"]),
    (frozenset({10, 9.5, True}), [True, 9.5, 10]),
    ({(10, "a"), (9, "b")}, [[9, "b"], [10, "a"]]),
    ({"a", 1, None}, ["a", 1, None]),
    ({Decimal("NaN"), Decimal(2), Decimal(10)}, ["10", "2", "NaN"]),
    ({1: "a", None: "b", False: "c", 1.5: "d"}, {"1": "a", "null": "b", "false": "c", "1.5": "d"}),
    ({dt.date(2026, 1, 2): 1, (1, "x"): 2, Hue.RED: 3}, {"2026-01-02": 1, '[1,"x"]': 2, "red": 3}),
    ({1: "a", "1": "b", "1 (2)": "c", "1 (3)": "d"}, {"1": "a", "1 (2)": "b", "1 (2) (2)": "c", "1 (3)": "d"}),
    (ValueError("no such user"), {"type": "ValueError", "message": "no such user"}),
    (KeyError("x"), {"type": "KeyError", "message": "'x'"}),
    (TimeoutError(), {"type": "TimeoutError", "message": ""}),
    (SecretStr("hunter2"), "**********"),
    (Opaque("a.B", "text"), "text"),
    (complex(1, 2), "(1+2j)"),
    (Fraction(1, 3), "1/3"),
    (IPv4Address("192.0.2.1"), "192.0.2.1"),
    (ip_interface("2001:db8::1/64"), "2001:db8::1/64"),
    (ZoneInfo("UTC"), "UTC"),
    (AnyUrl("https://example.org/a"), "https://example.org/a"),
    (PostgresDsn("postgres://a.example,b.example/db"), "postgres://a.example,b.example/db"),
    (Url("https://example.org/a"), "https://example.org/a"),
    (MultiHostUrl("nats://a.example,b.example"), "nats://a.example,b.example"),
    (NameEmail("Ann", "ann@example.org"), "Ann <ann@example.org>"),
    (re.compile("a+"), "a+"),
    (re.compile(b"a+"), "YSs="),
    (int, {"type": "type", "text": "<class 'int'>"}),
    (object(), {"type": "object", "text": "object"}),
]


@pytest.mark.parametrize(("value", "expected"), TABLE, ids=[str(e)[:40] for _, e in TABLE])
def test_each_type_has_its_plain_form(value: Any, expected: Any) -> None:
    found = plain(value)
    assert (expected, type(expected)) == (found, type(found))
    assert expected == strict(dumps(found))


@pytest.mark.case("C026")
def test_a_rich_value_becomes_text_that_people_and_models_read_alike() -> None:
    expected = {
        "at": "2026-01-02T03:04:05Z",
        "d": "2026-01-02",
        "t": 90.0,
        "price": "1.10",
        "id": "00000000-0000-0000-0000-000000000007",
        "tags": ["a", "b"],
        "raw": "/wA=",
    }
    assert expected == plain(RICH)
    assert expected == parse(text_of(RICH))


@pytest.mark.case("C028")
def test_nan_and_infinity_become_null_in_strict_json() -> None:
    assert strict(dumps(plain({"x": NAN, "y": [INF, -INF]}))) == {"x": None, "y": [None, None]}


@pytest.mark.case("C029")
def test_lone_surrogates_are_replaced_in_keys_values_and_texts_of_objects() -> None:
    value = {"k\udc97": ["a\udc97b", ValueError("\ud800"), Path("\udc97"), Loud("\ud800")]}
    text = text_of(value)
    assert text == text.encode().decode()
    assert {"k\ufffd"} == parse(text).keys()


def test_big_integers_are_numbers_for_models() -> None:
    assert plain([2**53 + 1, 2**70, -(10**30)], big_ints="number") == [2**53 + 1, 2**70, -(10**30)]
    assert text_of([2**70]) == "[1180591620717411303424]"


def test_integers_with_more_digits_than_python_writes_are_hexadecimal() -> None:
    assert [hex(10**5_000), hex(-(10**5_000))] == plain([10**5_000, -(10**5_000)], big_ints="number")
    assert hex(10**5_000) == plain(10**5_000)


def test_keys_that_meet_are_numbered_and_none_is_lost() -> None:
    found = plain({NAN: 0, float("nan"): 1, None: 2, "null": 3})
    assert found == {"null": 0, "null (2)": 1, "null (3)": 2, "null (4)": 3}


def test_many_meeting_keys_cost_no_more_than_many_others() -> None:
    found = plain({float("nan"): i for i in range(20_000)})
    assert len(found) == 20_000
    assert found["null (20000)"] == 19_999


# -- bounds -----------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(OBJECTS)
def test_any_object_becomes_bounded_strict_json(value: Any) -> None:
    for found in (plain(value), plain(value, big_ints="number")):
        raw = dumps(found)
        assert parse(raw) == strict(raw)
        assert len(raw) < 4_000_000


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_become_bounded_strict_json(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    for wrapped in (HOSTILE[name](), {"k": HOSTILE[name](), "l": "after"}):
        raw = dumps(plain(wrapped))
        assert parse(raw) == strict(raw)
        assert len(raw) < 200_000


class Panic(BaseException):
    """What extensions in Rust raise, for one."""


@pytest.mark.parametrize("error", [RuntimeError, Panic, asyncio.CancelledError])
def test_what_raises_is_marked_in_its_place_and_the_rest_stays(error: type[BaseException]) -> None:
    class Loud:
        def __repr__(self) -> str:
            raise error("no")

    name = f"{__name__}.test_what_raises_is_marked_in_its_place_and_the_rest_stays.<locals>.Loud"
    assert [1, f"[{name}: unreadable, {error.__name__}]", 2] == plain([1, Loud(), 2])


def test_a_cycle_is_marked_where_it_closes() -> None:
    assert plain(cycle()) == [1, "[list: cycle]", {"x": "[list: cycle]"}]


def test_what_is_shared_but_no_cycle_is_written_each_time() -> None:
    shared = {"a": [1]}
    assert plain([shared, shared, [shared]]) == [{"a": [1]}, {"a": [1]}, [{"a": [1]}]]


def test_a_hundred_levels_are_kept_and_the_next_is_marked() -> None:
    assert nested(100) == plain(nested(100))
    found = plain(nested(101))
    for _ in range(100):
        (found,) = found
    assert found == "[list: too deep]"


def test_leaves_and_enum_members_inside_a_hundred_levels_are_kept() -> None:
    value: Any = [Decimal("1.1"), Hue.RED, b"a"]
    for _ in range(99):
        value = [value]
    found = plain(value)
    for _ in range(99):
        (found,) = found
    assert found == ["1.1", "red", "YQ=="]


def test_an_object_that_becomes_another_for_ever_ends() -> None:
    class Again:
        dtype = None

        def tolist(self) -> Again:
            return Again()

    assert plain([Again()])[0].endswith("Again: too deep]")


def test_a_graph_of_two_to_the_fortieth_places_ends_with_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    raw = dumps(plain(bomb(40)))
    assert b"too many values" in raw
    assert len(raw) < 40 * FEW


def test_endless_iterables_are_cut() -> None:
    found = plain(range(10**12))
    assert len(found) == MAX_NODES + 1
    assert found[-1] == "[list: cut, too many values]"


def test_bytes_are_bounded_however_often_a_large_text_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.strict_json._walk.MAX_BYTES", 10_000)
    for heavy in ("x" * 4_000, b"x" * 4_000, 10**4_000, Decimal("1" * 4_000), {"k" * 4_000: 1}, ["x" * 4_000]):
        raw = dumps(plain([heavy] * 50, big_ints="number"))
        assert len(raw) < 16_000, type(heavy)


def test_text_of_an_unknown_object_is_cut_and_without_its_address() -> None:
    class Wordy:
        def __str__(self) -> str:
            return f"<Wordy at {hex(id(self))}> " + "w" * 5_000

    found = plain(Wordy())
    assert found["text"].startswith("<Wordy> www")
    assert len(found["text"]) <= 1_000
    assert "<function" in plain(strict)["text"]
    assert "0x" not in plain(strict)["text"]


SCRIPT = """
import enum, sys
from ferrule.strict_json import dumps, plain, typed
E = enum.Enum("E", "A B C D")
mixed = {1, "1", None, (1, "a"), frozenset({"x", "y"})}
value = [{"q", "w", "e"}, mixed, {b"a", b"b"}, set(E), {frozenset("abc"), frozenset("bcd")}]
sys.stdout.buffer.write(dumps([plain(value), typed(value)]))
"""


def test_sets_have_one_order_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(found) == 1
    assert b'["e","q","w"]' in found.pop()


# -- secrets and serializers ------------------------------------------------------------------------------------


def test_a_secret_is_masked_wherever_it_stands() -> None:
    value = [SecretStr("hunter2"), {"a": Login(user="ann", password=SecretStr("hunter2"))}, {SecretStr("hunter2"): 1}]
    assert "hunter2" not in text_of(value)
    assert plain(value)[1]["a"] == {"user": "ann", "password": "**********"}


def mask(value: str) -> str:
    return value[:1] + "…"


class Masking(BaseModel):
    card: str
    pin: str = Field(exclude=True)
    hints: list[Annotated[str, PlainSerializer(mask)]]

    @field_serializer("card")
    def short(self, card: str) -> str:
        return mask(card)


class Nesting(BaseModel):
    inner: Masking
    at: dt.datetime


class Line2(BaseModel):
    text: str

    @serializer
    def as_text(self) -> str:
        return f"line {self.text}"


class Numbers(RootModel[list[int]]):
    pass


class Area(BaseModel):
    side: int

    @computed_field
    @property
    def square(self) -> int:
        return self.side**2


class Open(BaseModel, extra="allow"):
    a: int


@checked_dataclass
class Checked:
    name: str
    token: str = Field(exclude=True)


def test_serializers_and_excluded_fields_of_pydantic_classes_are_obeyed() -> None:
    masking = Masking(card="4111", pin="0000", hints=["rex"])
    shown = {"card": "4…", "hints": ["r…"]}
    assert shown == plain(masking)
    assert {"inner": shown, "at": "2026-01-02T03:04:05.678000"} == plain(Nesting(inner=masking, at=MOMENT))
    assert plain(Line2(text="a")) == "line a"
    assert plain(Numbers([1, 2])) == [1, 2]
    assert plain(Area(side=3)) == {"side": 3, "square": 9}
    assert plain(Checked("n", "hidden")) == {"name": "n"}
    assert plain(Open.model_validate({"a": 1, "more": (2,)})) == {"a": 1, "more": [2]}


def test_an_incomplete_model_shows_what_it_has() -> None:
    assert plain(Order.model_construct(number=5)) == {"number": 5} | {"ends": []}


def test_a_dataclass_with_slots_or_missing_fields_shows_what_it_has() -> None:
    @dataclass(slots=True)
    class Slotted:
        a: int
        b: int

    value = Slotted(1, 2)
    del value.b
    assert plain(value) == {"a": 1}


# -- numpy, pandas, polars --------------------------------------------------------------------------------------


@pytest.mark.needs("numpy")
def test_numpy_arrays_and_scalars_become_lists_and_numbers() -> None:
    np: Any = importlib.import_module("numpy")
    assert plain(np.array([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]
    assert plain(np.array([1.5, np.nan])) == [1.5, None]
    assert plain([np.int64(1), np.float64(1.5), np.bool_(True), np.str_("a"), np.longdouble(2.5)]) == [
        1,
        1.5,
        True,
        "a",
        2.5,
    ]
    assert plain(np.array(5)) == 5
    assert plain(np.array(["2026-01-02", "NaT"], dtype="datetime64[ns]")) == ["2026-01-02T00:00:00", None]
    assert plain(np.timedelta64(90_000_000_000, "ns")) == 90.0
    assert plain({np.int64(1): "a"}) == {"1": "a"}
    assert len(plain(np.zeros(MAX_NODES * 6))) == MAX_NODES + 1


class Frame:
    """A data frame as polars has it."""

    columns = ("a", "b")
    shape = (3, 2)

    def head(self, n: int) -> Frame:
        return self

    def iter_rows(self) -> list[tuple[Any, ...]]:
        return [(1, MOMENT), (2, None), (3, NAN)]


class Series:
    """A series as polars has it."""

    dtype = "Int64"

    def to_list(self) -> list[int]:
        return [1, 2]


def test_frames_and_series_without_pandas_are_known_by_their_looks() -> None:
    rows = [{"a": 1, "b": "2026-01-02T03:04:05.678000"}, {"a": 2, "b": None}, {"a": 3, "b": None}]
    assert {"columns": ["a", "b"], "rows": rows, "row_count": 3} == plain(Frame())
    assert plain(Series()) == [1, 2]


@pytest.mark.needs("pandas")
def test_a_pandas_frame_shows_columns_first_rows_and_its_length() -> None:
    pd: Any = importlib.import_module("pandas")
    frame = pd.DataFrame({"n": range(5_000), "at": pd.Timestamp("2026-01-02"), "x": None})
    found = plain(frame)
    assert (found["columns"], len(found["rows"]), found["row_count"]) == (["n", "at", "x"], 1_000, 5_000)
    assert found["rows"][1] == {"n": 1, "at": "2026-01-02T00:00:00", "x": None}


@pytest.mark.needs("pandas")
def test_pandas_columns_of_one_name_keep_their_values_apart() -> None:
    pd: Any = importlib.import_module("pandas")
    found = plain(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert found["rows"] == [{"a (1)": 1, "a (2)": 2}]


@pytest.mark.needs("pandas")
def test_pandas_series_and_moments_become_lists_and_text() -> None:
    pd: Any = importlib.import_module("pandas")
    assert plain(pd.Series([1, 2])) == [1, 2]
    assert plain(pd.Series([pd.Timestamp("2026-01-02"), pd.NaT])) == ["2026-01-02T00:00:00", None]
    assert None is plain(pd.NaT)
    assert plain(pd.Series([1, None], dtype="Int64")) == [1, None]
    assert plain(pd.Index(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("describe", [plain, text_of])
def test_describing_never_changes_the_value(describe: Callable[[Any], Any]) -> None:
    value = {"a": [1, {2}], "b": Line([Point(1)])}
    before = repr(value)
    describe(value)
    assert before == repr(value)


def test_json_module_agrees_on_every_row_of_the_table() -> None:
    values = [v for v, _ in TABLE]
    assert json.loads(dumps(plain(values))) == [e for _, e in TABLE]
