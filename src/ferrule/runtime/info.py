"""What hooks and instructions are told about a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from ferrule.errors import UsageError
from ferrule.message import Usage, miscounted

Deps = TypeVar("Deps", default=Any)


class RunInfo(Generic[Deps]):
    """What hooks and instructions are told about the run.

    Args:
        run_id: The run's id.
        context: The run's JSON object: user, tenant, locale.
        deps: Live objects of the application.

    Since 0.1.
    """

    __slots__ = ("context", "deps", "run_id", "spent")

    def __init__(self, run_id: str, context: Mapping[str, Any], deps: Deps) -> None:
        """Keep what the caller knows."""
        self.run_id = run_id
        self.context = context
        self.deps: Deps = deps
        self.spent: Usage | None = None

    def spend(self, usage: Usage) -> None:
        """Count for the run what a hook consumed by itself, for example by asking a model of its own.

        Args:
            usage: What it consumed.

        Raises:
            UsageError: It is no `Usage`, or counts what is no number from 0.
        """
        given = cast("object", usage)  # a hook is the application's own code
        wrong = "its usage is None" if given is None else miscounted(given)
        if wrong is not None:
            raise UsageError(f"what a hook says it spent cannot be counted: {wrong}.")
        self.spent = usage if self.spent is None else self.spent + usage


def new_run_id() -> str:
    """A fresh id for a run.

    Since 0.1.
    """
    return f"run_{os.urandom(8).hex()}"
