"""One request to a provider and its answer: its times, its limits, and what went wrong meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from ferrule.errors import ModelError
from ferrule.guard import describe
from ferrule.lazy import LazyModule
from ferrule.provider.base import TAIL, ModelRequest, ModelResponse
from ferrule.provider.http.pool import Origin, Pool, pool
from ferrule.provider.http.secret import without
from ferrule.provider.refusal import request_id, unquoted

if TYPE_CHECKING:
    import asyncio

    import httpx2
else:
    asyncio = LazyModule("asyncio")
    httpx2 = LazyModule("httpx2")

MAX_REFUSAL: Final = 1024 * 1024
_FINAL: Final = frozenset({"LocalProtocolError", "DecodingError", "UnsupportedProtocol"})
_UNREACHED: Final = frozenset({"ConnectError", "ConnectTimeout", "ProxyError"})
_LATE: Final = frozenset({"ReadTimeout", "TimeoutError"})


class Exchange:
    """One request and its answer: opened and closed with `async with`, and what went wrong meanwhile.

    Args:
        provider: Name of the provider.
        made: The request.
        origin: Whom to ask.
        secrets: What no answer may show, the longest first.
        limit: Seconds for the whole answer, or for each event.
        request: The question; what it says is taken out of errors.

    Since 0.1.
    """

    def __init__(
        self,
        provider: str,
        made: httpx2.Request,
        origin: Origin,
        secrets: Sequence[bytes],
        limit: float,
        request: ModelRequest,
    ) -> None:
        """Send nothing yet."""
        self._provider = provider
        self._made = made
        self._origin = origin
        self._request = request
        self.secrets = secrets
        self._limit = limit
        self._time = asyncio.get_running_loop().time
        self._asked = 0.0
        self._until: float | None = None  # None while the transport's own limit of each read is enough
        self._ended = False
        self._pool: Pool | None = None
        self._answer: httpx2.Response | None = None
        self._pieces: AsyncGenerator[bytes] | None = None
        self.trouble: ModelError | None = None
        self.failed: ModelError | None = None
        """What the provider said went wrong in the middle of its answer."""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.body = b""
        self.size = 0
        self.halves: list[bytes] = []
        """Half characters at the ends of the last event's texts."""
        self.begun = False
        """An event has come."""
        self.done = False
        """Nothing that follows counts."""

    async def __aenter__(self) -> None:
        self._pool = pool()
        self._until = self._time() + self._limit
        try:
            transport = await self._pool.enter(self._origin)
            async with asyncio.timeout_at(self._until):
                answer = self._answer = await transport.handle_async_request(self._made)
            self.status, self.headers = answer.status_code, self._masked(answer.headers)
            self._pieces = cast("AsyncGenerator[bytes]", aiter(_decoded(answer)))
        except (httpx2.HTTPError, OSError) as error:
            self.trouble = self._lost(error)
        finally:
            if self._pieces is None:
                self._pool.leave()
        if self.trouble is not None:
            raise self.trouble

    async def __aexit__(self, *_: object) -> None:
        assert self._pool is not None
        assert self._pieces is not None
        assert self._answer is not None
        try:
            with suppress(httpx2.HTTPError, OSError):
                await self._pieces.aclose()
                await self._answer.aclose()
        finally:
            self._pool.leave()

    @property
    def kind(self) -> str:
        """The media type of the answer."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]

    @property
    def streams(self) -> bool:
        """Whether events come; servers that forget to say so are believed."""
        return 200 <= self.status < 300 and "json" not in self.kind and "html" not in self.kind

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request."""
        return request_id(self.headers)

    async def piece(self) -> bytes | None:
        """The next piece of the body; None at its end, or when it broke off: then `trouble` says why."""
        assert self._pieces is not None
        self._asked = self._time()
        try:
            if self._until is None:
                piece = await anext(self._pieces, None)
            else:
                async with asyncio.timeout_at(self._until):
                    piece = await anext(self._pieces, None)
        except (httpx2.HTTPError, OSError) as error:
            self.trouble = None if self._ended else self._lost(error)
            return None
        self.size += len(piece or b"")
        return piece

    def heard(self, event: bool, tail: float | None) -> None:
        """Give the next event its time: all of it after an event, and what is left of it after a mere sign of life.

        Where the answer has ended there need be no other, so only the tail; then whatever ends the body is no trouble.

        Args:
            event: Whether an event has come, or a mere sign of life.
            tail: Seconds that the answer's end leaves to the body; None while it goes on.
        """
        if not event:
            self._until = self._until or self._asked + self._limit
        elif tail is None:
            self._until = None
        else:
            self._ended, self._until = True, self._time() + min(tail, self._limit)

    async def read(self, limit: int) -> None:
        """Read the whole body; of a refusal only the beginning, and what there is of it when it breaks off.

        Args:
            limit: Most bytes.
        """
        refused = not 200 <= self.status < 300
        pieces: list[bytes] = []
        while self.size <= (MAX_REFUSAL if refused else limit) and (piece := await self.piece()) is not None:
            pieces.append(piece)
        self.body = b"".join(pieces)
        if refused:
            self.trouble = None
        elif self.size > limit:
            self.broken(f"the answer has more than {limit} bytes")

    async def drain(self) -> None:
        """Give the server a moment to end a body of which we know all, so that the connection can serve again."""
        if self.done and self.trouble is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(TAIL):
                    while await self.piece() is not None:
                        pass

    def broken(self, reason: str) -> None:
        """Give the rest up.

        Args:
            reason: Why.
        """
        self.done = True
        self.trouble = self.error(reason)

    def _lost(self, error: Exception) -> ModelError:
        text = describe(error)
        if type(error).__name__ in _LATE:
            text = f"no answer within {self._limit:g} s. Raise the setting `timeout` where one may take longer"
        elif type(error).__name__ in _UNREACHED:
            text += ". Check the network and the base URL"
        again = type(error).__name__ not in _FINAL and "CERTIFICATE" not in text
        return self.error(f"{self._origin.host}: {text}", retryable=again)

    def error(self, reason: str, *, retryable: bool = False) -> ModelError:
        """An error of this exchange.

        Args:
            reason: What happened, and what to do about it.
            retryable: Whether the same request may succeed later.
        """
        return ModelError(
            reason,
            provider=self._provider,
            status=self.status or None,
            request_id=self.request_id,
            retryable=retryable,
        )

    def named(self, response: ModelResponse) -> ModelResponse:
        """The response, and its error, with the request's id.

        Args:
            response: As the wire read it.
        """
        error = response.error and self.identified(response.error)
        if error is response.error and (response.request_id or not self.request_id):
            return response
        return response.but(request_id=response.request_id or self.request_id, error=error)

    def identified(self, error: ModelError) -> ModelError:
        """The error as this exchange knows it, without what led to it and what the server says back of the prompt.

        Args:
            error: As the wire read it.
        """
        return ModelError(
            unquoted(error.reason, self._request),
            provider=self._provider,
            status=error.status or self.status or None,
            code=error.code,
            request_id=error.request_id or self.request_id,
            retryable=error.retryable,
            retry_after=error.retry_after,
        )

    def _masked(self, headers: httpx2.Headers) -> Mapping[str, str]:
        if not self.secrets:
            return headers
        return {name: without(self.secrets, value.encode()).decode() for name, value in headers.items()}


def _decoded(answer: httpx2.Response) -> AsyncIterable[bytes]:
    # Straight from the connection where nothing is to be unpacked: we ask for that, and it saves two generators.
    return answer.aiter_bytes() if "content-encoding" in answer.headers else cast("AsyncIterable[bytes]", answer.stream)
