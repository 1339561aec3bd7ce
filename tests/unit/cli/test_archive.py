"""A run is moved by two commands: out of one store into a file, and from there into another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.support import ferrule
from tests.unit.cli.test_runs import drive, paid, run, till

__all__ = ["till"]


@pytest.mark.usefixtures("till")
def test_a_run_that_waits_is_moved_and_goes_on_in_the_other_store(till: Path) -> None:
    run_id = run("clerk")["run_id"]
    out = ferrule("export", "@last", "-f", "run.jsonl")
    assert (out.code, out.stdout) == (0, "")
    assert f"run {run_id} is suspended. Have one copy of it go on, and cancel the other." in out.stderr
    (till / "kept" / "runs.db").rename(till / "old.db")

    taken = ferrule("import", "run.jsonl")
    assert taken.data == {"id": run_id, "name": "clerk", "status": "suspended", "new": True}
    assert "No worker is alive to act on it. Start one: ferrule work" in taken.stderr
    assert ferrule("import", "run.jsonl", "-q").data["new"] is False
    assert "".join((till / "run.jsonl").read_text()) == ferrule("export", run_id, "-q").stdout

    (request,) = ferrule("requests").data
    assert ferrule("answer", request["id"], "--approve", "--yes").code == 0
    drive(till)
    assert paid(till) == "5 "
    assert ferrule("get", run_id).data["status"] == "done"
    again = ferrule("import", "run.jsonl")
    assert again.code == 8
    assert "is in the store already, and differs from the file" in again.problem["detail"]


@pytest.mark.usefixtures("till")
def test_a_file_from_standard_input_fills_a_store_of_its_own(till: Path) -> None:
    run_id = run("echo")["run_id"]
    lines = ferrule("export", run_id).stdout
    assert [json.loads(line)["is"] for line in lines.splitlines()][::99] == ["run"]
    taken = ferrule("import", "-", "--store", "new/other.db", stdin=lines)
    assert (taken.code, taken.stderr) == (0, "")
    assert [row["id"] for row in ferrule("ls", "--store", "new/other.db").data] == [run_id]


@pytest.mark.usefixtures("till")
@pytest.mark.parametrize(
    ("words", "code", "word", "says"),
    [
        (["export", "nope"], 2, "usage", "there is no run 'nope'"),
        (["export", "@last", "-f", "no/such/run.jsonl"], 1, "io", "no/such"),
        (["import", "no.jsonl"], 1, "io", "no.jsonl"),
        (["import", "cut.jsonl"], 2, "archive", "the file is cut"),
    ],
)
def test_what_cannot_be_moved_is_a_problem_that_says_why(
    till: Path, words: list[str], code: int, word: str, says: str
) -> None:
    run("echo")
    (till / "cut.jsonl").write_text("\n".join(ferrule("export", "@last").stdout.split("\n")[:-2]) + "\n")
    before = {*till.rglob("*.jsonl")}
    ran = ferrule(*words)
    assert (ran.code, ran.problem["code"]) == (code, word)
    assert says in ran.problem["detail"]
    assert {*till.rglob("*.jsonl")} == before
