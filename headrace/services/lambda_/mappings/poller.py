"""Reads one shard for one mapping and hands its records to the shard's lanes."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, NoReturn

from headrace.core.ports import (
    AtSequence,
    ReadResult,
    ShardNotFound,
    StreamNotFound,
    StreamRecord,
)
from headrace.core.workers import Worker, WorkerDone, WorkerHandle
from headrace.services.lambda_.limits import SYNC_PAYLOAD_BYTES
from headrace.services.lambda_.mappings import counts
from headrace.services.lambda_.mappings.batch_runner import BatchRunner
from headrace.services.lambda_.mappings.counts import Counts
from headrace.services.lambda_.mappings.filters import Filter, passes
from headrace.services.lambda_.mappings.mapping import (
    Mapping,
    PresentSettings,
    Settings,
    first_unread,
)
from headrace.services.lambda_.mappings.ports import Ports
from headrace.services.lambda_.mappings.progress import Progress, lane_of
from headrace.services.lambda_.mappings.trace import BatchSource
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
        self._criteria: Any = None
        self._parsed_filters: tuple[Filter, ...] = ()
        self._stopped = False
        self._later_s = math.inf
        self._settings_of = PresentSettings(mapping)
        self._use_lanes(self._settings_of.now().lanes)

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
        settings = self._settings_of.now()
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
            self._spread(self._filter_records(result.records, counts_events=settings.counts_events))
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
        self, records: list[StreamRecord], *, counts_events: bool
    ) -> list[StreamRecord]:
        """Return the records that pass the filters, except those that a lane had finished before a restart."""
        filters, read = self._list_filters(), len(records)
        if filters:
            of_table = self._mapping.reads_table
            records = [record for record in records if passes(record, filters, of_table=of_table)]
        if counts_events:
            self._counts.count(counts.POLLED, read)
            self._counts.count(counts.FILTERED_OUT, read - len(records))
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

    def _list_filters(self) -> tuple[Filter, ...]:
        criteria = self._mapping.members.get("FilterCriteria")
        if criteria is not self._criteria:
            self._criteria, self._parsed_filters = criteria, self._mapping.filters()
        return self._parsed_filters

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
