"""A process that drives runs of a store: it takes those that are due, and goes on with them from their records."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ferrule.errors import LeaseLost, NonDeterminism, StoreError, UsageError
from ferrule.journal.alive import about_me, clock, is_dead
from ferrule.journal.held import HeldJournal
from ferrule.journal.record import VERSION, Record, body_of, read, written
from ferrule.journal.retention import Retention, described, keep_to
from ferrule.journal.store import Entry, Held, NewRun, Row, Store
from ferrule.lazy import LazyModule
from ferrule.machine import Definition, Finish
from ferrule.message import ModelMessage
from ferrule.runtime.answer import OnRequest
from ferrule.runtime.driver import Driver, Listener
from ferrule.runtime.fork import Edits, plan_fork, recorded_result, substitutes
from ferrule.runtime.info import RunInfo, new_run_id
from ferrule.runtime.outcome import RunResult
from ferrule.runtime.recovery import check_open, open_requests, recover
from ferrule.strict_json import parse

if TYPE_CHECKING:
    import asyncio
    import logging

    from ferrule.runtime.stream import RunStream
else:
    asyncio = LazyModule("asyncio")
    logging = LazyModule("logging")

LEASE = 10.0
BEAT = 3.0
MARGIN = 2.0  # seconds of the lease that must be left for an effect to be started
POISON = 5
STOP = 5.0  # seconds for runs to halt by themselves; with the grace of calls that are cut then, ten in all
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_REF = re.compile(rb'"ref":"([0-9a-f]{64})"')


class Worker:
    """Drives runs of one store in one event loop.

    Args:
        store: The store, open.
        definitions: What it can run, by name.
        lease: Seconds without a sign of life after which others may take its runs.
        poll: Seconds between two looks for runs that are due.

    Since 0.1.
    """

    def __init__(
        self, store: Store, definitions: Mapping[str, Definition], *, lease: float = LEASE, poll: float = 0.5
    ) -> None:
        """Do nothing yet."""
        self.id = f"w_{os.urandom(8).hex()}"
        self._store = store
        self._definitions = definitions
        self._lease = lease
        self._poll = poll
        self._until = 0.0
        self._takes = False
        self._lapsed = 0.0  # when the lease was last found to be over
        self._left: list[Held] = []  # what is to be let go of once the store can be written
        self._beating: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._driving: dict[str, tuple[asyncio.Task[Any], Driver | None]] = {}
        self._held: dict[str, Held] = {}
        self._starting: set[asyncio.Task[Any]] = set()
        self._halting: asyncio.Future[Any] | None = None  # the time that runs have to halt by themselves

    async def __aenter__(self) -> Worker:
        """Begin to be alive."""
        began = clock()
        await self._enlist()
        self._until = began + self._lease
        self._beating = asyncio.create_task(self._beat())
        self._polling = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let runs come to a halt for a while, then let go of them; at once, where whoever waits is cancelled."""
        ending = asyncio.ensure_future(self._end())
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as error:
                cancelled = error
                if self._halting is not None:
                    self._halting.cancel()
        ending.result()
        if cancelled is not None:
            raise cancelled

    async def _end(self) -> None:
        await _ended(self._polling)
        await _ended(self._sweeping)
        if self._starting:
            await asyncio.wait(self._starting)
        if self._driving:
            tasks = [task for task, _ in self._driving.values()]
            self._halting = asyncio.ensure_future(asyncio.wait(tasks, timeout=STOP))
            await asyncio.wait([self._halting])
        self._until = 0.0  # what goes on starts nothing more
        going_on = [(task, driver) for task, driver in self._driving.values()]
        for task, driver in going_on:
            task.cancel() if driver is None else driver.leave()
        if going_on:
            await asyncio.wait([task for task, _ in going_on], timeout=STOP / 8)
        for held in self._held.values():  # a body that does not end holds up its own run only
            with suppress(StoreError):
                await self._store.release(held)
        await _ended(self._beating)
        if not going_on:  # else a body may still run: others wait until the lease is over, and look whether we are dead
            await self._store.retire(self.id)

    # -- being alive --------------------------------------------------------------------------------------------

    async def _enlist(self) -> None:
        takes = list(self._definitions) if self._takes else []
        await self._store.enlist(self.id, {**about_me(), "lease": self._lease, "takes": takes})

    def fence(self, since: float) -> None:
        """Refuse to start an effect where the lease is over or nearly so, or was since the effect was recorded.

        Args:
            since: When that was begun, by `clock`.

        Raises:
            LeaseLost: It is.
        """
        if self._lapsed > since or clock() > self._until - min(MARGIN, self._lease / 4):
            raise LeaseLost(f"worker {self.id} has been still for too long: its runs may have been taken by another.")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(min(BEAT, self._lease / 3))
            began = clock()
            if began > self._until:
                self._lapsed = began
            try:
                if not await self._store.beat(self.id):  # others have taken its runs meanwhile
                    self._lapsed = clock()
                    await self._enlist()
                self._until = began + self._lease
                await self._let_go_of_left()
            except StoreError as error:  # it may come back; until then the fence stops what must not go on
                logging.getLogger("ferrule.worker").warning("no sign of life could be given: %s", error)

    async def quiet(self, holder: str | None, deadline: float) -> bool:
        """Wait until what another worker began can no longer be going on: it is gone, or a lease after the deadline.

        Args:
            holder: That worker; None for one that nobody knows.
            deadline: When it has to have ended, in seconds since 1970.

        Returns:
            Whether it is gone for certain: its process is dead, or it has let go of all it held.
        """
        while True:
            found = (await self._store.workers()).get(holder or "")
            if holder is not None and (found is None or is_dead(found[1])):
                return True
            lease = self._lease if found is None else found[1].get("lease", self._lease)
            left = deadline + lease - time.time()
            if left <= 0:
                return False
            await asyncio.sleep(min(left, self._poll))

    def start(self, retention: Retention | None = None) -> None:
        """Look for runs that are due, again and again, until the end of the `async with` block.

        Args:
            retention: What to keep meanwhile of runs that are over; None keeps all of it.
        """
        self._takes = True
        if retention is not None and self._sweeping is None:
            self._sweeping = asyncio.create_task(keep_to(self._store, retention))

    async def _look(self) -> None:
        """Look for runs that are due, if it takes any; for letters to those that it drives in any case."""
        told = False
        while True:
            try:
                if self._takes and clock() < self._until:  # else its own runs would look as if nobody drove them
                    if not told:
                        await self._enlist()
                        told = True
                    for held in await self._store.claim(self.id, list(self._definitions), 100, self._lease):
                        self._take(held)
                await self._read_letters()
            except StoreError as error:
                logging.getLogger("ferrule.worker").warning("looking for runs failed: %s", error)
            await asyncio.sleep(self._poll)

    async def _read_letters(self) -> None:
        """A cancellation ends a run at once; all else waits until the run parks."""
        for run_id, letter in await self._store.letters_of(self.id, "cancel") if self._driving else ():
            _, driver = self._driving.get(run_id, (None, None))
            if driver is not None:
                driver.journal.forget(letter.id)
                driver.cancel(parse(letter.body).get("by", ""))

    # -- driving ------------------------------------------------------------------------------------------------

    async def run(
        self,
        name: str,
        input: Any,
        *,
        context: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
        deps: Any = None,
        on_request: OnRequest | None = None,
        on_event: Listener | None = None,
        stream: RunStream[Any] | None = None,
        run_id: str | None = None,
    ) -> RunResult[Any]:
        """Start a run and drive it to its end, or until it waits.

        Whoever is cancelled while they wait here leaves the run: it goes on as long as this worker does.

        Args:
            name: Its definition.
            input: What it is given.
            context: A JSON object about the run.
            options: What this run says differently from its definition.
            key: Idempotency key: a second start with it gives the first run.
            tags: Words to find it by.
            deps: Live objects for this process.
            on_request: Answers requests in this process.
            on_event: Hears events once they are durable.
            stream: Takes the events in its place, and pieces of answers as they come.
            run_id: Its id; default a new one. A second start with it gives the first run.

        Returns:
            How it ended.

        Raises:
            UsageError: There is no such definition.
            StoreError: The store cannot be written.
        """
        facts = (name, input, context or {}, options, self.id)
        new, first = self._new(name, facts, key, tags, run_id)
        heard = on_event if stream is None else stream.put
        live: dict[str, Any] = {"deps": deps, "on_request": on_request, "on_event": heard, "stream": stream}
        return await self._begin(new, [first], live)

    async def _begin(self, new: NewRun, records: list[Record], live: Mapping[str, Any]) -> RunResult[Any]:
        """Create a run and drive it; one that is there already goes on, or has ended, as it is."""

        async def begin() -> asyncio.Task[RunResult[Any]] | str:
            created = await self._store.create(new, self.id)
            if isinstance(created, Entry):
                return created.run_id
            return self._take(created, records=records, **live)

        beginning = asyncio.create_task(begin())  # not undone halfway: a run that is there is driven
        self._starting.add(beginning)
        beginning.add_done_callback(self._starting.discard)
        begun = await asyncio.shield(beginning)
        return await (self._again(begun, live) if isinstance(begun, str) else asyncio.shield(begun))

    async def _again(self, run_id: str, live: Mapping[str, Any]) -> RunResult[Any]:
        """The result of a run that was there before; where nobody drives it, as its process died, it goes on here."""
        while run_id not in self._driving:
            entry = await self._store.entry(run_id)
            if entry is None or entry.state != "running":
                break
            if clock() < self._until:
                for held in await self._store.claim(self.id, list(self._definitions), 1, self._lease, run_id):
                    return await asyncio.shield(self._take(held, **live))
            await asyncio.sleep(min(self._poll, 0.2))
        return await self.result(run_id)

    async def leave(
        self,
        name: str,
        input: Any,
        *,
        context: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
        run_id: str | None = None,
    ) -> str:
        """Start a run and leave it for whichever worker takes it.

        Args:
            name: As for `run`.
            input: As for `run`.
            context: As for `run`.
            options: As for `run`.
            key: As for `run`.
            tags: As for `run`.
            run_id: As for `run`.

        Returns:
            Its id.

        Raises:
            UsageError: There is no such definition.
            StoreError: The store cannot be written.
        """
        new, _ = self._new(name, (name, input, context or {}, options), key, tags, run_id)
        return (await self._store.create(new, None)).run_id

    def _new(
        self, name: str, facts: tuple[Any, ...], key: str | None, tags: Mapping[str, str] | None, run_id: str | None
    ) -> tuple[NewRun, Record]:
        """A run to be created, and its first record."""
        self._definition(name)
        if run_id is None:
            run_id = new_run_id()
        elif not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"{run_id[:100]!r} is no run id: up to 100 letters, digits, '_' and '-'. Choose another.")
        at = time.time()
        started = Row(1, "run.started", VERSION, at, written("run.started", facts))
        first = Record(run_id, 1, "run.started", at, body_of("run.started", facts))
        return NewRun(run_id, name, started, key=key, tags=tags or {}), first

    def cancel(self, run_id: str, by: str) -> bool:
        """Bring a run to an end that this worker drives; what it has done is kept.

        Args:
            run_id: The run.
            by: Who wants it, for the record.

        Returns:
            Whether it drives that run.
        """
        _, driver = self._driving.get(run_id, (None, None))
        if driver is not None:
            driver.cancel(by)
        return driver is not None

    async def fork(
        self,
        run_id: str,
        *,
        at: int | None = None,
        before: str | None = None,
        edits: Edits | None = None,
        pins: Mapping[str, tuple[str, str]] | None = None,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
        deps: Any = None,
        on_request: OnRequest | None = None,
        on_event: Listener | None = None,
    ) -> RunResult[Any]:
        """Start a run that shares the beginning of another one, and drive it to its end, or until it waits.

        Args:
            run_id: The other run.
            at: As for `plan_fork`, like the next two.
            before: The op before which it begins.
            edits: What is different in it.
            pins: By op, the run and its op whose recorded result is taken in place of the call.
            key: As for `run`, like all that follows.
            tags: Words to find it by.
            deps: Live objects for this process.
            on_request: Answers requests in this process.
            on_event: Hears events once they are durable.

        Returns:
            How it ended.

        Raises:
            UsageError: There is no such run, record or op, or an edit of what cannot be edited.
            NonDeterminism: Today's code commands something else before the fork begins.
            StoreError: The store cannot be written.
        """
        records = await self.history(run_id)
        name = records[0].body["definition"]
        changes = dict(edits or {})
        for op, (other, its) in (pins or {}).items():
            changes[op] = {"result": recorded_result(await self.records(other), its)}
        plan = plan_fork(self._definition(name), records, at=at, before=before, edits=changes)
        lost = await self.lost(run_id)
        if lost is not None and lost <= plan.at:
            told = f"large bytes of its record {lost} are no longer kept, and no run can go on without them"
            raise UsageError(
                f"run {run_id!r} cannot be forked after record {plan.at}: {told}. Begin before that record."
            )
        # Its first record is as old as that of the other run: what a machine made of that time, it makes again.
        facts = plan.facts(records[0], run_id, self.id)
        started = Row(1, "run.started", VERSION, records[0].at, written("run.started", facts))
        new = NewRun(new_run_id(), name, started, key=key, tags=tags or {}, forked_from=run_id, forked_at=plan.at)
        first = Record(new.run_id, 1, "run.started", records[0].at, body_of("run.started", facts))
        shared = [first, *(record._replace(run_id=new.run_id) for record in records[1 : plan.at])]
        return await self._begin(new, shared, {"deps": deps, "on_request": on_request, "on_event": on_event})

    async def result(self, run_id: str) -> RunResult[Any]:
        """How a run ended, or stands; of one that goes on elsewhere once it has come to a halt.

        Args:
            run_id: The run.

        Raises:
            UsageError: There is no such run, or nothing that could run it.
        """
        if run_id in self._driving:
            return await asyncio.shield(self._driving[run_id][0])
        while True:
            entry = await self._store.entry(run_id)
            if entry is None:
                raise UsageError(f"there is no run {run_id!r} in the store.")
            if entry.state != "running":
                break
            await asyncio.sleep(min(self._poll, 0.2))
        definition = self._definition(entry.definition)
        records = await self.records(run_id)
        started = records[0].body
        machine = definition.machine(started.get("options") or {})
        strict = entry.state not in ("blocked", "cancelled")
        try:
            told = recover(machine, machine.start(started["input"], records[0].at), records, strict=strict)
            if strict:
                check_open(told, records)
        except NonDeterminism as error:  # one that is over stays what it was
            status = "blocked" if entry.state == "suspended" else entry.state
            if records[-1].type == "run.settled" and await self.lost(run_id) is not None:  # it is not the code
                heard: list[Any] = list(machine.messages)
                while heard and not isinstance(heard[-1], ModelMessage):  # said to a text about bytes, and never sent
                    heard.pop()
                output: str = heard[-1].text if heard else ""
                return RunResult(run_id, status, output, usage=machine.usage, messages=heard)
            return RunResult(run_id, status, error=str(error), reason="nondeterminism")
        notes = (r.body for r in records[::-1] if r.type == "note" and r.body["about"] == entry.state)
        note = next(notes, dict[str, Any]())
        ended = Finish(entry.state, error=note.get("error"), reason=note.get("reason"))
        _, output, value, error, reason = told.finish or ended
        requests = tuple(f.request for f in told.found.values() if f.request is not None and f.answer is None)
        return RunResult(
            run_id,
            entry.state,
            output,
            value,
            error,
            reason,
            requests if entry.state == "suspended" else (),
            machine.usage,
            machine.messages,
        )

    async def history(self, run_id: str) -> list[Record]:
        """A run's records, of which there are some.

        Args:
            run_id: The run.

        Raises:
            UsageError: There is no such run.
            StoreError: One is of a newer version, or damaged.
        """
        records = await self.records(run_id)
        if not records:
            raise UsageError(f"there is no run {run_id!r} in the store.")
        return records

    async def records(self, run_id: str) -> list[Record]:
        """A run's records.

        Args:
            run_id: The run.

        Raises:
            StoreError: One is of a newer version, or damaged.
        """
        rows = await self._store.rows(run_id)
        refs = {ref.decode() for row in rows for ref in _REF.findall(row.body)}
        blobs = {ref: await self._store.blob(ref) for ref in refs}
        gone = {ref for ref, data in blobs.items() if data is None}
        if gone and rows[-1].type == "run.settled":  # a run that is over is shown without what retention has taken
            rows = [row._replace(body=described(row.body, gone)) for row in rows]

        def load(ref: str) -> bytes:
            found = blobs[ref]
            if found is None:
                raise StoreError(f"blob {ref} of run {run_id} is gone.")
            return found

        return [read(run_id, row.seq, row.type, row.v, row.at, row.body, load) for row in rows]

    async def lost(self, run_id: str) -> int | None:
        """The first record of a run of which retention has taken bytes; None where all are there.

        Args:
            run_id: The run.
        """
        for row in await self._store.rows(run_id):
            for ref in _REF.findall(row.body):
                if await self._store.blob(ref.decode()) is None:
                    return row.seq
        return None

    def _definition(self, name: str) -> Definition:
        definition = self._definitions.get(name)
        if definition is None:
            raise UsageError(f"there is nothing named {name!r} to run. Give the app that definition.")
        return definition

    def _take(self, held: Held, **options: Any) -> asyncio.Task[RunResult[Any]]:
        task = asyncio.create_task(self._drive(held, **options))
        self._driving[held.run_id], self._held[held.run_id] = (task, None), held
        task.add_done_callback(lambda done: self._halted(held.run_id, done))
        return task

    def _halted(self, run_id: str, task: asyncio.Task[Any]) -> None:
        if self._driving.get(run_id, (None,))[0] is task:
            del self._driving[run_id], self._held[run_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            logging.getLogger("ferrule.worker").warning("run %s was let go: %s", run_id, error)

    async def _drive(self, held: Held, **options: Any) -> RunResult[Any]:
        try:
            return await self._driven(held, **options)
        except (Exception, asyncio.CancelledError):  # as long as we live, nobody else would take it
            self._left.append(held)
            with suppress(StoreError):  # the next beat tries again
                await self._let_go_of_left()
            raise

    async def _let_go_of_left(self) -> None:
        while self._left:
            held = self._left.pop()
            try:
                await self._store.release(held)
            except BaseException:
                self._left.append(held)
                raise

    async def _driven(
        self,
        held: Held,
        records: list[Record] | None = None,
        deps: Any = None,
        on_request: OnRequest | None = None,
        on_event: Callable[[Any], None] | None = None,
        stream: RunStream[Any] | None = None,
    ) -> RunResult[Any]:
        journal = HeldJournal(self._store, held, self)
        if held.takeovers > POISON:
            return await self._poisoned(held, journal)
        if records is None:
            records = await self.records(held.run_id)
            waiting = open_requests(records)
            letters = [journal.take_in(letter, waiting) for letter in await self._store.letters(held.run_id)]
            records += [record for record in letters if record is not None]
        started = records[0].body
        definition = self._definition(started["definition"])
        driver = Driver(
            definition,
            journal,
            RunInfo(held.run_id, started.get("context") or {}, deps),
            options=started.get("options"),
            listener=definition.heard_by(on_event),
            stream=stream,
            on_request=on_request,
            records=records,
            substitute=substitutes(records),
        )
        if stream is not None:
            stream.driver = driver
        if held.run_id in self._driving:
            self._driving[held.run_id] = (self._driving[held.run_id][0], driver)
        return await driver.run(started["input"])

    async def _poisoned(self, held: Held, journal: HeldJournal) -> RunResult[Any]:
        """Leave a run to an operator; taken again, to be cancelled, it has all its tries."""
        error = f"it was taken {held.takeovers} times, and its process ended each time before it had recorded anything"
        journal.append("note", "blocked", "poison", error)
        await journal.end("blocked")
        return RunResult(held.run_id, "blocked", error=error, reason="poison")


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
