"""What is written at a function: its annotations, resolved, whatever it is wrapped in."""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from typing import Annotated, Any, cast, get_args, get_origin

import typing_extensions
from typing_extensions import Format, get_annotations

from ferrule.errors import ToolDefinitionError


def readable(annotation: Any) -> Any:
    """The annotation with what pydantic does not take, or not at once, exchanged for its equal.

    `Iterable` becomes a list, so that its items are checked before the call;
    before Python 3.12, a TypedDict of `typing` becomes one of `typing_extensions`.

    Args:
        annotation: Any annotation; both are found at any depth of it.

    Since 0.1.
    """
    return _exchange(annotation, {})


_STREAMS = (Generator, Iterator, AsyncGenerator, AsyncIterator, AsyncIterable)


def refuse_streams(annotation: Any) -> None:
    """Refuse what can be read only once, or only by waiting: arguments are there before the call, and read again.

    Args:
        annotation: Any annotation; a stream is found at any depth of it.

    Raises:
        TypeError: Saying what to use instead.

    Since 0.1.
    """
    kind, args = get_origin(annotation) or annotation, get_args(annotation)
    name = next((s.__name__ for s in _STREAMS if kind is s), None)
    if name is not None:
        instead = f"list[{inspect.formatannotation(args[0])}]" if args else "list"
        raise TypeError(f"JSON holds no {name}, only arrays: use {instead}")
    for inner in args:
        refuse_streams(inner)


def _exchange(annotation: Any, made: dict[Any, Any]) -> Any:
    if sys.version_info < (3, 12) and type(annotation).__module__ == "typing" and typing.is_typeddict(annotation):
        return made[annotation] if annotation in made else _typed_dict(annotation, made)
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in (Iterable, typing.Iterable):
        return list
    if origin is Annotated:
        return Annotated[(_exchange(args[0], made), *args[1:])]
    new: tuple[Any, ...] = tuple(_exchange(a, made) for a in args)
    if origin is Iterable:
        return list[new]
    if new == args:
        return annotation
    if origin is types.UnionType:
        return functools.reduce(lambda a, b: a | b, new)
    return origin[new[0] if len(new) == 1 else new]


def _typed_dict(table: Any, made: dict[Any, Any]) -> Any:
    """The same TypedDict by `typing_extensions`; made empty at first, since it may refer to itself."""
    new: Any = cast("Any", typing_extensions.TypedDict)(table.__name__, {})
    made[table] = new
    new.__doc__, new.__module__ = table.__doc__, table.__module__
    new.__required_keys__, new.__optional_keys__ = table.__required_keys__, table.__optional_keys__
    try:
        hints = typing.get_type_hints(table, include_extras=True)
    except NameError:
        hints = typing.get_type_hints(table, None, local_names(table), include_extras=True)
    new.__annotations__ = {key: _exchange(a, made) for key, a in hints.items()}
    return new


def _layers(function: Any) -> Iterator[Any]:
    """A callable and what it calls in turn: inside partials, wrappers, methods and callable objects."""
    while True:
        yield function
        if isinstance(function, functools.partial):
            function = cast("functools.partial[Any]", function).func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif inspect.isclass(function):
            yield function.__init__
            return
        elif inspect.isroutine(function):
            return
        else:
            function = type(function).__call__


def innermost(function: Any) -> Any:
    """The function whose annotations count.

    Args:
        function: Any callable.

    Since 0.1.
    """
    return list(_layers(function))[-1]


def own_names(function: Any) -> frozenset[str]:
    """Names of all parameters on the way to the body: also `self`, the context, and what wrappers and partials fill.

    Args:
        function: Any callable.

    Since 0.1.
    """
    codes = [layer.__code__ for layer in _layers(function) if inspect.isfunction(layer)]
    return frozenset(
        name for c in codes for name in c.co_varnames[c.co_posonlyargcount : c.co_argcount + c.co_kwonlyargcount]
    )


def hints_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """The annotations of a callable by name, `return` among them, with what they name in place of text.

    Args:
        function: Any callable.
        name: The tool's name, for errors.

    Raises:
        ToolDefinitionError: One that cannot be read.

    Since 0.1.
    """
    target = innermost(function)
    try:
        # `typing` shares `Optional["Order"]` between modules, and with it what that stood for in the first of them;
        # not where names of its own are given.
        return typing.get_type_hints(target, None, {}, include_extras=True)
    except Exception:  # an annotation may be any expression; alone, each tells whose fault it is
        pass
    found: dict[str, Any] = {}
    written = get_annotations(target, format=Format.FORWARDREF)
    for key, annotation in written.items():
        try:
            found[key] = _resolve(annotation, target)
        except Exception as error:
            whose = "the return annotation" if key == "return" else f"the annotation of parameter {key!r}"
            raise ToolDefinitionError(
                f"{whose} of tool {name!r} cannot be read: {first_sentence(error)} "
                "Define or import what it names before the tool, not only under TYPE_CHECKING."
            ) from error
    return found


def _resolve(annotation: Any, target: Any) -> Any:
    def alone() -> None: ...

    alone.__annotations__ = {"it": annotation}
    names = getattr(target, "__globals__", {})
    return typing.get_type_hints(alone, names, local_names(target), include_extras=True)["it"]


def local_names(target: Any) -> dict[str, Any]:
    """Names visible where a function was written: its closure, then the frames that are defining the tool.

    What its module or Python itself has under a name stands before what a
    frame has under it that is not around the function: a caller's own names.

    Args:
        target: A function or class.

    Since 0.1.
    """
    found: dict[str, Any] = {}
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - classes local to a function live nowhere else
    frames: list[Any] = []
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("ferrule."):
            frames.append(frame)
        frame = frame.f_back
    module = vars(sys.modules.get(getattr(target, "__module__", ""), builtins))
    known = {*vars(builtins), *getattr(target, "__globals__", module)}
    for f in reversed(frames[:3]):
        is_around = getattr(target, "__qualname__", "").startswith(f.f_code.co_qualname + ".")
        found.update({k: v for k, v in f.f_locals.items() if is_around or k not in known})
    cells = (
        zip(target.__code__.co_freevars, target.__closure__ or (), strict=False) if hasattr(target, "__code__") else ()
    )
    for key, cell in cells:
        try:
            found[key] = cell.cell_contents
        except ValueError:
            continue
    return found


def first_sentence(error: Exception) -> str:
    """The first sentence of an error's text.

    Args:
        error: Any error.

    Since 0.1.
    """
    return str(error).partition("\n")[0].partition(". ")[0].rstrip(".") + "."
