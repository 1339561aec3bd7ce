"""What an app does with runs that were recorded: replay, fork, compare and resume them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, overload

from ferrule.errors import UsageError
from ferrule.lazy import LazyModule

if TYPE_CHECKING:
    from ferrule.journal.record import Record
    from ferrule.journal.store import Store
    from ferrule.runtime import compare, replay
    from ferrule.runtime.answer import OnRequest
    from ferrule.runtime.compare import Comparison
    from ferrule.runtime.driver import Listener
    from ferrule.runtime.fork import Edits
    from ferrule.runtime.outcome import RunResult
    from ferrule.runtime.replay import OnMiss, Rehearsal, Replay
    from ferrule.runtime.worker import Worker
else:  # an app of tools alone pays for none of it
    compare = LazyModule("ferrule.runtime.compare")
    replay = LazyModule("ferrule.runtime.replay")


class History(ABC):
    """The recorded runs of an `App`, which is one of these.

    Since 0.1.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def store(self) -> Store:
        """Where its runs live."""

    @abstractmethod
    def working(self, *, takes: bool = True) -> AbstractAsyncContextManager[Worker]:
        """Drive runs of the store while the block lasts.

        Args:
            takes: Whether it also takes runs that others left or that were answered.
        """

    @abstractmethod
    def agent(self, name: str) -> Any:
        """The agent of a name.

        Args:
            name: Its name.
        """

    @overload
    async def replay(self, run_id: str) -> Replay: ...
    @overload
    async def replay(
        self,
        run_id: str,
        *,
        model: Any = None,
        instructions: Any = None,
        on_miss: OnMiss = "stop",
        deps: Any = None,
        on_request: OnRequest | None = None,
        on_event: Listener | None = None,
    ) -> Rehearsal: ...
    async def replay(
        self, run_id: str, *, model: Any = None, instructions: Any = None, **options: Any
    ) -> Replay | Rehearsal:
        """Whether today's code would do what a run did; with a model or instructions, what it would do with those.

        The first feeds the records to the code and dispatches nothing. With another model, or other instructions, the
        models are asked again, in memory, and the tools answer from the journal by name and arguments.

        Args:
            run_id: The run.
            model: In place of the agent's.
            instructions: In place of the agent's.
            options: With one of those: `on_miss`, which is `stop`, or `read` for calling tools of effect `read` where
                the journal has no answer; `deps`, `on_request` and `on_event` as for `run`.

        Returns:
            Where the code differs; or how the run would have ended.

        Raises:
            UsageError: There is no such run or agent, or the app has no store.
            StoreError: The store cannot be used.
        """
        async with self.working(takes=False) as mine:
            records = await _records(mine, run_id)
        agent = self.agent(records[0].body["definition"])
        if model is None and instructions is None:
            if options:
                raise UsageError(f"{', '.join(options)} is for a replay with another model or instructions. Name one.")
            return replay.replay(run_id, agent, records)
        other = agent.but(model=model, instructions=instructions)
        return await replay.rehearse(run_id, other, agent, records, **options)

    async def fork(
        self,
        run_id: str,
        *,
        at: int | None = None,
        before: str | None = None,
        edits: Edits | None = None,
        pins: Mapping[str, tuple[str, str]] | None = None,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        deps: Any = None,
        on_request: OnRequest | None = None,
        on_event: Listener | None = None,
    ) -> RunResult[Any]:
        """Run anew from somewhere in a run: what came before is shared, and what comes after is done again.

        Args:
            run_id: The run, which is left as it is.
            at: The last record that is shared; or
            before: the op, for example `t2.0`, before which the new run begins.
            edits: By op, `{"arguments": {…}}` to make its call with, or the `{"result": …}` to take in place of it.
            pins: By op, a run and its op, whose recorded result is taken in place of the call.
            idempotency_key: As for `run`, like all that follows.
            tags: Words to find the new run by.
            deps: Live objects of this process.
            on_request: Answers what the new run asks, in this process.
            on_event: Hears of records once they are durable.

        Returns:
            How the new run ended, or what it waits for.

        Raises:
            UsageError: There is no such run, record or op, or an edit of what cannot be edited.
            NonDeterminism: Today's code commands something else before the fork begins.
            StoreError: The store cannot be used.
        """
        async with self.working(takes=False) as mine:
            return await mine.fork(
                run_id,
                at=at,
                before=before,
                edits=edits,
                pins=pins,
                key=idempotency_key,
                tags=tags,
                deps=deps,
                on_request=on_request,
                on_event=on_event,
            )

    async def diff(self, a: str, b: str) -> Comparison:
        """Two runs side by side, and where they first differ.

        Args:
            a: A run.
            b: Another one.

        Raises:
            UsageError: There is no such run, or the app has no store.
            StoreError: The store cannot be used.
        """
        async with self.working(takes=False) as mine:
            return compare.diff(await _records(mine, a), await _records(mine, b))

    async def resume(self, run_id: str) -> None:
        """Have a blocked run tried again, by the next worker that looks: its cause must be gone.

        Args:
            run_id: The run.

        Raises:
            UsageError: There is no such run, or it is not blocked.
            StoreError: The store cannot be used.
        """
        async with self.working(takes=False):
            entry = await self.store.entry(run_id)
            if entry is None or entry.state != "blocked":
                why = "there is no such run" if entry is None else f"it is {entry.state}"
                raise UsageError(f"run {run_id!r} cannot be resumed: {why}. Only blocked runs are.")
            await self.store.post(run_id, "resume", b"{}")


async def _records(mine: Worker, run_id: str) -> list[Record]:
    """A run's records, of which there are some."""
    records = await mine.records(run_id)
    if not records:
        raise UsageError(f"there is no run {run_id!r} in the store.")
    return records
