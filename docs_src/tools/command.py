import asyncio
import sys

from ferrule import ToolResult, tool
from ferrule.tool.process import run_process


@tool(effect="read", timeout=30)
async def compact(text: str) -> ToolResult:
    """Write JSON without spaces."""
    done = await run_process([sys.executable, "-m", "json.tool", "--compact"], input=text.encode())
    told = (done.stdout or done.stderr).decode().strip()
    return ToolResult.ok(told) if done.returncode == 0 else ToolResult.failed(told)


for text in ('{"a": [1, 2]}', "{"):
    result = asyncio.run(compact.call({"text": text}))
    print(result.status, result.output)
