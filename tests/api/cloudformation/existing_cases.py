"""Every type of a stack's resources with a name: what is made outside, what a template asks for, how AWS refuses it."""

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
CASES = [
    Case(
        "AWS::CloudFormation::StackSet",
        called("cloudformation", "create_stack_set", **SET, Description="outside"),
        {**SET, "PermissionModel": "SELF_MANAGED"},
        called("cloudformation", "describe_stack_set", StackSetName="x"),
        "x",
        "StackSet x already exists",
    ),
    Case(
        "AWS::CloudWatch::Alarm",
        called("cloudwatch", "put_metric_alarm", **ALARM),
        {**ALARM, "Threshold": 9},
        called("cloudwatch", "describe_alarms", AlarmNames=["x"]),
        "x",
    ),
    Case(
        "AWS::DynamoDB::Table",
        called("dynamodb", "create_table", **TABLE),
        TABLE,
        called("dynamodb", "describe_table", TableName="x"),
        "x",
    ),
    Case(
        "AWS::DynamoDB::GlobalTable",
        called("dynamodb", "create_table", **{**TABLE, "TableName": "global"}),
        {**TABLE, "TableName": "global", "Replicas": [{"Region": "us-east-1"}]},
        called("dynamodb", "describe_table", TableName="global"),
        "global",
    ),
    Case(
        "AWS::Events::Rule",
        called("events", "put_rule", Name="x", EventPattern='{"source":["a"]}'),
        {"Name": "x", "EventPattern": {"source": ["b"]}},
        called("events", "describe_rule", Name="x"),
        "x",
    ),
    Case(
        "AWS::KinesisFirehose::DeliveryStream",
        both(
            make_bucket,
            called(
                "firehose",
                "create_delivery_stream",
                DeliveryStreamName="x",
                S3DestinationConfiguration=S3_DESTINATION,
            ),
        ),
        {"DeliveryStreamName": "x", "S3DestinationConfiguration": S3_DESTINATION},
        called("firehose", "describe_delivery_stream", DeliveryStreamName="x"),
        "x",
    ),
    Case(
        "AWS::Glue::Database",
        make_database,
        {"CatalogId": ACCOUNT, "DatabaseInput": {"Name": "x", "Description": "other"}},
        called("glue", "get_database", Name="x"),
        "x",
    ),
    Case(
        "AWS::Glue::Table",
        both(
            make_database,
            called("glue", "create_table", DatabaseName="x", TableInput={"Name": "t"}),
        ),
        {"CatalogId": ACCOUNT, "DatabaseName": "x", "TableInput": {"Name": "t", "Owner": "o"}},
        called("glue", "get_table", DatabaseName="x", Name="t"),
        "t",
    ),
    Case(
        "AWS::IAM::Role",
        make_role,
        {"RoleName": "x", "AssumeRolePolicyDocument": TRUST, "Description": "other"},
        called("iam", "get_role", RoleName="x"),
        "x",
    ),
    Case(
        "AWS::IAM::Policy",
        both(
            make_role,
            called(
                "iam", "put_role_policy", RoleName="x", PolicyName="p",
                PolicyDocument=json.dumps(PERMIT),
            ),
        ),
        {"PolicyName": "p", "Roles": ["x"], "PolicyDocument": PERMIT},
        called("iam", "get_role_policy", RoleName="x", PolicyName="p"),
        "p|x",
    ),
    Case(
        "AWS::IAM::ManagedPolicy",
        called("iam", "create_policy", PolicyName="x", PolicyDocument=json.dumps(PERMIT)),
        {"ManagedPolicyName": "x", "PolicyDocument": PERMIT},
        called("iam", "get_policy", PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/x"),
        "x",
    ),
    Case(
        "AWS::Kinesis::Stream",
        make_stream,
        {"Name": "x", "ShardCount": 2},
        called("kinesis", "describe_stream_summary", StreamName="x"),
        "x",
    ),
    Case(
        "AWS::Kinesis::Channel",
        both(
            make_flights,
            once(called("s3", "create_bucket", Bucket="lake")),
            called("kinesis", "create_channel", **FEED),
        ),
        FEED,
        called("kinesis", "list_channels"),
        "x",
    ),
    Case(
        "AWS::Kinesis::Queue",
        both(
            make_flights,
            called("kinesis", "create_queue", **JOBS),
        ),
        JOBS,
        called("kinesis", "list_queues"),
        "x",
    ),
    Case(
        "AWS::Kinesis::StreamConsumer",
        both(
            make_stream,
            called(
                "kinesis", "register_stream_consumer", StreamARN=arn("kinesis", "stream/x"),
                ConsumerName="c",
            ),
        ),
        {"StreamARN": arn("kinesis", "stream/x"), "ConsumerName": "c"},
        called(
            "kinesis", "describe_stream_consumer", StreamARN=arn("kinesis", "stream/x"),
            ConsumerName="c",
        ),
        "c",
    ),
    Case(
        "AWS::Kinesis::ResourcePolicy",
        both(
            make_stream,
            called(
                "kinesis", "put_resource_policy", ResourceARN=arn("kinesis", "stream/x"),
                Policy=json.dumps(STREAM_POLICY),
            ),
        ),
        {"ResourceArn": arn("kinesis", "stream/x"), "ResourcePolicy": STREAM_POLICY},
        called("kinesis", "get_resource_policy", ResourceARN=arn("kinesis", "stream/x")),
        arn("kinesis", "stream/x"),
    ),
    Case(
        "AWS::EMR::SecurityConfiguration",
        called("emr", "create_security_configuration", Name="x", SecurityConfiguration="{}"),
        {"Name": "x", "SecurityConfiguration": {}},
        called("emr", "describe_security_configuration", Name="x"),
        "x",
    ),
    Case(
        "AWS::Lambda::Function",
        make_function,
        {
            "FunctionName": "x", "Runtime": "python3.13", "Handler": "index.handler", "Role": ROLE,
            "Code": {"ZipFile": "def handler(e, c): pass"},
        },
        called("lambda", "get_function_configuration", FunctionName="x"),
        "x",
    ),
    Case(
        "AWS::Lambda::EventInvokeConfig",
        both(
            make_function,
            called(
                "lambda", "put_function_event_invoke_config", FunctionName="x",
                MaximumRetryAttempts=1,
            ),
        ),
        {"FunctionName": "x", "Qualifier": "$LATEST", "MaximumRetryAttempts": 0},
        called("lambda", "get_function_event_invoke_config", FunctionName="x"),
        "x|$LATEST",
    ),
    Case(
        "AWS::Lambda::Version",
        both(make_function, called("lambda", "publish_version", FunctionName="x")),
        {"FunctionName": "x"},
        called("lambda", "list_versions_by_function", FunctionName="x"),
        "",
        "A version for this Lambda function exists ( 1 ). Modify the function to create a new version.",
    ),
    Case(
        "AWS::Lambda::Alias",
        both(
            make_function,
            called("lambda", "create_alias", FunctionName="x", Name="a", FunctionVersion="$LATEST"),
        ),
        {"FunctionName": "x", "Name": "a", "FunctionVersion": "$LATEST", "Description": "other"},
        called("lambda", "get_alias", FunctionName="x", Name="a"),
        "a",
    ),
    Case(
        "AWS::Lambda::EventSourceMapping",
        both(
            make_stream,
            make_function,
            called("lambda", "create_event_source_mapping", Enabled=False, **MAPPING),
        ),
        MAPPING,
        called("lambda", "list_event_source_mappings", FunctionName="x"),
        "",
        "already exists",
    ),
    Case(
        "AWS::Lambda::Url",
        both(make_function, URL_CONFIG),
        {"TargetFunctionArn": "x", "AuthType": "AWS_IAM"},
        called("lambda", "get_function_url_config", FunctionName="x"),
        "x",
    ),
    Case(
        "AWS::Logs::LogGroup",
        make_group,
        {"LogGroupName": "x", "RetentionInDays": 1},
        called("logs", "describe_log_groups", logGroupNamePrefix="x"),
        "x",
    ),
    Case(
        "AWS::Logs::LogStream",
        both(
            make_group,
            called("logs", "create_log_stream", logGroupName="x", logStreamName="s"),
        ),
        {"LogGroupName": "x", "LogStreamName": "s"},
        called("logs", "describe_log_streams", logGroupName="x"),
        "s",
    ),
    Case(
        "AWS::S3::Bucket",
        both(make_bucket, called("s3", "put_object", Bucket="xxx", Key="k", Body=b"mine")),
        {"BucketName": "xxx"},
        called("s3", "list_objects_v2", Bucket="xxx"),
        "xxx",
    ),
    Case(
        "AWS::S3::BucketPolicy",
        both(
            make_bucket,
            called("s3", "put_bucket_policy", Bucket="xxx", Policy=json.dumps(BUCKET_POLICY)),
        ),
        {"Bucket": "xxx", "PolicyDocument": {**BUCKET_POLICY, "Id": "other"}},
        called("s3", "get_bucket_policy", Bucket="xxx"),
        "",
        "The bucket policy already exists on bucket xxx.",
    ),
    Case(
        "AWS::SNS::Topic",
        make_topic,
        {"TopicName": "x"},
        called("sns", "get_topic_attributes", TopicArn=arn("sns", "x")),
        arn("sns", "x"),
    ),
    Case(
        "AWS::SNS::Subscription",
        both(
            make_topic,
            make_queue,
            called(
                "sns", "subscribe", TopicArn=arn("sns", "x"), Protocol="sqs",
                Endpoint=arn("sqs", "x"),
            ),
        ),
        {"TopicArn": arn("sns", "x"), "Protocol": "sqs", "Endpoint": arn("sqs", "x")},
        called("sns", "list_subscriptions_by_topic", TopicArn=arn("sns", "x")),
        arn("sns", "x:"),
        "Resource of type 'AWS::SNS::Subscription' with identifier 'arn:aws:sns:us-east-1:",
    ),
    Case("AWS::SQS::Queue", make_queue, {"QueueName": "x"},
         called("sqs", "get_queue_attributes", QueueUrl=QUEUE_URL, AttributeNames=["All"]), QUEUE_URL),
    Case(
        "AWS::SSM::Parameter",
        called("ssm", "put_parameter", Name="x", Value="mine", Type="String"),
        {"Name": "x", "Value": "other", "Type": "String"},
        called("ssm", "get_parameter", Name="x"),
        "x",
    ),
    Case(
        "AWS::SNS::TopicInlinePolicy",
        both(
            called("sns", "create_topic", Name="inline"),
            called(
                "sns", "set_topic_attributes", TopicArn=arn("sns", "inline"), AttributeName="Policy",
                AttributeValue=json.dumps(TOPIC_POLICY),
            ),
        ),
        {"TopicArn": arn("sns", "inline"), "PolicyDocument": {**TOPIC_POLICY, "Id": "other"}},
        called("sns", "get_topic_attributes", TopicArn=arn("sns", "inline")),
        arn("sns", "inline"),
    ),
    Case(
        "AWS::SQS::QueueInlinePolicy",
        called("sqs", "create_queue", QueueName="inline", Attributes={"Policy": json.dumps(ALLOW)}),
        {"Queue": f"{QUEUE_URL[:-1]}inline", "PolicyDocument": {**ALLOW, "Id": "other"}},
        called(
            "sqs", "get_queue_attributes", QueueUrl=f"{QUEUE_URL[:-1]}inline", AttributeNames=["All"],
        ),
        f"{QUEUE_URL[:-1]}inline",
    ),
]  # fmt: skip

NAMELESS = {
    **dict.fromkeys(
        (
            "AWS::CloudFront::CachePolicy",
            "AWS::CloudFront::OriginRequestPolicy",
            "AWS::CloudFront::ResponseHeadersPolicy",
            "AWS::EventSchemas::Registry",
            "AWS::EventSchemas::Schema",
            "AWS::IoT::Logging",
            "AWS::MSK::Configuration",
            "AWS::XRay::Group",
            "AWS::XRay::SamplingRule",
        ),
        "settings that only the stack has",
    ),
    "AWS::EMR::Cluster": "clusters may share a name",
    "AWS::EMR::InstanceGroupConfig": "groups may share a name",
    "AWS::EMR::InstanceFleetConfig": "fleets may share a name",
    "AWS::EMR::Step": "steps may share a name",
    "AWS::EMRServerless::Application": "applications may share a name",
    "AWS::KMS::Key": "a key's id is made by KMS",
    "AWS::Lambda::LayerVersion": "another version is made",
    "AWS::Lambda::LayerVersionPermission": "the statement's id is made by CloudFormation",
    "AWS::Lambda::Permission": "the statement's id is made by CloudFormation",
    "AWS::CDK::Metadata": "nothing is made",
    "AWS::CloudFormation::Stack": "the stack's name is made by CloudFormation",
    "AWS::CloudFormation::Macro": "only stacks make macros: tested with transforms",
    "AWS::CloudFormation::WaitCondition": "nothing is made",
    "AWS::CloudFormation::WaitConditionHandle": "nothing is made",
    "AWS::SNS::TopicPolicy": "every topic has one, which is changed: tested below",
    "AWS::SQS::QueuePolicy": "a queue's policy is an attribute, which is changed: tested below",
}
