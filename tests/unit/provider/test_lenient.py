"""JSON as providers send it: read strictly where a value must not change, else as far as anybody can."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.adapters import APIS, MODEL, WIRES, Said, stream_of

from ferrule.provider.http.lenient import read_json
from ferrule.strict_json import clean

HIGH, LOW = "\\ud83d", "\\ude00"
HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        (f'{{"cost": {HUGE}}}', {"cost": 10**400}),
        (f'{{"cost": {HUGE}.5}}', {"cost": None}),
        ('{"cost": 1e999, "t": "x"}', {"cost": None, "t": "x"}),
        ('{"p": [NaN, -Infinity, 1]}', {"p": [None, None, 1]}),
        ('{"n": ' + "1" * 5_000 + "}", {"n": None}),
        (f'{{"t": "a{HIGH}{LOW}b{HIGH}"}}', {"t": "a\U0001f600b\ufffd"}),
        (f'{{"t": "{LOW}{HIGH}{HIGH}{LOW}"}}', {"t": "\ufffd\ufffd\U0001f600"}),
        (f'{{"t": "\\\\{HIGH}{LOW} \\\\ud83d {HIGH}"}}', {"t": "\\\U0001f600 \\ud83d \ufffd"}),
        ('{"args": {"n": 123456789012345678901}}', {"args": {"n": 123456789012345678901}}),
        ('{"input": {"n": 123456789012345678901}}', {"input": {"n": 123456789012345678901}}),
        (f'{{"args": {{}}, "cost": {HUGE}, "t": "{HIGH}"}}', {"args": {}, "cost": 10**400, "t": "\ufffd"}),
    ],
)
def test_what_is_read(data: str, read: Any) -> None:
    assert read == read_json(data.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"NaN",
        b"1e999",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"args": {"n": 1, "n": 2}}',
        b'{"input": {"n": 1e999}}',
        b'{"arguments": {"n": NaN}}',
        b'"\xff\\ud83d',
    ],
)
def test_what_is_not(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(data)


def test_a_half_waits_for_its_other_half_however_many_events_come_between() -> None:
    halves: list[bytes] = []
    assert read_json(b'{"t": "a%b", "again": "%b"}' % (HIGH.encode(), HIGH.encode()), halves) == {"t": "a", "again": ""}
    assert read_json(b'{"type": "ping"}', halves) == {"type": "ping"}
    assert read_json(b'{"t": "%bb", "again": "%b"}' % (LOW.encode(), LOW.encode()), halves) == {
        "t": "\U0001f600b",
        "again": "\U0001f600",
    }
    assert halves == []
    assert read_json(b'{"t": "%b"}' % LOW.encode(), halves) == {"t": "\ufffd"}


UNITS = st.lists(st.sampled_from([0x61, 0x22, 0x5C, 0xE9, 0xD83D, 0xDE00, 0x75]), max_size=8)


@given(UNITS, st.integers(0, 8))
def test_text_cut_between_any_two_units_is_the_text(units: list[int], at: int) -> None:
    """As JSON writes it: one escape for each unit of UTF-16; the cut never adds or changes a whole character."""
    text = b"".join(unit.to_bytes(2, "little") for unit in units).decode("utf-16-le", "surrogatepass")
    halves: list[bytes] = []
    escaped = "".join(f"\\u{unit:04x}" for unit in units)
    first, rest = escaped[: 6 * at], escaped[6 * at :]
    said = "".join(read_json(f'"{piece}"'.encode(), halves) for piece in (first, rest))
    # Half a character at the end of an event that no other half follows says nothing.
    assert said.replace("\ufffd", "") == clean(text).replace("\ufffd", "")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("text", ["\U0001f600", "a\U0001f600b\U0001f9d1\u200d\U0001f680"])
def test_a_character_that_two_events_share_is_one_in_pieces_and_in_the_whole(api: str, text: str) -> None:
    units = text.encode("utf-16-le")
    pieces = [units[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(units), 2)]
    decoder, halves, deltas = WIRES[api].decoder(MODEL), list[bytes](), list[str]()
    for event in in_pieces(api, pieces):
        data = None if event is None else read_json(json.dumps(event).encode(), halves)
        deltas += [delta.text for delta in decoder.feed("message", data) if delta.kind == "text"]
    assert ("".join(deltas), decoder.finish().message.text) == (text, text)


FINISH = {"openai-chat": "stop", "openai-responses": "completed", "anthropic": "end_turn", "gemini": "STOP"}


def in_pieces(api: str, pieces: list[str]) -> list[Any]:
    """The events of an answer whose text comes in these pieces."""
    whole = stream_of(api, Said("".join(pieces), finish=FINISH[api]))
    if api == "openai-chat":
        said = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
        return [*said, *whole[1:]]
    if api == "gemini":
        said = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]
        whole[0]["candidates"][0]["content"]["parts"] = []
        return [*said, *whole]
    if api == "anthropic":
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        said = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
        whole[1]["content_block"] = {"type": "text", "text": ""}
        return [*whole[:2], *said, *whole[2:]]
    said = [{"type": "response.output_text.delta", "output_index": 0, "delta": piece} for piece in pieces]
    return [*whole[:2], *said, *whole[2:]]
