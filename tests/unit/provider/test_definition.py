"""Tool definitions on each wire, also against the shapes that providers are known to take (wire_examples.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from ferrule import ToolDefinition
from ferrule.provider.definition import Wire, tool_definition, tool_definitions
from ferrule.provider.schema import Dialect, lower

WIRES: tuple[Wire, ...] = get_args(Wire)
EXAMPLES: Any = json.loads(Path(__file__).with_name("wire_examples.json").read_text(encoding="utf-8"))

# What the tools of the examples look like before they are written for a provider.
TOOLS = {
    "get_weather": ToolDefinition(
        "get_weather",
        "Current weather of a city.",
        {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "City name"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    ),
    "read_chart": ToolDefinition(
        "read_chart",
        "Return the current chart.",
        {"type": "object", "properties": {}, "additionalProperties": False},
    ),
    "get_forecast": ToolDefinition(
        "get_forecast",
        "Forecast. days: more than 0.",
        {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "exclusiveMinimum": 0, "maximum": 14},
                "unit": {"anyOf": [{"enum": ["c", "f"]}, {"type": "null"}]},
                "stops": {"type": "array", "items": {"type": ["string", "integer"]}},
            },
            "required": ["city", "days"],
            "propertyOrdering": ["city", "days", "unit", "stops"],
        },
    ),
}


def entries(tools: list[Any]) -> list[Any]:
    """The entry of each tool, without what it stands in."""
    found = [one for entry in tools for one in entry.get("functionDeclarations", [entry])]
    return [one.get("function", one) for one in found]


def without_marks(tools: list[Any]) -> list[Any]:
    return [{k: v for k, v in entry.items() if k != "cache_control"} for entry in tools]


@pytest.mark.parametrize("case", EXAMPLES["tools"], ids=lambda case: case["examples"][0])
def test_the_tools_of_the_examples_are_emitted(case: Any) -> None:
    definitions = [TOOLS[entry["name"]] for entry in entries(case["tools"])]
    emitted = tool_definitions(definitions, case["wire"], strict=case["strict"])
    for entry in entries(emitted):
        # The examples leave an empty list out of strict schemas. OpenAI's own library writes it, and so do we.
        if entry["name"] == "read_chart" and entry.get("strict"):
            assert entry["parameters"].pop("required") == []
    assert emitted == without_marks(case["tools"])


# Title and priority of the examples' structured output, with every value that tells two ways to write them apart.
NOTES: list[Any] = [
    {"title": title, "priority": priority} for title in ("t", None, 1) for priority in ("low", "odd", None, 1)
]


@pytest.mark.parametrize("case", EXAMPLES["schemas"], ids=lambda case: case["example"])
def test_the_output_schemas_of_the_examples_keep_their_meaning(case: Any) -> None:
    lowered = lower(case["schema"], case["dialect"])
    assert lowered.strict_ok == (case["dialect"] != "gemini")
    for value in [*NOTES, {"title": "t"}, {"priority": None}, {"title": "t", "priority": "low", "more": 1}, "t"]:
        assert accepts(lowered.schema, value) == accepts(case["schema"], value)


@pytest.mark.parametrize("dialect", ["openai", "openai-strict", "anthropic-strict", "gemini"])
def test_what_was_lowered_once_stays_as_it_is(dialect: Dialect) -> None:
    for case in EXAMPLES["schemas"]:
        once = lower(case["schema"], dialect).schema
        assert lower(once, dialect).schema == once


def accepts(schema: Any, value: Any) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(value)


OPTIONAL = ToolDefinition("a", "A.", {"type": "object", "properties": {"x": {"type": "string"}}})
FREE = ToolDefinition("b", "B.", {"type": "object", "additionalProperties": True})


@pytest.mark.parametrize(
    ("wire", "strict", "said"),
    [
        ("openai-chat", None, [True, None]),
        ("openai-chat", True, [True, None]),
        ("openai-chat", False, [None, None]),
        ("openai-responses", None, [True, False]),
        ("openai-responses", False, [False, False]),
        ("anthropic", None, [None, None]),
        ("anthropic", True, [True, None]),
        ("anthropic", False, [None, None]),
        ("gemini", True, [None, None]),
        ("gemini-openapi", True, [None, None]),
    ],
)
def test_strict_is_said_where_it_is_wanted_and_possible(wire: Wire, strict: bool | None, said: list[Any]) -> None:
    emitted = entries(tool_definitions([OPTIONAL, FREE], wire, strict=strict))
    assert [entry.get("strict") for entry in emitted] == said


def test_a_strict_schema_stands_only_beside_strict() -> None:
    for strict in (True, False):
        (entry,) = entries(tool_definitions([OPTIONAL], "openai-responses", strict=strict))
        assert (entry["parameters"].get("required") == ["x"]) is strict
    (free,) = entries(tool_definitions([FREE], "openai-responses"))
    assert free["parameters"] == {"type": "object", "additionalProperties": True}


@pytest.mark.parametrize("wire", WIRES)
def test_names_are_wire_names_and_the_order_stays(wire: Wire) -> None:
    names = ["rd.file", "b", "a", "1st"]
    emitted = entries(tool_definitions([ToolDefinition(name) for name in names], wire))
    assert [entry["name"] for entry in emitted] == ["rd_file_63c77815", "b", "a", "_1st_e01ddf65"]


@pytest.mark.parametrize("wire", WIRES)
def test_without_tools_there_is_nothing_to_send(wire: Wire) -> None:
    assert tool_definitions([], wire) == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_that_takes_anything_takes_an_object(wire: Wire) -> None:
    (entry,) = entries(tool_definitions([ToolDefinition("any")], wire))
    (key,) = entry.keys() - {"type", "name", "description", "strict"}
    assert entry[key] in ({"type": "object"}, {"type": "OBJECT"})


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_no_provider_gets_alternatives_at_the_root_of_a_schema(wire: Wire, strict: bool, keyword: str) -> None:
    schema = {**TOOLS["get_forecast"].parameters, keyword: [{"required": ["unit"]}, {"required": ["stops"]}]}
    (entry,) = entries(tool_definitions([ToolDefinition("a", "A.", schema)], wire, strict=strict))
    (key,) = entry.keys() - {"type", "name", "description", "strict"}
    assert not entry[key].keys() & {"anyOf", "oneOf", "allOf"}
    assert set(entry[key]["properties"]) == {"city", "days", "unit", "stops"}


def test_one_definition_comes_with_notes_of_what_its_schema_lost() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "minLength": 1}}}
    entry, notes = tool_definition(ToolDefinition("a", "A.", schema), "gemini")
    assert entry == {
        "name": "a",
        "description": "A.",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {"x": {"type": "string", "description": "(min length 1)"}},
        },
    }
    assert notes == ("#/properties/x/minLength: told in the description",)


@pytest.mark.parametrize("wire", WIRES)
def test_a_definition_is_not_changed_by_being_written(wire: Wire) -> None:
    before = json.dumps(TOOLS["get_forecast"].parameters)
    first, second = (tool_definitions([TOOLS["get_forecast"]], wire) for _ in range(2))
    entries(first)[0]["cache_control"] = {"type": "ephemeral"}
    assert entries(second)[0].keys().isdisjoint({"cache_control"})
    assert json.dumps(TOOLS["get_forecast"].parameters) == before
