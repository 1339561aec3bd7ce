"""What a listener hears of a run while it goes on."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ferrule.machine import maker
from ferrule.message import Call, Usage
from ferrule.result import ToolResult
from ferrule.strict_json import plain
from ferrule.suspension import Request

EventType = Literal[
    "text", "reasoning", "call", "tool_progress", "restarted",
    "step", "tool_call", "tool_result", "pending", "usage", "done",
]  # fmt: skip


class Event(NamedTuple):
    """One event. The first five types are transient; the others are views of records and carry their `seq`.

    Args:
        type: `text`, `reasoning`, `call` (the name of a call that is being written), `tool_progress` and `restarted`
            come while something goes on; `step` (a model was asked), `tool_call`, `tool_result`, `pending`, `usage`
            and `done` when it is recorded.
        op: The command it belongs to, for example `t3.0`; with the names of child runs before it, `t1.0/m2`.
        seq: Place of its record in the run's journal; None for transient ones.
        text: A piece of text or reasoning; the name of a call.
        call: The call, of `tool_call`, `tool_result` and `tool_progress`.
        result: The result, of `tool_result`.
        request: The open request, of `pending`.
        usage: Of one model call, of `usage`.
        value: What the tool reported, of `tool_progress`; the `RunResult`, of `done`.

    Since 0.1.
    """

    type: EventType
    op: str = ""
    seq: int | None = None
    text: str = ""
    call: Call | None = None
    result: ToolResult | None = None
    request: Request | None = None
    usage: Usage | None = None
    value: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The event as plain JSON values: only what it has."""
        # By identity and type: what a tool reports may be an array, which compares item by item.
        shown = {k: plain(v) for k, v in self._asdict().items() if v is not None and not (type(v) is str and not v)}
        return {"type": self.type, **shown}


event = maker(Event)
