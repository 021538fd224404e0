"""Dataclasses for a queue and for the delivery state of a record, and the JSON document that stores a queue.

The times at which records in flight become visible again: a heap of lots, each from one receive.

Acknowledged records stay in the heap until their time, or until they outnumber those in flight; then it is swept.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Literal

import msgspec

from headrace.core.arn import make_arn

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
