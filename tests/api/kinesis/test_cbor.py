"""CBOR, as the SDK for Java and the producer library speak it."""

from __future__ import annotations

from typing import Any

import cbor2

from tests.api.kinesis.streams import Streams
from tests.support.cloud import InProcessCloud

CBOR = "application/x-amz-cbor-1.1"


def _ask(cloud: InProcessCloud, operation: str, value: Any) -> tuple[int, Any]:
    answer = cloud.json_request(
        f"Kinesis_20131202.{operation}", cbor2.dumps(value), content_type=CBOR
    )
    assert isinstance(answer.body, bytes)
    assert ("Content-Type", CBOR) in answer.headers
    return answer.status, loads(answer.body)


def loads(body: bytes) -> Any:
    """Decode with tag 1 as AWS's SDKs read it: milliseconds."""
    return cbor2.loads(body, semantic_decoders={1: lambda value, _: value})


def test_records_go_in_and_come_out_as_bytes(streams: Streams, cloud: InProcessCloud):
    streams.create()
    status, put = _ask(
        cloud,
        "PutRecords",
        {"StreamName": "flights", "Records": [{"Data": b"\x00\xff", "PartitionKey": "é"}] * 2},
    )
    assert (status, put["FailedRecordCount"]) == (200, 0)
    status, one = _ask(
        cloud, "PutRecord", {"StreamName": "flights", "Data": b"", "PartitionKey": "k"}
    )
    assert status == 200
    status, got = _ask(cloud, "GetRecords", {"ShardIterator": streams.iterator()})
    assert status == 200
    assert [record["Data"] for record in got["Records"]] == [b"\x00\xff", b"\x00\xff", b""]
    assert [record["SequenceNumber"] for record in got["Records"]] == [
        *[record["SequenceNumber"] for record in put["Records"]],
        one["SequenceNumber"],
    ]
    assert got["Records"][0]["PartitionKey"] == "é"
    assert got["MillisBehindLatest"] == 0


def test_times_are_milliseconds_both_ways(streams: Streams, cloud: InProcessCloud):
    streams.create()
    streams.put("a")
    streams.clock.advance(1.234)
    at_ms = streams.clock.now_ms()
    streams.put("b")
    status, answer = _ask(
        cloud,
        "GetShardIterator",
        {
            "StreamName": "flights",
            "ShardId": "shardId-000000000000",
            "ShardIteratorType": "AT_TIMESTAMP",
            "Timestamp": cbor2.CBORTag(1, at_ms),
        },
    )
    assert status == 200
    body = cbor2.dumps({"ShardIterator": answer["ShardIterator"]})
    got = cloud.json_request("Kinesis_20131202.GetRecords", body, content_type=CBOR)
    assert isinstance(got.body, bytes)
    raw = cbor2.loads(got.body, semantic_decoders={1: lambda value, _: ("tag 1", value)})
    [record] = raw["Records"]
    assert record["Data"] == b"b"
    assert record["ApproximateArrivalTimestamp"] == ("tag 1", at_ms)


def test_errors_are_cbor_too(streams: Streams, cloud: InProcessCloud):
    status, error = _ask(
        cloud, "PutRecord", {"StreamName": "nowhere", "Data": b"", "PartitionKey": "k"}
    )
    assert (status, error["__type"]) == (400, "ResourceNotFoundException")
    status, error = _ask(cloud, "PutRecord", {"StreamName": 5})
    assert (status, error["__type"]) == (400, "SerializationException")


def test_a_body_that_is_no_cbor(cloud: InProcessCloud):
    answer = cloud.json_request("Kinesis_20131202.PutRecord", b"\xff\xff", content_type=CBOR)
    assert isinstance(answer.body, bytes)
    assert answer.status == 400
    assert cbor2.loads(answer.body)["__type"] == "SerializationException"
