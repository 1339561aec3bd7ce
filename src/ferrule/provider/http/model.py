"""A model behind HTTP: a wire, an address and a key. One attempt for each call; the runtime decides about more.

Nothing that leaves this module names the key: not a repr, not a log line, not
an error, nor what an error drags along.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ferrule import content
from ferrule.content import Part
from ferrule.errors import FetchError, ModelError, UsageError
from ferrule.guard import PORTS, checked_headers, fetch
from ferrule.lazy import LazyModule
from ferrule.message import ModelMessage
from ferrule.provider.base import Capabilities, Decoder, Delta, ModelRequest, ModelResponse, Wire
from ferrule.provider.http.exchange import Exchange
from ferrule.provider.http.lenient import read_json
from ferrule.provider.http.pool import Origin
from ferrule.provider.http.secret import SHORT, secrets_in, without
from ferrule.provider.http.sse import Event, EventReader
from ferrule.provider.transcript import fetched
from ferrule.redact import scrub
from ferrule.strict_json import parse

if TYPE_CHECKING:
    import httpx2
else:
    httpx2 = LazyModule("httpx2")

MAX_ANSWER: Final = 64 * 1024 * 1024
MAX_STREAM: Final = 4 * MAX_ANSWER  # most of it is not the answer but what it is wrapped in, piece by piece
MAX_TEXT: Final = 2000
CONNECT_SECONDS: Final = 30.0
FETCH_SECONDS: Final = 60.0
_EMPTY: Final = "the answer is empty. Check the base URL"
_HEADERS: Final = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "ferrule"}
_ACCEPT: Final = {False: "application/json", True: "text/event-stream"}

Key = str | Callable[[], str | None] | None


def origin_of(base_url: str) -> Origin:
    """Whom a base URL leads to.

    Args:
        base_url: An http(s) URL.

    Raises:
        UsageError: It is none, or holds what a base URL does not: a user, a query, a fragment.

    Since 0.1.
    """
    parts, port = None, None
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in PORTS or not parts.hostname or not base_url.isprintable():
        raise UsageError("a base URL must be an http(s) URL with a host, for example https://api.openai.com/v1.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"the base URL of {parts.hostname} must end with its path: no user, no query, no fragment.")
    return Origin(parts.scheme, parts.hostname, port or PORTS[parts.scheme])


class WireModel:
    """A model of a provider's HTTP API.

    Args:
        name: How people and records name it, for example `openai:gpt-5`.
        wire: The API.
        model: The model's name there.
        base_url: What the wire's paths are put after; a path of a gateway in it is kept.
        key: The API key, or what looks for it when a request is sent. It goes to this base URL and nowhere else.
        capabilities: What the model takes.
        headers: More headers for every request.
        missing_key: What to do where there is no key; None where none is needed.
        allow: Hosts, addresses and networks that parts may be downloaded from although they are not public.

    Raises:
        UsageError: The base URL or a header cannot be used.

    Since 0.1.
    """

    def __init__(
        self,
        name: str,
        wire: Wire,
        model: str,
        *,
        base_url: str,
        key: Key = None,
        capabilities: Capabilities | None = None,
        headers: Mapping[str, str] | None = None,
        missing_key: str | None = None,
        allow: Collection[str] = (),
    ) -> None:
        """Check and keep; nothing is opened yet."""
        self._name = name
        self._provider = name.partition(":")[0]
        self._wire = wire
        self._model = model
        self._origin = origin_of(base_url)
        self._base = base_url.rstrip("/")
        self._key = (lambda: key) if isinstance(key, str) else key or (lambda: None)
        self._capabilities = capabilities or Capabilities()
        self._headers = {**_HEADERS, **checked_headers(headers or {})}
        self._secrets = secrets_in(self._headers)
        self._missing = missing_key
        self._allow = tuple(allow)

    def __repr__(self) -> str:
        return f"WireModel({self._name!r}, base_url={str(self._origin)!r})"

    @property
    def name(self) -> str:
        """How people and records name it."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What it takes."""
        return self._capabilities

    def explain(self, request: ModelRequest) -> dict[str, Any]:
        """The exact JSON that `generate` would send, but for parts that are downloaded first; needs no key.

        Args:
            request: The question.

        Raises:
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results.
        """
        return parse(self._wire.body(request, self._model, self._capabilities, stream=False).json)

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """The answer, whole.

        Args:
            request: The question.

        Raises:
            ModelError: There is none.
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results, or a header cannot be sent.
        """
        exchange = await self._exchange(request, stream=False)
        async with exchange:
            await exchange.read(MAX_ANSWER)
        return self._whole(exchange)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | ModelResponse]:
        """The answer in pieces, and last of all the whole.

        Leaving early closes the connection, and with it what the provider does.

        Args:
            request: The question.

        Raises:
            ModelError: There is none. What was said before an error is given out with it, in a response of finish
                `error`.
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results, or a header cannot be sent.
        """
        if not self._capabilities.streaming:
            for piece in _at_once(await self.generate(request)):
                yield piece
            return
        exchange = await self._exchange(request, stream=True)
        async with exchange:
            if not exchange.streams:  # a refusal, or a server that answers whole
                await exchange.read(MAX_ANSWER)
                for piece in _at_once(self._whole(exchange)):
                    yield piece
                return
            decoder = self._wire.decoder(self._model)
            reader = EventReader()
            while not exchange.done and (read := await exchange.piece()) is not None:
                found = self._events(exchange, reader, read)
                exchange.begun |= bool(found)
                for event in found:
                    for delta in self._fed(exchange, decoder, event):
                        yield delta
                exchange.heard(bool(found), decoder.tail)
            if exchange.failed is None:
                await exchange.drain()
            yield self._finished(exchange, decoder)

    # -- the request --------------------------------------------------------------------------------------------

    async def _exchange(self, request: ModelRequest, *, stream: bool) -> Exchange:
        key, asked = self._sent_key(), checked_headers(request.settings.headers)
        secrets = {*self._secrets, *(secrets_in(asked) if asked else ())}
        if key and len(key) >= SHORT:
            secrets.add(key.encode())
        messages = await self._with_downloads(request)
        if messages is not request.messages:
            request = request.but(messages=messages)
        body = self._wire.body(request, self._model, self._capabilities, stream=stream)
        url = self._base + "/" + self._wire.path(self._model, stream=stream).lstrip("/")
        limit = request.settings.timeout
        made = httpx2.Request(
            "POST",
            url,
            headers={
                **self._headers,
                "accept": _ACCEPT[stream],
                **checked_headers(self._wire.headers(key)),
                **asked,
            },
            content=body.json,
            extensions={"timeout": {"connect": min(limit, CONNECT_SECONDS), "read": limit, "write": limit}},
        )
        # The longest first: one may stand inside another.
        return Exchange(self._provider, made, self._origin, sorted(secrets, key=len, reverse=True), limit, request)

    def _sent_key(self) -> str | None:
        key = (self._key() or "").strip()
        if not key:
            if self._missing is not None:
                raise ModelError(self._missing, provider=self._provider)
            return None
        if not key.isascii() or not key.isprintable():
            raise ModelError("the key holds characters that no header can carry. Set it anew.", provider=self._provider)
        return key

    async def _with_downloads(self, request: ModelRequest) -> Any:
        limit = min(request.settings.timeout, FETCH_SECONDS)

        async def download(url: str) -> Part:
            got = await fetch(url, allow=self._allow, timeout=limit)
            if not 200 <= got.status < 300:
                host = urlsplit(got.url).hostname
                raise FetchError(f"{host}: status {got.status}.", retryable=got.status >= 500 or got.status == 429)
            return content.file(got.body, mime_type=got.content_type)

        try:
            every = request.settings.download
            return await fetched(request.messages, self._wire.api, self._capabilities, download, every=every)
        except FetchError as error:
            reason, retryable = f"the URL of a part cannot be read: {error}", error.retryable
        raise ModelError(reason, provider=self._provider, retryable=retryable)

    # -- the answer ---------------------------------------------------------------------------------------------

    def _whole(self, exchange: Exchange) -> ModelResponse:
        """What a body that was read to its end says."""
        if exchange.trouble is not None:
            raise exchange.trouble
        try:
            if 200 <= exchange.status < 300:
                return exchange.named(self._wire.response(self._answered(exchange), self._model))
            found = self._refused(exchange)
        except ModelError as error:
            found = error
        if isinstance(found, ModelResponse):
            return exchange.named(found)
        raise exchange.identified(found)

    def _answered(self, exchange: Exchange) -> Any:
        body = without(exchange.secrets, exchange.body)
        if not body.strip():
            raise exchange.error(_EMPTY, retryable=True)
        with suppress(ValueError):
            return read_json(body)
        kind = exchange.kind or "no type"
        # What is announced as JSON may be half an answer: content. A page of a proxy is worth a look.
        shown = ", or ask again" if "json" in kind else f": {_shown(body)}"
        raise exchange.error(f"the answer is no JSON ({kind}, {len(body)} bytes). Check the base URL{shown}")

    def _refused(self, exchange: Exchange) -> ModelError | ModelResponse:
        if 300 <= exchange.status < 400:
            return exchange.error("it redirects, and a key is not sent elsewhere. Correct the base URL")
        body = without(exchange.secrets, exchange.body)
        try:
            data = read_json(body)
        except ValueError:
            data = body.decode("utf-8", "replace")[:MAX_TEXT]
        return self._wire.error(exchange.status, exchange.headers, data)

    def _events(self, exchange: Exchange, reader: EventReader, piece: bytes) -> list[Event]:
        if exchange.size > MAX_STREAM:
            exchange.broken(f"the stream has more than {MAX_STREAM} bytes")
            return []
        try:
            return reader.feed(piece)
        except ValueError as error:
            exchange.broken(f"the stream is faulty: {error}")
        return []

    def _fed(self, exchange: Exchange, decoder: Decoder, event: Event) -> Iterator[Delta]:
        """The pieces in one event; after a faulty one there are no more."""
        if exchange.done:
            return
        name, text = event
        try:
            exchange.done = text == b"[DONE]"
            data = None if exchange.done else read_json(without(exchange.secrets, text), exchange.halves)
        except ValueError:
            exchange.broken("the stream is faulty: an event is no JSON. Ask again, or check the base URL")
            return
        if data is None and not exchange.done:
            return  # a null, which is nothing; to a decoder it would be the end
        try:
            yield from decoder.feed(name, data)
        except ModelError as error:
            exchange.failed, exchange.done = exchange.identified(error), True

    def _finished(self, exchange: Exchange, decoder: Decoder) -> ModelResponse:
        trouble = exchange.trouble
        if not exchange.begun:  # nobody has heard anything, so it may be asked for again
            reason = "the stream ended before its first event. Ask again" if exchange.size else _EMPTY
            raise trouble or exchange.error(reason, retryable=True)
        if exchange.failed is not None:
            return exchange.named(_as_far_as_it_came(decoder.finish(), exchange.failed))
        response = exchange.named(decoder.finish())
        if trouble is None or response.finish != "unknown":
            return response
        trouble.retryable = False  # part of it has been said
        return response.but(error=trouble)


def _as_far_as_it_came(response: ModelResponse, failure: ModelError) -> ModelResponse:
    """An answer that ended in an error; there is none where nothing had been said."""
    text, calls, reasoning = response.message.text, response.message.calls, response.message.reasoning
    if not (text or calls or reasoning):
        raise failure
    said = ModelMessage(text, tuple(call._replace(complete=False) for call in calls), reasoning)
    return ModelResponse(said, "error", response.usage, response.model, response.request_id, failure)


def _at_once(response: ModelResponse) -> Iterator[Delta | ModelResponse]:
    if response.message.text:
        yield Delta("text", response.message.text)
    yield response


def _shown(body: bytes) -> str:
    """The beginning of a page as one line."""
    return scrub(" ".join(body[:MAX_TEXT].decode("utf-8", "replace").split()))[:200]
