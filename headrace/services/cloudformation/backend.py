"""CloudFormation's state: all stacks, their operations, custom resources' answers, the fidelity report.

The stack operations in progress have a thread each; they are ended at their timeout, and resumed after a kill.

Sends each event of a stack to the SNS topics in the stack's NotificationARNs.

The message's form was observed: a line `Name='value'` for each member. A worker sends them in order; messages that are
unsent when the cloud is killed are lost, and failures are logged.
"""

from __future__ import annotations

import functools
import json
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, ObjectStore
from headrace.core.values import iso_of
from headrace.core.workers import Supervisor, WorkerDone, WorkerHandle
from headrace.services.cloudformation.deployment.alias_deployments import LOOK_EVERY_S
from headrace.services.cloudformation.deployment.resource_states import ResourceStates
from headrace.services.cloudformation.deployment.stack_operation import Deployment, Work
from headrace.services.cloudformation.errors import stack_missing
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.resources.base import Context, Ports
from headrace.services.cloudformation.signals import HANDLE, Responses, signal_in, token_of
from headrace.services.cloudformation.single_resources import SingleResources
from headrace.services.cloudformation.stack_sets import StackSets
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.scope import Exports, Lookups
from headrace.services.cloudformation.template.template_checks import parse
from headrace.services.cloudformation.template.template_text import (
    TemplateRequest,
    object_text,
    template_text,
)
from headrace.services.cloudformation.template.transforms import Transforms

# An operation that ends within this time is answered after its end: the CDK CLI's first poll then finds the result, and
# the CLI skips its wait of five seconds.
ANSWER_WITHIN_S = 2.0
# How often a time limit checks whether its operation has ended.
_LIMIT_LOOK_S = 30.0
# Statuses in which rollback triggers are checked.
_WATCHED = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")


class Operations:
    """The operations in progress, at most one for each stack. Thread-safe."""

    def __init__(
        self, stacks: Stacks, lookups: Lookups, ports: Ports, supervisor: Supervisor
    ) -> None:
        self._stacks = stacks
        self._lookups = lookups
        self.ports = ports
        self._supervisor = supervisor
        self._running: dict[str, Deployment] = {}

    def run(self, stack: Stack, work: Work, *, wait: bool = True) -> None:
        """Run an operation in the background; with `wait`, wait up to ANSWER_WITHIN_S for its end."""
        deployment = Deployment(self._stacks, self._lookups, self.ports, stack, work)
        done = deployment.done
        with self._stacks.lock:
            under_way = {key: d for key, d in self._running.items() if not d.done.is_set()}
            self._running = {**under_way, stack.stack_id: deployment}
        self._supervisor.start(deployment)
        if stack.status == "CREATE_IN_PROGRESS" and stack.timeout_minutes:
            self._supervisor.start(_TimeLimit(deployment, self.ports.clock))
        if stack.rollback_configuration and stack.status in _WATCHED:
            self._supervisor.start(_Watch(deployment))
        if wait:
            self.ports.clock.wait(done, ANSWER_WITHIN_S)

    def context(self, stack: Stack, resource: Resource) -> Context:
        """Return the context in which a resource type reads a resource of a stack."""
        return ResourceStates(self._stacks, self.ports, stack).context(resource)

    def interrupt(self, stack: Stack, status: str) -> bool:
        """Interrupt a stack's operation, which continues from its new status; return False when there is none.

        The caller holds the stacks' lock.
        """
        running = self._running.get(stack.stack_id)
        if running is None or running.done.is_set():
            return False
        self._stacks.set_status(stack, status, "User Initiated")
        running.cancel()
        return True

    def resume_all(self) -> None:
        """Resume the operations that a kill interrupted: deletions continue, creations and updates are rolled back."""
        for stack in list(self._stacks.all()):
            if stack.in_progress:
                log.warning("stack %s was %s when the cloud was killed", stack.name, stack.status)
                work = self._resumption(stack)
                self.run(stack, functools.partial(Deployment.resume, work=work), wait=False)

    def _resumption(self, stack: Stack) -> Work:
        why = "The cloud was stopped during the operation."
        match stack.status:
            case "CREATE_IN_PROGRESS":
                self._stacks.set_status(stack, "ROLLBACK_IN_PROGRESS", why)
                return Deployment.roll_back_creation
            case "ROLLBACK_IN_PROGRESS":
                return Deployment.roll_back_creation
            case "DELETE_IN_PROGRESS":
                return Deployment.delete
            case "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS":
                return lambda deployment: deployment.clean_up("UPDATE_COMPLETE")
            case "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS":
                return lambda deployment: deployment.clean_up("UPDATE_ROLLBACK_COMPLETE")
            case "IMPORT_IN_PROGRESS":
                self._stacks.set_status(stack, "IMPORT_ROLLBACK_IN_PROGRESS", why)
                return Deployment.release_imports
            case "IMPORT_ROLLBACK_IN_PROGRESS":
                return Deployment.release_imports
            case "UPDATE_IN_PROGRESS":
                self._stacks.set_status(stack, "UPDATE_ROLLBACK_IN_PROGRESS", why)
                return Deployment.roll_back_update
            case _:
                return Deployment.roll_back_update


class _TimeLimit:
    """A worker that ends a creation that takes longer than the stack's TimeoutInMinutes."""

    def __init__(self, deployment: Deployment, clock: Clock) -> None:
        self.name = f"time limit of stack {deployment.stack.name}"
        self._deployment = deployment
        self._clock = clock
        self._due_s = clock.monotonic_s() + 60 * deployment.stack.timeout_minutes

    def step(self) -> float:
        left_s = self._due_s - self._clock.monotonic_s()
        if self._deployment.done.is_set():
            raise WorkerDone
        if left_s > 0:
            return min(left_s, _LIMIT_LOOK_S)
        self._deployment.time_out()
        raise WorkerDone


class _Watch:
    """A worker that ends an operation when an alarm of its rollback triggers goes off while resources are created."""

    def __init__(self, deployment: Deployment) -> None:
        self.name = f"rollback triggers of stack {deployment.stack.name}"
        self._deployment = deployment

    def step(self) -> float:
        if self._deployment.done.is_set():
            raise WorkerDone
        self._deployment.check_triggers()
        return LOOK_EVERY_S


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
