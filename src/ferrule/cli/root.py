"""The `ferrule` command: its groups, and how it starts and ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from ferrule.cli.about import register_about, version_line
from ferrule.cli.agent import register_agent
from ferrule.cli.archive import register_archive
from ferrule.cli.doctor import register_doctor
from ferrule.cli.failure import ExitCode, Interrupted, asked_format, report
from ferrule.cli.history import register_history
from ferrule.cli.inbox import register_inbox
from ferrule.cli.runs import register_runs
from ferrule.cli.session import AppOption, FormatOption, QuietOption, Session, StoreOption, VerboseOption
from ferrule.cli.tool import group as tool_group

PROGRAM: Final = "ferrule"
_CODES: Final = (
    "0 done, 1 failed, 2 usage or invalid input, 4 store unusable, 5 suspended, 6 cancelled, 7 stopped waiting, "
    "8 conflict, 9 blocked, 130 interrupted"
)

cli = typer.Typer(
    name=PROGRAM,
    help="Tool calls you can account for.",
    epilog=f"Exit codes: {_CODES}.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
cli.add_typer(tool_group, name="tool")
register_agent(cli)
register_runs(cli)
register_history(cli)
register_inbox(cli)
register_archive(cli)
register_doctor(cli)
register_about(cli)


@cli.callback()
def _start(  # pyright: ignore[reportUnusedFunction] - typer calls it
    ctx: typer.Context,
    app: AppOption = None,
    output: FormatOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    version: Annotated[bool, typer.Option("--version", help="Tell the version of ferrule and of Python.")] = False,
) -> None:
    ctx.ensure_object(Session).add(app=app, output=output, quiet=quiet, verbose=verbose, store=store)
    if version:
        typer.echo(version_line())
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@cache
def build() -> Any:
    """The command as typer makes it of `cli`.

    `ferrule completion` prints a shell's script. Typer's own two options, one of
    which edits the files of the shell, are left out.

    Since 0.1.
    """
    made: Any = get_command(cli)
    made.params = [option for option in made.params if option.name not in ("install_completion", "show_completion")]
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        argv: The arguments; default those of the process.

    Returns:
        The exit code, one of `ExitCode`.

    Since 0.1.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    session = Session()
    try:
        code = build().main(args=words, prog_name=PROGRAM, standalone_mode=False, obj=session)
        return code if isinstance(code, int) else ExitCode.DONE
    except SystemExit:  # the shell asked for completions, and that is how they end
        raise
    except KeyboardInterrupt:
        problem: BaseException = Interrupted("interrupted.")
    except BaseException as error:  # the outermost frame: whatever it is, the caller gets a problem and an exit code
        problem = error
    verbose = session.verbose or "--verbose" in words or "-v" in words
    return report(problem, format=session.format or asked_format(words), verbose=verbose)
