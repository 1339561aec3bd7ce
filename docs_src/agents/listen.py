import asyncio

from ferrule import Agent
from ferrule.testing import ScriptedModel


async def main() -> None:
    agent = Agent("teller", ScriptedModel(["Once upon a time."], pieces=5))
    async with agent.stream("Tell a story.") as events:
        async for event in events:
            print(event.type, event.text)
    print(events.result.status)


asyncio.run(main())
