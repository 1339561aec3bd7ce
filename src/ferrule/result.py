"""ToolResult: what every call ends with. Done, failed or suspended; data, never an exception.

A result has three views: `value` for code, `output` for the model, `parts` for
eyes and ears. Success is the state; `None`, `0`, `""` and `[]` are values.
"""

from __future__ import annotations

import os
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, cast

from ferrule.content import Part, describe_part, file, is_part_dict, normalize_parts
from ferrule.errors import ContentPartError, RequestError, UsageError
from ferrule.exception import classify, describe_exception
from ferrule.redact import scrub
from ferrule.strict_json import Codec, Opaque, clean, is_a, kind_of, register, text_of
from ferrule.suspension import Request

Status = Literal["done", "failed", "suspended"]
FailureCode = Literal[
    "invalid_arguments", "unknown_tool", "exception", "timeout", "cancelled", "denied", "expired", "unavailable",
    "rate_limited", "too_large", "outcome_unknown", "budget", "not_executed", "refused",
]  # fmt: skip

FAILURE_CODES: Final[frozenset[str]] = frozenset(FailureCode.__args__)  # pyright: ignore
RETRYABLE: Final[frozenset[str]] = frozenset({"timeout", "unavailable", "rate_limited"})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed, for logs, retries and Studio; the model reads `output`.

    Args:
        code: One of the closed set of failure codes.
        type: Name of the exception's class, if there was one.
        retryable: Whether trying again can help; default by code: timeout, unavailable and rate_limited.
        retry_after: Seconds to wait before that, a finite number from 0.
        details: More for people; no secrets, no payload.

    Raises:
        UsageError: The code is not in the set, or a field is of another kind.

    Since 0.1.
    """

    code: str
    type: str | None = None
    retryable: bool | None = None
    retry_after: float | None = None
    details: Any = None

    def __post_init__(self) -> None:
        """Check the fields and settle `retryable`."""
        if not isinstance(self.code, str) or self.code not in FAILURE_CODES:  # pyright: ignore
            raise UsageError(f"unknown failure code {self.code!r}. Use one of {', '.join(sorted(FAILURE_CODES))}.")
        if self.type is not None and not is_a(self.type, str):
            raise UsageError(f"type of a failure must be a str or None, not {kind_of(self.type)}.")
        for name in ("code", "type"):  # a member of an enum would not come back from a store, and the result neither
            text: str | None = getattr(self, name)
            if text is not None and type(text) is not str:
                object.__setattr__(self, name, clean(text))
        if self.retryable is None:
            object.__setattr__(self, "retryable", self.code in RETRYABLE)
        elif type(self.retryable) is not bool:
            raise UsageError(f"retryable of a failure must be True, False or None, not {kind_of(self.retryable)}.")
        if self.retry_after is not None and not _is_seconds(self.retry_after):
            given = self.retry_after
            is_short = is_a(given, float) or (type(given) is int and -(2**53) <= given < 0)
            shown = given if is_short else kind_of(given)
            raise UsageError(f"retry_after of a failure must be a finite number of seconds from 0, not {shown}.")
        if self.retry_after is not None and type(self.retry_after) not in (int, float):
            object.__setattr__(self, "retry_after", float(self.retry_after))


def _is_seconds(value: object) -> bool:
    return is_a(value, (int, float)) and not is_a(value, bool) and 0 <= value <= sys.float_info.max


class _Unset:
    """Stands for 'the same as output' in a constructor."""

    def __repr__(self) -> str:
        return "<output>"


_UNSET = _Unset()
_REFUSED = Failure("refused")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolResult:
    """How a call ended.

    Made with this constructor, a result has `value` equal to `output`, or None
    when it is an error. `ToolResult.ok`, `ToolResult.failed` and `pending` say
    more in fewer words. However it is made, one with a request is suspended:
    `is_error` is True, and there is neither value nor failure; and only one
    that failed has a failure.

    Args:
        output: What the model reads.
        is_error: Whether the call did not succeed: it failed, or it is suspended.
        metadata: For code and people, never sent to the model; the key `pending` is reserved for a `Request`.
        parts: Non-text output as part dicts; None for a plain result.
        value: What code reads, any Python object; None is a value.
        failure: Code and details when it failed.

    Raises:
        UsageError: An `output` that is no str, or a field of another wrong type.

    Since 0.1.
    """

    output: str
    is_error: bool
    metadata: dict[str, Any] | None = None
    parts: list[dict[str, Any]] | None = None
    value: Any = _UNSET
    failure: Failure | None = None

    def __post_init__(self) -> None:
        """Check the fields and fill `value` and `failure`."""
        if not issubclass(type(self.output), str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"output must be str, not {kind_of(self.output)}. Use ToolResult.ok(value).")
        if type(self.is_error) is not bool:
            raise UsageError(f"is_error must be True or False, not {kind_of(self.is_error)}.")
        if self.metadata is not None and not is_a(self.metadata, dict):
            raise UsageError(f"metadata must be a dict or None, not {kind_of(self.metadata)}.")
        if self.failure is not None and not is_a(self.failure, Failure):
            raise UsageError(f"failure must be a Failure or None, not {kind_of(self.failure)}.")
        if type(self.output) is not str or not self.output.isascii():
            object.__setattr__(self, "output", clean(self.output))
        if self.pending is not None:
            for name, settled in (("is_error", True), ("value", None), ("failure", None)):
                object.__setattr__(self, name, settled)
        elif self.is_error is (self.failure is None):  # one that failed has a failure, one that is done has none
            object.__setattr__(self, "failure", _REFUSED if self.is_error else None)
        if self.value is _UNSET:
            object.__setattr__(self, "value", None if self.is_error else self.output)

    @property
    def status(self) -> Status:
        """`done`, `failed` or `suspended`."""
        if self.pending is not None:
            return "suspended"
        return "failed" if self.is_error else "done"

    @property
    def success(self) -> bool:
        """Whether the call is done; the only test of success."""
        return self.status == "done"

    @property
    def error(self) -> str | None:
        """The error text of a failed result, else None."""
        return self.output if self.status == "failed" else None

    @property
    def pending(self) -> Request | None:
        """The request of a suspended result, else None."""
        return pending_of(self)

    @classmethod
    def ok(
        cls,
        value: Any = None,
        *,
        output: str | None = None,
        parts: Iterable[Part | Mapping[str, Any]] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> ToolResult:
        """A result that succeeded.

        Args:
            value: What code reads; None is a value.
            output: What the model reads; default the value: a str as it is, None as "", all else as compact JSON.
            parts: Parts or part dicts.
            metadata: For code and people.

        Raises:
            ContentPartError: `parts` is no list, or one of them is no part.
            UsageError: `output` is no str.
        """
        if output is None:
            output = value if type(value) is str else "" if value is None else model_text(value)
            if parts is None and metadata is None:
                return _done(output if output.isascii() else clean(output), value)
        if parts is None:
            return ToolResult(output, False, metadata, None, value)
        given = list(parts) if is_a(parts, Iterator) else parts
        found = normalize_parts(given)
        return ToolResult(output, False, _with_notes(metadata, given), found, value)

    @classmethod
    def failed(
        cls,
        message: str | BaseException,
        *,
        code: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        details: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> ToolResult:
        """A result that failed.

        Args:
            message: What went wrong, for the model and people; an exception is described. Credentials are taken out.
            code: A failure code; default `refused`, or what fits the exception.
            retryable: Whether trying again can help; default by code.
            retry_after: Seconds to wait before that.
            details: More for logs and Studio.
            metadata: For code and people.

        Raises:
            UsageError: An unknown code, a message that is neither text nor an exception, or a `retry_after` that is no
                number of seconds.
        """
        kind = None
        if is_a(message, BaseException):
            fitting, kind = classify(message)
            code, text = code or fitting, describe_exception(message)
        elif is_a(message, str):
            code = code or "refused"
            text = scrub(message) if message.strip() else code
        else:
            raise UsageError(f"the message of a failure must be text or an exception, not {kind_of(message)}.")
        return ToolResult(text, True, metadata, None, None, Failure(code, kind, retryable, retry_after, details))

    def __eq__(self, other: object) -> bool:
        """Equal by fields, however the results were made."""
        if not is_a(other, ToolResult):
            return NotImplemented
        mine = (self.output, self.is_error, self.metadata, self.parts, self.failure, self.value)
        return _same(mine, (other.output, other.is_error, other.metadata, other.parts, other.failure, other.value))

    __hash__ = None  # pyright: ignore[reportAssignmentType] - it holds dicts

    def __repr__(self) -> str:
        """Name the state; elide long text, never show part data."""
        shown = [self.status, f"output={_short(self.output)}"]
        if not self.is_error and self.value is not self.output:
            shown.append(f"value={_short(self.value)}")
        if self.failure is not None:
            shown.append(f"code={self.failure.code!r}")
        if self.parts is not None:
            shown.append(f"parts={_short(self.parts)}")
        if self.metadata:
            shown.append(f"metadata keys={_short(list(self.metadata))}")
        return f"ToolResult({', '.join(shown)})"


# A call that goes well makes one result, and its fields are sound: the checks of the constructor cost it more than the
# result itself. The slots are set past the guard of the frozen class.
_new = object.__new__
_set_output, _set_is_error, _set_metadata, _set_parts, _set_value, _set_failure = (
    getattr(ToolResult, f.name).__set__ for f in fields(ToolResult)
)


def _done(output: str, value: Any) -> ToolResult:
    """A success with clean text and nothing else."""
    made = _new(ToolResult)
    _set_output(made, output)
    _set_is_error(made, False)
    _set_metadata(made, None)
    _set_parts(made, None)
    _set_value(made, value)
    _set_failure(made, None)
    return made


class _Short(reprlib.Repr):
    """Short texts of values; of a part only what `describe_part` tells, of bytes only how many."""

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        return f"<{describe_part(x)}>" if is_part_dict(x) else super().repr_dict(x, level)

    def repr_Part(self, x: Part, level: int) -> str:
        return f"<{describe_part(x)}>"

    def repr_bytes(self, x: bytes, level: int) -> str:
        return f"<{len(x)} bytes>"


def _short(value: object) -> str:
    short = _Short()
    short.maxstring = short.maxother = 80
    try:
        return clean(short.repr(value))
    except Exception:  # a repr of the user's that raises must not break ours
        return f"<{kind_of(value)}>"


def _same(a: object, b: object) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # arrays, for one, refuse to be compared as a whole
        return False


def _with_notes(metadata: dict[str, Any] | None, parts: Iterable[object]) -> dict[str, Any] | None:
    notes = [p.note for p in parts if is_a(p, Part) and p.note]
    return with_fact(metadata, "notes", notes) if notes else metadata


def with_fact(metadata: dict[str, Any] | None, name: str, value: Any) -> dict[str, Any]:
    """Metadata with a fact of ours; what the tool has under that name itself is kept as `NAME_of_tool`.

    Args:
        metadata: The tool's, or None.
        name: The fact's name.
        value: The fact.

    Since 0.1.
    """
    known = metadata or {}
    own = {f"{name}_of_tool": known[name]} if name in known else {}
    return {**known, **own, name: value}


# -- suspension -------------------------------------------------------------------------------------------------


def pending(
    kind: str,
    prompt: str,
    *,
    id: str | None = None,
    url: str | None = None,
    data: dict[str, Any] | None = None,
    expiresAt: str | None = None,
    preview: Any = None,
) -> ToolResult:
    """A suspended result: the call waits for an answer.

    Args:
        kind: `approval`, `input`, `question`, `authorization`, or a word of your own.
        prompt: What a person reads.
        id: Correlation id; default a new one.
        url: Where the person must go.
        data: More for the answering side; `data["schema"]` may hold a JSON Schema for the answer.
        expiresAt: RFC 3339 time after which no answer is taken.
        preview: What would happen, for a person.

    Raises:
        RequestError: The request is malformed.

    Since 0.1.
    """
    request = Request(id or f"req_{os.urandom(8).hex()}", kind, prompt, url, data, expiresAt, preview)
    return suspended(request)


def suspended(request: Request, metadata: dict[str, Any] | None = None) -> ToolResult:
    """The suspended result that carries a request.

    Args:
        request: What the call waits for.
        metadata: More beside it.

    Since 0.1.
    """
    output = f"{request.prompt}\n{request.url}" if request.url else request.prompt
    return ToolResult(output, True, {**(metadata or {}), "pending": request}, None, None)


def auth_required(url: str, prompt: str = "Authorization is required to continue.") -> ToolResult:
    """A suspended result that waits for a sign-in.

    Args:
        url: Where the person signs in.
        prompt: What they read.

    Since 0.1.
    """
    return pending("authorization", prompt, url=url)


def pending_of(result: ToolResult) -> Request | None:
    """The request that a result waits for, or None.

    Args:
        result: Any result; a request written as a plain dict is read.

    Since 0.1.
    """
    if result.metadata is None:
        return None
    found = result.metadata.get("pending")
    if found is None or is_a(found, Request):
        return found
    try:
        return Request.from_dict(found)
    except RequestError:
        return None


# -- from whatever a tool returns -------------------------------------------------------------------------------


def model_text(value: Any) -> str:
    """What the model reads of a value: a str as it is, None as "", all else as compact strict JSON.

    Args:
        value: Any object.

    Since 0.1.
    """
    if is_a(value, str):
        return clean(value)
    return "" if value is None else text_of(value)


def as_result(value: Any) -> ToolResult:
    """The result that a tool's return value means.

    A ToolResult is checked and taken as it is; a Part, or a list with Parts,
    becomes parts and a line of text for each; bytes a file part; an exception
    a failure; anything else the value of a success.

    Args:
        value: What the tool returned.

    Returns:
        A result; one with a bad part or a malformed request becomes a failure that names it.

    Since 0.1.
    """
    if type(value) is str:
        text = value if value.isascii() else clean(value)
        return _done(text, text)
    given: object = value
    kind = type(given)  # its real class: what `__class__` says, or raises, does not count
    if kind is int or kind is dict:
        return _done(text_of(value), value)
    if issubclass(kind, ToolResult):
        return take(value)
    if issubclass(kind, BaseException):
        return ToolResult.failed(value)
    if issubclass(kind, bytes | bytearray | memoryview):
        return _from_parts(value, [file(value)])
    if issubclass(kind, Part):
        return _from_parts(value, [value])
    if (kind is list or kind is tuple) and any(issubclass(type(v), Part) for v in value):
        return _from_parts(value, value)
    return ToolResult.ok(value)


def _from_parts(value: Any, items: Iterable[Any]) -> ToolResult:
    parts = [v for v in items if is_a(v, Part) and v.type != "text"]
    lines = [_line(v) for v in items]
    return ToolResult.ok(value, output="\n".join(lines), parts=parts or None)


def _line(item: Any) -> str:
    if is_a(item, Part):
        return item.text or "" if item.type == "text" else describe_part(item)
    return model_text(item)


def take(result: ToolResult) -> ToolResult:
    """Check a result that a tool made by hand.

    Args:
        result: Its parts may be dicts, its request may be one too.

    Returns:
        The result, with canonical parts and a real `Request`; or a failure that names what is wrong.

    Since 0.1.
    """
    found = result.metadata.get("pending") if result.metadata else None
    if found is not None:
        try:
            request = found if is_a(found, Request) else Request.from_dict(found)
        except RequestError as error:
            return ToolResult.failed(f"The tool suspended with a malformed request: {error}", code="exception")
        if request is not found or not result.is_error or result.failure is not None:
            result = replace(result, metadata={**cast("dict[str, Any]", result.metadata), "pending": request})
    given: object = result.parts
    if given is None:
        return result
    if not is_a(given, (list, tuple)):
        return ToolResult.failed(f"The tool returned parts as {kind_of(given)}, not as a list.", code="exception")
    try:
        parts = normalize_parts(cast("list[Any]", given))
    except ContentPartError as error:
        return ToolResult.failed(f"The tool returned a part that is none: {error}", code="exception")
    if parts == given:
        return result
    return replace(result, parts=parts, metadata=_with_notes(result.metadata, cast("list[object]", given)))


# -- the boundary and the journal -------------------------------------------------------------------------------


def _boundary(result: ToolResult) -> Any:
    """What HTTP clients get: the bare value, or an object that says why there is none."""
    if result.success:
        return result.value
    if result.pending is not None:
        return {"success": False, "error": result.pending.prompt, "pending": result.pending.to_dict()}
    return {"success": False, "error": result.output}


def _fields(result: ToolResult) -> dict[str, Any]:
    """What is stored, short things first: how a call ended must not be lost where the bounds cut the rest."""
    found: dict[str, Any] = {"is_error": result.is_error, "output": result.output}
    f = result.failure
    if f is not None:
        found["failure"] = [f.code, f.type, f.retryable, f.retry_after]
    if result.parts is not None:
        found["parts"] = result.parts
    metadata = result.metadata
    if metadata is not None:
        found["metadata"] = {"pending": metadata["pending"], **metadata} if "pending" in metadata else metadata
    if type(result.value) is not str or result.value != result.output:  # a value that is the output is stored once
        found["value"] = result.value
    if f is not None and f.details is not None:
        found["details"] = f.details
    return found


def _from_fields(found: dict[str, Any]) -> ToolResult:
    output, metadata, told = found["output"], found.get("metadata"), found.get("failure")
    parts: Any = found.get("parts")
    details = [found["details"]] if "details" in found else []
    failure = None if told is None or type(told) is Opaque else Failure(*told, *details)
    value = found.get("value", output)
    if type(output) is Opaque:
        output = _left_out(output)
    if type(metadata) is Opaque:
        metadata = {"…": metadata}
    if type(parts) is Opaque:
        parts = [parts]
    if type(parts) is list:
        parts = [_whole(part) for part in cast("list[Any]", parts)]
    return ToolResult(output, found["is_error"], metadata, parts, value, failure)


def _whole(part: Any) -> Any:
    """A part, or a text in its place that says what the bounds cut."""
    values: Iterable[Any] = cast("dict[str, Any]", part).values() if is_a(part, dict) else (part,)
    cut = next((v for v in values if type(v) is Opaque), None)
    return cast("Any", part) if cut is None else {"type": "text", "text": _left_out(cut)}


def _left_out(cut: Opaque) -> str:
    return f"[{cut.type}: {cut.text}]"


register(ToolResult, Codec("$result", _boundary, _fields, _from_fields))
