"""A model that answers what a script says, and keeps what it was sent."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable
from typing import Any

from ferrule.errors import UsageError
from ferrule.provider.base import Capabilities, Delta, ModelRequest, ModelResponse
from ferrule.provider.function import as_response


class ScriptExhausted(UsageError):
    """A scripted model was asked once more than its script has turns.

    Since 0.1.
    """


class ScriptedModel:
    """A model whose answers are known before.

    Each turn is text, a call or a list of calls (made by `call`), a
    `ModelMessage` or `ModelResponse`, an exception to raise, or a function of
    the request that gives one of these.

    Args:
        turns: The answers, in order.
        name: How it is named.
        capabilities: What it takes.
        pieces: How many characters of text come at a time when it is streamed.

    Since 0.1.
    """

    def __init__(
        self,
        turns: Iterable[Any],
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
        pieces: int = 8,
    ) -> None:
        """Begin at the first turn."""
        self._turns = list(turns)
        self._name = name
        self._capabilities = capabilities or Capabilities()
        self._pieces = pieces
        self.requests: list[ModelRequest] = []
        """What it was sent, in order."""

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What it takes."""
        return self._capabilities

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """The next turn.

        Args:
            request: The question; kept in `requests`.

        Raises:
            ScriptExhausted: There is no further turn.
        """
        at = len(self.requests)
        self.requests.append(request.but(messages=list(request.messages)))
        if at >= len(self._turns):
            raise ScriptExhausted(f"{self._name} was asked {at + 1} times and has {len(self._turns)} turns.")
        found: Any = self._turns[at]
        if callable(found):
            found = found(request)
            found = await found if inspect.isawaitable(found) else found
        if isinstance(found, BaseException):
            raise found
        return as_response(found, self._name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """The next turn in pieces, then whole.

        Args:
            request: The question.

        Raises:
            ScriptExhausted: There is no further turn.
        """
        response = await self.generate(request)
        text = response.message.text
        for start in range(0, len(text), self._pieces):
            yield Delta("text", text[start : start + self._pieces])
        for asked in response.message.calls:
            yield Delta("call", asked.name)
        yield response

    def explain(self, request: ModelRequest) -> dict[str, Any]:
        """What it would be given, in short.

        Args:
            request: The question.
        """
        return {"instructions": request.instructions, "messages": len(request.messages), "tools": request.tools.names}

    def assert_done(self) -> None:
        """Check that every turn was asked for.

        Raises:
            AssertionError: Some turns are left.
        """
        left = len(self._turns) - len(self.requests)
        if left > 0:
            raise AssertionError(f"{self._name} has {left} of {len(self._turns)} turns left")
