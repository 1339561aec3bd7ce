from __future__ import annotations

from typing import Any

import pytest

from ferrule.provider.anthropic.wire import AnthropicWire

WIRE = AnthropicWire()


def body(kind: str, message: str = "Oops", **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_body"}


@pytest.mark.parametrize(
    ("status", "kind", "retryable", "says"),
    [
        (400, "invalid_request_error", False, "the request was refused"),
        (401, "authentication_error", False, "Check the key"),
        (402, "billing_error", False, "no credit left"),
        (403, "permission_error", False, "may not do this"),
        (404, "not_found_error", False, "Check the model's name"),
        (408, "timeout_error", True, "gave up waiting"),
        (409, "conflict_error", True, "the request was refused"),
        (413, "request_too_large", False, "the API takes 32 MB. Shorten the transcript, or attach files by URL"),
        (422, "invalid_request_error", False, "the request was refused"),
        (429, "rate_limit_error", True, "too many requests"),
        (500, "api_error", True, "the server failed"),
        (502, "api_error", True, "the server failed"),
        (504, "timeout_error", True, "gave up waiting"),
        (529, "overloaded_error", True, "the server is overloaded"),
    ],
)
def test_a_status_decides_whether_waiting_helps_and_what_to_mend(
    status: int, kind: str, retryable: bool, says: str
) -> None:
    error = WIRE.error(status, {}, body(kind))
    assert (status, kind, retryable) == (error.status, error.code, error.retryable)
    assert says in error.reason
    assert error.reason.endswith(": Oops")


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "contract_spend_limit_reached"])
def test_a_spend_limit_is_never_tried_again_whatever_a_header_says(code: str) -> None:
    data = body("rate_limit_error", details={"error_code": code})
    error = WIRE.error(429, {"x-should-retry": "true"}, data)
    assert (code, False) == (error.code, error.retryable)
    assert "Raise it" in error.reason


@pytest.mark.parametrize(
    ("status", "advice", "retryable"),
    [(429, "false", False), (529, "FALSE", False), (412, "true", True), (400, "true", False), (429, "perhaps", True)],
)
def test_the_servers_advice_is_followed_except_for_bodies_that_are_wrong(
    status: int, advice: str, retryable: bool
) -> None:
    assert retryable == WIRE.error(status, {"x-should-retry": advice}, body("api_error")).retryable


def test_the_request_id_of_the_header_comes_before_that_of_the_body() -> None:
    assert "req_header" == WIRE.error(500, {"request-id": "req_header"}, body("api_error")).request_id
    assert "req_body" == WIRE.error(500, {}, body("api_error")).request_id


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("<html>\n  <h1>Bad gateway</h1>", "<html> <h1>Bad gateway</h1>"),
        ("", "it says nothing more"),
        (None, "it says nothing more"),
        ([], "it says nothing more"),
        ({"error": "plain"}, "plain"),
        ({"error": {"message": ["odd"]}}, "it says nothing more"),
        ({"error": {"message": "x" * 400}}, "x" * 300 + "…"),
    ],
)
def test_any_body_makes_an_error(data: Any, said: str) -> None:
    assert f"the server failed: {said}" == WIRE.error(502, {}, data).reason


def test_a_key_in_a_message_is_not_repeated() -> None:
    key = "sk-" + "a" * 30
    assert key not in str(WIRE.error(401, {}, body("authentication_error", f"invalid key {key}")))


def test_an_error_carries_the_wait() -> None:
    assert 7.0 == WIRE.error(429, {"retry-after": "7"}, body("rate_limit_error")).retry_after
