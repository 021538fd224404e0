"""Dataclasses for a queue and for the delivery state of a record, and the JSON document that stores a queue.

The times at which records in flight become visible again: a heap of lots, each from one receive.

Acknowledged records stay in the heap until their time, or until they outnumber those in flight; then it is swept.

The records of a stream that a queue has not delivered yet: a position in each shard, and a small read-ahead.

Records are read in slices of the shard log, from one shard after the other; there is no copy of the backlog.

One receive while it takes place: what it returns, and how much more it may return.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Literal

import msgspec

from headrace.core.arn import make_arn
from headrace.services.kinesis.errors import GET_RECORDS_BYTES
from headrace.services.kinesis.state import Shard, Stream
from headrace.store.losses import LogDamaged
from headrace.store.shard_log import ShardLog

Place = tuple[int, int]
_STALE_AT_MOST = 1024


class VisibilityTimes:
    """Not thread-safe; the queue's deliveries hold their lock around every call.

    Attributes:
        count: the records in the heap, those that were acknowledged or received again included.
    """

    def __init__(self) -> None:
        self.count = 0
        self._heap: list[tuple[int, int, int, list[Place]]] = []
        self._turn = 0

    def add(self, visible_ms: int, receipt: int, places: list[Place]) -> None:
        """Note that the records at `places` (shard number, index) become visible at a time."""
        self._turn += 1
        self.count += len(places)
        heapq.heappush(self._heap, (visible_ms, self._turn, receipt, places))

    @property
    def next_ms(self) -> int | None:
        """The earliest time in the heap, or None."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[tuple[int, Place]]:
        """Remove and yield (receipt, place) of the records whose time has come, in the order of their times."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, receipt, places = heapq.heappop(self._heap)
            self.count -= len(places)
            for record_key in places:
                yield receipt, record_key

    def sweep(self, in_flight: int, is_current: Callable[[int, int, Place], bool]) -> None:
        """Drop outdated entries once they are the most. `is_current` takes a time, a receipt and a place."""
        if self.count <= 2 * in_flight + _STALE_AT_MOST:
            return
        swept: list[tuple[int, int, int, list[Place]]] = []
        for visible_ms, turn, receipt, places in self._heap:
            left = [
                record_key for record_key in places if is_current(visible_ms, receipt, record_key)
            ]
            if left:
                swept.append((visible_ms, turn, receipt, left))
        heapq.heapify(swept)
        self._heap = swept
        self.count = sum(len(places) for _, _, _, places in swept)


QueueStatus = Literal["CREATING", "ACTIVE", "UPDATING", "DELETING"]
StartType = Literal["LATEST", "TRIM_HORIZON", "AT_TIMESTAMP"]

DEFAULT_VISIBILITY_S = 30
DEFAULT_MAX_RECEIVES = 6


@dataclass(slots=True)
class Queue:
    """A queue on the stream with `stream_id`.

    Attributes:
        queue_id: the generated last part of the ARN; a valid label of a host name, since AWS's hosts begin with it.
        number: names the queue in the tables of delivery states; the queue's handles do not depend on it.
        start_ms: the timestamp that the request gave for AT_TIMESTAMP, else None.
        effective_ms: from when on records are delivered, approximately.
        max_receives: after so many receives a record becomes a dead-letter record; None without dead letters.
        latest_status, settles_ms: the status that was set last, and when it ends.
    """

    name: str
    account: str
    region: str
    queue_id: str
    number: int
    stream_id: str
    created_ms: int
    start_type: StartType
    start_ms: int | None
    effective_ms: int
    visibility_s: int = DEFAULT_VISIBILITY_S
    max_receives: int | None = DEFAULT_MAX_RECEIVES
    tags: dict[str, str] = field(default_factory=dict[str, str])
    policy: str | None = None
    latest_status: QueueStatus = "CREATING"
    settles_ms: int = 0

    @property
    def arn(self) -> str:
        """The queue's ARN."""
        return make_arn("kinesis", self.region, self.account, f"queue/{self.queue_id}")

    def status(self, now_ms: int) -> QueueStatus:
        """Return AWS's status. A queue that is DELETING stays so until it is removed."""
        if self.latest_status in ("CREATING", "UPDATING") and now_ms >= self.settles_ms:
            self.latest_status, self.settles_ms = "ACTIVE", 0
        return self.latest_status

    def document(self) -> dict[str, Any]:
        """Return the queue's document."""
        return asdict(self)


class DeliveryState(IntEnum):
    """Where a record that was received, and not acknowledged, stands."""

    IN_FLIGHT = 0
    VISIBLE = 1
    DEAD_IN_FLIGHT = 2
    DEAD_VISIBLE = 3


class Delivery(msgspec.Struct, gc=False):
    """The delivery state of one record. A queue has one for each record that was received and not acknowledged.

    Attributes:
        visible_ms: when the record in flight becomes visible again.
        receives: how often it was received since it was put or restored.
        first_ms: when it was received first.
        receipt: the number of the receive that returned it last; its handle is valid until the next receive.
    """

    visible_ms: int
    receives: int
    first_ms: int
    receipt: int
    state: int

    @property
    def is_in_flight(self) -> bool:
        """Whether a consumer has the record now."""
        return self.state in _IN_FLIGHT

    @property
    def is_dead(self) -> bool:
        """Whether it is a dead-letter record."""
        return self.state in _DEAD


_IN_FLIGHT = (DeliveryState.IN_FLIGHT, DeliveryState.DEAD_IN_FLIGHT)
_DEAD = (DeliveryState.DEAD_IN_FLIGHT, DeliveryState.DEAD_VISIBLE)


class StoredRecord(msgspec.Struct, gc=False):
    """A record as the shard log holds it; `Data` is base64."""

    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    Data: str
    PartitionKey: str = ""


class Received(msgspec.Struct, gc=False):
    """A record that a receive returned: its place in the stream, what is stored there, and its delivery."""

    shard_number: int
    index: int
    record: StoredRecord
    receives: int
    first_ms: int
    receipt: int


class Receive:
    """The state of one receive. Not thread-safe.

    Attributes:
        receipt: its number, which its records' handles name.
        visible_ms: when its records become visible again.
        received, places: its records so far, and where they are.
        damage: the error of a part of a log that could not be read.
    """

    def __init__(self, limit: int, receipt: int, now_ms: int, visible_ms: int) -> None:
        self.receipt = receipt
        self.now_ms = now_ms
        self.visible_ms = visible_ms
        self.received: list[Received] = []
        self.places: list[Place] = []
        self.damage: LogDamaged | None = None
        self._limit = limit
        self._bytes = 0

    @property
    def room(self) -> int:
        """How many more records may follow."""
        return self._limit - len(self.received)

    @property
    def has_room(self) -> bool:
        """Whether another record may follow."""
        return len(self.received) < self._limit

    def admits(self, record: StoredRecord) -> bool:
        """Whether this record may follow: an answer has at most 10 MiB of data, or one record (assumed)."""
        size = len(record.Data) * 3 // 4
        return not self.received or self._bytes + size <= GET_RECORDS_BYTES

    def add(self, record_key: Place, entry: Delivery, record: StoredRecord) -> None:
        """Add a record to the answer."""
        self._bytes += len(record.Data) * 3 // 4
        self.places.append(record_key)
        self.received.append(
            Received(*record_key, record, entry.receives, entry.first_ms, entry.receipt)
        )


# A slice: large enough that reading it costs little for each record, small enough to keep in memory for each queue.
SLICE_RECORDS = 200
SLICE_BYTES = 256 * 1024

_decode = msgspec.json.Decoder(list[StoredRecord]).decode


class ShardPart:
    """A queue's state in one shard.

    Attributes:
        next_index: every record before it was received, or has expired; none from it on was received.
        entries: the delivery of each record below `next_index` that was not acknowledged, by index.
        floor: every entry has at least this index.
    """

    __slots__ = ("entries", "floor", "log", "next_index", "shard")

    def __init__(self, shard: Shard, next_index: int) -> None:
        assert shard.log is not None
        self.shard = shard
        self.log: ShardLog = shard.log
        self.next_index = next_index
        self.floor = 0
        self.entries: dict[int, Delivery] = {}

    @property
    def waiting(self) -> int:
        """How many records were never received."""
        return max(0, self.log.readable_index - max(self.next_index, self.log.first_index))


class ShardBacklog:
    """A queue's parts of all shards of its stream. Not thread-safe.

    Args:
        stream: the stream; its shards may change at any time.
        starts: the position in each shard, by number; a later shard begins at its first record.
        forget: called with the parts of shards that retention has removed from the stream.
    """

    def __init__(
        self, stream: Stream, starts: Mapping[int, int], forget: Callable[[ShardPart], None]
    ) -> None:
        self.parts: dict[int, ShardPart] = {}
        self._stream = stream
        self._starts = starts
        self._forget = forget
        self._seen: Sequence[Shard] = ()
        self._open: list[ShardPart] = []
        self._turn = 0
        self._ahead: deque[tuple[ShardPart, int, StoredRecord]] = deque()
        self.follow()

    def follow(self) -> None:
        """Take up the shards that the stream has now. A change replaces the stream's whole list."""
        shards = self._stream.shards
        if shards is self._seen:
            return
        present = {shard.number: shard for shard in shards}
        for number in [number for number in self.parts if number not in present]:
            self._forget(self.parts.pop(number))
        for number, shard in present.items():
            if number not in self.parts and shard.log is not None:
                self.parts[number] = ShardPart(shard, self._starts.get(number, 0))
        self._open = list(self.parts.values())
        self._seen = shards

    @property
    def has_records(self) -> bool:
        """Whether there is a record that was never received. Must be quick: every append asks."""
        self.follow()
        return any(part.next_index < part.log.readable_index for part in self._open)

    def take(self) -> tuple[ShardPart, int, StoredRecord] | None:
        """Return the next record that was never received, or None; the caller moves its part's `next_index`.

        Raises LogDamaged.
        """
        while True:
            while self._ahead:
                part, index, record = self._ahead.popleft()
                is_present = self.parts.get(part.shard.number) is part
                if is_present and index >= max(part.log.first_index, part.next_index):
                    return part, index, record
            if not self._read_ahead():
                return None

    def put_back(self, part: ShardPart, index: int, record: StoredRecord) -> None:
        """Undo the last `take`."""
        self._ahead.appendleft((part, index, record))

    def _read_ahead(self) -> bool:
        """Read a slice from the next shard that has records; return whether there is one."""
        self.follow()
        for _ in range(len(self._open)):
            self._turn = (self._turn + 1) % len(self._open)
            part = self._open[self._turn]
            # Ask before the read: a shard that closes during the read may have records that the read misses.
            closed = part.log.closed
            if part.next_index < part.log.readable_index:
                slice_ = read_records(part, part.next_index, SLICE_RECORDS, SLICE_BYTES)
                self._ahead.extend((part, index, record) for index, record in slice_)
                if self._ahead:
                    return True
            elif closed and part.next_index >= part.log.next_index:
                self._open = [one for one in self._open if one is not part]
                return self._read_ahead()
        return False


def read_records(
    part: ShardPart, index: int, max_records: int, max_bytes: int
) -> list[tuple[int, StoredRecord]]:
    """Return (index, record) of the records from `index` on. Raises LogDamaged."""
    batch = part.log.read_readable(index, max_records, max_bytes)
    records: list[tuple[int, StoredRecord]] = []
    for payload, (start, _) in zip(batch.payloads, batch.starts, strict=True):
        stored = _decode(b"".join((b"[", payload, b"]")))
        records.extend(enumerate(stored, start))
    return records
