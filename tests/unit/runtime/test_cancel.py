"""Cancellation: what was done is kept, what was not begun is said to be so, and nobody's own error looks like one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.clock import JumpingLoop, run

from ferrule import (
    Agent,
    Answer,
    Event,
    Hooks,
    Request,
    RunInfo,
    RunResult,
    Session,
    SessionBusy,
    ToolResult,
    UsageError,
    tool,
)
from ferrule.message import Call, ToolMessage, unpaired
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


# -- at every step -----------------------------------------------------------------------------------------------

begun: list[float] = []
ended: list[float] = []


@tool(effect="once")
async def slow(n: float) -> str:
    """Take a while."""
    begun.append(n)
    await asyncio.sleep(n)
    ended.append(n)
    return "made"


@tool(effect="once", serial=True, concurrency=1)
async def one(n: float) -> str:
    """Take a while, one at a time."""
    return await cast("Any", slow)(n)


@tool(effect="once", approval=True)
async def asked(n: float) -> str:
    """Be agreed to."""
    return await cast("Any", slow)(n)


@tool(effect="once")
def threaded(n: float) -> str:
    """Be in a thread."""
    begun.append(n)
    ended.append(n)
    return "made"


async def pause(*_: Any) -> None:
    await asyncio.sleep(0)


POINTS = ("before_model", "after_model", "before_tool", "after_tool")
Waiting: Any = type("Waiting", (Hooks,), dict.fromkeys(POINTS, pause))


async def agree(request: Request) -> Answer:
    await asyncio.sleep(0)
    return Answer(request.id, ok=True)


def everything() -> Agent[Any, Any]:
    def n(name: str, n: float) -> Any:
        return call(name, f'{{"n": {n}}}')

    ask = '{"input": "x"}'
    deep = Agent(
        "deep",
        ScriptedModel([[n("slow", 1.1), n("threaded", 1.2)], n("asked", 1.3), "a"]),
        tools=[slow, threaded, asked],
    )
    inner = Agent("inner", ScriptedModel([[call("deep", ask), n("one", 1.4)], "b"]), tools=[deep.as_tool(), one])
    calls = [call("inner", ask), n("one", 1.5), n("one", 2.1), n("slow", 3.1), n("threaded", 3.2), n("asked", 1.6)]
    return Agent(
        "outer", ScriptedModel([calls, "c"]), tools=[inner.as_tool(), one, slow, threaded, asked], hooks=[Waiting()]
    )


def cancelled_at(step: int, how: str) -> tuple[RunResult[Any], list[Event], Session]:
    """Its result, what was heard, and its session."""
    heard: list[Event] = []
    session = Session()
    begun.clear()
    ended.clear()

    async def main() -> None:
        loop = cast("JumpingLoop", asyncio.get_running_loop())
        if how == "stream":
            async with everything().stream("go", session=session, on_request=agree) as events:
                loop.at_step(step, events.cancel)
                heard.extend([event async for event in events])
        else:
            work = everything().run("go", session=session, on_request=agree, on_event=heard.append)
            task = asyncio.ensure_future(work)
            loop.at_step(step, task.cancel)
            await asyncio.wait([task])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())
    return heard[-1].value, heard, session


@pytest.mark.parametrize("how", ["stream", "run"])
def test_cancelled_at_any_step_a_run_tells_the_truth(how: str, caplog: pytest.LogCaptureFixture) -> None:
    step = 0
    for step in itertools.count(1):
        result, heard, session = cancelled_at(step, how)
        if result.status == "done":
            break
        assert result.status == "cancelled"
        assert unpaired(result.messages) is None
        assert session.messages == tuple(result.messages)
        told = {e.call.arguments: e.result for e in heard if e.type == "tool_result" and e.call is not None}
        said = {n: next(r for a, r in told.items() if f" {n}}}" in a) for n in begun}
        for n, r in said.items():
            assert r is not None
            finished = r.output == "made" or r.output.startswith("The call was made")
            assert finished or (r.failure is not None and r.failure.code == "outcome_unknown"), (step, n, r)
            assert n in ended or not finished
        inner = next((e.result for e in heard if e.type == "tool_result" and e.op == "t1.0"), None)
        if inner is not None and inner.is_error and begun_inside():
            assert inner.failure is not None
            assert inner.failure.code == "outcome_unknown" or inner.output.startswith("The call was made")
        assert [r.getMessage() for r in caplog.records if r.name == "asyncio"] == []
    assert step > 30


def begun_inside() -> bool:
    return bool({1.1, 1.2, 1.3, 1.4} & set(begun))


def test_a_session_keeps_what_a_run_did_that_was_cancelled_from_outside() -> None:
    async def main() -> tuple[Session, list[Any]]:
        session = Session()
        ends: list[Any] = []
        agent = Agent("a", ScriptedModel([call("pay")]), tools=[pay])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await agent.run("go", session=session, on_event=lambda e: ends.append(e.value))
        return session, ends

    session, ends = run(main())
    assert [type(m).__name__ for m in session.messages] == ["UserMessage", "ModelMessage", "ToolMessage"]
    assert outputs(ends[-1]) == [UNKNOWN.format("pay")]


@tool(effect="once")
async def stubborn() -> str:
    """Need long to tidy up."""
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        await asyncio.sleep(4)
        raise
    return "done"


@pytest.mark.parametrize("how", ["stream", "run"])
def test_cancelled_once_more_a_run_ends_at_once_with_all_it_has(how: str) -> None:
    inner = Agent("inner", ScriptedModel([call("stubborn")]), tools=[stubborn])
    script = ScriptedModel([[call("inner", '{"input": "x"}'), call("stubborn")]])
    agent = Agent("a", script, tools=[inner.as_tool(), stubborn])

    async def main() -> tuple[float, Session]:
        session = Session()

        async def streamed() -> None:
            async with agent.stream("go", session=session) as events:
                _ = [event async for event in events]

        work: Any = streamed() if how == "stream" else agent.run("go", session=session)
        task = asyncio.ensure_future(work)
        for _ in range(2):
            await asyncio.sleep(1)
            task.cancel()
        await asyncio.wait([task])
        took = asyncio.get_running_loop().time()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return took, session

    took, session = run(main())
    assert 2 <= took < 2.5
    told = [m for m in session.messages if isinstance(m, ToolMessage)]
    assert [m.output.partition("\n")[0] for m in told] == ["It ended cancelled: cancelled", UNKNOWN.format("stubborn")]


@pytest.mark.parametrize("raises", [True, False], ids=["it raises so itself", "from outside"])
def test_a_call_whose_hook_was_stopped_was_made(raises: bool) -> None:
    class Look(Hooks):
        async def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> None:
            if raises:
                raise asyncio.CancelledError
            await asyncio.sleep(1000)

    @tool(effect="once")
    async def quick() -> str:
        """Be quick."""
        return "secret"

    agent = Agent("a", ScriptedModel([call("quick"), "x"]), tools=[quick], hooks=[Look()])

    async def main() -> Session:
        session = Session()
        task = asyncio.ensure_future(agent.run("go", session=session))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return session

    told = [m.output for m in run(main()).messages if isinstance(m, ToolMessage)]
    assert told == ["The call was made, but a hook that checks its result was stopped."]


def test_a_listener_cannot_cancel_the_run_by_raising_so(caplog: pytest.LogCaptureFixture) -> None:
    def hear(event: Event) -> None:
        raise asyncio.CancelledError

    assert run(Agent("a", ScriptedModel(["hi"])).run("go", on_event=hear)).status == "done"
    assert "a listener" in caplog.text


def test_tasks_that_begin_at_once_are_waited_for_like_others() -> None:
    @tool(effect="read")
    async def now() -> str:
        """Be quick."""
        return "now"

    inner = Agent("inner", ScriptedModel([[call("now")] * 2, "inside"]), tools=[now])
    calls = [[call("now"), call("inner", '{"input": "x"}'), call("asked", '{"n": 0}')], "end"]
    agent = Agent("a", ScriptedModel(calls), tools=[now, inner.as_tool(), asked], hooks=[Waiting()])

    async def main() -> RunResult[Any]:
        eager: Any = getattr(asyncio, "eager_task_factory", None)  # from 3.12 on
        asyncio.get_running_loop().set_task_factory(eager)
        return await agent.run("go", on_request=agree)

    assert outputs(run(main())) == ["now", "inside", "made"]
