"""StackSets with self-managed permissions: instances in accounts and regions, updates, failures, deletion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.services.cloudformation.actions import stack_sets
from headrace.services.cloudformation.stack_sets import (
    ADMINISTRATION_ROLE,
    EXECUTION_ROLE,
    StackSets,
)
from tests.api.cloudformation.test_stacks import create, refused, template
from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

OTHER = "111122223333"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "cloudformation.amazonaws.com"},
        }
    ],
}
TEMPLATE = {
    "Parameters": {"Seconds": {"Type": "Number", "Default": 30}},
    "Resources": {
        "Queue": {
            "Type": "AWS::SQS::Queue",
            "Properties": {"QueueName": "of-set", "VisibilityTimeout": {"Ref": "Seconds"}},
        }
    },
}
BODY = json.dumps(TEMPLATE)


def add_roles(cloud: InProcessCloud, account: str, *names: str) -> None:
    iam = cloud.client("iam", account=account)
    for name in names:
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))


def ended(cfn: Any, answer: dict[str, Any], name: str = "s") -> str:
    """Wait for the end of an operation and return its status."""

    def status() -> str:
        described = cfn.describe_stack_set_operation(
            StackSetName=name, OperationId=answer["OperationId"]
        )
        return described["StackSetOperation"]["Status"]

    wait_until(lambda: status() not in ("RUNNING", "STOPPING"))
    return status()


def timeout_of(cloud: InProcessCloud, account: str, region: str) -> str:
    sqs = cloud.client("sqs", account=account, region=region)
    url = sqs.get_queue_url(QueueName="of-set")["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return attributes["VisibilityTimeout"]


def test_a_set_s_stacks_are_created_changed_and_deleted(cloud: InProcessCloud, cfn: Any) -> None:
    add_roles(cloud, ACCOUNT, ADMINISTRATION_ROLE, EXECUTION_ROLE)
    add_roles(cloud, OTHER, EXECUTION_ROLE)
    made = cfn.create_stack_set(StackSetName="s", TemplateBody=BODY, Description="d")
    assert cfn.describe_stack_set(StackSetName="s")["StackSet"]["StackSetId"] == made["StackSetId"]
    regions = ["eu-west-1", "us-east-1"]
    answer = cfn.create_stack_instances(
        StackSetName="s",
        Accounts=[ACCOUNT, OTHER],
        Regions=regions,
        ParameterOverrides=[{"ParameterKey": "Seconds", "ParameterValue": "40"}],
    )
    assert ended(cfn, answer) == "SUCCEEDED"
    rows = cfn.list_stack_instances(StackSetName="s")["Summaries"]
    assert {(row["Account"], row["Region"]) for row in rows} == {
        (account, region) for account in (ACCOUNT, OTHER) for region in regions
    }
    assert {row["Status"] for row in rows} == {"CURRENT"}
    assert rows[0]["StackId"].split("/")[1].startswith("StackSet-s-")
    assert timeout_of(cloud, OTHER, "eu-west-1") == "40"

    answer = cfn.update_stack_instances(
        StackSetName="s", Accounts=[OTHER], Regions=["eu-west-1"], ParameterOverrides=[]
    )
    assert ended(cfn, answer) == "SUCCEEDED"
    assert timeout_of(cloud, OTHER, "eu-west-1") == "30"
    changed = BODY.replace('"Default": 30', '"Default": 50')
    answer = cfn.update_stack_set(StackSetName="s", TemplateBody=changed)
    assert ended(cfn, answer) == "SUCCEEDED"
    assert timeout_of(cloud, OTHER, "eu-west-1") == "50"
    assert timeout_of(cloud, ACCOUNT, "us-east-1") == "40"

    assert refused(cfn.delete_stack_set, StackSetName="s")[0] == "StackSetNotEmptyException"
    answer = cfn.delete_stack_instances(
        StackSetName="s", Accounts=[OTHER], Regions=regions, RetainStacks=True
    )
    assert ended(cfn, answer) == "SUCCEEDED"
    assert timeout_of(cloud, OTHER, "eu-west-1") == "50"
    answer = cfn.delete_stack_instances(
        StackSetName="s", Accounts=[ACCOUNT], Regions=regions, RetainStacks=False
    )
    assert ended(cfn, answer) == "SUCCEEDED"
    assert refused(lambda: timeout_of(cloud, ACCOUNT, "us-east-1"))[0].endswith("NonExistentQueue")
    cfn.delete_stack_set(StackSetName="s")
    assert refused(cfn.describe_stack_set, StackSetName="s")[0] == "StackSetNotFoundException"
    actions = [row["Status"] for row in cfn.list_stack_sets()["Summaries"]]
    assert actions == ["DELETED"]


def test_missing_roles_and_failed_stacks_fail_an_operation(cloud: InProcessCloud, cfn: Any) -> None:
    cfn.create_stack_set(StackSetName="s", TemplateBody=BODY)
    target = {"StackSetName": "s", "Accounts": [ACCOUNT], "Regions": ["us-east-1", "us-west-2"]}
    assert refused(cfn.create_stack_instances, **target) == (
        "ValidationError",
        (
            f"Account {ACCOUNT} should have '{ADMINISTRATION_ROLE}' role with trust relationship to"
            " CloudFormation service."
        ),
    )
    add_roles(cloud, ACCOUNT, ADMINISTRATION_ROLE)
    answer = cfn.create_stack_instances(**target)
    assert ended(cfn, answer) == "FAILED"
    named = {"StackSetName": "s", "OperationId": answer["OperationId"]}
    results = cfn.list_stack_set_operation_results(**named)["Summaries"]
    assert [(row["Region"], row["Status"]) for row in results] == [
        ("us-east-1", "FAILED"),
        ("us-west-2", "CANCELLED"),
    ]
    assert results[0]["StatusReason"].startswith(f"Account {ACCOUNT} should have '{EXECUTION_ROLE}")

    add_roles(cloud, ACCOUNT, EXECUTION_ROLE)
    sqs = cloud.client("sqs")
    taken = sqs.create_queue(QueueName="of-set", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    answer = cfn.create_stack_instances(**target, OperationPreferences={"FailureToleranceCount": 1})
    # One failure is tolerated: the other region is done, and the operation has succeeded.
    assert ended(cfn, answer) == "SUCCEEDED"
    by_region = {
        row["Region"]: row for row in cfn.list_stack_instances(StackSetName="s")["Summaries"]
    }
    assert by_region["us-west-2"]["Status"] == "CURRENT"
    assert by_region["us-east-1"]["Status"] == "OUTDATED"
    assert by_region["us-east-1"]["StatusReason"].startswith(
        "ResourceLogicalId:Queue, ResourceType:AWS::SQS::Queue, ResourceStatusReason:"
    )
    sqs.delete_queue(QueueUrl=taken)
    # A stack that could only be deleted is made anew.
    assert (
        ended(cfn, cfn.update_stack_set(StackSetName="s", UsePreviousTemplate=True)) == "SUCCEEDED"
    )
    assert timeout_of(cloud, ACCOUNT, "us-east-1") == "30"


def has_ended(stack: dict[str, Any]) -> bool:
    return not stack["StackStatus"].endswith("_IN_PROGRESS")


def test_an_operation_goes_on_after_a_restart(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path) as cloud:
        add_roles(cloud, ACCOUNT, ADMINISTRATION_ROLE, EXECUTION_ROLE)
        cfn = cloud.client("cloudformation")
        cfn.create_stack_set(StackSetName="s", TemplateBody=BODY)
        with pytest.MonkeyPatch.context() as patch:
            # As a kill right after the request leaves it: stored, and nothing begun.
            patch.setattr(StackSets, "start", lambda sets, _, operation: sets.save(operation))
            answer = cfn.create_stack_instances(
                StackSetName="s", Accounts=[ACCOUNT], Regions=["us-east-1"]
            )
    with InProcessCloud(tmp_path) as cloud:
        assert ended(cloud.client("cloudformation"), answer) == "SUCCEEDED"
        assert timeout_of(cloud, ACCOUNT, "us-east-1") == "30"


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ({"PermissionModel": "SERVICE_MANAGED"}, "self-managed"),
        ({"AutoDeployment": {"Enabled": True}}, "self-managed"),
        ({"CallAs": "DELEGATED_ADMIN"}, "delegated administrators"),
        ({"Parameters": [{"ParameterKey": "No", "ParameterValue": "1"}]}, "do not exist"),
    ],
)
def test_what_needs_an_organization_is_refused(
    cfn: Any, members: dict[str, Any], word: str
) -> None:
    refusal = refused(cfn.create_stack_set, StackSetName="s", TemplateBody=BODY, **members)
    assert refusal[0] == "ValidationError"
    assert word in refusal[1]


def test_a_set_is_a_resource_of_a_stack(
    cloud: InProcessCloud, cfn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its deletion finds the instances on every page.
    monkeypatch.setattr(stack_sets, "PAGE_ITEMS", 1)
    add_roles(cloud, ACCOUNT, ADMINISTRATION_ROLE, EXECUTION_ROLE)

    def stack(*regions: str, seconds: str = "30") -> dict[str, Any]:
        group = {
            "DeploymentTargets": {"Accounts": [{"Ref": "AWS::AccountId"}]},
            "Regions": list(regions),
            "ParameterOverrides": [{"ParameterKey": "Seconds", "ParameterValue": seconds}],
        }
        properties = {
            "StackSetName": "in-stack",
            "PermissionModel": "SELF_MANAGED",
            "TemplateBody": BODY,
            "StackInstancesGroup": [group],
        }
        return template(Set={"Type": "AWS::CloudFormation::StackSet", "Properties": properties})

    status = create(cfn, stack("us-east-1"))
    assert status == "CREATE_COMPLETE", [
        event.get("ResourceStatusReason")
        for event in cfn.describe_stack_events(StackName="s")["StackEvents"]
    ]
    assert timeout_of(cloud, ACCOUNT, "us-east-1") == "30"
    changed = json.dumps(stack("us-east-1", "eu-west-1", seconds="60"))
    cfn.update_stack(StackName="s", TemplateBody=changed)
    wait_until(
        lambda: cfn.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"] == "UPDATE_COMPLETE"
    )
    assert [timeout_of(cloud, ACCOUNT, r) for r in ("us-east-1", "eu-west-1")] == ["60", "60"]
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    wait_until(lambda: has_ended(cfn.describe_stacks(StackName=stack_id)["Stacks"][0]))
    assert [r["Status"] for r in cfn.list_stack_sets()["Summaries"]] == ["DELETED"]
