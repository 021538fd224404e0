"""The worker of a delivery stream: it reads records into a buffer and delivers each exactly once.

The buffer is in memory only, since its records can always be read again from the source. A delivery has three steps,
each durable before the next begins: the *intent* (which records, by shard and sequence number, go into which
objects), the objects, and the new positions. After a kill the intent is carried out again under the same names, so
that no record is lost and none is delivered twice. (AWS promises at-least-once.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.core.ports import StreamRecord
from headrace.core.workers import WorkerDone
from headrace.services.firehose import output
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.prefix import name_objects
from headrace.services.firehose.reports import Reports
from headrace.services.firehose.sources import (
    READ_BYTES,
    READ_RECORDS,
    ShardRead,
    Source,
    is_past,
    position_text,
    read_shards,
)
from headrace.services.firehose.state import DeliveryStream, Intent, Progress
from headrace.services.firehose.store import DeliveryStreams

MIB = 1024 * 1024
# While a buffer fills, the worker looks at its source this often and appends do not wake it: an append stays cheap.
LOOK_EVERY_S = 0.25


@dataclass(slots=True)
class Buffer:
    """Records that are read and not yet delivered, by shard; where reading began, and where it goes on."""

    records: dict[str, list[StreamRecord]] = field(default_factory=dict[str, list[StreamRecord]])
    start: dict[str, str] = field(default_factory=dict[str, str])
    after: dict[str, str] = field(default_factory=dict[str, str])
    count: int = 0
    size_bytes: int = 0
    since_s: float = 0.0
    oldest_ms: int = 0
    newest_ms: int = 0

    def add(self, read: ShardRead, now_s: float) -> None:
        """Take what was read of a shard."""
        self.after[read.shard_id] = read.after
        if not read.records:
            return
        arrivals = [record.approximate_arrival_ms for record in read.records]
        oldest_ms, newest_ms = min(arrivals), max(arrivals)
        if not self.count:
            self.since_s, self.oldest_ms = now_s, oldest_ms
        self.oldest_ms = min(self.oldest_ms, oldest_ms)
        self.newest_ms = max(self.newest_ms, newest_ms)
        self.start.setdefault(read.shard_id, read.start)
        self.records.setdefault(read.shard_id, []).extend(read.records)
        self.size_bytes += read.size_bytes
        self.count += len(read.records)


class Delivery:
    """The `Worker` of one delivery stream. One thread at a time calls `step`; any thread may call the rest."""

    def __init__(
        self,
        stream: DeliveryStream,
        source: Source,
        streams: DeliveryStreams,
        ports: Ports,
        is_current: Callable[[], bool],
    ) -> None:
        self.name = f"firehose {stream.name}"
        self.reports = Reports(stream, ports.clock, ports.logs, ports.metrics)
        self.wants_waking = True
        self._stream = stream
        self._source = source
        self._streams = streams
        self._ports = ports
        self._is_current = is_current
        self._progress = streams.progress(stream.stream_id)
        self._buffer = Buffer()

    @property
    def progress(self) -> Progress:
        """How far the deliveries have come."""
        return self._progress

    def status(self) -> dict[str, Any]:
        """Return how far the deliveries have come, as plain JSON.

        `behind_ms` is the age of the oldest record that waits. `is_drained` says whether everything that the source
        has is delivered.
        """
        progress, buffer = self._progress, self._buffer
        intent = progress.intent
        oldest_ms = intent.oldest_ms if intent is not None else buffer.oldest_ms
        waiting = buffer.count or intent is not None
        return {
            "delivered_records": progress.delivered_records,
            "delivered_objects": progress.delivered_objects,
            "delivered_bytes": progress.delivered_bytes,
            "failed_records": progress.failed_records,
            "buffered_records": buffer.count + (0 if intent is None else intent.records),
            "behind_ms": max(0, self._ports.clock.now_ms() - oldest_ms) if waiting else 0,
            "last_error": self.reports.last_error,
            "is_drained": not waiting and not self._has_unread(),
        }

    def _has_unread(self) -> bool:
        """Whether the source has records that no delivery has been told of."""
        found = read_shards(self._source, self._progress.positions, READ_BYTES)
        return any(read.records for read in found)

    # --- the worker ---------------------------------------------------------------------------

    def step(self) -> float:
        """Finish a delivery that was cut short, read what is new, deliver what is due; see `Worker.step`."""
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
        intent = self._progress.intent
        if intent is not None:
            self._carry_out(intent, self._read_again(intent), again=True)
        # Set before reading: a record that is appended from here on is read, or wakes the worker.
        self.wants_waking = True
        more = self._fill()
        wait_s = self._wait_s()
        if self._buffer.count and wait_s <= 0:
            self._deliver()
            return 0.0
        if not self._buffer.count and self._buffer.after:
            # Only ends of shards: there is nothing to write.
            self._advance(replace(self._progress), self._buffer.after)
            self._buffer = Buffer()
            return 0.0
        if more:
            return 0.0
        if self._buffer.count:
            self.wants_waking = False
            return min(wait_s, LOOK_EVERY_S)
        return math.inf

    def _hints(self) -> tuple[int, float]:
        hints = self._stream.destination["BufferingHints"]
        return int(hints["SizeInMBs"]) * MIB, float(hints["IntervalInSeconds"])

    def _wait_s(self) -> float:
        """Return the seconds until the buffer is due; infinite for an empty one."""
        if not self._buffer.count:
            return math.inf
        size_bytes, interval_s = self._hints()
        if self._buffer.size_bytes >= size_bytes:
            return 0.0
        return max(0.0, self._buffer.since_s + interval_s - self._ports.clock.monotonic_s())

    def _fill(self) -> bool:
        """Read what is new into the buffer; return whether there is more."""
        buffer = self._buffer
        size_bytes, _ = self._hints()
        more = False
        positions = {**self._progress.positions, **buffer.after}
        for read in read_shards(self._source, positions, size_bytes - buffer.size_bytes):
            buffer.add(read, self._ports.clock.monotonic_s())
            more |= read.more
            if read.records and self._stream.source_arn:
                self.reports.read(read.records)
        return more

    # --- delivering ---------------------------------------------------------------------------

    def _deliver(self) -> None:
        # When storing the intent fails, the records are read again.
        buffer, self._buffer = self._buffer, Buffer()
        intent = self._intend(buffer)
        self._save(replace(self._progress, intent=intent))
        self._carry_out(intent, buffer.records, again=False)

    def _intend(self, buffer: Buffer) -> Intent:
        stream, now_ms = self._stream, self._ports.clock.now_ms()
        return Intent(
            version=stream.version,
            destination=stream.destination,
            keys=name_objects(stream, buffer.oldest_ms, self._ports.ids, now_ms),
            oldest_ms=buffer.oldest_ms,
            newest_ms=buffer.newest_ms,
            decided_ms=now_ms,
            counts={shard_id: len(records) for shard_id, records in buffer.records.items()},
            start=buffer.start,
            last={
                shard_id: records[-1].sequence_number
                for shard_id, records in buffer.records.items()
            },
            after=buffer.after,
        )

    def _read_again(self, intent: Intent) -> dict[str, list[StreamRecord]]:
        """Return the records of an intent from the source."""
        return {shard_id: self._read_shard_again(intent, shard_id) for shard_id in intent.counts}

    def _read_shard_again(self, intent: Intent, shard_id: str) -> list[StreamRecord]:
        wanted, position = intent.counts[shard_id], intent.start[shard_id]
        records: list[StreamRecord] = []
        while len(records) < wanted:
            left = wanted - len(records)
            got = self._source.read(shard_id, position, min(left, READ_RECORDS), READ_BYTES)
            # When retention has removed some, the read goes on into records of later deliveries.
            kept = [r for r in got.records if not is_past(r.sequence_number, intent.last[shard_id])]
            records += kept
            if not kept or got.next_position is None:
                break
            position = position_text(got.next_position)
        if len(records) < wanted:
            self.reports.gone(shard_id, wanted - len(records))
        return records

    def _carry_out(
        self, intent: Intent, batch: dict[str, list[StreamRecord]], *, again: bool
    ) -> None:
        records = sum(map(len, batch.values()))
        done = self._progress
        if records:
            try:
                written = output.write(self._stream, intent, batch, self._ports, again=again)
            except Exception:
                self._rename(intent)
                raise
            if written.failed:
                self.reports.refused(written.failed)
            self.reports.delivered(
                records=records, size_bytes=written.size_bytes, oldest_ms=intent.oldest_ms
            )
            done = replace(
                done,
                delivered_records=done.delivered_records + records,
                delivered_objects=done.delivered_objects + written.objects,
                delivered_bytes=done.delivered_bytes + written.size_bytes,
                failed_records=done.failed_records + len(written.failed),
            )
        self._advance(done, intent.after)
        for shard_id in intent.counts:
            self._source.delivered(shard_id, intent.newest_ms)

    def _rename(self, intent: Intent) -> None:
        """After a failure, move the intent to the stream's destination of now, if that has changed."""
        stream = self._stream
        if intent.version == stream.version:
            return
        keys = name_objects(stream, intent.oldest_ms, self._ports.ids, self._ports.clock.now_ms())
        moved = replace(intent, version=stream.version, destination=stream.destination, keys=keys)
        self._save(replace(self._progress, intent=moved))

    def _advance(self, progress: Progress, after: dict[str, str]) -> None:
        self._save(replace(progress, positions={**progress.positions, **after}, intent=None))

    def _save(self, progress: Progress) -> None:
        if not self._is_current():
            raise WorkerDone
        self._streams.save_progress(self._stream.stream_id, progress)
        # Set last: memory is never ahead of the disk.
        self._progress = progress
