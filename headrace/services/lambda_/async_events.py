"""A queued asynchronous event, and the documents that are sent to its destinations.

Formats: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html (documented).

Sends records of failed batches and asynchronous events to queues, topics, functions, event buses and buckets.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import (
    BusEvent,
    EventBusSender,
    InvokeResult,
    KeyRefused,
    ObjectStore,
    QueueSender,
    TopicPublisher,
)
from headrace.core.values import parse_json
from headrace.services.lambda_.errors import invalid_parameter
from headrace.services.lambda_.names import LATEST, FunctionRef
from headrace.services.lambda_.runtime.platform_log import format_iso_time

# The length of the attribute ErrorMessage of a dead-letter message.
_ERROR_MESSAGE_CHARACTERS = 1024


@dataclass(frozen=True, slots=True)
class Delivery:
    """A document, and the additions that some kinds of destinations need.

    Attributes:
        document: the JSON document.
        object_key: the document's key in a bucket.
        event: the event for an event bus, with the document in `detail`.
        attributes: the message attributes for a queue or a topic.
    """

    document: str
    object_key: str = ""
    event: BusEvent | None = None
    attributes: Mapping[str, str | int] | None = None


@dataclass(slots=True)
class Owed:
    """A delivery that an event owes: where it goes, and what counts its loss.

    Attributes:
        arn: the destination.
        delivery: what it gets.
        metric: the metric of a destination that refuses it for good.
        until_ms: when the last attempt may be.
        attempts: how many there were.
    """

    arn: str
    delivery: Delivery
    metric: str
    until_ms: int
    attempts: int = 0


@dataclass(slots=True)
class AsyncEvent:
    """One queued event. `payload` is base64; times are in milliseconds since 1970.

    `owed` are the deliveries that are left when the event is over.
    """

    request_id: str
    account: str
    region: str
    name: str
    qualifier: str | None
    payload: str
    client_context: str
    created_ms: int
    failures: int = 0
    throttles: int = 0
    owed: list[Owed] = field(default_factory=list[Owed])

    @property
    def ref(self) -> FunctionRef:
        """The function to invoke."""
        return FunctionRef(self.account, self.region, self.name, self.qualifier)

    @property
    def body(self) -> bytes:
        """The payload."""
        return base64.b64decode(self.payload)

    @property
    def function_arn(self) -> str:
        """The function's ARN, always with a qualifier."""
        return f"{self.ref.arn}:{self.qualifier or LATEST}"


def record(
    event: AsyncEvent, *, condition: str, result: InvokeResult | None, now_ms: int
) -> dict[str, Any]:
    """Return the invocation record of an event that has succeeded or was given up.

    Args:
        event: the event.
        condition: `Success`, `RetriesExhausted`, `EventAgeExceeded` or `ZeroReservedConcurrency`.
        result: the result of its last invocation, or None when there was none.
        now_ms: the current time.
    """
    document: dict[str, Any] = {
        "version": "1.0",
        "timestamp": format_iso_time(now_ms),
        "requestContext": {
            "requestId": event.request_id,
            "functionArn": event.function_arn,
            "condition": condition,
            "approximateInvokeCount": event.failures + (1 if condition == "Success" else 0),
        },
        "requestPayload": _json_or_text(event.body),
    }
    if result is None:
        return document
    context: dict[str, Any] = {"statusCode": 200, "executedVersion": result.executed_version}
    if result.function_error:
        context["functionError"] = result.function_error
    document["responseContext"] = context
    document["responsePayload"] = _json_or_text(result.payload)
    return document


def build_delivery(
    event: AsyncEvent, document: dict[str, Any], *, bus_arn: str, now_ms: int, unique: str
) -> Delivery:
    """Return the record in the form of each kind of destination. `unique` is the end of an object's key."""
    text = json.dumps(document, separators=(",", ":"))
    succeeded = document["requestContext"]["condition"] == "Success"
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    outcome = "Success" if succeeded else "Failure"
    return Delivery(
        text,
        f"aws/lambda/async/{event.name}/{now:%Y/%m/%d}/{now:%Y-%m-%dT%H.%M.%S}-{unique}",
        BusEvent(
            "lambda",
            f"Lambda Function Invocation Result - {outcome}",
            text,
            (bus_arn, event.function_arn),
        ),
    )


def build_dead_letter(event: AsyncEvent, result: InvokeResult | None) -> Delivery:
    """Return the message for a dead-letter queue or topic: the event itself, with the error in attributes."""
    attributes: dict[str, str | int] = {"RequestID": event.request_id, "ErrorCode": 200}
    if result is not None:
        error: Any = _json_or_text(result.payload)
        if isinstance(error, dict):
            error = cast("dict[str, Any]", error).get("errorMessage")
        # An attribute's value cannot be empty.
        attributes["ErrorMessage"] = str(error)[:_ERROR_MESSAGE_CHARACTERS] or "error"
    return Delivery(event.body.decode("utf-8", "replace"), attributes=attributes)


def _json_or_text(payload: bytes) -> Any:
    try:
        return parse_json(payload or b"null")
    except ValueError:
        return payload.decode("utf-8", "replace")


EVERYWHERE = ("sqs", "sns", "lambda", "events", "s3")
_STREAM_FAILURES = ("sqs", "sns")


class Destinations:
    """Sends documents to destinations. Thread-safe.

    Args:
        queues: SQS.
        topics: SNS.
        invoke: queues an invocation of the function with an ARN, and returns the request id.
        buses: EventBridge.
        objects: S3.
    """

    def __init__(
        self,
        queues: QueueSender,
        topics: TopicPublisher,
        *,
        invoke: Callable[[str, bytes], str] | None = None,
        buses: EventBusSender | None = None,
        objects: ObjectStore | None = None,
    ) -> None:
        self._queues = queues
        self._topics = topics
        self._buses = buses
        self._objects = objects
        self._invoke = invoke

    def send(self, arn: str, document: str, *, object_key: str = "") -> str:
        """Send a document; return its message id. Raises LookupError when the destination does not exist."""
        return self.deliver(arn, Delivery(document, object_key))

    def deliver(self, arn: str, delivery: Delivery) -> str:
        """Send a document; return its message id, or its key in a bucket.

        Raises LookupError when the destination does not exist, AwsError when it refuses the document.
        """
        service = Arn.parse(arn).service
        attributes = () if delivery.attributes is None else (delivery.attributes,)
        if service == "sqs":
            return self._queues.send(arn, delivery.document, *attributes)
        if service == "sns":
            return self._topics.publish(arn, delivery.document, *attributes)
        if service == "lambda" and self._invoke is not None:
            return self._invoke(arn, delivery.document.encode())
        if service == "events" and self._buses is not None and delivery.event is not None:
            return self._buses.put(arn, delivery.event)
        if service == "s3" and self._objects is not None and delivery.object_key:
            return self._put(self._objects, arn, delivery)
        raise LookupError(arn)

    def _put(self, objects: ObjectStore, arn: str, delivery: Delivery) -> str:
        bucket = Arn.parse(arn).resource
        if bucket not in objects.buckets():
            raise LookupError(arn)
        body = delivery.document.encode()
        try:
            objects.put(bucket, delivery.object_key, body, content_type="application/json")
        except KeyRefused as refusal:
            raise AwsError(refusal.code, refusal.message) from refusal
        return delivery.object_key


def check_destination(arn: str | None, services: tuple[str, ...] = _STREAM_FAILURES) -> None:
    """Refuse a destination whose service is not one of `services`. Raises AwsError."""
    if not arn:
        return
    try:
        service = Arn.parse(arn).service
    except InvalidArn:
        raise invalid_parameter(f"The destination ARN {arn} is invalid.") from None
    if service not in services:
        raise invalid_parameter(f"The destination ARN {arn} is invalid.")
