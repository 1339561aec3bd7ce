"""Runs of an app with a store: whoever waits for one, or listens to it, may leave, and it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ferrule import Agent, App, Event, UsageError, tool
from ferrule.journal.sqlite import MemoryStore
from ferrule.journal.store import Entry
from ferrule.message import ModelMessage
from ferrule.provider.base import Capabilities, Delta, ModelRequest, ModelResponse
from ferrule.runtime import worker as worker_module
from ferrule.strict_json import parse
from ferrule.testing import call


class Gate:
    """A tool that waits until it is let through, and says so in a model's answer."""

    def __init__(self) -> None:
        self.entered, self.open = asyncio.Event(), asyncio.Event()

    def app(self, store: MemoryStore) -> App:
        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            await self.open.wait()
            return "through"

        def model(request: ModelRequest) -> Any:
            return "done" if any(isinstance(m, ModelMessage) for m in request.messages) else [call("wait")]

        return App(agents=[Agent("a", model, tools=[wait])], store=store)


async def state(store: MemoryStore, run_id: str = "r") -> Entry:
    await store.open()
    entry = await store.entry(run_id)
    assert entry is not None
    return entry


async def types(store: MemoryStore, run_id: str = "r") -> list[str]:
    await store.open()
    return [row.type for row in await store.rows(run_id)]


def test_whoever_is_cancelled_while_they_wait_leaves_the_run_and_it_goes_on_in_the_block_around() -> None:
    async def main() -> None:
        store, gate = MemoryStore(), Gate()
        app = gate.app(store)
        async with app.working() as worker:
            waiting = asyncio.create_task(app.run("a", "go", run_id="r"))
            await gate.entered.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            gate.open.set()
            result = await worker.result("r")
        assert (result.status, result.output) == ("done", "done")
        assert "cancel.requested" not in await types(store)

    asyncio.run(main())


@pytest.mark.parametrize("times", [1, 2])
def test_without_a_block_around_the_run_is_released_for_the_next_worker(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "STOP", 60.0 if times == 2 else 0.05)  # the second one does not wait for it

    async def main() -> None:
        store, gate = MemoryStore(), Gate()
        waiting = asyncio.create_task(gate.app(store).run("a", "go", run_id="r"))
        await gate.entered.wait()
        for _ in range(times):
            waiting.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        entry = await state(store)
        assert (entry.state, entry.worker) == ("running", None)
        assert "cancel.requested" not in await types(store)
        next_one = Gate()
        next_one.open.set()
        app = next_one.app(store)
        async with app.working() as worker:
            assert (await worker.result("r")).output == "done"

    asyncio.run(main())


def test_a_loop_that_ends_leaves_its_runs() -> None:
    store = MemoryStore()

    async def main() -> None:
        gate = Gate()
        async with asyncio.timeout(20):
            app = gate.app(store)
            holding = app.working()
            await holding.__aenter__()
            asyncio.create_task(app.run("a", "go", run_id="r"))  # noqa: RUF006 - the loop is what ends it
            await gate.entered.wait()

    asyncio.run(main())
    assert "cancel.requested" not in asyncio.run(types(store))


def test_a_run_is_started_under_an_id_of_ones_own_and_left_to_a_worker() -> None:
    async def main() -> None:
        store, gate = MemoryStore(), Gate()
        gate.open.set()
        app = gate.app(store)
        assert await app.start("a", "go", run_id="mine", tags={"env": "test"}) == "mine"
        assert await app.start("a", "other", run_id="mine") == "mine"
        entry = await state(store, "mine")
        assert (entry.state, entry.worker, entry.tags, entry.seq) == ("running", None, {"env": "test"}, 1)
        assert parse((await store.rows("mine"))[0].body).get("worker") is None
        async with app.working() as worker:
            async with asyncio.timeout(20):
                assert (await worker.result("mine")).output == "done"
        assert (await app.run("a", "again", run_id="mine")).run_id == "mine"
        for unfit in ("", "a/b", "x" * 101, "-o"):
            with pytest.raises(UsageError, match="is no run id"):
                await app.start("a", "go", run_id=unfit)

    asyncio.run(main())


# -- streams ----------------------------------------------------------------------------------------------------


class Pieces:
    """A model whose answer comes in pieces; it can be held up before the last of them."""

    def __init__(self, count: int, before_last: Callable[[], Any] | None = None) -> None:
        self.name, self.capabilities = "pieces", Capabilities()
        self.count, self.before_last = count, before_last

    async def generate(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(ModelMessage("".join(f"{n} " for n in range(self.count))))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        for n in range(self.count):
            if n == self.count - 1 and self.before_last is not None:
                await self.before_last()
            yield Delta("text", f"{n} ")
        yield await self.generate(request)

    def explain(self, request: ModelRequest) -> Any:
        return {}


def kept(model: Any, store: MemoryStore | None = None) -> App:
    return App(agents=[Agent("a", model)], store=store or MemoryStore())


def test_pieces_of_an_answer_come_while_it_is_written_and_are_not_recorded() -> None:
    async def main() -> None:
        store, gate = MemoryStore(), asyncio.Event()
        heard: list[Event] = []
        async with kept(Pieces(3, gate.wait), store).stream("a", "go", run_id="r") as events:
            async for event in events:
                heard.append(event)
                if event.type == "text":
                    assert event.seq is None
                    if event.text == "1 ":
                        gate.set()
        assert [e.type for e in heard] == ["step", "text", "text", "text", "usage", "done"]
        assert "".join(e.text for e in heard) == "0 1 2 " == events.result.output
        assert await types(store) == ["run.started", "model.intended", "model.responded", "run.settled"]

    asyncio.run(main())


def test_a_consumer_that_takes_nothing_holds_nothing_up_and_misses_nothing() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with kept(Pieces(5_000), store).stream("a", "go", run_id="r") as events:
            async with asyncio.timeout(20):
                while (await state(store)).state != "done" if events.driver is not None else True:
                    await asyncio.sleep(0.001)
            heard = [event async for event in events]
        assert len(heard) < 100
        assert "".join(e.text for e in heard) == events.result.output
        assert [e.type for e in heard][-2:] == ["usage", "done"]

    asyncio.run(main())


def test_leaving_a_stream_lets_the_run_go_on() -> None:
    async def main() -> None:
        store, gate = MemoryStore(), asyncio.Event()
        app = kept(Pieces(3, gate.wait), store)
        async with app.working() as worker:
            async with app.stream("a", "go", run_id="r") as events:
                async for event in events:
                    if event.type == "text":
                        break
            gate.set()
            assert (await worker.result("r")).output == "0 1 2 "
        assert "cancel.requested" not in await types(store)

    asyncio.run(main())


def test_a_stream_can_cancel_its_run() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with kept(Pieces(3, asyncio.Event().wait), store).stream("a", "go", run_id="r") as events:
            async for event in events:
                if event.text == "1 ":
                    events.cancel("me")
        assert events.result.status == "cancelled"
        assert (await state(store)).state == "cancelled"

    asyncio.run(main())


def test_of_a_run_that_was_there_a_stream_gives_the_result_alone() -> None:
    async def main() -> None:
        app = kept(Pieces(2))
        first = await app.run("a", "go", idempotency_key="k")
        async with app.stream("a", "go", idempotency_key="k") as events:
            assert [event async for event in events] == []
        assert (events.result.run_id, events.result.output) == (first.run_id, "0 1 ")

    asyncio.run(main())
