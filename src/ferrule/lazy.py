"""Modules that are dear to import and not always needed: loaded when first used.

The face must import fast, so that a command line, a test run and a serverless
start do not pay for what they never touch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module until somebody asks it for a name.

    Type checkers see the real module when it is written like this:

        if TYPE_CHECKING:
            import asyncio
        else:
            asyncio = LazyModule("asyncio")

    Args:
        name: The module's full name.

    Since 0.1.
    """

    def __init__(self, name: str) -> None:
        """Load nothing yet."""
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """A name of the module; kept, so that the next use costs as little as with the module itself."""
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value
