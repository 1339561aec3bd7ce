"""One thread writes what waits, together; who fails, fails alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ferrule.errors import StoreError
from ferrule.journal.sqlite import MemoryStore, SqliteStore
from ferrule.journal.store import Batch, Held, NewRun, Row, Store
from ferrule.journal.writer import MOST, Connection, Fault, Lane


class Notebook:
    """A connection that keeps what is written, one list for each commit; its commits wait to be let through."""

    positions: dict[str, int]

    def __init__(self) -> None:
        self.positions = {}
        self.commits: list[list[str]] = []
        self.page: list[str] = []
        self.begun = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self.tries = 0
        self.faults: list[Fault] = []
        self.closed = False

    def note(self, word: str) -> str:
        if word.startswith("bad"):
            raise ValueError(word)
        self.page.append(word)
        return word.upper()

    def begin(self, alone: bool) -> None:
        self.tries += 1
        self.begun.set()
        if self.faults:
            raise OSError("fault")

    def commit(self) -> None:
        assert self.free.wait(60)
        self.commits.append(self.page)
        self.page = []

    def rollback(self) -> None:
        self.page = []

    def fault(self, error: Exception) -> Fault:
        return self.faults.pop() if isinstance(error, OSError) else Fault(error)

    def close(self) -> None:
        self.closed = True

    # What lanes do not use.
    def run(self, block: str, *values: Any) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def change(self, block: str, *values: Any) -> int:
        raise NotImplementedError

    def many(self, block: str, rows: Sequence[tuple[Any, ...]]) -> int:
        raise NotImplementedError

    def later(self, block: str, rows: Sequence[tuple[Any, ...]]) -> bool:
        raise NotImplementedError

    def script(self, block: str) -> None:
        raise NotImplementedError

    def now(self) -> float:
        raise NotImplementedError


def is_one(book: Notebook) -> Connection:
    return book


def note(word: str) -> Callable[[Notebook], str]:
    return lambda book: book.note(word)


async def busy(lane: Lane[Notebook], book: Notebook) -> asyncio.Future[str]:
    """Put an item into a commit that waits; what comes now waits for that."""
    book.free.clear()
    first = lane.submit(note("first"))
    await asyncio.to_thread(book.begun.wait, 60)
    return first


async def using(book: Notebook, act: Callable[[Lane[Notebook]], Any], *, writes: bool = True) -> Any:
    lane = Lane("test-lane", lambda: book, writes=writes)
    try:
        return await act(lane)
    finally:
        book.free.set()
        await lane.close()


def test_what_waits_during_a_commit_is_one_commit_and_wakes_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Notebook()
    woken: list[int] = []

    async def act(lane: Lane[Notebook]) -> None:
        first = await busy(lane, book)
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def counted(call: Callable[..., Any], *args: Any, **more: Any) -> asyncio.Handle:
            if args and isinstance(args[0], list):  # others wake the loop too
                woken.append(len(cast("list[Any]", args[0])))
            return wake(call, *args, **more)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        waiting = [lane.submit(note(f"w{i}")) for i in range(100)]
        book.free.set()
        assert await asyncio.gather(first, *waiting) == ["FIRST", *(f"W{i}" for i in range(100))]

    asyncio.run(using(book, act))
    assert book.commits == [["first"], [f"w{i}" for i in range(100)]]
    assert woken[:2] == [1, 100]
    assert book.closed


def test_a_commit_takes_a_bounded_number() -> None:
    book = Notebook()

    async def act(lane: Lane[Notebook]) -> None:
        first = await busy(lane, book)
        waiting = [lane.submit(note(f"w{i}")) for i in range(MOST + 5)]
        book.free.set()
        await asyncio.gather(first, *waiting)

    asyncio.run(using(book, act))
    assert [len(page) for page in book.commits] == [1, MOST, 5]


def test_who_fails_is_told_and_all_others_are_written_in_order() -> None:
    book = Notebook()
    words = ["a", "bad1", "b", "c", "d", "bad2", "e", "f", "g"]

    async def act(lane: Lane[Notebook]) -> list[Any]:
        first = await busy(lane, book)
        waiting = [lane.submit(note(word)) for word in words]
        book.free.set()
        await first
        return await asyncio.gather(*waiting, return_exceptions=True)

    told = asyncio.run(using(book, act))
    assert [one if isinstance(one, str) else str(one) for one in told] == [
        "A", "bad1", "B", "C", "D", "bad2", "E", "F", "G"
    ]  # fmt: skip
    assert [word for page in book.commits for word in page] == ["first", *"abcdefg"]


def test_a_fault_of_the_place_is_told_to_all_at_once_each_an_error_of_its_own() -> None:
    book = Notebook()

    async def act(lane: Lane[Notebook]) -> tuple[list[Any], int]:
        first = await busy(lane, book)
        waiting = [lane.submit(note(f"w{i}")) for i in range(50)]
        book.faults = [Fault(StoreError("full", retryable=True), place=True)]
        before = book.tries
        book.free.set()
        await first
        return await asyncio.gather(*waiting, return_exceptions=True), book.tries - before

    told, tries = asyncio.run(using(book, act))
    assert tries == 1
    assert len({id(error) for error in told}) == 50
    assert all(str(error) == "full" and error.retryable for error in told)


def test_what_can_be_tried_again_is_tried_again_a_bounded_number_of_times() -> None:
    book = Notebook()
    again = Fault(StoreError("busy"), again=True)

    async def act(lane: Lane[Notebook]) -> None:
        book.faults = [again] * 3
        assert await lane.submit(note("x")) == "X"
        book.faults = [again] * 100
        with pytest.raises(StoreError, match="busy"):
            await lane.submit(note("y"))

    asyncio.run(using(book, act))
    assert book.commits == [["x"]]
    assert len(book.faults) == 100 - 6


def test_a_connection_that_cannot_be_made_is_told_to_whoever_submits() -> None:
    def connect() -> Notebook:
        raise StoreError("no such place")

    async def act() -> None:
        lane = Lane("test-lane", connect, writes=True)
        for word in "ab":
            with pytest.raises(StoreError, match="no such place"):
                await lane.submit(note(word))
        await lane.close()
        await lane.close()
        with pytest.raises(StoreError, match=r"closed\. Open it first"):
            await lane.submit(note("c"))

    asyncio.run(act())


def test_a_waiter_that_is_cancelled_disturbs_nobody() -> None:
    book = Notebook()

    async def act(lane: Lane[Notebook]) -> None:
        first = await busy(lane, book)
        gone, stays = lane.submit(note("gone")), lane.submit(note("stays"))
        gone.cancel()
        book.free.set()
        assert (await first, await stays) == ("FIRST", "STAYS")

    asyncio.run(using(book, act))
    assert book.commits[1] == ["gone", "stays"]


def test_a_reading_lane_commits_nothing_and_answers_each_alone() -> None:
    book = Notebook()

    async def act(lane: Lane[Notebook]) -> list[Any]:
        return await asyncio.gather(*(lane.submit(note(w)) for w in ("a", "bad", "b")), return_exceptions=True)

    told = asyncio.run(using(book, act, writes=False))
    assert (told[0], str(told[1]), told[2]) == ("A", "bad", "B")
    assert (book.tries, book.commits) == (0, [])


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_store_serves_several_loops_and_outlives_those_that_are_closed(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "runs.db")

    async def first() -> Held:
        await store.open()
        held = await store.create(NewRun("r", "d", Row(1, "run.started", 1, 0.0, b"{}")), "w")
        assert isinstance(held, Held)
        for seq in range(2, 50):
            store.append(held, Batch([Row(seq, "note", 1, 0.0, b"{}")]))  # nobody waits: the loop ends first
        return held

    async def second(held: Held) -> int:
        await store.append(held, Batch([Row(50, "note", 1, 0.0, b"{}")]))
        return len(await store.rows("r"))

    held = asyncio.run(first())
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(second(held))))
    thread.start()
    thread.join(60)
    assert found == [50]
    asyncio.run(store.close())
