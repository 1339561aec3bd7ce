"""A small project for command lines to work on, and a command line run in this process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest

from ferrule.cli import main

SHOP = '''
import base64
import os
from typing import Any

from ferrule import Context, Part, Tool, ToolResult, audio, auth_required, file, image, pending, tool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CALLS: list[Any] = []


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    The second one is optional.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@tool(effect="read")
def echo(word: str = "", flag: bool = False, many: list[int] | None = None, extra: dict[str, Any] | None = None) -> Any:
    """Give the arguments back."""
    return {"word": word, "flag": flag, "many": many, "extra": extra}


@tool(effect="read")
def draw() -> Part:
    """Draw a dot."""
    return image(PNG, name="../../dot.png")


@tool(effect="read")
def fail() -> ToolResult:
    """Fail."""
    return ToolResult.failed("the shelf is empty", code="unavailable")


@tool(effect="read")
def sign_in() -> ToolResult:
    """Wait for a sign-in."""
    return auth_required("https://example.org/login", "Sign in, please.")


@tool(effect="read")
def loud() -> str:
    """Print by every road to standard output."""
    print("printed")
    os.write(1, b"written\\n")
    os.system("echo child")
    return "result"


def show(ctx: Context[Any], arguments: dict[str, Any]) -> str:
    return f"would pay {arguments['amount']}"


@tool(approval=True, preview=show)
def pay(amount: int) -> str:
    """Pay."""
    CALLS.append(amount)
    return "paid"


@tool(effect="idempotent", approval=lambda arguments: arguments["amount"] > 100)
def book(amount: int) -> str:
    """Book, with approval above 100."""
    CALLS.append(amount)
    return "booked"
'''


@dataclass(frozen=True)
class Ran:
    """How a command line ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        """What a program reads from standard output."""
        return json.loads(self.stdout)

    @property
    def problem(self) -> dict[str, Any]:
        """What a program reads from standard error: one object, and nothing beside it."""
        assert self.stdout == ""
        return json.loads(self.stderr)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def ferrule(*words: str, stdin: str = "", terminal: bool = False, term: str = "dumb") -> Ran:
    """Run a command line; with `terminal`, all its streams say they are one, of the kind `term`."""
    out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        given = (
            Terminal(stdin)
            if terminal
            else io.TextIOWrapper(io.BytesIO(stdin.encode(errors="surrogateescape")), encoding="utf-8")
        )
        patch.setattr("sys.stdin", given)
        patch.setenv("COLUMNS", "200")
        patch.setenv("TERM", term)
        code = main(words)
    return Ran(code, out.getvalue(), err.getvalue())
