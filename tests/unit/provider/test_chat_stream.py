from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.chat import (
    OSLO,
    ROME,
    USAGE,
    answered,
    body,
    chunk,
    decoded,
    events,
    is_chunk,
    kept,
    piece,
    whole,
    wire,
)

from ferrule.errors import ModelError
from ferrule.message import Call, ModelMessage, Usage
from ferrule.provider.base import Delta, ModelResponse


def calls(*stream: Any, finish: str = "tool_calls") -> list[tuple[str, str, str | None]]:
    answer, _ = decoded([*stream, chunk(finish)])
    return [(c.name, c.arguments, c.wire_id) for c in answer.message.calls]


# -- the examples --------------------------------------------------------------------------------------


def test_openais_own_stream_is_put_together() -> None:
    stream = events("openai-chat/stream-parallel.jsonl")
    assert all(map(is_chunk, stream))
    answer, deltas = decoded(stream)
    a, b = Call("", "get_weather", OSLO, "call_a1"), Call("", "get_weather", ROME, "call_a2")
    assert ModelResponse(ModelMessage("", (a, b)), "tool_calls", USAGE, "example-model", "chatcmpl-s1") == answer
    assert [Delta("call", "get_weather"), Delta("call", "get_weather")] == deltas


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("index-zero", [("get_weather", OSLO, "call_p1"), ("get_weather", ROME, "call_p2")]),
        ("no-index", [("get_weather", OSLO, "call_q1"), ("get_weather", ROME, "call_q2")]),
        ("name-later", [("get_weather", OSLO, "call_r1"), ("read_chart", "{}", "call_r2")]),
        ("same-chunk-twice", [("get_weather", OSLO, "call_s1")]),
    ],
)
@pytest.mark.case("C047")
def test_calls_are_put_together_however_a_server_numbers_them(name: str, expected: Any) -> None:
    answer, deltas = decoded(events(f"compat/stream-{name}.jsonl"))
    assert expected == [(c.name, c.arguments, c.wire_id) for c in answer.message.calls]
    assert all(c.complete for c in answer.message.calls)
    assert "tool_calls" == answer.finish
    assert [Delta("call", name) for name, _, _ in expected] == deltas


@pytest.mark.case("C056")
def test_a_refused_call_inside_a_stream_is_an_answer_with_the_text_before_it() -> None:
    before, error = events("compat/stream-error-event.jsonl")
    decoder = wire("groq").decoder("m")
    assert [Delta("text", "may")] == list(decoder.feed("message", before))
    assert [] == list(decoder.feed("error", error))
    assert [] == list(decoder.feed("message", before))
    call = Call("", "get_weather", '{"town":"Oslo"}')
    mended = {0: "tool arguments do not match the schema"}
    assert ModelResponse(ModelMessage("may", (call,)), "tool_calls", model="m", mended=mended) == decoder.finish()


def test_a_refused_call_that_was_streamed_itself_is_answered() -> None:
    error = {"error": {"code": "tool_use_failed", "message": "no", "failed_generation": ""}}
    answer, _ = decoded([piece("a", 0, "t", "{}"), error], "groq", done=False)
    assert ((Call("", "t", "{}", "a"),), {0: "no"}) == (answer.message.calls, answer.mended)


# -- calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ([piece(None, 0, "a", "{}"), piece(None, 0, "b", "{}")], [("a", "{}", None), ("b", "{}", None)]),
        ([piece("x", 0, "a", "{}"), piece("x", 0, "b", "{}")], [("a", "{}", "x"), ("b", "{}", None)]),
        ([piece(None, None, "a", "{"), piece(None, None, None, "}")], [("a", "{}", None)]),
        ([piece(None, None, "a", "{}"), piece(None, None, "a", "{}")], [("a", "{}", None), ("a", "{}", None)]),
        ([piece(None, None, None, "{}"), piece(None, 0, "a", "{}")], [("", "{}", None), ("a", "{}", None)]),
        ([piece(None, 0, "a", "{"), piece("x", 0, None, "}")], [("a", "{}", "x")]),
        ([piece("x", None, "a", "{"), piece("x", None, None, "}")], [("a", "{}", "x")]),
        ([piece("x", 0, "a", "{"), piece("x", 0, "a", "}")], [("a", "{}", "x")]),
        ([piece(None, 0, "a", "{"), piece(None, 0, "a", "}")], [("a", "{}", None)]),
        (
            [
                piece("x", 0, "a", "{"),
                piece("y", 1, "b", "["),
                piece(None, 0, None, "}"),
                piece(None, None, None, " "),
                piece(None, 1, None, "]"),
            ],
            [("a", "{} ", "x"), ("b", "[]", "y")],
        ),
        ([piece("x", 0, "a", {"k": 1})], [("a", '{"k":1}', "x")]),
        ([piece("x", 0, "a")], [("a", "{}", "x")]),
        ([piece("x", 0, "a", " ")], [("a", "{}", "x")]),
        ([piece("x", 7, "a", "{}"), piece("y", 3, "b", "{}")], [("a", "{}", "x"), ("b", "{}", "y")]),
        ([chunk(tool_calls=None), chunk(tool_calls="x"), chunk(tool_calls=[None, 1])], []),
    ],
)
@pytest.mark.case("C047")
def test_a_piece_goes_to_the_call_it_means(stream: list[Any], expected: Any) -> None:
    assert expected == calls(*stream)


def test_a_name_is_told_once_when_it_is_known() -> None:
    _, deltas = decoded([piece("x", 0, None, "{"), piece(None, 0, "a", ""), piece(None, 0, "a", "}"), chunk("stop")])
    assert [Delta("call", "a")] == deltas


# -- text, reasoning, usage ----------------------------------------------------------------------------


def test_text_reasoning_and_refusal_come_in_pieces() -> None:
    stream = [
        chunk(role="assistant", content=""),
        chunk(reasoning="H"),
        chunk(reasoning="m"),
        chunk(content="Hi"),
        chunk(content="."),
    ]
    answer, deltas = decoded([*stream, chunk("stop")])
    assert [Delta("reasoning", "H"), Delta("reasoning", "m"), Delta("text", "Hi"), Delta("text", ".")] == deltas
    assert ("Hi.", "Hm", {"reasoning": "Hm"}) == (answer.message.text, answer.message.reasoning, kept(answer))
    answer, deltas = decoded([chunk(refusal="I can"), chunk(refusal="not."), chunk("stop")])
    assert ("refusal", "I cannot.", {"refusal": "I cannot.", "content": None}) == (
        answer.finish,
        answer.message.text,
        kept(answer),
    )
    assert [Delta("text", "I can"), Delta("text", "not.")] == deltas


def test_halves_of_a_character_are_joined() -> None:
    answer, _ = decoded(
        [chunk(content="\ud83d", reasoning="\ud83d"), chunk(content="\ude00", reasoning="\ude00"), chunk("stop")]
    )
    assert ("😀", "😀", {"reasoning": "😀"}) == (answer.message.text, answer.message.reasoning, kept(answer))


def test_reasoning_details_are_joined_by_index() -> None:
    pieces = [
        {"type": "reasoning.text", "text": "One ", "format": "f", "index": 0},
        {"type": "reasoning.text", "text": "call.", "index": 0, "signature": None},
        {"type": "reasoning.text", "signature": "s", "index": 0},
        {"type": "reasoning.encrypted", "data": "x", "index": 1, "id": "a"},
        {"type": "reasoning.encrypted", "data": "y", "index": 1, "id": "b"},
        {"type": "reasoning.summary", "summary": "z"},
        {"type": "reasoning.summary", "summary": "z"},
        {"type": "reasoning.encrypted", "data": "u"},
        {"type": "reasoning.encrypted", "data": "v"},
    ]
    answer, _ = decoded([*(chunk(reasoning_details=[p]) for p in pieces), chunk("stop", content="Hi.")], "openrouter")
    assert [
        {"type": "reasoning.text", "text": "One call.", "format": "f", "index": 0, "signature": "s"},
        pieces[3],
        pieces[4],
        {"type": "reasoning.summary", "summary": "zz"},
        pieces[7],
        pieces[8],
    ] == kept(answer)["reasoning_details"]


def test_mistrals_list_of_thinking_and_text_is_joined() -> None:
    def thinking(text: str, **more: Any) -> Any:
        return chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}])

    stream = [
        chunk(content="Well. "),
        thinking("H"),
        thinking("m.", closed=True),
        chunk(content="Hi"),
        chunk("stop", content="."),
    ]
    answer, deltas = decoded(stream, "mistral")
    assert [
        {"type": "text", "text": "Well. "},
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
        {"type": "text", "text": "Hi."},
    ] == kept(answer)["content"]
    assert ("Well. Hi.", "Hm.") == (answer.message.text, answer.message.reasoning)
    assert ["text", "reasoning", "reasoning", "text", "text"] == [d.kind for d in deltas]


def test_signatures_on_messages_and_calls_are_kept() -> None:
    entry: dict[str, Any] = {
        "index": 0,
        "id": "x",
        "function": {"name": "a", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "s"}},
    }
    answer, _ = decoded([chunk(tool_calls=[entry]), chunk("stop", extra_content={"google": {"k": 1}})])
    assert {"extra_content": {"google": {"k": 1}}, "tool_calls": [{"extra_content": entry["extra_content"]}]} == kept(
        answer
    )


@pytest.mark.parametrize(
    "more",
    [
        [{**chunk("stop"), "usage": {"prompt_tokens": 1}}],
        [{**chunk("stop"), "x_groq": {"id": "req_1", "usage": {"prompt_tokens": 1}}}],
        [chunk("stop"), {"choices": [], "usage": {"prompt_tokens": 1}}],
        [chunk("stop"), {**chunk(content=""), "usage": {"prompt_tokens": 1}}],
        [{**chunk("stop"), "usage": {"prompt_tokens": 7}}, {"usage": {"prompt_tokens": 1}}, {"usage": None}],
    ],
)
def test_usage_is_read_wherever_it_comes(more: list[Any]) -> None:
    answer, _ = decoded([chunk(content="Hi."), *more])
    assert ("stop", Usage(1)) == (answer.finish, answer.usage)


def test_groqs_id_of_the_request_is_the_one_kept() -> None:
    answer, _ = decoded([{"id": "chatcmpl-1", "x_groq": {"id": "req_1"}}, {"id": "chatcmpl-1", **chunk("stop")}])
    assert "req_1" == answer.request_id


def test_other_candidates_are_passed_over() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "No."}, "finish_reason": "length"}]}
    answer, _ = decoded([other, chunk("stop", content="Yes.")])
    assert ("Yes.", "stop") == (answer.message.text, answer.finish)


# -- errors and cuts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "data", "status", "retryable"),
    [
        ("message", {"error": {"message": "m", "type": "server_error", "code": None}}, None, False),
        ("message", {**chunk("error"), "error": {"code": 502, "message": "m"}}, 502, True),
        ("error", {"error": {"message": "m", "status_code": 400}}, 400, False),
        ("error", {"message": "m"}, None, False),
        ("error", "m", None, False),
        ("message", {"object": "error", "message": "m", "code": 429}, 429, True),
        ("message", {"choices": [{"error": {"message": "m", "code": 503}}]}, 503, True),
    ],
)
def test_an_error_inside_a_stream_is_raised(event: str, data: Any, status: int | None, retryable: bool) -> None:
    decoder = wire().decoder("m")
    decoder.feed("message", chunk(content="Hi"))
    with pytest.raises(ModelError, match=": m") as caught:
        decoder.feed(event, data)
    assert (status, retryable) == (caught.value.status, caught.value.retryable)


STREAM: list[dict[str, Any]] = [
    chunk(role="assistant", content="Let me "),
    chunk(content="see.", reasoning="Hm."),
    piece("call_a", 0, "get_weather", '{"city":'),
    piece(None, 0, None, '"Oslo"}'),
    piece("call_b", 1, "read_chart", "{}"),
    chunk("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 90}},
]


def is_cut(answer: ModelResponse) -> bool:
    """Whether an answer is said to be cut, and can neither be executed nor sent back with signatures."""
    assert answer.error is not None
    assert "openai-chat: the answer was cut before its end. Ask again" == str(answer.error)
    assert not any(call.complete for call in answer.message.calls)
    return answer.finish == "unknown" and answer.message.raw is None


@pytest.mark.parametrize("length", range(len(STREAM) + 1))
@pytest.mark.case("C055")
def test_a_stream_cut_after_any_event_is_known_as_cut(length: int) -> None:
    answer, _ = decoded(STREAM[:length], done=False)
    assert is_cut(answer)
    assert "Let me see."[: [0, 7][length] if length < 2 else None] == answer.message.text
    assert (Usage(90) if length == len(STREAM) else None) == answer.usage


def test_the_word_done_without_a_reason_to_end_is_a_cut() -> None:
    assert is_cut(decoded(STREAM[:5])[0])


def sse(data: bytes) -> Iterator[Any]:
    """The events in a body, as the standard reads them: one that no blank line ends does not count."""
    for block in data.split(b"\n\n")[:-1]:
        payload = block.removeprefix(b"data: ")
        yield None if payload == b"[DONE]" else json.loads(payload)


def test_a_stream_cut_at_any_byte_is_known_as_cut() -> None:
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in STREAM]
    data = b"".join([*lines, b"data: [DONE]\n\n"])
    for length in range(len(data)):
        assert is_cut(decoded(sse(data[:length]), done=False)[0])
    whole_answer, _ = decoded(sse(data), done=False)
    assert ("tool_calls", None) == (whole_answer.finish, whole_answer.error)
    assert all(call.complete for call in whole_answer.message.calls)


def test_what_comes_after_the_end_is_passed_over() -> None:
    answer, _ = decoded([*STREAM, None, chunk("length", content="more")], done=False)
    assert ("Let me see.", "tool_calls") == (answer.message.text, answer.finish)


# -- any fragments -------------------------------------------------------------------------------------


@st.composite
def split(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def fragmented(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A message, and a stream of it in pieces as servers cut them."""
    text, reasoning = draw(st.text(max_size=12)), draw(st.text(max_size=12))
    arguments = draw(
        st.lists(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=3), max_size=3)
    )
    entries: list[dict[str, Any]] = [
        {"id": f"call_{i}", "type": "function", "function": {"name": f"tool_{i % 2}", "arguments": json.dumps(a)}}
        for i, a in enumerate(arguments)
    ]
    stream = [chunk(reasoning=r) for r in draw(split(reasoning))] + [chunk(content=t) for t in draw(split(text))]
    style = draw(st.sampled_from(["index", "zero", "id", "bare"]))
    for i, entry in enumerate(entries):
        number = {"index": {"index": i}, "zero": {"index": 0}}.get(style, {})
        first, *rest = draw(split(entry["function"]["arguments"]))
        head = {**entry, **number, "function": {"name": entry["function"]["name"], "arguments": first}}
        again = {"id": entry["id"]} if style == "id" else {}
        tail = [{**again, **number, "function": {"arguments": r}} for r in rest]
        together = draw(st.booleans())
        stream += [chunk(tool_calls=[head, *tail])] if together else [chunk(tool_calls=[p]) for p in (head, *tail)]
    message = {"content": text, "reasoning": reasoning, "tool_calls": entries}
    return message, [*stream, chunk("tool_calls" if entries else "stop")]


@given(fragmented())
@pytest.mark.case("C047")
def test_however_a_stream_is_cut_into_pieces_the_answer_is_that_of_the_whole(case: tuple[Any, list[Any]]) -> None:
    message, stream = case
    expected = whole(message, stream[-1]["choices"][0]["finish_reason"])
    answer, deltas = decoded(stream)
    assert expected == answer
    assert message["content"] == "".join(d.text for d in deltas if d.kind == "text")
    assert message["reasoning"] == "".join(d.text for d in deltas if d.kind == "reasoning")
    assert [c.name for c in answer.message.calls] == [d.text for d in deltas if d.kind == "call"]


@given(fragmented(), st.data())
@pytest.mark.case("C055")
def test_any_stream_cut_anywhere_has_no_complete_call(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    _, stream = case
    assert is_cut(decoded(stream[: data.draw(st.integers(0, len(stream)))], done=False)[0])


@given(fragmented())
def test_what_was_streamed_can_be_sent_back(case: tuple[Any, list[Any]]) -> None:
    answer, _ = decoded(case[1], "groq")
    made = [Call(str(i), c.name, c.arguments, c.wire_id) for i, c in enumerate(answer.message.calls)]
    message = ModelMessage(answer.message.text, tuple(made), raw=answer.message.raw)
    turn = body([message, *map(answered, made)], "groq")["messages"][0]
    assert [c["function"] for c in case[0]["tool_calls"]] == [c["function"] for c in turn.get("tool_calls", [])]
    assert case[0]["reasoning"] == turn.get("reasoning", "")


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1.5, "", "x", [], [1], {}, {"x": "y"}, [{"type": "text", "text": 1}], [{"type": "thinking"}], ["x"]]
)
CHOICES = st.lists(
    st.dictionaries(st.sampled_from(["index", "delta", "message", "finish_reason", "error"]), ODD), max_size=2
)
CHUNKS = st.dictionaries(st.sampled_from(["usage", "id", "model", "x_groq", "error"]), ODD, max_size=3)
LISTS = st.lists(
    st.dictionaries(
        st.sampled_from(["id", "index", "function", "type", "text", "thinking", "data", "name"]), ODD, max_size=4
    ),
    max_size=3,
)
KEYS = [
    "role",
    "content",
    "reasoning",
    "reasoning_content",
    "refusal",
    "extra_content",
    "reasoning_details",
    "tool_calls",
]
DELTAS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.sampled_from(KEYS), ODD | LISTS, max_size=4)


@given(st.lists(ODD | CHUNKS | CHOICES.map(lambda choices: {"choices": choices}), max_size=4))
def test_no_stream_of_json_breaks_the_decoder(stream: list[Any]) -> None:
    decoder = wire().decoder("m")
    for event in stream:
        try:
            list(decoder.feed("message", event))
        except ModelError:
            return
    assert isinstance(decoder.finish(), ModelResponse)


@given(st.lists(DELTAS, max_size=4), st.sampled_from(["stop", "tool_calls", "length", None]))
def test_no_delta_breaks_the_decoder(deltas: list[dict[str, Any]], word: str | None) -> None:
    streamed, _ = decoded([*(chunk(**delta) for delta in deltas), chunk(word)])
    for found in (streamed, whole(deltas[0] if deltas else {}, word)):
        assert found.finish == "tool_calls" or not any(call.complete for call in found.message.calls)
