"""One timer for all calls that are given the same time.

Nearly every call ends long before its deadline. A timer of its own, set and
cancelled, would cost it more than the rest of its bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextvars import Context
from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakKeyDictionary, ref

from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")


class Expires(Protocol):
    """What has a deadline.

    Since 0.1.
    """

    until: float  # by the clock of its event loop

    def expire(self) -> None:
        """The deadline has come."""
        ...


class Deadlines:
    """What waits in one event loop, each for equally long: the first to come is the first to be due.

    Since 0.1.
    """

    __slots__ = ("_armed", "_waiting")

    def __init__(self) -> None:
        """Nothing waits."""
        self._waiting: dict[Expires, None] = {}
        self._armed = False

    def add(self, waits: Expires, loop: asyncio.AbstractEventLoop) -> None:
        """Have something expire at its time, unless it is removed before.

        Args:
            waits: What; told in the loop's thread.
            loop: The running loop.
        """
        self._waiting[waits] = None
        if not self._armed:
            self._arm(loop, waits.until)

    def remove(self, waits: Expires) -> None:
        """Forget what has ended; it may have expired.

        Args:
            waits: What.
        """
        self._waiting.pop(waits, None)

    def _arm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        # It stays when all have ended, and finds nothing, once; so it must not keep the first caller's context alive.
        self._armed = True
        loop.call_at(when, self._fire, context=Context())

    def _fire(self) -> None:
        self._armed = False
        loop = asyncio.get_running_loop()
        now = loop.time()
        due: list[Expires] = []
        for waits in self._waiting:
            if waits.until > now:
                self._arm(loop, waits.until)
                break
            due.append(waits)
        for waits in due:
            del self._waiting[waits]
        for waits in due:
            waits.expire()


_Known: TypeAlias = dict[float, Deadlines]
_OF: MutableMapping[asyncio.AbstractEventLoop, _Known] = WeakKeyDictionary()
_latest: tuple[Callable[[], asyncio.AbstractEventLoop | None], _Known] = (lambda: None, {})


def deadlines(loop: asyncio.AbstractEventLoop, seconds: float) -> Deadlines:
    """The deadlines of all calls in a loop that are given so many seconds.

    Args:
        loop: The loop.
        seconds: What tools declare; for a time of one call alone, make a `Deadlines`.

    Since 0.1.
    """
    global _latest  # nearly always there is one loop, and a look at its name tag costs a third of a lookup
    of, known = _latest
    if of() is not loop:
        known = _OF.setdefault(loop, {})
        _latest = (ref(loop), known)
    found = known.get(seconds)
    if found is None:
        found = known[seconds] = Deadlines()
    return found
