"""Faults that people met elsewhere with runs that wait, tried over new starts: each worker here is a process of its own.

What needs a process that is really killed is in tests/crash.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.playback import APIS, Turn, check, example, model, say
from tests.acceptance.test_cases import OPAQUE
from tests.unit.provider.server import Answer as ServerAnswer
from tests.unit.provider.server import Server
from tests.unit.provider.server import answer as http_answer

from ferrule import Agent, Answer, Context, RunResult, ToolResult, image, tool
from ferrule.agent.loop import Limits, RunInput
from ferrule.errors import AlreadyAnswered, AnswerRefused, ModelError
from ferrule.journal.keeping import Whole
from ferrule.journal.sqlite import SqliteStore
from ferrule.journal.store import Asked, State, Store
from ferrule.message import ModelMessage, ToolMessage, unpaired, user
from ferrule.runtime.inbox import Inbox
from ferrule.runtime.worker import Worker
from ferrule.testing import call

DONE: Counter[str] = Counter()
"""What was done outside: it outlives every worker."""


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@tool(effect="once")
async def free(name: str = "free") -> str:
    """Do it without asking."""
    DONE[name] += 1
    return f"did {name}"


@tool(effect="once", approval=True)
async def pay(amount: int) -> str:
    """Pay, when somebody agrees."""
    DONE[f"pay {amount}"] += 1
    return f"paid {amount}"


@tool(effect="read")
async def quiz(ctx: Context) -> str:
    """Ask three questions in a row; what stands before each is run again, and its answers are those of before."""
    DONE["entered"] += 1
    names = [(ctx.ask("question", f"name {n}?").data or {})["name"] for n in (1, 2, 3)]
    DONE["quiz"] += 1
    return " ".join(names)


def said(*turns: Any) -> Callable[[Any], Any]:
    def model(request: Any) -> Any:
        found = turns[sum(isinstance(m, ModelMessage) for m in request.messages)]
        if isinstance(found, Exception):
            raise found
        return found

    return model


def agent(*turns: Any, tools: Sequence[Any] = (free, pay, quiz), **options: Any) -> Agent[Any, Any]:
    return Agent("a", said(*turns, "all is done"), tools=tools, **options)


@asynccontextmanager
async def process(path: Path, *agents: Agent[Any, Any], takes: bool = True) -> AsyncGenerator[tuple[Store, Worker]]:
    """A new start: a store object and a worker that know nothing but the file."""
    store = SqliteStore(path, durability="process")
    await store.open()
    try:
        async with Worker(store, {a.name: a for a in agents}, poll=0.002) as worker:
            if takes:
                worker.start()
            yield store, worker
    finally:
        await store.close()


async def stands(store: Store, run_id: str, *states: State) -> None:
    """Wait until a run stands so, and has nothing left to read."""
    async with asyncio.timeout(20):
        while (e := await store.entry(run_id)) is None or e.state not in states or await store.letters(run_id):
            if e is not None and e.state in ("done", "failed", "cancelled"):
                break
            await asyncio.sleep(0.002)


async def started(path: Path, a: Agent[Any, Any], **options: Any) -> RunResult[Any]:
    async with process(path, a, takes=False) as (_, worker):
        return await worker.run(a.name, RunInput(user("go")), **options)


async def answer(store: Store, asked: Asked, ok: bool = True, by: str = "ada", **given: Any) -> Asked:
    found = Answer(asked.request_id, ok=ok, digest=asked.digest, **given)
    return await Inbox(store).answer(asked.request_id, found, by=by, channel="test")


async def answered(path: Path, a: Agent[Any, Any], asked: Asked, *states: State, **given: Any) -> RunResult[Any]:
    """A process that answers and goes on, until the run stands so."""
    async with process(path, a) as (store, worker):
        await answer(store, asked, **given)
        await stands(store, asked.run_id, *states)
        return await worker.result(asked.run_id)


async def open_requests(path: Path, run_id: str) -> list[Asked]:
    async with process(path, takes=False) as (store, _):
        return await store.requests(run_id=run_id)


def outputs(result: RunResult[Any]) -> list[str]:
    assert unpaired(result.messages) is None
    return [m.output for m in result.messages if isinstance(m, ToolMessage)]


# -- suspension -------------------------------------------------------------------------------------------------


@pytest.mark.case("C061")
def test_of_three_calls_of_a_turn_each_is_made_once_whatever_is_answered_when(tmp_path: Path) -> None:
    path, a = tmp_path / "runs.db", agent([call("free"), call("pay", {"amount": 1}), call("pay", {"amount": 2})])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        assert DONE == {"free": 1}
        first, second = await open_requests(path, run_id)
        await answered(path, a, first, "suspended")
        return await answered(path, a, second, "done")

    assert outputs(asyncio.run(main())) == ["did free", "paid 1", "paid 2"]
    assert DONE == {"free": 1, "pay 1": 1, "pay 2": 1}


@pytest.mark.case("C061")
def test_three_questions_in_a_row_are_three_requests_and_each_answer_comes_to_its_own(tmp_path: Path) -> None:
    path, a = tmp_path / "runs.db", agent([call("free"), call("quiz")])

    async def main() -> RunResult[Any]:
        result = await started(path, a)
        for n, name in enumerate(("Eve", "Ada", "Bob"), 1):
            (asked,) = await open_requests(path, result.run_id)
            assert result.requests[0].prompt == f"name {n}?"
            result = await answered(path, a, asked, "suspended", data={"name": name})
        return result

    result = asyncio.run(main())
    assert (result.status, outputs(result)) == ("done", ["did free", "Eve Ada Bob"])
    assert DONE == {"free": 1, "entered": 4, "quiz": 1}


@pytest.mark.case("C062")
@pytest.mark.parametrize("first", [0, 1])
def test_two_approvals_of_a_turn_are_answered_in_any_order_over_restarts(tmp_path: Path, first: int) -> None:
    path, a = tmp_path / "runs.db", agent([call("pay", {"amount": 1}), call("pay", {"amount": 2})])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        both = await open_requests(path, run_id)
        assert [asked.op for asked in both] == ["t1.0", "t1.1"]
        result = await answered(path, a, both[first], "suspended", ok=first == 0, reason="no")
        assert [r.id for r in result.requests] == [both[1 - first].request_id]
        (left,) = await open_requests(path, run_id)
        assert left.request_id == both[1 - first].request_id
        return await answered(path, a, left, "done", ok=first == 1, reason="no")

    one, two = outputs(asyncio.run(main()))
    assert one == "paid 1"
    assert "declined: no" in two
    assert DONE == {"pay 1": 1}


@pytest.mark.case("C064")
def test_a_hundred_equal_answers_at_once_are_one_and_another_is_refused_by_who_and_when(tmp_path: Path) -> None:
    path, a = tmp_path / "runs.db", agent([call("pay", {"amount": 1})])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        (asked,) = await open_requests(path, run_id)
        async with process(path, a) as (store, worker):
            told = await asyncio.gather(*(answer(store, asked) for _ in range(100)))
            assert len(set(told)) == 1
            with pytest.raises(AlreadyAnswered, match="ada answered it at 20"):
                await answer(store, asked, ok=False, by="eve")
            await stands(store, run_id, "done")
            assert await answer(store, asked) == told[0]  # and the same again once all is over
            verdicts = [given.verdict for given in await store.answers(asked.request_id)]
            assert verdicts == ["accepted", "answered"]
            return await worker.result(run_id)

    assert outputs(asyncio.run(main())) == ["paid 1"]
    assert DONE == {"pay 1": 1}


@pytest.mark.case("C065")
def test_a_provider_that_fails_after_the_answer_costs_neither_the_answer_nor_the_result(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    broken = ModelError("overloaded", provider="scripted", status=503, retryable=True, retry_after=0.001)
    a = agent([call("pay", {"amount": 1})], broken, fallback=[said("", "all is done")])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        (asked,) = await open_requests(path, run_id)
        result = await answered(path, a, asked, "done", "failed")
        async with process(path, takes=False) as (store, worker):
            types = Counter(record.type for record in await worker.records(run_id))
            assert (types["wait.answered"], types["tool.settled"]) == (1, 1)
            assert types["model.responded"] > 2  # the failure is one of them
            assert (await answer(store, asked)).state == "answered"
        return result

    result = asyncio.run(main())
    assert (result.status, outputs(result), result.output) == ("done", ["paid 1"], "all is done")
    assert DONE == {"pay 1": 1}


@pytest.mark.case("C067")
@pytest.mark.parametrize(
    ("given", "told", "done"),
    [
        ({}, "paid 1", {"pay 1": 1}),
        ({"ok": False, "reason": "no"}, "declined: no", {}),
        ({"arguments": {"amount": 7}}, "paid 7", {"pay 7": 1}),
    ],
)
def test_an_approval_three_agents_down_is_listed_at_the_root_and_answered_from_another_process(
    tmp_path: Path, given: dict[str, Any], told: str, done: dict[str, int]
) -> None:
    path = tmp_path / "runs.db"
    d = Agent("d", said([call("pay", {"amount": 1})], "d is done"), tools=[pay])
    b = Agent("b", said([call("d", {"input": "go"})], "b is done"), tools=[d.as_tool()])
    a = Agent("a", said([call("b", {"input": "go"})], "all is done"), tools=[b.as_tool()])

    async def main() -> tuple[RunResult[Any], list[str]]:
        result = await started(path, a)
        (asked,) = await open_requests(path, result.run_id)
        assert (asked.run_id, asked.op, len(result.requests)) == (result.run_id, "t1.0/t1.0/t1.0", 1)
        result = await answered(path, a, asked, "done", **given)
        async with process(path, takes=False) as (_, worker):
            records = await worker.records(result.run_id)
        return result, [
            r.body["outcome"].output for r in records if r.body.get("op") == asked.op and r.type == "tool.settled"
        ]

    result, settled = asyncio.run(main())
    assert (result.status, result.output, outputs(result)) == ("done", "all is done", ["b is done"])
    assert [told in output for output in settled] == [True]
    assert DONE == done


@pytest.mark.case("C068")
def test_an_answer_that_nobody_waits_for_yet_is_delivered_and_the_next_call_asks_again(tmp_path: Path) -> None:
    path, a = tmp_path / "runs.db", agent([call("pay", {"amount": 1})], [call("pay", {"amount": 1})])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        (asked,) = await open_requests(path, run_id)
        async with process(path, takes=False) as (store, _):  # no worker is there to hear it
            await answer(store, asked)
            assert DONE == {}
        async with process(path, a) as (store, worker):
            await stands(store, run_id, "suspended")
            assert DONE == {"pay 1": 1}
            (again,) = await store.requests(run_id=run_id)
            assert (again.op, again.state) == ("t2.0", "open")
            with pytest.raises(AnswerRefused):
                await answer(store, again._replace(request_id="nobody"))
            await answer(store, again)
            await stands(store, run_id, "done")
            return await worker.result(run_id)

    assert outputs(asyncio.run(main())) == ["paid 1", "paid 1"]
    assert DONE == {"pay 1": 2}


@pytest.mark.case("C070")
def test_a_second_start_with_one_key_opens_no_second_request_and_says_how_far_it_is(tmp_path: Path) -> None:
    path, a = tmp_path / "runs.db", agent([call("pay", {"amount": 1})])

    async def types(run_id: str) -> set[str]:
        async with process(path, takes=False) as (store, _):
            return {row.type for row in await store.rows(run_id)} & {"wait.opened", "wait.answered", "tool.settled"}

    async def main() -> RunResult[Any]:
        first = await started(path, a, key="order-17")
        again = await started(path, a, key="order-17")
        assert (again.run_id, again.status, again.requests) == (first.run_id, "suspended", first.requests)
        (asked,) = await open_requests(path, first.run_id)
        assert (asked.state, await types(first.run_id)) == ("open", {"wait.opened"})
        async with process(path, takes=False) as (store, _):
            assert (await answer(store, asked)).state == "answered"  # approved, and nothing was done yet
        assert (DONE, await types(first.run_id)) == ({}, {"wait.opened"})
        async with process(path, a) as (store, _):
            await stands(store, first.run_id, "done")
        assert await types(first.run_id) == {"wait.opened", "wait.answered", "tool.settled"}
        return await started(path, a, key="order-17")

    result = asyncio.run(main())
    assert (result.status, outputs(result), DONE) == ("done", ["paid 1"], {"pay 1": 1})


@pytest.mark.case("C071")
@pytest.mark.parametrize("ok", [True, False])
def test_a_request_that_expired_while_nothing_ran_is_never_a_yes(tmp_path: Path, ok: bool) -> None:
    path = tmp_path / "runs.db"

    @tool(effect="once")
    async def soon(ctx: Context) -> str:
        """Ask, with little time."""
        ends = ctx.state.setdefault("ends", (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.2)).isoformat())
        answer = ctx.ask("input", "May I?", expiresAt=ends)
        DONE["granted"] += answer.ok
        return "granted" if answer.ok else "refused"

    a = agent([call("soon")], tools=[soon])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        (asked,) = await open_requests(path, run_id)
        while time.time() < (asked.expires or 0.0):
            await asyncio.sleep(0.01)
        async with process(path, takes=False) as (store, _):
            with pytest.raises(AnswerRefused, match="It has expired: no answer is taken any more, and none is ever"):
                await answer(store, asked, ok=ok)
            assert ((await store.asked(asked.request_id)) or asked).state == "expired"
            assert [given.verdict for given in await store.answers(asked.request_id)] == ["expired"]
        async with process(path, a) as (store, worker):
            await stands(store, run_id, "done")
            return await worker.result(run_id)

    result = asyncio.run(main())
    assert (result.status, DONE) == ("done", {})
    assert outputs(result) == ["Tool 'soon' was not called; nobody answered in time."]


# -- durability -------------------------------------------------------------------------------------------------


@pytest.mark.case("C073")
def test_code_that_now_calls_another_tool_first_parks_the_run_with_both_sides_and_runs_nothing(tmp_path: Path) -> None:
    path, a = tmp_path / "runs.db", agent([call("free"), call("pay", {"amount": 1})])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        DONE.clear()
        async with process(path, takes=False) as (store, _):  # the same records, of a time when `quiz` came first
            whole = await store.whole(run_id)
            assert whole is not None
            last = [row.type for row in whole.rows].index("tool.intended") + 1
            rows = [
                row._replace(body=row.body.replace(b'"tool":"free"', b'"tool":"quiz"')) for row in whole.rows[:last]
            ]
            entry = whole.entry._replace(run_id="other", root="other", state="running", seq=last)
            await store.adopt(Whole(entry, rows))
        async with process(path, a) as (store, worker):
            await stands(store, "other", "blocked")
            return await worker.result("other")

    result = asyncio.run(main())
    assert (result.status, result.reason, DONE) == ("blocked", "nondeterminism", {})
    assert "tells of 't1.0' as tool 'quiz', and this code commands tool 'free' there" in (result.error or "")


async def bytes_of(path: Path, turns: int, tools: Sequence[Any], name: str = "look") -> int:
    a = Agent("a", said(*[[call(name)] for _ in range(turns)], "all is done"), tools=tools, limits=Limits(turns=500))
    result = await started(path, a)
    assert result.status == "done"
    store = SqliteStore(path)
    await store.open()
    rows = await store.rows(result.run_id)
    await store.close()
    return sum(len(row.body) for row in rows)


@pytest.mark.case("C077")
def test_two_hundred_turns_take_twice_the_bytes_of_a_hundred(tmp_path: Path) -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look at 2 KB."""
        return "x" * 2_000

    async def main() -> float:
        one = await bytes_of(tmp_path / "a.db", 100, [look])
        assert one < 100 * 3_000
        return await bytes_of(tmp_path / "b.db", 200, [look]) / one

    assert 1.9 < asyncio.run(main()) <= 2.2


@pytest.mark.case("C077")
def test_a_payload_that_goes_through_three_agents_is_stored_once(tmp_path: Path) -> None:
    large = "payload " * 131_072  # 1 MiB
    path = tmp_path / "runs.db"

    @tool(effect="read", max_output=2_000_000)
    async def fetch() -> str:
        """Fetch it."""
        return large

    def through(name: str) -> Any:
        def model(request: Any) -> Any:
            found = request.messages[-1]
            given = {} if name == "fetch" else {"input": "go"}
            return found.output if isinstance(found, ToolMessage) else [call(name, given)]

        return model

    d = Agent("d", through("fetch"), tools=[fetch], limits=Limits(turn_output=3_000_000))
    b = Agent("b", through("d"), tools=[d.as_tool()], limits=Limits(turn_output=3_000_000))
    a = Agent("a", through("b"), tools=[b.as_tool()], limits=Limits(turn_output=3_000_000))

    async def main() -> int:
        assert (await started(path, a)).status == "done"
        async with process(path, takes=False) as (store, _):
            return await store.size()

    assert asyncio.run(main()) < 1.6 * len(large)


@pytest.mark.case("C041")
def test_after_a_picture_of_5_mb_fifty_steps_are_small_and_the_store_has_one_copy(tmp_path: Path) -> None:
    path, picture = tmp_path / "runs.db", b"\x89PNG\r\n\x1a\n" + bytes(5_000_000)

    @tool(effect="read")
    async def draw() -> Any:
        """Draw."""
        return image(picture)

    async def main() -> tuple[int, int]:
        steps = await bytes_of(path, 50, [draw], "draw")
        async with process(path, takes=False) as (store, _):
            return steps, await store.size()

    steps, size = asyncio.run(main())
    assert steps < 50 * 2_000
    assert size < 1.5 * len(picture)  # a part is stored in base64


@pytest.mark.case("C079")
def test_a_paused_run_is_found_after_a_new_start_and_work_for_it_says_whether_somebody_acts(tmp_path: Path) -> None:
    path, a = tmp_path / "runs.db", agent([call("pay", {"amount": 1})])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        async with process(path, takes=False) as (store, _):
            (entry,) = await store.entries(state="suspended")
            assert (entry.run_id, entry.worker) == (run_id, None)
            assert [about["takes"] for _, about in (await store.workers()).values()] == [[]]  # nobody would take it
            (asked,) = await store.requests(run_id=run_id)
            await answer(store, asked)
        async with process(path, a) as (store, worker):
            await stands(store, run_id, "done")
            assert [about["takes"] for _, about in (await store.workers()).values()] == [["a"]]
            assert not await store.post(run_id, "cancel", b'{"by":"ada"}')  # nothing acts on it, and so it is refused
            return await worker.result(run_id)

    assert outputs(asyncio.run(main())) == ["paid 1"]


@pytest.mark.case("C029")
def test_lone_surrogates_in_results_and_errors_are_stored_and_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    @tool(effect="read")
    async def odd(fail: bool) -> str:
        """Give odd text."""
        if fail:
            raise ValueError("a\udc97b")
        return "a\udc97b"

    a = agent([call("odd", {"fail": False}), call("odd", {"fail": True}), call("pay", {"amount": 1})], tools=[odd, pay])

    async def main() -> RunResult[Any]:
        run_id = (await started(path, a)).run_id
        (asked,) = await open_requests(path, run_id)
        return await answered(path, a, asked, "done")

    one, two, three = outputs(asyncio.run(main()))
    assert (one, three) == ("a\ufffdb", "paid 1")
    assert "a\ufffdb" in two


@pytest.mark.seed("TNX-25")
def test_a_run_whose_tool_suspends_parks_and_goes_on_after_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    @tool(effect="read")
    async def ask(ctx: Context) -> ToolResult:
        """Ask."""
        return ToolResult.ok(f"it is {(ctx.ask('question', 'Who?').data or {})['name']}")

    a = agent([call("ask")], tools=[ask])

    async def main() -> RunResult[Any]:
        result = await started(path, a)
        assert result.status == "suspended"
        (asked,) = await open_requests(path, result.run_id)
        return await answered(path, a, asked, "done", data={"name": "Eve"})

    assert outputs(asyncio.run(main())) == ["it is Eve"]


# -- what a provider said, after a restart ----------------------------------------------------------------------


async def over_a_restart(
    path: Path, api: str, asking: Any, answers: Sequence[ServerAnswer]
) -> tuple[RunResult[Any], list[Any]]:
    """A run that waits for approvals in one process and goes on in the next, against one server."""
    async with Server(*answers) as server:

        def made() -> Agent[Any, Any]:
            return Agent("a", model(api, server.url), tools=[asking, free])

        result = await started(path, made())
        run_id = result.run_id
        while waiting := await open_requests(path, run_id):
            async with process(path, made()) as (store, worker):
                for asked in waiting:
                    await answer(store, asked)
                await stands(store, run_id, "suspended", "done")
                result = await worker.result(run_id)
        for request in server.asked:
            check(api, request)
        return result, server.asked


@pytest.mark.case("C050")
@pytest.mark.parametrize("api", OPAQUE)
def test_what_a_provider_signed_goes_back_unchanged_after_a_restart(tmp_path: Path, api: str) -> None:
    @tool(effect="read", approval=True)
    async def get_weather(city: str) -> str:
        """Current weather of a city."""
        return f"rain in {city}"

    answers = [http_answer(example(api, "response-tool-calls.json")), say(api, Turn("ok"))]
    result, asked = asyncio.run(over_a_restart(tmp_path / "runs.db", api, get_weather, answers))
    signature, times = OPAQUE[api]
    assert (result.status, len(asked)) == ("done", 2)
    assert asked[1].body.decode().count(signature) == times


@pytest.mark.case("C049")
@pytest.mark.parametrize("api", APIS)
def test_an_id_that_comes_again_for_another_tool_keeps_both_results_over_a_restart(tmp_path: Path, api: str) -> None:
    @tool(effect="read", approval=True)
    async def find(q: str) -> str:
        """Find something, when somebody agrees."""
        return f"found {q}"

    turns = [Turn(calls=[("X", "free", "{}")]), Turn(calls=[("X", "find", '{"q": "y"}')]), Turn("ok")]
    result, asked = asyncio.run(over_a_restart(tmp_path / "runs.db", api, find, [say(api, t) for t in turns]))
    assert outputs(result) == ["did free", "found y"]
    assert all(text in asked[-1].body.decode() for text in outputs(result))
