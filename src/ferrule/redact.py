"""Take credentials out of text that is about to leave a tool.

Error messages of HTTP clients quote whole URLs, keys included. `scrub` removes
what looks like a credential by its place: the value of a key-like query
parameter, the password of a URL, the token of an authorization header.
"""

from __future__ import annotations

import re

MASK = "[redacted]"

_NAME = (
    r"(?:[\w.-]*(?:api[_-]?key|apikey|access[_-]?key|secret|token|passw(?:or)?d|passwd|pwd|signature|credential)[\w.-]*"
    r"|key|auth|sig|code)"
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # ?key=… and &token=… of a URL, up to the next separator
    (re.compile(rf"([?&;]{_NAME}=)[^&\s#'\"<>]+", re.IGNORECASE), rf"\1{MASK}"),
    # scheme://user:password@host
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE), rf"\1{MASK}"),
    # Authorization: Bearer …, Basic …
    (re.compile(r"\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE), rf"\1{MASK}"),
    # X-Api-Key: …, "api_key": "…", password=…
    (
        re.compile(
            r"\b((?:x-)?(?:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret|secret|password|passwd)['\"]?"
            r"\s*[:=]\s*['\"]?)[^\s'\",;&)]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
)


def scrub(text: str) -> str:
    """Replace what looks like a credential by `[redacted]`.

    Args:
        text: Any text, for example the message of an exception.

    Returns:
        The text with each credential replaced; the rest unchanged.

    Since 0.1.
    """
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
