"""PostgreSQL: what goes wrong on the way to a server, and two who write the same."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from tests.store import postgres
from tests.store.conftest import unique_schema

from ferrule.errors import StoreError
from ferrule.journal import transaction
from ferrule.journal.postgres import PostgresConnection, PostgresStore
from ferrule.journal.store import Batch, Held, NewRun, Row
from ferrule.journal.writer import Connection, Lane

needs_postgres = pytest.mark.needs("postgres")


def row(seq: int) -> Row:
    return Row(seq, "note", 1, 0.0, b"{}")


class Place:
    """A schema of its own in the server, and a look into it from the side."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.schema = unique_schema()

    def store(self, dsn: str | None = None) -> PostgresStore:
        return PostgresStore(dsn or self.dsn, schema=self.schema)

    def do(self, sql: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute(f"SET search_path TO {self.schema}".encode())
            done = db.execute(sql.encode())
            return done.fetchall() if done.description else []

    def end_connections(self) -> None:
        self.do(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'ferrule' AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def place(dsn: str) -> Place:
    return Place(dsn)


async def held(store: PostgresStore, run_id: str = "r") -> Held:
    made = await store.create(NewRun(run_id, "d", row(1)), "w")
    assert isinstance(made, Held)
    return made


async def seqs(store: PostgresStore) -> list[int]:
    return [row.seq for row in await store.rows("r")]


@needs_postgres
def test_connections_that_were_ended_come_back(place: Place) -> None:
    async def use() -> None:
        store = place.store()
        await store.open()
        mine = await held(store)
        place.end_connections()
        await store.append(mine, Batch([row(2)]))
        assert await seqs(store) == [1, 2]
        await store.close()

    asyncio.run(use())


@needs_postgres
@pytest.mark.parametrize(
    "when",
    ["AFTER INSERT ON records FOR EACH ROW", "AFTER INSERT ON records DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"],
)
def test_a_connection_that_ends_within_a_transaction_or_its_commit_doubles_nothing(place: Place, when: str) -> None:
    """A trigger ends its own connection, the first time; a sequence remembers that although all else is undone."""

    async def use() -> None:
        store = place.store()
        await store.open()
        mine = await held(store)
        place.do("CREATE SEQUENCE times")
        place.do(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('{place.schema}.times') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; "
            "RETURN NEW; END $$"
        )
        kind = "CONSTRAINT TRIGGER" if "DEFERRABLE" in when else "TRIGGER"
        place.do(f"CREATE {kind} dies {when} EXECUTE FUNCTION die()")
        await store.append(mine, Batch([row(2), row(3)]))
        assert place.do("SELECT last_value > 1 FROM times") == [(True,)]
        assert await seqs(store) == [1, 2, 3]
        await store.close()

    asyncio.run(use())


@needs_postgres
def test_a_commit_whose_answer_is_lost_is_looked_up_and_not_made_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    real = psycopg.Connection.execute
    lost: list[str] = []

    def execute(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        done = real(self, query, *args, **more)
        if query == b"COMMIT" and not lost:
            lost.append("answer")
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return done

    async def use() -> None:
        store = place.store()
        await store.open()
        mine = await held(store)
        monkeypatch.setattr(psycopg.Connection, "execute", execute)
        await store.append(mine, Batch([row(2), row(3)]))
        await store.append(mine, Batch([row(4)]))
        assert await seqs(store) == [1, 2, 3, 4]
        await store.close()

    asyncio.run(use())
    assert lost == ["answer"]


@needs_postgres
def test_a_commit_whose_fate_cannot_be_found_out_is_told_as_just_that(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr("ferrule.journal.postgres._FATE", 0)
    real = psycopg.Connection.execute

    def execute(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        done = real(self, query, *args, **more)
        if query == b"COMMIT":
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return done

    async def use() -> None:
        store = place.store()
        await store.open()
        mine = await held(store)
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", execute)
            with pytest.raises(StoreError, match="what was last written may be there or not") as told:
                await store.append(mine, Batch([row(2)]))
        assert told.value.retryable
        assert await seqs(store) == [1, 2]
        await store.append(mine, Batch([row(3)]))
        await store.close()

    asyncio.run(use())


@needs_postgres
def test_two_who_wait_for_each_other_both_end_well(place: Place) -> None:
    """Each holds one run and wants the other's: the server undoes one of them, which is then tried again."""
    met = threading.Barrier(2)
    tries: list[str] = []

    async def use() -> None:
        store = place.store()
        await store.open()
        runs = {name: await held(store, name) for name in "ab"}
        lanes = [
            Lane(f"test-{name}", lambda: PostgresConnection(place.dsn, place.schema), writes=True) for name in "ab"
        ]

        def both(c: Connection, first: str, second: str) -> None:
            transaction.release(c, runs[first])
            tries.append(first)
            if tries.count(first) == 1:
                met.wait(60)
            transaction.release(c, runs[second])

        await asyncio.gather(lanes[0].submit(lambda c: both(c, "a", "b")), lanes[1].submit(lambda c: both(c, "b", "a")))
        assert sorted(tries) in (["a", "a", "b"], ["a", "b", "b"])
        for lane in lanes:
            await lane.close()
        await store.close()

    asyncio.run(use())


@needs_postgres
def test_a_newer_schema_is_refused(place: Place) -> None:
    async def use() -> None:
        store = place.store()
        await store.open()
        await store.close()
        place.do("UPDATE schema_version SET version = 99")
        with pytest.raises(
            StoreError, match=r"has schema 99, and this version of ferrule knows schemas up to 1\. Upgrade"
        ):
            await store.open()

    asyncio.run(use())


@needs_postgres
def test_several_who_open_a_new_place_at_once_make_it_once(place: Place) -> None:
    async def use() -> None:
        stores = [place.store() for _ in range(6)]
        await asyncio.gather(*(store.open() for store in stores))
        assert place.do("SELECT version FROM schema_version") == [(1,)]
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(use())


@needs_postgres
def test_a_server_that_is_not_to_be_written_is_told(place: Place) -> None:
    store = place.store(f"{place.dsn}?options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(StoreError, match="is read-only: this is a standby, or the database says so"):
        asyncio.run(store.open())


@needs_postgres
def test_a_database_that_is_not_there_is_told(place: Place) -> None:
    with pytest.raises(StoreError, match=r"'nowhere' at '.*' (has no such database|cannot be reached)") as told:
        asyncio.run(place.store(place.dsn.rpartition("/")[0] + "/nowhere").open())
    assert "nowhere" in str(told.value.__cause__)


@needs_postgres
def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    port = postgres.free_port()
    store = PostgresStore(f"postgresql://ann:hunter2@127.0.0.1:{port}/runs")
    with pytest.raises(StoreError) as told:
        asyncio.run(store.open())
    assert str(told.value) == (
        "the PostgreSQL store 'runs' at '127.0.0.1' cannot be reached. Check that the server runs, and the DSN."
    )
    assert told.value.retryable
    assert "hunter2" not in f"{told.value.__cause__} {store!r}"


@needs_postgres
@pytest.mark.parametrize("dsn", ["nonsense", "postgresql://ann:hunter2@[::1/runs"])
def test_a_dsn_that_is_none_is_told_without_what_it_holds(dsn: str) -> None:
    with pytest.raises(StoreError, match="DSN") as told:
        asyncio.run(PostgresStore(dsn).open())
    assert "hunter2" not in f"{told.value} {told.value.__cause__} {told.value.__context__}"


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"needs psycopg\. Install it: pip install 'ferrule\[postgres\]'"):
        asyncio.run(PostgresStore("postgresql://localhost/runs").open())
