"""Every exception of ferrule, on one page.

A failing *tool* never raises: its failure is a `ToolResult`. What raises is
misuse of the API, and each class below names who has something to mend.

    FerruleError
    ├── UsageError              the calling code passed what cannot be taken
    │   ├── ContentPartError        … as a content part           (a ValueError)
    │   ├── UnsupportedPartError    … as a part for this provider (a ValueError)
    │   ├── RequestError            … as a request or an answer   (a ValueError)
    │   └── UnknownToolError        … as the name of a tool       (a KeyError)
    ├── ToolDefinitionError     a tool is declared wrongly
    │   └── ToolNameError           … two tools would answer to one name
    ├── ConfigurationError      ferrule.toml or an app says what cannot be
    ├── ModelError              a provider refused, failed or was cut off
    ├── RunError                a run did not end well, and somebody insisted
    ├── StoreError              a journal's store is full, locked, read-only, newer than this code, or damaged
    │   └── LeaseLost               … or another worker has taken the run
    ├── ArchiveError            a file of a run is not taken in: damaged, cut, newer, or another run is in its way
    ├── AnswerRefused           no answer to this request is taken: unknown, expired, closed
    │   └── AlreadyAnswered         … or answered before, by whom and when
    ├── NonDeterminism          a run's records tell of something else than today's code would do
    ├── SessionBusy             another run of the session is still going on
    ├── FetchError              an outgoing request gave no usable answer
    │   └── ForbiddenAddressError   … because its address is not one that may be asked
    └── JSONSyntaxError         text is not strict JSON           (a ValueError)
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial


class FerruleError(Exception):
    """Base of everything ferrule raises.

    Since 0.1.
    """


class UsageError(FerruleError):
    """The calling code passed something the API cannot take.

    Since 0.1.
    """


class ContentPartError(UsageError, ValueError):
    """A content part cannot be built from what was given.

    Since 0.1.
    """


class UnsupportedPartError(UsageError, ValueError):
    """A provider has no shape for a part that the caller attached.

    Args:
        part_type: Kind of the part: `image`, `file`, `audio`.
        mime_type: Its media type, if known.
        style: Name of the provider's message style.

    Since 0.1.
    """

    def __init__(self, part_type: str, mime_type: str | None, style: str) -> None:
        """Name the part and the style that cannot carry it."""
        kind = f"{part_type} part ({mime_type})" if mime_type else f"{part_type} part"
        super().__init__(f"{style} has no shape for the {kind}. Convert it to a supported type or send its text.")
        self.part_type = part_type
        self.mime_type = mime_type
        self.style = style

    def __reduce__(self) -> tuple[type[UnsupportedPartError], tuple[str, str | None, str]]:
        """Copy and pickle by the arguments, not by the text made of them."""
        return type(self), (self.part_type, self.mime_type, self.style)


class RequestError(UsageError, ValueError):
    """A request or an answer is malformed.

    Since 0.1.
    """


class UnknownToolError(UsageError, KeyError):
    """No tool of a toolset has the name that code asked for.

    A *model* that asks for an unknown tool gets a failed result instead.

    Since 0.1.
    """

    def __str__(self) -> str:
        """Give the message itself; KeyError would quote it."""
        return Exception.__str__(self)


class ToolDefinitionError(FerruleError):
    """A tool is declared in a way that cannot work; raised when it is defined.

    Since 0.1.
    """


class ToolNameError(ToolDefinitionError):
    """Two tools of one set would answer to one name.

    Since 0.1.
    """


class ConfigurationError(FerruleError):
    """`ferrule.toml` or an app names something that is not there.

    Since 0.1.
    """


class ModelError(FerruleError):
    """A model gave no usable answer. Holds no key, no prompt and no argument value.

    A run that ends with one *returns* it in its result; it is raised by
    `raise_for_status` and by a model that is called by itself.

    Args:
        reason: What happened, and what to do about it.
        provider: Name of the provider.
        status: HTTP status, if there was an answer.
        code: The provider's own word for it.
        request_id: The provider's id of the request.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds to wait before that, if the provider said so.

    Since 0.1.
    """

    def __init__(
        self,
        reason: str,
        *,
        provider: str,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """Keep what is known, and say it in one sentence."""
        known = [
            f"{name} {value}" for name, value in (("status", status), ("code", code), ("request", request_id)) if value
        ]
        super().__init__(f"{provider}: {reason}" + (f" [{', '.join(known)}]" if known else ""))
        self.reason = reason
        self.provider = provider
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retryable = retryable
        # An error must not fail for what somebody's own model says of it; NaN is no wait either.
        self.retry_after = retry_after if isinstance(retry_after, int | float) and retry_after >= 0 else None  # pyright: ignore[reportUnnecessaryIsInstance]

    def __reduce__(self) -> tuple[partial[ModelError], tuple[str]]:
        """Copy and pickle by the arguments, not by the text made of them."""
        known = ("provider", "status", "code", "request_id", "retryable", "retry_after")
        return partial(type(self), **{name: getattr(self, name) for name in known}), (self.reason,)


class FetchError(FerruleError):
    """A guarded request to an address that somebody else chose gave no usable answer.

    Holds no path and no query of the URL: keys stand there.

    Args:
        reason: What happened, and what to do about it.
        retryable: Whether the same request may succeed later.

    Since 0.1.
    """

    def __init__(self, reason: str, *, retryable: bool = False) -> None:
        """Keep what is known."""
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable


class ForbiddenAddressError(FetchError):
    """A URL, or a redirect behind it, leads to an address that may not be asked: private, loopback, metadata.

    Since 0.1.
    """


class RunError(FerruleError):
    """A run did not end `done`; raised only by `raise_for_status`.

    Since 0.1.
    """


class StoreError(FerruleError):
    """A journal's store cannot do what was asked; nothing of it was written.

    Args:
        reason: What happened, to which store, and what to do about it.
        retryable: Whether the same may succeed later.

    Since 0.1.
    """

    def __init__(self, reason: str, *, retryable: bool = False) -> None:
        """Keep what is known."""
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable


class LeaseLost(StoreError):
    """Another worker has taken the run: whoever held it must stop, and start no effect.

    Since 0.1.
    """


class ArchiveError(FerruleError):
    """The file of a run cannot be taken in; nothing of it was written.

    Args:
        reason: What is wrong with which line, and what to do about it.
        taken: Whether nothing is wrong with it, and another run has its id or its idempotency key.

    Since 0.1.
    """

    def __init__(self, reason: str, *, taken: bool = False) -> None:
        """Keep what is known."""
        super().__init__(reason)
        self.reason = reason
        self.taken = taken


class AnswerRefused(FerruleError):
    """An answer is not taken; it is kept in the audit all the same.

    Args:
        request_id: The request's address.
        reason: Why not.

    Since 0.1.
    """

    def __init__(self, request_id: str, reason: str) -> None:
        """Name the request."""
        super().__init__(f"the answer to request {request_id} was not taken. {reason}")
        self.request_id = request_id
        self.reason = reason

    def __reduce__(self) -> tuple[type[AnswerRefused], tuple[str, str]]:
        """Copy and pickle by the arguments, not by the text made of them."""
        return type(self), (self.request_id, self.reason)


class AlreadyAnswered(AnswerRefused):
    """Somebody has answered the request in another way.

    Args:
        request_id: The request's address.
        by: Who.
        at: When, in seconds since 1970.

    Since 0.1.
    """

    def __init__(self, request_id: str, by: str, at: float) -> None:
        """Say who it was, and when."""
        when = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        super().__init__(request_id, f"{by} answered it at {when}.")
        self.by = by
        self.at = at

    def __reduce__(self) -> tuple[type[AlreadyAnswered], tuple[str, str, float]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Copy and pickle by the arguments, not by the text made of them."""
        return type(self), (self.request_id, self.by, self.at)


class NonDeterminism(FerruleError):
    """The machine of today's code commands something else than a run's records tell; nothing was done.

    A run that meets this is `blocked`, never failed.

    Args:
        seq: The record.
        op: The command it is about, with its path; "" for the end of the run.
        recorded: What the record tells.
        now: What this code commands in its place.

    Since 0.1.
    """

    def __init__(self, seq: int, op: str, recorded: str, now: str) -> None:
        """Say both sides."""
        what = f"tells of {op!r} as {recorded}" if op else f"tells of {recorded}"
        super().__init__(
            f"record {seq} {what}, and this code commands {now} there. Put the code back that the run was made with."
        )
        self.seq = seq
        self.op = op
        self.recorded = recorded
        self.now = now

    def __reduce__(self) -> tuple[type[NonDeterminism], tuple[int, str, str, str]]:
        """Copy and pickle by the arguments, not by the text made of them."""
        return type(self), (self.seq, self.op, self.recorded, self.now)


class SessionBusy(FerruleError):
    """A session takes one run at a time, and one is going on.

    Args:
        run_id: That run.
        status: Its status.

    Since 0.1.
    """

    def __init__(self, run_id: str, status: str) -> None:
        """Name the run that holds the session."""
        super().__init__(f"the session is busy with run {run_id} ({status}). Wait for its end, or take another.")
        self.run_id = run_id
        self.status = status

    def __reduce__(self) -> tuple[type[SessionBusy], tuple[str, str]]:
        """Copy and pickle by the arguments, not by the text made of them."""
        return type(self), (self.run_id, self.status)


class JSONSyntaxError(FerruleError, ValueError):
    """Text is not strict JSON.

    Args:
        reason: What is wrong, without the text itself.
        line: Line of the fault, from 1, where it is known.
        column: Column of the fault, from 1, where it is known.

    Since 0.1.
    """

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        """Keep the position beside the text."""
        super().__init__(f"{reason} at line {line} column {column}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column
