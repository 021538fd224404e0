"""Subscriptions of log groups: how a Kinesis stream gets their events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud

ROLE = "arn:aws:iam::000000000000:role/r"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("subscriptions") / "data") as running:
        yield running


@pytest.mark.parametrize("given", [{}, {"distribution": "ByLogStream"}, {"distribution": "Random"}])
def test_events_are_distributed_by_log_stream_or_at_random(
    cloud: InProcessCloud, given: dict[str, Any]
):
    chosen = given.get("distribution", "ByLogStream")
    name = f"lines-{len(given)}-{chosen}"
    logs, kinesis = cloud.client("logs"), cloud.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    logs.create_log_group(logGroupName=name)
    logs.create_log_stream(logGroupName=name, logStreamName="of-one-host")
    to = {"logGroupName": name, "filterName": "f", "filterPattern": "", "roleArn": ROLE}
    logs.put_subscription_filter(**to, destinationArn=arn, **given)
    shown = logs.describe_subscription_filters(logGroupName=name)["subscriptionFilters"]
    assert [one["distribution"] for one in shown] == [chosen]

    now_ms = cloud.cloud.clock.now_ms()
    for number in range(3):
        event = {"timestamp": now_ms, "message": str(number)}
        logs.put_log_events(logGroupName=name, logStreamName="of-one-host", logEvents=[event])

    def keys() -> list[str]:
        place = {"ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
        at = kinesis.get_shard_iterator(StreamName=name, **place)["ShardIterator"]
        return [one["PartitionKey"] for one in kinesis.get_records(ShardIterator=at)["Records"]]

    until(lambda: len(keys()) == 3, what="the events in the stream")
    assert len({*keys()}) == (3 if chosen == "Random" else 1)
    assert ("of-one-host" in keys()) is (chosen != "Random")
