"""The messages of a queue, in place of moto's list, which every request scanned from end to end.

A message is found by its number, counted by its state, and stored as a row. Times are milliseconds of the cloud's
clock. Not thread-safe: `MOTO_LOCK`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import base64
import functools
import hashlib
import heapq
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from itertools import islice
from typing import Any

import msgspec

from headrace.moto.storage.changes import CHANGES, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as

# AWS: a FIFO queue remembers a deduplication id for five minutes, even when its message is deleted.
DEDUPLICATION_MS = 5 * 60 * 1000
# A FIFO queue's sequence numbers have 20 digits and increase.
FIRST_SEQUENCE_NUMBER = 18_850_000_000_000_000_000
SEQUENCE_NUMBER_STEP = 256
# Numbers are reserved in the database in blocks: none is reused, or an old receipt handle would name a new message.
NUMBERS_AT_ONCE = 1_000
TAKEN = "n"

# The most obsolete entries in the heap of times before it is rebuilt.
MOST_STALE = 1_000

_HANDLE = struct.Struct(">QQI")
_STORED = [
    "id",
    "body",
    "message_attributes",
    "sender_id",
    "sent_timestamp",
    "approximate_first_receive_timestamp",
    "approximate_receive_count",
    "deduplication_id",
    "group_id",
    "sequence_number",
    "visible_at",
    "delayed_until",
    "system_attributes",
    "received_ms",
]


class State(Enum):
    """A message's state."""

    READY = 1
    DELAYED = 2
    IN_FLIGHT = 3


@stored_as("sqs_messages")
class Messages(Rows):
    """The messages of a standard queue, by number."""

    service = "sqs"

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        self.messages: dict[int, Any] = {}
        self.counts: Counter[State] = Counter()
        self._states: dict[int, State] = {}
        self._next = self._taken = 0
        # A heap of the times when delayed or in-flight messages may become ready; some entries are obsolete.
        self._later: list[tuple[float, int]] = []
        self._ready: list[int] = []

    # --- adding -------------------------------------------------------------------------------

    def add(self, message: Any, now_ms: float) -> None:
        """Add a message; it may have been received before, from another queue."""
        message.visible_at, message.received_ms = 0.0, None
        number = self._next
        self._next += 1
        if number >= self._taken:
            self._taken = number + NUMBERS_AT_ONCE
            CHANGES.row(self, TAKEN)
        self.messages[number] = message
        self._schedule(number, message, now_ms)
        CHANGES.row(self, number)

    def _schedule(self, number: int, message: Any, now_ms: float) -> None:
        """Set a message's state, and schedule the state's end."""
        if message.delayed_until > now_ms:
            self._enter(number, State.DELAYED)
            heapq.heappush(self._later, (message.delayed_until, number))
        elif message.visible_at > now_ms:
            self._enter(number, State.IN_FLIGHT)
            heapq.heappush(self._later, (message.visible_at, number))
        elif self._states.get(number) is not State.READY:
            self._enter(number, State.READY)
            self._make_ready(number, message)
        if len(self._later) > 2 * len(self.messages) + MOST_STALE:
            self._later = [entry for entry in self._later if self._is_due(*entry)]
            heapq.heapify(self._later)

    def _enter(self, number: int, state: State) -> None:
        self._leave(number)
        self._states[number] = state
        self.counts[state] += 1

    def _leave(self, number: int) -> State | None:
        before = self._states.pop(number, None)
        if before is not None:
            self.counts[before] -= 1
        return before

    def _is_due(self, at_ms: float, number: int) -> bool:
        """Whether an entry of the heap is still current."""
        message = self.messages.get(number)
        return message is not None and at_ms in (message.delayed_until, message.visible_at)

    # --- time ---------------------------------------------------------------------------------

    def advance(self, now_ms: float) -> None:
        """Make messages ready whose time has come."""
        while self._later and self._later[0][0] <= now_ms:
            entry = heapq.heappop(self._later)
            number = entry[1]
            if self._is_due(*entry):
                self._schedule(number, self.messages[number], now_ms)

    def expire(self, now_ms: float, retention_s: float) -> None:
        """Remove messages that are older than the queue's retention."""
        while self.messages:
            number = next(iter(self.messages))
            if self.messages[number].sent_timestamp + retention_s * 1000 > now_ms:
                return
            self.remove(number)

    def next_due_ms(self) -> float | None:
        """Return when the next message may become ready by time; None for never."""
        return self._later[0][0] if self._later else None

    def measure(self, now_ms: float) -> tuple[int, int, int, int | None]:
        """Return how many are ready, in flight and delayed, and when the oldest was sent; changes nothing."""
        over = Counter(self._states[number] for number in self._overdue(now_ms))
        in_flight, delayed = (
            self.counts[state] - over[state] for state in (State.IN_FLIGHT, State.DELAYED)
        )
        oldest = next(iter(self.messages.values()), None)
        sent_ms = None if oldest is None else int(oldest.sent_timestamp)
        return len(self.messages) - in_flight - delayed, in_flight, delayed, sent_ms

    def _overdue(self, now_ms: float) -> set[int]:
        """Return the messages whose time has come since `advance`, without a look at the others of the heap."""
        numbers: set[int] = set()
        places = [0]
        while places:
            place = places.pop()
            if place < len(self._later) and self._later[place][0] <= now_ms:
                if self._is_due(*self._later[place]):
                    numbers.add(self._later[place][1])
                places += (2 * place + 1, 2 * place + 2)
        return numbers

    def is_empty(self, now_ms: float) -> bool:
        """Whether nothing can be received now; changes nothing, and may run concurrently with requests."""
        due = self.next_due_ms()
        return not self.counts[State.READY] and (due is None or due > now_ms)

    def list_ready(self, most: int) -> list[int]:
        """Return the numbers of the oldest messages that can be received; they stay ready."""
        ready = (n for n in self.messages if self._states.get(n) is State.READY)
        return list(islice(ready, most))

    def list_all(self, now_ms: float) -> list[tuple[Any, State]]:
        """Return all messages, oldest first, with their states; none is received."""
        self.advance(now_ms)
        return [(message, self._visible_state(number)) for number, message in self.messages.items()]

    def _visible_state(self, number: int) -> State:
        """Return the state of a message as a client that would receive it sees it."""
        return self._states[number]

    # --- receiving ----------------------------------------------------------------------------

    def receive(
        self,
        most: int,
        now_ms: float,
        visibility_s: int,
        dead_letter: Callable[[Any], bool],
    ) -> list[Any]:
        """Return up to `most` messages, and set them in flight for `visibility_s`.

        `dead_letter` is called for each message, and returns whether it has moved it away.
        """
        self.advance(now_ms)
        taken: dict[int, Any] = {}
        for number in self._candidates():
            message = self.messages[number]
            if dead_letter(message):
                self.remove(number)
                continue
            taken[number] = message
            if len(taken) == most:
                break
        for number, message in taken.items():
            message.approximate_receive_count += 1
            if not message.approximate_first_receive_timestamp:
                message.approximate_first_receive_timestamp = int(now_ms)
            message.received_ms = now_ms
            message.visible_at = now_ms + visibility_s * 1000 if visibility_s else 0.0
            message.receipt_handle = self.handle(number, message.approximate_receive_count)
            # It was removed from the ready messages, to which a timeout of zero returns it.
            self._leave(number)
            self._schedule(number, message, now_ms)
            CHANGES.row(self, number)
        return list(taken.values())

    def is_in_flight(self, number: int, now_ms: float) -> bool:
        """Whether a message was received and is not ready again."""
        self.advance(now_ms)
        return self._states.get(number) is State.IN_FLIGHT

    def is_current(self, number: int, handle: str, now_ms: float) -> bool:
        """Whether a receipt handle is the one of the last receive, and its message is still in flight."""
        count = self.messages[number].approximate_receive_count
        return self.is_in_flight(number, now_ms) and handle == self.handle(number, count)

    def change_visibility(self, number: int, now_ms: float, visibility_s: int) -> None:
        """Keep a message in flight for `visibility_s` from now; 0 makes it ready."""
        message = self.messages[number]
        message.visible_at = now_ms + visibility_s * 1000 if visibility_s else 0.0
        self._schedule(number, message, now_ms)
        CHANGES.row(self, number)

    def remove(self, number: int) -> None:
        """Remove a message."""
        message = self.messages.pop(number)
        self._note_gone(message, self._leave(number))
        CHANGES.row(self, number)

    def clear(self) -> None:
        """Remove all messages; deduplication ids stay known."""
        self.messages, self._states, self._later, self._ready = {}, {}, [], []
        self.counts.clear()
        CHANGES.all_rows(self)

    def _candidates(self) -> Iterable[int]:
        """Yield numbers of ready messages, oldest first; the ones that are not yielded stay ready."""
        while self._ready:
            number = heapq.heappop(self._ready)
            if self._states.get(number) is State.READY:
                yield number

    def _make_ready(self, number: int, message: Any) -> None:
        heapq.heappush(self._ready, number)

    def _note_gone(self, message: Any, state: State | None) -> None:
        """Note that a message in `state` was removed."""

    # --- receipt handles ----------------------------------------------------------------------

    def handle(self, number: int, received: int) -> str:
        """Return the receipt handle of a message after so many receives."""
        plain = _HANDLE.pack(self.id, number, received)
        seal = hashlib.blake2b(plain, key=self._key, digest_size=64).digest()
        return base64.b64encode(plain + seal).decode()

    def number_of(self, handle: str) -> int | None:
        """Return the number in a receipt handle of this queue; None for another text.

        The message may be deleted.
        """
        try:
            data = base64.b64decode(handle, validate=True)
            rows_id, number, received = _HANDLE.unpack(data[: _HANDLE.size])
        except (ValueError, struct.error):
            return None
        if rows_id != self.id or number >= self._next or self.handle(number, received) != handle:
            return None
        return int(number)

    @functools.cached_property
    def _key(self) -> bytes:
        return self.id.to_bytes(8, "big")

    # --- rows ---------------------------------------------------------------------------------

    def encode_row(self, key: Hashable) -> bytes | None:
        """See `Rows.encode_row`."""
        if key == TAKEN:
            return msgspec.msgpack.encode(self._taken)
        message = self.messages.get(key) if isinstance(key, int) else None
        if message is None:
            return None
        return msgspec.msgpack.encode([getattr(message, name) for name in _STORED])

    def keys(self) -> Iterable[Hashable]:
        """See `Rows.keys`."""
        return [TAKEN, *self.messages]

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            if key == TAKEN:
                self._next = self._taken = int(msgspec.msgpack.decode(value))
            elif isinstance(key, int):
                self.messages[key] = message = _message(msgspec.msgpack.decode(value))
                # Time zero: all waiting messages are checked at the next call of `advance`.
                self._schedule(key, message, 0.0)


def _message(values: list[Any]) -> Any:
    from moto.sqs.models import Message

    message: Any = Message.__new__(Message)
    vars(message).update(zip(_STORED, values, strict=True))
    message.receipt_handle = None
    return message


@stored_as("sqs_fifo_messages")
class FifoMessages(Messages):
    """The messages of a FIFO queue: in order within a group, which is locked while any of its messages is in flight."""

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        # Group -> the numbers of its ready messages; and a heap of the groups by their first number.
        self._groups: dict[Any, list[int]] = {}
        self._heads: list[tuple[int, Any]] = []
        self._in_flight: Counter[Any] = Counter()
        # Deduplication mark -> the first message's time, id and sequence number.
        self._known: OrderedDict[str, tuple[float, str, str]] = OrderedDict()

    def add_once(self, message: Any, now_ms: float, *, a_group: bool) -> bool:
        """Add a message unless it is a duplicate, in its group or in the queue; then it gets the first one's ids."""
        self._forget(now_ms)
        message.sequence_number = str(FIRST_SEQUENCE_NUMBER + self._next * SEQUENCE_NUMBER_STEP)
        if message.deduplication_id is not None:
            scope = message.group_id if a_group else ""
            mark = f"d{scope}\0{message.deduplication_id}"
            # An id that was sent while it counted for the whole queue stays known in each group (recorded).
            known = self._known.get(mark) or self._known.get(f"d\0{message.deduplication_id}")
            if known is not None:
                _, message.id, message.sequence_number = known
                return False
            self._known[mark] = (now_ms, message.id, message.sequence_number)
            CHANGES.row(self, mark)
        self.add(message, now_ms)
        return True

    def clear(self) -> None:
        """See `Messages.clear`."""
        super().clear()
        self._groups, self._heads = {}, []
        self._in_flight.clear()

    def _forget(self, now_ms: float) -> None:
        while self._known:
            mark, (sent_ms, _, _) = next(iter(self._known.items()))
            if sent_ms + DEDUPLICATION_MS > now_ms:
                return
            del self._known[mark]
            CHANGES.row(self, mark)

    def _visible_state(self, number: int) -> State:
        # What waits in a locked group cannot be received.
        state = self._states[number]
        is_locked = self._in_flight[self.messages[number].group_id] > 0
        return State.IN_FLIGHT if is_locked and state is State.READY else state

    def _enter(self, number: int, state: State) -> None:
        group = self.messages[number].group_id
        was_in_flight = self._states.get(number) is State.IN_FLIGHT
        super()._enter(number, state)
        if state is State.IN_FLIGHT and not was_in_flight:
            self._in_flight[group] += 1
        elif was_in_flight and state is not State.IN_FLIGHT:
            self._one_less(group)

    def _note_gone(self, message: Any, state: State | None) -> None:
        if state is State.IN_FLIGHT:
            self._one_less(message.group_id)

    def _one_less(self, group: Any) -> None:
        self._in_flight[group] -= 1
        if not self._in_flight[group]:
            del self._in_flight[group]
            if ready := self._groups.get(group):
                heapq.heappush(self._heads, (ready[0], group))

    def _make_ready(self, number: int, message: Any) -> None:
        ready = self._groups.setdefault(message.group_id, [])
        heapq.heappush(ready, number)
        if ready[0] == number:
            heapq.heappush(self._heads, (number, message.group_id))

    def _candidates(self) -> Iterable[int]:
        # Documented: one receive takes as many messages of a group as it can before it goes on to the next group
        # (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html).
        while self._heads:
            head, group = heapq.heappop(self._heads)
            ready = self._groups.get(group)
            while ready and self._states.get(ready[0]) is not State.READY:
                heapq.heappop(ready)
            if not ready:
                self._groups.pop(group, None)
            elif ready[0] != head:
                # The group's first message has changed, and gets its own entry.
                heapq.heappush(self._heads, (ready[0], group))
            elif not self._in_flight[group]:
                yield from self._ready_of(group, ready)

    def _ready_of(self, group: Any, ready: list[int]) -> Iterable[int]:
        while ready:
            number = heapq.heappop(ready)
            if self._states.get(number) is State.READY:
                # Before the yield, since the caller may stop there; if it does not, the entry is obsolete.
                if ready:
                    heapq.heappush(self._heads, (ready[0], group))
                yield number

    def encode_row(self, key: Hashable) -> bytes | None:
        """See `Rows.encode_row`."""
        if isinstance(key, str) and key != TAKEN:
            known = self._known.get(key)
            return None if known is None else msgspec.msgpack.encode(known)
        return super().encode_row(key)

    def keys(self) -> Iterable[Hashable]:
        """See `Rows.keys`."""
        return [*super().keys(), *self._known]

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        messages: list[tuple[RowKey, bytes]] = []
        for key, value in rows:
            if isinstance(key, str) and key != TAKEN:
                sent_ms, message_id, number = msgspec.msgpack.decode(value)
                self._known[key] = (sent_ms, message_id, number)
            else:
                messages.append((key, value))
        super().load(messages)
