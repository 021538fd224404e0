"""Imports: stacks that take over resources made by other hands, and what of them is refused.

AWS's sentences were observed by users of CloudFormation and of the CDK CLI (whose errors quote them); those that are
assumed are marked so in `imports.py`. The life of an import: the user guide, resource-import.html (documented).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.cloudformation.test_stacks import create, physical, refused, settled, update
from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("imports")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")


def of(kind: str, policy: str = "Retain", **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "DeletionPolicy": policy, "Properties": properties}


def stream(name: str, **more: Any) -> dict[str, Any]:
    return of("AWS::Kinesis::Stream", Name=name, ShardCount=1, **more)


def asked(kind: str, logical_id: str, **identifier: str) -> dict[str, Any]:
    return {"ResourceType": kind, "LogicalResourceId": logical_id, "ResourceIdentifier": identifier}


def propose(cfn: Any, name: str, resources: Any, to_import: Any, **more: Any) -> dict[str, Any]:
    """Make a change set of type IMPORT and return its description."""
    cfn.create_change_set(
        StackName=name,
        ChangeSetName="import",
        ChangeSetType="IMPORT",
        TemplateBody=json.dumps({"Resources": resources, **more.pop("sections", {})}),
        ResourcesToImport=to_import,
        **more,
    )
    return dict(cfn.describe_change_set(StackName=name, ChangeSetName="import"))


def execute(cfn: Any, name: str, change_set: str = "import") -> str:
    cfn.execute_change_set(StackName=name, ChangeSetName=change_set)
    return settled(cfn, name)


def refusal(cfn: Any, name: str, resources: Any, to_import: Any, **sections: Any) -> str:
    _, message = refused(
        cfn.create_change_set,
        StackName=name,
        ChangeSetName="import",
        ChangeSetType="IMPORT",
        TemplateBody=json.dumps({"Resources": resources, **sections}),
        ResourcesToImport=to_import,
    )
    return message


def test_a_bucket_a_stream_a_queue_a_topic_and_a_table_are_taken_over(
    cloud: InProcessCloud, cfn: Any
):
    cloud.client("s3").create_bucket(Bucket="taken-bucket")
    cloud.client("kinesis").create_stream(StreamName="taken", ShardCount=1)
    url = cloud.client("sqs").create_queue(QueueName="taken")["QueueUrl"]
    topic = cloud.client("sns").create_topic(Name="taken")["TopicArn"]
    table = {
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    cloud.client("dynamodb").create_table(TableName="taken", **table)
    resources = {
        "B": of("AWS::S3::Bucket", BucketName="taken-bucket"),
        "S": stream("taken"),
        "Q": of("AWS::SQS::Queue", QueueName="taken"),
        "T": of("AWS::SNS::Topic", TopicName="taken"),
        "D": of("AWS::DynamoDB::Table", TableName="taken", **table),
    }
    values = {"S": "Arn", "Q": "Arn", "D": "Arn", "B": "Arn", "T": "TopicArn"}
    outputs = {name: {"Value": {"Fn::GetAtt": [name, what]}} for name, what in values.items()}
    found = propose(
        cfn,
        "taken",
        resources,
        [
            asked("AWS::S3::Bucket", "B", BucketName="taken-bucket"),
            asked("AWS::Kinesis::Stream", "S", Name="taken"),
            asked("AWS::SQS::Queue", "Q", QueueUrl=url),
            asked("AWS::SNS::Topic", "T", TopicArn=topic),
            asked("AWS::DynamoDB::Table", "D", TableName="taken"),
        ],
        sections={"Outputs": outputs},
        Tags=[{"Key": "of", "Value": "stack"}],
    )
    assert found["Status"] == "CREATE_COMPLETE"
    assert [change["ResourceChange"]["Action"] for change in found["Changes"]] == ["Import"] * 5
    assert execute(cfn, "taken") == "IMPORT_COMPLETE"

    (stack,) = cfn.describe_stacks(StackName="taken")["Stacks"]
    shown = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    here = "us-east-1:000000000000"
    assert shown == {
        "S": f"arn:aws:kinesis:{here}:stream/taken",
        "Q": f"arn:aws:sqs:{here}:taken",
        "D": f"arn:aws:dynamodb:{here}:table/taken",
        "B": "arn:aws:s3:::taken-bucket",
        "T": topic,
    }
    assert physical(cfn, "Q", "taken") == url
    events = [
        (event["ResourceStatus"], event.get("ResourceStatusReason"))
        for event in cfn.describe_stack_events(StackName="taken")["StackEvents"]
        if event["LogicalResourceId"] == "S"
    ]
    assert events[::-1][:2] == [
        ("IMPORT_IN_PROGRESS", "Resource import started."),
        ("IMPORT_COMPLETE", "Resource import completed."),
    ]
    tags = cloud.client("kinesis").list_tags_for_stream(StreamName="taken")["Tags"]
    assert {"Key": "of", "Value": "stack"} in tags
    # From here on they are the stack's as any other.
    resources["S"] = stream("taken", RetentionPeriodHours=48)
    assert update(cfn, {"Resources": resources}, "taken") == "UPDATE_COMPLETE"
    summary = cloud.client("kinesis").describe_stream_summary(StreamName="taken")
    assert summary["StreamDescriptionSummary"]["RetentionPeriodHours"] == 48


def test_a_summary_names_what_identifies_a_resource(cfn: Any):
    body = json.dumps({"Resources": {"Q": of("AWS::SQS::Queue"), "S": stream("x")}})
    rows = cfn.get_template_summary(TemplateBody=body)["ResourceIdentifierSummaries"]
    found = {row["ResourceType"]: row["ResourceIdentifiers"] for row in rows}
    assert found == {"AWS::SQS::Queue": ["QueueUrl"], "AWS::Kinesis::Stream": ["Name"]}


def test_what_an_import_may_not_do_is_refused_in_aws_s_words(cloud: InProcessCloud, cfn: Any):
    cloud.client("kinesis").create_stream(StreamName="wanted", ShardCount=1)
    queue: dict[str, Any] = {"Type": "AWS::SQS::Queue"}
    assert create(cfn, {"Resources": {"Q": queue}}, "has") == "CREATE_COMPLETE"
    wanted = asked("AWS::Kinesis::Stream", "S", Name="wanted")
    unkept = {key: value for key, value in stream("wanted").items() if key != "DeletionPolicy"}

    def says(resources: Any, *to_import: Any, **sections: Any) -> str:
        return refusal(cfn, "has", resources, list(to_import), **sections)

    assert says({"Q": queue, "S": unkept}, wanted) == (
        "The following resources to import [S] must have DeletionPolicy attribute specified in the template."
    )
    assert says({"Q": queue, "S": stream("wanted"), "N": queue}, wanted) == (
        "Resources [N] is missing from ResourceToImport list"
    )
    changed = {**queue, "Properties": {"DelaySeconds": 1}}
    assert says({"Q": changed, "S": stream("wanted")}, wanted) == (
        "You have modified resources [Q] in your template that are not being imported. Update, create or delete"
        " operations cannot be executed during import operations."
    )
    assert says({"Q": queue}, asked("AWS::SQS::Queue", "Q", QueueUrl="x")) == (
        "The template should contain at least one new resource to import."
    )
    both = {"Q": queue, "S": stream("wanted")}
    assert says(both, wanted, asked("AWS::SQS::Queue", "Q", QueueUrl="x")) == (
        "Resources [Q] passed in ResourceToImport are already in a stack and cannot be imported."
    )
    assert says(both, asked("AWS::Kinesis::Stream", "S", StreamName="wanted")) == (
        "Invalid resource identifier for resource type AWS::Kinesis::Stream. Expected [Name]"
    )
    assert says(both, asked("AWS::SQS::Queue", "S", QueueUrl="x")).startswith(
        "Resource type of [S] passed in ResourceToImport does not match"
    )
    permission = of("AWS::Lambda::Permission", Action="a", FunctionName="f", Principal="p")
    assert says(
        {"Q": queue, "P": permission},
        asked("AWS::Lambda::Permission", "P", FunctionName="f", Id="i"),
    ) == (
        "The following resource types are not supported for resource import: AWS::Lambda::Permission"
    )
    assert says(both, wanted, Outputs={"O": {"Value": "v"}}) == (
        "As part of the import operation, you cannot modify or add [Outputs]"
    )
    assert "is required" in says(both)
    assert cfn.list_change_sets(StackName="has")["Summaries"] == []


def test_what_is_not_there_and_what_another_stack_has_fail_the_change_set(cfn: Any):
    found = propose(
        cfn, "ghost", {"S": stream("ghost")}, [asked("AWS::Kinesis::Stream", "S", Name="ghost")]
    )
    assert (found["Status"], found["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    assert "identifier 'ghost' was not found" in found["StatusReason"]

    create(cfn, {"Resources": {"S": stream("owned")}}, "owner")
    owner = cfn.describe_stacks(StackName="owner")["Stacks"][0]["StackId"]
    found = propose(
        cfn, "thief", {"S": stream("owned")}, [asked("AWS::Kinesis::Stream", "S", Name="owned")]
    )
    assert found["StatusReason"] == f"owned already exists in stack {owner}"


def test_an_import_that_fails_leaves_all_as_it_was(cloud: InProcessCloud, cfn: Any):
    kinesis = cloud.client("kinesis")
    for name in ("stays", "goes"):
        kinesis.create_stream(StreamName=name, ShardCount=1)
    resources = {"A": stream("stays"), "B": {**stream("goes"), "DependsOn": "A"}}
    propose(
        cfn,
        "fails",
        resources,
        [
            asked("AWS::Kinesis::Stream", "A", Name="stays"),
            asked("AWS::Kinesis::Stream", "B", Name="goes"),
        ],
    )
    kinesis.delete_stream(StreamName="goes")
    assert execute(cfn, "fails") == "IMPORT_ROLLBACK_COMPLETE"
    assert cfn.list_stack_resources(StackName="fails")["StackResourceSummaries"] == []
    assert "stays" in kinesis.list_streams()["StreamNames"]


def test_a_change_set_imports_what_exists_by_the_names_in_its_template(
    cloud: InProcessCloud, cfn: Any
):
    kinesis = cloud.client("kinesis")
    kinesis.create_stream(StreamName="there", ShardCount=1)
    url = cloud.client("sqs").create_queue(QueueName="there")["QueueUrl"]
    resources = {
        "S": stream("there"),
        "Q": of("AWS::SQS::Queue", "RetainExceptOnCreate", QueueName="there"),
        "New": of("AWS::SQS::Queue", "Delete", QueueName="new"),
    }

    def change_set(name: str) -> dict[str, Any]:
        cfn.create_change_set(
            StackName=name,
            ChangeSetName="cs",
            ChangeSetType="CREATE",
            ImportExistingResources=True,
            TemplateBody=json.dumps({"Resources": resources}),
        )
        return dict(cfn.describe_change_set(StackName=name, ChangeSetName="cs"))

    actions = {
        change["ResourceChange"]["LogicalResourceId"]: change["ResourceChange"]["Action"]
        for change in change_set("mixed")["Changes"]
    }
    assert actions == {"S": "Import", "Q": "Import", "New": "Add"}
    assert execute(cfn, "mixed", "cs") == "CREATE_COMPLETE"
    assert physical(cfn, "Q", "mixed") == url

    kinesis.create_stream(StreamName="unkept", ShardCount=1)
    resources.clear()
    resources["S"] = {**stream("unkept"), "DeletionPolicy": "Delete"}
    found = change_set("refused")
    assert found["Status"] == "FAILED"
    assert found["StatusReason"].endswith("The affected resources are S ({Name=unkept})")


def test_the_rollback_of_a_creation_keeps_what_was_imported(cloud: InProcessCloud, cfn: Any):
    cloud.client("sqs").create_queue(QueueName="kept")
    bad = of("AWS::Kinesis::Stream", Name="bad", ShardCount=1, RetentionPeriodHours=1)
    resources = {
        "Q": of("AWS::SQS::Queue", "RetainExceptOnCreate", QueueName="kept"),
        "Bad": {**bad, "DependsOn": "Q"},
    }
    cfn.create_change_set(
        StackName="undone",
        ChangeSetName="cs",
        ChangeSetType="CREATE",
        ImportExistingResources=True,
        TemplateBody=json.dumps({"Resources": resources}),
    )
    assert execute(cfn, "undone", "cs") == "ROLLBACK_COMPLETE"
    assert cloud.client("sqs").get_queue_url(QueueName="kept")["QueueUrl"]
