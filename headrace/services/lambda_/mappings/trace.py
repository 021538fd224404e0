"""Stores the batch trees: every batch that was cut from a shard, its invocations, its parts and its end.

Each batch has one row, with a range of records. The row of a batch that succeeds at once is written once; otherwise it
is written again after each attempt. Rows survive restarts. Their number is limited: each mapping keeps its newest
batches that succeeded at once and, separately, its newest other batches; there is also a limit for all mappings.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.services.lambda_.mappings.batch import Attempt, Batch, History
from headrace.store.database import Database

log = logging.getLogger(__name__)

SMOOTH_KEPT = 1000
TROUBLED_KEPT = 5000
# The limit for all mappings together, for all kinds of batches.
ALL_KEPT = 50_000
_PRUNE_EVERY = 200

SUCCESS = "success"
OPEN = "open"
BISECTED = "bisected"
PARTLY = "partly done"
SENT = "sent to the failure destination"
DROPPED = "dropped"

_MIGRATIONS = (
    """CREATE TABLE lambda_trace (
        number INTEGER PRIMARY KEY, mapping TEXT NOT NULL, shard TEXT NOT NULL, lane INTEGER NOT NULL,
        lanes INTEGER NOT NULL, parent INTEGER NOT NULL, part TEXT NOT NULL, first TEXT NOT NULL,
        last TEXT NOT NULL, records INTEGER NOT NULL, disposal TEXT NOT NULL, detail TEXT NOT NULL,
        attempts TEXT NOT NULL, smooth INTEGER NOT NULL)""",
    "CREATE INDEX lambda_trace_by_mapping ON lambda_trace (mapping, smooth, number)",
)


@dataclass(frozen=True, slots=True)
class BatchSource:
    """The source of a batch: a lane of a shard of a mapping."""

    mapping: str
    shard_id: str
    lane: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Node:
    """A stored batch. `first` and `last` are sequence numbers; records of other lanes may lie between them."""

    number: int
    shard_id: str
    lane: int
    lanes: int
    parent: int
    part: str
    first: str
    last: str
    records: int
    disposal: str
    detail: str
    attempts: tuple[Attempt, ...]


class Trace:
    """Stores all batch trees. Thread-safe."""

    def __init__(self, database: Database) -> None:
        database.migrate("lambda_trace", _MIGRATIONS)
        self._database = database
        self._lock = threading.Lock()
        self._newest = int(
            database.query("SELECT COALESCE(MAX(number), 0) FROM lambda_trace")[0][0]
        )
        self._written: Counter[str] = Counter()
        self._all_written = 0
        self._prune_all()

    def begin(self, parent: History | None = None, part: str = "") -> History:
        """Return a new node. The first `write` stores it."""
        with self._lock:
            self._newest += 1
            return History(self._newest, parent.number if parent else 0, part)

    def write(
        self, source: BatchSource, history: History, batch: Batch, disposal: str, detail: str = ""
    ) -> None:
        """Store the present state of a batch. On a full disk the row is lost, but the mapping goes on."""
        try:
            self._write(source, history, batch, disposal, detail)
        except OSError as error:
            log.warning(
                "the batch tree of mapping %s could not be stored: %s", source.mapping, error
            )

    def _write(
        self, source: BatchSource, history: History, batch: Batch, disposal: str, detail: str
    ) -> None:
        records = batch.records
        smooth = disposal == SUCCESS and not history.parent and len(history.attempts) == 1
        self._database.execute(
            "INSERT OR REPLACE INTO lambda_trace VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                history.number,
                source.mapping,
                source.shard_id,
                source.lane,
                source.lanes,
                history.parent,
                history.part,
                records[0].sequence_number if records else "",
                records[-1].sequence_number if records else "",
                len(records),
                disposal,
                detail,
                msgspec.json.encode(history.attempts[-50:]).decode(),
                smooth,
            ),
        )
        with self._lock:
            self._written[source.mapping] += 1
            due = self._written[source.mapping] % _PRUNE_EVERY == 0
            self._all_written += 1
            all_due = self._all_written % _PRUNE_EVERY == 0
        if due:
            self._prune(source.mapping)
        if all_due:
            self._prune_all()

    def _prune(self, mapping: str) -> None:
        for smooth, kept in ((1, SMOOTH_KEPT), (0, TROUBLED_KEPT)):
            self._database.execute(
                "DELETE FROM lambda_trace WHERE mapping = ? AND smooth = ? AND number <= ("
                "SELECT number FROM lambda_trace WHERE mapping = ? AND smooth = ?"
                " ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (mapping, smooth, mapping, smooth, kept),
            )

    def _prune_all(self) -> None:
        self._database.execute(
            "DELETE FROM lambda_trace WHERE number <= ("
            "SELECT number FROM lambda_trace ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (ALL_KEPT,),
        )

    def forget(self, mapping: str) -> None:
        """Remove a mapping's trees."""
        with self._lock:
            self._written.pop(mapping, None)
        self._database.execute("DELETE FROM lambda_trace WHERE mapping = ?", (mapping,))

    def nodes(self, mapping: str) -> list[Node]:
        """Return the stored batches of a mapping, oldest first."""
        rows = self._database.query(
            "SELECT number, shard, lane, lanes, parent, part, first, last, records, disposal, detail,"
            " attempts FROM lambda_trace WHERE mapping = ? ORDER BY number",
            (mapping,),
        )
        return [_build_node(row) for row in rows]


def _build_node(row: tuple[Any, ...]) -> Node:
    attempts = tuple(Attempt(**attempt) for attempt in json.loads(row[-1]))
    return Node(*row[:-1], attempts=attempts)
