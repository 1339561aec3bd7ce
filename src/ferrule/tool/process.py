"""Commands and functions in processes that end with the call.

A child leads a session and process group of its own. However the call ends,
nothing of that group outlives it: TERM, a grace, KILL. Output is read all the
time and kept within a bound, so a child never blocks on us; and we never block
on a pipe that a survivor holds, for our ends are closed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

from ferrule.errors import JSONSyntaxError, ToolDefinitionError, UsageError
from ferrule.exception import MAX_MESSAGE
from ferrule.redact import scrub
from ferrule.strict_json import MAX_BYTES, dumps, parse, restore
from ferrule.tool.child import address_of
from ferrule.tool.schema.annotation import hints_of
from ferrule.tool.watch import WATCH

if TYPE_CHECKING:
    from ferrule.tool.tool import FunctionTool

KILL: Final[int] = getattr(signal, "SIGKILL", signal.SIGTERM)
MOMENT = 0.25
CHUNK = 256 * 1024
MAX_ANSWER = 4 * MAX_BYTES


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended.

    Args:
        returncode: Exit status, or minus the number of the signal that ended it; None if it could not be ended.
        stdout: What it wrote, or the beginning and the end of it.
        stderr: The same for standard error.
        stdout_cut: Bytes left out in the middle of `stdout`.
        stderr_cut: Bytes left out in the middle of `stderr`.
        timed_out: Whether the command itself did not end in time.
        stragglers: Pids of descendants that had left the process group and were ended one by one, and of whatever could
            not be ended. What detached itself entirely, parents and output too, is not found; nor is anything without
            `/proc`.

    Since 0.1.
    """

    returncode: int | None
    stdout: bytes
    stderr: bytes
    stdout_cut: int
    stderr_cut: int
    timed_out: bool
    stragglers: tuple[int, ...]

    def text(self) -> str:
        """Standard output as text; a line says where something was left out, and what is not UTF-8 becomes U+FFFD."""
        if not self.stdout_cut:
            return self.stdout.decode(errors="replace")
        middle = len(self.stdout) - len(self.stdout) // 2
        head, tail = self.stdout[:middle].decode(errors="replace"), self.stdout[middle:].decode(errors="replace")
        return f"{head}\n[{self.stdout_cut} bytes left out]\n{tail}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a function in a process of its own ended.

    Args:
        value: The result of what it returned, checked against the declared type.
        error: Failure code, class name and text of what it raised; `outcome_unknown` when it died without an answer.
        timed_out: Whether its process was ended at the deadline, before it answered.
        unproven: Whether the error leaves open what happened on another side, like a lost connection.

    Since 0.1.
    """

    value: Any
    error: tuple[str, str, str] | None
    timed_out: bool
    unproven: bool = False


async def run_process(
    argv: Sequence[str],
    *,
    input: bytes = b"",
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    grace: float = 2.0,
    max_output: int = 1_000_000,
) -> Completed:
    """Run a command; when this returns or raises, its process group is gone.

    At the deadline and on cancellation the group gets TERM, and KILL after the
    grace. Once the command has ended by itself, whatever it left behind in its
    group has one grace to close the output, and is then ended in the same way;
    a service that is meant to stay needs a session of its own. On Windows only
    the command itself is ended. On Linux it ends with us too, when we are killed.

    Args:
        argv: The program and its arguments; no shell reads them.
        input: Its standard input.
        cwd: Where it runs; default where we are.
        env: Its environment; default ours.
        timeout: Seconds until it is ended; default never.
        grace: Seconds between TERM and KILL.
        max_output: Most bytes kept of each of stdout and stderr: half from the beginning, half from the end.

    Returns:
        How it ended, at the latest a grace and a moment after the deadline.

    Raises:
        FileNotFoundError: There is no such program, or no such `cwd`.
        PermissionError: It may not be executed.
        UsageError: `argv` is one text, or empty, or holds something else than text.

    Since 0.1.
    """
    if isinstance(argv, str | bytes) or not argv or not all(isinstance(word, str | os.PathLike) for word in argv):  # pyright: ignore
        raise UsageError('argv must be a list of words, for example ["git", "status"]; no shell splits a text.')
    return await _run(argv, input, cwd, env, timeout, grace, (max_output, max_output))


async def _run(
    argv: Sequence[str],
    input: bytes,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    grace: float,
    limits: tuple[int, int],
    begun: Callable[[_Child], None] | None = None,
) -> Completed:
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    child = _Child(_open(argv, input, cwd, env), limits)
    WATCH.begun(child.process.pid)
    if begun is not None:
        begun(child)
    timed_out, cancelled = False, None
    try:
        timed_out = not await child.ended(deadline, grace)
    except asyncio.CancelledError as error:
        cancelled = error
    cancelled = await _whatever_comes(child.finish(grace)) or cancelled
    WATCH.ended(child.process.pid)
    if cancelled is not None:
        raise cancelled
    return child.completed(timed_out)


async def _whatever_comes(work: Coroutine[Any, Any, None]) -> asyncio.CancelledError | None:
    """See work through although the caller is cancelled; the cancellation is handed back, to go on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    return cancelled


# -- one child --------------------------------------------------------------------------------------------------


class _Kept:
    """The beginning and the end of a stream, and how much there was in between."""

    def __init__(self, limit: int) -> None:
        self.head, self.tail = bytearray(), bytearray()
        self.head_room, self.tail_room = limit - limit // 2, limit // 2
        self.cut = 0

    def add(self, data: bytes) -> None:
        room = self.head_room - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * self.tail_room:  # not at each chunk: moving the tail costs its length
            self.trim()

    def trim(self) -> None:
        over = max(len(self.tail) - self.tail_room, 0)
        del self.tail[:over]
        self.cut += over

    def whole(self) -> bytes:
        self.trim()
        return bytes(self.head + self.tail)


def _nameless_file() -> IO[bytes]:
    """A file for the input: a child that never reads it blocks nobody, and one may open /dev/stdin again."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("input"), "w+b")
    from tempfile import TemporaryFile

    return TemporaryFile()


def _open(
    argv: Sequence[str], input: bytes, cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Start a command; in one step, for while asyncio starts one a cancellation can lose it, or hang."""
    out = subprocess.PIPE
    with _nameless_file() as file:
        file.write(input)
        file.seek(0)
        return subprocess.Popen(
            argv, stdin=file, stdout=out, stderr=out, cwd=cwd, env=env, start_new_session=True, bufsize=0
        )


class _Ears:
    """Hears what a child writes and that it ends; reads on when nothing more is kept."""

    def __init__(self, process: subprocess.Popen[bytes], limits: tuple[int, int]) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = process
        self.kept = {1: _Kept(limits[0]), 2: _Kept(limits[1])}
        self.pipes = {1: cast("IO[bytes]", process.stdout), 2: cast("IO[bytes]", process.stderr)}
        self.exited, self.eof = asyncio.Event(), asyncio.Event()
        _thread(self.wait)
        self.threaded = False
        for number, pipe in self.pipes.items():
            try:
                self.loop.add_reader(pipe, self.hear, number)
                os.set_blocking(pipe.fileno(), False)
            except NotImplementedError:  # the usual loop of Windows
                self.threaded = True
                _thread(self.hear_all, number, pipe)

    def hear(self, number: int) -> None:
        try:
            data = os.read(self.pipes[number].fileno(), CHUNK)
        except BlockingIOError:
            return
        self.take(number, data)

    def hear_all(self, number: int, pipe: IO[bytes]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), CHUNK):
                self.tell(self.take, number, data)
        self.tell(self.take, number, b"")

    def take(self, number: int, data: bytes) -> None:
        if data:
            self.kept[number].add(data)
        else:
            self.leave(number)

    def leave(self, number: int) -> None:
        """Stop listening; a thread that still reads closes its pipe itself."""
        pipe = self.pipes.pop(number, None)
        if pipe is not None and not self.threaded:
            self.loop.remove_reader(pipe)
            pipe.close()
        if not self.pipes:
            self.eof.set()

    def wait(self) -> None:
        self.process.wait()
        self.tell(self.exited.set)

    def tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call back from a thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self.loop.call_soon_threadsafe(callback, *arguments)

    def names(self) -> set[str]:
        """What Linux calls the pipes that are still open."""
        if sys.platform != "linux" or self.threaded:
            return set()
        return {f"pipe:[{os.fstat(pipe.fileno()).st_ino}]" for pipe in self.pipes.values()}


def _thread(target: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=target, args=arguments, name="ferrule-child", daemon=True).start()


class _Child:
    """A running command, its output and its family."""

    def __init__(self, process: subprocess.Popen[bytes], limits: tuple[int, int]) -> None:
        self.process = process
        try:
            self.ears = _Ears(process, limits)
        except BaseException:  # no thread to be had, for one
            with process:
                process.kill()
            raise
        self.family = _Family(process)

    async def ended(self, deadline: float | None, grace: float) -> bool:
        """Wait for the command until the deadline, then a grace for the end of its output."""
        if not await _within(self.ears.exited, deadline):
            return False
        until = asyncio.get_running_loop().time() + grace
        await _within(self.ears.eof, until if deadline is None else min(deadline, until))
        return True

    async def finish(self, grace: float) -> None:
        """End whatever is still there and let go of it."""
        try:
            if not self.is_over():
                await self.end(grace)
        except asyncio.CancelledError:  # the loop itself is being shut down
            await self.kill()
            raise
        finally:
            for number in (1, 2):
                self.ears.leave(number)

    def is_over(self) -> bool:
        return self.ears.exited.is_set() and self.ears.eof.is_set() and not self.family.is_alive()

    async def end(self, grace: float) -> None:
        self.signal(signal.SIGTERM)
        if not await self.gone(grace):
            await self.kill()
        await _within(self.ears.eof, asyncio.get_running_loop().time() + MOMENT)

    async def kill(self) -> None:
        for _ in range(8):  # a process may have been born between the look and the signal
            self.signal(KILL)
            if await self.gone(MOMENT):
                return

    def signal(self, number: int) -> None:
        if hasattr(os, "killpg"):
            self.family.signal(number, self.ears.names())
        else:
            self.process.kill()

    async def gone(self, seconds: float) -> bool:
        """Wait for the end of the family. Nothing tells when a group is empty, so it is asked again and again."""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + seconds, 0.002
        while not self.ears.exited.is_set() or self.family.is_alive():
            left = until - loop.time()
            if left <= 0:
                return False
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, 0.05)
        return True

    def completed(self, timed_out: bool) -> Completed:
        out, err = self.ears.kept[1], self.ears.kept[2]
        stdout, stderr = out.whole(), err.whole()
        return Completed(self.process.returncode, stdout, stderr, out.cut, err.cut, timed_out, self.family.stragglers())


async def _within(event: asyncio.Event, deadline: float | None) -> bool:
    """Wait for an event until a time of the loop's clock."""
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()


# -- its family -------------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """What the kernel says of one living process; pid and start time name it for good."""

    pid: int
    parent: int
    group: int
    session: int
    start: int


def _entry(pid: int) -> _Entry | None:
    """A living process; None for one that is gone, or dead and not yet collected by its parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name in parentheses may hold anything
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return _Entry(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _table() -> dict[int, _Entry]:
    """All living processes; empty where the system does not show them in this way."""
    if sys.platform != "linux":
        return {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    entries = (_entry(int(name)) for name in names if name.isdecimal())
    return {entry.pid: entry for entry in entries if entry is not None}


def _writes_to(pid: int, pipes: set[str]) -> bool:
    """Whether a process has the writing end of one of the pipes, as far as we may look."""
    try:
        descriptors = [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    for path in descriptors:
        with suppress(OSError):  # closed in the meantime
            if os.readlink(path) in pipes and os.lstat(path).st_mode & stat.S_IWUSR:
                return True
    return False


class _Family:
    """A child and all it started, inside its process group and outside."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        entry = _entry(process.pid)
        self.process = process
        self.leader = process.pid
        self.since = entry.start if entry is not None else 0
        self.inside: dict[int, int] = {}  # pid to start time
        self.outside: dict[int, int] = {}

    def look(self, pipes: set[str]) -> None:
        """Bring the two lists up to date.

        Descent shows in three ways: by parents as long as they live, by the
        session, and by the pipes that only the child was given.
        """
        table = {pid: entry for pid, entry in _table().items() if entry.start >= self.since}
        leader = -1 if self.is_reused() else self.leader
        todo = [pid for pid, entry in table.items() if self.belongs(entry, leader, pipes)]
        children: defaultdict[int, list[int]] = defaultdict(list)
        for entry in table.values():
            children[entry.parent].append(entry.pid)
        self.inside.clear()
        seen: set[int] = set()
        while todo:
            pid = todo.pop()
            if pid not in seen:
                seen.add(pid)
                todo += children[pid]
                (self.inside if table[pid].group == leader else self.outside)[pid] = table[pid].start

    def belongs(self, entry: _Entry, leader: int, pipes: set[str]) -> bool:
        if leader in (entry.group, entry.session) or self.outside.get(entry.pid) == entry.start:
            return True
        # A fork of this very process may have got the pipes by accident, in the moment when we had both ends.
        return bool(pipes) and os.getpid() not in (entry.pid, entry.parent) and _writes_to(entry.pid, pipes)

    def is_reused(self) -> bool:
        """Whether the leader is gone and its pid names another process: then the group had become empty before."""
        return self.process.returncode is not None and _takes_signals(os.kill, self.leader)

    def is_alive(self) -> bool:
        """Whether anything but the leader runs; what is dead and uncollected does not."""
        if any(_is(pid, start) for pid, start in (*self.outside.items(), *self.inside.items())):
            return True
        if not self.has_group():
            return False
        if _entry(os.getpid()) is None:  # nothing to look at
            return True
        self.look(set())
        return bool(self.inside) or any(_is(pid, start) for pid, start in self.outside.items())

    def has_group(self) -> bool:
        return hasattr(os, "killpg") and not self.is_reused() and _takes_signals(os.killpg, self.leader)

    def signal(self, number: int, pipes: set[str]) -> None:
        """Send a signal to the group at once and to the others one by one."""
        self.look(pipes)
        with suppress(ProcessLookupError, PermissionError):
            if not self.is_reused():
                os.killpg(self.leader, number)
        # Parents first: a shell whose command ends before the shell itself would go on to the next command.
        for pid, start in sorted(self.outside.items(), key=lambda item: (item[1], item[0])):
            with suppress(ProcessLookupError, PermissionError):
                if _is(pid, start):
                    os.kill(pid, number)

    def stragglers(self) -> tuple[int, ...]:
        return tuple(sorted({*self.outside, *(pid for pid, start in self.inside.items() if _is(pid, start))}))


def _takes_signals(kill: Callable[[int, int], None], id: int) -> bool:
    """Whether a process or group is there, though it may not be ours to end."""
    try:
        kill(id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is(pid: int, start: int) -> bool:
    """Whether a pid still names the process that started then."""
    entry = _entry(pid)
    return entry is not None and entry.start == start


# -- functions --------------------------------------------------------------------------------------------------

# The path comes first, for the package itself may be found by it only; -P keeps other files from being found before.
_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from ferrule.tool.child import main
main(sys.argv[1])
"""


async def call_isolated(
    tool: FunctionTool[..., Any],
    text: str | bytes,
    *,
    timeout: float,
    begun: Callable[[Callable[[], Outcome]], None] | None = None,
) -> Outcome:
    """Call a tool in an interpreter of its own, which the deadline really ends.

    The child imports the tool by its name, with our `sys.path` and environment.
    What it prints is told only where it dies without an answer. It reads the
    arguments by the tool's own parameters; async functions and generators are
    run to their end.

    Args:
        tool: A tool of a function at the top level of a module, or of a static method.
        text: Its arguments, a JSON object that its parameters accepted here.
        timeout: Seconds until the process is ended, the start of the interpreter included.
        begun: Takes, once the process runs, what tells the outcome if time ran out now: a caller that does not wait
            until the process has ended learns by it of an answer that came in time.

    Returns:
        The result, its value as the journal would restore it, or the error, or neither when time ran out. An answer
        that came in time counts although the process, a thread of it perhaps, did not end by itself.

    Raises:
        ToolDefinitionError: The tool cannot be found by its name in another process.

    Since 0.1.
    """
    address = address_of(tool)
    paths = dumps([path for path in sys.path if isinstance(path, str)])  # pyright: ignore[reportUnnecessaryIsInstance]
    request = paths + b"\n" + (text.encode() if isinstance(text, str) else text)
    argv = [sys.executable, "-P", "-c", _BOOT, address]

    def tell(child: _Child) -> None:
        if begun is not None:
            begun(lambda: _outcome(tool, child.completed(timed_out=True)))

    done = await _run(argv, request, None, None, timeout, 2.0, (MAX_ANSWER, MAX_MESSAGE), tell)
    return _outcome(tool, done)


def _outcome(tool: FunctionTool[..., Any], done: Completed) -> Outcome:
    if done.stdout_cut:
        text = f"the answer has more than {MAX_ANSWER} bytes. Return a part of it."
        return Outcome(None, ("too_large", "ValueError", text), False)
    try:
        found = parse(done.stdout)
    except JSONSyntaxError:  # it never came, or not to its end
        if done.timed_out:
            return Outcome(None, None, True)
        return Outcome(None, ("outcome_unknown", "ChildProcessError", _death(done)), False)
    if "error" in found:
        code, name, text = found["error"]
        return Outcome(None, (code, name, text), False, "unproven" in found)
    value = restore(found["value"], annotation=_returns(tool))
    if "result" in found:
        value = replace(restore(found["result"]), value=value)
    return Outcome(value, None, False)


def _returns(tool: FunctionTool[..., Any]) -> Any:
    try:
        return hints_of(tool.function, tool.name).get("return")
    except ToolDefinitionError:  # a given schema may be there because the annotations cannot be read
        return None


def _death(done: Completed) -> str:
    code = done.returncode
    how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
    said = done.stderr.decode(errors="replace").strip()
    return f"the process ended with {how} before it answered" + (f": {scrub(said)}" if said else "")
