"""What a run asks, answered on a terminal.

No answer is ever taken for yes, and without a terminal nobody is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from typing import Any, cast

from ferrule.cli.arguments import read_arguments
from ferrule.cli.output import json_text, printable
from ferrule.cli.session import Session
from ferrule.errors import JSONSyntaxError, ToolDefinitionError
from ferrule.result import ToolResult
from ferrule.runtime.answer import OUTPUT, PARAMETERS
from ferrule.strict_json import parse, plain
from ferrule.suspension import Answer, Request
from ferrule.tool.schema.arguments import schema_check
from ferrule.tool.schema.reference import is_schema

if sys.platform != "win32":
    import termios

_ASK_FOR_DATA = ("input", "question")


def can_ask() -> bool:
    """Whether somebody sits at a terminal: what is asked goes to standard error, the answer comes from standard input.

    Since 0.1.
    """
    return sys.stdin.isatty() and sys.stderr.isatty()


def say_request(session: Session, request: Request) -> None:
    """Tell of a request that stays open, with its id.

    Args:
        session: Where to say it.
        request: The request.

    Since 0.1.
    """
    session.say(f"suspended: request {request.id} ({request.kind}): {request.prompt}")
    if request.url:
        session.say(request.url)


async def ask_on_terminal(session: Session, request: Request) -> Answer | None:
    """Show a request whole, its arguments and preview included, and read what somebody decides.

    Args:
        session: Where to show it.
        request: The request.

    Returns:
        The answer; None when they end the input (Ctrl-D) and so leave it open.

    Since 0.1.
    """
    say_shown(session, request)
    _forget_typed()
    schema = _schema_of(request)
    if request.kind not in _ASK_FOR_DATA:
        line = await _line("Agree? [y/N] ")
        if line is None:
            return None
        if not _is_yes(line):
            return Answer(request.id, ok=False, reason="declined", digest=request.digest)
        if not schema.get("properties"):
            return Answer(request.id, ok=True, digest=request.digest)
    given = await (_form(session, schema) if schema.get("properties") else _text())
    if given is None:
        return None
    if not given:
        return Answer(request.id, ok=False, reason="declined", digest=request.digest)
    return Answer(request.id, ok=True, data=given, digest=request.digest)


def say_shown(session: Session, request: Request, instead: Mapping[str, Any] | None = None) -> None:
    """Show a request whole, its arguments and preview included.

    Args:
        session: Where to show it.
        request: The request.
        instead: Arguments that somebody would approve in place of those asked about.

    Since 0.1.
    """
    for line in _shown(request):
        session.say(line)
    if instead is not None:
        session.say(f"arguments instead: {_as_text(instead)}")


def _shown(request: Request) -> list[str]:
    lines = [request.prompt, *([request.url] if request.url else [])]
    schemas = ("schema", *((PARAMETERS, OUTPUT) if request.kind in ("approval", "outcome") else ()))
    for key, value in (request.data or {}).items():
        if key not in schemas:
            lines.append(f"{key}: {_as_text(value)}")
    if request.preview is not None:
        lines.append(f"preview: {_as_text(request.preview)}")
    return lines


def _as_text(value: Any) -> str:
    if isinstance(value, ToolResult):
        return value.output
    return value if isinstance(value, str) else json_text(plain(value, big_ints="number"), indent=2)


def _schema_of(request: Request) -> dict[str, Any]:
    schema = (request.data or {}).get("schema")
    return schema if is_schema(schema) else {}


async def _form(session: Session, schema: dict[str, Any]) -> dict[str, Any] | None:
    """An object that fits its schema: what does not is told and asked again, all of it."""
    try:
        faults_of = schema_check(schema, "the answer")
    except ToolDefinitionError:  # the answer is then for the tool to check
        return await _fields(schema)
    while given := await _fields(schema):
        faults = faults_of(given)
        if not faults:
            break
        session.say("That does not fit. " + " ".join(f"{path}: {rule}." for path, rule in faults))
    return given


async def _fields(schema: dict[str, Any]) -> dict[str, Any] | None:
    """An object by its schema, a line for each property; an empty line leaves out what is not required."""
    pairs: list[str] = []
    required = schema.get("required", ())
    properties: Mapping[str, Any] = schema["properties"]
    for name, field in properties.items():
        about = field.get("description") if is_schema(field) else None
        prompt = f"{name} ({about}): " if about else f"{name}: "
        line = await _line(prompt)
        while line == "" and name in required:
            line = await _line(prompt)
        if line is None:
            return None
        if line:
            pairs.append(f"{name}={line}")
    given = read_arguments(schema, pairs, None)
    return given if isinstance(given, dict) else {}


async def _text() -> dict[str, Any] | None:
    """An answer without a schema: a JSON object is the data, other text stands in it as `text`."""
    line = await _line("Answer: ")
    if not line:
        return None if line is None else {}
    try:
        found: Any = parse(line)
    except JSONSyntaxError:
        found = line
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"text": line}


async def _line(prompt: str) -> str | None:
    """A line from the terminal without its end; None when there is no more. Calls in flight go on meanwhile."""
    _write(prompt)
    loop = asyncio.get_running_loop()
    typed = loop.create_future()
    try:
        number = sys.stdin.fileno()
        loop.add_reader(number, lambda: typed.done() or typed.set_result(None))
    except (OSError, ValueError, NotImplementedError):  # a stand-in for a terminal, or Windows: no way to wait for it
        line = await asyncio.to_thread(sys.stdin.readline)
    else:
        try:
            await typed
        finally:
            loop.remove_reader(number)
        line = sys.stdin.readline()  # a terminal gives whole lines, so this does not wait
    if not line:
        _write("\n")
    return line.rstrip("\r\n") if line else None


def ask_yes(prompt: str) -> bool:
    """Whether somebody agrees. Asked outside the event loop: inside it, the first Ctrl-C would not be heard.

    Args:
        prompt: The question; what it is about is shown already.

    Since 0.1.
    """
    _forget_typed()
    _write(f"{prompt} [y/N] ")
    line = ""
    try:
        line = sys.stdin.readline()
    finally:
        if not line:  # Ctrl-D or Ctrl-C: what comes next has a line of its own
            _write("\n")
    return _is_yes(line)


def _is_yes(line: str) -> bool:
    """Whether a line agrees; anything but yes does not."""
    return line.strip().lower() in ("y", "yes")


def _forget_typed() -> None:
    """Drop what was typed before a question was shown: it is no answer to it."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError, ValueError, termios.error):  # a stand-in for a terminal has nothing to drop
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _write(text: str) -> None:
    sys.stderr.write(printable(text))
    sys.stderr.flush()
