"""A small pipeline with something on every page: streams, functions that work and fail, a delivery, a stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.lambda_lab import zipped

ROLE = "arn:aws:iam::000000000000:role/r"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ENRICH = "def handler(event, context):\n    print('enriched', len(event['Records']))\n"
FAIL = (
    "def handler(event, context):\n"
    "    raise ValueError('no price of ' + event['Records'][0]['kinesis']['partitionKey'])\n"
)
TEMPLATE = {
    "Resources": {
        "Stream": {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1}},
        "Queue": {"Type": "AWS::SQS::Queue"},
    },
    "Outputs": {"QueueUrl": {"Value": {"Ref": "Queue"}}},
}


def make_pipeline(client: Callable[[str], Any]) -> None:
    """Make the pipeline and put records into it."""
    kinesis, lambda_, firehose = client("kinesis"), client("lambda"), client("firehose")
    kinesis.create_stream(StreamName="orders", ShardCount=2)
    kinesis.create_stream(StreamName="clicks", ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
    arn = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"][
        "StreamARN"
    ]
    kinesis.split_shard(
        StreamName="orders",
        ShardToSplit="shardId-000000000001",
        NewStartingHashKey=str((1 << 127) + (1 << 126)),
    )
    queue_url = client("sqs").create_queue(QueueName="orders-failed")["QueueUrl"]
    queue = client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
    queue_arn = queue["Attributes"]["QueueArn"]
    client("s3").create_bucket(Bucket="lake")
    for name, source in (("enrich", ENRICH), ("price-check", FAIL)):
        lambda_.create_function(
            FunctionName=name,
            Runtime="python3.12",
            Role=ROLE,
            Handler="index.handler",
            Code={"ZipFile": zipped({"index.py": source})},
        )
    lambda_.create_event_source_mapping(
        FunctionName="enrich", EventSourceArn=arn, StartingPosition="TRIM_HORIZON", BatchSize=100
    )
    lambda_.create_event_source_mapping(
        FunctionName="price-check",
        EventSourceArn=arn,
        StartingPosition="TRIM_HORIZON",
        BatchSize=4,
        MaximumRetryAttempts=1,
        BisectBatchOnFunctionError=True,
        DestinationConfig={"OnFailure": {"Destination": queue_arn}},
    )
    firehose.create_delivery_stream(
        DeliveryStreamName="orders-to-lake",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={"KinesisStreamARN": arn, "RoleARN": ROLE},
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": "arn:aws:s3:::lake",
            "Prefix": "orders/",
            "BufferingHints": {"IntervalInSeconds": 1, "SizeInMBs": 1},
        },
    )
    client("cloudformation").create_stack(StackName="shop", TemplateBody=json.dumps(TEMPLATE))
    make_notifications(client)
    put_orders(kinesis, 24)
    kinesis.put_record(StreamName="clicks", Data=b"\xff\xfe\x00binary", PartitionKey="binary")
    kinesis.put_record(StreamName="clicks", Data=HOSTILE.encode(), PartitionKey=HOSTILE)
    kinesis.put_record(StreamName="clicks", Data=b"caf\xc3", PartitionKey="cut character")
    kinesis.put_record(StreamName="clicks", Data=b"[" * 1_000 + b"]" * 1_000, PartitionKey="deep")
    number = b'{"id": 12345678901234567890, "price": 27.0}'
    kinesis.put_record(StreamName="clicks", Data=number, PartitionKey="number")


def make_notifications(client: Callable[[str], Any]) -> None:
    """Make a bus with a rule, a topic, a table that is read, and a pipe."""
    events, sqs, sns, dynamodb = (client(name) for name in ("events", "sqs", "sns", "dynamodb"))
    for name in ("alerts", "visits"):
        sqs.create_queue(QueueName=name)
    queue = "arn:aws:sqs:us-east-1:000000000000:"
    topic = sns.create_topic(Name="news")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"{queue}alerts")
    events.create_event_bus(Name="shop")
    events.put_rule(Name="sold-out", EventBusName="shop", EventPattern='{"source": ["stock"]}')
    events.put_targets(Rule="sold-out", EventBusName="shop", Targets=[{"Id": "1", "Arn": topic}])
    key = {"AttributeName": "fruit"}
    table = dynamodb.create_table(
        TableName="prices",
        KeySchema=[{**key, "KeyType": "HASH"}],
        AttributeDefinitions=[{**key, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    client("lambda").create_event_source_mapping(
        FunctionName="enrich",
        EventSourceArn=table["LatestStreamArn"],
        StartingPosition="TRIM_HORIZON",
    )
    client("pipes").create_pipe(
        Name="count-visits",
        RoleArn=ROLE,
        Source="arn:aws:kinesis:us-east-1:000000000000:stream/clicks",
        SourceParameters={"KinesisStreamParameters": {"StartingPosition": "LATEST"}},
        Target=f"{queue}visits",
    )


def notify(client: Callable[[str], Any], number: int) -> None:
    """Send an event to the bus, and change an item."""
    event = {"Source": "stock", "DetailType": "gone", "Detail": "{}", "EventBusName": "shop"}
    client("events").put_events(Entries=[event])
    client("dynamodb").put_item(
        TableName="prices", Item={"fruit": {"S": "pear"}, "n": {"N": f"{number}"}}
    )


def put_orders(kinesis: Any, count: int) -> None:
    """Put orders, of which one customer has many."""
    rows = [
        {
            "Data": json.dumps({"order": n, "customer": f"c{n % 7}", "total": n * 1.5}).encode(),
            "PartitionKey": "c0" if n % 3 else f"c{n % 7}",
        }
        for n in range(count)
    ]
    kinesis.put_records(StreamName="orders", Records=rows)


SCHEMA_COLUMNS = [{"Name": "n", "Type": "int"}, {"Name": "word", "Type": "string"}]


def make_conversion(client: Callable[[str], Any]) -> None:
    """Make a delivery that writes Parquet, and put two good records and a bad one."""
    client("glue").create_database(DatabaseInput={"Name": "shop"})
    client("glue").create_table(
        DatabaseName="shop",
        TableInput={"Name": "words", "StorageDescriptor": {"Columns": SCHEMA_COLUMNS}},
    )
    client("firehose").create_delivery_stream(
        DeliveryStreamName="words",
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": "arn:aws:s3:::lake",
            "Prefix": "words/",
            "ErrorOutputPrefix": "failed/!{firehose:error-output-type}/",
            "BufferingHints": {"IntervalInSeconds": 0, "SizeInMBs": 64},
            "DataFormatConversionConfiguration": {
                "Enabled": True,
                "InputFormatConfiguration": {"Deserializer": {"OpenXJsonSerDe": {}}},
                "OutputFormatConfiguration": {"Serializer": {"ParquetSerDe": {}}},
                "SchemaConfiguration": {
                    "RoleARN": ROLE,
                    "DatabaseName": "shop",
                    "TableName": "words",
                    "Region": "us-east-1",
                },
            },
        },
    )
    datas = [b'{"n": 1, "word": "pear"}', b'{"n": "no number", "word": "plum"}', b'{"n": 3}']
    client("firehose").put_record_batch(
        DeliveryStreamName="words", Records=[{"Data": data} for data in datas]
    )
