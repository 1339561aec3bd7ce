from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.provider.chat import TOOLS, answered, asked, body, example, get_weather, judge, weather, wire

from ferrule.content import Part, audio, file, image, text
from ferrule.errors import UnknownToolError, UnsupportedPartError
from ferrule.message import Call, Message, ModelMessage, Raw, user
from ferrule.provider.base import Capabilities, ModelRequest, OutputSchema, Sent, Settings
from ferrule.provider.openai_chat.wire import DIALECTS, ChatWire
from ferrule.provider.schema import lower
from ferrule.tool.toolset import Toolset

APIS = list(DIALECTS)
OPENAI = DIALECTS["openai-chat"]


def part_of(shape: Any) -> Part:
    """The part behind a golden shape."""
    value = shape[shape["type"]]
    if shape["type"] == "input_audio":
        return Part("audio", mimeType="audio/wav", data=value["data"])
    address = value if isinstance(value, str) else value.get("url") or value["file_data"]
    if address.startswith("data:"):
        mime, _, data = address.removeprefix("data:").partition(";base64,")
        kind, name = ("image", None) if mime.startswith("image/") else ("file", "report.pdf")
        return Part(kind, mimeType=mime, data=data, name=name)
    return Part("image", mimeType="image/png", url=address)


# -- the golden bodies ------------------------------------------------------------------------------------------


def test_tools_and_settings_are_written_as_in_the_example() -> None:
    settings = Settings(temperature=0.2, max_tokens=400, tool_choice="auto", parallel_calls=True)
    found = body(
        [user("How warm is it in Oslo?")],
        replace(OPENAI, system="developer"),
        instructions="Answer in one sentence.",
        tools=TOOLS,
        settings=settings,
    )
    assert example("openai-chat/tools.json") == found


def test_a_forced_tool_in_a_stream_is_written_as_in_the_example() -> None:
    found = body(
        [user("Oslo?")],
        capabilities=Capabilities(strict_tools=True),
        stream=True,
        tools=Toolset([get_weather]),
        settings=Settings(tool_choice="get_weather", parallel_calls=False),
    )
    assert example("openai-chat/forced-tool-stream.json") == found


def test_results_of_parallel_calls_are_written_as_in_the_example() -> None:
    a, b = weather("Oslo", "call_a1", "1"), weather("Rome", "call_a2", "2")
    results = answered(a), answered(b, "the station did not answer", is_error=True)
    found = body(
        [user("Compare Oslo and Rome."), asked(a, b), *results], instructions="Answer in one sentence.", tools=TOOLS
    )
    assert example("openai-chat/parallel-results.json") == found


def test_media_of_results_follow_the_tool_messages_as_in_the_example() -> None:
    golden = example("openai-chat/tool-media-relocated.json")
    shapes = golden["messages"][-1]["content"]
    a, b = Call("1", "read_chart", "{}", "call_b1"), weather("Oslo", "call_b2", "2")
    parts = tuple(_dict(part_of(s)) for s in shapes if s["type"] != "text")
    history = [
        user("Show the chart and the weather."),
        asked(a, b),
        answered(a, "chart ready", parts=parts),
        answered(b),
    ]
    assert golden == body(history, tools=TOOLS)


def _dict(part: Part) -> dict[str, Any]:
    keys = ("type", "mimeType", "data", "url", "name")
    return {key: value for key in keys if (value := getattr(part, key)) is not None}


def test_media_of_the_user_are_written_as_in_the_example() -> None:
    golden = example("openai-chat/user-media.json")
    content = golden["messages"][0]["content"]
    del content[1]["image_url"]["detail"]  # our parts have no such field
    parts = [text(content[0]["text"]), *map(part_of, content[1:])]
    assert golden == body([user(parts)])


def test_structured_output_is_written_as_in_the_example() -> None:
    golden = example("openai-chat/structured-output.json")
    described = golden["response_format"]["json_schema"]
    output = OutputSchema("note", described["schema"])
    found = body([user("File a note: water the plants.")], output=output)
    described["schema"] = lower(described["schema"], "openai-strict").schema  # says the same without lists of types
    assert golden == found


def test_cache_marks_and_extra_keys_are_written_as_in_the_example() -> None:
    golden = example("openai-chat/reasoning-cache.json")
    extra = {key: golden[key] for key in ("prompt_cache_key", "prompt_cache_options")}
    found = body(
        [user("First question")],
        replace(OPENAI, system="developer", mark="prompt_cache_breakpoint"),
        instructions="A long fixed rule book.",
        settings=Settings(reasoning="low", max_tokens=800, extra=extra),
    )
    assert golden == found


def test_groq_gets_its_reasoning_back_and_no_empty_content() -> None:
    raw = Raw("groq", "groq-example", {"reasoning": "One call is enough."})
    call = weather("Oslo", "ab12cd34e")
    found = body(
        [user("Oslo?"), asked(call, raw=raw), answered(call)],
        "groq",
        model="groq-example",
        tools=TOOLS,
        settings=Settings(reasoning="low", extra={"reasoning_format": "parsed"}),
    )
    assert example("compat/groq-reasoning.json") == found


def test_mistral_gets_a_model_turn_between_results_and_their_media() -> None:
    golden = example("compat/mistral-media.json")
    parts = tuple(_dict(part_of(s)) for s in golden["messages"][-1]["content"] if s["type"] != "text")
    call = Call("1", "read_chart", "{}", "Ab3dE6gH9")
    found = body(
        [user("Show the chart."), asked(call), answered(call, "chart ready", parts=parts)],
        "mistral",
        model="mistral-example",
        tools=TOOLS,
        settings=Settings(tool_choice="required"),
    )
    assert golden == found


def test_ollama_gets_empty_text_and_is_asked_for_usage() -> None:
    raw = Raw("ollama", "ollama-example", {"reasoning": "One call is enough."})
    call = weather("Oslo", "call_k3v9x2p1")
    history = [user("Oslo?"), asked(call, raw=raw), answered(call)]
    found = body(history, "ollama", model="ollama-example", tools=TOOLS, stream=True)
    assert example("compat/ollama-tools.json") == found


def test_openrouter_gets_its_reasoning_details_back_unchanged() -> None:
    golden = example("compat/openrouter-reasoning.json")
    details = golden["messages"][1]["reasoning_details"]
    call = weather("Oslo", "toolu_or1")
    raw = Raw("openrouter", golden["model"], {"reasoning_details": details})
    found = body(
        [user("Oslo?"), asked(call, raw=raw), answered(call)],
        replace(DIALECTS["openrouter"], system="user", mark="cache_control"),
        model=golden["model"],
        stream=True,
        instructions="A long fixed rule book.",
        tools=TOOLS,
        settings=Settings(reasoning="low", extra={"provider": golden["provider"]}),
    )
    assert golden == found


def test_vllm_gets_the_older_key_of_the_output_limit() -> None:
    settings = Settings(tool_choice="auto", max_tokens=400, temperature=0)
    found = body(
        [user("Oslo?")],
        "vllm",
        model="vllm-example",
        instructions="Answer in one sentence.",
        tools=TOOLS,
        settings=settings,
    )
    assert example("compat/vllm-tools.json") == found


@pytest.mark.parametrize(
    "breakage",
    [
        {"mesages": 1},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]},
    ],
)
def test_the_judge_of_bodies_refuses_wrong_ones(breakage: Any) -> None:
    with pytest.raises((ValueError, AssertionError, KeyError, IndexError)):
        judge({"model": "m", "messages": [], **breakage}, "openai-chat")


# -- address and key --------------------------------------------------------------------------------------------


def test_path_and_header_are_the_same_for_every_model() -> None:
    assert "/chat/completions" == wire().path("any", stream=True)
    assert {"Authorization": "Bearer k"} == wire().headers("k")
    assert {} == wire("ollama").headers(None)


# -- instructions -----------------------------------------------------------------------------------------------


def test_instructions_folded_into_the_user_turn_stand_alone_before_a_model_turn() -> None:
    folding = replace(OPENAI, system="user")
    found = body([ModelMessage("Hello.")], folding, instructions="Be brief.")
    rules = {"type": "text", "text": "Be brief."}
    assert [{"role": "user", "content": [rules]}, {"role": "assistant", "content": "Hello."}] == found["messages"]
    assert [{"role": "user", "content": [rules]}] == body([], folding, instructions="Be brief.")["messages"]


def test_instructions_folded_into_the_user_turn_go_before_its_media() -> None:
    picture = image("https://a.example/b.png")
    made = ChatWire(replace(OPENAI, system="user")).body(
        ModelRequest([user(["Look:", picture]), user("Well?")], "Be brief."), "m", Capabilities(), stream=False
    )
    first, second = json.loads(made.json)["messages"]
    assert ["Be brief.", "Look:"] == [p["text"] for p in first["content"][:2]]
    assert {"role": "user", "content": "Well?"} == second
    assert (Sent("image", "native"),) == made.sent


def test_a_folded_message_is_not_kept_with_its_instructions() -> None:
    message, wire = user("Hi"), ChatWire(replace(OPENAI, system="user"))
    wire.body(ModelRequest([message], "Be brief."), "m", Capabilities(), stream=False)
    plain = wire.body(ModelRequest([message]), "m", Capabilities(), stream=False)
    assert [{"role": "user", "content": "Hi"}] == json.loads(plain.json)["messages"]


# -- settings ---------------------------------------------------------------------------------------------------


def test_every_setting_has_its_key() -> None:
    settings = Settings(temperature=0.5, top_p=0.9, seed=7, stop=("END",), max_tokens=10, reasoning="high")
    found = body([user("x")], settings=settings)
    del found["model"], found["messages"]
    expected = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["END"]}
    assert {**expected, "max_completion_tokens": 10, "reasoning_effort": "high"} == found


def test_mistral_has_its_own_word_for_the_seed() -> None:
    assert 7 == body([user("x")], "mistral", settings=Settings(seed=7))["random_seed"]


def test_sampling_is_left_out_for_models_without_it() -> None:
    settings = Settings(temperature=0.5, top_p=0.9, max_tokens=10)
    found = body([user("x")], capabilities=Capabilities(sampling=False), settings=settings)
    assert {"model", "messages", "max_completion_tokens"} == set(found)


def test_extra_keys_win_over_all_others() -> None:
    extra = {"model": "other", "temperature": 1, "logprobs": True}
    found = body([user("x")], settings=Settings(temperature=0, extra=extra))
    assert {
        "model": "other",
        "messages": [{"role": "user", "content": "x"}],
        "temperature": 1,
        "logprobs": True,
    } == found


@pytest.mark.parametrize(
    ("api", "asked_for_usage"),
    [
        ("openai-chat", True),
        ("groq", False),
        ("mistral", False),
        ("openrouter", True),
        ("ollama", True),
        ("vllm", True),
    ],
)
def test_usage_of_a_stream_is_asked_for_where_it_would_not_come(api: str, asked_for_usage: bool) -> None:
    found = body([user("x")], api, stream=True)
    assert found["stream"] is True
    assert asked_for_usage == ("stream_options" in found)


# -- tools ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "api", "expected", "tools"),
    [
        ("auto", "openai-chat", "auto", 2),
        ("none", "openai-chat", "none", 2),
        ("required", "openai-chat", "required", 2),
        ("required", "mistral", "any", 2),
        ("read_chart", "vllm", {"type": "function", "function": {"name": "read_chart"}}, 2),
        (["read_chart"], "groq", {"type": "function", "function": {"name": "read_chart"}}, 2),
        ([], "openai-chat", "none", 2),
        (
            ["read_chart", "get_weather"],
            "openai-chat",
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [
                        {"type": "function", "function": {"name": "read_chart"}},
                        {"type": "function", "function": {"name": "get_weather"}},
                    ],
                },
            },
            3,
        ),
        (["read_chart", "get_weather"], "mistral", "any", 2),
        (["read_chart", "get_weather"], "ollama", "required", 2),
    ],
)
def test_tool_choice_is_written_as_the_server_takes_it(choice: Any, api: str, expected: Any, tools: int) -> None:
    more = not isinstance(choice, str) and len(choice) > 1
    offered = Toolset(
        {"get_weather": TOOLS["get_weather"], "third": TOOLS["get_weather"], "read_chart": TOOLS["read_chart"]}
    )
    found = body([user("x")], api, tools=offered if more else TOOLS, settings=Settings(tool_choice=choice))
    assert expected == found["tool_choice"]
    assert tools == len(found["tools"])


def test_a_tool_is_chosen_by_its_wire_name_too() -> None:
    tools = Toolset({"my tool": TOOLS["get_weather"]})
    (wire_name,) = tools.wire_names
    for name in ("my tool", wire_name):
        found = body([user("x")], tools=tools, settings=Settings(tool_choice=name))
        assert wire_name == found["tool_choice"]["function"]["name"] == found["tools"][0]["function"]["name"]


def test_the_choice_of_an_unknown_tool_is_refused() -> None:
    with pytest.raises(UnknownToolError, match="There is no tool 'get_wether'"):
        body([user("x")], tools=TOOLS, settings=Settings(tool_choice="get_wether"))


def test_without_tools_nothing_is_said_of_choosing_or_calling_them() -> None:
    found = body([user("x")], settings=Settings(tool_choice="none", parallel_calls=True))
    assert {"model", "messages"} == set(found)


def test_a_tool_without_a_description_is_sent_without_one() -> None:
    def bare(x: int) -> int:
        return x

    found = body([user("x")], tools=Toolset([bare]))
    assert {"name", "parameters"} == set(found["tools"][0]["function"])


def test_ollama_is_not_told_of_strict_tools() -> None:
    found = body([user("x")], "ollama", capabilities=Capabilities(strict_tools=True), tools=TOOLS)
    assert "strict" not in found["tools"][0]["function"]


def test_a_schema_that_cannot_be_strict_is_sent_without_the_promise() -> None:
    output = OutputSchema("free", {"type": "object", "additionalProperties": {"type": "string"}})
    found = body([user("x")], output=output)
    assert {"name": "free", "schema": output.schema, "strict": False} == found["response_format"]["json_schema"]


# -- parts ------------------------------------------------------------------------------------------------------


def test_openrouter_reads_a_pdf_by_its_address() -> None:
    found = body([user([file("https://a.example/r.pdf")])], "openrouter")
    expected = {"filename": "r.pdf", "file_data": "https://a.example/r.pdf"}
    assert [{"type": "file", "file": expected}] == found["messages"][0]["content"]


def test_mistral_reads_a_pdf_by_its_address() -> None:
    found = body([user([file("https://a.example/r.pdf")])], "mistral")
    assert [{"type": "document_url", "document_url": "https://a.example/r.pdf"}] == found["messages"][0]["content"]


def test_sound_says_its_format() -> None:
    found = body([user([audio(b"ID3\x04aaaaaaaaaaaa", mime_type="audio/mpeg")])])
    assert "mp3" == found["messages"][0]["content"][0]["input_audio"]["format"]


def test_a_part_of_the_caller_that_cannot_travel_is_refused() -> None:
    with pytest.raises(UnsupportedPartError, match=r"groq has no shape for the file part \(application/pdf\)"):
        body([user([file(b"%PDF-1.4", name="r.pdf")])], "groq")


def test_a_part_of_a_tool_that_cannot_travel_leaves_a_line() -> None:
    call = weather("Oslo", "call_a1")
    part = {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}
    history: list[Message] = [asked(call), answered(call, "heard", parts=(part,))]
    made = wire().body(ModelRequest(history), "m", Capabilities(), stream=False)
    assert "heard\n[unsupported audio part (audio/wav, 4 bytes)]" == json.loads(made.json)["messages"][1]["content"]
    assert (Sent("audio", "placeholder", "c1"),) == made.sent


@pytest.mark.case("C038")
def test_media_of_several_results_come_in_one_turn_before_what_the_user_said() -> None:
    a, b = weather("Oslo", "call_a1", "1"), weather("Rome", "call_a2", "2")
    part = {"type": "image", "mimeType": "image/png", "url": "https://a.example/b.png"}
    history: list[Message] = [asked(a, b), answered(a, "one", parts=(part,)), answered(b, "two", parts=(part,))]
    history.append(user(["And this?", image("https://a.example/c.png")]))
    made = wire().body(ModelRequest(history), "m", Capabilities(), stream=False)
    turns = json.loads(made.json)["messages"]
    assert ["assistant", "tool", "tool", "user", "user"] == [t["role"] for t in turns]
    labels = [p["text"] for p in turns[3]["content"] if p["type"] == "text"]
    assert [
        "Output of tool get_weather (call_a1), image 1:",
        "Output of tool get_weather (call_a2), image 1:",
    ] == labels
    assert (Sent("image", "relocated", "1"), Sent("image", "relocated", "2"), Sent("image", "native")) == made.sent


def test_mistral_gets_a_model_turn_between_results_and_what_the_user_said() -> None:
    call = weather("Oslo", "Ab3dE6gH9")
    turns = body([asked(call), answered(call), user("Thanks.")], "mistral")["messages"]
    assert {"role": "assistant", "content": "Understood."} == turns[2]
