"""The checked call of one tool: parse, validate, deadline, execute, normalise, bound.

Every call takes this path, in and outside runs; the runtime adds hooks,
approval, slots and the journal around it. Nothing a tool does raises out of
here, except the end of the process and cancellation from outside.
"""

from __future__ import annotations

import dis
import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import CodeType, CoroutineType
from typing import TYPE_CHECKING, Any, Literal, cast

from ferrule.errors import UsageError
from ferrule.exception import leaves_of, proves_nothing
from ferrule.lazy import LazyModule
from ferrule.redact import scrub
from ferrule.result import Failure, ToolResult, as_result, suspended
from ferrule.strict_json import dumps, is_a, kind_of, plain
from ferrule.tool.arguments import InvalidArguments, read
from ferrule.tool.child import GENERATOR
from ferrule.tool.context import Context, Suspend
from ferrule.tool.output import bounded, checked
from ferrule.tool.thread import POOL
from ferrule.tool.value import consume, exhaust, is_live, is_still

if TYPE_CHECKING:
    import asyncio
    import logging
    import traceback

    from ferrule.tool import process
    from ferrule.tool.tool import FunctionTool, Tool
else:
    asyncio = LazyModule("asyncio")
    logging = LazyModule("logging")
    traceback = LazyModule("traceback")
    process = LazyModule("ferrule.tool.process")  # few tools run in a process of their own

Runs = Literal["step", "inline", "task", "thread", "process"]
Late = Callable[[ToolResult], None]
GiveUp = Callable[[ToolResult], None]
CANCEL_SECONDS = 5.0
# From 3.12 on a task takes its first step at once: a tool that need not wait costs no turn of the event loop.
_AT_ONCE: Any = {"eager_start": True} if sys.version_info >= (3, 12) else {}
_AWAITS = frozenset({"GET_AWAITABLE", "SEND", "YIELD_VALUE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH"})


def how_it_runs(function: Callable[..., Any], *, thread: bool, process: bool) -> Runs:
    """How a tool's body is run: in one `step`, `inline`, in a `task`, a `thread` or a `process`.

    An async function without any point where it could wait ends in its first
    step; a task of its own could neither interrupt it nor run beside it.

    Args:
        function: The body.
        thread: Whether a sync body runs in a worker thread.
        process: Whether the body runs in a child process.

    Since 0.1.
    """
    if process:
        return "process"
    if inspect.iscoroutinefunction(function):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        return "step" if code is not None and _ends_in_a_step(code) else "task"
    called = vars(type(function)).get("__call__")  # of an object that is callable
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(called):
        return "task"
    return "thread" if thread else "inline"


def _ends_in_a_step(code: CodeType) -> bool:
    """Whether a body waits nowhere, and cannot want a task of its own: to cancel the current one, for example."""
    if not code.co_flags & inspect.CO_COROUTINE or "current_task" in code.co_names:
        return False
    return all(i.opname not in _AWAITS for i in dis.get_instructions(code))


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
        # Not by `failed`, which takes what follows `password:` for one; no value is quoted here.
        return ToolResult(f"Tool {tool.name!r} was not called. {error}", True, failure=Failure("invalid_arguments"))
    return await execute(tool, values, context, text=text, late=late)


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
    try:
        if tool.runs == "step":
            value = _step(tool.start(values, inner))
            if _is_ready(value):
                result = _described(tool, value)
            else:
                result = await _Attempt(tool, values, inner, text, late).in_task(value)
        elif tool.runs == "task" and give_up is not None:
            result = await _Attempt(tool, values, inner, text, late).in_this_task(give_up)
        else:
            result = await _Attempt(tool, values, inner, text, late).run()
    except BaseException as error:
        result = _from_error(error, once=tool.effect == "once")
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
    except (asyncio.CancelledError, *_STRAY) as error:
        raise _Own(error) from None
    body.close()
    raise RuntimeError("a function without an await has waited")


def _described(tool: Tool, value: Any) -> ToolResult:
    """The result of what the body ended with, checked against its declared type."""
    result = as_result(value)
    if result.is_error and is_a(value, BaseException):  # returned, it says what it says when it is raised
        return _failed(value, once=tool.effect == "once")
    return result if tool.output_check is None else checked(result, tool.output_check, tool.name)


def _for_call(tool: Tool, values: dict[str, Any], context: Context[Any] | None) -> Context[Any]:
    """The context of this call; a class tool finds its arguments among the variables."""
    base = context if context is not None else Context()
    if not isinstance(base, Context):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"the context of a call must be a Context, not {type(base).__name__}.")
    return base.for_call(values if tool.injected is None else {}, time.monotonic() + tool.timeout)


class _Own(Exception):
    """Carries what a tool raised that, let go, would end more than the tool: a task, a generator, the process."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


_STRAY = (SystemExit, GeneratorExit, StopIteration)


def _from_error(error: BaseException, *, once: bool) -> ToolResult:
    """Data from what a tool raised; only Ctrl-C and what comes from outside, to end the caller, goes on."""
    if is_a(error, _Own):
        return _failed(error.error, once=once)
    leaves = leaves_of(error)
    if is_a(error, GeneratorExit) or any(is_a(leaf, KeyboardInterrupt) for leaf in leaves):
        raise error
    if any(is_a(leaf, asyncio.CancelledError) for leaf in leaves):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    asked = next((leaf for leaf in leaves if is_a(leaf, Suspend)), None)
    return suspended(asked.request) if asked is not None else _failed(error, once=once)


def _failed(error: BaseException, *, once: bool) -> ToolResult:
    _log_place(error)
    result = ToolResult.failed(error)
    if once and proves_nothing(error):
        text = f"{result.output}; its effect may have happened."
        return ToolResult(text, True, failure=Failure("outcome_unknown"))
    return result


def _log_place(error: BaseException) -> None:
    """Tell whoever debugs where a tool raised: the result only says what. Credentials are taken out here as there."""
    log = logging.getLogger("ferrule.tool")
    if log.isEnabledFor(logging.DEBUG):
        with suppress(Exception):  # an exception of the user's class may refuse to be shown
            log.debug("a tool raised\n%s", scrub("".join(traceback.format_exception(error)).rstrip()))


_ENDING: set[asyncio.Future[Any]] = set()  # abandoned work that the event loop itself would forget


class _Attempt:
    """One attempt that may outlast a step: its clock and its ending."""

    __slots__ = ("context", "expired", "finish", "late", "limit", "loop", "start", "text", "tool", "until", "values")

    def __init__(
        self,
        tool: Tool,
        values: dict[str, Any],
        context: Context[Any] | None,
        text: str | bytes | None = None,
        late: Late | None = None,
        start: Callable[[], Any] | None = None,
        finish: Callable[[Any], Any] | None = None,
    ) -> None:
        self.tool = tool
        self.values = values
        self.context = context
        self.text = text
        self.late = late
        self.expired = False
        self.start = start or partial(tool.start, values, context)
        self.finish = finish or partial(_described, tool)
        self.loop = asyncio.get_running_loop()
        self.limit = tool.timeout
        if context is not None and context.deadline is not None:
            self.limit = min(self.limit, max(context.deadline - time.monotonic(), 0.0))
        self.until = self.loop.time() + self.limit

    async def run(self, runs: Runs | None = None) -> Any:
        """What `finish` makes of the value that the body ends with, or the result that says why there is none."""
        runs = runs or self.tool.runs
        if runs == "thread":
            return await self.in_thread()
        if runs == "process":
            return await self.in_process()
        value = self.start() if runs == "task" else await self.inline()
        return self.finish(value) if runs != "task" and _is_ready(value) else await self.in_task(value)

    async def inline(self) -> Any:
        """Call the sync body here; if it cancels the task that it finds, that is its own end and not the caller's."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        before = task.cancelling()
        try:
            return self.start()
        except (asyncio.CancelledError, *_STRAY) as error:
            raise _Own(error) from None
        finally:
            if task.cancelling() > before:
                await _take_back(task, before)

    async def settled(self, value: Any) -> Any:
        """What `finish` makes of a value, once it is one; describing it takes a thread where that may take its time."""
        try:
            if type(value) is CoroutineType:
                value = await cast("Awaitable[Any]", value)
            if not _is_ready(value):
                value = await consume(value, self.report)
        except _STRAY as error:
            raise _Own(error) from None
        if _is_ready(value):
            return self.finish(value)
        return await asyncio.wrap_future(POOL.submit(partial(self.finish, value)))

    async def in_task(self, value: Any) -> Any:
        """Await a coroutine or async generator in a task of its own, so that the deadline holds for the caller."""
        task = asyncio.Task(self.settled(value), loop=self.loop, **_AT_ONCE)
        try:
            if await self.ended(task):
                if task.cancelled():
                    raise _Own(asyncio.CancelledError())
                return task.result()
            task.cancel()
            for _ in range(3):  # a well-behaved tool ends within a step or two of being cancelled
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.watch(task)
            raise
        if not task.done():
            self.watch(task)
            return self.timed_out("It was told to stop and may still be running")
        if task.cancelled() or task.exception() is not None:  # an error of its clean-up proves nothing about its effect
            return self.timed_out("It was stopped")
        return task.result()  # it ended at the last moment, and that is what happened

    async def in_this_task(self, give_up: GiveUp) -> Any:
        """Await the body in the current task, for a caller that waits for `give_up` too."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        timer = self.loop.call_later(max(self.until - self.loop.time(), 0.0), self.expire, task, give_up)
        try:
            return await self.settled(self.start())
        except BaseException as error:
            if is_a(error, _Own) and is_a(error.error, GeneratorExit) and not _runs(task):
                raise error.error from None  # whoever has the coroutine closes it
            if not self.expired or is_a(error, KeyboardInterrupt):
                if is_a(error, asyncio.CancelledError):
                    self.abandon()
                raise
            task.uncancel()
            return self.timed_out("It was stopped")
        finally:
            timer.cancel()
            self.start = _over

    def expire(self, task: asyncio.Task[Any], give_up: GiveUp, steps: int = 4) -> None:
        """The deadline: tell the body to stop; when it has not within a step or two, go on without it."""
        if self.start is _over:
            return
        if steps == 4:
            self.expired = True
            self.abandon()
            task.cancel()
        if steps:
            self.loop.call_soon(self.expire, task, give_up, steps - 1)
            return
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)
        task.add_done_callback(self.settle_late)
        give_up(self.timed_out("It was told to stop and may still be running"))

    async def in_thread(self) -> Any:
        future = POOL.submit(self.in_this_thread)
        wrapped = asyncio.wrap_future(future)
        try:
            ended = await self.ended(wrapped)
        except asyncio.CancelledError:
            self.watch_thread(future)
            raise
        if ended:
            try:
                value = wrapped.result()
            except asyncio.CancelledError as error:
                raise _Own(error) from None
            return await self.in_task(value) if is_live(value) else value
        if future.cancel():
            return self.not_started()
        self.watch_thread(future)
        return self.timed_out("It may still be running")

    def in_this_thread(self) -> Any:
        """Call the sync body, run a generator to its end, and describe the value."""
        try:
            value = self.start()
            value = exhaust(value, self.report) if is_a(value, GENERATOR) else value
        except _STRAY as error:  # a StopIteration no future can carry: whoever waits would wait for ever
            raise _Own(error) from None
        return value if is_live(value) else self.finish(value)

    async def in_process(self) -> Any:
        """Run the body in a child process, which the deadline really ends."""
        text = self.text if self.text is not None else dumps(plain(self.values, big_ints="number"))
        tool = cast("FunctionTool[..., Any]", self.tool)
        task = asyncio.ensure_future(process.call_isolated(tool, text, timeout=self.limit))
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)
        if not await self.ended(task):
            return self.timed_out("Its process is being ended")
        outcome = task.result()
        if outcome.timed_out:
            return self.timed_out("Its process was ended")
        if outcome.error is None:
            return self.finish(outcome.value)
        code, kind, text = outcome.error
        if outcome.unproven and self.tool.effect == "once":
            return ToolResult(f"{text}; its effect may have happened.", True, failure=Failure("outcome_unknown"))
        if code == "outcome_unknown" and self.tool.effect != "once":
            code = "unavailable"
        return ToolResult(text, True, failure=Failure(code, kind))

    async def ended(self, future: asyncio.Future[Any]) -> bool:
        """Wait for the body until the deadline; whoever looks at the context then learns that nobody waits."""
        try:
            ended = await _ended(future, max(self.until - self.loop.time(), 0.0))
        except asyncio.CancelledError:
            self.abandon()
            raise
        if not ended:
            self.abandon()
        return ended

    def abandon(self) -> None:
        if self.context is not None:
            self.context.cancel()

    def report(self, value: Any) -> None:
        if self.context is not None:
            self.context.progress(value)

    def seconds(self) -> str:
        """How long the body had: what was declared, unless the caller's deadline came first."""
        shortened = self.context is not None and self.context.shortened
        return f"{self.limit if shortened else self.tool.timeout:.3g} s"

    def timed_out(self, state: str) -> ToolResult:
        text = f"Tool {self.tool.name!r} timed out after {self.seconds()}. {state}"
        if self.tool.effect == "once":
            return ToolResult.failed(f"{text}; its effect may have happened.", code="outcome_unknown")
        return ToolResult.failed(f"{text}.", code="timeout")

    def not_started(self) -> ToolResult:
        text = f"Tool {self.tool.name!r} was not started within {self.seconds()}: all worker threads are busy."
        return ToolResult.failed(text, code="timeout")

    def watch(self, task: asyncio.Future[Any]) -> None:
        """Tell whoever listens what an abandoned task ends with."""
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)
        task.add_done_callback(self.settle_late)

    def watch_thread(self, future: Any) -> None:
        def told(ended: Any) -> None:
            with suppress(RuntimeError):  # the event loop is closed: nobody listens any more
                self.loop.call_soon_threadsafe(self.settle_late, ended)

        future.add_done_callback(told)

    def settle_late(self, ended: Any) -> None:
        error = ended.exception() if not ended.cancelled() else asyncio.CancelledError()
        if self.late is None or is_a(error, asyncio.CancelledError):
            return
        if error is not None:
            self.late(_failed(error.error if is_a(error, _Own) else error, once=self.tool.effect == "once"))
            return
        found = ended.result()
        self.late(found if is_a(found, ToolResult) else self.finish(found))  # a coroutine that nobody awaits any more


def _over() -> None:
    """Stands in place of a body that has ended."""


async def _take_back(task: asyncio.Task[Any], before: int) -> None:
    """Take back what the body cancelled of the current task; it ends by that, its caller does not."""
    while task.cancelling() > before:
        task.uncancel()
    try:
        await asyncio.sleep(0)  # before 3.13 what was asked for still comes, here
    except asyncio.CancelledError:
        if task.cancelling() > before:  # from outside, in the meantime
            raise
    raise _Own(asyncio.CancelledError())


def _runs(task: asyncio.Task[Any]) -> bool:
    """Whether a task is in one of its steps; when its coroutine is closed, it is not."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs any more
        return False


def _is_ready(value: Any) -> bool:
    """Whether a value can be described at once: it is one already, and needs no code that might take its time."""
    is_result = type(value) is ToolResult
    held: Any = value.value if is_result else value
    kind = cast("type[Any]", type(held))
    if kind is str or kind is int or kind is float or kind is bool or kind is type(None):
        return True
    return (is_result or kind is dict or kind is list or not is_live(held)) and is_still(held)


async def _ended(future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for a future, at most so long; cancellation from outside leaves it a little of that time to end."""
    if future.done():
        return True
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
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
            await asyncio.wait({future}, timeout=max(min(CANCEL_SECONDS, until - loop.time()), 0))
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
        text = f"Tool {tool.name!r} was not called. {error}"
        return ToolResult(text, True, failure=Failure(code or "invalid_arguments"))
    inner = _for_call(tool, values, context)
    attempt = _Attempt(
        tool, values, inner, start=partial(function, inner, tool.whole(values)), finish=partial(_said, code)
    )
    try:
        result = await attempt.run(how_it_runs(function, thread=True, process=False))
    except BaseException as error:
        result = _said(code, _from_error(error, once=False), by_itself=False)
    if inner.cancelled():
        return ToolResult.failed(f"Tool {tool.name!r} did not answer in time.", code=code or "timeout")
    return result


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
