"""The one driver: performs what a machine commands, records it, and feeds back what came of it.

The order in which it feeds the machine *is* the order of the records. Nothing
here knows agents or workflows, stores or providers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from ferrule.errors import ModelError, NonDeterminism
from ferrule.journal.record import Record
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
    StartRun,
    maker,
)
from ferrule.message import Call, ModelMessage, Usage
from ferrule.provider.base import ModelResponse
from ferrule.result import ToolResult
from ferrule.runtime.answer import PARKED, OnRequest
from ferrule.runtime.dispatch import PERFORM, Hooks, Raised, begun_before, runs_of
from ferrule.runtime.doubt import Effects
from ferrule.runtime.event import Event, EventType, event
from ferrule.runtime.info import RunInfo
from ferrule.runtime.outcome import RunResult
from ferrule.runtime.question import Questions
from ferrule.runtime.recovery import SETTLES, Found, check_open, recover
from ferrule.runtime.trace import tracing
from ferrule.tool.body.attempt import AT_ONCE, unknown
from ferrule.tool.context import Variables

if TYPE_CHECKING:
    import asyncio
    import logging

    from ferrule.runtime.stream import RunStream
else:
    asyncio = LazyModule("asyncio")
    logging = LazyModule("logging")

Listener = Callable[[Event], None]
Substitute = Callable[[str, CallTool], ToolResult | str | None]  # by op with its path: a result, or JSON of arguments
GRACE = 5.0
LAST_GRACE = 0.1  # for runs inside to settle, when whoever cancelled does so once more


class Driver:
    """One run, being driven.

    Args:
        definition: What is run.
        journal: Where its records go.
        info: What hooks and tools are told of it.
        options: What this run says differently from its definition.
        listener: Hears events.
        stream: Takes events at its own pace, and so has models asked for pieces; None for whole answers.
        on_request: Answers requests in this process; None leaves them open.
        outer: The run around this one.
        at: The command of that run which this one is.
        records: What the journal held before; the run goes on from there.
        substitute: Says what a call is settled with in place of being made, or with which arguments it is made.

    Since 0.1.
    """

    __slots__ = (
        "_before", "_cancelled_by", "_done", "_ended", "_flying", "_foreign", "_leaving", "_open", "_outer", "_ready",
        "_task", "_told", "_wake", "at", "definition", "effects", "found", "heard", "hooks", "info", "journal",
        "listener", "loop", "machine", "options", "path", "questions", "records", "result", "stream", "substitute",
        "trace", "variables",
    )  # fmt: skip

    def __init__(
        self,
        definition: Definition,
        journal: Journal,
        info: RunInfo[Any],
        *,
        options: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
        stream: RunStream[Any] | None = None,
        on_request: OnRequest | None = None,
        outer: Driver | None = None,
        at: str = "",
        records: Sequence[Record] = (),
        substitute: Substitute | None = None,
    ) -> None:
        """Make the machine; nothing happens yet."""
        self.definition = definition
        self.journal = journal
        self.info = info
        self.options = options
        self.machine: Machine = definition.machine(options or {})
        self.hooks: Hooks | None = definition.hooks
        self.listener = listener
        self.stream = stream
        self.questions = Questions(self, on_request)
        self.path = f"{outer.path}{at}/" if outer is not None else ""
        self.at = at
        self.records = records
        self.substitute = substitute
        self.found: dict[str, Found] = {}  # by op, how far a command had come before
        self._foreign: Mapping[str, int] = {}  # calls of a former code that were begun and have no end
        self.result: RunResult[Any] | None = None
        self.variables = Variables(info.context)
        self.heard = 0
        self.trace = tracing()
        self._outer = outer
        self._cancelled_by: str | None = None
        self._before = 0  # how often the task had been cancelled before it came to drive this run
        self._ended = False  # whether what is in flight has been told to end
        self._leaving = False
        self._told = False  # whether its records say that it was cancelled
        self._task: asyncio.Task[Any] | None = None
        self.effects = Effects(None if outer is None else partial(outer.effects.begin, at))
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._open: dict[str, Any] = {}
        self._flying: dict[str, asyncio.Task[None] | None] = {}  # None while it takes its first step
        self._done: list[tuple[Any, Any]] = []  # commands and what came of them, in the order of their ends
        self._ready: list[tuple[Any, Any]] = []  # those to be taken next, the first of them last
        self._wake: asyncio.Future[None] | None = None

    def run(self, input: Any) -> Coroutine[Any, Any, RunResult[Any]]:
        """Drive the run to its end, or until it waits for answers and nothing else.

        Args:
            input: What the machine is given.

        Returns:
            How it ended; nothing that happens inside raises.

        Raises:
            UsageError: The caller attached a part that the model does not take.
            CancelledError: The caller was cancelled. What was in flight has been ended, and `result` is set as ever.
        """
        work = self._run(input)
        return work if self.trace is None else self.trace.run(self, work)

    async def _run(self, input: Any) -> RunResult[Any]:
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._before = self._task.cancelling()
        commands = self._begun(input)
        if isinstance(commands, Finish):
            return await self._result(commands)
        try:
            if self.info.deps is None:
                failed = await self._make_deps()
                if failed is not None and self.cancelled_by is None:
                    return await self._result(failed)
                if self._is_told():
                    raise asyncio.CancelledError
            finish = await (self._drive(commands) if self.cancelled_by is None else self._stop(commands))
        except asyncio.CancelledError:
            if self.leaving:
                await self._let_go(LAST_GRACE)
                raise
            outside = self.cancelled_by is None
            self._cancelled_by = self.cancelled_by or "caller"
            finish = await self._cancel()
            if outside:  # nobody takes what is returned; what was done is told and kept all the same
                await self._result(finish)
                raise
        except BaseException:
            await self._let_go()
            raise
        return await self._result(finish)

    def _begun(self, input: Any) -> Sequence[Command] | Finish:
        """What to do first: what the machine wants at its start, or what its records leave open."""
        here = self.path[:-1] or None
        begun = "run.started" if here is None else "child.started"
        at = next((r.at for r in self.records if r.type == begun and r.body.get("op") == here), None)
        if at is None:
            if here is None:
                at = self.journal.append("run.started", self.definition.name, input, self.info.context, self.options)
            else:
                at = self.journal.append("child.started", here, self.definition.name)
            return self.machine.start(input, at)
        ends = any(record.type == "cancel.requested" for record in self.records)
        try:
            told = recover(self.machine, self.machine.start(input, at), self.records, self.path, strict=not ends)
            if here is None and not ends:
                check_open(told, self.records)
        except NonDeterminism as error:
            if here is not None:  # looked at before anything was done, by the outermost: this is no result of a call
                raise
            return Finish("blocked", error=str(error), reason="nondeterminism")
        self.found, self._foreign = told.found, told.foreign
        self._cancelled_by, self._told = told.cancelled_by, told.cancelled_by is not None
        return told.finish or told.commands

    def cancel(self, by: str) -> None:
        """Bring the run to an end that keeps what it has done; once is enough.

        Args:
            by: Who wants it, for the record.
        """
        if self._cancelled_by is None:
            self._cancelled_by = by
            self._interrupt()

    def leave(self) -> None:
        """Stop here, with nothing said of it: another process goes on from the records."""
        self._leaving = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def leaving(self) -> bool:
        """Whether this run, or one around it, is left where it stands.

        A durable one is, whenever its task is cancelled and nobody has said that the run should be: as its loop ends.
        """
        if self._outer is not None:
            return self._leaving or self._outer.leaving
        left = not self.journal.volatile and self._cancelled_by is None and self._is_told()
        return self._leaving or left

    @property
    def cancelled_by(self) -> str | None:
        """Who cancelled this run, or one around it."""
        return self._cancelled_by or (self._outer.cancelled_by if self._outer is not None else None)

    @property
    def ending(self) -> bool:
        """Whether what is in flight may only end: nothing is begun any more, and nobody asked."""
        return self._ended or self.cancelled_by is not None or self._is_told()

    def _is_told(self) -> bool:
        """Whether its task was cancelled, though the application's code, awaited there, may keep that to itself."""
        return self._task is not None and self._task.cancelling() > self._before

    async def _make_deps(self) -> Finish | None:
        """Make the live objects, or take those of the run around this one; how the run ends if that fails."""
        try:
            made = self.definition.live(self.info.context)
            self.info.deps = await made if made is not None and isawaitable(made) else made
        except Exception as error:  # a factory is the application's code: its failure is data, like a tool's
            return Finish("failed", error=error, reason="deps")
        if self.info.deps is None and self._outer is not None:
            self.info.deps = self._outer.info.deps
        return None

    async def _drive(self, commands: Sequence[Command]) -> Finish:
        task: Any = self._task
        while True:
            # An async body may ignore its deadline, and a run inside must end by itself when this one is cancelled:
            # these have a task of their own even when nothing else goes on.
            command: Any = commands[0] if len(commands) == 1 and not self._flying else None
            kind = type(command)  # pyright: ignore[reportUnknownVariableType]
            if kind is CallModel or (command is not None and runs_of(command) not in ("task", "run")):
                # Nothing else goes on: no task is needed to wait for one thing.
                if kind is Finish:
                    return command
                self._open[command.op] = command
                outcome: Any = PERFORM[kind](self, command)
                if CoroutineType is type(outcome):
                    try:
                        outcome = await outcome
                    except asyncio.CancelledError:
                        if task.cancelling() > self._before:
                            raise
                        outcome = self._stopped(command)  # raised by the application's code, and nobody's wish
                    if task.cancelling() > self._before:
                        self._done.append((command, outcome))
                        raise asyncio.CancelledError
            else:
                finish = self._start(commands)
                if finish is not None:
                    await self._let_go()
                    return finish
                if not (self._flying or self._done or self._ready):
                    return Finish("suspended")  # all that is open waits for answers
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
            outcome: Any = PERFORM[type(command)](self, command)
            if CoroutineType is type(outcome):
                op = command.op
                self._flying[op] = None
                task = asyncio.Task(self._fly(command, outcome), loop=self.loop, name=op, **AT_ONCE)
                if op in self._flying:  # else it has ended in its first step
                    self._flying[op] = task
                    if not AT_ONCE:
                        task.add_done_callback(partial(self._unbegun, command, outcome))
            else:
                self._done.append((command, outcome))
        return None

    async def _fly(self, command: Any, work: Coroutine[Any, Any, Any]) -> None:
        """Do one of several things at once, in a task of its own."""
        try:
            outcome = await work
        except asyncio.CancelledError:
            outcome = self._stopped(command)
        except (KeyboardInterrupt, SystemExit):  # the loop itself passes these on
            raise
        except BaseException as error:  # misuse, or a group with one of those: for whoever called
            outcome = Raised(error)
        if self._flying.get(command.op, self) in (None, asyncio.current_task()):
            self.landed(command, outcome)

    def instead(self, command: Any, work: Coroutine[Any, Any, Any]) -> None:
        """Do something in place of a command's work, which does not end and for which nobody waits any more.

        Args:
            command: The command.
            work: What it is completed with in the end.
        """
        task = asyncio.Task(self._fly(command, work), loop=self.loop, name=command.op)
        self._flying[command.op] = task
        task.add_done_callback(partial(self._unbegun, command, work))

    def _unbegun(self, command: Any, work: Coroutine[Any, Any, Any], task: asyncio.Task[None]) -> None:
        """Go on without a task that was cancelled, by a sibling for one, before its first step: it could not say so."""
        if task.cancelled() and self._flying.get(command.op) is task:
            work.close()
            self.landed(command, self._stopped(command))

    def landed(self, command: Any, outcome: Any) -> None:
        """Go on with what came of a command, whether its task has ended or a body in it does not end.

        Args:
            command: The command.
            outcome: What came of it; the first that is told counts.
        """
        if command.op not in self._flying:  # it has been given up
            return
        del self._flying[command.op]
        self._done.append((command, outcome))
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _next(self) -> tuple[Any, Any]:
        if not self._ready:
            while not self._done:
                self._wake = self.loop.create_future()
                await self._wake
            self._ready, self._done = self._done[::-1], []
        command, outcome = self._ready.pop()
        if type(outcome) is Raised:
            raise outcome.error
        return command, outcome

    # -- records and events -------------------------------------------------------------------------------------

    def _completed(self, command: Any, outcome: Any) -> Completion:
        """Record what came of a command; the record is what the machine is fed."""
        op: str = command.op
        del self._open[op]
        at = self.journal.append(SETTLES[type(command)], self.path + op, outcome)
        if not self.journal.volatile:
            outcome = self.journal.as_recorded(outcome)
        if self.listener is not None:
            if type(command) is CallTool:
                self.say("tool_result", op, command.call, outcome)
            elif type(command) is CallModel:
                response: ModelResponse = outcome if isinstance(outcome, ModelResponse) else outcome.response
                self.say("usage", op, None, None, response.usage or _ONE)
        return _completion((op, at, outcome))

    def say(
        self,
        type: EventType,
        op: str,
        call: Call | None = None,
        result: ToolResult | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Tell the listener of the record that was just made.

        Args:
            type: The event.
            op: The command.
            call: The call it is about.
            result: How that ended.
            usage: What an answer consumed.
        """
        told = event((type, self.path + op, self.journal.seq, "", call, result, None, usage, None))
        if not self.journal.volatile:
            self.journal.once_durable(partial(self._tell, told))
            return
        try:  # as `_tell` does, for what happens several times in each turn
            self.listener(told)  # pyright: ignore[reportOptionalCall] - whoever calls this has looked
        except (Exception, asyncio.CancelledError):
            self._log_listener()

    def emit(self, event: Event) -> None:
        """Tell the listener, once every record so far is durable: what is transient does not overtake a record.

        Args:
            event: What happened.
        """
        if self.journal.volatile:
            self._tell(event)
        elif self.listener is not None:
            self.journal.once_durable(partial(self._tell, event))

    def _tell(self, event: Event) -> None:
        if self.listener is None or self.result is not None:  # a body that does not end may still tell of itself
            return
        if self.path and event.seq is None:
            event = event._replace(op=self.path + event.op)
        try:
            self.listener(event)
        except (Exception, asyncio.CancelledError):  # whoever listens must not decide how the run ends
            self._log_listener()

    def _log_listener(self) -> None:
        logging.getLogger("ferrule.run").exception("a listener to run %s raised", self.info.run_id)

    # -- what dispatch asks for ---------------------------------------------------------------------------------

    async def inside(self, op: str, definition: Definition, input: Any) -> Any:
        """Drive the run that a call is; the machine learns at once what it consumed, whatever becomes of the call.

        Args:
            op: The call's command.
            definition: What is run.
            input: What it is given.

        Returns:
            The call's result, or PARKED.
        """
        run = await self.drive(op, definition, input)
        if run is PARKED:
            return run
        self.machine.on(Completion(op, self.journal.append("child.settled", self.path + op, run), run))
        return run.as_tool_result(after_effects=op in self.effects)

    async def drive(self, op: str, definition: Definition, input: Any) -> Any:
        """Drive a run inside this one.

        Args:
            op: The command that it is.
            definition: What is run.
            input: What it is given.

        Returns:
            How it ended, or PARKED.
        """
        inner = Driver(
            definition,
            self.journal,
            RunInfo(f"{self.info.run_id}/{op}", self.info.context, None),
            listener=definition.heard_by(self.listener),
            stream=self.stream,
            on_request=self.questions.inside(),
            outer=self,
            at=op,
            records=self.records,
            substitute=self.substitute,
        )
        result = await inner.run(input)
        if result.status != "suspended":
            return result
        self.questions.open.update(inner.questions.open)
        self.info.spend(result.usage)  # for the result of this run, which waits too
        return PARKED

    # -- the end ------------------------------------------------------------------------------------------------

    async def _let_go(self, grace: float = GRACE) -> None:
        """End what is in flight; it gets a grace to end by itself."""
        self._ended = True
        tasks: list[asyncio.Task[Any]] = []
        for task in filter(None, self._flying.values()):  # None is one whose first step ended the process
            if not task.done():
                tasks.append(task)
                task.cancel()
            elif not task.cancelled():
                task.exception()  # what ends the process has gone its own way; asyncio need not complain of it too
        if tasks:  # a run inside gives its own calls that grace, and must then settle them
            inside = any(runs_of(self._open[op]) == "run" for op in self._flying)
            await asyncio.wait(tasks, timeout=grace * 2 if inside else grace)

    async def _stop(self, commands: Sequence[Command]) -> Finish:
        """Settle what a cancelled run had commanded before it came here; nothing of it is made."""
        for command in commands:
            if type(command) is CallTool:
                self._open[command.op] = command
                begun_before(self, command)
        calls = {command.op for command in commands if type(command) is CallTool}
        for op, attempt in self._foreign.items():
            if op in calls:
                self.effects.begin(op, None)
                continue
            doubt = unknown("The call was begun by another version of the code")
            self.journal.append("tool.settled", self.path + op, doubt, attempt)
        return await self._cancel([c for c in commands if type(c) is not CallTool], former=calls)

    async def _cancel(self, commands: Sequence[Command] = (), former: Collection[str] = ()) -> Finish:
        """End what is in flight and settle it, so that the history is paired; start none of the commands given.

        Of `former` calls, made by a process that is gone, nothing goes on here.
        """
        try:
            await self._let_go()
        except asyncio.CancelledError:  # once more, by somebody who waits no longer
            with suppress(asyncio.CancelledError):
                await self._let_go(LAST_GRACE)
        by, todo = self.cancelled_by or "", deque[Command]()
        if not self._told:
            todo.extend(self.machine.on(Completion("", self.journal.append("cancel.requested", by), Cancelled(by))))
        landed = {command.op: outcome for command, outcome in (*self._ready, *self._done)}
        still = [(c, op not in former and self._goes_on(c)) for op, c in self._open.items()]
        landed |= await self.effects.checked(still, GRACE)
        todo.extend([*commands, *self._open.values()])
        while todo:
            command = todo.popleft()
            if isinstance(command, Finish):
                return command
            self._open[command.op] = command
            outcome = landed.get(command.op, PARKED)
            if type(command) is CallTool and command.given is not None:
                outcome = command.given
            elif outcome is PARKED or type(outcome) is Raised:
                outcome = self._stopped(command)
            todo.extendleft(self.machine.on(self._completed(command, outcome)))
        return Finish("cancelled", reason="cancelled")

    def _stopped(self, command: Any) -> Any:
        """What came of a command that was stopped before it ended by itself."""
        if type(command) is CallTool:
            return self.effects.stopped(command, self._goes_on(command))
        if type(command) is CallModel:
            error = ModelError("the request was cancelled", provider=command.model.name)
            return ModelResponse(ModelMessage(), "error", error=error)
        return RunResult("", "cancelled", reason="cancelled") if type(command) is StartRun else None

    def _goes_on(self, command: Any) -> bool:
        """Whether the body of a call that was stopped may have its effect yet."""
        task = self._flying.get(command.op)
        awaited = task is not None and not task.done() and task is not asyncio.current_task()
        return awaited or runs_of(command) == "thread"

    async def _result(self, finish: Finish) -> RunResult[Any]:
        machine = self.machine
        status, _, _, error, reason = finish
        requests = tuple(self.questions.open.values()) if status == "suspended" else ()
        usage = machine.usage if self.info.spent is None else machine.usage + self.info.spent
        result: RunResult[Any] = RunResult(self.info.run_id, *finish, requests, usage, machine.messages)
        if self._outer is None:
            if status == "blocked":
                self.journal.append("note", status, reason, error)
            elif status != "suspended":
                self.journal.append("run.settled", status, reason)
            await self.journal.end(status, self.questions.due())
        if self.listener is not None:
            self.emit(Event("done", self.path.rstrip("/"), self.journal.seq, value=result))
        self.result = result
        return result


_ONE = Usage(requests=1)
_completion = maker(Completion)
