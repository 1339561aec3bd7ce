"""What a request carries that nobody may read: the key, and headers that hold a credential."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ferrule.redact import MASK

SHORT: Final = 8  # what is shorter is no secret, and a word that errors need: `ollama`, `none`
_NAMES: Final = re.compile(r"auth(?!or(?!iz))|key|token|secret|cookie|passw|credential|signature")
_BETWEEN: Final = re.compile(r"(?:\A|[\s;,]+)(?:[\w.-]+=(?=[^=\s;,]))?")  # schemes, cookies and their names
_WORDS: Final = re.compile(r"[A-Za-z]{1,20}(?:[-_.][A-Za-z]{1,20})*")  # `service-account`, which an answer may hold
_ESCAPED: Final = re.compile(rb"\\(?:u00[2-7]|/)")  # a character of a secret that could stand there unescaped
_MASK: Final = MASK.encode()


def secrets_in(headers: Mapping[str, str]) -> tuple[bytes, ...]:
    """What of headers is a credential, by their names; words are none.

    Args:
        headers: Headers of the caller's, with names in small letters.

    Since 0.1.
    """
    values = [value for name, value in headers.items() if _NAMES.search(name)]
    pieces = [piece for value in values for piece in _BETWEEN.split(value)]
    return tuple(piece.encode() for piece in pieces if len(piece) >= SHORT and not _WORDS.fullmatch(piece))


def without(secrets: Sequence[bytes], raw: bytes) -> bytes:
    """Bytes of the server without secrets, which some say back.

    Before anything is read of them or cut, for half a key is a secret too; and
    however JSON may write it, for reading brings it to light again.

    Args:
        secrets: What to take out.
        raw: A body, or an event of a stream.

    Since 0.1.
    """
    for secret in secrets:
        raw = raw.replace(secret, _MASK)
        if b"\\" in raw and (_ESCAPED.search(raw) or b'"' in secret or b"\\" in secret):
            raw = _spelt(secret).sub(_MASK, raw)
    return raw


def _spelt(secret: bytes) -> re.Pattern[bytes]:
    """A secret with any of its characters escaped, also more than once: errors quote errors."""
    return re.compile(b"".join(rb"\\{0,9}(?:%b|(?i:u00%02x))" % (re.escape(bytes((b,))), b) for b in secret))
