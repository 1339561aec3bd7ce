"""The same agent over each API, against a real server: the calls are made, and the transcripts are equal."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.acceptance.playback import APIS, KEY, NAMES, Turn, example, model, normalised, say, stream_of, talk
from tests.unit.provider.server import Answer, Server, answer, closed_port, events

from ferrule import Agent, ModelError, audio, file, image, tool
from ferrule.message import Call, ModelMessage, ToolMessage, user
from ferrule.provider.base import Model, ModelRequest

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


REPORT = file(b"%PDF-1.4\n" + b"\0" * 30, mime_type="application/pdf", name="report.pdf")
SOUND = audio(b"RIFF\0\0\0\0WAVE" + b"\0" * 30, mime_type="audio/wav", name="call.wav")


@tool(effect="read")
async def read_all() -> list[Any]:
    """Return a picture, a report and a sound."""
    return ["all of it", PIXEL, REPORT, SOUND]


def desk(model: Model) -> Agent[Any, Any]:
    return Agent("desk", model, instructions="Answer in one sentence.", tools=[get_weather, read_chart, read_all])


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


# Whole answers of Messages and all of Gemini hold objects, which cannot be cut.
TEXTS = [
    *((api, stream) for api in ("openai-chat", "openai-responses") for stream in (False, True)),
    ("anthropic", True),
]


@pytest.mark.parametrize("arguments", ['{"city": "Os', '{"city": "Oslo"', '{"city": ["Oslo"'])
@pytest.mark.parametrize(("api", "stream"), TEXTS)
def test_a_call_that_looks_cut_ends_the_run_though_the_server_says_that_it_is_whole(
    api: str, stream: bool, arguments: str
) -> None:
    turn = Turn(calls=[("c1", "get_weather", '{"city": "Rome"}'), ("c2", "get_weather", arguments)])
    result, asked = asyncio.run(talk(api, desk, [say(api, turn, stream=stream)], stream=stream))
    assert (result.status, result.reason, len(asked)) == ("incomplete", "length", 1)
    assert [m.output[:12] for m in result.messages if isinstance(m, ToolMessage)] == ["Not executed"] * 2


# -- what goes wrong before there is an answer ------------------------------------------------------------------

SAID = {"x-request-id": "req_1", "request-id": "req_1"}
HTML = b"<html><head><title>Bad Gateway</title></head></html>"


def refusal(
    api: str, status: int, type: str, message: str, code: str | None = None, cause: str | None = None
) -> Answer:
    """An error as the API's own server writes it; `cause` is Google's."""
    info = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": cause}] if cause else []
    bodies: dict[str, Any] = {
        "anthropic": {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"},
        "gemini": {"error": {"code": status, "message": message, "status": type.upper(), "details": info}},
    }
    chat = {"error": {"message": message, "type": type, "param": None, "code": code}}
    return Answer(status, {**SAID, "content-type": "application/json"}, [json.dumps(bodies.get(api, chat)).encode()])


def page(status: int, body: bytes, kind: str = "text/html") -> Answer:
    return Answer(status, {**SAID, "content-type": kind}, [body])


TOO_LONG = {
    "anthropic": "prompt is too long: 213413 tokens > 200000 maximum",
    "gemini": "The input token count (1234567) exceeds the maximum number of tokens allowed (1048576).",
    "openai-chat": "This model's maximum context length is 128000 tokens. Please reduce the length of the messages.",
    "openai-responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
}
# What the server says; status; whether asking again may help; what the error must tell.
BAD: dict[str, tuple[Callable[[str], Answer], tuple[int | None, bool, str]]] = {
    "wrong key": (
        lambda api: refusal(api, 401, "authentication_error", f"Incorrect API key provided: {KEY}.", "invalid_api_key"),
        (401, False, r"key .*Check"),
    ),
    "wrong key by another status": (
        lambda api: refusal(api, 400, "invalid_argument", "API key not valid.", "invalid_api_key", "API_KEY_INVALID"),
        (400, False, r"the key was not accepted\. Check the key"),
    ),
    "unknown model by another status": (
        lambda api: refusal(api, 400, "invalid_request_error", "The model 'm' does not exist.", "model_not_found"),
        (400, False, r"Check the model's name and the base URL"),
    ),
    "unknown model": (
        lambda api: refusal(api, 404, "not_found_error", "model: example-model", "model_not_found"),
        (404, False, r"Check the model's name and the base URL"),
    ),
    "too long": (
        lambda api: refusal(api, 400, "invalid_request_error", TOO_LONG[api], "context_length_exceeded"),
        (400, False, r"the transcript is too long for the model\. Shorten it"),
    ),
    "the prompt in the sentence": (
        lambda api: refusal(api, 400, "invalid_request_error", f"cannot read: {PROMPT} Answer in one sentence."),
        (400, False, r"the request was refused"),
    ),
    "too large": (lambda api: refusal(api, 413, "request_too_large", "too large"), (413, False, r"too large")),
    "too many": (lambda api: refusal(api, 429, "rate_limit_error", "slow down"), (429, True, r"too many requests")),
    "page of a proxy": (lambda api: page(502, HTML), (502, True, r"the server failed")),
    "page instead of a refusal": (
        lambda api: page(404, HTML),
        (404, False, r"Check the model's name and the base URL"),
    ),
    "page instead of an answer": (
        lambda api: page(200, HTML),
        (200, False, r"is no JSON \(text/html, 52 bytes\)\. Check the base URL: <html>"),
    ),
    "half an answer": (
        lambda api: page(200, b'{"half": "an ans', "application/json"),
        (200, False, r"is no JSON \(application/json, 16 bytes\)\. Check the base URL, or ask again \["),
    ),
    "another answer": (lambda api: page(200, b"[1]", "application/json"), (200, False, r"answer.*Check .*base URL")),
    "no answer": (
        lambda api: page(200, b"", "application/json"),
        (200, True, r"the answer is empty\. Check the base URL"),
    ),
}


async def asked_alone(model: Model, stream: bool) -> ModelError:
    """The error of one request that tells secrets, without the retries of a run."""
    secret = Call("t1.0", "pay", '{"iban": "DE00-secret-iban"}')
    said = [user(PROMPT), ModelMessage("", (secret,)), ToolMessage(secret, "secret result")]
    request = ModelRequest(said, "Answer in one sentence.")
    asked = _drained(model.stream(request)) if stream else model.generate(request)
    with pytest.raises(ModelError) as caught:
        await asked
    return caught.value


async def _drained(pieces: AsyncIterator[Any]) -> None:
    async for _ in pieces:
        pass


def tells_no_secret(error: ModelError) -> None:
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    for secret in (KEY, PROMPT, "Answer in one", "secret-iban", "secret result"):
        assert secret not in told


each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.mark.parametrize("api", APIS)
def test_image_pdf_and_audio_of_a_tool_reach_each_api_or_are_told_to_be_missing(api: str) -> None:
    turns = [Turn(calls=[("c1", "read_all", "{}")]), Turn("Rain.")]
    result, asked = asyncio.run(talk(api, desk, [say(api, turn) for turn in turns], prompt=PROMPT))
    assert result.status == "done"
    sent = asked[1].body.decode()
    for part, arrives in ((PIXEL, True), (REPORT, True), (SOUND, api == "gemini")):
        assert sent.count(part.data or "") == arrives
    assert sent.count("[unsupported audio part (audio/wav") == (api != "gemini")
    assert sent.count("all of it") == 1


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("bad", BAD)
@each_way
def test_what_a_server_says_wrong_is_a_typed_error_that_tells_what_to_do_and_no_secret(
    api: str, bad: str, *, stream: bool
) -> None:
    says, (status, again, text) = BAD[bad]

    async def main() -> ModelError:
        async with Server(says(api)) as server:
            return await asked_alone(model(api, server.url), stream)

    error = asyncio.run(main())
    assert error.provider == NAMES[api]
    assert (error.status, error.request_id, error.retryable) == (status, "req_1", again)
    assert re.search(text, str(error)), str(error)
    tells_no_secret(error)


@pytest.mark.parametrize("api", APIS)
@each_way
def test_no_network_is_a_typed_error_that_names_the_host(
    api: str, *, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: Any, *rest: Any, **options: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    async def main() -> list[ModelError]:
        async with closed_port() as port:
            refused = await asked_alone(model(api, f"http://127.0.0.1:{port}"), stream)
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        return [refused, await asked_alone(model(api, "https://nowhere.invalid/v1"), stream)]

    for error, host in zip(asyncio.run(main()), ("127.0.0.1", "nowhere.invalid"), strict=True):
        assert (error.provider, error.status, error.request_id, error.retryable) == (NAMES[api], None, None, True)
        assert re.search(rf"{host}: no connection \(.+\)\. Check the network and the base URL", str(error))
        tells_no_secret(error)


@pytest.mark.parametrize("api", APIS)
@each_way
def test_a_run_that_meets_one_of_them_fails_with_it_and_keeps_what_was_done(api: str, *, stream: bool) -> None:
    first = say(api, Turn(calls=[("c1", "read_chart", "{}")]), stream=stream)
    says, _ = BAD["wrong key"]
    result, asked = asyncio.run(talk(api, desk, [first, says(api)], stream=stream, prompt=PROMPT))
    assert (result.status, len(asked)) == ("failed", 2)
    assert isinstance(result.error, ModelError)
    assert [m.call.name for m in result.messages if isinstance(m, ToolMessage)] == ["read_chart"]
    with pytest.raises(ModelError) as caught:
        result.raise_for_status()
    assert caught.value is result.error
    tells_no_secret(caught.value)


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
