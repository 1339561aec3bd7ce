"""ToolResult: three views, three states, and what whatever a tool returns becomes."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from ferrule import (
    Failure,
    Part,
    Request,
    ToolResult,
    UsageError,
    auth_required,
    file,
    pending,
    pending_of,
    plain,
    restore,
    typed,
)
from ferrule.result import FAILURE_CODES, RETRYABLE, as_result, describe_exception, leaves_of
from ferrule.strict_json import dumps

DATA = "aGVsbG8gd29ybGQ="
PART = {"type": "file", "mimeType": "text/plain", "data": DATA}


# -- made by hand -----------------------------------------------------------------------------------------------


def test_the_plain_constructor_takes_output_flag_metadata_and_parts_in_that_order() -> None:
    made = ToolResult("text", False, {"n": 1}, [PART])
    assert (made.output, made.is_error, made.metadata, made.parts, made.value) == ("text", False, {"n": 1}, [PART], "text")
    broken = ToolResult("no", True)
    assert (broken.value, broken.failure, broken.error) == (None, Failure("refused"), "no")


@pytest.mark.case("C031")
@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, 0.0, float("nan")], ids=repr)
def test_success_is_the_state_and_never_the_truth_of_the_value(value: Any) -> None:
    made = ToolResult.ok(value)
    assert (made.status, made.success, made.error, made.pending) == ("done", True, None, None)
    assert made.value is value
    assert bool(made)


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("as it is", "as it is"),
        (None, ""),
        (7, "7"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ((1, 2), "[1,2]"),
        (2**60, "1152921504606846976"),
        (float("nan"), "null"),
        ({"b", "a"}, '["a","b"]'),
        ("a\udc97b", "a\ufffdb"),
    ],
)
def test_the_model_reads_text_as_it_is_and_all_else_as_compact_strict_json(value: Any, output: str) -> None:
    assert ToolResult.ok(value).output == output


def test_output_can_be_said_better_than_the_value_says_itself() -> None:
    made = ToolResult.ok({"n": 2}, output="two rows", parts=[file(b"a", mime_type="text/csv")], metadata={"k": 1})
    assert (made.value, made.output, made.metadata) == ({"n": 2}, "two rows", {"k": 1})
    assert made.parts == [{"type": "file", "mimeType": "text/csv", "data": "YQ=="}]


def test_a_contradiction_in_a_part_is_noted_in_the_metadata() -> None:
    made = ToolResult.ok(parts=[Part("image", mimeType="image/png", data="YQ==", note="declared image/jpeg")])
    assert made.metadata == {"notes": ["declared image/jpeg"]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ToolResult({"a": 1}, False), "output must be str, not dict. Use ToolResult.ok(value)"),  # pyright: ignore
        (lambda: ToolResult("x", "no"), "is_error must be True or False"),  # pyright: ignore
        (lambda: ToolResult("x", False, [1]), "metadata must be a dict or None"),  # pyright: ignore
        (lambda: ToolResult.failed("x", code="oops"), "unknown failure code 'oops'"),
        (lambda: ToolResult.failed(7), "must be text or an exception, not int"),  # pyright: ignore
    ],
)
def test_misuse_raises_and_names_the_mend(make: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert message in str(error.value)


def test_a_result_is_immutable_and_has_no_room_for_more() -> None:
    made: Any = ToolResult.ok(1)
    for name in ("output", "value", "status", "anything"):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(made, name, "x")
    assert not hasattr(made, "__dict__")
    assert dataclasses.is_dataclass(made)


def test_results_are_equal_by_fields_however_they_were_made() -> None:
    assert ToolResult("a", False) == ToolResult.ok("a") == copy.copy(ToolResult.ok("a"))
    assert ToolResult("no", True) == ToolResult.failed("no")
    assert ToolResult.ok(1) != ToolResult.ok(2)
    assert ToolResult.ok(None) != ToolResult.failed("x")
    assert ToolResult.ok(1) != 1
    assert dataclasses.replace(ToolResult.ok(1), output="one") == ToolResult.ok(1, output="one")
    assert pickle.loads(pickle.dumps(ToolResult.failed("no"))) == ToolResult.failed("no")


@pytest.mark.needs("numpy")
def test_values_that_refuse_comparison_do_not_break_equality() -> None:
    import numpy as np

    array: Any = np.arange(3)
    assert ToolResult.ok(array, output="a") == ToolResult.ok(array, output="a")
    assert ToolResult.ok(array, output="a") != ToolResult.ok(np.arange(3), output="a")


# -- failures ---------------------------------------------------------------------------------------------------


def test_each_code_is_known_and_three_are_worth_another_try() -> None:
    assert {
        "invalid_arguments", "unknown_tool", "exception", "timeout", "cancelled", "denied", "expired", "unavailable",
        "rate_limited", "too_large", "outcome_unknown", "budget", "not_executed", "refused",
    } == FAILURE_CODES  # fmt: skip
    assert {c for c in FAILURE_CODES if Failure(c).retryable} == RETRYABLE == {"timeout", "unavailable", "rate_limited"}


def test_a_failure_may_overrule_its_code() -> None:
    made = ToolResult.failed("busy", code="unavailable", retryable=False, retry_after=3.0, details={"n": 1})
    assert made.failure == Failure("unavailable", None, False, 3.0, {"n": 1})
    assert ToolResult.failed("busy", retryable=True).failure == Failure("refused", None, True)


@pytest.mark.case("C034")
@pytest.mark.parametrize(
    ("message", "text"),
    [("", "refused"), ("  ", "refused"), (ValueError(), "ValueError"), (ValueError("v"), "ValueError: v"), (KeyError("x"), "KeyError: 'x'")],
)  # fmt: skip
def test_an_error_text_is_never_empty(message: Any, text: str) -> None:
    assert ToolResult.failed(message).error == text


def test_an_exception_whose_text_raises_is_still_named() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert ToolResult.failed(Hostile()).error == "Hostile"


@pytest.mark.case("C035")
def test_the_leaves_of_nested_groups_are_listed_and_bounded() -> None:
    group = ExceptionGroup("x", [ExceptionGroup("y", [ValueError(str(i)) for i in range(10_000)]), KeyError("k")])
    text = describe_exception(group)
    assert text.startswith("ValueError: 0; ValueError: 1; ")
    assert text.endswith("and 9991 more")
    assert len(text) < 1_000
    assert len(leaves_of(group)) == 10_001


def test_a_group_whose_leaves_agree_has_their_code() -> None:
    made = ToolResult.failed(ExceptionGroup("x", [TimeoutError("a"), TimeoutError("b")]))
    assert made.failure is not None
    assert (made.failure.code, made.failure.retryable) == ("timeout", True)


@pytest.mark.parametrize(("status", "code"), [(401, "denied"), (404, "exception"), (429, "rate_limited"), (503, "unavailable")])
def test_an_error_with_an_http_response_is_classified_by_its_status(status: int, code: str) -> None:
    class Response:
        status_code = status

    class HTTPStatusError(Exception):
        response = Response()

    failure = ToolResult.failed(HTTPStatusError("x")).failure
    assert failure is not None
    assert failure.code == code


# -- suspension -------------------------------------------------------------------------------------------------


def test_a_pending_result_is_no_success_and_no_failure() -> None:
    made = pending(kind="input", prompt="Which?", url="https://x.invalid")
    assert (made.status, made.success, made.is_error, made.error, made.failure) == ("suspended", False, True, None, None)
    assert made.output == "Which?\nhttps://x.invalid"
    request = pending_of(made)
    assert request is not None
    assert request.id
    assert request is made.pending


def test_two_requests_have_two_ids() -> None:
    assert pending("input", "?").pending != pending("input", "?").pending


def test_auth_required_is_the_short_form_of_a_sign_in() -> None:
    made = auth_required("https://x.invalid/login")
    assert made.pending is not None
    assert (made.pending.kind, made.pending.url) == ("authorization", "https://x.invalid/login")


def test_a_plain_result_waits_for_nothing() -> None:
    assert pending_of(ToolResult("done", False)) is None
    assert pending_of(ToolResult("done", False, {"k": 1})) is None


def test_a_result_with_a_request_is_suspended_whatever_its_flag_says() -> None:
    made = as_result(ToolResult("wait", False, {"pending": Request("r", "input", "?")}))
    assert (made.status, made.is_error, made.failure, made.value) == ("suspended", True, None, None)


# -- from whatever a tool returns -------------------------------------------------------------------------------


@dataclass
class Order:
    id: str
    total: float


@pytest.mark.parametrize(
    ("value", "output"),
    [("x", "x"), (None, ""), (3, "3"), (Order("A", 1.5), '{"id":"A","total":1.5}'), ([], "[]"), ((), "[]")],
)
def test_a_plain_value_is_the_value_of_a_success(value: Any, output: str) -> None:
    made = as_result(value)
    assert (made.status, made.output, made.value, made.parts) == ("done", output, value, None)


def test_parts_become_parts_and_a_line_of_text_for_each() -> None:
    made = as_result(["two", Part("text", text="three"), file(b"a", mime_type="text/csv"), 4])
    assert made.output == "two\nthree\nfile (text/csv, 1 bytes)\n4"
    assert made.parts == [{"type": "file", "mimeType": "text/csv", "data": "YQ=="}]


def test_an_exception_that_is_returned_is_a_failure_too() -> None:
    assert as_result(ValueError("v")) == ToolResult.failed(ValueError("v"))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (ToolResult("x", False, parts=[{"type": "image"}]), "part 0"),
        (ToolResult("x", False, parts=["image"]), None),  # pyright: ignore[reportArgumentType]
        (ToolResult("x", False, parts=[7]), "part 0 is int"),  # pyright: ignore[reportArgumentType]
        (ToolResult("x", True, {"pending": {"id": "r"}}), "malformed request"),
        (ToolResult("x", True, {"pending": 7}), "malformed request"),
    ],
)
def test_what_a_tool_wrote_by_hand_is_checked_and_what_is_wrong_is_named(given: ToolResult, error: str | None) -> None:
    made = as_result(given)
    if error is None:
        assert made.parts == [{"type": "text", "text": "image"}]
    else:
        assert made.status == "failed"
        assert error in made.output


# -- what is shown ----------------------------------------------------------------------------------------------


def test_the_repr_elides_long_text_and_never_shows_data_or_metadata() -> None:
    made = ToolResult.ok("x" * 10_000, parts=[PART], metadata={"token": "tok_FAKE"})
    shown = repr(made)
    assert len(shown) < 400
    assert "file (text/plain, 11 bytes)" in shown
    assert DATA not in shown
    assert "tok_FAKE" not in shown


def test_the_repr_survives_a_value_whose_repr_raises() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "done" in repr(ToolResult.ok(Hostile(), output="x"))


# -- the boundary and the journal -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (ToolResult.ok(None), None),
        (ToolResult.ok(0), 0),
        (ToolResult.ok(""), ""),
        (ToolResult.ok({"status": 200}), {"status": 200}),
        (ToolResult.ok({"success": False, "error": "x"}), {"success": False, "error": "x"}),
        (ToolResult.failed("Webhook request failed"), {"success": False, "error": "Webhook request failed"}),
        (ToolResult.ok([ToolResult.ok(1), {"b": ToolResult.failed("no")}]), [1, {"b": {"success": False, "error": "no"}}]),
        (ToolResult.ok(2**60), "1152921504606846976"),
    ],
)
def test_at_the_boundary_a_success_is_its_value_and_a_failure_says_why(made: ToolResult, expected: Any) -> None:
    assert plain(made) == expected


def test_at_the_boundary_a_suspended_result_says_what_it_waits_for() -> None:
    assert plain(pending("input", "Name?", id="r1")) == {
        "success": False,
        "error": "Name?",
        "pending": {"id": "r1", "kind": "input", "prompt": "Name?"},
    }


@pytest.mark.parametrize(
    "made",
    [
        ToolResult.ok(None),
        ToolResult.ok({"a": (1, {2})}, output="said", parts=[PART], metadata={"k": b"x"}),
        ToolResult.failed("no", code="timeout", retry_after=2.5, details={"n": 1}),
        ToolResult.failed(ValueError("v")),
        pending("approval", "Sure?", id="r", data={"arguments": {"n": 1}}, preview=ToolResult.ok("shown")),
        ToolResult.ok(ToolResult.ok(1)),
    ],
)
def test_a_result_comes_back_from_the_journal_equal_to_itself(made: ToolResult) -> None:
    assert restore(orjson.loads(dumps(typed(made)))) == made


@pytest.mark.case("C029")
def test_whatever_text_goes_in_every_byte_that_comes_out_is_strict_json() -> None:
    bad = "a\ud800b"
    made = ToolResult.ok({bad: bad}, output=bad, metadata={bad: bad}, parts=[Part("text", text=bad)])
    for value in (plain(made), typed(made), plain(ToolResult.failed(bad)), plain(ToolResult.failed(ValueError(bad)))):
        json.loads(dumps(value).decode())
    made.output.encode()
