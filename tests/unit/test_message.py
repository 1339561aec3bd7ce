"""Transcripts: prompts, pairing, views without copies, and the journal's form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Part, ToolResult, UsageError, image, text
from ferrule.message import (
    Call,
    Message,
    ModelMessage,
    Raw,
    ToolMessage,
    Transcript,
    Usage,
    system,
    told,
    unpaired,
    user,
)
from ferrule.strict_json import dumps, parse, plain, restore, typed

PIXEL = image(b"\x89PNG\r\n\x1a\n" + b"\0" * 30, mime_type="image/png")
CALL = Call("t1.0", "add", '{"a": 1}', "w1")


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("hello", (Part("text", text="hello"),)),
        (PIXEL, (PIXEL,)),
        (["look", PIXEL], (Part("text", text="look"), PIXEL)),
        ((text("a"), "b"), (Part("text", text="a"), Part("text", text="b"))),
        (user("again"), (Part("text", text="again"),)),
    ],
)
def test_a_prompt_is_text_parts_or_both(prompt: Any, parts: tuple[Part, ...]) -> None:
    assert user(prompt).parts == parts


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (5, "a prompt must be text, parts or a list of both, not int"),
        ({"type": "text"}, "a prompt must be text, parts or a list of both, not dict"),
        ([], "the prompt is empty"),
        (["a", 5], "the prompt holds int"),
        (["a", None], "the prompt holds NoneType"),
    ],
)
def test_what_is_no_prompt_is_refused_by_name(prompt: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        user(prompt)


@pytest.mark.parametrize(
    "message",
    [user(PIXEL), told(CALL, ToolResult.ok(parts=[PIXEL])), ToolMessage(CALL, "seen", parts=({"data": PIXEL.data},))],
)
def test_no_message_shows_the_data_of_a_part(message: Message) -> None:
    assert PIXEL.data is not None
    assert PIXEL.data not in repr(message)


def test_a_tool_message_shows_the_rest() -> None:
    shown = f"ToolMessage(call={CALL}, output='ok', is_error=False, parts=(<image (image/png, 38 bytes)>))"
    assert shown == repr(told(CALL, ToolResult.ok(output="ok", parts=[PIXEL])))


def test_a_user_message_tells_its_text() -> None:
    assert user(["one", PIXEL, "two"]).text == "one\ntwo"


def test_a_result_is_told_by_output_state_and_parts() -> None:
    failed = ToolResult.failed("no")
    assert told(CALL, failed) == ToolMessage(CALL, "no", is_error=True)
    seen = ToolResult.ok("x", parts=[PIXEL])
    assert [p["type"] for p in told(CALL, seen).parts] == ["image"]


OTHER = Call("t1.1", "add", "{}")


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([user("x"), ModelMessage("", (CALL, OTHER)), ToolMessage(CALL, "1"), ToolMessage(OTHER, "2")], None),
        ([], None),
        ([ModelMessage("", (CALL,))], "call 't1.0' (add) has no result"),
        ([ModelMessage("", (CALL,)), user("x")], "call 't1.0' (add) has no result"),
        ([ModelMessage("", (CALL, OTHER)), ToolMessage(CALL, "1")], "call 't1.1' (add) has no result"),
        (
            [ModelMessage("", (CALL, OTHER)), ToolMessage(OTHER, "2"), ToolMessage(CALL, "1")],
            "the result of call 't1.1' (add) does not follow its call",
        ),
        ([ToolMessage(CALL, "1")], "the result of call 't1.0' (add) does not follow its call"),
        (
            [ModelMessage("", (CALL,)), ToolMessage(CALL, "1"), ToolMessage(CALL, "1")],
            "the result of call 't1.0' (add) does not follow its call",
        ),
    ],
)
def test_calls_and_results_are_paired_in_order(messages: list[Message], why: str | None) -> None:
    assert unpaired(messages) == why


@given(st.integers(0, 6), st.integers(0, 6), st.slices(6))
def test_a_transcript_is_the_first_messages_of_a_growing_list(length: int, more: int, part: slice) -> None:
    messages: list[Message] = [user(str(n)) for n in range(length)]
    seen = Transcript(messages)
    before = list(messages)
    messages.extend(user(f"later {n}") for n in range(more))
    assert list(seen) == before
    assert (len(seen), seen[part]) == (length, before[part])
    assert [seen[-n] for n in range(1, length + 1)] == before[::-1]
    with pytest.raises(IndexError):
        seen[length]


@pytest.mark.parametrize(
    "message",
    [
        user(["one", PIXEL]),
        ModelMessage("hi", (CALL, OTHER), "thought", Raw("gemini", "m", [{"a": 1}])),
        ModelMessage(),
        ToolMessage(
            CALL, "out", is_error=True, parts=({"type": "image", "mimeType": "image/png", "url": "https://x"},)
        ),
        Usage(1, 2, None, 3, 0.5, 1),
    ],
)
def test_a_message_comes_back_from_the_journal_as_it_was(message: Any) -> None:
    message_again = restore(parse(dumps(typed(message))))
    assert (type(message_again), message_again) == (type(message), message)


def test_bytes_that_an_adapter_keeps_are_no_part_of_the_value() -> None:
    a, b = user("x"), user("x")
    a.wire = {"kept": b"bytes"}
    assert a == b
    assert "kept" not in repr(a)
    assert typed(a) == typed(b)


@given(*(st.builds(Usage, *[st.none() | st.integers(0, 9)] * 4, st.none() | st.floats(0, 9), st.integers(0, 3)),) * 2)
def test_usage_adds_up_and_what_nobody_told_stays_none(a: Usage, b: Usage) -> None:
    total = a + b
    for name in ("input", "output", "cached", "reasoning"):
        known = [v for v in (getattr(a, name), getattr(b, name)) if v is not None]
        assert getattr(total, name) == (sum(known) if known else None)
    assert total.requests == a.requests + b.requests


USAGES = st.builds(Usage, *[st.none() | st.integers(0, 9)] * 4, st.none() | st.integers(0, 9), st.integers(0, 3))


@given(st.lists(USAGES))
def test_a_cost_is_known_when_all_of_it_is(found: list[Usage]) -> None:
    costs = [u.cost for u in found if u != Usage()]
    total = sum(found, Usage())
    assert total.cost == (None if not costs or None in costs else sum(c for c in costs if c is not None))
    assert total.unpriced == (None in costs)


def test_a_message_says_whose_it_is() -> None:
    asked = Call("t1.0", "add", "{}")
    said = [user("a"), system("a"), ModelMessage("b", (asked,)), ToolMessage(asked, "c")]
    assert [message["role"] for message in plain(said)] == ["user", "system", "model", "tool"]
    assert restore(typed(said)) == said
