"""One receive while it takes place: what it returns, and how much more it may return."""

from __future__ import annotations

from headrace.services.kinesis.limits import GET_RECORDS_BYTES
from headrace.services.kinesis.queues.state import Delivery, Received, StoredRecord
from headrace.services.kinesis.queues.visibility import Place
from headrace.store.losses import LogDamaged


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
