"""Each test stands in an empty folder, and what it imported from there is forgotten afterwards."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.cli.support import SHOP
from tests.unit.projects import Write, forgotten, write_in


@pytest.fixture(autouse=True)
def verbosity() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """`--verbose` lets our logger say more, in this very process."""
    log = logging.getLogger("ferrule")
    level = log.level
    yield
    log.setLevel(level)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.chdir(tmp_path)
    with forgotten(tmp_path):
        yield tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    return write_in(folder)


@pytest.fixture
def shop(write: Write) -> Path:
    """A project with one module of tools."""
    write("shop.py", SHOP)
    return write("ferrule.toml", 'modules = ["shop"]\n').parent
