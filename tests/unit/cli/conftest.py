"""What commands change in this process and must not be left to other tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def verbosity() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """`--verbose` lets our logger say more."""
    log = logging.getLogger("ferrule")
    level = log.level
    yield
    log.setLevel(level)
