"""ferrule in the shared harness: validation, a deadline per call and events on, through the public API."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import httpx2
from common import (  # pyright: ignore  # found through PYTHONPATH, which the harness sets
    ASYNC_TOOLS,
    CALLS,
    FINAL,
    IMAGE,
    SYSTEM,
    USER,
    Peer,
    main,
    next_calls,
    sse_answer,
)

from ferrule import Agent, Event, Limits, Part, image, tool
from ferrule.message import Call, ModelMessage, ToolMessage
from ferrule.provider import presets
from ferrule.provider.base import ModelResponse
from ferrule.provider.function import FunctionModel
from ferrule.provider.http import pool


async def image_tool(a: int, b: int) -> list[str | Part]:
    """Return an image.

    Args:
        a: first number
        b: second number
    """
    CALLS[0] += 1
    return ["see image", image(IMAGE)]


def heard(event: Event) -> None:
    """Events are on: somebody listens."""


class Ferrule(Peer):
    """Cases A to E, H and M."""

    name = "ferrule"
    dists: ClassVar = ["ferrule"]
    import_statement = "from ferrule import Agent, ToolResult, tool"
    durable_modes: ClassVar = []
    tuned: ClassVar = {"H": "default"}

    def agent(self, *, tool: str = "add", rounds: int = 50, calls: int = 1) -> Any:
        """A fresh run of the scripted model with one tool."""
        lifted = None if self.opts.case == "H" and self.opts.mode != "default" else 50_000
        made = declared(tool, lifted)

        async def model(request: Any) -> ModelResponse:
            last = request.messages[-1]
            plan = next_calls(last.call.wire_id if isinstance(last, ToolMessage) else None, rounds, calls)
            if plan is None:
                return ModelResponse(ModelMessage(FINAL))
            asked = tuple(Call("", tool, arguments, id) for id, arguments in plan)
            return ModelResponse(ModelMessage("", asked), "tool_calls")

        agent = Agent(
            "bench",
            FunctionModel(model),
            instructions=SYSTEM,
            tools=[made],
            limits=Limits(turns=None, turn_output=None),
        )

        async def run() -> str:
            return (await agent.run(USER, on_event=heard)).output

        return run

    def stream(self, *, events: int) -> Any:
        """A run that is listened to, over the whole HTTP layer; only the socket is missing."""
        reads = sse_answer(events)
        # A socket would measure the kernel and another process; nothing public stands in for one.
        pool._transport = lambda _: Scripted(reads)  # pyright: ignore
        model = presets.model("openai-chat:fake", base_url="http://127.0.0.1:9/v1", key="no-key-at-all")
        agent = Agent("bench", model, instructions=SYSTEM)

        async def run() -> str:
            parts: list[str] = []
            async with agent.stream(USER) as heard:
                async for event in heard:
                    if event.type == "text":
                        CALLS[0] += 1
                        parts.append(event.text)
            return "".join(parts)

        return run


class Scripted(httpx2.AsyncBaseTransport):
    """Answers each request with the same reads."""

    def __init__(self, reads: list[bytes]) -> None:
        """Keep the reads."""
        self.reads = reads

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The head now, the reads one by one."""
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Reads(self.reads))


class Reads(httpx2.AsyncByteStream):
    """What a socket would give, read by read."""

    def __init__(self, reads: list[bytes]) -> None:
        """Keep the reads."""
        self.reads = reads

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Go through the reads."""
        for read in self.reads:
            yield read


def declared(name: str, max_output: int | None) -> Any:
    """The tool, declared as a user would."""
    return tool(name=name, max_output=max_output)({**ASYNC_TOOLS, "image": image_tool}[name])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "")
    main(Ferrule)
