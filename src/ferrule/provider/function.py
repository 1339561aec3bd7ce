"""A model that is a function: for tests, for rules, for a provider of your own."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ferrule.errors import UsageError
from ferrule.lazy import LazyModule
from ferrule.message import Call, ModelMessage
from ferrule.provider.base import Capabilities, Delta, Model, ModelRequest, ModelResponse
from ferrule.tool.schema.arguments import as_text

if TYPE_CHECKING:
    from ferrule.provider import presets
else:
    presets = LazyModule("ferrule.provider.presets")

Models: TypeAlias = str | Model | Callable[..., Any]


class FunctionModel:
    """A function of the request, sync or async, as a model.

    Args:
        function: Takes a `ModelRequest` and returns text, a `Call` or a list of them, a `ModelMessage`, or a
            `ModelResponse`.
        name: How it is named; default the function's name.
        capabilities: What it takes.

    Since 0.1.
    """

    def __init__(
        self, function: Callable[[ModelRequest], Any], name: str = "", capabilities: Capabilities | None = None
    ) -> None:
        """Keep the function."""
        self._function = function
        self._name = name or f"function:{getattr(function, '__name__', type(function).__name__)}"
        self._capabilities = capabilities or Capabilities()

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What it takes."""
        return self._capabilities

    async def generate(self, request: ModelRequest) -> ModelResponse:
        """What the function returns, as a response.

        Args:
            request: The question.

        Raises:
            UsageError: The function returned something that is no answer.
        """
        found: Any = self._function(request)
        if inspect.isawaitable(found):
            found = await found
        return found if type(found) is ModelResponse else as_response(found, self._name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """The same in pieces: its text at once, then the whole.

        Args:
            request: The question.
        """
        response = await self.generate(request)
        if response.message.text:
            yield Delta("text", response.message.text)
        yield response

    def explain(self, request: ModelRequest) -> dict[str, Any]:
        """What the function would be given, in short.

        Args:
            request: The question.
        """
        return {"instructions": request.instructions, "messages": len(request.messages), "tools": request.tools.names}


def as_model(given: Models) -> Model:
    """A model from what users give for one.

    Args:
        given: A name like `openai:gpt-5`, a `Model`, or an async function of a request.

    Raises:
        UsageError: It is none of these, or no provider has that name.

    Since 0.1.
    """
    if isinstance(given, str):
        return presets.model(given)
    if isinstance(given, Model):
        return given
    if callable(given):
        return FunctionModel(given)
    raise UsageError(
        f"{type(given).__name__} is no model. Give a name like 'openai:gpt-5', a Model or an async function."
    )


def call(name: str, arguments: str | Mapping[str, Any] = "{}", wire_id: str | None = None) -> Call:
    """A call for a `FunctionModel` or a `ScriptedModel` to ask for.

    Args:
        name: The tool's name.
        arguments: JSON text, or a mapping that is written as such.
        wire_id: The id that a provider would have given it.

    Since 0.1.
    """
    text = arguments if isinstance(arguments, str) else as_text(arguments)
    return Call("", name, text if isinstance(text, str) else text.decode(), wire_id)


def as_response(found: Any, name: str) -> ModelResponse:
    """What somebody wrote for an answer, as a response.

    Args:
        found: Text, a `Call` or a list of them, a `ModelMessage` or a `ModelResponse`.
        name: The model's name.

    Raises:
        UsageError: It is none of these.

    Since 0.1.
    """
    if isinstance(found, ModelResponse):
        return found
    if isinstance(found, str):
        found = ModelMessage(found)
    elif isinstance(found, Call):
        found = ModelMessage(calls=(found,))
    elif _are_calls(found):
        found = ModelMessage(calls=tuple(cast("list[Call]", found)))
    if not isinstance(found, ModelMessage):
        raise UsageError(f"model {name!r} answered with {type(found).__name__}. Return text, calls or a ModelResponse.")
    return ModelResponse(found, "tool_calls" if found.calls else "stop", model=name)


def _are_calls(found: Any) -> bool:
    return isinstance(found, list | tuple) and all(isinstance(c, Call) for c in cast("list[object]", found))
