"""Settings that no provider could take are refused where they are written."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ferrule import Settings, UsageError


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("temperature", "hot", "a number, not str."),
        ("temperature", math.nan, "a number, not nan."),
        ("top_p", True, "a number, not True."),
        ("seed", 1.5, "a whole number, not 1.5."),
        ("stop", "END", "a tuple of texts, not str."),
        ("stop", (1,), "a tuple of texts, not tuple."),
        ("max_tokens", -1, "a whole number of at least 0, not -1."),
        ("max_tokens", "9", "a whole number of at least 0, not str."),
        ("reasoning", "hard", "one of none, minimal, low, medium, high, xhigh, max, not str."),
        ("reasoning", ["low"], "one of none, minimal, low, medium, high, xhigh, max, not list."),
        ("tool_choice", 5, "a text or a tuple of texts, not 5."),
        ("timeout", math.nan, "seconds, more than 0, not nan."),
        ("timeout", -1, "seconds, more than 0, not -1."),
        ("extra", [("a", 1)], "a mapping, not list."),
        ("headers", "Authorization: secret", "a mapping, not str."),
    ],
)
def test_a_setting_of_another_kind_is_named(name: str, given: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings(**{name: given})
    assert str(caught.value) == f"the setting {name} must be {told}"


def test_what_providers_take_passes() -> None:
    Settings(0, 1.0, 7, ("a",), 1, "low", ["add"], True, True, math.inf, {"a": 1}, {"b": "c"})
    Settings(stop=["a"])  # pyright: ignore[reportArgumentType] - as good as a tuple
