"""How each kind of part travels over each API: the table of what providers take, cell by cell."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tests.unit.provider.adapters import EVERY_WIRE, sent

from ferrule import Part, UnsupportedPartError, file
from ferrule.content import to_dict
from ferrule.errors import FetchError
from ferrule.message import Call, Message, ModelMessage, ToolMessage, UserMessage, user
from ferrule.provider import transcript
from ferrule.provider.base import Capabilities
from ferrule.provider.transcript import fetched, show_result

# N native, R relocated to a user turn after the results, P a line of text; D: the URL is read first; A: only by models
# that hear, P by others. Columns: image, PDF and audio, each as bytes and as URL.
TABLE = """
openai-chat       user   N  N  N  DN NA DNA
openai-chat       tool   R  R  R  DR RA DRA
openai-responses  user   N  N  N  N  P  P
openai-responses  tool   N  N  N  N  P  P
anthropic         user   N  N  N  N  P  P
anthropic         tool   N  N  N  N  P  P
gemini            user   N  DN N  DN N  DN
gemini            tool   N  DN N  DN R  DR
gemini-2          user   N  DN N  DN N  DN
gemini-2          tool   R  DR R  DR R  DR
groq              user   N  N  P  P  P  P
groq              tool   R  R  P  P  P  P
mistral           user   N  N  N  N  P  P
mistral           tool   R  R  R  R  P  P
openrouter        user   N  N  N  N  NA DNA
openrouter        tool   R  R  R  R  RA DRA
ollama            user   N  DN P  P  P  P
ollama            tool   R  DR P  P  P  P
vllm              user   N  N  P  P  NA P
vllm              tool   R  R  P  P  RA P
"""
DATA = "QUJDREVGR0hJSktMTU5PUA=="
PARTS = {
    "image": Part("image", mimeType="image/png", data=DATA, name="chart.png"),
    "pdf": Part("file", mimeType="application/pdf", data=DATA, name="report.pdf"),
    "audio": Part("audio", mimeType="audio/wav", data=DATA, name="call.wav"),
}
URLS = {kind: f"https://files.example.invalid/{part.name}" for kind, part in PARTS.items()}
COLUMNS = [(kind, source) for kind in PARTS for source in ("data", "url")]
CALL = Call("c1", "chart", "{}", "call_a1b2")
WAYS = {"N": "native", "R": "relocated", "P": "placeholder"}


class Cell(NamedTuple):
    api: str
    place: str
    kind: str
    source: str
    word: str

    @property
    def wire(self) -> str:
        return self.api.removesuffix("-2")

    @property
    def part(self) -> Part:
        part = PARTS[self.kind]
        return part if self.source == "data" else replace(part, data=None, url=URLS[self.kind])

    def takes(self, *, hears: bool) -> Capabilities:
        return Capabilities(audio=hears, tool_media=self.api != "gemini-2")

    def way(self, *, hears: bool) -> str:
        return "placeholder" if self.word.endswith("A") and not hears else WAYS[self.word.lstrip("D")[0]]


CELLS = [
    Cell(api, place, kind, source, word)
    for api, place, *words in map(str.split, TABLE.strip().splitlines())
    for (kind, source), word in zip(COLUMNS, words, strict=True)
]


def history(cell: Cell) -> list[Message]:
    if cell.place == "user":
        return [UserMessage((Part("text", text="Look."), cell.part))]
    return [user("Look."), ModelMessage("", (CALL,)), ToolMessage(CALL, "here it is", parts=(to_dict(cell.part),))]


def made(cell: Cell, *, hears: bool, every: bool = False) -> tuple[Any, str, list[str]]:
    """The body, how the part travelled, and which URLs were read for it."""
    read: list[str] = []

    async def fetch(url: str) -> Part:
        read.append(url)
        return replace(PARTS[cell.kind], type="file", name=None)

    taken = cell.takes(hears=hears)
    messages = asyncio.run(fetched(history(cell), cell.wire, taken, fetch, every=every))
    body, whole = sent(cell.wire, messages, taken)
    (way,) = whole.sent
    assert way.kind == cell.part.type
    assert way.call_id == ("c1" if cell.place == "tool" else None)
    return body, way.way, read


def turns(body: Any) -> Iterator[tuple[str, Any]]:
    """The pieces of a body after the call, each as `result` or `user`."""
    for turn in body.get("messages") or body.get("input") or body["contents"]:
        if turn.get("role") == "tool" or turn.get("type") == "function_call_output":
            yield "result", turn
        elif turn.get("role") == "user":
            for block in turn["content"] if isinstance(turn.get("content"), list) else turn.get("parts", ()):
                yield ("result" if block.get("type") == "tool_result" or "functionResponse" in block else "user"), block


@pytest.mark.parametrize("hears", [True, False])
@pytest.mark.parametrize("cell", CELLS, ids=lambda c: "-".join(c[:4]))
@pytest.mark.case("C037")
@pytest.mark.case("C040")
def test_a_part_travels_as_the_table_says(cell: Cell, hears: bool, caplog: pytest.LogCaptureFixture) -> None:
    way = cell.way(hears=hears)
    if cell.place == "user" and way == "placeholder":
        with pytest.raises(UnsupportedPartError):
            sent(cell.wire, history(cell), cell.takes(hears=hears))
        return
    transcript._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with caplog.at_level(logging.WARNING, "ferrule.provider"):
        body, found, read = made(cell, hears=hears)
    assert found == way
    downloads = cell.word.startswith("D") and way != "placeholder"
    assert read == ([URLS[cell.kind]] if downloads else [])
    needle = DATA if cell.source == "data" or downloads else URLS[cell.kind]
    at = [place for place, block in turns(body) if needle in json.dumps(block)]
    told = json.dumps([block for place, block in turns(body) if place == "result"])
    if way == "placeholder":
        assert at == []
        assert PARTS[cell.kind].name in told  # pyright: ignore[reportOperatorIssue]
    else:
        assert at == ["user" if cell.place == "user" or way == "relocated" else "result"]
        label = f"Output of tool chart ({'call_a1b2' if cell.wire != 'mistral' else ''}"
        assert (label in json.dumps(body)) == (way == "relocated")
    if cell.place == "tool":
        assert "here it is" in told
    assert len(caplog.records) == (way == "placeholder")


OF_URLS = [c for c in CELLS if c.source == "url"]
TRAVELS = [c for c in OF_URLS if c.way(hears=True) != "placeholder"]
STAYS = [c for c in OF_URLS if c.way(hears=True) == "placeholder"]


@pytest.mark.parametrize("cell", TRAVELS, ids=lambda c: "-".join(c[:3]))
def test_the_switch_reads_every_url_whose_part_can_travel(cell: Cell) -> None:
    body, way, read = made(cell, hears=True, every=True)
    assert (way, read) == (cell.way(hears=True), [URLS[cell.kind]])
    assert DATA in json.dumps(body)
    assert URLS[cell.kind] not in json.dumps(body)


@pytest.mark.parametrize("cell", [c for c in STAYS if c.place == "tool"], ids=lambda c: "-".join(c[:3]))
def test_the_switch_reads_no_url_of_a_tools_part_that_cannot_travel(cell: Cell) -> None:
    assert made(cell, hears=True, every=True)[1:] == ("placeholder", [])


@pytest.mark.parametrize("cell", [c for c in STAYS if c.place == "user"], ids=lambda c: "-".join(c[:3]))
def test_the_switch_lets_no_part_of_the_callers_travel_that_cannot(cell: Cell) -> None:
    with pytest.raises(UnsupportedPartError):
        made(cell, hears=True, every=True)


def test_an_address_that_only_the_provider_can_read_is_never_read_here() -> None:
    own = Part("image", mimeType="image/png", url="https://generativelanguage.googleapis.com/v1beta/files/x")

    async def fetch(url: str) -> Part:
        raise AssertionError(url)

    messages = [user(["Look.", own])]
    assert asyncio.run(fetched(messages, "gemini", Capabilities(), fetch, every=True)) is messages


def test_what_is_missing_is_warned_of_once_for_each_api_and_kind(caplog: pytest.LogCaptureFixture) -> None:
    transcript._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with caplog.at_level(logging.WARNING, "ferrule.provider"):
        for _ in range(3):
            for api in ("anthropic", "groq"):
                for kind in ("audio", "pdf"):
                    made(Cell(api, "tool", kind, "data", "P"), hears=False)
    told = [record.getMessage() for record in caplog.records]
    assert [(t.split()[0], "audio" in t) for t in told] == [("anthropic", True), ("groq", True), ("groq", False)]


def test_a_part_that_could_not_be_read_is_not_said_to_be_one_that_the_api_does_not_take(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transcript._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]

    async def fetch(url: str) -> Part:
        raise FetchError("no")

    with caplog.at_level(logging.WARNING, "ferrule.provider"):
        asyncio.run(unread_then_untaken(fetch))
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "gemini: not every URL of the image parts of tool results can be read; the model is told what is missing.",
        "gemini does not take every file part of a tool result; the model is told what is missing.",
    ]


async def unread_then_untaken(fetch: Callable[[str], Awaitable[Part]]) -> None:
    for part in (Part("image", mimeType="image/png", url="https://x.test/a.png"), file(b"PK\x03\x04", name="a.zip")):
        asked = Call("t1.0", "chart", "{}")
        messages = [ToolMessage(asked, "drawn", parts=(to_dict(part),))]
        (shown,) = await fetched(messages, "gemini", Capabilities(), fetch)
        assert isinstance(shown, ToolMessage)
        show_result(shown, "gemini", Capabilities(), wire_id="c1")


@pytest.mark.parametrize("api", sorted(EVERY_WIRE.keys() - {"gemini"}))  # which may need the parameters
def test_a_media_type_is_sent_in_small_letters_and_without_parameters(api: str) -> None:
    body, _ = sent(api, [user(Part("image", mimeType="IMAGE/png; q=1", data="AAAA"))])
    said = repr(body)
    assert "image/png" in said
    assert "q=1" not in said
    assert "IMAGE" not in said


def test_every_api_has_a_row() -> None:
    assert {cell.wire for cell in CELLS} == set(EVERY_WIRE)


@pytest.mark.parametrize("part", [*PARTS.values(), file(b"", mime_type="text/plain")], ids=lambda p: p.mimeType)
@pytest.mark.parametrize("api", EVERY_WIRE)
def test_a_part_of_no_bytes_never_reaches_an_api_which_would_refuse_the_request(api: str, part: Part) -> None:
    empty = replace(part, data="")
    with pytest.raises(UnsupportedPartError):
        sent(api, [user(["Look.", empty])])
    body = sent(api, [user("Look."), ModelMessage(calls=(CALL,)), ToolMessage(CALL, "made", parts=(to_dict(empty),))])[
        1
    ]
    assert [s.way for s in body.sent] == ["placeholder"]
    assert b"0 bytes" in body.json
