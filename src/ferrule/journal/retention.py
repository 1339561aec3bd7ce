"""How long runs that are over are kept: by age and by the size of the store, and their large bytes by another age."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ferrule.errors import ConfigurationError, StoreError, UsageError
from ferrule.lazy import LazyModule
from ferrule.strict_json import dumps, parse

if TYPE_CHECKING:
    import asyncio
    import logging
    from pathlib import Path

    from ferrule.journal.store import Store
else:
    asyncio = LazyModule("asyncio")
    logging = LazyModule("logging")

EVERY: Final = 3_600.0  # seconds between two looks of a worker
_AT_ONCE: Final = 100  # runs of one transaction, so that nobody who writes waits for long
_SPANS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_GONE: Final = re.compile(r"\[[0-9,]+ bytes with SHA-256 [0-9a-f]{64}, no longer kept\]")
_SIZES: Final = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Retention(NamedTuple):
    """What is kept of runs that are over. One that goes on, waits or is blocked is always kept, and all around it.

    Args:
        older_than: Seconds since its end after which a run is removed.
        keep_size: Bytes that the store may have; beyond them the runs that ended first are removed.
        blobs_older_than: Seconds since its end after which the large bytes of a run are removed; its records keep
            their digest, size and description.

    Since 0.1.
    """

    older_than: float | None = None
    keep_size: int | None = None
    blobs_older_than: float | None = None


class Swept(NamedTuple):
    """What was removed.

    Args:
        runs: How many runs.
        blobs: How many blobs of runs that are still there.

    Since 0.1.
    """

    runs: int = 0
    blobs: int = 0


def read_span(text: str) -> float:
    """A span of time as people write it: `90s`, `10min`, `12h`, `30d`, `4w`.

    Args:
        text: The span.

    Returns:
        Seconds.

    Raises:
        UsageError: It is none.

    Since 0.1.
    """
    return _amount(text, _SPANS, "a span of time", "30d")


def read_size(text: str) -> int:
    """A size as people write it: `500MB`, `2GB`; a kilobyte has 1,000 bytes.

    Args:
        text: The size.

    Returns:
        Bytes.

    Raises:
        UsageError: It is none.

    Since 0.1.
    """
    return int(_amount(text, _SIZES, "a size", "2GB"))


def _amount(text: str, units: Mapping[str, int], what: str, example: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)", text)
    unit = None if found is None else next((n for u, n in units.items() if u.lower() == found[2].lower()), None)
    if found is None or unit is None:
        raise UsageError(f"{text[:50]!r} is not {what}. Write for example {example!r}; units are {', '.join(units)}.")
    return float(found[1]) * unit


def read_retention(file: Path, told: Mapping[str, Any]) -> Retention | None:
    """What a project's file says of it in its table `retention`; None without one.

    Args:
        file: The file, for errors.
        told: All that it says.

    Raises:
        ConfigurationError: It says what cannot be.

    Since 0.1.
    """
    given: Any = told.get("retention", {})
    read = {"older_than": read_span, "keep_size": read_size, "blobs_older_than": read_span}
    found: dict[str, Any] = {}
    for key, text in cast("dict[str, Any]", given).items() if isinstance(given, dict) else [("", given)]:
        if key not in read or not isinstance(text, str):
            said = f'[retention] has {", ".join(read)}, each a text. Write for example older_than = "90d" below it.'
            raise ConfigurationError(f"{file}: {said}")
        try:
            found[key] = read[key](text)
        except UsageError as error:
            raise ConfigurationError(f"{file}: {key} of [retention]: {error}") from error
    return Retention(**found) if found else None


async def sweep(store: Store, retention: Retention, now: float | None = None) -> Swept:
    """Remove what need not be kept any more.

    Args:
        store: The store, open.
        retention: What is kept.
        now: Seconds since 1970; default the time.

    Raises:
        StoreError: The store cannot be written.

    Since 0.1.
    """
    now = time.time() if now is None else now
    runs = blobs = 0
    if retention.older_than is not None:
        old = await store.over(now - retention.older_than)
        for at in range(0, len(old), _AT_ONCE):
            runs += await store.remove(old[at : at + _AT_ONCE])
    if retention.keep_size is not None:
        runs += await _fit(store, retention.keep_size)
    if retention.blobs_older_than is not None:
        blobs = await store.remove_blobs(now - retention.blobs_older_than)
    return Swept(runs, blobs)


async def _fit(store: Store, limit: int) -> int:
    """Remove the runs that ended first until the store fits."""
    removed, at, old = 0, 0, None
    while (excess := await store.size() - limit) > 0:
        old = await store.over() if old is None else old
        some = old[at : at + _AT_ONCE]
        if not some:
            break
        weights = await store.weigh(some)
        much = 0
        for n, run_id in enumerate(some, 1):
            much += weights[run_id]
            if much >= excess:
                some = some[:n]
                break
        removed += await store.remove(some)
        at += len(some)
    return removed


async def keep_to(store: Store, retention: Retention, every: float = EVERY) -> None:
    """Sweep a store at once, and then again and again, until cancelled.

    Args:
        store: The store, open.
        retention: What is kept.
        every: Seconds between two sweeps.

    Since 0.1.
    """
    while True:
        try:
            swept = await sweep(store, retention)
            if any(swept):
                told = "retention removed %d runs, and %d blobs of others"
                logging.getLogger("ferrule.retention").info(told, *swept)
        except StoreError as error:
            logging.getLogger("ferrule.retention").warning("what is too old could not be removed: %s", error)
        await asyncio.sleep(every)


# -- what is left of bytes that are gone ------------------------------------------------------------------------


def described(body: bytes, gone: Collection[str]) -> bytes:
    """A record whose large bytes are gone, with a text in the place of each that says what was there.

    Args:
        body: The record's facts as they are stored.
        gone: SHA-256 of the bytes that are gone.

    Since 0.1.
    """
    return dumps(_described(parse(body), gone))


def is_described(text: str) -> bool:
    """Whether a text stands in the place of bytes that are gone.

    Args:
        text: Any text.

    Since 0.1.
    """
    return _GONE.fullmatch(text) is not None


def _described(value: Any, gone: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_described(item, gone) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if "mimeType" in fields and (lost := _lost(fields.get("data"), gone)):  # a part becomes one of text
        named = " ".join(fields[key] for key in ("type", "mimeType", "name") if fields.get(key))
        return {"type": "text", "text": f"[{named}: {lost}]"}
    if lost := _lost(fields, gone):
        return f"[{lost}]"
    return {key: _described(item, gone) for key, item in fields.items()}


def _lost(value: Any, gone: Collection[str]) -> str:
    blob = cast("dict[str, Any]", value).get("$blob") if isinstance(value, dict) else None
    if blob is None or blob["ref"] not in gone:
        return ""
    return f"{blob['size']:,} bytes with SHA-256 {blob['ref']}, no longer kept"
