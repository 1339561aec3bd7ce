"""`plain` and `typed`: one loop over an explicit stack, so depth costs no recursion.

Levels, values and bytes are bounded; what lies beyond becomes a marker in its
place, and so does what raises. The two differ only in a dialect.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, cast

from ferrule.strict_json._shape import (
    CODECS,
    MAX_NODES,
    MAX_TYPED_NODES,
    Again,
    Array,
    Leaf,
    Object,
    Shaper,
    int_as_number,
    int_as_text,
    kind_of,
    plain_float,
    plain_shaper,
    to_base64,
    type_name,
    typed_float,
    typed_int,
    typed_shaper,
    typed_str,
)
from ferrule.strict_json._text import clean, dumps, is_clean

MAX_DEPTH = 100
MAX_BYTES = 64 * 1024 * 1024
SPILL_BYTES = 32 * 1024
_MARKER_BYTES = 64
# Depth is counted in halves of a level: a container is a level, a value that stands for another one half.
_LEVEL, _HALF = 2, 1
_CLOSED = -1

Spill = Callable[[bytes], str]
Fields = Iterable[tuple[Any, object]]
Late = list[tuple[Any, Any, object, int]]  # (where to put it, under which key, the value, its depth)


class Dialect(NamedTuple):
    """One way to write Python values as JSON."""

    leaves: dict[type, Callable[[Any], Any]]
    shaper: Callable[[type], Shaper]
    keys: Callable[[Fields], Iterable[tuple[str, object]]]
    marker: Callable[[str, str], Any]
    tagged: bool
    nodes: int


# -- keys and markers of the dialects ---------------------------------------------------------------------------


def _text_keys(fields: Fields) -> Iterable[tuple[str, object]]:
    """String keys; one that is taken already gets a number."""
    taken: dict[str, int] = {}
    for key, x in fields:
        name = clean(key) if type(key) is str else _key_text(key)
        while name in taken:
            taken[name] += 1
            name = f"{name} ({taken[name]})"
        taken[name] = 1
        yield name, x


def _key_text(key: Any) -> str:
    value = _Walk(_KEYS, None).run(key)
    return value if type(value) is str else dumps(value).decode()


def _inner_keys(fields: Fields) -> Iterable[tuple[str, object]]:
    """Keys of a mapping that is a key itself: their texts could be without end."""
    return ((clean(k) if type(k) is str else f"[{type_name(k)} {i}]", x) for i, (k, x) in enumerate(fields))


def _tagged_keys(fields: Fields) -> Iterable[tuple[str, object]]:
    return (("$" + key if key[:1] == "$" else key, x) for key, x in fields)


def _plain_marker(kind: str, reason: str) -> Any:
    return f"[{kind}: {reason}]"


def _typed_marker(kind: str, reason: str) -> Any:
    return {"$opaque": [kind, reason]}


def _same(x: Any) -> Any:
    return x


_EXACT: dict[type, Callable[[Any], Any]] = {bool: _same, type(None): _same}
_TYPED_LEAVES = {**_EXACT, str: typed_str, int: typed_int, float: typed_float}
_HTTP_LEAVES = {**_EXACT, str: clean, int: int_as_text, float: plain_float}
_HTTP = Dialect(_HTTP_LEAVES, plain_shaper, _text_keys, _plain_marker, False, MAX_NODES)
_NUMBERS = _HTTP._replace(leaves={**_HTTP_LEAVES, int: int_as_number})
_KEYS = _NUMBERS._replace(keys=_inner_keys, nodes=1_000)
_JOURNAL = Dialect(_TYPED_LEAVES, typed_shaper, _tagged_keys, _typed_marker, True, MAX_TYPED_NODES)
_SMALL = frozenset({bool, int, float, type(None)})
_SHORT = 2**53

# -- the walk ---------------------------------------------------------------------------------------------------


class _Walk:
    """One object on its way to JSON: what is left to do, and how much of the bounds is used."""

    __slots__ = ("bytes_left", "dialect", "failure", "nodes_left", "open", "spill", "todo")

    def __init__(self, dialect: Dialect, spill: Spill | None) -> None:
        self.dialect = dialect
        self.spill = spill
        self.failure: Exception | None = None
        self.nodes_left = dialect.nodes
        self.bytes_left = MAX_BYTES
        self.open: set[int] = set()
        # A depth of _CLOSED marks the end of a container; the target of such an entry is a list to be sorted.
        self.todo: Late = []

    def run(self, root: object) -> Any:
        box = [None]
        self.place(box, 0, root, 0)
        while self.todo:
            target, key, x, depth = self.todo.pop()
            if depth != _CLOSED:
                self.place(target, key, x, depth)
                continue
            self.open.discard(id(x))
            if target is not None:
                _sort(target)
        return box[0]

    def place(self, target: Any, key: Any, x: object, depth: int) -> None:
        try:
            leaf = self.dialect.leaves.get(type(x))
            if leaf is None:
                self.expand(target, key, x, depth)
            else:
                target[key] = self.bounded(leaf(x), x)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # whatever the object's own code raises: a value must not fail by its looks
            if error is self.failure:
                raise
            target[key] = self.mark(x, f"unreadable, {kind_of(error)}")

    def mark(self, x: object, reason: str) -> Any:
        return self.dialect.marker(type_name(x), reason)

    def bounded(self, leaf: object, x: object) -> Any:
        """A leaf within the bound of bytes; a large one goes to `spill` instead."""
        value, tag = leaf if isinstance(leaf, Leaf) else (leaf, None)
        size = len(value) if isinstance(value, (str, bytes)) else _size(value)
        if size > SPILL_BYTES // 4 and self.spill is not None and isinstance(value, (str, bytes)):
            raw = value.encode() if isinstance(value, str) else value
            if len(raw) > SPILL_BYTES:
                kind = "bytes" if raw is value else "text"
                blob = {"$blob": {"ref": self.store(raw), "kind": kind, "size": len(raw)}}
                return {tag: blob} if tag else blob
        if size > self.bytes_left:  # only the marker counts: what is short and comes after it has room
            self.bytes_left -= _MARKER_BYTES
            return self.mark(x, "left out, the whole is too large")
        self.bytes_left -= size
        if isinstance(value, bytes):
            return {"$bytes": to_base64(value)}
        return {tag: value} if tag else value

    def store(self, raw: bytes) -> str:
        assert self.spill is not None
        try:
            return self.spill(raw)
        except Exception as error:
            self.failure = error
            raise

    def expand(self, target: Any, key: Any, x: object, depth: int) -> None:
        if id(x) in self.open:
            target[key] = self.mark(x, "cycle")
            return
        shape = self.dialect.shaper(type(x))(x)
        if isinstance(shape, Leaf):
            value: object = shape.value
            leaf = None if shape.tag else self.dialect.leaves.get(type(value))
            target[key] = self.bounded(leaf(value) if leaf else shape, x)
        elif depth > MAX_DEPTH * _LEVEL - (0 if isinstance(shape, Again) else _LEVEL):
            target[key] = self.mark(x, "too deep")
        elif self.nodes_left < 0 or self.bytes_left < 0:
            target[key] = self.mark(x, "left out, too many values")
        else:
            self.contain(target, key, x, shape, depth)

    def contain(self, target: Any, key: Any, x: object, shape: Again | Array | Object, depth: int) -> None:
        tagged = self.dialect.tagged
        if isinstance(shape, Array):
            elements = list(itertools.islice(shape.items, max(self.nodes_left, 0) + 1))
            items: list[Any] = [None] * len(elements)
            target[key] = {shape.tag: items} if tagged and shape.tag else items
            self.later(x, self.fill(items, enumerate(elements), depth + _LEVEL), items if shape.sort else None)
        elif isinstance(shape, Object):
            fields: dict[str, Any] = {}
            target[key] = {"$object": shape.name, "value": fields} if tagged and shape.name else fields
            self.later(x, self.fill(fields, self.dialect.keys(shape.fields), depth + _LEVEL))
        else:
            slot = shape.tag or ("value" if shape.name else None)
            if tagged and slot:
                target[key] = {"$object": shape.name, slot: None} if shape.name else {slot: None}
                target, key = target[key], slot
            self.later(x, [(target, key, shape.value, depth + _HALF)])

    def later(self, x: object, late: Late, unsorted: list[Any] | None = None) -> None:
        """Leave what a container holds for the loop; until that is done, to meet it again is a cycle."""
        if late:
            self.open.add(id(x))
            self.todo.append((unsorted, None, x, _CLOSED))
            late.reverse()
            self.todo += late
        elif unsorted:
            _sort(unsorted)

    def fill(self, new: Any, pairs: Iterable[tuple[Any, object]], depth: int) -> Late:
        """Put leaves into their places in a list or dict; return what is left to do."""
        leaves, bounded = self.dialect.leaves, self.bounded
        late: Late = []
        for key, x in pairs:
            if type(key) is str:
                self.bytes_left -= len(key)
            if self.nodes_left <= 0 or self.bytes_left < 0:
                self.cut(new, key)
                break
            self.nodes_left -= 1
            try:
                leaf = leaves.get(type(x))
            except TypeError:  # a class that cannot be hashed
                leaf = None
            if leaf is None:
                late.append((new, key, x, depth))
                new[key] = None
            else:
                value = leaf(x)
                new[key] = value if type(value) in _SMALL else bounded(value, x)
        return late

    def cut(self, new: Any, key: Any) -> None:
        if isinstance(new, dict):
            new["…"] = self.dialect.marker("dict", "cut, too many values")
        else:
            new[key:] = [self.dialect.marker("list", "cut, too many values")]


def _size(value: object) -> int:
    """Roughly how many bytes a value takes that is no text: a wide integer, or the texts under a tag."""
    if isinstance(value, int):
        return value.bit_length() // 3
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    return sum(len(t) for t in cast("list[object]", value) if isinstance(t, str)) if isinstance(value, list) else 0


def _sort(items: list[Any]) -> None:
    with contextlib.suppress(RecursionError):  # the caller's own stack is nearly used up: whole, though in any order
        items.sort(key=dumps)


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
    infinities too), Decimal, UUID, Path, bytes, datetime and time (with their
    ZoneInfo and fold), date, timedelta, list, tuple, set, frozenset, dict with
    keys of these, results, parts, requests and answers, to a depth of 100 and
    without cycles.

    Args:
        x: Any object whatever.
        spill: Takes the bytes of a leaf over 32,768 bytes, stores them and returns a reference; without it leaves
            stay inside.

    Returns:
        A JSON value fit for `dumps`. Raises only what `spill` raises.

    Since 0.1.
    """
    try:
        return _briefly(x, [_BRIEF], _SHALLOW)
    except Exception:  # too long, too deep, of another kind, or unreadable: the walk decides
        return _Walk(_JOURNAL, spill).run(x)


def typed_fields(names: Iterable[str], values: Iterable[Any], *, spill: Spill | None = None) -> dict[str, Any]:
    """Describe values under names of ours as `typed` does, None left out.

    Args:
        names: Their names; none begins with `$`.
        values: Any objects whatever, at most one for each name.
        spill: As for `typed`.

    Since 0.1.
    """
    left = [_BRIEF]
    found: dict[str, Any] = {}
    try:
        for name, x in zip(names, values, strict=False):
            if (type(x) is str and len(x) < 256 and x.isascii()) or (type(x) is int and -_SHORT < x < _SHORT):
                found[name] = x
            elif x is not None:
                found[name] = _briefly(x, left, _SHALLOW)
        return found
    except Exception:  # as in `typed`
        return {name: typed(x, spill=spill) for name, x in zip(names, values, strict=False) if x is not None}


_BRIEF = 100  # values, a text counting one more for each 256 characters
_SHALLOW = 20


def _briefly(x: Any, left: list[int], depth: int) -> Any:
    """What the walk makes of a small value of plain types and of classes of ours, in a fifth of its time."""
    kind: Any = type(x)  # pyright: ignore[reportUnknownVariableType]
    if kind is bool or x is None:
        return x
    left[0] -= 1 if kind is not str else 1 + (len(x) >> 8)
    if left[0] < 0 or not depth:
        raise ValueError
    if kind is str:
        if len(x) <= SPILL_BYTES // 4 and is_clean(x):
            return x
        raise ValueError
    if kind is dict:
        for key in x:
            if type(key) is not str or key[:1] == "$" or not is_clean(key):
                raise ValueError
            left[0] -= 1 + (len(key) >> 8)
            if left[0] < 0:
                raise ValueError
        return _brief_fields(x.copy(), left, depth - 1)
    if kind is list:
        return [_briefly(value, left, depth - 1) for value in x]
    if kind is tuple:
        return {"$tuple": [_briefly(value, left, depth - 1) for value in x]}
    if (kind is int and -_SHORT < x < _SHORT) or (kind is float and x - x == 0.0):
        return x
    codec = CODECS.get(kind)
    if codec is None:
        raise ValueError
    payload: Any = codec.payload(x)
    # A dict is made for us, and its keys are the names of our own fields.
    inside: Any = _brief_fields if type(payload) is dict else _briefly  # pyright: ignore[reportUnknownVariableType]
    return {codec.tag: inside(payload, left, depth - 1)}


def _brief_fields(fields: dict[str, Any], left: list[int], depth: int) -> dict[str, Any]:
    """Describe the values of a dict in their places; most stay as they are, as is plain at a glance."""
    for key, x in fields.items():
        if not ((type(x) is str and len(x) < 256 and x.isascii()) or x is None or type(x) is bool):
            fields[key] = _briefly(x, left, depth)
    return fields


def text_of(x: Any) -> str:
    """Any object as compact strict JSON text, integers as numbers: what a model reads.

    Args:
        x: Any object whatever.

    Since 0.1.
    """
    if type(x) is int and -_SHORT < x < _SHORT:  # what most tools return that return no text
        return str(x)
    return dumps(plain(x, big_ints="number")).decode()
