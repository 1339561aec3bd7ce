"""Answers given in process: used only when they fit what was asked, and in time."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from tests.clock import run

from ferrule import Agent, Answer, Context, Request, tool
from ferrule.message import ToolMessage
from ferrule.testing import ScriptedModel, call

SCHEMA = {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}


def asking(made: list[Any], expires_in: float | None = None) -> Any:
    at = None
    if expires_in is not None:
        at = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=expires_in)).isoformat()

    @tool(effect="once")
    async def book(ctx: Context) -> str:
        answer = ctx.ask("input", "Which day?", data={"schema": SCHEMA}, expiresAt=at)
        made.append(answer.data)
        return "booked"

    return book


def asked(given: Answer | None, made: list[Any], *, takes: float = 0, expires_in: float | None = None) -> Any:
    async def answer(request: Request) -> Answer | None:
        if takes:
            await asyncio.sleep(takes)
        return given

    agent = Agent("a", ScriptedModel([call("book"), "ok"]), tools=[asking(made, expires_in)])
    return run(agent.run("go", on_request=answer))


ID = "t1.0/1"


@pytest.mark.parametrize(
    ("data", "taken"),
    [({"day": 3}, True), ({"day": "third"}, False), ({}, False), (None, False), ({"day": 3, "more": 1}, True)],
)
def test_an_answer_is_used_only_when_it_fits_the_schema(data: Any, taken: bool, caplog: Any) -> None:
    made: list[Any] = []
    result = asked(Answer(ID, ok=True, data=data), made)
    assert result.status == ("done" if taken else "suspended")
    assert made == ([data] if taken else [])
    assert [r.id for r in result.requests] == ([] if taken else [ID])
    assert "third" not in caplog.text


def test_whoever_answers_need_not_be_async() -> None:
    made: list[Any] = []
    agent = Agent("a", ScriptedModel([call("book"), "ok"]), tools=[asking(made)])
    result = run(agent.run("go", on_request=lambda request: Answer(request.id, ok=True, data={"day": 2})))
    assert (result.status, made) == ("done", [{"day": 2}])


def test_a_no_needs_no_data() -> None:
    made: list[Any] = []
    result = asked(Answer(ID, ok=False), made)
    assert (result.status, made) == ("done", [])


@pytest.mark.parametrize(
    ("takes", "expires_in", "expired"), [(1, 100, False), (200, 100, True), (0, -1, True), (1, None, False)]
)
def test_no_answer_is_taken_after_its_time(takes: float, expires_in: float | None, expired: bool) -> None:
    made: list[Any] = []
    result = asked(Answer(ID, ok=True, data={"day": 1}), made, takes=takes, expires_in=expires_in)
    (told,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert told.output == ("Tool 'book' was not called; nobody answered in time." if expired else "booked")
    assert made == ([] if expired else [{"day": 1}])


def test_an_answer_inside_a_run_inside_expires_too() -> None:
    made: list[Any] = []

    async def late(request: Request) -> Answer:
        await asyncio.sleep(500)
        return Answer(request.id, ok=True, data={"day": 1})

    inner = Agent("inner", ScriptedModel([call("book"), "ok"]), tools=[asking(made, 100)])
    outer = Agent("outer", ScriptedModel([call("inner", '{"input": "x"}'), "fine"]), tools=[inner.as_tool()])
    result = run(outer.run("go", on_request=late))
    assert (result.status, result.output, made) == ("done", "fine", [])
