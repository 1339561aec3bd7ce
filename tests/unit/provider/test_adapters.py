"""Where the wire lets them, the adapters agree: one table for each thing, the same line for each API."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.provider.adapters import (
    APIS,
    EVERY_WIRE,
    MODEL,
    Said,
    answered,
    decoded,
    is_end,
    last_of,
    sent,
    stream_of,
)

from ferrule import Part, UnknownToolError, UsageError, tool
from ferrule.message import Call, Finish, ModelMessage, SystemMessage, ToolMessage, Usage, system, user
from ferrule.provider.base import Capabilities, OutputSchema, Settings
from ferrule.strict_json import dumps, parse, restore, typed
from ferrule.tool.toolset import Toolset

CALL = ("id1", "look", '{"at":"sky"}')
LOOK = Call("1", "look", '{"at":"sky"}', "id1")


@tool(effect="read")
async def look(at: str) -> str:
    """Look."""
    return at


@tool(effect="read")
async def listen() -> str:
    """Listen."""
    return ""


@tool(effect="read")
async def touch() -> str:
    """Touch."""
    return ""


TOOLS = Toolset([look, listen, touch])


# -- failed results ---------------------------------------------------------------------------------------------


def result_of(api: str, body: Any) -> Any:
    """What the model is told of the one call, in each API's own shape."""
    if api == "openai-chat":
        return next(m for m in body["messages"] if m["role"] == "tool")["content"]
    if api == "openai-responses":
        return body["input"][2]["output"]
    if api == "anthropic":
        block = body["messages"][2]["content"][0]
        return block.get("content"), block.get("is_error", False)
    return body["contents"][2]["parts"][0]["functionResponse"]["response"]


@pytest.mark.parametrize(
    ("output", "is_error", "in_words", "flagged", "keyed"),
    [
        ("rain", False, "rain", ("rain", False), {"output": "rain"}),
        ("", False, "", (None, False), {"output": ""}),
        ("no station", True, "Error: no station", ("no station", True), {"error": "no station"}),
        ("Error: no station", True, "Error: no station", ("Error: no station", True), {"error": "Error: no station"}),
        (
            *(" ", True, "Error: The call failed and said nothing."),
            ("The call failed and said nothing.", True),
            {"error": "The call failed and said nothing."},
        ),
    ],
)
def test_a_failed_result_is_told_by_the_apis_own_mark_or_else_in_the_same_words(
    output: str, is_error: bool, in_words: str, flagged: Any, keyed: Any
) -> None:
    history = [user("x"), ModelMessage("", (LOOK,)), ToolMessage(LOOK, output, is_error)]
    found = {api: result_of(api, sent(api, history)[0]) for api in APIS}
    told = {"openai-chat": in_words, "openai-responses": in_words, "anthropic": flagged, "gemini": keyed}
    assert found == told


# -- keys of the caller's own -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [{1}, "\ud800", object(), {"inner": b"1"}])
@pytest.mark.parametrize("api", APIS)
def test_an_extra_key_that_is_no_json_is_named_and_its_value_is_not_quoted(api: str, value: object) -> None:
    with pytest.raises(UsageError, match=r"settings\.extra\['odd'\] cannot be sent as JSON") as caught:
        sent(api, [user("x")], settings=Settings(extra={"odd": value}))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("api", APIS)
def test_an_extra_number_of_any_size_is_sent_digit_by_digit(api: str) -> None:
    body, _ = sent(api, [user("x")], settings=Settings(extra={"odd": 2**70}))
    assert body["odd"] == 2**70


NOTE = OutputSchema("note", {"type": "object", "properties": {}, "additionalProperties": False, "required": []})
# Keys of the caller's, where in the body they stand, and what must be there beside ours.
BOTH: dict[str, tuple[dict[str, Any], tuple[str, ...], dict[str, Any]]] = {
    "openai-chat": (
        {"response_format": {"json_schema": {"strict": False}}},
        ("response_format", "json_schema"),
        {"name": "note", "strict": False},
    ),
    "openai-responses": (
        {"text": {"verbosity": "low", "format": {"strict": False}}},
        ("text", "format"),
        {"name": "note", "strict": False},
    ),
    "anthropic": ({"output_config": {"effort": "low"}}, ("output_config",), {"effort": "low"}),
    "gemini": (
        {"generationConfig": {"temperature": 1, "topK": 3}},
        ("generationConfig",),
        {"temperature": 1, "topK": 3, "responseMimeType": "application/json"},
    ),
}


@pytest.mark.parametrize("api", APIS)
def test_an_extra_object_is_merged_with_ours_at_any_depth_over_each_api(api: str) -> None:
    extra, path, expected = BOTH[api]
    found, _ = sent(api, [user("x")], output=NOTE, settings=Settings(temperature=0, extra=extra))
    for key in path:
        found = found[key]
    assert expected.items() <= found.items()
    assert expected.keys() < found.keys()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("value", [[], None, 1, "x"])
def test_an_extra_value_that_is_no_object_replaces_ours_over_each_api(api: str, value: Any) -> None:
    _, path, _ = BOTH[api]
    found, _ = sent(api, [user("x")], output=NOTE, settings=Settings(extra={path[0]: value}))
    assert found[path[0]] == value


@pytest.mark.parametrize(
    ("api", "path"),
    [
        ("openai-chat", ("response_format",)),
        ("openai-responses", ("text", "format")),
        ("anthropic", ("output_config", "format")),
        ("gemini", ("generationConfig", "responseJsonSchema")),
    ],
)
def test_an_extra_object_of_another_type_replaces_ours_over_each_api(api: str, path: tuple[str, ...]) -> None:
    extra: Any = {"type": "other"}
    for key in reversed(path):
        extra = {key: extra}
    found, _ = sent(api, [user("x")], output=NOTE, settings=Settings(extra=extra))
    for key in path:
        found = found[key]
    assert found == {"type": "other"}


# -- system text later on ---------------------------------------------------------------------------------------


def spoken(api: str, body: Any) -> list[tuple[str, list[str]]]:
    """Who says which texts, after the model's turn."""
    turns = body.get("messages") or body.get("input") or body.get("contents")
    said: list[tuple[str, list[str]]] = []
    for turn in turns[next(i for i, t in enumerate(turns) if t["role"] in ("assistant", "model")) + 1 :]:
        content = turn.get("content", turn.get("parts"))
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        if said and said[-1][0] == turn["role"]:
            said[-1][1].extend(texts)
        else:
            said.append((turn["role"], texts))
    return said


@pytest.mark.parametrize(
    ("api", "role"),
    [("openai-chat", "system"), ("openai-responses", "developer"), ("anthropic", "system"), ("gemini", "user")],
)
@pytest.mark.parametrize("later", [True, False])
def test_system_text_later_on_is_told_as_such_or_like_what_a_user_says(api: str, role: str, later: bool) -> None:
    history = [user("x"), ModelMessage("Hi"), user("A"), system("B"), user("C")]
    body, _ = sent(api, restore(typed(history)), Capabilities(later_system=later))
    apart = [("user", ["A"]), (role, ["B"]), ("user", ["C"])]
    assert spoken(api, body) == (apart if later and role != "user" else [("user", ["A", "B", "C"])])


def test_a_system_message_holds_text_only() -> None:
    with pytest.raises(UsageError, match="text only"):
        SystemMessage((Part("image", mimeType="image/png", data="AAAA"),))


# -- tool choice ------------------------------------------------------------------------------------------------


def choice_of(api: str, body: Any) -> Any:
    """Mode and names, whatever the API calls them: what is forced, and among which."""
    if api == "gemini":
        config = body.get("toolConfig", {}).get("functionCallingConfig", {})
        mode = {"ANY": "required", None: None}.get(config.get("mode"), str(config.get("mode")).lower())
        return mode, config.get("allowedFunctionNames", [])
    choice = body.get("tool_choice")
    if choice is None or isinstance(choice, str):
        return choice, []
    if api == "anthropic":
        offered = [t["name"] for t in body["tools"]]
        names = [choice["name"]] if choice["type"] == "tool" else offered if len(offered) < len(TOOLS) else []
        return {"any": "required", "tool": "required"}.get(choice["type"], choice["type"]), names
    if choice["type"] == "function":
        return "required", [choice.get("name") or choice["function"]["name"]]
    among = choice.get("allowed_tools", choice)
    return among["mode"], [t.get("name") or t["function"]["name"] for t in among["tools"]]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("wanted", "mode", "names"),
    [
        (None, None, []),
        ("auto", "auto", []),
        ("none", "none", []),
        ("required", "required", []),
        ("listen", "required", ["listen"]),
        (["listen"], "required", ["listen"]),
        (["look", "listen"], "required", ["look", "listen"]),
        (["look", "listen", "look"], "required", ["look", "listen"]),
        ([], "none", []),
    ],
)
def test_a_choice_forces_the_same_everywhere(api: str, wanted: Any, mode: Any, names: list[str]) -> None:
    body, _ = sent(api, [user("x")], tools=TOOLS, settings=Settings(tool_choice=wanted))
    assert choice_of(api, body) == (mode, names)


@pytest.mark.parametrize("api", APIS)
def test_a_choice_among_no_tools_is_not_sent_and_a_name_that_is_not_there_is_refused(api: str) -> None:
    choices: list[Any] = ["auto", "none", "required", []]
    for wanted in choices:
        body, _ = sent(api, [user("x")], settings=Settings(tool_choice=wanted, parallel_calls=False))
        assert not {"tool_choice", "toolConfig", "tools", "parallel_tool_calls"} & body.keys()
    for tools in (TOOLS, Toolset()):
        for wanted in ("gone", ["look", "gone"]):
            with pytest.raises(UnknownToolError):
                sent(api, [user("x")], tools=tools, settings=Settings(tool_choice=wanted))


# -- how an answer ends -----------------------------------------------------------------------------------------

WORDS: dict[str, dict[str, Any]] = {  # of each API, in the order of APIS: word, and why for Responses
    "done": dict(zip(APIS, ("stop", "completed", "end_turn", "STOP"), strict=True)),
    "called": dict(zip(APIS, ("tool_calls", "completed", "tool_use", "STOP"), strict=True)),
    "long": dict(zip(APIS, ("length", "incomplete", "max_tokens", "MAX_TOKENS"), strict=True)),
    "odd": dict(zip(APIS, ("function_call", "queued", "of tomorrow", "OTHER"), strict=True)),
    "absent": dict.fromkeys(APIS) | {"openai-responses": "in_progress"},
}


def say(api: str, word: str, **said: Any) -> Any:
    why = "max_output_tokens" if word == "long" and api == "openai-responses" else None
    return answered(api, Said(finish=WORDS[word][api], why=why, **said))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("word", "said", "finish", "flagged", "complete"),
    [
        ("done", {"text": "Hi"}, "stop", False, []),
        ("done", {"text": "Hi", "calls": (CALL,)}, "tool_calls", False, [True]),
        ("called", {"calls": (CALL,)}, "tool_calls", False, [True]),
        ("long", {"text": "H"}, "length", False, []),
        ("long", {"calls": (CALL,)}, "length", False, [False]),
        ("odd", {"text": "Hi", "calls": (CALL,)}, "unknown", False, [False]),
        ("absent", {"text": "Hi", "calls": (CALL,)}, "unknown", False, [False]),
        ("done", {}, "stop", True, []),
        ("done", {"text": ""}, "stop", True, []),
        ("done", {"text": " \n"}, "stop", True, []),
        ("done", {"thought": "Hm."}, "stop", True, []),
        ("called", {}, "stop", True, []),
    ],
)
@pytest.mark.case("C055")
@pytest.mark.case("C059")
def test_an_answer_ends_the_same_over_each_api(
    api: str, word: str, said: Any, finish: Finish, flagged: bool, complete: list[bool]
) -> None:
    found = say(api, word, **said)
    assert (found.finish, found.flagged) == (finish, flagged)
    assert [call.complete for call in found.message.calls] == complete
    assert (found.error is not None) == (finish == "unknown")
    assert found.message.reasoning == said.get("thought", "")


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize("calls", [(), (CALL,)])
def test_a_refusal_is_told_by_its_text_and_runs_nothing(api: str, calls: Any) -> None:
    word = "refusal" if api == "anthropic" else WORDS["called" if calls else "done"][api]
    found = answered(api, Said(refusal="I would rather not.", finish=word, calls=calls))
    assert (found.finish, found.message.text, found.error) == ("refusal", "I would rather not.", None)
    assert not any(call.complete for call in found.message.calls)


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic"])
def test_what_was_said_before_a_refusal_is_kept_with_it(api: str) -> None:
    word = "refusal" if api == "anthropic" else WORDS["done"][api]
    found = answered(api, Said(text="Well.", refusal="No.", finish=word))
    assert (found.finish, found.message.text) == ("refusal", "Well.\nNo.")


# -- back again -------------------------------------------------------------------------------------------------

SECRET = (("c1", "pay", '{"code": 4711}'), ("c2", "look", "{}"))


def _back(api: str, message: ModelMessage) -> str:
    results = [ToolMessage(call, "ok") for call in message.calls]
    return dumps(sent(api, [user("Hi"), message, *results])[0]).decode()


@pytest.mark.parametrize("api", APIS)
def test_what_a_hook_took_out_of_an_answer_is_not_sent_back(api: str) -> None:
    said = answered(api, Said(text="The code is 4711.", calls=SECRET[1:], finish=WORDS["called"][api]))
    assert "4711" in _back(api, said.message)
    found = _back(api, replace(said.message, text="[taken out]"))
    assert "4711" not in found
    assert "[taken out]" in found


@pytest.mark.parametrize("api", APIS)
def test_a_call_that_a_hook_put_in_place_of_another_is_the_one_that_is_sent_back(api: str) -> None:
    message = answered(api, Said(calls=SECRET[:1], finish=WORDS["called"][api])).message
    found = _back(api, replace(message, calls=(Call("t1.0", "look", "{}", "c1"),)))
    assert "4711" not in found
    assert "look" in found


@pytest.mark.parametrize(
    "content", [[{"type": "text", "text": "It is 4711."}], [{"type": "thinking", "thinking": []}, "It is 4711."]]
)
def test_a_list_of_content_goes_back_as_it_came_unless_a_hook_changed_the_text(content: list[Any]) -> None:
    items = [{"type": "text", "text": item} if isinstance(item, str) else item for item in content]
    choice = {"index": 0, "message": {"role": "assistant", "content": items}, "finish_reason": "stop"}
    said = EVERY_WIRE["mistral"].response({"choices": [choice]}, MODEL).message
    assert sent("mistral", [user("Hi"), said])[0]["messages"][1]["content"] == items
    assert "4711" not in _back("mistral", replace(said, text="[taken out]"))


# -- usage ------------------------------------------------------------------------------------------------------

OPENAI = {"prompt_tokens": 90, "completion_tokens": 40}
ITEMS = {"input_tokens": 90, "output_tokens": 40}
BLOCKS = {"input_tokens": 20, "output_tokens": 40, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 6}
PARTS = {"promptTokenCount": 90, "candidatesTokenCount": 24, "thoughtsTokenCount": 16, "cachedContentTokenCount": 64}


NO_COUNTS: list[Any] = ["9", True, -1, 1.5, 10**400, [], {}]
COUNTED: list[tuple[list[Any], Usage | None]] = [
    (
        [
            {
                **OPENAI,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 16},
            },
            {
                **ITEMS,
                "input_tokens_details": {"cached_tokens": 64},
                "output_tokens_details": {"reasoning_tokens": 16},
            },
            {**BLOCKS, "output_tokens_details": {"thinking_tokens": 16}},
            PARTS,
        ],
        Usage(input=90, output=40, cached=64, reasoning=16),
    ),
    ([OPENAI, ITEMS, ITEMS, {"promptTokenCount": 90, "candidatesTokenCount": 40}], Usage(input=90, output=40)),
    (
        [
            {"prompt_tokens": 0, "completion_tokens": None},
            *[{"input_tokens": 0, "output_tokens": None}] * 2,
            {"promptTokenCount": 0},
        ],
        Usage(input=0),
    ),
    *(([{"prompt_tokens": odd}, *[{"input_tokens": odd}] * 2, {"promptTokenCount": odd}], None) for odd in NO_COUNTS),
    ([{}, {}, {}, {}], None),
]


@pytest.mark.parametrize(("counts", "usage"), COUNTED)
def test_usage_means_the_same_over_each_api(counts: list[Any], usage: Usage | None) -> None:
    for api, told in zip(APIS, counts, strict=True):
        assert say(api, "done", text="Hi", usage=told).usage == usage


@pytest.mark.parametrize(
    ("cost", "read"), [(0.25, 0.25), (0, 0.0), *((c, None) for c in (10**400, -1, True, "1", None))]
)
def test_a_cost_is_an_amount_of_money_or_nothing(cost: Any, read: float | None) -> None:
    usage = say("openai-chat", "done", text="Hi", usage={**OPENAI, "cost": cost}).usage
    assert usage == Usage(input=90, output=40, cost=read)


# -- calls in pieces --------------------------------------------------------------------------------------------

A, B = ("a", "look", '{"at":"sky"}'), ("b", "listen", '{"to":"sea"}')
HALF = len(A[2]) // 2


def chat_pieces(*entries: Any) -> list[Any]:
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"tool_calls": list(pieces)}}]} for pieces in entries]
    return [*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}, None]


def tool_call(call: Any = None, arguments: str | None = None, *, index: int | None = None, name: bool = True) -> Any:
    function = {"name": call[1] if call and name else None, "arguments": arguments}
    entry = {"index": index, "id": call and call[0], "function": {k: v for k, v in function.items() if v is not None}}
    return {k: v for k, v in entry.items() if v is not None}


def item_events(*events: Any) -> list[Any]:
    return [*events, {"type": "response.completed", "response": {"status": "completed"}}]


def item(kind: str, call: Any, *, index: int | None = None, id: bool = True, name: bool = True) -> Any:
    made = {"type": "function_call", "call_id": call[0], "name": call[1] if name else "", "arguments": ""}
    if kind == "done":
        made |= {"arguments": call[2], "status": "completed", "name": call[1]}
    if id:
        made["id"] = f"fc_{call[0]}"
    event = {"type": f"response.output_item.{kind}", "item": made}
    return event if index is None else {**event, "output_index": index}


def more(call: Any, text: str, *, index: int | None = None, id: bool = True) -> Any:
    event = {"type": "response.function_call_arguments.delta", "delta": text, "output_index": index}
    return {k: v for k, v in {**event, "item_id": f"fc_{call[0]}" if id else None}.items() if v is not None}


def block_events(*events: Any) -> list[Any]:
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    return [{"type": "message_start", "message": {}}, *events, end, {"type": "message_stop"}]


def block(call: Any, *, index: int | None = None, pieces: int = 2, twice: bool = False) -> list[Any]:
    at = {} if index is None else {"index": index}
    start: Any = {"type": "tool_use", "id": call[0], "name": call[1], "input": {}}
    size = -(-len(call[2]) // pieces)
    opened: list[Any] = [{"type": "content_block_start", "content_block": start, **at}] * (2 if twice else 1)
    for i in range(0, len(call[2]), size):
        delta = {"type": "input_json_delta", "partial_json": call[2][i : i + size]}
        opened.append({"type": "content_block_delta", "delta": delta, **at})
    return [*opened, {"type": "content_block_stop", **at}]


def parts(*chunks: Any) -> list[Any]:
    made = [
        [{"functionCall": {**({"id": c[0]} if with_id else {}), "name": c[1], "args": parse(c[2])}} for c in calls]
        for with_id, calls in chunks
    ]
    events: list[Any] = [{"candidates": [{"content": {"parts": found}}]} for found in made]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    return events


SHAPES: list[tuple[str, str, list[Any], list[Any]]] = [
    # no index, ids differ
    (
        *("openai-chat", "no index"),
        chat_pieces([tool_call(A, A[2])], [tool_call(B, B[2][:HALF])], [tool_call(None, B[2][HALF:])]),
        [A, B],
    ),
    (
        *("openai-responses", "no index"),
        item_events(
            *(item("added", A), more(A, A[2]), item("done", A)),
            *(item("added", B), more(B, B[2][:HALF]), more(B, B[2][HALF:]), item("done", B)),
        ),
        [A, B],
    ),
    ("anthropic", "no index", block_events(*block(A), *block(B)), [A, B]),
    ("gemini", "no ids", parts((False, [A, B])), [(None, *A[1:]), (None, *B[1:])]),
    # one index for all
    (
        *("openai-chat", "index zero"),
        chat_pieces(
            [tool_call(A, A[2], index=0)], [tool_call(B, B[2][:HALF], index=0)], [tool_call(None, B[2][HALF:], index=0)]
        ),
        [A, B],
    ),
    (
        *("openai-responses", "index zero"),
        item_events(
            *(item("added", A, index=0), item("added", B, index=0)),
            *(more(A, A[2][:HALF], index=0), more(B, B[2], index=0), more(A, A[2][HALF:], index=0)),
            *(item("done", A, index=0), item("done", B, index=0)),
        ),
        [A, B],
    ),
    (
        *("openai-responses", "index zero and no ids"),
        item_events(
            *(item("added", A, index=0, id=False), more(A, A[2], index=0, id=False)),
            *(item("added", B, index=0, id=False), more(B, B[2], index=0, id=False)),
            *(item("done", A, index=0, id=False), item("done", B, index=0, id=False)),
        ),
        [A, B],
    ),
    ("anthropic", "index zero", block_events(*block(A, index=0), *block(B, index=0)), [A, B]),
    # the beginning said twice
    (
        *("openai-chat", "twice in one chunk"),
        chat_pieces(
            [tool_call(A, "", index=0), tool_call(A, A[2][:HALF], index=0)], [tool_call(None, A[2][HALF:], index=0)]
        ),
        [A],
    ),
    (
        *("openai-responses", "added twice"),
        item_events(
            item("added", A, index=0), item("added", A, index=0), more(A, A[2], index=0), item("done", A, index=0)
        ),
        [A],
    ),
    ("anthropic", "started twice", block_events(*block(A, index=0, twice=True), *block(B, index=1)), [A, B]),
    ("gemini", "one call in each chunk", parts((True, [A]), (True, [B])), [A, B]),
    # the name comes later
    (
        *("openai-chat", "name later"),
        chat_pieces(
            [tool_call(A, A[2][:HALF], index=0, name=False)],
            [tool_call(None, A[2][HALF:], index=0)],
            [tool_call(A, index=0)],
        ),
        [A],
    ),
    (
        *("openai-responses", "name later"),
        item_events(item("added", A, index=0, name=False), more(A, A[2], index=0), item("done", A, index=0)),
        [A],
    ),
    # a gap in the numbers, and interleaved pieces
    (
        *("openai-chat", "gap"),
        chat_pieces(
            [tool_call(A, A[2][:HALF], index=0), tool_call(B, B[2][:HALF], index=2)],
            [tool_call(None, A[2][HALF:], index=0), tool_call(None, B[2][HALF:], index=2)],
        ),
        [A, B],
    ),
    (
        *("openai-responses", "gap"),
        item_events(
            *(item("added", A, index=1), item("added", B, index=4), more(B, B[2], index=4), more(A, A[2], index=1)),
            *(item("done", B, index=4), item("done", A, index=1)),
        ),
        [A, B],
    ),
    ("anthropic", "gap", block_events(*block(A, index=0, pieces=5), *block(B, index=2)), [A, B]),
]


@pytest.mark.parametrize(("api", "shape", "events", "calls"), SHAPES, ids=[f"{s[0]} {s[1]}" for s in SHAPES])
@pytest.mark.case("C047")
def test_calls_are_put_together_from_every_shape_of_pieces(
    api: str, shape: str, events: list[Any], calls: list[Any]
) -> None:
    found, deltas = decoded(api, events)
    assert (found.finish, found.error) == ("tool_calls", None)
    assert [(c.wire_id, c.name, c.arguments, c.complete) for c in found.message.calls] == [(*c, True) for c in calls]
    assert {d.text for d in deltas if d.kind == "call"} <= {c[1] for c in calls} | {""}


def end(api: str, word: str) -> Any:
    """The event that says why the answer has ended."""
    nothing: Any = {}
    if api == "openai-chat":
        return {"choices": [{"index": 0, "delta": nothing, "finish_reason": word}]}
    if api == "anthropic":
        return {"type": "message_delta", "delta": {"stop_reason": word}}
    if api == "gemini":
        return {"candidates": [{"content": nothing, "finishReason": word}]}
    return {"type": f"response.{word}", "response": {"status": word}}


@pytest.mark.parametrize(
    ("api", "odd", "word"),
    [
        ("openai-chat", "null", "stop"),
        ("anthropic", "null", "end_turn"),
        ("gemini", "FINISH_REASON_UNSPECIFIED", "STOP"),
    ],
)
def test_a_word_that_says_nothing_yields_to_a_later_one(api: str, odd: str, word: str) -> None:
    text = [event for event in stream_of(api, Said(text="Hi", finish=odd)) if not is_end(event)]
    found, _ = decoded(api, [*text, end(api, odd), end(api, word), *last_of(api)])
    assert (found.finish, found.message.text) == ("stop", "Hi")


@pytest.mark.parametrize(
    ("api", "first", "second"),
    [
        ("openai-chat", "length", "stop"),
        ("openai-chat", "content_filter", "tool_calls"),
        ("anthropic", "max_tokens", "tool_use"),
        ("gemini", "MAX_TOKENS", "STOP"),
        ("gemini", "MALFORMED_FUNCTION_CALL", "STOP"),
        ("openai-responses", "incomplete", "completed"),
    ],
)
@pytest.mark.case("C055")
def test_of_two_reasons_to_end_the_one_that_cuts_counts(api: str, first: str, second: str) -> None:
    calls = (CALL,)
    found = answered(api, Said(calls=calls, finish=WORDS["called"][api]))
    assert found.finish == "tool_calls"
    for words in ((first, second), (second, first)):
        events = [event for event in stream_of(api, Said(calls=calls, finish=second)) if not is_end(event)]
        decided, _ = decoded(api, [*events, *(end(api, word) for word in words), *last_of(api)])
        assert decided.finish not in ("stop", "tool_calls")
        assert not any(call.complete for call in decided.message.calls)


def test_every_example_of_what_the_apis_say_is_tried_by_a_test() -> None:
    here = Path(__file__).parent
    tests = "".join(path.read_text("utf-8") for path in here.glob("*.py"))
    examples = [
        path for path in (here / "examples").glob("*/*.json*") if path.stem.removeprefix("stream-") not in tests
    ]
    assert examples == []
