"""UpdateStreamWarmThroughput."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.kinesis.streams import Streams, arn_of, covers_all_hash_keys, failure
from tests.support.cloud import InProcessCloud

ARN = arn_of("flights")


@pytest.fixture
def advantage(kinesis: Any) -> None:
    kinesis.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})


def create(kinesis: Any) -> None:
    kinesis.create_stream(StreamName="flights", StreamModeDetails={"StreamMode": "ON_DEMAND"})


@pytest.mark.usefixtures("advantage")
class TestSerialization:
    def test_the_answer_names_the_stream_and_what_it_takes(self, kinesis: Any):
        create(kinesis)
        for named in ({"StreamName": "flights"}, {"StreamARN": ARN}):
            answer = kinesis.update_stream_warm_throughput(**named, WarmThroughputMiBps=6)
            del answer["ResponseMetadata"]
            assert answer == {
                "StreamName": "flights",
                "StreamARN": ARN,
                "WarmThroughput": {"TargetMiBps": 6, "CurrentMiBps": 6},
            }


class TestValidation:
    def test_the_throughput_must_be_given(self, streams: Streams):
        _, body = streams.raw("UpdateStreamWarmThroughput", {"StreamName": "flights"})
        assert body["message"].startswith(
            "1 validation error detected: Value null at 'warmThroughputMiBps'"
        )

    def test_an_account_without_the_commitment_is_refused(self, kinesis: Any):
        create(kinesis)
        error = failure(
            kinesis.update_stream_warm_throughput, StreamName="flights", WarmThroughputMiBps=6
        )
        assert error.code == "ValidationException"

    @pytest.mark.usefixtures("advantage")
    def test_a_provisioned_stream_is_refused(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(
            kinesis.update_stream_warm_throughput, StreamName="flights", WarmThroughputMiBps=6
        )
        assert error.code == "InvalidArgumentException"

    @pytest.mark.usefixtures("advantage")
    def test_ten_gibibytes_are_the_limit(self, kinesis: Any):
        create(kinesis)
        error = failure(
            kinesis.update_stream_warm_throughput, StreamName="flights", WarmThroughputMiBps=10241
        )
        assert error.code == "LimitExceededException"


@pytest.mark.usefixtures("advantage")
class TestBehaviour:
    def test_a_stream_has_a_shard_a_mebibyte_and_gives_them_back(
        self, streams: Streams, kinesis: Any
    ):
        create(kinesis)
        for target, shards in ((10, 10), (0, 4)):
            kinesis.update_stream_warm_throughput(StreamARN=ARN, WarmThroughputMiBps=target)
            opened = streams.open_shards()
            assert len(opened) == shards
            assert covers_all_hash_keys(opened)

    def test_it_is_shown_and_outlasts_a_restart(
        self, streams: Streams, kinesis: Any, cloud: InProcessCloud
    ):
        create(kinesis)
        kinesis.update_stream_warm_throughput(StreamARN=ARN, WarmThroughputMiBps=5)
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=streams.clock) as again:
            summary = again.client("kinesis").describe_stream_summary(StreamName="flights")
        warm = summary["StreamDescriptionSummary"]["WarmThroughput"]
        assert warm == {"TargetMiBps": 5, "CurrentMiBps": 5}
