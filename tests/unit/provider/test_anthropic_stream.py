from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.anthropic_support import MODEL, events, example

from ferrule.errors import ModelError
from ferrule.message import Call, Usage
from ferrule.provider.anthropic.wire import AnthropicWire
from ferrule.provider.base import Decoder, Delta, ModelResponse

WIRE = AnthropicWire()
PARALLEL = events("stream-parallel")


def feed(found: Iterable[Any]) -> tuple[list[Delta], Decoder]:
    decoder = WIRE.decoder(MODEL)
    return list(itertools.chain.from_iterable(decoder.feed("message", e) for e in found)), decoder


def whole(found: Iterable[Any]) -> ModelResponse:
    return feed(found)[1].finish()


def opened(block: Any, *deltas: Any, index: int = 0) -> list[Any]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def streamed(*blocks: Any, stop_reason: str = "end_turn", usage: Any = None) -> list[Any]:
    return [
        {"type": "message_start", "message": {"model": MODEL, "content": [], "usage": {"input_tokens": 2}}},
        *itertools.chain.from_iterable(blocks),
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage or {"output_tokens": 3}},
        {"type": "message_stop"},
    ]


def use(*pieces: str, index: int = 0, start: Any = None) -> list[Any]:
    block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": start or {}}
    return opened(block, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces), index=index)


def test_a_streamed_answer_is_the_same_as_a_whole_one() -> None:
    body = WIRE.response(example("response-tool-calls"), MODEL)
    found = whole(PARALLEL)
    # The text of arguments is the model's own, white space included.
    calls = tuple(
        Call("", "get_weather", f'{{"city": "{city}"}}', id)
        for city, id in (("Oslo", "toolu_a1"), ("Rome", "toolu_a2"))
    )
    assert calls == found.message.calls
    assert (body.finish, body.usage, body.model, body.message.raw, body.message.reasoning) == (
        found.finish,
        found.usage,
        found.model,
        found.message.raw,
        found.message.reasoning,
    )


def test_pieces_are_told_as_they_come() -> None:
    wanted = [
        Delta("reasoning", "Two cities, "),
        Delta("reasoning", "two calls."),
        Delta("call", "get_weather"),
        Delta("call", "get_weather"),
    ]
    assert wanted == feed(PARALLEL)[0]


def test_text_comes_in_pieces_and_is_whole_at_the_end() -> None:
    text = opened({"type": "text", "text": "A"}, *({"type": "text_delta", "text": t} for t in ("b", "", "c")))
    told, decoder = feed(streamed(text))
    assert [Delta("text", t) for t in "Abc"] == told
    found = decoder.finish()
    assert ("Abc", "stop", Usage(input=2, output=3)) == (found.message.text, found.finish, found.usage)


def test_citations_join_their_text() -> None:
    cite = {"type": "citations_delta", "citation": {"type": "char_location"}}
    found = whole(streamed(opened({"type": "text", "text": "A", "citations": None}, cite, cite)))
    assert found.message.raw is not None
    assert [{"type": "text", "text": "A", "citations": [{"type": "char_location"}] * 2}] == found.message.raw.items


def test_later_counts_replace_earlier_ones_and_absent_ones_stay() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": None, "output_tokens": 7}
    assert Usage(input=5, output=7) == whole(streamed(usage=usage)).usage
    assert Usage(input=2, output=7) == whole(streamed(usage={"output_tokens": 7})).usage


def test_pings_unknown_events_and_odd_data_are_ignored() -> None:
    noise: list[Any] = [
        {"type": "ping"},
        {"type": "new_event", "index": 0},
        {"type": "content_block_start", "index": 9, "content_block": {}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": None}},
        {"type": "content_block_stop", "index": 9},
        {"type": []},
        {},
    ]
    found = [*PARALLEL[:-2], *noise, *PARALLEL[-2:]]
    assert whole(PARALLEL) == whole(found)
    decoder = WIRE.decoder(MODEL)
    assert [[], [], []] == [list(decoder.feed("message", data)) for data in (None, "text", [1])]


@pytest.mark.parametrize("drop", ["content_block_start", "start that comes late"])
def test_pieces_of_a_block_that_has_not_begun_make_an_answer_that_nobody_may_run(drop: str) -> None:
    """Without their beginning the arguments of a call would be another call's, or none."""
    at = next(i for i, e in enumerate(PARALLEL) if e.get("content_block", {}).get("type") == "tool_use")
    events = [*PARALLEL[:at], *PARALLEL[at + 1 :]]
    if drop != "content_block_start":
        end = next(i for i, e in enumerate(events) if i >= at and e["type"] == "content_block_stop")
        events.insert(end, PARALLEL[at])
    found = whole(events)
    assert (found.finish, str(found.error)) == ("unknown", "anthropic: the answer was cut before its end. Ask again")
    assert not any(call.complete for call in found.message.calls)


def test_the_name_of_an_event_serves_where_its_data_has_no_type() -> None:
    decoder = WIRE.decoder(MODEL)
    for event in PARALLEL:
        list(decoder.feed(event["type"], {k: v for k, v in event.items() if k != "type"}))
    assert whole(PARALLEL) == decoder.finish()


@pytest.mark.parametrize(
    ("pieces", "start", "arguments"),
    [
        ((), None, "{}"),
        (("", " "), None, "{}"),
        ((), {"sum": 1}, '{"sum":1}'),
        (('{"a"', ": 1}"), {"b": 2}, '{"a": 1}'),
    ],
)
def test_arguments_are_the_pieces_or_else_what_the_call_began_with(
    pieces: tuple[str, ...], start: Any, arguments: str
) -> None:
    [call] = whole(streamed(use(*pieces, start=start), stop_reason="tool_use")).message.calls
    assert Call("", "pay", arguments, "toolu_1") == call


def test_arguments_that_do_not_parse_are_kept_as_they_came_and_cut_ones_are_no_whole_call() -> None:
    found = whole(streamed(use('{"token":"tok', "_FAKE"), stop_reason="tool_use"))
    [call] = found.message.calls
    assert ('{"token":"tok_FAKE', False) == (call.arguments, call.complete)
    assert found.message.raw is not None
    assert {} == found.message.raw.items[0]["input"]


@pytest.mark.case("C055")
@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "pause_turn", "new"])
def test_no_call_is_complete_after_any_other_reason_to_stop(reason: str) -> None:
    assert [False] == [call.complete for call in whole(streamed(use("{}"), stop_reason=reason)).message.calls]


def test_a_call_whose_block_never_ended_is_not_complete() -> None:
    found = whole(streamed(use("{}"), use("{}", index=1)[:-1], stop_reason="tool_use"))
    assert [True, False] == [call.complete for call in found.message.calls]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def cut_in_pieces(draw: st.DrawFn) -> tuple[str, list[str]]:
    value = draw(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]


@given(cut_in_pieces(), cut_in_pieces(), st.randoms(use_true_random=False))
def test_arguments_do_not_depend_on_how_they_were_cut(
    first: tuple[str, list[str]], second: tuple[str, list[str]], random: Any
) -> None:
    a, b = use(*first[1]), use(*second[1], index=1)
    mixed = [a.pop(0), b.pop(0)]  # two blocks may grow side by side
    while a or b:
        mixed.append((a if a and (not b or random.random() < 0.5) else b).pop(0))
    found = whole(streamed(mixed, stop_reason="tool_use"))
    assert [(first[0], True), (second[0], True)] == [(c.arguments, c.complete) for c in found.message.calls]
    assert found.message.raw is not None
    assert [json.loads(first[0]), json.loads(second[0])] == [item["input"] for item in found.message.raw.items]


# -- cut and broken streams -------------------------------------------------------------------------------------


@pytest.mark.case("C055")
@pytest.mark.parametrize("length", range(len(PARALLEL)))
def test_a_stream_cut_after_any_event_is_an_error_without_a_complete_call(length: int) -> None:
    found = whole(PARALLEL[:length])
    assert ("unknown", None) == (found.finish, found.message.raw)
    assert found.error is not None
    assert ("the answer was cut before its end. Ask again", True) == (found.error.reason, found.error.retryable)
    assert not any(call.complete for call in found.message.calls)
    assert (found.usage is None) == (length == 0)


def test_a_cut_stream_keeps_the_text_that_came() -> None:
    text = opened({"type": "text", "text": ""}, {"type": "text_delta", "text": "Half"})
    assert "Half" == whole(streamed(text)[:-2]).message.text


def test_a_stream_that_ends_without_a_reason_is_cut() -> None:
    found = whole([event for event in PARALLEL if event["type"] != "message_delta"])
    assert "unknown" == found.finish
    assert not any(call.complete for call in found.message.calls)


@pytest.mark.parametrize("length", [0, 5, len(PARALLEL) - 1])
@pytest.mark.parametrize(
    ("kind", "retryable", "says"),
    [
        ("overloaded_error", True, "the server is overloaded"),
        ("rate_limit_error", True, "too many requests"),
        ("api_error", True, "the server failed"),
        ("invalid_request_error", False, "the request was refused"),
        ("new_error", True, "the server failed"),
    ],
)
def test_an_error_inside_a_stream_is_raised_and_leaves_no_complete_call(
    length: int, kind: str, retryable: bool, says: str
) -> None:
    decoder = feed(PARALLEL[:length])[1]
    with pytest.raises(ModelError) as caught:
        list(
            decoder.feed("error", {"type": "error", "error": {"type": kind, "message": "Oops"}, "request_id": "req_1"})
        )
    error = caught.value
    assert (f"{says}: Oops", kind, retryable, "req_1", None) == (
        error.reason,
        error.code,
        error.retryable,
        error.request_id,
        error.status,
    )
    assert not any(call.complete for call in decoder.finish().message.calls)
