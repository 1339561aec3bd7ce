"""What an exception means: the failure code that fits, a text without credentials, and what it proves."""

from __future__ import annotations

import re
import sys

from ferrule.redact import scrub
from ferrule.strict_json import bare_name, clean, is_a, kind_of

MAX_MESSAGE = 2_000
MAX_LEAVES = 10
_CAUSES = 10


def leaves_of(error: BaseException) -> list[BaseException]:
    """The errors inside nested exception groups; a plain exception is its own only leaf.

    Args:
        error: Any exception.

    Since 0.1.
    """
    found: list[BaseException] = []
    seen: set[int] = set()
    todo: list[BaseException] = [error]
    while todo:
        e = todo.pop()
        if id(e) in seen:  # a group may hold another twice
            continue
        seen.add(id(e))
        if is_a(e, BaseExceptionGroup):
            todo.extend(reversed(e.exceptions))
        else:
            found.append(e)
    return found or [error]


def describe_exception(error: BaseException) -> str:
    """Type and message of an exception, of each leaf of a group; bounded, credentials taken out.

    Args:
        error: Any exception.

    Returns:
        Text that is never empty.

    Since 0.1.
    """
    leaves = leaves_of(error)
    lines = [_one_line(e) for e in leaves[:MAX_LEAVES]]
    if len(leaves) > MAX_LEAVES:
        lines.append(f"and {len(leaves) - MAX_LEAVES} more")
    return "; ".join(lines)


def quotable(text: str) -> str:
    """A text that is not ours, as a failure may quote it: bounded, credentials taken out.

    Args:
        text: Any text.

    Since 0.1.
    """
    return scrub(clean(text[: 2 * MAX_MESSAGE]))[:MAX_MESSAGE]


def _one_line(error: BaseException) -> str:
    try:
        message = quotable(str(error)).strip()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # an exception whose __str__ raises is still worth its name
        message = ""
    return f"{kind_of(error)}: {message}" if message else kind_of(error)


_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "timeout"),
    (PermissionError, "denied"),
    (ConnectionError, "unavailable"),
)
# Clients of HTTP, mail, databases and models have trees of their own, but call the same things by like names. asyncio's
# CancelledError stands here too, because a module of values should not have to load asyncio for it.
_NAMES = (
    (r"Timeout|TimedOut|DeadlineExceeded", "timeout"),
    (
        r"Connect(?:ion|or)?Error|Connection(?:Closed|Lost|Reset|Aborted|DoesNotExist)|Disconnected|NetworkError|SSLEOFError"
        r"|RemoteProtocolError|IncompleteRead|PayloadError|AutoReconnect",
        "unavailable",
    ),
    (r"^CancelledError$", "cancelled"),
)
# Where no connection was made, nothing was sent.
_REFUSED = r"Connect(?!ion)|NewConnection|EndpointConnection"
_STATUS = {401: "denied", 403: "denied", 408: "timeout", 413: "too_large", 429: "rate_limited"}


def classify(error: BaseException) -> tuple[str, str]:
    """Failure code and type name that fit an exception.

    Args:
        error: Any exception; a group counts as its leaves when they agree.

    Returns:
        `(code, type name)`, for example `("timeout", "ReadTimeout")`.

    Since 0.1.
    """
    leaves = leaves_of(error)
    codes = {_code_of(e) for e in leaves}
    return (codes.pop() if len(codes) == 1 else "exception"), kind_of(leaves[0])


def _code_of(error: BaseException) -> str:
    status = _status_of(error)
    if status is not None:
        return _STATUS.get(status, "unavailable" if status >= 500 else "exception")
    for kind, code in _CODES:
        if is_a(error, kind):
            return code
    names = [bare_name(kind) for kind in type(error).__mro__]
    return next((code for name in names for pattern, code in _NAMES if re.search(pattern, name)), "exception")


def _status_of(error: BaseException) -> int | None:
    """The HTTP status an error carries, on itself or on its response."""
    try:
        places = (getattr(error, "response", None), error)
        found = (getattr(place, name, None) for place in places for name in ("status_code", "status"))
        return next((s for s in found if type(s) is int and 400 <= s < 600), None)
    except Exception:  # a property of a foreign error that raises tells nothing
        return None


def proves_nothing(error: BaseException, before: BaseException | None = None) -> bool:
    """Whether a lost connection or a time-out, here or behind it, leaves open what happened on the other side.

    Behind an error is its cause, or what was handled when it was raised, but
    not what the caller of this function handles: that came before. A refused
    connection proves that nothing was sent over it, and nothing of an attempt
    that was lost before.

    Args:
        error: Any exception; of a group each leaf is looked at.
        before: What was handled where it was caught, if that is another thread than this one.

    Since 0.1.
    """
    before = sys.exception() if before is None else before
    return any(_leaves_open(leaf, before) for leaf in leaves_of(error))


def _leaves_open(error: BaseException, before: BaseException | None) -> bool:
    behind: BaseException | None = error
    proved = False  # a client's word for no connection speaks for what it wraps, down to the refusal itself
    for _ in range(_CAUSES):
        if is_a(behind, ConnectionRefusedError):
            proved = False  # the refusal wraps nothing: what is behind it is an earlier attempt
        elif proved or re.search(_REFUSED, kind_of(behind)):
            proved = True
        elif is_a(behind, EOFError) or classify(behind)[0] in ("timeout", "unavailable"):
            return True
        behind = behind.__cause__ if behind.__suppress_context__ else behind.__context__
        if behind is None or behind is before:
            break
    return False
