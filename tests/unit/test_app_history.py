"""What an app does with its recorded runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.store.conftest import Make, dsn, make, postgres_schema
from tests.unit.runtime.test_fork import World, outputs, script, told

from ferrule import App
from ferrule.errors import UsageError
from ferrule.journal.sqlite import MemoryStore
from ferrule.testing import call

__all__ = ["dsn", "make", "postgres_schema"]  # fixtures: the stores, each kind on a fresh place


def test_a_run_is_replayed_forked_and_compared_in_every_store(make: Make) -> None:
    world = World()
    app = App(agents=[world.agent()], store=make())

    async def main() -> None:
        whole = await app.run("outer", "go", on_request=world.person)
        found = await app.replay(whole.run_id)
        assert (found.run_id, found.differences) == (whole.run_id, ())
        fork = await app.fork(
            whole.run_id, before="t1.0", edits={"t1.1": {"result": "nothing"}}, on_request=world.person
        )
        assert outputs(fork)[1] == "nothing"
        plain = await app.fork(fork.run_id, at=found.records // 2, on_request=world.person, tags={"why": "test"})
        assert told(plain) == told(fork)
        compared = await app.diff(whole.run_id, fork.run_id)
        assert compared.first is not None
        assert (compared.first.op, (await app.diff(fork.run_id, plain.run_id)).same) == ("t1.1", True)
        once = len(world.done)
        other = script([call("pay", {"amount": 3})], "Only paid.")
        rehearsed = await app.replay(whole.run_id, model=other)
        assert (rehearsed.result.output, rehearsed.answered, len(world.done)) == ("Only paid.", ("t1.0",), once)
        await app.store.open()
        assert await app.store.remove([whole.run_id]) == 0
        assert await app.store.remove([whole.run_id, fork.run_id, plain.run_id]) == 3
        await app.store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("act", "run_ids", "options", "why"),
    [
        ("replay", ["none"], {}, "there is no run 'none'"),
        ("replay", ["{}"], {"on_miss": "read"}, "on_miss is for a replay with another model"),
        ("fork", ["none"], {"at": 1}, "there is no run 'none'"),
        ("diff", ["{}", "none"], {}, "there is no run 'none'"),
        ("resume", ["none"], {}, "there is no such run"),
        ("resume", ["{}"], {}, "it is done"),
    ],
)
def test_what_cannot_be_done_is_misuse(act: str, run_ids: list[str], options: dict[str, Any], why: str) -> None:
    world = World()
    app = App(agents=[world.agent()], store=MemoryStore())

    async def main() -> None:
        run_id = (await app.run("outer", "go", on_request=world.person)).run_id
        with pytest.raises(UsageError, match=why):
            await getattr(app, act)(*(given.format(run_id) for given in run_ids), **options)

    asyncio.run(main())
