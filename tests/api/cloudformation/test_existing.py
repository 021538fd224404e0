"""A stack takes over nothing that exists already, and its rollback deletes nothing that it did not make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.cloudformation.resources import TYPES
from tests.api.cloudformation.existing_cases import (
    ALLOW,
    CASES,
    NAMELESS,
    QUEUE_URL,
    TOPIC_POLICY,
    Case,
    arn,
    called,
    make_queue,
    make_topic,
)
from tests.api.cloudformation.test_stacks import create, settled, template
from tests.support.cloud import InProcessCloud


def test_every_type_is_here():
    # Of the declared types, `test_declared` tries each.
    assert {case.kind for case in CASES} | set(NAMELESS) >= set(TYPES)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("data")) as cloud:
        yield cloud


def gone(cfn: Any) -> None:
    """Delete the stack `s`."""
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    assert settled(cfn, stack_id) == "DELETE_COMPLETE"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_what_is_there_already_is_refused_and_left_alone(cloud: InProcessCloud, case: Case):
    case.make(cloud)
    before = case.look(cloud)
    cfn = cloud.client("cloudformation")
    body = template(R={"Type": case.kind, "Properties": case.properties})
    assert create(cfn, body, Capabilities=["CAPABILITY_NAMED_IAM"]) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    (reason,) = [
        e["ResourceStatusReason"] for e in events if e["ResourceStatus"] == "CREATE_FAILED"
    ]
    assert case.refusal in reason
    assert case.look(cloud) == before
    gone(cfn)
    assert case.look(cloud) == before


def test_what_another_stack_made_is_refused_by_its_name(cloud: InProcessCloud):
    cfn = cloud.client("cloudformation")
    body = template(T={"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "y"}})
    first = cfn.create_stack(StackName="first", TemplateBody=json.dumps(body))["StackId"]
    assert settled(cfn, "first") == "CREATE_COMPLETE"
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    (reason,) = [
        e["ResourceStatusReason"] for e in events if e["ResourceStatus"] == "CREATE_FAILED"
    ]
    assert reason == f"{arn('sns', 'y')} already exists in stack {first}"
    gone(cfn)
    topics = cloud.client("sns").list_topics()["Topics"]
    assert {"TopicArn": arn("sns", "y")} in topics


def test_a_replacement_that_names_what_is_there_leaves_both_alone(cloud: InProcessCloud):
    cfn = cloud.client("cloudformation")
    make_queue(cloud)
    assert create(cfn, template(Q={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "y"}}))
    body = template(Q={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "x"}})
    cfn.update_stack(StackName="s", TemplateBody=json.dumps(body))
    assert settled(cfn, "s") == "UPDATE_ROLLBACK_COMPLETE"
    urls = cloud.client("sqs").list_queues()["QueueUrls"]
    assert {"x", "y"} <= {url.rsplit("/", 1)[-1] for url in urls}
    gone(cfn)


def test_a_queue_s_policy_is_only_taken_away_when_it_is_the_stack_s(cloud: InProcessCloud):
    cfn, sqs = cloud.client("cloudformation"), cloud.client("sqs")
    make_queue(cloud)
    policy = {
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {"Queues": [QUEUE_URL], "PolicyDocument": ALLOW},
    }
    assert create(cfn, template(P=policy)) == "CREATE_COMPLETE"
    mine = json.dumps({**ALLOW, "Id": "mine"})
    sqs.set_queue_attributes(QueueUrl=QUEUE_URL, Attributes={"Policy": mine})
    gone(cfn)
    found = sqs.get_queue_attributes(QueueUrl=QUEUE_URL, AttributeNames=["Policy"])["Attributes"]
    assert json.loads(found["Policy"]) == {**ALLOW, "Id": "mine"}


def test_a_topic_s_policy_is_left_when_a_stack_goes(cloud: InProcessCloud):
    cfn = cloud.client("cloudformation")
    make_topic(cloud)
    policy = {
        "Type": "AWS::SNS::TopicPolicy",
        "Properties": {"Topics": [arn("sns", "x")], "PolicyDocument": TOPIC_POLICY},
    }
    assert create(cfn, template(P=policy)) == "CREATE_COMPLETE"
    gone(cfn)
    assert (
        "Policy"
        in called("sns", "get_topic_attributes", TopicArn=arn("sns", "x"))(cloud)["Attributes"]
    )


def test_a_stack_makes_again_what_its_own_failure_took_back(cloud: InProcessCloud):
    # The stream is made, and then its retention is refused: it must not be left behind.
    cfn = cloud.client("cloudformation")
    properties = {"Name": "half", "ShardCount": 1, "RetentionPeriodHours": 99_999}
    body = template(S={"Type": "AWS::Kinesis::Stream", "Properties": properties})
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    assert "half" not in cloud.client("kinesis").list_streams()["StreamNames"]
    gone(cfn)
