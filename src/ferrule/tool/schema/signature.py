"""One path from a Python signature to a JSON Schema and the check of arguments.

The parameters become the fields of a typed dict that pydantic reads: the names
may be anything, defaults stay the function's own, and arguments are checked
straight from their JSON text. Every consumer lowers the schema made here.
"""

from __future__ import annotations

import functools
import inspect
import json
import types
import warnings
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, cast, get_args, get_origin
from weakref import WeakKeyDictionary

import typing_extensions
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaValidator, to_jsonable_python

from ferrule.errors import ToolDefinitionError
from ferrule.lazy import LazyModule
from ferrule.strict_json import dumps, is_a, kind_of, parse
from ferrule.tool.schema.annotation import (
    first_sentence,
    hints_of,
    innermost,
    local_names,
    own_names,
    readable,
    refuse_streams,
)
from ferrule.tool.schema.arguments import EXACT, UNDECLARED, Fault, fault_of, refuse_taken, with_digits
from ferrule.tool.schema.docstring import About, parse_docstring
from ferrule.tool.schema.fillable import refuse_unfillable
from ferrule.tool.schema.flag import flag_schema, is_flag
from ferrule.tool.schema.reference import Schema
from ferrule.tool.schema.strict import base64_schema, strict_validator, takes_anything

if TYPE_CHECKING:
    from pydantic import fields as pydantic_fields
else:
    pydantic_fields = LazyModule("pydantic.fields")

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
        loose: Whether the text has to be read strictly besides: the check adds defaults of its own, so that the count
            of arguments proves nothing, or takes any value as its fast reader reads it.
        taken: Names that the function uses itself, so that none of its `**kwargs` can have them.
        exact: The schema with what becomes a Decimal marked, if anything does.
        undeclared: What is said of a name beside those it takes.

    Since 0.1.
    """

    schema: Schema
    validator: SchemaValidator
    injected: tuple[str, ...]
    description: str
    returns: Any
    loose: bool = False
    taken: frozenset[str] = frozenset()
    exact: Schema | None = None
    undeclared: str = "is not a parameter of this tool"

    def check(self, text: str | bytes) -> dict[str, Any]:
        """Checked arguments by name, as instances of their annotated types.

        Args:
            text: JSON text.

        Raises:
            JSONSyntaxError: It is no strict JSON.
            Fault: It does not fit.
        """
        given = text if self.exact is None else with_digits(self.exact, text)
        try:
            found: dict[str, Any] = self.validator.validate_json(given)
        except ValidationError as error:
            errors: list[Any] = error.errors(include_url=False, include_input=False)
        except Exception as error:  # validators of the user's classes may raise anything
            errors = [{"loc": (), "type": "", "msg": f"cannot be checked, a validator raised {kind_of(error)}"}]
        else:
            source = text if isinstance(text, str) else text.decode()
            if self.loose or source.count(":") != len(found) or "NaN" in source or "Infinity" in source:
                self._parsed(source)  # the fast reader takes NaN, and the last of duplicate keys
            if self.taken:
                refuse_taken(self.taken, self._parsed(source))
            return found
        data = self._parsed(text)  # says what and where, if it is the JSON that is wrong
        raise Fault(fault_of(e, data, self.undeclared) for e in errors)

    def _parsed(self, text: str | bytes) -> Any:
        """The JSON value, read strictly."""
        return parse(text, exact=self.exact is not None)


# -- reading a function -----------------------------------------------------------------------------------------


class _Lean(GenerateJsonSchema):
    """Without titles made from names: they repeat what the model sees anyway."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> Any:
        made = super().default_schema(schema)
        return made if _is_json(schema.get("default")) else {k: v for k, v in made.items() if k != "default"}

    def encode_default(self, dft: Any) -> Any:
        return _plain(dft, self._bytes())

    def _bytes(self) -> Any:
        """How the class around says that its bytes are read, else base64."""
        return self._config.config_dict.get("val_json_bytes", "base64")

    def bytes_schema(self, schema: Any) -> Any:
        return base64_schema(schema) if self._bytes() == "base64" else super().bytes_schema(schema)

    def timedelta_schema(self, schema: Any) -> Any:
        return {"anyOf": [{"type": "number", "description": "Seconds."}, {"type": "string", "format": "duration"}]}

    def enum_schema(self, schema: Any) -> Any:
        return flag_schema(schema["cls"]) if is_flag(schema["cls"]) else super().enum_schema(schema)

    def decimal_schema(self, schema: Any) -> Any:
        made = super().decimal_schema(schema)  # before pydantic 2.14 with a pattern that forbids exponents
        return {"anyOf": [{k: v for k, v in option.items() if k != "pattern"} for option in made["anyOf"]]}


class _Marking(_Lean):
    """Marks both alternatives of a Decimal."""

    def decimal_schema(self, schema: Any) -> Any:
        made = super().decimal_schema(schema)
        return {"anyOf": [{**option, EXACT: True} for option in made["anyOf"]]}


class _Shown:
    """A default that the schema tells and the check leaves to the function."""

    def __init__(self, default: Any) -> None:
        self.default = default

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Schema:
        return {**handler(core), "default": self.default}


def _is_json(value: Any) -> bool:
    try:
        parse(json.dumps(_plain(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError):  # NaN, infinity, a lone surrogate, an object
        return False
    return True


def _plain(default: Any, bytes_mode: Any = "base64") -> Any:
    """JSON of a default, sets in the same order in every process, so that providers find the tool in their caches."""
    shown = to_jsonable_python(default, by_alias=True, bytes_mode=bytes_mode)
    if not is_a(default, Set):
        return shown
    try:
        return sorted(shown)
    except TypeError:  # kinds that do not compare
        return sorted(shown, key=dumps)


_known: WeakKeyDictionary[Any, dict[tuple[type, str, bool], Signature]] = WeakKeyDictionary()


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
    bound = inspect.ismethod(function)
    owner = function.__func__ if bound else function  # methods are made anew at each access
    try:
        known = _known.setdefault(owner, {})
    except TypeError:  # neither hashable nor weakly held
        known = {}
    key = (context, name, bound)
    if key not in known:
        known[key] = _read(function, context, name)
    return known[key]


def read_around(
    function: Callable[..., Any], context: type, name: str
) -> tuple[tuple[str, ...], frozenset[str], str, Any]:
    """What a function says besides its arguments, for a tool whose schema is given.

    Args:
        function: Any callable.
        context: The class whose annotation asks for injection.
        name: The tool's name, for errors.

    Returns:
        Names of the parameters that get the context, names that no argument can have, the description, and the return
        annotation.

    Raises:
        ToolDefinitionError: The signature cannot be read.

    Since 0.1.
    """
    parameters = _parameters(function, name)
    try:
        hints = _all_hints(function, parameters, name)
    except ToolDefinitionError:  # the given schema may be there because the annotations cannot be read
        hints = {}
    injected = tuple(p.name for p in parameters if p.name in hints and _is_context(hints[p.name], context))
    taken = own_names(function) - {p.name for p in parameters if p.name not in injected}
    description = _about(function, parameters, name).description
    return injected, taken, description, hints.get("return", inspect.Signature.empty)


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(
            f"the signature of tool {name!r} cannot be read. Wrap it in a Python function."
        ) from error
    return parameters[1:] if parameters and _is_self(parameters[0], function) else parameters


def _all_hints(function: Callable[..., Any], parameters: list[inspect.Parameter], name: str) -> dict[str, Any]:
    hints = {p.name: p.annotation for p in parameters if p.annotation is not p.empty} | hints_of(function, name)
    if getattr(innermost(function), "__name__", "") == "__init__":  # it returns None, and the class an object
        hints.pop("return", None)
    return hints


def _about(function: Callable[..., Any], parameters: list[inspect.Parameter], name: str) -> About:
    while isinstance(function, functools.partial):
        function = function.func
    return parse_docstring(inspect.getdoc(function) or "", {p.name for p in parameters}, name)


def _read(function: Callable[..., Any], context: type, name: str) -> Signature:
    parameters = _parameters(function, name)
    hints = _all_hints(function, parameters, name)
    about = _about(function, parameters, name)
    injected: list[str] = []
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for p in parameters:
        annotation = _annotation(p, hints, name)
        if p.kind is _KINDS.VAR_KEYWORD:
            extra[p.name] = annotation
        elif _is_context(annotation, context):
            injected.append(p.name)
        else:
            fields[p.name] = _field(p, annotation, about.parameters.get(p.name), name)
    schema, validator, exact, loose = _compile(fields, extra, name, function)
    returns = hints.get("return", inspect.Signature.empty)
    optional = sum(get_origin(f) is typing_extensions.NotRequired for f in fields.values())
    loose = loose or optional + len(schema.get("required", ())) < len(fields)
    taken = own_names(function) - set(schema["properties"]) if extra else frozenset[str]()
    return Signature(schema, validator, tuple(injected), about.description, returns, loose, taken, exact)


def _annotation(p: inspect.Parameter, hints: Mapping[str, Any], tool: str) -> Any:
    where = f"parameter {p.name!r} of tool {tool!r}"
    if p.kind is _KINDS.POSITIONAL_ONLY:
        raise ToolDefinitionError(f"{where} is positional-only, but arguments come by name. Remove the '/' after it.")
    if p.kind is _KINDS.VAR_POSITIONAL:
        raise ToolDefinitionError(
            f"{where} collects positional arguments, which come by name. Use a list parameter instead."
        )
    if p.name in hints:
        try:
            refuse_streams(hints[p.name])
            return readable(hints[p.name])
        except Exception as error:  # a TypedDict's own annotations may be any expressions
            raise ToolDefinitionError(f"{where} cannot be described: {first_sentence(error)}") from error
    if p.kind is _KINDS.VAR_KEYWORD:
        return Any
    raise ToolDefinitionError(
        f"{where} has no annotation. Annotate it, for example {p.name}: int, or pass schema= to @tool."
    )


def _is_self(p: inspect.Parameter, function: Any) -> bool:
    """Whether a function written in a class body takes its instance first."""
    inside = getattr(function, "__qualname__", "").rpartition(".")[0]
    written_in_class = bool(inside) and not inside.endswith("<locals>")
    return inspect.isfunction(function) and written_in_class and p.name in ("self", "cls")


def _is_context(annotation: Any, context: type) -> bool:
    annotation = getattr(annotation, "__value__", annotation)  # of an alias made by `type`
    if get_origin(annotation) in (Annotated, Union, types.UnionType):
        return any(_is_context(a, context) for a in get_args(annotation))
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, context)


def _field(p: inspect.Parameter, annotation: Any, description: str | None, tool: str) -> Any:
    """The parameter as a field of the typed dict; a plain default stays the function's own."""
    given = p.default if isinstance(p.default, pydantic_fields.FieldInfo) else None
    known = [m for m in (*getattr(annotation, "__metadata__", ()), given) if isinstance(m, pydantic_fields.FieldInfo)]
    metadata: list[Any] = [] if given is None else [given]
    if description and not any(m.description for m in known):
        metadata.append(pydantic_fields.Field(description=description))
    own = p.default is not p.empty and given is None
    if own and any(not m.is_required() for m in known):  # it wins over the one in the annotation, as in a model
        metadata.append(pydantic_fields.Field(default=p.default))
        own = False
    elif own:
        metadata += _shown(p, tool)
    described = functools.reduce(lambda a, m: Annotated[a, m], metadata, annotation)
    return typing_extensions.NotRequired[described] if own else described


def _shown(p: inspect.Parameter, tool: str) -> list[_Shown]:
    """The default as metadata for the schema, where JSON can hold it."""
    try:
        shown = _plain(p.default)
    except (PydanticSerializationError, TypeError):
        return []  # a default that JSON cannot hold stays the function's own
    except (ValueError, RecursionError) as error:
        raise ToolDefinitionError(
            f"the default of parameter {p.name!r} of tool {tool!r} contains itself. Use None and build it in the body."
        ) from error
    return [_Shown(shown)] if _is_json(shown) else []


class _Described(NamedTuple):
    """A type as JSON Schema and as a check, and what a Signature keeps besides."""

    schema: Schema
    validator: SchemaValidator
    exact: Schema | None
    loose: bool


def _compile(fields: dict[str, Any], extra: dict[str, Any], name: str, function: Any) -> _Described:
    try:
        return _describe(fields, extra, name, function)
    except Exception as error:  # whatever the annotations' own hooks raise: one that cannot be described is refused
        raise ToolDefinitionError(_why({**fields, **extra}, name, function, error)) from error


def _mentions(schema: Any, key: str) -> bool:
    found = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    inner = found.values() if found else cast("list[Any]", schema) if isinstance(schema, list) else ()
    return key in found or any(_mentions(s, key) for s in inner)


def _describe(fields: dict[str, Any], extra: dict[str, Any], name: str, function: Any) -> _Described:
    config = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64", allow_inf_nan=False)
    if extra:
        table = cast("Any", typing_extensions.TypedDict)(name, fields, extra_items=next(iter(extra.values())))
    else:
        table = cast("Any", typing_extensions.TypedDict)(name, fields)
        config["extra"] = "forbid"
    table.__pydantic_config__ = config
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic warns of defaults that JSON cannot hold
        adapter: TypeAdapter[Any] = TypeAdapter(table)
        if not adapter.pydantic_complete:  # a class's own annotations name classes local to a function
            adapter.rebuild(force=True, _types_namespace=local_names(innermost(function)))
        made = _described(adapter)
    if "properties" not in made.schema:
        raise TypeError("its type stands for all parameters")  # typing.Self
    if len(made.schema["properties"]) < len(fields):
        raise TypeError("two of them share an alias")
    return made


def _described(adapter: TypeAdapter[Any]) -> _Described:
    """The schema to show, the check, and the schema with what becomes a Decimal marked, if anything does."""
    schema, exact = adapter.json_schema(schema_generator=_Marking), None
    if _mentions(schema, EXACT):
        schema, exact = adapter.json_schema(schema_generator=_Lean), schema
    core = adapter.core_schema
    refuse_unfillable(core)
    return _Described(_without_titles(schema), strict_validator(core), exact, takes_anything(core))


def is_field(default: object) -> bool:
    """Whether a default is pydantic's word for a field and no value.

    Args:
        default: The default of a parameter.

    Since 0.1.
    """
    return isinstance(default, pydantic_fields.FieldInfo)


def read_type(annotation: Any, name: str) -> tuple[Signature, bool]:
    """Describe the JSON of one value, as the parameters of a function are described.

    Args:
        annotation: Any annotation that a parameter may have.
        name: What the value is, for errors.

    Returns:
        Schema and check, and whether the value is wrapped: one that is no object is the property `result` of one.

    Raises:
        ToolDefinitionError: JSON cannot describe it.

    Since 0.1.
    """
    try:
        refuse_streams(annotation)
        annotation = readable(annotation)
        made = _described(TypeAdapter(annotation))
        wrapped = "properties" not in made.schema
        if wrapped:
            made = _describe({"result": annotation}, {}, "Result", None)
    except Exception as error:  # whatever the annotation's own hooks raise
        raise ToolDefinitionError(f"{name} cannot be described as JSON: {first_sentence(error)}") from error
    read = Signature(made.schema, made.validator, (), "", annotation, True, exact=made.exact, undeclared=UNDECLARED)
    return read, wrapped


def _why(fields: dict[str, Any], name: str, function: Any, error: Exception) -> str:
    """Name the first parameter that cannot be described alone."""
    for parameter, annotation in fields.items():
        try:
            _describe({parameter: annotation}, {}, name, function)
        except Exception as alone:  # any complaint about this one parameter is the one to show
            return (
                f"parameter {parameter!r} of tool {name!r} cannot be described: {first_sentence(alone)} "
                "Use a type that JSON can carry, or pass schema= to @tool."
            )
    return f"the parameters of tool {name!r} cannot be described together: {first_sentence(error)}"


def _without_titles(schema: Schema) -> Schema:
    """Drop the title of the whole and titles that repeat a definition's name."""
    schema.pop("title", None)
    for name, definition in schema.get("$defs", {}).items():
        if definition.get("title") == name:
            del definition["title"]
    return schema
