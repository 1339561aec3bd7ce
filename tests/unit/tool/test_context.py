"""What a tool is told: variables, questions and their answers, connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.clock import run

from ferrule import Answer, Context, Request, RequestError, Tool, ToolResult, UsageError, Variables, tool
from ferrule.tool.context import Suspend


def test_variables_behave_like_a_small_mapping() -> None:
    v = Variables({"a": 1})
    v.set("b", 2)
    v["c"] = 3
    v.update({"d": 4})
    v.update(Variables({"e": 5}))
    assert v.as_dict() == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert (v.get("a"), v.get("z"), v.get("z", 9), v["b"]) == (1, None, 9, 2)
    assert (v.contains("a"), "a" in v, "z" in v, len(v), list(v)) == (True, True, False, 5, ["a", "b", "c", "d", "e"])
    v.remove("a")
    v.remove("a")
    assert "a" not in v
    v.clear()
    assert len(v) == 0


def test_a_copy_of_variables_is_apart_from_them() -> None:
    v = Variables({"a": 1})
    other = v.copy()
    other["a"] = 2
    v.as_dict()["a"] = 3
    assert v["a"] == 1


def test_the_repr_of_variables_shows_no_values() -> None:
    assert repr(Variables({"token": "tok_FAKE"})) == "Variables(token)"


def test_the_nth_question_gets_the_nth_answer() -> None:
    @tool
    async def survey(ctx: Context[Any]) -> list[Any]:
        return [ctx.ask("input", q).data for q in ("Name?", "Age?")]

    name = Request("r1", "input", "Name?"), Answer("r1", True, {"value": "Ada"})
    age = Request("r2", "input", "Age?"), Answer("r2", True, {"value": 36})
    asked = run(survey.call({}, Context(answers=[name])))
    assert asked.pending is not None
    assert asked.pending.prompt == "Age?"
    assert run(survey.call({}, Context(answers=[name, age]))).value == [{"value": "Ada"}, {"value": 36}]


def test_another_question_in_the_place_of_an_answered_one_fails_the_call() -> None:
    @tool
    async def ask(ctx: Context[Any]) -> Any:
        return ctx.ask("input", "Colour?").data

    given = [(Request("r1", "input", "Name?"), Answer("r1", True))]
    result = run(ask.call({}, Context(answers=given)))
    assert result.error == "AskMismatch: question 1 was 'input' 'Name?' before the answer and is 'input' 'Colour?' now"


def test_a_question_carries_a_fresh_id_of_its_call() -> None:
    with pytest.raises(Suspend) as suspended:
        Context(call_id="call_7").ask("question", "Sure?", data={"schema": {"type": "object"}})
    request = suspended.value.request
    assert (request.id, request.kind, request.data) == ("call_7/1", "question", {"schema": {"type": "object"}})


def test_a_question_for_a_password_is_refused() -> None:
    schema = {"type": "object", "properties": {"p": {"type": "string", "format": "password"}}}
    with pytest.raises(RequestError, match=r"asks for a password in its schema\. Keep secrets in a connection"):
        Context().ask("input", "Password?", data={"schema": schema})


def test_the_effect_key_is_stable_and_names_run_and_call() -> None:
    ctx = Context(run_id="run_1", call_id="call_2")
    assert (ctx.effect_key, ctx.effect_key) == ("run_1:call_2", "run_1:call_2")
    lone = Context()
    assert lone.effect_key == lone.call_id
    assert Context(effect_key="k").effect_key == "k"


def test_two_contexts_have_different_calls() -> None:
    assert Context().call_id != Context().call_id


def test_state_that_a_tool_keeps_reaches_the_caller() -> None:
    @tool
    async def book(ctx: Context[Any]) -> None:
        ctx.state["hold"] = "H1"
        ctx.ask("approval", "Book it?")

    state: dict[str, Any] = {}
    assert run(book.call({}, Context(state=state))).status == "suspended"
    assert state == {"hold": "H1"}


def test_one_context_serves_many_calls_and_each_has_a_key_of_its_own() -> None:
    @tool
    async def pay(ctx: Context[Any]) -> list[Any]:
        ctx.state["paid"] = True
        return [ctx.effect_key, ctx.call_id, ctx.deps]

    shared = Context(deps=7)
    first, second = (run(pay.call({}, shared)).value for _ in range(2))
    assert first[2] == second[2] == 7
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert shared.state == {}
    assert run(pay.call({}, Context(call_id="c1"))).value[:2] == ["c1", "c1"]


def test_a_variable_hidden_by_an_argument_is_there_again_after_the_call() -> None:
    class Forget(Tool):
        @property
        def name(self) -> str:
            return "forget"

        def execute(self, context: Context[Any]) -> ToolResult:
            context.variables.remove("a")
            return ToolResult.ok()

    variables = Variables({"a": 1})
    asyncio.run(Forget().call({"a": 2}, Context(variables=variables)))
    assert variables.as_dict() == {"a": 1}


def test_a_connection_that_nobody_configured_is_named() -> None:
    with pytest.raises(UsageError, match=r"^no connection 'crm' here\. Give the call a Context with connections=\.$"):
        Context().connection("crm")
    assert Context(connections={"crm": 7}.__getitem__).connection("crm") == 7


@pytest.mark.parametrize("values", [5, "x", [("a", 1)]], ids=repr)
def test_variables_that_are_no_mapping_are_wrong_use(values: Any) -> None:
    for make in (Variables, lambda found: Context(variables=found)):  # pyright: ignore
        with pytest.raises(UsageError, match=f"^variables must be a mapping, not {type(values).__name__}\\.$"):
            make(values)


@pytest.mark.parametrize("answers", [5, [5], [("r1", "yes")], [Answer("r1", True)], [(Answer("r1", True),)]], ids=repr)
def test_answers_without_their_requests_are_wrong_use(answers: Any) -> None:
    expected = r"^answers of a Context must be pairs of a Request and its Answer: answers=\[\(request, answer\)\]\.$"
    with pytest.raises(UsageError, match=expected):
        Context(answers=answers)


def test_the_latest_answer_is_at_hand() -> None:
    assert Context().answer is None
    given = Answer("r1", True)
    assert Context(answers=[(Request("r1", "input", "?"), given)]).answer is given


def test_the_log_names_run_and_call(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ferrule.tool"):
        Context(run_id="run_1", call_id="call_2").log.info("half way")
    record: Any = caplog.records[0]
    assert (record.message, record.run_id, record.call_id) == ("half way", "run_1", "call_2")
