"""Deletes the resources of one stack, and restores them to their state before an update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.values import get_list
from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.deployment.parallel_runs import run_in_order
from headrace.services.cloudformation.deployment.resource_states import ResourceStates, type_of
from headrace.services.cloudformation.errors import log_defect, reason_of
from headrace.services.cloudformation.resources import base
from headrace.services.cloudformation.resources.schemas import convert_to_texts, list_names
from headrace.services.cloudformation.state import RETAINING, Resource
from headrace.services.cloudformation.template.template import reverse_graph

# Statuses in which a resource no longer belongs to its stack.
_GONE = ("DELETE_COMPLETE", "DELETE_SKIPPED", "DELETE_IN_PROGRESS")


class Removal:
    """Deletions and restorations of one operation. One thread calls the methods.

    Its own threads work on resources that do not depend on each other.
    """

    def __init__(self, states: ResourceStates) -> None:
        self._states = states
        self._stack = states.stack

    def restore(self, logical_id: str, old: Resource | None) -> None:
        """Restore one resource to `old`, its state before an update; None: it did not exist. Raises."""
        stack = self._stack
        now = stack.resources[logical_id]
        if old is None:
            added = stack.resources.pop(logical_id)
            if added.imported:
                added.deletion_policy = "Retain"
            elif self._is_undone(added):
                added.deletion_policy = "Delete"
            stack.obsolete.append(added)
        elif now.physical_id and (retired := self._find_retired(now, old)) is not None:
            # The resource was replaced: the old one still exists, and the new one is deleted.
            stack.obsolete = [r for r in stack.obsolete if r is not retired]
            stack.obsolete.append(now)
            stack.resources[logical_id] = old
            self._put_back(old)
        elif now.updated_ms != old.updated_ms and now.status in (
            "UPDATE_COMPLETE",
            "UPDATE_FAILED",
            "UPDATE_IN_PROGRESS",
        ):
            kind = type_of(now.type)
            self._states.event(now, "UPDATE_IN_PROGRESS")
            if kind.update is not None and now.properties != old.properties:
                context = self._states.context(old)
                before, after = (
                    convert_to_texts(kind.name, resource.properties) for resource in (now, old)
                )
                kind.update(context, old.physical_id, before, after)
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

    def _put_back(self, old: Resource) -> None:
        """Create a resource again whose replacement took its name. Raises."""
        kind = type_of(old.type)
        if kind.put_back is not None:
            properties = convert_to_texts(kind.name, old.properties)
            kind.put_back(self._states.context(old), properties)

    def _is_undone(self, resource: Resource) -> bool:
        """Whether rolling back its creation deletes a resource that its policy otherwise retains."""
        policy = resource.deletion_policy
        return policy == "RetainExceptOnCreate" or (
            self._stack.retain_except_on_create and policy == "Retain"
        )

    def leave_behind(self) -> None:
        """Drop the resources that cannot be deleted from the stack."""
        for resource in self._stack.resources.values():
            if resource.status == "DELETE_FAILED":
                self._states.set_status(resource, "DELETE_SKIPPED")

    def _find_retired(self, now: Resource, old: Resource) -> Resource | None:
        """Return the entry of `old` in the stack's list of replaced resources; `now` when it has none."""
        for resource in self._stack.obsolete:
            # Two entries may have one physical id, such as log streams of one name in two groups.
            if (resource.logical_id, resource.type, resource.physical_id, resource.properties) == (
                old.logical_id,
                old.type,
                old.physical_id,
                old.properties,
            ):
                return resource
        return now if now.physical_id != old.physical_id else None

    def delete_all(self, *, rolling_back: bool = False) -> str:
        """Delete the stack's resources, dependents first; return why some remain, or an empty text."""
        resources = self._stack.resources
        depends_on = {name: set(resource.depends_on) for name, resource in resources.items()}
        run_in_order(
            reverse_graph(depends_on),
            lambda name: self._delete(resources[name], rolling_back=rolling_back),
            stop=self._states.stop,
            keep_going=True,
            executor=self._states.ports.executor,
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
        """Delete the resources that an update replaced or removed; resources that fail to delete stay, as on AWS."""
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
                except Exception as error:  # noqa: BLE001 - whatever the error, the clean-up continues
                    log_defect(f"resource {resource.logical_id}", error)
                    reason = reason_of(error)
                    self._states.event(resource, "DELETE_FAILED", reason, cleaning_up=True)
            stack.obsolete.pop()
            self._states.save()

    def delete_one(self, resource: Resource) -> None:
        """Delete a resource if it was created, after a snapshot where its policy says so. Raises."""
        if not resource.physical_id:
            return
        kind = type_of(resource.type)
        properties = convert_to_texts(kind.name, resource.properties)
        others = list(self._others(resource))
        # Custom resources choose their physical ids freely.
        if not kind.any_property and any(_is_the_same(resource, other) for other in others):
            # Another logical id now has this physical resource.
            return
        if kind.shared:
            properties = _remove_shared(kind.shared, properties, others)
        context = self._states.context(resource)
        if resource.deletion_policy == base.SNAPSHOT:
            base.take(context, kind.name, resource.physical_id)
        kind.delete(context, resource.physical_id, properties)

    def _others(self, resource: Resource) -> Iterator[Resource]:
        """Yield the other resources of this type in all stacks, except those being deleted."""
        own = self._stack
        for stack in self._states.stacks.all(own.account, own.region):
            if not stack.exists:
                continue
            for other in list(stack.resources.values()):
                if other.type != resource.type or other.status in _GONE or not other.physical_id:
                    continue
                # A replaced resource is not the one that has its name now.
                if other is not resource:
                    yield other


def _remove_shared(
    shared: tuple[str, ...], properties: dict[str, Any], others: list[Resource]
) -> dict[str, Any]:
    """Return properties without the items that other resources also have; see `ResourceType.shared`."""
    name, *common = shared
    alike = [
        other.properties
        for other in others
        if all(
            other.properties.get(shared_name) == properties.get(shared_name)
            for shared_name in common
        )
    ]
    held = {str(item) for other in alike for item in get_list(other, name)}
    left = [item for item in get_list(properties, name) if str(item) not in held]
    return {**properties, name: left}


def _is_the_same(resource: Resource, other: Resource) -> bool:
    """Whether two resources of one type are the same thing in their service."""
    if resource.physical_id != other.physical_id:
        return False
    named = list_names(resource.type, "identifier")
    return all(resource.properties.get(name) == other.properties.get(name) for name in named)
