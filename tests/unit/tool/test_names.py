"""Wire names: fit for every provider, equal in every process."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.tool.names import wire_name

PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
ANY_TEXT = st.text(st.characters(), max_size=200)  # lone surrogates too
ODD = [
    "user-profile/update",
    "Dockerfile problems scanner",
    "mcp__claude_ai_Cloudflare_Developer_Platform__search_cloudflare_documentation",
    "größe",
    "1st",
    "",
    "a\n",
]


@pytest.mark.case("C008")
@given(ANY_TEXT)
def test_any_name_becomes_one_that_every_provider_takes(name: str) -> None:
    assert PATTERN.fullmatch(wire_name(name))


@given(st.from_regex(PATTERN, fullmatch=True))
def test_a_name_that_fits_stays_as_it_is(name: str) -> None:
    assert wire_name(name) == name


@given(ANY_TEXT)
def test_a_wire_name_is_its_own_wire_name(name: str) -> None:
    assert wire_name(wire_name(name)) == wire_name(name)


@given(st.sets(ANY_TEXT, min_size=2, max_size=20))
def test_different_names_get_different_wire_names(names: set[str]) -> None:
    assert len({wire_name(name) for name in names}) == len(names)


@pytest.mark.case("C008")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("user-profile/update", r"user-profile_update_[0-9a-f]{8}"),
        ("Dockerfile problems scanner", r"Dockerfile_problems_scanner_[0-9a-f]{8}"),
        ("a" * 64, r"a{64}"),
        ("a" * 65, r"a{55}_[0-9a-f]{8}"),
        ("1st", r"_1st_[0-9a-f]{8}"),
        ("-dash", r"_-dash_[0-9a-f]{8}"),
        ("名前", r"tool_[0-9a-f]{8}"),
        ("", r"tool_[0-9a-f]{8}"),
        ("find\n", r"find_[0-9a-f]{8}"),
    ],
)
def test_a_wire_name_keeps_what_is_readable_and_adds_a_hash(name: str, expected: str) -> None:
    assert re.fullmatch(expected, wire_name(name))


@pytest.mark.parametrize(("one", "other"), [("a.b", "a b"), ("x" * 65, "x" * 66), ("é", "e\u0301")])
def test_names_that_read_the_same_differ_by_their_hash(one: str, other: str) -> None:
    assert wire_name(one) != wire_name(other)


@pytest.mark.case("C008")
@pytest.mark.parametrize("seed", ["0", "1"])
def test_another_process_gives_the_same_wire_names(seed: str) -> None:
    code = f"from ferrule.tool.names import wire_name\nprint([wire_name(n) for n in {ODD!a}])"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == repr([wire_name(n) for n in ODD])
