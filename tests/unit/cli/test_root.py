"""The whole command line: help, global options, errors and exit codes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.support import ferrule
from tests.unit.projects import Write

from ferrule.cli.failure import problem_of
from ferrule.cli.root import build


def commands(command: Any = None, path: str = "ferrule") -> Iterator[tuple[str, Any]]:
    """Every command and group with its full name."""
    command = command or build()
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}")


# -- help -------------------------------------------------------------------------------------------------------


def test_every_command_and_every_option_has_help() -> None:
    silent = [path for path, command in commands() if not (command.help or "").strip()]
    silent += [f"{p} {o.name}" for p, c in commands() for o in c.params if not (getattr(o, "help", "") or "").strip()]
    assert silent == []


def test_the_commands_are_these() -> None:
    leaves = {path for path, command in commands() if not hasattr(command, "commands")}
    assert leaves == {
        "ferrule tool ls",
        "ferrule tool show",
        "ferrule tool call",
        "ferrule run",
        "ferrule chat",
        "ferrule ls",
        "ferrule export",
        "ferrule get",
        "ferrule import",
        "ferrule logs",
        "ferrule tail",
        "ferrule cancel",
        "ferrule rm",
        "ferrule work",
        "ferrule requests",
        "ferrule answer",
        "ferrule doctor",
        "ferrule version",
        "ferrule completion",
    }


def test_every_command_is_told_of_on_the_page_of_the_command_line() -> None:
    page = (SOURCES.parent / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [path for path, _ in commands() if path not in page] == []


def test_every_command_takes_the_global_options() -> None:
    for path, command in commands():
        if path != "ferrule tool":
            assert {"app", "output", "store", "quiet", "verbose"} <= {option.name for option in command.params}, path


def test_help_goes_to_standard_output_with_code_0() -> None:
    for words in ((), ("--help",), ("tool", "call", "-h")):
        ran = ferrule(*words)
        assert (ran.code, ran.stderr) == (0, "")
        assert "Usage: ferrule" in ran.stdout


# -- global options ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
def test_global_options_stand_before_or_behind_the_command_and_the_later_wins() -> None:
    assert ferrule("-o", "jsonl", "tool", "ls").stdout == ferrule("tool", "ls", "-o", "jsonl").stdout
    assert ferrule("-o", "table", "tool", "ls", "-o", "json").data[0]["name"] == "add"


def test_app_names_the_app_in_place_of_a_project(shop: Path, write: Write) -> None:
    write("other.py", 'from ferrule import tool\n\n\n@tool\ndef other() -> None:\n    """Be."""\n')
    assert [row["name"] for row in ferrule("--app", "other", "tool", "ls").data] == ["other"]
    assert [row["name"] for row in ferrule("tool", "ls", "--app", "other.py").data] == ["other"]


@pytest.mark.usefixtures("shop")
def test_quiet_leaves_notes_out() -> None:
    assert ferrule("tool", "show", "add", "-p", "openai").stderr != ""
    assert ferrule("tool", "show", "add", "-p", "openai", "-q").stderr == ""


def test_progress_is_shown_where_somebody_looks(write: Write) -> None:
    write(
        "slow.py",
        """
        from typing import Any

        from ferrule import Context, tool

        @tool(effect="read")
        def slow(ctx: Context[Any]) -> int:
            "Count."
            ctx.progress("half")
            ctx.progress({"percent": 100})
            return 1
        """,
    )
    words = ("--app", "slow.py", "tool", "call", "slow", "-o", "json")
    assert ferrule(*words).stderr == ""
    assert ferrule(*words, "--verbose").stderr == 'half\n{"percent":100}\n'
    assert ferrule(*words, terminal=True).stderr == 'half\n{"percent":100}\n'
    assert ferrule(*words, "--quiet", terminal=True).stderr == ""


@pytest.mark.usefixtures("shop")
def test_a_terminal_gets_colour_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31mfailed" in ferrule("tool", "call", "fail", terminal=True, term="xterm-256color").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in ferrule("tool", "call", "fail", terminal=True, term="xterm-256color").stdout


# -- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (("tol", "ls"), "No such command 'tol'. Did you mean 'tool'? See ferrule --help."),
        (("tool", "lss"), "No such command 'lss'. Did you mean 'ls'? See ferrule tool --help."),
        (("tool",), "Missing command. See ferrule tool --help."),
        (("tool", "show"), "Missing argument 'NAME'. See ferrule tool show --help."),
        (
            ("completion", "csh"),
            "Invalid value for 'SHELL': 'csh' is not one of 'bash', 'zsh', 'fish'. See ferrule completion --help.",
        ),
        (
            ("tool", "ls", "--output", "xml"),
            "Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'json', 'jsonl'. "
            "See ferrule tool ls --help.",
        ),
        (("completion",), "Missing argument 'SHELL'. Choose from: bash, zsh, fish. See ferrule completion --help."),
        (("version", "now"), "Got unexpected extra argument(s) (now). See ferrule version --help."),
        (("tool", "ls", "-x"), "No such option: -x. See ferrule tool ls --help."),
        (("tool", "ls", "--apps=x"), "No such option: --apps. Possible options: --app. See ferrule tool ls --help."),
        (("tool", "ls", "-o"), "Option '-o' requires an argument."),
    ],
)
def test_a_wrong_command_line_is_one_problem_object_with_code_2(words: tuple[str, ...], detail: str) -> None:
    ran = ferrule(*words)
    assert ran.code == 2
    assert detail == ran.problem["detail"]
    assert ran.problem["code"] == "usage"
    assert set(ran.problem) == {"type", "title", "detail", "code"}


@pytest.mark.usefixtures("folder")
def test_an_unknown_option_is_refused_with_what_was_meant() -> None:
    detail = ferrule("tool", "ls", "--quite").problem["detail"]
    assert "--quite" in detail
    assert "--quiet" in detail


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("asked", [("-o", "table"), ("-otable",), ("--output", "table"), ("--output=table",)])
def test_with_tables_an_error_is_one_line_of_text(asked: tuple[str, ...]) -> None:
    ran = ferrule("tool", "lss", *asked)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == "Error: No such command 'lss'. Did you mean 'ls'? See ferrule tool --help.\n"


@pytest.mark.usefixtures("folder")
def test_on_a_terminal_an_error_is_text_unless_json_is_asked_for() -> None:
    assert ferrule("tool", "lss", terminal=True).stderr.startswith("Error: ")
    assert json.loads(ferrule("tool", "lss", "-o", "json", terminal=True).stderr)["code"] == "usage"


def test_a_project_that_does_not_load_is_a_problem_and_verbose_shows_the_users_traceback(write: Write) -> None:
    write("ferrule.toml", 'modules = ["sick"]')
    write("sick.py", "raise RuntimeError('no database')")
    ran = ferrule("tool", "ls")
    assert (ran.code, ran.problem["code"]) == (2, "configuration")
    assert "RuntimeError: no database." in ran.problem["detail"]
    told = ferrule("tool", "ls", "--verbose").stderr
    assert "Traceback" in told
    assert "raise RuntimeError('no database')" in told


def test_a_traceback_shows_no_credential(write: Write) -> None:
    write("sick.py", "raise RuntimeError('no database: password=hunter2')")
    told = ferrule("--app", "sick.py", "tool", "ls", "--verbose").stderr
    assert "RuntimeError: no database: password=[redacted]" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class Halt(BaseException): ...\nraise Halt('no more')", "Halt: no more"),
    ],
)
def test_a_module_that_would_end_the_process_does_not_load(write: Write, body: str, says: str) -> None:
    path = write("last.py", body)
    ran = ferrule("--app", "last.py", "tool", "ls")
    assert (2, "configuration") == (ran.code, ran.problem["code"])
    assert (
        f"app 'last.py': module 'last' cannot be imported, {path}:{1 + body.count(chr(10))}: {says}."
        == ran.problem["detail"]
    )


def test_what_a_module_prints_while_it_is_imported_is_no_data(write: Write) -> None:
    write("chatty.py", "from ferrule import tool\nprint('hello')\n\n\n@tool\ndef x() -> None:\n    'Be.'\n")
    ran = ferrule("--app", "chatty.py", "tool", "ls")
    assert ran.data[0]["name"] == "x"
    assert ran.stderr == "hello\n"


@pytest.mark.parametrize(
    ("error", "says"),
    [("SystemExit(5)", "SystemExit: 5"), ("Halt('no more')", "Halt: no more"), ("OSError('odd')", "OSError: odd")],
)
def test_whatever_code_of_the_project_raises_is_a_problem_with_code_1(write: Write, error: str, says: str) -> None:
    write(
        "odd.py",
        """
        from ferrule import Tool

        class Halt(BaseException): ...

        class Odd(Tool):
            name = "odd"

            @property
            def description(self):
                raise {error}

            def execute(self, context): ...

        odd = Odd()
        """.replace("{error}", error),
    )
    ran = ferrule("--app", "odd.py", "tool", "ls")
    assert 1 == ran.code
    assert ran.problem["detail"].startswith(says)


def test_an_unexpected_error_is_a_problem_with_code_1() -> None:
    problem = problem_of(ValueError("odd"))
    assert (problem.exit_code, problem.code) == (1, "internal")
    assert problem.detail == "ValueError: odd. Run it again with --verbose for the traceback."


# -- version and completion -------------------------------------------------------------------------------------


def test_version_tells_ferrule_and_python() -> None:
    data = ferrule("version").data
    assert set(data) == {"ferrule", "python"}
    assert data["python"] == ".".join(map(str, sys.version_info[:3]))
    line = ferrule("version", "-o", "table").stdout
    assert line.startswith("ferrule ")
    assert (0, line, "") == (*astuple(ferrule("--version")),)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_in_every_format(shell: str) -> None:
    script = ferrule("completion", shell).stdout
    assert "_FERRULE_COMPLETE=complete_" + shell in script
    assert ferrule("completion", shell, "-o", "json").stdout == script
    assert "_FERRULE_COMPLETE" not in os.environ


# -- the real process -------------------------------------------------------------------------------------------

SOURCES = Path(__file__).parents[3] / "src"


def start(*words: str, to: str = "", **env: str) -> subprocess.Popen[bytes]:
    """A command line in a process of its own, its streams led elsewhere as a shell does with `to`."""
    path = os.pathsep.join([str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [*(["sh", "-c", f'exec "$@" {to}', "sh"] if to else []), sys.executable, "-m", "ferrule", *words],
        env={**os.environ, "PYTHONPATH": path, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def end(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Exit code and output, within bounds."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.usefixtures("shop")
def test_the_process_keeps_whatever_a_tool_prints_out_of_the_data() -> None:
    code, out, err = end(start("tool", "call", "loud"))
    assert (code, json.loads(out)["value"]) == (0, "result")
    assert sorted(err.split()) == ["child", "printed", "written"]


@pytest.mark.usefixtures("shop")
def test_the_process_ends_with_the_documented_codes() -> None:
    processes = [
        start("tool", "call", "fail"),
        start("tool", "call", "gone"),
        start("tool", "call", "sign_in"),
        start("tool", "call", "pay", "--set", "amount=1"),
    ]
    assert [end(process)[0] for process in processes] == [1, 2, 5, 2]


def test_the_process_writes_utf_8_whatever_the_locale(write: Write) -> None:
    write("words.py", 'from ferrule import tool\n\n\n@tool\ndef say() -> str:\n    """Say."""\n    return "żółć €"\n')
    process = start("--app", "words.py", "tool", "call", "say", LC_ALL="C", PYTHONUTF8="0")
    assert json.loads(end(process)[1])["value"] == "żółć €"


def test_a_reader_that_leaves_early_is_no_error(write: Write) -> None:
    write(
        "big.py",
        """
        from ferrule import tool

        @tool(max_output=None)
        def big() -> str:
            "Be."
            return "x" * 999_999
        """,
    )
    process = start("--app", "big.py", "tool", "call", "big")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert end_of_errors(process) == (0, "")


def end_of_errors(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Exit code and standard error of a process whose output nobody reads."""
    assert process.stderr is not None
    told = process.stderr.read().decode()
    process.stderr.close()
    return process.wait(timeout=60), told


def test_verbose_shows_where_a_tool_raised(write: Write) -> None:
    path = write("raises.py", "from ferrule import tool\n\n\n@tool\ndef divide() -> float:\n    return 1 / 0\n")
    code, out, err = end(start("--app", "raises.py", "tool", "call", "divide", "--verbose"))
    assert (1, "ZeroDivisionError: division by zero") == (code, json.loads(out)["error"])
    assert err.startswith("DEBUG ferrule.tool: a tool raised\nTraceback (most recent call last):\n")
    assert f'File "{path}", line 6, in divide\n    return 1 / 0\n' in err


@pytest.mark.skipif(sys.platform == "win32", reason="signals work otherwise there")
@pytest.mark.parametrize(("effect", "left"), [("read", ""), ("once", "; its effect may have happened")])
def test_an_interrupted_call_ends_with_130_and_says_what_may_have_happened(
    write: Write, effect: str, left: str
) -> None:
    write(
        "long.py",
        f"""
        import threading

        from ferrule import tool

        @tool(effect="{effect}")
        def wait() -> None:
            "Wait."
            print("started", flush=True)
            threading.Event().wait(60)
        """,
    )
    process = start("--app", "long.py", "tool", "call", "wait")
    assert process.stderr is not None
    assert process.stderr.readline() == b"started\n"
    process.send_signal(signal.SIGINT)
    code, out, err = end(process)
    assert (code, out) == (130, "")
    assert json.loads(err)["detail"] == f"interrupted while tool 'wait' ran{left}."


@pytest.mark.skipif(sys.platform == "win32", reason="signals work otherwise there")
def test_ctrl_c_while_the_project_loads_ends_with_130(write: Write) -> None:
    write("slow.py", "import threading\nprint('started', flush=True)\nthreading.Event().wait(60)\n")
    process = start("--app", "slow.py", "tool", "ls")
    assert process.stderr is not None
    assert process.stderr.readline() == b"started\n"
    process.send_signal(signal.SIGINT)
    code, out, err = end(process)
    assert (130, "") == (code, out)
    assert "interrupted." == json.loads(err)["detail"]


PRESSED = """
import atexit, runpy, signal, sys

def press(*_, **__):
    signal.raise_signal(signal.SIGINT)

class Pressing:
    def find_spec(self, name, *_):
        if name == "typer":
            press()

{moment}
sys.argv = ["ferrule", "tool", "ls"]
runpy.run_module("ferrule", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals work otherwise there")
@pytest.mark.parametrize(
    ("moment", "code"),
    [
        ("sys.meta_path.insert(0, Pressing())", -signal.SIGINT),
        ("atexit.register(press)", -signal.SIGINT),
        ("import ferrule.cli.root\nferrule.cli.root.report = press", 130),
    ],
    ids=["while it loads", "when it has ended", "while an error is told"],
)
@pytest.mark.usefixtures("folder")
def test_ctrl_c_outside_a_command_shows_no_traceback(moment: str, code: int) -> None:
    path = os.pathsep.join([str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, "-c", PRESSED.replace("{moment}", moment)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (code, "") == (ran.returncode, ran.stderr.decode().partition('{"type"')[0])


@pytest.mark.usefixtures("shop")
@pytest.mark.skipif(sys.platform == "win32", reason="a shell of another kind")
@pytest.mark.parametrize("closed", ["0>&-", "1>&-", "2>&-", "0>&- 1>&- 2>&-"])
def test_a_standard_stream_that_is_closed_is_no_error(closed: str) -> None:
    process = start("tool", "call", "loud", to=closed)
    code, out, err = end(process)
    assert 0 == code
    assert "1>" in closed or "result" == json.loads(out)["value"]
    assert "2>" in closed or ["child", "printed", "written"] == sorted(err.split())


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are not selected there")
def test_a_result_is_shown_before_what_a_tool_left_behind_has_ended(write: Write) -> None:
    write(
        "left.py",
        """
        import asyncio
        import threading

        from ferrule import tool

        @tool(effect="once")
        async def leave() -> str:
            "Leave a thread behind."
            asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
            return "done at once"
        """,
    )
    process = start("--app", "left.py", "tool", "call", "leave", "-o", "jsonl")
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 30)[0]
        assert "done at once" == json.loads(process.stdout.readline())["value"]
    finally:
        process.kill()
        end(process)


@pytest.mark.usefixtures("shop")
def test_tools_alone_do_not_load_what_agents_are_made_of() -> None:
    code = (
        "import sys\nfrom ferrule.cli import main\nmain(['tool', 'call', 'add', '--set', 'a=1'])\nprint(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"ferrule.tool.tool" in ran.stdout.split()
    assert not {b"ferrule.agent", b"ferrule.runtime", b"ferrule.provider"} & set(ran.stdout.split())


@pytest.mark.usefixtures("shop")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_result_that_cannot_be_written_is_told_from_a_call_that_failed() -> None:
    process = start("tool", "call", "pay", "--set", "amount=7", "--yes", to="1>/dev/full")
    code, _, err = end(process)
    assert (1, "io") == (code, json.loads(err)["code"])
    assert (
        "the call is done; its result cannot be written: OSError: [Errno 28] No space left on device"
        == json.loads(err)["detail"]
    )


@pytest.mark.usefixtures("shop")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("format", ["table", "json"])
def test_an_error_that_cannot_be_written_keeps_its_exit_code(format: str) -> None:
    assert (2, "", "") == end(start("tool", "show", "bogus", "-o", format, to="2>/dev/full"))
    assert 5 == end(start("tool", "call", "sign_in", "-o", format, to="2>/dev/full"))[0]
    process = start("tool", "show", "bogus", "-o", format)
    assert process.stderr is not None
    process.stderr.close()
    process.stderr = None
    process.communicate(timeout=60)
    assert 2 == process.returncode
