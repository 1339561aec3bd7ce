"""What the checks of a store have in common."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ferrule.errors import StoreError
from ferrule.journal.store import Asked, Batch, Entry, Held, NewRun, Row, State, Store

T = TypeVar("T")
E = TypeVar("E", bound=StoreError)

LEASE = 600.0  # long enough for everybody to be alive


class Ground:
    """A store, and names in it that nobody else uses: a check may run beside others, on a place that is not empty."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.mark = os.urandom(6).hex()
        self.definition = f"definition-{self.mark}"
        self.worker = f"worker-{self.mark}"
        self._made = 0

    def new(self, **about: Any) -> NewRun:
        """A run to create."""
        self._made += 1
        about = {"run_id": f"run-{self.mark}-{self._made}", "definition": self.definition, **about}
        return NewRun(started=row(1, "run.started"), **about)

    async def enlist(self, name: str = "") -> str:
        """A living worker."""
        worker = f"{self.worker}{name}"
        await self.store.enlist(worker, {"host": "here", "pid": 7})
        return worker

    async def held(self, worker: str | None = None, **about: Any) -> Held:
        """A new run, held by a living worker."""
        held = await self.store.create(self.new(**about), worker or await self.enlist())
        expect(isinstance(held, Held), True, "a new run is held by whom it was created for")
        assert isinstance(held, Held)
        return held

    async def parked(self, *, due: float | None = None, **about: Any) -> Held:
        """A new run that waits."""
        held = await self.held(**about)
        await self.store.append(held, Batch([row(2)], state="suspended", due=due))
        return held

    async def ended(self, state: State = "done", **about: Any) -> Held:
        """A new run that is over."""
        held = await self.held(**about)
        await self.store.append(held, Batch([row(2)], state=state))
        return held

    async def claim(self, worker: str, limit: int = 100, lease: float = LEASE) -> list[Held]:
        """Runs of this check that are due."""
        return await self.store.claim(worker, [self.definition], limit, lease)

    async def claimed(self, worker: str, limit: int = 100, lease: float = LEASE) -> list[str]:
        """Their ids."""
        return [held.run_id for held in await self.claim(worker, limit, lease)]

    async def entry(self, run_id: str) -> Entry:
        """A run that is there."""
        entry = await self.store.entry(run_id)
        assert entry is not None, f"run {run_id} is not there"
        return entry

    async def seqs(self, run_id: str) -> list[int]:
        """Of its records."""
        return [row.seq for row in await self.store.rows(run_id)]

    def asked(self, held: Held, name: str = "q", **about: Any) -> Asked:
        """A request to open."""
        about = {"kind": "approval", "digest": "d" * 64, "body": b'{"prompt":"May I?"}', "opened": 3.5, **about}
        return Asked(request_id=f"{held.run_id}.{name}", run_id=held.run_id, op="t0.0", **about)

    async def open(self, name: str = "q", **about: Any) -> Asked:
        """A request that a parked run waits for."""
        held = await self.held()
        asked = self.asked(held, name, **about)
        await self.store.append(held, Batch([row(2, "wait.opened")], opened=[asked], state="suspended"))
        return asked


def row(seq: int, type: str = "note", body: bytes = b"{}") -> Row:
    """A record."""
    return Row(seq, type, 1, time.time(), body)


def rows(first: int, last: int) -> list[Row]:
    """Records in order."""
    return [row(seq) for seq in range(first, last + 1)]


def expect(found: Any, wanted: Any, what: str) -> None:
    """Say what a store does not do. No assert statement: those are gone under -O."""
    if found != wanted:
        raise AssertionError(f"{what}: {wanted!r} was expected, and this was found: {found!r}")


def only(found: Sequence[T], what: str) -> T:
    """The one thing that a list should hold."""
    expect(len(found), 1, f"how many {what}")
    return found[0]


async def refused(doing: Awaitable[Any], error: type[E], what: str) -> E:
    """The error that something must end with, of that very class."""
    try:
        found = await asyncio.wait_for(doing, 60)
    except StoreError as told:
        if type(told) is error:
            return told
        raise AssertionError(f"{what}: {error.__name__} was expected, not {told!r}") from told
    raise AssertionError(f"{what}: {error.__name__} was expected, and it gave {found!r}")


Check = Callable[[Ground], Awaitable[None]]
