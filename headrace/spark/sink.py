"""The sink: writes `df.write` and `df.writeStream` to a Kinesis stream, by PutRecords.

**At least once.** Records that a task has put stay even if the task, the batch or the query fails afterwards, and Spark
repeats a failed task or batch, so a reader may get a record twice. Give every event an id, and let readers skip ids
that they have seen.

Columns: `data` (BINARY or STRING), `partitionKey` (STRING), and optionally `explicitHashKey` (STRING). The source's
other columns are allowed and ignored, so that a stream can be copied directly. Within a partition of the frame a key's
records keep their order; repartition by `partitionKey` if a key is in several partitions.

Sends a task's records with PutRecords: in order for each partition key, with several concurrent requests.
"""

from __future__ import annotations

import heapq
import json
import logging
import os
import time
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import BinaryType, StringType, StructType

from headrace.spark.options import SinkOptions
from headrace.spark.untyped import Records, pa
from headrace.spark.versions import ArrowWriter, CommitMessage, StreamArrowWriter

if TYPE_CHECKING:
    from headrace.spark.client import KinesisClient


MOST_RECORDS = 500  # documented: API_PutRecords
# Documented, including partition keys: 10 MiB since records may be that large, 5 MiB before. A larger record is sent
# alone.
MOST_BYTES = 5 * 1024 * 1024
_MOST_UNDER_WAY = 4
_FIRST_BACKOFF_S = 0.05
_LONGEST_BACKOFF_S = 2.0


class WriteFailed(Exception):
    """Kinesis has not accepted a record within its time to live."""


class InvalidKey(ValueError):
    """A partition key is not text."""


@dataclass
class PutCounts:
    """The counts of a task: records, bytes, and records sent again."""

    records: int = 0
    bytes: int = 0
    retried: int = 0


class Lane(deque[bytes]):
    """A queue of records that must keep their order: those of one key, or of one key and one hash key.

    The first record is sent next, or is being sent.

    Attributes:
        name: the lane's key in the sender; None for a lane with a single record, which needs none.
        frame: the text after a record's data in a request.
        key_bytes: the key's bytes in a request's size.
        refused_s: when the first record was first refused; None if it was not.
        backoff_s: how long the lane waits after the next refusal.
    """

    __slots__ = ("backoff_s", "frame", "key_bytes", "name", "refused_s")

    def __init__(self, name: Any, key: bytes, hash_key: str | None) -> None:
        super().__init__()
        self.name = name
        self.key_bytes = len(key)
        self.refused_s: float | None = None
        self.backoff_s = _FIRST_BACKOFF_S
        try:
            text = '","PartitionKey":' + encode_basestring_ascii(key.decode())
        except UnicodeDecodeError:
            raise InvalidKey(f"The partition key {key!r} is not UTF-8.") from None
        if hash_key is not None:
            text += ',"ExplicitHashKey":' + encode_basestring_ascii(hash_key)
        self.frame = (text + "}").encode()

    def next_bytes(self) -> int:
        """Return the next record's bytes in a request's size."""
        return len(self[0]) + self.key_bytes


class Sender:
    """Sends one task's records. Used by one thread; other threads run the requests.

    Kinesis may refuse any record of a request and store a later one. So, if order matters, a request has at most one
    record of a lane, and a lane is in one request at a time: its next record waits until that one is stored. A refused
    record waits, longer each time, while the other lanes continue.

    Args:
        put_records: sends a request's body, and returns the answer's entries; None when all are stored. Thread-safe.
        stream: the stream's name.
        ordered: whether a key's records must keep their order.
        ttl_s: how long a refused record is tried again.
        clock_s: a monotonic clock.
        sleep: waits so many seconds.

    Attributes:
        waiting, waiting_bytes: the number and bytes of the records that are not stored yet.
    """

    def __init__(
        self,
        put_records: Callable[[bytes], list[dict[str, Any]] | None],
        stream: str,
        *,
        ordered: bool,
        ttl_s: float,
        clock_s: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._put_records = put_records
        self._stream = stream
        self._head = f'{{"StreamName":{json.dumps(stream)},"Records":['.encode()
        self._ordered = ordered
        self._ttl_s = ttl_s
        self._clock_s = clock_s
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(_MOST_UNDER_WAY, thread_name_prefix="kinesis-put")
        self._lanes: dict[Any, Lane] = {}
        self._ready: deque[Lane] = deque()
        self._ready_bytes = 0
        self._resting: list[tuple[float, int, Lane]] = []
        self._rests = 0
        self._under_way: dict[Future[list[dict[str, Any]] | None], list[Lane]] = {}
        self._paused_until_s = float("-inf")
        self._backoff_s = _FIRST_BACKOFF_S
        self.waiting = 0
        self.waiting_bytes = 0
        self.written = PutCounts()

    def close(self) -> None:
        """Wait for the running requests, so that no record reaches the stream after the task's end."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def add(
        self, data: Sequence[bytes], keys: Sequence[bytes], hash_keys: Sequence[str | None] | None
    ) -> None:
        """Add records to send, in order. Raises InvalidKey."""
        hash_keys = hash_keys or [None] * len(data)
        lanes, known = self._lanes, self._lanes.get
        for record, key, hash_key in zip(data, keys, hash_keys):
            name: Any = key if hash_key is None else (key, hash_key)
            lane = known(name) if self._ordered else None
            if lane is None:
                lane = Lane(name if self._ordered else None, key, hash_key)
                if self._ordered:
                    lanes[name] = lane
                lane.append(record)
                self._be_ready(lane)
            else:
                lane.append(record)
            self.waiting_bytes += len(record) + lane.key_bytes
        self.waiting += len(data)

    def send(self, *, keep: int = 0, keep_bytes: int = 0) -> None:
        """Send until at most `keep` records and `keep_bytes` wait. Raises WriteFailed, KinesisError."""
        while self.waiting > keep or self.waiting_bytes > keep_bytes:
            now_s = self._clock_s()
            while self._resting and self._resting[0][0] <= now_s:
                self._be_ready(heapq.heappop(self._resting)[2])
            if self._may_start(now_s):
                request = self._take()
                self._under_way[self._threads.submit(self._send_request, request)] = request
            elif self._under_way:
                self._wait(now_s)
            else:
                self._sleep(self._next_s(now_s) - now_s)

    # --- parts --------------------------------------------------------------------------------

    def _be_ready(self, lane: Lane) -> None:
        self._ready.append(lane)
        self._ready_bytes += lane.next_bytes()

    def _may_start(self, now_s: float) -> bool:
        if not self._ready or now_s < self._paused_until_s:
            return False
        # Send a short request only when no wait would make it longer.
        full = len(self._ready) >= MOST_RECORDS or self._ready_bytes >= MOST_BYTES
        return not self._under_way or (full and len(self._under_way) < _MOST_UNDER_WAY)

    def _next_s(self, now_s: float) -> float:
        """Return when the next request can start; only called when none can start now."""
        if self._ready or not self._resting:
            return max(now_s, self._paused_until_s)
        return max(self._resting[0][0], self._paused_until_s)

    def _take(self) -> list[Lane]:
        """Return the lanes whose first records form the next request."""
        request: list[Lane] = []
        size = 0
        while self._ready and len(request) < MOST_RECORDS:
            more = self._ready[0].next_bytes()
            if request and size + more > MOST_BYTES:
                break
            request.append(self._ready.popleft())
            size += more
        self._ready_bytes -= size
        return request

    def _send_request(self, request: list[Lane]) -> list[dict[str, Any]] | None:
        entries = [
            b'{"Data":"' + b2a_base64(lane[0], newline=False) + lane.frame for lane in request
        ]
        return self._put_records(self._head + b",".join(entries) + b"]}")

    def _wait(self, now_s: float) -> None:
        """Wait for an answer, at most until a request can start."""
        can_start = len(self._under_way) < _MOST_UNDER_WAY and (self._ready or self._resting)
        most_s = self._next_s(now_s) - now_s if can_start else 0.0
        done, _ = wait(self._under_way, most_s or None, return_when=FIRST_COMPLETED)
        for future in done:
            self._settle(self._under_way.pop(future), future.result())

    def _settle(self, request: list[Lane], answers: list[dict[str, Any]] | None) -> None:
        refused = 0
        for number, lane in enumerate(request):
            answer = None if answers is None else answers[number]
            if answer is not None and answer.get("ErrorCode"):
                self._rest(lane, answer)
                refused += 1
                continue
            size = lane.next_bytes()
            lane.popleft()
            self.waiting_bytes -= size
            self.written.bytes += size
            if lane.refused_s is not None:
                lane.refused_s, lane.backoff_s = None, _FIRST_BACKOFF_S
            if lane:
                self._be_ready(lane)
            elif lane.name is not None:
                del self._lanes[lane.name]
        stored = len(request) - refused
        self.waiting -= stored
        self.written.records += stored
        self.written.retried += refused
        if refused * 2 > len(request):
            # More than one hot shard: all lanes slow down.
            self._paused_until_s = self._clock_s() + self._backoff_s
            self._backoff_s = min(self._backoff_s * 2, _LONGEST_BACKOFF_S)
        else:
            self._backoff_s = _FIRST_BACKOFF_S

    def _rest(self, lane: Lane, answer: dict[str, Any]) -> None:
        now_s = self._clock_s()
        lane.refused_s = now_s if lane.refused_s is None else lane.refused_s
        if now_s - lane.refused_s >= self._ttl_s:
            raise WriteFailed(
                f"Stream {self._stream} has refused a record for {self._ttl_s:g} s (kinesis.sink.recordTtl): "
                f"{answer['ErrorCode']}: {answer.get('ErrorMessage', '')}"
            )
        self._rests += 1
        heapq.heappush(self._resting, (now_s + lane.backoff_s, self._rests, lane))
        lane.backoff_s = min(lane.backoff_s * 2, _LONGEST_BACKOFF_S)


log = logging.getLogger(__name__)

_WANTED = {"data": (BinaryType, StringType), "partitionKey": (StringType,)}
_POSSIBLE = {"explicitHashKey": (StringType,)}
_PASSED_OVER = frozenset({"streamName", "sequenceNumber", "approximateArrivalTimestamp", "shardId"})
# If every row has the same key, a request has one record: look further ahead for other keys before sending it.
_LOOK_AHEAD = 20 * MOST_RECORDS
_LOOK_AHEAD_BYTES = 32 * 1024 * 1024


class InvalidSchema(ValueError):
    """The frame lacks the columns of a Kinesis record."""


@dataclass
class TaskCounts(CommitMessage):
    """The counts of one task."""

    records: int
    bytes: int
    retried: int


def check_schema(schema: StructType) -> None:
    """Raise InvalidSchema when a frame cannot be written as records."""
    data_types = {field.name: field.dataType for field in schema.fields}
    for name, types in (_WANTED | _POSSIBLE).items():
        if name in data_types and not isinstance(data_types[name], types):
            expected = " or ".join(kind.typeName().upper() for kind in types)
            actual = data_types[name].simpleString().upper()
            raise InvalidSchema(
                f"The kinesis sink's column {name} must be {expected}, not {actual}."
            )
    for name in _WANTED:
        if name not in data_types:
            raise InvalidSchema(f"The kinesis sink needs a column {name}.")
    unknown = sorted(set(data_types) - set(_WANTED) - set(_POSSIBLE) - _PASSED_OVER)
    if unknown:
        raise InvalidSchema(
            f"The kinesis sink has no use for the column {unknown[0]!r}: "
            "it takes data, partitionKey and explicitHashKey."
        )


def write(options: SinkOptions, batches: Iterator[Records]) -> TaskCounts:
    """Put a task's records. Raises WriteFailed, KinesisError, InvalidKey, InvalidSchema (a null key or null data)."""
    client = _client(options)
    sender = Sender(
        client.put_records,
        options.stream,
        ordered=options.ordered,
        ttl_s=options.record_ttl_ms / 1000,
        clock_s=time.monotonic,
        sleep=time.sleep,
    )
    look_ahead = _LOOK_AHEAD if options.ordered else MOST_RECORDS
    try:
        for batch in batches:
            sender.add(*_columns(batch))
            sender.send(keep=look_ahead, keep_bytes=_LOOK_AHEAD_BYTES)
        sender.send()
    except BaseException:
        sender.close()
        client.close()
        raise
    sender.close()
    _keep(options, client)
    written = sender.written
    return TaskCounts(written.records, written.bytes, written.retried)


# Creating a client takes as long as writing tens of thousands of rows, and Spark runs many tasks in one process. So the
# last client is kept, with its connections. The key is its options and the environment.
_kept: dict[tuple[SinkOptions, tuple[tuple[str, str], ...]], KinesisClient] = {}


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))


def _client(options: SinkOptions) -> KinesisClient:
    """Return a client that only this task uses: the kept one if it fits, else a new one."""
    client = _kept.pop((options, _environment()), None)
    if client is not None:
        return client
    # boto3 takes long to import, so import it only in tasks.
    from headrace.spark.client import KinesisClient

    return KinesisClient(options)


def _keep(options: SinkOptions, client: KinesisClient) -> None:
    while _kept:
        _kept.popitem()[1].close()
    _kept[options, _environment()] = client


def _columns(batch: Records) -> tuple[list[bytes], list[bytes], list[str | None] | None]:
    """Return data, keys and hash keys of a batch's records. Raises InvalidSchema."""
    data, keys = batch.column("data"), batch.column("partitionKey")
    for column, what in ((data, "no data"), (keys, "no partitionKey")):
        if column.null_count:
            raise InvalidSchema(f"A row that was to be written to Kinesis has {what}.")
    columns = _values(data), _values(keys)
    if b"" in columns[1]:
        raise InvalidSchema("A row that was to be written to Kinesis has no partitionKey.")
    if "explicitHashKey" not in batch.schema.names:
        return *columns, None
    hash_keys = cast(
        "list[str | None]", batch.column("explicitHashKey").cast(pa.string()).to_pylist()
    )
    return *columns, [hash_key or None for hash_key in hash_keys]


def _values(column: Any) -> list[bytes]:
    """Return the values of a binary or string column without nulls, from its buffers, because one by one is slow."""
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    first = column.offset
    places = memoryview(offsets).cast("q")[first : first + len(column) + 1].tolist()
    text = b"" if data is None else data.to_pybytes()
    return [text[begin:end] for begin, end in zip(places, places[1:])]


def _sum(messages: list[Any]) -> PutCounts:
    total = PutCounts()
    for message in messages:
        if isinstance(message, TaskCounts):
            total.records += message.records
            total.bytes += message.bytes
            total.retried += message.retried
    return total


class KinesisBatchWriter(ArrowWriter):
    """`df.write.format("kinesis").mode("append")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Records]) -> TaskCounts:
        """Put a task's records."""
        return write(self._options, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Log the written records."""
        log.info("Wrote %s to stream %s.", _sum(messages), self._options.stream)

    def abort(self, messages: list[Any]) -> None:
        """Log the records that stay although the write failed."""
        log.warning("A write to stream %s failed; %s stay.", self._options.stream, _sum(messages))


class KinesisStreamWriter(StreamArrowWriter):
    """`df.writeStream.format("kinesis")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Records]) -> TaskCounts:
        """Put a task's records."""
        return write(self._options, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Log a batch's written records."""
        log.info("Batch %d wrote %s to stream %s.", batchId, _sum(messages), self._options.stream)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Log the records that stay although the batch failed; a repeated batch puts them twice."""
        log.warning(
            "Batch %d to stream %s failed; %s stay.", batchId, self._options.stream, _sum(messages)
        )
