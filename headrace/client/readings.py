"""The shards that a worker reads: when each is asked next, which of its batches wait, and which are in process.

Sans I/O; the group calls it with its lock held, and passes the time.

Reads one shard by polling: iterators, where to go on after one has expired, how fast to ask. No threads.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.client.hash_keys import ShardRange
from headrace.client.leases.stores import AT_TIMESTAMP, Checkpoint, Lease
from headrace.client.records import Batch, BatchOwner, Page, Record, Unpacker, page_of
from headrace.client.wire import ServiceError, Wire, WireError

# One batch is processed while the next one waits.
_PREFETCH = 2
# Of all shards together: a page may have 10 MB, and there may be hundreds of shards that are behind.
_MOST_WAITING = 32


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
class Reading:
    """A shard that is read.

    Attributes:
        reader: what fetches its pages.
        waiting, processing: how many of its batches wait, and are in process (one at most).
        failures: how often it could not be fetched, in a row.
        lag_ms: how far behind it is; None: not known yet.
        last: the end of what was fetched.
        checkpointed: the end of what was processed.
        children: once all was fetched, the shards that follow.
    """

    key: str
    reader: Any
    waiting: int = 0
    processing: int = 0
    failures: int = 0
    is_scheduled: bool = False
    is_fetching: bool = False
    is_lost: bool = False
    is_draining: bool = False
    lag_ms: int | None = None
    last: Checkpoint | None = None
    checkpointed: Checkpoint | None = None
    children: list[ShardRange] | None = None
    warned_s: float = 0.0


@dataclass(slots=True)
class Delivered:
    """Counts of what was delivered."""

    records: int = 0
    batches: int = 0
    bytes: int = 0
    foreign: int = 0


class Readings:
    """All shards of a worker."""

    def __init__(self, owner: BatchOwner, *, idle_s: float) -> None:
        self._owner, self._idle_s = owner, idle_s
        self.by_key: dict[str, Reading] = {}
        self.counts = Delivered()
        self._due: list[tuple[float, int, Reading]] = []
        self._order = itertools.count()
        self._ready: deque[tuple[Reading, Batch]] = deque()
        self._in_process: dict[int, tuple[Reading, Batch]] = {}

    def begin(self, key: str, reader: Any, due_s: float = 0.0) -> Reading:
        """Read a shard from now on."""
        reading = self.by_key[key] = Reading(key, reader)
        self.schedule(reading, due_s)
        return reading

    def lose(self, key: str) -> None:
        """Forget a shard, and what waits of it."""
        reading = self.by_key.pop(key, None)
        if reading is not None:
            self._forget(reading)

    def lose_all(self) -> None:
        """Forget all shards."""
        for key in list(self.by_key):
            self.lose(key)

    def drain(self, key: str) -> bool:
        """Fetch and deliver no more of a shard; return whether none of it is in process."""
        reading = self.by_key.get(key)
        if reading is None:
            return True
        reading.is_draining = True
        self._discard(reading)
        return not reading.processing

    def schedule(self, reading: Reading, due_s: float) -> None:
        """Fetch a shard at a time."""
        reading.is_scheduled = True
        heapq.heappush(self._due, (due_s, next(self._order), reading))

    def next_due(self, now_s: float) -> tuple[Reading | None, float | None]:
        """Return a shard to fetch now, or else when the next one is due (None: none is, until a batch is delivered)."""
        if len(self._ready) >= _MOST_WAITING:
            return None, None
        while self._due:
            due_s, _, reading = self._due[0]
            is_over = reading.is_lost or reading.is_draining
            if not is_over and due_s > now_s:
                return None, due_s
            heapq.heappop(self._due)
            reading.is_scheduled = False
            if not is_over:
                reading.is_fetching = True
                return reading, None
        return None, None

    def take(self, reading: Reading, page: Page, now_s: float) -> None:
        """Take what was fetched."""
        reading.is_fetching, reading.failures = False, 0
        reading.lag_ms = page.behind_ms
        if reading.is_lost or reading.is_draining:
            return
        if page.last is not None:
            records = page.records
            reading.last = Checkpoint(page.last)
            if records:
                reading.last = Checkpoint(
                    records[-1].sequence_number, records[-1].sub_sequence_number
                )
            reading.waiting += 1
            batch = Batch(self._owner, reading.key, records, page.behind_ms, reading.last)
            self._ready.append((reading, batch))
        if page.next_iterator is None:
            reading.children = [ShardRange.of(child) for child in page.children]
        elif reading.waiting + reading.processing < _PREFETCH:
            is_behind = page.last is not None and page.behind_ms > 0
            self.schedule(reading, 0.0 if is_behind else now_s + self._idle_s)

    def deliver(self, now_s: float) -> Batch | None:
        """Return the first batch whose shard has none in process, or None."""
        index = next((i for i, item in enumerate(self._ready) if not item[0].processing), None)
        if index is None:
            return None
        reading, batch = self._ready[index]
        del self._ready[index]
        reading.waiting -= 1
        reading.processing += 1
        batch.delivered_s = now_s
        self._in_process[id(batch)] = (reading, batch)
        self.counts.records += len(batch.records)
        self.counts.batches += 1
        self.counts.bytes += sum(len(record.data) for record in batch.records)
        # The next page is fetched while this one is processed.
        self.go_on(reading)
        return batch

    def finish(self, batch: Batch) -> Reading | None:
        """A batch is in process no more; return its shard, or None when it is another worker's by now."""
        reading, _ = self._in_process.pop(id(batch), (None, None))
        if reading is None:
            return None
        reading.processing -= 1
        return None if reading.is_lost else reading

    def note_checkpoint(self, batch: Batch, record: Record | None) -> Checkpoint | None:
        """Return the checkpoint of a batch, or of a record in it; None when the shard is not this worker's any more."""
        reading = self.by_key.get(batch.shard_id)
        known, _ = self._in_process.get(id(batch), (reading, None))
        if reading is None or known is not reading:
            return None
        end = batch.end
        if record is not None:
            end = Checkpoint(record.sequence_number, record.sub_sequence_number)
        reading.checkpointed = end
        return end

    def go_on(self, reading: Reading) -> None:
        """Fetch more of a shard, if there is room."""
        if (
            not (reading.is_fetching or reading.is_scheduled or reading.is_draining)
            and reading.children is None
            and reading.waiting < _PREFETCH
        ):
            self.schedule(reading, 0.0)

    def read_again(
        self, reading: Reading, make_reader: Callable[[Checkpoint | None], Any], due_s: float
    ) -> None:
        """Begin a shard anew after what was processed of it."""
        self._forget(reading)
        again = self.begin(reading.key, make_reader(reading.checkpointed), due_s)
        again.checkpointed = reading.checkpointed

    def children_if_done(self, reading: Reading) -> list[ShardRange] | None:
        """Return the children of a shard once it has ended and all of it was processed, else None."""
        if reading.is_lost or reading.is_draining or reading.waiting:
            return None
        if reading.last is not None and reading.checkpointed != reading.last:
            return None
        return reading.children

    def is_at_the_end(self) -> bool:
        """Whether there are shards, and all of each was processed."""
        return bool(self.by_key) and all(
            reading.lag_ms == 0
            and not (reading.waiting or reading.processing)
            and reading.children is None
            for reading in self.by_key.values()
        )

    def held_since(self, now_s: float, for_s: float) -> list[tuple[Reading, float]]:
        """Return the shards whose batch has been in process for longer, and for how long; each again after as long."""
        held: list[tuple[Reading, float]] = []
        for reading, batch in self._in_process.values():
            held_s = now_s - batch.delivered_s
            if held_s > for_s and now_s - reading.warned_s > for_s:
                reading.warned_s = now_s
                held.append((reading, held_s))
        return held

    def longest_held_s(self, now_s: float) -> float:
        """Return for how long the oldest batch has been in process."""
        return max((now_s - batch.delivered_s for _, batch in self._in_process.values()), default=0)

    def _forget(self, reading: Reading) -> None:
        reading.is_lost = True
        reading.reader.close()
        self.counts.foreign += reading.reader.unpack.dropped
        self._discard(reading)

    def _discard(self, reading: Reading) -> None:
        self._ready = deque(item for item in self._ready if item[0] is not reading)
        reading.waiting = 0


MOST_RECORDS = 10_000


def shard_of(lease: Lease) -> ShardRange | None:
    """Return a lease's shard; None when the lease does not say its hash keys."""
    if lease.start is None or lease.end is None:
        return None
    return ShardRange(lease.key, lease.start, lease.end, tuple(lease.parents))


class ShardReader:
    """Reads a shard from its lease's checkpoint on. One thread at a time."""

    def __init__(
        self,
        lease: Lease,
        name_member: dict[str, str],
        *,
        start_at: datetime | None = None,
        most_records: int = MOST_RECORDS,
    ) -> None:
        """Take a lease, the member that names the stream, and the time of a lease that begins AT_TIMESTAMP."""
        self._name_member, self._shard_id, self._start_at = name_member, lease.key, start_at
        self._most_records = most_records
        checkpoint = lease.checkpoint
        after = (checkpoint.sequence_number, checkpoint.sub_sequence_number)
        self.unpack = Unpacker(shard_of(lease), after if checkpoint.is_number else None)
        # An aggregate may have been processed in part: it is read again, and what was processed is dropped.
        self._position = _position(checkpoint, start_at)
        self._iterator: str | None = None

    def fetch(self, wire: Wire) -> Page:
        """Return the next page. Raises ServiceError, WireError; the next call goes on where this one stood."""
        if self._iterator is None:
            request = {**self._name_member, "ShardId": self._shard_id, **self._position}
            answer: dict[str, Any] = json.loads(
                wire.call("GetShardIterator", json.dumps(request).encode())
            )
            self._iterator = str(answer["ShardIterator"])
        request = {"ShardIterator": self._iterator, "Limit": self._most_records}
        try:
            page = page_of(wire.call("GetRecords", json.dumps(request).encode()), self.unpack)
        except ServiceError as error:
            if error.code == "ExpiredIteratorException":
                self._iterator = None
                return self.fetch(wire)
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise WireError("the answer to GetRecords cannot be read") from error
        if page.last is not None:
            self._position = _after(page.last)
        self._iterator = page.next_iterator
        return page

    def close(self) -> None:
        """There is nothing to close: the wire is the fetching thread's."""


def _after(sequence_number: str) -> dict[str, Any]:
    return {
        "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
        "StartingSequenceNumber": sequence_number,
    }


def _position(checkpoint: Checkpoint, start_at: datetime | None) -> dict[str, Any]:
    number = checkpoint.sequence_number
    if checkpoint.is_number:
        return {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": number}
    if number == AT_TIMESTAMP:
        if start_at is None:
            raise ValueError("a lease begins AT_TIMESTAMP, but the group was given no time")
        return {"ShardIteratorType": AT_TIMESTAMP, "Timestamp": start_at.timestamp()}
    return {"ShardIteratorType": number}
