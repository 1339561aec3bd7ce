"""The journal of a run that this process holds: written behind, in order, and waited for where it must be."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.journal.alive import clock
from ferrule.journal.record import VERSION, Record, RecordType, body_of, written
from ferrule.journal.store import Asked, Batch, Decision, Held, Letter, Row, State, Store
from ferrule.journal.writer import TURN
from ferrule.lazy import LazyModule
from ferrule.machine import maker
from ferrule.result import ToolResult
from ferrule.strict_json import dumps, parse, plain, restore, typed
from ferrule.suspension import Answer, Request, parse_time

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

_row, _batch = maker(Row), maker(Batch)
_SAME = (str, int, float, bool, type(None))  # values that come back as they are


class Holder(Protocol):
    """What a journal asks of the worker that holds its run.

    Since 0.1.
    """

    def fence(self, since: float) -> None:
        """Raise LeaseLost where no effect may be started.

        Args:
            since: When the write was begun that the effect follows from, by `clock`.
        """
        ...

    async def quiet(self, holder: str | None, deadline: float) -> bool:
        """As `Journal.quiet`.

        Args:
            holder: The worker that began it.
            deadline: When it has to have ended.
        """
        ...


class HeldJournal:
    """One run's journal in a store.

    Records are encoded when they are appended and handed to the store once a
    turn of the event loop, together. `durable` waits for the store.

    Args:
        store: The store.
        held: The holding of the run.
        holder: The worker that holds the run; None for a journal that only writes.

    Since 0.1.
    """

    __slots__ = (
        "_blobs",
        "_closed",
        "_held",
        "_holder",
        "_last",
        "_letters",
        "_opened",
        "_rows",
        "_store",
        "_telling",
        "_waiters",
        "run_id",
        "seq",
    )
    volatile = False

    def __init__(self, store: Store, held: Held, holder: Holder | None = None) -> None:
        """Go on after the run's last record."""
        self._store = store
        self._held = held
        self._holder = holder
        self.run_id = held.run_id
        self.seq = held.seq
        self._rows: list[Row] = []
        self._blobs: dict[str, bytes] = {}
        self._opened: list[Asked] = []
        self._closed: list[str] = []
        self._letters: list[int] = []
        self._telling: list[Callable[[], None]] = []  # of the rows that wait
        self._waiters: list[asyncio.Future[None]] = []  # for the last write
        self._last: asyncio.Future[None] | None = None

    @property
    def behind(self) -> int:
        """How many records wait for this turn of the loop to end.

        Since 0.1.
        """
        return len(self._rows)

    def append(self, type: RecordType, *facts: Any) -> float:
        """Put a record at the end; it is handed to the store with all others of this turn of the loop.

        Args:
            type: What happened.
            facts: As `FACTS` names them.

        Returns:
            When it was recorded, in seconds since 1970.

        Since 0.1.
        """
        at = time.time()
        if not self._rows:
            TURN.end(asyncio.get_running_loop(), self._hand_over)
        self.seq += 1
        self._rows.append(_row((self.seq, type, VERSION, at, written(type, facts, self._spill))))
        if type == "wait.opened":
            self._opened.append(asked_of(self.run_id, facts[0], facts[1], at))
        elif type == "wait.answered" and facts[2:] == ("inline",):
            self._closed.append(facts[1].id)
        return at

    def forget(self, letter: int) -> None:
        """Have the store forget a letter with the next record, which tells what it said.

        Args:
            letter: Its number.

        Since 0.1.
        """
        if letter not in self._letters:
            self._letters.append(letter)

    def take_in(self, letter: Letter, waiting: Container[str]) -> Record | None:
        """Record what came from outside, and have the store forget the letter with it.

        Args:
            letter: The letter.
            waiting: Ids of the requests that wait for an answer; one that was answered otherwise meanwhile does not.

        Returns:
            The record; None where the letter says nothing to a run.

        Since 0.1.
        """
        told: dict[str, Any] = parse(letter.body)
        self.forget(letter.id)
        type: RecordType
        if letter.kind == "answer":
            answer = Answer.from_dict(told["answer"])
            if answer.id not in waiting:
                return None
            type, facts = "wait.answered", (told["op"], answer, told["by"])
        elif letter.kind == "cancel":
            type, facts = "cancel.requested", (told["by"],)
        else:
            return None
        at = self.append(type, *facts)
        return Record(self.run_id, self.seq, type, at, body_of(type, facts))

    async def agreed(self, request_id: str, answer: Answer) -> tuple[Answer, str]:
        """Put an answer that was given in this process to the store: the first one counts, wherever it was given.

        Args:
            request_id: The request, recorded before.
            answer: The answer.

        Returns:
            The answer that counts, and who gave it; one that says `expired` when it came too late.

        Raises:
            StoreError: The store cannot be asked.

        Since 0.1.
        """
        await self.durable()
        verdict, asked = await self._store.answer(request_id, decision_of(answer, "inline", "inline"), time.time())
        for letter in await self._store.letters(self.run_id):  # what it says is recorded next
            if letter.kind == "answer" and parse(letter.body)["request_id"] == request_id:
                self.forget(letter.id)
        if verdict in ("accepted", "same"):
            return answer, "inline"
        if verdict == "answered" and asked is not None and asked.answer is not None:
            return Answer.from_dict(parse(asked.answer)), asked.by or "somebody"
        return Answer(request_id, ok=False, reason="expired", digest=answer.digest), "nobody"

    def as_recorded(self, outcome: Any) -> Any:
        """What the record of an outcome restores it to.

        Args:
            outcome: What was appended last.

        Since 0.1.
        """
        if not isinstance(outcome, ToolResult) or type(outcome.value) in _SAME:
            return outcome
        return restore(typed(outcome))

    def address(self, id: str) -> str:
        """Under what id the request that is recorded next is answered: unique in the store.

        Args:
            id: Its id in the run.

        Since 0.1.
        """
        return f"{self.run_id}.{self.seq + 1}"

    def once_durable(self, tell: Callable[[], None]) -> None:
        """Do something once every record so far would survive the process.

        Args:
            tell: That; not done when the store fails.

        Since 0.1.
        """
        if self._rows:
            self._telling.append(tell)
        elif self._last is None or self._last.done():
            _tell([tell], [], self._last)
        else:
            self._last.add_done_callback(partial(_tell, [tell], []))

    async def durable(self) -> None:
        """Wait until every record so far would survive the process.

        Raises:
            StoreError: The store could not write them; a `LeaseLost` when another worker has taken the run.

        Since 0.1.
        """
        since = clock()
        self._hand_over()
        await self._written()
        if self._holder is not None:
            self._holder.fence(since)

    async def _written(self) -> None:
        last = self._last
        if last is not None:
            if not last.done():  # not awaited itself, nor shielded: that costs more than all else here
                waiter: asyncio.Future[None] = last.get_loop().create_future()
                self._waiters.append(waiter)
                await waiter
            last.result()

    async def quiet(self, holder: str | None, deadline: float) -> bool:
        """Wait until what a former holder began can no longer be going on.

        Args:
            holder: The worker that began it; None for one that nobody knows.
            deadline: When it has to have ended, in seconds since 1970.

        Since 0.1.
        """
        return self._holder is None or await self._holder.quiet(holder, deadline)

    async def end(self, status: State, due: float | None = None) -> None:
        """Let go of the run once all is durable.

        Args:
            status: How it stands.
            due: When to look at it again at the latest, if it is suspended.

        Raises:
            StoreError: As for `durable`.

        Since 0.1.
        """
        self._write(status, due)
        await self._written()  # no effect follows from it: where the store took it, it holds, however late that was

    def _hand_over(self) -> None:
        if self._rows or self._letters:
            self._write(None, None)

    def _write(self, state: State | None, due: float | None) -> None:
        batch = _batch((self._rows, self._blobs, self._opened, self._closed, self._letters, state, due))
        self._rows, self._blobs, self._opened, self._closed, self._letters = [], {}, [], [], []
        self._last = asyncio.ensure_future(self._store.append(self._held, batch))
        telling, self._telling, self._waiters = self._telling, [], []
        self._last.add_done_callback(partial(_tell, telling, self._waiters))

    def _spill(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self._blobs[digest] = data
        return digest


def _tell(
    telling: Sequence[Callable[[], None]], waiters: Sequence[asyncio.Future[None]], done: asyncio.Future[None] | None
) -> None:
    """Tell once a write is done, nothing when it failed; let go on who waits for it in any case."""
    if done is None or not (done.cancelled() or done.exception()):
        for tell in telling:
            tell()
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def decision_of(answer: Answer, by: str, channel: str) -> Decision:
    """An answer as it is put to a store: the same answer always in the same bytes.

    Args:
        answer: The answer.
        by: Who gives it.
        channel: By what way.

    Since 0.1.
    """
    return Decision(dumps(plain(answer.to_dict())), by, channel, answer.digest)


def asked_of(run_id: str, op: str, request: Request, at: float) -> Asked:
    """A request as it is stored beside the record that opens it.

    Args:
        run_id: The run.
        op: The command that waits, with its path.
        request: What is asked, as it was shown.
        at: When it was opened, in seconds since 1970.

    Since 0.1.
    """
    expires = None if request.expiresAt is None else parse_time(request.expiresAt).timestamp()
    return Asked(
        request.id, run_id, op, request.kind, request.digest or "", dumps(typed(request)), expires=expires, opened=at
    )
