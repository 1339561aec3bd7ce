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

    Args:
        start: Sets the driver of this stream, and gives what drives it.

    Since 0.1.
    """

    def __init__(self, start: Callable[[RunStream[Out]], Coroutine[Any, Any, RunResult[Out]]]) -> None:
        """Nothing runs before the stream is entered."""
        self._start = start
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
        """End the run if it goes on, and wait until it has ended."""
        task = self._task
        if task is None or task.done():
            return
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
        self._events.append(event)
        self._wake()

    def is_full(self) -> bool:
        """Whether the consumer has not kept up; used by the driver."""
        return len(self._events) >= ROOM

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
