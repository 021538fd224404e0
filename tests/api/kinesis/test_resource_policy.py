"""PutResourcePolicy, GetResourcePolicy, DeleteResourcePolicy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.support.cloud import InProcessCloud

ARN = arn_of("flights")


def policy(arn: str = ARN, **changes: Any) -> str:
    statement = {
        "Sid": "readers",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
        "Action": ["kinesis:DescribeStreamSummary", "kinesis:GetRecords"],
        "Resource": arn,
        **changes,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class TestSerialization:
    def test_putting_and_deleting_are_answered_with_nothing(self, streams: Streams):
        streams.create()
        request = {"ResourceARN": ARN, "Policy": policy()}
        assert streams.raw("PutResourcePolicy", request) == (200, {})
        assert streams.raw("DeleteResourcePolicy", {"ResourceARN": ARN}) == (200, {})

    def test_a_policy_comes_back_as_it_was_sent(self, streams: Streams, kinesis: Any):
        streams.create()
        text = policy().replace(", ", " ,  ")
        kinesis.put_resource_policy(ResourceARN=ARN, Policy=text)
        assert kinesis.get_resource_policy(ResourceARN=ARN)["Policy"] == text


class TestValidation:
    def test_the_arn_must_be_one(self, streams: Streams):
        _, body = streams.raw("PutResourcePolicy", {"ResourceARN": "flights"})
        assert body["__type"] == "ValidationException"
        assert body["message"].startswith("2 validation errors detected: Value null at 'policy'")

    @pytest.mark.parametrize(
        "text",
        [
            "no JSON",
            "[]",
            "{}",
            '{"Statement": []}',
            '{"Statement": [1]}',
            policy(Effect="Maybe"),
            policy(Principal=None),
            policy(Action="s3:GetObject"),
            policy(Action=[]),
            policy(arn_of("other")),
        ],
    )
    def test_what_is_no_policy_of_the_resource_is_refused(
        self, streams: Streams, kinesis: Any, text: str
    ):
        streams.create()
        error = failure(kinesis.put_resource_policy, ResourceARN=ARN, Policy=text)
        assert error.code == "InvalidArgumentException"

    def test_a_policy_has_a_greatest_length(self, streams: Streams, kinesis: Any):
        streams.create()
        text = policy(Sid="s" * 20_480)
        error = failure(kinesis.put_resource_policy, ResourceARN=ARN, Policy=text)
        assert error.code == "LimitExceededException"

    @pytest.mark.parametrize("arn", [arn_of("nowhere"), f"{ARN}/consumer/nobody:1"])
    def test_a_resource_that_is_not_there(self, streams: Streams, kinesis: Any, arn: str):
        streams.create()
        for call, more in (
            (kinesis.put_resource_policy, {"Policy": policy(arn)}),
            (kinesis.get_resource_policy, {}),
            (kinesis.delete_resource_policy, {}),
        ):
            assert failure(call, ResourceARN=arn, **more).code == "ResourceNotFoundException"


class TestBehaviour:
    def test_a_policy_is_replaced_and_deleted(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.put_resource_policy(ResourceARN=ARN, Policy=policy())
        kinesis.put_resource_policy(ResourceARN=ARN, Policy=policy(Effect="Deny"))
        assert kinesis.get_resource_policy(ResourceARN=ARN)["Policy"] == policy(Effect="Deny")
        kinesis.delete_resource_policy(ResourceARN=ARN)
        # observed: getmoto/moto, tests/test_kinesis (get_resource_policy after the deletion)
        assert kinesis.get_resource_policy(ResourceARN=ARN)["Policy"] == "{}"
        error = failure(kinesis.delete_resource_policy, ResourceARN=ARN)
        assert error.code == "ResourceNotFoundException"

    def test_a_consumer_has_its_own(self, streams: Streams, kinesis: Any):
        streams.create()
        arn = kinesis.register_stream_consumer(StreamARN=ARN, ConsumerName="c")["Consumer"][
            "ConsumerARN"
        ]
        text = policy(arn, Action="kinesis:SubscribeToShard")
        kinesis.put_resource_policy(ResourceARN=arn, Policy=text)
        assert kinesis.get_resource_policy(ResourceARN=arn)["Policy"] == text
        assert kinesis.get_resource_policy(ResourceARN=ARN)["Policy"] == "{}"

    def test_a_consumer_must_be_active(self, streams: Streams, kinesis: Any, cloud: InProcessCloud):
        streams.create()
        cloud.cloud.kinesis.consumers.creating_ms = 1_000
        arn = kinesis.register_stream_consumer(StreamARN=ARN, ConsumerName="c")["Consumer"][
            "ConsumerARN"
        ]
        error = failure(kinesis.put_resource_policy, ResourceARN=arn, Policy=policy(arn))
        assert error.code == "ResourceInUseException"
        assert "is not in ACTIVE status" in error.message

    def test_policies_outlast_a_restart(
        self, streams: Streams, kinesis: Any, cloud: InProcessCloud
    ):
        streams.create()
        kinesis.put_resource_policy(ResourceARN=ARN, Policy=policy())
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=streams.clock) as again:
            found = again.client("kinesis").get_resource_policy(ResourceARN=ARN)
        assert found["Policy"] == policy()
