"""Reads a task's shards in the distributed mode: fetches, writes where it stopped, and only then yields records."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from headrace.spark.arrays import integer
from headrace.spark.fetcher import StreamCalls
from headrace.spark.get_records import ExpiredIterator, Page, parse_records
from headrace.spark.metadata import Store
from headrace.spark.offsets import Init, ShardOffset
from headrace.spark.options import Options
from headrace.spark.plans import Plan, Stop, stops_from_bytes, stops_to_bytes
from headrace.spark.reading import Pace, read_span, with_constants
from headrace.spark.spans import LEAST_RETENTION_S, Span, check_retention
from headrace.spark.untyped import Records, pa, pc

_SHARDS_AT_ONCE = 16
# A micro-batch that has records of a shard waits no longer for that shard's allowance; see `fetcher`.
_SHORT_WAIT_S = 0.05
# Iterators expire after five minutes (documented).
_ITERATOR_LIFE_MS = 240_000
_IN_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Order:
    """One task's work.

    Attributes:
        folder: of the plan, in the metadata store.
        number: the task's.
        plan: the plan, with this task's group alone.
        last: where the batch before stopped in these shards, as far as the driver knows: its iterators save calls.
        consumer_arn: the registered consumer that the task reads as; None: it polls.
    """

    folder: str
    number: int
    plan: Plan
    last: Mapping[str, Stop] = field(default_factory=dict[str, Stop])
    consumer_arn: str | None = None

    @property
    def file(self) -> str:
        """The file that says where the task stopped."""
        return stops_file(self.folder, self.number)


def stops_file(folder: str, number: int) -> str:
    """Return the name of the file that says where a plan's task stopped."""
    return f"{folder}/{number:06d}"


class PageSource(Protocol):
    """Gives one shard's pages, one after the other."""

    def next_page(self, most: int, may_wait_s: float) -> Page | None:
        """Return the next page, with at most `most` records where the way of reading allows to say that.

        None if that takes longer than `may_wait_s`.
        """
        ...

    def full_ms(self) -> int:
        """Return when the shard's allowance is whole again."""
        ...

    def close(self) -> None:
        """End the reading."""
        ...


class Polling:
    """Gives a shard's pages by GetRecords, within the shard's read limits."""

    def __init__(
        self,
        reads: StreamCalls,
        options: Options,
        shard_id: str,
        begin: tuple[str | None, Init],
        last: Stop | None,
    ) -> None:
        self._reads = reads
        self._options = options
        self._shard_id = shard_id
        self._after, self._init = begin
        now_ms = time.time_ns() // 1_000_000
        fresh = last is not None and 0 <= now_ms - last.at_ms < _ITERATOR_LIFE_MS
        self._iterator = last.iterator if last is not None and fresh else None
        self._pace = Pace(options.fetch_interval_ms / 1000, options.read_bytes_per_s)
        if last is not None and last.full_ms > now_ms:
            spent = (last.full_ms - now_ms) / 1000 * options.read_bytes_per_s
            self._pace.spend(int(spent), time.monotonic())
        self._full_ms = 0

    def next_page(self, most: int, may_wait_s: float) -> Page | None:
        """Return the next page, with at most `most` records; None if the allowance comes later than `may_wait_s`."""
        wait_s = self._pace.wait_s(time.monotonic())
        if wait_s > may_wait_s:
            return None
        time.sleep(wait_s)
        while True:
            if self._iterator is None:
                self._iterator = self._reads.iterator(self._shard_id, self._after, self._init)
            try:
                page = self._reads.records(
                    self._iterator, min(most, self._options.records_per_fetch)
                )
                break
            except ExpiredIterator:
                self._iterator = None
        self._pace.spend(page.data_bytes, time.monotonic())
        lasts_ms = page.data_bytes / self._options.read_bytes_per_s * 1000
        self._full_ms = max(self._full_ms, time.time_ns() // 1_000_000) + round(lasts_ms)
        self._iterator = page.next_iterator
        if page.last is not None:
            self._after = page.last[0]
        return page

    def full_ms(self) -> int:
        """Return when the shard's allowance is whole again."""
        return self._full_ms

    def close(self) -> None:
        """Do nothing: calls end by themselves."""


class TaskSpool:
    """A task's pages until they are yielded: 64 MiB in memory, the rest in a file that ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed in close
        self._end = 0

    def add(self, page: Page) -> tuple[int, int, bool]:
        """Keep a page; return the place for `records`. Thread-safe."""
        body = page.body
        is_answer = body is not None
        if body is None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, page.records.schema) as writer:
                writer.write_batch(page.records)
            body = sink.getvalue().to_pybytes()
        with self._lock:
            location = (self._end, len(body), is_answer)
            self._file.seek(self._end)
            self._file.write(body)
            self._end += len(body)
        return location

    def records(self, location: tuple[int, int, bool]) -> Records:
        """Return a page's records."""
        at, size, is_answer = location
        self._file.seek(at)
        body = self._file.read(size)
        return parse_records(body) if is_answer else pa.ipc.open_stream(body).read_next_batch()

    def close(self) -> None:
        """Drop everything."""
        self._file.close()


class ShardReading:
    """Reads one shard from its place in the plan on, until a limit, its end, or the plan's time. Used by one thread."""

    def __init__(
        self, reads: StreamCalls, options: Options, plan: Plan, shard_id: str, spool: TaskSpool
    ) -> None:
        self._reads = reads
        self._options = options
        self._plan = plan
        self._shard_id = shard_id
        self._spool = spool
        self._bytes = 0
        self.rows = 0
        self.places: list[tuple[int, int, bool]] = []
        self._begin = plan.begin.shards.get(shard_id)
        self._last: tuple[str, int] | None = None
        self._resumed_ms = self._find_resume_time()

    @property
    def begin(self) -> tuple[str | None, Init]:
        """The sequence number to read after, and the starting position without one."""
        number = None if self._begin is None else self._begin.sequence_number
        return number, self._plan.begin.init

    def run(self, source: PageSource) -> Stop:
        """Read, keep the pages in the spool, and return where this stopped."""
        if self._begin is not None and self._begin.ended:
            return Stop(self._begin, 0, 0, done=True)
        most = math.inf if self._plan.most_records is None else self._plan.most_records
        may_wait_s = self._may_wait_s()
        behind_ms, done, ended, iterator = 1, False, False, None
        while self.rows < most:
            began_s = time.monotonic()
            left = int(min(most - self.rows, self._options.records_per_fetch))
            # A micro-batch without records may wait, because there is nothing to delay.
            page = source.next_page(left, may_wait_s if self.rows else math.inf)
            if page is None:
                break
            if self.rows:
                may_wait_s -= time.monotonic() - began_s
            kept = self._keep_until(page, left)
            self._keep(kept)
            if kept is not page:
                done, iterator = self._is_late(page), None
                behind_ms = max(1, page.millis_behind_latest)
                break
            iterator, behind_ms = page.next_iterator, page.millis_behind_latest
            ended = iterator is None
            done = ended or behind_ms == 0 or self._is_late(page)
            if done or self._is_full():
                break
        offset = self._offset(ended, behind_ms == 0)
        return Stop(
            offset, self.rows, behind_ms, done, iterator or None,
            time.time_ns() // 1_000_000, source.full_ms(),
        )  # fmt: skip

    def _find_resume_time(self) -> int | None:
        """Return when the shard was last read, if that is so long ago that records may have expired since."""
        begin = self._begin
        if begin is None or begin.ended or begin.sequence_number is None:
            return None
        read_ms = begin.arrival_ms if begin.read_ms is None else begin.read_ms
        return read_ms if self._plan.until_ms - read_ms > LEAST_RETENTION_S * 1000 else None

    def _may_wait_s(self) -> float:
        if self._options.max_fetch_time_s is not None:
            return self._options.max_fetch_time_s
        return math.inf if self._plan.patient else _SHORT_WAIT_S

    def _keep_until(self, page: Page, left: int) -> Page:
        """Return a page, or its beginning if the rest belongs to a later batch."""
        rows = page.rows
        if self._plan.patient and self._is_late(page):
            arrivals = page.records.column("approximateArrivalTimestamp").cast(pa.int64())
            late = (us > self._plan.until_ms * 1000 for us in arrivals.to_pylist())
            rows = next(index for index, is_late in enumerate(late) if is_late)
        rows = min(rows, left)
        if (
            self._plan.most_bytes is not None
            and self._bytes + page.data_bytes > self._plan.most_bytes
        ):
            sizes = pc.cumulative_sum(
                pc.binary_length(page.records.column("data")).cast(pa.int64())
            )
            within = pc.sum(
                pc.less_equal(sizes, integer(self._plan.most_bytes - self._bytes))
            ).as_py()
            rows = min(rows, max(int(within or 0), 0 if self.rows else 1))
        if rows >= page.rows:
            return page
        return Page(page.records.slice(0, rows), page.next_iterator, page.millis_behind_latest)

    def _keep(self, page: Page) -> None:
        if page.last is None:
            return
        if self._resumed_ms is not None:
            check_retention(self._reads, self._options, self._shard_id, self._resumed_ms)
            self._resumed_ms = None
        self.places.append(self._spool.add(page))
        self.rows += page.rows
        self._bytes += page.data_bytes
        self._last = page.last

    def _is_late(self, page: Page) -> bool:
        return page.last is not None and page.last[1] > self._plan.until_ms

    def _is_full(self) -> bool:
        return self._plan.most_bytes is not None and self._bytes >= self._plan.most_bytes

    def _offset(self, ended: bool, caught_up: bool) -> ShardOffset | None:
        number, arrival_ms = (None, 0)
        if self._begin is not None:
            number, arrival_ms = self._begin.sequence_number, self._begin.arrival_ms
        if self._last is not None:
            number, arrival_ms = self._last
        if number is None and not ended:
            return None
        count = self._plan.begin.count(self._shard_id) + self.rows
        read_ms = self._plan.until_ms if caught_up else None
        return ShardOffset(number, count, arrival_ms, ended, read_ms)


def read_order(
    options: Options,
    order: Order,
    store: Store,
    reads: StreamCalls,
    source_of: Callable[[str, tuple[str | None, Init]], PageSource],
) -> Iterator[Records]:
    """Yield the records of a task: those of its first run if that has stored where it stopped.

    Raises DataLoss, KinesisError, MetadataError.
    """
    stored = store.read(order.file)
    if stored is None:
        spool = TaskSpool()
        try:
            readings, stops = _fetch_shards(options, order.plan, reads, spool, source_of)
            written = stops_to_bytes(stops)
            if store.create(order.file, written):
                for name, reading in readings.items():
                    for location in reading.places:
                        yield with_constants(spool.records(location), options.stream, name)
                return
        finally:
            spool.close()
        # Another run of this task was faster (a speculative one, or another read of the same batch).
        stored = store.read(order.file)
        assert stored is not None
    for span in _spans(order.plan, stops_from_bytes(stored)):
        yield from read_span(options, order.plan.begin.init, span, [])


def _fetch_shards(
    options: Options,
    plan: Plan,
    reads: StreamCalls,
    spool: TaskSpool,
    source_of: Callable[[str, tuple[str | None, Init]], PageSource],
) -> tuple[dict[str, ShardReading], dict[str, Stop]]:
    (names,) = plan.groups
    readings = {name: ShardReading(reads, options, plan, name, spool) for name in names}
    stops: dict[str, Stop] = {}

    def read(name: str) -> Stop:
        source = source_of(name, readings[name].begin)
        try:
            return readings[name].run(source)
        finally:
            source.close()

    with ThreadPoolExecutor(_SHARDS_AT_ONCE, thread_name_prefix="kinesis-read") as threads:
        waiting = list(names)
        while waiting:
            ended = {n for n, s in stops.items() if s.offset is not None and s.offset.ended}
            ready = [name for name in waiting if ended.issuperset(plan.parents.get(name, ()))]
            if not ready:
                # Their parents have not ended: a later batch reads them.
                break
            stops |= dict(zip(ready, threads.map(read, ready)))
            waiting = [name for name in waiting if name not in stops]
    return readings, stops


def _spans(plan: Plan, stops: Mapping[str, Stop]) -> Iterator[Span]:
    (names,) = plan.groups
    for name in names:
        stop = stops.get(name)
        if stop is None or stop.offset is None or not stop.rows:
            continue
        begin = plan.begin.shards.get(name)
        number = stop.offset.sequence_number
        assert number is not None
        yield Span(name, None if begin is None else begin.sequence_number, number, stop.rows)
