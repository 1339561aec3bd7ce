"""`ferrule tool`: list, show and call tools."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import RenderableType
from rich.text import Text

from ferrule.cli.arguments import read_arguments
from ferrule.cli.ask import ask_yes, can_ask, say_request
from ferrule.cli.definition import declaration, find_tool, parameter_rows, summary
from ferrule.cli.envelope import envelope, lines
from ferrule.cli.failure import ExitCode, Interrupted, exit_code_of
from ferrule.cli.output import Format, NotWritten, json_text, printable, table
from ferrule.cli.parts import make_folder, save_parts
from ferrule.cli.session import Session, command
from ferrule.errors import UsageError
from ferrule.exception import describe_exception
from ferrule.lazy import LazyModule
from ferrule.result import ToolResult
from ferrule.strict_json import parse, plain
from ferrule.tool.body.attempt import unknown
from ferrule.tool.context import Context
from ferrule.tool.invoke import is_approval_due
from ferrule.tool.schema.arguments import InvalidArguments, read
from ferrule.tool.tool import Tool, ToolDefinition

if TYPE_CHECKING:
    from ferrule.provider import definition as wires
    from ferrule.provider.definition import Wire
else:
    wires = LazyModule("ferrule.provider.definition")

T = TypeVar("T")
Arguments = Mapping[str, Any] | str | bytes
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tool's name, as `ferrule tool ls` lists it.")]

group = typer.Typer(help="List, show and call tools.")


@command(group, "ls")
def list_tools(session: Session) -> ExitCode:
    """List the tools of the app."""
    tools = session.load().tools
    rows = [summary(name, tools[name]) for name in tools.names]
    if session.out.format is Format.TABLE:
        rows = [{**row, "description": row["description"].partition("\n")[0]} for row in rows]
    session.out.items(plain(rows), ("name", "effect", "approval", "description"), empty="The app has no tools.")
    return ExitCode.DONE


# -- show -------------------------------------------------------------------------------------------------------


class Provider(StrEnum):
    """Whose wire format a definition is shown in.

    Since 0.1.
    """

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"


_WIRES: dict[Provider, Wire] = {
    Provider.OPENAI: "openai-chat",
    Provider.ANTHROPIC: "anthropic",
    Provider.GEMINI: "gemini",
}


@command(group, "show")
def show_tool(
    session: Session,
    name: NameArgument,
    provider: Annotated[
        Provider | None, typer.Option("--provider", "-p", help="Show the definition as this provider would receive it.")
    ] = None,
) -> ExitCode:
    """Show what a tool declares: its parameters, its effect class and its limits."""
    name, tool = find_tool(session.load(), name)
    if provider is None:
        told = plain(declaration(name, tool), big_ints="number")
        session.out.item(told, _declaration_view(told))
        return ExitCode.DONE
    definition = ToolDefinition(name, tool.description, tool.parameters.schema)
    entry, notes = wires.tool_definition(definition, _WIRES[provider])
    entry = plain(entry, big_ints="number")
    session.out.item(entry, [Text(printable(json_text(entry, indent=2)))])
    for note in notes:
        session.note(f"changed for {provider}: {note}")
    return ExitCode.DONE


def _declaration_view(told: dict[str, Any]) -> list[RenderableType]:
    described = ("description", "parameters", "output_schema")
    seconds = {"timeout": f"{told['timeout']:g} s" if told["timeout"] is not None else "none"}
    facts = [
        {"": key.replace("_", " "), " ": value}
        for key, value in {**told, **seconds}.items()
        if key not in described and value is not None
    ]
    parameters = parameter_rows(told["parameters"])
    columns = ("parameter", "type", "required", "default", "description")
    return [
        *([Text(printable(told["description"])), Text("")] if told["description"] else []),
        table(("", " "), facts, headed=False),
        Text(""),
        table(columns, parameters) if parameters else Text("It takes no parameters by name."),
    ]


# -- call -------------------------------------------------------------------------------------------------------


@command(group, "call")
def call_tool(
    session: Session,
    name: NameArgument,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="KEY=VALUE", help="An argument; a.b=1 sets a key inside an object. Repeatable."
        ),
    ] = None,
    args_json: Annotated[
        str | None,
        typer.Option(
            "--args-json", metavar="JSON", help="All arguments as a JSON object, @FILE, or - for standard input."
        ),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what the call would do, and do not call.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the call of a tool that needs approval.")] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Keep images, files and audio in this folder.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show parts with their data, and output that was cut whole.")
    ] = False,
) -> ExitCode:
    """Call a tool and show its result. Nothing is stored, and no failure is retried.

    The exit code is 0 when the tool is done, 1 when it failed, 2 when the arguments do not fit, and 5 when it waits for
    an answer.
    """
    name, tool = find_tool(session.load(), name)
    arguments = read_arguments(tool.parameters.schema, pairs or (), args_json)
    if save is not None:
        make_folder(save)
    context = Context[Any](on_progress=session.progress)
    if preview:
        result = _preview(session, name, tool, arguments, context)
    else:
        result = _call(session, name, tool, arguments, context, yes)
    return _show(session, result, save, full)


def _preview(session: Session, name: str, tool: Tool, arguments: Arguments, context: Context[Any]) -> ToolResult:
    shown = _settled(session, tool.call_preview(arguments, context))
    if shown is None:
        raise UsageError(f"tool {name!r} has no preview. Declare one with preview= on @tool.")
    return shown


def _call(
    session: Session, name: str, tool: Tool, arguments: Arguments, context: Context[Any], yes: bool
) -> ToolResult:
    try:
        needed = not yes and session.run(_needs_approval(tool, arguments))
    except (Exception, SystemExit) as error:  # the tool's own rule failed: as with the tool, that is a failed result
        return ToolResult.failed(error)
    if needed and not _approved(session, name, tool, arguments, context):
        return ToolResult.failed(f"The call of {name!r} was declined.", code="denied")
    try:
        return _settled(session, tool.call(arguments, context))
    except KeyboardInterrupt:
        text = f"interrupted while tool {name!r} ran"
        raise Interrupted(f"{text}." if tool.effect == "read" else unknown(text).output) from None


def _settled(session: Session, work: Coroutine[Any, Any, T]) -> T | ToolResult:
    """What code of a tool ends with; a failed result where it would end the process: that exit code is not ours."""
    try:
        return session.run(work)
    except SystemExit as error:
        return ToolResult.failed(error)


async def _needs_approval(tool: Tool, arguments: Arguments) -> bool:
    try:
        values, _ = read(tool.parameters, arguments, omit_blank=tool.omit_blank)
    except InvalidArguments:
        return False  # the call itself says so, and never starts
    return await is_approval_due(tool, values)


def _approved(session: Session, name: str, tool: Tool, arguments: Arguments, context: Context[Any]) -> bool:
    if not can_ask():
        raise UsageError(
            f"tool {name!r} needs approval, and there is no terminal to ask on. Approve the call with --yes"
            f"{', or look first with --preview' if tool.preview is not None else ''}."
        )
    shown = _settled(session, tool.call_preview(arguments, context))
    told = arguments if isinstance(arguments, Mapping) else parse(arguments)
    session.say(shown.output if shown is not None else json_text(plain(told, big_ints="number"), indent=2))
    return ask_yes(f"Call {name!r} like this?")


def _show(session: Session, result: ToolResult, save: Path | None, full: bool) -> ExitCode:
    saved, trouble = save_parts(result.parts or (), save) if save is not None else ([], None)
    try:
        session.out.item(envelope(result, full=full, saved=saved), lines(result, full=full, saved=saved))
    except OSError as error:  # exit code 1 alone would say that the call failed
        trouble = NotWritten(f"the call is {result.status}; its result cannot be written: {describe_exception(error)}")
    if result.pending is not None:
        say_request(session, result.pending)
    if trouble is not None:  # told after the result: a full disk must not cost it
        raise trouble
    return exit_code_of(result)
