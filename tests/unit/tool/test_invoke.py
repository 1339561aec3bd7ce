"""The checked call: deadlines, endings, threads, generators, and what becomes data."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from types import GeneratorType
from typing import Any, cast

import pytest
from tests.clock import run
from tests.unit.values import ENDLESS, HOSTILE, shrink

from ferrule import Answer, Context, Part, Request, Tool, ToolResult, UsageError, Variables, tool
from ferrule.result import as_result
from ferrule.tool.body.attempt import how_it_runs
from ferrule.tool.body.thread import POOL
from ferrule.tool.invoke import execute, invoke

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def code_of(result: ToolResult | None) -> str | None:
    """The failure code of a result, if it has one."""
    return result.failure.code if result is not None and result.failure is not None else None


# -- what a tool returns ----------------------------------------------------------------------------------------


@tool(effect="read")
async def echo(value: Any) -> Any:
    """Give the value back."""
    return value


def returning(value: Any) -> Any:
    async def give() -> Any:
        return value

    return give


@pytest.mark.case("C031")
@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, 0.0])
def test_a_falsy_value_is_a_success(value: Any) -> None:
    result = run(echo.call({"value": value}))
    assert (result.status, result.value) == ("done", value)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("thread", [True, False])
def test_whatever_a_tool_returns_or_raises_the_call_ends_with_a_result(
    name: str, thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch)
    value = HOSTILE[name]()
    if issubclass(type(value), KeyboardInterrupt | GeneratorType):
        return

    @tool(effect="read", thread=thread)
    def give() -> Any:
        return value

    @tool(effect="read")
    async def give_async() -> Any:
        await asyncio.sleep(0)
        return value

    @tool(effect="read")
    async def throw() -> Any:
        raise value

    fails = issubclass(type(value), BaseException)
    assert asyncio.run(give.call()).is_error == asyncio.run(give_async.call()).is_error == fails
    assert asyncio.run(throw.call()).is_error


@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - ENDLESS))
def test_whatever_stands_among_the_arguments_the_call_ends_with_a_result(name: str) -> None:
    assert asyncio.run(echo.call({"value": HOSTILE[name]()})).status in ("done", "failed")


def test_a_result_that_a_tool_returns_is_taken_as_it_is() -> None:
    made = ToolResult.failed("no such order", code="refused")
    assert run(tool(returning(made)).call()) is made


@pytest.mark.parametrize(
    "value",
    [
        ToolResult("done", False, parts=[{"type": "image", "mimeType": "image/png"}]),
        ToolResult("wait", True, {"pending": {"id": "r1", "kind": "input", "prompt": "Name?"}}),
        ToolResult("wait", True, {"pending": {"id": "r1", "kind": "input"}}),
        ["see", Part("file", mimeType="text/csv", data="YSxi", name="a.csv")],
        b"%PDF-1.7 ...",
    ],
    ids=["no part", "request", "no request", "parts", "bytes"],
)
def test_what_a_tool_returns_means_what_it_means_anywhere(value: Any) -> None:
    assert run(tool(returning(value)).call()) == as_result(value)


def test_a_coroutine_returned_by_a_sync_function_is_awaited() -> None:
    async def later() -> int:
        await asyncio.sleep(0)
        return 7

    @tool
    def start() -> Awaitable[int]:
        return later()

    assert asyncio.run(start.call()).value == 7


def test_an_async_function_that_gives_a_generator_is_run_to_its_last_value() -> None:
    async def stream() -> AsyncIterator[int]:
        yield 1
        yield 2

    @tool
    async def start() -> Any:
        return stream()

    assert run(start.call()).value == 2


def test_the_yields_of_a_generator_are_progress_and_its_return_is_the_value() -> None:
    seen: list[Any] = []

    @tool
    def count(n: int) -> Generator[int, None, str]:
        yield from range(n)
        return "counted"

    result = asyncio.run(count.call({"n": 3}, Context(on_progress=seen.append)))
    assert (result.value, seen) == ("counted", [0, 1, 2])


def test_the_last_yield_of_an_async_generator_is_the_value_and_the_others_progress() -> None:
    seen: list[Any] = []

    @tool
    async def count(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    result = run(count.call({"n": 3}, Context(on_progress=seen.append)))
    assert (result.value, seen) == (2, [0, 1])
    assert run(count.call({"n": 0})).value is None


def test_a_generator_that_never_waits_meets_its_deadline() -> None:
    @tool(effect="read", timeout=0.05)
    async def endless() -> AsyncIterator[int]:
        while True:
            yield 1

    assert code_of(asyncio.run(endless.call())) == "timeout"


# -- what a tool raises -----------------------------------------------------------------------------------------


def raising(error: BaseException) -> Any:
    @tool(effect="read")
    async def broken() -> None:
        raise error

    return broken


@pytest.mark.case("C034")
@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (KeyError("x"), "KeyError: 'x'", "exception"),
        (TimeoutError(), "TimeoutError", "timeout"),
        (ConnectionRefusedError("p"), "ConnectionRefusedError: p", "unavailable"),
        (PermissionError("no"), "PermissionError: no", "denied"),
        (RuntimeError("GET https://api.example.invalid/s?key=FAKEKEY123 failed"),
         "RuntimeError: GET https://api.example.invalid/s?key=[redacted] failed", "exception"),
    ],
)  # fmt: skip
def test_an_exception_becomes_a_failure_with_type_and_message(error: Exception, text: str, code: str) -> None:
    result = run(raising(error).call())
    assert result.failure is not None
    assert (result.error, result.failure.code, result.failure.type) == (text, code, type(error).__name__)


def test_what_follows_a_masked_credential_is_still_told() -> None:
    @tool
    async def pay() -> None:
        raise TimeoutError("sent Authorization: Token FAKEFAKE1")

    text = "TimeoutError: sent Authorization: [redacted]"
    assert run(pay.call()).error == f"{text}; its effect may have happened."


def test_a_parameter_named_like_a_credential_is_told_like_any_other() -> None:
    @tool
    async def sign_in(password: str, api_key: int) -> None: ...

    text = (
        "Tool 'sign_in' was not called. The arguments do not fit the schema. password: is required; "
        "api_key: should be a valid integer (got string)."
    )
    assert run(sign_in.call({"api_key": "FAKE"})).error == text


@pytest.mark.case("C035")
def test_the_leaves_of_an_exception_group_are_told() -> None:
    group = ExceptionGroup("x", [ExceptionGroup("y", [ConnectionRefusedError("p")]), ValueError("v")])
    assert run(raising(group).call()).error == "ConnectionRefusedError: p; ValueError: v"


@pytest.mark.case("C035")
@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        BaseExceptionGroup("x", [ValueError("v"), KeyboardInterrupt()]),
        BaseExceptionGroup("x", [ValueError("v"), SystemExit(3)]),
    ],
    ids=["interrupt", "exit", "interrupt in a group", "exit in a group"],
)
def test_the_end_of_the_process_is_never_data(error: BaseException) -> None:
    with pytest.raises(type(error)):
        run(raising(error).call())


def bodies(act: Callable[[], Any], **options: Any) -> dict[str, Tool]:
    """One tool for each way to run a body, which does the same in each."""

    async def step() -> Any:
        return act()

    async def task() -> Any:
        await asyncio.sleep(0)
        return act()

    async def stream() -> AsyncIterator[Any]:
        yield act()

    def thread() -> Any:
        return act()

    def generator() -> Generator[None, None, Any]:
        yield
        return act()

    named: dict[str, Callable[[], Any]] = {f.__name__: f for f in (step, task, stream, thread, generator)}
    made: dict[str, Tool] = {name: tool(**options)(function) for name, function in named.items()}
    return {**made, "inline": tool(name="inline", thread=False, **options)(thread)}


def _instead(act: Callable[[], Any], ctx: Context[Any], arguments: dict[str, Any]) -> Any:
    return act()


WAYS = sorted(bodies(int))
ENDS: list[tuple[Callable[[], BaseException], str, str]] = [
    (lambda: GeneratorExit(), "GeneratorExit", "exception"),
    (lambda: asyncio.CancelledError(), "CancelledError", "cancelled"),
    (lambda: BaseExceptionGroup("x", [ValueError("v"), GeneratorExit()]), "ValueError: v; GeneratorExit", "exception"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("make", "text", "code"), ENDS, ids=[text for _, text, _ in ENDS])
def test_what_would_end_more_than_the_tool_is_a_failed_result_however_it_runs(
    make: Callable[[], BaseException], text: str, code: str, way: str
) -> None:
    def act() -> None:
        raise make()

    async def main() -> tuple[ToolResult, ToolResult | None]:
        body = bodies(act)[way]
        abandoned: list[ToolResult] = []
        result = await execute(body, {}, give_up=abandoned.append)
        assert result == await body.call()
        await asyncio.sleep(0)  # the caller was not cancelled
        checked = bodies(int, check=partial(_instead, act))[way]
        return result, await checked.call_check()

    result, check = asyncio.run(main())
    assert (result.error, code_of(result)) == (text, code)
    assert code_of(check) == "outcome_unknown"


@pytest.mark.parametrize("way", ["step", "task"])
def test_a_tool_that_cancels_the_task_it_finds_does_not_cancel_its_caller(way: str) -> None:
    async def step() -> None:
        cast("asyncio.Task[Any]", asyncio.current_task()).cancel()

    async def task() -> None:
        cast("asyncio.Task[Any]", asyncio.current_task()).cancel()
        await asyncio.sleep(1)

    async def main() -> tuple[ToolResult, int]:
        result = await {"step": tool(step), "task": tool(task)}[way].call()
        await asyncio.sleep(0)
        return result, cast("asyncio.Task[Any]", asyncio.current_task()).cancelling()

    result, cancelling = run(main())
    assert (code_of(result), cancelling) == ("cancelled", 0)


@pytest.mark.parametrize("effect", ["once", "read"])
def test_what_a_body_did_in_its_callers_task_is_told_before_an_interrupt_that_came_meanwhile(effect: Any) -> None:
    told: list[ToolResult] = []

    @tool(effect=effect, thread=False)
    def pay() -> str:
        signal.raise_signal(signal.SIGINT)
        return "paid"

    async def main() -> None:
        told.append(await pay.call())
        await asyncio.sleep(1)
        raise AssertionError("the interrupt was lost")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert [r.value for r in told] == ["paid"]


@pytest.mark.parametrize("given_up", [True, False])
def test_a_coroutine_that_is_closed_from_outside_goes_no_further(given_up: bool) -> None:
    further: list[str] = []

    @tool
    async def wait() -> None:
        await asyncio.sleep(1000)

    async def caller() -> None:
        await execute(wait, {}, give_up=(lambda _: None) if given_up else None)
        further.append("on")

    async def main() -> None:
        task = asyncio.ensure_future(caller())
        await asyncio.sleep(0)
        cast("Any", task.get_coro()).close()
        task.cancel()
        await asyncio.sleep(0)

    run(main())
    assert further == []


@pytest.mark.parametrize(
    ("error", "code"),
    [(TimeoutError("t"), "outcome_unknown"), (ValueError("v"), "exception")],
    ids=["timeout", "value"],
)
@pytest.mark.parametrize("way", WAYS)
def test_an_exception_that_is_returned_says_what_it_says_when_it_is_raised(
    error: Exception, code: str, way: str
) -> None:
    def act() -> None:
        raise error

    for effect in ("once", "read"):
        given = asyncio.run(bodies(lambda: error, effect=effect)[way].call())
        assert given == asyncio.run(bodies(act, effect=effect)[way].call())
        expected = "timeout" if effect == "read" and code == "outcome_unknown" else code
        assert code_of(given) == expected


@pytest.mark.case("C044")
def test_one_failing_call_leaves_its_siblings_alone_and_nothing_runs_on() -> None:
    @tool(effect="read")
    async def work(kind: str) -> str:
        await asyncio.sleep(0.01)
        if kind == "raise":
            raise ValueError("mine")
        if kind == "cancel":
            raise asyncio.CancelledError
        await asyncio.sleep(0.04)
        return kind

    async def main() -> tuple[list[ToolResult], int]:
        results = await asyncio.gather(*(work.call({"kind": k}) for k in ("a", "raise", "cancel", "d")))
        return results, len(asyncio.all_tasks())

    results, tasks = run(main())
    assert [r.success for r in results] == [True, False, False, True]
    assert [r.failure.code for r in results if r.failure] == ["exception", "cancelled"]
    assert tasks == 1


def test_cancellation_from_outside_reaches_the_tool_and_the_caller() -> None:
    ended: list[str] = []

    @tool
    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("tool")

    async def main() -> None:
        task = asyncio.create_task(work.call())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    run(main())
    assert ended == ["tool"]


@pytest.mark.parametrize(
    ("timeout", "ends", "cancels", "released", "late"),
    [
        (60, 2, 1, 3.0, ["swallowed"]),  # the caller waits while the tool tidies up
        (60, 100, 1, 6.0, ["swallowed"]),  # five seconds,
        (4, 100, 1, 4.0, ["swallowed"]),  # and never beyond the deadline
        (60, 100, 2, 2.0, ["swallowed"]),  # unless it is cancelled once more
        (60, None, 1, 1.0, []),
    ],
)
def test_a_cancelled_call_waits_for_its_tool_for_a_bounded_time_and_tells_its_end(
    timeout: float, ends: float | None, cancels: int, released: float, late: list[str]
) -> None:
    @tool(effect="read", timeout=timeout)
    async def work() -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            if ends is None:
                raise
            await asyncio.sleep(ends)
        return "swallowed"

    told: list[ToolResult] = []

    async def main() -> float:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(invoke(work, late=told.append))
        for _ in range(cancels):
            await asyncio.sleep(1)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        at = loop.time()
        await asyncio.sleep(200)
        assert len(asyncio.all_tasks()) == 1
        return at

    assert round(run(main()), 3) == released
    assert [r.value for r in told] == late


def test_what_a_cancelled_tool_raises_while_it_tidies_up_is_told_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(effect="read")
    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise OSError("disk full")

    told: list[ToolResult] = []

    async def main() -> None:
        task = asyncio.create_task(invoke(work, late=told.append))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(1)

    run(main())
    gc.collect()
    assert [r.error for r in told] == ["OSError: disk full"]
    assert caplog.records == []


def test_a_question_inside_a_task_group_suspends_the_call() -> None:
    @tool
    async def ask_both(ctx: Context[Any]) -> None:
        async def one(prompt: str) -> None:
            ctx.ask("input", prompt)

        async with asyncio.TaskGroup() as group:
            group.create_task(one("Name?"))

    result = run(ask_both.call())
    assert (result.status, result.output) == ("suspended", "Name?")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError("read"), "outcome_unknown"),
        (ConnectionResetError("gone"), "outcome_unknown"),
        (ConnectionRefusedError("no"), "unavailable"),
        (ValueError("v"), "exception"),
    ],
)
def test_a_lost_connection_proves_nothing_for_a_tool_with_an_effect(error: Exception, code: str) -> None:
    @tool
    async def pay() -> None:
        raise error

    result = run(pay.call())
    assert (code_of(result), "may have happened" in result.output) == (code, code == "outcome_unknown")


def test_an_exception_that_is_no_exception_is_data_too() -> None:
    class Panic(BaseException):
        pass

    assert run(raising(Panic("p")).call()).error == "Panic: p"


def hidden(cause: BaseException) -> BaseException:
    error = RuntimeError("bank client failed")
    error.__cause__ = cause
    return error


def handled(cause: BaseException, error: BaseException, *, told: bool = True) -> BaseException:
    """An error raised while another is handled; `told` unless it says `from None`."""
    try:
        try:
            raise cause
        except type(cause):
            if told:
                raise error  # noqa: B904 - the form most handlers have
            raise error from None
    except type(error) as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (handled(ConnectionResetError(), RuntimeError("bank client failed")), "outcome_unknown"),
        (handled(handled(TimeoutError(), KeyError(1)), ValueError()), "outcome_unknown"),
        (handled(TimeoutError(), ValueError("no such account"), told=False), "exception"),
        (handled(ConnectionRefusedError(), RuntimeError("bank client failed")), "exception"),
        (handled(TimeoutError(), ConnectionRefusedError("second try")), "outcome_unknown"),
        (handled(handled(TimeoutError(), ConnectionRefusedError()), KeyError(1)), "outcome_unknown"),
        (handled(TimeoutError(), ConnectionRefusedError("other host"), told=False), "unavailable"),
        (hidden(TimeoutError()), "outcome_unknown"),
        (hidden(hidden(ConnectionResetError())), "outcome_unknown"),
        (asyncio.IncompleteReadError(b"", 5), "outcome_unknown"),
        (hidden(ConnectionRefusedError()), "exception"),
        (hidden(ValueError()), "exception"),
    ],
)
def test_a_lost_connection_behind_an_error_leaves_open_what_happened(error: BaseException, code: str) -> None:
    @tool(effect="once")
    async def charge() -> None:
        """Charge."""
        raise error

    assert code_of(run(charge.call())) == code


# What clients of HTTP, mail, databases, models and processes call too long a wait, a lost connection, and none at all.
NAMED = {
    "ReadTimeout": "timeout", "ReadTimeoutError": "timeout", "APITimeoutError": "timeout", "TimeoutExpired": "timeout",
    "TimedOut": "timeout", "DeadlineExceeded": "timeout", "NetworkTimeout": "timeout", "ServerTimeoutError": "timeout",
    "RemoteProtocolError": "unavailable", "SMTPServerDisconnected": "unavailable", "ConnectionClosedError": "unavailable",
    "ConnectionDoesNotExistError": "unavailable", "APIConnectionError": "unavailable", "NetworkError": "unavailable",
    "ClientPayloadError": "unavailable", "IncompleteRead": "unavailable", "SSLEOFError": "unavailable",
    "AutoReconnect": "unavailable",
}  # fmt: skip
NEVER_MADE = {
    "ConnectTimeout": "timeout", "ConnectTimeoutError": "timeout", "ConnectError": "unavailable",
    "ClientConnectorError": "unavailable", "SMTPConnectError": "unavailable", "NewConnectionError": "unavailable",
    "EndpointConnectionError": "unavailable", "UnknownAccount": "exception",
}  # fmt: skip


@pytest.mark.parametrize(("name", "code"), [*NAMED.items(), *NEVER_MADE.items()])
def test_a_lost_connection_is_known_by_the_names_that_clients_give_it(name: str, code: str) -> None:
    def fail() -> None:
        raise type(name, (Exception,), {})("x")

    codes = [code_of(run(tool(effect=effect)(fail).call())) for effect in ("read", "once")]
    assert [code, "outcome_unknown" if name in NAMED else code] == codes


@pytest.mark.parametrize("way", WAYS)
def test_what_the_caller_handles_is_not_behind_the_error_of_a_tool(way: str) -> None:
    def fail() -> None:
        raise ValueError("no such account")

    async def main() -> ToolResult:
        try:
            raise TimeoutError
        except TimeoutError:
            return await bodies(fail, effect="once")[way].call()

    assert code_of(run(main())) == "exception"


# -- the deadline -----------------------------------------------------------------------------------------------


async def timed(work: Awaitable[ToolResult]) -> tuple[ToolResult, float]:
    loop = asyncio.get_running_loop()
    start = loop.time()
    return await work, loop.time() - start


@pytest.mark.parametrize(
    ("effect", "code", "text"),
    [
        ("read", "timeout", "Tool 'nap' timed out after 2 s. It was stopped."),
        ("idempotent", "timeout", "Tool 'nap' timed out after 2 s. It was stopped."),
        ("once", "outcome_unknown", "Tool 'nap' timed out after 2 s. It was stopped; its effect may have happened."),
    ],
)
def test_the_deadline_ends_an_async_call_and_says_what_is_known(effect: Any, code: str, text: str) -> None:
    @tool(effect=effect, timeout=2)
    async def nap() -> None:
        await asyncio.sleep(100)

    result, seconds = run(timed(nap.call()))
    assert (result.error, code_of(result), round(seconds, 3)) == (text, code, 2.0)


def test_the_deadline_holds_for_the_caller_of_a_tool_that_refuses_to_stop() -> None:
    late: list[ToolResult] = []

    @tool(effect="read", timeout=1)
    async def stubborn() -> str:
        for _ in range(5):
            try:
                await asyncio.sleep(3)
            except asyncio.CancelledError:
                continue
        return "finished anyway"

    async def main() -> tuple[ToolResult, float]:
        answer = await timed(invoke(stubborn, late=late.append))
        await asyncio.sleep(60)
        return answer

    result, seconds = run(main())
    assert result.error == "Tool 'stubborn' timed out after 1 s. It was told to stop and may still be running."
    assert round(seconds, 3) == 1.0
    assert [r.value for r in late] == ["finished anyway"]


def test_what_a_tool_gives_at_the_last_moment_is_its_result() -> None:
    @tool(timeout=1)
    async def save() -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "saved"
        return "slow"

    assert run(save.call()).value == "saved"


def test_a_tool_abandoned_by_its_caller_learns_of_it() -> None:
    started, seen = threading.Event(), threading.Event()

    @tool
    def work(ctx: Context[Any]) -> None:
        started.set()
        for _ in range(3000):
            if ctx.cancelled():
                seen.set()
                return
            time.sleep(0.01)

    async def main() -> None:
        task = asyncio.create_task(work.call())
        await asyncio.to_thread(started.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen.wait(30)


def test_an_abandoned_call_changes_no_variables() -> None:
    class Slow(Tool):
        timeout = 1

        @property
        def name(self) -> str:
            return "slow"

        async def execute(self, context: Context[Any]) -> None:
            context.variables["half"] = True
            await asyncio.sleep(5)

    variables = Variables()
    run(Slow().call({}, Context(variables=variables)))
    assert variables.as_dict() == {}


def test_a_context_with_less_time_shortens_the_deadline() -> None:
    @tool(effect="read", timeout=50)
    async def nap(ctx: Context[Any]) -> None:
        await asyncio.sleep(100)

    result, seconds = run(timed(nap.call({}, Context(deadline=time.monotonic() + 3))))
    assert 2.5 < seconds <= 3
    assert "timed out after 50 s" not in result.output


@pytest.mark.parametrize("later", [None, 5])
def test_the_text_tells_the_declared_seconds_whatever_passed_before_the_start(later: float | None) -> None:
    @tool(effect="read", timeout=0.1)
    async def nap(ctx: Context[Any]) -> None:
        await asyncio.sleep(100)

    context = Context[Any](deadline=None if later is None else time.monotonic() + later)
    assert "Tool 'nap' timed out after 0.1 s. It was stopped." == run(nap.call({}, context)).error


@pytest.mark.parametrize("way", WAYS)
def test_a_call_whose_time_is_over_is_not_started(way: str) -> None:
    seen: list[int] = []
    over = Context[Any](deadline=time.monotonic() - 1)
    made = bodies(lambda: seen.append(1), effect="once")[way]
    text = f"Tool {way!r} was not started: the deadline of its caller is over."
    assert run(made.call({}, over)) == ToolResult.failed(text, code="timeout")
    assert seen == []


def test_a_deadline_counts_although_the_clean_up_raises() -> None:
    @tool(effect="once", timeout=2)
    async def charge() -> None:
        """Charge."""
        try:
            await asyncio.sleep(100)
        finally:
            raise RuntimeError("connection already closed")

    result = run(charge.call())
    assert code_of(result) == "outcome_unknown"
    assert result.output == "Tool 'charge' timed out after 2 s. It was stopped; its effect may have happened."


def test_a_tool_can_see_that_nobody_waits_any_more() -> None:
    seen: list[bool] = []

    @tool(effect="read", timeout=1)
    async def look(ctx: Context[Any]) -> None:
        try:
            await asyncio.sleep(5)
        finally:
            seen.append(ctx.cancelled())

    run(look.call())
    assert seen == [True]


@pytest.mark.case("C109")
def test_a_sync_tool_that_overruns_is_reported_truthfully_and_its_late_end_is_told() -> None:
    release = threading.Event()
    late: list[ToolResult] = []

    @tool(effect="read", timeout=0.05)
    def stuck() -> str:
        release.wait(30)
        return "late"

    async def main() -> ToolResult:
        told = asyncio.Event()
        loop = asyncio.get_running_loop()

        def settle(result: ToolResult) -> None:
            late.append(result)
            loop.call_soon_threadsafe(told.set)

        result = await invoke(stuck, late=settle)
        release.set()
        await asyncio.wait_for(told.wait(), 30)
        return result

    result = asyncio.run(main())
    assert result.error == "Tool 'stuck' timed out after 0.05 s. It may still be running."
    assert [r.value for r in late] == ["late"]


@pytest.mark.parametrize("ends", [AttributeError("a"), SystemExit(3), TimeoutError("t"), [1], None], ids=repr)
def test_what_an_abandoned_thread_ends_with_is_told_as_a_result(ends: Any) -> None:
    release = threading.Event()
    late: list[ToolResult] = []

    @tool(effect="read", timeout=0.05)
    def stuck() -> Any:
        release.wait(30)
        if isinstance(ends, BaseException):
            raise ends
        return ends

    async def main() -> None:
        told = asyncio.Event()

        def settle(result: ToolResult) -> None:
            late.append(result)
            told.set()

        await invoke(stuck, late=settle)
        release.set()
        await asyncio.wait_for(told.wait(), 30)

    asyncio.run(main())
    expected = ToolResult.failed(ends) if isinstance(ends, BaseException) else ToolResult.ok(ends)
    assert late == [expected]


def test_what_an_abandoned_thread_raises_is_not_logged_by_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    @tool(effect="read", timeout=0.05)
    def stuck() -> None:
        release.wait(30)
        raise ValueError("password=FAKE")

    async def main() -> None:
        told = asyncio.Event()
        await invoke(stuck, late=lambda result: told.set())
        release.set()
        await asyncio.wait_for(told.wait(), 30)

    asyncio.run(main())
    gc.collect()
    assert caplog.records == []


@pytest.mark.parametrize("given", ["function", "value"])
def test_an_abandoned_generator_is_closed_where_it_yields(given: str) -> None:
    closed = threading.Event()

    def endless() -> Generator[None, None, None]:
        try:
            while True:
                yield
        finally:
            closed.set()

    async def gives() -> Any:
        await asyncio.sleep(0)
        return endless()

    stuck = tool(effect="read", timeout=0.05)(endless if given == "function" else gives)
    assert code_of(asyncio.run(stuck.call())) == "timeout"
    assert closed.wait(30)


@pytest.mark.parametrize("thread", [True, False])
def test_what_a_sync_body_hands_back_to_be_awaited_has_only_the_rest_of_the_time(thread: bool) -> None:
    async def main() -> tuple[ToolResult, float]:
        loop: Any = asyncio.get_running_loop()

        @tool(effect="read", timeout=10, thread=thread)
        def slowly() -> Any:
            loop._jumping.now += 8
            return asyncio.sleep(1000)

        return await slowly.call(), loop.time()

    result, ended = run(main())
    assert (result.error, ended) == ("Tool 'slowly' timed out after 10 s. It was stopped.", 10)


@pytest.mark.case("C109")
def test_fifty_stuck_calls_do_not_starve_a_quick_one() -> None:
    release = threading.Event()

    @tool(effect="read", timeout=0.05)
    def stuck() -> None:
        release.wait(30)

    @tool(effect="read", timeout=30)
    def quick() -> str:
        return "here"

    async def main() -> tuple[list[ToolResult], ToolResult]:
        return list(await asyncio.gather(*(stuck.call() for _ in range(50)))), await quick.call()

    try:
        results, last = asyncio.run(main())
    finally:
        release.set()
    assert {r.failure.code for r in results if r.failure} == {"timeout"}
    assert last.value == "here"


class Lazy(Sequence[int]):
    """A sequence whose items come when something else says so."""

    def __init__(self, go: threading.Event) -> None:
        self.go = go

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        self.go.wait(30)
        raise IndexError


class Proxy:
    """An object whose attributes come when something else says so."""

    def __init__(self, go: threading.Event) -> None:
        self._go = go

    def __str__(self) -> str:
        self._go.wait(30)
        return "proxy"


@dataclass
class Row:
    """A record that holds something lazy."""

    cells: Any


LAZY: dict[str, Callable[[threading.Event], Any]] = {
    "sequence": Lazy,
    "inside a dict": lambda go: {"rows": [1, Lazy(go)]},
    "inside a dataclass": lambda go: Row(Lazy(go)),
    "proxy": Proxy,
    "inside a tuple": lambda go: (1, Proxy(go)),
}


@pytest.mark.parametrize("name", LAZY)
@pytest.mark.parametrize("way", WAYS)
def test_the_deadline_covers_the_description_of_a_lazy_value(way: str, name: str) -> None:
    go = threading.Event()
    value = LAZY[name](go)
    try:
        result = asyncio.run(bodies(lambda: value, effect="read", timeout=0.05)[way].call())
    finally:
        go.set()
    assert code_of(result) == "timeout"
    done = asyncio.run(bodies(lambda: value, effect="read")[way].call())
    assert (done.status, done.value) == ("done", value)


class Slow(Exception):
    """An error that says what is wrong, and with which status, when something else says so."""

    def __init__(self, go: threading.Event) -> None:
        super().__init__()
        self.go = go

    def __str__(self) -> str:
        self.go.wait(30)
        return "slow"


class Path(Proxy):
    """One that is shown as it is told."""

    __repr__ = Proxy.__str__


class Asks(Exception):
    """An error whose status comes when something else says so."""

    def __init__(self, go: threading.Event) -> None:
        super().__init__("asks")
        self.go = go

    @property
    def status(self) -> int:
        self.go.wait(30)
        return 404


class Held(GeneratorExit):
    """One that closes a generator, and says so when something else does."""

    def __init__(self, go: threading.Event) -> None:
        super().__init__()
        self.go = go

    def __str__(self) -> str:
        self.go.wait(30)
        return "held"


def with_response(go: threading.Event) -> Exception:
    error = Exception("answered")
    error.response = Asks(go)  # pyright: ignore[reportAttributeAccessIssue] - as HTTP clients have it
    return error


def because_of(cause: BaseException) -> Exception:
    error = ValueError("v")
    error.__cause__ = cause
    return error


SLOW: dict[str, tuple[Callable[[threading.Event], BaseException], str]] = {
    "its own text": (Slow, "Slow: slow"),
    "an argument": (lambda go: ValueError(Proxy(go)), "ValueError: proxy"),
    "the file of an OSError": (lambda go: OSError(2, "gone", Path(go)), "FileNotFoundError: [Errno 2] gone: proxy"),
    "in a group": (lambda go: BaseExceptionGroup("x", [ValueError("v"), Slow(go)]), "ValueError: v; Slow: slow"),
    "its status": (Asks, "Asks: asks"),
    "the status of its response": (with_response, "Exception: answered"),
    "the status of its cause": (lambda go: because_of(Asks(go)), "ValueError: v"),
    "one that closes generators": (Held, "Held: held"),
}


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("way", WAYS)
def test_the_deadline_covers_what_an_error_says_raised_or_returned(way: str, name: str, raises: bool) -> None:
    go = threading.Event()
    make, text = SLOW[name]
    # Only of a call with an effect is the cause asked; it must have begun, and a thread may come late to that.
    effect, seconds, code = ("once", 0.5, "outcome_unknown") if "cause" in name else ("read", 0.05, "timeout")

    def act() -> Any:
        if raises:
            raise make(go)
        return make(go)

    try:
        late = asyncio.run(bodies(act, effect=effect, timeout=seconds)[way].call())
    finally:
        go.set()
    assert code_of(late) == code
    done = asyncio.run(bodies(act, effect=effect)[way].call())
    assert done.status == "failed"
    assert done.output.startswith(text)
    assert code_of(done) == "exception"


@pytest.mark.parametrize(
    "name", sorted(SLOW.keys() - {"the status of its cause"})
)  # which proves nothing of any effect here
@pytest.mark.parametrize("kind", ["preview", "check"])
def test_the_deadline_covers_what_an_error_of_a_preview_or_check_says(kind: str, name: str) -> None:
    go = threading.Event()

    def act(ctx: Context[Any], arguments: dict[str, Any]) -> Any:
        raise SLOW[name][0](go)

    @tool(effect="read", timeout=0.05, preview=act, check=act)
    def pay() -> None: ...

    try:
        result = asyncio.run(pay.call_preview() if kind == "preview" else pay.call_check())
    finally:
        go.set()
    assert code_of(result) == {"preview": "timeout", "check": "outcome_unknown"}[kind]


@pytest.mark.parametrize("name", ["its own text", "the status of its cause"])
@pytest.mark.parametrize("way", ["task", "thread"])
def test_the_loop_goes_on_until_an_error_has_said_late_what_is_wrong(way: str, name: str) -> None:
    release, go = threading.Event(), threading.Event()
    make, text = SLOW[name]

    async def task() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.05)
            raise make(go)

    def thread() -> None:
        release.wait(30)
        raise make(go)

    async def main() -> ToolResult:
        told: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()

        def settle(result: ToolResult) -> None:
            assert go.is_set()
            told.set_result(result)

        body = tool(effect="once", timeout=0.5)({"task": task, "thread": thread}[way])
        assert code_of(await invoke(body, late=settle)) == "outcome_unknown"
        release.set()
        asyncio.get_running_loop().call_later(0.2, go.set)  # were the loop held, this would not come before the end
        return await asyncio.wait_for(told, 30)

    assert asyncio.run(main()).output.startswith(text)


def test_what_an_error_says_too_late_is_told() -> None:
    go = threading.Event()

    @tool(effect="read", timeout=0.05)
    async def give() -> None:
        raise Slow(go)

    async def main() -> ToolResult:
        told: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        result = await invoke(give, late=told.set_result)
        assert result.output == (
            "Tool 'give' timed out after 0.05 s. It raised Slow, which has not said in time what is wrong."
        )
        go.set()
        return await asyncio.wait_for(told, 30)

    assert asyncio.run(main()).output == "Slow: slow"


@pytest.mark.parametrize(("effect", "code"), [("read", "exception"), ("once", "outcome_unknown")])
def test_an_error_that_gets_no_thread_to_say_what_is_wrong_is_named(
    effect: Any, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    @tool(effect=effect)
    async def give() -> None:
        raise Slow(threading.Event())

    monkeypatch.setattr(POOL, "submit", no_thread)
    result = asyncio.run(give.call())
    assert code_of(result) == code
    assert result.output.startswith("Tool 'give' raised Slow, and there was no thread to ask it what is wrong")


def test_what_the_caller_handles_says_nothing_of_the_effect_wherever_the_error_is_described() -> None:
    go = threading.Event()
    go.set()

    @tool
    async def pay() -> None:
        raise Slow(go)

    async def main() -> ToolResult:
        try:
            raise ConnectionResetError("of the caller")
        except ConnectionResetError:
            return await pay.call()

    assert code_of(asyncio.run(main())) == "exception"


# -- threads and context variables ------------------------------------------------------------------------------


@pytest.mark.case("C113")
def test_context_variables_reach_every_kind_of_tool_and_each_run_sees_its_own() -> None:
    @tool
    def in_thread() -> str:
        return tenant.get()

    @tool(thread=False)
    def inline() -> str:
        return tenant.get()

    @tool
    async def in_step() -> str:
        return tenant.get()

    @tool
    async def in_task() -> str:
        await asyncio.sleep(0)
        return tenant.get()

    @tool
    def generator() -> Generator[str, None, str]:
        yield tenant.get()
        return tenant.get()

    async def one(name: str) -> list[Any]:
        tenant.set(name)
        return [(await t.call()).value for t in (in_thread, inline, in_step, in_task, generator)]

    async def main() -> list[list[Any]]:
        return list(await asyncio.gather(one("a"), one("b")))

    assert asyncio.run(main()) == [["a"] * 5, ["b"] * 5]


@pytest.mark.case("C113")
def test_context_variables_reach_preview_and_check() -> None:
    def look(ctx: Context[Any], arguments: dict[str, Any]) -> ToolResult:
        return ToolResult.ok(tenant.get())

    @tool(preview=look, check=look)
    def pay() -> None: ...

    async def main() -> list[Any]:
        tenant.set("a")
        found = [await pay.call_preview(), await pay.call_check()]
        return [r.value for r in found if r]

    assert asyncio.run(main()) == ["a", "a"]


def test_a_sync_tool_runs_in_a_worker_thread_unless_declared_inline() -> None:
    @tool
    def threaded() -> int:
        return threading.get_ident()

    @tool(thread=False)
    def inline() -> int:
        return threading.get_ident()

    async def main() -> tuple[Any, Any]:
        return (await threaded.call()).value, (await inline.call()).value

    threaded_in, inline_in = asyncio.run(main())
    assert inline_in == threading.get_ident() != threaded_in


async def awaits() -> None:
    await asyncio.sleep(0)


async def never_awaits() -> int:
    return 1


async def yields() -> AsyncIterator[int]:
    yield 1


def plain_function() -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (never_awaits, {}, "step"),
        (awaits, {}, "task"),
        (yields, {}, "task"),
        (plain_function, {}, "thread"),
        (plain_function, {"thread": False}, "inline"),
        (plain_function, {"process": True}, "process"),
    ],
)
def test_how_a_body_runs_follows_from_its_code(function: Callable[..., Any], options: Any, expected: str) -> None:
    assert how_it_runs(function, **{"thread": True, "process": False, **options}) == expected


# -- processes --------------------------------------------------------------------------------------------------


@tool(effect="read", process=True, timeout=60)
def own_pid(extra: int) -> int:
    """Give the pid plus something."""
    return os.getpid() + extra


@tool(effect="read", process=True, timeout=60)
def breaks() -> None:
    """Raise."""
    raise LookupError("gone")


def test_a_tool_may_run_in_a_process_of_its_own() -> None:
    result = asyncio.run(own_pid.call({"extra": 0}))
    assert isinstance(result.value, int)
    assert result.value != os.getpid()


@tool(process=True, timeout=60)
def loses_touch() -> None:
    """Raise what proves nothing."""
    raise RuntimeError("cut off") from ConnectionResetError()


def test_a_lost_connection_in_a_child_process_proves_as_little_as_elsewhere() -> None:
    result = asyncio.run(loses_touch.call())
    assert (result.error, code_of(result)) == (
        "RuntimeError: cut off; its effect may have happened.",
        "outcome_unknown",
    )


def test_an_exception_in_a_child_process_is_told_like_any_other() -> None:
    result = asyncio.run(breaks.call())
    assert result.failure is not None
    assert (result.error, result.failure.type) == ("LookupError: gone", "LookupError")


# -- class tools and variables ----------------------------------------------------------------------------------


class Multiply(Tool):
    """Multiply two numbers."""

    @property
    def name(self) -> str:
        return "multiply"

    def execute(self, context: Context[Any]) -> ToolResult:
        return ToolResult.ok(context.variables["a"] * context.variables["b"])


def test_a_class_tool_finds_its_arguments_among_the_variables() -> None:
    assert asyncio.run(Multiply().call({"a": 6, "b": 7})).value == 42


@pytest.mark.parametrize(("made", "arguments"), [(echo, {"value": 3}), (Multiply(), {"a": 1, "b": 2})])
@pytest.mark.parametrize(("context", "kind"), [({}, "dict"), ("ctx", "str"), (Context, "type")])
def test_a_context_that_is_none_is_wrong_use(made: Tool, arguments: Any, context: Any, kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(made.call(arguments, context))
    assert f"the context of a call must be a Context, not {kind}." == str(caught.value)


def test_what_escapes_a_class_tool_is_a_failure_in_call_and_raises_from_execute() -> None:
    result = asyncio.run(Multiply().call({"a": 6}))
    assert result.error == "KeyError: 'b'"
    with pytest.raises(KeyError):
        Multiply().execute(Context(variables={"a": 6}))


def test_a_call_sees_a_snapshot_and_its_changes_are_applied_when_it_settles() -> None:
    class Count(Tool):
        @property
        def name(self) -> str:
            return "count"

        async def execute(self, context: Context[Any]) -> ToolResult:
            before = context.variables.get("n")
            await asyncio.sleep(context.variables["wait"])
            context.variables.set("n", before + 1)
            context.variables.remove("old")
            return ToolResult.ok(before)

    variables = Variables({"n": 0, "old": True})

    async def main() -> list[Any]:
        outer = Context[Any](variables=variables)
        results = await asyncio.gather(Count().call({"wait": 2}, outer), Count().call({"wait": 1}, outer))
        return [r.value for r in results]

    assert run(main()) == [0, 0]
    assert variables.as_dict() == {"n": 1}


def test_arguments_of_a_class_tool_do_not_stay_among_the_variables() -> None:
    variables = Variables()
    asyncio.run(Multiply().call({"a": 6, "b": 7}, Context(variables=variables)))
    assert variables.as_dict() == {}


def test_a_suspended_call_changes_no_variables() -> None:
    class Count(Tool):
        @property
        def name(self) -> str:
            return "count"

        def execute(self, context: Context[Any]) -> None:
            context.variables["n"] = context.variables.get("n", 0) + 1
            context.ask("input", "More?")

    variables = Variables()
    assert asyncio.run(Count().call({}, Context(variables=variables))).status == "suspended"
    assert variables.as_dict() == {}


# -- suspension -------------------------------------------------------------------------------------------------


def test_a_question_without_an_answer_suspends_past_handlers_for_every_exception() -> None:
    @tool
    async def deploy(ctx: Context[Any]) -> str:
        try:
            answer = ctx.ask("input", "Which environment?")
        except Exception:
            return "swallowed"
        return str(answer.data)

    result = run(deploy.call())
    assert (result.status, result.output) == ("suspended", "Which environment?")
    assert result.pending is not None
    assert result.pending.kind == "input"


# -- preview and check ------------------------------------------------------------------------------------------


def test_a_check_that_fails_itself_is_no_answer() -> None:
    def look(ctx: Context[Any], arguments: dict[str, Any]) -> ToolResult | None:
        raise ConnectionRefusedError("bank")

    @tool(check=look)
    async def pay(amount: int) -> None: ...

    result = asyncio.run(pay.call_check({"amount": 5}))
    assert result is not None
    assert (result.error, code_of(result)) == ("ConnectionRefusedError: bank", "outcome_unknown")
    unread = asyncio.run(pay.call_check({"amount": "five"}))
    assert code_of(unread) == "outcome_unknown"


def test_a_check_that_finds_nothing_says_none_and_one_that_finds_it_gives_the_result() -> None:
    done = {5}

    async def look(ctx: Context[Any], arguments: dict[str, Any]) -> ToolResult | None:
        return ToolResult.ok("paid") if arguments["amount"] in done else None

    @tool(check=look)
    async def pay(amount: int) -> None: ...

    assert run(pay.call_check({"amount": 4})) is None
    assert run(pay.call_check({"amount": 5})) == ToolResult.ok("paid")


@pytest.mark.parametrize(
    ("says", "found"),
    [
        (None, None),
        (False, None),
        (True, ToolResult.ok(True)),
        (ToolResult.ok(False), ToolResult.ok(False)),
        (ToolResult.failed("no money"), ToolResult.failed("no money")),
        (0, ToolResult.ok(0)),
        ("", ToolResult.ok("")),
        ([], ToolResult.ok([])),
    ],
    ids=repr,
)
def test_none_and_false_say_that_it_did_not_happen_and_all_else_that_it_did(says: Any, found: Any) -> None:
    def look(ctx: Context[Any], arguments: dict[str, Any]) -> Any:
        return says

    async def look_async(ctx: Context[Any], arguments: dict[str, Any]) -> Any:
        return says

    for check in (look, look_async):
        assert asyncio.run(tool(check=check)(plain_function).call_check()) == found


@pytest.mark.needs("numpy")
def test_a_truth_value_of_numpy_says_what_one_of_python_says() -> None:
    import numpy as np

    for says in (True, False):
        check = tool(check=lambda ctx, arguments, says=says: np.array([says]).any())(plain_function).call_check()
        assert (asyncio.run(check) is not None) == says


def test_a_preview_that_says_false_is_shown() -> None:
    assert asyncio.run(tool(preview=lambda ctx, arguments: False)(plain_function).call_preview()) == ToolResult.ok(
        False
    )


def test_a_preview_sees_checked_arguments_and_nothing_is_called() -> None:
    called: list[int] = []

    def show(ctx: Context[Any], arguments: dict[str, Any]) -> ToolResult:
        return ToolResult.ok(f"would pay {arguments['amount']!r}")

    @tool(preview=show)
    async def pay(amount: int) -> None:
        called.append(amount)

    shown = asyncio.run(pay.call_preview('{"amount": "5"}'))
    assert shown is not None
    assert shown.output == "would pay 5"
    refused = asyncio.run(pay.call_preview('{"amount": "five"}'))
    assert (code_of(refused), called) == ("invalid_arguments", [])


def test_a_tool_without_preview_and_check_has_neither() -> None:
    assert run(echo.call_preview({"value": 1})) is None
    assert run(echo.call_check({"value": 1})) is None


# -- what leaves ------------------------------------------------------------------------------------------------


@pytest.mark.case("C032")
def test_a_huge_text_is_cut_for_the_model_and_kept_whole_for_code() -> None:
    whole = "a😀" * 1_000_000

    @tool
    async def dump() -> str:
        return whole

    result = run(dump.call({}, Context(call_id="call_1")))
    assert len(result.output) <= 50_000
    assert "of 2,000,000 characters left out; the whole output is kept with call_1" in result.output
    assert (result.output[:2], result.output[-2:]) == ("a😀", "a😀")
    assert result.value is whole
    assert result.metadata is not None
    assert result.metadata["full_output"] is whole


def test_a_value_that_does_not_fit_the_declared_type_fails_and_is_kept() -> None:
    @tool
    async def count() -> int:
        return "many"  # pyright: ignore[reportReturnType]

    result = run(count.call())
    assert (result.status, result.value) == ("failed", "many")
    assert result.error is not None
    assert result.error.startswith("Tool 'count' returned a value that does not fit its declared output:")


# -- calls inside calls -----------------------------------------------------------------------------------------


def test_a_call_inside_a_call_has_a_key_of_its_own_and_none_of_the_answers() -> None:
    @tool
    async def inner(ctx: Context[Any]) -> str:
        ctx.ask("approval", "Delete?")
        return ctx.effect_key

    @tool
    async def outer(ctx: Context[Any]) -> list[Any]:
        ctx.ask("approval", "Delete?")
        nested = await inner.call({}, ctx)
        return [ctx.effect_key, nested.status]

    given = [(Request("r1", "approval", "Delete?"), Answer("r1", True))]
    assert run(outer.call({}, Context(call_id="c1", answers=given))).value == ["c1", "suspended"]


# -- where a tool raised ----------------------------------------------------------------------------------------


@tool(effect="read", preview=lambda context, arguments: 1 / 0)
async def broken() -> None:
    """Raise."""
    raise RuntimeError("GET https://api.example.invalid/?key=FAKE")


def test_the_traceback_of_a_tool_is_logged_for_whoever_debugs_without_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "ferrule")
    run(broken.call())
    (record,) = caplog.records
    assert ("ferrule.tool", "DEBUG") == (record.name, record.levelname)
    assert record.message.startswith("a tool raised\nTraceback (most recent call last):\n")
    assert record.message.endswith("\nRuntimeError: GET https://api.example.invalid/?key=[redacted]")
    assert "in broken\n" in record.message
    run(broken.call_preview())
    assert caplog.records[1].message.endswith("ZeroDivisionError: division by zero")


def test_no_traceback_is_logged_where_nobody_debugs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ferrule")
    run(broken.call())
    assert [] == caplog.records


# -- odd bodies -------------------------------------------------------------------------------------------------


def test_a_stop_iteration_in_a_thread_is_a_failure_and_no_wait_for_ever() -> None:
    @tool(effect="read", timeout=60)
    def first() -> int:
        return next(iter(()))

    assert asyncio.run(first.call()).error == "StopIteration"


def test_a_tool_in_one_step_keeps_its_context_variables_to_itself() -> None:
    @tool
    async def change() -> str:
        tenant.set("changed")
        return tenant.get()

    async def main() -> tuple[Any, str]:
        tenant.set("mine")
        return (await change.call()).value, tenant.get()

    assert run(main()) == ("changed", "mine")


def test_a_coroutine_returned_by_a_function_without_await_is_awaited() -> None:
    async def later() -> int:
        await asyncio.sleep(1)
        return 7

    @tool
    async def start() -> Any:
        return later()

    assert run(start.call()).value == 7


def test_a_listener_to_progress_that_raises_does_not_decide_how_the_call_ends() -> None:
    def broken(_: Any) -> None:
        raise ValueError("listener")

    @tool
    def count() -> Generator[int, None, str]:
        yield 1
        return "counted"

    assert asyncio.run(count.call({}, Context(on_progress=broken))).value == "counted"


def test_what_a_generator_opened_is_closed_when_its_call_ends() -> None:
    closed: list[bool] = []

    @tool
    def count() -> Generator[int, None, None]:
        try:
            yield 1
            raise ValueError("v")
        finally:
            closed.append(True)

    assert asyncio.run(count.call()).error == "ValueError: v"
    assert closed == [True]


# -- what a person decides about --------------------------------------------------------------------------------


def test_a_preview_and_a_check_see_the_defaults_that_the_body_will_use() -> None:
    seen: list[dict[str, Any]] = []

    async def look(context: Context[Any], arguments: dict[str, Any]) -> str:
        seen.append(arguments)
        return "looked"

    @tool(preview=look, check=look)
    async def pay(to: str, amount: int = 5000, note: str = "") -> str:
        """Pay."""
        return "paid"

    run(pay.call_preview({"to": "ann"}))
    run(pay.call_check({"to": "ann", "amount": 1}))
    assert seen == [{"to": "ann", "amount": 5000, "note": ""}, {"to": "ann", "amount": 1, "note": ""}]
