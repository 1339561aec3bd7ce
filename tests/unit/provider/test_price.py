"""Prices: what an answer costs, what nobody knows, and the limit that looks at it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import run

from ferrule import Agent, Limits, ModelError, Priced, UsageError, tool
from ferrule.message import ModelMessage, Usage
from ferrule.provider.base import Capabilities, Model, ModelRequest, ModelResponse
from ferrule.testing import ScriptedModel, call

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(input=MILLION, output=0), 2.0),
        (Usage(input=0, output=MILLION), 8.0),
        (Usage(input=MILLION, output=MILLION, cached=MILLION // 2), 1.0 + 0.1 + 8.0),
        (Usage(input=0, output=MILLION, reasoning=MILLION // 4), 6.0 + 4.0),
        (Usage(input=0, output=0), 0.0),
        (Usage(input=10, output=0, cached=20), 10 * 0.2 / MILLION),  # more from the cache than there was
        (Usage(input=5), None),
        (Usage(output=5), None),
        (Usage(), None),
        (Usage(input=MILLION, output=0, cost=7.0), 2.0),  # the prices that were given win
    ],
)
def test_an_answer_costs_what_its_tokens_do(usage: Usage, cost: float | None) -> None:
    script = ScriptedModel([ModelResponse(ModelMessage("ok"), usage=usage)] * 2)
    model = Priced(script, input=2, output=8, cached=0.2, reasoning=16)
    agent = Agent("a", model)
    assert run(agent.run("go")).usage.cost == (None if cost is None else pytest.approx(cost))

    async def streamed() -> Any:
        async with agent.stream("go") as events:
            async for _ in events:
                pass
        return events.result.usage.cost

    assert run(streamed()) == (None if cost is None else pytest.approx(cost))


@given(*[st.integers(0, 10**9)] * 4, *[st.floats(0, 1e3)] * 2)
def test_without_further_prices_all_tokens_cost_the_same(
    tokens: int, output: int, cached: int, reasoning: int, price: float, other: float
) -> None:
    usage = Usage(tokens, output, min(cached, tokens), min(reasoning, output))
    cost = Priced(ScriptedModel([]), input=price, output=other).cost(usage)
    assert cost == pytest.approx((tokens * price + output * other) / 1e6)


@pytest.mark.parametrize("price", [-1, math.nan, math.inf, True, "1", None])
def test_what_is_no_price_is_refused(price: Any) -> None:
    with pytest.raises(UsageError, match="a price must be a number from 0 on: money for a million tokens"):
        Priced(ScriptedModel([]), input=price, output=1)


def test_a_priced_model_is_the_model_otherwise() -> None:
    script = ScriptedModel(["ok"], name="x:y", capabilities=Capabilities(audio=True))
    model = Priced(script, input=1, output=1)
    assert isinstance(model, Model)
    assert (model.name, model.capabilities) == ("x:y", Capabilities(audio=True))
    assert model.explain(ModelRequest([])) == script.explain(ModelRequest([]))
    assert Priced("ollama:gemma", input=0, output=0).name == "ollama:gemma"


# -- the limit --------------------------------------------------------------------------------------------------


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def asks(usage: Usage | None) -> ModelResponse:
    return ModelResponse(ModelMessage("", (call("add", '{"a": 1, "b": 1}'),)), "tool_calls", usage)


@pytest.mark.parametrize("untold", [None, Usage(), Usage(input=5), Usage(5, 5)])
def test_a_run_of_unknown_cost_ends_before_it_asks_again(untold: Usage | None) -> None:
    model = ScriptedModel([asks(Usage(5, 5, cost=0.1)), asks(untold), "never"])
    result = run(Agent("a", model, tools=[add], limits=Limits(cost=1.0)).run("go"))
    if untold == Usage():  # it says that it consumed nothing
        assert (result.status, result.usage.cost) == ("done", None)
        return
    assert (result.status, result.reason, len(model.requests), result.usage.cost) == ("incomplete", "cost", 2, None)
    assert result.describe().endswith(
        "is incomplete: what it has cost so far is unknown, so the limit on it cannot be kept. "
        "Give each model its prices with Priced(model, input=..., output=...), or set no limit on cost."
    )


def test_without_a_limit_an_unknown_cost_is_none_and_ends_nothing() -> None:
    model = ScriptedModel(
        [asks(Usage(5, 5, cost=0.1)), asks(None), ModelResponse(ModelMessage("ok"), usage=Usage(1, 1))]
    )
    result = run(Agent("a", model, tools=[add]).run("go"))
    assert (result.status, result.usage) == ("done", Usage(6, 6, requests=3, tool_calls=2))


def test_an_answer_that_needs_no_other_is_never_too_dear() -> None:
    result = run(Agent("a", ScriptedModel(["ok"]), limits=Limits(cost=0.01)).run("go"))
    assert (result.status, result.output, result.usage) == ("done", "ok", Usage(requests=1))


def test_a_request_that_failed_leaves_the_cost_known_and_the_next_model_its_turn() -> None:
    first = ScriptedModel([ModelError("down", provider="x")])
    second = Priced(ScriptedModel([asks(Usage(MILLION, 0)), asks(Usage(MILLION, 0)), "never"]), input=1, output=1)
    result = run(Agent("a", first, fallback=[second], tools=[add], limits=Limits(cost=1.5)).run("go"))
    assert (result.reason, result.error, result.usage) == (
        "cost",
        None,
        Usage(2 * MILLION, 0, cost=2.0, requests=3, tool_calls=2),
    )


@pytest.mark.parametrize("usage", [Usage(MILLION, 0, cost=1.0), None])
def test_the_cost_of_runs_inside_counts(usage: Usage | None) -> None:
    inner = Agent("inner", ScriptedModel([ModelResponse(ModelMessage("ok"), usage=usage)]))
    ask = ModelMessage("", (call("inner", '{"input": "x"}'),))
    model = ScriptedModel([ModelResponse(ask, "tool_calls", Usage(1, 1, cost=0.25)), "never"])
    result = run(Agent("outer", model, tools=[inner.as_tool()], limits=Limits(cost=1.0)).run("go"))
    assert (result.reason, len(model.requests)) == ("cost", 1)
    assert result.usage.cost == (1.25 if usage else None)
    assert (result.error is None) == (usage is not None)


def test_nothing_may_be_spent_at_all() -> None:
    model = ScriptedModel(["never"])
    result = run(Agent("a", model, limits=Limits(cost=0)).run("go"))
    assert (result.reason, result.error, len(model.requests)) == ("cost", None, 0)
