"""The checked call of one tool: parse, validate, deadline, execute, normalise, bound.

Every call takes this path, in and outside runs; the runtime adds hooks,
approval, slots and the journal around it. Nothing a tool does raises out of
here, except the end of the process and cancellation from outside.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from ferrule.result import Failure, ToolResult, as_result, leaves_of, suspended
from ferrule.strict_json import dumps, plain
from ferrule.tool.arguments import InvalidArguments, read
from ferrule.tool.context import AskMismatch, Context, Suspend
from ferrule.tool.output import bounded, checked
from ferrule.tool.thread import POOL

if TYPE_CHECKING:
    from ferrule.tool.tool import FunctionTool, Tool

Runs = Literal["step", "inline", "task", "thread", "process"]
Late = Callable[[ToolResult], None]
CANCEL_SECONDS = 5.0
# From 3.12 on a task takes its first step at once: a tool that need not wait costs no turn of the event loop.
_TASK: Any = partial(asyncio.Task, eager_start=True) if sys.version_info >= (3, 12) else asyncio.Task
_AWAITS = frozenset({"GET_AWAITABLE", "SEND", "YIELD_VALUE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH"})


def how_it_runs(function: Callable[..., Any], *, thread: bool, process: bool) -> Runs:
    """How a tool's body is run: in one `step`, `inline`, in a `task`, a `thread` or a `process`.

    An async function without any point where it could wait ends in its first
    step; a task of its own could neither interrupt it nor run beside it.

    Args:
        function: The body.
        thread: Whether a sync body runs in a worker thread.
        process: Whether a sync body runs in a child process.

    Since 0.1.
    """
    if inspect.iscoroutinefunction(function):
        code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
        own = getattr(getattr(function, "__func__", function), "__code__", None)
        waits = own is None or own is not code or any(i.opname in _AWAITS for i in _body(own))
        return "task" if waits else "step"
    if inspect.isasyncgenfunction(function):
        return "task"
    return "process" if process else "thread" if thread else "inline"


def _body(code: Any) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


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
        UsageError: `arguments` is neither a mapping nor text.

    Since 0.1.
    """
    try:
        values, _ = read(tool.parameters, arguments, omit_blank=tool.omit_blank)
    except InvalidArguments as error:
        return ToolResult.failed(f"Tool {tool.name!r} was not called. {error}", code="invalid_arguments")
    return await execute(tool, values, context, late=late)


async def execute(
    tool: Tool, values: dict[str, Any], context: Context[Any] | None = None, *, late: Late | None = None
) -> ToolResult:
    """Call a tool with checked arguments: one attempt under its deadline.

    Args:
        tool: The tool.
        values: Checked arguments by name.
        context: The run's context; default a new one when the tool wants it.
        late: Takes what the call ends with after its deadline.

    Returns:
        The result, bounded. A `once` call whose end is not proven has the failure code `outcome_unknown`.

    Since 0.1.
    """
    runs = tool.runs
    inner = None if context is None and tool.injected == () else _for_call(tool, values, context)
    try:
        if runs == "step":
            result = as_result(await tool.start(values, inner))
        else:
            result = await _Attempt(tool, values, inner, late).run(runs)
    except BaseException as error:
        result = _from_error(error)
    if context is not None and inner is not None:
        context.variables.apply(inner.variables)
    if tool.output_check is not None:
        result = checked(result, tool.output_check, tool.name)
    limit = tool.max_output
    if limit is not None and len(result.output) > limit:
        result = bounded(result, limit, (inner or Context()).call_id)
    return result


def _for_call(tool: Tool, values: dict[str, Any], context: Context[Any] | None) -> Context[Any]:
    """The context of this call; a class tool finds its arguments among the variables."""
    base = context if context is not None else Context()
    return base.for_call(values if tool.injected is None else {}, time.monotonic() + tool.timeout)


def _from_error(error: BaseException) -> ToolResult:
    """Data from what a tool raised; what ends the process or comes from outside goes on."""
    if isinstance(error, Suspend):
        return suspended(error.request)
    if isinstance(error, AskMismatch):
        return ToolResult.failed(str(error), code="exception")
    for leaf in leaves_of(error):
        if isinstance(leaf, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise error
        elif not isinstance(leaf, Exception):
            raise error
    return ToolResult.failed(error)


class _Attempt:
    """One attempt that may outlast a step: its clock and its ending."""

    __slots__ = ("context", "late", "tool", "values")

    def __init__(self, tool: Tool, values: dict[str, Any], context: Context[Any] | None, late: Late | None) -> None:
        self.tool = tool
        self.values = values
        self.context = context
        self.late = late

    async def run(self, runs: Runs) -> ToolResult:
        if runs == "thread":
            return await self.in_thread()
        if runs == "process":
            return await self.in_process()
        value = self.tool.start(self.values, self.context)
        return await self.in_task(value) if runs == "task" or _is_live(value) else as_result(value)

    async def in_task(self, value: Any) -> ToolResult:
        """Await a coroutine or async generator in a task of its own, so that the deadline holds for the caller."""
        loop = asyncio.get_running_loop()
        work = _consume(value, self.report)
        task = _TASK(work, loop=loop)
        if await _ended(task, self.seconds()):
            return as_result(task.result())
        self.abandon()
        task.cancel()
        for _ in range(3):  # a well-behaved tool ends within a step or two of being cancelled
            await asyncio.sleep(0)
        if task.done():
            self.settle_late(task)
            return self.timed_out("It was stopped")
        task.add_done_callback(self.settle_late)
        return self.timed_out("It was told to stop and may still be running")

    async def in_thread(self) -> ToolResult:
        future = POOL.submit(self.in_this_thread)
        wrapped = asyncio.wrap_future(future)
        if await _ended(wrapped, self.seconds()):
            value = wrapped.result()
            return await self.in_task(value) if _is_live(value) else as_result(value)
        self.abandon()
        if future.cancel():
            return self.not_started()
        future.add_done_callback(self.settle_late)
        return self.timed_out("It may still be running")

    def in_this_thread(self) -> Any:
        """Call the sync body; a generator is run to its end here."""
        value = self.tool.start(self.values, self.context)
        return _exhaust(value, self.report) if inspect.isgenerator(value) else value

    async def in_process(self) -> ToolResult:
        """Run the body in a child process, which the deadline really ends."""
        from ferrule.tool.process import call_isolated

        text = dumps(plain(self.values, big_ints="number"))
        outcome = await call_isolated(cast("FunctionTool[..., Any]", self.tool), text, timeout=self.seconds())
        if outcome.timed_out:
            return self.timed_out("Its process was ended")
        if outcome.error is not None:
            kind, message = outcome.error
            return ToolResult(f"{kind}: {message}" if message else kind, True, failure=Failure("exception", kind))
        return as_result(outcome.value)

    def seconds(self) -> float:
        """Seconds left for this attempt."""
        if self.context is None or self.context.deadline is None:
            return self.tool.timeout
        return min(self.tool.timeout, max(self.context.deadline - time.monotonic(), 0.0))

    def report(self, value: Any) -> None:
        if self.context is not None:
            self.context.progress(value)

    def abandon(self) -> None:
        if self.context is not None:
            self.context.cancel()

    def timed_out(self, state: str) -> ToolResult:
        text = f"Tool {self.tool.name!r} timed out after {self.tool.timeout:g} s. {state}"
        if self.tool.effect == "once":
            return ToolResult.failed(f"{text}; its effect may have happened.", code="outcome_unknown")
        return ToolResult.failed(f"{text}.", code="timeout")

    def not_started(self) -> ToolResult:
        text = f"Tool {self.tool.name!r} was not started within {self.tool.timeout:g} s: all worker threads are busy."
        return ToolResult.failed(text, code="timeout")

    def settle_late(self, ended: Any) -> None:
        """Tell whoever listens what an abandoned call ended with."""
        error = ended.exception() if not ended.cancelled() else asyncio.CancelledError()
        if self.late is None or isinstance(error, asyncio.CancelledError):
            return
        self.late(ToolResult.failed(error) if error is not None else as_result(ended.result()))


def _is_live(value: Any) -> bool:
    """Whether a value must be awaited or run before it is one."""
    return inspect.isawaitable(value) or inspect.isasyncgen(value) or inspect.isgenerator(value)


async def _consume(value: Any, report: Callable[[Any], None]) -> Any:
    """The value that a coroutine or generator ends with; an async generator's is its last yield."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        return await _last(cast("AsyncGenerator[Any, Any]", value), report)
    return _exhaust(value, report) if inspect.isgenerator(value) else value


async def _last(stream: AsyncGenerator[Any, Any], report: Callable[[Any], None]) -> Any:
    held: list[Any] = []
    try:
        async for value in stream:
            if held:
                report(held.pop())
            held.append(value)
    finally:
        await stream.aclose()
    return held[0] if held else None


def _exhaust(stream: Generator[Any, Any, Any], report: Callable[[Any], None]) -> Any:
    while True:
        try:
            report(next(stream))
        except StopIteration as end:
            return end.value


async def _ended(future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for a future, at most so long; cancellation from outside cancels it and gives it a moment to end."""
    if future.done():
        return True
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(wake)
    timer = loop.call_later(seconds, wake)
    try:
        await waiter
    except asyncio.CancelledError:
        if future.cancel():
            await asyncio.wait({future}, timeout=CANCEL_SECONDS)
        raise
    finally:
        timer.cancel()
        future.remove_done_callback(wake)
    return future.done()


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
        A result when it happened; None when it did not, or without a check; a failure with the code `outcome_unknown`
        when the check itself failed.

    Since 0.1.
    """
    return await _aside(tool, tool.check, arguments, context, "outcome_unknown")


async def _aside(
    tool: Tool, function: Any, arguments: Any, context: Context[Any] | None, code: str | None
) -> ToolResult | None:
    """Call a tool's preview or check, under its deadline and off the event loop like its body."""
    if function is None:
        return None
    try:
        values, _ = read(tool.parameters, arguments, omit_blank=tool.omit_blank)
    except InvalidArguments as error:
        return ToolResult.failed(f"Tool {tool.name!r} was not called. {error}", code="invalid_arguments")
    inner = context or Context()
    if inspect.iscoroutinefunction(function):
        future: asyncio.Future[Any] = asyncio.ensure_future(function(inner, values))
    else:
        future = asyncio.wrap_future(POOL.submit(partial(function, inner, values)))
    try:
        if not await _ended(future, tool.timeout):
            future.cancel()
            raise TimeoutError(f"tool {tool.name!r} took over {tool.timeout:g} s to look")
        value = future.result()
    except BaseException as error:
        failure = _from_error(error)
        return ToolResult.failed(failure.output, code=code) if code else failure
    return None if value is None else as_result(value)
