"""`limits=aws`: throughput of shards and consumers, and the rates of calls, as AWS has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import pytest

from headrace.services.kinesis.permits import CONSUMER_BYTES_PER_S, MIB, ReadBytes
from tests.api.kinesis.conftest import StillClock
from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.api.kinesis.test_subscribe_to_shard import Reader, register
from tests.support.cloud import ACCOUNT, InProcessCloud

THROTTLED = "ProvisionedThroughputExceededException"
EXCEEDED = (
    f"Rate exceeded for shard shardId-000000000000 in stream flights under account {ACCOUNT}."
)


@pytest.fixture
def cloud(data_dir: Path, clock: StillClock) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir, clock=clock, limits="aws") as running:
        yield running


def records(count: int, size: int = 1, key: str = "k") -> list[dict[str, Any]]:
    return [{"Data": b"x" * size, "PartitionKey": key} for _ in range(count)]


def test_by_default_nothing_is_throttled(data_dir: Path, clock: StillClock) -> None:
    with InProcessCloud(data_dir, clock=clock) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        for _ in range(5):
            answer = kinesis.put_records(StreamName="flights", Records=records(500))
            assert answer["FailedRecordCount"] == 0
        for _ in range(20):
            kinesis.describe_stream(StreamName="flights")


def test_a_shard_takes_a_thousand_records_a_second(streams: Streams, kinesis: Any) -> None:
    streams.create()
    for _ in range(2):
        answer = kinesis.put_records(StreamName="flights", Records=records(500))
        assert answer["FailedRecordCount"] == 0
    answer = kinesis.put_records(StreamName="flights", Records=records(3))
    assert answer["FailedRecordCount"] == 3
    assert answer["Records"] == [{"ErrorCode": THROTTLED, "ErrorMessage": EXCEEDED}] * 3
    streams.clock.advance(0.002)
    answer = kinesis.put_records(StreamName="flights", Records=records(3))
    assert [("ErrorCode" in record) for record in answer["Records"]] == [False, False, True]


def test_a_shard_takes_a_mebibyte_a_second_keys_included(streams: Streams, kinesis: Any) -> None:
    streams.create()
    size = MIB // 4 - 1
    answer = kinesis.put_records(StreamName="flights", Records=records(5, size))
    assert answer["FailedRecordCount"] == 1
    assert "SequenceNumber" in answer["Records"][3]
    assert answer["Records"][4]["ErrorCode"] == THROTTLED
    streams.clock.advance(1)
    assert (
        kinesis.put_records(StreamName="flights", Records=records(4, size))["FailedRecordCount"]
        == 0
    )


def test_only_the_hot_shard_refuses(streams: Streams, kinesis: Any) -> None:
    streams.create(shards=2)
    hot = {"Data": b"x", "PartitionKey": "k", "ExplicitHashKey": "0"}
    cold = {"Data": b"x", "PartitionKey": "k", "ExplicitHashKey": str(2**127)}
    for _ in range(2):
        kinesis.put_records(StreamName="flights", Records=[hot] * 500)
    answer = kinesis.put_records(StreamName="flights", Records=[hot, cold, hot, cold])
    assert answer["FailedRecordCount"] == 2
    assert ["SequenceNumber" in record for record in answer["Records"]] == [
        False,
        True,
        False,
        True,
    ]


def test_put_record_fails_whole(streams: Streams, kinesis: Any) -> None:
    streams.create()
    for _ in range(2):
        kinesis.put_records(StreamName="flights", Records=records(500))
    failed = failure(kinesis.put_record, StreamName="flights", Data=b"x", PartitionKey="k")
    assert (failed.code, failed.message, failed.status) == (THROTTLED, EXCEEDED, 400)
    ordered = failure(
        kinesis.put_record,
        StreamName="flights",
        Data=b"x",
        PartitionKey="k",
        SequenceNumberForOrdering="0",
    )
    assert ordered.code in (THROTTLED, "InvalidArgumentException")


def test_the_short_cut_refuses_as_the_long_way_does(
    streams: Streams, cloud: InProcessCloud, kinesis: Any
) -> None:
    streams.create()
    for _ in range(2):
        kinesis.put_records(StreamName="flights", Records=records(500))
    usual = {"StreamName": "flights", "Data": "eA==", "PartitionKey": "k"}
    long_way = streams.raw("PutRecord", {**usual, "Unknown": 1})
    assert streams.raw("PutRecord", usual) == long_way
    assert long_way == (400, {"__type": THROTTLED, "message": EXCEEDED})
    body = cbor2.dumps({"StreamName": "flights", "Data": b"x", "PartitionKey": "k"})
    answer = cloud.json_request(
        "Kinesis_20131202.PutRecord", body, content_type="application/x-amz-cbor-1.1"
    )
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert cbor2.loads(answer.body)["__type"] == THROTTLED


def test_a_shard_is_read_five_times_a_second(streams: Streams, kinesis: Any) -> None:
    streams.create()
    iterator = streams.iterator()
    for _ in range(5):
        kinesis.get_records(ShardIterator=iterator)
    failed = failure(kinesis.get_records, ShardIterator=iterator)
    assert (failed.code, failed.message, failed.status) == (THROTTLED, EXCEEDED, 400)
    streams.clock.advance(0.2)
    kinesis.get_records(ShardIterator=iterator)


def test_after_ten_mebibytes_a_shard_is_not_read_for_five_seconds(
    streams: Streams, kinesis: Any
) -> None:
    streams.create()
    for _ in range(10):
        kinesis.put_records(StreamName="flights", Records=records(1, MIB - 1))
        streams.clock.advance(1.1)
    iterator = streams.iterator()
    assert len(kinesis.get_records(ShardIterator=iterator)["Records"]) == 10
    streams.clock.advance(4.9)
    assert failure(kinesis.get_records, ShardIterator=iterator).code == THROTTLED
    streams.clock.advance(0.1)
    assert len(kinesis.get_records(ShardIterator=iterator)["Records"]) == 10


def test_a_consumer_reads_two_mebibytes_a_second() -> None:
    budget = ReadBytes(CONSUMER_BYTES_PER_S)
    now_ms = 1_700_000_000_000
    budget.spend(2 * MIB, now_ms)
    assert budget.wait_ms(now_ms) == 0
    budget.spend(MIB, now_ms)
    assert budget.wait_ms(now_ms) == 500
    assert budget.wait_ms(now_ms + 500) == 0


def test_a_subscription_waits_when_it_pushed_too_much(
    streams: Streams, cloud: InProcessCloud, kinesis: Any, clock: StillClock
) -> None:
    streams.create()
    arn = register(kinesis)
    for _ in range(5):
        kinesis.put_records(StreamName="flights", Records=records(1, MIB - 1))
        clock.advance(1.1)
    reader = Reader(cloud, clock, arn)
    assert len(reader.numbers()) == 3  # The second that was saved, and the one that may be begun.
    assert reader.subscription.wait_ms(clock.now_ms()) == 500
    clock.advance(0.5)
    assert len(reader.numbers()) == 1
    clock.advance(0.5)
    assert len(reader.numbers()) == 1


@pytest.mark.parametrize(
    ("operation", "params", "rate"),
    [
        ("describe_stream", {"StreamName": "flights"}, 10),
        ("describe_stream_summary", {"StreamName": "flights"}, 20),
        ("list_streams", {}, 5),
        ("describe_limits", {}, 1),
        ("list_stream_consumers", {"StreamARN": arn_of("flights")}, 5),
    ],
)
def test_calls_have_rates(
    streams: Streams, kinesis: Any, operation: str, params: dict[str, Any], rate: int
) -> None:
    streams.create()
    streams.clock.advance(5)
    call = getattr(kinesis, operation)
    for _ in range(rate):
        call(**params)
    failed = failure(call, **params)
    assert (failed.code, failed.status) == ("LimitExceededException", 400)
    assert failed.message.startswith("Rate exceeded for")
    streams.clock.advance(1 / rate + 0.001)
    call(**params)


def test_an_accounts_rate_is_its_own(streams: Streams, cloud: InProcessCloud, kinesis: Any) -> None:
    for _ in range(5):
        kinesis.list_streams()
    assert failure(kinesis.list_streams).code == "LimitExceededException"
    cloud.client("kinesis", account="111111111111").list_streams()


def test_iterators_have_a_rate_a_shard(streams: Streams, kinesis: Any) -> None:
    streams.create(shards=2)
    for _ in range(5):
        streams.iterator()
    failed = failure(
        kinesis.get_shard_iterator,
        StreamName="flights",
        ShardId="0",
        ShardIteratorType="LATEST",
    )
    assert (failed.code, failed.message) == (THROTTLED, EXCEEDED)
    streams.iterator(shard="shardId-000000000001")


def test_a_stream_made_anew_has_its_whole_throughput(streams: Streams, kinesis: Any) -> None:
    for _ in range(2):
        streams.create()
        for _ in range(2):
            answer = kinesis.put_records(StreamName="flights", Records=records(500))
            assert answer["FailedRecordCount"] == 0
        kinesis.delete_stream(StreamName="flights")
