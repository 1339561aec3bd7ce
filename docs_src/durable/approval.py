import asyncio
import tempfile
from pathlib import Path

from ferrule import Agent, Answer, App, tool
from ferrule.message import ModelMessage
from ferrule.provider.base import ModelRequest
from ferrule.testing import call

TURNS = [call("pay", '{"amount": 5}'), "Paid 5."]


@tool(effect="once", approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def model(request: ModelRequest) -> object:
    return TURNS[sum(isinstance(m, ModelMessage) for m in request.messages)]  # it keeps no state: the run may move


def shop(file: Path) -> App:
    return App(agents=[Agent("clerk", model, tools=[pay])], store=file)


async def start(app: App) -> str:
    result = await app.run("clerk", "Pay 5.", idempotency_key="order-17")
    print(result.status, [request.prompt for request in result.requests])
    return result.run_id


async def go_on(app: App, run_id: str) -> None:
    async with app.working() as worker:
        for asked in await app.inbox.requests(run_id=run_id):
            print("asked:", asked.kind, "by", asked.op)
            answer = Answer(asked.request_id, ok=True, digest=asked.digest)
            await app.inbox.answer(asked.request_id, answer, by="ada", channel="http")
        while await app.store.letters(run_id):  # until the worker has taken the run with its answer
            await asyncio.sleep(0.05)
        result = await worker.result(run_id)
        print(result.status, result.output)


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "runs.db")
    run_id = asyncio.run(start(shop(file)))  # the process may end here, or be killed
    asyncio.run(go_on(shop(file), run_id))  # and another one go on, tomorrow
