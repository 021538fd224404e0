"""CloudFormation's state: all stacks, their start and stop, custom resources' answers, the fidelity report.

Sends each event of a stack to the SNS topics in the stack's NotificationARNs.

The message's form was observed: a line `Name='value'` for each member. A worker sends them in order; messages that are
unsent when the cloud is killed are lost, and failures are logged.
"""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, ObjectStore
from headrace.core.values import iso_of
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.cloudformation.deployment.operations import Operations
from headrace.services.cloudformation.errors import stack_missing
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.signals import HANDLE, Responses, signal_in, token_of
from headrace.services.cloudformation.single_resources import SingleResources
from headrace.services.cloudformation.stack_sets import StackSets
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.scope import Exports, Lookups
from headrace.services.cloudformation.template.template_checks import parse
from headrace.services.cloudformation.template.template_text import (
    TemplateRequest,
    object_text,
    template_text,
)
from headrace.services.cloudformation.template.transforms import Transforms

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


class CloudFormation:
    """All stacks of all accounts and regions. Thread-safe: requests hold `lock`; a stack has one operation."""

    def __init__(
        self,
        *,
        ids: Ids,
        stacks: Stacks,
        exports: Exports,
        lookups: Lookups,
        operations: Operations,
        responses: Responses,
        objects: ObjectStore,
        transforms: Transforms,
        endpoint_url: Callable[[], str],
        strict: bool,
        single_resources: SingleResources,
        notifications: Notifications,
        stack_sets: StackSets,
    ) -> None:
        # Cloud Control uses these.
        self.single_resources = single_resources
        self.ids = ids
        self.lock = stacks.lock
        self.stacks = stacks
        self.exports = exports
        self.lookups = lookups
        self.operations = operations
        self.strict = strict
        self.stack_sets = stack_sets
        self._notifications = notifications
        self.transforms = transforms
        self._responses = responses
        self._objects = objects
        self._endpoint_url = endpoint_url

    def find_stack(
        self, call: Call, name: str, missing: Callable[[str], AwsError] = stack_missing
    ) -> Stack:
        """Return a stack, deleted or not. Raises AwsError, in the words of `missing`."""
        stack = self.stacks.find(call.account, call.region, name)
        if stack is None:
            raise missing(name)
        return stack

    def find_live_stack(
        self, call: Call, name: str, missing: Callable[[str], AwsError] = stack_missing
    ) -> Stack:
        """Return a stack that has not been deleted. Raises AwsError, in the words of `missing`."""
        stack = self.find_stack(call, name, missing)
        if not stack.exists:
            raise missing(name)
        return stack

    # --- start and stop -----------------------------------------------------------------------

    def start(self) -> None:
        """Load the stacks, and resume the operations that a kill interrupted."""
        self.stacks.load()
        self._notifications.start()
        self.operations.resume_all()
        self.stack_sets.resume_all()

    def stop(self) -> None:
        """Stop operations where they are; the next start resumes them."""
        self._responses.stop()

    # --- templates and custom resources -------------------------------------------------------

    def read_template(self, request: TemplateRequest) -> str:
        """Return the template text that a request contains or links to. Raises TemplateError."""
        return template_text(request, self._objects, self._endpoint_url())

    def read_object(self, url: str) -> str:
        """Return the text of the object at an S3 address. Raises TemplateError."""
        return object_text(url, self._objects, self._endpoint_url())

    def receive_response(self, token: str, body: bytes) -> bool:
        """Take a custom resource's answer, or a wait condition's signal; return whether something waits for it."""
        return self._responses.receive(token, body) or self._receive_signal(token, body)

    def _receive_signal(self, token: str, body: bytes) -> bool:
        signal = signal_in(body)
        if signal is None or not any(
            token_of(resource.physical_id) == token
            for stack in self.stacks.all()
            if stack.exists
            for resource in list(stack.resources.values())
            if resource.type == HANDLE and resource.status != "DELETE_COMPLETE"
        ):
            return False
        # A signal that is sent again counts once, and is no error (documented).
        self.operations.ports.signals.send(token, signal)
        return True

    def fidelity(self, stack_name: str) -> list[dict[str, str]]:
        """Return the fidelity report of the stack with this name, or of every stack when the name is empty."""
        rows: list[dict[str, str]] = []
        for stack in self.stacks.all():
            if stack.exists and stack.body and stack_name in ("", stack.name):
                rows += [{"stack": stack.name, **row} for row in fidelity_of(parse(stack.body))]
        return rows
