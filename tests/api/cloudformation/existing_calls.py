"""Calls that make what a template makes too, and what they need."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.policies import TRUST

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"
ALLOW = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}],
}
TOPIC_POLICY = {**ALLOW, "Statement": [{**ALLOW["Statement"][0], "Action": "sns:Publish"}]}
PERMIT = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}],
}


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:us-east-1:{ACCOUNT}:{resource}"


def code() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("index.py"), "def handler(event, context): pass")
    return packed.getvalue()


@dataclass(frozen=True)
class Case:
    """A type, what is made outside, what a template asks for, how to look at it, and how AWS refuses it."""

    kind: str
    make: Callable[[InProcessCloud], Any]
    properties: dict[str, Any]
    look: Callable[[InProcessCloud], Any]
    identifier: str
    sentence: str = ""

    @property
    def refusal(self) -> str:
        return self.sentence or (
            f"Resource handler returned message: \"Resource of type '{self.kind}' with identifier"
            f" '{self.identifier}' already exists.\" (RequestToken: "
        )


def called(service: str, operation: str, **params: Any) -> Callable[[InProcessCloud], Any]:
    """Return a call that leaves the answer's own data out."""

    def call(cloud: InProcessCloud) -> Any:
        answer = getattr(cloud.client(service), operation)(**params)
        answer.pop("ResponseMetadata", None)
        return answer

    return call


def once(call: Callable[[InProcessCloud], Any]) -> Callable[[InProcessCloud], Any]:
    """Return a call that several cases need, and the first makes."""
    done: list[Any] = []

    def make(cloud: InProcessCloud) -> None:
        if not done:
            done.append(call(cloud))

    return make


def both(*calls: Callable[[InProcessCloud], Any]) -> Callable[[InProcessCloud], Any]:
    return lambda cloud: [call(cloud) for call in calls]


JOBS: dict[str, Any] = {
    "QueueName": "x",
    "StreamConfigurationList": [
        {"StreamARN": arn("kinesis", "stream/flights"), "StartingPosition": {"Type": "LATEST"}}
    ],
}
FEED: dict[str, Any] = {
    "ChannelName": "x",
    "ServiceExecutionRoleARN": ROLE,
    "StreamConfigurationList": [
        {
            "StreamARN": arn("kinesis", "stream/flights"),
            "RecordConfiguration": {"RecordFormatType": "JSON"},
        }
    ],
    "S3DestinationConfiguration": {
        "StorageConfiguration": {
            "BucketARN": "arn:aws:s3:::lake",
            "ExpectedBucketOwner": "000000000000",
            "CompressionType": "NONE",
        }
    },
}
make_flights = once(called(
    "kinesis", "create_stream", StreamName="flights", StreamModeDetails={"StreamMode": "ON_DEMAND"},
))  # fmt: skip
make_stream = once(called("kinesis", "create_stream", StreamName="x", ShardCount=1))
make_function = once(called(
    "lambda", "create_function", FunctionName="x", Runtime="python3.13", Handler="index.handler", Role=ROLE,
    Code={"ZipFile": code()},
))  # fmt: skip
make_topic = once(called("sns", "create_topic", Name="x"))
make_queue = once(called("sqs", "create_queue", QueueName="x"))
make_role = once(
    called("iam", "create_role", RoleName="x", AssumeRolePolicyDocument=json.dumps(TRUST))
)
make_bucket = once(called("s3", "create_bucket", Bucket="xxx"))
make_group = once(called("logs", "create_log_group", logGroupName="x"))
make_database = once(called("glue", "create_database", DatabaseInput={"Name": "x"}))
QUEUE_URL = f"http://127.0.0.1:4566/{ACCOUNT}/x"
S3_DESTINATION = {"BucketARN": "arn:aws:s3:::xxx", "RoleARN": ROLE}
TABLE = {
    "TableName": "x",
    "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
ALARM = {
    "AlarmName": "x",
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 1,
    "MetricName": "m",
    "Namespace": "n",
    "Period": 60,
    "Statistic": "Sum",
    "Threshold": 1.0,
}
URL_CONFIG = called("lambda", "create_function_url_config", FunctionName="x", AuthType="NONE")
MAPPING = {
    "FunctionName": "x",
    "EventSourceArn": arn("kinesis", "stream/x"),
    "StartingPosition": "LATEST",
}
BUCKET_POLICY = {
    **ALLOW,
    "Statement": [{**ALLOW["Statement"][0], "Action": "s3:*", "Resource": "arn:aws:s3:::xxx/*"}],
}
STREAM_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": ACCOUNT},
            "Action": "kinesis:GetRecords",
            "Resource": arn("kinesis", "stream/x"),
        }
    ],
}

SET = {"StackSetName": "x", "TemplateBody": '{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}'}
