"""An agent that answers questions about the audit, with whatever model there is a key for."""

from __future__ import annotations

import os
from pathlib import Path

from ferrule import Agent
from ferrule.provider.base import Model
from ferrule.provider.presets import PRESETS
from license_audit import tools
from license_audit.recorded import Recorded

CONVERSATION = Path(__file__).with_name("conversation.json")
MODELS = (
    "openai:gpt-5-mini",
    "anthropic:claude-sonnet-4-5",
    "gemini:gemini-2.5-flash",
    "mistral:mistral-large-latest",
    "groq:openai/gpt-oss-120b",
    "openrouter:openai/gpt-5-mini",
)
"""One model of each provider; the first whose key is set is used."""
INSTRUCTIONS = """\
You answer questions about the licences of the distributions in a Python environment.
Every figure and every name in your answer comes from a tool you called in this conversation.
A licence is allowed, denied or unknown; unknown means that a person must look at it.
Answer in a few sentences, without Markdown."""


def keys_of(model: str) -> tuple[str, ...]:
    """The variables that may hold the key for a model."""
    return PRESETS[model.partition(":")[0]].keys


def choose_model(environment: Path | None = None) -> str | Model:
    """The model that `AUDIT_MODEL` names, else the first with a key, else the recorded conversation."""
    named = os.environ.get("AUDIT_MODEL")
    live = named or next((m for m in MODELS if any(os.environ.get(key) for key in keys_of(m))), None)
    return live or Recorded(CONVERSATION, environment, [keys_of(model)[0] for model in MODELS])


def make_auditor(environment: Path | None = None) -> Agent:
    """The agent, for the running interpreter's environment or another one's site-packages folder."""
    where = f"\nPass environment={str(environment)!r} to each tool that takes it." if environment else ""
    audit_tools = [
        tools.list_distributions,
        tools.classify_license,
        tools.judge_environment,
        tools.find_conflicts,
        tools.license_chart,
        tools.write_report,
    ]
    return Agent("auditor", choose_model(environment), instructions=INSTRUCTIONS + where, tools=audit_tools)


auditor = make_auditor()
"""What `ferrule run auditor` and `ferrule chat auditor` find."""
