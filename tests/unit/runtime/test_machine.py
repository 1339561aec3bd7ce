"""The driver performs whatever a machine commands, agent or not: a toy machine commands all there is."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tests.clock import run

from ferrule import Answer, Request, tool
from ferrule.journal.memory import MemoryJournal
from ferrule.machine import CallTool, Cancel, Cancelled, Command, Completion, Finish, Sleep, StartRun, Wait
from ferrule.message import Call, Usage
from ferrule.runtime.driver import Driver
from ferrule.runtime.info import RunInfo
from ferrule.runtime.outcome import RunResult


class Toy:
    """Definition and machine in one: gives the commands of a script, one list for each completion."""

    name = "toy"
    hooks = None
    messages: Sequence[Any] = ()
    usage = Usage()

    def __init__(self, *script: Sequence[Command]) -> None:
        self.script = list(script)
        self.heard: list[tuple[str, Any]] = []

    def machine(self, options: Mapping[str, Any]) -> Toy:
        return self

    def live(self, context: Mapping[str, Any]) -> None:
        return None

    def rewritten(self, response: Any, messages: Any) -> Any:
        raise AssertionError

    def heard_by(self, listener: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
        return listener

    def start(self, input: Any, at: float) -> Sequence[Command]:
        return self.script.pop(0)

    def on(self, completion: Completion) -> Sequence[Command]:
        self.heard.append((completion.op, completion.outcome))
        return self.script.pop(0) if self.script else ()


END = [Finish("done", "end")]


async def drive(toy: Toy, **options: Any) -> tuple[RunResult[Any], float]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await Driver(toy, MemoryJournal("r"), RunInfo("r", {}, None), **options).run(None)
    return result, loop.time() - began


def test_time_passes_by_seconds_or_until_a_moment() -> None:
    at = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat()
    past = "2001-01-01T00:00:00Z"
    toy = Toy([Sleep("a", 5)], [Sleep("b", until=at)], [Sleep("c", until=past)], END)
    result, seconds = run(drive(toy))
    assert result.status == "done"
    assert toy.heard == [("a", None), ("b", None), ("c", None)]
    assert 3600 < seconds < 3606


def test_several_commands_go_on_at_once_and_are_told_in_the_order_of_their_ends() -> None:
    toy = Toy([Sleep("slow", 9), Sleep("quick", 1)], [], END)
    _, seconds = run(drive(toy))
    assert ([op for op, _ in toy.heard], seconds) == (["quick", "slow"], 9)


@pytest.mark.parametrize("answered", [True, False])
def test_a_machine_asks_a_person(answered: bool) -> None:
    asked = Request("q", "question", "Well?")

    def answer(request: Request) -> Answer | None:
        return Answer(request.id, ok=True) if answered else None

    toy = Toy([Wait("node", asked)], END)
    result, _ = run(drive(toy, on_request=answer))
    assert result.status == ("done" if answered else "suspended")
    assert [r.prompt for r in result.requests] == ([] if answered else ["Well?"])
    assert [getattr(outcome, "ok", None) for _, outcome in toy.heard] == ([True] if answered else [])


def test_a_run_starts_inside_and_its_end_is_the_outcome() -> None:
    inner = Toy([Sleep("a", 3)], END)
    toy = Toy([StartRun("child", inner, None)], END)
    _, seconds = run(drive(toy))
    ((op, outcome),) = toy.heard
    assert (op, outcome.status, outcome.output, outcome.run_id, seconds) == ("child", "done", "end", "r/child", 3)


def test_a_command_is_cancelled_and_completed_all_the_same() -> None:
    @tool(effect="read")
    async def long() -> str:
        """Take long."""
        await asyncio.sleep(1000)
        return "never"

    called = CallTool("t", Call("t", "long", "{}"), long)
    toy = Toy([called, Sleep("z", 1), Sleep("y", 2)], [Cancel("t"), Cancel("y"), Cancel("unknown")], [], END)
    result, seconds = run(drive(toy))
    assert (result.status, seconds) == ("done", 1)
    told = dict(toy.heard)
    assert told["t"].failure.code == "cancelled"
    assert [op for op, _ in toy.heard[:1]] == ["z"]
    assert told["y"] is None


def test_what_is_in_flight_is_let_go_when_the_machine_ends() -> None:
    toy = Toy([Sleep("long", 1000), Sleep("short", 1)], END)
    result, seconds = run(drive(toy))
    assert (result.status, seconds, [op for op, _ in toy.heard]) == ("done", 1, ["short"])


def test_a_cancelled_run_settles_what_waits() -> None:
    async def main() -> Any:
        driver = Driver(toy, MemoryJournal("r"), RunInfo("r", {}, None))
        task = asyncio.ensure_future(driver.run(None))
        await asyncio.sleep(1)
        driver.cancel("me")
        return await task

    toy = Toy([Sleep("a", 1000), Wait("b", Request("q", "question", "Well?"))])
    result = run(main())
    assert result.status == "cancelled"
    assert isinstance(toy.heard[0][1], Cancelled)
    assert {op for op, _ in toy.heard[1:]} == {"a", "b"}


def test_records_tell_what_was_fed_in_its_order() -> None:
    journal = MemoryJournal("r")
    toy = Toy([Sleep("a", 1)], END)

    async def main() -> None:
        await Driver(toy, journal, RunInfo("r", {}, None)).run(None)

    run(main())
    assert [(r.seq, r.type) for r in journal.records] == [(1, "run.started"), (2, "timer.fired"), (3, "run.settled")]
