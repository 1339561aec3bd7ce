"""A replay feeds the records to today's code: unchanged code commands the same, and other code is told of at the right place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Agent, Answer, Limits, RunResult, ToolResult, tool
from ferrule.agent.hooks import Hooks
from ferrule.agent.loop import RunInput
from ferrule.journal.record import Record, written
from ferrule.journal.sqlite import MemoryStore
from ferrule.journal.store import NewRun, Row
from ferrule.machine import CallTool, Cancelled, Command, Completion, Finish, Sleep, StartRun, Wait
from ferrule.message import Call, Message, ModelMessage, Usage, user
from ferrule.provider.base import ModelResponse, Settings
from ferrule.runtime.inbox import Inbox
from ferrule.runtime.replay import Replay, feed, replay
from ferrule.runtime.worker import POISON, Worker
from ferrule.suspension import Request
from ferrule.testing import FunctionModel, call


def script(*turns: Any, name: str = "m") -> FunctionModel:
    return FunctionModel(lambda request: turns[sum(isinstance(m, ModelMessage) for m in request.messages)], name=name)


@tool(effect="read")
async def look(where: str = "here") -> str:
    """Look."""
    return f"looked {where}"


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect="once", approval=True)
async def send() -> str:
    """Send."""
    return "sent"


def agents(**changes: Any) -> Agent[Any, Any]:
    """An agent with parallel calls, an approval and an agent inside; changed as wanted."""
    tools: Sequence[Any] = changes.pop("inner_tools", [look])
    turns = changes.pop("inner_turns", [[call("look", {"where": "inside"})], "inside is done"])
    inner = Agent("inner", script(*turns), tools=tools)
    model = script(
        [call("look"), call("pay", {"amount": 3})], [call("send")], [call("inner", {"input": "go"})], "all is done"
    )
    known: list[Any] = changes.pop("tools", [look, pay, send])
    return Agent("outer", changes.pop("model", model), tools=[*known, inner.as_tool()], **changes)


def agree(request: Request) -> Answer:
    return Answer(request.id, ok=True, digest=request.digest)


async def recorded(definition: Any, input: Any = None, store: MemoryStore | None = None) -> tuple[str, list[Record]]:
    """A run with a person who agrees to all, and its records."""
    store = store or MemoryStore()
    await store.open()

    async with Worker(store, {definition.name: definition}) as worker:
        given = RunInput(user("go")) if input is None else input
        result = await worker.run(definition.name, given, on_request=agree)
        assert result.status == "done", result.describe()
        return result.run_id, await worker.records(result.run_id)


def replayed(was: Any, now: Any, input: Any = None) -> Replay:
    async def main() -> Replay:
        run_id, records = await recorded(was, input)
        return replay(run_id, now, records)

    return asyncio.run(main())


def first(found: Replay) -> tuple[str, str, str, bool]:
    assert found.first is not None
    return found.first.op, found.first.recorded, found.first.now, found.first.blocks


def test_the_code_that_made_a_run_commands_the_same_again() -> None:
    found = replayed(agents(), agents())
    assert (found.differences, found.blocks) == ((), False)
    assert found.records > 20


def test_any_beginning_of_a_run_is_commanded_again_too() -> None:
    async def main() -> None:
        _, records = await recorded(agents())
        for length in range(1, len(records) + 1):
            assert feed(agents(), records[:length]).differences == [], length

    asyncio.run(main())


@tool(effect="read", serial=True)
async def fail() -> ToolResult:
    """Fail, and be called again."""
    return ToolResult.failed("busy", code="unavailable", retry_after=0.0)


@tool(effect="once", check=lambda ctx, arguments: None)
async def hang() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return ""


class Watching(Hooks):
    """Changes a request, and the arguments of one tool."""

    async def before_model(self, run: Any, request: Any) -> Any:
        return request.but(instructions="Made for this one.")

    async def before_tool(self, run: Any, call: Any, tool: Any, arguments: Mapping[str, Any]) -> Any:
        return {"amount": 2} if tool.name == "pay" else None


CALLS = [
    call("look"), call("look", {"where": "x"}), call("pay", {"amount": 1}), call("pay", {"amount": "no"}),
    call("nobody"), call("send"), call("inner", {"input": "go"}), call("fail"),
]  # fmt: skip


@given(
    st.lists(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3), max_size=4),
    st.sampled_from([Limits(), Limits(turns=2), Limits(tool_calls=3)]),
    st.sampled_from([(), (Watching(),)]),
    st.sampled_from([str, int]),
)
@settings(max_examples=25)
def test_whatever_a_run_did_the_code_that_made_it_commands_again(
    turns: list[Any], limits: Limits, hooks: tuple[Hooks, ...], output: Any
) -> None:
    def made() -> Agent[Any, Any]:
        known = [look, pay, send, fail]
        return agents(model=script(*turns, "no", "7"), limits=limits, hooks=hooks, output=output, tools=known)

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        async with Worker(store, {"outer": made()}) as worker:
            result = await worker.run("outer", RunInput(user("go")), on_request=agree)
            records = await worker.records(result.run_id)
        assert result.status in ("done", "incomplete", "failed")
        assert replay(result.run_id, made(), records).differences == ()

    asyncio.run(main())


@pytest.mark.parametrize(
    "calls",
    [["inner"], ["hang", "inner", "look"], ["fail", "hang", "fail", "inner"], ["send", "hang"]],
    ids=lambda calls: " ".join(calls),
)
def test_a_run_that_was_cancelled_is_commanded_again_too(calls: list[str]) -> None:
    def made() -> Agent[Any, Any]:
        first = [call(name, {"input": "go"} if name == "inner" else {}) for name in calls]
        return agents(
            inner_turns=[[call("look"), call("hang")]],
            inner_tools=[look, hang],
            model=script(first, "done"),
            tools=[look, send, hang, fail],
        )

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        async with Worker(store, {"outer": made()}, poll=0.001) as worker:
            running = asyncio.create_task(worker.run("outer", RunInput(user("go"))))
            async with asyncio.timeout(20):
                while not (found := await store.entries()) or not any(
                    b'"hang"' in row.body and row.type == "tool.intended" for row in await store.rows(found[0].run_id)
                ):
                    await asyncio.sleep(0.002)
            await store.post(found[0].run_id, "cancel", b'{"by":"eve"}')
            assert (await running).status == "cancelled"
            records = await worker.records(found[0].run_id)
        for length in range(1, len(records) + 1):
            assert feed(made(), records[:length]).differences == [], length

    asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": script("", name="n")}, ("m1", "model 'm'", "model 'n'", False)),
        ({"instructions": "Be quick."}, ("m1", "instructions, tools, settings or form of the answer", "others", False)),
        (
            {"settings": Settings(seed=1)},
            ("m1", "instructions, tools, settings or form of the answer", "others", False),
        ),
        ({"inner_tools": []}, ("t3.0/m1", "instructions, tools, settings or form of the answer", "others", False)),
    ],
    ids=["model", "instructions", "settings", "tools of an agent inside"],
)
def test_what_a_model_is_asked_with_differs_and_does_not_stop_a_run(
    changes: dict[str, Any], expected: tuple[str, str, str, bool]
) -> None:
    op, recorded, now, blocks = first(replayed(agents(), agents(**changes)))
    assert (op, recorded.startswith(expected[1]), now.startswith(expected[2]), blocks) == (
        expected[0], True, True, expected[3],
    )  # fmt: skip


def test_a_tool_that_is_gone_since_it_was_called_is_told_of_at_its_call() -> None:
    renamed = tool(effect="once", name="pay2")(pay.function)  # pyright: ignore[reportAttributeAccessIssue]
    found = replayed(agents(), agents(tools=[look, renamed, send]))
    gone = found.differences[1]  # the model is asked with other tools, before
    assert gone[1:] == ("t1.1", "tool 'pay'", "a refusal of that call", False)


def test_a_change_of_many_turns_is_told_once() -> None:
    assert len(replayed(agents(), agents(instructions="Be quick.")).differences) == 1


def test_the_order_of_models_is_seen_where_another_one_would_be_asked() -> None:
    def broken(request: Any) -> ModelResponse:
        return ModelResponse(ModelMessage(), "error")

    def made(*models: Any) -> Agent[Any, Any]:
        return Agent("a", models[0], fallback=models[1:])

    bad, good = FunctionModel(broken, name="bad"), script("hello", name="good")
    found = replayed(made(bad, good), made(good, bad))
    assert [d[1:] for d in found.differences] == [
        ("m1", "model 'bad'", "model 'good'", False), ("m2", "model 'good'", "model 'bad'", False),
    ]  # fmt: skip


# -- machines of other kinds ------------------------------------------------------------------------------------


class Steps:
    """A definition whose machine gives these commands, each after the one before has ended."""

    hooks = None

    def __init__(self, *commands: Command, name: str = "steps") -> None:
        self.name = name
        self.commands = commands
        self.messages: Sequence[Message] = ()
        self.usage = Usage()

    def machine(self, options: Any) -> Steps:
        made = Steps(*self.commands, name=self.name)
        made._left = [*self.commands, Finish("done", "done")]  # pyright: ignore[reportPrivateUsage]
        return made

    _left: list[Command]

    def start(self, input: Any, at: float) -> Sequence[Command]:
        return [self._left.pop(0)]

    def on(self, completion: Completion) -> Sequence[Command]:
        if isinstance(completion.outcome, Cancelled):
            return [Finish("cancelled")]
        return [self._left.pop(0)]

    def rewritten(self, response: Any, messages: Any) -> Any:
        return response

    def live(self, context: Any) -> Any:
        return None

    def heard_by(self, listener: Any) -> Any:
        return listener


def paying(amount: int, op: str = "p") -> CallTool:
    return CallTool(op, Call(op, "pay", f'{{"amount":{amount}}}'), pay)


LOOK = CallTool("p", Call("p", "look", "{}"), look)
ASK = Wait("w", Request("w", "question", "Shall we?"))
SECOND = Wait("w", Request("w", "question", "Shall we really?"))
CHILD = StartRun("c", Steps(paying(1), name="child"), None)


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (paying(1), paying(2), ("p", "tool 'pay' with arguments", "the same with arguments")),
        (paying(1), LOOK, ("p", "tool 'pay'", "tool 'look'")),
        (paying(1), paying(1, "q"), ("p", "tool 'pay'", "tool 'pay' at 'q'")),
        (paying(1), Sleep("p"), ("p", "tool 'pay'", "a pause")),
        (Sleep("p"), paying(1), ("p", "a pause", "tool 'pay'")),
        (paying(1), Finish("done"), ("p", "tool 'pay'", "the end (done)")),
        (paying(1), Finish("failed"), ("p", "tool 'pay'", "the end (failed)")),
        (ASK, SECOND, ("w", "a question", "another one")),
        (CHILD, StartRun("c", Steps(paying(1), name="other"), None), ("c", "a run of 'child'", "a run of 'other'")),
        (CHILD, paying(1, "c"), ("c", "a run of 'child'", "tool 'pay'")),
        (CHILD, StartRun("c", Steps(paying(2), name="child"), None), ("c/p", "tool 'pay' with", "the same with")),
    ],
    ids=lambda x: type(x).__name__,
)
def test_another_command_is_told_of_with_both_sides(was: Command, now: Command, expected: tuple[str, str, str]) -> None:
    op, recorded, is_now, blocks = first(replayed(Steps(Sleep("s"), was), Steps(Sleep("s"), now), input="go"))
    assert (op, recorded.startswith(expected[1]), is_now.startswith(expected[2]), blocks) == (
        expected[0], True, True, True,
    )  # fmt: skip


def test_a_command_more_or_less_at_the_end_is_told_of_there() -> None:
    more = replayed(Steps(paying(1)), Steps(paying(1), paying(2, "q")), input="go")
    assert first(more) == ("", "the end (done)", "tool 'pay' at 'q'", True)
    less = replayed(Steps(paying(1), paying(2, "q")), Steps(paying(1)), input="go")
    assert first(less) == ("q", "tool 'pay'", "the end (done)", True)


def test_nulls_in_arguments_count_as_left_out() -> None:
    def looking(arguments: str) -> Steps:
        return Steps(CallTool("p", Call("p", "optional", arguments), optional))

    @tool(effect="read")
    def optional(where: str | None = None, deep: bool = False) -> str:
        """Look."""
        return "seen"

    assert replayed(looking('{"where": null, "deep": true}'), looking('{"deep":true}'), input="go").differences == ()
    assert replayed(looking('{"deep":false}'), looking('{"deep":true}'), input="go").blocks


# -- a worker that meets other code -----------------------------------------------------------------------------


async def until(store: MemoryStore, run_id: str, *states: str) -> str:
    async with asyncio.timeout(20):
        while (entry := await store.entry(run_id)) is None or entry.state not in states or await store.letters(run_id):
            await asyncio.sleep(0.002)
        return entry.state


async def answered(store: MemoryStore) -> None:
    for asked in await store.requests():
        answer = Answer(asked.request_id, ok=True, digest=asked.digest)
        await Inbox(store).answer(asked.request_id, answer, by="ada", channel="test")


def around(*commands: Command) -> Steps:
    """These steps, in a run inside."""
    return Steps(StartRun("c", Steps(*commands, name="child"), None))


@pytest.mark.parametrize("made", [Steps, around], ids=["a run", "a run around one"])
def test_a_run_that_meets_other_code_is_blocked_and_goes_on_when_the_code_is_back(made: Callable[..., Steps]) -> None:
    """Nothing is done before, and nothing around a run inside is settled: it has not failed."""

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        good, changed = made(paying(1), ASK, paying(3, "q")), made(paying(2), ASK, paying(3, "q"))
        async with Worker(store, {"steps": good}) as worker:
            run_id = (await worker.run("steps", "go")).run_id
        before = await store.rows(run_id)
        await answered(store)
        async with Worker(store, {"steps": changed}, poll=0.001) as worker:
            worker.start()
            assert await until(store, run_id, "blocked") == "blocked"
            result = await worker.result(run_id)
        assert (result.status, result.reason) == ("blocked", "nondeterminism")
        assert "as tool 'pay' with arguments" in result.describe()
        assert [row.type for row in (await store.rows(run_id))[len(before) :]] == ["run.taken", "wait.answered", "note"]
        async with Worker(store, {"steps": good}, poll=0.001) as worker:
            worker.start()
            assert await store.post(run_id, "resume", b"{}")
            assert await until(store, run_id, "done") == "done"
            assert (await worker.result(run_id)).output == "done"

    asyncio.run(main())


def test_an_answer_about_one_tool_is_none_about_another() -> None:
    def asking(called: Any) -> Steps:
        return Steps(CallTool("p", Call("p", "send", "{}"), called))

    renamed = tool(effect="read", name="send2")(send.function)  # pyright: ignore[reportAttributeAccessIssue]
    assert first(replayed(asking(send), asking(renamed), input="go"))[1:] == ("tool 'send'", "tool 'send2'", True)


def test_a_call_under_way_of_a_tool_that_is_gone_is_not_taken_for_one_that_was_never_made() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.open()
        model = script([call("send")], "done")
        async with Worker(store, {"a": Agent("a", model, tools=[send])}) as worker:
            run_id = (await worker.run("a", RunInput(user("go")))).run_id
            waits = await worker.records(run_id)
        changed = Agent("a", model, tools=[look])
        assert replay(run_id, changed, waits).blocks  # told beforehand
        await answered(store)
        async with Worker(store, {"a": changed}, poll=0.001) as worker:
            worker.start()
            assert await until(store, run_id, "blocked") == "blocked"
            assert replay(run_id, changed, await worker.records(run_id)).blocks
            assert "'t1.0' as tool 'send', and this code commands a refusal" in (await worker.result(run_id)).describe()
        async with Worker(store, {"a": Agent("a", model, tools=[send])}, poll=0.001) as worker:
            worker.start()
            await store.post(run_id, "resume", b"{}")
            assert await until(store, run_id, "done") == "done"

    asyncio.run(main())


def test_a_run_that_ended_a_process_too_often_is_tried_again_when_somebody_says_so() -> None:
    async def main() -> None:
        store, steps = MemoryStore(), Steps(paying(1))
        await store.open()
        started = Row(1, "run.started", 1, 1.0, written("run.started", ("steps", "go", {})))
        await store.create(NewRun("r", "steps", started), None)
        for n in range(POISON):
            await store.enlist(f"dead-{n}", {})
            assert len(await store.claim(f"dead-{n}", ["steps"], 1, 10.0)) == 1
            await store.retire(f"dead-{n}")
        async with Worker(store, {"steps": steps}, poll=0.001) as worker:
            worker.start()
            assert await until(store, "r", "blocked", "done") == "blocked"
            await store.post("r", "resume", b"{}")
            assert await until(store, "r", "done") == "done"

    asyncio.run(main())


def test_a_run_that_is_over_stays_what_it_was_whatever_code_looks_at_it() -> None:
    async def main() -> RunResult[Any]:
        store = MemoryStore()
        run_id, _ = await recorded(Steps(paying(1)), "go", store=store)
        async with Worker(store, {"steps": Steps(paying(2))}) as worker:
            return await worker.result(run_id)

    result = asyncio.run(main())
    assert (result.status, result.reason) == ("done", "nondeterminism")
