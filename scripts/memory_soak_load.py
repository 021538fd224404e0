"""The mixed load of a soak: a cloud in a separate process, and threads that send it all kinds of requests."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import click
from botocore.config import Config as BotocoreConfig
from botocore.exceptions import ClientError

ACCOUNT, REGION = "000000000000", "us-east-1"
ROUND_EVERY_S = 0.25
START_WITHIN_S = 60.0
LEASES = 50
# What headrace keeps at most: records of a table's stream, events of a log group, hashed partition keys, and versions
# of a parameter.
STREAM_RECORDS, LOG_EVENTS, HASHED_KEYS, VERSIONS = 50_000, 25_000, 65_536, 100
PARAMETERS = 5

FUNCTION = """
def handler(event, context):
    for record in event.get("Records", []):
        print("seen", len(record.get("kinesis", {}).get("data", "")))
    print("a line of a function that says what it does")
    return {"count": len(event.get("Records", []))}
"""


class Cloud:
    """`headrace up` on a free port in an empty folder; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Cloud:
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "headrace.cli.main", "up", "--port", "0"),
                    *("--data-dir", str(self.folder / "data")),
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        deadline_s = time.monotonic() + START_WITHIN_S
        while time.monotonic() < deadline_s:
            if self._is_healthy():
                return self
            time.sleep(0.05)
        raise click.ClickException(
            f"headrace did not start: {(self.folder / 'log').read_text()[-600:]}"
        )

    def _is_healthy(self) -> bool:
        try:
            record = json.loads((self.folder / "data" / "headrace.json").read_text())
            self.url = str(record["endpoint_url"])
            with urllib.request.urlopen(f"{self.url}/_headrace/health", timeout=2) as page:
                return json.load(page)["status"] == "ok"
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def rss_mb(self) -> float:
        """Return the resident memory of the cloud's own process, in 10^6 bytes."""
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def data_mb(self) -> float:
        """Return the size of the data directory, in 10^6 bytes."""
        files = (file for file in (self.folder / "data").rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files) / 1e6

    def client(self, service: str) -> Any:
        """Return a boto3 client."""
        return boto3.client(
            service, region_name=REGION, endpoint_url=self.url, aws_access_key_id=ACCOUNT,
            aws_secret_access_key="soak", config=BotocoreConfig(retries={"total_max_attempts": 2}),
        )  # fmt: skip


@dataclass
class Load:
    """The calls of each round, by service. Each service has its own thread and clients."""

    cloud: Cloud
    chosen: random.Random
    done: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])
    stop: threading.Event = field(default_factory=threading.Event)

    def make(self) -> None:
        """Create a stream with a function and a delivery stream behind it, a table, queues, a topic and a rule."""
        kinesis, lambda_, sqs = map(self.cloud.client, ("kinesis", "lambda", "sqs"))
        kinesis.create_stream(StreamName="s", ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName="s")
        role = f"arn:aws:iam::{ACCOUNT}:role/r"
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("app.py", FUNCTION)
        lambda_.create_function(
            FunctionName="f", Runtime=f"python3.{sys.version_info.minor}", Role=role, Handler="app.handler",
            Code={"ZipFile": archive.getvalue()},
        )  # fmt: skip
        stream_arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/s"
        lambda_.create_event_source_mapping(
            FunctionName="f", EventSourceArn=stream_arn, StartingPosition="TRIM_HORIZON"
        )
        self.cloud.client("s3").create_bucket(Bucket="soak")
        self.cloud.client("firehose").create_delivery_stream(
            DeliveryStreamName="d", DeliveryStreamType="KinesisStreamAsSource",
            KinesisStreamSourceConfiguration={"KinesisStreamARN": stream_arn, "RoleARN": role},
            ExtendedS3DestinationConfiguration={
                "RoleARN": role, "BucketARN": "arn:aws:s3:::soak",
                "BufferingHints": {"IntervalInSeconds": 60, "SizeInMBs": 1},
            },
        )  # fmt: skip
        sqs.create_queue(QueueName="q")
        queue_arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
        topic = self.cloud.client("sns").create_topic(Name="t")["TopicArn"]
        self.cloud.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)
        events = self.cloud.client("events")
        events.put_rule(Name="r", EventPattern='{"source":["soak"]}')
        events.put_targets(
            Rule="r", Targets=[{"Id": "1", "Arn": queue_arn}, {"Id": "2", "Arn": stream_arn}]
        )
        self.cloud.client("dynamodb").create_table(
            TableName="leases", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        )  # fmt: skip
        self.cloud.client("dynamodb").create_table(
            TableName="streamed", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )  # fmt: skip
        self.cloud.client("logs").create_log_group(logGroupName="g")

    def fill(self) -> None:
        """Fill the bounded memories that a slow machine's load would fill only after the warm-up."""
        dynamodb, kinesis, logs, ssm = map(
            self.cloud.client, ("dynamodb", "kinesis", "logs", "ssm")
        )
        for _ in range(STREAM_RECORDS // 25):
            dynamodb.batch_write_item(RequestItems={"streamed": _changes(self.chosen)})
        # The function's log group is filled by its reading of them.
        for _ in range(HASHED_KEYS // 500 + 1):
            keys = [str(self.chosen.random()) for _ in range(500)]
            kinesis.put_records(
                StreamName="s", Records=[{"Data": b"{}", "PartitionKey": key} for key in keys]
            )
        logs.create_log_stream(logGroupName="g", logStreamName="filled")
        for _ in range(LOG_EVENTS // 1000):
            logs.put_log_events(
                logGroupName="g", logStreamName="filled", logEvents=_lines(self.chosen, 1000)
            )
        for number in range(PARAMETERS * VERSIONS):
            ssm.put_parameter(
                Name=f"/p/{number % PARAMETERS}", Value="x", Type="String", Overwrite=True
            )

    def threads(self) -> list[threading.Thread]:
        """Return a thread for each kind of load, not started."""
        kinds: tuple[Callable[[], Callable[[random.Random], None]], ...] = (
            self._records, self._invocations, self._messages, self._leases, self._notices, self._watching,
        )  # fmt: skip
        return [
            threading.Thread(target=self._run, args=(kind, random.Random(self.chosen.random())))
            for kind in kinds
        ]

    def _run(
        self, kind: Callable[[], Callable[[random.Random], None]], chosen: random.Random
    ) -> None:
        round_, name = kind(), kind.__name__.strip("_")
        while not self.stop.is_set():
            try:
                round_(chosen)
                self.done[name] += 1
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                self.failed[f"{name}: {code}"] += 1
            self.stop.wait(ROUND_EVERY_S * (0.5 + chosen.random()))

    def _records(self) -> Callable[[random.Random], None]:
        kinesis = self.cloud.client("kinesis")

        def round_(chosen: random.Random) -> None:
            data = json.dumps({"x": "y" * chosen.randrange(400)}).encode()
            records = [{"Data": data, "PartitionKey": str(chosen.random())} for _ in range(50)]
            kinesis.put_records(StreamName="s", Records=records)

        return round_

    def _invocations(self) -> Callable[[random.Random], None]:
        lambda_ = self.cloud.client("lambda")

        def round_(chosen: random.Random) -> None:
            kind = chosen.choice(("RequestResponse", "RequestResponse", "Event"))
            answer = lambda_.invoke(FunctionName="f", InvocationType=kind, Payload=b"{}")
            answer["Payload"].read()

        return round_

    def _messages(self) -> Callable[[random.Random], None]:
        sqs = self.cloud.client("sqs")
        url = f"{self.cloud.url}/{ACCOUNT}/q"

        def round_(chosen: random.Random) -> None:
            for _ in range(5):
                sqs.send_message(QueueUrl=url, MessageBody="x" * chosen.randrange(1, 2000))
            for _ in range(4):
                got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
                for message in got:
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

        return round_

    def _leases(self) -> Callable[[random.Random], None]:
        dynamodb = self.cloud.client("dynamodb")

        def round_(chosen: random.Random) -> None:
            for _ in range(10):
                key = {"leaseKey": {"S": str(chosen.randrange(LEASES))}}
                dynamodb.update_item(
                    TableName="leases", Key=key,
                    AttributeUpdates={"counter": {"Value": {"N": "1"}, "Action": "ADD"}},
                )  # fmt: skip
            dynamodb.scan(TableName="leases")
            dynamodb.batch_write_item(RequestItems={"streamed": _changes(chosen)})

        return round_

    def _notices(self) -> Callable[[random.Random], None]:
        sns, events, ssm, sts = map(self.cloud.client, ("sns", "events", "ssm", "sts"))
        topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"

        def round_(chosen: random.Random) -> None:
            sns.publish(TopicArn=topic, Message="x" * chosen.randrange(1, 500))
            events.put_events(Entries=[{"Source": "soak", "DetailType": "d", "Detail": "{}"}] * 2)
            if chosen.random() < 0.2:
                name = f"/p/{chosen.randrange(PARAMETERS)}"
                ssm.put_parameter(Name=name, Value="x", Type="String", Overwrite=True)
            if chosen.random() < 0.05:
                sts.assume_role(
                    RoleArn=f"arn:aws:iam::{ACCOUNT}:role/r",
                    RoleSessionName="soak",
                    DurationSeconds=900,
                )

        return round_

    def _watching(self) -> Callable[[random.Random], None]:
        logs, cloudwatch = self.cloud.client("logs"), self.cloud.client("cloudwatch")
        logs.create_log_stream(logGroupName="g", logStreamName="s")

        def round_(chosen: random.Random) -> None:
            logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=_lines(chosen, 20))
            data = [
                {
                    "MetricName": f"m{n}",
                    "Value": chosen.random(),
                    "Dimensions": [{"Name": "d", "Value": "v"}],
                }
                for n in range(10)
            ]
            cloudwatch.put_metric_data(Namespace="soak", MetricData=data)
            if chosen.random() < 0.1:
                logs.filter_log_events(logGroupName="g", limit=10)

        return round_


def _lines(chosen: random.Random, count: int) -> list[dict[str, Any]]:
    now_ms = time.time_ns() // 1_000_000
    return [{"timestamp": now_ms, "message": "x" * chosen.randrange(1, 300)}] * count


def _changes(chosen: random.Random) -> list[dict[str, Any]]:
    return [
        {"PutRequest": {"Item": {"k": {"S": str(n)}, "v": {"N": str(chosen.random())}}}}
        for n in range(25)
    ]
