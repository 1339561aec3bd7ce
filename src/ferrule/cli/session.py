"""What every command shares: the global options, the app, the streams, and how a command is registered.

The global options may stand before the command or behind its own options;
`command` adds them to each one, so that every help page lists them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeVar

import typer

from ferrule.app import App
from ferrule.cli.failure import Ended, ExitCode, Interrupted, report
from ferrule.cli.output import Format, Output, data_stream, discard, printable
from ferrule.errors import UsageError
from ferrule.exception import describe_exception
from ferrule.project import load_app
from ferrule.strict_json import text_of

P = ParamSpec("P")
T = TypeVar("T")

_PANEL: Final = "Global options"
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="TARGET",
        rich_help_panel=_PANEL,
        help="The app: a module, module:name, a .py file or a ferrule.toml; default the nearest ferrule.toml upward.",
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--output",
        "-o",
        rich_help_panel=_PANEL,
        help="How data is written; default table on a terminal, json elsewhere.",
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH",
        rich_help_panel=_PANEL,
        help="The file of durable runs; default that of the App or of ferrule.toml, else .ferrule/runs.db beside it.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", rich_help_panel=_PANEL, help="Write no notes to standard error.")
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", rich_help_panel=_PANEL, help="Show log lines, progress and tracebacks on standard error."
    ),
]


@dataclass
class Session:
    """One command line: its global options and where its output goes.

    Args:
        target: The app as `--app` names it.
        format: The format as asked for.
        quiet: Whether notes are left out.
        verbose: Whether log lines, progress and tracebacks are shown.
        store: Where durable runs live, as `--store` names it.
        out: Writes data; there while a command runs.
        loop: Runs asynchronous work; one event loop for a whole command, so that connections are kept.

    Since 0.1.
    """

    target: str | None = None
    format: Format | None = None
    quiet: bool = False
    verbose: bool = False
    store: str | None = None
    out: Output = field(init=False, repr=False)
    loop: asyncio.Runner = field(init=False, repr=False)

    def add(
        self, *, app: str | None, output: Format | None, quiet: bool, verbose: bool, store: str | None = None
    ) -> None:
        """Take global options; what stands behind the command wins over what stands before.

        Args:
            app: As `target`.
            output: As `format`.
            quiet: As `quiet`.
            verbose: As `verbose`.
            store: As `store`.
        """
        self.target = app if app is not None else self.target
        self.store = store if store is not None else self.store
        self.format = output or self.format
        self.quiet |= quiet
        self.verbose |= verbose

    def load(self) -> App:
        """The app that the command is about.

        Raises:
            ConfigurationError: There is none, or it cannot be loaded.
        """
        return load_app(Path.cwd(), target=self.target)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run asynchronous work to its end.

        What is shown after it is shown before the loop is closed, which waits for whatever a tool left in a thread.

        Args:
            work: A coroutine.
        """
        with _woken_by_signals(self.loop.get_loop()):
            return self.loop.run(work)

    def say(self, text: str) -> None:
        """Write a line to standard error that must not be missed.

        Args:
            text: The line.
        """
        try:
            sys.stderr.write(printable(text) + "\n")
            sys.stderr.flush()
        except OSError:  # nobody listens any more, or a disk is full; the command does what it was told
            discard(sys.stderr)

    def note(self, text: str) -> None:
        """Write a line to standard error unless notes are unwanted.

        Args:
            text: The line.
        """
        if not self.quiet:
            self.say(text)

    def progress(self, value: Any) -> None:
        """Show what a tool reports while it runs, where somebody looks.

        Args:
            value: Anything plain.
        """
        if self.verbose or sys.stderr.isatty():
            self.note(value if isinstance(value, str) else text_of(value))


def settle_lines(session: Session, why: str) -> None:
    """Where there is more than one answer, one object at the end is no form: lines take its place.

    Args:
        session: The command line.
        why: What stands against one object.

    Raises:
        UsageError: One object was asked for.

    Since 0.1.
    """
    if session.format is Format.JSON:
        raise UsageError(f"{why}. Use -o jsonl.")
    if session.out.format is Format.JSON:
        session.out.format = Format.JSONL


Body = Callable[Concatenate[Session, P], ExitCode]


def command(group: typer.Typer, name: str) -> Callable[[Body[P]], Body[P]]:
    """Register a command: a function of the session and its own options that returns the exit code.

    Args:
        group: Where it belongs.
        name: The word on the command line. The docstring is its help.

    Returns:
        A decorator that leaves the function as it is.

    Since 0.1.
    """

    def register(body: Body[P]) -> Body[P]:
        def run(ctx: typer.Context, **given: Any) -> None:
            shared = {key: given.pop(key) for key in _SHARED}
            raise typer.Exit(_run(ctx, shared, body, given))

        _give_signature(run, list(inspect.signature(body, eval_str=True).parameters.values())[1:])
        run.__doc__ = body.__doc__
        group.command(name)(run)
        return body

    return register


def _run(ctx: typer.Context, shared: dict[str, Any], body: Callable[..., ExitCode], given: dict[str, Any]) -> ExitCode:
    session: Session = ctx.ensure_object(Session)
    session.add(**shared)
    if session.verbose:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
        logging.getLogger("ferrule").setLevel(logging.DEBUG)  # the traceback of a tool that raises is told there
    heard = signal.getsignal(signal.SIGINT)
    try:
        with data_stream() as stream, asyncio.Runner() as loop:
            session.out, session.loop = Output(stream, session.format), loop
            return _ended(session, body, given)
    except KeyboardInterrupt:  # while the loop waited for what a tool left running: all is told
        return ExitCode.INTERRUPTED
    except SystemExit as error:  # of the user's code: its number must not be taken for one of ours
        raise Ended(describe_exception(error)) from error
    finally:
        if _hears_signals():
            signal.signal(signal.SIGINT, heard)


def _hears_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Have Ctrl-C wake the loop whichever thread the system gives the signal to: it hears only its own by itself."""
    if sys.platform == "win32" or not _hears_signals():
        yield  # there it hears all, and here none
        return
    ears, mouth = socket.socketpair()
    with ears, mouth:
        ears.setblocking(False)
        mouth.setblocking(False)
        loop.add_reader(ears, ears.recv, 4096)
        before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ears)


def _ended(session: Session, body: Callable[..., ExitCode], given: dict[str, Any]) -> ExitCode:
    """How a command ends; what Ctrl-C left behind is told before the loop closes, which may take until the next one."""
    try:
        return body(session, **given)
    except KeyboardInterrupt:
        problem = Interrupted("interrupted.")
    except Interrupted as error:
        problem = error
    except SystemExit:  # it left the loop's tasks as they stood, and comes out of them again when the loop closes
        session.loop.get_loop().set_exception_handler(_unheard)
        raise
    session.loop.get_loop().set_exception_handler(_unheard)
    if _hears_signals():  # all is told: the next one ends the process, wherever in its ending it is
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return report(problem, format=session.format, verbose=False)


def _unheard(_loop: asyncio.AbstractEventLoop, _about: dict[str, Any]) -> None:
    """Takes what tasks raise that end after Ctrl-C, or after code that ended the process: who waited for it is gone."""


def _shared_options(
    ctx: typer.Context,
    *,
    app: AppOption = None,
    output: FormatOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Only its signature is used: the options that every command has."""


_SIGNATURE: Final = inspect.signature(_shared_options, eval_str=True)
_SHARED: Final = tuple(_SIGNATURE.parameters)[1:]


def _give_signature(function: Any, own: list[inspect.Parameter]) -> None:
    """Give a function the parameters that typer reads: context, the command's own, the global ones."""
    context, *shared = _SIGNATURE.parameters.values()
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    signature = inspect.Signature([context, *own, *shared])
    function.__signature__ = signature
    function.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
