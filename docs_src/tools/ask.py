import asyncio
from typing import Any

from ferrule import Answer, Context, tool


@tool
async def deploy(service: str, ctx: Context[Any]) -> str:
    """Deploy a service."""
    answer = ctx.ask("input", "Which environment?")
    assert answer.data is not None
    return f"{service} runs in {answer.data['environment']}"


asked = asyncio.run(deploy.call({"service": "api"}))
print(asked.status, "-", asked.output)

request = asked.pending
assert request is not None
answered = Context[Any](answers=[(request, Answer(request.id, True, {"environment": "staging"}))])
print(asyncio.run(deploy.call({"service": "api"}, answered)).output)
