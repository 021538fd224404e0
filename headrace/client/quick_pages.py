"""Answers of GetRecords by msgspec, where it is installed: it decodes base64 and makes no dictionaries on the way."""

from __future__ import annotations

from typing import Any

import msgspec


class _Row(msgspec.Struct, gc=False):
    Data: bytes
    SequenceNumber: str
    ApproximateArrivalTimestamp: float
    PartitionKey: str | None = None


class _Answer(msgspec.Struct):
    Records: list[_Row]
    NextShardIterator: str | None = None
    MillisBehindLatest: int | None = None
    ChildShards: list[dict[str, Any]] | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def rows_of(
    body: bytes,
) -> tuple[dict[str, Any], tuple[list[bytes], list[str], list[str], list[float]]]:
    """Return an answer without its records, and these column by column. Raises ValueError."""
    answer = _decode(body)
    rows = answer.Records
    columns = (
        [row.Data for row in rows],
        [row.PartitionKey or "" for row in rows],
        [row.SequenceNumber for row in rows],
        [row.ApproximateArrivalTimestamp for row in rows],
    )
    others = {
        "NextShardIterator": answer.NextShardIterator,
        "MillisBehindLatest": answer.MillisBehindLatest,
        "ChildShards": answer.ChildShards,
    }
    return others, columns
