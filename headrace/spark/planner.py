"""Plans micro-batches in the driver: reads every shard once and spools the records, so it knows exact ends."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, cast

from headrace.spark.fetcher import Fetcher, StreamCalls, wall_s
from headrace.spark.held_folder import HeldFolder
from headrace.spark.offsets import Offset, has_latest, pinned
from headrace.spark.options import Options
from headrace.spark.spans import (
    Shard,
    Span,
    advance,
    drop_expired,
    eligible,
    families,
    shares,
    spans_between,
)
from headrace.spark.spool import Slice

# In the driver's temporary folder. The name differs from earlier releases', whose spools have no lock.
SPOOL_PREFIX = "headrace-kinesis-spool-"
_MOST_THREADS = 16


class _Once:
    """A value that is created at its first use. Thread-safe."""

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
    """Plans the micro-batches of one query. Used by one thread at a time, as Spark does.

    Args:
        reads: the calls to Kinesis.
        options: the query's options.
        one_batch: whether a run may end after one batch without telling the source (AvailableNow on Spark 4.0 and 4.1).
            A batch is then as large as its limits allow, however long the reads take. It also has the children of the
            shards that end in it, unless a limit cuts these or is one of all shards together.
        clock_s, wall_s: a monotonic clock, and the time of day.

    Attributes:
        folder: the spool; the next planner removes the spools of killed drivers.
        has_left: whether a limit kept the last plan from taking all records of the stream.
    """

    def __init__(
        self,
        reads: StreamCalls,
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
        """End the following plans at the stream's present end (AvailableNow)."""
        self._until_ms = self._reads.now_ms()[1]
        self._fetchers.clear()

    def plan(self, start: Offset, most: int | None) -> Offset:
        """Read and spool the batch that begins at `start`; return its end.

        Args:
            start: the end of the previous batch.
            most: the batch's maximum number of records.

        Raises:
            DataLoss: a shard expired before it was read to its end, and `fail_on_data_loss` is set.
        """
        if has_latest(start.init):
            # Pinned in a batch without records, because Spark stores a batch's end but not the first batch's start.
            return Offset(start.stream, pinned(start.init, self._reads.now_ms()[0]))
        whole = self._one_batch and most is None and self._options.is_unlimited
        joins = self._one_batch and most is None and self._options.limits_shards_alone
        now_ms = _Once(lambda: self._reads.now_ms()[1]) if whole else None
        drained: set[str] = set()
        by_shard: dict[str, Fetcher] = {}
        while True:
            base = self._without_expired(start)
            fetchers = [self._fetcher(name, base) for name in eligible(self._shards, base, drained)]
            by_shard |= {fetcher.shard_id: fetcher for fetcher in fetchers}
            self._fill(fetchers, base, most, now_ms)
            passed = {
                f.shard_id
                for f in fetchers
                if f.ended
                and (
                    f.spool.end == base.count(f.shard_id)
                    or (joins and self._is_within_limits(f, base))
                )
            }
            if not passed:
                break
            drained |= passed
        end = self._end(base, list(by_shard.values()), drained, most)
        self.has_left = not whole and any(
            # The children of a shard that a limit cuts wait for the next batch.
            f.ended or not f.caught_up or f.spool.end > end.count(f.shard_id)
            for f in fetchers
        )
        return end

    def slices(self, start: Offset, end: Offset) -> list[tuple[Span, list[Slice]]]:
        """Return the spans between two offsets, and where each is spooled (an empty list if it is not)."""
        pairs: list[tuple[Span, list[Slice]]] = []
        for span in spans_between(start, end):
            fetcher = self._fetchers.get(span.shard_id)
            first = start.count(span.shard_id)
            slices = fetcher.spool.slices(first, first + span.count) if fetcher else None
            pairs.append((span, slices or []))
        return pairs

    def tasks(self, start: Offset, end: Offset) -> list[list[tuple[Span, list[Slice]]]]:
        """Return the same by task: a task reads its spans in sequence, and tasks run concurrently."""
        slices = dict(self.slices(start, end))
        finished = {name for name in end.shards if end.ended(name) and not start.ended(name)}
        if not finished:
            return [[one] for one in slices.items()]
        self._list()
        return [
            [(span, slices[span]) for span in family]
            for family in families(slices, finished, self._shards)
        ]

    def release(self, end: Offset) -> None:
        """Release the records before `end`, which no task reads again."""
        for name, fetcher in list(self._fetchers.items()):
            fetcher.spool.release(end.count(name))
            known = end.shards.get(name)
            if known is not None and known.ended:
                del self._fetchers[name]

    # --- parts --------------------------------------------------------------------------------

    def _without_expired(self, start: Offset) -> Offset:
        self._list()
        return drop_expired(self._shards, start, self._options)

    def _list(self) -> None:
        """List the shards, at most once an interval, or at once when a shard has ended, for its children."""
        now_s = self._clock_s()
        due = self._listed_s is None or now_s - self._listed_s >= self._options.describe_interval_s
        if due:
            self._shards = self._reads.shards()
            self._listed_s = now_s

    def _fetcher(self, shard_id: str, base: Offset) -> Fetcher:
        fetcher = self._fetchers.get(shard_id)
        count = base.count(shard_id)
        if fetcher is None or not fetcher.spool.first <= count <= fetcher.spool.end:
            self._fetchers_made += 1
            folder = self.folder.path / f"{self._fetchers_made}-{shard_id}"
            fetcher = Fetcher(
                self._reads, self._options, shard_id, base, folder, self._until_ms, self._wall_s,
                patient=self._one_batch,
            )  # fmt: skip
            self._fetchers[shard_id] = fetcher
        return fetcher

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

        def fill(fetcher: Fetcher, waits: bool = False) -> bool:
            begin = base.count(fetcher.shard_id)
            return fetcher.fill(begin, begin + want, now_ms, waits=waits)

        asked = list(self._threads.map(fill, fetchers))
        if not any(f.ended or f.spool.end > base.count(f.shard_id) for f in fetchers):
            # Spark takes an empty answer as proof that nothing is left (`processAllAvailable`), so each shard is asked
            # for it, however short the last read is ago.
            idle = [fetcher for fetcher, was_asked in zip(fetchers, asked) if not was_asked]
            list(self._threads.map(fill, idle, repeat(True)))
        if any(was_running and fetcher.ended for was_running, fetcher in zip(running, fetchers)):
            # Its children may be newer than the last listing.
            self._listed_s = None

    def _is_within_limits(self, fetcher: Fetcher, base: Offset) -> bool:
        """Whether a batch may have all of a shard's fetched records."""
        begin, options = base.count(fetcher.shard_id), self._options
        records, size = options.max_records_per_shard, options.max_bytes_per_shard
        return (records is None or fetcher.spool.end - begin <= records) and (
            size is None or fetcher.spool.bytes_after(begin) <= size
        )

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
        """Return `rows` limited to a batch's bytes, but at least one record, so that a large one can pass."""
        per_shard, most = self._options.max_bytes_per_shard, self._options.max_bytes_per_trigger
        if per_shard is None and most is None:
            return rows
        sizes = {f.shard_id: f.spool.bytes_after(base.count(f.shard_id)) for f in fetchers}
        if per_shard is not None:
            sizes = {name: min(size, per_shard) for name, size in sizes.items()}
        allowed = shares(sizes, most)
        limited_rows: dict[str, int] = {}
        for fetcher in fetchers:
            name = fetcher.shard_id
            within = fetcher.spool.rows_within(base.count(name), allowed[name])
            limited_rows[name] = min(rows[name], max(1, within))
        return limited_rows

    def behind_ms(self) -> dict[str, int]:
        """Return each current shard's lag in its last answer, in milliseconds."""
        fetchers = list(self._fetchers.items())
        return {name: f.behind_ms for name, f in fetchers if f.behind_ms is not None}


def as_offset(value: Any, stream: str) -> Offset:
    """Return the offset in the JSON that Spark passes."""
    return Offset.from_json(cast("dict[str, Any]", value), stream)
