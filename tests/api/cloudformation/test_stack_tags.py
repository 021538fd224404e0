"""The tags of a stack are its resources' too, and follow when they change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud

FAST = {"Delay": 0, "MaxAttempts": 400}
OWN = [{"Key": "own", "Value": "kept"}]
RESOURCES: dict[str, Any] = {
    "Stream": {"Type": "AWS::Kinesis::Stream", "Properties": {"Name": "in", "Tags": OWN}},
    "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "lake", "Tags": OWN}},
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "q", "Tags": OWN}},
    "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "t", "Tags": OWN}},
    "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/g", "Tags": OWN}},
    "Table": {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "TableName": "d",
            "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
            "Tags": OWN,
        },
    },
}


def pairs(**tags: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tags(cloud: InProcessCloud) -> dict[str, dict[str, str]]:
    """Return the users' tags of each tagged resource but the stack, by the service in its ARN."""
    found = cloud.client("resourcegroupstaggingapi").get_resources()["ResourceTagMappingList"]
    return {
        one["ResourceARN"].split(":")[2]: {
            tag["Key"]: tag["Value"] for tag in one["Tags"] if not tag["Key"].startswith("aws:")
        }
        for one in found
        if ":stack/" not in one["ResourceARN"]
    }


SERVICES = ["dynamodb", "kinesis", "logs", "s3", "sns", "sqs"]


def test_tags_of_a_stack_follow_its_updates(cloud: InProcessCloud, cfn: Any):
    template = json.dumps({"Resources": RESOURCES})
    cfn.create_stack(StackName="s", TemplateBody=template, Tags=pairs(team="water", stage="a"))
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    before = {"own": "kept", "team": "water", "stage": "a"}
    assert tags(cloud) == dict.fromkeys(SERVICES, before)
    cfn.update_stack(
        StackName="s", UsePreviousTemplate=True, Tags=pairs(team="air", own="the resource's wins")
    )
    cfn.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig=FAST)
    after = {"own": "kept", "team": "air"}
    assert tags(cloud) == dict.fromkeys(SERVICES, after)


def test_a_change_set_says_that_tags_change(cfn: Any):
    template = json.dumps({"Resources": {"Queue": RESOURCES["Queue"]}})
    cfn.create_stack(StackName="s", TemplateBody=template)
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    cfn.create_change_set(
        StackName="s", ChangeSetName="c", UsePreviousTemplate=True, Tags=pairs(team="air")
    )
    (change,) = cfn.describe_change_set(StackName="s", ChangeSetName="c")["Changes"]
    change = change["ResourceChange"]
    assert (change["Scope"], change["Replacement"]) == (["Tags"], "False")
    assert change["Details"][0]["Target"] == {"Attribute": "Tags", "RequiresRecreation": "Never"}


@pytest.mark.parametrize("name", ["Topic", "Queue", "Logs", "Table"])
def test_a_resources_own_tags_change_in_place(cloud: InProcessCloud, cfn: Any, name: str):
    def template(**own: str) -> str:
        resource = RESOURCES[name]
        properties = {**resource["Properties"], "Tags": pairs(**own)}
        return json.dumps({"Resources": {name: {**resource, "Properties": properties}}})

    cfn.create_stack(StackName="s", TemplateBody=template(a="1", b="2"))
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    cfn.update_stack(StackName="s", TemplateBody=template(a="3", c="4"))
    cfn.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig=FAST)
    assert list(tags(cloud).values()) == [{"a": "3", "c": "4"}]


def test_a_failed_update_gives_the_tags_back(cloud: InProcessCloud, cfn: Any):
    template = {"Resources": {"Queue": RESOURCES["Queue"]}}
    cfn.create_stack(StackName="s", TemplateBody=json.dumps(template), Tags=pairs(team="water"))
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    # It cannot be made: the parameter has no type.
    broken = {
        "Type": "AWS::SSM::Parameter",
        "DependsOn": "Queue",
        "Properties": {"Value": "x"},
    }
    template = {"Resources": {**template["Resources"], "Broken": broken}}
    cfn.update_stack(StackName="s", TemplateBody=json.dumps(template), Tags=pairs(team="air"))
    cfn.get_waiter("stack_rollback_complete").wait(StackName="s", WaiterConfig=FAST)
    assert tags(cloud) == {"sqs": {"own": "kept", "team": "water"}}
