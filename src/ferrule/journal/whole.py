"""What a store does within its transaction for runs as wholes, the same for every database."""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.journal import transaction
from ferrule.journal.keeping import Whole
from ferrule.journal.store import Asked, Decision, Entry, Given, Row
from ferrule.journal.writer import Connection


def whole(c: Connection, run_id: str) -> Whole | None:
    """As `Store.whole`.

    Args:
        c: A connection, within a transaction that writes: whoever else would change the run waits for its end.
        run_id: The run.

    Since 0.1.
    """
    c.run("lock_run", run_id)
    entry = transaction.entry(c, run_id)
    if entry is None:
        return None
    answers = [
        (request_id, Given(at, verdict, Decision(*rest)))
        for request_id, at, verdict, *rest in c.run("answers_of_run", run_id)
    ]
    rows = transaction.rows(c, run_id, 0)
    return Whole(
        entry._replace(forked_from=None, forked_at=None),  # with all its records it shares none
        rows,
        transaction.letters(c, run_id),
        [Asked(*row) for row in c.run("requests_of_run_alone", run_id)],
        answers,
        _digests(c, entry, rows),
        holder=transaction.workers(c).get(entry.worker or ""),
    )


def _digests(c: Connection, entry: Entry, rows: Sequence[Row]) -> list[str]:
    """What a run's records refer to; those that a fork shares are linked with the run whose they are."""
    line = [entry.run_id]
    while entry.forked_from is not None:
        around = transaction.entry(c, entry.forked_from)
        if around is None:
            break
        entry = around
        line.append(entry.run_id)
    found: set[str] = {row[0] for row in c.run("linked", transaction.text(line))}
    return sorted(d for d in found if len(line) == 1 or any(d.encode() in row.body for row in rows))


def adopt(c: Connection, given: Whole) -> Entry | None:
    """As `Store.adopt`.

    Args:
        c: A connection, within a transaction.
        given: The run.

    Since 0.1.
    """
    e = given.entry
    tags = transaction.text(e.tags)
    about = (e.run_id, e.definition, e.state, e.seq, e.epoch, e.worker, e.parent, e.root, e.session, e.key, tags)
    if not c.change("adopt", *about, e.created, e.updated, e.due):
        return transaction.in_the_way(c, e.key, e.run_id)
    pos = c.run("position", e.run_id)[0][0]
    c.many("record", [(pos, *row) for row in given.rows])
    c.many("open", given.requests)
    c.many("audit", [(request_id, at, verdict, *decision) for request_id, (at, verdict, decision) in given.answers])
    c.many("post", [(e.run_id, letter.kind, letter.at, letter.body) for letter in given.letters])
    c.many("keep", sorted(given.blobs.items()))
    c.many("link", [(e.run_id, digest) for digest in given.digests])
    if e.worker is not None and given.holder is not None:
        c.change("enlist_lapsed", e.worker, transaction.text(given.holder[1]))
    return None


def over(c: Connection, before: float | None) -> list[str]:
    """As `Store.over`.

    Args:
        c: A connection.
        before: Only those whose last record is older.

    Since 0.1.
    """
    return [row[0] for row in c.run("over", before)]


def size(c: Connection) -> int:
    """As `Store.size`.

    Args:
        c: A connection.

    Since 0.1.
    """
    return int(c.run("size")[0][0])


def weigh(c: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """As `Store.weigh`.

    Args:
        c: A connection.
        run_ids: The runs.

    Since 0.1.
    """
    return {run_id: int(much) for run_id, much in c.run("weigh", transaction.text(run_ids))}


def remove_blobs(c: Connection, before: float) -> int:
    """As `Store.remove_blobs`.

    Args:
        c: A connection, within a transaction.
        before: Runs whose last record is older.

    Since 0.1.
    """
    c.run("lock_blobs")
    return c.change("remove_old_blobs", before)
