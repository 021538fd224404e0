"""GetRecords' answers as Arrow. Apart from the client, which brings boto3: tasks rarely need that."""

from __future__ import annotations

import json
from binascii import a2b_base64
from dataclasses import dataclass
from typing import Any

from headrace.spark.untyped import Records, pa

# What a GetRecords page and a spooled file hold; the other two columns are the same in every row.
PAGE_SCHEMA = pa.schema(
    [
        pa.field("data", pa.binary()),
        pa.field("partitionKey", pa.string()),
        pa.field("sequenceNumber", pa.string()),
        pa.field("approximateArrivalTimestamp", pa.timestamp("us", tz="UTC")),
    ]
)


class ExpiredIterator(Exception):
    """The shard iterator is older than five minutes: ask for another."""


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of GetRecords. `next_iterator` is None at the end of a closed shard."""

    records: Records
    next_iterator: str | None
    millis_behind_latest: int


def parse_page(body: bytes) -> Page:
    """Return the page in an answer's JSON body."""
    answer = json.loads(body)
    records: list[dict[str, Any]] = answer["Records"]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([a2b_base64(record["Data"]) for record in records], pa.binary()),
            pa.array([record["PartitionKey"] for record in records], pa.string()),
            pa.array([record["SequenceNumber"] for record in records], pa.string()),
            pa.array(
                [round(record["ApproximateArrivalTimestamp"] * 1000) * 1000 for record in records],
                pa.timestamp("us", tz="UTC"),
            ),
        ],
        schema=PAGE_SCHEMA,
    )
    return Page(batch, answer.get("NextShardIterator"), int(answer.get("MillisBehindLatest") or 0))
