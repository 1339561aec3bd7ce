"""Outgoing HTTP to addresses that somebody else chose: a model, a tool, a web page.

Such a URL may point inside: at a database, at this machine, at the metadata
service of a cloud. So each hop is resolved here, every address it gives is
checked, and the connection goes to a checked address: between check and
connection nobody asks the name server again. TLS still proves the name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ferrule.errors import FetchError, ForbiddenAddressError, UsageError
from ferrule.lazy import LazyModule
from ferrule.redact import scrub

if TYPE_CHECKING:
    import asyncio
    import ipaddress
    import socket
    import ssl

    import httpx2
else:
    asyncio = LazyModule("asyncio")
    ipaddress = LazyModule("ipaddress")
    socket = LazyModule("socket")
    httpx2 = LazyModule("httpx2")

PORTS: Final = {"http": 80, "https": 443}
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_REDIRECTS: Final = 5
CONNECT_SECONDS: Final = 10.0  # for one address; a name may have several
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host name and a port to its addresses, as text."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came back.

    Args:
        url: Where it came from, after redirects.
        status: The HTTP status.
        headers: The response headers, in lower case; of repeated ones the values joined by commas.
        body: The whole body, decoded.

    Since 0.1.
    """

    url: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def content_type(self) -> str | None:
        """The media type in small letters, without parameters; None where the server gave none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() or None


# -- addresses --------------------------------------------------------------------------------------------------

# Our own table and not `is_private`: that changed between releases of Python, and it calls multicast and NAT64 global.
_REFUSED: Final = {
    "an address of this machine": "0.0.0.0/8 127.0.0.0/8 ::/128 ::1/128",
    "a private address": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10",
    "a link-local address": "169.254.0.0/16 fe80::/10",  # the metadata service of most clouds
    "a cloud's metadata service": "168.63.129.16/32",
    "a multicast address": "224.0.0.0/4 ff00::/8",
    "a reserved address": "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20",
}
_GLOBAL: Final = "2000::/3"  # all of IPv6 that is given out; whatever lies outside is refused without a name
_WRAPPED: Final = "64:ff9b::/96"  # NAT64: an IPv4 address in its last 32 bits

if TYPE_CHECKING:
    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=1)
def _networks() -> list[tuple[Network, str]]:
    return [(ipaddress.ip_network(text), what) for what, texts in _REFUSED.items() for text in texts.split()]


def refused(address: str) -> str | None:
    """What is wrong with an address, or None for one of the public internet.

    Args:
        address: An IP address, as a resolver gives it.

    Since 0.1.
    """
    ip = _ip(address)
    if ip is None:
        return "no address"
    found = next((what for network, what in _networks() if ip.version == network.version and ip in network), None)
    if found is None and ip.version == 6 and ip not in ipaddress.ip_network(_GLOBAL):
        return "a reserved address"
    return found


def _ip(text: str) -> Address | None:
    """An address; the IPv4 one inside an IPv6 one that only carries it; without its zone."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    if ip.version == 4:
        return ip
    bare = ipaddress.IPv6Address(int(ip))
    wrapped = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if bare in ipaddress.ip_network(_WRAPPED) else None
    return bare.ipv4_mapped or wrapped or bare


@lru_cache(maxsize=256)
def _allowed(allow: frozenset[str]) -> tuple[frozenset[str], tuple[Network, ...]]:
    """Names and networks of an allow list."""
    names: set[str] = set()
    networks: list[Network] = []
    for entry in allow:
        try:
            networks.append(ipaddress.ip_network(entry.strip("[]"), strict=False))
        except ValueError:
            names.add(_name(entry))
    return frozenset(names), tuple(networks)


def _name(host: str) -> str:
    return host.lower().rstrip(".")


def check_address(host: str, address: str, allow: Collection[str] = ()) -> None:
    """Refuse an address that is not public, unless its name or its network is allowed.

    Args:
        host: The name it was found under.
        address: The address.
        allow: Host names, addresses and networks such as `10.1.0.0/16`.

    Raises:
        ForbiddenAddressError: It may not be asked.

    Since 0.1.
    """
    what = refused(address)
    if what is None:
        return
    names, networks = _allowed(frozenset(allow))
    ip = _ip(address)
    if ip and (_name(host) in names or any(ip in network for network in networks if ip.version == network.version)):
        return
    shown = address if host == address else f"{host} ({address})"
    raise ForbiddenAddressError(
        f"{shown} is {what}. Only public addresses may be asked; allow it by name if you mean it."
    )


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host name; every spelling of a number that the system takes, too.

    Args:
        host: A name or an address.
        port: The port.

    Raises:
        OSError: There is none.

    Since 0.1.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


# -- requests ---------------------------------------------------------------------------------------------------


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers in lower case, after a look at each: none may end its line and begin another.

    Args:
        headers: The headers.

    Raises:
        UsageError: A name or a value that no header can carry; the value is not quoted.

    Since 0.1.
    """
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise UsageError("a header has a name that is none. Use letters, digits, - and _.")
        if not value.isascii() or not value.isprintable():
            raise UsageError(
                f"the header {name.lower()!r} holds characters that a header cannot carry. Use plain ASCII."
            )
    return {name.lower(): value.strip() for name, value in headers.items()}


@lru_cache(maxsize=1)
def tls() -> ssl.SSLContext:
    """How servers are checked; made once, because reading the authorities takes long.

    Since 0.1.
    """
    return httpx2.create_ssl_context()


def describe(error: Exception) -> str:
    """A transport failure in plain words, without a URL or a header.

    Args:
        error: What httpx2 raised, or asyncio for a deadline.

    Since 0.1.
    """
    name = type(error).__name__
    said = scrub(str(error))[:200]
    if name == "ConnectError":
        return f"no connection ({said})" if said else "no connection"
    return _FAILURES.get(name, "the connection was lost")


_FAILURES: Final = {
    "ConnectTimeout": "no connection in time",
    "ReadTimeout": "no answer in time",
    "WriteTimeout": "the request could not be sent in time",
    "TimeoutError": "no answer in time",
    "RemoteProtocolError": "the connection was closed or the answer is no HTTP",
    "LocalProtocolError": "the request cannot be sent as HTTP",
    "DecodingError": "the body is not compressed as announced",
    "ProxyError": "the proxy refused",
}

_DEFAULTS: Final = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "ferrule"}
_FOLLOWED: Final = frozenset({301, 302, 303, 307, 308})
_HARMLESS: Final = frozenset({"accept", "accept-language", "user-agent"})  # what may go on to another origin


@dataclass(frozen=True, slots=True)
class _Plan:
    """What stays the same from hop to hop."""

    method: str
    content: bytes | None
    allow: Collection[str]
    max_bytes: int
    resolve: Resolve


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    allow: Collection[str] = (),
    max_bytes: int = MAX_BYTES,
    max_redirects: int = MAX_REDIRECTS,
    timeout: float = 60.0,
    resolve: Resolve = resolve,
) -> Fetched:
    """Send one request to an address that is not trusted, and read the whole answer.

    No cookies, no proxy, no credentials but those in `headers`; to another
    origin not even these. Only GET and HEAD follow redirects: what has an
    effect is not repeated elsewhere, its caller gets the redirect as the answer.

    Args:
        url: An http(s) URL.
        method: The HTTP method.
        headers: Headers for the URL's own origin.
        content: The request body.
        allow: Host names, addresses and networks that may be asked although they are not public.
        max_bytes: Most bytes of the body, decoded.
        max_redirects: Most redirects to follow.
        timeout: Seconds for everything together.
        resolve: How names become addresses.

    Returns:
        The answer, of any status.

    Raises:
        ForbiddenAddressError: An address on the way may not be asked.
        FetchError: There is no answer, it is too large, or it redirects too often.
        UsageError: A header cannot be sent.

    Since 0.1.
    """
    plan = _Plan(method.upper(), content, allow, max_bytes, resolve)
    sent = checked_headers(headers or {})
    target = _parsed(url)
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            return await _follow(plan, target, sent, max_redirects)
    # Outside the handler: what was caught holds the request, and that its headers.
    raise FetchError(f"{target.host}: no answer within {timeout:g} s.", retryable=True)


async def _follow(plan: _Plan, target: httpx2.URL, headers: dict[str, str], redirects: int) -> Fetched:
    for _ in range(redirects + 1):
        answer = await _hop(plan, target, headers)
        if isinstance(answer, Fetched):
            return answer
        if _origin(answer) != _origin(target):
            headers = {name: value for name, value in headers.items() if name in _HARMLESS}
        target = answer
    raise FetchError(f"{target.host}: more than {redirects} redirects.")


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or PORTS[url.scheme]


def _parsed(url: str, base: httpx2.URL | None = None) -> httpx2.URL:
    try:
        target = base.join(url) if base else httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError, TypeError):
        target = None
    if target is None or not target.host or target.scheme not in PORTS or not 0 < (target.port or 1) < 65536:
        raise FetchError("only absolute http and https URLs can be read.")
    if target.userinfo:
        raise FetchError(f"{target.host}: a URL with user name or password is not read. Put credentials elsewhere.")
    return target


async def _hop(plan: _Plan, target: httpx2.URL, headers: Mapping[str, str]) -> Fetched | httpx2.URL:
    """One request: its answer, or where it redirects to."""
    failure, retryable = "the name has no address", True
    for address in await _addresses(plan, target):
        transport = httpx2.AsyncHTTPTransport(verify=tls() if target.scheme == "https" else False)
        async with transport:
            try:
                return await _exchange(plan, transport, target, address, headers)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = describe(error)  # nothing was sent yet: the next address may do
            except httpx2.HTTPError as error:
                failure, retryable = describe(error), isinstance(error, httpx2.TransportError)
                break
    raise FetchError(f"{target.host}: {failure}.", retryable=retryable)


async def _addresses(plan: _Plan, target: httpx2.URL) -> list[str]:
    host = target.raw_host.decode("ascii")
    addresses: Sequence[str] | None = None
    with suppress(OSError, UnicodeError):
        addresses = await plan.resolve(host, target.port or PORTS[target.scheme])
    if addresses is None:
        raise FetchError(f"{target.host}: there is no such host.", retryable=True)
    for address in addresses:  # all of them: a name with one foot inside is a trap
        check_address(host, address, plan.allow)
    return list(addresses)


async def _exchange(
    plan: _Plan, transport: httpx2.AsyncHTTPTransport, target: httpx2.URL, address: str, headers: Mapping[str, str]
) -> Fetched | httpx2.URL:
    request = httpx2.Request(
        plan.method,
        target.copy_with(host=address),
        headers={**_DEFAULTS, **headers, "host": target.netloc.decode("ascii")},
        content=plan.content,
        extensions={
            "timeout": {"connect": CONNECT_SECONDS},
            "sni_hostname": target.raw_host.decode("ascii").rstrip("."),
        },
    )
    answer = await transport.handle_async_request(request)
    try:
        where = answer.headers.get("location")
        if where and answer.status_code in _FOLLOWED and plan.method in ("GET", "HEAD"):
            return _parsed(where, target)
        body = await _read(answer, plan, target)
        return Fetched(str(target), answer.status_code, dict(answer.headers.items()), body)
    finally:
        await answer.aclose()


async def _read(answer: httpx2.Response, plan: _Plan, target: httpx2.URL) -> bytes:
    announced = answer.headers.get("content-length", "")
    too_large = announced.isdecimal() and int(announced) > plan.max_bytes and plan.method != "HEAD"
    pieces: list[bytes] = []
    size = 0
    if not too_large:
        async for piece in answer.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > plan.max_bytes:
                too_large = True
                break
    if too_large:
        raise FetchError(
            f"{target.host}: the answer has more than {plan.max_bytes} bytes. Raise the limit if you mean it."
        )
    return b"".join(pieces)
