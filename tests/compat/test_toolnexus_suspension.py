"""What toolnexus' page "ToolResult" says of suspension, statement by statement."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compat.samples import call, tool_that_returns

import toolnexus
from toolnexus import Answer, Request, ToolResult, auth_required, define_tool, pending, pending_of


@pytest.mark.seed("TNX-18")
def test_pending_puts_a_request_under_the_reserved_key() -> None:
    result = pending(kind="input", prompt="Which environment?", id="req_7", data={"choices": ["dev", "prod"]})
    request = Request("req_7", "input", "Which environment?", data={"choices": ["dev", "prod"]})

    assert isinstance(result, ToolResult)
    assert result.metadata == {"pending": request}
    assert result.output == "Which environment?"


@pytest.mark.seed("TNX-19")
def test_a_suspended_result_is_an_error_and_no_success() -> None:
    result = pending(kind="input", prompt="Which environment?")

    assert (result.is_error, result.success, result.value) == (True, False, None)


@pytest.mark.seed("TNX-20")
def test_pending_of_gives_every_field_back() -> None:
    given: dict[str, Any] = {
        "id": "req_1",
        "kind": "approval",
        "prompt": "Deploy?",
        "url": "https://example.com/deploy",
        "data": {"tool": "deploy"},
        "expiresAt": "2030-05-01T12:00:00Z",
    }

    request = pending_of(pending(**given))

    assert request == Request(**given)
    assert request is not None
    assert request.to_dict() == given


@pytest.mark.seed("TNX-21")
def test_a_request_without_an_id_gets_another_each_time() -> None:
    requests = [pending_of(pending(kind="input", prompt="Which?")) for _ in range(100)]
    ids = {request.id for request in requests if request is not None}

    assert len(ids) == 100
    assert all(ids)


@pytest.mark.seed("TNX-22")
def test_a_required_sign_in_carries_its_url_for_code_and_reader() -> None:
    result = auth_required("https://example.com/login", "Sign in first.")
    request = pending_of(result)

    assert request is not None
    assert (request.kind, request.url, request.prompt) == (
        "authorization",
        "https://example.com/login",
        "Sign in first.",
    )
    assert result.output == "Sign in first.\nhttps://example.com/login"
    assert result.status == "suspended"


@pytest.mark.seed("TNX-23")
@pytest.mark.parametrize("metadata", [None, {}, {"title": "t"}, {"pending": None}])
@pytest.mark.parametrize("is_error", [False, True])
def test_an_ordinary_result_has_no_suspension(metadata: dict[str, Any] | None, is_error: bool) -> None:
    result = ToolResult("done", is_error, metadata)

    assert pending_of(result) is None
    assert result.status == ("failed" if is_error else "done")


@pytest.mark.seed("TNX-24")
@pytest.mark.parametrize("is_error", [False, True])
def test_a_request_put_there_by_hand_suspends_like_a_built_one(is_error: bool) -> None:
    built = pending(kind="input", prompt="Which?", id="req_1")
    request = Request("req_1", "input", "Which?")

    for by_hand in (request, request.to_dict()):
        result = call(tool_that_returns(ToolResult("Which?", is_error, {"pending": by_hand})))
        assert result == built
        assert pending_of(result) == request


@pytest.mark.seed("TNX-25")
def test_a_tool_that_suspends_has_neither_finished_nor_failed() -> None:
    @define_tool
    def deploy() -> ToolResult:
        return pending(kind="approval", prompt="Deploy?", id="req_1")

    result = call(deploy)

    assert (result.status, result.error, result.failure) == ("suspended", None, None)
    assert result.pending == Request("req_1", "approval", "Deploy?")


@pytest.mark.seed("TNX-25")
def test_answers_are_made_in_one_spelling() -> None:
    assert toolnexus.answer_output("req_1", "blue") == Answer("req_1", True, {"output": "blue"})
    assert toolnexus.answer_declined("req_1") == Answer("req_1", False, reason="declined")
    assert toolnexus.answer_declined("req_1", "expired").reason == "expired"
    with pytest.raises(TypeError, match="must be str, not dict"):
        toolnexus.answer_output("req_1", {})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="unknown reason 'bored'"):
        toolnexus.answer_declined("req_1", "bored")
