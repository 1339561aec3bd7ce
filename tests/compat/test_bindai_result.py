"""What BindAI's page "Tool Results" says of results, statement by statement."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib.util
import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.compat.samples import Address, Sample, call, returns

import bindai_tool
import ferrule
from bindai_core.executable import ExecutionResult
from bindai_tool import ToolResult

# -- Tool Results, ToolResult ----------------------------------------------------------------------------------------


@pytest.mark.seed("BND-01", "BND-05")
def test_a_result_records_success_value_and_error() -> None:
    done = ToolResult(True, 20)
    failed = ToolResult(False, None, "Not found.")

    assert (done.success, done.value, done.error) == (True, 20, None)
    assert (failed.success, failed.value, failed.error) == (False, None, "Not found.")
    assert failed.failure == ferrule.Failure("refused")


@pytest.mark.seed("BND-02")
def test_one_result_type_serves_both_packages() -> None:
    assert isinstance(ToolResult.ok(1), ferrule.ToolResult)
    assert isinstance(ToolResult(success=False), ferrule.ToolResult)
    assert isinstance(ferrule.ToolResult.ok(1), ToolResult)
    assert isinstance(ferrule.pending("input", "?"), ToolResult)
    assert issubclass(ferrule.ToolResult, ToolResult)
    assert not isinstance({"success": True, "value": 1, "error": None}, ToolResult)


@pytest.mark.seed("BND-02")
def test_a_subclass_counts_only_its_own_instances() -> None:
    class Mine(ToolResult):
        __slots__ = ()

    assert isinstance(Mine.ok(1), Mine)
    assert isinstance(Mine(True, 1), ToolResult)
    assert not isinstance(ferrule.ToolResult.ok(1), Mine)
    assert Mine.failed("no") == ToolResult.failed("no")


@pytest.mark.seed("BND-03", "BND-47")
def test_the_constructor_takes_success_value_and_error_in_that_order() -> None:
    parameters = list(inspect.signature(ToolResult).parameters.values())

    assert dataclasses.is_dataclass(ToolResult)
    assert [(p.name, p.default) for p in parameters[:3]] == [("success", None), ("value", None), ("error", None)]
    assert ToolResult(True) == ToolResult(success=True, value=None, error=None)
    assert ToolResult(False, None, "no") == ToolResult(error="no", success=False)


@pytest.mark.seed("BND-03")
@pytest.mark.parametrize(
    "given", [{}, {"value": 1}, {"success": "yes"}, {"success": 1}, {"success": True, "status": 1}]
)
def test_a_constructor_without_a_clear_success_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ferrule.UsageError, match="give success, True or False"):
        ToolResult(**given)


@pytest.mark.seed("BND-04")
@pytest.mark.parametrize("result", [ToolResult.ok(1), ferrule.ToolResult.ok(1)])
def test_a_result_has_slots_and_takes_no_further_attribute(result: Any) -> None:
    assert not hasattr(result, "__dict__")
    with pytest.raises((AttributeError, TypeError)):
        result.note = "x"
    assert not hasattr(result, "note")


# -- creating results ------------------------------------------------------------------------------------------------


@pytest.mark.seed("BND-06")
def test_ok_20_is_the_result_with_value_20() -> None:
    assert ToolResult.ok(20) == ToolResult(success=True, value=20, error=None) == ferrule.ToolResult.ok(20)
    assert ToolResult.ok(20) != ToolResult.ok(21)
    assert ToolResult.ok(20).output == "20"


@pytest.mark.seed("BND-07")
def test_ok_without_a_value_is_a_success_with_nothing_for_the_model() -> None:
    result = ToolResult.ok()

    assert result == ToolResult(success=True, value=None, error=None)
    assert (result.success, result.value, result.error, result.output) == (True, None, None, "")


@pytest.mark.seed("BND-08")
@pytest.mark.parametrize("value", [None, 0, "", False, [], {}, 0.0])
def test_falsy_values_are_successes(value: object) -> None:
    for result in (ToolResult.ok(value), ToolResult(True, value), call(Sample(returns(ToolResult.ok(value))))):
        assert result.success is True
        assert result.value == value
        assert type(result.value) is type(value)


@pytest.mark.seed("BND-09")
def test_failed_keeps_the_message_as_error() -> None:
    result = ToolResult.failed("Unable to retrieve the requested data.")

    assert (result.success, result.value, result.error) == (False, None, "Unable to retrieve the requested data.")
    assert result.output == result.error


@pytest.mark.seed("BND-10")
@pytest.mark.parametrize("message", ["", "  ", "\n"])
def test_an_empty_message_still_gives_an_error(message: str) -> None:
    for result in (ToolResult.failed(message), ToolResult(success=False, error=message), ToolResult(success=False)):
        assert result.success is False
        assert result.error == "refused"


@pytest.mark.seed("BND-10")
def test_the_text_of_an_exception_without_one_is_taken() -> None:
    assert ToolResult.failed(str(ValueError())).error == "refused"
    assert ToolResult.failed(str(ValueError("too small"))).error == "too small"
    assert ToolResult.failed(ValueError()).error == "ValueError"


# -- reading results -------------------------------------------------------------------------------------------------


@pytest.mark.seed("BND-14")
@pytest.mark.parametrize(
    ("result", "expected"), [(ToolResult.ok([1]), [1]), (ToolResult.failed("no"), "no"), (ToolResult.ok(None), None)]
)
def test_value_if_success_else_error_reads_every_result(result: ToolResult, expected: object) -> None:
    assert (result.value if result.success else result.error) == expected


@pytest.mark.seed("BND-15")
def test_the_value_of_ok_49_is_49() -> None:
    assert ToolResult.ok(49).value == 49


@pytest.mark.seed("BND-16")
def test_a_subclass_of_the_base_that_adds_more_leaves_value_alone() -> None:
    class Timed(ToolResult):
        __slots__ = ()

        @property
        def seconds(self) -> float:
            return 0.5

    result = Timed(True, 49)

    assert (result.value, result.seconds) == (49, 0.5)
    assert result == ToolResult.ok(49)


@pytest.mark.seed("BND-17")
def test_a_string_is_its_own_model_text() -> None:
    result = ToolResult.ok("Pong")

    assert (result.value, result.output) == ("Pong", "Pong")


@pytest.mark.seed("BND-18")
@pytest.mark.parametrize(
    ("value", "text"),
    [(25, "25"), (2.5, "2.5"), (2**80, "1208925819614629174706176"), (Decimal("0.10"), '"0.10"'), (True, "true")],
)
def test_a_number_keeps_its_type(value: object, text: str) -> None:
    result = ToolResult.ok(value)

    assert type(result.value) is type(value)
    assert result.value == value
    assert result.output == text


@pytest.mark.seed("BND-19")
def test_a_list_is_kept_as_the_list_it_was() -> None:
    colours = ["red", "green", "blue"]
    result = ToolResult.ok(colours)

    assert result.value is colours
    assert result.output == '["red","green","blue"]'


@pytest.mark.seed("BND-20")
def test_a_dictionary_is_kept_as_the_dictionary_it_was() -> None:
    alice = {"name": "Alice", "age": 28}
    result = ToolResult.ok(alice)

    assert result.value is alice
    assert result.output == '{"name":"Alice","age":28}'


@pytest.mark.seed("BND-21")
@pytest.mark.parametrize(
    "value", [Address("Oslo"), object(), {1, 2}, len, dt.date(2026, 5, 1), (x for x in "a"), Address]
)
def test_any_object_may_be_a_value(value: object) -> None:
    result = call(Sample(returns(ToolResult.ok(value))))

    assert result.success
    assert result.value is value
    assert isinstance(result.output, str)


@pytest.mark.seed("BND-22")
def test_nothing_and_a_failure_are_unequal_and_told_apart_by_success() -> None:
    nothing, failure = ToolResult.ok(), ToolResult(success=False, value=None, error="Operation failed.")

    assert (nothing.value, failure.value) == (None, None)
    assert nothing != failure
    assert (nothing.success, failure.success) == (True, False)


# -- ToolResult and ExecutionResult ----------------------------------------------------------------------------------


@pytest.mark.seed("BND-45")
def test_every_result_counts_as_an_execution_result() -> None:
    assert issubclass(ToolResult, ExecutionResult)
    assert isinstance(ToolResult.ok(1), ExecutionResult)
    assert isinstance(ferrule.ToolResult.failed("no"), ExecutionResult)
    assert not isinstance({"success": True}, ExecutionResult)


@pytest.mark.seed("BND-46")
@pytest.mark.parametrize("name", ["success", "value", "error", "output", "__dict__"])
def test_the_base_has_no_fields_of_its_own(name: str) -> None:
    class Other(ExecutionResult):
        __slots__ = ()

    assert ExecutionResult.__dict__["__slots__"] == ()
    assert not hasattr(Other(), name)
    assert not isinstance(Other(), ToolResult)


# -- Current API, and what is not part of it -------------------------------------------------------------------------


@pytest.mark.seed("BND-47")
def test_ok_and_failed_have_the_documented_parameters() -> None:
    def shown(function: Callable[..., Any]) -> list[tuple[str, Any]]:
        return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]

    assert shown(ToolResult.ok) == [("value", None)]
    assert shown(ToolResult.failed) == [("message", inspect.Parameter.empty)]


@pytest.mark.seed("BND-48")
def test_a_success_and_a_failure_have_the_documented_attributes() -> None:
    success, failure = ToolResult.ok(42), ToolResult.failed("Something went wrong.")

    assert (success.success, success.value, success.error) == (True, 42, None)
    assert (failure.success, failure.value, failure.error) == (False, None, "Something went wrong.")


@pytest.mark.seed("BND-49")
@pytest.mark.parametrize("name", ["ToolExecutor", "executor"])
def test_there_is_no_executor(name: str) -> None:
    assert not hasattr(bindai_tool, name)
    assert importlib.util.find_spec(f"bindai_tool.{name}") is None


@pytest.mark.seed("BND-50")
def test_ok_and_failed_are_the_only_helpers() -> None:
    members = dict(inspect.getmembers(ToolResult, inspect.ismethod))
    made = [name for name in members if not name.startswith("_")]

    assert made == ["failed", "ok"]
    assert bindai_tool.__all__ == ["FunctionTool", "Tool", "ToolDefinition", "ToolRegistry", "ToolResult", "tool"]


# -- The same result, and changed ones -------------------------------------------------------------------------------


@pytest.mark.seed("BND-66")
@pytest.mark.parametrize(
    "makings",
    [
        [ToolResult(True, 20), ToolResult.ok(20), ferrule.ToolResult.ok(20), ToolResult(success=True, output=20)],
        [ToolResult(True), ToolResult.ok(), ToolResult.ok(None), ferrule.ToolResult.ok()],
        [ToolResult(True, "a"), ToolResult.ok("a"), ferrule.ToolResult.ok("a"), ferrule.ToolResult("a", False)],
        [ToolResult(False, error="no"), ToolResult.failed("no"), ferrule.ToolResult.failed("no")],
    ],
)
def test_the_same_result_is_equal_however_it_was_made(makings: list[ferrule.ToolResult]) -> None:
    for one in makings:
        assert [one == other for other in makings] == [True] * len(makings)
        assert one != ToolResult.ok("another")


@pytest.mark.seed("BND-67")
@pytest.mark.parametrize("name", ["success", "value", "error", "output"])
def test_a_result_cannot_be_changed(name: str) -> None:
    result = ToolResult.ok(20)

    with pytest.raises((AttributeError, TypeError)):
        setattr(result, name, None)
    assert result == ToolResult.ok(20)


@pytest.mark.seed("BND-67")
def test_a_changed_copy_is_a_new_result() -> None:
    result = ToolResult.ok(20)
    changed = dataclasses.replace(result, value=21, output="21")

    assert changed == ToolResult.ok(21)
    assert type(changed) is ToolResult
    assert result == ToolResult.ok(20)


@pytest.mark.seed("BND-67")
def test_a_long_output_is_cut_in_a_copy() -> None:
    class Short(Sample):
        max_output = 200

    original = ToolResult.ok("x" * 1_000)
    result = call(Short(returns(original)))

    assert len(result.output) <= 200
    assert result.value == "x" * 1_000
    assert original.output == "x" * 1_000
