"""What mappings store: themselves, their checkpoints, and the batch trees; and the ports that pollers use.

A batch tree is every batch that was cut from a shard, its invocations, its parts and its end. Each batch has one row,
with a range of records. The row of a batch that succeeds at once is written once; otherwise it is written again after
each attempt. Rows survive restarts. Their number is limited: each mapping keeps its newest batches that succeeded at
once and, separately, its newest other batches; there is also a limit for all mappings.

The checkpoint of a mapping in a shard is the oldest record that some lane has not finished, so no record is ever
skipped. Lanes may be ahead of it. The progress of each lane is stored with it, so that a restart does not repeat their
work.
"""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Protocol

import msgspec

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    FunctionInvoker,
    MetricSink,
    QueueReceiver,
    StreamReader,
    StreamRecord,
    TrimHorizon,
)
from headrace.services.lambda_.async_events import Destinations
from headrace.services.lambda_.mappings.batch import Attempt, Batch, History, Window
from headrace.services.lambda_.mappings.mapping import (
    NOTHING_YET,
    Checkpoint,
    LaneProgress,
    Mapping,
    Pinned,
)
from headrace.services.lambda_.permits import EVERYTHING, Permits
from headrace.store.database import Database, Documents

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

    def write(
        self, source: BatchSource, history: History, batch: Batch, disposal: str, detail: str = ""
    ) -> None:
        """Store the present state of a batch; a new node gets its number. On a full disk only the row is lost."""
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
        if not history.number:
            with self._lock:
                self._newest += 1
                history.number = self._newest
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


def lane_of(partition_key: str, lanes: int) -> int:
    """Return the lane of a partition key. It is always the same for the same number of lanes."""
    return zlib.crc32(partition_key.encode()) % lanes if lanes > 1 else 0


class LaneState(Protocol):
    """The state of a lane that `Progress` uses.

    Attributes:
        done: the sequence number of the last record that the lane has finished; "" for none.
        window: the lane's open tumbling window.
        batches: the unfinished batches, in order.
        buffer: the records that were read but are not in a batch yet, in order.
    """

    done: str
    window: Window | None
    batches: deque[Batch]
    buffer: deque[StreamRecord]


class Progress:
    """The progress in one shard. `lock` guards it and the buffers and batches of the lanes.

    Attributes:
        read_position: the position from which the shard is read next; None at its end.
        window: the open tumbling window, until a lane takes it over.
        marks: the progress of earlier lanes, while it is beyond the checkpoint.
    """

    def __init__(self, store: MappingStore, uuid: str, shard_id: str) -> None:
        self.lock = threading.RLock()
        self._store = store
        self._uuid = uuid
        self._shard_id = shard_id
        kept = store.load_checkpoint(uuid, shard_id)
        self.read_position: Pinned | None = kept.position
        self.window = kept.window
        self.marks = list(kept.marks)
        self._lanes: list[LaneState] = []
        self._last_read: AfterSequence | None = None
        self._saved: Pinned | None = kept.position

    def use(self, lanes: list[LaneState]) -> None:
        """Use these lanes from now on. The present lanes must be empty."""
        with self.lock:
            self.marks.extend(self._list_current_marks())
            for lane, state in enumerate(lanes):
                state.done = self._mark(len(lanes), lane)
            lanes[0].window, self.window = self.window, None
            self._lanes = lanes

    def _mark(self, lanes: int, lane: int) -> str:
        marks = [m.done.get(lane, "") for m in self.marks if m.lanes == lanes]
        return max(marks, key=_order, default="")

    def is_done(self, record: StreamRecord) -> bool:
        """Whether a lane has finished a record that the checkpoint has not passed."""
        number = int(record.sequence_number)
        return any(
            number <= _order(one.done.get(lane_of(record.partition_key, one.lanes), ""))
            for one in self.marks
        )

    def read(self, records: list[StreamRecord], position: Pinned | None) -> None:
        """Record the next read position. The records that pass the filters are already in the lanes."""
        self.read_position = position
        if records:
            self._last_read = AfterSequence(records[-1].sequence_number)

    def _find_oldest(self) -> str | None:
        """Return the sequence number of the oldest record that is still in a lane, or None."""
        pending = [
            (lane.batches[0].records if lane.batches else lane.buffer)[0].sequence_number
            for lane in self._lanes
            if lane.batches or lane.buffer
        ]
        return min(pending, key=int, default=None)

    def _list_current_marks(self) -> list[LaneProgress]:
        done = {lane: state.done for lane, state in enumerate(self._lanes) if state.done}
        return [LaneProgress(len(self._lanes), done)] if done and len(self._lanes) > 1 else []

    def save(self, *, force: bool = True) -> None:
        """Store the checkpoint. Without `force`, store it only if no records are in lanes and it has moved."""
        with self.lock:
            oldest = self._find_oldest()
            position = AtSequence(oldest) if oldest else self._last_read or self.read_position
            if position is None or (not force and (oldest is not None or position == self._saved)):
                return
            limit = -1 if isinstance(position, TrimHorizon) else int(position.sequence_number)
            self.marks = [m for m in self.marks if _is_ahead(m, limit)]
            ahead = [m for m in self._list_current_marks() if _is_ahead(m, limit)]
            self._store.checkpoint(
                self._uuid,
                self._shard_id,
                position,
                marks=(*(m for m in self.marks if m.lanes != len(self._lanes)), *ahead),
                window=self._lanes[0].window if self._lanes else self.window,
            )
            self._saved = position

    def finish(self) -> None:
        """Store that the shard has been read to its end."""
        self._store.checkpoint(self._uuid, self._shard_id, None)


def _order(number: str) -> int:
    return int(number) if number else -1


def _is_ahead(marks: LaneProgress, limit: int) -> bool:
    return any(_order(number) > limit for number in marks.done.values())


# What else a mapping has is made from these, or begins anew after a restart.
_STORED = [
    one.name for one in fields(Mapping) if one.name not in ("noted_losses", "handed", "settings")
]


class MappingStore:
    """Stores mappings and their checkpoints in the state database. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mappings: Documents = database.documents("lambda_mappings")
        self._checkpoints: Documents = database.documents("lambda_checkpoints")

    def load(self) -> list[Mapping]:
        """Return every mapping."""
        return [Mapping(**value) for _, value in self._mappings.items()]

    def put(self, mapping: Mapping, pinned: dict[str, Pinned] | None = None) -> None:
        """Store a mapping, and for a new mapping the starting positions of its shards."""
        value = {name: getattr(mapping, name) for name in _STORED}
        value |= {"last_result": NOTHING_YET, "last_failure": ""}
        with self._database.transaction():
            self._mappings.put(mapping.uuid, value)
            for shard_id, position in (pinned or {}).items():
                self.checkpoint(mapping.uuid, shard_id, position)

    def delete(self, uuid: str) -> None:
        """Remove a mapping and its checkpoints."""
        with self._database.transaction():
            self._mappings.delete(uuid)
            for key, _ in self._checkpoints.items(f"{uuid}/"):
                self._checkpoints.delete(key)

    def checkpoint(
        self,
        uuid: str,
        shard_id: str,
        position: Pinned | None,
        *,
        marks: tuple[LaneProgress, ...] = (),
        window: Window | None = None,
    ) -> None:
        """Store a shard's checkpoint; see `Checkpoint`."""
        value: dict[str, Any]
        match position:
            case None:
                value = {"kind": "done"}
            case TrimHorizon():
                value = {"kind": "trim"}
            case AtSequence(number):
                value = {"kind": "at", "sequence": number}
            case AfterSequence(number):
                value = {"kind": "after", "sequence": number}
        if marks:
            value["marks"] = [[one.lanes, one.done] for one in marks]
        if window is not None:
            value["window"] = window.to_json()
        self._checkpoints.put(f"{uuid}/{shard_id}", value)

    def forget_shards(self, uuid: str, shard_ids: Iterable[str]) -> None:
        """Remove the checkpoints of shards that the stream no longer has."""
        with self._database.transaction():
            for shard_id in shard_ids:
                self._checkpoints.delete(f"{uuid}/{shard_id}")

    def checkpoints(self, uuid: str) -> dict[str, Checkpoint]:
        """Return a mapping's checkpoints, by shard id."""
        prefix = f"{uuid}/"
        return {
            key.removeprefix(prefix): _parse_checkpoint(value)
            for key, value in self._checkpoints.items(prefix)
        }

    def load_checkpoint(self, uuid: str, shard_id: str) -> Checkpoint:
        """Return a shard's checkpoint.

        A shard without a checkpoint was opened after the mapping was made; it is read from its start.
        """
        return _parse_checkpoint(self._checkpoints.get(f"{uuid}/{shard_id}") or {"kind": "trim"})


def _parse_checkpoint(value: dict[str, Any]) -> Checkpoint:
    position: Pinned | None
    match value["kind"]:
        case "done":
            position = None
        case "at":
            position = AtSequence(value["sequence"])
        case "after":
            position = AfterSequence(value["sequence"])
        case _:
            position = TrimHorizon()
    marks = tuple(
        LaneProgress(lanes, {int(lane): number for lane, number in done.items()})
        for lanes, done in value.get("marks", ())
    )
    window = value.get("window")
    return Checkpoint(position, marks, None if window is None else Window.from_json(window))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports that every poller uses. `role_of` returns the role's ARN for a function's ARN."""

    clock: Clock
    ids: Ids
    streams: StreamReader
    queues: QueueReceiver
    invoker: FunctionInvoker
    destinations: Destinations
    metrics: MetricSink
    store: MappingStore
    trace: Trace
    role_of: Callable[[str], str]
    permits: Permits = EVERYTHING
