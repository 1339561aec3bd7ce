"""Faults that people met elsewhere and that concern the loop alone: siblings, groups, context, sync entry, one start."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.clock import run
from tests.unit.projects import forgotten

from ferrule import Agent, Event, ToolResult, tool
from ferrule.message import ToolMessage, unpaired
from ferrule.runtime.outcome import RunResult
from ferrule.testing import ScriptedModel, call
from ferrule.tool.tool import Tool

TENANT = contextvars.ContextVar("tenant", default="nobody")


def outputs(result: RunResult[Any]) -> list[str]:
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


@pytest.mark.case("C044")
@pytest.mark.parametrize("streamed", [False, True])
def test_four_calls_of_which_one_raises_and_one_cancels_itself_have_four_results_and_nothing_runs_on(
    streamed: bool,
) -> None:
    written: list[str] = []

    @tool
    async def a() -> str:
        await asyncio.sleep(0.05)
        written.append("a")
        return "a"

    @tool
    async def b() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("b failed")

    @tool
    async def c() -> None:
        await asyncio.sleep(0.01)
        raise asyncio.CancelledError

    @tool
    def d() -> str:
        return "d"

    left: list[Any] = []

    def end(request: Any) -> str:
        left.extend(asyncio.all_tasks() - {asyncio.current_task()})
        return "ok"

    async def main() -> RunResult[Any]:
        model = ScriptedModel([[call(n) for n in "abcd"], end])
        agent = Agent("x", model, tools=[a, b, c, d])
        if not streamed:
            return await agent.run("go")
        async with agent.stream("go") as events:
            async for _ in events:
                pass
        return events.result

    result = run(main())
    assert (result.status, written) == ("done", ["a"])
    told = [(m.call.id, m.is_error) for m in result.messages if isinstance(m, ToolMessage)]
    assert told == [("t1.0", False), ("t1.1", True), ("t1.2", True), ("t1.3", False)]
    said = outputs(result)
    assert (said[0], said[1], said[3]) == ("a", "ValueError: b failed", "d")
    assert said[2].strip()
    assert len(left) == streamed  # whoever listens


def end_of_process() -> list[BaseException]:
    return [
        KeyboardInterrupt(),
        SystemExit(3),
        BaseExceptionGroup("x", [ValueError("v"), KeyboardInterrupt()]),
        BaseExceptionGroup("x", [BaseExceptionGroup("y", [SystemExit(3)])]),
    ]


@pytest.mark.case("C035")
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", ["at once", "in a task", "in a thread"])
def test_the_end_of_the_process_inside_a_tool_ends_the_run_and_is_no_data(number: int, kind: str) -> None:
    error = end_of_process()[number]
    ended: list[str] = []

    async def at_once() -> None:
        raise error

    async def in_a_task() -> None:
        await asyncio.sleep(0)
        raise error

    def in_a_thread() -> None:
        raise error

    @tool(effect="read")
    async def sibling() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("sibling")

    raising: Callable[[], Any] = {"at once": at_once, "in a task": in_a_task, "in a thread": in_a_thread}[kind]
    model = ScriptedModel([[call("sibling"), call("quits")], "never asked"])
    agent = Agent("a", model, tools=[sibling, tool(name="quits")(raising)])
    with pytest.raises(type(error)):
        asyncio.run(agent.run("go"))
    assert len(model.requests) == 1
    assert ended == ["sibling"]


@pytest.mark.case("C035")
def test_a_group_of_ordinary_errors_is_told_by_its_leaves_and_the_run_goes_on() -> None:
    @tool(effect="read", retries=0)
    async def many() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fails(ConnectionRefusedError("p")))
            group.create_task(_fails(ValueError("v")))

    result = run(Agent("a", ScriptedModel([call("many"), "ok"]), tools=[many]).run("go"))
    assert result.status == "done"
    assert "ConnectionRefusedError: p" in outputs(result)[0]
    assert "ValueError: v" in outputs(result)[0]


async def _fails(error: Exception) -> None:
    raise error


@pytest.mark.case("C031")
def test_nothing_and_falsy_values_are_successes_to_listener_and_transcript_and_a_failure_keeps_its_text() -> None:
    values: list[Any] = [None, 0, False, "", [], {}]

    @tool(effect="read")
    async def give(at: int) -> Any:
        return values[at]

    @tool(effect="read")
    async def lookup() -> ToolResult:
        return ToolResult.failed("no such user")

    events: list[Event] = []
    calls = [*(call("give", f'{{"at": {n}}}') for n in range(len(values))), call("lookup")]
    result = run(Agent("a", ScriptedModel([calls, "ok"]), tools=[give, lookup]).run("go", on_event=events.append))
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [False] * 6 + [True]
    heard = {e.op: e.result for e in events if e.type == "tool_result"}
    assert [r.value for r in heard.values() if r and not r.is_error] == values
    assert outputs(result)[-1] == "no such user"
    last = heard["t1.6"]
    assert last is not None
    assert last.error == "no such user"


def at_once(attempt: int, retry_after: float | None) -> float:
    return 0.0


DIES = """
import os
from pathlib import Path
from ferrule import tool

@tool(effect="{effect}", process=True, retries=1, timeout=60)
def transfer(ledger: str) -> None:
    with Path(ledger).open("a") as book:
        book.write("transfer\\n")
    os._exit(7)
"""


@pytest.mark.case("C112")
@pytest.mark.parametrize(("effect", "entries"), [("once", 1), ("idempotent", 2)])
def test_a_tool_that_wrote_and_died_is_started_again_only_where_that_is_harmless(
    effect: str, entries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "it_dies.py").write_text(DIES.replace("{effect}", effect), "utf-8")
    monkeypatch.setattr("ferrule.runtime.dispatch.delay_of", at_once)
    ledger = tmp_path / "ledger"
    model = ScriptedModel([call("transfer", json.dumps({"ledger": str(ledger)})), "ok"])
    with forgotten(tmp_path):
        sys.path.insert(0, str(tmp_path))
        transfer = import_module("it_dies").transfer
        result = Agent("a", model, tools=[transfer]).run_sync("go")
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert (message.is_error, ledger.read_text("utf-8")) == (True, "transfer\n" * entries)
    assert ("its effect may have happened" in message.output) == (effect == "once")


# -- context variables and the sync entry -----------------------------------------------------------------------


@tool(effect="read")
def in_thread() -> str:
    """Read the tenant in a thread."""
    return TENANT.get()


@tool(effect="read")
async def in_loop() -> str:
    """Read the tenant in the loop."""
    return TENANT.get()


def reader() -> Agent[Any, Any]:
    inner = Agent(
        "inner", ScriptedModel([[call("in_thread"), call("in_loop")], in_last_results]), tools=[in_thread, in_loop]
    )
    model = ScriptedModel([[call("in_thread"), call("in_loop"), call("inner", '{"input": "x"}')], "ok"])
    return Agent("outer", model, tools=[in_thread, in_loop, inner.as_tool()])


def in_last_results(request: Any) -> str:
    return " ".join(m.output for m in request.messages if isinstance(m, ToolMessage))


def read_as(tenant: str) -> list[str]:
    TENANT.set(tenant)
    return outputs(reader().run_sync("go"))


def from_script() -> list[str]:
    return contextvars.copy_context().run(read_as, "ada")


def from_loop() -> list[str]:
    async def main() -> list[str]:
        return read_as("ada")

    return asyncio.run(main())


def from_thread() -> list[str]:
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(read_as("ada")))
    thread.start()
    thread.join()
    return found[0]


def from_tool() -> list[str]:
    """In a worker thread of ours, which has no loop."""

    @tool(effect="read")
    def nested() -> list[str]:
        return read_as("ada")

    @tool(effect="read")
    async def looped() -> list[str]:
        return read_as("ada")

    result = Agent("a", ScriptedModel([[call("nested"), call("looped")], "ok"]), tools=[nested, looped]).run_sync("go")
    first, second = outputs(result)
    assert first == second
    return ["ada", "ada", "ada ada"] if first == '["ada","ada","ada ada"]' else [first]


entries = pytest.mark.parametrize("entry", [from_script, from_loop, from_thread, from_tool])


@pytest.mark.case("C113", "C115")
@entries
def test_the_sync_entry_works_from_everywhere_and_context_variables_reach_nested_agents(
    entry: Callable[[], list[str]],
) -> None:
    assert entry() == ["ada", "ada", "ada ada"]


@pytest.mark.case("C115")
@pytest.mark.parametrize("inside", [False, True])
def test_an_error_of_the_users_own_comes_through_the_sync_entry_unchanged(inside: bool) -> None:
    mine = RuntimeError("mine")

    def connect(context: Mapping[str, Any]) -> Any:
        raise mine

    def start() -> None:
        Agent("a", ScriptedModel(["ok"]), deps=connect).run_sync("go").raise_for_status()

    async def main() -> None:
        start()

    with pytest.raises(RuntimeError) as caught:
        asyncio.run(main()) if inside else start()
    assert caught.value is mine


@pytest.mark.seed("BND-36")
def test_a_run_result_is_another_type_than_a_tool_result() -> None:
    result = Agent("a", ScriptedModel(["ok"])).run_sync("go")
    assert not isinstance(result, ToolResult)
    assert {"messages", "usage", "requests"} <= {f.name for f in fields(RunResult)}
    assert RunResult[int]("r", "done", value=1) == RunResult("r", "done", value=1)
    assert {"messages", "usage", "requests"}.isdisjoint(ToolResult.__slots__)
    assert isinstance(result.as_tool_result(), ToolResult)
    assert isinstance(tool(name="x")(lambda: None), Tool)
    assert unpaired(result.messages) is None
