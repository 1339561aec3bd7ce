import asyncio

from ferrule import tool


@tool(effect="read", timeout=5)
async def find_order(order_id: str, limit: int = 10) -> dict[str, object]:
    """Find an order by its number."""
    return {"order": order_id, "lines": ["ring", "handle"][:limit]}


for arguments in ('{"order_id": "A-1001"}', '{"order_id": "A-1001", "limit": "ten"}'):
    result = asyncio.run(find_order.call(arguments))
    print(result.status, result.output)
