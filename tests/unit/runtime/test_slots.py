"""Slots: calls of one tool at a time, and nothing kept of tools and loops that are done."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.clock import run

from ferrule import Agent, Answer, Context, Request, tool
from ferrule.runtime.slots import SLOTS
from ferrule.testing import ScriptedModel, call


def test_all_runs_of_a_loop_share_them_and_the_last_leaves_nothing_behind() -> None:
    now, most = 0, 0

    @tool(effect="read", concurrency=2)
    async def few() -> str:
        """Be one of few."""
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        try:
            await asyncio.sleep(1)
        finally:
            now -= 1
        return "done"

    def agent() -> Agent[Any, Any]:
        return Agent("a", ScriptedModel([[call("few")] * 3, "end"]), tools=[few])

    async def main() -> float:
        tasks = [asyncio.ensure_future(agent().run("go")) for _ in range(3)]
        await asyncio.sleep(0.5)
        tasks[0].cancel()  # it holds slots and waits for one
        await asyncio.wait(tasks)
        return asyncio.get_running_loop().time()

    for _ in range(2):
        assert run(main()) == 3.5
        assert most == 2
    assert not SLOTS._held  # pyright: ignore[reportPrivateUsage]


def test_a_call_that_waits_for_a_person_or_for_its_next_attempt_gives_its_slot_to_others() -> None:
    order: list[str] = []

    @tool(effect="read", concurrency=1, retries=1)
    async def one(ctx: Context, name: str) -> str:
        """Ask, or fail once, or neither."""
        order.append(name)
        if name == "asks":
            ctx.ask("input", "Well?")
        if name == "fails" and ctx.attempt == 1:
            raise ConnectionRefusedError
        return name

    async def later(request: Request) -> Answer:
        await asyncio.sleep(1000)
        return Answer(request.id, ok=True)

    calls = [call("one", {"name": name}) for name in ("asks", "fails", "neither")]
    result = run(Agent("a", ScriptedModel([calls, "end"]), tools=[one]).run("go", on_request=later))
    assert result.status == "done"
    assert order == ["asks", "fails", "neither", "fails", "asks"]
    assert not SLOTS._held  # pyright: ignore[reportPrivateUsage]
