"""The peers' table as Markdown, from results of the shared harness: `python -m benchmarks.peers HARNESS results.jsonl`.

HARNESS is the folder of the harness, whose `goals.py` holds what is measured
and how much of it is allowed; results of several runs may be given, newest last.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

OWN = "ferrule"
NOTHING = "–"
Rows = list[dict[str, Any]]


def read(files: list[str]) -> Rows:
    """The records of all files, in order."""
    return [json.loads(line) for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()]


def value(goals: Any, rows: Rows, goal: Any) -> float | None:
    """The newest figure that a goal is about; None where there is none."""
    case, mode, get = goal[0], goal[1], goal[5]
    here = goals.newest(r for r in rows if r.get("case") == case and mode in (None, "*", goals.mode(r)))
    try:
        found = [r for r in here if case != "F" or mode == "*" or "--n" not in r["args"]]
        return get([goals.figures(r) for r in found] if mode == "*" else goals.figures(found[-1]))
    except (goals.NoFigure, KeyError, IndexError, StopIteration, TypeError, ZeroDivisionError):
        return None


def shown(number: float | None) -> str:
    """Three digits, or as many as a whole number has."""
    if number is None:
        return NOTHING
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def verdict(number: float, sign: str, limit: float) -> str:
    """Whether a goal is met."""
    return "met" if (number <= limit if sign == "<=" else number >= limit) else "**missed**"


def machine() -> str:
    """What the figures were taken on, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()} on {platform.machine()}"


def versions(rows: Rows, script: str) -> str:
    """The versions that a script reports of itself, without what all have in common; "" for none."""
    known = next((r["versions"] for r in rows if r["script"] == script and r.get("versions")), {})
    own = {name: version for name, version in known.items() if name not in ("python", "sqlite", "pydantic") and version}
    return ", ".join(f"{name} {version}" for name, version in own.items())


def table(goals: Any, rows: Rows) -> list[str]:
    """The lines of the table: a goal in each, a library in each column."""
    scripts = sorted({r["script"] for r in rows}, key=lambda s: (s != OWN, s))
    lines = ["| | figure | goal | " + " | ".join(scripts) + " |", "|" + "---|" * (len(scripts) + 3)]
    for goal in goals.GOALS:
        numbers = {script: value(goals, [r for r in rows if r["script"] == script], goal) for script in scripts}
        mine = numbers.get(OWN)
        if mine is None:
            continue
        sign, limit = goal[3], goal[4]
        said = f"{'≤' if sign == '<=' else '≥'} {limit:,}: {verdict(mine, sign, limit)}"
        cells = " | ".join(shown(numbers[script]) for script in scripts)
        lines.append(f"| {goal[0]} | {goal[2]} | {said} | {cells} |")
    return lines


def main() -> None:
    """Print where the figures come from, and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", help="folder of the harness")
    parser.add_argument("results", nargs="+", help="files that its drive.py wrote")
    options = parser.parse_args()
    sys.path.insert(0, options.harness)
    sys.argv[1:] = options.results[:1]  # the harness reads it while it is imported
    import goals  # pyright: ignore  # known only now

    rows = read(options.results)
    pythons = {r["versions"]["python"] for r in rows if (r.get("versions") or {}).get("python")}
    day = datetime.date.fromtimestamp(max(Path(file).stat().st_mtime for file in options.results))
    known = [versions(rows, name) for name in sorted({r["script"] for r in rows} - {OWN})]
    print("; ".join([f"{day}, Python {' and '.join(sorted(pythons))}, {machine()}", *filter(None, known)]) + ".\n")
    print("\n".join(table(goals, rows)))


if __name__ == "__main__":
    main()
