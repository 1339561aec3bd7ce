"""`ferrule version` and `ferrule completion`."""

from __future__ import annotations

import os
import platform
from contextlib import redirect_stdout
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, Annotated

import typer

from ferrule.cli.failure import ExitCode
from ferrule.cli.session import Session, command
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = LazyModule("importlib.metadata")


class Shell(StrEnum):
    """A shell that can complete our commands.

    Since 0.1.
    """

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def installed_version() -> str | None:
    """Version of the installed distribution; None when ferrule runs from its sources.

    Since 0.1.
    """
    try:
        return metadata.version("ferrule")
    except metadata.PackageNotFoundError:
        return None


def version_line() -> str:
    """The version of ferrule and of Python, for a person.

    Since 0.1.
    """
    return f"ferrule {installed_version() or '(not installed)'}, Python {platform.python_version()}"


def register_about(root: typer.Typer) -> None:
    """Add the commands to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """

    @command(root, "version")
    def _version(session: Session) -> ExitCode:  # pyright: ignore[reportUnusedFunction]
        """Tell the version of ferrule and of Python."""
        session.out.item({"ferrule": installed_version(), "python": platform.python_version()}, [version_line()])
        return ExitCode.DONE

    @command(root, "completion")
    def _completion(  # pyright: ignore[reportUnusedFunction]
        session: Session,
        shell: Annotated[Shell, typer.Argument(help="The shell that shall complete.", metavar="SHELL")],
    ) -> ExitCode:
        """Print the script that makes a shell complete ferrule's commands.

        For bash: eval "$(ferrule completion bash)", for example in ~/.bashrc.
        """
        session.out.text(_completion_script(root, shell).strip())
        return ExitCode.DONE


def _completion_script(root: typer.Typer, shell: Shell) -> str:
    """The script that a shell evaluates."""
    script = StringIO()
    asks = "_FERRULE_COMPLETE"  # the word by which the script, too, asks for completions
    os.environ[asks] = f"source_{shell}"
    try:
        with redirect_stdout(script):
            root(args=[], prog_name="ferrule")
    except SystemExit:
        pass  # how it ends after printing
    finally:
        del os.environ[asks]
    return script.getvalue()
