"""A run that is listened to: events in order, no faster than they are taken."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.runtime.event import Event
from ferrule.runtime.outcome import RunResult

if TYPE_CHECKING:
    import asyncio

    from ferrule.runtime.driver import Driver
else:
    asyncio = LazyModule("asyncio")

Out = TypeVar("Out", default=str)
ROOM = 64


class RunStream(Generic[Out]):
    """The events of a run; `async with agent.stream(…) as events`, then `async for event in events`.

    A slow consumer slows the run down and loses nothing. Leaving before the
    end cancels the run.

    Of a durable run it is otherwise: leaving lets it go on, and a slow consumer
    never holds it up. What it has not taken of one answer is then joined, and
    of what a tool reports only the latest is kept.

    Args:
        start: Sets the driver of this stream, and gives what drives it.
        durable: Whether the run is kept in a store.

    Since 0.1.
    """

    def __init__(
        self, start: Callable[[RunStream[Out]], Coroutine[Any, Any, RunResult[Out]]], *, durable: bool = False
    ) -> None:
        """Nothing runs before the stream is entered."""
        self._start = start
        self._durable = durable
        self._left = False
        self._events: deque[Event] = deque()
        self._task: asyncio.Task[RunResult[Out]] | None = None
        self._came: asyncio.Future[None] | None = None
        self._taken = asyncio.Event()
        self.driver: Driver | None = None

    async def __aenter__(self) -> RunStream[Out]:
        """Start the run."""
        if self._task is not None:
            raise UsageError("a stream is entered once. Call agent.stream(...) again for another run.")
        self._task = asyncio.ensure_future(self._start(self))
        self._task.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run if it goes on, and wait until it has ended; a durable one is left."""
        task, self._left = self._task, True
        if task is None or task.done():
            return
        if self._durable:
            task.cancel()
        else:
            self.cancel("consumer")
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:  # once more: the run waits no longer either
            task.cancel()
            await asyncio.wait([task])
            raise

    def __aiter__(self) -> AsyncIterator[Event]:
        """Go through the events."""
        return self

    async def __anext__(self) -> Event:
        """The next event; ends after `done`."""
        while not self._events:
            if self._task is None:
                raise UsageError("the stream has not been started. Use async with agent.stream(...) as events.")
            if self._task.done():
                if not self._task.cancelled():
                    self._task.result()
                raise StopAsyncIteration
            if self._came is not None and not self._came.done():
                raise UsageError("another task waits for events of this stream. Let one task take them all.")
            self._came = asyncio.get_running_loop().create_future()
            await self._came
        event = self._events.popleft()
        if not self._events:
            self._taken.set()
        return event

    def put(self, event: Event) -> None:
        """Take an event of the run; used by the driver.

        Args:
            event: What happened.
        """
        if self._left or (self._durable and len(self._events) >= ROOM and event.seq is None and self._joined(event)):
            return
        self._events.append(event)
        self._wake()

    def _joined(self, event: Event) -> bool:
        """Put a transient event together with one that waits to be taken, where there is one of its kind and op."""
        for i in range(len(self._events) - 1, -1, -1):
            waiting = self._events[i]
            if waiting.op == event.op and waiting.type in (event.type, "restarted"):
                if waiting.type == event.type != "call":
                    self._events[i] = event._replace(text=waiting.text + event.text)
                    return True
                return False
        return False

    def is_full(self) -> bool:
        """Whether the run has to wait for the consumer; used by the driver."""
        return len(self._events) >= ROOM and not self._durable

    async def room(self) -> None:
        """Wait until the consumer has kept up; used by the driver."""
        self._taken.clear()
        await self._taken.wait()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # looked at: whoever takes events or the result is given it, and whoever leaves is not
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    def cancel(self, by: str = "caller") -> None:
        """Bring the run to an end; what it has done is kept, and its last event is `done`, cancelled.

        Args:
            by: Who wants it, for the record.
        """
        if self.driver is not None:
            self.driver.cancel(by)

    @property
    def result(self) -> RunResult[Out]:
        """How the run ended.

        Raises:
            UsageError: It still goes on.
        """
        if self._task is None or not self._task.done():
            raise UsageError("the run is still going on. Take its events to the end first.")
        return self._task.result()
