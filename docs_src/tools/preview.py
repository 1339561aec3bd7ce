import asyncio
from typing import Any

from ferrule import Context, ToolResult, tool

sent: set[str] = set()  # as the other side keeps it


def show(context: Context[Any], arguments: dict[str, Any]) -> ToolResult:
    return ToolResult.ok(f"To {arguments['to']}: {arguments['text']}")


def happened(context: Context[Any], arguments: dict[str, Any]) -> bool:
    return context.effect_key in sent


@tool(effect="once", timeout=0.1, preview=show, check=happened)
async def send(to: str, text: str, ctx: Context[Any]) -> None:
    """Send a message."""
    sent.add(ctx.effect_key)
    await asyncio.sleep(10)  # the confirmation is lost


arguments = {"to": "ada", "text": "The ring is here."}


async def main() -> None:
    context = Context[Any](run_id="run_1", call_id="call_1")
    shown = await send.call_preview(arguments, context)
    print(shown.output if shown is not None else "no preview")
    print((await send.call(arguments, context)).output)
    checked = await send.call_check(arguments, context)
    print("it happened" if checked is not None else "it did not happen")


asyncio.run(main())
