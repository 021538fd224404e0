"""The state database."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.store.database import Database


def test_documents_are_there_again_when_the_file_is_opened_again(tmp_path: Path):
    first = Database(tmp_path / "state.sqlite")
    first.documents("things").put("a/1", {"x": [1, None]})
    first.close()
    again = Database(tmp_path / "state.sqlite").documents("things")
    assert again.get("a/1") == {"x": [1, None]}
    assert again.get("a/2") is None


def test_items_are_those_of_the_prefix_in_order_and_wildcards_are_letters(tmp_path: Path):
    things = Database(tmp_path / "state.sqlite").documents("things")
    for key in ("b%", "b_", "a", "bz", "c"):
        things.put(key, key)
    assert [key for key, _ in things.items("b")] == ["b%", "b_", "bz"]
    assert [key for key, _ in things.items("b%")] == ["b%"]


def test_a_failed_transaction_leaves_nothing(tmp_path: Path):
    database = Database(tmp_path / "state.sqlite")
    things = database.documents("things")

    def half_done() -> None:
        with database.transaction():
            things.put("a", 1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half_done()
    assert things.get("a") is None


def test_migrations_run_once_and_only_the_new_ones(tmp_path: Path):
    for statements in (
        ["CREATE TABLE t (a)"],
        ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"],
    ) * 2:
        database = Database(tmp_path / "state.sqlite")
        database.migrate("thing", statements)
        rows = database.query("SELECT count(*) FROM t")[0][0]
        database.close()
    assert rows == 1


def test_a_table_name_that_is_not_a_name_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="letters and underscores"):
        Database(tmp_path / "state.sqlite").documents("x; DROP TABLE y")
