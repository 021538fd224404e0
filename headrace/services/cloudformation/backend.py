"""CloudFormation's state: all stacks, their start and stop, custom resources' answers, the fidelity report."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.ids import Ids
from headrace.core.ports import ObjectStore
from headrace.services.cloudformation.custom_responses import Responses
from headrace.services.cloudformation.deployment.operations import Operations
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.signals import HANDLE, signal_in, token_of
from headrace.services.cloudformation.single_resources import SingleResources
from headrace.services.cloudformation.stack_sets import StackSets
from headrace.services.cloudformation.stacks.exports import Exports
from headrace.services.cloudformation.stacks.notifications import Notifications
from headrace.services.cloudformation.stacks.scope import Lookups
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.template_checks import parse
from headrace.services.cloudformation.template.template_source import (
    TemplateRequest,
    object_text,
    template_text,
)
from headrace.services.cloudformation.transforms.run import Transforms


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
