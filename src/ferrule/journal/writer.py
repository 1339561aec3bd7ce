"""Threads that a store works in: what waits is written together, and each event loop is woken once for all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from ferrule.errors import StoreError
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

T = TypeVar("T")

MOST = 1_000  # items of one transaction, so that the first of many does not wait for all
TRIES = 6  # of a transaction that two processes are in each other's way for
CLOSED = "the store is closed. Open it first: await store.open()."
PAUSE = 0.02  # seconds before the second try; twice as long before each further one


class Turn:
    """What is done at the end of a turn of an event loop, after all that was ready then: one handle for all of it.

    Since 0.1.
    """

    def __init__(self) -> None:
        """Nothing is to be done."""
        self._waiting: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}

    def end(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        """Do something then; what is asked for meanwhile is done after it.

        Args:
            loop: The loop, running in this thread.
            act: What to do; must not raise.

        Since 0.1.
        """
        waiting = self._waiting.get(loop)
        if waiting is None:
            self._waiting[loop] = waiting = []
            loop.call_soon(self._ended, loop)
        waiting.append(act)

    def _ended(self, loop: asyncio.AbstractEventLoop) -> None:
        for act in self._waiting[loop]:  # it may grow
            act()
        del self._waiting[loop]


TURN = Turn()


class Fault(NamedTuple):
    """What an error of the database means.

    Args:
        error: What the caller is told.
        place: Whether it lies with the place, so that whatever else waits cannot be written either.
        again: Whether the same may be tried again at once: nothing of it was written.

    Since 0.1.
    """

    error: Exception
    place: bool = False
    again: bool = False


class Connection(Protocol):
    """All that a store needs of a database. One thread uses it at a time.

    Since 0.1.
    """

    positions: dict[str, int]
    """Numbers of runs by their ids, as far as they were looked up; none that a rollback may have undone."""

    def run(self, block: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a named block, and fetch what it gives.

        Args:
            block: Its name.
            values: What its placeholders stand for.
        """
        ...

    def change(self, block: str, *values: Any) -> int:
        """Run a named block that gives nothing.

        Args:
            block: Its name.
            values: What its placeholders stand for.

        Returns:
            How many rows it changed.
        """
        ...

    def many(self, block: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run a named block once for each row.

        Args:
            block: Its name.
            rows: What its placeholders stand for.

        Returns:
            How many rows it changed in all.
        """
        ...

    def later(self, block: str, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Run a named block once for each row, and each must change one: before anything else than `later` is done.

        What several items of one transaction give here is run together: that is what makes appends cheap.

        Args:
            block: Its name.
            rows: What its placeholders stand for.

        Returns:
            False when it was run, and one changed none. Where it was not run yet, that fails the transaction later;
            the item is then run alone, and hears of it here.
        """
        ...

    def script(self, block: str) -> None:
        """Run a named block of several statements without placeholders.

        Args:
            block: Its name.
        """
        ...

    def now(self) -> float:
        """Seconds since 1970, by the clock that all processes share who use this place."""
        ...

    def begin(self, alone: bool) -> None:
        """Begin to write, and wait a bounded time for whoever writes now.

        Args:
            alone: Whether one item is run in this transaction, so that `later` is at once.
        """
        ...

    def commit(self) -> None:
        """Make what was written durable."""
        ...

    def rollback(self) -> None:
        """Undo what was written; never raises."""
        ...

    def fault(self, error: Exception) -> Fault:
        """What an error means that anything above raised.

        Args:
            error: The error.
        """
        ...

    def close(self) -> None:
        """Let go; never raises."""
        ...


C = TypeVar("C", bound=Connection)


class _Item(NamedTuple, Generic[C]):
    work: Callable[[C], Any]
    future: asyncio.Future[Any]


class _Told(NamedTuple):
    future: asyncio.Future[Any]
    value: Any
    error: Exception | None


class Lane(Generic[C]):
    """A thread with a connection of its own, and what waits for it.

    Args:
        name: Of the thread.
        connect: Makes the connection; called in the thread.
        writes: Whether items are run together in one transaction that is committed once (group commit), or each by
            itself, as reads are.

    Since 0.1.
    """

    def __init__(self, name: str, connect: Callable[[], C], *, writes: bool) -> None:
        """Start the thread."""
        self._connect = connect
        self._writes = writes
        self._queue: SimpleQueue[list[_Item[C]] | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Item[C]]] = {}
        self._lock = threading.Lock()  # nothing may be put behind the end
        self._closed = False
        self._over = False
        self._ended: list[asyncio.Future[None]] = []
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[C], T]) -> asyncio.Future[T]:
        """Have something done; what one event loop submits is done in that order.

        It is handed over with all else of this turn of the loop: the thread is woken once, for a transaction that is
        worth it.

        Args:
            work: What to do with the connection. Run again where what it was run with had to be undone.

        Returns:
            Done when it is durable; fails with what the error means.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            TURN.end(loop, partial(self._send, loop))
        gathered.append(_Item(work, future))
        return future

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        items = self._gathered.pop(loop, None)
        if items is None:
            return
        with self._lock:
            if not self._closed:
                self._queue.put(items)
                return
        for item in items:
            if not item.future.done():
                item.future.set_exception(StoreError(CLOSED))

    async def close(self) -> None:
        """Do what waits, and end the thread."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        self._send(loop)
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
            if self._over:
                return
            self._ended.append(ended)
        await ended

    # -- in the thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        connection, failure = None, None
        try:
            connection = self._connect()
        except Exception as error:  # told to whoever submits, with what it means
            failure = error
        last = False
        while not last:
            items, last = self._drain()
            if connection is None:
                _wake([_Told(item.future, None, _own(failure)) for item in items])
            elif self._writes:
                self._write(connection, items)
            else:
                _wake([self._read(connection, item) for item in items])
            items.clear()  # what was written is not held while the thread waits
        if connection is not None:
            connection.close()
        with self._lock:
            self._over = True
            _wake([_Told(ended, None, None) for ended in self._ended])

    def _drain(self) -> tuple[list[_Item[C]], bool]:
        """All that waits, at least one; and whether it is the last."""
        items: list[_Item[C]] = []
        more = self._queue.get()
        try:
            while more is not None:
                items += more
                if len(items) >= MOST:
                    return items, False
                more = self._queue.get_nowait()
        except Empty:
            return items, False
        return items, True

    def _write(self, connection: C, items: Sequence[_Item[C]]) -> None:
        """Run items in one transaction; where that fails, each half in one of its own, down to who is to blame."""
        waiting = [items[i : i + MOST] for i in range(0, len(items), MOST)][::-1]
        while waiting:
            part = waiting.pop()
            done = _transaction(connection, part)
            if isinstance(done, Fault) and len(part) > 1 and not done.place:
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
            elif isinstance(done, Fault):
                _wake([_Told(item.future, None, _own(done.error)) for item in part])
            else:
                _wake([_Told(item.future, value, None) for item, value in zip(part, done, strict=True)])

    def _read(self, connection: C, item: _Item[C]) -> _Told:
        done = _patiently(connection, lambda: [item.work(connection)])
        if isinstance(done, Fault):
            return _Told(item.future, None, done.error)
        return _Told(item.future, done[0], None)


def _transaction(connection: C, items: Sequence[_Item[C]]) -> list[Any] | Fault:
    def attempt() -> list[Any]:
        connection.begin(alone=len(items) == 1)
        try:
            values = [item.work(connection) for item in items]
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return values

    return _patiently(connection, attempt)


def _patiently(connection: Connection, attempt: Callable[[], list[Any]]) -> list[Any] | Fault:
    tries, pause = 1, PAUSE
    while True:
        try:
            return attempt()
        except Exception as error:  # whatever it is, somebody waits to be told
            fault = connection.fault(error)
        if not fault.again or tries == TRIES:
            return fault
        time.sleep(pause)
        tries, pause = tries + 1, pause * 2


def _own(error: Exception | None) -> Exception | None:
    """An error for one of several who are told the same: each raises its own."""
    if error is None:
        return None
    own = copy(error)
    own.__cause__ = error.__cause__
    return own


def _wake(told: Sequence[_Told]) -> None:
    """Settle futures, each in its own loop, and wake every loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Told]] = {}
    for one in told:
        loops.setdefault(one.future.get_loop(), []).append(one)
    for loop, its in loops.items():
        try:
            loop.call_soon_threadsafe(_settle, its)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            continue


def _settle(told: Sequence[_Told]) -> None:
    for future, value, error in told:
        if future.done():  # who waited was cancelled
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
