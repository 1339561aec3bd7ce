"""How long a server asks to wait, in every form that headers have for it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import email.utils as email_utils
else:
    from ferrule.lazy import LazyModule

    email_utils = LazyModule("email.utils")


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait before the next attempt, as a failed response says.

    A date is counted from the response's own date where it has one, so a wrong
    clock here does no harm.

    Args:
        headers: The response headers, in lower case.
        now: Seconds since the epoch, where the response has no date; default the clock.

    Returns:
        At least 0; None where nothing can be read. It may be longer than anybody would wait.

    Since 0.1.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds / unit
    until = _date(headers.get("retry-after", ""))
    if until is None:
        return None
    since = _date(headers.get("date", ""))
    return max(0.0, until - (since if since is not None else time.time() if now is None else now))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _date(text: str) -> float | None:
    try:
        found = email_utils.parsedate_to_datetime(text)
        # A form of HTTP without a zone means UTC too.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
