"""Parts: pieces of content for eyes and ears. Bytes or a URL, never a path.

A path does not survive a stored transcript or the way to another machine, so
the constructors read at once and keep base64. `mimeType` is spelled as on the
wire. A part's data never appears in a repr, a log or an error.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, cast

from ferrule.errors import ContentPartError
from ferrule.media import bare, mime_of_name, settle, sniff
from ferrule.strict_json import Codec, clean, is_a, kind_of, register

MEDIA_KINDS = ("image", "file", "audio")
_BYTES = (bytes, bytearray, memoryview)


class BinaryReadable(Protocol):
    """A binary file object: `read()` gives bytes.

    Since 0.1.
    """

    def read(self, size: int = -1, /) -> bytes:
        """Give the bytes that are left.

        Args:
            size: Most bytes; negative for all.
        """
        ...


PartSource = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryReadable


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of content.

    Args:
        type: `text`, `image`, `file` or `audio`.
        text: The text of a text part.
        mimeType: Media type of any other part.
        data: Its bytes as standard padded base64; either this or `url`.
        url: Where it is, http(s); either this or `data`.
        name: A file name for people.
        note: What was contradictory about its media type; not compared, not sent.

    Raises:
        ContentPartError: Unknown type, a field the type does not have, not exactly one of data and url, data that is no
            base64, or a url that is not http(s) or holds a name and password.

    Since 0.1.
    """

    type: str
    text: str | None = None
    mimeType: str | None = None
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    name: str | None = None
    note: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check that the fields make one part."""
        for key in _KEYS:
            value: object = getattr(self, key)
            if is_a(value, str):
                object.__setattr__(self, key, clean(value))
            elif value is not None:
                raise ContentPartError(f"the field {key!r} of a part must be str, not {kind_of(value)}.")
        if not self.type:
            raise ContentPartError("a part needs a type. Use text, image, file or audio.")
        if self.type == "text":
            if self.text is None:
                raise ContentPartError("a text part needs text, a str.")
        elif self.type not in MEDIA_KINDS:
            raise ContentPartError(f"unknown part type {_shown(self.type)}. Use text, image, file or audio.")
        foreign = next((k for k in _KEYS if k not in _keys_of(self.type) and getattr(self, k) is not None), None)
        if foreign:
            raise ContentPartError(
                f"{_a(self.type)} part has no {foreign}. Its fields are {', '.join(_keys_of(self.type))}."
            )
        if self.type == "text":
            return
        _check_one_line("mimeType", self.mimeType)
        _check_one_line("url", self.url)
        if not self.mimeType:
            raise ContentPartError(f"{_a(self.type)} part needs a mimeType, for example mimeType='image/png'.")
        if (self.data is None) == (self.url is None):
            found = "neither data nor url" if self.data is None else "both data and url"
            raise ContentPartError(f"{_a(self.type)} part has {found}. Give exactly one of them.")
        if self.data is not None and not _is_base64(self.data):
            raise ContentPartError(_NO_BASE64)
        if self.url is not None and (fault := url_fault(self.url)):
            raise ContentPartError(f"the url of {_a(self.type)} part {fault}. Read anything else into data.")


_KEYS = ("type", "text", "mimeType", "data", "url", "name")


def _keys_of(kind: str) -> tuple[str, ...]:
    return ("type", "text") if kind == "text" else ("type", "mimeType", "data", "url", "name")


def _shown(text: str) -> str:
    """A text for an error, unless it could be data that came to the wrong place."""
    return repr(text) if len(text) <= 200 else f"of {len(text)} characters"


_WEB = re.compile(r"https?://([^/\\?#\s]+)", re.IGNORECASE)  # a browser takes a backslash for a slash
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NO_BASE64 = "the data of the part is no standard padded base64. Use base64.b64encode."


def _is_base64(data: str) -> bool:
    """Whether a text is standard padded base64, told without decoding it: a part may hold megabytes."""
    if len(data) % 4 or not data.isascii():
        return False
    rest = data.encode("ascii").translate(None, _ALPHABET)
    return rest in (b"", b"=", b"==") and data.endswith(rest.decode("ascii"))


def url_fault(url: str) -> str | None:
    """What is wrong with a URL that a person will click or a provider will read; None when nothing is.

    Args:
        url: Any text.

    Returns:
        The end of a sentence about it, which does not quote it.

    Since 0.1.
    """
    found = _WEB.match(url)
    if found is None:
        return "must be http(s) with a host"
    if not url.isprintable():
        return "must not hold a line break or another control character"
    return "must not hold a user or password" if "@" in found[1] else None


def _check_one_line(what: str, text: str | None) -> None:
    """Refuse what would break out of the header or line that it is written into."""
    if text is not None and not text.isprintable():
        raise ContentPartError(f"the {what} of the part holds a line break or another control character. Remove it.")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


# -- construction -----------------------------------------------------------------------------------------------


def text(value: str) -> Part:
    """A text part.

    Args:
        value: The text.

    Raises:
        ContentPartError: It is no text.

    Since 0.1.
    """
    return Part("text", text=value)


def image(
    source: PartSource, *, mime_type: str | None = None, name: str | None = None, max_part_bytes: int | None = None
) -> Part:
    """An image part.

    Args:
        source: A path, bytes, a binary file object (read whole, not closed), a `data:` URL or an http(s) URL. All but
            an http URL is read at once.
        mime_type: The media type, where the bytes do not tell; bytes that do tell win.
        name: A file name for people; default the base name of the path or URL.
        max_part_bytes: Most bytes to take; default no limit.

    Raises:
        ContentPartError: The source cannot be read, is too large, or is recognisably no image.

    Since 0.1.
    """
    return _build("image", source, mime_type, name, max_part_bytes)


def file(
    source: PartSource, *, mime_type: str | None = None, name: str | None = None, max_part_bytes: int | None = None
) -> Part:
    """A file part: a document or any other bytes.

    Args:
        source: As for `image`.
        mime_type: As for `image`; default `application/octet-stream` where nothing tells.
        name: A file name for people; default the base name of the path or URL.
        max_part_bytes: Most bytes to take; default no limit.

    Raises:
        ContentPartError: The source cannot be read or is too large.

    Since 0.1.
    """
    return _build("file", source, mime_type, name, max_part_bytes)


def audio(
    source: PartSource, *, mime_type: str | None = None, name: str | None = None, max_part_bytes: int | None = None
) -> Part:
    """An audio part.

    Args:
        source: As for `image`.
        mime_type: As for `image`.
        name: A file name for people; default the base name of the path or URL.
        max_part_bytes: Most bytes to take; default no limit.

    Raises:
        ContentPartError: The source cannot be read, is too large, or is recognisably no audio.

    Since 0.1.
    """
    return _build("audio", source, mime_type, name, max_part_bytes)


def _build(kind: str, source: Any, mime_type: str | None, name: str | None, limit: int | None) -> Part:
    for what, value, wanted in (("mime_type", mime_type, str), ("name", name, str), ("max_part_bytes", limit, int)):
        if value is not None and not is_a(value, wanted):
            given = kind_of(value)
            raise ContentPartError(f"{what} of {_a(kind)} part must be {wanted.__name__}, not {given}. Correct it.")
    _check_one_line("mime_type", mime_type)
    if is_a(source, os.PathLike):
        path = _path_text(cast("os.PathLike[str]", source))
        return _from_bytes(kind, _read_path(path, limit), mime_type, name, path, limit)
    if is_a(source, str):
        scheme = source[:8].lower()
        if scheme.startswith(("http://", "https://")):
            return _from_url(kind, source, mime_type, name)
        if scheme.startswith("data:"):
            raw, declared = _read_data_url(source)
            return _from_bytes(kind, raw, mime_type or declared, name, None, limit)
        return _from_bytes(kind, _read_path(source, limit), mime_type, name, source, limit)
    if is_a(source, _BYTES):
        return _from_bytes(kind, bytes(source), mime_type, name, None, limit)
    if _can_read(source):
        raw, handle = _read_file(source, limit)
        return _from_bytes(kind, raw, mime_type, name, handle, limit)
    raise ContentPartError(
        f"{_a(kind)} part cannot be read from {kind_of(source)}. Give a path, bytes, a binary file or a URL."
    )


def _path_text(source: os.PathLike[str]) -> str:
    try:
        return os.fsdecode(source)
    except Exception as error:  # its __fspath__ may raise, or give anything
        raise ContentPartError(f"the path of the part cannot be read: {kind_of(error)}. Give it as str.") from error


def _can_read(source: object) -> bool:
    try:
        return callable(getattr(source, "read", None))
    except Exception:  # attributes of others may be properties
        return False


def _from_url(kind: str, url: str, mime_type: str | None, name: str | None) -> Part:
    from urllib.parse import unquote, urlsplit  # dear to load

    try:
        base = unquote(os.path.basename(urlsplit(url).path))
    except ValueError:
        raise ContentPartError(f"the URL of the {kind} part cannot be read. Check its host.") from None
    mime = bare(mime_type) or mime_of_name(base)
    if mime is None and kind != "file":
        raise ContentPartError(f"the URL of the {kind} part does not tell its type. Give mime_type=.")
    return Part(kind, mimeType=settle(kind, None, mime), url=url, name=name or base or None)


def _from_bytes(kind: str, raw: bytes, mime: str | None, name: str | None, path: str | None, limit: int | None) -> Part:
    if limit is not None and len(raw) > limit:
        raise ContentPartError(f"the {kind} part has more than {limit} bytes. Shrink it or raise the limit.")
    base = os.path.basename(path) if path else None
    seen, declared = sniff(raw), bare(mime) or (mime_of_name(base) if base else None)
    found = settle(kind, seen, declared)
    note = None
    if seen and declared and declared != found:
        note = f"declared {declared}, bytes are {found}"
    part = Part(kind, mimeType=found, data="", name=name or base or None, note=note)
    object.__setattr__(part, "data", base64.b64encode(raw).decode("ascii"))  # ours, and too long to be looked at again
    return part


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # else a pipe that nobody writes to holds us for ever


def _read_path(path: str, limit: int | None) -> bytes:
    if not path:
        raise ContentPartError("the path of the part is empty. Give a path, bytes or a URL.")
    scheme, is_url, _ = path[:20].partition("://")
    if is_url and scheme.isalnum():  # its rest may hold a password
        raise ContentPartError(f"a part cannot be read from {scheme}://. Give an http(s) URL, a path or the bytes.")
    shown = _shown(path) if len(path) <= 200 else f"a path {_shown(path)}"
    try:
        with open(path, "rb", opener=_without_waiting) as handle:
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                raise ContentPartError(f"{shown} is no regular file. Open it yourself and give the file object.")
            return handle.read() if limit is None else handle.read(limit + 1)
    except ContentPartError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else kind_of(error)
        cause = error if len(path) <= 200 else None  # its text repeats the path
        raise ContentPartError(f"cannot read the part from {shown}: {reason}. Check the path.") from cause


def _read_file(handle: Any, limit: int | None) -> tuple[bytes, str | None]:
    is_text = is_a(handle, io.TextIOBase)
    try:
        raw = b"" if is_text else handle.read() if limit is None else _read_beyond(handle, limit)
        name = getattr(handle, "name", None)
    except Exception as error:  # file objects of others raise what they like, a broken archive EOFError
        raise ContentPartError(f"cannot read the part from the file object: {kind_of(error)}.") from error
    if is_text or not is_a(raw, _BYTES):
        given = "text" if is_text else kind_of(raw)
        raise ContentPartError(f"the file object gives {given}, not bytes. Open it in binary mode, 'rb'.")
    if not raw and _has_been_read(handle):
        raise ContentPartError("the file object is at its end. Seek it to 0 before.")
    return bytes(raw), name if is_a(name, str) else None


def _read_beyond(handle: Any, limit: int) -> Any:
    """A file object to its end or just beyond the limit: a device or a pipe may have no end."""
    pieces = bytearray()
    while len(pieces) <= limit:
        piece = handle.read(limit + 1 - len(pieces))  # a pipe gives what it has, not all that is asked for
        if not is_a(piece, _BYTES):
            return piece
        if not len(piece):
            break
        pieces += piece
    return pieces


def _has_been_read(handle: Any) -> bool:
    try:
        return handle.tell() > 0
    except Exception:  # a pipe knows no places, and others need not
        return False


def _read_data_url(url: str) -> tuple[bytes, str | None]:
    from urllib.parse import unquote_to_bytes

    head, comma, body = url[5:].partition(",")
    if not comma:
        raise ContentPartError("the data: URL has no comma. Its form is data:TYPE;base64,DATA.")
    _check_one_line("media type", head)
    mime = head.split(";")[0].strip().lower() or None
    if head.rpartition(";")[2].strip().lower() == "base64":
        return _decode(unquote_to_bytes(body)), mime
    return unquote_to_bytes(body), mime or "text/plain"


def _decode(data: str | bytes) -> bytes:
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        raise ContentPartError(_NO_BASE64) from None


# -- dict form and description ----------------------------------------------------------------------------------


def part(**given: Any) -> Part:
    """A checked part from its fields.

    Args:
        given: The fields of `Part`: type, text, mimeType, data, url, name.

    Raises:
        ContentPartError: A field that parts do not have, or fields that make no part; data that is no base64.

    Since 0.1.
    """
    return from_dict(given)


_MEND = "Use text(), image(), file() or audio(), or a dict that to_dict() made."


def _part_of(value: object) -> Part:
    return value if is_a(value, Part) else from_dict(cast("Any", value))


def to_dict(value: Part | Mapping[str, Any]) -> dict[str, Any]:
    """The canonical dict of a part: only the fields it has.

    Args:
        value: A part, or a dict that describes one.

    Raises:
        ContentPartError: The dict describes no part.

    Since 0.1.
    """
    made = _part_of(value)
    return {k: v for k in _keys_of(made.type) if (v := getattr(made, k)) is not None}


def from_dict(value: Mapping[str, Any]) -> Part:
    """The part that a canonical dict describes.

    Args:
        value: A dict as `to_dict` makes it.

    Raises:
        ContentPartError: It is no dict, describes no part, or its data is no base64.

    Since 0.1.
    """
    if not is_a(value, Mapping):
        raise ContentPartError(f"{kind_of(value)} is no part. {_MEND}")
    try:
        fields, foreign = known_fields(value, _KEYS)
    except Exception as error:  # the mapping's own code
        raise ContentPartError(f"the dict of a part cannot be read: {kind_of(error)}. {_MEND}") from error
    if foreign is not None:
        raise ContentPartError(f"a part has no field {_shown(foreign)}. Its fields are {', '.join(_KEYS)}.")
    return Part(**{"type": "", **fields})


def known_fields(value: Mapping[Any, Any], known: Collection[str]) -> tuple[dict[str, Any], str | None]:
    """The fields of a wire value that a mapping has, and the text of a key that is none of them.

    Keys count as exact text, whatever their class says of their equality.

    Args:
        value: Any mapping; its own code may raise.
        known: Names of the fields.

    Since 0.1.
    """
    some = islice(value, len(known) + 1)  # one more cannot be a field, and a mapping of others may be endless
    named = [(key, str.__str__(key) if is_a(key, str) else "") for key in some]
    foreign = next((str(key) for key, name in named if name not in known), None)
    return {name: value[key] for key, name in named if name in known}, foreign


def is_part_dict(value: object) -> bool:
    """Whether a value is a dict that describes a part.

    Args:
        value: Anything.

    Since 0.1.
    """
    try:
        from_dict(cast("Any", value))
    except ContentPartError:
        return False
    return True


def normalize_parts(values: Iterable[Part | Mapping[str, Any] | str]) -> list[dict[str, Any]]:
    """Canonical dicts of parts, dicts and plain text, in order.

    Args:
        values: Parts, part dicts or str.

    Raises:
        ContentPartError: `values` is no list; or naming the first that is no part, by its place from 0.

    Since 0.1.
    """
    if is_a(values, (str, Part, Mapping, *_BYTES)) or not is_a(values, Iterable):
        raise ContentPartError(
            f"parts must be a list of parts, not {kind_of(cast('object', values))}. Put it into a list."
        )
    found: list[dict[str, Any]] = []
    for i, value in enumerate(values):
        try:
            found.append(to_dict(text(value) if is_a(value, str) else value))
        except ContentPartError as error:
            raise ContentPartError(f"part {i}: {error}") from None
    return found


def decoded_len(data: str | None) -> int:
    """Number of bytes that padded base64 text holds.

    Args:
        data: The text; None counts as empty.

    Raises:
        ContentPartError: It is no text.

    Since 0.1.
    """
    if data is not None and not is_a(data, str):
        raise ContentPartError(f"the data of a part must be base64 text, not {kind_of(data)}. Use file() for bytes.")
    return len(data) // 4 * 3 - data[-2:].count("=") if data else 0


def describe_part(value: Part | Mapping[str, Any]) -> str:
    """One line about a part: `image (image/png, 82 bytes)`; never its data.

    Args:
        value: A part or part dict.

    Raises:
        ContentPartError: The dict describes no part.

    Since 0.1.
    """
    made = _part_of(value)
    if made.type == "text":
        return f"text ({len(made.text or '')} characters)"
    size = "by URL" if made.data is None else f"{decoded_len(made.data)} bytes"
    return f"{made.type} ({made.mimeType}, {size})"


def placeholder_text(value: Part | Mapping[str, Any]) -> str:
    """What stands for a part that a provider cannot carry: `[unsupported image part (image/png, 82 bytes)]`.

    Args:
        value: A part or part dict.

    Raises:
        ContentPartError: The dict describes no part.

    Since 0.1.
    """
    kind, _, rest = describe_part(value).partition(" ")
    return f"[unsupported {kind} part {rest}]"


def _without_data(value: Part) -> dict[str, Any]:
    """What events, models and HTTP clients read of a part inside a value: its size in place of its data."""
    shown = to_dict(value)
    data = shown.pop("data", None)
    return shown if data is None else {**shown, "size": decoded_len(data)}


register(Part, Codec("$part", _without_data, to_dict, from_dict))
