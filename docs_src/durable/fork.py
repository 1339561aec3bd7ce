import asyncio
import tempfile
from pathlib import Path

from ferrule import Agent, App, tool
from ferrule.message import ModelMessage
from ferrule.provider.base import ModelRequest
from ferrule.testing import call

TURNS = [call("price", '{"what": "tea"}'), call("order", '{"what": "tea", "number": 50}'), "Ordered."]


@tool(effect="read")
async def price(what: str) -> int:
    """What a thing costs."""
    print("looks up a price")
    return 3


@tool(effect="once")
async def order(what: str, number: int) -> str:
    """Order something."""
    print("orders", number)
    return f"{number} {what} ordered"


def model(request: ModelRequest) -> object:
    return TURNS[sum(isinstance(m, ModelMessage) for m in request.messages)]


def careful(request: ModelRequest) -> object:
    said = sum(isinstance(m, ModelMessage) for m in request.messages)
    return call("price", '{ "what": "tea" }') if said == 0 else "Too dear."


async def main(file: Path) -> None:
    app = App(agents=[Agent("buyer", model, tools=[price, order])], store=file)
    run = await app.run("buyer", "We need tea.")

    checked = await app.replay(run.run_id)
    print("the same code:", checked.differences)

    rehearsed = await app.replay(run.run_id, model=careful)
    print("another model:", rehearsed.result.output, rehearsed.answered)

    fork = await app.fork(run.run_id, before="t2.0", edits={"t2.0": {"arguments": {"what": "tea", "number": 5}}})
    compared = await app.diff(run.run_id, fork.run_id)
    print("a fork:", fork.output, "and they first differ at", compared.first.op if compared.first else None)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder, "runs.db")))
