"""Lets Lambda and Firehose read streams: `KinesisReader` reads the shard logs directly, without requests."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.clock import Clock
from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    Position,
    ReadResult,
    ShardInfo,
    ShardNotFound,
    StreamNotFound,
    StreamRecord,
    TrimHorizon,
)
from headrace.services.kinesis.data_path.get import position_index, read_and_count
from headrace.services.kinesis.data_path.stored_records import read_records
from headrace.services.kinesis.state import Shard, Stream
from headrace.services.kinesis.store import StreamRegistry
from headrace.services.kinesis.subscriptions import Consumers
from headrace.store.losses import LogDamaged
from headrace.store.shard_log import ShardLog


class KinesisReader:
    """Implements `headrace.core.ports.StreamReader`. Thread-safe."""

    def __init__(self, clock: Clock, registry: StreamRegistry, consumers: Consumers) -> None:
        self._clock = clock
        self._registry = registry
        self._consumers = consumers

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """See `StreamReader.shards`."""
        return [shard.info for shard in self._stream(stream_arn).shards]

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """See `StreamReader.pin`."""
        if isinstance(position, AtSequence | AfterSequence):
            return position
        # Also the oldest record: from a horizon that moves, nobody could tell how many records expired meanwhile.
        _, shard, log = self._log(stream_arn, shard_id)
        return AtSequence(
            shard.base.text(position_index(shard, log, position), shard.created_s * 1000)
        )

    def read(
        self,
        stream_arn: str,
        shard_id: str,
        position: Position,
        *,
        max_records: int,
        max_bytes: int,
    ) -> ReadResult:
        """See `StreamReader.read`."""
        stream, shard, log = self._log(stream_arn, shard_id)
        index = position_index(shard, log, position)
        batch, behind_ms, at_end = read_and_count(
            stream,
            shard,
            index,
            max_records=max_records,
            max_bytes=max_bytes,
            clock=self._clock,
            started_ms=self._clock.now_ms(),
        )
        records: list[StreamRecord] = []
        for payload in batch.payloads:
            records.extend(read_records(payload))
        following: AtSequence | AfterSequence | TrimHorizon | None
        if at_end:
            following = None
        elif records:
            following = AfterSequence(records[-1].sequence_number)
        else:
            following = AtSequence(shard.base.text(batch.next_index, shard.created_s * 1000))
        expired = max(0, batch.next_index - batch.count - index)
        return ReadResult(records, following, behind_ms, expired)

    def progress(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> tuple[int, int, int | None]:
        """Return the index of a position, how many records wait there, and when the oldest of them arrived.

        Reads at most that one record. The time is None when none waits, or damage hides it. Raises StreamNotFound,
        ShardNotFound.
        """
        _, shard, log = self._log(stream_arn, shard_id)
        index = max(position_index(shard, log, position), log.first_index)
        waiting = max(0, log.readable_index - index)
        if not waiting:
            return index, 0, None
        try:
            starts = log.read(index, 1, 1).starts
        except LogDamaged:
            return index, waiting, None
        return index, waiting, starts[0][1] if starts else None

    def consumer_status(self, consumer_arn: str) -> str | None:
        """See `StreamReader.consumer_status`."""
        now_ms = self._clock.now_ms()
        consumer = self._consumers.by_arn(consumer_arn, now_ms)
        return None if consumer is None else consumer.status(now_ms)

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        return self._registry.subscribe(stream_arn, wake)

    def _stream(self, stream_arn: str) -> Stream:
        stream = self._registry.find_arn(stream_arn)
        if stream is None:
            raise StreamNotFound(stream_arn)
        return stream

    def _log(self, stream_arn: str, shard_id: str) -> tuple[Stream, Shard, ShardLog]:
        stream = self._stream(stream_arn)
        shard = stream.shard(shard_id)
        if shard is None or shard.log is None:
            raise ShardNotFound(f"{stream_arn} {shard_id}")
        return stream, shard, shard.log
