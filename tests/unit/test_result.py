"""ToolResult: three views, three states, and what whatever a tool returns becomes."""

from __future__ import annotations

import asyncio
import base64
import copy
import dataclasses
import enum
import inspect
import json
import pickle
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import orjson
import pytest
from tests.unit.values import HOSTILE, Faceless, FacelessError, shrink

from ferrule import (
    Failure,
    Opaque,
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
from ferrule.exception import describe_exception, leaves_of
from ferrule.result import FAILURE_CODES, RETRYABLE, as_result
from ferrule.strict_json import dumps

DATA = "aGVsbG8gd29ybGQ="
REQUEST = Request("r", "input", "?")
PART = {"type": "file", "mimeType": "text/plain", "data": DATA}


# -- made by hand -----------------------------------------------------------------------------------------------


def test_the_plain_constructor_takes_output_flag_metadata_and_parts_in_that_order() -> None:
    made = ToolResult("text", False, {"n": 1}, [PART])
    assert (made.output, made.is_error, made.metadata, made.parts, made.value) == (
        "text",
        False,
        {"n": 1},
        [PART],
        "text",
    )
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
    again = ToolResult.ok(
        parts=[Part("image", mimeType="image/png", data="YQ==", note="n")], metadata={"notes": "mine"}
    )
    assert again.metadata == {"notes_of_tool": "mine", "notes": ["n"]}


def test_only_a_result_that_failed_has_a_failure_however_it_is_made() -> None:
    failed = ToolResult.failed("x", code="timeout")
    made = [dataclasses.replace(failed, is_error=False), ToolResult("x", False, failure=Failure("timeout"))]
    assert [(r.status, r.failure) for r in made] == [("done", None)] * 2
    again = dataclasses.replace(ToolResult.ok(1), is_error=True)
    assert (again.status, again.failure) == ("failed", Failure("refused"))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (float("nan"), "nan"), (float("inf"), "inf"), (-0.5, "-0.5"), (-1, "-1"), ("5", "str"), (True, "bool"),
        (10**400, "int"), (-(10**400), "int"), (Decimal(5), "Decimal"), (b"5", "bytes"),
    ],
)  # fmt: skip
def test_seconds_that_nobody_can_wait_are_refused(seconds: Any, shown: str) -> None:
    for make in (Failure, partial(ToolResult.failed, "x")):
        with pytest.raises(UsageError) as error:
            make(code="rate_limited", retry_after=seconds)
        expected = f"retry_after of a failure must be a finite number of seconds from 0, not {shown}."
        assert expected == str(error.value)


@pytest.mark.parametrize("seconds", [None, 0, 0.0, 1.5, 10**9])
def test_a_number_of_seconds_is_kept(seconds: Any) -> None:
    assert seconds == Failure("rate_limited", retry_after=seconds).retry_after


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ToolResult({"a": 1}, False), "output must be str, not dict. Use ToolResult.ok(value)"),  # pyright: ignore
        (lambda: ToolResult("x", "no"), "is_error must be True or False"),  # pyright: ignore
        (lambda: ToolResult("x", False, [1]), "metadata must be a dict or None"),  # pyright: ignore
        (lambda: ToolResult.failed("x", code="oops"), "unknown failure code 'oops'"),
        (lambda: ToolResult("x", True, failure="timeout"), "failure must be a Failure or None, not str."),  # pyright: ignore
        (lambda: Failure("refused", retryable="no"), "retryable of a failure must be True, False or None, "),  # pyright: ignore
        (lambda: Failure("exception", 5), "type of a failure must be a str or None, not int."),  # pyright: ignore
        (lambda: ToolResult.failed(7), "must be text or an exception, not int"),  # pyright: ignore
        (
            lambda: ToolResult.ok(1, parts=Part("text", text="x")),  # pyright: ignore
            "parts must be a list of parts, not Part. Put it into a list.",
        ),
        (lambda: ToolResult.ok(1, parts=5), "parts must be a list of parts, not int. Put it into a list."),  # pyright: ignore
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


@pytest.mark.needs("numpy")
def test_metadata_that_refuses_comparison_does_not_break_equality() -> None:
    import numpy as np

    array: Any = np.arange(3)
    assert ToolResult("a", False, {"k": array}) == ToolResult("a", False, {"k": array})
    assert ToolResult("a", False, {"k": array}) != ToolResult("a", False, {"k": np.arange(3)})


def test_a_result_has_no_hash_because_it_holds_dicts() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(ToolResult.ok(1))


def test_output_is_an_exact_str_without_lone_surrogates() -> None:
    class Text(str):
        pass

    for made in (ToolResult(Text("a"), False), ToolResult.ok(Text("a")), ToolResult.ok(1, output=Text("a"))):
        assert (str, "a") == (type(made.output), made.output)
    assert (ToolResult("a\udc97", False).output, ToolResult("a\udc97", False).value) == ("a\ufffd", "a\ufffd")


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
    [
        ("", "refused"),
        ("  ", "refused"),
        (ValueError(), "ValueError"),
        (ValueError("v"), "ValueError: v"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_an_error_text_is_never_empty(message: Any, text: str) -> None:
    assert ToolResult.failed(message).error == text


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_an_exception_whose_text_raises_is_still_named(error: type[BaseException]) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise error("no text")

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


@pytest.mark.parametrize(
    ("status", "code"), [(401, "denied"), (404, "exception"), (429, "rate_limited"), (503, "unavailable")]
)
def test_an_error_with_an_http_response_is_classified_by_its_status(status: int, code: str) -> None:
    class Response:
        status_code = status

    class HTTPStatusError(Exception):
        response = Response()

    failure = ToolResult.failed(HTTPStatusError("x")).failure
    assert failure is not None
    assert failure.code == code


def test_an_http_status_is_found_on_the_error_itself_and_a_property_that_raises_tells_nothing() -> None:
    class StatusError(Exception):
        status = 429

    class Unready(Exception):
        @property
        def response(self) -> Any:
            raise RuntimeError("no response yet")

    class ConnectTimeout(Exception):
        pass

    named = type("Timeout", (ConnectTimeout,), {})
    codes = [
        f.code for e in (StatusError(), Unready(), named(), ConnectTimeout()) if (f := ToolResult.failed(e).failure)
    ]
    assert codes == ["rate_limited", "exception", "timeout", "timeout"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError(), "timeout"),
        (PermissionError(), "denied"),
        (ConnectionRefusedError(), "unavailable"),
        (asyncio.CancelledError(), "cancelled"),
        (ExceptionGroup("x", [TimeoutError(), PermissionError()]), "exception"),
        (ValueError(), "exception"),
    ],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_an_exception_is_classified_by_its_kind(error: BaseException, code: str) -> None:
    failure = ToolResult.failed(error).failure
    assert failure is not None
    assert (code, type(leaves_of(error)[0]).__name__) == (failure.code, failure.type)


def test_groups_that_share_their_groups_are_unwrapped_in_linear_time() -> None:
    group: ExceptionGroup[Exception] = ExceptionGroup("0", [ValueError("v")])
    for level in range(60):
        group = ExceptionGroup(str(level), [group, group])
    assert describe_exception(group) == "ValueError: v"


@pytest.mark.case("C034")
def test_credentials_in_exceptions_and_groups_are_masked_and_the_text_is_bounded() -> None:
    leaf = ValueError("GET https://api.example.invalid/s?key=FAKEKEY123&q=1 failed " + "x" * 10_000)
    for error in (leaf, ExceptionGroup("x", [leaf, leaf, KeyError("FAKE")])):
        text = ToolResult.failed(error).output
        assert "FAKEKEY123" not in text
        assert "?key=[redacted]&q=1" in text
        assert len(text) < 3_000


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("cannot reach postgres://app:FAKE@db.invalid/x", "cannot reach postgres://app:[redacted]@db.invalid/x"),
        ("GET https://x.invalid/s?api_key=FAKE&q=1 failed", "GET https://x.invalid/s?api_key=[redacted]&q=1 failed"),
        ("sent Authorization: Bearer FAKEFAKE1", "sent Authorization: Bearer [redacted]"),
        ("there is no order A-1001", "there is no order A-1001"),
    ],
)
def test_credentials_in_a_text_are_masked_as_in_an_exception(message: str, text: str) -> None:
    assert ToolResult.failed(message).error == text
    assert ToolResult.failed(ValueError(message)).error == f"ValueError: {text}"
    assert ToolResult.ok(message).output == ToolResult(message, True).output == message


def test_an_unknown_code_of_any_type_is_refused() -> None:
    for code in ("oops", "", None, 5, ["timeout"]):
        with pytest.raises(UsageError, match="unknown failure code"):
            Failure(code)  # pyright: ignore[reportArgumentType]


# -- suspension -------------------------------------------------------------------------------------------------


def test_a_pending_result_is_no_success_and_no_failure() -> None:
    made = pending(kind="input", prompt="Which?", url="https://x.invalid")
    assert (made.status, made.success, made.is_error, made.error, made.failure) == (
        "suspended",
        False,
        True,
        None,
        None,
    )
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


@pytest.mark.parametrize("request_", [REQUEST, REQUEST.to_dict()], ids=["object", "dict"])
@pytest.mark.parametrize(
    "make",
    [
        partial(ToolResult, "wait", False),
        partial(ToolResult, "wait", True, failure=Failure("timeout")),
        partial(ToolResult.ok, 5),
        partial(ToolResult.ok, 5, output="five", parts=[PART]),
        partial(ToolResult.failed, "no"),
        partial(dataclasses.replace, ToolResult.ok(5)),
    ],
)
def test_a_result_with_a_request_is_suspended_however_it_is_made(make: Any, request_: Any) -> None:
    made = make(metadata={"pending": request_})
    for result in (made, as_result(made), restore(typed(made)), copy.copy(made)):
        assert (result.status, result.success, result.is_error) == ("suspended", False, True)
        assert (result.error, result.failure, result.value, result.pending) == (None, None, None, REQUEST)


def test_a_request_put_into_the_metadata_afterwards_counts_when_the_result_is_taken() -> None:
    for given in (ToolResult.ok(5, metadata={"k": 1}), ToolResult.failed("no", metadata={"k": 1})):
        assert given.metadata is not None
        given.metadata["pending"] = REQUEST
        made = as_result(given)
        assert (made.status, made.is_error, made.failure, made.value) == ("suspended", True, None, None)


def test_what_is_no_request_leaves_a_result_as_it_was_made() -> None:
    made = ToolResult.ok(5, metadata={"pending": {"id": "r"}})
    assert (made.status, made.is_error, made.value) == ("done", False, 5)
    assert ToolResult("x", True, {"pending": {"id": "r"}}).failure == Failure("refused")


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
        ({"parts": [{"type": "image"}]}, "returned a part that is none: part 0: an image part needs a mimeType"),
        ({"parts": [7]}, "returned a part that is none: part 0: int is no part"),
        (
            {"metadata": {"pending": {"id": "r"}}},
            "suspended with a malformed request: the request has no field 'kind'.",
        ),
        ({"metadata": {"pending": 7}}, "suspended with a malformed request: the request must be a dict, not int."),
    ],
)
def test_what_a_tool_wrote_by_hand_is_checked_and_what_is_wrong_is_named(given: Any, error: str) -> None:
    assert str(as_result(ToolResult("x", False, **given)).error).startswith(f"The tool {error}")


def test_a_text_among_the_parts_is_a_text_part() -> None:
    made = as_result(ToolResult("x", False, parts=["image"]))  # pyright: ignore[reportArgumentType]
    assert made.parts == [{"type": "text", "text": "image"}]


@pytest.mark.parametrize("raw", [b"a,b\n", bytearray(b"a,b\n"), memoryview(b"a,b\n")], ids=lambda r: type(r).__name__)
def test_bytes_are_a_file_part_and_stay_the_value(raw: Any) -> None:
    made = as_result(raw)
    assert made.value is raw
    assert made.output == "file (text/plain, 4 bytes)"
    assert made.parts == [{"type": "file", "mimeType": "text/plain", "data": "YSxiCg=="}]


def test_one_part_is_a_part_and_its_line() -> None:
    made = as_result(file(b"a", mime_type="text/csv"))
    assert (made.output, len(made.parts or [])) == ("file (text/csv, 1 bytes)", 1)
    assert (
        as_result(Part("text", text="words")).output,
        as_result(Part("text", text="words")).parts,
    ) == ("words", None)


@pytest.mark.case("C040")
def test_a_pdf_is_a_part_and_never_text() -> None:
    made = as_result(["the contract:", file(b"%PDF-1.7\n" + bytes(20), name="contract.pdf")])
    assert made.output == "the contract:\nfile (application/pdf, 29 bytes)"


@pytest.mark.parametrize("parts", ["text", {"type": "text"}, 7, (n for n in ())], ids=lambda p: type(p).__name__)
def test_parts_that_are_no_list_make_a_failure_that_says_so(parts: Any) -> None:
    made = as_result(ToolResult("x", False, None, parts))
    assert f"The tool returned parts as {type(parts).__name__}, not as a list." == made.error
    assert "done" in repr(ToolResult("x", False, None, parts))


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_a_tool_returns_or_puts_into_its_result_becomes_a_result(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch)
    value = HOSTILE[name]()
    assert as_result(value).status == ("failed" if issubclass(type(value), BaseException) else "done")
    assert as_result([value, Part("text", text="a")]).status == "done"
    assert as_result(ToolResult("x", False, {"pending": value})).error is not None
    assert as_result(ToolResult("x", False, None, [value])).status in ("done", "failed")
    assert as_result(ToolResult("x", False, None, value)).error is not None
    assert ToolResult.ok(value) != value
    repr(ToolResult.ok(value, metadata={"k": value}))


@pytest.mark.parametrize("cls", [Faceless, FacelessError])
def test_what_is_no_field_of_a_result_is_misuse_whatever_it_says_of_itself(cls: Any) -> None:
    for make in (
        lambda: ToolResult(cls(), False),
        lambda: ToolResult("x", cls()),
        lambda: ToolResult("x", False, cls()),
    ):
        with pytest.raises(UsageError, match=cls.__name__):
            make()
    with pytest.raises(UsageError, match="Faceless"):
        ToolResult.failed(Faceless())  # pyright: ignore[reportArgumentType]


def test_a_request_written_as_a_dict_is_converted() -> None:
    given = ToolResult("wait", True, {"pending": {"id": "r", "kind": "input", "prompt": "?"}, "k": 1})
    made = as_result(given)
    assert {"pending": Request("r", "input", "?"), "k": 1} == made.metadata
    assert (made.status, made.failure, made.output) == ("suspended", None, "wait")
    assert Request("r", "input", "?") == pending_of(given)


def test_a_malformed_request_is_no_request_until_the_result_is_taken() -> None:
    given = ToolResult("x", True, {"pending": {"id": "r"}})
    assert (pending_of(given), given.status, given.error) == (None, "failed", "x")


def test_the_signature_shows_that_the_value_defaults_to_the_output() -> None:
    assert "value: 'Any' = <output>" in str(inspect.signature(ToolResult))


def test_parts_written_by_hand_become_canonical_and_equal_ones_are_left_alone() -> None:
    given = ToolResult("x", False, None, [{**PART, "name": None}])
    assert as_result(given).parts == [PART]
    sound = ToolResult("x", False, None, [PART])
    assert as_result(sound) is sound


# -- what is shown ----------------------------------------------------------------------------------------------


def test_the_repr_elides_long_text_and_never_shows_data_or_metadata() -> None:
    made = ToolResult.ok("x" * 10_000, parts=[PART], metadata={"token": "tok_FAKE"})
    shown = repr(made)
    assert len(shown) < 400
    assert "file (text/plain, 11 bytes)" in shown
    assert DATA not in shown
    assert "tok_FAKE" not in shown


def test_the_repr_shows_neither_bytes_nor_the_data_of_parts_inside_values() -> None:
    data = base64.b64encode(b"very secret picture").decode()
    pic = {"type": "image", "mimeType": "image/png", "data": data}
    for value in (b"very secret", pic, [pic], {"a": pic}, Part(**pic), [Part(**pic)]):
        shown = repr(ToolResult.ok(value, output="x", parts=[pic]))
        assert data[:8] not in shown
        assert "secret" not in shown


@pytest.mark.parametrize("parts", [[5], [None], [{"type": 1}], [{"type": "image", "data": 5}], "x", 5], ids=repr)
def test_the_repr_survives_parts_that_are_none(parts: Any) -> None:
    assert "ToolResult(done, output='x'" in repr(ToolResult("x", False, {"k": 2}, parts))


def test_the_repr_survives_a_value_whose_repr_raises() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "done" in repr(ToolResult.ok(Hostile(), output="x"))
    disguised = type("dict", (), {})()
    assert "value=<dict>" in repr(ToolResult.ok(disguised, output="x"))


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
        (
            ToolResult.ok([ToolResult.ok(1), {"b": ToolResult.failed("no")}]),
            [1, {"b": {"success": False, "error": "no"}}],
        ),
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


def test_a_value_that_is_the_output_is_stored_once() -> None:
    long = "word " * 1_000
    for made in (
        ToolResult.ok(long),
        ToolResult(long, False),
        dataclasses.replace(ToolResult.ok(long), value=" ".join(long.split(" "))),
    ):
        assert len(dumps(typed(made))) < 5_100
        assert restore(typed(made)) == made


def test_results_inside_results_come_back_at_any_depth_up_to_the_bound() -> None:
    made = ToolResult.ok(1)
    for _ in range(27):
        made = ToolResult.ok({"inner": [made]}, output="outer")
    found = restore(orjson.loads(dumps(typed(made))))
    for _ in range(27):
        assert found.output == "outer"
        found = found.value["inner"][0]
    assert ToolResult.ok(1) == found


class Code(enum.StrEnum):
    LATER = "timeout"


class Wait(enum.IntEnum):
    MINUTE = 60


def test_a_failure_made_of_members_of_enums_comes_back() -> None:
    made = ToolResult("no", True, failure=Failure(Code.LATER, Code.LATER, None, Wait.MINUTE))

    assert made.failure == Failure("timeout", "timeout", True, 60)
    assert made.failure is not None
    assert (type(made.failure.code), type(made.failure.type)) == (str, str)
    assert restore(typed(made)) == made


def test_a_part_that_the_bounds_cut_is_a_text_that_says_so() -> None:
    stored = {"$opaque": ["str", "left out"]}
    parts = [{"type": "text", "text": "a"}, {"type": "file", "mimeType": "text/csv", "data": stored}]
    cut = {"type": "text", "text": "[str: left out]"}

    found = restore({"$result": {"is_error": False, "output": stored, "parts": parts, "metadata": stored}})
    assert found == ToolResult("[str: left out]", False, {"…": Opaque("str", "left out")}, [parts[0], cut], found.value)
    assert restore({"$result": {"is_error": False, "output": "", "parts": stored}}).parts == [cut]


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {},
        {"output": 5, "is_error": False},
        {"output": "x", "is_error": 1},
        {"output": "x", "is_error": True, "failure": ["oops"]},
    ],
    ids=repr,
)
def test_a_damaged_stored_result_is_opaque(payload: Any) -> None:
    assert isinstance(restore({"$result": payload}), Opaque)
