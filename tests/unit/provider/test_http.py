"""A model behind HTTP, against a real server: one attempt, honest failures, and no key anywhere but in its header."""

from __future__ import annotations

import asyncio
import copy
import gc
import gzip
import json
import logging
import traceback
import tracemalloc
import warnings
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

import httpx2
import pytest
from tests.clock import run
from tests.unit.provider.adapters import WIRES, Said, stream_of
from tests.unit.provider.fake import FakeWire
from tests.unit.provider.server import Answer, Asked, Gate, Server, answer, closed_port, events

from ferrule.content import Part, file, from_dict, image
from ferrule.errors import ConfigurationError, FetchError, ModelError, UsageError
from ferrule.message import Call, Message, ModelMessage, ToolMessage, UserMessage
from ferrule.provider.base import Capabilities, Delta, Model, ModelRequest, ModelResponse, Settings, Wire
from ferrule.provider.http import pool as pools
from ferrule.provider.http.exchange import MAX_REFUSAL
from ferrule.provider.http.model import WireModel, origin_of
from ferrule.provider.http.pool import Origin
from ferrule.provider.http.sse import EventReader
from ferrule.provider.transcript import fetched, show_result

KEY = "sk-canary-0123456789"
HELLO = ModelRequest((UserMessage((Part("text", text="hello"),)),))
LATE = "127.0.0.1: no answer within 0.05 s. Raise the setting `timeout` where one may take longer"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def made(url: str, **more: Any) -> WireModel:
    given: dict[str, Any] = {"base_url": url, "key": KEY, **more}
    return WireModel("fake:m", FakeWire(), "m", **given)


def asked(
    *answers: Answer | Callable[[Asked], Answer], request: ModelRequest = HELLO, stream: bool = False, **more: Any
) -> tuple[Any, list[Asked]]:
    """What a model gives, an error too, and what its server was asked."""

    async def main() -> tuple[Any, list[Asked]]:
        async with Server(*answers) as server:
            model = made(server.url + "/v1", **more)
            try:
                if stream:
                    return [piece async for piece in model.stream(request)], server.asked
                return await model.generate(request), server.asked
            except ModelError as error:
                return error, server.asked

    return asyncio.run(main())


def failure(*answers: Answer | Callable[[Asked], Answer], **more: Any) -> ModelError:
    found, _ = asked(*answers, **more)
    assert isinstance(found, ModelError), found
    return found


def settings(**given: Any) -> ModelRequest:
    return ModelRequest(HELLO.messages, settings=Settings(**given))


# -- one answer -------------------------------------------------------------------------------------------------


def test_a_request_is_one_post_with_the_key_in_its_header() -> None:
    response, (request,) = asked(answer({"text": "hi"}))
    assert ("hi", "m", None) == (response.message.text, response.model, response.request_id)
    assert ("POST", "/v1/say/m") == (request.method, request.path)
    assert {"say": [["hello"]], "stream": False} == request.json()
    assert {
        "authorization": f"Bearer {KEY}",
        "content-type": "application/json",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "ferrule",
    } == {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}


def test_it_is_a_model() -> None:
    model = made("https://a.example", capabilities=Capabilities(audio=True))
    assert isinstance(model, Model)
    assert ("fake:m", True) == (model.name, model.capabilities.audio)


def test_headers_of_the_model_and_of_the_request_are_sent_and_the_later_win() -> None:
    _, (request,) = asked(
        answer({"text": ""}),
        headers={"X-Team": "a", "User-Agent": "mine"},
        request=settings(headers={"x-team": "b", "AUTHORIZATION": "Basic x"}),
    )
    assert ("b", "mine", "Basic x") == tuple(request.headers[n] for n in ("x-team", "user-agent", "authorization"))


@pytest.mark.parametrize("name", ["x-request-id", "request-id"])
def test_the_request_id_is_kept(name: str) -> None:
    reply = Answer(200, {name: "req_1"}, [b'{"text": "hi"}'])
    assert asked(reply)[0].request_id == "req_1"


def test_a_body_that_is_packed_though_not_asked_for_is_unpacked() -> None:
    body = gzip.compress(json.dumps({"text": "hi"}).encode())
    assert asked(Answer(200, {"content-encoding": "gzip"}, [body]))[0].message.text == "hi"


def test_an_answer_that_the_wire_makes_of_a_refusal_is_an_answer() -> None:
    assert asked(answer({}, 418))[0].message.text == "mended"


def test_explain_gives_the_body_and_opens_nothing() -> None:
    model = made("http://127.0.0.1:9", key=None, missing_key="no key")
    assert {"say": [["hello"]], "stream": False} == model.explain(HELLO)


# -- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("reply", "reason", "retryable", "after"),
    [
        (answer({"error": "bad key"}, 401), "bad key", False, None),
        (answer({"error": "no model"}, 404), "no model", False, None),
        (answer({"error": "slow down"}, 429, Retry_After="7"), "slow down", True, 7.0),
        (Answer(500, {"content-type": "text/html"}, [b"<html>\xff oops"]), "<html>� oops", True, None),
        (Answer(500), "nothing", True, None),
        (Answer(500, body=[b"x" * 3000]), "x" * 2000, True, None),
        (Answer(500, body=[b"x"], ending="cut"), "x", True, None),
    ],
)
def test_a_refusal_is_what_the_wire_says_of_it(
    reply: Answer, reason: str, retryable: bool, after: float | None, stream: bool
) -> None:
    error = failure(reply, stream=stream)
    assert (reply.status, reason, retryable, after) == (error.status, error.reason, error.retryable, error.retry_after)


def test_of_a_huge_refusal_only_the_beginning_is_read() -> None:
    error = failure(Answer(500, body=[b"x" * 65536] * (MAX_REFUSAL // 65536 + 50)))
    assert (500, 2000) == (error.status, len(error.reason))


def test_a_refusal_carries_the_request_id() -> None:
    assert failure(answer({"error": "x"}, 404, x_request_id="req_9")).request_id == "req_9"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_never_followed(status: int) -> None:
    async def main() -> tuple[ModelError, list[Asked], list[Asked]]:
        async with (
            Server(answer({"text": "stolen"})) as other,
            Server(Answer(status, {"location": other.url})) as server,
        ):
            with pytest.raises(ModelError) as caught:
                await made(server.url).generate(HELLO)
            return caught.value, server.asked, other.asked

    error, here, there = asyncio.run(main())
    assert (1, 0) == (len(here), len(there))
    assert error.reason == "it redirects, and a key is not sent elsewhere. Correct the base URL"
    assert (status, False) == (error.status, error.retryable)


# -- bodies that are no answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "reason", "retryable"),
    [
        (Answer(), "the answer is empty. Check the base URL", True),
        (Answer(body=[b" \n"]), "the answer is empty. Check the base URL", True),
        (Answer(204), "the answer is empty. Check the base URL", True),
        (
            Answer(200, {"content-type": "application/json"}, [b'{"text": "secret answ']),
            "the answer is no JSON (application/json, 21 bytes). Check the base URL, or ask again",
            False,
        ),
        (
            Answer(200, {"content-type": "text/html; charset=x"}, [b"<html>\n Sign   in</html>"]),
            "the answer is no JSON (text/html, 24 bytes). Check the base URL: <html> Sign in</html>",
            False,
        ),
        (Answer(200, body=[b"\xff"]), "the answer is no JSON (no type, 1 bytes). Check the base URL: �", False),
        (answer({"other": 1}), "no answer in it", False),
        (answer([1]), "no answer in it", False),
    ],
)
def test_a_body_that_is_no_answer_is_told_truthfully(reply: Answer, reason: str, retryable: bool) -> None:
    error = failure(reply)
    assert (reason, retryable) == (error.reason, error.retryable)
    assert error.__context__ is None


def test_an_answer_beyond_the_limit_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.provider.http.model.MAX_ANSWER", 1000)
    error = failure(Answer(body=[b'"' + b"x" * 600, b"x" * 600 + b'"'], framing="chunked"))
    assert ("the answer has more than 1000 bytes", False) == (error.reason, error.retryable)


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip"])
def test_a_bomb_goes_off_within_the_limit(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.provider.http.model.MAX_ANSWER", 1_000_000)
    bomb = gzip.compress(bytes(50_000_000), 1)
    reply = Answer(200, {"content-encoding": encoding}, [gzip.compress(bomb) if "," in encoding else bomb])
    tracemalloc.start()
    try:
        error = failure(reply)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert error.reason == "the answer has more than 1000000 bytes"


def test_interim_answers_without_end_are_given_up() -> None:
    reply = Answer()
    reply.head = lambda: b"HTTP/1.1 103 Early Hints\r\n\r\n" * 200_000
    for stream in (False, True):
        assert LATE == failure(reply, request=settings(timeout=0.05), stream=stream).reason


def test_arguments_that_are_objects_are_read_strictly() -> None:
    exact = Answer(body=[b'{"text": "x", "args": {"n": 123456789012345678901}}'])
    assert asked(exact)[0].message.text == "x"
    twice = failure(Answer(200, {"content-type": "application/json"}, [b'{"text": "x", "args": {"n": 1, "n": 2}}']))
    assert twice.reason == "the answer is no JSON (application/json, 39 bytes). Check the base URL, or ask again"


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert asked(Answer(body=[b'{"text": "a\\ud83d b \\ud83d\\ude00"}']))[0].message.text == "a� b 😀"


# -- transport failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_no_server_is_a_failure_worth_another_try(stream: bool) -> None:
    async def main() -> ModelError:
        async with closed_port() as port:
            model = made(f"http://127.0.0.1:{port}")
            with pytest.raises(ModelError) as caught:
                await (anext(model.stream(HELLO)) if stream else model.generate(HELLO))
            return caught.value

    error = asyncio.run(main())
    assert error.reason.startswith("127.0.0.1: no connection")
    assert (True, None) == (error.retryable, error.status)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "reply", [Answer(0), Answer(200, body=[b"x"], ending="reset", cut=0), Answer(200, ending="cut")]
)
def test_a_connection_lost_before_the_first_byte_is_worth_another_try(reply: Answer, stream: bool) -> None:
    error = failure(reply, stream=stream)
    assert error.reason in (
        "127.0.0.1: the connection was closed or the answer is no HTTP",
        "127.0.0.1: the connection was lost",
    )
    assert error.retryable


def test_a_whole_answer_that_breaks_off_was_given_to_nobody_and_may_be_asked_for_again() -> None:
    error = failure(Answer(200, body=[b'{"text"'], ending="cut"))
    assert error.reason == "127.0.0.1: the connection was closed or the answer is no HTTP"
    assert (True, 200) == (error.retryable, error.status)


def test_what_is_no_http_is_told_truthfully() -> None:
    reply = Answer()
    reply.head = lambda: b"SSH-2.0-OpenSSH\r\n\r\n"
    assert failure(reply).reason == "127.0.0.1: the connection was closed or the answer is no HTTP"


@pytest.mark.parametrize("pieces", [[], [b'{"te']])
def test_a_slow_answer_ends_at_the_time_limit(pieces: list[bytes]) -> None:
    async def main() -> ModelError:
        async with Server(Answer(body=[*pieces, Gate(), b'xt": 1}'])) as server:
            with pytest.raises(ModelError) as caught:
                await made(server.url).generate(settings(timeout=0.05))
            await server.left.wait()
            return caught.value

    error = asyncio.run(main())
    assert error.reason == LATE
    assert error.retryable


# -- streams ----------------------------------------------------------------------------------------------------

MORE = [{"more": "one "}, {"more": "twö "}, {"more": "three"}]


def test_a_stream_gives_its_pieces_and_at_last_the_whole() -> None:
    found, (request,) = asked(events(*MORE, done=True), stream=True)
    assert [Delta("text", "one "), Delta("text", "twö "), Delta("text", "three")] == found[:-1]
    assert ("one twö three", "stop", None) == (found[-1].message.text, found[-1].finish, found[-1].error)
    assert ("/v1/say/m?alt=sse", "text/event-stream", True) == (
        request.path,
        request.headers["accept"],
        request.json()["stream"],
    )


def test_pieces_come_as_soon_as_they_are_sent() -> None:
    async def main() -> list[object]:
        gate = Gate()
        reply = events(*MORE, done=True)
        reply.body = [reply.body[0], gate, *reply.body[1:]]
        async with Server(reply) as server:
            stream = made(server.url).stream(HELLO)
            seen: list[object] = [await anext(stream)]
            await gate.reached.wait()
            gate.open.set()
            return seen + [piece async for piece in stream]

    assert 4 == len(asyncio.run(main()))


def test_the_request_id_of_a_stream_is_kept() -> None:
    reply = events(*MORE, done=True)
    reply.headers = {**reply.headers, "Request-Id": "req_2"}
    assert asked(reply, stream=True)[0][-1].request_id == "req_2"


def test_a_stream_cut_at_any_byte_ends_as_unknown_and_keeps_what_was_said() -> None:
    whole = events(*MORE, done=True)
    stream = b"".join(piece for piece in whole.body if isinstance(piece, bytes))
    first, last = stream.index(b"\n\n") + 2, stream.index(b"[DONE]") + len(b"[DONE]\n\n")

    async def main() -> list[tuple[int, Any]]:
        replies = [Answer(200, whole.headers, [stream], "chunked", "cut", cut) for cut in range(first, last)]
        async with Server(*replies) as server:
            model = made(server.url)
            return [(cut, [piece async for piece in model.stream(HELLO)]) for cut in range(first, last)]

    for cut, found in asyncio.run(main()):
        said = [json.loads(block[6:])["more"] for block in stream[:cut].split(b"\n\n")[:-1]]
        assert [Delta("text", text) for text in said] == found[:-1], cut
        response: ModelResponse = found[-1]
        assert ("unknown", "".join(said)) == (response.finish, response.message.text), cut
        assert response.error is not None
        assert not response.error.retryable


@pytest.mark.parametrize(
    ("pieces", "ending", "reason"),
    [
        ([b'data: {"mo'], "cut", "127.0.0.1: the connection was closed or the answer is no HTTP"),
        ([b": queued\n\n"], "cut", "127.0.0.1: the connection was closed or the answer is no HTTP"),
        ([b": queued\n\n", Gate()], "whole", LATE),
        ([b": queued\n\n"], "whole", "the stream ended before its first event. Ask again"),
        ([b'data: {"mo'], "whole", "the stream ended before its first event. Ask again"),
        ([], "whole", "the answer is empty. Check the base URL"),
    ],
)
def test_a_stream_lost_before_its_first_event_is_worth_another_try(pieces: Any, ending: Any, reason: str) -> None:
    reply = Answer(200, {"content-type": "text/event-stream"}, pieces, "chunked", ending)
    error = failure(reply, stream=True, request=settings(timeout=0.05) if reason == LATE else HELLO)
    assert (reason, True, 200) == (error.reason, error.retryable, error.status)


def test_a_stream_that_ends_early_without_a_fault_of_the_connection_is_unknown_too() -> None:
    found, _ = asked(events(*MORE), stream=True)
    assert ("unknown", "cut") == (found[-1].finish, found[-1].error.reason)


def test_a_stream_without_a_byte_is_no_answer_and_worth_another_try() -> None:
    error = failure(events(), stream=True)
    assert ("the answer is empty. Check the base URL", True) == (error.reason, error.retryable)


def test_an_error_inside_a_stream_is_given_out_with_what_was_said_before_it() -> None:
    told, last = asked(events(MORE[0], {"error": f"overloaded, key {KEY}"}, MORE[1]), stream=True)[0]
    assert Delta("text", "one ") == told
    assert ("error", "one ", None) == (last.finish, last.message.text, last.message.raw)
    assert (last.error.reason, last.error.code) == ("overloaded, key [redacted]", "message")
    assert last.error.__context__ is None


def test_an_error_before_anything_was_said_is_raised() -> None:
    error = failure(events({"error": "overloaded"}), stream=True)
    assert (error.reason, error.__context__) == ("overloaded", None)


# An error of each API as it comes inside a stream.
ERRORS: dict[str, Any] = {
    "openai-chat": {"error": {"message": "Oops", "type": "server_error", "code": 503}},
    "openai-responses": {"type": "error", "code": "server_error", "message": "Oops"},
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Oops"}},
    "gemini": {"error": {"code": 503, "message": "Oops", "status": "UNAVAILABLE"}},
}


@pytest.mark.parametrize("api", ERRORS)
def test_text_usage_and_calls_before_an_error_are_kept_and_no_call_may_run(api: str) -> None:
    """Also where all of the answer was there."""
    call = ("c1", "pay", '{"a":1}')
    finish = {"openai-chat": "tool_calls", "openai-responses": "completed", "anthropic": "tool_use", "gemini": "STOP"}
    pieces = [event for event in stream_of(api, Said("Rain.", (call,), finish[api])) if event is not None]

    async def main() -> Any:
        async with Server(events(*pieces, ERRORS[api])) as server:
            model = WireModel("fake:m", WIRES[api], "m", base_url=server.url, key=KEY)
            return [piece async for piece in model.stream(HELLO)]

    *deltas, last = asyncio.run(main())
    assert "Rain." in [delta.text for delta in deltas]
    assert ("error", "Rain.") == (last.finish, last.message.text)
    assert [("pay", '{"a":1}', False)] == [(c.name, c.arguments, c.complete) for c in last.message.calls]
    assert last.error.reason.endswith("Oops")


@pytest.mark.parametrize("fault", [b"data: {no json\n\n", b"data:\n\n", b"data: NaN\n\n"])
def test_a_faulty_event_ends_the_stream_as_unknown(fault: bytes) -> None:
    reply = events(MORE[0])
    reply.body = [*reply.body, fault, *events(MORE[1], done=True).body]
    found, _ = asked(reply, stream=True)
    assert [Delta("text", "one ")] == found[:-1]
    assert ("unknown", "one ") == (found[-1].finish, found[-1].message.text)
    assert found[-1].error.reason == "the stream is faulty: an event is no JSON. Ask again, or check the base URL"


def test_an_endless_event_ends_the_stream_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.provider.http.model.EventReader", lambda: EventReader(64))
    reply = events(MORE[0])
    reply.body = [*reply.body, b"data: " + b"x" * 200, *events(MORE[1], done=True).body]
    found, _ = asked(reply, stream=True)
    assert ("unknown", "the stream is faulty: an event is longer than 64 bytes") == (
        found[-1].finish,
        found[-1].error.reason,
    )


def test_an_endless_stream_ends_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.provider.http.model.MAX_STREAM", 100_000)
    reply = events(MORE[0])
    reply.body = [*reply.body, *[b": " + b"x" * 10_000 + b"\n\n"] * 10, *events(MORE[1], done=True).body]
    found, _ = asked(reply, stream=True)
    assert ("unknown", "one ", "the stream has more than 100000 bytes") == (
        found[-1].finish,
        found[-1].message.text,
        found[-1].error.reason,
    )


def test_nothing_after_the_sign_of_the_end_counts() -> None:
    reply = events(MORE[0], done=True)
    *first, last = cast("list[bytes]", reply.body)
    reply.body = [*first, last + b'data: {"error": "late"}\n\n', b"data: {no json\n\n"]
    found, _ = asked(reply, stream=True)
    assert ("stop", "one ") == (found[-1].finish, found[-1].message.text)


def test_a_server_that_does_not_end_its_body_after_the_sign_of_the_end_holds_nobody_up() -> None:
    reply = events(MORE[0], done=True)
    reply.body = [*reply.body, Gate()]
    found, _ = asked(reply, stream=True)
    assert found[-1].finish == "stop"


def test_a_silent_stream_ends_as_unknown_at_the_time_limit_between_pieces() -> None:
    reply = events(MORE[0])
    reply.body = [*reply.body, Gate()]
    found, _ = asked(reply, stream=True, request=settings(timeout=0.05))
    assert ("unknown", "one ", LATE) == (
        found[-1].finish,
        found[-1].message.text,
        found[-1].error.reason,
    )


class Timed(httpx2.AsyncByteStream):
    """A body on the clock that jumps: pieces, and the second when each comes."""

    def __init__(self, pieces: Iterable[tuple[float, bytes]]) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        for at, piece in self.pieces:
            await asyncio.sleep(at - loop.time())
            yield piece


def on_a_clock(
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    pieces: Iterable[tuple[float, bytes]],
    *,
    stream: bool,
    wire: Wire | None = None,
) -> tuple[float, Any]:
    """When a request with 30 seconds ends, and how."""

    def transport(_: Origin) -> httpx2.AsyncBaseTransport:
        return httpx2.MockTransport(lambda _: httpx2.Response(status, stream=Timed(pieces)))

    async def main() -> tuple[float, Any]:
        model, request = made("http://models.example"), settings(timeout=30.0)
        if wire is not None:
            model = WireModel("fake:m", wire, "m", base_url="http://models.example", key=KEY)
        try:
            found = [p async for p in model.stream(request)] if stream else await model.generate(request)
        except ModelError as error:
            found = error
        return asyncio.get_running_loop().time(), found

    monkeypatch.setattr(pools, "_transport", transport)
    return run(main())


ALIVE = b": still here\n\n"
FOR_EVER = [(float(at), ALIVE) for at in range(7, 10_000, 7)]


def test_a_stream_of_mere_signs_of_life_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    at, error = on_a_clock(monkeypatch, 200, FOR_EVER, stream=True)
    late = LATE.replace("0.05", "30").replace("127.0.0.1", "models.example")
    assert (30.0, late, True) == (at, error.reason, error.retryable)


def test_each_event_has_all_the_time_and_signs_of_life_give_none(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [b'data: {"more": "a"}\n\n', b'data: {"more"', b': "b"}\n\n']
    at, found = on_a_clock(
        monkeypatch, 200, [(29.0, said[0]), (40.0, ALIVE), (50.0, said[1]), (58.0, said[2]), (70.0, ALIVE),
                           (87.0, said[0]), *((at, ALIVE) for at, _ in FOR_EVER if at > 87)], stream=True
    )  # fmt: skip
    assert (117.0, "aba", "unknown") == (at, found[-1].message.text, found[-1].finish)


# The word for an answer that is whole, and how long nothing more may come until it counts as whole.
ENDS = {
    "openai-chat": ("stop", 0.5),
    "openai-responses": ("completed", 0.5),
    "anthropic": ("end_turn", 0.5),
    "gemini": ("STOP", 5.0),
}


def said(api: str) -> list[bytes]:
    values = stream_of(api, Said("Rain.", finish=ENDS[api][0]))
    return [b"data: " + (b"[DONE]" if v is None else json.dumps(v).encode()) + b"\n\n" for v in values]


@pytest.mark.parametrize("after", [[], FOR_EVER], ids=["silence", "signs of life"])
@pytest.mark.parametrize("api", ENDS)
def test_a_server_that_says_all_and_does_not_end_its_body_holds_nobody_up(
    api: str, after: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = [(100_000.0, b"")]
    pieces = [*((1.0, piece) for piece in said(api)), *after, *never]
    at, found = on_a_clock(monkeypatch, 200, pieces, stream=True, wire=WIRES[api])
    assert (1.0 + ENDS[api][1], "stop", "Rain.", None) == (
        at,
        found[-1].finish,
        found[-1].message.text,
        found[-1].error,
    )


def test_a_finish_reason_that_is_in_each_event_ends_nothing_while_events_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini has no sign of the end; there were servers that gave every event the same finish reason."""
    [event] = said("gemini")
    pieces = [(4.0 * n, event) for n in range(1, 6)]
    at, found = on_a_clock(monkeypatch, 200, [*pieces, (1e6, b"")], stream=True, wire=WIRES["gemini"])
    assert (25.0, "stop", "Rain." * 5) == (at, found[-1].finish, found[-1].message.text)


@pytest.mark.parametrize("api", ENDS)
def test_a_stream_that_has_not_said_all_has_its_full_time(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts of a Chat answer come after its reason to end."""
    pieces = said(api)[:-1] or [b'data: {"candidates": [{"content": {"parts": [{"text": "Rain."}]}}]}\n\n']
    at, found = on_a_clock(
        monkeypatch, 200, [*((1.0, piece) for piece in pieces), *FOR_EVER], stream=True, wire=WIRES[api]
    )
    assert (31.0, "unknown") == (at, found[-1].finish)


@pytest.mark.parametrize("api", ENDS)
def test_a_null_between_events_is_no_sign_of_the_end(api: str) -> None:
    reply = Answer(200, {"content-type": "text/event-stream"}, [*said(api)[:-1], b"data: null\n\n"])

    async def main() -> Any:
        async with Server(reply) as server:
            model = WireModel("fake:m", WIRES[api], "m", base_url=server.url, key=KEY)
            return [piece async for piece in model.stream(HELLO)]

    assert asyncio.run(main())[-1].finish == "unknown"


@pytest.mark.parametrize("stream", [False, True])
def test_of_a_refusal_that_does_not_end_there_is_what_came_in_time(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    at, error = on_a_clock(monkeypatch, 429, [(float(at), b"x") for at in range(7, 10_000, 7)], stream=stream)
    assert (30.0, 429, "xxxx", True) == (at, error.status, error.reason, error.retryable)


@pytest.mark.parametrize("more", [{}, {"capabilities": Capabilities(streaming=False)}])
def test_a_server_that_answers_whole_is_heard_as_one_piece(more: Any) -> None:
    found, _ = asked(answer({"text": "hi"}), stream=True, **more)
    assert [Delta("text", "hi"), "hi"] == [found[0], found[1].message.text]
    assert asked(answer({"text": ""}), stream=True, **more)[0][0].message.text == ""


def test_a_model_that_cannot_stream_is_not_asked_to() -> None:
    _, (request,) = asked(answer({"text": "hi"}), stream=True, capabilities=Capabilities(streaming=False))
    assert "/v1/say/m" == request.path


def test_leaving_a_stream_early_closes_the_connection() -> None:
    async def main() -> int:
        reply = events(*MORE)
        reply.body = [*reply.body, Gate()]
        async with Server(reply) as server:
            stream = made(server.url).stream(HELLO)
            assert Delta("text", "one ") == await anext(stream)
            await stream.aclose()
            await server.left.wait()
            return len(server.asked)

    assert asyncio.run(main()) == 1


def test_cancelling_a_request_closes_the_connection() -> None:
    async def main() -> None:
        gate = Gate()
        async with Server(Answer(body=[gate, b"x"])) as server:
            task = asyncio.create_task(made(server.url).generate(HELLO))
            await gate.reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left.wait()

    asyncio.run(main())


# -- connections ------------------------------------------------------------------------------------------------


def test_requests_of_all_models_share_connections_and_streams_give_theirs_back() -> None:
    async def main() -> tuple[int, int]:
        async with Server(
            answer({"text": "a"}), events(*MORE, done=True), answer({"error": "x"}, 404), answer({"text": "b"})
        ) as server:
            await made(server.url).generate(HELLO)
            assert 4 == len([piece async for piece in made(server.url).stream(HELLO)])
            with pytest.raises(ModelError):
                await made(server.url).generate(HELLO)
            await made(server.url).generate(HELLO)
            return server.connections, len(server.asked)

    assert asyncio.run(main()) == (1, 4)


def test_parallel_requests_have_a_connection_each() -> None:
    async def main() -> int:
        gates = [Gate() for _ in range(20)]
        replies = [Answer(body=[gate, b'{"text": "x"}']) for gate in gates]
        async with Server(*replies) as server:
            model = made(server.url)
            tasks = [asyncio.create_task(model.generate(HELLO)) for _ in gates]
            for gate in gates:
                await gate.reached.wait()
            for gate in gates:
                gate.open.set()
            await asyncio.gather(*tasks)
            return server.connections

    assert asyncio.run(main()) == 20


def test_each_event_loop_has_its_own_connections_and_leaves_none_behind() -> None:
    model: list[WireModel] = []

    async def main() -> None:
        async with Server(answer({"text": "hi"})) as server:
            model[:] = model or [made(server.url)]
            await made(server.url).generate(HELLO)
            assert pools.pool() is pools.pool()
            async for _ in made(server.url).stream(HELLO):
                break

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        asyncio.run(main())
        gc.collect()
    assert [str(w.message) for w in caught] == []


def test_connections_are_closed_when_nobody_has_used_them_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.02)

    async def main() -> int:
        async with Server(answer({"text": "hi"})) as server:
            model = made(server.url)
            await model.generate(HELLO)
            await server.left.wait()
            await model.generate(HELLO)
            return server.connections

    assert asyncio.run(main()) == 2


def test_a_request_that_begins_while_idle_connections_are_given_up_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[str, int]:
        async with Server(answer({"text": "a"})) as server:
            model = made(server.url)
            await model.generate(HELLO)
            monkeypatch.setattr(pools, "IDLE_SECONDS", -1.0)
            pools.pool()._look()  # pyright: ignore[reportPrivateUsage]
            response = await model.generate(HELLO)
            return response.message.text, server.connections

    assert asyncio.run(main()) == ("a", 2)


def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[list[str], list[str]]:
        async with Server(answer({"text": "by proxy"})) as proxy, Server(answer({"text": "direct"})) as server:
            monkeypatch.setenv("http_proxy", proxy.url)
            await made("http://models.example/v1").generate(HELLO)
            await made(server.url).generate(HELLO)
            monkeypatch.setenv("no_proxy", "other.example")
            assert pools._proxy(Origin("http", "other.example", 80)) is None  # pyright: ignore[reportPrivateUsage]
            return [a.path for a in proxy.asked], [a.path for a in server.asked]

    assert asyncio.run(main()) == (["http://models.example/v1/say/m"], ["/say/m"])


def test_a_proxy_that_is_none_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "gopher://user:hunter2@proxy.example")
    with pytest.raises(ConfigurationError, match=r"for https://models\.example:443 cannot be used") as caught:
        asyncio.run(made("https://models.example/v1").generate(HELLO))
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


# -- downloads --------------------------------------------------------------------------------------------------


def pictured(url: str) -> ModelRequest:
    return ModelRequest((UserMessage((image(url, mime_type="image/png"),)),))


def returned(url: str) -> ModelRequest:
    part = {"type": "image", "mimeType": "image/png", "url": url, "name": "chart.png"}
    call = Call("c1", "draw", "{}")
    messages: tuple[Message, ...] = (ModelMessage(calls=(call,)), ToolMessage(call, "drawn", parts=(part,)))
    return ModelRequest(messages)


async def _said(server: Server, files: Server, request: ModelRequest, **more: Any) -> Any:
    await made(server.url, **more).generate(request)
    return server.asked[-1].json()["say"]


def test_a_url_that_the_provider_would_not_read_is_read_before_and_only_once() -> None:
    async def main() -> tuple[Any, int, list[Asked]]:
        async with (
            Server(answer({"text": "hi"})) as server,
            Server(Answer(200, {"content-type": "image/png"}, [PNG])) as files,
        ):
            request = pictured(f"{files.url}/a.png")
            first = await _said(server, files, request, allow=["127.0.0.1"])
            assert first == await _said(server, files, request, allow=["127.0.0.1"])
            return first, len(files.asked), files.asked

    said, count, requests = asyncio.run(main())
    assert [[image(PNG).data]] == said
    assert count == 1
    assert "authorization" not in requests[0].headers


@pytest.mark.case("C092")
def test_a_url_inside_is_refused_before_anything_is_sent() -> None:
    async def main() -> tuple[str, int, int]:
        async with Server(answer({"text": "hi"})) as server, Server(Answer(body=[PNG])) as files:
            with pytest.raises(ModelError) as caught:
                await made(server.url).generate(pictured(f"{files.url}/a.png"))
            return caught.value.reason, len(server.asked), len(files.asked)

    reason, sent, read = asyncio.run(main())
    assert reason.startswith("the URL of a part cannot be read: 127.0.0.1 is an address of this machine.")
    assert (sent, read) == (0, 0)


@pytest.mark.parametrize(
    ("reply", "reason", "retryable"),
    [
        (Answer(404), "the URL of a part cannot be read: 127.0.0.1: status 404.", False),
        (Answer(503), "the URL of a part cannot be read: 127.0.0.1: status 503.", True),
        (
            Answer(200, {"content-type": "image/png"}, [b"<html>Sign in"]),
            "the URL of a part cannot be read: the URL of the image part gave text/html and not image/png.",
            False,
        ),
        (
            Answer(200, {"content-type": "image/png"}),
            "the URL of a part cannot be read: the URL of the image part gave no bytes.",
            False,
        ),
    ],
)
def test_a_url_of_the_caller_that_gives_no_such_part_is_an_error(reply: Answer, reason: str, retryable: bool) -> None:
    async def main() -> ModelError:
        async with Server(answer({"text": "hi"})) as server, Server(reply) as files:
            with pytest.raises(ModelError) as caught:
                await made(server.url, allow=["127.0.0.1"]).generate(pictured(f"{files.url}/a.png"))
            return caught.value

    error = asyncio.run(main())
    assert (reason, retryable) == (error.reason, error.retryable)


def test_a_url_of_a_tool_that_cannot_be_read_becomes_a_part_that_cannot_travel() -> None:
    async def main() -> tuple[Part, ...]:
        async with Server(Answer(404)) as files:

            async def fetch(url: str) -> Part:
                raise FetchError("no")

            request = returned(f"{files.url}/a.png")
            capabilities = Capabilities()
            messages = await fetched(request.messages, "gemini", capabilities, fetch)
            assert messages[0] is request.messages[0]
            result = messages[1]
            assert isinstance(result, ToolMessage)
            shown = show_result(result, "gemini", capabilities, wire_id="c1")
            assert [("image", "placeholder", "c1")] == shown.sent
            assert ("drawn", [], []) == (shown.text, shown.native, shown.moved)
            assert ["[image part whose URL could not be read] chart.png"] == shown.placeholders
            return tuple(from_dict(part) for part in result.parts)

    (part,) = asyncio.run(main())
    assert ("file", "application/x-unreadable-image") == (part.type, part.mimeType)


@pytest.mark.parametrize("kind", ["image", "audio", "file"])
def test_the_model_is_told_of_which_kind_a_part_is_whose_url_could_not_be_read(kind: str) -> None:
    async def fetch(url: str) -> Part:
        raise FetchError("no")

    async def main() -> list[str]:
        media = {"image": "image/png", "audio": "audio/wav", "file": "application/pdf"}[kind]
        part = {"type": kind, "mimeType": media, "url": "https://a.example/a"}
        call = Call("c1", "draw", "{}")
        messages: tuple[Message, ...] = (ModelMessage(calls=(call,)), ToolMessage(call, "drawn", parts=(part,)))
        result = (await fetched(messages, "gemini", Capabilities(), fetch, every=True))[1]
        assert isinstance(result, ToolMessage)
        return show_result(result, "gemini", Capabilities(), wire_id="c1").placeholders

    assert asyncio.run(main()) == [f"[{kind} part whose URL could not be read]"]


def test_what_was_read_for_one_api_is_not_taken_for_another() -> None:
    reads: list[str] = []

    async def fetch(url: str) -> Part:
        reads.append(url)
        return file(b"%PDF-1.7 x")

    async def main() -> None:
        messages = (UserMessage((file("https://a.example/a.pdf"), image("https://a.example/b.png"))),)
        with pytest.raises(FetchError, match=r"the image part gave application/pdf and not image/png"):
            await fetched(messages, "gemini", Capabilities(), fetch)
        (message,) = await fetched(messages, "openai-chat", Capabilities(), fetch)
        assert isinstance(message, UserMessage)
        assert ["data", "url"] == ["data" if part.data else "url" for part in message.parts]

    asyncio.run(main())
    assert ["https://a.example/a.pdf", "https://a.example/b.png", "https://a.example/a.pdf"] == reads


# -- the key ----------------------------------------------------------------------------------------------------


def test_a_missing_key_is_told_when_a_request_is_sent() -> None:
    found, requests = asked(answer({"text": ""}), key=None, missing_key="Set FAKE_API_KEY")
    assert ("Set FAKE_API_KEY", False, []) == (found.reason, found.retryable, requests)


def test_a_server_that_needs_no_key_gets_none() -> None:
    _, (request,) = asked(answer({"text": ""}), key=None)
    assert "authorization" not in request.headers


def test_a_key_is_looked_for_at_each_request() -> None:
    keys = iter(["first-key-1", " second-key-2\n"])

    async def main() -> list[str]:
        async with Server(answer({"text": ""})) as server:
            model = made(server.url, key=lambda: next(keys))
            await model.generate(HELLO)
            await model.generate(HELLO)
            return [request.headers["authorization"] for request in server.asked]

    assert asyncio.run(main()) == ["Bearer first-key-1", "Bearer second-key-2"]


@pytest.mark.parametrize("key", ["sk-canary\r\nX-Admin: 1", "sk-canary-é"])
def test_a_key_that_no_header_can_carry_is_refused_without_quoting_it(key: str) -> None:
    found, requests = asked(answer({"text": ""}), key=key)
    assert "the key holds characters that no header can carry. Set it anew." == found.reason
    assert requests == []


@pytest.mark.case("C098")
def test_a_header_that_would_break_its_line_is_refused() -> None:
    with pytest.raises(UsageError):
        asked(answer({"text": ""}), request=settings(headers={"x-team": "a\r\nX-Admin: 1"}))
    with pytest.raises(UsageError):
        made("https://a.example", headers={"x-team": "a\r\n"})


def echo(request: Asked) -> Answer:
    """A server that says the key back wherever it can."""
    said = request.headers["authorization"]
    return Answer(401, {}, [json.dumps({"error": f"bad {said}"}).encode()])


def html(request: Asked) -> Answer:
    return Answer(200, {"content-type": "text/html"}, [f"<p>{request.headers['authorization']}</p>".encode()])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "reply", [echo, html, Answer(0), Answer(), Answer(302), Answer(500, body=[KEY.encode()]), events({"error": KEY})]
)
def test_the_key_is_in_no_error_repr_or_log(reply: Any, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = failure(reply, stream=stream)
    model = made("https://a.example")
    shown = [
        str(error),
        repr(error),
        str(vars(error)),
        repr(copy.copy(error)),
        repr(model),
        str(model),
        str(error.__context__),
    ]
    shown += ["".join(traceback.format_exception(error)), caplog.text]
    assert [text for text in shown if KEY in text] == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("key", "said"),
    [
        (KEY, rb"\u0073k-canary-0123456789"),
        (KEY, "".join(f"\\u{ord(c):04x}" for c in KEY).encode()),
        (KEY, b"sk\\u002Dcanary\\u002D0123456789"),
        (KEY, rb"\\u0073k-canary-0123456789"),  # an error that quotes the JSON of another
        (KEY, rb"\\\\\\u0073k-canary\\\u002d0123456789"),
        ("abc/def/ghi=", rb"abc\/def\u002fghi\u003D"),
        ('abc"def"ghi', rb"abc\"def\"ghi"),
        ("abc\\def\\ghi", rb"abc\\def\\ghi"),
    ],
)
def test_a_key_is_found_however_json_writes_it(key: str, said: bytes, stream: bool) -> None:
    reason = b"x" * 1990 + said  # at the place where a page is cut: half a key would stand there
    reply = Answer(401, body=[b'{"error": "' + reason + b'"}'])
    told = {failure(reply, stream=stream, key=key).reason.rstrip("\\")}
    told |= {failure(Answer(401, body=[reason]), stream=stream, key=key).reason}
    if stream:
        late = Answer(200, {"content-type": "text/event-stream"}, [b'data: {"error": "' + reason + b'"}\n\n'])
        told |= {failure(late, stream=True, key=key).reason}
    assert {"x" * 1990 + "[redacted]"} == told


def test_an_answer_that_merely_escapes_its_text_is_left_alone() -> None:
    assert asked(Answer(body=[rb'{"text": "a\u0073k \u0026 \/ \\ \""}']))[0].message.text == 'ask & / \\ "'


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["x-request-id", "request-id", "content-type"])
def test_a_key_said_back_in_a_header_is_not_shown(name: str, stream: bool) -> None:
    headers = {name: "y" * 85 + KEY}
    done = events(*MORE, done=True).body if stream else [b'{"text": "hi"}']
    found, _ = asked(Answer(200, headers, done), stream=stream)
    shown = [found[-1] if stream else found]
    shown += [failure(Answer(status, headers, [b"<html>"])) for status in (200, 401)]
    assert not [s for s in shown if KEY[:6] in repr(s) or KEY[:6] in str(s)]
    if name != "content-type":
        assert {s.request_id for s in shown} == {"y" * 85 + "[redacted]"}


SECRET = "hush-hush-0123456789"
CREDENTIALS = [
    ("api-key", SECRET),
    ("Authorization", f"Bearer {SECRET}"),
    ("proxy-authorization", f"Basic {SECRET}"),
    ("X-Access-Token", SECRET),
    ("cookie", f"theme=dark; session={SECRET}"),
    ("x-signature", f"v1={SECRET}"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("of_request", [False, True])
@pytest.mark.parametrize(("name", "value"), CREDENTIALS)
def test_a_credential_in_a_header_of_the_callers_is_in_no_error(
    name: str, value: str, of_request: bool, stream: bool
) -> None:
    def echo(request: Asked) -> Answer:
        assert request.headers[name.lower()] == value
        return Answer(401, {"x-request-id": f"r {SECRET}"}, [json.dumps({"error": f"bad: {SECRET}!"}).encode()])

    given: dict[str, Any] = {"key": None, "headers": {name: value}}
    if of_request:
        given = {"key": None, "request": settings(headers={name: value})}
    error = failure(echo, stream=stream, **given)
    assert SECRET not in repr(error) + str(vars(error))
    assert error.reason == "bad: [redacted]!"


def test_other_headers_of_the_callers_change_nothing_that_a_server_says() -> None:
    headers = {"x-title": "Shakespeare", "x-author": "Shakespeare", "x-auth-type": "service-account"}
    text = "by Shakespeare, of a service-account"
    assert asked(answer({"text": text}), headers=headers)[0].message.text == text


def test_a_secret_inside_another_leaves_no_rest_of_it() -> None:
    reply = Answer(401, body=[json.dumps({"error": KEY + "-and-more"}).encode()])
    assert failure(reply, headers={"api-key": KEY + "-and-more"}).reason == "[redacted]"


def test_the_repr_names_model_and_origin() -> None:
    assert repr(made("https://gw.example/secret-path/v1")) == "WireModel('fake:m', base_url='https://gw.example:443')"


def test_a_short_key_is_no_secret_and_stays_readable_in_errors() -> None:
    assert (
        failure(answer({"error": "ollama has no such model"}, 404), key="ollama").reason == "ollama has no such model"
    )


# -- addresses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["/v1", "/v1/", "/gateway/a b/v1", ""])
def test_the_path_of_a_gateway_is_kept(base: str) -> None:
    async def main() -> str:
        async with Server(answer({"text": ""})) as server:
            await made(server.url + base).generate(HELLO)
            return server.asked[0].path

    assert base.rstrip("/").replace(" ", "%20") + "/say/m" == asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://API.openai.com/v1", ("https", "api.openai.com", 443)),
        ("http://localhost:8000", ("http", "localhost", 8000)),
        ("HTTP://[::1]/", ("http", "::1", 80)),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, expected: tuple[str, str, int]) -> None:
    assert expected == origin_of(url)


def test_an_origin_is_written_as_a_url() -> None:
    assert str(Origin("http", "::1", 80)) == "http://[::1]:80"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.openai.com",
        "ftp://a/",
        "https://",
        "https://a:x/",
        "https://u:p@a/",
        "https://a/?k=1",
        "https://a/#f",
        "https://a/\n",
    ],
)
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        made(url)
