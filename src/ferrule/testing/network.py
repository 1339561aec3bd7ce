"""No test should reach a provider by accident."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ferrule.errors import FerruleError


class NetworkForbidden(FerruleError):
    """Something tried to reach another machine inside `forbid_network`.

    Since 0.1.
    """


@contextmanager
def forbid_network() -> Generator[None]:
    """Refuse connections and datagrams to other machines; those to this machine and to Unix sockets go on.

    Names are not resolved either. Nested uses and other threads are covered;
    other processes are not.

    Raises:
        NetworkForbidden: Raised inside, by whoever tries.

    Since 0.1.
    """
    saved = [(owner, name, getattr(owner, name)) for owner, name in _WAYS_OUT if hasattr(owner, name)]
    for owner, name, real in saved:
        guarded = _guarded_lookup(real) if owner is socket else _guarded_send(real, _WAYS_OUT[owner, name])
        setattr(owner, name, guarded)
    try:
        yield
    finally:
        for owner, name, real in saved:
            setattr(owner, name, real)


_WAYS_OUT: dict[tuple[Any, str], int] = {  # with the position of the address
    (socket.socket, "connect"): 0,
    (socket.socket, "connect_ex"): 0,
    (socket.socket, "sendto"): -1,
    (socket.socket, "sendmsg"): 3,
    (socket, "getaddrinfo"): 0,
    (socket, "gethostbyname"): 0,
    (socket, "gethostbyname_ex"): 0,
}


def _guarded_send(real: Callable[..., Any], at: int) -> Callable[..., Any]:
    def send(self: socket.socket, *given: Any) -> Any:
        address = given[at] if at < len(given) else None
        if address and self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(str(address[0])):
            raise NetworkForbidden(f"a test tried to connect to {address[0]}. Use a ScriptedModel, or a local server.")
        return real(self, *given)

    return send


def _guarded_lookup(real: Callable[..., Any]) -> Callable[..., Any]:
    def look_up(host: Any, *rest: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not _is_here(str(name)):
            raise NetworkForbidden(f"a test tried to look up {name}. Use a ScriptedModel, or a local server.")
        return real(host, *rest, **options)

    return look_up


def _is_here(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
