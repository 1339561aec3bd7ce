"""Whether an answer may be used: it is one to this request, as it was shown, in time, and fits what was asked."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.errors import RequestError, UsageError
from ferrule.lazy import LazyModule
from ferrule.suspension import Answer, Request, parse_time
from ferrule.tool.schema.arguments import schema_check

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LazyModule("asyncio")

HAPPENED: Final = "happened"  # what an answer says of a call whose outcome was asked for
PARAMETERS: Final = "parameters"  # in the data of an approval: the tool's input schema, for edited arguments
OUTPUT: Final = "output_schema"  # in the data of an outcome: what the tool declares of its value
PARKED: Final = object()  # what comes of a command that waits for an answer nobody has given yet
OnRequest = Callable[[Request], Awaitable[Answer | None] | Answer | None]


async def asked(ask: OnRequest, request: Request) -> Answer | None:
    """Ask somebody, for as long as an answer is taken.

    Args:
        ask: Asks them.
        request: What is asked.

    Returns:
        The answer; one that says `expired` when it did not come in time, None when it stays open.

    Raises:
        RequestError: It is for another request, for something else than what was shown, or does not fit.
        ToolDefinitionError: The request's schema is none.
        UsageError: It is no answer.

    Since 0.1.
    """
    if (late := expired(request)) is not None:
        return late
    limit = asyncio.timeout(None if request.expiresAt is None else seconds_until(request.expiresAt))
    try:
        async with limit:
            given = ask(request)
            answer = await given if inspect.isawaitable(given) else given
    except TimeoutError:
        if not limit.expired():
            raise
        return _nobodys(request)
    if answer is None:
        return None
    return expired(request) or fitting(answer, request)


def fitting(answer: Any, request: Request) -> Answer:
    """The answer, if it is one to this very request as it was shown, and what it gives fits what was asked.

    That is: `data` fits the request's schema, edited arguments the tool's, and the value of a call that happened what
    the tool says of its output. All three schemas stand in the request.

    Args:
        answer: What somebody gave.
        request: The request.

    Raises:
        UsageError: It is no Answer.
        RequestError: It is for another request, for something else than what was shown, or does not fit.

    Since 0.1.
    """
    if not isinstance(answer, Answer):
        raise UsageError(f"on_request returned {type(answer).__name__}. Return an Answer, or None to leave it open.")
    if answer.id != request.id:
        raise RequestError(f"the answer names request {answer.id!r}, and {request.id!r} was asked.")
    if answer.digest is not None and answer.digest != request.digest:
        raise RequestError(f"the answer to {request.id!r} was given for something else than what was shown.")
    asked, given = request.data or {}, answer.data or {}
    if answer.ok:
        _fit(request, "data", asked.get("schema"), answer.data)
        if answer.arguments is not None:
            _fit(request, "arguments", asked.get(PARAMETERS), answer.arguments)
        if request.kind == "outcome" and given.get("outcome") == HAPPENED and "value" in given:
            _fit(request, "value", asked.get(OUTPUT), given["value"])
    return answer


def _fit(request: Request, what: str, schema: Any, value: Any) -> None:
    if not isinstance(schema, dict):
        return
    faults = schema_check(cast("dict[str, Any]", schema), f"{what} of request {request.id!r}")(value)
    if faults:
        told = "; ".join(f"{what}{'.' * bool(where)}{where}: {rule}" for where, rule in faults[:3])
        raise RequestError(f"the answer to {request.id!r} does not fit its schema. {told}.")


def seconds_until(time: str) -> float:
    """How far off a time is; negative when it has passed.

    Args:
        time: RFC 3339, with offset.

    Since 0.1.
    """
    return (parse_time(time) - dt.datetime.now(dt.UTC)).total_seconds()


def expired(request: Request) -> Answer | None:
    """What is taken for the answer once the time for one is over; None before that.

    Args:
        request: The request.

    Since 0.1.
    """
    is_over = request.expiresAt is not None and seconds_until(request.expiresAt) <= 0
    return _nobodys(request) if is_over else None


def _nobodys(request: Request) -> Answer:
    return Answer(request.id, ok=False, reason="expired", digest=request.digest)
