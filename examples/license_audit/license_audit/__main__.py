"""The main job: audit an environment, call by call, say what each call did, and ask an agent about it."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import platform
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from ferrule import Context, Event, ToolResult
from license_audit import report
from license_audit.agent import CONVERSATION, make_auditor
from license_audit.conflicts import Conflict
from license_audit.inventory import Inventory
from license_audit.policy import CLASSES, Verdict
from license_audit.tools import classify_license, find_conflicts, license_chart, list_distributions, write_report

FOLDER = Path("license-audit")


async def audit(environment: Path | None) -> list[ToolResult]:
    """Make every call of an audit; the report and the chart land in `FOLDER`."""
    where = {"environment": environment}

    listed = await list_distributions.call(where)
    inventory: Inventory = value_of("list_distributions", listed)
    say("list_distributions", listed.status, f"{len(inventory.distributions)} installed in {inventory.environment}")
    say_more(inventory.problems)

    classified = await asyncio.gather(
        *(classify_license.call({"expression": d.license, "distribution": d.name}) for d in inventory.distributions)
    )
    verdicts: list[Verdict] = [value_of("classify_license", result) for result in classified]
    say("classify_license", "done", f"{len(classified)} calls, side by side")
    say_more(summary(verdicts))

    compared = await find_conflicts.call(where)
    conflicts: list[Conflict] = value_of("find_conflicts", compared)
    say("find_conflicts", compared.status, f"{len(conflicts)} found" if conflicts else "every requirement is met")
    say_more([str(conflict) for conflict in conflicts])

    drawn = await license_chart.call({"verdicts": verdicts, "title": f"Licences of {len(verdicts)} distributions"})
    chart = save_chart(drawn)
    say("license_chart", drawn.status, f"{drawn.output}, kept as {chart}")

    text = report.render(inventory, verdicts, conflicts, chart.name)
    written = await write_and_look({"path": FOLDER / "report.md", "text": text})
    return [listed, *classified, compared, drawn, written]


async def write_and_look(arguments: dict[str, Any]) -> ToolResult:
    """Call `write_report`; ask before and after whether this very call has happened."""
    call = Context(call_id=str(uuid4()))  # one call: its key is what the tool leaves in the file
    preview = await write_report.call_preview(arguments, call)
    before = await write_report.call_check(arguments, call)
    written = await write_report.call(arguments, call)
    value_of("write_report", written)
    after = await write_report.call_check(arguments, call)
    if preview is not None:
        title, *changes = preview.output.splitlines()
        added, removed = (sum(line.startswith(sign) for line in changes[2:]) for sign in "+-")
        say("write_report", "preview", f"{title}: {added} lines added, {removed} removed")
    say("", "check", f"has this call happened? {happened(before)}")
    say("", written.status, f"{arguments['path']}, {arguments['path'].stat().st_size:,} bytes")
    say("", "check", f"has this call happened? {happened(after)}")
    return written


async def ask(environment: Path | None) -> None:
    """Ask the agent a question about the audit; its calls are told as they are settled."""
    question = json.loads(CONVERSATION.read_text(encoding="utf-8"))["question"]
    auditor = make_auditor(environment)
    say("auditor", "model", auditor.models[0].name)
    say("", "asked", question)

    def tell(event: Event) -> None:
        if event.type == "tool_result" and event.call is not None and event.result is not None:
            say("", event.result.status, f"call of {event.call.name}")

    answered = await auditor.run(question, on_event=tell)
    if answered.status != "done":
        raise SystemExit(f"auditor {answered.describe()}")
    print(f"\n{answered.output}")


def happened(check: ToolResult | None) -> str:
    """What a tool's check found, in a word."""
    if check is None:
        return "no"
    return "yes" if check.success else f"nobody can tell: {check.output}"


def value_of(name: str, result: ToolResult) -> Any:
    """The value of a result that is done; any other ends the job with the result's own words."""
    if not result.success:
        raise SystemExit(f"{name} {result.status}: {result.output}")
    return result.value


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """A line for each class, and one for each licence that is not allowed."""
    lines: list[str] = []
    for name in CLASSES:
        found = [verdict for verdict in verdicts if verdict.verdict == name]
        details = [f"{verdict.distribution}: {verdict.reason}" for verdict in found]
        if name == "allowed":
            counts = Counter(verdict.expression for verdict in found)
            common = counts.most_common(4)
            others = {"others": counts.total() - sum(count for _, count in common)} if len(counts) > len(common) else {}
            details = [", ".join(f"{expression} {count}" for expression, count in [*common, *others.items()])]
        heads = [f"{name:8} {len(found):4}", *[" " * 13] * (len(details) - 1)]
        lines += [f"{head}  {detail}" for head, detail in zip(heads, details or [""], strict=True)]
    return lines


def save_chart(drawn: ToolResult) -> Path:
    """Keep the picture of a result with an image part."""
    value_of("license_chart", drawn)
    (part,) = drawn.parts or []
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")  # what we make here is nobody's source
    report.write_atomically(FOLDER / part["name"], base64.b64decode(part["data"]))
    return FOLDER / part["name"]


def say(name: str, status: str, text: str) -> None:
    """One line of the story."""
    print(f"{name:20} {status:9} {text}".rstrip())


def say_more(lines: Sequence[str], most: int = 12) -> None:
    """What belongs to the line before, the first few."""
    for line in lines[:most]:
        say("", "", line)
    if len(lines) > most:
        say("", "", f"and {len(lines) - most} more, see the report")


def main() -> None:
    """Run the audit from the command line."""
    parser = argparse.ArgumentParser(prog="python -m license_audit", description=__doc__)
    parser.add_argument("--environment", type=Path, metavar="FOLDER", help="site-packages of another environment")
    environment: Path | None = parser.parse_args().environment
    print(f"Licence audit with ferrule, on Python {platform.python_version()}")
    print("Five tools are called, and every call ends in a result: done, failed or suspended.")
    print("Then an agent is asked about the audit.\n")
    results = asyncio.run(audit(environment))
    counts = Counter(result.status for result in results)
    print(f"\n{len(results)} results: {', '.join(f'{counts[s]} {s}' for s in ('done', 'failed', 'suspended'))}.")
    print(f"Read {FOLDER.absolute() / 'report.md'} next; git ignores the folder {FOLDER}.\n")
    asyncio.run(ask(environment))


if __name__ == "__main__":
    main()
