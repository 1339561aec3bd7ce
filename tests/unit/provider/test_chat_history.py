from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.chat import TOOLS, answered, asked, body, example, weather, wire

from ferrule.errors import UsageError
from ferrule.message import Call, Message, ModelMessage, Raw, Transcript, user
from ferrule.provider.base import Capabilities, ModelRequest
from ferrule.provider.openai_chat.wire import DIALECTS, ChatWire, sent_arguments

APIS = list(DIALECTS)
OPENAI = DIALECTS["openai-chat"]


# -- history ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("openai-chat", {"content": None}),
        ("groq", {}),
        ("mistral", {"content": ""}),
        ("openrouter", {"content": ""}),
        ("ollama", {"content": ""}),
        ("vllm", {"content": None}),
    ],
)
@pytest.mark.case("C053")
def test_no_text_beside_calls_is_written_as_the_server_takes_it(api: str, expected: Any) -> None:
    call = weather("Oslo", None)
    turn = body([asked(call), answered(call)], api)["messages"][0]
    assert expected == {key: turn[key] for key in ("content",) if key in turn}


@pytest.mark.parametrize("api", APIS)
def test_an_empty_turn_of_the_model_stays_a_turn(api: str) -> None:
    found = body([user("x"), ModelMessage(), user("y")], api)
    assert {"role": "assistant", "content": ""} == found["messages"][1]


def test_what_another_provider_sent_is_left_out_whole() -> None:
    call = weather("Oslo", "toolu_1")
    raw = Raw("anthropic", "claude", [{"type": "thinking", "thinking": "…", "signature": "s"}])
    turn = body([asked(call, raw=raw), answered(call)])["messages"][0]
    assert {"role", "content", "tool_calls"} == set(turn)


def test_what_another_family_of_models_sent_is_left_out_whole() -> None:
    raw = Raw("openrouter", "vendor/one", {"reasoning_details": [{"type": "reasoning.text", "signature": "s"}]})
    history = [ModelMessage("Hi.", raw=raw)]
    same = body(history, "openrouter", model="vendor/two")["messages"][0]
    other = body(history, "openrouter", model="maker/one")["messages"][0]
    assert {"role": "assistant", "content": "Hi.", **raw.items} == same
    assert {"role": "assistant", "content": "Hi."} == other


def test_mistral_gets_its_list_of_thinking_and_text_back() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
        {"type": "text", "text": "Hi."},
    ]
    answer = wire("mistral").response(
        {
            "choices": [
                {"message": {"role": "assistant", "content": content, "tool_calls": None}, "finish_reason": "stop"}
            ]
        },
        "m",
    )
    assert ("Hi.", "Hm.") == (answer.message.text, answer.message.reasoning)
    assert content == body([answer.message], "mistral", model="m")["messages"][0]["content"]


def test_signatures_of_calls_go_back_with_rewritten_ids() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "s1"}}}
    call = {"id": "x" * 50, "type": "function", "index": 0, "function": {"name": "read_chart", "arguments": "{}"}}
    answer = wire("vllm").response(
        {"choices": [{"message": {"tool_calls": [{**call, **signed}, call]}, "finish_reason": "stop"}]}, "m"
    )
    made = [c._replace(id=str(i)) for i, c in enumerate(answer.message.calls)]
    message = replace(answer.message, calls=tuple(made))
    first, second = body([message, *map(answered, made)], "vllm", model="m")["messages"][0]["tool_calls"]
    assert signed["extra_content"] == first["extra_content"]
    assert "extra_content" not in second
    assert all(len(c["id"]) == 29 for c in (first, second))
    assert "index" not in first


def test_signatures_that_fit_no_call_are_left_out() -> None:
    call = weather("Oslo", None)
    raw = Raw("openai-chat", "example-model", {"tool_calls": [{"extra_content": 1}, {}]})
    turn = body([asked(call, raw=raw), answered(call)])["messages"][0]
    assert {"id", "type", "function"} == set(turn["tool_calls"][0])


def test_what_is_kept_but_no_object_is_left_out() -> None:
    assert {"role": "assistant", "content": "Hi."} == body(
        [ModelMessage("Hi.", raw=Raw("openai-chat", "example-model", [1]))]
    )["messages"][0]


def test_a_refusal_goes_back_as_one() -> None:
    answer = wire().response(example("openai-chat/response-refusal.json"), "example-model")
    found = body([user("x"), answer.message, user("y")])
    assert {"role": "assistant", "content": None, "refusal": "I cannot do that."} == found["messages"][1]


def test_a_name_that_no_server_takes_is_sent_as_one_that_all_take() -> None:
    call = Call("1", "functions.get weather", "{}")
    name = body([asked(call), answered(call)])["messages"][0]["tool_calls"][0]["function"]["name"]
    assert name.startswith("functions_get_weather_")


@pytest.mark.parametrize(
    ("api", "given", "kept"),
    [
        ("openai-chat", "call_1", True),
        ("openai-chat", "x" * 41, False),
        ("openai-chat", "call:1", False),
        ("mistral", "call_1", False),
        ("mistral", "Ab3dE6gH9", True),
        ("groq", "fc_0b0e3a5e-53a4-4d26-a1e5-6f5b3a6e8f11", True),
    ],
)
def test_an_id_stays_where_the_server_takes_it(api: str, given: str, kept: bool) -> None:
    call = weather("Oslo", given)
    turns = body([asked(call), answered(call)], api)["messages"]
    assert kept == (turns[0]["tool_calls"][0]["id"] == given)


def test_a_result_without_its_call_is_refused() -> None:
    with pytest.raises(UsageError, match="does not follow its call"):
        body([user("x"), answered(weather("Oslo", None))])


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ('{"a":1} ok', '{"invalid_arguments":"{\\"a\\":1} ok"}'),
        ('{"a":1,"a":2}', '{"invalid_arguments":"{\\"a\\":1,\\"a\\":2}"}'),
        ("[1]", '{"invalid_arguments":"[1]"}'),
    ],
)
@pytest.mark.case("C019")
def test_arguments_go_back_as_valid_json_of_an_object(written: str, sent: str) -> None:
    assert sent == sent_arguments(written)


@given(st.text())
def test_any_text_goes_back_as_valid_json_of_an_object(written: str) -> None:
    assert isinstance(json.loads(sent_arguments(written)), dict)


def test_text_that_utf8_cannot_carry_is_mended_on_the_way() -> None:
    call = Call("1", "t", '{"a":"\ud800"}')
    history = [user("x"), ModelMessage("\ud83d\ude00", (call,)), answered(call, "\ud800")]
    turns = body(history, instructions="\ud800")["messages"]
    assert ["�", "x", "😀", "�"] == [t["content"] for t in turns]


# -- bytes ------------------------------------------------------------------------------------------------------


def test_a_message_is_encoded_once_for_each_way_of_encoding() -> None:
    call = weather("Oslo", "call_1")
    messages: list[Message] = [user("x"), asked(call), answered(call)]
    wires = wire(), wire("mistral")
    for w in (*wires, ChatWire()):
        w.body(ModelRequest(Transcript(messages)), "m", Capabilities(), stream=False)
    kept = [dict(m.wire or {}) for m in messages]
    assert [2, 2, 2] == [len(found) for found in kept]
    wires[0].body(ModelRequest(Transcript(messages)), "m-2", Capabilities(), stream=True)
    assert kept == [m.wire for m in messages]


_TEXTS = st.text(st.characters(exclude_categories=()), max_size=6)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    found: list[Message] = []
    for turn in range(draw(st.integers(0, 4))):
        found += [user(t) for t in draw(st.lists(_TEXTS, max_size=2))]
        ids = draw(st.lists(st.none() | _TEXTS | st.sampled_from(["call_1", "Ab3dE6gH9"]), max_size=3))
        calls = [
            Call(f"{turn}.{i}", draw(_TEXTS), draw(_TEXTS), f"{id}{turn}{i}" if id else id) for i, id in enumerate(ids)
        ]
        found.append(ModelMessage(draw(_TEXTS), tuple(calls)))
        parts = draw(st.sampled_from([(), ({"type": "image", "mimeType": "image/png", "url": "https://a.example/b"},)]))
        found += [answered(c, draw(_TEXTS), parts=parts, is_error=draw(st.booleans())) for c in calls]
    return found


@given(histories(), st.sampled_from(APIS))
def test_any_history_makes_a_body_that_the_judge_takes(history: list[Message], api: str) -> None:
    body(history, api, tools=TOOLS, instructions="x")
