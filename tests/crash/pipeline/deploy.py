"""Deploys the pipeline: stream, trigger, second stream, delivery, bucket; a failure queue and a table beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.pipeline.cloud import CloudUnderTest
from tests.support.lambda_lab import ROLE, zipped

FIRST, SECOND = "first", "second"
BUCKET = "delivered"
FUNCTION = "hand-on"
TABLE = "last"
QUEUE = "discarded"


@dataclass(slots=True)
class Deployed:
    """What was made, and how to ask it."""

    cloud: CloudUnderTest
    queue_url: str

    def failures(self, wanted: set[tuple[str, int]]) -> list[dict[str, Any]]:
        """Return what the failure queue holds, once it holds every record of `wanted`, or for a minute."""
        sqs = self.cloud.client("sqs")
        found: list[dict[str, Any]] = []
        missing = set(wanted)
        empty = 0
        while empty < (60 if missing else 1):
            answer = sqs.receive_message(
                QueueUrl=self.queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=1 if missing else 0
            )
            messages = answer.get("Messages", [])
            empty = 0 if messages else empty + 1
            for message in messages:
                batch = json.loads(message["Body"])["KinesisBatchInfo"]
                found.append(batch)
                missing.discard((batch["shardId"], int(batch["startSequenceNumber"])))
                sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"])
        return found


def deploy(cloud: CloudUnderTest, ledger_port: int) -> Deployed:
    """Make everything, through the SDK."""
    kinesis = cloud.client("kinesis")
    arns: dict[str, str] = {}
    for stream in (FIRST, SECOND):
        kinesis.create_stream(StreamName=stream, ShardCount=2)
        summary = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        arns[stream] = summary["StreamARN"]
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    cloud.client("firehose").create_delivery_stream(
        DeliveryStreamName="delivery",
        DeliveryStreamType="KinesisStreamAsSource",
        KinesisStreamSourceConfiguration={"KinesisStreamARN": arns[SECOND], "RoleARN": ROLE},
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE,
            "BucketARN": f"arn:aws:s3:::{BUCKET}",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
        },
    )
    queue_url = cloud.client("sqs").create_queue(QueueName=QUEUE)["QueueUrl"]
    cloud.client("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    source = Path(__file__).with_name("function.py").read_text()
    functions = cloud.client("lambda")
    functions.create_function(
        FunctionName=FUNCTION,
        Runtime="python3.11",
        Role=ROLE,
        Handler="function.handler",
        Code={"ZipFile": zipped({"function.py": source})},
        Timeout=60,
        Environment={
            "Variables": {
                "OUTPUT_STREAM": SECOND,
                "TABLE": TABLE,
                "LEDGER_PORT": str(ledger_port),
            }
        },
    )
    functions.create_event_source_mapping(
        EventSourceArn=arns[FIRST],
        FunctionName=FUNCTION,
        StartingPosition="TRIM_HORIZON",
        BatchSize=100,
        BisectBatchOnFunctionError=True,
        MaximumRetryAttempts=2,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={
            "OnFailure": {"Destination": f"arn:aws:sqs:us-east-1:000000000000:{QUEUE}"}
        },
    )
    return Deployed(cloud, queue_url)
