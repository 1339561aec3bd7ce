"""The same agent over each API, against a real server: the calls are made, and the transcripts are equal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.acceptance.playback import APIS, KEY, Turn, example, normalised, say, stream_of, talk
from tests.unit.provider.server import Answer, answer, events

from ferrule import Agent, ModelError, image, tool
from ferrule.message import ModelMessage, ToolMessage, user
from ferrule.provider.base import Model

PIXEL = image(b"\x89PNG\r\n\x1a\n" + b"\0" * 30, mime_type="image/png")
PROMPT = "Compare Oslo and Rome."


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: City name
    """
    if city == "Rome":
        raise LookupError("the station did not answer")
    return "4 degrees, rain"


@tool(effect="read")
async def read_chart() -> list[Any]:
    """Return the current chart."""
    return ["chart ready", PIXEL]


def desk(model: Model) -> Agent[Any, Any]:
    return Agent("desk", model, instructions="Answer in one sentence.", tools=[get_weather, read_chart])


@pytest.mark.parametrize("api", APIS)
def test_the_same_agent_comes_to_the_same_transcript_over_each_api(api: str) -> None:
    answers = answer(example(api, "response-tool-calls.json")), say(api, Turn("Rain."))
    result, asked = asyncio.run(talk(api, desk, answers, prompt=PROMPT))
    assert (result.status, result.output) == ("done", "Rain.")
    told = normalised(result.messages)
    assert told[0] == user(PROMPT)
    assert [c[:2] for c in told[1][1]] == [("t1.0", "get_weather"), ("t1.1", "get_weather")]
    assert told[2:] == [
        ("t1.0", "4 degrees, rain", False, 0),
        ("t1.1", "LookupError: the station did not answer", True, 0),
        ("Rain.", []),
    ]
    assert len(asked) == 2
    assert "4 degrees, rain" in asked[1].body.decode()
    assert result.usage.requests == 2


@pytest.mark.parametrize("api", APIS)
def test_a_streamed_answer_is_the_same_as_a_whole_one(api: str) -> None:
    answers = stream_of(api, "stream-parallel.jsonl"), Answer(400, body=[b'{"error": {"message": "enough"}}'])
    result, asked = asyncio.run(talk(api, desk, answers, stream=True))
    calls = next(m for m in result.messages if isinstance(m, ModelMessage)).calls
    assert [(c.id, c.name) for c in calls] == [(f"t1.{i}", c.name) for i, c in enumerate(calls)]
    assert len(calls) >= 2
    assert [m.call.id for m in result.messages if isinstance(m, ToolMessage)] == [c.id for c in calls]
    assert (result.status, len(asked)) == ("failed", 2)
    assert isinstance(result.error, ModelError)
    assert result.error.status == 400


@pytest.mark.parametrize("api", APIS)
def test_an_image_of_a_tool_reaches_each_api(api: str) -> None:
    shown = example(api, "response-tool-calls.json")
    text = json.dumps(shown).replace("get_weather", "read_chart")
    for city in ("Oslo", "Rome"):
        text = text.replace(json.dumps({"city": city}), "{}").replace(f'{{\\"city\\":\\"{city}\\"}}', "{}")
    answers = answer(json.loads(text)), say(api, Turn("Rain."))
    result, asked = asyncio.run(talk(api, desk, answers))
    assert result.status == "done"
    assert [len(m.parts) for m in result.messages if isinstance(m, ToolMessage)] == [1, 1]
    assert PIXEL.data is not None
    assert asked[1].body.decode().count(PIXEL.data) == 2


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("said", "status"),
    [
        (Answer(401, body=[b'{"error": {"message": "bad key FAKE-key-of-the-test"}}']), 401),
        (Answer(404, body=[b'{"error": {"message": "no such model"}}']), 404),
        (Answer(413, body=[b"<html>too large</html>"]), 413),
        (Answer(200, body=[b"<html>hello</html>"]), 200),
        (Answer(200, body=[b'{"choices": 5, "output": 5, "content": 5, "candidates": 5}']), None),
    ],
)
def test_a_refusal_is_a_typed_error_that_tells_no_secret(api: str, said: Answer, status: int | None) -> None:
    result, _ = asyncio.run(talk(api, desk, [said], prompt=PROMPT))
    error = result.error
    assert result.status == "failed"
    assert isinstance(error, ModelError)
    assert error.status in (status, None)
    for secret in (KEY, PROMPT, "Answer in one sentence"):
        assert secret not in str(error)
        assert secret not in repr(error)


LONG = "x" * 285 + KEY + " and so on"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_not_even_half_a_key_stands_in_an_error(api: str, *, stream: bool) -> None:
    body = {"error": {"message": LONG, "type": "server_error", "code": "c"}, "type": "error"}
    for said in (
        events(body) if stream else answer(body),
        answer(body, 500, x_should_retry="false"),
        answer(body, 400),
    ):
        result, _ = asyncio.run(talk(api, desk, [said], stream=stream))
        assert result.status == "failed"
        assert KEY[:8] not in str(result.error)
