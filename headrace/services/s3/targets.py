"""Sends a bucket's events to their targets: queues, topics, functions and event buses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import BusEvent, ControlPlane

# Observed in AWS's recorded answers.
SUBJECT = "Amazon S3 Notification"

_LOOK_UP: dict[str, tuple[str, Callable[[Arn], dict[str, str]]]] = {
    "sqs": ("GetQueueUrl", lambda arn: {"QueueName": arn.name}),
    "sns": ("GetTopicAttributes", lambda arn: {"TopicArn": str(arn)}),
    "lambda": ("GetFunctionConfiguration", lambda arn: {"FunctionName": str(arn)}),
}


class Targets(Protocol):
    """Sends events to targets. Thread-safe."""

    def exists(self, arn: str) -> bool:
        """Whether the queue, topic or function exists."""
        ...

    def send(self, arn: str, document: str) -> None:
        """Send a document to a queue, a topic or a function. Raises LookupError when the target does not exist."""
        ...

    def put_event(self, account: str, region: str, event: BusEvent) -> None:
        """Put an event on the account's default bus."""
        ...


class NoTargets:
    """Implements `Targets` without other services: it accepts all events and drops them."""

    def exists(self, arn: str) -> bool:
        """See `Targets.exists`."""
        return True

    def send(self, arn: str, document: str) -> None:
        """See `Targets.send`."""

    def put_event(self, account: str, region: str, event: BusEvent) -> None:
        """See `Targets.put_event`."""


class ServiceTargets:
    """Implements `Targets` with the other services.

    Args:
        control: calls SQS, SNS, Lambda and EventBridge.
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def exists(self, arn: str) -> bool:
        """See `Targets.exists`."""
        try:
            parsed = Arn.parse(arn)
            operation, params = _LOOK_UP[parsed.service]
            where: dict[str, Any] = {"account": parsed.account, "region": parsed.region}
            self._control.call(parsed.service, operation, params(parsed), **where)
        except (AwsError, InvalidArn, KeyError):
            return False
        return True

    def send(self, arn: str, document: str) -> None:
        """See `Targets.send`."""
        parsed = Arn.parse(arn)
        where: dict[str, Any] = {"account": parsed.account, "region": parsed.region}
        try:
            if parsed.service == "lambda":
                event = {"FunctionName": arn, "InvocationType": "Event"}
                payload = document.encode()
                self._control.call("lambda", "Invoke", {**event, "Payload": payload}, **where)
                return
            if parsed.service == "sns":
                message = {"TopicArn": arn, "Message": document, "Subject": SUBJECT}
                self._control.call("sns", "Publish", message, **where)
                return
            url = self._control.call("sqs", "GetQueueUrl", {"QueueName": parsed.name}, **where)
            sent = {"QueueUrl": url["QueueUrl"], "MessageBody": document}
            self._control.call("sqs", "SendMessage", sent, **where)
        except AwsError as error:
            if "NotFound" in error.code or "NonExistentQueue" in error.code:
                raise LookupError(arn) from error
            if "QueueDoesNotExist" in error.code:
                raise LookupError(arn) from error
            raise

    def put_event(self, account: str, region: str, event: BusEvent) -> None:
        """See `Targets.put_event`."""
        entry = {
            "Source": event.source,
            "DetailType": event.detail_type,
            "Detail": event.detail,
            "Resources": list(event.resources),
        }
        self._control.call(
            "events", "PutEvents", {"Entries": [entry]}, account=account, region=region
        )


def build_bus_event(bucket_arn: str, detail_type: str, detail: dict[str, Any]) -> BusEvent:
    """Return an event of a bucket in EventBridge's form."""
    return BusEvent("aws.s3", detail_type, json.dumps(detail), (bucket_arn,))
