"""`scrub`: credentials go, the rest of a message stays word for word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.redact import MASK, scrub

# Put together here, so that no scanner takes the test for a leak.
SHAPED = [
    "sk-" + "A1b2" * 8,
    "gh" + "p_" + "A1b2" * 8,
    "AKIA" + "ABCD1234" * 2,
    "xoxb-" + "1234-" * 6,
    "AIza" + "x1" * 18,
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
]

MASKED = [
    ("GET https://api.example/s?key=FAKEKEY123 failed", "GET https://api.example/s?key=[redacted] failed"),
    ("?q=1&api_key=FAKE&page=2", "?q=1&api_key=[redacted]&page=2"),
    ("?X-Amz-Signature=FAKE#top", "?X-Amz-Signature=[redacted]#top"),
    ("https://x/cb#access_token=FAKE&state=s", "https://x/cb#access_token=[redacted]&state=s"),
    ("?my-secret-token=FAKE", "?my-secret-token=[redacted]"),
    ("postgresql://ann:FAKE@db/x", "postgresql://ann:[redacted]@db/x"),
    ("redis://:FAKE@cache:6379/0", "redis://:[redacted]@cache:6379/0"),
    ("https://ann:FA@KE@host/path", "https://ann:[redacted]@host/path"),
    ("Authorization: Bearer FAKE1234.abc", "Authorization: Bearer [redacted]"),
    ("authorization: basic RkFLRTpGQUtF", "authorization: basic [redacted]"),
    ("Authorization: Token FAKE, x=FAKE", "Authorization: [redacted]"),
    ("{'authorization': 'Digest FAKE'} sent", "{'authorization': '[redacted]'} sent"),
    ("header 'authorization': 'Basic FAKEKEY123=='", "header 'authorization': 'Basic [redacted]'"),
    ("Set-Cookie: session=FAKE; Path=/\nnext", "Set-Cookie: [redacted]\nnext"),
    ("?sig=FAKE", "?sig=[redacted]"),
    ("client_secret: FAKE", "client_secret: [redacted]"),
    ("X-Api-Key: FAKE, next", "X-Api-Key: [redacted], next"),
    ("x-goog-api-key: FAKE", "x-goog-api-key: [redacted]"),
    ('{"api_key": "FAKE", "n": 1}', '{"api_key": "[redacted]", "n": 1}'),
    ("{'password': 'FAKE'}", "{'password': '[redacted]'}"),
    ('{"token": "FAKE"}', '{"token": "[redacted]"}'),
    ("token=FAKE", "token=[redacted]"),
    ("client_secret = FAKE", "client_secret = [redacted]"),
    ("Server=db;User Id=ann;Password=FAKE;Timeout=5", "Server=db;User Id=ann;Password=[redacted];Timeout=5"),
    ("AccountName=a;AccountKey=FAKE==;", "AccountName=a;AccountKey=[redacted];"),
    ("Pwd=FAKE;", "Pwd=[redacted];"),
    *((f"Incorrect key provided: {key}.", f"Incorrect key provided: {MASK}.") for key in SHAPED),
]


@pytest.mark.case("C034")
@pytest.mark.parametrize(("text", "expected"), MASKED, ids=[str(i) for i in range(len(MASKED))])
def test_what_looks_like_a_credential_is_masked(text: str, expected: str) -> None:
    assert expected == scrub(text)
    assert expected == scrub(scrub(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no such user",
        "KeyError: 'key'",
        "Unexpected token: } at position 5",
        "the password must have 8 characters",
        "https://example.org:8080/path?page=2&sort=asc#top",
        "see http://example.org/a:b and mail ann@example.org",
        "monkey=banana; keyboard=qwerty",
        "the basic idea",
        "risk-assessment-of-the-whole-department",
        "2026-05-01T12:00:00Z",
    ],
)
@pytest.mark.seed("BND-52")
def test_a_harmless_text_stays_word_for_word(text: str) -> None:
    assert text == scrub(text)


WORDS = st.sampled_from(
    ["?key=", "&", "token=", "://", "a:", "@", "Bearer ", "password", ":", "=", '"', " ", "sk-", "x" * 20, "eyJ", "."]
)


@given(st.lists(WORDS | st.text(max_size=4), max_size=12).map("".join))
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    once = scrub(scrub(text))
    assert once == scrub(once)


@given(
    st.from_regex(r"[A-Za-z0-9_-]{8,30}", fullmatch=True).map("Zq".__add__),
    st.sampled_from(["?key=%s", "&sig=%s", "a://b:%s@c", "password=%s"]),
)
def test_no_credential_survives_in_its_place(secret: str, place: str) -> None:
    assert secret not in scrub(f"before {place % secret} after")
