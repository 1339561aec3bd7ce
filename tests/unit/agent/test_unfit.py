"""What an application's own code gives that no run can use: answers, results of hooks, histories, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from tests.clock import run

from ferrule import (
    Agent,
    Answer,
    Hooks,
    Limits,
    ModelError,
    Priced,
    Request,
    RunInfo,
    Session,
    ToolResult,
    UsageError,
    pending,
    tool,
)
from ferrule.message import Call, ModelMessage, ToolMessage, Usage, user
from ferrule.provider.base import ModelRequest, ModelResponse
from ferrule.testing import ScriptedModel, call

made: list[Any] = []


@tool(effect="once")
async def pay(amount: int, to: list[str] = []) -> str:  # noqa: B006
    """Pay."""
    made.append((amount, to))
    return f"paid {amount}"


PAY = call("pay", '{"amount": 5, "to": ["ada"]}')


def told(agent: Agent[Any, Any], **options: Any) -> list[str]:
    made.clear()
    result = agent.run_sync("go", **options)
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


# -- answers ----------------------------------------------------------------------------------------------------

WORDS: Any = "calls must be Call objects"
ODD: list[tuple[Any, str]] = [
    (ModelResponse(None), "its message is NoneType"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage(None)), "its text must be a str"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage("x"), "weird"), "it ended with 'weird'"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage("x"), usage={"input": 1}), "its usage is dict"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage("x"), usage=Usage("many")), "its usage has 'many' for input"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage("x"), usage=Usage(output=-5)), "its usage has -5 for output"),
    (ModelResponse(ModelMessage("x"), usage=Usage(cached=float("nan"))), "its usage has nan for cached"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage("x"), usage=Usage(cost="1")), "its usage has '1' for cost"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage("x"), usage=Usage(requests=None)), "its usage has None for requests"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage(calls=None)), "its calls are NoneType"),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage(calls=("pay",))), WORDS),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage(calls=(Call("", "pay", {"amount": "x"}),))), WORDS),  # pyright: ignore[reportArgumentType]
    (ModelResponse(ModelMessage(calls=(Call("", None, "{}"),))), WORDS),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("answer", "why"), ODD)
def test_an_answer_that_is_none_is_misuse_at_first_and_later_loses_no_work(answer: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Agent("a", ScriptedModel([answer])).run_sync("go")

    result = Agent("a", ScriptedModel([PAY, answer]), tools=[pay]).run_sync("go")
    assert (result.status, [m.output for m in result.messages if isinstance(m, ToolMessage)]) == ("failed", ["paid 5"])
    assert why in str(result.error)

    stands_in = Agent("a", ScriptedModel([PAY, answer]), tools=[pay], fallback=[ScriptedModel(["fine"])])
    assert stands_in.run_sync("go").output == "fine"


@pytest.mark.parametrize(("answer", "why"), ODD)
def test_a_hook_that_makes_such_an_answer_fails_the_run(answer: Any, why: str) -> None:
    class Change(Hooks):
        def after_model(self, run: RunInfo[Any], request: ModelRequest, response: ModelResponse) -> Any:
            return answer

    result = Agent("a", ScriptedModel(["hi"]), hooks=[Change()]).run_sync("go")
    assert result.status == "failed"
    assert why in str(result.error)


def test_no_word_where_a_value_is_due_is_no_success() -> None:
    result = Agent("a", ScriptedModel([PAY, ""]), tools=[pay], output=int).run_sync("go")
    assert (result.status, result.reason, len(result.messages)) == ("incomplete", "empty_response", 4)


def test_a_cost_that_is_no_number_keeps_no_limit() -> None:
    dear = ModelResponse(ModelMessage(calls=(PAY,)), "tool_calls", Usage(1, 1, cost=float("nan")))
    result = Agent("a", ScriptedModel([dear] * 3), tools=[pay], limits=Limits(cost=1)).run_sync("go")
    assert (result.status, result.reason, result.usage.requests) == ("incomplete", "cost", 1)


@pytest.mark.parametrize(("said", "cost"), [("half", None), ("", 2e-5)])
def test_an_answer_that_failed_in_the_middle_has_a_cost_that_nobody_knows(said: str, cost: float | None) -> None:
    down = ModelError("down", provider="p")
    failed = ModelResponse(ModelMessage(said), "error", error=down)
    other = Priced(ScriptedModel([ModelResponse(ModelMessage("ok"), usage=Usage(10, 10))]), input=1, output=1)
    agent = Agent("a", Priced(ScriptedModel([failed]), input=1, output=1), fallback=[other])
    result = agent.run_sync("go")
    assert (result.status, result.usage.cost) == ("done", cost)


def test_a_limit_on_cost_ends_a_run_of_which_an_answer_failed_in_the_middle() -> None:
    failed = ModelResponse(ModelMessage("half"), "error", error=ModelError("down", provider="p"))
    models = [Priced(ScriptedModel([turn]), input=1, output=1) for turn in (failed, "never asked")]
    result = Agent("a", models[0], fallback=models[1:], limits=Limits(cost=1)).run_sync("go")
    assert (result.status, result.reason, result.usage.requests) == ("incomplete", "cost", 1)


@pytest.mark.parametrize("spent", [None, 5, Usage(input=-1), Usage("many")])  # pyright: ignore[reportArgumentType]
def test_a_hook_that_spends_what_cannot_be_counted_fails_the_run_and_loses_no_work(spent: Any) -> None:
    class Spend(Hooks):
        def before_model(self, run: RunInfo[Any], request: ModelRequest) -> None:
            if len(request.messages) > 1:
                run.spend(spent)

    result = Agent("a", ScriptedModel([PAY, "done"]), tools=[pay], hooks=[Spend()]).run_sync("go")
    assert (result.status, [m.output for m in result.messages if isinstance(m, ToolMessage)]) == ("failed", ["paid 5"])
    assert "what a hook says it spent cannot be counted" in str(result.error)


def after_tool(run: RunInfo[Any], call: Call, result: ToolResult) -> None:
    run.spend(Usage(900, 100, cost=5.0, requests=1))


def before_tool(run: RunInfo[Any], call: Call, tool: Any, arguments: Any) -> None:
    run.spend(Usage(900, 100, cost=5.0, requests=1))


def before_model(run: RunInfo[Any], request: ModelRequest) -> None:
    run.spend(Usage(900, 100, cost=5.0, requests=1))


def after_model(run: RunInfo[Any], request: ModelRequest, response: ModelResponse) -> None:
    run.spend(Usage(900, 100, cost=5.0, requests=1))


@pytest.mark.parametrize("told", [Usage(1, 1, cost=0.01), None])
@pytest.mark.parametrize("limits", [Limits(tokens=1_000), Limits(cost=1)])
@pytest.mark.parametrize("spends", [before_model, after_model, before_tool, after_tool])
def test_limits_look_at_what_any_hook_spent_before_a_model_is_asked_again(
    spends: Any, limits: Limits, told: Usage | None
) -> None:
    model = ScriptedModel([ModelResponse(ModelMessage(calls=(PAY,)), "tool_calls", told)] * 3)
    hook = type("Spend", (Hooks,), {spends.__name__: staticmethod(spends)})()
    result = Agent("a", model, tools=[pay], hooks=[hook], limits=limits).run_sync("go")
    assert (result.status, len(model.requests), result.usage.requests) == ("incomplete", 1, 2)
    assert result.usage.input == (901 if told else 900)
    assert result.usage.cost == (5.01 if told else None)


def test_a_transcript_that_was_sent_is_gone_on_from_though_a_hook_refuses_the_answer() -> None:
    class Shorten(Hooks):
        def before_model(self, run: RunInfo[Any], request: ModelRequest) -> ModelRequest | None:
            return request.but(messages=[user("short")]) if request.messages[0] == user("long") else None

        def after_model(self, run: RunInfo[Any], request: ModelRequest, response: ModelResponse) -> None:
            if response.message.text == "bad":
                raise ValueError("no")

    other = ScriptedModel(["good"])
    result = Agent("a", ScriptedModel(["bad"]), hooks=[Shorten()], fallback=[other]).run_sync("long")
    assert list(result.messages) == [user("short"), *result.messages[1:]]
    assert (result.output, other.requests[0].messages[0]) == ("good", user("short"))


# -- hooks ------------------------------------------------------------------------------------------------------


class Before(Hooks):
    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer

    def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
        return self.answer(arguments)


class After(Before):
    before_tool = Hooks.before_tool

    def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> Any:
        return self.answer(result)


REQUEST = pending(kind="question", prompt="May I?")
BAD_PART = ToolResult("x", False, None, [{"type": "nope"}])


@pytest.mark.parametrize(
    ("answer", "before", "after"),
    [
        (
            REQUEST,
            "Tool 'pay' was not called: a hook returned a request, and only tools can ask.",
            "The call was made, but a hook that checks its result returned a request.",
        ),
        (BAD_PART, "The tool returned a part that is none: part 0", "The tool returned a part that is none: part 0"),
    ],
)
def test_the_result_of_a_hook_is_checked_like_one_of_a_tool(answer: ToolResult, before: str, after: str) -> None:
    (said,) = told(Agent("a", ScriptedModel([PAY, "x"]), tools=[pay], hooks=[Before(lambda _: answer)]))
    assert said.startswith(before)
    assert made == []
    (said,) = told(Agent("a", ScriptedModel([PAY, "x"]), tools=[pay], hooks=[After(lambda _: answer)]))
    assert said.startswith(after)
    assert made == [(5, ["ada"])]


def test_what_a_hook_does_to_the_arguments_it_was_shown_changes_nothing() -> None:
    def change(arguments: Any) -> None:
        arguments["to"].append("eve")
        arguments["amount"] = 500

    assert told(Agent("a", ScriptedModel([PAY, "x"]), tools=[pay], hooks=[Before(change)])) == ["paid 5"]
    assert made == [(5, ["ada"])]


LEFT_OR_CHANGED: list[tuple[Callable[[dict[str, Any]], Any], bool]] = [
    (dict, True),  # the same again: what a hook returns that cleans arguments, and finds them clean
    (lambda a: {"to": a["to"], "amount": a["amount"]}, True),
    (lambda a: {**a, "amount": a["amount"] + 1}, False),
    (lambda a: {"amount": a["amount"]}, False),
    (lambda _: ToolResult.ok("done already"), False),
]


@pytest.mark.parametrize(("answer", "runs"), LEFT_OR_CHANGED)
def test_arguments_that_a_person_edited_run_when_hooks_leave_them_as_they_are(answer: Any, runs: bool) -> None:
    @tool(effect="once", approval=True)
    async def give(amount: int, to: list[str]) -> str:
        """Pay."""
        made.append((amount, to))
        return f"paid {amount}"

    async def edit(request: Request) -> Answer:
        return Answer(request.id, ok=True, arguments={"amount": 3, "to": ["bob"]})

    first: list[int] = []

    def second(arguments: Any) -> Any:  # the first time it looks at what the model asked for
        first.append(1)
        return answer(arguments) if len(first) == 2 else None

    script = ScriptedModel([call("give", '{"amount": 5, "to": ["ada"]}'), "x"])
    told(Agent("a", script, tools=[give], hooks=[Before(second)]), on_request=edit)
    assert made == ([(3, ["bob"])] if runs else [])


class Around(Hooks):
    def __init__(
        self, before: Callable[[ModelRequest], Any] | None = None, after: Callable[[], Any] | None = None
    ) -> None:
        self.before, self.after = before, after

    def before_model(self, run: RunInfo[Any], request: ModelRequest) -> Any:
        return self.before(request) if self.before is not None else None

    def after_model(self, run: RunInfo[Any], request: ModelRequest, response: ModelResponse) -> Any:
        return self.after() if self.after is not None else None


@pytest.mark.parametrize("name", ["pay", "other"])
def test_a_tool_that_a_hook_took_out_of_the_request_cannot_be_called(name: str) -> None:
    @tool(effect="read")
    async def other() -> str:
        """Be left."""
        return "other"

    def hide(request: ModelRequest) -> ModelRequest:
        return request.but(tools=request.tools.filter(lambda t: t.name != "pay"))

    script = [[PAY, call("other")], "x"]
    agent = Agent("a", ScriptedModel(script), tools=[pay, other], hooks=[Around(hide)])
    assert told(agent) == ["There is no tool 'pay'. There are: other.", "other"]
    assert made == []


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        (5, "failed"),
        ([None], "failed"),
        ((m for m in [user("instead")]), "done"),
    ],
)
def test_a_transcript_of_a_hook_is_one_or_fails_the_run(messages: Any, status: str) -> None:
    model = ScriptedModel(["hi"])
    agent = Agent("a", model, hooks=[Around(lambda request: request.but(messages=messages))])
    assert agent.run_sync("go").status == status
    assert [m.text for r in model.requests for m in r.messages] == (["instead"] if status == "done" else [])  # pyright: ignore


@pytest.mark.parametrize("how", ["raises", "waits"])
def test_what_an_answer_consumed_counts_though_a_hook_does_not_let_it_through(how: str) -> None:
    def broken() -> Any:
        if how == "raises":
            raise ValueError
        return asyncio.sleep(1000)

    answer = ModelResponse(ModelMessage("hi"), "stop", Usage(30, 5, cost=0.5))
    agent = Agent("a", ScriptedModel([answer]), hooks=[Around(after=broken)])
    ends: list[Any] = []

    async def main() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await agent.run("go", on_event=lambda event: ends.append(event.value))

    run(main())
    usage = ends[-1].usage
    assert (usage.input, usage.output, usage.cost) == (30, 5, 0.5)


# -- what a run is given ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"context": ["ada"]}, "context must be Mapping, not list"),
        ({"limits": {"turns": 3}}, "limits must be Limits, not dict"),
        ({"history": "earlier"}, "it holds str, which is no message"),
        ({"history": [{"role": "user"}]}, "it holds dict, which is no message"),
    ],
)
def test_misuse_is_named_before_anything_is_done(options: Any, why: str) -> None:
    model = ScriptedModel([])
    with pytest.raises(UsageError, match=why):
        Agent("a", model).run_sync("go", **options)
    assert model.requests == []


def test_a_history_may_be_read_once_only() -> None:
    before = Agent("a", ScriptedModel(["hello"])).run_sync("hi").messages
    model = ScriptedModel(["again"])
    history: Any = (m for m in before)
    Agent("a", model).run_sync("go", history=history)
    assert len(model.requests[0].messages) == 3
    messages: Any = (m for m in before)
    assert len(Session(messages).messages) == 2


def none(run: RunInfo[Any]) -> None:
    return None


async def none_later(run: RunInfo[Any]) -> None:
    return None


@pytest.mark.parametrize("instructions", [None, "", none, none_later])
def test_no_instructions_are_none_and_not_a_word(instructions: Any) -> None:
    model = ScriptedModel(["hi"])
    Agent("a", model, instructions=instructions).run_sync("go")
    assert model.requests[0].instructions == ""


@pytest.mark.parametrize("name", ["turns", "tool_calls", "tokens", "seconds", "cost", "turn_output"])
@pytest.mark.parametrize("value", [-1, float("nan"), "3"])
def test_a_limit_that_would_end_nothing_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"the limit {name} is "):
        Limits(**{name: value})
