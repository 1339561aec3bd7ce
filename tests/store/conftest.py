"""Stores to test: each kind on a fresh place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.store import postgres

from ferrule.journal.postgres import PostgresStore
from ferrule.journal.sqlite import MemoryStore, SqliteStore
from ferrule.journal.store import Store

Make = Callable[[], Store]

KINDS = [
    "memory",
    "sqlite",
    "sqlite, process",
    pytest.param("postgres", marks=pytest.mark.needs("postgres")),
]


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    with postgres.server() as found:
        yield found


def unique_schema() -> str:
    return f"ferrule_test_{os.urandom(6).hex()}"


@pytest.fixture(scope="session")
def postgres_schema() -> str:
    """One schema for all checks, as they use names of their own; another one for each process of tests."""
    return unique_schema()


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    kind: str = request.param
    if kind == "memory":
        return MemoryStore
    if kind == "postgres":
        found: str = request.getfixturevalue("dsn")
        schema: str = request.getfixturevalue("postgres_schema")
        return lambda: PostgresStore(found, schema=schema)
    return lambda: SqliteStore(tmp_path / "runs.db", durability="process" if "," in kind else "power")
