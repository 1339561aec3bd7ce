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
from ferrule.provider.refusal import reason, unquoted

WIRES: dict[str, Wire] = {w.api: w for w in (ChatWire(), OpenAIResponses(), AnthropicWire(), Gemini())}


def refused(api: str, status: int, message: str, **headers: str) -> ModelError:
    found = WIRES[api].error(
        status, {k.replace("_", "-"): v for k, v in headers.items()}, {"error": {"message": message}}
    )
    assert isinstance(found, ModelError)
    return found


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize(
    ("status", "retryable", "says"),
    [
        (400, False, "the request was refused: Oops"),
        (401, False, "the key was not accepted. Check the key: Oops"),
        (402, False, "the account has no credit left: Oops"),
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
    assert len(unquoted(reason(400, message), ModelRequest([user(prompt)]))) < 400
