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
from typing import Any, Literal, cast

import orjson

from ferrule.tool.reference import HOLDERS, MAPS, References, Schema, escaped, listed, unescaped

RECURSION_DEPTH = 3
"""How often a definition is written out inside itself where references are inlined; then an open object follows."""
MAX_DEPTH = 50
"""Levels of nesting that are lowered; what lies deeper becomes an open object."""
MAX_PLACES = 5_000
"""Places that are lowered; what comes after, in a schema that multiplies itself, becomes an open object."""

# -- what is known of keywords ----------------------------------------------------------------------------------


def keywords(names: str) -> frozenset[str]:
    """A set of keywords.

    Args:
        names: The keywords, with blanks between them.
    """
    return frozenset(names.split())


ANNOTATIONS = keywords(
    "title description default examples example deprecated readOnly writeOnly $comment $schema $id $anchor"
)
_FOR_NUMBERS = keywords("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
BY_TYPE = {
    "object": keywords(
        "properties required additionalProperties patternProperties propertyNames minProperties maxProperties "
        "dependentRequired dependentSchemas dependencies unevaluatedProperties propertyOrdering"
    ),
    "array": keywords(
        "items prefixItems additionalItems unevaluatedItems contains minContains maxContains minItems maxItems "
        "uniqueItems"
    ),
    "string": keywords("minLength maxLength pattern contentEncoding contentMediaType contentSchema"),
    "number": _FOR_NUMBERS,
    "integer": _FOR_NUMBERS,
}
TYPED = frozenset[str]().union(*BY_TYPE.values())
_TOLD = TYPED | ANNOTATIONS | keywords("enum const not if then else format")
_UNTOLD = keywords("title description $comment $schema $id $anchor required propertyOrdering")
_CLOSING = keywords("additionalProperties unevaluatedProperties unevaluatedItems")
_FLAGS = keywords("uniqueItems deprecated readOnly writeOnly")
_RAW = keywords("pattern format contentEncoding contentMediaType")
_MAX_WORDS = 120
_SAID = {
    "const": "always",
    "enum": "one of",
    "examples": "for example",
    "exclusiveMaximum": "below",
    "exclusiveMinimum": "above",
    "prefixItems": "in this order",
}


def in_words(keyword: str, value: Any) -> str | None:
    """A keyword as a description tells it, `multiple of 5`; None where it says nothing to a model.

    Args:
        keyword: The keyword.
        value: Its value.
    """
    silent = keyword in (_CLOSING if value is True else _FLAGS if value is False else ())
    if silent or keyword not in _TOLD - _UNTOLD:
        return None
    name = _SAID.get(keyword) or re.sub("[A-Z]", lambda m: " " + m[0].lower(), keyword)
    if keyword in _CLOSING | _FLAGS and isinstance(value, bool):
        return name if value else f"no {name}"
    try:
        text = str(value) if keyword in _RAW else orjson.dumps(value).decode()
    except TypeError:  # too deep or too large for the encoder
        text = "…"
    return f"{name} {text if len(text) <= _MAX_WORDS else text[:_MAX_WORDS] + '…'}"


# -- two schemas at once: what holds for both -------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal; 1 is 1.0 but not true. False for those too deep to tell.

    Args:
        a: One value.
        b: The other.
    """
    try:
        return _equal(a, b)
    except RecursionError:
        return False


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("Schema", a), cast("Schema", b)
        return left.keys() == right.keys() and all(_equal(v, right[k]) for k, v in left.items())
    if isinstance(a, list) and isinstance(b, list):
        items, others = cast("list[Any]", a), cast("list[Any]", b)
        return len(items) == len(others) and all(map(_equal, items, others))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def unite(a: list[Any], b: list[Any]) -> list[Any]:
    """A list with what another one has besides.

    Args:
        a: The list.
        b: The other one.
    """
    return [*a, *(v for v in b if v not in a)]


def _both(a: Any, b: Any) -> Any:
    if isinstance(a, bool) or isinstance(b, bool):
        return False if a is False or b is False else b if a is True else a
    return {"allOf": [a, b]}


def _both_maps(a: Schema, b: Schema) -> Schema:
    return {k: _both(a[k], b[k]) if k in a and k in b and not same(a[k], b[k]) else {**b, **a}[k] for k in {**a, **b}}


def _common_types(a: str | list[str], b: str | list[str]) -> str | list[str]:
    left, right = listed(a), listed(b)
    found = [t for t in left if t in right or (t == "integer" and "number" in right)]
    found += [t for t in right if t == "integer" and "number" in left and t not in found]
    return found[0] if len(found) == 1 else found


def _each_with(keyword: str) -> Callable[[list[Any], list[Any]], list[Any]]:
    return lambda a, b: [{"allOf": [option, {keyword: b}]} for option in a]


_MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "required": unite,
    "properties": _both_maps,
    "patternProperties": _both_maps,
    "type": _common_types,
    "enum": lambda a, b: [v for v in a if any(same(v, w) for w in b)],
    "anyOf": _each_with("anyOf"),
    "oneOf": _each_with("oneOf"),
    "uniqueItems": lambda a, b: a or b,
    "nullable": lambda a, b: a and b,
    **dict.fromkeys(("items", "additionalProperties", "unevaluatedProperties", "propertyNames"), _both),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(ANNOTATIONS, lambda a, b: a),
}


# -- one lowering -----------------------------------------------------------------------------------------------


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

    def open(self, why: str) -> None:
        """Become an open object, because of something that cannot be written."""
        self.schema = {"type": "object"}
        self.words = [why]
        self.note("type", why)
        self.block("type", why)

    def describe(self) -> None:
        """Add what was dropped to the description."""
        if self.words:
            text = str(self.schema.get("description", ""))
            self.schema["description"] = f"{text} ({'; '.join(self.words)})".lstrip()


Rewrite = Callable[[Place], None]


@dataclass(frozen=True, slots=True)
class Profile:
    """A dialect as a table.

    Args:
        keywords: What it takes; None takes all.
        refs: References stay with what stands beside them, stay where they stand alone, or are written out.
        before: Rewrites of a place as it is written, in order.
        after: Rewrites of a place whose parts are lowered, in order.
        formats: The formats it takes, by type.
        blocks: Keywords that cannot be told in words if every object is to be closed.
        strict: Whether it is a strict mode.
        finish: A last look at the whole and its definitions.
    """

    keywords: frozenset[str] | None
    refs: Literal["kept", "alone", "inlined"]
    before: tuple[Rewrite, ...]
    after: tuple[Rewrite, ...] = ()
    formats: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    blocks: frozenset[str] = frozenset()
    strict: bool = False
    finish: Callable[[Place, Schema], None] | None = None


class Run:
    """One lowering: the whole schema, the definitions that are used, and what is to be told."""

    def __init__(self, root: Schema, profile: Profile) -> None:
        self.root = root
        self.profile = profile
        self.notes: dict[str, None] = {}
        self.obstacles: dict[str, None] = {}
        self.places = 0
        self._names: dict[str, str] = {}
        self._waiting: list[tuple[str, Any]] = []
        self.references = References(root)

    def document(self) -> Schema:
        """The whole schema, with the definitions it uses."""
        place = Place(self, dict(self.root), "#", ("#",), 0)
        _plain_root(place)
        place.never = False
        self._rewrite(place)
        definitions: Schema = {}
        while self._waiting:
            pointer, target = self._waiting.pop(0)
            lowered = self.lower(target, pointer, (pointer,), 1, defining=True)
            definitions[self._names[pointer]] = self.nothing(pointer) if lowered is None else lowered
        if self.profile.finish is not None:
            self.profile.finish(place, definitions)
        return {**place.schema, "$defs": definitions} if definitions else place.schema

    def lower(
        self, schema: Any, at: str, refs: tuple[str, ...], depth: int, *, defining: bool = False
    ) -> Schema | None:
        """One place; None when nothing can be valid there."""
        if not isinstance(schema, dict):
            return None if schema is False else self.lower({}, at, refs, depth)
        place = Place(self, dict(cast("Schema", schema)), at, refs, depth)
        self.places += 1
        if depth > MAX_DEPTH or (self.places > MAX_PLACES and self.profile.refs != "kept"):
            place.open("nested further")
            self._finish(place)
            return place.schema
        reference = None if defining else self._reference(place)
        if reference is not None:
            return {"$ref": reference}
        if self.profile.refs == "kept":
            self._keep_reference(place)
        else:
            flatten(place)
        self._rewrite(place)
        return None if place.never else place.schema

    def nothing(self, at: str) -> Schema:
        """A place where nothing is valid, though the dialect wants a schema: null at most."""
        return self.lower({"type": "null"}, at, (), 0) or {}

    def _rewrite(self, place: Place) -> None:
        # Definitions that are used come back at the root, and every reference is a pointer from there.
        for keyword in ("$defs", "definitions", "$anchor", *(["$id"] if place.depth else [])):
            place.schema.pop(keyword, None)
        for rewrite in self.profile.before:
            if place.never:
                return
            rewrite(place)
        for keyword in [k for k in place.schema if k in self.profile.blocks]:
            place.block(keyword, "it cannot be written")
        if self.profile.keywords is not None:
            for keyword in [k for k in place.schema if k not in self.profile.keywords]:
                place.drop(keyword)
        for keyword in HOLDERS:
            if keyword in place.schema:
                self._parts(place, keyword)
        if not place.never:
            self._finish(place)

    def _finish(self, place: Place) -> None:
        place.describe()
        for rewrite in self.profile.after:
            rewrite(place)

    def _parts(self, place: Place, keyword: str) -> None:
        """Lower what a keyword holds: one schema, a list or a map of them."""
        value = place.schema[keyword]
        at = f"{place.at}/{keyword}"
        if keyword in MAPS:
            lowered: Any = {k: self._part(v, f"{at}/{escaped(k)}", place) for k, v in value.items()}
            place.schema[keyword] = {k: v for k, v in lowered.items() if v is not None}
            if keyword == "properties" and "required" in place.schema:
                place.schema["required"] = [n for n in place.schema["required"] if lowered.get(n, ...) is not None]
        elif isinstance(value, list):
            lowered = [self._part(v, f"{at}/{i}", place) for i, v in enumerate(cast("list[Any]", value))]
            ordered = keyword in ("prefixItems", "items")
            lowered = [self.nothing(at) if v is None and ordered else v for v in lowered]
            place.schema[keyword] = [v for v in lowered if v is not None]
            place.never |= keyword in ("anyOf", "oneOf") and not place.schema[keyword]
        elif keyword != "additionalProperties" or not isinstance(value, bool):
            found = self._part(value, at, place)
            closes = keyword == "additionalProperties" or self.profile.refs == "kept"
            place.schema[keyword] = found if found is not None else False if closes else self.nothing(at)

    def _part(self, value: Any, at: str, place: Place) -> Any:
        if not isinstance(value, dict) and (self.profile.refs == "kept" or not isinstance(value, bool)):
            return value  # true and false as they are, and the lists of names in `dependencies`
        return self.lower(value, at, place.refs, place.depth + 1)

    def _reference(self, place: Place) -> str | None:
        """The reference that stands for a place, in dialects where a reference stands alone."""
        schema = place.schema
        if self.profile.refs != "alone":
            return None
        if "$ref" not in schema and len(schema.get("allOf", ())) == 1 and isinstance(schema["allOf"][0], dict):
            schema = {**schema["allOf"][0], **{k: v for k, v in schema.items() if k != "allOf"}}
        found = self.references.locate(schema.get("$ref"))
        beside = schema.keys() - {"$ref", "$defs", "definitions"}
        if found is None or "allOf" in schema or beside - ANNOTATIONS:
            return None
        pointer, target = found
        again = pointer in place.refs
        if not again and (beside or not re.match("#/(?:[$]defs|definitions)/", pointer)):
            return None
        for keyword in sorted(beside):
            place.note(keyword, "dropped beside a reference to what it is inside")
        return self._hoisted(pointer, target)

    def _keep_reference(self, place: Place) -> None:
        """Keep a reference and what stands beside it."""
        if "$ref" not in place.schema:
            return
        found = self.references.locate(place.schema["$ref"])
        if found is not None:
            place.schema["$ref"] = self._hoisted(*found)
            return
        place.note("$ref", "leads nowhere; an open object instead")
        place.words.append("not described")
        place.schema = {"type": "object", **{k: v for k, v in place.schema.items() if k in ANNOTATIONS}}

    def _hoisted(self, pointer: str, target: Any) -> str:
        """A reference to a definition at the root, which is lowered later."""
        if pointer not in self._names:
            last = unescaped(pointer.rpartition("/")[2]).strip("#") or "root"
            stem = name = re.sub(r"[^A-Za-z0-9_.-]", "_", last) or "_"
            number = 1
            while name in self._names.values():
                number += 1
                name = f"{stem}_{number}"
            self._names[pointer] = name
            self._waiting.append((pointer, target))
        return f"#/$defs/{self._names[pointer]}"


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
    for name in dict.fromkeys(n for f in forms for n in f.get("properties", {})):
        found = [f["properties"][name] for f in forms if name in f.get("properties", {})]
        merged = found[0] if all(same(found[0], o) for o in found) else {"anyOf": found}
        if name not in own or len(found) == len(forms):
            own[name] = _both(own[name], merged) if name in own else merged
    common = [n for n in forms[0].get("required", ()) if all(n in f.get("required", ()) for f in forms)]
    required = unite(place.schema.get("required", []), common)
    needs = [" and ".join(n for n in f.get("required", ()) if n not in required) for f in forms]
    if all(needs):
        place.words.append(f"needs {' or '.join(dict.fromkeys(needs))}")
    extra = [f.get("additionalProperties", None if own else True) for f in forms]
    closed = {"additionalProperties": not all(e is False for e in extra)} if None not in extra or any(extra) else {}
    place.schema = {**closed, **place.schema, "properties": own, **({"required": required} if required else {})}


def _form(place: Place, option: Any, at: str) -> Schema | None:
    """One alternative as an object; None when it adds nothing, as a reference to what it is an alternative of."""
    if not isinstance(option, dict) or place.depth > MAX_DEPTH:
        return {} if option is True else None
    part = Place(place.run, dict(cast("Schema", option)), at, place.refs, place.depth + 1)
    found = place.run.references.locate(part.schema.get("$ref"))
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
        if not isinstance(part, dict):
            continue
        part = {k: v for k, v in cast("Schema", part).items() if k not in ("$defs", "definitions")}
        inside = [*part.pop("allOf", ())]
        ref = part.pop("$ref", None)
        if len(part.get("anyOf", ())) == 1:
            inside += part.pop("anyOf")
        _merge(place, part)
        pending[:0] = inside if ref is None else [_target(place, ref), *inside]


def _merge(place: Place, part: Schema) -> None:
    here = place.schema
    for keyword, value in part.items():
        if keyword not in here:
            here[keyword] = value
        elif same(here[keyword], value):
            continue
        elif keyword in _MERGE:
            here[keyword] = _MERGE[keyword](here[keyword], value)
        else:
            place.note(keyword, "one of two kept")
            place.words.extend(w for w in [in_words(keyword, value)] if w)
            place.block(keyword, "two that hold at once")


def _target(place: Place, ref: object) -> Any:
    """What a reference leads to; an open object where it leads nowhere or has been written out often enough."""
    found = place.run.references.locate(ref)
    if found is not None and place.refs.count(found[0]) < RECURSION_DEPTH:
        place.refs = (*place.refs, found[0])
        place.at = place.at if place.schema else found[0]
        return found[1]
    why = "leads nowhere" if found is None else "nested further"
    place.note("$ref", f"{why}; an open object instead")
    place.block("$ref", why)
    place.words.append("not described" if found is None else why)
    kind = cast("Schema", found[1]).get("type") if found is not None and isinstance(found[1], dict) else None
    says = place.schema.keys() - ANNOTATIONS - {"nullable"}
    return {} if says else {"type": "array" if kind == "array" else "object"}
