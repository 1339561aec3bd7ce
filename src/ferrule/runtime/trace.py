"""Spans and metrics by OpenTelemetry's conventions for generative AI, when an application has set up an SDK.

An application that has imported OpenTelemetry, and nobody else, can have set
one up. So nothing of it is imported here before, and without one a run costs
one look into a dict. No prompt, argument, result or error text is recorded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ferrule.errors import ModelError
from ferrule.lazy import LazyModule
from ferrule.message import Usage
from ferrule.provider.base import Model, ModelRequest, ModelResponse
from ferrule.result import ToolResult

if TYPE_CHECKING:
    from opentelemetry import metrics, trace
    from opentelemetry.trace import Span

    from ferrule.runtime.driver import Driver
    from ferrule.runtime.outcome import RunResult
    from ferrule.tool.tool import Tool
else:
    metrics = LazyModule("opentelemetry.metrics")
    trace = LazyModule("opentelemetry.trace")

GiveUp = Callable[[ToolResult], None]

# Our names of providers, where the convention has others; all others are their own.
_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "openai-chat": "openai"}
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4.0**n for n in range(14))


class Tracing:
    """What runs tell OpenTelemetry.

    Args:
        tracer_provider: The application's; None while it has none.
        meter_provider: The same.

    Since 0.1.
    """

    def __init__(self, tracer_provider: Any, meter_provider: Any) -> None:
        """Make the instruments once."""
        self.made_for = (tracer_provider, meter_provider)
        self._tracer = trace.get_tracer("ferrule", tracer_provider=tracer_provider)
        meter = metrics.get_meter("ferrule", meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )

    async def run(self, run: Driver, work: Awaitable[RunResult[Any]]) -> RunResult[Any]:
        """A run in a span `invoke_agent`; runs inside it become its children.

        Args:
            run: The run.
            work: What drives it.
        """
        name = run.definition.name
        about = {"gen_ai.agent.name": name, "ferrule.run.id": run.journal.run_id}
        for model in getattr(run.definition, "models", ())[:1]:
            about |= _names(model)
        with self._span("invoke_agent", name, about) as span:
            try:
                result = await work
            finally:
                ended = run.result  # one that was cancelled from outside has ended, and raises
                if ended is not None:
                    span.set_attributes({"ferrule.run.status": ended.status, **_consumed(ended.usage)})
                    span.set_attributes({} if ended.reason is None else {"ferrule.run.reason": ended.reason})
            if result.status in ("failed", "cancelled", "blocked"):
                _failed(span, _type_of(result.error) if isinstance(result.error, Exception) else result.status)
        return result

    async def chat(self, model: Model, request: ModelRequest, work: Awaitable[ModelResponse]) -> ModelResponse:
        """One request to a model in a span `chat`, and in the metrics.

        Args:
            model: The model.
            request: The request.
            work: What asks it.
        """
        names, asked, began = _names(model), request.settings, time.perf_counter()
        wanted = {
            "gen_ai.request.temperature": asked.temperature,
            "gen_ai.request.top_p": asked.top_p,
            "gen_ai.request.seed": asked.seed,
            "gen_ai.request.max_tokens": asked.max_tokens,
            "gen_ai.output.type": None if request.output is None else "json",
        }
        known = {key: value for key, value in wanted.items() if value is not None}
        ended: dict[str, Any] = {"gen_ai.operation.name": "chat", **names}
        try:
            with self._span("chat", names["gen_ai.request.model"], {**names, **known}, client=True) as span:
                try:
                    response = await work
                except BaseException as error:
                    ended["error.type"] = _type_of(error)
                    raise
                ended |= {"gen_ai.response.model": response.model} if response.model else {}
                if response.finish in ("error", "unknown"):
                    ended["error.type"] = _type_of(response.error) if response.error is not None else response.finish
                    _failed(span, ended["error.type"])
                usage = response.usage or Usage()
                span.set_attributes({**ended, "gen_ai.response.finish_reasons": (response.finish,), **_consumed(usage)})
        finally:
            self._duration.record(time.perf_counter() - began, ended)
        ended.pop("error.type", None)
        for kind, tokens in (("input", usage.input), ("output", usage.output)):
            if tokens is not None:
                self._tokens.record(tokens, {**ended, "gen_ai.token.type": kind})
        return response

    async def tool(
        self,
        tool: Tool,
        call_id: str,
        work: Callable[..., Awaitable[ToolResult]],
        give_up: GiveUp | None,
    ) -> ToolResult:
        """One attempt of a call in a span `execute_tool`; it ends when the run goes on without the body.

        Args:
            tool: The tool.
            call_id: Our id of the call.
            work: What executes it, with `give_up`.
            give_up: Takes the result of a body that does not end.
        """
        about = {
            "gen_ai.tool.name": tool.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
            "ferrule.tool.effect": tool.effect,
        }
        with self._span("execute_tool", tool.name, about) as span:

            def given_up(result: ToolResult) -> None:
                _settled(span, result)
                span.end()
                if give_up is not None:
                    give_up(result)

            result = await work(give_up=None if give_up is None else given_up)
            _settled(span, result)
        return result

    @contextmanager
    def _span(self, operation: str, name: str, about: dict[str, Any], *, client: bool = False) -> Generator[Span]:
        """A span that is the current one; what is raised ends it with its type, never its text."""
        kind = trace.SpanKind.CLIENT if client else trace.SpanKind.INTERNAL
        span = self._tracer.start_span(
            f"{operation} {name}", kind=kind, attributes={"gen_ai.operation.name": operation, **about}
        )
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except BaseException as error:
                _failed(span, _type_of(error))
                raise
            finally:
                if span.is_recording():  # not ended already, when the run went on without it
                    span.end()


_tracing: Tracing | None = None


def tracing() -> Tracing | None:
    """What runs tell OpenTelemetry; None when no SDK is set up.

    Since 0.1.
    """
    tracer = trace.get_tracer_provider() if "opentelemetry.trace" in sys.modules else None
    meter = metrics.get_meter_provider() if "opentelemetry.metrics" in sys.modules else None
    if not _is_real(tracer) and not _is_real(meter):
        return None
    global _tracing
    if _tracing is None or _tracing.made_for != (tracer, meter):
        _tracing = Tracing(tracer, meter)
    return _tracing


def _is_real(provider: Any) -> bool:
    """Whether an application has put a provider in place of the one that does nothing."""
    return provider is not None and not type(provider).__module__.startswith(
        ("opentelemetry.trace", "opentelemetry.metrics")
    )


def _names(model: Model) -> dict[str, str]:
    provider, _, name = model.name.partition(":")
    return {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.request.model": name or provider}


def _consumed(usage: Usage) -> dict[str, Any]:
    known = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        "ferrule.usage.cost": usage.cost,
    }
    return {key: value for key, value in known.items() if value is not None}


def _settled(span: Span, result: ToolResult) -> None:
    if result.is_error and result.pending is None:
        _failed(span, result.failure.code if result.failure is not None else "refused")


def _failed(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(trace.StatusCode.ERROR)


def _type_of(error: BaseException | None) -> str:
    """A word for an error that is one of few and says nothing about anybody."""
    if isinstance(error, ModelError):
        return error.code or (str(error.status) if error.status else "ModelError")
    return type(error).__name__
