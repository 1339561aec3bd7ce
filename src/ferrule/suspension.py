"""What a suspended call waits for, and what somebody decided.

Both are wire values: their keys are fixed, `expiresAt` included. A secret is
never asked for in a request: secrets go through connections.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from ferrule.content import is_part_dict, known_fields, url_fault
from ferrule.errors import RequestError
from ferrule.strict_json import Codec, clean, dumps, is_a, kind_of, register, typed

REASONS = ("declined", "cancelled", "expired")
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


@dataclass(frozen=True, slots=True)
class Request:
    """What a suspended call waits for.

    Args:
        id: Correlation id.
        kind: `approval`, `input`, `question`, `authorization`, `outcome`, or a word of your own.
        prompt: What a person reads.
        url: Where the person must go, if anywhere; http(s), without a user or password.
        data: More for the answering side; `data["schema"]` may hold a JSON Schema for the answer.
        expiresAt: RFC 3339 time with offset after which no answer is taken.
        preview: What would happen, for a person: a ToolResult or anything plain.
        digest: SHA-256 of what was shown; set by the runtime.

    Raises:
        RequestError: An empty id, kind or prompt that is no text, an unreadable time, a url that nobody should open, or
            a schema asking for a secret.

    Since 0.1.
    """

    id: str
    kind: str
    prompt: str
    url: str | None = None
    data: dict[str, Any] | None = None
    expiresAt: str | None = None
    preview: Any = None
    digest: str | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_text(self, "request", required=("id", "kind", "prompt"), optional=("url", "expiresAt", "digest"))
        _check_data(self, "request")
        if self.url is not None and (fault := url_fault(self.url)):
            raise RequestError(f"the url of request {self.id!r} {fault}: a person is going to open it.")
        if self.expiresAt is not None:
            parse_time(self.expiresAt)
        if self.data and _asks_for_secret(self.data.get("schema")):
            raise RequestError(f"request {self.id!r} asks for a password in its schema. Keep secrets in a connection.")

    def to_dict(self) -> dict[str, Any]:
        """The wire dict: id, kind, prompt and the other fields that are set."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Request:
        """Read a wire dict.

        Args:
            value: A dict with the fields of a request and no other key.

        Raises:
            RequestError: A missing, unknown or malformed field.
        """
        return cls(**_checked(cls, "request", value))


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody decided about a request.

    Args:
        id: The request's id.
        ok: Whether they agreed; nothing else ever counts as yes.
        data: What they gave, fitting the request's schema.
        reason: `declined`, `cancelled`, `expired` or free text.
        arguments: Edited arguments of an approval.
        digest: The request's digest, echoed; one that is not the request's makes the answer unfit.

    Raises:
        RequestError: A field of the wrong type.

    Since 0.1.
    """

    id: str
    ok: bool
    data: dict[str, Any] | None = None
    reason: str | None = None
    arguments: dict[str, Any] | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_text(self, "answer", required=("id",), optional=("reason", "digest"))
        _check_data(self, "answer")
        if type(self.ok) is not bool:
            raise RequestError(f"ok of the answer to {self.id!r} must be True or False, not {kind_of(self.ok)}.")
        if self.arguments is not None and not is_a(self.arguments, dict):
            raise RequestError(f"arguments of the answer to {self.id!r} must be a dict.")

    def to_dict(self) -> dict[str, Any]:
        """The wire dict: id, ok and the other fields that are set."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Answer:
        """Read a wire dict.

        Args:
            value: A dict with the fields of an answer and no other key.

        Raises:
            RequestError: A missing, unknown or malformed field.
        """
        return cls(**_checked(cls, "answer", value))


def parse_time(text: str) -> dt.datetime:
    """An RFC 3339 time with its offset.

    Args:
        text: For example `2026-05-01T12:00:00Z`.

    Raises:
        RequestError: It is no such time.

    Since 0.1.
    """
    try:
        if _RFC_3339.fullmatch(text):
            return dt.datetime.fromisoformat(text.upper())
    except ValueError:  # a 30th of February
        pass
    raise RequestError("expiresAt must be an RFC 3339 time with offset, for example 2026-05-01T12:00:00Z.")


def digest_of(request: Request) -> str:
    """SHA-256 over kind, prompt, url, data and preview as `typed` JSON; part bytes count by their own SHA-256.

    Args:
        request: The request as it will be shown.

    Returns:
        64 hexadecimal digits.

    Since 0.1.
    """
    from hashlib import sha256  # loads a crypto library: only runs that ask somebody pay for it

    shown = [request.kind, request.prompt, request.url, request.data, request.preview]
    return sha256(dumps(_parts_by_hash(typed(shown), sha256))).hexdigest()


def with_digest(request: Request) -> Request:
    """The request with its digest set.

    Args:
        request: The request as it will be shown.

    Since 0.1.
    """
    return replace(request, digest=digest_of(request))


def _parts_by_hash(value: Any, sha256: Callable[[bytes], Any]) -> Any:
    if isinstance(value, list):
        return [_parts_by_hash(v, sha256) for v in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    if isinstance(found.get("data"), str) and is_part_dict(found):
        found = {**found, "data": sha256(base64.b64decode(found["data"])).hexdigest()}
    return {k: _parts_by_hash(found[k], sha256) for k in sorted(found)}


def _asks_for_secret(schema: object) -> bool:
    todo: list[object] = [schema]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_a(value, Mapping):
            found = cast("Mapping[str, object]", value)
            kind = found.get("format")
            if found.get("writeOnly") is True or (is_a(kind, str) and kind.lower() == "password"):
                return True
            todo.extend(found.values())
        elif is_a(value, (list, tuple)):
            todo.extend(cast("list[object]", value))
    return False


def _check_text(value: Any, what: str, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    for name in (*required, *optional):
        text = getattr(value, name)
        if text is None and name in optional:
            continue
        filled = name in ("id", "kind")
        if not is_a(text, str) or (filled and not text):
            raise RequestError(f"{name} of the {what} must be a {'non-empty ' * filled}str.")
        object.__setattr__(value, name, clean(text))


def _check_data(value: Any, what: str) -> None:
    if value.data is not None and not is_a(value.data, dict):
        raise RequestError(f"data of the {what} {value.id!r} must be a dict, not {kind_of(value.data)}.")


def _to_dict(value: Any) -> dict[str, Any]:
    return {f.name: found for f in fields(value) if (found := getattr(value, f.name)) is not None}


def _checked(cls: Any, what: str, value: Mapping[str, Any]) -> dict[str, Any]:
    known = {f.name for f in fields(cls)}
    if not is_a(value, Mapping):
        raise RequestError(f"the {what} must be a dict, not {kind_of(value)}.")
    try:
        found, foreign = known_fields(value, known)
    except Exception as error:  # the mapping's own code
        raise RequestError(f"the {what} cannot be read: {kind_of(error)}.") from error
    if foreign is not None:
        raise RequestError(
            f"the {what} has an unknown field {foreign[:80]!r}. Its fields are {', '.join(sorted(known))}."
        )
    missing = [name for name in (("id", "kind", "prompt") if cls is Request else ("id", "ok")) if name not in found]
    if missing:
        raise RequestError(f"the {what} has no field {missing[0]!r}.")
    return found


register(Request, Codec("$request", Request.to_dict, Request.to_dict, Request.from_dict))
register(Answer, Codec("$answer", Answer.to_dict, Answer.to_dict, Answer.from_dict))
