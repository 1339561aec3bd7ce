"""Declaring tools: what is wrong is said at once, with the tool, the option and the mend."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from tests.clock import run

from ferrule import Context, FunctionTool, Tool, ToolDefinition, ToolDefinitionError, tool


def find(q: str) -> str:
    """Find."""
    return q


def refusal(make: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ToolDefinitionError) as caught:
        make(*args, **kwargs)
    return str(caught.value)


NAMED: dict[str, Any] = {"n": {"type": "integer", "required": True}, "to": {"type": "string"}}

# -- options ----------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, Any, str]] = [
    ("effect", "write", "effect of tool 'find' is 'write'. Use one of read, idempotent, once."),
    ("effect", None, "effect of tool 'find' is None. Use one of read, idempotent, once."),
    ("effect", [], "effect of tool 'find' is list. Use one of read, idempotent, once."),
    *(
        (k, "no", f"{k} of tool 'find' is 'no'. Use True or False.")
        for k in ("serial", "thread", "omit_blank", "process")
    ),
    ("timeout", 0, "timeout of tool 'find' is 0. Use seconds, above 0."),
    ("timeout", -1.5, "timeout of tool 'find' is -1.5. Use seconds, above 0."),
    ("timeout", "10", "timeout of tool 'find' is '10'. Use seconds, above 0."),
    ("timeout", None, "timeout of tool 'find' is None. Use seconds, above 0."),
    ("timeout", True, "timeout of tool 'find' is True. Use seconds, above 0."),
    ("timeout", 10**400, "timeout of tool 'find' is int. Use seconds, above 0."),
    ("timeout", -(10**400), "timeout of tool 'find' is int. Use seconds, above 0."),
    ("timeout", float("-inf"), "timeout of tool 'find' is -inf. Use seconds, above 0."),
    ("timeout", float("nan"), "timeout of tool 'find' is nan. Use seconds, above 0."),
    ("approval", "yes", "approval of tool 'find' is 'yes'. Use True, False or a callable."),
    ("approval", None, "approval of tool 'find' is None. Use True, False or a callable."),
    ("preview", True, "preview of tool 'find' is True. Use a callable or None."),
    ("check", "later", "check of tool 'find' is 'later'. Use a callable or None."),
    ("on_unknown", "retry", "on_unknown of tool 'find' is 'retry'. Use 'ask', 'fail' or None."),
    ("retries", -1, "retries of tool 'find' is -1. Use a count from 0, or None."),
    ("retries", 1.5, "retries of tool 'find' is 1.5. Use a count from 0, or None."),
    ("retries", True, "retries of tool 'find' is True. Use a count from 0, or None."),
    ("concurrency", 0, "concurrency of tool 'find' is 0. Use a count from 1, or None."),
    ("concurrency", "4", "concurrency of tool 'find' is '4'. Use a count from 1, or None."),
    ("max_output", 0, "max_output of tool 'find' is 0. Use a number of characters, or None."),
    ("max_output", 10.0, "max_output of tool 'find' is 10.0. Use a number of characters, or None."),
]


@pytest.mark.parametrize(("option", "value", "text"), WRONG)
def test_a_wrong_option_is_refused_when_the_function_becomes_a_tool(option: str, value: Any, text: str) -> None:
    assert refusal(tool(**{option: value}), find) == text  # pyright: ignore
    assert refusal(FunctionTool, find, **{option: value}) == text


@pytest.mark.parametrize(("option", "value", "text"), WRONG)
def test_a_wrong_option_is_refused_when_a_class_tool_is_written(option: str, value: Any, text: str) -> None:
    body = {option: value, "execute": lambda self, context: None}  # pyright: ignore
    assert refusal(type, "find", (Tool,), body) == text


def test_a_class_tool_that_wants_a_process_is_refused_rather_than_run_in_a_thread() -> None:
    body = {"process": True, "execute": lambda self, context: None}  # pyright: ignore
    assert refusal(type, "Find", (Tool,), body) == (
        "class tool 'Find' is given a context, which cannot follow into a process of its own. "
        "Put @tool(process=True) on a function."
    )


def test_a_number_too_long_to_be_written_is_refused_like_any_other() -> None:
    for option in ("timeout", "retries"):
        assert refusal(FunctionTool, find, **{option: -(10**5000)}).startswith(f"{option} of tool 'find' is int. Use ")


RIGHT: list[tuple[str, Any]] = [
    ("effect", "read"),
    ("effect", "idempotent"),
    ("timeout", 0.001),
    ("timeout", 3),
    ("timeout", float("inf")),
    ("approval", True),
    ("approval", lambda arguments: True),  # pyright: ignore
    ("preview", lambda context, arguments: None),  # pyright: ignore
    ("check", lambda context, arguments: None),  # pyright: ignore
    ("on_unknown", "fail"),
    ("on_unknown", None),
    ("retries", 0),
    ("retries", None),
    ("concurrency", 1),
    ("max_output", 1),
    ("max_output", None),
]


@pytest.mark.parametrize(("option", "value"), RIGHT)
def test_a_right_option_is_kept(option: str, value: Any) -> None:
    assert getattr(FunctionTool(find, **{option: value}), option) == value


@pytest.mark.parametrize(
    ("effect", "retries", "expected"),
    [("once", None, 0), ("read", None, 2), ("idempotent", None, 2), ("once", 3, 3), ("read", 0, 0)],
)
def test_retries_follow_the_effect_unless_declared(effect: Any, retries: int | None, expected: int) -> None:
    assert FunctionTool(find, effect=effect, retries=retries).max_retries == expected


def test_an_undeclared_tool_is_once() -> None:
    class Find(Tool):
        """Find."""

        name = "find"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

        async def execute(self, context: Context[Any]) -> None: ...

    assert (tool(find).effect, Find().effect) == ("once", "once")


def test_a_definition_cannot_be_changed() -> None:
    made = tool(find)
    for name, value in (("effect", "read"), ("name", "x"), ("parameters", None)):
        with pytest.raises(AttributeError):
            setattr(made, name, value)


# -- functions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "kind"), [("find", "str"), (3, "int"), ([], "list"), ({}, "dict")])
def test_what_cannot_be_called_makes_no_tool(value: Any, kind: str) -> None:
    assert refusal(tool, value) == f"{kind} makes no tool. Give @tool a function."


@pytest.mark.parametrize("function", [lambda: 1, functools.partial(find, "x")])
def test_a_function_without_a_name_needs_one(function: Any) -> None:
    assert refusal(tool, function) == "a tool needs a name. Pass name= to @tool."
    assert tool(name="it")(function).name == "it"


def test_an_unknown_option_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="timeuot"):
        tool(timeuot=3)(find)  # pyright: ignore


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "def export(rows): ...",
            "parameter 'rows' of tool 'export' has no annotation. "
            "Annotate it, for example rows: int, or pass schema= to @tool.",
        ),
        (
            "def export(*rows: int): ...",
            "parameter 'rows' of tool 'export' collects positional arguments, which come by name. "
            "Use a list parameter instead.",
        ),
        (
            "def export(rows: int, /): ...",
            "parameter 'rows' of tool 'export' is positional-only, but arguments come by name. "
            "Remove the '/' after it.",
        ),
    ],
)
@pytest.mark.case("C002")
def test_a_parameter_that_cannot_be_passed_is_refused_with_function_and_parameter(source: str, text: str) -> None:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    assert refusal(tool, namespace["export"]) == text


def test_the_name_in_an_error_is_the_declared_one() -> None:
    def export(rows): ...  # pyright: ignore

    assert refusal(tool(name="csv.export"), export).startswith(
        "parameter 'rows' of tool 'csv.export' has no annotation."
    )


def test_a_given_schema_stands_in_for_annotations() -> None:
    @tool(schema={"type": "object", "properties": {"rows": {"type": "integer"}}})
    async def export(rows):  # pyright: ignore
        """Export rows."""
        return rows  # pyright: ignore

    assert export.description == "Export rows."
    assert run(export.call({"rows": 3})).value == 3
    assert run(export.call({"rows": "three"})).error == (
        "Tool 'export' was not called. The arguments do not fit the schema. "
        'rows: value is not of type "integer" (got string).'
    )


def test_a_local_function_cannot_run_in_a_process() -> None:
    def local(n: int) -> int:
        return n

    assert refusal(tool(process=True), local) == (
        "tool 'local' runs in a process of its own, so its function must stand at the top level of a module."
    )


def in_context(n: int, ctx: Context[Any]) -> int:
    return n


def test_the_context_cannot_follow_into_a_process() -> None:
    assert refusal(tool(process=True), in_context) == (
        "tool 'in_context' runs in a process of its own, where parameter 'ctx' cannot follow. Leave the context out."
    )


def test_a_tool_called_as_a_function_is_that_function() -> None:
    assert tool(find)("x") == "x"
    with pytest.raises(TypeError):
        tool(find)()  # pyright: ignore


def test_name_and_description_come_from_the_function_unless_declared() -> None:
    assert (tool(find).name, tool(find).description, tool(find).__doc__) == ("find", "Find.", "Find.")
    made = tool(name="search", description="Search.")(find)
    assert (made.name, made.description, made.definition) == (
        "search",
        "Search.",
        ToolDefinition("search", "Search.", made.parameters.schema),
    )


def test_the_repr_shows_name_and_effect() -> None:
    assert repr(tool(effect="read")(find)) == "<FunctionTool 'find' effect=read>"


# -- class tools ------------------------------------------------------------------------------------------------


def class_tool(defined: Any) -> Tool:
    class Look(Tool):
        """Look something up."""

        name = "look"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
        definition = defined  # pyright: ignore[reportIncompatibleMethodOverride]

        async def execute(self, context: Context[Any]) -> Any:
            return context.variables.as_dict()

    return Look()


@pytest.mark.parametrize("left_out", ["name", "execute"])
def test_a_class_tool_needs_a_name_and_a_body(left_out: str) -> None:
    body: dict[str, Any] = {"name": "look", "execute": lambda self, context: None}  # pyright: ignore
    del body[left_out]
    with pytest.raises(TypeError, match=left_out):
        type("Look", (Tool,), body)()


ROWS = {"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]}


@pytest.mark.parametrize(
    "definition",
    [
        ROWS,
        ToolDefinition("look", "", ROWS),
        ToolDefinition("look", "", {"rows": {"type": "integer", "required": True}}),
    ],
)
def test_a_class_tool_is_checked_by_its_definition(definition: Any) -> None:
    made = class_tool(definition)
    assert made.parameters.schema == ROWS
    assert run(made.call({"rows": 3})).value == {"rows": 3}
    assert run(made.call({})).error == (
        "Tool 'look' was not called. The arguments do not fit the schema. rows: is required."
    )


@pytest.mark.parametrize("definition", [None, ToolDefinition("look"), {"type": "object"}])
def test_a_class_tool_without_parameters_takes_any_object(definition: Any) -> None:
    made = class_tool(definition)
    assert made.parameters.schema == {"type": "object"}
    assert run(made.call({"a": 1})).value == {"a": 1}
    assert made.description == "Look something up."


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        ({}, {"type": "object"}),
        (ROWS, ROWS),
        ({"$ref": "#/x"}, {"$ref": "#/x"}),
        ({"properties": {"type": {"type": "string"}}}, {"properties": {"type": {"type": "string"}}}),
        (
            {"a": {"type": "string", "required": True}, "b": {"type": "integer", "minimum": 1}},
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 1}},
                "required": ["a"],
            },
        ),
        (
            {"type": {"type": "string"}, "required": {"type": "boolean", "required": True}},
            {
                "type": "object",
                "properties": {"type": {"type": "string"}, "required": {"type": "boolean"}},
                "required": ["required"],
            },
        ),
    ],
)
def test_parameters_of_a_definition_are_a_schema_or_a_map_of_names(
    parameters: Mapping[str, Any], schema: Mapping[str, Any]
) -> None:
    assert ToolDefinition("t", "", dict(parameters)).schema == schema


def test_an_unusable_definition_is_refused_with_the_tool() -> None:
    made = class_tool({"type": "nope"})
    with pytest.raises(ToolDefinitionError, match=r"^the schema of tool 'look' is no usable JSON Schema: "):
        _ = made.parameters


@pytest.mark.parametrize("given", [5, "x", True, [{"type": "object"}]], ids=repr)
def test_a_definition_of_another_kind_is_refused_with_the_tool(given: Any) -> None:
    expected = f"is {type(given).__name__}. Give a ToolDefinition or a JSON Schema, a dict."
    assert f"the schema of tool 'look' {expected}" == refusal(lambda: class_tool(given).parameters)
    assert f"the schema of tool 'find' {expected}" == refusal(FunctionTool, find, schema=given)
    assert f"the schema of tool 'look' {expected}" == refusal(lambda: ToolDefinition("look", "", given).schema)


@pytest.mark.parametrize("form", [ToolDefinition("look", "", NAMED), NAMED], ids=["ToolDefinition", "map"])
def test_a_map_from_names_to_types_is_short_for_a_schema(form: Any) -> None:
    expected = {"type": "object", "properties": {"n": {"type": "integer"}, "to": {"type": "string"}}, "required": ["n"]}
    assert expected == class_tool(form).parameters.schema


def test_a_given_schema_leaves_context_description_and_output_to_the_function() -> None:
    @tool(effect="read", schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    async def count(n: Any, ctx: Context[Any]) -> int:
        """Count.

        Args:
            n: How many.
        """
        return n if ctx.call_id else 0

    assert (count.description, count.injected) == ("Count.", ("ctx",))
    assert run(count.call({"n": 3})).value == 3
    assert count.output_check is not None


@pytest.mark.parametrize(("key", "value"), [("name", 5), ("description", 5)])
def test_a_name_or_description_that_is_no_text_is_refused(key: str, value: Any) -> None:
    def f() -> None: ...

    made: Any = tool
    with pytest.raises(ToolDefinitionError, match=f"the {key} of a tool must be text, not int"):
        made(**{key: value})(f)


# -- defaults ---------------------------------------------------------------------------------------------------


@dataclass
class Basket:
    items: list[str] = field(default_factory=list[str])


class Cart(BaseModel):
    items: list[str] = []


MUTABLE: list[Any] = [
    [], {"a": []}, {"x"}, bytearray(b"x"), collections.deque([1]), collections.Counter("a"), ([], 1), ((set[int](),),),
    Basket(), Cart(), [Cart()],
]  # fmt: skip


@pytest.mark.parametrize("default", MUTABLE, ids=repr)
@pytest.mark.parametrize("options", [{}, {"schema": {"type": "object"}}], ids=["signature", "schema"])
def test_a_default_that_a_call_may_change_is_its_own(default: Any, options: Any) -> None:
    before = copy.deepcopy(default)
    seen: list[Any] = []

    @tool(thread=False, **options)
    def keep(value: Any = default) -> None:
        seen.append(value)

    for _ in range(2):
        assert run(keep.call({})).success
    assert keep.whole({})["value"] == before if not options else True
    assert seen == [before, before]
    assert all(x is not default for x in seen)
    assert seen[0] is not seen[1]
    assert run(keep.call({"value": "given"})).success
    assert seen[2] == "given"


def test_what_one_call_adds_to_its_default_the_next_does_not_see() -> None:
    @tool(thread=False)
    def note(word: str, words: list[str] = [], *, ctx: Context[Any]) -> list[str]:  # noqa: B006 - that is the case
        words.append(word)
        return words

    assert [run(note.call({"word": w})).value for w in ("a", "b")] == [["a"], ["b"]]
    assert note("c", ctx=Context()) == ["c"]


@pytest.mark.parametrize("default", [None, 3, "x", (1, "a"), frozenset({1}), object(), Decimal("1.1"), find])
def test_a_default_that_no_call_can_change_is_passed_as_it_is(default: Any) -> None:
    seen: list[Any] = []

    @tool(thread=False)
    def keep(value: Any = default) -> None:
        seen.append(value)

    run(keep.call({}))
    assert seen[0] is default


def test_a_default_that_cannot_be_copied_is_refused_with_its_name() -> None:
    def keep(value: Any = [threading.Lock()]) -> None: ...  # noqa: B006, B008 - that is the case

    assert refusal(tool, keep) == (
        "the default of parameter 'value' of tool 'keep' cannot be copied for each call. "
        "Use None and build it in the body."
    )


def test_the_defaults_of_a_declaration_are_those_of_a_class_tool() -> None:
    names = [f.name for f in dataclasses.fields(FunctionTool) if f.name in vars(Tool)]
    made = tool(find)
    assert {n: getattr(made, n) for n in names if n not in OWN} == {n: vars(Tool)[n] for n in names if n not in OWN}


OWN = ("name", "description")
