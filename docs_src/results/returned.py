import asyncio
from dataclasses import dataclass
from typing import Any

from ferrule import Part, ToolResult, tool


@dataclass
class Order:
    id: str
    total: float


def order() -> Order:
    return Order("A-1001", 12.5)


def words() -> str:
    return "twelve and a half"


def page() -> bytes:
    return b"%PDF-1.7"


def table() -> list[Any]:
    return ["two rows", Part("file", mimeType="text/csv", data="YSxiCjEsMgo=", name="t.csv")]


def lost() -> None:
    raise ConnectionRefusedError("no route")


def own() -> ToolResult:
    return ToolResult.ok(3, output="three")


for function in (order, words, page, table, lost, own):
    result = asyncio.run(tool(function).call())
    print(f"{function.__name__:6} {result.status:6} {result.output!r}")
