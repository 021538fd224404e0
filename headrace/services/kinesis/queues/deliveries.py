"""The delivery state of one queue: what was received, what is in flight, visible again, or a dead-letter record.

In each shard, a position separates records that were never received from the others; of the others, there is an entry
for each that is not acknowledged. So memory grows with what is received and not acknowledged, not with the backlog.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.services.kinesis.errors import GET_RECORDS_BYTES, QUEUE_IN_FLIGHT
from headrace.services.kinesis.queues.state import (
    Delivery,
    DeliveryState,
    Place,
    Receive,
    Received,
    ShardBacklog,
    ShardPart,
    StoredRecord,
    VisibilityTimes,
    read_records,
)
from headrace.services.kinesis.state import Stream
from headrace.store.losses import LogDamaged

# Callers take the time before they wait for the lock: one may come a little later than one with a later time.
_CLOCK_TOLERANCE_MS = 1_000


class WrongRecord(Exception):
    """The record of a handle cannot be changed so; `code` is AWS's error code, the text its sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Changes(NamedTuple):
    """What changed since the last `take_changes`; an entry that is None was acknowledged, or has expired."""

    positions: dict[int, int | None]
    entries: dict[Place, Delivery | None]


class Counts(NamedTuple):
    """How many records a queue has, by their state."""

    visible: int
    in_flight: int
    dead_visible: int
    dead_in_flight: int


class Deliveries:
    """The deliveries of one queue. Thread-safe. Times are in milliseconds; the caller passes them.

    A change is in memory when its method returns, and `take_changes` returns it for storing.

    Attributes:
        max_receives: after so many receives a record becomes a dead-letter record; None for never.
    """

    def __init__(
        self,
        stream: Stream,
        starts: Mapping[int, int],
        entries: Iterable[tuple[Place, Delivery]] = (),
        *,
        max_receives: int | None,
    ) -> None:
        """Take the position in each shard by its number, and the stored entries."""
        self.max_receives = max_receives
        self._lock = threading.Lock()
        self._changed_parts: set[int] = set()
        self._changed: set[Place] = set()
        self._backlog = ShardBacklog(stream, starts, self._forget)
        self._times = VisibilityTimes()
        self._visible: dict[bool, deque[Place]] = {False: deque(), True: deque()}
        self._in_flight = {False: 0, True: 0}
        self._receipts = 0
        # The latest time that a caller passed, or, after a restart, at which a record is known to have been received.
        self._latest_ms = 0
        self._new_first = False
        for record_key, entry in entries:
            self._load(record_key, entry)

    def _load(self, record_key: Place, entry: Delivery) -> None:
        part = self._backlog.parts.get(record_key[0])
        if part is None:
            self._changed.add(record_key)  # its shard has expired: the row goes too
            return
        part.entries[record_key[1]] = entry
        self._receipts = max(self._receipts, entry.receipt)
        self._latest_ms = max(self._latest_ms, entry.first_ms)
        if entry.is_in_flight:
            self._in_flight[entry.is_dead] += 1
            self._times.add(entry.visible_ms, entry.receipt, [record_key])
        else:
            self._visible[entry.is_dead].append(record_key)

    # --- receiving ----------------------------------------------------------------------------

    def receive(
        self, limit: int, visibility_ms: int, now_ms: int, *, dead: bool = False
    ) -> list[Received]:
        """Return up to `limit` visible records, which are in flight from now on. Raises LogDamaged.

        Records that became visible again and new ones take turns to come first, so that neither starves the other.
        """
        with self._lock:
            self._look_at_time(now_ms)
            limit = min(limit, QUEUE_IN_FLIGHT - sum(self._in_flight.values()))
            if limit <= 0:
                return []
            receive = Receive(limit, self._receipts + 1, now_ms, now_ms + visibility_ms)
            if dead:
                self._receive_again(receive, dead=True)
            else:
                self._receive_both(receive)
            if receive.received:
                self._receipts = receive.receipt
                self._times.add(receive.visible_ms, receive.receipt, receive.places)
                self._in_flight[dead] += len(receive.places)
            elif receive.damage is not None:
                raise receive.damage
            return receive.received

    def _receive_both(self, receive: Receive) -> None:
        self._new_first = not self._new_first
        if self._new_first:
            self._receive_new(receive)
            self._receive_again(receive, dead=False)
        else:
            self._receive_again(receive, dead=False)
            self._receive_new(receive)

    def _receive_new(self, receive: Receive) -> None:
        try:
            while receive.has_room and (taken := self._backlog.take()) is not None:
                part, index, record = taken
                if not receive.admits(record):
                    self._backlog.put_back(part, index, record)
                    return
                part.next_index = index + 1
                self._changed_parts.add(part.shard.number)
                entry = Delivery(receive.visible_ms, 0, receive.now_ms, 0, DeliveryState.VISIBLE)
                part.entries[index] = entry
                self._deliver(receive, part, index, entry, record)
        except LogDamaged as error:
            receive.damage = error

    def _receive_again(self, receive: Receive, *, dead: bool) -> None:
        visible = self._visible[dead]
        records: dict[Place, StoredRecord] = {}
        while receive.has_room and visible:
            record_key = visible[0]
            part, entry = self._backlog.parts.get(record_key[0]), self._entry(record_key)
            if part is None or entry is None or not self._is_visible(record_key, dead):
                visible.popleft()  # acknowledged, expired or restored meanwhile
                continue
            if not dead and self._is_used_up(entry):
                visible.popleft()
                self._bury(record_key, entry)
                continue
            try:
                record = records.get(record_key) or self._read_run(part, visible, receive, records)
            except LogDamaged as error:
                receive.damage = error
                visible.rotate(-1)  # another receive tries the others
                return
            if record is not None and not receive.admits(record):
                return
            visible.popleft()
            if record is None:
                self._drop(part, record_key[1])
            else:
                self._deliver(receive, part, record_key[1], entry, record)

    def _read_run(
        self,
        part: ShardPart,
        visible: deque[Place],
        receive: Receive,
        records: dict[Place, StoredRecord],
    ) -> StoredRecord | None:
        """Add the first visible record, and those that follow it in the log and in the queue, to `records`.

        Returns the first one, or None when it is lost. Raises LogDamaged.
        """
        number, first = visible[0]
        count = 1
        for record_key in itertools.islice(visible, 1, receive.room):
            if record_key != (number, first + count):
                break
            count += 1
        for index, record in read_records(part, first, count, GET_RECORDS_BYTES):
            records[number, index] = record
        return records.get((number, first))

    def _deliver(
        self, receive: Receive, part: ShardPart, index: int, entry: Delivery, record: StoredRecord
    ) -> None:
        record_key = (part.shard.number, index)
        entry.visible_ms, entry.receipt = receive.visible_ms, receive.receipt
        entry.receives += 1
        entry.state = DeliveryState.DEAD_IN_FLIGHT if entry.is_dead else DeliveryState.IN_FLIGHT
        self._changed.add(record_key)
        receive.add(record_key, entry, record)

    # --- time ---------------------------------------------------------------------------------

    def _look_at_time(self, now_ms: int) -> None:
        """Make records visible whose time has come, and drop those that retention has deleted."""
        self._follow_clock(now_ms)
        self._backlog.follow()
        self._show_due(now_ms)
        for part in self._backlog.parts.values():
            if part.log.first_index > part.floor:
                part.floor = part.log.first_index
                for index in [index for index in part.entries if index < part.floor]:
                    self._drop(part, index)
        self._times.sweep(sum(self._in_flight.values()), self._is_current)

    def _follow_clock(self, now_ms: int) -> None:
        """Take the times of records in flight along when the clock goes back: none is hidden for longer."""
        back_ms = self._latest_ms - now_ms
        if back_ms <= _CLOCK_TOLERANCE_MS:
            self._latest_ms = max(self._latest_ms, now_ms)
            return
        self._latest_ms = now_ms
        for number, part in self._backlog.parts.items():
            for index, entry in part.entries.items():
                if entry.is_in_flight:
                    entry.visible_ms -= back_ms
                    self._changed.add((number, index))
                    self._times.add(entry.visible_ms, entry.receipt, [(number, index)])

    def _show_due(self, now_ms: int) -> None:
        next_ms = self._times.next_ms
        if next_ms is None or next_ms > now_ms:
            return
        for receipt, record_key in self._times.due(now_ms):
            entry = self._entry(record_key)
            if entry is None or not self._is_timed(entry, receipt) or entry.visible_ms > now_ms:
                continue
            self._show(record_key, entry)

    def _show(self, record_key: Place, entry: Delivery) -> None:
        """Make a record in flight visible again, or a dead-letter record."""
        self._in_flight[entry.is_dead] -= 1
        self._changed.add(record_key)
        if entry.is_dead:
            entry.state = DeliveryState.DEAD_VISIBLE
            self._visible[True].append(record_key)
        elif self._is_used_up(entry):
            self._bury(record_key, entry)
        else:
            entry.state = DeliveryState.VISIBLE
            self._visible[False].append(record_key)

    def _bury(self, record_key: Place, entry: Delivery) -> None:
        entry.state = DeliveryState.DEAD_VISIBLE
        self._changed.add(record_key)
        self._visible[True].append(record_key)

    def _is_used_up(self, entry: Delivery) -> bool:
        return self.max_receives is not None and entry.receives >= self.max_receives

    def _is_current(self, visible_ms: int, receipt: int, record_key: Place) -> bool:
        entry = self._entry(record_key)
        return (
            entry is not None
            and self._is_timed(entry, receipt)
            and (entry.visible_ms == visible_ms)
        )

    def _is_timed(self, entry: Delivery, receipt: int) -> bool:
        return entry.is_in_flight and entry.receipt == receipt

    def _entry(self, record_key: Place) -> Delivery | None:
        part = self._backlog.parts.get(record_key[0])
        return None if part is None else part.entries.get(record_key[1])

    def _drop(self, part: ShardPart, index: int) -> None:
        entry = part.entries.pop(index)
        if entry.is_in_flight:
            self._in_flight[entry.is_dead] -= 1
        self._changed.add((part.shard.number, index))

    def _forget(self, part: ShardPart) -> None:
        for index in list(part.entries):
            self._drop(part, index)
        self._changed_parts.add(part.shard.number)

    # --- records that were received -----------------------------------------------------------

    def acknowledge(
        self, record_key: Place, receipt: int, now_ms: int, *, dead: bool = False
    ) -> None:
        """Remove a record from the queue. Raises WrongRecord.

        Assumed: the handle of the last receive is valid until the record is received again, as SQS's is.
        """
        with self._lock:
            part, _ = self._take_received(record_key, receipt, now_ms, dead=dead)
            self._drop(part, record_key[1])

    def change_visibility(
        self,
        record_key: Place,
        receipt: int,
        visibility_ms: int,
        now_ms: int,
        *,
        dead: bool = False,
    ) -> None:
        """Let a record in flight become visible `visibility_ms` from now. Raises WrongRecord."""
        with self._lock:
            _, entry = self._take_received(record_key, receipt, now_ms, dead=dead)
            if not entry.is_in_flight:
                raise WrongRecord(
                    "InvalidArgumentException",
                    "The visibility timeout of the record has expired: it is not in flight.",
                )
            entry.visible_ms = now_ms + visibility_ms
            self._changed.add(record_key)
            self._times.add(entry.visible_ms, receipt, [record_key])
            self._show_due(now_ms)

    def restore(self, record_key: Place, receipt: int, now_ms: int) -> None:
        """Make a dead-letter record an ordinary, visible one that was never received. Raises WrongRecord."""
        with self._lock:
            _, entry = self._take_received(record_key, receipt, now_ms, dead=True)
            if entry.is_in_flight:
                self._in_flight[True] -= 1
            # No handle is valid until the record is received again.
            entry.receives, entry.receipt, entry.state = 0, 0, DeliveryState.VISIBLE
            self._changed.add(record_key)
            self._visible[False].append(record_key)

    def _take_received(
        self, record_key: Place, receipt: int, now_ms: int, *, dead: bool
    ) -> tuple[ShardPart, Delivery]:
        self._show_due(now_ms)
        part = self._backlog.parts.get(record_key[0])
        entry = None if part is None else part.entries.get(record_key[1])
        if part is None or entry is None:
            raise WrongRecord(
                "ResourceNotFoundException",
                "The record of the receipt handle is not in the queue: it is acknowledged, or has expired.",
            )
        if entry.receipt != receipt:
            raise WrongRecord(
                "InvalidArgumentException",
                "The receipt handle is outdated: the record was received again, or restored.",
            )
        if entry.is_dead != dead:
            kind = "a dead-letter record" if entry.is_dead else "not a dead-letter record"
            raise WrongRecord("ResourceNotFoundException", f"The record is {kind}.")
        return part, entry

    # --- what there is ------------------------------------------------------------------------

    def has_visible(self, now_ms: int, *, dead: bool = False) -> bool:
        """Whether a receive may return a record now. Quick, since every append asks."""
        with self._lock:
            self._follow_clock(now_ms)
            next_ms = self._times.next_ms
            if self._visible[dead] or (next_ms is not None and next_ms <= now_ms):
                return True
            return not dead and self._backlog.has_records

    @property
    def next_visible_ms(self) -> int | None:
        """When a record in flight may become visible next; None when none is in flight."""
        with self._lock:
            return self._times.next_ms

    def counts(self, now_ms: int) -> Counts:
        """Return how many records there are now."""
        with self._lock:
            self._look_at_time(now_ms)
            waiting = again = 0
            for part in self._backlog.parts.values():
                waiting += part.waiting
                again += len(part.entries)
            in_flight, dead_in_flight = self._in_flight[False], self._in_flight[True]
            dead = len(
                {
                    record_key
                    for record_key in self._visible[True]
                    if self._is_visible(record_key, True)
                }
            )
            again -= in_flight + dead_in_flight + dead
            return Counts(waiting + again, in_flight, dead, dead_in_flight)

    def unacknowledged(self, now_ms: int, most: int) -> list[Place]:
        """Return the places of up to `most` records that were received and not acknowledged, in the log's order."""
        with self._lock:
            self._look_at_time(now_ms)
            places = [
                (number, index)
                for number, part in sorted(self._backlog.parts.items())
                for index in itertools.islice(sorted(part.entries), most)
            ]
            return places[:most]

    def look(self, record_key: Place, now_ms: int) -> tuple[bool, Delivery | None]:
        """Return whether a record was ever received, and its delivery; None when it is acknowledged or expired."""
        with self._lock:
            self._look_at_time(now_ms)
            part = self._backlog.parts.get(record_key[0])
            was_received = part is None or record_key[1] < part.next_index
            return was_received, _copy_delivery(self._entry(record_key))

    def _is_visible(self, record_key: Place, dead: bool) -> bool:
        entry = self._entry(record_key)
        return entry is not None and not entry.is_in_flight and entry.is_dead == dead

    # --- storing ------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        """Whether something is not stored yet."""
        return bool(self._changed or self._changed_parts)

    def take_changes(self) -> Changes:
        """Return what is to be stored, and forget it. A caller that fails to store it gives it back."""
        with self._lock:
            places, self._changed = self._changed, set()
            numbers, self._changed_parts = self._changed_parts, set()
            parts = self._backlog.parts
            return Changes(
                {n: parts[n].next_index if n in parts else None for n in numbers},
                {record_key: _copy_delivery(self._entry(record_key)) for record_key in places},
            )

    def give_back(self, changes: Changes) -> None:
        """Note again what could not be stored."""
        with self._lock:
            self._changed_parts.update(changes.positions)
            self._changed.update(changes.entries)


def _copy_delivery(entry: Delivery | None) -> Delivery | None:
    if entry is None:
        return None
    return Delivery(entry.visible_ms, entry.receives, entry.first_ms, entry.receipt, entry.state)
