"""Answers of OpenAI Responses, whole, streamed and cut, and what its refusals mean."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.responses import MODEL, WIRE, body, events, example

from ferrule.errors import ModelError
from ferrule.message import Call, ModelMessage, Raw, ToolMessage, Usage, user
from ferrule.provider.base import Delta, ModelRequest, ModelResponse

API = "openai-responses"
OSLO = Call("", "get_weather", '{"city":"Oslo"}', "call_a1")
ROME = Call("", "get_weather", '{"city":"Rome"}', "call_a2")
USED = Usage(90, 40, 64, 16)
CALLED = example("response-tool-calls.json")
CALLS = ModelResponse(
    ModelMessage("", (OSLO, ROME), "Two cities, two calls.", Raw(API, MODEL, CALLED["output"])),
    "tool_calls",
    USED,
    MODEL,
)


def decoded(stream: list[Any]) -> tuple[list[Delta], ModelResponse]:
    decoder = WIRE.decoder(MODEL)
    deltas = [delta for event in stream for delta in decoder.feed(event.get("type", "message"), event)]
    return deltas, decoder.finish()


def message(text: str, **more: Any) -> dict[str, Any]:
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


def answer(output: list[Any], **more: Any) -> ModelResponse:
    return WIRE.response({"status": "completed", "model": MODEL, "output": output, **more}, MODEL)


# -- whole answers ----------------------------------------------------------------------------------------------


def test_the_example_with_two_calls() -> None:
    assert CALLS == WIRE.response(CALLED, "asked-model")


def test_the_example_that_was_cut_by_its_limit_has_no_complete_call() -> None:
    cut = example("response-cut.json")
    call = Call("", "get_weather", '{"city":"Os', "call_z", complete=False)
    assert ModelResponse(
        ModelMessage("", (call,), raw=Raw(API, MODEL, cut["output"])), "length", USED, MODEL
    ) == WIRE.response(cut, MODEL)


def test_text_with_reasoning_and_no_usage() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    found = answer([thought, message("Hello!"), message("And more.")])
    assert (found.message.text, found.message.reasoning) == ("Hello!\n\nAnd more.", "Hm.")
    assert (found.finish, found.usage, found.flagged, found.error) == ("stop", None, False, None)


def test_what_is_said_on_the_way_to_a_final_answer_is_no_part_of_it() -> None:
    before, final = message("Looking.", phase="commentary"), message('{"a":1}', phase="final_answer")
    found = answer([before, final])
    assert (found.message.text, found.message.reasoning) == ('{"a":1}', "Looking.")
    assert answer([before]).message.text == "Looking."


def test_a_refusal_is_told_by_its_part() -> None:
    refusal = message("") | {"content": [{"type": "refusal", "refusal": "I cannot."}]}
    found = answer([refusal])
    assert (found.finish, found.message.text, found.flagged) == ("refusal", "I cannot.", False)


def test_an_item_that_no_sdk_knows_is_kept_and_says_nothing() -> None:
    items = [{"type": "telepathy_call", "id": "tc_1", "status": "completed"}, message("Hi")]
    found = answer(items)
    assert found.message.raw == Raw(API, MODEL, items)
    assert (found.message.text, found.message.calls) == ("Hi", ())


STATUSES: list[tuple[str | None, str | None, str]] = [
    ("completed", None, "stop"),
    ("incomplete", "max_output_tokens", "length"),
    ("incomplete", "content_filter", "content_filter"),
    ("incomplete", "steered", "unknown"),
    ("incomplete", "max_messages", "unknown"),
    ("incomplete", None, "unknown"),
    ("failed", None, "error"),
    ("cancelled", None, "error"),
    ("queued", None, "unknown"),
    ("in_progress", None, "unknown"),
    ("tomorrow", None, "unknown"),
    (None, None, "unknown"),
]


@pytest.mark.parametrize(("status", "reason", "finish"), STATUSES)
def test_each_status_has_its_finish(status: str | None, reason: str | None, finish: str) -> None:
    found = answer([message("Hi")], status=status, incomplete_details=reason and {"reason": reason})
    assert (finish, "Hi") == (found.finish, found.message.text)
    assert (found.error is not None) == (finish in ("error", "unknown"))
    assert (found.message.raw is None) == (found.error is not None)


@pytest.mark.parametrize(("status", "reason", "finish"), [s for s in STATUSES if s[0] != "completed"])
@pytest.mark.case("C055")
def test_no_call_is_complete_in_an_answer_that_is_not(status: str | None, reason: str | None, finish: str) -> None:
    found = answer(CALLED["output"], status=status, incomplete_details=reason and {"reason": reason})
    assert [False, False] == [call.complete for call in found.message.calls]


@pytest.mark.parametrize("status", ["incomplete", "in_progress", None, "done"])
def test_a_call_is_complete_only_when_its_own_item_says_so(status: str | None) -> None:
    found = answer([{**CALLED["output"][1], "status": status}])
    assert (found.finish, [call.complete for call in found.message.calls]) == ("tool_calls", [False])


@pytest.mark.case("C059")
def test_an_answer_that_says_nothing_is_flagged() -> None:
    assert answer([]) == ModelResponse(ModelMessage(), "stop", None, MODEL, flagged=True)
    assert answer([message(" \n")]).flagged
    assert answer([CALLED["output"][0]]).flagged


@pytest.mark.parametrize(
    ("given", "text"),
    [("", "{}"), (" ", "{}"), (None, "{}"), ({"b": 1, "a": [2]}, '{"b":1,"a":[2]}'), ('{"a":', '{"a":')],
)
def test_arguments_are_text_and_never_mended(given: Any, text: str) -> None:
    found = answer([{**CALLED["output"][1], "arguments": given}])
    assert [text] == [call.arguments for call in found.message.calls]


def test_usage_that_nobody_told_is_none() -> None:
    assert answer([], usage={"input_tokens": 3, "output_tokens": None}).usage == Usage(3)
    assert answer([], usage={"output_tokens": 0, "output_tokens_details": None}).usage == Usage(output=0)
    assert answer([], usage=None).usage is None


@pytest.mark.parametrize(
    ("code", "retryable"), [("server_error", True), ("rate_limit_exceeded", True), ("invalid_prompt", False)]
)
def test_a_failed_answer_carries_its_error(code: str, retryable: bool) -> None:
    found = answer([], status="failed", error={"code": code, "message": "It did not work."})
    assert found.error is not None
    assert (found.error.code, found.error.retryable, found.error.provider) == (code, retryable, API)
    assert str(found.error) == f"openai-responses: the server failed: It did not work. [code {code}]"


def test_an_error_in_an_answer_of_status_200_is_raised() -> None:
    with pytest.raises(ModelError, match=r"Overloaded\. \[code server_error\]") as caught:
        WIRE.response({"error": {"code": "server_error", "message": "Overloaded."}}, MODEL)
    assert caught.value.retryable


@pytest.mark.parametrize("data", [None, [], "<html>", 3, {}, {"choices": []}])
def test_what_is_no_answer_is_said_so(data: Any) -> None:
    with pytest.raises(ModelError, match="the body is no answer"):
        WIRE.response(data, MODEL)


# -- streams ----------------------------------------------------------------------------------------------------

PARALLEL = events("stream-parallel.jsonl")


def test_the_example_stream() -> None:
    deltas, found = decoded(PARALLEL)
    assert deltas == [
        Delta("reasoning", "Two cities, two calls."),
        Delta("call", "get_weather"),
        Delta("call", "get_weather"),
    ]
    assert CALLS == found


def test_the_last_event_need_not_repeat_the_items() -> None:
    stream = copy.deepcopy(PARALLEL)
    stream[-1]["response"]["output"] = []
    assert CALLS == decoded(stream)[1]


def test_the_last_event_alone_is_enough() -> None:
    assert CALLS == decoded(PARALLEL[-1:])[1]


def test_encrypted_reasoning_is_taken_from_the_event_that_ends_its_item() -> None:
    raw = decoded(PARALLEL)[1].message.raw
    assert raw is not None
    assert raw.items[0]["encrypted_content"] == "b3BhcXVlLXJlYXNvbmluZy0x"


def test_what_was_streamed_is_sent_back_unchanged() -> None:
    said = decoded(PARALLEL)[1].message
    calls = [Call(f"c{i}", c.name, c.arguments, c.wire_id) for i, c in enumerate(said.calls)]
    kept = ModelMessage(said.text, tuple(calls), said.reasoning, said.raw)
    made = body(ModelRequest([user("?"), kept, *(ToolMessage(call, "rain") for call in calls)]))
    assert CALLED["output"] == made["input"][1:4]


@pytest.mark.parametrize("end", range(len(PARALLEL)))
@pytest.mark.case("C055")
def test_a_stream_cut_before_any_event_is_an_error_without_a_complete_call(end: int) -> None:
    _, found = decoded(PARALLEL[:end])
    assert (found.finish, found.usage, found.message.raw) == ("unknown", None, None)
    assert found.error is not None
    assert found.error.retryable
    assert not any(call.complete for call in found.message.calls)
    opened = [e for e in PARALLEL[:end] if e["type"] == "response.output_item.added"]
    assert len(found.message.calls) == sum(e["item"]["type"] == "function_call" for e in opened)


def test_a_cut_stream_keeps_what_came() -> None:
    _, found = decoded(PARALLEL[:5])
    assert found.message == ModelMessage(
        "", (Call("", "get_weather", '{"city":', "call_a1", complete=False),), "Two cities, two calls."
    )
    assert str(found.error) == "openai-responses: the answer was cut before its end. Ask again"


def test_unknown_events_and_the_word_of_other_servers_say_nothing() -> None:
    decoder = WIRE.decoder(MODEL)
    noise: list[tuple[str, Any]] = [
        ("ping", {}),
        ("message", None),
        ("response.web_search_call.searching", {"type": "response.web_search_call.searching"}),
        ("message", {"type": "response.tomorrow", "delta": "x", "output_index": 0}),
    ]
    for event in PARALLEL:
        for name, data in noise:
            assert list(decoder.feed(name, data)) == []
        decoder.feed(event["type"], event)
    assert list(decoder.feed("message", None)) == []
    assert CALLS == decoder.finish()


def test_the_name_of_an_event_serves_where_its_type_is_missing() -> None:
    decoder = WIRE.decoder(MODEL)
    for event in PARALLEL:
        decoder.feed(event["type"], {k: v for k, v in event.items() if k != "type"})
    assert CALLS == decoder.finish()


def test_an_error_event_is_raised_flat_or_nested() -> None:
    flat = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None}
    nested = {"type": "error", "error": {"type": "server_error", "code": None, "message": "Slow down."}}
    untyped = {"error": {"type": "server_error", "message": "Slow down."}}
    for event in (flat, nested, untyped):
        with pytest.raises(ModelError, match=r"the server failed: Slow down\. \[code ") as caught:
            decoded([*PARALLEL[:4], event])
        assert caught.value.retryable


def test_a_failed_response_ends_the_stream_with_its_error() -> None:
    response: dict[str, Any] = {
        "status": "failed",
        "output": [],
        "error": {"code": "server_error", "message": "Broken."},
    }
    _, found = decoded([*PARALLEL[:8], {"type": "response.failed", "response": response}])
    assert found.error is not None
    assert (found.finish, found.error.code, found.error.retryable) == ("error", "server_error", True)
    assert [False] == [call.complete for call in found.message.calls]


def test_an_incomplete_response_ends_with_its_reason() -> None:
    cut = example("response-cut.json")
    item = cut["output"][0]
    stream: list[Any] = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.incomplete", "response": cut},
    ]
    assert WIRE.response(cut, MODEL) == decoded(stream)[1]


def test_an_item_that_never_ended_makes_no_complete_call_and_is_not_sent_back() -> None:
    stream = [e for e in PARALLEL if e["type"] != "response.output_item.done" or e["output_index"] != 2]
    stream[-1] = copy.deepcopy(stream[-1])
    stream[-1]["response"]["output"] = []
    _, found = decoded(stream)
    assert [True, False] == [call.complete for call in found.message.calls]
    assert found.message.raw is None


def test_deltas_alone_are_enough_for_text() -> None:
    stream: list[Any] = [
        {"type": "response.created", "response": {"model": "gpt-x"}},
        {"type": "response.output_text.delta", "item_id": "m", "delta": "Hel"},
        {"type": "response.output_text.delta", "item_id": "m", "delta": "lo"},
    ]
    deltas, found = decoded(stream)
    assert (found.message.text, found.finish, found.model) == ("Hello", "unknown", "gpt-x")
    assert [Delta("text", "Hel"), Delta("text", "lo")] == deltas
    whole = decoded([*stream, {"type": "response.completed", "response": {}}])[1]
    assert (whole.message.text, whole.finish, whole.error) == ("Hello", "stop", None)


def test_a_refusal_streams_as_text() -> None:
    item = message("") | {"content": [{"type": "refusal", "refusal": "I cannot."}]}
    stream: list[Any] = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.refusal.delta", "output_index": 0, "delta": "I can"},
        {"type": "response.refusal.delta", "output_index": 0, "delta": "not."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
    ]
    deltas, found = decoded(stream)
    assert [Delta("text", "I can"), Delta("text", "not.")] == deltas
    assert (found.finish, found.message.text) == ("refusal", "I cannot.")


# -- any cut of the pieces --------------------------------------------------------------------------------------

WORDS = st.text("ab é\n", min_size=1, max_size=12)
ITEMS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    WORDS.map(message),
    st.lists(WORDS, max_size=3).map(
        lambda texts: {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": text} for text in texts],
            "encrypted_content": "b3BhcXVl",
        }
    ),
    WORDS.map(lambda word: {**CALLED["output"][1], "arguments": f'{{"city":"{word!r}"}}'}),
)


def _cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


EMPTY: dict[str, Any] = {"arguments": "", "content": [], "summary": [], "encrypted_content": "eA=="}


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Output items, and events that deliver them in pieces of any size."""
    output = draw(st.lists(ITEMS, max_size=4))
    made: list[Any] = [{"type": "response.created", "response": {"status": "in_progress", "model": MODEL}}]
    for index, item in enumerate(output):
        at = {"output_index": index, "item_id": item["id"]}
        started: dict[str, Any] = {**item, **EMPTY}
        made.append({"type": "response.output_item.added", "item": {k: started[k] for k in item}, **at})
        if item["type"] == "message":
            pieces = _cut(draw, item["content"][0]["text"])
            made += [{"type": "response.output_text.delta", "content_index": 0, "delta": p, **at} for p in pieces]
        elif item["type"] == "reasoning":
            for i, part in enumerate(item["summary"]):
                kind = "response.reasoning_summary_text.delta"
                made += [{"type": kind, "summary_index": i, "delta": p, **at} for p in _cut(draw, part["text"])]
        else:
            kind = "response.function_call_arguments"
            made += [{"type": f"{kind}.delta", "delta": p, **at} for p in _cut(draw, item["arguments"])]
            made.append({"type": f"{kind}.done", "arguments": item["arguments"], **at})
        made.append({"type": "response.output_item.done", "item": item, **at})
    whole = {**CALLED, "output": output}
    return output, [*made, {"type": "response.completed", "response": whole}]


@given(streams())
def test_a_stream_in_any_pieces_gives_the_answer_that_is_given_whole(drawn: tuple[list[Any], list[Any]]) -> None:
    output, stream = drawn
    deltas, found = decoded(stream)
    assert WIRE.response({**CALLED, "output": output}, MODEL) == found
    assert found.message.text == "".join(d.text for d in deltas if d.kind == "text")
    assert found.message.reasoning == "".join(d.text for d in deltas if d.kind == "reasoning")
    assert [c.name for c in found.message.calls] == [d.text for d in deltas if d.kind == "call"]


@given(streams(), st.data())
def test_a_stream_cut_anywhere_keeps_what_was_delivered_and_no_complete_call(
    drawn: tuple[list[Any], list[Any]], data: st.DataObject
) -> None:
    stream = drawn[1]
    deltas, found = decoded(stream[: data.draw(st.integers(0, len(stream) - 1))])
    assert (found.finish, found.usage) == ("unknown", None)
    assert found.error is not None
    assert not any(call.complete for call in found.message.calls)
    assert found.message.text == "".join(d.text for d in deltas if d.kind == "text")
    assert found.message.reasoning == "".join(d.text for d in deltas if d.kind == "reasoning")


SHAPES: list[Any] = [None, True, 0, 1.5, "", "x", "rs_1", [], [None], [{}], {}, {"a": [1]}, {"text": "t", "id": 3}]
JSON = st.sampled_from(SHAPES)
KEYS = ("output_index", "item_id", "item", "delta", "response", "arguments", "summary_index", "error", "code")
FIELDS = ("type", "id", "status", "content", "summary", "output", "usage", "incomplete_details", "phase", "call_id")
WORD = st.sampled_from(["message", "reasoning", "function_call", "completed", "incomplete", "failed"])
WILD: st.SearchStrategy[Any] = st.dictionaries(st.sampled_from(FIELDS), JSON | WORD, max_size=5)
TYPES = sorted({event["type"] for event in PARALLEL} | {"response.output_text.delta", "response.failed"})


@given(st.lists(st.tuples(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), JSON | WILD)), max_size=6))
def test_no_event_of_any_shape_breaks_the_decoder(stream: list[tuple[str, dict[str, Any]]]) -> None:
    decoder = WIRE.decoder(MODEL)
    for name, event in stream:
        try:
            decoder.feed(name, {"type": name, **event})
        except ModelError:
            assert event.get("error")
    found = decoder.finish()
    assert all(not call.complete or found.finish == "tool_calls" for call in found.message.calls)


@given(JSON | WILD, st.lists(WILD, max_size=3))
def test_no_body_of_any_shape_breaks_the_reader(data: Any, output: list[Any]) -> None:
    for found in (data, {"status": "completed", "output": output, "usage": data, "error": data}):
        with suppress(ModelError):
            WIRE.response(found, MODEL)


# -- refusals ---------------------------------------------------------------------------------------------------


def refusal(status: int, data: Any = None, **headers: str) -> ModelError:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    found = WIRE.error(
        status, given, {"error": {"message": "No.", "type": "t", "code": None}} if data is None else data
    )
    assert isinstance(found, ModelError)
    return found


def test_a_refusal_is_told_with_status_code_and_request() -> None:
    data = {"error": {"message": "No such model.", "type": "invalid_request_error", "code": "model_not_found"}}
    found = refusal(400, data, x_request_id="req_1")
    assert (found.provider, found.status, found.code, found.request_id) == (API, 400, "model_not_found", "req_1")
    assert "No such model." in str(found)
    assert refusal(400).code == "t"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_these_may_be_asked_again(status: int) -> None:
    assert refusal(status).retryable
    assert not refusal(status, x_should_retry="false").retryable


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
@pytest.mark.case("C053")
def test_these_are_never_asked_again_unchanged(status: int) -> None:
    assert not refusal(status).retryable
    assert not refusal(status, x_should_retry="true", retry_after="1").retryable


def test_a_quota_that_is_spent_is_not_asked_again_and_402_only_with_a_time() -> None:
    spent = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": None}}
    assert not refusal(429, spent).retryable
    assert not refusal(429, {"error": {**spent["error"], "code": "insufficient_quota"}}, retry_after="1").retryable
    assert not refusal(402).retryable
    assert refusal(402, retry_after="1").retryable
    assert refusal(418, x_should_retry="true").retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "2"}, 2.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "250.5", "retry_after": "9"}, 0.2505),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9.0),
        ({"retry_after": "Fri, 01 May 2026 12:00:30 GMT", "date": "Fri, 01 May 2026 12:00:00 GMT"}, 30.0),
        ({"retry_after": "Fri, 01 May 2026 11:00:00 GMT", "date": "Fri, 01 May 2026 12:00:00 GMT"}, 0.0),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": ""}, None),
        ({}, None),
    ],
)
def test_each_form_of_the_time_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert seconds == refusal(429, **headers).retry_after


@pytest.mark.parametrize(
    "data",
    ["<html><body>502 Bad Gateway</body></html>", "", None, [], {}, {"error": "no"}, {"error": None}, {"error": []}, 3],
)
def test_a_body_of_any_kind_keeps_the_status(data: Any) -> None:
    found = WIRE.error(502, {}, data)
    assert isinstance(found, ModelError)
    assert (found.status, found.retryable) == (502, True)


def test_a_page_of_a_proxy_is_told_by_its_beginning() -> None:
    found = refusal(502, "<html><body>Bad Gateway</body></html>" + "x" * 2000)
    assert "<html><body>Bad Gateway" in str(found)
    assert len(str(found)) < 400


def test_a_key_in_a_message_is_taken_out() -> None:
    data = {"error": {"message": "Incorrect API key provided: sk-abcdefghijklmnopqrstuvwx.", "code": "invalid_api_key"}}
    assert "abcdefgh" not in str(refusal(401, data))
