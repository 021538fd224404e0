"""The log of one shard: appending, reading, retention."""

from __future__ import annotations

import base64
import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.store.flusher import Flusher
from headrace.store.frame import SharedFrame
from headrace.store.losses import LogDamaged
from headrace.store.shard_log import LogClosed, LogFull, ShardLog
from tests.unit.store import logs
from tests.unit.store.logs import NOW_MS, open_log, put, records, segments, texts


def test_records_come_back_in_order_with_their_numbers_times_and_keys(tmp_path: Path):
    log = open_log(tmp_path)
    numbers = put(log, ["a", "b"]) + put(log, ["c"], NOW_MS + 1500)
    found = records(log)
    assert [record["SequenceNumber"] for record in found] == numbers
    assert [record["ApproximateArrivalTimestamp"] for record in found] == [
        NOW_MS / 1000,
        NOW_MS / 1000,
        NOW_MS / 1000 + 1.5,
    ]
    assert {record["PartitionKey"] for record in found} == {"k"}
    assert texts(log) == ["a", "b", "c"]


def test_numbers_increase_over_restarts_and_a_clock_that_goes_back(tmp_path: Path):
    numbers: list[str] = []
    for hours_back in range(4):
        log = open_log(tmp_path)
        numbers += put(log, ["x"] * 3, NOW_MS - hours_back * 3_600_000)
        log.close_files()
    assert [int(number) for number in numbers] == sorted({int(number) for number in numbers})
    assert [r["SequenceNumber"] for r in records(open_log(tmp_path))] == numbers


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.text(max_size=40), min_size=1, max_size=8), max_size=30),
    roll_at_bytes=st.integers(1, 4000),
    page=st.integers(1, 9),
    page_bytes=st.integers(1, 400) | st.just(logs.EVERYTHING),
    reopened=st.booleans(),
)
def test_any_page_size_and_any_segment_size_give_every_record_once(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[str]],
    roll_at_bytes: int,
    page: int,
    page_bytes: int,
    reopened: bool,
):
    folder = tmp_path_factory.mktemp("log")
    log = open_log(folder, roll_at_bytes=roll_at_bytes)
    for batch in batches:
        put(log, batch)
    if reopened:
        log.close_files()
        log = open_log(folder, roll_at_bytes=roll_at_bytes)
    wanted = [text for batch in batches for text in batch]
    assert texts(log) == wanted
    paged: list[str] = []
    index = 0
    while (batch := log.read(index, page, page_bytes)).count:
        assert batch.count <= page
        paged += texts(log, index)[: batch.count]
        index = batch.next_index
    assert paged == wanted


def test_a_read_stops_at_the_byte_limit_but_gives_one_record_at_least(tmp_path: Path):
    log = open_log(tmp_path)
    for letter in "abc":
        put(log, [letter * 1000])
    assert log.read(0, 100, 2100).count == 2
    assert log.read(0, 100, 10).count == 1


def test_a_time_finds_the_first_record_that_is_not_earlier(tmp_path: Path):
    log = open_log(tmp_path, roll_at_bytes=600)
    for second in range(50):
        put(log, [f"{second}a", f"{second}b"], NOW_MS + second * 1000)
    assert len(segments(log)) > 3
    for second in (0, 1, 17, 49):
        assert texts(log, log.index_at(NOW_MS + second * 1000))[0] == f"{second}a"
    assert texts(log, log.index_at(NOW_MS + 16_500))[0] == "17a"
    assert log.index_at(NOW_MS - 1) == 1
    assert log.index_at(NOW_MS + 49_001) == log.next_index


def test_retention_deletes_whole_segments_and_never_reuses_a_number(tmp_path: Path):
    log = open_log(tmp_path, roll_at_bytes=500)
    numbers = [put(log, [str(i)], NOW_MS + i * 1000)[0] for i in range(20)]
    log.trim(NOW_MS + 10_000)
    left = [int(text) for text in texts(log)]
    assert left == list(range(left[0], 20))
    assert 0 < left[0] <= 10
    log.trim(NOW_MS + 1_000_000)
    assert texts(log) == []
    log.close_files()
    again = open_log(tmp_path)
    assert int(put(again, ["new"], NOW_MS)[0]) > int(numbers[-1])


def test_a_reader_behind_retention_goes_on_from_the_oldest_record(tmp_path: Path):
    log = open_log(tmp_path, roll_at_bytes=500)
    for i in range(20):
        put(log, [str(i)], NOW_MS + i * 1000)
    log.trim(NOW_MS + 10_000)
    assert texts(log, 1) == texts(log, log.first_index)


def test_sealed_segments_hold_no_descriptors(tmp_path: Path):
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("needs /proc")
    log = open_log(tmp_path, roll_at_bytes=1)
    before = len(list(descriptors.iterdir()))
    for i in range(50):
        put(log, [str(i)])
    assert len(texts(log)) == 50
    log.trim(NOW_MS + 1)
    assert len(list(descriptors.iterdir())) <= before


def test_a_log_that_has_ended_takes_nothing_and_stays_readable(tmp_path: Path):
    log = open_log(tmp_path)
    put(log, ["a"])
    with log.lock:
        log.end()
    with pytest.raises(LogClosed):
        put(log, ["b"])
    assert texts(log) == ["a"]


class _FullDisk:
    """`os.pwrite` on a disk with room for so many bytes."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        self._pwrite = os.pwrite

    def __call__(self, fd: int, data: bytes, offset: int) -> int:
        if self.room_bytes == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part = data[: self.room_bytes]
        self.room_bytes -= len(part)
        return self._pwrite(fd, part, offset)


@pytest.mark.parametrize("room_bytes", [0, 1, 43, 44, 45, 150])
@pytest.mark.parametrize("roll_at_bytes", [1, 1 << 30], ids=["rolling", "same segment"])
def test_a_full_disk_refuses_the_batch_whole_and_the_next_one_finds_a_sound_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_bytes: int, roll_at_bytes: int
):
    log = open_log(tmp_path, roll_at_bytes=roll_at_bytes)
    first = put(log, ["before"])
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", _FullDisk(room_bytes))
        with pytest.raises(LogFull):
            put(log, ["refused" * 50])
    assert texts(log) == ["before"]
    after = put(log, ["after"])
    assert int(after[0]) > int(first[0])
    log.close_files()
    again = open_log(tmp_path, roll_at_bytes=roll_at_bytes)
    assert again.dropped_bytes == 0
    assert texts(again) == ["before", "after"]


def test_readers_see_whole_batches_while_others_append_roll_and_trim(tmp_path: Path):
    log = open_log(tmp_path, roll_at_bytes=20_000)
    done = threading.Event()
    problems: list[str] = []

    def read_on() -> None:
        index, last = 0, -1
        while not done.is_set() or index < log.next_index:
            batch = log.read(index, 1000, logs.EVERYTHING)
            numbers = [int(text) for payload in batch.payloads for text in _data_of(payload)]
            if len(numbers) != batch.count or any(n <= last for n in numbers[:1]):
                problems.append(f"{numbers[:3]} after {last}")
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False:
                problems.append("a gap inside one read")
            if len(numbers) % 10:
                problems.append("half a batch")
            last = numbers[-1] if numbers else last
            index = batch.next_index
            if not batch.count:
                done.wait(0.001)

    readers = [threading.Thread(target=read_on) for _ in range(2)]
    for reader in readers:
        reader.start()
    for first in range(0, 4000, 10):
        put(log, [str(first + i) for i in range(10)], NOW_MS + first)
        if first % 500 == 0:
            log.trim(NOW_MS + first - 1000)
    done.set()
    for reader in readers:
        reader.join(30)
    assert not problems


def _data_of(payload: bytes | memoryview) -> list[str]:
    return [
        base64.b64decode(r["Data"]).decode() for r in json.loads(b"".join((b"[", payload, b"]")))
    ]


class TestFlusher:
    def test_one_sync_serves_all_who_wait_and_rolled_segments_are_synced_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        synced: list[int] = []
        fsync = os.fsync

        def noting(fd: int) -> None:
            synced.append(os.fstat(fd).st_ino)
            fsync(fd)

        monkeypatch.setattr(os, "fsync", noting)
        log = open_log(tmp_path, roll_at_bytes=1)
        flusher = Flusher()
        try:
            put(log, ["a"])
            put(log, ["b"])
            put(log, ["c"])
            flusher.sync(log).result(10)
        finally:
            flusher.stop()
        assert {path.stat().st_ino for path in segments(log)} <= set(synced)
        assert log.folder.stat().st_ino in synced

    def test_a_sync_that_fails_fails_those_who_wait(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        def fail(fd: int) -> None:
            raise OSError(errno.EIO, "broken")

        log = open_log(tmp_path)
        put(log, ["a"])
        flusher = Flusher()
        try:
            monkeypatch.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="broken"):
                flusher.sync(log).result(10)
            monkeypatch.undo()
            flusher.sync(log).result(10)
        finally:
            flusher.stop()


class TestSharedFrames:
    def share(self, log: ShardLog, text: str, now_ms: int = NOW_MS) -> SharedFrame:
        data = base64.b64encode(text.encode()).decode()
        return log.append_shared(data, "k", len(text) + 1, now_ms, "")[1]

    def test_its_records_are_there_once_it_is_written(self, tmp_path: Path):
        log = open_log(tmp_path)
        frames = {self.share(log, text) for text in "abc"}
        assert (len(frames), texts(log)) == (1, [])
        assert all(frame.write() for frame in frames)
        assert texts(log) == ["a", "b", "c"]

    def test_what_happens_once_it_is_written_happens_once(self, tmp_path: Path):
        log, told = open_log(tmp_path), list[list[int]]()
        frame = self.share(log, "a")
        frame.then = lambda written: told.append(written.sizes)
        put(log, ["b"])
        assert told == []
        assert frame.write()
        assert frame.write()
        assert told == [[2]]

    def test_the_end_of_the_log_writes_it(self, tmp_path: Path):
        log = open_log(tmp_path)
        frame = self.share(log, "a")
        with log.lock:
            log.end()
        assert frame.write()
        with pytest.raises(LogClosed):
            self.share(log, "b")
        assert texts(open_log(tmp_path)) == ["a"]

    def test_who_writes_it_waits_for_another_who_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        log, writing, may_end = open_log(tmp_path), threading.Event(), threading.Event()
        frame, write = self.share(log, "a"), os.pwrite

        def write_slowly(fd: int, data: bytes, offset: int) -> int:
            writing.set()
            assert may_end.wait(10)
            return write(fd, data, offset)

        monkeypatch.setattr(os, "pwrite", write_slowly)
        with ThreadPoolExecutor(2) as threads:
            other = threads.submit(put, log, ["b"])
            assert writing.wait(10)
            ours = threads.submit(frame.write)
            may_end.set()
            assert ours.result(10)
            other.result(10)
        assert texts(log) == ["a", "b"]

    def test_a_full_disk_leaves_nothing_of_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        log = open_log(tmp_path)
        with monkeypatch.context() as full:
            full.setattr(os, "pwrite", _FullDisk(20))
            frame = self.share(log, "a")
            assert not frame.write()
        numbers = put(log, ["b"])
        assert not frame.write()
        assert texts(log) == ["b"]
        assert [record["SequenceNumber"] for record in records(log)] == numbers

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            st.tuples(st.sampled_from(["share", "put", "write", "roll"]), st.integers(0, 2)),
            max_size=25,
        )
    )
    def test_the_log_is_as_if_each_record_were_put_by_itself(
        self, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
    ):
        """Whatever else is appended between, at whatever time, and with whatever new segments."""
        alone, shared = (open_log(tmp_path_factory.mktemp("log")) for _ in range(2))
        now_ms, numbers, frames = NOW_MS, ([], []), list[SharedFrame]()
        for number, (step, passed_ms) in enumerate(steps):
            now_ms += passed_ms
            if step == "write" and frames:
                assert frames[-1].write()
            elif step == "roll":
                for log in (alone, shared):
                    log.trim(0 if passed_ms else now_ms - 60_000)
            else:
                numbers[0].extend(put(alone, [str(number)], now_ms))
                if step == "put":
                    numbers[1].extend(put(shared, [str(number)], now_ms))
                else:
                    data = base64.b64encode(str(number).encode()).decode()
                    sequence, frame = shared.append_shared(data, "k", 2, now_ms, "")
                    numbers[1].append(sequence)
                    frames.append(frame)
        assert all(frame.write() for frame in frames)
        assert numbers[0] == numbers[1]
        assert records(shared) == records(alone)


def test_a_flipped_bit_is_never_served(tmp_path: Path):
    log = open_log(tmp_path)
    put(log, ["first"])
    put(log, ["second"])
    _flip(segments(log)[0], -10)
    assert log.read(0, 1, logs.EVERYTHING).count == 1
    with pytest.raises(LogDamaged, match="checksum"):
        log.read(2, 1, logs.EVERYTHING)


def test_a_segment_of_another_shard_is_not_opened(tmp_path: Path):
    other = open_log(tmp_path, shard_id="shardId-000000000001")
    put(other, ["theirs"])
    log: ShardLog = open_log(tmp_path)
    path = segments(log)[0]
    log.close_files()
    path.write_bytes(segments(other)[0].read_bytes())
    again = open_log(tmp_path)
    with pytest.raises(LogDamaged, match="another shard"):
        records(again)
    assert path.read_bytes() == segments(other)[0].read_bytes()


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(bytes(data))
