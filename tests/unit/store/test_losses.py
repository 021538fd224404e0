"""Records that vanished: what is said when the log is opened, what readers get, and what a repair leaves."""

from __future__ import annotations

import bisect
import os
import shutil
from pathlib import Path

import pytest

from headrace.store import check as marks_module
from headrace.store.check import Marks, check, identity_of_folder, read_known
from headrace.store.database import STATE_FILE, Database
from headrace.store.losses import UNCERTAIN, KnownLog, LogDamaged
from headrace.store.repair_database import QUARANTINE_FOLDER, repair_logs
from headrace.store.shard_log import ShardLog, identity_of
from tests.support.killed import run_killed
from tests.unit.store.logs import (
    BASE,
    NOW_MS,
    SHARD_ID,
    STREAM_ID,
    open_log,
    put,
    records,
    segments,
    texts,
)

FOLDER = Path("streams", STREAM_ID, SHARD_ID)


def make(data_dir: Path, *, roll_at_bytes: int = 300) -> list[Path]:
    """Write twelve records, note the marks, and return the segments."""
    log = open_log(data_dir, roll_at_bytes=roll_at_bytes)
    for n in range(12):
        put(log, [f"record {n}"], NOW_MS + 1000 * n)
    database = Database(data_dir / STATE_FILE)
    Marks(database, data_dir).note([log])
    database.close()
    log.close_files()
    return segments(log)


def reopen(data_dir: Path, *, roll_at_bytes: int = 300) -> ShardLog:
    """Open the log as a cloud does: with what the state database knows."""
    database = Database(data_dir / STATE_FILE)
    marks = Marks(database, data_dir)
    folder = data_dir / FOLDER
    known = marks.known().get(folder, KnownLog())
    identity = identity_of(STREAM_ID, SHARD_ID)
    log = ShardLog(folder, BASE, identity, known=known, roll_at_bytes=roll_at_bytes)
    marks.note_losses(log)
    marks.note([log])
    database.close()
    return log


def repair(data_dir: Path) -> list[str]:
    database = Database(data_dir / STATE_FILE)
    try:
        known = read_known(data_dir / STATE_FILE)
        return list(repair_logs(data_dir, database, known, {data_dir / FOLDER: BASE}))
    finally:
        database.close()


def forget_indexes(data_dir: Path) -> None:
    for path in (data_dir / FOLDER).glob("*.index"):
        path.unlink()


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["emptied", "removed"])
@pytest.mark.parametrize("indexes", ["kept", "gone"])
@pytest.mark.parametrize("which", ["first", "middle", "last", "all"])
def test_a_segment_that_vanished_is_told_and_never_skipped_in_silence(
    tmp_path: Path, how: str, indexes: str, which: str
):
    paths = make(tmp_path)
    whole = open_log(tmp_path, roll_at_bytes=300)
    numbers = [record["SequenceNumber"] for record in records(whole)]
    whole.close_files()
    hit = {"first": paths[:1], "middle": paths[2:4], "last": paths[-1:], "all": paths}[which]
    for path in hit:
        if how == "emptied":
            path.write_bytes(b"")
        else:
            path.unlink()
            if indexes == "gone":
                path.with_suffix(".index").unlink()
    if indexes == "gone":
        forget_indexes(tmp_path)
    starts = [int(path.stem) for path in paths]
    gone = [n for n in range(12) if paths[bisect.bisect_right(starts, n + 1) - 1] in hit]
    for _ in range(2):  # told at every start, until it is accepted
        log = reopen(tmp_path)
        told = [log.describe(loss) for loss in log.losses]
        assert len(told) == 1
        records_word = "1 record is" if len(gone) == 1 else f"{len(gone)} records are"
        assert told[0].startswith(f"{records_word} missing of {SHARD_ID}, number {gone[0] + 1}")
        assert hit[0].name in told[0]
        if gone[0]:
            assert f"after sequence number {numbers[gone[0] - 1]}" in told[0]
        if gone[-1] < 11:
            assert f"before {numbers[gone[-1] + 1]}" in told[0]
        kept_before = [f"record {n}" for n in range(gone[0])]
        if kept_before:
            batch = log.read(1, 10_000, 1 << 30)
            assert batch.count == len(kept_before)
            assert batch.next_index == gone[0] + 1
        for n in gone:
            with pytest.raises(LogDamaged, match="missing"):
                log.read(n + 1, 1, 1)
        assert texts(log, gone[-1] + 2 if gone[-1] < 11 else log.next_index) == [
            f"record {n}" for n in range(gone[-1] + 1, 12)
        ]
        log.close_files()
    log = reopen(tmp_path)
    # Numbers that were given are never given again.
    (number,) = put(log, ["new"], NOW_MS + 1_000_000)
    assert int(number) > int(numbers[-1])
    log.close_files()
    assert list(check(tmp_path)) != []

    said = repair(tmp_path)
    assert sum(line.startswith("lost: ") for line in said) == 1
    assert repair(tmp_path) == []
    log = reopen(tmp_path)
    kept = [f"record {n}" for n in range(12) if n not in gone]
    assert texts(log) == [*kept, "new"]
    assert [loss for loss in log.losses if not loss.accepted] == []
    log.close_files()
    assert list(check(tmp_path)) == []


def test_records_that_came_after_the_last_mark_do_not_lend_their_numbers_to_others(tmp_path: Path):
    (path,) = make(tmp_path, roll_at_bytes=1 << 30)
    log = reopen(tmp_path, roll_at_bytes=1 << 30)
    (unmarked,) = put(log, ["after the mark"])
    forget_indexes(tmp_path)
    path.write_bytes(b"")
    log = reopen(tmp_path)
    assert "and perhaps some that were put in the minute after them" in log.describe(log.losses[0])
    (number,) = put(log, ["new"])
    assert int(number) > int(unmarked)
    assert log.next_index > UNCERTAIN


@pytest.mark.parametrize("indexes", ["kept", "gone"])
def test_a_flipped_byte_is_cut_out_and_kept_aside(tmp_path: Path, indexes: str):
    (path,) = make(tmp_path, roll_at_bytes=1 << 30)
    if indexes == "gone":
        forget_indexes(tmp_path)
    original = path.read_bytes()
    at = original.index(b"HRB1", 1000)
    flip(path, at + 60)
    damaged = path.read_bytes()
    log = reopen(tmp_path)
    assert path.read_bytes() == damaged
    got = log.read(0, 10_000, 1 << 30)
    assert 0 < got.count < 11
    with pytest.raises(LogDamaged, match=str(path)) as caught:
        log.read(got.next_index, 10_000, 1 << 30)
    assert caught.value.end_index == got.next_index + 1
    assert len(texts(log, got.next_index + 1)) == 11 - got.count
    log.close_files()

    said = repair(tmp_path)
    assert [line.partition(" ")[0] for line in said] == [f"{path}:", "lost:"]
    (aside,) = [p for p in (tmp_path / QUARANTINE_FOLDER).rglob("*") if p.is_file()]
    frame_end = damaged.index(b"HRB1", at + 1)
    assert aside.read_bytes() == damaged[at:frame_end]
    log = reopen(tmp_path)
    wanted = [f"record {n}" for n in range(12)]
    del wanted[got.next_index - 1]
    assert texts(log) == wanted
    log.close_files()
    assert list(check(tmp_path)) == []
    assert repair(tmp_path) == []


@pytest.mark.parametrize("at", [0, 9, 20, 51])
@pytest.mark.parametrize("place", [0, 2, -1])
def test_a_damaged_header_costs_no_record(tmp_path: Path, at: int, place: int):
    path = make(tmp_path)[place]
    flip(path, at)
    log = reopen(tmp_path)
    assert log.losses
    log.close_files()
    assert list(check(tmp_path)) != []
    repair(tmp_path)
    log = reopen(tmp_path)
    assert texts(log) == [f"record {n}" for n in range(12)]
    log.close_files()
    assert list(check(tmp_path)) == []


def test_a_repair_that_is_killed_anywhere_is_finished_by_the_next(tmp_path: Path, nightly: bool):
    """Kill it before each system call that changes something, by day before each third, and do it again."""
    damaged = tmp_path / "damaged"
    paths = make(damaged, roll_at_bytes=600)
    flip(paths[1], 300)
    paths[2].write_bytes(b"")
    flip(paths[-1], 20)
    results, changes, is_done = set[tuple[str, ...]](), 0, False
    while not is_done:
        data_dir = tmp_path / "work"
        shutil.copytree(damaged, data_dir)
        is_done = run_killed(lambda: repair(data_dir), changes)  # noqa: B023 - run at once
        repair(data_dir)
        log = reopen(data_dir)
        kept = texts(log)
        log.close_files()
        assert len(kept) >= 8
        results.add(tuple(kept))
        assert list(check(data_dir)) == []
        assert repair(data_dir) == []
        shutil.rmtree(data_dir)
        changes += 1 if nightly else 3
    assert changes > 20
    assert len(results) == 1


def test_what_a_power_cut_takes_is_told_and_does_not_hold_readers_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (path,) = make(tmp_path, roll_at_bytes=1 << 30)
    content = path.read_bytes()
    os.truncate(path, content.rindex(b"HRB1"))
    forget_indexes(tmp_path)
    monkeypatch.setattr(marks_module, "_BOOT", "another")
    log = reopen(tmp_path)
    (loss,) = log.losses
    assert loss.accepted
    assert "system went down" in log.describe(loss)
    put(log, ["new"])
    assert texts(log) == [*(f"record {n}" for n in range(11)), "new"]
    log.close_files()


def test_retention_is_no_loss(tmp_path: Path):
    make(tmp_path)
    database = Database(tmp_path / STATE_FILE)
    marks = Marks(database, tmp_path)
    log = open_log(tmp_path, roll_at_bytes=300)
    log.before_trim = lambda start: marks.note_start(log, start)
    assert log.trim(NOW_MS + 5000) > 0
    left = texts(log)
    log.close_files()
    database.close()
    assert 0 < len(left) < 12
    log = reopen(tmp_path)
    assert log.losses == []
    assert texts(log) == left
    assert texts(log, 1) == left
    log.close_files()
    assert list(check(tmp_path)) == []
    # But what is taken from the front behind retention's back is one.
    log.folder.joinpath(segments(log)[0].name).unlink()
    assert len(reopen(tmp_path).losses) == 1


def test_appends_and_marks_go_on_while_retention_notes_its_start(tmp_path: Path):
    make(tmp_path)
    database = Database(tmp_path / STATE_FILE)
    marks = Marks(database, tmp_path)
    log = open_log(tmp_path, roll_at_bytes=300)
    seen: list[str] = []

    def note(start: int) -> None:
        # Another thread may append and mark between the note and the deletion.
        assert not log.lock.locked()
        marks.note_start(log, start)
        put(log, ["meanwhile"])
        marks.note([log])
        seen.extend(texts(log))

    log.before_trim = note
    assert log.trim(NOW_MS + 5000) > 0
    assert seen[0] == "record 0"
    left = texts(log)
    assert left[-1] == "meanwhile"
    marks.note([log])
    log.close_files()
    database.close()
    log = reopen(tmp_path)
    # The mark between them names the start that was announced, so nothing is missed now.
    assert log.losses == []
    assert texts(log) == left
    log.close_files()


def test_a_time_in_a_loss_leads_to_the_loss(tmp_path: Path):
    paths = make(tmp_path)
    paths[2].write_bytes(b"")
    log = reopen(tmp_path)
    # The third record is gone, which arrived after two seconds: it may be the first that is asked for.
    asked_s = (0, 1, 1.5, 2, 3, 3.5, 4)
    assert [log.index_at(NOW_MS + int(1000 * s)) for s in asked_s] == [1, 2, 3, 3, 3, 5, 5]
    log.close_files()


def test_marks_of_the_first_version_are_understood(tmp_path: Path):
    make(tmp_path)
    database = Database(tmp_path / STATE_FILE)
    database.documents("shard_log_marks").put(FOLDER.as_posix(), 13)
    database.close()
    log = reopen(tmp_path)
    assert log.losses == []
    assert len(texts(log)) == 12
    log.close_files()


def test_the_identity_of_a_folder_is_its_logs(tmp_path: Path):
    log = open_log(tmp_path)
    assert identity_of_folder(tmp_path, log.folder) == identity_of(STREAM_ID, SHARD_ID)


@pytest.mark.parametrize("at", range(36))
def test_what_stands_behind_a_damaged_header_is_found_wherever_it_points(tmp_path: Path, at: int):
    """A length that is wrong leads into the middle of a later frame, or past the one that is wanted."""
    (path,) = make(tmp_path, roll_at_bytes=1 << 30)
    content = path.read_bytes()
    frames_at = [n for n in range(len(content)) if content.startswith(b"HRB1", n)]
    for bit in (1, 16, 128):
        spoiled = bytearray(content)
        spoiled[frames_at[4] + at] ^= bit
        path.write_bytes(spoiled)
        log = open_log(tmp_path)
        assert log.read(1, 10_000, 1 << 30).count == 4
        with pytest.raises(LogDamaged) as caught:
            log.read(5, 1, 1 << 30)
        assert (caught.value.first_index, caught.value.end_index) == (5, 6)
        for index in range(6, 13):
            assert texts(log, index) == [f"record {n}" for n in range(index - 1, 12)]
        log.close_files()
        path.with_suffix(".index").unlink(missing_ok=True)
        path.write_bytes(content)


def test_a_length_that_points_at_a_later_frame_hides_none(tmp_path: Path):
    (path,) = make(tmp_path, roll_at_bytes=1 << 30)
    content = bytearray(path.read_bytes())
    frames_at = [n for n in range(len(content)) if content.startswith(b"HRB1", n)]
    # The third frame now ends where the sixth does.
    length = frames_at[6] - frames_at[2] - 36
    content[frames_at[2] + 8 : frames_at[2] + 12] = length.to_bytes(4, "little")
    path.write_bytes(content)
    log = reopen(tmp_path)
    for index in range(4, 13):
        assert texts(log, index) == [f"record {n}" for n in range(index - 1, 12)]
    with pytest.raises(LogDamaged):
        log.read(3, 1, 1 << 30)
    log.close_files()
