"""Stacks: making, changing, undoing and deleting them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until


def template(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def queue(name: str | None = None, **properties: Any) -> dict[str, Any]:
    if name:
        properties["QueueName"] = name
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def stream(name: str, **properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::Kinesis::Stream",
        "Properties": {"Name": name, "ShardCount": 1, **properties},
    }


def status(cfn: Any, name: str) -> str:
    return str(cfn.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])


def settled(cfn: Any, name: str) -> str:
    wait_until(lambda: not status(cfn, name).endswith("IN_PROGRESS"), what="the stack")
    return status(cfn, name)


def create(cfn: Any, body: Any, name: str = "s", **more: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    cfn.create_stack(StackName=name, TemplateBody=text, **more)
    return settled(cfn, name)


def update(cfn: Any, body: Any, name: str = "s", **more: Any) -> str:
    cfn.update_stack(StackName=name, TemplateBody=json.dumps(body), **more)
    return settled(cfn, name)


def refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def physical(cfn: Any, logical_id: str, name: str = "s") -> str:
    found = cfn.describe_stack_resource(StackName=name, LogicalResourceId=logical_id)
    return str(found["StackResourceDetail"]["PhysicalResourceId"])


# --- serialization ----------------------------------------------------------------------------


def test_an_unknown_action_is_refused(cloud: InProcessCloud):
    from headrace.aws.calls.http import HttpRequest

    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "authorization": "AWS4-HMAC-SHA256 Credential=t/20260101/us-east-1/cloudformation/aws4_request",
    }
    answer = cloud.handle(HttpRequest("POST", "/", "", headers, b"Action=Nonsense"))
    assert answer.status == 400
    assert b"<Code>InvalidAction</Code>" in bytes(answer.body)


def test_a_template_comes_back_as_it_was_sent(cfn: Any):
    text = (
        '{\n "Resources" : {"B": {"Type": "AWS::SQS::Queue"}, "A": {"Type": "AWS::SQS::Queue"}} }'
    )
    create(cfn, text)
    body = cfn.get_template(StackName="s", TemplateStage="Original")["TemplateBody"]
    assert json.dumps(body) == json.dumps(json.loads(text))


# --- validation -------------------------------------------------------------------------------


def test_missing_stacks_are_named_in_the_words_that_the_cdk_cli_tests_for(cfn: Any):
    assert refused(cfn.describe_stacks, StackName="no") == (
        "ValidationError",
        "Stack with id no does not exist",
    )
    assert refused(cfn.describe_stack_events, StackName="no") == (
        "ValidationError",
        "Stack [no] does not exist",
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "Template format error: JSON not well-formed."),
        ("a: [", "Template format error: YAML not well-formed."),
        ("{}", "Template format error: At least one Resources member must be defined."),
        ('{"Resources": {"A": {}}}', "Every Resources object must contain a Type member."),
        (
            '{"Resources": {"A": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Ref": "B"}}}}}',
            "Unresolved resource dependencies [B] in the Resources block of the template",
        ),
        (
            """{"Resources": {"A": {"Type": "AWS::SQS::Queue", "DependsOn": "B"},
                              "B": {"Type": "AWS::SQS::Queue", "DependsOn": "A"}}}""",
            "Circular dependency between resources: [A, B]",
        ),
        (
            '{"Resources": {"A": {"Type": "AWS::No::Such"}}}',
            "Unrecognized resource types: [AWS::No::Such]",
        ),
        (
            '{"Resources": {"A": {"Type": "AWS::SQS::Queue"}}, "Nope": 1}',
            "Invalid template property",
        ),
    ],
)
def test_a_bad_template_is_refused_and_leaves_no_stack(cfn: Any, body: str, message: str):
    code, sentence = refused(cfn.create_stack, StackName="s", TemplateBody=body)
    assert code == "ValidationError"
    assert message in sentence
    assert cfn.describe_stacks()["Stacks"] == []


def test_a_template_with_roles_needs_the_capability(cfn: Any):
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
    assert refused(cfn.create_stack, StackName="s", TemplateBody=json.dumps(template(R=role))) == (
        "InsufficientCapabilitiesException",
        "Requires capabilities : [CAPABILITY_IAM]",
    )


def test_parameters_are_checked(cfn: Any):
    body = {
        "Parameters": {"Size": {"Type": "String", "AllowedValues": ["s", "m"]}},
        **template(Q=queue()),
    }
    text = json.dumps(body)
    assert refused(cfn.create_stack, StackName="s", TemplateBody=text)[1] == (
        "Parameters: [Size] must have values"
    )
    given = [{"ParameterKey": "Size", "ParameterValue": "xl"}]
    assert refused(cfn.create_stack, StackName="s", TemplateBody=text, Parameters=given)[1] == (
        "Parameter 'Size' must be one of AllowedValues [s, m]"
    )


def test_a_name_is_checked_by_the_model(cfn: Any):
    code, message = refused(cfn.describe_stack_resource, StackName="s")
    assert code == "ValidationError"
    assert "Value null at 'logicalResourceId' failed to satisfy constraint" in message


# --- behaviour --------------------------------------------------------------------------------


def test_references_outputs_and_generated_names(cloud: InProcessCloud, cfn: Any):
    body = {
        **template(Q=queue(), S=stream("flights", RetentionPeriodHours="48")),
        "Outputs": {
            "Url": {"Value": {"Ref": "Q"}},
            "Arn": {"Value": {"Fn::GetAtt": ["S", "Arn"]}},
            "Text": {"Value": {"Fn::Sub": "${AWS::StackName}-${S}-${!literal}"}},
        },
    }
    assert create(cfn, body) == "CREATE_COMPLETE"
    outputs = {
        output["OutputKey"]: output["OutputValue"]
        for output in cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]
    }
    assert outputs["Arn"] == "arn:aws:kinesis:us-east-1:000000000000:stream/flights"
    assert outputs["Text"] == "s-flights-${literal}"
    assert outputs["Url"].rsplit("/", 1)[-1].startswith("s-Q-")
    summary = cloud.client("kinesis").describe_stream_summary(StreamName="flights")
    described = summary["StreamDescriptionSummary"]
    assert described["RetentionPeriodHours"] == 48
    assert described["StreamModeDetails"]["StreamMode"] == "PROVISIONED"


def test_a_failed_creation_deletes_what_it_made(cloud: InProcessCloud, cfn: Any):
    cloud.client("kinesis").create_stream(StreamName="taken", ShardCount=1)
    body = template(Q=queue("made"), S={**stream("taken"), "DependsOn": "Q"})
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    assert "QueueUrls" not in cloud.client("sqs").list_queues()
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    failed = [event for event in events if event["ResourceStatus"] == "CREATE_FAILED"]
    assert [event["LogicalResourceId"] for event in failed] == ["S"]
    assert (
        "Resource of type 'AWS::Kinesis::Stream' with identifier 'taken' already exists."
        in failed[0]["ResourceStatusReason"]
    )


def test_no_two_events_of_a_stack_have_the_same_time(cfn: Any):
    create(cfn, template(**{f"Q{number}": queue() for number in range(5)}))
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    times = [event["Timestamp"] for event in events]
    assert sorted(set(times), reverse=True) == times


def test_a_property_that_the_type_does_not_have_fails_the_stack(cfn: Any):
    assert create(cfn, template(Q=queue(Colour="red"))) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    assert any(
        "Encountered unsupported property Colour" in event.get("ResourceStatusReason", "")
        for event in events
    )


def test_a_property_that_headrace_lacks_fails_the_stack_in_its_own_words(cfn: Any):
    kafka = {"Endpoints": {"KafkaBootstrapServers": ["a:9092"]}}
    properties = {"FunctionName": "f", "SelfManagedEventSource": kafka, "Topics": ["tt"]}
    mapping = {"Type": "AWS::Lambda::EventSourceMapping", "Properties": properties}
    assert create(cfn, template(M=mapping)) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    sentence = "headrace does not support the property SelfManagedEventSource of M"
    assert any(sentence in event.get("ResourceStatusReason", "") for event in events)


def test_an_update_changes_in_place_what_it_can_and_replaces_what_it_must(
    cloud: InProcessCloud, cfn: Any
):
    create(cfn, template(S=stream("one"), Q=queue(VisibilityTimeout=5)))
    kept = physical(cfn, "Q")
    body = template(S=stream("two", RetentionPeriodHours=48), Q=queue(VisibilityTimeout=7))
    assert update(cfn, body) == "UPDATE_COMPLETE"
    assert cloud.client("kinesis").list_streams()["StreamNames"] == ["two"]
    assert physical(cfn, "Q") == kept
    attributes = cloud.client("sqs").get_queue_attributes(
        QueueUrl=kept, AttributeNames=["VisibilityTimeout"]
    )
    assert attributes["Attributes"] == {"VisibilityTimeout": "7"}


def test_a_failed_update_is_undone(cloud: InProcessCloud, cfn: Any):
    cloud.client("kinesis").create_stream(StreamName="taken", ShardCount=1)
    create(cfn, template(S=stream("flights"), Q=queue("stays", VisibilityTimeout=5)))
    body = template(
        S=stream("flights", RetentionPeriodHours=72),
        New={**queue("new"), "DependsOn": "S"},
        Bad={**stream("taken"), "DependsOn": "New"},
    )
    assert update(cfn, body) == "UPDATE_ROLLBACK_COMPLETE"
    summary = cloud.client("kinesis").describe_stream_summary(StreamName="flights")
    assert summary["StreamDescriptionSummary"]["RetentionPeriodHours"] == 24
    urls = cloud.client("sqs").list_queues()["QueueUrls"]
    assert [url.rsplit("/", 1)[-1] for url in urls] == ["stays"]
    resources = cfn.describe_stack_resources(StackName="s")["StackResources"]
    assert sorted(resource["LogicalResourceId"] for resource in resources) == ["Q", "S"]


def test_an_update_without_changes_is_refused(cfn: Any):
    create(cfn, template(Q=queue()))
    assert refused(
        cfn.update_stack, StackName="s", TemplateBody=json.dumps(template(Q=queue()))
    ) == ("ValidationError", "No updates are to be performed.")


def test_retained_resources_stay(cloud: InProcessCloud, cfn: Any):
    body = template(S={**stream("kept"), "DeletionPolicy": "Retain"}, Q=queue("gone"))
    create(cfn, body)
    stack_id = cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    cfn.delete_stack(StackName="s")
    wait_until(lambda: status(cfn, stack_id) == "DELETE_COMPLETE")
    assert cloud.client("kinesis").list_streams()["StreamNames"] == ["kept"]
    assert refused(cfn.describe_stacks, StackName="s")[0] == "ValidationError"


def test_an_export_in_use_is_neither_deleted_nor_changed(cfn: Any):
    exporter = {
        **template(Q=queue()),
        "Outputs": {"Q": {"Value": {"Fn::GetAtt": ["Q", "Arn"]}, "Export": {"Name": "the-queue"}}},
    }
    create(cfn, exporter, "exporter")
    parameter = {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Type": "String", "Value": {"Fn::ImportValue": "the-queue"}},
    }
    assert create(cfn, template(P=parameter), "importer") == "CREATE_COMPLETE"
    assert cfn.list_imports(ExportName="the-queue")["Imports"] == ["importer"]
    cfn.delete_stack(StackName="exporter")
    assert settled(cfn, "exporter") == "CREATE_COMPLETE"
    reason = cfn.describe_stacks(StackName="exporter")["Stacks"][0]["StackStatusReason"]
    assert reason == "Delete canceled. Cannot delete export the-queue as it is in use by importer."
    event = cfn.describe_stack_events(StackName="exporter")["StackEvents"][0]
    assert (event["ResourceStatus"], event["ResourceStatusReason"]) == ("CREATE_COMPLETE", reason)


def test_a_stack_that_imports_what_no_stack_exports_begins_nothing(cfn: Any):
    name = {"Fn::ImportValue": {"Fn::Sub": "${AWS::StackName}-nobody"}}
    other = queue(QueueName={"Fn::If": ["Never", {"Fn::ImportValue": "skipped"}, "other"]})
    body = {
        **template(Other=other, P={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}),
        "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}},
    }
    assert create(cfn, body) == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    assert [(e["ResourceStatus"], e.get("ResourceStatusReason")) for e in reversed(events)] == [
        ("CREATE_IN_PROGRESS", "User Initiated"),
        ("ROLLBACK_IN_PROGRESS", "No export named s-nobody found. Rollback requested by user."),
        ("ROLLBACK_COMPLETE", None),
    ]


def test_a_protected_stack_is_not_deleted(cfn: Any):
    create(cfn, template(Q=queue()), EnableTerminationProtection=True)
    assert refused(cfn.delete_stack, StackName="s") == (
        "ValidationError",
        "Stack [s] cannot be deleted while TerminationProtection is enabled",
    )


def test_conditions_leave_resources_out(cloud: InProcessCloud, cfn: Any):
    body = {
        "Parameters": {"Env": {"Type": "String"}},
        "Conditions": {"Prod": {"Fn::Equals": [{"Ref": "Env"}, "prod"]}},
        **template(A=queue("always"), P={**queue("prod-only"), "Condition": "Prod"}),
    }
    create(cfn, body, Parameters=[{"ParameterKey": "Env", "ParameterValue": "dev"}])
    urls = cloud.client("sqs").list_queues()["QueueUrls"]
    assert [url.rsplit("/", 1)[-1] for url in urls] == ["always"]


def test_yaml_with_short_forms(cfn: Any):
    body = """
Parameters:
  Days: {Type: Number, Default: 2}
Resources:
  Queue:
    Type: AWS::SQS::Queue
Outputs:
  Name: {Value: !Sub "${Queue.QueueName}"}
  Joined: {Value: !Join ["-", [a, !Ref Days]]}
  Date: {Value: !Select [1, [a, 2010-09-09]]}
"""
    assert create(cfn, body) == "CREATE_COMPLETE"
    outputs = {
        output["OutputKey"]: output["OutputValue"]
        for output in cfn.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]
    }
    assert outputs["Joined"] == "a-2"
    assert outputs["Date"] == "2010-09-09"


def test_an_ssm_parameter_is_resolved(cloud: InProcessCloud, cfn: Any):
    cloud.client("ssm").put_parameter(Name="/v", Value="21", Type="String")
    body = {
        "Parameters": {"V": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/v"}},
        **template(Q=queue()),
        "Outputs": {"V": {"Value": {"Ref": "V"}}},
    }
    create(cfn, body)
    stack = cfn.describe_stacks(StackName="s")["Stacks"][0]
    assert stack["Outputs"][0]["OutputValue"] == "21"
    assert stack["Parameters"][0]["ResolvedValue"] == "21"
    assert stack["Parameters"][0]["ParameterValue"] == "/v"


def test_stacks_are_there_after_a_restart_and_an_interrupted_creation_is_rolled_back(
    data_dir: Path,
):
    with InProcessCloud(data_dir) as cloud:
        cfn = cloud.client("cloudformation")
        create(cfn, template(Q=queue("kept")), "whole")
        create(cfn, template(Q=queue("half")), "cut")
        # As a kill in the middle would leave it.
        stacks = cloud.cloud.cloudformation.stacks
        stack = stacks.find("000000000000", "us-east-1", "cut")
        assert stack is not None
        stack.status = "CREATE_IN_PROGRESS"
        stacks.save(stack)
    with InProcessCloud(data_dir) as cloud:
        cfn = cloud.client("cloudformation")
        assert status(cfn, "whole") == "CREATE_COMPLETE"
        assert settled(cfn, "cut") == "ROLLBACK_COMPLETE"
        urls = cloud.client("sqs").list_queues()["QueueUrls"]
        assert [url.rsplit("/", 1)[-1] for url in urls] == ["kept"]


def test_a_buckets_cors_rules_are_those_of_its_template(cloud: InProcessCloud, cfn: Any):
    rule = {
        "Id": "all", "AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "AllowedHeaders": ["x-a"],
        "ExposedHeaders": ["etag"], "MaxAge": "60",
    }  # fmt: skip
    bucket = {
        "Type": "AWS::S3::Bucket",
        "Properties": {"BucketName": "shared", "CorsConfiguration": {"CorsRules": [rule]}},
    }
    assert create(cfn, template(B=bucket)) == "CREATE_COMPLETE"
    (found,) = cloud.client("s3").get_bucket_cors(Bucket="shared")["CORSRules"]
    assert found == {
        "ID": "all", "AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "AllowedHeaders": ["x-a"],
        "ExposeHeaders": ["etag"], "MaxAgeSeconds": 60,
    }  # fmt: skip


def test_an_event_pattern_may_be_text(cloud: InProcessCloud, cfn: Any):
    pattern = '{"source": ["a"]}'
    rule = {"Type": "AWS::Events::Rule", "Properties": {"Name": "r", "EventPattern": pattern}}
    assert create(cfn, template(Rule=rule)) == "CREATE_COMPLETE"
    assert cloud.client("events").describe_rule(Name="r")["EventPattern"] == pattern


def test_modules_are_refused_with_what_to_do_instead(cfn: Any):
    body = template(Part={"Type": "My::Own::Part::MODULE"})
    with pytest.raises(ClientError) as refused:
        create(cfn, body)
    said = str(refused.value)
    assert "Unrecognized resource types: [My::Own::Part::MODULE]" in said
    assert "put their resources into the template" in said
