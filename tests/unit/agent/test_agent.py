"""Agents in memory: the table of endings, pairing, limits, hooks, sub-agents, structured output."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.clock import run

from ferrule import (
    Agent,
    Answer,
    Context,
    Event,
    Hooks,
    Limits,
    ModelError,
    Request,
    RunError,
    RunInfo,
    Session,
    SessionBusy,
    ToolResult,
    UsageError,
    image,
    tool,
)
from ferrule.agent import agent as agents
from ferrule.message import Call, ModelMessage, ToolMessage, Usage, UserMessage, unpaired, user
from ferrule.provider.base import ModelRequest, ModelResponse
from ferrule.testing import ScriptedModel, ScriptExhausted, call

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 30


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def slow(name: str, seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return name


@tool
async def broken() -> str:
    """Raise."""
    raise ValueError("no luck")


def outputs(messages: Any) -> list[str]:
    return [m.output for m in messages if isinstance(m, ToolMessage)]


# -- the table of endings ---------------------------------------------------------------------------------------


def test_text_without_calls_ends_the_run() -> None:
    model = ScriptedModel(["Good day."])
    result = run(Agent("a", model, instructions="Be brief.").run("Hello"))
    assert (result.status, result.output, result.value, result.error) == ("done", "Good day.", "Good day.", None)
    assert model.requests[0].instructions == "Be brief."
    assert list(result.messages) == [user("Hello"), ModelMessage("Good day.")]
    assert result.usage == Usage(requests=1)


def test_calls_are_made_and_their_results_go_back_in_call_order() -> None:
    model = ScriptedModel(
        [
            [call("slow", '{"name": "x", "seconds": 3}', "p1"), call("slow", '{"name": "y", "seconds": 1}', "p2")],
            "both",
        ]
    )
    result = run(Agent("a", model, tools=[slow]).run("go"))
    assert result.status == "done"
    last = model.requests[1].messages
    assert [type(m) for m in last] == [UserMessage, ModelMessage, ToolMessage, ToolMessage]
    told = [m for m in last if isinstance(m, ToolMessage)]
    assert [(m.call.id, m.call.wire_id, m.output) for m in told] == [("t1.0", "p1", "x"), ("t1.1", "p2", "y")]


@pytest.mark.case("C044")
def test_a_tool_that_raises_is_told_to_the_model_and_spares_its_siblings() -> None:
    model = ScriptedModel([[call("broken"), call("add", '{"a": 1, "b": 2}')], "ok"])
    result = run(Agent("a", model, tools=[broken, add]).run("go"))
    assert outputs(result.messages) == ["ValueError: no luck", "3"]
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [True, False]


@pytest.mark.case("C023")
def test_an_unknown_tool_gets_a_result_with_close_names_and_the_run_goes_on() -> None:
    model = ScriptedModel([call("ad"), "ok"])
    result = run(Agent("a", model, tools=[add]).run("go"))
    assert result.status == "done"
    assert outputs(result.messages) == ["There is no tool 'ad'. Close names: add."]


@pytest.mark.parametrize(
    "text", ['{"a": 1', '{"a": 1, "b": 2} {}', "[1]", '{"a": "x", "b": 1}', '{"a": 1, "a": 2, "b": 3}']
)
def test_arguments_that_are_not_right_execute_nothing(text: str) -> None:
    made: list[int] = []

    @tool
    async def write(a: int, b: int) -> None:
        made.append(a)

    model = ScriptedModel([call("write", text), "ok"])
    result = run(Agent("a", model, tools=[write]).run("go"))
    assert made == []
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert message.is_error
    assert message.output.startswith("Tool 'write' was not called. The arguments")


@pytest.mark.case("C055", "C059")
@pytest.mark.parametrize(
    ("response", "status", "reason"),
    [
        (ModelResponse(ModelMessage("cut", (call("add", '{"a": 1, "b": 1}'),)), "length"), "incomplete", "length"),
        (ModelResponse(ModelMessage("half a sen"), "length"), "incomplete", "length"),
        (
            ModelResponse(ModelMessage("", (call("add", '{"a": 1, "b": 1}')._replace(complete=False),)), "tool_calls"),
            "incomplete",
            "length",
        ),
        (ModelResponse(ModelMessage("I cannot"), "refusal"), "failed", "refusal"),
        (ModelResponse(ModelMessage(""), "content_filter"), "failed", "content_filter"),
        (
            ModelResponse(ModelMessage("", (call("add", '{"a": 1, "b": 1}'),)), "content_filter"),
            "failed",
            "content_filter",
        ),
        (ModelResponse(ModelMessage(""), "stop", flagged=True), "incomplete", "empty_response"),
        (ModelResponse(ModelMessage(" \n"), "tool_calls"), "incomplete", "empty_response"),
        (ModelResponse(ModelMessage("half"), "unknown"), "failed", "unknown"),
        (ModelResponse(ModelMessage(""), "error"), "failed", "error"),
    ],
)
def test_each_other_ending_of_an_answer_executes_nothing_and_says_why(
    response: ModelResponse, status: str, reason: str
) -> None:
    made: list[int] = []

    @tool(name="add")
    async def spy(a: int, b: int) -> None:
        made.append(a)

    result = run(Agent("a", ScriptedModel([response]), tools=[spy]).run("go"))
    assert (result.status, result.reason, made) == (status, reason, [])
    assert unpaired(result.messages) is None
    assert result.output == response.message.text.strip()


def test_a_cut_answer_keeps_its_calls_paired_with_results_that_say_so() -> None:
    cut = ModelResponse(ModelMessage("", (call("add", "{}"), call("add", "{}"))), "length")
    result = run(Agent("a", ScriptedModel([cut]), tools=[add]).run("go"))
    assert outputs(result.messages) == ["Not executed: the answer that asked for it ended early (length)."] * 2


@pytest.mark.case("C059")
def test_nothing_after_results_is_done_with_a_note() -> None:
    model = ScriptedModel([call("add", '{"a": 1, "b": 1}'), ""])
    result = run(Agent("a", model, tools=[add]).run("go"))
    assert (result.status, result.output, result.reason) == ("done", "", "the model ended without a word")


@pytest.mark.case("C023")
def test_the_same_failing_call_three_times_in_a_row_ends_the_run() -> None:
    model = ScriptedModel([call("broken"), call("broken"), call("broken"), "never asked"])
    result = run(Agent("a", model, tools=[broken]).run("go"))
    assert (result.status, result.reason, len(model.requests)) == ("incomplete", "repeated_failure", 3)


def test_another_call_between_failing_ones_begins_the_count_anew() -> None:
    again = [call("broken"), call("broken"), call("add", '{"a": 1, "b": 1}'), call("broken"), call("broken"), "enough"]
    assert run(Agent("a", ScriptedModel(again), tools=[broken, add]).run("go")).status == "done"


@pytest.mark.case("C023")
@pytest.mark.parametrize("beside", [[], [call("add", '{"a": 1, "b": 1}')], [call("nope"), call("nope")]])
def test_a_call_that_fails_in_three_turns_in_a_row_ends_the_run_whatever_was_called_beside_it(beside: Any) -> None:
    model = ScriptedModel([*[[*beside, call("nope")]] * 3, "never asked"])
    result = run(Agent("a", model, tools=[add]).run("go"))
    assert (result.status, result.reason, len(model.requests)) == ("incomplete", "repeated_failure", 3)
    assert unpaired(result.messages) is None


def test_the_same_failing_call_three_times_in_one_turn_is_told_to_the_model() -> None:
    assert run(Agent("a", ScriptedModel([[call("nope")] * 3, "I see"]), tools=[add]).run("go")).output == "I see"


# -- models -----------------------------------------------------------------------------------------------------


def test_a_retryable_failure_is_tried_again_after_what_the_provider_asked_for() -> None:
    busy = ModelError("busy", provider="p", status=429, retryable=True, retry_after=30)

    async def timed() -> tuple[float, str]:
        began = asyncio.get_running_loop().time()
        result = await Agent("a", ScriptedModel([busy, busy, "at last"])).run("go")
        return asyncio.get_running_loop().time() - began, result.output

    assert run(timed()) == (60.0, "at last")


@pytest.mark.parametrize(
    "error",
    [
        ModelError("bad key", provider="p", status=401),
        ModelError("busy", provider="p", status=429, retryable=True, retry_after=3600),
    ],
)
def test_a_failure_that_waiting_does_not_mend_ends_the_run_with_the_typed_error(error: ModelError) -> None:
    model = ScriptedModel([error, "never asked"])
    result = run(Agent("a", model).run("go"))
    assert (result.status, result.error, len(model.requests)) == ("failed", error, 1)
    with pytest.raises(ModelError) as raised:
        result.raise_for_status()
    assert raised.value is error


def test_a_fallback_model_stands_in_and_stays() -> None:
    first = ScriptedModel([ModelError("down", provider="p", status=400)])
    second = ScriptedModel([call("add", '{"a": 1, "b": 1}'), "two"], name="second")
    result = run(Agent("a", first, fallback=[second], tools=[add]).run("go"))
    assert (result.output, len(first.requests), len(second.requests)) == ("two", 1, 2)


def test_a_model_of_ones_own_that_raises_is_a_failed_run() -> None:
    result = run(Agent("a", ScriptedModel([RuntimeError("oops")])).run("go"))
    assert (result.status, str(result.error)) == ("failed", "scripted: RuntimeError: oops")


def test_misuse_raises() -> None:
    with pytest.raises(ScriptExhausted, match="asked 1 times and has 0 turns"):
        run(Agent("a", ScriptedModel([])).run("go"))
    with pytest.raises(UsageError, match="int is no model"):
        Agent("a", 5)  # pyright: ignore
    with pytest.raises(UsageError, match="an agent needs a name"):
        Agent("", ScriptedModel([]))
    with pytest.raises(UsageError, match="the prompt is empty"):
        run(Agent("a", ScriptedModel([])).run([]))
    history = [user("x"), ModelMessage("", (Call("t1.0", "add", "{}"),))]
    with pytest.raises(UsageError, match=r"history cannot be continued: call 't1.0' \(add\) has no result"):
        run(Agent("a", ScriptedModel([])).run("go", history=history))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limits": 5}, "limits must be Limits, not int. Give Limits(turns=5)."),
        ({"settings": {}}, "settings must be Settings, not dict. Give Settings(temperature=0)."),
        ({"hooks": Hooks()}, "hooks must be a list, not Hooks. Put it into brackets."),
        ({"hooks": [Hooks]}, "each of hooks must be Hooks, not type. Give an object of a class that extends Hooks."),
        ({"fallback": "openai:gpt-5"}, "fallback must be a list, not str. Put it into brackets."),
    ],
)
def test_an_option_of_another_kind_is_named_with_the_mend(options: Any, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Agent("a", ScriptedModel([]), **options)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limits": 5}, "limits must be Limits, not int. Give Limits(turns=5)."),
        ({"session": "s"}, "session must be Session, not str. Give Session()."),
        (
            {"history": [{"role": "user"}]},
            "the history cannot be continued: it holds dict, which is no message of ferrule.message. Give each call one "
            "result, directly after it.",
        ),
    ],
)
def test_an_option_of_a_run_of_another_kind_is_named_with_the_mend(options: Any, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(Agent("a", ScriptedModel([])).run("go", **options))
    assert str(caught.value) == text


def test_a_function_is_a_model() -> None:
    async def parrot(request: ModelRequest) -> str:
        said = request.messages[-1]
        assert isinstance(said, UserMessage)
        return said.text.upper()

    assert run(Agent("a", parrot).run("hello")).output == "HELLO"


@pytest.mark.case("C059")
def test_a_malformed_answer_is_asked_for_once_more_and_no_oftener() -> None:
    error = ModelError("the call is not well-formed", provider="p", code="MALFORMED", retryable=True)
    bad = ModelResponse(ModelMessage("half"), "error", error=error)
    model = ScriptedModel([bad, "now"])
    assert run(Agent("a", model).run("go")).output == "now"
    model = ScriptedModel([bad, bad, "never asked"])
    result = run(Agent("a", model).run("go"))
    assert (result.status, result.error, result.output, len(model.requests)) == ("failed", error, "half", 2)
    final = ModelResponse(ModelMessage(), "error", error=ModelError("a call that is not allowed", provider="p"))
    model = ScriptedModel([final, "never asked"])
    assert (run(Agent("a", model).run("go")).status, len(model.requests)) == ("failed", 1)


@pytest.mark.parametrize(
    ("then", "usage"),
    [
        (ModelResponse(ModelMessage("now"), usage=Usage(20, 2, cost=0.2)), Usage(120, 12, cost=1.2, requests=2)),
        (ModelResponse(ModelMessage("now")), Usage(100, 10, requests=2)),
        (ModelError("is down", provider="p"), Usage(100, 10, cost=1.0, requests=2)),
    ],
)
def test_what_a_malformed_answer_consumed_counts_although_it_is_asked_for_again(then: Any, usage: Usage) -> None:
    error = ModelError("the call is not well-formed", provider="p", retryable=True)
    bad = ModelResponse(ModelMessage(), "error", Usage(100, 10, cost=1.0), error=error)
    assert usage == run(Agent("a", ScriptedModel([bad, then])).run("go")).usage


# -- limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "reason", "asked"),
    [
        (Limits(turns=2), "turns", 2),
        (Limits(tool_calls=3), "tool_calls", 2),
        (Limits(tokens=15), "tokens", 2),
        (Limits(cost=0.3), "cost", 2),
    ],
)
def test_a_limit_ends_the_run_and_keeps_the_work(limits: Limits, reason: str, asked: int) -> None:
    made: list[int] = []

    @tool
    async def count(n: int) -> int:
        made.append(n)
        return n

    pair = ModelMessage("", (call("count", '{"n": 1}'), call("count", '{"n": 2}')))
    turn = ModelResponse(pair, "tool_calls", Usage(input=5, output=5, cost=0.2))
    model = ScriptedModel([turn] * 9)
    result = run(Agent("a", model, tools=[count], limits=limits).run("go"))
    assert (result.status, result.reason, len(model.requests)) == ("incomplete", reason, asked)
    assert len(made) == (2 if reason == "tool_calls" else 2 * asked)
    assert unpaired(result.messages) is None


def test_the_limit_of_seconds_is_looked_at_between_turns() -> None:
    answers = iter(range(100))
    model = ScriptedModel([call("slow", '{"name": "x", "seconds": 0}')] * 5)
    agent = Agent("a", model, tools=[slow], limits=Limits(seconds=0))
    assert run(agent.run("go")).reason == "seconds"
    assert next(answers) == 0
    assert len(model.requests) == 0


@tool(effect="read", max_output=None)
async def read_file(size: int, text: str = "x") -> str:
    """Read so many characters."""
    return (text * size)[:size]


def sizes(limits: Limits | None, *calls: tuple[int, str]) -> list[str]:
    asked = [call("read_file", f'{{"size": {size}, "text": "{text}"}}') for size, text in calls]
    model = ScriptedModel([asked, "ok"])
    return outputs(run(Agent("a", model, tools=[read_file], limits=limits).run("go")).messages)


@pytest.mark.case("C032")
def test_the_results_of_a_turn_are_bounded_together_and_the_longest_are_cut_alike() -> None:
    told = sizes(Limits(turn_output=1000), (100, "a"), (5000, "b"), (200, "c"), (9000, "d"))
    assert told[0] == "a" * 100
    assert told[2] == "c" * 200
    assert [len(told[1]), len(told[3])] == [350, 350]
    assert "of 5,000 characters left out; the whole output is kept with t1.1]" in told[1]
    assert "of 9,000 characters left out; the whole output is kept with t1.3]" in told[3]


@pytest.mark.case("C032")
def test_two_million_characters_twice_never_reach_a_model_and_no_character_is_cut_through() -> None:
    told = sizes(None, (2_000_000, "😀"), (2_000_000, "😀"))
    assert [len(t) for t in told] == [100_000, 100_000]
    for text in told:
        assert text.encode()
        assert text.startswith("😀")
        assert text.endswith("😀")


@pytest.mark.case("C032")
def test_a_result_that_its_tool_has_cut_is_cut_from_the_whole_and_listeners_have_all_of_it() -> None:
    @tool(effect="read", max_output=1000)
    async def page() -> str:
        return "y" * 9000

    events: list[Event] = []
    model = ScriptedModel([[call("page"), call("page")], "ok"])
    agent = Agent("a", model, tools=[page], limits=Limits(turn_output=600))
    told = outputs(run(agent.run("go", on_event=events.append)).messages)
    assert [len(t) for t in told] == [300, 300]
    assert "of 9,000 characters left out" in told[0]
    results = {e.op: e.result for e in events if e.type == "tool_result"}
    assert [(r.metadata or {})["full_output"] for r in results.values() if r] == ["y" * 9000] * 2


@given(st.lists(st.integers(0, 400), min_size=1, max_size=6), st.integers(300, 900))
def test_whatever_the_lengths_a_turn_stays_within_its_room_and_short_results_stay_whole(
    lengths: list[int], room: int
) -> None:
    told = sizes(Limits(turn_output=room), *((n, "z") for n in lengths))
    assert sum(map(len, told)) <= max(room, 0)
    share = room // len(lengths)
    assert all(len(t) == n for t, n in zip(told, lengths, strict=True) if n <= share)
    if sum(lengths) <= room:
        assert [len(t) for t in told] == lengths


def test_no_limit_of_a_turn_cuts_nothing() -> None:
    assert [len(t) for t in sizes(Limits(turn_output=None), (300_000, "e"))] == [300_000]


# -- ids --------------------------------------------------------------------------------------------------------


@pytest.mark.case("C049")
def test_ids_that_a_provider_repeats_are_kept_apart() -> None:
    model = ScriptedModel([call("add", '{"a": 1, "b": 1}', "same"), call("add", '{"a": 2, "b": 2}', "same"), "ok"])
    result = run(Agent("a", model, tools=[add]).run("go"))
    calls = [m.call for m in result.messages if isinstance(m, ToolMessage)]
    assert [(c.id, c.wire_id) for c in calls] == [("t1.0", "same"), ("t2.0", None)]


@pytest.mark.case("C049")
def test_a_continued_history_gets_new_ids() -> None:
    agent = Agent("a", ScriptedModel([call("add", '{"a": 1, "b": 1}', "w"), "2"]), tools=[add])
    first = run(agent.run("one"))
    again = Agent("a", ScriptedModel([call("add", '{"a": 2, "b": 2}', "w"), "4"]), tools=[add])
    second = run(again.run("two", history=first.messages))
    calls = [m.call for m in second.messages if isinstance(m, ToolMessage)]
    assert [(c.id, c.wire_id) for c in calls] == [("t1.0", "w"), ("t3.0", None)]


def test_ids_do_not_repeat_after_a_transcript_was_shortened() -> None:
    old = Call("t7.0", "add", "{}")
    history = [ModelMessage("", (old,)), ToolMessage(old, "1")]
    result = run(
        Agent("a", ScriptedModel([call("add", '{"a": 1, "b": 1}'), "ok"]), tools=[add]).run("go", history=history)
    )
    assert [m.call.id for m in result.messages if isinstance(m, ToolMessage)] == ["t7.0", "t8.0"]


def test_a_session_begins_with_a_whole_history() -> None:
    with pytest.raises(UsageError, match="cannot be continued"):
        Session([ModelMessage("", (Call("t1.0", "add", "{}"),))])


@pytest.mark.case("C023", "C043")
@given(st.lists(st.lists(st.sampled_from(["ok", "bad", "nope", "json"]), min_size=1, max_size=4), max_size=5))
def test_whatever_a_model_asks_for_the_transcript_stays_paired(plan: list[list[str]]) -> None:
    kinds = {
        "ok": call("add", '{"a": 1, "b": 1}', "x"),
        "bad": call("broken"),
        "nope": call("nothing"),
        "json": call("add", "{", "x"),
    }
    model = ScriptedModel([*[[kinds[k] for k in turn] for turn in plan], "end"])
    result = run(Agent("a", model, tools=[add, broken]).run("go"))
    assert unpaired(result.messages) is None
    for request in model.requests:
        assert unpaired(request.messages) is None
    ids = [m.call.id for m in result.messages if isinstance(m, ToolMessage)]
    assert len(ids) == len(set(ids))


# -- serial tools, deadlines ------------------------------------------------------------------------------------


def test_serial_tools_run_one_after_another_beside_the_others() -> None:
    log: list[str] = []

    @tool(serial=True)
    async def step(name: str) -> None:
        log.append(f"{name} begins")
        await asyncio.sleep(1)
        log.append(f"{name} ends")

    calls = [call("step", f'{{"name": "{n}"}}') for n in "abc"]
    calls.insert(1, call("slow", '{"name": "other", "seconds": 1}'))

    async def timed() -> float:
        began = asyncio.get_running_loop().time()
        await Agent("a", ScriptedModel([calls, "ok"]), tools=[step, slow]).run("go")
        return asyncio.get_running_loop().time() - began

    assert run(timed()) == 3.0
    assert log == [f"{n} {what}" for n in "abc" for what in ("begins", "ends")]


def test_a_hundred_calls_overlap() -> None:
    calls = [call("slow", '{"name": "x", "seconds": 5}')] * 100

    async def timed() -> float:
        began = asyncio.get_running_loop().time()
        await Agent("a", ScriptedModel([calls, "ok"]), tools=[slow]).run("go")
        return asyncio.get_running_loop().time() - began

    assert run(timed()) == 5.0


@pytest.mark.case("C109")
def test_a_tool_that_ignores_its_deadline_holds_nobody_up() -> None:
    @tool(timeout=2, effect="idempotent", retries=0)
    async def stubborn() -> str:
        for _ in range(3):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue
        return "late"

    async def timed() -> tuple[float, list[str]]:
        began = asyncio.get_running_loop().time()
        result = await Agent("a", ScriptedModel([call("stubborn"), "ok"]), tools=[stubborn]).run("go")
        return asyncio.get_running_loop().time() - began, outputs(result.messages)

    seconds, told = run(timed())
    assert seconds == 2.0
    assert told == ["Tool 'stubborn' timed out after 2 s. It was told to stop and may still be running."]


def test_a_tool_that_heeds_its_deadline_is_stopped() -> None:
    @tool(timeout=2, effect="once")
    async def sleeper() -> str:
        await asyncio.sleep(100)
        return "never"

    result = run(Agent("a", ScriptedModel([call("sleeper"), "ok"]), tools=[sleeper]).run("go"))
    assert outputs(result.messages) == [
        "Tool 'sleeper' timed out after 2 s. It was stopped; its effect may have happened."
    ]


@pytest.mark.case("C112")
def test_a_retryable_failure_of_a_tool_is_tried_again_unless_it_is_once() -> None:
    attempts: list[str] = []

    def flaky(name: str) -> Any:
        async def body() -> str:
            attempts.append(name)
            raise ConnectionRefusedError("down")

        return body

    tools = [tool(name=e, effect=e)(flaky(e)) for e in ("read", "idempotent", "once")]
    calls = [call(e) for e in ("read", "idempotent", "once")]
    run(Agent("a", ScriptedModel([calls, "ok"]), tools=tools).run("go"))
    assert sorted(attempts) == ["idempotent"] * 3 + ["once"] + ["read"] * 3


def test_a_limit_of_calls_at_a_time_holds_across_runs() -> None:
    now, most = 0, 0

    @tool(concurrency=2)
    async def guarded() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(1)
        now -= 1

    async def many() -> None:
        runs = [Agent("a", ScriptedModel([[call("guarded")] * 3, "ok"]), tools=[guarded]).run("go") for _ in range(3)]
        await asyncio.gather(*runs)

    run(many())
    assert most == 2


# -- suspension -------------------------------------------------------------------------------------------------


@tool
async def book(ctx: Context, city: str) -> str:
    """Ask for a date, then book."""
    answer = ctx.ask("input", f"When to {city}?")
    return f"{city} on {(answer.data or {})['day']}"


def test_a_question_without_anybody_to_answer_suspends_the_run_after_its_siblings() -> None:
    model = ScriptedModel([[call("book", '{"city": "Oslo"}'), call("add", '{"a": 1, "b": 1}')], "never asked"])
    events: list[Event] = []
    result = run(Agent("a", model, tools=[book, add]).run("go", on_event=events.append))
    assert result.status == "suspended"
    assert [(r.kind, r.prompt) for r in result.requests] == [("input", "When to Oslo?")]
    assert [e.op for e in events if e.type == "tool_result"] == ["t1.1"]
    assert [e.op for e in events if e.type == "pending"] == ["t1.0"]


def test_a_question_answered_in_process_lets_the_call_go_on() -> None:
    async def answer(request: Request) -> Answer:
        return Answer(request.id, ok=True, data={"day": "Monday"})

    model = ScriptedModel([call("book", '{"city": "Oslo"}'), "booked"])
    result = run(Agent("a", model, tools=[book]).run("go", on_request=answer))
    assert (result.status, outputs(result.messages)) == ("done", ["Oslo on Monday"])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer("x", ok=True), "paid 5"),
        (Answer("x", ok=False), "Tool 'pay' was not called; the person who was asked declined."),
        (
            Answer("x", ok=False, reason="too dear"),
            "Tool 'pay' was not called; the person who was asked declined: too dear.",
        ),
        (Answer("x", ok=False, reason="expired"), "Tool 'pay' was not called; nobody answered in time."),
        (
            Answer("x", ok=True, arguments={"amount": 3}),
            '[The arguments were changed before the call, to {"amount":3}]\npaid 3',
        ),
        (Answer("x", ok=True, arguments={"amount": 5}), "paid 5"),
    ],
)
def test_an_approval_decides_about_the_call(answer: Answer, told: str) -> None:
    asked: list[Request] = []

    @tool(approval=True)
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    async def decide(request: Request) -> Answer:
        asked.append(request)
        return replace(answer, id=request.id)

    result = run(
        Agent("a", ScriptedModel([call("pay", '{"amount": 5}'), "ok"]), tools=[pay]).run("go", on_request=decide)
    )
    assert outputs(result.messages) == [told]
    shown = {"tool": "pay", "effect": "once", "arguments": {"amount": 5}, "parameters": pay.parameters.schema}
    assert asked[0].data == shown
    assert asked[0].digest


def test_an_approval_rule_sees_the_defaults_that_the_body_will_use() -> None:
    @tool(approval=lambda arguments: arguments["amount"] > 100)
    async def pay(amount: int = 5000) -> str:
        return "paid"

    result = run(Agent("a", ScriptedModel([call("pay"), "ok"]), tools=[pay]).run("go"))
    assert (result.status, [(r.data or {})["arguments"] for r in result.requests]) == ("suspended", [{"amount": 5000}])


def another(request: Request) -> Any:
    return Answer("another", ok=True)


def unseen(request: Request) -> Any:
    return Answer(request.id, ok=True, digest="0" * 64)


def just_yes(request: Request) -> Any:
    return True


@pytest.mark.parametrize("wrong", [another, unseen, just_yes])
def test_what_is_no_answer_to_this_request_leaves_it_open(wrong: Any) -> None:
    made: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> None:
        made.append(amount)

    async def decide(request: Request) -> Any:
        return wrong(request)

    result = run(Agent("a", ScriptedModel([call("pay", '{"amount": 5}')]), tools=[pay]).run("go", on_request=decide))
    assert (result.status, made) == ("suspended", [])


def test_requests_of_sub_agents_are_told_apart_by_their_path() -> None:
    def booker(name: str) -> Any:
        return Agent(name, ScriptedModel([call("book", '{"city": "Oslo"}')]), tools=[book]).as_tool()

    both = [call("one", '{"input": "x"}'), call("two", '{"input": "x"}')]
    result = run(Agent("boss", ScriptedModel([both]), tools=[booker("one"), booker("two")]).run("go"))
    assert [r.id for r in result.requests] == ["t1.0/t1.0/1", "t1.1/t1.0/1"]


def test_arguments_edited_by_a_person_go_through_hooks_again() -> None:
    made: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> None:
        made.append(amount)

    class AtMostTen(Hooks):
        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
            return ToolResult.failed("too much", code="denied") if arguments["amount"] > 10 else None

    async def more(request: Request) -> Answer:
        return Answer(request.id, ok=True, arguments={"amount": 1000})

    agent = Agent("a", ScriptedModel([call("pay", '{"amount": 5}'), "ok"]), tools=[pay], hooks=[AtMostTen()])
    result = run(agent.run("go", on_request=more))
    assert (outputs(result.messages), made) == (["too much"], [])


def test_a_hook_cannot_change_arguments_behind_the_check() -> None:
    class Sneaky(Hooks):
        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Any) -> Any:
            arguments["zz"] = 1

    model = ScriptedModel([call("add", '{"a": 1, "b": 1}'), "ok"])
    assert outputs(run(Agent("a", model, tools=[add], hooks=[Sneaky()]).run("go")).messages) == ["2"]


@pytest.mark.parametrize("point", ["before_model", "after_model", "before_tool", "after_tool"])
def test_a_hook_that_returns_something_else_is_a_broken_hook(point: str) -> None:
    def wrong(*_: Any) -> Any:
        return "text"

    hook = type("Wrong", (Hooks,), {point: wrong})()
    model = ScriptedModel([call("add", '{"a": 1, "b": 1}'), "ok"])
    result = run(Agent("a", model, tools=[add], hooks=[hook]).run("go"))
    told = str(result.error) if point.endswith("model") else outputs(result.messages)[0]
    assert "TypeError" in told


def test_a_deaf_listener_leaves_the_others_their_events() -> None:
    class Deaf(Hooks):
        def on_event(self, event: Event) -> None:
            raise RuntimeError("deaf")

    heard: list[str] = []
    agent = Agent("a", ScriptedModel(["ok"]), hooks=[Deaf()])
    run(agent.run("go", on_event=lambda event: heard.append(event.type)))
    assert heard == ["step", "usage", "done"]


def test_a_model_that_raises_an_error_of_ours_is_a_failed_answer() -> None:
    def inner(request: ModelRequest) -> Any:
        raise RunError("the inner run failed")

    model = ScriptedModel([inner])
    result = run(Agent("a", model, fallback=[ScriptedModel(["saved"])]).run("go"))
    assert result.output == "saved"


def test_an_approval_rule_that_raises_asks_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def rule(arguments: dict[str, Any]) -> bool:
        raise RuntimeError("broken rule")

    @tool(approval=rule)
    async def pay(amount: int) -> str:
        return "paid"

    result = run(Agent("a", ScriptedModel([call("pay", '{"amount": 5}')]), tools=[pay]).run("go"))
    assert (result.status, result.requests[0].kind) == ("suspended", "approval")
    assert caplog.messages == ["the approval rule of tool 'pay' raised RuntimeError: a person is asked."]


# -- hooks ------------------------------------------------------------------------------------------------------


def test_hooks_see_and_change_each_step_in_order() -> None:
    seen: list[str] = []

    class First(Hooks):
        async def before_model(self, run: RunInfo[Any], request: ModelRequest) -> Any:
            seen.append(f"before {len(request.messages)}")
            return request.but(instructions="changed")

        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
            return {**arguments, "b": 10}

        def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> Any:
            return ToolResult.ok(result.value * 2)

        def after_model(self, run: RunInfo[Any], request: ModelRequest, response: ModelResponse) -> Any:
            text = response.message.text
            return response.but(message=ModelMessage(text + "!")) if text else None

    class Second(Hooks):
        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
            seen.append(f"b is {arguments['b']}")

    model = ScriptedModel([call("add", '{"a": 1, "b": 1}'), "end"])
    result = run(Agent("a", model, tools=[add], hooks=[First(), Second()]).run("go"))
    assert (result.output, outputs(result.messages)) == ("end!", ["22"])
    assert seen == ["before 1", "b is 10", "before 3"]
    assert [r.instructions for r in model.requests] == ["changed", "changed"]


def test_a_hook_may_answer_a_call_and_a_broken_one_lets_nothing_through() -> None:
    made: list[int] = []

    @tool
    async def write(n: int) -> str:
        made.append(n)
        return "written"

    class Deny(Hooks):
        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
            return ToolResult.failed("not today", code="denied")

    class Broken(Hooks):
        def before_tool(self, run: RunInfo[Any], call: Call, tool: Any, arguments: Mapping[str, Any]) -> Any:
            raise RuntimeError("the value was 42")

    for hook, told in ((Deny(), "not today"), (Broken(), "Tool 'write' was not called: a hook raised RuntimeError.")):
        result = run(
            Agent("a", ScriptedModel([call("write", '{"n": 1}'), "ok"]), tools=[write], hooks=[hook]).run("go")
        )
        assert (outputs(result.messages), made) == ([told], [])


def test_a_broken_hook_after_a_tool_hides_the_result() -> None:
    class Broken(Hooks):
        def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> Any:
            raise RuntimeError("redaction failed")

    model = ScriptedModel([call("add", '{"a": 1, "b": 1}'), "ok"])
    result = run(Agent("a", model, tools=[add], hooks=[Broken()]).run("go"))
    assert outputs(result.messages) == ["The call was made, but a hook that checks its result raised RuntimeError."]


@pytest.mark.parametrize("point", ["before_model", "after_model"])
def test_a_broken_hook_around_a_model_fails_the_run(point: str) -> None:
    def raising(*_: Any) -> Any:
        raise RuntimeError("broken")

    hook = type("Broken", (Hooks,), {point: raising})()
    result = run(Agent("a", ScriptedModel(["ok"]), hooks=[hook]).run("go"))
    assert (result.status, str(result.error)) == ("failed", f"hook {point}: RuntimeError: broken")


def test_a_hook_that_shortens_the_transcript_does_so_for_good() -> None:
    class Shorten(Hooks):
        def before_model(self, run: RunInfo[Any], request: ModelRequest) -> Any:
            return request.but(messages=request.messages[-1:]) if request.messages[0] == user("old") else None

    history = [user("old"), ModelMessage("old")]
    model = ScriptedModel([call("add", '{"a": 1, "b": 1}'), "end"])
    result = run(Agent("a", model, tools=[add], hooks=[Shorten()]).run("new", history=history))
    assert [type(m) for m in result.messages] == [UserMessage, ModelMessage, ToolMessage, ModelMessage]
    assert [len(r.messages) for r in model.requests] == [1, 3]


def test_instructions_from_a_function_are_made_for_each_request() -> None:
    async def make(run: RunInfo[Any]) -> str:
        return f"Speak to {run.context['user']}."

    model = ScriptedModel([call("add", '{"a": 1, "b": 1}'), "end"])
    run(Agent("a", model, instructions=make, tools=[add]).run("go", context={"user": "Ada"}))
    assert [r.instructions for r in model.requests] == ["Speak to Ada."] * 2


# -- context, deps, sessions ------------------------------------------------------------------------------------


def test_tools_get_deps_context_and_ids() -> None:
    @tool
    async def who(ctx: Context[str]) -> str:
        return f"{ctx.deps} {ctx.run_context['user']} {ctx.call_id} {ctx.effect_key.partition(':')[2]}"

    model = ScriptedModel([call("who"), "ok"])
    result = run(Agent("a", model, tools=[who]).run("go", deps="db", context={"user": "ada"}))
    assert outputs(result.messages) == ["db ada t1.0 t1.0"]


def test_deps_are_made_from_the_context_unless_given() -> None:
    async def connect(context: Mapping[str, Any]) -> str:
        return f"db of {context['tenant']}"

    @tool
    async def which(ctx: Context[str]) -> str:
        return ctx.deps

    def agent() -> Agent[str, str]:
        return Agent("a", ScriptedModel([call("which"), "ok"]), tools=[which], deps=connect)

    assert outputs(run(agent().run("go", context={"tenant": "x"})).messages) == ["db of x"]
    assert outputs(run(agent().run("go", deps="mine")).messages) == ["mine"]


def test_a_session_continues_and_takes_one_run_at_a_time() -> None:
    session = Session()
    model = ScriptedModel(["one", "two"])
    agent = Agent("a", model)

    async def talk() -> None:
        await agent.run("1", session=session)
        await agent.run("2", session=session)

    run(talk())
    assert [getattr(m, "text", "") for m in session.messages] == ["1", "one", "2", "two"]
    assert len(model.requests[1].messages) == 3

    async def at_once() -> None:
        gate = asyncio.Event()

        async def wait(request: ModelRequest) -> str:
            await gate.wait()
            return "done"

        slow_agent = Agent("b", wait)
        first = asyncio.ensure_future(slow_agent.run("x", session=session))
        await asyncio.sleep(0)
        with pytest.raises(SessionBusy, match=r"busy with run run_[0-9a-f]{16} \(running\)"):
            await slow_agent.run("y", session=session)
        gate.set()
        await first
        await slow_agent.run("z", session=session)

    run(at_once())
    with pytest.raises(UsageError, match="not both"):
        run(agent.run("x", session=session, history=[user("y")]))


def test_one_agent_serves_a_thousand_runs_at_once() -> None:
    async def model(request: ModelRequest) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return last.output
        assert isinstance(last, UserMessage)
        return call("add", f'{{"a": {last.text}, "b": 1}}')

    agent = Agent("a", model, tools=[add])

    async def many() -> list[str]:
        return [r.output for r in await asyncio.gather(*(agent.run(str(n)) for n in range(1000)))]

    assert run(many()) == [str(n + 1) for n in range(1000)]


# -- structured output ------------------------------------------------------------------------------------------


@dataclass
class City:
    name: str
    people: int


class Closed(BaseModel, extra="forbid"):
    name: str
    people: int


def test_an_answer_becomes_a_value_of_the_output_type() -> None:
    model = ScriptedModel(['{"name": "Oslo", "people": 700000}'])
    result = run(Agent("a", model, output=City).run("go"))
    assert (result.value, result.output) == (City("Oslo", 700000), '{"name": "Oslo", "people": 700000}')
    shown = model.requests[0].output
    assert shown is not None
    assert set(shown.schema["properties"]) == {"name", "people"}


def test_a_value_that_is_no_object_is_wrapped_on_the_wire_only() -> None:
    assert run(Agent("a", ScriptedModel(['{"result": [1, 2]}']), output=list[int]).run("go")).value == [1, 2]
    assert run(Agent("a", ScriptedModel(['{"result": null}']), output=int | None).run("go")).value is None


def test_a_key_that_the_output_does_not_have_is_no_matter_of_parameters() -> None:
    model = ScriptedModel(['{"name": "Oslo", "people": 1, "mayor": 2}', '{"name": "Oslo", "people": 1}'])
    assert run(Agent("a", model, output=Closed).run("go")).value == Closed(name="Oslo", people=1)
    said = [m.text for m in model.requests[1].messages if isinstance(m, UserMessage)]
    assert said[1].startswith("The answer does not fit the schema. mayor: is not declared. Answer again")


def test_an_answer_that_does_not_fit_is_sent_back_twice_at_most() -> None:
    model = ScriptedModel(["Oslo", '{"name": "Oslo"}', '{"name": "Oslo", "people": 1}'])
    assert run(Agent("a", model, output=City).run("go")).value == City("Oslo", 1)
    said = [m.text for m in model.requests[2].messages if isinstance(m, UserMessage)]
    assert said[1] == (
        "The answer is not valid JSON: Expecting value at line 1 column 1. "
        "Answer again with JSON that fits, and nothing else."
    )
    assert said[2].startswith("The answer does not fit the schema. people: is required.")
    never = run(Agent("a", ScriptedModel(["no"] * 3), output=City).run("go"))
    assert (never.status, never.reason, never.value) == ("failed", "invalid_output", None)
    with pytest.raises(RunError, match="not valid JSON"):
        never.raise_for_status()


# -- sub-agents -------------------------------------------------------------------------------------------------


def test_an_agent_is_a_tool_of_another_and_its_usage_counts() -> None:
    inner = Agent("adder", ScriptedModel([call("add", '{"a": 2, "b": 2}'), "four"]), tools=[add])
    outer_model = ScriptedModel([call("adder", '{"input": "2 and 2"}'), "it is four"])
    events: list[Event] = []
    outer = Agent("boss", outer_model, tools=[inner.as_tool(description="Adds.")])
    result = run(outer.run("go", on_event=events.append))
    assert (result.output, outputs(result.messages)) == ("it is four", ["four"])
    assert result.usage.requests == 4
    assert "t1.0/t1.0" in {e.op for e in events if e.type == "tool_result"}


def test_a_question_of_a_sub_agent_is_asked_at_the_root() -> None:
    inner = Agent("booker", ScriptedModel([call("book", '{"city": "Oslo"}'), "done"]), tools=[book])
    outer = Agent("boss", ScriptedModel([call("booker", '{"input": "Oslo"}'), "fine"]), tools=[inner.as_tool()])
    result = run(outer.run("go"))
    assert (result.status, [r.prompt for r in result.requests]) == ("suspended", ["When to Oslo?"])


def test_a_sub_agent_that_fails_is_a_failed_call() -> None:
    inner = Agent("inner", ScriptedModel([ModelError("down", provider="p")]))
    outer = Agent("boss", ScriptedModel([call("inner", '{"input": "x"}'), "too bad"]), tools=[inner.as_tool()])
    result = run(outer.run("go"))
    assert outputs(result.messages) == ["It ended failed: p: down"]
    assert result.output == "too bad"


def test_a_sub_agent_called_by_hand_runs() -> None:
    inner = Agent("inner", ScriptedModel(["hello"]))
    assert run(inner.as_tool().call({"input": "x"})).output == "hello"


# -- sync, cancellation -----------------------------------------------------------------------------------------


@pytest.mark.case("C115")
def test_run_sync_works_in_scripts_threads_and_running_loops() -> None:
    def once() -> str:
        return Agent("a", ScriptedModel([call("add", '{"a": 1, "b": 1}'), "two"]), tools=[add]).run_sync("go").output

    assert once() == "two"
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(once()))
    thread.start()
    thread.join()

    async def inside() -> str:
        return once()

    assert (found, asyncio.run(inside())) == (["two"], "two")


def test_an_interrupt_in_a_running_loop_ends_the_run_that_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, waited, ended = threading.Event(), list[Any](), list[str]()

    def wait(futures: Any) -> None:
        waited.append(futures)
        if len(waited) == 1:
            begun.wait()
            raise KeyboardInterrupt  # as at a Ctrl-C, whoever waits
        concurrent.futures.wait(futures)

    @tool(effect="once")
    async def pay() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("pay")

    script = ScriptedModel([call("pay"), call("pay"), "paid twice"])
    session = Session()

    async def cell() -> None:
        Agent("a", script, tools=[pay]).run_sync("go", session=session)

    monkeypatch.setattr(agents, "futures", SimpleNamespace(wait=wait))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    told = [m.output for m in session.messages if isinstance(m, ToolMessage)]
    assert (ended, len(script.requests), ["may have" in output for output in told]) == (["pay"], 1, [True])


def test_cancelling_the_caller_ends_the_calls_in_flight() -> None:
    ended: list[str] = []

    @tool
    async def long() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("long")

    async def main() -> None:
        model = ScriptedModel([[call("long"), call("long")], "never"])
        task = asyncio.ensure_future(Agent("a", model, tools=[long]).run("go"))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert ended == ["long", "long"]


def test_media_of_a_tool_reaches_the_model_as_parts() -> None:
    @tool(effect="read")
    async def chart() -> list[Any]:
        return ["a chart", image(PIXEL, mime_type="image/png")]

    model = ScriptedModel([call("chart"), "nice"])
    result = run(Agent("a", model, tools=[chart]).run(["look", image(PIXEL, mime_type="image/png")]))
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert [p["type"] for p in message.parts] == ["image"]
    assert message.output.startswith("a chart")
