"""The child's side of a call in a process of its own: find the function, call it, answer.

A function travels by its address, `module:qualname`; `address_of` says it here,
`find` follows it there. The answer goes out on what was standard output when
the process began; whatever the function prints ends up on standard error.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from ferrule.errors import ToolDefinitionError
from ferrule.exception import classify, describe_exception, proves_nothing
from ferrule.lazy import LazyModule
from ferrule.strict_json import dumps, is_a, typed
from ferrule.tool.body.value import GENERATOR, consume, exhaust, is_live
from ferrule.tool.schema.arguments import SchemaParameters, read
from ferrule.tool.tool import FunctionTool

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")


def find(address: str) -> object:
    """What stands at an address.

    Args:
        address: `module:qualname`, for example `shop.tools:Cart.total`.

    Raises:
        ImportError: The module cannot be imported.
        AttributeError: It has no such name.

    Since 0.1.
    """
    module, _, qualname = address.partition(":")
    return functools.reduce(getattr, qualname.split("."), cast("object", importlib.import_module(module)))


def function_of(found: object) -> object:
    """The function inside a tool; anything else is returned as it is.

    Args:
        found: A tool, a function, or whatever stood at an address.

    Since 0.1.
    """
    return cast("FunctionTool[..., Any]", found).function if isinstance(found, FunctionTool) else found


def address_of(function: object) -> str:
    """Where another process finds a function or tool.

    Args:
        function: The function or the tool.

    Returns:
        `module:qualname`.

    Raises:
        ToolDefinitionError: It cannot be found by its name.

    Since 0.1.
    """
    target = function_of(function)
    module: object = getattr(target, "__module__", None)
    qualname: object = getattr(target, "__qualname__", None)
    mend = "Define it at the top level of a module"
    if not isinstance(module, str) or not isinstance(qualname, str):
        shown, why = repr(type(target).__name__), "it is an object without a name"
    elif getattr(function, "injected", ()):
        shown, why, mend = repr(qualname), "it takes a Context, which cannot leave this one", "Take plain arguments"
    elif module == "__main__":
        shown, why, mend = repr(qualname), "it is defined in the main script", "Move it to a module"
    elif "<lambda>" in qualname or "<locals>" in qualname:
        shown, why = repr(qualname), "it has no name that a module knows"
    else:
        name = _name_in(module, qualname, function)
        if name is not None:
            return f"{module}:{name}"
        shown, why = repr(qualname), f"module {module!r} has nothing, or something else, under that name"
    raise ToolDefinitionError(
        f"function {shown} cannot run in a process of its own: {why}. {mend}, or run it in a thread."
    )


def _name_in(module: str, qualname: str, function: object) -> str | None:
    try:
        found = find(f"{module}:{qualname}")
    except (ImportError, AttributeError):
        return None
    if not isinstance(function, FunctionTool):
        return qualname if function_of(found) is function else None
    # A tool made by hand from a function leaves the function's own name to the function.
    names: Iterable[tuple[str, object]] = vars(sys.modules[module]).items()
    return qualname if found is function else next((name for name, value in names if value is function), None)


def answer(address: str, text: str | bytes) -> dict[str, Any]:
    """Call a function and describe how that ended.

    Args:
        address: Where it stands, `module:qualname`.
        text: Its arguments, a JSON object.

    Returns:
        `{"value": typed JSON}`, or `{"error": [failure code, name of the exception's class, text]}`, with
        `"unproven": true` where that leaves open whether an effect happened.

    Since 0.1.
    """
    try:
        found = find(address)
        parameters = found.parameters if isinstance(found, FunctionTool) else SchemaParameters(None, address)
        arguments, _ = read(parameters, text)
        value = _call(cast("Callable[..., Any]", function_of(cast("object", found))), arguments)
        if is_a(value, BaseException):  # returned, it is a failure as anywhere
            raise value
        return {"value": typed(value)}
    except BaseException as error:  # SystemExit too: whatever the function does, the caller learns of it
        told: dict[str, Any] = {"error": [*classify(error), describe_exception(error)]}
        return {**told, "unproven": True} if proves_nothing(error) else told


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    value = function(**arguments)
    if is_a(value, GENERATOR):
        return exhaust(value, _unheard)
    return asyncio.run(consume(value, _unheard)) if is_live(value) else value


def _unheard(progress: object) -> None:
    """Leave what a generator reports here: nothing but the answer goes out."""


def main(address: str) -> None:
    """Answer one call: arguments from standard input, the answer to what is standard output now.

    Args:
        address: Where the function stands, `module:qualname`.

    Since 0.1.
    """
    channel = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(channel, "wb") as out:
        out.write(dumps(answer(address, sys.stdin.buffer.read())))
