"""Slots: how many calls of one tool run at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from ferrule.lazy import LazyModule
from ferrule.tool.tool import Tool

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")


class Slots:
    """How many calls of a tool may run at once, across the runs of one event loop.

    Since 0.1.
    """

    def __init__(self) -> None:
        """Nothing is running."""
        self._held: dict[tuple[Tool, Any], tuple[asyncio.Semaphore, list[None]]] = {}

    @asynccontextmanager
    async def of(self, tool: Tool) -> AsyncGenerator[None, None]:
        """A slot to hold while the tool runs; the last who leaves takes the tool and the loop off the books.

        Args:
            tool: A tool with `concurrency`.
        """
        key = (tool, asyncio.get_running_loop())
        if key not in self._held:
            self._held[key] = (asyncio.Semaphore(cast("int", tool.concurrency)), [])
        free, users = self._held[key]
        users.append(None)
        try:
            async with free:
                yield
        finally:
            users.pop()
            if not users:
                self._held.pop(key, None)


SLOTS = Slots()
