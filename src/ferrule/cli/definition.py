"""A tool's declaration as people and programs read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.app import App
from ferrule.cli.output import json_text
from ferrule.tool.names import wire_name
from ferrule.tool.schema.reference import Schema
from ferrule.tool.tool import Tool


def find_tool(app: App, name: str) -> tuple[str, Tool]:
    """A tool and the name it has in the app.

    Args:
        app: The app.
        name: That name, or the wire name.

    Raises:
        UnknownToolError: There is none; close names are offered.

    Since 0.1.
    """
    tool = app.tools[name]
    named = name in app.tools.names
    return name if named else next(n for n in app.tools.names if wire_name(n) == name), tool


def summary(name: str, tool: Tool) -> dict[str, Any]:
    """A tool in a list.

    Args:
        name: Its name in the app.
        tool: The tool.

    Since 0.1.
    """
    return {
        "name": name,
        "effect": tool.effect,
        "approval": "depends" if callable(tool.approval) else tool.approval,
        "preview": tool.preview is not None,
        "check": tool.check is not None,
        "description": tool.description,
    }


def declaration(name: str, tool: Tool) -> dict[str, Any]:
    """All that a tool declares.

    Args:
        name: Its name in the app.
        tool: The tool.

    Raises:
        ToolDefinitionError: Its schema cannot be made.

    Since 0.1.
    """
    return {
        **summary(name, tool),
        "wire_name": wire_name(name),
        "timeout": tool.timeout,
        "retries": tool.max_retries,
        "on_unknown": tool.on_unknown,
        "concurrency": tool.concurrency,
        "serial": tool.serial,
        "runs": tool.runs,
        "max_output": tool.max_output,
        "parameters": tool.parameters.schema,
        "output_schema": tool.output_check.schema if tool.output_check is not None else None,
    }


# -- what a person reads ----------------------------------------------------------------------------------------


def parameter_rows(schema: Schema) -> list[dict[str, Any]]:
    """The parameters as rows of a table.

    Args:
        schema: JSON Schema of the arguments.

    Since 0.1.
    """
    required = schema.get("required", ())
    return [
        {
            "parameter": name,
            "type": _type_text(field),
            "required": name in required,
            "default": json_text(field["default"]) if "default" in field else "",
            "description": field.get("description", ""),
        }
        for name, field in _fields(schema)
    ]


def _fields(schema: Schema) -> list[tuple[str, Schema]]:
    return [(n, cast("Schema", f) if isinstance(f, dict) else {}) for n, f in schema.get("properties", {}).items()]


def _type_text(schema: Mapping[str, Any]) -> str:
    """A schema in a word or two; the JSON has all of it."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_type_text(option) for option in schema[key]))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json_text(value) for value in schema["enum"])
    if "const" in schema:
        return json_text(schema["const"])
    kind: Any = schema.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(map(str, cast("list[Any]", kind)))
    items = schema.get("items")
    return f"array of {_type_text(cast('Schema', items))}" if kind == "array" and isinstance(items, dict) else str(kind)
