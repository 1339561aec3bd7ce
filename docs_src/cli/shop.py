from ferrule import Agent, App, Toolset, tool


@tool(effect="read")
async def find_order(order_id: str, fields: list[str] | None = None) -> dict[str, str]:
    """Find an order by its number."""
    order = {"order": order_id, "state": "sent", "city": "Oslo"}
    return {key: order[key] for key in fields or order}


clerk = Agent("clerk", "openai:gpt-5", instructions="Answer in one sentence.", tools=[find_order])
app = App(tools=Toolset([find_order]).prefix("shop_"), agents=[clerk])

if __name__ == "__main__":  # loading the project imports this file: what stands here is then left alone
    print(app)
