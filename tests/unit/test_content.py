"""Parts: where they come from, what type they are, and what is never shown of them."""

from __future__ import annotations

import base64
import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from ferrule import ContentPartError, Part, UnsupportedPartError, audio, file, image, text
from ferrule.content import (
    decoded_len,
    describe_part,
    from_dict,
    is_part_dict,
    normalize_parts,
    part,
    placeholder_text,
    sniff,
    to_dict,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.7\n" + b"\x00\xff" * 10_000
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(20)
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>'
DATA = base64.b64encode(PNG).decode()


# -- sources ----------------------------------------------------------------------------------------------------


@pytest.mark.case("C037")
@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, io.BytesIO], ids=lambda m: m.__name__)
def test_bytes_of_every_kind_make_the_same_part(make: Any) -> None:
    assert image(make(PNG)) == Part("image", mimeType="image/png", data=DATA)


@pytest.mark.parametrize("make", [str, Path], ids=["str", "PathLike"])
def test_a_path_is_read_at_once_and_only_its_base_name_is_kept(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "shot.png"
    path.write_bytes(PNG)
    made = image(make(path))
    path.unlink()
    assert made == Part("image", mimeType="image/png", data=DATA, name="shot.png")


def test_a_binary_file_is_read_whole_and_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "shot.png"
    path.write_bytes(PNG)
    with path.open("rb") as handle:
        assert image(handle) == Part("image", mimeType="image/png", data=DATA, name="shot.png")
        assert not handle.closed
    packed = io.BytesIO(gzip.compress(PNG))
    assert image(gzip.open(packed)).data == DATA


def test_a_text_mode_handle_is_refused_with_the_mend(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x")
    with path.open() as handle, pytest.raises(ContentPartError, match=r"Open it in binary mode"):
        file(handle)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"data:image/png;base64,{DATA}", Part("image", mimeType="image/png", data=DATA)),
        (f"DATA:image/png;base64,{DATA}", Part("image", mimeType="image/png", data=DATA)),
    ],
)
def test_a_data_url_is_decoded(url: str, expected: Part) -> None:
    assert image(url) == expected


def test_a_percent_encoded_data_url_is_decoded() -> None:
    made = file("data:text/plain,a%20b")
    assert (made.mimeType, made.data) == ("text/plain", base64.b64encode(b"a b").decode())


def test_an_http_url_is_kept_and_never_fetched() -> None:
    made = image("https://example.invalid/a/shot.png?x=1")
    assert (made.url, made.mimeType, made.data, made.name) == (
        "https://example.invalid/a/shot.png?x=1", "image/png", None, "shot.png",
    )  # fmt: skip


def test_an_image_url_that_tells_no_type_needs_one() -> None:
    with pytest.raises(ContentPartError, match=r"Give mime_type="):
        image("https://example.invalid/shot")
    assert image("https://example.invalid/shot", mime_type="image/webp").mimeType == "image/webp"


@pytest.mark.parametrize("source", ["missing.png", "", "a\0b"])
def test_a_path_that_cannot_be_read_is_an_error_of_ours(source: str) -> None:
    with pytest.raises(ContentPartError):
        image(source)


def test_a_missing_path_is_named_with_the_mend() -> None:
    with pytest.raises(ContentPartError) as error:
        image("missing.png")
    assert str(error.value) == "cannot read the part from 'missing.png': No such file or directory. Check the path."


def test_a_directory_is_no_part(tmp_path: Path) -> None:
    with pytest.raises(ContentPartError, match="Is a directory"):
        file(tmp_path)


@pytest.mark.parametrize("make", [image, file, audio], ids=["image", "file", "audio"])
def test_anything_else_is_refused_by_its_type(make: Any) -> None:
    with pytest.raises(ContentPartError, match="cannot be read from int"):
        make(7)


def test_a_part_over_the_limit_is_refused_whatever_its_source(tmp_path: Path) -> None:
    path = tmp_path / "shot.png"
    path.write_bytes(PNG)
    for source in (PNG, path, io.BytesIO(PNG), f"data:image/png;base64,{DATA}"):
        with pytest.raises(ContentPartError, match=r"has more than 10 bytes\. Shrink it or raise the limit\."):
            image(source, max_part_bytes=10)
    assert image(PNG, max_part_bytes=len(PNG)).data == DATA


# -- media types ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (PNG, "image/png"),
        (PDF, "application/pdf"),
        (WAV, "audio/wav"),
        (SVG, "image/svg+xml"),
        (b"<!doctype html><p>", "text/html"),
        (b'{"a": 1}', "application/json"),
        (b"a,b\n1,2\n", "text/plain"),
        ("Grüße".encode(), "text/plain"),
        (b"\x00\x01\x02\xfe", None),
        (b"", None),
    ],
)
def test_bytes_that_tell_their_type_are_recognised(raw: bytes, expected: str | None) -> None:
    assert sniff(raw) == expected


def test_text_cut_in_the_middle_of_a_character_is_still_text() -> None:
    assert sniff("é".encode() * 5_000) == "text/plain"
    assert sniff(b"a" + "é".encode() * 5_000) == "text/plain"


@pytest.mark.parametrize(
    ("made", "mime", "note"),
    [
        (lambda: image(PNG, mime_type="image/jpeg"), "image/png", "declared image/jpeg, bytes are image/png"),
        (lambda: image(b"\x00\x01\x02\xfe", mime_type="image/x-raw"), "image/x-raw", None),
        (lambda: file(b"a,b\n", mime_type="text/csv"), "text/csv", None),
        (lambda: file(PDF), "application/pdf", None),
        (lambda: file(b"\x00\x01\x02\xfe"), "application/octet-stream", None),
        (lambda: audio(WAV), "audio/wav", None),
    ],
)
def test_the_media_type_comes_from_the_bytes_then_from_what_is_declared(made: Any, mime: str, note: str | None) -> None:
    assert (made().mimeType, made().note) == (mime, note)


def test_the_extension_tells_what_neither_bytes_nor_caller_do(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"\x00\x01\x02\xfe")
    assert file(path).mimeType == "application/vnd.apache.parquet"


@pytest.mark.case("C037")
@pytest.mark.parametrize("raw", [PDF, b"hello", SVG.replace(b"svg", b"html"), WAV], ids=["pdf", "text", "html", "wav"])
def test_bytes_that_are_recognisably_no_image_never_become_one(raw: bytes) -> None:
    with pytest.raises(ContentPartError, match=r"so they make no image part\. Use file\(\) for them\."):
        image(raw, mime_type="image/png")


def test_an_image_is_no_audio() -> None:
    with pytest.raises(ContentPartError, match="the bytes are image/png, so they make no audio part"):
        audio(PNG)


def test_a_type_that_nothing_tells_must_be_given() -> None:
    with pytest.raises(ContentPartError, match=r"cannot be told from its bytes\. Give mime_type=\."):
        image(b"\x00\x01\x02\xfe")


# -- fields and dicts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "video", "mimeType": "video/mp4", "url": "u"}, "unknown part type 'video'"),
        ({"type": "image", "mimeType": "image/png"}, "an image part has neither data nor url"),
        ({"type": "file", "mimeType": "a/b", "data": "YQ==", "url": "u"}, "a file part has both data and url"),
        ({"type": "image", "data": "YQ=="}, "an image part needs a mimeType"),
        ({"type": "text"}, "a text part needs text"),
        ({"type": "image", "mimeType": "image/png", "data": "not base64!"}, "no standard padded base64"),
        ({"type": "image", "mimeType": "image/png", "data": "YQ"}, "no standard padded base64"),
        ({"type": "image", "mimeType": "image/png", "path": "a.png"}, "a part has no field 'path'"),
        ({"type": "image", "mimeType": "image/png", "data": b"YQ=="}, "must be str, not bytes"),
    ],
)
def test_fields_that_make_no_part_are_refused_and_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ContentPartError, match=message):
        part(**fields)
    assert not is_part_dict(fields)


@pytest.mark.parametrize(
    "made",
    [text("hi"), Part("image", mimeType="image/png", data=DATA, name="a.png"), Part("file", mimeType="a/b", url="http://x")],
)
def test_the_dict_of_a_part_has_only_what_it_has_and_reads_back(made: Part) -> None:
    written = to_dict(made)
    assert from_dict(written) == made
    assert is_part_dict(written)
    assert None not in written.values()


def test_parts_dicts_and_text_are_normalised_in_order_and_the_first_wrong_one_is_named() -> None:
    given: Any = [text("a"), "b", {"type": "image", "mimeType": "image/png", "data": DATA}]
    assert [p["type"] for p in normalize_parts(given)] == ["text", "text", "image"]
    with pytest.raises(ContentPartError, match=r"^part 1 is int, not a part"):
        normalize_parts(["a", 7])  # pyright: ignore[reportArgumentType]


@pytest.mark.case("C040")
def test_a_part_is_described_by_kind_type_and_size_and_never_by_its_bytes() -> None:
    made = file(PDF, name="report.pdf")
    assert describe_part(made) == "file (application/pdf, 20009 bytes)"
    assert placeholder_text(made) == "[unsupported file part (application/pdf, 20009 bytes)]"
    assert describe_part(to_dict(made)) == describe_part(made)
    assert made.data is not None
    assert made.data[:20] not in repr(made)


@pytest.mark.parametrize("n", range(6))
def test_the_decoded_length_is_told_without_decoding(n: int) -> None:
    assert decoded_len(base64.b64encode(b"x" * n).decode()) == n


def test_no_data_has_no_length() -> None:
    assert decoded_len(None) == decoded_len("") == 0


def test_text_of_a_part_can_always_be_encoded() -> None:
    assert text("a\udc97b").text == "a\ufffdb"


def test_an_unsupported_part_error_carries_what_it_is_about() -> None:
    error = UnsupportedPartError("audio", "audio/wav", "anthropic")
    assert (error.part_type, error.mime_type, error.style) == ("audio", "audio/wav", "anthropic")
    assert "anthropic has no shape for the audio part (audio/wav)" in str(error)
