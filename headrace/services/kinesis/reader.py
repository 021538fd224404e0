"""`StreamReader` over the shard logs: how Lambda and Firehose read, without the wire."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    AtTimestamp,
    Latest,
    Position,
    ReadResult,
    ShardInfo,
    ShardNotFound,
    StreamNotFound,
    StreamRecord,
    TrimHorizon,
)
from headrace.services.kinesis import gets
from headrace.store import sequence

if TYPE_CHECKING:
    from headrace.services.kinesis.service import Kinesis
    from headrace.services.kinesis.state import Shard, Stream
    from headrace.store.shard_log import ShardLog


class _Stored(msgspec.Struct, gc=False):
    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    Data: str
    PartitionKey: str


_decode = msgspec.json.Decoder(list[_Stored]).decode


class KinesisReader:
    """Implements `headrace.core.ports.StreamReader`. Thread-safe."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """See `StreamReader.shards`."""
        return [
            ShardInfo(
                shard_id=shard.shard_id,
                parent_ids=tuple(shard.parents),
                starting_hash_key=shard.starting_hash_key,
                ending_hash_key=shard.ending_hash_key,
                starting_sequence_number=shard.starting_sequence_number,
                ending_sequence_number=shard.ending_sequence_number,
            )
            for shard in self._stream(stream_arn).shards
        ]

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """See `StreamReader.pin`."""
        if isinstance(position, AtSequence | AfterSequence | TrimHorizon):
            return position
        shard, log = self._log(stream_arn, shard_id)
        return AtSequence(shard.base.text(_index(shard, log, position), shard.created_s * 1000))

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
        shard, log = self._log(stream_arn, shard_id)
        # Before the read: what is appended meanwhile must not look like the end of a closed shard.
        closed = log.closed
        now_ms = self._kinesis.clock.now_ms()
        batch = gets.read(log, _index(shard, log, position), max_records, max_bytes)
        records: list[StreamRecord] = []
        for payload in batch.payloads:
            records.extend(_records(payload))
        behind_ms = 0
        if batch.last_arrival_ms is not None and batch.next_index < log.readable_index:
            behind_ms = max(0, now_ms - batch.last_arrival_ms)
        stream = self._kinesis.find_arn(stream_arn)
        if stream is not None:
            gets.count(self._kinesis, stream, shard, batch, behind_ms, now_ms)
        following: AtSequence | AfterSequence | TrimHorizon | None
        if closed and batch.next_index >= log.next_index:
            following = None
        elif records:
            following = AfterSequence(records[-1].sequence_number)
        else:
            following = AtSequence(shard.base.text(batch.next_index, shard.created_s * 1000))
        return ReadResult(records, following, behind_ms)

    def consumer_status(self, consumer_arn: str) -> str | None:
        """See `StreamReader.consumer_status`."""
        now_ms = self._kinesis.clock.now_ms()
        consumer = self._kinesis.consumers.by_arn(consumer_arn, now_ms)
        return None if consumer is None else consumer.status(now_ms)

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        return self._kinesis.subscribe(stream_arn, wake)

    def _stream(self, stream_arn: str) -> Stream:
        stream = self._kinesis.find_arn(stream_arn)
        if stream is None:
            raise StreamNotFound(stream_arn)
        return stream

    def _log(self, stream_arn: str, shard_id: str) -> tuple[Shard, ShardLog]:
        shard = self._stream(stream_arn).shard(shard_id)
        if shard is None or shard.log is None:
            raise ShardNotFound(f"{stream_arn} {shard_id}")
        return shard, shard.log


def _index(shard: Shard, log: ShardLog, position: Position) -> int:
    match position:
        case TrimHorizon():
            return log.first_index
        case Latest():
            return log.readable_index
        case AtTimestamp(timestamp_ms):
            return log.index_at(timestamp_ms)
        case AtSequence(number):
            return _index_of(shard, log, number)
        case AfterSequence(number):
            return _index_of(shard, log, number) + 1


def _index_of(shard: Shard, log: ShardLog, number: str) -> int:
    parsed = sequence.parse(number)
    if parsed.base != shard.base:
        # A checkpoint of a deleted stream of this name: all that this one holds is new to its reader.
        return log.first_index - 1
    return parsed.index


def _records(payload: bytes | memoryview) -> list[StreamRecord]:
    return [
        StreamRecord(
            sequence_number=stored.SequenceNumber,
            partition_key=stored.PartitionKey,
            data=base64.b64decode(stored.Data),
            approximate_arrival_ms=round(stored.ApproximateArrivalTimestamp * 1000),
        )
        for stored in _decode(b"".join((b"[", payload, b"]")))
    ]
