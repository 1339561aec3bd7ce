"""Every operation of a store, once, over named queries; a database brings its connection and its dialect of them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, TypeVar

from ferrule.errors import LeaseLost, StoreError
from ferrule.journal.store import Asked, Batch, Decision, Entry, Held, Kind, Letter, NewRun, Row, State, Verdict
from ferrule.journal.writer import Connection, Writer

T = TypeVar("T")

VERSION = 1
# Records that tell of progress: a run that is taken again and again and writes none of them is poison.
_PROGRESS = frozenset({"model.responded", "tool.settled", "wait.opened", "child.settled", "timer.fired"})
_BLOCK = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


@cache
def queries(dialect: str) -> dict[str, str]:
    """The named queries of a dialect.

    Args:
        dialect: Name of a file beside this one, without `.sql`.

    Since 0.1.
    """
    text = (resources.files(__package__) / "sql" / f"{dialect}.sql").read_text("utf-8")
    return {name: re.sub(r"^--.*\n", "", body, flags=re.MULTILINE).strip() for name, body in _BLOCK.findall(text)}


class SqlStore:
    """A store over an SQL database.

    Args:
        connect: Makes a connection; called in the thread that uses it.
        name: How the store is called in errors and threads.
        shared: Whether all connections see one database, so that reads need not wait for commits.

    Since 0.1.
    """

    def __init__(self, connect: Callable[[], Connection], name: str, *, shared: bool) -> None:
        """Connect to nothing yet."""
        self._connect = connect
        self._name = name
        self._shared = shared
        self._writer: Writer | None = None
        self._reader: Writer | None = None
        self._opened = 0

    async def open(self) -> None:
        """Create or migrate the schema, under a lock; refuse a newer one. May be called again; close as often.

        Raises:
            StoreError: The place cannot be used: newer, corrupt, read-only, not there.
        """
        self._opened += 1
        if self._writer is not None:
            return
        self._writer = Writer(self._connect, f"{self._name} writer")
        try:
            await self._writer.submit(partial(_migrated, self._name))
        except BaseException:
            await self.close()
            raise
        self._reader = Writer(self._connect, f"{self._name} reader") if self._shared else self._writer

    async def close(self) -> None:
        """Write what is waiting, and let go of the place."""
        self._opened -= 1
        if self._opened > 0:
            return
        writer, reader, self._writer, self._reader = self._writer, self._reader, None, None
        if reader is not None and reader is not writer:
            await reader.close()
        if writer is not None:
            await writer.close()

    def _write(self, work: Callable[[Connection], T]) -> Awaitable[T]:
        if self._writer is None:
            raise StoreError(f"{self._name} is not open. Use it within `async with app.working()`, or open it.")
        return self._writer.submit(work)

    async def _read(self, name: str, **params: Any) -> list[tuple[Any, ...]]:
        if self._reader is None:
            raise StoreError(f"{self._name} is not open. Use it within `async with app.working()`, or open it.")
        return await self._reader.submit(lambda connection: connection.run(name, params))

    # -- runs ---------------------------------------------------------------------------------------------------

    async def create(self, new: NewRun, worker: str | None) -> Held | Entry:
        """Create a run with its first record.

        Args:
            new: The run.
            worker: Who holds it from the start; None leaves it to be claimed.

        Returns:
            The holding, with epoch 1; or, where a run has this key (or this id) already, that run.
        """
        return await self._write(partial(_create, new, worker))

    def append(self, held: Held, batch: Batch) -> Awaitable[None]:
        """Write records; appends of one holding are written in the order of these calls.

        Args:
            held: The holding; its run, and its epoch as the fence.
            batch: What to write.

        Returns:
            Done when it is durable; a LeaseLost when somebody else has taken the run.
        """
        return self._write(partial(_append, held, batch))

    async def rows(self, run_id: str, after: int = 0) -> list[Row]:
        """A run's records in order.

        Args:
            run_id: The run.
            after: Leave out those up to this seq.
        """
        return [Row(*row) for row in await self._read("rows", run_id=run_id, after=after)]

    async def entry(self, run_id: str) -> Entry | None:
        """One run.

        Args:
            run_id: Its id.
        """
        found = await self._read("entry", run_id=run_id)
        return _entry(found[0]) if found else None

    async def entries(
        self, *, state: State | None = None, definition: str | None = None, parent: str | None = None, limit: int = 100
    ) -> list[Entry]:
        """Runs, the latest first.

        Args:
            state: Only those that stand so.
            definition: Only those of this name.
            parent: Only those inside this run.
            limit: At most so many.
        """
        found = await self._read("entries", state=state, definition=definition, parent=parent, limit=limit)
        return [_entry(row) for row in found]

    async def remove(self, run_ids: Sequence[str]) -> int:
        """Remove runs that are over, the runs inside them, and blobs that nothing refers to any more.

        Args:
            run_ids: The runs; one that is not over stays.

        Returns:
            How many were removed.
        """
        return await self._write(partial(_remove, list(run_ids)))

    # -- workers ------------------------------------------------------------------------------------------------

    async def enlist(self, worker: str, about: Mapping[str, Any]) -> None:
        """Begin to be alive.

        Args:
            worker: An id, new for each process.
            about: Host, boot, process id and start time, for others to prove it dead.
        """
        told = {"worker": worker, "about": json.dumps(dict(about))}
        await self._write(lambda c: c.change("enlist", {**told, "now": time.time()}))

    async def beat(self, worker: str) -> bool:
        """Go on being alive.

        Args:
            worker: Its id.

        Returns:
            Whether it still was; if not, its runs may have been taken.
        """
        return bool(await self._write(lambda c: c.change("beat", {"worker": worker, "now": time.time()})))

    async def retire(self, worker: str) -> None:
        """Stop being alive: every run it holds can be taken at once.

        Args:
            worker: Its id.
        """

        def gone(connection: Connection) -> None:
            connection.change("orphan", {"worker": worker})
            connection.change("retire", {"worker": worker})

        await self._write(gone)

    async def workers(self) -> dict[str, tuple[float, dict[str, Any]]]:
        """Who is enlisted: seconds since the last beat, and what they said of themselves."""
        found = await self._read("workers", now=time.time())
        return {worker: (since, json.loads(about)) for worker, since, about in found}

    async def claim(self, worker: str, definitions: Sequence[str], limit: int, lease: float) -> list[Held]:
        """Take runs that are due: held by nobody alive and running, or parked with mail or past their `due`.

        Args:
            worker: Who takes them.
            definitions: Names of what it can run.
            limit: At most so many.
            lease: Seconds without a beat after which a holder counts as dead.

        Returns:
            Those taken, each with a record `run.taken`, the next epoch and the state `running`.
        """
        asked = {"definitions": json.dumps(list(definitions)), "limit": limit, "lease": lease, "now": time.time()}
        found: list[tuple[Any, ...]] = []
        for name in ("orphaned", "mailed", "overdue"):
            found += await self._read(name, **asked)
        if not found:  # nearly always: no transaction that writes
            return []
        due = dict.fromkeys(found)
        return await self._write(partial(_take, worker, list(due)[:limit]))

    async def release(self, held: Held) -> None:
        """Let go of a run that is still to be driven, for whoever claims it next.

        Args:
            held: The holding.
        """
        await self._write(lambda c: c.change("let_go", {"run_id": held.run_id, "epoch": held.epoch}))

    # -- from outside -------------------------------------------------------------------------------------------

    async def post(self, run_id: str, kind: Kind, body: bytes) -> bool:
        """Leave a letter for a run.

        Args:
            run_id: The run.
            kind: What it is.
            body: JSON in UTF-8.

        Returns:
            Whether the run is there and not over; else nothing was left.
        """
        letter = {"run_id": run_id, "kind": kind, "body": body}
        return bool(await self._write(lambda c: c.change("post", {**letter, "now": time.time()})))

    async def letters(self, run_id: str) -> list[Letter]:
        """What has come for a run and was not read, in order of arrival.

        Args:
            run_id: The run.
        """
        return [Letter(*row) for row in await self._read("letters", run_id=run_id)]

    async def asked(self, request_id: str) -> Asked | None:
        """One request.

        Args:
            request_id: Its address.
        """
        found = await self._read("asked", request_id=request_id)
        return Asked(*found[0]) if found else None

    async def requests(self, *, run_id: str | None = None, state: str | None = "open", limit: int = 100) -> list[Asked]:
        """Requests, the oldest first.

        Args:
            run_id: Only those of this run and the runs inside it.
            state: Only those that stand so; None for all.
            limit: At most so many.
        """
        return [Asked(*row) for row in await self._read("requests", run_id=run_id, state=state, limit=limit)]

    async def answer(self, request_id: str, decision: Decision, now: float) -> tuple[Verdict, Asked | None]:
        """Answer a request: compare-and-set from `open`, and a letter `answer` for its run. Refused ones are kept too.

        Args:
            request_id: Its address.
            decision: The answer.
            now: Seconds since 1970; at or after `expires` none is taken.

        Returns:
            `accepted`; `same` when these very bytes were accepted before; else why not, with the request as it stands.
        """
        return await self._write(partial(_answer, request_id, decision, now))

    async def blob(self, digest: str) -> bytes | None:
        """The bytes under a SHA-256.

        Args:
            digest: 64 hexadecimal digits.
        """
        found = await self._read("blob", digest=digest)
        return found[0][0] if found else None


# -- the operations that write ----------------------------------------------------------------------------------


def _migrated(name: str, connection: Connection) -> None:
    if not connection.run("tables")[0][0]:
        connection.run("schema")
        return
    try:
        version = connection.run("version")[0][0]
    except Exception as error:
        raise StoreError(f"{name} holds other tables than ferrule's. Name another place.") from error
    if version > VERSION:
        raise StoreError(f"{name} has schema version {version}, and this ferrule knows {VERSION}. Use a newer one.")


def _create(new: NewRun, worker: str | None, connection: Connection) -> Held | Entry:
    told = {**new._asdict(), "worker": worker, "root": new.root or new.run_id, "tags": json.dumps(dict(new.tags))}
    del told["started"]
    if not connection.change("create_run", {**told, "at": new.started.at}):
        (first, *_) = connection.run("run_of_key", {"run_id": new.run_id, "key": new.key})
        return _entry(connection.run("entry", {"run_id": first[0]})[0])
    connection.many("add_record", [(new.run_id, *new.started)])
    return Held(new.run_id, 1, 1)


def _append(held: Held, batch: Batch, connection: Connection) -> None:
    run_id, now = held.run_id, time.time()
    about = {"run_id": run_id, "epoch": held.epoch, "now": now}
    rows = batch.rows
    changed = 1
    if rows:
        progress = any(row.type in _PROGRESS for row in rows)
        changed = connection.change(
            "advance", {**about, "first": rows[0].seq, "last": rows[-1].seq, "progress": progress}
        )
    if changed and batch.state is not None and batch.state != "running":
        changed = connection.change("set_state", {**about, "state": batch.state, "due": batch.due})
        if batch.state not in ("suspended", "blocked"):
            connection.change("close_requests", {"run_id": run_id})
    if not changed:
        raise LeaseLost(f"run {run_id} has been taken by another worker. Nothing was written.")
    if rows:
        connection.many("add_record", [(run_id, *row) for row in rows])
    if batch.blobs:
        connection.many("add_blob", list(batch.blobs.items()))
        connection.many("add_ref", [(run_id, digest) for digest in batch.blobs])
    for asked in batch.opened:
        connection.change("open_request", asked._asdict())
    if batch.closed:
        connection.many("close_request", [(request_id,) for request_id in batch.closed])
    if batch.read:
        connection.many("read_mail", [(letter,) for letter in batch.read])


def _take(worker: str, due: Sequence[tuple[Any, ...]], connection: Connection) -> list[Held]:
    taken: list[Held] = []
    now = time.time()
    for run_id, epoch, seq, takeovers in due:
        if connection.change("take", {"worker": worker, "run_id": run_id, "epoch": epoch, "now": now}):
            body = json.dumps({"worker": worker, "epoch": epoch + 1}, separators=(",", ":")).encode()
            connection.many("add_record", [(run_id, seq + 1, "run.taken", 1, now, body)])
            taken.append(Held(run_id, epoch + 1, seq + 1, takeovers + 1))
    return taken


def _answer(request_id: str, decision: Decision, now: float, connection: Connection) -> tuple[Verdict, Asked | None]:
    found = connection.run("asked", {"request_id": request_id})
    asked = Asked(*found[0]) if found else None
    told = {"request_id": request_id, **decision._asdict(), "now": now}
    verdict = _verdict(asked, decision, now)
    if verdict == "expired":
        connection.change("expire", {"request_id": request_id})
    if verdict == "accepted" and asked is not None:
        connection.change("accept", told)
        body = b'{"op":%b,"answer":%b,"by":%b}' % (
            json.dumps(asked.op).encode(), decision.answer, json.dumps(decision.by).encode(),
        )  # fmt: skip
        connection.change("post", {"run_id": asked.run_id, "kind": "answer", "body": body, "now": now})
    connection.change("keep_answer", {**told, "verdict": verdict})
    found = connection.run("asked", {"request_id": request_id})
    return verdict, Asked(*found[0]) if found else None


def _verdict(asked: Asked | None, decision: Decision, now: float) -> Verdict:
    if asked is None:
        return "unknown"
    if asked.state == "answered":
        return "same" if asked.answer == decision.answer else "answered"
    if asked.state == "expired" or (asked.state == "open" and asked.expires is not None and now >= asked.expires):
        return "expired"
    return "accepted" if asked.state == "open" else "closed"


def _remove(run_ids: Sequence[str], connection: Connection) -> int:
    removed = 0
    for run_id in run_ids:
        for (one,) in connection.run("removable", {"run_id": run_id}):
            connection.run("remove", {"run_id": one})
            removed += 1
    if removed:
        connection.change("sweep")
    return removed


def _entry(row: Sequence[Any]) -> Entry:
    entry = Entry(*row)
    return entry._replace(tags=json.loads(entry.tags))  # pyright: ignore[reportArgumentType] - as it is stored
