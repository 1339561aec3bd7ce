"""The child's side of a call in a process of its own: find the tool, call it, answer.

A tool travels by its address, `module:qualname`; `address_of` says it here,
`find` follows it there. The answer goes out on what was standard output when
the process began; whatever its function prints ends up on standard error.
"""

from __future__ import annotations

import functools
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ferrule.errors import ToolDefinitionError
from ferrule.exception import classify, describe_exception, proves_nothing
from ferrule.lazy import LazyModule
from ferrule.result import ToolResult, as_result
from ferrule.strict_json import dumps, is_a, typed
from ferrule.tool.body.value import GENERATOR, consume, exhaust, is_live
from ferrule.tool.output import checked
from ferrule.tool.schema.arguments import read

if TYPE_CHECKING:
    import asyncio

    from ferrule.tool.tool import FunctionTool
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


def address_of(tool: FunctionTool[..., Any]) -> str:
    """Where another process finds a tool.

    Args:
        tool: The tool.

    Returns:
        `module:qualname`.

    Raises:
        ToolDefinitionError: It cannot be found by its name.

    Since 0.1.
    """
    module: object = getattr(tool.function, "__module__", None)
    qualname = cast("Any", tool.function).__qualname__  # without one, the tool could not be declared
    mend = "Define it at the top level of a module"
    if module == "__main__":
        why, mend = "it is defined in the main script", "Move it to a module"
    elif not isinstance(module, str) or "<lambda>" in qualname or "<locals>" in qualname:
        why = "it has no name that a module knows"
    else:
        name = _name_in(module, qualname, tool)
        if name is not None:
            return f"{module}:{name}"
        why = f"module {module!r} has nothing, or something else, under that name"
    raise ToolDefinitionError(
        f"function {qualname!r} cannot run in a process of its own: {why}. {mend}, or run it in a thread."
    )


def _name_in(module: str, qualname: str, tool: FunctionTool[..., Any]) -> str | None:
    try:
        found = find(f"{module}:{qualname}")
    except (ImportError, AttributeError):
        return None
    # A tool made by hand from a function leaves the function's own name to the function.
    names: Iterable[tuple[str, object]] = vars(sys.modules[module]).items()
    return qualname if found is tool else next((name for name, value in names if value is tool), None)


def answer(address: str, text: str | bytes) -> dict[str, Any]:
    """Call a tool and describe how that ended.

    Args:
        address: Where it stands, `module:qualname`.
        text: Its arguments, a JSON object.

    Returns:
        `{"value": typed JSON}` of the result, or of its value and beside it, as `"result"`, of the rest; or
        `{"error": [failure code, name of the exception's class, text]}` with `"unproven": true` where that leaves open
        whether an effect happened.

    Since 0.1.
    """
    try:
        tool = cast("FunctionTool[..., Any]", find(address))
        arguments, _ = read(tool.parameters, text)
        value = _call(tool, arguments)
        if is_a(value, BaseException):  # returned, it is a failure as anywhere
            raise value
        # Whole and checked where the value is what it was: not every value comes back from a process as that.
        return _told(checked(as_result(value), tool.output_check, tool.name))
    except BaseException as error:  # SystemExit too: whatever the function does, the caller learns of it
        told: dict[str, Any] = {"error": [*classify(error), describe_exception(error)]}
        return {**told, "unproven": True} if proves_nothing(error) else told


def _told(result: ToolResult) -> dict[str, Any]:
    """A result and its value, each within bounds of its own; a text, mostly the output too, is sent once."""
    if type(result.value) is str:
        return {"value": typed(result)}
    return {"value": typed(result.value), "result": typed(replace(result, value=None))}


def _call(tool: FunctionTool[..., Any], arguments: dict[str, Any]) -> Any:
    value = tool.function(**arguments)
    if is_a(value, GENERATOR):
        return exhaust(value, _unheard)
    return asyncio.run(consume(value, _unheard)) if is_live(value) else value


def _unheard(progress: object) -> None:
    """Leave what a generator reports here: nothing but the answer goes out."""


def _end_with_caller(channel: int) -> None:
    """End this process group once nobody hears the answer: a caller that died cannot end it any more.

    What the call began must not go on then: whoever takes the caller's work over asks whether it has happened, and may
    make the call again.
    """
    poll = select.poll()
    poll.register(channel, 0)  # the hang-up is told in any case
    poll.poll()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(address: str) -> None:
    """Answer one call: arguments from standard input, the answer to what is standard output now.

    Args:
        address: Where the tool stands, `module:qualname`.

    Since 0.1.
    """
    channel = os.dup(1)
    os.dup2(2, 1)
    if hasattr(select, "poll") and os.getpgrp() == os.getpid():
        threading.Thread(target=_end_with_caller, args=(channel,), daemon=True).start()
    with os.fdopen(channel, "wb") as out:
        out.write(dumps(answer(address, sys.stdin.buffer.read())))
