"""Reads one shard for one mapping and hands its records to the shard's lanes.

Reports what happened to a mapping's records, as JSON: the batch trees, or the batches that had one record.

A row of a tree has a range of sequence numbers, which batches of several lanes may share. The partition key of a
record, which is read again from the shard, shows which of them had the record. If no batch had a record that the
checkpoint has passed, the record was filtered, or its tree is no longer stored.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

from headrace.core.ports import (
    AtSequence,
    ReadResult,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    StreamRecord,
)
from headrace.core.workers import Worker, WorkerDone, WorkerHandle
from headrace.services.lambda_.errors import SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.mappings import failed_batches
from headrace.services.lambda_.mappings.batch_runner import BatchRunner
from headrace.services.lambda_.mappings.checks import parse_filters, passes
from headrace.services.lambda_.mappings.failed_batches import Counts
from headrace.services.lambda_.mappings.mapping import (
    Mapping,
    Settings,
    first_unread,
)
from headrace.services.lambda_.mappings.store import (
    BatchSource,
    MappingStore,
    Node,
    Ports,
    Progress,
    Trace,
    lane_of,
)
from headrace.store.losses import LogDamaged

log = logging.getLogger(__name__)

_MISSING_STREAM_RETRY_S = 1.0


class ShardPoller:
    """A worker for one shard of one mapping. Any thread may call `stop` and `join`, only one thread the rest.

    If there is one lane, the poller calls its steps, so that a record waits for no other thread. If there are several,
    each lane is a worker that `spawn` starts, and the poller reads ahead for all of them.
    """

    def __init__(
        self,
        mapping: Mapping,
        shard_id: str,
        ports: Ports,
        *,
        on_drained: Callable[[], None],
        spawn: Callable[[Worker], WorkerHandle],
    ) -> None:
        self.name = f"lambda-mapping-{mapping.uuid[:8]}-{shard_id}"
        self.wake: Callable[[], None] = _do_nothing
        self._mapping = mapping
        self._shard_id = shard_id
        self._ports = ports
        self._on_drained = on_drained
        self._spawn = spawn
        self._counts = Counts(mapping, ports.metrics, ports.clock)
        self._progress = Progress(ports.store, mapping.uuid, shard_id)
        self._lanes: list[BatchRunner] = []
        self._handles: list[WorkerHandle] = []
        self._stopped = False
        self._later_s = math.inf
        self._use_lanes(mapping.settings.lanes)

    def stop(self) -> None:
        """Start no more invocations, and treat failures from now on as caused by the stop."""
        self._stopped = True
        for lane in self._lanes:
            lane.stop()
        for handle in list(self._handles):
            handle.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the lanes' running batches to end."""
        for handle in list(self._handles):
            handle.join(timeout_s)

    def step(self) -> float:
        """Read records and, if there is one lane, invoke the function once; see `Worker.step`."""
        if self._stopped:
            raise WorkerDone
        settings = self._mapping.settings
        may_read = len(self._lanes) == settings.lanes or self._change_lanes(settings.lanes)
        if len(self._lanes) == 1:
            lane = self._lanes[0]
            if lane.batches:
                return lane.work(settings)
            more = may_read and self._gather(settings)
            wait_s = lane.work(settings)
            if not (lane.batches or lane.buffer):  # otherwise there is nothing to save
                self._rest()
            return 0.0 if more else min(wait_s, self._later_s)
        more = may_read and self._gather(settings)
        for handle in self._handles:
            handle.wake()
        self._rest()
        return 0.0 if more else self._later_s

    # --- lanes --------------------------------------------------------------------------------

    def _use_lanes(self, count: int) -> None:
        """Use `count` lanes from now on. The present lanes must be empty."""
        for lane in self._lanes:
            lane.stop()
        for handle in self._handles:
            handle.stop()
        self._lanes = [
            BatchRunner(
                self._mapping,
                BatchSource(self._mapping.uuid, self._shard_id, lane, count),
                self._ports,
                self._progress,
                lambda: self.wake(),
            )
            for lane in range(count)
        ]
        self._progress.use(list(self._lanes))
        self._handles = [self._spawn(lane) for lane in self._lanes] if count > 1 else []

    def _change_lanes(self, count: int) -> bool:
        """Use `count` lanes if all present lanes are empty. Return whether they were, so that records may be read."""
        with self._progress.lock:
            if not all(lane.is_empty for lane in self._lanes):
                return False
            if len(self._lanes) == 1:
                self._progress.window = self._lanes[0].window
            self._use_lanes(count)
        return True

    # --- reading ------------------------------------------------------------------------------

    def _count_room(self, batch_size: int) -> int:
        """Return how many records to read, so that every lane has one batch."""
        with self._progress.lock:
            if sum(lane.buffered_bytes for lane in self._lanes) >= SYNC_PAYLOAD_BYTES * len(
                self._lanes
            ):
                return 0
            most_records = batch_size * len(self._lanes)
            return most_records - sum(len(lane.buffer) for lane in self._lanes)

    def _gather(self, settings: Settings) -> bool:
        """Read once. Return whether there may be more records to read now."""
        self._later_s = math.inf
        position, room = self._progress.read_position, self._count_room(settings.batch_size)
        if position is None or room <= 0:
            return False
        problem = self._ports.permits.problem_with_reading(
            self._ports.role_of(self._mapping.function_arn), self._mapping.stream_arn
        )
        if problem:
            self._mapping.last_result = problem
            self._later_s = _MISSING_STREAM_RETRY_S
            return False
        try:
            result = self._ports.streams.read(
                settings.read_arn,
                self._shard_id,
                position,
                max_records=room,
                max_bytes=SYNC_PAYLOAD_BYTES,
            )
        except StreamNotFound:
            self._mapping.last_result = "PROBLEM: Stream not found"
            self._later_s = _MISSING_STREAM_RETRY_S
            return False
        except LogDamaged:
            self._mapping.last_result = "PROBLEM: Records of the stream are damaged or lost"
            raise
        except ShardNotFound:
            # Retention has removed the shard with its last records.
            result = ReadResult([], None, 0)
        if result.expired:
            self._note_expired(result)
        with self._progress.lock:
            self._spread(self._filter_records(result.records, settings))
            self._progress.read(result.records, result.next_position)
            if result.next_position is None:
                for lane in self._lanes:
                    lane.end()
        # A read also ends when its bytes are enough.
        is_behind = bool(result.records) and result.millis_behind_latest > 0
        return is_behind or len(result.records) == room

    def _note_expired(self, result: ReadResult) -> None:
        # The lost records end before the first one that is left, or before where the next read begins.
        left = (
            AtSequence(result.records[0].sequence_number)
            if result.records
            else result.next_position
        )
        last_number = first_unread(left) - 1
        self._mapping.note_expired(self._shard_id, result.expired, last_number)
        log.warning(
            "mapping %s: %d records of %s expired before they were read",
            self._mapping.uuid,
            result.expired,
            self._shard_id,
        )

    def _filter_records(
        self, records: list[StreamRecord], settings: Settings
    ) -> list[StreamRecord]:
        """Return the records that pass the filters, except those that a lane had finished before a restart."""
        filters, read = parse_filters(settings.patterns), len(records)
        if filters:
            of_table = self._mapping.reads_table
            records = [record for record in records if passes(record, filters, of_table=of_table)]
        if settings.counts_events:
            self._counts.count(failed_batches.POLLED, read)
            self._counts.count(failed_batches.FILTERED_OUT, read - len(records))
        if self._progress.marks:
            records = [record for record in records if not self._progress.is_done(record)]
        return records

    def _spread(self, records: list[StreamRecord]) -> None:
        count = len(self._lanes)
        if count == 1:
            self._lanes[0].add(records)
            return
        shares: list[list[StreamRecord]] = [[] for _ in self._lanes]
        for record in records:
            shares[lane_of(record.partition_key, count)].append(record)
        for lane, share in zip(self._lanes, shares, strict=True):
            lane.add(share)

    def _rest(self) -> None:
        """If no lane has records, move the checkpoint past filtered records. End if the shard is drained."""
        self._progress.save(force=False)
        if self._progress.read_position is not None:
            return
        with self._progress.lock:
            drained = all(lane.is_empty for lane in self._lanes)
        if drained:
            self._finish()

    def _finish(self) -> NoReturn:
        self._progress.finish()
        for handle in self._handles:
            handle.stop()
        self._on_drained()
        raise WorkerDone


def _do_nothing() -> None:
    """Do nothing: the poller has no worker handle yet."""


_TREES_SHOWN = 20
# Records that a report reads again from their stream, to show what failed.
_RECORDS_SHOWN = 20
_DATA_CHARACTERS = 200


def build_mapping_report(
    mapping: Mapping,
    *,
    trace: Trace,
    store: MappingStore,
    streams: StreamReader,
    sequence: str | None = None,
) -> dict[str, Any]:
    """Return the newest trees of a mapping, or the trees that had the record with the number `sequence`."""
    nodes = trace.nodes(mapping.uuid)
    report: dict[str, Any] = {
        "mapping": mapping.uuid,
        "function": mapping.function_arn,
        "source": mapping.stream_arn,
        "lastProcessingResult": mapping.last_result,
        "checkpoints": {
            shard_id: _render_position(kept.position)
            for shard_id, kept in store.checkpoints(mapping.uuid).items()
        },
    }
    if sequence is None:
        roots = [node for node in nodes if not node.parent]
        trees = [_build_tree(root, nodes) for root in roots[-_TREES_SHOWN:]]
        report["trees"] = trees
        _show_records(mapping, trees, streams)
        return report
    sequence = _whole_number(sequence, nodes)
    shard_id, record = _find(mapping, sequence, streams)
    with_it = [node for node in nodes if _has(node, sequence, record, shard_id)]
    known = {node.number for node in with_it}
    roots = [node for node in with_it if node.parent not in known]
    report["sequence"] = sequence
    report["shardId"] = shard_id
    report["outcome"] = _describe_outcome(mapping, record, with_it)
    report["trees"] = [_build_tree(root, nodes, known) for root in roots]
    if record is not None:
        report["record"] = _render_record(record)
    return report


def _whole_number(sequence: str, nodes: list[Node]) -> str:
    """Return the sequence number of which `sequence` is the end, as trees are shown; itself when that is not one."""
    numbers = {number for node in nodes for number in (node.first, node.last)}
    ends = [number for number in numbers if number.endswith(sequence)] if sequence else []
    return ends[0] if len(ends) == 1 else sequence


def _show_records(mapping: Mapping, trees: list[dict[str, Any]], streams: StreamReader) -> None:
    """Add the records that failed alone to their nodes, the newest trees' first, up to a limit."""
    left = _RECORDS_SHOWN
    waiting = list(trees)
    while waiting and left:
        node = waiting.pop()
        waiting += node["parts"]
        if node["records"] != 1 or node["disposal"] == "success" or not node["first"]:
            continue
        left -= 1
        try:
            record = _read(mapping, node["shard_id"], node["first"], streams)
        except StreamNotFound:
            return
        if record is not None:
            node["record"] = _render_record(record)


def _render_record(record: StreamRecord) -> dict[str, Any]:
    text = record.data.decode("utf-8", "backslashreplace")
    shown = text if len(text) <= _DATA_CHARACTERS else f"{text[: _DATA_CHARACTERS - 1]}…"
    return {"partitionKey": record.partition_key, "data": shown}


def _render_position(position: Any) -> str:
    if position is None:
        return "read to its end"
    return f"{type(position).__name__} {getattr(position, 'sequence_number', '')}".strip()


def _find(
    mapping: Mapping, sequence: str, streams: StreamReader
) -> tuple[str | None, StreamRecord | None]:
    """Return the shard that has a record, and the record, or None for both when the stream does not have it."""
    if not sequence.isdecimal():
        return None, None
    try:
        for shard in streams.shards(mapping.read_arn):
            record = _read(mapping, shard.shard_id, sequence, streams)
            if record is not None:
                return shard.shard_id, record
    except StreamNotFound:
        return None, None
    return None, None


def _read(
    mapping: Mapping, shard_id: str, sequence: str, streams: StreamReader
) -> StreamRecord | None:
    try:
        batch = streams.read(
            mapping.read_arn, shard_id, AtSequence(sequence), max_records=1, max_bytes=1
        )
    except (ShardNotFound, ValueError):
        return None
    first = batch.records[0] if batch.records else None
    return first if first is not None and first.sequence_number == sequence else None


def _has(node: Node, sequence: str, record: StreamRecord | None, shard_id: str | None) -> bool:
    if not node.first or not sequence.isdecimal():
        return False
    if shard_id is not None and node.shard_id != shard_id:
        return False
    if not int(node.first) <= int(sequence) <= int(node.last):
        return False
    return record is None or lane_of(record.partition_key, node.lanes) == node.lane


def _describe_outcome(mapping: Mapping, record: StreamRecord | None, nodes: list[Node]) -> str:
    """Return in a few words what happened to a record."""
    if record is not None and not passes(
        record, parse_filters(mapping.settings.patterns), of_table=mapping.reads_table
    ):
        return "filtered"
    leaves = [n for n in nodes if all(other.parent != n.number for other in nodes)]
    if not leaves:
        return (
            "not in the stream" if record is None else "no batch that is still kept had this record"
        )
    newest = leaves[-1]
    if newest.disposal == "partly done":
        return "success"
    return f"{newest.disposal}: {newest.detail}" if newest.detail else newest.disposal


def _build_tree(node: Node, nodes: list[Node], only: set[int] | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = asdict(node)
    del shown["parent"]
    shown["parts"] = [
        _build_tree(part, nodes, only)
        for part in nodes
        if part.parent == node.number and (only is None or part.number in only)
    ]
    return shown
