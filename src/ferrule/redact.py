"""Take credentials out of text that is about to leave a tool.

Error messages of HTTP clients quote whole URLs, keys included. `scrub` removes
what looks like a credential by its place (the value of a key-like query
parameter, the password of a URL, the token of an authorization header) or by
its shape (the tokens of well-known services).
"""

from __future__ import annotations

import re
from functools import lru_cache

MASK = "[redacted]"

# Every repetition before a fixed mark is bounded: the time stays linear on hostile text.
_WORD = r"(?:api[_-]?key|access[_-]?key|account[_-]?key|secret|token|passw(?:or)?d|pwd|signature|credential)"
_NAME = rf"(?:[\w.-]{{0,40}}{_WORD}[\w.-]{{0,40}}|key|auth|sig|code)"
_PATTERNS = (
    # ?key=… and &token=… of a URL, up to the next separator
    rf"(?P<kept>[?&;#]{_NAME}=)[^&;\s#'\"<>]+",
    # scheme://user:password@host; a password may hold an @ itself
    r"(?P<kept>\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,200}:)[^\s/]{1,1000}(?=@)",
    # Authorization: Bearer …, Basic …
    r"(?P<kept>\b(?:bearer|basic)\s{1,5})[A-Za-z0-9._~+/=-]{6,}",
    # Authorization: Token …, Digest …; Cookie: …
    r"(?P<kept>\b(?:authorization|(?:set-)?cookie)['\"]?\s{0,5}[:=](?![\s'\"]{0,6}(?:bearer|basic)\b)\s{0,5}['\"]?)"
    r"[^\s'\"][^'\"\r\n]*",
    # X-Api-Key: …, "api_key": "…"
    r"(?P<kept>(?:api[_-]?key|(?:access|auth|refresh|session)[_-]?token|secret|passw(?:or)?d)['\"]?\s{0,5}[:=]\s{0,5}['\"]?)"
    r"[^\s'\",;&)]+",
    # token=…, "token": "…"; a bare `token:` is prose of a parser
    r"(?P<kept>(?:token|pwd|account[_-]?key|access[_-]?key)(?:['\"]?\s{0,5}=\s{0,5}['\"]?|['\"]\s{0,5}:\s{0,5}['\"]))"
    r"[^\s'\",;&)]+",
    # sk-…, ghp_…, xoxb-…, AKIA…, a JSON web token
    r"(?P<kept>)(?<![A-Za-z0-9])(?:(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abeprs])[_-][A-Za-z0-9_-]{16,}"
    r"|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
)


@lru_cache(maxsize=1)
def _compiled() -> tuple[re.Pattern[str], ...]:
    # On first use: compiling costs as much as importing a module, and most programs start without an error.
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in _PATTERNS)


def scrub(text: str) -> str:
    """Replace what looks like a credential by `[redacted]`.

    Args:
        text: Any text, for example the message of an exception.

    Returns:
        The text with each credential replaced; the rest unchanged.

    Since 0.1.
    """
    for pattern in _compiled():
        text = pattern.sub(rf"\g<kept>{MASK}", text)
    return text
