"""How each kind of part travels to each API: in its place, after the tool messages, or as a line of text.

One table decides, for parts of the caller and for parts of tool results. What
differs between models of one API is a flag of `Capabilities`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from ferrule.content import Part
from ferrule.media import bare
from ferrule.provider.base import Capabilities

Way = Literal["native", "relocated", "placeholder"]
Place = Literal["user", "tool"]


class Carry(NamedTuple):
    """How a part travels.

    Args:
        way: `native` in its place, `relocated` to a user turn after the tool messages, or a `placeholder` text.
        download: Whether its URL must be read first, because the provider would not.

    Since 0.1.
    """

    way: Way
    download: bool = False


_COLUMNS = ("image data", "image url", "pdf data", "pdf url", "audio data", "audio url")

# N native, R relocated, P placeholder; D: its URL is downloaded first; A: only for models that hear, else P.
_ROWS: dict[tuple[str, Place], str] = {
    ("openai-chat", "user"): "N N N DN NA DNA",
    ("openai-chat", "tool"): "R R R DR RA DRA",
    ("openai-responses", "user"): "N N N N P P",
    ("openai-responses", "tool"): "N N N N P P",
    ("anthropic", "user"): "N N N N P P",
    ("anthropic", "tool"): "N N N N P P",
    ("gemini", "user"): "N DN N DN N DN",
    ("gemini", "tool"): "N DN N DN R DR",
    ("groq", "user"): "N N P P P P",
    ("groq", "tool"): "R R P P P P",
    ("mistral", "user"): "N N N N P P",
    ("mistral", "tool"): "R R R R P P",
    ("openrouter", "user"): "N N N N NA DNA",
    ("openrouter", "tool"): "R R R R RA DRA",
    ("ollama", "user"): "N DN P P P P",
    ("ollama", "tool"): "R DR P P P P",
    ("vllm", "user"): "N N P P NA P",
    ("vllm", "tool"): "R R P P RA P",
}
APIS = tuple(dict.fromkeys(api for api, _ in _ROWS))
_CELLS = {(*row, column): cell for row in _ROWS for column, cell in zip(_COLUMNS, _ROWS[row].split(), strict=True)}
_TEXTS = ("text/", "application/json", "application/xml", "application/yaml")
_WAYS: dict[str, Way] = {"N": "native", "R": "relocated", "P": "placeholder"}
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SOUNDS = frozenset({"audio/wav", "audio/mpeg", "audio/mp3"})
_TYPES: dict[str, frozenset[str]] = {  # media types an API names; all others of the kind become placeholders
    **{f"{api} image": _IMAGES for api in APIS if api != "gemini"},
    **{f"{api} audio": _SOUNDS for api in APIS if api != "gemini"},
}
_OWN_URLS = {"gemini": "https://generativelanguage.googleapis.com/"}  # its Files API: the one address it reads itself


def carry(
    api: str, part: Part | Mapping[str, Any], place: Place, capabilities: Capabilities, *, download: bool = False
) -> Carry:
    """How a media part travels.

    Args:
        api: Name of the API, for example `anthropic`.
        part: A part that is no text, or its dict.
        place: Whether it stands in a user's message or a tool's result.
        capabilities: What the model takes.
        download: Whether a URL is read first in any case.

    Since 0.1.
    """
    read: Any = part.get if isinstance(part, Mapping) else lambda key: getattr(part, key)  # pyright: ignore
    kind, mime = read("type"), bare(read("mimeType"))
    column = "pdf" if kind == "file" and mime == "application/pdf" else kind
    source = "data" if read("data") is not None else "url"
    if read("data") == "":
        return Carry("placeholder")  # every API refuses a part of no bytes, and with it the whole request
    if kind == "file" and mime.startswith(_TEXTS) and api == "anthropic" and source == "data":
        # a document block of plain text
        return Carry("native" if place == "user" or capabilities.tool_media else "relocated")
    cell = _CELLS.get((api, place, f"{column} {source}"), "P")
    types = _TYPES.get(f"{api} {kind}")
    heard = capabilities.audio or not cell.endswith("A")
    taken = {"image": capabilities.images, "pdf": capabilities.pdf}.get(column, heard)
    if not taken or (types is not None and mime not in types):
        return Carry("placeholder")
    way = _WAYS[cell.lstrip("D")[0]]
    if place == "tool" and way == "native" and not capabilities.tool_media:
        way = "relocated"
    own = source == "url" and api in _OWN_URLS and read("url").startswith(_OWN_URLS[api])
    return Carry(way, (download or cell.startswith("D")) and source == "url" and way != "placeholder" and not own)
