"""All queues: creates, finds, changes and deletes them, and receives and acknowledges their records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.services.kinesis.queues.deliveries import Deliveries, WrongRecord
from headrace.services.kinesis.queues.open_queue import (
    InvalidReceipt,
    OpenQueue,
    Outcome,
    Receipt,
    ReceiptCodec,
    WaitingReceive,
)
from headrace.services.kinesis.queues.state import Queue, QueueStatus
from headrace.services.kinesis.queues.store import QueueStore, QueueWork, note_receive, receive_now
from headrace.services.kinesis.state import Stream
from headrace.services.kinesis.store import StreamRegistry

log = logging.getLogger(__name__)

_ID_CHARS = 24


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an entry of a request failed."""

    handle: str
    code: str
    message: str


# What a request does with a record: takes the queue, the record's receipt and the position of the entry.
Change = Callable[[OpenQueue, Receipt, int], None]


class Queues:
    """The queues of all accounts and regions. Thread-safe; callers make changes of queues under the service's lock.

    Attributes:
        changing_ms: how long a queue stays CREATING, UPDATING or DELETING.
    """

    def __init__(
        self,
        store: QueueStore,
        registry: StreamRegistry,
        clock: Clock,
        ids: Ids,
        *,
        key: bytes,
        delay_ms: int = 0,
    ) -> None:
        """Take the key of the cloud's tokens, which makes handles."""
        self.changing_ms = delay_ms
        self._store = store
        self._registry = registry
        self._clock = clock
        self._ids = ids
        self._key = key
        self._lock = threading.RLock()
        # Replaced as a whole, so that the worker and requests may iterate over it.
        self._by_arn: Mapping[str, OpenQueue] = {}
        self._work = QueueWork(store, clock, lambda: self._by_arn.values())

    # --- start and stop -----------------------------------------------------------------------

    def start(self, supervisor: Supervisor) -> None:
        """Open every queue, once the streams are open, and start the work."""
        for queue in self._store.load():
            stream = self._registry.by_id.get(queue.stream_id)
            if stream is None:
                log.error("queue %s is ignored: its stream does not exist", queue.arn)
                continue
            stored = self._store.deliveries(queue)
            deliveries = Deliveries(
                stream, stored.positions, stored.entries, max_receives=queue.max_receives
            )
            self._open(queue, stream, deliveries)
        self._work.start(supervisor)

    def stop(self) -> None:
        """Answer the receives that wait, and store what is left."""
        self._work.stop()

    def _open(self, queue: Queue, stream: Stream, deliveries: Deliveries) -> OpenQueue:
        opened = OpenQueue(queue, stream, deliveries, ReceiptCodec(self._key, queue.queue_id))

        def wake() -> None:
            if opened.waiting:
                self._work.wake()

        opened.undo = self._registry.subscribe(stream.arn, wake)
        with self._lock:
            self._by_arn = {**self._by_arn, queue.arn: opened}
        return opened

    # --- queues -------------------------------------------------------------------------------

    def find(self, arn: str, now_ms: int) -> OpenQueue:
        """Return a queue. Raises ResourceNotFoundException."""
        opened = self._by_arn.get(arn)
        # One whose time in DELETING is over is removed later: this must not block.
        if opened is None or _is_gone(opened.queue, now_ms):
            raise AwsError("ResourceNotFoundException", f"Queue {arn} not found.")
        return opened

    def by_arn(self, arn: str) -> OpenQueue | None:
        """Return the queue with this ARN, in any state, or None."""
        return self._by_arn.get(arn)

    def listed(self, account: str, region: str, now_ms: int) -> list[OpenQueue]:
        """Return the queues of an account in a region, by name."""
        self._remove_deleted(now_ms)
        opened_queues = [
            opened
            for opened in self._by_arn.values()
            if (opened.queue.account, opened.queue.region) == (account, region)
        ]
        return sorted(opened_queues, key=lambda opened: opened.queue.name)

    def of_stream(self, stream: Stream, now_ms: int) -> list[OpenQueue]:
        """Return the queues on a stream."""
        self._remove_deleted(now_ms)
        return [opened for opened in self._by_arn.values() if opened.stream is stream]

    def all(self) -> Sequence[OpenQueue]:
        """Return all queues."""
        return list(self._by_arn.values())

    def new_id(self) -> str:
        """Return an id for a new queue."""
        return self._ids.hex(_ID_CHARS)

    def free_number(self) -> int:
        """See `QueueStore.free_number`."""
        return self._store.free_number()

    def add(self, queue: Queue, stream: Stream, positions: Mapping[int, int]) -> None:
        """Store a new queue, which begins at these positions of the stream's shards, then let requests see it."""
        queue.settles_ms = queue.created_ms + self.changing_ms
        if not self.changing_ms:
            # Stored so: a clock that is set back must not make it CREATING again.
            queue.latest_status = "ACTIVE"
        self._store.add(queue, positions)
        deliveries = Deliveries(stream, positions, max_receives=queue.max_receives)
        self._open(queue, stream, deliveries)

    def update(self, opened: OpenQueue, now_ms: int) -> None:
        """Store changed settings; the queue is UPDATING for `changing_ms`."""
        queue = opened.queue
        if self.changing_ms:
            queue.latest_status, queue.settles_ms = "UPDATING", now_ms + self.changing_ms
        self._store.save(queue)
        opened.deliveries.max_receives = queue.max_receives

    def save(self, queue: Queue) -> None:
        """Store a changed queue; if this fails, take the change back."""
        self._store.save(queue)

    def delete(self, opened: OpenQueue, now_ms: int) -> None:
        """Delete a queue, which stays DELETING for `changing_ms` first. Its handles are no longer valid."""
        queue = opened.queue
        if self.changing_ms:
            queue.latest_status, queue.settles_ms = "DELETING", now_ms + self.changing_ms
            self._store.save(queue)
        else:
            self._remove(opened)
        for receive in opened.take_waiting():
            if receive.begin_end():
                receive.end(not_delivering(queue, "DELETING"))

    def _remove_deleted(self, now_ms: int) -> None:
        for opened in self.all():
            if _is_gone(opened.queue, now_ms):
                self._remove(opened)

    def _remove(self, opened: OpenQueue) -> None:
        with self._lock:
            if self._by_arn.get(opened.queue.arn) is not opened:
                return
            self._store.delete(opened.queue)
            self._by_arn = {arn: q for arn, q in self._by_arn.items() if q is not opened}
        opened.undo()

    # --- records ------------------------------------------------------------------------------

    def receive(self, opened: OpenQueue, receive: WaitingReceive, now_ms: int) -> Outcome:
        """Return what a receive finds now: records (in flight from now on), or the error of a damaged log.

        The change is durable once `stored` is done.
        """
        outcome = receive_now(opened, receive, now_ms)
        if outcome != []:
            note_receive(opened, outcome, now_ms)
        return outcome

    def wait(self, opened: OpenQueue, receive: WaitingReceive) -> Future[Any]:
        """Let a receive that found nothing wait; the Future is done when it ends, and its records are durable."""
        self._work.wait(opened, receive)
        return receive.future

    def stored(self) -> Future[None]:
        """See `QueueWork.stored`."""
        return self._work.stored()

    def change(
        self, opened: OpenQueue, handles: Sequence[str], change: Change
    ) -> tuple[list[str], list[Failure]]:
        """Change the record of each handle; return the handles that succeeded, and why others failed.

        The changes are durable once `stored` is done.
        """
        successful: list[str] = []
        failed: list[Failure] = []
        for number, handle in enumerate(handles):
            try:
                change(opened, opened.receipts.open(handle), number)
            except InvalidReceipt:
                sentence = "The receipt handle is not one of this queue."
                failed.append(Failure(handle, "InvalidArgumentException", sentence))
            except WrongRecord as error:
                failed.append(Failure(handle, error.code, str(error)))
            else:
                successful.append(handle)
        if successful and opened.waiting:
            # There is room in flight again, or a record is visible.
            self._work.wake()
        return successful, failed


def _is_gone(queue: Queue, now_ms: int) -> bool:
    return queue.latest_status == "DELETING" and now_ms >= queue.settles_ms


def not_delivering(queue: Queue, status: QueueStatus) -> AwsError:
    """The queue delivers no records in this status. The code is assumed: the operations list no better one."""
    return AwsError(
        "InvalidArgumentException",
        f"Queue {queue.arn} is not ACTIVE, instead in state {status}.",
    )
