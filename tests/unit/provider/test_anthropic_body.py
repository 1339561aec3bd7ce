from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.anthropic_support import (
    BOTH,
    MODEL,
    PLAIN,
    WEATHER,
    check,
    example,
    long,
    sent_by,
    some_tool,
    written,
)

from ferrule import Part, UnknownToolError, UnsupportedPartError, UsageError, tool
from ferrule.content import to_dict
from ferrule.message import Call, Message, ModelMessage, Raw, ToolMessage, UserMessage, system, user
from ferrule.provider.anthropic.turns import family
from ferrule.provider.anthropic.wire import MAX_BODY, AnthropicWire
from ferrule.provider.base import Capabilities, OutputSchema, Sent
from ferrule.strict_json import clean, restore, typed
from ferrule.tool.toolset import Toolset

MEDIA = example("tool-media")["messages"][2]["content"][0]["content"]
PNG = Part("image", mimeType="image/png", data=MEDIA[1]["source"]["data"])
PNG_URL = Part("image", mimeType="image/png", url="https://files.example.invalid/chart.png")
PDF = Part("file", mimeType="application/pdf", data=MEDIA[3]["source"]["data"], name="report.pdf")
PDF_URL = Part("file", mimeType="application/pdf", url="https://files.example.invalid/report.pdf")
NOTES = Part("file", mimeType="text/plain", data="cGxhaW4gdGV4dCBmaWxl", name="notes.txt")
CLIP = Part(
    "audio", mimeType="audio/mpeg", data=base64.b64encode(bytes(71680)).decode(), name="clip.mp3, artifact art_7"
)
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "b3BhcXVl"}


def call(id: str, name: str = "get_weather", arguments: str = "{}", wire_id: str | None = None) -> Call:
    return Call(id, name, arguments, wire_id)


def turn(*calls: Call, text: str = "", raw: Raw | None = None) -> ModelMessage:
    return ModelMessage(text, calls, raw=raw)


def results(*calls: Call, output: str = "done") -> list[Message]:
    return [ToolMessage(c, output) for c in calls]


A1 = call("1", arguments='{"city":"Oslo"}', wire_id="toolu_a1")
A2 = call("2", arguments='{"city":"Rome"}', wire_id="toolu_a2")
CHART = call("1", "read_chart", wire_id="toolu_b1")


# -- the golden bodies ------------------------------------------------------------------------------------------


def test_tools_system_and_choice_are_sent_like_this() -> None:
    body = written(
        *(PLAIN, "How warm is it in Oslo?"),
        instructions="Answer in one sentence.",
        tools=BOTH,
        tool_choice="auto",
        parallel_calls=True,
        max_tokens=400,
    )
    assert long(example("tools")) == body


def test_parallel_results_stand_in_one_user_turn_before_what_the_user_says() -> None:
    said = [
        user("Compare Oslo and Rome."),
        turn(A1, A2, text="I will ask both stations."),
        ToolMessage(A1, "4 degrees, rain"),
        ToolMessage(A2, "The station did not answer", is_error=True),
        user("Take your time."),
    ]
    assert long(example("parallel-results")) == written(PLAIN, said, tools=BOTH, max_tokens=400)


def test_a_forced_strict_tool_in_a_stream_is_sent_like_this() -> None:
    body = written(
        *(PLAIN, "Oslo?"),
        tools=WEATHER,
        capabilities=Capabilities(strict_tools=True),
        tool_choice="get_weather",
        parallel_calls=False,
        stream=True,
        max_tokens=400,
    )
    assert long(example("forced-tool-stream")) == body


def test_an_output_schema_is_sent_as_format() -> None:
    output = OutputSchema("note", example("structured-output")["output_config"]["format"]["schema"])
    body = written(PLAIN, "File a note: water the plants.", output=output, max_tokens=400)
    assert long(example("structured-output")) == body
    again = written(PLAIN, "Once more.", output=output)  # lowered once for all requests of a run
    assert body["output_config"] == again["output_config"]


def test_thinking_goes_back_as_it_came() -> None:
    wanted = example("thinking-echo")
    items = wanted["messages"][1]["content"]
    asked = call("1", arguments='{"city":"Oslo"}', wire_id="toolu_c1")
    said = [
        user("How warm is it in Oslo?"),
        turn(asked, text="Let me check.", raw=Raw("anthropic", MODEL, items)),
        ToolMessage(asked, "4 degrees, rain"),
    ]
    stored = restore(typed(said))
    body = written(PLAIN, stored, tools=BOTH, tool_choice="auto", reasoning="medium", max_tokens=4000)
    wanted = long(wanted)
    wanted["messages"][2]["content"][0]["content"] = "4 degrees, rain"
    assert wanted == body


def test_a_fixed_thinking_budget_is_sent_like_this() -> None:
    body = written(AnthropicWire(cache=None, thinking="enabled"), "Think first.", reasoning="minimal", max_tokens=4000)
    assert long(example("thinking-fixed")) == body


def test_media_of_a_result_stay_in_it_and_audio_becomes_a_line() -> None:
    parts = tuple(map(to_dict, (PNG, PNG_URL, PDF, PDF_URL, CLIP)))
    said = [user("Show the chart."), turn(CHART), ToolMessage(CHART, "chart ready", parts=parts)]
    body, made = sent_by(PLAIN, said, tools=BOTH, max_tokens=400)
    assert long(example("tool-media")) == body
    kinds = ("image", "image", "file", "file", "audio")
    ways = ("native", "native", "native", "native", "placeholder")
    assert tuple(Sent(kind, way, "1") for kind, way in zip(kinds, ways, strict=True)) == made.sent


def test_media_of_the_user_stand_in_order() -> None:
    said = UserMessage((PNG, PNG_URL, PDF, PDF_URL, NOTES, Part("text", text="Describe all of these.")))
    body, made = sent_by(PLAIN, [said], max_tokens=400)
    assert long(example("user-media")) == body
    assert tuple(Sent(kind, "native") for kind in ("image", "image", "file", "file", "file")) == made.sent


def test_cache_markers_end_tools_system_and_the_last_two_user_turns() -> None:
    asked = call("1", "read_chart", wire_id="toolu_d1")
    said = [user("First question"), turn(asked), ToolMessage(asked, "chart ready")]
    body = written(AnthropicWire(cache="1h"), said, tools=BOTH, instructions="A long fixed rule book.", max_tokens=400)
    assert example("cache-markers") == body


def test_system_text_in_the_middle_is_sent_like_this() -> None:
    said = [
        user("Review this function."),
        turn(text="Looks fine."),
        user("Again, please."),
        system("From now on name the line of each remark."),
    ]
    assert long(example("system-later")) == written(PLAIN, said, instructions="You review code.", max_tokens=400)


def test_system_text_is_a_turn_of_its_own_after_a_users_turn_only() -> None:
    said = [system("A"), turn(A1), *results(A1), system("B"), system("C"), user("Hi"), turn(text="Ok."), system("D")]
    body = written(AnthropicWire(), said)
    roles = ["user", "assistant", "user", "system", "user", "assistant", "user"]
    assert roles == [m["role"] for m in body["messages"]]
    assert ["B", "C"] == [b["text"] for b in body["messages"][3]["content"]]
    assert [4, 6] == [i for i, m in enumerate(body["messages"]) if "cache_control" in m["content"][-1]]


# -- headers and path -------------------------------------------------------------------------------------------


def test_headers_carry_the_version_and_a_bearer_key() -> None:
    assert {"anthropic-version": "2026-10-21", "authorization": "Bearer k"} == AnthropicWire().headers("k")
    assert {"anthropic-version": "2023-06-01"} == AnthropicWire(version="2023-06-01").headers(None)


def test_the_path_is_the_same_with_and_without_a_stream() -> None:
    assert {"/v1/messages"} == {AnthropicWire().path("m", stream=stream) for stream in (True, False)}


# -- settings ---------------------------------------------------------------------------------------------------


def test_max_tokens_is_sent_always_and_leaves_room_for_thinking() -> None:
    assert 8192 == written(PLAIN, "Hi")["max_tokens"]
    assert 100 == written(AnthropicWire(max_tokens=100), "Hi")["max_tokens"]
    assert 8192 + 16384 == written(PLAIN, "Hi", reasoning="high")["max_tokens"]
    assert 0 == written(PLAIN, "Hi", max_tokens=0)["max_tokens"]


@pytest.mark.parametrize(
    ("version", "sampling", "reasoning", "sent"),
    [
        ("2023-06-01", True, None, {"temperature": 0.2, "top_p": 0.9}),
        ("2023-06-01", True, "none", {"temperature": 0.2, "top_p": 0.9}),
        ("2023-06-01", True, "low", {}),
        ("2023-06-01", False, None, {}),
        ("2026-10-21", True, None, {}),
    ],
)
def test_sampling_is_sent_only_where_the_version_the_model_and_the_thinking_take_it(
    version: str, sampling: bool, reasoning: Any, sent: dict[str, float]
) -> None:
    body = written(
        *(AnthropicWire(version=version), "Hi"),
        capabilities=Capabilities(sampling=sampling),
        temperature=0.2,
        top_p=0.9,
        seed=1,
        reasoning=reasoning,
    )
    assert sent == {key: body[key] for key in ("temperature", "top_p", "seed") if key in body}


def test_stop_texts_are_sent() -> None:
    assert ["END"] == written(PLAIN, "Hi", stop=("END",))["stop_sequences"]


@pytest.mark.parametrize(
    ("effort", "sent"),
    [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "xhigh"), ("max", "max")],
)
def test_effort_goes_with_adaptive_thinking(effort: Any, sent: str) -> None:
    body = written(PLAIN, "Hi", reasoning=effort)
    assert {"type": "adaptive", "display": "summarized"} == body["thinking"]
    assert {"effort": sent} == body["output_config"]


def test_reasoning_none_turns_thinking_off_and_no_setting_leaves_it_alone() -> None:
    assert {"type": "disabled"} == written(PLAIN, "Hi", reasoning="none")["thinking"]
    assert "thinking" not in written(PLAIN, "Hi")


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
@pytest.mark.parametrize("limit", [None, 1025, 3000, 64_000])
def test_a_thinking_budget_always_fits_the_limit(effort: Any, limit: int | None) -> None:
    body = written(AnthropicWire(thinking="enabled"), "Hi", reasoning=effort, max_tokens=limit)
    assert limit is None or limit == body["max_tokens"]
    assert body["max_tokens"] <= 32_000 or limit == 64_000


def test_a_limit_without_room_for_thinking_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^max_tokens=1024 leaves no room for thinking.*Raise it"):
        written(AnthropicWire(thinking="enabled"), "Hi", reasoning="low", max_tokens=1024)


@pytest.mark.parametrize("choice", ["required", "get_weather", ["get_weather"]])
def test_a_forced_tool_wins_over_a_thinking_budget(choice: Any) -> None:
    wire = AnthropicWire(thinking="enabled")
    body = written(wire, "Hi", tools=BOTH, tool_choice=choice, reasoning="high")
    assert "thinking" not in body
    assert "thinking" in written(wire, "Hi", tools=BOTH, tool_choice="auto", reasoning="high")
    assert "thinking" in written(AnthropicWire(), "Hi", tools=BOTH, tool_choice=choice, reasoning="high")


def test_a_forced_tool_beside_a_thinking_budget_of_the_callers_own_is_refused() -> None:
    extra = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    with pytest.raises(UsageError, match="no forced tool beside a thinking budget"):
        written(PLAIN, "Hi", tools=BOTH, tool_choice="required", extra=extra)


def test_a_thinking_budget_waits_while_a_turn_is_open_that_another_model_began() -> None:
    wire = AnthropicWire(thinking="enabled")
    items: list[Any] = [THOUGHT, {"type": "tool_use", "id": "toolu_a1", "name": "get_weather", "input": {}}]
    said = [user("Hi"), turn(A1, raw=Raw("anthropic", MODEL, items)), *results(A1)]
    assert "thinking" in written(wire, said, tools=BOTH, reasoning="low")
    foreign = [user("Hi"), turn(A1), *results(A1)]
    assert "thinking" not in written(wire, foreign, tools=BOTH, reasoning="low")
    assert "thinking" in written(wire, [*foreign, user("Go on")], tools=BOTH, reasoning="low")


def test_keys_of_the_caller_win_and_an_effort_joins_a_format() -> None:
    output = OutputSchema("x", {"type": "object", "properties": {}, "additionalProperties": False})
    extra = {"max_tokens": 7, "service_tier": "auto", "output_config": {"effort": "max"}}
    body = written(PLAIN, "Hi", output=output, extra=extra)
    assert (7, "auto", {"effort", "format"}) == (body["max_tokens"], body["service_tier"], set(body["output_config"]))


@pytest.mark.parametrize(
    ("schema", "strict"),
    [({"type": "object", "properties": {"x": {"not": {"type": "null"}}}}, True), ({"type": "object"}, False)],
)
def test_a_schema_that_is_not_enforced_is_told_in_words(schema: Any, strict: bool) -> None:
    body = written(PLAIN, "Hi", instructions="Be brief.", output=OutputSchema("x", schema, strict))
    if "output_config" not in body:
        assert body["system"].startswith("Be brief.\n\nAnswer with nothing but JSON that fits this JSON Schema: {")
    assert ("output_config" in body) != ("JSON Schema" in body["system"])


# -- tools ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", None, {"type": "auto"}),
        ("none", None, {"type": "none"}),
        ("none", False, {"type": "none"}),
        ("required", True, {"type": "any", "disable_parallel_tool_use": False}),
        ("read_chart", None, {"type": "tool", "name": "read_chart"}),
        ([], None, {"type": "none"}),
    ],
)
def test_tool_choice_is_sent_like_this(choice: Any, parallel: bool | None, sent: Any) -> None:
    body = written(PLAIN, "Hi", tools=BOTH, tool_choice=choice, parallel_calls=parallel)
    assert sent == body.get("tool_choice")
    assert 2 == len(body["tools"])


def test_a_choice_of_some_tools_sends_only_those_and_asks_for_one() -> None:
    body = written(PLAIN, "Hi", tools=BOTH, tool_choice=["read_chart"])
    assert (["read_chart"], {"type": "any"}) == ([t["name"] for t in body["tools"]], body["tool_choice"])


def test_a_choice_names_a_tool_as_it_is_on_the_wire() -> None:
    tools = Toolset([some_tool("say hello")])
    body = written(PLAIN, "Hi", tools=tools, tool_choice="say hello")
    assert tools.wire_names == (body["tools"][0]["name"],) == (body["tool_choice"]["name"],)


@pytest.mark.parametrize("choice", ["auto", "none", "required", None, []])
def test_without_tools_no_choice_is_sent(choice: Any) -> None:
    assert not {"tools", "tool_choice"} & written(PLAIN, "Hi", tool_choice=choice, parallel_calls=False).keys()


def test_a_choice_that_cannot_be_met_is_refused() -> None:
    with pytest.raises(UnknownToolError, match="There is no tool 'gone'"):
        written(PLAIN, "Hi", tools=BOTH, tool_choice=["gone"])


def test_a_schema_that_cannot_be_strict_is_sent_as_it_is() -> None:
    schema = {"type": "object", "properties": {"x": {"not": {"type": "null"}, "if": {}, "then": False}}}

    @tool(name="odd", description="Odd.", schema=schema)
    def odd(**arguments: Any) -> None: ...

    tools = Toolset([odd])
    [sent] = written(PLAIN, "Hi", tools=tools, capabilities=Capabilities(strict_tools=True))["tools"]
    assert ("strict" not in sent, schema) == (True, sent["input_schema"])


# -- turns ------------------------------------------------------------------------------------------------------


def roles(body: Any) -> list[str]:
    return [message["role"] for message in body["messages"]]


def test_neighbours_of_one_role_are_one_turn() -> None:
    said = [user("a"), user("b"), turn(), user("c"), turn(text="x"), turn(text="y"), user(" "), turn(text="z")]
    body = written(PLAIN, said)
    assert [["a", "b", "c"], ["x", "y", "z"]] == [[b["text"] for b in m["content"]] for m in body["messages"]]
    assert ["user", "assistant"] == roles(body)


def test_blank_text_is_left_out_everywhere() -> None:
    said = [user(["", " \n"]), turn(A1, text="\t"), ToolMessage(A1, " "), user("\u00a0"), user("go on")]
    body = written(PLAIN, said, instructions="  ", tools=BOTH)
    assert "system" not in body
    result = {"type": "tool_result", "tool_use_id": "toolu_a1"}
    assert [["tool_use"], [result, {"type": "text", "text": "go on"}]] == [
        [b["type"] for b in body["messages"][0]["content"]],
        body["messages"][1]["content"],
    ]


@pytest.mark.parametrize("said", [[], [user(" ")], [turn()]])
def test_a_transcript_that_says_nothing_is_refused(said: list[Message]) -> None:
    with pytest.raises(UsageError, match="the transcript says nothing"):
        written(PLAIN, said)


def test_a_call_without_its_result_is_refused() -> None:
    with pytest.raises(UsageError, match="call '1' \\(get_weather\\) has no result"):
        written(PLAIN, [user("Hi"), turn(A1)], tools=BOTH)


def test_a_failed_result_says_so_even_when_it_says_nothing() -> None:
    body = written(PLAIN, [user("Hi"), turn(A1), ToolMessage(A1, "", is_error=True)], tools=BOTH)
    [result] = body["messages"][2]["content"]
    assert ("The call failed and said nothing.", True) == (result["content"], result["is_error"])


@pytest.mark.parametrize("arguments", ["", "  ", "null", "{", '{"a":1}{"a":2}', "[1]", '"x"', '{"a":1,"a":2}'])
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(arguments: str) -> None:
    asked = call("1", arguments=arguments, wire_id="toolu_a1")
    body = written(PLAIN, [user("Hi"), turn(asked), *results(asked)], tools=BOTH)
    assert {} == body["messages"][1]["content"][0]["input"]


def test_lone_surrogates_do_not_break_a_body() -> None:
    said = [user("a\ud800"), turn(A1, text="b\udc00"), ToolMessage(A1, "c\ud800")]
    body = written(PLAIN, said, instructions="d\ud800", tools=BOTH)
    assert "d\ufffd" == body["system"]
    assert "c\ufffd" == body["messages"][2]["content"][0]["content"]


# -- ids --------------------------------------------------------------------------------------------------------


@pytest.mark.case("C049")
def test_a_repeated_id_is_rewritten_in_call_result_and_what_the_model_sent() -> None:
    items: list[Any] = [
        {"type": "tool_use", "id": "toolu_a1", "name": "get_weather", "input": {}, "caller": {"type": "direct"}}
    ]
    again = call("run.2")  # the run takes away an id that the transcript has already
    raw = Raw("anthropic", MODEL, items)
    said = [user("Hi"), turn(A1, raw=raw), *results(A1), turn(again, raw=raw), *results(again)]
    body = written(PLAIN, said, tools=BOTH)
    first, second = (body["messages"][i]["content"][0] for i in (1, 3))
    assert "toolu_a1" == first["id"]
    assert first["id"] != second["id"] == body["messages"][4]["content"][0]["tool_use_id"]
    assert {"type": "direct"} == second["caller"]
    assert "toolu_a1" == items[0]["id"]


def test_an_id_that_comes_twice_in_one_turn_is_rewritten_the_second_time() -> None:
    twins = (call("1", wire_id="same"), call("2", wire_id="same"))
    body = written(PLAIN, [user("Hi"), turn(*twins), *results(*twins)], tools=BOTH)
    first, second = (block["id"] for block in body["messages"][1]["content"])
    assert ("same", 30) == (first, len(second))


def test_ids_of_another_provider_stay_where_they_may() -> None:
    calls = (call("1", wire_id="call_abc"), call("2", wire_id="fc:1/2"))
    body = written(PLAIN, [user("Hi"), turn(*calls), *results(*calls)], tools=BOTH)
    first, second = (block["id"] for block in body["messages"][1]["content"])
    assert "call_abc" == first
    assert second.startswith("toolu_")


# -- what the model sent ----------------------------------------------------------------------------------------


def echo(model: str, items: list[Any], *, asked: str = MODEL, api: str = "anthropic", text: str = "Hi") -> Any:
    body = written(PLAIN, [user("Hi"), turn(text=text, raw=Raw(api, model, items)), user("ok")], model=asked)
    return body["messages"][1]["content"]


TEXT = {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    ("model", "asked", "api", "kept"),
    [
        ("claude-x-20260101", "claude-x", "anthropic", True),
        ("claude-x", "us.anthropic.claude-x-20260101-v1:0", "anthropic", True),
        ("claude-x-latest", "claude-x@20260101", "anthropic", True),
        ("claude-x-4", "claude-x-5", "anthropic", False),
        ("claude-x", "claude-y", "anthropic", False),
        ("claude-x", "claude-x", "openrouter", False),
    ],
)
def test_signed_blocks_return_to_their_family_only_and_are_else_dropped_whole(
    model: str, asked: str, api: str, kept: bool
) -> None:
    redacted = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    assert ([THOUGHT, redacted, TEXT] if kept else [TEXT]) == echo(
        model, [THOUGHT, redacted, TEXT], asked=asked, api=api
    )


def test_empty_thinking_with_a_signature_returns_and_thinking_without_one_does_not() -> None:
    hidden = {"type": "thinking", "thinking": "", "signature": "b3BhcXVl"}
    cut = {"type": "thinking", "thinking": "Hm", "signature": ""}
    assert [hidden, TEXT] == echo(MODEL, [hidden, cut, {"type": "text", "text": " "}, TEXT], text=" Hi")


def test_what_a_hook_changed_is_sent_and_not_what_the_model_said_before() -> None:
    assert [{"type": "text", "text": "Other"}] == echo(MODEL, [THOUGHT, TEXT], text="Other")


def test_blocks_of_the_providers_own_tools_return_unchanged_as_the_last_turn() -> None:
    items: list[Any] = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ]
    body = written(PLAIN, [user("Hi"), turn(raw=Raw("anthropic", MODEL, items))])
    assert (items, "assistant") == (body["messages"][-1]["content"], body["messages"][-1]["role"])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("claude-sonnet-9-20260101", "claude-sonnet-9"),
        ("anthropic/claude-sonnet-9", "claude-sonnet-9"),
        ("eu.anthropic.claude-sonnet-9-20260101-v2:0", "claude-sonnet-9"),
        ("Claude-Sonnet-9-latest", "claude-sonnet-9"),
        ("claude-sonnet-9-1", "claude-sonnet-9-1"),
    ],
)
def test_a_family_is_a_name_without_date_alias_and_platform(name: str, wanted: str) -> None:
    assert wanted == family(name)


# -- media ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        Part("audio", mimeType="audio/wav", data="AAAA"),
        Part("image", mimeType="image/bmp", data="AAAA"),
        Part("file", mimeType="application/zip", data="AAAA"),
        Part("file", mimeType="text/plain", data="//7/"),
        Part("file", mimeType="text/plain", data="IA=="),
        Part("file", mimeType="text/plain", url="https://files.example.invalid/x.txt"),
    ],
)
def test_a_part_of_the_caller_that_cannot_travel_is_refused_and_one_of_a_tool_becomes_a_line(part: Part) -> None:
    with pytest.raises(UnsupportedPartError, match=r"^anthropic has no shape for"):
        written(PLAIN, [user(part)])
    said = [user("Hi"), turn(A1), ToolMessage(A1, "", parts=(to_dict(part),))]
    body, made = sent_by(PLAIN, said, tools=BOTH)
    [line] = body["messages"][2]["content"][0]["content"]
    assert line["text"].startswith(f"[unsupported {part.type} part (")
    assert (Sent(part.type, "placeholder", "1"),) == made.sent


@pytest.mark.parametrize("failed", [True, False])
def test_media_without_a_place_in_their_result_follow_all_results(failed: bool) -> None:
    said = [
        user("Hi"),
        turn(A1, A2),
        ToolMessage(A1, "Half done", failed, (to_dict(PNG), to_dict(NOTES))),
        ToolMessage(A2, "done"),
        user("Well?"),
    ]
    body, made = sent_by(PLAIN, said, tools=BOTH, capabilities=Capabilities(tool_media=failed))
    content = body["messages"][2]["content"]
    assert ["tool_result", "tool_result", "text", "image", "text", "document", "text"] == [b["type"] for b in content]
    assert "Half done (1 image, 1 file follow below)" == content[0]["content"]
    assert "Output of tool get_weather (toolu_a1), file notes.txt:" == content[4]["text"]
    assert (Sent("image", "relocated", "1"), Sent("file", "relocated", "1")) == made.sent


def test_a_text_file_is_sent_as_text_without_its_byte_order_mark() -> None:
    part = Part("file", mimeType="text/csv; charset=utf-8", data="77u/w6TDtsO8")
    [block] = written(PLAIN, [user(part)])["messages"][0]["content"]
    assert {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "äöü"}} == block


def test_a_body_that_is_too_large_is_refused_and_its_largest_part_named() -> None:
    large = Part("file", mimeType="application/pdf", data="A" * MAX_BODY, name="secret-name.pdf")
    with pytest.raises(UsageError) as caught:
        written(PLAIN, [user([PNG, large])])
    assert "its largest part is the file (application/pdf, 25165824 bytes). Shorten" in str(caught.value)
    with pytest.raises(UsageError, match="and it is all text"):
        written(PLAIN, [turn(text="x" * MAX_BODY)])


# -- encoded once -----------------------------------------------------------------------------------------------


def test_a_group_is_encoded_once_per_family_and_flags() -> None:
    said = [user("Hi"), turn(text="Hello"), user("Bye")]
    first = sent_by(PLAIN, said)[1]
    kept = said[0].wire
    assert kept is not None
    assert 1 == len(kept)
    assert first == sent_by(PLAIN, said)[1]
    assert 1 == len(kept)
    sent_by(PLAIN, said, model="another")
    sent_by(PLAIN, said, capabilities=Capabilities(pdf=False))
    assert 3 == len(kept)


# -- random transcripts -----------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", " ", "a", "ä\u2028", 'say "x"', "\ud800", "}]}", ',"cache_control":{}'])
PARTS = st.sampled_from([PNG, PNG_URL, PDF, NOTES])
ARGUMENTS = st.sampled_from(["", "{}", '{"city":"Oslo"}', '{"cache_control":{"type":"ephemeral"}}', "{"])
WIRE_IDS = st.sampled_from([None, "call-x", "a b"])


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    said: list[Message] = [user("Begin")]
    for n in range(draw(st.integers(0, 5))):
        for text in draw(st.lists(TEXTS, max_size=2)):
            said.append(UserMessage((Part("text", text=text), *draw(st.lists(PARTS, max_size=2)))))
        asked = tuple(
            Call(f"{n}.{i}", "get_weather", draw(ARGUMENTS), draw(WIRE_IDS) if n == 0 and i == 0 else None)
            for i in range(draw(st.integers(0, 3)))
        )
        text = draw(TEXTS)
        uses: list[Any] = [{"type": "tool_use", "id": "toolu_same", "name": c.name, "input": {}} for c in asked]
        items: list[Any] = [*draw(st.lists(st.just(THOUGHT), max_size=1)), {"type": "text", "text": clean(text)}, *uses]
        raw = draw(st.sampled_from([None, Raw("anthropic", MODEL, items), Raw("gemini", MODEL, items)]))
        said.append(ModelMessage(text, asked, raw=raw))
        for one in asked:
            parts = tuple(map(to_dict, draw(st.lists(st.sampled_from([PNG, NOTES, CLIP]), max_size=2))))
            said.append(ToolMessage(one, draw(TEXTS), draw(st.booleans()), parts))
    return said


@given(
    transcripts(), st.booleans(), st.booleans(), st.sampled_from([None, "5m", "1h"]), st.sampled_from(["", "Be kind."])
)
def test_every_paired_transcript_makes_a_body_that_the_api_takes(
    said: list[Message], tool_media: bool, tools: bool, cache: Any, instructions: str
) -> None:
    body, made = sent_by(
        *(AnthropicWire(cache=cache), said),
        capabilities=Capabilities(tool_media=tool_media),
        tools=BOTH if tools else None,
        instructions=instructions,
    )
    parts = [part for m in said if not isinstance(m, ModelMessage) for part in m.parts]
    assert len(made.sent) == sum(not isinstance(part, Part) or part.type != "text" for part in parts)
    assert body["messages"][0]["role"] == "user"


@given(transcripts())
def test_a_body_is_the_same_from_kept_bytes_and_from_none(said: list[Message]) -> None:
    wire = AnthropicWire()
    for length in range(1, len(said) + 1):  # fills what is kept, group by group, as a run does
        if isinstance(said[length - 1], ToolMessage | UserMessage):
            try:
                sent_by(wire, said[:length], tools=BOTH)
            except UsageError:
                continue  # in the midst of the results of a turn
    fresh = [replace(message) for message in said]
    assert sent_by(wire, fresh, tools=BOTH)[1].json == sent_by(wire, said, tools=BOTH)[1].json


def test_the_oracle_refuses_what_the_api_refuses() -> None:
    body = example("parallel-results")
    with pytest.raises(AssertionError):
        check(body)  # short content is not what we send
    body = long(body)
    check(body)
    del body["messages"][2]["content"][0]
    with pytest.raises(AssertionError):
        check(body)
