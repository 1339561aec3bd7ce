"""Building a schema: a function of ten parameters with nested models, cold and cached."""

from __future__ import annotations

import enum
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from benchmarks.imports import slowness
from ferrule import FunctionTool


class Level(enum.Enum):
    """A severity."""

    low = "low"
    high = "high"


class Address(BaseModel):
    """Where somebody is."""

    street: str
    town: str = ""


class Customer(BaseModel):
    """Somebody who orders."""

    name: str
    addresses: list[Address]


@dataclass
class Line:
    """One line of an order."""

    item: str
    count: int = 1


def ten() -> Callable[..., Any]:
    """A fresh function each time, so that nothing is cached."""

    def order(
        customer: Customer,
        lines: list[Line],
        level: Level,
        mode: Literal["fast", "slow"],
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
        when: date | None = None,
        note: str = "",
        tags: list[str] | None = None,
        extra: dict[str, int] | None = None,
        urgent: bool = False,
    ) -> str:
        """Place an order.

        Args:
            customer: Who orders.
            lines: What they order.
            level: How severe a delay is.
            mode: How it is sent.
            limit: Most lines.
        """
        return ""

    return order


def main() -> None:
    """Print the time of one build, and of making the same tool again."""
    FunctionTool(ten())  # loads the docstring parser
    cold = []
    for _ in range(30):
        function = ten()
        start = time.process_time()
        FunctionTool(function)
        cold.append(time.process_time() - start)
    again = []
    function = ten()
    FunctionTool(function)
    for _ in range(200):
        start = time.process_time()
        FunctionTool(function)
        again.append(time.process_time() - start)
    first, times = statistics.median(cold) * 1000, slowness()
    print(f"first   {first:6.2f} ms CPU; {first / times:.2f} ms on the reference machine (goal: at most 5)")
    print(f"again   {statistics.median(again) * 1000:6.3f} ms CPU")


if __name__ == "__main__":
    main()
