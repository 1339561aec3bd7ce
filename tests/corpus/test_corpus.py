"""Records of every version load for ever: each run of the corpus is taken in, and ends as it should with today's code."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.corpus.make import HERE, ended, working
from tests.corpus.world import DONE, ENDS, Bill

from ferrule.journal.archive import export_run, import_run
from ferrule.journal.record import FACTS, VERSION
from ferrule.journal.sqlite import MemoryStore

FILES = sorted(HERE.glob("v*/*.jsonl"))
NOT_HERE = {"timer.fired", "note"}  # only machines that sleep have the one, and only blocked runs the other


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_run_of_the_corpus_goes_on_and_ends_with_todays_code(file: Path) -> None:
    status, output, done = ENDS[file.stem]

    async def main() -> None:
        store = MemoryStore()
        await store.open()
        with file.open("rb") as lines:
            entry, is_new = await import_run(store, lines)
        assert is_new
        assert [line async for line in export_run(store, entry.run_id)] == file.read_bytes().splitlines(keepends=True)
        DONE.clear()
        await ended(store, entry.run_id)
        async with working(store) as worker:
            result = await worker.result(entry.run_id)
        assert (result.status, result.output) == (status, output)
        assert sorted(DONE) == done
        if entry.definition == "structured":
            assert result.value == Bill("Ada", 5, ["paid"])
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_every_version_has_all_these_runs_and_the_newest_every_kind_of_record(version: int) -> None:
    files = [file for file in FILES if file.parent.name == f"v{version}"]
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    assert {line["v"] for line in lines if line["is"] == "record"} == {version}
    if version == VERSION:
        assert {file.stem for file in files} == {*ENDS}
        assert {line["type"] for line in lines if line["is"] == "record"} == {*FACTS} - NOT_HERE
