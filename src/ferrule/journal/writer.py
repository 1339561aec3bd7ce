"""A thread that owns a connection: what waits is done together, and committed once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ferrule.errors import StoreError
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

T = TypeVar("T")


class Connection(Protocol):
    """What a store's operations are written against; used in one thread.

    Since 0.1.
    """

    def run(self, name: str, params: Any = None) -> list[tuple[Any, ...]]:
        """The rows of a named query.

        Args:
            name: The query.
            params: Its parameters by name.
        """
        ...

    def change(self, name: str, params: Any = None) -> int:
        """How many rows a named statement changed.

        Args:
            name: The statement.
            params: Its parameters by name.
        """
        ...

    def many(self, name: str, params: Any) -> None:
        """A named statement for each of some parameters.

        Args:
            name: The statement.
            params: Its parameters by place, for each.
        """
        ...

    def begin(self) -> None:
        """Begin a transaction that may write."""
        ...

    def commit(self) -> None:
        """Make it durable."""
        ...

    def rollback(self) -> None:
        """Undo it."""
        ...

    def mended(self, error: Exception) -> Exception:
        """An error of ours for one of the database's.

        Args:
            error: What it raised.
        """
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class _Item(NamedTuple):
    work: Callable[[Connection], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Writer:
    """Runs functions of a connection in a thread of its own, all that wait in one transaction.

    Args:
        connect: Makes the connection, in that thread.
        name: The thread's name.

    Since 0.1.
    """

    def __init__(self, connect: Callable[[], Connection], name: str) -> None:
        """Start the thread; it connects first, and what fails there is told to whoever waits."""
        self._connect = connect
        self._waiting: deque[_Item] = deque()
        self._some = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Have something done; in the order of these calls.

        Args:
            work: Takes the connection; its transaction is committed when the result is told.

        Returns:
            The result, durable.

        Raises:
            StoreError: The store is closed.

        Since 0.1.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._some:
            if self._closing:
                raise StoreError("the store is closed. Open it again.")
            self._waiting.append(_Item(work, future, loop))
            self._some.notify()
        return future

    async def close(self) -> None:
        """Do what waits, and let go of the connection.

        Since 0.1.
        """
        with self._some:
            self._closing = True
            self._some.notify()
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:
            self._fail_all(error)
            return
        while items := self._next():
            _tell(_together(connection, items))
        connection.close()

    def _next(self) -> list[_Item]:
        with self._some:
            while not self._waiting and not self._closing:
                self._some.wait()
            items = list(self._waiting)
            self._waiting.clear()
            return items

    def _fail_all(self, error: Exception) -> None:
        while items := self._next():
            _tell([(item, None, error) for item in items])


_Told = tuple[_Item, Any, "Exception | None"]


def _together(connection: Connection, items: list[_Item]) -> list[_Told]:
    """What came of each item, all in one transaction; one by one where that fails."""
    try:
        connection.begin()
        told: list[_Told] = [(item, item.work(connection), None) for item in items]
        connection.commit()
        return told
    except Exception as error:
        connection.rollback()
        if len(items) == 1:
            return [(items[0], None, connection.mended(error))]
    return [_together(connection, [item])[0] for item in items]


def _tell(told: list[_Told]) -> None:
    """Wake each event loop once."""
    by_loop: dict[Any, list[_Told]] = {}
    for one in told:
        by_loop.setdefault(one[0].loop, []).append(one)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, some)
        except RuntimeError:  # the loop is closed: nobody waits any more
            continue


def _resolve(told: list[_Told]) -> None:
    for item, result, error in told:
        if item.future.done():
            continue
        if error is None:
            item.future.set_result(result)
        else:
            item.future.set_exception(error)
