"""What the processes of these tests run: an app whose tools count their effects in a file outside of any process.

A process dies, or stops, at a point that the environment names; the library
does not know of it:

    CRASH_AT="record tool.intended 2 before"   in front of, or behind, the second record of a type
    CRASH_AT="body pay 1 after"                in the body of a tool, before or after its effect
    CRASH_AT="model outer 2 before"            while the model is asked
    CRASH_BY="STOP"                            stops there instead, and goes on when it is continued
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

from ferrule import Agent, Answer, Context, Hooks, ToolResult, image, tool
from ferrule.app import App
from ferrule.journal.store import Asked, Store
from ferrule.message import ModelMessage
from ferrule.provider.base import ModelRequest
from ferrule.strict_json import parse, restore
from ferrule.suspension import Request
from ferrule.testing import CrashingStore, CrashPoint, call

PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082")  # fmt: skip
LARGE = PIXEL + bytes(50_000)  # stored apart from the record that speaks of it
ONCE_SECONDS = 5.0
ONCE = ("pay", "order", "mail", "send", "printed")


class Line(NamedTuple):
    """What a body told of itself."""

    kind: str  # begin, effect, end
    pid: int
    tool: str
    n: str
    call_id: str
    key: str


class Sink:
    """A file to which every process appends; each line is one write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gate = path.with_suffix(".gate")
        """Bodies that hold go on when this file is there."""

    def write(self, kind: str, name: str, n: Any, ctx: Context | None = None) -> None:
        ids = f"{ctx.call_id} {ctx.effect_key}" if ctx is not None else "- -"
        line = f"{kind} {os.getpid()} {name} {n} {ids}\n"
        file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def lines(self) -> list[Line]:
        if not self.path.exists():
            return []
        words = (line.split(" ") for line in self.path.read_text().splitlines())
        return [Line(kind, int(pid), *rest) for kind, pid, *rest in words]

    def happened(self, name: str, n: Any) -> bool:
        return any((line.kind, line.tool, line.n) == ("effect", name, str(n)) for line in self.lines())


class Point(NamedTuple):
    """Where this process dies."""

    kind: str
    name: str
    nth: int
    when: str


def point() -> Point | None:
    told = os.environ.get("CRASH_AT")
    if not told:
        return None
    kind, name, nth, when = told.split(" ")
    return Point(kind, name, int(nth), when)


def crash() -> None:
    number = getattr(signal, f"SIG{os.environ.get('CRASH_BY', 'KILL')}")
    signal.pthread_kill(threading.get_ident(), number)  # to this thread, or it would go on for a moment


_seen: Counter[tuple[str, str, str]] = Counter()


def passing(kind: str, name: str, when: str) -> None:
    """A place where this process may die."""
    _seen[kind, name, when] += 1
    if point() == (kind, name, _seen[kind, name, when], when):
        crash()


def stored(store: Store) -> Store:
    """The store, with which the process dies at a record."""
    at = point()
    if at is None or at.kind != "record":
        return store
    return cast("Store", CrashingStore(store, CrashPoint(cast("Any", at.name), at.nth, cast("Any", at.when)), crash))


def _printed(ctx: Context, given: dict[str, Any]) -> ToolResult | None:
    sink = Sink(Path(os.environ["CRASH_SINK"]))
    return ToolResult.ok(f"printed {given['n']}") if sink.happened("printed", given["n"]) else None


@tool(effect="once", process=True, timeout=60, check=_printed)
def printed(n: int) -> str:
    """Print, in a process of its own, when the gate is open."""
    sink = Sink(Path(os.environ["CRASH_SINK"]))
    sink.write("begin", "printed", n)
    until = time.monotonic() + 30
    while not sink.gate.exists() and time.monotonic() < until:
        time.sleep(0.005)
    sink.write("effect", "printed", n)
    sink.write("end", "printed", n)
    return f"printed {n}"


def tools(sink: Sink) -> dict[str, Any]:
    """Tools of each effect class, with bodies of each kind."""

    def act(name: str, n: Any, ctx: Context) -> None:
        sink.write("begin", name, n, ctx)
        passing("body", name, "before")
        sink.write("effect", name, n, ctx)
        passing("body", name, "after")
        sink.write("end", name, n, ctx)

    def made(name: str) -> Callable[[Context, dict[str, Any]], Any]:
        return lambda ctx, given: ToolResult.ok(f"{name} {given['n']}") if sink.happened(name, given["n"]) else None

    @tool(effect="read")
    def look(ctx: Context, n: int) -> list[Any]:
        """Look."""
        act("look", n, ctx)
        return ["a picture", image(LARGE)]

    @tool(effect="idempotent")
    async def put(ctx: Context, n: int) -> str:
        """Put."""
        await asyncio.sleep(0)
        act("put", n, ctx)
        return f"put {n}"

    @tool(effect="idempotent", retries=2)
    async def flaky(ctx: Context, n: int) -> Any:
        """Fail at first."""
        act("flaky", n, ctx)
        if ctx.attempt == 1:
            return ToolResult.failed("not yet", retryable=True, retry_after=0.01)
        return f"flaky {n}"

    @tool(effect="once", timeout=ONCE_SECONDS, check=made("pay"))
    def pay(ctx: Context, n: int) -> str:
        """Pay; somebody can be asked whether that happened."""
        act("pay", n, ctx)
        return f"pay {n}"

    @tool(effect="once", timeout=ONCE_SECONDS, on_unknown="ask")
    async def order(ctx: Context, n: int) -> str:
        """Order; only a person knows whether that happened."""
        act("order", n, ctx)
        return f"order {n}"

    @tool(effect="once", timeout=ONCE_SECONDS, on_unknown="fail")
    async def mail(ctx: Context, n: int) -> str:
        """Mail; nobody knows whether that happened."""
        await asyncio.sleep(0)
        act("mail", n, ctx)
        return f"mail {n}"

    @tool(effect="once", timeout=ONCE_SECONDS, approval=True, check=made("send"))
    async def send(ctx: Context, n: int) -> str:
        """Send, when somebody agrees."""
        act("send", n, ctx)
        return f"send {n}"

    @tool(effect="read")
    async def ask(ctx: Context, n: int) -> str:
        """Ask."""
        name = (ctx.ask("question", "who?").data or {})["name"]
        act("ask", n, ctx)
        return f"it is {name}"

    @tool(effect="read", timeout=120)
    async def hold(ctx: Context, n: int) -> str:
        """Wait until somebody opens the gate."""
        sink.write("begin", "hold", n, ctx)
        while not sink.gate.exists():
            await asyncio.sleep(0.005)
        sink.write("effect", "hold", n, ctx)
        return f"held {n}"

    return {t.name: t for t in (look, put, flaky, pay, order, mail, send, ask, hold, printed)}


class Watching(Hooks):
    """Looks at calls and changes nothing."""

    def before_tool(self, run: Any, call: Any, tool: Any, arguments: Any) -> None:
        return None


def said(turns: list[Any], name: str) -> Callable[[ModelRequest], Any]:
    """A model that says what comes next by the turns it sees."""

    def model(request: ModelRequest) -> Any:
        passing("model", name, "before")
        return turns[sum(isinstance(m, ModelMessage) for m in request.messages)]

    return model


def asked(name: str, n: int) -> Any:
    return call(name, {"n": n})


INNER: list[Any] = [[asked("put", 11), asked("pay", 12)], "inside is done"]
TURNS: list[Any] = [
    [asked("look", 1), asked("put", 2), asked("pay", 3), call("nobody")],
    [asked("order", 4), asked("mail", 5), asked("flaky", 6)],
    [asked("send", 7), asked("ask", 8), asked("pay", 9)],
    [call("inner", {"input": "go"})],
    "all is done",
]


def app(store: Store, sink: Sink, turns: list[Any] | None = None) -> App:
    """The app: an agent with an agent inside, by a script."""
    made = tools(sink)
    inner = Agent("inner", said(INNER, "inner"), tools=[made["put"], made["pay"]])
    outer = Agent("outer", said(turns or TURNS, "outer"), tools=[*made.values(), inner.as_tool()], hooks=[Watching()])
    return App(agents=[outer], store=stored(store))


def decide(entry: Asked, sink: Sink) -> Answer:
    """What an honest person says to a request."""
    request: Request = restore(parse(entry.body))
    data: dict[str, Any] | None = None
    if request.kind == "question":
        data = {"name": "Eve"}
    elif request.kind == "outcome":
        told: dict[str, Any] = request.data or {}
        name, n = told["tool"], told["arguments"]["n"]
        happened = sink.happened(name, n)
        data = {"outcome": "happened", "value": f"{name} {n}"} if happened else {"outcome": "not_happened"}
    return Answer(request.id, ok=True, digest=request.digest, data=data)
