"""Inside a JSON Schema: where its references lead, and what it says of a place.

References are local: to a pointer, an `$anchor` or an `$id` of the same schema.
None is ever fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard
from urllib.parse import unquote

Schema = dict[str, Any]

MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
"""Keywords that hold a schema for each of some names."""
DEFINITIONS = ("$defs", "definitions")
"""Keywords that hold schemas for others to refer to."""
COMBINING = ("allOf", "anyOf", "oneOf")
"""Keywords that hold schemas for the very place they stand in."""
BRANCHING = frozenset({*COMBINING, "$ref"})
"""Keywords by which more is said of a place than the other keywords beside them say."""
HOLDERS = (
    *(*MAPS, "anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalItems", "additionalProperties"),
    *("unevaluatedItems", "unevaluatedProperties", "contains", "contentSchema", "propertyNames", "not"),
    *("if", "then", "else"),
)
"""Every keyword that holds schemas: a map, a list or a single one."""


def subschemas(schema: Schema, keywords: Iterable[str] = HOLDERS) -> Iterator[tuple[str, str | int, Any]]:
    """The schemas directly inside a schema.

    Args:
        schema: A JSON Schema.
        keywords: Where to look.

    Returns:
        Keyword, name or index under it (0 for a single schema), and the schema, which may be true or false.

    Since 0.1.
    """
    for keyword in [k for k in keywords if k in schema]:
        held = schema[keyword]
        parts: Iterable[tuple[str | int, Any]] = [(0, held)]
        if is_list(held):
            parts = enumerate(held)
        elif is_schema(held) and keyword in (*MAPS, *DEFINITIONS):
            parts = held.items()
        yield from ((keyword, key, part) for key, part in parts if is_schema(part) or isinstance(part, bool))


def is_schema(value: object) -> TypeGuard[Schema]:
    """Whether a JSON value is an object: a schema that is not just true or false.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array.

    Args:
        value: Any JSON value.

    Since 0.1.
    """
    return isinstance(value, list)


def listed(kinds: Any) -> list[str]:
    """The types that a `type` keyword names.

    Args:
        kinds: Its value: a name, a list of names, or None for no such keyword.

    Since 0.1.
    """
    return kinds if is_list(kinds) else [] if kinds is None else [kinds]


def escaped(name: str) -> str:
    """A name as a step of a JSON pointer.

    Args:
        name: Any name.

    Since 0.1.
    """
    return name.replace("~", "~0").replace("/", "~1")


def unescaped(step: str) -> str:
    """The name that a step of a JSON pointer stands for.

    Args:
        step: A step, without the slash.

    Since 0.1.
    """
    return step.replace("~1", "/").replace("~0", "~")


class References:
    """Where the references of one schema lead.

    Args:
        root: The whole schema.

    Since 0.1.
    """

    def __init__(self, root: Schema) -> None:
        """Keep the schema; its anchors are collected when one is asked for."""
        self.root = root
        self._named: Schema | None = None

    def locate(self, ref: object) -> tuple[str, Any] | None:
        """The pointer and the schema a reference leads to, through references that say nothing else.

        Args:
            ref: The value of `$ref`.

        Returns:
            None when it leads nowhere, or only to itself.
        """
        seen: set[str] = set()
        while isinstance(ref, str) and ref not in seen:
            seen.add(ref)
            pointer = _one_spelling(ref, self.root.get("$id"))
            found = self._at(pointer)
            if not is_schema(found) or found.keys() != {"$ref"}:
                return None if found is None else (pointer, found)
            ref = found["$ref"]
        return None

    def _at(self, pointer: str) -> Any:
        if pointer != "#" and not pointer.startswith("#/"):
            return self._anchors().get(pointer)
        found: Any = self.root
        for step in pointer.split("/")[1:]:
            if is_list(found):
                found = found[int(step)] if step.isdecimal() and int(step) < len(found) else None
            else:
                found = found.get(unescaped(step)) if is_schema(found) else None
        return found if is_schema(found) or isinstance(found, bool) else None

    def _anchors(self) -> Schema:
        """Schemas by `#anchor` and by their own `$id`."""
        if self._named is None:
            self._named = {}
            pending: list[Any] = [self.root]
            while pending:
                here = pending.pop()
                if is_schema(here):
                    for keyword, mark in (("$anchor", "#"), ("$id", "")):
                        if isinstance(here.get(keyword), str):
                            self._named.setdefault(mark + here[keyword], here)
                    pending += [part for *_, part in subschemas(here, (*HOLDERS, *DEFINITIONS))]
        return self._named

    def views(
        self,
        schema: Any,
        enter: Callable[[Schema, Schema], Schema | None] = lambda _, inner: inner,
        *,
        sure: bool = False,
    ) -> Iterator[Schema]:
        """All that is said of a place: by its schema, by what that refers to, and by what it combines.

        Args:
            schema: The schema of the place; what is no object says nothing, as `{}`.
            enter: From a schema and one it refers to or combines to how the latter is read; None leaves it out.
            sure: Leave alternatives out, for only one of several has to hold.

        Returns:
            The schemas, outer ones first; each reference is followed once.
        """
        pending: list[Any] = [schema]
        followed: set[str] = set()
        while pending:
            here = pending.pop()
            here = here if is_schema(here) else {}
            yield here
            if here.keys().isdisjoint(BRANCHING):
                continue
            inner: list[Any] = []
            if "$ref" in here:
                pointer, target = self.locate(here["$ref"]) or ("", {})
                inner += [] if pointer in followed else [target]
                followed.add(pointer)
            for keyword in COMBINING:
                options: list[Any] = here.get(keyword, [])
                inner += options if keyword == "allOf" or not sure or len(options) == 1 else []
            read = [enter(here, part if is_schema(part) else {}) for part in inner]
            pending += [part for part in reversed(read) if part is not None]


def below(views: Iterable[Schema], key: str | int) -> Schema:
    """What is said of a property or an item, as alternatives.

    Args:
        views: All that is said of the object or array.
        key: The property's name or the item's index.

    Since 0.1.
    """
    options: list[Any] = []
    for schema in views:
        if isinstance(key, str):
            named: Schema = schema.get("properties", {})
            options.append(named[key] if key in named else schema.get("additionalProperties"))
            continue
        items = schema.get("items")
        first: list[Any] = items if is_list(items) else schema.get("prefixItems", [])
        options.append(first[key] if key < len(first) else schema.get("additionalItems") if items is first else items)
    return {"anyOf": [o for o in options if o is not None and o is not False]}


def _one_spelling(ref: str, base: object) -> str:
    """A reference without the address of the whole schema, and with percent signs decoded."""
    address, mark, fragment = ref.partition("#")
    if address and (not isinstance(base, str) or address != base.rstrip("#")):
        return ref
    return "#" + unquote(fragment) if mark or address else ref
