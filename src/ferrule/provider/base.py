"""What a model is to ferrule: a request goes in, a response comes out, whole or in pieces.

Real providers, scripted models and plain async functions all stand behind
`Model`. An adapter is a `Wire`: pure functions between our terms and one API's
JSON. It sends nothing and waits for nothing, so every byte of it can be tested.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast, get_args, runtime_checkable

from ferrule.errors import ModelError, UsageError
from ferrule.message import Finish, Message, ModelMessage, Usage
from ferrule.strict_json import Codec, kind_of, made_of_fields, register
from ferrule.tool.toolset import Toolset

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str | Sequence[str]
NO_TOOLS: Final = Toolset()


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is asked; None leaves the provider's default.

    Args:
        temperature: Randomness, where the model takes it.
        top_p: Nucleus sampling, where the model takes it.
        seed: For repeatable sampling, where the model takes it.
        stop: Texts at which the answer ends.
        max_tokens: Most output tokens of one answer.
        reasoning: How hard to think.
        tool_choice: `auto`, `none`, `required`, the name of a tool that must be called, or names of some, one of which
            must be.
        parallel_calls: Whether the model may ask for several calls at once.
        download: Whether the URL of every part is read here, through the guard of addresses, and its bytes are sent;
            else a provider reads those itself that it can.
        timeout: Seconds until a whole answer is given up; of a stream, until its first event, and between two events.
        extra: More keys for the request body, as the provider spells them; they win. An object is merged with ours,
            key by key and at any depth, unless it names another `type`; a list or any other value replaces ours.
        headers: More HTTP headers.

    Raises:
        UsageError: A value that no provider could take.

    Since 0.1.
    """

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    reasoning: Effort | None = None
    tool_choice: ToolChoice | None = None
    parallel_calls: bool | None = None
    download: bool = False
    timeout: float = 600.0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Check what is not left to the provider."""
        for name, (fits, what) in _FITTING.items():
            given = getattr(self, name)
            if given is not None and not fits(given):
                shown = given if isinstance(given, int | float) else kind_of(given)
                raise UsageError(f"the setting {name} must be {what}, not {shown}.")


def _is_number(given: Any, kind: Any = (int, float)) -> bool:
    return isinstance(given, kind) and not isinstance(given, bool) and given == given  # NaN is not


def _are_texts(given: Any) -> bool:
    return isinstance(given, tuple | list) and all(isinstance(g, str) for g in cast("list[Any]", given))


_FITTING: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "temperature": (_is_number, "a number"),
    "top_p": (_is_number, "a number"),
    "seed": (lambda given: _is_number(given, int), "a whole number"),
    "stop": (_are_texts, "a tuple of texts"),
    "max_tokens": (lambda given: _is_number(given, int) and given >= 0, "a whole number of at least 0"),
    "reasoning": (lambda given: given in get_args(Effort), f"one of {', '.join(get_args(Effort))}"),
    "tool_choice": (lambda given: isinstance(given, str) or _are_texts(given), "a text or a tuple of texts"),
    "timeout": (lambda given: _is_number(given) and given > 0, "seconds, more than 0"),
    "extra": (lambda given: isinstance(given, Mapping), "a mapping"),
    "headers": (lambda given: isinstance(given, Mapping), "a mapping"),
}
SETTINGS: Final = Settings()
TAIL: Final = 0.5  # seconds that a server may take to end a body that has said all, so that the connection is kept
NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON that an answer must be.

    Args:
        name: A short name, letters, digits, `_` and `-`.
        schema: JSON Schema, an object at its root.
        strict: Whether the provider is asked to enforce it.

    Since 0.1.
    """

    name: str
    schema: Mapping[str, Any]
    strict: bool = True


class ModelRequest(NamedTuple):
    """One question to a model.

    Args:
        messages: The transcript.
        instructions: The system text.
        tools: The tools the model may call, under the names of this set.
        settings: How it is asked.
        output: What JSON the answer must be, if any.

    Since 0.1.
    """

    messages: Sequence[Message]
    instructions: str = ""
    tools: Toolset = NO_TOOLS
    settings: Settings = SETTINGS
    output: OutputSchema | None = None

    def but(self, **changes: Any) -> ModelRequest:
        """The same question with other fields.

        Args:
            changes: Fields by name.
        """
        return self._replace(**changes)


class Sent(NamedTuple):
    """How one part travelled.

    Args:
        kind: `image`, `file` or `audio`.
        way: `native`, `relocated` or `placeholder`.
        call_id: The call whose result it belongs to; None for a part of the caller's.

    Since 0.1.
    """

    kind: str
    way: Literal["native", "relocated", "placeholder"]
    call_id: str | None = None


class ModelResponse(NamedTuple):
    """One answer of a model.

    Args:
        message: What it said. Calls have no id of ours yet.
        finish: Why it ended, one of a closed set.
        usage: What it consumed, as far as the provider said.
        model: The model that answered, as the provider names it.
        request_id: The provider's id of the request.
        error: Why the answer cannot be used, with `finish` `error` or `unknown`.
        flagged: Whether it is odd though well-formed: nothing said, or calls announced and none there.
        mended: Answers that the provider itself refused, by position of the call: what the model is told instead.
        paused: Whether the provider stopped half-way, and goes on when it is sent the transcript with this message
            last. The agent loop does so a few times; for whoever does not, `finish` says `unknown` or `length`.

    Since 0.1.
    """

    message: ModelMessage
    finish: Finish = "stop"
    usage: Usage | None = None
    model: str = ""
    request_id: str | None = None
    error: ModelError | None = None
    flagged: bool = False
    mended: Mapping[int, str] = NOTHING
    paused: bool = False

    def but(self, **changes: Any) -> ModelResponse:
        """The same answer with other fields.

        Args:
            changes: Fields by name.
        """
        return self._replace(**changes)


class Delta(NamedTuple):
    """A piece of an answer that is still coming.

    Args:
        kind: `text`, `reasoning`, or `call` when a call's name is known.
        text: The piece; of a call its name.

    Since 0.1.
    """

    kind: Literal["text", "reasoning", "call"]
    text: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model takes, where models of one API differ.

    Args:
        images: Images from the user.
        pdf: PDF files.
        audio: Audio.
        tool_media: Media inside tool results, where the API has a place for them.
        sampling: Temperature and its like.
        strict_tools: Whether tool schemas are sent for strict enforcement.
        later_system: System text in the middle of a transcript; else it is told like what a user says.
        streaming: Answers in pieces.
        reasoning: Settings about reasoning; a model that does not reason may refuse them.

    Since 0.1.
    """

    images: bool = True
    pdf: bool = True
    audio: bool = False
    tool_media: bool = True
    sampling: bool = True
    strict_tools: bool = False
    later_system: bool = True
    streaming: bool = True
    reasoning: bool = True


@runtime_checkable
class Model(Protocol):
    """Something that answers requests.

    Since 0.1.
    """

    @property
    def name(self) -> str:
        """How people and records name it, for example `openai:gpt-5`."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it takes."""
        ...

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """The answer, whole.

        Args:
            request: The question.

        Raises:
            ModelError: There is none.
            UnsupportedPartError: The caller attached a part that cannot travel.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """The answer in pieces, and last of all the whole.

        Args:
            request: The question.

        Raises:
            ModelError: There is none. A stream that was cut, or failed after it had begun to say something, ends with a
                response of finish `unknown` or `error` instead.
            UnsupportedPartError: The caller attached a part that cannot travel.
        """
        ...

    def explain(self, request: ModelRequest) -> dict[str, Any]:
        """The exact JSON that would be sent; sends nothing.

        Args:
            request: The question.

        Raises:
            UnsupportedPartError: The caller attached a part that cannot travel.
        """
        ...


class Decoder(ABC):
    """Puts a streamed answer together.

    Since 0.1.
    """

    tail: float | None = None
    """Seconds without an event after which the answer has ended, though its body has not; None while more must come."""

    @abstractmethod
    def feed(self, event: str, data: Any) -> Iterable[Delta]:
        """Take one event.

        Args:
            event: Its name; `message` when the stream names none.
            data: Its JSON, parsed; None for the word `[DONE]`.

        Returns:
            The pieces in it, often none or one.

        Raises:
            ModelError: The provider reported an error inside the stream.
        """

    @abstractmethod
    def finish(self) -> ModelResponse:
        """The whole answer, once the body has ended.

        Returns:
            Without the API's own sign of the end: finish `unknown`, the error `cut`, calls not complete.
        """


def cut(provider: str) -> ModelError:
    """The error of an answer without the sign of its end; what came of it is kept, and no call in it may run.

    Args:
        provider: Name of the provider.

    Since 0.1.
    """
    return ModelError("the answer was cut before its end. Ask again", provider=provider, retryable=True)


class Wire(ABC):
    """One API: our terms to its JSON and back. Pure, and shared by all models of the API.

    Since 0.1.
    """

    api: str
    """Name of the API and its dialect, the key of the capability table and of `Raw.api`."""

    @abstractmethod
    def path(self, model: str, *, stream: bool) -> str:
        """The path below the base URL.

        Args:
            model: The model's name.
            stream: Whether the answer comes in pieces.
        """

    @abstractmethod
    def headers(self, key: str | None) -> dict[str, str]:
        """The headers that carry key and version.

        Args:
            key: The API key, if there is one.
        """

    @abstractmethod
    def body(self, request: ModelRequest, model: str, capabilities: Capabilities, *, stream: bool) -> Body:
        """The request body.

        Args:
            request: The question.
            model: The model's name.
            capabilities: What the model takes.
            stream: Whether the answer comes in pieces.

        Raises:
            UnsupportedPartError: The caller attached a part that cannot travel.
            UsageError: The transcript breaks the rule of calls and results.
        """

    @abstractmethod
    def response(self, data: Any, model: str) -> ModelResponse:
        """The answer in a response body.

        Args:
            data: Its JSON, parsed.
            model: The model that was asked.

        Raises:
            ModelError: It is no answer.
        """

    @abstractmethod
    def decoder(self, model: str) -> Decoder:
        """A fresh decoder for one stream.

        Args:
            model: The model that was asked.
        """

    @abstractmethod
    def error(self, status: int, headers: Mapping[str, str], data: Any) -> ModelError | ModelResponse:
        """What a refusal means.

        Args:
            status: The HTTP status.
            headers: The response headers, in lower case.
            data: The body: JSON if it is any, else text, at most its first 2,000 characters.

        Returns:
            The error; or an answer, where a provider refuses what its own model said (`tool_use_failed`).
        """


class Body(NamedTuple):
    """A request body, and how each part travels in it.

    Args:
        json: The bytes to send.
        sent: One entry for each media part of the transcript, in order.

    Since 0.1.
    """

    json: bytes
    sent: tuple[Sent, ...] = ()


# -- the journal's form -----------------------------------------------------------------------------------------


_DEFAULTS: Final = ModelResponse(ModelMessage(), "")[1:]  # pyright: ignore[reportArgumentType] - a finish is always told


def _fields_of(response: ModelResponse) -> dict[str, Any]:
    told: dict[str, Any] = {"message": response.message}
    for name, value, default in zip(ModelResponse._fields[1:], response[1:], _DEFAULTS, strict=True):
        if value is not default and value != default:
            told[name] = value
    if "mended" in told:
        told["mended"] = dict(response.mended)
    return told


_ERROR = ("reason", "provider", "status", "code", "request_id", "retryable", "retry_after")


def _error_of(error: ModelError) -> dict[str, Any]:
    return {name: found for name in _ERROR if (found := getattr(error, name)) is not None}


def _error_from(found: dict[str, Any]) -> ModelError:
    return ModelError(found.pop("reason"), provider=found.pop("provider"), **found)


register(ModelResponse, Codec("$response", _fields_of, _fields_of, made_of_fields(ModelResponse)))
register(ModelError, Codec("$model_error", _error_of, _error_of, _error_from))
