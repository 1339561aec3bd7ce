"""The command line: one file for each group of commands, one for output, one for errors and exit codes.

`root` puts the groups together; a new group is a module with a `typer.Typer`
whose commands are registered by `session.command`, and one line in `root`.
"""

from ferrule.cli.root import main

__all__ = ["main"]
