"""The attempts of one call: how many there are, that a body which goes on holds nobody up, and that an end is an end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.clock import JumpingLoop, run

from ferrule import Agent, Answer, Context, Event, Hooks, Request, RunResult, ToolResult, tool
from ferrule.errors import ModelError
from ferrule.message import ModelMessage, ToolMessage, Usage
from ferrule.provider.base import ModelResponse
from ferrule.testing import ScriptedModel, call


class Deaf:
    """A body that hears no cancellation until it is let go, and is made without ado from its second time on."""

    def __init__(self, quick_from: int = 99) -> None:
        self.begun = 0
        self.quick_from = quick_from
        self.ends = asyncio.Event()

    async def body(self) -> str:
        """Do it."""
        self.begun += 1
        while self.begun < self.quick_from and not self.ends.is_set():
            try:
                await self.ends.wait()
            except asyncio.CancelledError:
                continue
        return f"made {self.begun}"


class Watching(Hooks):
    async def after_tool(self, run: Any, call: Any, result: ToolResult) -> ToolResult | None:
        return None


def agent_of(*tools: Any, hooks: Any = ()) -> Agent[Any, str]:
    return Agent("a", ScriptedModel([[call(t.name) for t in tools], "so"]), tools=tools, hooks=hooks)


def outputs(result: RunResult[Any]) -> list[str]:
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


def not_happened(request: Request) -> Answer:
    return Answer(request.id, ok=True, data={"outcome": "not_happened"})


def finds_nothing(context: Context, arguments: dict[str, Any]) -> None:
    """Say, as a check, that nothing happened."""


def yes(request: Request) -> Answer:
    return Answer(request.id, ok=True, data={})


@pytest.mark.parametrize("hooks", [(), (Watching(),)])
@pytest.mark.parametrize("concurrency", [None, 1])
def test_a_body_that_goes_on_is_tried_again_like_any_other_and_keeps_no_slot(hooks: Any, concurrency: Any) -> None:
    async def main() -> tuple[RunResult[Any], int]:
        deaf = Deaf()
        slow = tool(effect="read", name="slow", timeout=1, concurrency=concurrency)(deaf.body)
        result = await agent_of(slow, hooks=hooks).run("go")
        begun = deaf.begun
        deaf.ends.set()
        await asyncio.sleep(1)
        return result, begun

    result, begun = run(main())
    assert (result.status, begun) == ("done", 3)
    assert outputs(result) == ["Tool 'slow' timed out after 1 s. It was told to stop and may still be running."]


def test_a_call_that_is_made_again_does_not_wait_for_the_slot_of_its_own_body() -> None:
    async def main() -> tuple[RunResult[Any], RunResult[Any]]:
        deaf = Deaf(quick_from=2)
        pay = tool(effect="once", name="pay", timeout=1, concurrency=1, on_unknown="ask")(deaf.body)
        first = await agent_of(pay).run("go", on_request=not_happened)
        deaf.ends.set()
        await asyncio.sleep(1)  # its first body ends, and gives back no slot that it does not hold
        return first, await agent_of(pay).run("go")

    assert [outputs(r) for r in run(main())] == [["made 2"], ["made 3"]]


def test_what_a_person_answers_uses_up_no_retry() -> None:
    made: list[int] = []

    @tool(effect="read", retries=1)
    async def ask(ctx: Context) -> str:
        """Ask twice, and fail once."""
        ctx.ask("input", "one")
        ctx.ask("input", "two")
        made.append(ctx.attempt)
        if len(made) == 1:
            raise ConnectionRefusedError("busy")
        return "made"

    assert outputs(run(agent_of(ask).run("go", on_request=yes))) == ["made"]
    assert made == [3, 4]


def test_a_person_who_says_not_happened_uses_up_no_retry() -> None:
    errors: list[Exception] = [ConnectionError("lost"), ConnectionRefusedError("busy")]

    @tool(effect="once", retries=1, on_unknown="ask")
    async def pay() -> str:
        """Pay."""
        if errors:
            raise errors.pop(0)
        return "paid"

    assert outputs(run(agent_of(pay).run("go", on_request=not_happened))) == ["paid"]


async def ended(agent: Agent[Any, str], on_request: Any, rest: float = 0) -> tuple[RunResult[Any], list[str]]:
    """How a run ends whose task is cancelled when its call has begun, and what was heard until some time later."""
    heard: list[Event] = []
    task = asyncio.ensure_future(agent.run("go", on_event=heard.append, on_request=on_request))
    while not any(e.type == "tool_call" for e in heard):
        await asyncio.sleep(0)
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(rest)
    return heard[-1].value, [e.type for e in heard if e.type in ("tool_call", "pending", "done")]


@pytest.mark.parametrize("check", [None, finds_nothing])
@pytest.mark.parametrize("hooks", [(), (Watching(),)])
@pytest.mark.parametrize("timeout", [2, 7])  # within the time it has to end, and after that
def test_a_deadline_in_a_cancelled_run_begins_nothing(check: Any, hooks: Any, timeout: int) -> None:
    asked: list[str] = []

    def on_request(request: Request) -> Answer:
        asked.append(request.kind)
        return not_happened(request)

    async def main() -> tuple[RunResult[Any], list[str], int]:
        deaf = Deaf(quick_from=2)
        pay = tool(effect="once", name="pay", timeout=timeout, on_unknown="ask", check=check)(deaf.body)
        result, heard = await ended(agent_of(pay, hooks=hooks), on_request, rest=20)
        deaf.ends.set()
        await asyncio.sleep(1)
        return result, heard, deaf.begun

    result, heard, begun = run(main())
    assert (result.status, heard, asked, begun) == ("cancelled", ["tool_call", "done"], [], 1)
    assert "its effect may have happened" in outputs(result)[0]


@pytest.mark.parametrize("effect", ["once", "idempotent"])
@pytest.mark.parametrize("says", ["lost", "refused", "asks"])
@pytest.mark.parametrize("hooks", [(), (Watching(),)])
def test_a_body_that_answers_its_cancellation_is_neither_asked_about_nor_made_again(
    effect: Any, says: str, hooks: Any
) -> None:
    begun: list[int] = []

    @tool(effect=effect, retries=3, on_unknown="ask")
    async def work(ctx: Context) -> str:
        """Work."""
        begun.append(ctx.attempt)
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            if says == "asks":
                ctx.ask("input", "Shall I tidy up?")
            raise (ConnectionError if says == "lost" else ConnectionRefusedError)("line is down") from None
        return "made"

    result, heard = run(ended(agent_of(work, hooks=hooks), not_happened))
    assert (result.status, heard, begun) == ("cancelled", ["tool_call", "done"], [1])
    assert len(outputs(result)) == 1


def test_an_approval_given_to_a_run_that_ends_begins_nothing() -> None:
    begun: list[str] = []

    @tool(effect="once", approval=True)
    async def pay() -> None:
        """Pay."""
        begun.append("pay")

    @tool(effect="once", approval=True)
    async def post() -> None:
        """Post."""
        begun.append("post")

    async def hasty(request: Request) -> Answer:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return Answer(request.id, ok=True)
        raise AssertionError("not cancelled")

    async def main() -> RunResult[Any]:
        async with agent_of(pay, post).stream("go", on_request=hasty) as events:
            async for event in events:
                if event.type == "pending":
                    events.cancel()
        return events.result

    result = run(main())
    assert (result.status, begun) == ("cancelled", [])
    assert outputs(result) == ["The call was cancelled."] * 2


def test_a_call_that_a_sibling_cancels_before_it_began_has_a_result_like_any_other() -> None:
    begun: list[str] = []

    @tool(effect="read")
    async def bully() -> str:
        """Cancel whatever else there is."""
        for task in asyncio.all_tasks():
            if task.get_name().startswith("t1.") and task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)
        return "alone"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        begun.append("look")
        await asyncio.sleep(0)
        return "seen"

    told = outputs(run(agent_of(bully, look).run("go")))
    assert told == ["alone", "seen" if begun else "The call was cancelled."]


def test_what_a_check_or_a_person_tells_is_as_short_as_what_a_call_returns() -> None:
    long = "x" * 1000

    @tool(effect="once", max_output=200, check=lambda context, arguments: ToolResult.ok(long))
    async def pay() -> str:
        """Pay."""
        raise ConnectionError("lost")

    @tool(effect="once", max_output=200, on_unknown="ask")
    async def post() -> str:
        """Post."""
        raise ConnectionError("lost")

    def happened(request: Request) -> Answer:
        return Answer(request.id, ok=True, data={"outcome": "happened", "value": long})

    result = run(agent_of(pay, post).run("go", on_request=happened))
    told = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert [len(m.output) <= 200 for m in told] == [True, True]


def test_a_run_that_is_cancelled_while_it_asks_again_has_used_what_the_first_answer_used() -> None:
    broken = ModelError("malformed", provider="p", retryable=True)
    malformed = ModelResponse(ModelMessage("x"), "error", Usage(input=10, output=1), error=broken)

    async def main() -> RunResult[Any]:
        heard: list[Event] = []
        task = asyncio.ensure_future(Agent("a", ScriptedModel([malformed])).run("go", on_event=heard.append))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return heard[-1].value

    used = run(main()).usage
    assert (used.input, used.output, used.requests) == (10, 1, 1)


@pytest.mark.parametrize("kind", ["deaf", "thread", "asked"])
def test_a_check_that_finds_nothing_yet_does_not_prove_that_a_body_which_goes_on_did_nothing(kind: str) -> None:
    deaf, free = Deaf(), threading.Event()

    def wait() -> str:
        """Do it."""
        free.wait(10)
        return "made"

    async def nobody(request: Request) -> Answer | None:
        await asyncio.sleep(1000)
        return None

    async def main() -> RunResult[Any]:
        pay = tool(
            effect="once",
            name="pay",
            timeout=0.1 if kind == "asked" else 50,
            on_unknown="ask",
            check=finds_nothing,
        )(wait if kind == "thread" else deaf.body)
        result, _ = await ended(agent_of(pay), nobody)
        deaf.ends.set()
        await asyncio.sleep(1)
        return result

    try:
        with asyncio.Runner(loop_factory=None if kind == "thread" else JumpingLoop) as runner:
            told = outputs(runner.run(main()))[0]
    finally:
        free.set()
    assert "may still be running; its effect may have happened" in told
    assert told.endswith("Its check finds nothing of it so far.")


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("how", ["task", "stream"])
def test_an_approval_that_keeps_the_cancellation_to_itself_does_not_keep_it_from_the_run(sync: bool, how: str) -> None:
    begun: list[str] = []

    async def pay() -> None:
        """Pay."""
        begun.append("pay")
        await asyncio.sleep(0)

    def post() -> None:
        """Post."""
        begun.append("post")

    async def hasty(request: Request) -> Answer:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return Answer(request.id, ok=True)
        raise AssertionError("not cancelled")

    async def main() -> RunResult[Any]:
        agent = agent_of(tool(effect="once", approval=True)(post if sync else pay))
        if how == "stream":
            async with agent.stream("go", on_request=hasty) as events:
                async for event in events:
                    if event.type == "pending":
                        events.cancel()
            return events.result
        heard: list[Event] = []
        task = asyncio.ensure_future(agent.run("go", on_request=hasty, on_event=heard.append))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return heard[-1].value

    result = run(main())
    assert (result.status, begun, outputs(result)) == ("cancelled", [], ["The call was cancelled."])


def test_a_model_that_keeps_the_cancellation_to_itself_does_not_keep_it_from_the_run() -> None:
    async def stubborn(request: Any) -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            raise ConnectionError("line is down") from None
        return "here"

    async def main() -> tuple[str, int]:
        spare = ScriptedModel(["spare"])
        heard: list[Event] = []
        task = asyncio.ensure_future(Agent("a", stubborn, fallback=[spare]).run("go", on_event=heard.append))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return heard[-1].value.status, len(spare.requests)

    assert run(main()) == ("cancelled", 0)


def test_a_task_that_was_cancelled_before_may_still_run_an_agent_to_tidy_up() -> None:
    async def main() -> RunResult[Any]:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return await agent_of(tool(effect="once")(Deaf(quick_from=0).body)).run("tidy up")
        raise AssertionError("not cancelled")

    async def outside() -> RunResult[Any]:
        task = asyncio.ensure_future(main())
        await asyncio.sleep(1)
        task.cancel()
        return await task

    assert run(outside()).status == "done"
