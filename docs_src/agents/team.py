import asyncio
import json
from dataclasses import dataclass

from ferrule import Agent, Context, Session, restore, tool, typed
from ferrule.testing import ScriptedModel, call


@dataclass
class Shop:
    stock: dict[str, int]


@tool(effect="read")
async def count(part: str, ctx: Context[Shop]) -> int:
    """Count a part."""
    return ctx.deps.stock[part]


clerk = Agent("clerk", ScriptedModel([call("count", '{"part": "ring"}'), "12 rings."]), tools=[count])
script = ScriptedModel([call("clerk", '{"input": "Count the rings."}'), "There are 12.", "You asked for rings."])
desk = Agent("desk", script, tools=[clerk.as_tool(description="Knows the stock.", effect="read")])


async def main() -> None:
    session = Session()
    first = await desk.run("How many rings?", session=session, deps=Shop({"ring": 12}))
    print(first.output, first.usage.requests, "requests")

    kept = json.dumps(typed(session.messages))  # for a file or a database
    later = Session(restore(json.loads(kept)))
    second = await desk.run("What did I ask?", session=later)
    print(second.output, len(later.messages), "messages")


asyncio.run(main())
