"""A fork shares what came before it, does what comes after anew, and takes the edits that were asked for there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import Agent, Answer, Context, RunResult, ToolResult, tool
from ferrule.agent.loop import RunInput
from ferrule.errors import NonDeterminism, UsageError
from ferrule.journal.record import Record
from ferrule.journal.sqlite import MemoryStore
from ferrule.journal.store import Store
from ferrule.message import ModelMessage, ToolMessage, user
from ferrule.runtime.inbox import Inbox
from ferrule.runtime.replay import replay
from ferrule.runtime.worker import Worker
from ferrule.strict_json import parse, restore
from ferrule.suspension import Request
from ferrule.testing import call


def script(*turns: Any) -> Callable[[Any], Any]:
    return lambda request: turns[sum(isinstance(m, ModelMessage) for m in request.messages)]


class World:
    """What tools do outside the process, and what a person was asked."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked: list[Request] = []

    def agent(self, **changes: Any) -> Agent[Any, Any]:
        @tool(effect="read")
        async def look(where: str = "here") -> str:
            """Look."""
            self.done.append(f"look {where}")
            return f"seen {where}"

        @tool(effect="once")
        async def pay(ctx: Context, amount: int) -> str:
            """Pay."""
            self.done.append(f"pay {amount} {ctx.effect_key}")
            return f"paid {amount}"

        @tool(effect="once", approval=True)
        async def send(to: str) -> str:
            """Send."""
            self.done.append(f"send {to}")
            return f"sent to {to}"

        @tool(effect="read")
        async def ask(ctx: Context) -> str:
            """Ask."""
            return f"it is {(ctx.ask('question', 'who?').data or {})['name']}"

        inner = Agent(
            "inner", script([call("look", {"where": "inside"})], [call("ask")], "inside is done"), tools=[look, ask]
        )
        turns: list[Any] = [
            [call("look"), call("pay", {"amount": 3})],
            [call("send", {"to": "Bob"}), call("ask")],
            [call("inner", {"input": "go"})],
            "all is done",
        ]
        model = changes.pop("model", script(*turns))
        return Agent("outer", model, tools=[look, pay, send, ask, inner.as_tool()], **changes)

    def person(self, request: Request) -> Answer:
        self.asked.append(request)
        data = {"name": "Eve"} if request.kind == "question" else None
        return Answer(request.id, ok=True, digest=request.digest, data=data)


@asynccontextmanager
async def working(store: Store, agent: Agent[Any, Any]) -> AsyncGenerator[Worker]:
    await store.open()
    async with Worker(store, {"outer": agent}, poll=0.001) as worker:
        yield worker


async def recorded(store: Store, **changes: Any) -> tuple[RunResult[Any], list[Record]]:
    world = World()
    async with working(store, world.agent(**changes)) as worker:
        result = await worker.run("outer", RunInput(user("go")), on_request=world.person)
        assert result.status == "done", result.describe()
        return result, await worker.records(result.run_id)


async def forked(store: Store, run_id: str, **about: Any) -> tuple[RunResult[Any], World, list[Record]]:
    world = World()
    async with working(store, world.agent()) as worker:
        result = await worker.fork(run_id, on_request=world.person, **about)
        return result, world, await worker.records(result.run_id)


def told(result: RunResult[Any]) -> list[Any]:
    return [(type(m).__name__, getattr(m, "output", getattr(m, "text", None))) for m in result.messages]


def seq_of(records: list[Record], type: str, op: str) -> int:
    return next(r.seq for r in records if r.type == type and r.body.get("op") == op)


def run(work: Callable[[MemoryStore], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.open()
        await work(store)

    asyncio.run(main())


def test_a_fork_at_any_record_with_no_edits_ends_like_the_run() -> None:
    async def work(store: MemoryStore) -> None:
        whole, records = await recorded(store)
        for at in range(1, len(records) + 1):
            result, world, its = await forked(store, whole.run_id, at=at)
            assert (at, result.status, told(result)) == (at, "done", told(whole))
            assert [r.seq for r in its] == [*range(1, len(its) + 1)], at
            assert [r[2:] for r in its[1:at]] == [r[2:] for r in records[1:at]], at
            settled = {r.body["op"] for r in records[:at] if r.type == "tool.settled"}
            assert any(line.startswith("pay") for line in world.done) == ("t1.1" not in settled), at
            assert replay(result.run_id, World().agent(), its).differences == (), at
            entry = await store.entry(result.run_id)
            assert entry is not None
            assert (entry.state, entry.forked_from, entry.forked_at) == ("done", whole.run_id, at)

    run(work)


@given(st.lists(st.integers(1, 60), min_size=2, max_size=4))
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_a_fork_of_a_fork_ends_like_the_run_too(cuts: list[int]) -> None:
    async def work(store: MemoryStore) -> None:
        whole, records = await recorded(store)
        run_id = whole.run_id
        for cut in cuts:
            result, _, records = await forked(store, run_id, at=min(cut, len(records)))
            assert told(result) == told(whole)
            run_id = result.run_id

    run(work)


def test_calls_after_the_fork_have_keys_of_their_own_and_requests_are_asked_anew() -> None:
    async def work(store: MemoryStore) -> None:
        whole, records = await recorded(store)
        result, world, _ = await forked(store, whole.run_id, before="t1.1")
        assert f"pay 3 {result.run_id}:t1.1" in world.done
        at = seq_of(records, "wait.opened", "t2.0")
        result, world, its = await forked(store, whole.run_id, at=at)
        assert [r.kind for r in world.asked] == ["approval", "question", "question"]
        assert all(r.id.startswith(f"{result.run_id}.") for r in world.asked)
        assert world.done == ["send Bob", "look inside"]
        asked = await store.requests(run_id=result.run_id, state=None)
        assert [a.state for a in asked] == ["answered"] * 3
        assert len({r.body["request"].id for r in its if r.type == "wait.opened"}) == 4  # one of them is shared

    run(work)


def test_an_approval_is_one_of_the_call_that_it_was_given_for_and_not_of_the_fork() -> None:
    """It was answered, and the call was begun or not: the fork's call is another one."""

    async def work(store: MemoryStore) -> None:
        whole, records = await recorded(store)
        for type in ("wait.answered", "tool.intended"):
            _, world, _ = await forked(store, whole.run_id, at=seq_of(records, type, "t2.0"))
            assert world.asked[0].kind == "approval", type
            assert world.done[0] == "send Bob", type

    run(work)


def test_before_an_op_is_where_no_call_is_in_flight_and_it_was_not_yet_commanded() -> None:
    async def work(store: MemoryStore) -> None:
        whole, records = await recorded(store)
        expected = {
            "m1": 1,
            "t1.0": seq_of(records, "model.responded", "m1"),
            "t1.1": seq_of(records, "model.responded", "m1"),  # it was commanded together with the one before
            "m2": max(seq_of(records, "tool.settled", op) for op in ("t1.0", "t1.1")),
            "t3.0": seq_of(records, "model.responded", "m3"),
            "t3.0/m1": seq_of(records, "child.started", "t3.0"),
            "t3.0/t2.0": seq_of(records, "model.responded", "t3.0/m2"),
        }
        for op, at in expected.items():
            result, *_ = await forked(store, whole.run_id, before=op)
            entry = await store.entry(result.run_id)
            assert entry is not None
            assert (op, entry.forked_at, told(result)) == (op, at, told(whole))

    run(work)


# -- edits ------------------------------------------------------------------------------------------------------


def outputs(result: RunResult[Any]) -> list[str]:
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


def test_edited_arguments_are_what_runs_and_the_model_is_told() -> None:
    async def work(store: MemoryStore) -> None:
        whole, _ = await recorded(store)
        result, world, its = await forked(
            store, whole.run_id, before="t1.0", edits={"t1.1": {"arguments": {"amount": 7}}}
        )
        assert f"pay 7 {result.run_id}:t1.1" in world.done
        assert outputs(result)[1] == '[The arguments were changed before the call, to {"amount":7}]\npaid 7'
        assert its[seq_of(its, "tool.intended", "t1.1") - 1].body["arguments"] == '{"amount":7}'
        assert replay(result.run_id, world.agent(), its).differences == ()

    run(work)


def test_edited_arguments_are_approved_like_any_others() -> None:
    async def work(store: MemoryStore) -> None:
        whole, _ = await recorded(store)
        _, world, _ = await forked(store, whole.run_id, before="t2.0", edits={"t2.0": {"arguments": {"to": "Ann"}}})
        assert (world.asked[0].data or {})["arguments"] == {"to": "Ann"}
        assert world.done[0] == "send Ann"

    run(work)


@pytest.mark.parametrize("op", ["t1.1", "t3.0", "t3.0/t1.0"])
def test_an_edited_result_is_taken_and_the_call_not_made(op: str) -> None:
    async def work(store: MemoryStore) -> None:
        whole, _ = await recorded(store)
        given = ToolResult.failed("the bank is closed", code="unavailable")
        result, world, its = await forked(store, whole.run_id, before=op, edits={op: {"result": given}})
        assert result.status == "done"
        assert not [line for line in world.done if line.startswith({"t1.1": "pay"}.get(op, "look inside"))]
        assert its[seq_of(its, "tool.settled", op) - 1].body["outcome"].output == "the bank is closed"
        assert not [r for r in its if r.type == "tool.intended" and r.body["op"] == op and r.seq > result_at(its)]

    def result_at(its: list[Record]) -> int:
        return its[0].body["forked"]["at"]

    run(work)


def test_a_pin_takes_the_result_that_a_call_had_in_another_run() -> None:
    async def work(store: MemoryStore) -> None:
        whole, _ = await recorded(store)
        other, _, _ = await forked(store, whole.run_id, before="t1.0", edits={"t1.1": {"result": "paid by Ann"}})
        result, world, _ = await forked(store, whole.run_id, before="t1.0", pins={"t1.1": (other.run_id, "t1.1")})
        assert outputs(result)[:2] == ["seen here", "paid by Ann"]
        assert world.done[0] == "look here"

    run(work)


def test_edits_that_lie_ahead_of_a_fork_of_the_fork_are_kept() -> None:
    async def work(store: MemoryStore) -> None:
        whole, _ = await recorded(store)
        edits = {"t1.1": {"result": "nothing"}, "t2.0": {"result": "kept"}}
        first, _, _ = await forked(store, whole.run_id, before="t1.0", edits=edits)
        second, world, its = await forked(store, first.run_id, before="m2", edits={"t2.1": {"result": "new"}})
        assert outputs(second)[1:4] == ["nothing", "kept", "new"]
        assert "send Bob" not in world.done
        assert {*its[0].body["forked"]["edits"]} == {"t2.0", "t2.1"}

    run(work)


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({}, "a fork begins at a record or before an op"),
        ({"at": 3, "before": "t1.0"}, "a fork begins at a record or before an op"),
        ({"at": 0}, "no record 0"),
        ({"at": 999}, "no record 999"),
        ({"before": "t9.0"}, "has no op 't9.0'"),
        ({"at": 1, "edits": {"m1": {"result": "x"}}}, "is no call of a tool"),
        ({"at": 1, "edits": {"t9.0": {"result": "x"}}}, "is none of the run"),
        ({"before": "m2", "edits": {"t1.1": {"result": "x"}}}, "lies in what the fork shares"),
        ({"before": "t3.0/m1", "edits": {"t3.0": {"result": "x"}}}, "lies in what the fork shares"),
        ({"at": 1, "edits": {"t1.1": {"arguments": {"amount": "much"}}}}, "do not fit tool 'pay'"),
        ({"at": 1, "edits": {"t1.1": {"output": "x"}}}, "either 'arguments' or a 'result'"),
        ({"at": 1, "edits": {"t1.1": {}}}, "either 'arguments' or a 'result'"),
        ({"at": 1, "pins": {"t1.1": ("run_none", "t1.1")}}, "has no result of a call 't1.1'"),
    ],
)
def test_what_cannot_be_forked_is_refused_and_nothing_is_made(about: Mapping[str, Any], why: str) -> None:
    async def work(store: MemoryStore) -> None:
        whole, _ = await recorded(store)
        with pytest.raises(UsageError, match=why):
            await forked(store, whole.run_id, **about)
        assert [e.run_id for e in await store.entries()] == [whole.run_id]

    run(work)


def test_a_run_whose_beginning_the_code_would_not_command_any_more_is_not_forked() -> None:
    async def work(store: MemoryStore) -> None:
        whole, records = await recorded(store)
        limited = World().agent(limits=None, output=int)
        async with working(store, limited) as worker:
            with pytest.raises(NonDeterminism):
                await worker.fork(whole.run_id, at=len(records))

    run(work)


def test_a_fork_that_waits_goes_on_in_another_process_with_its_edits() -> None:
    async def work(store: MemoryStore) -> None:
        whole, _ = await recorded(store)
        world = World()
        edits = {"t2.0": {"arguments": {"to": "Ann"}}, "t2.1": {"result": "it is Ann"}}
        async with working(store, world.agent()) as worker:
            waiting = await worker.fork(whole.run_id, before="t2.0", edits=edits)
            assert [(waiting.status, r.kind) for r in waiting.requests] == [("suspended", "approval")]
        async with working(store, world.agent()) as worker:
            worker.start()
            async with asyncio.timeout(20):
                while [e.state for e in await store.entries() if e.run_id == waiting.run_id] != ["done"]:
                    for asked in await store.requests(run_id=waiting.run_id):
                        answer = world.person(restore(parse(asked.body)))
                        await Inbox(store).answer(asked.request_id, answer, by="ada", channel="test")
                    await asyncio.sleep(0.002)
            result = await worker.result(waiting.run_id)
        assert world.done == ["send Ann", "look inside"]
        assert outputs(result)[2].startswith("[The arguments were changed before the call")
        assert outputs(result)[3] == "it is Ann"

    run(work)


def test_a_second_start_of_a_fork_goes_on_with_one_whose_process_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = MemoryStore()
        run, _ = await recorded(store)
        async with working(store, World().agent()) as worker:

            def lost(held: Any, **options: Any) -> Any:
                raise ConnectionAbortedError("it is created, and its process dies")

            monkeypatch.setattr(worker, "_take", lost)
            with pytest.raises(ConnectionAbortedError):
                await worker.fork(run.run_id, at=3, key="again")
            (left,) = [e for e in await store.entries() if e.key == "again"]
            assert left.state == "running"
        async with asyncio.timeout(20):
            again, _, _ = await forked(store, run.run_id, at=3, key="again")
        assert (again.run_id, again.status, again.output) == (left.run_id, "done", "all is done")

    asyncio.run(main())
