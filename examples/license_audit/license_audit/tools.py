"""The audit as ferrule tools: thin, each hands on to a module that knows nothing of ferrule."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ferrule import Context, Part, ToolResult, image, tool
from license_audit import report
from license_audit.chart import Bar, bar_chart
from license_audit.conflicts import Conflict, find_unmet
from license_audit.inventory import take_inventory
from license_audit.policy import Policy, Verdict

ALLOWED = Path(__file__).resolve().parents[1] / "allowed.toml"


@cache
def policy() -> Policy:
    """The allow-list, read once."""
    return Policy.load(ALLOWED)


@tool(effect="read")
def list_distributions(environment: Path | None = None) -> ToolResult:
    """List the distributions installed in a Python environment, with their licences.

    Args:
        environment: The environment's site-packages folder; by default the running interpreter's environment.
    """
    inventory = take_inventory(environment)
    lines = [f"{d.name} {d.version}: {d.license or 'no licence found'}" for d in inventory.distributions]
    problems = [f"Problem: {problem}" for problem in inventory.problems]
    # Code gets every field, the model one line for each distribution.
    return ToolResult.ok(inventory, output="\n".join([*lines, *problems]))


@tool(effect="read")
def classify_license(expression: str, distribution: str = "") -> Verdict:
    """Say whether a licence is allowed, denied or unknown, and why.

    Args:
        expression: An SPDX expression like "MIT OR Apache-2.0"; empty when the metadata name no licence.
        distribution: Whose licence it is; decisions about single distributions are then respected.
    """
    return policy().classify(expression, distribution)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the allow-list says about a whole environment."""

    environment: str
    distributions: int
    allowed: int
    unknown: list[Verdict]
    """A person must look at these."""
    denied: list[Verdict]


@tool(effect="read")
def judge_environment(environment: Path | None = None) -> Judgement:
    """Judge the licence of every installed distribution: how many are allowed, and which are unknown or denied.

    Args:
        environment: The environment's site-packages folder; by default the running interpreter's environment.
    """
    inventory = take_inventory(environment)
    verdicts = [policy().classify(d.license, d.name) for d in inventory.distributions]
    unknown, denied = ([v for v in verdicts if v.verdict == name] for name in ("unknown", "denied"))
    allowed = len(verdicts) - len(unknown) - len(denied)
    return Judgement(inventory.environment, len(verdicts), allowed, unknown, denied)


@tool(effect="read")
def find_conflicts(environment: Path | None = None) -> list[Conflict]:
    """Find requirements that an environment does not meet: missing distributions and wrong versions.

    Args:
        environment: The environment's site-packages folder; by default the running interpreter's environment.
    """
    return find_unmet(take_inventory(environment).distributions)


@tool(effect="read")
def license_chart(verdicts: list[Verdict] | None = None, title: str = "Licences") -> Part:
    """Draw a bar chart of the number of distributions under each licence, coloured by verdict.

    Args:
        verdicts: What to count; by default all distributions of the running interpreter's environment are classified.
        title: The heading of the chart.
    """
    if verdicts is None:
        verdicts = [policy().classify(d.license, d.name) for d in take_inventory().distributions]
    counts = Counter((v.expression, v.verdict) for v in verdicts)
    bars = [Bar(expression or "none found", count, verdict) for (expression, verdict), count in counts.items()]
    return image(bar_chart(title, bars), name="licenses.png")


@dataclass(frozen=True, slots=True)
class Written:
    """A report on the disk."""

    path: Path
    sha256: str
    edited: bool = False
    """Somebody has changed the file since."""


def preview_report(ctx: Context[Any], arguments: dict[str, Any]) -> ToolResult:
    """Show what `write_report` would do to the file, and touch nothing."""
    path, text = arguments["path"], arguments["text"]
    saved = report.read_saved(path)
    if refusal := _refusal(path, saved):
        return refusal
    old = saved.text if saved else ""
    changes = list(difflib.unified_diff(old.splitlines(), text.splitlines(), "now", "then", lineterm="", n=1))
    title = f"{'Replaces' if saved else 'Creates'} {path}"
    return ToolResult.ok(output="\n".join([title, *changes] if changes else [f"{title} by the same text"]))


def report_written(ctx: Context[Any], arguments: dict[str, Any]) -> ToolResult | None:
    """Tell from the file whether this very call of `write_report` has written it."""
    saved = report.read_saved(arguments["path"])
    if saved is None or saved.call != ctx.effect_key:
        return None
    return ToolResult.ok(Written(arguments["path"], saved.sha256, saved.edited))


@tool(effect="once", approval=True, preview=preview_report, check=report_written)
def write_report(path: Path, text: str, ctx: Context[Any]) -> Written | ToolResult:
    """Write a report file, whole or not at all. It replaces an earlier report, never another file.

    Args:
        path: Where to write it; missing folders are made.
        text: The report as Markdown.
    """
    if refusal := _refusal(path, report.read_saved(path)):
        return refusal
    return Written(path, report.write_stamped(path, text, ctx.effect_key).sha256)


def _refusal(path: Path, saved: report.Saved | None) -> ToolResult | None:
    if saved is None or saved.call:
        return None
    return ToolResult.failed(f"{path} exists and is no report of ours. Name another file.")
