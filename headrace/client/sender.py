"""Sends a producer's records: the threads, the lock and the waiting, and what answers mean for callbacks and counts.

What waits is in lanes (headrace.client.lanes); what goes into a request, and what an answer changes, is decided without
a lock or a clock (headrace.client.dispatch).

Keeps a producer's map of shards up to date.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headrace.client.clock import Clock
from headrace.client.dispatch import (
    Bodies,
    Dispatch,
    Foreign,
    Outcome,
    Request,
    Settled,
    outcome_of,
)
from headrace.client.hash_keys import ShardMap, Streams, random_key
from headrace.client.lanes import Lanes, Spool
from headrace.client.receipts import (
    Calls,
    Chunk,
    ProducerMetrics,
    PutError,
    PutsFailed,
    Receipt,
    RequestCounts,
)
from headrace.client.wire import CBOR, ServiceError, WireError

_AGAIN_S = 1.0


class MapKeeper:
    """The newest map of a stream's shards. Thread-safe; one thread at a time asks the cloud."""

    def __init__(self, streams: Streams, clock: Clock, is_stopped: Callable[[], bool]) -> None:
        self._streams, self._clock, self._is_stopped = streams, clock, is_stopped
        self._asking = threading.Lock()
        self._map: ShardMap | None = None
        self.refreshes = 0

    def first(self) -> ShardMap:
        """Return the map, from the cloud the first time. Raises botocore's errors."""
        with self._asking:
            if self._map is None:
                self._map = ShardMap(self._streams.open_shards())
            return self._map

    def knowing(self, shard_ids: set[str]) -> ShardMap:
        """Return a map that knows these shards, or that is newer than they are: they may have been split again.

        What fails is logged, and tried again until the producer is stopped.
        """
        with self._asking:
            shards = self._map
            while shards is None or not all(_is_known(shards, shard_id) for shard_id in shard_ids):
                try:
                    shards = self._map = ShardMap(self._streams.open_shards())
                    self.refreshes += 1
                except Exception as error:  # noqa: BLE001 - botocore's errors have no common base
                    _LOG.warning("The shards cannot be listed; it is tried again: %s", error)
                    if self._is_stopped() and shards is not None:
                        return shards
                    pause = threading.Condition()
                    with pause:
                        self._clock.wait(pause, _AGAIN_S)
            return shards


def _is_known(shards: ShardMap, shard_id: str) -> bool:
    return shards.by_id(shard_id) is not None or shard_id < shards.newest_id


_LOG = logging.getLogger("headrace.client")
_LOG_EVERY_S = 5.0
_CLOSED = "the producer was closed before the record was put"


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """How a sender sends: its threads, how much may wait, and whether a failed record ends it."""

    connections: int
    most_records: int
    most_bytes: int
    stop_at_failure: bool

    def __post_init__(self) -> None:
        if self.connections < 1 or self.most_records < 1:
            raise ValueError("connections and max_buffered_records are positive")


class Sender:
    """Threads that empty the lanes of one producer. Thread-safe; `lock` guards the lanes.

    It owns the chunks (`headrace.client.receipts.Owner`).
    """

    def __init__(
        self,
        streams: Streams,
        lanes: Lanes,
        dispatch: Dispatch,
        options: SenderOptions,
        *,
        stream: str,
        clock: Clock,
        chance: random.Random,
        spool: Spool | None,
        on_request: Callable[[RequestCounts], Any] | None,
        make_wire: Callable[[], Any],
    ) -> None:
        self.lock = threading.Lock()
        self.count = ProducerMetrics()
        self.is_closed = self.is_stopped = self.is_started = False
        self._streams, self._lanes, self._dispatch, self._options = (
            streams,
            lanes,
            dispatch,
            options,
        )
        self._stream, self._clock, self._chance, self._spool = stream, clock, chance, spool
        self._on_request, self._make_wire = on_request, make_wire
        self._bodies = Bodies(streams.name_member)
        self._work = threading.Condition(self.lock)
        self._room = threading.Condition(self.lock)
        self._done = threading.Condition(self.lock)
        self._waiting_for_done = self._idle = self._waiting_for_room = self._flushing = 0
        self._has_auto_keys: bool | None = None
        self._maps = MapKeeper(streams, clock, lambda: self.is_stopped)
        self._logged_s = -_LOG_EVERY_S
        self._unheard: PutError | None = None
        self._unheard_count = self._flying_records = self._flying_bytes = 0
        self._threads = [
            threading.Thread(target=self._send_loop, name=f"headrace-put-{i}", daemon=True)
            for i in range(options.connections)
        ]

    # What the producer asks for.

    def start(self) -> None:
        """Start the threads, and list the shards where they matter. Raises botocore's errors."""
        shards = self._maps.first() if self._lanes.by_shard else None
        with self.lock:
            if self.is_started:
                return
            if shards is not None:
                self._lanes.use_map(shards)
            for thread in self._threads:
                thread.start()
            self.is_started = True

    def wake(self) -> None:
        """Let an idle thread look at the lanes. With the lock held."""
        if self._idle:
            self._work.notify()

    def is_full(self, share: int) -> bool:
        """Whether that share (1: all, 2: half) of the buffer is full. With the lock held."""
        records, bytes_ = self._count_buffered()
        options = self._options
        return records >= options.most_records // share or bytes_ >= options.most_bytes // share

    def wait_for_room(self) -> None:
        """Wait until the buffer is half empty: waking for each chunk would cost more than the chunk.

        With the lock held. Raises PutError when the producer is closed meanwhile.
        """
        while self.is_full(2):
            self._waiting_for_room += 1
            self._work.notify_all()
            self._clock.wait(self._room, None)
            self._waiting_for_room -= 1
            if self.is_closed:
                raise PutError("Closed", "the producer was closed")

    def flush(self, timeout_s: float | None) -> None:
        """See `Producer.flush`."""
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        with self.lock:
            self._flushing += 1
            self._work.notify_all()
            try:
                while not self._is_empty() and not self.is_stopped:
                    self._wait_for_done(deadline_s, f"records still wait for {self._stream}")
            finally:
                self._flushing -= 1
            count, error = self._unheard_count, self._unheard
            self._unheard_count, self._unheard = 0, None
        if error is not None:
            raise PutsFailed(count, error)

    def stop(self) -> None:
        """Fail what waits, and end the threads."""
        self._end("Closed", _CLOSED)
        if self.is_started:
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()

    def metrics(self) -> ProducerMetrics:
        """See `Producer.metrics`."""
        with self.lock:
            records, bytes_ = self._count_buffered()
            opened = [lane.open for lane in self._lanes.lanes if lane.open is not None]
            return replace(
                self.count,
                map_refreshes=self._maps.refreshes,
                buffered=records + sum(map(len, opened)),
                buffered_bytes=bytes_ + sum(sum(map(len, chunk.data)) for chunk in opened),
            )

    def wait_for(self, receipt: Receipt, timeout_s: float | None) -> bool:
        """See `headrace.client.receipts.Owner`."""
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        with self.lock:
            try:
                while not receipt.done():
                    self._wait_for_done(deadline_s, "")
            except TimeoutError:
                return False
        return True

    def call_when_done(self, receipt: Receipt, callback: Callable[[Receipt], Any]) -> None:
        """See `headrace.client.receipts.Owner`."""
        with self.lock:
            chunk, place = receipt.home()
            if not chunk.is_done():
                chunk.add_callback(place, callback, receipt)
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

    def _count_buffered(self) -> tuple[int, int]:
        """Return how many records are not done, and their bytes, but for those of open chunks. With the lock held."""
        lanes = self._lanes
        return (
            self._flying_records + lanes.ready_records,
            self._flying_bytes + lanes.ready_bytes,
        )

    def _is_empty(self) -> bool:
        lanes = self._lanes
        return not (self._flying_records or any(lane.ready or lane.open for lane in lanes.lanes))

    # The threads.

    def _send_loop(self) -> None:
        wire: Any = None
        try:
            while (request := self._next_request()) is not None:
                if wire is None:
                    wire = self._make_wire()
                outcome = self._ask(wire, request)
                self._settle(request, outcome)
        except BaseException as error:
            _LOG.exception("A producer's thread of %s ended; its records fail", self._stream)
            # It met what it cannot handle, and nobody may wait for it.
            self._end("InternalFailure", f"a thread ended: {error}")
            raise
        finally:
            if wire is not None:
                wire.close()

    def _next_request(self) -> Request | None:
        with self.lock:
            while not self.is_stopped:
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
        return outcome_of(answer, request.entries, with_shards=self._lanes.by_shard)

    def _random_keys(self, count: int) -> list[str] | None:
        if self._has_auto_keys is None:
            self._has_auto_keys = self._streams.places_records_itself()
        return None if self._has_auto_keys else [random_key(self._chance) for _ in range(count)]

    def _settle(self, request: Request, outcome: Outcome) -> None:
        records = sum(len(chunk) for chunk, _ in request.chunks)
        with self.lock:
            settled = self._dispatch.settle(request, outcome, self._clock.monotonic_s())
            callbacks = self._account(settled)
            if not settled.foreign:
                self._land(records, request.bytes_)
        self._call(callbacks)
        if self._on_request is not None:
            self._tell(self._on_request, request, outcome, settled)
        if settled.new_shards:
            shards = self._maps.knowing(settled.new_shards)
            with self.lock:
                self._use_map(shards)
        if settled.foreign:
            self._settle_foreign(settled.foreign)
            with self.lock:
                self._land(records, request.bytes_)

    def _tell(
        self,
        on_request: Callable[[RequestCounts], Any],
        request: Request,
        outcome: Outcome,
        settled: Settled,
    ) -> None:
        counts = RequestCounts(
            request.entries,
            settled.refused,
            sum(sum(map(len, chunk.data)) for chunk in settled.arrived),
            has_failed=outcome.answer is None,
        )
        try:
            on_request(counts)
        except Exception:  # noqa: BLE001 - it is the application's
            _LOG.exception("on_request of a producer of %s raised", self._stream)

    def _land(self, records: int, bytes_: int) -> None:
        """A request is not on its way any more: its records are done, or wait again. With the lock held."""
        self._flying_records -= records
        self._flying_bytes -= bytes_
        if self._waiting_for_done:
            self._done.notify_all()
        if self._waiting_for_room:
            self._room.notify_all()
        self.wake()

    def _use_map(self, shards: ShardMap) -> None:
        """Take a map of shards, if it is another one. With the lock held."""
        if shards is not self._lanes.map:
            self._lanes.use_map(shards)

    def _settle_foreign(self, foreign: list[Foreign]) -> None:
        """Acknowledge what its consumers see, and send the rest again: aggregates went to shards not predicted."""
        shards = self._maps.knowing({item.shard_id for item in foreign})
        with self.lock:
            self._use_map(shards)
            callbacks = self._account(self._dispatch.settle_foreign(foreign, shards))
        self._call(callbacks)

    def _account(self, settled: Settled) -> Calls:
        """Count, and note in the spool what is done. With the lock held; return the callbacks."""
        count = self.count
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
                "%d records were not put into %s: %s", settled.unheard, self._stream, settled.error
            )
        if settled.sentence:
            self._say("Putting into %s is tried again: %s", self._stream, settled.sentence)
        if settled.failed and self._options.stop_at_failure:
            self.is_closed = True
        # A refused record does not wait for a producer that will not put it.
        if self.is_stopped or (self.is_closed and self._options.stop_at_failure):
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
                    "A callback of a record of %s raised; the record is done", self._stream
                )

    def _fail_waiting(self, code: str, message: str) -> Calls:
        """Fail what waits, with the lock held. What is in a spool is not lost: the next producer puts it."""
        waiting: list[Chunk] = []
        for lane in self._lanes.lanes:
            self._lanes.close(lane)
            while lane.ready:
                waiting.append(self._lanes.take(lane))
        return self._account(self._dispatch.fail(waiting, code, message)) if waiting else []

    def _end(self, code: str, message: str) -> None:
        """Take no more records, fail those that wait, and wake everybody."""
        with self.lock:
            self.is_closed = self.is_stopped = True
            callbacks = self._fail_waiting(code, message)
            for condition in (self._work, self._room, self._done):
                condition.notify_all()
        self._call(callbacks)
