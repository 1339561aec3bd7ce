"""Values to try: everything `typed` promises to give back, and what nobody would wish for."""

from __future__ import annotations

import datetime as dt
import enum
import importlib
import json
import uuid
from collections import OrderedDict, UserDict, UserList, UserString, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PureWindowsPath
from types import CoroutineType, GeneratorType, MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, NoReturn, cast

import pytest
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from ferrule import strict_json

FEW = 2_000
SURROGATES = st.text(st.characters(exclude_categories=()), max_size=8)
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))

# -- what typed gives back --------------------------------------------------------------------------------------

LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**60), 10**60),
    st.floats(allow_nan=False),
    SURROGATES,
    st.sampled_from(["$int", "$", "$$", "value"]),
    st.binary(max_size=12),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=OFFSETS),
    st.times(),
    st.times(timezones=OFFSETS),
    st.timedeltas(),
    SURROGATES.filter(lambda t: "\0" not in t).map(Path),
)
HASHABLE: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
DECLARED: st.SearchStrategy[Any] = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(HASHABLE, max_size=4),
        st.dictionaries(SURROGATES | st.sampled_from(["$int", "$object"]), inner, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=3),
    ),
    max_leaves=12,
)


def shape(x: Any) -> Any:
    """The types of a value at any depth, to compare beside equality; of a set those of its elements in any order."""
    cls: type[Any] = x.__class__
    if issubclass(cls, dict):
        return cls, [(shape(k), shape(v)) for k, v in x.items()]
    if issubclass(cls, list | tuple):
        return cls, [shape(e) for e in x]
    if issubclass(cls, set | frozenset):
        return cls, sorted(repr(shape(e)) for e in x)
    return cls


# -- classes of a user's ----------------------------------------------------------------------------------------


class Hue(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: int
    hue: Hue = Hue.RED


@dataclass
class Line:
    ends: list[Point] = field(default_factory=list[Point])
    note: Any = None


class Pair(NamedTuple):
    left: int
    right: Any


class Order(BaseModel):
    number: str
    at: dt.datetime
    ends: list[Point] = []


class Login(BaseModel):
    user: str
    password: SecretStr


# -- hostile ones -----------------------------------------------------------------------------------------------


class Raising:
    """Every look at it raises."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError("no")

    def __repr__(self) -> NoReturn:
        raise ValueError("no text")


class Itself(Mapping[Any, Any]):
    """A mapping that holds itself, without end."""

    def __getitem__(self, key: Any) -> Itself:
        return self

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield "again"

    def __len__(self) -> int:
        return 1

    def __hash__(self) -> int:
        return 1


class Fresh:
    """An array of one dimension less each time, and never none."""

    dtype = None

    def tolist(self) -> Fresh:
        return Fresh()


class EndlessSet(Set[int]):
    """A set that never stops giving."""

    def __contains__(self, x: object) -> bool:
        return True

    def __iter__(self) -> Iterator[int]:
        n = 0
        while True:
            yield n
            n += 1

    def __len__(self) -> int:
        return 1


class EndlessLists(UserList[Any]):
    """A sequence of lists that never stops giving."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield []


class NoHash(type):
    def __eq__(cls, other: object) -> bool:
        return True

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Unhashable(metaclass=NoHash):
    """An object whose class cannot be looked up."""


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__qualname__", "__module__", "__name__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Anonymous(metaclass=Nameless):
    """An object whose class refuses to say its name."""


class Quiet(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")


class Liar(str):
    """A text that lies about itself."""

    def isascii(self) -> NoReturn:
        raise RuntimeError("no")

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> NoReturn:
        raise RuntimeError("no")

    def __str__(self) -> str:
        return "lie"


class Faceless:
    """An object that raises when asked for its class, or for anything it does not have."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("no class")

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"no {name}")


class Masked:
    """An object that says it is something else: a text, an error, a generator, a mapping, as the caller chooses."""

    def __init__(self, mask: type) -> None:
        self.mask = mask

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.mask


class FacelessError(Exception):
    """An error that raises when asked for its class."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("no class")


class BadMeeting(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> NoReturn:
        raise RuntimeError("no offset")

    def dst(self, when: dt.datetime | None) -> None:
        return None


def cycle() -> list[Any]:
    x: list[Any] = [1]
    x += [x, {"x": x}]
    return x


def bomb(levels: int = 40) -> list[Any]:
    """2**levels places made of `levels` lists."""
    x: list[Any] = ["boom"]
    for _ in range(levels):
        x = [x, x]
    return x


def nested(levels: int) -> list[Any]:
    """`levels` lists inside one another."""
    x: list[Any] = []
    for _ in range(levels - 1):
        x = [x]
    return x


MASKS: list[type] = [str, int, dict, list, ValueError, bytes, BaseModel, GeneratorType, CoroutineType, type]
HOSTILE: dict[str, Callable[[], Any]] = {
    "raises": Raising, "no class": Faceless, "no class of error": lambda: FacelessError("no"),
    **{f"masked {c.__name__}": lambda c=c: Masked(c) for c in MASKS}, "itself": Itself, "fresh": Fresh, "endless set": EndlessSet, "endless lists": EndlessLists,
    "no hash": Unhashable, "no name": Anonymous, "no text": Quiet, "liar": lambda: Liar("truth"),
    "no offset": lambda: dt.datetime(2026, 1, 1, tzinfo=BadMeeting()), "cycle": cycle, "deep": lambda: nested(5_000),
    "bare": object, "function": lambda: print, "module": lambda: strict_json, "class": lambda: int, "enum": lambda: Hue,
    "generator": lambda: (n for n in range(3)),
    "view": lambda: {"a": 1}.values(), "space": lambda: SimpleNamespace(a=1),
    "strided": lambda: memoryview(b"abcd")[::2], "huge int": lambda: 10**5_000, "signalling": lambda: Decimal("sNaN"),
    "other path": lambda: PureWindowsPath("C:/x"), "proxy": lambda: MappingProxyType({"a": 1}),
    "user dict": lambda: UserDict({"a": 1}), "user text": lambda: UserString("abc"), "deque": lambda: deque([1]),
    "default": lambda: defaultdict(list, a=[1]), "ordered": lambda: OrderedDict({"a": 1}),
    "range": lambda: range(10**12),
    "odd keys": lambda: {frozenset({1}): {(1, None): 2}, None: 1, True: 2, 1.5: 3, "None": 4, Itself(): 5},
    "surrogates": lambda: {"\ud800": "\udfff"}, "error": lambda: ValueError("no"), "exit": KeyboardInterrupt,
    "group": lambda: ExceptionGroup("several", [ValueError("a"), KeyError("b")]), "complex": lambda: complex(1, 2),
    "login": lambda: Login(user="ann", password=SecretStr("hunter2")), "ellipsis": lambda: ...,
    "incomplete": lambda: Order.model_construct(number=cast("str", 5)), "not implemented": lambda: NotImplemented,
    "mixed set": lambda: {Decimal("NaN"), Decimal(1), float("nan"), 1.5, "a", None}, "bomb": lambda: bomb(12),
}  # fmt: skip
ENDLESS = {"itself", "endless set", "endless lists", "range", "odd keys", "deep"}

OBJECTS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        LEAVES,
        st.floats(),
        st.decimals(),
        st.sampled_from(Hue),
        st.builds(Point, st.integers(), st.sampled_from(Hue)),
        st.builds(Order, number=st.text(), at=st.datetimes()),
        st.text().map(ValueError),
        st.builds(Login, user=st.text(), password=st.just(SecretStr("hunter2"))),
        # In a list: some of them, drawn alone, would break hypothesis itself.
        st.sampled_from(sorted(HOSTILE.keys() - ENDLESS)).map(lambda name: [HOSTILE[name]()]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(deque),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.builds(Line, st.just([]), inner),
        st.builds(Pair, st.integers(), inner),
        inner.map(lambda x: [x, x]),
    ),
    max_leaves=10,
)


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the bound of values for what has no end, so that tests of it are quick."""
    walk = importlib.import_module("ferrule.strict_json._walk")
    for dialect in ("_HTTP", "_NUMBERS", "_JOURNAL"):
        monkeypatch.setattr(walk, dialect, getattr(walk, dialect)._replace(nodes=FEW))
    monkeypatch.setattr("ferrule.strict_json._shape.MAX_TYPED_NODES", FEW)


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"not JSON: {name}")


def strict(raw: bytes) -> Any:
    """Read JSON as the strictest reader does."""
    return json.loads(raw.decode("utf-8"), parse_constant=_refuse)


RICH: dict[str, Any] = {
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    "d": dt.date(2026, 1, 2),
    "t": dt.timedelta(seconds=90),
    "price": Decimal("1.10"),
    "id": uuid.UUID(int=7),
    "tags": {"b", "a"},
    "raw": b"\xff\x00",
}
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000)
KEY = uuid.UUID("12345678-1234-5678-1234-567812345678")
