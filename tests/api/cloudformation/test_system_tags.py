"""CloudFormation puts its own tags on what it makes; nobody else sets, changes or removes them.

Recorded: GetFunction, GetRestApi, DescribeSecret and DescribeDhcpOptions of stacks' resources. Documented: user guide,
"Resource tag".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, WaiterError

from tests.support.cloud import InProcessCloud

FAST = {"Delay": 0, "MaxAttempts": 400}
OWN = [{"Key": "own", "Value": "1"}]
ROLE = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
RESOURCES: dict[str, Any] = {
    "Stream": {"Type": "AWS::Kinesis::Stream", "Properties": {"Name": "in", "Tags": OWN}},
    "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "lake", "Tags": OWN}},
    "Role": {
        "Type": "AWS::IAM::Role",
        "Properties": {"RoleName": "r", "AssumeRolePolicyDocument": ROLE, "Tags": OWN},
    },
    "Function": {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": "f",
            "Runtime": "python3.12",
            "Handler": "index.handler",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Code": {"ZipFile": "def handler(event, context): pass"},
            "Tags": OWN,
        },
    },
    "Delivery": {
        "Type": "AWS::KinesisFirehose::DeliveryStream",
        "Properties": {
            "DeliveryStreamName": "d",
            "S3DestinationConfiguration": {
                "BucketARN": {"Fn::GetAtt": ["Bucket", "Arn"]},
                "RoleARN": {"Fn::GetAtt": ["Role", "Arn"]},
            },
            "Tags": OWN,
        },
    },
    "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "q", "Tags": OWN}},
    "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "t", "Tags": OWN}},
    "Secret": {
        "Type": "AWS::SecretsManager::Secret",
        "Properties": {"Name": "s", "SecretString": "x", "Tags": OWN},
    },
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16", "Tags": OWN}},
    "Api": {"Type": "AWS::ApiGateway::RestApi", "Properties": {"Name": "a", "Tags": OWN}},
    "Certificate": {
        "Type": "AWS::CertificateManager::Certificate",
        "Properties": {"DomainName": "example.com", "Tags": OWN},
    },
}


def _pairs(tags: list[dict[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags}


def _queue(cloud: InProcessCloud) -> Any:
    sqs = cloud.client("sqs")
    return sqs.list_queue_tags(QueueUrl=sqs.get_queue_url(QueueName="q")["QueueUrl"])["Tags"]


def _topic(cloud: InProcessCloud) -> Any:
    sns = cloud.client("sns")
    (topic,) = sns.list_topics()["Topics"]
    return _pairs(sns.list_tags_for_resource(ResourceArn=topic["TopicArn"])["Tags"])


def _certificate(cloud: InProcessCloud) -> Any:
    acm = cloud.client("acm")
    (found,) = acm.list_certificates()["CertificateSummaryList"]
    return _pairs(acm.list_tags_for_certificate(CertificateArn=found["CertificateArn"])["Tags"])


TAGS: dict[str, Callable[[InProcessCloud], Any]] = {
    "Stream": lambda c: _pairs(c.client("kinesis").list_tags_for_stream(StreamName="in")["Tags"]),
    "Bucket": lambda c: _pairs(c.client("s3").get_bucket_tagging(Bucket="lake")["TagSet"]),
    "Role": lambda c: _pairs(c.client("iam").list_role_tags(RoleName="r")["Tags"]),
    "Function": lambda c: c.client("lambda").get_function(FunctionName="f")["Tags"],
    "Delivery": lambda c: _pairs(
        c.client("firehose").list_tags_for_delivery_stream(DeliveryStreamName="d")["Tags"]
    ),
    "Queue": _queue,
    "Topic": _topic,
    "Secret": lambda c: _pairs(c.client("secretsmanager").describe_secret(SecretId="s")["Tags"]),
    "Vpc": lambda c: _pairs(
        next(
            vpc["Tags"]
            for vpc in c.client("ec2").describe_vpcs()["Vpcs"]
            if vpc["CidrBlock"] == "10.9.0.0/16"
        )
    ),
    "Api": lambda c: c.client("apigateway").get_rest_apis()["items"][0]["tags"],
    "Certificate": _certificate,
}

# Recorded: their own calls show the template's tags alone.
WITHOUT = ("Queue", "Role", "Topic")


def _expected(stack_id: str, name: str, **own: str) -> dict[str, str]:
    return {
        "aws:cloudformation:stack-name": "s",
        "aws:cloudformation:logical-id": name,
        "aws:cloudformation:stack-id": stack_id,
        **own,
    }


def test_each_resource_has_them_beside_its_own(cloud: InProcessCloud, cfn: Any):
    body = json.dumps({"Resources": RESOURCES})
    made = cfn.create_stack(StackName="s", TemplateBody=body, Capabilities=["CAPABILITY_NAMED_IAM"])
    stack_id = made["StackId"]
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    found = {name: tags(cloud) for name, tags in TAGS.items()}
    expected = {name: _expected(stack_id, name, own="1") for name in TAGS}
    assert found == expected | {name: {"own": "1"} for name in WITHOUT}
    # The stack itself has none.
    assert cfn.describe_stacks(StackName="s")["Stacks"][0]["Tags"] == []

    # They are neither drift nor in the way of an update, which keeps them.
    cfn.detect_stack_drift(StackName="s")
    drifts = cfn.describe_stack_resource_drifts(StackName="s")["StackResourceDrifts"]
    assert {d["StackResourceDriftStatus"] for d in drifts} == {"IN_SYNC"}
    cfn.update_stack(
        StackName="s",
        TemplateBody=body.replace('"Value": "1"', '"Value": "2"'),
        Tags=[{"Key": "team", "Value": "water"}],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    cfn.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig=FAST)
    for name in ("Stream", "Bucket", "Function", "Delivery"):
        tags = TAGS[name](cloud)
        assert tags == _expected(stack_id, name, own="2", team="water"), name

    # They are how a stack's resources are found.
    found = cloud.client("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "aws:cloudformation:logical-id", "Values": ["Stream"]}]
    )["ResourceTagMappingList"]
    assert [each["ResourceARN"].rpartition(":")[2] for each in found] == ["stream/in"]


def test_users_neither_set_nor_remove_them(cloud: InProcessCloud, cfn: Any):
    names = ("Stream", "Bucket", "Role", "Function", "Delivery")
    body = json.dumps({"Resources": {name: RESOURCES[name] for name in names}})
    cfn.create_stack(StackName="s", TemplateBody=body, Capabilities=["CAPABILITY_NAMED_IAM"])
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    before = {name: TAGS[name](cloud) for name in names}
    key = "aws:cloudformation:stack-name"
    kinesis, s3 = cloud.client("kinesis"), cloud.client("s3")
    functions, firehose = cloud.client("lambda"), cloud.client("firehose")
    arn = functions.get_function(FunctionName="f")["Configuration"]["FunctionArn"]
    held = s3.get_bucket_tagging(Bucket="lake")["TagSet"]
    changed = [{**tag, "Value": "x"} for tag in held]
    for refused, code in (
        (
            lambda: kinesis.add_tags_to_stream(StreamName="in", Tags={key: "x"}),
            "InvalidArgumentException",
        ),
        (
            lambda: kinesis.remove_tags_from_stream(StreamName="in", TagKeys=[key]),
            "InvalidArgumentException",
        ),
        (
            lambda: functions.untag_resource(Resource=arn, TagKeys=[key]),
            "InvalidParameterValueException",
        ),
        (
            lambda: functions.tag_resource(Resource=arn, Tags={key: "x"}),
            "InvalidParameterValueException",
        ),
        (
            lambda: firehose.untag_delivery_stream(DeliveryStreamName="d", TagKeys=[key]),
            "ValidationException",
        ),
        (lambda: s3.put_bucket_tagging(Bucket="lake", Tagging={"TagSet": changed}), "InvalidTag"),
        (lambda: s3.put_bucket_tagging(Bucket="lake", Tagging={"TagSet": OWN}), "InvalidTag"),
    ):
        with pytest.raises(ClientError) as error:
            refused()
        assert code in str(error.value)
    assert {name: TAGS[name](cloud) for name in names} == before

    # A bucket's tags are set as a whole: AWS's own go along as they are.
    more = [*held, {"Key": "more", "Value": "1"}]
    s3.put_bucket_tagging(Bucket="lake", Tagging={"TagSet": more})
    assert TAGS["Bucket"](cloud) == {**before["Bucket"], "more": "1"}
    s3.delete_bucket_tagging(Bucket="lake")
    assert set(TAGS["Bucket"](cloud)) == {t for t in before["Bucket"] if t.startswith("aws:")}


def test_they_do_not_count(cloud: InProcessCloud, cfn: Any):
    tags = [{"Key": f"k{n}", "Value": "v"} for n in range(50)]
    stream = {"Type": "AWS::Kinesis::Stream", "Properties": {"Name": "in", "Tags": tags}}
    cfn.create_stack(StackName="s", TemplateBody=json.dumps({"Resources": {"Stream": stream}}))
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    kinesis = cloud.client("kinesis")
    arn = kinesis.describe_stream_summary(StreamName="in")["StreamDescriptionSummary"]["StreamARN"]
    assert len(kinesis.list_tags_for_resource(ResourceARN=arn)["Tags"]) == 53
    with pytest.raises(ClientError, match="more than 50 tags"):
        kinesis.add_tags_to_stream(StreamName="in", Tags={"one-too-many": "v"})


def test_a_template_does_not_set_them(cfn: Any):
    tags = [{"Key": "aws:mine", "Value": "v"}]
    stream = {"Type": "AWS::Kinesis::Stream", "Properties": {"Name": "in", "Tags": tags}}
    cfn.create_stack(StackName="s", TemplateBody=json.dumps({"Resources": {"Stream": stream}}))
    with pytest.raises(WaiterError):
        cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig=FAST)
    events = cfn.describe_stack_events(StackName="s")["StackEvents"]
    assert any("reserved for system use" in e.get("ResourceStatusReason", "") for e in events)


def test_a_stack_has_no_tags_of_aws_s_own(cfn: Any):
    """Observed: aws-quickstart/quickstart-examples#39."""
    body = json.dumps({"Resources": {"Stream": RESOURCES["Stream"]}})
    tags = [{"Key": "aws:cloudformation:stack-name", "Value": "another"}]
    sentence = "aws: prefixed tag key names are not allowed for external use."
    for call in (cfn.create_stack, cfn.create_change_set):
        more = {} if call == cfn.create_stack else {"ChangeSetName": "c", "ChangeSetType": "CREATE"}
        with pytest.raises(ClientError, match=f"ValidationError.*: {sentence}"):
            call(StackName="s", TemplateBody=body, Tags=tags, **more)


_KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::000000000000:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}
_MORE: dict[str, Any] = {
    "Alarm": {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": "a",
            "ComparisonOperator": "GreaterThanThreshold",
            "EvaluationPeriods": 1,
            "MetricName": "m",
            "Namespace": "n",
            "Period": 60,
            "Statistic": "Sum",
            "Threshold": 1,
        },
    },
    "Key": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": _KEY_POLICY}},
    "Mapping": {
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "FunctionName": {"Ref": "Function"},
            "EventSourceArn": {"Fn::GetAtt": ["Stream", "Arn"]},
            "StartingPosition": "LATEST",
        },
    },
    "Parameter": {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Name": "/a/b", "Type": "String", "Value": "v"},
    },
    "Rule": {
        "Type": "AWS::Events::Rule",
        "Properties": {"Name": "r", "EventPattern": {"source": ["a"]}},
    },
}


def test_tags_follow_the_template_and_the_stack(cloud: InProcessCloud, cfn: Any):
    """Of the types whose updates are code: what goes from the template or the stack goes from the resource."""
    resources = {name: RESOURCES[name] for name in ("Stream", "Role", "Function")} | _MORE
    ids: dict[str, str] = {}

    def tags_of(name: str) -> dict[str, str]:
        listed: Any
        match name:
            case "Key":
                listed = cloud.client("kms").list_resource_tags(KeyId=ids["Key"])["Tags"]
                return {tag["TagKey"]: tag["TagValue"] for tag in listed}
            case "Mapping":
                arn = f"arn:aws:lambda:us-east-1:000000000000:event-source-mapping:{ids['Mapping']}"
                return cloud.client("lambda").list_tags(Resource=arn)["Tags"]
            case "Parameter":
                listed = cloud.client("ssm").list_tags_for_resource(
                    ResourceType="Parameter", ResourceId="/a/b"
                )["TagList"]
            case "Role":
                listed = cloud.client("iam").list_role_tags(RoleName="r")["Tags"]
            case "Rule":
                arn = cloud.client("events").describe_rule(Name="r")["Arn"]
                listed = cloud.client("events").list_tags_for_resource(ResourceARN=arn)["Tags"]
            case _:
                arn = "arn:aws:cloudwatch:us-east-1:000000000000:alarm:a"
                listed = cloud.client("cloudwatch").list_tags_for_resource(ResourceARN=arn)["Tags"]
        return {tag["Key"]: tag["Value"] for tag in listed}

    def deploy(call: Any, waiter: str, own: dict[str, str], of_stack: dict[str, str]) -> None:
        pairs = [{"Key": key, "Value": value} for key, value in own.items()]
        body = {
            name: {
                **one,
                "Properties": {
                    **one["Properties"],
                    "Tags": own if name == "Parameter" else pairs,
                },
            }
            for name, one in resources.items()
        }
        tags = [{"Key": key, "Value": value} for key, value in of_stack.items()]
        call(
            StackName="s",
            TemplateBody=json.dumps({"Resources": body}),
            Tags=tags,
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        cfn.get_waiter(waiter).wait(StackName="s", WaiterConfig=FAST)
        listed = cfn.describe_stack_resources(StackName="s")["StackResources"]
        ids.update({one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed})
        for name in ("Alarm", "Key", "Mapping", "Parameter", "Role", "Rule"):
            seen = {k: v for k, v in tags_of(name).items() if not k.startswith("aws:")}
            assert seen == {**of_stack, **own}, name

    deploy(cfn.create_stack, "stack_create_complete", {"a": "1", "b": "2"}, {"s": "x"})
    deploy(cfn.update_stack, "stack_update_complete", {"a": "9", "c": "3"}, {"s": "x"})
    deploy(cfn.update_stack, "stack_update_complete", {"a": "9", "c": "3"}, {"t": "y"})
