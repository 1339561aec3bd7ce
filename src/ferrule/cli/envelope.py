"""Results and events on the command line: what programs read, and the lines that people read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from ferrule.cli.output import printable, styled
from ferrule.cli.parts import describe_saved, readable, without_data
from ferrule.content import describe_part
from ferrule.result import ToolResult
from ferrule.strict_json import plain

if TYPE_CHECKING:
    from ferrule.runtime.event import Event
    from ferrule.runtime.outcome import RunResult


def envelope(result: ToolResult, *, full: bool = False, saved: Sequence[Path | None] = ()) -> dict[str, Any]:
    """A result as plain data, its three views and its state.

    Args:
        result: Any result.
        full: Whether parts keep their bytes; else these are replaced by digest and size.
        saved: Where each part was kept, if it was.

    Returns:
        `status`, `output`, `value`, `parts`, `error`, `failure`, `request` and `metadata`, always all of them.

    Since 0.1.
    """
    metadata = {k: v for k, v in (result.metadata or {}).items() if k != "pending"}
    request = result.pending
    data: dict[str, Any] = plain(
        {
            "status": result.status,
            "output": result.output,
            "value": result.value,
            "parts": result.parts or [],
            "error": result.error,
            "failure": result.failure,
            "request": request.to_dict() if request is not None else None,
            "metadata": metadata,
        }
    )
    if not full:
        data = without_data(data)
    for part, path in zip(data["parts"], saved, strict=False):
        part["saved"] = str(path) if path is not None else None
    return data


def run_data(result: RunResult[Any]) -> dict[str, Any]:
    """How a run ended, as plain data; bytes of parts are replaced by digest and size.

    Args:
        result: Any run's result.

    Since 0.1.
    """
    return without_data(plain(replace(result, requests=tuple(map(readable, result.requests)))))


def event_data(event: Event) -> dict[str, Any]:
    """An event as plain data; a tool's result is its envelope, which tells failure from success.

    Args:
        event: Any event.

    Since 0.1.
    """
    data = without_data(event.to_dict())
    return {**data, "result": envelope(event.result)} if event.result is not None else data


def lines(result: ToolResult, *, full: bool = False, saved: Sequence[Path | None] = ()) -> list[RenderableType]:
    """A result for a person to read.

    Args:
        result: Any result.
        full: Whether an output that was cut for the model is shown whole.
        saved: Where each part was kept, if it was.

    Since 0.1.
    """
    whole = (result.metadata or {}).get("full_output") if full else None
    shown: list[RenderableType] = [styled(result.status)]
    if result.output:
        shown.append(Text(printable(whole if isinstance(whole, str) else result.output)))
    for i, part in enumerate(result.parts or ()):
        name = f" {part['name']!r}" if part.get("name") else ""
        url = f" {part['url']}" if part.get("url") else ""
        shown.append(Text(printable(f"part {i + 1}: {describe_part(part)}{name}{url}{describe_saved(part, saved, i)}")))
    if result.failure is not None:
        again = ", trying again can help" if result.failure.retryable else ""
        shown.append(Text(f"failure: {result.failure.code}{again}"))
    return shown
