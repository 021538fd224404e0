"""Reads a stream together with other workers: each shard by one worker, each record at least once, in order per key.

    with ConsumerGroup("orders-app", "orders") as group:
        for batch in group:
            for record in batch:
                print(record.data)

The leases are those of the Kinesis Client Library: its workers (Java, kcl-rs) may be in the same application.
"""

from __future__ import annotations

import logging
import math
import os
import random
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, Self

from botocore.exceptions import ClientError

from headrace.client.access import AwsAccess
from headrace.client.clock import Clock, SystemClock
from headrace.client.fan_out import FanOutReader, register
from headrace.client.hash_keys import Streams
from headrace.client.leases.coordinator import Coordinator
from headrace.client.leases.dynamodb import DynamoDbLeaseStore
from headrace.client.leases.stores import (
    AT_TIMESTAMP,
    LATEST,
    TRIM_HORIZON,
    Checkpoint,
    Lease,
    LeaseStore,
    StoreError,
)
from headrace.client.readings import MOST_RECORDS, GroupMetrics, Reading, Readings, ShardReader
from headrace.client.records import Batch, Page, Record
from headrace.client.wire import ServiceError, Target, Wire, WireError

_LOG = logging.getLogger("headrace.client")
_LONGEST_BACKOFF_S = 5.0
_HELD_FOR_S = 60.0
# Refusals that no retry mends.
_FATAL = frozenset(
    {
        "ResourceNotFoundException",
        "InvalidArgumentException",
        "AccessDeniedException",
        "ValidationException",
    }
)


class GroupError(Exception):
    """The group cannot go on. The message says why, and what to do."""


class ConsumerGroup:
    """A worker of a group. Close it, or use it as a context manager: its shards are others' at once then.

    Thread-safe, but for the loop, which is one thread's; `run` (headrace.client.processing) processes shards in
    parallel.

    Args:
        application: workers with the same name share the stream; the lease table has this name too.
        stream: its name or ARN.
        start: where shards without a checkpoint begin, when the application is new.
        worker_id: this worker; a new one with the id of one that died goes on at once. Default: made up.
        store: the leases; default: DynamoDB. `MemoryLeaseStore` and `FileLeaseStore` need none.
        checkpoint: `auto`: a batch is processed when the loop asks for the next; `manual`: when
            `batch.checkpoint()` says so.
        checkpoint_every_s: how often checkpoints are written: what is read twice at most after a crash.
        failover_s: after how long a worker that is silent loses its shards.
        hold_at_most_s: after how long with a batch this worker leaves the group, until it gives the batch back, so
            that others read its shards. Default: never.
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
        hold_at_most_s: float = math.inf,
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
        """Take the settings. This sends nothing."""
        if fetchers < 1 or not 1 <= max_records <= MOST_RECORDS:
            raise ValueError(f"fetchers is at least 1, max_records between 1 and {MOST_RECORDS}")
        self.application, self.stream = application, stream
        self._access = AwsAccess(session=session, region=region, endpoint_url=endpoint_url)
        self._streams = streams or Streams(self._access, stream)
        self._make_wire = make_wire or self._new_wire
        self._clock = clock or SystemClock()
        self._is_manual = checkpoint == "manual"
        self._every_s, self._idle_s = checkpoint_every_s, idle_s
        self._hold_at_most_s = hold_at_most_s
        self._failover_s, self._max_records, self._fetchers = failover_s, max_records, fetchers
        self._start_at = start if isinstance(start, datetime) else None
        self._fan_out = application if fan_out is True else fan_out or None
        self._consumer_arn: str | None = None
        self.worker_id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._store = store or DynamoDbLeaseStore(application, access=self._access)
        self._coordinator = self._new_coordinator(start, shard_sync_s)
        self._lock = threading.Lock()
        self._to_fetch = threading.Condition(self._lock)
        self._to_process = threading.Condition(self._lock)
        self._to_coordinate = threading.Condition(self._lock)
        self._readings = Readings(self, idle_s=idle_s)
        self._failure: BaseException | None = None
        self._is_started = self._is_closed = self._must_hurry = False
        self._threads: list[threading.Thread] = []
        self._chance = random.Random()

    def _new_coordinator(
        self, start: Literal["TRIM_HORIZON", "LATEST"] | datetime, shard_sync_s: float
    ) -> Coordinator:
        return Coordinator(
            self._store,
            self._streams,
            self,
            worker_id=self.worker_id,
            initial=Checkpoint(AT_TIMESTAMP if isinstance(start, datetime) else start),
            initial_filter=_filter_of(start),
            clock=self._clock,
            failover_s=self._failover_s,
            shard_sync_s=shard_sync_s,
        )

    # The face.

    def start(self) -> None:
        """Join the group and begin to read; `for` does it too. After an error it may be called again.

        Raises GroupError, which has a refusal of the services as its cause, and botocore's errors without an answer.
        """
        with self._lock:
            if self._is_started or self._is_closed:
                return
            self._is_started = True
        try:
            if self._fan_out is not None:
                self._consumer_arn = register(self._access, self._streams, self._fan_out)
            fetchers = self._fetchers
            self._store.prepare()
            self._coordinator.tick()
        except Exception as error:
            # Nobody waits for a worker that has not begun, and this one may begin again.
            self._leave()
            self._is_started = False
            if isinstance(error, StoreError):
                raise GroupError(str(error)) from error
            if isinstance(error, ClientError):
                refusal = error.response.get("Error", {})
                raise GroupError(
                    f"{self.application} cannot read {self.stream}: {refusal.get('Code')}: {refusal.get('Message')}"
                ) from error
            raise
        with self._lock:
            self._begin_thread(self._coordinate, "headrace-leases")
            for i in range(fetchers):
                self._begin_thread(self._fetch_loop, f"headrace-fetch-{i}")

    def _begin_thread(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
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
                delivered = self._readings.deliver(self._clock.monotonic_s())
                if delivered is not None:
                    self._to_fetch.notify()
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
            reading = self._readings.finish(batch)
            if reading is None:
                return
            if reading.is_draining:
                self._coordinator.note_drained(reading.key)
                self._hurry()
            elif is_processed:
                self._readings.go_on(reading)
            else:
                self._read_again(reading)
            self._to_process.notify()
            self._to_fetch.notify()

    def checkpoint(self, batch: Batch, record: Record | None) -> bool:
        """See `Batch.checkpoint`."""
        with self._lock:
            end = self._readings.note_checkpoint(batch, record)
            if end is None:
                return False
            bytes_ = sum(len(r.data) for r in batch.records) if record is None else 0
            self._coordinator.note_processed(batch.shard_id, end, bytes_)
            self._end_if_done(self._readings.by_key[batch.shard_id])
        return True

    def is_at_the_end(self) -> bool:
        """Whether this worker has processed all that its shards had when they were last asked."""
        with self._lock:
            return self._readings.is_at_the_end()

    def metrics(self) -> GroupMetrics:
        """Return what this worker has and has done."""
        with self._lock:
            readings, counts = self._readings.by_key, self._readings.counts
            return GroupMetrics(
                shards={key: reading.lag_ms for key, reading in readings.items()},
                is_leader=self._coordinator.is_leader,
                records=counts.records,
                batches=counts.batches,
                bytes=counts.bytes,
                checkpoints=self._coordinator.counts.checkpoints,
                lost_leases=self._coordinator.counts.lost,
                foreign=counts.foreign + sum(r.reader.unpack.dropped for r in readings.values()),
            )

    def close(self) -> None:
        """Write the last checkpoints, give the shards back, and end the threads. Calling it twice is fine.

        A batch that is being processed is not waited for: what it has not checkpointed is read again.
        """
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            self._readings.lose_all()
            for condition in (self._to_fetch, self._to_process, self._to_coordinate):
                condition.notify_all()
        if was_closed or not self._is_started:
            return
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._leave()

    def _leave(self) -> None:
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
            self._readings.begin(lease.key, reader)
            # A shard that is pushed needs a thread that waits for it.
            if self._consumer_arn is not None and len(self._readings.by_key) > self._fetchers:
                self._fetchers += 1
                self._begin_thread(self._fetch_loop, f"headrace-fetch-{self._fetchers}")
            self._to_fetch.notify()
        _LOG.info(
            "%s reads %s from %s", self.worker_id, lease.key, lease.checkpoint.sequence_number
        )

    def drain(self, key: str) -> None:
        """See `headrace.client.leases.coordinator.Listener`."""
        with self._lock:
            if self._readings.drain(key):
                self._coordinator.note_drained(key)
                self._hurry()

    def lose(self, key: str) -> None:
        """See `headrace.client.leases.coordinator.Listener`."""
        with self._lock:
            self._readings.lose(key)

    # Fetching: threads of the group.

    def _new_wire(self) -> Wire:
        return Wire(self._access, Target.kinesis(self._access))

    def _reader_of(self, lease: Lease) -> Any:
        if self._consumer_arn is not None:
            return FanOutReader(lease, self._consumer_arn, self._make_wire, start_at=self._start_at)
        return ShardReader(
            lease,
            self._streams.name_member,
            start_at=self._start_at,
            most_records=self._max_records,
        )

    def _read_again(self, reading: Reading) -> None:
        lease = self._coordinator.owned().get(reading.key)
        if lease is not None:
            self._readings.read_again(
                reading,
                lambda end: self._reader_of(replace(lease, checkpoint=end or lease.checkpoint)),
                self._clock.monotonic_s() + self._idle_s,
            )

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

    def _next_due(self) -> Reading | None:
        with self._lock:
            while not self._is_closed:
                now_s = self._clock.monotonic_s()
                reading, due_s = self._readings.next_due(now_s)
                if reading is not None:
                    # Another thread takes the next one, or waits for it.
                    self._to_fetch.notify()
                    return reading
                self._clock.wait(self._to_fetch, None if due_s is None else due_s - now_s)
        return None

    def _fetch(self, reading: Reading, wire: Any) -> None:
        try:
            page: Page = reading.reader.fetch(wire)
        except (ServiceError, WireError) as error:
            if reading.is_lost:
                return
            if isinstance(error, ServiceError) and error.code in _FATAL and not error.is_passing:
                self._fail(GroupError(_advice(error, reading.key)))
            else:
                self._retry(reading, error)
            return
        with self._lock:
            self._readings.take(reading, page, self._clock.monotonic_s())
            self._end_if_done(reading)
            self._to_process.notify()

    def _retry(self, reading: Reading, error: ServiceError | WireError) -> None:
        with self._lock:
            reading.is_fetching = False
            reading.failures += 1
            pause_s = min(_LONGEST_BACKOFF_S, self._idle_s * 2 ** min(reading.failures, 10))
            pause_s *= 0.5 + self._chance.random() / 2
            self._readings.schedule(reading, self._clock.monotonic_s() + pause_s)
        _LOG.warning("%s is read again in a moment: %s", reading.key, error)

    def _end_if_done(self, reading: Reading) -> None:
        """Say that a shard has ended, once all of it was processed. With the lock held."""
        children = self._readings.children_if_done(reading)
        if children is not None:
            self._coordinator.note_ended(reading.key, children)
            self._hurry()

    # Coordinating: one thread.

    def _hurry(self) -> None:
        """Have checkpoints written now. With the lock held."""
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
                    if not self._look_at_held() and now_s >= next_tick_s:
                        self._coordinator.tick()
                        next_tick_s = now_s + tick_every_s
                except StoreError as error:
                    self._fail(GroupError(str(error)))
                    return
                except Exception as error:  # noqa: BLE001 - botocore's errors have no common base; all may pass
                    _LOG.warning(
                        "The leases could not be written or read; it is tried again: %s", error
                    )
                self._coordinator.expire()
        except BaseException as error:
            self._fail(error)
            raise

    def _wait_to_coordinate(self, timeout_s: float) -> bool:
        with self._lock:
            if not self._is_closed and not self._must_hurry:
                self._clock.wait(self._to_coordinate, timeout_s)
            self._must_hurry = False
            return not self._is_closed

    def _look_at_held(self) -> bool:
        """Warn of batches in process for long; leave the group while one is for too long, and return whether so."""
        with self._lock:
            now_s, readings = self._clock.monotonic_s(), self._readings
            held = readings.held_since(now_s, _HELD_FOR_S)
            is_away = readings.longest_held_s(now_s) > self._hold_at_most_s
            must_leave = is_away and bool(readings.by_key)
        for reading, seconds in held:
            _LOG.warning("A batch of %s has been in process for %d s", reading.key, seconds)
        if must_leave:
            _LOG.warning("%s leaves its shards to others until its batch is done", self.worker_id)
            self._coordinator.leave()
        return is_away

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
    sentence = str(error).rstrip(".")
    if error.code == "AccessDeniedException":
        return f"{key} cannot be read: {sentence}"
    return (
        f"{key} cannot be read where its lease says: {sentence}. Was the stream deleted, or made anew? Then use "
        "another application name, or delete the application's leases."
    )
