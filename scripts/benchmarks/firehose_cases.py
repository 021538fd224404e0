"""The cases of the Firehose benchmark: the delivery streams, their records, and the put requests."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from scripts.benchmarks.wire import request

BUCKET, STREAM = "bench-objects", "bench"
ROLE = "arn:aws:iam::000000000000:role/r"
RECORDS_PER_PUT, KEYS = 500, 100


@dataclass(frozen=True)
class Case:
    """A delivery stream's processing of its records; `goal` in records per second, 0 for none.

    Attributes:
        share: this case's share of the records.
    """

    name: str
    destination: dict[str, Any]
    goal: float = 0.0
    share: float = 1.0


def _processors(kind: str, **parameters: str) -> dict[str, Any]:
    given = [{"ParameterName": n, "ParameterValue": v} for n, v in parameters.items()]
    return {"Enabled": True, "Processors": [{"Type": kind, "Parameters": given}]}


_SMALL = {"BufferingHints": {"SizeInMBs": 5, "IntervalInSeconds": 1}}
_LARGE = {"BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 1}}
FUNCTION = "bench"
SHARDS = 4
_JQ = "MetadataExtraction"
PASS = """
def handler(event, context):
    return {"records": [{"recordId": r["recordId"], "result": "Ok", "data": r["data"]} for r in event["records"]]}
"""
_ERRORS = {"ErrorOutputPrefix": "errors/!{firehose:error-output-type}/"}
CASES = (
    Case("plain", _SMALL, 150_000),
    Case("GZIP", {**_SMALL, "CompressionFormat": "GZIP"}, 150_000),
    Case(
        "Parquet",
        {
            **_LARGE,
            "DataFormatConversionConfiguration": {
                "SchemaConfiguration": {"RoleARN": ROLE, "DatabaseName": "d", "TableName": "t"},
                "InputFormatConfiguration": {"Deserializer": {"OpenXJsonSerDe": {}}},
                "OutputFormatConfiguration": {"Serializer": {"ParquetSerDe": {}}},
            },
        },
        80_000,
    ),
    Case(
        f"JQ, {KEYS} partitions",
        {
            **_ERRORS,
            "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 60},
            "Prefix": "in/!{partitionKeyFromQuery:c}/",
            "DynamicPartitioningConfiguration": {"Enabled": True},
            "ProcessingConfiguration": _processors(
                _JQ, MetadataExtractionQuery="{c:.c}", JsonParsingEngine="JQ-1.6"
            ),
        },
        50_000,
    ),
    Case(
        "Lambda",
        {
            **_SMALL,
            "ProcessingConfiguration": _processors(
                "Lambda", LambdaArn="arn:aws:lambda:us-east-1:000000000000:function:" + FUNCTION
            ),
        },
        share=0.25,
    ),
)


def bodies(count: int, *, keys: int = KEYS, size_bytes: int = 100) -> list[bytes]:
    """Return the requests that put `count` records."""
    made: list[bytes] = []
    for start in range(0, count, RECORDS_PER_PUT):
        records = [
            {"Data": base64.b64encode(record(number, keys, size_bytes)).decode()}
            for number in range(start, min(start + RECORDS_PER_PUT, count))
        ]
        made.append(_request("PutRecordBatch", {"Records": records}))
    return made


def single_bodies(count: int) -> list[bytes]:
    """Return the requests that put `count` records, each by itself."""
    return [
        _request("PutRecord", {"Record": {"Data": base64.b64encode(record(number)).decode()}})
        for number in range(count)
    ]


def _request(operation: str, members: dict[str, Any]) -> bytes:
    body = request(operation, {"DeliveryStreamName": STREAM, **members})
    return body.replace(b"Kinesis_20131202.", b"Firehose_20150804.").replace(
        b"/kinesis/aws4", b"/firehose/aws4"
    )


def stream_bodies(count: int) -> list[bytes]:
    """Return the requests that put `count` records into the Kinesis stream."""
    return [
        request(
            "PutRecords",
            {
                "StreamName": STREAM,
                "Records": [
                    {
                        "Data": base64.b64encode(record(number)).decode(),
                        "PartitionKey": f"k{number}",
                    }
                    for number in range(start, min(start + RECORDS_PER_PUT, count))
                ],
            },
        )
        for start in range(0, count, RECORDS_PER_PUT)
    ]


def record(number: int, keys: int = KEYS, size_bytes: int = 100) -> bytes:
    """Return a JSON record of this many bytes."""
    given = json.dumps({"n": number, "c": f"c{number % keys}", "a": number * 7 % 1000})
    return f'{given[:-1]}, "p": "{"x" * (size_bytes - len(given) - 9)}"}}'.encode()
