"""Tools: a class to subclass, and a decorator for functions.

A definition is immutable; all state of a call lives in the call, so one tool
serves a thousand runs at once.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, MutableSequence, MutableSet
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, ParamSpec, TypeVar, cast, overload

from ferrule.errors import ToolDefinitionError
from ferrule.result import ToolResult
from ferrule.strict_json import clean
from ferrule.tool.body.attempt import Runs, how_it_runs
from ferrule.tool.context import Context
from ferrule.tool.invoke import invoke, invoke_check, invoke_preview
from ferrule.tool.names import wire_name
from ferrule.tool.output import OutputCheck, output_check
from ferrule.tool.schema.arguments import Parameters, SchemaParameters
from ferrule.tool.schema.reference import Schema
from ferrule.tool.schema.signature import is_field, read_around, read_signature

Effect = Literal["read", "idempotent", "once"]
EFFECTS: Final = ("read", "idempotent", "once")
# A tool that says nothing is taken to be `once`: equal to the word, and told apart from a declared one by identity.
UNDECLARED: Final = cast("Effect", "".join(("on", "ce")))
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What a model, a person or another program is told about a tool.

    Args:
        name: The tool's name.
        description: What it does.
        parameters: JSON Schema of its arguments; `{}` takes any. A map from name to `{"type", "required"}` is read too.

    Since 0.1.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def schema(self) -> Schema:
        """The parameters as a JSON Schema, an object."""
        return _schema_from(self.parameters, self.name) or {"type": "object"}


def _schema_of(parameters: Mapping[str, Any]) -> Schema:
    if not parameters:
        return {"type": "object"}
    if not all(map(_has_type, parameters.values())):
        return dict(parameters)
    named = cast("Mapping[str, Mapping[str, Any]]", parameters)
    properties = {n: {k: v for k, v in p.items() if k != "required"} for n, p in named.items()}
    return {"type": "object", "properties": properties, "required": [n for n, p in named.items() if p.get("required")]}


def _schema_from(given: Any, name: str) -> Schema | None:
    """The schema that was given for a tool, or None for any arguments."""
    if given is None or isinstance(given, Mapping):
        return None if given is None else _schema_of(cast("Mapping[str, Any]", given))
    if isinstance(given, ToolDefinition):
        return given.schema
    raise ToolDefinitionError(
        f"the schema of tool {name!r} is {type(given).__name__}. Give a ToolDefinition or a JSON Schema, a dict."
    )


def _has_type(value: Any) -> bool:
    """Whether it says of which type a parameter is; a property that is named `type` says no such thing."""
    return isinstance(value, Mapping) and isinstance(cast("Mapping[str, Any]", value).get("type"), str | list)


def _is_seconds(v: Any) -> bool:
    return isinstance(v, int | float) and not isinstance(v, bool) and (0 < v < _NO_FLOAT or v == math.inf)


def _is_count_or_none(low: int) -> Callable[[Any], bool]:
    return lambda v: v is None or (isinstance(v, int) and not isinstance(v, bool) and v >= low)


def _is_callable_or_none(v: Any) -> bool:
    return v is None or callable(v)


_NO_FLOAT = 2**1023  # from here on an integer may be none
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "effect": (lambda v: v in EFFECTS, "one of read, idempotent, once"),
    "timeout": (_is_seconds, "seconds, above 0"),
    "approval": (lambda v: isinstance(v, bool) or callable(v), "True, False or a callable"),
    "preview": (_is_callable_or_none, "a callable or None"),
    "check": (_is_callable_or_none, "a callable or None"),
    "on_unknown": (lambda v: v in (None, "ask", "fail"), "'ask', 'fail' or None"),
    "retries": (_is_count_or_none(0), "a count from 0, or None"),
    "concurrency": (_is_count_or_none(1), "a count from 1, or None"),
    **dict.fromkeys(("serial", "thread", "omit_blank", "process"), (lambda v: isinstance(v, bool), "True or False")),
    "max_output": (_is_count_or_none(1), "a number of characters, or None"),
}


def _check_declaration(name: str, given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        fits, wanted = _CHECKS[key]
        if not fits(value):
            is_short = isinstance(value, str | float | None) or (isinstance(value, int) and value.bit_length() < 100)
            shown = repr(value) if is_short else type(value).__name__
            raise ToolDefinitionError(f"{key} of tool {name!r} is {shown}. Use {wanted}.")


class Tool(ABC):
    """Something callable with a name, a description, a schema and an effect class.

    Subclass it with `name`, `description`, `definition` and `execute`, or put
    `@tool` on a function. The attributes below are the declaration; override
    what differs.

    Since 0.1.
    """

    effect: Effect = UNDECLARED
    timeout: float = 60.0
    approval: bool | Callable[[dict[str, Any]], Any] = False
    preview: Callable[[Context[Any], dict[str, Any]], Any] | None = None
    check: Callable[[Context[Any], dict[str, Any]], Any] | None = None
    on_unknown: Literal["ask", "fail"] | None = None
    retries: int | None = None
    concurrency: int | None = None
    serial: bool = False
    max_output: int | None = 50_000
    output_schema: Any = None
    thread: bool = True
    omit_blank: bool = False
    # Parameters that get the context; None for class tools, which always do.
    injected: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the declaration when the class is written."""
        super().__init_subclass__(**kwargs)
        given = {k: v for k in _CHECKS if not hasattr(v := getattr(cls, k, False), "__get__")}
        _check_declaration(cls.__name__, given)
        if given.get("process") is True:
            raise ToolDefinitionError(
                f"class tool {cls.__name__!r} is given a context, which cannot follow into a process of its own. "
                "Put @tool(process=True) on a function."
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """The tool's name."""

    @property
    def description(self) -> str:
        """What the tool does, for the model; default the class docstring."""
        return inspect.cleandoc(type(self).__doc__ or "")

    @property
    def definition(self) -> ToolDefinition | Mapping[str, Any] | None:
        """Its definition, a JSON Schema of its arguments, or None for any arguments."""
        return None

    @abstractmethod
    def execute(self, context: Any) -> Any:
        """Do the work; sync or async. Arguments are in `context.variables`.

        Args:
            context: The call's `Context`.

        Returns:
            A ToolResult, or anything that `ToolResult.ok` takes.
        """

    def call(
        self, arguments: Mapping[str, Any] | str | bytes | None = None, context: Context[Any] | None = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call the tool: parse, validate, deadline, execute, normalise, bound.

        Args:
            arguments: A mapping or JSON text; None, blank and `null` equal `{}`.
            context: The run's context; default a new one.

        Returns:
            The result; every failure of the tool is one, an exception never.

        Raises:
            UsageError: `arguments` is neither a mapping nor text, or `context` is no Context.
        """
        return invoke(self, arguments, context)

    def call_preview(
        self, arguments: Mapping[str, Any] | str | bytes | None = None, context: Context[Any] | None = None
    ) -> Coroutine[Any, Any, ToolResult | None]:
        """What a person is shown before the call, or None when the tool has no preview.

        Args:
            arguments: As for `call`.
            context: As for `call`.
        """
        return invoke_preview(self, arguments, context)

    def call_check(
        self, arguments: Mapping[str, Any] | str | bytes | None = None, context: Context[Any] | None = None
    ) -> Coroutine[Any, Any, ToolResult | None]:
        """What came of a call whose outcome is unknown; None when it did not happen, or without a check.

        A check says that it did not happen by None or False; True, a ToolResult and any other value say that it did.

        Args:
            arguments: As for `call`.
            context: As for `call`, with the same call id and effect key.
        """
        return invoke_check(self, arguments, context)

    @functools.cached_property
    def parameters(self) -> Parameters:
        """What the tool takes: a schema and its check."""
        return SchemaParameters(_schema_from(self.definition, self.name), self.name)

    @functools.cached_property
    def output_check(self) -> OutputCheck | None:
        """The check of a successful value, if the tool declares an output."""
        return output_check(self.output_schema, inspect.Signature.empty, self.name)

    @functools.cached_property
    def runs(self) -> Runs:
        """How the body is run."""
        return how_it_runs(self.execute, thread=self.thread, process=False)

    @property
    def wire_name(self) -> str:
        """The name that providers see."""
        return wire_name(self.name)

    @property
    def declares_effect(self) -> bool:
        """Whether somebody chose the effect class."""
        return self.effect is not UNDECLARED

    @property
    def max_retries(self) -> int:
        """Most further attempts on retryable failures: 0 for `once`, 2 for others unless declared."""
        return self.retries if self.retries is not None else 0 if self.effect == "once" else 2

    def whole(self, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the body will see them, its own defaults included: what a person decides about.

        Args:
            values: Checked arguments by name.
        """
        return values

    def start(self, values: dict[str, Any], context: Context[Any] | None) -> Any:
        """Begin the body; used by the checked path, not by callers.

        Args:
            values: Checked arguments by name.
            context: The call's context; class tools always get one.
        """
        return self.execute(context)

    def __repr__(self) -> str:
        """Name and effect class."""
        return f"<{type(self).__name__} {self.name!r} effect={self.effect}>"


@dataclass(frozen=True, eq=False, repr=False)
class FunctionTool(Tool, Generic[P, R]):
    """A tool made from a function; called as a function it is that function.

    Args:
        function: Sync or async; its annotations make the schema.
        name: Default the function's name.
        description: Default the docstring without its parameter block.
        effect: `read`: no effect outside; `idempotent`: repeating with the same key is harmless; `once`: never repeated
            without proof or a decision.
        timeout: Seconds per attempt; holds for the caller.
        approval: True, or a function of a dict of the checked arguments: a run suspends before the call.
        preview: `(context, arguments)` to a ToolResult that shows a person what would happen.
        check: `(context, arguments)` to what came of it: a ToolResult or True; None or False when it did not happen.
        on_unknown: When nobody knows whether it happened: `"ask"` a person or `"fail"`; default by the kind of run.
        retries: Further attempts on retryable failures; default 0 for `once`, 2 for others.
        concurrency: Calls at a time over all runs of an event loop; default unlimited.
        serial: Whether calls of one turn run one after another.
        max_output: Characters of model-visible text; None lifts the cap.
        output_schema: A type or JSON Schema of the value; default the return annotation.
        thread: Whether a sync function runs in a worker thread, context variables copied.
        process: Whether a sync function runs in a child process, which a deadline really ends.
        omit_blank: Whether `""` for an optional parameter that is not free text counts as absent.
        schema: JSON Schema of the arguments, in place of the annotations.

    Raises:
        ToolDefinitionError: The function or the declaration cannot make a tool.

    Since 0.1.
    """

    function: Callable[P, R]
    name: str = ""  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - settled in __post_init__
    description: str = ""  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    effect: Effect = Tool.effect
    timeout: float = Tool.timeout
    approval: bool | Callable[[dict[str, Any]], Any] = Tool.approval
    preview: Callable[[Context[Any], dict[str, Any]], Any] | None = Tool.preview
    check: Callable[[Context[Any], dict[str, Any]], Any] | None = Tool.check
    on_unknown: Literal["ask", "fail"] | None = Tool.on_unknown
    retries: int | None = Tool.retries
    concurrency: int | None = Tool.concurrency
    serial: bool = Tool.serial
    max_output: int | None = Tool.max_output
    output_schema: Any = Tool.output_schema
    thread: bool = Tool.thread
    omit_blank: bool = Tool.omit_blank
    process: bool = False
    schema: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Read the signature and check the declaration."""
        if not callable(self.function):
            raise ToolDefinitionError(f"{type(self.function).__name__} makes no tool. Give @tool a function.")
        for key in ("name", "description"):
            if not isinstance(getattr(self, key), str | None):
                raise ToolDefinitionError(f"the {key} of a tool must be text, not {type(getattr(self, key)).__name__}.")
        name = self.name or getattr(self.function, "__name__", "")
        if not name or name == "<lambda>":
            raise ToolDefinitionError("a tool needs a name. Pass name= to @tool.")
        object.__setattr__(self, "name", name)
        _check_declaration(name, {k: getattr(self, k) for k in _CHECKS})
        if self.schema is None:
            read = read_signature(self.function, Context, name)
            self._settle(read, read.injected, read.returns, read.description)
        else:
            injected, taken, about, returns = read_around(self.function, Context, name)
            self._settle(SchemaParameters(_schema_from(self.schema, name), name, taken), injected, returns, about)

    def _settle(self, parameters: Parameters, injected: tuple[str, ...], returns: Any, about: str) -> None:
        """Keep what follows from the declaration, so that no call works it out again."""
        if self.process:
            self._check_process(injected)
        for key, value in {
            "description": clean(self.description or about),
            "parameters": parameters,
            "injected": injected,
            "output_check": output_check(self.output_schema, returns, self.name),
            "runs": how_it_runs(self.function, thread=self.thread, process=self.process),
            "__doc__": self.function.__doc__,
            "__module__": self.function.__module__,
            "__wrapped__": self.function,
        }.items():
            object.__setattr__(self, key, value)
        for name, default in self._own.items():
            try:
                copy.deepcopy(default)
            except Exception as error:  # whatever the objects' own code raises
                raise ToolDefinitionError(
                    f"the default of parameter {name!r} of tool {self.name!r} cannot be copied for each call. "
                    "Use None and build it in the body."
                ) from error

    @functools.cached_property
    def _defaults(self) -> dict[str, Any]:
        signature = inspect.signature(self.function)
        own = {p.name: p.default for p in signature.parameters.values() if p.default is not p.empty}
        return {name: default for name, default in own.items() if not is_field(default)}

    @functools.cached_property
    def _own(self) -> dict[str, Any]:
        """Defaults that a call could change, so that each call needs its own."""
        function = inspect.unwrap(self.function)
        if inspect.isfunction(function):  # most have none, and to read a signature is dear
            written = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            if not any(map(_is_mutable, written)):
                return {}
        return {name: default for name, default in self._defaults.items() if _is_mutable(default)}

    @functools.cached_property
    def _prepares(self) -> bool:
        """Whether a call passes more than its arguments."""
        return bool(self.injected or self._own)

    def _fresh(self, values: dict[str, Any]) -> dict[str, Any]:
        return {**{name: copy.deepcopy(d) for name, d in self._own.items() if name not in values}, **values}

    def whole(self, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the function's own defaults for those that were not given.

        Args:
            values: Checked arguments by name.
        """
        known = self.parameters.schema.get("properties", {})
        return {**{n: d for n, d in self._defaults.items() if n in known}, **self._fresh(values)}

    def _check_process(self, injected: tuple[str, ...]) -> None:
        what = f"tool {self.name!r} runs in a process of its own"
        if injected:
            raise ToolDefinitionError(f"{what}, where parameter {injected[0]!r} cannot follow. Leave the context out.")
        if "<locals>" in getattr(self.function, "__qualname__", "<locals>"):
            raise ToolDefinitionError(f"{what}, so its function must stand at the top level of a module.")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, unchecked."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R]:
        """A tool of the bound method, for `@tool` in a class body."""
        if instance is None or not inspect.isfunction(self.function):
            return self
        bound = copy.copy(self)
        object.__setattr__(bound, "function", self.function.__get__(instance, owner))
        return cast("FunctionTool[..., R]", bound)

    @property
    def definition(self) -> ToolDefinition:
        """Name, description and schema."""
        return ToolDefinition(self.name, self.description, self.parameters.schema)

    def execute(self, context: Any) -> Any:
        """Call the function with what it names among `context.variables`.

        Args:
            context: A `Context`.
        """
        known = self.parameters.schema.get("properties", {})
        values = {k: v for k, v in context.variables.items() if k in known}
        return self.start(values, context)

    def start(self, values: dict[str, Any], context: Context[Any] | None) -> Any:
        """Call the function with checked arguments.

        Args:
            values: Checked arguments by name.
            context: Goes to the parameters annotated `Context`.
        """
        if self._prepares:
            values = {**self._fresh(values), **dict.fromkeys(self.injected or (), context)}
        return self.function(**values)  # pyright: ignore[reportCallIssue] - checked against the same signature


def _is_mutable(default: Any) -> bool:
    if isinstance(default, tuple):
        return any(map(_is_mutable, cast("tuple[Any, ...]", default)))
    cls = cast("Any", type(default))
    is_made_of_fields = dataclasses.is_dataclass(cls) or hasattr(cls, "__pydantic_fields__")
    return is_made_of_fields or isinstance(default, MutableSequence | MutableMapping | MutableSet)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str = ...,
    description: str = ...,
    effect: Effect = ...,
    timeout: float = ...,
    approval: bool | Callable[[dict[str, Any]], bool | Awaitable[bool]] = ...,
    preview: Callable[[Any, Any], Any] | None = ...,
    check: Callable[[Any, Any], Any] | None = ...,
    on_unknown: Literal["ask", "fail"] | None = ...,
    retries: int | None = ...,
    concurrency: int | None = ...,
    serial: bool = ...,
    max_output: int | None = ...,
    output_schema: Any = ...,
    thread: bool = ...,
    process: bool = ...,
    omit_blank: bool = ...,
    schema: Mapping[str, Any] | None = ...,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Any = None, /, **declaration: Any) -> Any:
    """Make a tool of a function, bare or with a declaration.

    Args:
        function: The function, when used without parentheses.
        declaration: The arguments of `FunctionTool` after the function, by name.

    Returns:
        The tool, or a decorator that makes it.

    Raises:
        ToolDefinitionError: The function or the declaration cannot make a tool.

    Since 0.1.
    """
    if function is None:
        return lambda f: FunctionTool(f, **declaration)  # pyright: ignore
    return FunctionTool(function, **declaration)
