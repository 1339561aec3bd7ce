"""The attempts of one call in a run: slot, record, body, and what follows from its end."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ferrule.lazy import LazyModule
from ferrule.machine import CallTool
from ferrule.result import ToolResult
from ferrule.runtime.answer import PARKED
from ferrule.runtime.digest import digest_of_arguments
from ferrule.runtime.doubt import checked, decided, find_out
from ferrule.runtime.event import Event
from ferrule.runtime.recovery import Found
from ferrule.runtime.slots import SLOTS
from ferrule.suspension import Answer, Request
from ferrule.tool.body.attempt import is_unknown, unknown
from ferrule.tool.context import Context
from ferrule.tool.invoke import execute
from ferrule.tool.tool import Tool

if TYPE_CHECKING:
    import asyncio
    import random

    from ferrule.runtime.driver import Driver
else:
    asyncio = LazyModule("asyncio")
    random = LazyModule("random")

Finishing: TypeAlias = Callable[[ToolResult], Awaitable[ToolResult]]
MAX_DELAY = 120.0
GONE = "The process ended during the call"
LOST = "The process was not heard of again during the call"


class Attempts:
    """One call that is being made.

    Args:
        run: The run.
        command: The command.
        tool: The tool.
        values: The frozen arguments by name.
        text: Their JSON text.
        finish: What hooks and a person's edit make of the result.

    Since 0.1.
    """

    __slots__ = ("_command", "_finish", "_given_up", "_kept", "_retried", "_run", "_text", "_tool", "_values")

    def __init__(
        self,
        run: Driver,
        command: CallTool,
        tool: Tool,
        values: dict[str, Any],
        text: str | bytes,
        finish: Finishing | None = None,
    ) -> None:
        """Nothing is made yet."""
        self._run = run
        self._command = command
        self._tool = tool
        self._values = values
        self._text = text
        self._finish = finish
        self._given_up = 0  # the last attempt that nobody waits for, though its body has not ended
        self._retried = 0  # what a person answers begins an attempt too, and is no retry
        self._kept: tuple[list[tuple[Request, Answer]], dict[str, Any]] | None = None  # answers and state

    async def settle(self, attempt: int = 1) -> Any:
        """Make attempts until the call is settled, or waits for an answer.

        Args:
            attempt: The first of them.

        Returns:
            The result, or PARKED.
        """
        run, tool, op = self._run, self._tool, self._command.op
        while not run.ending:  # a body, or whoever was asked, may have gone on when it was told to end
            if tool.concurrency is not None:  # held while it runs, and not while somebody is asked or time passes
                await SLOTS.take(tool)
            try:
                call = self._command.call
                frozen, volatile = changed(self._text, call.arguments), run.journal.volatile
                requested = None if volatile else digest_of_arguments(call.arguments)
                run.journal.append("tool.intended", run.path + op, call.name, attempt, frozen, requested)
                if run.listener is not None:
                    run.say("tool_call", op, call)
                if not volatile and tool.effect != "read":
                    await run.journal.durable()
                if tool.runs == "run":
                    child = cast("Any", tool)
                    input = child.input_of(self._values, self._command.within)
                    return await self._end(await run.inside(op, child.agent, input))
                result = await self._execute(attempt)
            finally:
                if tool.concurrency is not None and attempt > self._given_up:
                    SLOTS.give(tool)
            if attempt <= self._given_up:
                return result  # too late: what the call is settled with is decided without it
            if result.is_error:
                result = await self._unsettled(result, attempt)
                if result is None:
                    attempt += 1
                    continue
            elif tool.effect == "once":
                run.effects.proven(op)
            return result if self._finish is None else await self._end(result)
        return PARKED

    def _execute(self, attempt: int) -> Any:
        run, tool = self._run, self._tool
        context = self._context(attempt) if tool.injected != () else None
        if tool.effect == "once":
            check = None if tool.check is None else partial(checked, tool, self._text, self._context(attempt))
            run.effects.begin(self._command.op, check)
        give_up = partial(self._give_up, attempt) if tool.runs == "task" else None
        if run.trace is None:
            return execute(tool, self._values, context, text=self._text, give_up=give_up)
        work = partial(execute, tool, self._values, context, text=self._text)
        return run.trace.tool(tool, self._command.call.id, work, give_up)

    async def resume(self, found: Found) -> Any:
        """Go on with a call from where its records leave it, in another process perhaps.

        Args:
            found: What they tell.

        Returns:
            The result, or PARKED.
        """
        attempt, result = found.attempt, None
        self._kept, self._retried = (found.answers, found.state), found.retried
        if found.request is not None:
            answer = found.answer or await self._run.questions.again(self._command.op, found.request)
            if answer is None:
                return PARKED
            result = self._answered(found.request, found.why, answer)
        elif found.retry_at is not None:
            await asyncio.sleep(max(found.retry_at - time.time(), 0.0))
        elif found.begun and self._tool.effect == "once" and self._tool.runs != "run":
            dead = await self._run.journal.quiet(found.holder, found.at + self._tool.timeout)
            doubt = unknown(f"{GONE if dead else LOST} of tool {self._tool.name!r}")
            result = await self._unsettled(doubt, attempt, dead=True)
        return await self.settle(attempt + 1) if result is None else await self._end(result)

    def begun_before(self, found: Found) -> None:
        """Keep in mind that the call may have had its effect in another process, for a run that ends without asking.

        Args:
            found: What the records tell.
        """
        run, tool = self._run, self._tool

        async def look(doubt: ToolResult) -> ToolResult:
            await run.journal.quiet(found.holder, found.at + tool.timeout)
            return await checked(tool, self._text, self._context(found.attempt), doubt)

        run.effects.begin(self._command.op, None if tool.check is None else look)

    async def _ask(self, request: Request, why: str, attempt: int) -> Answer | None:
        arguments = changed(self._text, self._command.call.arguments)
        return await self._run.questions.ask(self._command.op, request, why, attempt, arguments, self._memory()[1])

    def _answered(self, request: Request, why: str, answer: Answer) -> ToolResult | None:
        """What an answer makes of the call: a result, or None for another attempt."""
        if why == "outcome":
            gone = unknown(f"{GONE} of tool {self._tool.name!r}")
            return decided(self._tool, answer, gone, self._command.call.id)
        if not answer.ok:
            return denied(self._tool, answer)
        self._memory()[0].append((request, answer))
        return None

    async def _unsettled(self, result: ToolResult, attempt: int, *, dead: bool = False) -> Any:
        """What becomes of an attempt that did not succeed: a result, PARKED, or None for another attempt."""
        run, tool, op = self._run, self._tool, self._command.op
        if tool.effect == "once":
            if is_unknown(result):
                run.effects.broke_off(op, result)
                ask = partial(self._ask, why="outcome", attempt=attempt) if self._asks() else None
                context = self._context(attempt)
                found = await find_out(tool, self._values, self._text, context, result, ask, dead=dead)
                if not isinstance(found, ToolResult):
                    return found
                result = found
            run.effects.proven(op)
        request = result.pending
        if request is not None:
            answer = await self._ask(request, "tool", attempt)
            return PARKED if answer is None else self._answered(request, "tool", answer)
        failure = result.failure
        if failure is None or not failure.retryable or self._retried >= tool.max_retries or run.ending:
            return result
        delay = delay_of(self._retried + 1, failure.retry_after)
        if delay is None:
            return result
        self._retried += 1
        run.journal.append("tool.settled", run.path + op, result, attempt, delay)
        await asyncio.sleep(delay)
        return None

    def _asks(self) -> bool:
        """Whether a person is asked when nobody else knows."""
        rule = self._tool.on_unknown or ("fail" if self._run.journal.volatile else "ask")
        return rule == "ask" and not self._run.ending

    async def _end(self, result: Any) -> Any:
        return result if self._finish is None or result is PARKED else await self._finish(result)

    def _give_up(self, attempt: int, result: ToolResult) -> None:
        """Go on without a body that does not end; its slot is free, as that of a thread which goes on."""
        self._given_up = attempt
        if self._tool.concurrency is not None:
            SLOTS.give(self._tool)
        if self._run.ending:
            self._run.effects.broke_off(self._command.op, result)
            self._run.landed(self._command, result)
        else:
            self._run.instead(self._command, self._without(result, attempt))

    async def _without(self, result: ToolResult, attempt: int) -> Any:
        found = await self._unsettled(result, attempt)
        return await self.settle(attempt + 1) if found is None else await self._end(found)

    def _memory(self) -> tuple[list[tuple[Request, Answer]], dict[str, Any]]:
        """What the body has been answered and has kept for itself, over all attempts."""
        if self._kept is None:
            self._kept = ([], {})
        return self._kept

    def _context(self, attempt: int) -> Context[Any]:
        """What the tool is told about its call."""
        run, op, call = self._run, self._command.op, self._command.call
        answers, state = self._memory()

        def progress(value: Any) -> None:
            _emit(run, Event("tool_progress", op, call=call, value=value))

        return Context(
            run_id=run.info.run_id,
            call_id=call.id,
            attempt=attempt,
            answers=answers,
            state=state,
            deps=run.info.deps,
            run_context=run.info.context,
            variables=run.variables,
            on_progress=progress if run.listener is not None else None,
        )


def _emit(run: Driver, event: Event) -> None:
    """Tell the listener of a run, from whatever thread."""
    try:
        here = asyncio.get_running_loop() is run.loop
    except RuntimeError:
        here = False
    if here:
        run.emit(event)
    elif not run.loop.is_closed():
        run.loop.call_soon_threadsafe(run.emit, event)


def changed(text: str | bytes, asked: str) -> str | None:
    """The frozen arguments for a record: None where they are what the model asked for, which stands in another.

    Args:
        text: JSON text of the frozen ones.
        asked: What the model asked for.

    Since 0.1.
    """
    if text is asked or text == asked:
        return None
    return text if isinstance(text, str) else text.decode()


def denied(tool: Tool, answer: Answer) -> ToolResult:
    """The result of a call that somebody decided against, or did not decide in time.

    Args:
        tool: The tool.
        answer: What they said.

    Since 0.1.
    """
    code = "expired" if answer.reason == "expired" else "denied"
    why = f": {answer.reason}" if answer.reason and answer.reason not in ("declined", "expired") else ""
    what = "nobody answered in time" if code == "expired" else f"the person who was asked declined{why}"
    return ToolResult.failed(f"Tool {tool.name!r} was not called; {what}.", code=code)


def delay_of(attempt: int, retry_after: float | None) -> float | None:
    """Seconds to wait before the next attempt; None when the wait would be too long to be of use.

    Args:
        attempt: The attempt that failed, from 1.
        retry_after: What the other side asked for.

    Since 0.1.
    """
    if retry_after is not None:
        return retry_after if retry_after <= MAX_DELAY else None
    return min(0.5 * 2.0 ** (attempt - 1), 8.0) * random.uniform(0.75, 1.25)
