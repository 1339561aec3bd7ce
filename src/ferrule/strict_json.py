"""Python values as strict JSON: two total functions and their way back.

`plain(x)` is what people, models and HTTP clients read. `typed(x)` is what the
journal stores, and `restore` gives the equal value back. Neither raises,
whatever the object: what cannot be described is replaced by a marker, and
encoding never turns a successful value into a failure.

Both walk the object with one loop and an explicit stack, so depth costs no
recursion; nodes, depth and bytes are bounded. They differ only in a dialect: a
table from types to shapes. This module knows no class of ours; `content`,
`suspension` and `result` register theirs.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import itertools
import json
import math
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, NoReturn, cast

import orjson

from ferrule.errors import JSONSyntaxError

MAX_DEPTH = 100
MAX_NODES = 250_000
MAX_TYPED_NODES = 1_000_000
MAX_BYTES = 64 * 1024 * 1024
SPILL_BYTES = 32 * 1024
MAX_TEXT = 1_000
MAX_ROWS = 1_000
SAFE_INT = 2**53


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


# -- shapes: what a type becomes --------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A value that JSON holds as it is."""

    value: Any


class Again(NamedTuple):
    """Another value that stands for this one, under a tag or beside a `$object` name if it has one."""

    value: Any
    tag: str | None = None
    name: str | None = None


class Array(NamedTuple):
    """An array of values, under a tag if it has one."""

    items: Iterable[Any]
    tag: str | None = None


class Object(NamedTuple):
    """An object of fields, beside a `$object` name if it has one."""

    fields: Iterable[tuple[Any, Any]]
    name: str | None = None


Shape = Leaf | Again | Array | Object
Shaper = Callable[[Any], Shape]


def type_name(x: object) -> str:
    """Qualified name of the object's class: `int`, `decimal.Decimal`.

    Args:
        x: Any object.

    Since 0.1.
    """
    cls = type(x)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def clean(text: str) -> str:
    """Text that UTF-8 can carry: surrogate pairs joined, lone surrogates replaced by U+FFFD.

    Args:
        text: Any str.

    Since 0.1.
    """
    if text.isascii():
        return text if type(text) is str else str.__str__(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if type(text) is str else str.__str__(text)


def _is_clean(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _text_of(x: object) -> str:
    """`str(x)`, cut to a bound; an object that only has an address has no text worth keeping."""
    if type(x).__str__ is object.__str__ and type(x).__repr__ is object.__repr__:
        return type(x).__qualname__
    return _ADDRESS.sub("", clean(str(x)[:MAX_TEXT]))


def _iso(moment: dt.datetime | dt.time) -> str:
    text = moment.isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _base64(x: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(x).decode("ascii")


def _integer_text(x: int) -> str:
    # CPython refuses to write more than 4,300 decimal digits; hexadecimal has no limit.
    return str(x) if x.bit_length() < 14_000 else hex(x)


def _in_order(items: Iterable[Any]) -> list[Any]:
    """Elements of a set, the same order in every process."""
    elements = list(items)
    kinds = {type(e) for e in elements}
    if len(kinds) == 1 and kinds <= {str, int, float, bytes, Decimal, uuid.UUID, dt.date}:
        return sorted(elements)
    return sorted(elements, key=lambda e: dumps(typed(e)))


def _dataclass_fields(x: Any) -> Iterable[tuple[str, Any]]:
    return ((f.name, getattr(x, f.name)) for f in dataclasses.fields(x) if hasattr(x, f.name))


@lru_cache(maxsize=1024)
def _serializes_itself(cls: Any) -> bool:
    """Whether a pydantic model has serializers or excluded fields of its own, which must be obeyed."""
    decorators = cls.__pydantic_decorators__
    if decorators.field_serializers or decorators.model_serializers or decorators.computed_fields:
        return True
    fields = cls.model_fields.values()
    return any(f.exclude or any(hasattr(m, "when_used") for m in f.metadata) for f in fields)


def _model_fields(x: Any) -> Iterable[tuple[str, Any]]:
    if _serializes_itself(type(x)):
        return cast("dict[str, Any]", x.model_dump()).items()
    return {**x.__dict__, **(x.__pydantic_extra__ or {})}.items()


def _frame_fields(x: Any) -> Iterable[tuple[str, Any]]:
    """A data frame (pandas, polars): columns, the first rows, and how many there are."""
    head = x.head(MAX_ROWS)
    rows = head.to_dicts() if hasattr(head, "to_dicts") else head.to_dict("records")
    return (("columns", list(x.columns)), ("rows", rows), ("row_count", int(x.shape[0])))


def _array_value(x: Any) -> Any:
    """A numpy array or scalar, or a tensor, as Python lists and numbers."""
    size = getattr(x, "size", 0)
    if isinstance(size, int) and size > MAX_NODES and hasattr(x, "ravel"):
        return x.ravel()[: MAX_NODES + 1].tolist()
    return x.tolist()


def _series_value(x: Any) -> Any:
    return list(itertools.islice(x, MAX_NODES + 1))


# -- the dialects -----------------------------------------------------------------------------------------------

_CODECS: dict[type, Codec] = {}
_RESTORE: dict[str, Callable[[Any], Any]] = {}


def register(cls: type, codec: Codec) -> None:
    """Teach both dialects one class of ours.

    Args:
        cls: The class; subclasses travel as it does.
        codec: How it travels.

    Since 0.1.
    """
    _CODECS[cls] = codec
    _RESTORE[codec.tag] = codec.restore
    _plain_shaper.cache_clear()
    _typed_shaper.cache_clear()


def _object(fields: Callable[[Any], Iterable[tuple[Any, Any]]]) -> Callable[[Any], Shape]:
    return lambda x: Object(fields(x), type_name(x))


def _exception_fields(x: BaseException) -> Iterable[tuple[str, Any]]:
    return (("type", type(x).__name__), ("message", _text_of(x)))


def _is_secret(cls: type) -> bool:
    return hasattr(cls, "get_secret_value")


def _is_frame(cls: type) -> bool:
    return all(hasattr(cls, a) for a in ("columns", "head", "shape"))


# What both dialects take apart in the same way, most specific first: (test of the class, shaper).
_COMMON: tuple[tuple[Callable[[type], bool], Shaper], ...] = (
    (_is_secret, lambda x: Again(Opaque(type_name(x), "**********"))),
    (lambda c: issubclass(c, enum.Enum), lambda x: Again(x.value, name=type_name(x))),
    (lambda c: hasattr(c, "__pydantic_root_model__") and c.__pydantic_root_model__ is True, lambda x: Again(x.root)),
    (lambda c: hasattr(c, "__pydantic_decorators__") and hasattr(c, "model_dump"), _object(_model_fields)),
    (lambda c: dataclasses.is_dataclass(c), _object(_dataclass_fields)),
    (lambda c: issubclass(c, tuple) and hasattr(c, "_fields"), _object(lambda x: zip(x._fields, x, strict=False))),
    (lambda c: issubclass(c, BaseException), _object(_exception_fields)),
    (_is_frame, _object(_frame_fields)),
    (lambda c: hasattr(c, "tolist") and hasattr(c, "dtype") and hasattr(c, "index"), lambda x: Again(_series_value(x))),
    (lambda c: hasattr(c, "tolist") and hasattr(c, "dtype"), lambda x: Again(_array_value(x))),
)

_PLAIN: tuple[tuple[Any, Shaper], ...] = (
    (str, lambda x: Leaf(clean(x))),
    (bool, lambda x: Leaf(bool(x))),
    (int, lambda x: Leaf(int(x))),
    (float, lambda x: Leaf(_plain_float(x))),
    ((Decimal, uuid.UUID), lambda x: Leaf(str(x))),
    (PurePath, lambda x: Leaf(clean(str(x)))),
    (dt.datetime, lambda x: Leaf(_iso(x) if x == x else None)),
    (dt.date, lambda x: Leaf(x.isoformat())),
    (dt.time, lambda x: Leaf(_iso(x))),
    (dt.timedelta, lambda x: Leaf(x.total_seconds())),
    ((bytes, bytearray, memoryview), lambda x: Leaf(_base64(x))),
    (Opaque, lambda x: Leaf(clean(x.text))),
    (Mapping, lambda x: Object(x.items())),
    (Set, lambda x: Array(_in_order(x))),
    ((Sequence, deque), lambda x: Array(x)),
)


def _typed_int(x: int) -> Any:
    return int(x) if -SAFE_INT <= x <= SAFE_INT else {"$int": hex(x)}


def _typed_float(x: float) -> Any:
    return float(x) if math.isfinite(x) else {"$float": repr(float(x))}


def _typed_str(x: str) -> Any:
    if _is_clean(x):
        return x if type(x) is str else str.__str__(x)
    return {"$str": _base64(x.encode("utf-8", "surrogatepass"))}


def _typed_mapping(x: Mapping[Any, Any]) -> Shape:
    if all(type(k) is str and _is_clean(k) for k in x):
        return Object((("$" + k if k[:1] == "$" else k, v) for k, v in x.items()))
    return Array(itertools.chain.from_iterable(x.items()), "$map")


def _typed_duration(x: dt.timedelta) -> Shape:
    return Leaf({"$duration": [x.days, x.seconds, x.microseconds]})


_TYPED: tuple[tuple[Any, Shaper], ...] = (
    (str, lambda x: Leaf(_typed_str(x))),
    (bool, lambda x: Leaf(bool(x))),
    (int, lambda x: Leaf(_typed_int(x))),
    (float, lambda x: Leaf(_typed_float(x))),
    (Decimal, lambda x: Leaf({"$decimal": str(x)})),
    (uuid.UUID, lambda x: Leaf({"$uuid": str(x)})),
    (Path, lambda x: Leaf({"$path": _typed_str(str(x))})),
    (dt.datetime, lambda x: Leaf({"$datetime": x.isoformat()})),
    (dt.date, lambda x: Leaf({"$date": x.isoformat()})),
    (dt.time, lambda x: Leaf({"$time": x.isoformat()})),
    (dt.timedelta, _typed_duration),
    ((bytes, bytearray, memoryview), lambda x: Leaf(bytes(x))),
    (Opaque, lambda x: Leaf({"$opaque": [clean(x.type), clean(x.text)]})),
    (Mapping, _typed_mapping),
    (frozenset, lambda x: Array(_in_order(x), "$frozenset")),
    (Set, lambda x: Array(_in_order(x), "$set")),
    (tuple, lambda x: Array(x, "$tuple")),
    ((Sequence, deque), lambda x: Array(x)),
)


def _plain_float(x: float) -> Any:
    return float(x) if math.isfinite(x) else None


def _plain_unknown(x: object) -> Shape:
    return Object((("type", type_name(x)), ("text", _text_of(x))))


def _typed_unknown(x: object) -> Shape:
    return Leaf({"$opaque": [type_name(x), _text_of(x)]})


def _find(cls: type, table: tuple[tuple[Any, Shaper], ...], unknown: Shaper) -> Shaper:
    for base in cls.__mro__:
        if base in _CODECS:
            codec = _CODECS[base]
            return (lambda x: Again(codec.plain(x))) if table is _PLAIN else (lambda x: Again(codec.payload(x), codec.tag))
    exact = next((shaper for kind, shaper in table if cls in (kind if isinstance(kind, tuple) else (kind,))), None)
    if exact is not None:
        return exact
    common = next((shaper for test, shaper in _COMMON if test(cls)), None)
    if common is not None:
        return common
    return next((shaper for kind, shaper in table if issubclass(cls, kind)), unknown)


@lru_cache(maxsize=4096)
def _plain_shaper(cls: type) -> Shaper:
    return _find(cls, _PLAIN, _plain_unknown)


@lru_cache(maxsize=4096)
def _typed_shaper(cls: type) -> Shaper:
    return _find(cls, _TYPED, _typed_unknown)


class Dialect(NamedTuple):
    """One way to write Python values as JSON."""

    leaves: dict[type, Callable[[Any], Any]]
    shaper: Callable[[type], Shaper]
    marker: Callable[[str, str], Any]
    tagged: bool
    nodes: int


def _same(x: Any) -> Any:
    return x


def _wide_int_text(x: int) -> Any:
    return x if -SAFE_INT <= x <= SAFE_INT else _integer_text(x)


def _wide_int(x: int) -> Any:
    return x if x.bit_length() < 14_000 else hex(x)


def _plain_marker(kind: str, reason: str) -> Any:
    return f"[{kind}: {reason}]"


def _typed_marker(kind: str, reason: str) -> Any:
    return {"$opaque": [kind, reason]}


_EXACT: dict[type, Callable[[Any], Any]] = {bool: _same, type(None): _same}
_PLAIN_LEAVES = {**_EXACT, str: clean, float: _plain_float}
_HTTP = Dialect({**_PLAIN_LEAVES, int: _wide_int_text}, _plain_shaper, _plain_marker, False, MAX_NODES)
_NUMBERS = _HTTP._replace(leaves={**_PLAIN_LEAVES, int: _wide_int})
_TYPED_LEAVES = {**_EXACT, str: _typed_str, int: _typed_int, float: _typed_float}
_JOURNAL = Dialect(_TYPED_LEAVES, _typed_shaper, _typed_marker, True, MAX_TYPED_NODES)

# -- the walk ---------------------------------------------------------------------------------------------------

Spill = Callable[[bytes], str]


class _Walk:
    """One object on its way to JSON: what is left to do, and how much of the bounds is used."""

    __slots__ = ("bytes_left", "dialect", "nodes_left", "open", "spill", "todo")

    def __init__(self, dialect: Dialect, spill: Spill | None) -> None:
        self.dialect = dialect
        self.spill = spill
        self.nodes_left = dialect.nodes
        self.bytes_left = MAX_BYTES
        self.open: set[int] = set()
        # (where to put it, under which key, the value, its depth); a None target marks the end of a container.
        self.todo: list[tuple[Any, Any, Any, int]] = []

    def run(self, root: Any) -> Any:
        box = [None]
        self.todo.append((box, 0, root, 0))
        while self.todo:
            target, key, x, depth = self.todo.pop()
            if target is None:
                self.open.discard(id(x))
            else:
                self.place(target, key, x, depth)
        return box[0]

    def place(self, target: Any, key: Any, x: Any, depth: int) -> None:
        leaf = self.dialect.leaves.get(type(x))
        if leaf is not None:
            target[key] = self.bounded(leaf(x), x)
            return
        self.nodes_left -= 1
        try:
            target[key] = self.expand(x, depth)
        except Exception as error:  # whatever the object's own code raises: a value must not fail because of its looks
            target[key] = self.mark(x, f"unreadable, {type(error).__name__}")

    def mark(self, x: Any, reason: str) -> Any:
        return self.dialect.marker(type_name(x), reason)

    def bounded(self, leaf: Any, x: Any) -> Any:
        """A leaf within the bound of bytes; a large one goes to `spill` instead."""
        if type(leaf) is not str and type(leaf) is not bytes:
            return leaf
        if self.spill is not None and len(leaf) > SPILL_BYTES // 4:
            raw = leaf.encode() if type(leaf) is str else leaf
            if len(raw) > SPILL_BYTES:
                kind = "text" if type(leaf) is str else "bytes"
                return {"$blob": {"ref": self.spill(raw), "kind": kind, "size": len(raw)}}
        self.bytes_left -= len(leaf)
        if self.bytes_left < 0:
            return self.mark(x, "left out, the whole is too large")
        return {"$bytes": _base64(leaf)} if type(leaf) is bytes else leaf

    def expand(self, x: Any, depth: int) -> Any:
        if id(x) in self.open:
            return self.mark(x, "cycle")
        if depth > MAX_DEPTH:
            return self.mark(x, "too deep")
        if self.nodes_left < 0:
            return self.mark(x, "left out, too many values")
        shape = self.dialect.shaper(type(x))(x)
        if isinstance(shape, Leaf):
            leaf = self.dialect.leaves.get(type(shape.value), _same)
            return self.bounded(leaf(shape.value), x)
        if isinstance(shape, Again):
            return self.again(shape, depth)
        self.open.add(id(x))
        self.todo.append((None, None, x, 0))
        if isinstance(shape, Array):
            items = self.array(shape.items, depth + 1)
            return {shape.tag: items} if shape.tag and self.dialect.tagged else items
        if not self.dialect.tagged:
            return self.plain_object(shape.fields, depth + 1)
        fields = self.typed_object(shape.fields, depth + 1)
        return {"$object": shape.name, "value": fields} if shape.name else fields

    def again(self, shape: Again, depth: int) -> Any:
        key = shape.tag or ("value" if shape.name else None)
        if key is None or not self.dialect.tagged:
            box: list[Any] = [None]
            self.place(box, 0, shape.value, depth + 1)
            return box[0]
        holder: dict[str, Any] = {"$object": shape.name, key: None} if shape.name else {key: None}
        self.todo.append((holder, key, shape.value, depth + 1))
        return holder

    def array(self, items: Iterable[Any], depth: int) -> list[Any]:
        new: list[Any] = []
        leaves = self.dialect.leaves
        late: list[tuple[Any, Any, Any, int]] = []
        for x in items:
            if self.nodes_left <= 0:
                new.append(self.dialect.marker("list", "cut, too many values"))
                break
            leaf = leaves.get(type(x))
            if leaf is None:
                late.append((new, len(new), x, depth))
                new.append(None)
            else:
                self.nodes_left -= 1
                new.append(self.bounded(leaf(x), x))
        self.todo.extend(reversed(late))
        return new

    def typed_object(self, fields: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        new: dict[str, Any] = {}
        leaves = self.dialect.leaves
        late: list[tuple[Any, Any, Any, int]] = []
        for key, x in fields:
            if self.nodes_left <= 0:
                new["$cut"] = self.dialect.marker("dict", "cut, too many values")
                break
            leaf = leaves.get(type(x))
            if leaf is None:
                late.append((new, key, x, depth))
                new[key] = None
            else:
                self.nodes_left -= 1
                new[key] = self.bounded(leaf(x), x)
        self.todo.extend(reversed(late))
        return new

    def plain_object(self, fields: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        return self.typed_object(_text_keys(fields), depth)


def _text_keys(fields: Iterable[tuple[Any, Any]]) -> Iterable[tuple[str, Any]]:
    """String keys; one that is taken already gets a number."""
    taken: set[str] = set()
    for key, x in fields:
        name = clean(key) if type(key) is str else _key_text(key)
        if name in taken:
            name = next(n for i in itertools.count(2) if (n := f"{name} ({i})") not in taken)
        taken.add(name)
        yield name, x


def _key_text(key: Any) -> str:
    value = plain(key)
    return value if isinstance(value, str) else dumps(value).decode()


# -- the public functions ---------------------------------------------------------------------------------------


def plain(x: Any, *, big_ints: Literal["text", "number"] = "text") -> Any:
    """Describe any object in strict JSON for people, models and HTTP clients.

    Dates become ISO 8601 text (UTC as `Z`), timedeltas seconds, Decimal, UUID
    and paths text, bytes base64, NaN and infinities `null`, enum members their
    value, objects with fields an object, sets sorted arrays, exceptions
    `{"type", "message"}`, secrets `**********`; what is cyclic, deeper than 100
    levels or beyond 250,000 values or 64 MiB becomes a marker in its place.

    Args:
        x: Any object whatever.
        big_ints: Integers beyond 2**53 as `"text"`, as JavaScript needs it, or as `"number"`.

    Returns:
        dict, list, str, int, float, bool or None, fit for `dumps`. Never raises.

    Since 0.1.
    """
    return _Walk(_HTTP if big_ints == "text" else _NUMBERS, None).run(x)


def typed(x: Any, *, spill: Spill | None = None) -> Any:
    """Describe any object in tagged JSON from which `restore` makes an equal one.

    Equal and of equal type come back: None, bool, str, int, float (NaN and
    infinities too), Decimal, UUID, Path, bytes, datetime, date, time, timedelta,
    list, tuple, set, frozenset, dict with keys of these, results, parts,
    requests and answers, to a depth of 100 and without cycles.

    Args:
        x: Any object whatever.
        spill: Takes the bytes of a leaf over 32,768 bytes, stores them and returns a reference; without it leaves
            stay inside.

    Returns:
        A JSON value fit for `dumps`. Raises only what `spill` raises.

    Since 0.1.
    """
    return _Walk(_JOURNAL, spill).run(x)


def dumps(value: Any) -> bytes:
    """Compact strict JSON of a value made by `plain`, `typed` or `parse`.

    Args:
        value: dict with str keys, list, str, int, finite float, bool or None.

    Since 0.1.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, or nesting beyond orjson's bound
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def text_of(x: Any) -> str:
    """Any object as compact strict JSON text, integers as numbers: what a model reads.

    Args:
        x: Any object whatever.

    Since 0.1.
    """
    return dumps(plain(x, big_ints="number")).decode()


def parse(text: str | bytes) -> Any:
    """Read strict JSON: no duplicate keys, no NaN or Infinity, no lone surrogates, integers of any size.

    Args:
        text: JSON text, or its UTF-8 bytes.

    Raises:
        JSONSyntaxError: With line and column; the text itself is not quoted.

    Since 0.1.
    """
    try:
        source = text.decode() if isinstance(text, bytes) else text
        value = json.loads(source, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise JSONSyntaxError(error.msg, error.lineno, error.colno) from None
    except UnicodeDecodeError:
        raise JSONSyntaxError("not UTF-8") from None
    except RecursionError:
        raise JSONSyntaxError("nested too deeply") from None
    except JSONSyntaxError:
        raise
    except ValueError:
        raise JSONSyntaxError("a number with too many digits") from None
    if "\\u" in source and not _is_clean(json.dumps(value, ensure_ascii=False)):
        raise JSONSyntaxError("a lone surrogate escape")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JSONSyntaxError("an object with a duplicate key")
    return found


def _no_constant(name: str) -> NoReturn:
    raise JSONSyntaxError(f"the word {name}, which is not JSON")


# -- the way back -----------------------------------------------------------------------------------------------


def _restore_map(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


_RESTORE.update(
    {
        "$int": lambda v: int(v, 16),
        "$float": float,
        "$str": lambda v: base64.b64decode(v).decode("utf-8", "surrogatepass"),
        "$bytes": base64.b64decode,
        "$decimal": Decimal,
        "$uuid": uuid.UUID,
        "$path": Path,
        "$datetime": dt.datetime.fromisoformat,
        "$date": dt.date.fromisoformat,
        "$time": dt.time.fromisoformat,
        "$duration": lambda v: dt.timedelta(*v),
        "$tuple": tuple,
        "$set": set,
        "$frozenset": frozenset,
        "$map": _restore_map,
        "$opaque": lambda v: Opaque(*v),
    }
)


@lru_cache(maxsize=1024)
def _adapter(annotation: Any) -> Any:
    from pydantic import TypeAdapter  # dear; only values of the user's own classes need it

    return TypeAdapter(annotation)


def restore(data: Any, *, annotation: Any = None, load: Callable[[str], bytes] | None = None) -> Any:
    """Make the value again that `typed` described.

    Args:
        data: A JSON value made by `typed`.
        annotation: The type the value had, for values of the user's own classes: they come back only when named here,
            else as `Opaque`. Nothing is ever imported by a name found in the data.
        load: From a reference that `spill` returned to its bytes.

    Returns:
        The value. A place that cannot be understood becomes an `Opaque`; raises only what `load` raises.

    Since 0.1.
    """
    if annotation is not None:
        try:
            return _adapter(annotation).validate_python(_restore(data, True, load), by_alias=True, by_name=True)
        except Exception:  # the class has changed, or its validators refuse: the value is still worth showing
            return _restore(data, False, load)
    return _restore(data, False, load)


def _restore(data: Any, bare: bool, load: Callable[[str], bytes] | None) -> Any:
    if isinstance(data, list):
        return [_restore(v, bare, load) for v in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    fields = cast("dict[str, Any]", data)
    tag = next(iter(fields), "")
    if tag[:1] != "$" or tag[:2] == "$$":
        return {k[1:] if k[:1] == "$" else k: _restore(v, bare, load) for k, v in fields.items()}
    if tag == "$blob":
        return _restore_blob(fields[tag], load)
    if tag == "$object":
        return _restore_object(fields, bare, load)
    try:
        return _RESTORE[tag](_restore(fields[tag], bare, load))
    except Exception:  # a tag of a later version, or damaged: shown as it is
        return Opaque(tag, dumps(fields[tag]).decode())


def _restore_object(fields: dict[str, Any], bare: bool, load: Callable[[str], bytes] | None) -> Any:
    if bare:
        return _restore(fields.get("value"), bare, load)
    return Opaque(str(fields["$object"]), text_of(_restore(fields.get("value"), False, load)))


def _restore_blob(blob: dict[str, Any], load: Callable[[str], bytes] | None) -> Any:
    if load is None:
        return Opaque("blob", str(blob.get("ref")))
    raw = load(blob["ref"])
    return raw.decode() if blob["kind"] == "text" else raw
