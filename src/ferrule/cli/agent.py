"""`ferrule run` and `ferrule chat`: agents on the command line."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ferrule.cli.arguments import read_source
from ferrule.cli.ask import ask_on_terminal, can_ask, say_request
from ferrule.cli.envelope import event_data, run_data
from ferrule.cli.failure import ExitCode, Interrupted, exit_code_of
from ferrule.cli.output import Format, json_text, printable
from ferrule.cli.progress import Progress
from ferrule.cli.session import Session, command
from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.suspension import Answer, Request

if TYPE_CHECKING:
    from ferrule.agent import agent as agents
    from ferrule.app import AnyAgent
    from ferrule.runtime.event import Event
    from ferrule.runtime.outcome import RunResult
else:
    agents = LazyModule("ferrule.agent.agent")

NameArgument = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name, as `ferrule doctor` lists it.")]
_PIECES: Final = ("text", "reasoning", "call")
_QUIT: Final = "/quit"


def register_agent(root: typer.Typer) -> None:
    """Add the commands to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """

    @command(root, "run")
    def _run(  # pyright: ignore[reportUnusedFunction]
        session: Session,
        name: NameArgument,
        given: Annotated[
            str,
            typer.Option("--input", metavar="TEXT", help="What it is asked: text, @FILE, or - for standard input."),
        ],
        stream: Annotated[bool, typer.Option("--stream", help="Write the answer while it comes.")] = False,
    ) -> ExitCode:
        """Run an agent and show its answer. Nothing is stored.

        What it does is told on standard error while it goes on.

        The exit code is 0 when the run is done, 1 when it failed or hit a limit, 5 when it waits for an answer that
        nobody can give here, and 130 after Ctrl-C.
        """
        agent = session.load().agent(name)
        prompt = _prompt(given)
        _settle_format(session, stream, "--stream writes while the answer comes, and -o json is one object at the end")
        with Screen(session, agent, stream) as screen:
            result, interrupted = screen.run(prompt)
            screen.show(result)
        if interrupted and result.status == "cancelled":
            raise Interrupted(screen.interrupted(result))
        return exit_code_of(result)

    @command(root, "chat")
    def _chat(session: Session, name: NameArgument) -> ExitCode:  # pyright: ignore[reportUnusedFunction]
        """Talk to an agent, a line at a time. Nothing is stored.

        /quit or the end of the input ends it. Ctrl-C ends what the agent is doing, not the chat.
        """
        agent = session.load().agent(name)
        _settle_format(session, True, "a chat has many answers, and -o json is one object")
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


def _settle_format(session: Session, stream: bool, why: str) -> None:
    """Where answers are streamed, one object at the end is no form: lines take its place unless it was asked for."""
    if stream and session.format is Format.JSON:
        raise UsageError(f"{why}. Use -o jsonl.")
    if stream and session.out.format is Format.JSON:
        session.out.format = Format.JSONL


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

    Since 0.1.
    """

    def __init__(self, session: Session, agent: AnyAgent, stream: bool) -> None:
        """Show nothing yet."""
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

    def __enter__(self) -> Screen:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""
        self._progress.pause()

    def run(self, prompt: str, conversation: agents.Session | None = None) -> tuple[RunResult[Any], bool]:
        """Run to the end and show what happens. The first Ctrl-C cancels the run and keeps what it has done.

        Args:
            prompt: What the agent is asked.
            conversation: What it continues.

        Returns:
            How the run ended, and whether somebody pressed Ctrl-C.

        Raises:
            Interrupted: They pressed it again.
        """
        try:
            return self._session.run(self._follow(prompt, conversation))
        except KeyboardInterrupt:
            self._over = True
            raise Interrupted(self.interrupted()) from None
        except SystemExit:  # of the user's code; that the loop then cancels what is left is no Ctrl-C
            self._over = True
            raise

    async def _follow(self, prompt: str, conversation: agents.Session | None) -> tuple[RunResult[Any], bool]:
        on_request = self._answer if can_ask() else None
        interrupted = False
        async with self._agent.stream(prompt, session=conversation, on_request=on_request) as events:
            while True:
                try:
                    event = await anext(events, None)
                except asyncio.CancelledError:  # what asyncio makes of Ctrl-C; at the second one it ends the process
                    if interrupted or self._over or events.driver is None:
                        raise
                    interrupted = True
                    self._progress.pause()
                    start = "\n" if self._progress.is_quiet_now else ""  # somebody is being asked, on a line of its own
                    self._session.note(f"{start}cancelling the run; Ctrl-C again ends it at once.")
                    events.cancel("Ctrl-C")
                    continue
                if event is None:
                    return events.result, interrupted
                self._hear(event)

    def _hear(self, event: Event) -> None:
        if self._over:
            return
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
            return await ask_on_terminal(self._session, request)

    def _told(self, request: Request) -> asyncio.Event:
        return self._pending.setdefault(request.id, asyncio.Event())

    def show(self, result: RunResult[Any]) -> None:
        """Write how the run ended.

        Args:
            result: How it ended.
        """
        self._progress.pause()
        out = self._session.out
        if out.format is Format.JSON:
            out.item(run_data(result), [])
        elif not self._lines and result.output and result.output != self._said:
            out.text(printable(result.output))
        for request in result.requests:
            say_request(self._session, request)
        if result.status not in ("done", "cancelled"):
            alone = result.status == "suspended" and not can_ask()
            self._session.say(result.describe() + " There is no terminal to ask on." * alone)

    def interrupted(self, result: RunResult[Any] | None = None) -> str:
        """What Ctrl-C left behind, in a sentence.

        Args:
            result: How the run ended, if it came to an end.
        """
        run = f"; run {result.run_id} is cancelled" if result is not None else ""
        names = [*self._unknown, *self._flying.values()]
        return f"interrupted{run}{''.join(f'; the effect of tool {name!r} may have happened' for name in names)}."

    def _may_act(self, name: str) -> bool:
        tool = self._agent.tools.find(name)  # None of a run inside this one, whose call is told as well
        return tool is not None and tool.effect != "read"
