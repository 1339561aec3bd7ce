"""A worker starts effects under its lease only, lets go of what it cannot drive, and tells a dead holder from one that is still."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from ferrule import Agent, Answer, Context, Request, RunResult, tool
from ferrule.agent.loop import Limits, RunInput
from ferrule.errors import LeaseLost, RequestError, StoreError
from ferrule.journal.alive import about_me, is_dead
from ferrule.journal.sqlite import MemoryStore
from ferrule.journal.store import Asked, Batch, Held, NewRun
from ferrule.message import ModelMessage, ToolMessage, user
from ferrule.runtime import worker as worker_module
from ferrule.runtime.inbox import Inbox
from ferrule.runtime.worker import Worker
from ferrule.testing import ScriptedModel, call


def agent(
    body: Callable[[], str], *, check: Any = None, timeout: float = 60.0, approval: bool = False
) -> Agent[Any, Any]:
    @tool(effect="once", check=check, timeout=timeout, approval=approval)
    def pay() -> str:
        """Pay."""
        return body()

    def model(request: Any) -> Any:
        return "done" if any(isinstance(m, ModelMessage) for m in request.messages) else [call("pay")]

    return Agent("a", model, tools=[pay])


async def in_the_end(store: MemoryStore, run_id: str) -> str:
    async with asyncio.timeout(20):
        while (entry := await store.entry(run_id)) is None or entry.state == "running":
            await asyncio.sleep(0.002)
        return entry.state


# -- the fence --------------------------------------------------------------------------------------------------


def test_a_lease_that_was_over_since_the_record_was_begun_fences_though_it_has_been_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(worker_module, "clock", lambda: now)

    async def main() -> None:
        nonlocal now
        store = MemoryStore()
        await store.open()
        async with Worker(store, {}, lease=0.03) as worker:
            worker.fence(100.0)
            now = 200.0  # the process stood still; its next beat finds that out, and renews the lease
            async with asyncio.timeout(20):
                while True:
                    try:
                        worker.fence(200.5)
                        break
                    except LeaseLost:
                        await asyncio.sleep(0.002)
            with pytest.raises(LeaseLost, match="has been still for too long"):
                worker.fence(100.0)

    asyncio.run(main())


def test_a_run_whose_end_is_stored_is_told_however_long_the_process_stood_still() -> None:
    class Slow(MemoryStore):
        """A store whose commit of a run's end outlasts the lease."""

        def append(self, held: Held, batch: Batch) -> Any:
            return self.late(held, batch) if batch.state == "done" else super().append(held, batch)

        async def late(self, held: Held, batch: Batch) -> None:
            await super().append(held, batch)
            worker._until = 0.0  # pyright: ignore[reportPrivateUsage] - what a process finds that stood still

    async def main() -> None:
        nonlocal worker
        store = Slow()
        await store.open()
        async with Worker(store, {"a": agent(lambda: "paid")}) as worker:
            result = await worker.run("a", RunInput(user("go")))
            assert (result.status, result.output) == ("done", "done")

    worker: Any = None
    asyncio.run(main())


# -- letting go -------------------------------------------------------------------------------------------------


class FailingOnce(MemoryStore):
    """A store that cannot write one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = False

    def append(self, held: Held, batch: Batch) -> Any:
        if not self.failed and any(row.type == "tool.intended" for row in batch.rows):
            self.failed = True
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.set_exception(StoreError("the disk is full."))
            return future
        return super().append(held, batch)


def test_a_run_that_cannot_be_written_is_let_go_of_and_taken_again() -> None:
    done: list[str] = []

    async def main() -> None:
        store = FailingOnce()
        await store.open()
        async with Worker(store, {"a": agent(lambda: done.append("paid") or "paid")}, poll=0.001) as worker:
            with pytest.raises(StoreError, match="disk is full"):
                await worker.run("a", RunInput(user("go")))
            (entry,) = await store.entries()
            assert (entry.state, entry.worker) == ("running", None)
            worker.start()
            assert await in_the_end(store, entry.run_id) == "done"

    asyncio.run(main())
    assert done == ["paid"]


@pytest.mark.parametrize("dies", ["its process", "nobody began it"])
def test_a_second_start_goes_on_with_a_run_that_nobody_drives_and_with_no_other(dies: str) -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.open()
        async with Worker(store, {"a": agent(lambda: "paid")}, poll=0.001) as worker:
            for run_id in ("wanted", "other"):
                await worker.leave("a", RunInput(user("go")), run_id=run_id)
            if dies == "its process":
                await store.enlist("dead", {"lease": -1.0})
                assert len(await store.claim("dead", ["a"], 2, 60.0)) == 2
            async with asyncio.timeout(20):
                result = await worker.run("a", RunInput(user("go")), run_id="wanted")
        assert (result.run_id, result.output) == ("wanted", "done")
        assert [entry.run_id for entry in await store.entries() if entry.state == "running"] == ["other"]

    asyncio.run(main())


def test_a_run_that_ends_its_process_each_time_is_blocked_as_poison_and_can_be_cancelled() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.open()
        run_id = await left_in_a_call(store, agent(lambda: "paid"), None)

        def bank(ctx: Any, arguments: Any) -> str:
            return "paid, says the bank"

        for number in range(6):  # as many processes as take it and end before they have recorded anything
            await store.enlist(f"dead-{number}", {})
            await store.claim(f"dead-{number}", ["a"], 1, 60.0)
            await store.retire(f"dead-{number}")
        paying = agent(lambda: pytest.fail("it was made again"), check=bank)
        async with Worker(store, {"a": paying}, poll=0.001) as worker:
            worker.start()
            assert await in_the_end(store, run_id) == "blocked"
            result = await worker.result(run_id)
            assert (result.status, result.reason) == ("blocked", "poison")
            assert "it was taken 7 times" in result.describe()
            await store.post(run_id, "cancel", b'{"by":"ada"}')
            async with asyncio.timeout(20):
                while (await store.entry(run_id)).state != "cancelled":  # pyright: ignore[reportOptionalMemberAccess]
                    await asyncio.sleep(0.002)
            result = await worker.result(run_id)
        assert (result.status, result.reason, result.error) == ("cancelled", "cancelled", None)
        assert [m.output for m in result.messages if isinstance(m, ToolMessage)] == ["paid, says the bank"]

    asyncio.run(main())


def test_a_cancelled_run_ends_so_where_its_live_objects_cannot_be_made() -> None:
    def broken(context: Any) -> Any:
        raise RuntimeError("no such host")

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        run_id = await left_in_a_call(store, agent(lambda: "paid"), None)
        await store.post(run_id, "cancel", b'{"by":"ada"}')
        deaf = Agent("a", ScriptedModel([]), tools=agent(lambda: "paid").tools, deps=broken)
        async with Worker(store, {"a": deaf}, poll=0.001) as worker:
            worker.start()
            assert await in_the_end(store, run_id) == "cancelled"

    asyncio.run(main())


# -- whose call it was ------------------------------------------------------------------------------------------


async def left_in_a_call(store: MemoryStore, former: Agent[Any, Any], about: Mapping[str, Any] | None) -> str:
    """A run whose holder has begun a `once` call and has not been heard of since."""
    whole = MemoryStore()
    await whole.open()
    async with Worker(whole, {"a": former}) as worker:
        run_id = (await worker.run("a", RunInput(user("go")))).run_id
    rows = await whole.rows(run_id)
    length = [row.type for row in rows].index("tool.intended") + 1
    if about is not None:
        await store.enlist(worker.id, {**about, "lease": 0.001})
    held = await store.create(NewRun(run_id, "a", rows[0]), worker.id)
    assert isinstance(held, Held)
    await store.append(held, Batch([row._replace(at=time.time()) for row in rows[1:length]]))
    if about is None:
        await store.retire(worker.id)
    return run_id


@cache
def buried() -> dict[str, Any]:
    """What a process said of itself that is no more."""
    code = "import json, ferrule.journal.alive as a; print(json.dumps(a.about_me()))"
    return json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


@pytest.mark.parametrize(
    ("about", "waits"),
    [
        (lambda: None, False),  # it has let go of all it held
        (buried, False),
        (about_me, True),
        (lambda: {**buried(), "host": "elsewhere"}, True),
        (lambda: {**buried(), "boot": "another"}, True),
        (lambda: {**buried(), "start": None}, True),
        (dict, True),
    ],
)
def test_a_once_call_is_asked_about_when_its_holder_is_proven_dead_or_its_deadline_and_a_lease_are_over(
    about: Callable[[], dict[str, Any] | None], waits: bool
) -> None:
    asked: list[float] = []
    seconds = 0.2 if waits else 60.0

    def check(ctx: Any, arguments: Any) -> None:
        asked.append(time.time())

    async def main() -> float:
        store = MemoryStore()
        await store.open()
        run_id = await left_in_a_call(store, agent(lambda: "paid"), about())
        intended = (await store.rows(run_id))[-1].at
        again = agent(lambda: "paid again", check=check, timeout=seconds)
        async with Worker(store, {"a": again}, lease=0.1, poll=0.001) as worker:
            worker.start()
            assert await in_the_end(store, run_id) == "done"
        return intended + seconds + 0.001  # the deadline and the lease of that holder

    over = asyncio.run(main())
    assert (asked[0] >= over) == waits


def test_a_process_is_dead_that_nobody_has_buried() -> None:
    code = "import json, ferrule.journal.alive as a; print(json.dumps(a.about_me()), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        about = json.loads(child.stdout.readline())
        assert not is_dead(about)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(about)
    finally:
        child.kill()
        child.communicate()


def test_a_pid_that_another_process_has_now_proves_death() -> None:
    assert is_dead({**about_me(), "start": 1})
    assert not is_dead(about_me())


# -- requests ---------------------------------------------------------------------------------------------------


def asker(expires: Callable[[], str | None] = lambda: None) -> Agent[Any, Any]:
    @tool(effect="read")
    async def ask(ctx: Context, what: str) -> str:
        """Ask."""
        return str(ctx.ask("question", what, expiresAt=ctx.state.setdefault("ends", expires())).data)

    turns: list[Any] = [[call("ask", {"what": "first"})], [call("ask", {"what": "second"})], "done"]

    def model(request: Any) -> Any:
        return turns[sum(isinstance(m, ModelMessage) for m in request.messages)]

    return Agent("a", model, tools=[ask])


def test_an_answer_to_a_request_that_was_answered_otherwise_meanwhile_is_left() -> None:
    async def main() -> str:
        store = MemoryStore()
        await store.open()
        inbox = Inbox(store)

        async def answering(request: Request) -> Answer | None:
            if request.prompt == "second":
                return None
            while not await inbox.requests():  # it is on its way into the store
                await asyncio.sleep(0)
            given = Answer(request.id, ok=True, data={"by": "somebody else"})
            await inbox.answer(request.id, given, by="eve", channel="test")
            return Answer(request.id, ok=True, data={"by": "me"})

        async with Worker(store, {"a": asker()}, poll=0.001) as worker:
            run_id = (await worker.run("a", RunInput(user("go")), on_request=answering)).run_id
            worker.start()
            async with asyncio.timeout(20):
                while await store.letters(run_id) or (await store.entry(run_id)).state == "running":  # pyright: ignore
                    await asyncio.sleep(0.002)
            (second,) = await inbox.requests()
            await inbox.answer(second.request_id, Answer(second.request_id, ok=True), by="eve", channel="test")
            async with asyncio.timeout(20):
                while await store.letters(run_id) or (await store.entry(run_id)).state != "done":  # pyright: ignore
                    await asyncio.sleep(0.002)
            return (await worker.result(run_id)).status

    assert asyncio.run(main()) == "done"


def test_edited_arguments_that_do_not_fit_the_tool_are_refused_when_they_are_given_and_use_up_nothing() -> None:
    done: list[int] = []

    @tool(effect="once", approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    def model(request: Any) -> Any:
        return "done" if any(isinstance(m, ModelMessage) for m in request.messages) else [call("pay", {"amount": 5})]

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        inbox = Inbox(store)
        async with Worker(store, {"a": Agent("a", model, tools=[pay])}, poll=0.001) as worker:
            run_id = (await worker.run("a", RunInput(user("go")))).run_id
            (asked,) = await inbox.requests()

            async def answer(arguments: dict[str, Any]) -> None:
                given = Answer(asked.request_id, ok=True, arguments=arguments, digest=asked.digest)
                await inbox.answer(asked.request_id, given, by="ada", channel="test")

            for unfit, where in (
                ({"amount": "much"}, "arguments.amount: .*integer"),
                ({"sum": 5}, "arguments.amount: is required"),
                ({"amount": 5, "to": "Eve"}, "arguments.to: is not declared"),
            ):
                with pytest.raises(RequestError, match=where) as caught:
                    await answer(unfit)
                assert not any(value in str(caught.value) for value in ("much", "Eve"))
            (entry,) = await inbox.requests()
            assert (entry.state, await store.letters(run_id)) == ("open", [])
            await answer({"amount": 3})
            worker.start()
            async with asyncio.timeout(20):
                while (await store.entry(run_id)).state != "done":  # pyright: ignore[reportOptionalMemberAccess]
                    await asyncio.sleep(0.002)
        assert done == [3]

    asyncio.run(main())


@pytest.mark.case("C071")
def test_a_request_that_nobody_answers_in_time_settles_its_call_as_expired() -> None:
    def soon() -> str:
        return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.05)).isoformat()

    async def main() -> tuple[str, list[str]]:
        store = MemoryStore()
        await store.open()
        async with Worker(store, {"a": asker(soon)}, poll=0.001) as worker:
            run_id = (await worker.run("a", RunInput(user("go")))).run_id
            worker.start()
            async with asyncio.timeout(20):
                while (await store.entry(run_id)).state in ("running", "suspended"):  # pyright: ignore
                    await asyncio.sleep(0.002)
            result = await worker.result(run_id)
            return result.status, [m.output for m in result.messages if isinstance(m, ToolMessage)]

    said = "Tool 'ask' was not called; nobody answered in time."
    assert asyncio.run(main()) == ("done", [said, said])


def test_of_two_answers_the_first_counts_wherever_it_was_given() -> None:
    """Somebody declines from outside while the callback in the process is still asking somebody who agrees."""
    done: list[str] = []

    async def main() -> tuple[RunResult[Any], list[Asked]]:
        store = MemoryStore()
        await store.open()
        paying = agent(lambda: done.append("paid") or "paid", approval=True)

        async def ask(request: Request) -> Answer:
            no = Answer(request.id, ok=False, reason="too much", digest=request.digest)
            await Inbox(store).answer(request.id, no, by="ada", channel="http")
            return Answer(request.id, ok=True, digest=request.digest)

        async with Worker(store, {"a": paying}) as worker:
            result = await worker.run("a", RunInput(user("go")), on_request=ask)
        assert await store.letters(result.run_id) == []
        return result, await store.requests(state=None)

    result, (asked,) = asyncio.run(main())
    assert (done, asked.state, asked.by) == ([], "answered", "ada")
    assert "declined: too much" in next(m.output for m in result.messages if isinstance(m, ToolMessage))


def test_a_run_that_never_has_to_wait_leaves_turns_to_others_and_is_written_meanwhile() -> None:
    """A model that is a function and tools that only read wait for nothing: one run could keep the loop for itself."""

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    def model(request: Any) -> Any:
        return "done" if len(request.messages) > 400 else [call("look")]

    async def main() -> tuple[int, int]:
        store = MemoryStore()
        await store.open()
        writes = 0
        real = store.append

        def append(held: Held, batch: Batch) -> Any:
            nonlocal writes
            writes += 1
            return real(held, batch)

        store.append = append
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with Worker(store, {"a": Agent("a", model, tools=[look], limits=Limits(turns=500))}) as worker:
            beside = asyncio.create_task(other())
            assert (await worker.run("a", RunInput(user("go")))).status == "done"
            beside.cancel()
        return turns, writes

    turns, writes = asyncio.run(main())
    assert turns > 10
    assert writes > 10
