"""SNS subscriptions in stacks: their attributes, changed in place."""

from __future__ import annotations

import json
from typing import Any

from tests.api.cloudformation.test_declared import refused
from tests.api.cloudformation.test_stacks import create, physical, template, update
from tests.support.cloud import InProcessCloud


def subscribed(**properties: Any) -> dict[str, Any]:
    return template(
        Topic={"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "news"}},
        Queue={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "readers"}},
        Sub={
            "Type": "AWS::SNS::Subscription",
            "Properties": {
                "TopicArn": {"Ref": "Topic"},
                "Protocol": "sqs",
                "Endpoint": {"Fn::GetAtt": ["Queue", "Arn"]},
                **properties,
            },
        },
    )


def test_a_filter_of_the_body_is_made_changed_and_removed_in_place(
    cloud: InProcessCloud, cfn: Any
) -> None:
    sns, sqs = cloud.client("sns"), cloud.client("sqs")

    def seen(*kinds: str) -> list[str]:
        for kind in kinds:
            sns.publish(
                TopicArn=sns.list_topics()["Topics"][0]["TopicArn"],
                Message=json.dumps({"kind": kind}),
            )
        url = sqs.get_queue_url(QueueName="readers")["QueueUrl"]
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return sorted(json.loads(message["Body"])["kind"] for message in found)

    raw = {"RawMessageDelivery": True, "FilterPolicyScope": "MessageBody"}
    assert create(cfn, subscribed(**raw, FilterPolicy={"kind": ["a"]})) == "CREATE_COMPLETE"
    arn = physical(cfn, "Sub")
    assert seen("a", "b") == ["a"]
    assert update(cfn, subscribed(**raw, FilterPolicy={"kind": ["b"]})) == "UPDATE_COMPLETE", (
        refused(cfn, "s")
    )
    assert seen("a", "b") == ["b"]
    assert update(cfn, subscribed(RawMessageDelivery=True)) == "UPDATE_COMPLETE", refused(cfn, "s")
    assert seen("a", "b") == ["a", "b"]
    assert physical(cfn, "Sub") == arn
