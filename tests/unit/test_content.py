"""Parts: read at once from any source, with the media type their bytes tell, and never shown."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.values import Faceless

from ferrule.content import (
    Part,
    audio,
    decoded_len,
    describe_part,
    file,
    from_dict,
    image,
    is_part_dict,
    normalize_parts,
    part,
    placeholder_text,
    text,
    to_dict,
)
from ferrule.errors import ContentPartError, RequestError, UsageError
from ferrule.media import sniff
from ferrule.strict_json import dumps, parse, plain, restore, typed
from ferrule.suspension import Request


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAGUlEQVR4nGP8z8Dwn4GBgYmBgYGBgYEBAB0GAgHoMPHsAAAAAElFTkSuQmCC"
)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(20)
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(20)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)
MP4 = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + bytes(16)
ZIP = b"PK\x03\x04" + bytes(30)
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>'
HTML = b"<!DOCTYPE html><title>x</title>"
UNKNOWN = b"\x00\x01\x02\x03unknown"


@pytest.fixture
def png(tmp_path: Path) -> Path:
    path = tmp_path / "chart.png"
    path.write_bytes(PNG)
    return path


# -- sources ----------------------------------------------------------------------------------------------------


class Located:
    """A path by protocol only, as bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return os.fsencode(self.path)


NAMED: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "Path": lambda p: p,
    "PathLike": Located,
    "open file": lambda p: p.open("rb"),
    "unbuffered file": lambda p: p.open("rb", buffering=0),
}
NAMELESS: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda p: p.read_bytes(),
    "bytearray": lambda p: bytearray(p.read_bytes()),
    "memoryview": lambda p: memoryview(p.read_bytes()),
    "memoryview with steps": lambda p: memoryview(bytes(b for byte in p.read_bytes() for b in (byte, 0)))[::2],
    "BytesIO": lambda p: io.BytesIO(p.read_bytes()),
    "data URL": lambda p: f"data:image/png;base64,{b64(p.read_bytes())}",
    "data URL in capitals": lambda p: f"DATA:image/png;BASE64,{b64(p.read_bytes())}",
    "data URL without type": lambda p: f"data:;base64,{b64(p.read_bytes())}",
    "data URL, escaped": lambda p: "data:image/png," + "".join(f"%{b:02x}" for b in p.read_bytes()),
}


@pytest.mark.parametrize("kind", NAMED)
def test_a_path_or_file_is_read_at_once_and_gives_its_base_name(kind: str, png: Path) -> None:
    source = NAMED[kind](png)
    made = image(source)
    png.unlink()
    assert Part("image", mimeType="image/png", data=b64(PNG), name="chart.png") == made
    if hasattr(source, "close"):
        assert not source.closed
        source.close()


@pytest.mark.parametrize("kind", NAMELESS)
def test_bytes_of_any_kind_become_a_part_without_name(kind: str, png: Path) -> None:
    assert Part("image", mimeType="image/png", data=b64(PNG)) == image(NAMELESS[kind](png))


def test_a_compressed_file_object_gives_what_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "chart.png.gz"
    path.write_bytes(gzip.compress(PNG))
    with gzip.open(path, "rb") as handle:
        made = image(handle)
    assert (b64(PNG), "image/png") == (made.data, made.mimeType)


def test_a_file_object_named_by_a_number_has_no_name() -> None:
    with tempfile.TemporaryFile() as handle:
        handle.write(PNG)
        handle.seek(0)
        assert Part("image", mimeType="image/png", data=b64(PNG)) == image(handle)


def test_a_file_object_is_read_from_where_it_stands() -> None:
    handle = io.BytesIO(b"skip" + PNG)
    handle.seek(4)
    assert b64(PNG) == image(handle).data


def test_a_file_object_at_its_end_is_refused_and_an_empty_one_is_taken() -> None:
    handle = io.BytesIO()
    assert file(handle).data == ""
    handle.write(PNG)
    expected = "the file object is at its end. Seek it to 0 before."
    assert [expected] * 2 == [refused(lambda: file(handle)), refused(lambda: image(handle))]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/a/pic.png?size=2#x", Part("image", mimeType="image/png", url="http://x", name="pic.png")),
        ("HTTP://example.org/my%20pic.JPG", Part("image", mimeType="image/jpeg", url="http://x", name="my pic.JPG")),
    ],
)
def test_an_http_url_is_kept_and_not_read(url: str, expected: Part) -> None:
    assert replace(expected, url=url) == image(url)


def test_a_url_that_does_not_tell_its_type_needs_one_except_for_a_file() -> None:
    url = "https://example.org/download"
    assert Part("file", mimeType="application/octet-stream", url=url, name="download") == file(url)
    assert Part("image", mimeType="image/png", url=url, name="x") == image(url, mime_type="image/PNG", name="x")
    with pytest.raises(
        ContentPartError, match=r"^the URL of the image part does not tell its type\. Give mime_type=\.$"
    ):
        image(url)
    with pytest.raises(
        ContentPartError, match=r"^application/pdf is no image type\. Use file\(\), or correct mime_type\.$"
    ):
        image("https://example.org/a.pdf")
    with pytest.raises(ContentPartError, match=r"^the URL of the file part cannot be read\. Check its host\.$"):
        file("http://[::1/a.png")


def test_a_name_given_wins_over_the_base_name(png: Path) -> None:
    assert image(png, name="mine.png").name == "mine.png"


@pytest.mark.seed("TNX-15")
@pytest.mark.parametrize("make", [image, file])
def test_no_part_carries_a_path(make: Callable[[Path], Part], png: Path) -> None:
    assert str(png.parent) not in dumps(to_dict(make(png))).decode()


def test_a_name_that_utf_8_cannot_carry_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "a\udc97.txt"
    path.write_bytes(b"text")
    assert file(path).name == "a\ufffd.txt"
    assert Part("text", text="a\ufffd") == text("a\udc97")


# -- sources that are refused -----------------------------------------------------------------------------------


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises(ContentPartError) as caught:
        act()
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UsageError)
    return str(caught.value)


def test_a_missing_path_a_directory_and_an_empty_path_are_named(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.png")
    assert f"cannot read the part from {gone!r}: No such file or directory. Check the path." == refused(
        lambda: image(gone)
    )
    assert f"cannot read the part from {str(tmp_path)!r}: Is a directory. Check the path." == refused(
        lambda: file(tmp_path)
    )
    assert refused(lambda: image("")) == "the path of the part is empty. Give a path, bytes or a URL."
    assert refused(lambda: image("a\0b")) == "cannot read the part from 'a\\x00b': ValueError. Check the path."
    long = str(tmp_path / ("x" * 999))
    assert refused(lambda: image(long)).startswith(f"cannot read the part from a path of {len(long)} characters: ")


@pytest.mark.parametrize("scheme", ["ftp", "file", "FTP", "s3"])
def test_a_url_that_nobody_reads_is_refused_without_its_text(scheme: str) -> None:
    expected = f"a part cannot be read from {scheme}://. Give an http(s) URL, a path or the bytes."
    assert expected == refused(lambda: file(f"{scheme}://ada:FAKE@host.example/x.png"))


@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
def test_a_pipe_or_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero"):
        for make in (image, file, audio):
            expected = f"{path!r} is no regular file. Open it yourself and give the file object."
            assert expected == refused(lambda make=make, path=path: make(path))


def test_a_text_mode_file_is_refused_even_before_it_fails_to_decode(png: Path) -> None:
    expected = "the file object gives text, not bytes. Open it in binary mode, 'rb'."
    with png.open(encoding="utf-8") as handle:
        assert expected == refused(lambda: image(handle))  # type: ignore[arg-type]  # pyright: ignore
    assert expected == refused(lambda: file(io.StringIO("x")))  # pyright: ignore


class Reader:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def read(self, size: int = -1, /) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_file_object_that_gives_no_bytes_or_breaks_is_refused() -> None:
    mend = "Open it in binary mode, 'rb'."
    assert f"the file object gives str, not bytes. {mend}" == refused(lambda: file(Reader("x")))
    assert f"the file object gives NoneType, not bytes. {mend}" == refused(lambda: file(Reader(None)))
    for error in (OSError("disk"), EOFError("cut"), RuntimeError("odd")):
        expected = f"cannot read the part from the file object: {type(error).__name__}."
        assert expected == refused(lambda error=error: file(Reader(error)))
    with gzip.open(io.BytesIO(gzip.compress(PNG)[:-10])) as handle:
        assert refused(lambda: file(handle)) == "cannot read the part from the file object: EOFError."


def test_other_objects_are_no_source() -> None:
    mend = "Give a path, bytes, a binary file or a URL."
    assert f"an image part cannot be read from int. {mend}" == refused(lambda: image(5))  # pyright: ignore
    assert f"a file part cannot be read from NoneType. {mend}" == refused(lambda: file(None))  # pyright: ignore


LIMITED: list[Callable[[Path], Any]] = [
    str,
    lambda p: p.read_bytes(),
    lambda p: f"data:,{p.read_text()}",
    lambda p: p.open("rb"),
]


@pytest.mark.parametrize("source", LIMITED)
def test_the_limit_counts_bytes_of_every_source(source: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"x" * 82)
    for limit in (None, 82):
        given_ = source(path)
        assert decoded_len(file(given_, max_part_bytes=limit).data) == 82
        if hasattr(given_, "close"):
            given_.close()
    given_ = source(path)
    assert (
        refused(lambda: file(given_, max_part_bytes=81))
        == "the file part has more than 81 bytes. Shrink it or raise the limit."
    )
    if hasattr(given_, "close"):
        given_.close()


class Drops:
    """A pipe: it gives a little at a time, and counts what was taken."""

    def __init__(self, *given: Any) -> None:
        self.given = iter(given)
        self.taken = 0

    def read(self, size: int = -1, /) -> Any:
        piece = next(self.given, b"")
        self.taken += len(piece or b"")
        return piece


def test_a_file_object_without_end_is_read_no_further_than_the_limit() -> None:
    endless = Drops()
    endless.given = itertools.repeat(b"x" * 10)

    assert "the file part has more than 35 bytes. Shrink it or raise the limit." == refused(
        lambda: file(endless, max_part_bytes=35)
    )
    assert endless.taken == 40


def test_a_file_object_that_gives_little_at_a_time_is_read_to_its_end_under_a_limit() -> None:
    assert decoded_len(file(Drops(b"abc", bytearray(b"de"), b"f"), max_part_bytes=6).data) == 6
    for broken, given_ in ((None, "NoneType"), ("e", "str")):
        expected = f"the file object gives {given_}, not bytes. Open it in binary mode, 'rb'."
        assert expected == refused(lambda broken=broken: file(Drops(b"abc", broken), max_part_bytes=6))


def test_a_data_url_must_be_whole() -> None:
    assert refused(lambda: image("data:image/png")) == "the data: URL has no comma. Its form is data:TYPE;base64,DATA."
    expected = "the data of the part is no standard padded base64. Use base64.b64encode."
    for body in ("AAA", "A-_A", "AA\nAA", "AAA=A", "=", "é"):
        assert expected == refused(lambda body=body: image(f"data:image/png;base64,{body}"))
    assert Part("file", mimeType="text/plain", data=b64(b"a b")) == file("data:,a%20b")


# -- media types ------------------------------------------------------------------------------------------------

SNIFFED = [
    (PNG, "image/png"),
    (JPEG, "image/jpeg"),
    (PDF, "application/pdf"),
    (WAV, "audio/wav"),
    (ZIP, "application/zip"),
    (SVG, "image/svg+xml"),
    (b"  <svg/>", "image/svg+xml"),
    (HTML, "text/html"),
    (b'\xef\xbb\xbf{"a": 1}\n', "application/json"),
    (b"[1, 2]", "application/json"),
    (b"plain words\n", "text/plain"),
    ("é".encode() * 3_000, "text/plain"),
    (b"x" + "é".encode() * 3_000, "text/plain"),
    (b"", None),
    (UNKNOWN, None),
    (b"\xff\xfe\xfd" * 10, None),
    (b"text \xff more", None),
]


@pytest.mark.parametrize(("raw", "expected"), SNIFFED, ids=[f"{i} {m}" for i, (_, m) in enumerate(SNIFFED)])
def test_bytes_tell_their_media_type_or_none(raw: bytes, expected: str | None) -> None:
    assert expected == sniff(raw)


DECIDED: list[tuple[Callable[..., Part], bytes, str | None, str | None, str, str | None]] = [
    # make, bytes, mime_type=, name of the file -> type, note
    (image, PNG, None, None, "image/png", None),
    (image, PNG, "image/png", "a.png", "image/png", None),
    (image, PNG, "IMAGE/PNG; q=1", None, "image/png", None),
    (image, PNG, "image/jpeg", None, "image/png", "declared image/jpeg, bytes are image/png"),
    (image, PNG, None, "a.jpg", "image/png", "declared image/jpeg, bytes are image/png"),
    (image, PNG, None, "a.pdf", "image/png", "declared application/pdf, bytes are image/png"),
    (image, SVG, None, "a.svg", "image/svg+xml", None),
    (image, UNKNOWN, "image/x-own", None, "image/x-own", None),
    (image, UNKNOWN, None, "a.webp", "image/webp", None),
    (image, UNKNOWN, "image/avif", "a.webp", "image/avif", None),
    (file, PDF, None, None, "application/pdf", None),
    (file, PDF, "text/plain", None, "application/pdf", "declared text/plain, bytes are application/pdf"),
    (file, PNG, None, "a.txt", "image/png", "declared text/plain, bytes are image/png"),
    (file, b"a,b\n1,2\n", None, "a.csv", "text/csv", None),
    (file, b"# Title\n", None, "A.MD", "text/markdown", None),
    (file, b"a: 1\n", None, "a.yaml", "application/yaml", None),
    (file, b'{"a": 1}', None, None, "application/json", None),
    (file, b'{"a": 1}', "text/plain", None, "text/plain", None),
    (file, b"words", "application/pdf", None, "text/plain", "declared application/pdf, bytes are text/plain"),
    (file, b"words", None, "a.png", "text/plain", "declared image/png, bytes are text/plain"),
    (file, ZIP, "application/java-archive", None, "application/java-archive", None),
    (file, ZIP, None, "a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", None),
    (file, ZIP, "text/plain", None, "application/zip", "declared text/plain, bytes are application/zip"),
    (file, UNKNOWN, None, None, "application/octet-stream", None),
    (file, UNKNOWN, None, "a.parquet", "application/vnd.apache.parquet", None),
    (file, b"", None, "a.png", "image/png", None),
    (audio, WAV, None, None, "audio/wav", None),
    (audio, MP4, None, "a.m4a", "audio/mp4", None),
    (audio, MP4, None, None, "audio/mp4", None),
    (audio, UNKNOWN, "audio/pcm", None, "audio/pcm", None),
]


@pytest.mark.case("C040")
@pytest.mark.parametrize(
    ("make", "raw", "declared", "name", "expected", "note"), DECIDED, ids=map(str, range(len(DECIDED)))
)
def test_the_media_type_is_told_by_bytes_then_argument_then_extension(
    make: Callable[..., Part],
    raw: bytes,
    declared: str | None,
    name: str | None,
    expected: str,
    note: str | None,
    tmp_path: Path,
) -> None:
    source: Any = raw
    if name:
        source = tmp_path / name
        source.write_bytes(raw)
    made = make(source, mime_type=declared)
    assert (expected, note, name, b64(raw)) == (made.mimeType, made.note, made.name, made.data)


def test_bytes_that_are_recognisably_no_image_never_become_one() -> None:
    for raw, seen in ((PDF, "application/pdf"), (HTML, "text/html"), (b"words", "text/plain"), (WAV, "audio/wav")):
        expected = f"the bytes are {seen}, so they make no image part. Use file() for them."
        assert expected == refused(lambda raw=raw: image(raw, mime_type="image/png"))
    assert refused(lambda: audio(PNG)) == "the bytes are image/png, so they make no audio part. Use file() for them."


def test_bytes_that_tell_nothing_need_a_fitting_type() -> None:
    expected = "the type of the image part cannot be told from its bytes. Give mime_type=."
    assert expected == refused(lambda: image(UNKNOWN))
    assert (
        refused(lambda: image(UNKNOWN, mime_type="audio/wav"))
        == "audio/wav is no image type. Use file(), or correct mime_type."
    )


# -- fields and dicts -------------------------------------------------------------------------------------------

ALL = "Its fields are type, text, mimeType, data, url, name."
WRONG: list[tuple[dict[Any, Any], str]] = [
    ({}, "a part needs a type. Use text, image, file or audio."),
    ({"type": None}, "a part needs a type. Use text, image, file or audio."),
    ({"type": 5}, "the field 'type' of a part must be str, not int."),
    ({"type": "video", "mimeType": "a/b", "data": ""}, "unknown part type 'video'. Use text, image, file or audio."),
    ({"type": "x" * 300}, "unknown part type of 300 characters. Use text, image, file or audio."),
    ({"type": "text"}, "a text part needs text, a str."),
    ({"type": "text", "text": 5}, "the field 'text' of a part must be str, not int."),
    ({"type": "text", "text": "a", "data": "AA=="}, "a text part has no data. Its fields are type, text."),
    ({"type": "image", "data": "AA=="}, "an image part needs a mimeType, for example mimeType='image/png'."),
    (
        {"type": "image", "mimeType": "", "data": "AA=="},
        "an image part needs a mimeType, for example mimeType='image/png'.",
    ),
    ({"type": "file", "mimeType": "a/b"}, "a file part has neither data nor url. Give exactly one of them."),
    (
        {"type": "audio", "mimeType": "a/b", "data": "", "url": ""},
        "an audio part has both data and url. Give exactly one of them.",
    ),
    (
        {"type": "image", "mimeType": "a/b", "url": "/etc/x"},
        "the url of an image part must be http(s) with a host. Read anything else into data.",
    ),
    (
        {"type": "image", "mimeType": "image/png", "data": b"\x89PNG"},
        "the field 'data' of a part must be str, not bytes.",
    ),
    (
        {"type": "image", "mimeType": "image/png", "data": "AA==", "text": "alt"},
        "an image part has no text. Its fields are type, mimeType, data, url, name.",
    ),
    (
        {"type": "image", "mimeType": "image/png", "data": "sec ret"},
        "the data of the part is no standard padded base64. Use base64.b64encode.",
    ),
    ({"type": "image", "mime_type": "image/png"}, f"a part has no field 'mime_type'. {ALL}"),
    ({"type": "image", 5: 1}, f"a part has no field '5'. {ALL}"),
    ({"A" * 300: 1}, f"a part has no field of 300 characters. {ALL}"),
]


@pytest.mark.parametrize(("fields", "expected"), WRONG, ids=[f"{i}" for i in range(len(WRONG))])
def test_what_makes_no_part_is_refused_by_name(fields: dict[Any, Any], expected: str) -> None:
    assert expected == refused(lambda: from_dict(fields))
    assert expected == refused(lambda: to_dict(fields))
    assert f"part 1: {expected}" == refused(lambda: normalize_parts(["ok", fields]))
    assert not is_part_dict(fields)


def test_the_fields_of_a_part_are_checked_in_its_constructor_too() -> None:
    assert (
        refused(lambda: Part("image", mimeType="image/png"))
        == "an image part has neither data nor url. Give exactly one of them."
    )
    assert (
        refused(
            lambda: Part("image", mimeType="a/b", url=5)  # type: ignore[arg-type]  # pyright: ignore
        )
        == "the field 'url' of a part must be str, not int."
    )
    assert refused(lambda: part(type="video")) == "unknown part type 'video'. Use text, image, file or audio."


@given(st.text("AZaz09+/=\n-_é", max_size=12) | st.binary(max_size=9).map(b64))
def test_only_standard_padded_base64_is_data_however_a_part_is_made(data: str) -> None:
    try:
        raw = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        raw = None
    if len(data) % 4:  # the strict mode takes padding after whole groups
        raw = None
    fields = {"type": "image", "mimeType": "image/png", "data": data}
    if raw is not None:
        assert Part("image", mimeType="image/png", data=data) == from_dict(fields) == part(**fields)
        assert decoded_len(data) == len(raw)
        return
    expected = "the data of the part is no standard padded base64. Use base64.b64encode."
    assert expected == refused(lambda: Part("image", mimeType="image/png", data=data))
    assert expected == refused(lambda: replace(image(PNG), data=data))
    assert expected == refused(lambda: from_dict(fields))


PARTS = [
    text("hello"), text(""), image(PNG), image(PNG, name="a.png"), file(PDF), audio(WAV), image("https://example.org/a.png"),
    file(b""),
]  # fmt: skip


@pytest.mark.seed("TNX-07", "TNX-08")
@pytest.mark.parametrize("made", PARTS, ids=lambda p: describe_part(p))
def test_the_dict_of_a_part_is_canonical_and_makes_an_equal_part(made: Part) -> None:
    found = to_dict(made)
    assert found == to_dict(found)
    assert made == from_dict(found) == part(**found)
    assert is_part_dict(found)
    assert None not in found.values()
    assert found == parse(dumps(found))
    assert made == restore(parse(dumps(typed(made))))


@pytest.mark.seed("TNX-08")
def test_a_dict_written_by_hand_equals_the_one_that_is_built() -> None:
    by_hand = {"type": "image", "mimeType": "image/png", "data": b64(PNG), "name": None}
    assert to_dict(image(PNG)) == to_dict(by_hand)
    assert [to_dict(image(PNG)), {"type": "text", "text": "a"}] == normalize_parts([by_hand, "a"])


@given(st.binary(max_size=60), st.sampled_from([file]), st.text(max_size=5))
def test_any_bytes_come_back_from_a_file_part(raw: bytes, make: Callable[..., Part], name: str) -> None:
    made = make(raw, name=name or None)
    assert raw == base64.b64decode(made.data or "")
    assert len(raw) == decoded_len(made.data)
    assert made == from_dict(parse(dumps(to_dict(made))))


MEND = "Use text(), image(), file() or audio(), or a dict that to_dict() made."


class Unreadable(dict[str, Any]):
    """A dict that cannot be gone through."""

    def keys(self) -> Any:
        raise RuntimeError("no keys")

    def __iter__(self) -> Any:
        raise RuntimeError("no keys")


class BadPath:
    """A path that cannot be told."""

    def __fspath__(self) -> str:
        raise RuntimeError("no path")


NO_PARTS: list[tuple[Any, str]] = [
    (5, f"int is no part. {MEND}"),
    (None, f"NoneType is no part. {MEND}"),
    (b"raw", f"bytes is no part. {MEND}"),
    (["a"], f"list is no part. {MEND}"),
    (Part, f"type is no part. {MEND}"),
    (Faceless(), f"Faceless is no part. {MEND}"),
    ({"type": "text", "text": 5}, "the field 'text' of a part must be str, not int."),
    ({}, "a part needs a type. Use text, image, file or audio."),
]


@pytest.mark.parametrize(("value", "expected"), NO_PARTS, ids=[type(v).__name__ for v, _ in NO_PARTS])
def test_what_is_no_part_is_refused_by_each_function_that_takes_one(value: Any, expected: str) -> None:
    for function in (from_dict, to_dict, describe_part, placeholder_text):
        assert expected == refused(lambda function=function: function(value))
    assert f"part 0: {expected}" == refused(lambda: normalize_parts([value]))
    assert not is_part_dict(value)


class Everything(str):
    """A text that says it equals whatever it is compared with."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("type")


def test_a_key_is_what_it_spells_whatever_it_says_it_equals() -> None:
    assert refused(lambda: from_dict({Everything("bogus"): "text"})) == f"a part has no field 'bogus'. {ALL}"
    assert from_dict({Everything("type"): "text", "text": "a"}) == text("a")
    with pytest.raises(RequestError, match="unknown field 'bogus'"):
        Request.from_dict({Everything("bogus"): "x"})


MISUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: from_dict(Unreadable(type="text")), f"the dict of a part cannot be read: RuntimeError. {MEND}"),
    (lambda: Part(None), "a part needs a type. Use text, image, file or audio."),  # pyright: ignore
    (lambda: Part(Faceless()), "the field 'type' of a part must be str, not Faceless."),  # pyright: ignore
    (lambda: text(5), "the field 'text' of a part must be str, not int."),  # pyright: ignore
    (lambda: part(), "a part needs a type. Use text, image, file or audio."),
    (lambda: normalize_parts(5), "parts must be a list of parts, not int. Put it into a list."),  # pyright: ignore
    (lambda: normalize_parts("abc"), "parts must be a list of parts, not str. Put it into a list."),
    (lambda: normalize_parts({"type": "text"}), "parts must be a list of parts, not dict. Put it into a list."),
    (lambda: normalize_parts(text("a")), "parts must be a list of parts, not Part. Put it into a list."),  # pyright: ignore
    (lambda: decoded_len(5), "the data of a part must be base64 text, not int. Use file() for bytes."),  # pyright: ignore
    (lambda: sniff("text"), "a media type is told from bytes, not from str. Read it first."),  # pyright: ignore
    (lambda: image(Faceless()), "an image part cannot be read from Faceless. Give a path, bytes, a binary file or a URL."),  # pyright: ignore
    (lambda: file(BadPath()), "the path of the part cannot be read: RuntimeError. Give it as str."),
    (lambda: file(b"", mime_type=5), "mime_type of a file part must be str, not int. Correct it."),  # pyright: ignore
    (lambda: image(PNG, name=b"a"), "name of an image part must be str, not bytes. Correct it."),  # pyright: ignore
    (lambda: audio(WAV, max_part_bytes="9"), "max_part_bytes of an audio part must be int, not str. Correct it."),  # pyright: ignore
]  # fmt: skip


@pytest.mark.parametrize(("misuse", "expected"), MISUSED, ids=[f"{i}" for i in range(len(MISUSED))])
def test_whatever_is_given_what_is_wrong_with_it_is_said(misuse: Callable[[], Any], expected: str) -> None:
    assert expected == refused(misuse)


@pytest.mark.parametrize("bad", ["\r\n", "\n", "\r", "\t", "\0", "\x1b", "\x7f", "\x85", "\u2028"])
@pytest.mark.parametrize("place", ["{}a/b", "a{}/b", "a/b{}", "a/b;c={}d"])
def test_a_media_type_that_would_break_out_of_its_header_is_refused(bad: str, place: str) -> None:
    mime = place.format(bad)
    expected = "the {} of the part holds a line break or another control character. Remove it."
    assert expected.format("media type") == refused(lambda: file(f"data:{mime};base64,AA=="))
    assert expected.format("media type") == refused(lambda: image(f"data:{mime};base64,{b64(PNG)}"))
    assert expected.format("mime_type") == refused(lambda: file(b"", mime_type=mime))
    assert expected.format("mimeType") == refused(lambda: from_dict({"type": "file", "mimeType": mime, "data": ""}))
    url = f"https://example.org/{mime}"
    assert expected.format("url") == refused(lambda: Part("file", mimeType="a/b", url=url))


def test_what_is_no_part_is_named_by_its_place() -> None:
    assert (
        refused(
            lambda: normalize_parts(["a", text("b"), 5])  # type: ignore[list-item]  # pyright: ignore
        )
        == f"part 2: int is no part. {MEND}"
    )
    others: list[Any] = [None, 5, "text", [], text("a")]
    for other in others:
        assert not is_part_dict(other)


def test_a_part_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        image(PNG).data = "AAAA"  # type: ignore[misc]  # pyright: ignore


def test_a_note_is_neither_compared_nor_sent() -> None:
    noted = image(PNG, mime_type="image/jpeg")
    assert image(PNG) == noted
    assert hash(image(PNG)) == hash(noted)
    assert to_dict(image(PNG)) == to_dict(noted)


@pytest.mark.case("C037")
def test_inside_a_value_a_part_is_plain_with_its_size_in_place_of_its_data() -> None:
    assert {"type": "image", "mimeType": "image/png", "size": len(PNG)} == plain(image(PNG))
    url = "https://example.org/a.png"
    assert to_dict(image(url)) == plain(image(url))
    assert plain({"a": [text("hello")]}) == {"a": [{"type": "text", "text": "hello"}]}
    assert b64(PNG)[:20] not in dumps(plain({"pics": [image(PNG)]})).decode()


# -- description ------------------------------------------------------------------------------------------------


@pytest.mark.case("C037", "C040")
@pytest.mark.seed("TNX-09")
@pytest.mark.parametrize(
    ("made", "described"),
    [
        (Part("image", mimeType="image/png", data=b64(bytes(82))), "image (image/png, 82 bytes)"),
        (file(PDF), f"file (application/pdf, {len(PDF)} bytes)"),
        (file(b""), "file (application/octet-stream, 0 bytes)"),
        (image("https://example.org/a.png"), "image (image/png, by URL)"),
        (text("hello"), "text (5 characters)"),
    ],
)
def test_a_part_is_described_without_its_data(made: Part, described: str) -> None:
    kind, _, rest = described.partition(" ")
    assert described == describe_part(made) == describe_part(to_dict(made))
    assert f"[unsupported {kind} part {rest}]" == placeholder_text(made) == placeholder_text(to_dict(made))


def test_the_length_of_data_is_told_without_decoding() -> None:
    assert [decoded_len(d) for d in (None, "", "AA==", "AAA=", "AAAA", "AAAAAA==")] == [0, 0, 1, 2, 3, 4]


def test_data_is_in_no_repr_and_no_error(tmp_path: Path) -> None:
    data = b64(b"very secret bytes of a picture " * 20)
    made = Part("image", mimeType="image/png", data=data)
    shown = [repr(made), describe_part(made), placeholder_text(made)]
    attempts: list[Callable[[], Any]] = [
        lambda: image(data),
        lambda: from_dict({"type": "image", "mimeType": "image/png", "data": data + "!"}),
        lambda: from_dict({"type": data}),
        lambda: from_dict({data: 1}),
        lambda: replace(made, url="https://example.org"),
        lambda: file(f"data:image/png;base64,{data}!"),
        lambda: normalize_parts([to_dict(made) | {"url": "https://x"}]),
    ]
    for attempt in attempts:
        with pytest.raises(ContentPartError) as caught:
            attempt()
        shown += [str(caught.value), repr(caught.value.__cause__)]
    assert [s for s in shown if data[:20] in s] == []
