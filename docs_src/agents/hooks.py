import asyncio
from collections.abc import Mapping
from typing import Any

from ferrule import Agent, Hooks, RunInfo, ToolResult, tool
from ferrule.message import Call
from ferrule.testing import ScriptedModel, call
from ferrule.tool.tool import Tool


class Careful(Hooks):
    def before_tool(self, run: RunInfo[Any], call: Call, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult | None:
        if tool.effect == "read" or run.context.get("role") == "admin":
            return None
        return ToolResult.failed(f"{tool.name} is for admins.", code="denied")


@tool(effect="idempotent")
async def remove(name: str) -> str:
    """Remove a user."""
    return f"{name} is gone"


for role in ("guest", "admin"):
    agent = Agent("house", ScriptedModel([call("remove", '{"name": "bob"}'), "ok"]), tools=[remove], hooks=[Careful()])
    result = asyncio.run(agent.run("Remove bob.", context={"role": role}))
    print(role, "-", getattr(result.messages[2], "output", None))
