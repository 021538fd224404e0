"""Puts data into a stack of others, and checks that it arrives; see `scripts.third_party_stacks`."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from boto3.session import Session
from botocore.config import Config

from headrace.core.clock import SystemClock

ACCOUNT, REGION = "000000000000", "us-east-1"
# The functions of the cases put an object into this bucket, which shows that they ran.
SINK = "survey-sink"
WITHIN_S, SCHEDULED_WITHIN_S = 25.0, 75.0


class Cloud:
    """A headrace process and its clients."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: dict[str, Any] = {}

    def __call__(self, service: str) -> Any:
        """Return a client; it never retries."""
        if service not in self._clients:
            self._clients[service] = Session().client(
                service,
                endpoint_url=self.url,
                region_name=REGION,
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(retries={"total_max_attempts": 1}, read_timeout=60),
            )
        return self._clients[service]

    def ids(self, stack: str, kind: str) -> list[str]:
        """Return the physical ids of a stack's resources of a type, except dead-letter queues and log buckets."""
        stack_resources = self("cloudformation").describe_stack_resources(StackName=stack)[
            "StackResources"
        ]
        beside = ("dlq", "deadletter", "log")
        return [
            each["PhysicalResourceId"]
            for each in stack_resources
            if each["ResourceType"] == kind
            and not any(word in each["LogicalResourceId"].lower() for word in beside)
        ]


# --- what goes in -------------------------------------------------------------------------------


def _post(url: str) -> None:
    # API Gateway's methods may require a signature; a cloud without --auth looks only at its key.
    key = f"{ACCOUNT}/20260101/{REGION}/execute-api/aws4_request"
    headers = {
        "content-type": "application/json",
        "authorization": f"AWS4-HMAC-SHA256 Credential={key}, SignedHeaders=host, Signature=0",
    }
    body = b'{"data": "x", "id": "x", "n": 1, "partitionKey": "a"}'
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def _rest(cloud: Cloud, stack: str, path: str) -> None:
    api = cloud.ids(stack, "AWS::ApiGateway::RestApi")[0]
    stage = cloud("apigateway").get_stages(restApiId=api)["item"][0]["stageName"]
    _post(f"{cloud.url}/_aws/execute-api/{api}/{stage}{path}")


def _http(cloud: Cloud, stack: str, path: str) -> None:
    api = cloud.ids(stack, "AWS::ApiGatewayV2::Api")[0]
    _post(f"{cloud.url}/_aws/execute-api/{api}{path}")


def _send(cloud: Cloud, stack: str, _: str) -> None:
    queues = cloud.ids(stack, "AWS::SQS::Queue")
    url = next((queue for queue in queues if not queue.endswith("-out")), queues[0])
    grouped = {"MessageGroupId": "g"} if url.endswith(".fifo") else {}
    cloud("sqs").send_message(QueueUrl=url, MessageBody='{"a": 1}', **grouped)


def _put_item(cloud: Cloud, stack: str, _: str) -> None:
    kinds = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
    table = next(each for kind in kinds for each in cloud.ids(stack, kind))
    keys = cloud("dynamodb").describe_table(TableName=table)["Table"]["KeySchema"]
    cloud("dynamodb").put_item(
        TableName=table, Item={key["AttributeName"]: {"S": "x"} for key in keys}
    )


def _put_event(cloud: Cloud, stack: str, source: str) -> None:
    entry = {"Source": source or stack, "DetailType": "t", "Detail": '{"a": 1}'}
    buses = cloud.ids(stack, "AWS::Events::EventBus")
    # Only the bus of that name: `ev-bus` feeds the default bus.
    if stack in buses:
        entry["EventBusName"] = stack
    cloud("events").put_events(Entries=[entry])


def _log(cloud: Cloud, stack: str, _: str) -> None:
    cloud("logs").create_log_stream(logGroupName=stack, logStreamName="s")
    line = {"timestamp": SystemClock().now_ms(), "message": "hello"}
    cloud("logs").put_log_events(logGroupName=stack, logStreamName="s", logEvents=[line])


FEEDS: dict[str, Callable[[Cloud, str, str], Any]] = {
    "nothing": lambda _cloud, _stack, _how: None,
    "kinesis": lambda cloud, stack, _how: cloud("kinesis").put_record(
        StreamName=cloud.ids(stack, "AWS::Kinesis::Stream")[0],
        PartitionKey="a",
        Data=b'{"id": 1}\n',
    ),
    "table": _put_item,
    "queue": _send,
    "topic": lambda cloud, stack, _how: cloud("sns").publish(
        TopicArn=cloud.ids(stack, "AWS::SNS::Topic")[0],
        Message='{"kind": "a"}',
        MessageAttributes={
            "kind": {"DataType": "String", "StringValue": "abc"},
            "n": {"DataType": "Number", "StringValue": "2"},
        },
        **(
            {"MessageGroupId": "g"}
            if cloud.ids(stack, "AWS::SNS::Topic")[0].endswith(".fifo")
            else {}
        ),
    ),
    "bucket": lambda cloud, stack, _how: cloud("s3").put_object(
        Bucket=cloud.ids(stack, "AWS::S3::Bucket")[0], Key="in/x", Body=b"1"
    ),
    "function": lambda cloud, stack, how: cloud("lambda").invoke(
        FunctionName=how or cloud.ids(stack, "AWS::Lambda::Function")[0],
        InvocationType="Event",
        Payload=b"{}",
    ),
    "machine": lambda cloud, stack, _how: cloud("stepfunctions").start_execution(
        stateMachineArn=f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{stack}", input='{"n": 1}'
    ),
    "event": _put_event,
    "firehose": lambda cloud, stack, _how: cloud("firehose").put_record(
        DeliveryStreamName=cloud.ids(stack, "AWS::KinesisFirehose::DeliveryStream")[0],
        Record={"Data": b'{"id": 1}\n'},
    ),
    "log": _log,
    "rest": _rest,
    "http": _http,
    "alarm": lambda cloud, stack, _how: cloud("cloudwatch").set_alarm_state(
        AlarmName=cloud.ids(stack, "AWS::CloudWatch::Alarm")[0], StateValue="ALARM", StateReason="x"
    ),
    "iot": lambda cloud, stack, _how: cloud("iot-data").publish(
        topic=f"{stack}/d1", payload=b'{"n": 1, "id": "x"}'
    ),
    "url": lambda cloud, stack, _how: _post(
        cloud("lambda").get_function_url_config(
            FunctionName=cloud.ids(stack, "AWS::Lambda::Function")[0]
        )["FunctionUrl"]
    ),
}


# --- where it arrives -----------------------------------------------------------------------------


def _in_functions(cloud: Cloud, stack: str, how: str) -> bool:
    names = [how] if how else cloud.ids(stack, "AWS::Lambda::Function")
    return any(
        cloud("s3").list_objects_v2(Bucket=SINK, Prefix=f"{name}/").get("KeyCount")
        for name in names
    )


def _in_stream(cloud: Cloud, stack: str, _: str) -> bool:
    kinesis = cloud("kinesis")
    for name in cloud.ids(stack, "AWS::Kinesis::Stream"):
        for shard in kinesis.list_shards(StreamName=name)["Shards"]:
            iterator = kinesis.get_shard_iterator(
                StreamName=name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            if kinesis.get_records(ShardIterator=iterator)["Records"]:
                return True
    return False


def _in_queue(cloud: Cloud, stack: str, _: str) -> bool:
    queues = cloud.ids(stack, "AWS::SQS::Queue")
    outs = [queue for queue in queues if queue.endswith("-out")]
    for url in outs or queues or [f"{cloud.url}/{ACCOUNT}/{stack}-q"]:
        answer = cloud("sqs").receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0
        )
        if any("s3:TestEvent" not in message["Body"] for message in answer.get("Messages", [])):
            return True
    return False


def _in_bucket(cloud: Cloud, stack: str, _: str) -> bool:
    return any(
        not content["Key"].startswith("err")
        for bucket in cloud.ids(stack, "AWS::S3::Bucket")
        for content in cloud("s3").list_objects_v2(Bucket=bucket).get("Contents", [])
    )


def _in_table(cloud: Cloud, stack: str, _: str) -> bool:
    tables = cloud.ids(stack, "AWS::DynamoDB::Table")
    return any(cloud("dynamodb").scan(TableName=table)["Count"] for table in tables)


def _in_executions(cloud: Cloud, stack: str, _: str) -> bool:
    return any(
        cloud("stepfunctions").list_executions(stateMachineArn=arn, statusFilter="SUCCEEDED")[
            "executions"
        ]
        for arn in cloud.ids(stack, "AWS::StepFunctions::StateMachine")
    )


SIGHTS: dict[str, Callable[[Cloud, str, str], bool]] = {
    "function": _in_functions,
    "kinesis": _in_stream,
    "queue": _in_queue,
    "bucket": _in_bucket,
    "table": _in_table,
    "machine": _in_executions,
    "log": lambda cloud, _stack, how: bool(
        cloud("logs").filter_log_events(logGroupName=how)["events"]
    ),
}


def feed(cloud: Cloud, stack: str, flow: Sequence[str]) -> str:
    """Put data into a stack and wait until it arrives; return the reason if it does not, else ''."""
    source, how_in, sight, how_out, within_s = [*flow, "", "", "", "", ""][:5]
    FEEDS[source](cloud, stack, how_in)
    is_scheduled = source == "nothing" and stack.startswith(("sch-", "ev-sched", "ev-cron"))
    usual_s = SCHEDULED_WITHIN_S if is_scheduled else WITHIN_S
    until = time.monotonic() + (float(within_s) if within_s else usual_s)
    while time.monotonic() < until:
        if SIGHTS[sight](cloud, stack, how_out):
            return ""
        time.sleep(0.3)
    return f"nothing arrived in the {sight}"
