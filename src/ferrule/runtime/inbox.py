"""What runs of a store wait for, and answers to it: each is used once, for what was shown and for nothing else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ferrule.errors import AlreadyAnswered, AnswerRefused, RequestError
from ferrule.journal.held import decision_of
from ferrule.journal.store import Asked, Store
from ferrule.runtime.answer import fitting
from ferrule.strict_json import parse, restore
from ferrule.suspension import Answer, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

_WHY = {
    "unknown": "There is no such request. Look for the open ones.",
    "expired": "It has expired: no answer is taken any more, and none is ever taken for yes.",
    "closed": "Its call has been settled otherwise.",
}


class Inbox:
    """The requests of all runs of one store.

    Args:
        store: The store, open.

    Since 0.1.
    """

    def __init__(self, store: Store) -> None:
        """Look at the store only when asked."""
        self._store = store

    async def requests(
        self, *, run_id: str | None = None, state: str | None = "open", limit: int = 100
    ) -> Sequence[Asked]:
        """Requests, the oldest first.

        Args:
            run_id: Only those of this run, runs inside it included.
            state: Only those that stand so; None for all.
            limit: At most so many.
        """
        return await self._store.requests(run_id=run_id, state=state, limit=limit)

    async def answer(self, request_id: str, answer: Answer, *, by: str, channel: str) -> Asked:
        """Give an answer; the run goes on with it as soon as a worker looks.

        Args:
            request_id: The request's address.
            answer: The answer; its id is the request's. An approval names the digest of what was shown.
            by: Who gives it.
            channel: By what way: `cli`, `http`, `mcp`.

        Returns:
            The request as it stands now. The same answer given again gives the same.

        Raises:
            RequestError: It does not fit: another id, something else than what was shown, data beside the schema.
            AlreadyAnswered: Somebody has given another answer; it says who and when.
            AnswerRefused: There is no such request, it has expired, or its call has been settled otherwise.

        Since 0.1.
        """
        asked = await self._store.asked(request_id)
        if asked is not None and asked.state == "open":
            request: Request = restore(parse(asked.body))
            if request.kind == "approval" and answer.ok and answer.digest is None:
                raise RequestError(f"the answer to {request_id!r} must name the digest of what was shown.")
            fitting(answer, request)
        verdict, asked = await self._store.answer(request_id, decision_of(answer, by, channel), time.time())
        if asked is not None and verdict in ("accepted", "same"):
            return asked
        if asked is not None and verdict == "answered":
            raise AlreadyAnswered(request_id, asked.by or "somebody", asked.answered or 0.0)
        raise AnswerRefused(request_id, _WHY[verdict])
