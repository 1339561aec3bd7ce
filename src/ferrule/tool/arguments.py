"""From what a model or a caller sent to checked arguments.

Arguments are JSON, in and outside runs: a mapping is encoded first, so a call
from code and a call from a model meet the same rules. Nothing is repaired by
guessing, and no value is echoed in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast

import orjson

from ferrule.errors import JSONSyntaxError, ToolDefinitionError, UsageError
from ferrule.strict_json import dumps, parse, plain

Schema = dict[str, Any]
MAX_FAULTS = 10
MAX_NESTING = 100


class InvalidArguments(Exception):
    """Arguments that cannot be executed, and why, fit for a model to read. Never leaves a call."""


class Fault(Exception):
    """Arguments that do not fit a schema: pairs of (path, rule). Never leaves this package."""

    def __init__(self, faults: Iterable[tuple[str, str]]) -> None:
        """Keep the pairs."""
        self.faults = list(faults)


class Parameters(Protocol):
    """What a tool takes: a JSON Schema, and the check of JSON text against it."""

    @property
    def schema(self) -> Schema:
        """The JSON Schema of the arguments, an object."""
        ...

    def check(self, text: str | bytes) -> dict[str, Any]:
        """Checked arguments by name from JSON text; raises Fault or JSONSyntaxError."""
        ...


def read(parameters: Parameters, arguments: object, *, omit_blank: bool = False) -> tuple[dict[str, Any], str | bytes]:
    """Check the arguments of one call.

    Args:
        parameters: What the tool takes.
        arguments: A mapping, JSON text, or None; blank text and `null` equal `{}`.
        omit_blank: Take `""` for an optional parameter that is not free text as absent.

    Returns:
        The arguments by name, as instances of their types, and the JSON text that was checked.

    Raises:
        InvalidArguments: They cannot be executed.
        UsageError: `arguments` is neither a mapping nor text.

    Since 0.1.
    """
    text = as_text(arguments)
    try:
        return parameters.check(text), text
    except JSONSyntaxError as error:
        raise InvalidArguments(f"The arguments are not valid JSON: {error}. Send one JSON object.") from None
    except Fault as fault:
        first = fault
    mended = _mend(parameters.schema, parse(text), omit_blank)
    if mended is not None:
        try:
            text = dumps(mended)
            return parameters.check(text), text
        except Fault as fault:
            first = fault
    raise InvalidArguments(_sentence(first.faults)) from None


def as_text(arguments: object) -> str | bytes:
    """The JSON text of arguments given in any accepted form.

    Args:
        arguments: A mapping, JSON text as str or bytes, or None.

    Raises:
        UsageError: It is something else.

    Since 0.1.
    """
    if isinstance(arguments, str | bytes):
        bare = arguments.strip()
        return arguments if bare and bare not in ("null", b"null") else "{}"
    if arguments is None:
        return "{}"
    if isinstance(arguments, Mapping):
        return dumps(plain(cast("Mapping[str, Any]", arguments), big_ints="number"))
    raise UsageError(f"arguments must be a mapping, JSON text or None, not {type(arguments).__name__}.")


def _sentence(faults: list[tuple[str, str]]) -> str:
    """One line a model can act on; several rules for one place are alternatives."""
    by_path: dict[str, list[str]] = {}
    for path, rule in faults:
        rules = by_path.setdefault(path, [])
        if rule not in rules:
            rules.append(rule)
    lines = [f"{path}: {' or '.join(rules)}" if path else " or ".join(rules) for path, rules in by_path.items()]
    more = f"; and {len(lines) - MAX_FAULTS} more" if len(lines) > MAX_FAULTS else ""
    return f"The arguments do not fit the schema. {'; '.join(lines[:MAX_FAULTS])}{more}."


def path_text(path: Iterable[str | int]) -> str:
    """A path as people write it: `items[2].name`.

    Args:
        path: Keys and indices from the root.

    Since 0.1.
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text[:200]


def json_type(value: object) -> str:
    """The JSON name of a value's type, for messages.

    Args:
        value: A JSON value.

    Since 0.1.
    """
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"


# -- mending, directed by the schema ----------------------------------------------------------------------------


def _mend(schema: Schema, data: Any, omit_blank: bool) -> Any:
    """JSON text unwrapped where an object or array is wanted, blanks left out if asked; None when nothing changed."""
    mended = _unwrap(schema, schema, data, 0)
    if omit_blank and isinstance(mended, dict):
        mended = _without_blanks(schema, cast("dict[str, Any]", mended))
    return None if mended is data or mended == data else mended


def _unwrap(root: Schema, schema: Schema, data: Any, depth: int) -> Any:
    if depth > MAX_NESTING:
        return data
    branches = list(_branches(root, schema, 0))
    if isinstance(data, str):
        return _from_json_text(data, _types(branches))
    if isinstance(data, list):
        items: Schema = next((s["items"] for s in branches if isinstance(s.get("items"), dict)), {})
        return [_unwrap(root, items, v, depth + 1) for v in cast("list[Any]", data)]
    if isinstance(data, dict):
        fields: Schema = {k: v for s in branches for k, v in s.get("properties", {}).items() if isinstance(v, dict)}
        return {k: _unwrap(root, fields.get(k, {}), v, depth + 1) for k, v in cast("dict[str, Any]", data).items()}
    return data


def _from_json_text(text: str, wanted: set[str]) -> Any:
    if "string" in wanted or not wanted & {"object", "array"}:
        return text
    try:
        found = parse(text)
    except JSONSyntaxError:
        return text
    return found if json_type(found) in wanted & {"object", "array"} else text


def _types(branches: list[Schema]) -> set[str]:
    """The types a place admits; a branch without a type admits strings, so it forbids unwrapping."""
    found: set[str] = set()
    for schema in branches:
        if "anyOf" in schema or "oneOf" in schema or "$ref" in schema or "allOf" in schema:
            continue
        kind: Any = schema.get("type", "string")
        found.update(cast("list[str]", kind) if isinstance(kind, list) else [kind])
    return found


def _branches(root: Schema, schema: Schema, depth: int) -> Iterable[Schema]:
    """A schema and what it refers to or offers as alternatives."""
    yield schema
    if depth > 20:
        return
    ref = schema.get("$ref")
    if isinstance(ref, str):
        yield from _branches(root, resolve(root, ref), depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(key, ()):
            if isinstance(option, dict):
                yield from _branches(root, cast("Schema", option), depth + 1)


def resolve(root: Schema, ref: str) -> Schema:
    """The schema a local reference points to; an empty one when it leads nowhere.

    Args:
        root: The whole schema.
        ref: A JSON pointer with a leading `#`.

    Since 0.1.
    """
    found: Any = root
    for step in ref.lstrip("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        found = cast("Schema", found).get(step) if isinstance(found, dict) else None
    return cast("Schema", found) if isinstance(found, dict) else {}


def _without_blanks(schema: Schema, data: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    return {k: v for k, v in data.items() if v != "" or k in required or _is_free_text(schema, k)}


def _is_free_text(schema: Schema, name: str) -> bool:
    field = schema.get("properties", {}).get(name, {})
    plain_strings = [b for b in _branches(schema, field, 0) if b.get("type") == "string"]
    return any(not b.keys() & {"pattern", "format", "enum", "const", "minLength"} for b in plain_strings)


# -- schemas from outside ---------------------------------------------------------------------------------------


def _no_retrieval(uri: str) -> Any:
    raise ValueError("remote references are not followed")


class SchemaParameters:
    """Parameters told by a JSON Schema from outside, used as it is.

    Args:
        schema: The schema; None takes any arguments.
        owner: The tool, for the error.

    Raises:
        ToolDefinitionError: It is no valid schema, or refers to one elsewhere.

    Since 0.1.
    """

    def __init__(self, schema: Mapping[str, Any] | None, owner: str) -> None:
        """Compile the schema."""
        self.schema: Schema = {"type": "object"} if schema is None else dict(schema)
        self.faults: Callable[[Any], list[tuple[str, str]]] = schema_check(self.schema, f"tool {owner!r}")

    def check(self, text: str | bytes) -> dict[str, Any]:
        """Checked arguments by name.

        Args:
            text: JSON text.

        Raises:
            JSONSyntaxError: It is no strict JSON.
            Fault: It does not fit.
        """
        data = parse(text)
        if not isinstance(data, dict):
            raise Fault([("", f"should be an object (got {json_type(data)})")])
        faults = self.faults(data)
        if faults:
            raise Fault(faults)
        return cast("dict[str, Any]", data)


def schema_check(schema: Mapping[str, Any], owner: str) -> Callable[[Any], list[tuple[str, str]]]:
    """The check of JSON values against a foreign JSON Schema; remote references are never fetched.

    Args:
        schema: A JSON Schema.
        owner: What it belongs to, for the error.

    Returns:
        A function from a JSON value to its faults, pairs of path and rule; empty when it fits.

    Raises:
        ToolDefinitionError: It is no valid schema, or refers to one elsewhere.

    Since 0.1.
    """
    import jsonschema_rs  # loads a large library: only tools with foreign schemas pay for it

    try:
        orjson.dumps(schema)  # cyclic or non-JSON schemas
        validator = jsonschema_rs.validator_for(cast("dict[str, Any]", schema), retriever=_no_retrieval, mask="value")
    except (ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0][:300]
        raise ToolDefinitionError(f"the schema of {owner} is no usable JSON Schema: {reason}. Correct it.") from error

    def faults(data: Any) -> list[tuple[str, str]]:
        found = [e for _, e in zip(range(MAX_FAULTS), validator.iter_errors(data), strict=False)]
        return [(path_text(e.instance_path), f"{e.message} (got {json_type(e.instance)})") for e in found]

    return faults
