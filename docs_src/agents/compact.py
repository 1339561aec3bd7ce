import asyncio

from ferrule import Agent, Compaction, tool
from ferrule.message import UserMessage
from ferrule.provider.base import ModelRequest
from ferrule.testing import ScriptedModel, call


@tool(effect="read")
async def page(number: int) -> str:
    """Read a page."""
    return f"page {number} " + "lorem " * 200


async def shorten(request: ModelRequest) -> str:
    return "The first pages hold nothing about rings."


reader = ScriptedModel([*(call("page", f'{{"number": {n}}}') for n in range(1, 9)), "On page 8."])
agent = Agent("reader", reader, tools=[page], hooks=[Compaction(1_500, 1_000, summary=shorten)])
result = asyncio.run(agent.run("Where are the rings?"))
print([len(request.messages) for request in reader.requests])
for message in result.messages:
    if isinstance(message, UserMessage):
        print("-", message.text)
