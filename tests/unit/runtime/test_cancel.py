"""Cancellation: what was done is kept, what was not begun is said to be so, and nobody's own error looks like one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.clock import run

from ferrule import Agent, Answer, Request, RunResult, Session, SessionBusy, UsageError, tool
from ferrule.message import ToolMessage
from ferrule.provider.base import ModelRequest, ModelResponse
from ferrule.runtime.stream import RunStream
from ferrule.testing import ScriptedModel, call


def outputs(result: RunResult[Any]) -> list[str]:
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


def cancelled_when(agent: Agent[Any, Any], when: Callable[[Any], bool], **options: Any) -> RunResult[Any]:
    """How a run ends that is cancelled at an event; it is told so twice."""

    async def main() -> RunResult[Any]:
        async with agent.stream("go", **options) as events:
            async for event in events:
                if when(event):
                    events.cancel("me")
                    events.cancel("me again")
        return events.result

    return run(main())


@tool(effect="once")
async def pay() -> str:
    """Take long."""
    await asyncio.sleep(1000)
    return "paid"


@tool(effect="once", approval=True)
async def approved() -> str:
    """Never be asked for."""
    raise AssertionError


@tool(effect="once", concurrency=1)
async def alone() -> str:
    """Take long, one at a time."""
    await asyncio.sleep(1000)
    return "done"


@tool(effect="read")
async def read() -> str:
    """Take long."""
    await asyncio.sleep(1000)
    return "read"


UNKNOWN = "Tool {!r} was stopped; its effect may have happened."
STOPPED = "The call was cancelled."


async def never(request: Request) -> Answer | None:
    await asyncio.sleep(1000)
    return None


@pytest.mark.parametrize(
    ("tools", "calls", "told"),
    [
        ([pay], [call("pay")], [UNKNOWN.format("pay")]),
        ([read], [call("read")], [STOPPED]),
        ([approved], [call("approved")], [STOPPED]),  # waited for a person
        ([alone], [call("alone")] * 2, [UNKNOWN.format("alone"), STOPPED]),  # the second waited for its slot
        ([pay, read], [call("read"), call("pay")], [STOPPED, UNKNOWN.format("pay")]),
    ],
    ids=["once", "read", "waits for approval", "waits for a slot", "both"],
)
def test_only_a_call_that_was_begun_may_have_happened(tools: list[Any], calls: list[Any], told: list[str]) -> None:
    agent = Agent("a", ScriptedModel([calls, "never"]), tools=tools)
    first = "pending" if tools == [approved] else "tool_call"
    result = cancelled_when(agent, lambda e: e.type == first and e.op == f"t1.{len(tools) - 1}", on_request=never)
    assert (result.status, outputs(result)) == ("cancelled", told)


def test_a_run_cancelled_at_once_has_asked_nobody() -> None:
    model = ScriptedModel(["never"])

    async def main() -> RunResult[Any]:
        async with Agent("a", model).stream("go") as events:
            events.cancel("me")
            assert [e.type async for e in events] == ["done"]
        return events.result

    result = run(main())
    assert (result.status, model.requests, [type(m).__name__ for m in result.messages]) == (
        "cancelled",
        [],
        ["UserMessage"],
    )


def test_leaving_early_gives_a_result() -> None:
    async def main() -> RunResult[Any]:
        async with Agent("a", ScriptedModel([call("pay")]), tools=[pay]).stream("go") as events:
            async for event in events:
                if event.type == "tool_call":
                    break
        return events.result

    result = run(main())
    assert (result.status, outputs(result)) == ("cancelled", [UNKNOWN.format("pay")])


def test_the_requests_of_a_cancelled_run_are_closed() -> None:
    agent = Agent("a", ScriptedModel([[call("approved"), call("read")]]), tools=[approved, read])
    result = cancelled_when(agent, lambda e: e.type == "pending")
    assert (result.status, result.requests) == ("cancelled", ())
    assert outputs(result) == [STOPPED, STOPPED]


def test_an_entered_session_is_given_back_whatever_happens() -> None:
    async def main() -> None:
        session = Session()
        agent = Agent("a", ScriptedModel(["one", "two"]))
        async with agent.stream("go", session=session) as events:
            with pytest.raises(SessionBusy):
                async with agent.stream("go", session=session):
                    raise AssertionError
            events.cancel("me")
        assert (await agent.run("again", session=session)).status == "done"

    run(main())


def test_a_stream_that_was_not_entered_has_no_result() -> None:
    stream: RunStream[str] = Agent("a", ScriptedModel([])).stream("go")
    stream.cancel("me")
    with pytest.raises(UsageError, match="still going on"):
        _ = stream.result


async def gone(*_: Any) -> Any:
    raise asyncio.CancelledError("nobody's wish")


@tool(effect="once")
async def gives_up() -> str:
    """Raise."""
    raise asyncio.CancelledError("mine")


def test_a_cancellation_that_nobody_asked_for_is_a_failure_like_any_other() -> None:
    class Model:
        name = "m"
        capabilities = ScriptedModel([]).capabilities
        stream = explain = gone

        async def generate(self, request: ModelRequest) -> ModelResponse:
            raise asyncio.CancelledError("mine")

    result = run(Agent("a", Model()).run("go"))  # pyright: ignore[reportArgumentType]
    assert result.status == "failed"
    result = run(Agent("a", ScriptedModel([call("gives_up"), "so be it"]), tools=[gives_up]).run("go"))
    assert (result.status, result.output) == ("done", "so be it")
    result = run(Agent("a", ScriptedModel([call("approved"), "x"]), tools=[approved]).run("go", on_request=gone))
    assert result.status in ("suspended", "done")
