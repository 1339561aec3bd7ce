"""The agents whose runs are in the corpus. They are part of it: add others for a new version, and change none.

What an honest person answers, and how each run ends, stands here too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ferrule import Agent, Answer, Context, Hooks, ToolResult, image, tool
from ferrule.journal.store import Asked
from ferrule.message import ModelMessage
from ferrule.strict_json import parse, restore
from ferrule.suspension import Request
from ferrule.testing import call

PICTURE = bytes.fromhex("89504e470d0a1a0a") + bytes(range(256)) * 98  # large enough to be stored apart
DONE: list[str] = []
"""What was done outside, in this process."""


@dataclass
class Bill:
    """A structured output."""

    name: str
    amount: int
    notes: list[str]


@tool(effect="read")
async def look(ctx: Context) -> list[Any]:
    """Look."""
    return ["a picture", image(PICTURE)]


@tool(effect="read")
async def ask(ctx: Context) -> str:
    """Ask who it is."""
    return f"it is {(ctx.ask('question', 'Who is it?').data or {})['name']}"


@tool(effect="idempotent", retries=1)
async def put(ctx: Context, name: str) -> Any:
    """Put; the first attempt fails."""
    if ctx.attempt == 1:
        return ToolResult.failed("not yet", retryable=True, retry_after=0.01)
    DONE.append(f"put {name}")
    return f"put {name}"


@tool(effect="once", check=lambda ctx, arguments: None)
async def pay(amount: int) -> str:
    """Pay; a check says that it did not happen."""
    DONE.append(f"pay {amount}")
    return f"paid {amount}"


@tool(effect="once", on_unknown="ask")
async def order(amount: int) -> str:
    """Order; only a person knows whether that happened."""
    DONE.append(f"order {amount}")
    return f"ordered {amount}"


@tool(effect="once", approval=True, preview=lambda ctx, arguments: f"would send {arguments['text']}")
async def send(text: str) -> str:
    """Send, when somebody agrees."""
    DONE.append(f"send {text}")
    return f"sent {text}"


class Upper(Hooks):
    """Changes what is sent."""

    def before_tool(self, run: Any, call: Any, tool: Any, arguments: Any) -> Any:
        return {**arguments, "text": arguments["text"].upper()} if tool.name == "send" else None


def said(*turns: Any) -> Callable[[Any], Any]:
    """A model that keeps no state: what it says depends on what was said."""

    def model(request: Any) -> Any:
        found = turns[sum(isinstance(m, ModelMessage) for m in request.messages)]
        if isinstance(found, Exception):
            raise found
        return found

    return model


BILL = '{"name": "Ada", "amount": 5, "notes": ["paid"]}'
inner = Agent("inner", said([call("send", {"text": "inside"})], "inside is done"), tools=[send])
AGENTS: list[Agent[Any, Any]] = [
    Agent(
        "parallel",
        said([call("look"), call("put", {"name": "x"}), call("pay", {"amount": 3}), call("nobody")], "all is done"),
        tools=[look, put, pay],
    ),
    Agent("approval", said([call("send", {"text": "hello"}), call("ask")], "all is done"), tools=[send, ask], hooks=[Upper()]),
    Agent("unsettled", said([call("order", {"amount": 4})], "all is done"), tools=[order]),
    Agent("around", said([call("inner", {"input": "go"})], "all is done"), tools=[inner.as_tool()]),
    Agent("structured", said([call("pay", {"amount": 5})], BILL), tools=[pay], output=Bill),
    Agent("failing", said([call("look")], ValueError("the model is broken")), tools=[look]),
]  # fmt: skip

ENDS: dict[str, tuple[str, str, list[str]]] = {
    # how a run ends with today's code: its status, its output, and what is done outside from where the file leaves off
    "approval_answered": ("done", "all is done", ["send HELLO"]),
    "approval_done": ("done", "all is done", []),
    "approval_open": ("done", "all is done", ["send HELLO"]),
    "cancelled": ("cancelled", "", []),
    "failed": ("failed", "", []),
    "failing_open": ("failed", "", []),
    "once_unsettled_ask": ("done", "all is done", []),
    "once_unsettled_check": ("done", BILL, ["pay 5"]),
    "parallel_done": ("done", "all is done", []),
    "parallel_open": ("done", "all is done", ["pay 3", "put x"]),
    "started": ("done", "all is done", ["pay 3", "put x"]),
    "structured_done": ("done", BILL, []),
    "structured_open": ("done", BILL, []),
    "sub_agent_done": ("done", "all is done", []),
    "sub_agent_open": ("done", "all is done", ["send inside"]),
}


def decide(asked: Asked) -> Answer:
    """What an honest person answers to a request."""
    request: Request = restore(parse(asked.body))
    data = {"question": {"name": "Eve"}, "outcome": {"outcome": "happened", "value": "ordered 4"}}.get(request.kind)
    return Answer(asked.request_id, ok=True, digest=asked.digest, data=data)
