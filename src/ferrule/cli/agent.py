"""`ferrule run` and `ferrule chat`: agents on the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from ferrule.cli.arguments import read_source
from ferrule.cli.ask import ask_on_terminal, can_ask, say_request
from ferrule.cli.envelope import event_data, run_data
from ferrule.cli.failure import ExitCode, Interrupted, exit_code_of
from ferrule.cli.kept import Kept, Left, first_of, follow, seconds_of
from ferrule.cli.output import Format, json_text, printable
from ferrule.cli.progress import Progress
from ferrule.cli.session import Session, command, settle_lines
from ferrule.cli.store import durable_app, find_run, has_worker, say_worker
from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.suspension import Answer, Request

if TYPE_CHECKING:
    from ferrule.agent import agent as agents
    from ferrule.app import AnyAgent, App
    from ferrule.runtime import event as events
    from ferrule.runtime.event import Event
    from ferrule.runtime.outcome import RunResult
else:
    agents = LazyModule("ferrule.agent.agent")
    events = LazyModule("ferrule.runtime.event")

NameArgument = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name, as `ferrule doctor` lists it.")]
_PIECES: Final = ("text", "reasoning", "call")
_QUIT: Final = "/quit"


def register_agent(root: typer.Typer) -> None:
    """Add the commands to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """
    command(root, "run")(_run_agent)
    command(root, "chat")(_chat)


def _run_agent(
    session: Session,
    name: NameArgument,
    given: Annotated[
        str,
        typer.Option("--input", metavar="TEXT", help="What it is asked: text, @FILE, or - for standard input."),
    ],
    stream: Annotated[bool, typer.Option("--stream", help="Write the answer while it comes.")] = False,
    durable: Annotated[
        bool | None,
        typer.Option("--durable/--memory", help="Keep the run in the store; default where a store is named."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: a second start with it shows the first run.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="A word to find the run by. Repeatable.")
    ] = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="The run's id; a second start with it shows the first.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--detach", help="Run it here and wait, or leave it to a worker at once.")
    ] = True,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="SPAN", help="Wait so long at most: 30, 90s, 5m. The run goes on."),
    ] = None,
) -> ExitCode:
    """Run an agent and show its answer.

    What it does is told on standard error while it goes on. A durable run is kept in the store: what it waits for
    can be answered later, and a worker goes on with it. Ctrl-C leaves it, and pressed again cancels it; a run in
    memory is cancelled at once.

    The exit code is 0 when the run is done, 1 when it failed or hit a limit, 5 when it waits for an answer that
    nobody can give here, 7 when the time is over and it goes on, and 130 after Ctrl-C.
    """
    app = session.load()
    agent = app.agent(name)
    prompt = _prompt(given)
    if stream:
        settle_lines(session, "--stream writes while the answer comes, and -o json is one object at the end")
    given_here = {"--key": key, "--tag": tags, "--run-id": run_id, "--detach": not wait, "--timeout": timeout}
    kept = _kept(session, app, durable, stream, given_here)
    if kept is not None and not wait:
        return _detach(session, kept, name, prompt)
    with Screen(session, agent, stream, kept) as screen:
        try:
            result, interrupted = screen.run(prompt)
        except Left as left:
            return screen.left(left)
        screen.show(result)
    if interrupted and result.status == "cancelled":
        raise Interrupted(screen.interrupted(result))
    return exit_code_of(result)


def _chat(session: Session, name: NameArgument) -> ExitCode:
    """Talk to an agent, a line at a time. Nothing is stored.

    /quit or the end of the input ends it. Ctrl-C ends what the agent is doing, not the chat.
    """
    agent = session.load().agent(name)
    settle_lines(session, "a chat has many answers, and -o json is one object")
    session.note(f"{agent.name} ({agent.models[0].name}) listens. {_QUIT} or Ctrl-D ends the chat.")
    conversation = agents.Session()
    while (line := _next_line(session)) is not None:
        if line:
            with Screen(session, agent, stream=True) as screen:
                result, _ = screen.run(line, conversation)
                screen.show(result)
            if result.status == "cancelled":
                session.say(screen.interrupted(result))
    return ExitCode.DONE


def _prompt(given: str) -> str:
    raw = read_source(given, "--input")
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError("--input is not UTF-8. Give text in UTF-8.") from error
    if not text.strip():
        raise UsageError("--input is empty. Say what the agent is asked.")
    return text


def _kept(session: Session, app: App, durable: bool | None, stream: bool, given: Mapping[str, Any]) -> Kept | None:
    """How the run is kept, by the options of durable runs; None in memory."""
    if durable is None:
        durable = session.store is not None or app.is_durable
    if not durable:
        named = next((option for option, value in given.items() if value), None)
        if named is not None:
            raise UsageError(f"{named} is for durable runs, which are kept in a store. Say --durable.")
        return None
    if given["--detach"] and (stream or given["--timeout"]):
        raise UsageError(f"--detach does not wait, and {'--stream' if stream else '--timeout'} does. Say one of them.")
    pairs = [tag.partition("=") for tag in given["--tag"] or ()]
    for word, equals, value in pairs:
        if not (word and equals):
            raise UsageError(f"--tag {word + equals + value!r} is no key=value. Write for example --tag env=test.")
    timeout = None if given["--timeout"] is None else seconds_of(given["--timeout"], "--timeout")
    named = {} if given["--run-id"] is None else {"run_id": given["--run-id"]}
    words = {word: value for word, _, value in pairs}
    return Kept(durable_app(session, app), given["--key"], words, timeout, stream=stream, **named)


def _detach(session: Session, kept: Kept, name: str, prompt: str) -> ExitCode:
    """Start a run and leave it to a worker."""

    async def start() -> tuple[str, str, bool]:
        async with kept.app.working(takes=False):
            run_id = await kept.app.start(name, prompt, idempotency_key=kept.key, tags=kept.tags, run_id=kept.run_id)
            entry = await find_run(kept.app.store, run_id)
            return run_id, entry.state, await has_worker(kept.app.store, entry)

    run_id, state, is_alive = session.run(start())
    session.out.item({"id": run_id, "status": state, "worker_alive": is_alive}, [Text(run_id)])
    say_worker(session, is_alive)
    return ExitCode.DONE


def _next_line(session: Session) -> str | None:
    """What is typed next, without spaces around it; None at the end."""
    asked = can_ask()
    try:
        if asked:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = sys.stdin.readline() if asked else sys.stdin.buffer.readline().decode(errors="replace")
    except KeyboardInterrupt:
        if not asked:
            raise
        session.say(f"\n{_QUIT} or Ctrl-D ends the chat.")
        return ""
    return None if not line or line.strip() == _QUIT else line.strip()


class Screen:
    """Shows one run: events and answer as data for programs, or progress and text for people.

    Args:
        session: Where to write.
        agent: What is run.
        stream: Whether pieces are written as they come.
        kept: How the run is kept; None in memory.

    Since 0.1.
    """

    def __init__(self, session: Session, agent: AnyAgent, stream: bool, kept: Kept | None = None) -> None:
        """Show nothing yet."""
        self._kept = kept
        self._result: RunResult[Any] | None = None
        self._session = session
        self._agent = agent
        self._stream = stream
        self._lines = session.out.format is Format.JSONL
        self._progress = Progress(session, agent.models[0].name)
        self._op = ""
        self._said = ""  # what has been written of the text of this op
        self._line_open = False
        self._unknown: list[str] = []
        self._flying: dict[str, str] = {}
        self._over = False  # nothing more is shown while the event loop closes
        self._pending: dict[str, asyncio.Event] = {}
        self._leaving = asyncio.Event()

    def __enter__(self) -> Screen:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""
        self._progress.pause()

    def run(self, prompt: str, conversation: agents.Session | None = None) -> tuple[RunResult[Any], bool]:
        """Run to the end and show what happens. The first Ctrl-C cancels the run, or leaves it where it is kept.

        Args:
            prompt: What the agent is asked.
            conversation: What it continues.

        Returns:
            How the run ended, and whether somebody pressed Ctrl-C.

        Raises:
            Interrupted: They pressed it again.
            Left: The run goes on.
        """
        try:
            kept = self._kept
            work = self._follow(prompt, conversation) if kept is None else self._keep(kept, prompt)
            return self._session.run(work)
        except KeyboardInterrupt:
            self._over = True
            raise Interrupted(self.interrupted()) from None
        except SystemExit:  # of the user's code; that the loop then cancels what is left is no Ctrl-C
            self._over = True
            raise

    async def _follow(self, prompt: str, conversation: agents.Session | None) -> tuple[RunResult[Any], bool]:
        on_request = self._answer if can_ask() else None
        interrupted = False
        async with self._agent.stream(prompt, session=conversation, on_request=on_request) as going:
            while True:
                try:
                    event = await anext(going, None)
                except asyncio.CancelledError:  # what asyncio makes of Ctrl-C; at the second one it ends the process
                    if interrupted or self._over or going.driver is None:
                        raise
                    interrupted = True
                    self._say_cancelling()
                    going.cancel("Ctrl-C")
                    continue
                if event is None:
                    return going.result, interrupted
                self._hear(event)

    async def _keep(self, kept: Kept, prompt: str) -> tuple[RunResult[Any], bool]:
        """As `_follow`, for a run in a store."""
        answer = self._answer if can_ask() else None
        return await follow(self._session, kept, kept.work(self._agent.name, prompt, answer, self._hear), self._leave)

    def _leave(self) -> None:
        self._progress.pause()
        self._leaving.set()

    def left(self, left: Left) -> ExitCode:
        """Say that a run goes on, and how to go on with it.

        Args:
            left: How it was left.

        Raises:
            Interrupted: Somebody wanted to.
        """
        text, timed_out = left.args
        if not timed_out:
            raise Interrupted(f"interrupted; {text}")
        self._session.say(text)
        return ExitCode.LEFT

    def _say_cancelling(self) -> None:
        self._progress.pause()
        start = "\n" if self._progress.is_quiet_now else ""  # somebody is being asked, on a line of its own
        self._session.note(f"{start}cancelling the run; Ctrl-C again ends it at once.")

    def _hear(self, event: Event) -> None:
        if self._over:
            return
        if event.type == "done" and not event.op:
            self._result = event.value
        failure = event.result.failure if event.result is not None else None
        if failure is not None and failure.code == "outcome_unknown" and event.call is not None:
            self._unknown.append(event.call.name)
        if event.type == "tool_call" and event.call is not None and self._may_act(event.call.name):
            self._flying[event.op] = event.call.name
        elif event.type == "tool_result":
            self._flying.pop(event.op, None)
        if event.request is not None:
            self._told(event.request).set()
        if self._lines:
            if self._stream or event.type not in _PIECES:
                self._session.out.text(json_text(event_data(event)))
        elif event.type == "text" and self._stream and "/" not in event.op:
            self._progress.pause()
            self._said = event.text if event.op != self._op else self._said + event.text
            self._op, self._line_open = event.op, not event.text.endswith("\n")
            self._session.out.text(printable(event.text), end="")
        elif event.type not in _PIECES:
            self._end_line()
            self._progress.hear(event)

    def _end_line(self) -> None:
        if self._line_open:
            self._session.out.text("")
        self._line_open = False

    async def _answer(self, request: Request) -> Answer | None:
        await self._told(request).wait()  # events are behind the run: what happened before is shown before
        with self._progress.quiet():
            asking = asyncio.ensure_future(ask_on_terminal(self._session, request))
            await first_of(asking, self._leaving.wait())
            if not asking.done():  # whoever leaves the run leaves what it asks
                asking.cancel()
                return None
            return asking.result()

    def _told(self, request: Request) -> asyncio.Event:
        return self._pending.setdefault(request.id, asyncio.Event())

    def show(self, result: RunResult[Any]) -> None:
        """Write how the run ended.

        Args:
            result: How it ended.
        """
        self._progress.pause()
        out = self._session.out
        if self._lines and self._kept is not None and self._result is None:  # it had ended before, under this key
            out.text(json_text(event_data(events.Event("done", value=result))))
        if out.format is Format.JSON:
            out.item(run_data(result), [])
        elif not self._lines and result.output and result.output != self._said:
            out.text(printable(result.output))
        for request in result.requests:
            say_request(self._session, request)
        if result.status not in ("done", "cancelled"):
            alone = result.status == "suspended" and not can_ask()
            self._session.say(result.describe() + " There is no terminal to ask on." * alone)
        if self._kept is not None:
            more = " `ferrule answer` takes answers, and `ferrule work` goes on with it." * bool(result.requests)
            self._session.note(f"run {result.run_id} is kept; `ferrule get {result.run_id}` shows it.{more}")

    def interrupted(self, result: RunResult[Any] | None = None) -> str:
        """What Ctrl-C left behind, in a sentence.

        Args:
            result: How the run ended, if it came to an end.
        """
        left = f"; the run is kept: {self._kept.how_to_go_on()[:-1]}" if self._kept is not None else ""
        run = f"; run {result.run_id} is cancelled" if result is not None else left
        names = [*self._unknown, *self._flying.values()]
        return f"interrupted{run}{''.join(f'; the effect of tool {name!r} may have happened' for name in names)}."

    def _may_act(self, name: str) -> bool:
        tool = self._agent.tools.find(name)  # None of a run inside this one, whose call is told as well
        return tool is not None and tool.effect != "read"
