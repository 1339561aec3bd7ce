"""Every store does what the protocol says, and the kit finds those that do not."""

from __future__ import annotations

import asyncio

import pytest
from tests.store.conftest import Make

from ferrule.testing import StoreConformance


@pytest.mark.parametrize("check", StoreConformance.names())
def test_a_store_keeps_the_protocol(check: str, make: Make) -> None:
    asyncio.run(StoreConformance(make).run(check))
