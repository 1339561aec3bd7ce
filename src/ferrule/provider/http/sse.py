"""Server-sent events, taken apart as their bytes come in.

Pure: bytes go in, events come out. Nothing here knows JSON, and nothing waits.
"""

from __future__ import annotations

from typing import Final, TypeAlias

MAX_EVENT: Final = 16 * 1024 * 1024
Event: TypeAlias = tuple[str, bytes]
"""Its name, `message` when the stream gives none; and its data lines, joined by line feeds."""
_BOM: Final = b"\xef\xbb\xbf"


class EventReader:
    r"""Reads one stream of events.

    Lines end in LF, CRLF or CR, as the standard has it, also in turns. An event
    ends at a blank line; one that the stream breaks off in is never given out.

    Args:
        max_event: Most bytes of one event; what is longer is an attack or a fault.

    Since 0.1.
    """

    __slots__ = ("_begun", "_held", "_max", "_return", "_size")

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        """Begin before the first byte."""
        self._max = max_event
        self._held: list[bytes] = []  # the event that is not whole yet; joined only when it is, so each byte moves once
        self._size = 0
        self._begun = False
        self._return = False  # the last byte was a CR: an LF that follows belongs to it

    def feed(self, piece: bytes) -> list[Event]:
        """Take the next bytes.

        Args:
            piece: Any number of bytes, cut anywhere.

        Returns:
            The events that are whole now, often none or one.

        Raises:
            ValueError: An event is longer than allowed.
        """
        if not self._begun:
            piece = self._begin(piece)
        if self._return or b"\r" in piece:
            piece = self._with_line_feeds(piece)
        if not piece:
            return []
        self._size += len(piece)
        held = self._held
        held.append(piece)
        if b"\n\n" not in piece and not (piece[0] == 10 and len(held) > 1 and held[-2][-1] == 10):
            self._check_size()
            return []
        whole, _, rest = (piece if len(held) == 1 else b"".join(held)).rpartition(b"\n\n")
        self._held = [rest] if rest else []
        self._size = len(rest)
        self._check_size()
        return _events(whole)

    def _begin(self, piece: bytes) -> bytes:
        start = b"".join([*self._held, piece])
        self._held = []
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._held = [start] if start else []
            return b""
        self._begun = True
        return start.removeprefix(_BOM)

    def _with_line_feeds(self, piece: bytes) -> bytes:
        if not piece:
            return piece
        if self._return and piece[0] == 10:
            piece = piece[1:]
        self._return = piece[-1:] == b"\r"
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check_size(self) -> None:
        if self._size > self._max:
            raise ValueError(f"an event is longer than {self._max} bytes")


def _events(text: bytes) -> list[Event]:
    if text.startswith(b"data: "):  # nearly every event of nearly every provider: one data line and nothing else
        values = text[6:].split(b"\n\ndata: ")
        if text.count(b"\n") == 2 * len(values) - 2:
            return [("message", value) for value in values]
    found: list[Event] = []
    for block in text.split(b"\n\n"):
        head, _, line = block.partition(b"\n")
        if head[:7] == b"event: " and line[:6] == b"data: " and b"\n" not in line and len(head) > 7:
            found.append((head[7:].decode("utf-8", "replace"), line[6:]))
        else:
            _parse(block, found)
    return found


def _parse(block: bytes, found: list[Event]) -> None:
    name, data = b"", list[bytes]()
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if data:
        found.append((name.decode("utf-8", "replace") or "message", b"\n".join(data)))
