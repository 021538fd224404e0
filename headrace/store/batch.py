"""`Batch`: the records that a read of a shard log found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """What a read found.

    Attributes:
        payloads: JSON objects (of a journal: JSON strings) joined by `frame.SEPARATOR`, in order; views of what was
            read.
        starts: of each payload the index of its first record, and when its records arrived, in milliseconds.
        count: records in all.
        data_bytes: their decoded size (of whole frames; of a part, in proportion).
        next_index: where to go on.
        last_arrival_ms: of the last record; None when there is none.
    """

    payloads: list[bytes | memoryview]
    starts: list[tuple[int, int]]
    count: int
    data_bytes: int
    next_index: int
    last_arrival_ms: int | None
