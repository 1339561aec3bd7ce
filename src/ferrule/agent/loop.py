"""The one agent loop, a machine: request, response, calls, results, next request.

There is no second loop for streaming, for structured output or for a store.
Whatever differs there differs in the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.agent.output import AGAIN, InvalidOutput, Output
from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.machine import CallModel, CallTool, Cancelled, Command, Completion, Finish, maker
from ferrule.message import Call, Message, ModelMessage, Transcript, Usage, UserMessage, told, user
from ferrule.provider.base import Model, ModelRequest, ModelResponse, Settings
from ferrule.result import ToolResult
from ferrule.strict_json import Codec, made_of_fields, register
from ferrule.tool.output import bounded
from ferrule.tool.toolset import Toolset

if TYPE_CHECKING:
    from ferrule.provider import schema as schemas
else:
    schemas = LazyModule("ferrule.provider.schema")

_call, _call_model, _call_tool, _request = maker(Call), maker(CallModel), maker(CallTool), maker(ModelRequest)
REPEATS = 3
PAUSES = 10  # a provider that pauses more often in one turn does not come to an end
_NO_COST = (
    "what it has cost so far is unknown, so the limit on it cannot be kept. "
    "Give each model its prices with Priced(model, input=..., output=...), or set no limit on cost"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a run stops by itself, with the work done so far kept. None is no limit.

    Args:
        turns: Model answers.
        tool_calls: Tool calls; a batch that would go beyond is not made.
        tokens: Tokens in and out, as far as models tell them.
        seconds: Wall time, looked at before each dispatch.
        cost: Money. It takes models that tell their cost, or `Priced` ones: a run that has consumed what nobody knows
            the cost of ends before it asks again.
        turn_output: Characters of all results of one turn together; ends nothing, but cuts the longest.

    Raises:
        UsageError: One is no number, or below 0.

    Since 0.1.
    """

    turns: int | None = 20
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None
    turn_output: int | None = 200_000

    def __post_init__(self) -> None:
        """Refuse what would end nothing, or fail in the middle of a run."""
        for f in fields(self):
            value: object = getattr(self, f.name)
            if value is not None and not (isinstance(value, int | float) and value >= 0):  # NaN is not, either
                raise UsageError(f"the limit {f.name} is {value!r}. Use a number from 0, or None for no limit.")

    def tightened(self, other: Limits) -> Limits:
        """The lower of two limits, each by each.

        Args:
            other: The other limits.
        """
        return Limits(*(_lower(getattr(self, f.name), getattr(other, f.name)) for f in fields(Limits)))


def _lower(a: Any, b: Any) -> Any:
    return a if b is None else b if a is None else min(a, b)


class RunInput(NamedTuple):
    """What one run of an agent is given.

    Args:
        prompt: What the user says.
        history: The transcript before it.
        within: What is left to consume of the limits of the run around this one.

    Since 0.1.
    """

    prompt: UserMessage
    history: Sequence[Message] = ()
    within: Limits | None = None


class Rewritten(NamedTuple):
    """A response to a request whose transcript a hook had replaced: the run goes on from that one.

    Args:
        response: The response.
        messages: The transcript that was sent.

    Since 0.1.
    """

    response: ModelResponse
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides about an agent's runs and does not change in one.

    Args:
        models: The model, and those that are asked where it fails, in order.
        instructions: The system text.
        tools: The tools.
        settings: How models are asked.
        limits: What a run may use.
        output: What answers must be; None for text.
        output_retries: How often an answer that does not fit is sent back.
        serial: Whether one of the tools is serial.
        nested: Whether one of the tools is an agent, whose runs share the limits.

    Since 0.1.
    """

    models: tuple[Model, ...]
    instructions: str
    tools: Toolset
    settings: Settings
    limits: Limits
    output: Output | None
    output_retries: int
    serial: bool
    nested: bool


class AgentLoop:
    """One run of an agent.

    Args:
        plan: What the agent is.

    Since 0.1.
    """

    __slots__ = (
        "_after", "_batch", "_began", "_begun", "_calls", "_failing", "_left", "_messages", "_model", "_now",
        "_output_errors", "_plan", "_queue", "_requests", "_results", "_text", "_turn", "_turns", "_untold", "_usage",
        "_whole", "_wire_ids",
    )  # fmt: skip

    def __init__(self, plan: Plan) -> None:
        """Know nothing yet."""
        self._plan = plan
        self._messages: list[Message] = []
        self._usage = Usage()
        self._model = 0  # which of the models is asked: those after the first stand in for it
        self._turn = 0  # numbers the ops, over the whole transcript
        self._turns = 0
        self._calls = 0
        self._began = self._now = 0.0
        self._batch: tuple[Call, ...] = ()
        self._results: dict[str, ToolResult] = {}
        self._left = 0
        self._queue: list[CallTool] = []  # serial calls that wait for the one before, the next of them last
        self._after: Finish | None = None  # how the run ends once the calls in flight are settled
        self._failing: dict[tuple[str, str], int] = {}  # calls that failed, and in how many turns in a row
        self._requests = 0
        self._untold = False  # whether an answer did not tell what it consumed
        self._whole = True
        self._output_errors = 0
        self._begun: tuple[str, ...] = ()  # what a turn has said that the provider paused in
        self._text = ""  # what was said last, for a run that ends before its answer
        self._wire_ids: dict[str, None] = {}  # a set of few takes three times the room

    @property
    def messages(self) -> Sequence[Message]:
        """The transcript so far."""
        return Transcript(self._messages)

    @property
    def usage(self) -> Usage:
        """What models consumed so far, child runs included."""
        usage = self._usage
        cost = None if self._untold else usage.cost
        requests = usage.requests + self._requests
        return Usage(usage.input, usage.output, usage.cached, usage.reasoning, cost, requests, self._made())

    def start(self, input: RunInput, at: float) -> Sequence[Command]:
        """Ask the model for the first time.

        Args:
            input: Prompt and history.
            at: When, in seconds since 1970.
        """
        self._messages = [*input.history, input.prompt]
        if input.within is not None:
            self._plan = replace(self._plan, limits=self._plan.limits.tightened(input.within))
        for message in input.history:
            if isinstance(message, ModelMessage):
                # A transcript that was shortened holds fewer turns than its ids tell of.
                self._turn = max(self._turn + 1, *(_turn_of(c) for c in message.calls), 0)
                self._wire_ids.update({c.wire_id: None for c in message.calls if c.wire_id})
        self._began = self._now = at
        return self._ask()

    def on(self, completion: Completion) -> Sequence[Command]:
        """Take what happened.

        Args:
            completion: A model's answer, a call's result, a child's end, what a hook consumed, or a cancellation.
        """
        outcome = completion.outcome
        self._now = completion.at
        if isinstance(outcome, ToolResult):
            return self._settled(completion.op, outcome)
        if isinstance(outcome, ModelResponse):
            return self._answered(outcome)
        if isinstance(outcome, Rewritten):
            self._messages = list(outcome.messages)
            return self._answered(outcome.response)
        if isinstance(outcome, Cancelled):
            return self._cancelled()
        # Of a hook, or of a run inside, whose result comes next.
        self._usage = self._usage + (outcome if isinstance(outcome, Usage) else outcome.usage)
        return ()

    # -- the model ----------------------------------------------------------------------------------------------

    def _ask(self) -> Sequence[Command]:
        spent = self._spent()
        if spent is not None:
            error = self._unknown() if spent == "cost" else None
            return (Finish("incomplete", self._text, error=error, reason=spent),)
        plan = self._plan
        self._turn += 1
        self._turns += 1
        output = plan.output.schema if plan.output is not None else None
        request = _request((Transcript(self._messages), plan.instructions, plan.tools, plan.settings, output))
        return (_call_model((f"m{self._turn}", plan.models[self._model], request)),)

    def _spent(self) -> str | None:
        limits, usage = self._plan.limits, self._usage
        if limits.turns is not None and self._turns >= limits.turns:
            return "turns"
        if limits.tokens is not None and (usage.input or 0) + (usage.output or 0) >= limits.tokens:
            return "tokens"
        if limits.seconds is not None and self._now - self._began >= limits.seconds:
            return "seconds"
        if limits.cost is not None and (not (usage.cost or 0) < limits.cost or self._unknown()):  # NaN: no more either
            return "cost"
        return None

    def _unknown(self) -> str | None:
        """Why nobody can say what the run has cost; None where that is known. Going on would make a limit empty."""
        return _NO_COST if self._untold or self._usage.unpriced else None

    def _answered(self, response: ModelResponse) -> Sequence[Command]:
        self._requests += 1
        if response.usage is not None:
            self._usage = self._usage + response.usage
        elif response.finish != "error" or _has_said(response.message):
            self._untold = True  # an error instead of an answer consumed nothing, one in the middle of it did
        if self._after is not None:  # cancelled meanwhile
            return (self._after,)
        finish = response.finish
        begun, self._begun = self._begun, ()
        self._text = response.message.text or self._text
        if response.paused and not response.message.calls and len(begun) < PAUSES:
            self._begun = (*begun, response.message.text)
            self._messages.append(response.message)
            return self._ask()
        if finish in ("error", "unknown"):
            return self._broken(response)
        message = self._own(response.message)
        self._messages.append(message)
        if finish in ("content_filter", "refusal"):
            end = Finish("failed", message.text, error=message.text or f"the model ended with {finish}", reason=finish)
            return self._without_calls(message, end, finish)
        if finish == "length" or not self._whole:
            return self._without_calls(message, Finish("incomplete", message.text, reason="length"), "length")
        if message.calls:
            return self._dispatch(message, response.mended)
        text = "".join((*begun, message.text))
        if text.strip():
            return self._said(text)
        if self._calls and self._plan.output is None:  # where a value is due, nothing is none
            return (Finish("done", "", reason="the model ended without a word"),)
        return (Finish("incomplete", "", reason="empty_response"),)

    def _broken(self, response: ModelResponse) -> Sequence[Command]:
        """An answer that cannot be used: ask the next model, or end."""
        if self._model + 1 < len(self._plan.models):
            self._model += 1
            return self._ask()
        error = response.error or f"the model ended with {response.finish}"
        return (Finish("failed", response.message.text, error=error, reason=response.finish),)

    def _own(self, message: ModelMessage) -> ModelMessage:
        """The message with our ids on its calls; an id that the provider had used before is dropped."""
        self._whole = True
        if not message.calls:
            return message
        calls: list[Call] = []
        for _, name, arguments, wire_id, complete in message.calls:
            if wire_id:
                if wire_id in self._wire_ids:
                    wire_id = None
                else:
                    self._wire_ids[wire_id] = None
            calls.append(_call((f"t{self._turn}.{len(calls)}", name, arguments, wire_id, complete)))
            self._whole &= complete
        return ModelMessage(message.text, tuple(calls), message.reasoning, message.raw)

    def _said(self, text: str) -> Sequence[Command]:
        output = self._plan.output
        if output is None:
            return (Finish("done", text, text),)
        try:
            value = output.check(text)
        except InvalidOutput as error:
            self._output_errors += 1
            if self._output_errors > self._plan.output_retries:
                return (Finish("failed", text, error=str(error), reason="invalid_output"),)
            self._messages.append(user(f"{error}{AGAIN}"))
            return self._ask()
        return (Finish("done", text, value),)

    # -- calls --------------------------------------------------------------------------------------------------

    def _without_calls(self, message: ModelMessage, end: Finish, why: str) -> Sequence[Command]:
        """End, once each call of an answer that is not whole has a result that says it was not made."""
        if not message.calls:
            return (end,)
        text = f"Not executed: the answer that asked for it ended early ({why})."
        return self._refused(message.calls, ToolResult.failed(text, code="not_executed"), end)

    def _refused(self, calls: tuple[Call, ...], given: ToolResult, end: Finish) -> Sequence[Command]:
        """End, once each of these calls has the result that is given."""
        self._after = end
        return self._open(calls, [CallTool(c.id, c, self._plan.tools.find(c.name), given) for c in calls])

    def _dispatch(self, message: ModelMessage, mended: Mapping[int, str]) -> Sequence[Command]:
        calls, limit = message.calls, self._plan.limits.tool_calls
        if limit is not None and self._made() + len(calls) > limit:
            given = ToolResult.failed(f"Not executed: the limit of {limit} tool calls is reached.", code="budget")
            return self._refused(calls, given, Finish("incomplete", message.text, reason="tool_calls"))
        self._calls += len(calls)
        commands = [self._command(call, mended.get(i)) for i, call in enumerate(calls)]
        if self._plan.nested:
            commands = self._shared(commands)
        return self._open(calls, self._one_by_one(commands) if self._plan.serial else commands)

    def _command(self, call: Call, refused: str | None) -> CallTool:
        tools = self._plan.tools
        tool = tools.find(call.name)
        if refused is not None:
            return CallTool(call.id, call, tool, ToolResult.failed(refused, code="invalid_arguments"))
        if tool is None:
            return CallTool(call.id, call, None, tools.unknown(call.name))
        if self._plan.models[self._model].capabilities.strict_tools:
            call = call._replace(arguments=schemas.without_nulls(tool.parameters.schema, call.arguments))
        return _call_tool((call.id, call, tool, None, None))

    def _shared(self, commands: list[CallTool]) -> list[CallTool]:
        """The commands, with a share of what is left for each run inside: together they keep the limits too."""
        runs = [c.given is None and c.tool.runs == "run" for c in commands]
        if not any(runs):
            return commands
        rest = self._rest(sum(runs))
        return [c._replace(within=rest) if inside else c for c, inside in zip(commands, runs, strict=True)]

    def _rest(self, among: int) -> Limits:
        """What each of several runs inside may consume; turns and their room are its own, and time passes for all."""
        limits, usage = self._plan.limits, self._usage
        calls = _left(limits.tool_calls, self._made())
        tokens = _left(limits.tokens, (usage.input or 0) + (usage.output or 0))
        cost = _left(limits.cost, usage.cost or 0)
        return Limits(
            None,
            None if calls is None else calls // among,
            None if tokens is None else tokens // among,
            _left(limits.seconds, self._now - self._began),
            None if cost is None else cost / among,
            turn_output=None,
        )

    def _made(self) -> int:
        """Tool calls made so far, those of runs inside included."""
        return self._calls + self._usage.tool_calls

    def _one_by_one(self, commands: list[CallTool]) -> list[CallTool]:
        """The commands that start now; serial calls after the first wait for their turn."""
        now: list[CallTool] = []
        later: list[CallTool] = []
        waiting = False
        for command in commands:
            serial = command.tool is not None and command.tool.serial
            if serial and waiting:
                later.append(command)
            else:
                now.append(command)
            waiting = waiting or serial
        self._queue = later[::-1]
        return now

    def _open(self, calls: tuple[Call, ...], commands: Sequence[Command]) -> Sequence[Command]:
        self._batch = calls
        self._left = len(calls)
        return commands

    def _settled(self, op: str, result: ToolResult) -> Sequence[Command]:
        self._results[op] = result
        self._left -= 1
        if self._left:
            return self._next_serial(op) if self._queue else ()
        self._tell([self._results.pop(call.id) for call in self._batch])
        self._batch = ()
        if self._after is not None:
            return (self._after,)
        if REPEATS in self._failing.values():
            return (Finish("incomplete", self._text, reason="repeated_failure"),)
        return self._ask()

    def _next_serial(self, op: str) -> Sequence[Command]:
        tool = next((self._plan.tools.find(c.name) for c in self._batch if c.id == op), None)
        return (self._queue.pop(),) if tool is not None and tool.serial else ()

    def _tell(self, results: list[ToolResult]) -> None:
        """Append what the model is told of a batch, and count the calls that fail again and again."""
        room = self._plan.limits.turn_output
        if room is not None and sum([len(r.output) for r in results]) > room:
            results = _within(room, self._batch, results)
        self._messages += map(told, self._batch, results)
        before, self._failing = self._failing, {}
        for call, result in zip(self._batch, results, strict=True):
            if result.is_error:
                asked = (call.name, call.arguments)
                self._failing[asked] = before.get(asked, 0) + 1

    # -- the end ------------------------------------------------------------------------------------------------

    def _cancelled(self) -> Sequence[Command]:
        self._after = Finish("cancelled", self._text, reason="cancelled")
        if not self._left:
            return (self._after,)
        waiting = self._queue[::-1]
        self._queue.clear()
        given = ToolResult.failed("Not executed: the run was cancelled.", code="not_executed")
        return [CallTool(c.op, c.call, c.tool, given) for c in waiting]


def _has_said(message: ModelMessage) -> bool:
    return bool(message.text or message.calls or message.reasoning)


def _left(limit: Any, used: float) -> Any:
    return None if limit is None else max(limit - used, 0)


def _turn_of(call: Call) -> int:
    """The turn that an id of ours tells of, `t12.0`; 0 for any other."""
    number = call.id[1:].partition(".")[0]
    return int(number) if call.id.startswith("t") and number.isdecimal() and len(number) < 10 else 0


def _within(room: int, calls: Sequence[Call], results: list[ToolResult]) -> list[ToolResult]:
    """The results of a turn that are too long together, the longest cut to one length."""
    share, left = 0, room
    for i, length in enumerate(sorted(len(r.output) for r in results)):
        share = left // (len(results) - i)
        if length > share:
            break
        left -= length
    return [_cut(r, share, c.id) if len(r.output) > share else r for c, r in zip(calls, results, strict=True)]


def _cut(result: ToolResult, limit: int, call_id: str) -> ToolResult:
    whole = (result.metadata or {}).get("full_output", result.output)  # it may have been cut once
    return bounded(replace(result, output=whole), limit, call_id)


# -- the journal's form -----------------------------------------------------------------------------------------


def _limits_of(limits: Limits) -> dict[str, Any]:
    return {f.name: getattr(limits, f.name) for f in fields(limits)}


def _input_of(given: RunInput) -> dict[str, Any]:
    return {k: v for k, v in {**given._asdict(), "history": list(given.history)}.items() if v}


def _rewritten_of(told: Rewritten) -> dict[str, Any]:
    return {"response": told.response, "messages": list(told.messages)}


register(Limits, Codec("$limits", _limits_of, _limits_of, made_of_fields(Limits)))
register(RunInput, Codec("$input", _input_of, _input_of, made_of_fields(RunInput)))
register(Rewritten, Codec("$rewritten", _rewritten_of, _rewritten_of, made_of_fields(Rewritten)))
