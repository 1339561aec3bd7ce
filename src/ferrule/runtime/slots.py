"""Slots: how many calls of one tool run at a time."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ferrule.lazy import LazyModule
from ferrule.tool.tool import Tool

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")


class Slots:
    """How many calls of a tool may run at once, across the runs that share these slots.

    Since 0.1.
    """

    def __init__(self) -> None:
        """Nothing is running."""
        self._held: dict[tuple[Tool, Any], asyncio.Semaphore] = {}

    def of(self, tool: Tool) -> AbstractAsyncContextManager[Any]:
        """A slot to hold while the tool runs.

        Args:
            tool: The tool.
        """
        if tool.concurrency is None:
            return nullcontext()
        key = (tool, asyncio.get_running_loop())
        if key not in self._held:
            self._held[key] = asyncio.Semaphore(tool.concurrency)
        return self._held[key]


SLOTS = Slots()
