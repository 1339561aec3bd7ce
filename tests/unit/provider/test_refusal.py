"""What every adapter says of a refusal: one rule for the mend, for the provider's words and for the time to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.errors import ModelError
from ferrule.message import Call, ModelMessage, ToolMessage, user
from ferrule.provider.anthropic.wire import AnthropicWire
from ferrule.provider.base import ModelRequest, Wire
from ferrule.provider.gemini.wire import Gemini
from ferrule.provider.openai_chat.wire import ChatWire
from ferrule.provider.openai_responses.wire import OpenAIResponses
from ferrule.provider.refusal import Said, model_error, unquoted

WIRES: dict[str, Wire] = {w.api: w for w in (ChatWire(), OpenAIResponses(), AnthropicWire(), Gemini())}


def refused(api: str, status: int, message: str, **headers: str) -> ModelError:
    found = WIRES[api].error(
        status, {k.replace("_", "-"): v for k, v in headers.items()}, {"error": {"message": message}}
    )
    assert isinstance(found, ModelError)
    return found


TOO_LONG = "the transcript is too long for the model. Shorten it"
WRONG_KEY = "the key was not accepted. Check the key"
NO_MODEL = "not found. Check the model's name and the base URL"
REFUSED = "the request was refused"


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (400, "prompt is too long: 213413 tokens > 200000 maximum", TOO_LONG),
        (400, "input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000", TOO_LONG),
        (400, "The input token count (1234567) exceeds the maximum number of tokens allowed (1048576).", TOO_LONG),
        (400, "This model's maximum context length is 128000 tokens. However, you requested 130000.", TOO_LONG),
        (400, "Your input exceeds the context window of this model.", TOO_LONG),
        (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", TOO_LONG),
        (400, "the request exceeds the available context size", TOO_LONG),
        (400, "Input is too long for requested model.", TOO_LONG),
        (400, "max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens", REFUSED),
        (429, "context length exceeded for this minute", "too many requests"),
        (400, "API key not valid. Please pass a valid API key.", WRONG_KEY),
        (400, "Incorrect API key provided: none.", WRONG_KEY),
        (400, "The requested model 'gpt-9' does not exist.", NO_MODEL),
        (400, "The model `gpt-9` does not exist or you do not have access to it.", NO_MODEL),
        (400, "model: gpt-9 was not found", NO_MODEL),
        (400, "models/gpt-9 is not found for API version v1beta", NO_MODEL),
        (400, "Invalid model: gpt-9", NO_MODEL),
        (400, "acme/gpt-9 is not a valid model ID", NO_MODEL),
        (400, "* GenerateContentRequest.model: unexpected model name format", NO_MODEL),
        (
            400,
            "Your credit balance is too low to access the API.",
            "the account has no credit left. Add some, or use another key",
        ),
        (400, "temperature is not supported with this model", REFUSED),
        (400, "No tool output found for function call call_1.", REFUSED),
        (400, "the model turn before it was not found in the cache", REFUSED),
    ],
)
def test_what_a_status_does_not_tell_is_read_from_the_sentence(api: str, status: int, message: str, says: str) -> None:
    assert refused(api, status, message).reason.startswith(f"{says}: ")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"type": "invalid_request_error", "code": "context_length_exceeded"}, TOO_LONG),
        ({"type": "invalid_request_error", "code": "model_not_found", "param": "model"}, NO_MODEL),
        ({"type": "invalid_model", "code": "1500"}, NO_MODEL),
        (
            {"type": "insufficient_quota", "code": "insufficient_quota"},
            "the account has no credit left. Add some, or use another key",
        ),
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, WRONG_KEY),
    ],
)
@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_the_code_tells_it_too(api: str, body: dict[str, str], says: str) -> None:
    found = WIRES[api].error(400, {}, {"error": {"message": "Oops", **body}})
    assert isinstance(found, ModelError)
    assert found.reason == f"{says}: Oops"


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize(
    ("status", "retryable", "says"),
    [
        (400, False, "the request was refused: Oops"),
        (401, False, "the key was not accepted. Check the key: Oops"),
        (402, False, "the account has no credit left. Add some, or use another key: Oops"),
        (403, False, "the key may not do this. Check its permissions: Oops"),
        (404, False, "not found. Check the model's name and the base URL: Oops"),
        (408, True, "the server gave up waiting: Oops"),
        (409, True, "the request was refused: Oops"),
        (413, False, "the request is too large"),
        (418, False, "the request was refused: Oops"),
        (422, False, "the request was refused: Oops"),
        (429, True, "too many requests: Oops"),
        (500, True, "the server failed: Oops"),
        (502, True, "the server failed: Oops"),
        (503, True, "the server failed: Oops"),
        (504, True, "the server gave up waiting: Oops"),
        (520, False, "the server failed: Oops"),
        (529, True, "the server is overloaded: Oops"),
    ],
)
def test_each_status_means_the_same_over_each_api(api: str, status: int, retryable: bool, says: str) -> None:
    error = refused(api, status, "Oops")
    assert (error.status, error.retryable) == (status, retryable)
    assert error.reason.startswith(says)
    assert error.reason.endswith(": Oops")
    assert refused(api, 429, "Oops", retry_after="7").retry_after == 7.0
    assert not refused(api, 503, "Oops", x_should_retry="false").retryable
    assert not refused(api, 400, "Oops", x_should_retry="true").retryable


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("insufficient_quota", "the account has no credit left"),
        ("billing_hard_limit_reached", "the account has no credit left"),
        ("enforced_spend_limit_reached", "the spend limit is reached"),
    ],
)
def test_what_is_used_up_does_not_come_back_by_waiting_over_any_api(api: str, message: str, says: str) -> None:
    error = refused(api, 429, message, retry_after="1", x_should_retry="true")
    assert (error.retryable, error.reason.partition(".")[0]) == (False, says)


@pytest.mark.parametrize("api", WIRES)
def test_a_missing_payment_is_worth_a_retry_only_when_the_server_says_when(api: str) -> None:
    assert refused(api, 402, "Oops", retry_after="7").retryable
    assert not refused(api, 402, "Oops", x_should_retry="true").retryable


@pytest.mark.parametrize("api", WIRES)
def test_the_id_of_the_provider_comes_before_that_of_a_proxy(api: str) -> None:
    assert refused(api, 500, "Oops", x_request_id="proxy", request_id="own").request_id == "own"
    assert refused(api, 500, "Oops", x_request_id="own").request_id == "own"


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.",) * 2,
        ("tools[0].items: missing field. It doesn't fit the model's rules",) * 2,
        ("Invalid value: 'Compare Oslo and Rome'.", "Invalid value: […]."),
        ('bad content "Compare Oslo', "bad content […]"),
        ("bad content `Compare\nOslo` here", "bad content […] here"),
        ('cannot read {"role": "user", "content": "Oslo"}', "cannot read […]"),
        ("cannot read map[role:user content:Compare Oslo]", "cannot read map[…]"),
        ("key sk-" + "a" * 30 + " is wrong", "key [redacted] is wrong"),
        ("a\n b\t c", "a b c"),
        ("x" * 400, "x" * 300 + "…"),
        ("", "it says nothing more"),
    ],
)
def test_a_message_is_shown_without_what_it_quotes(api: str, message: str, shown: str) -> None:
    assert refused(api, 400, message).reason == f"the request was refused: {shown}"


CALL = Call("1", "look", '{"place": "cellar"}')
REQUEST = ModelRequest(
    [user("Compare Oslo and\n Rome, please."), ModelMessage("Let me look.", (CALL,)), ToolMessage(CALL, "It is dark")],
    "You are a very careful clerk.",
)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("refused: compare oslo and rome", "refused: […]"),
        ("bad: <Compare Oslo and Rom", "bad: <[…]"),
        ("Invalid value: 'cellar' at 'tools'", "Invalid value: […] at 'tools'"),
        ("you are a VERY careful person", "[…] person"),
        ("Oslo and Rome", "Oslo and Rome"),
        ("not found. Check the model's name", "not found. Check the model's name"),
        ("", ""),
    ],
)
def test_what_the_transcript_says_is_not_repeated(said: str, shown: str) -> None:
    assert unquoted(said, REQUEST) == shown


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_shown(message: str, prompt: str) -> None:
    assert len(unquoted(model_error("x", 400, {}, Said(message)).reason, ModelRequest([user(prompt)]))) < 400
