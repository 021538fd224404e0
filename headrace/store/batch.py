"""`Batch`: the records that a read of a shard log found. `SharedFrame`: records of many requests that it will have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.store import frame
from headrace.store.sequence import STEP


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


class SharedFrame:
    """Records of several requests that become one frame, written once: see `ShardLog.append_shared`.

    Attributes:
        arrival_ms: when its records arrived.
        sizes: the decoded size in bytes of each record.
        is_written: the operating system has the frame.
        then: called by the first `write` that finds the frame written.
    """

    __slots__ = (
        "_arrival",
        "_number",
        "_texts",
        "_write",
        "arrival_ms",
        "is_written",
        "sizes",
        "then",
    )

    def __init__(
        self, number: int, arrival_ms: int, write_now: Callable[[SharedFrame], None]
    ) -> None:
        """Begin a frame.

        Args:
            number: the sequence number of its first record.
            arrival_ms: when its records arrived.
            write_now: writes the frame unless that was tried, and sets `is_written` if that succeeds.
        """
        self.arrival_ms = arrival_ms
        self.sizes: list[int] = []
        self.is_written = False
        self.then: Callable[[SharedFrame], None] | None = None
        self._number = number
        self._arrival = frame.arrival_of(arrival_ms)
        self._texts: list[str] = []
        self._write = write_now

    def add(self, data: str, key: str, data_bytes: int, tail: str) -> str:
        """Add a record, and return its sequence number. The caller holds the log's lock."""
        number = str(self._number + STEP * len(self.sizes))
        self._texts.append(frame.render_one(number, data, key, self._arrival, tail))
        self.sizes.append(data_bytes)
        return number

    @property
    def payload(self) -> bytes:
        """The records, joined as a frame has them."""
        return ",\n".join(self._texts).encode("ascii")

    def write(self) -> bool:
        """Write the frame unless that was tried; return whether the operating system has it.

        False: no record of it is in the log, nor will be.
        """
        self._write(self)
        if self.is_written and self.then is not None:
            then, self.then = self.then, None
            then(self)
        return self.is_written
