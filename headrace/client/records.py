"""Records as consumers see them, and the answers of GetRecords and SubscribeToShard that they come from.

Batches: the records of one shard that a consumer processes together.
"""

from __future__ import annotations

import itertools
import json
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from headrace.client.aggregation import MAGIC, disaggregate
from headrace.client.hash_keys import ShardRange, hash_key_of
from headrace.client.leases.stores import Checkpoint

try:
    from headrace.client.quick_pages import rows_of as _rows_of
except ImportError:

    def _rows_of(body: bytes) -> tuple[dict[str, Any], Columns]:
        answer: dict[str, Any] = json.loads(body)
        return answer, columns_of(answer["Records"])


_REMEMBERED_KEYS = 100_000


# Data, partition keys, sequence numbers, arrivals in seconds.
Columns = tuple[list[bytes], list[str], list[str], list[float]]


class Record(NamedTuple):
    """A record, or a user record of an aggregate.

    Attributes:
        data: what was put.
        key: the partition key; empty when it was put without one.
        sequence_number: Kinesis's number; all user records of one aggregate have the same.
        sub_sequence_number: the place in the aggregate; 0 for a plain record.
        arrival_s: when Kinesis took it, in seconds since 1970.
    """

    data: bytes
    key: str
    sequence_number: str
    sub_sequence_number: int
    arrival_s: float


class Page(NamedTuple):
    """An answer: records, where to go on (None: the shard has ended), its children then, and how far behind it is.

    `last` is the number of the last Kinesis record, whether or not any record of it is in `records`.
    """

    records: list[Record]
    next_iterator: str | None
    children: list[dict[str, Any]]
    behind_ms: int
    last: str | None


_new_tuple: Any = getattr(tuple, "__new__")  # noqa: B009 - its type is not known to pyright
_record_of: Any = partial(_new_tuple, Record)
_data_of, _number_of = itemgetter("Data"), itemgetter("SequenceNumber")
_arrival_of = itemgetter("ApproximateArrivalTimestamp")


def columns_of(rows: list[dict[str, Any]]) -> Columns:
    """Return rows of an answer in JSON column by column."""
    return (
        list(map(a2b_base64, map(_data_of, rows))),
        [row.get("PartitionKey") or "" for row in rows],
        list(map(_number_of, rows)),
        list(map(_arrival_of, rows)),
    )


def page_of(body: bytes, unpack: Unpacker) -> Page:
    """Return the page in the body of an answer of GetRecords. Raises ValueError, KeyError when it cannot be read."""
    answer, columns = _rows_of(body)
    return _page(answer, columns, answer.get("NextShardIterator"), unpack)


def event_page_of(event: dict[str, Any], unpack: Unpacker) -> Page:
    """Return the page in an event of SubscribeToShard; `next_iterator` is the number to continue at."""
    following = None if event.get("ChildShards") else str(event["ContinuationSequenceNumber"])
    return _page(event, columns_of(event["Records"]), following, unpack)


def _page(
    answer: dict[str, Any], columns: Columns, following: str | None, unpack: Unpacker
) -> Page:
    children: list[dict[str, Any]] = answer.get("ChildShards") or []
    last = columns[2][-1] if columns[2] else None
    behind_ms = int(answer.get("MillisBehindLatest") or 0)
    return Page(unpack.records_of(columns), following, children, behind_ms, last)


class Unpacker:
    """Makes a shard's records, takes aggregates apart, and drops what belongs to other shards or was read before.

    A user record whose hash key is not the shard's is dropped as the KCL drops it: its producer puts it again where it
    belongs. Not thread-safe: a shard is read by one thread at a time.
    """

    def __init__(self, shard: ShardRange | None, after: tuple[str, int] | None) -> None:
        """Take the shard (None: nothing is dropped), and the checkpoint up to which records were processed."""
        self._shard = shard
        self._after = None if after is None else (int(after[0]), after[1])
        self._is_inside: dict[str, bool] = {}
        self.dropped = 0

    def records_of(self, columns: Columns) -> list[Record]:
        """Return the records in an answer's columns."""
        data, keys, numbers, arrivals = columns
        rows = zip(data, keys, numbers, itertools.repeat(0), arrivals)
        records: list[Record] = list(map(_record_of, rows))
        if any(item[:4] == MAGIC for item in data):
            records = [user for record in records for user in self._unpack_record(record)]
        return self._new(records) if self._after is not None else records

    def _new(self, records: list[Record]) -> list[Record]:
        after = self._after or (0, 0)
        new = [r for r in records if (int(r.sequence_number), r.sub_sequence_number) > after]
        if new:
            self._after = None
        return new

    def _unpack_record(self, record: Record) -> Iterable[Record]:
        users = disaggregate(record.data)
        if users is None:
            return (record,)
        number, arrival_s = record.sequence_number, record.arrival_s
        inside = [
            Record(user.data, user.key, number, index, arrival_s)
            for index, user in enumerate(users)
            if self._shard is None or self._belongs(user.key, user.explicit)
        ]
        self.dropped += len(users) - len(inside)
        return inside

    def _belongs(self, key: str, explicit: str | None) -> bool:
        assert self._shard is not None
        if explicit is not None:
            return int(explicit) in self._shard
        is_inside = self._is_inside.get(key)
        if is_inside is None:
            if len(self._is_inside) >= _REMEMBERED_KEYS:
                self._is_inside.clear()
            is_inside = self._is_inside[key] = hash_key_of(key) in self._shard
        return is_inside


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
