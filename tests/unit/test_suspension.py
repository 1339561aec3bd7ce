"""Requests and answers: fixed keys, checked fields, and a digest of what was shown."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ferrule import Answer, Request, RequestError, ToolResult
from ferrule.suspension import digest_of, parse_time, with_digest

REQUEST = Request("r1", "approval", "Pay 5?", data={"tool": "pay", "arguments": {"amount": 5}})


def test_the_wire_dict_has_exactly_the_fields_that_are_set_and_reads_back() -> None:
    full = Request("r1", "input", "Name?", "https://x.invalid", {"a": 1}, "2026-05-01T12:00:00Z", "shown", "d" * 64)
    assert list(full.to_dict()) == ["id", "kind", "prompt", "url", "data", "expiresAt", "preview", "digest"]
    assert Request.from_dict(full.to_dict()) == full
    assert list(Request("r1", "input", "Name?").to_dict()) == ["id", "kind", "prompt"]
    answer = Answer("r1", True, {"a": 1}, "why", {"amount": 4}, "d" * 64)
    assert list(answer.to_dict()) == ["id", "ok", "data", "reason", "arguments", "digest"]
    assert Answer.from_dict(answer.to_dict()) == answer


@pytest.mark.parametrize(
    ("cls", "value", "message"),
    [
        (Request, {"id": "r", "kind": "input"}, "the request has no field 'prompt'"),
        (Request, {"id": "r", "kind": "input", "prompt": "?", "expires_at": "x"}, "unknown field 'expires_at'"),
        (Request, {"id": "", "kind": "input", "prompt": "?"}, "id of the request must be a non-empty str"),
        (Request, {"id": "r", "kind": "input", "prompt": 7}, "prompt of the request must be a"),
        (Request, {"id": "r", "kind": "input", "prompt": "?", "data": [1]}, "data of the request 'r' must be a dict"),
        (Answer, {"id": "r"}, "the answer has no field 'ok'"),
        (Answer, {"id": "r", "ok": "yes"}, "ok of the answer to 'r' must be True or False, not str"),
        (Answer, {"id": "r", "ok": 1}, "ok of the answer to 'r' must be True or False, not int"),
        (Answer, {"id": "r", "ok": True, "arguments": []}, "arguments of the answer to 'r' must be a dict"),
    ],
)
def test_a_malformed_field_is_refused_and_named(cls: Any, value: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        cls.from_dict(value)


@pytest.mark.parametrize("when", ["tomorrow", "2026-05-01", "2026-05-01T12:00:00", "12:00", ""])
def test_an_expiry_without_date_time_and_offset_is_refused(when: str) -> None:
    with pytest.raises(RequestError, match=r"expiresAt must be an RFC 3339 time with offset"):
        Request("r", "input", "?", expiresAt=when)


@pytest.mark.parametrize("when", ["2026-05-01T12:00:00Z", "2026-05-01T12:00:00.5+02:00"])
def test_an_expiry_with_offset_is_read(when: str) -> None:
    assert parse_time(when).tzinfo is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "format": "password"},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string", "format": "password"}]}}},
        {"type": "array", "items": [{"format": "password"}]},
    ],
)
def test_a_schema_that_asks_for_a_password_is_refused_at_any_depth(schema: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="asks for a password"):
        Request("r", "input", "?", data={"schema": schema})


def test_the_digest_covers_what_was_shown_and_not_the_id() -> None:
    changed = [
        Request("r1", "question", "Pay 5?", data=REQUEST.data),
        Request("r1", "approval", "Pay 6?", data=REQUEST.data),
        Request("r1", "approval", "Pay 5?", "https://x.invalid", REQUEST.data),
        Request("r1", "approval", "Pay 5?", data={"tool": "pay", "arguments": {"amount": 6}}),
        Request("r1", "approval", "Pay 5?", data=REQUEST.data, preview=ToolResult.ok("pays 5")),
    ]
    digests = {digest_of(r) for r in [REQUEST, *changed]}
    assert len(digests) == 6
    assert digest_of(Request("other", "approval", "Pay 5?", data=REQUEST.data)) == digest_of(REQUEST)


def test_the_order_of_keys_does_not_change_the_digest() -> None:
    a = Request("r", "input", "?", data={"x": 1, "y": 2})
    b = Request("r", "input", "?", data={"y": 2, "x": 1})
    assert digest_of(a) == digest_of(b)


def test_bytes_of_a_previewed_part_count_by_their_own_hash() -> None:
    def shown(raw: bytes) -> Request:
        data = base64.b64encode(raw).decode()
        return Request("r", "approval", "?", preview=ToolResult.ok(parts=[{"type": "file", "mimeType": "a/b", "data": data}]))

    assert digest_of(shown(b"a" * 99)) != digest_of(shown(b"b" * 99))
    assert digest_of(shown(b"a" * 99)) == digest_of(shown(b"a" * 99))


def test_a_request_with_its_digest_is_otherwise_the_same() -> None:
    sealed = with_digest(REQUEST)
    assert sealed.digest == digest_of(REQUEST) == digest_of(sealed)
    assert (sealed.id, sealed.prompt) == (REQUEST.id, REQUEST.prompt)


@pytest.mark.case("C029")
def test_text_of_requests_and_answers_can_always_be_encoded() -> None:
    assert Request("r", "input", "a\udc97").prompt == "a\ufffd"
    assert Answer("r", False, reason="a\udc97").reason == "a\ufffd"
