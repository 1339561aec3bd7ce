"""Two runs are compared step by step, and the first one that differs is told."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.runtime.test_fork import World, forked, recorded, script

from ferrule.journal.sqlite import MemoryStore
from ferrule.runtime.compare import Comparison, diff, steps_of
from ferrule.testing import call


def compared(**about: Any) -> Comparison:
    """A run with a fork of it."""

    async def main() -> Comparison:
        store = MemoryStore()
        await store.open()
        whole, records = await recorded(store)
        _, _, its = await forked(store, whole.run_id, **about)
        return diff(records, its)

    return asyncio.run(main())


def test_a_fork_without_edits_is_the_same_from_end_to_end() -> None:
    found = compared(before="m2")
    assert (found.same, found.first, found.statuses) == (True, None, ("done", "done"))
    assert [pair.op for pair in found.steps][:4] == ["m1", "t1.0", "t1.1", "m2"]
    assert all(pair.a is not None and pair.b is not None for pair in found.steps)


def test_a_fork_with_an_edit_first_differs_there() -> None:
    found = compared(before="t1.0", edits={"t1.1": {"arguments": {"amount": 7}}})
    assert found.first is not None
    assert (found.first.op, found.first.differs) == ("t1.1", ("arguments", "output", "digest"))
    assert found.first.b is not None
    assert (found.first.b.name, found.first.b.arguments) == ("pay", '{"amount":7}')
    assert not found.same


def test_steps_of_one_run_alone_stand_where_they_came() -> None:
    async def main() -> tuple[Comparison, Comparison]:
        store = MemoryStore()
        await store.open()
        _, short = await recorded(store, model=script([call("look")], "all is done"))
        _, long = await recorded(store, model=script([call("look")], [call("look", {"where": "there"})], "all is done"))
        return diff(short, long), diff(long, short)

    one, other = asyncio.run(main())
    assert [p.op for p in one.steps] == ["m1", "t1.0", "m2", "t2.0", "m3"]
    assert [p.op for p in other.steps] == ["m1", "t1.0", "m2", "t2.0", "m3"]
    assert one.first is not None
    assert (one.first.op, one.first.differs) == ("m2", ("status", "output", "calls"))
    assert [(p.a is None, p.differs) for p in one.steps[3:]] == [(True, ("missing",))] * 2


def test_what_is_open_is_told_of_as_open() -> None:
    async def main() -> Comparison:
        store = MemoryStore()
        await store.open()
        _, records = await recorded(store)
        last = next(i for i, r in enumerate(records) if r.type == "tool.intended" and r.body["op"] == "t1.1")
        return diff(records, records[: last + 1])

    found = asyncio.run(main())
    step = next(p for p in found.steps if p.op == "t1.1")
    assert step.b is not None
    assert (step.b.status, "status" in step.differs, found.statuses) == ("open", True, ("done", None))


def test_a_question_to_a_tool_is_part_of_its_call() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.open()
        _, records = await recorded(store)
        assert {step.kind for step in steps_of(records).values()} == {"model", "tool"}
        assert World().done == []

    asyncio.run(main())
