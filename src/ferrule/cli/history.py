"""`ferrule replay`, `fork`, `diff` and `resume`: what is done with runs that were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from ferrule.cli.arguments import read_object
from ferrule.cli.ask import ask_on_terminal, can_ask, say_request
from ferrule.cli.envelope import run_data
from ferrule.cli.failure import Conflict, ExitCode, exit_code_of
from ferrule.cli.output import Format, printable, table
from ferrule.cli.runs import RunArgument
from ferrule.cli.session import Session, command
from ferrule.cli.store import durable_app, find_run, find_store, has_worker, opened, say_worker
from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.strict_json import plain

if TYPE_CHECKING:
    from ferrule.journal.store import Entry
    from ferrule.runtime import compare, worker
    from ferrule.runtime.compare import Comparison, Pair, Step
    from ferrule.runtime.outcome import RunResult
    from ferrule.runtime.replay import Divergence, Rehearsal, Replay
else:
    compare = LazyModule("ferrule.runtime.compare")
    worker = LazyModule("ferrule.runtime.worker")

_SHOWN: Final = 40


class OnMissOption(StrEnum):
    """What is done with a call that the journal has no result of.

    Since 0.1.
    """

    STOP = "stop"
    READ = "read"


def register_history(root: typer.Typer) -> None:
    """Add the commands to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """
    command(root, "replay")(_replay)
    command(root, "fork")(_fork)
    command(root, "diff")(_diff)
    command(root, "resume")(_resume)


def _found(session: Session, *runs: str) -> list[Entry]:
    store = find_store(session)

    async def look() -> list[Entry]:
        async with opened(store):
            return [await find_run(store, run) for run in runs]

    return session.run(look())


# -- replay -----------------------------------------------------------------------------------------------------


def _replay(
    session: Session,
    run: RunArgument,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Run it again with this model; tools are not called.")
    ] = None,
    instructions: Annotated[
        str | None, typer.Option("--instructions", metavar="TEXT", help="The same with other instructions.")
    ] = None,
    on_miss: Annotated[
        OnMissOption | None,
        typer.Option(
            "--on-miss", help="Where the journal has no result of a call: stop, or call tools that only read."
        ),
    ] = None,
) -> ExitCode:
    """Feed the records of a run to today's code, and tell where that would do something else. Nothing is called.

    With --model or --instructions the model is asked again, and tools answer from the journal.

    The exit code is 0 when nothing differs, 1 when only what the model is asked with does, and 9 when the run could not
    go on with this code; with --model or --instructions that of the run.
    """
    (entry,) = _found(session, run)
    app = durable_app(session, session.load())
    if model is None and instructions is None:
        if on_miss is not None:
            raise UsageError("--on-miss is for a replay with --model or --instructions.")
        return _show_replay(session, session.run(app.replay(entry.run_id)))
    on_request = partial(ask_on_terminal, session) if can_ask() else None
    found = session.run(
        app.replay(
            entry.run_id,
            model=model,
            instructions=instructions,
            on_miss=(on_miss or OnMissOption.STOP).value,  # pyright: ignore[reportArgumentType] - the same words
            on_request=on_request,
        )
    )
    _show_rehearsal(session, found)
    return exit_code_of(found.result)


def _show_replay(session: Session, found: Replay) -> ExitCode:
    differences = [one._asdict() for one in found.differences]
    same = not differences
    data = {
        "run_id": found.run_id,
        "records": found.records,
        "same": same,
        "blocks": found.blocks,
        "first_difference": differences[0] if differences else None,
        "differences": differences,
    }
    said = f"run {found.run_id}: {found.records} records, and this code does the same."
    session.out.item(data, [Text(said)] if same else [_difference(one) for one in found.differences])
    return ExitCode.DONE if same else ExitCode.BLOCKED if found.blocks else ExitCode.FAILED


def _difference(one: Divergence) -> Text:
    where = f"{one.op!r} " if one.op else ""
    more = "" if one.blocks else " (a run goes on all the same)"
    return Text(printable(f"record {one.seq}: {where}was {one.recorded}, and is now {one.now}{more}"))


def _show_rehearsal(session: Session, found: Rehearsal) -> None:
    about = {"answered": list(found.answered), "called": list(found.called), "missed": found.missed}
    lines = [Text(printable(found.result.output))] if found.result.output else []
    session.out.item({**run_data(found.result), "replayed": found.run_id, **about}, lines)
    if found.result.status != "done":
        session.say(found.result.describe())
    calls = f"{len(found.answered)} calls answered by the journal, {len(found.called)} made"
    session.note(f"replay of run {found.run_id}: {calls}; nothing of it is kept.")


# -- fork -------------------------------------------------------------------------------------------------------


def _fork(
    session: Session,
    run: RunArgument,
    at: Annotated[int | None, typer.Option("--at", metavar="SEQ", help="Share the records up to this one.")] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="OP", help="Begin before this op, for example t2.0.")
    ] = None,
    edits: Annotated[
        list[str] | None,
        typer.Option(
            "--edit",
            metavar="OP=JSON",
            help='Call with other arguments, OP={"arguments": {…}}, or take OP={"result": …} in place of the call.',
        ),
    ] = None,
) -> ExitCode:
    """Run anew from somewhere in a run: what came before is shared, and every call after it is made again.

    `ferrule logs RUN` shows records and ops. The exit code is that of the new run.
    """
    (entry,) = _found(session, run)
    app = durable_app(session, session.load())
    on_request = partial(ask_on_terminal, session) if can_ask() else None
    work = app.fork(entry.run_id, at=at, before=before, edits=_edits(edits or ()), on_request=on_request)
    result: RunResult[Any] = session.run(work)
    lines = [Text(printable(result.output))] if result.output else []
    session.out.item({**run_data(result), "forked_from": entry.run_id}, lines)
    for request in result.requests:
        say_request(session, request)
    if result.status != "done":
        session.say(result.describe())
    session.note(f"run {result.run_id} is a fork of {entry.run_id}; `ferrule diff {entry.run_id} {result.run_id}`.")
    return exit_code_of(result)


def _edits(given: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    pairs = [edit.partition("=") for edit in given]
    for op, equals, text in pairs:
        if not (op and equals):
            shown = 't2.0={"arguments": {"amount": 5}}'
            raise UsageError(f"--edit {op + equals + text!r} is no OP=JSON. Write for example --edit '{shown}'.")
    return {op: read_object(text, f"--edit {op}") for op, _, text in pairs}


# -- diff -------------------------------------------------------------------------------------------------------


def _diff(
    session: Session,
    a: Annotated[str, typer.Argument(metavar="A", help="A run, named like any other.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
) -> ExitCode:
    """Show two runs side by side, step by step, and where they first differ.

    The exit code is 1 when they differ.
    """
    store = find_store(session)

    async def look() -> Comparison:
        async with opened(store):
            reader = worker.Worker(store, {})
            one, other = [await reader.records((await find_run(store, run)).run_id) for run in (a, b)]
            return compare.diff(one, other)

    found = session.run(look())
    first = found.first.op if found.first is not None else None
    if session.out.format is Format.JSONL:
        session.out.items([plain(pair) for pair in found.steps], ())
    else:
        statuses = {"a": found.statuses[0], "b": found.statuses[1]}
        steps = [plain(pair) for pair in found.steps]
        data = {"a": found.a, "b": found.b, "same": found.same, "first": first, "statuses": statuses, "steps": steps}
        session.out.item(data, _side_by_side(found))
    return ExitCode.DONE if found.same else ExitCode.FAILED


def _side_by_side(found: Comparison) -> list[RenderableType]:
    rows = [
        {"": ">" if pair is found.first else "", "op": pair.op, "a": _short(pair.a), "b": _other(pair)}
        for pair in found.steps
    ]
    ends = [
        f"{run_id}: {status or 'not over'}" for run_id, status in zip((found.a, found.b), found.statuses, strict=True)
    ]
    return [table(("", "op", "a", "b"), rows), *map(Text, ends)]


def _other(pair: Pair) -> str:
    return f"{_short(pair.b)} [{', '.join(pair.differs)}]" if pair.differs and pair.a and pair.b else _short(pair.b)


def _short(step: Step | None) -> str:
    if step is None:
        return "-"
    said = step.output or ", ".join(name for name, _ in step.calls)
    text = " ".join(f"{step.name} {step.arguments or ''} {step.status}: {said}".split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


# -- resume -----------------------------------------------------------------------------------------------------


def _resume(session: Session, run: RunArgument) -> ExitCode:
    """Have a blocked run tried again, once its cause is gone: the code put back, for example.

    The exit code is 8 when the run is not blocked.
    """
    store = find_store(session)

    async def leave() -> tuple[Entry, bool]:
        async with opened(store):
            entry = await find_run(store, run)
            if entry.state == "blocked":
                await store.post(entry.run_id, "resume", b"{}")
            return entry, await has_worker(store, entry)

    entry, is_alive = session.run(leave())
    if entry.state != "blocked":
        raise Conflict(f"run {entry.run_id} is {entry.state}, and only blocked runs are resumed.")
    data = {"id": entry.run_id, "status": entry.state, "worker_alive": is_alive}
    session.out.item(data, [Text(f"run {entry.run_id} is to be tried again.")])
    say_worker(session, is_alive)
    return ExitCode.DONE
