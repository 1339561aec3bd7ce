"""Slots: calls of one tool at a time, and nothing kept of tools and loops that are done."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.clock import run

from ferrule import Agent, tool
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
