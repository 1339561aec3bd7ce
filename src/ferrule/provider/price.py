"""What models cost: the only place where tokens become money."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from ferrule.errors import UsageError
from ferrule.message import Usage
from ferrule.provider.base import Capabilities, Delta, Model, ModelRequest, ModelResponse
from ferrule.provider.function import Models, as_model


class Priced:
    """A model with its prices: what it answers has a cost, which runs add up and `Limits(cost=…)` looks at.

    Prices are money per million tokens, in whatever currency; use one for all
    models. An answer whose tokens the provider did not tell has no cost, and
    its run none either: unknown is None, never 0.

    Args:
        model: The model, as an agent takes it.
        input: For input tokens; those written to a cache count as these.
        output: For output tokens.
        cached: For input tokens read from a cache; default as `input`.
        reasoning: For output tokens spent on reasoning; default as `output`.

    Raises:
        UsageError: A price that is no number, or below 0; or no model.

    Since 0.1.
    """

    def __init__(
        self,
        model: Models,
        *,
        input: float,
        output: float,
        cached: float | None = None,
        reasoning: float | None = None,
    ) -> None:
        """Keep the prices for one token."""
        prices = (input, output, input if cached is None else cached, output if reasoning is None else reasoning)
        for price in prices:
            if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:  # pyright: ignore
                raise UsageError("a price must be a number from 0 on: money for a million tokens.")
        self._model: Model = as_model(model)
        self._prices = prices

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        """What it takes."""
        return self._model.capabilities

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """The answer, with its cost.

        Args:
            request: The question.
        """
        return self._charged(await self._model.generate(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """The answer in pieces; the whole has its cost.

        Args:
            request: The question.
        """
        async for piece in self._model.stream(request):
            yield self._charged(piece) if isinstance(piece, ModelResponse) else piece

    def explain(self, request: ModelRequest) -> dict[str, Any]:
        """The exact JSON that would be sent; sends nothing.

        Args:
            request: The question.
        """
        return self._model.explain(request)

    def cost(self, usage: Usage) -> float | None:
        """What was consumed, in money; None when nobody told how many tokens.

        Args:
            usage: What was consumed.
        """
        if usage.input is None or usage.output is None:
            return None
        cached, reasoning = min(usage.cached or 0, usage.input), min(usage.reasoning or 0, usage.output)
        counts = (usage.input - cached, usage.output - reasoning, cached, reasoning)
        return math.fsum(n * price for n, price in zip(counts, self._prices, strict=True)) / 1e6

    def _charged(self, response: ModelResponse) -> ModelResponse:
        if response.usage is None:
            return response
        return response.but(usage=replace(response.usage, cost=self.cost(response.usage)))
