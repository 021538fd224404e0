"""Reads a stream together with other workers: each shard by one worker, each record at least once, in order per key.

    with ConsumerGroup("orders-app", "orders") as group:
        for batch in group:
            for record in batch:
                print(record.data)

The leases are those of the Kinesis Client Library: its workers (Java, kcl-rs) may be in the same application.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import random
import socket
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, Self

from headrace.client.access import AwsAccess
from headrace.client.batches import Batch
from headrace.client.clock import Clock, SystemClock
from headrace.client.hash_keys import ShardRange
from headrace.client.leases.coordinator import Coordinator
from headrace.client.leases.dynamodb import DynamoDbLeaseStore
from headrace.client.leases.lease import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint, Lease
from headrace.client.leases.stores import LeaseStore, StoreError
from headrace.client.reading import MOST_RECORDS, ShardReader
from headrace.client.records import Page, Record
from headrace.client.streams import Streams
from headrace.client.wire import ServiceError, Target, Wire, WireError

_LOG = logging.getLogger("headrace.client")
_PREFETCH = 2
_LONGEST_BACKOFF_S = 5.0
_HELD_FOR_S = 60.0
# Refusals that no retry mends.
_FATAL = frozenset({"ResourceNotFoundException", "InvalidArgumentException", "AccessDeniedException", "ValidationException"})  # fmt: skip


class GroupError(Exception):
    """The group cannot go on. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """What a worker has and has done.

    Attributes:
        shards: the shards that it reads, each with how far behind it is in milliseconds (None: not known yet).
        is_leader: whether it assigns the group's leases.
        records, batches, bytes: what was delivered.
        checkpoints: how often a checkpoint was written.
        lost_leases: shards that others took, or that were given up.
        foreign: user records that were dropped because they are another shard's.
    """

    shards: dict[str, int | None]
    is_leader: bool
    records: int
    batches: int
    bytes: int
    checkpoints: int
    lost_leases: int
    foreign: int


@dataclass(slots=True, eq=False)
class _Reading:
    """A shard that is read: how many of its batches wait or are processed, and when it is asked next."""

    key: str
    reader: Any
    waiting: int = 0
    processing: int = 0
    failures: int = 0
    is_fetching: bool = False
    is_lost: bool = False
    is_draining: bool = False
    lag_ms: int | None = None
    ended: list[ShardRange] | None = None
    checkpointed: Checkpoint | None = None
    last: Checkpoint | None = None
    warned_s: float = field(default=0.0)


class ConsumerGroup:
    """A worker of a group. Close it, or use it as a context manager: its shards are others' at once then.

    Thread-safe, but for the loop, which is one thread's; `run` (headrace.client.processing) processes shards in
    parallel.
    """

    def __init__(
        self,
        application: str,
        stream: str,
        *,
        start: Literal["TRIM_HORIZON", "LATEST"] | datetime = TRIM_HORIZON,
        worker_id: str | None = None,
        store: LeaseStore | None = None,
        checkpoint: Literal["auto", "manual"] = "auto",
        checkpoint_every_s: float = 1.0,
        failover_s: float = 10.0,
        shard_sync_s: float = 60.0,
        max_records: int = MOST_RECORDS,
        idle_s: float = 0.2,
        fetchers: int = 2,
        fan_out: str | bool = False,
        session: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        clock: Clock | None = None,
        streams: Streams | None = None,
        make_wire: Callable[[], Any] | None = None,
    ) -> None:
        """Take the application's name, which is its lease table's, and the stream's name or ARN. This sends nothing.

        Args:
            application: workers with the same name share the stream.
            stream: the stream.
            start: where shards without a checkpoint begin, when the application is new.
            worker_id: this worker; a new one with the id of one that died goes on at once. Default: made up.
            store: the leases; default: DynamoDB. `MemoryLeaseStore` and `FileLeaseStore` need none.
            checkpoint: `auto`: a batch is processed when the loop asks for the next; `manual`: when
                `batch.checkpoint()` says so.
            checkpoint_every_s: how often checkpoints are written: what is read twice at most after a crash.
            failover_s: after how long a worker that is silent loses its shards.
            shard_sync_s: how often the leader compares leases and shards.
            max_records: of a request.
            idle_s: how long to wait at the end of a shard; AWS allows five requests per second and shard.
            fetchers: how many threads fetch.
            fan_out: read by enhanced fan-out, as a registered consumer of this name (True: the application's).
            session: as for boto3.
            region: as for boto3.
            endpoint_url: as for boto3.
            clock: for tests.
            streams: for tests.
            make_wire: for tests.
        """
        if fetchers < 1 or not 1 <= max_records <= MOST_RECORDS:
            raise ValueError(f"fetchers is at least 1, max_records between 1 and {MOST_RECORDS}")
        self.application, self.stream = application, stream
        self._access = AwsAccess(session=session, region=region, endpoint_url=endpoint_url)
        self._streams = streams or Streams(self._access, stream)
        self._make_wire = make_wire or self._new_wire
        self._clock = clock or SystemClock()
        self._is_manual, self._every_s, self._idle_s = (
            checkpoint == "manual",
            checkpoint_every_s,
            idle_s,
        )
        self._failover_s, self._max_records, self._fetchers = failover_s, max_records, fetchers
        self._start_at = start if isinstance(start, datetime) else None
        self._fan_out = application if fan_out is True else fan_out or None
        self.worker_id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._store = store or DynamoDbLeaseStore(application, access=self._access)
        self._coordinator = Coordinator(
            self._store,
            self._streams,
            self,
            worker_id=self.worker_id,
            initial=Checkpoint(AT_TIMESTAMP if isinstance(start, datetime) else start),
            initial_filter=_filter_of(start),
            clock=self._clock,
            failover_s=failover_s,
            shard_sync_s=shard_sync_s,
        )
        self._lock = threading.Lock()
        self._to_fetch = threading.Condition(self._lock)
        self._to_process = threading.Condition(self._lock)
        self._to_coordinate = threading.Condition(self._lock)
        self._readings: dict[str, _Reading] = {}
        self._due: list[tuple[float, int, _Reading]] = []
        self._order = itertools.count()
        self._ready: deque[tuple[_Reading, Batch]] = deque()
        self._batches: dict[int, tuple[_Reading, Batch]] = {}
        self._failure: BaseException | None = None
        self._is_started = self._is_closed = self._must_hurry = False
        self._threads: list[threading.Thread] = []
        self._counts = [0, 0, 0, 0]
        self._chance = random.Random()

    # The face.

    def start(self) -> None:
        """Join the group and begin to read; `for` does it too. Raises GroupError, and errors of the services."""
        with self._lock:
            if self._is_started or self._is_closed:
                return
            self._is_started = True
        try:
            self._store.prepare()
            self._coordinator.tick()
        except StoreError as error:
            raise GroupError(str(error)) from error
        self._threads = [
            threading.Thread(target=self._coordinate, name="headrace-leases", daemon=True)
        ]
        self._threads += [
            threading.Thread(target=self._fetch_loop, name=f"headrace-fetch-{i}", daemon=True)
            for i in range(self._fetchers)
        ]
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches until the group is closed. The batch before is processed when the next one is asked for."""
        self.start()
        while (batch := self.next_batch()) is not None:
            yield batch
            self.finish(batch)

    def next_batch(self, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch, or None when the group is closed or the time is up. Raises GroupError.

        A shard's next batch comes when its last one was given to `finish`. Thread-safe.
        """
        self.start()
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        with self._lock:
            while True:
                if self._failure is not None:
                    raise GroupError(f"the group stopped: {self._failure}") from self._failure
                if self._is_closed:
                    return None
                delivered = self._deliver()
                if delivered is not None:
                    return delivered
                left_s = None if deadline_s is None else deadline_s - self._clock.monotonic_s()
                if left_s is not None and left_s <= 0:
                    return None
                self._clock.wait(self._to_process, left_s)

    def finish(self, batch: Batch, *, is_processed: bool = True) -> None:
        """Give a batch back: processed (with `checkpoint="auto"` that is noted), or not, so that it is read again."""
        if is_processed and not self._is_manual:
            self.checkpoint(batch, None)
        with self._lock:
            reading, _ = self._batches.pop(id(batch), (None, None))
            if reading is None:
                return
            reading.processing -= 1
            if reading.is_lost:
                return
            if not is_processed:
                self._read_again(reading)
                return
            self._go_on(reading)
            self._to_process.notify()

    def checkpoint(self, batch: Batch, record: Record | None) -> bool:
        """See `Batch.checkpoint`."""
        with self._lock:
            reading = self._readings.get(batch.shard_id)
            entry = self._batches.get(id(batch))
            if reading is None or (entry is not None and entry[0] is not reading):
                return False
            end = batch.end
            if record is not None:
                end = Checkpoint(record.sequence_number, record.sub_sequence_number)
            reading.checkpointed = end
            bytes_ = sum(map(len, (r.data for r in batch.records))) if record is None else 0
        self._coordinator.note_processed(batch.shard_id, end, bytes_)
        with self._lock:
            self._end_if_done(reading)
        return True

    def metrics(self) -> GroupMetrics:
        """Return what this worker has and has done."""
        with self._lock:
            lags = {key: reading.lag_ms for key, reading in self._readings.items()}
            records, batches, bytes_, foreign = self._counts
            foreign += sum(r.reader.unpack.dropped for r in self._readings.values())
        counts = self._coordinator.counts
        return GroupMetrics(
            lags, self._coordinator.is_leader, records, batches, bytes_, counts.checkpoints, counts.lost,
            foreign,
        )  # fmt: skip

    def close(self) -> None:
        """Write the last checkpoints, give the shards back, and end the threads. Calling it twice is fine.

        A batch that is being processed is not waited for: what it has not checkpointed is read again.
        """
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            for condition in (self._to_fetch, self._to_process, self._to_coordinate):
                condition.notify_all()
        if was_closed or not self._is_started:
            return
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        try:
            self._coordinator.leave()
        except Exception as error:  # noqa: BLE001 - botocore's errors have no common base
            _LOG.warning(
                "The leases could not be given back; others take them in %s s: %s",
                self._failover_s,
                error,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # What the coordinator says.

    def begin(self, lease: Lease) -> None:
        """See `headrace.client.leases.coordinator.Listener`."""
        reader = self._reader_of(lease)
        with self._lock:
            reading = self._readings[lease.key] = _Reading(lease.key, reader)
            self._schedule(reading, 0.0)
        _LOG.info(
            "%s reads %s from %s", self.worker_id, lease.key, lease.checkpoint.sequence_number
        )

    def drain(self, key: str) -> None:
        """See `headrace.client.leases.coordinator.Listener`."""
        with self._lock:
            reading = self._readings.get(key)
            if reading is not None:
                reading.is_draining = True
                self._discard(reading)
            is_idle = reading is None or not reading.processing
        if is_idle:
            self._coordinator.note_drained(key)
            self._hurry()

    def lose(self, key: str) -> None:
        """See `headrace.client.leases.coordinator.Listener`."""
        with self._lock:
            reading = self._readings.pop(key, None)
            if reading is not None:
                reading.is_lost = True
                self._counts[3] += reading.reader.unpack.dropped
                self._discard(reading)

    # Fetching: threads of the group.

    def _new_wire(self) -> Wire:
        return Wire(self._access, Target.kinesis(self._access))

    def _reader_of(self, lease: Lease) -> Any:
        return ShardReader(
            lease,
            self._streams.name_member,
            start_at=self._start_at,
            most_records=self._max_records,
        )

    def _schedule(self, reading: _Reading, due_s: float) -> None:
        heapq.heappush(self._due, (due_s, next(self._order), reading))
        self._to_fetch.notify()

    def _fetch_loop(self) -> None:
        wire: Any = None
        try:
            while (reading := self._next_due()) is not None:
                wire = wire or self._make_wire()
                self._fetch(reading, wire)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            if wire is not None:
                wire.close()

    def _next_due(self) -> _Reading | None:
        with self._lock:
            while not self._is_closed:
                now_s = self._clock.monotonic_s()
                while self._due and self._due[0][2].is_lost:
                    heapq.heappop(self._due)
                if self._due and self._due[0][0] <= now_s:
                    reading = heapq.heappop(self._due)[2]
                    if reading.is_draining:
                        continue
                    reading.is_fetching = True
                    return reading
                wait_s = self._due[0][0] - now_s if self._due else None
                self._clock.wait(self._to_fetch, wait_s)
        return None

    def _fetch(self, reading: _Reading, wire: Any) -> None:
        try:
            page: Page = reading.reader.fetch(wire)
        except (ServiceError, WireError) as error:
            if isinstance(error, ServiceError) and error.code in _FATAL and not error.is_passing:
                self._fail(GroupError(_advice(error, reading.key)))
            self._retry(reading, error)
            return
        with self._lock:
            reading.is_fetching, reading.failures = False, 0
            reading.lag_ms = page.behind_ms
            if reading.is_lost or reading.is_draining:
                return
            if page.last is not None:
                self._take_page(reading, page)
            if page.next_iterator is None:
                reading.ended = [ShardRange.of(child) for child in page.children]
                self._end_if_done(reading)
            elif reading.waiting + reading.processing < _PREFETCH:
                is_behind = page.last is not None and page.behind_ms > 0
                due_s = 0.0 if is_behind else self._clock.monotonic_s() + self._idle_s
                self._schedule(reading, due_s)

    def _take_page(self, reading: _Reading, page: Page) -> None:
        assert page.last is not None
        records = page.records
        end = Checkpoint(page.last)
        if records:
            end = Checkpoint(records[-1].sequence_number, records[-1].sub_sequence_number)
        reading.last = end
        reading.waiting += 1
        self._ready.append((reading, Batch(self, reading.key, records, page.behind_ms, end)))
        self._to_process.notify()

    def _retry(self, reading: _Reading, error: ServiceError | WireError) -> None:
        with self._lock:
            reading.is_fetching = False
            reading.failures += 1
            pause_s = min(_LONGEST_BACKOFF_S, self._idle_s * 2 ** min(reading.failures, 10))
            self._schedule(
                reading, self._clock.monotonic_s() + pause_s * (0.5 + self._chance.random() / 2)
            )
        _LOG.warning("%s is read again in a moment: %s", reading.key, error)

    # Processing; with the lock held.

    def _deliver(self) -> Batch | None:
        """Return the first batch whose shard has none in process."""
        for index, (reading, batch) in enumerate(self._ready):
            if reading.processing:
                continue
            del self._ready[index]
            reading.waiting -= 1
            reading.processing += 1
            batch.delivered_s = self._clock.monotonic_s()
            self._batches[id(batch)] = (reading, batch)
            self._counts[0] += len(batch.records)
            self._counts[1] += 1
            self._counts[2] += sum(len(record.data) for record in batch.records)
            # The next page is fetched while this one is processed.
            self._go_on(reading)
            return batch
        return None

    def _go_on(self, reading: _Reading) -> None:
        """Fetch more of a shard, or end its handoff."""
        if reading.is_draining:
            if not reading.processing:
                self._coordinator.note_drained(reading.key)
                self._hurry_held()
            return
        is_scheduled = (
            any(item[2] is reading for item in self._due) if len(self._due) < 64 else False
        )
        if (
            not reading.is_fetching and not is_scheduled and reading.ended is None
            and reading.waiting + reading.processing <= _PREFETCH
        ):  # fmt: skip
            self._schedule(reading, 0.0)

    def _discard(self, reading: _Reading) -> None:
        self._ready = deque(item for item in self._ready if item[0] is not reading)
        reading.waiting = 0

    def _read_again(self, reading: _Reading) -> None:
        """Begin a shard anew at what was checkpointed."""
        lease = self._coordinator.owned().get(reading.key)
        if lease is None:
            return
        self._discard(reading)
        reading.is_lost = True
        checkpoint = reading.checkpointed or lease.checkpoint
        from dataclasses import replace

        again = self._readings[reading.key] = _Reading(
            reading.key, self._reader_of(replace(lease, checkpoint=checkpoint))
        )
        again.checkpointed = reading.checkpointed
        self._schedule(again, self._clock.monotonic_s() + self._idle_s)

    def _end_if_done(self, reading: _Reading) -> None:
        """Say that a shard has ended, once all of it was processed."""
        if reading.ended is None or reading.is_lost or reading.waiting:
            return
        if reading.last is not None and reading.checkpointed != reading.last:
            return
        self._coordinator.note_ended(reading.key, reading.ended)
        self._hurry_held()

    # Coordinating: one thread.

    def _hurry(self) -> None:
        with self._lock:
            self._hurry_held()

    def _hurry_held(self) -> None:
        self._must_hurry = True
        self._to_coordinate.notify()

    def _coordinate(self) -> None:
        tick_every_s = self._failover_s / 3
        next_tick_s = self._clock.monotonic_s() + tick_every_s
        try:
            while self._wait_to_coordinate(min(self._every_s, tick_every_s)):
                try:
                    self._coordinator.write_checkpoints()
                    now_s = self._clock.monotonic_s()
                    if now_s >= next_tick_s:
                        next_tick_s = now_s + tick_every_s
                        self._coordinator.tick()
                except StoreError as error:
                    self._fail(GroupError(str(error)))
                    return
                except Exception as error:  # noqa: BLE001 - botocore's errors have no common base; all may pass
                    self._coordinator.counts.failed_ticks += 1
                    _LOG.warning(
                        "The leases could not be written or read; it is tried again: %s", error
                    )
                self._coordinator.expire()
                self._warn_of_held()
        except BaseException as error:
            self._fail(error)
            raise

    def _wait_to_coordinate(self, timeout_s: float) -> bool:
        with self._lock:
            if not self._is_closed and not self._must_hurry:
                self._clock.wait(self._to_coordinate, timeout_s)
            self._must_hurry = False
            return not self._is_closed

    def _warn_of_held(self) -> None:
        """Say which batches have been in process for long: nobody else reads their shards meanwhile."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            held = [
                (reading, now_s - batch.delivered_s)
                for reading, batch in self._batches.values()
                if now_s - batch.delivered_s > _HELD_FOR_S
                and now_s - reading.warned_s > _HELD_FOR_S
            ]
            for reading, _ in held:
                reading.warned_s = now_s
        for reading, seconds in held:
            _LOG.warning("A batch of %s has been in process for %d s", reading.key, seconds)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = error
            self._to_process.notify_all()


def _filter_of(start: str | datetime) -> dict[str, Any]:
    if isinstance(start, datetime):
        at = start if start.tzinfo else start.replace(tzinfo=UTC)
        return {"Type": "AT_TIMESTAMP", "Timestamp": at}
    return {"Type": "AT_LATEST" if start == LATEST else "AT_TRIM_HORIZON"}


def _advice(error: ServiceError, key: str) -> str:
    if error.code == "AccessDeniedException":
        return f"{key} cannot be read: {error}"
    return (
        f"{key} cannot be read where its lease says: {error}. Was the stream deleted, or made anew? Then use another "
        "application name, or delete the application's leases."
    )
