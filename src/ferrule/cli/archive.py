"""`ferrule export` and `ferrule import`: a run as one file, out of one store and into another."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ferrule.cli.failure import Conflict, ExitCode
from ferrule.cli.runs import GOES_ON, RunArgument
from ferrule.cli.session import Session, command
from ferrule.cli.store import filled_store, find_run, find_store, has_worker, opened, say_worker
from ferrule.errors import ArchiveError
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    from ferrule.journal import archive
    from ferrule.journal.store import Entry
else:
    archive = LazyModule("ferrule.journal.archive")


def register_archive(root: typer.Typer) -> None:
    """Add the commands to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """
    command(root, "export")(_export_run)
    command(root, "import")(_import_run)


def _export_run(
    session: Session,
    run: RunArgument,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Write here; default standard output.")
    ] = None,
) -> ExitCode:
    """Write a run as one file, its records, requests, answers and bytes: a line of JSON for each.

    It holds what the run holds, arguments and results included.
    """
    store = find_store(session)

    async def write() -> Entry:
        async with opened(store):
            entry = await find_run(store, run)
            lines = archive.export_run(store, entry.run_id)
            if file is None:
                async for line in lines:
                    session.out.text(line.decode(), end="")
            else:
                await _write(file, lines)
            return entry

    entry = session.run(write())
    if entry.state in GOES_ON:
        session.note(f"run {entry.run_id} is {entry.state}. Have one copy of it go on, and cancel the other.")
    return ExitCode.DONE


async def _write(file: Path, lines: AsyncIterator[bytes]) -> None:
    """Write a file that is there whole or not at all."""
    new = tempfile.NamedTemporaryFile(dir=file.absolute().parent, prefix=f".{file.name}-", delete=False)  # noqa: SIM115
    try:
        with new:
            async for line in lines:
                new.write(line)
        Path(new.name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(new.name).unlink()
        raise


def _import_run(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `ferrule export` wrote; - for standard input.")],
) -> ExitCode:
    """Take in a run from its file, all of it or nothing. One that is not over goes on here, where a worker is alive.

    The exit code is 8 when another run has its id or its key.
    """
    store = filled_store(session)

    async def take() -> tuple[Entry, bool, bool]:
        async with opened(store):
            with _lines(file) as lines:
                entry, is_new = await archive.import_run(store, lines)
            return entry, is_new, await has_worker(store, entry)

    try:
        entry, is_new, is_alive = session.run(take())
    except ArchiveError as error:
        if error.taken:
            raise Conflict(error.reason) from error
        raise
    said = f"run {entry.run_id} ({entry.definition}, {entry.state}) is {'in the store' if is_new else 'there already'}."
    data = {"id": entry.run_id, "name": entry.definition, "status": entry.state, "new": is_new}
    session.out.item(data, [Text(said)])
    if entry.state in GOES_ON:
        say_worker(session, is_alive)
    return ExitCode.DONE


@contextmanager
def _lines(file: str) -> Generator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as lines:
        yield lines
