"""Finds the records of a failing batch that have expired in the stream, since AWS retries a batch until they expire.

Source: https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html (documented).
"""

from __future__ import annotations

from headrace.core.ports import AtSequence, ShardNotFound, StreamNotFound, StreamReader
from headrace.services.lambda_.mappings.batch import Batch

# The shortest retention of a stream.
SHORTEST_RETENTION_MS = 24 * 3600 * 1000


def split_gone(
    batch: Batch, streams: StreamReader, stream_arn: str, shard_id: str, *, now_ms: int
) -> tuple[Batch | None, Batch | None]:
    """Return the records of a failed batch that the stream no longer has, and the rest."""
    first = batch.records[0]
    if now_ms - first.approximate_arrival_ms < SHORTEST_RETENTION_MS:
        return None, batch
    at = AtSequence(first.sequence_number)
    try:
        first_batch = streams.read(stream_arn, shard_id, at, max_records=1, max_bytes=1)
    except StreamNotFound:
        return None, batch
    except ShardNotFound:
        return batch, None
    if not first_batch.expired:
        return None, batch
    if not first_batch.records:
        return batch, None
    oldest = int(first_batch.records[0].sequence_number)
    cut = sum(int(record.sequence_number) < oldest for record in batch.records)
    gone, rest = (
        Batch(records, batch.retries, batch.attempts, batch.history) if records else None
        for records in (batch.records[:cut], batch.records[cut:])
    )
    return gone, rest
