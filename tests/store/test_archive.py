"""A run goes from store to store as one file, byte for byte, and goes on there; a file that is not whole changes nothing."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import Make, unique_schema

from ferrule import Agent, Answer, App, Context, image, tool
from ferrule.errors import ArchiveError, StoreError, UsageError
from ferrule.journal.alive import about_me
from ferrule.journal.archive import export_run, import_run, read_archive
from ferrule.journal.postgres import PostgresStore
from ferrule.journal.sqlite import MemoryStore, SqliteStore
from ferrule.journal.store import Batch, Held, NewRun, Row, Store
from ferrule.message import ModelMessage
from ferrule.testing import call

LARGE = bytes.fromhex("89504e470d0a1a0a") + bytes(50_000)
BLOB = base64.b64encode(LARGE)  # a part is stored as its JSON form
DIGEST = hashlib.sha256(BLOB).hexdigest()


class Odd:
    """A class of the user's."""

    def __repr__(self) -> str:
        return "<odd>"


def app(store: Store, paid: list[int] | None = None) -> App:
    @tool(effect="read")
    def look(ctx: Context) -> list[Any]:
        """Look."""
        return ["a picture \ud83d\ude00 1e22 0.1", image(LARGE), {"n": 2**60, "f": 1e22, "odd": Odd()}]

    @tool(effect="once", approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        if paid is not None:
            paid.append(amount)
        return f"paid {amount}"

    turns: list[Any] = [[call("look"), call("pay", {"amount": 5})], "all is done"]
    model: Callable[[Any], Any] = lambda request: turns[sum(isinstance(m, ModelMessage) for m in request.messages)]  # noqa: E731
    return App(agents=[Agent("clerk", model, tools=[look, pay])], store=store)


@asynccontextmanager
async def opened(store: Store) -> AsyncGenerator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def file_of(store: Store, run_id: str) -> list[bytes]:
    return [line async for line in export_run(store, run_id)]


async def waiting(store: Store) -> str:
    """A run that waits for an approval."""
    return (await app(store).run("clerk", "go", idempotency_key=os.urandom(4).hex(), tags={"body": "x"})).run_id


async def answered(store: Store, run_id: str) -> None:
    async with opened(store):
        (asked,) = await store.requests(run_id=run_id)
        made = app(store)
        answer = Answer(asked.request_id, ok=True, digest=asked.digest)
        await made.inbox.answer(asked.request_id, answer, by="ada", channel="test")
        with pytest.raises(Exception, match="ada"):
            await made.inbox.answer(asked.request_id, Answer(asked.request_id, ok=False), by="eve", channel="test")


async def ended(store: Store, run_id: str, paid: list[int]) -> str:
    made = app(store, paid)
    async with made.working() as worker, asyncio.timeout(30):
        while (entry := await made.store.entry(run_id)) is None or entry.state in ("running", "suspended"):
            await asyncio.sleep(0.01)
        return (await worker.result(run_id)).output


@pytest.mark.needs("postgres")
def test_a_run_goes_from_store_to_store_and_is_the_same_file_everywhere(tmp_path: Path, dsn: str) -> None:
    stores = [
        SqliteStore(tmp_path / "a.db"),
        PostgresStore(dsn, schema=unique_schema()),
        MemoryStore(),
        SqliteStore(tmp_path / "b.db"),
    ]
    paid: list[int] = []

    async def main() -> None:
        run_id = await waiting(stores[0])
        await answered(stores[0], run_id)
        async with opened(stores[0]):
            first = await file_of(stores[0], run_id)
            rows = await stores[0].rows(run_id)
        assert {json.loads(line)["is"] for line in first} == {
            "run",
            "record",
            "letter",
            "request",
            "answer",
            "blob",
            "end",
        }
        before = first
        for store in stores[1:]:
            async with opened(store):
                entry, is_new = await import_run(store, before)
                assert (entry.run_id, is_new) == (run_id, True)
                assert await store.rows(run_id) == rows
                before = await file_of(store, run_id)
                assert before == first
        assert await ended(stores[2], run_id, paid) == "all is done"

    asyncio.run(main())
    assert paid == [5]


def test_a_run_that_is_over_is_moved_with_its_audit_and_its_bytes(make: Make, tmp_path: Path) -> None:
    async def main() -> None:
        store, other = make(), SqliteStore(tmp_path / "other.db")
        run_id = await waiting(store)
        await answered(store, run_id)
        assert await ended(store, run_id, []) == "all is done"
        async with opened(store), opened(other):
            await import_run(other, await file_of(store, run_id))
            assert await other.requests(run_id=run_id, state=None) == await store.requests(run_id=run_id, state=None)
            (asked,) = await other.requests(run_id=run_id, state=None)
            assert await other.answers(asked.request_id) == await store.answers(asked.request_id)
            assert [given.verdict for given in await other.answers(asked.request_id)] == ["accepted", "answered"]
            assert await other.blob(DIGEST) == BLOB
            moved, was = await other.entry(run_id), await store.entry(run_id)
            assert moved == was
        result = await ended(other, run_id, [])
        assert result == "all is done"

    asyncio.run(main())


def test_a_run_that_is_there_already_is_taken_once_and_another_of_its_id_or_key_is_refused(make: Make) -> None:
    async def main() -> None:
        store, other = make(), MemoryStore()
        run_id = await waiting(store)
        async with opened(store), opened(other):
            lines = await file_of(store, run_id)
            entry, is_new = await import_run(store, lines)
            assert (entry.run_id, is_new) == (run_id, False)
            await import_run(other, lines)
            assert await other.post(run_id, "cancel", b'{"by":"ada"}')
            with pytest.raises(ArchiveError, match=f"run {run_id} is in the store already, and differs") as told:
                await import_run(other, lines)
            assert told.value.taken
            assert await file_of(store, run_id) == lines
            key = (await store.entry(run_id) or entry).key
        third = MemoryStore()
        async with opened(third):
            new = NewRun("run_x", "clerk", Row(1, "run.started", 1, 0.0, b"{}"), key=key)
            await third.create(new, None)
            with pytest.raises(ArchiveError, match=r"run run_x has the idempotency key of run"):
                await import_run(third, lines)
            assert await third.entry(run_id) is None
            assert [e.run_id for e in await third.entries()] == ["run_x"]

    asyncio.run(main())


async def held(store: Store, worker: str) -> Held:
    made = await store.create(
        NewRun(f"run_{os.urandom(4).hex()}", "d", Row(1, "run.started", 1, 0.5, b'{"a":1}')), worker
    )
    assert isinstance(made, Held)
    return made


def test_a_run_that_a_living_worker_drives_is_not_copied(make: Make) -> None:
    async def main() -> None:
        async with opened(make()) as store:
            await store.enlist("w1", about_me())
            run = await held(store, "w1")
            with pytest.raises(
                UsageError, match="is being driven by worker w1, and a copy could do the same once more"
            ):
                await file_of(store, run.run_id)
            await store.append(run, Batch((), state="suspended"))
            await file_of(store, run.run_id)
            with pytest.raises(UsageError, match="there is no run 'nope'"):
                await file_of(store, "nope")

    asyncio.run(main())


def test_no_lease_comes_along_but_who_held_the_run_stays_known(make: Make) -> None:
    async def main() -> None:
        there, here = MemoryStore(), make()
        async with opened(there), opened(here):
            gone = {**about_me(), "start": -1}  # nobody has this pid and this start: proven dead
            dead = f"w-{os.urandom(4).hex()}"
            await there.enlist(dead, gone)
            run = await held(there, dead)
            lines = await file_of(there, run.run_id)
            await import_run(here, lines)
            assert await file_of(here, run.run_id) == lines
            assert (await here.workers())[dead][1] == gone
            me = f"w-{os.urandom(4).hex()}"
            await here.enlist(me, {})
            (taken,) = await here.claim(me, ["d"], 5, 600.0)
            assert (taken.run_id, taken.epoch, taken.seq) == (run.run_id, 2, 2)

    asyncio.run(main())


def sealed(lines: list[bytes]) -> list[bytes]:
    """The same with an end that fits, as a forger or a newer version would write it."""
    end = {"is": "end", "lines": len(lines) - 1, "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}
    return [*lines[:-1], json.dumps(end, separators=(",", ":")).encode() + b"\n"]


def changed(lines: list[bytes], number: int, old: bytes, new: bytes) -> list[bytes]:
    assert old in lines[number]
    return [line.replace(old, new, 1) if n == number % len(lines) else line for n, line in enumerate(lines)]


def without(lines: list[bytes], number: int) -> list[bytes]:
    return lines[:number] + lines[number + 1 :]


BAD: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "nothing": (lambda _: [], "ends after line 0"),
    "text": (lambda _: [b"hello\n"], "line 1 is not whole: this is no file of a run"),
    "other JSON": (lambda _: [b'{"is":"record"}\n'], "this is no file of a run: its first line is no header"),
    "cut before the end": (lambda lines: lines[:-1], "the file is cut: it ends after line"),
    "cut in a line": (lambda lines: [*lines[:4], lines[4][:-9]], "line 5 is not whole: the file is damaged, or cut there"),
    "cut in the end": (lambda lines: [*lines[:-1], lines[-1][:-1]], "is not whole: the file is damaged, or cut there"),
    "another letter": (lambda lines: changed(lines, 1, b"clerk", b"clork"), "its lines are not those that were sealed"),
    "a record lost": (lambda lines: without(lines, 3), "record 3 is missing"),
    "the last record lost": (lambda lines: without(lines, 6), "missing|sealed"),
    "a blob": (lambda lines: changed(lines, -2, b'"data":"aV', b'"data":"aW'), "are not those of this SHA-256"),
    "two runs": (lambda lines: [*lines, *lines], "stands behind the end of the run"),
    "newer format": (lambda lines: sealed(changed(lines, 0, b'"format":1', b'"format":2')), r"the file \(format 2, records 1\) was written by a newer"),
    "newer records": (lambda lines: sealed(changed(lines, 0, b'"record":1', b'"record":9')), r"\(format 1, records 9\) was written by a newer"),
    "a newer record": (lambda lines: sealed(changed(lines, 2, b'"v":1', b'"v":2')), r"record 2 \(.*, version 2\) was written by a newer"),
    "an unknown record": (lambda lines: sealed(changed(lines, 1, b"run.started", b"run.stirred")), r"record 1 \(run.stirred, version 1\) was written by"),
    "an unknown line": (lambda lines: sealed(changed(lines, -2, b'"is":"blob"', b'"is":"blub"')), "a line of kind 'blub' was written by a newer"),
    "a fact less": (lambda lines: sealed(changed(lines, 0, b'"root"', b'"ruut"')), r"line 1 \(run\) lacks what it must tell"),
    "an unknown state": (lambda lines: sealed(changed(lines, 0, b'"suspended"', b'"sleeping"')), "tells of no run that could be"),
}  # fmt: skip


@pytest.mark.parametrize("how", BAD)
def test_a_file_that_is_not_whole_is_refused_by_what_is_wrong_and_nothing_is_written(how: str) -> None:
    damage, says = BAD[how]

    async def main() -> None:
        store, other = MemoryStore(), MemoryStore()
        run_id = await waiting(store)
        async with opened(store), opened(other):
            lines = await file_of(store, run_id)
            read_archive(lines)
            with pytest.raises(ArchiveError, match=says):
                await import_run(other, damage(lines))
            assert await other.entries() == []
            await import_run(other, lines)

    asyncio.run(main())


def test_any_byte_that_is_another_is_noticed() -> None:
    async def main() -> list[bytes]:
        store = MemoryStore()
        run_id = await waiting(store)
        async with opened(store):
            return await file_of(store, run_id)

    lines = [line for line in asyncio.run(main()) if len(line) < 5_000]
    lines = sealed([line for line in lines if b'"is":"blob"' not in line])
    whole = b"".join(lines)
    read_archive(lines)
    for at in range(0, len(whole), 7):
        other = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        with pytest.raises(ArchiveError):
            read_archive(other.splitlines(keepends=True))


def test_an_import_that_fails_in_the_middle_leaves_nothing(make: Make) -> None:
    """Two requests of one address: the store refuses the second one, after the run and its records were put in."""

    async def main() -> None:
        store, other = MemoryStore(), make()
        run_id = await waiting(store)
        async with opened(store), opened(other):
            lines = await file_of(store, run_id)
            request = next(n for n, line in enumerate(lines) if b'"is":"request"' in line)
            with pytest.raises(StoreError):
                await import_run(other, sealed([*lines[: request + 1], *lines[request:]]))
            assert await other.entry(run_id) is None
            assert await other.rows(run_id) == []
            assert await other.requests(run_id=run_id, state=None) == []

    asyncio.run(main())


def test_bytes_that_are_gone_are_told_as_gone() -> None:
    async def main() -> None:
        store, other = MemoryStore(), MemoryStore()
        run_id = await waiting(store)
        async with opened(store), opened(other):
            lines = await file_of(store, run_id)
            data = base64.b64encode(BLOB)
            gone = sealed([line.replace(b'"' + data + b'"', b"null") for line in lines])
            assert gone[-2] != lines[-2]
            await import_run(other, gone)
            assert await file_of(other, run_id) == gone
            assert await other.blob(DIGEST) is None

    asyncio.run(main())


def test_a_fork_goes_elsewhere_with_all_the_records_and_bytes_that_it_shares(make: Make) -> None:
    async def main() -> None:
        store, other = make(), MemoryStore()
        made = app(store)
        origin = await waiting(store)
        async with made.working(takes=False) as worker:
            at = next(row.seq for row in await store.rows(origin) if row.type == "tool.settled")
            fork = await worker.fork(origin, at=at)
            shared = [row for row in await store.rows(origin) if 1 < row.seq <= at]
            assert await store.remove_blobs(time.time() + 60) == 0
            lines = await file_of(store, fork.run_id)
            before = await worker.records(fork.run_id)
        async with opened(other):
            _, new = await import_run(other, lines)
            assert new
            assert [row for row in await other.rows(fork.run_id) if 1 < row.seq <= at] == shared
            assert await other.blob(DIGEST) == BLOB
            async with app(other).working(takes=False) as worker:
                assert [r.body for r in await worker.records(fork.run_id)] == [r.body for r in before]
        async with opened(store):
            assert await import_run(store, lines) == ((await import_run(store, lines))[0], False)

    asyncio.run(main())
