"""A damaged state database: what is saved, what is told, and a repair that is killed anywhere."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from headrace.store.repair_database import DatabaseUnreadable, damage_of, finish, repair_database
from tests.support.killed import run_killed

PAGE_BYTES = 4096


def make(path: Path) -> None:
    """Make a database of three tables: one with a rowid, one with keys of text, one of documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE journal (id INTEGER PRIMARY KEY AUTOINCREMENT, t TEXT, b BLOB)")
    database.execute("CREATE TABLE named (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
    database.execute("CREATE INDEX by_text ON journal (t)")
    database.executemany(
        "INSERT INTO journal (t, b) VALUES (?, ?)",
        [(f"é{n}" * 20, b"\xff" * 300) for n in range(600)],
    )
    database.executemany(
        "INSERT INTO named VALUES (?, ?)", [(f"k{n:05d}", "v" * 200) for n in range(600)]
    )
    database.commit()
    database.close()


def pages_of(path: Path, table: str) -> list[int]:
    """Return the leaf pages of a table, from 1, found by what its rows hold."""
    marker = {"journal": b"\xff" * 300, "named": b"v" * 200}[table]
    content = path.read_bytes()
    return [
        at // PAGE_BYTES + 1
        for at in range(0, len(content), PAGE_BYTES)
        if content[at : at + PAGE_BYTES].count(marker) > 3
    ]


def spoil(path: Path, page: int) -> None:
    content = bytearray(path.read_bytes())
    content[(page - 1) * PAGE_BYTES : page * PAGE_BYTES] = b"\xff" * PAGE_BYTES
    path.write_bytes(content)


def count(path: Path, table: str) -> int:
    database = sqlite3.connect(path)
    (number,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    database.close()
    return int(number)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "state.sqlite"
    make(path)
    return path


def test_a_sound_database_has_no_damage(path: Path):
    assert damage_of(path) == ""
    assert not finish(path)


@pytest.mark.parametrize("table", ["journal", "named"])
def test_rows_on_other_pages_are_saved(path: Path, table: str):
    pages = pages_of(path, table)
    spoil(path, pages[len(pages) // 3])
    spoil(path, pages[len(pages) * 2 // 3])
    assert damage_of(path)
    said = list(repair_database(path))
    saved = count(path, table)
    assert any(f"table {table}: {saved} rows are saved" in line for line in said)
    # Rows with numbers: all but those of two pages. Keys of text leave no way between two damaged pages.
    assert saved >= (570 if table == "journal" else 350)
    assert count(path, "named" if table == "journal" else "journal") == 600
    assert damage_of(path) == ""
    database = sqlite3.connect(path)
    assert database.execute("SELECT DISTINCT typeof(t), typeof(b) FROM journal").fetchall() == [
        ("text", "blob")
    ]
    assert database.execute("SELECT seq FROM sqlite_sequence").fetchone() == (600,)
    assert database.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
    database.close()


def test_a_file_without_its_first_page_is_left_as_it_is(path: Path):
    spoil(path, 1)
    before = path.read_bytes()
    with pytest.raises(DatabaseUnreadable, match="cannot read anything from it"):
        list(repair_database(path))
    assert path.read_bytes() == before


def test_a_repair_that_is_killed_anywhere_is_finished_by_the_next(path: Path, nightly: bool):
    """Kill it before each system call that changes something, by day before each third, and do it again."""
    pages = pages_of(path, "journal")
    spoil(path, pages[1])
    spoiled = path.read_bytes()
    results, changes, is_done = set[int](), 0, False

    def mend() -> None:
        finish(path)
        if damage_of(path):
            list(repair_database(path))

    while not is_done:
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        path.write_bytes(spoiled)
        is_done = run_killed(mend, changes)
        mend()
        assert damage_of(path) == ""
        results.add(count(path, "journal"))
        kept = [
            p
            for p in (path.parent / "quarantine").rglob("state.sqlite")
            if "repairing" not in str(p)
        ]
        assert spoiled in [p.read_bytes() for p in kept]
        assert sorted(p.name for p in path.parent.iterdir()) == ["quarantine", "state.sqlite"]
        changes += 1 if nightly else 3
    assert changes > 8
    assert len(results) == 1
