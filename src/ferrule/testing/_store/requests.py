"""Requests, and that each takes one answer."""

from __future__ import annotations

import asyncio
from collections import Counter

from ferrule.journal.store import Asked, Batch, Decision, Given, Verdict
from ferrule.strict_json import parse
from ferrule.testing._store.ground import Ground, expect, only, rows

YES = Decision(b'{"ok":true}', "ann", "cli", "d" * 64)
NO = Decision(b'{"ok":false}', "bob", "http")


async def _answered(g: Ground, request_id: str, decision: Decision, now: float, wanted: Verdict) -> Asked:
    verdict, asked = await g.store.answer(request_id, decision, now)
    expect(verdict, wanted, f"what becomes of {decision.answer!r}")
    expect(asked, await g.store.asked(request_id), "the request that is told of")
    assert asked is not None
    return asked


async def a_request_is_kept_as_it_was_opened(g: Ground) -> None:
    held = await g.held()
    asked = g.asked(held, body='{"prompt":"Öffnen?"}'.encode(), expires=4e9)
    await g.store.append(held, Batch(rows(2, 2), opened=[asked]))
    expect(await g.store.asked(asked.request_id), asked, "the request")
    expect(await g.store.asked(f"{asked.request_id}-none"), None, "a request that is not there")


async def an_answer_is_accepted_and_sent_to_the_run(g: Ground) -> None:
    opened = await g.open(expires=2_000.0)
    asked = await _answered(g, opened.request_id, YES, 1_999.5, "accepted")
    wanted = opened._replace(state="answered", answer=YES.answer, by="ann", channel="cli", answered=1_999.5)
    expect(asked, wanted, "the request")
    letter = only(await g.store.letters(opened.run_id), "letters there are")
    told = {"request_id": opened.request_id, "op": "t0.0", "by": "ann", "channel": "cli", "at": 1_999.5}
    expect((letter.kind, parse(letter.body)), ("answer", {**told, "answer": {"ok": True}}), "the letter")
    expect(await g.claimed(await g.enlist()), [opened.run_id], "what is due")


async def the_same_answer_again_is_no_second_one(g: Ground) -> None:
    opened = await g.open(expires=2_000.0)
    first = await _answered(g, opened.request_id, YES, 1.0, "accepted")
    again = YES._replace(by="someone else", channel="http")
    expect(await _answered(g, opened.request_id, again, 2.0, "same"), first, "the request")
    expect(await _answered(g, opened.request_id, YES, 3_000.0, "same"), first, "the request when its time is over")
    expect(len(await g.store.letters(opened.run_id)), 1, "how many letters came")
    expect(await g.store.answers(opened.request_id), [Given(1.0, "accepted", YES)], "the answers that are kept")


async def another_answer_is_refused_and_kept(g: Ground) -> None:
    opened = await g.open()
    first = await _answered(g, opened.request_id, YES, 1.0, "accepted")
    expect(await _answered(g, opened.request_id, NO, 2.0, "answered"), first, "the request")
    expect(len(await g.store.letters(opened.run_id)), 1, "how many letters came")
    wanted = [Given(1.0, "accepted", YES), Given(2.0, "answered", NO)]
    expect(await g.store.answers(opened.request_id), wanted, "the answers that are kept")


async def of_a_hundred_answers_at_once_one_is_accepted(g: Ground) -> None:
    opened = await g.open()
    given = [YES._replace(answer=b'{"n":%d}' % n) for n in range(100)]
    told = await asyncio.gather(*(g.store.answer(opened.request_id, decision, 1.0) for decision in given))
    expect(Counter(verdict for verdict, _ in told), {"accepted": 1, "answered": 99}, "what became of them")
    asked = await g.store.asked(opened.request_id)
    winner = only(
        [decision for decision, (verdict, _) in zip(given, told, strict=True) if verdict == "accepted"], "were accepted"
    )
    expect(asked and asked.answer, winner.answer, "the answer of the request")
    letter = only(await g.store.letters(opened.run_id), "letters there are")
    expect(parse(letter.body)["answer"], parse(winner.answer), "the answer in the letter")
    expect(len(await g.store.answers(opened.request_id)), 100, "how many are kept")


async def no_answer_is_taken_from_the_end_of_the_time_on(g: Ground) -> None:
    opened = await g.open(expires=2_000.0)
    for now, decision in ((2_000.0, YES), (2_001.0, NO), (1.0, YES)):  # once it has expired, no clock brings it back
        asked = await _answered(g, opened.request_id, decision, now, "expired")
        expect(asked, opened._replace(state="expired"), "the request")
    expect(await g.store.letters(opened.run_id), [], "letters to its run")
    wanted = [Given(2_000.0, "expired", YES), Given(2_001.0, "expired", NO), Given(1.0, "expired", YES)]
    expect(await g.store.answers(opened.request_id), wanted, "the answers that are kept")


async def a_closed_request_takes_no_answer(g: Ground) -> None:
    held = await g.held()
    soon, never = g.asked(held, "a", expires=2.0), g.asked(held, "b")
    await g.store.append(held, Batch(rows(2, 2), opened=[soon, never]))
    await g.store.append(held, Batch(rows(3, 3), closed=[soon.request_id, never.request_id]))
    await _answered(g, never.request_id, YES, 1.0, "closed")
    await _answered(g, soon.request_id, YES, 1.0, "expired")  # its time was over when it was closed
    expect(await g.store.letters(held.run_id), [], "letters to its run")
    expect(await g.store.answers(never.request_id), [Given(1.0, "closed", YES)], "the answers that are kept")


async def an_answered_request_stays_so_when_its_call_is_settled(g: Ground) -> None:
    held = await g.held()
    await g.store.append(held, Batch(rows(2, 2), opened=[g.asked(held)]))
    asked = await _answered(g, g.asked(held).request_id, YES, 1.0, "accepted")
    await g.store.append(held, Batch(rows(3, 3), closed=[asked.request_id], state="done"))
    expect(await g.store.asked(asked.request_id), asked, "the request")


async def a_run_that_is_over_has_no_open_request(g: Ground) -> None:
    held = await g.held()
    await g.store.append(held, Batch(rows(2, 2), opened=[g.asked(held)]))
    await g.store.append(held, Batch(rows(3, 3), state="cancelled"))
    await _answered(g, g.asked(held).request_id, YES, 1.0, "closed")


async def an_answer_to_nothing_is_unknown(g: Ground) -> None:
    expect(await g.store.answer(f"none-{g.mark}", YES, 1.0), ("unknown", None), "what becomes of it")


async def requests_are_listed_the_oldest_first(g: Ground) -> None:
    held = await g.held()
    asked = [g.asked(held, name) for name in "cab"]
    await g.store.append(held, Batch(rows(2, 2), opened=asked))
    expect(await g.store.requests(run_id=held.run_id), asked, "the open ones")
    expect(await g.store.requests(run_id=held.run_id, limit=2), asked[:2], "the first two")
    await g.store.answer(asked[0].request_id, YES, 1.0)
    expect(await g.store.requests(run_id=held.run_id), asked[1:], "those still open")
    answered = only(await g.store.requests(run_id=held.run_id, state="answered"), "requests there are")
    expect(answered.request_id, asked[0].request_id, "those answered")
    everyone = await g.store.requests(run_id=held.run_id, state=None)
    expect(everyone, [answered, *asked[1:]], "all")
    all_open = await g.store.requests(limit=1_000_000)
    expect([one for one in all_open if one.run_id == held.run_id], asked[1:], "the open ones of all runs")


async def requests_of_runs_inside_are_listed_at_each_run_around(g: Ground) -> None:
    top = await g.held()
    child = await g.held(parent=top.run_id, root=top.run_id)
    below = await g.held(parent=child.run_id, root=top.run_id)
    await g.held()
    asked = [g.asked(held) for held in (below, top, child)]
    for held, one in zip((below, top, child), asked, strict=True):
        await g.store.append(held, Batch(rows(2, 2), opened=[one]))
    expect(await g.store.requests(run_id=top.run_id), asked, "at the outermost run")
    expect(await g.store.requests(run_id=child.run_id), [asked[0], asked[2]], "at the run in the middle")
    expect(await g.store.requests(run_id=below.run_id), [asked[0]], "at the innermost run")
