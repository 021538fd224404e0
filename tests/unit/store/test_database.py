"""The state database."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.store import disk_space
from headrace.store.checkpoints import COMMITS_BETWEEN
from headrace.store.database import MOST_LOG_PAGES, Database, NewerFormat
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


def test_many_documents_are_stored_all_or_nothing(tmp_path: Path):
    things = Database(tmp_path / "state.sqlite").documents("things")
    things.put("a", 1)
    things.put_all({"a": 2, "b": 2})
    assert things.items() == [("a", 2), ("b", 2)]
    with pytest.raises(TypeError, match="not JSON serializable"):
        things.put_all({"a": 3, "c": object()})
    assert things.items() == [("a", 2), ("b", 2)]


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


def log_bytes(database: Path) -> int:
    return database.with_name(f"{database.name}-wal").stat().st_size


def test_a_log_that_nobody_moves_is_bounded(tmp_path: Path, full: Callable[[bool], None]):
    full(False)
    database = Database(tmp_path / "state.sqlite")
    database.move_log_elsewhere(lambda _: lambda: None, contextlib.nullcontext())
    things = database.documents("things")
    for number in range(1200):
        things.put(str(number % 200), f"{number:032000}")
    # A page has a header of 24 bytes in the log.
    assert 12 << 20 < log_bytes(tmp_path / "state.sqlite") < (MOST_LOG_PAGES + 20) * (4096 + 24)


def test_a_moved_log_begins_anew(tmp_path: Path, full: Callable[[bool], None]):
    full(False)
    database = Database(tmp_path / "state.sqlite")
    wakes: list[float] = []
    database.move_log_elsewhere(
        lambda checkpoints: lambda: wakes.append(checkpoints.step()), contextlib.nullcontext()
    )
    things = database.documents("things")
    for number in range(2000):
        things.put(str(number % 200), f"{number:08000}")
    assert len(wakes) == 2001 // COMMITS_BETWEEN
    # 16 MiB of pages have been written by now.
    assert log_bytes(tmp_path / "state.sqlite") == disk_space.LOG_BYTES


def test_on_a_small_disk_the_log_is_short_and_deletions_get_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "state.sqlite"
    left = disk_space.PLENTY_BYTES
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: left)
    database = Database(path)
    database.move_log_elsewhere(lambda _: lambda: None, contextlib.nullcontext())
    things = database.documents("things")
    for number in range(200):
        things.put(str(number), f"{number:032000}")
    long = log_bytes(path)
    assert long > disk_space.LOG_BYTES
    left = 0
    for number in range(200):
        assert things.delete(str(number))
    left = disk_space.PLENTY_BYTES - 1
    for number in range(400):
        things.put(str(number % 200), f"{number:032000}")
    assert log_bytes(path) == long


def test_a_kill_while_the_log_is_moved_loses_nothing(tmp_path: Path):
    program = (
        "import contextlib, os, signal, sys, threading; from pathlib import Path\n"
        "from headrace.store.database import Database\n"
        "database = Database(Path(sys.argv[1]))\n"
        "def move_always(checkpoints):\n"
        "    def run():\n"
        "        while True: checkpoints.step()\n"
        "    threading.Thread(target=run, daemon=True).start()\n"
        "    return lambda: None\n"
        "database.move_log_elsewhere(move_always, contextlib.nullcontext())\n"
        "things = database.documents('things')\n"
        "for n in range(int(sys.argv[2])): things.put(str(n), 'x' * 3000)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "state.sqlite"
    for count in (100, 1500):
        subprocess.run([sys.executable, "-c", program, str(path), str(count)], check=False)
        database = Database(path)
        assert database.damage() == ""
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
