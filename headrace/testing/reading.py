"""Reads all records of a stream, and all objects under a prefix, on any cloud."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from headrace.client.streams import list_all_shards


class Clients(Protocol):
    """Makes boto3 clients of a cloud."""

    def client(self, service: str) -> Any:
        """Return a client."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """A record as GetRecords returns it; `partition_key` is empty for a record without one."""

    shard_id: str
    sequence_number: str
    partition_key: str
    data: bytes
    arrived: datetime

    @property
    def json(self) -> Any:
        """The record's data, parsed as JSON."""
        return json.loads(self.data)


def records_of(cloud: Clients, stream: str) -> list[Record]:
    """Return every record that a stream holds, by sequence number: within a key, in the order in which they came."""
    kinesis = cloud.client("kinesis")
    records: list[Record] = []
    for shard in list_all_shards(kinesis, StreamName=stream):
        shard_id = shard["ShardId"]
        iterator = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = kinesis.get_records(ShardIterator=iterator)
            records += [
                Record(
                    shard_id,
                    one["SequenceNumber"],
                    one.get("PartitionKey", ""),
                    one["Data"],
                    one["ApproximateArrivalTimestamp"],
                )
                for one in page["Records"]
            ]
            # On AWS a page may be empty although more records follow.
            if not page["Records"] and not page.get("MillisBehindLatest"):
                break
            iterator = page.get("NextShardIterator")
    return sorted(records, key=lambda record: int(record.sequence_number))


def objects_under(cloud: Clients, bucket: str, prefix: str = "") -> dict[str, bytes]:
    """Return a bucket's objects under `prefix` as a dict from key to bytes, in key order."""
    s3 = cloud.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
    return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in sorted(keys)}
