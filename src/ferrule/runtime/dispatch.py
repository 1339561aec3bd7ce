"""Around one command: hooks, approval, slots, attempts and records. The body of a call is `tool/invoke.py`.

A function here performs one command of a machine and returns what it is
completed with, or `PARKED` when that takes an answer which nobody has given yet.

Since 0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from ferrule.errors import ModelError, UsageError
from ferrule.exception import describe_exception
from ferrule.lazy import LazyModule
from ferrule.machine import CallModel, CallTool, Command, Completion, Sleep, StartRun, Wait
from ferrule.message import FINISHES, Call, ModelMessage, Usage, miscounted, unpaired
from ferrule.provider.base import Model, ModelRequest, ModelResponse
from ferrule.result import ToolResult, take, with_fact
from ferrule.runtime.answer import PARAMETERS, PARKED, seconds_until
from ferrule.runtime.attempts import Attempts, changed, delay_of, denied
from ferrule.runtime.digest import digest_of_request
from ferrule.runtime.event import Event
from ferrule.runtime.recovery import Found
from ferrule.strict_json import dumps, plain
from ferrule.suspension import Answer, Request
from ferrule.tool.invoke import is_approval_due, not_called
from ferrule.tool.schema.arguments import InvalidArguments, read
from ferrule.tool.tool import Tool
from ferrule.tool.toolset import Toolset

if TYPE_CHECKING:
    import asyncio
    import logging

    from ferrule.runtime.driver import Driver
else:
    asyncio = LazyModule("asyncio")
    logging = LazyModule("logging")

MODEL_ATTEMPTS = 3
BEHIND: Final = 64  # records of one turn of the loop, after which a run gives others a turn


class Hooks(Protocol):
    """What looks at each step of a run and may change it; composed of all hooks that were given."""

    watches_models: bool
    watches_tools: bool

    async def before_model(self, run: Any, request: ModelRequest) -> ModelRequest:
        """The request to send.

        Args:
            run: The run's `RunInfo`.
            request: The request as it is.
        """
        ...

    async def after_model(self, run: Any, request: ModelRequest, response: ModelResponse) -> ModelResponse:
        """The response to go on with.

        Args:
            run: The run's `RunInfo`.
            request: What was sent.
            response: The response as it is.
        """
        ...

    async def before_tool(self, run: Any, call: Call, tool: Tool, arguments: dict[str, Any]) -> Any:
        """None to go on, other arguments, or the result of a call that is not made.

        Args:
            run: The run's `RunInfo`.
            call: The call.
            tool: Its tool.
            arguments: Checked arguments by name, a copy.
        """
        ...

    async def after_tool(self, run: Any, call: Call, result: ToolResult) -> ToolResult:
        """The result to go on with.

        Args:
            run: The run's `RunInfo`.
            call: The call.
            result: The result as it is.
        """
        ...


class Raised(NamedTuple):
    """What a task ended with that is for whoever called, and no outcome.

    Args:
        error: That.
    """

    error: BaseException


def runs_of(command: Command) -> str | None:
    """How what a command starts runs: `run` is a run inside this one, `task` an async body; None for all else.

    Args:
        command: The command.
    """
    if type(command) is CallTool:
        return command.tool.runs if command.given is None else None
    return "run" if type(command) is StartRun else None


# -- models -----------------------------------------------------------------------------------------------------


def call_model(run: Driver, command: CallModel) -> Coroutine[Any, Any, Any]:
    """Ask a model, again where that can help, and take what hooks make of it.

    Args:
        run: The run.
        command: The command.

    Raises:
        UsageError: The first request of all is misuse: a part that the model does not take. Of a later one, to this
            model or to one that stands in, it is a failure of that model.
    """
    hooks = run.hooks
    if hooks is None or not hooks.watches_models:
        return _answer(run, command, command.request)
    return _watched(run, command, hooks)


async def _watched(run: Driver, command: CallModel, hooks: Hooks) -> Any:
    request: ModelRequest = command.request
    try:
        shown = await hooks.before_model(run.info, request)
        if shown.messages is not request.messages:
            shown = shown.but(messages=list(shown.messages))  # whatever can be gone through only once
    except Exception as error:  # what it should have taken out or put in is not sent without it
        return _hook_failed("before_model", error)
    _note(run, "before_model", command.op, shown is not request)
    wrong = unpaired(shown.messages) if shown.messages is not request.messages else None
    if wrong is not None:
        return _hook_failed("before_model", UsageError(f"the transcript it returned cannot be sent: {wrong}."))
    answer = await _answer(run, command, shown)
    try:
        response = await hooks.after_model(run.info, shown, answer)
        wrong = _unfit(response) if response is not answer else None
        if wrong is not None:
            raise UsageError(f"the answer it returned cannot be used: {wrong}.")
    except asyncio.CancelledError:
        run.info.spend(answer.usage or Usage())
        raise
    except Exception as error:  # the same for what it should have seen
        response = _hook_failed("after_model", error).but(usage=answer.usage)
    if run.info.spent is not None:
        _note(run, "after_model", command.op, response is not answer)
    if shown.tools is not request.tools:
        response = _without_hidden(response, shown.tools)
    return response if shown.messages is request.messages else run.definition.rewritten(response, shown.messages)


def _note(run: Driver, point: str, op: str, changed: bool) -> None:
    """Record what a hook did; what it consumed meanwhile the machine learns at once, for its limits."""
    spent, run.info.spent = run.info.spent, None
    if spent is None:
        run.journal.append("hook.returned", point, run.path + op, changed)
    else:
        at = run.journal.append("hook.returned", point, run.path + op, changed, spent)
        run.machine.on(Completion(op, at, spent))


def _without_hidden(response: ModelResponse, tools: Toolset) -> ModelResponse:
    """The answer, with calls refused of tools that a hook had taken out of the request: models may know their names."""
    calls = enumerate(response.message.calls)
    hidden = {i: tools.unknown(call.name).output for i, call in calls if tools.find(call.name) is None}
    return response.but(mended={**response.mended, **hidden}) if hidden else response


def _hook_failed(point: str, error: Exception) -> ModelResponse:
    failure = ModelError(describe_exception(error), provider=f"hook {point}")
    return ModelResponse(ModelMessage(), "error", error=failure)


async def _answer(run: Driver, command: CallModel, request: ModelRequest) -> ModelResponse:
    model: Model = command.model
    lost: Usage | None = None  # by an answer that is asked for again
    before = _asked_before(run, command) if run.found else 0
    attempt = 1
    try:
        while True:
            if run.journal.volatile:
                run.journal.append("model.intended", run.path + command.op, before + attempt, model.name)
            else:
                requested = digest_of_request(command.request)
                run.journal.append("model.intended", run.path + command.op, before + attempt, model.name, requested)
                if run.journal.behind > BEHIND:  # nothing had to be waited for: others have a turn, the heartbeat too
                    await asyncio.sleep(0)
            if run.listener is not None:
                run.say("step", command.op)
            heard = run.heard
            try:
                work = _streamed(run, command.op, model, request) if run.stream is not None else model.generate(request)
                response = await (work if run.trace is None else run.trace.chat(model, request, work))
                wrong = _unfit(response)
                if wrong is not None:
                    raise UsageError(f"model {model.name!r} gave an answer that cannot be used: {wrong}.")
                malformed = response.error if response.finish == "error" else None
                if malformed is None or not malformed.retryable or attempt > 1 or run.heard != heard:
                    return response if lost is None else _with_lost(response, lost)
                lost = response.usage and replace(response.usage, requests=response.usage.requests + 1)
                raise malformed  # nothing of it was executed or handed on: once more
            except ModelError as error:
                # Once a piece has been handed on, asking again would say it twice.
                if not error.retryable or attempt >= MODEL_ATTEMPTS or run.heard != heard:
                    return ModelResponse(ModelMessage(), "error", lost, error=error)
                delay = delay_of(attempt, error.retry_after)
                if delay is None:
                    return ModelResponse(ModelMessage(), "error", lost, error=error)
            except Exception as error:  # a model of the user's may raise anything; that is its answer
                # Misuse is the caller's to see at once; but once something has been done, that must not get lost.
                if isinstance(error, UsageError) and not run.path and not run.machine.usage.requests:
                    raise
                failure = ModelError(describe_exception(error), provider=model.name)
                return ModelResponse(ModelMessage(), "error", lost, error=failure)
            await asyncio.sleep(delay)
            attempt += 1
            run.emit(Event("restarted", command.op))
    except asyncio.CancelledError:
        if lost is not None:
            run.info.spend(lost)
        raise


def _asked_before(run: Driver, command: CallModel) -> int:
    """How often the model was asked by processes that ended meanwhile; whoever listens hears that it is asked again."""
    found = run.found.pop(command.op, None)
    if found is None or not found.attempt:
        return 0
    run.emit(Event("restarted", command.op))
    return found.attempt


def _with_lost(response: ModelResponse, lost: Usage) -> ModelResponse:
    """The answer with what the one before it had consumed; of unknown cost when it does not tell its own."""
    return response.but(usage=replace(lost, cost=None) if response.usage is None else lost + response.usage)


def _unfit(response: Any) -> str | None:
    """What is wrong with an answer, which code of the application may have made; None when a run can act on it."""
    if not isinstance(response, ModelResponse):
        return f"it is {type(response).__name__}, not a ModelResponse"
    message: Any = response.message
    if not isinstance(message, ModelMessage):
        return f"its message is {type(message).__name__}, not a ModelMessage"
    if type(message.text) is not str or response.finish not in FINISHES:
        return "its text must be a str" if response.finish in FINISHES else f"it ended with {response.finish!r}"
    wrong = miscounted(response.usage) if response.usage is not None else None
    if wrong is not None:
        return wrong
    calls: Any = message.calls
    if not isinstance(message.calls, (tuple, list)):  # pyright: ignore[reportUnnecessaryIsInstance]
        return f"its calls are {type(calls).__name__}, not a tuple"
    for call in calls:
        if not isinstance(call, Call) or type(call.name) is not str or type(call.arguments) is not str:
            return "its calls must be Call objects, with a name and with arguments as JSON text"
    return None


async def _streamed(run: Driver, op: str, model: Model, request: ModelRequest) -> ModelResponse:
    response: ModelResponse | None = None
    async for piece in model.stream(request):
        if isinstance(piece, ModelResponse):
            response = piece
        else:
            run.heard += 1
            run.emit(Event(piece.kind, op, None, piece.text))
            if run.stream is not None and run.stream.is_full():
                await run.stream.room()
    if response is None:
        raise ModelError("its stream ended without an answer", provider=model.name)
    return response


# -- tools ------------------------------------------------------------------------------------------------------


def call_tool(run: Driver, command: CallTool) -> Any:
    """Perform one call: freeze, approve, take a slot, record, execute, try again where that is allowed.

    Args:
        run: The run.
        command: The command.

    Returns:
        What it is completed with, or a coroutine that comes to it.
    """
    if command.given is not None:
        return command.given
    tool: Tool = command.tool
    asked = command.call.arguments
    before: dict[str, Any] | None = None  # what was asked for, where somebody changed it
    if run.substitute is not None:
        instead = run.substitute(run.path + command.op, command)
        if isinstance(instead, ToolResult):
            return instead
        if instead is not None:
            before, asked = _readable(tool, asked), instead
    found = run.found.pop(command.op, None) if run.found else None
    try:
        values, text = read(
            tool.parameters, asked if found is None else found.arguments or asked, omit_blank=tool.omit_blank
        )
    except InvalidArguments as error:
        return not_called(tool, error)
    if found is not None:
        return _resumed(run, command, tool, values, text, found, before)
    if run.hooks is None and tool.approval is False and before is None:
        return Attempts(run, command, tool, values, text).settle()
    return _guarded(run, command, tool, values, text, before)


def _readable(tool: Tool, text: str) -> dict[str, Any]:
    """Arguments by name, as far as the tool could read them."""
    try:
        return read(tool.parameters, text, omit_blank=tool.omit_blank)[0]
    except InvalidArguments:
        return {}


def begun_before(run: Driver, command: CallTool) -> None:
    """Keep in mind that a call, or one of a run that it is, may have had its effect in another process.

    Args:
        run: The run, which ends without going on with the call.
        command: The command.
    """
    found = run.found.get(command.op)
    tool: Tool = command.tool
    if found is None or command.given is not None:
        return
    if tool.runs == "run":
        within = f"{run.path}{command.op}/"
        begun = [r.body for r in run.records if r.type == "tool.intended" and r.body["op"].startswith(within)]
        inner = [cast("Any", tool).agent.tools.find(body["tool"]) for body in begun]
        if any(one is None or one.effect == "once" for one in inner):
            run.effects.begin(command.op, None)
    elif tool.effect == "once" and (found.begun or found.why == "outcome"):
        try:
            values, text = read(tool.parameters, found.arguments or command.call.arguments, omit_blank=tool.omit_blank)
        except InvalidArguments:  # of another version of the tool, whose check cannot be asked about them
            run.effects.begin(command.op, None)
            return
        Attempts(run, command, tool, values, text).begun_before(found)


def _tool_hooks(run: Driver) -> Hooks | None:
    """The hooks that look at calls, if there are any."""
    return run.hooks if run.hooks is not None and run.hooks.watches_tools else None


async def _guarded(
    run: Driver,
    command: CallTool,
    tool: Tool,
    values: dict[str, Any],
    text: str | bytes,
    before: dict[str, Any] | None = None,
) -> Any:
    """A call with hooks or an approval, or one whose arguments were others `before`."""
    call = command.call
    hooks = _tool_hooks(run)
    if hooks is not None:
        decided = await _before(run, hooks, call, tool, values)
        if isinstance(decided, ToolResult):
            return decided
        if decided is not None:
            values, text = decided
    if tool.approval is False or not await _is_due(tool, values):
        return await _attempts(run, command, tool, hooks, values, text, before).settle()
    answer = await _asked(run, command, tool, values, text)
    return await _decided(run, command, tool, values, text, answer, before)


async def _decided(
    run: Driver,
    command: CallTool,
    tool: Tool,
    values: dict[str, Any],
    text: str | bytes,
    answer: Answer | None,
    before: dict[str, Any] | None = None,
) -> Any:
    """A call that a person was asked about: with the arguments they agreed to, or not at all."""
    hooks = _tool_hooks(run)
    approved = PARKED if answer is None else _approved(tool, values, text, answer)
    if not isinstance(approved, tuple):
        return approved
    values, text, edited = cast("tuple[dict[str, Any], str | bytes, dict[str, Any] | None]", approved)
    if edited is not None and hooks is not None:
        decided = await _before(run, hooks, command.call, tool, values)
        if isinstance(decided, ToolResult):
            return decided
        # What was agreed to is what runs: a hook may say so by giving it back, and nothing else.
        if decided is not None and not _same(decided[0], values):
            return _denied_by_hook(tool, "changed the arguments that were approved")
    return await _attempts(run, command, tool, hooks, values, text, edited if before is None else before).settle()


async def _resumed(
    run: Driver,
    command: CallTool,
    tool: Tool,
    values: dict[str, Any],
    text: str | bytes,
    found: Found,
    before: dict[str, Any] | None,
) -> Any:
    """A call that had come some way when its run was left; hooks and rules that were asked then are not asked again."""
    if found.why == "approval" and found.request is not None:
        answer = found.answer or await run.questions.again(command.op, found.request)
        return await _decided(run, command, tool, values, text, answer, before)
    edited = before
    if edited is None and found.original is not None:
        edited, _ = read(tool.parameters, found.original or command.call.arguments, omit_blank=tool.omit_blank)
    hooks = _tool_hooks(run)
    return await _attempts(run, command, tool, hooks, values, text, edited).resume(found)


def _attempts(
    run: Driver,
    command: CallTool,
    tool: Tool,
    hooks: Hooks | None,
    values: dict[str, Any],
    text: str | bytes,
    edited: dict[str, Any] | None = None,
) -> Attempts:
    finish = None
    if hooks is not None or edited is not None:
        finish = partial(_finished, run, command, hooks, edited, values)
    return Attempts(run, command, tool, values, text, finish)


async def _finished(
    run: Driver,
    command: CallTool,
    hooks: Hooks | None,
    edited: dict[str, Any] | None,
    values: dict[str, Any],
    result: ToolResult,
) -> ToolResult:
    """What a guarded call is settled with: told what a person changed, and seen by the hooks."""
    if edited is not None:
        result = _told_of_edit(result, edited, values)
    return result if hooks is None else await _after(run, hooks, command.op, command.call, result)


async def _before(
    run: Driver, hooks: Hooks, call: Call, tool: Tool, values: dict[str, Any]
) -> ToolResult | tuple[dict[str, Any], str | bytes] | None:
    try:  # on a copy: what it does to that one is neither checked nor shown to who approves, so it changes nothing
        decided = await hooks.before_tool(run.info, call, tool, deepcopy(values))
    except Exception as error:  # a guard that breaks lets nothing through
        _note(run, "before_tool", call.id, changed=True)
        return _denied_by_hook(tool, f"raised {type(error).__name__}")
    _note(run, "before_tool", call.id, decided is not None)
    if decided is None:
        return None
    if not isinstance(decided, ToolResult):
        return _frozen(tool, decided)
    if take(decided).pending is not None:  # other hooks have not seen the call, so no answer could let it through
        return _denied_by_hook(tool, "returned a request, and only tools can ask")
    return take(decided)


def _denied_by_hook(tool: Tool, why: str) -> ToolResult:
    return ToolResult.failed(f"Tool {tool.name!r} was not called: a hook {why}.", code="denied")


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two sets of arguments are sent alike."""
    one, other = (plain(values, big_ints="number") for values in (a, b))
    return one.keys() == other.keys() and all(dumps(one[key]) == dumps(other[key]) for key in one)


def _frozen(tool: Tool, values: Mapping[str, Any]) -> ToolResult | tuple[dict[str, Any], str | bytes]:
    """Arguments that somebody changed, checked like any others."""
    try:
        return read(tool.parameters, values, omit_blank=tool.omit_blank)
    except InvalidArguments as error:
        return not_called(tool, error, ": its arguments were changed and do not fit")


async def _after(run: Driver, hooks: Hooks, op: str, call: Call, result: ToolResult) -> ToolResult:
    try:
        changed = await hooks.after_tool(run.info, call, result)
    except asyncio.CancelledError:
        run.effects.made(op, _unseen("was stopped"))
        raise
    except Exception as error:
        changed = _unseen(f"raised {type(error).__name__}")
    if changed is not result:
        changed = take(changed)
        changed = _unseen("returned a request") if changed.pending is not None else changed
    _note(run, "after_tool", call.id, changed is not result)
    return changed


def _unseen(why: str) -> ToolResult:
    """What is said of a call whose result a hook did not let through: what it should have taken out stays out."""
    return ToolResult.failed(f"The call was made, but a hook that checks its result {why}.", code="exception")


# -- approval ---------------------------------------------------------------------------------------------------


async def _is_due(tool: Tool, values: dict[str, Any]) -> bool:
    try:
        return await is_approval_due(tool, values)
    except Exception as error:  # a rule that cannot decide leaves the decision to a person
        log = logging.getLogger("ferrule.run")
        log.warning("the approval rule of tool %r raised %s: a person is asked.", tool.name, type(error).__name__)
        return True


async def _asked(
    run: Driver, command: CallTool, tool: Tool, values: dict[str, Any], text: str | bytes
) -> Answer | None:
    """What a person says to a call; None while they have not answered."""
    shown = await tool.call_preview(text)
    data = {"tool": tool.name, "effect": tool.effect, "arguments": plain(tool.whole(values), big_ints="number")}
    data[PARAMETERS] = tool.parameters.schema
    request = Request(command.op, "approval", f"Run tool {tool.name!r}?", data=data, preview=shown)
    return await run.questions.ask(command.op, request, "approval", arguments=changed(text, command.call.arguments))


def _approved(tool: Tool, values: dict[str, Any], text: str | bytes, answer: Answer) -> Any:
    """The arguments that a person agreed to, and the former ones if they changed them; a failed result for a no."""
    if not answer.ok:
        return denied(tool, answer)
    if answer.arguments is None:
        return values, text, None
    frozen = _frozen(tool, answer.arguments)
    if isinstance(frozen, ToolResult):
        return frozen
    # A form may send back what it was shown: that is a yes, and no change for anybody to be told of.
    return (values, text, None) if _same(frozen[0], values) else (*frozen, values)


def _told_of_edit(result: ToolResult, before: dict[str, Any], after: dict[str, Any]) -> ToolResult:
    """The result with a word on arguments that a person had changed, for the model and for the record."""
    versions = {"requested": plain(before), "approved": plain(after)}
    note = f"[The arguments were changed before the call, to {dumps(versions['approved']).decode()}]"
    output = f"{note}\n{result.output}" if result.output else note
    return replace(result, output=output, metadata=with_fact(result.metadata, "arguments", versions))


# -- all else ---------------------------------------------------------------------------------------------------


async def _wait(run: Driver, command: Wait) -> Any:
    """Ask a person."""
    found = run.found.pop(command.op, None)
    if found is None or found.request is None:
        answer = await run.questions.ask(command.op, command.request, "wait")
    else:
        answer = await run.questions.again(command.op, found.request)
    return PARKED if answer is None else answer


# From a command to what it is completed with, or to a coroutine that comes to it.
PERFORM: Final[Mapping[Any, Callable[[Any, Any], Any]]] = {
    CallTool: call_tool,
    CallModel: call_model,
    StartRun: lambda run, command: run.drive(command.op, command.definition, command.input),
    Sleep: lambda _, command: asyncio.sleep(
        command.seconds if command.until is None else max(seconds_until(command.until), 0.0)
    ),
    Wait: _wait,
}
