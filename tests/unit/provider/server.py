"""A real HTTP/1.1 server on 127.0.0.1 that says what it is told, byte for byte, and keeps what it was asked.

    async with Server(Answer(200, body=[b'{"a": 1}'])) as server:
        ...  # ask server.url + "/path"
        assert server.asked[0].json() == {...}

Answers are given in order; the last one again and again. Nothing here waits for
a clock: a `Gate` in a body holds the rest back until the test opens it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass
class Asked:
    """A request that the server was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Gate:
    """A place in a body where the server waits: `reached` is set there, and `open` lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()


@dataclass
class Answer:
    """What the server says to one request.

    Args:
        status: The status code; 0 closes the connection without a word.
        headers: More headers.
        body: Pieces, each sent by itself, and gates between them.
        framing: `length` announces the body's length, `chunked` sends each piece as a chunk,
            `close` ends the body with the connection.
        ending: `whole`; `cut` closes the connection after the pieces, before the body is whole; `reset` does so rudely.
        cut: With `cut` and `reset`: only so many bytes of the body.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Sequence[bytes | Gate] = ()
    framing: Literal["length", "chunked", "close"] = "length"
    ending: Literal["whole", "cut", "reset"] = "whole"
    cut: int | None = None

    def head(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Scripted", *(f"{k}: {v}" for k, v in self.headers.items())]
        size = sum(len(piece) for piece in self.body if isinstance(piece, bytes))
        lines += {
            "length": [f"content-length: {size + (self.ending != 'whole' and self.cut is None)}"],
            "chunked": ["transfer-encoding: chunked"],
            "close": ["connection: close"],
        }[self.framing]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def pieces(self) -> Iterable[bytes | Gate]:
        left = self.cut
        for piece in self.body:
            if isinstance(piece, bytes) and left is not None:
                piece, left = piece[:left], max(0, left - len(piece))
            if piece == b"":
                continue
            yield (
                b"%x\r\n%b\r\n" % (len(piece), piece)
                if self.framing == "chunked" and isinstance(piece, bytes)
                else piece
            )
        if self.framing == "chunked" and self.ending == "whole":
            yield b"0\r\n\r\n"


def answer(value: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON body in one piece; `_` in a header's name stands for `-`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, {"content-type": "application/json", **named}, [json.dumps(value).encode()])


def events(*values: Any, done: bool = False) -> Answer:
    """A stream of events, each a chunk; `[DONE]` at last where asked for."""
    body = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
    body += [b"data: [DONE]\n\n"] if done else []
    return Answer(200, {"content-type": "text/event-stream"}, body, "chunked")


class Server:
    """The server.

    Args:
        answers: Answers in order, the last one for ever; or a function from a request to an answer.
        tls: Speak TLS, as this says.
    """

    def __init__(self, *answers: Answer | Callable[[Asked], Answer], tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._answers = list(answers)
        self.asked: list[Asked] = []
        self.connections = 0
        self.left = asyncio.Event()
        """A client closed its connection."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: the one that asyncio would make complains when it is cancelled.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                given = given if isinstance(given, Answer) else given(asked)
                if not await self._say(given, asked, reader, writer):
                    break
            self.left.set()
        except ConnectionError:
            self.left.set()
        finally:
            writer.close()

    async def _say(
        self, given: Answer, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Say it; whether the connection stays open."""
        writer.write(given.head() if given.status else b"")
        for piece in given.pieces() if given.status and asked.method != "HEAD" else ():
            if isinstance(piece, bytes):
                writer.write(piece)
                await writer.drain()
            elif not await _opened(piece, reader):
                return False
        if given.ending == "reset":
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return bool(given.status) and given.ending == "whole" and given.framing != "close"


async def _opened(gate: Gate, reader: asyncio.StreamReader) -> bool:
    """Wait at a gate; False when the client leaves meanwhile."""
    gate.reached.set()
    opened = asyncio.ensure_future(gate.open.wait())
    gone = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((opened, gone), return_when=asyncio.FIRST_COMPLETED)
        return opened.done()
    finally:
        opened.cancel()
        gone.cancel()
        await asyncio.gather(opened, gone, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


@asynccontextmanager
async def closed_port() -> AsyncGenerator[int]:
    """A port of this machine where nobody listens, and nobody else may while the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
