"""What is left of a log after its end was torn, and what `check` finds wrong."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.store import segment
from headrace.store.check import Problem, check_log
from headrace.store.losses import LogDamaged
from headrace.store.shard_log import identity_of
from tests.unit.store.logs import STREAM_ID, open_log, put, segments, texts

BATCHES = st.lists(st.lists(st.text(max_size=30), min_size=1, max_size=5), min_size=1, max_size=12)


def check(data_dir: Path) -> list[Problem]:
    """What is wrong with the logs alone."""
    folder = data_dir / "streams" / STREAM_ID
    return [
        problem
        for shard in sorted(folder.iterdir())
        for problem in check_log(shard, identity_of(STREAM_ID, shard.name))
    ]


def _forget_indexes(folder: Path) -> None:
    """Leave what a kill before the first save of an index leaves."""
    for path in folder.glob("streams/*/*/*.index"):
        path.unlink()


def _fill(folder: Path, batches: list[list[str]], roll_at_bytes: int) -> tuple[Path, list[int]]:
    """Write batches; returns the last segment and how long it was before each of its batches."""
    log = open_log(folder, roll_at_bytes=roll_at_bytes)
    ends: list[int] = []
    tail = segments(log)[-1]
    for batch in batches:
        put(log, batch)
        if segments(log)[-1] != tail:
            tail = segments(log)[-1]
            ends = []
        ends.append(tail.stat().st_size)
    log.close_files()
    return tail, ends


@settings(max_examples=150, deadline=None)
@given(BATCHES, st.data())
def test_a_cut_loses_only_the_batches_that_it_cut(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]], data: st.DataObject
):
    folder = tmp_path_factory.mktemp("log")
    roll_at_bytes = data.draw(st.sampled_from([300, 1 << 30]))
    tail, ends = _fill(folder, batches, roll_at_bytes)
    # Its index would know better: see tests/unit/store/test_losses.py.
    tail.with_suffix(".index").unlink()
    cut_at = data.draw(st.integers(0, tail.stat().st_size))
    with tail.open("r+b") as file:
        file.truncate(cut_at)
    log = open_log(folder, roll_at_bytes=roll_at_bytes)
    before_tail = len(batches) - len(ends)
    whole = before_tail + sum(end <= cut_at for end in ends)
    kept = [text for batch in batches[:whole] for text in batch]
    assert texts(log) == kept
    numbers = put(log, ["next"])
    assert texts(log) == [*kept, "next"]
    log.close_files()
    assert texts(open_log(folder)) == [*kept, "next"]
    assert len(numbers) == 1
    assert check(folder) == []


@settings(max_examples=150, deadline=None)
@given(BATCHES, st.data())
def test_garbage_in_the_last_segment_costs_one_batch_and_is_told(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str]], data: st.DataObject
):
    folder = tmp_path_factory.mktemp("log")
    tail, ends = _fill(folder, batches, 1 << 30)
    _forget_indexes(folder)
    content = bytearray(tail.read_bytes())
    header_bytes = 52
    at = data.draw(st.integers(header_bytes, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    tail.write_bytes(content)
    assert check(folder) != []
    log = open_log(folder)
    hit = sum(end <= at for end in ends)
    before = [text for batch in batches[:hit] for text in batch]
    after = [text for batch in batches[hit + 1 :] for text in batch]
    lost_index = 1 + len(before)
    if after:
        # Damage, and no torn end: nothing is cut, and whoever comes there is told.
        (loss,) = log.losses
        assert (loss.first_index, loss.count) == (lost_index, len(batches[hit]))
        assert tail.read_bytes() == bytes(content)
        with pytest.raises(LogDamaged, match=str(tail)):
            texts(log)
        assert texts(log, loss.end_index) == after
    else:
        assert texts(log) == before
        assert bytes(content).endswith(tail.with_suffix(".cut").read_bytes())
        assert log.dropped_bytes == len(content) - ([header_bytes, *ends][hit])
    put(log, ["next"])
    assert texts(log, log.next_index - 1) == ["next"]
    log.close_files()


def test_the_bytes_of_a_torn_write_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    tail, _ = _fill(tmp_path, [["kept"]], 1 << 30)
    with tail.open("ab") as file:
        file.write(b"HRB1 torn")
    log = open_log(tmp_path)
    assert log.dropped_bytes == 9
    assert "cut 9 bytes" in caplog.text
    assert texts(log) == ["kept"]


def test_an_index_file_that_is_wrong_or_missing_is_made_anew(tmp_path: Path):
    wanted = [[f"{i}"] for i in range(20)]
    _fill(tmp_path, wanted, 400)
    log = open_log(tmp_path, roll_at_bytes=400)
    indexes = sorted(log.folder.glob("*.index"))
    assert len(indexes) >= 3
    log.close_files()
    indexes[0].write_bytes(b"nonsense" * 20)
    indexes[1].unlink()
    indexes[2].write_bytes(indexes[2].read_bytes()[:-1])
    again = open_log(tmp_path, roll_at_bytes=400)
    assert texts(again) == [text for batch in wanted for text in batch]
    assert check(tmp_path) == []


def test_a_log_that_was_closed_is_not_read_again_when_it_is_opened(tmp_path: Path):
    tail, _ = _fill(tmp_path, [["first"], ["second"]], 1 << 30)
    content = bytearray(tail.read_bytes())
    content[-5] ^= 1
    tail.write_bytes(content)
    log = open_log(tmp_path)
    # Not cut off, as a scan would have it: these records were whole when the log was closed.
    assert (log.dropped_bytes, log.next_index) == (0, 3)
    with pytest.raises(LogDamaged, match="checksum"):
        texts(log)
    log.close_files()


def test_an_index_of_before_the_system_started_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tail, ends = _fill(tmp_path, [["first"], ["second"]], 1 << 30)
    content = tail.read_bytes()
    tail.write_bytes(content[: ends[0]] + bytes(len(content) - ends[0]))
    monkeypatch.setattr(segment, "_BOOT", b"another boot...!")
    log = open_log(tmp_path)
    assert texts(log) == ["first"]
    log.close_files()


def test_an_index_that_speaks_of_what_was_cut_is_never_believed_later(tmp_path: Path):
    tail, ends = _fill(tmp_path, [["a" * 50], ["b" * 50]], 1 << 30)
    os.truncate(tail, ends[0])
    log = open_log(tmp_path)
    put(log, ["c"])
    put(log, ["d" * 200])
    # Killed: its index is not saved. What was put later is in a segment of its own, behind the numbers that were given.
    again = open_log(tmp_path)
    (loss,) = again.losses
    assert loss.first_index == 2
    assert texts(again, loss.end_index) == ["c", "d" * 200]
    again.close_files()


def test_what_came_after_the_index_was_saved_is_read(tmp_path: Path):
    log = open_log(tmp_path)
    put(log, ["first"])
    log.close_files()
    log = open_log(tmp_path)
    put(log, ["second"])
    # Killed here.
    again = open_log(tmp_path)
    assert texts(again) == ["first", "second"]
    assert again.index_at(0) == 1
    again.close_files()


class TestCheck:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        log = open_log(tmp_path, roll_at_bytes=300)
        for i in range(12):
            put(log, [f"record {i}"])
        log.close_files()
        assert len(segments(log)) > 4
        return tmp_path

    @pytest.fixture
    def files(self, folder: Path) -> list[Path]:
        return sorted(folder.glob("streams/*/*/*.log"))

    def test_a_sound_directory_has_no_problem(self, folder: Path):
        assert check(folder) == []

    def test_every_flipped_byte_is_found(self, folder: Path, files: list[Path]):
        chosen = random.Random(7)
        for path in files:
            content = path.read_bytes()
            for at in chosen.sample(range(len(content)), 25):
                bad = bytearray(content)
                bad[at] ^= 1 << chosen.randrange(8)
                path.write_bytes(bad)
                assert check(folder)[0].path == path
            path.write_bytes(content)

    def test_a_truncated_segment_is_found(self, folder: Path, files: list[Path]):
        files[1].write_bytes(files[1].read_bytes()[:-5])
        assert check(folder)[0].path == files[1]

    def test_a_missing_segment_is_found(self, folder: Path, files: list[Path]):
        files[2].unlink()
        assert "missing" in str(check(folder)[0])

    def test_a_missing_last_segment_is_found(self, folder: Path, files: list[Path]):
        files[-1].unlink()
        assert any("after this one is missing" in str(p) for p in check(folder))

    def test_every_flipped_byte_of_an_index_is_found(self, folder: Path):
        chosen = random.Random(8)
        indexes = sorted(folder.glob("streams/*/*/*.index"))
        assert len(indexes) > 4
        for path in indexes:
            content = path.read_bytes()
            for at in chosen.sample(range(len(content)), 10):
                bad = bytearray(content)
                bad[at] ^= 1 << chosen.randrange(8)
                path.write_bytes(bad)
                assert check(folder)[0].path == path
            path.write_bytes(content)

    def test_swapped_indexes_are_found(self, folder: Path):
        first, second = sorted(folder.glob("streams/*/*/*.index"))[:2]
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
        assert {problem.path for problem in check(folder)} == {first, second}
        # And they are not believed.
        log = open_log(folder, roll_at_bytes=300)
        assert texts(log) == [f"record {i}" for i in range(12)]
        log.close_files()

    def test_a_last_segment_cut_between_two_writes_is_found_by_its_index(
        self, folder: Path, tmp_path: Path
    ):
        shutil.rmtree(folder / "streams")
        tail, ends = _fill(folder, [["first"], ["second"]], 1 << 30)
        os.truncate(tail, ends[0])
        assert "had been written" in str(check(folder)[0])

    def test_a_shard_without_any_segment_is_found(self, folder: Path, files: list[Path]):
        for path in files[0].parent.iterdir():
            path.unlink()
        assert any("no segment" in str(p) for p in check(folder))

    def test_swapped_segments_are_found(self, folder: Path, files: list[Path]):
        first, second = files[0].read_bytes(), files[1].read_bytes()
        files[0].write_bytes(second)
        files[1].write_bytes(first)
        assert {p.path for p in check(folder)} >= {files[0], files[1]}

    def test_a_segment_copied_from_another_shard_is_found(self, folder: Path, files: list[Path]):
        theirs = open_log(folder, shard_id="shardId-000000000001")
        put(theirs, ["theirs"])
        theirs.close_files()
        shutil.copyfile(segments(theirs)[0], files[0])
        assert any("another shard" in str(p) for p in check(folder))
