"""Eight processes write runs into one SQLite file for twenty seconds; then the file is asked what it holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ferrule import Agent, App, tool
from ferrule.message import ModelMessage
from ferrule.provider.base import ModelRequest
from ferrule.testing import call

PROCESSES = 8
SECONDS = 20.0
AT_ONCE = 10
ROUNDS = 5


@tool
async def put(n: int) -> int:
    """Give a number back."""
    return n


def model(request: ModelRequest) -> object:
    """So many calls, one after another, then the end."""
    said = sum(isinstance(message, ModelMessage) for message in request.messages)
    return call("put", {"n": said}) if said < ROUNDS else "done"


async def write(file: str, seconds: float) -> int:
    """Run as often as there is time; how many runs were told as done."""
    app = App(agents=[Agent("writer", model, tools=[put])], store=file)
    until, done = time.monotonic() + seconds, 0
    async with app.working(takes=False):
        while time.monotonic() < until:
            for result in await asyncio.gather(*(app.run("writer", "go") for _ in range(AT_ONCE))):
                result.raise_for_status()
                done += 1
    return done


def held(file: Path) -> tuple[int, int, int]:
    """What the file holds: runs that are done, results of calls, and runs whose records have a gap or a double."""
    with contextlib.closing(sqlite3.connect(file)) as db:
        (runs,) = db.execute("SELECT count(*) FROM runs WHERE state = 'done'").fetchone()
        (results,) = db.execute("SELECT count(*) FROM records WHERE type = 'tool.settled'").fetchone()
        (broken,) = db.execute(
            "SELECT count(*) FROM (SELECT 1 FROM records JOIN runs ON runs.pos = records.run GROUP BY records.run"
            " HAVING count(*) <> max(runs.seq) OR max(records.seq) <> max(runs.seq))"
        ).fetchone()
    return runs, results, broken


def main() -> None:
    """Print one line, and the first error of a process if there is one."""
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as folder:
        file = Path(folder, "runs.db")
        command = [sys.executable, "-m", "benchmarks.processes", str(file)]
        writers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
            for _ in range(PROCESSES)
        ]
        said = [writer.communicate() for writer in writers]
        told = sum(json.loads(out) for out, _ in said if out)
        failed = [error.decode().strip().splitlines()[-1] for _, error in said if error.strip()]
        runs, results, broken = held(file)
    print(f"{PROCESSES} processes, {SECONDS:.0f} s: {told:,} runs told as done, {len(failed)} processes failed")
    print(f"in the file: {runs:,} runs, {results:,} of {runs * ROUNDS:,} results, {broken} runs with a gap or a double")
    for line in failed[:1]:
        print(line)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(write(sys.argv[1], SECONDS))))
