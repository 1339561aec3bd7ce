"""Tool definitions as each model API receives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ferrule.provider.base import ModelRequest
from ferrule.provider.schema import Dialect, lower
from ferrule.strict_json import clean
from ferrule.tool.names import wire_name
from ferrule.tool.tool import ToolDefinition

Wire = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "gemini-openapi"]
"""The shape of a request: Chat Completions and all that copy it, Responses, Messages, and generateContent with JSON
Schema or with its older `parameters`."""
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Format:
    """How one wire writes a tool."""

    key: str
    dialect: Dialect
    strict: Dialect | None = None
    strict_unless_told: bool = False
    always_says_strict: bool = False
    wrap: Callable[[Entry], Entry] = lambda entry: entry
    wrap_all: Callable[[list[Entry]], list[Entry]] = lambda entries: entries


def _declarations(entries: list[Entry]) -> list[Entry]:
    return [{"functionDeclarations": entries}] if entries else []


_FORMATS: dict[Wire, _Format] = {
    "openai-chat": _Format(
        "parameters",
        dialect="openai",
        strict="openai-strict",
        strict_unless_told=True,
        wrap=lambda entry: {"type": "function", "function": entry},
    ),
    "openai-responses": _Format(
        "parameters",
        dialect="openai",
        strict="openai-strict",
        strict_unless_told=True,
        always_says_strict=True,  # the key is required, and null stands for the server's choice
        wrap=lambda entry: {"type": "function", **entry},
    ),
    # Alternatives at the root are refused here too. Many strict tools at once are ("grammar too large"), so strict is
    # off unless it is asked for.
    "anthropic": _Format("input_schema", dialect="openai", strict="anthropic-strict"),
    "gemini": _Format("parametersJsonSchema", dialect="gemini", wrap_all=_declarations),
    "gemini-openapi": _Format("parameters", dialect="gemini-openapi", wrap_all=_declarations),
}


class Choice(NamedTuple):
    """What the model is told of calling tools.

    Args:
        mode: Whether it decides, calls none, or must call one.
        names: Wire names of those it must call one of; empty when all will do.

    Since 0.1.
    """

    mode: Literal["auto", "none", "required"]
    names: tuple[str, ...] = ()


_CHOICES: dict[str, Choice] = {"auto": Choice("auto"), "none": Choice("none"), "required": Choice("required")}


def tool_choice(request: ModelRequest) -> Choice | None:
    """The tool choice of a request, the same for all adapters; None when there is nothing to choose among, or to say.

    Args:
        request: The question. Names of some tools mean that one of them must be called, no name at all means none.

    Raises:
        UnknownToolError: A tool that is named is not there.

    Since 0.1.
    """
    tools, wanted = request.tools, request.settings.tool_choice
    if wanted is None:
        return None
    if isinstance(wanted, str) and wanted in _CHOICES:
        return _CHOICES[wanted] if tools else None
    named = (wanted,) if isinstance(wanted, str) else wanted
    names = tuple(dict.fromkeys(tools.filter([name]).wire_names[0] for name in named))
    return Choice("required", names) if names else _CHOICES["none"] if tools else None


def tool_definitions(definitions: Iterable[ToolDefinition], wire: Wire, *, strict: bool | None = None) -> list[Entry]:
    """The `tools` of a request, exactly as the provider receives them.

    Args:
        definitions: What to offer, in order; names become wire names.
        wire: Whose request it is.
        strict: Ask for arguments that keep to the schema, for each tool whose schema can be written so. Default: yes
            for OpenAI, no for Anthropic. Say False for servers that copy Chat Completions without it.

    Returns:
        New dictionaries, though schemas may share parts with the definitions: add keys, but change nothing inside.
        Empty without definitions.

    Since 0.1.
    """
    return _FORMATS[wire].wrap_all([tool_definition(d, wire, strict=strict)[0] for d in definitions])


def tool_definition(
    definition: ToolDefinition, wire: Wire, *, strict: bool | None = None
) -> tuple[Entry, tuple[str, ...]]:
    """One tool as the provider receives it, and what its schema lost or changed on the way.

    Args:
        definition: The tool.
        wire: Whose request it is.
        strict: As for `tool_definitions`.

    Returns:
        The entry, for Gemini without the list that it stands in, and the notes of the lowering.

    Since 0.1.
    """
    form = _FORMATS[wire]
    wanted = form.strict_unless_told if strict is None else strict
    lowered = lower(definition.schema, form.strict if wanted and form.strict else form.dialect)
    told = {"description": clean(definition.description)} if definition.description else {}
    entry: Entry = {"name": wire_name(definition.name), **told, form.key: lowered.schema}
    if lowered.strict_ok or form.always_says_strict:
        entry["strict"] = lowered.strict_ok
    return form.wrap(entry), lowered.notes
