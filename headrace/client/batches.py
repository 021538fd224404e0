"""Batches: the records of one shard that a consumer processes together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from headrace.client.leases.stores import Checkpoint
from headrace.client.records import Record


class BatchOwner(Protocol):
    """What a batch asks of its group."""

    def checkpoint(self, batch: Batch, record: Record | None) -> bool:
        """Note that a batch was processed, all of it or up to a record."""
        ...


@dataclass(slots=True, eq=False)
class Batch:
    """Records of one shard, in order; a loop over it gives them.

    Attributes:
        shard_id: the shard.
        records: the records; user records of aggregates, one by one.
        lag_ms: how far behind the newest record the last one is.
        delivered_s: when the consumer got it, by the group's monotonic clock.
    """

    owner: BatchOwner = field(repr=False)
    shard_id: str
    records: list[Record]
    lag_ms: int
    end: Checkpoint
    is_last: bool = False
    delivered_s: float = 0.0

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def checkpoint(self, record: Record | None = None) -> bool:
        """Note that the batch was processed, or, with a record of it, all up to that one. Thread-safe.

        The group writes it within its checkpoint interval. Return False when the shard is another worker's by now:
        that worker reads these records again.
        """
        return self.owner.checkpoint(self, record)
