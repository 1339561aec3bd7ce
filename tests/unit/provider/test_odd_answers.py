"""Answers that servers spoil: whatever comes is read or refused, is never done without proof, and can be sent back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.provider.adapters import APIS, EVERY_WIRE, MODEL, WIRES

from ferrule.errors import JSONSyntaxError, ModelError
from ferrule.message import ModelMessage, ToolMessage, user
from ferrule.provider.base import Capabilities, Delta, ModelRequest, ModelResponse
from ferrule.strict_json import dumps, parse, restore, typed

EXAMPLES = Path(__file__).parent / "examples"
STREAMS: dict[str, list[Any]] = {
    api: [json.loads(line) for line in (EXAMPLES / api / "stream-parallel.jsonl").read_text("utf-8").splitlines()]
    for api in APIS
}
STREAMS["openai-chat"].append(None)
BODIES = {
    api: [json.loads(path.read_text("utf-8")) for path in sorted((EXAMPLES / api).glob("response-*.json"))]
    for api in APIS
}
ODD: list[Any] = [
    *(None, True, False, 0, -1, 7, 1.5, 10**400, "", " ", "x", "0", [], {}, [None], [[]], {"": None}),
    *(
        {"type": "text", "text": 5},
        {"index": 0},
        [{"type": "tool_use"}],
        "tool_calls",
        "completed",
        "STOP",
        "é\u0301😀",
    ),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    found = [path] if path else []
    items: Iterable[tuple[Any, Any]] = (
        cast("dict[Any, Any]", value).items()
        if isinstance(value, dict)
        else enumerate(cast("list[Any]", value))
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


@st.composite
def spoiled(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with some of its places left out, changed, or doubled."""
    value = deepcopy(value)
    for _ in range(draw(st.integers(1, 4))):
        at = places(value)
        if not at:
            break
        *path, last = draw(st.sampled_from(at))
        inside: Any = value
        for key in path:
            inside = inside[key]
        how = draw(st.sampled_from(["drop", "set", "set", "double", "swap"]))
        if how == "drop":
            del inside[last]
        elif how == "set":
            inside[last] = deepcopy(draw(st.sampled_from(ODD)))
        elif isinstance(inside, list):
            items = cast("list[Any]", inside)
            other = draw(st.integers(0, len(items) - 1))
            if how == "double":
                items.insert(last, deepcopy(items[last]))
            else:
                items[last], items[other] = items[other], items[last]
    return value


def usable(api: str, response: ModelResponse) -> None:
    """What came can be kept, restored, and sent back."""
    assert (response.error is not None) == (response.finish in ("error", "unknown"))
    assert all(call.complete is False for call in response.message.calls) or response.finish == "tool_calls"
    message, usage = restore(parse(dumps(typed([response.message, response.usage]))))
    assert usage == response.usage
    calls = tuple(call._replace(id=f"t1.{i}") for i, call in enumerate(message.calls))
    ids = [call.wire_id for call in calls]
    calls = tuple(call._replace(wire_id=None) if call.wire_id in ids[:i] else call for i, call in enumerate(calls))
    said = ModelMessage(message.text, calls, message.reasoning, message.raw)
    history = [user("x"), said, *(ToolMessage(call, "y") for call in calls), user("z")]
    for wire in EVERY_WIRE.values():
        wire.body(ModelRequest(history), MODEL, Capabilities(), stream=False)


def decode(api: str, events: list[Any]) -> ModelResponse | None:
    decoder = WIRES[api].decoder(MODEL)
    try:
        deltas = [delta for event in events for delta in decoder.feed("message", event)]
        response = decoder.finish()
    except ModelError:
        return None
    assert all(isinstance(delta, Delta) for delta in deltas)
    return response


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_spoiled_stream_is_read_or_refused(api: str, data: st.DataObject) -> None:
    response = decode(api, data.draw(spoiled(STREAMS[api])))
    if response is not None:
        usable(api, response)


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_spoiled_answer_is_read_or_refused(api: str, data: st.DataObject) -> None:
    body = data.draw(spoiled(data.draw(st.sampled_from(BODIES[api]))))
    try:
        response = WIRES[api].response(body, MODEL)
    except ModelError:
        return
    usable(api, response)


@st.composite
def disordered(draw: st.DrawFn, events: list[Any]) -> list[Any]:
    """The events with one that comes twice, or at another place, or with the end cut off; what tells the end is last."""
    *events, last = deepcopy(events)
    at, to = draw(st.integers(0, len(events) - 1)), draw(st.integers(0, len(events)))
    how = draw(st.sampled_from(["double", "move", "cut"]))
    if how == "cut":
        return events[:at]
    events.insert(to, deepcopy(events[at]) if how == "double" else events.pop(at))
    return [*events, last]


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_stream_out_of_order_never_makes_another_call_than_was_meant(api: str, data: st.DataObject) -> None:
    """It may be refused, or its text may be out of order too; nothing tells that of a text."""
    whole = decode(api, STREAMS[api])
    assert whole is not None
    meant = {(call.name, call.arguments) for call in whole.message.calls}
    found = decode(api, data.draw(disordered(STREAMS[api])))
    if found is None or not all(call.complete for call in found.message.calls):
        return
    for call in found.message.calls:
        try:
            parse(call.arguments)
        except JSONSyntaxError:
            continue  # refused with an error that the model is told
        assert (call.name, call.arguments) in meant
