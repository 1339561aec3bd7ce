"""The providers by name: where they are, which variable holds their key, and what their models take."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.provider.base import Capabilities, Model, Wire
from ferrule.provider.http.model import Key, WireModel, origin_of

if TYPE_CHECKING:
    import difflib
else:
    difflib = LazyModule("difflib")

Flags = Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Preset:
    """One provider.

    Args:
        base_url: Where it is.
        wire: Module and factory of its wire, and the factory's argument if it takes one.
        keys: Variables that hold a key; the first that is set wins.
        url: Variable that holds another base URL.
        headers: Variables that become headers.
        key_url: Where the key belongs, if not at `base_url`.
        needs_key: Whether it answers nobody without one.
        flags: What models take, by the beginning of their name; the first that fits wins, "" fits all.

    Since 0.1.
    """

    base_url: str
    wire: tuple[str, ...]
    keys: tuple[str, ...]
    url: str
    headers: Mapping[str, str] | None = None
    key_url: str | None = None
    needs_key: bool = True
    flags: tuple[tuple[str, Flags], ...] = ()


def _chat(api: str) -> tuple[str, ...]:
    return ("ferrule.provider.openai_chat.wire", "ChatWire", api)


_OPENAI_HEADERS: Final = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
_HEARS: Final = {"audio": True}

PRESETS: Final[Mapping[str, Preset]] = {
    "openai": Preset(
        "https://api.openai.com/v1",
        ("ferrule.provider.openai_responses.wire", "OpenAIResponses"),
        ("OPENAI_API_KEY",),
        "OPENAI_BASE_URL",
        _OPENAI_HEADERS,
    ),
    "openai-chat": Preset(
        "https://api.openai.com/v1",
        _chat("openai-chat"),
        ("OPENAI_API_KEY",),
        "OPENAI_BASE_URL",
        _OPENAI_HEADERS,
        flags=(("gpt-4o-audio", _HEARS), ("gpt-4o-mini-audio", _HEARS), ("gpt-audio", _HEARS)),
    ),
    "anthropic": Preset(
        "https://api.anthropic.com",
        ("ferrule.provider.anthropic.wire", "AnthropicWire"),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        "ANTHROPIC_BASE_URL",
        # The API's present version refuses temperature and its like; only newer models take system text later on.
        flags=(("", {"sampling": False, "later_system": False}),),
    ),
    "gemini": Preset(
        "https://generativelanguage.googleapis.com/v1beta",
        ("ferrule.provider.gemini.wire", "Gemini"),
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "GEMINI_BASE_URL",
        flags=(
            ("gemini-1", {"audio": True, "tool_media": False, "later_system": False}),
            ("gemini-2", {"audio": True, "tool_media": False, "later_system": False}),
            ("", {"audio": True, "later_system": False}),
        ),
    ),
    "groq": Preset("https://api.groq.com/openai/v1", _chat("groq"), ("GROQ_API_KEY",), "GROQ_BASE_URL"),
    "mistral": Preset("https://api.mistral.ai/v1", _chat("mistral"), ("MISTRAL_API_KEY",), "MISTRAL_BASE_URL"),
    "openrouter": Preset(
        "https://openrouter.ai/api/v1",
        _chat("openrouter"),
        ("OPENROUTER_API_KEY",),
        "OPENROUTER_BASE_URL",
        flags=(("openai/gpt-4o-audio", _HEARS), ("openai/gpt-audio", _HEARS), ("google/gemini-", _HEARS)),
    ),
    "ollama": Preset(
        "http://localhost:11434/v1",
        _chat("ollama"),
        ("OLLAMA_API_KEY",),
        "OLLAMA_BASE_URL",
        key_url="https://ollama.com",  # the local server ignores a key, so it is not shown one
        needs_key=False,
    ),
    "vllm": Preset("http://localhost:8000/v1", _chat("vllm"), ("VLLM_API_KEY",), "VLLM_BASE_URL", needs_key=False),
}


def model(
    name: str,
    *,
    base_url: str | None = None,
    key: Key = None,
    capabilities: Capabilities | None = None,
    headers: Mapping[str, str] | None = None,
    wire: Wire | None = None,
    allow: Collection[str] = (),
) -> Model:
    """The model of a name such as `openai:gpt-5`. Nothing is sent, and no key needed, before a request.

    The provider's own variable gives the key, for the provider's own address or
    the one that its base URL variable names. Another `base_url` gets no key but
    one that is passed here.

    Args:
        name: Provider and model. Any server that speaks Chat Completions is `openai-chat:NAME` with its `base_url`.
        base_url: Where to ask instead; with the path before `/chat/completions` and its like.
        key: The API key, or a function that gives it for each request.
        capabilities: What the model takes, in place of what is known of its name.
        headers: More headers for every request.
        wire: The API in place of the provider's usual one, for example with other options.
        allow: Hosts, addresses and networks that parts may be downloaded from although they are not public.

    Raises:
        UsageError: An unknown provider, a base URL that is none, or a header that cannot be sent.

    Since 0.1.
    """
    provider, colon, model_name = name.partition(":")
    if not colon or not model_name or provider not in PRESETS:
        raise UsageError(_unknown(name, provider, bool(colon)))
    preset = PRESETS[provider]
    configured = os.environ.get(preset.url)
    url = base_url or configured or preset.base_url
    homes = {origin_of(home) for home in (preset.key_url or preset.base_url, configured) if home}
    at_home = origin_of(url) in homes
    return WireModel(
        name,
        wire or _wire(*preset.wire),
        model_name,
        base_url=url,
        key=key if key is not None else (_key_of(preset) if at_home else None),
        capabilities=capabilities or _capabilities(preset, model_name),
        headers={**(_own_headers(preset) if at_home else {}), **(headers or {})},
        missing_key=_missing(preset) if key is not None or (at_home and preset.needs_key) else None,
        allow=allow,
    )


def _unknown(name: str, provider: str, colon: bool) -> str:
    """What to write instead of a name that is none."""
    if provider in PRESETS:
        return f"{provider!r} is a provider without a model. Write provider:model, for example 'openai:gpt-5'."
    close = difflib.get_close_matches(provider[:100].lower(), PRESETS, n=2, cutoff=0.5)
    if not colon:
        return f"the model {name[:100]!r} has no provider. Write provider:model, for example 'openai:gpt-5'."
    mend = f"Did you mean {' or '.join(close)}?" if close else f"Known are {', '.join(PRESETS)}."
    return f"unknown provider {provider[:100]!r}. {mend}"


@lru_cache(maxsize=32)
def _wire(module: str, factory: str, api: str | None = None) -> Wire:
    """A provider's wire, loaded on first use and shared by all its models."""
    loaded: Any = import_module(module)
    return getattr(loaded, factory)(loaded.DIALECTS[api]) if api else getattr(loaded, factory)()


def _capabilities(preset: Preset, model_name: str) -> Capabilities:
    bare = model_name.lower().removeprefix("models/")
    found = next((flags for start, flags in preset.flags if bare.startswith(start)), None)
    return Capabilities(**found) if found else Capabilities()


def _key_of(preset: Preset) -> Callable[[], str | None]:
    """Looks when a request is sent: a program may set its environment late, and keys change."""
    return lambda: next((value for name in preset.keys if (value := os.environ.get(name, "").strip())), None)


def _own_headers(preset: Preset) -> dict[str, str]:
    named = preset.headers or {}
    return {header: value for header, name in named.items() if (value := os.environ.get(name, "").strip())}


def _missing(preset: Preset) -> str:
    return f"there is no key. Set {' or '.join(preset.keys)}, or pass key="
