"""ferrule in the shared harness: validation, a deadline per call and events on, through the public API."""

from __future__ import annotations

import contextlib
import os
import sqlite3
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

from ferrule import Agent, Event, Limits, Part, image
from ferrule import tool as declare
from ferrule.app import App
from ferrule.journal.sqlite import SqliteStore
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
    """Cases A to F, H, K, L and M."""

    name = "ferrule"
    dists: ClassVar = ["ferrule"]
    import_statement = "from ferrule import Agent, ToolResult, tool"
    durable_modes: ClassVar = ["NORMAL", "FULL"]
    tuned: ClassVar = {"H": "default"}

    def agent(self, *, tool: str = "add", rounds: int = 50, calls: int = 1) -> Any:
        """A fresh run of the scripted model with one tool."""
        lifted = None if self.opts.case == "H" and self.opts.mode != "default" else 50_000
        agent = scripted(declared(tool, lifted), tool, rounds, calls)

        async def run() -> str:
            return (await agent.run(USER, on_event=heard)).output

        return run

    def durable(self, *, rounds: int, path: str, mode: str) -> Any:
        """The same in an SQLite file, as the default class of tools has it: an intent is durable before its call."""
        agent = scripted(declared("add", 50_000), "add", rounds, 1)
        app = App(agents=[agent], store=SqliteStore(path, durability="power" if mode == "FULL" else "process"))
        self.working = None

        async def run() -> str:
            if self.working is None:  # the store is opened once, as an application does
                self.working = app.working(takes=False)
                await self.working.__aenter__()
            return (await app.run("bench", USER, on_event=heard)).output

        return run

    def stored(self, path: str) -> int:
        """How many tool results the file holds."""
        with contextlib.closing(sqlite3.connect(path)) as db:
            return db.execute("SELECT count(*) FROM records WHERE type = 'tool.settled'").fetchone()[0]

    def parked(self, *, rounds: int, path: str, mode: str) -> Any:
        """A run that waits for a person after so many rounds, and its transcript from a fresh connection."""

        def app() -> App:
            agent = scripted(declared("add", 50_000), "add", rounds + 1, 1, asks_at=rounds)
            return App(agents=[agent], store=SqliteStore(path, durability="power" if mode == "FULL" else "process"))

        async def park() -> str:
            result = await app().run("bench", USER)
            assert result.status == "suspended", result.describe()
            return result.run_id

        async def rebuild(handle: str) -> int:
            async with app().working(takes=False) as worker:
                result = await worker.result(handle)
                assert len(result.requests) == 1
                return sum(isinstance(m, ToolMessage) for m in result.messages)

        return park, rebuild

    async def aclose(self) -> None:
        """Close the store, if one is open."""
        if getattr(self, "working", None) is not None:
            await self.working.__aexit__(None, None, None)

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


def scripted(made: Any, tool: str, rounds: int, calls: int, asks_at: int | None = None) -> Any:
    """An agent whose model calls one tool so many times; the call of the round `asks_at` is put to a person."""

    async def model(request: Any) -> ModelResponse:
        last = request.messages[-1]
        plan = next_calls(last.call.wire_id if isinstance(last, ToolMessage) else None, rounds, calls)
        if plan is None:
            return ModelResponse(ModelMessage(FINAL))
        name = "asks" if asks_at is not None and plan[0][0] == f"call_{asks_at}_0" else tool
        asked = tuple(Call("", name, arguments, id) for id, arguments in plan)
        return ModelResponse(ModelMessage("", asked), "tool_calls")

    return Agent(
        "bench",
        FunctionModel(model),
        instructions=SYSTEM,
        tools=[made, declare(name="asks", approval=True)(ASYNC_TOOLS["add"])],
        limits=Limits(turns=None, turn_output=None),
    )


def declared(name: str, max_output: int | None) -> Any:
    """The tool, declared as a user would."""
    return declare(name=name, max_output=max_output)({**ASYNC_TOOLS, "image": image_tool}[name])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "")
    main(Ferrule)
