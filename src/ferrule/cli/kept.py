"""A durable run on the command line: followed to its end, left on the way, or started and left at once."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ferrule.cli.session import Session
from ferrule.errors import FerruleError, UsageError
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    from ferrule.app import App
    from ferrule.runtime import info
    from ferrule.runtime.answer import OnRequest
    from ferrule.runtime.event import Event
    from ferrule.runtime.outcome import RunResult
    from ferrule.runtime.worker import Worker
else:
    info = LazyModule("ferrule.runtime.info")

_ENDS: Final = (signal.SIGTERM, signal.SIGINT)
_SECONDS: Final = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


class Left(Exception):
    """Somebody has left a run, which goes on without them; the text says how to go on.

    Since 0.1.
    """


@dataclass(frozen=True, slots=True)
class Kept:
    """How a run is kept in a store, and for how long it is waited for.

    Args:
        app: Has the store.
        key: The idempotency key of its start.
        tags: Words to find it by.
        timeout: Seconds to wait for it; None for any time.
        run_id: Its id.
        stream: Whether pieces of answers are told as they come.

    Since 0.1.
    """

    app: App
    key: str | None
    tags: Mapping[str, str]
    timeout: float | None = None
    run_id: str = field(default_factory=lambda: info.new_run_id())
    stream: bool = False

    async def work(
        self, name: str, prompt: str, on_request: OnRequest | None, hear: Callable[[Event], None]
    ) -> RunResult[Any]:
        """Run it and tell of it. Whoever cancels this leaves the run.

        Args:
            name: The agent.
            prompt: What it is asked.
            on_request: Answers requests on this terminal.
            hear: Takes what happens.

        Since 0.1.
        """
        about: dict[str, Any] = {"idempotency_key": self.key, "tags": self.tags, "run_id": self.run_id}
        about["on_request"] = on_request
        if not self.stream:
            return await self.app.run(name, prompt, on_event=hear, **about)
        async with self.app.stream(name, prompt, **about) as events:
            async for event in events:
                hear(event)
            return events.result

    def how_to_go_on(self) -> str:
        """What may be done with a run that was left, in a sentence.

        Since 0.1.
        """
        run = self.run_id if self.key is None else "ID"
        return f"`ferrule work` goes on with it, `ferrule tail {run}` follows it, `ferrule cancel {run}` ends it."


async def follow(
    session: Session, kept: Kept, work: Awaitable[RunResult[Any]], leave: Callable[[], None]
) -> tuple[RunResult[Any], bool]:
    """Wait for a run; leave it on SIGTERM, Ctrl-C or when the time is over, and cancel it on a second Ctrl-C.

    Args:
        session: The command line.
        kept: The run.
        work: Runs it.
        leave: Called when it is left, before it is waited for to come to a halt.

    Returns:
        How it ended, and whether somebody wanted to leave it.

    Raises:
        Left: It goes on.

    Since 0.1.
    """
    holding = kept.app.working(takes=False)
    mine = await holding.__aenter__()
    outcome: asyncio.Future[RunResult[Any]] | None = None
    with heard() as told:
        run = asyncio.ensure_future(work)
        with suppress(asyncio.CancelledError):  # Ctrl-C, where no signal can be heard
            await first_of(run, told.wait(), timeout=kept.timeout)
        timed_out = not (told.is_set() or _is_cancelled())
        if not run.done():
            leave()
            outcome = asyncio.ensure_future(mine.result(kept.run_id))
            run.cancel()
            why = "the time is over" if timed_out else "leaving the run; Ctrl-C again cancels it"
            session.note(f"{why}. What is in flight gets a few seconds.")
        told.clear()
        ending = asyncio.ensure_future(holding.__aexit__(None, None, None))
        await first_of(ending, told.wait())
    if not ending.done():
        _cancel(session, mine, kept)
        await asyncio.wait([ending])
    ending.result()
    await asyncio.wait([run])
    if outcome is None:
        return run.result(), False
    with suppress(FerruleError, asyncio.CancelledError):
        if outcome.done():
            return outcome.result(), True
    outcome.cancel()
    name = f"run {kept.run_id}" if kept.key is None else f"the run of key {kept.key!r}"
    raise Left(f"{name} is kept, and goes on where a worker takes it: {kept.how_to_go_on()}", timed_out)


def _cancel(session: Session, mine: Worker, kept: Kept) -> None:
    if mine.cancel(kept.run_id, "Ctrl-C"):
        session.note("cancelling the run; Ctrl-C again ends the process at once.")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def first_of(one: Awaitable[Any], other: Awaitable[Any], timeout: float | None = None) -> None:
    """Wait for the first of two things. The second is then given up, the first is not.

    Args:
        one: The first.
        other: The second.
        timeout: Seconds to wait at most.

    Since 0.1.
    """
    given_up = asyncio.ensure_future(other)
    try:
        await asyncio.wait([asyncio.ensure_future(one), given_up], timeout=timeout, return_when="FIRST_COMPLETED")
    finally:
        given_up.cancel()


@contextmanager
def heard() -> Generator[asyncio.Event]:
    """Set once somebody wants the process to end; afterwards a second wish ends it at once.

    Since 0.1.
    """
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    signals: list[signal.Signals] = []
    for number in _ENDS:
        try:
            loop.add_signal_handler(number, told.set)
            signals.append(number)
        except (NotImplementedError, RuntimeError, ValueError):  # Windows, or no main thread: as the loop has it
            continue
    try:
        yield told
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def seconds_of(text: str, option: str) -> float:
    """A time span as it is typed: `30`, `90s`, `5m`, `1h`.

    Args:
        text: That.
        option: What gives it, for the error.

    Raises:
        UsageError: It is none.

    Since 0.1.
    """
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} {text[:40]!r} is no time span. Write for example {option} 30 or {option} 5m.")
    return float(found[1]) * _SECONDS[found[2]]
