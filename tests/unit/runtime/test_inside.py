"""Runs inside runs: a call that is a run is a call like any other, and its run belongs to the one around it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.clock import run

from ferrule import (
    Agent,
    Answer,
    Context,
    Event,
    Hooks,
    Limits,
    ModelError,
    Request,
    RunInfo,
    ToolResult,
    tool,
)
from ferrule.message import Call, ModelMessage, ToolMessage, Usage
from ferrule.provider.base import ModelResponse
from ferrule.testing import ScriptedModel, call


@tool(effect="read")
async def look(ctx: Context) -> str:
    """Say what the call is told."""
    return str(ctx.deps)


@tool(effect="once")
async def pay() -> str:
    """Take long."""
    await asyncio.sleep(1000)
    return "paid"


ASK = call("inner", '{"input": "x"}')


def outer(inner: Agent[Any, Any], **options: Any) -> Agent[Any, Any]:
    return Agent("outer", ScriptedModel([ASK, "fine"]), tools=[inner.as_tool()], **options)


def outputs(result: Any) -> list[str]:
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


def test_hooks_see_the_call_and_may_deny_change_or_replace_it() -> None:
    seen: list[tuple[str, str]] = []

    class Watch(Hooks):
        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
            seen.append((tool.name, arguments["input"]))
            return {"input": "changed"}

        def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> Any:
            return ToolResult.ok(result.output.upper())

    model = ScriptedModel(["hello"])
    result = run(outer(Agent("inner", model), hooks=[Watch()]).run("go"))
    assert (seen, outputs(result)) == ([("inner", "x")], ["HELLO"])
    assert [getattr(m, "text", None) for m in model.requests[0].messages] == ["changed"]
    assert result.usage.requests == 3

    class Deny(Hooks):
        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
            return ToolResult.failed("no", code="denied")

    unasked = ScriptedModel([])
    assert outputs(run(outer(Agent("inner", unasked), hooks=[Deny()]).run("go"))) == ["no"]
    assert unasked.requests == []


def test_an_approval_is_asked_before_the_run_begins() -> None:
    asked: list[Any] = []

    async def decide(request: Request) -> Answer:
        asked.append((request.id, request.data))
        return Answer(request.id, ok=False)

    model = ScriptedModel([])
    tools = [Agent("inner", model).as_tool(approval=True)]
    result = run(Agent("outer", ScriptedModel([ASK, "fine"]), tools=tools).run("go", on_request=decide))
    shown = {"tool": "inner", "effect": "once", "arguments": {"input": "x"}, "parameters": tools[0].parameters.schema}
    assert asked == [("t1.0", shown)]
    assert outputs(result) == ["Tool 'inner' was not called; the person who was asked declined."]
    assert model.requests == []


@pytest.mark.parametrize(
    ("mine", "what"),
    [
        ("own", ["made of 7"]),  # its own factory makes them
        (None, ["outer's"]),  # else it gets the caller's
    ],
)
def test_live_objects_are_its_own_or_the_callers(mine: str | None, what: list[str]) -> None:
    factory: Any = None if mine is None else lambda context: f"made of {context['n']}"  # pyright: ignore
    inner = Agent("inner", ScriptedModel([call("look"), "done"]), tools=[look], deps=factory)
    told: list[str] = []

    def hear(event: Event) -> None:
        if event.type == "tool_result" and event.op.startswith("t1.0/"):
            assert event.result is not None
            told.append(event.result.output)

    run(outer(inner).run("go", deps="outer's", context={"n": 7}, on_event=hear))
    assert told == what


def test_a_factory_that_raises_fails_its_run_only() -> None:
    def broken(context: Mapping[str, Any]) -> Any:
        raise OSError("no database")

    inner = Agent("inner", ScriptedModel([]), deps=broken)
    result = run(outer(inner).run("go"))
    assert outputs(result) == ["It ended failed: OSError: no database"]
    alone = run(inner.run("go"))
    assert (alone.status, alone.reason) == ("failed", "deps")


def test_its_own_listeners_hear_it_beside_the_callers() -> None:
    heard: list[str] = []

    class Listen(Hooks):
        def on_event(self, event: Event) -> None:
            heard.append(f"{event.type} {event.op}")

    run(outer(Agent("inner", ScriptedModel(["hi"]), hooks=[Listen()])).run("go"))
    assert heard == ["step t1.0/m1", "usage t1.0/m1", "done t1.0"]


ROUND = ModelResponse(ModelMessage("", (call("look"),)), "tool_calls", Usage(10, 10))


@pytest.mark.parametrize(
    ("limits", "reason", "rounds"),
    [
        (Limits(tokens=50), "tokens", 3),
        (Limits(tool_calls=3), "tool_calls", 3),  # the call of the run itself is one
        (Limits(tokens=1000, tool_calls=1000), None, 5),
    ],
)
def test_what_is_left_of_the_callers_limits_is_its_limit(limits: Limits, reason: str | None, rounds: int) -> None:
    model = ScriptedModel([ROUND] * 5 + ["done"])
    result = run(outer(Agent("inner", model, tools=[look])).run("go", limits=limits))
    (told,) = outputs(result)
    assert told == (f"It ended incomplete: {reason}" if reason else "done")
    assert len(model.requests) == rounds + (reason is None)
    assert result.usage.requests == len(model.requests) + (1 if reason == "tokens" else 2)


def test_its_own_lower_limit_stays() -> None:
    model = ScriptedModel([ROUND] * 5)
    inner = Agent("inner", model, tools=[look], limits=Limits(turns=2))
    assert outputs(run(outer(inner).run("go", limits=Limits(tokens=1000)))) == ["It ended incomplete: turns"]


def test_its_calls_count_against_the_callers_limit_afterwards() -> None:
    inner = Agent("inner", ScriptedModel([ROUND, "a", ROUND, "b"]), tools=[look])
    model = ScriptedModel([ASK, ASK, "fine"])
    result = run(Agent("outer", model, tools=[inner.as_tool()]).run("go", limits=Limits(tool_calls=3)))
    assert outputs(result) == ["a", "It ended incomplete: tool_calls"]
    assert result.usage.tool_calls == 3


def test_cancelled_with_the_run_around_it_its_usage_and_unknown_outcomes_are_kept() -> None:
    first = ModelResponse(ModelMessage("", (call("pay"),)), "tool_calls", Usage(10, 5))
    inner = Agent("inner", ScriptedModel([first]), tools=[pay])

    async def main() -> Any:
        async with outer(inner).stream("go") as events:
            async for event in events:
                if event.type == "tool_call" and event.op == "t1.0/t1.0":
                    events.cancel("me")
        return events.result

    result = run(main())
    assert result.status == "cancelled"
    assert (result.usage.input, result.usage.output, result.usage.requests) == (10, 5, 2)
    (told,) = outputs(result)
    assert told.startswith("It ended cancelled")


def test_a_model_error_inside_reaches_the_caller_as_data() -> None:
    inner = Agent("inner", ScriptedModel([ModelError("down", provider="p")]))
    assert outputs(run(outer(inner).run("go"))) == ["It ended failed: p: down"]


CUT = ModelResponse(ModelMessage("half"), "length")


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (ModelError("down", provider="p"), "It ended failed: p: down"),
        (CUT, "It ended incomplete: length\nIt had said: half"),
        ("all well", None),
    ],
)
def test_a_run_that_fails_after_a_once_call_is_not_said_to_have_done_nothing(end: Any, told: str | None) -> None:
    @tool(effect="once")
    async def quick() -> str:
        """Pay at once."""
        return "paid"

    found: list[ToolResult] = []

    class Keep(Hooks):
        def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> None:
            found.append(result)

    deep = Agent("deep", ScriptedModel([call("quick"), end]), tools=[quick])
    inner = Agent("inner", ScriptedModel([call("deep", '{"input": "x"}'), end]), tools=[deep.as_tool()])
    run(outer(inner, hooks=[Keep()]).run("go"))
    (result,) = found
    if told is None:
        assert result.output == end
    else:
        warning = "Calls with effects had been begun in it, so do not simply ask for it again."
        assert (result.output, result.failure and result.failure.code) == (f"{told}\n{warning}", "outcome_unknown")


@dataclass
class Place:
    city: str


def test_a_typed_answer_is_the_value_of_the_call() -> None:
    inner = Agent("inner", ScriptedModel(['{"city": "Oslo"}']), output=Place)
    found: list[Any] = []

    class Keep(Hooks):
        def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> None:
            found.append(result.value)

    run(outer(inner, hooks=[Keep()]).run("go"))
    assert found == [Place("Oslo")]


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        (Limits(tokens=20 + 3 * 40), 2),  # 20 each: two rounds and no third
        (Limits(tool_calls=3 + 3 * 2), 3),  # the third asks for a call too many
        (Limits(cost=1 + 3 * 2), 2),
        (Limits(tokens=22), 0),
        (Limits(tokens=1000, tool_calls=1000), 5),
    ],
)
def test_runs_side_by_side_keep_the_callers_limits_together(limits: Limits, asked: int) -> None:
    priced = ROUND.but(usage=Usage(10, 10, cost=1.0))
    models = [ScriptedModel([priced] * 4 + [ModelResponse(ModelMessage("end"), usage=priced.usage)]) for _ in range(3)]
    tools = [Agent(f"in{i}", m, tools=[look]).as_tool() for i, m in enumerate(models)]
    calls = tuple(call(f"in{i}", '{"input": "x"}') for i in range(3))
    first = ModelResponse(ModelMessage(calls=calls), "tool_calls", priced.usage)
    result = run(Agent("outer", ScriptedModel([first, "fine"]), tools=tools, limits=limits).run("go"))
    assert [len(m.requests) for m in models] == [asked] * 3
    used = (result.usage.input or 0) + (result.usage.output or 0)
    assert limits.tokens is None or used <= limits.tokens
    assert limits.tool_calls is None or result.usage.tool_calls <= limits.tool_calls


def test_what_a_run_inside_consumed_counts_while_it_waits_too() -> None:
    @tool(approval=True)
    async def ask() -> str:
        """Be asked about."""
        return "yes"

    first = ModelResponse(ModelMessage(calls=(call("ask"),)), "tool_calls", Usage(10, 5, cost=0.5))
    deep = Agent("deep", ScriptedModel([first]), tools=[ask])
    inner = Agent("inner", ScriptedModel([call("deep", '{"input": "x"}')]), tools=[deep.as_tool()])
    result = run(outer(inner).run("go"))
    assert result.status == "suspended"
    usage = result.usage
    assert (usage.input, usage.output, usage.requests, usage.tool_calls) == (10, 5, 3, 3)


@pytest.mark.parametrize("room", [None, 300_000])
def test_what_its_model_is_shown_of_a_turn_is_its_own_limit(room: int | None) -> None:
    @tool(effect="read", max_output=None)
    async def much() -> str:
        """Say much."""
        return "x" * 250_000

    model = ScriptedModel([call("much"), "done"])
    inner = Agent("inner", model, tools=[much], limits=Limits(turn_output=room))
    run(outer(inner).run("go"))
    (shown,) = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert len(shown.output) == 250_000


@pytest.mark.parametrize(
    ("effect", "end", "told", "code"),
    [
        ("once", ModelError("down", provider="p"), "It ended failed: p: down", "outcome_unknown"),
        ("read", ModelError("down", provider="p"), "It ended failed: p: down", "unavailable"),
        ("once", call("ask"), "It ended suspended: it waits for 1 answer", "outcome_unknown"),
        ("read", call("ask"), "It ended suspended: it waits for 1 answer", "refused"),
    ],
)
def test_called_outside_a_run_it_tells_the_same(effect: Any, end: Any, told: str, code: str) -> None:
    @tool(effect=effect)
    async def act() -> str:
        """Do something."""
        return "done"

    @tool(effect="read", approval=True)
    async def ask() -> str:
        """Be asked about."""
        return "yes"

    agent = Agent("inner", ScriptedModel([call("act"), end]), tools=[act, ask])
    result = run(agent.as_tool().call({"input": "x"}))
    assert (result.output.partition("\n")[0], result.failure and result.failure.code) == (told, code)
    assert result.failure is not None
    assert result.failure.retryable == (code == "unavailable")
