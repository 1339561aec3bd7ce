"""Faults that people met elsewhere, tried over each API against a real server, whole and streamed.

Every request is checked with the official types of its API (see `playback.talk`):
"the conversation goes on" is shown by a request that the provider would take.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from math import inf, nan
from typing import Any
from uuid import UUID

import pytest
from tests.acceptance.playback import APIS, KEY, Turn, example, model, run, say, stream_of, talk, told
from tests.unit.provider.server import Answer, Asked, Server, answer

from ferrule import Agent, Event, ModelError, RunResult, ToolResult, file, image, tool
from ferrule.message import ModelMessage, ToolMessage, unpaired
from ferrule.provider import presets, transcript
from ferrule.provider.base import Capabilities, Model

PNG = image(b"\x89PNG\r\n\x1a\n" + b"\0" * 30, mime_type="image/png")
PDF_BYTES = b"%PDF-1.7\n" + b"\xff\xfe\0secret words" * 200
each_api = pytest.mark.parametrize("api", APIS)
whole_or_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
OK = Turn("ok")


@tool(effect="read")
async def now() -> str:
    """The time."""
    return "noon"


@tool(effect="read")
async def find(q: str) -> str:
    """Find something."""
    return f"found {q}"


@tool(effect="read")
async def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


def having(*tools: Any) -> Callable[[Model], Agent[Any, Any]]:
    return partial(_having, tools)


def _having(tools: tuple[Any, ...], found: Model) -> Agent[Any, Any]:
    return Agent("a", found, tools=tools)


def converse(
    api: str, make: Any, *turns: Turn, stream: bool = False, **options: Any
) -> tuple[RunResult[Any], list[Asked]]:
    """Run an agent while the server says these turns."""
    return asyncio.run(talk(api, make, [say(api, t, stream=stream) for t in turns], stream=stream, **options))


def later(asked: Asked) -> str:
    """A request body as text, with what JSON escapes written out."""
    return json.dumps(asked.json(), ensure_ascii=False)


# -- arguments and names ----------------------------------------------------------------------------------------


@pytest.mark.case("C017")
@each_api
@whole_or_streamed
@pytest.mark.parametrize("arguments", ["", "  ", "{}", None])
def test_blank_arguments_are_the_empty_object_over_each_api(api: str, arguments: str | None, *, stream: bool) -> None:
    if api == "gemini" or (api == "anthropic" and not stream):
        arguments = "{}" if arguments == "{}" else None  # objects have no blank
    calls = [("c1", "now", arguments), ("c2", "find", arguments)]
    result, asked = converse(api, having(now, find), Turn(calls=calls), OK, stream=stream)
    first, second = told(result)
    assert first == "noon"
    assert "q: is required" in second
    assert (result.status, len(asked)) == ("done", 2)


NOT_JSON = ['{"a": 1} ok', '```json {"a": 1} ```', '{"a": 1}}', '{"a": 1}{"a": 2}', '{"a": [1', '{"token": "tok_FAKE",']
# Where arguments are text on the wire; elsewhere they are objects and cannot be like this.
TEXT = [
    ("openai-chat", False),
    ("openai-chat", True),
    ("openai-responses", False),
    ("openai-responses", True),
    ("anthropic", True),
]


@pytest.mark.case("C019", "C020", "C025")
@pytest.mark.parametrize(("api", "stream"), TEXT)
@pytest.mark.parametrize("arguments", NOT_JSON)
def test_arguments_that_are_no_json_execute_nothing_and_go_back_canonical(
    api: str, arguments: str, *, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[int] = []

    @tool
    async def write(a: int) -> None:
        made.append(a)

    events: list[Event] = []
    with caplog.at_level(logging.DEBUG, "ferrule"):
        result, asked = converse(
            api, having(write), Turn(calls=[("c1", "write", arguments)]), OK, stream=stream, **_heard(events, stream)
        )
    assert made == []
    if arguments.endswith((",", "[1")):  # there are servers that call a cut answer finished
        assert (result.status, result.reason, len(asked)) == ("incomplete", "length", 1)
    else:
        assert (result.status, len(asked)) == ("done", 2)
        assert told(result)[0].startswith("Tool 'write' was not called. The arguments")
    assert "tok_FAKE" not in "".join([*told(result), caplog.text, *(a.body.decode() for a in asked)])
    for event in events:
        assert "tok_FAKE" not in repr(event.result)


def _heard(events: list[Event], stream: bool) -> dict[str, Any]:
    return {} if stream else {"on_event": events.append}


@pytest.mark.case("C020")
@each_api
@whole_or_streamed
@pytest.mark.parametrize("q", ["if(a){b}{c}", 'she said "}{"', "\\", "ok\n```", "\u2028", "🍸"])
def test_valid_arguments_arrive_unchanged_and_go_back_so(api: str, q: str, *, stream: bool) -> None:
    text = json.dumps({"q": q})  # with 🍸 as an escaped pair
    result, asked = converse(api, having(find), Turn(calls=[("c1", "find", text)]), OK, stream=stream)
    assert told(result) == [f"found {q}"]
    assert _arguments(api, asked[1]) == [{"q": q}]


def _arguments(api: str, asked: Asked) -> list[Any]:
    """The arguments of the calls in a request, as the provider reads them."""
    body = asked.json()
    if api == "openai-chat":
        calls = [c for m in body["messages"] for c in m.get("tool_calls") or ()]
        return [json.loads(c["function"]["arguments"]) for c in calls]
    if api == "openai-responses":
        return [json.loads(i["arguments"]) for i in body["input"] if i.get("type") == "function_call"]
    if api == "anthropic":
        blocks = [b for m in body["messages"] for b in m["content"] if not isinstance(b, str)]
        return [b["input"] for b in blocks if b["type"] == "tool_use"]
    return [p["functionCall"].get("args", {}) for c in body["contents"] for p in c["parts"] if "functionCall" in p]


@pytest.mark.case("C022")
@each_api
def test_an_empty_text_for_an_optional_field_is_told_by_its_name(api: str) -> None:
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string"}, "channel_id": {"type": "string", "pattern": "^C[0-9]+$"}},
        "required": ["q"],
    }

    @tool(schema=schema)
    async def search(**given: Any) -> str:
        """Search a channel."""
        return "never"

    result, asked = converse(api, having(search), Turn(calls=[("c1", "search", '{"q": "x", "channel_id": ""}')]), OK)
    assert "channel_id: " in told(result)[0]
    assert "channel_id: " in later(asked[1])


@pytest.mark.case("C023")
@each_api
@whole_or_streamed
def test_an_invented_name_is_an_error_result_beside_its_sibling_and_repeats_are_bounded(
    api: str, *, stream: bool
) -> None:
    @tool(name="mcp__x__search_files", effect="read")
    async def search() -> str:
        return "3 files"

    wrong = Turn(calls=[("c1", "serch_files", "{}"), ("c2", "mcp__x__search_files", "{}")])
    result, _ = converse(api, having(search), wrong, OK, stream=stream)
    assert told(result) == ["There is no tool 'serch_files'. Close names: mcp__x__search_files.", "3 files"]
    assert (result.status, result.output) == ("done", "ok")
    again, asked = converse(api, having(search), *[wrong] * 4, stream=stream)
    assert (again.status, again.reason, len(asked)) == ("incomplete", "repeated_failure", 3)
    assert unpaired(again.messages) is None


# -- results ----------------------------------------------------------------------------------------------------

RICH = {
    "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "d": date(2026, 1, 2),
    "t": timedelta(minutes=1.5),
    "price": Decimal("1.10"),
    "id": UUID(int=7),
    "tags": {"b", "a"},
    "raw": b"\xff\x00",
}
RICH_TEXT = (
    '{"at":"2026-01-02T03:04:05Z","d":"2026-01-02","t":90.0,"price":"1.10",'
    '"id":"00000000-0000-0000-0000-000000000007","tags":["a","b"],"raw":"/wA="}'
)


@pytest.mark.case("C026", "C028", "C031")
@each_api
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (RICH, RICH_TEXT),
        ({"x": nan, "y": [inf, -inf]}, '{"x":null,"y":[null,null]}'),
        (None, ""),
        (ToolResult.ok({"x": nan}), '{"x":null}'),
        ("a\udc97b", "a\ufffdb"),
        ("\ud83c\udf78", "🍸"),
    ],
    ids=["rich", "nan", "none", "ok", "surrogate", "pair"],
)
def test_any_value_of_a_tool_is_the_same_strict_text_in_event_transcript_and_request(
    api: str, value: Any, text: str
) -> None:
    @tool(effect="read")
    async def give() -> Any:
        return value

    events: list[Event] = []
    result, asked = converse(api, having(give), Turn(calls=[("c1", "give", "{}")]), OK, on_event=events.append)
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert (message.is_error, result.status) == (False, "done")
    assert message.output == text
    assert _strings_with(text, asked[1].json())
    (heard,) = [e for e in events if e.type == "tool_result"]
    assert heard.result is not None
    assert heard.result.output == text
    json.dumps(heard.to_dict(), allow_nan=False).encode("utf-8")


def _strings_with(text: str, value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if text in value else []
    items: Any = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()  # pyright: ignore
    return [found for item in items for found in _strings_with(text, item)]


class StatusError(Exception):
    """As HTTP clients raise it, with the whole URL."""


SECRET = "FAKEKEY123"


def status() -> None:
    raise StatusError(f"Client error '401' for url 'https://api.example.invalid/s?q=x&key={SECRET}'")


def blank() -> None:
    raise TimeoutError


def plain_key() -> None:
    raise KeyError("x")


def surrogate() -> None:
    raise ValueError("bad \ud800 text")


def group() -> None:
    inner = ExceptionGroup("y", [ConnectionRefusedError("p")])
    raise ExceptionGroup("x", [inner, ValueError("v")])


def no_such() -> ToolResult:
    return ToolResult.failed("no such user")


@pytest.mark.case("C029", "C031", "C034", "C035")
@pytest.mark.seed("TNX-27")
@each_api
@whole_or_streamed
@pytest.mark.parametrize(
    ("raises", "said"),
    [
        (status, ["StatusError", "key=[redacted]"]),
        (blank, ["TimeoutError"]),
        (plain_key, ["KeyError: 'x'"]),
        (surrogate, ["ValueError: bad \ufffd text"]),
        (group, ["ConnectionRefusedError: p", "ValueError: v"]),
        (no_such, ["no such user"]),
    ],
)
def test_a_failure_goes_to_the_model_with_type_and_text_and_without_a_secret(
    api: str, raises: Any, said: list[str], *, stream: bool
) -> None:
    failing = tool(name="failing", retries=0)(raises)
    result, asked = converse(api, having(failing), Turn(calls=[("c1", "failing", "{}")]), OK, stream=stream)
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert (message.is_error, result.status) == (True, "done")
    for text in said:
        assert text in message.output
        assert _strings_with(text, asked[1].json())
    assert SECRET not in message.output + asked[1].body.decode()


@pytest.mark.case("C032")
@each_api
def test_two_huge_results_of_one_turn_make_a_request_of_bounded_size(api: str) -> None:
    @tool(effect="read")
    async def dump() -> str:
        return "😀" * 2_000_000

    calls = [(f"c{i}", "dump", "{}") for i in range(6)]
    result, asked = converse(api, having(dump), Turn(calls=calls), OK)
    assert [len(t) for t in told(result)] == [200_000 // 6] * 6
    assert len(asked[1].body.decode()) < 250_000
    assert result.status == "done"


@pytest.mark.seed("TNX-12")
@each_api
def test_no_request_carries_the_metadata_of_a_result(api: str) -> None:
    @tool(effect="read")
    async def give() -> ToolResult:
        return ToolResult.ok("fine", parts=[PNG], metadata={"trace": "meta-4711"})

    _, asked = converse(api, having(give), Turn(calls=[("c1", "give", "{}")]), OK)
    assert "fine" in later(asked[1])
    assert "meta-4711" not in later(asked[1])


# -- media ------------------------------------------------------------------------------------------------------


@tool(effect="read")
async def screenshot() -> list[Any]:
    """Take a screenshot."""
    return ["screenshot", PNG]


@tool(effect="read")
async def report() -> list[Any]:
    """Read the report."""
    return ["the report", file(PDF_BYTES, mime_type="application/pdf", name="report.pdf")]


@pytest.mark.case("C037", "C038", "C040")
@pytest.mark.seed("TNX-09", "TNX-17")
@each_api
@whole_or_streamed
@pytest.mark.parametrize("takes", ["all", "moved", "none"])
def test_media_of_tools_travel_or_leave_a_line_and_one_warning(
    api: str, takes: str, *, stream: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native, after all results, or as a line: the request is one that the provider takes, whatever the model can."""
    transcript._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    able = {
        "all": Capabilities(later_system=False),
        "moved": Capabilities(tool_media=False, later_system=False),
        "none": Capabilities(images=False, pdf=False, tool_media=False, later_system=False),
    }[takes]
    calls = Turn(calls=[("c1", "screenshot", "{}"), ("c2", "now", "{}"), ("c3", "report", "{}")])

    async def main() -> tuple[RunResult[Any], list[Asked]]:
        async with Server(
            say(api, calls, stream=stream), say(api, calls, stream=stream), say(api, OK, stream=stream)
        ) as server:
            agent = Agent("a", model(api, server.url, capabilities=able), tools=[screenshot, now, report])
            return await run(agent, "go", stream=stream), server.asked

    with caplog.at_level(logging.WARNING, "ferrule.provider"):
        result, asked = asyncio.run(main())
    assert result.status == "done"
    body = later(asked[-1])
    for text in ("screenshot", "the report", "noon"):
        assert text in body
    assert PNG.data is not None
    lost = takes == "none"
    assert body.count(PNG.data) == (0 if lost else 2)
    assert body.count(_base64(PDF_BYTES)) == (0 if lost else 2)
    assert "secret words" not in body
    if lost:
        assert "image (image/png, 38 bytes)" in body
        assert "report.pdf" in body
    told = [r.getMessage() for r in caplog.records if r.name == "ferrule.provider"]
    kinds = ["image", "file"] if lost else []
    assert [t.partition("take every ")[2] for t in told] == [
        f"{kind} part of a tool result; the model is told what is missing." for kind in kinds
    ]
    if api == "openai-chat":
        roles = [m["role"] for m in asked[-1].json()["messages"]]
        assert roles == ["user", *(["assistant", "tool", "tool", "tool"] + ["user"] * (not lost)) * 2]
        labels = _strings_with("Output of tool", asked[-1].json())
        assert [t.split(" (")[0] for t in labels] == (
            [] if lost else ["Output of tool screenshot", "Output of tool report"] * 2
        )


def _base64(data: bytes) -> str:
    found = file(data, mime_type="application/pdf").data
    assert found is not None
    return found


# -- pairing, ids, streams --------------------------------------------------------------------------------------


@pytest.mark.case("C043")
@each_api
@whole_or_streamed
def test_a_cancelled_round_stays_paired_and_the_conversation_goes_on(api: str, *, stream: bool) -> None:
    @tool(effect="read")
    async def wait() -> None:
        await asyncio.Event().wait()

    @tool(effect="once")
    async def send() -> None:
        await asyncio.Event().wait()

    calls = Turn(calls=[("c1", "now", "{}"), ("c2", "wait", "{}"), ("c3", "send", "{}")])

    async def main() -> tuple[RunResult[Any], RunResult[Any]]:
        async with Server(say(api, calls, stream=True)) as server:
            agent = Agent("a", model(api, server.url), tools=[now, wait, send])
            async with agent.stream("go") as events:
                async for event in events:
                    if event.type == "tool_result":
                        events.cancel()
        after, _ = await talk(
            api, having(now), [say(api, OK, stream=stream)], stream=stream, history=events.result.messages
        )
        return events.result, after

    cancelled, after = asyncio.run(main())
    assert (cancelled.status, unpaired(cancelled.messages)) == ("cancelled", None)
    assert told(cancelled) == [
        "noon",
        "The call was cancelled.",
        "Tool 'send' was stopped; its effect may have happened.",
    ]
    assert (after.status, after.output) == ("done", "ok")


@pytest.mark.case("C046")
@each_api
@whole_or_streamed
def test_six_parallel_results_go_back_as_one_turn_in_order(api: str, *, stream: bool) -> None:
    calls = Turn(calls=[(f"c{n}", "add", json.dumps({"a": n})) for n in range(6)])
    result, asked = converse(api, having(add), calls, OK, stream=stream)
    assert told(result) == [str(n) for n in range(6)]
    if api == "gemini":
        roles = [(c["role"], len(c["parts"])) for c in asked[1].json()["contents"]]
        assert roles == [("user", 1), ("model", 6), ("user", 6)]
    if api == "anthropic":
        assert [m["role"] for m in asked[1].json()["messages"]] == ["user", "assistant", "user"]


COMPAT = {
    "stream-no-index": ["get_weather", "get_weather"],
    "stream-index-zero": ["get_weather", "get_weather"],
    "stream-same-chunk-twice": ["get_weather"],
    "stream-name-later": ["get_weather", "read_chart"],
}


@pytest.mark.case("C047")
@pytest.mark.parametrize("name", COMPAT)
@pytest.mark.parametrize("provider", ["openai-chat", "ollama", "vllm", "openrouter", "groq"])
def test_calls_are_kept_apart_however_a_server_numbers_them(name: str, provider: str) -> None:
    made: list[str] = []

    @tool(effect="read")
    async def get_weather(city: str) -> str:
        made.append(f"weather {city}")
        return "rain"

    @tool(effect="read")
    async def read_chart() -> str:
        made.append("chart")
        return "chart"

    async def main() -> RunResult[Any]:
        answers = stream_of("compat", f"{name}.jsonl"), say("openai-chat", OK, stream=True)
        async with Server(*answers) as server:
            found = presets.model(f"{provider}:m", base_url=server.url, key=KEY)
            return await run(Agent("a", found, tools=[get_weather, read_chart]), "go", stream=True)

    result = asyncio.run(main())
    assert result.status == "done"
    calls = [c for m in result.messages if isinstance(m, ModelMessage) for c in m.calls]
    assert [c.name for c in calls] == COMPAT[name]
    assert len(made) == len(calls)
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [False] * len(calls)


@pytest.mark.case("C049")
@each_api
@whole_or_streamed
def test_an_id_that_comes_again_for_another_tool_keeps_both_results(api: str, *, stream: bool) -> None:
    turns = [Turn(calls=[("X", "now", "{}")]), Turn("hm"), Turn(calls=[("X", "find", '{"q": "y"}')]), OK]

    async def main() -> tuple[RunResult[Any], list[Asked]]:
        first, _ = await talk(api, having(now, find), [say(api, t, stream=stream) for t in turns[:2]], stream=stream)
        rest = [say(api, t, stream=stream) for t in turns[2:]]
        return await talk(api, having(now, find), rest, stream=stream, history=first.messages)

    result, asked = asyncio.run(main())
    assert told(result) == ["noon", "found y"]
    body = later(asked[-1])
    assert "noon" in body
    assert "found y" in body


# -- quirks of providers ----------------------------------------------------------------------------------------


OPAQUE = {
    "openai-responses": ("b3BhcXVlLXJlYXNvbmluZy0x", 1),
    "anthropic": ("b3BhcXVlLXRoaW5raW5nLTI=", 1),
    "gemini": ("b3BhcXVlLWNhbGwtMQ==", 1),
}


@tool(effect="read")
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return f"rain in {city}"


@pytest.mark.case("C050", "C052")
@pytest.mark.parametrize("api", OPAQUE)
@whole_or_streamed
def test_what_a_provider_signed_goes_back_unchanged_to_it_and_to_no_other(api: str, *, stream: bool) -> None:
    said = stream_of(api, "stream-parallel.jsonl") if stream else answer(example(api, "response-tool-calls.json"))
    signature, times = OPAQUE[api]

    async def main() -> None:
        result, asked = await talk(api, having(get_weather), [said, say(api, OK, stream=stream)], stream=stream)
        assert asked[1].body.decode().count(signature) == times
        for other in APIS:
            _, (after,) = await talk(other, having(get_weather), [say(other, OK)], history=result.messages)
            assert after.body.decode().count(signature) == (times if other == api else 0)

    asyncio.run(main())


@pytest.mark.case("C052")
@whole_or_streamed
def test_a_transcript_cut_at_any_place_keeps_reasoning_with_what_it_belongs_to(*, stream: bool) -> None:
    """The check of each request fails on reasoning that nothing follows."""
    api = "openai-responses"
    reasoning: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": "b3BhcXVl"}
    called = Turn(calls=[("c1", "now", "{}")])
    both = _with_items(say(api, called), {0: {**reasoning, "id": "rs_1"}})
    spoken = _with_items(say(api, Turn("ok")), {0: {**reasoning, "id": "rs_2"}})
    mixed = _with_items(
        say(api, Turn("wait", called.calls)), {0: {**reasoning, "id": "rs_3"}, 2: {**reasoning, "id": "rs_4"}}
    )

    async def main() -> int:
        answers = [both, mixed, both, spoken]
        result, _ = await talk(api, having(now), answers)
        sent = 0
        messages = list(result.messages)
        for start in range(len(messages)):
            for end in range(start, len(messages) + 1):
                history = messages[start:end]
                if unpaired(history) is None:
                    await talk(api, having(now), [say(api, OK, stream=stream)], stream=stream, history=history)
                    sent += 1
        return sent

    assert asyncio.run(main()) > 10


def _with_items(said: Answer, items: dict[int, Any]) -> Answer:
    """A Responses answer with more items at these places."""
    piece = said.body[0]
    assert isinstance(piece, bytes)
    body = json.loads(piece)
    for at, item in items.items():
        body["output"].insert(at, item)
    return answer(body)


@pytest.mark.case("C053")
@each_api
@whole_or_streamed
def test_a_request_that_was_refused_is_not_sent_again(api: str, *, stream: bool) -> None:
    refused = answer(
        {"error": {"message": "content must not be empty", "type": "invalid_request_error"}}, 400, x_should_retry="true"
    )
    result, asked = asyncio.run(
        talk(api, having(now), [say(api, Turn(calls=[("c1", "now", "{}")]), stream=stream), refused], stream=stream)
    )
    assert (result.status, len(asked)) == ("failed", 2)
    assert isinstance(result.error, ModelError)
    assert (result.error.status, result.error.retryable) == (400, False)
    assert unpaired(result.messages) is None


@pytest.mark.case("C055")
@each_api
@whole_or_streamed
@pytest.mark.parametrize("end", ["length", "filter", "refusal", "cut"])
def test_a_call_of_an_answer_that_is_not_whole_is_never_made(api: str, end: Any, *, stream: bool) -> None:
    made: list[int] = []

    @tool
    async def write(n: int) -> None:
        made.append(n)

    if end == "cut" and not stream:
        said = Answer(200, {"content-type": "application/json"}, [b'{"half": '])
    else:
        said = say(api, Turn("some text", [("c1", "write", '{"n": 1}')], end), stream=stream)
    result, asked = asyncio.run(talk(api, having(write), [said], stream=stream))
    assert made == []
    assert result.status == ("incomplete" if end == "length" else "failed")
    assert len(asked) == 1
    assert unpaired(result.messages) is None


@pytest.mark.case("C056")
@whole_or_streamed
def test_a_call_that_the_provider_refuses_is_told_to_the_model_and_counts_as_a_repeat(*, stream: bool) -> None:
    refused = {
        "error": {
            "message": "tool call validation failed: parameters for tool find did not match schema: missing properties: 'q'",
            "type": "invalid_request_error",
            "code": "tool_use_failed",
            "failed_generation": '{"name": "find", "arguments": {"foo": "bar"}}',
        }
    }

    async def main(*answers: Answer) -> tuple[RunResult[Any], list[Asked]]:
        async with Server(*answers) as server:
            found = presets.model("groq:m", base_url=server.url, key=KEY)
            return await run(Agent("a", found, tools=[find]), "go", stream=stream), server.asked

    wrong = answer(refused, 400)
    right = say("openai-chat", Turn(calls=[("c2", "find", '{"q": "x"}')]), stream=stream)
    result, asked = asyncio.run(main(wrong, right, say("openai-chat", OK, stream=stream)))
    assert (result.status, len(asked)) == ("done", 3)
    first, second = told(result)
    assert "missing properties: 'q'" in first
    assert second == "found x"
    result, asked = asyncio.run(main(wrong))
    assert (result.status, result.reason, len(asked)) == ("incomplete", "repeated_failure", 3)


@pytest.mark.case("C058")
@whole_or_streamed
def test_no_round_has_more_than_four_cache_markers(*, stream: bool) -> None:
    """The check of each request counts them."""
    tools = [tool(name=f"t{n}", effect="read")(now_again) for n in range(6)]
    calls = Turn(calls=[(f"c{n}", f"t{n}", "{}") for n in range(3)])

    def make(found: Model) -> Agent[Any, Any]:
        return Agent("a", found, instructions="Be brief. " * 500, tools=tools)

    turns = [Turn(calls=[(f"c{n}{i}", name, a) for i, (_, name, a) in enumerate(calls.calls)]) for n in range(4)]
    result, asked = converse("anthropic", make, *turns, OK, stream=stream)
    assert result.status == "done"
    assert all(a.body.count(b'"cache_control"') >= 1 for a in asked)
    assert max(a.body.count(b'"cache_control"') for a in asked) == 4


async def now_again() -> str:
    return "noon"


@pytest.mark.case("C059")
@each_api
@whole_or_streamed
@pytest.mark.parametrize("announced", [False, True], ids=["stop", "calls-announced"])
def test_an_empty_turn_has_a_fixed_ending_and_repeats_no_effect(api: str, announced: bool, *, stream: bool) -> None:
    made: list[str] = []

    @tool(effect="once")
    async def pay() -> str:
        made.append("paid")
        return "paid"

    empty = Turn(announced=announced)
    result, asked = converse(api, having(pay), Turn(calls=[("c1", "pay", "{}")]), empty, stream=stream)
    assert (result.status, result.output, result.reason) == ("done", "", "the model ended without a word")
    assert (made, len(asked)) == (["paid"], 2)
    result, asked = converse(api, having(pay), empty, stream=stream)
    assert (result.status, result.reason, len(asked)) == ("incomplete", "empty_response", 1)


@pytest.mark.case("C059")
@pytest.mark.parametrize("api", ["gemini", "openai-responses"])
@whole_or_streamed
def test_a_malformed_answer_is_asked_for_once_more(api: str, *, stream: bool) -> None:
    made: list[str] = []

    @tool(effect="once")
    async def pay() -> str:
        made.append("paid")
        return "paid"

    bad, good = Turn(end="malformed"), Turn(calls=[("c1", "pay", "{}")])
    result, asked = converse(api, having(pay), good, bad, OK, stream=stream)
    assert (result.status, result.output, made, len(asked)) == ("done", "ok", ["paid"], 3)
    result, asked = converse(api, having(pay), good, bad, bad, stream=stream)
    assert (result.status, len(asked)) == ("failed", 3)
    assert isinstance(result.error, ModelError)


@pytest.mark.case("C059")
@each_api
@whole_or_streamed
def test_a_refusal_fails_with_its_text(api: str, *, stream: bool) -> None:
    result, asked = converse(api, having(now), Turn("I cannot help with that.", end="refusal"), stream=stream)
    assert (result.status, result.output, str(result.error)) == (
        "failed",
        "I cannot help with that.",
        "I cannot help with that.",
    )
    assert len(asked) == 1


# -- context ----------------------------------------------------------------------------------------------------

TENANT = contextvars.ContextVar("tenant", default="nobody")


@pytest.mark.case("C113")
@each_api
@whole_or_streamed
def test_context_variables_reach_every_kind_of_tool_and_stay_with_their_run(api: str, *, stream: bool) -> None:
    def in_thread() -> str:
        return TENANT.get()

    async def at_once() -> str:
        return TENANT.get()

    async def in_task() -> str:
        await asyncio.sleep(0)
        return TENANT.get()

    tools = [tool(effect="read")(f) for f in (in_thread, at_once, in_task)]
    turns = Turn(calls=[(f"c{i}", t.name, "{}") for i, t in enumerate(tools)]), OK

    async def of(tenant: str) -> list[str]:
        TENANT.set(tenant)
        result, _ = await talk(api, having(*tools), [say(api, t, stream=stream) for t in turns], stream=stream)
        return told(result)

    async def main() -> list[list[str]]:
        return list(await asyncio.gather(of("ada"), of("bob")))

    assert asyncio.run(main()) == [["ada"] * 3, ["bob"] * 3]
