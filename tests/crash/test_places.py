"""A process that dies in a tool's body, while a model is asked, while a run waits, or while somebody answers."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

import pytest
from tests.crash.kit import ALL, Site, assert_holds, at_each, ended_by_another, opened, the_run, until, victim

from ferrule.journal.record import RecordType
from ferrule.message import ToolMessage

BODIES = ("look", "put", "flaky", "pay", "order", "mail", "send", "ask")


async def dies_at(site: Site, folder: Path, at: str) -> None:
    place, sink = site(folder)
    async with victim(place, sink, at) as first:
        await first.killed()
        async with opened(place) as store:
            await assert_holds(store, first.pid)
    await ended_by_another(place, sink)


@pytest.mark.case("C112", "C043")
@pytest.mark.parametrize("name", BODIES)
def test_a_run_whose_process_dies_in_a_body_is_ended_by_another(site: Site, tmp_path: Path, name: str) -> None:
    points = [f"body {name} 1 {when}" for when in ("before", "after")]
    more = {"put": [2], "flaky": [2], "pay": [2, 3]}.get(name, []) if ALL else []
    points += [f"body {name} {nth} {when}" for nth in more for when in ("before", "after")]
    asyncio.run(at_each(points, partial(dies_at, site), tmp_path))


def test_a_run_whose_process_dies_while_a_model_is_asked_is_ended_by_another(site: Site, tmp_path: Path) -> None:
    points = [f"model outer {nth} before" for nth in ((1, 2, 3, 4, 5) if ALL else (1, 3))] + ["model inner 2 before"]
    asyncio.run(at_each(points, partial(dies_at, site), tmp_path))


@pytest.mark.case("C112")
def test_a_mail_that_nobody_can_ask_about_is_told_as_unknown(site: Site, tmp_path: Path) -> None:
    async def main(when: str) -> str:
        place, sink = site(tmp_path)
        async with victim(place, sink, f"body mail 1 {when}") as first:
            await first.killed()
        result = await ended_by_another(place, sink)
        return next(m.output for m in result.messages if isinstance(m, ToolMessage) and m.call.name == "mail")

    text = "The process ended during the call of tool 'mail'; its effect may have happened."
    assert asyncio.run(main("after")) == text


def test_a_run_that_waits_when_its_process_dies_is_only_in_the_store_and_goes_on_with_its_answers(
    site: Site,
    tmp_path: Path,
) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        async with victim(place, sink, mode="alone") as first, opened(place) as store:

            async def waits() -> bool | None:
                entry = await the_run(store)
                return True if entry is not None and entry.state == "suspended" else None

            await until(waits)
            first.send(signal.SIGKILL)
            await first.killed()
            entry = await the_run(store)
            assert entry is not None
            assert (entry.state, entry.worker) == ("suspended", None)
            assert [r.kind for r in await store.requests()] == ["approval", "question"]
        await ended_by_another(place, sink)

    asyncio.run(main())


@pytest.mark.case("C064")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_dies_while_it_answers_has_answered_once_or_not_at_all(
    site: Site, tmp_path: Path, when: str
) -> None:
    async def main() -> None:
        place, sink = site(tmp_path)
        async with victim(place, sink, "record wait.answered 1 before", mode="alone") as first, opened(place) as store:
            # The holder dies when it takes the answer in, whoever gives it just before or after that.
            async def asked() -> bool | None:
                entry = await the_run(store)
                return True if entry is not None and entry.state == "suspended" else None

            await until(asked)
            async with victim(place, sink, f"record answer 1 {when}", mode="answer") as other:
                await other.killed()
            states = {r.state for r in await store.requests(state=None)}
            assert ("answered" in states) == (when == "after")
            if when == "after":
                await first.killed()
                await assert_holds(store, first.pid)
            else:
                first.send(signal.SIGKILL)
                await first.killed()
        result = await ended_by_another(place, sink)
        async with opened(place) as store:
            kinds: list[RecordType | str] = [row.type for row in await store.rows(result.run_id)]
            assert kinds.count("wait.answered") == 2

    asyncio.run(main())
