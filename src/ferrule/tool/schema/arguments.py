"""From what a model or a caller sent to checked arguments.

Arguments are JSON, in and outside runs: a mapping is encoded first, so a call
from code and a call from a model meet the same rules. Nothing is repaired by
guessing, and no value is echoed in an error. What an error does quote, keys of
the data and the words of the user's own validators, loses its credentials
piece by piece: in one text a rule would pass for the value of its field.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Set
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import PurePath
from typing import Any, Protocol, cast
from uuid import UUID

import orjson

from ferrule.errors import JSONSyntaxError, ToolDefinitionError, UsageError
from ferrule.exception import quotable
from ferrule.strict_json import dumps, is_a, kind_of, parse, plain
from ferrule.tool.schema.reference import BRANCHING, References, Schema, below, listed

MAX_FAULTS = 10
MAX_NESTING = 100


class InvalidArguments(Exception):
    """Arguments that cannot be executed, and why, fit for a model to read. Never leaves a call.

    Since 0.1.
    """


class Fault(Exception):
    """A value that does not fit a schema. Caught by whoever asked for the check, never shown as it is.

    Args:
        faults: Pairs of path and rule.

    Since 0.1.
    """

    def __init__(self, faults: Iterable[tuple[str, str]]) -> None:
        """Keep the pairs."""
        self.faults = list(faults)


class Parameters(Protocol):
    """What a tool takes: a JSON Schema, and the check of JSON text against it.

    Since 0.1.
    """

    @property
    def schema(self) -> Schema:
        """The JSON Schema of the arguments, an object."""
        ...

    def check(self, text: str | bytes) -> dict[str, Any]:
        """Checked arguments by name.

        Args:
            text: JSON text.

        Raises:
            JSONSyntaxError: It is no strict JSON.
            Fault: It does not fit.
        """
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
    if omit_blank:
        text = _without_blanks(parameters.schema, text)
    try:
        return parameters.check(text), text
    except (JSONSyntaxError, Fault) as error:
        problem = error
    if isinstance(problem, Fault):
        try:
            return read_kindly(parameters, text, problem, omit_blank=omit_blank)
        except Fault as fault:
            problem = fault
    # Raised here and not in a handler: what was caught may hold the arguments.
    raise InvalidArguments(_sentence(problem))


def read_kindly(
    parameters: Parameters, text: str | bytes, fault: Fault, *, omit_blank: bool = False
) -> tuple[dict[str, Any], str | bytes]:
    """Check once more what did not fit, with each value in the form that its place wants, where it has one.

    In a place that admits no text, JSON text of an object, an array or a number
    is what it says; where an integer is wanted, `3.0` is 3.

    Args:
        parameters: What is wanted.
        text: JSON text that does not fit.
        fault: Why.
        omit_blank: As for `read`.

    Returns:
        As `read`.

    Raises:
        Fault: It still does not fit.

    Since 0.1.
    """
    mended = _mend(parameters.schema, text)
    if mended is None:
        raise fault
    given = _without_blanks(parameters.schema, mended) if omit_blank else mended
    try:
        return parameters.check(given), given
    except JSONSyntaxError:  # of a number inside a text, beyond the range of a float
        pass
    raise fault


def as_text(arguments: object) -> str | bytes:
    """The JSON text of arguments given in any accepted form.

    Args:
        arguments: A mapping, JSON text as str or bytes, or None.

    Raises:
        UsageError: It is something else.

    Since 0.1.
    """
    if is_a(arguments, str):
        return "{}" if arguments.strip() in ("", "null") else _encodable(arguments)
    if is_a(arguments, bytes):
        return "{}" if arguments.strip() in (b"", b"null") else arguments
    if arguments is None:
        return "{}"
    if is_a(arguments, Mapping):
        return _written(cast("Mapping[str, Any]", arguments))
    raise UsageError(f"arguments must be a mapping, JSON text or None, not {kind_of(arguments)}.")


def _encodable(text: str) -> str:
    """Text with surrogate pairs joined, as two halves of an escape leave them; a lone one is refused, not replaced."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        pass
    raise InvalidArguments("The arguments are not valid JSON: a lone surrogate. Send one JSON object.")


def _written(arguments: Mapping[str, Any]) -> bytes:
    """A mapping from code as JSON text; what JSON cannot hold is refused, for no argument may change on its way."""
    try:
        text = json.dumps(
            dict(arguments), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_value
        )
    except RecursionError:
        reason = "nested too deeply"
    except ValueError:
        reason = "NaN, an infinity, an integer of too many digits, or a value that contains itself"
    except TypeError as error:
        reason = str(error)
    except Exception as error:  # the objects' own code
        reason = f"an object in them raised {kind_of(error)}"
    else:
        return _encodable(text).encode()
    raise InvalidArguments(f"The arguments cannot be written as JSON: {reason}.")


def _json_value(value: Any) -> Any:
    """What stands in JSON for an instance of a parameter's type."""
    if is_a(value, _LEAVES):
        return plain(value, big_ints="number")
    if is_a(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if is_a(value, Set):
        return list(cast("Set[Any]", value))
    cls = cast("Any", type(value))
    if dataclasses.is_dataclass(cls):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(cls)}
    for method, options in (("get_secret_value", {}), ("tolist", {}), ("model_dump", {"by_alias": True})):
        if hasattr(cls, method):
            return getattr(value, method)(**options)
    text = plain(value)  # of an address, a zone, a fraction; a description of anything else
    if isinstance(text, str):
        return text
    raise TypeError(f"{kind_of(value)} has no JSON form")


_LEAVES = (Decimal, UUID, PurePath, dt.date, dt.time, dt.timedelta, bytes, bytearray, Enum)


def _sentence(problem: JSONSyntaxError | Fault) -> str:
    """One line a model can act on."""
    if isinstance(problem, JSONSyntaxError):
        return f"The arguments are not valid JSON: {problem}. Send one JSON object."
    return f"The arguments do not fit the schema. {fault_text(problem)}."


def fault_text(problem: Fault) -> str:
    """What is wrong, place by place; several rules for one place are alternatives.

    Args:
        problem: Faults of arguments, or of an answer that should be JSON.

    Since 0.1.
    """
    by_path: dict[str, list[str]] = {}
    for path, rule in problem.faults:
        rules = by_path.setdefault(path, [])
        if (said := quotable(rule)) not in rules:
            rules.append(said)
    lines = [f"{path}: {' or '.join(rules)}" if path else " or ".join(rules) for path, rules in by_path.items()]
    more = f"; and {len(lines) - MAX_FAULTS} more" if len(lines) > MAX_FAULTS else ""
    return f"{'; '.join(lines[:MAX_FAULTS])}{more}"


def path_text(path: Iterable[str | int]) -> str:
    """A path as people write it: `items[2].name`.

    Args:
        path: Keys and indices from the root.

    Since 0.1.
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{quotable(step)}" if text else quotable(step)
    return text[:200]


_JSON_TYPES = (
    (bool, "boolean"), (int, "integer"), ((float, Decimal), "number"), (str, "string"), (list, "array"),
)  # fmt: skip


def json_type(value: object) -> str:
    """The JSON name of a value's type, for messages.

    Args:
        value: A JSON value.

    Since 0.1.
    """
    for kind, name in _JSON_TYPES:
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"


# -- what pydantic says -----------------------------------------------------------------------------------------

UNDECLARED = "is not declared"
# What pydantic tells of the value after its rule.
_ECHO = re.compile(r"[,:] (found|Invalid (last )?(symbol|byte))\b.*", re.DOTALL)


def fault_of(error: Any, data: Any, undeclared: str = UNDECLARED) -> tuple[str, str]:
    """Path and rule of one error of pydantic's; branches of unions are no steps of the path.

    Args:
        error: One of `ValidationError.errors()`.
        data: The JSON value that was checked.
        undeclared: What is said of a name at the root that nobody declared.

    Since 0.1.
    """
    path: list[str | int] = []
    here = data
    last = len(error["loc"]) - 1
    for i, step in enumerate(error["loc"]):
        if isinstance(here, dict) and step in here:
            here = cast("dict[Any, Any]", here)[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(cast("list[Any]", here)):
            here = cast("list[Any]", here)[step]
        elif i != last or error["type"] != "missing":
            continue
        path.append(step)
    return path_text(path), undeclared if last == 0 and error["type"] == "extra_forbidden" else _rule(error, here)


def _rule(error: Any, value: Any) -> str:
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "extra_forbidden":
        return UNDECLARED
    if error["type"] == "json_invalid":  # valid, as we know by now
        return "is nested too deeply"
    if error["type"] == "union_tag_invalid":
        return f"should have a tag among {error['ctx']['expected_tags']}"
    text = _ECHO.sub("", str(error["msg"]))
    text = text.removeprefix("Input ") if text.startswith("Input ") else text[:1].lower() + text[1:]
    return f"{text} (got {json_type(value)})"


# -- changes directed by the schema -----------------------------------------------------------------------------

EXACT = "ferrule:exact"  # marks, in a schema made for `with_digits`, what a Decimal is read from


def with_digits(schema: Schema, text: str | bytes) -> str | bytes:
    """The text with numbers written as text where only a Decimal is wanted and a float would lose digits.

    Args:
        schema: A JSON Schema in which both alternatives of a Decimal, number and string, are marked.
        text: JSON text of the arguments.

    Since 0.1.
    """
    try:
        data = parse(text, exact=True)
    except JSONSyntaxError:
        return text  # the check says what is wrong with it
    kept = _change(References(schema), schema, data, _digits, 0) if _holds_decimal(data) else data
    return text if kept == data else dumps(kept)


def _holds_decimal(data: Any, depth: int = 0) -> bool:
    if isinstance(data, dict):
        data = list(cast("dict[str, Any]", data).values())
    if isinstance(data, list):
        return depth <= MAX_NESTING and any(_holds_decimal(v, depth + 1) for v in cast("list[Any]", data))
    return type(data) is Decimal


def _digits(find: References, schema: Schema, data: Any) -> Any:
    if type(data) is not Decimal:
        return data
    takers = [EXACT in s for s in _leaves(find, schema) if {"number", "string"}.intersection(_types(s))]
    return str(data) if takers and all(takers) else data


def _mend(schema: Schema, text: str | bytes) -> bytes | None:
    """The text with values in the form that their places want; None when there is nothing to change."""
    data = parse(text, exact=True)
    mended = dumps(_change(References(schema), schema, data, _fitted, 0))
    return None if mended == dumps(data) else mended


def _fitted(find: References, schema: Schema, data: Any) -> Any:
    if not isinstance(data, (str, float, Decimal)):
        return data
    wanted = {kind for leaf in _leaves(find, schema) for kind in _types(leaf)}
    if not isinstance(data, str):
        return _whole(data) if "integer" in wanted and "number" not in wanted else data
    if "string" in wanted or wanted.isdisjoint(_UNWRAPPED):
        return data
    try:
        found: Any = parse(data, exact=True)
    except JSONSyntaxError:
        return data
    if json_type(found) in ("object", "array"):
        return found if json_type(found) in wanted else data
    if isinstance(found, bool) or not isinstance(found, (int, float, Decimal)) or data != data.strip():
        return data
    if "number" in wanted:
        return found
    return _whole(found) if "integer" in wanted and isinstance(_whole(found), int) else data


_UNWRAPPED = ("object", "array", "number", "integer")


def _whole(number: int | float | Decimal) -> int | float | Decimal:
    """An integer written with a fraction of zeros, while a float still holds every integer."""
    return int(number) if abs(number) < 2**53 and number == int(number) else number


def _change(
    find: References, schema: Schema, data: Any, change: Callable[[References, Schema, Any], Any], depth: int
) -> Any:
    """The data with its leaves changed, each in view of the schema of its place."""
    if depth > MAX_NESTING:
        return data
    if isinstance(data, list):
        leaves, items = _leaves(find, schema), cast("list[Any]", data)
        return [_change(find, below(leaves, i), v, change, depth + 1) for i, v in enumerate(items)]
    if isinstance(data, dict):
        leaves, fields = _leaves(find, schema), cast("dict[str, Any]", data)
        return {k: _change(find, below(leaves, k), v, change, depth + 1) for k, v in fields.items()}
    return change(find, schema, data)


def _leaves(find: References, schema: Any) -> list[Schema]:
    """The alternatives a place comes down to; a type holds for what is combined under it, too."""
    views = find.views(schema, lambda outer, inner: {"type": outer["type"], **inner} if "type" in outer else inner)
    return [s for s in views if not s.keys() & BRANCHING or s.keys() & {"type", "properties", "items"}]


def _types(leaf: Schema) -> list[str]:
    """The types a leaf admits; one without a type admits strings, so it forbids unwrapping."""
    return listed(leaf.get("type", "string"))


def _without_blanks(schema: Schema, text: str | bytes) -> str | bytes:
    """The text without `""` for optional parameters that are no free text."""
    try:
        data = parse(text, exact=True)
    except JSONSyntaxError:
        return text  # the check says what is wrong with it
    if not isinstance(data, dict):
        return text
    given = cast("dict[str, Any]", data)
    required = schema.get("required", ())
    fields: Schema = schema.get("properties", {})
    find = References(schema)
    blank = {k for k in given if given[k] == "" and k not in required and not _takes_blank(find, fields.get(k))}
    return dumps({k: v for k, v in given.items() if k not in blank}) if blank else text


def _takes_blank(find: References, field: Any) -> bool:
    """Whether some alternative admits the empty text: plain strings do, and an enum that lists it."""
    return any(
        "" in s.get("enum", ())
        if "enum" in s
        else "string" in _types(s) and not s.keys() & {"pattern", "format", "const", "minLength"}
        for s in _leaves(find, field)
    )


# -- schemas from outside ---------------------------------------------------------------------------------------


def _no_retrieval(uri: str) -> Any:
    raise ValueError("remote references are not followed")


def refuse_taken(taken: frozenset[str], given: Mapping[str, Any]) -> None:
    """Refuse arguments under names that a function uses itself.

    Args:
        taken: Those names.
        given: The arguments by name.

    Raises:
        Fault: Naming each.

    Since 0.1.
    """
    clash = [name for name in given if name in taken]
    if clash:
        raise Fault([(name, "is not a parameter of this tool, which uses the name itself") for name in clash])


class SchemaParameters:
    """Parameters told by a JSON Schema from outside, used as it is.

    Args:
        schema: The schema; None takes any arguments.
        owner: The tool, for the error.
        taken: Names that the tool's function uses itself, so that no argument can have them.

    Raises:
        ToolDefinitionError: It is no valid schema, refers to one elsewhere, or admits no object.

    Since 0.1.
    """

    def __init__(self, schema: Mapping[str, Any] | None, owner: str, taken: frozenset[str] = frozenset()) -> None:
        """Compile the schema."""
        self.taken = taken
        self.schema: Schema = {"type": "object"} if schema is None else dict(schema)
        self.faults: Callable[[Any], list[tuple[str, str]]] = schema_check(self.schema, f"tool {owner!r}")
        if "object" not in listed(self.schema.get("type", "object")):
            raise ToolDefinitionError(
                f"the schema of tool {owner!r} admits no object, but arguments are one. "
                'Write {"type": "object", "properties": {…}}.'
            )

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
        found = cast("dict[str, Any]", data)
        if self.taken:
            refuse_taken(self.taken, found)
        return found


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
        return [fault for error in islice(validator.iter_errors(data), MAX_FAULTS) for fault in _faults_of(error, data)]

    return faults


def _faults_of(error: Any, data: Any) -> list[tuple[str, str]]:
    """Path and rule; what is missing or not declared is named by its own path, as in arguments of a function."""
    path, kind = error.instance_path, error.kind
    missing, unexpected = getattr(kind, "property", None), getattr(kind, "unexpected", None)
    if error.schema_path[-2:-1] != ["properties"] and error.schema_path[-1:] == ["additionalProperties"]:
        # where nothing at all is declared, it is told of the first value and without its name
        unexpected = unexpected or list(functools.reduce(operator.getitem, path, data))
    if isinstance(missing, str):
        return [(path_text([*path, missing]), "is required")]
    if isinstance(unexpected, list):
        return [(path_text([*path, name]), UNDECLARED) for name in cast("list[Any]", unexpected)[:MAX_FAULTS]]
    return [(path_text(path), f"{error.message} (got {json_type(error.instance)})")]
