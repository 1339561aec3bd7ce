"""Streams of each API from a real server: cut anywhere, in pieces of any size, longer than anybody can read at once."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.acceptance.playback import APIS, KEY, NAMES, Turn, body_of, normalised, say, stream_of
from tests.unit.provider.server import Answer, Server

from ferrule import Agent, ModelError, RunResult, tool
from ferrule.message import ModelMessage, ToolMessage, user
from ferrule.provider import presets
from ferrule.provider.base import ModelRequest
from ferrule.provider.http.model import WireModel

RAIN = Turn("Rain.")

DONE = b"data: [DONE]\n\n"
ENOUGH = Answer(400, body=[b'{"error": {"message": "enough"}}'])
CALLED: list[str] = []


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
        city: City name
    """
    CALLED.append(city)
    return "rain"


def model(api: str, server: Server) -> WireModel:
    made = presets.model(f"{NAMES[api]}:example-model", base_url=server.url, key=KEY)
    assert isinstance(made, WireModel)
    return made


def whole(api: str) -> bytes:
    return b"".join(piece for piece in stream_of(api, "stream-parallel.jsonl").body if isinstance(piece, bytes))


async def heard(agent: Agent[Any, Any]) -> RunResult[Any]:
    async with agent.stream("Compare Oslo and Rome.") as events:
        async for _ in events:
            pass
    return events.result


# -- cuts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["cut", "reset"])
@pytest.mark.parametrize("api", APIS)
def test_a_stream_cut_at_any_byte_is_a_typed_error_and_executes_nothing(api: str, ending: Any) -> None:
    """A closed connection where chunks or an announced length promise more, in turns from byte to byte."""
    stream = whole(api)
    step = 1 if ending == "cut" else 97
    cuts = range(stream.index(b"\n\n") + 2, len(stream), step)  # before the first event it is asked for again
    CALLED.clear()

    async def main() -> list[RunResult[Any]]:
        framings: list[Any] = ["chunked", "length"]
        replies = [
            Answer(200, {"content-type": "text/event-stream"}, [stream], framings[cut % 2], ending, cut) for cut in cuts
        ]
        async with Server(*replies) as server:
            agent = Agent("desk", model(api, server), tools=[get_weather])
            results = [await heard(agent) for _ in cuts]
            assert len(server.asked) == len(cuts)
            return results

    for cut, result in zip(cuts, asyncio.run(main()), strict=True):
        assert (result.status, type(result.error)) == ("failed", ModelError), cut
        assert [m for m in result.messages if isinstance(m, ToolMessage) and not m.is_error] == [], cut
        assert not any(call.complete for m in result.messages if isinstance(m, ModelMessage) for call in m.calls), cut
    assert CALLED == []


@pytest.mark.parametrize("api", APIS)
def test_a_stream_cut_before_its_first_event_may_be_asked_for_again(api: str) -> None:
    stream = whole(api)
    cuts = range(stream.index(b"\n\n") + 2)

    async def main() -> list[bool]:
        replies = [Answer(200, {"content-type": "text/event-stream"}, [stream], "chunked", "cut", cut) for cut in cuts]
        found: list[bool] = []
        async with Server(*replies) as server:
            for _ in cuts:
                with pytest.raises(ModelError) as caught:
                    await anext(model(api, server).stream(ModelRequest((user("hi"),))))
                found.append(caught.value.retryable)
        return found

    assert [True] * len(cuts) == asyncio.run(main())


@pytest.mark.parametrize("api", APIS)
def test_a_whole_answer_cut_at_any_byte_is_a_typed_error(api: str) -> None:
    body = json.dumps(body_of(api, RAIN)).encode()

    async def main() -> list[str]:
        replies = [
            Answer(200, {"content-type": "application/json"}, [body], framing, "cut", cut)
            for framing in ("length", "chunked")
            for cut in range(len(body))
        ]
        found: list[str] = []
        async with Server(*replies) as server:
            for _ in replies:
                with pytest.raises(ModelError) as caught:
                    await model(api, server).generate(ModelRequest((user("hi"),)))
                found.append(caught.value.reason)
        return found

    assert {"127.0.0.1: the connection was closed or the answer is no HTTP"} == set(asyncio.run(main()))


@pytest.mark.parametrize("size", [1, 2, 7, 4096])
@pytest.mark.parametrize("api", APIS)
def test_pieces_of_any_size_add_up_to_the_same(api: str, size: int) -> None:
    async def talk(first: Answer, last: Answer) -> list[Any]:
        async with Server(first, last) as server:
            result = await heard(Agent("desk", model(api, server), tools=[get_weather]))
            assert result.status == "done"
            return normalised(result.messages)

    def cut(given: Answer) -> Answer:
        body = b"".join(piece for piece in given.body if isinstance(piece, bytes))
        return replace(given, body=[body[at : at + size] for at in range(0, len(body), size)], framing="chunked")

    first, last = stream_of(api, "stream-parallel.jsonl"), say(api, RAIN)
    assert asyncio.run(talk(cut(first), cut(last))) == asyncio.run(talk(first, last))


# -- floods -----------------------------------------------------------------------------------------------------

PIECES = 20_000
FILLER = "x" * 500
Made = tuple[list[Any], Callable[[str], Any], Callable[[str], list[Any]]]


def chat(delta: Any, finish: str | None = None) -> Any:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def block(kind: str, **more: Any) -> Any:
    return {"type": f"content_block_{kind}", "index": 0, **more}


def candidate(text: str, **more: Any) -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}]}


def responses_end(text: str) -> list[Any]:
    said: Any = {"type": "output_text", "text": text, "annotations": []}
    item: Any = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}
    return [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}},
    ]


FLOODS: dict[str, Made] = {
    "openai-chat": ([], lambda text: chat({"content": text}), lambda _: [chat({}, "stop")]),
    "openai-responses": (
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []},
            },
        ],
        lambda text: {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "delta": text,
        },
        responses_end,
    ),
    "anthropic": (
        [
            {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
            block("start", content_block={"type": "text", "text": ""}),
        ],
        lambda text: block("delta", delta={"type": "text_delta", "text": text}),
        lambda _: [
            block("stop"),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ],
    ),
    "gemini": ([], candidate, lambda _: [candidate("", finishReason="STOP")]),
}


def flood(api: str) -> tuple[Answer, str]:
    """A stream of many pieces in reads that begin and end inside events, and all that it says."""
    head, piece, tail = FLOODS[api]
    texts = [f"{n} {FILLER} " for n in range(PIECES)]
    said = "".join(texts)
    values = [*head, *map(piece, texts), *tail(said)]
    stream = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)
    stream += DONE if api == "openai-chat" else b""
    reads = [stream[at : at + 1700] for at in range(0, len(stream), 1700)]
    return Answer(200, {"content-type": "text/event-stream"}, reads, "chunked"), said


@pytest.mark.parametrize("api", APIS)
def test_a_flood_reaches_a_slow_reader_byte_for_byte_and_nothing_piles_up(api: str) -> None:
    """What is held beyond the text itself stays the same however long the stream is, and however far ahead it is."""
    given, said = flood(api)
    held: list[int] = []

    async def main() -> tuple[list[str], RunResult[Any]]:
        texts: list[str] = []
        size = 0
        async with Server(say(api, RAIN), given) as server:
            agent = Agent("desk", model(api, server))
            await agent.run("go")  # what is imported and made once does not count
            tracemalloc.start()
            async with agent.stream("go") as events:
                async for event in events:
                    if event.type != "text":
                        continue
                    texts.append(event.text)
                    size += len(event.text) + 49 + 8  # what Python adds to a text, and its place in a list
                    if len(texts) % 1000 == 500:
                        for _ in range(200):  # the server, the socket and the run go on as far as they may
                            await asyncio.sleep(0)
                        held.append(tracemalloc.get_traced_memory()[0] - size)
        return texts, events.result

    try:
        texts, result = asyncio.run(main())
    finally:
        tracemalloc.stop()
    assert (result.status, len(texts)) == ("done", PIECES)
    assert "".join(texts) == said == result.output
    assert len(held) == PIECES // 1000
    assert max(held) < 1_000_000
