"""The stack operations in progress: each on its own thread, ended at its timeout, resumed after a kill."""

from __future__ import annotations

import functools
import logging

from headrace.core.clock import Clock
from headrace.core.workers import Supervisor, WorkerDone
from headrace.services.cloudformation.deployment.alias_deployments import LOOK_EVERY_S
from headrace.services.cloudformation.deployment.resource_states import ResourceStates
from headrace.services.cloudformation.deployment.stack_operation import Deployment, Work
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.resources.base import Context
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.scope import Lookups

log = logging.getLogger(__name__)

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
