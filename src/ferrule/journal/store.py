"""The protocols of the journal: of one run that is being driven, and of the store behind all runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from ferrule.journal.keeping import Keeping
from ferrule.journal.record import RecordType
from ferrule.suspension import Answer

State = Literal["running", "suspended", "done", "incomplete", "failed", "cancelled", "blocked"]
Kind = Literal["answer", "cancel", "event", "child", "late", "resume"]
Verdict = Literal["accepted", "same", "answered", "expired", "closed", "unknown"]


class Journal(Protocol):
    """The growing journal of one run, held by whoever drives it.

    Records become durable strictly in order. Whoever lets something leave the
    process that follows from a record waits for `durable` first.

    Since 0.1.
    """

    run_id: str
    seq: int

    @property
    def volatile(self) -> bool:
        """Whether records never become durable, so that there is nothing to wait for."""
        ...

    @property
    def behind(self) -> int:
        """How many records are handed on only when the loop has its next turn."""
        ...

    def append(self, type: RecordType, *facts: Any) -> float:
        """Put a record at the end; it is written behind.

        Args:
            type: What happened.
            facts: As `FACTS` names them; not by name, as a journal that keeps none need not even hold them.

        Returns:
            When it was recorded, in seconds since 1970.
        """
        ...

    def as_recorded(self, outcome: Any) -> Any:
        """What a record restores an outcome to: the machine is fed this, so that a replay sees the same.

        Args:
            outcome: What was appended last.
        """
        ...

    def address(self, id: str) -> str:
        """Under what id the request that is recorded next is answered.

        Args:
            id: Its id in the run.
        """
        ...

    def once_durable(self, tell: Callable[[], None]) -> None:
        """Do something once every record so far would survive the process.

        Args:
            tell: That; called in the event loop, in the order of these calls.
        """
        ...

    async def agreed(self, request_id: str, answer: Answer) -> tuple[Answer, str]:
        """Have an answer that was given in this process count like any other: the first one does.

        Args:
            request_id: The request, recorded before.
            answer: The answer.

        Returns:
            The answer that counts, and who gave it; one that says `expired` when it came too late.
        """
        ...

    async def end(self, status: State, due: float | None = None) -> None:
        """Let go of the run once all is durable.

        Args:
            status: How it stands.
            due: When to look at it again at the latest, if it is suspended.
        """
        ...

    async def durable(self) -> None:
        """Wait until every record so far would survive the process."""
        ...

    def forget(self, letter: int) -> None:
        """Have the store forget a letter with the next record, which tells what it said.

        Args:
            letter: Its number.
        """
        ...

    async def quiet(self, holder: str | None, deadline: float) -> bool:
        """Wait until what a former holder began can no longer be going on.

        Args:
            holder: The worker that began it; None for one that nobody knows.
            deadline: When it has to have ended, in seconds since 1970.

        Returns:
            Whether that holder is gone for certain; if not, only the time is over.
        """
        ...


class Row(NamedTuple):
    """A record as it is stored.

    Args:
        seq: Its place in the run, from 1, without gaps.
        type: What happened.
        v: Version of the body's form.
        at: When, in seconds since 1970.
        body: Its facts, JSON in UTF-8.

    Since 0.1.
    """

    seq: int
    type: str
    v: int
    at: float
    body: bytes


class Asked(NamedTuple):
    """A request as it is stored.

    Args:
        request_id: Its address, unique in the store.
        run_id: The run that waits: a child's own, not the root's.
        op: The command that waits.
        kind: `approval`, `input`, `outcome` and so on.
        digest: SHA-256 of what is shown.
        body: The request and what its answer must fit, JSON in UTF-8.
        expires: When no answer is taken any more, in seconds since 1970.
        state: `open`, `answered`, `expired` or `closed`.
        opened: When it was opened.
        answer: The accepted answer, JSON in UTF-8.
        by: Who gave it.
        channel: By what way: `cli`, `http`, `inline`.
        answered: When.

    Since 0.1.
    """

    request_id: str
    run_id: str
    op: str
    kind: str
    digest: str
    body: bytes
    expires: float | None = None
    state: str = "open"
    opened: float = 0.0
    answer: bytes | None = None
    by: str | None = None
    channel: str | None = None
    answered: float | None = None


class NewRun(NamedTuple):
    """A run to create.

    Args:
        run_id: Its id.
        definition: Name of what is run.
        started: The record `run.started`, seq 1.
        parent: The run around it.
        root: The outermost of those; default itself.
        session: The session it continues.
        key: The idempotency key of its start.
        tags: Words to find it by.
        blobs: As in `Batch`.
        forked_from: The run whose records it shares.
        forked_at: The last of those. Its own go on after that one; its first is its own too.

    Since 0.1.
    """

    run_id: str
    definition: str
    started: Row
    parent: str | None = None
    root: str | None = None
    session: str | None = None
    key: str | None = None
    tags: Mapping[str, str] = {}
    blobs: Mapping[str, bytes] = {}
    forked_from: str | None = None
    forked_at: int | None = None


class Entry(NamedTuple):
    """A run as lists show it.

    Args:
        run_id: Its id.
        definition: Name of what is run.
        state: How it stands.
        seq: Its last record.
        epoch: How often it was taken.
        worker: Who holds it.
        parent: The run around it.
        root: The outermost of those.
        session: The session it continues.
        key: The idempotency key of its start.
        tags: Words to find it by.
        created: When it was started.
        updated: When its last record was written.
        due: When a parked run has something to do by itself: a timer, an expiry.
        takeovers: How often it was taken since it last wrote a record of its own.
        forked_from: The run whose records it shares.
        forked_at: The last of those.

    Since 0.1.
    """

    run_id: str
    definition: str
    state: State
    seq: int
    epoch: int
    worker: str | None
    parent: str | None
    root: str
    session: str | None
    key: str | None
    tags: Mapping[str, str]
    created: float
    updated: float
    due: float | None
    takeovers: int
    forked_from: str | None = None
    forked_at: int | None = None


class Held(NamedTuple):
    """A run that a worker holds.

    Args:
        run_id: Its id.
        epoch: The number of this holding; a later one ends it.
        seq: Its last record.
        takeovers: As in `Entry`.

    Since 0.1.
    """

    run_id: str
    epoch: int
    seq: int
    takeovers: int = 0


class Letter(NamedTuple):
    """Something from outside for the holder of a run, in order of arrival.

    Args:
        id: Its number in the store.
        kind: What it is.
        at: When it came.
        body: JSON in UTF-8.

    Since 0.1.
    """

    id: int
    kind: Kind
    at: float
    body: bytes


class Batch(NamedTuple):
    """What one append writes, all of it or nothing.

    Args:
        rows: Records, their seq rising by 1 from the run's last.
        blobs: Bytes by SHA-256 in hexadecimal digits, as far as the rows refer to them; those that are there stay.
        opened: Requests that the rows open.
        closed: Ids of requests that can no longer be answered, because their call was settled otherwise; `expired`
            where their time was over before the last of the rows.
        read: Ids of letters that the rows have taken in.
        state: How the run stands after them; None as before. Anything but `running` lets go of the run; one that is
            over closes the requests that are still open.
        due: With `suspended`: when to look at it again at the latest.

    Since 0.1.
    """

    rows: Sequence[Row]
    blobs: Mapping[str, bytes] = {}
    opened: Sequence[Asked] = ()
    closed: Sequence[str] = ()
    read: Sequence[int] = ()
    state: State | None = None
    due: float | None = None


class Decision(NamedTuple):
    """An answer on its way into the store. Whether it fits the request has been looked at before.

    Args:
        answer: JSON in UTF-8; the same answer again has the same bytes.
        by: Who gave it.
        channel: By what way.
        digest: Of what they were shown.

    Since 0.1.
    """

    answer: bytes
    by: str
    channel: str
    digest: str | None = None


class Given(NamedTuple):
    """An answer that was given, and what came of it.

    Args:
        at: When, in seconds since 1970.
        verdict: What came of it.
        decision: The answer.

    Since 0.1.
    """

    at: float
    verdict: Verdict
    decision: Decision


class Store(Keeping, Protocol):
    """Where runs live: created, held by one worker at a time, appended to, parked, found.

    Every method is one transaction. What fails raises a `StoreError` that says
    what to do, and has changed nothing.

    Since 0.1.
    """

    async def open(self) -> None:
        """Create or migrate the schema, under a lock; refuse a newer one.

        Raises:
            StoreError: The place cannot be used: newer, corrupt, read-only, not there.
        """
        ...

    async def close(self) -> None:
        """Write what is waiting, and let go of the place."""
        ...

    async def create(self, new: NewRun, worker: str | None) -> Held | Entry:
        """Create a run with its first record.

        Args:
            new: The run.
            worker: Who holds it from the start; None leaves it to be claimed.

        Returns:
            The holding, with epoch 1, or 0 where nobody holds it yet; or, where a run has this key (or this id)
            already, that run.

        Raises:
            StoreError: It is a fork, and there is no such run to share the records of, or it has not so many.
        """
        ...

    def append(self, held: Held, batch: Batch) -> Awaitable[None]:
        """Write records; appends of one holding are written in the order of these calls.

        Args:
            held: The holding; its run, and its epoch as the fence.
            batch: What to write.

        Returns:
            Done when it is durable.

        Raises:
            LeaseLost: Somebody else has taken the run, or it was let go of; nothing was written, nor will be under this
                holding.
        """
        ...

    async def rows(self, run_id: str, after: int = 0) -> list[Row]:
        """A run's records in order, those that it shares with another one included.

        Args:
            run_id: The run.
            after: Leave out those up to this seq.
        """
        ...

    async def entry(self, run_id: str) -> Entry | None:
        """One run.

        Args:
            run_id: Its id.
        """
        ...

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
        ...

    async def enlist(self, worker: str, about: Mapping[str, Any]) -> None:
        """Begin to be alive.

        Args:
            worker: An id, new for each process.
            about: Host, boot, process id and start time, for others to prove it dead; `lease`: the seconds without a
                beat after which others may take its runs. Those not heard of for a day that hold nothing are forgotten.
        """
        ...

    async def beat(self, worker: str) -> bool:
        """Go on being alive.

        Args:
            worker: Its id.

        Returns:
            Whether it still was; if not, its runs may have been taken.
        """
        ...

    async def retire(self, worker: str) -> None:
        """Stop being alive: every run it holds can be taken at once.

        Args:
            worker: Its id.
        """
        ...

    async def workers(self) -> dict[str, tuple[float, dict[str, Any]]]:
        """Who is enlisted: seconds since the last beat, and what they said of themselves."""
        ...

    async def claim(
        self, worker: str, definitions: Sequence[str], limit: int, lease: float, run_id: str | None = None
    ) -> list[Held]:
        """Take runs that are due.

        Those are: running, and held by nobody alive; parked with mail or past their `due`; blocked with a letter
        `cancel` or `resume`.

        A taken run gets a record `run.taken` (worker, epoch), the next epoch and the state `running`.

        Args:
            worker: Who takes them.
            definitions: Names of what it can run.
            limit: At most so many.
            lease: Seconds without a beat after which a holder counts as dead that did not say its own.
            run_id: Only this run; None for any.
        """
        ...

    async def release(self, held: Held) -> None:
        """Let go of a run that is still to be driven, for whoever claims it next.

        Args:
            held: The holding.
        """
        ...

    async def post(self, run_id: str, kind: Kind, body: bytes) -> bool:
        """Leave a letter for a run.

        Args:
            run_id: The run.
            kind: What it is.
            body: JSON in UTF-8.

        Returns:
            Whether the run is there and not over; else nothing was left.
        """
        ...

    async def letters(self, run_id: str) -> list[Letter]:
        """What has come for a run and was not read, in order of arrival.

        Args:
            run_id: The run.
        """
        ...

    async def letters_of(self, worker: str, kind: Kind) -> list[tuple[str, Letter]]:
        """What has come of one kind for all runs that a worker holds, in order of arrival, with their ids.

        Args:
            worker: Who holds the runs.
            kind: What they are.
        """
        ...

    async def asked(self, request_id: str) -> Asked | None:
        """One request.

        Args:
            request_id: Its address.
        """
        ...

    async def requests(self, *, run_id: str | None = None, state: str | None = "open", limit: int = 100) -> list[Asked]:
        """Requests, the oldest first.

        Args:
            run_id: Only those of this run and the runs inside it.
            state: Only those that stand so; None for all.
            limit: At most so many.
        """
        ...

    async def answer(self, request_id: str, decision: Decision, now: float) -> tuple[Verdict, Asked | None]:
        """Answer a request: compare-and-set from `open`, and a letter `answer` for its run. Refused ones are kept too.

        The letter's body is an object with `request_id`, `op`, `by`, `channel`, `at` and the `answer`. A request that
        is found past its `expires` stands `expired` from then on.

        Args:
            request_id: Its address.
            decision: The answer.
            now: Seconds since 1970; at or after `expires` none is taken.

        Returns:
            `accepted`; `same` when these very bytes were accepted before; else why not, with the request as it stands.
        """
        ...

    async def answers(self, request_id: str) -> list[Given]:
        """Every answer that was given to a request, accepted or not, in order; not those that only repeat one.

        Args:
            request_id: Its address.
        """
        ...

    async def forks(self, run_ids: Sequence[str]) -> dict[str, list[str]]:
        """The runs that share records of these, by the run that they were forked from.

        Args:
            run_ids: The runs.
        """
        ...

    async def blob(self, digest: str) -> bytes | None:
        """The bytes under a SHA-256.

        Args:
            digest: 64 hexadecimal digits.
        """
        ...

    async def remove(self, run_ids: Sequence[str]) -> int:
        """Remove runs that are over, the runs inside them, and blobs that nothing refers to any more.

        Args:
            run_ids: The runs; one that is not over stays, and so does one around it or inside it, and one whose
                records another run shares that is not removed.

        Returns:
            How many were removed, those inside included.
        """
        ...
