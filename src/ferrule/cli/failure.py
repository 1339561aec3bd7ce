"""The one place for errors and exit codes.

A failing tool is data and goes to standard output like any result. What ends up
here is misuse: the command line, the project or the environment is wrong.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from ferrule.cli.output import Format, NotWritten, discard, json_text, printable
from ferrule.errors import AnswerRefused, FerruleError, JSONSyntaxError, StoreError
from ferrule.exception import describe_exception
from ferrule.redact import scrub
from ferrule.result import ToolResult

if TYPE_CHECKING:
    from ferrule.journal.store import State
    from ferrule.machine import Status
    from ferrule.runtime.outcome import RunResult


class ExitCode(IntEnum):
    """What the process ends with; stable, scripts rely on it.

    Since 0.1.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    STORE = 4
    SUSPENDED = 5
    CANCELLED = 6
    CONFLICT = 8
    BLOCKED = 9
    INTERRUPTED = 130


class Conflict(FerruleError):
    """What is asked for does not go with how things stand by now.

    Since 0.1.
    """


class Interrupted(Exception):
    """Somebody pressed Ctrl-C; the text says what that may have left behind.

    Since 0.1.
    """


class Ended(Exception):
    """Code of the project would have ended the process; the text is what it raised.

    Since 0.1.
    """


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a person and a program read it.

    Args:
        code: A stable word for programs.
        title: What kind of error it is.
        detail: This very error: cause, place and mend.
        exit_code: What the process ends with.

    Since 0.1.
    """

    code: str
    title: str
    detail: str
    exit_code: ExitCode

    def to_dict(self) -> dict[str, str]:
        """The problem+json object."""
        return {"type": f"/problems/{self.code}", "title": self.title, "detail": self.detail, "code": self.code}


_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TITLES: Final = {
    "usage": "The command line is not valid",
    "configuration": "The project cannot be loaded",
    "unknown_tool": "There is no such tool",
    "tool_definition": "A tool is declared wrongly",
    "tool_name": "Two tools share a name",
    "invalid_json": "The text is not JSON",
    "request": "The answer does not fit",
    "store": "The store of runs cannot be used",
    "archive": "The file of a run cannot be taken in",
    "lease_lost": "Another worker has taken the run",
    "conflict": "It does not go with how things stand",
    "answer_refused": "The answer was not taken",
    "already_answered": "Somebody has answered otherwise",
    "io": "A file or stream cannot be used",
    "interrupted": "Interrupted",
    "internal": "Unexpected error",
}


# Errors of ours that are neither usage nor invalid input.
_ENDS: Final = {StoreError: ExitCode.STORE, AnswerRefused: ExitCode.CONFLICT, Conflict: ExitCode.CONFLICT}


def problem_of(error: BaseException) -> Problem:
    """What an exception means for whoever called the command.

    Args:
        error: Anything a command raised.

    Since 0.1.
    """
    code, detail, exit_code = _read(error)
    return Problem(code, _TITLES.get(code, "The command line is not valid"), detail, exit_code)


def _read(error: BaseException) -> tuple[str, str, ExitCode]:
    if isinstance(error, typer.TyperException):
        return "usage", _with_help(error), ExitCode.USAGE
    if isinstance(error, FerruleError):
        word = "InvalidJSON" if isinstance(error, JSONSyntaxError) else type(error).__name__.removesuffix("Error")
        exit_code = next((code for kind, code in _ENDS.items() if isinstance(error, kind)), ExitCode.USAGE)
        return _CAMEL.sub("_", word).lower(), str(error), exit_code
    if isinstance(error, Interrupted):
        return "interrupted", str(error), ExitCode.INTERRUPTED
    if isinstance(error, OSError):
        return "io", str(error) if isinstance(error, NotWritten) else describe_exception(error), ExitCode.FAILED
    told = str(error) if isinstance(error, Ended) else describe_exception(error)
    return "internal", f"{told}. Run it again with --verbose for the traceback.", ExitCode.FAILED


def _with_help(error: typer.TyperException) -> str:
    """The parser's message as sentences on one line."""
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    message = re.sub(r" \((Possible options: .+)\)$", r". \1", message)
    message = message if message.endswith((".", "?")) else f"{message}."
    context = getattr(error, "ctx", None)
    return f"{message} See {context.command_path} --help." if context is not None else message


def report(error: BaseException, *, format: Format | None, verbose: bool) -> ExitCode:
    """Write an error to standard error.

    Args:
        error: Anything a command raised.
        format: As asked for; default text on a terminal and JSON elsewhere.
        verbose: Whether the traceback is shown too.

    Returns:
        What the process ends with.

    Since 0.1.
    """
    problem = problem_of(error)
    try:
        if verbose:
            sys.stderr.write(scrub("".join(traceback.format_exception(error))))
        if format is Format.TABLE or (format is None and sys.stderr.isatty()):
            console = Console(stderr=True, highlight=False, markup=False, emoji=False)
            console.print(Text.assemble(("Error: ", "bold red"), printable(problem.detail)), soft_wrap=True)
        else:
            sys.stderr.write(json_text(problem.to_dict()) + "\n")
        sys.stderr.flush()
    except (OSError, SystemExit):  # which rich makes of a broken pipe; the exit code still tells
        discard(sys.stderr)
    return problem.exit_code


_CODES: Final[dict[Status | State, ExitCode]] = {
    "done": ExitCode.DONE,
    "incomplete": ExitCode.FAILED,
    "failed": ExitCode.FAILED,
    "suspended": ExitCode.SUSPENDED,
    "cancelled": ExitCode.CANCELLED,
    "blocked": ExitCode.BLOCKED,
}


def exit_code_of(result: ToolResult | RunResult[Any]) -> ExitCode:
    """What the process ends with after a call or a run.

    Args:
        result: How it ended.

    Since 0.1.
    """
    if isinstance(result, ToolResult) and result.failure is not None and result.failure.code == "invalid_arguments":
        return ExitCode.USAGE
    return _CODES[result.status]


def exit_code_for(state: State) -> ExitCode:
    """What the process ends with that has followed a run to its halt.

    Args:
        state: How the run stands.

    Since 0.1.
    """
    return _CODES[state]


def asked_format(argv: Sequence[str]) -> Format | None:
    """The format a command line asks for, read without its parser: for errors that come before it or from it.

    Args:
        argv: The arguments.

    Since 0.1.
    """
    for i, word in enumerate(argv):
        if word == "--":
            break
        name, _, value = word.partition("=")
        if word in ("-o", "--output"):
            value = argv[i + 1] if i + 1 < len(argv) else ""
        elif name != "--output":
            value = word[2:] if re.match("-o.", word) else ""
        if value in list(Format):
            return Format(value)
    return None
