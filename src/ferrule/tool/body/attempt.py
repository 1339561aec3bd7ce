"""One attempt of a call: how a body runs, its deadline, and what it ends with.

Since 0.1.
"""

from __future__ import annotations

import dis
import inspect
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import CodeType, CoroutineType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ferrule.exception import proves_nothing
from ferrule.lazy import LazyModule
from ferrule.redact import scrub
from ferrule.result import Failure, ToolResult, as_result
from ferrule.strict_json import dumps, is_a, kind_of, plain
from ferrule.tool.body.deadline import Deadlines, deadlines
from ferrule.tool.body.thread import POOL
from ferrule.tool.body.value import GENERATOR, consume, exhaust, is_live, is_still
from ferrule.tool.context import Context
from ferrule.tool.output import checked

if TYPE_CHECKING:
    import asyncio
    import logging
    import traceback
    from concurrent import futures
    from concurrent.futures import Future

    from ferrule.tool import process
    from ferrule.tool.tool import FunctionTool, Tool
else:
    asyncio = LazyModule("asyncio")
    futures = LazyModule("concurrent.futures")
    logging = LazyModule("logging")
    traceback = LazyModule("traceback")
    process = LazyModule("ferrule.tool.process")  # few tools run in a process of their own

Runs = Literal["step", "inline", "task", "thread", "process", "run"]  # the last: inside the caller's run
Late = Callable[[ToolResult], None]
GiveUp = Callable[[ToolResult], None]
CANCEL_SECONDS = 5.0
RUNNING: Final = {"running": True}  # among the details of a call that may have its effect yet
# From 3.12 on a task takes its first step at once: what need not wait costs no turn of the event loop.
AT_ONCE: Any = {"eager_start": True} if sys.version_info >= (3, 12) else {}
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


class Own(Exception):
    """Carries what a tool raised that, let go, would end more than the tool: a task or a generator.

    Args:
        error: What it raised.
    """

    def __init__(self, error: BaseException) -> None:
        """Carry it."""
        super().__init__()
        self.error = error


STRAY = (GeneratorExit, StopIteration)


def failed(error: BaseException, *, once: bool, before: BaseException | None = None) -> ToolResult:
    """The failed result that says what a body raised.

    Args:
        error: What it raised.
        once: Whether the call has the effect class `once`: what proves nothing is then unknown, and no failure.
        before: What was handled where it was caught, if that is another thread than this one.
    """
    _log_place(error)
    result = ToolResult.failed(error)
    return unknown(result.output) if once and proves_nothing(error, before) else result


def unknown(text: str, *, running: bool = False) -> ToolResult:
    """The result of a `once` call of which nobody knows whether it had its effect.

    Args:
        text: How it ended, without a full stop.
        running: Whether its body may go on, so that the effect may happen yet.
    """
    failure = Failure("outcome_unknown", details=RUNNING if running else None)
    return ToolResult(f"{text}; its effect may have happened.", True, failure=failure)


def is_unknown(result: ToolResult) -> bool:
    """Whether nobody knows if a call had its effect.

    Args:
        result: How it ended.
    """
    return result.failure is not None and result.failure.code == "outcome_unknown"


def _log_place(error: BaseException) -> None:
    """Tell whoever debugs where a tool raised: the result only says what. Credentials are taken out here as there."""
    if _tells_place():
        with suppress(Exception):  # an exception of the user's class may refuse to be shown
            logging.getLogger("ferrule.tool").debug(
                "a tool raised\n%s", scrub("".join(traceback.format_exception(error)).rstrip())
            )


def _tells_place() -> bool:
    return logging.getLogger("ferrule.tool").isEnabledFor(logging.DEBUG)


def described(tool: Tool, value: Any) -> ToolResult:
    """The result of what the body ended with, checked against its declared type.

    Args:
        tool: The tool.
        value: What its body returned.
    """
    result = as_result(value)
    if result.is_error and is_a(value, BaseException):  # returned, it says what it says when it is raised
        return failed(value, once=tool.effect == "once")
    return result if tool.output_check is None else checked(result, tool.output_check, tool.name)


_ENDING: set[asyncio.Future[Any]] = set()  # abandoned work that the event loop itself would forget


class Attempt:
    """One attempt that may outlast a step: its clock and its ending.

    Args:
        tool: The tool.
        values: Checked arguments by name.
        context: The context of this call; None when the tool wants none.
        text: The JSON text of the arguments.
        late: Takes what the call ends with after its deadline.
        start: Calls the body; default the tool's.
        finish: Makes of the body's value what the call ends with; default `described`.
    """

    __slots__ = (
        "context", "expired", "finish", "give_up", "late", "left", "limit", "loop", "start", "task", "text", "tool",
        "until", "values", "waiter",
    )  # fmt: skip

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
        """Start the clock."""
        self.tool = tool
        self.values = values
        self.context = context
        self.text = text
        self.late = late
        self.expired = False
        self.waiter: asyncio.Future[None] | None = None  # of a caller in another task than the body's
        self.left = False  # whether nobody waits any more
        self.start = start
        self.finish = finish
        self.loop = asyncio.get_running_loop()
        self.limit = tool.timeout
        if context is not None and context.shortened and context.deadline is not None:
            self.limit = min(self.limit, max(context.deadline - time.monotonic(), 0.0))
        self.until = self.loop.time() + self.limit

    async def run(self, runs: Runs | None = None) -> Any:
        """Run the body to its end or to the deadline.

        Args:
            runs: How; default as the tool does.

        Returns:
            What `finish` makes of its value, or the result that says why there is none.
        """
        runs = runs or self.tool.runs
        if runs == "thread":
            return await self._in_thread()
        if runs == "process":
            return await self._in_process()
        if runs == "task":
            return await self.in_task(self._started())
        value = self._inline()
        return self._finished(value) if is_ready(value) else await self.in_task(value, begun=True)

    def _inline(self) -> Any:
        """Call the sync body here. What cancels this task meanwhile, Ctrl-C for one, comes after its value."""
        try:
            return self._started()
        except (asyncio.CancelledError, *STRAY) as error:
            raise Own(error) from None

    async def told(self, error: BaseException, *, once: bool) -> ToolResult:
        """What the call ends with where the body raised; saying so takes a thread where that may take its time.

        Args:
            error: What it raised.
            once: As for `failed`.
        """
        if _is_said_at_once(error):
            return failed(error, once=once)
        future = self._saying(error, once=once)
        wrapped = asyncio.wrap_future(future)
        try:
            ended = await self._ended(wrapped)
        except asyncio.CancelledError:
            self._watch_thread(future)
            raise
        if ended:
            return wrapped.result()
        self._watch_thread(future)
        return self._timed_out(f"It raised {kind_of(error)}, which has not said in time what is wrong")

    def _saying(self, error: BaseException, *, once: bool) -> Future[ToolResult]:
        """The failed result, made in a worker thread from what the code of a class says."""
        try:
            return POOL.submit(partial(failed, error, once=once, before=sys.exception()))
        except RuntimeError:  # the system gives no thread
            future: Future[ToolResult] = futures.Future()
            text = f"Tool {self.tool.name!r} raised {kind_of(error)}, and there was no thread to ask it what is wrong"
            future.set_result(unknown(text) if once else ToolResult.failed(f"{text}.", code="exception"))
            return future

    async def _settled(self, value: Any) -> Any:
        """What `finish` makes of a value, once it is one; describing it takes a thread where that may take its time."""
        try:
            if type(value) is CoroutineType:
                value = await cast("Awaitable[Any]", value)
            if not is_ready(value):
                value = await consume(value, self._report)
        except STRAY as error:
            raise Own(error) from None
        if is_ready(value):
            return self._finished(value)
        return await asyncio.wrap_future(POOL.submit(partial(self._finished, value)))

    async def in_task(self, value: Any, *, begun: bool = False) -> Any:
        """Await a body in a task of its own, so that the deadline holds for the caller.

        Args:
            value: The coroutine or async generator, or a value that takes its time to describe.
            begun: Whether the attempt began before now, so that others with the same time may be due after it.

        Raises:
            Own: The body was cancelled, by itself.
        """
        self.waiter = self.loop.create_future()
        task = asyncio.Task(self._landing(value), loop=self.loop, **AT_ONCE)
        timers = Deadlines() if begun else self._timers()
        timers.add(self, self.loop)
        try:
            await self.waiter
            if not task.done():  # the deadline
                self._abandon()
                task.cancel()
                for _ in range(3):  # a well-behaved tool ends within a step or two of being cancelled
                    await asyncio.sleep(0)
            elif task.cancelled():
                raise Own(asyncio.CancelledError())
            else:
                return task.result()
        except asyncio.CancelledError:
            self._abandon()
            self._watch(task)
            await _with_grace(task, self.until)
            raise
        finally:
            timers.remove(self)
        if not task.done():
            self._watch(task)
            return self._timed_out("It was told to stop and may still be running", running=True)
        if task.cancelled() or task.exception() is not None:  # an error of its clean-up proves nothing about its effect
            return self._timed_out("It was stopped")
        return task.result()  # it ended at the last moment, and that is what happened

    async def in_this_task(self, give_up: GiveUp) -> Any:
        """Await the body in the current task, for a caller that waits for `give_up` too.

        Args:
            give_up: Takes the result of a body that does not end.

        Raises:
            Own: The body raised a `StopIteration` or a `GeneratorExit` of its own.
        """
        task = self.task = cast("asyncio.Task[Any]", asyncio.current_task(self.loop))
        self.give_up = give_up
        timers = self._timers()
        timers.add(self, self.loop)
        try:
            body: Any = self._started()
            if type(body) is CoroutineType:  # the way of nearly all: one frame less than `_settled`
                try:
                    body = await cast("Awaitable[Any]", body)
                except STRAY as error:
                    raise Own(error) from None
                if is_ready(body):
                    return self._finished(body)
            return await self._settled(body)
        except BaseException as error:
            if is_a(error, Own) and is_a(error.error, GeneratorExit) and not _runs(task):
                raise error.error from None  # whoever has the coroutine closes it
            if not self.expired or is_a(error, (KeyboardInterrupt, SystemExit)):
                if is_a(error, asyncio.CancelledError):
                    self._abandon()
                raise
            return self._timed_out("It was stopped")
        finally:
            self.give_up = None
            timers.remove(self)
            if self.expired:
                task.uncancel()

    async def _landing(self, value: Any) -> Any:
        """What a task of its own does: its last step wakes the caller, without a turn of the event loop for it."""
        try:
            return await self._settled(value)
        finally:
            self._wake()

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            with suppress(RuntimeError):  # the event loop is closed, and the coroutine with it
                self.waiter.set_result(None)

    def _timers(self) -> Deadlines:
        limit = self.limit
        return deadlines(self.loop, limit) if limit == self.tool.timeout else Deadlines()

    def expire(self) -> None:
        """The deadline: tell the body to stop; when it has not within a step or two, go on without it."""
        if self.waiter is not None:  # a caller in another task sees to that
            self._wake()
            return
        self.expired = True
        self._abandon()
        self.task.cancel()
        self.loop.call_soon(self._insist, 3)

    def _insist(self, steps: int) -> None:
        give_up = self.give_up
        if give_up is None:
            return
        if steps:
            self.loop.call_soon(self._insist, steps - 1)
            return
        self._watch(self.task)
        give_up(self._timed_out("It was told to stop and may still be running", running=True))

    async def _in_thread(self) -> Any:
        future = POOL.submit(self._in_this_thread)
        wrapped = asyncio.wrap_future(future)
        try:
            ended = await self._ended(wrapped)
        except asyncio.CancelledError:
            self._watch_thread(future)
            raise
        if ended:
            try:
                value = wrapped.result()
            except asyncio.CancelledError as error:
                raise Own(error) from None
            return await self.in_task(value, begun=True) if is_live(value) else value
        if future.cancel():
            return self._not_started()
        wrapped.cancel()  # or asyncio would log, word for word, what the body raises later on
        self._watch_thread(future)
        return self._timed_out("It may still be running", running=True)

    def _in_this_thread(self) -> Any:
        """Call the sync body, run a generator to its end, and describe the value."""
        try:
            value = self._started()
            value = exhaust(value, self._report) if is_a(value, GENERATOR) else value
        except STRAY as error:  # a StopIteration no future can carry: whoever waits would wait for ever
            raise Own(error) from None
        return value if is_live(value) else self._finished(value)

    async def _in_process(self) -> Any:
        """Run the body in a child process, which the deadline really ends."""
        text = self.text if self.text is not None else dumps(plain(self.values, big_ints="number"))
        tool = cast("FunctionTool[..., Any]", self.tool)
        so_far: list[Callable[[], process.Outcome]] = []
        task = asyncio.ensure_future(process.call_isolated(tool, text, timeout=self.limit, begun=so_far.append))
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)
        ended = await self._ended(task)
        # An answer that came in time counts, though a thread keeps the process that gave it.
        outcome = task.result() if ended else so_far[0]() if so_far else None
        if outcome is None or outcome.timed_out:
            state = "Its process was ended" if ended else "Its process is being ended"
            return self._timed_out(state, running=not ended)
        if outcome.error is None:
            return as_result(outcome.value)
        code, kind, text = outcome.error
        if self.tool.effect == "once" and (outcome.unproven or code == "outcome_unknown"):
            return unknown(text)
        return ToolResult(text, True, failure=Failure("unavailable" if code == "outcome_unknown" else code, kind))

    async def _ended(self, future: asyncio.Future[Any]) -> bool:
        """Wait for the body until the deadline; whoever looks at the context then learns that nobody waits."""
        try:
            ended = await _ended(future, self._rest())
        except asyncio.CancelledError:
            self._abandon()
            raise
        if not ended:
            self._abandon()
        return ended

    def _rest(self) -> float:
        """Seconds that are left of its time."""
        return max(self.until - self.loop.time(), 0.0)

    def _abandon(self) -> None:
        self.left = True
        if self.context is not None:
            self.context.cancel()

    def _started(self) -> Any:
        """What the body makes at once: its value, or what must be awaited or run for it."""
        return self.tool.start(self.values, self.context) if self.start is None else self.start()

    def _finished(self, value: Any) -> Any:
        """What the call ends with where the body ends with a value."""
        return described(self.tool, value) if self.finish is None else self.finish(value)

    def _report(self, value: Any) -> None:
        if self.left:  # a generator can be stopped where it yields, in a thread too
            raise asyncio.CancelledError
        if self.context is not None:
            self.context.progress(value)

    def _timed_out(self, state: str, *, running: bool = False) -> ToolResult:
        text = f"Tool {self.tool.name!r} timed out after {self.limit:.3g} s. {state}"
        if self.tool.effect == "once":
            return unknown(text, running=running)
        return ToolResult.failed(f"{text}.", code="timeout")

    def _not_started(self) -> ToolResult:
        text = f"Tool {self.tool.name!r} was not started within {self.limit:.3g} s: all worker threads are busy."
        return ToolResult.failed(text, code="timeout")

    def _watch(self, task: asyncio.Future[Any]) -> None:
        """Tell whoever listens what an abandoned task ends with."""
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)
        task.add_done_callback(self._settle_late)

    def _watch_thread(self, future: Any) -> None:
        def told(ended: Any) -> None:
            with suppress(RuntimeError):  # the event loop is closed: nobody listens any more
                self.loop.call_soon_threadsafe(self._settle_late, ended)

        future.add_done_callback(told)

    def _settle_late(self, ended: Any) -> None:
        error = ended.exception() if not ended.cancelled() else asyncio.CancelledError()
        if self.late is None or is_a(error, asyncio.CancelledError):
            return
        if error is not None:
            error, once = error.error if is_a(error, Own) else error, self.tool.effect == "once"
            if _is_said_at_once(error):
                self.late(failed(error, once=once))
            else:
                self._watch_thread(self._saying(error, once=once))
            return
        found = ended.result()
        # A thread may have given a coroutine, which nobody awaits any more.
        self.late(found if is_a(found, ToolResult) else self._finished(found))


def _runs(task: asyncio.Task[Any]) -> bool:
    """Whether a task is in one of its steps; when its coroutine is closed, it is not."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs any more
        return False


def is_ready(value: Any) -> bool:
    """Whether a value can be described at once: it is one already, and needs no code that might take its time.

    Args:
        value: What a body returned.
    """
    is_result = type(value) is ToolResult
    held: object = value.value if is_result else value
    kind = type(held)
    if kind is str or kind is int or kind is float or kind is bool or kind is type(None):
        return True
    return (is_result or kind is dict or kind is list or not is_live(held)) and is_still(held)


def _is_said_at_once(error: BaseException) -> bool:
    """Whether it needs no code that might take its time to say what is wrong, and where if somebody debugs."""
    return is_still(error) and not _tells_place()


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
        await _with_grace(future, until)
        raise
    finally:
        timer.cancel()
        future.remove_done_callback(wake)
    return future.done()


async def _with_grace(future: asyncio.Future[Any], until: float) -> None:
    """Cancel a future and leave it a little of its time to end."""
    if future.cancel():
        left = until - asyncio.get_running_loop().time()
        await asyncio.wait({future}, timeout=max(min(CANCEL_SECONDS, left), 0))
