"""Which values are described without running code of whoever wrote their class."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import given
from tests.unit.values import OBJECTS

from ferrule import Part, Request, ToolResult
from ferrule.tool.body.value import is_still


class Hue(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Row:
    items: list[Any]
    value: Any = 0


@dataclass(slots=True)
class Slotted:
    cell: Any = None


class Model(pydantic.BaseModel):
    a: Any
    at: dt.date = dt.date(2026, 1, 2)


class Open(pydantic.BaseModel, extra="allow"):
    pass


class Computed(pydantic.BaseModel):
    @pydantic.computed_field
    @property
    def dear(self) -> int:
        return 1


class Plain:
    """Described by its own `__str__`, if it has one."""


class Stream(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        return super().__iter__()


class Asks(dict[str, Any]):
    def items(self) -> Any:
        return super().items()


@dataclass
class Behind:
    name: str

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@dataclass
class Reads:
    cells: Any = field(init=False)

    @property
    def cell(self) -> Any:
        return 1


class Amount(Decimal):
    def __str__(self) -> str:
        return "1"


class Count(int):
    """An int all the same."""


STILL: list[Any] = [
    None, True, 1, 1.5, "a", b"a", 1j, [], {}, (), {1, 2}, frozenset({1}), deque([1]), Decimal(1), uuid.UUID(int=1),
    Path("a"), dt.datetime(2026, 1, 2), dt.timedelta(1), Hue.RED, Pair(1, [2]), Row([1], {"a": 1}), Slotted([1]),
    Model(a=[Hue.RED]), Open.model_validate({"b": [1]}), pydantic.SecretStr("FAKE"), Part("text", text="a"),
    Request("r", "input", "?"), ToolResult.ok({"a": [1]}), OrderedDict(a=1), defaultdict(list, a=[1]), Count(1),
    {"a": [{"b": (1, Decimal(2))}], 1: "c"}, ValueError("v"), int, ...,
]  # fmt: skip
STIRRING: list[Any] = [
    Plain(), Stream([1]), Asks(a=1), Behind("a"), Computed(), Amount(1), UserDict({"a": 1}), range(3), memoryview(b"a"),
    {}.keys(), iter([1]),
]  # fmt: skip
AROUND: list[Callable[[Any], Any]] = [
    lambda x: x, lambda x: [x], lambda x: {"a": x}, lambda x: (1, [x]), lambda x: Pair(x, 1), lambda x: Row([x]),
    Slotted, lambda x: Model(a=x), lambda x: Open.model_validate({"b": x}), lambda x: defaultdict(list, a=[x]),
    lambda x: deque([x]), ToolResult.ok,
]  # fmt: skip


@pytest.mark.parametrize("value", STILL, ids=lambda v: type(v).__name__)
def test_data_is_still_wherever_it_stands(value: Any) -> None:
    assert [is_still(around(value)) for around in AROUND] == [True] * len(AROUND)


@pytest.mark.parametrize("value", STIRRING, ids=lambda v: type(v).__name__)
def test_an_object_with_a_say_in_its_description_is_not_wherever_it_stands(value: Any) -> None:
    assert [is_still(around(value)) for around in AROUND] == [False] * len(AROUND)


def test_a_key_has_a_say_too() -> None:
    assert not is_still({Plain(): 1})
    assert not is_still({"a": 1, (1, Plain()): 1})


def test_what_is_too_large_to_look_at_or_has_no_end_is_not() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert not is_still(cycle)
    assert not is_still([0] * 100_001)
    assert is_still([0] * 100_000)


class Named(Exception):
    """It leaves its text to Python."""

    status = 404


class Told(Exception):
    def __str__(self) -> str:
        return "told"


class Status(Exception):
    @property
    def status_code(self) -> int:
        return 404


class Lazily(Exception):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@dataclass
class Broken(Exception):
    cell: Any = None


def behind(error: BaseException, cause: BaseException | None = None, context: BaseException | None = None) -> Any:
    """The error with others behind it, as `raise` leaves them."""
    error.__cause__, error.__context__ = cause, context
    return error


def itself(error: Exception) -> Exception:
    error.__cause__ = error
    return error


@pytest.mark.parametrize(
    "error",
    [
        *(
            ValueError("v"),
            ValueError(1, None),
            KeyError("k"),
            OSError(2, "gone", "a.txt"),
            Named("n"),
            StopIteration(1),
        ),
        *(ExceptionGroup("g", [ValueError("v"), Named("n")]), behind(ValueError("v"), Named("c"), OSError("o"))),
        itself(ValueError("v")),
    ],
    ids=repr,
)
def test_an_error_of_plain_data_is_still_wherever_it_stands(error: Any) -> None:
    assert [is_still(around(error)) for around in AROUND] == [True] * len(AROUND)


@pytest.mark.parametrize(
    "error",
    [
        *(
            Told(),
            Status(),
            Lazily(),
            Broken(Plain()),
            ValueError(Plain()),
            ValueError([1]),
            OSError(2, "gone", Plain()),
        ),
        *(
            ExceptionGroup("g", [ValueError("v"), Told()]),
            behind(ValueError("v"), Status()),
            behind(Named(), None, Told()),
        ),
        ExceptionGroup("g", [ValueError(i) for i in range(200)]),
    ],
    ids=lambda e: type(e).__name__,
)
def test_an_error_whose_class_or_data_has_a_say_is_not_wherever_it_stands(error: Any) -> None:
    assert [is_still(around(error)) for around in AROUND] == [False] * len(AROUND)


@given(OBJECTS)
def test_any_object_gets_a_yes_or_no(value: Any) -> None:
    assert is_still(value) in (True, False)
