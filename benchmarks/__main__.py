"""Run the benchmarks: `python -m benchmarks`, or some of them: `python -m benchmarks imports calls`."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("imports", "schemas", "calls", "strict_json_total", "store_append", "parked_runs", "processes")


def main(wanted: list[str]) -> None:
    """Run the wanted benchmarks, all by default, each as a section."""
    unknown = sorted(set(wanted) - set(NAMES))
    if unknown:
        sys.exit(f"No benchmark {unknown[0]!r}. There are: {', '.join(NAMES)}.")
    for name in wanted or NAMES:
        print(f"\n== {name}")
        import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
