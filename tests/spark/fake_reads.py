"""A stream in memory, as the planner's client sees it; tests put, split and merge."""

from __future__ import annotations

import pyarrow as pa

from headrace.spark.get_records import PAGE_SCHEMA, ExpiredIterator, Page
from headrace.spark.offsets import (
    AtSequenceNumber,
    AtTimestamp,
    Init,
    Position,
    TrimHorizon,
    position_of,
)
from headrace.spark.spans import Shard

Record = tuple[str, str, int]  # partition key, sequence number, arrival in ms


class _Shard:
    def __init__(self, parents: tuple[str, ...]) -> None:
        self.parents = parents
        self.records: list[Record] = []
        self.closed = False


class FakeReads:
    """Implements `headrace.spark.fetcher.StreamCalls`. Time is `clock_ms`, which tests move."""

    def __init__(self, shards: int = 1, *, page_size: int = 1000) -> None:
        self.clock_ms = 1_000
        self.page_size = page_size
        self.fetched: list[tuple[str, str]] = []
        self._made = 0
        self._number = 0
        self._expired_iterators: set[str] = set()
        self._shards: dict[str, _Shard] = {}
        for _ in range(shards):
            self._open(())

    def _open(self, parents: tuple[str, ...]) -> str:
        name = f"shardId-{self._made:012d}"
        self._made += 1
        self._shards[name] = _Shard(parents)
        return name

    @property
    def open_shards(self) -> list[str]:
        return [name for name, shard in self._shards.items() if not shard.closed]

    def put(self, shard_id: str, count: int, key: str = "k") -> None:
        shard = self._shards[shard_id]
        assert not shard.closed
        for _ in range(count):
            self._number += 1
            shard.records.append((key, f"{self._number:020d}", self.clock_ms))

    def split(self, shard_id: str) -> tuple[str, str]:
        self._shards[shard_id].closed = True
        return self._open((shard_id,)), self._open((shard_id,))

    def merge(self, first: str, second: str) -> str:
        self._shards[first].closed = self._shards[second].closed = True
        return self._open((first, second))

    def expire_shard(self, shard_id: str) -> None:
        del self._shards[shard_id]

    def expire_iterators(self) -> None:
        self._expired_iterators.update(self._shards)

    def all_records(self) -> dict[str, list[Record]]:
        return {name: list(shard.records) for name, shard in self._shards.items()}

    # --- Reads --------------------------------------------------------------------------------

    def shards(self) -> list[Shard]:
        return [Shard(name, shard.parents) for name, shard in self._shards.items()]

    def now_ms(self) -> tuple[int, int]:
        return self.clock_ms, self.clock_ms

    def retention_ms(self) -> int:
        return 86_400_000

    def iterator(self, shard_id: str, after: str | None, init: Init) -> str:
        self._expired_iterators.discard(shard_id)
        records = self._shards[shard_id].records
        if after is not None:
            at = sum(1 for _, number, _ in records if number <= after)
        else:
            at = _begin(records, position_of(init, shard_id))
        return f"{shard_id}@{at}"

    def records(self, iterator: str, limit: int) -> Page:
        shard_id, _, position = iterator.partition("@")
        if shard_id in self._expired_iterators:
            raise ExpiredIterator(iterator)
        shard = self._shards[shard_id]
        start = int(position)
        end = min(start + limit, start + self.page_size, len(shard.records))
        taken = shard.records[start:end]
        self.fetched += [(shard_id, number) for _, number, _ in taken]
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([b"x"] * len(taken), pa.binary()),
                pa.array([key for key, _, _ in taken], pa.string()),
                pa.array([number for _, number, _ in taken], pa.string()),
                pa.array([ms * 1000 for _, _, ms in taken], pa.timestamp("us", tz="UTC")),
            ],
            schema=PAGE_SCHEMA,
        )
        at_end = end == len(shard.records)
        following = None if at_end and shard.closed else f"{shard_id}@{end}"
        return Page(batch, following, 0 if at_end else 1)


def _begin(records: list[Record], position: Position) -> int:
    if isinstance(position, AtTimestamp):
        return sum(1 for _, _, arrival in records if arrival < position.timestamp_ms)
    if isinstance(position, AtSequenceNumber):
        number, after = position.sequence_number, position.after
        return sum(1 for _, found, _ in records if found < number or (after and found == number))
    assert isinstance(position, TrimHorizon)
    return 0
