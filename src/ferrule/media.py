"""Media types: told by bytes, else by what was declared, else by a name's extension."""

from __future__ import annotations

import os
from functools import lru_cache

from ferrule.errors import ContentPartError
from ferrule.strict_json import is_a, kind_of

_BYTES = (bytes, bytearray, memoryview)
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MORE = {
    ".webp": "image/webp", ".avif": "image/avif", ".md": "text/markdown", ".m4a": "audio/mp4", ".ogg": "audio/ogg",
    ".opus": "audio/ogg", ".flac": "audio/flac", ".wav": "audio/wav", ".yaml": "application/yaml",
    ".parquet": "application/vnd.apache.parquet", ".epub": "application/epub+zip",
    ".docx": _OFFICE + "wordprocessingml.document", ".xlsx": _OFFICE + "spreadsheetml.sheet",
    ".pptx": _OFFICE + "presentationml.presentation",
}  # fmt: skip


@lru_cache(maxsize=1)
def _extensions() -> dict[str, str]:
    from mimetypes import MimeTypes  # loads a URL parser too: only those who build parts pay for it

    # The built-in table only: the same answer on every machine.
    return {**MimeTypes(filenames=()).types_map[True], **_MORE}


def mime_of_name(name: str) -> str | None:
    """Media type that the extension of a file's name tells, the same on every machine.

    Args:
        name: The name.

    Since 0.1.
    """
    return _extensions().get(os.path.splitext(name)[1].lower()) if "." in name else None


_ALIASES = {"audio/x-wav": "audio/wav", "audio/x-flac": "audio/flac", "audio/m4a": "audio/mp4"}
_MARKUP = (("image/svg+xml", "<svg"), ("text/html", "<!doctype html"), ("text/html", "<html"))


def bare(mime: str | None) -> str:
    """A media type as it is compared: in small letters, without parameters; empty for none.

    Args:
        mime: As it was declared.

    Since 0.1.
    """
    return mime.partition(";")[0].strip().lower() if mime else ""


def sniff(raw: bytes) -> str | None:
    """Media type of bytes that tell it, else None.

    Args:
        raw: The bytes; the first few thousand decide.

    Raises:
        ContentPartError: It is no bytes.

    Since 0.1.
    """
    if not is_a(raw, _BYTES):
        raise ContentPartError(f"a media type is told from bytes, not from {kind_of(raw)}. Read it first.")
    import filetype  # pyright: ignore[reportMissingTypeStubs] - only those who build parts pay for its table

    head = bytes(raw[:4096])
    kind: str | None = filetype.guess_mime(head) if head else None  # pyright: ignore
    if kind:
        return _ALIASES.get(kind, kind)
    return _sniff_text(head, len(raw)) if head else None


def _sniff_text(head: bytes, size: int) -> str | None:
    try:
        shown = head.decode()
    except UnicodeDecodeError as error:
        if size <= len(head) or error.start < len(head) - 3:  # else a character cut at the end of the head
            return None
        shown = head[: error.start].decode()
    if any(ord(c) < 32 and c not in "\t\n\r\f" for c in shown):
        return None
    start = shown.lstrip("\ufeff \t\r\n").lower()
    for mime, mark in _MARKUP:
        if start.startswith(mark) or (start.startswith(("<?xml", "<!--")) and mark in start):
            return mime
    return "application/json" if start[:1] in ("{", "[") and start.rstrip()[-1:] in ("}", "]") else "text/plain"


def settle(kind: str, seen: str | None, declared: str | None) -> str:
    """The media type of bytes that look like one type and were declared as one.

    Args:
        kind: What they are to be: `image`, `file` or `audio`.
        seen: What they look like.
        declared: What was said of them.

    Raises:
        ContentPartError: They are no such thing, or nothing tells what they are.

    Since 0.1.
    """
    if kind == "file":
        return declared if declared and _may_be(seen, declared) else seen or "application/octet-stream"
    if seen and not _fits(kind, seen):
        raise ContentPartError(f"the bytes are {seen}, so they make no {kind} part. Use file() for them.")
    if declared and not seen and not _fits(kind, declared):
        raise ContentPartError(f"{declared} is no {kind} type. Use file(), or correct mime_type.")
    if seen and kind == "audio" and not seen.startswith("audio/"):
        return declared if declared and declared.startswith("audio/") else "audio/" + seen.partition("/")[2]
    if seen or declared:
        return seen or declared or ""
    raise ContentPartError(f"the type of the {kind} part cannot be told from its bytes. Give mime_type=.")


def _fits(kind: str, mime: str) -> bool:
    # Containers like WebM and MP4 look like video whatever they hold.
    return mime.startswith(kind + "/") or (kind == "audio" and mime in ("video/mp4", "video/webm", "video/ogg"))


def _may_be(seen: str | None, declared: str) -> bool:
    """Whether bytes that look like `seen` may be the more special `declared`: any text CSV, any archive a document."""
    if seen == "application/zip":
        return declared.startswith("application/") and declared != "application/pdf"
    if seen in ("text/plain", "text/html", "application/json"):
        return not declared.startswith(("image/", "audio/", "video/", "font/")) and declared != "application/pdf"
    return seen is None
