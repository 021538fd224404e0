"""Puts records into a stream: batched, aggregated on demand, retried, with back-pressure.

    with Producer("orders") as producer:
        producer.put(b"...", key="customer-7")

`AsyncProducer` (headrace.client.async_producer) is the same for asyncio.
"""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from headrace.client.access import AwsAccess
from headrace.client.clock import Clock, SystemClock
from headrace.client.dispatch import Calls, Dispatch, Foreign, Settled
from headrace.client.hash_keys import HASH_KEYS, ShardMap, random_key
from headrace.client.lanes import Lane, Lanes
from headrace.client.producer_metrics import ProducerMetrics, PutsFailed, RequestCounts
from headrace.client.put_requests import MOST_RECORDS, Bodies, Outcome, Request, outcome_of
from headrace.client.receipts import BufferFull, Chunk, PutError, Receipt, Receipts, size_of
from headrace.client.shard_maps import MapKeeper
from headrace.client.spool import Spool
from headrace.client.streams import Streams
from headrace.client.wire import CBOR, ServiceError, Target, Wire, WireError

MOST_KEY_CHARS = 256
MOST_RECORD_BYTES = 10 << 20
_LOG = logging.getLogger("headrace.client")
_LOG_EVERY_S = 5.0
_SPOOL_CLOSE_WITHIN_S = 30.0
# Half of a character of UTF-16, as in an argument that is not UTF-8: no request can carry it.
_SURROGATE = re.compile("[\ud800-\udfff]")
# How many records `put_many` takes before it lets others put.
_TAKEN_AT_ONCE = 1000
_CLOSED = "the producer was closed before the record was put"


class Producer:
    """A producer of one stream. All methods are thread-safe. As a context manager it flushes and closes at the end.

    Durability: a record is in the stream once its receipt is done without an error; until then it is in memory alone,
    or, with `spool`, in a journal from which the next producer with the same path puts it. Records may be put twice
    after a lost answer, as with every producer of Kinesis.
    """

    def __init__(
        self,
        stream: str,
        *,
        aggregate: bool = False,
        ordered: bool = False,
        linger_ms: float = 50.0,
        max_records: int = MOST_RECORDS,
        max_bytes: int = 4 << 20,
        aggregate_bytes: int = 51_200,
        aggregate_records: int = 1 << 32,
        rate_share: float | None = None,
        when_full: Literal["block", "drop", "raise"] = "block",
        max_buffered_records: int = 100_000,
        max_buffered_bytes: int = 64 << 20,
        give_up_after_s: float | None = 30.0,
        stop_at_failure: bool = False,
        connections: int = 2,
        spool: str | Path | None = None,
        fsync: bool = False,
        session: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        clock: Clock | None = None,
        on_request: Callable[[RequestCounts], Any] | None = None,
        seed: int | None = None,
        streams: Streams | None = None,
        make_wire: Callable[[], Any] | None = None,
    ) -> None:
        """Take a stream's name or ARN. This sends nothing: a missing stream is found by the first put.

        Args:
            stream: the stream.
            aggregate: put many records of a shard into one, in KPL's format.
            ordered: keep the order of the records of each key, over failed entries and reshards too. Without
                `aggregate` a request then has one record of a key.
            linger_ms: how long a record waits at most for others.
            max_records: how many entries fill a request.
            max_bytes: how many bytes fill a request.
            aggregate_bytes: how many bytes fill an aggregate.
            aggregate_records: how many records fill an aggregate.
            rate_share: the share of each shard's quota (1,000 records and 1 MiB per second) to use at most.
            when_full: what `put` does while the buffer is full: wait, drop the record, or raise BufferFull.
            max_buffered_records: how many records fill the buffer.
            max_buffered_bytes: how many bytes fill the buffer.
            give_up_after_s: after how long a record that is refused again and again fails; None: never. A spool
                never gives up.
            stop_at_failure: after a record that failed, put none that waits, and take none: they fail as `Closed`.
                With one connection, nothing is put that came after the failed record's request.
            connections: how many requests are sent at once.
            spool: a folder for the journal.
            fsync: whether a record is on the disk before `put` returns, and not only with the operating system.
            session: as for boto3.
            region: as for boto3.
            endpoint_url: as for boto3.
            clock: for tests.
            on_request: called by a thread of the producer after each request, with what became of it.
            seed: for tests.
            streams: for tests.
            make_wire: for tests.
        """
        if not 1 <= max_records <= MOST_RECORDS:
            raise ValueError(f"max_records is between 1 and {MOST_RECORDS}, not {max_records}")
        if connections < 1 or max_buffered_records < 1 or linger_ms < 0:
            raise ValueError("connections, max_buffered_records and linger_ms are positive")
        self.stream = stream
        self._access = AwsAccess(session=session, region=region, endpoint_url=endpoint_url)
        self._streams = streams or Streams(self._access, stream)
        self._make_wire = make_wire or self._new_wire
        self._clock, self._chance = clock or SystemClock(), random.Random(seed)
        self._lanes = Lanes(
            aggregated=aggregate,
            ordered=ordered,
            rate_share=rate_share,
            most_records=aggregate_records if aggregate else max_records,
            most_bytes=aggregate_bytes if aggregate else max_bytes,
        )
        self._by_shard, self._overhead_bytes = self._lanes.by_shard, self._lanes.overhead_bytes
        self._most_in_chunk = self._lanes.most_records
        self._lane_of_key = self._lanes.of_key.get
        # The place that only `_put` fills: it closes the chunk; with a spool, all of them.
        self._last_place = self._most_in_chunk - 1 if spool is None else 0
        self._bodies = Bodies(self._streams.name_member)
        self._max_records, self._max_bytes = max_records, max_bytes
        self._dispatch = Dispatch(
            self._lanes,
            linger_s=linger_ms / 1000,
            max_records=max_records,
            max_bytes=max_bytes,
            give_up_after_s=None if spool is not None else give_up_after_s,
            chance=self._chance,
        )
        self._stop_at_failure = stop_at_failure
        self._on_request = on_request
        self._when_full: Literal["block", "drop", "raise"] = when_full
        self._most_records, self._most_bytes = max_buffered_records, max_buffered_bytes
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._waiting_for_done = self._idle = self._waiting_for_room = 0
        self._flushing = 0
        self._is_closed = self._is_started = self._is_stopped = False
        self._has_auto_keys: bool | None = None
        self._maps = MapKeeper(self._streams, self._clock, lambda: self._is_stopped)
        self._logged_s = -_LOG_EVERY_S
        self._unheard: PutError | None = None
        self._unheard_count = self._flying_records = self._flying_bytes = 0
        self._count = ProducerMetrics()
        self._threads = [
            threading.Thread(target=self._send_loop, name=f"headrace-put-{i}", daemon=True)
            for i in range(connections)
        ]
        self._spool = None if spool is None else Spool(Path(spool), fsync=fsync)
        for record in self._spool.pending() if self._spool is not None else ():
            self._put(record.data, record.key, record.explicit, spool_id=record.id)

    # Putting.

    def put(
        self,
        data: bytes,
        key: str | None = None,
        *,
        explicit_hash_key: int | str | None = None,
        on_done: Callable[[Receipt], Any] | None = None,
    ) -> Receipt:
        """Take a record; it is sent by a thread of the producer. Return its receipt.

        Without a key the record may go to any shard. Blocks while the buffer is full, if so chosen.

        Raises:
            ValueError: the record is larger than Kinesis takes, or a key is not valid.
            BufferFull: the buffer is full, and `when_full` is `raise`.
            PutError: the producer is closed.
        """
        if key and type(data) is bytes and explicit_hash_key is None and on_done is None:
            # The usual: a record that fits into the open chunk of its lane.
            bytes_ = len(data) + len(key) + self._overhead_bytes
            with self._lock:
                if self._by_shard:
                    lane = self._lane_of_key(key)
                else:
                    lane = self._lanes.all if len(key) <= MOST_KEY_CHARS and key.isascii() else None
                if lane is not None and (chunk := lane.open) is not None and chunk.room >= bytes_:
                    index = len(chunk.data)
                    if index < self._last_place:
                        chunk.room -= bytes_
                        chunk.data.append(data)
                        chunk.keys.append(key)
                        return Receipt((chunk, index))
        explicit = None if explicit_hash_key is None else str(int(explicit_hash_key))
        return self._put(data, key, explicit, on_done)

    def put_many(self, records: Iterable[tuple[bytes, str | None]]) -> Receipts:
        """Take records, each its data and its key or None, in order, as `put` does, in less of its time.

        Raises:
            ValueError: a record is larger than Kinesis takes, or a key is not valid; none is taken.
            BufferFull: the buffer is full, and `when_full` is `raise`; its `taken` are the receipts of the first
                records, which are taken.
            PutError: the producer is closed; the first records may have been taken.
        """
        rows = list(records)
        are_usual = self._spool is None and _are_plain(rows)
        if not are_usual:
            rows = [(_bytes_of(data), key) for data, key in rows]
            for data, key in rows:
                check_record(data, key)
        if not self._is_started:
            self.start()
        receipts = Receipts()
        try:
            while (done := len(receipts)) < len(rows):
                if are_usual and self._take(rows[done : done + _TAKEN_AT_ONCE], receipts):
                    continue
                receipts.add(self._put(*rows[len(receipts)], None))
        except BufferFull as full:
            full.taken = receipts
            raise
        return receipts

    def _take(self, rows: Sequence[tuple[bytes, Any]], receipts: Receipts) -> bool:
        """Put records with keys into the open chunks of their lanes; return whether all of them had room there."""
        lanes, by_shard, last_place = self._lanes, self._by_shard, self._last_place
        overhead_bytes, lane_of_key, lane = self._overhead_bytes, self._lane_of_key, lanes.all
        add_chunk, add_place = receipts.chunks.append, receipts.places.append
        with self._lock:
            for data, key in rows:
                if by_shard:
                    lane = lane_of_key(key) or lanes.lane_for(key, None)[0]
                bytes_ = len(data) + len(key) + overhead_bytes
                chunk = lane.open
                if chunk is None or chunk.room < bytes_:
                    return False
                place = len(chunk.data)
                if place >= last_place:
                    return False
                chunk.room -= bytes_
                chunk.data.append(data)
                chunk.keys.append(key)
                add_chunk(chunk)
                add_place(place)
        return True

    def _put(
        self,
        data: bytes,
        key: str | None,
        explicit: str | None,
        on_done: Callable[[Receipt], Any] | None = None,
        spool_id: int = -1,
    ) -> Receipt:
        if not self._is_started:
            self.start()
        data = _bytes_of(data)
        check_record(data, key, explicit)
        lanes = self._lanes
        with self._lock:
            lane, explicit = lanes.lane_for(key, explicit)
            bytes_ = size_of(data, key) + lanes.overhead_bytes
            chunk = lane.open
            if chunk is None or chunk.room < bytes_ or len(chunk) >= self._most_in_chunk:
                if not self._make_room(lane):
                    self._count.dropped += 1
                    return self._dropped(data, key)
                lane, explicit = lanes.lane_for(key, explicit)
                chunk = lanes.open_chunk(lane, self, self._clock.monotonic_s())
                if self._idle:
                    self._work.notify()
            index = len(chunk)
            if self._spool is not None:
                chunk.spool_ids = chunk.spool_ids or []
                chunk.spool_ids.append(self._spool.append(data, key, explicit, spool_id))
            chunk.room -= bytes_
            chunk.data.append(data)
            chunk.keys.append(key)
            if explicit is not None:
                chunk.explicit = chunk.explicit or {}
                chunk.explicit[index] = explicit
            if on_done is not None:
                chunk.callbacks = chunk.callbacks or {}
                chunk.callbacks[index] = [on_done]
            if index + 1 >= self._most_in_chunk:
                lanes.close(lane)
                if self._idle:
                    self._work.notify()
        return Receipt((chunk, index))

    def _dropped(self, data: bytes, key: str | None) -> Receipt:
        chunk = Chunk(self, 0.0, 0)
        chunk.data.append(data)
        chunk.keys.append(key)
        chunk.error = PutError("Dropped", "the producer's buffer was full")
        return Receipt((chunk, 0))

    def _make_room(self, lane: Lane) -> bool:
        """Wait for room for a chunk, with the lock held; return whether there is. Raises BufferFull, PutError."""
        if self._is_closed:
            raise PutError("Closed", "the producer is closed")
        lanes = self._lanes
        lanes.close(lane)
        if not self._is_full(1):
            return True
        if self._when_full == "raise":
            raise BufferFull(f"{lanes.ready_bytes} bytes wait already")
        if self._when_full == "drop":
            return False
        # Half empty before it goes on: waking for each chunk would cost more than the chunk.
        while self._is_full(2):
            self._waiting_for_room += 1
            self._work.notify_all()
            self._clock.wait(self._room, None)
            self._waiting_for_room -= 1
            if self._is_closed:
                raise PutError("Closed", "the producer was closed")
        return True

    def _is_full(self, share: int) -> bool:
        records, bytes_ = self._buffered()
        return records >= self._most_records // share or bytes_ >= self._most_bytes // share

    def _buffered(self) -> tuple[int, int]:
        """Return how many records are not done, and their bytes, but for those of open chunks. With the lock held."""
        lanes = self._lanes
        return (
            self._flying_records + lanes.ready_records,
            self._flying_bytes + lanes.ready_bytes,
        )

    def _is_empty(self) -> bool:
        lanes = self._lanes
        return not (self._flying_records or any(lane.ready or lane.open for lane in lanes.lanes))

    def start(self) -> None:
        """Start the threads, and list the shards where they matter; the first `put` does it too.

        Raises botocore's errors.
        """
        shards = self._maps.first() if self._lanes.by_shard else None
        with self._lock:
            if self._is_started:
                return
            if shards is not None:
                self._lanes.use_map(shards)
            for thread in self._threads:
                thread.start()
            self._is_started = True

    # Waiting, flushing, closing.

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what waits without lingering, and wait until every record that was put is done.

        Raises:
            PutsFailed: records failed since the last flush that had no callback.
            TimeoutError: records still wait; they stay.
        """
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        with self._lock:
            self._flushing += 1
            self._work.notify_all()
            try:
                while not self._is_empty() and not self._is_stopped:
                    self._wait_for_done(deadline_s, f"records still wait for {self.stream}")
            finally:
                self._flushing -= 1
            count, error = self._unheard_count, self._unheard
            self._unheard_count, self._unheard = 0, None
        if error is not None:
            raise PutsFailed(count, error)

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, and end the threads. Records that still wait after `timeout_s` fail; a spool keeps them.

        Without a time, it waits as long as records may still be put, but with a spool for 30 s: they are safe there.
        Raises as `flush`; the producer is closed in any case. Closing again does nothing.
        """
        if self._is_stopped:
            return
        if timeout_s is None and self._spool is not None:
            timeout_s = _SPOOL_CLOSE_WITHIN_S
        try:
            self.flush(timeout_s)
        finally:
            with self._lock:
                self._is_closed = self._is_stopped = True
                callbacks = self._fail_waiting("Closed", _CLOSED)
                self._wake_all()
            self._call(callbacks)
            if self._is_started:
                for thread in self._threads:
                    if thread is not threading.current_thread():
                        thread.join()
            if self._spool is not None:
                self._spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        # The block's own error must come out, not what the records met.
        try:
            self.close()
        except (PutsFailed, TimeoutError) as failed:
            _LOG.error("%s", failed)

    def metrics(self) -> ProducerMetrics:
        """Return the counts."""
        with self._lock:
            records, bytes_ = self._buffered()
            opened = [lane.open for lane in self._lanes.lanes if lane.open is not None]
            return replace(
                self._count,
                map_refreshes=self._maps.refreshes,
                buffered=records + sum(map(len, opened)),
                buffered_bytes=bytes_ + sum(sum(map(len, chunk.data)) for chunk in opened),
            )

    def wait_for(self, receipt: Receipt, timeout_s: float | None) -> bool:
        """See `headrace.client.receipts.Owner`."""
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        with self._lock:
            try:
                while not receipt.done():
                    self._wait_for_done(deadline_s, "")
            except TimeoutError:
                return False
        return True

    def call_when_done(self, receipt: Receipt, callback: Callable[[Receipt], Any]) -> None:
        """See `headrace.client.receipts.Owner`."""
        with self._lock:
            chunk, index = receipt.home()
            if not chunk.is_done():
                chunk.callbacks = chunk.callbacks or {}
                chunk.callbacks.setdefault(index, []).append(callback)
                return
        self._call([(callback, receipt)])

    def _wait_for_done(self, deadline_s: float | None, sentence: str) -> None:
        left_s = None if deadline_s is None else deadline_s - self._clock.monotonic_s()
        if left_s is not None and left_s <= 0:
            raise TimeoutError(sentence)
        self._waiting_for_done += 1
        try:
            self._clock.wait(self._done, left_s)
        finally:
            self._waiting_for_done -= 1

    # Sending: threads of the producer.

    def _new_wire(self) -> Wire:
        return Wire(self._access, Target.kinesis(self._access))

    def _send_loop(self) -> None:
        wire: Any = None
        try:
            while (request := self._next_request()) is not None:
                if wire is None:
                    wire = self._make_wire()
                outcome = self._ask(wire, request)
                self._settle(request, outcome)
        except BaseException as error:
            _LOG.exception("A producer's thread of %s ended; its records fail", self.stream)
            self._end_broken(error)
            raise
        finally:
            if wire is not None:
                wire.close()

    def _next_request(self) -> Request | None:
        with self._lock:
            while not self._is_stopped:
                now_s = self._clock.monotonic_s()
                request, wake_s = self._dispatch.take(
                    now_s, is_hurried=bool(self._flushing or self._waiting_for_room)
                )
                if request is not None:
                    self._flying_records += sum(len(chunk) for chunk, _ in request.chunks)
                    self._flying_bytes += request.bytes_
                    return request
                self._idle += 1
                self._clock.wait(self._work, None if wake_s is None else max(0.0, wake_s - now_s))
                self._idle -= 1
        return None

    def _ask(self, wire: Any, request: Request) -> Outcome:
        try:
            keys = None
            if not request.aggregated and any(None in chunk.keys for chunk, _ in request.chunks):
                keys = self._random_keys(request.entries)
            answer = wire.call("PutRecords", self._bodies.body_of(request, keys), CBOR)
        except (ServiceError, WireError) as error:
            return Outcome(error=error)
        except Exception as error:  # noqa: BLE001 - credentials, regions: botocore's errors have no common base
            return Outcome(error=ServiceError(type(error).__name__, str(error), 400))
        return outcome_of(answer, request.entries, with_shards=self._by_shard)

    def _random_keys(self, count: int) -> list[str] | None:
        if self._has_auto_keys is None:
            self._has_auto_keys = self._streams.places_records_itself()
        return None if self._has_auto_keys else [random_key(self._chance) for _ in range(count)]

    def _settle(self, request: Request, outcome: Outcome) -> None:
        records = sum(len(chunk) for chunk, _ in request.chunks)
        with self._lock:
            settled = self._dispatch.settle(request, outcome, self._clock.monotonic_s())
            callbacks = self._account(settled)
            if not settled.foreign:
                self._land(records, request.bytes_)
        self._call(callbacks)
        if self._on_request is not None:
            counts = RequestCounts(
                request.entries,
                settled.refused,
                settled.arrived_bytes,
                has_failed=outcome.answer is None,
            )
            self._on_request(counts)
        if settled.new_shards:
            shards = self._maps.knowing(settled.new_shards)
            with self._lock:
                self._use_map(shards)
        if settled.foreign:
            self._settle_foreign(settled.foreign)
            with self._lock:
                self._land(records, request.bytes_)

    def _land(self, records: int, bytes_: int) -> None:
        """A request is not on its way any more: its records are done, or wait again. With the lock held."""
        self._flying_records -= records
        self._flying_bytes -= bytes_
        if self._waiting_for_done:
            self._done.notify_all()
        if self._waiting_for_room:
            self._room.notify_all()
        if self._idle:
            self._work.notify()

    def _use_map(self, shards: ShardMap) -> None:
        """Take a map of shards, if it is another one. With the lock held."""
        if shards is not self._lanes.map:
            self._lanes.use_map(shards)

    def _settle_foreign(self, foreign: list[Foreign]) -> None:
        """Acknowledge what its consumers see, and send the rest again: aggregates went to shards not predicted."""
        shards = self._maps.knowing({item.shard_id for item in foreign})
        with self._lock:
            self._use_map(shards)
            callbacks = self._account(self._dispatch.settle_foreign(foreign, shards))
        self._call(callbacks)

    def _account(self, settled: Settled) -> Calls:
        """Count, and note in the spool what is done. With the lock held; return the callbacks."""
        count = self._count
        count.requests += settled.requests
        count.entries += settled.entries
        count.throttled += settled.throttled
        count.retried += settled.retried
        count.in_foreign_shard += settled.in_foreign_shard
        count.acknowledged += settled.acknowledged
        count.bytes += settled.done_bytes - settled.failed_bytes
        count.failed += settled.failed
        if self._spool is not None and settled.done_spool_ids:
            self._spool.acknowledge(settled.done_spool_ids)
        if settled.unheard and settled.error is not None:
            self._unheard_count += settled.unheard
            self._unheard = self._unheard or settled.error
            self._say(
                "%d records were not put into %s: %s", settled.unheard, self.stream, settled.error
            )
        if settled.sentence:
            self._say("Putting into %s is tried again: %s", self.stream, settled.sentence)
        if settled.failed and self._stop_at_failure:
            self._is_closed = True
        # A refused record does not wait for a producer that will not put it.
        if self._is_stopped or (self._is_closed and self._stop_at_failure):
            settled.callbacks += self._fail_waiting("Closed", _CLOSED)
        return settled.callbacks

    def _say(self, text: str, *values: Any) -> None:
        """Log a warning, but not hundreds of them in a second."""
        now_s = self._clock.monotonic_s()
        if now_s - self._logged_s >= _LOG_EVERY_S:
            self._logged_s = now_s
            _LOG.warning(text, *values)

    def _call(self, callbacks: Calls) -> None:
        for callback, receipt in callbacks:
            try:
                callback(receipt)
            except Exception:  # noqa: BLE001 - the callback is the application's
                _LOG.exception(
                    "A callback of a record of %s raised; the record is done", self.stream
                )

    def _fail_waiting(self, code: str, message: str) -> Calls:
        """Fail what waits, with the lock held. What is in a spool is not lost: the next producer puts it."""
        waiting: list[Chunk] = []
        for lane in self._lanes.lanes:
            self._lanes.close(lane)
            while lane.ready:
                waiting.append(self._lanes.take(lane))
        return self._account(self._dispatch.fail(waiting, code, message)) if waiting else []

    def _end_broken(self, error: BaseException) -> None:
        """Fail all records: a thread met what it cannot handle, and nobody may wait for it."""
        with self._lock:
            self._is_closed = self._is_stopped = True
            callbacks = self._fail_waiting("InternalFailure", f"a thread ended: {error}")
            self._wake_all()
        self._call(callbacks)

    def _wake_all(self) -> None:
        for condition in (self._work, self._room, self._done):
            condition.notify_all()


def _bytes_of(data: bytes) -> bytes:
    return data if type(data) is bytes else bytes(memoryview(data))


def _are_plain(rows: list[tuple[bytes, Any]]) -> bool:
    """Whether all records are bytes with a key in ASCII that any stream takes. False says nothing."""
    if not rows:
        return True
    data, keys = zip(*rows, strict=True)
    if set(map(type, data)) != {bytes} or None in keys:
        return False
    longest_bytes = max(map(len, data))
    return (
        "".join(keys).isascii()
        and min(map(len, keys)) > 0
        and max(map(len, keys)) <= MOST_KEY_CHARS
        and longest_bytes <= MOST_RECORD_BYTES - MOST_KEY_CHARS
    )


def check_record(data: bytes, key: str | None, explicit: str | None = None) -> None:
    """Raise ValueError for what no stream takes."""
    if key is not None and not 0 < len(key) <= MOST_KEY_CHARS:
        raise ValueError(f"a partition key has 1 to {MOST_KEY_CHARS} characters, not {len(key)}")
    if key is not None and not key.isascii() and _SURROGATE.search(key):
        raise ValueError(f"a partition key is Unicode text, not {key!r}")
    if size_of(data, key) > MOST_RECORD_BYTES:
        raise ValueError(f"a record has at most {MOST_RECORD_BYTES} bytes with its key")
    if explicit is not None and not 0 <= int(explicit) < HASH_KEYS:
        raise ValueError(f"an explicit hash key is between 0 and 2**128 - 1, not {explicit}")
