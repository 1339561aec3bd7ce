"""A `once` call of which nobody knows whether it had its effect: its check is asked, else a person, else it is said so.

Such a call is never simply made again: that takes a check that says no, and
then only as many attempts as the tool allows, or a person who says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ferrule.lazy import LazyModule
from ferrule.machine import CallTool
from ferrule.result import Failure, ToolResult
from ferrule.runtime.answer import HAPPENED, OUTPUT, PARKED
from ferrule.strict_json import plain
from ferrule.suspension import Answer, Request
from ferrule.tool.body.attempt import RUNNING, is_unknown, unknown
from ferrule.tool.context import Context
from ferrule.tool.invoke import invoke_check
from ferrule.tool.output import bounded
from ferrule.tool.tool import Tool

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

Checking: TypeAlias = Callable[[ToolResult], Coroutine[Any, Any, ToolResult]]
NOTHING: Final = {"happened": False}  # among the details of a call whose check finds nothing of it
NOT_HAPPENED, FAILED = "not_happened", "failed"
OUTCOME: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "outcome": {"enum": [HAPPENED, NOT_HAPPENED, FAILED]},
        "value": {"description": "What the call returned, where it happened."},
        "error": {"type": "string", "description": "Why it failed, where it did."},
    },
    "required": ["outcome"],
    "additionalProperties": False,
}


class Effects:
    """The calls of a run whose effect may be happening.

    Args:
        outer: Tells the run around this one; only an end of this run that is `done` proves anything to that one.

    Since 0.1.
    """

    __slots__ = ("_doubts", "_made", "_open", "_outer")

    def __init__(self, outer: Callable[[None], None] | None) -> None:
        """None has begun."""
        self._outer = outer
        self._open: dict[str, Checking | None] | None = None
        self._doubts: dict[str, ToolResult] | None = None  # of what is open: how it broke off, if it has
        self._made: dict[str, ToolResult] | None = None

    def __contains__(self, op: str) -> bool:
        """Whether nobody knows what came of a call, or of the calls of a run inside."""
        return self._open is not None and op in self._open

    def begin(self, op: str, check: Checking | None) -> None:
        """Keep in mind that an effect may be happening.

        Args:
            op: The command.
            check: Asks the tool's own check what came of it.
        """
        if self._open is None:
            self._open = {}
            if self._outer is not None:
                self._outer(None)
        self._open[op] = check
        if self._doubts is not None:
            self._doubts.pop(op, None)

    def broke_off(self, op: str, doubt: ToolResult) -> None:
        """Keep in mind how a call ended, for as long as its check or a person is asked.

        Args:
            op: The command.
            doubt: That.
        """
        if self._doubts is None:
            self._doubts = {}
        self._doubts[op] = doubt

    def proven(self, op: str) -> None:
        """Keep in mind that it is known what came of a call.

        Args:
            op: The command.
        """
        if self._open is not None:
            self._open.pop(op, None)

    def made(self, op: str, said: ToolResult) -> None:
        """Keep what is said of a call that was made, should its hooks not come to an end.

        Args:
            op: The command.
            said: That.
        """
        if self._made is None:
            self._made = {}
        self._made[op] = said

    def stopped(self, command: CallTool, running: bool) -> ToolResult:
        """What is known of a call that was stopped before it ended by itself.

        Args:
            command: The command.
            running: Whether its body may go on.
        """
        if self._made and command.op in self._made:
            return self._made[command.op]
        if command.op in self:
            doubt = self._doubts.get(command.op) if self._doubts is not None else None
            state = "was told to stop and may still be running" if running else "was stopped"
            return doubt or unknown(f"Tool {command.tool.name!r} {state}", running=running)
        return ToolResult.failed("The call was cancelled.", code="cancelled")

    async def checked(self, stopped: Iterable[tuple[Any, bool]], seconds: float) -> dict[str, ToolResult]:
        """What the tools' own checks say of calls that were stopped.

        Args:
            stopped: Commands, and whether their bodies may go on.
            seconds: How long they may take together.

        Returns:
            Results by op, of those that have a check which did not break.

        Since 0.1.
        """
        asked: dict[str, asyncio.Task[ToolResult]] = {}
        for command, running in stopped:
            check = (self._open or {}).get(command.op)
            if check is not None and command.op not in (self._made or {}):
                asked[command.op] = asyncio.ensure_future(check(self.stopped(command, running)))
        if asked:
            with suppress(asyncio.CancelledError):  # once more, by somebody who waits no longer
                await asyncio.wait(asked.values(), timeout=seconds)
        for task in asked.values():
            task.cancel()
        return {op: t.result() for op, t in asked.items() if t.done() and not t.cancelled() and not t.exception()}


async def find_out(
    tool: Tool,
    values: dict[str, Any],
    text: str | bytes,
    context: Context[Any],
    doubt: ToolResult,
    ask: Callable[[Request], Awaitable[Answer | None]] | None,
    *,
    dead: bool = False,
) -> Any:
    """What became of a call.

    Args:
        tool: The tool.
        values: The arguments it was made with.
        text: Their JSON text.
        context: As the call had it: the check finds the same call id and effect key there.
        doubt: What is known: how the attempt ended.
        ask: Asks a person when the check does not know; None where nobody is asked.
        dead: Whether the process that made the call is gone: what has not happened will not happen any more.

    Returns:
        The result it is settled with; PARKED while a person has not answered; None when it did not happen and is to be
        made again: a person says so, or, of a process that is gone, the check.

    Since 0.1.
    """
    said = await checked(tool, text, context, doubt)
    if not is_unknown(said):
        return None if dead and said.failure is not None and said.failure.details == NOTHING else said
    if ask is None:
        return said
    shown = {"tool": tool.name, "effect": tool.effect, "arguments": plain(tool.whole(values), big_ints="number")}
    if tool.output_check is not None:
        shown[OUTPUT] = tool.output_check.schema
    prompt = f"{said.output} Did it happen?"
    answer = await ask(Request(context.call_id or tool.name, "outcome", prompt, data={**shown, "schema": OUTCOME}))
    return PARKED if answer is None else decided(tool, answer, said, context.call_id)


async def checked(tool: Tool, text: str | bytes, context: Context[Any], doubt: ToolResult) -> ToolResult:
    """What the tool's own check says of a call; what was known before where it has none, or does not say.

    Args:
        tool: The tool.
        text: JSON text of the arguments.
        context: As the call had it.
        doubt: What is known.

    Since 0.1.
    """
    if tool.check is None:
        return doubt
    said = await invoke_check(tool, text, context)
    if said is None:
        if doubt.failure is not None and doubt.failure.details == RUNNING:  # it may happen yet
            return replace(doubt, output=f"{doubt.output} Its check finds nothing of it so far.")
        words = f"Tool {tool.name!r} did not do it: the call broke off, and its check says that nothing happened."
        return ToolResult(words, True, failure=Failure("not_executed", retryable=True, details=NOTHING))
    if is_unknown(said) or said.pending is not None:  # an answer to it would not be one to the call
        return replace(doubt, output=f"{doubt.output} Its check could not tell: {said.output}")
    failure = said.failure
    if failure is not None and failure.retryable:  # it may be worth to be asked again; the call is not made again
        return replace(said, failure=replace(failure, retryable=False))
    return said


def decided(tool: Tool, answer: Answer, doubt: ToolResult, call_id: str | None) -> ToolResult | None:
    """What a person says became of a call; None when they say that it did not happen.

    Args:
        tool: The tool.
        answer: What they said.
        doubt: What is known without them.
        call_id: The call.

    Since 0.1.
    """
    given = answer.data or {}
    if not answer.ok:
        return doubt
    if given.get("outcome") == NOT_HAPPENED:
        return None
    if given.get("outcome") == FAILED:
        return bounded(
            ToolResult.failed(str(given.get("error") or f"Tool {tool.name!r} failed.")), tool.max_output, call_id
        )
    return bounded(ToolResult.ok(given.get("value")), tool.max_output, call_id)
