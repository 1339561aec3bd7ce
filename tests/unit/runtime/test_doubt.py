"""A `once` call of which nobody knows whether it happened: its check decides, else a person, and it is never doubled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from tests.clock import run
from tests.unit.runtime.test_cancel import cancelled_when

from ferrule import Agent, Answer, Context, Hooks, Request, RunInfo, RunResult, ToolResult, pending, tool
from ferrule.message import Call, ToolMessage
from ferrule.testing import ScriptedModel, call


class Bank:
    """Money moves, and the line breaks after it, before it, or never does what it is told."""

    def __init__(self, says: Any = None, breaks: str = "after") -> None:
        self.paid: list[str] = []
        self.begun: list[str] = []
        self.asked: list[str] = []
        self.says = says
        self.breaks = breaks

    def tool(self, **options: Any) -> Any:
        async def pay(ctx: Context, amount: int) -> str:
            """Pay."""
            self.begun.append(ctx.effect_key)
            if self.breaks == "before" and len(self.begun) == 1:
                raise ConnectionError("line is down")
            self.paid.append(ctx.effect_key)
            if self.breaks == "after" and len(self.begun) == 1:
                raise ConnectionError("line is down")
            if self.breaks == "deaf":  # to the deadline; the end of the loop is heard
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(1000)
            if self.breaks in ("deaf", "slow"):
                await asyncio.sleep(1000)
            return "paid"

        def check(ctx: Context, arguments: dict[str, Any]) -> Any:
            self.asked.append(ctx.effect_key)
            if isinstance(self.says, Exception):
                raise self.says
            return self.says

        return tool(effect="once", check=check if self.says != "no check" else None, timeout=5, **options)(pay)

    def run(self, on_request: Any = None, hooks: Any = None, **options: Any) -> RunResult[Any]:
        model = ScriptedModel([call("pay", {"amount": 1}), "so"])
        agent = Agent("a", model, tools=[self.tool(**options)], hooks=hooks or [])
        return run(agent.run("go", on_request=on_request))


def nobody(request: Request) -> Answer:
    pytest.fail("asked")


def maybe(request: Request) -> Answer:
    return Answer(request.id, ok=True, data={"outcome": "maybe"})


def told(result: RunResult[Any]) -> ToolMessage:
    return next(m for m in result.messages if isinstance(m, ToolMessage))


@pytest.mark.parametrize("breaks", ["after", "before", "deaf", "slow"])
def test_what_its_check_says_is_the_result(breaks: str) -> None:
    bank = Bank(ToolResult.ok("receipt 7"), breaks)
    result = bank.run()
    assert (result.status, told(result).output, told(result).is_error) == ("done", "receipt 7", False)
    assert bank.asked == bank.begun
    assert len(bank.begun) == 1


def test_a_check_that_fails_the_call_fails_it() -> None:
    result = Bank(ToolResult.failed("refused by the bank", code="refused")).run()
    assert (told(result).output, told(result).is_error) == ("refused by the bank", True)


@pytest.mark.parametrize("breaks", ["before", "slow"])
def test_what_did_not_happen_is_said_not_to_have_and_is_not_made_again_by_itself(breaks: str) -> None:
    bank = Bank(None, breaks)
    result = bank.run()
    assert "its check says that nothing happened" in told(result).output
    assert len(bank.begun) == 1


def test_a_check_that_itself_failed_or_asks_does_not_have_the_call_made_again() -> None:
    for says in (ToolResult.failed(TimeoutError("bank is down")), pending("input", "Which account?")):
        bank = Bank(says)
        result = bank.run(retries=3, on_request=nobody)
        assert (result.status, len(bank.begun), len(bank.asked)) == ("done", 1, 1)
        assert told(result).is_error
        assert says.output in told(result).output


def test_what_did_not_happen_is_made_again_as_often_as_the_tool_allows_with_the_same_key() -> None:
    bank = Bank(None, "before")
    result = bank.run(retries=1)
    assert told(result).output == "paid"
    assert (len(bank.begun), len(set(bank.begun)), len(bank.paid)) == (2, 1, 1)


def test_a_body_that_goes_on_may_do_it_yet_whatever_its_check_has_seen() -> None:
    bank = Bank(None, "deaf")
    result = bank.run(retries=1)
    assert (
        "may still be running; its effect may have happened. Its check finds nothing of it so far."
        in told(result).output
    )
    assert len(bank.begun) == 1


@pytest.mark.parametrize("says", [ValueError("no such table"), "no check"])
def test_without_a_word_from_a_check_it_may_have_happened(says: Any) -> None:
    bank = Bank(says)
    result = bank.run(retries=3)
    assert "its effect may have happened" in told(result).output or "line is down" in told(result).output
    assert ("Its check could not tell" in told(result).output) is isinstance(says, Exception)
    assert len(bank.begun) == 1


DECISIONS: list[tuple[dict[str, Any] | None, str, int]] = [
    ({"outcome": "happened", "value": "receipt 9"}, "receipt 9", 1),
    ({"outcome": "happened"}, "", 1),
    ({"outcome": "not_happened"}, "paid", 2),
    ({"outcome": "failed", "error": "card refused"}, "card refused", 1),
    (None, "line is down", 1),
]


@pytest.mark.parametrize(("data", "output", "begun"), DECISIONS)
def test_a_person_decides_where_the_tool_says_ask(data: dict[str, Any] | None, output: str, begun: int) -> None:
    bank = Bank("no check")
    asked: list[Request] = []

    def decide(request: Request) -> Answer:
        asked.append(request)
        return Answer(request.id, ok=data is not None, data=data)

    result = bank.run(decide, on_unknown="ask")
    assert [(r.kind, (r.data or {})["arguments"]) for r in asked] == [("outcome", {"amount": 1})]
    assert output in told(result).output
    assert (len(bank.begun), len(set(bank.begun))) == (begun, 1)


def test_a_value_that_the_tool_does_not_declare_is_no_answer() -> None:
    def decide(request: Request) -> Answer:
        assert (request.data or {})["output_schema"] == {"type": "string"}
        return Answer(request.id, ok=True, data={"outcome": "happened", "value": 9})

    bank = Bank("no check")
    result = bank.run(decide, on_unknown="ask")
    assert (result.status, [r.kind for r in result.requests], len(bank.begun)) == ("suspended", ["outcome"], 1)


def test_a_check_that_knows_leaves_nothing_to_ask() -> None:
    result = Bank(ToolResult.ok("receipt")).run(nobody, on_unknown="ask")
    assert told(result).output == "receipt"


def test_an_answer_of_another_shape_leaves_it_open() -> None:
    result = Bank("no check").run(maybe, on_unknown="ask")
    assert (result.status, [r.kind for r in result.requests]) == ("suspended", ["outcome"])


@pytest.mark.parametrize("breaks", ["after", "deaf"])
def test_the_run_waits_for_a_person_who_has_not_decided(breaks: str) -> None:
    result = Bank("no check", breaks).run(on_unknown="ask")
    assert (result.status, [r.kind for r in result.requests]) == ("suspended", ["outcome"])


def test_a_cancelled_run_asks_the_check_and_nobody_else() -> None:
    bank = Bank(ToolResult.ok("receipt"), "slow")
    agent = Agent("a", ScriptedModel([call("pay", {"amount": 1})]), tools=[bank.tool(on_unknown="ask")])
    result = cancelled_when(agent, lambda e: e.type == "tool_call", on_request=nobody)
    assert (result.status, told(result).output) == ("cancelled", "receipt")


@pytest.mark.parametrize("says", [ValueError("down"), "no check"])
def test_a_cancelled_run_says_what_it_does_not_know(says: Any) -> None:
    agent = Agent("a", ScriptedModel([call("pay", {"amount": 1})]), tools=[Bank(says, "slow").tool()])
    result = cancelled_when(agent, lambda e: e.type == "tool_call")
    assert "its effect may have happened" in told(result).output


@pytest.mark.parametrize("breaks", ["after", "deaf"])
def test_hooks_see_what_a_check_says(breaks: str) -> None:
    class Stars(Hooks):
        async def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> ToolResult:
            return ToolResult.ok(result.output.replace("7", "*"))

    result = Bank(ToolResult.ok("receipt 7"), breaks).run(hooks=[Stars()])
    assert told(result).output == "receipt *"
