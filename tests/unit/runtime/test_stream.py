"""Runs that are listened to: order, back pressure, leaving, cancelling, cut streams."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.clock import run

from ferrule import Agent, Context, Event, ModelError, Session, SessionBusy, UsageError, tool
from ferrule.message import ModelMessage, ToolMessage, Usage
from ferrule.provider.base import Capabilities, Delta, ModelRequest, ModelResponse
from ferrule.testing import ScriptedModel, call


@tool(effect="read")
async def count(ctx: Context, to: int) -> int:
    """Count."""
    for n in range(to):
        ctx.progress(n)
        await asyncio.sleep(1)
    return to


async def heard(agent: Agent[Any, Any], prompt: str = "go") -> list[Event]:
    async with agent.stream(prompt) as events:
        return [event async for event in events]


def test_events_come_in_the_order_of_what_happens() -> None:
    model = ScriptedModel(
        [ModelResponse(ModelMessage("let me", (call("count", '{"to": 2}'),)), "tool_calls", Usage(3, 4)), "two"]
    )
    events = run(heard(Agent("a", model, tools=[count])))
    assert [(e.type, e.op, e.text or e.value) for e in events[:-1]] == [
        ("step", "m1", None),
        ("text", "m1", "let me"),
        ("call", "m1", "count"),
        ("usage", "m1", None),
        ("tool_call", "t1.0", None),
        ("tool_progress", "t1.0", 0),
        ("tool_progress", "t1.0", 1),
        ("tool_result", "t1.0", None),
        ("step", "m2", None),
        ("text", "m2", "two"),
        ("usage", "m2", None),
    ]
    assert (events[-1].type, events[-1].value.output) == ("done", "two")
    assert [e.seq for e in events if e.seq is not None] == sorted({e.seq for e in events if e.seq is not None})
    assert events[3].usage == Usage(3, 4)
    assert events[7].result is not None
    assert events[7].result.value == 2


class Flood:
    """A model that streams as fast as it may, and says how far it has come."""

    name = "flood"
    capabilities = Capabilities()

    def __init__(self, pieces: int, *, cut: bool = False) -> None:
        self.pieces, self.cut, self.sent = pieces, cut, 0

    async def generate(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError("asked whole")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        for n in range(self.pieces):
            self.sent = n + 1
            yield Delta("text", f"{n} ")
        text = "".join(f"{n} " for n in range(self.pieces))
        if self.cut:
            error = ModelError("the stream was cut off", provider="flood", retryable=True)
            yield ModelResponse(ModelMessage(text), "unknown", error=error)
        else:
            yield ModelResponse(ModelMessage(text))

    def explain(self, request: ModelRequest) -> dict[str, Any]:
        return {}


def test_a_slow_consumer_slows_the_stream_and_loses_nothing() -> None:
    model = Flood(20_000)
    ahead: list[int] = []

    async def slowly() -> str:
        said: list[str] = []
        async with Agent("a", model).stream("go") as events:
            async for event in events:
                if event.type == "text":
                    said.append(event.text)
                    ahead.append(model.sent - len(said))
                    if len(said) % 1000 == 0:
                        await asyncio.sleep(1)
        return "".join(said)

    assert run(slowly()) == "".join(f"{n} " for n in range(20_000))
    assert max(ahead) <= 65


@pytest.mark.case("C055")
def test_a_cut_stream_is_an_error_that_keeps_the_text_and_executes_nothing() -> None:
    model = Flood(3, cut=True)
    events = run(heard(Agent("a", model)))
    result = events[-1].value
    assert (result.status, result.output, str(result.error)) == ("failed", "0 1 2 ", "flood: the stream was cut off")


def test_an_answer_that_was_partly_delivered_is_not_asked_for_again() -> None:
    class Breaks(Flood):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
            self.sent: int = self.sent + 1
            yield Delta("text", "par")
            raise ModelError("connection lost", provider="flood", retryable=True)

    model = Breaks(1)
    events = run(heard(Agent("a", model)))
    assert (events[-1].value.status, model.sent) == ("failed", 1)


def test_an_answer_of_which_nothing_came_is_asked_for_again_and_listeners_are_told() -> None:
    busy = ModelError("busy", provider="p", retryable=True, retry_after=1)
    events = run(heard(Agent("a", ScriptedModel([busy, "now"]))))
    assert [e.type for e in events] == ["step", "restarted", "step", "text", "usage", "done"]


def test_leaving_a_stream_ends_the_run() -> None:
    ended: list[str] = []

    @tool
    async def long() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("long")

    async def leave() -> None:
        async with Agent("a", ScriptedModel([call("long")]), tools=[long]).stream("go") as events:
            async for event in events:
                if event.type == "tool_call":
                    await asyncio.sleep(1)
                    break

    run(leave())
    assert ended == ["long"]


@pytest.mark.case("C043")
def test_cancelling_keeps_the_work_and_pairs_the_history() -> None:
    @tool(effect="read")
    async def quick() -> str:
        return "kept"

    @tool(effect="once")
    async def long() -> None:
        await asyncio.sleep(1000)

    @tool(effect="read", serial=True)
    async def queued() -> None:
        await asyncio.sleep(1000)

    async def cancel() -> Any:
        calls = [call("quick"), call("long"), call("queued"), call("queued")]
        async with Agent("a", ScriptedModel([calls]), tools=[quick, long, queued]).stream("go") as events:
            async for event in events:
                if event.type == "tool_result":
                    events.cancel()
        return events.result

    result = run(cancel())
    assert (result.status, result.reason) == ("cancelled", "cancelled")
    assert [m.output for m in result.messages if isinstance(m, ToolMessage)] == [
        "kept",
        "Tool 'long' was stopped; its effect may have happened.",
        "The call was cancelled.",
        "Not executed: the run was cancelled.",
    ]


def test_misuse_of_a_stream_is_told() -> None:
    async def early() -> None:
        stream = Agent("a", ScriptedModel(["x"])).stream("go")
        with pytest.raises(UsageError, match="has not been started"):
            await anext(aiter(stream))
        async with stream:
            with pytest.raises(UsageError, match="still going on"):
                _ = stream.result

    run(early())


def test_a_stream_of_a_busy_session_that_is_left_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()

    async def twice() -> None:
        agent = Agent("a", Flood(1000))
        async with agent.stream("go", session=session) as first:
            await anext(first)
            for _ in range(2):
                with pytest.raises(SessionBusy):
                    async with agent.stream("go", session=session):
                        raise AssertionError

    run(twice())
    gc.collect()
    assert caplog.messages == []


def test_what_a_run_raises_is_raised_where_its_events_are_taken() -> None:
    with pytest.raises(UsageError, match="asked 1 times"):
        run(heard(Agent("a", ScriptedModel([]))))


def test_a_listener_that_raises_decides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def listen(event: Event) -> None:
        raise RuntimeError("deaf")

    result = run(Agent("a", ScriptedModel(["fine"])).run("go", on_event=listen))
    assert result.output == "fine"
    assert "a listener to run" in caplog.text


def test_an_event_is_plain_json() -> None:
    events = run(heard(Agent("a", ScriptedModel([call("count", '{"to": 0}'), "x"]), tools=[count])))
    shown = [e.to_dict() for e in events]
    assert shown[0] == {"type": "step", "op": "m1", "seq": 2}
    told = next(e for e in shown if e["type"] == "tool_result")
    assert (told["call"]["name"], told["result"]) == ("count", 0)
    assert shown[-1]["value"]["status"] == "done"


def test_progress_from_a_thread_arrives() -> None:
    @tool(effect="read")
    def work(ctx: Context) -> str:
        ctx.progress("half")
        return "whole"

    events = asyncio.run(heard(Agent("a", ScriptedModel([call("work"), "x"]), tools=[work])))
    assert [e.value for e in events if e.type == "tool_progress"] == ["half"]


def test_a_stream_is_entered_once_and_read_by_one_task() -> None:
    async def main() -> None:
        stream = Agent("a", ScriptedModel([call("count", '{"to": 2}'), "two"]), tools=[count]).stream("go")
        async with stream as events:

            async def read() -> list[str]:
                return [event.type async for event in events]

            first, second = await asyncio.gather(read(), read(), return_exceptions=True)
            assert isinstance(second, UsageError)
            assert "another task" in str(second)
            assert isinstance(first, list)
            assert first[-1] == "done"
        with pytest.raises(UsageError, match="entered once"):
            await stream.__aenter__()
        assert events.result.output == "two"

    run(main())


def test_nothing_is_told_after_done() -> None:
    @tool(effect="read", timeout=1)
    async def stubborn(ctx: Context) -> None:
        """Go on beyond the deadline and beyond the run."""
        for n in range(5):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue
            finally:
                ctx.progress(n)

    heard: list[str] = []

    async def main() -> None:
        agent = Agent("a", ScriptedModel([call("stubborn"), "end"]), tools=[stubborn])
        await agent.run("go", on_event=lambda event: heard.append(event.type))
        await asyncio.sleep(10)

    run(main())
    assert heard[-1] == "done"
    assert heard.count("done") == 1


def test_of_several_runs_that_wait_for_room_one_may_be_cancelled_alone() -> None:
    async def main() -> None:
        stream = Agent("a", ScriptedModel([call("count", '{"to": 2}'), "two"]), tools=[count]).stream("go")
        async with stream as events:
            event = await anext(aiter(events))
            events.put(event)
            first, second = (asyncio.ensure_future(events.room()) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            _ = [event async for event in events]
            await asyncio.wait([first, second])
            assert (first.cancelled(), second.cancelled()) == (True, False)

    run(main())
