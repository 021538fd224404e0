"""Sends each event of a stack to the SNS topics in the stack's NotificationARNs.

The message's form was observed: a line `Name='value'` for each member. A worker sends them in order; messages that are
unsent when the cloud is killed are lost, and failures are logged.
"""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import ControlPlane
from headrace.core.values import iso_of
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.cloudformation.state import Stack

log = logging.getLogger(__name__)

SUBJECT = "AWS CloudFormation Notification"


def message_of(stack: Stack, event: Mapping[str, Any]) -> str:
    """Return the text of an event's message."""
    properties = event.get("ResourceProperties")
    shown = {
        "StackId": stack.stack_id,
        "Timestamp": iso_of(event["Timestamp"]),
        "EventId": event["EventId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Namespace": stack.account,
        "PhysicalResourceId": event["PhysicalResourceId"],
        "ResourceProperties": "null" if properties is None else json.dumps(properties),
        "ResourceStatus": event["ResourceStatus"],
        "ResourceStatusReason": event["ResourceStatusReason"],
        "ResourceType": event["ResourceType"],
        "StackName": stack.name,
        "ClientRequestToken": event.get("ClientRequestToken") or "null",
    }
    return "".join(f"{name}='{value}'\n" for name, value in shown.items())


class Notifications:
    """The queue of messages to topics. Thread-safe."""

    def __init__(self, control: ControlPlane, supervisor: Supervisor) -> None:
        self.name = "stack notifications"
        self._control = control
        self._supervisor = supervisor
        self._waiting: deque[tuple[Stack, str, str]] = deque()
        self._handle: WorkerHandle | None = None

    def start(self) -> None:
        """Start the worker."""
        self._handle = self._supervisor.start(self)

    def tell(self, stack: Stack, event: Mapping[str, Any]) -> None:
        """Queue an event for the stack's topics."""
        if not stack.notification_arns:
            return
        text = message_of(stack, event)
        self._waiting.extend((stack, topic, text) for topic in stack.notification_arns)
        if self._handle is not None:
            self._handle.wake()

    def step(self) -> float:
        """Send one message."""
        if not self._waiting:
            return math.inf
        stack, topic, text = self._waiting.popleft()
        try:
            self._control.call(
                "sns",
                "Publish",
                {"TopicArn": topic, "Subject": SUBJECT, "Message": text},
                account=stack.account,
                region=stack.region,
            )
        except AwsError as error:
            log.warning("stack %s: no notification to %s: %s", stack.name, topic, error.message)
        return 0.0
