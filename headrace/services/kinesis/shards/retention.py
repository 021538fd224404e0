"""Retention: deletes the log segments whose records are all older than the stream's retention period."""

from __future__ import annotations

from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.state import Stream
from headrace.store.discard import discard

LOOK_EVERY_S = 60.0
MS_PER_HOUR = 3_600_000
SEGMENTS_KEPT = 24


class Retention:
    """A `Worker` that trims every stream, and removes closed shards whose records have all expired."""

    name = "kinesis retention"

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def step(self) -> float:
        """Trim once."""
        kinesis = self._kinesis
        kinesis.remove_deleted()
        now_ms = kinesis.clock.now_ms()
        for stream in list(kinesis.streams.values()):
            horizon_ms = now_ms - stream.retention_hours * MS_PER_HOUR
            for shard in stream.shards:
                if shard.log is not None:
                    # A segment spans an hour with a day's retention, a fortnight with a year's: always few files.
                    shard.log.roll_after_ms = stream.retention_hours * MS_PER_HOUR // SEGMENTS_KEPT
                    shard.log.trim(horizon_ms)
            self._forget_empty_shards(stream, horizon_ms)
        kinesis.mark()
        return LOOK_EVERY_S

    def _forget_empty_shards(self, stream: Stream, horizon_ms: int) -> None:
        kinesis = self._kinesis
        with kinesis.lock:
            if kinesis.by_id.get(stream.stream_id) is not stream:
                return
            gone = [
                s for s in stream.shards if s.closed_ms is not None and s.closed_ms < horizon_ms
            ]
            if not gone:
                return
            for shard in gone:
                if shard.log is not None:
                    kinesis.store.marks.forget(shard.log.folder)
            before = stream.shards
            stream.shards = [shard for shard in before if shard not in gone]
            try:
                kinesis.save(stream, frees=True)
            except BaseException:
                stream.shards = before
                raise
        for shard in gone:
            if shard.log is not None:
                discard(shard.log.folder)
