"""Whether a store does what its protocol says: checks that every store can be run through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isfunction
from types import MappingProxyType, ModuleType
from typing import Final

from ferrule.journal.store import Store
from ferrule.testing._store import requests, runs, wholes, workers
from ferrule.testing._store.ground import Check, Ground


def _checks(*modules: ModuleType) -> Mapping[str, Check]:
    """The public functions that a module itself defines, in its order."""
    return MappingProxyType(
        {
            name: value
            for module in modules
            for name, value in vars(module).items()
            if isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        }
    )


class StoreConformance:
    """Runs checks against a store, one for each sentence of `ferrule.journal.store.Store`.

    A check opens the store, works with names of its own and closes the store, so a place that holds other runs
    will do; what it made stays there. A check reads no clock but the store's and waits for none. With pytest:

        @pytest.mark.parametrize("check", StoreConformance.names())
        def test_my_store(check: str, tmp_path: Path) -> None:
            asyncio.run(StoreConformance(lambda: MyStore(tmp_path / "runs")).run(check))

    Args:
        make: Gives a store that is not open, on a place for tests.

    Since 0.1.
    """

    CHECKS: Final[Mapping[str, Check]] = _checks(runs, workers, requests, wholes)

    def __init__(self, make: Callable[[], Store]) -> None:
        """Make nothing yet."""
        self._make = make

    @classmethod
    def names(cls) -> list[str]:
        """The checks, each a sentence."""
        return list(cls.CHECKS)

    async def run(self, name: str) -> None:
        """Run one check.

        Args:
            name: One of `names`.

        Raises:
            AssertionError: The store does something else; told is what was expected and what was found.
            KeyError: There is no such check.
        """
        check = self.CHECKS[name]
        store = self._make()
        await store.open()
        try:
            await check(Ground(store))
        finally:
            await store.close()
