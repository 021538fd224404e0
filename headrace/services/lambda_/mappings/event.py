"""Writes the events that functions receive for batches of Kinesis and DynamoDB records, directly as JSON text.

Source: the developer guide's examples for Kinesis, DynamoDB and tumbling windows (documented). For small records,
making the event takes longer than sending it, so the text that is the same for every record is made only once.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from headrace.core.ports import StreamRecord

_encode = msgspec.json.Encoder().encode
# A record whose numbers have their greatest length; `count_overhead_bytes` measures it.
_SAMPLE = StreamRecord("0" * 128, "", b"", 1_700_000_000_123)


class EventWriter:
    """Writes the events of one shard of one mapping of a Kinesis stream. Immutable, thread-safe.

    Args:
        source_arn: the ARN of the stream, or of the registered consumer if the mapping uses one.
    """

    def __init__(self, *, source_arn: str, shard_id: str, region: str, role_arn: str) -> None:
        self._shard_id, self._source_arn = shard_id, source_arn
        self.role_arn = role_arn
        self._overhead_bytes = count_overhead_bytes(
            stream_arn=source_arn, shard_id=shard_id, region=region, role_arn=role_arn
        )
        self._middle = (
            b'"eventSource":"aws:kinesis","eventVersion":"1.0","eventID":"'
            + shard_id.encode()
            + b":"
        )
        self._tail = (
            b'","eventName":"aws:kinesis:record","invokeIdentityArn":'
            + _encode(role_arn)
            + b',"awsRegion":'
            + _encode(region)
            + b',"eventSourceARN":'
            + _encode(source_arn)
            + b"}"
        )

    def record_bytes(self, record: StreamRecord) -> int:
        """Return the least number of bytes that a record takes in the event."""
        return count_event_bytes(record, self._overhead_bytes)

    def records(self, records: Iterable[StreamRecord]) -> bytes:
        """Return the JSON list of a batch's records."""
        middle, tail = self._middle, self._tail
        parts: list[bytes] = []
        for record in records:
            number = record.sequence_number.encode()
            parts.append(
                b'{"kinesis":{"kinesisSchemaVersion":"1.0",%b"sequenceNumber":"%b",'
                b'"data":"%b","approximateArrivalTimestamp":%b},%b%b%b'
                % (
                    b'"partitionKey":%b,' % _encode(key) if (key := record.partition_key) else b"",
                    number,
                    binascii.b2a_base64(record.data, newline=False),
                    repr(record.approximate_arrival_ms / 1000).encode(),
                    middle,
                    number,
                    tail,
                )
            )
        return b"[" + b",".join(parts) + b"]"

    def event(self, records: Iterable[StreamRecord]) -> bytes:
        """Return the event of a batch."""
        return b'{"Records":' + self.records(records) + b"}"

    def window_event(
        self,
        records: Iterable[StreamRecord],
        *,
        start: str,
        end: str,
        state: bytes,
        final: bool,
        early: bool,
    ) -> bytes:
        """Return the event of a batch in a tumbling window. `state` is JSON."""
        rest = {
            "window": {"start": start, "end": end},
            "state": msgspec.Raw(state),
            "shardId": self._shard_id,
            "eventSourceARN": self._source_arn,
            "isFinalInvokeForWindow": final,
            "isWindowTerminatedEarly": early,
        }
        return b'{"Records":' + self.records(records) + b"," + _encode(rest)[1:]


class TableEventWriter(EventWriter):
    """Writes the events of a mapping from a DynamoDB stream, whose records' data is already the JSON of the event."""

    def record_bytes(self, record: StreamRecord) -> int:
        """See `EventWriter.record_bytes`."""
        return len(record.data) + 1

    def records(self, records: Iterable[StreamRecord]) -> bytes:
        """See `EventWriter.records`."""
        return b"[" + b",".join(record.data for record in records) + b"]"


def count_event_bytes(record: StreamRecord, overhead_bytes: int) -> int:
    """Return the least number of bytes that a record takes in the event."""
    key = record.partition_key
    # A character that JSON must escape takes up to six bytes.
    key_bytes = len(key) if key.isascii() and key.isalnum() else 6 * len(key)
    return (len(record.data) + 2) // 3 * 4 + key_bytes + overhead_bytes


def key_of(record: StreamRecord) -> dict[str, str]:
    """Return the member of an event that has a record's partition key, if the record has one."""
    return {"partitionKey": record.partition_key} if record.partition_key else {}


def build_kinesis_event(
    records: Iterable[StreamRecord], *, stream_arn: str, shard_id: str, region: str, role_arn: str
) -> dict[str, Any]:
    """Return the event that a function receives. Source: the developer guide's example (documented)."""
    return {
        "Records": [
            {
                "kinesis": {
                    "kinesisSchemaVersion": "1.0",
                    **key_of(record),
                    "sequenceNumber": record.sequence_number,
                    "data": base64.b64encode(record.data).decode("ascii"),
                    "approximateArrivalTimestamp": record.approximate_arrival_ms / 1000,
                },
                "eventSource": "aws:kinesis",
                "eventVersion": "1.0",
                "eventID": f"{shard_id}:{record.sequence_number}",
                "eventName": "aws:kinesis:record",
                "invokeIdentityArn": role_arn,
                "awsRegion": region,
                "eventSourceARN": stream_arn,
            }
            for record in records
        ]
    }


def count_overhead_bytes(*, stream_arn: str, shard_id: str, region: str, role_arn: str) -> int:
    """Return how many bytes a record takes in the event in addition to its data and partition key."""
    event = build_kinesis_event(
        (_SAMPLE,),
        stream_arn=stream_arn,
        shard_id=shard_id,
        region=region,
        role_arn=role_arn,
    )
    return len(json.dumps(event))
