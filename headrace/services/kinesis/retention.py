"""Retention: whole segments whose every record is older than the stream keeps are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis

LOOK_EVERY_S = 60.0
MS_PER_HOUR = 3_600_000


class Retention:
    """A `Worker` that trims every stream; closed shards that retention emptied disappear."""

    name = "kinesis retention"

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def step(self) -> float:
        """Trim once."""
        kinesis = self._kinesis
        now_ms = kinesis.clock.now_ms()
        for stream in list(kinesis.streams.values()):
            horizon_ms = now_ms - stream.retention_hours * MS_PER_HOUR
            for shard in stream.shards:
                if shard.log is not None:
                    shard.log.trim(horizon_ms)
            with kinesis.lock:
                kept = [
                    shard
                    for shard in stream.shards
                    if shard.closed_ms is None or shard.closed_ms >= horizon_ms
                ]
                if len(kept) != len(stream.shards):
                    stream.shards = kept
                    kinesis.save(stream)
        return LOOK_EVERY_S
