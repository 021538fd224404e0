"""A stack of many services, and what there is of these services: for tests that kill a cloud while it deploys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

Client = Callable[[str], Any]
Thing = tuple[str, str]

_DOCUMENT = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
_KEY = {
    "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
}
_STATES = {"StartAt": "a", "States": {"a": {"Type": "Succeed"}}}


def resource(kind: str, depends_on: str = "", **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"Type": kind, "Properties": properties}
    return {**found, "DependsOn": depends_on} if depends_on else found


def ref(name: str) -> dict[str, Any]:
    return {"Ref": name}


def arn_of(name: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, "Arn"]}


def first(mark: str = "a") -> dict[str, Any]:
    """Return the template's resources: named and unnamed ones, by headrace and by moto."""
    return {
        "Stream": resource("AWS::Kinesis::Stream", ShardCount=1),
        "Consumer": resource(
            "AWS::Kinesis::StreamConsumer", ConsumerName="c", StreamARN=arn_of("Stream")
        ),
        "Bucket": resource("AWS::S3::Bucket", BucketName=f"of-{mark}"),
        "Queue": resource("AWS::SQS::Queue"),
        "Topic": resource("AWS::SNS::Topic", TopicName=f"topic-{mark}"),
        "Subscription": resource(
            "AWS::SNS::Subscription",
            TopicArn=ref("Topic"),
            Protocol="sqs",
            Endpoint=arn_of("Queue"),
        ),
        "Role": resource("AWS::IAM::Role", AssumeRolePolicyDocument=_TRUST),
        "Policy": resource(
            "AWS::IAM::ManagedPolicy", PolicyDocument=_DOCUMENT, Roles=[ref("Role")]
        ),
        "Function": resource(
            "AWS::Lambda::Function",
            Runtime="python3.13",
            Handler="index.handler",
            Role=arn_of("Role"),
            Code={"ZipFile": "def handler(event, context): pass"},
        ),
        "Version": resource("AWS::Lambda::Version", FunctionName=ref("Function")),
        "Mapping": resource(
            "AWS::Lambda::EventSourceMapping",
            FunctionName=ref("Function"),
            EventSourceArn=arn_of("Stream"),
            StartingPosition="LATEST",
            Enabled=False,
        ),
        "Table": resource("AWS::DynamoDB::Table", BillingMode="PAY_PER_REQUEST", **_KEY),
        "Parameter": resource(
            "AWS::SSM::Parameter", Name=f"parameter-{mark}", Type="String", Value="v"
        ),
        "Machine": resource(
            "AWS::StepFunctions::StateMachine",
            RoleArn=arn_of("Role"),
            DefinitionString=json.dumps(_STATES),
        ),
        "Api": resource("AWS::ApiGateway::RestApi", Name="api"),
        "Key": resource("AWS::KMS::Key", Description="key"),
    }


def second(mark: str = "a") -> dict[str, Any]:
    """Return the resources of an update: some are changed, replaced, renamed, gone, and new."""
    found = first(mark)
    found["Stream"]["Properties"]["RetentionPeriodHours"] = 48
    found["Bucket"]["Properties"]["BucketName"] = f"other-{mark}"
    found["Topic"]["Properties"]["TopicName"] = f"other-{mark}"
    found["Queue"]["Properties"]["VisibilityTimeout"] = 60
    found["Api"]["Properties"]["Description"] = "changed"
    for gone in ("Machine", "Parameter"):
        del found[gone]
    found["Group"] = resource("AWS::Logs::LogGroup", "Bucket")
    found["Handle"] = resource("AWS::SSM::Parameter", "Topic", Type="String", Value="w")
    return found


def failing(mark: str = "a") -> dict[str, Any]:
    """Return the resources of an update that fails after all others."""
    found = second(mark)
    found["Fails"] = resource(
        "AWS::Lambda::Permission",
        "Group",
        FunctionName="nobody",
        Action="lambda:InvokeFunction",
        Principal="s3.amazonaws.com",
    )
    return found


def body(resources: dict[str, Any]) -> str:
    return json.dumps({"Resources": resources})


# The types that one listing is enough for: service, operation, member, key of the id (none: the item is the id).
_LISTINGS = {
    "AWS::Kinesis::Stream": ("kinesis", "list_streams", "StreamNames", ""),
    "AWS::S3::Bucket": ("s3", "list_buckets", "Buckets", "Name"),
    "AWS::SQS::Queue": ("sqs", "list_queues", "QueueUrls", ""),
    "AWS::SNS::Topic": ("sns", "list_topics", "Topics", "TopicArn"),
    "AWS::SNS::Subscription": ("sns", "list_subscriptions", "Subscriptions", "SubscriptionArn"),
    "AWS::IAM::Role": ("iam", "list_roles", "Roles", "RoleName"),
    "AWS::Lambda::Function": ("lambda", "list_functions", "Functions", "FunctionName"),
    "AWS::DynamoDB::Table": ("dynamodb", "list_tables", "TableNames", ""),
    "AWS::SSM::Parameter": ("ssm", "describe_parameters", "Parameters", "Name"),
    "AWS::StepFunctions::StateMachine": (
        "stepfunctions", "list_state_machines", "stateMachines", "stateMachineArn",
    ),
    "AWS::ApiGateway::RestApi": ("apigateway", "get_rest_apis", "items", "id"),
    "AWS::Logs::LogGroup": ("logs", "describe_log_groups", "logGroups", "logGroupName"),
}  # fmt: skip


def _listed(client: Client) -> Iterator[Thing]:
    for kind, (service, operation, member, key) in _LISTINGS.items():
        for item in getattr(client(service), operation)().get(member, ()):
            yield kind, item[key] if key else item
    for policy in client("iam").list_policies(Scope="Local")["Policies"]:
        yield "AWS::IAM::ManagedPolicy", policy["Arn"]
    yield from _inside(client)


def _inside(client: Client) -> Iterator[Thing]:
    """Yield what is listed by what it belongs to, or looked at one by one."""
    for name in client("kinesis").list_streams()["StreamNames"]:
        found = client("kinesis").describe_stream_summary(StreamName=name)
        arn = found["StreamDescriptionSummary"]["StreamARN"]
        for consumer in client("kinesis").list_stream_consumers(StreamARN=arn)["Consumers"]:
            yield "AWS::Kinesis::StreamConsumer", consumer["ConsumerARN"]
    for function in client("lambda").list_functions()["Functions"]:
        name = function["FunctionName"]
        for version in client("lambda").list_versions_by_function(FunctionName=name)["Versions"]:
            if version["Version"] != "$LATEST":
                yield "AWS::Lambda::Version", version["FunctionArn"]
    for mapping in client("lambda").list_event_source_mappings()["EventSourceMappings"]:
        if mapping["State"] != "Deleting":
            yield "AWS::Lambda::EventSourceMapping", mapping["UUID"]
    for key in client("kms").list_keys()["Keys"]:
        described = client("kms").describe_key(KeyId=key["KeyId"])["KeyMetadata"]
        if described["KeyState"] == "Enabled":
            yield "AWS::KMS::Key", key["KeyId"]


def things(client: Client) -> set[Thing]:
    """Return everything that there is of the template's types."""
    return set(_listed(client))


def owned(client: Client) -> set[Thing]:
    """Return what the stacks say that they have."""
    cfn = client("cloudformation")
    found: set[Thing] = set()
    for stack in cfn.describe_stacks()["Stacks"]:
        for each in cfn.describe_stack_resources(StackName=stack["StackId"])["StackResources"]:
            if not each["ResourceStatus"].startswith("DELETE"):
                found.add((each["ResourceType"], each.get("PhysicalResourceId", "")))
    return {thing for thing in found if thing[0] != "AWS::CloudFormation::Stack"}


def check(client: Client, what: str) -> None:
    """Fail unless what there is, is what stacks have: nothing is lost, and nothing is left that no stack knows."""
    there, known = things(client), owned(client)
    assert there - known == set(), (what, "no stack has it", there - known, failures(client))
    assert known - there == set(), (what, "it is lost", known - there, failures(client))


def failures(client: Client) -> list[tuple[str, str, str]]:
    """Return what failed in the stacks that there are and were: resource, status, reason."""
    cfn = client("cloudformation")
    return [
        (event["LogicalResourceId"], event["ResourceStatus"], event.get("ResourceStatusReason", ""))
        for stack in cfn.list_stacks()["StackSummaries"]
        for event in cfn.describe_stack_events(StackName=stack["StackId"])["StackEvents"]
        if event["ResourceStatus"].endswith("FAILED")
    ]
