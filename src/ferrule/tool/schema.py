"""One path from a Python signature to a JSON Schema and the check of arguments.

The parameters become the fields of a typed dict that pydantic reads: the names
may be anything, defaults stay the function's own, and arguments are checked
straight from their JSON text. Every consumer lowers the schema made here.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, cast, get_args, get_origin

import typing_extensions
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.fields import Field, FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaValidator, to_jsonable_python

from ferrule.errors import ToolDefinitionError
from ferrule.strict_json import parse
from ferrule.tool.arguments import Fault, Schema, json_type, path_text
from ferrule.tool.docstring import parse_docstring

_KINDS = inspect.Parameter


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and says of itself.

    Args:
        schema: JSON Schema of its arguments.
        validator: The compiled check.
        injected: Names of the parameters that get the context.
        description: The docstring without its parameter block.
        returns: The return annotation, or `inspect.Signature.empty`.

    Since 0.1.
    """

    schema: Schema
    validator: SchemaValidator
    injected: tuple[str, ...]
    description: str
    returns: Any

    def check(self, text: str | bytes) -> dict[str, Any]:
        """Checked arguments by name, as instances of their annotated types.

        Args:
            text: JSON text.

        Raises:
            JSONSyntaxError: It is no strict JSON.
            Fault: It does not fit.
        """
        try:
            found: dict[str, Any] = self.validator.validate_json(text)
        except ValidationError as error:
            data = parse(text)  # says what and where, if it is the JSON that is wrong
            raise Fault(_fault(e, data) for e in error.errors(include_url=False)) from None
        source = text if isinstance(text, str) else text.decode()
        if source.count(":") != len(found) or "NaN" in source or "Infinity" in source:
            parse(source)  # the fast reader takes NaN, and the last of duplicate keys
        return found


def _fault(error: Any, data: Any) -> tuple[str, str]:
    """Path and rule of one error; branches of unions are no steps of the path."""
    path: list[str | int] = []
    here = data
    for step in error["loc"]:
        if isinstance(here, dict) and step in here:
            here = cast("dict[Any, Any]", here)[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(cast("list[Any]", here)):
            here = cast("list[Any]", here)[step]
        elif step is not error["loc"][-1] or error["type"] != "missing":
            continue
        path.append(step)
    return path_text(path), _rule(error, here)


def _rule(error: Any, value: Any) -> str:
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "extra_forbidden":
        return "is not a parameter of this tool"
    if error["type"] == "union_tag_invalid":
        return f"should have a tag among {error['ctx']['expected_tags']}"
    text = str(error["msg"]).split(", found")[0]
    text = text.removeprefix("Input ") if text.startswith("Input ") else text[:1].lower() + text[1:]
    return f"{text} (got {json_type(value)})"


# -- reading a function -----------------------------------------------------------------------------------------


class _Lean(GenerateJsonSchema):
    """Without titles made from names: they repeat what the model sees anyway."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@functools.lru_cache(maxsize=1024)
def _read_cached(function: Callable[..., Any], context: type, name: str) -> Signature:
    return _read(function, context, name)


def read_signature(function: Callable[..., Any], context: type, name: str) -> Signature:
    """Describe a function's parameters; made once for each function.

    Args:
        function: Any callable: function, method, partial, object with `__call__`, wrapper.
        context: The class whose annotation asks for injection.
        name: The tool's name, for errors.

    Raises:
        ToolDefinitionError: A parameter that cannot be described or passed by name.

    Since 0.1.
    """
    try:
        hash(function)
    except TypeError:
        return _read(function, context, name)
    return _read_cached(function, context, name)


def _read(function: Callable[..., Any], context: type, name: str) -> Signature:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"the signature of tool {name!r} cannot be read. Wrap it in a Python function."
        ) from error
    hints = _hints(function, name)
    if parameters and _is_self(parameters[0], function):
        parameters = parameters[1:]
    about = parse_docstring(inspect.getdoc(function) or "", {p.name for p in parameters}, name)
    injected = tuple(p.name for p in parameters if _is_context(hints.get(p.name), context))
    fields: dict[str, Any] = {}
    extra: Any = None
    for p in parameters:
        if p.name in injected:
            continue
        annotation = _annotation(p, hints, name)
        if p.kind is _KINDS.VAR_KEYWORD:
            extra = annotation
            continue
        fields[p.name] = _field(p, annotation, about.parameters.get(p.name))
    schema, validator = _compile(fields, extra, name)
    for p in parameters:
        if p.name in fields:
            _add_default(schema, p, name)
    return Signature(schema, validator, injected, about.description, hints.get("return", inspect.Signature.empty))


def _annotation(p: inspect.Parameter, hints: Mapping[str, Any], tool: str) -> Any:
    where = f"parameter {p.name!r} of tool {tool!r}"
    if p.kind is _KINDS.POSITIONAL_ONLY:
        raise ToolDefinitionError(f"{where} is positional-only, but arguments come by name. Remove the '/' after it.")
    if p.kind is _KINDS.VAR_POSITIONAL:
        raise ToolDefinitionError(
            f"{where} collects positional arguments, which come by name. Use a list parameter instead."
        )
    if p.name in hints:
        return hints[p.name]
    if p.kind is _KINDS.VAR_KEYWORD:
        return Any
    raise ToolDefinitionError(
        f"{where} has no annotation. Annotate it, for example {p.name}: int, or pass schema= to @tool."
    )


def _is_self(p: inspect.Parameter, function: Any) -> bool:
    """Whether a function written in a class body takes its instance first."""
    inside = getattr(function, "__qualname__", "").rpartition(".")[0]
    written_in_class = bool(inside) and not inside.endswith("<locals>")
    return inspect.isfunction(function) and written_in_class and p.name in ("self", "cls") and p.annotation is p.empty


def _is_context(annotation: Any, context: type) -> bool:
    if get_origin(annotation) in (Annotated, Union, types.UnionType):
        return any(_is_context(a, context) for a in get_args(annotation))
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, context)


def _field(p: inspect.Parameter, annotation: Any, description: str | None) -> Any:
    given = p.default if isinstance(p.default, FieldInfo) else None
    metadata: list[Any] = [given] if given is not None else []
    known = [m for m in (*getattr(annotation, "__metadata__", ()), given) if isinstance(m, FieldInfo)]
    if description and not any(m.description for m in known):
        metadata.append(Field(description=description))
    described = functools.reduce(lambda a, m: Annotated[a, m], metadata, annotation)
    return described if p.default is p.empty or given is not None else typing_extensions.NotRequired[described]


def _compile(fields: dict[str, Any], extra: Any, name: str) -> tuple[Schema, SchemaValidator]:
    options: dict[str, Any] = {} if extra is None else {"extra_items": extra}
    table = cast("Any", typing_extensions.TypedDict)(name, fields, **options)
    if extra is None:
        table.__pydantic_config__ = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64")
    else:
        table.__pydantic_config__ = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic warns of defaults that JSON cannot hold; ours are added below
            adapter: TypeAdapter[Any] = TypeAdapter(table)
            schema = _without_titles(adapter.json_schema(schema_generator=_Lean))
    except (
        PydanticUserError,
        PydanticSchemaGenerationError,
        PydanticUndefinedAnnotation,
        TypeError,
        ValueError,
    ) as error:
        raise ToolDefinitionError(_why(fields, name, error)) from error
    if not isinstance(adapter.validator, SchemaValidator):
        adapter.rebuild(force=True)
    return schema, cast("SchemaValidator", adapter.validator)


def _why(fields: dict[str, Any], name: str, error: Exception) -> str:
    """Name the first parameter that cannot be described alone."""
    for parameter, annotation in fields.items():
        if get_origin(annotation) is typing_extensions.NotRequired:
            annotation = get_args(annotation)[0]
        try:
            TypeAdapter(annotation).json_schema()
        except Exception as alone:  # any complaint about this one parameter is the one to show
            reason = str(alone).partition("\n")[0]
            return (
                f"parameter {parameter!r} of tool {name!r} cannot be described: {reason} "
                "Use a type that JSON can carry, or pass schema= to @tool."
            )
    return f"the parameters of tool {name!r} cannot be described: {str(error).partition(chr(10))[0]}"


def _without_titles(schema: Schema) -> Schema:
    """Drop the title of the whole and titles that repeat a definition's name."""
    schema.pop("title", None)
    for name, definition in schema.get("$defs", {}).items():
        if definition.get("title") == name:
            del definition["title"]
    return schema


def _add_default(schema: Schema, p: inspect.Parameter, name: str) -> None:
    """Show the default where JSON can hold it."""
    if p.default is p.empty or isinstance(p.default, FieldInfo):
        return
    try:
        shown = to_jsonable_python(p.default, by_alias=True, bytes_mode="base64")
    except (PydanticSerializationError, TypeError):
        return  # a default that JSON cannot hold stays the function's own
    except (ValueError, RecursionError) as error:
        raise ToolDefinitionError(
            f"the default of parameter {p.name!r} of tool {name!r} contains itself. Use None and build it in the body."
        ) from error
    if shown == shown:  # not NaN
        schema["properties"][p.name]["default"] = shown


# -- annotations ------------------------------------------------------------------------------------------------


def _target(function: Any) -> Any:
    """The function whose annotations count: inside partials, wrappers, methods and callable objects."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    function = inspect.unwrap(function)
    if not (inspect.isroutine(function) or inspect.isclass(function)) and callable(function):
        function = type(function).__call__
    return getattr(function, "__func__", function)


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    target = _target(function)
    if inspect.isclass(target):
        target = target.__init__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:
        pass
    except Exception as error:
        raise ToolDefinitionError(f"the annotations of tool {name!r} cannot be read: {error}") from error
    try:
        return typing.get_type_hints(target, localns=_local_names(target), include_extras=True)
    except Exception as error:
        raise ToolDefinitionError(
            f"an annotation of tool {name!r} names something unknown: {error}. "
            "Import it at run time, not only under TYPE_CHECKING."
        ) from error


def _local_names(target: Any) -> dict[str, Any]:
    """Names visible where a function was written: its closure, then the frames that are defining the tool."""
    found: dict[str, Any] = {}
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - classes local to a function live nowhere else
    frames: list[Any] = []
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("ferrule."):
            frames.append(frame)
        frame = frame.f_back
    for f in reversed(frames[:3]):
        found.update(f.f_locals)
    cells = (
        zip(target.__code__.co_freevars, target.__closure__ or (), strict=False) if hasattr(target, "__code__") else ()
    )
    for key, cell in cells:
        try:
            found[key] = cell.cell_contents
        except ValueError:
            continue
    return found
