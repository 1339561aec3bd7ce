"""Each heading of the troubleshooting page is the text of an error that really comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.clock import run

import docs
from ferrule import Agent, FerruleError, Request, ToolResult, Toolset, image, tool
from ferrule.cli.arguments import read_arguments
from ferrule.project import load_app
from ferrule.provider.presets import model
from ferrule.testing import ScriptedModel, call

HEADINGS = [
    line[3:]
    for line in (docs.ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("## ") and not line.endswith("?")
]


def no_annotation() -> None:
    def export(rows) -> None: ...  # pyright: ignore

    tool(export)  # pyright: ignore[reportUnknownArgumentType]


def positional_only() -> None:
    def add(a: int, /) -> None: ...

    tool(add)


def unknown_effect() -> None:
    def pay() -> None: ...

    made: Any = tool
    made(effect="write")(pay)


def two_of_one_name() -> None:
    def search() -> None: ...

    Toolset([search, tool(search)])


def circular_default() -> None:
    tree: list[Any] = []
    tree.append(tree)

    def grow(tree: list[Any] = tree) -> None: ...

    tool(grow)


def password() -> None:
    Request("r1", "input", "Password?", data={"schema": {"type": "string", "format": "password"}})


def timed_out() -> ToolResult:
    @tool(timeout=1)
    async def pay() -> None:
        await asyncio.sleep(10)

    return run(pay.call())


def cut_off() -> ToolResult:
    @tool(effect="read")
    async def find(a: int) -> None: ...

    return run(find.call('{"a": '))


def no_key() -> None:
    Agent("desk", model("openai:gpt-5", key="")).run_sync("Hello").raise_for_status()


def open_calls() -> None:
    @tool(approval=True)
    def pay() -> None: ...

    waiting = Agent("desk", ScriptedModel([call("pay")]), tools=[pay]).run_sync("Pay.")
    Agent("desk", ScriptedModel([]), tools=[pay]).run_sync("And now?", history=waiting.messages)


def short_script() -> None:
    @tool
    def pay() -> None: ...

    Agent("desk", ScriptedModel([call("pay")]), tools=[pay]).run_sync("Pay.").raise_for_status()


CAUSES: list[Callable[[], Any]] = [
    no_annotation,
    positional_only,
    unknown_effect,
    two_of_one_name,
    lambda: image(b"a,b"),
    lambda: image("missing.png"),
    circular_default,
    lambda: ToolResult({"a": 1}, False),  # pyright: ignore[reportArgumentType]
    password,
    timed_out,
    cut_off,
    lambda: load_app(docs.ROOT, target="nosuch"),
    lambda: read_arguments({}, ["limit=5"], '{"limit": 4}'),
    no_key,
    open_calls,
    short_script,
]


@pytest.mark.parametrize(("heading", "cause"), list(zip(HEADINGS, CAUSES, strict=True)))
def test_the_text_of_the_heading_comes(heading: str, cause: Callable[[], Any]) -> None:
    assert told(cause) == heading


def told(cause: Callable[[], Any]) -> str:
    """The error text, whether it was raised or came as a result."""
    try:
        return cause().error
    except FerruleError as error:
        return str(error)
