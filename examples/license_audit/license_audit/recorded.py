"""A recorded conversation in place of a model, for those who have no key.

The file says which tools are called and how the answer is worded. The calls are made like any
model's, and what stands in braces in the answer is filled in from their results: no figure is
in the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from string import Formatter
from typing import Any, cast

from ferrule.message import Call, ModelMessage, ToolMessage, UserMessage
from ferrule.provider.base import ModelRequest
from ferrule.provider.function import FunctionModel, call


class Recorded(FunctionModel):
    """Answers the one question of a recorded conversation, and says that it is one.

    Args:
        file: The conversation.
        environment: What the calls look at; None for the running interpreter's environment.
        keys: The variables of which one would bring in a real model.
    """

    def __init__(self, file: Path, environment: Path | None, keys: Sequence[str]) -> None:
        super().__init__(self._answer, name="recorded conversation")
        self._told = json.loads(file.read_text(encoding="utf-8"))
        self._given = {"environment": str(environment)} if environment else {}
        self._keys = ", ".join(keys)

    @property
    def question(self) -> str:
        """What it can be asked."""
        return self._told["question"]

    def _answer(self, request: ModelRequest) -> str | list[Call]:
        asked = max(i for i, message in enumerate(request.messages) if isinstance(message, UserMessage))
        prompt, since = request.messages[asked], request.messages[asked + 1 :]
        if not isinstance(prompt, UserMessage) or prompt.text.split() != self.question.split():
            return self._signed(f"I can answer one question only: {self.question}")
        turn = self._told["turns"][sum(isinstance(message, ModelMessage) for message in since)]
        if "calls" in turn:
            return [call(c["name"], json.dumps({**c["arguments"], **self._given})) for c in turn["calls"]]
        results = [message for message in since if isinstance(message, ToolMessage)]
        failed = [f"{message.call.name} failed: {message.output}" for message in results if message.is_error]
        if failed:
            return self._signed("\n".join(failed))
        # Code that has the result at hand reads its value; a model, and so this one, has the output only.
        values = {message.call.name: json.loads(message.output) for message in results}
        origin = "Its calls and its wording were written beforehand; the figures are those of the calls just made."
        return self._signed(_Filled().vformat("\n".join(turn["text"]), (), values), origin)

    def _signed(self, answer: str, *more: str) -> str:
        notice = ["This is a recorded conversation; no model was asked.", *more]
        return "\n".join([answer, "", " ".join(notice), f"For a model set one of {self._keys}."])


class _Filled(Formatter):
    """Fills in values; of a list it tells the field of each item that the format names, each once, and how many."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if not isinstance(value, list):
            return super().format_field(value, format_spec)
        names = dict.fromkeys(item[format_spec] for item in cast("list[dict[str, Any]]", value))
        return f"{len(names)} ({', '.join(names)})" if names else "none"
