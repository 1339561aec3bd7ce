"""Keep the code blocks of README and docs equal to the programs under docs_src.

A block below `<!-- docs_src/x.py -->` is that file; one below
`<!-- output of docs_src/x.py -->` is what running it prints. Without a flag
every difference is named and the exit status is 1; `--write` mends them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?:<!-- (?P<of>output of )?(?P<file>[\w./-]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```", re.DOTALL
)


class Block(NamedTuple):
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    file: str | None
    is_output: bool
    text: str


def pages() -> list[Path]:
    """README and the pages of docs, in order."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page.

    Args:
        page: A Markdown file.
    """
    source = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(source):
        line = source.count("\n", 0, found.start("text"))
        yield Block(page, line, found["language"], found["file"], bool(found["of"]), found["text"])


@lru_cache
def output_of(file: str) -> str:
    """What a program prints.

    Args:
        file: Its path from the root of the repository.
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-W", "error", file], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{file} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def right_text(file: str, is_output: bool) -> str:
    """What a block must say.

    Args:
        file: The file above it.
        is_output: Whether its output is meant.
    """
    return output_of(file) if is_output else (ROOT / file).read_text(encoding="utf-8")


def stale(page: Path) -> list[str]:
    """The blocks of a page that differ from their files, one line each.

    Args:
        page: A Markdown file.
    """
    where = page.relative_to(ROOT)
    return [
        f"{where}:{b.line}: differs from {'the output of ' * b.is_output}{b.file}; run: python scripts/docs.py --write"
        for b in blocks(page)
        if b.file and b.text != right_text(b.file, b.is_output)
    ]


def write(page: Path) -> None:
    """Fill the blocks of a page.

    Args:
        page: A Markdown file.
    """

    def filled(found: re.Match[str]) -> str:
        if not found["file"]:
            return found[0]
        start, end = (i - found.start() for i in found.span("text"))
        return found[0][:start] + right_text(found["file"], bool(found["of"])) + found[0][end:]

    page.write_text(BLOCK.sub(filled, page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    """Check the pages, or mend them with --write."""
    if sys.argv[1:] == ["--write"]:
        for page in pages():
            write(page)
        return
    found = [line for page in pages() for line in stale(page)]
    print("\n".join(found), file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
