"""Run a store through every check; a test suite makes one test of each."""

from __future__ import annotations

import asyncio

from ferrule.journal.sqlite import MemoryStore
from ferrule.testing import StoreConformance


async def main() -> None:
    kit = StoreConformance(MemoryStore)  # what makes a store of yours
    for check in kit.names():
        await kit.run(check)
    print("It keeps the protocol.")


asyncio.run(main())
