"""`parse`: strict JSON is read, everything else is refused with its place and without its content."""

from __future__ import annotations

import copy
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.values import SURROGATES, nested

from ferrule.errors import JSONSyntaxError
from ferrule.strict_json import clean, dumps, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_dumps_writes_is_read_back(value: Any) -> None:
    assert value == parse(dumps(value))
    assert value == parse(dumps(value).decode())


@pytest.mark.case("C020")
@given(VALUES)
def test_any_valid_text_is_read_as_the_json_module_reads_it(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert value == parse(text)
        assert value == parse(text.encode())


@pytest.mark.parametrize("digits", [19, 20, 30, 4_000])
def test_integers_of_any_size_are_exact(digits: int) -> None:
    number = int("9" * digits)
    assert [number, -number] == parse(f"[{number},-{number}]")
    assert [number] == parse(dumps([number]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("2", 2),
        ("1.10", Decimal("1.10")),
        ("1E5", Decimal("1E5")),
        ("1e400", Decimal("1e400")),
        ("0.1234567890123456789012", Decimal("0.1234567890123456789012")),
    ],
)
def test_read_exactly_a_number_keeps_all_its_digits(text: str, expected: Any) -> None:
    for found in (parse(text, exact=True), parse(f'["\\u00e9",{text}]', exact=True)[1]):
        assert (type(found), repr(found)) == (type(expected), repr(expected))
        assert repr(parse(dumps([found]), exact=True)) == repr([expected])


def test_read_exactly_an_exponent_beyond_all_bounds_is_refused_and_what_is_refused_stays_so() -> None:
    for text, reason in (("1e" + "9" * 30, "a number with an exponent beyond all bounds"), ("NaN", "the word NaN")):
        with pytest.raises(JSONSyntaxError, match=reason):
            parse(f"[{text}]", exact=True)


def test_decimals_that_are_no_numbers_are_not_written() -> None:
    for value in (Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), {1, 2}):
        with pytest.raises(TypeError, match="has no JSON form"):
            dumps([value])


def test_beside_an_integer_beyond_64_bits_a_decimal_is_still_a_number() -> None:
    assert dumps([2**70, Decimal("1.10")]) == b"[1180591620717411303424,1.10]"


@pytest.mark.case("C029")
def test_an_escaped_pair_is_one_character() -> None:
    assert parse('{"a\\ud83c\\udf78":"\\ud83c\\udf78"}') == {"a🍸": "🍸"}


def test_an_escaped_backslash_before_a_u_is_no_escape() -> None:
    assert parse('["\\\\ud800"]') == ["\\ud800"]
    assert parse(f'[{10**400},"\\u00e9"]') == [10**400, "é"]


REFUSED: list[tuple[str | bytes, str]] = [
    ("", "Expecting value at line 1 column 1"),
    ("nul", "Expecting value at line 1 column 1"),
    ('{"a":1,', "Expecting property name enclosed in double quotes at line 1 column 8"),
    ('{"a" 1}', "Expecting ':' delimiter at line 1 column 6"),
    ('[1\n,\n2 3]', "Expecting ',' delimiter at line 3 column 3"),
    ('{"a":1} {"a":2}', "Extra data at line 1 column 9"),
    ('{"a":1}}', "Extra data at line 1 column 8"),
    ('"abc', "Unterminated string starting at line 1 column 1"),
    ('"\t"', "Invalid control character at line 1 column 2"),
    ('"\\x"', "Invalid \\escape at line 1 column 2"),
    ('"\\u12"', "Invalid \\uXXXX escape at line 1 column 3"),
    ("\ufeff{}", "Expecting value at line 1 column 1"),
    ("[01]", "Expecting ',' delimiter at line 1 column 3"),
    ('{"a":1,"b":2,"a":3}', "an object with a duplicate key"),
    ('[{"x":{"a":1,"\\u0061":1}}]', "an object with a duplicate key"),
    ("[NaN]", "the word NaN, which is not JSON"),
    ("-Infinity", "the word -Infinity, which is not JSON"),
    ("[1e999]", "a number beyond the range of a float"),
    ("9" * 5_000, "a number with too many digits"),
    ('"\\ud800"', "a lone surrogate"),
    ('{"\\udc00":1}', "a lone surrogate"),
    ('"\\ud83c \\udf78"', "a lone surrogate"),
    ('"\udc97"', "a lone surrogate"),
    (b'"\xff"', "not UTF-8"),
    (b'"\xed\xa0\x80"', "not UTF-8"),
    ("[" * 100_000, "nested too deeply"),
    ('{"a":' * 100_000, "nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=[f"{i} {e[:30]}" for i, (_, e) in enumerate(REFUSED)])
def test_what_is_no_strict_json_is_refused_with_its_place(text: str | bytes, expected: str) -> None:
    with pytest.raises(JSONSyntaxError) as caught:
        parse(text)
    assert expected == str(caught.value)
    place = expected.rpartition(" at line ")[2].split(" column ")
    assert ([int(n) for n in place] if len(place) == 2 else [None, None]) == [caught.value.line, caught.value.column]


@pytest.mark.case("C025")
@pytest.mark.parametrize(
    "text",
    ['{"token":"tok_FAKE",', '{"token":"tok_FAKE" x}', '{"tok_FAKE":1,"tok_FAKE":2}', '["tok_FAKE", NaN]', "tok_FAKE",
     '["tok_FAKE\\ud800"]', '["tok_FAKE', '{"tok_FAKE"}', '"tok_FAKE\\q"', '"tok_FAKE\t"'],
)  # fmt: skip
def test_the_content_is_neither_in_the_message_nor_in_what_was_chained(text: str) -> None:
    with pytest.raises(JSONSyntaxError) as caught:
        parse(text)
    assert "tok_FAKE" not in f"{caught.value!r} {caught.value} {vars(caught.value)}"
    assert None is caught.value.__context__


@given(st.text() | SURROGATES | st.binary())
def test_any_other_text_is_read_or_refused_and_nothing_else(text: str | bytes) -> None:
    try:
        value = parse(text)
    except JSONSyntaxError:
        return
    assert value == parse(dumps(value))


def test_deep_but_readable_text_is_read() -> None:
    assert nested(300) == parse("[" * 300 + "]" * 300)
    assert nested(300) == parse(dumps(nested(300)))


def test_the_error_survives_copying_and_pickling() -> None:
    error = JSONSyntaxError("Expecting value", 3, 7)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(error), error.reason, 3, 7) == (str(other), other.reason, other.line, other.column)


@given(SURROGATES)
def test_cleaned_text_is_encodable_and_clean_text_is_left_alone(text: str) -> None:
    found = clean(text)
    assert found == found.encode().decode()
    assert found == clean(found)
    if not any(0xD800 <= ord(c) < 0xE000 for c in text):
        assert text == found


def test_halves_of_a_pair_are_joined_and_others_replaced() -> None:
    assert clean("\ud83c\udf78") == "🍸"
    assert clean("a\udc97b\ud800") == "a\ufffdb\ufffd"


def test_dumps_writes_compact_json() -> None:
    assert '{"a":[1,null,true,1.5,"é\\n"]}'.encode() == dumps({"a": [1, None, True, 1.5, "é\n"]})
