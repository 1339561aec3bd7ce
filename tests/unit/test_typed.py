"""`typed` and `restore`: what the journal stores comes back equal, and nothing it reads can break it."""

from __future__ import annotations

import base64
import datetime as dt
import enum
import hashlib
import io
import itertools
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, ip_address, ip_interface
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    Field,
    HttpUrl,
    IPvAnyAddress,
    IPvAnyInterface,
    IPvAnyNetwork,
    PostgresDsn,
    RootModel,
    SecretStr,
    computed_field,
    field_validator,
)
from pydantic_core import MultiHostUrl, Url
from tests.unit.values import (
    DECLARED,
    FEW,
    HOSTILE,
    KEY,
    MOMENT,
    OBJECTS,
    OFFSETS,
    RICH,
    SURROGATES,
    Hue,
    Line,
    Login,
    Order,
    Pair,
    Point,
    bomb,
    cycle,
    nested,
    shape,
    shrink,
    strict,
)

from ferrule.strict_json import (
    Opaque,
    _walk,  # pyright: ignore[reportPrivateUsage]
    dumps,
    parse,
    plain,
    restore,
    typed,
)

INF = float("inf")
MODULE = "tests.unit.values"

BERLIN = ZoneInfo("Europe/Berlin")
LATE = dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)  # it comes twice

TABLE: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    ("text", "text"),
    ("", ""),
    ("$text", "$text"),
    ("a\udc97", {"$str": "Ye2ylw=="}),
    (2**53, 2**53),
    (2**53 + 1, {"$int": "0x20000000000001"}),
    (-(2**70), {"$int": "-0x400000000000000000"}),
    (1.5, 1.5),
    (-0.0, -0.0),
    (INF, {"$float": "inf"}),
    (-INF, {"$float": "-inf"}),
    (Decimal("1.10"), {"$decimal": "1.10"}),
    (KEY, {"$uuid": "12345678-1234-5678-1234-567812345678"}),
    (Path("a/b"), {"$path": "a/b"}),
    (Path("\udc97"), {"$path": {"$str": "7bKX"}}),
    (MOMENT, {"$datetime": "2026-01-02T03:04:05.678000"}),
    (MOMENT.replace(tzinfo=dt.UTC), {"$datetime": "2026-01-02T03:04:05.678000+00:00"}),
    (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
    (dt.time(3, 4, 5), {"$time": "03:04:05"}),
    (MOMENT.replace(fold=1), {"$datetime": ["2026-01-02T03:04:05.678000", None, 1]}),
    (MOMENT.replace(tzinfo=BERLIN), {"$datetime": ["2026-01-02T03:04:05.678000+01:00", "Europe/Berlin", 0]}),
    (LATE.replace(fold=0), {"$datetime": ["2026-10-25T02:30:00+02:00", "Europe/Berlin", 0]}),
    (LATE.replace(fold=1), {"$datetime": ["2026-10-25T02:30:00+01:00", "Europe/Berlin", 1]}),
    (dt.time(3, 4, 5, fold=1), {"$time": ["03:04:05", None, 1]}),
    (dt.time(3, 4, 5, tzinfo=BERLIN), {"$time": ["03:04:05", "Europe/Berlin", 0]}),
    (dt.time(3, 4, 5, tzinfo=ZoneInfo("UTC")), {"$time": ["03:04:05+00:00", "UTC", 0]}),
    (dt.timedelta(1, 2, 3), {"$duration": [1, 2, 3]}),
    (b"\xff\x00", {"$bytes": "/wA="}),
    ([1, [2]], [1, [2]]),
    ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
    ({2, 10}, {"$set": [2, 10]}),
    (frozenset("ab"), {"$frozenset": ["a", "b"]}),
    ({"a": 1}, {"a": 1}),
    ({"$a": 1, "$$b": 2}, {"$$a": 1, "$$$b": 2}),
    ({1: "$a", "$b": None}, {"$map": [1, "$a", "$b", None]}),
    ({"\ud800": 1}, {"$map": [{"$str": "7aCA"}, 1]}),
    (Opaque("a.B", "text"), {"$opaque": ["a.B", "text"]}),
]


@pytest.mark.parametrize(("value", "expected"), TABLE, ids=[str(e)[:40] for _, e in TABLE])
def test_each_type_has_its_typed_form_and_comes_back(value: Any, expected: Any) -> None:
    assert expected == typed(value)
    found = restore(parse(dumps(typed(value))))
    assert value == found
    assert shape(value) == shape(found)


def test_nan_comes_back() -> None:
    found = restore(typed([float("nan"), Decimal("NaN"), Decimal("sNaN")]))
    assert found[0] != found[0]
    assert [str(d) for d in found[1:]] == ["NaN", "sNaN"]


@given(
    st.datetimes(timezones=st.none() | st.timezones() | OFFSETS)
    | st.times(timezones=st.none() | st.timezones() | OFFSETS),
    st.sampled_from([0, 1]),
)
def test_a_moment_comes_back_with_its_zone_and_its_fold(moment: Any, fold: int) -> None:
    moment = moment.replace(fold=fold)
    found = restore(parse(dumps(typed([moment]))))[0]
    assert moment == found
    assert (type(moment), moment.fold, moment.utcoffset()) == (type(found), found.fold, found.utcoffset())
    assert moment.tzinfo is found.tzinfo or (type(moment.tzinfo) is dt.timezone and moment.tzinfo == found.tzinfo)


UNKNOWN_ZONES = ["Nowhere/City", "", "Europe", "../../etc/passwd", "/etc/passwd", "a\0b"]


@pytest.mark.parametrize("zone", UNKNOWN_ZONES)
def test_a_moment_in_a_zone_that_is_not_known_here_keeps_its_offset(zone: str) -> None:
    found = restore({"$datetime": ["2026-10-25T02:30:00+01:00", zone, 1]})
    assert found == dt.datetime(2026, 10, 25, 1, 30, tzinfo=dt.UTC)
    assert (found.utcoffset(), found.fold) == (dt.timedelta(hours=1), 1)


def test_a_moment_in_a_zone_whose_rules_have_changed_stays_the_same_moment() -> None:
    found = restore({"$datetime": ["2026-01-02T03:04:05+05:00", "Europe/Berlin", 0]})
    assert found == dt.datetime(2026, 1, 1, 22, 4, 5, tzinfo=dt.UTC)


def test_a_zone_read_from_a_file_is_kept_by_its_offset() -> None:
    raw = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lBB", 3600, 0, 0) + b"OWN\0"
    for key in (None, "\udc97", 5):
        moment = dt.datetime(2026, 1, 2, tzinfo=ZoneInfo.from_file(io.BytesIO(raw), key=key))  # pyright: ignore
        assert typed(moment) == {"$datetime": "2026-01-02T00:00:00+01:00"}
        assert restore(typed(moment)) == moment


@pytest.mark.case("C026")
def test_the_journal_restores_an_equal_rich_value() -> None:
    found = restore(parse(dumps(typed(RICH))))
    assert RICH == found
    assert shape(RICH) == shape(found)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(DECLARED)
def test_every_declared_value_comes_back_equal_and_of_equal_types(value: Any) -> None:
    raw = dumps(typed(value))
    found = restore(parse(raw))
    assert value == found
    assert shape(value) == shape(found)
    assert raw == dumps(typed(found))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(OBJECTS)
def test_any_object_becomes_bounded_strict_json_that_restores(value: Any) -> None:
    raw = dumps(typed(value))
    assert parse(raw) == strict(raw)
    assert len(raw) < 4_000_000
    found = restore(parse(raw), annotation=Line | Pair | Order | Hue)
    again = dumps(typed(found))
    assert parse(again) == strict(again)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_become_bounded_strict_json(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    raw = dumps(typed({"k": HOSTILE[name](), "l": "after"}))
    assert parse(raw) == strict(raw)
    assert len(raw) < 400_000
    assert restore(parse(raw))["l"] == "after"


def test_a_hundred_levels_come_back_and_the_next_is_opaque() -> None:
    assert nested(100) == restore(parse(dumps(typed(nested(100)))))
    found = restore(typed(nested(101)))
    for _ in range(100):
        (found,) = found
    assert Opaque("list", "too deep") == found


WRAPS: list[Callable[[Any], Any]] = [lambda x: (x,), lambda x: {1: x}, lambda x: frozenset({x}), lambda x: {"$k": x}]


def first(x: Any) -> Any:
    return next(iter(x.values() if hasattr(x, "values") else x))


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_hundred_levels_of_any_container_come_back(wrap: Callable[[Any], Any]) -> None:
    value: Any = Decimal("1.1")
    for _ in range(100):
        value = wrap(value)
    found = restore(parse(dumps(typed(value))))
    for _ in range(100):
        assert type(value) is type(found)
        value, found = first(value), first(found)
    assert Decimal("1.1") == found


def test_a_cycle_is_opaque_where_it_closes() -> None:
    mark = Opaque("list", "cycle")
    assert [1, mark, {"x": mark}] == restore(typed(cycle()))


def test_what_is_shared_comes_back_in_each_place() -> None:
    shared = [{1}]
    assert {"a": [{1}], "b": [{1}]} == restore(typed({"a": shared, "b": shared}))


def test_graphs_of_two_to_the_fortieth_places_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    frozen: frozenset[Any] = frozenset()
    for level in range(40):
        frozen = frozenset({frozen, (frozen, level)})
    for value in (bomb(40), frozen):
        raw = dumps(typed(value))
        assert b"too many values" in raw
        assert len(raw) < 200 * FEW


def test_bytes_are_bounded_however_often_a_large_leaf_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.strict_json._walk.MAX_BYTES", 20_000)
    for heavy in ("x" * 4_000, "\udc97" * 4_000, b"x" * 4_000, 1 << 16_000, Decimal("1" * 4_000), Path("p" * 4_000),
                  Opaque("t", "x" * 4_000), {"k" * 4_000: 1}):  # fmt: skip
        raw = dumps(typed([heavy] * 50))
        assert len(raw) < 40_000, type(heavy)
        assert heavy == restore(parse(raw))[0]


# -- large leaves -----------------------------------------------------------------------------------------------


class Blobs(dict[str, bytes]):
    """A store by content."""

    def spill(self, raw: bytes) -> str:
        ref = hashlib.sha256(raw).hexdigest()
        self[ref] = raw
        return ref


@pytest.mark.case("C041")
def test_large_leaves_are_spilled_once_by_content_and_come_back() -> None:
    blobs = Blobs()
    picture = bytes(range(256)) * 20_000
    value = [{"step": n, "picture": picture, "text": "é" * 20_000} for n in range(50)]
    raw = dumps(typed(value, spill=blobs.spill))
    assert len(raw) < 50 * 400
    assert sorted([len(picture), 40_000]) == sorted(map(len, blobs.values()))
    assert value == restore(parse(raw), load=blobs.__getitem__)


def test_only_leaves_over_32_kb_are_spilled() -> None:
    blobs = Blobs()
    value = ["x" * 32_768, b"y" * 32_768, "é" * 16_384]
    assert value == restore(typed(value, spill=blobs.spill))
    assert blobs == {}
    assert {"$blob": {"ref": blobs.spill(b"x" * 32_769), "kind": "text", "size": 32_769}} == typed(
        "x" * 32_769, spill=blobs.spill
    )


@pytest.mark.parametrize("value", ["\udc97" * 40_000, 1 << 400_000, Decimal("1" * 40_000), b"a" * 40_000], ids=type)
def test_large_leaves_under_a_tag_are_spilled_too(value: Any) -> None:
    blobs = Blobs()
    raw = dumps(typed(value, spill=blobs.spill))
    assert len(raw) < 200
    assert len(blobs) == 1
    assert value == restore(parse(raw), load=blobs.__getitem__)


@pytest.mark.parametrize("value", ["x" * 40_000, b"x" * 40_000, [b"x" * 40_000], Line(note="x" * 40_000)], ids=type)
def test_what_spill_raises_is_raised(value: Any) -> None:
    def spill(raw: bytes) -> str:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        typed(value, spill=spill)


def test_what_load_raises_is_raised_and_without_load_the_reference_stays() -> None:
    data = typed(b"x" * 40_000, spill=lambda raw: "ref-1")
    assert Opaque("blob", "ref-1") == restore(data)
    with pytest.raises(KeyError, match="ref-1"):
        restore(data, load=Blobs().__getitem__)


def test_a_text_blob_that_is_no_utf_8_any_more_is_opaque() -> None:
    data = typed("x" * 40_000, spill=lambda raw: "ref-1")
    assert Opaque("blob", "ref-1") == restore(data, load=lambda ref: b"\xff")


# -- classes of the user's --------------------------------------------------------------------------------------

T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    content: T


class Dog(BaseModel):
    name: str


class Cat(BaseModel):
    name: str


class Puppy(Dog):
    age: int = 0


class Names(RootModel[list[str]]):
    pass


class Tree(BaseModel):
    value: Point
    children: list[Tree] = []


class Loose(BaseModel, extra="allow"):
    a: int


class Record(TypedDict):
    point: Point


@dataclass
class Wrapper(Generic[T]):
    inner: T


class Aliased(BaseModel):
    number: int = Field(alias="orderNumber")


class Count(enum.IntFlag):
    A = 1
    B = 2


POINT = Point(3, Hue.BLUE)
NAMED: list[tuple[Any, Any]] = [
    (POINT, Point),
    ([POINT, POINT], list[Point]),
    ({"a": {1: (POINT,)}}, dict[str, dict[int, tuple[Point, ...]]]),
    (POINT, Point | None),
    (Hue.RED, Hue),
    ({Hue.RED: 1}, dict[Hue, int]),
    (Count.A | Count.B, Count),
    (Pair(1, POINT), Pair | Point),
    (Line([POINT], note="x"), Line),
    (Order(number="A", at=MOMENT, ends=[POINT]), Order),
    (Tree(value=POINT, children=[Tree(value=POINT)]), Tree),
    (Names(["a"]), Names),
    (Box[Point](content=POINT), Box[Point]),
    (Wrapper(POINT), Wrapper[Point]),
    ({"point": POINT}, Record),
    ([Dog(name="a"), Cat(name="a"), Puppy(name="a", age=1)], list[Cat | Dog | Puppy]),
    (Loose.model_validate({"a": 1, "$int": "zz", "$$": 2}), Annotated[Loose, Field(title="t")]),
    (Aliased(orderNumber=5), Annotated[Aliased, ["unhashable"]]),
    (POINT, Annotated[Point | None, {"un": "hashable"}]),
    ([Login(user="a", password=SecretStr("b")).user], list[str]),
]


@pytest.mark.parametrize(("value", "annotation"), NAMED, ids=[str(a)[:60] for _, a in NAMED])
def test_classes_that_the_annotation_names_come_back(value: Any, annotation: Any) -> None:
    found = restore(parse(dumps(typed(value))), annotation=annotation)
    assert value == found
    assert shape(value) == shape(found)


def test_classes_that_no_annotation_names_are_opaque_with_their_fields() -> None:
    shown = Opaque(f"{MODULE}.Point", '{"x":3,"hue":"blue"}')
    assert shown == restore(typed(POINT))
    assert [shown, {"k": shown}] == restore(typed([POINT, {"k": POINT}]), annotation=list[Any])
    assert Opaque(f"{MODULE}.Hue", '"red"') == restore(typed(Hue.RED), annotation=Pair | int)


def test_an_opaque_object_shows_the_objects_inside_by_their_fields() -> None:
    text = '{"ends":[{"x":3,"hue":"blue"}],"note":{"left":1,"right":{"x":3,"hue":"blue"}}}'
    assert Opaque(f"{MODULE}.Line", text) == restore(typed(Line([POINT], note=Pair(1, POINT))), annotation=Point)


def test_the_text_of_nested_opaque_objects_grows_linearly() -> None:
    value: Any = None
    for _ in range(60):
        value = Pair(1, value)
    assert len(restore(typed(value)).text) < 60 * 30


def test_an_object_in_a_place_of_any_type_stays_opaque_inside_a_named_one() -> None:
    found = restore(typed(Line([POINT], note=Dog(name="a"))), annotation=Line)
    assert Line([POINT], note=Opaque(f"{__name__}.Dog", '{"name":"a"}')) == found


def test_a_subclass_that_is_not_named_never_comes_back_as_its_base() -> None:
    assert Opaque(f"{__name__}.Puppy", '{"name":"a","age":1}') == restore(typed(Puppy(name="a", age=1)), annotation=Dog)


def test_a_class_that_changed_is_opaque() -> None:
    data = {"$object": f"{MODULE}.Point", "value": {"x": "far", "hue": {"$object": f"{MODULE}.Hue", "value": "red"}}}
    assert [Opaque(f"{MODULE}.Point", '{"x":"far","hue":"red"}')] == restore([data], annotation=list[Point])


@dataclass
class Doubles:
    n: int

    def __post_init__(self) -> None:
        self.n *= 2


class Fahrenheit(BaseModel):
    degrees: float

    @field_validator("degrees")
    @classmethod
    def _from_celsius(cls, degrees: float) -> float:
        return degrees * 2 + 30


class Shouts(RootModel[str]):
    @field_validator("root")
    @classmethod
    def _louder(cls, root: str) -> str:
        return f"{root}!"


@dataclass(frozen=True)
class Numbered:
    name: str
    number: int = field(init=False, default=0)
    seen: deque[int] = field(init=False, default_factory=deque[int])

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", next(NUMBERS))


class Clock(BaseModel):
    name: str

    @computed_field
    def now(self) -> int:
        return next(NUMBERS)


class Settled(BaseModel):
    tags: list[str]
    ratio: float
    total: Decimal

    @field_validator("tags")
    @classmethod
    def _in_order(cls, tags: list[str]) -> list[str]:
        return sorted(tags)


@dataclass
class AsGiven:
    tags: list[int]
    total: Decimal
    ratio: float = float("nan")


NUMBERS = itertools.count(1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(Doubles(1), '{"n":2}'), (Fahrenheit(degrees=20), '{"degrees":70.0}'), (Shouts("a"), '"a!"')],
    ids=["__post_init__", "a validator", "a root model"],
)
def test_an_object_that_its_class_would_change_again_is_opaque_with_what_was_stored(value: Any, text: str) -> None:
    shown = Opaque(f"{__name__}.{type(value).__name__}", text)
    assert shown == restore(parse(dumps(typed(value))), annotation=type(value))
    assert {"k": [shown]} == restore(typed({"k": [value]}), annotation=Doubles | Fahrenheit | Shouts)


def test_fields_that_a_constructor_does_not_take_come_back() -> None:
    value = Numbered("a")
    value.seen.extend([1, 2])
    found = restore(parse(dumps(typed(value))), annotation=Numbered)
    assert value == found
    assert type(found.seen) is deque


def test_a_computed_field_may_be_another_one_later() -> None:
    assert Clock(name="a").name == restore(typed(Clock(name="a")), annotation=Clock).name


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Settled(tags=["b", "a"], ratio=float("nan"), total=Decimal("1.10")), "['a', 'b'] nan 1.10"),
        (AsGiven((2, 1), 0.1), "[2, 1] nan 0.1"),  # pyright: ignore[reportArgumentType]
    ],
    ids=["validators that change nothing twice", "other containers and numbers than declared"],
)
def test_an_object_that_says_the_same_after_its_validators_comes_back(value: Any, shown: str) -> None:
    found = restore(parse(dumps(typed(value))), annotation=type(value))
    assert type(found) is type(value)
    assert shown == f"{found.tags} {found.ratio} {found.total}"


def test_a_class_that_got_a_field_and_lost_one_still_comes_back() -> None:
    data = {"$object": f"{__name__}.Puppy", "value": {"name": "a", "colour": "brown"}}
    assert Puppy(name="a") == restore(data, annotation=Puppy)


def test_an_annotation_never_bends_values_that_come_back_by_themselves() -> None:
    value = [(1, 2), 3, "4", {5}]
    found = restore(typed(value), annotation=list[list[float]])
    assert value == found
    assert shape(value) == shape(found)


@pytest.mark.parametrize("annotation", ["Point", Literal["a"], 5, ..., "no such name", T])
def test_an_annotation_that_names_no_class_is_no_fault(annotation: Any) -> None:
    assert Opaque(f"{MODULE}.Hue", '"red"') == restore(typed(Hue.RED), annotation=annotation)


def test_a_class_whose_fields_name_what_is_not_there_stays_opaque_or_comes_back_but_never_raises() -> None:
    @dataclass
    class Half:
        hue: Hue
        gone: NoSuchName  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore

    found = restore(typed([Half(Hue.RED, 1)]), annotation=list[Half])
    assert type(found[0]) is Opaque
    assert found[0].text == '{"hue":"red","gone":1}'


class Site(BaseModel):
    address: IPv4Address
    url: HttpUrl
    share: Fraction


class Reach(BaseModel):
    address: IPvAnyAddress
    interface: IPvAnyInterface
    network: IPvAnyNetwork


class Share(enum.Enum):
    HALF = Fraction(1, 2)


Half = NewType("Half", Share)
SomeSite = TypeVar("SomeSite", bound=Site)
SITE = Site(address=IPv4Address("192.0.2.1"), url=HttpUrl("https://example.org/"), share=Fraction(1, 3))

TEXTUAL: list[tuple[Any, Any]] = [
    (complex(1, -2.5), complex),
    (Fraction(1, 3), Fraction),
    (ZoneInfo("Europe/Vienna"), ZoneInfo),
    (ip_address("2001:db8::1"), IPv4Address | IPv6Address),
    (ip_interface("192.0.2.1/24"), IPv4Interface),
    ([HttpUrl("https://example.org/a")], list[HttpUrl]),
    (PostgresDsn("postgres://a.example,b.example/db"), PostgresDsn),
    (Url("https://example.org/a"), Url),
    (MultiHostUrl("nats://a.example,b.example"), MultiHostUrl),
    (SITE, Site),
    (SITE, SomeSite),
    (Reach.model_validate({"address": "::1", "interface": "192.0.2.1/24", "network": "192.0.2.0/24"}), Reach),
    (Share.HALF, Share),
    ([Share.HALF], list[Half]),
]


@pytest.mark.parametrize(("value", "annotation"), TEXTUAL, ids=[type(v).__name__ for v, _ in TEXTUAL])
def test_what_its_text_says_whole_comes_back_where_its_class_is_named(value: Any, annotation: Any) -> None:
    stored = typed(value)
    found = restore(stored, annotation=annotation)

    assert (found, type(found)) == (value, type(value))
    assert restore(stored, annotation=str) != value


def test_a_text_that_was_cut_or_changed_makes_no_other_object() -> None:
    long = HttpUrl(f"https://example.org/{'x' * 1500}")
    changed = {"$opaque": ["fractions.Fraction", "2/4"]}

    assert type(restore(typed(long), annotation=HttpUrl)) is Opaque
    assert Opaque("fractions.Fraction", "2/4") == restore(changed, annotation=Fraction)


def test_secrets_do_not_come_back() -> None:
    raw = dumps(typed([SecretStr("hunter2"), Login(user="ann", password=SecretStr("hunter2"))]))
    assert b"hunter2" not in raw
    found = restore(parse(raw), annotation=list[Login | SecretStr])
    assert Opaque("pydantic.types.SecretStr", "**********") == found[0]
    assert Opaque(f"{MODULE}.Login", '{"user":"ann","password":"**********"}') == found[1]


# -- damaged and hostile data -----------------------------------------------------------------------------------

TAGS = st.sampled_from(
    ["$int", "$float", "$str", "$bytes", "$decimal", "$uuid", "$path", "$datetime", "$date", "$time", "$duration",
     "$tuple", "$set", "$frozenset", "$map", "$opaque", "$object", "$blob", "$result", "$part", "$request", "$answer",
     "$later", "$", "$$int", "$$", "value", "ref", "kind"]
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), TAGS
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TAGS | st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_restore_takes_any_json_and_leaves_it_alone(data: Any) -> None:
    before = dumps(data)
    for annotation in (None, Line | Order):
        found = restore(data, annotation=annotation)
        assert parse(dumps(plain(found))) is not NotImplemented
        assert restore(parse(dumps(typed(found))), annotation=annotation) is not NotImplemented
    assert before == dumps(data)


@given(JSON)
def test_any_json_without_tags_is_restored_as_it_is(data: Any) -> None:
    assert data == restore(typed(data))


@given(st.dictionaries(SURROGATES, st.integers(), max_size=4))
def test_keys_that_look_like_tags_come_back(data: dict[str, int]) -> None:
    data = {"$" + k: v for k, v in data.items()}
    assert data == restore(parse(dumps(typed(data))))


DAMAGED: list[tuple[Any, Opaque]] = [
    ({"$int": "zz"}, Opaque("$int", '{"$int":"zz"}')),
    ({"$int": "1", "more": 1}, Opaque("$int", '{"$int":"1","more":1}')),
    ({"$set": [[1]]}, Opaque("$set", '{"$set":[[1]]}')),
    ({"$map": [1]}, Opaque("$map", '{"$map":[1]}')),
    ({"$bytes": "!!"}, Opaque("$bytes", '{"$bytes":"!!"}')),
    ({"$datetime": "NaT"}, Opaque("$datetime", '{"$datetime":"NaT"}')),
    ({"$datetime": ["2026-01-02", 5, 0]}, Opaque("$datetime", '{"$datetime":["2026-01-02",5,0]}')),
    ({"$datetime": ["2026-01-02", None, 2]}, Opaque("$datetime", '{"$datetime":["2026-01-02",null,2]}')),
    ({"$time": ["03:04"]}, Opaque("$time", '{"$time":["03:04"]}')),
    ({"$duration": [10**30]}, Opaque("$duration", '{"$duration":[1000000000000000000000000000000]}')),
    ({"$opaque": ["one"]}, Opaque("$opaque", '{"$opaque":["one"]}')),
    ({"$later": [{"$int": "1"}]}, Opaque("$later", '{"$later":[{"$int":"1"}]}')),
    ({"$blob": 5}, Opaque("blob", "null")),
    ({"$object": 5}, Opaque("5", "null")),
    ({"$object": [1], "value": 2}, Opaque("[1]", "2")),
]


@pytest.mark.parametrize(("data", "expected"), DAMAGED, ids=[str(d)[:40] for d, _ in DAMAGED])
def test_what_cannot_be_understood_is_shown_as_it_is(data: Any, expected: Opaque) -> None:
    assert [expected, 7] == restore([data, 7], load=lambda ref: base64.b64decode(ref), annotation=Point)


@pytest.mark.parametrize("tag", ["$int", "$float", "$decimal", "$blob", "$opaque", "$object", "$later"])
def test_a_number_with_more_digits_than_python_writes_is_shown_too(tag: str) -> None:
    for payload in (16**4000, [16**4000], {"ref": 16**4000}):
        found = restore({tag: payload})
        assert type(found) in (Opaque, Decimal)


def test_data_of_any_depth_is_restored() -> None:
    data: Any = {"$int": "0x7"}
    for tag in ["$tuple", "$later", "$object", "key"] * 500:
        data = {tag: [data]}
    assert isinstance(restore(data), dict)
    data = [7]
    for _ in range(5_000):
        data = {"$tuple": [data]}
    found = restore(data)
    for _ in range(5_000):
        (found,) = found
    assert found == [7]


@given(st.one_of(OBJECTS, DECLARED))
def test_small_values_take_a_shorter_way_to_the_same_json(value: Any) -> None:
    walk = _walk._Walk(_walk._JOURNAL, None)  # pyright: ignore[reportPrivateUsage]
    assert typed(value) == walk.run(value)
