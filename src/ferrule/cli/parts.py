"""Parts on the command line: described in data, kept as files on request."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from ferrule.cli.output import NotWritten
from ferrule.content import is_part_dict
from ferrule.errors import UsageError
from ferrule.exception import describe_exception
from ferrule.result import ToolResult
from ferrule.suspension import Request

_MOST_BYTES: Final = 200  # file systems count bytes, and take 255
_MOST_OF_EXTENSION: Final = 20
_UNSAFE: Final = re.compile(r"[^\w.+() -]")
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def without_data(value: Any) -> Any:
    """A plain value with the bytes of every part replaced by their digest and size.

    Args:
        value: What `ferrule.plain` gives.

    Since 0.1.
    """
    if isinstance(value, list):
        return [without_data(v) for v in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if is_part_dict(fields) and isinstance(fields.get("data"), str):
        raw = base64.b64decode(fields["data"])
        return {**fields, "data": {"sha256": hashlib.sha256(raw).hexdigest(), "size": len(raw)}}
    return {k: without_data(v) for k, v in fields.items()}


def readable(request: Request) -> Request:
    """A request whose preview is what a person reads of it, where that has no value for programs.

    Args:
        request: The request.

    Since 0.1.
    """
    shown = request.preview
    return replace(request, preview=shown.output) if isinstance(shown, ToolResult) and shown.value is None else request


def make_folder(folder: Path) -> None:
    """Make the folder for parts, before the call whose parts it is for.

    Args:
        folder: Where.

    Raises:
        UsageError: It cannot be made.

    Since 0.1.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--save names {str(folder)!r}, which cannot be a folder: {error.strerror}. Name another."
        ) from error


def save_parts(parts: Iterable[Mapping[str, Any]], folder: Path) -> tuple[list[Path | None], OSError | None]:
    """Write the parts that hold bytes into a folder; no file that is there is touched.

    Args:
        parts: Part dicts.
        folder: An existing folder.

    Returns:
        For each part its file, or None when it holds no bytes or cannot be saved; and what kept the first one from it.

    Since 0.1.
    """
    saved: list[Path | None] = []
    trouble: OSError | None = None
    for number, part in enumerate(parts, start=1):
        path = None
        try:
            if part.get("data") is not None:
                path = _write_new(folder, file_name(part, number), base64.b64decode(part["data"]))
        except (OSError, ValueError) as error:  # a ValueError where the file system cannot write the name
            trouble = trouble or NotWritten(f"part {number} was not saved: {describe_exception(error)}")
        saved.append(path)
    return saved, trouble


def file_name(part: Mapping[str, Any], number: int) -> str:
    """A file name for a part that is safe in any folder, made from the name it carries.

    Args:
        part: A part dict; its name may come from anywhere, a model or a server included.
        number: Its place among the parts, from 1.

    Since 0.1.
    """
    base = re.split(r"[/\\]", part.get("name") or "")[-1]
    safe = _UNSAFE.sub("_", base).strip(". ")
    stem, dot, extension = safe.rpartition(".")
    safe = f"{_cut(stem, _MOST_BYTES - _MOST_OF_EXTENSION)}{dot}{_cut(extension, _MOST_OF_EXTENSION)}"
    if not safe.strip("._ "):
        return f"part-{number}{mimetypes.guess_extension(part.get('mimeType') or '') or '.bin'}"
    return f"_{safe}" if _RESERVED.fullmatch(safe) else safe


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


def _write_new(folder: Path, name: str, raw: bytes) -> Path:
    stem, dot, extension = name.rpartition(".")
    number = 1
    while True:
        again = name if number == 1 else f"{stem}-{number}.{extension}" if dot and stem else f"{name}-{number}"
        try:
            # Exclusive creation follows no symbolic link and overwrites nothing, whoever else writes here.
            with (folder / again).open("xb") as file:
                file.write(raw)
        except FileExistsError:
            number += 1
            continue
        return folder / again


def describe_saved(part: Mapping[str, Any], saved: Sequence[Path | None], index: int) -> str:
    """What a line about a part adds when parts were to be kept.

    Args:
        part: The part dict.
        saved: As `save_parts` gave it; empty when nothing was to be kept.
        index: The part's place, from 0.

    Since 0.1.
    """
    if index >= len(saved):
        return ""
    path = saved[index]
    if path is None:
        return ", holds no bytes to save" if part.get("data") is None else ", not saved"
    return f", saved as {path}"
