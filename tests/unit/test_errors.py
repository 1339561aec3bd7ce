"""The exception tree: one base, and each class says who has something to mend."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from ferrule import errors
from ferrule.errors import FerruleError, JSONSyntaxError, ModelError, UnknownToolError, UnsupportedPartError, UsageError

PARENTS = {
    "UsageError": {FerruleError},
    "ContentPartError": {UsageError, ValueError},
    "UnsupportedPartError": {UsageError, ValueError},
    "RequestError": {UsageError, ValueError},
    "UnknownToolError": {UsageError, KeyError},
    "ToolDefinitionError": {FerruleError},
    "ToolNameError": {errors.ToolDefinitionError},
    "ConfigurationError": {FerruleError},
    "ModelError": {FerruleError},
    "RunError": {FerruleError},
    "SessionBusy": {FerruleError},
    "StoreError": {FerruleError},
    "LeaseLost": {errors.StoreError},
    "ArchiveError": {FerruleError},
    "AnswerRefused": {FerruleError},
    "AlreadyAnswered": {errors.AnswerRefused},
    "NonDeterminism": {FerruleError},
    "FetchError": {FerruleError},
    "ForbiddenAddressError": {errors.FetchError},
    "JSONSyntaxError": {FerruleError, ValueError},
}
CLASSES = {
    name: cls
    for name, cls in vars(errors).items()
    if inspect.isclass(cls) and issubclass(cls, Exception) and cls is not FerruleError
}
SPECIAL = (
    "UnsupportedPartError", "JSONSyntaxError", "ModelError", "SessionBusy", "AnswerRefused", "AlreadyAnswered",
    "NonDeterminism",
)  # fmt: skip


def test_the_tree_is_the_documented_one() -> None:
    assert {name: set(cls.__bases__) for name, cls in CLASSES.items()} == PARENTS
    assert Exception is FerruleError.__base__


def test_the_page_draws_every_class() -> None:
    assert {*PARENTS} == set(re.findall(r"── (\w+)", errors.__doc__ or ""))


def test_an_unsupported_part_names_part_type_and_style() -> None:
    error = UnsupportedPartError("audio", "audio/wav", "anthropic")
    expected = "anthropic has no shape for the audio part (audio/wav). Convert it to a supported type or send its text."
    assert (expected, "audio", "audio/wav", "anthropic") == (str(error), error.part_type, error.mime_type, error.style)
    assert "x has no shape for the file part. " in str(UnsupportedPartError("file", None, "x"))


def test_an_unknown_tool_is_a_key_error_whose_text_is_not_quoted() -> None:
    assert str(UnknownToolError("There is no tool 'x'.")) == "There is no tool 'x'."
    assert str(UnknownToolError()) == ""


def test_a_syntax_error_tells_its_place_where_it_is_known() -> None:
    error = JSONSyntaxError("Expecting value", 3, 7)
    assert (
        str(error),
        error.reason,
        error.line,
        error.column,
    ) == ("Expecting value at line 3 column 7", "Expecting value", 3, 7)
    assert (
        str(JSONSyntaxError("not UTF-8")),
        JSONSyntaxError("x").line,
        JSONSyntaxError("x").column,
    ) == ("not UTF-8", None, None)


@pytest.mark.parametrize(
    "error",
    [
        UnsupportedPartError("audio", "audio/wav", "x"),
        JSONSyntaxError("Expecting value", 3, 7),
        ModelError("x", provider="p", status=429, code="c", request_id="r", retryable=True, retry_after=1.5),
        errors.SessionBusy("run_1", "running"),
        errors.NonDeterminism(7, "t1.0", "tool 'a'", "tool 'b'"),
        errors.AnswerRefused("run_1.4", "It has expired."),
        errors.AlreadyAnswered("run_1.4", "ada", 1_800_000_000.0),
        *(cls("text") for name, cls in CLASSES.items() if name not in SPECIAL),
    ],
    ids=lambda e: type(e).__name__,
)
def test_every_error_survives_copying_and_pickling(error: FerruleError) -> None:
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(error), str(error), vars(error)) == (type(other), str(other), vars(other))


@pytest.mark.parametrize("given", ["soon", -1, float("nan"), [1]])
def test_a_wait_that_is_none_is_none(given: Any) -> None:
    assert ModelError("busy", provider="p", retry_after=given).retry_after is None
