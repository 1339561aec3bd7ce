"""The composition root: tools and agents, and where their runs live."""

from __future__ import annotations

import difflib
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast, overload

from ferrule.errors import ConfigurationError, UsageError
from ferrule.lazy import LazyModule
from ferrule.tool.tool import Tool
from ferrule.tool.toolset import Toolset

if TYPE_CHECKING:
    from typing import TypeGuard

    from ferrule import message
    from ferrule.agent import loop
    from ferrule.agent.agent import Agent
    from ferrule.agent.loop import Limits
    from ferrule.journal import sqlite
    from ferrule.journal.retention import Retention
    from ferrule.journal.store import Store
    from ferrule.message import Prompt
    from ferrule.runtime import compare, inbox, replay, stream, worker
    from ferrule.runtime.answer import OnRequest
    from ferrule.runtime.compare import Comparison
    from ferrule.runtime.driver import Listener
    from ferrule.runtime.fork import Edits
    from ferrule.runtime.inbox import Inbox
    from ferrule.runtime.outcome import RunResult
    from ferrule.runtime.replay import OnMiss, Rehearsal, Replay
    from ferrule.runtime.stream import RunStream
    from ferrule.runtime.worker import Worker

    AnyAgent = Agent[Any, Any]
else:  # tools alone need nothing of what runs are made of
    message = LazyModule("ferrule.message")
    loop = LazyModule("ferrule.agent.loop")
    sqlite = LazyModule("ferrule.journal.sqlite")
    compare = LazyModule("ferrule.runtime.compare")
    inbox = LazyModule("ferrule.runtime.inbox")
    replay = LazyModule("ferrule.runtime.replay")
    stream = LazyModule("ferrule.runtime.stream")
    worker = LazyModule("ferrule.runtime.worker")


class App:
    """What a project offers: names to tools and agents. Immutable.

    Args:
        tools: Tools and plain functions, a mapping from names to tools, or a toolset.
        agents: Agents, each under its own name.
        store: Where runs live: a store, or the path of an SQLite file. None keeps runs in memory.
        retention: What workers keep of runs that are over. None keeps all of it.

    Raises:
        ToolNameError: Two tools would answer to one name.
        ToolDefinitionError: Something that is neither a tool nor a function.
        ConfigurationError: Two agents would answer to one name, or something is no agent.

    Since 0.1.
    """

    __slots__ = ("_agents", "_path", "_retention", "_store", "_tools", "_users", "_worker")

    def __init__(
        self,
        *,
        tools: Toolset | Iterable[Tool | Callable[..., Any]] | Mapping[str, Tool] = (),
        agents: Iterable[AnyAgent] = (),
        store: Store | str | Path | None = None,
        retention: Retention | None = None,
    ) -> None:
        """Take the tools and agents under their names."""
        self._retention = retention
        self._path = Path(store) if isinstance(store, str | Path) else None
        self._store: Store | None = (
            cast("Store | None", store) if self._path is None else sqlite.SqliteStore(self._path)
        )
        self._worker: Worker | None = None
        self._users = 0
        self._tools = tools if isinstance(tools, Toolset) else Toolset(tools)
        self._agents: dict[str, AnyAgent] = {}
        for agent in agents:
            if not is_agent(agent):
                raise ConfigurationError(f"{type(agent).__name__} is no agent. Give App agents made by Agent(...).")
            if self._agents.setdefault(agent.name, agent) is not agent:
                raise ConfigurationError(f"two agents are named {agent.name!r}. Rename one.")

    @property
    def tools(self) -> Toolset:
        """The tools by name."""
        return self._tools

    @property
    def agents(self) -> Mapping[str, AnyAgent]:
        """The agents by name."""
        return MappingProxyType(self._agents)

    def agent(self, name: str) -> AnyAgent:
        """The agent of a name.

        Args:
            name: Its name.

        Raises:
            UsageError: There is none; the names that could be meant are told.
        """
        if name in self._agents:
            return self._agents[name]
        close = difflib.get_close_matches(name[:200], self._agents, n=3, cutoff=0.5)
        known = f"Close names: {', '.join(close)}." if close else f"There are: {', '.join(self._agents)}."
        told = known if self._agents else "The app has none: put an Agent at the top level of a module, or name an App."
        raise UsageError(f"There is no agent {name[:100]!r}. {told}")

    # -- durable runs -------------------------------------------------------------------------------------------

    @property
    def is_durable(self) -> bool:
        """Whether it has a store, so that its runs outlive the process."""
        return self._store is not None

    @property
    def store(self) -> Store:
        """Where its runs live.

        Raises:
            UsageError: It has none.
        """
        if self._store is None:
            raise UsageError("this app keeps no runs. Give it a store: App(..., store='runs.db').")
        return self._store

    @property
    def retention(self) -> Retention | None:
        """What workers keep of runs that are over; None keeps all of it."""
        return self._retention

    @asynccontextmanager
    async def working(self, *, takes: bool = True) -> AsyncGenerator[Worker]:
        """Drive runs of the store while the block lasts: `async with app.working() as worker`.

        Blocks inside one another share one worker.

        Args:
            takes: Whether it also takes runs that others left or that were answered.

        Raises:
            UsageError: The app has no store.
            StoreError: The store cannot be used.
        """
        if self._worker is None:
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            await self.store.open()
            self._worker = worker.Worker(self.store, self._agents)
            await self._worker.__aenter__()
        self._users += 1
        if takes:
            self._worker.start(self._retention)
        try:
            yield self._worker
        finally:
            self._users -= 1
            if not self._users:
                ending, self._worker = self._worker, None
                try:
                    await ending.__aexit__()
                finally:
                    await self.store.close()

    async def run(
        self,
        name: str,
        prompt: Prompt,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        deps: Any = None,
        on_request: OnRequest | None = None,
        on_event: Listener | None = None,
        run_id: str | None = None,
    ) -> RunResult[Any]:
        """Run an agent durably, to its end or until it waits for answers.

        Whoever is cancelled while they wait here leaves the run, and does not cancel it: it goes on in a `working`
        block around this call, and without one it gets five seconds to come to a halt, and is then for the next worker.

        Args:
            name: The agent's name.
            prompt: As for `Agent.run`.
            context: A JSON object about the run, kept with it.
            limits: In place of the agent's own.
            idempotency_key: A second start with it gives the first run, and goes on with it where nobody does.
            tags: Words to find the run by.
            deps: Live objects of this process; a run that goes on in another has those that the agent makes.
            on_request: Answers what the run asks, in this process.
            on_event: Hears of records once they are durable.
            run_id: The run's id, of letters, digits, `_` and `-`; default a new one. A second start with it gives the
                first run.

        Returns:
            How it ended; failures are data.

        Raises:
            UsageError: There is no such agent, or the app has no store.
            StoreError: The store cannot be used, or another worker has taken the run.
        """
        live = {"deps": deps, "on_request": on_request, "on_event": on_event}
        return await self._run(name, prompt, limits, live, idempotency_key, context=context, tags=tags, run_id=run_id)

    async def _run(
        self, name: str, prompt: Prompt, limits: Limits | None, live: Mapping[str, Any], key: str | None, **about: Any
    ) -> RunResult[Any]:
        self.agent(name)
        async with self.working(takes=False) as mine:
            return await mine.run(name, _given(prompt), options=_options(limits), key=key, **live, **about)

    def stream(
        self,
        name: str,
        prompt: Prompt,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        deps: Any = None,
        on_request: OnRequest | None = None,
        run_id: str | None = None,
    ) -> RunStream[Any]:
        """Run an agent durably and hear of it while it goes on: `async with app.stream(…) as events`.

        Pieces of answers come as they come, and are not kept; all else comes once it is durable. A slow consumer never
        holds the run up. Leaving lets it go on, as for `run`.

        Args:
            name: As for `run`.
            prompt: As for `run`.
            context: As for `run`.
            limits: As for `run`.
            idempotency_key: As for `run`; of a run that goes on elsewhere or is over, only the result comes.
            tags: As for `run`.
            deps: As for `run`.
            on_request: As for `run`.
            run_id: As for `run`.

        Returns:
            The events; after the last of them `events.result`.
        """

        def start(events: RunStream[Any]) -> Coroutine[Any, Any, RunResult[Any]]:
            live = {"deps": deps, "on_request": on_request, "stream": events}
            return self._run(name, prompt, limits, live, idempotency_key, context=context, tags=tags, run_id=run_id)

        return stream.RunStream(start, durable=True)

    async def start(
        self,
        name: str,
        prompt: Prompt,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        run_id: str | None = None,
    ) -> str:
        """Start a durable run and leave it to a worker, here or elsewhere.

        Args:
            name: As for `run`.
            prompt: As for `run`.
            context: As for `run`.
            limits: As for `run`.
            idempotency_key: As for `run`.
            tags: As for `run`.
            run_id: As for `run`.

        Returns:
            The run's id.

        Raises:
            UsageError: As for `run`.
            StoreError: As for `run`.
        """
        self.agent(name)
        about: dict[str, Any] = {"context": context, "key": idempotency_key, "tags": tags, "run_id": run_id}
        async with self.working(takes=False) as mine:
            return await mine.leave(name, _given(prompt), options=_options(limits), **about)

    # -- runs that were recorded ------------------------------------------------------------------------------------

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
            records = await mine.history(run_id)
            lost = await mine.lost(run_id)
        agent = self.agent(records[0].body["definition"])
        if model is None and instructions is None:
            if options:
                raise UsageError(f"{', '.join(options)} is for a replay with another model or instructions. Name one.")
            found = replay.replay(run_id, agent, records)
            if found.blocks and lost is not None:
                raise UsageError(f"run {run_id!r} cannot be compared: bytes of its record {lost} are no longer kept.")
            return found
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
            return compare.diff(await mine.history(a), await mine.history(b))

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

    @property
    def inbox(self) -> Inbox:
        """What its runs wait for; the store must be open, as it is within `working`."""
        return inbox.Inbox(self.store)

    def __repr__(self) -> str:
        """The names of its tools and agents."""
        return f"App({', '.join([*self._tools.names, *self._agents])})"


def _given(prompt: Prompt) -> Any:
    return loop.RunInput(message.user(prompt))


def _options(limits: Limits | None) -> dict[str, Any] | None:
    return {"limits": limits} if limits is not None else None


def is_agent(value: object) -> TypeGuard[AnyAgent]:
    """Whether something is an agent; while nobody has loaded what agents are made of, nothing is one.

    Args:
        value: Any object; a project of tools alone does not pay for that.

    Since 0.1.
    """
    module = sys.modules.get("ferrule.agent.agent")
    return module is not None and isinstance(value, module.Agent)
