"""Requests to Gemini: golden bodies, pairs of calls and responses, signatures, names, settings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.provider.gemini_oracle import EXAMPLES, Json, check, example

from ferrule import Part, Tool, ToolDefinition, Toolset, UnknownToolError, UnsupportedPartError, UsageError, audio
from ferrule.content import to_dict
from ferrule.message import Call, Message, ModelMessage, Raw, ToolMessage, Transcript, UserMessage, user
from ferrule.provider.base import Capabilities, ModelRequest, OutputSchema, Sent, Settings
from ferrule.provider.gemini.wire import JSON_SCHEMA, OPENAPI, Gemini, Schemas

OLD, NEW = "gemini-2.5-flash", "gemini-3-pro-preview"
MODEL = "gemini-3-pro"
SKIP = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="  # base64 of skip_thought_signature_validator
SIGNED = "b3BhcXVlLWNhbGwtMQ=="
PNG = example("user-media.json")["contents"][0]["parts"][1]["inlineData"]["data"]
PDF = example("user-media.json")["contents"][0]["parts"][2]["inlineData"]["data"]
WAV = example("user-media.json")["contents"][0]["parts"][3]["inlineData"]["data"]
FILES = "https://generativelanguage.googleapis.com/v1beta/files/"


class Declared(Tool):
    """A tool that is only declared."""

    def __init__(self, name: str, description: str, schema: Json) -> None:
        self._given = ToolDefinition(name, description, schema)

    @property
    def name(self) -> str:
        return self._given.name

    @property
    def description(self) -> str:
        return self._given.description

    @property
    def definition(self) -> ToolDefinition:
        return self._given

    def execute(self, context: Any) -> Any:
        raise AssertionError("nothing is run here")


def declared(name: str, description: str = "", **properties: Json) -> Declared:
    return Declared(name, description, {"type": "object", "properties": properties, "additionalProperties": False})


CITY = {"city": {"type": "string", "description": "City name"}}
TOOLS = Toolset(
    [
        Declared(
            "get_weather",
            "Current weather of a city.",
            {"type": "object", "properties": CITY, "required": ["city"], "additionalProperties": False},
        ),
        declared("read_chart", "Return the current chart."),
    ]
)


def body_of(
    *messages: Message,
    model: str = NEW,
    capabilities: Capabilities | None = None,
    schemas: Schemas = JSON_SCHEMA,
    **more: Any,
) -> Json:
    """The body for a transcript, checked against Google's types."""
    request = ModelRequest(messages, **more)
    made = Gemini(schemas).body(request, model, capabilities or Capabilities(), stream=False)
    body = json.loads(made.json)
    check(body)
    return body


def contents_of(*messages: Message, **more: Any) -> list[Json]:
    return body_of(*messages, **more)["contents"]


def weather(city: str, wire_id: str | None = None, id: str = "") -> Call:
    return Call(id or city, "get_weather", json.dumps({"city": city}), wire_id)


def said(*parts: Json, model: str = NEW, **more: Any) -> Raw:
    return Raw("gemini", model, {"parts": list(parts), **more})


def call_part(city: str, id: str | None = None, **more: Any) -> Json:
    return {
        "functionCall": {**({"id": id} if id else {}), "name": "get_weather", "args": {"city": city}},
        **more,
    }


def chart(id: str, signature: str) -> ModelMessage:
    part: Json = {"functionCall": {"id": id, "name": "read_chart", "args": {}}, "thoughtSignature": signature}
    return ModelMessage(calls=(Call(id, "read_chart", "{}", id),), raw=said(part))


# -- golden bodies ----------------------------------------------------------------------------------------------

OSLO, ROME = weather("Oslo", "a1"), weather("Rome", "a2")
BARE_OSLO, BARE_ROME = weather("Oslo"), weather("Rome")


def parallel_results() -> Json:
    turn = said(call_part("Oslo", "a1", thoughtSignature=SIGNED), call_part("Rome", "a2"))
    return body_of(
        user("Compare Oslo and Rome."),
        ModelMessage(calls=(OSLO, ROME), raw=turn),
        ToolMessage(OSLO, "4 degrees, rain"),
        ToolMessage(ROME, "The station did not answer", is_error=True),
        tools=TOOLS,
    )


def no_call_ids() -> Json:
    return body_of(
        user("Compare Oslo and Rome."),
        ModelMessage(calls=(BARE_OSLO, BARE_ROME)),
        ToolMessage(BARE_OSLO, "4 degrees, rain"),
        ToolMessage(BARE_ROME, "21 degrees"),
        model=OLD,
        tools=TOOLS,
    )


def thinking_echo() -> Json:
    parts: list[Json] = [
        {"text": "The user greets me.", "thought": True},
        {"text": "Hello!"},
        {"text": "", "thoughtSignature": "b3BhcXVlLXRleHQtMQ=="},
    ]
    return body_of(
        user("Hello"),
        ModelMessage("Hello!", reasoning="The user greets me.", raw=said(*parts)),
        user("And now?"),
        settings=Settings(reasoning="low"),
    )


def tool_media_native() -> Json:
    asked = chart("b1", "b3BhcXVlLWNhbGwtMg==")
    media = (
        {"type": "image", "mimeType": "image/png", "data": PNG},
        {"type": "file", "mimeType": "application/pdf", "data": PDF},
    )
    return body_of(user("Show the chart."), asked, ToolMessage(asked.calls[0], "chart ready", parts=media), tools=TOOLS)


def tool_media_relocated() -> Json:
    asked = chart("b2", "b3BhcXVlLWNhbGwtMw==")
    media = ({"type": "audio", "mimeType": "audio/wav", "data": WAV},)
    return body_of(user("Play the clip."), asked, ToolMessage(asked.calls[0], "clip ready", parts=media), tools=TOOLS)


def user_media() -> Json:
    parts = (
        Part("text", text="Describe all of these."),
        Part("image", mimeType="image/png", data=PNG),
        Part("file", mimeType="application/pdf", data=PDF),
        Part("audio", mimeType="audio/wav", data=WAV),
        Part("file", mimeType="application/pdf", url=FILES + "abc123"),
    )
    return body_of(UserMessage(parts))


def tools() -> Json:
    return body_of(
        user("How warm is it in Oslo?"),
        instructions="Answer in one sentence.",
        tools=TOOLS,
        settings=Settings(tool_choice="auto", temperature=0.2, max_tokens=400),
    )


def forced_tool() -> Json:
    return body_of(
        user("Oslo?"), model=OLD, tools=TOOLS, settings=Settings(tool_choice="get_weather", reasoning="none")
    )


PRIORITY: Json = {"type": ["string", "null"]}
NOTE: Json = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "priority": PRIORITY},
    "required": ["title"],
    "additionalProperties": False,
}


def structured_output() -> Json:
    return body_of(user("File a note: water the plants."), output=OutputSchema("note", NOTE))


def schema_lowered() -> Json:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "exclusiveMinimum": 0, "maximum": 14},
            "unit": {"enum": ["c", "f", None]},
            "stops": {"type": "array", "items": {"type": ["string", "integer"]}},
        },
        "required": ["city", "days"],
        "propertyOrdering": ["city", "days", "unit", "stops"],
    }
    forecast = Declared("get_forecast", "Forecast. days: more than 0.", schema)
    return body_of(user("Oslo, at most 3 days."), tools=Toolset([forecast]), schemas=OPENAPI)


GOLDEN = {
    "forced-tool.json": forced_tool,
    "no-call-ids.json": no_call_ids,
    "parallel-results.json": parallel_results,
    "schema-lowered.json": schema_lowered,
    "structured-output.json": structured_output,
    "thinking-echo.json": thinking_echo,
    "tool-media-native.json": tool_media_native,
    "tool-media-relocated.json": tool_media_relocated,
    "tools.json": tools,
    "user-media.json": user_media,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_body_is_made_from_our_terms(name: str) -> None:
    wanted = example(name)
    if name == "structured-output.json":  # the lowering writes a list of types as a choice
        fields = wanted["generationConfig"]["responseJsonSchema"]["properties"]
        assert fields["priority"] == PRIORITY
        fields["priority"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert wanted == GOLDEN[name]()


def test_every_golden_request_is_tried() -> None:
    requests = {p.name for p in EXAMPLES.glob("*.json") if not p.name.startswith("response-")}
    assert requests == set(GOLDEN)


@pytest.mark.parametrize(
    "broken",
    [
        {"contents": [{"role": "user", "parts": [{"input_text": "x"}]}]},
        {"contents": [], "tools": [{"functionDeclarations": [{"nmae": "x"}]}]},
    ],
)
def test_the_oracle_refuses_unknown_keys(broken: Json) -> None:
    with pytest.raises(ValidationError):
        check(broken)


def test_the_oracle_refuses_a_response_too_few_and_one_in_company() -> None:
    body = example("parallel-results.json")
    del body["contents"][2]["parts"][1]
    with pytest.raises(AssertionError, match="each call has one response"):
        check(body)
    body = example("parallel-results.json")
    body["contents"][2]["parts"].append({"text": "and then"})
    with pytest.raises(AssertionError, match="nothing stands beside"):
        check(body)


# -- address ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        (NEW, False, "/models/gemini-3-pro-preview:generateContent"),
        (NEW, True, "/models/gemini-3-pro-preview:streamGenerateContent?alt=sse"),
        ("models/gemini-3-pro", False, "/models/gemini-3-pro:generateContent"),
        ("tunedModels/mine", False, "/tunedModels/mine:generateContent"),
        ("a?b#c d", False, "/models/a%3Fb%23c%20d:generateContent"),
    ],
)
def test_the_path_names_model_and_method(model: str, stream: bool, path: str) -> None:
    assert path == Gemini().path(model, stream=stream)


def test_the_key_travels_in_its_own_header() -> None:
    assert Gemini().headers("k") == {"x-goog-api-key": "k"}
    assert Gemini().headers(None) == {}


# -- calls and responses ----------------------------------------------------------------------------------------


def responses(contents: list[Json]) -> list[Json]:
    return [p["functionResponse"] for c in contents for p in c["parts"] if "functionResponse" in p]


def calls(contents: list[Json]) -> list[Json]:
    return [p["functionCall"] for c in contents for p in c["parts"] if "functionCall" in p]


@pytest.mark.case("C046")
def test_six_parallel_calls_get_one_content_with_six_responses_in_order() -> None:
    six = [weather(f"City {n}") for n in range(6)]
    contents = contents_of(user("All."), ModelMessage(calls=tuple(six)), *(ToolMessage(c, c.id) for c in six))
    assert ["user", "model", "user"] == [c["role"] for c in contents]
    assert [{"output": f"City {n}"} for n in range(6)] == [r["response"] for r in responses(contents)]


def test_what_the_user_adds_after_results_is_a_content_of_its_own_with_the_media() -> None:
    media = ({"type": "image", "mimeType": "image/png", "data": PNG},)
    contents = contents_of(
        user("Both."),
        ModelMessage(calls=(BARE_OSLO, BARE_ROME)),
        ToolMessage(BARE_OSLO, "rain", parts=media),
        ToolMessage(BARE_ROME, "", parts=media),
        user("Take your time."),
        user("And thanks."),
        model=OLD,
        capabilities=Capabilities(tool_media=False),
    )
    png = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    assert ["rain (1 image follows in the next content)", "(1 image follows in the next content)"] == [
        r["response"]["output"] for r in responses(contents)
    ]
    assert contents[3] == {
        "role": "user",
        "parts": [
            {"text": "Output of tool get_weather (call 1), image 1:"},
            png,
            {"text": "Output of tool get_weather (call 2), image 1:"},
            png,
            {"text": "Take your time."},
            {"text": "And thanks."},
        ],
    }


def test_a_part_that_cannot_travel_leaves_its_line_in_the_response() -> None:
    media = ({"type": "file", "mimeType": "application/zip", "data": "AAAA", "name": "all.zip"},)
    contents = contents_of(
        user("Pack."), ModelMessage(calls=(BARE_OSLO,)), ToolMessage(BARE_OSLO, "packed", parts=media)
    )
    assert [{"output": "packed\n[unsupported file part (application/zip, 3 bytes)] all.zip"}] == [
        r["response"] for r in responses(contents)
    ]


def test_how_each_part_travelled_is_told_in_order() -> None:
    asked = chart("b1", SIGNED)
    media = tuple(
        {"type": kind, "mimeType": mime, "data": "AAAA"}
        for kind, mime in (("image", "image/png"), ("audio", "audio/wav"), ("file", "application/zip"))
    )
    shown = UserMessage((Part("image", mimeType="image/png", data=PNG),))
    request = ModelRequest([shown, asked, ToolMessage(asked.calls[0], "x", parts=media)])
    assert Gemini().body(request, NEW, Capabilities(), stream=True).sent == (
        Sent("image", "native"),
        Sent("image", "native", "b1"),
        Sent("audio", "relocated", "b1"),
        Sent("file", "placeholder", "b1"),
    )


def test_a_part_of_the_callers_that_cannot_travel_raises() -> None:
    zipped = UserMessage((Part("file", mimeType="application/zip", data="AAAA"),))
    with pytest.raises(UnsupportedPartError, match="gemini has no shape for the file part"):
        body_of(zipped)


@pytest.mark.case("C043")
def test_a_call_without_its_result_is_not_sent() -> None:
    with pytest.raises(UsageError, match="call 'Rome' \\(get_weather\\) has no result"):
        body_of(user("x"), ModelMessage(calls=(BARE_OSLO, BARE_ROME)), ToolMessage(BARE_OSLO, "rain"), user("y"))
    with pytest.raises(UsageError, match="call 'Oslo' \\(get_weather\\) has no result"):
        body_of(user("x"), ModelMessage(calls=(BARE_OSLO,)), ModelMessage("y"))


def test_an_empty_text_is_sent_only_when_it_is_all_that_was_said() -> None:
    image = Part("image", mimeType="image/png", data=PNG)
    [both] = contents_of(UserMessage((Part("text", text=""), image)))
    assert both["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
    assert [{"role": "user", "parts": [{"text": ""}]}] == contents_of(user(""))


def test_turns_of_one_role_become_one_content() -> None:
    contents = contents_of(
        user("a"), user("b"), ModelMessage("c", raw=said({"text": "c", "thoughtSignature": SIGNED})), ModelMessage("d")
    )
    assert contents == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "model", "parts": [{"text": "c", "thoughtSignature": SIGNED}, {"text": "d"}]},
    ]


def test_a_call_after_another_turn_of_the_model_keeps_its_signature() -> None:
    turn = ModelMessage(calls=(OSLO,), raw=said(call_part("Oslo", "a1", thoughtSignature=SIGNED)))
    contents = contents_of(user("a"), ModelMessage("b"), ModelMessage("c"), turn, ToolMessage(OSLO, "rain"))
    assert contents[1] == {
        "role": "model",
        "parts": [{"text": "b"}, {"text": "c"}, call_part("Oslo", "a1", thoughtSignature=SIGNED)],
    }


def test_a_model_message_that_says_nothing_is_left_out() -> None:
    assert ["user", "user"] == [c["role"] for c in contents_of(user("a"), ModelMessage(), user("b"))]


# -- ids and names ----------------------------------------------------------------------------------------------


@pytest.mark.case("C049")
def test_an_id_that_the_provider_used_twice_is_left_out_of_call_and_response() -> None:
    again = Call("our-2", "get_weather", '{"city":"Rome"}', None)
    contents = contents_of(
        user("x"),
        ModelMessage(calls=(OSLO,), raw=said(call_part("Oslo", "a1", thoughtSignature=SIGNED))),
        ToolMessage(OSLO, "rain"),
        ModelMessage(calls=(again,), raw=said(call_part("Rome", "a1", thoughtSignature="c2Vjb25k"))),
        ToolMessage(again, "sun"),
    )
    assert ["a1", None] == [c.get("id") for c in calls(contents)]
    assert ["a1", None] == [r.get("id") for r in responses(contents)]
    assert contents[3]["parts"] == [call_part("Rome", thoughtSignature="c2Vjb25k")]


def test_ids_of_another_provider_stand_in_both() -> None:
    foreign = weather("Oslo", "toolu_01")
    contents = contents_of(user("x"), ModelMessage(calls=(foreign,)), ToolMessage(foreign, "rain"))
    assert ["toolu_01"] == [c["id"] for c in calls(contents)] == [r["id"] for r in responses(contents)]


@pytest.mark.case("C008")
@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("default_api:get.weather-2", "default_api:get.weather-2"),  # as the model said it, and the API takes it
        ("user profile/update", "user_profile_update_9fa096c5"),
        ("", "tool_e3b0c442"),
    ],
)
def test_a_call_and_its_response_have_the_same_name_that_the_api_takes(name: str, sent: str) -> None:
    call = Call("1", name, "{}")
    raw = said({"functionCall": {"name": name, "args": {}}, "thoughtSignature": SIGNED})
    for turn in (ModelMessage(calls=(call,), raw=raw), ModelMessage(calls=(call,))):
        contents = contents_of(user("x"), turn, ToolMessage(call, "no such tool", is_error=True))
        assert [sent] == [c["name"] for c in calls(contents)] == [r["name"] for r in responses(contents)]


def test_tools_are_declared_under_the_names_that_fit() -> None:
    body = body_of(user("x"), tools=Toolset([declared("user-profile/update"), declared("9 lives")]))
    names = [d["name"] for d in body["tools"][0]["functionDeclarations"]]
    assert ["user-profile_update_0c6c4839", "_9_lives_d05adc7c"] == names
    assert all("description" not in d for d in body["tools"][0]["functionDeclarations"])


def test_parameter_names_are_checked_in_the_older_form_of_schemas_only() -> None:
    odd = Toolset([declared("search", "", **{"from-date": {"type": "string"}})])
    assert "from-date" in json.dumps(body_of(user("x"), tools=odd))
    with pytest.raises(UsageError, match="no parameter 'from-date' of tool 'search'"):
        body_of(user("x"), tools=odd, schemas=OPENAPI)


@pytest.mark.parametrize(
    ("text", "args"), [("", {}), (" ", {}), ("{oops", {}), ("[1]", {}), ('{"a": [1, 2.0]}', {"a": [1, 2.0]})]
)
def test_arguments_of_a_foreign_call_are_sent_as_an_object(text: str, args: Json) -> None:
    call = Call("1", "get_weather", text)
    assert [args] == [
        c["args"] for c in calls(contents_of(user("x"), ModelMessage(calls=(call,)), ToolMessage(call, "y")))
    ]


# -- signatures -------------------------------------------------------------------------------------------------


def echo(raw: Raw | None, model: str, *cities: str) -> list[Json]:
    """The parts of a model's turn that called for these cities."""
    made = tuple(weather(city) for city in cities)
    contents = contents_of(
        user("x"), ModelMessage(calls=made, raw=raw), *(ToolMessage(c, "y") for c in made), model=model
    )
    return contents[1]["parts"]


def test_arguments_that_were_no_object_come_back_as_one_beside_their_signature() -> None:
    for args, sent in (("", {}), ('{"a": 1}', {"a": 1}), ("5", {}), ([1], {})):
        said = (
            Gemini()
            .response(
                {
                    "candidates": [
                        {
                            "content": {
                                "parts": [{"functionCall": {"name": "f", "args": args}, "thoughtSignature": "c2ln"}]
                            },
                            "finishReason": "STOP",
                        }
                    ]
                },
                MODEL,
            )
            .message
        )
        called = said.calls[0]._replace(id="t1.0")
        history = [user("x"), ModelMessage(said.text, (called,), raw=said.raw), ToolMessage(called, "y")]
        made = Gemini().body(ModelRequest(history), MODEL, Capabilities(), stream=False)
        check(json.loads(made.json))
        assert json.loads(made.json)["contents"][1]["parts"] == [
            {"functionCall": {"name": "f", "args": sent}, "thoughtSignature": "c2ln"}
        ]


def test_lone_surrogates_in_names_and_ids_of_calls_never_reach_the_wire() -> None:
    call = Call("t1.0", "\ud800", "{}", "\ud801")
    shown = ToolMessage(call, "x", False, (to_dict(audio(b"RIFF\0\0\0\0WAVE" + bytes(8), mime_type="audio/wav")),))
    history = [user("x"), ModelMessage(calls=(call,)), shown]
    made = Gemini().body(ModelRequest(history), MODEL, Capabilities(audio=True), stream=False)
    check(json.loads(made.json))


@pytest.mark.case("C050")
def test_parts_come_back_as_they_came_with_keys_that_we_do_not_know() -> None:
    parts: list[Json] = [
        {"text": "Hm.", "thought": True},
        {"text": "", "thoughtSignature": "Zmlyc3Q="},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        call_part("Oslo", thoughtSignature=SIGNED),
        call_part("Rome", partMetadata={"a": [1.0, 10**20]}),
        {"text": ""},
    ]
    assert parts == echo(said(*parts), NEW, "Oslo", "Rome")


@pytest.mark.case("C050")
@pytest.mark.parametrize(
    ("said_by", "asked", "kept"),
    [
        ("gemini-3-pro-preview", "gemini-3-pro", True),
        ("gemini-3.1-flash-lite-09", "models/gemini-3.1-flash-lite", True),
        ("gemini-3-pro", "gemini-3.1-pro", False),
        ("gemini-3-flash", "gemini-3-pro", False),
        ("gemini-3-flash", "gemini-3-flash-lite", False),
        ("gemini-2.5-flash", "gemini-3-flash", False),
        ("tunedModels/a", "tunedModels/a", True),
        ("tunedModels/a", "tunedModels/b", False),
    ],
)
def test_signatures_go_back_to_the_family_that_made_them_only(said_by: str, asked: str, kept: bool) -> None:
    parts = [{"text": "Hm.", "thought": True}, call_part("Oslo", thoughtSignature=SIGNED)]
    wanted = parts if kept else [call_part("Oslo", thoughtSignature=SKIP)]
    assert wanted == echo(said(*parts, model=said_by), asked, "Oslo")


def test_what_another_api_sent_is_dropped_whole() -> None:
    raw = Raw("anthropic", "claude-x", [{"type": "thinking", "thinking": "Hm.", "signature": "abc"}])
    assert [call_part("Oslo")] == echo(raw, OLD, "Oslo")


@pytest.mark.parametrize(
    "parts", [[call_part("Rome", thoughtSignature=SIGNED)], [{"functionCall": {"name": "other"}}], []]
)
def test_parts_that_no_longer_fit_the_message_are_not_sent(parts: list[Json]) -> None:
    made = (weather("Oslo"), weather("Rome"))
    turn = ModelMessage("Changed.", calls=made, raw=said(*parts, model=OLD))
    contents = contents_of(user("x"), turn, *(ToolMessage(c, "y") for c in made), model=OLD)
    assert [{"text": "Changed."}, call_part("Oslo"), call_part("Rome")] == contents[1]["parts"]


def test_a_text_that_was_changed_since_is_what_is_sent() -> None:
    turn = ModelMessage("Short.", raw=said({"text": "Much longer.", "thoughtSignature": SIGNED}))
    assert [{"text": "Short."}] == contents_of(user("x"), turn, user("y"))[1]["parts"]


@pytest.mark.case("C050")
@pytest.mark.parametrize(
    ("model", "first"), [(OLD, None), (NEW, SKIP), ("gemini-flash-latest", SKIP), ("gemini-10", SKIP)]
)
def test_the_check_of_signatures_is_skipped_for_the_first_call_where_none_was_ever_made(
    model: str, first: str | None
) -> None:
    unsigned = said(call_part("Oslo"), call_part("Rome"), model=model)
    for raw in (None, unsigned):
        assert [first, None] == [p.get("thoughtSignature") for p in echo(raw, model, "Oslo", "Rome")]


def test_the_check_is_never_skipped_where_a_signature_exists() -> None:
    parts = [call_part("Oslo"), {"text": "", "thoughtSignature": SIGNED}]
    assert parts == echo(said(*parts), NEW, "Oslo")


def test_text_without_calls_needs_no_signature() -> None:
    assert [{"text": "b"}] == contents_of(user("a"), ModelMessage("b"))[1]["parts"]


# -- going on after a full response -----------------------------------------------------------------------------


def left_off(text: str, token: str, model: str = NEW) -> ModelMessage:
    return ModelMessage(text, raw=said({"text": text}, model=model, continuationToken=token))


def test_a_transcript_that_ends_with_a_token_is_asked_again_with_it() -> None:
    body = body_of(user("Count."), left_off("1 2", "dG9rMQ=="), left_off("3 4", "dG9rMg=="))
    assert body == {"contents": [{"role": "user", "parts": [{"text": "Count."}]}], "continuationToken": "dG9rMg=="}


def test_a_token_that_was_used_is_not_sent_again() -> None:
    body = body_of(
        user("Count."), left_off("1 2", "dG9rMQ=="), ModelMessage(" 3", raw=said({"text": " 3"})), user("On.")
    )
    assert "continuationToken" not in body
    assert body["contents"][1] == {"role": "model", "parts": [{"text": "1 2"}, {"text": " 3"}]}


def test_a_token_of_another_family_is_not_sent() -> None:
    body = body_of(user("Count."), left_off("1 2", "dG9rMQ==", OLD))
    assert "continuationToken" not in body
    assert [{"text": "1 2"}] == body["contents"][1]["parts"]


# -- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("read_chart", {"mode": "ANY", "allowedFunctionNames": ["read_chart"]}),
        (["read_chart", "9 lives"], {"mode": "ANY", "allowedFunctionNames": ["read_chart", "_9_lives_d05adc7c"]}),
        ([], {"mode": "NONE"}),
    ],
)
def test_the_choice_of_tools_becomes_a_mode(choice: Any, config: Json) -> None:
    body = body_of(user("x"), tools=TOOLS.add(declared("9 lives")), settings=Settings(tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_a_choice_that_is_no_tool_raises_and_without_tools_there_is_none() -> None:
    with pytest.raises(UnknownToolError, match="no tool 'get_wether'"):
        body_of(user("x"), tools=TOOLS, settings=Settings(tool_choice="get_wether"))
    assert "toolConfig" not in body_of(user("x"), settings=Settings(tool_choice="required"))


def generation(model: str = NEW, capabilities: Capabilities | None = None, **settings: Any) -> Json | None:
    return body_of(user("x"), model=model, capabilities=capabilities, settings=Settings(**settings)).get(
        "generationConfig"
    )


def test_settings_go_under_the_names_of_the_api() -> None:
    given: Json = {"temperature": 0.0, "top_p": 0.5, "seed": 7, "stop": ("END",), "max_tokens": 9}
    limits = {"maxOutputTokens": 9, "stopSequences": ["END"]}
    assert generation(**given) == {"temperature": 0.0, "topP": 0.5, "seed": 7, **limits}
    assert generation(**given, capabilities=Capabilities(sampling=False)) == limits
    assert generation() is None


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        (OLD, "none", {"thinkingBudget": 0}),
        (OLD, "minimal", {"thinkingBudget": 512, "includeThoughts": True}),
        (OLD, "low", {"thinkingBudget": 1024, "includeThoughts": True}),
        (OLD, "medium", {"thinkingBudget": 8192, "includeThoughts": True}),
        (OLD, "high", {"thinkingBudget": 24576, "includeThoughts": True}),
        (OLD, "xhigh", {"thinkingBudget": 24576, "includeThoughts": True}),
        (OLD, "max", {"thinkingBudget": 24576, "includeThoughts": True}),
        ("gemini-2.5-pro-preview-06-05", "none", {"thinkingBudget": 128}),
        (NEW, "none", {"thinkingLevel": "MINIMAL"}),
        (NEW, "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        (NEW, "low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        (NEW, "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
        (NEW, "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        (NEW, "xhigh", {"thinkingLevel": "XHIGH", "includeThoughts": True}),
        (NEW, "max", {"thinkingLevel": "XHIGH", "includeThoughts": True}),
    ],
)
def test_effort_becomes_a_budget_or_a_level_by_generation(model: str, effort: str, config: Json) -> None:
    assert generation(model, reasoning=effort) == {"thinkingConfig": config}


def test_extra_keys_win_and_objects_are_merged() -> None:
    extra: Json = {"generationConfig": {"topK": 3, "temperature": 1.0}, "toolConfig": None, "safetySettings": []}
    request = ModelRequest([user("x")], settings=Settings(temperature=0.1, max_tokens=5, extra=extra))
    body = json.loads(Gemini().body(request, NEW, Capabilities(), stream=False).json)
    assert body == {
        "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "generationConfig": {"temperature": 1.0, "maxOutputTokens": 5, "topK": 3},
        "toolConfig": None,
        "safetySettings": [],
    }


def test_the_older_form_of_schemas_has_its_own_key_for_answers() -> None:
    body = body_of(user("x"), output=OutputSchema("note", NOTE), schemas=OPENAPI)
    assert body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseSchema": {
            "type": "OBJECT",
            "properties": {"title": {"type": "STRING"}, "priority": {"type": "STRING", "nullable": True}},
            "required": ["title"],
            "description": "(no additional properties)",
        },
    }


def test_lone_surrogates_never_reach_the_wire() -> None:
    call = weather("Oslo")
    contents = contents_of(
        user("x"), ModelMessage("a\ud800", (call,)), ToolMessage(call, "b\ud800"), model=OLD, instructions="c\ud800"
    )
    assert [{"text": "a\ufffd"}, call_part("Oslo")] == contents[1]["parts"]
    assert [{"output": "b\ufffd"}] == [r["response"] for r in responses(contents)]


# -- once encoded -----------------------------------------------------------------------------------------------


def test_a_longer_transcript_begins_with_the_very_bytes_of_the_shorter() -> None:
    messages: list[Message] = [user("Oslo?"), ModelMessage(calls=(BARE_OSLO,)), ToolMessage(BARE_OSLO, "rain")]
    wire = Gemini()
    short = wire.body(ModelRequest(Transcript(messages)), NEW, Capabilities(), stream=False).json
    messages += [ModelMessage("It rains.", raw=said({"text": "It rains."})), user("And Rome?")]
    longer = wire.body(ModelRequest(Transcript(messages)), NEW, Capabilities(), stream=False).json
    assert longer.startswith(short.removesuffix(b"]}"))


# -- whole transcripts ------------------------------------------------------------------------------------------

texts = st.sampled_from(["", " ", "rain", '"}]', "a\nb", "\U0001f327"])
ids = st.none() | st.sampled_from(["a", "b", "c"])
signatures = st.none() | st.sampled_from(["Zmlyc3Q=", "c2Vjb25k"])
media = st.sampled_from(
    [
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "file", "mimeType": "application/pdf", "data": "AAAA", "name": "a.pdf"},
        {"type": "file", "mimeType": "application/zip", "data": "AAAA"},
        {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
    ]
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """A model message, the results of its calls, and what the user says then."""
    calls = tuple(
        Call(
            f"our-{n}",
            draw(st.sampled_from(["get_weather", "odd name", "a.b:c"])),
            draw(st.sampled_from(["{}", "", "[", '{"a":1}'])),
            draw(ids),
        )
        for n in range(draw(st.integers(0, 4)))
    )
    text = draw(texts)
    parts: list[Json] = [{"text": text}] if text else []
    for call in calls:
        signature = draw(signatures)
        made: Json = {"functionCall": {"name": call.name, "args": {}}}
        parts.append({**made, "thoughtSignature": signature} if signature else made)
    raw = draw(
        st.none()
        | st.just(Raw("gemini", NEW, {"parts": parts}))
        | st.just(Raw("openai-chat", "x", {"role": "assistant"}))
    )
    results = [
        ToolMessage(c, draw(texts), draw(st.booleans()), tuple(draw(st.lists(media, max_size=2)))) for c in calls
    ]
    return [ModelMessage(text, calls, raw=raw), *results, *(user(t) for t in draw(st.lists(texts, max_size=2)))]


@given(
    turns=st.lists(rounds(), max_size=4),
    model=st.sampled_from([OLD, NEW, "gemini-flash-latest"]),
    tool_media=st.booleans(),
)
def test_any_paired_transcript_becomes_a_body_that_keeps_the_rules(
    turns: list[list[Message]], model: str, tool_media: bool
) -> None:
    messages = [user("Begin."), *(message for turn in turns for message in turn)]
    request = ModelRequest(messages, tools=TOOLS)
    made = Gemini().body(request, model, Capabilities(tool_media=tool_media), stream=True)
    body = json.loads(made.json)
    check(body)
    attached = sum(len(m.parts) for m in messages if isinstance(m, ToolMessage))
    assert len(made.sent) == attached
    assert made == Gemini().body(request, model, Capabilities(tool_media=tool_media), stream=True)
    assert sum(isinstance(m, ToolMessage) for m in messages) == len(responses(body["contents"]))
