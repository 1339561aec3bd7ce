"""What leaves a tool: checked against its declared type, and bounded for the model."""

from __future__ import annotations

import inspect
import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, NoReturn, Union, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from ferrule.content import Part
from ferrule.errors import ToolDefinitionError
from ferrule.result import Failure, ToolResult, with_fact
from ferrule.strict_json import dumps, kind_of, parse, plain
from ferrule.tool.schema.annotation import first_sentence, readable
from ferrule.tool.schema.arguments import Fault, fault_of, fault_text, schema_check
from ferrule.tool.schema.flag import flag_schema, is_flag
from ferrule.tool.schema.reference import Schema
from ferrule.tool.schema.strict import base64_schema, finite_validator

_FREE = (Any, inspect.Signature.empty, object, NoReturn)
_STREAMS = (Generator, Iterator, Iterable, AsyncGenerator, AsyncIterator, AsyncIterable)


class _Sent(GenerateJsonSchema):
    """What `plain` writes, where pydantic would write something else."""

    def encode_default(self, dft: Any) -> Any:
        return plain(dft, big_ints="number")

    def timedelta_schema(self, schema: Any) -> Any:
        return {"type": "number"}

    def bytes_schema(self, schema: Any) -> Any:
        return base64_schema(schema)

    def enum_schema(self, schema: Any) -> Any:
        return flag_schema(schema["cls"]) if is_flag(schema["cls"]) else super().enum_schema(schema)

    def decimal_schema(self, schema: Any) -> Any:
        return {"type": "string"}

    def named_tuple_schema(self, schema: Any) -> Any:
        return self.fields(schema["fields"])

    def call_schema(self, schema: Any) -> Any:  # of a NamedTuple before pydantic 2.14
        return self.fields(schema["arguments_schema"]["arguments_schema"])

    def fields(self, fields: list[Any]) -> dict[str, Any]:
        properties = {field["name"]: self.generate_inner(field["schema"]) for field in fields}
        return {"type": "object", "properties": properties, "required": list(properties)}


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """The declared type of a tool's value.

    Args:
        schema: JSON Schema of the value.
        annotation: The type, or None when only a schema was given.
        fault: From a value to what is wrong with it, or None.

    Since 0.1.
    """

    schema: Schema
    annotation: Any
    fault: Callable[[Any], str | None]


def output_check(declared: Any, returns: Any, name: str) -> OutputCheck | None:
    """The check of a tool's successful values.

    Args:
        declared: `output_schema` of the tool: a JSON Schema, a type or None.
        returns: The return annotation.
        name: The tool's name, for errors.

    Returns:
        None when the tool says nothing that could be checked.

    Raises:
        ToolDefinitionError: `declared` is no usable JSON Schema, or a type that JSON cannot describe.

    Since 0.1.
    """
    if isinstance(declared, Mapping):
        schema = dict(cast("Mapping[str, Any]", declared))
        return OutputCheck(schema, None, _by_schema(schema_check(schema, f"the output of tool {name!r}")))
    annotation = returns if declared is None else declared
    if _is_free(annotation):
        return None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(readable(annotation))
        # By the names of the fields: that is how a value is sent, whatever aliases it is read by.
        schema = adapter.json_schema(mode="serialization", by_alias=False, schema_generator=_Sent)
    except Exception as error:  # whatever the annotation's own hooks raise
        if declared is not None:
            reason = first_sentence(error)
            raise ToolDefinitionError(f"the output of tool {name!r} cannot be described: {reason}") from error
        return None  # a class of the user's that JSON cannot describe is still a fine return type
    return OutputCheck(schema, annotation, _by_type(adapter, annotation))


def _is_free(annotation: Any) -> bool:
    if any(annotation is f for f in _FREE):
        return True
    origin = get_origin(annotation)
    if origin in (Annotated, Union, types.UnionType):
        return any(_is_free(a) for a in get_args(annotation) if a is not type(None))
    kind = origin or annotation
    if origin in (list, tuple):
        return any(_is_free(a) for a in get_args(annotation) if a is Part)
    return isinstance(kind, type) and (issubclass(kind, ToolResult | Part | bytes | bytearray) or kind in _STREAMS)


_PLAIN = (str, int, bool, type(None))


def _by_type(adapter: TypeAdapter[Any], annotation: Any) -> Callable[[Any], str | None]:
    validator = finite_validator(adapter.core_schema)

    def fault(value: Any) -> str | None:
        if type(value) is annotation and annotation in _PLAIN:
            return None
        try:
            validator.validate_python(value, strict=True, by_alias=False, by_name=True)
        except Exception:  # validators of the user's classes may raise anything
            pass
        else:
            return None
        text = dumps(plain(value, big_ints="number"))
        try:  # not of the type itself, but its JSON may fit: a dict for a model, a tuple for a list
            validator.validate_json(text, strict=True, by_alias=False, by_name=True)
        except ValidationError as error:
            data = parse(text)
            return _text(fault_of(e, data) for e in error.errors(include_url=False, include_input=False))
        except Exception as error:  # the same
            return f"a validator raised {kind_of(error)}"
        return None

    return fault


def _by_schema(faults: Callable[[Any], list[tuple[str, str]]]) -> Callable[[Any], str | None]:
    def fault(value: Any) -> str | None:
        return _text(faults(plain(value, big_ints="number"))) or None

    return fault


def _text(faults: Iterable[tuple[str, str]]) -> str:
    return fault_text(Fault(islice(faults, 3)))


def checked(result: ToolResult, check: OutputCheck | None, name: str) -> ToolResult:
    """A successful result whose value has the declared type, or a failure that keeps the value.

    Args:
        result: Any result.
        check: The declared type, if any.
        name: The tool's name.

    Since 0.1.
    """
    if check is None or result.is_error:
        return result
    fault = check.fault(result.value)
    if fault is None:
        return result
    text = f"Tool {name!r} returned a value that does not fit its declared output: {fault}."
    return replace(result, output=text, is_error=True, failure=Failure("exception", "OutputMismatch"))


def bounded(result: ToolResult, limit: int | None, call_id: str | None) -> ToolResult:
    """A result whose model-visible text is within a limit; the whole is kept in `metadata["full_output"]`.

    Args:
        result: Any result.
        limit: Most characters; None for no limit.
        call_id: The call's id, for the notice; None when nobody knows it.

    Since 0.1.
    """
    text = result.output
    if limit is None or len(text) <= limit:
        return result
    metadata = with_fact(result.metadata, "full_output", text)
    room = limit - len(_notice(len(text), len(text), call_id))
    if room < 0:  # no place to say more than that something is missing
        return replace(result, output=f"{text[: limit - 1]}…", metadata=metadata)
    head = room * 2 // 3
    tail = room - head
    cut = text[:head] + _notice(len(text) - room, len(text), call_id) + text[len(text) - tail :]
    return replace(result, output=cut, metadata=metadata)


def _notice(left_out: int, whole: int, call_id: str | None) -> str:
    where = f" with {call_id}" if call_id else ""
    return f"\n[{left_out:,} of {whole:,} characters left out; the whole output is kept{where}]\n"
