"""The operations of the soak's load, each alone: their resources, and one call of each."""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections.abc import Callable
from typing import Any

ACCOUNT, REGION = "000000000000", "us-east-1"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/r"
FUNCTION = "def handler(event, context):\n    print('a line')\n    return {}\n"

NAMES = (
    "PutRecord", "PutRecords", "GetRecords", "firehose PutRecord",
    "SendMessage/Receive/Delete", "ReceiveMessage (empty)",
    "UpdateItem (legacy)", "UpdateItem", "Scan", "BatchWriteItem (streamed)",
    "Publish to a queue", "PutEvents to a queue", "PutParameter", "GetParameter", "AssumeRole",
    "PutLogEvents", "FilterLogEvents", "PutMetricData",
    "PutObject/Get/Delete", "ListObjectsV2", "Invoke", "Invoke (event)",
)  # fmt: skip

Call = Callable[[int], object]
Client = Callable[[str], Any]


def operations(client: Client) -> dict[str, Call]:
    """Create the resources of all operations; return each operation's call, which takes its number, by name."""
    return (
        _streams(client) | _queues(client) | _tables(client) | _notices(client) | _watching(client)
        | _objects(client) | _functions(client)
    )  # fmt: skip


def _streams(client: Client) -> dict[str, Call]:
    kinesis, firehose = client("kinesis"), client("firehose")
    kinesis.create_stream(StreamName="s", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="s")
    client("s3").create_bucket(Bucket="delivered")
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        S3DestinationConfiguration={"RoleARN": ROLE_ARN, "BucketARN": "arn:aws:s3:::delivered"},
    )
    shard = kinesis.list_shards(StreamName="s")["Shards"][0]["ShardId"]

    def read(_number: int) -> None:
        iterator = kinesis.get_shard_iterator(
            StreamName="s", ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        kinesis.get_records(ShardIterator=iterator, Limit=10)

    return {
        "PutRecord": lambda n: kinesis.put_record(
            StreamName="s", Data=b"x" * 200, PartitionKey=str(n)
        ),
        "PutRecords": lambda n: kinesis.put_records(
            StreamName="s",
            Records=[{"Data": b"x" * 200, "PartitionKey": f"{n}-{k}"} for k in range(50)],
        ),
        "GetRecords": read,
        "firehose PutRecord": lambda _n: firehose.put_record(
            DeliveryStreamName="d", Record={"Data": b"x" * 100}
        ),
    }


def _queues(client: Client) -> dict[str, Call]:
    sqs = client("sqs")
    url = sqs.create_queue(QueueName="q")["QueueUrl"]

    def pass_on(_number: int) -> None:
        sqs.send_message(QueueUrl=url, MessageBody="x" * 500)
        for message in sqs.receive_message(QueueUrl=url).get("Messages", ()):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    return {
        "SendMessage/Receive/Delete": pass_on,
        "ReceiveMessage (empty)": lambda _n: sqs.receive_message(QueueUrl=url),
    }


def _tables(client: Client) -> dict[str, Call]:
    dynamodb = client("dynamodb")
    for name, streams in (("leases", False), ("streamed", True)):
        dynamodb.create_table(
            TableName=name, BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            StreamSpecification={"StreamEnabled": streams} | ({"StreamViewType": "NEW_IMAGE"} if streams else {}),
        )  # fmt: skip

    def update(number: int, **parameters: Any) -> None:
        dynamodb.update_item(
            TableName="leases",
            Key={"k": {"S": str(number % 50)}},
            **parameters,
        )

    def write(number: int) -> None:
        items = [{"k": {"S": str(k)}, "v": {"N": str(number)}} for k in range(25)]
        dynamodb.batch_write_item(
            RequestItems={"streamed": [{"PutRequest": {"Item": item}} for item in items]}
        )

    return {
        "UpdateItem (legacy)": lambda n: update(
            n, AttributeUpdates={"c": {"Value": {"N": "1"}, "Action": "ADD"}}
        ),
        "UpdateItem": lambda n: update(
            n, UpdateExpression="ADD c :one", ExpressionAttributeValues={":one": {"N": "1"}}
        ),
        "Scan": lambda _n: dynamodb.scan(TableName="leases"),
        "BatchWriteItem (streamed)": write,
    }


def _notices(client: Client) -> dict[str, Call]:
    sns, events, ssm, sts = map(client, ("sns", "events", "ssm", "sts"))
    sqs = client("sqs")
    url = sqs.create_queue(QueueName="notices")["QueueUrl"]
    queue_arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:notices"
    topic = sns.create_topic(Name="t")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)
    events.put_rule(Name="r", EventPattern='{"source":["soak"]}')
    events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": queue_arn}])

    def take() -> None:
        for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=2).get("Messages", ()):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def publish(_number: int) -> None:
        sns.publish(TopicArn=topic, Message="x" * 300)
        take()

    def put_events(_number: int) -> None:
        events.put_events(Entries=[{"Source": "soak", "DetailType": "d", "Detail": "{}"}])
        take()

    return {
        "Publish to a queue": publish,
        "PutEvents to a queue": put_events,
        "PutParameter": lambda n: ssm.put_parameter(
            Name=f"/p/{n % 5}", Value="x", Type="String", Overwrite=True
        ),
        "GetParameter": lambda _n: ssm.get_parameter(Name="/p/0"),
        "AssumeRole": lambda _n: sts.assume_role(
            RoleArn=ROLE_ARN, RoleSessionName="soak", DurationSeconds=900
        ),
    }


def _watching(client: Client) -> dict[str, Call]:
    logs, cloudwatch = client("logs"), client("cloudwatch")
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")

    def put_lines(_number: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        lines = [{"timestamp": now_ms, "message": "x" * 200}] * 20
        logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=lines)

    def put_metrics(number: int) -> None:
        dimensions = [{"Name": "d", "Value": "v"}]
        data = [
            {"MetricName": f"m{k}", "Value": float(number), "Dimensions": dimensions}
            for k in range(10)
        ]
        cloudwatch.put_metric_data(Namespace="soak", MetricData=data)

    return {
        "PutLogEvents": put_lines,
        "FilterLogEvents": lambda _n: logs.filter_log_events(logGroupName="g", limit=10),
        "PutMetricData": put_metrics,
    }


def _objects(client: Client) -> dict[str, Call]:
    s3 = client("s3")
    s3.create_bucket(Bucket="objects")

    def pass_through(number: int) -> None:
        key = f"k/{number}"
        s3.put_object(Bucket="objects", Key=key, Body=b"x" * 1000)
        s3.get_object(Bucket="objects", Key=key)["Body"].read()
        s3.delete_object(Bucket="objects", Key=key)

    return {
        "PutObject/Get/Delete": pass_through,
        "ListObjectsV2": lambda _n: s3.list_objects_v2(Bucket="objects"),
    }


def _functions(client: Client) -> dict[str, Call]:
    lambda_ = client("lambda")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("app.py", FUNCTION)
    lambda_.create_function(
        FunctionName="f", Runtime=f"python3.{sys.version_info.minor}", Role=ROLE_ARN, Handler="app.handler",
        Code={"ZipFile": archive.getvalue()},
    )  # fmt: skip

    def invoke(kind: str) -> Call:
        def call(number: int) -> None:
            payload = json.dumps({"n": number}).encode()
            lambda_.invoke(FunctionName="f", InvocationType=kind, Payload=payload)["Payload"].read()

        return call

    return {"Invoke": invoke("RequestResponse"), "Invoke (event)": invoke("Event")}
