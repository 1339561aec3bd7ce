"""Content parts under their toolnexus names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ferrule.content
from ferrule.content import (
    Part as ContentPart,
)
from ferrule.content import (
    audio,
    decoded_len,
    describe_part,
    file,
    from_dict,
    image,
    is_part_dict,
    normalize_parts,
    part,
    text,
    to_dict,
)
from ferrule.errors import ContentPartError, UnsupportedPartError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ContentPart",
    "ContentPartError",
    "UnsupportedPartError",
    "audio",
    "decoded_len",
    "describe_part",
    "file",
    "from_dict",
    "image",
    "is_part_dict",
    "normalize_parts",
    "part",
    "placeholder_text",
    "text",
    "to_dict",
]


def placeholder_text(value: ContentPart | Mapping[str, Any], style: str | None = None) -> str:
    """What stands for a part that a provider cannot carry.

    Args:
        value: A part or part dict.
        style: Name of the provider's message style; the text is the same for all.
    """
    return ferrule.content.placeholder_text(value)
