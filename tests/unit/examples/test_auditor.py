"""The sample project's agent: which model it gets, and what stands in for one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ferrule import RunResult, Session
from ferrule.testing import forbid_network
from license_audit.agent import CONVERSATION, MODELS, choose_model, keys_of, make_auditor
from license_audit.recorded import Recorded

README = CONVERSATION.parents[1] / "README.md"
TOLD = json.loads(CONVERSATION.read_text(encoding="utf-8"))
NOTICE = "This is a recorded conversation; no model was asked."


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUDIT_MODEL", *(key for model in MODELS for key in keys_of(model))):
        monkeypatch.delenv(name, raising=False)


def ask(question: str, environment: Path | None = None) -> RunResult:
    with forbid_network():
        return asyncio.run(make_auditor(environment).run(question))


@pytest.mark.parametrize(("key", "model"), [(key, model) for model in MODELS for key in keys_of(model)])
def test_each_known_key_brings_in_its_provider(monkeypatch: pytest.MonkeyPatch, key: str, model: str) -> None:
    monkeypatch.setenv(key, "a-key")
    assert make_auditor().models[0].name == model


def test_the_first_of_several_keys_counts_and_a_named_model_goes_before_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GROQ_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "a-key")
    assert make_auditor().models[0].name.startswith("anthropic:")
    monkeypatch.setenv("AUDIT_MODEL", "ollama:llama3.3")
    assert make_auditor().models[0].name == "ollama:llama3.3"


def test_an_empty_key_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert isinstance(choose_model(), Recorded)


def test_the_readme_names_each_model_with_its_keys() -> None:
    page = README.read_text(encoding="utf-8")
    rows = [f"| `{model}` | {', '.join(f'`{key}`' for key in keys_of(model))} |" for model in MODELS]
    assert [row for row in rows if row not in page] == []
    assert f'ferrule run auditor --input "{TOLD["question"]}"' in page


def test_no_figure_stands_in_the_recorded_conversation() -> None:
    assert not any(character.isdigit() for turn in TOLD["turns"] for line in turn.get("text", ()) for character in line)


def test_the_recorded_conversation_answers_its_question_from_the_calls_and_says_what_it_is() -> None:
    result = ask(f" {TOLD['question']}\n")
    assert (result.status, len(result.messages)) == ("done", 5)
    assert NOTICE in result.output
    assert "are those of the calls just made" in result.output


def test_it_answers_no_other_question_and_makes_no_call() -> None:
    result = ask("Is everything fine?")
    assert result.output.startswith(f"I can answer one question only: {TOLD['question']}\n\n{NOTICE}\nFor a model set ")
    assert len(result.messages) == 2


def test_it_answers_again_in_a_session() -> None:
    session, auditor = Session(), make_auditor()
    first, second = (auditor.run_sync(TOLD["question"], session=session).output for _ in range(2))
    assert first == second


def test_a_failed_call_is_told_in_place_of_the_answer(tmp_path: Path) -> None:
    result = ask(TOLD["question"], tmp_path / "nowhere")
    assert result.output.startswith("judge_environment failed: NotADirectoryError: ")
    assert NOTICE in result.output
