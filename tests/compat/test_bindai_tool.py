"""What BindAI's page "Tool Results" says of tools, statement by statement."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.compat.samples import Sample, call, echo, returns

import bindai_core.context
import bindai_core.executable
import bindai_tool
import ferrule
from bindai_core.context import ExecutionContext, Variables
from bindai_tool import FunctionTool, Tool, ToolDefinition, ToolRegistry, ToolResult, tool

# -- Tool Implementations --------------------------------------------------------------------------------------------


@pytest.mark.seed("BND-11")
def test_a_class_with_the_four_members_is_a_working_tool() -> None:
    class Double(Tool):
        @property
        def name(self) -> str:
            return "double"

        @property
        def description(self) -> str:
            return "Double a number."

        @property
        def definition(self) -> ToolDefinition:
            return ToolDefinition("double", "Double a number.", {"n": {"type": "integer", "required": True}})

        def execute(self, context: ExecutionContext[Any]) -> ToolResult:
            return ToolResult.ok(2 * context.variables["n"])

    double = Double()

    assert (double.name, double.description) == ("double", "Double a number.")
    assert double.execute(ExecutionContext(variables={"n": 4})) == ToolResult.ok(8)
    assert call(double, {"n": 4}) == ToolResult.ok(8)
    refused = call(double, {})
    assert refused.failure is not None
    assert refused.failure.code == "invalid_arguments"


@pytest.mark.seed("BND-11")
def test_an_async_execute_is_awaited_by_the_checked_call() -> None:
    async def body(context: Any) -> ToolResult:
        await asyncio.sleep(0)
        return ToolResult.ok("done")

    assert call(Sample(body)) == ToolResult.ok("done")


@pytest.mark.seed("BND-12")
@pytest.mark.parametrize("missing", ["name", "description", "execute"])
def test_a_class_that_lacks_a_member_is_refused_by_its_name(missing: str) -> None:
    members: dict[str, Any] = {
        "name": property(lambda self: "t"),  # pyright: ignore[reportUnknownLambdaType]
        "description": property(lambda self: "T."),  # pyright: ignore[reportUnknownLambdaType]
        "execute": lambda self, context: None,  # pyright: ignore[reportUnknownLambdaType]
    }
    del members[missing]
    incomplete: Any = type("Incomplete", (Tool,), members)

    with pytest.raises(TypeError, match=rf"Incomplete.*\b{missing}\b"):
        incomplete()


@pytest.mark.seed("BND-13")
@pytest.mark.parametrize("result", [ToolResult.ok("done"), ToolResult.failed("The operation could not be completed.")])
def test_the_checked_call_hands_a_returned_result_on_as_it_is(result: ToolResult) -> None:
    sample = Sample(returns(result))

    assert sample.execute(ExecutionContext()) is result
    assert call(sample) is result


# -- Complete Example ------------------------------------------------------------------------------------------------


def multiply(context: Any) -> ToolResult:
    try:
        return ToolResult.ok(context.variables.get("a") * context.variables.get("b"))
    except Exception as exc:
        return ToolResult.failed(str(exc))


@pytest.mark.seed("BND-60", "BND-62")
def test_multiplying_6_by_7_gives_the_result_of_ok_42() -> None:
    expected = ToolResult(success=True, value=42, error=None)

    assert Sample(multiply).execute(ExecutionContext(variables={"a": 6, "b": 7})) == expected == ToolResult.ok(42)
    assert call(Sample(multiply), {"a": 6, "b": 7}) == expected


@pytest.mark.seed("BND-61", "BND-62")
def test_multiplying_nothing_fails_with_a_text() -> None:
    result = Sample(multiply).execute(ExecutionContext())

    assert (result.success, result.value) == (False, None)
    assert "NoneType" in result.error


@pytest.mark.seed("BND-63")
def test_tools_of_every_making_return_the_same_contract() -> None:
    def plain_function(text: str) -> str:
        """Repeat a text."""
        return text

    registry = ToolRegistry()
    registry.register(plain_function)
    registry.register(echo)
    registry.register(Sample(lambda context: ToolResult.ok(context.variables["text"])))
    registry.register(ferrule.tool(name="ferrules")(plain_function))

    assert [t.name for t in registry.all()] == ["plain_function", "echo", "sample", "ferrules"]
    for item in registry.all():
        assert call(item, {"text": "hi"}) == ToolResult.ok("hi")
        assert registry.execute(item.name, text="hi") == ToolResult.ok("hi")


# -- The package -----------------------------------------------------------------------------------------------------


@pytest.mark.seed("BND-64")
def test_the_names_of_the_packages_are_there() -> None:
    assert [name for name in bindai_tool.__all__ if not hasattr(bindai_tool, name)] == []
    assert bindai_core.context.__all__ == ["ExecutionContext", "Variables"]
    assert bindai_core.executable.__all__ == ["ExecutionResult"]
    assert ToolDefinition("t", "T.", {"n": {"type": "integer"}}).parameters == {"n": {"type": "integer"}}


@pytest.mark.seed("BND-64")
def test_a_context_begins_with_variables_that_behave_like_a_dictionary() -> None:
    variables = ExecutionContext[Any]().variables
    variables.set("a", 1)
    variables.update({"b": 2})
    variables["c"] = 3
    variables.remove("b")

    assert isinstance(variables, Variables)
    assert (variables.get("a"), variables["c"], variables.get("b", 0), len(variables)) == (1, 3, 0, 2)
    assert (list(variables), variables.as_dict()) == (["a", "c"], {"a": 1, "c": 3})
    assert ("a" in variables, variables.contains("b")) == (True, False)
    variables.clear()
    assert len(variables) == 0


@pytest.mark.seed("BND-64")
def test_a_registry_gains_and_loses_tools() -> None:
    registry = ToolRegistry()
    registry.register(echo)

    assert registry.get("echo") is echo
    assert (len(registry), registry.contains("echo"), registry.contains("other")) == (1, True, False)
    assert registry.definitions() == [ToolDefinition("echo", "Repeat a text.", echo.definition.parameters)]
    with pytest.raises(ferrule.ToolNameError, match="two tools are named 'echo'"):
        registry.register(echo)
    with pytest.raises(KeyError, match="There is no tool 'other'"):
        registry.get("other")
    with pytest.raises(ferrule.ToolDefinitionError, match="int is neither a tool nor a function"):
        registry.register(5)  # pyright: ignore[reportArgumentType]
    registry.remove("echo")
    assert registry.all() == []
    registry.register(echo)
    registry.clear()
    assert len(registry) == 0


@pytest.mark.seed("BND-64")
def test_tool_makes_function_tools_bare_and_with_a_name() -> None:
    @tool()
    def first(n: int) -> int:
        """Count on."""
        return n + 1

    @tool(name="renamed", effect="read")
    def second(n: int) -> int:
        """Count on."""
        return n + 1

    for made, name in ((first, "first"), (second, "renamed"), (FunctionTool(lambda: 1, "third", "Third."), "third")):
        assert isinstance(made, Tool)
        assert isinstance(made, ferrule.FunctionTool)
        assert made.name == name
    assert second.effect == "read"


@pytest.mark.seed("BND-65")
def test_a_function_tool_called_with_arguments_gives_a_result() -> None:
    @tool
    def power(base: int, exponent: int = 2) -> int:
        """Raise a number."""
        return base**exponent

    assert power(3) == power(3, 2) == power(base=3, exponent=2) == ToolResult.ok(9)
    failed = power()
    assert failed.success is False
    assert "base" in failed.error
    assert power(1, 2, 3).error == "power takes 2 arguments, but 3 were given."


@pytest.mark.seed("BND-65")
def test_a_raising_function_gives_a_failed_result() -> None:
    @tool
    def broken(n: int) -> int:
        """Divide by zero."""
        return n // 0

    assert broken(1).error == "ZeroDivisionError: integer division or modulo by zero"
    assert broken(1) == call(broken, {"n": 1})


@pytest.mark.seed("BND-65")
def test_a_coroutine_is_awaited_without_and_with_a_running_loop() -> None:
    @tool
    async def double(n: int) -> int:
        """Double a number."""
        await asyncio.sleep(0)
        if n < 0:
            raise ValueError("negative")
        return 2 * n

    async def inside() -> list[Any]:
        return [await double(4), await double(-1), await double.execute(ExecutionContext(variables={"n": 5}))]

    assert double(4) == ToolResult.ok(8)
    assert double(-1).error == "ValueError: negative"
    assert call(double, {"n": 4}) == ToolResult.ok(8)
    results = asyncio.run(inside())
    assert [result.value for result in results] == [8, None, 10]
    assert results[1].error == "ValueError: negative"


@pytest.mark.seed("BND-65")
@pytest.mark.parametrize("result", [ToolResult.ok(1), ToolResult.failed("no"), ferrule.ToolResult.ok(1)])
def test_a_returned_result_is_kept(result: Any) -> None:
    made = FunctionTool(lambda: result, "made", "Return a result.")

    assert made() is result
    assert made.execute(ExecutionContext()) is result
    assert call(made) is result


@pytest.mark.seed("BND-65")
def test_a_function_that_asks_for_the_context_gets_it_in_a_direct_call() -> None:
    @tool
    def seen(context: ferrule.Context[Any], n: int) -> list[str]:
        """List the variables."""
        return sorted(context.variables)

    assert seen(1) == ToolResult.ok(["n"])


@pytest.mark.seed("BND-65")
def test_arguments_of_execute_become_variables() -> None:
    context = ExecutionContext[Any]()

    assert echo.execute(context, text="hi") == ToolResult.ok("hi")
    assert context.variables["text"] == "hi"
