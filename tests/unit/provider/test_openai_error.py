from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.chat import wire

from ferrule.errors import ModelError
from ferrule.message import Call, ModelMessage
from ferrule.provider.base import ModelResponse
from ferrule.provider.foreign import arguments_text
from ferrule.provider.openai_chat.refused import failed_calls
from ferrule.provider.openai_error import read_error

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "code",
                    "type",
                    "detail",
                    "loc",
                    "msg",
                    "metadata",
                    "raw",
                    "provider_name",
                    "failed_generation",
                    "status_code",
                    "object",
                    "name",
                    "arguments",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


def error(status: int, data: Any, api: str = "openai-chat", **headers: str) -> ModelError:
    found = wire(api).error(status, {k.replace("_", "-"): v for k, v in headers.items()}, data)
    assert isinstance(found, ModelError)
    return found


# -- bodies -----------------------------------------------------------------------------------------------------


def test_openai_says_what_is_wrong_in_a_nested_object() -> None:
    body = {
        "error": {
            "message": "The model `m` does not exist",
            "type": "invalid_request_error",
            "param": None,
            "code": "model_not_found",
        }
    }
    found = error(404, body, x_request_id="req_1")
    assert (
        "openai-chat: not found. Check the model's name and the base URL: The model `m` does not exist "
        "[status 404, code model_not_found, request req_1]"
    ) == str(found)
    assert (404, "model_not_found", "req_1", False, None) == (
        found.status,
        found.code,
        found.request_id,
        found.retryable,
        found.retry_after,
    )


def test_the_type_stands_in_for_a_code_that_is_null() -> None:
    assert "server_error" == error(500, {"error": {"message": "x", "type": "server_error", "code": None}}).code


def test_mistral_says_it_flat() -> None:
    body = {
        "object": "error",
        "message": "Unexpected role",
        "type": "invalid_request_message_order",
        "param": None,
        "code": "3230",
    }
    found = error(400, body, "mistral")
    assert ("invalid_request_message_order", False) == (found.code, found.retryable)
    assert "mistral: the request was refused: Unexpected role" in str(found)


def test_openrouter_says_it_in_digits_and_hides_the_cause_in_metadata() -> None:
    metadata = {"provider_name": "Vendor", "raw": '{"error":{"message":"context is too long"}}'}
    body = {"error": {"code": 400, "message": "Provider returned error", "metadata": metadata}, "user_id": "u"}
    found = error(400, body, "openrouter")
    assert "Provider returned error (Vendor: context is too long)" in found.reason
    assert found.code is None


def test_a_router_that_quotes_no_json_is_repeated_like_any_message() -> None:
    body = {"error": {"message": "x", "metadata": {"raw": "oops {"}}}
    assert error(500, body).reason.endswith(": x oops […]")


def test_ollama_says_it_in_one_string() -> None:
    assert error(404, {"error": "model 'm' not found"}, "ollama").reason.endswith(": model 'm' not found")


def test_a_validator_names_places_and_rules_but_not_our_values() -> None:
    detail = [{"loc": ["body", "messages", 0], "msg": "Field required", "input": "our secret"}, "odd"]
    found = error(422, {"detail": detail}, "vllm")
    assert found.reason.endswith(": body.messages.0 Field required; odd")
    assert "our secret" not in str(found)
    assert error(422, {"detail": {"msg": "no"}}).reason.endswith(": no")


def test_a_list_around_the_error_is_taken_off() -> None:
    assert error(400, [{"error": {"message": "inner"}}]).reason.endswith(": inner")


@pytest.mark.parametrize("page", ["<html>\n<h1>502 Bad Gateway</h1>\n" + "x" * 900, "", None, [], 7])
def test_what_is_no_json_object_still_makes_an_error(page: Any) -> None:
    found = error(502, page)
    assert (502, True) == (found.status, found.retryable)
    assert len(found.reason) < 350


def test_a_page_of_a_proxy_is_told_by_its_beginning_on_one_line() -> None:
    assert "the server failed: <html> <h1>Bad Gateway</h1>" == error(502, "<html>\n  <h1>Bad Gateway</h1>").reason


def test_a_key_that_a_server_quotes_is_taken_out() -> None:
    body = {"error": {"message": "Incorrect API key provided: sk-" + "a" * 30}}
    assert "the key was not accepted. Check the key: Incorrect API key provided: [redacted]" == error(401, body).reason


@given(JSON, st.integers(400, 599))
def test_any_body_makes_an_error_or_an_answer(data: Any, status: int) -> None:
    found = wire().error(status, {}, data)
    assert isinstance(found, ModelError | ModelResponse)


# -- whether and when to ask again ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_some_failures_pass(status: int) -> None:
    assert error(status, "").retryable
    assert not error(status, "", x_should_retry="false").retryable


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
@pytest.mark.case("C053")
def test_a_request_that_was_wrong_stays_wrong(status: int) -> None:
    assert not error(status, "").retryable
    assert not error(status, "", x_should_retry="true").retryable


def test_an_unlisted_status_is_tried_again_only_when_the_server_says_so() -> None:
    assert not error(520, "").retryable
    assert error(520, "", x_should_retry="true").retryable


def test_a_spent_quota_does_not_come_back() -> None:
    body = {"error": {"message": "x", "type": "insufficient_quota", "code": "insufficient_quota"}}
    assert not error(429, body, x_should_retry="true").retryable


def test_a_lack_of_credit_passes_only_when_the_server_names_a_time() -> None:
    assert not error(402, "").retryable
    assert error(402, "", retry_after="30").retryable


# -- calls that the provider does not take ----------------------------------------------------------------------


def refused(failed: str | None, message: str = "does not match") -> Any:
    body: dict[str, Any] = {"type": "invalid_request_error", "code": "tool_use_failed", "message": message}
    if failed is not None:
        body["failed_generation"] = failed
    return wire("groq").error(400, {}, {"error": body})


@pytest.mark.case("C056")
def test_a_call_that_the_provider_refuses_becomes_a_turn_with_its_answer() -> None:
    found = refused('{"name":"get_weather","arguments":{"town":"Oslo"}}')
    call = Call("", "get_weather", '{"town":"Oslo"}')
    assert ModelResponse(ModelMessage("", (call,)), "tool_calls", mended={0: "does not match"}) == found


def test_several_refused_calls_are_all_answered() -> None:
    found = refused('[{"name":"a","parameters":{}},{"name":"b"}]', message="")
    why = "The provider did not take this call: its arguments do not fit the schema of the tool."
    assert ["a", "b"] == [c.name for c in found.message.calls]
    assert {0: why, 1: why} == found.mended


def test_a_refused_answer_in_plain_text_is_that_text() -> None:
    assert ModelResponse(ModelMessage("I would rather talk.")) == refused("I would rather talk.")


@pytest.mark.parametrize(
    "failed", [None, "", " ", '{"name":', "<function=get_weather>{}</function>", '{"arguments":{}}', "[1]"]
)
def test_a_refused_call_that_nobody_can_read_may_be_tried_again(failed: str | None) -> None:
    found = refused(failed)
    assert isinstance(found, ModelError)
    assert ("tool_use_failed", True) == (found.code, found.retryable)


def test_the_error_never_quotes_the_refused_call() -> None:
    assert "Oslo" not in str(refused('{"name":"get_weather","arguments":{"town":"Oslo"'))


def test_only_the_code_makes_a_refused_call_not_the_message() -> None:
    body = {"error": {"message": "tool_use_failed", "code": "other", "failed_generation": "x"}}
    assert isinstance(wire("groq").error(400, {}, body), ModelError)


@given(st.text())
def test_any_text_holds_calls_or_none(failed: str) -> None:
    assert all(call.name for call in failed_calls(failed))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (None, "{}"),
        ("", "{}"),
        (" \n", "{}"),
        ('{"a": 1}', '{"a": 1}'),
        ({"a": 1}, '{"a":1}'),
        ([], "[]"),
        ("\ud800", "�"),
    ],
)
@pytest.mark.case("C017")
def test_arguments_become_text(sent: Any, expected: str) -> None:
    assert expected == arguments_text(sent)


@pytest.mark.parametrize(
    ("value", "status"), [(429, 429), ("429", 429), (7, None), (True, None), ("x", None), (None, None)]
)
def test_only_a_status_is_read_as_one(value: Any, status: int | None) -> None:
    assert status == read_error({"error": {"status_code": value}}).status
