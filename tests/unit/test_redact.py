"""What looks like a credential by its place does not leave in a text."""

from __future__ import annotations

import pytest

from ferrule.redact import scrub


@pytest.mark.case("C034")
@pytest.mark.parametrize(
    "text",
    [
        "GET https://api.example.invalid/s?key=FAKEKEY123 failed",
        "https://api.example.invalid/s?q=a&api_key=FAKEKEY123&b=1",
        "https://api.example.invalid/s?access_token=FAKEKEY123#x",
        "https://api.example.invalid/s?sig=FAKEKEY123",
        "https://api.example.invalid/s?X-Amz-Signature=FAKEKEY123",
        "postgresql://app:FAKEKEY123@db.example.invalid/x",
        "Authorization: Bearer FAKEKEY123",
        "header 'authorization': 'Basic FAKEKEY123=='",
        "X-Api-Key: FAKEKEY123",
        '{"api_key": "FAKEKEY123"}',
        "password=FAKEKEY123",
        "client_secret: FAKEKEY123",
    ],
)
def test_a_credential_is_redacted_by_its_place(text: str) -> None:
    assert "FAKEKEY123" not in scrub(text)
    assert "[redacted]" in scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "GET https://api.example.invalid/s?q=keyboard&page=2 failed",
        "KeyError: 'x'",
        "the monkey=banana of http://user@host/",
        "bearer of news",
        "",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert scrub(text) == text


def test_hostile_text_is_scrubbed_in_a_moment() -> None:
    for piece in ("a.", "&a", "token", "x://", "?key="):
        scrub(piece * 2_000)
