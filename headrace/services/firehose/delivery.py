"""Delivering: one worker a delivery stream, from buffer to object, each record exactly once.

The buffer is memory only: it can always be read again from the source. A delivery is decided in three steps,
each durable before the next: the *intent* (which records, by shard and sequence number, under which object
names), the objects, and the new positions. After a kill the intent is carried out again, under the same names, so
nothing is lost and nothing is there twice. (AWS promises at-least-once.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.core.ports import StreamRecord
from headrace.core.workers import WorkerDone
from headrace.services.firehose import output
from headrace.services.firehose.output import Ports
from headrace.services.firehose.sources import END, Source, is_past, position_text
from headrace.services.firehose.state import DeliveryStream, DeliveryStreams, Intent, Progress
from headrace.services.firehose.telling import Telling

READ_RECORDS = 10_000
READ_BYTES = 4 * 1024 * 1024
MIB = 1024 * 1024
# While a buffer fills, its source is looked at this often and appends wake nobody: an append stays cheap.
LOOK_EVERY_S = 0.25


@dataclass(slots=True)
class Buffer:
    """Records read and not yet delivered, by shard, and where each shard would go on."""

    records: dict[str, list[StreamRecord]] = field(default_factory=dict[str, list[StreamRecord]])
    after: dict[str, str] = field(default_factory=dict[str, str])
    count: int = 0
    size_bytes: int = 0
    since_s: float = 0.0
    oldest_ms: int = 0
    newest_ms: int = 0

    def add(self, shard_id: str, records: list[StreamRecord], now_s: float) -> None:
        """Take more records of a shard, at least one."""
        arrivals = [record.approximate_arrival_ms for record in records]
        oldest_ms, newest_ms = min(arrivals), max(arrivals)
        if not self.count:
            self.since_s, self.oldest_ms = now_s, oldest_ms
        self.oldest_ms = min(self.oldest_ms, oldest_ms)
        self.newest_ms = max(self.newest_ms, newest_ms)
        self.records.setdefault(shard_id, []).extend(records)
        self.size_bytes += sum(len(record.data) for record in records)
        self.count += len(records)


class Delivery:
    """The `Worker` of one delivery stream. `step` is called by one thread at a time; the rest is for any."""

    def __init__(
        self,
        stream: DeliveryStream,
        source: Source,
        streams: DeliveryStreams,
        ports: Ports,
        is_current: Callable[[], bool],
    ) -> None:
        self.name = f"firehose {stream.name}"
        self.telling = Telling(stream, ports.clock, ports.logs, ports.metrics)
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
        """How far it has come."""
        return self._progress

    def status(self) -> dict[str, Any]:
        """Return how far it has come, as plain JSON. `behind_ms` is the age of the oldest record that waits."""
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
            "last_error": self.telling.last_error,
        }

    # --- the worker ---------------------------------------------------------------------------

    def step(self) -> float:
        """Deliver what a kill left, read what is new, deliver what is due."""
        if not self._is_current():
            raise WorkerDone
        try:
            return self._step()
        except WorkerDone:
            raise
        except Exception as error:
            # New records must not cut the back-off short.
            self.wants_waking = False
            self.telling.failure(error)
            raise

    def _step(self) -> float:
        intent = self._progress.intent
        if intent is not None:
            self._carry_out(intent, self._read_again(intent), again=True)
        # Before reading: what is appended from here on either is read or wakes.
        self.wants_waking = True
        more = self._fill()
        wait_s = self._wait_s()
        if self._buffer.count and wait_s <= 0:
            self._deliver()
            return 0.0
        if not self._buffer.count and self._buffer.after:
            # Only ends of shards: nothing to write.
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
        """Read what is there into the buffer; whether there is more at once."""
        buffer = self._buffer
        size_bytes, _ = self._hints()
        more = False
        positions = {**self._progress.positions, **buffer.after}
        for shard_id, position in self._source.readable(positions):
            room_bytes = min(READ_BYTES, size_bytes - buffer.size_bytes)
            if room_bytes <= 0:
                return False
            got = self._source.read(shard_id, position, READ_RECORDS, room_bytes)
            if got.records:
                before_bytes = buffer.size_bytes
                buffer.add(shard_id, got.records, self._ports.clock.monotonic_s())
                read_bytes = buffer.size_bytes - before_bytes
                more |= len(got.records) >= READ_RECORDS or read_bytes >= room_bytes // 2
                if self._stream.source_arn:
                    self.telling.read(got.records)
            if got.next_position is None:
                buffer.after[shard_id] = END
                more = True
            elif got.records:
                buffer.after[shard_id] = position_text(got.next_position)
        return more

    # --- delivering ---------------------------------------------------------------------------

    def _deliver(self) -> None:
        # From here on the records are the intent's. Should storing it fail, they are read again.
        buffer, self._buffer = self._buffer, Buffer()
        intent = self._intend(buffer)
        self._save(replace(self._progress, intent=intent))
        self._carry_out(intent, buffer.records, again=False)

    def _intend(self, buffer: Buffer) -> Intent:
        stream, now_ms = self._stream, self._ports.clock.now_ms()
        positions = self._progress.positions
        return Intent(
            version=stream.version,
            destination=stream.destination,
            keys=output.name_objects(stream, buffer.oldest_ms, self._ports.ids, now_ms),
            oldest_ms=buffer.oldest_ms,
            newest_ms=buffer.newest_ms,
            decided_ms=now_ms,
            counts={shard_id: len(records) for shard_id, records in buffer.records.items()},
            start={
                shard_id: self._source.start(shard_id, positions) for shard_id in buffer.records
            },
            last={
                shard_id: records[-1].sequence_number
                for shard_id, records in buffer.records.items()
            },
            after=buffer.after,
        )

    def _read_again(self, intent: Intent) -> dict[str, list[StreamRecord]]:
        """Return the very records of an intent, from the source."""
        return {shard_id: self._read_shard_again(intent, shard_id) for shard_id in intent.counts}

    def _read_shard_again(self, intent: Intent, shard_id: str) -> list[StreamRecord]:
        wanted, position = intent.counts[shard_id], intent.start[shard_id]
        records: list[StreamRecord] = []
        while len(records) < wanted:
            left = wanted - len(records)
            got = self._source.read(shard_id, position, min(left, READ_RECORDS), READ_BYTES)
            # Where retention took the first ones, what comes instead is later deliveries'.
            kept = [r for r in got.records if not is_past(r.sequence_number, intent.last[shard_id])]
            records += kept
            if not kept or got.next_position is None:
                break
            position = position_text(got.next_position)
        if len(records) < wanted:
            self.telling.gone(shard_id, wanted - len(records))
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
                self.telling.refused(written.failed)
            self.telling.delivered(
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
        """After a failure: deliver to the destination as it is now, should it have been changed."""
        stream = self._stream
        if intent.version == stream.version:
            return
        keys = output.name_objects(
            stream, intent.oldest_ms, self._ports.ids, self._ports.clock.now_ms()
        )
        moved = replace(intent, version=stream.version, destination=stream.destination, keys=keys)
        self._save(replace(self._progress, intent=moved))

    def _advance(self, progress: Progress, after: dict[str, str]) -> None:
        self._save(replace(progress, positions={**progress.positions, **after}, intent=None))

    def _save(self, progress: Progress) -> None:
        if not self._is_current():
            raise WorkerDone
        self._streams.save_progress(self._stream.stream_id, progress)
        # Only now: what is in memory is never ahead of the disk.
        self._progress = progress
