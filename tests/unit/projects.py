"""Projects that tests write, and the modules of theirs that get imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

Write = Callable[[str, str], Path]


def write_in(folder: Path) -> Write:
    """A function that writes a file below a folder, its text dedented."""

    def write(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write


@contextmanager
def forgotten(folder: Path) -> Generator[None]:
    """Let what is imported from a folder, and what is put on the import path, be forgotten afterwards."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
