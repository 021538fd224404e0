"""Counts the requests and records of each stream for CloudWatch: a statistic for each metric.

A request does as little counting as possible; once a minute `metrics` turns the counts into AWS's metrics.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Sequence


class Stat:
    """Count, sum, minimum and maximum of a metric's values."""

    __slots__ = ("count", "least", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.least = 0
        self.most = 0

    def note(self, value: int) -> None:
        """Add one value."""
        if not self.count or value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        self.count += 1
        self.total += value

    def note_many(self, value: int, times: int) -> None:
        """Add the same value several times."""
        if times > 0:
            self.note(value)
            self.count += times - 1
            self.total += value * (times - 1)

    def note_all(self, values: Sequence[int]) -> None:
        """Add several values (at least one)."""
        least, most = min(values), max(values)
        self.least = least if not self.count else min(self.least, least)
        self.most = max(self.most, most)
        self.count += len(values)
        self.total += sum(values)

    def merge(self, other: Stat) -> None:
        """Add the values of another statistic."""
        if not other.count:
            return
        self.least = other.least if not self.count else min(self.least, other.least)
        self.most = max(self.most, other.most)
        self.count += other.count
        self.total += other.total


# PutRecord's values are collected and added 512 at a time, which halves the time that counting takes.
FOLD_AT = 512

# (metric, shard id or "", consumer name or "")
Key = tuple[str, str, str]


class StreamCounters:
    """The counts of one stream. Thread-safe; `take` resets them."""

    __slots__ = ("_get_records", "_put_record", "_put_records", "_singles", "lock", "stats")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._singles: deque[tuple[int, int]] = deque()
        self._start()

    def _start(self) -> None:
        self.stats: defaultdict[Key, Stat] = defaultdict(Stat)
        stats = self.stats
        # Look these up once: a dictionary lookup with a tuple costs more than the counting.
        self._put_record = [stats["PutRecord." + n, "", ""] for n in ("Bytes", "Latency")]
        names = ("Bytes", "Latency", "SuccessfulRecords", "TotalRecords")
        self._put_records = [stats["PutRecords." + name, "", ""] for name in names]
        names = ("Bytes", "Latency", "Records")
        self._get_records = [stats["GetRecords." + name, "", ""] for name in names]
        self._get_records.append(stats["GetRecords.IteratorAgeMilliseconds", "", ""])

    def take(self) -> dict[Key, Stat]:
        """Return the counts since the last call, and reset them."""
        with self.lock:
            self._fold()
            taken = self.stats
            self._start()
        return {key: stat for key, stat in taken.items() if stat.count}

    def put_record(self, data_bytes: int, latency_ms: int) -> None:
        """Count a PutRecord that stored its record."""
        # No lock is needed: append and popleft of a deque are atomic.
        self._singles.append((data_bytes, latency_ms))
        if len(self._singles) >= FOLD_AT:
            with self.lock:
                self._fold()

    def _fold(self) -> None:
        singles = self._singles
        lot = [singles.popleft() for _ in range(len(singles))]
        if lot:
            size, latency = self._put_record
            size.note_all([data_bytes for data_bytes, _ in lot])
            latency.note_all([latency_ms for _, latency_ms in lot])

    def put_records(self, data_bytes: int, stored: int, total: int, latency_ms: int) -> None:
        """Count a PutRecords."""
        with self.lock:
            size, latency, successful, records = self._put_records
            size.note(data_bytes)
            latency.note(latency_ms)
            successful.note(stored)
            records.note(total)
            if not stored:
                self.stats["PutRecords.Success", "", ""].note(0)

    def refused(self, operation: str, throttled: int, failed: int) -> None:
        """Count the records of one request that were not stored."""
        with self.lock:
            stats = self.stats
            if operation == "PutRecords":
                stats["PutRecords.ThrottledRecords", "", ""].note(throttled)
                stats["PutRecords.FailedRecords", "", ""].note(failed)
            else:
                stats["PutRecord.Success", "", ""].note(0)
            if throttled:
                stats["WriteProvisionedThroughputExceeded", "", ""].note(throttled)

    def get_records(self, data_bytes: int, records: int, behind_ms: int, latency_ms: int) -> None:
        """Count a GetRecords."""
        with self.lock:
            size, latency, count, age = self._get_records
            size.note(data_bytes)
            latency.note(latency_ms)
            count.note(records)
            age.note(behind_ms)

    def note(self, metric: str, value: int, *, shard: str = "", consumer: str = "") -> None:
        """Count a value of any metric of the stream, of a shard or of a consumer."""
        with self.lock:
            self.stats[metric, shard, consumer].note(value)
