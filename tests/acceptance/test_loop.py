"""One agent, four APIs, whole and streamed: each kind of tool call there is, and equal transcripts at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.acceptance.playback import APIS, Turn, normalised, say, talk

from ferrule import Agent, Answer, Context, Request, ToolResult, image, tool
from ferrule.message import Usage, user
from ferrule.provider.base import Model

PNG = image(b"\x89PNG\r\n\x1a\n" + b"\0" * 30, mime_type="image/png")
each_api = pytest.mark.parametrize("api", APIS)
whole_or_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def desk(model: Model) -> Agent[Any, Any]:
    attempts: list[str] = []

    @tool(effect="read")
    async def get_stock(part: str) -> Any:
        """How many of a part there are; the first attempt finds the store busy."""
        attempts.append(part)
        if len(attempts) == 1:
            return ToolResult.failed("busy", code="unavailable", retryable=True, retry_after=0.0)
        return {"part": part, "attempts": len(attempts)}

    @tool(effect="read")
    async def draw(part: str) -> list[Any]:
        """Draw a part."""
        return [f"a drawing of {part}", PNG]

    @tool(effect="once")
    async def order(ctx: Context, part: str) -> str:
        """Order a part, after asking how many."""
        answer = ctx.ask("input", f"How many {part}s?")
        return f"{(answer.data or {})['count']} {part}s ordered"

    @tool(effect="read")
    def price(part: str) -> float:
        """The price of a part."""
        raise LookupError(f"no price for {part}")

    @tool(effect="read", timeout=0.05, retries=0)
    async def inspect(part: str) -> str:
        """Wait for somebody to look at a part."""
        await asyncio.Event().wait()
        return "never"

    tools = [get_stock, draw, order, price, inspect]
    return Agent("desk", model, instructions="Answer in one sentence.", tools=tools)


def asks(*names: str) -> Turn:
    return Turn("Let me see.", [(f"call_{n}", n, '{"part": "ring"}') for n in names])


TURNS = [asks("get_stock", "draw"), asks("price", "inspect", "order"), Turn("Three rings are ordered.")]
RING = {"part": "ring"}
TRANSCRIPT: list[Any] = [
    user("Order rings."),
    ("Let me see.", [("t1.0", "get_stock", RING), ("t1.1", "draw", RING)]),
    ("t1.0", '{"part":"ring","attempts":2}', False, 0),
    ("t1.1", "a drawing of ring\nimage (image/png, 38 bytes)", False, 1),
    ("Let me see.", [("t2.0", "price", RING), ("t2.1", "inspect", RING), ("t2.2", "order", RING)]),
    ("t2.0", "LookupError: no price for ring", True, 0),
    ("t2.1", "Tool 'inspect' timed out after 0.05 s. It was stopped.", True, 0),
    ("t2.2", "3 rings ordered", False, 0),
    ("Three rings are ordered.", []),
]


@each_api
@whole_or_streamed
def test_every_kind_of_call_ends_in_the_same_transcript(api: str, *, stream: bool) -> None:
    asked_people: list[Request] = []

    async def answer(request: Request) -> Answer:
        asked_people.append(request)
        return Answer(request.id, ok=True, data={"count": 3})

    answers = [say(api, turn, stream=stream) for turn in TURNS]
    result, asked = asyncio.run(talk(api, desk, answers, stream=stream, prompt="Order rings.", on_request=answer))
    assert normalised(result.messages) == TRANSCRIPT
    assert (result.status, result.output, result.value, result.error) == ("done", TURNS[-1].text, TURNS[-1].text, None)
    assert result.usage == Usage(input=30, output=6, requests=3, tool_calls=5, cached=result.usage.cached)
    assert [r.prompt for r in asked_people] == ["How many rings?"]
    assert len(asked) == 3
    assert PNG.data is not None
    assert [body.count(PNG.data) for body in (a.body.decode() for a in asked)] == [0, 1, 1]


@each_api
@whole_or_streamed
def test_a_question_that_nobody_answers_suspends_the_run_after_everything_else(api: str, *, stream: bool) -> None:
    answers = [say(api, turn, stream=stream) for turn in TURNS]
    result, asked = asyncio.run(talk(api, desk, answers, stream=stream, prompt="Order rings."))
    assert (result.status, result.value, result.error) == ("suspended", None, None)
    assert [(r.id, r.kind, r.prompt) for r in result.requests] == [("t2.2/1", "input", "How many rings?")]
    assert normalised(result.messages) == TRANSCRIPT[:5]
    assert len(asked) == 2


@each_api
@whole_or_streamed
def test_a_transcript_of_one_api_goes_on_over_each_other(api: str, *, stream: bool) -> None:
    """What one provider said in its own form is sent to another in that one's form."""

    async def answer(request: Request) -> Answer:
        return Answer(request.id, ok=True, data={"count": 3})

    async def both() -> None:
        answers = [say(api, turn, stream=stream) for turn in TURNS]
        first, _ = await talk(api, desk, answers, stream=stream, prompt="Order rings.", on_request=answer)
        for other in APIS:
            last = [say(other, Turn("You are welcome."), stream=stream)]
            result, (asked,) = await talk(other, desk, last, stream=stream, prompt="Thanks.", history=first.messages)
            assert normalised(result.messages) == [*TRANSCRIPT, user("Thanks."), ("You are welcome.", [])]
            assert "3 rings ordered" in asked.body.decode()

    asyncio.run(both())
