"""How long a server asks to wait: numbers, dates of each form of HTTP, and whatever else stands in a header."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.provider.retry_after import retry_after

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after-ms": "1500.5", "retry-after": "9"}, 1.5005),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "1e300"}, 1e300),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tuesday, 14-Nov-23 22:13:50 GMT"}, 30.0),
        ({"retry-after": "Tue Nov 14 22:13:50 2023"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 -0000"}, 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 251702300799.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT", "date": "Tue, 14 Nov 2023 22:13:45 GMT"}, 5.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT", "date": "nonsense"}, 30.0),
    ],
)
@pytest.mark.usefixtures("far_from_greenwich")
def test_the_time_to_wait_is_read_in_every_form(headers: dict[str, str], expected: float | None) -> None:
    assert expected == retry_after(headers, NOW)


def test_a_date_long_past_needs_no_clock_of_ours() -> None:
    assert 0.0 == retry_after({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"})


@given(st.text(max_size=30))
def test_any_header_is_a_time_or_nothing(value: str) -> None:
    found = retry_after({"retry-after": value, "retry-after-ms": value}, NOW)
    assert found is None or found >= 0
