"""A run as one file: a line of JSON for each thing that a store holds of it.

The first line is the header: versions, and how the run stands. Then come its
records, letters, requests, the answers that were given to them, the bytes it
refers to, and an end that counts and seals the lines before. What a store
keeps as JSON stands in a line as it is, to the byte: the same run gives the
same file, whatever store it comes from.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast, get_args

from ferrule.errors import ArchiveError, JSONSyntaxError, StoreError, UsageError
from ferrule.journal.alive import is_dead
from ferrule.journal.keeping import Whole
from ferrule.journal.record import FACTS, VERSION
from ferrule.journal.store import Asked, Decision, Entry, Given, Letter, Row, State, Store
from ferrule.strict_json import dumps, parse, plain

T = TypeVar("T")

FORMAT: Final = 1
_LEASE: Final = 10.0  # seconds; of a holder that did not say
_BODY: Final = b',"body":'
_RUN: Final = (
    "run_id", "definition", "state", "epoch", "parent", "root", "session", "key", "tags", "created", "updated", "due",
)  # fmt: skip
_REQUEST: Final = ("request_id", "op", "kind", "digest", "expires", "state", "opened")


# -- out --------------------------------------------------------------------------------------------------------


async def export_run(store: Store, run_id: str) -> AsyncIterator[bytes]:
    """The lines of a run's file, each with its newline.

    Args:
        store: The store, open.
        run_id: The run.

    Raises:
        UsageError: There is no such run, or a living worker drives it: a copy could do the same once more.
        StoreError: One of its records is damaged.

    Since 0.1.
    """
    whole = await store.whole(run_id)
    if whole is None:
        raise UsageError(f"there is no run {run_id!r} in the store.")
    if _is_driven(whole):
        raise UsageError(
            f"run {run_id} is being driven by worker {whole.entry.worker}, and a copy could do the same once more. "
            "Export it once it has come to a halt or the worker has ended."
        )
    sealed, lines = hashlib.sha256(), 0
    for line in _lines(whole):
        sealed.update(line)
        lines += 1
        yield line
    for digest in whole.digests:
        line = _blob_line(digest, await store.blob(digest))
        sealed.update(line)
        lines += 1
        yield line
    yield _line("end", {"lines": lines, "sha256": sealed.hexdigest()})


def _is_driven(whole: Whole) -> bool:
    if whole.holder is None or whole.entry.state != "running":
        return False
    since, about = whole.holder
    return since < about.get("lease", _LEASE) and not is_dead(about)


def _lines(whole: Whole) -> Iterable[bytes]:
    e = whole.entry
    holder = None if whole.holder is None else {"worker": e.worker, "about": whole.holder[1]}
    run = {name: getattr(e, name) for name in _RUN}
    yield _line("run", {"format": FORMAT, "record": VERSION, "run": run, "holder": holder})
    for row in whole.rows:
        yield _line("record", {"seq": row.seq, "type": row.type, "v": row.v, "at": row.at}, _checked(row, e.run_id))
    for letter in whole.letters:
        yield _line("letter", {"kind": letter.kind, "at": letter.at}, letter.body)
    for asked in whole.requests:
        yield _line("request", {name: getattr(asked, name) for name in _REQUEST}, asked.body)
    for request_id, (at, verdict, (answer, by, channel, digest)) in whole.answers:
        about = {"request_id": request_id, "at": at, "verdict": verdict, "by": by, "channel": channel, "digest": digest}
        yield _line("answer", about, answer)


def _checked(row: Row, run_id: str) -> bytes:
    try:
        parse(row.body)
    except ValueError as error:
        raise StoreError(f"record {row.seq} of run {run_id} ({row.type}) is damaged. Restore the store.") from error
    return row.body


def _line(kind: str, facts: Mapping[str, Any], body: bytes | None = None) -> bytes:
    told = dumps(plain({"is": kind, **facts}))
    return told + b"\n" if body is None else told[:-1] + _BODY + body + b"}\n"


def _blob_line(digest: str, data: bytes | None) -> bytes:
    """Bytes that retention has taken are told as gone."""
    return _line("blob", {"sha256": digest, "data": None if data is None else base64.b64encode(data).decode("ascii")})


# -- in ---------------------------------------------------------------------------------------------------------


async def import_run(store: Store, lines: Iterable[bytes]) -> tuple[Entry, bool]:
    """Take in a run from its file: all of it in one transaction, or nothing.

    A run that is not over goes on here as soon as a worker looks, so take in only what you trust, and have one copy of
    it go on.

    Args:
        store: The store, open.
        lines: The lines of the file.

    Returns:
        The run, and whether it is new: False where the very same is there already.

    Raises:
        ArchiveError: The file is damaged, cut or newer than this code; or another run has this id or idempotency key.
        StoreError: The store cannot be written.

    Since 0.1.
    """
    whole = read_archive(lines)
    run_id = whole.entry.run_id
    there = await store.adopt(whole)
    if there is None:
        return whole.entry, True
    if there.run_id != run_id:
        raise ArchiveError(
            f"run {there.run_id} has the idempotency key of run {run_id}. Remove it first, or use another store.",
            taken=True,
        )
    found = await store.whole(run_id)
    if found is not None and [*_lines(found)] == [*_lines(whole)] and found.digests == whole.digests:
        return there, False
    raise ArchiveError(
        f"run {run_id} is in the store already, and differs from the file. Remove it first, or use another store.",
        taken=True,
    )


def read_archive(lines: Iterable[bytes]) -> Whole:
    """A run from the lines of its file.

    Args:
        lines: The lines.

    Raises:
        ArchiveError: It is damaged, cut, newer than this code, or no such file at all; said is what is wrong.

    Since 0.1.
    """
    whole, sealed, number, is_whole = _Growing([], [], [], [], [], {}), hashlib.sha256(), 0, False
    header: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        if is_whole:
            raise ArchiveError(f"line {number} stands behind the end of the run. Take one run from one file.")
        told, body = _read_line(number, line)
        if number == 1:
            header = _header(told)
        elif told["is"] == "end":
            is_whole = True
            if (told.get("lines"), told.get("sha256")) != (number - 1, sealed.hexdigest()):
                raise ArchiveError(
                    "the file is damaged: its lines are not those that were sealed. Export the run again."
                )
        else:
            _in_line(number, told["is"], whole.take, told, body, header["run"].get("run_id"))
        sealed.update(line)
    if not is_whole:
        raise ArchiveError(f"the file is cut: it ends after line {number}, before its end. Get it whole.")
    return _in_line(1, "run", whole.made, header)


class _Growing(NamedTuple):
    """What was read so far."""

    rows: list[Row]
    letters: list[Letter]
    requests: list[Asked]
    answers: list[tuple[str, Given]]
    digests: list[str]
    blobs: dict[str, bytes]

    def take(self, told: dict[str, Any], body: bytes, run_id: str) -> None:
        """Add what a line tells."""
        kind = told.pop("is")
        if kind == "record":
            row = Row(told["seq"], told["type"], told["v"], told["at"], body)
            if row.v > VERSION or row.type not in FACTS:
                raise _newer(f"record {row.seq} ({row.type}, version {row.v})")
            if row.seq != len(self.rows) + 1:
                raise ArchiveError(
                    f"record {len(self.rows) + 1} is missing: the file is damaged. Export the run again."
                )
            self.rows.append(row)
        elif kind == "letter":
            self.letters.append(Letter(len(self.letters) + 1, told["kind"], told["at"], body))
        elif kind == "request":
            self.requests.append(Asked(run_id=run_id, body=body, **told))
        elif kind == "answer":
            decision = Decision(body, told["by"], told["channel"], told["digest"])
            self.answers.append((told["request_id"], Given(told["at"], told["verdict"], decision)))
        elif kind == "blob":
            self._keep(told["sha256"], told["data"])
        else:
            raise _newer(f"a line of kind {kind!r}")

    def _keep(self, digest: str, text: str | None) -> None:
        self.digests.append(digest)
        if text is None:
            return
        data = base64.b64decode(text, validate=True)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ArchiveError(f"the bytes of blob {digest} are not those of this SHA-256. Export the run again.")
        self.blobs[digest] = data

    def made(self, header: dict[str, Any]) -> Whole:
        """The run, once all lines are read."""
        run, holder = header["run"], header["holder"]
        if run["state"] not in get_args(State) or not self.rows:
            raise ArchiveError("the file tells of no run that could be. Export the run again.")
        worker = holder["worker"] if holder else None
        entry = Entry(**run, seq=len(self.rows), worker=worker, takeovers=0)
        accepted = {request_id: given for request_id, given in self.answers if given.verdict == "accepted"}
        requests = [
            asked if asked.state != "answered" else _answered(asked, accepted[asked.request_id])
            for asked in self.requests
        ]
        held = (0.0, holder["about"]) if holder else None
        return Whole(entry, self.rows, self.letters, requests, self.answers, self.digests, self.blobs, held)


def _answered(asked: Asked, given: Given) -> Asked:
    """A request with the answer that the audit tells of."""
    answer, by, channel, _ = given.decision
    return asked._replace(answer=answer, by=by, channel=channel, answered=given.at)


def _header(told: dict[str, Any]) -> dict[str, Any]:
    if told["is"] != "run" or not isinstance(told.get("format"), int) or not isinstance(told.get("run"), dict):
        raise ArchiveError(
            "this is no file of a run: its first line is no header. Name one that `ferrule export` wrote."
        )
    if told["format"] > FORMAT or told.get("record", 0) > VERSION:
        raise _newer(f"the file (format {told['format']}, records {told.get('record')})")
    return told


def _newer(what: str) -> ArchiveError:
    return ArchiveError(f"{what} was written by a newer version of ferrule. Import it with that one.")


def _read_line(number: int, line: bytes) -> tuple[dict[str, Any], bytes]:
    """What a line tells, and its body as it stands there: to the byte, as what a program makes of it may differ."""
    told, why = None, None
    try:
        told = parse(line)
    except JSONSyntaxError as error:
        why = error
    if not isinstance(told, dict) or "is" not in told or not line.endswith(b"\n"):
        what = "this is no file of a run" if number == 1 else "the file is damaged, or cut there"
        raise ArchiveError(f"line {number} is not whole: {what}. Export the run again.") from why
    _, found, body = line.partition(_BODY)  # no text in the line can hold this: its quotes would be escaped
    facts = cast("dict[str, Any]", told)
    facts.pop("body", None)
    return facts, body[:-2] if found else b""


def _in_line(number: int, kind: str, make: Callable[..., T], *given: Any) -> T:
    try:
        return make(*given)
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(
            f"line {number} ({kind}) lacks what it must tell, or tells too much. Export it again."
        ) from error
