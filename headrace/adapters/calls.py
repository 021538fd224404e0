"""Calls one service for another: texts of secrets, schemas of Glue tables; messages to queues, topics and buses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn
from headrace.core.ports import BusEvent, ControlPlane, QueueMessage, SchemaNotFound, TableSchema


class Secrets:
    """Reads Secrets Manager."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def text_of(self, arn: str, account: str, region: str) -> str | None:
        """Return a secret's text, None when there is none."""
        params = {"SecretId": arn}
        try:
            secret = self._control.call(
                "secretsmanager", "GetSecretValue", params, account=account, region=region
            )
        except AwsError:
            return None
        return secret.get("SecretString")


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
            table_version = (
                answer["TableVersion"]["Table"] if version != "LATEST" else answer["Table"]
            )
        except AwsError as error:
            if error.code == "EntityNotFoundException":
                raise SchemaNotFound(f"{database}.{table}") from error
            raise
        storage = table_version.get("StorageDescriptor", {})
        return TableSchema(_columns(storage.get("Columns", [])))


def _columns(columns: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(column["Name"]), str(column.get("Type", "string"))) for column in columns)


MESSAGES_PER_CALL = 10
# SQS's attributes with the number of messages in a queue.
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)


class Queues:
    """Sends to and receives from SQS. Implements `QueueSender` and `QueueReceiver`.

    `is_empty` checks a queue, given by account, region and name, without calling SQS.
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
        answer = self._call(queue_arn, "GetQueueAttributes", params)
        return int(answer["Attributes"]["VisibilityTimeout"])

    def is_empty(self, queue_arn: str) -> bool:
        """See `QueueReceiver.is_empty`."""
        arn = Arn.parse(queue_arn)
        return self._is_empty(arn.account, arn.region, arn.name)

    def message_count(self, queue_arn: str) -> int:
        """See `QueueReceiver.message_count`."""
        answer = self._call(queue_arn, "GetQueueAttributes", {"AttributeNames": list(_COUNTS)})
        return sum(int(answer["Attributes"][name]) for name in _COUNTS)

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
            # SQS reads only account and name from a queue's URL, so GetQueueUrl need not be called each time.
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
    """Return message attributes in the shape of SQS and SNS; a number has the type Number."""
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
