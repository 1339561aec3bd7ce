"""The programs of BindAI's page "Tool Results", as printed there; each test states what its program gives."""

# The programs are unannotated where the page is.
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bindai_core.context import ExecutionContext
from bindai_tool import Tool, ToolResult


class ExampleTool(Tool):
    @property
    def name(self) -> str:
        return "example"

    @property
    def description(self) -> str:
        return "Example BindAI tool."

    @property
    def definition(self): ...

    def execute(self, context) -> ToolResult:
        return ToolResult.ok("done")


class MultiplyTool(Tool):
    @property
    def name(self) -> str:
        return "multiply"

    @property
    def description(self) -> str:
        return "Multiply two integers."

    @property
    def definition(self): ...

    def execute(self, context) -> ToolResult:
        try:
            a = context.variables.get("a")
            b = context.variables.get("b")

            return ToolResult.ok(a * b)

        except Exception as exc:
            return ToolResult.failed(str(exc))


def show(result: ToolResult) -> None:
    """The page's way to handle a result."""
    if result.success:
        print(result.value)
    else:
        print(result.error)


@pytest.mark.seed("BND-06", "BND-07", "BND-09")
def test_the_results_that_the_page_creates_are_those_it_says_they_are() -> None:
    result = ToolResult.ok(20)
    assert result == ToolResult(
        success=True,
        value=20,
        error=None,
    )

    result = ToolResult.ok()
    assert result == ToolResult(
        success=True,
        value=None,
        error=None,
    )

    result = ToolResult.failed("Unable to retrieve the requested data.")
    assert result == ToolResult(
        success=False,
        value=None,
        error="Unable to retrieve the requested data.",
    )


@pytest.mark.seed("BND-10", "BND-24")
def test_a_caught_exception_becomes_a_failed_result_with_its_text() -> None:
    try:
        raise LookupError("no such city")
    except Exception as exc:
        result = ToolResult.failed(str(exc))

    assert result == ToolResult(success=False, error="no such city")


@pytest.mark.seed("BND-11", "BND-13")
def test_the_example_tool_works_directly_and_through_the_checked_call() -> None:
    tool = ExampleTool()

    assert tool.execute(ExecutionContext()) == ToolResult.ok("done")
    assert asyncio.run(tool.call({})) == ToolResult.ok("done")
    assert asyncio.run(tool.call({"anything": [1, 2]})) == ToolResult.ok("done")


@pytest.mark.seed("BND-14", "BND-15")
def test_the_pattern_for_checking_success_prints_value_or_error(capsys: pytest.CaptureFixture[str]) -> None:
    show(ToolResult.ok(49))
    show(ToolResult.failed("Operation failed."))

    assert capsys.readouterr().out == "49\nOperation failed.\n"


@pytest.mark.seed("BND-17", "BND-18", "BND-19", "BND-20")
@pytest.mark.parametrize(
    "value",
    ["Pong", 25, ["red", "green", "blue"], {"name": "Alice", "age": 28}],
)
def test_the_values_of_the_page_are_kept(value: object) -> None:
    result = ToolResult.ok(value)

    assert result.value is value
    assert result.error is None


@pytest.mark.seed("BND-22")
def test_a_success_without_a_value_and_a_failure_take_different_branches() -> None:
    branches: list[str] = []
    for result in (
        ToolResult(success=True, value=None, error=None),
        ToolResult(success=False, value=None, error="Operation failed."),
    ):
        if result.success:
            branches.append("successful execution")
        else:
            branches.append("failed execution")

    assert branches == ["successful execution", "failed execution"]


@pytest.mark.seed("BND-25")
@pytest.mark.parametrize(
    ("perform_operation", "expected"),
    [(lambda: 7, ToolResult.ok(7)), (lambda: {}["missing"], ToolResult.failed("'missing'"))],
)
def test_a_tool_that_converts_its_own_exceptions_gives_its_own_text(
    perform_operation: Callable[[], Any], expected: ToolResult
) -> None:
    class Operating(ExampleTool):
        def execute(self, context) -> ToolResult:
            try:
                value = perform_operation()

                return ToolResult.ok(value)

            except Exception as exc:
                return ToolResult.failed(str(exc))

    assert Operating().execute(ExecutionContext()) == expected
    assert asyncio.run(Operating().call({})) == expected


@pytest.mark.seed("BND-37", "BND-38")
def test_the_constructions_of_the_webhook_tool_work() -> None:
    result: dict[str, Any] = {"status": 200}
    exc = OSError("connection refused")

    done = ToolResult(
        success=True,
        output=result,
        value=result,
    )
    failed = ToolResult(
        success=False,
        output=None,
        value=None,
        error=str(exc),
    )

    assert done == ToolResult.ok({"status": 200})
    assert failed == ToolResult.failed("connection refused")


@pytest.mark.seed("BND-48")
def test_the_example_of_the_current_api_holds() -> None:
    success = ToolResult.ok(42)

    failure = ToolResult.failed("Something went wrong.")

    assert success.success is True
    assert success.value == 42
    assert failure.success is False
    assert failure.error == "Something went wrong."


@pytest.mark.seed("BND-51")
def test_the_customer_is_read_by_key() -> None:
    result = ToolResult.ok(
        {
            "id": 42,
            "name": "Alice",
            "active": True,
        }
    )

    assert result.value == {"id": 42, "name": "Alice", "active": True}
    assert result.value["name"] == "Alice"


@pytest.mark.seed("BND-55")
def test_the_test_of_a_successful_result_passes() -> None:
    result = ToolResult.ok(20)

    assert result.success is True
    assert result.value == 20
    assert result.error is None


@pytest.mark.seed("BND-56")
def test_the_test_of_a_failed_result_passes() -> None:
    result = ToolResult.failed("Invalid input.")

    assert result.success is False
    assert result.value is None
    assert result.error == "Invalid input."


@pytest.mark.seed("BND-57")
def test_the_test_of_a_success_without_a_value_passes() -> None:
    result = ToolResult.ok()

    assert result.success is True
    assert result.value is None


@pytest.mark.seed("BND-60", "BND-62")
def test_the_multiply_tool_returns_42_for_6_and_7(capsys: pytest.CaptureFixture[str]) -> None:
    tool = MultiplyTool()
    context = ExecutionContext()
    context.variables.set("a", 6)
    context.variables.set("b", 7)

    result = tool.execute(context)
    show(result)

    assert result == ToolResult(success=True, value=42, error=None)
    assert asyncio.run(tool.call({"a": 6, "b": 7})) == result
    assert capsys.readouterr().out == "42\n"


@pytest.mark.seed("BND-61", "BND-62")
def test_the_multiply_tool_without_its_variables_fails(capsys: pytest.CaptureFixture[str]) -> None:
    tool = MultiplyTool()

    result = tool.execute(ExecutionContext())
    show(result)

    assert (result.success, result.value) == (False, None)
    assert result.error
    assert asyncio.run(tool.call({})) == result
    assert capsys.readouterr().out == f"{result.error}\n"


@pytest.mark.seed("BND-62")
def test_a_direct_execution_takes_any_context_with_variables() -> None:
    context = SimpleNamespace(variables={"a": 6, "b": 7})

    assert MultiplyTool().execute(context) == ToolResult.ok(42)
