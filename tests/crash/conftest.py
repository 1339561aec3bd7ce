"""Stores that processes share, and lose their holders in."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.kit import Site
from tests.crash.world import Sink
from tests.store.conftest import dsn, unique_schema

__all__ = ["dsn"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def site(request: pytest.FixtureRequest) -> Site:
    """What makes a fresh store, and what happens outside of it, in a folder."""
    server: str | None = request.getfixturevalue("dsn") if request.param == "postgres" else None

    def make(folder: Path) -> tuple[str, Sink]:
        place = str(folder / "runs.db") if server is None else f"{server}#{unique_schema()}"
        return place, Sink(folder / "sink")

    return make
