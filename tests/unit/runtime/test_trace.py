"""OpenTelemetry: spans, parents, attributes, errors and metrics of runs; and nothing at all without an SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from tests.clock import run

from ferrule import (
    Agent,
    Compaction,
    Limits,
    ModelError,
    Priced,
    Settings,
    ToolResult,
    UsageError,
    image,
    pending,
    tool,
)
from ferrule.message import ModelMessage, Usage, user
from ferrule.provider.base import ModelResponse
from ferrule.runtime.trace import tracing
from ferrule.testing import ScriptedModel, call

SECRET = "hunter2"


class Seen:
    """What an application's SDK was told."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {s.name: s for s in self.exporter.get_finished_spans()}

    @property
    def names(self) -> list[str]:
        return [s.name for s in self.exporter.get_finished_spans()]

    def parents(self) -> dict[str, str | None]:
        by_id = {s.context.span_id: s.name for s in self.exporter.get_finished_spans() if s.context}
        return {s.name: by_id.get(s.parent.span_id) if s.parent else None for s in self.exporter.get_finished_spans()}

    def points(self, metric: str) -> list[tuple[dict[str, Any], Any]]:
        data = self.reader.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return [(dict(p.attributes or {}), p) for m in found if m.name == metric for p in m.data.data_points]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    found = Seen()
    traces = TracerProvider(shutdown_on_exit=False)
    traces.add_span_processor(SimpleSpanProcessor(found.exporter))
    meters = MeterProvider([found.reader], shutdown_on_exit=False)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", traces)  # set_tracer_provider sets it once only
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", meters)
    yield found
    traces.shutdown()
    meters.shutdown()


@tool(effect="read")
async def look(at: int) -> str:
    """Look."""
    await asyncio.sleep(at)
    trace.get_current_span().set_attribute("seen.by", "look")
    return SECRET


@tool
def broken(why: str) -> str:
    """Raise, in a thread."""
    trace.get_current_span().set_attribute("seen.by", "broken")
    raise ValueError(why)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_run_its_requests_and_its_calls_are_spans_by_the_conventions(seen: Seen) -> None:
    usage = Usage(input=100, output=20, cached=50, reasoning=5)
    asked = ModelResponse(ModelMessage("", (call("look", '{"at": 0}', "w1"),)), "tool_calls", usage, "gpt-5-mini")
    done = ModelResponse(ModelMessage(SECRET), usage=Usage(input=10, output=1))
    model = Priced(ScriptedModel([asked, done], name="openai-chat:gpt-5"), input=1, output=1)
    settings = Settings(temperature=0.5, max_tokens=99, top_p=0.9, seed=3)
    result = run(Agent("desk", model, tools=[look], settings=settings, instructions=SECRET).run(SECRET))
    assert seen.names == ["chat gpt-5", "execute_tool look", "chat gpt-5", "invoke_agent desk"]
    assert seen.parents() == {
        "chat gpt-5": "invoke_agent desk",
        "execute_tool look": "invoke_agent desk",
        "invoke_agent desk": None,
    }
    first = seen.exporter.get_finished_spans()[0]
    assert first.kind is trace.SpanKind.CLIENT
    assert attributes(first) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.seed": 3,
        "gen_ai.response.model": "gpt-5-mini",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "ferrule.usage.cost": pytest.approx(0.00012),
    }
    assert attributes(seen.spans["execute_tool look"]) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "t1.0",
        "ferrule.tool.effect": "read",
        "seen.by": "look",
    }
    whole = seen.spans["invoke_agent desk"]
    assert whole.kind is trace.SpanKind.INTERNAL
    assert attributes(whole) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "desk",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "ferrule.run.id": result.run_id,
        "ferrule.run.status": "done",
        "gen_ai.usage.input_tokens": 110,
        "gen_ai.usage.output_tokens": 21,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "ferrule.usage.cost": pytest.approx(0.000131),
    }
    assert all(s.status.status_code is trace.StatusCode.UNSET for s in seen.exporter.get_finished_spans())


@pytest.mark.parametrize(
    ("name", "provider", "asked"),
    [
        ("openai:gpt-5", "openai", "gpt-5"),
        ("gemini:gemini-3", "gcp.gemini", "gemini-3"),
        ("mistral:large", "mistral_ai", "large"),
        ("ollama:llama3:8b", "ollama", "llama3:8b"),
        ("scripted", "scripted", "scripted"),
    ],
)
def test_providers_have_the_names_of_the_conventions(seen: Seen, name: str, provider: str, asked: str) -> None:
    run(Agent("a", ScriptedModel(["ok"], name=name)).run("go"))
    span = attributes(seen.spans[f"chat {asked}"])
    assert (span["gen_ai.provider.name"], span["gen_ai.request.model"]) == (provider, asked)


def test_tokens_and_durations_are_metrics(seen: Seen) -> None:
    answers = [
        ModelResponse(ModelMessage("", (call("look", '{"at": 0}'),)), "tool_calls", Usage(input=100, output=20)),
        ModelResponse(ModelMessage("ok"), usage=Usage(output=1)),
    ]
    run(Agent("a", ScriptedModel(answers, name="anthropic:x"), tools=[look]).run("go"))
    run(Agent("a", ScriptedModel([ModelError("no", provider="x", status=400)], name="anthropic:x")).run("go"))
    names = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "x",
    }
    tokens = {found["gen_ai.token.type"]: (found, point) for found, point in seen.points("gen_ai.client.token.usage")}
    assert tokens["input"][0] == {**names, "gen_ai.token.type": "input"}
    assert (tokens["input"][1].count, tokens["input"][1].sum) == (1, 100)
    assert (tokens["output"][1].count, tokens["output"][1].sum) == (2, 21)
    assert tokens["input"][1].explicit_bounds[:3] == (1, 4, 16)
    durations = seen.points("gen_ai.client.operation.duration")
    assert sorted((point.count, found.get("error.type")) for found, point in durations) == [(1, "400"), (2, None)]
    assert all(found.items() >= names.items() for found, _ in durations)
    assert durations[0][1].explicit_bounds[:2] == (0.01, 0.02)


@pytest.mark.parametrize(
    ("error", "kind", "requests"),
    [
        (ModelError(SECRET, provider="x", status=401), "401", 1),
        (ModelError(SECRET, provider="x", status=429, code="insufficient_quota"), "insufficient_quota", 1),
        (ModelError(SECRET, provider="x"), "ModelError", 1),
        (ModelError(SECRET, provider="x", status=500, retryable=True), "500", 3),
        (KeyError(SECRET), "KeyError", 1),
        (ModelResponse(ModelMessage(), "unknown"), "unknown", 1),
    ],
)
def test_a_request_that_failed_tells_what_kind_of_error_it_was(
    seen: Seen, error: Any, kind: str, requests: int
) -> None:
    run(Agent("a", ScriptedModel([error] * 3, name="x:y")).run("go"))
    spans = [s for s in seen.exporter.get_finished_spans() if s.name == "chat y"]
    assert len(spans) == requests
    for span in spans:
        assert attributes(span)["error.type"] == kind
        assert span.status.status_code is trace.StatusCode.ERROR
    whole = seen.spans["invoke_agent a"]
    assert whole.status.status_code is trace.StatusCode.ERROR
    assert attributes(whole)["ferrule.run.status"] == "failed"


def test_misuse_that_raises_ends_both_spans(seen: Seen) -> None:
    async def picky(request: Any) -> str:
        raise UsageError(SECRET)

    with pytest.raises(UsageError):
        run(Agent("a", picky).run("go"))
    assert [attributes(s)["error.type"] for s in seen.exporter.get_finished_spans()] == ["UsageError"] * 2


def test_a_call_that_failed_has_its_code_and_a_thread_its_span(seen: Seen) -> None:
    model = ScriptedModel([call("broken", '{"why": "hunter2"}'), call("broken", "{}"), call("nope"), "ok"])
    run(Agent("a", model, tools=[broken]).run("go"))
    spans = [s for s in seen.exporter.get_finished_spans() if s.name.startswith("execute_tool")]
    assert [attributes(s)["error.type"] for s in spans] == ["exception"]  # the others were not executed
    assert attributes(spans[0])["seen.by"] == "broken"
    assert seen.spans["invoke_agent a"].status.status_code is trace.StatusCode.UNSET


def test_no_payload_is_recorded_anywhere(seen: Seen) -> None:
    model = ScriptedModel(
        [
            [call("look", '{"at": 0}'), call("broken", '{"why": "hunter2"}')],
            ModelError(SECRET, provider="x"),
        ]
    )
    run(
        Agent("a", model, tools=[look, broken], instructions=SECRET).run(
            [SECRET, image(b"\x89PNG\r\n\x1a\n" + b"0" * 9)]
        )
    )
    assert len(seen.names) == 5
    for span in seen.exporter.get_finished_spans():
        assert SECRET not in span.to_json()
        assert not span.events


def test_parallel_calls_are_siblings_and_runs_inside_are_nested(seen: Seen) -> None:
    inner = Agent("inner", ScriptedModel([call("look", '{"at": 2}'), "ok"], name="x:i"), tools=[look])
    batch = [call("inner", '{"input": "x"}'), call("wait", '{"seconds": 3}'), call("wait", '{"seconds": 1}')]

    @tool(effect="read")
    async def wait(seconds: int) -> None:
        await asyncio.sleep(seconds)

    model = ScriptedModel([batch, "ok"], name="x:o")
    run(Agent("outer", model, tools=[inner.as_tool(), wait]).run("go"))
    assert seen.parents() == {
        "chat o": "invoke_agent outer",
        "execute_tool wait": "invoke_agent outer",
        "invoke_agent inner": "invoke_agent outer",
        "chat i": "invoke_agent inner",
        "execute_tool look": "invoke_agent inner",
        "invoke_agent outer": None,
    }
    ids = [attributes(s)["gen_ai.tool.call.id"] for s in seen.exporter.get_finished_spans() if "wait" in s.name]
    assert ids == ["t1.2", "t1.1"]


def test_a_span_of_the_application_is_the_parent_and_current_again_afterwards(seen: Seen) -> None:
    async def main() -> None:
        with trace.get_tracer("app", tracer_provider=trace.get_tracer_provider()).start_as_current_span("mine") as mine:
            await asyncio.gather(*(Agent("a", ScriptedModel(["ok"])).run("go") for _ in range(3)))
            assert trace.get_current_span() is mine
            await Agent("b", ScriptedModel(["ok"])).run("go")
            assert trace.get_current_span() is mine

    run(main())
    assert seen.names.count("invoke_agent a") == 3
    assert {seen.parents()["invoke_agent a"], seen.parents()["invoke_agent b"]} == {"mine"}


def test_a_stream_has_the_same_spans(seen: Seen) -> None:
    agent = Agent("a", ScriptedModel([call("look", '{"at": 0}'), "some words"], name="x:y"), tools=[look])

    async def main() -> None:
        async with agent.stream("go") as events:
            async for _ in events:
                pass

    run(main())
    assert seen.names == ["chat y", "execute_tool look", "chat y", "invoke_agent a"]


@pytest.mark.parametrize("how", ["cancel", "leave", "task"])
def test_a_run_that_is_cancelled_ends_its_spans(seen: Seen, how: str) -> None:
    agent = Agent("a", ScriptedModel([call("look", '{"at": 100}'), "never"]), tools=[look])

    async def main() -> None:
        if how == "task":
            task = asyncio.create_task(agent.run("go"))
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            return
        async with agent.stream("go") as events:
            async for event in events:
                if event.type == "tool_call":
                    await asyncio.sleep(1)
                    if how == "leave":
                        break
                    events.cancel()

    run(main())
    assert seen.names == ["chat scripted", "execute_tool look", "invoke_agent a"]
    kinds = [attributes(s).get("error.type") for s in seen.exporter.get_finished_spans()]
    assert kinds == [None, "CancelledError", "CancelledError" if how == "task" else "cancelled"]
    assert attributes(seen.exporter.get_finished_spans()[-1])["ferrule.run.status"] == "cancelled"


def test_a_body_that_does_not_end_does_not_hold_its_span(seen: Seen) -> None:
    ends = asyncio.Event()

    @tool(timeout=1, effect="read", retries=0)
    async def stubborn() -> None:
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                continue

    async def main() -> list[str]:
        await Agent("a", ScriptedModel([call("stubborn"), "ok"]), tools=[stubborn]).run("go")
        names = seen.names
        ends.set()
        await asyncio.sleep(1)
        return names

    assert run(main()) == ["chat scripted", "execute_tool stubborn", "chat scripted", "invoke_agent a"]
    assert seen.names.count("execute_tool stubborn") == 1
    assert attributes(seen.spans["execute_tool stubborn"])["error.type"] == "timeout"


def test_a_question_is_no_error(seen: Seen) -> None:
    @tool
    async def ask() -> ToolResult:
        return pending("question", "Sure?")

    result = run(Agent("a", ScriptedModel([call("ask")]), tools=[ask]).run("go"))
    assert result.status == "suspended"
    assert "error.type" not in attributes(seen.spans["execute_tool ask"])
    assert attributes(seen.spans["invoke_agent a"])["ferrule.run.status"] == "suspended"


def test_a_limit_is_named_and_no_error(seen: Seen) -> None:
    run(Agent("a", ScriptedModel([call("look", '{"at": 0}')]), tools=[look], limits=Limits(turns=1)).run("go"))
    found = attributes(seen.spans["invoke_agent a"])
    assert (found["ferrule.run.status"], found["ferrule.run.reason"]) == ("incomplete", "turns")
    assert "error.type" not in found


def test_a_summary_is_a_request_too(seen: Seen) -> None:
    short = ScriptedModel(["short"], name="x:short")
    agent = Agent("a", ScriptedModel(["ok"]), hooks=[Compaction(100, summary=short)])
    history = [m for i in range(9) for m in (user(f"{i}" * 99), ModelMessage("y" * 99))]
    run(agent.run("go", history=history))
    assert seen.parents()["chat short"] == "invoke_agent a"


def test_spans_that_nobody_samples_cost_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", traces)
    assert tracing() is not None
    assert run(Agent("a", ScriptedModel([call("look", '{"at": 0}'), "ok"]), tools=[look]).run("go")).status == "done"


@pytest.mark.parametrize("provider", [trace.NoOpTracerProvider(), trace.ProxyTracerProvider()])
def test_the_api_without_an_sdk_is_none(monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    assert tracing() is None


def test_either_of_the_two_providers_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", meters)
    assert run(Agent("a", ScriptedModel(["ok"])).run("go")).status == "done"
    data = reader.get_metrics_data()
    assert data is not None
    assert [m.name for m in data.resource_metrics[0].scope_metrics[0].metrics] == ["gen_ai.client.operation.duration"]


def test_what_is_decided_for_a_provider_is_kept(seen: Seen) -> None:
    assert tracing() is tracing()


def test_without_an_application_that_uses_it_nothing_of_opentelemetry_is_imported() -> None:
    code = """
import asyncio, sys
from ferrule import Agent, Compaction, tool
from ferrule.testing import ScriptedModel, call
@tool
async def f(): ...
asyncio.run(Agent("a", ScriptedModel([call("f"), "ok"]), tools=[f], hooks=[Compaction(9)]).run("go"))
print([m for m in sys.modules if m.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_sdk_that_is_set_up_after_the_import_is_found() -> None:
    code = """
import asyncio
from ferrule import Agent
from ferrule.testing import ScriptedModel
asyncio.run(Agent("before", ScriptedModel(["ok"])).run("go"))
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
trace.set_tracer_provider(provider)
asyncio.run(Agent("after", ScriptedModel(["ok"])).run("go"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "chat scripted\ninvoke_agent after\n"
