"""Kept connections to model providers: one set for each event loop, gone when nobody uses them.

A connection belongs to the loop it was opened on. Each loop gets its own set,
closed after a minute without a request (a parked program holds no socket) and,
at the latest, when the loop ends: `asyncio.run` closes the async generators of
its loop, so a generator is what closes the connections.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, MutableMapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from ferrule.errors import ConfigurationError
from ferrule.guard import tls
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
    import urllib.request as urllib_request

    import httpx2
else:
    asyncio = LazyModule("asyncio")
    httpx2 = LazyModule("httpx2")
    urllib_request = LazyModule("urllib.request")

IDLE_SECONDS: Final = 60.0
KEPT: Final = 64
"""Most idle connections to one origin."""
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Origin(NamedTuple):
    """Whom a connection leads to.

    Args:
        scheme: `http` or `https`.
        host: In small letters.
        port: Always a number.

    Since 0.1.
    """

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Pool:
    """The connections of one event loop.

    Args:
        loop: The loop.

    Since 0.1.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hold none yet."""
        self._loop = loop
        self._transports: dict[Origin, httpx2.AsyncBaseTransport] = {}
        self._keeper: AsyncGenerator[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._users = 0
        self._left = 0.0

    async def enter(self, origin: Origin) -> httpx2.AsyncBaseTransport:
        """A transport to an origin; `leave` must follow.

        Args:
            origin: Whom to ask.
        """
        self._users += 1
        if self._keeper is None:
            self._keeper = self._keep()
            await anext(self._keeper)
        transport = self._transports.get(origin)
        if transport is None:
            transport = self._transports[origin] = _transport(origin)
        return transport

    def leave(self) -> None:
        """Tell that a request has ended."""
        self._users -= 1
        if not self._users:
            self._left = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        """Close what has not been used for a while; look again later where it has."""
        self._timer = None
        if self._users or self._keeper is None:
            return
        rest = self._left + IDLE_SECONDS - self._loop.time()
        if rest > 0:
            self._timer = self._loop.call_later(rest, self._look)
        else:
            # Given up at once: whoever comes before the task begins must get others.
            keeper, self._keeper, self._transports = self._keeper, None, {}
            self._closing = self._loop.create_task(keeper.aclose())

    async def _keep(self) -> AsyncGenerator[None]:
        """Hold the connections until somebody closes this generator: `_look`, or the loop when it ends."""
        transports = self._transports
        try:
            yield
        finally:
            if transports is self._transports:
                self._transports = {}
                self._keeper = None
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            for transport in transports.values():
                await transport.aclose()


def _transport(origin: Origin) -> httpx2.AsyncBaseTransport:
    proxy = _proxy(origin)
    # A transport and no client: a client follows redirects, keeps cookies and logs URLs, and costs a third more.
    with suppress(ValueError, ImportError, httpx2.InvalidURL):
        return httpx2.AsyncHTTPTransport(
            verify=tls() if origin.scheme == "https" else False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT, keepalive_expiry=IDLE_SECONDS),
            proxy=proxy,
        )
    # Outside the handler: what was caught quotes the proxy's URL, and that may hold a password.
    raise ConfigurationError(f"the proxy that the environment names for {origin} cannot be used. Correct or unset it.")


def _proxy(origin: Origin) -> str | None:
    """The proxy that the environment names for an origin."""
    if origin.host in _LOCAL or urllib_request.proxy_bypass(f"{origin.host}:{origin.port}"):
        return None
    named = urllib_request.getproxies()
    return named.get(origin.scheme) or named.get("all")


_POOLS: MutableMapping[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()
_LOCK = Lock()  # loops live in threads


def pool() -> Pool:
    """The connections of the running event loop.

    Since 0.1.
    """
    loop = asyncio.get_running_loop()
    found = _POOLS.get(loop)
    if found is None:
        with _LOCK:
            for ended in [other for other in _POOLS if other.is_closed()]:
                del _POOLS[ended]  # one that was closed without its generators; its connections are lost already
            found = _POOLS[loop] = Pool(loop)
    return found
