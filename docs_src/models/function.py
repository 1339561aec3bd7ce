import asyncio

from ferrule import Agent, tool
from ferrule.message import ToolMessage
from ferrule.provider.base import ModelRequest
from ferrule.testing import call


@tool(effect="read")
async def stock(part: str) -> int:
    """How many of a part are in stock."""
    return {"ring": 12}[part]


async def offline(request: ModelRequest) -> str:
    raise ConnectionError("no route")


async def rules(request: ModelRequest):
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return f"There are {last.output}."
    return call("stock", {"part": "ring"})


desk = Agent("desk", offline, fallback=[rules], tools=[stock])
print(asyncio.run(desk.run("How many rings?")).output)
