"""Slots: how many calls of one tool run at a time."""

from __future__ import annotations

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
        self._held: dict[tuple[Tool, Any], _Held] = {}

    async def take(self, tool: Tool) -> None:
        """Wait for a slot, and hold it until `give`.

        Args:
            tool: A tool with `concurrency`.
        """
        key = (tool, asyncio.get_running_loop())
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(cast("int", tool.concurrency))
        held.users += 1
        try:
            await held.free.acquire()
        except BaseException:
            self._leave(key, held)
            raise

    def give(self, tool: Tool) -> None:
        """Give a slot back.

        Args:
            tool: The tool.
        """
        key = (tool, asyncio.get_running_loop())
        held = self._held[key]
        held.free.release()
        self._leave(key, held)

    def _leave(self, key: tuple[Tool, Any], held: _Held) -> None:
        """The last who leaves takes the tool and the loop off the books."""
        held.users -= 1
        if not held.users:
            del self._held[key]


class _Held:
    """The slots of one tool in one event loop, and how many wait for them or hold them."""

    __slots__ = ("free", "users")

    def __init__(self, slots: int) -> None:
        self.free = asyncio.Semaphore(slots)
        self.users = 0


SLOTS = Slots()
