"""RegisterStreamConsumer, DeregisterStreamConsumer, DescribeStreamConsumer, ListStreamConsumers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import cbor2
import pytest

from headrace.aws.protocols.codec_json import CBOR_1_1, decode_body
from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.support.clock import FakeClock
from tests.support.cloud import ACCOUNT, InProcessCloud

ARN = arn_of("flights")
CREATED_S = 1_700_000_000


def register(kinesis: Any, name: str = "radar", **more: Any) -> str:
    answer = kinesis.register_stream_consumer(StreamARN=ARN, ConsumerName=name, **more)
    return str(answer["Consumer"]["ConsumerARN"])


def names(kinesis: Any, **params: Any) -> list[str]:
    listed = kinesis.list_stream_consumers(StreamARN=ARN, **params)["Consumers"]
    return [consumer["ConsumerName"] for consumer in listed]


class TestSerialization:
    def test_a_registration_is_answered_with_the_consumer(self, streams: Streams, kinesis: Any):
        streams.create()
        answer = kinesis.register_stream_consumer(StreamARN=ARN, ConsumerName="radar")
        assert answer["Consumer"] == {
            "ConsumerName": "radar",
            "ConsumerARN": f"{ARN}/consumer/radar:{CREATED_S}",
            "ConsumerStatus": "ACTIVE",
            "ConsumerCreationTimestamp": datetime.fromtimestamp(CREATED_S, UTC),
        }

    def test_a_description_has_the_stream(self, streams: Streams, kinesis: Any):
        streams.create()
        arn = register(kinesis)
        found = kinesis.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]
        assert (found["StreamARN"], found["ConsumerARN"]) == (ARN, arn)

    def test_deregistering_is_answered_with_nothing(self, streams: Streams, kinesis: Any):
        streams.create()
        register(kinesis)
        status, body = streams.raw(
            "DeregisterStreamConsumer", {"StreamARN": ARN, "ConsumerName": "radar"}
        )
        assert (status, body) == (200, {})

    def test_cbor(self, streams: Streams, kinesis: Any, cloud: InProcessCloud):
        streams.create()
        register(kinesis)
        answer = cloud.json_request(
            "Kinesis_20131202.ListStreamConsumers",
            cbor2.dumps({"StreamARN": ARN}),
            content_type=CBOR_1_1,
        )
        assert isinstance(answer.body, bytes)
        assert decode_body(answer.body, CBOR_1_1)["Consumers"][0]["ConsumerName"] == "radar"

    def test_a_number_for_a_name_is_refused(self, streams: Streams):
        status, body = streams.raw("RegisterStreamConsumer", {"StreamARN": ARN, "ConsumerName": 7})
        assert (status, body["__type"]) == (400, "SerializationException")


class TestValidation:
    def test_several_errors_in_one_sentence(self, streams: Streams):
        _, body = streams.raw("RegisterStreamConsumer", {"ConsumerName": "a b"})
        assert body["__type"] == "ValidationException"
        assert body["message"].startswith("2 validation errors detected: Value null at 'streamARN'")
        assert "Value 'a b' at 'consumerName' failed to satisfy constraint" in body["message"]

    def test_a_stream_that_is_not_there(self, kinesis: Any):
        error = failure(
            kinesis.register_stream_consumer, StreamARN=arn_of("nowhere"), ConsumerName="c"
        )
        assert error.code == "ResourceNotFoundException"
        assert error.message == f"Stream nowhere under account {ACCOUNT} not found."

    @pytest.mark.parametrize("params", [{}, {"ConsumerName": "radar"}, {"StreamARN": ARN}])
    @pytest.mark.parametrize("call", ["describe_stream_consumer", "deregister_stream_consumer"])
    def test_a_consumer_must_be_named_whole(
        self, streams: Streams, kinesis: Any, call: str, params: dict[str, str]
    ):
        streams.create()
        error = failure(getattr(kinesis, call), **params)
        assert error.code == "InvalidArgumentException"

    def test_names_that_contradict_each_other(self, streams: Streams, kinesis: Any):
        streams.create()
        arn = register(kinesis)
        for wrong in ({"ConsumerName": "other"}, {"StreamARN": arn_of("other")}):
            error = failure(kinesis.describe_stream_consumer, ConsumerARN=arn, **wrong)
            assert error.code == "InvalidArgumentException"
        found = kinesis.describe_stream_consumer(
            ConsumerARN=arn, StreamARN=ARN, ConsumerName="radar"
        )
        assert found["ConsumerDescription"]["ConsumerARN"] == arn

    def test_a_consumer_that_is_not_there(self, streams: Streams, kinesis: Any):
        streams.create()
        gone = f"{ARN}/consumer/radar:1"
        for params in ({"ConsumerARN": gone}, {"StreamARN": ARN, "ConsumerName": "radar"}):
            for call in (kinesis.describe_stream_consumer, kinesis.deregister_stream_consumer):
                assert failure(call, **params).code == "ResourceNotFoundException"

    def test_tokens_that_were_not_given(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(kinesis.list_stream_consumers, StreamARN=ARN, NextToken="bm8gdG9rZW4=")
        assert error.code == "InvalidArgumentException"

    def test_a_token_excludes_a_creation_time_and_another_stream(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        streams.create("other")
        register(kinesis, "a")
        register(kinesis, "b")
        token = kinesis.list_stream_consumers(StreamARN=ARN, MaxResults=1)["NextToken"]
        for params in (
            {"StreamARN": ARN, "StreamCreationTimestamp": CREATED_S},
            {"StreamARN": arn_of("other")},
        ):
            error = failure(kinesis.list_stream_consumers, NextToken=token, **params)
            assert error.code == "InvalidArgumentException"

    def test_an_altered_token_is_refused(self, streams: Streams, kinesis: Any):
        streams.create()
        register(kinesis, "a")
        register(kinesis, "b")
        token = kinesis.list_stream_consumers(StreamARN=ARN, MaxResults=1)["NextToken"]
        altered = ("B" if token[30] == "A" else "A").join((token[:30], token[31:]))
        error = failure(kinesis.list_stream_consumers, StreamARN=ARN, NextToken=altered)
        assert error.code == "InvalidArgumentException"

    def test_reserved_tags(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(
            kinesis.register_stream_consumer,
            StreamARN=ARN, ConsumerName="radar", Tags={"aws:x": "1"},
        )  # fmt: skip
        assert error.code == "InvalidArgumentException"


class TestBehaviour:
    def test_one_consumer_a_name(self, streams: Streams, kinesis: Any):
        streams.create()
        register(kinesis)
        error = failure(kinesis.register_stream_consumer, StreamARN=ARN, ConsumerName="radar")
        assert error.code == "ResourceInUseException"

    def test_the_same_name_again_is_another_consumer(
        self, streams: Streams, kinesis: Any, clock: FakeClock
    ):
        streams.create()
        first = register(kinesis)
        kinesis.deregister_stream_consumer(ConsumerARN=first)
        clock.advance(2)
        second = register(kinesis)
        assert second == f"{ARN}/consumer/radar:{CREATED_S + 2}"
        error = failure(kinesis.describe_stream_consumer, ConsumerARN=first)
        assert error.code == "ResourceNotFoundException"

    def test_twenty_consumers_a_stream(self, streams: Streams, kinesis: Any):
        streams.create()
        streams.create("other")
        for number in range(20):
            register(kinesis, f"c{number}")
        error = failure(kinesis.register_stream_consumer, StreamARN=ARN, ConsumerName="c20")
        assert error.code == "LimitExceededException"
        kinesis.register_stream_consumer(StreamARN=arn_of("other"), ConsumerName="c20")

    def test_fifty_on_a_stream_of_the_advantage_kind(self, kinesis: Any):
        kinesis.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})
        kinesis.create_stream(StreamName="flights", StreamModeDetails={"StreamMode": "ON_DEMAND"})
        for number in range(50):
            register(kinesis, f"c{number}")
        error = failure(kinesis.register_stream_consumer, StreamARN=ARN, ConsumerName="c50")
        assert error.code == "LimitExceededException"

    def test_five_at_once_while_they_are_being_made(
        self, streams: Streams, kinesis: Any, clock: FakeClock, cloud: InProcessCloud
    ):
        streams.create()
        cloud.cloud.kinesis.consumers.creating_ms = 2_000
        arns = [register(kinesis, f"c{number}") for number in range(5)]
        error = failure(kinesis.register_stream_consumer, StreamARN=ARN, ConsumerName="c5")
        assert error.code == "LimitExceededException"
        found = kinesis.describe_stream_consumer(ConsumerARN=arns[0])["ConsumerDescription"]
        assert found["ConsumerStatus"] == "CREATING"
        clock.advance(2)
        found = kinesis.describe_stream_consumer(ConsumerARN=arns[0])["ConsumerDescription"]
        assert found["ConsumerStatus"] == "ACTIVE"
        register(kinesis, "c5")

    def test_a_consumer_that_is_being_deregistered_shows_until_it_is_gone(
        self, streams: Streams, kinesis: Any, clock: FakeClock, cloud: InProcessCloud
    ):
        streams.create()
        cloud.cloud.kinesis.consumers.deleting_ms = 1_000
        arn = register(kinesis)
        kinesis.deregister_stream_consumer(ConsumerARN=arn)
        found = kinesis.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]
        assert found["ConsumerStatus"] == "DELETING"
        error = failure(kinesis.deregister_stream_consumer, ConsumerARN=arn)
        assert error.code == "ResourceInUseException"
        clock.advance(1)
        assert names(kinesis) == []

    def test_pages_by_name(self, streams: Streams, kinesis: Any):
        streams.create()
        for name in ("c", "a", "b"):
            register(kinesis, name)
        first = kinesis.list_stream_consumers(StreamARN=ARN, MaxResults=2)
        assert [c["ConsumerName"] for c in first["Consumers"]] == ["a", "b"]
        second = kinesis.list_stream_consumers(StreamARN=ARN, NextToken=first["NextToken"])
        assert [c["ConsumerName"] for c in second["Consumers"]] == ["c"]
        assert "NextToken" not in second

    def test_tokens_live_for_300_seconds(self, streams: Streams, kinesis: Any, clock: FakeClock):
        streams.create()
        register(kinesis, "a")
        register(kinesis, "b")
        token = kinesis.list_stream_consumers(StreamARN=ARN, MaxResults=1)["NextToken"]
        clock.advance(300)
        assert names(kinesis, NextToken=token) == ["b"]
        clock.advance(0.001)
        error = failure(kinesis.list_stream_consumers, StreamARN=ARN, NextToken=token)
        assert error.code == "ExpiredNextTokenException"

    def test_the_creation_time_tells_streams_of_one_name_apart(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        register(kinesis)
        assert names(kinesis, StreamCreationTimestamp=CREATED_S) == ["radar"]
        error = failure(
            kinesis.list_stream_consumers, StreamARN=ARN, StreamCreationTimestamp=CREATED_S - 1
        )
        assert error.code == "ResourceNotFoundException"

    def test_a_stream_counts_its_consumers(self, streams: Streams, kinesis: Any):
        streams.create()
        register(kinesis)
        summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
        assert summary["ConsumerCount"] == 1

    def test_a_stream_with_consumers_is_deleted_only_when_told_to(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        arn = register(kinesis)
        assert failure(kinesis.delete_stream, StreamName="flights").code == "ResourceInUseException"
        kinesis.delete_stream(StreamName="flights", EnforceConsumerDeletion=True)
        error = failure(kinesis.describe_stream_consumer, ConsumerARN=arn)
        assert error.code == "ResourceNotFoundException"
        streams.create()
        assert names(kinesis) == []

    def test_tags(self, streams: Streams, kinesis: Any):
        streams.create()
        arn = register(kinesis, Tags={"a": "1", "b": "2"})
        kinesis.tag_resource(ResourceARN=arn, Tags={"c": "3"})
        kinesis.untag_resource(ResourceARN=arn, TagKeys=["a"])
        tags = kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]
        assert tags == [{"Key": "b", "Value": "2"}, {"Key": "c", "Value": "3"}]
        assert kinesis.list_tags_for_resource(ResourceARN=ARN)["Tags"] == []
        kinesis.deregister_stream_consumer(ConsumerARN=arn)
        error = failure(kinesis.list_tags_for_resource, ResourceARN=arn)
        assert error.code == "ResourceNotFoundException"

    def test_consumers_outlast_a_restart(
        self, streams: Streams, kinesis: Any, cloud: InProcessCloud
    ):
        streams.create()
        gone = register(kinesis, "gone")
        arn = register(kinesis, Tags={"a": "1"})
        kinesis.deregister_stream_consumer(ConsumerARN=gone)
        before = kinesis.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=streams.clock) as again:
            client = again.client("kinesis")
            after = client.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]
            tags = client.list_tags_for_resource(ResourceARN=arn)["Tags"]
            assert names(client) == ["radar"]
        assert after == before
        assert tags == [{"Key": "a", "Value": "1"}]
