from __future__ import annotations

import re
from typing import Any

import pytest
from tests.unit.provider.anthropic_support import MODEL, PLAIN, example, written

from ferrule.errors import ModelError
from ferrule.message import Call, ModelMessage, Raw, ToolMessage, Usage, user
from ferrule.provider.anthropic.wire import AnthropicWire
from ferrule.provider.base import Delta, ModelResponse

WIRE = AnthropicWire()
USAGE = Usage(input=90, output=40, cached=64, reasoning=16)
USE = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"sum": 1}}
TEXT = {"type": "text", "text": "Hello"}


def answered(*content: Any, stop_reason: Any = "end_turn", **more: Any) -> ModelResponse:
    return WIRE.response({"type": "message", "content": list(content), "stop_reason": stop_reason, **more}, MODEL)


def test_an_answer_with_calls_is_read_with_its_thinking_and_usage() -> None:
    body = example("response-tool-calls")
    found = WIRE.response(body, "asked-model")
    calls = (
        Call("", "get_weather", '{"city":"Oslo"}', "toolu_a1"),
        Call("", "get_weather", '{"city":"Rome"}', "toolu_a2"),
    )
    assert ("tool_calls", calls, "Two cities, two calls.") == (
        found.finish,
        found.message.calls,
        found.message.reasoning,
    )
    assert (USAGE, "example-model", None, False) == (found.usage, found.model, found.error, found.flagged)
    assert Raw("anthropic", "asked-model", body["content"]) == found.message.raw


def test_a_refusal_is_told_with_its_category() -> None:
    found = WIRE.response(example("response-refusal"), MODEL)
    assert ("refusal", "The model refused to answer (cyber).", USAGE) == (found.finish, found.message.text, found.usage)


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({"type": "refusal", "category": None, "explanation": "Not this."}, "Not this."),
        (None, "The model refused to answer."),
    ],
)
def test_a_refusal_is_told_in_the_providers_words_where_it_has_some(details: Any, text: str) -> None:
    assert text == answered(stop_reason="refusal", stop_details=details).message.text


@pytest.mark.parametrize(
    ("reason", "content", "finish", "complete", "flagged"),
    [
        ("end_turn", [TEXT], "stop", None, False),
        ("stop_sequence", [TEXT], "stop", None, False),
        ("end_turn", [], "stop", None, True),
        ("end_turn", [{"type": "text", "text": " "}], "stop", None, True),
        ("end_turn", [USE], "tool_calls", True, False),
        ("tool_use", [TEXT, USE], "tool_calls", True, False),
        ("tool_use", [TEXT], "stop", None, True),
        ("max_tokens", [USE], "length", False, False),
        ("model_context_window_exceeded", [TEXT], "length", None, False),
        ("refusal", [TEXT, USE], "refusal", False, False),
        ("pause_turn", [USE], "unknown", False, False),
        ("something_new", [USE], "unknown", False, False),
        (None, [USE], "unknown", False, False),
        ([], [TEXT], "unknown", None, False),
    ],
)
def test_the_finish_and_whether_calls_are_whole_follow_the_reason_and_the_calls(
    reason: Any, content: list[Any], finish: str, complete: bool | None, flagged: bool
) -> None:
    found = answered(*content, stop_reason=reason)
    assert (finish, flagged) == (found.finish, found.flagged)
    assert [complete] * (complete is not None) == [call.complete for call in found.message.calls]
    assert (found.error is not None) == (finish == "unknown")


def test_a_block_with_a_field_that_is_no_text_is_not_kept_and_what_follows_keeps_its_place() -> None:
    odd: list[Any] = [
        {"type": "text", "text": 5},
        {"type": "thinking", "thinking": "x", "signature": 5},
        {"type": 5},
        7,
    ]
    found = answered(*odd, TEXT, USE, stop_reason="tool_use")
    assert (found.message.raw, found.message.text) == (Raw("anthropic", MODEL, [TEXT, USE]), "Hello")
    decoder = WIRE.decoder(MODEL)
    piece = {"type": "input_json_delta", "partial_json": '{"sum": 2}'}
    for event in (
        {"type": "content_block_start", "index": 0, "content_block": odd[0]},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": USE},
        {"type": "content_block_delta", "index": 1, "delta": piece},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ):
        assert list(decoder.feed("message", event)) in ([], [Delta("call", "pay")])
    assert (Call("", "pay", '{"sum": 2}', "toolu_1"),) == decoder.finish().message.calls


def test_a_name_that_the_api_would_refuse_is_sent_back_as_one_that_it_takes() -> None:
    said = Call("1", "functions.get weather", "{}", "toolu_1")
    body = written(PLAIN, [user("Hi"), ModelMessage("", (said,)), ToolMessage(said, "There is no such tool.", True)])
    assert re.fullmatch("functions_get_weather_[0-9a-f]{8}", body["messages"][1]["content"][0]["name"])


def test_a_pause_says_how_to_go_on() -> None:
    error = answered(stop_reason="pause_turn").error
    assert error is not None
    assert ("pause_turn", False) == (error.code, error.retryable)
    assert "Send the transcript again" in error.reason


def test_a_paused_turn_goes_on_where_it_was_left_with_its_blocks_as_they_came() -> None:
    searched = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "text", "text": "I look"},
    ]
    first = answered(*searched, stop_reason="pause_turn")
    assert (first.paused, first.finish) == (True, "unknown")
    assert not answered(stop_reason="pause_turn").paused  # there is nothing to go on from
    assert not answered(USE, stop_reason="pause_turn").paused  # a call of ours comes first
    assert not answered({"type": "text", "text": "x"}, stop_reason="end_turn").paused
    second = answered({"type": "text", "text": "ed it up."}, stop_reason="end_turn")
    body = written(PLAIN, [user("Hi"), first.message])
    assert body["messages"][1] == {"role": "assistant", "content": searched}
    body = written(PLAIN, [user("Hi"), first.message, second.message, user("Thanks")])
    assert [len(m["content"]) for m in body["messages"]] == [1, 3, 1]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, None),
        (None, None),
        ({"output_tokens": 3}, Usage(output=3)),
        ({"input_tokens": 0, "output_tokens": 0}, Usage(input=0, output=0)),
        ({"cache_read_input_tokens": 5}, Usage(input=5, cached=5)),
        ({"input_tokens": 1, "cache_creation_input_tokens": None, "output_tokens": "4"}, Usage(input=1)),
    ],
)
def test_usage_that_nobody_told_is_none(counts: Any, usage: Usage | None) -> None:
    assert usage == answered(TEXT, usage=counts).usage


def test_several_texts_are_one_and_odd_blocks_do_no_harm() -> None:
    found = answered(TEXT, "odd", None, {"no": "type"}, {"type": "text"}, {"type": "new", "x": 1}, TEXT)
    assert "HelloHello" == found.message.text


def test_arguments_are_the_text_of_the_input_and_an_absent_one_is_empty() -> None:
    found = answered(USE, {"type": "tool_use", "id": "", "name": "now"}, stop_reason="tool_use")
    assert [('{"sum":1}', "toolu_1"), ("{}", None)] == [(c.arguments, c.wire_id) for c in found.message.calls]


@pytest.mark.parametrize("data", [None, "<html>", [], {}, {"content": "text"}])
def test_what_is_no_message_is_an_error(data: Any) -> None:
    with pytest.raises(ModelError, match="the answer is no message"):
        WIRE.response(data, MODEL)


def test_an_error_that_came_with_status_200_is_an_error() -> None:
    with pytest.raises(ModelError, match="the server is overloaded: Busy") as caught:
        WIRE.response({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, MODEL)
    assert caught.value.retryable
