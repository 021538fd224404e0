"""Adds shards to on-demand streams as their traffic grows.

Documented: a stream starts with 4 MiB/s of writes and accepts up to twice the highest throughput of the last 30 days,
up to the account's quota; traffic that more than doubles within 15 minutes may be throttled. Assumed: throughput is
measured over whole minutes, in bytes or in records, whichever needs more shards; the shards that took the most records
in the last minute are split in the middle; a stream doubles at most every 15 minutes, and never shrinks.
"""

from __future__ import annotations

import logging
import math
from typing import Final

from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.limits import DAY_MS, ON_DEMAND_SHARD_QUOTA, ON_DEMAND_SHARDS
from headrace.services.kinesis.shards.reshard import ReshardStep, reshard
from headrace.services.kinesis.state import Shard, Stream

log = logging.getLogger(__name__)

MINUTE_S: Final = 60
PEAK_DAYS: Final = 30
DOUBLES_EVERY_MS: Final = 15 * 60_000
SHARD_BYTES_PER_S: Final = 1024 * 1024
SHARD_RECORDS_PER_S: Final = 1000


class Growth:
    """Splits shards of on-demand streams according to each minute's traffic. Only one thread may use it at a time."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis
        self._grown_ms: dict[str, int] = {}
        # By stream id and shard number: the index that the next record had a minute ago.
        self._seen: dict[str, dict[int, int]] = {}

    def forget_deleted(self) -> None:
        """Drop the data about streams that were deleted."""
        present = self._kinesis.by_id
        self._grown_ms = {i: at for i, at in self._grown_ms.items() if i in present}
        self._seen = {i: seen for i, seen in self._seen.items() if i in present}

    def note_minute(self, stream: Stream, arrived_bytes: int, records: int, now_ms: int) -> None:
        """Record a stream's traffic in the last minute, and split shards if the stream needs more of them."""
        if stream.mode != "ON_DEMAND":
            self._grown_ms.pop(stream.stream_id, None)
            self._seen.pop(stream.stream_id, None)
            return
        kinesis = self._kinesis
        with kinesis.lock:
            if kinesis.by_id.get(stream.stream_id) is not stream:
                return
            weights = self._weights(stream)
            used = max(arrived_bytes / SHARD_BYTES_PER_S, records / SHARD_RECORDS_PER_S) / MINUTE_S
            self._note_peak(stream, used, now_ms)
            more = wanted_shards(stream, now_ms) - len(stream.open_shards)
            if more > 0 and self._may_grow(stream, now_ms):
                self._grow(stream, min(more, len(stream.open_shards)), weights, now_ms)

    def _weights(self, stream: Stream) -> dict[int, int]:
        """Return how many records each open shard took since the last minute."""
        at = {s.number: s.log.next_index for s in stream.open_shards if s.log is not None}
        before = self._seen.get(stream.stream_id, {})
        self._seen[stream.stream_id] = at
        return {number: index - before.get(number, 0) for number, index in at.items()}

    def _note_peak(self, stream: Stream, used: float, now_ms: int) -> None:
        day = now_ms // DAY_MS
        if used <= stream.daily_peaks.get(str(day), 0):
            return
        kept = {d: peak for d, peak in stream.daily_peaks.items() if day - int(d) < PEAK_DAYS}
        stream.daily_peaks = {**kept, str(day): used}
        self._kinesis.save(stream)

    def _may_grow(self, stream: Stream, now_ms: int) -> bool:
        if stream.status(now_ms) != "ACTIVE":
            return False
        return now_ms - self._grown_ms.get(stream.stream_id, -DOUBLES_EVERY_MS) >= DOUBLES_EVERY_MS

    def _grow(self, stream: Stream, more: int, weights: dict[int, int], now_ms: int) -> None:
        hottest = sorted(
            (shard for shard in stream.open_shards if _width(shard) > 2),
            key=lambda shard: (-weights.get(shard.number, 0), -_width(shard), shard.number),
        )
        steps: list[ReshardStep] = []
        for shard in hottest[:more]:
            middle = (shard.starting_hash_key + shard.ending_hash_key + 1) // 2
            first = (shard.starting_hash_key, middle - 1)
            steps.append(([shard], [first, (middle, shard.ending_hash_key)]))
        before = len(stream.open_shards)
        reshard(self._kinesis, stream, steps, now_ms)
        self._grown_ms[stream.stream_id] = now_ms
        log.info("%s grew from %d to %d shards", stream.arn, before, len(stream.open_shards))


def wanted_shards(stream: Stream, now_ms: int) -> int:
    """Return how many shards an on-demand stream needs for twice its peak traffic, within its minimum and maximum."""
    day = now_ms // DAY_MS
    peaks = [peak for d, peak in stream.daily_peaks.items() if day - int(d) < PEAK_DAYS]
    least = max(ON_DEMAND_SHARDS, stream.warm_throughput_mibps or 0)
    most = max(least, ON_DEMAND_SHARD_QUOTA)
    return min(most, max(least, math.ceil(2 * max(peaks, default=0.0))))


def _width(shard: Shard) -> int:
    return shard.ending_hash_key - shard.starting_hash_key + 1
