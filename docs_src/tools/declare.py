import asyncio
import json
from typing import Annotated

from pydantic import BaseModel, Field

from ferrule import tool


class Order(BaseModel):
    id: str
    lines: int


@tool(effect="read", timeout=10)
async def lookup(order_id: str, limit: Annotated[int, Field(ge=1, le=50)] = 10) -> Order:
    """Find an order.

    Args:
        order_id: The order's number, like "A-1001".
        limit: Most lines to count.
    """
    return Order(id=order_id, lines=min(limit, 3))


print(json.dumps(lookup.definition.parameters, indent=1))
print(asyncio.run(lookup.call({"order_id": "A-1001"})).output)
