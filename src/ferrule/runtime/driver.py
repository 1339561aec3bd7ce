"""The one driver: performs what a machine commands, records it, and feeds back what came of it.

The order in which it feeds the machine *is* the order of the records. Nothing
here knows agents or workflows, stores or providers.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from inspect import iscoroutine as is_coroutine
from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from ferrule.errors import ModelError, RequestError, UsageError
from ferrule.journal.record import RecordType
from ferrule.journal.store import Journal
from ferrule.lazy import LazyModule
from ferrule.machine import (
    CallModel,
    CallTool,
    Cancel,
    Cancelled,
    Command,
    Completion,
    Definition,
    Finish,
    Machine,
    Sleep,
    StartRun,
    Wait,
)
from ferrule.message import Call, Message, ModelMessage, Usage
from ferrule.provider.base import ModelResponse
from ferrule.result import ToolResult
from ferrule.runtime.dispatch import PARKED, Hooks, call_model, call_tool
from ferrule.runtime.event import Event, event
from ferrule.runtime.outcome import RunResult
from ferrule.runtime.trace import tracing
from ferrule.suspension import Answer, Request, with_digest
from ferrule.tool.context import Variables
from ferrule.tool.tool import Tool

if TYPE_CHECKING:
    import asyncio
    import logging
else:
    asyncio = LazyModule("asyncio")
    logging = LazyModule("logging")

Deps = TypeVar("Deps", default=Any)
Listener = Callable[[Event], None]
OnRequest = Callable[[Request], Awaitable[Answer | None]]
GRACE = 5.0


class RunInfo(Generic[Deps]):
    """What hooks and instructions are told about the run.

    Args:
        run_id: The run's id.
        context: The run's JSON object: user, tenant, locale.
        deps: Live objects of the application.

    Since 0.1.
    """

    __slots__ = ("context", "deps", "run_id", "spent")

    def __init__(self, run_id: str, context: Mapping[str, Any], deps: Deps) -> None:
        """Keep what the caller knows."""
        self.run_id = run_id
        self.context = context
        self.deps: Deps = deps
        self.spent: Usage | None = None

    def spend(self, usage: Usage) -> None:
        """Count for the run what a hook consumed by itself, for example by asking a model of its own.

        Args:
            usage: What it consumed.
        """
        self.spent = usage if self.spent is None else self.spent + usage


class Slots:
    """How many calls of a tool may run at once, across the runs that share these slots.

    Since 0.1.
    """

    def __init__(self) -> None:
        """Nothing is running."""
        self._held: dict[tuple[Tool, Any], asyncio.Semaphore] = {}

    def of(self, tool: Tool) -> AbstractAsyncContextManager[Any]:
        """A slot to hold while the tool runs.

        Args:
            tool: The tool.
        """
        if tool.concurrency is None:
            return nullcontext()
        key = (tool, asyncio.get_running_loop())
        if key not in self._held:
            self._held[key] = asyncio.Semaphore(tool.concurrency)
        return self._held[key]


SLOTS = Slots()


class Driver:
    """One run, being driven.

    Args:
        definition: What is run.
        journal: Where its records go.
        info: What hooks and tools are told of it.
        options: What this run says differently from its definition.
        listener: Hears events.
        streaming: Whether models are asked for pieces.
        on_request: Answers requests in this process; None leaves them open.
        path: Ops of the runs around this one.
        room: Waits until the listener has taken what it was given.

    Since 0.1.
    """

    __slots__ = (
        "_asking", "_done", "_flying", "_open", "_requests", "_wake", "cancelled_by", "definition", "heard", "hooks",
        "info", "journal", "listener", "loop", "machine", "on_request", "path", "stream", "streaming", "trace",
        "variables",
    )  # fmt: skip

    def __init__(
        self,
        definition: Definition,
        journal: Journal,
        info: RunInfo[Any],
        *,
        options: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
        stream: Any = None,
        streaming: bool = False,
        on_request: OnRequest | None = None,
        path: str = "",
    ) -> None:
        """Make the machine; nothing happens yet."""
        self.definition = definition
        self.journal = journal
        self.info = info
        self.machine: Machine = definition.machine(options or {})
        self.hooks: Hooks | None = definition.hooks
        self.listener = listener
        self.stream = stream
        self.streaming = streaming
        self.on_request = on_request
        self.path = path
        self.variables = Variables(info.context)
        self.heard = 0
        self.trace = tracing()
        self.cancelled_by: str | None = None
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._open: dict[str, Any] = {}
        self._flying: dict[str, asyncio.Task[Any]] = {}
        self._done: deque[tuple[Any, Any]] = deque()  # outcomes, and tasks that have them
        self._wake: asyncio.Future[None] | None = None
        self._requests: dict[str, Request] = {}
        self._asking: asyncio.Lock | None = None

    def run(self, input: Any) -> Coroutine[Any, Any, RunResult[Any]]:
        """Drive the run to its end, or until it waits for answers and nothing else.

        Args:
            input: What the machine is given.

        Returns:
            How it ended; nothing that happens inside raises.

        Raises:
            UsageError: The caller attached a part that the model does not take.
            CancelledError: The caller was cancelled; what was in flight has been ended.
        """
        work = self._run(input)
        return work if self.trace is None else self.trace.run(self, work)

    async def _run(self, input: Any) -> RunResult[Any]:
        at = self.journal.append("run.started", {"definition": self.definition.name, "context": self.info.context})
        commands = self.machine.start(input, at)
        try:
            finish = await self._drive(commands)
        except asyncio.CancelledError:
            if self.cancelled_by is None:
                await self._let_go()
                raise
            finish = await self._cancel()
        except BaseException:
            await self._let_go()
            raise
        return self._result(finish)

    async def _drive(self, commands: Sequence[Command]) -> Finish | None:
        while True:
            if len(commands) == 1 and not self._flying and not _flies(commands[0]):
                command = commands[0]
                if isinstance(command, Finish):
                    return command
                # Nothing else goes on: no task is needed to wait for one thing.
                self._open[command.op] = command
                outcome: Any = self._perform(command)
                if is_coroutine(outcome):
                    outcome = await outcome
            else:
                finish = self._start(commands)
                if finish is not None:
                    await self._let_go()
                    return finish
                if not self._flying and not self._done:
                    return None  # all that is open waits for answers
                command, outcome = await self._next()
            if outcome is PARKED:
                commands = ()
                continue
            commands = self.machine.on(self._completed(command, outcome))

    def _start(self, commands: Sequence[Command]) -> Finish | None:
        """Start what can go on side by side."""
        for command in commands:
            if isinstance(command, Finish):
                return command
            if isinstance(command, Cancel):
                task = self._flying.get(command.op)
                if task is not None:
                    task.cancel()
                continue
            self._open[command.op] = command
            outcome: Any = self._perform(command)
            if is_coroutine(outcome):
                self._flying[command.op] = outcome = self.loop.create_task(outcome)
                outcome.add_done_callback(partial(self._landed, command))
            else:
                self._done.append((command, outcome))
        return None

    def _landed(self, command: Any, task: asyncio.Task[Any]) -> None:
        if self._flying.get(command.op) is task:
            self._arrived(command, task)

    def given_up(self, command: Any, result: ToolResult) -> None:
        """Go on without a call whose body does not end.

        Args:
            command: The call.
            result: What is said of it.
        """
        if self._flying.pop(command.op, None) is not None:
            self._arrived(command, result)

    def _arrived(self, command: Any, landed: Any) -> None:
        self._done.append((command, landed))
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _next(self) -> tuple[Any, Any]:
        while not self._done:
            self._wake = self.loop.create_future()
            await self._wake
        command, landed = self._done.popleft()
        if self._flying.pop(command.op, None) is not landed:
            return command, landed
        return command, _stopped(command) if landed.cancelled() else landed.result()

    def _perform(self, command: Any) -> Any:
        """What the command is completed with, or a coroutine that comes to it."""
        kind = cast("Any", type(command))
        if kind is CallTool:
            return call_tool(self, command)
        if kind is CallModel:
            return call_model(self, command)
        return _OTHERS[kind](self, command)

    # -- records and events -------------------------------------------------------------------------------------

    def _completed(self, command: Any, outcome: Any) -> Completion:
        """Record what came of a command; the record is what the machine is fed."""
        op: str = command.op
        del self._open[op]
        at = self.journal.append(_SETTLES[type(command)], {"op": op, "outcome": outcome})
        if self.listener is not None:
            self._tell(command, outcome)
        return Completion(op, at, outcome)

    def _tell(self, command: Any, outcome: Any) -> None:
        op, seq = self.path + command.op, self.journal.seq
        if type(command) is CallTool:
            self.emit(event("tool_result", op, seq, call=command.call, result=outcome))
        elif type(command) is CallModel:
            response: ModelResponse = outcome if isinstance(outcome, ModelResponse) else outcome.response
            self.emit(event("usage", op, seq, usage=response.usage or _ONE))
        elif type(command) is StartRun and command.call is not None:
            self.emit(Event("tool_result", op, seq, call=command.call, result=outcome.as_tool_result()))

    def intended(self, op: str, type: RecordType, body: dict[str, Any], call: Call | None = None) -> None:
        """Record that something is about to be done.

        Args:
            op: The command.
            type: The record.
            body: Its facts.
            call: The call, of a tool.
        """
        self.journal.append(type, body)
        if self.listener is not None:
            self.emit(event("step" if call is None else "tool_call", self.path + op, self.journal.seq, call=call))

    def note(self, point: str, op: str, changed: bool) -> None:
        """Record what a hook did.

        Args:
            point: Where it stood.
            op: The command.
            changed: Whether it changed anything.
        """
        self.journal.append("hook.returned", {"point": point, "op": op, "changed": changed})

    def emit(self, event: Event) -> None:
        """Tell the listener.

        Args:
            event: What happened.
        """
        if self.listener is None:
            return
        if self.path and event.seq is None:
            event = event._replace(op=self.path + event.op)
        try:
            self.listener(event)
        except Exception:  # whoever listens must not decide how the run ends
            logging.getLogger("ferrule.run").exception("a listener to run %s raised", self.journal.run_id)

    def emit_from_anywhere(self, event: Event) -> None:
        """Tell the listener, from whatever thread.

        Args:
            event: What happened.
        """
        try:
            here = asyncio.get_running_loop() is self.loop
        except RuntimeError:
            here = False
        if here:
            self.emit(event)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.emit, event)

    def is_full(self) -> bool:
        """Whether the listener has not kept up."""
        return self.stream is not None and self.stream.is_full()

    async def room(self) -> None:
        """Wait until the listener has kept up."""
        await self.stream.room()

    # -- what dispatch asks for ---------------------------------------------------------------------------------

    def slot(self, tool: Tool) -> AbstractAsyncContextManager[Any]:
        """A slot of a tool whose calls at a time are limited.

        Args:
            tool: The tool.
        """
        return SLOTS.of(tool)

    def rewritten(self, response: ModelResponse, messages: Sequence[Message]) -> Any:
        """A response to another transcript than the machine's.

        Args:
            response: The response.
            messages: That transcript.
        """
        return self.definition.rewritten(response, messages)

    async def ask(self, op: str, request: Request) -> Answer | None:
        """Ask whoever answers in this process; one request at a time.

        Args:
            op: The command that waits.
            request: What is asked.

        Returns:
            The answer; None when it stays open.
        """
        at = self.path + op
        # Its address from the root: two runs inside this one may each ask under the same local name.
        request = with_digest(replace(request, id=self.path + request.id))
        self.journal.append("wait.opened", {"op": op, "request": request})
        self.emit(Event("pending", at, self.journal.seq, request=request))
        answer = await self._answer(request) if self.on_request is not None else None
        if answer is None:
            self._requests[at] = request
            return None
        self.journal.append("wait.answered", {"op": op, "answer": answer, "by": "inline"})
        return answer

    async def _answer(self, request: Request) -> Answer | None:
        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            try:
                answer = await self.on_request(request) if self.on_request is not None else None
                return None if answer is None else _fitting(answer, request)
            except Exception:  # whoever should answer failed, or answered something else; the request stays open
                logging.getLogger("ferrule.run").exception("answering a request of %s failed", self.journal.run_id)
                return None

    async def sleep(self, command: Sleep) -> None:
        """Let time pass."""
        await asyncio.sleep(command.seconds)

    async def wait(self, command: Wait) -> Any:
        """Ask a person."""
        answer = await self.ask(command.op, command.request)
        return PARKED if answer is None else answer

    async def child(self, command: StartRun) -> Any:
        """Drive a run inside this one."""
        journal = self.journal.child(command.op)
        self.intended(command.op, "child.started", {"op": command.op, "run_id": journal.run_id}, command.call)
        deps = await live(command.definition, self.info.context, self.info.deps)
        inner = Driver(
            command.definition,
            journal,
            RunInfo(journal.run_id, self.info.context, deps),
            listener=self.listener,
            stream=self.stream,
            streaming=self.streaming,
            on_request=self._answer if self.on_request is not None else None,
            path=f"{self.path}{command.op}/",
        )
        result = await inner.run(command.input)
        if result.status != "suspended":
            return result
        self._requests.update(inner._requests)
        return PARKED

    # -- the end ------------------------------------------------------------------------------------------------

    async def _let_go(self) -> None:
        """End what is in flight; it gets a grace to end by itself."""
        tasks = [task for task in self._flying.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)

    async def _cancel(self) -> Finish:
        """End what is in flight and settle it, so that the history is paired."""
        await self._let_go()
        self.journal.append("cancel.requested", {"by": self.cancelled_by})
        commands = self.machine.on(Completion("", self.journal.append("note", {}), Cancelled(self.cancelled_by or "")))
        landed = {c.op: self._landed_with(c, t) for c, t in self._done}  # pyright: ignore
        todo = deque([*commands, *self._open.values()])
        while todo:
            command = todo.popleft()
            if isinstance(command, Finish):
                return command
            if type(command) is CallTool and command.given is not None:
                self._open[command.op] = command
                outcome: Any = command.given
            else:
                outcome = landed.get(command.op, PARKED)  # pyright: ignore
                outcome = _stopped(command) if outcome is PARKED else outcome
            todo.extendleft(self.machine.on(self._completed(command, outcome)))
        return Finish("cancelled", reason="cancelled")

    def _landed_with(self, command: Any, landed: Any) -> Any:
        if self._flying.get(command.op) is not landed:
            return landed
        return _stopped(command) if landed.cancelled() or landed.exception() is not None else landed.result()

    def _result(self, finish: Finish | None) -> RunResult[Any]:
        machine = self.machine
        if finish is None:
            status, output, value, error, reason = "suspended", "", None, None, None
        else:
            status, output, value, error, reason = finish
        result: RunResult[Any] = RunResult(
            self.journal.run_id,
            status,
            output,
            value,
            error,
            reason,
            tuple(self._requests.values()),
            machine.usage if self.info.spent is None else machine.usage + self.info.spent,
            machine.messages,
        )
        self.journal.append("run.settled", {"status": status, "reason": reason})
        if self.listener is not None:
            self.emit(Event("done", self.path.rstrip("/"), self.journal.seq, value=result))
        return result


def _fitting(answer: Any, request: Request) -> Answer:
    """The answer, if it is one to this very request as it was shown."""
    if not isinstance(answer, Answer):
        raise UsageError(f"on_request returned {type(answer).__name__}. Return an Answer, or None to leave it open.")
    if answer.id != request.id:
        raise RequestError(f"the answer names request {answer.id!r}, and {request.id!r} was asked.")
    if answer.digest is not None and answer.digest != request.digest:
        raise RequestError(f"the answer to {request.id!r} was given for something else than what was shown.")
    return answer


def _flies(command: Command) -> bool:
    """Whether a command has a task of its own even when nothing else goes on: an async body may ignore its deadline."""
    return (
        type(command) is CallTool
        and command.given is None
        and command.tool is not None
        and (command.tool.runs == "task")
    )


def _stopped(command: Any) -> Any:
    """What came of a command that was stopped before it ended by itself."""
    if type(command) is CallTool:
        if command.tool is not None and command.tool.effect == "once":
            text = f"Tool {command.tool.name!r} was stopped; its effect may have happened."
            return ToolResult.failed(text, code="outcome_unknown")
        return ToolResult.failed("The call was cancelled.", code="cancelled")
    if type(command) is CallModel:
        error = ModelError("the request was cancelled", provider=command.model.name)
        return ModelResponse(ModelMessage(), "error", error=error)
    if type(command) is StartRun:
        return RunResult("", "cancelled", reason="cancelled")
    return None


_OTHERS: dict[Any, Callable[[Driver, Any], Any]] = {
    Sleep: Driver.sleep,
    Wait: Driver.wait,
    StartRun: Driver.child,
}
_ONE = Usage(requests=1)
_SETTLES: dict[Any, RecordType] = {
    CallTool: "tool.settled",
    CallModel: "model.responded",
    StartRun: "child.settled",
    Sleep: "timer.fired",
    Wait: "wait.answered",
}


async def live(definition: Definition, context: Mapping[str, Any], given: Any) -> Any:
    """The live objects of a run: those given, else what the definition makes from the context.

    Args:
        definition: What is run.
        context: The run's JSON object.
        given: What the caller gave; None for nothing.
    """
    made = definition.live(context) if given is None else given
    return await made if hasattr(made, "__await__") else made


def new_run_id() -> str:
    """A fresh id for a run."""
    return f"run_{os.urandom(8).hex()}"
