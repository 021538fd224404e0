"""The port through which services read streams: positions, records, shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec


@dataclass(frozen=True, slots=True)
class TrimHorizon:
    """The oldest record that is within the retention period."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Just after the newest record at the time of asking. Pin it with `StreamReader.pin`."""


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record that arrived at or after `timestamp_ms`."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtSequence:
    """The record with this sequence number, or the first after it."""

    sequence_number: str


@dataclass(frozen=True, slots=True)
class AfterSequence:
    """The first record after this sequence number."""

    sequence_number: str


Position = TrimHorizon | Latest | AtTimestamp | AtSequence | AfterSequence


class StreamNotFound(Exception):
    """No such stream."""


class ShardNotFound(Exception):
    """No such shard, or retention has removed it."""


# Not a dataclass: making one takes a fifth of the time, and every record that is read is one.
class StreamRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as a consumer sees it; `partition_key` is empty if it was put without one."""

    sequence_number: str
    partition_key: str
    data: bytes
    approximate_arrival_ms: int


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A shard, its parents and its range of sequence numbers. `closed` shards take no more records."""

    shard_id: str
    parent_ids: tuple[str, ...]
    starting_hash_key: int
    ending_hash_key: int
    starting_sequence_number: str
    ending_sequence_number: str | None

    @property
    def closed(self) -> bool:
        """Whether a split or a merge has ended this shard."""
        return self.ending_sequence_number is not None


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Records, oldest first, and the position of the next read; `next_position` is None at a closed shard's end.

    `expired` counts the records from the requested position on that retention has removed.
    """

    records: list[StreamRecord]
    next_position: AtSequence | AfterSequence | TrimHorizon | None
    millis_behind_latest: int
    expired: int = 0


class StreamReader(Protocol):
    """Reads the shards of streams without the wire. Streams are named by ARN."""

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """Return all shards that retention has left, open and closed. Raises StreamNotFound."""
        ...

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """Turn a position into one that means the same for ever."""
        ...

    def read(
        self,
        stream_arn: str,
        shard_id: str,
        position: Position,
        *,
        max_records: int,
        max_bytes: int,
    ) -> ReadResult:
        """Return up to `max_records` and about `max_bytes` of data (at least one record if any).

        Never waits. Raises StreamNotFound, ShardNotFound.
        """
        ...

    def consumer_status(self, consumer_arn: str) -> str | None:
        """Return AWS's status of a registered consumer, None when there is no such consumer."""
        ...

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` (quick, from any thread) after each append or reshard; return a function that ends this."""
        ...
