from ferrule import Agent, Answer, Request, tool
from ferrule.message import ToolMessage
from ferrule.provider.base import Model
from ferrule.testing import ScriptedModel, call, forbid_network


@tool(effect="once", approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def make_desk(model: str | Model = "openai:gpt-5") -> Agent:
    return Agent("desk", model, tools=[pay])


def test_a_payment_that_is_declined_is_not_made() -> None:
    async def decline(request: Request) -> Answer:
        return Answer(request.id, ok=False, reason="too dear")

    script = ScriptedModel([call("pay", '{"amount": 5}'), "I may not pay."])
    with forbid_network():
        result = make_desk(script).run_sync("Pay 5.", on_request=decline).raise_for_status()
    told = result.messages[2]
    assert isinstance(told, ToolMessage)
    assert told.output == "Tool 'pay' was not called; the person who was asked declined: too dear."
    script.assert_done()


if __name__ == "__main__":  # or: pytest docs_src/agents/test_desk.py
    test_a_payment_that_is_declined_is_not_made()
    print("passed")
