"""What a body gives, until it is a value that can be described.

A value is awaited, or run to its end. Describing it may run code of whoever
wrote its class, which takes the time it likes: a lazy sequence asks a database
for each item, a proxy the network for each attribute. That must not hold the
event loop.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from enum import Enum
from functools import lru_cache, partial
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.lazy import LazyModule
from ferrule.strict_json import is_a
from ferrule.tool.body.thread import POOL

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

AWAITABLE: type[Awaitable[Any]] = cast("Any", Awaitable)
GENERATOR: type[Generator[Any, Any, Any]] = GeneratorType
_STREAM: type[AsyncGenerator[Any, Any]] = AsyncGeneratorType

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_ARE_SCALARS: Final = _SCALARS.issuperset
_MOST: Final = 100_000  # items of a container, and containers, that are looked at
_LISTS: Final = (list, tuple, set, frozenset, deque)
_TRUSTED: Final = frozenset(
    {"builtins", "collections", "datetime", "decimal", "enum", "pathlib", "pydantic", "pydantic_core", "typing", "uuid"}
)
# What is called of an object to describe it
_HOOKS: Final = ("__iter__", "__getitem__", "__getattr__", "__getattribute__", "items", "value")
# What is asked of an error to describe and to classify it: what goes into the text, and the rest
_TOLD: Final = (
    *("response", "status_code", "status", "errno", "strerror", "filename", "filename2", "msg", "lineno", "encoding"),
    *("reason", "message"),
)
_ASKED: Final = (
    *("__str__", "__repr__", "__getattr__", "__getattribute__", "args", "exceptions"),
    *("__cause__", "__context__", "__suppress_context__", "__class__", *_TOLD),
)
_MOST_BEHIND: Final = 100  # errors inside and behind an error that are looked at


def is_live(value: Any) -> bool:
    """Whether a value must be awaited or run before it is one.

    Args:
        value: Any object.

    Since 0.1.
    """
    return is_a(value, (AWAITABLE, GENERATOR, _STREAM))


async def consume(value: Any, report: Callable[[Any], None]) -> Any:
    """The value that a coroutine or generator ends with; an async generator's is its last yield.

    Args:
        value: What a body gave.
        report: Takes the other yields.

    Since 0.1.
    """
    if is_a(value, AWAITABLE) or (is_a(value, GENERATOR) and inspect.isawaitable(value)):
        value = await value
    if is_a(value, _STREAM):
        return await _last(value, report)
    if is_a(value, GENERATOR):  # its steps are sync code, which must not hold the event loop
        return await asyncio.wrap_future(POOL.submit(partial(exhaust, value, report)))
    return value


async def _last(stream: AsyncGenerator[Any, Any], report: Callable[[Any], None]) -> Any:
    held: list[Any] = []
    try:
        async for value in stream:
            if held:
                report(held.pop())
                await asyncio.sleep(0)  # one that never waits would hold the event loop, and outlast its deadline
            held.append(value)
    finally:
        await stream.aclose()
    return held[0] if held else None


def exhaust(stream: Generator[Any, Any, Any], report: Callable[[Any], None]) -> Any:
    """The value that a generator returns.

    Args:
        stream: The generator; it is run here.
        report: Takes its yields.

    Since 0.1.
    """
    try:
        while True:
            report(next(stream))
    except StopIteration as end:
        return end.value
    finally:
        stream.close()


def is_still(value: Any) -> bool:
    """Whether a value, with all that it holds, is described by our code alone.

    Args:
        value: Any object.

    Returns:
        False also for what is too large to be looked at.

    Since 0.1.
    """
    todo: list[Any] = [value]
    try:
        for each in todo:  # it grows
            kind = cast("type[Any]", type(each))
            if kind is dict:
                held = each.values()
                if not _ARE_SCALARS(map(type, each)):
                    todo += [key for key in each if type(key) not in _SCALARS]
            else:
                held = each if kind is list or kind is tuple else _held(each, kind)
            if held is None or len(held) > _MOST or len(todo) > _MOST:
                return False
            if not _ARE_SCALARS(map(type, held)):
                todo += [x for x in held if type(x) not in _SCALARS]
    except Exception:  # a class that cannot be hashed, an attribute that cannot be read
        return False
    return True


def _held(value: Any, kind: type[Any]) -> list[Any] | None:
    """What a value holds; None when that is not known without asking its class."""
    names = () if kind in _SCALARS else _fields(kind)
    if names is None:
        return [] if issubclass(kind, BaseException) and _speaks_plainly(value) else None
    found: list[Any] = [getattr(value, name) for name in names if hasattr(value, name)]
    if issubclass(kind, dict):
        found += [*value, *value.values()]
    elif issubclass(kind, _LISTS):
        found += value
    return found


@lru_cache(maxsize=1024)
def _fields(kind: type[Any]) -> tuple[str, ...] | None:
    """The fields of a class whose objects are described by our code alone; None of another, and of an error."""
    if issubclass(kind, BaseException):
        return None
    own = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in _TRUSTED]
    if any(_is_code(vars(base).get(hook)) for base in own for hook in _HOOKS):
        return None
    if issubclass(kind, Enum):
        return ("_value_",)
    fields: Iterable[str] | None = getattr(kind, "__pydantic_fields__", getattr(kind, "__dataclass_fields__", None))
    if fields is not None:
        computed = _serializes(kind) or any(_is_code(getattr(kind, name, None)) for name in fields)
        return None if computed else (*fields, "__pydantic_extra__")
    if issubclass(kind, (str, bytes, int, float, dict, *_LISTS)):
        return ()
    return None if own or hasattr(kind, "__iter__") else ()


def _speaks_plainly(error: BaseException) -> bool:
    """Whether an error, with those inside and behind it, is described by Python's own code from plain data."""
    todo = [error]
    for each in todo:  # it grows
        if len(todo) > _MOST_BEHIND or not _is_plain_error(type(each)):
            return False
        inside: tuple[BaseException, ...] = each.exceptions if is_a(each, BaseExceptionGroup) else ()
        told = (*(() if inside else each.args), *[getattr(each, name, None) for name in _TOLD])
        if not _ARE_SCALARS(map(type, told)):
            return False
        behind = (*inside, each.__cause__, each.__context__)
        todo += [x for x in behind if x is not None and not any(x is known for known in todo)]
    return True


@lru_cache(maxsize=1024)
def _is_plain_error(kind: type[BaseException]) -> bool:
    """Whether a class of errors leaves to Python's own classes all that it is asked."""
    own = [base for base in kind.__mro__ if base.__module__ != "builtins"]
    asked = any(hasattr(vars(base)[name], "__get__") for base in own for name in _ASKED if name in vars(base))
    return not asked and not hasattr(kind, "__dataclass_fields__")  # inside a value, a record is told by its fields


def _is_code(attribute: object) -> bool:
    return callable(attribute) or isinstance(attribute, property)


def _serializes(kind: Any) -> bool:
    """Whether a pydantic class has serializers or computed fields of its author's."""
    found = getattr(kind, "__pydantic_decorators__", None)
    return found is not None and any((found.field_serializers, found.model_serializers, found.computed_fields))
