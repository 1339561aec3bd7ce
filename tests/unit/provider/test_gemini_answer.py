"""What Gemini says: golden answers and streams, endings, cuts, usage, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.gemini_oracle import EXAMPLES, Json, example

from ferrule.errors import ModelError
from ferrule.message import Call, ModelMessage, Raw, ToolMessage, Usage, user
from ferrule.provider.base import Capabilities, Delta, ModelRequest, ModelResponse
from ferrule.provider.gemini.wire import Gemini

MODEL = "gemini-3-pro"
SIGNED = "b3BhcXVlLWNhbGwtMQ=="
OSLO = Call("", "get_weather", '{"city":"Oslo"}', "a1")
ROME = Call("", "get_weather", '{"city":"Rome"}', "a2")
USAGE = Usage(input=90, output=40, cached=64, reasoning=16)


def stream_example() -> list[Json]:
    return [json.loads(line) for line in (EXAMPLES / "stream-parallel.jsonl").read_text("utf-8").splitlines()]


def decoded(*events: Any) -> tuple[list[Delta], ModelResponse]:
    decoder = Gemini().decoder(MODEL)
    deltas = [delta for event in events for delta in decoder.feed("message", event)]
    return deltas, decoder.finish()


def answered(*parts: Json, reason: str | None = "STOP", **more: Any) -> Json:
    """A response body, or one event of a stream."""
    ending = {} if reason is None else {"finishReason": reason}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **ending, "index": 0, **more}]}


def call_part(city: str = "Oslo", **more: Any) -> Json:
    return {"functionCall": {"name": "get_weather", "args": {"city": city}, **more}}


def respond(data: Any) -> ModelResponse:
    return Gemini().response(data, MODEL)


def raised(data: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        respond(data)
    return caught.value


# -- golden answers ---------------------------------------------------------------------------------------------


def test_a_golden_answer_with_two_calls_is_read() -> None:
    data = example("response-tool-calls.json")
    assert respond(data) == ModelResponse(
        message=ModelMessage(
            calls=(OSLO, ROME), raw=Raw("gemini", MODEL, {"parts": data["candidates"][0]["content"]["parts"]})
        ),
        finish="tool_calls",
        usage=USAGE,
        model="example-model",
        request_id="r1",
    )


def test_a_golden_answer_that_was_filtered_is_read() -> None:
    assert respond(example("response-filtered.json")) == ModelResponse(
        ModelMessage(), "content_filter", Usage(input=9), "example-model"
    )


def test_a_golden_answer_to_a_blocked_prompt_is_read() -> None:
    assert respond(example("response-prompt-blocked.json")) == ModelResponse(
        ModelMessage(), "content_filter", Usage(input=9), "example-model"
    )


def test_a_golden_stream_is_put_together() -> None:
    events = stream_example()
    deltas, response = decoded(*events)
    assert [Delta("call", "get_weather"), Delta("call", "get_weather")] == deltas
    parts = [event["candidates"][0]["content"]["parts"][0] for event in events]
    assert response == ModelResponse(
        message=ModelMessage(calls=(OSLO, ROME), raw=Raw("gemini", MODEL, {"parts": parts})),
        finish="tool_calls",
        usage=USAGE,
        model="example-model",
    )


def test_every_golden_answer_is_tried_and_has_the_shape_of_googles_types() -> None:
    names = {p.name for p in EXAMPLES.iterdir() if p.name.startswith(("response-", "stream-"))}
    assert names == {
        "response-tool-calls.json",
        "response-filtered.json",
        "response-prompt-blocked.json",
        "stream-parallel.jsonl",
    }
    for data in (*(example(n) for n in names if n.endswith(".json")), *stream_example()):
        types.GenerateContentResponse.model_validate_json(json.dumps(data))


def test_a_stream_that_comes_as_one_list_is_read_whole() -> None:
    """So it comes from a server, or through a gateway, that does not heed the query `alt=sse`."""
    assert decoded(*stream_example())[1] == Gemini().response(stream_example(), MODEL)


@pytest.mark.case("C050")
def test_a_streamed_answer_goes_back_with_every_signature_on_its_part() -> None:
    events = stream_example()
    _, response = decoded(*events)
    message = response.message
    results = [ToolMessage(call, "x") for call in message.calls]
    named = ModelMessage(message.text, message.calls, raw=message.raw)
    body = Gemini().body(ModelRequest([user("?"), named, *results]), MODEL, Capabilities(), stream=True)
    parts = [event["candidates"][0]["content"]["parts"][0] for event in events]
    assert parts == json.loads(body.json)["contents"][1]["parts"]


# -- cuts -------------------------------------------------------------------------------------------------------


@pytest.mark.case("C055")
@pytest.mark.parametrize("length", range(3))
def test_a_stream_cut_after_any_event_is_an_error_and_has_no_complete_call(length: int) -> None:
    events = stream_example()[:length]
    _, response = decoded(*events)
    assert response.finish == "unknown"
    assert response.error is not None
    assert str(response.error) == "gemini: the answer was cut before its end. Ask again"
    assert response.error.retryable
    assert [False] * length == [call.complete for call in response.message.calls]
    assert response.usage == (None, Usage(input=90), USAGE)[length]


def test_a_cut_stream_keeps_its_text() -> None:
    deltas, response = decoded(answered({"text": "It ra"}, reason=None))
    assert [Delta("text", "It ra")] == deltas
    assert (response.message.text, response.finish, response.usage) == ("It ra", "unknown", None)


# -- endings ----------------------------------------------------------------------------------------------------

FILTERED = [
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "IMAGE_OF_TOMORROW",
]
MISHAPS = [
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MALFORMED_RESPONSE",
    "MISSING_THOUGHT_SIGNATURE",
]
UNTOLD = ["OTHER", "NO_IMAGE", "IMAGE_OTHER", "FINISH_REASON_UNSPECIFIED", "REASON_OF_TOMORROW"]
ENDINGS = {
    "STOP": "stop",
    **dict.fromkeys(("MAX_TOKENS", "CONTINUATION"), "length"),
    **dict.fromkeys(FILTERED, "content_filter"),
    **dict.fromkeys(MISHAPS, "error"),
    **dict.fromkeys(UNTOLD, "unknown"),
}


@pytest.mark.parametrize("reason", ENDINGS)
def test_each_finish_reason_has_its_word_of_ours(reason: str) -> None:
    response = respond(answered({"text": "x"}, reason=reason))
    assert ENDINGS[reason] == response.finish
    assert (response.error is not None) == (response.finish in ("error", "unknown"))
    assert response.error is None or response.error.code == reason


def test_every_reason_that_googles_types_know_is_in_the_table() -> None:
    assert {reason.name for reason in types.FinishReason} <= set(ENDINGS)


@pytest.mark.case("C055")
@pytest.mark.parametrize("reason", [r for r in ENDINGS if r != "STOP"])
def test_a_call_beside_any_other_reason_is_not_complete(reason: str) -> None:
    response = respond(answered(call_part(), reason=reason))
    assert [Call("", "get_weather", '{"city":"Oslo"}', complete=False)] == list(response.message.calls)
    assert ENDINGS[reason] == response.finish


def test_a_call_that_the_model_may_not_make_is_told_and_not_complete() -> None:
    response = respond(answered(call_part(), reason="UNEXPECTED_TOOL_CALL"))
    assert str(response.error) == (
        "gemini: the model called a tool that it was not offered; the call was not run [code UNEXPECTED_TOOL_CALL]"
    )


def test_only_a_malformed_answer_is_worth_asking_again() -> None:
    again = {reason for reason in MISHAPS if (e := respond(answered(reason=reason)).error) and e.retryable}
    assert again == {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"}


@pytest.mark.case("C059")
@pytest.mark.parametrize("candidate", [{}, {"content": {}}, {"content": {"role": "model"}}, {"content": {"parts": []}}])
def test_an_answer_that_says_nothing_is_flagged(candidate: Json) -> None:
    response = respond({"candidates": [{**candidate, "finishReason": "STOP"}]})
    assert response == ModelResponse(ModelMessage(), "stop", model=MODEL, flagged=True)


@pytest.mark.case("C059")
def test_thinking_alone_is_flagged_and_kept() -> None:
    part = {"text": "Hm.", "thought": True}
    response = respond(answered(part))
    assert response.flagged
    assert response.message == ModelMessage(reasoning="Hm.", raw=Raw("gemini", MODEL, {"parts": [part]}))


def test_any_reason_to_block_the_prompt_wins() -> None:
    assert respond({**answered({"text": "x"}), "promptFeedback": {"blockReason": "OTHER"}}).finish == "content_filter"
    assert respond({**answered({"text": "x"}), "promptFeedback": {"safetyRatings": []}}).finish == "stop"


def test_a_continuation_token_is_kept_with_the_parts() -> None:
    response = respond(answered({"text": "1 2"}, reason="CONTINUATION", continuationToken="dG9r"))
    assert response.message.raw == Raw("gemini", MODEL, {"parts": [{"text": "1 2"}], "continuationToken": "dG9r"})


def test_only_the_first_candidate_counts() -> None:
    [first] = answered({"text": "a"})["candidates"]
    [second] = answered({"text": "b"}, reason="MAX_TOKENS")["candidates"]
    response = respond({"candidates": [{**second, "index": 1}, first]})
    assert (response.message.text, response.finish) == ("a", "stop")


# -- calls, text, usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ({"name": "f", "args": {"b": 1, "a": [1.0, 10**20]}}, Call("", "f", '{"b":1,"a":[1.0,100000000000000000000]}')),
        ({"name": "f"}, Call("", "f", "{}")),
        ({"name": "f", "args": None, "id": ""}, Call("", "f", "{}")),
        ({"args": {}}, Call("", "", "{}", complete=False)),
        ({"name": "f", "args": ""}, Call("", "f", "{}")),
        ({"name": "f", "args": '{"a": 1}'}, Call("", "f", '{"a": 1}')),
        ({"name": "f", "args": '{"a": '}, Call("", "f", '{"a": ', complete=False)),
        ({"name": "f", "id": "a1", "willContinue": True}, Call("", "f", "{}", "a1", complete=False)),
        ({"name": "f", "partialArgs": [{"jsonPath": "$.a"}]}, Call("", "f", "{}", complete=False)),
    ],
)
def test_a_call_is_read_with_or_without_id_and_arguments(said: Json, call: Call) -> None:
    assert (call,) == respond(answered({"functionCall": said})).message.calls


def test_text_and_thinking_are_kept_apart() -> None:
    parts = [{"text": "Hm. ", "thought": True}, {"text": "It "}, {"text": "So.", "thought": True}, {"text": "rains."}]
    message = respond(answered(*parts)).message
    assert ("It rains.", "Hm. So.") == (message.text, message.reasoning)
    assert message.raw == Raw("gemini", MODEL, {"parts": parts})


def test_streamed_text_is_one_part_except_where_a_signature_hangs_on_it() -> None:
    events = [
        answered({"text": "I ", "thought": True}, reason=None),
        answered({"text": "think.", "thought": True}, {"text": "He"}, reason=None),
        answered({"text": "llo"}, {"text": "!"}, reason=None),
        answered({"text": "", "thoughtSignature": SIGNED}, reason=None),
        answered({"text": " Bye"}),
    ]
    deltas, response = decoded(*events, None)
    assert deltas == [
        Delta("reasoning", "I "),
        Delta("reasoning", "think."),
        *(Delta("text", piece) for piece in ("He", "llo", "!", " Bye")),
    ]
    assert response.message.raw is not None
    assert response.message.raw.items["parts"] == [
        {"text": "I think.", "thought": True},
        {"text": "Hello"},
        {"text": "!"},
        {"text": "", "thoughtSignature": SIGNED},
        {"text": " Bye"},
    ]
    assert response.message.text == "Hello! Bye"


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, None),
        ({"totalTokenCount": 9, "serviceTier": "standard"}, None),
        ({"promptTokenCount": 9}, Usage(input=9)),
        ({"promptTokenCount": 9, "toolUsePromptTokenCount": 2}, Usage(input=11)),
        ({"toolUsePromptTokenCount": 2, "candidatesTokenCount": 0}, Usage(input=2, output=0)),
        ({"thoughtsTokenCount": 3, "cachedContentTokenCount": 5}, Usage(output=3, cached=5, reasoning=3)),
        ({"candidatesTokenCount": 4, "thoughtsTokenCount": 3}, Usage(output=7, reasoning=3)),
        ({"promptTokenCount": None, "candidatesTokenCount": "4"}, None),
    ],
)
def test_counts_are_summed_and_what_nobody_told_stays_none(counts: Json, usage: Usage | None) -> None:
    assert usage == respond({**answered({"text": "x"}), "usageMetadata": counts}).usage


def test_the_last_usage_of_a_stream_wins() -> None:
    early = {
        **answered({"text": "a"}, reason=None),
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1},
    }
    late = {**answered({"text": "b"}), "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2}}
    assert decoded(early, late, {"usageMetadata": None})[1].usage == Usage(input=10, output=2)


# -- totality ---------------------------------------------------------------------------------------------------

PARTS: list[Json] = [
    {"text": ""},
    {"text": "It rains."},
    {"text": "\n\U0001f327\n"},
    {"text": "Hm, rain.", "thought": True},
    {"text": "", "thoughtSignature": SIGNED},
    {"text": "Signed.", "thoughtSignature": SIGNED},
    call_part("Oslo"),
    call_part("Rome", id="a1"),
    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
]


def is_plain(part: Json) -> bool:
    return part.keys() <= {"text", "thought"}


@st.composite
def fragmented(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    """The parts of an answer, and the events of a stream that says the same."""
    parts = draw(st.lists(st.sampled_from(PARTS), max_size=5))
    pieces: list[Json] = []
    for part in parts:
        text: str = part["text"] if is_plain(part) else ""
        cut = draw(st.integers(0, len(text))) if text else 0
        pieces += [{**part, "text": text[:cut]}, {**part, "text": text[cut:]}] if cut else [part]
    events: list[Json] = []
    while pieces:
        taken = draw(st.integers(1, 3))
        events.append(answered(*pieces[:taken], reason=None))
        del pieces[:taken]
    return parts, [*events, answered()]


@given(fragmented())
def test_however_an_answer_is_cut_into_events_the_same_is_read(case: tuple[list[Json], list[Json]]) -> None:
    parts, events = case
    whole = respond(answered(*parts))
    deltas, streamed = decoded(*events)
    assert whole.finish == streamed.finish
    assert (whole.message.text, whole.message.reasoning) == (streamed.message.text, streamed.message.reasoning)
    assert whole.message.calls == streamed.message.calls
    assert whole.message.text == "".join(d.text for d in deltas if d.kind == "text")
    assert whole.message.reasoning == "".join(d.text for d in deltas if d.kind == "reasoning")
    assert [c.name for c in whole.message.calls] == [d.text for d in deltas if d.kind == "call"]
    kept: list[Json] = streamed.message.raw.items["parts"] if streamed.message.raw else []
    assert [p for p in parts if not is_plain(p)] == [p for p in kept if not is_plain(p)]


@pytest.mark.case("C055")
@given(fragmented())
def test_a_stream_cut_anywhere_is_an_error_and_has_no_complete_call(case: tuple[list[Json], list[Json]]) -> None:
    _, events = case
    for length in range(len(events)):
        _, response = decoded(*events[:length])
        assert response.finish == "unknown"
        assert response.error is not None
        assert not any(call.complete for call in response.message.calls)


KEYS = st.sampled_from(
    [
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "functionCall",
        "name",
        "args",
        "id",
        "finishReason",
        "promptFeedback",
        "blockReason",
        "usageMetadata",
        "promptTokenCount",
        "modelVersion",
        "responseId",
        "index",
        "error",
        "code",
        "status",
        "details",
        "message",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-1, 600) | st.sampled_from([0.5, "", "STOP", "x", SIGNED])
JSONS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@given(st.lists(JSONS, max_size=3))
def test_no_json_breaks_the_reader(events: list[Any]) -> None:
    try:
        _, response = decoded(*events)
    except ModelError:
        return
    assert response.finish in ("stop", "tool_calls", "length", "content_filter", "error", "unknown")


@given(st.integers(400, 599), JSONS | st.dictionaries(st.just("error"), JSONS))
def test_no_json_breaks_the_reading_of_a_refusal(status: int, data: Any) -> None:
    assert Gemini().error(status, {}, data).status == status


# -- refusals ---------------------------------------------------------------------------------------------------


def refused(status: int, error: Any, **headers: str) -> ModelError:
    return Gemini().error(status, {name.replace("_", "-"): value for name, value in headers.items()}, error)


def exhausted(*details: Json) -> Json:
    return {
        "error": {
            "code": 429,
            "message": "You exceeded your quota.",
            "status": "RESOURCE_EXHAUSTED",
            "details": list(details),
        }
    }


def quota(id: str) -> Json:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]}


def retry_info(delay: Any) -> Json:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


PER_DAY = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")
PER_MINUTE = quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_full_quota_says_when_to_come_back_wrapped_in_a_list_or_not(wrapped: bool) -> None:
    body = exhausted(PER_MINUTE, retry_info("45.837462519s"))
    error = refused(429, [body] if wrapped else body)
    assert str(error) == ("gemini: too many requests: You exceeded your quota. [status 429, code RESOURCE_EXHAUSTED]")
    assert (error.retryable, error.retry_after, error.status, error.code) == (
        True,
        45.837462519,
        429,
        "RESOURCE_EXHAUSTED",
    )


def test_a_quota_of_the_day_is_not_worth_a_retry() -> None:
    error = refused(429, exhausted(PER_MINUTE, PER_DAY, retry_info("3s")))
    assert (error.retryable, error.retry_after) == (False, 3.0)
    assert error.reason == "the quota of the day is used up: You exceeded your quota."


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((s, True) for s in (408, 409, 429, 500, 502, 503, 504, 529)),
        *((s, False) for s in (400, 401, 402, 403, 404, 413, 422, 501)),
    ],
)
def test_what_may_be_sent_again_follows_from_the_status(status: int, retryable: bool) -> None:
    error = refused(status, {"error": {"code": status, "message": "x", "status": "ANY"}})
    assert (error.retryable, error.status, error.code) == (retryable, status, "ANY")


@pytest.mark.parametrize(
    ("headers", "delay", "seconds"),
    [
        ({"retry_after_ms": "1500", "retry_after": "9"}, "3s", 1.5),
        ({"retry_after": "2.5"}, "3s", 2.5),
        ({"retry_after": "soon"}, "3s", 3.0),
        ({}, "0.5", 0.5),
        ({}, "-3s", None),
        ({}, 3, None),
        ({}, None, None),
    ],
)
def test_the_wait_is_the_first_hint_that_can_be_read(
    headers: dict[str, str], delay: Any, seconds: float | None
) -> None:
    assert seconds == refused(429, exhausted(retry_info(delay)), **headers).retry_after


NOTHING: list[Any] = ["", None, [], {}, {"error": None}, {"error": {}}]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        ({"error": "x"}, "x"),
        *((nothing, "it says nothing more") for nothing in NOTHING),
    ],
)
def test_a_body_of_any_kind_leaves_the_status(body: Any, said: str) -> None:
    error = refused(502, body)
    assert (str(error), error.retryable, error.code) == (f"gemini: the server failed: {said} [status 502]", True, None)


def test_a_refusal_tells_causes_and_places_and_quotes_nothing() -> None:
    message = (
        "* GenerateContentRequest.tools[0].function_declarations[18].parameters.properties[tags].items: missing field.\n"
        "Invalid value at 'contents[2].parts[0].function_call.args' (TYPE_STRUCT), \"my secret is tools.hidden\""
    )
    details = [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"},
        {"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "reason": "my secret"},
    ]
    error = refused(400, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": details}})
    assert error.reason == (
        "the key was not accepted. Check the key: API_KEY_INVALID "
        "* GenerateContentRequest.tools[0].function_declarations[18].parameters.properties[tags].items: missing field. "
        "Invalid value at 'contents[2].parts[0].function_call.args' (TYPE_STRUCT), […]"
    )


def test_an_error_inside_a_stream_is_raised_with_its_own_status() -> None:
    decoder = Gemini().decoder(MODEL)
    list(decoder.feed("message", answered({"text": "a"}, reason=None)))
    with pytest.raises(ModelError) as caught:
        decoder.feed(
            "message", {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
        )
    assert (caught.value.status, caught.value.code, caught.value.retryable) == (503, "UNAVAILABLE", True)


@pytest.mark.parametrize("data", ["text", 3, [], [None], True])
def test_what_is_no_object_is_no_answer(data: Any) -> None:
    assert str(raised(data)) == "gemini: the answer is no JSON object. Check the base URL"


def test_an_error_in_place_of_an_answer_is_raised() -> None:
    assert raised([exhausted()]).code == "RESOURCE_EXHAUSTED"
    assert raised({"error": "odd"}).status == 500
