"""SQS trigger on a failure queue: puts good records of failed batches back into the stream, and reports bad ones.

For every message the function reads the named range of records again from its shard. It puts records that can be
processed into the stream again, behind newer ones: readers use `event_id` as the key, and order by event time. For
every other record, and for an expired range, it sends a message to the queue REPORT_QUEUE_URL. A message that it
cannot handle stays in the queue (`batchItemFailures`).
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3
from logic import FailedRange, NotAFailure, fault_of, parse_failure, report_of

log = logging.getLogger()
log.setLevel(logging.INFO)

RECORDS_PER_PUT = 500
BYTES_PER_PUT = 4 << 20
RECORDS_PER_READ = 1000
# A shard may return empty pages before more records, but only a limited number.
EMPTY_PAGES = 50
TRIES = 6


class NotPut(RuntimeError):
    """The stream refused records at every attempt."""


@functools.cache
def _client(service: str) -> Any:
    return boto3.client(service)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Redrive a batch of failure messages; return the failed messages in Lambda's form."""
    return process(
        event["Records"],
        kinesis=_client("kinesis"),
        sqs=_client("sqs"),
        report_queue_url=os.environ["REPORT_QUEUE_URL"],
        pause=time.sleep,
    )


def process(
    messages: list[dict[str, Any]],
    *,
    kinesis: Any,
    sqs: Any,
    report_queue_url: str,
    pause: Callable[[float], None],
) -> dict[str, Any]:
    """Redrive every message; return `batchItemFailures`."""
    failures: list[dict[str, str]] = []
    for message in messages:
        try:
            failed = parse_failure(message["body"])
            replayed, reports = _redrive(kinesis, failed, pause)
        except (NotAFailure, NotPut) as error:
            log.warning("message %s: %s", message["messageId"], error)
            failures.append({"itemIdentifier": message["messageId"]})
            continue
        for report in reports:
            sqs.send_message(QueueUrl=report_queue_url, MessageBody=report)
        log.info("message %s: %d replayed, %d bad", message["messageId"], replayed, len(reports))
    return {"batchItemFailures": failures}


def _redrive(
    kinesis: Any, failed: FailedRange, pause: Callable[[float], None]
) -> tuple[int, list[str]]:
    """Put a range's good records back; return their number, and the reports on the other records."""
    good: list[dict[str, Any]] = []
    reports: list[str] = []
    count_sent = 0
    for record in _read(kinesis, failed):
        count_sent += 1
        fault = fault_of(record["Data"])
        if fault is None:
            # A stream that distributes records itself also has records without a key.
            good.append({name: record[name] for name in ("Data", "PartitionKey") if name in record})
        else:
            reports.append(report_of(failed, record["SequenceNumber"], fault))
    if not count_sent:
        reports.append(report_of(failed, failed.first, "the stream no longer has the range"))
    for request in _requests(good):
        _put(kinesis, failed.stream_arn, request, pause)
    return len(good), reports


def _read(kinesis: Any, failed: FailedRange) -> Iterator[dict[str, Any]]:
    iterator = kinesis.get_shard_iterator(
        StreamARN=failed.stream_arn,
        ShardId=failed.shard_id,
        ShardIteratorType="AT_SEQUENCE_NUMBER",
        StartingSequenceNumber=failed.first,
    )["ShardIterator"]
    empty = 0
    while iterator and empty < EMPTY_PAGES:
        page = kinesis.get_records(ShardIterator=iterator, Limit=RECORDS_PER_READ)
        for record in page["Records"]:
            if failed.is_past(record["SequenceNumber"]):
                return
            if failed.holds(record["SequenceNumber"]):
                yield record
            if record["SequenceNumber"] == failed.last:
                return
        empty = 0 if page["Records"] else empty + 1
        if not page["Records"] and not page.get("MillisBehindLatest"):
            return
        iterator = page.get("NextShardIterator")


def _requests(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    request: list[dict[str, Any]] = []
    size_bytes = 0
    for entry in entries:
        entry_bytes = len(entry["Data"]) + len(entry.get("PartitionKey", "").encode())
        if request and (
            len(request) == RECORDS_PER_PUT or size_bytes + entry_bytes > BYTES_PER_PUT
        ):
            yield request
            request, size_bytes = [], 0
        request.append(entry)
        size_bytes += entry_bytes
    if request:
        yield request


def _put(
    kinesis: Any, stream_arn: str, entries: list[dict[str, Any]], pause: Callable[[float], None]
) -> None:
    """Put records, and retry refused ones. Raises NotPut."""
    for attempt in range(TRIES):
        answer = kinesis.put_records(StreamARN=stream_arn, Records=entries)
        results = answer["Records"]
        entries = [e for e, r in zip(entries, results, strict=True) if r.get("ErrorCode")]
        if not entries:
            return
        pause(0.05 * 2**attempt)
    raise NotPut(f"{len(entries)} records could not be put back")
