"""Modules of a project, imported by name or file; whatever they raise is told with its place in the user's code."""

from __future__ import annotations

import importlib
import re
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

from ferrule.errors import ConfigurationError
from ferrule.exception import describe_exception

_NOT_THEIRS: Final = (Path(__file__).parent, Path(importlib.__file__).parent)


def module_of_file(path: Path, where: str) -> ModuleType:
    """Import a file under the name it has inside its packages, so that its relative imports work.

    Args:
        path: The file.
        where: What names it, for the error.

    Raises:
        ConfigurationError: There is none, or it cannot be imported.

    Since 0.1.
    """
    path = path.resolve()
    if not path.is_file():
        raise ConfigurationError(f"{where}: there is no file {path}. Correct the path.")
    names, folder = [path.stem] if path.stem != "__init__" else [], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    put_on_path([folder])
    module = module_named(".".join(names), where)
    found = getattr(module, "__file__", None)
    if found is None or Path(found).resolve() != path:
        shown = found or "a module built into Python"
        raise ConfigurationError(f"{where}: the name {module.__name__!r} belongs to {shown}. Rename the file.")
    return module


def put_on_path(folders: Sequence[Path]) -> None:
    """Have modules found in folders, in their order and before all others.

    Args:
        folders: The folders.

    Since 0.1.
    """
    for folder in reversed(folders):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # a file written a moment ago must be found


def module_named(name: str, where: str) -> ModuleType:
    """Import a module.

    Args:
        name: Its name.
        where: What names it, for the error.

    Raises:
        ConfigurationError: It is no name, there is no such module, or it cannot be imported.

    Since 0.1.
    """
    if not name or name.startswith(".") or re.search(r"[\s/\\]", name):
        raise ConfigurationError(
            f"{where}: {name!r} is no module name. Write it like pkg.tools, without a leading dot."
        )
    with _interrupts() as pressed:
        try:
            return importlib.import_module(name)
        except BaseException as error:  # whatever a user's module raises is about it, the end of the process too
            if pressed and isinstance(error, KeyboardInterrupt):
                raise
            raise _broken(name, where, error) from error


@contextmanager
def _interrupts() -> Generator[list[int]]:
    """Note each Ctrl-C, so that a module that raises KeyboardInterrupt by itself is told from somebody who pressed it.

    Whoever handled Ctrl-C before still does. Outside the main thread nothing is noted: it never arrives there.
    """
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def note(number: int, frame: FrameType | None) -> Any:
        pressed.append(number)
        return before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # the module may have set a handler of its own
            signal.signal(signal.SIGINT, before)


def _broken(name: str, where: str, error: BaseException) -> ConfigurationError:
    if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
        missing = f"module {name!r}" if error.name == name else f"module {name!r}: {error.name!r} is missing"
        mend = "Correct the name, or add the folder it is in to 'paths'."
        return ConfigurationError(f"{where}: there is no {missing}. {mend}")
    told = describe_exception(error).rstrip(".")
    return ConfigurationError(f"{where}: module {name!r} cannot be imported{_place(error)}: {told}.")


def _place(error: BaseException) -> str:
    """Where in a user's code it was raised, after a comma; "" where no line of it ran."""
    frames = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    theirs = [(p, n) for p, n in frames if p.is_file() and not any(p.is_relative_to(o) for o in _NOT_THEIRS)]
    return ", {}:{}".format(*theirs[-1]) if theirs else ""
