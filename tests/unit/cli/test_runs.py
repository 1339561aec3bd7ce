"""Durable runs on the command line: kept, listed, answered, gone on with by a worker, cancelled and removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.support import Ran, ferrule
from tests.unit.cli.test_root import end, start
from tests.unit.projects import Write

from ferrule import Answer
from ferrule.app import App
from ferrule.journal.sqlite import SqliteStore
from ferrule.journal.store import Store
from ferrule.project import load_app
from ferrule.runtime.inbox import Inbox

TILL = """
import threading
from typing import Any

from ferrule import Agent, Context, tool
from ferrule.message import ModelMessage
from ferrule.testing import call


def preview(ctx: Context[Any], arguments: dict[str, Any]) -> str:
    return f"would pay {arguments['amount']} to Bob"


@tool(effect="once", approval=True, preview=preview)
async def pay(amount: int) -> str:
    "Pay."
    with open("paid.txt", "a") as file:
        file.write(f"{amount} ")
    return f"paid {amount}"


FORM = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


@tool(effect="read")
async def where(ctx: Context[Any]) -> str:
    "Ask for a place."
    return (ctx.ask("input", "Where to?", data={"schema": FORM}).data or {})["place"]


@tool(effect="read")
async def hang(ctx: Context[Any]) -> None:
    "Wait for ever."
    print("hanging", flush=True)
    await __import__("asyncio").Event().wait()


def script(*turns: Any) -> Any:
    return lambda request: turns[sum(isinstance(m, ModelMessage) for m in request.messages)]


clerk = Agent("clerk", script(call("pay", '{"amount": 5}'), "Done."), tools=[pay])
guide = Agent("guide", script(call("where"), "Found."), tools=[where])
sloth = Agent("sloth", script(call("hang"), "Never."), tools=[hang])
echo = Agent("echo", lambda request: request.messages[-1].text)
"""


@pytest.fixture
def till(write: Write) -> Path:
    """A project whose runs are durable, as it names a store."""
    write("till.py", TILL)
    return write("ferrule.toml", 'modules = ["till"]\nstore = "kept/runs.db"\n').parent


def run(agent: str, *words: str) -> Any:
    """A durable run; what is asked stays open."""
    return json.loads(ferrule("run", agent, "--input", "hi", "-q", *words).stdout)


def drive(folder: Path) -> None:
    """What a worker does, until nothing is due any more."""

    async def is_busy(store: Store) -> bool:
        found = await store.entries()
        return any([e.state == "running" or bool(await store.letters(e.run_id)) for e in found])

    async def main() -> None:
        app = load_app(folder)
        async with app.working(), asyncio.timeout(30):
            while await is_busy(app.store):
                await asyncio.sleep(0.01)

    asyncio.run(main())


def paid(folder: Path) -> str:
    file = folder / "paid.txt"
    return file.read_text() if file.exists() else ""


# -- where runs are kept ----------------------------------------------------------------------------------------


def test_runs_are_kept_where_the_project_says(till: Path) -> None:
    assert ferrule("ls").data == []
    assert not (till / "kept").exists()
    run_id = run("echo")["run_id"]
    assert (till / "kept" / "runs.db").exists()
    assert [row["id"] for row in ferrule("ls").data] == [run_id]


def test_without_a_named_store_a_run_is_kept_beside_the_project_when_it_shall_be_durable(
    till: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("ferrule.toml", 'modules = ["till"]\n')
    run("echo")
    assert not (till / ".ferrule").exists()
    (till / "below").mkdir()
    monkeypatch.chdir(till / "below")
    run_id = run("echo", "--durable")["run_id"]
    assert (till / ".ferrule" / "runs.db").exists()
    assert ferrule("get", run_id).data["output"] == "hi"


def test_a_store_on_the_command_line_wins_and_needs_no_project_to_be_looked_at(till: Path, write: Write) -> None:
    run_id = run("echo", "--store", "other.db")["run_id"]
    assert ferrule("ls").data == []
    write("ferrule.toml", 'modules = ["gone"]\n')
    assert [row["id"] for row in ferrule("ls", "--store", "other.db").data] == [run_id]
    assert [row["id"] for row in ferrule("--store", "other.db", "ls").data] == [run_id]


def test_the_store_of_an_app_wins_over_the_one_of_the_project_file(till: Path, write: Write) -> None:
    write("shop_app.py", "from ferrule import App\nfrom till import echo\napp = App(agents=[echo], store='own.db')\n")
    for named in ('app = "shop_app:app"', 'modules = ["shop_app"]'):
        write("ferrule.toml", f'{named}\nstore = "kept/runs.db"\n')
        run_id = run("echo")["run_id"]
        assert ferrule("get", run_id, "--store", "own.db").data["name"] == "echo"
    assert not (till / "kept").exists()


@pytest.mark.usefixtures("till")
def test_in_memory_nothing_is_kept() -> None:
    assert run("echo", "--memory")["output"] == "hi"
    assert ferrule("ls").data == []


@pytest.mark.usefixtures("till")
@pytest.mark.parametrize(
    ("words", "code", "detail"),
    [
        (
            ["ls", "--store", "gone.db"],
            2,
            "--store names 'gone.db', and there is no such file. A durable run makes it.",
        ),
        (
            ["ls", "--store", "till.py"],
            4,
            "till.py is not an SQLite database. Name another file, or remove this one.",
        ),
        (["get", "run_1"], 2, "there is no run 'run_1' in the store. `ferrule ls` lists the runs."),
        (["get", "@last"], 2, "there is no run '@last' in the store. `ferrule ls` lists the runs."),
        (["answer", "r.1", "--approve"], 2, "there is no request 'r.1'. `ferrule requests` lists the open ones."),
        (
            ["run", "echo", "--input", "x", "--memory", "--key", "k"],
            2,
            "--key is for durable runs, which are kept in a store. Say --durable.",
        ),
        (
            ["run", "echo", "--input", "x", "--tag", "a"],
            2,
            "--tag 'a' is no key=value. Write for example --tag env=test.",
        ),
        (
            ["run", "echo", "--input", "x", "--detach", "--memory"],
            2,
            "--detach is for durable runs, which are kept in a store. Say --durable.",
        ),
        (
            ["run", "echo", "--input", "x", "--detach", "--timeout", "3"],
            2,
            "--detach does not wait, and --timeout does. Say one of them.",
        ),
        (
            ["run", "echo", "--input", "x", "--timeout", "soon"],
            2,
            "--timeout 'soon' is no time span. Write for example --timeout 30 or --timeout 5m.",
        ),
        (
            ["run", "echo", "--input", "x", "--run-id", "a/b"],
            2,
            "'a/b' is no run id: up to 100 letters, digits, '_' and '-'. Choose another.",
        ),
        (["tail", "x", "-o", "json"], 2, "records come one by one, and -o json is one object. Use -o jsonl."),
    ],
)
def test_misuse_is_a_problem_that_says_what_to_do(words: list[str], code: int, detail: str) -> None:
    ran = ferrule(*words)
    assert (ran.code, ran.problem["detail"]) == (code, detail)


def test_a_store_key_that_is_no_text_is_refused(write: Write) -> None:
    file = write("ferrule.toml", 'modules = ["till"]\nstore = 3\n')
    detail = f"{file}: key 'store' must be text. Write for example store = \".ferrule/runs.db\"."
    assert ferrule("ls").problem["detail"] == detail


# -- looking ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("till")
def test_ls_lists_the_latest_first_with_what_each_waits_for() -> None:
    run("echo", "--tag", "env=test", "--tag", "n=1", "--key", "k")
    run("clerk")
    rows = ferrule("ls").data
    assert list(rows[0]) == [
        "id", "name", "status", "open_requests", "created_at", "updated_at", "due_at", "worker", "key", "tags", "seq",
        "forked_from",
    ]  # fmt: skip
    assert [(r["name"], r["status"], r["open_requests"]) for r in rows] == [
        ("clerk", "suspended", 1),
        ("echo", "done", 0),
    ]
    assert (rows[1]["key"], rows[1]["tags"]) == ("k", {"env": "test", "n": "1"})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", rows[0]["created_at"])
    assert [r["name"] for r in ferrule("ls", "--status", "done").data] == ["echo"]
    assert [r["name"] for r in ferrule("ls", "--agent", "clerk").data] == ["clerk"]
    assert "latest 1" in ferrule("ls", "--limit", "1").stderr
    shown = ferrule("ls", "-o", "table").stdout.splitlines()
    assert shown[0].split() == ["id", "name", "status", "age", "open", "requests"]
    assert re.search(r"clerk +suspended +\d+ s +1$", shown[1])


@pytest.mark.usefixtures("till")
def test_a_second_start_with_one_key_shows_the_first_run_in_every_form() -> None:
    first = run("echo", "--key", "k")
    assert run("echo", "--key", "k") == first
    last = ferrule("run", "echo", "--input", "x", "--key", "k", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["value"]["run_id"] for line in last] == [first["run_id"]]
    assert ferrule("run", "echo", "--input", "x", "--key", "k", "-o", "table", "-q").stdout == "hi\n"


@pytest.mark.usefixtures("till")
def test_get_shows_how_a_run_stands_what_it_asks_and_what_was_said() -> None:
    asked = run("clerk")
    data = ferrule("get", asked["run_id"]).data
    assert (data["status"], data["output"], data["reason"], data["error"]) == ("suspended", "", None, None)
    assert [r["id"] for r in data["requests"]] == [asked["requests"][0]["id"]]
    run("echo")
    shown = ferrule("get", "@last", "-o", "table").stdout
    assert re.search(r"status +done", shown)
    assert shown.endswith("\nhi\n")


@pytest.mark.usefixtures("till")
def test_a_run_is_found_by_a_beginning_that_only_it_has() -> None:
    ids = [run("echo")["run_id"], run("echo")["run_id"]]
    assert ferrule("get", ids[0][4:18]).data["id"] == ids[0]
    assert ferrule("get", "run_").problem["detail"].startswith("2 runs begin with 'run_': ")


@pytest.mark.usefixtures("till")
def test_logs_are_a_line_for_each_record_and_as_jsonl_the_stored_form() -> None:
    run("echo")
    types = ["run.started", "model.intended", "model.responded", "run.settled"]
    told = [json.loads(line) for line in ferrule("logs", "@last", "-o", "jsonl").stdout.splitlines()]
    assert [(row["seq"], row["type"], row["v"]) for row in told] == [(i, t, 1) for i, t in enumerate(types, 1)]
    assert list(told[0]) == ["seq", "type", "v", "at", "body"]
    assert told[0]["body"]["definition"] == "echo"
    assert ferrule("logs", "@last").data == told
    shown = ferrule("logs", "@last", "-o", "table").stdout.splitlines()
    assert [line.split()[3] for line in shown] == types


# -- answering --------------------------------------------------------------------------------------------------


def test_an_approval_is_shown_answered_and_acted_on_by_a_worker(till: Path) -> None:
    ran = ferrule("run", "clerk", "--input", "hi")
    assert ran.code == 5
    assert "`ferrule answer` takes answers, and `ferrule work` goes on with it." in ran.stderr
    (row,) = ferrule("requests").data
    assert (row["kind"], row["preview"], row["state"]) == ("approval", "would pay 5 to Bob", "open")
    assert row["data"]["arguments"] == {"amount": 5}
    assert row["digest"][:12] in ferrule("requests", "-o", "table").stdout
    ran = ferrule("answer", row["id"], "--approve", "--digest", row["digest"][:12])
    assert (ran.code, ran.data["state"], ran.data["channel"], ran.data["worker_alive"]) == (0, "answered", "cli", False)
    assert ran.data["answer"] == {"id": row["id"], "ok": True, "digest": row["digest"]}
    assert re.fullmatch(r".+@.+", ran.data["answered_by"])
    assert ran.stderr == "No worker is alive to act on it. Start one: ferrule work\n"
    assert (ferrule("requests").data, paid(till)) == ([], "")
    drive(till)
    assert (ferrule("get", row["run_id"]).data["output"], paid(till)) == ("Done.", "5 ")


def test_a_preview_without_a_value_is_told_by_its_text(till: Path, write: Write) -> None:
    shown = "return ToolResult.ok(output=f\"would pay {arguments['amount']}\")"
    told = TILL.replace("return f\"would pay {arguments['amount']} to Bob\"", shown)
    write("till.py", told.replace("import Agent,", "import Agent, ToolResult,"))
    asked = run("clerk")["requests"][0]
    assert (asked["preview"], ferrule("requests").data[0]["preview"]) == ("would pay 5", "would pay 5")


@pytest.mark.usefixtures("till")
def test_without_a_terminal_an_approval_needs_the_digest_of_what_was_shown() -> None:
    request = run("clerk")["requests"][0]["id"]
    for words, says in (
        (["--approve"], "an approval needs to be seen, and there is no terminal to show it on."),
        (["--arguments", '{"amount": 3}'], "an approval needs to be seen"),
        (["--approve", "--digest", "0" * 64], "--digest is not that of"),
        (["--approve", "--digest", ""], "--digest is not that of"),
        ([], "there is no terminal to ask on. Say --approve"),
    ):
        ran = ferrule("answer", request, *words)
        assert (ran.code, says in ran.problem["detail"]) == (2, True), words
    assert len(ferrule("requests").data) == 1


@pytest.mark.parametrize(("typed", "code", "amount"), [("y\n", 0, "5 "), ("n\n", 5, ""), ("", 5, "")])
def test_on_a_terminal_an_approval_is_shown_whole_before_it_is_taken(
    till: Path, typed: str, code: int, amount: str
) -> None:
    request = run("clerk")["requests"][0]["id"]
    ran = ferrule("answer", request, "--approve", stdin=typed, terminal=True)
    assert ran.code == code
    assert "would pay 5 to Bob" in ran.stderr
    assert '"amount": 5' in ran.stderr
    drive(till)
    assert paid(till) == amount


def test_an_answer_may_be_typed_on_a_terminal(till: Path) -> None:
    request = run("guide")["requests"][0]["id"]
    assert ferrule("answer", request, stdin="Oslo\n", terminal=True).code == 0
    drive(till)
    assert ferrule("get", "@last").data["output"] == "Found."


def test_yes_approves_unseen_and_arguments_are_those_that_run(till: Path) -> None:
    request = run("clerk")["requests"][0]["id"]
    assert ferrule("answer", request, "--arguments", '{"amount": 3}', "--yes").code == 0
    drive(till)
    assert paid(till) == "3 "


def test_arguments_that_do_not_fit_the_tool_are_refused_and_the_request_stays_open(till: Path) -> None:
    request = run("clerk")["requests"][0]["id"]
    ran = ferrule("answer", request, "--arguments", '{"amount": "much"}', "--yes")
    assert (ran.code, "amount" in ran.problem["detail"]) == (2, True)
    assert [r["state"] for r in ferrule("requests").data] == ["open"]
    drive(till)
    assert paid(till) == ""


def test_a_declined_call_is_told_to_the_model_with_the_reason(till: Path) -> None:
    request = run("clerk")["requests"][0]["id"]
    ran = ferrule("answer", request, "--decline", "--reason", "too much", "-o", "table")
    assert (ran.code, ran.stdout) == (0, f"request {request} is declined.\n")
    drive(till)
    assert "too much" in ferrule("logs", "@last", "-o", "jsonl").stdout
    assert paid(till) == ""


@pytest.mark.usefixtures("till")
def test_data_must_fit_what_was_asked() -> None:
    request = run("guide")["requests"][0]["id"]
    for data, says in (
        ('{"x": 1}', "place"),
        ("[1]", "not an object."),
        ("{", "--data is not JSON"),
    ):
        ran = ferrule("answer", request, "--data", data)
        assert (ran.code, says in ran.problem["detail"]) == (2, True), data
    assert ferrule("answer", request, "--data", "-", stdin='{"place": "Oslo"}').code == 0


@pytest.mark.usefixtures("till")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--approve", "--decline"], "--decline gives nothing else but a --reason."),
        (["--reason", "x"], "--reason alone decides nothing."),
        (["--arguments", "{}"], "--arguments is for approvals"),
    ],
)
def test_an_answer_that_says_two_things_or_none_is_refused(words: list[str], says: str) -> None:
    request = run("guide")["requests"][0]["id"]
    ran = ferrule("answer", request, *words)
    assert (ran.code, says in ran.problem["detail"]) == (2, True)


@pytest.mark.usefixtures("till")
def test_the_same_answer_again_is_fine_and_another_is_a_conflict_that_says_who_and_when() -> None:
    request = run("clerk")["requests"][0]["id"]
    assert ferrule("answer", request, "--approve", "--yes").code == 0
    again = ferrule("answer", request, "--approve")
    assert (again.code, again.data["state"]) == (0, "answered")
    for words in (["--decline"], []):
        ran = ferrule("answer", request, *words)
        assert (ran.code, ran.problem["code"]) == (8, "already_answered")
        assert re.search(r"\S+@\S+ answered it at \d{4}-", ran.problem["detail"])


def test_an_expired_request_takes_no_answer(till: Path, write: Write) -> None:
    run("guide")
    asked = ferrule("requests").data
    path = till / "kept" / "runs.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE requests SET expires = 1.0")  # nobody has looked since
    assert "expired" in ferrule("requests", "-o", "table").stdout
    ran = ferrule("answer", asked[0]["id"], "--data", '{"place": "Oslo"}')
    assert (ran.code, ran.problem["code"]) == (8, "answer_refused")
    assert "It has expired" in ran.problem["detail"]
    assert ferrule("answer", asked[0]["id"]).problem["detail"].endswith("It is expired.")


# -- workers ----------------------------------------------------------------------------------------------------


def ready(process: subprocess.Popen[bytes], says: bytes) -> None:
    """Wait until a process has said something on standard error."""
    assert process.stderr is not None
    until, seen = time.monotonic() + 30, b""
    while says not in seen:
        assert select.select([process.stderr], [], [], max(0, until - time.monotonic()))[0], seen
        more = os.read(process.stderr.fileno(), 4096)
        assert more, seen
        seen += more


@contextlib.contextmanager
def started(*words: str, says: bytes) -> Generator[subprocess.Popen[bytes]]:
    """A command line in a process of its own, once it has said something; it is always ended."""
    process = start(*words)
    try:
        ready(process, says)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        end(process)


needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are not told apart there")


@needs_posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_goes_on_with_answered_runs_until_a_signal_ends_it(till: Path, number: signal.Signals) -> None:
    request = run("clerk")["requests"][0]["id"]
    with started("work", says=b"takes runs of clerk, guide, sloth, echo") as worker:
        ran = ferrule("answer", request, "--approve", "--yes")
        assert (ran.data["worker_alive"], ran.stderr) == (True, "A worker is alive and acts on it.\n")
        tail = ferrule("tail", "@last", "-o", "jsonl", "-q")
        assert (tail.code, json.loads(tail.stdout.splitlines()[-1])["type"]) == (0, "run.settled")
        assert paid(till) == "5 "
        worker.send_signal(number)
        assert end(worker)[0] == 0
    assert ferrule("answer", run("clerk")["requests"][0]["id"], "--decline").data["worker_alive"] is False


async def bury(folder: Path, worker: str) -> None:
    """Have a worker that was killed count as dead at once, not only after its lease."""
    store = SqliteStore(folder / "kept" / "runs.db")
    await store.open()
    await store.retire(worker)
    await store.close()


@needs_posix
def test_a_worker_that_ends_lets_go_of_what_does_not_end_and_cancels_nothing(till: Path) -> None:
    with started("run", "sloth", "--input", "x", says=b"hanging"):
        (row,) = ferrule("ls").data
        run_id = row["id"]
    asyncio.run(bury(till, row["worker"]))
    with started("work", says=b"hanging") as worker:  # the run of a dead process is taken
        worker.send_signal(signal.SIGTERM)
        assert end(worker)[0] == 0
    data = ferrule("get", run_id).data
    assert (data["status"], data["worker"]) == ("running", None)
    types = [row["type"] for row in ferrule("logs", run_id).data]
    assert ("run.taken" in types, "cancel.requested" in types) == (True, False)


@needs_posix
@pytest.mark.usefixtures("till")
def test_a_run_is_cancelled_from_another_process() -> None:
    with started("run", "sloth", "--input", "x", says=b"hanging") as going:
        ran = ferrule("cancel", "@last")
        assert (ran.code, ran.data["worker_alive"]) == (0, True)
        code, out, _ = end(going)
        assert (code, json.loads(out)["status"]) == (6, "cancelled")
    who = next(row["body"]["by"] for row in ferrule("logs", "@last").data if row["type"] == "cancel.requested")
    assert "@" in who


@needs_posix
@pytest.mark.usefixtures("till")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_durable_run_and_says_how_to_go_on(number: signal.Signals) -> None:
    with started("run", "sloth", "--input", "x", "--run-id", "mine", says=b"hanging") as going:
        going.send_signal(number)
        code, out, err = end(going)
    assert (code, out) == (130, "")
    detail = json.loads(err.splitlines()[-1])["detail"]
    for words in ("run mine is kept", "`ferrule work`", "`ferrule tail mine`", "`ferrule cancel mine`"):
        assert words in detail
    data = ferrule("get", "@last").data
    assert (data["id"], data["status"], data["worker"]) == ("mine", "running", None)


@needs_posix
@pytest.mark.usefixtures("till")
def test_a_second_ctrl_c_cancels_a_durable_run() -> None:
    with started("run", "sloth", "--input", "x", says=b"hanging") as going:
        going.send_signal(signal.SIGINT)
        ready(going, b"Ctrl-C again cancels it")
        going.send_signal(signal.SIGINT)
        code, out, err = end(going)
    assert (code, json.loads(out)["status"]) == (130, "cancelled")
    assert "is cancelled" in err
    assert ferrule("get", "@last").data["status"] == "cancelled"


@needs_posix
@pytest.mark.usefixtures("till")
def test_when_the_time_is_over_a_run_goes_on_and_the_code_says_so() -> None:
    ran = ferrule("run", "sloth", "--input", "x", "--timeout", "1ms", "--run-id", "mine")
    assert (ran.code, ran.stdout) == (7, "")
    assert "run mine is kept, and goes on where a worker takes it" in ran.stderr
    assert ferrule("get", "mine").data["status"] == "running"
    assert ferrule("run", "echo", "--input", "x", "--timeout", "5m").code == 0


def test_a_run_is_started_and_left_to_a_worker(till: Path) -> None:
    ran = ferrule("run", "echo", "--input", "hi", "--detach", "--run-id", "mine", "--tag", "env=test")
    assert (ran.code, ran.data) == (0, {"id": "mine", "status": "running", "worker_alive": False})
    assert "No worker is alive to act on it." in ran.stderr
    assert ferrule("run", "echo", "--input", "other", "--detach", "--run-id", "mine", "-o", "table").stdout == "mine\n"
    drive(till)
    data = ferrule("get", "mine").data
    assert (data["status"], data["output"], data["tags"]) == ("done", "hi", {"env": "test"})
    assert run("echo", "--run-id", "mine")["output"] == "hi"


@pytest.mark.usefixtures("till")
def test_the_answer_of_a_durable_run_is_streamed() -> None:
    ran = ferrule("run", "echo", "--input", "hi", "--stream", "-o", "jsonl", "--run-id", "mine")
    assert ran.code == 0
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [event["type"] for event in events] == ["step", "text", "usage", "done"]
    assert (events[1]["text"], "seq" in events[1], events[2]["seq"]) == ("hi", False, 3)
    assert ferrule("run", "echo", "--input", "hi", "--stream", "-o", "table", "-q").stdout == "hi\n"


def test_a_run_that_waits_can_be_cancelled_and_tail_ends_with_its_code(till: Path) -> None:
    run("clerk")
    tail = ferrule("tail", "@last", "-o", "table")
    assert (tail.code, "wait.opened" in tail.stdout, "suspended: request" in tail.stderr) == (5, True, True)
    assert ferrule("cancel", "@last").code == 0
    drive(till)
    assert ferrule("tail", "@last").code == 6
    assert ferrule("cancel", "@last", "-o", "table").stdout.endswith("is cancelled.\n")
    assert ferrule("requests").data == []


def test_a_blocked_run_is_not_removed_and_can_be_cancelled(till: Path) -> None:
    run_id = run("clerk")["run_id"]
    with contextlib.closing(sqlite3.connect(till / "kept" / "runs.db")) as db, db:
        db.execute("UPDATE runs SET state = 'blocked'")
    assert ferrule("tail", "@last").code == 9
    detail = f"run {run_id} is blocked. Cancel it first; nothing was removed."
    assert ferrule("rm", run_id, "--yes").problem["detail"] == detail
    assert ferrule("cancel", run_id, "-o", "table").stdout == f"run {run_id} is told to end.\n"
    drive(till)
    assert ferrule("tail", "@last").code == 6
    assert (ferrule("requests").data, paid(till)) == ([], "")
    assert ferrule("rm", run_id, "--yes").data == {"removed": 1}


@pytest.mark.usefixtures("till")
def test_a_run_that_is_over_cannot_be_cancelled() -> None:
    run("echo")
    ran = ferrule("cancel", "@last")
    assert (ran.code, ran.problem["code"]) == (8, "conflict")
    assert ran.problem["detail"].endswith("is done: there is nothing to cancel.")


@pytest.mark.usefixtures("till")
def test_work_without_agents_is_refused(write: Write) -> None:
    write("shop.py", "from ferrule import tool\n\n\n@tool\ndef x() -> None:\n    'Be.'\n")
    assert "the app has no agents" in ferrule("--app", "shop.py", "work").problem["detail"]


# -- removing ---------------------------------------------------------------------------------------------------


def removed(*words: str, **how: Any) -> tuple[Ran, int]:
    ran = ferrule("rm", *words, **how)
    return ran, len(ferrule("ls").data)


@pytest.mark.usefixtures("till")
def test_runs_that_are_over_are_removed_and_only_when_somebody_says_so() -> None:
    ids = [run("echo")["run_id"] for _ in range(3)]
    ran, left = removed(ids[0])
    assert (ran.code, left, ran.problem["detail"]) == (
        2,
        3,
        "rm removes for good, and there is no terminal to ask on. Say --yes.",
    )
    ran, left = removed(ids[0], stdin="n\n", terminal=True)
    assert (ran.code, left, ids[0] in ran.stderr) == (1, 3, True)
    ran, left = removed(ids[0], stdin="y\n", terminal=True)
    assert (ran.code, left, ran.stdout) == (0, 2, "1 run removed.\n")
    ran, left = removed(ids[1], ids[2], ids[1], "--yes")
    assert (ran.code, left, ran.data) == (0, 0, {"removed": 2})


@pytest.mark.usefixtures("till")
def test_where_one_of_them_still_goes_on_nothing_is_removed() -> None:
    ids = [run("echo")["run_id"], run("clerk")["run_id"]]
    ran, left = removed(*ids, "--yes")
    assert (ran.code, left) == (8, 2)
    assert ran.problem["detail"] == f"run {ids[1]} is suspended. Cancel it first; nothing was removed."


@pytest.mark.usefixtures("till")
def test_runs_beyond_an_age_or_a_size_are_removed_and_what_waits_stays() -> None:
    waits = run("clerk")["run_id"]
    for _ in range(2):
        run("echo")
    ran, left = removed("--older-than", "1d", "--blobs-older-than", "1d", "--yes")
    assert (ran.code, left, ran.data) == (0, 3, {"removed": 0, "blobs": 0})
    ran, left = removed("--keep-size", "1GB", "-y")
    assert (ran.code, left) == (0, 3)
    ran, left = removed("--older-than", "0s", stdin="n\n", terminal=True)
    assert (ran.code, left) == (1, 3)
    ran, left = removed("--keep-size", "1kB", stdin="y\n", terminal=True)
    assert (ran.code, left, ran.stdout) == (0, 1, "2 runs removed, and 0 blobs of others.\n")
    assert [row["id"] for row in ferrule("ls").data] == [waits]


@pytest.mark.usefixtures("till")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name runs, or say --older-than, --keep-size or --blobs-older-than."),
        (["@last", "--older-than", "1d"], "name runs, or say --older-than"),
        (["--older-than", "1d"], "there is no terminal to ask on. Say --yes."),
        (["--older-than", "soon"], "'soon' is not a span of time. Write for example '30d'"),
        (["--keep-size", "2"], "'2' is not a size. Write for example '2GB'"),
    ],
)
def test_what_rm_cannot_mean_is_refused(words: list[str], says: str) -> None:
    ran = ferrule("rm", *words)
    assert ran.code == 2
    assert says in ran.problem["detail"]


def test_an_answer_from_a_program_and_one_from_the_command_line_meet_in_one_store(till: Path) -> None:
    request = run("clerk")["requests"][0]

    async def main() -> None:
        store = SqliteStore(till / "kept" / "runs.db")
        await store.open()
        try:
            answer = Answer(request["id"], ok=False, reason="no", digest=request["digest"])
            await Inbox(store).answer(request["id"], answer, by="ada", channel="http")
        finally:
            await store.close()

    asyncio.run(main())
    assert "ada answered it at" in ferrule("answer", request["id"], "--approve", "--yes").problem["detail"]


def test_an_app_tells_whether_its_runs_outlive_the_process() -> None:
    assert (App().is_durable, App(store="x.db").is_durable) == (False, True)
