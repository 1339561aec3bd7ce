import asyncio

from ferrule import Agent, Answer, Request, tool
from ferrule.testing import ScriptedModel, call


@tool(effect="once", approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


async def decide(request: Request) -> Answer:
    print("asked:", request.prompt, request.data["arguments"] if request.data else None)
    return Answer(request.id, ok=True, arguments={"amount": 3})


def clerk() -> Agent:
    return Agent("clerk", ScriptedModel([call("pay", '{"amount": 5}'), "Done."]), tools=[pay])


waiting = asyncio.run(clerk().run("Pay 5."))
print(waiting.status, [r.kind for r in waiting.requests])

done = asyncio.run(clerk().run("Pay 5.", on_request=decide))
print(done.status, [getattr(m, "output", "") for m in done.messages][2])
