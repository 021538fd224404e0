"""`check` of a whole data directory: what the logs alone cannot tell."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from headrace.store.check import Marks, check
from headrace.store.database import STATE_FILE, Database
from headrace.store.folders import clear, discard
from headrace.store.shard_log import ShardLog
from tests.unit.store.logs import open_log, put, segments


@pytest.fixture
def log(tmp_path: Path) -> ShardLog:
    """A closed log of two records, marked."""
    log = open_log(tmp_path)
    put(log, ["first"])
    put(log, ["second"])
    database = Database(tmp_path / STATE_FILE)
    Marks(database, tmp_path).note([log])
    database.close()
    log.close_files()
    return log


def problems(data_dir: Path) -> list[str]:
    return [str(problem) for problem in check(data_dir)]


def test_what_was_closed_is_sound(tmp_path: Path, log: ShardLog):
    assert problems(tmp_path) == []


def test_an_empty_directory_is_sound(tmp_path: Path):
    assert problems(tmp_path) == []


def test_records_cut_off_between_two_writes_are_missed(tmp_path: Path, log: ShardLog):
    (segment,) = segments(log)
    segment.with_suffix(".index").unlink()
    content = segment.read_bytes()
    second = content.index(b"HRB1", content.index(b"HRB1") + 1)
    segment.write_bytes(content[:second])
    assert [p.partition(": ")[2] for p in problems(tmp_path)] == [
        "records 2 to 2 are missing at the end"
    ]


def test_a_log_cut_to_nothing_is_missed(tmp_path: Path, log: ShardLog):
    (segment,) = segments(log)
    segment.with_suffix(".index").unlink()
    segment.write_bytes(b"")
    assert any("was emptied" in p for p in problems(tmp_path))


@pytest.mark.parametrize("levels", [0, 1])
def test_a_folder_that_is_gone_is_missed(tmp_path: Path, log: ShardLog, levels: int):
    shutil.rmtree([log.folder, *log.folder.parents][levels])
    assert [p.partition(": ")[2] for p in problems(tmp_path)] == ["the log is missing"]


def test_swapped_shards_are_found(tmp_path: Path, log: ShardLog):
    other = open_log(tmp_path, shard_id="shardId-000000000001")
    put(other, ["third"])
    other.close_files()
    aside = log.folder.with_name("aside")
    log.folder.rename(aside)
    other.folder.rename(log.folder)
    aside.rename(other.folder)
    assert sum("another shard" in p for p in problems(tmp_path)) == 2


def test_a_missing_database_is_found(tmp_path: Path, log: ShardLog):
    (tmp_path / STATE_FILE).unlink()
    assert any("the state database is missing" in p for p in problems(tmp_path))


@pytest.mark.parametrize("at_bytes", [0, 30, 4096])
def test_a_damaged_database_is_found(tmp_path: Path, log: ShardLog, at_bytes: int):
    path = tmp_path / STATE_FILE
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    content = bytearray(path.read_bytes())
    content[at_bytes : at_bytes + 500] = b"\xff" * 500
    path.write_bytes(content)
    assert any("the state database is damaged" in p for p in problems(tmp_path))


def test_marks_of_what_was_deleted_are_forgotten(tmp_path: Path, log: ShardLog):
    database = Database(tmp_path / STATE_FILE)
    Marks(database, tmp_path).forget(log.folder.parent)
    database.close()
    discard(log.folder.parent)
    assert not log.folder.parent.exists()
    assert problems(tmp_path) == []


class TestClear:
    def test_an_unknown_folder_that_holds_records_is_kept_and_reported(
        self, tmp_path: Path, log: ShardLog, caplog: pytest.LogCaptureFixture
    ):
        with caplog.at_level(logging.ERROR):
            clear(log.folder.parent, set())
        assert log.folder.exists()
        assert "is left alone" in caplog.text

    def test_what_a_kill_left_of_a_creation_is_removed(self, tmp_path: Path):
        log = open_log(tmp_path)
        log.close_files()
        clear(log.folder.parent, set())
        assert not log.folder.exists()

    def test_what_a_kill_left_of_a_deletion_is_removed(self, tmp_path: Path, log: ShardLog):
        left = log.folder.with_name(log.folder.name + ".deleted")
        log.folder.rename(left)
        clear(log.folder.parent, set())
        assert not left.exists()

    def test_what_is_known_stays(self, tmp_path: Path, log: ShardLog):
        clear(log.folder.parent, {log.folder.name})
        assert log.folder.exists()
