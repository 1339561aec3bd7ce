"""Requests and answers: fixed keys, checked fields, and a digest of what was shown."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.values import DECLARED

from ferrule.content import Part, image, to_dict
from ferrule.errors import ContentPartError, RequestError, UsageError
from ferrule.result import ToolResult
from ferrule.strict_json import dumps, parse, plain, restore, typed
from ferrule.suspension import Answer, Request, digest_of, parse_time, with_digest

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200)) * 3
FULL = Request(
    id="req_1",
    kind="approval",
    prompt="Pay?",
    url="https://example.org/pay",
    data={"tool": "pay", "arguments": {"amount": 5}, "schema": {"type": "object"}},
    expiresAt="2026-05-01T12:00:00Z",
    preview=ToolResult.ok("5 EUR", parts=[image(PNG)]),
    digest="ab" * 32,
)
ANSWER = Answer("req_1", False, {"a": 1}, "declined", {"amount": 4}, "ab" * 32)


def refused(cls: Any, fields: Any) -> str:
    with pytest.raises(RequestError) as caught:
        cls.from_dict(fields)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UsageError)
    return str(caught.value)


def test_the_keys_are_exactly_those_that_are_set() -> None:
    assert Request("r", "input", "?").to_dict() == {"id": "r", "kind": "input", "prompt": "?"}
    assert list(FULL.to_dict()) == ["id", "kind", "prompt", "url", "data", "expiresAt", "preview", "digest"]
    assert Answer("r", False).to_dict() == {"id": "r", "ok": False}
    assert list(ANSWER.to_dict()) == ["id", "ok", "data", "reason", "arguments", "digest"]


def test_both_come_back_from_their_dicts_and_from_the_journal() -> None:
    assert Request.from_dict(FULL.to_dict()) == FULL
    assert Answer.from_dict(ANSWER.to_dict()) == ANSWER
    for value in (FULL, ANSWER, {"pending": [FULL]}):
        assert value == restore(parse(dumps(typed(value))))
    assert ANSWER.to_dict() == plain(ANSWER)


@pytest.mark.parametrize("kind", ["approval", "input", "question", "authorization", "outcome", "a word of my own"])
def test_the_kinds_are_an_open_vocabulary(kind: str) -> None:
    assert kind == Request("r", kind, "").kind


@pytest.mark.parametrize("missing", ["id", "kind", "prompt"])
def test_a_request_without_a_required_field_names_it(missing: str) -> None:
    fields = {k: v for k, v in FULL.to_dict().items() if k != missing}
    assert f"the request has no field {missing!r}." == refused(Request, fields)


def test_an_answer_needs_id_and_ok() -> None:
    assert refused(Answer, {"id": "r"}) == "the answer has no field 'ok'."
    assert refused(Answer, {"ok": True}) == "the answer has no field 'id'."


def test_unknown_fields_are_refused_with_the_known_ones() -> None:
    known = "data, digest, expiresAt, id, kind, preview, prompt, url"
    expected = f"the request has an unknown field 'expires_at'. Its fields are {known}."
    assert expected == refused(Request, {**FULL.to_dict(), "expires_at": "2026-05-01T12:00:00Z"})
    expected = "the answer has an unknown field 'who'. Its fields are arguments, data, digest, id, ok, reason."
    assert expected == refused(Answer, {"id": "r", "ok": True, "who": "ann"})
    assert "unknown field '5'" in refused(Answer, {"id": "r", "ok": True, 5: 1})


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("id", "", "id of the request must be a non-empty str."),
        ("id", 5, "id of the request must be a non-empty str."),
        ("kind", None, "kind of the request must be a non-empty str."),
        ("prompt", b"x", "prompt of the request must be a str."),
        ("url", 5, "url of the request must be a str."),
        ("digest", b"", "digest of the request must be a str."),
        ("data", [1], "data of the request 'req_1' must be a dict, not list."),
        ("expiresAt", 5, "expiresAt of the request must be a str."),
    ],
)
def test_a_malformed_field_of_a_request_is_named(field: str, value: Any, expected: str) -> None:
    assert expected == refused(Request, {**FULL.to_dict(), field: value})


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("id", "", "id of the answer must be a non-empty str."),
        ("ok", 1, "ok of the answer to 'req_1' must be True or False, not int."),
        ("ok", "true", "ok of the answer to 'req_1' must be True or False, not str."),
        ("ok", None, "ok of the answer to 'req_1' must be True or False, not NoneType."),
        ("data", "x", "data of the answer 'req_1' must be a dict, not str."),
        ("reason", 5, "reason of the answer must be a str."),
        ("arguments", [], "arguments of the answer to 'req_1' must be a dict."),
    ],
)
def test_a_malformed_field_of_an_answer_is_named(field: str, value: Any, expected: str) -> None:
    assert expected == refused(Answer, {**ANSWER.to_dict(), field: value})


@pytest.mark.parametrize("value", [None, "text", [("id", "r")], 5])
def test_what_is_no_dict_is_refused(value: Any) -> None:
    name = type(value).__name__
    assert f"the request must be a dict, not {name}." == refused(Request, value)
    assert f"the answer must be a dict, not {name}." == refused(Answer, value)


def test_neither_can_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        FULL.prompt = "Pay more?"  # type: ignore[misc]  # pyright: ignore
    with pytest.raises(FrozenInstanceError):
        ANSWER.ok = True  # type: ignore[misc]  # pyright: ignore


@pytest.mark.case("C029")
def test_lone_surrogates_are_replaced_in_every_text() -> None:
    found = Request("r\udc97", "k\udc97", "p\udc97", url="https://u/\udc97")
    assert (found.id, found.kind, found.prompt, found.url) == ("r\ufffd", "k\ufffd", "p\ufffd", "https://u/\ufffd")
    assert Answer("r", False, reason="n\udc97").reason == "n\ufffd"


BAD_URLS = [
    "javascript:alert(1)", " javascript:alert(1)", "data:text/html,<script>", "file:///etc/passwd", "/login", "u", "",
    "https://", "https:///path", "https://user:FAKE@host/", "http://ann@host", "HTTPS://a@b@host\\@c",
    "https://host/\r\nhttps://other", "https://ho\tst/",
]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_that_nobody_should_open_is_refused_in_requests_and_parts(url: str) -> None:
    with pytest.raises(
        RequestError, match=r"^the url of request 'r' must .*: a person is going to open it\.$"
    ) as caught:
        Request("r", "authorization", "Sign in", url=url)
    assert "FAKE" not in str(caught.value)
    with pytest.raises(ContentPartError):
        Part("image", mimeType="image/png", url=url)


@pytest.mark.parametrize(
    "url",
    ["https://host", "HTTP://Host:8080/a?b=c@d#e@f", "https://host/@ann", "https://[::1]/x", "https://host?a=b@c"],
)
def test_a_web_address_is_taken_by_requests_and_parts(url: str) -> None:
    assert url == Request("r", "authorization", "Sign in", url=url).url
    assert url == Part("image", mimeType="image/png", url=url).url


# -- time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01T12:00:00Z", dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)),
        ("2026-05-01t12:00:00z", dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)),
        ("2026-05-01 12:00:00.25Z", dt.datetime(2026, 5, 1, 12, microsecond=250_000, tzinfo=dt.UTC)),
        ("2026-05-01T14:00:00+02:00", dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)),
        ("2026-05-01T12:00:00.123456789-00:00", dt.datetime(2026, 5, 1, 12, microsecond=123_456, tzinfo=dt.UTC)),
    ],
)
def test_a_time_is_rfc_3339_with_its_offset(text: str, expected: dt.datetime) -> None:
    assert expected == parse_time(text)
    assert text == Request("r", "input", "?", expiresAt=text).expiresAt


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-05-01",
        "2026-05-01T12:00:00",
        "2026-05-01T12:00Z",
        "20260501T120000.000000Z",
        "2026-02-30T12:00:00Z",
        "2026-W18-5T12:00:00.00Z",
        "2026-05-01T12:00:00+0200",
        "2026-05-01T12:00:00,5Z",
        "2026-05-01T25:00:00Z",
        "2026-05-01T12:00:00Z\n",
        "\uff12\uff10\uff12\uff16-05-01T12:00:00Z",
        "2026-05-01T12:00:00+02:00:30",
    ],
)
def test_any_other_time_is_refused(text: str) -> None:
    expected = "expiresAt must be an RFC 3339 time with offset, for example 2026-05-01T12:00:00Z."
    assert expected == refused(Request, {**FULL.to_dict(), "expiresAt": text})


# -- secrets ----------------------------------------------------------------------------------------------------

PASSWORD = {"type": "string", "format": "password"}


def deep(schema: Any, levels: int) -> Any:
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


ASKING: list[Any] = [
    PASSWORD,
    {"type": "object", "properties": {"login": {"properties": {"pin": PASSWORD}}}},
    {"anyOf": [{"type": "null"}, {"items": [PASSWORD]}]},
    {"$defs": {"x": {"allOf": ({}, PASSWORD)}}},
    deep(PASSWORD, 5_000),
    {"type": "string", "format": "Password"},
    {"properties": {"pin": {"type": "string", "writeOnly": True}}},
]


@pytest.mark.parametrize(
    "schema", ASKING, ids=["itself", "property", "branch", "definition", "deep", "spelling", "write only"]
)
def test_a_schema_that_asks_for_a_password_is_refused(schema: Any) -> None:
    expected = "request 'r' asks for a password in its schema. Keep secrets in a connection."
    assert expected == refused(Request, {"id": "r", "kind": "input", "prompt": "?", "data": {"schema": schema}})


def test_a_schema_without_password_is_taken_however_large_or_cyclic() -> None:
    cities = {"enum": [f"city {n}" for n in range(30_000)], "properties": {"format": {"enum": ["password"]}}}
    cyclic: dict[str, Any] = {"type": "object"}
    cyclic["properties"] = {"self": cyclic}
    wide = {"properties": {f"p{n}": {"type": "string"} for n in range(20_000)}}
    for schema in (cities, cyclic, wide, True, None, "password", deep({}, 5_000)):
        data: dict[str, Any] = {"schema": schema, "note": {"format": "password"}}
        assert data is Request("r", "input", "?", data=data).data


# -- digest -----------------------------------------------------------------------------------------------------


def test_the_digest_is_sha_256_over_what_is_shown_as_typed_json() -> None:
    raw = b'["input","?",null,{"amount":{"$decimal":"1.10"}},null]'
    request = Request("r", "input", "?", data={"amount": Decimal("1.10")})
    assert hashlib.sha256(raw).hexdigest() == digest_of(request)


def test_the_digest_covers_kind_prompt_url_data_and_preview_and_nothing_else() -> None:
    changes: list[dict[str, Any]] = [
        {"kind": "input"},
        {"prompt": "Pay!"},
        {"url": "https://example.org/"},
        {"url": None},
        {"data": {"tool": "pay", "arguments": {"amount": 6}}},
        {"data": None},
        {"preview": ToolResult.ok("6 EUR", parts=[image(PNG)])},
        {"preview": ToolResult.ok("5 EUR", parts=[image(PNG + b"\0")])},
        {"preview": None},
    ]
    digests = [digest_of(FULL), *(digest_of(replace(FULL, **change)) for change in changes)]
    assert len(digests) == len(set(digests))
    for same in ({"id": "req_2"}, {"digest": None}, {"expiresAt": None}):
        assert digest_of(FULL) == digest_of(replace(FULL, **same))


def test_the_digest_tells_types_apart_that_look_alike() -> None:
    values: list[Any] = [
        1,
        "1",
        1.5,
        "1.5",
        True,
        [1],
        (1,),
        {1},
        b"1",
        None,
        {"$int": "0x1"},
        2**60,
        {"a": 1},
        {"$a": 1},
    ]
    assert len(values) == len({digest_of(Request("r", "input", "?", data={"x": v})) for v in values})


def test_the_order_of_keys_does_not_count() -> None:
    one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert digest_of(Request("r", "k", "p", data=one)) == digest_of(Request("r", "k", "p", data=other))


def test_bytes_of_parts_count_by_their_own_hash() -> None:
    pic = to_dict(image(PNG))
    by_hash = {"data": hashlib.sha256(PNG).hexdigest(), "mimeType": "image/png", "type": "image"}
    expected = hashlib.sha256(dumps(["k", "p", None, {"pic": by_hash}, None])).hexdigest()
    for same in (pic, dict(reversed(pic.items()))):
        assert expected == digest_of(Request("r", "k", "p", data={"pic": same}))
    assert expected != digest_of(Request("r", "k", "p", data={"pic": by_hash}))


@given(DECLARED)
def test_the_digest_is_the_same_after_the_journal(value: Any) -> None:
    request = Request("r", "approval", "?", data={"arguments": value}, preview=value)
    stored = restore(parse(dumps(typed(request))))
    assert digest_of(request) == digest_of(stored)
    assert len(digest_of(request)) == 64


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_parts_with_other_bytes_have_other_digests(one: bytes, other: bytes) -> None:
    def digest(raw: bytes) -> str:
        made = {"type": "file", "mimeType": "a/b", "data": base64.b64encode(raw).decode()}
        return digest_of(Request("r", "k", "p", preview=[made]))

    assert (one == other) == (digest(one) == digest(other))


SCRIPT = """
from ferrule.suspension import Request, digest_of
class Shown: pass
print(digest_of(Request("r", "k", "p", data={"x": {"q", "w", 1, None}}, preview=[Shown(), Shown, print, lambda: 1])))
"""


def test_the_digest_is_the_same_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_with_digest_sets_it_and_leaves_the_rest() -> None:
    assert replace(FULL, digest=digest_of(FULL)) == with_digest(FULL)
    assert with_digest(FULL) == with_digest(with_digest(FULL))
