"""Reads what Lambda's triggers and functions gave up from their failure queues, and sends it again.

A message of a stream's trigger names a range of records, which are read again from their shard; other messages hold
the record themselves: an asynchronous event, or a queue's own message. A message is deleted after its records were
sent, so a kill in between sends them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.values import as_mapping
from headrace.deliveries.redrive_records import (
    FailedRecord,
    Fix,
    NotSent,
    Target,
    apply_fix,
    batches_of,
)

# While a message is shown or sent, nobody else gets it; afterwards it is visible again, or deleted.
HIDDEN_S = 300
_MESSAGES = 10
_PAGE_RECORDS = 1000
# A shard may return empty pages before more records, but only a limited number.
_EMPTY_PAGES = 50


class NotAQueue(Exception):
    """The source names no queue; the message says what it names instead."""


class NotReadable(Exception):
    """A message's records cannot be read again; the message says why."""


@dataclass(slots=True)
class QueueCounts:
    """The counts of a run: records that were sent, that the fix left out; messages that stay, with a reason."""

    sent: int = 0
    left_out: int = 0
    kept: int = 0


def find_queue(source: str, client: Callable[[str], Any]) -> str | None:
    """Return the URL of the failure queue that a source names: a queue, or a mapping; None for another source.

    Raises NotAQueue and boto3's errors.
    """
    if source.startswith("sqs:"):
        return str(client("sqs").get_queue_url(QueueName=source.removeprefix("sqs:"))["QueueUrl"])
    if source.startswith(("http://", "https://")):
        return source
    if source.startswith("arn:"):
        return _queue_of_arn(source, client)
    if len(source) == 36 and source.count("-") == 4:
        return _queue_of_mapping(source, client)
    return None


def _queue_of_arn(arn: str, client: Callable[[str], Any]) -> str:
    parts = arn.split(":")
    if parts[2:3] == ["sqs"] and len(parts) == 6:
        params = {"QueueName": parts[5], "QueueOwnerAWSAccountId": parts[4]}
        return str(client("sqs").get_queue_url(**params)["QueueUrl"])
    if parts[2:3] == ["sns"]:
        raise NotAQueue(
            f"{arn} is a topic, which keeps nothing: name a queue that is subscribed to it"
        )
    if parts[2:3] == ["s3"]:
        raise NotAQueue(
            f"{arn} is a bucket: name a place in it, such as s3://{parts[5]}/aws/lambda/"
        )
    raise NotAQueue(f"{arn} is no queue")


def _queue_of_mapping(identifier: str, client: Callable[[str], Any]) -> str:
    mapping = client("lambda").get_event_source_mapping(UUID=identifier)
    failures: dict[str, Any] = mapping.get("DestinationConfig", {}).get("OnFailure", {})
    arn = failures.get("Destination", "")
    if not arn and ":sqs:" in mapping.get("EventSourceArn", ""):
        sqs = client("sqs")
        url = _queue_of_arn(mapping["EventSourceArn"], client)
        names = {"QueueUrl": url, "AttributeNames": ["RedrivePolicy"]}
        attributes = sqs.get_queue_attributes(**names).get("Attributes", {})
        arn = json.loads(attributes.get("RedrivePolicy", "{}")).get("deadLetterTargetArn", "")
    if not arn:
        raise NotAQueue(
            f"The mapping {identifier} has no failure destination: its failures are lost"
        )
    return _queue_of_arn(arn, client)


class FailureQueue:
    """The failed records in a queue. Not thread-safe."""

    def __init__(self, url: str, client: Callable[[str], Any]) -> None:
        self._url = url
        self._sqs = client("sqs")
        self._client = client
        self._held: list[str] = []

    def messages(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the receipt handle and the message of each that is visible, and hide it meanwhile."""
        while True:
            answer = self._sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=_MESSAGES,
                VisibilityTimeout=HIDDEN_S,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            received = answer.get("Messages", ())
            if not received:
                return
            self._held += [message["ReceiptHandle"] for message in received]
            for message in received:
                yield message["ReceiptHandle"], message

    def delete(self, receipt: str) -> None:
        """Delete a message whose records were sent."""
        self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)
        self._held.remove(receipt)

    def release(self) -> None:
        """Make all messages that were not deleted visible again."""
        for receipt in self._held:
            self._sqs.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=0
            )
        self._held.clear()

    def records(self, message: Mapping[str, Any]) -> list[FailedRecord]:
        """Return the records of a message. Raises NotReadable and boto3's errors."""
        body, arrived_ms = message["Body"], int(message["Attributes"]["SentTimestamp"])
        document = _parse_object(body)
        if document is not None and document.get("Type") == "Notification":
            # From a failure topic, by a subscription without raw delivery.
            body = str(document.get("Message", ""))
            document = _parse_object(body)
        if document is None or "requestContext" not in document:
            attributes: dict[str, Any] = message.get("MessageAttributes", {})
            # A function's dead-letter queue has the error in attributes.
            code = attributes.get("ErrorCode", {}).get("StringValue", "message")
            text = attributes.get("ErrorMessage", {}).get("StringValue", "")
            data = body.encode("utf-8", "surrogatepass")
            return [FailedRecord(self._url, 0, code, text, arrived_ms, data, True, document or {})]
        code = str(document["requestContext"].get("condition", "failed"))
        text = str(as_mapping(document.get("responsePayload")).get("errorMessage", ""))
        if "KinesisBatchInfo" in document:
            pairs = self._read_range(document["KinesisBatchInfo"])
        elif "requestPayload" in document:
            pairs = [("", json.dumps(document["requestPayload"]).encode())]
        else:
            raise NotReadable("it names changes of a table, which cannot be put again")
        return [
            FailedRecord(
                self._url,
                number,
                code,
                text,
                arrived_ms,
                data,
                True,
                {**document, "partitionKey": key} if key else document,
            )
            for number, (key, data) in enumerate(pairs)
        ]

    def _read_range(self, info: Mapping[str, Any]) -> list[tuple[str, bytes]]:
        """Return the partition keys and data of a range of a shard. Raises NotReadable."""
        from botocore.exceptions import ClientError

        kinesis = self._client("kinesis")
        first, last = int(info["startSequenceNumber"]), int(info["endSequenceNumber"])
        stream = str(info["streamArn"])
        pairs: list[tuple[str, bytes]] = []
        empty = 0
        try:
            iterator = kinesis.get_shard_iterator(
                StreamARN=stream,
                ShardId=info["shardId"],
                ShardIteratorType="AT_SEQUENCE_NUMBER",
                StartingSequenceNumber=str(first),
            )["ShardIterator"]
            while iterator and empty < _EMPTY_PAGES:
                page = kinesis.get_records(ShardIterator=iterator, Limit=_PAGE_RECORDS)
                for record in page["Records"]:
                    number = int(record["SequenceNumber"])
                    if not pairs and number > first:
                        raise NotReadable(f"its records have expired in {stream}")
                    if number <= last:
                        pairs.append((record["PartitionKey"], record["Data"]))
                    if number >= last:
                        return pairs
                empty = 0 if page["Records"] else empty + 1
                iterator = page.get("NextShardIterator")
        except ClientError as error:
            detail: Any = error.response
            if detail["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                raise
            raise NotReadable(str(detail["Error"]["Message"])) from error
        raise NotReadable(f"its records have expired in {stream}")


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return as_mapping(value) if isinstance(value, dict) else None


def send_message(
    records: list[FailedRecord], target: Target, fix: Fix | None, done: QueueCounts
) -> None:
    """Send a message's records to a target. Raises NotSent when the target refused some."""
    pairs = [
        (r.error.get("partitionKey", ""), r.data if fix is None else apply_fix(fix, r))
        for r in records
    ]
    chosen = [(key, data) for key, data in pairs if data is not None]
    done.left_out += len(pairs) - len(chosen)
    for part in batches_of(chosen):
        refused = target.send([data for _, data in part], [key for key, _ in part])
        done.sent += len(part) - len(refused)
        if refused:
            raise NotSent(f"{target.name} refused {len(refused)} records of a message, which stays")
