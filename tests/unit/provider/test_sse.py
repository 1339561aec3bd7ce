"""Server-sent events: every line ending, cut anywhere, equal to a naive reading of the standard."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule.provider.http.sse import Event, EventReader

BOM = b"\xef\xbb\xbf"


def read(*pieces: bytes) -> list[Event]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def naive(stream: bytes) -> list[Event]:
    """The algorithm of the standard, line by line, over the whole stream."""
    *lines, _open = re.split(rb"\r\n|\n|\r", stream.removeprefix(BOM))
    events: list[Event] = []
    name, data = "", b""
    for line in lines:
        if not line:
            if data:
                events.append((name or "message", data[:-1]))
            name, data = "", b""
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data += value + b"\n"
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return events


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [("message", b"a"), ("message", b"b")]),
        (b"data: a\r\n\r\n", [("message", b"a")]),
        (b"data: a\r\r", [("message", b"a")]),
        (b"data: a\r\n\ndata: b\n\r\n", [("message", b"a"), ("message", b"b")]),
        (b"event: ping\ndata: {}\n\n", [("ping", b"{}")]),
        (b"event:ping\ndata:{}\n\n", [("ping", b"{}")]),
        (b"data: {}\nevent: late\n\n", [("late", b"{}")]),
        (b"event:\ndata: 1\n\n", [("message", b"1")]),
        (b"event: a\nevent: b\ndata: 1\n\n", [("b", b"1")]),
        (b"event: only\n\ndata: 1\n\n", [("message", b"1")]),
        (b"data: 1\ndata: 2\ndata\ndata:3\n\n", [("message", b"1\n2\n\n3")]),
        (b"data:  two spaces\n\n", [("message", b" two spaces")]),
        (b"data:\n\n", [("message", b"")]),
        (b"data\n\n", [("message", b"")]),
        (b"data : no\ndatax: no\n data: no\nDATA: no\n\n", []),
        (b": OPENROUTER PROCESSING\n\n: again\ndata: 1\n\n", [("message", b"1")]),
        (b"id: 7\nretry: 10\ndata: 1\n\n", [("message", b"1")]),
        (b"\n\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n\n", [("message", b"1"), ("message", b"2")]),
        (BOM + b"data: 1\n\n", [("message", b"1")]),
        (BOM + BOM + b"data: 1\n\n", []),
        (b"\xef\xbbdata: 1\n\n", []),
        ("data: é\n\n".encode(), [("message", "é".encode())]),
        (b"event: \xff\ndata: \xff\n\n", [("�", b"\xff")]),
        (b"data: whole\n\ndata: no blank line\n", [("message", b"whole")]),
        (b"data: cut", []),
        (b"", []),
    ],
)
def test_a_stream_gives_the_events_of_the_standard_however_it_is_cut(
    stream: bytes, expected: list[tuple[str, bytes]]
) -> None:
    assert read(stream) == expected
    assert naive(stream) == expected
    assert read(*(stream[i : i + 1] for i in range(len(stream)))) == expected
    for cut in range(len(stream) + 1):
        assert read(stream[:cut], stream[cut:]) == expected


WORDS = [
    b"data: x",
    b"data:",
    b"data",
    b"event: e",
    b"event:",
    b": c",
    b"id: 1",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xc3\xa9",
    BOM,
]


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.lists(st.integers(0, 120), max_size=12))
@example([BOM, b"data: x", b"\r", b"\n", b"\r\n"], [1, 2, 11])
def test_random_streams_cut_at_random_places_read_as_the_naive_reader_reads_them(
    words: list[bytes], at: list[int]
) -> None:
    stream = b"".join(words)
    cuts = [0, *sorted(min(i, len(stream)) for i in at), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(cuts)]
    assert naive(stream) == read(*pieces)


def test_an_event_beyond_the_limit_is_refused_before_it_is_whole() -> None:
    reader = EventReader(max_event=10)
    assert [("message", b"12")] == reader.feed(b"data: 12\n\n")
    assert reader.feed(b"data: 1234") == []
    with pytest.raises(ValueError, match=r"^an event is longer than 10 bytes$"):
        reader.feed(b"5")


def test_the_limit_holds_for_one_event_and_not_for_the_stream() -> None:
    reader = EventReader(max_event=10)
    assert 50 == sum(len(reader.feed(b"data: 1\n\n")) for _ in range(50))


def test_a_long_event_in_many_pieces_is_joined_once() -> None:
    reader = EventReader()
    reader.feed(b"data: ")
    for _ in range(1000):
        assert reader.feed(b"x" * 100) == []
    assert [("message", b"x" * 100_000)] == reader.feed(b"\n\n")
