"""`Batch`: the records that a read of a shard log found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """The records that a read of a shard log found.

    Attributes:
        payloads: JSON objects (in a Firehose journal: JSON strings) joined by `frame.SEPARATOR`, in order; views of the
            bytes that were read.
        starts: for each payload, the index of its first record, and when its records arrived, in milliseconds.
        count: how many records there are in total.
        data_bytes: the decoded size of the records; for a part of a frame it is estimated in proportion.
        next_index: the index at which the next read starts.
        last_arrival_ms: when the last record arrived; None when there is none.
    """

    payloads: list[bytes | memoryview]
    starts: list[tuple[int, int]]
    count: int
    data_bytes: int
    next_index: int
    last_arrival_ms: int | None
