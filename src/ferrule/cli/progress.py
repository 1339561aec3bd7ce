"""What a run does while it goes on, on standard error: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.text import Text

from ferrule.cli.output import printable, styled
from ferrule.cli.session import Session
from ferrule.lazy import LazyModule
from ferrule.strict_json import text_of

if TYPE_CHECKING:
    from rich import live, spinner

    from ferrule.message import Call
    from ferrule.runtime.event import Event
else:
    live = LazyModule("rich.live")
    spinner = LazyModule("rich.spinner")

_ARGUMENTS: Final = 60
_RESULT: Final = 100


class Progress:
    """Tells of calls as they start, report and end; what is in flight is shown live where that can be.

    Args:
        session: Says whether notes are wanted.
        model: Who is asked, for people.

    Since 0.1.
    """

    def __init__(self, session: Session, model: str) -> None:
        """Show nothing yet."""
        self._session = session
        self._model = model
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._can_move = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: live.Live | None = None
        self._flying: dict[str, spinner.Spinner] = {}
        self._held: list[Event] | None = None

    def hear(self, event: Event) -> None:
        """Show an event, if there is something to see.

        Args:
            event: What happened.
        """
        if self._held is not None:
            self._held.append(event)
        elif not self._session.quiet:
            self._show(event)

    def _show(self, event: Event) -> None:
        call, inside = event.call, "  " * event.op.count("/")  # calls of a run inside this one
        if event.type == "step":
            self._flies(event.op, f"{inside}asking {self._model}" if not inside else f"{inside}asking a model")
        elif event.type == "usage":
            self._flying.pop(event.op, None)
        elif event.type == "restarted":
            self._line(Text(f"{inside}the model is asked again"))
        elif event.type == "tool_call" and call is not None:
            if not self._can_move:
                self._line(Text(f"{inside}call {_told(call)}"))
            self._flies(event.op, inside + _told(call))
        elif event.type == "tool_progress" and call is not None:
            self._reported(event, f"{inside}{call.name}: {event.value if isinstance(event.value, str) else ''}")
        elif event.type == "tool_result" and call is not None and event.result is not None:
            self._flying.pop(event.op, None)
            self._redraw()
            said = _short(event.result.output, _RESULT)
            self._line(Text.assemble(inside, styled(event.result.status), f" {_told(call)}{': ' * bool(said)}{said}"))

    def pause(self) -> None:
        """Take the live display away, so that others can write to the terminal; the next step brings it back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def is_quiet_now(self) -> bool:
        """Whether somebody else has the terminal."""
        return self._held is not None

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Leave the terminal to somebody else; what happens meanwhile is shown afterwards."""
        self.pause()
        held: list[Event] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for event in held:
                self.hear(event)

    def _reported(self, event: Event, text: str) -> None:
        told = text if isinstance(event.value, str) else text + text_of(event.value)
        if event.op in self._flying and self._can_move:
            self._flying[event.op].update(text=self._fitting(told))
        else:
            self._line(Text(_short(told, _ARGUMENTS + _RESULT)))

    def _flies(self, op: str, text: str) -> None:
        """Something has begun whose end will be told."""
        if not self._can_move:
            return
        self._flying[op] = spinner.Spinner("dots", self._fitting(text))
        if self._live is None:
            self._live = live.Live(get_renderable=self._view, console=self._console, transient=True)
            self._live.start()
        self._redraw()

    def _redraw(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def _view(self) -> Group:
        return Group(*list(self._flying.values()))  # a copy: the display is drawn by a thread of its own

    def _fitting(self, text: str) -> Text:
        return Text(_short(text, max(20, self._console.width - 4)))

    def _line(self, text: Text) -> None:
        if self._can_move:
            self._console.print(text, soft_wrap=True)
        else:
            self._session.note(text.plain)


def _told(call: Call) -> str:
    arguments = _short(call.arguments, _ARGUMENTS)
    return printable(call.name) + (f" {arguments}" if arguments not in ("", "{}") else "")


def _short(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line, _, more = printable(text).strip().partition("\n")
    return f"{line[: most - 1]}…" if len(line) > most or more else line
