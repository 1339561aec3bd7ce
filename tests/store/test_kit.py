"""The kit finds stores that break the protocol, each by the check whose sentence it breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ferrule.journal import transaction
from ferrule.journal.sqlite import MemoryStore
from ferrule.testing import StoreConformance


def without(block: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A store that leaves a block out, and says that it was run."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        from ferrule.journal.sql import SqlConnection

        change = SqlConnection.change

        def changed(self: SqlConnection, name: str, *values: Any) -> int:
            return 1 if name == block else change(self, name, *values)

        monkeypatch.setattr(SqlConnection, "change", changed)

    return patch


def other(old: str, new: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A store with other words in a block."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        from ferrule.journal import sqlite

        blocks = sqlite.blocks

        def changed(*given: str) -> dict[str, str]:
            found = blocks(*given)
            assert any(old in sql for sql in found.values())
            return {name: sql.replace(old, new) for name, sql in found.items()}

        monkeypatch.setattr("ferrule.journal.sqlite.blocks", changed)

    return patch


def verdict(given: str) -> Callable[[pytest.MonkeyPatch], None]:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        real = transaction.__dict__["_verdict"]

        def changed(*args: Any) -> str:
            found = real(*args)
            return "accepted" if found == given else found

        monkeypatch.setattr(transaction, "_verdict", changed)

    return patch


@pytest.mark.parametrize(
    ("patch", "check"),
    [
        (other("AND epoch = ?5 AND seq = ?6", "AND seq = ?6 AND ?5 > 0"), "who_lost_a_run_cannot_write_to_it"),
        (other("AND epoch = ?2 AND worker", "AND ?2 > 0 AND worker"), "who_lost_a_run_cannot_write_to_it"),
        (other("AND seq = ?6 AND worker", "AND ?6 > 0 AND worker"), "records_have_no_gap_and_no_double"),
        (other(" AND worker IS NOT NULL", ""), "who_let_go_of_a_run_cannot_write_to_it"),
        (other("key TEXT UNIQUE", "key TEXT"), "a_second_start_with_one_key_gives_the_first_run"),
        (other("takeovers = 0\n", "takeovers = takeovers\n"), "takeovers_are_counted_until_a_record_is_written"),
        (other("ORDER BY pos DESC", "ORDER BY pos"), "entries_are_found_the_latest_first"),
        (other("workers.beat > ?3 - COALESCE(workers.lease, ?2)", "?2 > 0"), "a_holder_is_alive_for_the_lease_that_it_has_itself"),
        (other("AND due <= ?3", "AND ?3 > 0"), "a_parked_run_is_left_alone"),
        (other("'running', 'suspended', 'blocked')", "'blocked', 'running')"), "a_parked_run_past_its_time_is_due"),
        (other(" AND mail.kind IN ('cancel', 'resume')", ""), "a_blocked_run_is_taken_to_be_cancelled_and_for_nothing_else"),
        (other("definition IN (", "definition NOT IN ("), "only_what_a_worker_can_run_is_taken_the_oldest_first"),
        (other("run_id = ?1 AND CAST(id", "?1 > '' AND CAST(id"), "letters_come_in_order_and_are_gone_when_read"),
        (other("id INTEGER PRIMARY KEY AUTOINCREMENT", "id INTEGER PRIMARY KEY"), "letters_come_in_order_and_are_gone_when_read"),
        (other("UNION SELECT runs.run_id FROM inside", "UNION SELECT runs.root FROM inside"), "requests_of_runs_inside_are_listed_at_each_run_around"),
        (other("WHEN expires <= ?2 THEN 'expired'", "WHEN ?2 < 0 THEN 'expired'"), "a_closed_request_takes_no_answer"),
        (other("AND NOT EXISTS (SELECT 1 FROM links", "AND ?1 > '' OR EXISTS (SELECT 1 FROM links"), "bytes_are_kept_once_and_for_all_who_refer_to_them"),
        (other("inside.run_id\n    WHERE runs.state NOT IN", "inside.run_id\n    WHERE runs.state IN"), "runs_that_are_over_can_be_removed"),
        (other("around.run_id\n    WHERE runs.state NOT IN", "around.run_id\n    WHERE runs.state IN"), "nothing_of_a_tree_that_goes_on_is_removed"),
        (other("forked_from, forked_at FROM runs", "NULL, NULL FROM runs"), "a_fork_shares_the_records_before_it_and_goes_on_with_its_own"),
        (other("JOIN runs ON runs.forked_from = inside.run_id", "JOIN runs ON runs.forked_from = inside.run_id || ' '"), "a_run_that_has_forks_is_removed_with_or_after_them_only"),
        (without("read"), "a_parked_run_with_a_letter_is_due_until_it_was_read"),
        (without("audit"), "another_answer_is_refused_and_kept"),
        (without("close_all"), "a_run_that_is_over_has_no_open_request"),
        (without("let_go"), "a_run_let_go_of_is_taken_by_the_next"),
        (without("retire"), "a_worker_is_alive_until_it_retires"),
        (without("remove_blobs"), "bytes_are_kept_once_and_for_all_who_refer_to_them"),
        (without("expire"), "no_answer_is_taken_from_the_end_of_the_time_on"),
        (other("?14, 0)", "NULL, ?14 * 0)"), "a_run_from_another_store_stands_as_it_stood_there"),
        (other("VALUES (?1, ?2, -1)", "VALUES (?1, ?2, 9e9)"), "no_lease_comes_along_from_another_store"),
        (other("AND parent IS NULL\n", "\n"), "runs_that_are_over_are_listed_by_their_end"),
        (other("ORDER BY updated, pos", "ORDER BY pos DESC"), "runs_that_are_over_are_listed_by_their_end"),
        (other(" OR runs.updated >= ?1\n", "\n"), "bytes_of_runs_that_are_over_for_long_can_be_removed"),
        (without("remove_old_blobs"), "bytes_of_runs_that_are_over_for_long_can_be_removed"),
        (without("enlist_lapsed"), "no_lease_comes_along_from_another_store"),
        (verdict("answered"), "of_a_hundred_answers_at_once_one_is_accepted"),
        (verdict("expired"), "no_answer_is_taken_from_the_end_of_the_time_on"),
        (verdict("same"), "the_same_answer_again_is_no_second_one"),
    ],
)  # fmt: skip
def test_a_store_that_breaks_a_sentence_is_found(
    patch: Callable[[pytest.MonkeyPatch], None], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    with pytest.raises(AssertionError, match="was expected"):
        asyncio.run(StoreConformance(MemoryStore).run(check))


def test_the_checks_are_sentences_and_their_list_is_whole() -> None:
    names = StoreConformance.names()
    assert len(names) == len(set(names)) >= 40
    assert all(name.count("_") >= 3 for name in names)


def test_an_unknown_check_is_none() -> None:
    with pytest.raises(KeyError):
        asyncio.run(StoreConformance(MemoryStore).run("nope"))
