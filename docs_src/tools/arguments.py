import asyncio
from datetime import date

from ferrule import tool


@tool(effect="read")
async def nights(arrival: date, rooms: list[int], note: str = "") -> str:
    """Count the nights."""
    return f"{type(arrival).__name__} {arrival:%d %B}, rooms {rooms}, {note!r}"


for text in (
    '{"arrival": "2026-05-01", "rooms": [1, 2]}',
    '{"arrival": "2026-05-01", "rooms": "[1, 2]", "note": "{}"}',  # an array sent as text is unwrapped, once
    '{"arrival": "2026-05-01", "rooms": [1,',
    '{"arrival": "tomorrow", "rooms": [1, "two"]}',
    "",
):
    print(asyncio.run(nights.call(text)).output)
