"""Stores queues: a document for each, and the delivery states in two tables of numbers.

A commit writes the changes of many requests in a few statements, each of which takes its rows as one JSON array: a
statement releases Python's lock only once, however many rows it writes.

Stores what queues have delivered, many requests at a time, and serves the receives that wait for a record.

A request changes the deliveries in memory, and its answer waits for the round that stores the change. Requests that
come while a round is being stored share the next one.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import msgspec

from headrace.core.clock import Clock
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.kinesis.queues.deliveries import Changes
from headrace.services.kinesis.queues.open_queue import OpenQueue, Outcome, WaitingReceive
from headrace.services.kinesis.queues.state import Delivery, Place, Queue
from headrace.store.database import Database
from headrace.store.losses import LogDamaged

_POSITIONS = (
    "CREATE TABLE kinesis_queue_positions (queue INTEGER, shard INTEGER, next_index INTEGER,"
    " PRIMARY KEY (queue, shard)) WITHOUT ROWID"
)
_RECORDS = (
    "CREATE TABLE kinesis_queue_records (queue INTEGER, shard INTEGER, record INTEGER, visible_ms INTEGER,"
    " receives INTEGER, first_ms INTEGER, receipt INTEGER, state INTEGER,"
    " PRIMARY KEY (queue, shard, record)) WITHOUT ROWID"
)


def _columns_of(count: int) -> str:
    """Return the columns of a row that is a JSON array, for SQL that reads rows from an array of them."""
    return ", ".join(f"json_extract(value, '$[{column}]')" for column in range(count))


_PUT_POSITIONS = (
    f"INSERT OR REPLACE INTO kinesis_queue_positions SELECT {_columns_of(3)} FROM json_each(?)"
)
_PUT_RECORDS = (
    f"INSERT OR REPLACE INTO kinesis_queue_records SELECT {_columns_of(8)} FROM json_each(?)"
)
_DELETE_POSITIONS = (
    "DELETE FROM kinesis_queue_positions WHERE (queue, shard) IN"
    f" (SELECT {_columns_of(2)} FROM json_each(?))"
)
_DELETE_RECORDS = (
    "DELETE FROM kinesis_queue_records WHERE (queue, shard, record) IN"
    f" (SELECT {_columns_of(3)} FROM json_each(?))"
)


class StoredDeliveries(NamedTuple):
    """What is stored of a queue: the position in each shard by its number, and the records' deliveries."""

    positions: dict[int, int]
    entries: list[tuple[Place, Delivery]]


class QueueStore:
    """Stores queues and their deliveries. A change is durable when its method returns. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._documents = database.documents("kinesis_queues")
        database.migrate("kinesis_queues", (_POSITIONS, _RECORDS))
        # Held while deliveries are written, so that none are written for a queue that is deleted meanwhile.
        self._lock = threading.Lock()
        self._numbers: set[int] = set()

    def load(self) -> list[Queue]:
        """Return all queues."""
        queues = [Queue(**document) for _, document in self._documents.items()]
        self._numbers = {queue.number for queue in queues}
        return queues

    def deliveries(self, queue: Queue) -> StoredDeliveries:
        """Return what is stored of a queue's deliveries."""
        positions = self._database.query(
            "SELECT shard, next_index FROM kinesis_queue_positions WHERE queue = ?", (queue.number,)
        )
        rows = self._database.query(
            "SELECT shard, record, visible_ms, receives, first_ms, receipt, state FROM kinesis_queue_records"
            " WHERE queue = ? ORDER BY visible_ms, receipt, shard, record",
            (queue.number,),
        )
        return StoredDeliveries(
            dict(positions), [((row[0], row[1]), Delivery(*row[2:])) for row in rows]
        )

    def free_number(self) -> int:
        """Return a number that no queue has."""
        return max(self._numbers, default=0) + 1

    def add(self, queue: Queue, positions: Mapping[int, int]) -> None:
        """Store a new queue and its positions. Raises DiskFull, OSError."""
        rows = [(queue.number, shard, index) for shard, index in positions.items()]
        with self._lock, self._database.transaction():
            self._documents.put(queue.arn, queue.document())
            self._run(_PUT_POSITIONS, rows)
        self._numbers.add(queue.number)

    def save(self, queue: Queue) -> None:
        """Store a changed queue; if this fails, take the change back. Raises DiskFull, OSError."""
        try:
            self._documents.put(queue.arn, queue.document())
        except BaseException:
            stored: dict[str, Any] = self._documents.get(queue.arn) or {}
            for name, value in stored.items():
                setattr(queue, name, value)
            raise

    def delete(self, queue: Queue) -> None:
        """Remove a queue and its deliveries, also from a full disk."""
        with self._lock, self._database.transaction(frees=True):
            for table in ("kinesis_queue_positions", "kinesis_queue_records"):
                self._database.execute(f"DELETE FROM {table} WHERE queue = ?", (queue.number,))
            self._documents.delete(queue.arn)
        self._numbers.discard(queue.number)

    def commit(self, changes: Sequence[tuple[int, Changes]]) -> None:
        """Store the changes of queues, each with its number, in one transaction. Raises DiskFull, OSError.

        Changes of queues that were deleted meanwhile are left out.
        """
        with self._lock:
            positions, gone_positions = _Rows(), _Rows()
            records, gone_records = _Rows(), _Rows()
            for number, (moved, changed) in changes:
                if number not in self._numbers:
                    continue
                for shard, index in moved.items():
                    if index is None:
                        gone_positions.append((number, shard))
                    else:
                        positions.append((number, shard, index))
                for record_key, entry in changed.items():
                    if entry is None:
                        gone_records.append((number, *record_key))
                    else:
                        records.append((number, *record_key, *_columns(entry)))
            grows = bool(positions or records)
            with self._database.transaction(frees=not grows):
                self._run(_PUT_POSITIONS, positions)
                self._run(_PUT_RECORDS, records)
                self._run(_DELETE_RECORDS, gone_records)
                self._run(_DELETE_POSITIONS, gone_positions)

    def _run(self, sql: str, rows: Sequence[tuple[int, ...]]) -> None:
        if rows:
            self._database.execute(sql, (msgspec.json.encode(rows).decode(),))


_Rows = list[tuple[int, ...]]


def _columns(entry: Delivery) -> tuple[int, int, int, int, int]:
    return (entry.visible_ms, entry.receives, entry.first_ms, entry.receipt, entry.state)


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
