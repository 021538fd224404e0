"""The resource groups tagging API sees and changes the tags of every service's resources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud
from tests.support.emr import cluster_request

TAGS = {"team": "water", "stage": "test"}
PAIRS = [{"Key": key, "Value": value} for key, value in TAGS.items()]
_ARN = "arn:aws:{}:us-east-1:000000000000:{}"


class Lab:
    def __init__(self, cloud: InProcessCloud) -> None:
        self.cloud = cloud
        self.tagging = cloud.client("resourcegroupstaggingapi")

    def client(self, service: str) -> Any:
        return self.cloud.client(service)

    def arns(self, **asked: Any) -> list[str]:
        answer = self.tagging.get_resources(**asked)
        return [found["ResourceARN"] for found in answer["ResourceTagMappingList"]]

    def tags(self, arn: str) -> dict[str, str]:
        (found,) = self.tagging.get_resources(ResourceARNList=[arn])["ResourceTagMappingList"]
        return {tag["Key"]: tag["Value"] for tag in found["Tags"]}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("tagging")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def made(cloud: InProcessCloud) -> dict[str, str]:
    """Make a resource of each type, untagged; return their ARNs by service."""
    clients = {
        name: cloud.client(name)
        for name in (
            "cloudwatch", "dynamodb", "emr", "emr-serverless", "events", "kinesis", "kms", "logs", "s3", "sns", "sqs",
            "ssm",
        )
    }  # fmt: skip
    clients["kinesis"].create_stream(StreamName="in", ShardCount=1)
    clients["s3"].create_bucket(Bucket="lake")
    clients["sqs"].create_queue(QueueName="q")
    clients["sns"].create_topic(Name="t")
    clients["logs"].create_log_group(logGroupName="/g")
    clients["dynamodb"].create_table(
        TableName="d",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    kinesis = clients["kinesis"]
    kinesis.create_stream(StreamName="feed", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    feed = _ARN.format("kinesis", "stream/feed")
    queue = kinesis.create_queue(QueueName="q", StreamConfigurationList=[{"StreamARN": feed}])
    channel = kinesis.create_channel(
        ChannelName="c",
        ServiceExecutionRoleARN="arn:aws:iam::000000000000:role/delivery",
        StreamConfigurationList=[
            {"StreamARN": feed, "RecordConfiguration": {"RecordFormatType": "JSON"}}
        ],
        S3DestinationConfiguration={
            "StorageConfiguration": {
                "BucketARN": "arn:aws:s3:::lake",
                "ExpectedBucketOwner": "000000000000",
                "CompressionType": "NONE",
            }
        },
    )
    cluster = clients["emr"].run_job_flow(**cluster_request())
    application = clients["emr-serverless"].create_application(
        name="a", type="SPARK", releaseLabel="emr-7.13.0", clientToken="x"
    )
    role = "arn:aws:iam::000000000000:role/delivery"
    firehose = cloud.client("firehose").create_delivery_stream(
        DeliveryStreamName="f",
        ExtendedS3DestinationConfiguration={"RoleARN": role, "BucketARN": "arn:aws:s3:::lake"},
    )
    clients["cloudwatch"].put_metric_alarm(
        AlarmName="a", Namespace="n", MetricName="m", Period=60, Statistic="Sum", Threshold=1,
        ComparisonOperator="GreaterThanThreshold", EvaluationPeriods=1,
    )  # fmt: skip
    clients["events"].create_event_bus(Name="b")
    rule = clients["events"].put_rule(Name="r", EventBusName="b", EventPattern='{"source": ["a"]}')
    clients["ssm"].put_parameter(Name="/a/b", Type="String", Value="v")
    clients["ssm"].put_parameter(Name="plain", Type="String", Value="v")
    return {
        "cloudwatch": _ARN.format("cloudwatch", "alarm:a"),
        "events": rule["RuleArn"],
        "kms": clients["kms"].create_key()["KeyMetadata"]["Arn"],
        "ssm": _ARN.format("ssm", "parameter/a/b"),
        "ssm plain": _ARN.format("ssm", "parameter/plain"),
        "kinesis": _ARN.format("kinesis", "stream/in"),
        "kinesis queue": queue["QueueDescription"]["QueueARN"],
        "kinesis channel": channel["ChannelDescription"]["ChannelARN"],
        "s3": "arn:aws:s3:::lake",
        "sqs": _ARN.format("sqs", "q"),
        "sns": _ARN.format("sns", "t"),
        "dynamodb": _ARN.format("dynamodb", "table/d"),
        "logs": _ARN.format("logs", "log-group:/g"),
        "elasticmapreduce": cluster["ClusterArn"],
        "emr-serverless": application["arn"],
        "firehose": firehose["DeliveryStreamARN"],
    }


TYPES = {
    "cloudwatch": "cloudwatch:alarm",
    "events": "events:rule",
    "kms": "kms:key",
    "ssm": "ssm:parameter",
    "ssm plain": "ssm:parameter",
    "kinesis": "kinesis:stream",
    "kinesis queue": "kinesis:queue",
    "kinesis channel": "kinesis:channel",
    "s3": "s3:bucket",
    "sqs": "sqs",
    "sns": "sns",
    "dynamodb": "dynamodb:table",
    "logs": "logs:log-group",
    "elasticmapreduce": "elasticmapreduce:cluster",
    "emr-serverless": "emr-serverless",
    "firehose": "firehose:deliverystream",
}


@pytest.mark.parametrize("service", TYPES)
def test_a_resource_is_tagged_found_and_untagged(
    cloud: InProcessCloud, made: dict[str, str], service: str
):
    lab, arn = Lab(cloud), made[service]
    assert arn not in lab.arns()
    answer = lab.tagging.tag_resources(ResourceARNList=[arn], Tags=TAGS)
    assert answer["FailedResourcesMap"] == {}
    assert lab.tags(arn) == TAGS
    assert lab.arns(ResourceTypeFilters=[TYPES[service]]) == [arn]
    assert lab.arns(ResourceTypeFilters=[TYPES[service]], TagFilters=[{"Key": "none"}]) == []
    wanted = [{"Key": "team", "Values": ["air", "water"]}, {"Key": "stage"}]
    assert lab.arns(ResourceTypeFilters=[service.split()[0]], TagFilters=wanted) == [arn]
    lab.tagging.untag_resources(ResourceARNList=[arn], TagKeys=["stage"])
    assert lab.tags(arn) == {"team": "water"}
    lab.tagging.untag_resources(ResourceARNList=[arn], TagKeys=["team"])
    assert arn not in lab.arns()


def test_keys_and_values_of_all_services(cloud: InProcessCloud, made: dict[str, str]):
    lab = Lab(cloud)
    lab.client("kinesis").add_tags_to_stream(StreamName="in", Tags={"team": "water"})
    tagging = {"TagSet": [{"Key": "team", "Value": "air"}, {"Key": "cost", "Value": "1"}]}
    lab.client("s3").put_bucket_tagging(Bucket="lake", Tagging=tagging)
    assert lab.tagging.get_tag_keys()["TagKeys"] == ["cost", "team"]
    assert lab.tagging.get_tag_values(Key="team")["TagValues"] == ["air", "water"]
    lab.tagging.untag_resources(
        ResourceARNList=[made["s3"], made["kinesis"]], TagKeys=["team", "cost"]
    )
    assert lab.tagging.get_tag_keys()["TagKeys"] == []


def test_functions_and_stacks_are_seen_with_the_stacks_tags(cloud: InProcessCloud):
    lab = Lab(cloud)
    code = {"ZipFile": "def handler(event, context): return 1"}
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": "fn",
            "Runtime": "python3.12",
            "Handler": "index.handler",
            "Role": "arn:aws:iam::000000000000:role/r",
            "Code": code,
        },
    }
    cfn = lab.client("cloudformation")
    stack = cfn.create_stack(
        StackName="tagged", TemplateBody=json.dumps({"Resources": {"F": function}}), Tags=PAIRS
    )["StackId"]
    cfn.get_waiter("stack_create_complete").wait(StackName="tagged")
    arn = _ARN.format("lambda", "function:fn")
    assert lab.arns(TagFilters=[{"Key": "team", "Values": ["water"]}]) == [stack, arn]
    assert lab.arns(ResourceTypeFilters=["lambda:function"]) == [arn]
    failed = lab.tagging.tag_resources(ResourceARNList=[stack, "nothing"], Tags={"a": "b"})
    assert sorted(failed["FailedResourcesMap"]) == [stack, "nothing"]
    cfn.delete_stack(StackName="tagged")
    cfn.get_waiter("stack_delete_complete").wait(StackName=stack)
    assert lab.arns() == []


def test_pages(cloud: InProcessCloud):
    lab = Lab(cloud)
    sqs = lab.client("sqs")
    for number in range(3):
        sqs.create_queue(QueueName=f"p{number}", tags=TAGS)
    first = lab.tagging.get_resources(ResourcesPerPage=2)
    assert len(first["ResourceTagMappingList"]) == 2
    second = lab.tagging.get_resources(ResourcesPerPage=2, PaginationToken=first["PaginationToken"])
    assert [r["ResourceARN"] for r in second["ResourceTagMappingList"]] == [
        _ARN.format("sqs", "p2")
    ]
    assert second["PaginationToken"] == ""


@pytest.mark.parametrize(
    "asked",
    [
        {"ResourcesPerPage": 0},
        {"ResourcesPerPage": 101},
        {"TagsPerPage": 150},
        {"PaginationToken": "x"},
        {"ExcludeCompliantResources": True},
        {"ResourceARNList": ["arn:aws:s3:::lake"], "ResourceTypeFilters": ["s3"]},
    ],
)
def test_what_is_refused(cloud: InProcessCloud, asked: dict[str, Any]):
    with pytest.raises(ClientError) as error:
        Lab(cloud).tagging.get_resources(**asked)
    response: Any = error.value.response
    assert response["Error"]["Code"] == "InvalidParameterException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_reserved_keys_are_refused(cloud: InProcessCloud):
    with pytest.raises(ClientError, match="aws: are reserved"):
        Lab(cloud).tagging.tag_resources(
            ResourceARNList=["arn:aws:s3:::lake"], Tags={"aws:mine": "x"}
        )
