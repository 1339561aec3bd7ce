"""What goes wrong with a file is told with its mend, and nothing is half-written."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ferrule.errors import StoreError, UsageError
from ferrule.journal.sql import blocks
from ferrule.journal.sqlite import Durability, SqliteConnection, SqliteStore
from ferrule.journal.store import Asked, Batch, Decision, Held, NewRun, Row
from ferrule.journal.writer import Connection


def row(seq: int, body: bytes = b"{}") -> Row:
    return Row(seq, "note", 1, 0.0, body)


async def held(store: SqliteStore, run_id: str = "r") -> Held:
    made = await store.create(NewRun(run_id, "d", row(1)), "w")
    assert isinstance(made, Held)
    return made


def made(path: Path) -> Path:
    """A store with a run of three records, closed."""

    async def make() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.append(await held(store), Batch([row(2), row(3)]))
        await store.close()

    asyncio.run(make())
    return path


def why(path: Path) -> StoreError:
    """Why a store does not open."""
    with pytest.raises(StoreError) as told:
        asyncio.run(SqliteStore(path).open())
    return told.value


def test_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    db = sqlite3.connect(path)
    db.execute("UPDATE schema_version SET version = 99")
    db.commit()
    before = list(db.iterdump())
    assert str(why(path)) == (
        f"{path} has schema 99, and this version of ferrule knows schemas up to 1. Upgrade ferrule, or use another place."
    )
    assert list(db.iterdump()) == before
    db.close()


def nothing(path: Path) -> None:
    pass


def a_folder(path: Path) -> None:
    path.mkdir(parents=True)


def another_file(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database, but long enough for one" * 99)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (nothing, "cannot be opened: its directory does not exist. Make it."),
        (a_folder, "cannot be opened. Check the path and the rights to it."),
        (another_file, "is not an SQLite database. Name another file, or remove this one."),
    ],
)
def test_a_place_that_cannot_be_a_store_is_told(prepare: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "runs.db"
    prepare(path)
    assert str(why(path)) == f"{path} {said}"


def test_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE requests (mine TEXT)")
    db.commit()
    assert str(why(path)) == f"{path} holds tables of another program. Name another file."
    assert [name for (name,) in db.execute("SELECT name FROM sqlite_master")] == ["requests"]
    db.close()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_what_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match=r"MemoryStore\(\)"):
        SqliteStore(path)


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'power' or 'process', not 'none'"):
        SqliteStore(tmp_path / "runs.db", durability="none")  # pyright: ignore[reportArgumentType] - what callers may give


def test_damage_is_told_when_it_is_met(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    async def use() -> None:
        store = SqliteStore(path)
        try:
            await store.open()
            await store.rows("r")
        finally:
            await store.close()

    with pytest.raises(StoreError, match=r"is damaged\. Restore it from a backup") as told:
        asyncio.run(use())
    assert isinstance(told.value.__cause__, sqlite3.DatabaseError)
    assert not told.value.retryable


READ_ONLY = """
import asyncio, os, sqlite3, sys
from ferrule.errors import StoreError
from ferrule.journal.sqlite import MemoryStore, SqliteStore

async def main(path):
    await MemoryStore().open()  # loads all files of the library while it may
    if os.geteuid() == 0:  # nothing is read-only to root
        os.setgroups([])
        os.setuid(65534)
    store = SqliteStore(path)
    try:
        await store.open()
    except StoreError as error:
        print(error)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are another matter there")
def test_a_read_only_file_is_told() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.db")
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE other (x TEXT)")
        db.commit()
        db.close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, check=True, timeout=60
        )
        Path(folder).chmod(0o755)
        said = "cannot be written: the file or its directory is read-only. Make both writable for this user."
        assert done.stdout == f"{path} {said}\n"


@pytest.mark.parametrize("gone", ["runs.db", "runs.db-wal"])
@pytest.mark.parametrize("replace", [False, True])
def test_a_file_that_is_deleted_or_replaced_is_noticed_before_anything_is_acknowledged(
    gone: str, replace: bool, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"

    async def use() -> None:
        store = SqliteStore(path)
        await store.open()
        mine = await held(store)
        if replace:
            other = tmp_path / "other"
            other.write_bytes((tmp_path / gone).read_bytes())
            other.replace(tmp_path / gone)
        else:
            (tmp_path / gone).unlink()
        for seq in (2, 3):  # nor later
            told = await asyncio.gather(
                store.append(mine, Batch([row(seq)])), store.append(mine, Batch([row(seq + 1)])), return_exceptions=True
            )
            for error in told:
                assert isinstance(error, StoreError)
                assert "was deleted or replaced while it was open" in str(error)
        await store.close()

    asyncio.run(use())


def test_a_file_locked_by_another_program_is_waited_for(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")

    async def use() -> None:
        store = SqliteStore(path)
        await store.open()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.create(NewRun("second", "d", row(1)), "w"))
        assert len(await store.rows("r")) == 3  # who reads does not wait
        assert not waiting.done()
        other.execute("COMMIT")
        other.close()
        assert isinstance(await waiting, Held)
        await store.close()

    asyncio.run(use())


@pytest.mark.case("C076")
def test_a_reader_that_stays_in_a_transaction_hinders_nobody_and_sees_what_it_saw(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")

    async def use() -> None:
        store = SqliteStore(path)
        await store.open()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN")
        assert other.execute("SELECT count(*) FROM records").fetchone() == (3,)
        mine = await held(store, "second")
        for seq in range(2, 200):
            await store.append(mine, Batch([row(seq)]))
        assert other.execute("SELECT count(*) FROM records").fetchone() == (3,)
        assert len(await store.rows("second")) == 199
        other.close()
        await store.close()

    asyncio.run(use())


def test_a_lock_that_lasts_is_told_as_something_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.journal.sqlite._WAIT", 0.01)
    path = made(tmp_path / "runs.db")

    async def use() -> None:
        store = SqliteStore(path)
        await store.open()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked by another process") as told:
            await held(store, "second")
        assert told.value.retryable
        other.execute("COMMIT")
        other.close()
        await held(store, "second")
        await store.close()

    asyncio.run(use())


class Small(SqliteConnection):
    """On a disk that has almost no room."""

    def _set_up(self, durability: Durability) -> None:
        super()._set_up(durability)
        self._db.execute("PRAGMA max_page_count = 60")


class SmallStore(SqliteStore):
    def _connect(self, writes: bool) -> Connection:
        return Small(self.path, self._durability)


def test_a_full_disk_is_told_and_what_still_fits_is_written(tmp_path: Path) -> None:
    async def use() -> None:
        store = SmallStore(tmp_path / "runs.db")
        await store.open()
        runs = [await held(store, f"r{i}") for i in range(3)]
        huge = b"x" * 1_000_000
        told = await asyncio.gather(
            *(store.append(run, Batch([row(2, huge if i == 1 else b"{}")])) for i, run in enumerate(runs)),
            return_exceptions=True,
        )
        assert [type(one) for one in told] == [type(None), StoreError, type(None)]
        assert str(told[1]) == f"{tmp_path / 'runs.db'} cannot grow: the disk is full. Make room, and try again."
        assert [len(await store.rows(run.run_id)) for run in runs] == [2, 1, 2]
        await store.append(runs[1], Batch([row(2)]))
        await store.close()

    asyncio.run(use())


def test_a_value_that_sqlite_does_not_take_is_told_and_the_store_goes_on(tmp_path: Path) -> None:
    async def use() -> None:
        store = SqliteStore(tmp_path / "runs.db")
        await store.open()
        mine = await held(store)
        for wrong in (row(2)._replace(type="\ud800"), row(2)._replace(at=None), row(2)._replace(v=2**70)):
            with pytest.raises(StoreError, match=r"runs\.db (does not take this|has this already, or lacks)"):
                await store.append(mine, Batch([wrong]))  # pyright: ignore[reportArgumentType] - what callers may give
        await store.append(mine, Batch([row(2)]))
        await store.close()

    asyncio.run(use())


@pytest.mark.parametrize(("durability", "level"), [("power", 2), ("process", 1)])
def test_durability_is_what_a_commit_waits_for(durability: Durability, level: int, tmp_path: Path) -> None:
    class Asking(SqliteConnection):
        def synchronous(self) -> int:
            return self._db.execute("PRAGMA synchronous").fetchone()[0]

    connection = Asking(tmp_path / "runs.db", durability)
    assert connection.synchronous() == level
    connection.close()


def test_a_removed_run_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def use() -> None:
        store = SqliteStore(path)
        await store.open()
        mine = await held(store)
        await store.post("r", "event", b"{}")
        asked = Asked("q", "r", "t0", "input", "d", b"{}")
        await store.append(mine, Batch([row(2)], {"a" * 64: b"x"}, opened=[asked]))
        await store.answer("q", Decision(b"1", "me", "cli"), 1.0)
        await store.append(mine, Batch([row(3)], state="done"))
        assert await store.remove(["r"]) == 1
        await store.close()

    asyncio.run(use())
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    left = {name for name in tables if db.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)}
    db.close()
    assert left == {"schema_version", "sqlite_sequence"}


def test_nothing_newer_than_sqlite_3_40_is_needed() -> None:
    text = " ".join(
        path.read_text()
        for path in Path(sys.modules[SqliteStore.__module__].__file__ or "", "../sql").resolve().glob("*")
    )
    for word in ("jsonb", "string_agg", "subsec", "RETURNING"):
        assert word not in text


def test_opening_a_store_module_loads_no_database() -> None:
    code = "import sys, ferrule.journal.sqlite, ferrule.journal.postgres\nprint({'sqlite3', 'psycopg', 'asyncio'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


# What a person or a sweep asks for, and what holds a row for each worker.
LISTS = {"entries", "requests", "size", "remove_old_blobs", "version", "workers", "forget_workers"}


def test_no_query_of_a_worker_reads_what_grows_with_parked_runs(tmp_path: Path) -> None:
    """A scan that no index bounds is what makes a store of 100,000 parked runs slow."""
    db = sqlite3.connect(made(tmp_path / "runs.db"))
    named = blocks("sqlite", "SELECT value FROM json_each({})", "?")
    scans: dict[str, str] = {}
    for name, sql in named.items():
        if sql.startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            values = ["[]"] * max([int(n) for n in re.findall(r"\?(\d+)", sql)], default=0)
            for *_, step in db.execute(f"EXPLAIN QUERY PLAN {sql}", values):
                if re.match(r"SCAN (runs|records|mail|requests|answers|blobs|links|workers|schema_version)\b", step):
                    scans[name] = step
    db.close()
    indexed = {"due": "SCAN mail"}  # letters that nobody has read yet
    indexed |= {"over": "SCAN runs USING INDEX runs_over", "open_requests": "SCAN requests USING INDEX requests_open"}
    assert {name: step for name, step in scans.items() if name not in LISTS} == indexed


def test_workers_that_were_killed_long_ago_are_forgotten_unless_they_hold_a_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        for worker in ("w", "gone", "lapsed", "new"):
            await store.enlist(worker, {})
        await held(store)  # by w
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                "UPDATE workers SET beat = CASE worker WHEN 'lapsed' THEN -9.0 ELSE 9.0 END WHERE worker != 'new'"
            )
        await store.enlist("next", {})
        assert list(await store.workers()) == ["new", "next", "w"]
        await store.close()

    asyncio.run(main())


def test_a_look_for_what_is_due_that_finds_nothing_does_not_wait_for_whoever_writes(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.enlist("w", {})
        await held(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(5):
                assert await store.claim("w", ["d"], 10, 60.0) == []
            other.execute("ROLLBACK")
        await store.close()

    asyncio.run(main())
