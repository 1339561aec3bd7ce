"""Recorded runs on the command line: replayed, forked, compared and resumed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.unit.cli.support import ferrule
from tests.unit.projects import Write, forgotten

from ferrule.journal.sqlite import SqliteStore
from ferrule.journal.store import Batch, Held, NewRun

SHOP = """
from typing import Any

from ferrule import Agent, tool
from ferrule.message import ModelMessage
from ferrule.testing import FunctionModel, call


@tool(effect="read")
async def look(where: str = "here") -> str:
    "Look."
    note("look")
    return f"seen {where}"


@tool(effect="once")
async def pay(amount: int) -> str:
    "Pay."
    note("pay")
    return f"paid {amount}"


def note(what: str) -> None:
    with open("done.txt", "a") as file:
        file.write(f"{what} ")


def script(*turns: Any) -> Any:
    return FunctionModel(lambda request: turns[sum(isinstance(m, ModelMessage) for m in request.messages)], name="till")


clerk = Agent("clerk", script([call("look")], [call("pay", {"amount": 5})], "Done."), tools=[look, pay])
"""


@pytest.fixture
def till(write: Write) -> Path:
    write("till.py", SHOP)
    return write("ferrule.toml", 'modules = ["till"]\nstore = "runs.db"\n').parent


@pytest.fixture
def recorded(till: Path) -> str:
    with forgotten(till):
        return json.loads(ferrule("run", "clerk", "--input", "hi", "-q").stdout)["run_id"]


def done(folder: Path) -> list[str]:
    return (folder / "done.txt").read_text().split()


def changed(folder: Path, old: str, new: str) -> None:
    assert old in SHOP
    (folder / "till.py").write_text(SHOP.replace(old, new))


def test_a_replay_of_unchanged_code_finds_no_difference_and_calls_nothing(recorded: str, till: Path) -> None:
    ran = ferrule("replay", recorded)
    assert (ran.code, ran.data["same"], ran.data["first_difference"]) == (0, True, None)
    assert done(till) == ["look", "pay"]
    assert "this code does the same" in ferrule("replay", "@last", "-o", "table").stdout


def test_other_code_is_told_of_with_both_sides(recorded: str, till: Path) -> None:
    with forgotten(till):
        changed(till, 'name="till"', 'name="other"')
        ran = ferrule("replay", recorded)
        assert (ran.code, ran.data["blocks"]) == (1, False)
        assert ran.data["first_difference"] == {
            "seq": 2, "op": "m1", "recorded": "model 'till'", "now": "model 'other'", "blocks": False,
        }  # fmt: skip
    with forgotten(till):
        changed(till, "tools=[look, pay])", "tools=[look, pay], output=int)")
        ran = ferrule("replay", recorded, "-o", "table")
        assert ran.code == 9
        assert "was the end (done), and is now a model call at 'm4'" in ran.stdout


def test_another_model_is_asked_and_tools_answer_from_the_journal(recorded: str, till: Path) -> None:
    ran = ferrule("replay", recorded, "--instructions", "Be brief.")
    assert (ran.code, ran.data["output"], ran.data["answered"], ran.data["missed"]) == (
        0,
        "Done.",
        ["t1.0", "t2.0"],
        None,
    )
    assert done(till) == ["look", "pay"]
    assert ferrule("ls").data[0]["id"] == recorded


def test_a_call_that_was_not_recorded_stops_it_unless_it_only_reads(recorded: str, till: Path) -> None:
    changed(till, 'call("look")', 'call("look", {"where": "there"})')
    with forgotten(till):
        ran = ferrule("replay", recorded, "--instructions", "Be brief.")
        assert (ran.code, ran.data["missed"], ran.data["reason"]) == (1, "t1.0", "not_recorded")
    with forgotten(till):
        ran = ferrule("replay", recorded, "--instructions", "Be brief.", "--on-miss", "read")
        assert (ran.code, ran.data["called"]) == (0, ["t1.0"])
    assert done(till) == ["look", "pay", "look"]


def test_a_fork_makes_what_comes_after_again_and_is_compared(recorded: str, till: Path) -> None:
    edit = 't2.0={"arguments": {"amount": 7}}'
    ran = ferrule("fork", recorded, "--before", "t2.0", "--edit", edit)
    assert (ran.code, ran.data["output"], ran.data["forked_from"]) == (0, "Done.", recorded)
    assert done(till) == ["look", "pay", "pay"]
    fork = ran.data["run_id"]
    assert ferrule("get", fork).data["forked_from"] == recorded
    ran = ferrule("diff", recorded, fork)
    assert (ran.code, ran.data["same"], ran.data["first"]) == (1, False, "t2.0")
    assert [step["op"] for step in ran.data["steps"]] == ["m1", "t1.0", "m2", "t2.0", "m3"]
    shown = ferrule("diff", recorded, fork, "-o", "table").stdout
    assert "> " in shown
    assert [line.split()[1] for line in shown.splitlines() if line.startswith(">")] == ["t2.0"]
    lines = ferrule("diff", recorded, fork, "-o", "jsonl", "--store", "runs.db").stdout.splitlines()
    assert [json.loads(line)["differs"] for line in lines][:3] == [[], [], []]
    assert ferrule("diff", recorded, recorded).code == 0


def test_a_run_with_a_fork_is_removed_with_it_only(recorded: str) -> None:
    fork = ferrule("fork", recorded, "--at", "3").data["run_id"]
    ran = ferrule("rm", recorded, "--yes")
    assert ran.code == 8
    assert f"run {fork} is a fork of {recorded} and shares its records" in ran.problem["detail"]
    assert ferrule("rm", recorded, fork, "--yes").data == {"removed": 2}


@pytest.mark.parametrize(
    ("words", "code", "detail"),
    [
        (["fork", "@last"], 2, "Say at=… or before=…"),
        (["fork", "@last", "--before", "t9.0"], 2, "the run has no op 't9.0'"),
        (["fork", "@last", "--at", "1", "--edit", "t1.0"], 2, "is no OP=JSON"),
        (["fork", "@last", "--at", "1", "--edit", "t1.0={"], 2, ""),
        (["replay", "@last", "--on-miss", "read"], 2, "--on-miss is for a replay with --model"),
        (["replay", "nobody"], 2, "there is no run 'nobody'"),
        (["diff", "@last", "nobody"], 2, "there is no run 'nobody'"),
        (["resume", "@last"], 8, "is done, and only blocked runs are resumed"),
    ],
)
@pytest.mark.usefixtures("recorded")
def test_what_cannot_be_done_is_said_and_done_by_halves_neither(words: list[str], code: int, detail: str) -> None:
    ran = ferrule(*words)
    assert ran.code == code
    assert detail in ran.problem["detail"]
    assert len(ferrule("ls").data) == 1


def test_a_blocked_run_is_left_a_word_to_be_tried_again(recorded: str, till: Path) -> None:
    async def block() -> None:
        store = SqliteStore(till / "runs.db")
        await store.open()
        await store.enlist("w", {})
        held = await store.create(NewRun("run_b", "clerk", (await store.rows(recorded))[0]), "w")
        assert isinstance(held, Held)
        await store.append(held, Batch((), state="blocked"))
        await store.close()

    async def letters() -> list[str]:
        store = SqliteStore(till / "runs.db")
        await store.open()
        found = [letter.kind for letter in await store.letters("run_b")]
        await store.close()
        return found

    asyncio.run(block())
    ran = ferrule("resume", "run_b")
    assert (ran.code, ran.data) == (0, {"id": "run_b", "status": "blocked", "worker_alive": False})
    assert asyncio.run(letters()) == ["resume"]
