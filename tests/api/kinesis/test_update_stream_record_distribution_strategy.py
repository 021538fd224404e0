"""UpdateStreamRecordDistributionStrategy, and where records go then."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.support.cloud import InProcessCloud

ARN = arn_of("flights")


def create(kinesis: Any, strategy: str | None = None) -> None:
    more = {} if strategy is None else {"RecordDistributionStrategy": strategy}
    mode = {"StreamMode": "ON_DEMAND"}
    kinesis.create_stream(StreamName="flights", StreamModeDetails=mode, **more)


def change(kinesis: Any, strategy: str) -> None:
    kinesis.update_stream_record_distribution_strategy(
        StreamARN=ARN, RecordDistributionStrategy=strategy
    )


def shown(kinesis: Any) -> str | None:
    summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
    strategy = summary.get("RecordDistributionStrategy")
    return None if strategy is None else str(strategy)


def spread(kinesis: Any, records: list[dict[str, Any]]) -> list[int]:
    """Put records and return how many each shard took, the most first."""
    placed = kinesis.put_records(StreamName="flights", Records=records)["Records"]
    return sorted(Counter(record["ShardId"] for record in placed).values(), reverse=True)


class TestSerialization:
    def test_it_is_answered_with_nothing(self, streams: Streams, kinesis: Any):
        create(kinesis)
        request = {"StreamARN": ARN, "RecordDistributionStrategy": "AUTO"}
        assert streams.raw("UpdateStreamRecordDistributionStrategy", request) == (200, {})


class TestValidation:
    def test_a_strategy_that_is_none(self, streams: Streams):
        request = {"StreamARN": ARN, "RecordDistributionStrategy": "RANDOM"}
        _, body = streams.raw("UpdateStreamRecordDistributionStrategy", request)
        assert body["message"] == (
            "1 validation error detected: Value 'RANDOM' at 'recordDistributionStrategy' failed to satisfy"
            " constraint: Member must satisfy enum value set: [AUTO, USER_PARTITION_KEY]"
        )

    def test_provisioned_streams_go_by_keys(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(change, kinesis=kinesis, strategy="AUTO")
        assert error.code == "InvalidArgumentException"
        error = failure(
            kinesis.create_stream,
            StreamName="other", ShardCount=1, RecordDistributionStrategy="AUTO",
        )  # fmt: skip
        assert error.code == "InvalidArgumentException"
        change(kinesis, "USER_PARTITION_KEY")
        assert shown(kinesis) is None


class TestBehaviour:
    def test_records_of_one_key_are_spread_evenly(self, kinesis: Any):
        create(kinesis, "AUTO")
        record = {"Data": b"x", "PartitionKey": "same", "ExplicitHashKey": "0"}
        assert spread(kinesis, [record] * 10) == [3, 3, 2, 2]
        singles = Counter(
            kinesis.put_record(StreamName="flights", **record)["ShardId"] for _ in range(8)
        )
        assert sorted(singles.values()) == [2, 2, 2, 2]

    def test_keys_choose_again_after_a_change(self, kinesis: Any):
        create(kinesis, "AUTO")
        record = {"Data": b"x", "PartitionKey": "same"}
        assert len(spread(kinesis, [record] * 8)) == 4
        change(kinesis, "USER_PARTITION_KEY")
        assert spread(kinesis, [record] * 8) == [8]
        change(kinesis, "AUTO")
        assert len(spread(kinesis, [record] * 8)) == 4

    def test_a_record_needs_no_key_then(self, streams: Streams, kinesis: Any):
        create(kinesis, "AUTO")
        kinesis.put_record(StreamName="flights", Data=b"single")
        assert spread(kinesis, [{"Data": b"x"}] * 4) == [1, 1, 1, 1]
        found = [text for shard in streams.shards() for text in streams.drain(shard["ShardId"])]
        assert sorted(found) == ["single", "x", "x", "x", "x"]
        change(kinesis, "USER_PARTITION_KEY")
        error = failure(kinesis.put_record, StreamName="flights", Data=b"x")
        assert error.code == "ValidationException"

    def test_what_races_a_reshard_is_stored_once(self, streams: Streams, kinesis: Any):
        create(kinesis, "AUTO")
        kinesis.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})
        spread(kinesis, [{"Data": b"before", "PartitionKey": "k"}] * 8)
        kinesis.update_stream_warm_throughput(StreamName="flights", WarmThroughputMiBps=8)
        assert spread(kinesis, [{"Data": b"after", "PartitionKey": "k"}] * 8) == [1] * 8

    @pytest.mark.parametrize("strategy", ["AUTO", "USER_PARTITION_KEY"])
    def test_it_is_shown_and_outlasts_a_restart(
        self, streams: Streams, kinesis: Any, cloud: InProcessCloud, strategy: str
    ):
        create(kinesis, strategy)
        assert shown(kinesis) == strategy
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=streams.clock) as again:
            client = again.client("kinesis")
            assert shown(client) == strategy
            client.update_stream_mode(
                StreamARN=ARN, StreamModeDetails={"StreamMode": "PROVISIONED"}
            )
            assert shown(client) is None
