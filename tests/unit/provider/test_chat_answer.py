from __future__ import annotations

from typing import Any

import pytest
from tests.unit.provider.chat import OSLO, ROME, USAGE, chunk, decoded, events, example, kept, whole, wire

from ferrule.errors import ModelError
from ferrule.message import Call, Finish, ModelMessage, Raw, Usage
from ferrule.provider.base import ModelResponse
from ferrule.provider.openai_chat.answer import read_usage

# -- whole answers ----------------------------------------------------------------------------------------------


def test_an_answer_with_calls_is_read() -> None:
    a, b = Call("", "get_weather", OSLO, "call_a1"), Call("", "get_weather", ROME, "call_a2")
    expected = ModelResponse(ModelMessage("", (a, b)), "tool_calls", USAGE, "example-model", "chatcmpl-x1")
    assert expected == wire().response(example("openai-chat/response-tool-calls.json"), "asked")


def test_a_refusal_is_read() -> None:
    answer = wire().response(example("openai-chat/response-refusal.json"), "asked")
    assert ("refusal", "I cannot do that.", USAGE) == (answer.finish, answer.message.text, answer.usage)
    assert Raw("openai-chat", "asked", {"refusal": "I cannot do that.", "content": None}) == answer.message.raw


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("error", "error"),
        ("function_call", "unknown"),
        ("new_word", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_reason_to_end_is_one_of_a_closed_set(word: str | None, finish: Finish) -> None:
    answer = whole({"content": "Hi."}, word)
    assert finish == answer.finish
    assert (finish in ("error", "unknown")) == (answer.error is not None)


def test_an_unknown_reason_to_end_is_named_in_the_error() -> None:
    error = whole({"content": "Hi."}, "function_call").error
    assert "openai-chat: the answer ended for no known reason [code function_call]" == str(error)


@pytest.mark.parametrize("word", ["stop", "tool_calls"])
def test_calls_decide_and_not_the_word(word: str) -> None:
    entry = {"id": "c", "function": {"name": "t", "arguments": "{}"}}
    assert "tool_calls" == whole({"tool_calls": [entry]}, word).finish


@pytest.mark.parametrize(
    ("message", "word", "flagged"),
    [
        ({"content": "Hi."}, "stop", False),
        ({"content": "Hi."}, "tool_calls", True),
        ({"content": "", "tool_calls": []}, "tool_calls", True),
        ({"content": None}, "stop", True),
        ({"content": " \n", "reasoning": "Hm."}, "stop", True),
        ({"content": None}, "length", False),
    ],
)
@pytest.mark.case("C059")
def test_an_answer_that_says_nothing_is_flagged(message: Any, word: str, flagged: bool) -> None:
    assert flagged == whole(message, word).flagged


@pytest.mark.parametrize(
    ("word", "arguments", "complete"),
    [
        ("tool_calls", "{}", True),
        ("tool_calls", '{"a":1} and more', True),  # wrong, but not cut: the model is told
        ("tool_calls", '{"a":"x\\"}', False),
        ("tool_calls", '{"a":"x', False),
        ("tool_calls", '{"a":[1', False),
        ("length", "{}", False),
        ("content_filter", "{}", False),
        ("function_call", "{}", False),
    ],
)
@pytest.mark.case("C055")
def test_a_call_is_complete_only_on_positive_evidence(word: str, arguments: str, complete: bool) -> None:
    (call,) = whole(
        {"tool_calls": [{"id": "c", "function": {"name": "t", "arguments": arguments}}]}, word
    ).message.calls
    assert complete == call.complete


def test_a_call_without_a_name_is_not_complete() -> None:
    assert not whole({"tool_calls": [{"id": "c", "function": {}}]}).message.calls[0].complete


def test_calls_of_a_whole_answer_stay_apart_whatever_their_ids() -> None:
    entry = {"id": "c", "function": {"name": "t", "arguments": "{}"}}
    assert ["c", None, None] == [
        c.wire_id for c in whole({"tool_calls": [entry, entry, {**entry, "id": ""}]}).message.calls
    ]


@pytest.mark.parametrize(
    ("message", "reasoning"),
    [
        ({"reasoning_content": "a"}, "a"),
        ({"reasoning": "b"}, "b"),
        ({"reasoning": "a", "reasoning_content": "a"}, "a"),
        (
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "c"},
                    {"type": "reasoning.summary", "summary": "d"},
                ]
            },
            "cd",
        ),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "e"}]}]}, "e"),
        ({"content": "x"}, ""),
    ],
)
def test_reasoning_is_read_from_every_place(message: Any, reasoning: str) -> None:
    assert reasoning == whole(message).message.reasoning
    assert reasoning == decoded([chunk("stop", **message)])[0].message.reasoning


def test_only_what_text_and_calls_do_not_say_is_kept() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
    assert whole({"content": "Hi.", "annotations": [], "audio": None}).message.raw is None
    assert {"reasoning_details": details} == kept(whole({"content": "Hi.", "reasoning_details": details}))


def test_nothing_of_a_failed_answer_is_kept_to_be_sent_back() -> None:
    assert whole({"content": "Hi.", "reasoning": "Hm."}, "error").message.raw is None


NO_ANSWERS: list[Any] = [None, [], "x", {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": None}]}]


@pytest.mark.parametrize("data", NO_ANSWERS)
def test_a_body_without_a_message_is_no_answer(data: Any) -> None:
    with pytest.raises(ModelError, match="the answer has no message in it"):
        wire().response(data, "m")


@pytest.mark.parametrize(
    "data",
    [
        {"error": {"code": 502, "message": "upstream"}},
        {"choices": [{"error": {"code": 502, "message": "upstream"}, "message": {"content": ""}}]},
    ],
)
def test_an_error_with_status_200_is_an_error(data: Any) -> None:
    with pytest.raises(ModelError, match="upstream") as caught:
        wire("openrouter").response(data, "m")
    assert (502, True) == (caught.value.status, caught.value.retryable)


def test_a_refused_call_with_status_200_is_an_answer() -> None:
    error = events("compat/stream-error-event.jsonl")[1]
    answer = wire("groq").response(error, "m")
    assert {0: "tool arguments do not match the schema"} == answer.mended


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, None),
        ({"prompt_tokens": 1, "completion_tokens": 0}, Usage(1, 0)),
        ({"prompt_tokens": 1, "num_cached_tokens": 1}, Usage(1, cached=1)),
        ({"prompt_tokens": 1, "prompt_cache_hit_tokens": 0}, Usage(1, cached=0)),
        ({"prompt_tokens": "1", "completion_tokens": True, "cost": 0.25}, Usage(cost=0.25)),
        (
            {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": None}, "cost": True},
            None,
        ),
    ],
)
def test_usage_that_nobody_told_is_unknown_and_not_zero(usage: Any, expected: Usage | None) -> None:
    assert expected == read_usage(usage)
