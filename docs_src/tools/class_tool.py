import asyncio
from typing import Any

from ferrule import Context, Tool, ToolDefinition, ToolResult


class Multiply(Tool):
    """Multiply two integers."""

    effect = "read"

    @property
    def name(self) -> str:
        return "multiply"

    @property
    def definition(self) -> ToolDefinition:
        number = {"type": "integer", "required": True}
        return ToolDefinition(self.name, self.description, {"a": number, "b": number})

    def execute(self, context: Context[Any]) -> ToolResult:
        return ToolResult.ok(context.variables["a"] * context.variables["b"])


print(asyncio.run(Multiply().call({"a": 6, "b": 7})).value)
print(asyncio.run(Multiply().call({"a": 6})).error)
