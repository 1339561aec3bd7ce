"""Names of tools on the wire: one pattern that every provider takes."""

from __future__ import annotations

import re

MAX_LENGTH = 64
_WIRE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


def wire_name(name: str) -> str:
    """The name a provider sees: itself where it fits, else a readable part and a hash of the whole.

    Deterministic and equal in every process, so a stored call finds its tool
    again after a restart.

    Args:
        name: Any non-empty name.

    Returns:
        A name that matches `[A-Za-z_][A-Za-z0-9_-]{0,63}`.

    Since 0.1.
    """
    if _WIRE.fullmatch(name):
        return name
    from hashlib import sha256  # loads a crypto library: only odd names pay for it

    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = _OTHER.sub("_", name).strip("_") or "tool"
    if not (readable[0].isalpha() or readable[0] == "_"):
        readable = "_" + readable
    return f"{readable[: MAX_LENGTH - 9]}_{digest}"
