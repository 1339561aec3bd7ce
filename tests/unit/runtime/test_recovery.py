"""A run whose process died goes on from its records, wherever they end: nothing is lost and nothing is made twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Agent, Answer, Context, RunResult, ToolResult, image, tool
from ferrule.agent.loop import RunInput
from ferrule.errors import StoreError
from ferrule.journal.held import asked_of
from ferrule.journal.record import Record, read
from ferrule.journal.sqlite import MemoryStore
from ferrule.journal.store import Batch, Held, NewRun, Row
from ferrule.message import ModelMessage, ToolMessage, unpaired, user
from ferrule.runtime.inbox import Inbox
from ferrule.runtime.worker import Worker
from ferrule.testing import call

PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082")  # fmt: skip


class World:
    """What tools do outside the process, counted."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def agent(self) -> Agent[Any, Any]:
        @tool(effect="read")
        async def look(ctx: Context) -> list[Any]:
            """Look."""
            self.done.append("look")
            return ["a picture", image(PIXEL)]

        @tool(effect="idempotent")
        async def put(ctx: Context, name: str) -> str:
            """Put."""
            self.done.append(ctx.effect_key)
            return f"put {name}"

        def happened(ctx: Context, arguments: dict[str, Any]) -> Any:
            return ToolResult.ok("paid, says the bank") if "pay" in self.done else None

        @tool(effect="once", check=happened)
        async def pay(amount: int) -> str:
            """Pay."""
            self.done.append("pay")
            return f"paid {amount}"

        @tool(effect="once", approval=True, check=lambda ctx, arguments: "sent" in self.done or None)
        async def send(ctx: Context) -> str:
            """Send."""
            self.done.append("sent")
            return "sent"

        @tool(effect="read")
        async def ask(ctx: Context) -> str:
            """Ask."""
            return f"it is {(ctx.ask('question', 'who?').data or {})['name']}"

        inner = Agent("inner", _script([[call("put", {"name": "inside"})], "inside is done"]), tools=[put])
        turns: list[Any] = [
            [call("look"), call("put", {"name": "x"}), call("pay", {"amount": 3}), call("nobody")],
            [call("send"), call("ask")],
            [call("inner", {"input": "go"})],
            "all is done",
        ]
        return Agent("outer", _script(turns), tools=[look, put, pay, send, ask, inner.as_tool()])


def _script(turns: list[Any]) -> Callable[[Any], Any]:
    def model(request: Any) -> Any:
        return turns[sum(isinstance(m, ModelMessage) for m in request.messages)]

    return model


def decide(request: Any) -> Answer:
    data = {"name": "Eve"} if request.kind == "question" else None
    return Answer(request.request_id, ok=True, digest=request.digest, data=data)


async def _to_the_end(store: MemoryStore, world: World, run_id: str) -> RunResult[Any]:
    """What a fresh worker makes of a run, with a person who answers whatever is asked."""
    async with Worker(store, {"outer": world.agent()}, poll=0.001) as worker:
        worker.start()
        inbox = Inbox(store)
        async with asyncio.timeout(20):
            while True:
                for request in await inbox.requests():
                    await inbox.answer(request.request_id, decide(request), by="ada", channel="test")
                entry = await store.entry(run_id)
                if entry is not None and entry.state not in ("running", "suspended"):
                    return await worker.result(run_id)
                await asyncio.sleep(0.002)


def told(result: RunResult[Any]) -> list[Any]:
    return [
        (type(m).__name__, getattr(m, "output", getattr(m, "text", None)), len(getattr(m, "parts", ())))
        for m in result.messages
    ]


async def _whole() -> tuple[list[Row], RunResult[Any], World]:
    store, world = MemoryStore(), World()
    await store.open()
    async with Worker(store, {"outer": world.agent()}) as worker:
        first = await worker.run("outer", RunInput(user("go")))
    result = await _to_the_end(store, world, first.run_id)
    return await store.rows(first.run_id), result, world


def test_a_run_that_waits_goes_on_in_another_worker_with_its_answers() -> None:
    rows, result, world = asyncio.run(_whole())
    assert (result.status, result.output) == ("done", "all is done")
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert world.done == ["look", f"{result.run_id}:t1.1", "pay", "sent", f"{result.run_id}/t3.0:t1.0"]
    assert [m.output for m in result.messages if isinstance(m, ToolMessage)][-1] == "inside is done"


async def _cut(rows: list[Row], length: int, result: RunResult[Any]) -> tuple[RunResult[Any], World]:
    """The run, left by its process after so many records; what these tell of has happened in the world."""
    store, world = MemoryStore(), World()
    await store.open()
    run_id = result.run_id
    held = await store.create(NewRun(run_id, "outer", rows[0]), "dead")
    assert isinstance(held, Held)
    records = [row for row in rows[1:length] if row.type != "run.taken"]
    renumbered = [row._replace(seq=seq) for seq, row in enumerate(records, 2)]
    told = [read(run_id, row.seq, row.type, row.v, row.at, row.body) for row in renumbered]
    answered = {r.body["op"] for r in told if r.type == "wait.answered"}
    opened = [r for r in told if r.type == "wait.opened" and r.body["op"] not in answered]
    asked = [asked_of(run_id, r.body["op"], r.body["request"], r.at) for r in opened]
    await store.append(held, Batch(renumbered, opened=asked))
    await store.retire("dead")
    for row in renumbered:  # as many effects as had been begun, one for each: the worst case for `once`
        if row.type == "tool.intended":
            for name, said in (("look", "look"), ("pay", "pay"), ("send", "sent")):
                if f'"tool":"{name}"'.encode() in row.body:
                    world.done.append(said)
    return await _to_the_end(store, world, run_id), world


def test_a_run_cut_after_any_record_comes_to_the_same_end_and_makes_no_once_call_twice() -> None:
    async def main() -> None:
        rows, whole, _ = await _whole()
        for length in range(1, len(rows)):
            result, world = await _cut(rows, length, whole)
            assert (length, result.status, result.output) == (length, "done", "all is done")
            assert world.done.count("pay") == 1, length
            assert world.done.count("sent") == 1, length
            assert len(told(result)) == len(told(whole)), length

    asyncio.run(main())


@pytest.mark.case("C073")
def test_code_that_asks_for_something_else_blocks_the_run_and_does_nothing() -> None:
    async def main() -> None:
        rows, *_ = await _whole()
        store, world = MemoryStore(), World()
        await store.open()
        held = await store.create(NewRun("r", "outer", rows[0]), "dead")
        assert isinstance(held, Held)
        changed = [r._replace(body=r.body.replace(b'"tool":"look"', b'"tool":"peek"')) for r in rows[1:5]]
        await store.append(held, Batch(changed))
        await store.retire("dead")
        result = await _to_the_end(store, world, "r")
        assert (result.status, result.reason, world.done) == ("blocked", "nondeterminism", [])
        assert "as tool 'peek', and this code commands tool 'look' there" in result.error

    asyncio.run(main())


def test_a_run_that_is_blocked_by_other_code_can_be_cancelled_and_its_history_is_paired() -> None:
    async def main() -> None:
        rows, *_ = await _whole()
        store, world = MemoryStore(), World()
        await store.open()
        held = await store.create(NewRun("r", "outer", rows[0]), "dead")
        assert isinstance(held, Held)
        begun = [r._replace(seq=i) for i, r in enumerate((r for r in rows[1:] if r.type != "tool.settled"), 2)][:6]
        change = {b'"tool":"pay"': b'"tool":"buy"', b'"op":"t1.1"': b'"op":"t9.1"'}
        changed = begun
        for was, now in change.items():
            changed = [r._replace(body=r.body.replace(was, now)) for r in changed]
        await store.append(held, Batch(changed, state="blocked"))
        await store.post("r", "cancel", b'{"by":"ada"}')
        async with Worker(store, {"outer": world.agent()}, poll=0.001) as worker:
            worker.start()
            async with asyncio.timeout(20):
                while (await store.entry("r")).state != "cancelled":  # pyright: ignore[reportOptionalMemberAccess]
                    await asyncio.sleep(0.002)
            result = await worker.result("r")
            records = await worker.records("r")
        assert (result.status, result.reason, world.done) == ("cancelled", "cancelled", [])
        assert any(isinstance(m, ToolMessage) for m in result.messages)
        assert unpaired(result.messages) is None
        ended = [(r.body["op"], r.body["outcome"].failure.code) for r in records if r.type == "tool.settled"]
        assert sorted(ended) == [
            ("t1.0", "cancelled"),
            ("t1.1", "cancelled"),
            ("t1.2", "outcome_unknown"),  # begun as a call of another tool
            ("t1.3", "unknown_tool"),
            ("t9.1", "outcome_unknown"),  # which this code does not command
        ]
        assert await store.letters("r") == []

    asyncio.run(main())


def test_a_model_that_is_asked_again_after_a_crash_is_asked_for_one_time_more() -> None:
    async def main() -> list[Any]:
        rows, result, _ = await _whole()
        first = [row.type for row in rows].index("model.intended") + 1
        store, world = MemoryStore(), World()
        await store.open()
        held = await store.create(NewRun(result.run_id, "outer", rows[0]), "dead")
        assert isinstance(held, Held)
        again = [
            rows[first - 1]._replace(seq=first + 1, body=rows[first - 1].body.replace(b'"attempt":1', b'"attempt":2'))
        ]
        await store.append(held, Batch([*rows[1:first], *again]))
        await store.retire("dead")
        await _to_the_end(store, world, result.run_id)
        async with Worker(store, {}) as worker:
            asked = [r.body for r in await worker.records(result.run_id) if r.type == "model.intended"]
        return [(body["op"], body["attempt"]) for body in asked]

    assert asyncio.run(main())[:4] == [("m1", 1), ("m1", 2), ("m1", 3), ("m2", 1)]


def test_an_unknown_version_is_refused_by_name() -> None:
    with pytest.raises(
        StoreError, match=r"record 3 of run r \(tool.settled, version 9\) was written by a newer version"
    ):
        read("r", 3, "tool.settled", 9, 0.0, b"{}")
    assert read("r", 1, "run.settled", 1, 2.0, b'{"status":"done"}') == Record(
        "r", 1, "run.settled", 2.0, {"status": "done"}
    )
