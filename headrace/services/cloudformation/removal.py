"""Deleting the resources of one stack, and bringing them back to what they were before an update."""

from __future__ import annotations

from headrace.services.cloudformation import graph, stack_tags
from headrace.services.cloudformation.errors import log_defect, reason_of
from headrace.services.cloudformation.parallel import run_in_order
from headrace.services.cloudformation.resource_states import ResourceStates, type_of
from headrace.services.cloudformation.state import Resource

RETAINING = ("Retain", "RetainExceptOnCreate", "Snapshot")


class Removal:
    """Deletions and restorations of one operation. One thread calls the methods.

    A few threads of its own work on resources that do not depend on each other.
    """

    def __init__(self, states: ResourceStates) -> None:
        self._states = states
        self._stack = states.stack

    def restore(self, logical_id: str, old: Resource | None) -> None:
        """Bring one resource back to `old`, its state before an update; None: it did not exist. Raises."""
        stack = self._stack
        now = stack.resources[logical_id]
        if old is None:
            added = stack.resources.pop(logical_id)
            if added.imported:
                added.deletion_policy = "Retain"
            elif self._is_undone(added):
                added.deletion_policy = "Delete"
            stack.obsolete.append(added)
        elif now.physical_id and now.physical_id != old.physical_id:
            # It was replaced: the old one still exists, and the new one is deleted.
            stack.obsolete = [r for r in stack.obsolete if r.physical_id != old.physical_id]
            stack.obsolete.append(now)
            stack.resources[logical_id] = old
        elif now.updated_ms != old.updated_ms and now.status in (
            "UPDATE_COMPLETE",
            "UPDATE_FAILED",
            "UPDATE_IN_PROGRESS",
        ):
            kind = type_of(now.type)
            self._states.event(now, "UPDATE_IN_PROGRESS")
            if kind.update is not None and now.properties != old.properties:
                context = self._states.context(logical_id)
                kind.update(context, old.physical_id, now.properties, old.properties)
            if stack_tags.follows(now.type):
                stack_tags.retag(
                    self._states.ports,
                    stack,
                    old,
                    stack_tags.all_tags(now.properties, stack.tags),
                    stack_tags.all_tags(old.properties, (stack.previous or {})["tags"]),
                )
            stack.resources[logical_id] = old
            self._states.event(old, "UPDATE_COMPLETE")
        else:
            stack.resources[logical_id] = old

    def _is_undone(self, resource: Resource) -> bool:
        """Whether the rollback of an operation that made a resource deletes it, whatever it retains otherwise."""
        policy = resource.deletion_policy
        return policy == "RetainExceptOnCreate" or (
            self._stack.retain_except_on_create and policy == "Retain"
        )

    def leave_behind(self) -> None:
        """Give up the resources that cannot be deleted."""
        for resource in self._stack.resources.values():
            if resource.status == "DELETE_FAILED":
                self._states.set_status(resource, "DELETE_SKIPPED")

    def delete_all(self, *, rolling_back: bool = False) -> str:
        """Delete the stack's resources, dependents first; return why some are left, or an empty text."""
        resources = self._stack.resources
        depends_on = {name: set(resource.depends_on) for name, resource in resources.items()}
        run_in_order(
            graph.reverse(depends_on),
            lambda name: self._delete(resources[name], rolling_back=rolling_back),
            stop=self._states.stop,
            keep_going=True,
            pool=self._states.ports.executor(),
        )
        left = [name for name, r in resources.items() if r.status == "DELETE_FAILED"]
        if not left:
            return ""
        return f"The following resource(s) failed to delete: [{', '.join(sorted(left))}]. "

    def _delete(self, resource: Resource, *, rolling_back: bool) -> None:
        if resource.status == "DELETE_COMPLETE":
            return
        policy = resource.deletion_policy
        undone = rolling_back and self._is_undone(resource)
        if (policy in RETAINING and not undone) or (rolling_back and resource.imported):
            self._states.set_status(resource, "DELETE_SKIPPED")
            return
        self._states.set_status(resource, "DELETE_IN_PROGRESS")
        try:
            self.delete_one(resource)
        except Exception as error:
            self._states.fail(resource, "DELETE", error)
            raise
        self._states.set_status(resource, "DELETE_COMPLETE")

    def clean_up(self) -> None:
        """Delete the resources that an update replaced or removed; failures leave them, as on AWS."""
        stack = self._stack
        while stack.obsolete:
            resource = stack.obsolete[-1]
            if resource.deletion_policy in RETAINING:
                self._states.event(resource, "DELETE_SKIPPED", cleaning_up=True)
            else:
                self._states.event(resource, "DELETE_IN_PROGRESS", cleaning_up=True)
                try:
                    self.delete_one(resource)
                    self._states.event(resource, "DELETE_COMPLETE", cleaning_up=True)
                except Exception as error:  # noqa: BLE001 - whatever it is, the clean-up goes on
                    log_defect(f"resource {resource.logical_id}", error)
                    reason = reason_of(error)
                    self._states.event(resource, "DELETE_FAILED", reason, cleaning_up=True)
            stack.obsolete.pop()
            self._states.save()

    def delete_one(self, resource: Resource) -> None:
        """Delete a resource, if it was made. Raises."""
        if resource.physical_id:
            kind = type_of(resource.type)
            kind.delete(
                self._states.context(resource.logical_id), resource.physical_id, resource.properties
            )
