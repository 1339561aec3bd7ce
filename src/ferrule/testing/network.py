"""No test should reach a provider by accident."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ferrule.errors import FerruleError


class NetworkForbidden(FerruleError):
    """Something tried to reach another machine inside `forbid_network`.

    Since 0.1.
    """


@contextmanager
def forbid_network() -> Generator[None]:
    """Refuse connections to other machines; those to this machine and to Unix sockets go on.

    Names are not resolved either. Nested uses and other threads are covered;
    other processes are not.

    Raises:
        NetworkForbidden: Raised inside, by whoever tries.

    Since 0.1.
    """
    connect, connect_ex, resolve = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(kind: Any, address: Any) -> None:
        if kind in (socket.AF_INET, socket.AF_INET6) and not _is_here(str(address[0])):
            raise NetworkForbidden(f"a test tried to connect to {address[0]}. Use a ScriptedModel, or a local server.")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check(self.family, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check(self.family, address)
        return connect_ex(self, address)

    def guarded_resolve(host: Any, *rest: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not _is_here(str(name)):
            raise NetworkForbidden(f"a test tried to look up {name}. Use a ScriptedModel, or a local server.")
        return resolve(host, *rest, **options)

    saved = {"connect": connect, "connect_ex": connect_ex}
    socket.socket.connect = guarded_connect  # pyright: ignore[reportAttributeAccessIssue]
    socket.socket.connect_ex = guarded_connect_ex  # pyright: ignore[reportAttributeAccessIssue]
    socket.getaddrinfo = guarded_resolve
    try:
        yield
    finally:
        for name, function in saved.items():
            setattr(socket.socket, name, function)
        socket.getaddrinfo = resolve


def _is_here(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
