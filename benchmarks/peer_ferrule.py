"""ferrule in the shared harness: validation, a deadline per call and events on, through the public API."""

from __future__ import annotations

import os
from typing import Any, ClassVar

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
)

from ferrule import Agent, Event, Limits, Part, image, tool
from ferrule.message import Call, ModelMessage, ToolMessage
from ferrule.provider.base import ModelResponse
from ferrule.provider.function import FunctionModel


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


def declared(name: str, max_output: int | None) -> Any:
    """The tool, declared as a user would."""
    return tool(name=name, max_output=max_output)({**ASYNC_TOOLS, "image": image_tool}[name])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "")
    main(Ferrule)
