"""Guarded requests: no address inside is reached, by whatever name, number or redirect it is asked for."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.unit.provider.server import Answer, Asked, Gate, Server, closed_port

from ferrule import guard
from ferrule.errors import FetchError, ForbiddenAddressError, UsageError
from ferrule.guard import Fetched, check_address, checked_headers, fetch, refused

T = TypeVar("T")
HERE = ["127.0.0.1"]
PUBLIC = "93.184.216.34"


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(main)


def names(**table: str | Sequence[str]) -> guard.Resolve:
    """A name server that knows only these; what it gave is in `asked`."""

    async def look_up(host: str, port: int) -> Sequence[str]:
        if host not in table:
            raise socket.gaierror("unknown")
        found = table[host]
        return [found] if isinstance(found, str) else found

    return look_up


# -- addresses --------------------------------------------------------------------------------------------------


@pytest.mark.case("C092")
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", "an address of this machine"),
        ("127.255.0.3", "an address of this machine"),
        ("0.0.0.0", "an address of this machine"),
        ("::1", "an address of this machine"),
        ("::", "an address of this machine"),
        ("::ffff:127.0.0.1", "an address of this machine"),
        ("::ffff:10.0.0.1", "a private address"),
        ("64:ff9b::7f00:1", "an address of this machine"),
        ("10.1.2.3", "a private address"),
        ("172.31.255.255", "a private address"),
        ("192.168.0.1", "a private address"),
        ("100.64.0.1", "a private address"),
        ("100.100.100.200", "a private address"),
        ("fd00:ec2::254", "a private address"),
        ("fec0::1", "a private address"),
        ("169.254.169.254", "a link-local address"),
        ("::ffff:169.254.169.254", "a link-local address"),
        ("fe80::1", "a link-local address"),
        ("fe80::1%2", "a link-local address"),
        ("168.63.129.16", "a cloud's metadata service"),
        ("224.0.0.1", "a multicast address"),
        ("ff02::1", "a multicast address"),
        ("255.255.255.255", "a reserved address"),
        ("192.0.0.192", "a reserved address"),
        ("198.18.0.1", "a reserved address"),
        ("::127.0.0.1", "a reserved address"),
        ("2002:7f00:1::", "a reserved address"),
        ("2001:0:7f00:1::", "a reserved address"),
        ("64:ff9b:1::7f00:1", "a reserved address"),
        ("4000::1", "a reserved address"),
        (PUBLIC, None),
        ("172.32.0.1", None),
        ("::ffff:93.184.216.34", None),
        ("64:ff9b::5db8:d822", None),
        ("2606:2800:220:1::1", None),
    ],
)
def test_only_addresses_of_the_public_internet_are_asked(address: str, expected: str | None) -> None:
    assert refused(address) == expected


@pytest.mark.parametrize(
    ("host", "address", "allow"),
    [
        ("db.internal", "10.0.0.1", ["db.internal"]),
        ("DB.internal.", "10.0.0.1", ["db.Internal"]),
        ("x", "10.0.0.1", ["10.0.0.1"]),
        ("x", "10.0.0.1", ["10.0.0.0/8"]),
        ("x", "10.0.0.1", ["10.0.0.7/8"]),
        ("x", "::ffff:10.0.0.1", ["10.0.0.0/8"]),
        ("x", "::1", ["[::1]"]),
        ("x", PUBLIC, []),
    ],
)
def test_what_the_allow_list_names_may_be_asked(host: str, address: str, allow: list[str]) -> None:
    check_address(host, address, allow)


@pytest.mark.parametrize(
    ("host", "allow"), [("x.db.internal", ["db.internal"]), ("x", ["10.0.1.0/24"]), ("10.0.0.1", ["10.0.0.2", "::1"])]
)
def test_what_the_allow_list_does_not_name_may_not(host: str, allow: list[str]) -> None:
    with pytest.raises(ForbiddenAddressError):
        check_address(host, "10.0.0.1", allow)


def test_the_refusal_names_host_address_and_mend() -> None:
    with pytest.raises(ForbiddenAddressError) as caught:
        check_address("db.internal", "10.0.0.1")
    expected = "db.internal (10.0.0.1) is a private address. Only public addresses may be asked; allow it by name if you mean it."
    assert (expected, False) == (str(caught.value), caught.value.retryable)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ForbiddenAddressError, match=r"^x \(nowhere\) is no address\."):
        check_address("x", "nowhere")


@pytest.mark.case("C092")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST.",
        "①②⑦.0.0.1",
    ],
)
def test_no_spelling_of_this_machine_reaches_it(host: str) -> None:
    async def main() -> list[Asked]:
        async with Server(Answer()) as server:
            with pytest.raises(FetchError):
                await fetch(f"http://{host}:{server.port}/")
            return server.asked

    assert run(main()) == []


# -- requests ---------------------------------------------------------------------------------------------------


def test_an_allowed_server_is_asked_once_and_its_answer_comes_whole() -> None:
    async def main() -> tuple[Fetched, list[Asked], str]:
        async with Server(Answer(200, {"Content-Type": "Image/PNG; x=1"}, [b"ab", b"c"], "chunked")) as server:
            return await fetch(f"{server.url}/a b?q=1#f", allow=HERE), server.asked, server.url

    got, asked, url = run(main())
    assert (200, b"abc", "image/png") == (got.status, got.body, got.content_type)
    assert f"{url}/a%20b?q=1#f" == got.url
    assert [("GET", "/a%20b?q=1", b"")] == [(a.method, a.path, a.body) for a in asked]
    assert {"host", "accept", "accept-encoding", "user-agent"} == {*asked[0].headers}
    assert url.removeprefix("http://") == asked[0].headers["host"]


def test_method_headers_and_body_are_sent_as_given() -> None:
    async def main() -> list[Asked]:
        async with Server(Answer(404)) as server:
            got = await fetch(
                server.url, method="post", headers={"X-Key": "1", "Host": "evil.example"}, content=b"{}", allow=HERE
            )
            assert (404, b"", None) == (got.status, got.body, got.content_type)
            return server.asked

    (asked,) = run(main())
    assert ("POST", "/", b"{}", "1") == (asked.method, asked.path, asked.body, asked.headers["x-key"])
    assert asked.headers["host"].startswith("127.0.0.1:")


def test_the_connection_goes_to_the_checked_address_under_the_name_that_was_asked_for() -> None:
    async def main() -> list[Asked]:
        async with Server(Answer()) as server:
            resolve = names(**{"files.example": ["127.0.0.1"]})
            await fetch(f"http://files.example:{server.port}/x", allow=["files.example"], resolve=resolve)
            return server.asked

    (asked,) = run(main())
    assert asked.headers["host"].startswith("files.example:")


@pytest.mark.case("C092")
def test_a_name_that_changes_between_check_and_connection_is_not_asked_for_again() -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    given: list[list[str]] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        given.append(answers[len(given)])
        return given[-1]

    async def main() -> int:
        async with Server(Answer(body=[b"ok"])) as server:
            got = await fetch(f"http://files.example:{server.port}/", allow=HERE, resolve=rebinding)
            assert got.body == b"ok"
            return len(server.asked)

    assert run(main()) == 1
    assert given == [["127.0.0.1"]]


@pytest.mark.case("C092")
def test_a_name_with_one_address_inside_is_refused_whatever_the_others_are() -> None:
    resolve = names(**{"two.example": [PUBLIC, "10.0.0.1"]})
    with pytest.raises(ForbiddenAddressError, match=r"two\.example \(10\.0\.0\.1\)"):
        run(fetch("https://two.example/", resolve=resolve))


def test_the_next_address_is_tried_when_one_gives_no_connection() -> None:
    async def main() -> bytes:
        async with Server(Answer(body=[b"second"])) as server:
            resolve = names(**{"two.example": ["127.0.0.2", "127.0.0.1"]})
            got = await fetch(f"http://two.example:{server.port}/", allow=["127.0.0.0/8"], resolve=resolve)
            return got.body

    assert run(main()) == b"second"


PEM = (
    Path(__file__).parent / "examples" / "files.example.pem"
)  # a key of no worth, and its certificate for files.example


@pytest.mark.parametrize(
    ("name", "works"), [("files.example", True), ("FILES.example.", True), ("other.example", False)]
)
def test_tls_proves_the_name_and_not_the_address(name: str, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "tls", lambda: ssl.create_default_context(cafile=str(PEM)))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(PEM)
    told: list[str | None] = []
    served.sni_callback = lambda _, server_name, __: told.append(server_name)

    async def main() -> str:
        async with Server(Answer(body=[b"ok"]), tls=served) as server:
            resolve = names(**{name.lower(): HERE})
            try:
                got = await fetch(f"https://{name}:{server.port}/", allow=HERE, resolve=resolve)
            except FetchError as error:
                return str(error)
            return got.body.decode()

    said = run(main())
    assert said == "ok" if works else said.startswith("other.example: no connection (") and "certificate" in said
    assert [name.lower().rstrip(".")] == told


# -- redirects --------------------------------------------------------------------------------------------------


def redirect(to: str, status: int = 302) -> Answer:
    return Answer(status, {"location": to}, [b"moved"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int) -> None:
    async def main() -> tuple[str, list[str]]:
        async with Server(redirect("../b?x=1", status), redirect("/c", status), Answer(body=[b"ok"])) as server:
            got = await fetch(f"{server.url}/a/", allow=HERE)
            return got.url.removeprefix(server.url), [a.path for a in server.asked]

    assert run(main()) == ("/c", ["/a/", "/b?x=1", "/c"])


def test_at_most_so_many_redirects_are_followed() -> None:
    async def main(limit: int) -> int:
        async with Server(redirect("/again")) as server:
            with pytest.raises(FetchError, match=rf"^127\.0\.0\.1: more than {limit} redirects\.$"):
                await fetch(server.url, allow=HERE, max_redirects=limit)
            return len(server.asked)

    assert [run(main(limit)) for limit in (5, 0)] == [6, 1]


@pytest.mark.case("C092")
@pytest.mark.parametrize(
    "to",
    ["http://127.0.0.1:{port}/", "//127.0.0.1:{port}/", "http://2130706433:{port}/", "http://inside.example:{port}/"],
)
def test_a_redirect_to_an_address_inside_is_refused(to: str) -> None:
    async def main() -> list[Asked]:
        async with Server(Answer()) as inside, Server(redirect(to.format(port=inside.port))) as outside:
            resolve = names(**{"127.0.0.1": HERE, "2130706433": HERE, "inside.example": HERE, "outside.example": HERE})
            with pytest.raises(ForbiddenAddressError, match="an address of this machine"):
                await fetch(f"http://outside.example:{outside.port}/", allow=["outside.example"], resolve=resolve)
            assert 1 == len(outside.asked)
            return inside.asked

    assert run(main()) == []


@pytest.mark.parametrize(
    "to", ["ftp://files.example/", "file:///etc/passwd", "http://", "http://u:p@127.0.0.1/", "http://[x/"]
)
def test_a_redirect_to_anything_but_a_plain_http_url_is_refused(to: str) -> None:
    async def main() -> None:
        async with Server(redirect(to)) as server:
            with pytest.raises(FetchError):
                await fetch(server.url, allow=HERE)

    run(main())


def test_headers_of_the_caller_do_not_leave_for_another_origin() -> None:
    async def main() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        async with Server(Answer()) as other, Server(redirect("/same"), redirect(f"{other.url}/")) as server:
            headers = {"Authorization": "Bearer k", "Cookie": "c=1", "X-Api-Key": "k", "Accept": "image/*"}
            await fetch(server.url, headers=headers, allow=HERE)
            return server.asked[0].headers, server.asked[1].headers, other.asked[0].headers

    first, same, foreign = run(main())
    assert {"authorization", "cookie", "x-api-key"} <= {*first}
    assert {*first} == {*same}
    assert {"authorization", "cookie", "x-api-key"}.isdisjoint(foreign)
    assert foreign["accept"] == "image/*"


def test_a_request_with_an_effect_is_not_repeated_elsewhere() -> None:
    async def main() -> tuple[int, int]:
        async with Server(redirect("/b", 307)) as server:
            got = await fetch(server.url, method="POST", content=b"{}", allow=HERE)
            return got.status, len(server.asked)

    assert run(main()) == (307, 1)


def test_a_head_request_has_no_body_whatever_length_is_announced() -> None:
    async def main() -> Fetched:
        async with Server(Answer(body=[b"x" * 100])) as server:
            return await fetch(server.url, method="HEAD", allow=HERE, max_bytes=10)

    assert run(main()).body == b""


# -- limits and failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_body_beyond_the_limit_is_refused(framing: Any) -> None:
    async def main(limit: int) -> bytes:
        async with Server(Answer(body=[b"x" * 60, b"y" * 60], framing=framing)) as server:
            return (await fetch(server.url, allow=HERE, max_bytes=limit)).body

    assert len(run(main(120))) == 120
    with pytest.raises(FetchError, match=r"^127\.0\.0\.1: the answer has more than 119 bytes\."):
        run(main(119))


def test_an_endless_body_ends_at_the_limit() -> None:
    class Endless(list[bytes]):
        def __iter__(self) -> Any:
            while True:
                yield b"x" * 1000

    async def main() -> None:
        answer = Answer(framing="chunked")
        async with Server(answer) as server:
            answer.head = lambda: b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
            answer.body = Endless()
            with pytest.raises(FetchError, match="more than 100000 bytes"):
                await fetch(server.url, allow=HERE, max_bytes=100_000)
            await server.left.wait()

    run(main())


def test_the_limit_holds_for_what_a_small_body_unpacks_to() -> None:
    async def main() -> None:
        async with Server(Answer(200, {"content-encoding": "gzip"}, [gzip.compress(bytes(10_000_000))])) as server:
            with pytest.raises(FetchError, match="more than 100000 bytes"):
                await fetch(server.url, allow=HERE, max_bytes=100_000)

    run(main())


def test_a_slow_body_ends_at_the_time_limit() -> None:
    async def main() -> FetchError:
        async with Server(Answer(body=[b"x", Gate(), b"y"])) as server:
            with pytest.raises(FetchError) as caught:
                await fetch(server.url, allow=HERE, timeout=0.05)
            await server.left.wait()
            return caught.value

    error = run(main())
    assert ("127.0.0.1: no answer within 0.05 s.", True) == (str(error), error.retryable)


def test_a_slow_name_server_counts_too() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(FetchError, match=r"no answer within 0\.01 s"):
        run(fetch("http://slow.example/", timeout=0.01, resolve=never))


@pytest.mark.parametrize(
    ("answer", "expected", "retryable"),
    [
        (Answer(0), "the connection was closed or the answer is no HTTP", True),
        (Answer(body=[b"x"], ending="cut"), "the connection was closed or the answer is no HTTP", True),
        (Answer(200, {"content-encoding": "gzip"}, [b"no gzip"]), "the body is not compressed as announced", False),
    ],
)
def test_a_broken_answer_is_told_in_plain_words(answer: Answer, expected: str, retryable: bool) -> None:
    async def main() -> FetchError:
        async with Server(answer) as server:
            with pytest.raises(FetchError) as caught:
                await fetch(f"{server.url}/secret?key=sk-1", allow=HERE)
            return caught.value

    error = run(main())
    assert (f"127.0.0.1: {expected}.", retryable) == (str(error), error.retryable)
    assert error.__context__ is None


def test_no_server_is_told_in_plain_words() -> None:
    async def main() -> FetchError:
        async with closed_port() as port:
            with pytest.raises(FetchError) as caught:
                await fetch(f"http://127.0.0.1:{port}/", allow=HERE)
            return caught.value

    error = run(main())
    assert str(error).startswith("127.0.0.1: no connection")
    assert error.retryable


def test_an_unknown_name_is_told_in_plain_words() -> None:
    with pytest.raises(FetchError, match=r"^nowhere\.example: there is no such host\.$"):
        run(fetch("http://nowhere.example/", resolve=names()))


def test_a_name_without_addresses_is_told_in_plain_words() -> None:
    with pytest.raises(FetchError, match=r"^empty\.example: the name has no address\.$"):
        run(fetch("http://empty.example/", resolve=names(**{"empty.example": list[str]()})))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "/x",
        "file:///etc/passwd",
        "ftp://a/",
        "gopher://a/",
        "http://",
        "http:///x",
        "http://a:99999/",
        "http://[::1",
        "data:,x",
        "http://a\n/",
    ],
)
def test_only_http_urls_are_read(url: str) -> None:
    with pytest.raises(FetchError, match=r"^only absolute http and https URLs can be read\.$"):
        run(fetch(url, resolve=names()))


def test_a_url_with_a_password_is_refused_without_quoting_it() -> None:
    with pytest.raises(FetchError) as caught:
        run(fetch("http://user:hunter2@files.example/", resolve=names()))
    assert "hunter2" not in str(caught.value)


@pytest.mark.case("C098")
@pytest.mark.parametrize(
    ("name", "value"), [("X", "a\r\nX-Admin: 1"), ("X", "a\0"), ("X", "é"), ("X: 1", "a"), ("", "a"), ("é", "a")]
)
def test_a_header_that_would_break_its_line_is_refused_without_quoting_it(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_headers({name: value})
    assert "Admin" not in str(caught.value)


def test_headers_are_taken_in_lower_case_without_blanks_around() -> None:
    assert {"x-a_b": "v 1"} == checked_headers({"X-A_b": " v 1 "})


def test_what_came_back_shows_no_content_in_its_repr() -> None:
    assert repr(Fetched("http://a/", 200, {"x": "secret"}, b"secret")) == "Fetched(url='http://a/', status=200)"
