from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.provider.anthropic_support import BOTH, MODEL, markers, some_tool, written

from ferrule import UsageError
from ferrule.message import Call, Message, ModelMessage, Raw, ToolMessage, user
from ferrule.provider.anthropic.wire import AnthropicWire
from ferrule.tool.toolset import Toolset

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
CALLS = tuple(Call(str(n), "get_weather", "{}", f"toolu_{n}") for n in range(3))


def marked(body: Any) -> list[tuple[str, dict[str, str]]]:
    """Which blocks have a marker, and which."""
    return [
        (block.get("text") or block.get("tool_use_id") or block.get("name") or "top", block["cache_control"])
        for block in markers(body)
    ]


def round_of_three() -> list[Message]:
    return [user("Begin"), ModelMessage("", CALLS), *(ToolMessage(c, "done") for c in CALLS)]


@pytest.mark.case("C058")
def test_many_tools_and_parallel_results_have_four_markers_in_all() -> None:
    tools = Toolset([some_tool("get_weather"), *(some_tool(f"t{n}") for n in range(5))])
    body = written(AnthropicWire(), round_of_three(), tools=tools, instructions="Rules")
    assert [("t4", SHORT), ("Rules", SHORT), ("Begin", SHORT), ("toolu_2", SHORT)] == marked(body)


@pytest.mark.case("C058")
def test_markers_of_the_caller_come_first_and_ours_fill_what_is_left() -> None:
    tools = [{"name": f"t{n}", "input_schema": {"type": "object"}, "cache_control": SHORT} for n in range(2)]
    body = written(AnthropicWire(), round_of_three(), tools=BOTH, instructions="Rules", extra={"tools": tools})
    assert [("t0", SHORT), ("t1", SHORT), ("Rules", SHORT), ("toolu_2", SHORT)] == marked(body)


def test_a_marker_of_the_caller_at_the_top_stands_for_ours_in_the_turns() -> None:
    body = written(AnthropicWire(), round_of_three(), tools=BOTH, instructions="Rules", extra={"cache_control": LONG})
    assert [("read_chart", LONG), ("Rules", LONG), ("top", LONG)] == marked(body)


def test_more_than_four_markers_of_the_callers_own_are_refused() -> None:
    system = [{"type": "text", "text": str(n), "cache_control": SHORT} for n in range(5)]
    with pytest.raises(UsageError, match="has 5 cache markers of its own; the API takes 4"):
        written(AnthropicWire(), "Hi", extra={"system": system})


def test_no_marker_is_placed_when_they_are_off() -> None:
    assert [] == marked(written(AnthropicWire(cache=None), round_of_three(), tools=BOTH, instructions="Rules"))


def test_a_long_cache_is_for_tools_and_system_only() -> None:
    body = written(AnthropicWire(cache="1h"), round_of_three(), tools=BOTH, instructions="Rules")
    assert [("read_chart", LONG), ("Rules", LONG), ("Begin", SHORT), ("toolu_2", SHORT)] == marked(body)


def test_model_turns_and_their_thinking_get_no_marker() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "b3BhcXVl"}
    said = [user("Begin"), ModelMessage("", raw=Raw("anthropic", MODEL, [thought]))]
    assert [("Begin", SHORT)] == marked(written(AnthropicWire(), said))


def test_a_marker_that_the_model_sent_back_is_not_kept() -> None:
    items: list[Any] = [{"type": "text", "text": "Hi", "cache_control": SHORT}]
    said = [user("Begin"), ModelMessage("Hi", raw=Raw("anthropic", MODEL, items)), user("Go on")]
    assert [("Begin", SHORT), ("Go on", SHORT)] == marked(written(AnthropicWire(), said))


def test_the_bytes_of_earlier_turns_do_not_depend_on_their_markers() -> None:
    said = round_of_three()
    first = written(AnthropicWire(), said, tools=BOTH)
    later = written(AnthropicWire(), [*said, ModelMessage("So"), user("A"), ModelMessage("So"), user("B")], tools=BOTH)
    for block in [*markers(first), *markers(later)]:
        del block["cache_control"]
    assert first["messages"] == later["messages"][:3]


MARKS = st.sampled_from([None, SHORT, LONG])


def block(marker: Any, **given: Any) -> dict[str, Any]:
    return given if marker is None else {**given, "cache_control": marker}


@st.composite
def extras(draw: st.DrawFn) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if draw(st.booleans()):
        extra["tools"] = [block(draw(MARKS), name=f"t{n}", input_schema={"type": "object"}) for n in range(2)]
    if draw(st.booleans()):
        extra["system"] = [block(draw(MARKS), type="text", text=str(n)) for n in range(2)]
    if draw(st.booleans()):
        extra["cache_control"] = draw(st.sampled_from([SHORT, LONG]))
    return extra


@given(extras(), st.sampled_from([None, "5m", "1h"]), st.integers(0, 4), st.booleans(), st.sampled_from(["", "Rules"]))
def test_there_are_never_more_than_four_and_ours_never_put_a_long_one_after_a_short_one(
    extra: dict[str, Any], cache: Any, rounds: int, tools: bool, instructions: str
) -> None:
    said: list[Message] = [user("Begin")]
    for n in range(rounds):
        said += [ModelMessage("So"), user(str(n))]
    given: dict[str, Any] = {"tools": BOTH if tools else None, "instructions": instructions, "extra": extra}
    if len(own_of(extra)) > 4:
        return
    own = own_of(extra)
    found = [mark for _, mark in marked(written(AnthropicWire(cache=cache), said, **given))]
    assert len(own) <= len(found) <= 4
    if in_order(own):
        assert in_order(found)


def own_of(extra: dict[str, Any]) -> list[dict[str, str]]:
    return [block["cache_control"] for block in markers({"messages": [], **extra})]


def in_order(marks: list[dict[str, str]]) -> bool:
    return sorted(marks, key=lambda mark: "ttl" not in mark) == marks
