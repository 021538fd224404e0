"""The state database."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.store import disk_space
from headrace.store.database import Database, NewerFormat
from headrace.store.disk_space import DiskFull


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
    older, newer = ["CREATE TABLE t (a)"], ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)"]
    for statements in (older, older, newer, newer):
        database = Database(tmp_path / "state.sqlite")
        database.migrate("thing", statements)
        rows = database.query("SELECT count(*) FROM t")[0][0]
        database.close()
    assert rows == 1


def test_a_file_of_a_later_version_is_refused(tmp_path: Path):
    database = Database(tmp_path / "state.sqlite")
    database.migrate("thing", ["CREATE TABLE t (a)", "CREATE TABLE u (a)"])
    with pytest.raises(NewerFormat, match="thing"):
        database.migrate("thing", ["CREATE TABLE t (a)"])
    database.close()


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Tell the database that the disk is full, or not."""

    def tell(yes: bool) -> None:
        monkeypatch.setattr(disk_space, "free_bytes", lambda _: 0 if yes else 1 << 40)

    return tell


def test_a_full_disk_takes_what_frees_room_and_nothing_else(
    tmp_path: Path, full: Callable[[bool], None]
):
    database = Database(tmp_path / "state.sqlite")
    things = database.documents("things")
    things.put("a", 1)
    things.put("b", 1)
    full(True)
    for refused in (
        lambda: things.put("a", 2),
        lambda: things.put("c", 1),
        lambda: database.execute_many("INSERT INTO doc_things VALUES (?, ?)", [("d", "1")]),
    ):
        with pytest.raises(DiskFull):
            refused()
    assert things.items() == [("a", 1), ("b", 1)]
    assert things.delete("a")
    with database.transaction(frees=True):
        things.put("b", 3)
    assert things.items() == [("b", 3)]
    full(False)
    things.put("a", 4)
    assert things.items() == [("a", 4), ("b", 3)]


def test_room_for_deletions_is_kept_on_the_disk(tmp_path: Path, full: Callable[[bool], None]):
    full(False)
    Database(tmp_path / "state.sqlite").documents("things")
    assert (tmp_path / "state.sqlite-wal").stat().st_blocks * 512 >= disk_space.LOG_BYTES
    assert (tmp_path / "state.reserve").stat().st_blocks * 512 >= disk_space.RESERVE_BYTES


def test_the_room_kept_survives_a_kill_and_what_was_written_too(tmp_path: Path):
    program = (
        "import os, signal, sys; from pathlib import Path; from headrace.store.database import Database\n"
        "things = Database(Path(sys.argv[1])).documents('things')\n"
        "for n in range(int(sys.argv[2])): things.put(str(n), n)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "state.sqlite"
    for count in (1, 500, 3000):
        subprocess.run([sys.executable, "-c", program, str(path), str(count)], check=False)
        assert (tmp_path / "state.sqlite-wal").stat().st_size >= disk_space.LOG_BYTES
        database = Database(path)
        assert len(database.documents("things").items()) == count
        database.close()


def test_a_commit_that_fails_leaves_a_database_that_works(tmp_path: Path):
    database = Database(tmp_path / "state.sqlite")
    database.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    database.execute(
        "CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    database.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(sqlite3.IntegrityError), database.transaction():
        # Checked by the COMMIT, which fails as it does when the disk is full.
        database.execute("INSERT INTO child VALUES (1)")
    with database.transaction():
        database.execute("INSERT INTO parent VALUES (2)")
    assert database.query("SELECT * FROM parent") == [(2,)]
    assert database.query("SELECT * FROM child") == []


def test_a_table_name_that_is_not_a_name_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="letters and underscores"):
        Database(tmp_path / "state.sqlite").documents("x; DROP TABLE y")
