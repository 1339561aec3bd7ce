"""The public object: a model, tools and instructions under one name. Immutable; all state of a run is in the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, cast

from typing_extensions import TypeForm, TypeVar

from ferrule.agent.hooks import Chain, Hooks, Instructions
from ferrule.agent.loop import AgentLoop, Limits, Plan, Rewritten, RunInput
from ferrule.agent.output import Output
from ferrule.errors import SessionBusy, UsageError
from ferrule.journal.memory import MemoryJournal
from ferrule.lazy import LazyModule
from ferrule.message import Message, ModelMessage, Prompt, unpaired, user
from ferrule.provider.base import Model, ModelResponse, Settings
from ferrule.provider.function import Models, as_model
from ferrule.runtime.answer import OnRequest
from ferrule.runtime.driver import Driver, Listener
from ferrule.runtime.event import Event
from ferrule.runtime.info import RunInfo, new_run_id
from ferrule.runtime.outcome import RunResult
from ferrule.runtime.stream import RunStream
from ferrule.tool.body.thread import POOL
from ferrule.tool.tool import Effect, Tool, ToolDefinition
from ferrule.tool.toolset import Several, Toolset

if TYPE_CHECKING:
    import asyncio
    import logging
    from concurrent import futures
else:
    asyncio = LazyModule("asyncio")
    futures = LazyModule("concurrent.futures")
    logging = LazyModule("logging")

Deps = TypeVar("Deps", default=Any)
Out = TypeVar("Out", default=str)


class Session:
    """A transcript that several runs continue, one at a time, in this process.

    Args:
        messages: What it begins with.

    Raises:
        UsageError: They hold a call without its result.

    Since 0.1.
    """

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        """Belong to no run."""
        self.messages: Sequence[Message] = tuple(messages)
        """The transcript so far."""
        _check_history(self.messages)
        self._holder: str | None = None

    def take(self, run_id: str) -> Sequence[Message]:
        """Begin a run of it.

        Args:
            run_id: The run.

        Raises:
            SessionBusy: Another run is going on.
        """
        if self._holder is not None:
            raise SessionBusy(self._holder, "running")
        self._holder = run_id
        return self.messages

    def give(self, result: RunResult[Any] | None) -> None:
        """End the run; a suspended one, or one that came to no end, leaves the transcript as it was.

        Args:
            result: How it ended.
        """
        self._holder = None
        if result is not None and result.status != "suspended":
            self.messages = tuple(result.messages)


class Agent(Generic[Deps, Out]):
    """A model that calls tools until it has an answer.

    Args:
        name: Its name, like a tool's.
        model: `"openai:gpt-5"`, `"anthropic:…"`, `"gemini:…"`, `"ollama:…"` and so on; a `Model`; or an async function.
        instructions: The system text, or a function of the run that makes it for each request.
        tools: Tools, plain functions or sets of them.
        output: The type of the answer; `str` takes the text as it is.
        settings: How the model is asked.
        limits: Where a run stops by itself.
        hooks: What looks at each step.
        deps: Makes the live objects that tools get as `ctx.deps`, from the run's context.
        fallback: Models that stand in when the one before gives no usable answer.
        output_retries: How often an answer that does not fit `output` is sent back.

    Raises:
        ToolDefinitionError: The name, a tool or the output type cannot be used.
        UsageError: The model cannot be used.

    Since 0.1.
    """

    def __init__(
        self,
        name: str,
        model: Models,
        *,
        instructions: str | Callable[[RunInfo[Deps]], Any] | None = None,
        tools: Toolset | Iterable[Several] = (),
        output: TypeForm[Out] = str,
        settings: Settings | None = None,
        limits: Limits | None = None,
        hooks: Iterable[Hooks] = (),
        deps: Callable[[Mapping[str, Any]], Deps | Awaitable[Deps]] | None = None,
        fallback: Iterable[Models] = (),
        output_retries: int = 2,
    ) -> None:
        """Settle everything that no run changes."""
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError("an agent needs a name, for example Agent('support', 'openai:gpt-5').")
        _check("settings", settings, Settings, "Settings(temperature=0)")
        _check("limits", limits, Limits, "Limits(turns=5)")
        self._given = _several("hooks", hooks)
        for hook in self._given:
            _check("each of hooks", hook, Hooks, "an object of a class that extends Hooks")
        self._name = name
        self._deps = deps
        fixed = self._instructed(instructions)
        made = tools if isinstance(tools, Toolset) else Toolset(tools)
        self._plan = Plan(
            tuple(as_model(m) for m in (model, *_several("fallback", fallback))),
            fixed,
            made,
            settings or Settings(),
            limits or Limits(),
            None if output is str else Output(output, name),
            output_retries,
            any(t.serial for t in made),
            any(t.runs == "run" for t in made),
        )

    def _instructed(self, instructions: Any) -> str:
        """Settle who looks at each step; the system text, where it is always the same."""
        made = callable(instructions)
        chain = Chain([Instructions(instructions), *self._given] if made else self._given)
        self._listeners = chain.listeners
        self._hooks = chain if chain.watches_models or chain.watches_tools else None
        return "" if instructions is None or made else str(instructions)

    def but(
        self, *, model: Models | None = None, instructions: str | Callable[[RunInfo[Deps]], Any] | None = None
    ) -> Agent[Deps, Out]:
        """The same agent with another model, or with other instructions.

        Args:
            model: In place of its model and of those that stand in for it.
            instructions: In place of its own.

        Raises:
            UsageError: The model cannot be used.
        """
        other = copy(self)
        if model is not None:
            other._plan = replace(other._plan, models=(as_model(model),))
        if instructions is not None:
            other._plan = replace(other._plan, instructions=other._instructed(instructions))
        return other

    # -- what the runtime asks ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def tools(self) -> Toolset:
        """Its tools."""
        return self._plan.tools

    @property
    def models(self) -> tuple[Model, ...]:
        """Its model, and those that stand in for it."""
        return self._plan.models

    @property
    def hooks(self) -> Chain | None:
        """What looks at each step; None when nothing does."""
        return self._hooks

    def machine(self, options: Mapping[str, Any]) -> AgentLoop:
        """A fresh machine for one run.

        Args:
            options: `limits`, in place of the agent's own.
        """
        return AgentLoop(replace(self._plan, **options) if options else self._plan)

    def rewritten(self, response: ModelResponse, messages: Sequence[Message]) -> Rewritten:
        """The outcome of a request whose transcript a hook had replaced.

        Args:
            response: The response.
            messages: The transcript that was sent.
        """
        return Rewritten(response, messages)

    def live(self, context: Mapping[str, Any]) -> Any:
        """The live objects that its tools get as `ctx.deps`; None when it makes none.

        Args:
            context: The run's JSON object.
        """
        return self._deps(context) if self._deps is not None else None

    def heard_by(self, listener: Listener | None) -> Listener | None:
        """Its hooks that hear events, and one more.

        Args:
            listener: The one more.
        """
        return _all([*self._listeners, listener] if listener is not None else self._listeners)

    # -- running ------------------------------------------------------------------------------------------------

    async def run(
        self,
        prompt: Prompt,
        *,
        deps: Deps | None = None,
        context: Mapping[str, Any] | None = None,
        history: Sequence[Message] = (),
        session: Session | None = None,
        limits: Limits | None = None,
        on_request: OnRequest | None = None,
        on_event: Listener | None = None,
    ) -> RunResult[Out]:
        """Run to the end, in memory.

        Args:
            prompt: Text, parts, or a list of both.
            deps: Live objects for this run, in place of those the agent makes.
            context: A JSON object about the run: user, tenant, locale.
            history: The transcript to continue.
            session: The session to continue, in place of `history`.
            limits: In place of the agent's own.
            on_request: Answers what the run asks, in this process; sync or async. None leaves it suspended.
            on_event: Hears of what happens; called at once, so it must be quick.

        Returns:
            How it ended; failures are data.

        Raises:
            UsageError: Wrong use: a part that the model does not take, a history without results, both sessions and
                history.
            SessionBusy: Another run of the session is going on.
        """
        return await self._start(prompt, deps, context, history, session, limits, on_request, on_event)

    def _start(
        self,
        prompt: Prompt,
        deps: Deps | None,
        context: Mapping[str, Any] | None,
        history: Sequence[Message],
        session: Session | None,
        limits: Limits | None,
        on_request: OnRequest | None,
        on_event: Listener | None,
        stream: RunStream[Out] | None = None,
    ) -> Coroutine[Any, Any, RunResult[Out]]:
        """Check everything that may be misuse, and give what drives the run."""
        _check("limits", limits, Limits, "Limits(turns=5)")
        _check("session", session, Session, "Session()")
        _check("context", context, Mapping, "a JSON object like {'user': 'ada'}")
        if session is not None and history:
            raise UsageError("a run continues a session or a history, not both.")
        history = tuple(history)
        _check_history(history)
        journal = MemoryJournal(new_run_id(), keep=False)
        driver = Driver(
            self,
            journal,
            RunInfo(journal.run_id, context or {}, deps),
            options={"limits": limits} if limits is not None else None,
            listener=self.heard_by(on_event),
            stream=stream,
            on_request=on_request,
        )
        if stream is not None:
            stream.driver = driver
        given = user(prompt)
        if session is None:
            return driver.run(RunInput(given, history))
        return _in_session(session, driver, RunInput(given, session.take(journal.run_id)))

    def stream(
        self,
        prompt: Prompt,
        *,
        deps: Deps | None = None,
        context: Mapping[str, Any] | None = None,
        history: Sequence[Message] = (),
        session: Session | None = None,
        limits: Limits | None = None,
        on_request: OnRequest | None = None,
    ) -> RunStream[Out]:
        """Run, and hear of it while it goes on: `async with agent.stream("…") as events`.

        Args:
            prompt: As for `run`.
            deps: As for `run`.
            context: As for `run`.
            history: As for `run`.
            session: As for `run`.
            limits: As for `run`.
            on_request: As for `run`.

        Returns:
            The events; after the last of them `events.result`.
        """
        return RunStream(
            lambda stream: self._start(prompt, deps, context, history, session, limits, on_request, stream.put, stream)
        )

    def run_sync(self, prompt: Prompt, **options: Any) -> RunResult[Out]:
        """Run to the end and wait for it, in a script, a notebook or a thread.

        Inside a running event loop it works too, and holds that loop up
        meanwhile; use `run` there where you can. Ctrl-C ends the run before
        it is raised; once more, and it is raised at once.

        Args:
            prompt: As for `run`.
            options: As for `run`.
        """
        work = self.run(prompt, **options)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(work)
        return _elsewhere(work)

    def as_tool(
        self,
        name: str | None = None,
        description: str = "",
        *,
        effect: Effect = "once",
        approval: bool | Callable[[dict[str, Any]], Any] = False,
        timeout: float = 600.0,
    ) -> AgentTool:
        """A tool that runs this agent on a text, its argument `input`; its calls are runs inside the caller's run.

        Args:
            name: Default the agent's name.
            description: What it is good for, for the model that chooses.
            effect: Effect class of the whole; `read` when nothing it can do changes anything.
            approval: Whether a person must agree first: a bool, or a rule on the arguments.
            timeout: Seconds for a call from outside a run. Inside one the child ends by its own limits and by what is
                left of the caller's.
        """
        return AgentTool(cast("Agent[Any, Any]", self), name or self._name, description, effect, approval, timeout)

    def __repr__(self) -> str:
        """Name, model and tools."""
        return f"<Agent {self._name!r} model={self._plan.models[0].name!r} tools={len(self._plan.tools)}>"


_ABOUT: Final = {"type": "string", "description": "What the agent should do, with everything it must know."}
_INPUT: Final = {
    "type": "object",
    "properties": {"input": _ABOUT},
    "required": ["input"],
    "additionalProperties": False,
}


class AgentTool(Tool):
    """An agent as a tool, made by `Agent.as_tool`. Its calls in a run are runs inside that one.

    Args:
        agent: The agent.
        name: As for `Agent.as_tool`, like all that follows.
        description: What it is good for.
        effect: Effect class of the whole.
        approval: Whether a person must agree first.
        timeout: Seconds for a call from outside a run.

    Since 0.1.
    """

    runs = "run"  # pyright: ignore[reportAssignmentType] - settled by the kind, not by looking at the body

    def __init__(
        self,
        agent: Agent[Any, Any],
        name: str,
        description: str,
        effect: Effect,
        approval: bool | Callable[[dict[str, Any]], Any],
        timeout: float,
    ) -> None:
        """Keep what it says of itself."""
        self.agent = agent
        self.effect = effect
        self.approval = approval
        self.timeout = timeout
        self._name = name
        self._description = description or f"Ask the agent {agent.name}."

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def description(self) -> str:
        """What it is good for."""
        return self._description

    @property
    def definition(self) -> ToolDefinition:
        """Its one argument."""
        return ToolDefinition(self.name, self.description, _INPUT)

    def input_of(self, values: Mapping[str, Any], within: Limits | None) -> RunInput:
        """What a run inside is given.

        Args:
            values: Checked arguments by name.
            within: What it may consume.
        """
        return RunInput(user(str(values["input"])), (), within)

    async def execute(self, context: Any) -> Any:
        """Run the agent, for a call from outside a run.

        Args:
            context: The call's context.
        """
        run = await self.agent.run(str(context.variables["input"]), context=context.run_context)
        asked = [self.agent.tools.find(c.name) for m in run.messages if isinstance(m, ModelMessage) for c in m.calls]
        return run.as_tool_result(after_effects=any(tool is not None and tool.effect == "once" for tool in asked))


def _elsewhere(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in a thread with a loop of its own; what interrupts whoever waits, a Ctrl-C, ends the run as well."""
    ends: list[Callable[[], Any]] = []  # what ends it, once it has begun
    told = False

    async def watched() -> Any:
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[Any]", asyncio.current_task())
        ends.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if told:
            task.cancel()
        return await work

    def cancel() -> None:
        nonlocal told
        told = True
        for end in ends:
            with suppress(RuntimeError):  # its loop is closed: it has ended
                end()

    future = POOL.submit(lambda: asyncio.run(watched()))
    try:
        futures.wait([future])
    except BaseException:
        if future.cancel():  # no thread had come to it
            work.close()
            raise
        try:  # calls in flight are given their grace; who interrupts once more waits no longer
            cancel()
            futures.wait([future])
        except BaseException:
            cancel()
            raise
        raise
    return future.result()


async def _in_session(session: Session, driver: Driver, given: RunInput) -> RunResult[Any]:
    try:
        result = await driver.run(given)
    except BaseException:
        session.give(driver.result)  # of a run that was cancelled from outside; None when it came to no end
        raise
    session.give(result)
    return result


def _check(name: str, given: Any, kind: type, example: str) -> None:
    if given is not None and not isinstance(given, kind):
        raise UsageError(f"{name} must be {kind.__name__}, not {type(given).__name__}. Give {example}.")


def _several(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"{name} must be a list, not {type(given).__name__}. Put it into brackets.")
    return tuple(cast("Iterable[Any]", given))


def _check_history(history: Sequence[Any]) -> None:
    wrong = unpaired(history) if history else None
    if wrong is not None:
        raise UsageError(f"the history cannot be continued: {wrong}. Give each call one result, directly after it.")


def _all(listeners: Sequence[Callable[[Event], Any]]) -> Listener | None:
    if len(listeners) <= 1:
        return listeners[0] if listeners else None

    def tell(event: Event) -> None:
        for listener in listeners:
            try:
                listener(event)
            except Exception:  # one that is deaf must not make the others deaf
                logging.getLogger("ferrule.run").exception("a listener raised")

    return tell
