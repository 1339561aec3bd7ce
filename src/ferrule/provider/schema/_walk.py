"""The walk that writes a JSON Schema in a provider's dialect.

A dialect is a profile: the keywords it keeps, how it refers, and rewrites that
turn other keywords into kept ones. The walk merges what holds at once, applies
the rewrites place by place, moves the rest into the description and collects
the definitions that are still referred to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

from ferrule.provider.schema._keywords import ANNOTATIONS, MERGE, both, distinct, in_words, same, unite
from ferrule.strict_json import dumps
from ferrule.tool.schema.reference import (
    COMBINING,
    DEFINITIONS,
    HOLDERS,
    MAPS,
    References,
    Schema,
    escaped,
    is_list,
    is_schema,
    listed,
    unescaped,
)

RECURSION_DEPTH = 3
"""How often a definition is written out inside itself where references are inlined; then an open object follows."""
MAX_DEPTH = 50
"""Levels of nesting that are lowered; what lies deeper becomes an open object."""
MAX_PLACES = 5_000
"""Places that are lowered; what comes after, in a schema that multiplies itself, becomes an open object."""


@dataclass(slots=True)
class Place:
    """A schema inside the schema, on its way through the rewrites of a dialect."""

    run: Run
    schema: Schema
    at: str
    refs: tuple[str, ...]
    depth: int
    words: list[str] = field(default_factory=list[str])
    never: bool = False

    def note(self, keyword: str, what: str) -> None:
        """Tell what became of a keyword."""
        self.run.notes[f"{self.at}/{keyword}: {what}"] = None

    def block(self, keyword: str, why: str) -> None:
        """Say that this place cannot be strict."""
        if self.run.profile.strict:
            self.run.obstacles[f"{self.at}/{keyword}: not strict: {why}"] = None

    def drop(self, keyword: str) -> None:
        """Take a keyword out, and say so in the description."""
        words = in_words(keyword, self.schema.pop(keyword))
        self.note(keyword, "told in the description" if words else "dropped")
        if words and words not in self.words:
            self.words.append(words)

    def takes(self, keyword: str) -> bool:
        """Whether the dialect has a keyword."""
        return self.run.profile.keywords is None or keyword in self.run.profile.keywords


Rewrite = Callable[[Place], None]


@dataclass(frozen=True, slots=True)
class Profile:
    """A dialect as a table.

    Args:
        keywords: What it takes; None takes all.
        refs: References stay with what stands beside them, stay where they stand alone, or are written out.
        before: Rewrites of a place as it is written, in order.
        after: Rewrites of a place whose parts are lowered, in order.
        formats: The formats it takes, by type; None takes all.
        blocks: Keywords that cannot be told in words if every object is to be closed.
        strict: Whether it is a strict mode.
        finish: A last look at the whole and its definitions.
    """

    keywords: frozenset[str] | None
    refs: Literal["kept", "alone", "inlined"]
    before: tuple[Rewrite, ...]
    after: tuple[Rewrite, ...] = ()
    formats: Mapping[str, frozenset[str]] | None = None
    blocks: frozenset[str] = frozenset()
    strict: bool = False
    finish: Callable[[Place, Schema], None] = lambda _, __: None


class Run:
    """One lowering: the whole schema, the definitions that are used, and what is to be told."""

    def __init__(self, root: Schema, profile: Profile) -> None:
        self.profile = profile
        self.keeps_refs = profile.refs == "kept"
        self.references = References(root)
        self.notes: dict[str, None] = {}
        self.obstacles: dict[str, None] = {}
        self.places = 0
        self._names: dict[str, str] = {}
        self._used: list[tuple[str, Any]] = []

    def document(self) -> Schema:
        """The whole schema, with the definitions it uses."""
        place = Place(self, dict(self.references.root), "#", ("#",), 0)
        _plain_root(place)
        place.never = False
        self._rewrite(place)
        definitions: Schema = {}
        for pointer, target in self._used:  # it grows on the way
            lowered = self.lower(target, pointer, (pointer,), 1, defining=True)
            definitions[self._names[pointer]] = self._nothing(pointer) if lowered is None else lowered
        self.profile.finish(place, definitions)
        return {**place.schema, "$defs": definitions} if definitions else place.schema

    def lower(
        self, schema: Any, at: str, refs: tuple[str, ...], depth: int, *, defining: bool = False
    ) -> Schema | None:
        """One place; None when nothing can be valid there."""
        if not is_schema(schema):
            return None if schema is False else self.lower({}, at, refs, depth)
        place = Place(self, dict(schema), at, refs, depth)
        self.places += 1
        if depth > MAX_DEPTH or (self.places > MAX_PLACES and not self.keeps_refs):
            why = "nested further"
            place.schema, place.words = {"type": "object"}, [why]
            place.note("type", why)
            place.block("type", why)
            self._finish(place)
        elif not defining and (reference := self._reference(place)):
            return {"$ref": reference}
        else:
            (_keep_reference if self.keeps_refs else flatten)(place)
            self._rewrite(place)
        return None if place.never else place.schema

    def _nothing(self, at: str) -> Schema:
        """A place where nothing is valid, though the dialect wants a schema: null at most."""
        return self.lower({"type": "null"}, at, (), 0) or {}

    def _rewrite(self, place: Place) -> None:
        # Definitions that are used come back at the root, and every reference is a pointer from there.
        for keyword in (*DEFINITIONS, "$anchor", *(["$id"] if place.depth else [])):
            place.schema.pop(keyword, None)
        for rewrite in self.profile.before:
            if place.never:
                return
            rewrite(place)
        for keyword in [k for k in place.schema if k in self.profile.blocks]:
            place.block(keyword, "it cannot be written")
        for keyword in [k for k in place.schema if not place.takes(k)]:
            place.drop(keyword)
        for keyword in [k for k in HOLDERS if k in place.schema]:
            self._parts(place, keyword)
        if not place.never:
            self._finish(place)

    def _finish(self, place: Place) -> None:
        if place.words:
            text = str(place.schema.get("description", ""))
            place.schema["description"] = f"{text} ({'; '.join(place.words)})".lstrip()
        for rewrite in self.profile.after:
            rewrite(place)

    def _parts(self, place: Place, keyword: str) -> None:
        """Lower what a keyword holds: a map of schemas, a list or a single one."""
        schema, value, at = place.schema, place.schema[keyword], f"{place.at}/{keyword}"
        if keyword in MAPS:
            lowered: Any = {k: self._part(v, f"{at}/{escaped(k)}", place) for k, v in value.items()}
            schema[keyword] = {k: v for k, v in lowered.items() if v is not None}
            if keyword == "properties" and "required" in schema:
                schema["required"] = [n for n in schema["required"] if lowered.get(n, ...) is not None]
        elif is_list(value):
            lowered = [self._part(v, f"{at}/{i}", place) for i, v in enumerate(value)]
            if keyword in COMBINING:
                schema[keyword] = [v for v in lowered if v is not None]
                place.never |= not schema[keyword]
            else:
                schema[keyword] = [self._nothing(at) if v is None else v for v in lowered]
        elif keyword != "additionalProperties" or not isinstance(value, bool):
            found = self._part(value, at, place)
            closes = keyword == "additionalProperties" or self.keeps_refs
            schema[keyword] = found if found is not None else False if closes else self._nothing(at)

    def _part(self, value: Any, at: str, place: Place) -> Any:
        if not is_schema(value) and (self.keeps_refs or not isinstance(value, bool)):
            return value  # true and false as they are, and the lists of names in `dependencies`
        return self.lower(value, at, place.refs, place.depth + 1)

    def _reference(self, place: Place) -> str | None:
        """The reference that stands for a place, in dialects where a reference stands alone."""
        schema, only = place.schema, place.schema.get("allOf", ())
        if "$ref" not in schema and len(only) == 1 and is_schema(only[0]):
            schema = {**only[0], **{k: v for k, v in schema.items() if k != "allOf"}}
        found = self.references.locate(schema.get("$ref"))
        beside = schema.keys() - {"$ref", *DEFINITIONS}
        if self.profile.refs != "alone" or found is None or beside - ANNOTATIONS:
            return None
        if found[0] not in place.refs and (beside or not re.match("#/(?:[$]defs|definitions)/", found[0])):
            return None
        for keyword in sorted(beside):
            place.note(keyword, "dropped beside a reference to what it is inside")
        return self.hoisted(*found)

    def hoisted(self, pointer: str, target: Any) -> str:
        """A reference to a definition at the root, which is lowered later."""
        if pointer not in self._names:
            last = unescaped(pointer.rpartition("/")[2]).strip("#") or "root"
            stem = re.sub(r"[^A-Za-z0-9_.-]", "_", last)
            names = chain([stem], (f"{stem}_{number}" for number in count(2)))
            self._names[pointer] = next(name for name in names if name not in self._names.values())
            self._used.append((pointer, target))
        return f"#/$defs/{self._names[pointer]}"


def _keep_reference(place: Place) -> None:
    """Keep a reference and what stands beside it."""
    found = place.run.references.locate(place.schema.get("$ref"))
    if found is not None:
        place.schema["$ref"] = place.run.hoisted(*found)
    elif "$ref" in place.schema:
        place.schema |= _target(place, place.schema.pop("$ref"))


# -- the root, and what holds at once ---------------------------------------------------------------------------


def _plain_root(place: Place) -> None:
    """Make the root an object without alternatives: what every provider wants there."""
    if place.schema.keys() & {"$ref", "allOf"}:
        flatten(place)
    for keyword in ("anyOf", "oneOf"):
        if keyword in place.schema:
            _unite_forms(place, keyword)
    for keyword in ("not", "enum", "const"):
        if keyword in place.schema:
            place.drop(keyword)
    if place.schema.get("type") != "object":
        place.schema["type"] = "object"
        if place.depth == 0:
            place.note("type", "made object")


def _unite_forms(place: Place, keyword: str) -> None:
    """One object with the properties of all alternatives, requiring what all of them require."""
    options: list[Any] = place.schema.pop(keyword)
    forms = [f for i, o in enumerate(options) if (f := _form(place, o, f"{place.at}/{keyword}/{i}")) is not None]
    place.note(keyword, "alternatives made one object")
    if not forms:
        return
    own = dict(place.schema.get("properties", {}))
    for name in {n: None for f in forms for n in f.get("properties", {})}:
        found = [f["properties"][name] for f in forms if name in f.get("properties", {})]
        merged = {"anyOf": found} if len(distinct(found)) > 1 else found[0]
        if name not in own or len(found) == len(forms):
            own[name] = both(own[name], merged) if name in own else merged
    needed: list[list[str]] = [f.get("required", []) for f in forms]
    required = unite(place.schema.get("required", []), [n for n in needed[0] if all(n in names for names in needed)])
    place.words += _needs(forms, required)
    extra = [f.get("additionalProperties", None if own else True) for f in forms]
    closed = {"additionalProperties": not all(e is False for e in extra)} if None not in extra or any(extra) else {}
    place.schema = {**closed, **place.schema, "properties": own, **({"required": required} if required else {})}


def _needs(forms: list[Schema], required: list[str]) -> list[str]:
    """What one alternative requires and not all do, in words; by the value that tells it from the others."""
    needs = [" and ".join(n for n in f.get("required", ()) if n not in required) for f in forms]
    for name in required:
        marks = [_only_value(f.get("properties", {}).get(name)) for f in forms]
        if None not in marks and len({*marks}) == len(marks) > 1:
            told = [f"{need} when {name} is {mark}" for need, mark in zip(needs, marks, strict=True) if need]
            return [f"needs {', '.join(told)}"] if told else []
    return [f"needs {' or '.join(dict.fromkeys(needs))}"] if all(needs) else []


def _only_value(schema: Any) -> str | None:
    """The one value that a property may have, as JSON; None when it may have others."""
    values = ([schema["const"]] if "const" in schema else schema.get("enum", ())) if is_schema(schema) else ()
    return dumps(values[0]).decode() if is_list(values) and len(values) == 1 else None


def _form(place: Place, option: Any, at: str) -> Schema | None:
    """One alternative as an object; None when it adds nothing, as a reference to what it is an alternative of."""
    if not is_schema(option) or place.depth > MAX_DEPTH:
        return {} if option is True else None
    part = Place(place.run, dict(option), at, place.refs, place.depth + 1)
    found = place.run.references.locate(option.get("$ref"))
    place.run.places += 1
    if (found and found[0] in place.refs) or place.run.places > MAX_PLACES:
        return None
    flatten(part)
    if part.never or "object" not in listed(part.schema.get("type", "object")):
        return None
    _plain_root(part)
    return part.schema


def flatten(place: Place) -> None:
    """Merge a schema with what it refers to and with the members of `allOf`; the outermost description wins."""
    pending: list[Any] = [place.schema]
    place.schema = {}
    while pending:
        part = pending.pop(0)
        place.never |= part is False
        if not is_schema(part):
            continue
        part = {k: v for k, v in part.items() if k not in DEFINITIONS}
        inside = [*part.pop("allOf", ())]
        ref = part.pop("$ref", None)
        if len(part.get("anyOf", ())) == 1:
            inside += part.pop("anyOf")
        for keyword, value in part.items():
            _merge(place, keyword, value)
        pending[:0] = inside if ref is None else [_target(place, ref), *inside]


def _merge(place: Place, keyword: str, value: Any) -> None:
    if keyword not in place.schema:
        place.schema[keyword] = value
    elif same(place.schema[keyword], value):
        pass
    elif keyword in MERGE:
        place.schema[keyword] = MERGE[keyword](place.schema[keyword], value)
    else:
        place.note(keyword, "one of two kept")
        place.words += [words for words in [in_words(keyword, value)] if words]
        place.block(keyword, "two that hold at once")


def _target(place: Place, ref: object) -> Any:
    """What a reference leads to; an open object where it leads nowhere or has been written out often enough."""
    pointer, target = place.run.references.locate(ref) or (None, None)
    if pointer is not None and place.refs.count(pointer) < RECURSION_DEPTH:
        place.refs = (*place.refs, pointer)
        place.at = place.at if place.schema else pointer
        return target
    why = "leads nowhere" if pointer is None else "nested further"
    place.note("$ref", f"{why}; an open object instead")
    place.block("$ref", why)
    place.words.append("not described" if pointer is None else why)
    says = place.schema.keys() - ANNOTATIONS - {"nullable"}
    is_array = is_schema(target) and target.get("type") == "array"
    return {} if says else {"type": "array" if is_array else "object"}
