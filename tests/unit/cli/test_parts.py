"""Files made from parts: their names come from outside and lead nowhere."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.cli.parts import describe_saved, file_name, save_parts, without_data


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dot.png", "dot.png"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\evil.exe", "evil.exe"),
        ("/abs/olute.txt", "olute.txt"),
        ("C:\\Users\\x.txt", "x.txt"),
        ("a:b*c?.txt", "a_b_c_.txt"),
        ("line\nbreak.txt", "line_break.txt"),
        (".hidden", "hidden"),
        ("..", "part-3.png"),
        ("", "part-3.png"),
        (None, "part-3.png"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("żółć.txt", "żółć.txt"),
    ],
)
def test_a_name_from_outside_becomes_a_name_in_the_folder(name: str | None, expected: str) -> None:
    assert file_name({"type": "image", "mimeType": "image/png", "name": name}, 3) == expected


@given(st.text(max_size=300) | st.text("漢é😀𐐀", min_size=70, max_size=300))
def test_any_name_stays_one_visible_bounded_component(name: str) -> None:
    made = file_name({"type": "file", "mimeType": "x/y", "name": name}, 1)
    assert PurePosixPath(made).name == PureWindowsPath(made).name == made
    assert not made.startswith(".")
    assert 0 < len(made.encode()) <= 202


def test_a_symbolic_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "dot.png").symlink_to(outside)
    part: dict[str, Any] = {"type": "image", "mimeType": "image/png", "name": "dot.png", "data": "AAAA"}
    assert save_parts([part], folder) == ([folder / "dot-2.png"], None)
    assert not outside.exists()


def test_a_part_behind_a_url_is_not_fetched(tmp_path: Path) -> None:
    part = {"type": "image", "mimeType": "image/png", "url": "https://example.org/dot.png", "name": "dot.png"}
    assert save_parts([part], tmp_path) == ([None], None)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_cannot_be_saved_keeps_no_other_from_it_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = Path.open

    def narrow(path: Path, *args: Any) -> Any:
        if path.name == "full.png":
            raise OSError(28, "No space left on device")
        path.name.encode("ascii")
        return cast("Any", open_)(path, *args)

    monkeypatch.setattr(Path, "open", narrow)
    parts = [
        {"type": "file", "mimeType": "a/b", "data": "AAAA", "name": name} for name in ("ż.png", "a.png", "full.png")
    ]
    saved, trouble = save_parts(parts, tmp_path)
    assert saved == [None, tmp_path / "a.png", None]
    assert str(trouble).startswith("part 1 was not saved: UnicodeEncodeError: ")
    _, trouble = save_parts(parts[2:], tmp_path)
    assert str(trouble) == "part 1 was not saved: OSError: [Errno 28] No space left on device"
    lines = [describe_saved(part, saved, i) for i, part in enumerate(parts)]
    assert lines == [", not saved", f", saved as {tmp_path / 'a.png'}", ", not saved"]


def test_data_is_left_out_at_any_depth_and_nothing_else_changes() -> None:
    part = {"type": "file", "mimeType": "a/b", "data": "AAAA"}
    short = {"type": "file", "mimeType": "a/b", "data": {"sha256": without_data(part)["data"]["sha256"], "size": 3}}
    assert without_data({"a": [1, {"b": part}], "data": "AAAA"}) == {"a": [1, {"b": short}], "data": "AAAA"}
