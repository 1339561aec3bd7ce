"""Compaction: what stays of any transcript, how parts are counted, summaries, and runs that go on from it."""

from __future__ import annotations

import base64
import copy
import logging
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import run

from ferrule import (
    Agent,
    Compaction,
    Limits,
    ModelError,
    Priced,
    RunInfo,
    Session,
    UsageError,
    audio,
    file,
    image,
    tool,
)
from ferrule.agent.compaction import estimate
from ferrule.content import Part, to_dict
from ferrule.message import Call, Message, ModelMessage, Raw, ToolMessage, Usage, UserMessage, system, unpaired, user
from ferrule.provider.base import ModelRequest, ModelResponse
from ferrule.testing import ScriptedModel, call

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 30
INFO = RunInfo("run_1", {}, None)


def compact(hook: Compaction, messages: list[Message]) -> list[Message]:
    """What would be sent."""
    made = run(hook.before_model(INFO, ModelRequest(messages)))
    return messages if made is None else list(made.messages)


def size(messages: list[Message]) -> int:
    return sum(map(estimate, messages))


def is_note(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.text.startswith("[Earlier messages were left out")


def units(messages: list[Message]) -> list[tuple[int, ...]]:
    """Each model message with its results, by identity."""
    found: list[tuple[int, ...]] = []
    for message in messages:
        if isinstance(message, ModelMessage):
            found.append((id(message),))
        elif isinstance(message, ToolMessage):
            found[-1] += (id(message),)
    return found


WORDS = st.text(max_size=200) | st.integers(0, 4_000).map("x".__mul__)


def _sealed(signature: str) -> Raw:
    return Raw("anthropic", "m", [{"type": "thinking", "signature": signature}])


@st.composite
def turn(draw: st.DrawFn) -> list[Message]:
    calls = tuple(Call(f"t{i}", draw(WORDS), draw(WORDS)) for i in range(draw(st.integers(0, 3))))
    raw = draw(st.none() | WORDS.map(_sealed))
    said = ModelMessage(draw(WORDS), calls, draw(WORDS), raw)
    return [said, *(ToolMessage(c, draw(WORDS), draw(st.booleans())) for c in calls)]


TURNS = turn() | WORDS.map(lambda text: [user(text)]) | WORDS.map(lambda text: [system(text)])
TRANSCRIPTS = st.lists(TURNS, max_size=12).map(lambda found: [m for messages in found for m in messages])


@pytest.mark.case("C052")
@given(TRANSCRIPTS, st.integers(2, 4_000), st.integers(1, 3), st.data())
def test_any_transcript_stays_paired_whole_bounded_and_with_what_the_user_said_last(
    messages: list[Message], limit: int, turns: int, data: st.DataObject
) -> None:
    keep = data.draw(st.integers(1, limit - 1))
    hook = Compaction(limit, keep, turns=turns)
    before = copy.deepcopy(messages)
    made = compact(hook, messages)
    assert messages == before
    assert unpaired(made) is None
    assert not made or not isinstance(made[0], ToolMessage)
    assert size(made) <= size(messages)
    # units go whole, from the beginning
    kept = units(made)
    assert kept == units(messages)[len(units(messages)) - len(kept) :]
    assert len(kept) >= min(turns, len(units(messages)))
    # what the user said last is there, and nothing new but one note
    said = [m for m in messages if type(m) is UserMessage]  # what a program puts in is not the task
    assert not said or any(m is said[-1] for m in made)
    assert made[-1:] == messages[-1:]
    known = {id(m) for m in messages}
    assert [is_note(m) for m in made if id(m) not in known] in ([], [True])
    # down to `keep`, but for what always stays
    answers = [i for i, m in enumerate(messages) if isinstance(m, ModelMessage)]
    if made is not messages:
        tail, last = size(messages[answers[-turns] :]), estimate(said[-1]) if said else 0
        assert size(made) <= max(keep - keep // 4, tail) + max(keep // 4, last) + size([*filter(is_note, made)])
    # once is enough
    assert compact(hook, made) is made


@given(TRANSCRIPTS, st.integers(2, 400))
def test_a_summary_never_makes_a_transcript_longer(messages: list[Message], limit: int) -> None:
    hook = Compaction(limit, summary=ScriptedModel(["s" * 400] * 2))
    made = compact(hook, messages)
    assert unpaired(made) is None
    assert made is messages or size(made) < size(messages)


def rounds(n: int, chars: int = 400) -> list[Message]:
    found: list[Message] = [user("Find the leak.")]
    for i in range(n):
        asked = Call(f"t{i}.0", "look", "{}")
        found += [ModelMessage("", (asked,)), ToolMessage(asked, str(i) + "." * chars)]
    return found


def test_below_the_limit_nothing_changes() -> None:
    messages = rounds(5)
    assert run(Compaction(size(messages)).before_model(INFO, ModelRequest(messages))) is None
    assert run(Compaction(size(messages) - 1).before_model(INFO, ModelRequest(messages))) is not None


def test_the_prompt_stays_first_then_a_note_then_the_last_turns() -> None:
    messages = rounds(10)
    made = compact(Compaction(1_000, 500), messages)
    assert made[0] is messages[0]
    assert is_note(made[1])
    assert made[2:] == messages[-6:]
    assert size(made) <= 500 + estimate(made[1])


def test_what_the_user_said_before_stays_newest_first_in_a_quarter() -> None:
    talk: list[Message] = []
    for i in range(20):
        talk += [user(f"{i}" + "?" * 100), ModelMessage("!" * 400)]
    made = compact(Compaction(2_000, 1_000), [*talk, user("now")])
    before = made[: [is_note(m) for m in made].index(True)]
    assert [m.text.rstrip("?") for m in before if isinstance(m, UserMessage)] == [f"{i}" for i in range(7, 15)]
    assert size(before) <= 250


def test_the_cut_stays_where_it_is_for_many_rounds() -> None:
    messages = rounds(1)
    hook = Compaction(4_000, 2_000)
    firsts: list[int] = []
    for more in rounds(60)[1:]:
        messages = [*messages, more]
        if isinstance(more, ToolMessage):
            messages = compact(hook, messages)
            firsts.append(id(messages[2]))
    assert 2 <= len(set(firsts)) <= 5
    assert len({id(m) for m in messages if is_note(m)}) == 1


def test_a_note_gives_way_to_the_next_one_and_keeps_its_bytes() -> None:
    hook = Compaction(1_000, 500)
    first = compact(hook, rounds(10))
    second = compact(hook, [*first, *rounds(10)[1:]])
    assert [m for m in second if is_note(m)] == [first[1]]
    assert second[1] is first[1]
    assert second[0] is first[0]


# -- sizes ------------------------------------------------------------------------------------------------------

BIG = base64.b64encode(bytes(1_000_000)).decode()


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (user(""), 4),
        (user("four"), 5),
        (user("fours"), 6),
        (user("日本語"), 7),
        (user("a\udfff"), 5),
        (UserMessage(()), 4),
        (UserMessage((Part("image", mimeType="image/png", data=BIG),)), 1_504),
        (UserMessage((Part("image", mimeType="image/png", url="https://a.test/x.png"),)), 1_504),
        (UserMessage((Part("file", mimeType="application/pdf", data=BIG),)), 4 + 4 + 20_000),
        (UserMessage((Part("file", mimeType="application/pdf", url="https://a.test/x"),)), 4 + 4 + 2_000),
        (UserMessage((Part("file", mimeType="text/csv; charset=utf-8", data=BIG),)), 4 + 4 + 250_000),
        (UserMessage((Part("file", mimeType="application/zip", data=BIG),)), 24),
        (UserMessage((Part("audio", mimeType="audio/wav", data=BIG),)), 4 + 4 + 2_000),
        (ModelMessage("four", (Call("t1.0", "look", "{}"),)), 4 + 1 + 4 + 1 + 1),
        (ModelMessage("", reasoning="x" * 40), 14),
        # sealed reasoning counts by its length, where less of it is readable; other opaque values do not count
        (ModelMessage("", reasoning="x" * 40, raw=Raw("anthropic", "m", [{"signature": "s" * 160}])), 34),
        (ModelMessage("", reasoning="x" * 400, raw=Raw("anthropic", "m", [{"signature": "s" * 160}])), 104),
        (ModelMessage("", raw=Raw("openai-responses", "m", [{"type": "reasoning", "encrypted_content": "e" * 16}])), 7),
        (ModelMessage("", raw=Raw("gemini", "m", {"parts": [{"functionCall": {}, "thoughtSignature": "e" * 16}]})), 7),
        (ModelMessage("", raw=Raw("anthropic", "m", [{"type": "redacted_thinking", "data": "e" * 16}])), 7),
        (ModelMessage("", raw=Raw("gemini", "m", [{"inlineData": {"mimeType": "image/png", "data": BIG}}])), 4),
        (ToolMessage(Call("t1.0", "look", "{}"), "four", parts=(to_dict(image(PIXEL)),)), 4 + 1 + 1_500),
        (ToolMessage(Call("t1.0", "look", "{}"), "", parts=(to_dict(Part("text", text="four")),)), 5),
    ],
)
def test_a_message_counts_by_what_it_is_to_a_provider(message: Message, tokens: int) -> None:
    assert estimate(message) == tokens


def test_an_image_is_not_its_base64() -> None:
    seen = UserMessage((Part("image", mimeType="image/png", data=BIG),))
    messages = [user("Look."), *rounds(3)[1:], seen]
    assert compact(Compaction(10_000), messages) is messages


def test_a_count_of_ones_own_decides_and_is_asked_once_for_each_message() -> None:
    asked: list[Message] = []

    def one(message: Message) -> int:
        asked.append(message)
        return 1

    messages = rounds(10)
    hook = Compaction(20, 10, count=one)
    made = compact(hook, messages)
    assert len(made) <= 10
    assert compact(hook, [*made, user("x")])[-1] == user("x")
    assert len(asked) == len(messages) + 2  # the note and the new one


def _hundred(_: Message) -> int:
    return 100


@pytest.mark.parametrize("count", [None, _hundred])
def test_messages_that_were_counted_can_be_copied_and_pickled(count: Any) -> None:
    async def never(_: ModelRequest) -> str:
        return ""

    messages = rounds(10)
    compact(Compaction(50, count=count, summary=never), messages)
    assert copy.deepcopy(messages) == pickle.loads(pickle.dumps(messages)) == messages


@pytest.mark.parametrize(
    ("limit", "options"), [(0, {}), (1, {}), (10, {"keep": 10}), (10, {"keep": 0}), (9, {"turns": 0})]
)
def test_numbers_that_make_no_sense_are_refused(limit: int, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"cannot work: keep lies between 0 and limit, turns are at least 1\."):
        Compaction(limit, **options)


# -- summaries --------------------------------------------------------------------------------------------------


def test_a_summary_stands_for_what_is_left_out() -> None:
    asked = Call("t1.0", "look", '{"at": 1}')
    old: list[Message] = [
        user(["Find it.", image(PIXEL, name="map.png")]),
        ModelMessage("I look.", (asked,), "secret thought"),
        ToolMessage(asked, "nothing", is_error=True, parts=(to_dict(file(b"%PDF-1.7", name="a.pdf")),)),
    ]
    model = ScriptedModel(["It was not there. "])
    made = compact(Compaction(1_000, 500, summary=model), [*old, *rounds(10)])
    note = next(m for m in made if is_note(m))
    assert isinstance(note, UserMessage)
    assert note.text == (
        "[Earlier messages were left out here, to keep the conversation short. A summary of them:]\nIt was not there."
    )
    (request,) = model.requests
    (shown,) = request.messages
    assert isinstance(shown, UserMessage)
    assert shown.text.split("\nAssistant calls look: {}", 1)[0] == (
        "User: Find it.\n[unsupported image part (image/png, 38 bytes)] map.png\n"
        'Assistant: I look.\nAssistant calls look: {"at": 1}\n'
        "Result of look (failed): nothing [unsupported file part (application/pdf, 8 bytes)] a.pdf\n"
        "User: Find the leak."
    )
    assert "secret" not in shown.text
    assert not request.tools.names
    assert "at most 83 words" in request.instructions


def test_the_next_summary_knows_the_one_before() -> None:
    model = ScriptedModel(["one", "two"])
    hook = Compaction(1_000, 500, summary=model)
    first = compact(hook, rounds(10))
    second = compact(hook, [*first, *rounds(10)[1:]])
    assert "A summary of them:]\none" in str(getattr(model.requests[1].messages[0], "text", ""))
    assert [getattr(m, "text", "").rpartition("\n")[2] for m in second if is_note(m)] == ["two"]


@pytest.mark.parametrize(
    "answer", [ModelError("overloaded", provider="x"), ModelResponse(ModelMessage(), "refusal"), "  ", ValueError("no")]
)
def test_a_summary_that_fails_is_logged_and_leaves_the_transcript(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    messages = rounds(10)
    with caplog.at_level(logging.WARNING, "ferrule.run"):
        assert compact(Compaction(1_000, summary=ScriptedModel([answer])), messages) is messages
    assert "run run_1 could not be compacted" in caplog.text


def test_a_summary_that_cannot_work_ends_the_run_with_what_to_do() -> None:
    hooks = [Compaction(100, summary=ScriptedModel([]))]
    result = run(Agent("a", ScriptedModel(["never"]), hooks=hooks).run("x" * 400, history=rounds(9)))
    assert result.status == "failed"
    assert "hook before_model: ScriptExhausted: scripted was asked 1 times" in str(result.error)


def test_a_function_sums_up_too() -> None:
    async def sum_up(request: ModelRequest) -> str:
        return f"{len(getattr(request.messages[0], 'text', ''))} characters"

    made = compact(Compaction(1_000, 500, summary=sum_up), rounds(10))
    assert getattr(made[1], "text", "").endswith(" characters")


# -- runs -------------------------------------------------------------------------------------------------------


@tool(effect="read")
async def look(at: int) -> str:
    """Look."""
    return f"{at}:" + "." * 400


def looks(n: int) -> list[Any]:
    return [call("look", f'{{"at": {i}}}', f"w{i}") for i in range(n)]


def test_a_run_goes_on_from_the_shorter_transcript() -> None:
    model = ScriptedModel([*looks(30), "done"])
    session = Session()
    agent = Agent("a", model, tools=[look], hooks=[Compaction(1_000, 500)], limits=Limits(turns=99))
    result = run(agent.run("Find the leak.", session=session))
    assert result.status == "done"
    assert unpaired(result.messages) is None
    assert list(session.messages) == list(result.messages)
    for request in model.requests:
        assert size(list(request.messages)) <= 1_000
        assert request.messages[0] == user("Find the leak.")
        assert unpaired(request.messages) is None
    ids = [m.call.id for r in model.requests for m in r.messages if isinstance(m, ToolMessage)]
    assert len(set(ids)) == 30
    again = run(Agent("a", ScriptedModel(["hello"]), hooks=[Compaction(1_000, 500)]).run("More?", session=session))
    assert again.status == "done"


def test_what_a_summary_consumed_counts_for_the_run_and_its_limits() -> None:
    spent = Usage(input=100, output=10)
    answers = [ModelResponse(ModelMessage("", (c,)), "tool_calls", spent) for c in looks(40)]
    model = Priced(ScriptedModel(answers), input=1_000, output=1_000)
    short = Priced(ScriptedModel([ModelResponse(ModelMessage("s"), "stop", spent)] * 9), input=10_000, output=10_000)
    hooks = [Compaction(1_000, 500, summary=short)]
    result = run(Agent("a", model, tools=[look], hooks=hooks, limits=Limits(turns=99, cost=2.0)).run("go"))
    summaries = result.usage.requests - sum(isinstance(a, ModelMessage) for a in result.messages)
    assert (result.status, result.reason, result.error) == ("incomplete", "cost", None)
    assert summaries >= 1
    assert result.usage.input == 100 * result.usage.requests
    assert result.usage.cost is not None
    assert 2.0 <= result.usage.cost < 2.0 + 1.1 + 0.11


def test_a_complaint_about_an_answer_never_stands_for_what_the_user_said() -> None:
    task = "Count the rings. " + "word " * 80
    model = ScriptedModel(['{"result": "many"}', *looks(30), '{"result": 3}'])
    agent = Agent("a", model, output=int, tools=[look], hooks=[Compaction(1_000, 300)], limits=Limits(turns=99))
    result = run(agent.run(task))
    assert result.value == 3
    assert all(request.messages[0] == user(task) for request in model.requests)
    assert len(model.requests[-1].messages) < len(model.requests)


def test_a_sound_is_counted_too() -> None:
    assert estimate(user([audio(b"RIFF\0\0\0\0WAVEfmt ")])) == 8
