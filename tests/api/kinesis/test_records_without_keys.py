"""Records without a partition key (strategy AUTO): the key is absent for every consumer, in JSON and in CBOR.

Source: docs.aws.amazon.com/streams/latest/dev/service-managed-pk-considerations (documented).
"""

from __future__ import annotations

import base64
import json
from typing import Any

import cbor2
import pytest

from headrace.cli.tail import _line
from headrace.client.records import Record as ClientRecord
from headrace.core.ports import StreamRecord
from headrace.services.firehose import transform
from headrace.services.firehose.records import Record
from headrace.services.kinesis.data_path.stored_records import cbor_answer
from headrace.services.lambda_.mappings.checks import EventWriter, Filter, build_kinesis_event
from headrace.services.pipes.delivery import event_of_record
from headrace.spark.get_records import parse_records
from headrace.store.frame import render
from tests.api.kinesis.streams import Streams

KEYLESS = StreamRecord("49" * 28, "", b"x", 1_700_000_000_123)
KEYED = StreamRecord("50" * 28, "k", b"y", 1_700_000_000_123)
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/s"


def test_get_records_has_keys_of_keyed_records_only(streams: Streams, kinesis: Any) -> None:
    mode = {"StreamMode": "ON_DEMAND"}
    kinesis.create_stream(
        StreamName="flights", StreamModeDetails=mode, RecordDistributionStrategy="AUTO"
    )
    kinesis.put_record(StreamName="flights", Data=b"single")
    records = [{"Data": b"1"}, {"Data": b"2", "PartitionKey": "k"}] * 8
    kinesis.put_records(StreamName="flights", Records=records)
    found: list[Any] = []
    for shard in streams.shards():
        iterator = kinesis.get_shard_iterator(
            StreamName="flights", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        _, raw = streams.raw("GetRecords", {"ShardIterator": iterator})
        found += [
            (base64.b64decode(one["Data"]), one.get("PartitionKey", "absent"))
            for one in raw["Records"]
        ]
    assert sorted(found) == [(b"1", "absent")] * 8 + [(b"2", "k")] * 8 + [(b"single", "absent")]


@pytest.mark.parametrize("tail", ["", ',"EncryptionType":"KMS"'])
@pytest.mark.parametrize("keys", [[""], ["k"], ["", "k", ""], ["k", "", "k"], ["", ""]])
def test_cbor_and_spark_see_what_json_says(keys: list[str], tail: str) -> None:
    numbers = [f"{n:056d}" for n in range(len(keys))]
    payload = render(numbers, ["eA=="] * len(keys), keys, 1_700_123, tail)
    plain = json.loads(b"[" + payload + b"]")
    assert [one.get("PartitionKey", "") for one in plain] == keys
    assert all(("PartitionKey" in one) == bool(key) for one, key in zip(plain, keys, strict=True))
    answer = cbor2.loads(cbor_answer([payload, payload], {"MillisBehindLatest": 0}))
    expected = [{**one, "Data": base64.b64decode(one["Data"])} for one in plain * 2]
    shown = [{**one, "ApproximateArrivalTimestamp": 1_700.123} for one in answer["Records"]]
    assert shown == expected
    body = b'{"Records":[' + payload + b'],"MillisBehindLatest":0}'
    assert parse_records(body).column("partitionKey").to_pylist() == [key or None for key in keys]


def test_events_and_filters_have_no_key() -> None:
    writer = EventWriter(source_arn=ARN, shard_id="shardId-0", region="us-east-1", role_arn="r")
    written = json.loads(writer.event([KEYLESS, KEYED]))
    slow = build_kinesis_event(
        [KEYLESS, KEYED], stream_arn=ARN, shard_id="shardId-0", region="us-east-1", role_arn="r"
    )
    assert written == slow
    assert [one["kinesis"].get("partitionKey") for one in written["Records"]] == [None, "k"]
    assert "partitionKey" not in written["Records"][0]["kinesis"]
    absent = Filter.parse('{"partitionKey": [{"exists": false}]}')
    assert [absent.matches(KEYLESS), absent.matches(KEYED)] == [True, False]
    assert "partitionKey" not in event_of_record(KEYLESS, "shardId-0", ARN, "kinesis")
    assert event_of_record(KEYED, "shardId-0", ARN, "kinesis")["partitionKey"] == "k"


def test_firehoses_functions_and_tail_have_no_key() -> None:
    for source, key in ((KEYLESS, None), (KEYED, "k")):
        sent = transform._build_sent_record(Record(b"x", source, "shardId-0"), of_stream=True)
        assert sent["kinesisRecordMetadata"].get("partitionKey") == key
    for client_record, has_key in (
        (ClientRecord(b"x", "", "1", 0, 1.0), False),
        (ClientRecord(b"x", "k", "1", 0, 1.0), True),
    ):
        shown = json.loads(_line("shardId-0", client_record, as_json=True))
        assert ("partitionKey" in shown) == has_key
