"""The audit as Markdown, and the file it is kept in.

The file ends with a stamp that names the call which wrote it. So one can tell from the disk
alone whether a call has had its effect, also after a crash.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from license_audit.conflicts import Conflict
from license_audit.inventory import Inventory
from license_audit.policy import CLASSES, Verdict

_STAMP = re.compile(r"\n<!-- license-audit call=(?P<call>\S+) sha256=(?P<sha256>[0-9a-f]{64}) -->\n\Z")


def render(inventory: Inventory, verdicts: Sequence[Verdict], conflicts: Sequence[Conflict], chart: str = "") -> str:
    """The report as Markdown.

    Args:
        inventory: What is installed.
        verdicts: One for each distribution of the inventory, in its order.
        conflicts: The requirements that are not met.
        chart: The chart's file name, relative to the report; empty for none.
    """
    counts = Counter(verdict.verdict for verdict in verdicts)
    rows = list(zip(inventory.distributions, verdicts, strict=True))
    picture = [f"![Number of distributions for each licence]({chart})", ""] if chart else []
    return "\n".join(
        [
            "# Licence audit",
            "",
            f"Environment `{inventory.environment}`, {len(rows)} distribution{'s' if len(rows) != 1 else ''}: "
            + ", ".join(f"{counts[name]} {name}" for name in CLASSES)
            + ".",
            "",
            *picture,
            *_section(
                "For a person to decide",
                "Nothing: every licence is on the allow-list.",
                ("distribution", "licence", "verdict", "why"),
                [
                    (d.name, v.expression, v.verdict, "; ".join(filter(None, (v.reason, d.license_note))))
                    for d, v in rows
                    if v.verdict != "allowed"
                ],
            ),
            *_section(
                "Requirement conflicts",
                "None: every requirement is met.",
                ("distribution", "requires", "but"),
                [(c.distribution, c.requirement, c.installed or c.kind) for c in conflicts],
            ),
            *_section(
                "Metadata that cannot be read",
                "None.",
                ("problem",),
                [(problem,) for problem in inventory.problems],
            ),
            *_section(
                "All distributions",
                "None.",
                ("distribution", "version", "licence", "found in", "verdict"),
                [(d.name, d.version, v.expression, d.license_source, v.verdict) for d, v in rows],
            ),
        ]
    )


def _section(title: str, if_empty: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    table = [heads, ["---"] * len(heads), *[[_cell(text) for text in row] for row in rows]]
    lines = [f"| {' | '.join(row)} |" for row in table] if len(table) > 2 else [if_empty]
    return [f"## {title}", "", *lines, ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") or "–"


@dataclass(frozen=True, slots=True)
class Saved:
    """A file on the disk."""

    text: str
    """Its content without the stamp."""
    call: str = ""
    """The call that wrote it; empty when it is no report of ours."""
    sha256: str = ""
    """The digest of what that call wrote."""

    @property
    def edited(self) -> bool:
        """Whether the text is no longer the one that was written."""
        return self.sha256 != _digest(self.text)


def read_saved(path: Path) -> Saved | None:
    """What is in a file and who wrote it; `None` when there is no file.

    Raises:
        OSError: There is something, and it cannot be read.
    """
    try:
        content = path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    stamp = _STAMP.search(content)
    return Saved(content[: stamp.start()], stamp["call"], stamp["sha256"]) if stamp else Saved(content)


def write_stamped(path: Path, text: str, call: str) -> Saved:
    """Write a report and its stamp: wholly or not at all, and on the disk when this returns.

    Raises:
        OSError: The file cannot be written; what was there before still is.
    """
    saved = Saved(text, call, _digest(text))
    write_atomically(path, f"{text}\n<!-- license-audit call={call} sha256={saved.sha256} -->\n".encode())
    return saved


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: readers and crashes see the old content or the new one.

    Raises:
        OSError: The file cannot be written; what was there before still is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new name durable. Windows cannot open folders, and does not need to."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
