"""The store of durable runs: where it is, how runs are found in it, and whether somebody acts on what is left there."""

from __future__ import annotations

import datetime as dt
import getpass
import os
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ferrule.app import App
from ferrule.cli.session import Session
from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.project import default_store, stored

if TYPE_CHECKING:
    from ferrule.journal import sqlite
    from ferrule.journal.store import Entry, Store
    from ferrule.runtime import worker
else:
    sqlite = LazyModule("ferrule.journal.sqlite")
    worker = LazyModule("ferrule.runtime.worker")

MANY: Final = 100_000
_LATEST: Final = 1_000
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (0, "s"))


def durable_app(session: Session, app: App) -> App:
    """The app, its runs kept where the command line, the app itself or the project says.

    Args:
        session: The command line.
        app: The app.

    Since 0.1.
    """
    if session.store is None and app.is_durable:
        return app
    return stored(app, session.store or default_store(Path.cwd(), target=session.target))


def find_store(session: Session) -> Store:
    """The store that a command looks at; one that is not there yet holds no runs, and is not made by looking.

    Args:
        session: The command line. With `--store` the project is not loaded.

    Raises:
        UsageError: `--store` names a file that is not there.

    Since 0.1.
    """
    if session.store is not None:
        if not Path(session.store).is_file():
            raise UsageError(f"--store names {session.store!r}, and there is no such file. A durable run makes it.")
        return sqlite.SqliteStore(session.store)
    app = session.load()
    store = durable_app(session, app).store
    path = getattr(store, "path", None)
    return sqlite.MemoryStore() if isinstance(path, Path) and not path.exists() else store


def filled_store(session: Session) -> Store:
    """The store that a command puts something into; made if it is not there yet.

    Args:
        session: The command line. With `--store` the project is not loaded.

    Since 0.1.
    """
    store = sqlite.SqliteStore(session.store) if session.store else durable_app(session, session.load()).store
    path = getattr(store, "path", None)
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return store


@asynccontextmanager
async def opened(store: Store) -> AsyncGenerator[Store]:
    """The store, open while the block lasts.

    Args:
        store: The store.

    Raises:
        StoreError: It cannot be used.

    Since 0.1.
    """
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def find_run(store: Store, given: str) -> Entry:
    """A run by its id, by a beginning that only one id has, or as `@last` or `@failed`.

    Args:
        store: The store, open.
        given: What was typed.

    Raises:
        UsageError: There is none, or there are several.

    Since 0.1.
    """
    found: list[Entry] = []
    if given in ("@last", "@failed"):
        found = await store.entries(state="failed" if given == "@failed" else None, limit=1)
    elif (entry := await store.entry(given)) is not None:
        return entry
    elif given:
        entries = await store.entries(limit=_LATEST)
        found = [e for e in entries if e.run_id.startswith((given, f"run_{given}"))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} runs begin with {given!r}: {', '.join(e.run_id for e in found[:3])}. Say more.")
    raise UsageError(f"there is no run {given[:100]!r} in the store. `ferrule ls` lists the runs.")


async def has_worker(store: Store, entry: Entry) -> bool:
    """Whether a worker is alive that acts on what is left for a run: its holder, or one that would take it.

    Args:
        store: The store, open.
        entry: The run.

    Since 0.1.
    """
    return any(
        since < about.get("lease", worker.LEASE)
        and (name == entry.worker or entry.definition in about.get("takes", ()))
        for name, (since, about) in (await store.workers()).items()
    )


def say_worker(session: Session, is_alive: bool) -> None:
    """Say whether a worker acts on what was left for a run.

    Args:
        session: Where to say it.
        is_alive: As `has_worker` found.

    Since 0.1.
    """
    alive = "A worker is alive and acts on it."
    session.note(alive if is_alive else "No worker is alive to act on it. Start one: ferrule work")


def who() -> str:
    """Who sits at this command line, as `user@host`.

    Since 0.1.
    """
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as containers have it
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def moment(at: float | None) -> str | None:
    """A time as programs read it: RFC 3339, UTC.

    Args:
        at: Seconds since 1970.

    Since 0.1.
    """
    if at is None:
        return None
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def age(at: float) -> str:
    """How long ago something was, for people.

    Args:
        at: Seconds since 1970.

    Since 0.1.
    """
    return span(time.time() - at)


def span(seconds: float) -> str:
    """A time span in its largest unit.

    Args:
        seconds: How long it is.

    Since 0.1.
    """
    whole = max(0, int(seconds))
    size, unit = next((size, unit) for size, unit in _UNITS if whole >= size)
    return f"{whole // (size or 1)} {unit}"


def run_summary(entry: Entry, open_requests: int) -> dict[str, Any]:
    """A run in a list, as programs read it.

    Args:
        entry: The run.
        open_requests: How many answers it waits for.

    Since 0.1.
    """
    return {
        "id": entry.run_id,
        "name": entry.definition,
        "status": entry.state,
        "open_requests": open_requests,
        "created_at": moment(entry.created),
        "updated_at": moment(entry.updated),
        "due_at": moment(entry.due),
        "worker": entry.worker,
        "key": entry.key,
        "tags": dict(entry.tags),
        "seq": entry.seq,
        "forked_from": entry.forked_from,
    }
