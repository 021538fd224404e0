"""Ports that are served by other services' control plane: queues, topics, metrics, logs, Glue tables.

Each is a thin translation from `headrace.core.ports` to `gateway.call`. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

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
METRICS_PER_CALL = 1000
LOG_EVENTS_PER_CALL = 10_000
MESSAGES_PER_CALL = 10
MOST_QUEUED = 100_000


class Queues:
    """Sends to and receives from SQS. Implements `QueueSender` and `QueueReceiver`.

    `is_empty` looks into a queue, given by account, region and name, without asking SQS.
    """

    def __init__(self, control: ControlPlane, is_empty: Callable[[str, str, str], bool]) -> None:
        self._control = control
        self._is_empty = is_empty

    def send(self, queue_arn: str, body: str, attributes: Mapping[str, str] | None = None) -> str:
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
        where = {"account": arn.account, "region": arn.region}
        try:
            url = self._control.call("sqs", "GetQueueUrl", {"QueueName": arn.name}, **where)
            return self._control.call(
                "sqs", operation, {"QueueUrl": url["QueueUrl"], **params}, **where
            )
        except AwsError as error:
            if "NonExistentQueue" in error.code or "QueueDoesNotExist" in error.code:
                raise LookupError(queue_arn) from error
            raise


class Topics:
    """Publishes to SNS. Implements `TopicPublisher`."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def publish(
        self, topic_arn: str, message: str, attributes: Mapping[str, str] | None = None
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


def _attributes(attributes: Mapping[str, str] | None) -> dict[str, dict[str, str]]:
    named = attributes or {}
    return {name: {"DataType": "String", "StringValue": text} for name, text in named.items()}


class EventBuses:
    """Puts events on EventBridge buses. Implements `EventBusSender`."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def put(self, bus_arn: str, event: BusEvent) -> str:
        """See `EventBusSender.put`."""
        arn = Arn.parse(bus_arn)
        where = {"account": arn.account, "region": arn.region}
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


class Schemas:
    """Reads the Glue Data Catalog. Implements `SchemaCatalog`."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def table(self, database: str, table: str, *, account: str, region: str) -> TableSchema:
        """See `SchemaCatalog.table`."""
        try:
            found = self._control.call(
                "glue",
                "GetTable",
                {"DatabaseName": database, "Name": table},
                account=account,
                region=region,
            )["Table"]
        except AwsError as error:
            if error.code == "EntityNotFoundException":
                raise SchemaNotFound(f"{database}.{table}") from error
            raise
        storage = found.get("StorageDescriptor", {})
        return TableSchema(
            columns=_columns(storage.get("Columns", [])),
            partition_keys=_columns(found.get("PartitionKeys", [])),
            parameters=found.get("Parameters", {}),
            serde_parameters=storage.get("SerdeInfo", {}).get("Parameters", {}),
        )


def _columns(columns: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(column["Name"]), str(column.get("Type", "string"))) for column in columns)


class MetricQueue:
    """Takes metrics at once and sends them to CloudWatch later: a `MetricSink` and a `Worker`."""

    name = "metrics"

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._queued: dict[tuple[str, str, str], list[Metric]] = defaultdict(list)

    def put(self, metrics: Sequence[Metric], *, account: str, region: str) -> None:
        """See `MetricSink.put`."""
        with self._lock:
            for metric in metrics:
                queue = self._queued[(account, region, metric.namespace)]
                if len(queue) < MOST_QUEUED:
                    queue.append(metric)

    def step(self) -> float:
        """Send what is queued."""
        with self._lock:
            queued, self._queued = self._queued, defaultdict(list)
        for (account, region, namespace), metrics in queued.items():
            for start in range(0, len(metrics), METRICS_PER_CALL):
                data = [_datum(metric) for metric in metrics[start : start + METRICS_PER_CALL]]
                self._control.call(
                    "cloudwatch",
                    "PutMetricData",
                    {"Namespace": namespace, "MetricData": data},
                    account=account,
                    region=region,
                )
        return FLUSH_METRICS_EVERY_S


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

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._queued: dict[tuple[str, str, str, str], list[LogLine]] = defaultdict(list)
        self._known: set[tuple[str, ...]] = set()

    def put(
        self, group: str, stream: str, lines: Sequence[LogLine], *, account: str, region: str
    ) -> None:
        """See `LogSink.put`."""
        with self._lock:
            queue = self._queued[(account, region, group, stream)]
            if len(queue) < MOST_QUEUED:
                queue.extend(lines)

    def step(self) -> float:
        """Send what is queued."""
        with self._lock:
            queued, self._queued = self._queued, defaultdict(list)
        for (account, region, group, stream), lines in queued.items():
            self._make(account, region, group, stream)
            lines.sort(key=lambda line: line.timestamp_ms)
            for start in range(0, len(lines), LOG_EVENTS_PER_CALL):
                events = [
                    {"timestamp": line.timestamp_ms, "message": line.message}
                    for line in lines[start : start + LOG_EVENTS_PER_CALL]
                ]
                self._send(account, region, group, stream, events)
        return FLUSH_LOGS_EVERY_S

    def _send(
        self, account: str, region: str, group: str, stream: str, events: list[dict[str, Any]]
    ) -> None:
        params = {"logGroupName": group, "logStreamName": stream, "logEvents": events}
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
            self._known.add(key)
