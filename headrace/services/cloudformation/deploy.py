"""Carrying a stack operation out: create, update, delete, and the way back when one fails.

One `Deployment` works on one stack on one thread. It always ends: what goes wrong on the way forward leads to the way
back, and what goes wrong there ends in AWS's FAILED state with the reason, from which the stack can be deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.services.cloudformation import graph
from headrace.services.cloudformation.errors import log_defect, reason_of
from headrace.services.cloudformation.provision import Provisioner
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.template_checks import parse

if TYPE_CHECKING:
    from headrace.services.cloudformation.service import CloudFormation

log = logging.getLogger(__name__)

STACK_TYPE = "AWS::CloudFormation::Stack"
# Where an operation ends that cannot go on.
_GIVEN_UP = {
    "CREATE_IN_PROGRESS": "CREATE_FAILED",
    "ROLLBACK_IN_PROGRESS": "ROLLBACK_FAILED",
    "DELETE_IN_PROGRESS": "DELETE_FAILED",
    "UPDATE_IN_PROGRESS": "UPDATE_FAILED",
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_IN_PROGRESS": "UPDATE_ROLLBACK_FAILED",
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": "UPDATE_ROLLBACK_COMPLETE",
}
Next = Callable[[], None]


class Deployment:
    """One operation on one stack. `cancel` is called by any thread, the rest by one."""

    def __init__(self, cfn: CloudFormation, stack: Stack) -> None:
        self.stack = stack
        self._cfn = cfn
        self._resources = Provisioner(cfn, stack)
        self._overtaken = False

    def cancel(self) -> None:
        """Turn round: whoever calls it holds the service's lock and has set the status to go on from."""
        self._overtaken = True
        self._resources.cancel()

    def _turn(self, otherwise: Callable[[], Next], turned: Next) -> None:
        """Go on with what `otherwise` decides, which sets the status, unless somebody turned the operation round."""
        with self._cfn.lock:
            overtaken, self._overtaken = self._overtaken, False
            following = turned if overtaken else otherwise()
            self._resources.proceed()
        following()

    # --- creating -----------------------------------------------------------------------------

    def create(self) -> None:
        """Make every resource; on failure delete them again, or leave them, as the stack says."""
        failure = self._apply()
        # Only DeleteStack overtakes a creation, or its way back.
        self._turn(lambda: self._after_creation(failure), self.delete)

    def _after_creation(self, failure: str | None) -> Next:
        stack = self.stack
        if failure is None:
            self._set_status("CREATE_COMPLETE")
            return _done
        if stack.disable_rollback or stack.on_failure == "DO_NOTHING":
            self._set_status("CREATE_FAILED", failure)
            return _done
        if stack.on_failure == "DELETE":
            self._set_status("DELETE_IN_PROGRESS", failure)
            return self.delete
        self._set_status("ROLLBACK_IN_PROGRESS", f"{failure} Rollback requested by user.")
        return self.roll_back_creation

    def roll_back_creation(self) -> None:
        """Delete what a failed creation made."""
        left = self._resources.delete_all(rolling_back=True)

        def end() -> Next:
            self._set_status("ROLLBACK_FAILED" if left else "ROLLBACK_COMPLETE", left)
            return _done

        self._turn(end, self.delete)

    # --- updating -----------------------------------------------------------------------------

    def update(self) -> None:
        """Make what is new, change what differs, then delete what is left over; or undo it all."""
        failure = self._apply()
        # Only CancelUpdateStack overtakes an update.
        self._turn(lambda: self._after_update(failure), self.roll_back_update)

    def _after_update(self, failure: str | None) -> Next:
        stack = self.stack
        if failure is None:
            self._resources.retire_removed(parse(stack.body))
            self._set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", whole=True)
            return lambda: self.clean_up("UPDATE_COMPLETE")
        if stack.disable_rollback:
            self._set_status("UPDATE_FAILED", failure)
            return _done
        self._set_status("UPDATE_ROLLBACK_IN_PROGRESS", failure)
        return self.roll_back_update

    def roll_back_update(self) -> None:
        """Bring every resource back to what it was before the update, but those that are to be skipped."""
        stack = self.stack
        previous = stack.previous or {}
        before = {name: Resource(**value) for name, value in previous.get("resources", {}).items()}
        failed: list[str] = []
        needs = {name: set(r.depends_on) for name, r in stack.resources.items()}
        order = graph.in_order(needs)
        for logical_id in reversed([*order, *(set(needs) - set(order))]):
            if logical_id in before and logical_id in previous.get("skip", []):
                stack.resources[logical_id] = before[logical_id]
                continue
            now = stack.resources[logical_id]
            try:
                self._resources.restore(logical_id, before.get(logical_id))
            except Exception as error:  # noqa: BLE001 - whatever it was, the others are brought back
                failed.append(logical_id)
                self._resources.fail(now, "UPDATE", error)
            else:
                self._cfn.stacks.save(
                    stack, *(r for r in [stack.resources.get(logical_id)] if r is not None)
                )
        stack.resources = {**before, **stack.resources}
        for name in ("body", "description", "parameters", "tags", "capabilities", "outputs"):
            setattr(stack, name, previous[name])
        stack.imports = previous["imports"]
        if failed:
            reason = f"The following resource(s) failed to update: [{', '.join(sorted(failed))}]. "
            self._set_status("UPDATE_ROLLBACK_FAILED", reason, whole=True)
            return
        self._set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", whole=True)
        self.clean_up("UPDATE_ROLLBACK_COMPLETE")

    def clean_up(self, status: str) -> None:
        """Delete the resources that an update replaced or removed; failures leave them, as on AWS."""
        self._resources.clean_up()
        self.stack.previous = None
        self._set_status(status, whole=True)

    # --- deleting -----------------------------------------------------------------------------

    def delete(self) -> None:
        """Delete every resource, dependents first, and what an unfinished update left."""
        stack = self.stack
        left = self._resources.delete_all()
        if left:
            self._set_status("DELETE_FAILED", left)
            return
        self._resources.clean_up()
        stack.deleted_ms = self._cfn.clock.now_ms()
        stack.outputs = []
        stack.previous = None
        for change_set in self._cfn.stacks.change_sets(stack.stack_id):
            self._cfn.stacks.delete_change_set(change_set)
        self._set_status("DELETE_COMPLETE", whole=True)

    # --- ending -------------------------------------------------------------------------------

    def give_up(self, error: Exception) -> None:
        """End the operation, which cannot go on, in a state from which the user can."""
        status = _GIVEN_UP.get(self.stack.status)
        log_defect(f"stack {self.stack.name}", error)
        if status is None:
            return
        try:
            self._set_status(status, reason_of(error))
        except Exception:
            # A full disk, say: the stack is shown as failed now, and taken up again at the next start.
            log.exception("the failure of stack %s could not be stored", self.stack.name)
            self.stack.status, self.stack.reason = status, reason_of(error)

    def _apply(self) -> str | None:
        """Return why the template could not be carried out, or None. Raises CloudStopped only."""
        try:
            return self._resources.apply(parse(self.stack.body))
        except Exception as error:  # noqa: BLE001 - whatever it was, the way back is taken
            log_defect(f"stack {self.stack.name}", error)
            return reason_of(error)

    def _set_status(self, status: str, reason: str = "", *, whole: bool = False) -> None:
        self._cfn.set_status(self.stack, status, reason, whole=whole)


def _done() -> None:
    """Nothing is left to do."""
