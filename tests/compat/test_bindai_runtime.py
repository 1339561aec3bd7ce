"""What BindAI's page "Tool Results" says of failures, workflows and the boundary, statement by statement."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.error import URLError

import pytest
from tests.compat.samples import KEY, Address, Sample, call, echo, raises, returns

import ferrule
from bindai_core.context import ExecutionContext, Variables
from bindai_tool import ToolResult, tool

# -- failures and exceptions -----------------------------------------------------------------------------------------


@pytest.mark.seed("BND-23")
def test_an_explicit_failure_reads_the_same_from_every_kind_of_tool() -> None:
    @tool
    def find(customer: str) -> ToolResult:
        """Find a customer."""
        return ToolResult.failed("Customer could not be found.")

    for result in (call(Sample(returns(ToolResult.failed("Customer could not be found.")))), find("Bob")):
        assert (result.success, result.error) == (False, "Customer could not be found.")


@pytest.mark.seed("BND-24")
def test_a_tool_that_reports_its_own_exception_gives_exactly_its_text() -> None:
    def body(context: Any) -> ToolResult:
        try:
            return ToolResult.ok(1 // context.variables["n"])
        except ZeroDivisionError as exc:
            return ToolResult.failed(f"cannot divide: {exc}")

    assert call(Sample(body), {"n": 0}).error == "cannot divide: integer division or modulo by zero"
    assert call(Sample(body), {"n": 1}) == ToolResult.ok(1)


@pytest.mark.seed("BND-25")
def test_what_escapes_execute_is_raised_directly_and_a_failed_result_in_the_checked_call() -> None:
    sample = Sample(raises(LookupError("no such customer")))

    with pytest.raises(LookupError, match="no such customer"):
        sample.execute(ExecutionContext())
    result = call(sample)
    assert (result.success, result.error) == (False, "LookupError: no such customer")
    assert result.failure is not None
    assert (result.failure.code, result.failure.type) == ("exception", "LookupError")


@pytest.mark.seed("BND-26")
@pytest.mark.parametrize(
    "message",
    [
        f"404 for https://example.com/v1?api_key={KEY}&page=2",
        f"404 for https://example.com/v1?page=2&token={KEY}",
        f"cannot connect to postgresql://app:{KEY}@db.example.com/main",
        f"refused: Authorization: Bearer {KEY}",
    ],
)
def test_credentials_in_an_exception_do_not_reach_the_error(message: str) -> None:
    for result in (call(Sample(raises(RuntimeError(message)))), ToolResult.failed(RuntimeError(message))):
        assert result.error is not None
        assert result.error.startswith("RuntimeError: ")
        assert "[redacted]" in result.error
        assert KEY not in repr(result) + str(ferrule.typed(result))


@pytest.mark.seed("BND-26")
def test_what_stands_beside_a_credential_in_an_exception_stays() -> None:
    result = ToolResult.failed(RuntimeError(f"404 for https://example.com/v1?api_key={KEY}&page=2"))

    assert result.error == "RuntimeError: 404 for https://example.com/v1?api_key=[redacted]&page=2"


# -- workflows -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("BND-27")
def test_a_class_tool_fed_from_variables_gives_a_result_fit_to_be_kept() -> None:
    def divide(context: Any) -> ToolResult:
        if context.variables.get("by") == 0:
            return ToolResult.failed("division by zero")
        return ToolResult.ok(context.variables["n"] // context.variables["by"])

    state = Variables({"n": 6, "by": 3})
    kept = call(Sample(divide), {}, ExecutionContext(variables=state))
    state.set("result", kept)
    state.set("by", 0)
    state.set("error", call(Sample(divide), {}, ExecutionContext(variables=state)))

    assert state["result"] == ToolResult.ok(2)
    assert state["error"] == ToolResult.failed("division by zero")


@pytest.mark.seed("BND-28")
def test_a_later_step_reads_value_or_error_of_what_was_stored() -> None:
    def later(context: Any) -> ToolResult:
        stored = context.variables["stored"]
        return ToolResult.ok(f"got {stored.value['count']}" if stored.success else f"sorry: {stored.error}")

    texts: list[Any] = []
    for stored in (ToolResult.ok({"status": "ok", "count": 3}), ToolResult.failed("down")):
        texts.append(call(Sample(later), {}, ExecutionContext(variables={"stored": stored})).value)

    assert texts == ["got 3", "sorry: down"]


@pytest.mark.seed("BND-29")
def test_variables_keep_the_result_object_itself() -> None:
    result = ToolResult(success=True, value={"status": "ok", "count": 3})
    variables = Variables()
    variables.set("tool_output", result)

    assert variables.get("tool_output") is result
    assert variables.copy()["tool_output"] is result
    assert isinstance(variables.as_dict()["tool_output"], ToolResult)


@pytest.mark.seed("BND-30")
@pytest.mark.parametrize(
    "result",
    [
        ToolResult(success=True, value={"status": "ok", "count": 3}),
        ToolResult.ok((1, {2}, b"\x00", Decimal("1.5"), dt.date(2026, 5, 1))),
        ToolResult.ok(None),
        ToolResult(success=True, value=[1], output="one"),
        ToolResult.failed("down"),
    ],
)
def test_variables_restored_from_typed_json_hold_an_equal_result(result: ToolResult) -> None:
    stored = ferrule.typed(Variables({"tool_output": result}).as_dict())
    restored = Variables(ferrule.restore(stored))

    assert restored["tool_output"] == result
    assert isinstance(restored["tool_output"], ToolResult)
    assert type(restored["tool_output"].value) is type(result.value)


@pytest.mark.seed("BND-31", "BND-35")
def test_a_mapping_fills_a_tools_parameters_from_variables() -> None:
    variables = Variables({"input": "hello", "other": 1})
    mapping = {"text": "input"}
    mapped = {parameter: variables[name] for parameter, name in mapping.items()}

    assert echo.execute(ExecutionContext(variables=mapped)) == ToolResult.ok("hello")
    assert call(echo, mapped) == ToolResult.ok("hello")


@pytest.mark.seed("BND-32")
def test_a_function_tool_is_passed_only_its_own_parameters() -> None:
    context = ExecutionContext(variables={"text": "hello", "input": "?", "n": 4, "secret": KEY})

    assert echo.execute(context) == ToolResult.ok("hello")
    assert call(echo, {"text": "hello"}, context) == ToolResult.ok("hello")


@pytest.mark.seed("BND-33", "BND-28")
def test_a_result_is_found_under_the_variable_it_was_kept_in() -> None:
    context = ExecutionContext(variables={"text": "hello"})
    context.variables["tool_output"] = echo.execute(context)

    def shout(context: Any) -> ToolResult:
        return ToolResult.ok(context.variables["tool_output"].value.upper())

    assert context.variables.contains("tool_output")
    assert call(Sample(shout), {}, context) == ToolResult.ok("HELLO")


@pytest.mark.seed("BND-34")
def test_a_result_carries_none_of_the_inputs_and_leaves_the_variables_alone() -> None:
    @tool
    def size(text: str) -> int:
        """Count characters."""
        return len(text)

    context = ExecutionContext(variables={"text": "a secret text", "n": 1})
    results = [size.execute(context), call(size, {"text": "a secret text"}, context)]

    assert results == [ToolResult.ok(13), ToolResult.ok(13)]
    assert "secret" not in str(ferrule.typed(results))
    assert context.variables.as_dict() == {"text": "a secret text", "n": 1}


@pytest.mark.seed("BND-35")
def test_input_is_a_variable_like_any_other() -> None:
    variables = Variables({"input": {"a": 1}})

    assert variables.get("input") == variables["input"] == {"a": 1}
    assert list(variables) == ["input"]
    assert call(Sample(lambda c: ToolResult.ok(c.variables["input"])), {"input": 5}) == ToolResult.ok(5)


@pytest.mark.seed("BND-36")
@pytest.mark.parametrize("name", ["messages", "usage", "text", "steps", "tool_calls", "response"])
def test_a_tool_result_makes_no_claim_to_an_agent_results_fields(name: str) -> None:
    assert not hasattr(ToolResult.ok("done"), name)


# -- connection-backed tools -----------------------------------------------------------------------------------------


@pytest.mark.seed("BND-37")
@pytest.mark.parametrize(
    ("given", "value", "text"),
    [
        ({"output": {"status": 200}, "value": {"status": 200}}, {"status": 200}, '{"status":200}'),
        ({"output": {"status": 200}}, {"status": 200}, '{"status":200}'),
        ({"output": "sent"}, "sent", "sent"),
        ({"value": [1, 2], "output": "two numbers"}, [1, 2], "two numbers"),
        ({"value": 0, "output": None}, 0, "0"),
        ({"value": None, "output": None}, None, ""),
    ],
)
def test_output_fills_a_missing_value_and_is_always_text(given: dict[str, Any], value: object, text: str) -> None:
    result = ToolResult(success=True, **given)

    assert (result.success, result.value, result.output) == (True, value, text)


@pytest.mark.seed("BND-37")
def test_output_is_taken_by_name_only() -> None:
    with pytest.raises(TypeError):
        ToolResult(True, 1, None, "text")  # pyright: ignore[reportCallIssue]


@pytest.mark.seed("BND-38")
def test_the_long_form_of_a_failure_equals_the_short_one() -> None:
    long_form = ToolResult(success=False, output=None, value=None, error="connection refused")

    assert long_form == ToolResult.failed("connection refused") == ferrule.ToolResult.failed("connection refused")
    assert long_form == ferrule.ToolResult("connection refused", True)


def webhook(fails: bool) -> Callable[[Any], ToolResult]:
    """Stand in for a tool that posts to a URL with a key, using a header with another."""

    def post(context: Any) -> ToolResult:
        try:
            if fails:
                raise URLError(f"POST https://example.com/hook?token={KEY} failed, sent Authorization: Bearer {KEY}")
            result = {"status": 200}
        except OSError as exc:
            return ToolResult(success=False, output=None, value=None, error=exc)
        return ToolResult(success=True, output=result, value=result)

    return post


@pytest.mark.seed("BND-39")
def test_a_failed_webhook_names_the_failure_without_credentials() -> None:
    result = call(Sample(webhook(fails=True)))

    assert result.success is False
    assert result.error is not None
    assert "POST https://example.com/hook?token=[redacted] failed" in result.error
    assert KEY not in repr(result) + str(ferrule.plain(result)) + str(ferrule.typed(result))


@pytest.mark.seed("BND-40")
def test_a_function_and_a_tool_that_calls_a_service_return_the_same_type() -> None:
    results = [call(echo, {"text": "hi"}), call(Sample(webhook(fails=False))), call(Sample(webhook(fails=True)))]

    assert [isinstance(result, ToolResult) for result in results] == [True] * 3
    assert results[1] == ToolResult.ok({"status": 200})


# -- Studio API Representation ---------------------------------------------------------------------------------------


@pytest.mark.seed("BND-41")
@pytest.mark.parametrize("value", [{"status": 200}, [1, "a"], "text", 0, False, None])
def test_the_json_form_of_a_done_result_is_its_bare_value(value: object) -> None:
    assert ferrule.plain(ToolResult(success=True, value=value)) == value


@pytest.mark.seed("BND-42")
def test_the_json_form_of_a_failed_result_says_so_and_no_more() -> None:
    result = ToolResult(success=False, error="Webhook request failed")

    assert ferrule.plain(result) == {"success": False, "error": "Webhook request failed"}


@pytest.mark.seed("BND-43")
def test_rich_values_and_nested_results_come_out_as_json() -> None:
    variables = Variables(
        {
            "order": ToolResult.ok({"total": Decimal("9.90"), "day": dt.date(2026, 5, 1), "rate": float("nan")}),
            "steps": [ToolResult.failed("down"), ToolResult.ok(ToolResult.ok({"n": {3}}))],
        }
    )

    assert ferrule.plain(variables.as_dict()) == {
        "order": {"total": "9.90", "day": "2026-05-01", "rate": None},
        "steps": [{"success": False, "error": "down"}, {"n": [3]}],
    }


@pytest.mark.seed("BND-44")
def test_converting_leaves_the_result_as_it_was() -> None:
    result = ToolResult.ok({"status": 200})
    variables = Variables({"tool_output": result})

    assert ferrule.plain(variables.as_dict()) == {"tool_output": {"status": 200}}
    assert variables["tool_output"] is result
    assert result == ToolResult.ok({"status": 200})
    assert call(Sample(lambda _: variables["tool_output"])) is result


# -- Predictable Tool Values, Error Messages, Best Practices ---------------------------------------------------------


@pytest.mark.seed("BND-51")
def test_a_dictionary_keeps_its_shape_through_the_checked_call() -> None:
    value: dict[str, Any] = {"id": 42, "name": "Alice", "active": True, "tags": ("a", "b")}
    result = call(Sample(returns(ToolResult.ok(value))))

    assert result.value["name"] == "Alice"
    assert result.value["tags"] == ("a", "b")
    assert list(result.value) == ["id", "name", "active", "tags"]


@pytest.mark.seed("BND-52")
@pytest.mark.parametrize("message", ["Unable to retrieve the customer.", 'Naïve façade: 3 < 4 & "5" {x}\n\tline two'])
def test_a_harmless_message_is_passed_on_word_for_word(message: str) -> None:
    result = call(Sample(returns(ToolResult.failed(message))))

    assert (result.error, result.output) == (message, message)


@pytest.mark.seed("BND-53")
@pytest.mark.parametrize(
    "body", [returns(ToolResult.failed("down")), raises(RuntimeError(f"down?key={KEY}")), raises(ValueError())]
)
def test_error_model_text_and_json_form_agree(body: Callable[[Any], Any]) -> None:
    result = call(Sample(body))

    assert result.error
    assert result.output == result.error
    assert ferrule.plain(result) == {"success": False, "error": result.error}


@pytest.mark.seed("BND-54")
@pytest.mark.parametrize(
    "message",
    [
        f"request with X-Api-Key: {KEY} was refused",
        f"{{'access_token': '{KEY}'}} has expired",
        f"login failed, password={KEY}",
        f"Authorization: Basic {KEY} was refused",
        f"cannot connect to amqp://app:{KEY}@mq.example.com/",
        f"GET https://example.com/?signature={KEY}",
    ],
)
def test_every_kind_of_credential_in_an_exception_is_masked(message: str) -> None:
    for error in (ConnectionError(message), ExceptionGroup("all", [ValueError("a"), ValueError(message)])):
        result = call(Sample(raises(error)))
        assert result.error is not None
        assert KEY not in result.error
        assert "[redacted]" in result.error


@pytest.mark.seed("BND-55", "BND-56", "BND-57")
def test_ferrule_made_results_pass_the_tests_of_the_page_too() -> None:
    done, failed, nothing = (
        ferrule.ToolResult.ok(20),
        ferrule.ToolResult.failed("Invalid input."),
        ferrule.ToolResult.ok(),
    )

    assert (done.success, done.value, done.error) == (True, 20, None)
    assert (failed.success, failed.value, failed.error) == (False, None, "Invalid input.")
    assert (nothing.success, nothing.value) == (True, None)


@pytest.mark.seed("BND-58")
def test_value_and_error_never_mix() -> None:
    done = ToolResult(success=True, value=1, error="ignored")
    failed = ToolResult(success=False, value=1, error="no")

    assert (done.value, done.error) == (1, None)
    assert done == ToolResult.ok(1)
    assert (failed.value, failed.error) == (None, "no")
    assert failed == ToolResult.failed("no")


@pytest.mark.seed("BND-59")
def test_a_stored_result_may_hold_what_json_does_not_know() -> None:
    address = Address("Oslo")
    variables = Variables({"tool_output": ToolResult.ok(address)})

    assert variables["tool_output"].value is address
    assert variables["tool_output"].value.city == "Oslo"
