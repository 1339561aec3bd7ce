"""Bytes that are kept are those of the very messages that stand there now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ferrule.message import Call, Message, ModelMessage, ToolMessage, user
from ferrule.provider import presets
from ferrule.provider.base import ModelRequest

MODELS = ("openai:m", "openai-chat:m", "anthropic:m", "gemini:m", "mistral:m")
FIRST = user("FIRST")


def sent(model: Any, messages: Sequence[Message]) -> str:
    return json.dumps(model.explain(ModelRequest(messages)))


@pytest.mark.parametrize("name", MODELS)
def test_two_runs_that_continue_one_history_send_their_own_prompts(name: str) -> None:
    model = presets.model(name)
    assert "BOB" in sent(model, [FIRST, user("BOB")])
    again = sent(model, [FIRST, user("EVE")])
    assert "EVE" in again
    assert "BOB" not in again


@pytest.mark.parametrize("name", MODELS)
def test_a_result_that_was_taken_out_is_not_sent(name: str) -> None:
    model = presets.model(name)
    a, b = Call("t1.0", "look", "{}", "a1"), Call("t1.1", "look", "{}", "a2")
    history: list[Message] = [user("x"), ModelMessage("", (a, b)), ToolMessage(a, "fine")]
    assert "SECRET" in sent(model, [*history, ToolMessage(b, "SECRET")])
    assert "SECRET" not in sent(model, [*history, ToolMessage(b, "[removed]")])
