"""Another model is asked, and tools answer from the journal: nothing is called but what only reads, where that is wanted."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.runtime.test_fork import World, recorded, script

from ferrule.journal.sqlite import MemoryStore
from ferrule.message import ModelMessage, ToolMessage
from ferrule.runtime.replay import OnMiss, Rehearsal, rehearse
from ferrule.testing import call


def rehearsed(*turns: Any, on_miss: OnMiss = "stop") -> tuple[Rehearsal, World]:
    async def main() -> tuple[Rehearsal, World]:
        store, world = MemoryStore(), World()
        await store.open()
        whole, records = await recorded(store)
        agent = world.agent()
        other = agent.but(model=script(*turns))
        before = await store.rows(whole.run_id)
        found = await rehearse(whole.run_id, other, agent, records, on_miss=on_miss)
        assert await store.rows(whole.run_id) == before
        assert len(await store.entries()) == 1
        return found, world

    return asyncio.run(main())


def outputs(found: Rehearsal) -> list[str]:
    return [m.output for m in found.result.messages if isinstance(m, ToolMessage)]


def test_tools_answer_from_the_journal_by_name_and_arguments_in_whatever_order_they_are_asked() -> None:
    """However a model writes the arguments, and though one of the calls was approved, or was a run."""
    found, world = rehearsed(
        [call("inner", {"input": "go"})],
        [call("send", '{ "to" : "Bob" }'), call("pay", '{"amount": 3}')],
        [call("look", "{}")],
        "in another order",
    )
    assert (found.result.status, found.result.output) == ("done", "in another order")
    assert outputs(found) == ["inside is done", "sent to Bob", "paid 3", "seen here"]
    assert (found.answered, found.called, found.missed) == (("t1.0", "t2.0", "t2.1", "t3.0"), (), None)
    assert world.done == []


def test_a_call_that_was_not_made_then_stops_it_and_is_named() -> None:
    found, world = rehearsed([call("look")], [call("pay", {"amount": 4})], "never said")
    assert (found.missed, found.result.status, found.result.reason) == ("t2.0", "incomplete", "not_recorded")
    assert "has no result of the call 't2.0'" in found.result.describe()
    assert (found.answered, world.done) == (("t1.0",), [])


def test_tools_that_only_read_are_called_where_that_is_wanted_and_no_others() -> None:
    found, world = rehearsed([call("look", {"where": "there"})], "seen", on_miss="read")
    assert (found.result.output, outputs(found)) == ("seen", ["seen there"])
    assert (found.called, world.done) == (("t1.0",), ["look there"])
    found, world = rehearsed([call("pay", {"amount": 4})], "paid", on_miss="read")
    assert (found.missed, world.done) == ("t1.0", [])


def test_a_call_asked_more_often_than_then_has_the_last_result() -> None:
    found, _ = rehearsed([call("look")], [call("look")], "seen twice")
    assert outputs(found) == ["seen here", "seen here"]


def test_a_tool_that_there_is_not_is_refused_as_ever() -> None:
    found, _ = rehearsed([call("nobody")], "so be it")
    assert (found.result.output, len(outputs(found))) == ("so be it", 1)


def test_other_instructions_are_what_the_model_is_asked_with() -> None:
    asked: list[str] = []

    def model(request: Any) -> Any:
        asked.append(request.instructions)
        return "done" if any(isinstance(m, ModelMessage) for m in request.messages) else [call("look")]

    def anew(run: object) -> str:
        return "Made for each request."

    async def main() -> None:
        store, world = MemoryStore(), World()
        await store.open()
        made: dict[str, Any] = {"model": model, "instructions": anew}
        whole, records = await recorded(store, **made)
        agent = world.agent(**made)
        await rehearse(whole.run_id, agent.but(instructions="Be brief."), agent, records)

    asyncio.run(main())
    assert asked == ["Made for each request."] * 2 + ["Be brief."] * 2
