"""Stores over SQLite: one file, shared by several processes, or nothing but memory."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ferrule.errors import FerruleError, StoreError
from ferrule.journal.sql import SqlStore, queries
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import sqlite3
else:
    sqlite3 = LazyModule("sqlite3")

Durability = Literal["power", "process"]
BUSY = 30.0  # seconds that a writer waits for others at most
_PARAM = re.compile(r":(\w+)")


class SqliteStore(SqlStore):
    """Runs in one SQLite file, in WAL mode; several processes may share it.

    Args:
        path: The file; it is made, its folder too.
        durability: `power`: what is told as durable outlives the machine's power. `process`: it outlives the process,
            and costs a third.

    Since 0.1.
    """

    def __init__(self, path: str | Path, *, durability: Durability = "power") -> None:
        """Touch nothing yet."""
        self.path = Path(path)
        super().__init__(partial(_Connection, self.path, durability), f"store {self.path.name}", shared=True)


class MemoryStore(SqlStore):
    """Runs in memory, by the same queries; gone with the process.

    Since 0.1.
    """

    def __init__(self) -> None:
        """Touch nothing yet."""
        super().__init__(partial(_Connection, None, "process"), "store in memory", shared=False)


class _Connection:
    """One connection, used in one thread."""

    def __init__(self, path: Path | None, durability: Durability) -> None:
        self._path = path
        self._name = "memory" if path is None else path.name
        self._queries = queries("sqlite")
        self._inode: int | None = None
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, timeout=BUSY)
            if path is not None:
                self._patiently("PRAGMA journal_mode=WAL")
                self._db.execute(f"PRAGMA synchronous={'FULL' if durability == 'power' else 'NORMAL'}")
                self._inode = os.stat(path).st_ino
        except Exception as error:
            raise self.mended(error) from error

    def run(self, name: str, params: Any = None) -> list[tuple[Any, ...]]:
        """The rows of a named query; one of several statements gives none."""
        query = self._queries[name]
        if query.rstrip(";").count(";"):
            for statement in filter(str.strip, query.split(";")):
                self._db.execute(statement, params or {})
            return []
        return self._db.execute(query, params or {}).fetchall()

    def change(self, name: str, params: Any = None) -> int:
        """How many rows a named statement changed."""
        return self._db.execute(self._queries[name], params or {}).rowcount

    def many(self, name: str, params: Any) -> None:
        """A named statement for each of some parameters."""
        self._db.executemany(self._queries[name], params)

    def begin(self) -> None:
        """Begin a transaction that may write."""
        self._patiently("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make it durable."""
        self._db.execute("COMMIT")
        if self._path is not None:
            try:
                there = os.stat(self._path).st_ino == self._inode
            except OSError:
                there = False
            if not there:
                raise StoreError(f"the file of store {self._name} was removed while it was in use. Put it back.")

    def rollback(self) -> None:
        """Undo it."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def mended(self, error: Exception) -> Exception:
        """An error of ours for one of the database's."""
        if isinstance(error, FerruleError):
            return error
        text = str(error).lower()
        for sign, mend, retryable in _MENDS:
            if sign in text:
                return StoreError(f"store {self._name}: {mend}", retryable=retryable)
        return StoreError(f"store {self._name} failed: {type(error).__name__}: {error}.")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _patiently(self, statement: str) -> None:
        """Wait for other writers, longer than SQLite does where it gives up at once."""
        until = time.monotonic() + BUSY
        while True:
            try:
                self._db.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if ("locked" not in str(error) and "busy" not in str(error)) or time.monotonic() > until:
                    raise
            time.sleep(0.005)


_MENDS = (
    ("disk is full", "the disk is full, and nothing was written. Make room; the run goes on from its records.", True),
    ("readonly", "its file cannot be written. Give this user the right to write it, and its folder.", False),
    ("locked", "other processes kept it locked for 30 s. Look for one that hangs.", True),
    ("not a database", "its file is no database, or is damaged. Restore it, or name another.", False),
    ("malformed", "its file is damaged. Restore it, or name another.", False),
    ("unable to open", "its file cannot be opened. Look at the path and at the rights of its folder.", False),
    ("disk i/o error", "the disk failed, or the file was removed while it was in use. Put it back.", True),
    ("permission denied", "its folder cannot be made. Look at the rights of the one above.", False),
)
