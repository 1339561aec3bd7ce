"""Answers of models that need more than to be read: strict dialects, pauses, misuse after work was done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.agent.test_agent import PIXEL, add, outputs

from ferrule import Agent, Hooks, Limits, ModelError, RunError, RunInfo, Session, UnsupportedPartError, image, tool
from ferrule.agent.loop import PAUSES
from ferrule.message import ModelMessage, Usage, unpaired
from ferrule.provider.base import Capabilities, ModelRequest, ModelResponse
from ferrule.testing import ScriptedModel, call

# -- strict dialects --------------------------------------------------------------------------------------------


@tool(effect="read")
async def find(text: str, limit: int = 10, within: str | None = "all") -> str:
    """Find something."""
    return f"{text} {limit} {within}"


@dataclass
class Found:
    name: str
    count: int = 1
    note: str | None = "none"


@pytest.mark.parametrize(("strict", "told"), [(True, "x 10 None"), (False, "limit: should be a valid integer")])
def test_a_null_that_stands_for_left_out_is_dropped_before_the_check_where_the_dialect_asks_for_it(
    strict: bool, told: str
) -> None:
    script = [call("find", '{"text": "x", "limit": null, "within": null}'), "ok"]
    model = ScriptedModel(script, capabilities=Capabilities(strict_tools=strict))
    result = Agent("a", model, tools=[find]).run_sync("go")
    assert told in outputs(result.messages)[0]
    said = result.messages[1]
    assert isinstance(said, ModelMessage)
    assert "null" in said.calls[0].arguments  # what the model wrote stays as it is


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"name": "a", "count": null, "note": null}', Found("a", 1, None)),
        ('{"name": "a", "count": 2}', Found("a", 2, "none")),
    ],
)
def test_an_answer_in_the_strict_dialect_may_say_null_for_what_it_leaves_out(answer: str, value: Found) -> None:
    assert Agent("a", ScriptedModel([answer]), output=Found, output_retries=0).run_sync("go").value == value


def test_a_null_for_what_must_be_there_is_still_a_fault() -> None:
    result = Agent("a", ScriptedModel(['{"name": null}']), output=Found, output_retries=0).run_sync("go")
    assert (result.status, result.reason) == ("failed", "invalid_output")


def test_the_error_of_a_run_that_waits_says_how_to_answer() -> None:
    @tool(approval=True)
    async def pay() -> None: ...

    waiting = Agent("a", ScriptedModel([call("pay")]), tools=[pay]).run_sync("go")
    with pytest.raises(RunError, match=r"it waits for 1 answer\. Give the run an on_request that answers\.$"):
        waiting.raise_for_status()


# -- turns that a provider pauses in, and misuse after work was done -------------------------------------------


def paused(text: str) -> ModelResponse:
    error = ModelError("the provider paused", provider="anthropic", code="pause_turn")
    return ModelResponse(ModelMessage(text), "unknown", Usage(input=1), error=error, paused=True)


def test_a_turn_that_the_provider_pauses_in_goes_on_with_what_it_has_said_so_far() -> None:
    model = ScriptedModel([paused("I look"), paused("ed it"), " up."])
    result = Agent("a", model).run_sync("go")
    assert (result.status, result.output, result.usage) == ("done", "I looked it up.", Usage(input=2, requests=3))
    assert [m.text for m in model.requests[2].messages if isinstance(m, ModelMessage)] == ["I look", "ed it"]


def test_an_answer_in_json_may_be_paused_in() -> None:
    model = ScriptedModel([paused('{"name": '), '"a"}'])
    assert Agent("a", model, output=Found).run_sync("go").value == Found("a")


def test_a_call_after_a_pause_is_made_and_begins_an_answer_of_its_own() -> None:
    model = ScriptedModel([paused("Hm. "), call("add", '{"a": 1, "b": 2}'), "3"])
    result = Agent("a", model, tools=[add]).run_sync("go")
    assert (result.status, result.output, outputs(result.messages)) == ("done", "3", ["3"])


def test_an_answer_with_calls_is_no_pause_whatever_it_says_of_itself() -> None:
    odd = paused("Hm.").but(message=ModelMessage("Hm.", (call("add", '{"a": 1, "b": 2}'),)))
    session = Session()
    result = Agent("a", ScriptedModel([odd, "3"]), tools=[add]).run_sync("go", session=session)
    assert (result.status, result.reason, result.usage.requests) == ("failed", "unknown", 1)
    assert unpaired(session.messages) is None


CALLING = ModelResponse(ModelMessage("Let me look.", (call("add", '{"a": 1}'),)), "tool_calls", Usage(input=9))


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(turns=1), "turns"),
        (Limits(tokens=5), "tokens"),
        (Limits(cost=1), "cost"),
        (Limits(tool_calls=0), "tool_calls"),
        (Limits(), "repeated_failure"),
    ],
)
def test_a_run_that_a_limit_ends_tells_what_was_said_last(limits: Limits, reason: str) -> None:
    result = Agent("a", ScriptedModel([CALLING] * 3), tools=[add]).run_sync("go", limits=limits)
    assert (result.reason, result.output) == (reason, "Let me look.")


def test_a_run_that_was_cancelled_tells_what_was_said_last_and_nothing_of_the_run_before() -> None:
    async def never(request: ModelRequest) -> None:
        await asyncio.Event().wait()

    async def leave(said: Any, session: Session) -> str:
        endless = ScriptedModel([said, never])
        async with Agent("a", endless, tools=[add]).stream("go", session=session) as events:
            async for event in events:
                if event.type == "tool_result":
                    break
        assert events.result.status == "cancelled"
        return events.result.output

    async def both() -> tuple[str, str]:
        session = Session()
        return await leave(CALLING, session), await leave(call("add", {}), session)

    assert asyncio.run(both()) == ("Let me look.", "")


def test_a_turn_that_is_paused_in_for_ever_ends() -> None:
    endless = Agent("a", ScriptedModel([paused("x")] * 40), limits=Limits(turns=None)).run_sync("go")
    assert (endless.status, endless.reason, endless.usage.requests) == ("failed", "unknown", PAUSES + 1)
    limited = Agent("a", ScriptedModel([paused("x")] * 40), limits=Limits(turns=3)).run_sync("go")
    assert (limited.status, limited.reason) == ("incomplete", "turns")


class Forgetful(Hooks):
    """Leaves the last result out from the second request on."""

    def before_model(self, run: RunInfo[Any], request: ModelRequest) -> ModelRequest | None:
        return request.but(messages=list(request.messages)[:-1]) if len(request.messages) > 1 else None


def test_a_hook_whose_transcript_breaks_the_pairing_fails_the_run_before_any_model_sees_it() -> None:
    model = ScriptedModel([call("add", '{"a": 1, "b": 2}'), "never"])
    result = Agent("a", model, tools=[add], hooks=[Forgetful()]).run_sync("go")
    assert (result.status, outputs(result.messages), len(model.requests)) == ("failed", ["3"], 1)
    assert "hook before_model: UsageError: the transcript it returned cannot be sent" in str(result.error)


def blind(turns: Any, name: str) -> Any:
    """A model that takes no image."""

    def refuse(request: ModelRequest) -> Any:
        raise UnsupportedPartError("image", "image/png", name)

    return ScriptedModel([refuse if turn is None else turn for turn in turns], name=name)


def test_a_part_that_a_model_does_not_take_is_the_callers_to_see_only_before_anything_was_done() -> None:
    prompt = ["Look.", image(PIXEL)]
    with pytest.raises(UnsupportedPartError):
        Agent("a", blind([None], "b"), fallback=[ScriptedModel(["ok"])]).run_sync(prompt)
    failure = ModelError("down", provider="p")
    script = ScriptedModel([call("add", '{"a": 1, "b": 2}'), failure])
    result = Agent("a", script, tools=[add], fallback=[blind([None], "b"), ScriptedModel(["done"])]).run_sync(prompt)
    assert (result.status, result.output, outputs(result.messages)) == ("done", "done", ["3"])
    script = ScriptedModel([call("add", '{"a": 1, "b": 2}'), failure])
    result = Agent("a", script, tools=[add], fallback=[blind([None], "b")]).run_sync(prompt)
    assert (result.status, outputs(result.messages)) == ("failed", ["3"])
    assert "b: UnsupportedPartError: b has no shape for the image part" in str(result.error)


def test_a_child_run_that_misuses_its_model_fails_and_its_parent_goes_on() -> None:
    child = Agent("child", blind([None], "b")).as_tool()
    parent = ScriptedModel([call(child.name, '{"input": "x"}'), "over"])
    result = Agent("a", parent, tools=[child]).run_sync("go")
    assert (result.status, result.output) == ("done", "over")
    assert "has no shape for the image part" in outputs(result.messages)[0]
