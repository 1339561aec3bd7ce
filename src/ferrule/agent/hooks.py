"""Hooks: code of the application that looks at each step of a run, and may change it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ferrule.message import Call
from ferrule.provider.base import ModelRequest, ModelResponse
from ferrule.result import ToolResult
from ferrule.runtime.event import Event
from ferrule.runtime.info import RunInfo
from ferrule.tool.tool import Tool


class Hooks:
    """Override what is needed; each method may be sync or async, and None changes nothing.

    Several hooks are composed in order: each sees what the one before returned;
    the first that answers a call ends the questions. They run live only: what
    they returned is recorded, and used again in a replay.

    A hook that raises never passes silently: before or after a model call that
    model has failed (one that stands in is asked, or the run fails), before a
    tool it denies the call, after a tool it takes the result's place with a
    failure, and `on_event` is logged.

    Since 0.1.
    """

    def before_model(self, run: RunInfo[Any], request: ModelRequest) -> Any:
        """Look at a request before it is sent.

        Args:
            run: The run.
            request: The request.

        Returns:
            Another `ModelRequest`, or None. Other messages become the transcript that the run goes on from. Tools that
            it takes out cannot be called in this turn.
        """

    def after_model(self, run: RunInfo[Any], request: ModelRequest, response: ModelResponse) -> Any:
        """Look at an answer before the run acts on it.

        Args:
            run: The run.
            request: What was sent.
            response: What came back.

        Returns:
            Another `ModelResponse`, or None.
        """

    def before_tool(self, run: RunInfo[Any], call: Call, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """Look at a call before it is approved and made.

        Args:
            run: The run.
            call: The call.
            tool: The tool.
            arguments: Checked arguments by name, a copy.

        Returns:
            None; a dict of other arguments, which are checked again; or a ToolResult, done or failed: the call is not
            made then.
        """

    def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> Any:
        """Look at a result before anybody sees it.

        Args:
            run: The run.
            call: The call.
            result: Its result.

        Returns:
            Another ToolResult, or None.
        """

    def on_event(self, event: Event) -> None:
        """Hear of what happens; called at once, so it must be quick.

        Args:
            event: What happened.
        """


class Instructions(Hooks):
    """Instructions that are made anew for each request.

    Args:
        make: From the run to the text, or None for none; sync or async.

    Since 0.1.
    """

    def __init__(self, make: Callable[[RunInfo[Any]], Any]) -> None:
        """Keep the function."""
        self._make = make

    async def before_model(self, run: RunInfo[Any], request: ModelRequest) -> ModelRequest:
        """Put the instructions in.

        Args:
            run: The run.
            request: The request.
        """
        made = self._make(run)
        made = await made if inspect.isawaitable(made) else made
        return request.but(instructions="" if made is None else str(made))


def _overridden(hooks: Iterable[Hooks], name: str) -> tuple[Callable[..., Any], ...]:
    return tuple(getattr(h, name) for h in hooks if getattr(type(h), name) is not getattr(Hooks, name))


class Chain:
    """Several hooks as one.

    Args:
        hooks: In order.

    Since 0.1.
    """

    def __init__(self, hooks: Iterable[Hooks]) -> None:
        """Find out who overrides what, so that a step nobody looks at costs nothing."""
        given = tuple(hooks)
        self._before_model = _overridden(given, "before_model")
        self._after_model = _overridden(given, "after_model")
        self._before_tool = _overridden(given, "before_tool")
        self._after_tool = _overridden(given, "after_tool")
        self.listeners = _overridden(given, "on_event")
        self.watches_models = bool(self._before_model or self._after_model)
        self.watches_tools = bool(self._before_tool or self._after_tool)

    async def before_model(self, run: RunInfo[Any], request: ModelRequest) -> ModelRequest:
        """The request to send.

        Args:
            run: The run.
            request: The machine's.
        """
        for hook in self._before_model:
            request = await _asked(ModelRequest, hook, run, request) or request
        return request

    async def after_model(self, run: RunInfo[Any], request: ModelRequest, response: ModelResponse) -> ModelResponse:
        """The response to go on with.

        Args:
            run: The run.
            request: What was sent.
            response: The model's.
        """
        for hook in self._after_model:
            response = await _asked(ModelResponse, hook, run, request, response) or response
        return response

    async def before_tool(self, run: RunInfo[Any], call: Call, tool: Tool, arguments: dict[str, Any]) -> Any:
        """None, other arguments, or the result of a call that is not made.

        Args:
            run: The run.
            call: The call.
            tool: The tool.
            arguments: Checked arguments by name.
        """
        changed: dict[str, Any] | None = None
        for hook in self._before_tool:
            found = await _asked((ToolResult, Mapping), hook, run, call, tool, arguments)
            if isinstance(found, ToolResult):
                return found
            if found is not None:
                changed = arguments = dict(found)
        return changed

    async def after_tool(self, run: RunInfo[Any], call: Call, result: ToolResult) -> ToolResult:
        """The result to go on with.

        Args:
            run: The run.
            call: The call.
            result: The tool's.
        """
        for hook in self._after_tool:
            result = await _asked(ToolResult, hook, run, call, result) or result
        return result


async def _asked(kinds: Any, hook: Callable[..., Any], *arguments: Any) -> Any:
    found = hook(*arguments)
    found = await found if inspect.isawaitable(found) else found
    if found is not None and not isinstance(found, kinds):
        raise TypeError(f"{hook.__name__} returned {type(found).__name__}")
    return found
