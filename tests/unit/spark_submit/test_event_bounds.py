"""Event logs stay within bounds, and what Spark still needs of them stays whole."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from headrace.spark_submit.history import EventLogBounds, shorten
from headrace.spark_submit.job import JobProcess
from tests.support.history_home import make_event_log
from tests.support.server import wait_until

MIB = 1024 * 1024


def _rolled(path: Path, *sizes_bytes: int, codec: str = ".zstd") -> list[Path]:
    files = [path / f"events_{n}_local-1{codec}" for n in range(1, len(sizes_bytes) + 1)]
    for file, size_bytes in zip(files, sizes_bytes, strict=True):
        file.write_bytes(b"x" * size_bytes)
    (path / "appstatus_local-1.inprogress").touch()
    return files


def _changed(path: Path, time_s: int) -> None:
    for file in [*path.iterdir(), path]:
        os.utime(file, (time_s, time_s))


def test_the_middle_of_a_long_log_is_emptied_oldest_first(tmp_path: Path) -> None:
    files = _rolled(tmp_path, *[100] * 12)
    shorten(tmp_path, 950)
    sizes = [file.stat().st_size for file in files]
    assert sizes == [100, 9, 9, 9, *[100] * 8]
    # As zstd itself reads it: the file is a whole one that holds nothing.
    with pa.OSFile(str(files[1])) as file, pa.CompressedInputStream(file, "zstd") as unpacked:
        assert unpacked.read() == b""
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_the_first_file_and_the_newest_two_stay_whatever_their_size(tmp_path: Path) -> None:
    files = _rolled(tmp_path, *[100] * 4)
    shorten(tmp_path, 1)
    shorten(tmp_path, 1)
    assert [file.stat().st_size for file in files] == [100, 9, 100, 100]


def test_files_without_compression_become_empty_and_of_other_codecs_stay(tmp_path: Path) -> None:
    for name, codec, size_bytes in (("plain", "", 0), ("lz4", ".lz4", 100)):
        path = tmp_path / name
        path.mkdir()
        files = _rolled(path, *[100] * 4, codec=codec)
        shorten(path, 1)
        assert files[1].stat().st_size == size_bytes


def test_a_log_within_its_bound_stays_as_it_is(tmp_path: Path) -> None:
    files = _rolled(tmp_path, *[100] * 4)
    shorten(tmp_path, 400)
    assert [file.stat().st_size for file in files] == [100] * 4


def test_of_all_logs_those_that_ended_first_are_removed(data_dir: Path) -> None:
    logs = [make_event_log(data_dir, f"local-{n}", step=f"s-{n}") for n in range(3)]
    for n, path in enumerate(logs):
        _rolled(path, MIB)
        _changed(path, 1000 + n)
    EventLogBounds(data_dir, most_total_bytes=2 * MIB + MIB // 2).step()
    assert [path.exists() for path in logs] == [False, True, True]
    linked = sorted(path.name for path in (data_dir / "spark-history" / "logs").iterdir())
    assert linked == ["eventlog_v2_local-1", "eventlog_v2_local-2"]


def test_the_log_of_a_running_job_is_not_removed(data_dir: Path) -> None:
    running, ended = (make_event_log(data_dir, f"local-{n}", step=f"s-{n}") for n in range(2))
    for n, path in enumerate((running, ended)):
        _rolled(path, MIB)
        _changed(path, 1000 + n)
    folder = running.parent.parent
    process = JobProcess.start(
        folder, ["sleep", "60"], environment={"PATH": os.environ["PATH"]}, cwd=folder
    )
    try:
        # Between the call that starts it and its first instruction a process has no arguments to be known by.
        wait_until(lambda: (found := JobProcess.find(folder)) is not None and found.alive)
        EventLogBounds(data_dir, most_total_bytes=1).step()
        assert running.exists()
        assert not ended.exists()
    finally:
        process.kill()
