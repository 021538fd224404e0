"""Decides which records of a put are refused: by AWS's throughput limits, or by faults that a test has configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.aws.faults.faults import RequestProperties
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.state import Shard, Stream
from headrace.services.kinesis.throttle import THROTTLED, rate_exceeded


@dataclass(frozen=True, slots=True)
class RecordRefusal:
    """Why a record was not stored: the error code and message that PutRecords returns for the record."""

    code: str
    message: str

    @property
    def status(self) -> int:
        """The HTTP status of a PutRecord that fails with this error."""
        return 400 if self.code == THROTTLED else 500


def refusals(
    kinesis: Kinesis, stream: Stream, shard: Shard, sizes: Mapping[int, int], now_ms: int
) -> dict[int, RecordRefusal]:
    """Return the refused records of a shard, by position in the request. `sizes` has each record's size in bytes."""
    refused: dict[int, RecordRefusal] = {}
    left = list(sizes)
    faults = kinesis.faults
    if faults is not None and faults.is_partial:
        shard_key = (stream.name, shard.shard_id)
        facts = RequestProperties("kinesis", "PutRecords", stream.account, lambda: shard_key)
        for at, error in faults.refusals(facts, len(left)).items():
            refused[left[at]] = RecordRefusal(error.code, error.message)
        left = [i for i in left if i not in refused]
    if kinesis.throttle is None or not left:
        return refused
    passes = kinesis.throttle.admit(stream, shard, [sizes[i] for i in left], now_ms)
    over = [i for i, passed in zip(left, passes, strict=True) if not passed]
    if over:
        reason = RecordRefusal(THROTTLED, rate_exceeded(stream, shard.shard_id))
        refused.update(dict.fromkeys(over, reason))
        if stream.enhanced_metrics:
            name = "WriteProvisionedThroughputExceeded"
            stream.counters.note(name, len(over), shard=shard.shard_id)
    return refused
