"""`scrub`: credentials go, the rest of a message stays word for word."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import redact
from ferrule.redact import MASK, scrub

# Put together here, so that no scanner takes the test for a leak.
SHAPED = [
    "sk-" + "A1b2" * 8,
    "gh" + "p_" + "A1b2" * 8,
    "AKIA" + "ABCD1234" * 2,
    "xoxb-" + "1234-" * 6,
    "AIza" + "x1" * 18,
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "ASIA" + "ABCD1234" * 2,
    "hf" + "_" + "A1b2" * 8,
    "r8" + "_" + "A1b2" * 8,
    "gsk" + "_" + "A1b2" * 12,
    "npm" + "_" + "A1b2" * 9,
    "xai" + "-" + "A1b2" * 16,
    "nvapi" + "-" + "A1b2" * 16,
    "ya29" + "." + "A1b2" * 8,
    "SG" + "." + "A1b2" * 5 + "." + "A1b2" * 10,
    "pypi" + "-AgEIcHlwaS5vcmc" + "A1b2" * 8,
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
    # quotes, with blanks between them, escaped, or around bytes
    ('password="two words", n=1', 'password="[redacted]", n=1'),
    ("{'password': 'two words'}", "{'password': '[redacted]'}"),
    ("password='FAKE and no end\nnext", "password='[redacted]\nnext"),
    ('{"password": "FA\\"KE", "n": 1}', '{"password": "[redacted]", "n": 1}'),
    ("{'password': b'FAKE'}", "{'password': b'[redacted]'}"),
    (repr(b'{"api_key": "FAKE"}'), "b'" + '{"api_key": "[redacted]"}' + "'"),
    (r'{"body": "{\"password\": \"two words\"}"}', r'{"body": "{\"password\": \"[redacted]\"}"}'),
    (
        r'"{\"a\": \"{\\\"token\\\": \\\"FAKE\\\", \\\"n\\\": 1}\"}"',
        r'"{\"a\": \"{\\\"token\\\": \\\"[redacted]\\\", \\\"n\\\": 1}\"}"',
    ),
    (repr(b"Authorization: Token FAKE\r\nHost: x"), r"b'Authorization: [redacted]\r\nHost: x'"),
    # values inside of values
    ("{'password': {'value': 'FAKE', 'old': ['FAKE']}, 'n': 1}", "{'password': [redacted], 'n': 1}"),
    ('"api_key": ["FAKE", "FAKE"], "n": 1', '"api_key": [redacted], "n": 1'),
    ("password: isolde", "password: [redacted]"),
    # schemes
    ("Authorization: Bearer abc", "Authorization: Bearer [redacted]"),
    (
        "curl -H 'Authorization: Bearer abc' https://example.org",
        "curl -H 'Authorization: Bearer [redacted]' https://example.org",
    ),
    ("X-Access-Token: Bearer FAKE, next", "X-Access-Token: Bearer [redacted], next"),
    ('Authorization: Digest username="FAKE", response="FAKE"\nnext', "Authorization: [redacted]\nnext"),
    (
        "curl -H 'Authorization: Digest username=\"FAKE\"' https://example.org",
        "curl -H 'Authorization: [redacted]' https://example.org",
    ),
    ("('authorization', 'Digest FAKE'), ('host', 'x')", "('authorization', '[redacted]'), ('host', 'x')"),
    (
        "[(b'Authorization', b'Bearer FAKE'), (b'Host', b'x')]",
        "[(b'Authorization', b'Bearer [redacted]'), (b'Host', b'x')]",
    ),
    ("sent Bearer aB3 and more", "sent Bearer [redacted] and more"),
    # parameters
    ("?pass=FAKE&page=2", "?pass=[redacted]&page=2"),
    ("?token[]=FAKE&token[]=FAKE", "?token[]=[redacted]&token[]=[redacted]"),
    ("?token%5B%5D=FAKE&user[password]=FAKE", "?token%5B%5D=[redacted]&user[password]=[redacted]"),
    ("?token=FAKE,(FAKE)&page=2", "?token=[redacted]&page=2"),
    # passwords of URLs
    ("postgresql://ann:FA/KE@db/x", "postgresql://ann:[redacted]@db/x"),
    ("postgresql://ann:FAKE@db/x@y", "postgresql://ann:[redacted]@db/x@y"),
    ("amqp://a:FAKE@one,amqp://b:FAKE@two", "amqp://a:[redacted]@one,amqp://b:[redacted]@two"),
    ('{"url":"https://ann:FAKE@host","mail":"bob@host"}', '{"url":"https://ann:[redacted]@host","mail":"bob@host"}'),
    # arrows, options of commands, keys, webhooks
    ("{:password => FAKE, 'token' => 'FAKE FAKE'}", "{:password => [redacted], 'token' => '[redacted]'}"),
    (
        "Command '['mysql', '--password', 'isolde', '-h', 'db']' returned 1",
        "Command '['mysql', '--password', '[redacted]', '-h', 'db']' returned 1",
    ),
    ("psql --db-password 'two words' --api-key FAKE1 x", "psql --db-password '[redacted]' --api-key [redacted] x"),
    (
        "1 validation error for Config\ndb.password\n  Input should be a string [type=string_type, input_value=7, input_type=int]",
        "1 validation error for Config\ndb.password\n  Input should be a string [type=string_type, input_value=[redacted], input_type=int]",
    ),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nFAKE\nFAKE\n-----END RSA PRIVATE KEY-----\nnext",
        "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nnext",
    ),
    ("-----BEGIN PRIVATE KEY-----\\nFAKE and no end", "-----BEGIN PRIVATE KEY-----[redacted]"),
    ("https://" + "FAKE" * 5 + "@git.example/a.git", "https://[redacted]@git.example/a.git"),
    ("POST https://hooks.slack.com/services/T0/B0/FAKE 404", "POST https://hooks.slack.com/services/[redacted] 404"),
    ("https://discord.com/api/webhooks/123/FAKE?wait=1", "https://discord.com/api/webhooks/123/[redacted]?wait=1"),
    (
        "https://api.telegram.org/bot1234567:" + "FAKE" * 8 + "/getMe",
        "https://api.telegram.org/bot1234567:[redacted]/getMe",
    ),
    ("żółć password=FAKE żółć \udc97", "żółć password=[redacted] żółć \udc97"),
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
        "the token bucket is empty; a token: next",
        "password is required, and so is the secret",
        "max_tokens=4096, tokens: 12, completion_tokens=5",
        "?tokens=5&keyword=a&monkey=b&pass_rate=3",
        "the bearer of news; Bearer authentication failed; basic auth and Basic HTTP auth, basic read-only mode.",
        "missing fields: ['password', 'token', 'authorization', 'cookie', 'host']",
        "KeyError: 'password'",
        "status code: 500, error code=7, sort key: name, key=value",
        "http://example.org:8080/a@b and http://localhost:3000",
        '{"url":"http://example.org:8080","mail":"ann@example.org"}',
        "author: Ann; authority=me; design: new; decode: utf-8",
        "password=''",
        "password: is required; api_key: Field required, secret: Input should be a valid string",
        "Authorization: header is missing; cookie: required",
        "risk-assessment-of-the-whole-department",
        "2026-05-01T12:00:00Z",
        "pass --token to the command, or --password; --api-key -v, --token-limit 40000, --tokens 12",
        "1 validation error for X\nkeys\n  Input should be a string [type=string_type, input_value=7, input_type=int]",
        "usage: x [--password PASSWORD] [--api-key API_KEY] --db-password DB_PASSWORD",
        "-----BEGIN PUBLIC KEY----- and -----END PRIVATE KEY-----",
        "https://ann@example.org/inbox, npm_config_cache, hf_hub_download",
    ],
)
@pytest.mark.seed("BND-52")
def test_a_harmless_text_stays_word_for_word(text: str) -> None:
    assert text == scrub(text)


UNITS = [
    "authorization: bearer x, ", "'authorization: x' ", "authorization: ", "('cookie', ", 'password="', "password='a\\' ", "secret=[",
    '"token":"', "&key=b", "a://b:", "a://b:c@", "-eyJ", "pass", "key ", "key.k-[]%", "bearer ", "sk-aaaaaaaaaaaaaaa.", "a://b:/",
    "--token ", "token\n input_value=", "'--token', ", "-----begin private key-----", "https://aaaaaaaaaaaaaaaaaaaa", "/bot12345:", "sg.aaaaaaaaaaaaaaaaa.",
    'token=\\\\"', "eyJaaaaaaaaa.", "basic a1 ", "api_key: {", "cookie=", "http://a:'@",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_text_of_hostile_repetition_comes_to_an_end(unit: str) -> None:
    text = unit * (400_000 // len(unit))  # where the time grew with the square of this, nobody would see the end
    assert scrub(text) == scrub(scrub(text))


WORDS = st.sampled_from(
    [
        "?key=",
        "&",
        "token=",
        "Authorization: ",
        "('cookie', ",
        "[",
        "]",
        "{",
        "\\",
        "'",
        "b'",
        "\n",
        "/",
        "http://a:",
        "Digest ",
        "://",
        "a:",
        "@",
        "Bearer ",
        "password",
        ":",
        "=",
        '"',
        " ",
        "sk-",
        "x" * 20,
        "eyJ",
        ".",
    ]
)


@given(st.lists(WORDS | st.text(max_size=4), max_size=12).map("".join))
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    once = scrub(scrub(text))
    assert once == scrub(once)


def repeats(node: Any, inside: bool = False) -> Iterator[tuple[Any, int, bool, bool]]:
    """Every repetition of a parsed pattern: which, how often at most, whether another one is around and inside."""
    for op, argument in node:
        name = str(op)
        inner: list[Any] = []
        if name.endswith("REPEAT"):
            inner = [argument[2]]
            yield name, int(argument[1]), inside, any(True for _ in repeats(argument[2]))
        elif name == "SUBPATTERN":
            inner = [argument[3]]
        elif name == "BRANCH":
            inner = list(argument[1])
        elif name in ("ASSERT", "ASSERT_NOT"):
            inner = [argument[1]]
        for each in inner:
            yield from repeats(each, inside or name.endswith("REPEAT"))


def patterns() -> Iterator[bytes]:
    """All that the module searches with."""
    names: list[str] = [name for name in vars(redact) if name[:2] != "__" and name not in ("_NAME", "_PAIR")]
    todo: list[Any] = [getattr(redact, name) for name in names]
    for found in todo:  # it grows
        if type(found) is bytes:
            yield found
        elif type(found) in (tuple, dict):
            todo += [*(found.values() if type(found) is dict else found)]  # pyright: ignore[reportUnknownArgumentType]


PATTERNS = sorted(set(patterns()))


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_no_pattern_takes_more_time_than_the_text_is_long(pattern: bytes) -> None:
    parsed = importlib.import_module("re._parser").parse(pattern)
    for kind, most, around, within in repeats(parsed):
        # What is without end never gives back, and no repetition is repeated but for a bounded few of bounded ones.
        assert kind == "POSSESSIVE_REPEAT" or most <= 100
        assert not (around and within)
        assert not around or most <= 100


def test_each_search_begins_with_a_fixed_word() -> None:
    for patterns, _ in redact._KINDS:  # pyright: ignore[reportPrivateUsage]
        for pattern in patterns:
            first = importlib.import_module("re._parser").parse(pattern)
            assert ["LITERAL", "LITERAL"] == [str(op) for op, _ in first[:2]]


@given(
    st.from_regex(r"[A-Za-z0-9_-]{8,30}", fullmatch=True).map("Zq".__add__),
    st.sampled_from(
        [
            "?key=%s",
            "&sig=%s",
            "a://b:%s@c",
            "password=%s",
            '"password": "a %s"',
            "Authorization: Bearer %s",
            "token = '%s'",
        ]
    ),
)
def test_no_credential_survives_in_its_place(secret: str, place: str) -> None:
    assert secret not in scrub(f"before {place % secret} after")
