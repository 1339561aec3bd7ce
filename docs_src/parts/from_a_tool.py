import asyncio

from ferrule import ToolResult, image, tool


@tool(effect="read")
async def screenshot() -> ToolResult:
    """Take a screenshot."""
    part = image("examples/media/fixture.png")
    return ToolResult.ok(output="the login page", parts=[part])


result = asyncio.run(screenshot.call())
print(result)
