"""A record on its way through a delivery stream: its data of now, and the source's record that it came from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.core.ports import StreamRecord
from headrace.services.firehose.limits import BATCH_RECORDS

# The RecordId that a put answers is the number of the request's first record, then the record's place in the request:
# a request's ids differ in their last digits only, so that they are written as fast as one.
PLACES = tuple(f"{place:03}" for place in range(BATCH_RECORDS))


class Record(msgspec.Struct, gc=False):
    """What processing has made of a source's record, or of a part of it. Nothing changes it once it is in a buffer.

    Attributes:
        data: what is delivered, without a delimiter that a processor appends at the end.
        source: the record as the source has it; its data is what processing began with.
        shard_id: the source's shard; of direct puts always the same.
        sub: its place among the records that one record of the source became, from 0.
        keys: partition keys from the function.
        partition: with dynamic partitioning, the buffer that it waits in.
        otf: a function's `otfMetadata`: for which Iceberg table the record is, and what to do there.
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
        """A name that stays the same over every retry, restart and kill: `<sequence number>.<sub>`."""
        return f"{self.source.sequence_number}.{self.sub}"

    @property
    def arrival_ms(self) -> int:
        """When the source took the record."""
        return self.source.approximate_arrival_ms
