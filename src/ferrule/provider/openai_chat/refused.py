"""Errors that are answers: a server that refuses the call its own model made (`tool_use_failed`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from ferrule.errors import JSONSyntaxError
from ferrule.message import Call, ModelMessage
from ferrule.provider.base import ModelResponse
from ferrule.provider.foreign import Json, arguments_text, as_object, as_text
from ferrule.provider.openai_error import REFUSED_CALL
from ferrule.provider.refusal import Said
from ferrule.strict_json import parse

_WHY: Final = "The provider did not take this call: its arguments do not fit the schema of the tool."


def refused_call(model: str, said: Said, text: str = "", calls: tuple[Call, ...] = ()) -> ModelResponse | None:
    """The answer that a server refused, because of the call its own model made.

    Args:
        model: The model that was asked.
        said: The error.
        text: What was streamed before.
        calls: The calls streamed before.

    Returns:
        None when the error does not tell what the model said.

    Since 0.1.
    """
    if said.code != REFUSED_CALL:
        return None
    failed = said.failed or ""
    calls = failed_calls(failed) or calls
    if not calls and not text and failed.lstrip()[:1] not in "{[<":  # else a call that nobody can read
        text = failed
    if not calls and not text.strip():
        return None
    mended = dict.fromkeys(range(len(calls)), said.message or _WHY)
    return ModelResponse(ModelMessage(text, calls), "tool_calls" if calls else "stop", model=model, mended=mended)


def failed_calls(failed: str) -> tuple[Call, ...]:
    """The calls in the text that a server did not take; none when it is plain text.

    Args:
        failed: The text of `failed_generation`.

    Since 0.1.
    """
    try:
        found: Any = parse(failed)
    except JSONSyntaxError:
        return ()
    items: Sequence[Any] = cast("list[Any]", found) if isinstance(found, list) else [found]
    calls = tuple(call for item in items if (call := _failed_call(as_object(item))) is not None)
    return calls if len(calls) == len(items) else ()


def _failed_call(made: Json) -> Call | None:
    name = as_text(made.get("name"))
    return Call("", name, arguments_text(made.get("arguments", made.get("parameters")))) if name else None
