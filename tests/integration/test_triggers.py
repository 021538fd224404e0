"""Functions on streams: every record once, poison records set aside, resharding under way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.clouds import CloudUnderTest
from tests.integration.test_streams import by_key, flights, open_shards

# Copies to the next stream what it reads; a record that says "poison" fails it, in the way of `lambdas/enrich`: what
# stands before the poison is written and the poison reported, and a batch that begins with it fails as a whole.
COPY = """
import base64, json, os
import boto3
kinesis = boto3.client("kinesis")
def handler(event, context):
    entries = []
    failed = None
    for record in event["Records"]:
        data = base64.b64decode(record["kinesis"]["data"])
        if json.loads(data) == "poison":
            failed = record["kinesis"]["sequenceNumber"]
            break
        entries.append({"Data": data, "PartitionKey": record["kinesis"]["partitionKey"]})
    if failed and not entries and len(event["Records"]) > 1:
        raise ValueError("a batch begins with poison")
    if entries:
        kinesis.put_records(StreamName=os.environ["OUT"], Records=entries)
    return {"batchItemFailures": [{"itemIdentifier": failed}] if failed else []}
"""
FAILS = "def handler(event, context):\n    raise ValueError('always')\n"


def copied(cloud: CloudUnderTest, out: str, count: int) -> list[tuple[str, Any]]:
    """Wait until a stream holds `count` records; return them."""
    found: list[tuple[str, Any]] = []

    def arrived() -> bool:
        found[:] = cloud.read(out)
        return len(found) >= count

    cloud.until(arrived, f"{count} records behind the function")
    return found


def copying(cloud: CloudUnderTest, source: str, **settings: Any) -> str:
    """Map a copying function to a stream; return the stream that it writes."""
    out = cloud.stream()
    cloud.map(source, cloud.function(COPY, OUT=out), **settings)
    return out


@pytest.mark.smoke
def test_a_function_sees_every_record_once_and_in_order(cloud: CloudUnderTest) -> None:
    source = cloud.stream(2)
    cloud.put(source, flights(200))
    out = copying(cloud, source, BatchSize=50)
    assert by_key(copied(cloud, out, 200)) == by_key(flights(200))


def test_poison_is_set_aside_alone_and_its_neighbours_arrive_once(cloud: CloudUnderTest) -> None:
    source, (url, arn) = cloud.stream(), cloud.queue()
    items = [("key", number) for number in range(10)]
    items.insert(5, ("key", "poison"))
    poison = cloud.put(source, items)[5]["SequenceNumber"]
    out = copying(
        cloud, source, BatchSize=100, MaximumRetryAttempts=2, BisectBatchOnFunctionError=True,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={"OnFailure": {"Destination": arn}},
    )  # fmt: skip
    reports = cloud.until(lambda: cloud.messages(url), "a report in the failure queue")
    assert [value for _, value in copied(cloud, out, 10)] == list(range(10))
    (report,) = reports
    assert report["requestContext"]["condition"] == "RetryAttemptsExhausted"
    assert report["KinesisBatchInfo"]["batchSize"] == 1
    assert report["KinesisBatchInfo"]["startSequenceNumber"] == poison


def test_a_batch_that_always_fails_is_halved_down_to_its_records(cloud: CloudUnderTest) -> None:
    source, (url, arn) = cloud.stream(), cloud.queue()
    cloud.put(source, [("key", number) for number in range(4)])
    cloud.map(
        source, cloud.function(FAILS), BatchSize=4, MaximumRetryAttempts=0,
        BisectBatchOnFunctionError=True, DestinationConfig={"OnFailure": {"Destination": arn}},
    )  # fmt: skip
    sizes: list[int] = []

    def all_reported() -> bool:
        sizes.extend(message["KinesisBatchInfo"]["batchSize"] for message in cloud.messages(url))
        return sum(sizes) >= 4

    cloud.until(all_reported, "the reports of four records")
    assert sizes == [1, 1, 1, 1]


def test_a_filter_keeps_records_from_the_function(cloud: CloudUnderTest) -> None:
    source = cloud.stream()
    cloud.put(source, [("key", {"kind": kind}) for kind in ("flight", "noise", "flight")])
    out = copying(
        cloud, source, FilterCriteria={"Filters": [{"Pattern": '{"data":{"kind":["flight"]}}'}]}
    )
    found = copied(cloud, out, 2)
    assert [value["kind"] for _, value in found] == ["flight", "flight"]


def test_a_split_under_way_repeats_nothing_and_loses_nothing(cloud: CloudUnderTest) -> None:
    source = cloud.stream()
    cloud.put(source, flights(16))
    out = copying(cloud, source, BatchSize=10)
    copied(cloud, out, 16)
    (shard,) = open_shards(cloud, source)
    cloud.client("kinesis").split_shard(
        StreamName=source, ShardToSplit=shard["ShardId"], NewStartingHashKey=str(2**127)
    )
    cloud.until_active(source)
    cloud.put(source, flights(16, start=16))
    # The last record of a third round comes behind everything that may be repeated.
    copied(cloud, out, 32)
    cloud.put(source, [(key, "last") for key, _ in flights(8)])
    cloud.until(
        lambda: sum(value == "last" for _, value in cloud.read(out)) >= 8, "the last records"
    )
    expected = by_key([*flights(32), *((key, "last") for key, _ in flights(8))])
    assert by_key(cloud.read(out)) == expected
