"""`ferrule requests` and `ferrule answer`: what durable runs wait for, and answers to it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from ferrule.cli.arguments import read_object
from ferrule.cli.ask import ask_on_terminal, ask_yes, can_ask, say_shown
from ferrule.cli.failure import ExitCode
from ferrule.cli.output import Format
from ferrule.cli.parts import readable, without_data
from ferrule.cli.session import Session, command
from ferrule.cli.store import MANY, age, find_run, find_store, has_worker, moment, opened, say_worker, span, who
from ferrule.errors import AlreadyAnswered, AnswerRefused, UsageError
from ferrule.lazy import LazyModule
from ferrule.strict_json import parse, plain, restore
from ferrule.suspension import Answer, Request

if TYPE_CHECKING:
    from ferrule.journal.store import Asked, Store
    from ferrule.runtime import answer as answers
    from ferrule.runtime import inbox
else:
    answers = LazyModule("ferrule.runtime.answer")
    inbox = LazyModule("ferrule.runtime.inbox")

_DIGEST: Final = 12  # characters of it that a table shows


def register_inbox(root: typer.Typer) -> None:
    """Add the commands to the root.

    Args:
        root: The whole command line.

    Since 0.1.
    """
    command(root, "requests")(_list_requests)
    command(root, "answer")(_answer_request)


def _list_requests(
    session: Session,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only those of this run.")] = None,
) -> ExitCode:
    """List what runs wait for, the oldest first; with -o json whole, arguments and preview included."""
    asked = session.run(_open_requests(find_store(session), run))
    rows = [request_data(request) for request in asked]
    if session.out.format is Format.TABLE:
        rows = [
            {
                **row,
                "run": request.run_id,
                "age": age(request.opened),
                "expires": _left(request),
                "digest": request.digest[:_DIGEST],
            }
            for row, request in zip(rows, asked, strict=True)
        ]
    columns = ("id", "run", "kind", "prompt", "age", "expires", "digest")
    session.out.items(rows, columns, empty="Nothing waits for an answer.")
    return ExitCode.DONE


def _answer_request(
    session: Session,
    request_id: Annotated[
        str, typer.Argument(metavar="REQUEST", help="The request's id, as `ferrule requests` lists it.")
    ],
    approve: Annotated[bool, typer.Option("--approve", help="Agree.")] = False,
    decline: Annotated[bool, typer.Option("--decline", help="Do not agree; the model reads the reason.")] = False,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="JSON", help="What is asked for: a JSON object, @FILE, or - for standard input."
        ),
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option("--arguments", metavar="JSON", help="Approve the call with these arguments instead."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", "-r", metavar="TEXT", help="Why; kept with the answer.")
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest", metavar="D", help="What you were shown, as `ferrule requests` prints it; 12 digits do."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve without being shown what.")] = False,
) -> ExitCode:
    """Answer a request. On a terminal, without an answer here, it is shown and asked.

    An approval is shown first, and takes a yes on a terminal; elsewhere it needs --digest or --yes.

    The exit code is 8 when the request was answered otherwise, has expired or is closed.
    """
    given = _given(approve, decline, data, arguments, reason)
    store = find_store(session)
    asked = session.run(_look(store, request_id))
    answer = _decided(session, asked, given, digest, sure=yes)
    if answer is None:
        session.note(f"request {asked.request_id} stays open.")
        return ExitCode.SUSPENDED
    asked, is_alive = session.run(_give(store, asked, answer))
    done = "approved" if answer.ok and asked.kind == "approval" else "answered" if answer.ok else "declined"
    told = {**request_data(asked), "worker_alive": is_alive}
    session.out.item(told, [Text(f"request {asked.request_id} is {done}.")])
    say_worker(session, is_alive)
    return ExitCode.DONE


def request_of(asked: Asked) -> Request:
    """The request that was stored.

    Args:
        asked: As the store keeps it.

    Since 0.1.
    """
    return restore(parse(asked.body))


def request_data(asked: Asked) -> dict[str, Any]:
    """A request as programs read it: its own keys, and where it stands.

    Args:
        asked: As the store keeps it.

    Since 0.1.
    """
    return {
        **without_data(plain(readable(request_of(asked)), big_ints="number")),
        "run_id": asked.run_id,
        "path": asked.op,
        "state": asked.state,
        "opened_at": moment(asked.opened),
        "answer": None if asked.answer is None else parse(asked.answer),
        "answered_by": asked.by,
        "channel": asked.channel,
        "answered_at": moment(asked.answered),
    }


def _left(asked: Asked) -> str:
    if asked.expires is None:
        return ""
    left = asked.expires - time.time()
    return f"in {span(left)}" if left > 0 else "expired"


async def _open_requests(store: Store, run: str | None) -> list[Asked]:
    async with opened(store):
        run_id = (await find_run(store, run)).run_id if run is not None else None
        return await store.requests(run_id=run_id, limit=MANY)


async def _look(store: Store, request_id: str) -> Asked:
    async with opened(store):
        asked = await store.asked(request_id)
        if asked is not None:
            return asked
        known = [r.request_id for r in await store.requests(limit=MANY) if r.request_id.startswith(request_id)]
    mend = f"Open are: {', '.join(known[:3])}." if known and request_id else "`ferrule requests` lists the open ones."
    raise UsageError(f"there is no request {request_id[:100]!r}. {mend}")


async def _give(store: Store, asked: Asked, answer: Answer) -> tuple[Asked, bool]:
    async with opened(store):
        asked = await inbox.Inbox(store).answer(asked.request_id, answer, by=who(), channel="cli")
        entry = await find_run(store, asked.run_id)
        return asked, await has_worker(store, entry)


# -- what is decided --------------------------------------------------------------------------------------------


def _given(
    approve: bool, decline: bool, data: str | None, arguments: str | None, reason: str | None
) -> dict[str, Any] | None:
    """The fields of the answer that the options give; None where they give none."""
    if decline and (approve or data is not None or arguments is not None):
        raise UsageError("--decline gives nothing else but a --reason. Say one thing.")
    if not (approve or decline or data is not None or arguments is not None):
        if reason is not None:
            raise UsageError("--reason alone decides nothing. Say --approve or --decline with it.")
        return None
    fields: dict[str, Any] = {"ok": not decline, "reason": reason or ("declined" if decline else None)}
    if data is not None:
        fields["data"] = read_object(data, "--data")
    if arguments is not None:
        fields["arguments"] = read_object(arguments, "--arguments")
    return fields


def _decided(
    session: Session, asked: Asked, given: dict[str, Any] | None, digest: str | None, *, sure: bool
) -> Answer | None:
    """The answer, by the options or by somebody on a terminal; None where they leave it open."""
    request = request_of(asked)
    if digest is not None and (len(digest) < _DIGEST or not asked.digest.startswith(digest)):
        raise UsageError(f"--digest is not that of {asked.request_id}, so you were shown something else. Look again.")
    if given is None:
        _refuse_closed(asked)
        if not can_ask():
            raise UsageError("there is no terminal to ask on. Say --approve, --decline, --data or --arguments.")
        return session.run(ask_on_terminal(session, request))
    if "arguments" in given and asked.kind != "approval":
        raise UsageError(f"--arguments is for approvals, and {asked.request_id} is of kind {asked.kind}. Use --data.")
    answer = Answer(asked.request_id, digest=asked.digest or None, **given)
    if asked.state == "open":  # before it is shown, and before a yes is used up
        answers.fitting(answer, request)
    if not answer.ok or asked.kind != "approval" or digest is not None or sure or asked.state != "open":
        return answer
    if not can_ask():
        raise UsageError(
            "an approval needs to be seen, and there is no terminal to show it on. Read `ferrule requests -o json`, "
            "then say --digest as it stands there, or --yes."
        )
    say_shown(session, request, answer.arguments)
    return answer if ask_yes("Approve this?") else None


def _refuse_closed(asked: Asked) -> None:
    if asked.state == "answered":
        raise AlreadyAnswered(asked.request_id, asked.by or "somebody", asked.answered or 0.0)
    if asked.state != "open":
        raise AnswerRefused(asked.request_id, f"It is {asked.state}.")
