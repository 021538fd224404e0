"""Making, changing and deleting the resources of one stack.

Every step is stored before the next begins, so that a restarted cloud can roll back from where the killed one stopped.
A resource with which anything goes wrong ends in a FAILED state with the reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.services.cloudformation import graph, limits
from headrace.services.cloudformation.errors import (
    Cancelled,
    ResourceFailed,
    TemplateError,
    log_defect,
    reason_of,
)
from headrace.services.cloudformation.existing import already_exists, means_existing
from headrace.services.cloudformation.intrinsics import Scope, evaluate, size_of
from headrace.services.cloudformation.parallel import run_in_order
from headrace.services.cloudformation.parameters import effective_values
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.references import dependencies
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    ResourceType,
    changed_properties,
)
from headrace.services.cloudformation.scope import Lookups, decide, scope_of
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template import Template

RETAINING = ("Retain", "RetainExceptOnCreate", "Snapshot")


def check_operation_size(size_bytes: int) -> None:
    """Raise TemplateError when the properties of an operation's resources are too large together."""
    if size_bytes > limits.OPERATION_BYTES:
        raise TemplateError(
            f"Template error: the properties of all resources have more than {limits.OPERATION_BYTES:,} bytes, which"
            " headrace does not store"
        )


@dataclass(slots=True)
class Provisioner:
    """The resources of one stack, for one operation. One thread calls the public methods.

    A few threads of its own work on resources that do not depend on each other.

    Attributes:
        stop: set by any thread: nothing more is begun, and resources that wait for an answer are given up. A new event
            lets the work go on.
    """

    _stacks: Stacks
    _lookups: Lookups
    _ports: Ports
    _stack: Stack
    stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _size_bytes: int = 0
    _decided: dict[str, bool] = field(default_factory=dict[str, bool])

    # --- making and changing ------------------------------------------------------------------

    def apply(self, template: Template) -> str | None:
        """Create or update every resource of `template`; return why it failed, or None. Raises CloudStopped."""
        scope = self._scope(template)
        decide(template, scope)
        self._decided = scope.decided
        wanted = self._wanted(template)
        depends_on = {
            name: dependencies(template, name) & wanted
            for name in template.resources
            if name in wanted
        }
        failed = run_in_order(
            depends_on,
            lambda name: self._apply_one(template, name, depends_on[name]),
            stop=self.stop,
            keep_going=False,
            pool=self._ports.executor(),
        )
        if failed:
            shown = ", ".join(name for name, error in failed.items() if not _is_cancelled(error))
            return f"The following resource(s) failed to create: [{shown or ', '.join(failed)}]."
        if self.stop.is_set():
            return "The operation was cancelled."
        try:
            self._stack.outputs = self._outputs(template)
        except (TemplateError, ResourceFailed) as error:
            return str(error)
        self._save()
        return None

    def _wanted(self, template: Template) -> set[str]:
        scope = self._scope(template)
        return {
            name
            for name, resource in template.resources.items()
            if "Condition" not in resource or scope.condition(resource["Condition"])
        }

    def _apply_one(self, template: Template, logical_id: str, depends_on: set[str]) -> None:
        definition = template.resources[logical_id]
        present = self._stack.resources.get(logical_id)
        wanted = self._defined(logical_id, definition, depends_on)
        try:
            kind = self.type(wanted.type)
            properties = evaluate(definition.get("Properties", {}), self._scope(template))
            kind.check(logical_id, properties)
            with self._lock:
                self._size_bytes += size_of(properties)
                check_operation_size(self._size_bytes)
        except Exception as error:
            verb = "UPDATE" if present else "CREATE"
            self.fail(present or wanted, verb, error)
            raise
        wanted.properties = properties
        if present is None or not present.physical_id:
            self._create(wanted, kind)
            return
        if present.status == "CREATE_FAILED":
            self._make_again(present, wanted, kind)
            return
        if present.type != kind.name:
            self._replace(present, wanted, kind)
            return
        changed = changed_properties(present.properties, wanted.properties)
        if not changed:
            self._keep(present, wanted)
        elif any(kind.replaces(name) for name in changed):
            self._replace(present, wanted, kind)
        else:
            self._update(present, wanted, kind)

    def _create(self, resource: Resource, kind: ResourceType) -> None:
        self._set_status(resource, "CREATE_IN_PROGRESS")
        try:
            made = self._make(resource, kind)
        except Exception as error:
            self.fail(resource, "CREATE", error)
            raise
        self._made(resource, made, "CREATE_COMPLETE")

    def _make_again(self, half_made: Resource, wanted: Resource, kind: ResourceType) -> None:
        """Make a resource again that a creation which was not rolled back left half made."""
        try:
            self.delete_one(half_made)
        except Exception as error:
            self.fail(half_made, "CREATE", error)
            raise
        wanted.updated_ms = self._ports.clock.now_ms()
        self._create(wanted, kind)

    def _make(
        self, resource: Resource, kind: ResourceType, keep: Callable[[], None] | None = None
    ) -> Made:
        """Create a resource that does not exist yet; `resource` has its physical id as soon as it has one.

        `keep` stores the id; without it the resource is stored as the stack's own.
        """
        if kind.find is not None:
            found = kind.find(self.context(resource.logical_id), resource.properties)
            if found:
                raise self._already_exists(kind, found)

        def note(physical_id: str) -> None:
            resource.physical_id = physical_id
            with self._lock:
                if keep is None:
                    self._stacks.save_resource(self._stack, resource)
                else:
                    keep()

        try:
            return kind.create(self.context(resource.logical_id, note), resource.properties)
        except Exception as error:
            name = kind.name_of(resource.properties)
            if not resource.physical_id and name and means_existing(error):
                raise self._already_exists(kind, name) from error
            raise

    def _already_exists(self, kind: ResourceType, identifier: str) -> ResourceFailed:
        return already_exists(self._stacks, self._ports.ids, self._stack, kind.name, identifier)

    def _update(self, present: Resource, wanted: Resource, kind: ResourceType) -> None:
        assert kind.update is not None
        resource = replace(present, updated_ms=self._ports.clock.now_ms())
        self._set_status(resource, "UPDATE_IN_PROGRESS")
        try:
            made = kind.update(
                self.context(resource.logical_id),
                resource.physical_id,
                present.properties,
                wanted.properties,
            )
        except Exception as error:
            resource.properties = wanted.properties
            self.fail(resource, "UPDATE", error)
            raise
        if made.physical_id != present.physical_id:
            with self._lock:
                # A custom resource may answer with another id: the clean-up deletes the old one.
                self._stack.obsolete.append(present)
        _redefine(resource, wanted)
        resource.properties = wanted.properties
        self._made(resource, made, "UPDATE_COMPLETE")

    def _replace(self, present: Resource, resource: Resource, kind: ResourceType) -> None:
        reason = (
            "Requested update requires the creation of a new physical resource; hence creating one."
        )
        self.event(present, "UPDATE_IN_PROGRESS", reason)
        # Listed for deletion as soon as it exists, even if the rest of its creation fails.
        half_made = replace(resource, deletion_policy="Delete")

        def keep() -> None:
            half_made.physical_id = resource.physical_id
            self._stack.obsolete.append(half_made)
            self._save()

        try:
            made = self._make(resource, kind, keep)
        except Exception as error:
            self.fail(present, "UPDATE", error)
            raise
        retired = replace(present)
        if present.replace_policy in RETAINING:
            retired.deletion_policy = "Retain"
        else:
            retired.deletion_policy = "Delete"
        with self._lock:
            self._stack.obsolete = [r for r in self._stack.obsolete if r is not half_made]
            self._stack.obsolete.append(retired)
        self._made(resource, made, "UPDATE_COMPLETE")

    def _keep(self, present: Resource, wanted: Resource) -> None:
        with self._lock:
            _redefine(present, wanted)
            self._stacks.save_resource(self._stack, present)

    def retire_removed(self, template: Template) -> None:
        """Move the resources that `template` no longer has to `obsolete`; the caller stores the stack."""
        wanted = self._wanted(template)
        stack = self._stack
        for name in [name for name in stack.resources if name not in wanted]:
            stack.obsolete.append(stack.resources.pop(name))
        # Dependents first: the clean-up begins at the end.
        order = {name: place for place, name in enumerate((stack.previous or {}).get("order", []))}
        stack.obsolete.sort(key=lambda resource: order.get(resource.logical_id, 0))

    # --- rolling back -------------------------------------------------------------------------

    def restore(self, logical_id: str, old: Resource | None) -> None:
        """Bring one resource back to `old`, its state before an update; None: it did not exist. Raises."""
        stack = self._stack
        now = stack.resources[logical_id]
        if old is None:
            stack.obsolete.append(stack.resources.pop(logical_id))
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
            kind = self.type(now.type)
            self.event(now, "UPDATE_IN_PROGRESS")
            if kind.update is not None and now.properties != old.properties:
                context = self.context(logical_id)
                kind.update(context, old.physical_id, now.properties, old.properties)
            stack.resources[logical_id] = old
            self.event(old, "UPDATE_COMPLETE")
        else:
            stack.resources[logical_id] = old

    # --- deleting -----------------------------------------------------------------------------

    def delete_all(self, *, rolling_back: bool = False) -> str:
        """Delete the stack's resources, dependents first; return why some are left, or an empty text."""
        resources = self._stack.resources
        depends_on = {name: set(resource.depends_on) for name, resource in resources.items()}
        run_in_order(
            graph.reverse(depends_on),
            lambda name: self._delete(resources[name], rolling_back=rolling_back),
            stop=self.stop,
            keep_going=True,
            pool=self._ports.executor(),
        )
        left = [name for name, r in resources.items() if r.status == "DELETE_FAILED"]
        if not left:
            return ""
        return f"The following resource(s) failed to delete: [{', '.join(sorted(left))}]. "

    def _delete(self, resource: Resource, *, rolling_back: bool) -> None:
        if resource.status == "DELETE_COMPLETE":
            return
        policy = resource.deletion_policy
        if policy in ("Retain", "Snapshot") or (
            policy == "RetainExceptOnCreate" and not rolling_back
        ):
            self._set_status(resource, "DELETE_SKIPPED")
            return
        try:
            self.delete_one(resource)
        except Exception as error:
            self.fail(resource, "DELETE", error)
            raise
        self._set_status(resource, "DELETE_COMPLETE")

    def clean_up(self) -> None:
        """Delete the resources that an update replaced or removed; failures leave them, as on AWS."""
        stack = self._stack
        while stack.obsolete:
            resource = stack.obsolete[-1]
            if resource.deletion_policy in RETAINING:
                self.event(resource, "DELETE_SKIPPED")
            else:
                try:
                    self.delete_one(resource)
                    self.event(resource, "DELETE_COMPLETE")
                except Exception as error:  # noqa: BLE001 - whatever it is, the clean-up goes on
                    log_defect(f"resource {resource.logical_id}", error)
                    self.event(resource, "DELETE_FAILED", reason_of(error))
            stack.obsolete.pop()
            self._save()

    def delete_one(self, resource: Resource) -> None:
        """Delete a resource, if it was made. Raises."""
        self.event(resource, "DELETE_IN_PROGRESS")
        if resource.physical_id:
            kind = self.type(resource.type)
            kind.delete(
                self.context(resource.logical_id), resource.physical_id, resource.properties
            )

    # --- bookkeeping --------------------------------------------------------------------------

    def type(self, name: str) -> ResourceType:
        """Return a resource type. Raises ResourceFailed."""
        kind = resource_type(name)
        if kind is None:
            raise ResourceFailed(f"Resource type {name} is not supported by headrace")
        return kind

    def _scope(self, template: Template) -> Scope:
        values = effective_values(self._stack.parameters)
        with self._lock:
            resources = dict(self._stack.resources)
        return scope_of(
            self._lookups, self._stack, template, values, resources, decided=dict(self._decided)
        )

    def context(
        self, logical_id: str, note_made: Callable[[str], None] = lambda _: None
    ) -> Context:
        """Return what a resource type may use to make a resource; see `Context` for `note_made`."""
        return Context(
            control=self._ports.control,
            clock=self._ports.clock,
            ids=self._ports.ids,
            account=self._stack.account,
            region=self._stack.region,
            stack_name=self._stack.name,
            stack_id=self._stack.stack_id,
            logical_id=logical_id,
            tags=self._stack.tags,
            endpoint_url=self._ports.endpoint_url(),
            responses=self._ports.responses,
            functions=self._ports.functions,
            stop=self.stop,
            note_made=note_made,
        )

    def _outputs(self, template: Template) -> list[dict[str, str]]:
        scope = self._scope(template)
        outputs: list[dict[str, str]] = []
        for name, output in template.outputs.items():
            if "Condition" in output and not scope.condition(output["Condition"]):
                continue
            entry = {"OutputKey": name, "OutputValue": str(evaluate(output["Value"], scope))}
            if output.get("Description"):
                entry["Description"] = str(output["Description"])
            if output.get("Export"):
                entry["ExportName"] = str(evaluate(output["Export"]["Name"], scope))
            outputs.append(entry)
        self._lookups.exports.check(self._stack, outputs)
        return outputs

    def _defined(
        self, logical_id: str, definition: Mapping[str, Any], depends_on: set[str]
    ) -> Resource:
        """Return a resource as its template defines it, without properties."""
        return Resource(
            logical_id,
            definition["Type"],
            "",
            depends_on=sorted(depends_on),
            deletion_policy=str(definition.get("DeletionPolicy", "Delete")),
            replace_policy=str(definition.get("UpdateReplacePolicy", "Delete")),
            definition={
                key: value
                for key, value in definition.items()
                if key not in ("Properties", "DependsOn")
            },
            updated_ms=self._ports.clock.now_ms(),
        )

    def _set_status(
        self, resource: Resource, status: str, reason: str = "", *, with_stack: bool = False
    ) -> None:
        """Store a resource's new status, with its stack's own record when `with_stack`, and then its event."""
        with self._lock:
            resource.status = status
            self._stack.resources[resource.logical_id] = resource
            if with_stack:
                self._stacks.save(self._stack, resource)
            else:
                self._stacks.save_resource(self._stack, resource)
        self.event(resource, status, reason)

    def _made(self, resource: Resource, made: Made, status: str) -> None:
        resource.physical_id = made.physical_id
        resource.attributes = made.attributes
        resource.updated_ms = self._ports.clock.now_ms()
        # With the resource that it replaces, in one go: a kill between the two would lose one of them.
        self._set_status(resource, status, with_stack=True)

    def fail(self, resource: Resource, verb: str, error: BaseException) -> None:
        """Store that `verb` failed for a resource, and the event of it."""
        log_defect(f"resource {resource.logical_id}", error)
        if _is_cancelled(error):
            resource.reason = f"Resource {'update' if verb == 'UPDATE' else 'creation'} cancelled"
        else:
            resource.reason = reason_of(error)
        self._set_status(resource, f"{verb}_FAILED", resource.reason)

    def event(self, resource: Resource, status: str, reason: str = "") -> None:
        """Store an event of a resource."""
        self._stacks.add_event(
            self._stack,
            logical_id=resource.logical_id,
            physical_id=resource.physical_id,
            kind=resource.type,
            status=status,
            reason=reason,
            properties=resource.properties,
        )

    def _save(self) -> None:
        with self._lock:
            self._stacks.save(self._stack)


def _redefine(resource: Resource, wanted: Resource) -> None:
    """Give a resource all of its new definition but the properties."""
    resource.depends_on = wanted.depends_on
    resource.deletion_policy = wanted.deletion_policy
    resource.replace_policy = wanted.replace_policy
    resource.definition = wanted.definition


def _is_cancelled(error: BaseException) -> bool:
    return isinstance(error, Cancelled)
