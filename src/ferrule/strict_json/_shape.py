"""What each type becomes: two tables from types to shapes, one for `plain`, one for `typed`.

The tables know builtins, the standard library and pydantic, and numpy, pandas
and polars by their looks. Classes of ours register themselves.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import itertools
import math
import re
import sys
import uuid
from collections import UserString, deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, ValuesView
from decimal import Decimal
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar, cast

from typing_extensions import TypeIs

from ferrule.strict_json._text import clean, is_clean

MAX_NODES = 250_000
MAX_TYPED_NODES = 1_000_000
MAX_TEXT = 1_000
MAX_ROWS = 1_000
SAFE_INT = 2**53
SECRET = "**********"
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """A value that cannot come back as what it was: its type and its text.

    Args:
        type: Qualified name of the class, `module.Name`.
        text: What was known of the value, as text.

    Since 0.1.
    """

    type: str
    text: str


class Codec(NamedTuple):
    """How one class of ours travels.

    Args:
        tag: Its tag in typed JSON, beginning with `$`.
        plain: From the object to what stands for it in plain JSON; walked on.
        payload: From the object to what stands under the tag; walked on.
        restore: From the restored payload to the object.

    Since 0.1.
    """

    tag: str
    plain: Callable[[Any], Any]
    payload: Callable[[Any], Any]
    restore: Callable[[Any], Any]


# -- shapes -----------------------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A value that JSON holds as it is, under a tag if it has one."""

    value: Any
    tag: str | None = None


class Again(NamedTuple):
    """Another value that stands for this one, under a tag or beside a `$object` name if it has one."""

    value: Any
    tag: str | None = None
    name: str | None = None


class Array(NamedTuple):
    """An array of values, under a tag if it has one; `sort` puts them in the order of their JSON."""

    items: Iterable[object]
    tag: str | None = None
    sort: bool = False


class Object(NamedTuple):
    """An object of fields, beside a `$object` name if it has one."""

    fields: Iterable[tuple[Any, object]]
    name: str | None = None


Shape = Leaf | Again | Array | Object
Shaper = Callable[[Any], Shape]


# -- names, kinds and text --------------------------------------------------------------------------------------


def class_name(cls: type) -> str:
    """Qualified name of a class: `int`, `decimal.Decimal`."""
    try:
        return clean(cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}")
    except Exception:  # a metaclass may answer whatever it likes
        return "object"


_NAME: Any = vars(type)["__name__"]


def bare_name(cls: type) -> str:
    """Name of a class without its module, whatever a metaclass says.

    Args:
        cls: Any class.

    Since 0.1.
    """
    return _NAME.__get__(cls)


def kind_of(x: object) -> str:
    """Name of the object's class without its module.

    Args:
        x: Any object whatever.

    Since 0.1.
    """
    return bare_name(type(x))


def type_name(x: object) -> str:
    """Qualified name of the object's class."""
    return class_name(type(x))


def is_a(value: object, kind: type[T] | tuple[type[T], ...]) -> TypeIs[T]:
    """Whether a value is of a class, by its real class: whatever its `__class__` says, or raises, does not count.

    Args:
        value: Any object whatever.
        kind: A class, or several.

    Since 0.1.
    """
    try:
        return issubclass(type(value), kind)
    except Exception:  # asked by an abstract class, a metaclass may answer whatever it likes
        return False


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _text_of(x: object) -> str:
    """`str(x)`, cut to a bound; an object that only has an address has no text worth keeping."""
    if type(x).__str__ is object.__str__ and type(x).__repr__ is object.__repr__:
        return type(x).__qualname__
    return _ADDRESS.sub("", clean(str(x)[:MAX_TEXT]))


def to_base64(raw: bytes) -> str:
    """Bytes as standard padded base64."""
    return base64.b64encode(raw).decode("ascii")


def _iso(moment: dt.datetime | dt.time) -> str:
    text = moment.isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _integer_text(x: int) -> str:
    try:
        return str(x)
    except ValueError:  # CPython's bound on decimal digits; hexadecimal has none
        return hex(x)


# -- sets -------------------------------------------------------------------------------------------------------

_SORTABLE = {bool, int, float, str, bytes, Decimal, uuid.UUID, dt.datetime, dt.date, dt.time, dt.timedelta}


def _is_sortable(x: Any) -> bool:
    if type(x) is tuple:
        return all(map(_is_sortable, cast("tuple[Any, ...]", x)))
    return type(x) in _SORTABLE and x == x  # NaN is not equal to itself


def _set(x: Iterable[Any], tag: str | None = None) -> Array:
    """Elements in an order that is the same in every process: their own, or else that of their JSON."""
    elements = list(itertools.islice(x, MAX_TYPED_NODES + 1))
    try:
        if all(map(_is_sortable, elements)):
            return Array(sorted(elements), tag)
    except TypeError:  # kinds that do not compare
        pass
    return Array(elements, tag, sort=True)


# -- objects with fields ----------------------------------------------------------------------------------------


def _dataclass(x: Any) -> Shape:
    return Object(((f.name, getattr(x, f.name)) for f in dataclasses.fields(x) if hasattr(x, f.name)), type_name(x))


def _is_users(serialization: Any) -> bool:
    function = serialization.get("function") if isinstance(serialization, dict) else None  # pyright: ignore
    return function is not None and not str(getattr(function, "__module__", "")).startswith("pydantic")  # pyright: ignore


@lru_cache(maxsize=1024)
def _serializes_itself(cls: Any) -> bool:
    """Whether a pydantic class has serializers, computed or excluded fields of its author's, which must be obeyed."""
    todo: list[Any] = [cls.__pydantic_core_schema__]
    while todo:
        schema = todo.pop()
        if isinstance(schema, list | tuple):
            todo.extend(cast("Sequence[Any]", schema))
        if not isinstance(schema, Mapping):
            continue
        found = cast("Mapping[str, Any]", schema)
        if found.get("serialization_exclude") or found.get("serialization_exclude_if") or found.get("computed_fields"):
            return True
        if _is_users(found.get("serialization")):
            return True
        if found.get("cls", cls) is cls:  # a class inside is met on its own
            todo.extend(v for k, v in found.items() if k not in ("metadata", "default"))
    return False


def _model(x: Any) -> Shape:
    cls: Any = x.__class__
    name = type_name(x)
    if _serializes_itself(cls):
        return Again(cls.__pydantic_serializer__.to_python(x, warnings=False, by_alias=False), name=name)
    if getattr(cls, "__pydantic_root_model__", False):
        return Again(x.root, name=name)
    fields: dict[str, Any] = {k: getattr(x, k) for k in cls.__pydantic_fields__ if hasattr(x, k)}
    extra: dict[str, Any] = getattr(x, "__pydantic_extra__", None) or {}
    return Object({**fields, **{clean(k): v for k, v in extra.items()}}.items(), name)


def _named_tuple(x: Any) -> Shape:
    return Object(zip(x._fields, x, strict=False), type_name(x))


def _exception(x: BaseException) -> Shape:
    return Object((("type", kind_of(x)), ("message", _text_of(x))), type_name(x))


# -- numpy, pandas, polars --------------------------------------------------------------------------------------


def _frame(x: Any) -> Shape:
    """A data frame: columns, the first rows, and how many there are."""
    columns: list[Any] = list(x.columns)
    head = x.head(MAX_ROWS)
    rows = head.iter_rows() if hasattr(head, "iter_rows") else head.itertuples(index=False, name=None)
    names = [str(c) for c in columns]
    if len(set(names)) < len(names):
        names = [f"{name} ({i})" for i, name in enumerate(names, 1)]
    records = [dict(zip(names, row, strict=True)) for row in rows]
    return Object((("columns", columns), ("rows", records), ("row_count", int(x.shape[0]))), type_name(x))


def _array(x: Any) -> Shape:
    """An array, a scalar, a series or a tensor, as Python lists and values."""
    kind = getattr(x.dtype, "kind", "")
    if hasattr(x, "__iter__") and len(getattr(x, "shape", ())) == 1:
        x = x[: MAX_TYPED_NODES + 1]
    if kind in ("M", "m") and hasattr(x, "astype"):
        x = x.astype(f"{kind}8[us]")  # as nanoseconds they would come out as integers
    value = x.tolist() if hasattr(x, "tolist") else x.to_list()
    if type(value) is type(x) and hasattr(value, "__float__"):  # a long double stays what it is
        value = float(value)
    return Again(value)


# What both dialects take apart in the same way, most specific first: (test of the class, shaper).
_COMMON: tuple[tuple[Callable[[Any], bool], Shaper], ...] = (
    (lambda c: hasattr(c, "get_secret_value"), lambda x: Again(Opaque(type_name(x), SECRET))),
    (lambda c: issubclass(c, enum.Enum), lambda x: Again(x.value, name=type_name(x))),
    (lambda c: hasattr(c, "__pydantic_serializer__") and hasattr(c, "__pydantic_fields__"), _model),
    (dataclasses.is_dataclass, _dataclass),
    (lambda c: hasattr(c, "_fields") and issubclass(c, tuple), _named_tuple),
    (lambda c: issubclass(c, BaseException), _exception),
    (lambda c: issubclass(c, UserString), lambda x: Again(x.data)),  # a sequence of its own kind, for ever
    (lambda c: all(hasattr(c, a) for a in ("columns", "head", "shape")), _frame),
    (lambda c: hasattr(c, "dtype") and (hasattr(c, "tolist") or hasattr(c, "to_list")), _array),
)


# -- plain ------------------------------------------------------------------------------------------------------


def plain_float(x: float) -> float | None:
    """A finite float, or None."""
    return x if math.isfinite(x) else None


def int_as_text(x: int) -> int | str:
    """An integer that JavaScript holds exactly, or its text."""
    return x if -SAFE_INT <= x <= SAFE_INT else _integer_text(x)


def int_as_number(x: int) -> int | Leaf:
    """An integer, as hexadecimal text where Python would refuse to write its digits."""
    if -SAFE_INT <= x <= SAFE_INT:
        return x
    text = _integer_text(x)
    return Leaf(text if text[:2] == "0x" or text[:3] == "-0x" else x)


_TEXTUAL = frozenset(
    {
        "complex",
        "fractions.Fraction",
        "ipaddress._IPAddressBase",
        "pydantic.networks.NameEmail",
        "pydantic.networks._BaseMultiHostUrl",
        "pydantic.networks._BaseUrl",
        "pydantic_core._pydantic_core.MultiHostUrl",
        "pydantic_core._pydantic_core.Url",
        "zoneinfo.ZoneInfo",
    }
)


@lru_cache(maxsize=1024)
def is_textual(cls: type) -> bool:
    """Whether the text of a class's objects says all of them, and makes an equal one.

    Args:
        cls: A class.

    Since 0.1.
    """
    return any(class_name(base) in _TEXTUAL for base in cls.__mro__)


def _plain_unknown(x: object) -> Shape:
    if kind_of(x) == "NAType":  # what pandas has for a missing value in a column that is no float
        return Leaf(None)
    if is_textual(type(x)):
        return Leaf(str(x))
    return Object((("type", type_name(x)), ("text", _text_of(x))))


_PLAIN: tuple[tuple[Any, Shaper], ...] = (
    (str, lambda x: Leaf(str.__str__(x))),
    (int, lambda x: Leaf(int.__int__(x))),
    (float, lambda x: Leaf(float.__float__(x))),
    ((Decimal, uuid.UUID, PurePath), lambda x: Leaf(str(x))),
    (dt.datetime, lambda x: Leaf(_iso(x) if x == x else None)),  # NaT of pandas is not equal to itself
    (dt.date, lambda x: Leaf(x.isoformat())),
    (dt.time, lambda x: Leaf(_iso(x))),
    (dt.timedelta, lambda x: Leaf(x.total_seconds())),
    ((bytes, bytearray, memoryview), lambda x: Leaf(to_base64(bytes(x)))),
    (re.Pattern, lambda x: Again(x.pattern)),
    (Opaque, lambda x: Leaf(x.text)),
    (Mapping, lambda x: Object(x.items())),
    (Set, _set),
    ((Sequence, deque, ValuesView), Array),
)

# -- typed ------------------------------------------------------------------------------------------------------


def typed_int(x: int) -> int | Leaf:
    """An integer that every reader of JSON holds exactly, or its hexadecimal digits under a tag."""
    return x if -SAFE_INT <= x <= SAFE_INT else Leaf(hex(x), "$int")


def typed_float(x: float) -> float | Leaf:
    """A finite float, or the name of another under a tag."""
    return x if math.isfinite(x) else Leaf(repr(x), "$float")


def typed_str(x: str) -> str | Leaf:
    """A text that UTF-8 can carry, or its bytes under a tag."""
    return x if is_clean(x) else Leaf(to_base64(x.encode("utf-8", "surrogatepass")), "$str")


def _typed_mapping(x: Mapping[Any, Any]) -> Shape:
    pairs: Iterable[tuple[Any, Any]] = x.items()
    if type(x) is not dict:
        pairs = list(itertools.islice(pairs, MAX_TYPED_NODES + 1))
    if all(type(k) is str and is_clean(k) for k, _ in pairs):
        return Object(pairs)
    return Array(itertools.chain.from_iterable(pairs), "$map")


def _typed_moment(x: dt.datetime | dt.time) -> str | list[Any]:
    """ISO 8601; where that leaves something out, also the key of the zone and the fold."""
    zones = sys.modules.get("zoneinfo")
    key: Any = x.tzinfo.key if zones is not None and is_a(x.tzinfo, zones.ZoneInfo) else None
    zone = key if type(key) is str and is_clean(key) else None  # one read from a file has the key it was given
    return [x.isoformat(), zone, x.fold] if zone is not None or x.fold else x.isoformat()


def _typed_path(x: Path) -> Shape:
    text = typed_str(str(x))
    return Leaf(text, "$path") if isinstance(text, str) else Leaf({text.tag: text.value}, "$path")


def _typed_unknown(x: object) -> Shape:
    return Leaf([type_name(x), _text_of(x)], "$opaque")


_TYPED: tuple[tuple[Any, Shaper], ...] = (
    (str, lambda x: Leaf(str.__str__(x))),
    (int, lambda x: Leaf(int.__int__(x))),
    (float, lambda x: Leaf(float.__float__(x))),
    (Decimal, lambda x: Leaf(str(x), "$decimal")),
    (uuid.UUID, lambda x: Leaf(str(x), "$uuid")),
    (Path, _typed_path),
    (dt.datetime, lambda x: Leaf(_typed_moment(x), "$datetime") if x == x else _typed_unknown(x)),
    (dt.date, lambda x: Leaf(x.isoformat(), "$date")),
    (dt.time, lambda x: Leaf(_typed_moment(x), "$time")),
    (dt.timedelta, lambda x: Leaf([x.days, x.seconds, x.microseconds], "$duration")),
    ((bytes, bytearray, memoryview), lambda x: Leaf(bytes(x))),
    (Opaque, lambda x: Leaf([clean(x.type), clean(x.text)], "$opaque")),
    (Mapping, _typed_mapping),
    (frozenset, lambda x: _set(x, "$frozenset")),
    (Set, lambda x: _set(x, "$set")),
    (tuple, lambda x: Array(x, "$tuple")),
    ((Sequence, deque, ValuesView), Array),
)

# -- looking up -------------------------------------------------------------------------------------------------

CODECS: dict[type, Codec] = {}
RESTORERS: dict[str, Callable[[Any], Any]] = {}


def made_of_fields(cls: Any) -> Callable[[dict[str, Any]], Any]:
    """What makes an object again of its fields by name, for the `restore` of a codec.

    Args:
        cls: Its class.

    Since 0.1.
    """
    return lambda found: cls(**found)


def register(cls: type, codec: Codec) -> None:
    """Teach both dialects one class of ours.

    Args:
        cls: The class; subclasses travel as it does.
        codec: How it travels.

    Since 0.1.
    """
    CODECS[cls] = codec
    RESTORERS[codec.tag] = codec.restore
    plain_shaper.cache_clear()
    typed_shaper.cache_clear()


def _codec(cls: type) -> Codec | None:
    return next((CODECS[base] for base in cls.__mro__ if base in CODECS), None)


def _find(cls: type, table: tuple[tuple[Any, Shaper], ...], unknown: Shaper) -> Shaper:
    for kinds, shaper in table:
        if cls in (kinds if isinstance(kinds, tuple) else (kinds,)):
            return shaper
    for test, shaper in _COMMON:
        if test(cls):
            return shaper
    return next((shaper for kinds, shaper in table if issubclass(cls, kinds)), unknown)


@lru_cache(maxsize=4096)
def plain_shaper(cls: type) -> Shaper:
    """What shapes the objects of a class for `plain`."""
    codec = _codec(cls)
    return (lambda x: Again(codec.plain(x))) if codec else _find(cls, _PLAIN, _plain_unknown)


@lru_cache(maxsize=4096)
def typed_shaper(cls: type) -> Shaper:
    """What shapes the objects of a class for `typed`."""
    codec = _codec(cls)
    return (lambda x: Again(codec.payload(x), codec.tag)) if codec else _find(cls, _TYPED, _typed_unknown)
