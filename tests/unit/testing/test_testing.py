"""The testing kit itself."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.clock import run

from ferrule import Agent
from ferrule.message import UserMessage
from ferrule.provider.base import Model, ModelRequest
from ferrule.testing import FunctionModel, NetworkForbidden, ScriptedModel, call, forbid_network


def test_a_scripted_model_is_a_model_and_keeps_what_it_was_sent() -> None:
    def count(request: ModelRequest) -> str:
        return f"saw {len(request.messages)}"

    model = ScriptedModel(["one", count])
    assert isinstance(model, Model)
    agent = Agent("a", model)
    assert run(agent.run("x")).output == "one"
    with pytest.raises(AssertionError, match="scripted has 1 of 2 turns left"):
        model.assert_done()
    assert run(agent.run("y")).output == "saw 1"
    model.assert_done()
    assert [m.text for r in model.requests for m in r.messages if isinstance(m, UserMessage)] == ["x", "y"]


@pytest.mark.parametrize("given", ['{"a":1}', {"a": 1}])
def test_a_call_is_written_with_arguments_as_text_or_as_a_mapping(given: Any) -> None:
    assert call("add", given).arguments == '{"a":1}'


def test_a_function_model_says_what_it_cannot_take() -> None:
    def wrong(request: ModelRequest) -> Any:
        return 5

    with pytest.raises(Exception, match=r"answered with int\. Return text, calls or a ModelResponse"):
        run(Agent("a", FunctionModel(wrong)).run("go"))


def _connect_ex() -> None:
    with socket.socket() as made:
        made.connect_ex(("198.51.100.1", 80))


def _datagram(way: str, *given: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        getattr(made, way)(*given, ("198.51.100.1", 9))


def _connect_6() -> None:
    with socket.socket(socket.AF_INET6) as made:
        made.connect(("2001:db8::1", 80))


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
        lambda: socket.getaddrinfo("example.invalid", 80),
        _connect_ex,
        _connect_6,
        lambda: _datagram("sendto", b"x"),
        lambda: _datagram("sendto", b"x", 0),
        lambda: _datagram("sendmsg", [b"x"], [], 0),
        lambda: socket.gethostbyname("example.invalid"),
        lambda: socket.gethostbyname_ex("example.invalid"),
    ],
)
def test_forbid_network_refuses_other_machines(reach: Callable[[], Any]) -> None:
    with forbid_network(), pytest.raises(NetworkForbidden, match="a test tried to"):
        reach()


def test_forbid_network_lets_this_machine_through_and_ends() -> None:
    before = (socket.socket.connect, socket.getaddrinfo)
    with socket.socket() as server, forbid_network():
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(("localhost", server.getsockname()[1]), timeout=5) as made:
            assert made.getpeername() == server.getsockname()
    assert (socket.socket.connect, socket.getaddrinfo) == before
