"""A store in PostgreSQL, which many machines share. Needs the extra `postgres`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from ferrule.errors import FerruleError, StoreError
from ferrule.journal.sql import SqlConnection, SqlStore, because, blocks
from ferrule.journal.writer import Connection, Fault
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    import psycopg
    from psycopg import conninfo
else:
    psycopg = LazyModule("psycopg")
    conninfo = LazyModule("psycopg.conninfo")


_CONNECT = 10  # seconds for one try to connect
_WAIT = 30  # seconds to wait for a lock, and for a dead network
_FATE = 30  # seconds to find out what became of a transaction

# What SQLSTATE codes, or the classes of their first two characters, mean: what to say after the place, whether the
# place is to blame, and whether the same may succeed later.
_FAULTS: Final[Mapping[str, tuple[str, bool, bool]]] = {
    "23": ("has this already, or lacks what belongs to it", False, False),
    "25006": ("is read-only: this is a standby, or the database says so. Connect to the primary.", True, True),
    "28": ("refuses this user. Check user and password in the DSN.", True, False),
    "3D000": ("has no such database. Create it, or name another in the DSN.", True, False),
    "3F000": ("has lost the schema of its tables. Restore it, or open the store again.", True, False),
    "42501": ("does not allow this user to do that. Grant CREATE on the database, and all on the schema.", True, False),
    "42P01": ("has lost its tables. Restore them, or open the store again.", True, False),
    "42P07": (
        "has tables of another program in this schema. Name another: PostgresStore(dsn, schema=...).",
        True,
        False,
    ),
    "53100": ("cannot grow: the disk of the server is full. Make room, and try again.", False, True),
    "53300": ("takes no more connections. Raise max_connections, or start fewer workers.", True, True),
    "53": ("has too little memory or disk. Make room, and try again.", False, True),
    "54": ("does not take a value of that size. Keep it as a file, and hand on its name.", False, False),
    "55P03": ("is locked by another process. Try again; if that lasts, end what holds the lock.", True, True),
    "57": ("ended the connection: the server stops or starts. Try again.", True, True),
    "58": ("cannot read or write its disk. Look into the log of the server.", False, True),
    "XX": ("reports an internal error or damaged data. Look into the log of the server.", False, False),
}
_AGAIN: Final = ("40P01", "40001")  # two transactions were in each other's way, and this one was undone


class PostgresStore(SqlStore):
    """A store in a schema of a PostgreSQL database, from version 14 on.

    What is acknowledged is as durable as the server's `synchronous_commit` makes it; its default survives a power cut.

    Args:
        dsn: How to connect, as libpq takes it: `postgresql://user@host/database`.
        schema: The schema of its tables; made if it is not there.

    Raises:
        StoreError: When it is opened: psycopg is not installed, or the server cannot be reached.

    Since 0.1.
    """

    def __init__(self, dsn: str, *, schema: str = "ferrule") -> None:
        """Open nothing yet."""
        super().__init__("the PostgreSQL store")  # the DSN may hold a password
        self._dsn = dsn
        self._schema = schema

    @override
    def _connect(self, writes: bool) -> Connection:
        try:
            import_module("psycopg")
        except ImportError as error:
            raise StoreError("a PostgreSQL store needs psycopg. Install it: pip install 'ferrule[postgres]'") from error
        connection = PostgresConnection(self._dsn, self._schema)
        try:
            connection.connect()
        except Exception as error:
            raise connection.fault(error).error from error
        return connection


class PostgresConnection(SqlConnection):
    """A connection to PostgreSQL that comes back when it was lost.

    Args:
        dsn: How to connect.
        schema: The schema of the tables.

    Since 0.1.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        """Connect to nothing yet."""
        quoted = '"' + schema.replace('"', '""') + '"'
        named = blocks("postgres", "SELECT json_array_elements_text(CAST({} AS JSON))", "$")
        super().__init__({**named, "schema": named["schema"].replace("{schema}", quoted)})
        self._dsn = dsn
        self._schema = quoted
        self._db: psycopg.Connection[tuple[Any, ...]] | None = None
        self._place = "the PostgreSQL store"
        self._within = False  # a transaction: nothing of it may be said on another connection
        self._unsure = False  # whether what was committed is there
        self._undone = False  # it is not, as the server said afterwards

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection, made anew if there is none.

        Raises:
            StoreError: The DSN is none.

        Since 0.1.
        """
        if self._db is not None and (self._within or not self._db.closed):
            return self._db
        known = _read(self._dsn)
        if known is None:
            raise StoreError(
                "the DSN of a PostgreSQL store cannot be read. Write it as postgresql://user@host/database."
            )
        self._place = f"the PostgreSQL store {known.get('dbname', '')!r} at {known.get('host', 'this machine')!r}"
        given: dict[str, Any] = {"connect_timeout": _CONNECT, "application_name": "ferrule"}
        given |= {"keepalives_idle": _WAIT, "tcp_user_timeout": _WAIT * 1_000}
        kept = {name: value for name, value in given.items() if name not in known}
        # Our own BEGIN and COMMIT: several statements then travel in one message.
        self._db = psycopg.connect(self._dsn, autocommit=True, cursor_factory=psycopg.RawCursor, **kept)
        self._db.execute(f"SET search_path TO {self._schema}; SET lock_timeout = '{_WAIT}s'".encode())
        self.positions.clear()
        return self._db

    @override
    def _fetch(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        done = self.connect().execute(sql.encode(), values)
        return done.fetchall() if done.description else []

    @override
    def _count(self, sql: str, values: tuple[Any, ...]) -> int:
        return self.connect().execute(sql.encode(), values).rowcount

    @override
    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        with self.connect().cursor() as cursor:
            cursor.executemany(sql.encode(), rows)
            return cursor.rowcount

    def script(self, block: str) -> None:
        """As in `Connection`; without values, several statements are one message.

        Args:
            block: Its name.
        """
        self.connect().execute(self._blocks[block].encode())

    def now(self) -> float:
        """As in `Connection`: the server's clock, as workers are on many machines."""
        return self.run("now")[0][0]

    def begin(self, alone: bool) -> None:
        """As in `Connection`.

        Args:
            alone: Whether one item is run in this transaction.
        """
        self._alone = alone
        self._unsure = self._undone = False
        self.connect().execute(b"BEGIN")
        self._within = True

    def commit(self) -> None:
        """As in `Connection`. Where the connection is lost meanwhile, the server is asked what became of it.

        Raises:
            StoreError: That cannot be found out in time.
        """
        self._flush()
        number: str = self._fetch(self._blocks["number"], ())[0][0]
        db = self.connect()
        try:
            db.execute(b"COMMIT")
        except psycopg.OperationalError as error:
            if not db.closed:
                raise
            self._within, self._unsure = False, True
            committed = self._fate(number, error) == "committed"
            self._unsure, self._undone = False, not committed
            if not committed:
                raise
        self._within = False

    def _fate(self, number: str, lost: Exception) -> str:
        """What became of a transaction whose end nobody told us."""
        until = time.monotonic() + _FATE
        while time.monotonic() < until:
            with suppress(psycopg.OperationalError):
                found: str | None = self._fetch(self._blocks["fate"], (number,))[0][0]
                if found != "in progress":
                    return found or "aborted"
            time.sleep(0.1)
        raise StoreError(
            f"{self._place} was lost while it committed, and does not come back; what was last written may be there or "
            "not. Look at the runs before you repeat anything.",
            retryable=True,
        ) from lost

    def rollback(self) -> None:
        """As in `Connection`."""
        self._forget()
        self._within = False
        db = self._db
        if db is None or db.closed:
            return
        with suppress(psycopg.Error):
            if db.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                db.execute(b"ROLLBACK")

    def fault(self, error: Exception) -> Fault:
        """As in `Connection`.

        Args:
            error: The error.
        """
        if isinstance(error, FerruleError):
            return Fault(error, place=self._unsure)
        if not isinstance(error, psycopg.Error):
            return Fault(because(error, f"{self._place} does not take this: {error}."))
        code = error.sqlstate or ""
        if code in _AGAIN:
            said = f"{self._place} was busy with others who write the same. Try again."
            return Fault(because(error, said, True), again=True)
        lost = self._undone or (self._db is not None and self._db.closed)
        if code not in _FAULTS and code[:2] not in _FAULTS and isinstance(error, psycopg.OperationalError):
            said = f"{self._place} cannot be reached. Check that the server runs, and the DSN."
            return Fault(because(error, said, True), place=True, again=lost)
        said, whole, later = _FAULTS.get(code) or _FAULTS.get(code[:2]) or ("failed", False, False)
        detail = "" if said.endswith(".") else f": {str(error).splitlines()[0]}."
        return Fault(because(error, f"{self._place} {said}{detail}", later), place=whole, again=lost)

    def close(self) -> None:
        """As in `Connection`."""
        if self._db is not None:
            with suppress(psycopg.Error):
                self._db.close()


def _read(dsn: str) -> Mapping[str, Any] | None:
    """What a DSN says; None where it says nothing. The error would show it, and with it the password."""
    try:
        return conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return None
