"""Tables and global tables: streams that are switched on and off in place, and what a stack reads of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.cloudformation.test_declared import outputs, refused
from tests.api.cloudformation.test_stacks import create, update
from tests.support.cloud import InProcessCloud

KEYS: dict[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def table(kind: str, **properties: Any) -> dict[str, Any]:
    """Return a template with one table and what GetAtt gives of it."""
    stream = "StreamSpecification" in properties
    wanted = ["Arn", "StreamArn"] if stream else ["Arn"]
    return {
        "Resources": {"T": {"Type": f"AWS::DynamoDB::{kind}", "Properties": KEYS | properties}},
        "Outputs": {name: {"Value": {"Fn::GetAtt": ["T", name]}} for name in wanted},
    }


@pytest.mark.parametrize(
    ("kind", "more"),
    [("Table", {}), ("GlobalTable", {"Replicas": [{"Region": "us-east-1"}]})],
)
def test_a_stream_is_switched_on_and_off_in_place(
    cloud: InProcessCloud, cfn: Any, kind: str, more: dict[str, Any]
) -> None:
    dynamodb, name = cloud.client("dynamodb"), f"switched-{kind}"
    assert create(cfn, table(kind, TableName=name, **more), name=name) == "CREATE_COMPLETE"
    dynamodb.put_item(TableName=name, Item={"id": {"S": "kept"}})
    for view in ("KEYS_ONLY", "NEW_AND_OLD_IMAGES"):
        body = table(kind, TableName=name, StreamSpecification={"StreamViewType": view}, **more)
        assert update(cfn, body, name=name) == "UPDATE_COMPLETE", refused(cfn, name)
        shown = dynamodb.describe_table(TableName=name)["Table"]
        assert shown["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": view}
        assert outputs(cfn, name)["StreamArn"] == shown["LatestStreamArn"]
    off = table(kind, TableName=name, **more)
    assert update(cfn, off, name=name) == "UPDATE_COMPLETE", refused(cfn, name)
    shown = dynamodb.describe_table(TableName=name)["Table"]
    assert not shown.get("StreamSpecification", {}).get("StreamEnabled")
    assert dynamodb.scan(TableName=name)["Count"] == 1


def test_a_global_table_is_the_replica_of_the_stacks_region(
    cloud: InProcessCloud, cfn: Any
) -> None:
    body = table(
        "GlobalTable",
        TableName="world",
        BillingMode="PROVISIONED",
        WriteProvisionedThroughputSettings={
            "WriteCapacityAutoScalingSettings": {
                "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 70},
                "MinCapacity": "2",
                "MaxCapacity": "9",
            }
        },
        Replicas=[
            {"Region": "eu-west-1"},
            {
                "Region": "us-east-1",
                "ReadProvisionedThroughputSettings": {"ReadCapacityUnits": "3"},
                "Tags": [{"Key": "team", "Value": "flights"}],
            },
        ],
    )
    assert create(cfn, body, name="world") == "CREATE_COMPLETE", refused(cfn, "world")
    dynamodb = cloud.client("dynamodb")
    shown = dynamodb.describe_table(TableName="world")["Table"]
    capacity = shown["ProvisionedThroughput"]
    assert (capacity["ReadCapacityUnits"], capacity["WriteCapacityUnits"]) == (3, 2)
    tags = dynamodb.list_tags_of_resource(ResourceArn=shown["TableArn"])["Tags"]
    assert {"Key": "team", "Value": "flights"} in tags


def test_a_global_table_without_the_stacks_region_is_refused(cfn: Any) -> None:
    body = table("GlobalTable", Replicas=[{"Region": "eu-west-1"}])
    assert create(cfn, body, name="elsewhere") == "ROLLBACK_COMPLETE"
    assert "us-east-1" in refused(cfn, "elsewhere")[-1]
