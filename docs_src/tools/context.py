import asyncio
from typing import Any

from ferrule import Context, tool


@tool(effect="idempotent")
async def charge(amount: int, ctx: Context[Any]) -> str:
    """Charge the customer's card."""
    ctx.progress("talking to the bank")
    return f"charged {amount} for {ctx.deps['customer']} with key {ctx.effect_key}"


context = Context[Any](run_id="run_1", call_id="call_1", deps={"customer": "Ada"}, on_progress=print)
print(asyncio.run(charge.call({"amount": 5}, context)).output)
print(list(charge.definition.parameters["properties"]))
