"""The same agent over each API, against a real server: the calls are made, and the transcripts are equal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.provider.server import Answer, Asked, Server, answer, events

from ferrule import Agent, ModelError, RunResult, audio, file, image, tool
from ferrule.message import Message, ModelMessage, ToolMessage, user
from ferrule.provider import presets

EXAMPLES = Path(__file__).parent.parent / "unit" / "provider" / "examples"
KEY = "FAKE-key-of-the-test"
PIXEL = image(b"\x89PNG\r\n\x1a\n" + b"\0" * 30, mime_type="image/png")
TEXTS: dict[str, Any] = {
    "openai-chat": {
        "id": "c",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Rain."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
    },
    "openai-responses": {
        "id": "r",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Rain.", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 10, "output_tokens": 2},
    },
    "anthropic": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "Rain."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 2},
    },
    "gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Rain."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2},
    },
}
NAMES = {"openai-chat": "openai-chat", "openai-responses": "openai", "anthropic": "anthropic", "gemini": "gemini"}
APIS = list(TEXTS)


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


REPORT = file(b"%PDF-1.4\n" + b"\0" * 30, mime_type="application/pdf", name="report.pdf")
SOUND = audio(b"RIFF\0\0\0\0WAVE" + b"\0" * 30, mime_type="audio/wav", name="call.wav")


@tool(effect="read")
async def read_all() -> list[Any]:
    """Return a picture, a report and a sound."""
    return ["all of it", PIXEL, REPORT, SOUND]


def example(api: str, name: str) -> Any:
    return json.loads((EXAMPLES / api / name).read_text(encoding="utf-8"))


def stream_of(api: str, name: str) -> Answer:
    lines = (EXAMPLES / api / name).read_text(encoding="utf-8").splitlines()
    return events(*(json.loads(line) for line in lines if line.strip()), done=api == "openai-chat")


async def talk(api: str, *answers: Answer, stream: bool = False) -> tuple[RunResult[Any], list[Asked]]:
    async with Server(*answers) as server:
        model = presets.model(f"{NAMES[api]}:example-model", base_url=server.url, key=KEY)
        agent = Agent("desk", model, instructions="Answer in one sentence.", tools=[get_weather, read_chart, read_all])
        if not stream:
            return await agent.run("Compare Oslo and Rome."), server.asked
        async with agent.stream("Compare Oslo and Rome.") as heard:
            async for _ in heard:
                pass
        return heard.result, server.asked


def normalised(messages: Any) -> list[Any]:
    """A transcript without what only its provider knows."""

    def of(message: Message) -> Any:
        if isinstance(message, ModelMessage):
            return message.text, [(c.id, c.name, json.loads(c.arguments)) for c in message.calls]
        if isinstance(message, ToolMessage):
            return message.call.id, message.output, message.is_error, len(message.parts)
        return message

    return [of(m) for m in messages]


@pytest.mark.parametrize("api", APIS)
def test_the_same_agent_comes_to_the_same_transcript_over_each_api(api: str) -> None:
    result, asked = asyncio.run(talk(api, answer(example(api, "response-tool-calls.json")), answer(TEXTS[api])))
    assert (result.status, result.output) == ("done", "Rain.")
    told = normalised(result.messages)
    assert told[0] == user("Compare Oslo and Rome.")
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
    result, asked = asyncio.run(talk(api, *answers, stream=True))
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
    result, asked = asyncio.run(talk(api, answer(json.loads(text)), answer(TEXTS[api])))
    assert result.status == "done"
    assert [len(m.parts) for m in result.messages if isinstance(m, ToolMessage)] == [1, 1]
    assert PIXEL.data is not None
    assert asked[1].body.decode().count(PIXEL.data) == 2


@pytest.mark.parametrize("api", APIS)
def test_image_pdf_and_audio_of_a_tool_reach_each_api_or_are_told_to_be_missing(api: str) -> None:
    text = json.dumps(example(api, "response-tool-calls.json")).replace("get_weather", "read_all")
    for city in ("Oslo", "Rome"):
        text = text.replace(json.dumps({"city": city}), "{}").replace(f'{{\\"city\\":\\"{city}\\"}}', "{}")
    result, asked = asyncio.run(talk(api, answer(json.loads(text)), answer(TEXTS[api])))
    assert result.status == "done"
    sent = asked[1].body.decode()
    for part, arrives in ((PIXEL, True), (REPORT, True), (SOUND, api == "gemini")):
        assert sent.count(part.data or "") == (2 if arrives else 0)
    assert sent.count("[unsupported audio part (audio/wav") == (0 if api == "gemini" else 2)
    assert sent.count("all of it") == 2


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("said", "status"),
    [
        (Answer(401, body=[b'{"error": {"message": "bad key FAKE-key-of-the-test"}}']), 401),
        (Answer(404, body=[b'{"error": {"message": "no such model"}}']), 404),
        (
            Answer(
                400, body=[b'{"error": {"message": "cannot read: Compare Oslo and Rome. Answer in one sentence."}}']
            ),
            400,
        ),
        (Answer(413, body=[b"<html>too large</html>"]), 413),
        (Answer(200, body=[b"<html>hello</html>"]), 200),
        (Answer(200, body=[b'{"choices": 5, "output": 5, "content": 5, "candidates": 5}']), None),
    ],
)
def test_a_refusal_is_a_typed_error_that_tells_no_secret(api: str, said: Answer, status: int | None) -> None:
    result, _ = asyncio.run(talk(api, said))
    error = result.error
    assert result.status == "failed"
    assert isinstance(error, ModelError)
    assert error.status in (status, None)
    for secret in (KEY, "Compare Oslo", "Answer in one sentence"):
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
        result, _ = asyncio.run(talk(api, said, stream=stream))
        assert result.status == "failed"
        assert KEY[:8] not in str(result.error)
