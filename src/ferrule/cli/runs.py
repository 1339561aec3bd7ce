"""`ferrule ls`, `get`, `logs`, `tail`, `cancel`, `rm` and `work`: the runs of a store on the command line."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.console import RenderableType
from rich.text import Text

from ferrule.cli.ask import ask_yes, can_ask, say_request
from ferrule.cli.failure import Conflict, ExitCode, exit_code_for
from ferrule.cli.inbox import request_data, request_of
from ferrule.cli.output import Format, json_text, printable, table
from ferrule.cli.session import Session, command, settle_lines
from ferrule.cli.store import (
    MANY,
    age,
    durable_app,
    find_run,
    find_store,
    has_worker,
    opened,
    run_summary,
    say_worker,
    who,
)
from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.strict_json import dumps, parse

if TYPE_CHECKING:
    from ferrule.app import App
    from ferrule.journal import retention
    from ferrule.journal.record import Record
    from ferrule.journal.store import Asked, Entry, Row, Store
    from ferrule.runtime import worker
else:
    retention = LazyModule("ferrule.journal.retention")
    worker = LazyModule("ferrule.runtime.worker")

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id, a beginning that no other id has, @last or @failed.")
]
_POLL: Final = 0.2
_ENDS: Final = (signal.SIGTERM, signal.SIGINT)
GOES_ON: Final = ("running", "suspended")
_NOT_OVER: Final = (*GOES_ON, "blocked")
_SHOWN: Final = 60


class RunStatus(StrEnum):
    """How a run stands.

    Since 0.1.
    """

    RUNNING = "running"
    SUSPENDED = "suspended"
    DONE = "done"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"


def register_runs(root: typer.Typer) -> None:
    """Add the commands to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """
    command(root, "ls")(_list_runs)
    command(root, "get")(_get_run)
    command(root, "logs")(_show_records)
    command(root, "tail")(_follow_run)
    command(root, "cancel")(_cancel_run)
    command(root, "rm")(_remove_runs)
    command(root, "work")(_work)


def _list_runs(
    session: Session,
    status: Annotated[RunStatus | None, typer.Option("--status", help="Only runs that stand so.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only runs of this agent.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, the latest.")] = 50,
) -> ExitCode:
    """List the runs of the store, the latest first."""
    store = find_store(session)

    async def look() -> tuple[list[Entry], Counter[str]]:
        async with opened(store):
            asked = Counter(request.run_id for request in await store.requests(limit=MANY))
            state: Literal["running"] | None = status.value if status is not None else None  # pyright: ignore[reportAssignmentType] - the same words
            return await store.entries(state=state, definition=agent, limit=limit), asked

    entries, asked = session.run(look())
    rows = [run_summary(entry, asked[entry.run_id]) for entry in entries]
    if session.out.format is Format.TABLE:
        rows = [{**row, "age": age(entry.created)} for row, entry in zip(rows, entries, strict=True)]
    session.out.items(rows, ("id", "name", "status", "age", "open_requests"), empty="There are no such runs.")
    if len(entries) == limit:
        session.note(f"These are the latest {limit}; --limit shows more.")
    return ExitCode.DONE


# -- one run ----------------------------------------------------------------------------------------------------


def _get_run(session: Session, run: RunArgument) -> ExitCode:
    """Show a run: how it stands, what it asks, and what was said last.

    The exit code is that of the command, not of the run.
    """
    store = find_store(session)

    async def look() -> tuple[Entry, list[Asked], list[Record]]:
        async with opened(store):
            entry = await find_run(store, run)
            records = await worker.Worker(store, {}).records(entry.run_id)
            return entry, await store.requests(run_id=entry.run_id, state=None, limit=MANY), records

    entry, asked, records = session.run(look())
    open_requests = sum(request.state == "open" for request in asked)
    data = {
        **run_summary(entry, open_requests),
        "requests": [request_data(request) for request in asked],
        **_last_words(records),
    }
    session.out.item(data, _run_view(data))
    return ExitCode.DONE


def _last_words(records: Sequence[Record]) -> dict[str, Any]:
    """What the run's own model said last, and why it ended early: from the records, so that no code is needed."""
    output, error, reason = "", None, None
    for record in records:
        if record.type == "model.responded" and "/" not in record.body["op"]:
            response = getattr(record.body["outcome"], "response", record.body["outcome"])
            output, error = response.message.text, response.error
        elif record.type == "run.settled" or (record.type == "note" and record.body["about"] == "blocked"):
            reason, error = record.body.get("reason"), record.body.get("error", error)
    return {"output": output, "error": None if error is None else str(error), "reason": reason}


def _run_view(data: Mapping[str, Any]) -> list[RenderableType]:
    told = (
        "id", "name", "status", "reason", "error", "created_at", "updated_at", "due_at", "worker", "key", "tags",
        "forked_from",
    )  # fmt: skip
    facts = [{"": key.replace("_", " "), " ": data[key]} for key in told if data[key]]
    requests = [
        Text(printable(f"{r['state']} request {r['id']} ({r['kind']}): {r['prompt']}")) for r in data["requests"]
    ]
    words = [Text(""), Text(printable(data["output"]))] if data["output"] else []
    return [table(("", " "), facts, headed=False), *requests, *words]


def _show_records(session: Session, run: RunArgument) -> ExitCode:
    """Show the records of a run, one on each line; with -o jsonl as they are stored."""
    store = find_store(session)

    async def look() -> list[Row]:
        async with opened(store):
            return await store.rows((await find_run(store, run)).run_id)

    rows = session.run(look())
    if session.out.format is Format.TABLE:
        for row in rows:
            session.out.text(_line(row))
    else:
        session.out.items([_stored(row) for row in rows], ())
    return ExitCode.DONE


def _stored(row: Row) -> dict[str, Any]:
    return {**row._asdict(), "body": parse(row.body)}


def _line(row: Row) -> str:
    body: dict[str, Any] = parse(row.body)
    time = dt.datetime.fromtimestamp(row.at, dt.UTC).isoformat(sep=" ", timespec="milliseconds")[:23]
    told = " ".join(f"{key}={_short(value)}" for key, value in body.items() if key != "op")
    return f"{row.seq:>4}  {time}  {row.type:<16}  {printable(body.get('op', '')):<8}  {told}".rstrip()


def _short(value: Any) -> str:
    text = printable(value if isinstance(value, str) else json_text(value)).replace("\n", " ")
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _follow_run(session: Session, run: RunArgument) -> ExitCode:
    """Show the records of a run as they come, until it ends or waits for answers.

    The exit code is the run's: 0 done, 1 failed or incomplete, 5 suspended, 6 cancelled, 9 blocked.
    """
    settle_lines(session, "records come one by one, and -o json is one object")
    store = find_store(session)

    def show(row: Row) -> None:
        session.out.text(_line(row) if session.out.format is Format.TABLE else json_text(_stored(row)))

    entry, asked = session.run(_follow(session, store, run, show))
    for request in asked:
        say_request(session, request_of(request))
    session.note(f"run {entry.run_id} is {entry.state}.")
    return exit_code_for(entry.state)


async def _follow(
    session: Session, store: Store, run: str, show: Callable[[Row], None]
) -> tuple[Entry, Sequence[Asked]]:
    seq, told = 0, False
    async with opened(store):
        run_id = (await find_run(store, run)).run_id
        while True:
            entry = await find_run(store, run_id)  # first: what it wrote before it came to a halt is shown
            for row in await store.rows(run_id, after=seq):
                show(row)
                seq = row.seq
            if entry.state == "suspended" and not await store.letters(run_id):
                return entry, await store.requests(run_id=run_id, limit=MANY)
            if entry.state not in GOES_ON and not await _is_cancelled(store, entry):
                return entry, ()
            if not told and not await has_worker(store, entry):
                told = True
                session.note("No worker is alive to go on with it. Start one: ferrule work")
            await asyncio.sleep(_POLL)


async def _is_cancelled(store: Store, entry: Entry) -> bool:
    """Whether a blocked run is yet to be cancelled."""
    return entry.state == "blocked" and any(letter.kind == "cancel" for letter in await store.letters(entry.run_id))


# -- ending and removing ----------------------------------------------------------------------------------------


def _cancel_run(session: Session, run: RunArgument) -> ExitCode:
    """Have a run end: calls in flight get five seconds, and what it has done is kept.

    The exit code is 8 when the run is over otherwise.
    """
    store = find_store(session)

    async def leave() -> tuple[Entry, bool]:
        async with opened(store):
            entry = await find_run(store, run)
            if entry.state in _NOT_OVER and not await store.post(entry.run_id, "cancel", dumps({"by": who()})):
                entry = await find_run(store, entry.run_id)  # it has ended meanwhile
            return entry, await has_worker(store, entry)

    entry, is_alive = session.run(leave())
    if entry.state not in (*_NOT_OVER, "cancelled"):
        raise Conflict(f"run {entry.run_id} is {entry.state}: there is nothing to cancel.")
    over = entry.state == "cancelled"
    said = f"run {entry.run_id} is cancelled." if over else f"run {entry.run_id} is told to end."
    session.out.item({"id": entry.run_id, "status": entry.state, "worker_alive": is_alive}, [Text(said)])
    if not over:
        say_worker(session, is_alive)
    return ExitCode.DONE


def _remove_runs(
    session: Session,
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN…]", help="Ids, or beginnings that no other id has.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="SPAN", help="All that ended so long ago, as 30d.")
    ] = None,
    keep_size: Annotated[
        str | None, typer.Option("--keep-size", metavar="SIZE", help="The first to end until the store fits 2GB.")
    ] = None,
    blobs_older_than: Annotated[
        str | None,
        typer.Option("--blobs-older-than", metavar="SPAN", help="The large bytes of all that ended so long ago."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> ExitCode:
    """Remove runs that are over, with their records and requests: some by name, or all beyond an age or a size.

    Nothing brings them back. What goes on, waits or is blocked stays, with all around it, and so does a run whose
    records a fork shares; named, it makes the exit code 8, and nothing is removed. Where only bytes are removed,
    records keep their digest and description.
    """
    spans = [None if text is None else retention.read_span(text) for text in (older_than, blobs_older_than)]
    kept = retention.Retention(spans[0], None if keep_size is None else retention.read_size(keep_size), spans[1])
    rule = any(limit is not None for limit in kept)
    if rule == bool(runs):
        raise UsageError("name runs, or say --older-than, --keep-size or --blobs-older-than.")
    store = find_store(session)
    if rule:
        return _remove_by_rule(session, store, kept, yes)
    return _remove_named(session, store, runs or [], yes)


def _remove_by_rule(session: Session, store: Store, kept: retention.Retention, yes: bool) -> ExitCode:
    async def remove() -> retention.Swept:
        async with opened(store):
            return await retention.sweep(store, kept)

    if not _is_sure("Remove for good what is beyond that?", yes):
        session.note("Nothing was removed.")
        return ExitCode.FAILED
    swept = session.run(remove())
    said = f"{_runs(swept.runs)} removed, and {swept.blobs} blob{'s' * (swept.blobs != 1)} of others."
    session.out.item({"removed": swept.runs, "blobs": swept.blobs}, [Text(said)])
    return ExitCode.DONE


def _remove_named(session: Session, store: Store, runs: Sequence[str], yes: bool) -> ExitCode:
    async def look() -> tuple[list[Entry], dict[str, list[str]]]:
        async with opened(store):
            found = [await find_run(store, run) for run in runs]
            return found, await store.forks([entry.run_id for entry in found])

    async def remove(run_ids: Sequence[str]) -> int:
        async with opened(store):
            return await store.remove(run_ids)

    found, forks = session.run(look())
    entries = {entry.run_id: entry for entry in found}
    going = [entry for entry in entries.values() if entry.state in _NOT_OVER]
    if going:
        raise Conflict(f"run {going[0].run_id} is {going[0].state}. Cancel it first; nothing was removed.")
    for run_id, fork in ((run_id, fork) for run_id, its in forks.items() for fork in its if fork not in entries):
        raise Conflict(f"run {fork} is a fork of {run_id} and shares its records. Remove it too; nothing was removed.")
    if not yes and can_ask():
        for entry in entries.values():
            session.say(f"{entry.run_id} {entry.definition} {entry.state}, {age(entry.created)} old")
    if not _is_sure(f"Remove {_runs(len(entries))} for good?", yes):
        session.note("Nothing was removed.")
        return ExitCode.FAILED
    removed = session.run(remove(list(entries)))
    session.out.item({"removed": removed}, [Text(f"{_runs(removed)} removed.")])
    return ExitCode.DONE


def _is_sure(question: str, yes: bool) -> bool:
    if not yes and not can_ask():
        raise UsageError("rm removes for good, and there is no terminal to ask on. Say --yes.")
    return yes or ask_yes(question)


def _runs(number: int) -> str:
    return f"{number} run{'s' * (number != 1)}"


# -- a worker ---------------------------------------------------------------------------------------------------


def _work(session: Session) -> ExitCode:
    """Go on with runs that are due: those that were answered, whose time has come, or whose process died.

    SIGTERM or Ctrl-C ends it: runs in flight get a few seconds, and then are left for the next worker.
    """
    app = durable_app(session, session.load())
    if not app.agents:
        raise UsageError("the app has no agents, and so nothing to run. Put an Agent at the top level of a module.")
    session.run(_until_told(session, app))
    return ExitCode.DONE


async def _until_told(session: Session, app: App) -> None:
    async with app.working() as mine:
        with _heard() as told:
            session.note(f"worker {mine.id} takes runs of {', '.join(app.agents)}. Ctrl-C or SIGTERM ends it.")
            await told.wait()
        session.note("ending: runs in flight get a few seconds; what is left then is for the next worker.")


@contextmanager
def _heard() -> Generator[asyncio.Event]:
    """Set once somebody wants the process to end; afterwards a second wish ends it at once."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    heard: list[signal.Signals] = []
    for number in _ENDS:
        try:
            loop.add_signal_handler(number, told.set)
            heard.append(number)
        except (NotImplementedError, RuntimeError, ValueError):  # Windows, or no main thread: as the loop has it
            continue
    try:
        yield told
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
