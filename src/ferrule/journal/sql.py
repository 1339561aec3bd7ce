"""A store in an SQL database: every operation once, whatever the database."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import override

from ferrule.errors import StoreError
from ferrule.journal import transaction, whole
from ferrule.journal.keeping import Whole
from ferrule.journal.store import (
    Asked,
    Batch,
    Decision,
    Entry,
    Given,
    Held,
    Kind,
    Letter,
    NewRun,
    Row,
    State,
    Store,
    Verdict,
)  # fmt: skip
from ferrule.journal.writer import CLOSED, Connection, Lane
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

T = TypeVar("T")

VERSION: Final = 1  # of the schema; each has a block `migrate_N` that leads to it from the one before
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def blocks(dialect: str, each: str, sign: str) -> Mapping[str, str]:
    """The named blocks of a database, by name.

    Args:
        dialect: `sqlite` or `postgres`.
        each: How it gives the texts of a JSON array, with `{}` for the array.
        sign: What stands before the number of a placeholder.

    Since 0.1.
    """
    found: dict[str, str] = {}
    for file in ("common", dialect):
        text = Path(__file__).with_name("sql").joinpath(f"{file}.sql").read_text(encoding="utf-8")
        _, *parts = _NAME.split(text)
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            lines = [line for line in body.splitlines() if line and not line.startswith("--")]
            sql = re.sub(r"EACH\((\?\d+)\)", lambda m: each.format(m[1]), "\n".join(lines))
            found[name] = re.sub(r"\?(\d+)", lambda m: f"{sign}{m[1]}", sql)
    return found


def because(error: Exception, reason: str, retryable: bool = False) -> StoreError:
    """What is told of an error of the database, with that as its cause.

    Args:
        error: The error.
        reason: What happened, and what to do about it.
        retryable: Whether the same may succeed later.

    Since 0.1.
    """
    told = StoreError(reason, retryable=retryable)
    told.__cause__ = error
    return told


class SqlConnection(ABC):
    """What connections to SQL databases have in common; as in `Connection`.

    Args:
        blocks: The named blocks.

    Since 0.1.
    """

    def __init__(self, blocks: Mapping[str, str]) -> None:
        """Nothing is done yet."""
        self._blocks = blocks
        self._alone = True
        self._later: dict[str, list[tuple[Any, ...]]] = {}
        self.positions: dict[str, int] = {}

    @abstractmethod
    def _fetch(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """What a statement gives."""

    @abstractmethod
    def _count(self, sql: str, values: tuple[Any, ...]) -> int:
        """How many rows a statement changed."""

    @abstractmethod
    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """How many rows a statement changed in all."""

    def run(self, block: str, *values: Any) -> list[tuple[Any, ...]]:
        """As in `Connection`.

        Args:
            block: Its name.
            values: What its placeholders stand for.
        """
        self._flush()
        return self._fetch(self._blocks[block], values)

    def change(self, block: str, *values: Any) -> int:
        """As in `Connection`.

        Args:
            block: Its name.
            values: What its placeholders stand for.
        """
        self._flush()
        return self._count(self._blocks[block], values)

    def many(self, block: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """As in `Connection`.

        Args:
            block: Its name.
            rows: What its placeholders stand for.
        """
        self._flush()
        return self._many(self._blocks[block], rows)

    def later(self, block: str, rows: Sequence[tuple[Any, ...]]) -> bool:
        """As in `Connection`.

        Args:
            block: Its name.
            rows: What its placeholders stand for.
        """
        if self._alone:
            return self._many(self._blocks[block], rows) == len(rows)
        waiting = self._later.get(block)
        if waiting is None:
            self._later[block] = [*rows]
        else:
            waiting += rows
        return True

    def _flush(self) -> None:
        """Run what `later` has put off, block by block in the order of their first use."""
        if not self._later:
            return
        waiting, self._later = self._later, {}
        for block, rows in waiting.items():
            if self._many(self._blocks[block], rows) != len(rows):
                raise StoreError("one of several writes was refused")  # told to nobody: each is tried alone then

    def _forget(self) -> None:
        """What a rollback has undone."""
        self._later.clear()
        self.positions.clear()


def migrate(c: Connection, place: str) -> None:
    """Make the tables, or bring them to the version that this code knows. Must run within a transaction.

    Args:
        c: A connection.
        place: What to call it in an error.

    Raises:
        StoreError: They are newer.

    Since 0.1.
    """
    c.run("lock_schema")
    if c.run("has_schema")[0][0]:
        found: int = c.run("version")[0][0]
        if found > VERSION:
            raise StoreError(
                f"{place} has schema {found}, and this version of ferrule knows schemas up to {VERSION}. "
                "Upgrade ferrule, or use another place."
            )
        if found == VERSION:
            return
        for version in range(found + 1, VERSION + 1):
            c.script(f"migrate_{version}")
    else:
        c.script("schema")
    c.change("unset_version")
    c.change("set_version", VERSION, time.time())


class SqlStore(Store):
    """A store over connections; what each operation does is in `transaction`.

    Args:
        place: What errors call it.

    Since 0.1.
    """

    def __init__(self, place: str) -> None:
        """Open nothing yet."""
        self._place = place
        self._writer: Lane[Connection] | None = None
        self._reader: Lane[Connection] | None = None

    @abstractmethod
    def _connect(self, writes: bool) -> Connection:
        """A new connection; called in the thread that will use it."""

    def _start_reader(self, writer: Lane[Connection]) -> Lane[Connection]:
        """A thread to read in, so that nobody who reads waits for a commit."""
        return Lane("ferrule-reader", partial(self._connect, writes=False), writes=False)

    def _write(self, work: Callable[[Connection], T]) -> asyncio.Future[T]:
        return _submit(self._writer, work)

    def _read(self, work: Callable[[Connection], T]) -> asyncio.Future[T]:
        return _submit(self._reader, work)

    @override
    async def open(self) -> None:
        if self._writer is not None:
            return
        self._writer = Lane("ferrule-writer", partial(self._connect, writes=True), writes=True)
        try:
            await self._write(lambda c: migrate(c, self._place))
            self._reader = self._start_reader(self._writer)
            await self._read(lambda c: c.run("version"))
        except BaseException:
            await self.close()
            raise

    @override
    async def close(self) -> None:
        lanes = [self._reader, self._writer]
        self._reader = self._writer = None
        for lane in lanes:
            if lane is not None:
                await lane.close()

    def __repr__(self) -> str:
        """The kind of store, and the place without what opens it."""
        return f"<{type(self).__name__} {self._place}>"

    # -- runs -------------------------------------------------------------------------------------------------------

    @override
    async def create(self, new: NewRun, worker: str | None) -> Held | Entry:
        return await self._write(lambda c: transaction.create(c, new, worker))

    @override
    def append(self, held: Held, batch: Batch) -> Awaitable[None]:
        return self._write(lambda c: transaction.append(c, held, batch))

    @override
    async def rows(self, run_id: str, after: int = 0) -> list[Row]:
        return await self._read(lambda c: transaction.rows(c, run_id, after))

    @override
    async def entry(self, run_id: str) -> Entry | None:
        return await self._read(lambda c: transaction.entry(c, run_id))

    @override
    async def entries(
        self, *, state: State | None = None, definition: str | None = None, parent: str | None = None, limit: int = 100
    ) -> list[Entry]:
        return await self._read(lambda c: transaction.entries(c, state, definition, parent, limit))

    @override
    async def remove(self, run_ids: Sequence[str]) -> int:
        return await self._write(lambda c: transaction.remove(c, run_ids))

    @override
    async def whole(self, run_id: str) -> Whole | None:
        return await self._write(lambda c: whole.whole(c, run_id))

    @override
    async def adopt(self, given: Whole) -> Entry | None:
        return await self._write(lambda c: whole.adopt(c, given))

    @override
    async def over(self, before: float | None = None) -> list[str]:
        return await self._read(lambda c: whole.over(c, before))

    @override
    async def size(self) -> int:
        return await self._read(whole.size)

    @override
    async def weigh(self, run_ids: Sequence[str]) -> dict[str, int]:
        return await self._read(lambda c: whole.weigh(c, run_ids))

    @override
    async def remove_blobs(self, before: float) -> int:
        return await self._write(lambda c: whole.remove_blobs(c, before))

    @override
    async def forks(self, run_ids: Sequence[str]) -> dict[str, list[str]]:
        return await self._read(lambda c: transaction.forks(c, run_ids))

    # -- workers ----------------------------------------------------------------------------------------------------

    @override
    async def enlist(self, worker: str, about: Mapping[str, Any]) -> None:
        await self._write(lambda c: transaction.enlist(c, worker, about))

    @override
    async def beat(self, worker: str) -> bool:
        return await self._write(lambda c: transaction.beat(c, worker))

    @override
    async def retire(self, worker: str) -> None:
        await self._write(lambda c: transaction.retire(c, worker))

    @override
    async def workers(self) -> dict[str, tuple[float, dict[str, Any]]]:
        return await self._read(transaction.workers)

    @override
    async def claim(
        self, worker: str, definitions: Sequence[str], limit: int, lease: float, run_id: str | None = None
    ) -> list[Held]:
        if not await self._read(lambda c: transaction.is_due(c, definitions, lease, run_id)):
            return []  # a look that finds nothing, as most do, holds up nobody who writes
        return await self._write(lambda c: transaction.claim(c, worker, definitions, limit, lease, run_id))

    @override
    async def release(self, held: Held) -> None:
        await self._write(lambda c: transaction.release(c, held))

    # -- letters, requests and answers ------------------------------------------------------------------------------

    @override
    async def post(self, run_id: str, kind: Kind, body: bytes) -> bool:
        return await self._write(lambda c: transaction.post(c, run_id, kind, body))

    @override
    async def letters(self, run_id: str) -> list[Letter]:
        return await self._read(lambda c: transaction.letters(c, run_id))

    @override
    async def letters_of(self, worker: str, kind: Kind) -> list[tuple[str, Letter]]:
        return await self._read(lambda c: transaction.letters_of(c, worker, kind))

    @override
    async def asked(self, request_id: str) -> Asked | None:
        return await self._read(lambda c: transaction.asked(c, request_id))

    @override
    async def requests(self, *, run_id: str | None = None, state: str | None = "open", limit: int = 100) -> list[Asked]:
        return await self._read(lambda c: transaction.requests(c, run_id, state, limit))

    @override
    async def answer(self, request_id: str, decision: Decision, now: float) -> tuple[Verdict, Asked | None]:
        return await self._write(lambda c: transaction.answer(c, request_id, decision, now))

    @override
    async def answers(self, request_id: str) -> list[Given]:
        return await self._read(lambda c: transaction.answers(c, request_id))

    @override
    async def blob(self, digest: str) -> bytes | None:
        return await self._read(lambda c: transaction.blob(c, digest))


def _submit(lane: Lane[Connection] | None, work: Callable[[Connection], T]) -> asyncio.Future[T]:
    if lane is not None:
        return lane.submit(work)
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_exception(StoreError(CLOSED))
    return future
