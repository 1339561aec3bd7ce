"""Models by name: where they are asked, which key goes there, and what they take."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest
from tests.unit.provider.fake import FakeWire
from tests.unit.provider.server import Asked, Server, answer

from ferrule.content import text
from ferrule.errors import ModelError, UsageError
from ferrule.message import UserMessage
from ferrule.provider import presets
from ferrule.provider.base import Capabilities, Model, ModelRequest
from ferrule.provider.http.model import WireModel
from ferrule.provider.presets import PRESETS, model

HELLO = ModelRequest((UserMessage((text("hello"),)),))
VARIABLES = {
    name for preset in PRESETS.values() for name in (*preset.keys, preset.url, *(preset.headers or {}).values())
}


def fake_wire(*_: str) -> FakeWire:
    return FakeWire()


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of whoever runs the tests, and no wire but the fake one: the real ones have tests of their own."""
    for name in (*VARIABLES, "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(presets, "_wire", fake_wire)


def sent(name: str, **given: Any) -> Asked:
    """What a server was asked that stands at `base_url`."""

    async def main() -> Asked:
        async with Server(answer({"text": "hi"})) as server:
            await model(name, base_url=server.url, **given).generate(HELLO)
            return server.asked[0]

    return asyncio.run(main())


def sent_at_home(monkeypatch: pytest.MonkeyPatch, provider: str) -> Asked:
    """What a server was asked that the provider's own variable names."""

    async def main() -> Asked:
        async with Server(answer({"text": "hi"})) as server:
            monkeypatch.setenv(PRESETS[provider].url, server.url)
            await model(f"{provider}:m").generate(HELLO)
            return server.asked[0]

    return asyncio.run(main())


@pytest.mark.parametrize("provider", PRESETS)
def test_each_provider_gives_a_model_without_a_key_or_a_request(provider: str) -> None:
    made = model(f"{provider}:some-model")
    assert isinstance(made, Model)
    assert f"{provider}:some-model" == made.name
    assert made.explain(HELLO) == {"say": [["hello"]], "stream": False}


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("openai", "https://api.openai.com:443"),
        ("openai-chat", "https://api.openai.com:443"),
        ("anthropic", "https://api.anthropic.com:443"),
        ("gemini", "https://generativelanguage.googleapis.com:443"),
        ("groq", "https://api.groq.com:443"),
        ("mistral", "https://api.mistral.ai:443"),
        ("openrouter", "https://openrouter.ai:443"),
        ("ollama", "http://localhost:11434"),
        ("vllm", "http://localhost:8000"),
    ],
)
def test_each_provider_has_its_address(provider: str, expected: str) -> None:
    assert repr(model(f"{provider}:m")) == f"WireModel('{provider}:m', base_url='{expected}')"


# -- keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("provider", "variable"), [(p, v) for p, preset in PRESETS.items() for v in preset.keys])
def test_the_key_comes_from_the_variable_of_the_provider_and_goes_where_its_variable_says(
    provider: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        if name.endswith(("_KEY", "_TOKEN")) and name not in PRESETS[provider].keys:
            monkeypatch.setenv(name, f"other-{name}")
    monkeypatch.setenv(variable, " key-1\n")
    assert sent_at_home(monkeypatch, provider).headers["authorization"] == "Bearer key-1"


@pytest.mark.parametrize(
    ("provider", "first", "second"),
    [("gemini", "GOOGLE_API_KEY", "GEMINI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")],
)
def test_of_two_variables_the_first_wins(
    provider: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(second, "second")
    monkeypatch.setenv(first, "first")
    assert sent_at_home(monkeypatch, provider).headers["authorization"] == "Bearer first"


@pytest.mark.parametrize("provider", PRESETS)
def test_another_address_gets_no_key_of_the_environment(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        if not name.endswith("_URL"):
            monkeypatch.setenv(name, "canary-0123456789")
    assert "canary" not in str(sent(f"{provider}:m").headers)


def test_another_address_gets_the_key_that_is_passed() -> None:
    assert sent("openai:m", key="mine").headers["authorization"] == "Bearer mine"
    assert sent("openai:m", key=lambda: "mine").headers["authorization"] == "Bearer mine"


@pytest.mark.parametrize(
    ("name", "base_url", "keyed"),
    [
        ("openai:m", "https://api.openai.com/v1", True),
        ("openai:m", "https://API.openai.com:443/other", True),
        ("openai:m", "http://api.openai.com/v1", False),
        ("openai:m", "https://api.openai.com:444/v1", False),
        ("openai:m", "https://api.openai.com.evil.example/v1", False),
        ("ollama:m", "https://ollama.com/v1", True),
        ("ollama:m", None, False),
        ("vllm:m", None, True),
    ],
)
def test_the_key_of_the_environment_is_bound_to_the_origin_of_the_provider(
    name: str, base_url: str | None, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLES:
        if not variable.endswith("_URL"):
            monkeypatch.setenv(variable, "key-1")
    made = model(name, base_url=base_url)
    assert isinstance(made, WireModel)
    assert ("key-1" if keyed else None) == made._sent_key()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("provider", [p for p, preset in PRESETS.items() if preset.needs_key])
def test_a_missing_key_is_named_when_a_request_is_sent(provider: str) -> None:
    made = model(f"{provider}:m")
    with pytest.raises(ModelError) as caught:
        asyncio.run(made.generate(HELLO))
    names = " or ".join(PRESETS[provider].keys)
    assert f"{provider}: there is no key. Set {names}, or pass key=" == str(caught.value)


def test_a_key_that_was_passed_and_is_empty_is_missing() -> None:
    with pytest.raises(ModelError, match="there is no key"):
        sent("openai:m", key="")


def test_a_key_that_is_set_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model("openai:m")
    monkeypatch.setenv("OPENAI_API_KEY", "late")
    assert isinstance(made, WireModel)
    assert made._sent_key() == "late"  # pyright: ignore[reportPrivateUsage]


def test_organization_and_project_go_to_the_own_address_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "")
    headers = sent_at_home(monkeypatch, "openai").headers
    assert ("org-1", False) == (headers["openai-organization"], "openai-project" in headers)
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert "openai-organization" not in sent("openai:m").headers


def test_headers_that_are_passed_win(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent("groq:m", headers={"X-Team": "a"}).headers["x-team"] == "a"


# -- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("opnai:gpt-5", "unknown provider 'opnai'. Did you mean openai or openai-chat?"),
        ("Anthropic:x", "unknown provider 'Anthropic'. Did you mean anthropic?"),
        ("zzz:x", f"unknown provider 'zzz'. Known are {', '.join(PRESETS)}."),
        (":x", f"unknown provider ''. Known are {', '.join(PRESETS)}."),
        ("gpt-5", "the model 'gpt-5' has no provider. Write provider:model, for example 'openai:gpt-5'."),
        ("openai", "'openai' is a provider without a model. Write provider:model, for example 'openai:gpt-5'."),
        ("openai:", "'openai' is a provider without a model. Write provider:model, for example 'openai:gpt-5'."),
    ],
)
def test_a_name_that_is_none_is_told_with_the_mend(name: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        model(name)
    assert expected == str(caught.value)


def test_colons_belong_to_the_name_of_the_model() -> None:
    assert sent("ollama:qwen3:8b").path == "/say/qwen3:8b"


# -- capabilities -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:gpt-5", Capabilities()),
        ("openai-chat:gpt-5", Capabilities()),
        ("openai-chat:gpt-4o-audio-preview", Capabilities(audio=True)),
        ("openai-chat:GPT-audio", Capabilities(audio=True)),
        ("anthropic:claude-x", Capabilities(sampling=False, later_system=False)),
        ("gemini:gemini-2.5-pro", Capabilities(audio=True, tool_media=False, later_system=False)),
        ("gemini:models/gemini-2.0-flash", Capabilities(audio=True, tool_media=False, later_system=False)),
        ("gemini:gemini-3-pro", Capabilities(audio=True, later_system=False)),
        ("openrouter:google/gemini-3-pro", Capabilities(audio=True)),
        ("openrouter:x/y", Capabilities()),
        ("groq:x", Capabilities()),
    ],
)
def test_what_is_known_of_a_model_is_known_by_its_name(name: str, expected: Capabilities) -> None:
    assert expected == model(name).capabilities


def test_capabilities_that_are_passed_win() -> None:
    assert Capabilities(pdf=False) == model("gemini:gemini-2.5-pro", capabilities=Capabilities(pdf=False)).capabilities


# -- wires ------------------------------------------------------------------------------------------------------


def test_a_wire_is_loaded_by_name_once_and_told_its_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    loaded: Any = ModuleType("some_wire")
    loaded.DIALECTS = {"groq": "the dialect"}

    def make(*given: str) -> tuple[tuple[str, ...], object]:
        return given, object()

    loaded.Made = make
    monkeypatch.setitem(sys.modules, "some_wire", loaded)
    made: Any = presets._wire("some_wire", "Made", "groq")  # pyright: ignore[reportPrivateUsage]
    assert ("the dialect",) == made[0]
    assert made is presets._wire("some_wire", "Made", "groq")  # pyright: ignore[reportPrivateUsage]
    plain: Any = presets._wire("some_wire", "Made")  # pyright: ignore[reportPrivateUsage]
    assert plain[0] == ()


def test_a_wire_that_is_passed_takes_the_place_of_the_usual_one() -> None:
    wire = FakeWire()
    made = model("openai:m", wire=wire)
    assert isinstance(made, WireModel)
    assert wire is made._wire  # pyright: ignore[reportPrivateUsage]
