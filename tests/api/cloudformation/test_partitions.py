"""GovCloud and China: ARNs, pseudo parameters, managed policies and sessions have the region's partition.

Documented: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html and
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/pseudo-parameter-reference.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

REGIONS = [
    ("us-gov-west-1", "aws-us-gov", "amazonaws.com"),
    ("cn-north-1", "aws-cn", "amazonaws.com.cn"),
]
TEMPLATE = {
    "Resources": {
        "Stream": {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1}},
        "Bucket": {"Type": "AWS::S3::Bucket"},
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"},
                         "Action": "sts:AssumeRole"}
                    ],
                },
                "ManagedPolicyArns": [
                    {"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaKinesisExecutionRole"}
                ],
            },
        },
    },
    "Outputs": {
        "Partition": {"Value": {"Ref": "AWS::Partition"}},
        "Suffix": {"Value": {"Ref": "AWS::URLSuffix"}},
        "Stream": {"Value": {"Fn::GetAtt": ["Stream", "Arn"]}},
        "Bucket": {"Value": {"Fn::GetAtt": ["Bucket", "Arn"]}},
        "Host": {"Value": {"Fn::GetAtt": ["Bucket", "RegionalDomainName"]}},
        "Role": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("partitions") / "data") as cloud:
        yield cloud


@pytest.mark.parametrize(("region", "partition", "suffix"), REGIONS)
def test_a_stack_has_the_partition_of_its_region(
    cloud: InProcessCloud, region: str, partition: str, suffix: str
):
    stacks = cloud.client("cloudformation", region=region)
    stack = stacks.create_stack(
        StackName="s", TemplateBody=json.dumps(TEMPLATE), Capabilities=["CAPABILITY_IAM"]
    )["StackId"]

    def described() -> dict[str, object]:
        return stacks.describe_stacks(StackName="s")["Stacks"][0]

    wait_until(
        lambda: described()["StackStatus"] != "CREATE_IN_PROGRESS", within_s=20, what="its end"
    )
    assert described()["StackStatus"] == "CREATE_COMPLETE"
    listed = stacks.describe_stacks(StackName="s")["Stacks"][0]["Outputs"]
    outputs = {one["OutputKey"]: one["OutputValue"] for one in listed}
    assert (outputs["Partition"], outputs["Suffix"]) == (partition, suffix)
    assert outputs["Host"].endswith(f".s3.{region}.{suffix}")
    for arn in (stack, outputs["Stream"], outputs["Bucket"], outputs["Role"]):
        assert arn.startswith(f"arn:{partition}:")


@pytest.mark.parametrize(("region", "partition"), [one[:2] for one in REGIONS])
def test_sessions_have_the_partition_of_their_role(
    cloud: InProcessCloud, region: str, partition: str
):
    sts = cloud.client("sts", region=region)
    assert sts.get_caller_identity()["Arn"] == f"arn:{partition}:iam::{ACCOUNT}:root"
    role = f"arn:{partition}:iam::{ACCOUNT}:role/r"
    user = sts.assume_role(RoleArn=role, RoleSessionName="xy")["AssumedRoleUser"]
    assert user["Arn"] == f"arn:{partition}:sts::{ACCOUNT}:assumed-role/r/xy"


@pytest.mark.parametrize(("region", "partition"), [one[:2] for one in REGIONS])
def test_pipes_and_schedules_exist_in_every_region(
    cloud: InProcessCloud, region: str, partition: str
):
    queue = f"arn:{partition}:sqs:{region}:{ACCOUNT}:q"
    role = f"arn:{partition}:iam::{ACCOUNT}:role/r"
    cloud.client("sqs", region=region).create_queue(QueueName="q")
    pipe = cloud.client("pipes", region=region).create_pipe(
        Name="p", RoleArn=role, Source=queue, Target=queue, DesiredState="STOPPED"
    )
    assert pipe["Arn"] == f"arn:{partition}:pipes:{region}:{ACCOUNT}:pipe/p"
    schedule = cloud.client("scheduler", region=region).create_schedule(
        Name="s",
        ScheduleExpression="rate(1 day)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": queue, "RoleArn": role},
    )
    assert schedule["ScheduleArn"].startswith(f"arn:{partition}:scheduler:{region}:")
