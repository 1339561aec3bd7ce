"""Every code block of README and docs is a program that runs, or a command that exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import docs
import ferrule
from ferrule.cli.doctor import model_keys

PAGES = docs.pages()
MAKE_TARGETS = set(re.findall(r"^([a-z]+):", (docs.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
INSTALL = "pip install . ./compat/toolnexus ./compat/bindai_tool"


def name(page: Path) -> str:
    return str(page.relative_to(docs.ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_program_and_its_output_are_shown_as_they_are(page: Path) -> None:
    assert docs.stale(page) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_of_code_stands_outside_a_file_that_runs(page: Path) -> None:
    loose = [f"{name(page)}:{b.line}" for b in docs.blocks(page) if not b.file and b.language != "sh"]
    assert loose == []


def commands() -> list[tuple[str, str]]:
    return [
        (f"{name(page)}:{b.line}", line)
        for page in PAGES
        for b in docs.blocks(page)
        if b.language == "sh"
        for line in b.text.strip().splitlines()
    ]


@pytest.mark.parametrize(("where", "line"), commands())
def test_each_command_works(where: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == ".":
        assert words[1:] == [".venv/bin/activate"]
    elif words[0] == "cd":
        assert (docs.ROOT / words[1]).is_dir()
    elif words[0] == "make":
        assert set(words[1:]) <= MAKE_TARGETS
    elif words[0] == "ferrule":
        sample = docs.ROOT / "examples" / "license_audit"
        # Without a key and without somebody to ask: the agent takes its recorded conversation, a chat ends at once.
        env = {name: value for name, value in os.environ.items() if name not in {*model_keys(), "AUDIT_MODEL"}}
        command = [sys.executable, "-m", "ferrule", *words[1:]]
        done = subprocess.run(
            command, cwd=sample, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    else:
        assert line == INSTALL


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]*)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
        path, heading = target[0], target[1]
        if path.startswith(("http://", "https://")):
            continue
        found = (page.parent / path).resolve() if path else page
        assert found.is_file(), f"{name(page)} links to {path}"
        if heading:
            heads = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in heads]


def test_each_public_name_is_told_somewhere() -> None:
    told = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [n for n in ferrule.__all__ if not re.search(rf"\b{re.escape(n)}\b", told)] == []


def test_each_program_of_the_docs_is_shown_on_a_page() -> None:
    shown = {b.file for page in PAGES for b in docs.blocks(page)}
    programs = {str(p.relative_to(docs.ROOT)) for p in (docs.ROOT / "docs_src").rglob("*.py")}
    assert programs - shown == set()
