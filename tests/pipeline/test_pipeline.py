"""The whole flow, with the cloud killed under it: nothing acknowledged is lost, and the results are right."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections import defaultdict
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from rich.progress import Progress

from headrace.cli import flights
from scripts.pipeline import stages
from tests.pipeline.conftest import Deployed
from tests.support.server import ServerProcess, wait_until

SEED = 20130101
BATCH = 200
# Of January's 27,004 flights, and kills during their replay; all of them, and three kills, nightly.
FLIGHTS, KILLS = 1_000, 1

pytestmark = [pytest.mark.crash, pytest.mark.spark]


class Killer:
    """Kills the cloud while chosen requests are on their way, and starts it again."""

    def __init__(self, server: ServerProcess, batches: set[int]) -> None:
        self._server = server
        self._batches = batches
        self.kills = 0

    def during(self, batch: int) -> threading.Thread | None:
        if batch not in self._batches:
            return None
        self._batches.discard(batch)

        def kill_and_start() -> None:
            self._server.kill9()
            self.kills += 1
            self._server.start()

        thread = threading.Thread(target=kill_and_start)
        thread.start()
        return thread


def put_through_kills(
    deployed: Deployed, events: list[dict[str, Any]], killer: Killer
) -> list[tuple[str, str, str]]:
    """Put all events, trying again what was not acknowledged; return (shard, number, event id)."""
    kinesis = deployed.server.client("kinesis")
    stream = deployed.run.output("ingest", "FlightsStreamName")
    acknowledged: list[tuple[str, str, str]] = []
    for number, start in enumerate(range(0, len(events), BATCH)):
        batch = events[start : start + BATCH]
        records = [{"Data": json.dumps(e).encode(), "PartitionKey": e["carrier"]} for e in batch]
        thread = killer.during(number)
        while True:
            try:
                answer = kinesis.put_records(StreamName=stream, Records=records)
                break
            except (BotoCoreError, HTTPClientError, ClientError):
                assert thread is not None, "the cloud failed without being killed"
                thread.join(60)
        if thread is not None:
            thread.join(60)
        assert answer["FailedRecordCount"] == 0
        acknowledged += [
            (result["ShardId"], result["SequenceNumber"], event["event_id"])
            for result, event in zip(answer["Records"], batch, strict=True)
        ]
    return acknowledged


def all_records(kinesis: Any, stream: str) -> dict[str, list[dict[str, Any]]]:
    """Return every record of every shard, in order."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
        iterator = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while True:
            answer = kinesis.get_records(ShardIterator=iterator)
            found[shard["ShardId"]] += answer["Records"]
            iterator = answer["NextShardIterator"]
            if not answer["Records"] and answer["MillisBehindLatest"] == 0:
                break
    return found


def test_results_are_right_although_the_cloud_is_killed_during_the_replay(
    deployed: Deployed, nightly: bool
):
    events = list(itertools.islice(flights.iter_events(1), None if nightly else FLIGHTS))
    batches = range(1, len(events) // BATCH)
    kills = 3 if nightly else KILLS
    killer = Killer(deployed.server, set(random.Random(SEED).sample(batches, kills)))
    acknowledged = put_through_kills(deployed, events, killer)
    assert killer.kills == kills

    # Every acknowledged record is there once, under its number, in the order of its key.
    kinesis = deployed.server.client("kinesis")
    stored = all_records(kinesis, deployed.run.output("ingest", "FlightsStreamName"))
    numbers = {
        (shard, record["SequenceNumber"]): json.loads(record["Data"])["event_id"]
        for shard, records in stored.items()
        for record in records
    }
    assert len(numbers) == sum(map(len, stored.values()))
    assert [numbers.get((shard, number)) for shard, number, _ in acknowledged] == [
        event_id for _, _, event_id in acknowledged
    ]
    by_key: dict[str, list[int]] = defaultdict(list)
    carriers = {event["event_id"]: event["carrier"] for event in events}
    for _, number, event_id in acknowledged:
        by_key[carriers[event_id]].append(int(number))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())

    with Progress(disable=True) as progress:
        stages.enriched(deployed.run, len(events), progress)
        wait_until(lambda: is_drained(deployed), within_s=120, what="the delivery")
        check_lake(deployed, events)
        stream = deployed.run.output("ingest", "EnrichedStreamName")
        step = stages.submit(deployed.run, "departures", stream)
        deployed.run.checks.clear()
        stages.spark(deployed.run, step, events, progress)
    wrong = [check for check in deployed.run.checks if not check.holds]
    assert wrong == []
    assert stages.malformed(deployed.run) == 0


def flights_of(kinesis: Any, stream: str) -> list[dict[str, Any]]:
    """Return the flights of the enriched stream: several of a carrier may share a record."""
    return [
        flight
        for records in all_records(kinesis, stream).values()
        for record in records
        for flight in stages.flights_in(record["Data"])
    ]


def is_drained(deployed: Deployed) -> bool:
    """Whether the mapping has caught up and Firehose has delivered every enriched record."""
    status = deployed.server.page("/_headrace/firehose")[0]
    if status["buffered_records"]:
        return False
    kinesis = deployed.server.client("kinesis")
    stream = deployed.run.output("ingest", "EnrichedStreamName")
    return bool(status["delivered_records"] == len(flights_of(kinesis, stream)))


def check_lake(deployed: Deployed, events: list[dict[str, Any]]) -> None:
    """Every enriched record is in the lake once: the delivery added none and lost none."""
    import io

    import pyarrow.parquet as pq

    kinesis = deployed.server.client("kinesis")
    enriched = flights_of(kinesis, deployed.run.output("ingest", "EnrichedStreamName"))
    sent = [flight["event_id"] for flight in enriched]
    s3, bucket = deployed.server.client("s3"), deployed.run.output("delivery", "LakeBucketName")
    delivered: list[str] = []
    for item in s3.list_objects_v2(
        Bucket=bucket, Prefix=deployed.run.output("delivery", "LakePrefix")
    )["Contents"]:
        body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        delivered += pq.read_table(io.BytesIO(body))["event_id"].to_pylist()
    assert sorted(delivered) == sorted(sent)
    assert set(delivered) == {event["event_id"] for event in events}


def test_a_malformed_record_ends_in_the_failure_queue_and_stops_nobody(deployed: Deployed):
    kinesis, sqs = deployed.server.client("kinesis"), deployed.server.client("sqs")
    stream = deployed.run.output("ingest", "FlightsStreamName")
    event = {**next(iter(flights.iter_events(2))), "event_id": "after-the-malformed-one"}
    answer = kinesis.put_records(
        StreamName=stream,
        Records=[
            {"Data": b"not json", "PartitionKey": event["carrier"]},
            {"Data": json.dumps(event).encode(), "PartitionKey": event["carrier"]},
        ],
    )
    poison = answer["Records"][0]["SequenceNumber"]
    message = wait_until(
        lambda: sqs.receive_message(
            QueueUrl=deployed.run.output("processing", "FailureQueueUrl"), WaitTimeSeconds=1
        ).get("Messages"),
        what="the failure report",
    )[0]
    report = json.loads(message["Body"])
    assert report["KinesisBatchInfo"]["batchSize"] == 1
    assert report["KinesisBatchInfo"]["startSequenceNumber"] == poison
    enriched = deployed.run.output("ingest", "EnrichedStreamName")
    wait_until(
        lambda: any(
            b"after-the-malformed-one" in record["Data"]
            for records in all_records(kinesis, enriched).values()
            for record in records
        ),
        what="the record behind the malformed one",
    )


def test_the_cdk_cli_sees_no_difference_and_destroys_everything(deployed: Deployed):
    assert "There were no differences" in deployed.cdk("diff")
    assert deployed.cdk("deploy", "--all", "--require-approval", "never").count("(no changes)") == 4
    deployed.cdk("destroy", "--all", "--force")
    stacks = deployed.server.client("cloudformation").describe_stacks()["Stacks"]
    assert [stack["StackName"] for stack in stacks] == ["CDKToolkit"]
    assert deployed.server.client("kinesis").list_streams()["StreamNames"] == []
    assert deployed.server.client("firehose").list_delivery_streams()["DeliveryStreamNames"] == []
    assert deployed.server.client("lambda").list_functions()["Functions"] == []
    buckets = [b["Name"] for b in deployed.server.client("s3").list_buckets()["Buckets"]]
    assert [name for name in buckets if not name.startswith("cdk-")] == []
