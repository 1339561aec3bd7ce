"""Each test stands in an empty folder, and what it imported from there is forgotten afterwards."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.cli.support import SHOP, Write, write_in


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def write(folder: Path) -> Write:
    return write_in(folder)


@pytest.fixture
def shop(write: Write) -> Path:
    """A project with one module of tools."""
    write("shop.py", SHOP)
    return write("ferrule.toml", 'modules = ["shop"]\n').parent
