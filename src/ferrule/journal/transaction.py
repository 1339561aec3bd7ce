"""What each operation of a store does within its transaction, the same for every database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ferrule.errors import LeaseLost, StoreError, UsageError
from ferrule.journal.store import Asked, Batch, Decision, Entry, Given, Held, Kind, Letter, NewRun, Row, State, Verdict
from ferrule.journal.writer import Connection
from ferrule.strict_json import dumps, parse, plain

OVER: Final = frozenset({"done", "incomplete", "failed", "cancelled"})
ENDLESS: Final = 2**63 - 1
FORGET: Final = 86_400.0  # seconds without a beat after which nothing that a worker began can be going on
KNOWN: Final = 10_000  # runs whose numbers a connection remembers


def text(value: Any) -> str:
    """Strict JSON, as lists and objects are passed to a block.

    Args:
        value: What `plain` takes.

    Since 0.1.
    """
    return dumps(plain(value)).decode()


# -- runs ---------------------------------------------------------------------------------------------------------


def create(c: Connection, new: NewRun, worker: str | None) -> Held | Entry:
    """As `Store.create`.

    Args:
        c: A connection, within a transaction.
        new: The run.
        worker: Who holds it.

    Raises:
        UsageError: The record is not the first.
        StoreError: As `in_the_way`; or what a fork shares is not there.

    Since 0.1.
    """
    if new.started.seq != 1:
        raise UsageError(f"run {new.run_id} cannot start with record {new.started.seq}: the first is 1.")
    if new.forked_from is not None:
        _check_fork(c, new)
    at, epoch = new.started.at if new.forked_from is None else c.now(), 0 if worker is None else 1
    root, seq = new.root or new.run_id, new.forked_at or 1
    about = (new.run_id, new.definition, epoch, worker, new.parent, root, new.session, new.key, text(new.tags), at)
    about = (*about, seq, new.forked_from, new.forked_at)
    if not c.change("create", *about):
        return in_the_way(c, new.key, new.run_id)
    c.many("record", [(_position(c, new.run_id), *new.started)])
    _keep(c, new.run_id, new.blobs)
    return Held(new.run_id, epoch, seq)


def _check_fork(c: Connection, new: NewRun) -> None:
    """That there is what a fork shares; until the end of the transaction nobody removes it."""
    c.run("lock_blobs")  # as whoever removes does
    found = entry(c, new.forked_from or "")
    if found is None:
        raise StoreError(f"run {new.forked_from} is not in the store, so no fork of it can be made.")
    if not 1 <= (new.forked_at or 0) <= found.seq:
        raise StoreError(f"run {found.run_id} has records 1 to {found.seq}, and no record {new.forked_at}.")


def in_the_way(c: Connection, key: str | None, run_id: str) -> Entry:
    """The run that has a key, or else an id, which a new one would have.

    Args:
        c: A connection, within a transaction.
        key: The key.
        run_id: The id.

    Raises:
        StoreError: It is gone meanwhile.

    Since 0.1.
    """
    found = c.run("entry_of_key_or_id", key, run_id)
    if not found:
        raise StoreError(f"another run like {run_id} was removed just now. Try again.", retryable=True)
    return _entry(found[0])


def append(c: Connection, held: Held, batch: Batch) -> None:
    """As `Store.append`.

    Args:
        c: A connection, within a transaction.
        held: The holding.
        batch: What to write.

    Raises:
        LeaseLost: The run is held by another, or by nobody.
        StoreError: The rows do not follow the run's last.

    Since 0.1.
    """
    run_id, epoch, *_ = held
    rows, blobs, opened, closed, read, state, due = batch
    if rows:
        first, last = rows[0].seq, rows[-1].seq
        if len(rows) > 1 and [row.seq for row in rows] != [*range(first, last + 1)]:
            raise StoreError(f"the records of one batch for run {run_id} do not follow one another.")
        pos = c.positions.get(run_id) or _position(c, run_id)
        if not c.later("advance", [(last, rows[-1].at, pos, run_id, epoch, first - 1)]):
            raise _why(c, held, first)
        c.later("record", [(pos, *row) for row in rows])
    elif not c.change("hold", run_id, epoch):
        raise _why(c, held, None)
    if blobs:
        _keep(c, run_id, blobs)
    if opened:
        c.many("open", opened)
    if closed:
        c.change("close", text(closed), rows[-1].at if rows else c.now())
    if read:
        c.change("read", run_id, text([str(id) for id in read]))
    if state is not None:
        _stand(c, run_id, state, due)


def _position(c: Connection, run_id: str) -> int:
    """The number of a run, which records have in place of its id; 0 when it is not there."""
    if len(c.positions) > KNOWN:
        c.positions.clear()
    found = c.run("position", run_id)
    if not found:
        return 0
    c.positions[run_id] = pos = found[0][0]
    return pos


def _why(c: Connection, held: Held, first: int | None) -> StoreError:
    """Why an append was refused."""
    found = c.run("entry", held.run_id)
    if not found:
        return LeaseLost(f"run {held.run_id} is not in the store; it was removed, or never created.")
    entry = _entry(found[0])
    if entry.epoch != held.epoch:
        whose = entry.worker or "another worker before, and by nobody now"
        return LeaseLost(f"run {held.run_id} was taken by {whose}; stop driving it.")
    if entry.worker is None:
        return LeaseLost(f"run {held.run_id} is held by nobody ({entry.state}); claim it to go on with it.")
    return StoreError(f"record {first} of run {held.run_id} does not follow the last one, {entry.seq}.")


def _stand(c: Connection, run_id: str, state: State, due: float | None) -> None:
    if state == "running":
        return
    c.change("stand", state, due if state == "suspended" else None, run_id)
    if state in OVER:
        c.change("close_all", run_id)


def _keep(c: Connection, run_id: str, blobs: Mapping[str, bytes]) -> None:
    # In one order everywhere, so that two processes with the same blobs do not wait for each other.
    for digest in sorted(blobs):
        c.change("keep", digest, blobs[digest])
        c.change("link", run_id, digest)


def rows(c: Connection, run_id: str, after: int) -> list[Row]:
    """As `Store.rows`.

    Args:
        c: A connection.
        run_id: The run.
        after: Leave out those up to this seq.

    Since 0.1.
    """
    found: list[Row] = []
    origin, low, high = run_id, after, ENDLESS
    while origin is not None and (line := c.run("line", origin)):
        pos, origin, shared = line[0]
        found += [Row(*row) for row in c.run("records", pos, low, high)]
        low, high = max(after, 1), min(high, shared or 0)  # the first record of a fork is its own
    return sorted(found)


def entry(c: Connection, run_id: str) -> Entry | None:
    """As `Store.entry`.

    Args:
        c: A connection.
        run_id: The run.

    Since 0.1.
    """
    found = c.run("entry", run_id)
    return _entry(found[0]) if found else None


def entries(c: Connection, *filters: Any) -> list[Entry]:
    """As `Store.entries`.

    Args:
        c: A connection.
        filters: State, definition, parent, limit.

    Since 0.1.
    """
    return [_entry(row) for row in c.run("entries", *filters)]


def _entry(row: tuple[Any, ...]) -> Entry:
    found = Entry(*row)
    return found._replace(tags=parse(found.tags))  # pyright: ignore[reportArgumentType] -- the column is text


def remove(c: Connection, run_ids: Sequence[str]) -> int:
    """As `Store.remove`.

    Args:
        c: A connection, within a transaction.
        run_ids: The runs.

    Since 0.1.
    """
    c.run("lock_blobs")
    removed = 0
    while found := c.run("removable", text(run_ids)):  # those forked from them come first, and may be among them
        gone = text([row[0] for row in found])
        digests = text([row[0] for row in c.run("linked", gone)])
        for block in ("remove_records", "remove_mail", "remove_answers", "remove_requests", "remove_links"):
            c.change(block, gone)
        c.change("remove_blobs", digests)
        removed += c.change("remove_runs", gone)
    return removed


def forks(c: Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """As `Store.forks`.

    Args:
        c: A connection.
        run_ids: The runs.

    Since 0.1.
    """
    found: dict[str, list[str]] = {}
    for origin, fork in c.run("forks", text(run_ids)):
        found.setdefault(origin, []).append(fork)
    return found


# -- workers ------------------------------------------------------------------------------------------------------


def enlist(c: Connection, worker: str, about: Mapping[str, Any]) -> None:
    """As `Store.enlist`.

    Args:
        c: A connection, within a transaction.
        worker: Its id.
        about: What it says of itself.

    Since 0.1.
    """
    now, lease = c.now(), about.get("lease")
    c.change("forget_workers", now - FORGET)
    c.change("enlist", worker, text(about), now, lease)


def beat(c: Connection, worker: str) -> bool:
    """As `Store.beat`.

    Args:
        c: A connection, within a transaction.
        worker: Its id.

    Since 0.1.
    """
    return c.change("beat", c.now(), worker) > 0


def retire(c: Connection, worker: str) -> None:
    """As `Store.retire`.

    Args:
        c: A connection, within a transaction.
        worker: Its id.

    Since 0.1.
    """
    c.change("retire", worker)
    c.change("let_go_all", worker)


def workers(c: Connection) -> dict[str, tuple[float, dict[str, Any]]]:
    """As `Store.workers`.

    Args:
        c: A connection.

    Since 0.1.
    """
    now = c.now()
    return {worker: (max(0.0, now - beaten), parse(about)) for worker, about, beaten in c.run("workers")}


def claim(
    c: Connection, worker: str, definitions: Sequence[str], limit: int, lease: float, only: str | None = None
) -> list[Held]:
    """As `Store.claim`.

    Args:
        c: A connection, within a transaction.
        worker: Who takes them.
        definitions: What it can run.
        limit: At most so many.
        lease: Seconds without a beat after which a holder counts as dead that did not say its own.
        only: This run and no other.

    Since 0.1.
    """
    c.run("lock_claims")
    now = c.now()
    taken: list[Held] = []
    for run_id, epoch, seq, takeovers, former in c.run("due", text(definitions), lease, now, limit, only):
        held = Held(run_id, epoch + 1, seq + 1, takeovers + 1)
        # Its holder may have let it end, or gone on, since it was looked at.
        if c.change("take", worker, held.seq, now, run_id, epoch, seq):
            body = dumps({"worker": worker, "epoch": held.epoch})
            c.many("record", [(_position(c, run_id), held.seq, "run.taken", 1, now, body)])
            if former is not None and former != worker:
                c.change("lapse", former)  # its next beat says so, should it have one
            taken.append(held)
    return taken


def is_due(c: Connection, definitions: Sequence[str], lease: float, only: str | None = None) -> bool:
    """Whether there is anything to claim; takes nothing, and so needs no transaction that writes.

    Args:
        c: A connection.
        definitions: As for `claim`.
        lease: As for `claim`.
        only: As for `claim`.

    Since 0.1.
    """
    return bool(c.run("due", text(definitions), lease, c.now(), 1, only))


def release(c: Connection, held: Held) -> None:
    """As `Store.release`.

    Args:
        c: A connection, within a transaction.
        held: The holding.

    Since 0.1.
    """
    c.change("let_go", held.run_id, held.epoch)


# -- letters, requests and answers --------------------------------------------------------------------------------


def post(c: Connection, run_id: str, kind: Kind, body: bytes) -> bool:
    """As `Store.post`.

    Args:
        c: A connection, within a transaction.
        run_id: The run.
        kind: What it is.
        body: JSON in UTF-8.

    Since 0.1.
    """
    state = c.run("lock_run", run_id)
    if not state or state[0][0] in OVER:
        return False
    c.change("post", run_id, kind, c.now(), body)
    return True


def letters(c: Connection, run_id: str) -> list[Letter]:
    """As `Store.letters`.

    Args:
        c: A connection.
        run_id: The run.

    Since 0.1.
    """
    return [Letter(*row) for row in c.run("letters", run_id)]


def letters_of(c: Connection, worker: str, kind: Kind) -> list[tuple[str, Letter]]:
    """As `Store.letters_of`.

    Args:
        c: A connection.
        worker: Who holds the runs.
        kind: What they are.

    Since 0.1.
    """
    return [(run_id, Letter(*row)) for run_id, *row in c.run("letters_of_worker", worker, kind)]


def asked(c: Connection, request_id: str) -> Asked | None:
    """As `Store.asked`.

    Args:
        c: A connection.
        request_id: Its address.

    Since 0.1.
    """
    found = c.run("asked", request_id)
    return Asked(*found[0]) if found else None


def requests(c: Connection, run_id: str | None, state: str | None, limit: int) -> list[Asked]:
    """As `Store.requests`.

    Args:
        c: A connection.
        run_id: Only those of this run and the runs inside it.
        state: Only those that stand so.
        limit: At most so many.

    Since 0.1.
    """
    if run_id is not None:
        found = c.run("requests_of_run", run_id, state, limit)
    else:
        found = c.run("open_requests", limit) if state == "open" else c.run("requests", state, limit)
    return [Asked(*row) for row in found]


def answer(c: Connection, request_id: str, decision: Decision, now: float) -> tuple[Verdict, Asked | None]:
    """As `Store.answer`.

    Args:
        c: A connection, within a transaction.
        request_id: Its address.
        decision: The answer.
        now: Seconds since 1970.

    Since 0.1.
    """
    found = asked(c, request_id)
    if found is None:
        return "unknown", None
    # The run before the request, as an append does; and only then what nobody else can change meanwhile.
    c.run("lock_run", found.run_id)
    found = asked(c, request_id)
    if found is None:
        return "unknown", None
    verdict = _verdict(found, decision, now)
    if verdict == "expired" and found.state == "open":
        c.change("expire", request_id)
    elif verdict == "accepted":
        c.change("answer", decision.answer, decision.by, decision.channel, now, request_id)
        c.change("post", found.run_id, "answer", now, _letter(found, decision, now))
    if verdict != "same":
        c.change("audit", request_id, now, verdict, *decision)
    return verdict, asked(c, request_id)


def _verdict(found: Asked, decision: Decision, now: float) -> Verdict:
    if found.state == "open":
        return "expired" if found.expires is not None and now >= found.expires else "accepted"
    if found.state == "answered":
        return "same" if found.answer == decision.answer else "answered"
    return "expired" if found.state == "expired" else "closed"


def _letter(found: Asked, decision: Decision, now: float) -> bytes:
    about = {"request_id": found.request_id, "op": found.op, "by": decision.by, "channel": decision.channel, "at": now}
    return dumps(plain(about))[:-1] + b',"answer":' + decision.answer + b"}"


def answers(c: Connection, request_id: str) -> list[Given]:
    """As `Store.answers`.

    Args:
        c: A connection.
        request_id: Its address.

    Since 0.1.
    """
    return [Given(at, verdict, Decision(*rest)) for at, verdict, *rest in c.run("answers", request_id)]


def blob(c: Connection, digest: str) -> bytes | None:
    """As `Store.blob`.

    Args:
        c: A connection.
        digest: 64 hexadecimal digits.

    Since 0.1.
    """
    found = c.run("blob", digest)
    return found[0][0] if found else None
