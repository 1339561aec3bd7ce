"""The one place that writes data: tables for people, JSON for programs.

Standard output carries data and nothing else. While a command runs, whatever
else prints (a tool, a module of the project, a child process) is sent to
standard error, by name and by file descriptor.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from enum import StrEnum
from typing import Any, Final, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_NO_TERMINAL_WIDTH: Final = 1_000_000
# What a terminal obeys or what reorders text: a tool's output must not move the cursor or hide a line.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class NotWritten(OSError):
    """What a command made could not be written; the text says what, and why.

    Since 0.1.
    """


class Format(StrEnum):
    """How data is written.

    Since 0.1.
    """

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON of a plain value as text, compact unless an indent is given.

    Args:
        value: What `ferrule.plain` gives.
        indent: Spaces for each level.

    Since 0.1.
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)


def printable(text: str) -> str:
    r"""Text that is safe on a terminal: control characters become visible, like `\x1b`.

    Args:
        text: Any text; newlines and tabs stay.

    Since 0.1.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


class Output:
    """Writes data to one stream in one format.

    Args:
        stream: Where data goes.
        format: As asked for; default a table on a terminal and JSON elsewhere.

    Since 0.1.
    """

    def __init__(self, stream: TextIO, format: Format | None = None) -> None:
        """Settle the format."""
        self._stream = stream
        self._terminal = stream.isatty()
        self.format = format or (Format.TABLE if self._terminal else Format.JSON)

    def items(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str = "") -> None:
        """Write a list: a table, an array, or a line for each item.

        Args:
            rows: Plain objects.
            columns: Keys that the table shows, in order.
            empty: What a person reads in place of an empty table.
        """
        if self.format is Format.JSON:
            self.text(json_text(list(rows), indent=2))
        elif self.format is Format.JSONL:
            self.text("".join(f"{json_text(row)}\n" for row in rows), end="")
        else:
            self._draw([table(columns, rows) if rows else Text(empty)])

    def item(self, data: Any, view: Sequence[RenderableType]) -> None:
        """Write one object.

        Args:
            data: The plain object, for the JSON formats.
            view: What a table is in its place: lines and tables.
        """
        if self.format is Format.TABLE:
            self._draw(view)
        else:
            self.text(json_text(data, indent=2 if self.format is Format.JSON else None))

    def text(self, text: str, end: str = "\n") -> None:
        """Write text as it is, whatever the format.

        Args:
            text: For example a script.
            end: What follows it.
        """
        try:
            self._stream.write(text + end)
            self._stream.flush()
        except OSError as error:
            discard(self._stream)
            if not isinstance(error, BrokenPipeError):
                raise
            # The reader has seen enough (`| head`). The exit code keeps telling what the command did.

    def _draw(self, view: Sequence[RenderableType]) -> None:
        page = io.StringIO()
        width = None if self._terminal else _NO_TERMINAL_WIDTH
        console = Console(
            file=page, width=width, force_terminal=self._terminal, highlight=False, markup=False, emoji=False
        )
        for piece in view:
            console.print(piece, soft_wrap=not isinstance(piece, Table))
        drawn = page.getvalue()
        if not self._terminal:
            drawn = "\n".join(line.rstrip() for line in drawn.split("\n"))
        self.text(drawn, end="")


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, headed: bool = True) -> Table:
    """A table without lines; long cells are folded, never cut.

    Args:
        columns: Keys, in order.
        rows: Objects with those keys.
        headed: Whether the keys stand above it.

    Since 0.1.
    """
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=headed)
    for column in columns:
        made.add_column(Text(column.replace("_", " ")), overflow="fold")
    for row in rows:
        made.add_row(*(_cell(row.get(column)) for column in columns))
    return made


_WORDS: Final = {None: "", True: "yes", False: "no"}
_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "done": "green", "failed": "bold red"}


def _cell(value: Any) -> Text:
    known = _WORDS.get(value) if isinstance(value, bool | None) else None
    return styled(known if known is not None else value if isinstance(value, str) else json_text(value))


def styled(text: str) -> Text:
    """A printable text; words that tell a state have its colour.

    Args:
        text: Any text.

    Since 0.1.
    """
    return Text(printable(text), style=_STYLES.get(text, ""))


@contextmanager
def data_stream() -> Generator[TextIO]:
    """The stream for data; until the end, standard output leads to standard error for everybody else.

    Since 0.1.
    """
    stdout = sys.stdout
    if not _is_standard_output(stdout):
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1)
    encoding = stdout.encoding if stdout.isatty() else "utf-8"
    with os.fdopen(os.dup(1), "w", encoding=encoding, errors="replace") as stream, redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        try:
            yield stream
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def _is_standard_output(stream: TextIO) -> bool:
    """Whether it is the process's own; a stand-in of a test or an embedding program is not."""
    try:
        return stream.fileno() == 1
    except (OSError, ValueError):
        return False


def discard(stream: TextIO) -> None:
    """Let what is still buffered go nowhere, so that closing does not complain a second time.

    Args:
        stream: Nobody reads it any more.

    Since 0.1.
    """
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
