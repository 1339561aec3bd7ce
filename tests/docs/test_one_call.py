"""The page that follows one call is true: the places exist, and a call passes them in that order."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.unit.provider.server import Server, answer

import docs
from ferrule import Agent, tool
from ferrule.provider.presets import model

PACKAGE = docs.ROOT / "src" / "ferrule"
PLACE = re.compile(r"^\| (\d+) \| `([\w/]+\.py):(\w+)`", re.MULTILINE)
ALSO = re.compile(r"`([\w/]+\.py):(\w+)`")
PAGE = (docs.ROOT / "docs" / "one-call.md").read_text(encoding="utf-8")
FROM_CODE, OF_A_RUN = PAGE.split("\n## ")[1:]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


async def trace(text: str) -> str:
    """Give the text back.

    Args:
        text: Any.
    """
    return text


def call_from_code() -> None:
    made = tool(effect="read", max_output=100)(trace)
    asyncio.run(made.call({"text": "x" * 200}))


def call_of_a_run() -> None:
    whole = {"status": "completed"}
    asked = {"type": "function_call", "call_id": "call_1", "name": "trace", "arguments": '{"text": "x"}', **whole}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}], **whole}

    async def run() -> None:
        async with Server(*(answer({**whole, "output": [item]}) for item in (asked, said))) as server:
            asking = model("openai:gpt-5", base_url=server.url, key="sk-fake")
            result = await Agent("tracer", asking, tools=[tool(effect="read")(trace)]).run("Give x back.")
        assert ("done", "x", 1) == (result.status, result.output, result.usage.tool_calls)

    asyncio.run(run())


def places_passed(make: Callable[[], None]) -> list[tuple[str, str]]:
    passed: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            passed.append((path.relative_to(PACKAGE).as_posix(), frame.f_code.co_name))

    sys.setprofile(note)
    try:
        make()
    finally:
        sys.setprofile(None)
    return passed


def test_each_place_on_the_page_exists() -> None:
    places = ALSO.findall(PAGE)
    assert len(places) >= 42
    assert [f"{f}:{n}" for f, n in places if n not in functions(PACKAGE / f)] == []


def test_the_steps_are_counted_through() -> None:
    steps = [int(number) for number, *_ in PLACE.findall(PAGE)]
    assert list(range(1, len(steps) + 1)) == steps


@pytest.mark.parametrize(("part", "make"), [(FROM_CODE, call_from_code), (OF_A_RUN, call_of_a_run)])
def test_a_call_passes_the_places_in_the_order_of_the_page(part: str, make: Callable[[], None]) -> None:
    passed, position = places_passed(make), -1
    for number, *place in PLACE.findall(part):
        assert tuple(place) in passed[position + 1 :], f"step {number}, {place}, was not passed after the one before"
        position = passed.index((place[0], place[1]), position + 1)
