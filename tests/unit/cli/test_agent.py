"""`ferrule run` and `ferrule chat`: what they show, what they ask, and how they end."""

from __future__ import annotations

import codecs
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.support import ferrule
from tests.unit.cli.test_root import SOURCES, end, end_of_errors, start
from tests.unit.projects import Write

from ferrule import Event, RunResult, ToolResult
from ferrule.cli.failure import ExitCode, exit_code_of
from ferrule.cli.progress import Progress
from ferrule.cli.session import Session
from ferrule.machine import Status
from ferrule.message import Call

DESK = """
import os
import signal
import threading
from typing import Any

from ferrule import Agent, Context, Hooks, Limits, ToolResult, image, tool
from ferrule.errors import ModelError
from ferrule.testing import ScriptedModel, call
from ferrule.provider.base import ModelResponse
from ferrule.message import ModelMessage

PAID: list[int] = []
PNG = b"\\x89PNG\\r\\n\\x1a\\n" + bytes(20)


@tool(effect="read")
async def stock(part: str, ctx: Context[Any]) -> int:
    "How many are there."
    ctx.progress("counting")
    return {"ring": 12}[part]


class Array:
    "Compares item by item, as arrays do."

    def __ne__(self, other: object) -> Any:
        return Array()

    def __eq__(self, other: object) -> Any:
        return Array()

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


@tool(effect="read")
async def report(ctx: Context[Any]) -> int:
    "Report all kinds of things."
    for value in (Array(), float("nan"), {"percent": 50}, None, "x\\ud800"):
        ctx.progress(value)
    return 1


@tool(effect="read")
async def draw() -> Any:
    "Draw."
    return image(PNG, name="dot.png")


@tool(effect="read")
async def lookalike() -> Any:
    "Give a value that looks like a failure."
    return {"success": False, "error": "x"}


def preview(ctx: Context[Any], arguments: dict[str, Any]) -> str:
    return f"would pay {arguments['amount']} to Bob"


@tool(effect="once", approval=True, preview=preview)
def pay(amount: int) -> str:
    "Pay."
    PAID.append(amount)
    return f"paid {amount}"


FORM = {
    "type": "object",
    "properties": {"where": {"type": "string", "description": "the place"}, "copies": {"type": "integer"}},
    "required": ["where"],
}


@tool(effect="read")
async def deploy(ctx: Context[Any], form: bool = False) -> str:
    "Deploy."
    answer = ctx.ask("input", "Where to?", data={"schema": FORM} if form else None)
    return f"runs in {answer.data}"


@tool(effect="read")
async def sign_in(ctx: Context[Any]) -> str:
    "Sign in."
    ctx.ask("authorization", "Sign in, please.", url="https://example.org/login")
    return "signed in"


@tool(effect="once")
async def interrupt() -> str:
    "Do something while somebody presses Ctrl-C."
    signal.raise_signal(signal.SIGINT)
    await __import__("asyncio").Event().wait()


@tool
def wait() -> None:
    "Wait."
    print("started", flush=True)
    threading.Event().wait(60)


@tool(effect="once")
async def deaf() -> str:
    "Do not hear of a cancellation, nor of the one that comes when the event loop closes."
    loop = __import__("asyncio").get_running_loop()
    waited = loop.create_future()
    loop.call_later(60, waited.set_result, None)
    while not waited.done():
        try:
            await __import__("asyncio").shield(waited)
        except __import__("asyncio").CancelledError:
            print("deaf", flush=True)
    return "heard nothing"


def made(name: str, *turns: Any, **options: Any) -> Agent:
    return Agent(name, ScriptedModel(turns), tools=[stock, report, draw, lookalike, pay, deploy, sign_in, interrupt, wait, deaf], **options)


desk = made("desk", [call("stock", '{"part": "ring"}'), call("stock", '{"part": "screw"}')], "There are 12 rings.", "Still 12.")
boss = Agent("boss", ScriptedModel([call("desk", '{"input": "x"}'), "The desk knows."]), tools=[desk.as_tool()])
reporter = made("reporter", call("report"), "Done.", call("report"), "Done.")
artist = made("artist", [call("draw"), call("lookalike")], "Drawn.")
endless = made("endless", call("stock", '{"part": "ring"}'), limits=Limits(turns=1))
broken = made("broken", ModelError("is down", provider="scripted"))
clerk = made("clerk", call("pay", '{"amount": 5}'), "Done.")
porter = made("porter", call("deploy"), "Done.")
former = made("former", call("deploy", '{"form": true}'), "Done.")
guest = made("guest", call("sign_in"), "Done.")
stopped = made("stopped", [call("stock", '{"part": "ring"}'), call("interrupt")], "Never.", "I am still here.")
waiter = made("waiter", call("wait"), "Never.")
deafened = made("deafened", call("deaf"), "Never.")
TALE = "Once\\nupon a time \\x1b[2J."
teller = made("teller", TALE, TALE)
exhausted = made("exhausted")
echo = Agent("echo", lambda request: f"{len(request.messages)}: {request.messages[-1].text}")
"""


@pytest.fixture
def desk(write: Write) -> Path:
    """A project with agents, each with a script of its own."""
    write("desk.py", DESK)
    return write("ferrule.toml", 'modules = ["desk"]\n').parent


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# -- run: data --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("desk")
def test_run_gives_one_object_and_tells_of_the_calls_beside_it() -> None:
    ran = ferrule("run", "desk", "--input", "What is there?")
    assert (ran.code, ran.stderr.splitlines()) == (
        0,
        [
            'call stock {"part": "ring"}',
            "stock: counting",
            'call stock {"part": "screw"}',
            "stock: counting",
            'done stock {"part": "ring"}: 12',
            'failed stock {"part": "screw"}: KeyError: \'screw\'',
        ],
    )
    assert list(ran.data) == [
        "run_id", "status", "output", "value", "error", "reason", "requests", "usage", "messages",
    ]  # fmt: skip
    assert (ran.data["status"], ran.data["output"], len(ran.data["messages"])) == ("done", "There are 12 rings.", 5)
    assert "What is there?" == ran.data["messages"][0]["parts"][0]["text"]


@pytest.mark.usefixtures("desk")
def test_quiet_leaves_the_progress_out() -> None:
    assert ferrule("run", "desk", "--input", "x", "--quiet").stderr == ""


@pytest.mark.usefixtures("desk")
def test_as_a_table_the_answer_alone_goes_to_standard_output() -> None:
    assert ferrule("run", "desk", "--input", "x", "-o", "table").stdout == "There are 12 rings.\n"


@pytest.mark.usefixtures("desk")
def test_jsonl_is_a_line_for_each_event_and_the_result_last() -> None:
    ran = ferrule("run", "desk", "--input", "x", "-o", "jsonl")
    told = lines(ran.stdout)
    assert ran.stderr == ""
    assert [event["type"] for event in told] == [
        "step", "usage", "tool_call", "tool_progress", "tool_call", "tool_progress", "tool_result", "tool_result",
        "step", "usage", "done",
    ]  # fmt: skip
    assert "There are 12 rings." == told[-1]["value"]["output"]


@pytest.mark.usefixtures("desk")
def test_streamed_jsonl_has_the_pieces_too() -> None:
    told = lines(ferrule("run", "desk", "--input", "x", "-o", "jsonl", "--stream").stdout)
    assert "There are 12 rings." == "".join(event["text"] for event in told if event["type"] == "text")
    assert ["stock", "stock"] == [event["text"] for event in told if event["type"] == "call"]
    assert told == [*told[:-1], {**told[-1], "type": "done"}]


@pytest.mark.usefixtures("desk")
def test_results_in_events_are_envelopes_and_parts_are_shown_by_digest_and_size() -> None:
    told = lines(ferrule("run", "artist", "--input", "x", "-o", "jsonl").stdout)
    drawn, value = (event["result"] for event in told if event["type"] == "tool_result")
    assert (drawn["status"], drawn["parts"][0]["data"]["size"]) == ("done", 28)
    assert (value["status"], value["value"], value["failure"]) == ("done", {"success": False, "error": "x"}, None)
    (message,) = (m for m in told[-1]["value"]["messages"] if m.get("parts") and m.get("call"))
    assert drawn["parts"][0]["data"] == message["parts"][0]["data"]


@pytest.mark.usefixtures("desk")
def test_whatever_a_tool_reports_is_shown_as_strict_json_or_as_a_line() -> None:
    told = lines(ferrule("run", "reporter", "--input", "x", "-o", "jsonl").stdout)
    values = [event.get("value") for event in told if event["type"] == "tool_progress"]
    assert values[1:] == [None, {"percent": 50}, None, "x\ufffd"]
    ran = ferrule("run", "reporter", "--input", "x", "-o", "table")
    assert ("Done.\n", 'report: {"percent":50}') == (ran.stdout, ran.stderr.splitlines()[3])


@pytest.mark.usefixtures("desk")
def test_without_a_terminal_a_stream_is_lines_and_one_object_is_refused() -> None:
    assert "done" == lines(ferrule("run", "teller", "--input", "x", "--stream").stdout)[-1]["type"]
    ran = ferrule("run", "teller", "--input", "x", "--stream", "-o", "json")
    assert (ran.code, ran.problem["detail"]) == (
        2,
        "--stream writes while the answer comes, and -o json is one object at the end. Use -o jsonl.",
    )


@pytest.mark.usefixtures("desk")
def test_a_streamed_answer_is_written_once_and_safe_on_a_terminal() -> None:
    said = "Once\nupon a time \\x1b[2J.\n"
    assert said == ferrule("run", "teller", "--input", "x", "--stream", "-o", "table").stdout
    assert said == ferrule("run", "teller", "--input", "x", "-o", "table").stdout


@pytest.mark.usefixtures("desk")
def test_calls_of_a_run_inside_the_run_are_indented_and_its_text_is_no_answer() -> None:
    ran = ferrule("run", "boss", "--input", "x", "--stream", "-o", "table")
    assert "The desk knows.\n" == ran.stdout
    assert ran.stderr.splitlines()[:2] == ['call desk {"input": "x"}', '  call stock {"part": "ring"}']


# -- run: the input ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("given", "stdin", "said"),
    [("hello", "", "hello"), ('{"a": 1}', "", '{"a": 1}'), ("-", "żółć\n", "żółć\n"), ("@q.txt", "", "from a file")],
)
def test_the_input_is_text_a_file_or_standard_input(desk: Path, given: str, stdin: str, said: str) -> None:
    (desk / "q.txt").write_text("from a file", encoding="utf-8-sig")
    assert f"1: {said}" == ferrule("run", "echo", "--input", given, stdin=stdin).data["output"]


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (["dekc", "--input", "x"], "There is no agent 'dekc'. Close names: desk, echo."),
        (["desk"], "Missing option '--input'. See ferrule run --help."),
        (["desk", "--input", " "], "--input is empty. Say what the agent is asked."),
        (
            ["desk", "--input", "@gone"],
            "--input names the file 'gone', which cannot be read: No such file or directory.",
        ),
        (["desk", "--input", "@latin"], "--input is not UTF-8. Give text in UTF-8."),
        (["exhausted", "--input", "x"], "scripted was asked 1 times and has 0 turns."),
    ],
)
def test_misuse_is_a_problem_with_code_2(desk: Path, words: list[str], detail: str) -> None:
    (desk / "latin").write_bytes(b"\xe9t\xe9")
    ran = ferrule("run", *words)
    assert (ran.code, ran.problem["detail"]) == (2, detail)


# -- run: how it ends -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("agent", "code", "status", "says"),
    [
        ("desk", 0, "done", ""),
        ("endless", 1, "incomplete", "is incomplete: turns."),
        ("broken", 1, "failed", "is failed: scripted: is down."),
        ("clerk", 5, "suspended", "is suspended: it waits for 1 answer. There is no terminal to ask on."),
        ("stopped", 130, "cancelled", "is cancelled; the effect of tool 'interrupt' may have happened."),
    ],
)
def test_the_exit_code_and_a_sentence_tell_how_the_run_ended(agent: str, code: int, status: str, says: str) -> None:
    ran = ferrule("run", agent, "--input", "x", "--quiet", "-o", "json")
    assert (code, status) == (ran.code, ran.data["status"])
    assert says in ran.stderr
    assert ferrule("run", "broken", "--input", "x", "-q", "-o", "table").stdout == ""


def test_every_status_has_its_code() -> None:
    expected: dict[Status, int] = {
        "done": 0, "incomplete": 1, "failed": 1, "suspended": 5, "cancelled": 6, "blocked": 9,
    }  # fmt: skip
    assert expected == {status: exit_code_of(RunResult("run_1", status)) for status in expected}
    assert {2, 4, 7, 8, 130, *expected.values()} == set(ExitCode)


@pytest.mark.usefixtures("desk")
def test_open_requests_are_told_with_their_ids() -> None:
    ran = ferrule("run", "clerk", "--input", "x", "-o", "table")
    assert (ran.code, ran.stdout) == (5, "")
    assert "suspended: request t1.0 (approval): Run tool 'pay'?" in ran.stderr.splitlines()
    assert "https://example.org/login" in ferrule("run", "guest", "--input", "x").stderr.splitlines()


EXITS = """
import sys

from ferrule import Agent, tool
from ferrule.testing import ScriptedModel, call

@tool(effect="read", thread=False)
def inline() -> None:
    "Leave."
    sys.exit(5)

@tool(effect="read")
def thread() -> None:
    "Leave."
    sys.exit(5)

@tool(effect="read")
async def step() -> None:
    "Leave."
    sys.exit(5)

async def model(request):
    sys.exit(5)

agents = [Agent("said", model)]
for each in (inline, thread, step):
    globals()[each.name + "_agent"] = Agent(each.name, ScriptedModel([call(each.name), "Never."]), tools=[each])
said = agents[0]
"""


@pytest.mark.parametrize("agent", ["inline", "thread", "step", "said"])
@pytest.mark.parametrize("words", [("run", "--input", "x"), ("chat",)], ids=lambda words: words[0])
def test_code_that_would_end_the_process_in_a_run_is_a_problem_with_code_1(
    write: Write, agent: str, words: tuple[str, ...]
) -> None:
    write("exits.py", EXITS)
    ran = ferrule("--app", "exits.py", words[0], agent, *words[1:], "-o", "jsonl", stdin="x\n")
    *notes, problem = ran.stderr.splitlines()
    assert (1, "internal") == (ran.code, json.loads(problem)["code"])
    assert json.loads(problem)["detail"].startswith("SystemExit: 5. ")
    assert [] == [note for note in notes if ("Ctrl-C" in note and "cancel" in note) or "Traceback" in note]


@pytest.mark.usefixtures("desk")
def test_ctrl_c_cancels_the_run_and_keeps_what_it_has_done() -> None:
    ran = ferrule("run", "stopped", "--input", "x", "-o", "json")
    outputs = [m["output"] for m in ran.data["messages"] if "call" in m]
    assert outputs == ["12", "Tool 'interrupt' was stopped; its effect may have happened."]
    assert "cancelling the run; Ctrl-C again ends it at once." in ran.stderr.splitlines()


# -- run: questions ---------------------------------------------------------------------------------------------


def paid() -> list[int]:
    return sys.modules["desk"].PAID


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("typed", "amounts"), [("y\n", [5]), ("YES\n", [5]), ("\n", []), ("n\n", []), ("yep\n", []), ("", [])]
)
def test_nothing_but_yes_approves_a_call(typed: str, amounts: list[int]) -> None:
    ran = ferrule("run", "clerk", "--input", "x", stdin=typed, terminal=True)
    assert amounts == paid()
    assert (0 if typed else 5) == ran.code
    assert (
        "Run tool 'pay'?\ntool: pay\neffect: once\n"
        'arguments: {\n  "amount": 5\n}\npreview: would pay 5 to Bob\nAgree? [y/N] '
    ) in ran.stderr


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("agent", "typed", "result"),
    [
        ("porter", "staging\n", "runs in {'text': 'staging'}"),
        ("porter", '{"where": "staging"}\n', "runs in {'where': 'staging'}"),
        ("porter", "[1]\n", "runs in {'text': '[1]'}"),
        ("porter", "\n", "Tool 'deploy' was not called; the person who was asked declined."),
        ("former", "staging\n3\n", "runs in {'where': 'staging', 'copies': 3}"),
        ("former", "\nstaging\n\n", "runs in {'where': 'staging'}"),
        ("former", "staging\nmany\noslo\n2\n", "runs in {'where': 'oslo', 'copies': 2}"),
        ("guest", "y\n", "signed in"),
        ("guest", "\n", "Tool 'sign_in' was not called; the person who was asked declined."),
    ],
)
def test_a_question_is_answered_on_the_terminal(agent: str, typed: str, result: str) -> None:
    ran = ferrule("run", agent, "--input", "x", "-o", "json", stdin=typed, terminal=True)
    assert result == next(m["output"] for m in ran.data["messages"] if "call" in m)
    assert 0 == ran.code


@pytest.mark.usefixtures("desk")
def test_an_answer_that_does_not_fit_its_schema_is_told_and_asked_again() -> None:
    ran = ferrule("run", "former", "--input", "x", stdin="a\nb\na\n2\n", terminal=True)
    assert "copies: That does not fit. copies: " in ran.stderr
    assert 0 == ran.code


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("agent", ["porter", "former", "guest"])
def test_the_end_of_the_input_leaves_a_question_open(agent: str) -> None:
    assert 5 == ferrule("run", agent, "--input", "x", terminal=True).code


def test_what_happens_while_somebody_is_asked_is_shown_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Session(), "scripted")
    ended = Event("tool_result", "t1.0", 3, call=Call("t1.0", "stock", "{}"), result=ToolResult.ok(12))
    with progress.quiet():
        progress.hear(ended)
        assert "" == capsys.readouterr().err
    assert "done stock: 12\n" == capsys.readouterr().err


# -- chat -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("desk")
def test_a_chat_goes_on_from_turn_to_turn_until_quit_or_the_end() -> None:
    ran = ferrule("chat", "echo", "-o", "table", stdin="hello\n\n  there \n/quit\nnever\n")
    assert (ran.code, ran.stdout) == (0, "1: hello\n3: there\n")
    assert ran.stderr.startswith("echo (function:")
    assert ferrule("chat", "echo", "-o", "table", stdin="hello").stdout == "1: hello\n"
    assert ferrule("chat", "echo", "-o", "table", stdin="hello\udcff").stdout == "1: hello\ufffd\n"


@pytest.mark.usefixtures("desk")
def test_a_chat_as_jsonl_is_the_events_of_each_turn() -> None:
    told = lines(ferrule("chat", "echo", stdin="a\nb\n").stdout)
    assert ["1: a", "3: b"] == [event["value"]["output"] for event in told if event["type"] == "done"]
    assert (
        "a chat has many answers, and -o json is one object. Use -o jsonl."
        == (ferrule("chat", "echo", "-o", "json").problem["detail"])
    )


@pytest.mark.usefixtures("desk")
def test_ctrl_c_ends_the_turn_and_not_the_chat() -> None:
    ran = ferrule("chat", "stopped", "-o", "table", "--quiet", stdin="one\ntwo\n")
    assert (ran.code, ran.stdout) == (0, "Never.\n")
    assert "interrupted; run " in ran.stderr


@pytest.mark.usefixtures("desk")
def test_a_failed_or_suspended_turn_is_told_and_the_chat_goes_on() -> None:
    ran = ferrule("chat", "clerk", "-o", "table", "-q", stdin="pay\nand now?\n")
    assert (ran.code, ran.stdout) == (0, "Done.\n")
    assert "suspended: request t1.0 (approval): Run tool 'pay'?\n" in ran.stderr


# -- the real process -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("desk")
def test_a_reader_that_leaves_early_is_no_error_on_either_stream() -> None:
    process = start("run", "desk", "--input", "x", "-o", "jsonl")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert end_of_errors(process) == (0, "")
    process = start("run", "desk", "--input", "x", "-o", "table")
    assert process.stderr is not None
    process.stderr.close()
    process.stderr = None
    assert end_of_output(process) == (0, "There are 12 rings.\n")


def end_of_output(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    assert process.stdout is not None
    told = process.stdout.read().decode()
    process.stdout.close()
    return process.wait(timeout=60), told


@pytest.mark.usefixtures("desk")
@pytest.mark.skipif(sys.platform == "win32", reason="signals work otherwise there")
def test_ctrl_c_while_a_thread_works_ends_with_130_and_the_result() -> None:
    process = start("run", "waiter", "--input", "x", "-q")
    assert process.stderr is not None
    assert process.stderr.readline() == b"started\n"
    process.send_signal(signal.SIGINT)
    code, out, err = end(process)
    assert (code, json.loads(out)["status"]) == (130, "cancelled")
    assert json.loads(err)["detail"].endswith("is cancelled; the effect of tool 'wait' may have happened.")


@pytest.mark.usefixtures("desk")
@pytest.mark.skipif(sys.platform == "win32", reason="signals work otherwise there")
def test_a_second_ctrl_c_names_the_calls_in_flight_at_once_and_a_third_ends_the_process() -> None:
    process = start("run", "deafened", "--input", "x", "-o", "table")
    assert process.stderr is not None
    told: list[str] = []

    def heard(line: str) -> None:
        assert process.stderr is not None
        while line not in told:
            told.append(process.stderr.readline().decode().strip())
            assert told[-1] or process.poll() is None

    heard("call deaf")
    for line in ("deaf", "Error: interrupted; the effect of tool 'deaf' may have happened."):
        process.send_signal(signal.SIGINT)
        heard(line)
    process.send_signal(signal.SIGINT)
    code, out, err = end(process)
    assert code in (130, -signal.SIGINT)
    assert ("", "") == (out, err.replace("deaf\n", ""))


class Typist:
    """Somebody at a terminal."""

    def __init__(self, *words: str) -> None:
        pty = pytest.importorskip("pty")
        self._master, slave = pty.openpty()
        path = os.pathsep.join([str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**os.environ, "PYTHONPATH": path, "TERM": "xterm", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8:strict"}
        command = [sys.executable, "-m", "ferrule", *words]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        self.screen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def see(self, text: str) -> None:
        """Read on until a text has come."""
        while text not in self.screen:
            self.screen += self._read()

    def type(self, text: str) -> None:
        self.send(text.encode())

    def send(self, raw: bytes) -> None:
        os.write(self._master, raw)

    def close(self) -> int:
        """Read to the end."""
        while True:
            try:
                piece = self._read()
            except OSError:  # how a terminal ends on Linux
                piece = ""
            if not piece:
                os.close(self._master)
                return self.process.wait(timeout=60)
            self.screen += piece

    def _read(self) -> str:
        assert select.select([self._master], [], [], 60)[0], f"nothing more came after {self.screen!r}"
        return self._decoder.decode(os.read(self._master, 4096))


@contextmanager
def typist(*words: str) -> Generator[Typist]:
    made = Typist(*words)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()


@pytest.mark.usefixtures("desk")
def test_on_a_terminal_what_goes_on_is_shown_live_and_questions_come_between() -> None:
    with typist("run", "clerk", "--input", "x") as somebody:
        somebody.see("Agree? [y/N] ")
        somebody.type("y\n")
        assert 0 == somebody.close()
        assert 'done pay {"amount": 5}: paid 5\r\n' in somebody.screen
        asking, _, after = somebody.screen.partition("Run tool 'pay'?")
        assert "asking scripted" in asking
        assert "Agree? [y/N] y\r\n" in after  # nothing moves the cursor while somebody types
        assert re.search(r"\x1b\[2K(\x1b\[\?25h\r)?Done\.\r\n\Z", somebody.screen)  # the display was taken away


@pytest.mark.usefixtures("desk")
@pytest.mark.skipif(sys.platform == "win32", reason="signals work otherwise there")
def test_ctrl_c_at_a_question_is_heard() -> None:
    with typist("run", "clerk", "--input", "x") as somebody:
        somebody.see("Agree? [y/N] ")
        somebody.process.send_signal(signal.SIGINT)
        assert 130 == somebody.close()
        assert "cancelling the run" in somebody.screen


@pytest.mark.usefixtures("desk")
@pytest.mark.skipif(sys.platform == "win32", reason="signals work otherwise there")
def test_ctrl_c_at_the_prompt_of_a_chat_does_not_end_it() -> None:
    with typist("chat", "echo", "-q") as somebody:
        somebody.see("> ")
        somebody.process.send_signal(signal.SIGINT)
        somebody.see("/quit or Ctrl-D ends the chat.")
        somebody.type("hello\n")
        somebody.see("1: hello")
        somebody.type("/quit\n")
        assert 0 == somebody.close()


@pytest.mark.usefixtures("desk")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
def test_what_was_typed_before_a_question_is_no_answer_to_it() -> None:
    with typist("run", "clerk", "--input", "x") as somebody:
        somebody.type("y\n")
        somebody.see("Agree? [y/N] ")
        somebody.type("n\n")
        assert 0 == somebody.close()
        assert "Tool 'pay' was not called; the person who was asked declined." in somebody.screen


@pytest.mark.usefixtures("desk")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals there")
def test_bytes_that_are_no_text_do_not_end_a_chat() -> None:
    with typist("chat", "echo", "-q") as somebody:
        somebody.see("> ")
        somebody.send(b"caf\xe9\n")
        somebody.see("1: caf\ufffd")
        somebody.type("/quit\n")
        assert 0 == somebody.close()
