"""Reads what Lambda's triggers and functions gave up from their failure queues, and sends it again.

A message of a stream's trigger names a range of records, which are read again from their shard; other messages hold
the record themselves: an asynchronous event, or a queue's own message. A message is deleted after its records were
sent, so a kill in between sends them again.

Repeats the COPY statements that a delivery stream gave up, each once: `headrace redrive --to redshift:NAME`.

What was loaded is in a table beside those that are loaded, written in the transaction of the COPY. So a run that was
killed, or whose answer was lost, loads nothing twice: the next looks there, after what still runs has ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.core.values import as_mapping, get_mapping, parse_json
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
        return _queue_of_topic(arn, client)
    if parts[2:3] == ["s3"]:
        raise NotAQueue(
            f"{arn} is a bucket: name a place in it, such as s3://{parts[5]}/aws/lambda/"
        )
    raise NotAQueue(f"{arn} is no queue")


def _queue_of_topic(arn: str, client: Callable[[str], Any]) -> str:
    """Return the URL of the queue that keeps a topic's messages, if it is the only one."""
    pages = client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=arn)
    subscriptions = [one for page in pages for one in page["Subscriptions"]]
    queues = [one["Endpoint"] for one in subscriptions if one["Protocol"] == "sqs"]
    if len(queues) == 1:
        return _queue_of_arn(queues[0], client)
    which = f"has several queues, name one: {', '.join(queues)}" if queues else "has no queue"
    raise NotAQueue(f"{arn} is a topic, which keeps nothing itself, and {which}")


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
        value = parse_json(text)
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


PLACES = "headrace_redrive"
_MADE = (
    f"create table if not exists {PLACES} (manifest varchar(2048) not null, loaded_at timestamp)"
)
_ENDED = ("FINISHED", "FAILED", "ABORTED")
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 2.0
_NAME_CHARS = 32
_HERE = ("127.0.0.1", "localhost", "::1")


class NotCopied(Exception):
    """A statement failed, or there is no such cluster; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Copier:
    """Loads manifests as a delivery stream does. `where`: the Data API's members that name database and user."""

    data: Any
    where: dict[str, str]
    command: dict[str, Any]
    role: str
    wait: Callable[[float], None]

    def sql(self, manifest_url: str) -> str:
        """Return the COPY of a manifest."""
        columns = str(self.command.get("DataTableColumns") or "").strip()
        listed = f" ({columns})" if columns else ""
        options = str(self.command.get("CopyOptions") or "").strip().rstrip(";")
        return (
            f"copy {self.command['DataTableName']}{listed} from {_text(manifest_url)} manifest"
            f" iam_role {_text(self.role)} {options}"
        ).strip()

    def prepare(self) -> None:
        """Make the table of what was loaded. Raises NotCopied."""
        self._end(self.data.execute_statement(Sql=_MADE, **self.where)["Id"])

    def load(self, manifest_url: str) -> bool:
        """Load what a manifest names; return False when it was loaded before. Raises NotCopied."""
        name = "headrace-" + hashlib.sha256(manifest_url.encode()).hexdigest()[:_NAME_CHARS]
        self._wait_for(name)
        if self._is_loaded(manifest_url):
            return False
        sqls = [
            f"insert into {PLACES} values ({_text(manifest_url)}, getdate())",
            self.sql(manifest_url),
        ]
        begun = self.data.batch_execute_statement(Sqls=sqls, StatementName=name, **self.where)
        self._end(begun["Id"])
        return True

    def _wait_for(self, name: str) -> None:
        """Wait until what an earlier run began has ended."""
        pages = self.data.get_paginator("list_statements").paginate(
            StatementName=name, Status="ALL"
        )
        for page in pages:
            for statement in page["Statements"]:
                self._wait_for_end(statement["Id"])

    def _is_loaded(self, manifest_url: str) -> bool:
        sql = f"select count(*) from {PLACES} where manifest = {_text(manifest_url)}"
        begun = self.data.execute_statement(Sql=sql, **self.where)
        self._end(begun["Id"])
        ((field,),) = self.data.get_statement_result(Id=begun["Id"])["Records"]
        return int(field["longValue"]) > 0

    def _end(self, statement_id: str) -> None:
        described = self._wait_for_end(statement_id)
        if described["Status"] != "FINISHED":
            raise NotCopied(" ".join(str(described.get("Error") or described["Status"]).split()))

    def _wait_for_end(self, statement_id: str) -> dict[str, Any]:
        wait_s = _FIRST_LOOK_S
        while True:
            described: dict[str, Any] = self.data.describe_statement(Id=statement_id)
            if described["Status"] in _ENDED:
                return described
            self.wait(wait_s)
            wait_s = min(_LAST_LOOK_S, 2 * wait_s)


def copier_of(
    name: str, client: Callable[[str], Any], role: str, wait: Callable[[float], None]
) -> Copier:
    """Return what repeats a delivery stream's COPY.

    Args:
        name: the delivery stream's.
        client: makes a client of a service.
        role: the IAM role that COPY reads S3 by; empty for the delivery stream's own.
        wait: sleeps for so many seconds.

    Raises NotCopied.
    """
    described = client("firehose").describe_delivery_stream(DeliveryStreamName=name)
    (destination,) = described["DeliveryStreamDescription"]["Destinations"]
    redshift: dict[str, Any] | None = destination.get("RedshiftDestinationDescription")
    if redshift is None:
        raise NotCopied(f"{name} does not deliver to Redshift")
    parts = urlsplit(str(redshift["ClusterJDBCURL"]).removeprefix("jdbc:"))
    kind, target = _target(parts.hostname or "", parts.port or 5439, client)
    where = {kind: target, "Database": unquote(parts.path.lstrip("/"))}
    secret = get_mapping(redshift, "SecretsManagerConfiguration")
    if secret.get("Enabled"):
        where["SecretArn"] = str(secret["SecretARN"])
    elif kind == "ClusterIdentifier":
        where["DbUser"] = redshift["Username"]
    return Copier(
        client("redshift-data"), where, redshift["CopyCommand"], role or redshift["RoleARN"], wait
    )


def _target(host: str, port: int, client: Callable[[str], Any]) -> tuple[str, str]:
    """Return the Data API's member for a cluster or a workgroup, and its name. Raises NotCopied."""
    labels = host.split(".")
    if "redshift-serverless" in labels:
        return "WorkgroupName", labels[0]
    if "redshift" in labels and host not in _HERE:
        return "ClusterIdentifier", labels[0]
    for page in client("redshift").get_paginator("describe_clusters").paginate():
        for cluster in page["Clusters"]:
            at = get_mapping(cluster, "Endpoint")
            if (at.get("Address"), at.get("Port")) == (host, port):
                return "ClusterIdentifier", cluster["ClusterIdentifier"]
    raise NotCopied(f"no cluster has the address {host}:{port}")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
