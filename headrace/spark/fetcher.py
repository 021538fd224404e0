"""Reads one shard ahead of the planned micro-batches, and keeps the records in the spool."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headrace.spark.get_records import ExpiredIterator, Page
from headrace.spark.offsets import Init, Offset
from headrace.spark.options import Options
from headrace.spark.reading import Pace
from headrace.spark.spans import LEAST_RETENTION_S, Shard, check_retention
from headrace.spark.spool import ShardSpool
from headrace.spark.untyped import pa

# A separate micro-batch costs more than this wait.
_SHORT_WAIT_S = 0.05


def wall_s() -> float:
    """Return the time of day, which continues while a machine sleeps."""
    return time.time_ns() / 1e9


class StreamCalls(Protocol):
    """The calls to Kinesis that the planner makes; see `KinesisClient`."""

    def shards(self) -> list[Shard]:
        """Return every listed shard."""
        ...

    def now_ms(self) -> tuple[int, int]:
        """Return a lower and an upper bound of the stream's time."""
        ...

    def retention_ms(self) -> int:
        """Return how long the stream keeps a record."""
        ...

    def iterator(self, shard_id: str, after: str | None, init: Init) -> str:
        """Return an iterator after a sequence number, or at the starting position."""
        ...

    def records(self, iterator: str, limit: int) -> Page:
        """Return the next records. Raises ExpiredIterator."""
        ...


class Fetcher:
    """Reads one shard from an offset on. Used by one thread at a time.

    Attributes:
        spool: the records that it has read.
        ended: whether the closed shard's last record is in the spool.
        behind_ms: the last answer's lag behind the shard's end, in milliseconds; None before the first answer.
        caught_up: whether the last read reached the shard's end.
        done: whether it has read all records that existed when `until_ms` was set (AvailableNow).
    """

    def __init__(
        self,
        reads: StreamCalls,
        options: Options,
        shard_id: str,
        start: Offset,
        folder: Path,
        until_ms: int | None,
        wall_s: Callable[[], float] = wall_s,
        *,
        patient: bool = False,
    ) -> None:
        self._reads = reads
        self._options = options
        self._patient = patient or until_ms is not None
        self.shard_id = shard_id
        self._init = start.init
        known = start.shards.get(shard_id)
        self._after = None if known is None else known.sequence_number
        # The arrival time of the last record read.
        self._last_ms = None if known is None or known.ended else known.arrival_ms
        # The same after an interruption (a new planner, an expired iterator), until it is known that no record was lost
        # since.
        self._resumed_ms = self._last_ms
        self._until_ms = until_ms
        self._wall_s = wall_s
        self._read_s = wall_s()
        self._iterator: str | None = None
        self._idle_until_s = 0.0
        self._pace = Pace(options.fetch_interval_ms / 1000, options.read_bytes_per_s)
        self.spool = ShardSpool(folder, start.count(shard_id))
        self.ended = False
        self.done = False
        self.caught_up = False
        self.behind_ms: int | None = None

    def fill(
        self,
        begin: int,
        end: float,
        now_ms: Callable[[], int] | None = None,
        *,
        waits: bool = False,
    ) -> bool:
        """Read until the spool extends from record `begin` to `end` or later, or the shard has no more records.

        While the spool has records, wait for the shard's allowance no longer than the options allow. With `now_ms`,
        stop at records that arrived later, so that a fast producer does not delay the batch forever.

        Return False if the shard was not asked, because a read has met its end within the fetch interval; with `waits`,
        wait for that interval and ask.
        """
        most_bytes = self._options.max_bytes_per_shard
        may_wait_s = self._may_wait_s()
        while not self.ended and not self.done and self.spool.end < end:
            if most_bytes is not None and self.spool.bytes_after(begin) > most_bytes:
                return True
            idle_s = self._idle_until_s - time.monotonic()
            if idle_s > 0:
                if not waits:
                    return False
                time.sleep(idle_s)
            wait_s = self._pace.wait_s(time.monotonic())
            if wait_s > may_wait_s and self.spool.end > begin:
                return True
            may_wait_s -= wait_s
            time.sleep(wait_s)
            page = self._next_page()
            self._keep(page)
            if self.done:
                return True
            self._iterator = page.next_iterator
            self.behind_ms = page.millis_behind_latest
            self.caught_up = page.millis_behind_latest == 0
            if page.next_iterator is None:
                self.ended = True
            elif self.caught_up:
                self.done = self._until_ms is not None
                self._idle_until_s = time.monotonic() + self._options.fetch_interval_ms / 1000
                return True
            elif now_ms is not None and page.last is not None and page.last[1] > now_ms():
                self.caught_up = True
                return True
        return True

    def _may_wait_s(self) -> float:
        """Return how long a micro-batch with records may be delayed for more."""
        if self._options.max_fetch_time_s is not None:
            return self._options.max_fetch_time_s
        # A query that drains a stream (AvailableNow) does not need its first records early, so its micro-batches are as
        # large as its options allow, instead of many small ones.
        # The same for a query that may be draining the stream without telling the source.
        return math.inf if self._patient else _SHORT_WAIT_S

    def _next_page(self) -> Page:
        while True:
            if self._iterator is None:
                self._iterator = self._reads.iterator(self.shard_id, self._after, self._init)
            try:
                page = self._reads.records(self._iterator, self._options.records_per_fetch)
            except ExpiredIterator:
                self._iterator = None
                # Unread records may have expired by now; after a day without a read (a machine that slept), so may
                # newer ones: no stream keeps its records for less.
                if self.behind_ms or self._wall_s() - self._read_s > LEAST_RETENTION_S:
                    self._resumed_ms = self._last_ms
            else:
                self._pace.spend(page.data_bytes, time.monotonic())
                self._read_s = self._wall_s()
                return page

    def _keep(self, page: Page) -> None:
        if page.last is not None and self._resumed_ms is not None:
            check_retention(self._reads, self._options, self.shard_id, self._resumed_ms)
            self._resumed_ms = None
        if self._until_ms is not None:
            page = self._up_to_target(page, self._until_ms)
        if page.last is not None:
            self.spool.append(page)
            self._after, self._last_ms = page.last

    def _up_to_target(self, page: Page, until_ms: int) -> Page:
        if page.last is None or page.last[1] <= until_ms:
            return page
        # Records that arrived after the query began belong to a later run.
        self.done = True
        arrivals = page.records.column("approximateArrivalTimestamp").cast(pa.int64()).to_pylist()
        kept = next(index for index, us in enumerate(arrivals) if us > until_ms * 1000)
        return Page(page.records.slice(0, kept), page.next_iterator, page.millis_behind_latest)
