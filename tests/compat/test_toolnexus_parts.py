"""What toolnexus' page "ToolResult" says of parts and metadata, statement by statement."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.compat.samples import HAND_WRITTEN, MEDIA, PNG, PNG_TEXT, call, tool_that_returns

import ferrule
import toolnexus
from toolnexus import ContentPart, ContentPartError, ToolResult, UnsupportedPartError
from toolnexus.content import describe_part, from_dict, is_part_dict, normalize_parts, placeholder_text, to_dict

WAV = b"RIFF$\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8_000, 16_000, 2, 16) + b"data\0\0\0\0"


def all_text(value: Any) -> str:
    return json.dumps(ferrule.plain(value))


# -- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.seed("TNX-02")
@pytest.mark.parametrize(
    ("made", "kind", "mime"),
    [
        (toolnexus.image(PNG), "image", "image/png"),
        (toolnexus.file(b"%PDF-1.4\n%%EOF\n"), "file", "application/pdf"),
        (toolnexus.audio(WAV), "audio", "audio/wav"),
    ],
)
def test_a_tool_returns_each_kind_of_part(made: ContentPart, kind: str, mime: str) -> None:
    returned = call(tool_that_returns(ToolResult("here it is", False, parts=[to_dict(made)])))

    assert returned.success
    assert returned.parts == [{"type": kind, "mimeType": mime, "data": made.data}]


@pytest.mark.seed("TNX-02")
def test_parts_are_read_from_bytes_file_objects_and_urls() -> None:
    from_bytes = toolnexus.image(PNG)
    from_file = toolnexus.image(io.BytesIO(PNG))
    from_data_url = toolnexus.image(f"data:image/png;base64,{PNG_TEXT}")
    by_url = toolnexus.image("https://example.com/shot.png")

    assert from_bytes == from_file == from_data_url == ContentPart("image", mimeType="image/png", data=PNG_TEXT)
    assert (by_url.mimeType, by_url.url, by_url.data, by_url.name) == (
        "image/png",
        "https://example.com/shot.png",
        None,
        "shot.png",
    )


@pytest.mark.seed("TNX-06")
@pytest.mark.parametrize("given", [{}, {"parts": [HAND_WRITTEN]}])
def test_a_result_without_output_is_a_type_error(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="output"):
        ToolResult(is_error=False, **given)


@pytest.mark.seed("TNX-07")
def test_the_entry_of_an_image_has_type_mime_type_and_data() -> None:
    result = ToolResult("shown", False, parts=[to_dict(toolnexus.image(PNG))])

    assert result.parts == [{"type": "image", "mimeType": "image/png", "data": PNG_TEXT}]


@pytest.mark.seed("TNX-08")
def test_a_part_dict_written_by_hand_equals_the_built_one_and_is_accepted() -> None:
    returned = call(tool_that_returns(ToolResult("shown", False, parts=[HAND_WRITTEN])))

    assert to_dict(toolnexus.image(PNG)) == HAND_WRITTEN
    assert from_dict(HAND_WRITTEN) == toolnexus.image(PNG)
    assert is_part_dict(HAND_WRITTEN)
    assert (returned.success, returned.parts) == (True, [HAND_WRITTEN])


@pytest.mark.seed("TNX-08")
def test_a_part_dict_that_is_none_makes_a_failure_that_names_it() -> None:
    both = {**HAND_WRITTEN, "url": "https://example.com/a.png"}
    returned = call(tool_that_returns(ToolResult("shown", False, parts=[HAND_WRITTEN, both])))

    assert not is_part_dict(both)
    assert returned.is_error
    assert "part 1: an image part has both data and url" in returned.output
    with pytest.raises(ContentPartError, match="part 0"):
        normalize_parts([both])


@pytest.mark.seed("TNX-09")
def test_a_part_without_a_shape_is_replaced_by_its_placeholder() -> None:
    assert placeholder_text(HAND_WRITTEN) == "[unsupported image part (image/png, 82 bytes)]"
    assert placeholder_text(toolnexus.image(PNG), "anthropic") == "[unsupported image part (image/png, 82 bytes)]"
    assert placeholder_text(toolnexus.audio(WAV), "openai") == f"[unsupported audio part (audio/wav, {len(WAV)} bytes)]"
    assert describe_part(HAND_WRITTEN) == "image (image/png, 82 bytes)"


@pytest.mark.seed("TNX-09")
def test_the_error_for_an_attached_part_names_kind_type_and_style() -> None:
    error = UnsupportedPartError("audio", "audio/wav", "anthropic")

    assert isinstance(error, ValueError)
    assert (error.part_type, error.mime_type, error.style) == ("audio", "audio/wav", "anthropic")
    assert all(word in str(error) for word in ("audio", "audio/wav", "anthropic"))


# -- the examples beyond their programs ------------------------------------------------------------------------------


@pytest.mark.seed("TNX-10")
def test_a_failure_made_with_the_flag_is_a_refusal_without_a_value() -> None:
    missing = ToolResult(output="No such config key: nope", is_error=True)

    assert (missing.status, missing.success, missing.value) == ("failed", False, None)
    assert missing.error == "No such config key: nope"
    assert missing.failure == ferrule.Failure("refused")


@pytest.mark.seed("TNX-11")
def test_metadata_keeps_the_objects_it_was_given() -> None:
    ids = [1, 2]
    result = ToolResult("two hits", False, {"ids": ids})

    assert result.metadata is not None
    assert result.metadata["ids"] is ids


@pytest.mark.seed("TNX-12")
def test_nothing_of_the_metadata_is_in_what_a_model_reads() -> None:
    result = call(tool_that_returns(ToolResult("two hits", False, {"token": "m3tadata", "n": [2]}, [HAND_WRITTEN])))

    assert result.metadata == {"token": "m3tadata", "n": [2]}
    for seen in (result.output, result.parts, [describe_part(p) for p in result.parts or []], result.value):
        assert "m3tadata" not in all_text(seen)
        assert "token" not in all_text(seen)


@pytest.mark.seed("TNX-14")
def test_the_fixture_is_82_bytes_of_png_and_its_base64_decodes_to_them() -> None:
    text = (MEDIA / "fixture.png.base64").read_text("ascii")

    assert len(PNG) == 82
    assert base64.b64decode(text.strip(), validate=True) == PNG


@pytest.mark.seed("TNX-14")
def test_the_fixture_holds_four_coloured_pixels() -> None:
    assert PNG[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    rest = PNG[8:]
    while rest:
        size, kind = struct.unpack(">I4s", rest[:8])
        chunks[kind], crc = rest[8 : 8 + size], rest[8 + size : 12 + size]
        assert struct.unpack(">I", crc) == (zlib.crc32(kind + chunks[kind]),)
        rest = rest[12 + size :]

    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (2, 2, 8, 2, 0, 0, 0)
    assert zlib.decompress(chunks[b"IDAT"]).hex() == "00d1495bedae49" + "0000798c30638e"


@pytest.mark.seed("TNX-15")
def test_a_part_made_from_a_file_has_its_base_name_and_no_path(tmp_path: Path) -> None:
    folder = tmp_path / "quarterly"
    folder.mkdir()
    (folder / "shot.png").write_bytes(PNG)

    with (folder / "shot.png").open("rb") as handle:
        made = [
            toolnexus.image(str(folder / "shot.png")),
            toolnexus.image(folder / "shot.png"),
            toolnexus.image(handle),
        ]

    for part in made:
        assert (part.type, part.mimeType, part.data, part.url, part.name) == (
            "image",
            "image/png",
            PNG_TEXT,
            None,
            "shot.png",
        )
        assert set(to_dict(part)) == {"type", "mimeType", "data", "name"}
        assert "quarterly" not in all_text(to_dict(part)) + repr(part)


@pytest.mark.seed("TNX-15")
def test_a_part_dict_with_a_path_is_refused() -> None:
    with pytest.raises(ContentPartError, match="a part has no field 'path'"):
        toolnexus.part(type="image", mimeType="image/png", path="shot.png")


@pytest.mark.seed("TNX-16")
def test_a_plain_result_equals_one_stored_before_parts_existed() -> None:
    plain = ToolResult("done", False)

    assert plain.parts is None
    assert plain == ToolResult("done", False, None, None) != ToolResult("done", False, parts=[])
    assert ferrule.restore({"$result": {"output": "done", "is_error": False}}) == plain
    assert "parts" not in all_text(ferrule.typed(plain))


@pytest.mark.seed("TNX-17")
def test_output_stands_whole_beside_any_parts() -> None:
    text = "screenshot (image/png, 82 bytes)\n" + "x" * 1_000
    returned = call(tool_that_returns(ToolResult(text, False, parts=[HAND_WRITTEN, HAND_WRITTEN])))

    assert returned.output == text
    assert len(returned.parts or []) == 2
