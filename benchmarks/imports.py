"""Cold import: CPU and memory of the face, beside pydantic's own, in fresh processes that take turns."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

ROUNDS = 15
REFERENCE_MS = 100.0  # CPU of the cold import of pydantic on the machine that the goals speak of
STATEMENTS = {
    "nothing": "pass",
    "pydantic": "from pydantic import BaseModel, TypeAdapter",
    "ferrule": "from ferrule import ToolResult, tool",
    "agent": "from ferrule import Agent, ToolResult, tool",
}
REPORT = "; print(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1])"


def cold(statement: str) -> tuple[float, float]:
    """CPU milliseconds of a fresh interpreter that runs a statement, and its resident megabytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    out = subprocess.run(
        [sys.executable, "-c", statement + REPORT], check=True, capture_output=True, text=True, env=env
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return cpu * 1000, int(out) / 1024


def slowness(rounds: int = 5) -> float:
    """How many times slower this machine is now than the reference machine, by the cold import of pydantic."""
    pairs = [(cold(STATEMENTS["nothing"])[0], cold(STATEMENTS["pydantic"])[0]) for _ in range(rounds + 1)][1:]
    return statistics.median(p - n for n, p in pairs) / REFERENCE_MS


def main() -> None:
    """Print medians above the bare interpreter, and the ratio pair by pair."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in STATEMENTS}
    for statement in STATEMENTS.values():
        cold(statement)  # the first run compiles and fills the file cache
    for _ in range(ROUNDS):
        for name, statement in STATEMENTS.items():
            found[name].append(cold(statement))
    base = statistics.median(cpu for cpu, _ in found["nothing"])
    for name in list(STATEMENTS)[1:]:
        cpu = statistics.median(c for c, _ in found[name]) - base
        print(f"{name:9} {cpu:7.1f} ms CPU  {statistics.median(m for _, m in found[name]):5.1f} MB")
    for name in ("ferrule", "agent"):
        turns = zip(found["nothing"], found["pydantic"], found[name], strict=True)
        ratio = statistics.median((f[0] - n[0]) / (p[0] - n[0]) for n, p, f in turns)
        print(f"{name:9} {ratio:7.2f} times pydantic (goal: at most 1.6, at most 40 MB)")


if __name__ == "__main__":
    main()
