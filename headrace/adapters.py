"""Ports that are served by other services' control plane: queues, topics, metrics, logs, Glue tables.

Each is a thin translation from `headrace.core.ports` to `gateway.call`. Thread-safe.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from headrace.aws.errors import AwsError
from headrace.core.arn import Arn
from headrace.core.ports import (
    BusEvent,
    ControlPlane,
    LogLine,
    Metric,
    QueueMessage,
    SchemaNotFound,
    TableSchema,
)

log = logging.getLogger(__name__)

FLUSH_LOGS_EVERY_S = 0.5
FLUSH_METRICS_EVERY_S = 5.0
# While nothing may be sent.
LOOK_AGAIN_S = 2.0
METRICS_PER_CALL = 1000
# PutLogEvents takes so many events and bytes, of which so many are counted for each event beside its message.
LOG_EVENTS_PER_CALL = 10_000
LOG_BYTES_PER_CALL = 1_048_576
LOG_EVENT_BYTES = 26
MESSAGES_PER_CALL = 10
MOST_QUEUED = 100_000
MOST_KNOWN = 10_000

Key = TypeVar("Key")
Item = TypeVar("Item")
# SQS's attributes with how many messages a queue has.
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)


class Queues:
    """Sends to and receives from SQS. Implements `QueueSender` and `QueueReceiver`.

    `is_empty` looks into a queue, given by account, region and name, without asking SQS.
    """

    def __init__(self, control: ControlPlane, is_empty: Callable[[str, str, str], bool]) -> None:
        self._control = control
        self._is_empty = is_empty

    def send(
        self, queue_arn: str, body: str, attributes: Mapping[str, str | int] | None = None
    ) -> str:
        """See `QueueSender.send`."""
        message = {"MessageBody": body, "MessageAttributes": _attributes(attributes)}
        return str(self._call(queue_arn, "SendMessage", message)["MessageId"])

    def visibility_timeout_s(self, queue_arn: str) -> int:
        """See `QueueReceiver.visibility_timeout_s`."""
        params = {"AttributeNames": ["VisibilityTimeout"]}
        found = self._call(queue_arn, "GetQueueAttributes", params)
        return int(found["Attributes"]["VisibilityTimeout"])

    def is_empty(self, queue_arn: str) -> bool:
        """See `QueueReceiver.is_empty`."""
        arn = Arn.parse(queue_arn)
        return self._is_empty(arn.account, arn.region, arn.name)

    def message_count(self, queue_arn: str) -> int:
        """See `QueueReceiver.message_count`."""
        found = self._call(queue_arn, "GetQueueAttributes", {"AttributeNames": list(_COUNTS)})
        return sum(int(found["Attributes"][name]) for name in _COUNTS)

    def receive(self, queue_arn: str, *, most: int) -> list[QueueMessage]:
        """See `QueueReceiver.receive`."""
        params = {
            "MaxNumberOfMessages": min(most, MESSAGES_PER_CALL),
            "AttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
            "WaitTimeSeconds": 0,
        }
        return [
            QueueMessage(
                message_id=str(message["MessageId"]),
                receipt_handle=str(message["ReceiptHandle"]),
                body=str(message["Body"]),
                body_md5=str(message["MD5OfBody"]),
                attributes=message.get("Attributes") or {},
                message_attributes=message.get("MessageAttributes") or {},
                attributes_md5=str(message.get("MD5OfMessageAttributes") or ""),
            )
            for message in self._call(queue_arn, "ReceiveMessage", params).get("Messages") or ()
        ]

    def delete(self, queue_arn: str, receipt_handles: Sequence[str]) -> None:
        """See `QueueReceiver.delete`."""
        for start in range(0, len(receipt_handles), MESSAGES_PER_CALL):
            handles = receipt_handles[start : start + MESSAGES_PER_CALL]
            entries = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(handles)]
            self._call(queue_arn, "DeleteMessageBatch", {"Entries": entries})

    def _call(self, queue_arn: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        arn = Arn.parse(queue_arn)
        where: dict[str, Any] = {"account": arn.account, "region": arn.region}
        try:
            # Its account and name are what is read of a queue's URL: SQS need not be asked for it each time.
            url = f"http://localhost/{arn.account}/{arn.name}"
            return self._control.call("sqs", operation, {"QueueUrl": url, **params}, **where)
        except AwsError as error:
            if "NonExistentQueue" in error.code or "QueueDoesNotExist" in error.code:
                raise LookupError(queue_arn) from error
            raise


class Topics:
    """Publishes to SNS. Implements `TopicPublisher`."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def publish(
        self, topic_arn: str, message: str, attributes: Mapping[str, str | int] | None = None
    ) -> str:
        """See `TopicPublisher.publish`."""
        arn = Arn.parse(topic_arn)
        try:
            sent = self._control.call(
                "sns",
                "Publish",
                {
                    "TopicArn": topic_arn,
                    "Message": message,
                    "MessageAttributes": _attributes(attributes),
                },
                account=arn.account,
                region=arn.region,
            )
        except AwsError as error:
            if error.code.startswith("NotFound"):
                raise LookupError(topic_arn) from error
            raise
        return str(sent["MessageId"])


def _attributes(attributes: Mapping[str, str | int] | None) -> dict[str, dict[str, str]]:
    """Return message attributes in SQS's and SNS's shape; a number is a Number."""
    return {
        name: {
            "DataType": "Number" if isinstance(value, int) else "String",
            "StringValue": str(value),
        }
        for name, value in (attributes or {}).items()
    }


class EventBuses:
    """Puts events on EventBridge buses. Implements `EventBusSender`."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def put(self, bus_arn: str, event: BusEvent) -> str:
        """See `EventBusSender.put`."""
        arn = Arn.parse(bus_arn)
        where: dict[str, Any] = {"account": arn.account, "region": arn.region}
        name = arn.resource.removeprefix("event-bus/")
        entry = {
            "EventBusName": name,
            "Source": event.source,
            "DetailType": event.detail_type,
            "Detail": event.detail,
            "Resources": list(event.resources),
        }
        try:
            self._control.call("events", "DescribeEventBus", {"Name": name}, **where)
        except AwsError as error:
            if error.code == "ResourceNotFoundException":
                raise LookupError(bus_arn) from error
            raise
        sent = self._control.call("events", "PutEvents", {"Entries": [entry]}, **where)
        return str(sent["Entries"][0].get("EventId", ""))


class Secrets:
    """Reads Secrets Manager."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def text_of(self, arn: str, account: str, region: str) -> str | None:
        """Return a secret's text, None when there is none."""
        params = {"SecretId": arn}
        try:
            found = self._control.call(
                "secretsmanager", "GetSecretValue", params, account=account, region=region
            )
        except AwsError:
            return None
        return found.get("SecretString")


class Schemas:
    """Reads the Glue Data Catalog. Implements `SchemaCatalog`."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def table(
        self, database: str, table: str, *, account: str, region: str, version: str = "LATEST"
    ) -> TableSchema:
        """See `SchemaCatalog.table`."""
        names = {"DatabaseName": database}
        operation, params = "GetTable", {**names, "Name": table}
        if version != "LATEST":
            operation = "GetTableVersion"
            params = {**names, "TableName": table, "VersionId": version}
        try:
            answer = self._control.call("glue", operation, params, account=account, region=region)
            found = answer["TableVersion"]["Table"] if version != "LATEST" else answer["Table"]
        except AwsError as error:
            if error.code == "EntityNotFoundException":
                raise SchemaNotFound(f"{database}.{table}") from error
            raise
        storage = found.get("StorageDescriptor", {})
        return TableSchema(_columns(storage.get("Columns", [])))


def _columns(columns: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(column["Name"]), str(column.get("Type", "string"))) for column in columns)


class _Backlog(Generic[Key, Item]):
    """What waits to be sent on, by where it goes; bounded, so that a slow receiver costs no memory. Thread-safe."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._queued: dict[Key, list[Item]] = {}
        self._count = 0
        self._dropped = 0

    def put(self, key: Key, items: Sequence[Item]) -> None:
        """Add items; of those that are too many, the latest are dropped, which is logged."""
        with self._lock:
            room = max(MOST_QUEUED - self._count, 0)
            if room:
                self._queued.setdefault(key, []).extend(items[:room])
            self._count += min(len(items), room)
            self._dropped += max(len(items) - room, 0)

    def take(self) -> dict[Key, list[Item]]:
        """Return everything, and begin anew."""
        with self._lock:
            queued, self._queued, self._count = self._queued, {}, 0
            dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning(
                "%d %s were dropped: more than %d were waiting", dropped, self._what, MOST_QUEUED
            )
        return queued

    def send(self, key: Key, items: Sequence[Item], send: Callable[[Sequence[Item]], None]) -> None:
        """Send items on. What is refused is dropped, which is logged; what fails is queued again."""
        try:
            send(items)
        except AwsError as error:
            if error.status >= 500:
                self.put(key, items)
            log.warning("%d %s of %s could not be sent: %s", len(items), self._what, key, error)
        except Exception:
            log.exception("%d %s of %s are lost", len(items), self._what, key)


class MetricQueue:
    """Takes metrics at once and sends them to CloudWatch later: a `MetricSink` and a `Worker`."""

    name = "metrics"

    def __init__(self, control: ControlPlane, may_send: Callable[[], bool] = lambda: True) -> None:
        self._control = control
        self._may_send = may_send
        self._backlog = _Backlog[tuple[str, str, str], Metric]("metric values")

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        """See `MetricSink.put`."""
        for namespace, group in itertools.groupby(metrics, lambda metric: metric.namespace):
            self._backlog.put((account, region, namespace), list(group))

    def step(self) -> float:
        """Send what is queued, if anything may be sent."""
        if not self._may_send():
            return LOOK_AGAIN_S
        for key, metrics in self._backlog.take().items():
            for start in range(0, len(metrics), METRICS_PER_CALL):
                part = metrics[start : start + METRICS_PER_CALL]
                self._backlog.send(key, part, functools.partial(self._send, key))
        return FLUSH_METRICS_EVERY_S

    def _send(self, key: tuple[str, str, str], metrics: Sequence[Metric]) -> None:
        account, region, namespace = key
        data = [_datum(metric) for metric in metrics]
        params = {"Namespace": namespace, "MetricData": data}
        self._control.call("cloudwatch", "PutMetricData", params, account=account, region=region)


def _datum(metric: Metric) -> dict[str, Any]:
    datum: dict[str, Any] = {
        "MetricName": metric.name,
        "Unit": metric.unit,
        "Timestamp": datetime.fromtimestamp(metric.timestamp_ms / 1000, UTC),
        "Dimensions": [{"Name": name, "Value": value} for name, value in metric.dimensions],
    }
    if metric.statistics is None:
        return {**datum, "Value": metric.value}
    names = ("SampleCount", "Sum", "Minimum", "Maximum")
    return {**datum, "StatisticValues": dict(zip(names, metric.statistics, strict=True))}


class LogQueue:
    """Takes log lines at once and sends them to CloudWatch Logs later: a `LogSink` and a `Worker`."""

    name = "logs"

    def __init__(self, control: ControlPlane, may_send: Callable[[], bool] = lambda: True) -> None:
        self._control = control
        self._may_send = may_send
        self._backlog = _Backlog[tuple[str, str, str, str], LogLine]("log lines")
        # Groups and streams that are there, as far as we know.
        self._known: set[tuple[str, ...]] = set()

    def put(
        self, group: str, stream: str, lines: Sequence[LogLine], *, account: str, region: str
    ) -> None:
        """See `LogSink.put`."""
        self._backlog.put((account, region, group, stream), lines)

    def step(self) -> float:
        """Send what is queued, if anything may be sent."""
        if not self._may_send():
            return LOOK_AGAIN_S
        for key, lines in self._backlog.take().items():
            lines.sort(key=lambda line: line.timestamp_ms)
            for part in _log_batches(lines):
                self._backlog.send(key, part, functools.partial(self._send, key))
        return FLUSH_LOGS_EVERY_S

    def _send(self, key: tuple[str, str, str, str], lines: Sequence[LogLine]) -> None:
        account, region, group, stream = key
        params = {
            "logGroupName": group,
            "logStreamName": stream,
            "logEvents": [
                {"timestamp": line.timestamp_ms, "message": line.message} for line in lines
            ],
        }
        self._make(account, region, group, stream)
        try:
            self._control.call("logs", "PutLogEvents", params, account=account, region=region)
        except AwsError as error:
            if error.code != "ResourceNotFoundException":
                raise
            # The group was deleted behind our back, as `cdk destroy` does: AWS makes it again too.
            self._known.clear()
            self._make(account, region, group, stream)
            self._control.call("logs", "PutLogEvents", params, account=account, region=region)

    def _make(self, account: str, region: str, group: str, stream: str) -> None:
        for operation, params in (
            ("CreateLogGroup", {"logGroupName": group}),
            ("CreateLogStream", {"logGroupName": group, "logStreamName": stream}),
        ):
            key = (account, region, operation, *params.values())
            if key in self._known:
                continue
            try:
                self._control.call("logs", operation, params, account=account, region=region)
            except AwsError as error:
                if error.code != "ResourceAlreadyExistsException":
                    raise
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known.add(key)


def _log_batches(lines: Sequence[LogLine]) -> Generator[Sequence[LogLine]]:
    """Yield lines in as many as one PutLogEvents takes, in number and in bytes."""
    start = size_bytes = 0
    for n, line in enumerate(lines):
        line_bytes = len(line.message) * 4 if not line.message.isascii() else len(line.message)
        line_bytes += LOG_EVENT_BYTES
        is_full = n - start >= LOG_EVENTS_PER_CALL or size_bytes + line_bytes > LOG_BYTES_PER_CALL
        if is_full and n > start:
            yield lines[start:n]
            start, size_bytes = n, 0
        size_bytes += line_bytes
    if start < len(lines):
        yield lines[start:]
