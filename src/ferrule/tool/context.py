"""What a tool is told about the call it runs in."""

from __future__ import annotations

import os
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.strict_json import is_a, kind_of
from ferrule.suspension import Answer, Request

if TYPE_CHECKING:
    import logging
else:
    logging = LazyModule("logging")

Deps = TypeVar("Deps", default=Any)


class Suspend(BaseException):
    """A tool asks and has no answer yet. Not an Exception, so that a tool's own handlers let it pass.

    Args:
        request: What it asks.

    Since 0.1.
    """

    def __init__(self, request: Request) -> None:
        """Carry the request to the call."""
        super().__init__(request.kind)
        self.request = request


class AskMismatch(Exception):
    """A tool asked something else than before the answer was given.

    Since 0.1.
    """


class Variables:
    """The variables of a run, as one call sees them.

    Args:
        values: What they hold at first.

    Raises:
        UsageError: `values` is no mapping.

    Since 0.1.
    """

    __slots__ = ("_arguments", "_changes", "_values")

    def __init__(self, values: Mapping[str, Any] | Variables | None = None) -> None:
        """Copy the values."""
        try:
            self._values: dict[str, Any] = dict(values.items()) if values is not None else {}
        except AttributeError:
            raise UsageError(f"variables must be a mapping, not {kind_of(values)}.") from None
        self._changes: dict[str, Any] = {}
        self._arguments: Mapping[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a variable.

        Args:
            key: Its name.
            default: What to give when it is absent.
        """
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Set a variable.

        Args:
            key: Its name.
            value: Any object.
        """
        self._values[key] = self._changes[key] = value

    def update(self, values: Mapping[str, Any] | Variables) -> None:
        """Set several variables.

        Args:
            values: By name.
        """
        for key, value in values.items():
            self.set(key, value)

    def contains(self, key: str) -> bool:
        """Whether there is such a variable.

        Args:
            key: Its name.
        """
        return key in self._values

    def remove(self, key: str) -> None:
        """Remove a variable if it is there.

        Args:
            key: Its name.
        """
        if key in self._values:
            del self._values[key]
            self._changes[key] = _REMOVED

    def clear(self) -> None:
        """Remove all variables."""
        for key in list(self._values):
            self.remove(key)

    def copy(self) -> Variables:
        """The same variables, apart from these."""
        return Variables(self)

    def as_dict(self) -> dict[str, Any]:
        """A dict of them, apart from these."""
        return dict(self._values)

    def items(self) -> ItemsView[str, Any]:
        """Names and values."""
        return self._values.items()

    def keys(self) -> KeysView[str]:
        """Names."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """Values."""
        return self._values.values()

    def snapshot(self, arguments: Mapping[str, Any]) -> Variables:
        """The variables one call sees: these and its arguments. The values themselves are shared, not copied.

        Args:
            arguments: The call's arguments by name; they hide variables of the same name for the length of the call.
        """
        made = Variables({**self._values, **arguments})
        made._arguments = arguments
        return made

    def apply(self, call: Variables) -> None:
        """Take over what a call changed in its snapshot.

        Args:
            call: The snapshot, after the call has settled.
        """
        for key, value in list(call._changes.items()):
            if key in call._arguments:
                continue
            if value is _REMOVED:
                self.remove(key)
            else:
                self.set(key, value)

    def __getitem__(self, key: str) -> Any:
        """The value of a variable that must be there."""
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a variable."""
        self.set(key, value)

    def __contains__(self, key: object) -> bool:
        """Whether there is such a variable."""
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._values)

    def __repr__(self) -> str:
        """Names only: values may be anything."""
        return f"Variables({', '.join(map(str, self._values))})"


_REMOVED = object()


class Context(Generic[Deps]):
    """What a tool is told about its call, for a parameter annotated `Context`.

    Outside a run one is made when the tool wants it; give your own to pass
    `deps` or variables, or answers to what the tool asks. One context may serve
    many calls: each gets a view of its own, with a new call id and effect key
    unless these are given.

    Args:
        run_id: The run's id; "" outside runs.
        call_id: The call's id; default a new one.
        effect_key: Idempotency key, stable over retry, resume and crash; default made from the call's id.
        attempt: How often the call has been started, from 1.
        answers: Requests of this call and their answers, in order. They are taken as they are: a run checks id,
            digest, expiry and schema before it takes an answer, a context made by hand does not.
        state: What an earlier attempt kept when it suspended, a JSON object; the tool changes this very dict.
        deps: Live objects of the application.
        run_context: The run's JSON object: user, tenant, locale.
        variables: The run's variables.
        deadline: `time.monotonic()` after which nobody waits for the call.
        connections: From a connection's name to its client.
        on_progress: Takes what the tool reports; called in the tool's thread.

    Since 0.1.
    """

    __slots__ = (
        "_asked", "_call_id", "_cancelled", "_connections", "_effect_key", "_is_call", "_nested", "_on_progress",
        "_state", "answers", "attempt", "deadline", "deps", "run_context", "run_id", "shortened",
        "state", "variables",
    )  # fmt: skip

    def __init__(
        self,
        *,
        run_id: str = "",
        call_id: str | None = None,
        effect_key: str | None = None,
        attempt: int = 1,
        answers: Sequence[tuple[Request, Answer]] = (),
        state: dict[str, Any] | None = None,
        deps: Deps = None,  # pyright: ignore[reportArgumentType] - None is the absence of every Deps
        run_context: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | Variables | None = None,
        deadline: float | None = None,
        connections: Callable[[str], Any] | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> None:
        """Keep what the caller knows."""
        self.run_id = run_id
        self.attempt = attempt
        self.answers = _pairs(answers) if answers else ()
        self._state = state
        self.state: dict[str, Any] = state if state is not None else {}
        self.deps: Deps = deps
        self.run_context: Mapping[str, Any] = run_context or {}
        self.variables = variables if isinstance(variables, Variables) else Variables(variables)
        self.deadline = deadline
        self._call_id = call_id
        self._effect_key = effect_key
        self._connections = connections
        self._on_progress = on_progress
        self._asked = 0
        self._nested = 0
        self._is_call = False
        self.shortened = False  # whether the deadline of whoever made the context comes before the call's own
        self._cancelled = False

    def for_call(self, arguments: Mapping[str, Any], deadline: float | None) -> Context[Deps]:
        """The context of one call made with this one: its own snapshot of the variables.

        A call made from inside a call gets an id and key below the outer one's,
        and none of its answers: what was said to one was not said to the other.

        Args:
            arguments: The call's arguments by name.
            deadline: `time.monotonic()` after which nobody waits.
        """
        inside = self._is_call
        if inside:
            self._nested += 1
        made = type(self)(
            run_id=self.run_id,
            call_id=f"{self.call_id}/{self._nested}" if inside else self._call_id,
            effect_key=f"{self.effect_key}/{self._nested}" if inside else self._effect_key,
            attempt=self.attempt,
            answers=() if inside else self.answers,
            state=None if inside else self._state,
            deps=self.deps,
            run_context=self.run_context,
            variables=self.variables.snapshot(arguments),
            deadline=deadline if self.deadline is None else min(self.deadline, deadline or self.deadline),
            connections=self._connections,
            on_progress=self._on_progress,
        )
        made._is_call = True
        made.shortened = self.deadline is not None and (deadline is None or self.deadline < deadline)
        return made

    @property
    def call_id(self) -> str:
        """The call's id."""
        if self._call_id is None:
            self._call_id = f"call_{os.urandom(8).hex()}"
        return self._call_id

    @property
    def effect_key(self) -> str:
        """Idempotency key of the call, the same in every attempt."""
        if self._effect_key is None:
            self._effect_key = f"{self.run_id}:{self.call_id}" if self.run_id else self.call_id
        return self._effect_key

    @property
    def answer(self) -> Answer | None:
        """The latest answer to what this call asked, if any."""
        return self.answers[-1][1] if self.answers else None

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that names run and call."""
        return logging.LoggerAdapter(
            logging.getLogger("ferrule.tool"), {"run_id": self.run_id, "call_id": self.call_id}
        )

    def cancelled(self) -> bool:
        """Whether nobody waits for this call any more; a long sync tool should look and stop."""
        return self._cancelled

    def cancel(self) -> None:
        """Tell the tool that nobody waits any more."""
        self._cancelled = True

    def progress(self, value: Any) -> None:
        """Report how far the tool has come; shown live, not kept.

        Args:
            value: Anything plain: text, a number, a dict.
        """
        if self._on_progress is None:
            return
        try:
            self._on_progress(value)
        except Exception:  # whoever listens must not decide how the call ends
            self.log.exception("a listener to progress raised")

    def connection(self, name: str) -> Any:
        """The client of a configured connection.

        Args:
            name: What `connections` knows it by.

        Raises:
            UsageError: The context has no connections.
        """
        if self._connections is None:
            raise UsageError(f"no connection {name!r} here. Give the call a Context with connections=.")
        return self._connections(name)

    def ask(
        self,
        kind: str = "input",
        prompt: str = "",
        *,
        url: str | None = None,
        data: dict[str, Any] | None = None,
        expiresAt: str | None = None,
        preview: Any = None,
    ) -> Answer:
        """The answer to a question; suspends the call while there is none.

        After an answer the tool runs again from its start, so ask before any
        effect. The n-th question of a call gets the n-th answer.

        Args:
            kind: `input`, `question`, `approval`, `authorization`, or a word of your own.
            prompt: What a person reads.
            url: Where the person must go.
            data: More for the answering side; `data["schema"]` may hold a JSON Schema for the answer.
            expiresAt: RFC 3339 time after which no answer is taken.
            preview: What would happen, for a person.

        Raises:
            RequestError: The question is malformed.
        """
        n = self._asked
        self._asked += 1
        if n < len(self.answers):
            request, answer = self.answers[n]
            if (request.kind, request.prompt) != (kind, prompt):
                was, now = f"{request.kind!r} {request.prompt[:60]!r}", f"{kind!r} {prompt[:60]!r}"
                raise AskMismatch(f"question {n + 1} was {was} before the answer and is {now} now")
            return answer
        raise Suspend(Request(f"{self.call_id}/{n + 1}", kind, prompt, url, data, expiresAt, preview))


def _pairs(answers: Sequence[tuple[Request, Answer]]) -> tuple[tuple[Request, Answer], ...]:
    with suppress(TypeError, ValueError):  # nothing to iterate, or no two
        pairs = tuple((request, answer) for request, answer in answers)
        if all(is_a(request, Request) and is_a(answer, Answer) for request, answer in pairs):
            return pairs
    raise UsageError("answers of a Context must be pairs of a Request and its Answer: answers=[(request, answer)].")
