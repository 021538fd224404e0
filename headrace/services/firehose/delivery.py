"""The worker of a delivery stream: reads and processes records into buffers, and delivers each exactly once.

The buffers are in memory only, because their records can be read again from the source. A delivery has three steps,
each durable before the next begins: the *intent* (which buffer's records, up to which sequence numbers, go into which
objects), the objects, and the new positions. After a kill the records are read and processed again, and the intent is
carried out with the same object names, so that no record is lost and none is delivered twice. (AWS promises
at-least-once.)

With dynamic partitioning each partition has a buffer, and a backup with its own buffering hints has one too. Buffers
are delivered one by one, so the position where reading continues can be behind what some partitions have delivered.
`Progress.passed` holds the last delivered sequence number of such a partition, and its records up to there are skipped
when they are read again. So each partition is always delivered up to one record and not beyond it: to objects or, over
the limit of active partitions, to the error output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headrace.core.ports import StreamRecord
from headrace.core.workers import Supervisor, WorkerDone, WorkerHandle
from headrace.services.firehose.destinations.common import MIB, Hints
from headrace.services.firehose.execution import (
    PendingDelivery,
    execute,
    intend,
    list_objects,
    rename_keys,
)
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.permits import check_source
from headrace.services.firehose.processing import RecordProcessor
from headrace.services.firehose.reading import Intake, SourceReader, read_again
from headrace.services.firehose.records import Ports
from headrace.services.firehose.reports import Reports
from headrace.services.firehose.sorting import BACKUP, WHOLE, Buffer, Sorter
from headrace.services.firehose.sources import (
    READ_BYTES,
    Source,
    merge_marks,
    read_shards,
    still_beyond,
)
from headrace.services.firehose.state import (
    DeliveryStream,
    DeliveryStreams,
    Intent,
    Progress,
    StreamProgress,
    as_held,
)

# While a buffer fills, the worker polls its source at this interval; appends do not wake it, which keeps them cheap.
LOOK_EVERY_S = 0.25
# The memory for all buffers of a stream with dynamic partitioning; above it the largest is delivered early.
MOST_HELD_BYTES = 512 * MIB


class Delivery:
    """The `Worker` of one delivery stream. One thread at a time calls `step`; any thread may call the rest."""

    def __init__(
        self,
        stream: DeliveryStream,
        source: Source,
        streams: DeliveryStreams,
        ports: Ports,
        is_current: Callable[[], bool],
        reports: Reports | None = None,
    ) -> None:
        self.name = f"firehose {stream.name}"
        self.reports = reports or Reports(
            stream, ports.clock, ports.logs, ports.metrics, ports.guard
        )
        self.wants_waking = True
        self._stream = stream
        self._source = source
        self._streams = streams
        self._ports = ports
        self._is_current = is_current
        self._progress = StreamProgress(streams, stream.stream_id, is_current)
        self._pending: PendingDelivery | None = None
        self._reading = SourceReader(source, self._progress.saved.positions)
        # With partitions, records are processed as the stream was when the first of them was; see `_settle_change`.
        self._as_of = as_held(self._stream, self._progress.saved)
        self._processing = RecordProcessor(self._as_of, self._ports)
        self._sorter = self._build_sorter()

    def _build_sorter(self) -> Sorter:
        routes, has_function = (
            self._streams.routes(self._stream.stream_id),
            bool(self._processing.function),
        )
        return Sorter(self._as_of, self._progress, routes, has_function=has_function)

    @property
    def progress(self) -> Progress:
        """The stored progress of the deliveries."""
        return self._progress.saved

    def status(self) -> dict[str, Any]:
        """Return `figures`, and `is_drained`: whether all records of the source are delivered. Reads the source."""
        figures = self.figures()
        is_drained = not figures["buffered_records"] and not self._has_unread()
        return {**figures, "is_drained": is_drained}

    def figures(self) -> dict[str, Any]:
        """Return the progress of the deliveries as plain JSON; `behind_ms` is the age of the oldest waiting record."""
        progress, intent = self._progress.saved, self._progress.saved.intent
        buffered, oldest_ms = self._reading.waiting(list(self._sorter.buffers.values()))
        if intent is not None:
            oldest_ms = min(oldest_ms or intent.oldest_ms, intent.oldest_ms)
        waiting = buffered or intent is not None
        return {
            "delivered_records": progress.delivered_records,
            "delivered_objects": progress.delivered_objects,
            "delivered_bytes": progress.delivered_bytes,
            "failed_records": progress.failed_records,
            "buffered_records": buffered + (0 if intent is None else intent.records),
            "active_partitions": self._sorter.active,
            "behind_ms": max(0, self._ports.clock.now_ms() - oldest_ms) if waiting else 0,
            "last_error": self.reports.last_error,
        }

    def positions(self) -> dict[str, str]:
        """Return how far each shard is delivered, see `Progress.positions`."""
        return dict(self._progress.saved.positions)

    def _has_unread(self) -> bool:
        """Return whether the source has records after the stored positions."""
        reads = read_shards(self._source, self._progress.saved.positions, READ_BYTES)
        return any(read.records for read in reads)

    # --- the worker ---------------------------------------------------------------------------

    def step(self) -> float:
        """Finish an interrupted delivery, read new records, deliver the buffers that are due; see `Worker.step`."""
        if not self._is_current():
            raise WorkerDone
        try:
            return self._step()
        except WorkerDone:
            raise
        except Exception as error:
            # New records must not end the back-off early.
            self.wants_waking = False
            self.reports.failure(error)
            raise

    def _step(self) -> float:
        self.reports.send()
        check_source(self._ports.guard, self._stream)
        intent = self._progress.saved.intent
        if intent is not None:
            wait_s = self._finish(intent)
            if wait_s > 0:
                self.wants_waking = False
                return wait_s
        # Set before reading: a record that is appended after this is read, or wakes the worker.
        self.wants_waking = True
        more = self._fill()
        intake = self._reading.intake
        if intake.records and (
            self._count_batch_wait_s() <= 0 or self._is_changed or self._count_room_bytes() <= 0
        ):
            measured = self._process(intake)
            self._reading.intake = Intake()
            self.reports.measure(*measured)
        if not self._reading.intake.records and not self._sorter.buffers:
            if self._is_changed and self._settle_change():
                return 0.0
            if self._reading.read_to != self._progress.saved.positions:
                # Only ends of shards, or records that were all dropped: there is nothing to write.
                self._advance(self._progress.saved, dict(self._reading.read_to))
                return 0.0
            return 0.0 if more else math.inf
        due, wait_s = self._next()
        if due is not None:
            self._deliver(due)
            return 0.0
        if more:
            return 0.0
        self.wants_waking = False
        return min(wait_s, LOOK_EVERY_S)

    def _count_batch_wait_s(self) -> float:
        """Return how long the records that are read wait for more, to fill a batch of the function."""
        function, intake = self._processing.function, self._reading.intake
        if function is None or intake.size_bytes >= function.batch_bytes:
            return 0.0
        interval_s = min(self._read_hints().interval_s, function.interval_s)
        return intake.since_s + interval_s - self._ports.clock.monotonic_s()

    def _process(self, intake: Intake) -> list[Measure]:
        """Process records, and sort them into buffers. An exception leaves the buffers unchanged."""
        processed = self._processing.run(intake.records)
        self._sorter.add(processed, intake.records, intake.since_s)
        return processed.measured

    def _read_hints(self, partition: str = WHOLE) -> Hints:
        if partition == BACKUP and self._stream.backup is not None:
            return Hints.of(self._stream.backup)
        return Hints.of(self._stream.destination)

    @property
    def _is_changed(self) -> bool:
        """Return whether the destination has changed since the partitions were made."""
        return self._as_of.version != self._stream.version

    def _settle_change(self) -> bool:
        """Go over to the stream's changed destination, once nothing waits for that of before; return whether it did."""
        if self._progress.saved.passed:
            return False
        self._as_of = replace(self._stream)
        self._processing = RecordProcessor(self._as_of, self._ports)
        self._sorter = self._build_sorter()
        return True

    def _fill(self) -> bool:
        """Read new records; return whether there are more."""
        if self._is_changed and self._sorter.has_several:
            if not self._progress.saved.passed:
                return False
        elif self._is_changed and not self._sorter.buffers:
            self._settle_change()
        if self._sorter.must_empty:
            return False
        room_bytes = self._count_room_bytes()
        more = False
        for read in self._reading.fill(room_bytes, self._ports.clock.monotonic_s()):
            more |= read.more
            if read.records and self._stream.source_arn:
                self.reports.read(len(read.records), read.size_bytes, read.behind_ms)
        return more

    def _count_room_bytes(self) -> int:
        if self._sorter.is_partitioned:
            return max(0, min(READ_BYTES * 4, MOST_HELD_BYTES - self._sorter.held_bytes))
        sizes = {name: buffer.size_bytes for name, buffer in self._sorter.buffers.items()}
        names = (WHOLE, BACKUP) if self._sorter.has_own_backup else (WHOLE,)
        rooms = [self._read_hints(name).size_bytes - sizes.get(name, 0) for name in names]
        return max(0, min(rooms) - self._reading.intake.size_bytes)

    def _next(self) -> tuple[str | None, float]:
        """Return the partition whose buffer is due, if any, and the seconds until the next one may be."""
        now_s, wait_s = self._ports.clock.monotonic_s(), math.inf
        if self._reading.intake.records:
            wait_s = max(0.001, self._count_batch_wait_s())
        empty_all = self._sorter.must_empty or (self._is_changed and self._sorter.has_several)
        for partition, buffer in self._sorter.buffers.items():
            hints = self._read_hints(partition)
            left_s = buffer.since_s + hints.interval_s - now_s
            if empty_all or buffer.size_bytes >= hints.size_bytes or left_s <= 0:
                if not buffer.is_last or len(self._sorter.buffers) == 1:
                    return partition, 0.0
                # The other buffers first; the next call returns them as due.
                self._sorter.must_empty = True
                wait_s = 0.0
            wait_s = min(wait_s, left_s)
        if self._sorter.held_bytes >= MOST_HELD_BYTES:
            return self._sorter.largest(), 0.0
        return None, wait_s

    # --- delivering ---------------------------------------------------------------------------

    def _deliver(self, partition: str) -> None:
        buffer, held = self._sorter.buffers[partition], self._build_held_state()
        intent = self._intend(partition, buffer)
        # Only when the intent is stored does the buffer leave the others.
        self._progress.save(replace(self._progress.saved, intent=intent, held=held))
        self._sorter.pop(partition)
        self._pending = PendingDelivery(buffer, buffer.records, again=False)
        self._finish(intent)

    def _build_held_state(self) -> dict[str, Any] | None:
        if not self._sorter.has_several:
            return None
        return {"version": self._as_of.version, "destination": self._as_of.destination}

    def _intend(self, partition: str, buffer: Buffer) -> Intent:
        stream = self._as_of if self._sorter.has_several else self._stream
        others = [other for name, other in self._sorter.buffers.items() if name != partition]
        after, _ = self._reading.first_waiting(others)
        starts = {**self._progress.saved.positions, **self._reading.starts}
        return intend(stream, partition, buffer, starts, after, self._ports)

    def _finish(self, intent: Intent) -> float:
        """Carry out an intent; return the seconds until the next try, 0 when done."""
        if self._pending is None:
            buffer = self._read_again(intent)
            self._pending = PendingDelivery(buffer, buffer.records, again=True)
        pending = self._pending
        wait_s = pending.retry_at_s - self._ports.clock.monotonic_s()
        if wait_s > 0:
            return wait_s
        # Waiting records are encrypted: AWS cannot read them without the key either, and waits.
        if self._stream.encryption:
            self._ports.keys.check(self._stream)
        try:
            again = execute(
                self._stream,
                intent,
                pending,
                self._ports,
                self.reports,
                partitions=self._sorter.active + 1,
                exceeded=self._sorter.exceeded > 0,
            )
        except Exception:
            pending.again = True
            self._rename(intent)
            raise
        if again is not None:
            self._progress.save(replace(self._progress.saved, intent=again))
            # Documented: a retry goes to the current destination.
            self._rename(again)
            return max(0.001, pending.retry_at_s - self._ports.clock.monotonic_s())
        self._complete(intent, pending)
        return 0.0

    def _complete(self, intent: Intent, pending: PendingDelivery) -> None:
        buffer, done = pending.buffer, self._progress.saved
        if not pending.is_empty:
            self._sorter.exceeded = 0
            failed = len(buffer.failed) + len(pending.refused)
            done = replace(
                done,
                delivered_records=done.delivered_records + len(buffer.records) + len(buffer.failed),
                delivered_objects=done.delivered_objects + pending.objects,
                delivered_bytes=done.delivered_bytes + pending.size_bytes,
                failed_records=done.failed_records + failed,
            )
        marks = {**buffer.refused, intent.partition: intent.last}
        # Not `intent.after`: after a kill, less is read than there was when the delivery was decided on.
        after, oldest_ms = self._reading.first_waiting(self._sorter.buffers.values())
        self._advance(done, after, marks)
        self._pending = None
        up_to_ms = min(intent.newest_ms, oldest_ms - 1) if oldest_ms else intent.newest_ms
        for shard_id in intent.last:
            self._source.release_delivered(shard_id, up_to_ms)

    def _rename(self, intent: Intent) -> None:
        """After a failure, change the intent to the stream's current destination, if that has changed."""
        stream = self._stream
        if intent.version == stream.version:
            return
        keys = rename_keys(stream, intent, self._ports)
        moved = replace(
            intent,
            version=stream.version,
            destination=stream.destination,
            kind=stream.destination_kind,
            keys=keys,
            renamed=[*intent.renamed, *list_objects(self._stream, intent)],
        )
        self._progress.save(replace(self._progress.saved, intent=moved))

    # --- reading again ------------------------------------------------------------------------

    def _read_again(self, intent: Intent) -> Buffer:
        """Read and process the records of an intent again, and return its buffer.

        With partitions, the other records that this reads stay in their buffers.
        """
        batch: dict[str, list[StreamRecord]] = {}
        for shard_id in intent.last:
            batch[shard_id], gone = read_again(self._source, intent, shard_id)
            if gone:
                self.reports.report_gone(shard_id, gone)
        intake = Intake({shard: records for shard, records in batch.items() if records})
        intake.since_s = self._ports.clock.monotonic_s()
        # Its partition is active, regardless of the limit.
        self._sorter.open(intent.partition)
        self._process(intake)
        for shard_id, records in batch.items():
            self._reading.starts.setdefault(shard_id, intent.start[shard_id])
            if records and not intent.counts:
                self._reading.read_to[shard_id] = records[-1].sequence_number
        if intent.counts:
            # Without partitions no other record waits, and reading continues where it was when the intent was stored.
            self._reading.read_to.update(intent.after)
        return self._sorter.pop(intent.partition)

    # --- progress -----------------------------------------------------------------------------

    def _advance(
        self,
        progress: Progress,
        after: Mapping[str, str],
        marks: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Store the progress: reading continues at `after`, and the marks tell what was delivered."""
        positions = {**progress.positions, **after}
        passed = still_beyond(merge_marks(progress.passed, marks or {}), positions)
        for shard_id in after:
            if positions[shard_id] != progress.positions.get(shard_id):
                self._reading.starts[shard_id] = positions[shard_id]
        self._progress.save(
            replace(
                progress,
                positions=positions,
                intent=None,
                passed=passed,
                held=self._build_held_state() if passed else None,
            )
        )
        if self._sorter.routes is not None:
            self._sorter.routes.forget(positions)


def start_delivery(
    supervisor: Supervisor, delivery: Delivery, source: Source
) -> tuple[WorkerHandle, Callable[[], None]]:
    """Start a delivery's worker, which wakes when its source has records; return it and what ends the waking."""
    handle = supervisor.start(delivery)

    def wake() -> None:
        if delivery.wants_waking:
            handle.wake()

    unsubscribe = source.subscribe(wake)
    # A record that arrived before `subscribe` did not wake the worker.
    handle.wake()
    return handle, unsubscribe
