"""Stack operations: create, update, delete, import, and the rollback when one fails.

One `Deployment` works on one stack on a thread of its own. It always ends: a failure leads to the rollback, and a
failure of the rollback ends in AWS's FAILED status with the reason, from which the stack can be deleted.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headrace.core.ports import CallerIdentity
from headrace.core.workers import WorkerDone
from headrace.services.cloudformation.changes.live_state import give_back
from headrace.services.cloudformation.deployment.alias_deployments import RollbackTriggers
from headrace.services.cloudformation.deployment.resource_removal import Removal
from headrace.services.cloudformation.deployment.resource_states import ResourceStates, type_of
from headrace.services.cloudformation.deployment.stack_resources import Provisioner
from headrace.services.cloudformation.errors import log_defect, reason_of
from headrace.services.cloudformation.resources.base import Context, Ports, Properties, ResourceType
from headrace.services.cloudformation.signals import CloudStopped
from headrace.services.cloudformation.state import CreationNotes, Resource, Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.scope import Lookups
from headrace.services.cloudformation.template.template import in_order
from headrace.services.cloudformation.template.template_checks import parse

log = logging.getLogger(__name__)


# Finds resources whose creation a kill interrupted, so that the rollback can delete them.
#
# Each call that creates something is noted in the transaction in which its service stores the result, with the answer
# if it is known by then. After a kill the resource type's `create` runs again on these notes, without calling any
# service, until it has the physical id.


def find_interrupted(states: ResourceStates) -> None:
    """Set and store the physical ids of resources that a killed operation had begun to create."""
    stack = states.stack
    creation_notes = states.stacks.creation_notes
    for key, value in creation_notes.items(f"{stack.stack_id} "):
        logical_id, begun = key.rpartition(" ")[2], CreationNotes(**value)
        resource = _being_made(stack, logical_id)
        if resource is not None:
            try:
                resource.physical_id = _find_physical_id(states, resource, begun)
            except Exception as error:  # noqa: BLE001 - whatever the error, the operation continues
                log_defect(f"resource {logical_id}", error)
            stored = [resource] if stack.resources.get(logical_id) is resource else []
            states.stacks.save(stack, *stored)
        creation_notes.delete(key)


def _find_physical_id(states: ResourceStates, resource: Resource, begun: CreationNotes) -> str:
    kind = type_of(resource.type)
    return _physical_id(kind, states.context(resource), resource.properties, begun)


def _being_made(stack: Stack, logical_id: str) -> Resource | None:
    # A replacement is in the list of resources to delete until it is complete.
    candidates = [r for r in stack.obsolete if r.logical_id == logical_id]
    if logical_id in stack.resources:
        candidates.append(stack.resources[logical_id])
    return next((resource for resource in candidates if not resource.physical_id), None)


class _CallNotNoted(BaseException):
    """The call was not made, or its answer is not known."""


class _PhysicalIdFound(BaseException):
    """Carries the physical id out of `create`."""


class _NotedCalls:
    """Answers calls from the notes."""

    def __init__(self, begun: CreationNotes) -> None:
        self._calls = list(begun.calls)

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: CallerIdentity | None = None,
    ) -> dict[str, Any]:
        """See `ControlPlane.call`; raises _CallNotNoted."""
        for at, call in enumerate(self._calls):
            if (call["service"], call["operation"]) == (service, operation):
                if call["answer"] is None:
                    break
                del self._calls[at]
                return dict(call["answer"])
        raise _CallNotNoted


def _physical_id(
    kind: ResourceType, context: Context, properties: Properties, begun: CreationNotes
) -> str:
    def raise_found(physical_id: str) -> None:
        raise _PhysicalIdFound(physical_id)

    if begun.calls:
        noted = replace(
            _repeat_names(context, begun), control=_NotedCalls(begun), note_made=raise_found
        )
        try:
            return kind.create(noted, dict(properties)).physical_id
        except _PhysicalIdFound as known:
            return str(known.args[0])
        except _CallNotNoted:
            there = kind.made and kind.made(_repeat_names(context, begun), properties)
            if there:
                return there  # pyrefly: ignore[bad-return]
    # If no answer contains the id, it is the name; or nothing reads it, as for a policy inside a role.
    return kind.name_of(properties) or next(iter(begun.names), "") or context.generate_name(64)


def _repeat_names(context: Context, begun: CreationNotes) -> Context:
    names = iter(begun.names)

    def again(make: Callable[[], str]) -> str:
        return next(names, None) or make()

    return replace(context, made_up=again)


# The final status of an operation that fails in a way that no rollback handles.
_GIVEN_UP = {
    "CREATE_IN_PROGRESS": "CREATE_FAILED",
    "ROLLBACK_IN_PROGRESS": "ROLLBACK_FAILED",
    "DELETE_IN_PROGRESS": "DELETE_FAILED",
    "UPDATE_IN_PROGRESS": "UPDATE_FAILED",
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_IN_PROGRESS": "UPDATE_ROLLBACK_FAILED",
    "IMPORT_IN_PROGRESS": "IMPORT_ROLLBACK_FAILED",
    "IMPORT_ROLLBACK_IN_PROGRESS": "IMPORT_ROLLBACK_FAILED",
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": "UPDATE_ROLLBACK_COMPLETE",
}
# The next phase of an operation; None: the operation is done.
Next = Callable[[], None] | None
# The first phase of an operation: a method of its `Deployment`.
Work = Callable[["Deployment"], None]


def fail_creation(stacks: Stacks, stack: Stack, failure: str) -> Work | None:
    """Set the status of a stack whose creation failed; return what is done then, None when its settings keep it."""
    if stack.disable_rollback or stack.on_failure == "DO_NOTHING":
        stacks.set_status(stack, "CREATE_FAILED", failure)
        return None
    if stack.on_failure == "DELETE":
        stacks.set_status(stack, "DELETE_IN_PROGRESS", failure)
        return Deployment.delete
    stacks.set_status(stack, "ROLLBACK_IN_PROGRESS", f"{failure} Rollback requested by user.")
    return Deployment.roll_back_creation


class Deployment:
    """A worker that carries out one operation on one stack, and then is done.

    Any thread may call `cancel`, `time_out` and `check_triggers`; only the worker's own thread calls the other
    methods.

    Attributes:
        stack: the stack that it works on.
        done: set when the operation has ended.
    """

    def __init__(
        self, stacks: Stacks, lookups: Lookups, ports: Ports, stack: Stack, work: Work
    ) -> None:
        self.name = f"stack {stack.name}"
        self.stack = stack
        self.done = threading.Event()
        self._work = work
        self._stacks = stacks
        self._clock = ports.clock
        self._states = ResourceStates(stacks, ports, stack)
        self._removal = Removal(self._states)
        self._lookups = lookups
        self._triggers = RollbackTriggers(ports, stack)
        self._interrupted = False
        # Why another thread made the operation fail; empty while none did.
        self._ended_by = ""

    def step(self) -> float:
        """Run the operation to its end; see `Worker.step`."""
        try:
            self._work(self)
        except CloudStopped as stopped:
            raise WorkerDone from stopped
        except Exception as error:  # noqa: BLE001
            # Whatever the error, the stack must not stay in progress for ever.
            self._give_up(error)
        finally:
            self.done.set()
        raise WorkerDone

    @functools.cached_property
    def _resources(self) -> Provisioner:
        # Built on first use: deletions and most rollbacks do not need it.
        return Provisioner(self._states, self._removal, self._lookups)

    def time_out(self) -> None:
        """End a creation that is still in progress, because its timeout has passed."""
        with self._stacks.lock:
            if self.stack.status == "CREATE_IN_PROGRESS":
                self._ended_by = "Stack creation time exceeded the specified timeout."  # observed
                self._states.stop.set()

    def check_triggers(self) -> None:
        """End a creation or update that is still in progress when an alarm of its rollback triggers is in ALARM."""
        breach = self._triggers.breach()
        with self._stacks.lock:
            if breach and self.stack.status in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"):
                self._ended_by = breach
                self._states.stop.set()

    def resume(self, work: Work) -> None:
        """Resume after a kill: find the resource that was being created, and then do `work`."""
        find_interrupted(self._states)
        work(self)

    def cancel(self) -> None:
        """Stop the current phase; the next one follows the status that the caller has set under the stacks' lock."""
        self._interrupted = True
        self._states.stop.set()

    def _go_on(self, decide: Callable[[], Next], interrupted: Next) -> None:
        """Run the next phase: what `decide`, which sets the status, returns; after `cancel`, `interrupted`."""
        with self._stacks.lock:
            was_interrupted, self._interrupted = self._interrupted, False
            following = interrupted if was_interrupted else decide()
            self._states.stop = threading.Event()
        if following is not None:
            following()

    # --- creating -----------------------------------------------------------------------------

    def create(self) -> None:
        """Create every resource; after a failure delete or keep them, as the stack's settings say."""
        failure = self._apply_watched()
        # Only DeleteStack interrupts a creation or its rollback.
        self._go_on(lambda: self._after_creation(failure), self.delete)

    def _after_creation(self, failure: str | None) -> Next:
        stack = self.stack
        if failure is None:
            self._stacks.set_status(stack, "CREATE_COMPLETE")
            return None
        work = fail_creation(self._stacks, stack, failure)
        return None if work is None else functools.partial(work, self)

    def roll_back_creation(self) -> None:
        """Delete the resources that a failed creation created."""
        left = self._removal.delete_all(rolling_back=True)

        def end() -> Next:
            status = "ROLLBACK_FAILED" if left else "ROLLBACK_COMPLETE"
            self.stack.deleted_ms = self._clock.now_ms()  # recorded for both statuses
            if not left:
                self.stack.change_set_id = ""
                # The stack no longer exports or imports anything.
                self.stack.outputs, self.stack.imports = [], []
            self._stacks.set_status(self.stack, status, left)
            return None

        self._go_on(end, self.delete)

    # --- updating -----------------------------------------------------------------------------

    def update(self) -> None:
        """Create new resources, update those that differ, then delete those left over; after a failure undo it all."""
        failure = self._apply_watched()
        # Only CancelUpdateStack interrupts an update.
        self._go_on(lambda: self._after_update(failure), self.roll_back_update)

    def _after_update(self, failure: str | None) -> Next:
        stack = self.stack
        if failure is None:
            self._resources.retire_removed(parse(stack.body))
            self._stacks.set_status(stack, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", whole=True)
            return lambda: self.clean_up("UPDATE_COMPLETE")
        if stack.disable_rollback:
            self._stacks.set_status(stack, "UPDATE_FAILED", failure)
            return None
        self._stacks.set_status(stack, "UPDATE_ROLLBACK_IN_PROGRESS", failure)
        return self.roll_back_update

    def roll_back_update(self) -> None:
        """Restore every resource to its state before the update, except those to skip."""
        stack = self.stack
        previous = stack.previous or {}
        before = {name: Resource(**value) for name, value in previous.get("resources", {}).items()}
        failed: list[str] = []
        depends_on = {name: set(r.depends_on) for name, r in stack.resources.items()}
        order = in_order(depends_on)
        for logical_id in reversed([*order, *(set(depends_on) - set(order))]):
            if logical_id in before and logical_id in previous.get("skip", []):
                stack.resources[logical_id] = before[logical_id]
                continue
            now = stack.resources[logical_id]
            try:
                self._removal.restore(logical_id, before.get(logical_id))
            except Exception as error:  # noqa: BLE001 - whatever the error, the other resources are restored
                failed.append(logical_id)
                self._states.fail(now, "UPDATE", error)
            else:
                self._stacks.save(
                    stack, *(r for r in [stack.resources.get(logical_id)] if r is not None)
                )
        # Dependents first: the clean-up deletes from the end of the list.
        positions = {name: number for number, name in enumerate(order)}
        stack.obsolete.sort(key=lambda resource: positions.get(resource.logical_id, 0))
        stack.resources = {**before, **stack.resources}
        self._go_back(previous)
        if failed:
            reason = f"The following resource(s) failed to update: [{', '.join(sorted(failed))}]. "
            self._stacks.set_status(stack, "UPDATE_ROLLBACK_FAILED", reason, whole=True)
            return
        give_back(stack.resources, previous.get("deployed", {}))
        self._stacks.set_status(stack, "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", whole=True)
        self.clean_up("UPDATE_ROLLBACK_COMPLETE")

    def _go_back(self, previous: dict[str, Any]) -> None:
        """Restore the template and settings that the stack had before an operation."""
        stack = self.stack
        for name in ("body", "description", "parameters", "tags", "capabilities", "outputs"):
            setattr(stack, name, previous[name])
        stack.original_body = previous.get("original_body", "")
        stack.imports = previous["imports"]

    def clean_up(self, status: str) -> None:
        """Delete the resources that an update replaced or removed; resources that fail to delete stay, as on AWS."""
        self._removal.clean_up()
        self.stack.previous = None
        self._stacks.set_status(self.stack, status, whole=True)

    # --- importing ----------------------------------------------------------------------------

    def import_resources(self) -> None:
        """Import the operation's resources; after a failure release them all."""
        failure = self._apply()
        if failure is None:
            self.stack.previous = None
            self._stacks.set_status(self.stack, "IMPORT_COMPLETE", whole=True)
            return
        self._stacks.set_status(self.stack, "IMPORT_ROLLBACK_IN_PROGRESS", failure)
        self.release_imports()

    def release_imports(self) -> None:
        """Remove the imported resources from the stack without changing them."""
        stack = self.stack
        for name in stack.importing:
            resource = stack.resources.pop(name, None)
            if resource is not None:
                self._states.event(resource, "IMPORT_ROLLBACK_COMPLETE")
        if stack.previous is not None:
            self._go_back(stack.previous)
            stack.previous = None
        self._stacks.set_status(stack, "IMPORT_ROLLBACK_COMPLETE", whole=True)

    # --- deleting -----------------------------------------------------------------------------

    def delete(self) -> None:
        """Delete every resource, dependents first, and those that an unfinished update left over."""
        stack = self.stack
        left = self._removal.delete_all()
        stack.deleted_ms = self._clock.now_ms()
        if left and stack.force_delete:
            self._removal.leave_behind()
        elif left:
            self._stacks.set_status(stack, "DELETE_FAILED", left)
            return
        self._removal.clean_up()
        stack.previous = None
        for change_set in self._stacks.change_sets(stack.stack_id):
            if not change_set.is_executed:
                self._stacks.delete_change_set(change_set)
        self._stacks.set_status(stack, "DELETE_COMPLETE", whole=True)

    # --- ending -------------------------------------------------------------------------------

    def _give_up(self, error: Exception) -> None:
        """End an operation that cannot continue, in a status from which the user can delete the stack."""
        status = _GIVEN_UP.get(self.stack.status)
        log_defect(f"stack {self.stack.name}", error)
        if status is None:
            return
        try:
            self._stacks.set_status(self.stack, status, reason_of(error))
        except Exception:
            # The disk may be full: the stack is shown as failed now, and the next start resumes the operation.
            log.exception("the failure of stack %s could not be stored", self.stack.name)
            self.stack.status, self.stack.reason = status, reason_of(error)

    def _apply_watched(self) -> str | None:
        """Apply the stack's template under its rollback triggers; return the reason of a failure, or None."""
        try:
            if not self.stack.rollback_configuration:
                failure = self._apply()
            else:
                failure = self._triggers.breach() or self._apply()
                failure = failure or self._triggers.monitor(self._states.stop)
        except Exception as error:  # noqa: BLE001 - whatever the error, the operation is rolled back
            log_defect(f"stack {self.stack.name}", error)
            failure = reason_of(error)
        return failure and (self._ended_by or failure)

    def _apply(self) -> str | None:
        """Apply the stack's template; return the reason of a failure, or None. Raises CloudStopped only."""
        try:
            return self._resources.apply(parse(self.stack.body))
        except Exception as error:  # noqa: BLE001 - whatever the error, the operation is rolled back
            log_defect(f"stack {self.stack.name}", error)
            return reason_of(error)
