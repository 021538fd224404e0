"""UpdateStreamMode."""

from __future__ import annotations

from typing import Any

from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.support.clock import FakeClock
from tests.support.cloud import InProcessCloud

ARN = arn_of("flights")
DAY_S = 86_400


def change(kinesis: Any, mode: str, **more: Any) -> None:
    kinesis.update_stream_mode(StreamARN=ARN, StreamModeDetails={"StreamMode": mode}, **more)


def refusal(kinesis: Any, mode: str, **more: Any) -> str:
    details = {"StreamMode": mode}
    return failure(
        kinesis.update_stream_mode, StreamARN=ARN, StreamModeDetails=details, **more
    ).code


def mode(kinesis: Any) -> str:
    summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
    return str(summary["StreamModeDetails"]["StreamMode"])


class TestSerialization:
    def test_it_is_answered_with_nothing(self, streams: Streams):
        streams.create()
        request = {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}}
        assert streams.raw("UpdateStreamMode", request) == (200, {})


class TestValidation:
    def test_a_mode_that_is_none(self, streams: Streams):
        request = {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "SPOT"}}
        _, body = streams.raw("UpdateStreamMode", request)
        assert body["message"] == (
            "1 validation error detected: Value 'SPOT' at 'streamModeDetails.streamMode' failed to satisfy"
            " constraint: Member must satisfy enum value set: [PROVISIONED, ON_DEMAND]"
        )

    def test_warm_throughput_is_for_on_demand_streams_of_committed_accounts(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        assert refusal(kinesis, "PROVISIONED", WarmThroughputMiBps=5) == "InvalidArgumentException"
        assert refusal(kinesis, "ON_DEMAND", WarmThroughputMiBps=5) == "ValidationException"
        assert mode(kinesis) == "PROVISIONED"


class TestBehaviour:
    def test_twice_in_a_rolling_day(
        self, streams: Streams, kinesis: Any, clock: FakeClock, cloud: InProcessCloud
    ):
        streams.create()
        change(kinesis, "ON_DEMAND")
        clock.advance(3600)
        change(kinesis, "PROVISIONED")
        assert refusal(kinesis, "ON_DEMAND") == "LimitExceededException"
        change(kinesis, "PROVISIONED")
        clock.advance(DAY_S - 3600)
        change(kinesis, "ON_DEMAND")
        assert refusal(kinesis, "PROVISIONED") == "LimitExceededException"
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=clock) as again:
            client = again.client("kinesis")
            assert mode(client) == "ON_DEMAND"
            assert refusal(client, "PROVISIONED") == "LimitExceededException"

    def test_the_shards_stay(self, streams: Streams, kinesis: Any):
        streams.create(shards=6)
        change(kinesis, "ON_DEMAND")
        assert len(streams.open_shards()) == 6

    def test_a_warm_throughput_brings_its_shards(self, streams: Streams, kinesis: Any):
        streams.create(shards=1)
        kinesis.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})
        change(kinesis, "ON_DEMAND", WarmThroughputMiBps=7)
        assert len(streams.open_shards()) == 7
        change(kinesis, "PROVISIONED")
        summary = kinesis.describe_stream_summary(StreamName="flights")
        assert "WarmThroughput" not in summary["StreamDescriptionSummary"]

    def test_fifty_on_demand_streams(self, streams: Streams, kinesis: Any):
        streams.create()
        for number in range(50):
            kinesis.create_stream(
                StreamName=f"s{number}", StreamModeDetails={"StreamMode": "ON_DEMAND"}
            )
        assert refusal(kinesis, "ON_DEMAND") == "LimitExceededException"
        error = failure(
            kinesis.create_stream, StreamName="t", StreamModeDetails={"StreamMode": "ON_DEMAND"}
        )
        assert error.code == "LimitExceededException"
        limits = kinesis.describe_limits()
        assert (limits["OnDemandStreamCount"], limits["OnDemandStreamCountLimit"]) == (50, 50)
        assert (limits["OpenShardCount"], limits["ShardLimit"]) == (1, 500)

    def test_the_shards_of_an_on_demand_stream_are_not_the_users(
        self, streams: Streams, kinesis: Any
    ):
        streams.create(shards=2)
        change(kinesis, "ON_DEMAND")
        for call, params in (
            (kinesis.split_shard, {"ShardToSplit": "0", "NewStartingHashKey": str(1 << 126)}),
            (kinesis.merge_shards, {"ShardToMerge": "0", "AdjacentShardToMerge": "1"}),
            (
                kinesis.update_shard_count,
                {"TargetShardCount": 4, "ScalingType": "UNIFORM_SCALING"},
            ),
        ):
            error = failure(call, StreamName="flights", **params)
            assert error.code == "ValidationException"
            assert error.message.endswith("is in On-Demand mode.")
