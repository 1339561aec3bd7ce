"""The way back: from what `typed` wrote to an equal value."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import typing
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ferrule.strict_json._shape import MAX_TEXT, RESTORERS, Again, Object, Opaque, class_name, is_textual, typed_shaper
from ferrule.strict_json._walk import plain, text_of

Load = Callable[[str], bytes]


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _opaque(pair: list[Any]) -> Opaque:
    kind, text = pair
    return Opaque(str(kind), str(text))


def _moment(kind: Any, payload: str | list[Any]) -> Any:
    if isinstance(payload, str):
        return kind.fromisoformat(payload)
    text, key, fold = payload
    found = kind.fromisoformat(text).replace(fold=fold)
    if key is None:
        return found
    from zoneinfo import ZoneInfo  # only for those who use it

    try:
        zoned = found.replace(tzinfo=ZoneInfo(key))
    except (KeyError, ValueError, OSError):  # a zone that this machine does not know
        return found
    # Where the rules of the zone have changed, the moment itself counts.
    return zoned if zoned.utcoffset() == found.utcoffset() else found


RESTORERS.update(
    {
        "$int": lambda v: int(v, 16),
        "$float": float,
        "$str": lambda v: _bytes(v).decode("utf-8", "surrogatepass"),
        "$bytes": _bytes,
        "$decimal": Decimal,
        "$uuid": uuid.UUID,
        "$path": Path,
        "$datetime": lambda v: _moment(dt.datetime, v),
        "$date": dt.date.fromisoformat,
        "$time": lambda v: _moment(dt.time, v),
        "$duration": lambda v: dt.timedelta(*v),
        "$tuple": tuple,
        "$set": set,
        "$frozenset": frozenset,
        "$map": lambda v: dict(zip(v[::2], v[1::2], strict=True)),
        "$opaque": _opaque,
    }
)


def restore(data: Any, *, annotation: Any = None, load: Load | None = None) -> Any:
    """Make the value again that `typed` described.

    Args:
        data: A JSON value made by `typed`.
        annotation: The type the value had. Objects of the user's own classes come back only when it names their
            class, at any depth, else as `Opaque`; so does one whose own validators or `__post_init__`, which run
            again, make something else of what was stored. Nothing is ever imported by a name found in the data.
        load: From a reference that `spill` returned to its bytes.

    Returns:
        The value. A place that cannot be understood becomes an `Opaque`; raises only what `load` raises.

    Since 0.1.
    """
    return _restored(data, _named(annotation), load, bare=False)


def _restored(data: Any, named: dict[str, type], load: Load | None, bare: bool) -> Any:
    """Children first, without recursion. Inside an object that stays opaque, others are `bare`: just their fields."""
    box = [data]
    tags: list[tuple[Any, Any, dict[str, Any], bool]] = []
    todo: list[tuple[Any, Any, bool]] = [(box, 0, bare)]
    for target, key, inside in todo:  # it grows: containers before what they contain
        new: Any = target[key]
        if isinstance(new, dict):
            raw = cast("dict[str, Any]", new)
            if (tag := next(iter(raw), ""))[:1] == "$" and tag[:2] != "$$":
                new = dict(raw)
                tags.append((target, key, raw, inside))
                inside = inside or (tag == "$object" and not _is_named(raw[tag], named))
            else:
                new = {k[1:] if k[:1] == "$" else k: v for k, v in raw.items()}
            todo.extend([(new, k, inside) for k, v in new.items() if isinstance(v, (dict, list))])
        elif isinstance(new, list):
            new = list(cast("list[Any]", new))
            todo.extend([(new, i, inside) for i, v in enumerate(new) if isinstance(v, (dict, list))])
        target[key] = new
    for target, key, raw, inside in reversed(tags):
        fields = target[key]
        tag = next(iter(raw))
        if tag == "$object":
            target[key] = fields.get("value") if inside else _instance(fields, raw, named, load)
        else:
            target[key] = _blob(fields[tag], load) if tag == "$blob" else _value(tag, fields, raw)
            if tag == "$opaque" and not inside:
                target[key] = _from_text(target[key], named)
    return box[0]


def _value(tag: str, fields: dict[str, Any], raw: dict[str, Any]) -> Any:
    try:
        if len(fields) == 1:
            return RESTORERS[tag](fields[tag])
    except Exception:  # a tag of a later version, or damaged: shown as it is
        pass
    return Opaque(tag, text_of(raw))


def _from_text(found: Opaque, named: dict[str, type]) -> Any:
    """The object that a text stands for, where the annotation names its class and the text is whole."""
    cls = named.get(found.type)
    if cls is None or not is_textual(cls) or len(found.text) >= MAX_TEXT:
        return found
    try:
        made = _adapter(cls).validate_python(found.text)
        return made if str(made) == found.text else found
    except Exception:  # the class has changed, or takes less than it did
        return found


def _blob(blob: Any, load: Load | None) -> Any:
    found = cast("dict[str, Any]", blob) if isinstance(blob, dict) else {}
    ref = found.get("ref")
    if load is None or not isinstance(ref, str):
        return Opaque("blob", ref if isinstance(ref, str) else text_of(ref))
    raw = load(ref)
    try:
        return raw.decode() if found.get("kind") == "text" else raw
    except UnicodeDecodeError:
        return Opaque("blob", ref)


# -- classes of the user's --------------------------------------------------------------------------------------


def _is_named(name: object, named: dict[str, type]) -> bool:
    return isinstance(name, str) and name in named


def _instance(fields: dict[str, Any], raw: dict[str, Any], named: dict[str, type], load: Load | None) -> Any:
    name, value = fields["$object"], fields.get("value")
    if _is_named(name, named):
        try:
            found = _adapter(named[name]).validate_python(value, by_alias=True, by_name=True)
            _put_back(found, type(found), value)
            if _says(found, type(found), value):
                return found
        except Exception:  # the class has changed, or its validators refuse: the value is still worth showing
            pass
        value = _restored(raw.get("value"), named, load, bare=True)
    return Opaque(name if isinstance(name, str) else text_of(name), text_of(value))


def _put_back(found: Any, cls: Any, value: Any) -> None:
    """Give a dataclass the fields that its constructor does not take, which would begin anew."""
    if not dataclasses.is_dataclass(cls) or not isinstance(value, dict):
        return
    stored = cast("dict[str, Any]", value)
    kept = [f.name for f in dataclasses.fields(cls) if not f.init and type(stored.get(f.name, Opaque)) is not Opaque]
    for name in kept:
        if not _same(getattr(found, name, Opaque), stored[name]):
            hint = typing.get_type_hints(cls, include_extras=True)[name]
            object.__setattr__(found, name, _adapter(hint).validate_python(stored[name], by_alias=True, by_name=True))


def _says(found: Any, cls: Any, value: Any) -> bool:
    """Whether an instance has what was stored: validators and `__post_init__` ran again, and may have changed it.

    Only what both have counts: a class may have got a field, or lost one. Computed fields follow from the others.
    """
    shape = typed_shaper(cls)(found)
    now = dict(shape.fields) if isinstance(shape, Object) else shape.value if isinstance(shape, Again) else found
    if not isinstance(now, dict) or not isinstance(value, dict):
        return _same(now, value)
    stored, fields = cast("dict[str, Any]", value), cast("dict[str, Any]", now)
    decorators = getattr(cls, "__pydantic_decorators__", None)
    computed: Any = decorators.computed_fields if decorators is not None else ()
    counted = [k for k, v in stored.items() if k in fields and k not in computed and type(v) is not Opaque]
    return all(_same(fields[k], stored[k]) for k in counted)


def _same(a: Any, b: Any) -> bool:
    try:
        if a is b or a == b:
            return True
    except Exception:  # what compares element by element, or not at all
        pass
    return str(plain(a)) == str(plain(b))  # a tuple where a list is declared, NaN, a Decimal given as a float


@lru_cache(maxsize=1024)
def _adapter(cls: Any) -> Any:
    from pydantic import TypeAdapter  # dear; only values of the user's own classes need it

    return TypeAdapter(cls)


def _named(annotation: Any) -> dict[str, type]:
    """The classes that an annotation names, those of their fields included, by qualified name."""
    if annotation is None:
        return {}
    try:
        return _named_once(annotation)
    except TypeError:  # metadata that cannot be hashed
        return _named_once.__wrapped__(annotation)


@lru_cache(maxsize=1024)
def _named_once(annotation: Any) -> dict[str, type]:
    found: dict[str, type] = {}
    forms: list[Any] = [annotation]
    for form in forms:  # it grows
        stands_for = (getattr(form, name, None) for name in ("__value__", "__supertype__", "__bound__"))
        inner = [*typing.get_args(form), *(other for other in stands_for if other is not None)]
        cls = typing.get_origin(form) or form
        if isinstance(cls, type) and class_name(cls) not in found and (cls.__module__ != "builtins" or is_textual(cls)):
            found[class_name(cls)] = cls
            inner += _field_types(cls)
        forms.extend(f for f in inner if not any(f is known for known in forms))
    return found


def _field_types(cls: Any) -> list[Any]:
    if hasattr(cls, "__pydantic_fields__"):
        return [field.annotation for field in cls.__pydantic_fields__.values()]
    if issubclass(cls, enum.Enum):
        return [type(member.value) for member in cls]
    if cls.__module__ == "pydantic.networks" and cls.__name__.startswith("IPvAny"):  # has no objects of its own
        import ipaddress

        return [getattr(ipaddress, cls.__name__.replace("Any", version)) for version in "46"]
    try:
        return list(typing.get_type_hints(cls, include_extras=True).values())
    except Exception:  # a name that cannot be resolved from here
        return []
