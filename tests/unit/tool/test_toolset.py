"""Sets of tools: one name each, found by name or wire name, never changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import run

from ferrule import Context, Tool, ToolDefinitionError, ToolNameError, Toolset, UnknownToolError, UsageError, tool
from ferrule.tool.names import wire_name


@tool(effect="read")
async def search(q: str) -> str:
    """Search."""
    return f"found {q}"


@tool(effect="once")
async def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def plain(n: int) -> int:
    """Count."""
    return n


class Empty(Tool):
    """A tool whose length is zero."""

    name = "empty"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    async def execute(self, context: Context[Any]) -> str:
        return "here"

    def __len__(self) -> int:
        return 0


# -- making sets ------------------------------------------------------------------------------------------------


def test_tools_and_plain_functions_make_a_set_in_order() -> None:
    tools = Toolset([send, plain, search])
    assert tools.names == ("send", "plain", "search")
    assert [t.name for t in tools] == ["send", "plain", "search"]
    assert len(tools) == 3
    assert repr(tools) == "Toolset(send, plain, search)"


def test_a_mapping_gives_the_names() -> None:
    tools = Toolset({"find": search, "count": plain})
    assert tools.names == ("find", "count")
    assert tools["find"] is search
    assert [d.name for d in tools.definitions()] == ["find", "count"]
    assert (search.name, tools["count"].name) == ("search", "plain")


def test_a_set_of_a_set_keeps_its_names() -> None:
    prefixed = Toolset([search]).prefix("github_")
    assert Toolset(prefixed).names == ("github_search",)
    assert Toolset([send, prefixed]).names == ("send", "github_search")


def test_sets_with_prefixes_are_put_together() -> None:
    github, gitlab = (Toolset([search]).prefix(p) for p in ("github_", "gitlab_"))
    assert github.add(gitlab, plain).names == ("github_search", "gitlab_search", "plain")


@pytest.mark.parametrize(("value", "kind"), [(search, "FunctionTool"), (plain, "function"), (None, "NoneType")])
def test_one_tool_in_place_of_several_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        Toolset(value)
    assert f"{kind} is no list of tools. Write Toolset([...])." == str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Empty, "Empty is neither a tool nor a function. Make an instance of it first."),
        (dict, "dict is neither a tool nor a function. Make an instance of it first."),
        ("search", "str is neither a tool nor a function. Give one or the other."),
        (None, "NoneType is neither a tool nor a function. Give one or the other."),
    ],
)
def test_a_class_or_other_value_is_refused(value: Any, text: str) -> None:
    makers: list[Callable[[], Toolset]] = [
        lambda: Toolset([value]),
        lambda: Toolset({"x": value}),
        lambda: Toolset().add(value),
    ]
    for make in makers:
        with pytest.raises(ToolDefinitionError) as caught:
            make()
        assert str(caught.value) == text


def test_two_tools_of_one_name_are_refused() -> None:
    text = "two tools are named 'search'. Rename one, or give its set a prefix."
    for make in (lambda: Toolset([search, search]), lambda: Toolset([search]).add(search)):
        with pytest.raises(ToolNameError) as caught:
            make()
        assert str(caught.value) == text


@pytest.mark.case("C008")
def test_two_tools_of_one_wire_name_are_refused() -> None:
    wire = wire_name("user/update")
    with pytest.raises(ToolNameError) as caught:
        Toolset({"user/update": search, wire: send})
    assert str(caught.value) == f"tools 'user/update' and {wire!r} share the wire name {wire!r}. Rename one."


# -- sets made from sets ----------------------------------------------------------------------------------------


def test_add_filter_and_prefix_leave_the_set_as_it_was() -> None:
    tools = Toolset([search, send])
    tools.add(plain)
    tools.filter(["send"])
    tools.prefix("x_")
    assert tools.names == ("search", "send")


def test_a_set_cannot_be_given_attributes_or_changed_through_its_names() -> None:
    tools = Toolset([search])
    with pytest.raises(AttributeError):
        tools.extra = 1  # pyright: ignore[reportAttributeAccessIssue] - the refusal is the point
    assert isinstance(tools.names, tuple)


def test_what_a_set_was_made_from_may_change_later() -> None:
    source: dict[str, Tool] = {"a": search}
    tools = Toolset(source)
    source["b"] = send
    assert tools.names == ("a",)


def test_a_refused_addition_changes_nothing() -> None:
    tools = Toolset([search])
    with pytest.raises(ToolNameError):
        tools.add(send, search)
    assert tools.names == ("search",)


@pytest.mark.parametrize(
    ("keep", "names"),
    [
        (["send"], ("send",)),
        (("send", "search"), ("send", "search")),
        ("send", ("send",)),
        ([], ()),
        (lambda t: t.effect == "read", ("search",)),  # pyright: ignore
        ([wire_name("user/update")], ("user/update",)),
    ],
)
def test_filter_keeps_by_name_wire_name_or_test(keep: Any, names: tuple[str, ...]) -> None:
    assert Toolset({"search": search, "send": send, "user/update": Empty()}).filter(keep).names == names


def test_filter_by_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownToolError) as caught:
        Toolset([search, send]).filter(["serch"])
    assert str(caught.value) == "There is no tool 'serch'. Close names: search."


def test_prefix_names_the_tools_of_the_set_and_not_the_tools() -> None:
    tools = Toolset([search]).prefix("github_")
    (definition,) = tools.definitions()
    assert (definition.name, tools["github_search"].name) == ("github_search", "search")
    assert "search" not in tools


def test_the_names_of_a_set_and_its_tools_come_in_one_order() -> None:
    tools = Toolset([search, plain]).prefix("github_")
    assert ["search", "plain"] == [one.name for one in tools]
    assert [("github_search", search), ("github_plain", tools["github_plain"])] == [(n, tools[n]) for n in tools.names]
    kept = tools.filter(lambda one: one.name == "search")
    assert ("github_search",) == kept.names


# -- finding and calling ----------------------------------------------------------------------------------------


@pytest.mark.case("C008")
@given(st.sets(st.text(min_size=1, max_size=80), min_size=1, max_size=8))
def test_every_tool_is_found_by_its_name_and_by_its_wire_name(names: set[str]) -> None:
    made = {name: tool(name=name, schema={})(plain) for name in names}
    tools = Toolset(made)
    for name, one in made.items():
        assert tools.find(name) is one
        assert tools.find(wire_name(name)) is one
        assert tools[wire_name(name)] is one


@pytest.mark.case("C008")
def test_a_call_by_wire_name_reaches_the_tool() -> None:
    tools = Toolset({"user-profile/update": search})
    assert run(tools.call(wire_name("user-profile/update"), {"q": "x"})).value == "found x"


def test_a_tool_that_is_false_is_found() -> None:
    empty = Empty()
    tools = Toolset([empty])
    assert tools.find("empty") is empty
    assert run(tools.call("empty")).value == "here"


def test_an_unknown_name_finds_nothing_even_beside_a_nameless_tool() -> None:
    tools = Toolset({"": search})
    assert tools.find("nope") is None
    assert tools.find("") is search


@pytest.mark.parametrize("name", [None, 3, ("search",), []])
def test_a_name_that_is_no_text_is_not_there(name: object) -> None:
    assert name not in Toolset([search])


def test_an_unknown_name_by_index_is_refused_with_close_names() -> None:
    with pytest.raises(UnknownToolError) as caught:
        Toolset([search, send])["sent"]
    assert str(caught.value) == "There is no tool 'sent'. Close names: send."


@pytest.mark.case("C023")
@pytest.mark.parametrize(
    ("names", "asked", "close"),
    [
        (["mcp__x__search_files", "send"], "serch_files", ["mcp__x__search_files"]),
        (["search", "x__search"], "serch", ["search", "x__search"]),
        (["a__search", "b__search"], "search", ["a__search", "b__search"]),
        (["search_files"], "Search_Files", ["search_files"]),
        (["SEARCH"], "search", ["SEARCH"]),
        (["search"], "zzz", []),
        ([], "search", []),
        (["find1", "find2", "find3", "find4"], "find", ["find4", "find3", "find2"]),
    ],
)
def test_close_names_are_those_somebody_may_have_meant(names: list[str], asked: str, close: list[str]) -> None:
    found = Toolset(dict.fromkeys(names, search)).close_names(asked)
    assert found == close


@pytest.mark.case("C023")
@pytest.mark.parametrize(
    ("names", "asked", "text"),
    [
        (["mcp__x__search_files"], "serch_files", "There is no tool 'serch_files'. Close names: mcp__x__search_files."),
        (["search", "send"], "zzz", "There is no tool 'zzz'. There are: search, send."),
        ([], "zzz", "There is no tool 'zzz'. There are: none."),
    ],
)
def test_calling_an_unknown_name_is_a_failed_result(names: list[str], asked: str, text: str) -> None:
    result = run(Toolset(dict.fromkeys(names, search)).call(asked, '{"q": "x"}'))
    assert result.failure is not None
    assert (result.error, result.failure.code) == (text, "unknown_tool")


def test_an_endless_invented_name_is_cut_in_the_answer() -> None:
    error = run(Toolset([search]).call("z" * 100_000)).error
    assert error == f"There is no tool {'z' * 100!r}. There are: search."


def test_of_many_tools_twenty_are_named() -> None:
    error = run(Toolset(dict.fromkeys((f"t{n}" for n in range(30)), search)).call("zzz")).error
    assert error is not None
    assert error.endswith("t18, t19.")


def test_definitions_show_name_description_and_schema() -> None:
    (definition,) = Toolset([search]).definitions()
    assert definition == search.definition
    assert definition.parameters["required"] == ["q"]


def test_a_filter_and_a_prefix_of_another_kind_are_wrong_use() -> None:
    tools: Any = Toolset([search])
    with pytest.raises(UsageError, match=r"^filter of a Toolset needs a test of a tool, or names, not int\.$"):
        tools.filter(5)
    with pytest.raises(UsageError, match=r"^the prefix of a Toolset must be text, not int\.$"):
        tools.prefix(5)


@pytest.mark.parametrize("name", [None, 3, b"search", ["search"]])
def test_a_name_that_is_no_text_is_wrong_use(name: Any) -> None:
    with pytest.raises(UsageError, match=f"must be text, not {type(name).__name__}"):
        run(Toolset([search]).call(name, {}))
