"""A process that drives the run of a store to its end, as far as it is let.

    python -m tests.crash.victim STORE SINK TURNS MODE

TURNS names a script of the model. MODE is `run`: with a person who answers;
`alone`: with nobody; `answer`: only that person, and no worker; `answer RUN`
and `cancel RUN`: the same for one run.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.crash.kit import attended, script, store_at
from tests.crash.world import Sink, decide, stored

from ferrule.runtime.inbox import Inbox
from ferrule.strict_json import dumps


async def main(place: str, sink: str, turns: str, mode: str) -> None:
    told = Sink(Path(sink))
    word, _, run_id = mode.partition(" ")
    if word in ("run", "alone"):
        await attended(place, told, script(turns), answers=word == "run")
        return
    store = store_at(place)
    await store.open()
    if word == "cancel":
        assert await store.post(run_id, "cancel", dumps({"by": "eve"}))
    else:
        inbox = Inbox(stored(store))
        for request in await inbox.requests(run_id=run_id or None):
            await inbox.answer(request.request_id, decide(request, told), by="eve", channel="test")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
