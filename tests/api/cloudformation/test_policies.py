"""What is done with a resource that goes or changes: snapshots, and deployments of aliases."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.cloudformation import backend
from headrace.services.cloudformation.deployment import alias_deployments
from headrace.services.cloudformation.deployment.alias_deployments import execution_id
from headrace.services.cloudformation.deployment.resource_states import default_policy
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources import (
    declared,
    list_declared_types,
    resource_type,
)
from tests.api.cloudformation.test_stacks import create, refused, settled, template, update
from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("policies") / "data") as cloud:
        yield cloud


@pytest.fixture(scope="module")
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")


def cache(name: str, **policies: str) -> dict[str, Any]:
    properties = {
        "ClusterName": name, "CacheNodeType": "cache.t3.micro", "Engine": "redis", "NumCacheNodes": 1,
    }  # fmt: skip
    return {"Type": "AWS::ElastiCache::CacheCluster", "Properties": properties, **policies}


# --- what goes --------------------------------------------------------------------------------


def test_a_snapshot_is_taken_of_what_is_replaced_and_of_what_is_deleted(
    cloud: InProcessCloud, cfn: Any
):
    caches = cloud.client("elasticache")
    kept = {"DeletionPolicy": "Snapshot", "UpdateReplacePolicy": "Snapshot"}

    def shown() -> tuple[list[str], list[str]]:
        clusters = caches.describe_cache_clusters()["CacheClusters"]
        snapshots = caches.describe_snapshots()["Snapshots"]
        return (
            [each["CacheClusterId"] for each in clusters],
            [each["CacheClusterId"] for each in snapshots],
        )

    assert create(cfn, template(C=cache("one", **kept))) == "CREATE_COMPLETE"
    body = json.dumps(template(C=cache("two", **kept)))
    cfn.create_change_set(StackName="s", ChangeSetName="c", TemplateBody=body)
    change = cfn.describe_change_set(StackName="s", ChangeSetName="c")["Changes"][0]
    assert change["ResourceChange"]["PolicyAction"] == "ReplaceAndSnapshot"
    cfn.execute_change_set(StackName="s", ChangeSetName="c")
    assert settled(cfn, "s") == "UPDATE_COMPLETE"
    assert shown() == (["two"], ["one"])
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    assert settled(cfn, stack_id) == "DELETE_COMPLETE"
    assert shown() == ([], ["one", "two"])
    names = [each["SnapshotName"] for each in caches.describe_snapshots()["Snapshots"]]
    assert all(name.startswith("s-snapshot-c-") for name in names)


def test_a_deleted_replication_group_is_gone(cloud: InProcessCloud):
    caches = cloud.client("elasticache")
    caches.create_replication_group(ReplicationGroupId="r", ReplicationGroupDescription="d")
    caches.delete_replication_group(ReplicationGroupId="r")
    assert caches.describe_replication_groups()["ReplicationGroups"] == []


def test_what_cannot_be_made_again_under_its_name_leaves_what_there_was(
    cloud: InProcessCloud, cfn: Any, monkeypatch: pytest.MonkeyPatch
):
    made = declared._Maker.create

    def refuse(maker: Any, context: Any, properties: dict[str, Any]) -> Any:
        if properties.get("Port") == 1:
            raise ResourceFailed("not this port")
        return made(maker, context, properties)

    # moto has no call that changes a cluster: it is deleted and made again.
    monkeypatch.setattr(declared._Maker, "create", refuse)
    stays, goes = cache("stays"), cache("stays")
    goes["Properties"]["Port"] = 1
    assert create(cfn, template(C=stays), "stays") == "CREATE_COMPLETE"
    assert update(cfn, template(C=goes), "stays") == "UPDATE_ROLLBACK_COMPLETE"
    clusters = cloud.client("elasticache").describe_cache_clusters()["CacheClusters"]
    assert [each["CacheClusterId"] for each in clusters] == ["stays"]


def test_a_warehouse_is_never_deleted_to_be_made_again():
    warehouse = list_declared_types()["AWS::Redshift::Cluster"]
    kind = resource_type(warehouse.type)
    assert kind is not None
    assert not warehouse.can_be_recreated
    assert not kind.replaces("NumberOfNodes")
    assert kind.replaces("MasterUsername")


@pytest.mark.parametrize(
    ("kind", "properties", "policy"),
    [
        ("AWS::RDS::DBInstance", {}, "Snapshot"),
        ("AWS::RDS::DBInstance", {"DBClusterIdentifier": "c"}, "Delete"),
        ("AWS::RDS::DBCluster", {}, "Snapshot"),
        ("AWS::Redshift::Cluster", {}, "Delete"),
    ],
)
def test_databases_go_with_a_snapshot_unless_a_template_says_otherwise(
    kind: str, properties: dict[str, str], policy: str
):
    assert default_policy({"Type": kind, "Properties": properties}) == policy


@pytest.mark.parametrize(
    ("policies", "sentence"),
    [
        ({"DeletionPolicy": "Keep"}, "Template format error: Unrecognized DeletionPolicy Keep for resource Q"),
        (
            {"UpdateReplacePolicy": "RetainExceptOnCreate"},
            "Template format error: Unrecognized UpdateReplacePolicy RetainExceptOnCreate for resource Q",
        ),
        (
            {"DeletionPolicy": {"Ref": "AWS::Region"}},
            "Template format error: Every DeletionPolicy member must be a string.",
        ),
        (
            {"DeletionPolicy": "Snapshot"},
            "Template error: resource type AWS::SQS::Queue does not support deletion policy Snapshot",
        ),
    ],
)  # fmt: skip
def test_policies_that_aws_does_not_know_are_refused(cfn: Any, policies: Any, sentence: str):
    body = json.dumps(template(Q={"Type": "AWS::SQS::Queue", **policies}))
    assert refused(cfn.create_stack, StackName="no", TemplateBody=body) == (
        "ValidationError",
        sentence,
    )


def test_metadata_waits_for_what_it_names(cfn: Any):
    first = {"Type": "AWS::SQS::Queue", "Metadata": {"After": {"Ref": "B"}, "Own": "{}"}}
    assert create(cfn, template(A=first, B={"Type": "AWS::SQS::Queue"}), "told") == (
        "CREATE_COMPLETE"
    )
    events = cfn.describe_stack_events(StackName="told")["StackEvents"]
    done = [e["LogicalResourceId"] for e in events if e["ResourceStatus"] == "CREATE_COMPLETE"]
    assert done == ["told", "A", "B"]


def test_a_macro_of_a_name_that_was_free_again_is_made(cfn: Any):
    macro = {
        "Type": "AWS::CloudFormation::Macro",
        "Properties": {"Name": "Again", "FunctionName": "arn:aws:lambda:us-east-1:1:function:f"},
    }
    for name in ("first", "second"):
        assert create(cfn, template(M=macro), name) == "CREATE_COMPLETE"
        found = cfn.describe_stack_resources(PhysicalResourceId="Again")["StackResources"]
        assert [each["StackName"] for each in found] == [name]
        assert create(cfn, template(M=macro), f"{name}-too") == "ROLLBACK_COMPLETE"
        cfn.delete_stack(StackName=f"{name}-too")
        stack_id = cfn.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        cfn.delete_stack(StackName=name)
        assert settled(cfn, stack_id) == "DELETE_COMPLETE"


# --- an alias that is deployed ----------------------------------------------------------------


def function(version: str, hook: str) -> dict[str, Any]:
    trust = {
        "Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole",
    }  # fmt: skip
    role = {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}}
    policy = {
        "ApplicationName": {"Ref": "Application"},
        "DeploymentGroupName": {"Ref": "Group"},
        "BeforeAllowTrafficHook": hook,
    }
    arn = {"Fn::GetAtt": ["Role", "Arn"]}
    return template(
        Role={"Type": "AWS::IAM::Role", "Properties": role},
        Function={
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Runtime": "python3.13", "Handler": "index.handler", "Role": arn, "Description": version,
                "Code": {"ZipFile": "def handler(event, context): pass"},
            },
        },
        **{
            f"Version{version}": {
                "Type": "AWS::Lambda::Version",
                "Properties": {"FunctionName": {"Ref": "Function"}},
            }
        },
        Application={
            "Type": "AWS::CodeDeploy::Application", "Properties": {"ComputePlatform": "Lambda"},
        },
        Group={
            "Type": "AWS::CodeDeploy::DeploymentGroup",
            "Properties": {"ApplicationName": {"Ref": "Application"}, "ServiceRoleArn": arn},
        },
        Alias={
            "Type": "AWS::Lambda::Alias",
            "Properties": {
                "FunctionName": {"Ref": "Function"},
                "Name": "live",
                "FunctionVersion": {"Fn::GetAtt": [f"Version{version}", "Version"]},
            },
            "UpdatePolicy": {"CodeDeployLambdaAliasUpdate": policy},
        },
    )  # fmt: skip


def test_an_alias_moves_when_its_hook_says_so(
    cloud: InProcessCloud, cfn: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backend, "ANSWER_WITHIN_S", 0.0)
    asked = threading.Semaphore(0)
    # What a hook does, the test does after it: functions of a cloud in process reach no endpoint.
    monkeypatch.setattr(alias_deployments, "_invoke", lambda *_: asked.release())
    codedeploy, iam = cloud.client("codedeploy"), {"Capabilities": ["CAPABILITY_IAM"]}
    assert create(cfn, function("1", "hook"), "live", **iam) == "CREATE_COMPLETE"
    stack_id = cfn.describe_stacks(StackName="live")["Stacks"][0]["StackId"]
    given = execution_id(stack_id, "Alias", "BeforeAllowTrafficHook")

    def versions() -> str:
        found = cfn.describe_stack_resource(StackName="live", LogicalResourceId="Function")
        name = found["StackResourceDetail"]["PhysicalResourceId"]
        alias = cloud.client("lambda").get_alias(FunctionName=name, Name="live")
        return str(alias["FunctionVersion"])

    def moves(version: str, answer: str) -> str:
        body = json.dumps(function(version, "hook"))
        cfn.update_stack(StackName="live", TemplateBody=body, **iam)
        assert asked.acquire(timeout=20)
        hook = {"deploymentId": "d-1", "lifecycleEventHookExecutionId": given}
        codedeploy.put_lifecycle_event_hook_execution_status(**hook, status=answer)
        return settled(cfn, "live")

    assert versions() == "1"
    assert moves("2", "Succeeded") == "UPDATE_COMPLETE"
    assert versions() == "2"
    assert moves("3", "Failed") == "UPDATE_ROLLBACK_COMPLETE"
    assert versions() == "2"
    wrong = {"deploymentId": "d-1", "lifecycleEventHookExecutionId": given, "status": "Succeeded"}
    assert refused(codedeploy.put_lifecycle_event_hook_execution_status, **wrong)[0] == (
        "InvalidLifecycleEventHookExecutionIdException"
    )
