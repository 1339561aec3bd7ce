"""Request bodies for OpenAI Responses: what the API takes, byte for byte where it matters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.provider.responses import EXAMPLES, MODEL, STRICT, TOOLS, WIRE, body, check, example, ours

from ferrule.content import Part, to_dict
from ferrule.errors import UnknownToolError, UnsupportedPartError, UsageError
from ferrule.message import Call, Message, ModelMessage, Raw, ToolMessage, UserMessage, user
from ferrule.provider.base import Capabilities, ModelRequest, OutputSchema, Sent, Settings
from ferrule.provider.openai_responses.wire import OpenAIResponses
from ferrule.strict_json import dumps, parse, restore, typed
from ferrule.tool import Toolset, tool

API = "openai-responses"
PNG = example("tool-media.json")["input"][2]["output"][1]["image_url"].partition(",")[2]
PDF = example("tool-media.json")["input"][2]["output"][3]["file_data"].partition(",")[2]
PHOTO = Part("image", mimeType="image/png", data=PNG)
REPORT = Part("file", mimeType="application/pdf", data=PDF, name="report.pdf")
REPORT_URL = Part("file", mimeType="application/pdf", url="https://files.example.invalid/report.pdf")
SOUND = Part("audio", mimeType="audio/wav", data="AAAA", name="call.wav")
OSLO = Call("c1", "get_weather", '{"city":"Oslo"}', "call_a1")
ROME = Call("c2", "get_weather", '{"city":"Rome"}', "call_a2")
HELLO = user("Hello")


def asked(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(messages or (HELLO,), **fields)


def items_of(*messages: Message, capabilities: Capabilities = STRICT) -> list[dict[str, Any]]:
    return body(asked(*messages), capabilities)["input"]


def image_at(url: str) -> Part:
    return Part("image", mimeType="image/png", url=url)


def said(items: list[Any], *calls: Call, api: str = API, text: str = "", model: str = MODEL) -> ModelMessage:
    return ModelMessage(text, calls, raw=Raw(api, model, items))


# -- the examples -----------------------------------------------------------------------------------------------


def test_tools_and_settings_are_written_as_in_the_example() -> None:
    request = asked(
        user("How warm is it in Oslo?"),
        instructions="Answer in one sentence.",
        tools=TOOLS,
        settings=Settings(
            tool_choice="auto",
            parallel_calls=True,
            reasoning="low",
            max_tokens=800,
            extra={"reasoning": {"summary": "auto"}},
        ),
    )
    assert ours("tools.json") == body(request)


def test_parallel_results_with_reasoning_are_written_as_in_the_example() -> None:
    golden = ours("parallel-results.json")
    request = asked(
        user("Compare Oslo and Rome."),
        said(golden["input"][1:4], OSLO, ROME),
        ToolMessage(OSLO, "4 degrees, rain"),
        ToolMessage(ROME, "Error: the station did not answer", True),
        instructions="Answer in one sentence.",
        tools=TOOLS,
    )
    assert golden == body(request)


def test_a_forced_tool_in_a_stream_is_written_as_in_the_example() -> None:
    settings = Settings(tool_choice="get_weather", parallel_calls=False)
    request = asked(user("Oslo?"), tools=TOOLS.filter(["get_weather"]), settings=settings)
    assert ours("forced-tool-stream.json") == body(request, stream=True)


def test_structured_output_is_written_as_in_the_example_with_its_schema_in_the_strict_dialect() -> None:
    golden = ours("structured-output.json")
    schema = golden["text"]["format"]["schema"]
    lowered: Any = {"anyOf": [{"type": "string", "enum": ["low", "high"]}, {"type": "null"}]}
    request = asked(user("File a note: water the plants."), output=OutputSchema("note", schema))
    golden["text"]["format"]["schema"] = {**schema, "properties": {"title": {"type": "string"}, "priority": lowered}}
    assert golden == body(request)


def test_a_text_turn_is_echoed_with_its_reasoning_and_phase_as_in_the_example() -> None:
    golden = ours("text-turn-echo.json")
    echoed = said(golden["input"][1:3], text="Hello!")
    assert golden == body(asked(user("Hello"), echoed, user("And now?")))


def test_media_of_a_tool_are_written_as_in_the_example() -> None:
    golden = ours("tool-media.json")
    call = Call("c1", "read_chart", "{}", "call_b1")
    media = [PHOTO, image_at("https://files.example.invalid/chart.png"), REPORT, REPORT_URL]
    request = asked(
        user("Show the chart."),
        said(golden["input"][1:2], call),
        ToolMessage(call, "chart ready", parts=tuple(map(to_dict, media))),
        tools=TOOLS,
    )
    assert golden == body(request)
    assert WIRE.body(request, MODEL, STRICT, stream=False).sent == (
        Sent("image", "native", "c1"),
        Sent("image", "native", "c1"),
        Sent("file", "native", "c1"),
        Sent("file", "native", "c1"),
    )


def test_media_of_the_user_are_written_as_in_the_example_at_the_detail_the_model_chooses() -> None:
    golden = ours("user-media.json")
    golden["input"][0]["content"][2]["detail"] = "auto"  # a part of ours has no such field
    media = (PHOTO, image_at("https://files.example.invalid/photo.png"), REPORT, REPORT_URL)
    request = asked(user(["Describe all of these.", *media]))
    assert golden == body(request)
    assert WIRE.body(request, MODEL, STRICT, stream=False).sent == (
        *(Sent("image", "native"), Sent("image", "native")),
        *(Sent("file", "native"), Sent("file", "native")),
    )


def test_a_cache_mark_ends_the_instructions_as_in_the_example() -> None:
    golden = ours("cache.json")
    extra = {key: golden[key] for key in ("prompt_cache_key", "prompt_cache_options")}
    request = asked(user("First question"), instructions="A long fixed rule book.", settings=Settings(extra=extra))
    assert golden == body(request, wire=OpenAIResponses(system="user", mark=True))
    marked = golden["input"][0]["content"][0]
    golden["input"] = [{"role": "developer", "content": [marked]}, {"role": "user", "content": "First question"}]
    assert golden == body(request, wire=OpenAIResponses(mark=True))


def test_instructions_that_cannot_stand_before_the_first_message_are_a_turn_of_their_own() -> None:
    wire = OpenAIResponses(system="user")
    rule = {"role": "user", "content": [{"type": "input_text", "text": "Be brief."}]}
    for first in (ModelMessage("Hello"), user([PHOTO])):
        assert rule == body(asked(first, HELLO, instructions="Be brief."), wire=wire)["input"][0]
    assert [{"role": "user", "content": "Hello"}] == body(asked(), wire=wire)["input"]


def test_every_example_has_a_test() -> None:
    requests = {p.name for p in EXAMPLES.glob("*.json") if not p.name.startswith("response-")}
    assert {
        "cache.json",
        "forced-tool-stream.json",
        "parallel-results.json",
        "structured-output.json",
        "text-turn-echo.json",
        "tool-media.json",
        "tools.json",
        "user-media.json",
    } == requests


def test_the_oracle_refuses_an_unknown_key_and_an_output_without_its_call() -> None:
    with pytest.raises(ValidationError):
        check({**ours("tools.json"), "instuctions": "x"})
    broken = ours("parallel-results.json")
    del broken["input"][4]["call_id"]
    with pytest.raises(KeyError):
        check(broken)


# -- endpoint ---------------------------------------------------------------------------------------------------


def test_path_and_headers() -> None:
    assert WIRE.api == API
    assert WIRE.path(MODEL, stream=False) == WIRE.path(MODEL, stream=True) == "/responses"
    assert WIRE.headers("sk-1") == {"authorization": "Bearer sk-1"}
    assert WIRE.headers(None) == {}


# -- settings ---------------------------------------------------------------------------------------------------


def test_a_bare_question_keeps_nothing_on_the_server() -> None:
    assert body(asked()) == {
        "model": MODEL,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "Hello"}],
    }


def test_a_model_that_does_not_reason_is_asked_for_no_reasoning() -> None:
    made = body(asked(settings=Settings(reasoning="high")), Capabilities(reasoning=False))
    assert made == {"model": MODEL, "store": False, "input": [{"role": "user", "content": "Hello"}]}


def test_sampling_goes_only_to_models_that_take_it_and_a_seed_to_none() -> None:
    settings = Settings(temperature=0.5, top_p=0.9, seed=7)
    assert (0.5, 0.9) == (body(asked(settings=settings))["temperature"], body(asked(settings=settings))["top_p"])
    assert not {"temperature", "top_p", "seed"} & set(body(asked(settings=settings), Capabilities(sampling=False)))


def test_texts_that_stop_the_answer_are_refused_rather_than_forgotten() -> None:
    with pytest.raises(UsageError, match="takes no stop texts"):
        body(asked(settings=Settings(stop=("END",))))


def test_extra_keys_win_and_objects_are_merged() -> None:
    extra: dict[str, Any] = {"store": True, "text": {"verbosity": "low"}, "include": [], "tools": []}
    output = OutputSchema("n", {"type": "object", "properties": {}}, strict=False)
    made = body(asked(tools=TOOLS, output=output, settings=Settings(extra=extra)))
    assert made["store"] is True
    assert made["include"] == made["tools"] == []
    assert set(made["text"]) == {"format", "verbosity"}
    assert made["text"]["format"]["strict"] is False


CHOICES: list[tuple[Any, Any]] = [
    ("auto", "auto"),
    ("none", "none"),
    ("required", "required"),
    (None, None),
    ("read_chart", {"type": "function", "name": "read_chart"}),
    (
        ["read_chart", "get_weather"],
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "read_chart"}, {"type": "function", "name": "get_weather"}],
        },
    ),
    ([], "none"),
]


@pytest.mark.parametrize(("wanted", "written"), CHOICES)
def test_each_tool_choice(wanted: Any, written: Any) -> None:
    made = body(asked(tools=TOOLS, settings=Settings(tool_choice=wanted)))
    assert written == made.get("tool_choice")


def test_without_tools_nothing_is_said_of_tools() -> None:
    made = body(asked(settings=Settings(tool_choice="required", parallel_calls=True)))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(made)


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    for choice in ("get_wether", ["get_wether"]):
        with pytest.raises(UnknownToolError, match="get_weather"):
            body(asked(tools=TOOLS, settings=Settings(tool_choice=choice)))


def test_a_tool_is_called_by_its_wire_name() -> None:
    tools = TOOLS.prefix("météo/")
    names = list(tools.wire_names)
    made = body(asked(tools=tools, settings=Settings(tool_choice="météo/get_weather")))
    assert names == [declared["name"] for declared in made["tools"]]
    assert made["tool_choice"] == {"type": "function", "name": names[0]}


def test_tools_are_not_strict_unless_the_model_is() -> None:
    plain = body(asked(tools=TOOLS), Capabilities())["tools"]
    assert [False, False] == [declared["strict"] for declared in plain]
    assert plain[1]["parameters"] == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_schema_that_cannot_be_strict_is_sent_as_not_strict() -> None:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}

    @tool(schema=schema)
    def count(**given: Any) -> str:
        return str(given)

    declared = body(asked(tools=Toolset([count])))["tools"][0]
    assert {"type", "name", "parameters", "strict"} == set(declared)
    assert declared["strict"] is False
    assert declared["parameters"]["additionalProperties"] == {"type": "integer"}


# -- parts ------------------------------------------------------------------------------------------------------


def test_a_file_without_a_name_gets_one() -> None:
    nameless = replace(REPORT, name=None)
    assert items_of(user(["Read.", nameless]))[0]["content"][1] == {
        "type": "input_file",
        "filename": "document.pdf",
        "file_data": f"data:application/pdf;base64,{PDF}",
    }


def test_audio_of_the_caller_is_refused_before_any_request() -> None:
    with pytest.raises(UnsupportedPartError, match="openai-responses has no shape for the audio part"):
        items_of(user([SOUND]))


def test_audio_of_a_tool_becomes_a_line_of_text() -> None:
    result = ToolMessage(OSLO, "recorded", parts=(to_dict(SOUND), to_dict(PHOTO)))
    request = asked(HELLO, ModelMessage("", (OSLO,)), result)
    assert body(request)["input"][2]["output"] == [
        {"type": "input_text", "text": "recorded\n[unsupported audio part (audio/wav, 3 bytes)] call.wav"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
    ]
    sent = WIRE.body(request, MODEL, STRICT, stream=False).sent
    assert sent == (Sent("audio", "placeholder", "c1"), Sent("image", "native", "c1"))


def test_text_parts_of_a_tool_are_text() -> None:
    result = ToolMessage(OSLO, "rows:", parts=({"type": "text", "text": "a;b"},))
    assert items_of(HELLO, ModelMessage("", (OSLO,)), result)[2]["output"] == "rows:\na;b"


def test_a_result_of_media_alone_has_no_empty_text() -> None:
    result = ToolMessage(OSLO, "", parts=(to_dict(PHOTO),))
    output = items_of(HELLO, ModelMessage("", (OSLO,)), result)[2]["output"]
    assert ["input_image"] == [part["type"] for part in output]


def test_a_server_without_media_in_results_is_shown_them_in_a_turn_after_all_results() -> None:
    results = [ToolMessage(OSLO, "chart", parts=(to_dict(PHOTO),)), ToolMessage(ROME, "none")]
    made = items_of(
        HELLO, ModelMessage("", (OSLO, ROME)), *results, user("Go on."), capabilities=Capabilities(tool_media=False)
    )
    assert made[3:] == [
        {"type": "function_call_output", "call_id": "call_a1", "output": "chart (1 image follows in the next message)"},
        {"type": "function_call_output", "call_id": "call_a2", "output": "none"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Output of tool get_weather (call_a1), image 1:"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
            ],
        },
        {"role": "user", "content": "Go on."},
    ]


def test_lone_surrogates_do_not_break_a_request() -> None:
    call = Call("c1", "get_weather", '{"city":"\ud800"}', "call_a1")
    request = asked(
        ModelMessage("t\ud800", (call,)), ToolMessage(call, "o\ud800", parts=(to_dict(PHOTO),)), instructions="i\ud800"
    )
    made = body(request)
    assert made["instructions"] == "i\ufffd"
    assert made["input"][0]["content"] == "t\ufffd"
    assert made["input"][1]["arguments"] == '{"city":"\ufffd"}'
    assert made["input"][2]["output"][0]["text"] == "o\ufffd"


# -- what the model said ----------------------------------------------------------------------------------------

REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"}
OSLO_ITEM: dict[str, Any] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_a1",
    "name": "get_weather",
    "arguments": '{"city": "Oslo"}',
    "status": "completed",
}
RAIN = ToolMessage(OSLO, "rain")


def test_own_items_go_back_unchanged_also_after_a_journal() -> None:
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "YWxs"}
    items = [compaction, REASONING, OSLO_ITEM]
    message = said(items, OSLO)
    assert items == items_of(HELLO, message, RAIN)[1:4]
    assert items == items_of(HELLO, restore(parse(dumps(typed(message)))), RAIN)[1:4]


def test_items_of_another_api_are_dropped_whole_and_rebuilt_from_the_normal_form() -> None:
    foreign = said([{"type": "thinking", "signature": "s"}, OSLO_ITEM], OSLO, api="anthropic", text="Let me see.")
    assert items_of(HELLO, foreign, RAIN) == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Let me see."},
        {
            "type": "function_call",
            "call_id": "call_a1",
            "name": "get_weather",
            "arguments": '{"city":"Oslo"}',
        },
        {"type": "function_call_output", "call_id": "call_a1", "output": "rain"},
    ]


@pytest.mark.parametrize("items", [None, [], {}, "x", [OSLO_ITEM, OSLO_ITEM], [REASONING]])
def test_items_that_do_not_fit_the_calls_are_not_used(items: Any) -> None:
    made = items_of(HELLO, said(items, OSLO), RAIN)
    assert ["function_call"] == [item["type"] for item in made[1:-1]]
    assert "id" not in made[1]


def test_a_name_or_id_that_the_api_would_refuse_is_rewritten_alike_in_call_and_result() -> None:
    call = Call("c1", "functions.get:weather", "", "functions.get_weather:0")
    made = items_of(HELLO, ModelMessage("", (call,)), ToolMessage(call, "rain"))
    assert made[1]["name"] == "functions_get_weather_" + made[1]["name"][-8:]
    assert made[1]["arguments"] == "{}"
    assert made[1]["call_id"].startswith("call_")
    assert made[1]["call_id"] == made[2]["call_id"]


@pytest.mark.case("C049")
def test_an_id_that_repeats_is_rewritten_in_the_call_and_its_result_also_inside_own_items() -> None:
    again = Call("c9", "get_weather", '{"city":"Rome"}', None)
    second = {**OSLO_ITEM, "id": "fc_2", "arguments": '{"city":"Rome"}'}
    made = items_of(HELLO, said([OSLO_ITEM], OSLO), RAIN, said([REASONING, second], again), ToolMessage(again, "sun"))
    assert made[1] == OSLO_ITEM
    assert made[3] == REASONING
    assert made[4] == {**second, "call_id": made[5]["call_id"]}
    assert made[5]["call_id"] != "call_a1"


def test_only_the_call_whose_id_repeats_is_rewritten() -> None:
    items = [OSLO_ITEM, {**OSLO_ITEM, "id": "fc_2"}]
    again = ROME._replace(wire_id=None)
    made = items_of(HELLO, said(items, OSLO, again), RAIN, ToolMessage(again, "sun"))
    assert made[1] == OSLO_ITEM
    assert [made[1]["call_id"], made[2]["call_id"]] == [made[3]["call_id"], made[4]["call_id"]]


def test_a_cut_call_goes_back_with_arguments_that_parse() -> None:
    cut = Call("c1", "get_weather", '{"city":"Os', "call_a1", complete=False)
    item = {**OSLO_ITEM, "arguments": '{"city":"Os', "status": "incomplete"}
    told = ToolMessage(cut, "not executed", True)
    assert items_of(HELLO, said([REASONING, item], cut), told)[2] == {**item, "arguments": "{}"}
    assert items_of(HELLO, ModelMessage("", (cut,)), told)[1]["arguments"] == "{}"


@pytest.mark.case("C052")
def test_reasoning_that_led_to_nothing_stays_behind() -> None:
    message: dict[str, Any] = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [],
    }
    assert items_of(HELLO, said([REASONING]), user("?")) == [
        {"role": "user", "content": "Hello"},
        {"role": "user", "content": "?"},
    ]
    assert [REASONING, message] == items_of(HELLO, said([REASONING, message, REASONING]), user("?"))[1:3]


def test_a_message_that_said_nothing_is_left_out() -> None:
    assert items_of(HELLO, ModelMessage(), user("?")) == items_of(HELLO, user("?"))


def test_calls_come_first_and_then_all_results_in_call_order() -> None:
    made = items_of(HELLO, ModelMessage("", (OSLO, ROME)), RAIN, ToolMessage(ROME, "sun"), user("And?"), user("Now?"))
    assert ["call_a1", "call_a2", "call_a1", "call_a2"] == [item["call_id"] for item in made[1:5]]
    assert ["And?", "Now?"] == [item["content"] for item in made[5:]]


def test_a_transcript_without_a_result_is_refused() -> None:
    with pytest.raises(UsageError, match="the transcript cannot be sent: call 'c1'"):
        items_of(HELLO, ModelMessage("", (OSLO,)), user("?"))


def test_what_is_encoded_once_serves_later_requests_and_other_capabilities_do_not_see_it() -> None:
    result = ToolMessage(OSLO, "chart", parts=(to_dict(PHOTO),))
    messages: tuple[Message, ...] = (HELLO, ModelMessage("", (OSLO,)), result)
    native = items_of(*messages)
    moved = items_of(*messages, capabilities=Capabilities(tool_media=False))
    assert native == items_of(*messages)
    assert len(native) + 1 == len(moved)
    other = type(WIRE)("other").body(asked(*messages[:1]), MODEL, STRICT, stream=False)
    assert other.json == WIRE.body(asked(*messages[:1]), MODEL, STRICT, stream=False).json


# -- any transcript ---------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=20)
MEDIA = st.sampled_from([to_dict(PHOTO), to_dict(REPORT), to_dict(REPORT_URL), to_dict(SOUND)])
ARGUMENTS = st.sampled_from(['{"city":"Oslo"}', "{}", "", '{"city":', "null", '{"a":1,"a":2}'])


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    """Turns of the user and of models of this and other APIs, with ids that are absent, foreign or too long."""
    messages: list[Message] = [UserMessage((Part("text", text=draw(TEXTS)),))]
    for turn in range(draw(st.integers(0, 4))):
        calls = tuple(
            Call(
                id=f"c{turn}.{i}",
                name=draw(st.sampled_from(["get_weather", "functions.x", "é" * 80])),
                arguments=draw(ARGUMENTS),
                wire_id=draw(st.sampled_from([None, f"call_{turn}_{i}", f"x.{turn}:{i}", f"{turn}{i}" * 40])),
            )
            for i in range(draw(st.integers(0, 3)))
        )
        items: list[Any] = [
            {**OSLO_ITEM, "id": f"fc_{turn}{i}", "call_id": c.wire_id or "call_dup", "arguments": c.arguments}
            for i, c in enumerate(calls)
        ]
        raw = draw(st.sampled_from([None, Raw(API, MODEL, [REASONING, *items]), Raw("gemini", MODEL, [{"text": "x"}])]))
        messages.append(ModelMessage(draw(TEXTS), calls, raw=raw))
        messages += [
            ToolMessage(call, draw(TEXTS), draw(st.booleans()), tuple(draw(st.lists(MEDIA, max_size=2))))
            for call in calls
        ]
        if draw(st.booleans()):
            messages.append(user([draw(TEXTS), PHOTO]))
    return messages


@given(transcripts(), st.booleans())
def test_every_paired_transcript_makes_a_body_that_the_official_types_take(
    messages: list[Message], tool_media: bool
) -> None:
    request = asked(*messages, tools=TOOLS)
    capabilities = Capabilities(tool_media=tool_media)
    made = body(request, capabilities)
    outputs = [item for item in made["input"] if item.get("type") == "function_call_output"]
    assert len(outputs) == sum(isinstance(m, ToolMessage) for m in messages)
    sent = WIRE.body(request, MODEL, capabilities, stream=False).sent
    media = sum(len(m.parts) for m in messages if isinstance(m, ToolMessage))
    assert len(sent) == media + sum(p.type == "image" for m in messages if isinstance(m, UserMessage) for p in m.parts)
