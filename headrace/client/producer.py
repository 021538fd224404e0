"""Puts records into a stream: batched, aggregated on demand, retried, with back-pressure.

    with Producer("orders") as producer:
        producer.put(b"...", key="customer-7")

`AsyncProducer` (headrace.client.async_producer) is the same for asyncio.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from headrace.client.access import AwsAccess
from headrace.client.clock import Clock, SystemClock
from headrace.client.dispatch import MOST_RECORDS, Dispatch, RequestLimits
from headrace.client.hash_keys import Streams
from headrace.client.lanes import Lane, Lanes, Spool
from headrace.client.receipts import (
    MOST_KEY_CHARS,
    BufferFull,
    Chunk,
    ProducerMetrics,
    PutError,
    PutsFailed,
    Receipt,
    Receipts,
    RequestCounts,
    are_plain,
    bytes_of,
    check_record,
    hash_key_text,
    receipt_of,
    size_of,
)
from headrace.client.sender import Sender, SenderOptions
from headrace.client.wire import Target, Wire

_LOG = logging.getLogger("headrace.client")
_SPOOL_CLOSE_WITHIN_S = 30.0
# How many records `put_many` takes before it lets others put.
_TAKEN_AT_ONCE = 1000


class Producer:
    """A producer of one stream. All methods are thread-safe. As a context manager it flushes and closes at the end.

    Durability: a record is in the stream once its receipt is done without an error; until then it is in memory alone,
    or, with `spool`, in a journal from which the next producer with the same path puts it. Records may be put twice
    after a lost answer, as with every producer of Kinesis. A new producer sends nothing: the first put finds a stream
    missing.

    Args:
        stream: its name or ARN.
        aggregate: put many records of a shard into one, in KPL's format.
        ordered: keep the order of the records of each key, over failed entries and reshards too. Without
            `aggregate` a request then has one record of a key.
        linger_ms: how long a record waits at most for others.
        max_records: how many entries fill a request.
        max_bytes: how many bytes fill a request; larger ones gain nothing, and leave the processor's caches.
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
        on_request: called by a thread of the producer after each request, with what became of it; what it raises
            is logged.
        clock: for tests.
        seed: for tests.
        streams: for tests.
        make_wire: for tests.
    """

    def __init__(
        self,
        stream: str,
        *,
        aggregate: bool = False,
        ordered: bool = False,
        linger_ms: float = 50.0,
        max_records: int = MOST_RECORDS,
        max_bytes: int = 1 << 20,
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
        on_request: Callable[[RequestCounts], Any] | None = None,
        clock: Clock | None = None,
        seed: int | None = None,
        streams: Streams | None = None,
        make_wire: Callable[[], Any] | None = None,
    ) -> None:
        give_up_s = None if spool is not None else give_up_after_s
        limits = RequestLimits(linger_ms / 1000, max_records, max_bytes, give_up_s)
        options = SenderOptions(
            connections, max_buffered_records, max_buffered_bytes, stop_at_failure
        )
        self.stream, self._when_full = stream, when_full
        access = AwsAccess(session=session, region=region, endpoint_url=endpoint_url)
        self._clock, chance = clock or SystemClock(), random.Random(seed)
        lanes = self._lanes = Lanes(
            aggregated=aggregate,
            ordered=ordered,
            rate_share=rate_share,
            most_records=aggregate_records if aggregate else max_records,
            most_bytes=aggregate_bytes if aggregate else max_bytes,
        )
        self._spool = None if spool is None else Spool(Path(spool), fsync=fsync)
        self._sender = Sender(
            streams or Streams(access, stream),
            lanes,
            Dispatch(lanes, limits, chance),
            options,
            stream=stream,
            clock=self._clock,
            chance=chance,
            spool=self._spool,
            on_request=on_request,
            make_wire=make_wire or (lambda: Wire(access, Target.kinesis(access))),
        )
        # What each `put` needs, one step away.
        self._lock, self._lane_of_key = self._sender.lock, lanes.of_key
        self._by_shard, self._overhead_bytes = lanes.by_shard, lanes.overhead_bytes
        # The place that only `_put` fills: it closes the chunk; with a spool, all of them.
        self._last_place = lanes.most_records - 1 if spool is None else 0
        self._put_again()

    def _put_again(self) -> None:
        """Put what an earlier producer has left in the spool."""
        for record in self._spool.pending() if self._spool is not None else ():
            self._put(record.data, record.key, record.explicit, spool_id=record.id)

    # Putting.

    def put(
        self,
        data: bytes | str,
        key: str | None = None,
        explicit_hash_key: int | str | None = None,
        on_done: Callable[[Receipt], Any] | None = None,
    ) -> Receipt:
        """Take a record; it is sent by a thread of the producer. Return its receipt.

        Text is put as UTF-8, as by boto3. Without a key the record may go to any shard. Blocks while the buffer is
        full, if so chosen.

        Raises:
            TypeError: the data is neither bytes nor text, or the key is not text.
            ValueError: the record is larger than Kinesis takes, or a key is not valid.
            BufferFull: the buffer is full, and `when_full` is `raise`.
            PutError: the producer is closed.
        """
        if (
            key is not None
            and explicit_hash_key is None
            and on_done is None
            and type(data) is bytes
        ):
            # The usual: a record that fits into the open chunk of its lane.
            with self._lock:
                if self._by_shard:
                    try:
                        chunk = self._lane_of_key[key].open
                    except (KeyError, TypeError):
                        # A new key, or what is none, which `_put` says.
                        chunk = None
                elif type(key) is str and 0 < len(key) <= MOST_KEY_CHARS and key.isascii():
                    chunk = self._lanes.all.open
                else:
                    chunk = None
                if chunk is not None:
                    room = chunk.room - len(data) - len(key) - self._overhead_bytes
                    place = len(chunk.data)
                    if room >= 0 and place < self._last_place:
                        chunk.room = room
                        chunk.data.append(data)
                        chunk.keys.append(key)
                        # As `receipt_of`, whose call would cost more than its object.
                        receipt = Receipt()
                        receipt.chunk = chunk
                        receipt.place = place
                        return receipt
        return self._put(bytes_of(data), key, hash_key_text(explicit_hash_key), on_done)

    def put_many(self, records: Iterable[tuple[bytes | str, str | None]]) -> Receipts:
        """Take records, each its data and its key or None, in order, as `put` does, in less of its time.

        Raises:
            TypeError, ValueError: as from `put`, for any of them; none is taken.
            BufferFull: the buffer is full, and `when_full` is `raise`; its `taken` are the receipts of the first
                records, which are taken.
            PutError: the producer is closed; the first records may have been taken.
        """
        rows: list[tuple[Any, Any]] = list(records)
        are_usual = self._spool is None and are_plain(rows)
        if not are_usual:
            rows = [(bytes_of(data), key) for data, key in rows]
            for data, key in rows:
                check_record(data, key)
        if not self._sender.is_started:
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
        overhead_bytes, lane_of_key, lane = self._overhead_bytes, self._lane_of_key.get, lanes.all
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
        if not self._sender.is_started:
            self.start()
        check_record(data, key, explicit)
        lanes, sender = self._lanes, self._sender
        with self._lock:
            lane, explicit = lanes.lane_for(key, explicit)
            bytes_ = size_of(data, key) + lanes.overhead_bytes
            chunk = lane.open
            if chunk is None or chunk.room < bytes_ or len(chunk) >= lanes.most_records:
                if not self._make_room(lane):
                    sender.count.dropped += 1
                    return self._drop_record(data, key)
                lane, explicit = lanes.lane_for(key, explicit)
                chunk = lanes.open_chunk(lane, sender, self._clock.monotonic_s())
                sender.wake()
            receipt = receipt_of(chunk, len(chunk))
            if self._spool is not None:
                chunk.spool_ids = chunk.spool_ids or []
                chunk.spool_ids.append(self._spool.append(data, key, explicit, spool_id))
            chunk.room -= bytes_
            chunk.data.append(data)
            chunk.keys.append(key)
            if explicit is not None:
                chunk.explicit = chunk.explicit or {}
                chunk.explicit[receipt.place] = explicit
            if on_done is not None:
                chunk.add_callback(receipt.place, on_done, receipt)
            if len(chunk) >= lanes.most_records:
                lanes.close(lane)
                sender.wake()
        return receipt

    def _drop_record(self, data: bytes, key: str | None) -> Receipt:
        chunk = Chunk(self._sender, 0.0, 0)
        chunk.data.append(data)
        chunk.keys.append(key)
        chunk.error = PutError("Dropped", "the producer's buffer was full")
        return receipt_of(chunk, 0)

    def _make_room(self, lane: Lane) -> bool:
        """Wait for room for a chunk, with the lock held; return whether there is. Raises BufferFull, PutError."""
        sender = self._sender
        if sender.is_closed:
            raise PutError("Closed", "the producer is closed")
        self._lanes.close(lane)
        if not sender.is_full(1):
            return True
        if self._when_full == "raise":
            raise BufferFull(f"{self._lanes.ready_bytes} bytes wait already")
        if self._when_full == "drop":
            return False
        sender.wait_for_room()
        return True

    def start(self) -> None:
        """Start the threads, and list the shards where they matter; the first `put` does it too.

        Raises botocore's errors.
        """
        self._sender.start()

    # Waiting, flushing, closing.

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what waits without lingering, and wait until every record that was put is done.

        Raises:
            PutsFailed: records failed since the last flush that had no callback.
            TimeoutError: records still wait; they stay.
        """
        self._sender.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, and end the threads. Records that still wait after `timeout_s` fail; a spool keeps them.

        Without a time, it waits as long as records may still be put, but with a spool for 30 s: they are safe there.
        Raises as `flush`; the producer is closed in any case. Closing again does nothing.
        """
        if self._sender.is_stopped:
            return
        if timeout_s is None and self._spool is not None:
            timeout_s = _SPOOL_CLOSE_WITHIN_S
        try:
            self.flush(timeout_s)
        finally:
            self._sender.stop()
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
        return self._sender.metrics()
