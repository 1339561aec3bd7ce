"""The page that follows one call is true: the places exist, and a call passes them in that order."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import docs
from ferrule import tool

PACKAGE = docs.ROOT / "src" / "ferrule"
PLACE = re.compile(r"^\| \d+ \| `([\w/]+\.py):(\w+)`", re.MULTILINE)
ALSO = re.compile(r"`([\w/]+\.py):(\w+)`")
PAGE = (docs.ROOT / "docs" / "one-call.md").read_text(encoding="utf-8")


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_place_on_the_page_exists() -> None:
    places = ALSO.findall(PAGE)
    assert len(places) >= 14
    assert [f"{f}:{n}" for f, n in places if n not in functions(PACKAGE / f)] == []


def test_a_call_passes_the_places_in_the_order_of_the_page() -> None:
    passed: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            passed.append((path.relative_to(PACKAGE).as_posix(), frame.f_code.co_name))

    async def trace(text: str) -> str:
        """Give the text back.

        Args:
            text: Any.
        """
        return text

    sys.setprofile(note)
    try:
        made = tool(effect="read", max_output=100)(trace)
        asyncio.run(made.call({"text": "x" * 200}))
    finally:
        sys.setprofile(None)
    position = -1
    for place in PLACE.findall(PAGE):
        assert place in passed[position + 1 :], f"{place} was not passed after step {position}"
        position = passed.index(place, position + 1)
