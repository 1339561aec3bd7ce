"""The one agent loop, a machine: request, response, calls, results, next request.

There is no second loop for streaming, for structured output or for a store.
Whatever differs there differs in the driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.agent.output import InvalidOutput, Output
from ferrule.lazy import LazyModule
from ferrule.machine import CallModel, CallTool, Cancelled, Command, Completion, Finish, StartRun
from ferrule.message import Call, Message, ModelMessage, Transcript, Usage, UserMessage, told, user
from ferrule.provider.base import Model, ModelRequest, ModelResponse, Settings
from ferrule.result import ToolResult
from ferrule.tool.arguments import InvalidArguments, read
from ferrule.tool.tool import Tool
from ferrule.tool.toolset import Toolset

if TYPE_CHECKING:
    from ferrule.provider import schema as schemas
else:
    schemas = LazyModule("ferrule.provider.schema")

REPEATS = 3
PAUSES = 10  # a provider that pauses more often in one turn does not come to an end
_NO_FAILURE: tuple[tuple[str, str] | None, int] = (None, 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a run stops by itself, with the work done so far kept. None is no limit.

    Args:
        turns: Model answers.
        tool_calls: Tool calls; a batch that would go beyond is not made.
        tokens: Tokens in and out.
        seconds: Wall time, looked at before each dispatch.
        cost: Money, where prices are known.

    Since 0.1.
    """

    turns: int | None = 20
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None


class RunInput(NamedTuple):
    """What one run of an agent is given.

    Args:
        prompt: What the user says.
        history: The transcript before it.

    Since 0.1.
    """

    prompt: UserMessage
    history: Sequence[Message] = ()


class Rewritten(NamedTuple):
    """A response to a request whose transcript a hook had replaced: the run goes on from that one.

    Since 0.1.
    """

    response: ModelResponse
    messages: Sequence[Message]


class AgentTool(Tool):
    """A tool that is a run of another agent: its calls become child runs.

    Since 0.1.
    """

    agent: Any

    def input_of(self, values: Mapping[str, Any]) -> Any:
        """What the child run is given.

        Args:
            values: Checked arguments by name.
        """
        return RunInput(user(str(values["input"])))


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides about an agent's runs and does not change in one.

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


class AgentLoop:
    """One run of an agent.

    Args:
        plan: What the agent is.

    Since 0.1.
    """

    __slots__ = (
        "_after", "_batch", "_began", "_begun", "_calls", "_failing", "_left", "_messages", "_model", "_now",
        "_output_errors", "_plan", "_queue", "_requests", "_results", "_turn", "_turns", "_usage", "_whole",
        "_wire_ids",
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
        self._queue: deque[Command] = deque()  # serial calls that wait for the one before
        self._after: Finish | None = None  # how the run ends once the calls in flight are settled
        self._failing = _NO_FAILURE
        self._requests = 0
        self._whole = True
        self._output_errors = 0
        self._begun: tuple[str, ...] = ()  # what a turn has said that the provider paused in
        self._wire_ids: set[str] = set()

    @property
    def messages(self) -> Sequence[Message]:
        """The transcript so far."""
        return Transcript(self._messages)

    @property
    def usage(self) -> Usage:
        """What models consumed so far, child runs included."""
        return self._usage + Usage(requests=self._requests)

    def start(self, input: RunInput, at: float) -> Sequence[Command]:
        """Ask the model for the first time.

        Args:
            input: Prompt and history.
            at: When, in seconds since 1970.
        """
        self._messages = [*input.history, input.prompt]
        for message in input.history:
            if isinstance(message, ModelMessage):
                # A transcript that was shortened holds fewer turns than its ids tell of.
                self._turn = max(self._turn + 1, *(_turn_of(c) for c in message.calls), 0)
                self._wire_ids.update(c.wire_id for c in message.calls if c.wire_id)
        self._began = self._now = at
        return self._ask()

    def on(self, completion: Completion) -> Sequence[Command]:
        """Take what happened.

        Args:
            completion: A model's answer, a call's result, a child's end or a cancellation.
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
        return self._child_ended(completion.op, outcome)

    # -- the model ----------------------------------------------------------------------------------------------

    def _ask(self) -> Sequence[Command]:
        spent = self._spent()
        if spent is not None:
            return (Finish("incomplete", reason=spent),)
        plan = self._plan
        self._turn += 1
        self._turns += 1
        output = plan.output.schema if plan.output is not None else None
        request = ModelRequest(Transcript(self._messages), plan.instructions, plan.tools, plan.settings, output)
        return (CallModel(f"m{self._turn}", plan.models[self._model], request),)

    def _spent(self) -> str | None:
        limits, usage = self._plan.limits, self._usage
        if limits.turns is not None and self._turns >= limits.turns:
            return "turns"
        if limits.tokens is not None and (usage.input or 0) + (usage.output or 0) >= limits.tokens:
            return "tokens"
        if limits.seconds is not None and self._now - self._began >= limits.seconds:
            return "seconds"
        if limits.cost is not None and (usage.cost or 0) >= limits.cost:
            return "cost"
        return None

    def _answered(self, response: ModelResponse) -> Sequence[Command]:
        self._requests += 1
        if response.usage is not None:
            self._usage = self._usage + response.usage
        if self._after is not None:  # cancelled meanwhile
            return (self._after,)
        finish = response.finish
        begun, self._begun = self._begun, ()
        if response.paused and len(begun) < PAUSES:
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
        if self._calls:
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
            if wire_id in self._wire_ids:
                wire_id = None
            elif wire_id:
                self._wire_ids.add(wire_id)
            calls.append(Call(f"t{self._turn}.{len(calls)}", name, arguments, wire_id, complete))
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
            self._messages.append(user(f"{error} Answer again with JSON that fits, and nothing else."))
            return self._ask()
        return (Finish("done", text, value),)

    # -- calls --------------------------------------------------------------------------------------------------

    def _without_calls(self, message: ModelMessage, end: Finish, why: str) -> Sequence[Command]:
        """End, once each call of an answer that is not whole has a result that says it was not made."""
        if not message.calls:
            return (end,)
        self._after = end
        text = f"Not executed: the answer that asked for it ended early ({why})."
        given = ToolResult.failed(text, code="not_executed")
        return self._open(message.calls, [self._given(c, given) for c in message.calls])

    def _given(self, call: Call, result: ToolResult) -> Command:
        return CallTool(call.id, call, self._plan.tools.find(call.name), result)

    def _dispatch(self, message: ModelMessage, mended: Mapping[int, str]) -> Sequence[Command]:
        calls, limit = message.calls, self._plan.limits.tool_calls
        if limit is not None and self._calls + len(calls) > limit:
            self._after = Finish("incomplete", message.text, reason="tool_calls")
            given = ToolResult.failed(f"Not executed: the limit of {limit} tool calls is reached.", code="budget")
            return self._open(calls, [self._given(c, given) for c in calls])
        self._calls += len(calls)
        commands = [self._command(call, mended.get(i)) for i, call in enumerate(calls)]
        return self._open(calls, self._one_by_one(commands) if self._plan.serial else commands)

    def _command(self, call: Call, refused: str | None) -> Command:
        tools = self._plan.tools
        tool = tools.find(call.name)
        if refused is not None:
            return CallTool(call.id, call, tool, ToolResult.failed(refused, code="invalid_arguments"))
        if tool is None:
            return CallTool(call.id, call, None, tools.unknown(call.name))
        if self._plan.models[self._model].capabilities.strict_tools:
            call = call._replace(arguments=schemas.without_nulls(tool.parameters.schema, call.arguments))
        if isinstance(tool, AgentTool):
            return self._child(tool, call)
        return CallTool(call.id, call, tool)

    def _child(self, tool: AgentTool, call: Call) -> Command:
        try:
            values, _ = read(tool.parameters, call.arguments)
        except InvalidArguments as error:
            text = f"Tool {tool.name!r} was not called. {error}"
            return CallTool(call.id, call, tool, ToolResult.failed(text, code="invalid_arguments"))
        return StartRun(call.id, tool.agent, tool.input_of(values), call)

    def _one_by_one(self, commands: list[Command]) -> list[Command]:
        """The commands that start now; serial calls after the first wait for their turn."""
        now: list[Command] = []
        waiting = False
        for command in commands:
            serial = isinstance(command, CallTool) and command.tool is not None and command.tool.serial
            if serial and waiting:
                self._queue.append(command)
            else:
                now.append(command)
            waiting = waiting or serial
        return now

    def _open(self, calls: tuple[Call, ...], commands: list[Command]) -> Sequence[Command]:
        self._batch = calls
        self._left = len(calls)
        return commands

    def _settled(self, op: str, result: ToolResult) -> Sequence[Command]:
        self._results[op] = result
        self._left -= 1
        if self._left:
            return self._next_serial(op) if self._queue else ()
        results = self._results
        for call in self._batch:
            found = results.pop(call.id)
            self._messages.append(told(call, found))
            self._count_failure(call, found)
        self._batch = ()
        if self._after is not None:
            return (self._after,)
        if self._failing[1] >= REPEATS:
            return (Finish("incomplete", reason="repeated_failure"),)
        return self._ask()

    def _next_serial(self, op: str) -> Sequence[Command]:
        tool = next((self._plan.tools.find(c.name) for c in self._batch if c.id == op), None)
        return (self._queue.popleft(),) if tool is not None and tool.serial else ()

    def _count_failure(self, call: Call, result: ToolResult) -> None:
        """How often the same call has failed in a row; never forgotten within a batch once it is too often."""
        known, times = self._failing
        if times >= REPEATS:
            return
        if not result.is_error:
            self._failing = _NO_FAILURE
        else:
            asked = (call.name, call.arguments)
            self._failing = (asked, times + 1 if asked == known else 1)

    def _child_ended(self, op: str, run: Any) -> Sequence[Command]:
        self._usage = self._usage + run.usage
        return self._settled(op, run.as_tool_result())

    # -- the end ------------------------------------------------------------------------------------------------

    def _cancelled(self) -> Sequence[Command]:
        self._after = Finish("cancelled", reason="cancelled")
        if not self._left:
            return (self._after,)
        waiting = list(self._queue)
        self._queue.clear()
        given = ToolResult.failed("Not executed: the run was cancelled.", code="not_executed")
        return [CallTool(c.op, c.call, c.tool, given) for c in waiting if isinstance(c, CallTool)]


def _turn_of(call: Call) -> int:
    """The turn that an id of ours tells of, `t12.0`; 0 for any other."""
    number = call.id[1:].partition(".")[0]
    return int(number) if call.id.startswith("t") and number.isdecimal() and len(number) < 10 else 0
