import asyncio

from ferrule import Agent, Limits, Priced, tool
from ferrule.message import ModelMessage, Usage
from ferrule.provider.base import ModelResponse
from ferrule.testing import ScriptedModel, call


@tool(effect="read")
async def look() -> str:
    """Look again."""
    return "nothing yet"


again = ModelResponse(ModelMessage(calls=(call("look"),)), "tool_calls", Usage(input=40_000, output=500, cached=30_000))
for price in (Priced(ScriptedModel([again] * 9), input=3.25, cached=0.25, output=20), ScriptedModel([again] * 9)):
    result = asyncio.run(Agent("guard", price, tools=[look], limits=Limits(cost=0.1)).run("Watch."))
    print(result.reason, result.usage.requests, result.usage.cost)
    print(result.error)
