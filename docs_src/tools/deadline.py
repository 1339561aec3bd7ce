import asyncio
import time

from ferrule import tool


@tool(effect="read", timeout=0.1)
def look() -> None:
    """Look for a long time."""
    time.sleep(0.3)


@tool(timeout=0.1)
async def pay() -> None:
    """Pay, slowly."""
    await asyncio.sleep(10)


for slow in (look, pay):
    result = asyncio.run(slow.call())
    assert result.failure is not None
    print(result.failure.code, "-", result.output)
