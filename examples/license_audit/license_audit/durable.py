"""A report by an agent whose process is killed in the middle: nothing is lost, and nothing is done twice.

`python -m license_audit.durable` plays it with real processes: one starts the run and ends, a person
answers from the command line, one is killed with the report just written, and one goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ferrule import Agent, App, Context, ToolResult, tool
from ferrule.journal.sqlite import SqliteStore
from ferrule.message import Call, ToolMessage
from ferrule.provider.base import ModelRequest
from ferrule.runtime.worker import Worker
from ferrule.testing import CrashingStore, CrashPoint, call
from license_audit import tools
from license_audit.tools import Written, judge_environment, preview_report, report_written

FOLDER = Path("license-audit")
STORE = FOLDER / "runs.db"
SUMMARY = FOLDER / "summary.md"
WRITES = FOLDER / "writes.log"
"""A line for each time that the report was really written: the effects, counted."""
LEASE = 1.0  # seconds without a sign of life after which another worker takes over; 10 by default


@tool(effect="once", approval=True, preview=preview_report, check=report_written)
def write_report(path: Path, text: str, ctx: Context[Any]) -> Written | ToolResult:
    """Write a report file, and count that.

    Args:
        path: Where to write it.
        text: The report as Markdown.
    """
    with WRITES.open("a", encoding="utf-8") as log:
        log.write(f"{ctx.effect_key} by process {os.getpid()}\n")
    return tools.write_report(path, text, ctx)


def script(request: ModelRequest) -> str | list[Call]:
    """What a model might say, without one. It keeps no state: the run moves from process to process."""
    results = [message for message in request.messages if isinstance(message, ToolMessage)]
    if not results:
        return [call("judge_environment")]
    if len(results) == 1:
        found = json.loads(results[0].output)
        text = f"# Licences\n\n{found['allowed']} of {found['distributions']} distributions are allowed.\n"
        return [call("write_report", {"path": str(SUMMARY), "text": text})]
    return f"No report was written: {results[1].output}" if results[1].is_error else f"The report is in {SUMMARY}."


reporter = Agent("reporter", script, tools=[judge_environment, write_report])
app = App(agents=[reporter], store=STORE)


async def start() -> None:
    """Start the run, and end where it waits for a person."""
    print((await app.run("reporter", "Report on the licences.")).run_id)


async def work(run_id: str, *, dies: bool) -> None:
    """Go on with the run until it is over; or die once the report is written and before anybody has noted that."""
    store: Any = SqliteStore(STORE)
    await store.open()
    watched: Any = CrashingStore(store, CrashPoint("tool.settled", when="before")) if dies else store
    async with Worker(watched, app.agents, lease=LEASE, poll=0.05) as worker:
        worker.start()
        while (entry := await store.entry(run_id)) is not None and entry.state in ("running", "suspended"):
            await asyncio.sleep(0.05)
        print((await worker.result(run_id)).output)
    await store.close()


# -- the play ---------------------------------------------------------------------------------------------------


def in_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a module in a process of its own."""
    return subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)


def done(*words: str) -> str:
    """What such a process prints; the play ends if it fails."""
    ran = in_a_process(*words)
    if ran.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {ran.returncode}: {ran.stderr}")
    return ran.stdout.strip()


def main() -> None:
    """Play it."""
    me, store = "license_audit.durable", ("--store", str(STORE))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    print("What if the process dies? The same report, by an agent whose run is kept in a file.\n")
    run_id = done(me, "start")
    print(
        f"1. A process started {run_id}. The agent wants to write a file, so it waits for a person; the process ended."
    )
    (asked,) = json.loads(done("ferrule", "requests", "--run", run_id, "-o", "json", *store))
    print(f"   It asks: {asked['prompt']} {asked['preview'].splitlines()[0]}.")
    done("ferrule", "answer", asked["id"], "--approve", "--digest", asked["digest"], *store)
    print(f"2. A person agreed, on the command line:\n   $ ferrule answer {asked['id']} --approve")
    killed = in_a_process(me, "work", run_id, "--dies")
    if killed.returncode != -signal.SIGKILL:
        raise SystemExit(f"it should have been killed, and ended with {killed.returncode}: {killed.stderr}")
    print("3. A second process wrote the report, and was killed (kill -9) before it could note that.")
    said = done(me, "work", run_id)
    print(
        "4. A third process went on. It asked the tool's check whether the report was written, and did not write again."
    )
    print(f"   The agent says: {said}")
    writes = sum(line.startswith(f"{run_id}:") for line in WRITES.read_text(encoding="utf-8").splitlines())
    print(f"5. Counted: the report was written {writes} time{'s' * (writes != 1)}, over three processes and one kill.")
    print(f"   Every step is on record: ferrule logs {run_id} --store {STORE}")
    if writes != 1:
        raise SystemExit("It should have been written once.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["start"]:
        asyncio.run(start())
    elif sys.argv[1:2] == ["work"]:
        asyncio.run(work(sys.argv[2], dies=sys.argv[3:] == ["--dies"]))
    else:
        main()
