"""The three functions on one cloud: poison records, throttling, and a shard that is split under them."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import flights
from tests.lambdas.fake_kinesis import taken_apart
from tests.lambdas.folders import LAMBDAS
from tests.support.server import ServerProcess, wait_until

ACCOUNT, REGION = "000000000000", "us-east-1"
WINDOW_S = 2
BATCHES = 6
PER_BATCH = 25


def packed(folder: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((LAMBDAS / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(LAMBDAS / folder))
    return buffer.getvalue()


class Pipeline:
    """flights → enrich → enriched → aggregate → table; failures → redrive → flights or the bad queue."""

    def __init__(self, server: ServerProcess) -> None:
        self.kinesis, self.lambda_ = server.client("kinesis"), server.client("lambda")
        self.sqs, self.dynamodb = server.client("sqs"), server.client("dynamodb")

    def make(self) -> None:
        for name in ("flights", "enriched"):
            self.kinesis.create_stream(StreamName=name, ShardCount=1)
        for name in ("flights", "enriched"):
            wait_until(lambda n=name: self.summary(n)["StreamStatus"] == "ACTIVE", what=name)
        urls = {n: self.sqs.create_queue(QueueName=n)["QueueUrl"] for n in ("failures", "bad")}
        self.bad_url = urls["bad"]
        self.dynamodb.create_table(
            TableName="departures",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": n, "AttributeType": "S"} for n in ("window", "carrier_shard")
            ],
            KeySchema=[
                {"AttributeName": "window", "KeyType": "HASH"},
                {"AttributeName": "carrier_shard", "KeyType": "RANGE"},
            ],
        )
        self.function("enrich", OUTPUT_STREAM="enriched")
        self.function("aggregate", TABLE="departures")
        self.function("redrive", REPORT_QUEUE_URL=self.bad_url)
        failures = f"arn:aws:sqs:{REGION}:{ACCOUNT}:failures"
        # Without bisect, good records are given up along with the poison: work for redrive.
        self.map(
            "enrich",
            "flights",
            MaximumRetryAttempts=0,
            FunctionResponseTypes=["ReportBatchItemFailures"],
            DestinationConfig={"OnFailure": {"Destination": failures}},
        )
        self.map("aggregate", "enriched", TumblingWindowInSeconds=WINDOW_S)
        self.lambda_.create_event_source_mapping(
            FunctionName="redrive",
            EventSourceArn=failures,
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )

    def summary(self, stream: str) -> dict[str, Any]:
        found = self.kinesis.describe_stream_summary(StreamName=stream)
        return found["StreamDescriptionSummary"]

    def function(self, name: str, **environment: str) -> None:
        self.lambda_.create_function(
            FunctionName=name,
            Runtime="python3.11",
            Handler="handler.handler",
            Role=f"arn:aws:iam::{ACCOUNT}:role/{name}",
            Timeout=30,
            Environment={"Variables": environment},
            Code={"ZipFile": packed(name)},
        )

    def map(self, function: str, stream: str, **members: Any) -> None:
        self.lambda_.create_event_source_mapping(
            FunctionName=function,
            EventSourceArn=self.summary(stream)["StreamARN"],
            StartingPosition="TRIM_HORIZON",
            BatchSize=20,
            ParallelizationFactor=1,
            **members,
        )

    def put(self, events: list[bytes]) -> None:
        records = [{"Data": data, "PartitionKey": _carrier(data)} for data in events]
        assert (
            self.kinesis.put_records(StreamName="flights", Records=records)["FailedRecordCount"]
            == 0
        )

    def enriched(self) -> list[dict[str, Any]]:
        return [
            json.loads(data)
            for shard in self.kinesis.list_shards(StreamName="enriched")["Shards"]
            for record in self._shard("enriched", shard["ShardId"])
            for data in taken_apart(record["Data"])
        ]

    def _shard(self, stream: str, shard_id: str) -> Iterator[dict[str, Any]]:
        iterator = self.kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = self.kinesis.get_records(ShardIterator=iterator)
            yield from page["Records"]
            iterator = page.get("NextShardIterator") if page["Records"] else None

    def departures(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for item in self.dynamodb.scan(TableName="departures")["Items"]:
            counts[item["carrier"]["S"]] += int(item["departures"]["N"])
        return dict(counts)

    def reports(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while batch := self.sqs.receive_message(QueueUrl=self.bad_url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            found.extend(json.loads(message["Body"]) for message in batch)
        return found


def _carrier(data: bytes) -> str:
    return "poison" if data.startswith(b"poison") else json.loads(data)["carrier"]


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with ServerProcess(tmp_path) as server:
        made = Pipeline(server)
        made.make()
        yield made


def test_every_good_flight_is_enriched_and_counted_and_every_bad_one_named(
    pipeline: Pipeline,
) -> None:
    events = list(itertools.islice(flights.iter_events(1), BATCHES * PER_BATCH))
    for number in range(BATCHES):
        part = events[number * PER_BATCH : (number + 1) * PER_BATCH]
        data = [json.dumps(event).encode() for event in part]
        data.insert(number * 3 % PER_BATCH, b"poison %d" % number)
        if number == 2:
            pipeline.lambda_.put_function_concurrency(
                FunctionName="enrich", ReservedConcurrentExecutions=0
            )
        if number == 3:
            pipeline.kinesis.split_shard(
                StreamName="flights", ShardToSplit="shardId-000000000000",
                NewStartingHashKey=str(1 << 127),
            )  # fmt: skip
            wait_until(lambda: pipeline.summary("flights")["StreamStatus"] == "ACTIVE")
        pipeline.put(data)
        if number == 4:
            pipeline.lambda_.delete_function_concurrency(FunctionName="enrich")

    wanted = {event["event_id"] for event in events}
    wait_until(
        lambda: {e["event_id"] for e in pipeline.enriched()} >= wanted,
        what="every good flight, those that were given up included",
    )
    enriched = pipeline.enriched()
    assert {event["event_id"] for event in enriched} == wanted

    bad: list[dict[str, Any]] = []

    def every_poison_is_named() -> bool:
        bad.extend(pipeline.reports())
        return len({report["sequenceNumber"] for report in bad}) >= BATCHES

    wait_until(every_poison_is_named, what="a report on each poison record")
    assert len({report["sequenceNumber"] for report in bad}) == BATCHES
    assert {report["reason"] for report in bad} == {"it is not JSON"}

    departed: dict[str, int] = defaultdict(int)
    for event in enriched:
        departed[event["carrier"]] += not event["cancelled"]
    expected = {carrier: count for carrier, count in departed.items() if count}
    wait_until(lambda: pipeline.departures() == expected, what="all windows closed and written")
