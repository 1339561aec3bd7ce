"""The checked call of one tool: parse, validate, deadline, execute, normalise, bound.

Every call takes this path, in and outside runs; the runtime adds hooks,
approval, slots and the journal around it. Nothing a tool does raises out of
here, except the end of the process and cancellation from outside.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Coroutine, Mapping
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ferrule.errors import UsageError
from ferrule.exception import leaves_of
from ferrule.lazy import LazyModule
from ferrule.result import Failure, ToolResult, as_result, suspended
from ferrule.strict_json import is_a, kind_of
from ferrule.tool.body.attempt import STRAY, Attempt, GiveUp, Late, Own, described, how_it_runs, is_ready
from ferrule.tool.context import Context, Suspend
from ferrule.tool.output import bounded
from ferrule.tool.schema.arguments import InvalidArguments, read

if TYPE_CHECKING:
    import asyncio

    from ferrule.tool.tool import Tool
else:
    asyncio = LazyModule("asyncio")


async def invoke(
    tool: Tool,
    arguments: Mapping[str, Any] | str | bytes | None = None,
    context: Context[Any] | None = None,
    *,
    late: Late | None = None,
) -> ToolResult:
    """Call a tool with arguments that have not been checked.

    Args:
        tool: The tool.
        arguments: A mapping or JSON text; None, blank and `null` equal `{}`.
        context: The run's context; default a new one when the tool wants it.
        late: Takes what a call ends with after its deadline.

    Returns:
        The result.

    Raises:
        UsageError: `arguments` is neither a mapping nor text, or `context` is no Context.

    Since 0.1.
    """
    try:
        values, text = read(tool.parameters, arguments, omit_blank=tool.omit_blank)
    except InvalidArguments as error:
        return not_called(tool, error)
    return await execute(tool, values, context, text=text, late=late)


def not_called(tool: Tool, error: InvalidArguments, why: str = "", *, code: str = "invalid_arguments") -> ToolResult:
    """The result of a call whose arguments cannot be executed.

    Args:
        tool: The tool.
        error: What is wrong with them.
        why: Where they came from, if not from whoever asked for the call.
        code: The failure code.

    Since 0.1.
    """
    # Not by `failed`, which takes what follows `password:` for one; no value is quoted here.
    return ToolResult(f"Tool {tool.name!r} was not called{why}. {error}", True, failure=Failure(code))


async def is_approval_due(tool: Tool, values: dict[str, Any]) -> bool:
    """Whether a person must agree to a call first, by the tool's own rule; raises what that rule raises.

    Args:
        tool: The tool.
        values: Checked arguments by name.

    Since 0.1.
    """
    rule = tool.approval
    if not callable(rule):
        return bool(rule)
    due = rule(tool.whole(values))
    return bool(await due if inspect.isawaitable(due) else due)


async def execute(
    tool: Tool,
    values: dict[str, Any],
    context: Context[Any] | None = None,
    *,
    text: str | bytes | None = None,
    late: Late | None = None,
    give_up: GiveUp | None = None,
) -> ToolResult:
    """Call a tool with checked arguments: one attempt under its deadline.

    Args:
        tool: The tool.
        values: Checked arguments by name.
        context: The run's context; default a new one when the tool wants it.
        text: The JSON text the arguments came from, for tools in a process of their own; default made from `values`.
        late: Takes, in the event loop's thread, what the call ends with after its deadline.
        give_up: Takes the result at the deadline, when the body goes on nevertheless. Whoever gives it runs this
            coroutine in a task that nobody else waits for: an async body then needs no task of its own.

    Returns:
        The result, bounded. A `once` call whose end is not proven has the failure code `outcome_unknown`.

    Since 0.1.
    """
    inner = None if context is None and tool.injected == () else _for_call(tool, values, context)
    if inner is not None and inner.shortened and inner.deadline is not None and inner.deadline <= time.monotonic():
        return ToolResult.failed(
            f"Tool {tool.name!r} was not started: the deadline of its caller is over.", code="timeout"
        )
    result: ToolResult | None = None
    raised: BaseException | None = None
    attempt: Attempt | None = None
    try:
        if tool.runs == "step":
            value = _step(tool.start(values, inner))
            if is_ready(value):
                result = described(tool, value)
            else:
                attempt = Attempt(tool, values, inner, text, late)
                result = await attempt.in_task(value)
        elif tool.runs == "task" and give_up is not None:
            attempt = Attempt(tool, values, inner, text, late)
            result = await attempt.in_this_task(give_up)
        else:
            attempt = Attempt(tool, values, inner, text, late)
            result = await attempt.run()
    except BaseException as error:
        raised = error
    if result is None:  # out of the handler, where what the caller itself handles can be told apart
        try:
            if attempt is None:  # it ended in its first step
                attempt = Attempt(tool, values, inner, text, late)
            result = await _from_error(attempt, cast("BaseException", raised), once=tool.effect == "once")
        finally:
            raised = None  # its traceback holds this frame
    if context is not None and inner is not None and not inner.cancelled() and result.status != "suspended":
        context.variables.apply(inner.variables)
    limit = tool.max_output
    if limit is not None and len(result.output) > limit:
        result = bounded(result, limit, inner.call_id if inner is not None else None)
    return result


def _step(body: Coroutine[Any, Any, Any]) -> Any:
    """The value of a coroutine that ends in its first step; context variables it sets stay its own, as in a task."""
    try:
        copy_context().run(body.send, None)
    except StopIteration as end:
        return end.value
    except (asyncio.CancelledError, *STRAY) as error:
        raise Own(error) from None
    body.close()
    raise RuntimeError("a function without an await has waited")


def _for_call(tool: Tool, values: dict[str, Any], context: Context[Any] | None) -> Context[Any]:
    """The context of this call; a class tool finds its arguments among the variables."""
    base = context if context is not None else Context()
    if not isinstance(base, Context):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"the context of a call must be a Context, not {type(base).__name__}.")
    return base.for_call(values if tool.injected is None else {}, time.monotonic() + tool.timeout)


async def _from_error(attempt: Attempt, error: BaseException, *, once: bool) -> ToolResult:
    """Data from what a tool raised; only what ends the process, and what comes from outside for the caller, goes on."""
    if is_a(error, Own):
        return await attempt.told(error.error, once=once)
    leaves = leaves_of(error)
    if is_a(error, GeneratorExit) or any(is_a(leaf, (KeyboardInterrupt, SystemExit)) for leaf in leaves):
        raise error
    if any(is_a(leaf, asyncio.CancelledError) for leaf in leaves):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    asked = next((leaf for leaf in leaves if is_a(leaf, Suspend)), None)
    return suspended(asked.request) if asked is not None else await attempt.told(error, once=once)


# -- preview and check ------------------------------------------------------------------------------------------


async def invoke_preview(tool: Tool, arguments: Any, context: Context[Any] | None) -> ToolResult | None:
    """What the tool's `preview` shows for a call; None without one.

    Args:
        tool: The tool.
        arguments: As for `invoke`.
        context: As for `invoke`.

    Since 0.1.
    """
    return await _aside(tool, tool.preview, arguments, context, None)


async def invoke_check(tool: Tool, arguments: Any, context: Context[Any] | None) -> ToolResult | None:
    """What the tool's `check` says of a call.

    Args:
        tool: The tool.
        arguments: As for `invoke`.
        context: As for `invoke`.

    Returns:
        A result when it happened, also for a check that says True; None when it did not, for one that says None or
        False, or without a check; a failure with the code `outcome_unknown` when the check itself failed.

    Since 0.1.
    """
    return await _aside(tool, tool.check, arguments, context, "outcome_unknown")


async def _aside(
    tool: Tool, function: Any, arguments: Any, context: Context[Any] | None, code: str | None
) -> ToolResult | None:
    """Call a tool's preview or check like its body; `code` is a check's, for whatever keeps it from answering."""
    if function is None:
        return None
    try:
        values, _ = read(tool.parameters, arguments, omit_blank=tool.omit_blank)
    except InvalidArguments as error:
        return not_called(tool, error, code=code or "invalid_arguments")
    inner = _for_call(tool, values, context)
    attempt = Attempt(
        tool, values, inner, start=partial(function, inner, tool.whole(values)), finish=partial(_said, code)
    )
    try:
        result = await attempt.run(how_it_runs(function, thread=True, process=False))
    except BaseException as error:
        result = _said(code, await _from_error(attempt, error, once=False), by_itself=False)
    if inner.cancelled():
        return ToolResult.failed(f"Tool {tool.name!r} did not answer in time.", code=code or "timeout")
    return None if result is None else bounded(result, tool.max_output, inner.call_id)


def _said(code: str | None, value: Any, *, by_itself: bool = True) -> ToolResult | None:
    """What a preview or check says with a value; that it broke, when it did not give a result by itself."""
    if value is None or (code is not None and _is_false(value)):
        return None
    result = as_result(value)
    if code and result.error is not None and (not by_itself or is_a(value, BaseException)):
        return ToolResult(result.output, True, failure=Failure(code))
    return result


def _is_false(value: object) -> bool:
    """Whether a value is False, Python's or numpy's."""
    return value is False or (kind_of(value) in ("bool", "bool_") and not value)
