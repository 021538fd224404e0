"""Plans micro-batches, in the driver: reads every shard once, spools what it reads, and so knows exact ends."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, cast

from headrace.spark.get_records import ExpiredIterator, Page
from headrace.spark.held_folder import HeldFolder
from headrace.spark.offsets import Init, Offset, has_latest, pinned
from headrace.spark.options import Options
from headrace.spark.pace import Pace
from headrace.spark.spans import (
    DataLoss,
    Shard,
    Span,
    advance,
    eligible,
    expired,
    families,
    shares,
    spans_between,
    without,
)
from headrace.spark.spool import ShardSpool, Slice
from headrace.spark.untyped import pa

log = logging.getLogger(__name__)

# Below the driver's folder for temporary files. Not the name of earlier releases, whose spools have no lock.
SPOOL_PREFIX = "headrace-kinesis-spool-"
_MOST_THREADS = 16
# A micro-batch of its own costs more than such a wait.
_SHORT_WAIT_S = 0.05
_LEAST_RETENTION_S = 86_400  # documented: a day


def wall_s() -> float:
    """Return the time of day, which goes on while a machine sleeps."""
    return time.time_ns() / 1e9


class Reads(Protocol):
    """The calls to Kinesis that the planner makes; see `KinesisClient`."""

    def shards(self) -> list[Shard]:
        """Return every shard that is listed."""
        ...

    def now_ms(self) -> tuple[int, int]:
        """Return the bounds between which the stream's clock stands."""
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
    """Reads one shard onwards from an offset. Used by one thread at a time.

    Attributes:
        spool: what it has read.
        ended: whether the closed shard's last record is in the spool.
        behind_ms: how far the last answer was from the shard's end, in milliseconds; None before the first.
        caught_up: whether the last look found nothing more to read then.
        done: whether it has read all that was there when `until_ms` was set (AvailableNow).
    """

    def __init__(
        self,
        reads: Reads,
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
        # The arrival of the last record that was read.
        self._last_ms = None if known is None or known.ended else known.arrival_ms
        # The same after an interruption (an earlier planner's, an expired iterator's), until it is known that none was
        # lost since.
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

    def fill(self, begin: int, end: float, now_ms: Callable[[], int] | None = None) -> None:
        """Read on from record `begin` until the spool ends at `end` or later, or there is nothing more to read now.

        While the spool has something to give, waits for the shard's allowance no longer than the options say. With
        `now_ms` nothing more is what has arrived by then: a producer that is never outrun does not hold the batch back.
        """
        most_bytes = self._options.max_bytes_per_shard
        may_wait_s = self._may_wait_s()
        while not self.ended and not self.done and self.spool.end < end:
            if most_bytes is not None and self.spool.bytes_after(begin) > most_bytes:
                return
            if time.monotonic() < self._idle_until_s:
                return
            wait_s = self._pace.wait_s(time.monotonic())
            if wait_s > may_wait_s and self.spool.end > begin:
                return
            may_wait_s -= wait_s
            time.sleep(wait_s)
            page = self._next_page()
            self._keep(page)
            if self.done:
                return
            self._iterator = page.next_iterator
            self.behind_ms = page.millis_behind_latest
            self.caught_up = page.millis_behind_latest == 0
            if page.next_iterator is None:
                self.ended = True
            elif self.caught_up:
                self.done = self._until_ms is not None
                self._idle_until_s = time.monotonic() + self._options.fetch_interval_ms / 1000
                return
            elif now_ms is not None and page.last is not None and page.last[1] > now_ms():
                self.caught_up = True
                return

    def _may_wait_s(self) -> float:
        """Return for how long a micro-batch that has records may be held back for more."""
        if self._options.max_fetch_time_s is not None:
            return self._options.max_fetch_time_s
        # Nobody waits for the first records of a query that drains a stream (AvailableNow): it gets micro-batches as
        # large as its options say, instead of as many small ones as the allowance makes.
        # So does a query that may be one without telling.
        return math.inf if self._patient else _SHORT_WAIT_S

    def _next_page(self) -> Page:
        while True:
            if self._iterator is None:
                self._iterator = self._reads.iterator(self.shard_id, self._after, self._init)
            try:
                page = self._reads.records(self._iterator, self._options.records_per_fetch)
            except ExpiredIterator:
                self._iterator = None
                # What was left unread may be gone by now; and whatever came, after a day without a look (a machine
                # that slept): no stream keeps its records for less.
                if self.behind_ms or self._wall_s() - self._read_s > _LEAST_RETENTION_S:
                    self._resumed_ms = self._last_ms
            else:
                self._pace.spend(page.data_bytes, time.monotonic())
                self._read_s = self._wall_s()
                return page

    def _keep(self, page: Page) -> None:
        if page.last is not None and self._resumed_ms is not None:
            self._check_retention(self._resumed_ms)
            self._resumed_ms = None
        if self._until_ms is not None:
            page = self._up_to_target(page, self._until_ms)
        if page.last is not None:
            self.spool.append(page)
            self._after, self._last_ms = page.last

    def _check_retention(self, resumed_ms: int) -> None:
        """Kinesis does not say that records are gone: it goes on with the oldest that is left.

        A shard without records for as long as that has lost nothing, but looks like one that has.
        """
        if self._reads.now_ms()[0] - resumed_ms <= self._reads.retention_ms():
            return
        message = (
            f"The checkpoint of shard {self.shard_id} of stream {self._options.stream} is older than the stream's "
            "retention: records that came since may be lost. Set kinesis.failOnDataLoss to false to go on."
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(message)
        log.warning("%s", message)

    def _up_to_target(self, page: Page, until_ms: int) -> Page:
        if page.last is None or page.last[1] <= until_ms:
            return page
        # What came after the query began is left to another run.
        self.done = True
        arrivals = page.records.column("approximateArrivalTimestamp").cast(pa.int64()).to_pylist()
        kept = next(index for index, us in enumerate(arrivals) if us > until_ms * 1000)
        return Page(page.records.slice(0, kept), page.next_iterator, page.millis_behind_latest)


class _Once:
    """A value that is made when it is first asked for. Thread-safe."""

    def __init__(self, make: Callable[[], int]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._value: int | None = None

    def __call__(self) -> int:
        with self._lock:
            if self._value is None:
                self._value = self._make()
            return self._value


class Planner:
    """Plans the micro-batches of one query. Called by one thread at a time, as Spark does.

    Args:
        reads: the calls to Kinesis.
        options: the query's.
        one_batch: whether a run may end after one batch without telling (AvailableNow on Spark 4.0 and 4.1). A batch
            then is as large as its limits allow, however long Kinesis takes to give it; and without limits it is whole:
            it has the children of the shards that end in it, too.
        clock_s, wall_s: a clock that only goes forward, and the time of day.

    Attributes:
        folder: the spool; what a driver that was killed has left is removed by the next planner.
        has_left: whether a limit has kept the last plan from taking all that the stream held.
    """

    def __init__(
        self,
        reads: Reads,
        options: Options,
        *,
        one_batch: bool = False,
        clock_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = wall_s,
    ) -> None:
        self._reads = reads
        self._options = options
        self._one_batch = one_batch
        self.has_left = False
        self._clock_s = clock_s
        self._wall_s = wall_s
        self.folder = HeldFolder.make(SPOOL_PREFIX)
        self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="kinesis-fetch")
        self._fetchers: dict[str, Fetcher] = {}
        self._fetchers_made = 0
        self._shards: list[Shard] = []
        self._listed_s: float | None = None
        self._until_ms: int | None = None

    def close(self) -> None:
        """Stop reading and remove the spool."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.folder.close()

    def stop_at_now(self) -> None:
        """Have the following plans end at what the stream holds now (AvailableNow)."""
        self._until_ms = self._reads.now_ms()[1]
        self._fetchers.clear()

    def plan(self, start: Offset, most: int | None) -> Offset:
        """Return where the batch that begins at `start` ends, having read and spooled it.

        Args:
            start: the previous batch's end.
            most: the number of records that the batch may have.

        Raises:
            DataLoss: a shard that was not read to its end has expired, and the query is to fail then.
        """
        if has_latest(start.init):
            # Pinned in a batch without records: Spark keeps a batch's end, but not the first batch's start.
            return Offset(start.stream, pinned(start.init, self._reads.now_ms()[0]))
        whole = self._one_batch and most is None and self._options.is_unlimited
        now_ms = _Once(lambda: self._reads.now_ms()[1]) if whole else None
        drained: set[str] = set()
        found: dict[str, Fetcher] = {}
        while True:
            base = self._without_expired(start)
            fetchers = [self._fetcher(name, base) for name in eligible(self._shards, base, drained)]
            found |= {fetcher.shard_id: fetcher for fetcher in fetchers}
            self._fill(fetchers, base, most, now_ms)
            passed = {
                f.shard_id
                for f in fetchers
                if f.ended and (whole or f.spool.end == base.count(f.shard_id))
            }
            if not passed:
                break
            drained |= passed
        end = self._end(base, list(found.values()), drained, most)
        self.has_left = not whole and any(
            # The children of a shard that ended wait for the next batch.
            f.ended or not f.caught_up or f.spool.end > end.count(f.shard_id)
            for f in fetchers
        )
        return end

    def slices(self, start: Offset, end: Offset) -> list[tuple[Span, list[Slice]]]:
        """Return what lies between two offsets, and where it is spooled (nowhere: an empty list)."""
        found: list[tuple[Span, list[Slice]]] = []
        for span in spans_between(start, end):
            fetcher = self._fetchers.get(span.shard_id)
            first = start.count(span.shard_id)
            slices = fetcher.spool.slices(first, first + span.count) if fetcher else None
            found.append((span, slices or []))
        return found

    def tasks(self, start: Offset, end: Offset) -> list[list[tuple[Span, list[Slice]]]]:
        """Return the same by tasks: a task reads its spans one after the other, and tasks are done side by side."""
        found = dict(self.slices(start, end))
        finished = {name for name in end.shards if end.ended(name) and not start.ended(name)}
        if not finished:
            return [[one] for one in found.items()]
        self._list()
        return [
            [(span, found[span]) for span in family]
            for family in families(found, finished, self._shards)
        ]

    def release(self, end: Offset) -> None:
        """Let go of what lies before `end`: no task will read it again."""
        for name, fetcher in list(self._fetchers.items()):
            fetcher.spool.release(end.count(name))
            known = end.shards.get(name)
            if known is not None and known.ended:
                del self._fetchers[name]

    # --- parts --------------------------------------------------------------------------------

    def _without_expired(self, start: Offset) -> Offset:
        self._list()
        finished, lost = expired(self._shards, start)
        if lost:
            message = (
                f"Shards {', '.join(sorted(lost))} of stream {start.stream} expired before they were "
                "read to their end: records are lost. Set kinesis.failOnDataLoss to false to go on without them."
            )
            if self._options.fail_on_data_loss:
                raise DataLoss(message)
            log.warning("%s", message)
        return without(start, finished | lost)

    def _list(self) -> None:
        """Look for shards, at most once an interval; at once when a shard has ended, for its children."""
        now_s = self._clock_s()
        due = self._listed_s is None or now_s - self._listed_s >= self._options.describe_interval_s
        if due:
            self._shards = self._reads.shards()
            self._listed_s = now_s

    def _fetcher(self, shard_id: str, base: Offset) -> Fetcher:
        found = self._fetchers.get(shard_id)
        count = base.count(shard_id)
        if found is None or not found.spool.first <= count <= found.spool.end:
            self._fetchers_made += 1
            folder = self.folder.path / f"{self._fetchers_made}-{shard_id}"
            found = Fetcher(
                self._reads, self._options, shard_id, base, folder, self._until_ms, self._wall_s,
                patient=self._one_batch,
            )  # fmt: skip
            self._fetchers[shard_id] = found
        return found

    def _fill(
        self,
        fetchers: list[Fetcher],
        base: Offset,
        most: int | None,
        now_ms: Callable[[], int] | None,
    ) -> None:
        limits = (self._options.max_records_per_shard, most)
        want = min((limit for limit in limits if limit is not None), default=math.inf)
        running = [not fetcher.ended for fetcher in fetchers]

        def fill(fetcher: Fetcher) -> None:
            begin = base.count(fetcher.shard_id)
            fetcher.fill(begin, begin + want, now_ms)

        list(self._threads.map(fill, fetchers))
        if any(was_running and fetcher.ended for was_running, fetcher in zip(running, fetchers)):
            # Its children may be too young for the last listing.
            self._listed_s = None

    def _end(
        self, base: Offset, fetchers: list[Fetcher], drained: set[str], most: int | None
    ) -> Offset:
        per_shard = self._options.max_records_per_shard
        available = {f.shard_id: f.spool.end - base.count(f.shard_id) for f in fetchers}
        if per_shard is not None:
            available = {name: min(rows, per_shard) for name, rows in available.items()}
        taken = self._within_bytes(base, fetchers, shares(available, most))
        spans: list[tuple[Span, int]] = []
        ended = set(drained)
        for fetcher in fetchers:
            name, count = fetcher.shard_id, taken[fetcher.shard_id]
            end = base.count(name) + count
            if count:
                known = base.shards.get(name)
                sequence_number, arrival_ms = fetcher.spool.row(end - 1)
                first = None if known is None else known.sequence_number
                spans.append((Span(name, first, sequence_number, count), arrival_ms))
            if fetcher.ended and end == fetcher.spool.end:
                ended.add(name)
        return advance(base, spans, ended)

    def _within_bytes(
        self, base: Offset, fetchers: list[Fetcher], rows: dict[str, int]
    ) -> dict[str, int]:
        """Return `rows` cut to the bytes of a batch: one record of a shard at least, or a large one would stop it."""
        per_shard, most = self._options.max_bytes_per_shard, self._options.max_bytes_per_trigger
        if per_shard is None and most is None:
            return rows
        sizes = {f.shard_id: f.spool.bytes_after(base.count(f.shard_id)) for f in fetchers}
        if per_shard is not None:
            sizes = {name: min(size, per_shard) for name, size in sizes.items()}
        allowed = shares(sizes, most)
        found: dict[str, int] = {}
        for fetcher in fetchers:
            name = fetcher.shard_id
            within = fetcher.spool.rows_within(base.count(name), allowed[name])
            found[name] = min(rows[name], max(1, within))
        return found

    def behind_ms(self) -> dict[str, int]:
        """Return, of every shard that is being read, how far the last answer was from its end, in milliseconds."""
        fetchers = list(self._fetchers.items())
        return {name: f.behind_ms for name, f in fetchers if f.behind_ms is not None}


def as_offset(value: Any, stream: str) -> Offset:
    """Return the offset in what Spark hands back."""
    return Offset.from_json(cast("dict[str, Any]", value), stream)
