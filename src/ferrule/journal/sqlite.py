"""Stores in SQLite: one file that several processes share, or this process's memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from typing_extensions import override

from ferrule.errors import FerruleError, StoreError, UsageError
from ferrule.journal.sql import SqlConnection, SqlStore, because, blocks
from ferrule.journal.writer import Connection, Fault, Lane
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import sqlite3
else:
    sqlite3 = LazyModule("sqlite3")

T = TypeVar("T")

Durability = Literal["power", "process"]
_SYNCHRONOUS: Final[Mapping[str, str]] = {"power": "FULL", "process": "NORMAL"}
_WAIT = 30.0  # seconds for others to end their writing
_CHECKPOINT = 4_000  # pages of the -wal file that are moved into the file at once: 16 MB
_CACHE = 16_000  # kB of pages kept
_NAP = 0.005  # seconds between two tries where SQLite itself does not wait

# What SQLite's primary result codes mean: what to say after the place, whether the place is to blame, and whether the
# same may succeed later.
_FAULTS: Final[Mapping[int, tuple[str, bool, bool]]] = {
    5: ("is locked by another process. Try again; if that lasts, end what holds it open.", True, True),
    6: ("is locked by another connection. Try again.", True, True),
    3: ("may not be used. Give this user the right to read and write the file and its directory.", True, False),
    8: ("cannot be written: the file or its directory is read-only. Make both writable for this user.", True, False),
    10: ("cannot be read or written: the disk reports an error. Check it and its space, and try again.", False, True),
    11: ("is damaged. Restore it from a backup, or save what can be read with: sqlite3 FILE .recover", True, False),
    13: ("cannot grow: the disk is full. Make room, and try again.", False, True),
    14: ("cannot be opened. Check the path and the rights to it.", True, False),
    18: ("does not take a value of that size. Keep it as a file, and hand on its name.", False, False),
    19: ("has this already, or lacks what belongs to it", False, False),
    26: ("is not an SQLite database. Name another file, or remove this one.", True, False),
}


class SqliteStore(SqlStore):
    """A store in one file. Several processes may share it, on one machine.

    Args:
        path: The file; made if it is not there, its directory is not.
        durability: `power`: what is acknowledged survives a power cut. `process`: it survives the end of the process
            however that comes, and writing is cheaper.

    Raises:
        UsageError: There is no such durability, or the path is no file's.

    Since 0.1.
    """

    def __init__(self, path: str | os.PathLike[str], *, durability: Durability = "power") -> None:
        """Open nothing yet."""
        if durability not in _SYNCHRONOUS:
            raise UsageError(f"durability is 'power' or 'process', not {durability!r}.")
        name = os.fspath(path)
        if not name or name == ":memory:":
            raise UsageError(f"{name!r} is not the path of a file. For a store in memory use MemoryStore().")
        super().__init__(name)
        self.path = Path(name)
        self._durability: Durability = durability

    @override
    def _connect(self, writes: bool) -> Connection:
        return SqliteConnection(self.path, self._durability)


class MemoryStore(SqlStore):
    """A store in memory, for one process: what it holds is kept until the object is gone.

    It is the SQLite store without a file, so that it behaves like one in everything but durability.

    Since 0.1.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        super().__init__("the store in memory")
        self._kept: SqliteConnection | None = None

    @override
    def _connect(self, writes: bool) -> Connection:
        if self._kept is None:
            self._kept = SqliteConnection(None, "process")
        return self._kept

    @override
    def _start_reader(self, writer: Lane[Connection]) -> Lane[Connection]:
        return writer  # memory has one connection, and one thread uses it

    def __del__(self) -> None:
        """Give the memory back."""
        if self._kept is not None:
            self._kept.forget()


class SqliteConnection(SqlConnection):
    """A connection to SQLite.

    Args:
        path: The file; None for memory.
        durability: What a commit survives.

    Raises:
        StoreError: The file cannot be used.

    Since 0.1.
    """

    def __init__(self, path: Path | None, durability: Durability) -> None:
        """Connect; the file is made if it is not there."""
        super().__init__(blocks("sqlite", "SELECT value FROM json_each({})", "?"))
        self._path = path
        self._files: dict[str, tuple[int, int]] = {}
        self._gone = False
        # Statements are begun and ended by us alone; the lane sees to it that one thread at a time is here.
        try:
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=_WAIT / 6,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise self.fault(error).error from error
        try:
            self._set_up(durability)
        except sqlite3.Error as error:
            self.forget()
            raise self.fault(error).error from error

    def _set_up(self, durability: Durability) -> None:
        if self._path is None:
            return
        # Two processes that open a new file at once meet here, and SQLite does not wait for this lock.
        mode = self._patiently(lambda: self._db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        if mode != "wal":
            raise StoreError(f"{self._path} cannot be a store: its file system has no shared memory. Use a local disk.")
        self._db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
        self._db.execute(f"PRAGMA cache_size = -{_CACHE}")
        self._db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
        self._patiently(lambda: self._db.execute("SELECT count(*) FROM sqlite_master").fetchone())
        self._files = {name: _identity(name) for name in (str(self._path), f"{self._path}-wal")}

    def _patiently(self, act: Callable[[], T]) -> T:
        """Do what meets other processes, again until a time is over."""
        until = time.monotonic() + _WAIT
        while True:
            try:
                return act()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (5, 6) or time.monotonic() > until:
                    raise
            time.sleep(_NAP)

    @override
    def _fetch(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, values).fetchall()

    @override
    def _count(self, sql: str, values: tuple[Any, ...]) -> int:
        return self._db.execute(sql, values).rowcount

    @override
    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        return self._db.executemany(sql, rows).rowcount

    def script(self, block: str) -> None:
        """As in `Connection`; executescript would commit first.

        Args:
            block: Its name.
        """
        for statement in self._blocks[block].split(";\n"):
            self._db.execute(statement)

    def now(self) -> float:
        """As in `Connection`; all processes are on one machine."""
        return time.time()

    def begin(self, alone: bool) -> None:
        """As in `Connection`.

        Args:
            alone: Whether one item is run in this transaction.

        Raises:
            StoreError: The file is gone.
        """
        if self._gone:
            raise self._lost()
        self._alone = alone
        self._patiently(lambda: self._db.execute("BEGIN IMMEDIATE"))

    def commit(self) -> None:
        """As in `Connection`; and see that what was written is where others find it.

        Raises:
            StoreError: The file was deleted or replaced, so that all this has gone nowhere.
        """
        self._flush()
        self._db.execute("COMMIT")
        for name, was in self._files.items():
            if _identity(name) != was:
                self._gone = True
                raise self._lost()

    def _lost(self) -> StoreError:
        return StoreError(
            f"{self._path} was deleted or replaced while it was open; what was written since is lost. "
            "Put the file and its -wal file back, and open the store again."
        )

    def rollback(self) -> None:
        """As in `Connection`."""
        self._forget()
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # a full disk or a broken file has rolled back by itself

    def fault(self, error: Exception) -> Fault:
        """As in `Connection`.

        Args:
            error: The error.
        """
        place = "the store in memory" if self._path is None else str(self._path)
        if isinstance(error, FerruleError):
            return Fault(error, place=self._gone)
        if not isinstance(error, sqlite3.Error):
            return Fault(because(error, f"{place} does not take this: {error}."))
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == 14 and self._path is not None and not self._path.parent.is_dir():
            return Fault(
                because(error, f"{place} cannot be opened: its directory does not exist. Make it."), place=True
            )
        if "already exists" in str(error):
            return Fault(because(error, f"{place} holds tables of another program. Name another file."), place=True)
        said, whole, later = _FAULTS.get(code, ("failed", False, False))
        detail = "" if said.endswith((".", "recover")) else f": {error}."
        return Fault(because(error, f"{place} {said}{detail}", later), place=whole)

    def close(self) -> None:
        """As in `Connection`; memory is kept."""
        if self._path is not None:
            self.forget()

    def forget(self) -> None:
        """Close, and lose what is in memory."""
        self._db.close()


def _identity(name: str) -> tuple[int, int]:
    """Which file has this name now."""
    try:
        found = os.stat(name)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)
