"""What the command line gives to a tool or an agent: `--set a.b=1`, `--args-json`, `@file` and `-`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ferrule.errors import JSONSyntaxError, UsageError
from ferrule.strict_json import parse
from ferrule.tool.schema.arguments import as_text, json_type
from ferrule.tool.schema.reference import References, Schema, listed


def read_arguments(schema: Schema, pairs: Sequence[str], given: str | None) -> dict[str, Any] | str | bytes:
    """The arguments of a call.

    Args:
        schema: What the tool takes: it decides whether the text of a pair is read as JSON.
        pairs: `key=value` each, `a.b=value` for a key inside an object; they add to `given`.
        given: A JSON object, `@file` or `-` for standard input.

    Returns:
        The JSON text as it was given when there are no pairs, else the object.

    Raises:
        UsageError: A malformed pair, a key that is given twice, or a file that cannot be read.
        JSONSyntaxError: `given` is no JSON.

    Since 0.1.
    """
    text = as_text(read_source(given, "--args-json") if given is not None else None)
    arguments = _object(text, "--args-json")
    if not pairs:
        return text
    seen: list[str] = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {pair!r} is no key=value. Write for example --set name=value.")
        if key in seen:
            raise UsageError(f'--set gives {key!r} twice. For a list write JSON: --set \'{key}=["a","b"]\'.')
        _put(arguments, schema, key, value, seen)
        seen.append(key)
    return arguments


def read_object(given: str, option: str) -> dict[str, Any]:
    """The JSON object that an option gives: itself, in `@file`, or `-` for standard input.

    Args:
        given: The option's value.
        option: Its name, for the error.

    Raises:
        UsageError: A file that cannot be read, or JSON that is no object.
        JSONSyntaxError: It is no JSON.

    Since 0.1.
    """
    return _object(read_source(given, option), option)


def _object(text: str | bytes, option: str) -> dict[str, Any]:
    try:
        found = parse(text)
    except JSONSyntaxError as error:
        raise JSONSyntaxError(f"{option} is not JSON: {error.reason}", error.line, error.column) from error
    if not isinstance(found, dict):
        raise UsageError(f'{option} is {json_type(found)}, not an object. Write for example \'{{"name": "value"}}\'.')
    return cast("dict[str, Any]", found)


def read_source(given: str, option: str) -> str | bytes:
    """What an option gives: the text itself, `@file`, or `-` for standard input.

    Args:
        given: The option's value.
        option: Its name, for the error.

    Raises:
        UsageError: A file that cannot be read.

    Since 0.1.
    """
    if given == "-":
        return sys.stdin.buffer.read()
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise UsageError(f"{option} names the file {given[1:]!r}, which cannot be read: {error.strerror}.") from error


def _put(arguments: dict[str, Any], schema: Schema, key: str, value: str, before: Sequence[str]) -> None:
    here, place = arguments, schema
    find = References(schema)
    steps = [key] if key in schema.get("properties", {}) else key.split(".")
    for i, step in enumerate(steps[:-1]):
        place = _property(find, place, step)
        inner = here.setdefault(step, {})
        if not isinstance(inner, dict):
            outer = ".".join(steps[: i + 1])
            raise UsageError(
                f"--set {key!r} needs an object in {outer!r}, which is {json_type(inner)}. Give one of them."
            )
        here = cast("dict[str, Any]", inner)
    if steps[-1] in here:
        other = next((f"--set {k!r}" for k in before if f"{k}.".startswith(f"{key}.") or key.startswith(f"{k}.")), None)
        raise UsageError(f"--set {key!r} gives what {other or '--args-json'} gives too. Give it once.")
    here[steps[-1]] = _value(find, _property(find, place, steps[-1]), value)


def _value(find: References, schema: Schema, text: str) -> Any:
    """A value for a place: text where the schema takes text, else what the text says as JSON, if it is JSON."""
    if "string" in {kind for option in find.views(schema) for kind in _types(option)}:
        return text
    try:
        return parse(text)
    except JSONSyntaxError:
        return text


def _property(find: References, schema: Schema, name: str) -> Schema:
    """The schema of a key; an empty one where anything goes."""
    for option in find.views(schema):
        found = option.get("properties", {}).get(name) or option.get("additionalProperties")
        if isinstance(found, dict):
            return cast("Schema", found)
    return {}


def _types(schema: Schema) -> list[str]:
    if "type" in schema:
        return listed(schema["type"])
    values: list[Any] = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
    return [json_type(value) for value in values]
