"""What toolnexus' page "ToolResult" says of results and tools, statement by statement."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from typing import Any

import pytest
from tests.compat.samples import ANY_ARGUMENTS, HAND_WRITTEN, PNG, PNG_TEXT, call, tool_that_returns

import ferrule
import toolnexus
import toolnexus.content
import toolnexus.types
from toolnexus import Answer, ContentPart, Request, Tool, ToolContext, ToolResult, define_tool, pending
from toolnexus.content import normalize_parts

# -- ToolResult ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("TNX-01")
def test_the_four_fields_stand_in_the_order_of_the_page() -> None:
    parameters = list(inspect.signature(ToolResult).parameters.values())[:4]

    assert dataclasses.is_dataclass(ToolResult)
    assert [f.name for f in dataclasses.fields(ToolResult)][:4] == ["output", "is_error", "metadata", "parts"]
    assert [p.name for p in parameters] == ["output", "is_error", "metadata", "parts"]
    assert [p.default for p in parameters[2:]] == [None, None]


@pytest.mark.seed("TNX-01")
def test_fields_given_by_position_and_by_name_make_equal_results() -> None:
    by_position = ToolResult("shown", False, {"count": 1}, [HAND_WRITTEN])

    assert by_position == ToolResult(parts=[HAND_WRITTEN], metadata={"count": 1}, is_error=False, output="shown")
    assert (by_position.output, by_position.is_error) == ("shown", False)
    assert (by_position.metadata, by_position.parts) == ({"count": 1}, [HAND_WRITTEN])


@pytest.mark.seed("TNX-01")
def test_a_result_has_slots_and_no_dict() -> None:
    assert not hasattr(ToolResult("done", False), "__dict__")


# -- When to use it, and why an error flag ---------------------------------------------------------------------------


@pytest.mark.seed("TNX-03")
def test_execute_of_a_tool_returns_its_result_on_every_path() -> None:
    async def execute(args: dict[str, Any], ctx: ToolContext | None = None) -> ToolResult:
        if "key" not in args:
            return ToolResult(output="No key.", is_error=True)
        return ToolResult(output=f"value of {args['key']}", is_error=False)

    tool = Tool("lookup", "Look a key up.", ANY_ARGUMENTS, "custom", execute)
    found = ToolResult("value of a", False)
    missing = ToolResult("No key.", True)

    assert asyncio.run(tool.execute({"key": "a"}, None)) == found == call(tool, {"key": "a"})
    assert asyncio.run(tool.execute({})) == missing == call(tool, {})


@pytest.mark.seed("TNX-03")
def test_define_tool_gives_a_tool_whose_execute_and_checked_call_agree() -> None:
    @define_tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    assert isinstance(add, Tool)
    assert (add.name, add.description, add.source) == ("add", "Add two numbers.", "native")
    assert add.input_schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert asyncio.run(add.execute({"a": 20, "b": 22})) == ToolResult("42", False) == call(add, {"a": 20, "b": 22})


@pytest.mark.seed("TNX-03")
def test_define_tool_takes_a_declaration_and_an_async_function() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    @define_tool(name="weather", description="Tell the weather.", input_schema=schema, source="custom")
    async def function(city):  # type: ignore[no-untyped-def] # pyright: ignore
        return f"sun over {city}"

    assert (function.name, function.description, function.source) == ("weather", "Tell the weather.", "custom")
    assert function.input_schema == schema
    assert call(function, {"city": "Oslo"}) == ToolResult("sun over Oslo", False)
    refused = call(function, {})
    assert refused.failure is not None
    assert refused.failure.code == "invalid_arguments"


@pytest.mark.seed("TNX-03")
def test_execute_gets_the_arguments_and_a_context_with_the_answer() -> None:
    seen: list[Any] = []

    async def execute(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        seen.append((args, ctx.timeout, ctx.answer, ctx.cancelled(), type(ctx)))
        return ToolResult("done", False)

    tool = Tool("t", "T.", ANY_ARGUMENTS, "custom", execute)
    answer = Answer("req_1", True, {"output": "yes"})
    answered = ferrule.Context[Any](answers=[(Request("req_1", "input", "Sure?"), answer)])
    asyncio.run(tool.call({"a": 1}))
    asyncio.run(tool.call({}, answered))
    asyncio.run(tool.call({}, ToolContext(timeout=5, answer=answer)))

    assert seen == [
        ({"a": 1}, 60.0, None, False, ToolContext),
        ({}, 60.0, answer, False, ToolContext),
        ({}, 5, answer, False, ToolContext),
    ]


@pytest.mark.seed("TNX-03")
def test_a_function_asks_for_the_context_by_its_annotation() -> None:
    @define_tool
    def reply(ctx: ToolContext, word: str = "none") -> str:
        return f"{word} {ctx.answer.data if ctx.answer else None} {type(ctx).__name__}"

    answer = toolnexus.answer_output("req_1", "blue")

    assert list(reply.input_schema["properties"]) == ["word"]
    assert call(reply, {"word": "a"}).output == "a None ToolContext"
    assert asyncio.run(reply.execute({}, ToolContext(answer=answer))).output == "none {'output': 'blue'} ToolContext"


@pytest.mark.seed("TNX-03")
def test_what_a_tool_changes_in_its_context_reaches_the_caller() -> None:
    async def execute(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        ctx.variables.set("seen", True)
        ctx.state["step"] = 2
        return ToolResult("done", False)

    context = ferrule.Context[Any](state={})
    asyncio.run(Tool("t", "T.", ANY_ARGUMENTS, "custom", execute).call({}, context))

    assert (context.variables.as_dict(), context.state) == ({"seen": True}, {"step": 2})


@pytest.mark.seed("TNX-03")
def test_a_tool_learns_through_its_context_that_nobody_waits() -> None:
    told: list[ToolContext] = []

    async def execute(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        told.append(ctx)
        await asyncio.Event().wait()
        return ToolResult("never", False)

    tool = Tool("t", "T.", ANY_ARGUMENTS, "custom", execute)
    tool.timeout = 0.01

    assert not call(tool).success
    assert told[0].cancelled()


@pytest.mark.seed("TNX-03")
def test_its_tools_go_into_a_toolset() -> None:
    @define_tool
    def shout(text: str) -> str:
        return text.upper()

    tools = ferrule.Toolset([shout, tool_that_returns(ToolResult("done", False))])

    assert tools.names == ("shout", "sample")
    assert asyncio.run(tools.call("shout", '{"text": "hi"}')) == ToolResult("HI", False)
    assert asyncio.run(tools.call("sample", None)) == ToolResult("done", False)


@pytest.mark.seed("TNX-03")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [({"execute": print}, "a tool needs a name"), ({"name": "t"}, "tool 't' has nothing to execute")],
)
def test_a_tool_without_name_or_body_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ferrule.ToolDefinitionError, match=complaint):
        Tool(**given)


@pytest.mark.seed("TNX-04")
def test_a_returned_failure_is_handed_back_and_not_raised() -> None:
    assert call(tool_that_returns(ToolResult("No such city.", True))) == ToolResult("No such city.", True)


@pytest.mark.seed("TNX-04")
def test_what_execute_raises_comes_back_as_a_failed_result() -> None:
    async def execute(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        raise LookupError("no such city")

    @define_tool
    def defined() -> str:
        raise LookupError("no such city")

    for tool in (Tool("t", "T.", ANY_ARGUMENTS, "custom", execute), defined):
        result = call(tool)
        assert (result.is_error, result.output, result.value) == (True, "LookupError: no such city", None)
    assert asyncio.run(defined.execute({})).output == "LookupError: no such city"


@pytest.mark.seed("TNX-05")
@pytest.mark.parametrize("text", ["", "42", '{"a": 1}', "null", '"quoted"', "line\nline\t", "héllo 🎈", "  padded  "])
def test_text_is_handed_on_character_for_character(text: str) -> None:
    @define_tool
    def say() -> str:
        return text

    assert ToolResult(text, False).output == text
    assert ToolResult.ok(text).output == text
    assert call(tool_that_returns(ToolResult(text, False))).output == text
    assert call(say).output == text


@pytest.mark.seed("TNX-05")
def test_output_is_a_str_however_the_result_was_made() -> None:
    made = [
        ToolResult("done", False),
        ToolResult("failed", True),
        ToolResult.ok({"a": 1}),
        ToolResult.ok(None),
        ToolResult.failed("no"),
        pending(kind="input", prompt="Which?"),
    ]

    assert [type(result.output) for result in made] == [str] * 6
    with pytest.raises(ferrule.UsageError, match="output must be str, not dict"):
        ToolResult({"a": 1}, False)  # pyright: ignore[reportArgumentType]


# -- Fields ----------------------------------------------------------------------------------------------------------


@pytest.mark.seed("TNX-26")
@pytest.mark.parametrize(
    "metadata",
    [{"title": "t", "ids": [1, 2]}, {"Pending": 1, "pending_of": 2}, {"output": "x", "is_error": True, "status": "?"}],
)
def test_other_keys_of_metadata_come_back_unchanged(metadata: dict[str, Any]) -> None:
    result = call(tool_that_returns(ToolResult("done", False, dict(metadata))))

    assert (result.status, result.metadata) == ("done", metadata)


@pytest.mark.seed("TNX-26")
def test_other_keys_stay_beside_a_suspension() -> None:
    request = Request("req_1", "input", "Which?")
    result = call(tool_that_returns(ToolResult("Which?", True, {"pending": request, "title": "t"})))

    assert result.metadata == {"pending": request, "title": "t"}
    assert result.status == "suspended"


@pytest.mark.seed("TNX-27")
def test_a_failed_call_gives_its_text_to_the_model_as_output() -> None:
    result = call(tool_that_returns(ToolResult("No such city. Try Oslo.", True)))

    assert (result.is_error, result.output) == (True, "No such city. Try Oslo.")


# -- The package -----------------------------------------------------------------------------------------------------


@pytest.mark.seed("TNX-28")
def test_every_exported_name_is_there_and_the_same_in_every_module() -> None:
    for module in (toolnexus, toolnexus.content, toolnexus.types):
        names: list[str] = module.__all__
        assert names == sorted(names)
        assert [name for name in names if getattr(module, name) is not getattr(toolnexus, name)] == []
    assert {"ToolResult", "image", "pending", "auth_required", "pending_of"} <= set(toolnexus.__all__)
    assert "to_dict" in toolnexus.content.__all__
    assert "ToolResult" in toolnexus.types.__all__


@pytest.mark.seed("TNX-28")
def test_sanitize_leaves_what_every_provider_takes() -> None:
    assert toolnexus.sanitize("my server.v2/été") == "my_server_v2__t_"
    assert toolnexus.sanitize("a-Z_9") == "a-Z_9"


@pytest.mark.seed("TNX-28")
def test_parts_have_the_helpers_of_the_package() -> None:
    part = toolnexus.part(type="image", mimeType="image/png", data=PNG_TEXT, name="shot.png")

    assert isinstance(part, ContentPart)
    assert (part.mimeType, part.data, part.url, part.name) == ("image/png", PNG_TEXT, None, "shot.png")
    assert toolnexus.decoded_len(part.data) == 82
    assert toolnexus.text("hi") == ContentPart("text", text="hi")
    assert normalize_parts([toolnexus.text("hi"), HAND_WRITTEN, "bare"]) == [
        {"type": "text", "text": "hi"},
        HAND_WRITTEN,
        {"type": "text", "text": "bare"},
    ]


@pytest.mark.seed("TNX-29")
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (ToolResult("done", False), ferrule.ToolResult.ok("done")),
        (ToolResult("no", True), ferrule.ToolResult.failed("no")),
        (pending(kind="input", prompt="?", id="r"), ferrule.pending("input", "?", id="r")),
        (ToolResult("one", False, None, [HAND_WRITTEN]), ferrule.ToolResult.ok("one", parts=[ferrule.image(PNG)])),
    ],
)
def test_results_of_both_makings_are_equal_and_of_each_others_class(
    theirs: ToolResult, ours: ferrule.ToolResult
) -> None:
    assert theirs == ours
    assert isinstance(theirs, ferrule.ToolResult)
    assert isinstance(ours, ToolResult)


@pytest.mark.seed("TNX-30")
def test_a_result_cannot_be_changed() -> None:
    result = ToolResult("done", False)

    with pytest.raises(AttributeError):
        result.output = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert result.output == "done"


@pytest.mark.seed("TNX-30")
def test_a_changed_copy_is_a_new_result() -> None:
    result = ToolResult("done", False)
    changed = dataclasses.replace(result, metadata={"count": 1})

    assert changed == ToolResult("done", False, {"count": 1})
    assert result == ToolResult("done", False)
