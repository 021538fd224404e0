"""A record in a delivery stream: its current data, and the source record from which it came."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.core.ports import StreamRecord
from headrace.services.firehose.limits import BATCH_RECORDS

# A put's RecordId is the number of the request's first record, then the record's place in the request. The ids of a
# request differ only in their last digits, which makes them fast to write.
PLACES = tuple(f"{place:03}" for place in range(BATCH_RECORDS))


class Record(msgspec.Struct, gc=False):
    """A source record, or part of one, during and after processing. It does not change once it is in a buffer.

    Attributes:
        data: the data to deliver, without the delimiter that a processor appends at the end.
        source: the source's record, with its data before processing.
        shard_id: the source's shard; always the same for direct puts.
        sub: its index among the records made from one source record.
        keys: partition keys from the function.
        partition: with dynamic partitioning, the name of its buffer.
        otf: a function's `otfMetadata`: the Iceberg table and the operation for the record.
    """

    data: bytes
    source: StreamRecord
    shard_id: str
    sub: int = 0
    keys: Mapping[str, str] | None = None
    otf: Mapping[str, str] | None = None
    partition: str = ""

    @property
    def record_id(self) -> str:
        """Its id, which is the same over retries, restarts and kills: `<sequence number>.<sub>`."""
        return f"{self.source.sequence_number}.{self.sub}"

    @property
    def arrival_ms(self) -> int:
        """When the source accepted the record."""
        return self.source.approximate_arrival_ms
