"""Cloud Control's models of a stack's resources, with the tags and members that AWS was recorded to show.

Recorded: go-to-k/cdk-real-drift, tests/corpus (2026-06-13 to 2026-07-13). The stack's own tags are documented
(API_UpdateStack, Tags), and so is that each type's model has its tags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.cloudcontrol.test_cloudcontrol import patch, read
from tests.api.cloudformation.test_declared import detect, drifts
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": ["lambda.amazonaws.com", "pipes.amazonaws.com"]},
            "Action": "sts:AssumeRole",
        }
    ],
}
_STATES = json.dumps({"StartAt": "A", "States": {"A": {"Type": "Pass", "End": True}}})
_SETTING = {"HttpMethod": "*", "ResourcePath": "/*", "ThrottlingBurstLimit": 50}


def _arn(name: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, "Arn"]}


_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Role": ("AWS::IAM::Role", {"RoleName": "r", "AssumeRolePolicyDocument": _TRUST}),
    "Stream": ("AWS::Kinesis::Stream", {"Name": "in", "ShardCount": 1}),
    "Consumer": (
        "AWS::Kinesis::StreamConsumer",
        {"ConsumerName": "c", "StreamARN": _arn("Stream")},
    ),
    "Function": (
        "AWS::Lambda::Function",
        {
            "FunctionName": "f",
            "Runtime": "python3.12",
            "Handler": "index.handler",
            "Role": _arn("Role"),
            "Code": {"ZipFile": "def handler(event, context): pass"},
        },
    ),
    "Other": (
        "AWS::Lambda::Function",
        {
            "FunctionName": "other",
            "Runtime": "python3.12",
            "Handler": "index.handler",
            "Role": _arn("Role"),
            "Code": {"ZipFile": "def handler(event, context): pass"},
        },
    ),
    "Mapping": (
        "AWS::Lambda::EventSourceMapping",
        {
            "FunctionName": {"Ref": "Function"},
            "EventSourceArn": _arn("Stream"),
            "StartingPosition": "LATEST",
        },
    ),
    "Bus": ("AWS::Events::EventBus", {"Name": "b"}),
    "Rule": ("AWS::Events::Rule", {"Name": "ru", "EventPattern": {"source": ["a"]}}),
    "Logs": ("AWS::Logs::LogGroup", {"LogGroupName": "/l"}),
    "Machine": (
        "AWS::StepFunctions::StateMachine",
        {"StateMachineName": "m", "RoleArn": _arn("Role"), "DefinitionString": _STATES},
    ),
    "Api": ("AWS::ApiGateway::RestApi", {"Name": "a"}),
    "Method": (
        "AWS::ApiGateway::Method",
        {
            "RestApiId": {"Ref": "Api"},
            "ResourceId": {"Fn::GetAtt": ["Api", "RootResourceId"]},
            "HttpMethod": "GET",
            "AuthorizationType": "NONE",
            "Integration": {"Type": "MOCK"},
        },
    ),
    "Deployment": ("AWS::ApiGateway::Deployment", {"RestApiId": {"Ref": "Api"}}),
    "Stage": (
        "AWS::ApiGateway::Stage",
        {
            "RestApiId": {"Ref": "Api"},
            "DeploymentId": {"Ref": "Deployment"},
            "StageName": "prod",
            "MethodSettings": [_SETTING],
        },
    ),
    "Source": ("AWS::SQS::Queue", {"QueueName": "s"}),
    "Target": ("AWS::SQS::Queue", {"QueueName": "t"}),
    "Pipe": (
        "AWS::Pipes::Pipe",
        {"Name": "p", "RoleArn": _arn("Role"), "Source": _arn("Source"), "Target": _arn("Target")},
    ),
    "Table": (
        "AWS::DynamoDB::Table",
        {
            "TableName": "t",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": n, "AttributeType": "S"} for n in "kg"],
            "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "i",
                    "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        },
    ),
}
_SYSTEM = {f"aws:cloudformation:{name}" for name in ("stack-name", "stack-id", "logical-id")}
_WITH_SYSTEM_TAGS = {"Api", "Function", "Logs", "Mapping", "Rule", "Stage"}
_TAGGED = {"Bus", "Consumer", "Function", "Logs", "Machine", "Role", "Stream", "Table"}
_OFF = {"Enabled": False}


def _deploy(cloud: InProcessCloud, of_stack: dict[str, str]) -> dict[str, str]:
    """Make the stack, and return the physical ids by name."""
    cfn = cloud.client("cloudformation")
    resources: dict[str, Any] = {
        name: {"Type": kind, "Properties": properties}
        for name, (kind, properties) in _KINDS.items()
    }
    resources["Deployment"]["DependsOn"] = ["Method"]
    cfn.create_stack(
        StackName="s",
        TemplateBody=json.dumps({"Resources": resources}),
        Tags=[{"Key": key, "Value": value} for key, value in of_stack.items()],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    fast = {"Delay": 0, "MaxAttempts": 400}
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=fast)
    listed = cfn.describe_stack_resources(StackName="s")["StackResources"]
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed}


class _Models:
    """The models of the stack's resources, by logical id."""

    def __init__(self, cloud: InProcessCloud, of_stack: dict[str, str]) -> None:
        self.cloud, self.control = cloud, cloud.client("cloudcontrol")
        self.ids = _deploy(cloud, of_stack)
        self.ids["Stage"] = f"{self.ids['Api']}|{self.ids['Stage']}"

    def of(self, name: str) -> dict[str, Any]:
        return read(self.control, _KINDS[name][0], self.ids[name])

    def patch(self, name: str, *operations: dict[str, Any]) -> dict[str, Any]:
        return patch(self.control, _KINDS[name][0], self.ids[name], *operations)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Models]:
    with InProcessCloud(tmp_path_factory.mktemp("tagged") / "data") as cloud:
        yield _Models(cloud, {"team": "water"})


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Models]:
    with InProcessCloud(tmp_path_factory.mktemp("plain") / "data") as cloud:
        yield _Models(cloud, {})


@pytest.mark.parametrize("name", sorted(_TAGGED | _WITH_SYSTEM_TAGS))
def test_a_model_has_its_stacks_tags(tagged: _Models, name: str) -> None:
    tags = {tag["Key"]: tag["Value"] for tag in tagged.of(name)["Tags"]}
    assert tags.pop("team") == "water"
    assert tags.keys() == (_SYSTEM if name in _WITH_SYSTEM_TAGS else set())


def test_without_tags_a_model_shows_what_aws_was_recorded_to_show(plain: _Models) -> None:
    assert plain.of("Table")["Tags"] == []
    assert "Tags" not in plain.of("Pipe")
    assert {tag["Key"] for tag in plain.of("Rule")["Tags"]} == _SYSTEM


def test_models_have_the_members_of_aws_s_recordings(plain: _Models) -> None:
    table = plain.of("Table")
    assert table["ContributorInsightsSpecification"] == _OFF
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["ContributorInsightsSpecification"] == _OFF
    assert index["WarmThroughput"] == table["WarmThroughput"]
    assert "TableId" not in table
    pipe = plain.of("Pipe")
    assert (pipe["StateReason"], pipe["EnrichmentParameters"]) == ("USER_INITIATED", {})
    api = plain.of("Api")
    assert api["SecurityPolicy"] == "TLS_1_0"
    assert api["EndpointConfiguration"] == {"IpAddressType": "ipv4", "Types": ["EDGE"]}
    rule = plain.of("Rule")
    assert rule["Id"] == "ru"
    assert "RuleName" not in rule
    assert plain.of("Stage")["MethodSettings"] == [
        {
            **_SETTING,
            "CacheDataEncrypted": False,
            "CacheTtlInSeconds": 300,
            "CachingEnabled": False,
            "DataTraceEnabled": False,
            "MetricsEnabled": False,
            "ThrottlingRateLimit": 10000,
        }
    ]
    snap_start = plain.of("Function")["SnapStartResponse"]
    assert snap_start == {"ApplyOn": "None", "OptimizationStatus": "Off"}


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("Api", "/Description", "d"),
        ("Mapping", "/BatchSize", 10),
        ("Pipe", "/Description", "d"),
        ("Rule", "/Description", "d"),
        ("Stage", "/Description", "d"),
        ("Table", "/DeletionProtectionEnabled", True),
        ("Function", "/Description", "d"),
    ],
)
def test_a_patch_changes_its_member_alone(
    tagged: _Models, name: str, path: str, value: object
) -> None:
    before = tagged.of(name)
    event = tagged.patch(name, {"op": "add", "path": path, "value": value})
    assert event["OperationStatus"] == "SUCCESS", event
    # An update of a pipe always sends its log configuration, which switches the log off.
    unlike = {"LastModifiedTime", "CreationTime", "LogConfiguration"}
    seen, expected = tagged.of(name), {**before, path[1:]: value}
    for model in (seen, expected):
        model["Tags"] = sorted(json.dumps(tag) for tag in model.get("Tags", ()))
    assert {n: v for n, v in seen.items() if n not in unlike} == {
        n: v for n, v in expected.items() if n not in unlike
    }


@pytest.mark.parametrize("name", ["Mapping", "Rule"])
def test_a_patch_of_all_tags_leaves_cloudformations(tagged: _Models, name: str) -> None:
    own = [{"Key": "team", "Value": "sea"}]
    event = tagged.patch(name, {"op": "replace", "path": "/Tags", "value": own})
    assert event["OperationStatus"] == "SUCCESS", event
    tags = {tag["Key"]: tag["Value"] for tag in tagged.of(name)["Tags"]}
    assert tags.pop("team") == "sea"
    assert tags.keys() == _SYSTEM


def test_a_mapping_is_in_sync_with_its_functions_name_until_another_hand_changes_it(
    plain: _Models,
) -> None:
    cfn, name = plain.cloud.client("cloudformation"), "Mapping"
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:"
    assert plain.of(name)["FunctionName"] == f"{arn}f"
    assert detect(cfn, "s")["StackDriftStatus"] == "IN_SYNC"
    lambda_ = plain.cloud.client("lambda")
    lambda_.update_event_source_mapping(UUID=plain.ids[name], FunctionName="other")
    assert detect(cfn, "s")["StackDriftStatus"] == "DRIFTED"
    (difference,) = drifts(cfn, "s", "MODIFIED")[name]["PropertyDifferences"]
    assert difference == {
        "PropertyPath": "/FunctionName",
        "ExpectedValue": "f",
        "ActualValue": f"{arn}other",
        "DifferenceType": "NOT_EQUAL",
    }


@pytest.mark.parametrize("path", ["/*", "/", "/~1a~1b", "/a/b"])
def test_a_stages_method_settings_drift(plain: _Models, path: str) -> None:
    cfn, apis = plain.cloud.client("cloudformation"), plain.cloud.client("apigateway")
    setting = {"ResourcePath": path, "HttpMethod": "*", "LoggingLevel": "INFO"}
    name = f"stage-{len(path)}"
    api, deployment = plain.ids["Api"], plain.ids["Deployment"]
    given = {"RestApiId": api, "DeploymentId": deployment, "StageName": name.replace("-", "_")}
    stage = {**given, "MethodSettings": [{**setting, "ThrottlingRateLimit": 100}]}
    body = {"Resources": {"Stage": {"Type": "AWS::ApiGateway::Stage", "Properties": stage}}}
    cfn.create_stack(StackName=name, TemplateBody=json.dumps(body))
    fast = {"Delay": 0, "MaxAttempts": 400}
    cfn.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig=fast)
    assert detect(cfn, name)["StackDriftStatus"] == "IN_SYNC"
    (key,) = apis.get_stage(restApiId=api, stageName=given["StageName"])["methodSettings"]
    change = {"op": "replace", "path": f"/{key}/throttling/rateLimit", "value": "7"}
    apis.update_stage(restApiId=api, stageName=given["StageName"], patchOperations=[change])
    assert detect(cfn, name)["StackDriftStatus"] == "DRIFTED"
    (difference,) = drifts(cfn, name, "MODIFIED")["Stage"]["PropertyDifferences"]
    assert difference == {
        "PropertyPath": "/MethodSettings/0/ThrottlingRateLimit",
        "ExpectedValue": "100",
        "ActualValue": "7",
        "DifferenceType": "NOT_EQUAL",
    }
