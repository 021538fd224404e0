"""Queues and consumers as sources, buckets as failure destinations, event counts: with real functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.lambda_.consumer import Consumer, get
from tests.support.lambda_lab import LambdaLab, json_lines
from tests.support.server import wait_until
from tests.support.streams import STREAM_ARN

QUEUE = "arn:aws:sqs:us-east-1:000000000000:work"
CONSUMER = f"{STREAM_ARN}/consumer/fast:1"
# Fails with the messages that say so, and writes what it sees.
WORKER = """
import json, os
def handler(event, context):
    with open(os.environ["OUT_FILE"], "a") as out:
        out.write(json.dumps(event["Records"]) + "\\n")
    bodies = [record["body"] for record in event["Records"]]
    if "crash" in bodies:
        raise ValueError
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}
                                  for record in event["Records"] if record["body"] == "bad"]}
"""


class Worker:
    """A function mapped to a queue."""

    def __init__(self, lab: LambdaLab) -> None:
        self.lab = lab
        self.out = lab.place / "worked"
        lab.create("work", WORKER, Environment={"Variables": {"OUT_FILE": str(self.out)}})

    def map(self, **members: Any) -> dict[str, Any]:
        return self.lab.client().create_event_source_mapping(
            EventSourceArn=QUEUE, FunctionName="work", **members
        )

    def records(self) -> list[dict[str, Any]]:
        return [record for batch in json_lines(self.out) for record in batch]

    def wait_for(self, *deleted: str) -> None:
        wait_until(lambda: set(deleted) <= set(self.lab.box.deleted), what=f"{deleted} deleted")


@pytest.fixture
def worker(lab: LambdaLab) -> Worker:
    return Worker(lab)


def test_messages_reach_the_function_and_are_deleted(worker: Worker) -> None:
    answer = worker.map()
    assert answer["BatchSize"] == 10
    assert "StartingPosition" not in answer
    for body in ("a", "b"):
        worker.lab.box.send(QUEUE, body)
    worker.wait_for("h0", "h1")
    record = worker.records()[0]
    assert record["eventSource"] == "aws:sqs"
    assert record["eventSourceARN"] == QUEUE
    assert record["messageId"] == "m0"
    assert {"receiptHandle", "attributes", "messageAttributes", "md5OfBody"} <= record.keys()


def test_only_the_messages_that_succeeded_are_deleted(worker: Worker) -> None:
    for body in ("a", "bad", "c"):
        worker.lab.box.send(QUEUE, body)
    worker.map(FunctionResponseTypes=["ReportBatchItemFailures"])
    worker.wait_for("h0", "h2")
    assert "h1" not in worker.lab.box.deleted


def test_a_failed_batch_is_left_to_the_queue(worker: Worker) -> None:
    worker.lab.box.send(QUEUE, "crash")
    uuid = worker.map()["UUID"]
    wait_until(lambda: worker.records(), what="the batch in the function")
    worker.lab.box.send(QUEUE, "fine")
    worker.wait_for("h1")
    assert worker.lab.box.deleted == ["h1"]
    client = worker.lab.client()
    assert client.delete_event_source_mapping(UUID=uuid)["State"] == "Deleting"


def test_messages_that_no_filter_lets_through_are_deleted_unseen(worker: Worker) -> None:
    worker.lab.box.send(QUEUE, '{"kind": "noise"}')
    worker.lab.box.send(QUEUE, '{"kind": "news"}')
    worker.map(FilterCriteria={"Filters": [{"Pattern": '{"body": {"kind": ["news"]}}'}]})
    worker.wait_for("h0", "h1")
    assert [record["messageId"] for record in worker.records()] == ["m1"]


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"BatchSize": 11}, "Maximum batch window in seconds must be greater than 0"),
        ({"StartingPosition": "LATEST"}, "StartingPosition is not valid"),
        ({"ParallelizationFactor": 2}, "Unsupported ParallelizationFactor parameter"),
        ({"EventSourceArn": f"{QUEUE}.fifo", "MaximumBatchingWindowInSeconds": 1}, "FIFO queues"),
        ({"EventSourceArn": f"{QUEUE}-missing"}, "AWS.SimpleQueueService.NonExistentQueue"),
        ({"FunctionName": "slow"}, "Queue visibility timeout: 30 seconds is less than"),
        ({"ScalingConfig": {"MaximumConcurrency": 1}}, "equal to 2"),
        ({"ProvisionedPollerConfig": {"MinimumPollers": 1}}, "MinimumPollers must be at least 2"),
        (
            {"ProvisionedPollerConfig": {"MinimumPollers": 9, "MaximumPollers": 3}},
            "greater than or equal",
        ),
        ({"ProvisionedPollerConfig": {"PollerGroupName": "g"}}, "Unsupported PollerGroupName"),
        (
            {
                "ProvisionedPollerConfig": {"MinimumPollers": 2},
                "ScalingConfig": {"MaximumConcurrency": 2},
            },
            "maximum concurrency",
        ),
        ({"AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": "g"}}, "Unsupported Amazon"),
    ],
)
def test_what_a_queue_does_not_take_is_refused(
    worker: Worker, members: dict[str, Any], sentence: str
) -> None:
    worker.lab.create("slow", WORKER, Timeout=31)
    worker.lab.box.missing.add(f"{QUEUE}-missing")
    given = {"EventSourceArn": QUEUE, "FunctionName": "work", **members}
    with pytest.raises(ClientError, match=sentence):
        worker.lab.client().create_event_source_mapping(**given)


def test_a_consumer_is_read_through_and_shown_in_the_event(consumer: Consumer) -> None:
    with pytest.raises(ClientError, match="Stream not found"):
        consumer.map(EventSourceArn=CONSUMER)
    consumer.lab.streams.consumers[CONSUMER] = "CREATING"
    with pytest.raises(ClientError, match="must be ACTIVE"):
        consumer.map(EventSourceArn=CONSUMER)
    consumer.lab.streams.consumers[CONSUMER] = "ACTIVE"
    answer = consumer.map(EventSourceArn=CONSUMER)
    assert answer["EventSourceArn"] == CONSUMER
    consumer.lab.streams.put(b"a")
    consumer.wait_for("a")


def test_a_bucket_gets_the_records_themselves(consumer: Consumer) -> None:
    consumer.lab.box.put_object("failed", "here", b"")
    uuid = consumer.map(
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": "arn:aws:s3:::failed"}},
    )["UUID"]
    consumer.lab.streams.put(b"crash")
    root = consumer.lab.data_dir / "objects" / "failed" / "aws" / "lambda" / uuid / "shardId-0"
    (file,) = wait_until(lambda: [p for p in root.rglob("*") if p.is_file()], what="the document")
    year, month, day, name = file.relative_to(root).parts
    assert name.startswith(f"{year}-{month}-{day}T")
    document = json.loads(file.read_text())
    assert document["KinesisBatchInfo"]["batchSize"] == 1
    (record,) = json.loads(document["payload"])["Records"]
    assert record["kinesis"]["data"] == "Y3Jhc2g="


def test_events_are_counted_when_asked_for(consumer: Consumer) -> None:
    uuid = consumer.map(
        MetricsConfig={"Metrics": ["EventCount"]},
        MaximumRetryAttempts=0,
        BisectBatchOnFunctionError=True,
        FilterCriteria={"Filters": [{"Pattern": '{"data": [{"anything-but": "skip"}]}'}]},
    )["UUID"]
    consumer.lab.streams.put(b"a", b"skip", b"crash", b"b")
    consumer.wait_for("b")

    def counted(name: str) -> float:
        return sum(
            metric.value
            for metric in list(consumer.lab.metrics.metrics)
            if metric.name == name and ("EventSourceMappingUUID", uuid) in metric.dimensions
        )

    wait_until(lambda: counted("DroppedEventCount") == 1, what="the poison dropped")
    assert counted("PolledEventCount") == 4
    assert counted("FilteredOutEventCount") == 1
    assert counted("InvokedEventCount") >= 3
    assert counted("FailedInvokeEventCount") >= 1


def test_several_lanes_are_answered_and_used(consumer: Consumer) -> None:
    uuid = consumer.map(ParallelizationFactor=4, BatchSize=5)["UUID"]
    for key in "abcdefgh":
        consumer.lab.streams.put(*(f"{key}{n}".encode() for n in range(5)), key=key)
    wanted = [f"{key}{n}" for key in "abcdefgh" for n in range(5)]
    consumer.wait_for(*wanted)
    assert sorted(consumer.seen()) == wanted
    for key in "abcdefgh":
        own = [record for record in consumer.seen() if record.startswith(key)]
        assert own == sorted(own)
    assert get(consumer.lab, uuid)["ParallelizationFactor"] == 4


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "self-managed Apache Kafka"),
        ({"SelfManagedKafkaEventSourceConfig": {"ConsumptionMode": "Queue"}}, "share groups"),
        ({"SelfManagedKafkaEventSourceConfig": {"ConsumptionMode": "Stream"}}, "self-managed"),
    ],
)
def test_kafka_is_refused_by_name(lab: LambdaLab, members: dict[str, Any], words: str) -> None:
    client = lab.client()
    with pytest.raises(client.exceptions.InvalidParameterValueException, match=words):
        client.create_event_source_mapping(
            FunctionName="f",
            Topics=["topic"],
            SelfManagedEventSource={"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": ["localhost:9092"]}},
            **members,
        )
