"""Commands and functions in processes of their own, with real processes."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ferrule.content import file
from ferrule.errors import ToolDefinitionError, UsageError
from ferrule.result import Failure, ToolResult, as_result, pending
from ferrule.strict_json import MAX_BYTES, MAX_DEPTH, MAX_TYPED_NODES, Opaque, plain
from ferrule.tool import process
from ferrule.tool.child import address_of, answer, find
from ferrule.tool.process import Completed, Outcome, call_isolated, run_process
from ferrule.tool.tool import FunctionTool, tool

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups here")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="descendants are found through /proc")

IGNORES_TERM = """echo $$ > group; (trap "" TERM; echo > ready; sleep 20; echo late > f) & wait"""
LEFT_THE_GROUP = """echo $$ > group; setsid sh -c 'trap "" TERM; echo $$ > ready; sleep 20; echo late > f' & wait"""


def run(work: Awaitable[Any], limit: float = 100.0) -> Any:
    """Run to the end, which must come; warn of whatever is left open in the loop."""

    async def bounded() -> Any:
        result = await asyncio.wait_for(work, limit)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(bounded())


def sh(script: str, **options: Any) -> Awaitable[Completed]:
    return run_process(["sh", "-c", script], **options)


def processes() -> Iterator[tuple[int, int, int]]:
    """Pid, parent and group of all that run; a zombie waits for its parent and does nothing any more."""
    if sys.platform == "linux":
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, parent, group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
                if state not in "ZX":
                    yield int(path.parent.name), int(parent), int(group)
        return
    shown = subprocess.run(["ps", "-A", "-o", "stat=,pid=,ppid=,pgid="], capture_output=True, text=True, check=True)
    for state, *numbers in map(str.split, shown.stdout.splitlines()):
        if state[0] != "Z":
            pid, parent, group = map(int, numbers)
            yield pid, parent, group


def living(where: Path) -> list[int]:
    """The pids of the process group whose leader wrote its pid to the file `group`."""
    leader = int((where / "group").read_text())
    return [pid for pid, _, group in processes() if group == leader]


def is_running(pid: int) -> bool:
    return pid in {known for known, _, _ in processes()}


def is_written(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


T = TypeVar("T")


def run_until_ready(where: Path, call: Callable[[float], Awaitable[T]]) -> T:
    """Call with ever longer deadlines, until the child got far enough to write the file `ready`."""
    for seconds in (0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        result: T = run(call(seconds))
        if is_written(where / "ready"):
            return result
    pytest.fail("the child never became ready")


async def written(path: Path) -> str:
    """What a child wrote to a file, as soon as it has; bounded by the test's own limit."""
    while not is_written(path):
        await asyncio.sleep(0.005)
    return path.read_text().strip()


async def cancelled_when(path: Path, work: Awaitable[Any]) -> None:
    """Cancel once a child has written to a file; the cancellation must come back out."""
    task = asyncio.ensure_future(work)
    await written(path)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- what a command says ----------------------------------------------------------------------------------------


def test_output_exit_status_and_input_of_a_command_come_back() -> None:
    done = run(sh("cat; echo oops >&2; exit 3", input=b"given"))

    assert Completed(3, b"given", b"oops\n", 0, 0, False, ()) == done
    assert done.text() == "given"


def test_standard_input_can_be_opened_by_its_name() -> None:
    assert run(sh("cat /dev/stdin", input=b"given")).stdout == b"given"


def test_without_input_a_command_that_reads_gets_the_end() -> None:
    assert run(run_process(["cat"])).stdout == b""


def test_a_command_runs_where_and_with_the_environment_it_is_told(tmp_path: Path) -> None:
    done = run(sh("pwd -P; echo $COLOUR", cwd=tmp_path, env={**os.environ, "COLOUR": "red"}))

    assert done.text().splitlines() == [str(tmp_path.resolve()), "red"]


def test_a_signal_that_ends_a_command_shows_in_its_return_code() -> None:
    done = run(sh("kill -9 $$"))

    assert (done.returncode, done.timed_out) == (-signal.SIGKILL, False)


def test_a_missing_program_is_the_callers_to_report() -> None:
    with pytest.raises(FileNotFoundError):
        run(run_process(["ferrule-has-no-such-program"], input=b"x"))


def test_a_file_that_may_not_be_executed_is_the_callers_to_report(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")

    with pytest.raises(PermissionError):
        run(run_process([str(tmp_path / "data")]))


@pytest.mark.parametrize("argv", ["ls -l", b"ls", [], ["ls", 5]], ids=["text", "bytes", "nothing", "no text"])
def test_a_command_that_is_no_list_of_words_is_refused(argv: Any) -> None:
    with pytest.raises(UsageError, match=r'argv must be a list of words, for example \["git", "status"\]'):
        run(run_process(argv))


def test_input_that_nobody_reads_holds_up_nothing() -> None:
    done = run(run_process(["true"], input=b"x" * 1_000_000))

    assert done.returncode == 0


def test_much_input_and_much_output_pass_each_other() -> None:
    done = run(run_process(["cat"], input=b"x" * 3_000_000, max_output=5_000_000))

    assert len(done.stdout) == 3_000_000


@pytest.mark.case("C110")
def test_ten_megabytes_of_output_are_read_and_only_both_ends_kept() -> None:
    script = "echo begin; head -c 10000000 /dev/zero | tr '\\0' x; echo end"
    done = run(sh(f"({script}); ({script}) >&2", max_output=1_000))

    whole = 10_000_000 + len("begin\nend\n")
    assert (1_000, whole - 1_000) == (len(done.stdout), done.stdout_cut)
    assert (1_000, whole - 1_000) == (len(done.stderr), done.stderr_cut)
    assert done.stdout.startswith(b"begin\nxxx")
    assert done.stdout.endswith(b"xxxend\n")


@pytest.mark.parametrize(
    ("limit", "kept", "cut"),
    [(0, b"", 10), (1, b"0", 9), (5, b"01289", 5), (9, b"012346789", 1), (10, b"0123456789", 0)],
)
def test_the_middle_is_what_is_left_out(limit: int, kept: bytes, cut: int) -> None:
    done = run(sh("for i in 0 1 2 3 4 5 6 7 8 9; do printf $i; done", max_output=limit))

    assert (kept, cut) == (done.stdout, done.stdout_cut)


def test_text_says_where_something_is_left_out() -> None:
    done = Completed(0, "aé".encode() + "éz".encode(), b"", 7, 0, False, ())

    assert done.text() == "aé\n[7 bytes left out]\néz"


def test_text_shows_what_is_not_utf8_as_replacement_characters() -> None:
    assert Completed(0, b"a\xff", b"", 0, 0, False, ()).text() == "a\ufffd"


# -- how a command ends -----------------------------------------------------------------------------------------


@pytest.mark.case("C110")
def test_after_a_timeout_nothing_of_the_process_group_is_alive_though_it_ignores_term(tmp_path: Path) -> None:
    done = run_until_ready(tmp_path, lambda seconds: sh(IGNORES_TERM, cwd=tmp_path, timeout=seconds, grace=0.1))

    assert (done.timed_out, done.returncode) == (True, -signal.SIGTERM)
    assert living(tmp_path) == []
    assert not (tmp_path / "f").exists()


@on_linux
@pytest.mark.case("C110")
def test_a_descendant_that_left_the_process_group_is_ended_too_and_reported(tmp_path: Path) -> None:
    done = run_until_ready(tmp_path, lambda seconds: sh(LEFT_THE_GROUP, cwd=tmp_path, timeout=seconds, grace=0.1))

    pid = int((tmp_path / "ready").read_text())
    assert done.timed_out
    assert pid in done.stragglers
    assert not is_running(pid)
    assert living(tmp_path) == []


@on_linux
@pytest.mark.case("C110")
def test_a_daemon_that_still_holds_the_output_is_found_by_it(tmp_path: Path) -> None:
    daemon = "echo $$ > ready; exec sleep 20"
    done = run(sh(f"(setsid sh -c '{daemon}' &); while [ ! -s ready ]; do sleep 0.01; done", cwd=tmp_path, grace=0.1))

    pid = int((tmp_path / "ready").read_text())
    assert (0, False, (pid,)) == (done.returncode, done.timed_out, done.stragglers)
    assert not is_running(pid)


@pytest.mark.case("C110")
@pytest.mark.parametrize("script", [IGNORES_TERM, LEFT_THE_GROUP], ids=["ignores-term", "left-the-group"])
def test_a_cancelled_call_ends_its_processes_first(tmp_path: Path, script: str) -> None:
    run(cancelled_when(tmp_path / "ready", sh(script, cwd=tmp_path, grace=0.1)))

    assert living(tmp_path) == []
    assert not (tmp_path / "f").exists()


@pytest.mark.case("C110")
def test_a_second_cancellation_does_not_hurry_the_ending(tmp_path: Path) -> None:
    async def twice() -> None:
        task = asyncio.ensure_future(sh(IGNORES_TERM, cwd=tmp_path, grace=0.2))
        await written(tmp_path / "ready")
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert living(tmp_path) == []

    run(twice())


def test_a_call_cancelled_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    async def at_once() -> None:
        task = asyncio.ensure_future(sh("echo $$ > group; sleep 20", cwd=tmp_path))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(at_once())
    group = tmp_path / "group"
    assert not group.exists() or living(tmp_path) == []


def test_the_end_of_the_loop_ends_the_processes_of_forgotten_calls(tmp_path: Path) -> None:
    async def forgetful() -> asyncio.Task[Completed]:
        task = asyncio.ensure_future(sh(IGNORES_TERM, cwd=tmp_path, grace=0.1))
        await written(tmp_path / "ready")
        return task

    task = asyncio.run(forgetful())

    assert task.cancelled()
    assert living(tmp_path) == []


def test_the_end_of_the_loop_during_the_grace_kills_at_once(tmp_path: Path) -> None:
    async def forgetful() -> None:
        task = asyncio.ensure_future(sh(IGNORES_TERM, cwd=tmp_path, grace=60))
        await written(tmp_path / "ready")
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()

    asyncio.run(asyncio.wait_for(forgetful(), 20))

    assert living(tmp_path) == []


@pytest.mark.case("C110")
def test_a_pipe_that_a_child_holds_after_the_command_ended_costs_a_grace_and_no_more(tmp_path: Path) -> None:
    began = time.monotonic()
    done = run(sh("echo $$ > group; sleep 20 & echo done; exit 3", cwd=tmp_path, grace=0.1))

    assert (done.returncode, done.stdout, done.timed_out) == (3, b"done\n", False)
    assert time.monotonic() - began < 10
    assert living(tmp_path) == []


def test_what_a_child_still_writes_within_the_grace_is_kept() -> None:
    done = run(sh("(sleep 0.1; echo later) & echo first", grace=5))

    assert done.stdout == b"first\nlater\n"


def test_a_silent_child_in_the_background_ends_with_its_command(tmp_path: Path) -> None:
    run(sh("echo $$ > group; sleep 20 >/dev/null 2>&1 &", cwd=tmp_path, grace=0.1))

    assert living(tmp_path) == []


def test_the_deadline_bounds_the_wait_for_a_held_pipe_too() -> None:
    began = time.monotonic()
    done = run(sh("sleep 20 & exit 0", timeout=0.3, grace=15))

    assert (done.returncode, done.timed_out) == (0, False)
    assert time.monotonic() - began < 10


def test_a_command_that_obeys_term_may_say_goodbye(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo > ready; while :; do sleep 0.02; done"
    done = run_until_ready(tmp_path, lambda seconds: sh(script, cwd=tmp_path, timeout=seconds, grace=10))

    assert (done.returncode, done.stdout, done.timed_out) == (7, b"bye\n", True)


def test_a_command_that_floods_its_output_is_ended_like_any_other() -> None:
    done = run(run_process(["yes"], timeout=0.1, max_output=100))

    assert (done.timed_out, len(done.stdout)) == (True, 100)


@on_linux
def test_a_fork_of_our_own_that_holds_the_pipes_is_spared() -> None:
    async def scenario() -> None:
        before = _pipes()
        call = asyncio.ensure_future(sh("sleep 20", grace=0.1))
        while len(new := _pipes() - before) < 2:
            await asyncio.sleep(0.005)
        with subprocess.Popen(["sleep", "20"], pass_fds=new) as ours:
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            spared = ours.poll() is None
            ours.kill()
        assert spared

    run(scenario())


def _pipes() -> set[int]:
    found: set[int] = set()
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:"):
                found.add(fd)
    return found


def test_a_group_whose_number_has_passed_to_another_process_is_spared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: kill(pid, number) if number else None)  # pyright: ignore
    run(sh("echo $$ > group; sleep 20 >/dev/null 2>&1 &", cwd=tmp_path, grace=0.1))

    (spared,) = living(tmp_path)
    kill(spared, signal.SIGKILL)


def test_a_process_that_may_not_be_ended_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    monkeypatch.setattr(process, "MOMENT", 0.02)
    done = run(sh("echo $$ > group; sleep 20 & exit 0", cwd=tmp_path, grace=0.1))

    (alive,) = living(tmp_path)
    os.kill(alive, signal.SIGKILL)
    assert done.returncode == 0
    assert done.stragglers == ((alive,) if sys.platform == "linux" else ())


def test_without_proc_the_group_is_ended_and_no_straggler_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_entry", lambda pid: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(process, "_table", dict)
    monkeypatch.setattr(process, "MOMENT", 0.05)
    done = run_until_ready(tmp_path, lambda seconds: sh(IGNORES_TERM, cwd=tmp_path, timeout=seconds, grace=0.1))

    assert (done.timed_out, done.stragglers) == (True, ())
    assert living(tmp_path) == []


@on_linux
@pytest.mark.case("C110")
def test_twenty_calls_leave_no_descriptor_no_thread_and_no_zombie(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, int]:
        await asyncio.gather(*(_one_of_each(i, tmp_path) for i in range(3)))
        before = len(os.listdir("/proc/self/fd"))
        await asyncio.gather(*(_one_of_each(i, tmp_path) for i in range(20)))
        return before, len(os.listdir("/proc/self/fd"))

    before, after = run(scenario())

    assert before == after
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # no child is left, not even a dead one


async def _one_of_each(i: int, where: Path) -> None:
    if i % 4 == 0:
        await sh("echo hello")
    elif i % 4 == 1:
        await sh("sleep 20", timeout=0.05, grace=0.05)
    elif i % 4 == 2:
        await sh("sleep 20 & exit 0", grace=0.05, input=b"x" * 100_000)
    else:
        with pytest.raises(FileNotFoundError):
            await run_process(["ferrule-has-no-such-program"], cwd=where)


def test_a_child_that_nobody_can_listen_to_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(process, "_thread", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        run(run_process(["sleep", "20"]))

    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_loop_that_cannot_watch_pipes_has_them_read_by_threads() -> None:
    async def scenario() -> Completed:
        asyncio.get_running_loop().add_reader = not_here  # pyright: ignore[reportAttributeAccessIssue]
        return await sh("echo out; echo err >&2; exit 3", input=b"given")

    def not_here(*_: object) -> None:
        raise NotImplementedError

    assert run(scenario()) == Completed(3, b"out\n", b"err\n", 0, 0, False, ())


def test_calls_work_outside_the_main_thread() -> None:
    async def scenario() -> Completed:
        return await asyncio.to_thread(lambda: asyncio.run(_plain("echo hi")))

    assert run(scenario()).stdout == b"hi\n"


async def _plain(script: str) -> Completed:
    return await sh(script)


# -- functions --------------------------------------------------------------------------------------------------

MODULE = '''
import asyncio, os, sys, threading, time
from datetime import date
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, IPvAnyAddress
from ferrule.result import ToolResult
from ferrule.tool.tool import tool

@dataclass
class Price:
    cents: int

    def __post_init__(self):
        self.cents *= 100

@tool
def price() -> Price:
    return Price(2)

@dataclass
class Point:
    x: int

@tool
def add(a: int, b: int = 2):
    return a + b

@tool
def noisy(b: int, a: int = 1):
    print("python says hello")
    os.write(1, b"so does C")
    os.system("echo and a child")
    return {"a": (a, 2.5, {b}), "b": b"\\xff", "day": date(2026, 1, 2), "big": 2**80}

@tool
async def later(x: int):
    await asyncio.sleep(0)
    return x

@tool
def steps(n: int):
    yield from range(n)
    return "end"

@tool
async def stream(n: int):
    for i in range(n):
        yield i

@tool
def mute():
    raise KeyError

@tool
def leave():
    sys.exit(4)

@tool
def loop(path: str):
    Path(path).write_text(str(os.getpid()))
    while True:
        pass

@tool(schema={"type": "object"})
def lost(x: int) -> "Nowhere":
    return Point(x)

@tool
def point(x: int) -> Point:
    return Point(x)

class Host(BaseModel):
    address: IPvAnyAddress

@tool(process=True)
def host(address: str) -> Host:
    return Host(address=address)

@tool(process=True)
def no_host() -> Host:
    return 5

@tool(process=True)
def huge(form: str):
    return HUGE[form]()

@tool
def result():
    return ToolResult.ok({"n": 1}, output="one")

@tool
def weekday(day: date) -> str:
    """Name a day."""
    return day.strftime("%A")

def length(day: date) -> int:
    """Count."""
    return day.day

by_hand = tool(name="day_of_month")(length)
@tool(process=True, timeout=1)
def pay() -> str:
    """Pay."""
    return "paid"

class Box:
    @staticmethod
    @tool
    def inside(x: int):
        return [x]

    @tool
    def method(self):
        return 1

shadowed = add
@tool
def add_(a: int): ...
hidden = add_
@tool
def add_(a: int): ...
short = tool(name="short")(lambda: 1)
'''


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """A module that only our `sys.path` leads to."""
    (tmp_path / "isolated_there.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield import_module("isolated_there")
    sys.modules.pop("isolated_there", None)


def isolated(tool: FunctionTool[..., Any], text: str | bytes = "{}", timeout: float = 90.0) -> Outcome:
    return run(call_isolated(tool, text, timeout=timeout))


def test_a_function_is_called_by_names_and_its_value_comes_back_whatever_it_prints(there: Any) -> None:
    value = {"a": (1, 2.5, {3}), "b": b"\xff", "day": date(2026, 1, 2), "big": 2**80}

    assert Outcome(ToolResult.ok(value), None, False) == isolated(there.noisy, '{"b": 3}')


def test_a_tool_reads_its_arguments_in_the_child_by_its_own_types(there: Any) -> None:
    assert Outcome(ToolResult.ok("Friday"), None, False) == isolated(there.weekday, b'{"day": "2026-01-02"}')


@pytest.mark.case("C109")
def test_a_function_that_loops_forever_is_really_ended_at_its_deadline(there: Any, tmp_path: Path) -> None:
    text = f'{{"path": "{tmp_path / "ready"}"}}'
    outcome = run_until_ready(tmp_path, lambda seconds: call_isolated(there.loop, text, timeout=seconds))

    assert Outcome(None, None, True) == outcome
    assert not is_running(int((tmp_path / "ready").read_text()))


@pytest.mark.case("C109")
def test_a_cancelled_call_ends_the_function_too(there: Any, tmp_path: Path) -> None:
    path = tmp_path / "ready"
    run(cancelled_when(path, call_isolated(there.loop, f'{{"path": "{path}"}}', timeout=90)))

    assert not is_running(int(path.read_text()))


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a shell script in the place of the interpreter, for what a real one does only now and then."""

    def put(script: str) -> None:
        path = tmp_path / "interpreter"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return put


def test_an_exception_comes_back_as_its_code_name_and_text(interpreter: Callable[[str], None], there: Any) -> None:
    interpreter("""echo '{"error": ["exception", "ValueError", "ValueError: no such row"]}'""")

    assert Outcome(None, ("exception", "ValueError", "ValueError: no such row"), False) == isolated(there.add)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo last words >&2; exit 5", "exit status 5 before it answered: last words"),
        ("kill -9 $$", "signal 9 before it answered"),
        (
            "echo no route to ftp://me:FAKE@host >&2; exit 5",
            "exit status 5 before it answered: no route to ftp://me:[redacted]@host",
        ),
        ("printf '{\"value\": [1,'", "exit status 0 before it answered"),
    ],
    ids=["exit", "signal", "credential", "half-an-answer"],
)
def test_a_process_that_dies_before_it_answers_is_an_error_that_says_how(
    interpreter: Callable[[str], None], there: Any, script: str, said: str
) -> None:
    interpreter(script)

    error = ("outcome_unknown", "ChildProcessError", f"the process ended with {said}")
    assert Outcome(None, error, False) == isolated(there.add)


def test_an_answer_in_time_counts_though_a_thread_keeps_the_process(
    interpreter: Callable[[str], None], there: Any
) -> None:
    interpreter("""echo '{"value": "answered"}'; exec sleep 20""")

    assert Outcome("answered", None, False) == isolated(there.add, timeout=1)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("""echo '{"value": "paid"}'""", ("done", "paid")),
        ("""echo '{"error": ["denied", "PermissionError", "no card"]}'""", ("failed", "no card")),
        (
            """printf '{"value": "pa'""",
            (
                "failed",
                "Tool 'pay' timed out after 1 s. Its process is being ended; its effect may have happened.",
            ),
        ),
        (
            "",
            (
                "failed",
                "Tool 'pay' timed out after 1 s. Its process is being ended; its effect may have happened.",
            ),
        ),
    ],
    ids=["value", "error", "half-an-answer", "none"],
)
def test_what_a_tool_answered_before_its_deadline_is_how_its_call_ended(
    interpreter: Callable[[str], None], there: Any, script: str, expected: tuple[str, str]
) -> None:
    interpreter(f"{script or ':'}; exec sleep 20")

    async def scenario() -> ToolResult:
        before = asyncio.all_tasks()
        result = await there.pay.call()
        await asyncio.wait(asyncio.all_tasks() - before)  # for the end of its process
        return result

    result = run(scenario())
    assert expected == (result.status, result.output)


def test_an_answer_beyond_the_bound_is_an_error_that_says_so(
    interpreter: Callable[[str], None], there: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_ANSWER", 10)
    interpreter("""echo '{"value": "much too long"}'""")

    error = ("too_large", "ValueError", "the answer has more than 10 bytes. Return a part of it.")
    assert Outcome(None, error, False) == isolated(there.add)


def test_an_object_of_the_users_own_class_comes_back_by_the_return_annotation(
    interpreter: Callable[[str], None], there: Any
) -> None:
    interpreter("""echo '{"value": {"$object": "isolated_there.Point", "value": {"x": 4}}}'""")

    assert there.Point(4) == isolated(there.point).value
    assert Opaque("isolated_there.Point", '{"x":4}') == isolated(there.lost).value


def test_a_value_that_its_class_would_change_again_is_never_told_as_another(
    interpreter: Callable[[str], None], there: Any
) -> None:
    interpreter("""echo '{"value": {"$object": "isolated_there.Price", "value": {"cents": 200}}}'""")

    assert Opaque("isolated_there.Price", '{"cents":200}') == isolated(there.price).value


# -- the child's side, without a process ------------------------------------------------------------------------


def test_a_result_made_by_hand_travels_as_one(there: Any) -> None:
    answered = answer("isolated_there:result", "{}")

    assert process.restore(answered["value"]) == {"n": 1}
    assert process.restore(answered["result"]) == ToolResult.ok(None, output="one")


def test_a_value_is_checked_and_shown_by_the_process_that_made_it(there: Any) -> None:
    here = ToolResult.ok(there.Host(address="192.0.2.1"))
    found = run(there.host.call({"address": "192.0.2.1"}))
    other = run(there.no_host.call())

    assert found == here
    assert (other.status, other.failure, other.value) == ("failed", Failure("exception", "OutputMismatch"), 5)


HUGE: dict[str, Callable[[], ToolResult]] = {
    "metadata": lambda: ToolResult("no", True, {"rows": [0] * MAX_TYPED_NODES}),
    "details": lambda: ToolResult.failed("no", code="timeout", details=[0] * MAX_TYPED_NODES),
    "failure": lambda: ToolResult("x" * (MAX_BYTES + 1), True),
    "request": lambda: pending("input", "Which?", data={"rows": [0] * MAX_TYPED_NODES}),
    "text": lambda: ToolResult.ok("x" * (MAX_BYTES + 1)),
    "part": lambda: ToolResult.ok(None, parts=[file(bytes(MAX_BYTES))]),
}


@pytest.mark.parametrize("form", HUGE)
def test_how_a_call_ended_comes_back_though_the_result_is_larger_than_the_bounds(there: Any, form: str) -> None:
    there.HUGE = HUGE
    made = HUGE[form]()
    answered = answer("isolated_there:huge", f'{{"form": "{form}"}}')
    found = process.restore(answered.get("result", answered["value"]))

    assert (found.status, found.failure and found.failure.code) == (made.status, made.failure and made.failure.code)
    assert len(found.parts or []) == len(made.parts or [])
    assert as_result(found).status == made.status


def test_a_value_has_all_the_room_that_typed_gives_it(there: Any) -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    there.HUGE = {"deep": lambda: deep}

    assert process.restore(answer("isolated_there:huge", '{"form": "deep"}')["value"]) == deep


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("later", '{"x": 1}', 1),
        ("steps", '{"n": 3}', "end"),
        ("stream", '{"n": 3}', 2),
        ("Box.inside", '{"x": 1}', [1]),
    ],
)
def test_async_functions_generators_and_static_methods_are_run_to_their_end(
    there: Any, name: str, text: str, value: Any
) -> None:
    answered = answer(f"isolated_there:{name}", text)

    assert plain(process.restore(answered["value"])) == value


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("leave", "{}", ["exception", "SystemExit", "SystemExit: 4"]),
        ("mute", "{}", ["exception", "KeyError", "KeyError"]),
        (
            "add",
            "[1]",
            [
                "exception",
                "InvalidArguments",
                "InvalidArguments: The arguments do not fit the schema. should be an object (got array).",
            ],
        ),
        ("weekday", '{"day": "soon"}', None),
    ],
)
def test_whatever_goes_wrong_in_the_child_is_an_answer(there: Any, name: str, text: str, error: Any) -> None:
    found = answer(f"isolated_there:{name}", text)["error"]

    assert found == error if error else found[1] == "InvalidArguments"


def test_a_module_that_the_child_cannot_import_is_an_answer() -> None:
    assert answer("ferrule_has_no_such_module:f", "{}")["error"][1] == "ModuleNotFoundError"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("add", "add"),
        ("weekday", "weekday"),
        ("by_hand", "by_hand"),
        ("shadowed", "add"),
        ("hidden", "hidden"),
        ("Box.inside", "Box.inside"),
    ],
)
def test_an_address_leads_back_to_what_it_was_made_from(there: Any, name: str, address: str) -> None:
    given = functools.reduce(getattr, name.split("."), there)

    assert address_of(given) == f"isolated_there:{address}"
    assert find(address_of(given)) is given


def test_a_function_no_other_process_finds_is_refused_by_name_with_the_mend(there: Any) -> None:
    def local() -> None: ...

    def in_main() -> None: ...

    def nowhere() -> None: ...

    in_main.__module__, in_main.__qualname__ = "__main__", "in_main"
    nowhere.__module__ = None  # pyright: ignore[reportFunctionMemberAccess] - as a function has it that was made without a module
    nowhere.__qualname__ = "nowhere"
    refused_for: list[tuple[Any, str]] = [
        (there.short, "'<lambda>' cannot run in a process of its own: it has no name that a module knows"),
        (tool(local), "local' cannot run in a process of its own: it has no name that a module knows"),
        (
            tool(in_main),
            "'in_main' cannot run in a process of its own: it is defined in the main script. Move it to a module",
        ),
        (tool(nowhere), "'nowhere' cannot run in a process of its own: it has no name that a module knows"),
        (
            there.Box().method,
            "'Box.method' cannot run in a process of its own: module 'isolated_there' has nothing, or",
        ),
    ]
    for function, said in refused_for:
        with pytest.raises(ToolDefinitionError) as refused:
            run(call_isolated(function, "{}", timeout=5))
        assert said in str(refused.value)
        assert str(refused.value).endswith("or run it in a thread.")


CALLER = """
import asyncio, sys
from ferrule.tool.process import run_process

async def main():
    command = asyncio.ensure_future(run_process([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    print("begun", flush=True)
    await command

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is killed there may leave its commands")
def test_a_command_does_not_outlive_a_caller_that_was_killed() -> None:
    mark = f"watched-{os.getpid()}-{time.monotonic_ns()}"
    caller = subprocess.Popen([sys.executable, "-c", CALLER, mark], stdout=subprocess.PIPE)

    def is_there() -> bool:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if entry.read_bytes().endswith(f"time.sleep(600)\0{mark}\0".encode()):
                    return True
        return False

    try:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"begun\n"
        assert is_there()
    finally:
        caller.kill()
        caller.communicate()
    limit = time.monotonic() + 30
    while is_there():
        assert time.monotonic() < limit
        time.sleep(0.01)
