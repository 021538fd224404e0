"""Streams in memory: a `StreamReader` whose shards tests fill, split and close."""

from __future__ import annotations

import threading
from collections.abc import Callable

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

STREAM_ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/flights"


def sequence_number(number: int) -> str:
    """Return a sequence number that sorts as its number does."""
    return f"{number:056d}"


class _Shard:
    def __init__(self, parents: tuple[str, ...]) -> None:
        self.parents = parents
        self.records: list[StreamRecord] = []
        self.expired: list[StreamRecord] = []
        self.closed = False


class MemoryStreams:
    """One stream, `STREAM_ARN`, with shard `shardId-0` at first. Thread-safe."""

    def __init__(self, *, arn: str = STREAM_ARN) -> None:
        self.arn = arn
        self._lock = threading.RLock()
        self._shards = {"shardId-0": _Shard(())}
        self._wakes: list[Callable[[], None]] = []
        self._next = 1
        self._deleted = False
        self.consumers: dict[str, str] = {}

    def put(
        self, *payloads: bytes, shard_id: str = "shardId-0", key: str = "key", now_ms: int = 0
    ) -> list[str]:
        """Append records and wake subscribers; return their sequence numbers."""
        with self._lock:
            numbers: list[str] = []
            for data in payloads:
                number = sequence_number(self._next)
                self._next += 1
                self._shards[shard_id].records.append(StreamRecord(number, key, data, now_ms))
                numbers.append(number)
        self._wake()
        return numbers

    def expire(self, count: int, shard_id: str = "shardId-0") -> None:
        """Drop a shard's oldest records, as retention does."""
        with self._lock:
            shard = self._shards[shard_id]
            shard.expired += shard.records[:count]
            del shard.records[:count]

    def replace(self, shard_id: str, *children: str) -> None:
        """Close a shard; its children take over."""
        with self._lock:
            self._shards[shard_id].closed = True
            for child in children:
                self._shards[child] = _Shard((shard_id,))
        self._wake()

    def delete(self) -> None:
        """Delete the stream and wake subscribers, as Kinesis does; `restore` brings it back as it was."""
        self._deleted = True
        self._wake()

    def restore(self) -> None:
        """Undo `delete`."""
        self._deleted = False
        self._wake()

    def _wake(self) -> None:
        for wake in list(self._wakes):
            wake()

    def _shard(self, stream_arn: str, shard_id: str) -> _Shard:
        if self._deleted or stream_arn != self.arn:
            raise StreamNotFound(stream_arn)
        if shard_id not in self._shards:
            raise ShardNotFound(shard_id)
        return self._shards[shard_id]

    # --- StreamReader -------------------------------------------------------------------------

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        if self._deleted or stream_arn != self.arn:
            raise StreamNotFound(stream_arn)
        with self._lock:
            return [
                ShardInfo(name, shard.parents, 0, 1, "0", "1" if shard.closed else None)
                for name, shard in self._shards.items()
            ]

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        shard = self._shard(stream_arn, shard_id)
        with self._lock:
            if isinstance(position, Latest):
                return AtSequence(sequence_number(self._next))
            if isinstance(position, AtTimestamp):
                for record in shard.records:
                    if record.approximate_arrival_ms >= position.timestamp_ms:
                        return AtSequence(record.sequence_number)
                return AtSequence(sequence_number(self._next))
            return position

    def read(
        self,
        stream_arn: str,
        shard_id: str,
        position: Position,
        *,
        max_records: int,
        max_bytes: int,
    ) -> ReadResult:
        shard = self._shard(stream_arn, shard_id)
        with self._lock:
            position = self.pin(stream_arn, shard_id, position)
            found = [record for record in shard.records if _is_after(record, position)]
            taken = found[:max_records]
            expired = 0
            if not isinstance(position, TrimHorizon):
                expired = sum(_is_after(record, position) for record in shard.expired)
            if shard.closed and len(taken) == len(found):
                return ReadResult(taken, None, 0, expired)
            following: AfterSequence | AtSequence | TrimHorizon
            if taken:
                following = AfterSequence(taken[-1].sequence_number)
            else:
                following = AtSequence(sequence_number(self._next)) if expired else position
            return ReadResult(taken, following, 0, expired)

    def consumer_status(self, consumer_arn: str) -> str | None:
        return self.consumers.get(consumer_arn)

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)


def _is_after(record: StreamRecord, position: Position) -> bool:
    match position:
        case AtSequence(number):
            return record.sequence_number >= number
        case AfterSequence(number):
            return record.sequence_number > number
        case _:
            return True
