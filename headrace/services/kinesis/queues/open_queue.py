"""A queue that requests can use: its settings, its stream, its deliveries, and the receives that wait for a record.

Makes and reads receipt handles: opaque and authenticated, valid for one queue.

A handle names a record by shard number and index, and the receive that returned it. It holds a MAC, so that a handle of
another queue, or one that nobody issued, is told from a valid one.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import math
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from headrace.services.kinesis.queues.deliveries import Deliveries
from headrace.services.kinesis.queues.state import Queue, Received
from headrace.services.kinesis.state import Stat, Stream

_BODY = struct.Struct(">IQQ")
_MAC_BYTES = 10
_HANDLE_BYTES = _BODY.size + _MAC_BYTES


class InvalidReceipt(ValueError):
    """The text is no receipt handle of this queue."""


class Receipt(NamedTuple):
    """What a handle names: a record by its shard's number and its index there, and the number of the receive."""

    shard_number: int
    record: int
    number: int


class ReceiptCodec:
    """Makes and reads the handles of one queue. Thread-safe."""

    def __init__(self, key: bytes, queue_id: str) -> None:
        """Take the key of the cloud's tokens (32 bytes)."""
        self._key = hashlib.blake2b(b"receipt" + queue_id.encode(), key=key).digest()

    def seal(self, shard_number: int, index: int, number: int) -> str:
        """Return a handle of 40 characters."""
        body = _BODY.pack(shard_number, index, number)
        return binascii.b2a_base64(body + self._mac(body), newline=False).decode("ascii")

    def open(self, handle: str) -> Receipt:
        """Return what a handle names. Raises InvalidReceipt."""
        try:
            sealed = binascii.a2b_base64(handle, strict_mode=True)
        except ValueError as error:  # binascii's own error is one
            raise InvalidReceipt from error
        body = sealed[: _BODY.size]
        if len(sealed) != _HANDLE_BYTES or not hmac.compare_digest(
            sealed[_BODY.size :], self._mac(body)
        ):
            raise InvalidReceipt
        return Receipt(*_BODY.unpack(body))

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=_MAC_BYTES).digest()


# What a receive ends with: the records, or the reason why there are none.
Outcome = list[Received] | Exception


class WaitingReceive:
    """A receive that found no visible record and waits for one.

    Attributes:
        future: done when the receive is over; its result is what `render` makes of the outcome. A client that leaves
            cancels it.
        wait_s: how long it waits.
        deadline_s: the monotonic time at which it ends without a record; set when its wait begins.
    """

    __slots__ = ("_render", "dead", "deadline_s", "future", "limit", "visibility_ms", "wait_s")

    def __init__(
        self,
        render: Callable[[Outcome], Any],
        *,
        limit: int,
        visibility_ms: int,
        wait_s: float,
        dead: bool,
    ) -> None:
        self.future: Future[Any] = Future()
        self.limit = limit
        self.visibility_ms = visibility_ms
        self.wait_s = wait_s
        self.deadline_s = math.inf
        self.dead = dead
        self._render = render

    def begin_end(self) -> bool:
        """Whether somebody still waits; from then on the receive can not be cancelled."""
        return self.future.set_running_or_notify_cancel()

    def end(self, outcome: Outcome) -> None:
        """Give the waiter the outcome."""
        try:
            result = self._render(outcome)
        except Exception as error:  # noqa: BLE001 - the future carries it
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class QueueCounters:
    """The counts of a queue for CloudWatch. Thread-safe; `take` resets them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats: dict[str, Stat] = {}
        # When somebody last received, and when the metrics last saw a visible record.
        self.active_ms = 0
        self.visible_ms = 0

    def note(self, metric: str, value: int) -> None:
        """Count a value of a metric."""
        with self._lock:
            stat = self._stats.get(metric)
            if stat is None:
                stat = self._stats[metric] = Stat()
            stat.note(value)

    def take(self) -> Mapping[str, Stat]:
        """Return the counts since the last call, and reset them."""
        with self._lock:
            taken, self._stats = self._stats, {}
        return taken


class OpenQueue:
    """One queue. Thread-safe, as its parts are.

    Attributes:
        waiting: the receives that wait, in the order in which they came; `lock` guards it.
        undo: ends the subscription to the stream's appends.
    """

    def __init__(
        self, queue: Queue, stream: Stream, deliveries: Deliveries, receipts: ReceiptCodec
    ) -> None:
        self.queue = queue
        self.stream = stream
        self.deliveries = deliveries
        self.receipts = receipts
        self.counters = QueueCounters()
        self.lock = threading.Lock()
        self.waiting: deque[WaitingReceive] = deque()
        self.undo: Callable[[], None] = lambda: None

    def take_waiting(self) -> list[WaitingReceive]:
        """Remove and return every receive that waits."""
        with self.lock:
            taken = list(self.waiting)
            self.waiting.clear()
        return taken
