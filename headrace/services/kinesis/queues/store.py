"""Stores queues: a document for each, and the delivery states in two tables of numbers.

A commit writes the changes of many requests in a few statements, each of which takes its rows as one JSON array: a
statement releases Python's lock only once, however many rows it writes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.services.kinesis.queues.deliveries import Changes
from headrace.services.kinesis.queues.state import Delivery, Queue
from headrace.services.kinesis.queues.visibility import Place
from headrace.store.database import Database

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
