"""CreateQueue, UpdateQueue, DeleteQueue, DescribeQueue, ListQueues: answers, states, quotas and refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.api.kinesis.queues.lab import STREAM, STREAM_ARN, QueueLab, configuration
from tests.api.kinesis.streams import arn_of, failure
from tests.support.clock import HandClock
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

NOW = datetime.fromtimestamp(1_700_000_000, UTC)


def described(kinesis: Any, queue: str) -> dict[str, Any]:
    return kinesis.describe_queue(QueueARN=queue)["QueueDescription"]


class TestCreation:
    def test_the_answer_says_creating_and_the_queue_is_active(self, kinesis: Any):
        answer = kinesis.create_queue(QueueName="jobs", StreamConfigurationList=configuration())
        queue = answer["QueueDescription"]
        arn = queue.pop("QueueARN")
        assert arn.startswith(f"arn:aws:kinesis:{REGION}:{ACCOUNT}:queue/")
        assert "jobs" not in arn
        assert queue == {
            "QueueName": "jobs",
            "QueueStatus": "CREATING",
            "QueueCreationTimestamp": NOW,
            "StreamConfigurationList": configuration(Type="LATEST"),
            "QueueAttributes": {
                "VisibilityTimeoutSeconds": 30,
                "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 6},
            },
        }
        assert described(kinesis, arn) == {
            **queue,
            "QueueARN": arn,
            "QueueStatus": "ACTIVE",
            "StreamConfigurationList": configuration(Type="LATEST", Timestamp=NOW),
        }

    def test_its_id_is_a_label_of_a_host_name(self, lab: QueueLab):
        assert lab.queue().rpartition("/")[2].isalnum()

    def test_the_attributes_and_tags_of_the_request_are_kept(self, lab: QueueLab, kinesis: Any):
        attributes = {
            "VisibilityTimeoutSeconds": 0,
            "DeadLetterConfiguration": {"TargetType": "NONE"},
        }
        queue = lab.queue(QueueAttributes=attributes, Tags={"team": "ops"})
        assert described(kinesis, queue)["QueueAttributes"] == attributes
        tags = kinesis.list_tags_for_resource(ResourceARN=queue)["Tags"]
        assert tags == [{"Key": "team", "Value": "ops"}]

    @pytest.mark.parametrize(
        ("position", "effective"),
        [
            ({"Type": "TRIM_HORIZON"}, NOW - timedelta(hours=24)),
            ({"Type": "AT_TIMESTAMP", "Timestamp": NOW}, NOW),
            ({"Type": "AT_TIMESTAMP", "Timestamp": NOW - timedelta(days=9)}, None),
        ],
    )
    def test_the_position_is_shown_as_asked_and_then_as_effective(
        self, lab: QueueLab, kinesis: Any, position: dict[str, Any], effective: datetime | None
    ):
        lab.clock.advance(48 * 3600)
        answer = kinesis.create_queue(
            QueueName="jobs", StreamConfigurationList=configuration(**position)
        )["QueueDescription"]
        assert answer["StreamConfigurationList"] == configuration(**position)
        (shown,) = described(kinesis, answer["QueueARN"])["StreamConfigurationList"]
        oldest = NOW + timedelta(hours=24)
        assert shown["StartingPosition"]["Timestamp"] == oldest
        assert effective is None or effective <= oldest

    def test_the_summary_of_the_stream_counts_queues_apart_from_consumers(
        self, lab: QueueLab, kinesis: Any
    ):
        lab.queue()
        summary = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
        assert (summary["QueueCount"], summary["ConsumerCount"]) == (1, 0)


class TestRefusals:
    def create(self, kinesis: Any, **more: Any) -> tuple[str, str]:
        params = {
            "QueueName": "jobs",
            "StreamConfigurationList": configuration(),
            **more,
        }
        error = failure(kinesis.create_queue, **params)
        return error.code, error.message

    def test_a_provisioned_stream(self, kinesis: Any):
        kinesis.create_stream(StreamName="fixed", ShardCount=1)
        code, message = self.create(
            kinesis, StreamConfigurationList=[{"StreamARN": arn_of("fixed")}]
        )
        assert (code, "on-demand" in message) == ("ValidationException", True)

    def test_two_streams(self, kinesis: Any):
        code, message = self.create(kinesis, StreamConfigurationList=configuration() * 2)
        assert (code, "exactly one" in message) == ("ValidationException", True)

    def test_a_stream_that_does_not_exist(self, kinesis: Any):
        code, _ = self.create(kinesis, StreamConfigurationList=[{"StreamARN": arn_of("nowhere")}])
        assert code == "ResourceNotFoundException"

    def test_a_stream_of_another_account(self, cloud: InProcessCloud, lab: QueueLab):
        other = cloud.client("kinesis", account="111111111111")
        assert self.create(other)[0] == "InvalidArgumentException"

    @pytest.mark.parametrize(
        "position",
        [
            {"Type": "LATEST", "Timestamp": NOW},
            {"Type": "TRIM_HORIZON", "Timestamp": NOW},
            {"Type": "AT_TIMESTAMP"},
            {"Type": "AT_TIMESTAMP", "Timestamp": NOW + timedelta(days=1)},
            {"Type": "SOMEWHERE"},
        ],
    )
    def test_a_wrong_position(self, kinesis: Any, position: dict[str, Any]):
        code, _ = self.create(kinesis, StreamConfigurationList=configuration(**position))
        assert code == "ValidationException"

    @pytest.mark.parametrize(
        "dead_letters",
        [
            {"TargetType": "BUILT_IN"},
            {"TargetType": "NONE", "MaxReceiveCount": 3},
            {"TargetType": "BUILT_IN", "MaxReceiveCount": 1001},
            {"TargetType": "ELSEWHERE", "MaxReceiveCount": 3},
        ],
    )
    def test_wrong_dead_letters(self, kinesis: Any, dead_letters: dict[str, Any]):
        code, _ = self.create(kinesis, QueueAttributes={"DeadLetterConfiguration": dead_letters})
        assert code == "ValidationException"

    @pytest.mark.parametrize("name", ["", "a b", "x" * 129])
    def test_a_wrong_name(self, kinesis: Any, name: str):
        assert self.create(kinesis, QueueName=name)[0] == "ValidationException"

    def test_a_name_that_is_taken(self, lab: QueueLab, kinesis: Any):
        lab.queue()
        assert self.create(kinesis)[0] == "ResourceInUseException"

    def test_a_name_that_another_region_has(self, cloud: InProcessCloud, lab: QueueLab):
        lab.queue()
        other = cloud.client("kinesis", region="eu-west-1")
        other.create_stream(StreamName=STREAM, StreamModeDetails={"StreamMode": "ON_DEMAND"})
        arn = STREAM_ARN.replace(REGION, "eu-west-1")
        made = other.create_queue(QueueName="jobs", StreamConfigurationList=[{"StreamARN": arn}])
        assert ":eu-west-1:" in made["QueueDescription"]["QueueARN"]

    def test_more_consumers_than_a_stream_may_have(self, lab: QueueLab, kinesis: Any):
        for number in range(19):
            lab.queue(f"q{number}")
        kinesis.register_stream_consumer(StreamARN=STREAM_ARN, ConsumerName="radar")
        assert self.create(kinesis)[0] == "LimitExceededException"
        error = failure(
            kinesis.register_stream_consumer, StreamARN=STREAM_ARN, ConsumerName="second"
        )
        assert error.code == "LimitExceededException"


class TestChanges:
    def test_an_update_changes_only_what_it_names(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        answer = kinesis.update_queue(
            QueueARN=queue, QueueAttributes={"VisibilityTimeoutSeconds": 7}
        )["QueueDescription"]
        assert answer["QueueStatus"] == "UPDATING"
        attributes = described(kinesis, queue)["QueueAttributes"]
        assert attributes == {
            "VisibilityTimeoutSeconds": 7,
            "DeadLetterConfiguration": {"TargetType": "BUILT_IN", "MaxReceiveCount": 6},
        }
        kinesis.update_queue(
            QueueARN=queue, QueueAttributes={"DeadLetterConfiguration": {"TargetType": "NONE"}}
        )
        attributes = described(kinesis, queue)["QueueAttributes"]
        assert attributes["DeadLetterConfiguration"] == {"TargetType": "NONE"}

    def test_a_queue_that_is_deleted_is_gone_and_its_name_is_free(
        self, lab: QueueLab, kinesis: Any
    ):
        queue = lab.queue()
        kinesis.delete_queue(QueueARN=queue)
        for call in (kinesis.describe_queue, kinesis.delete_queue, kinesis.receive_queue_records):
            assert failure(call, QueueARN=queue).code == "ResourceNotFoundException"
        assert lab.queue() != queue

    def test_a_stream_with_queues_is_neither_deleted_nor_made_provisioned(
        self, lab: QueueLab, kinesis: Any
    ):
        queue = lab.queue()
        details = {"StreamModeDetails": {"StreamMode": "PROVISIONED"}}
        for call, params in (
            (kinesis.delete_stream, {"StreamName": STREAM, "EnforceConsumerDeletion": True}),
            (kinesis.update_stream_mode, {"StreamARN": STREAM_ARN, **details}),
        ):
            error = failure(call, **params)
            assert (error.code, "queue" in error.message) == ("ResourceInUseException", True)
        kinesis.delete_queue(QueueARN=queue)
        kinesis.update_stream_mode(StreamARN=STREAM_ARN, **details)
        kinesis.delete_stream(StreamName=STREAM)

    def test_everything_survives_a_restart(self, data_dir: Path):
        clock = HandClock()
        with InProcessCloud(data_dir, clock=clock) as cloud:
            lab = QueueLab(cloud, clock)
            lab.stream()
            queue = lab.dead_letters_after(3)
            before = described(lab.kinesis, queue)
        with InProcessCloud(data_dir, clock=clock) as cloud:
            assert described(cloud.client("kinesis"), queue) == before


class TestListing:
    def test_pages_and_a_filter(self, lab: QueueLab, kinesis: Any):
        names = [f"q{number}" for number in range(5)]
        for name in names:
            lab.queue(name)
        kinesis.create_stream(StreamName="o", StreamModeDetails={"StreamMode": "ON_DEMAND"})
        other = [{"StreamARN": arn_of("o")}]
        kinesis.create_queue(QueueName="other", StreamConfigurationList=other)
        pages = kinesis.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 2})
        found = [q for page in pages for q in page["QueueSummaries"]]
        assert [q["QueueName"] for q in found] == [*sorted([*names, "other"])]
        only = kinesis.list_queues(StreamFilter=other)["QueueSummaries"]
        assert [q["QueueName"] for q in only] == ["other"]
        assert only[0]["Streams"] == [{"StreamARN": arn_of("o"), "StreamCreationTimestamp": NOW}]
        later = [{**other[0], "StreamCreationTimestamp": NOW + timedelta(days=1)}]
        assert kinesis.list_queues(StreamFilter=later)["QueueSummaries"] == []

    def test_a_token_of_another_operation(self, lab: QueueLab, kinesis: Any):
        error = failure(kinesis.list_queues, NextToken="x")
        assert error.code == "InvalidArgumentException"


class TestStates:
    @pytest.fixture
    def cloud(self, data_dir: Path, clock: HandClock) -> Any:
        with InProcessCloud(data_dir, clock=clock, state_delay_ms=5000) as running:
            yield running

    @pytest.fixture
    def lab(self, cloud: InProcessCloud, clock: HandClock) -> QueueLab:
        made = QueueLab(cloud, clock)
        made.stream()
        clock.advance(6)
        return made

    def test_each_state_lasts_its_time(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        assert described(kinesis, queue)["QueueStatus"] == "CREATING"
        (shown,) = described(kinesis, queue)["StreamConfigurationList"]
        assert shown["StartingPosition"] == {"Type": "LATEST"}
        assert failure(kinesis.receive_queue_records, QueueARN=queue).code == (
            "InvalidArgumentException"
        )
        change = {"QueueARN": queue, "QueueAttributes": {"VisibilityTimeoutSeconds": 1}}
        assert failure(kinesis.update_queue, **change).code == "ResourceInUseException"
        lab.clock.advance(6)
        kinesis.update_queue(**change)
        assert described(kinesis, queue)["QueueStatus"] == "UPDATING"
        lab.put("a")
        assert len(lab.receive(queue)) == 1
        lab.clock.advance(6)
        kinesis.delete_queue(QueueARN=queue)
        assert described(kinesis, queue)["QueueStatus"] == "DELETING"
        assert failure(kinesis.receive_queue_records, QueueARN=queue).code == (
            "InvalidArgumentException"
        )
        lab.clock.advance(6)
        assert failure(kinesis.describe_queue, QueueARN=queue).code == "ResourceNotFoundException"
        assert kinesis.list_queues()["QueueSummaries"] == []

    def test_five_queues_may_change_at_once(self, lab: QueueLab, kinesis: Any):
        for number in range(5):
            lab.queue(f"q{number}")
        params = {"QueueName": "sixth", "StreamConfigurationList": configuration()}
        assert failure(kinesis.create_queue, **params).code == "LimitExceededException"
        lab.clock.advance(6)
        kinesis.create_queue(**params)


class TestTagsAndPolicies:
    def test_tags(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue(Tags={"a": "1"})
        kinesis.tag_resource(ResourceARN=queue, Tags={"b": "2"})
        kinesis.untag_resource(ResourceARN=queue, TagKeys=["a"])
        tags = kinesis.list_tags_for_resource(ResourceARN=queue)["Tags"]
        assert tags == [{"Key": "b", "Value": "2"}]
        many = {str(n): "x" for n in range(50)}
        error = failure(kinesis.tag_resource, ResourceARN=queue, Tags=many)
        assert (error.code, "queue jobs" in error.message) == ("InvalidArgumentException", True)

    def test_a_policy(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        policy = (
            '{"Statement": [{"Effect": "Allow", "Principal": "*",'
            f' "Action": "kinesis:ReceiveQueueRecords", "Resource": "{queue}"}}]}}'
        )
        kinesis.put_resource_policy(ResourceARN=queue, Policy=policy)
        assert kinesis.get_resource_policy(ResourceARN=queue)["Policy"] == policy
        kinesis.delete_resource_policy(ResourceARN=queue)
        assert kinesis.get_resource_policy(ResourceARN=queue)["Policy"] == "{}"
