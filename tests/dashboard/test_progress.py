"""A job's streaming queries, from a recorded event log of Spark 4.0.2: whole, and as a running job leaves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cramjam
import pytest

from headrace.dashboard import cloud_account
from headrace.dashboard.cloud_account import streaming_queries

# Recorded: Spark 4.0.2, the delays job of this repository; shortened to the members that are read.
PROGRESS: dict[str, Any] = {
    "id": "bdb073f2-e857-431b-a8ff-2beea1d59a70",
    "name": "delays",
    "timestamp": "2026-11-27T01:51:19.953Z",
    "batchId": 1,
    "batchDuration": 21832,
    "durationMs": {"triggerExecution": 21804},
    "eventTime": {"watermark": "2013-01-01T03:59:00.000Z"},
    "stateOperators": [
        {"numRowsTotal": 4, "memoryUsedBytes": 2792, "numRowsDroppedByWatermark": 0}
    ],
    "sources": [
        {
            "numInputRows": 60,
            "inputRowsPerSecond": 0.0,
            "processedRowsPerSecond": 2.7482594356907293,
        }
    ],
}
EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def log_of(*batches: dict[str, Any]) -> bytes:
    lines = [
        {"Event": "SparkListenerLogStart"},
        *({"Event": EVENT, "progress": b} for b in batches),
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def compress(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def write(folder: Path, data: bytes, number: int = 1) -> None:
    events = folder / "events" / "eventlog_v2_local-1"
    events.mkdir(parents=True, exist_ok=True)
    (events / f"events_{number}_local-1.zstd").write_bytes(data)


def test_a_query_has_its_batches_watermark_state_and_rates(tmp_path: Path) -> None:
    write(tmp_path, compress(log_of(PROGRESS, PROGRESS | {"batchId": 2})))
    (query,) = streaming_queries(tmp_path)
    assert (query["name"], [one["batchId"] for one in query["batches"]]) == ("delays", [1, 2])
    batch = query["batches"][0]
    assert (batch["rows"], batch["stateRows"], batch["durationMs"]) == (60, 4, 21832)
    assert batch["watermark"] == "2013-01-01T03:59:00.000Z"
    assert (batch["inputPerS"], round(batch["processedPerS"], 2)) == (0.0, 2.75)


def test_the_log_of_a_running_job_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    batches = [PROGRESS | {"batchId": number, "name": f"q{number}"} for number in range(5_000)]
    whole = compress(log_of(*batches))
    write(tmp_path, whole[: len(whole) * 2 // 3])
    (query,) = streaming_queries(tmp_path)
    assert len(query["batches"]) == 100
    assert 100 < query["batches"][-1]["batchId"] < 4_999


def test_the_newest_batch_of_a_long_log_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files after it have rolled without a batch, the newest has more text than is read, and tears at its end."""
    monkeypatch.setattr(cloud_account, "MOST_TEXT_BYTES", 1_000_000)
    noise = compress(b'{"Event":"SparkListenerTaskEnd"}\n' * 40_000)  # 1.3 MB of text
    write(tmp_path, compress(log_of(PROGRESS | {"id": "slow", "name": "slow", "batchId": 6})), 9)
    for number in range(10, 14):
        write(tmp_path, compress(log_of()), number)
    newest = compress(log_of(PROGRESS | {"batchId": 7}))
    write(tmp_path, noise + newest + newest[: len(newest) // 2], 14)
    queries = {one["name"]: one["batches"][-1]["batchId"] for one in streaming_queries(tmp_path)}
    assert queries == {"slow": 6, "delays": 7}
    # The file grows: the next batch is there at once.
    write(tmp_path, noise + newest + compress(log_of(PROGRESS | {"batchId": 8})), 14)
    (query,) = (one for one in streaming_queries(tmp_path) if one["name"] == "delays")
    assert [one["batchId"] for one in query["batches"]] == [7, 8]


def test_a_job_s_rate_is_that_of_its_newest_batches(tmp_path: Path) -> None:
    write(tmp_path, compress(log_of(PROGRESS)))
    queries = cloud_account.streaming_queries(tmp_path)
    ended_ms = 1_795_744_279_953 + 21_832  # 2026-11-27T01:51:19.953Z
    assert cloud_account.rate_of(queries, ended_ms + 59_000) == pytest.approx(2.748, abs=0.001)
    assert cloud_account.rate_of(queries, ended_ms + 61_000) == 0.0
    assert cloud_account.rate_of([], ended_ms) is None


def test_bytes_that_look_like_a_frame_hide_no_batch(tmp_path: Path) -> None:
    random = (
        bytes(n * n * 7919 % 251 for n in range(400)) + b"\x28\xb5\x2f\xfd" + bytes(range(11, 256))
    )
    packed = compress(random.replace(b"\n", b" ") + b"\n" + log_of(PROGRESS))
    assert packed.count(b"\x28\xb5\x2f\xfd") == 2
    write(tmp_path, packed + packed[:9])
    assert [one["batches"][0]["batchId"] for one in streaming_queries(tmp_path)] == [1]


def test_a_log_that_is_none_swells_nothing(tmp_path: Path) -> None:
    assert streaming_queries(tmp_path) == []
    write(tmp_path, b"no log")
    assert streaming_queries(tmp_path) == []
    write(tmp_path, compress(b"\0" * (200 << 20)))
    assert streaming_queries(tmp_path) == []
