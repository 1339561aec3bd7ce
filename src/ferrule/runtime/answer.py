"""Whether an answer may be used."""

from __future__ import annotations

from typing import Any

from ferrule.errors import RequestError, UsageError
from ferrule.suspension import Answer, Request


def fitting(answer: Any, request: Request) -> Answer:
    """The answer, if it is one to this very request as it was shown.

    Args:
        answer: What somebody gave.
        request: What was asked.

    Raises:
        RequestError: It is for another request, or for something else than what was shown.
        UsageError: It is no answer.
    """
    if not isinstance(answer, Answer):
        raise UsageError(f"on_request returned {type(answer).__name__}. Return an Answer, or None to leave it open.")
    if answer.id != request.id:
        raise RequestError(f"the answer names request {answer.id!r}, and {request.id!r} was asked.")
    if answer.digest is not None and answer.digest != request.digest:
        raise RequestError(f"the answer to {request.id!r} was given for something else than what was shown.")
    return answer
