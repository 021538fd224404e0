"""Tables and global tables: streams that are switched on and off in place, and what a stack reads of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.cloudformation.test_declared import outputs, refused
from tests.api.cloudformation.test_stacks import create, physical, settled, update
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

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


INDEX = {
    "IndexName": "by-kind",
    "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}
ATTRIBUTES = [*KEYS["AttributeDefinitions"], {"AttributeName": "kind", "AttributeType": "S"}]


def indexed(*names: str, kind: str = "Table", **more: Any) -> dict[str, Any]:
    """Return a template of a table with these indexes, which names no table."""
    if not names:
        return table(kind, **more)
    indexes = [{**INDEX, "IndexName": name} for name in names]
    return table(kind, AttributeDefinitions=ATTRIBUTES, GlobalSecondaryIndexes=indexes, **more)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("Table", {}), ("GlobalTable", {"Replicas": [{"Region": "us-east-1"}]})],
)
def test_an_index_comes_and_goes_while_the_table_keeps_its_items(
    cloud: InProcessCloud, cfn: Any, kind: str, more: dict[str, Any]
) -> None:
    dynamodb = cloud.client("dynamodb")
    assert create(cfn, indexed(kind=kind, **more)) == "CREATE_COMPLETE"
    name = physical(cfn, "T")
    dynamodb.put_item(TableName=name, Item={"id": {"S": "kept"}, "kind": {"S": "k"}})
    assert update(cfn, indexed("by-kind", kind=kind, **more)) == "UPDATE_COMPLETE"
    assert physical(cfn, "T") == name
    found = dynamodb.query(
        TableName=name,
        IndexName="by-kind",
        KeyConditionExpression="kind = :k",
        ExpressionAttributeValues={":k": {"S": "k"}},
    )
    assert [item["id"] for item in found["Items"]] == [{"S": "kept"}]
    # One goes and one comes in one update (documented).
    assert update(cfn, indexed("other", kind=kind, **more)) == "UPDATE_COMPLETE"
    shown = dynamodb.describe_table(TableName=name)["Table"]["GlobalSecondaryIndexes"]
    assert [each["IndexName"] for each in shown] == ["other"]
    assert update(cfn, indexed(kind=kind, **more)) == "UPDATE_COMPLETE"
    shown = dynamodb.describe_table(TableName=name)["Table"]
    assert "GlobalSecondaryIndexes" not in shown
    assert len(shown["AttributeDefinitions"]) == 1
    assert dynamodb.scan(TableName=name)["Count"] == 1


def test_two_new_indexes_and_another_index_under_a_name_are_refused(
    cloud: InProcessCloud, cfn: Any
) -> None:
    assert create(cfn, indexed("a")) == "CREATE_COMPLETE"
    assert update(cfn, indexed("a", "b", "c")) == "UPDATE_ROLLBACK_COMPLETE"
    one = "Cannot perform more than one GSI creation or deletion in a single update"
    assert one in reasons_of(cfn)
    changed = indexed("a")
    properties = changed["Resources"]["T"]["Properties"]
    properties["GlobalSecondaryIndexes"][0]["Projection"] = {"ProjectionType": "KEYS_ONLY"}
    assert update(cfn, changed) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Cannot update GSI's properties other than Provisioned Throughput" in reasons_of(cfn)
    shown = cloud.client("dynamodb").describe_table(TableName=physical(cfn, "T"))["Table"]
    assert [each["IndexName"] for each in shown["GlobalSecondaryIndexes"]] == ["a"]


def reasons_of(cfn: Any) -> str:
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    return "; ".join(event.get("ResourceStatusReason", "") for event in events)


def test_an_attribute_of_another_type_makes_another_table(cloud: InProcessCloud, cfn: Any) -> None:
    assert create(cfn, table("Table")) == "CREATE_COMPLETE"
    before = physical(cfn, "T")
    number = [{"AttributeName": "id", "AttributeType": "N"}]
    body = table("Table", AttributeDefinitions=number)
    made = cfn.create_change_set(StackName="s", ChangeSetName="c", TemplateBody=json.dumps(body))
    wait_until(
        lambda: cfn.describe_change_set(ChangeSetName=made["Id"])["Status"] == "CREATE_COMPLETE",
        what="the change set",
    )
    (change,) = cfn.describe_change_set(ChangeSetName=made["Id"])["Changes"]
    assert change["ResourceChange"]["Replacement"] == "Conditional"
    assert update(cfn, body) == "UPDATE_COMPLETE"
    assert physical(cfn, "T") != before


def test_a_table_is_protected_kept_and_encrypted_as_a_stack_says(
    cloud: InProcessCloud, cfn: Any
) -> None:
    dynamodb = cloud.client("dynamodb")
    said = {
        "DeletionProtectionEnabled": True,
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "SSESpecification": {"SSEEnabled": True},
    }

    def shown() -> tuple[Any, ...]:
        found = dynamodb.describe_table(TableName=name)["Table"]
        backups = dynamodb.describe_continuous_backups(TableName=name)
        recovery = backups["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
        return (
            found["DeletionProtectionEnabled"],
            recovery["PointInTimeRecoveryStatus"],
            "SSEDescription" in found,
        )

    assert create(cfn, table("Table", **said)) == "CREATE_COMPLETE"
    name = physical(cfn, "T")
    assert shown() == (True, "ENABLED", True)
    # Protected, it outlasts its stack's deletion, which fails.
    cfn.delete_stack(StackName="s")
    assert settled(cfn, "s") == "DELETE_FAILED"
    assert shown()[0]
    assert create(cfn, table("Table", **said), name="second") == "CREATE_COMPLETE"
    name = physical(cfn, "T", "second")
    assert update(cfn, table("Table"), name="second") == "UPDATE_COMPLETE"
    assert shown() == (False, "DISABLED", False)
    assert update(cfn, table("Table", **said), name="second") == "UPDATE_COMPLETE"
    assert shown() == (True, "ENABLED", True)
