"""`ferrule doctor`: is everything in place? Each finding names its mend."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import typer

from ferrule.app import App
from ferrule.cli.about import installed_version
from ferrule.cli.failure import ExitCode
from ferrule.cli.session import Session, command
from ferrule.errors import FerruleError
from ferrule.lazy import LazyModule
from ferrule.project import find_project

if TYPE_CHECKING:
    from importlib import metadata

    from ferrule.provider import presets
else:
    metadata = LazyModule("importlib.metadata")
    presets = LazyModule("ferrule.provider.presets")


_OLDEST_PYTHON: Final = (3, 11)
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Args:
        check: What was looked at.
        status: `fail` is what makes the command fail; `info` needs no action.
        detail: What was found.
        mend: What to do about it.

    Since 0.1.
    """

    check: str
    status: Literal["ok", "info", "warn", "fail"]
    detail: str
    mend: str = ""


def register_doctor(root: typer.Typer) -> None:
    """Add the command to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """

    @command(root, "doctor")
    def _doctor(session: Session) -> ExitCode:  # pyright: ignore[reportUnusedFunction]
        """Check the installation and the project, and say how to mend what is wrong.

        The exit code is 1 when a check failed.
        """
        findings = list(_examine(session))
        session.out.items([asdict(finding) for finding in findings], ("check", "status", "detail", "mend"))
        return ExitCode.FAILED if any(finding.status == "fail" for finding in findings) else ExitCode.DONE


def _examine(session: Session) -> Iterator[Finding]:
    """All findings, in order."""
    yield _python()
    yield _version()
    yield from _extras()
    yield from _project(session)
    yield _model_keys()


def _python() -> Finding:
    if sys.version_info < _OLDEST_PYTHON:
        return Finding(
            "python", "fail", platform.python_version(), "Use Python {}.{} or newer.".format(*_OLDEST_PYTHON)
        )
    return Finding("python", "ok", platform.python_version())


def _version() -> Finding:
    found = installed_version()
    if found is None:
        return Finding("ferrule", "warn", "runs from its sources, not installed", "Install it with pip.")
    return Finding("ferrule", "ok", found)


def _extras() -> Iterator[Finding]:
    """One finding for each extra that names distributions of its own."""
    try:
        requirements = metadata.requires("ferrule") or []
    except metadata.PackageNotFoundError:
        return
    wanted: dict[str, set[str]] = {}
    for requirement in requirements:
        extra, name = _EXTRA.search(requirement), _NAME.match(requirement)
        if extra and name and name[0] != "ferrule":
            wanted.setdefault(extra[1], set()).add(name[0])
    for extra, names in sorted(wanted.items()):
        missing = sorted(name for name in names if not _is_installed(name))
        if missing:
            mend = f"If you need it: pip install 'ferrule[{extra}]'"
            yield Finding(f"extra {extra}", "info", f"not installed: {', '.join(missing)}", mend)
        else:
            yield Finding(f"extra {extra}", "ok", f"installed: {', '.join(sorted(names))}")


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _project(session: Session) -> Iterator[Finding]:
    named = session.target or find_project(Path.cwd())
    if named is None:
        mend = 'Create a ferrule.toml that says modules = ["your_module"], or name the app with --app.'
        yield Finding("project", "warn", f"no ferrule.toml in {Path.cwd()} or above", mend)
        return
    try:
        app = session.load()
    except FerruleError as error:
        yield Finding("project", "fail", f"{named} does not load", str(error))
        return
    yield Finding("project", "ok", f"{named}, {len(app.tools)} {'tool' if len(app.tools) == 1 else 'tools'}")
    if app.agents:
        named = ", ".join(f"{name} ({agent.models[0].name})" for name, agent in app.agents.items())
        yield Finding("agents", "ok", named)
    yield _schemas(app)
    yield _effects(app)


def _schemas(app: App) -> Finding:
    wrong: list[str] = []
    for name in app.tools.names:
        try:
            _ = app.tools[name].parameters, app.tools[name].output_check
        except Exception as error:  # `definition` of a class tool is code of the user's and may raise anything
            wrong.append(f"{name}: {error}")
    if wrong:
        return Finding("schemas", "fail", "; ".join(wrong), "Correct the definition of each tool named here.")
    return Finding("schemas", "ok", f"all {len(app.tools)} build")


def _effects(app: App) -> Finding:
    """Tools that run as `once` with nothing that could prove whether a call happened."""
    found = [name for name in app.tools.names if not app.tools[name].declares_effect and app.tools[name].check is None]
    if not found:
        return Finding("effect classes", "ok", "every tool declares its effect or has a check")
    detail = f"run as once, never repeated without a person's decision: {', '.join(found)}"
    mend = 'Declare effect="read" on those that change nothing, effect="idempotent" where repeating is harmless.'
    return Finding("effect classes", "info", detail, mend)


def model_keys() -> list[str]:
    """The variables that may hold a provider's key.

    Since 0.1.
    """
    return sorted({key for preset in presets.PRESETS.values() for key in preset.keys})


def _model_keys() -> Finding:
    present = [name for name in model_keys() if os.environ.get(name)]  # names only: no value is ever shown
    if present:
        return Finding("model keys", "info", f"set: {', '.join(present)}")
    return Finding("model keys", "info", "none set", "Only calls to models need one; tools and tests do not.")
