"""Stores what queues have delivered, many requests at a time, and serves the receives that wait for a record.

A request changes the deliveries in memory, and its answer waits for the round that stores the change. Requests that
come while a round is being stored share the next one.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from headrace.core.clock import Clock
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.kinesis.queues.open_queue import OpenQueue, Outcome, WaitingReceive
from headrace.services.kinesis.queues.store import QueueStore
from headrace.store.losses import LogDamaged

log = logging.getLogger(__name__)

# How soon changes that could not be stored, such as on a full disk, are tried again.
RETRY_S = 1.0


class QueueWork:
    """The `Worker` of all queues. Its methods for requests are thread-safe, and never block."""

    name = "kinesis queues"

    def __init__(
        self, store: QueueStore, clock: Clock, queues: Callable[[], Iterable[OpenQueue]]
    ) -> None:
        """Take what returns all queues."""
        self._store = store
        self._clock = clock
        self._queues = queues
        self._lock = threading.Lock()
        self._round: Future[None] | None = None
        self._supervisor: Supervisor | None = None
        self._handle: WorkerHandle | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Let a supervisor run the steps."""
        self._supervisor = supervisor
        self._handle = supervisor.start(self)

    def stop(self) -> None:
        """End the steps, store what is left, and answer every receive that waits."""
        if self._supervisor is not None and self._handle is not None:
            self._supervisor.stop_each([self._handle])
        self._handle = None
        for queue in self._queues():
            for receive in queue.take_waiting():
                if receive.begin_end():
                    receive.end([])
        self._store_round([])

    # --- for requests -------------------------------------------------------------------------

    def stored(self) -> Future[None]:
        """Return a Future that is done when every change made so far is durable; OSError when it cannot be stored."""
        with self._lock:
            future = self._round
            if future is not None:
                return future
            future = self._round = Future()
        self.wake()
        return future

    def wait(self, queue: OpenQueue, receive: WaitingReceive) -> None:
        """Let a receive wait for a record."""
        receive.deadline_s = self._clock.monotonic_s() + receive.wait_s
        with queue.lock:
            queue.waiting.append(receive)
        # A record may have come since the receive looked.
        self.wake()

    def wake(self) -> None:
        """Run the next step now."""
        if self._handle is not None:
            self._handle.wake()

    # --- the worker ---------------------------------------------------------------------------

    def step(self) -> float:
        """Serve the receives that wait, and store what has changed."""
        now_ms = self._clock.now_ms()
        ended: list[tuple[WaitingReceive, Outcome]] = []
        for queue in self._queues():
            if queue.waiting:
                self._serve(queue, now_ms, ended)
        if not self._store_round(ended):
            return RETRY_S
        return self._due_in_s()

    def _serve(
        self, queue: OpenQueue, now_ms: int, ended: list[tuple[WaitingReceive, Outcome]]
    ) -> None:
        """Give visible records to the receives that wait, and end those that have waited long enough."""
        with queue.lock:
            left = list(queue.waiting)
            queue.waiting.clear()
        kept: list[WaitingReceive] = []
        for receive in left:
            if receive.future.cancelled():
                continue
            outcome = receive_now(queue, receive, now_ms)
            if outcome == [] and receive.deadline_s > self._clock.monotonic_s():
                kept.append(receive)
            elif receive.begin_end():
                note_receive(queue, outcome, now_ms)
                ended.append((receive, outcome))
        with queue.lock:
            # Before those that came meanwhile.
            queue.waiting.extendleft(reversed(kept))

    def _store_round(self, ended: list[tuple[WaitingReceive, Outcome]]) -> bool:
        """Store all changes, then answer those who wait for that; return whether it succeeded."""
        with self._lock:
            future, self._round = self._round, None
        taken = [
            (queue, queue.deliveries.take_changes())
            for queue in self._queues()
            if queue.deliveries.has_changes
        ]
        failure: Exception | None = None
        if taken:
            try:
                self._store.commit([(queue.queue.number, changes) for queue, changes in taken])
            except Exception as error:
                log.exception("the deliveries of queues could not be stored")
                failure = error
                for queue, changes in taken:
                    queue.deliveries.give_back(changes)
        for receive, outcome in ended:
            receive.end(outcome if failure is None else failure)
        if future is not None:
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)
        return failure is None

    def _due_in_s(self) -> float:
        """Return in how many seconds a waiting receive ends, or may find a record that becomes visible again."""
        now_ms, now_s, due_s = self._clock.now_ms(), self._clock.monotonic_s(), math.inf
        for queue in self._queues():
            if not queue.waiting:
                continue
            with queue.lock:
                waits_s = [receive.deadline_s - now_s for receive in queue.waiting]
            visible_ms = queue.deliveries.next_visible_ms
            if visible_ms is not None:
                waits_s.append((visible_ms - now_ms) / 1000)
            due_s = min([due_s, *waits_s])
        return max(0.0, due_s)


def receive_now(queue: OpenQueue, receive: WaitingReceive, now_ms: int) -> Outcome:
    """Return what a receive finds now; the records are in flight from now on."""
    if not queue.deliveries.has_visible(now_ms, dead=receive.dead):
        return []
    try:
        return queue.deliveries.receive(
            receive.limit, receive.visibility_ms, now_ms, dead=receive.dead
        )
    except LogDamaged as error:
        return error


def note_receive(queue: OpenQueue, outcome: Outcome, now_ms: int) -> None:
    """Count a receive that is over for CloudWatch."""
    queue.counters.active_ms = now_ms
    if isinstance(outcome, list):
        metric, count = ("ReceivedQueueRecords", len(outcome)) if outcome else ("EmptyReceives", 1)
        queue.counters.note(metric, count)
