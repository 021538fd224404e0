"""Batches that a function fails: retries, destinations, bisection, partial failures, and records that are too old."""

from __future__ import annotations

import pytest

from headrace.aws.calls.errors import AwsError
from tests.api.lambda_.consumer import Consumer, get
from tests.support.lambda_lab import QUEUE
from tests.support.server import wait_until
from tests.support.streams import STREAM_ARN


def test_a_poison_batch_ends_at_the_destination_after_its_retries(consumer: Consumer) -> None:
    numbers = consumer.lab.streams.put(b"1", b"crash", b"3", now_ms=1_700_000_000_123)
    uuid = consumer.map(
        MaximumRetryAttempts=1, DestinationConfig={"OnFailure": {"Destination": QUEUE}}
    )["UUID"]
    (document,) = wait_until(consumer.documents, what="the failure document")
    assert consumer.batches() == [["1", "crash", "3"]] * 2
    consumer.lab.streams.put(b"4")
    consumer.wait_for("4")
    assert len(consumer.documents()) == 1
    assert document["version"] == "1.0"
    assert document["requestContext"]["condition"] == "RetryAttemptsExhausted"
    assert document["requestContext"]["approximateInvokeCount"] == 2
    assert document["requestContext"]["functionArn"].endswith(":function:consume")
    assert document["responseContext"] == {
        "statusCode": 200,
        "executedVersion": "$LATEST",
        "functionError": "Unhandled",
    }
    info = document["KinesisBatchInfo"]
    assert info["shardId"] == "shardId-0"
    assert info["startSequenceNumber"] == numbers[0]
    assert info["streamArn"] == STREAM_ARN
    assert info["approximateArrivalOfFirstRecord"] == "2023-11-14T22:13:20.123Z"
    wait_until(lambda: get(consumer.lab, uuid)["LastProcessingResult"] == "OK")


def test_bisect_gives_up_only_the_poison_record(consumer: Consumer) -> None:
    records = [f"r{n}" for n in range(16)]
    records[11] = "crash"
    numbers = consumer.lab.streams.put(*(record.encode() for record in records))
    consumer.map(
        BisectBatchOnFunctionError=True,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )
    consumer.wait_for(*records)
    wait_until(lambda: consumer.seen()[-1] == "r15" and consumer.documents())
    (document,) = consumer.documents()
    info = document["KinesisBatchInfo"]
    assert (info["batchSize"], info["startSequenceNumber"]) == (1, numbers[11])


def test_partial_failures_are_retried_from_the_lowest(consumer: Consumer) -> None:
    consumer.lab.streams.put(b"a", b"b", b"poison", b"c")
    consumer.map(
        MaximumRetryAttempts=2,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )
    wait_until(consumer.documents, what="the failure document")
    assert consumer.batches() == [["a", "b", "poison", "c"], ["poison", "c"], ["poison", "c"]]
    (document,) = consumer.documents()
    assert document["KinesisBatchInfo"]["batchSize"] == 2
    assert document["responseContext"]["functionError"] is None


def test_partial_failures_with_bisect_give_up_only_the_poison(consumer: Consumer) -> None:
    records = ["a", "b", "poison", "c", "poison", "d"]
    numbers = consumer.lab.streams.put(*(record.encode() for record in records))
    consumer.map(
        MaximumRetryAttempts=0,
        BisectBatchOnFunctionError=True,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )
    consumer.wait_for("d")
    wait_until(lambda: len(consumer.documents()) == 2, what="two documents")
    starts = [d["KinesisBatchInfo"]["startSequenceNumber"] for d in consumer.documents()]
    assert starts == [numbers[2], numbers[4]]
    assert {d["KinesisBatchInfo"]["batchSize"] for d in consumer.documents()} == {1}


def test_records_that_are_too_old_are_given_up_without_an_invocation(consumer: Consumer) -> None:
    now_ms = consumer.lab.clock.now_ms()
    consumer.lab.streams.put(b"old", now_ms=now_ms - 61_000)
    consumer.lab.streams.put(b"new", now_ms=now_ms)
    consumer.map(
        MaximumRecordAgeInSeconds=60, DestinationConfig={"OnFailure": {"Destination": QUEUE}}
    )
    consumer.wait_for("new")
    assert consumer.seen() == ["new"]
    (document,) = consumer.documents()
    assert document["requestContext"]["condition"] == "RecordAgeExceeded"
    assert document["requestContext"]["approximateInvokeCount"] == 1


def test_a_missing_destination_stops_nobody(consumer: Consumer) -> None:
    consumer.lab.box.missing.add(QUEUE)
    consumer.lab.streams.put(b"crash")
    uuid = consumer.map(
        BatchSize=1,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )["UUID"]
    wait_until(
        lambda: (
            get(consumer.lab, uuid)["LastProcessingResult"]
            == "PROBLEM: Failure destination not found"
        )
    )
    consumer.lab.streams.put(b"next")
    consumer.wait_for("next")


@pytest.mark.parametrize("bucket", [False, True])
def test_a_destination_that_refuses_for_good_stops_nobody(consumer: Consumer, bucket: bool) -> None:
    """Documented: monitoring-metrics-types.html, DestinationDeliveryFailures."""
    lab, destination = consumer.lab, "arn:aws:s3:::keyless" if bucket else QUEUE
    lab.box.refusals[QUEUE].append(AwsError("InvalidMessageContents", "Message too long"))
    lab.box.put_object("keyless", "made", b"")
    lab.box.locked.add("keyless")
    lab.streams.put(b"crash", b"next")
    consumer.map(
        BatchSize=1,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": destination}},
    )
    consumer.wait_for("crash", "next")
    (failure,) = [m for m in lab.metrics.metrics if m.name == "DestinationDeliveryFailures"]
    assert failure.dimensions == (("FunctionName", "consume"),)
    assert consumer.documents() == []


def test_a_document_waits_while_its_destination_is_too_busy(consumer: Consumer) -> None:
    busy = AwsError("ThrottlingException", "Rate exceeded")
    consumer.lab.box.refusals[QUEUE] += [busy, AwsError("InternalFailure", "", 500)]
    consumer.lab.streams.put(b"crash", b"next")
    consumer.map(
        BatchSize=1,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )
    consumer.wait_for("next")
    (document,) = consumer.documents()
    assert document["requestContext"]["condition"] == "RetryAttemptsExhausted"


def test_a_failing_batch_is_retried_until_it_succeeds(consumer: Consumer) -> None:
    consumer.lab.streams.put(b"crash", b"next")
    uuid = consumer.map(BatchSize=1)["UUID"]
    wait_until(lambda: len(consumer.batches()) >= 3, what="some retries")
    assert get(consumer.lab, uuid)["LastProcessingResult"] == "PROBLEM: Function call failed"
    assert "next" not in consumer.seen()
    consumer.heal()
    consumer.wait_for("next")
