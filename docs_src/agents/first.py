import asyncio

from ferrule import Agent, tool
from ferrule.message import ToolMessage
from ferrule.testing import ScriptedModel, call


@tool(effect="read")
async def stock(part: str) -> int:
    """How many of a part are in stock.

    Args:
        part: Its name.
    """
    return {"ring": 12, "handle": 0}[part]


# In place of the script stands a name: "openai:gpt-5", "anthropic:…", "gemini:…", "ollama:…".
script = ScriptedModel(
    [
        [call("stock", '{"part": "ring"}'), call("stock", '{"part": "screw"}')],
        "There are 12 rings; screws we do not keep.",
    ]
)
desk = Agent("desk", script, instructions="Answer in one sentence.", tools=[stock])


async def main() -> None:
    result = await desk.run("What is there?")
    print(result.status, result.output)
    for message in script.requests[1].messages[2:]:
        if isinstance(message, ToolMessage):
            print("told:", message.output)


asyncio.run(main())
