"""Carrying a stack operation out: create, update, delete, and the way back when one fails.

One `Deployment` works on one stack on one thread, with a few more for resources that do not wait for each
other. The stack is stored after every step, so that a restarted cloud can take the way back from where the
killed one stood.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.aws.errors import AwsError
from headrace.services.cloudformation import graph
from headrace.services.cloudformation.changes import changed_properties
from headrace.services.cloudformation.custom_responses import CloudStopped
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.intrinsics import Scope, evaluate
from headrace.services.cloudformation.resources.base import Context, Made, ResourceType
from headrace.services.cloudformation.scope import scope_of
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.template import Template, dependencies, parse

if TYPE_CHECKING:
    from headrace.services.cloudformation.service import CloudFormation

log = logging.getLogger(__name__)

AT_ONCE = 4
STACK_TYPE = "AWS::CloudFormation::Stack"
CANCELLED = "Resource creation cancelled"
RETAINING = ("Retain", "RetainExceptOnCreate", "Snapshot")


class Deployment:
    """One operation on one stack. Used by one thread; its own pool calls `_create` and `_update` only."""

    def __init__(self, cfn: CloudFormation, stack: Stack) -> None:
        self._cfn = cfn
        self._stack = stack
        self._lock = threading.RLock()

    # --- operations ---------------------------------------------------------------------------

    def create(self) -> None:
        """Make every resource; on failure delete them again, or leave them, as the stack says."""
        stack = self._stack
        failure = self._apply(parse(stack.body))
        if failure is None:
            self._finish("CREATE_COMPLETE")
        elif stack.disable_rollback or stack.on_failure == "DO_NOTHING":
            self._finish("CREATE_FAILED", failure)
        elif stack.on_failure == "DELETE":
            self._set_status("DELETE_IN_PROGRESS", failure)
            self.delete()
        else:
            self._set_status("ROLLBACK_IN_PROGRESS", f"{failure} Rollback requested by user.")
            self.roll_back_creation()

    def roll_back_creation(self) -> None:
        """Delete what a failed creation made."""
        left = self._delete_all(self._stack.resources, rolling_back=True)
        self._finish("ROLLBACK_FAILED" if left else "ROLLBACK_COMPLETE", left)

    def update(self) -> None:
        """Make what is new, change what differs, then delete what is left over; or undo it all."""
        stack = self._stack
        failure = self._apply(parse(stack.body))
        if failure is not None:
            if stack.disable_rollback:
                self._finish("UPDATE_FAILED", failure)
                return
            self._set_status("UPDATE_ROLLBACK_IN_PROGRESS", failure)
            self.roll_back_update()
            return
        self._retire_removed(parse(stack.body))
        self._set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        self.clean_up("UPDATE_COMPLETE")

    def roll_back_update(self) -> None:
        """Bring every resource back to what it was before the update."""
        stack = self._stack
        previous = stack.previous or {}
        before = {name: Resource(**value) for name, value in previous["resources"].items()}
        left = ""
        for logical_id in reversed(list(stack.resources)):
            now = stack.resources[logical_id]
            old = before.get(logical_id)
            try:
                self._restore(logical_id, now, old)
            except (AwsError, ResourceFailed, TemplateError) as error:
                left = _reason(error)
                self._event(now, "UPDATE_FAILED", left)
        stack.resources = {
            name: resource
            for name, resource in ({**before, **stack.resources}).items()
            if name in before
        }
        for name in ("body", "description", "parameters", "tags", "capabilities", "outputs"):
            setattr(stack, name, previous[name])
        stack.imports = previous["imports"]
        self._save()
        if left:
            self._finish("UPDATE_ROLLBACK_FAILED", left)
            return
        self._set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        self.clean_up("UPDATE_ROLLBACK_COMPLETE")

    def _restore(self, logical_id: str, now: Resource, old: Resource | None) -> None:
        stack = self._stack
        if old is None:
            stack.obsolete.append(now)
        elif now.physical_id and now.physical_id != old.physical_id:
            # It was replaced: the old one still stands, the new one goes.
            stack.obsolete = [r for r in stack.obsolete if r.physical_id != old.physical_id]
            stack.obsolete.append(now)
            stack.resources[logical_id] = old
        elif now.status in ("UPDATE_COMPLETE", "UPDATE_FAILED", "UPDATE_IN_PROGRESS") and (
            now.updated_ms != old.updated_ms
        ):
            kind = self._type(now.type)
            self._event(now, "UPDATE_IN_PROGRESS")
            if kind.update is not None and now.properties != old.properties:
                context = self._context(logical_id)
                kind.update(context, old.physical_id, now.properties, old.properties)
            stack.resources[logical_id] = old
            self._event(old, "UPDATE_COMPLETE")
        else:
            stack.resources[logical_id] = old
        self._save()

    def clean_up(self, status: str) -> None:
        """Delete the resources that an update replaced or removed; failures leave them, as on AWS."""
        stack = self._stack
        while stack.obsolete:
            resource = stack.obsolete[-1]
            if resource.deletion_policy not in RETAINING:
                try:
                    self._delete_one(resource)
                except (AwsError, ResourceFailed) as error:
                    self._event(resource, "DELETE_FAILED", _reason(error))
            else:
                self._event(resource, "DELETE_SKIPPED")
            stack.obsolete.pop()
            self._save()
        stack.previous = None
        self._finish(status)

    def delete(self) -> None:
        """Delete every resource, dependents first."""
        stack = self._stack
        left = self._delete_all(stack.resources)
        if left:
            self._finish("DELETE_FAILED", left)
            return
        stack.deleted_ms = self._cfn.clock.now_ms()
        stack.outputs = []
        for change_set in self._cfn.stacks.change_sets(stack.stack_id):
            self._cfn.stacks.delete_change_set(change_set)
        self._finish("DELETE_COMPLETE")

    # --- making and changing ------------------------------------------------------------------

    def _apply(self, template: Template) -> str | None:
        """Create or update every resource of `template`; return why it failed, or None."""
        wanted = self._wanted(template)
        needs = {name: dependencies(template, name) & set(wanted) for name in wanted}
        failure = self._in_order(needs, lambda name: self._apply_one(template, name, needs[name]))
        if failure is not None:
            return failure
        try:
            self._stack.outputs = self._outputs(template)
        except (TemplateError, ResourceFailed) as error:
            return str(error)
        self._save()
        return None

    def _wanted(self, template: Template) -> dict[str, Any]:
        scope = self._scope(template)
        return {
            name: resource
            for name, resource in template.resources.items()
            if "Condition" not in resource or scope.condition(resource["Condition"])
        }

    def _in_order(self, needs: Mapping[str, set[str]], work: Callable[[str], None]) -> str | None:
        """Run `work` on each node after those it needs, some at once; return why it stopped."""
        left = {name: set(nodes) for name, nodes in needs.items()}
        running: dict[Future[None], str] = {}
        failed: list[str] = []
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="cfn") as pool:
            while left or running:
                ready = [name for name, nodes in left.items() if not nodes] if not failed else []
                for name in ready:
                    del left[name]
                    running[pool.submit(work, name)] = name
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    error = future.exception()
                    if isinstance(error, CloudStopped):
                        raise error
                    if error is None:
                        for nodes in left.values():
                            nodes.discard(name)
                        continue
                    if not isinstance(error, AwsError | ResourceFailed | TemplateError):
                        log.error("resource %s failed", name, exc_info=error)
                    failed.append(name)
        if not failed:
            return None
        return f"The following resource(s) failed to create: [{', '.join(failed)}]."

    def _apply_one(self, template: Template, logical_id: str, needs: set[str]) -> None:
        definition = template.resources[logical_id]
        kind = self._type(definition["Type"])
        present = self._stack.resources.get(logical_id)
        try:
            properties = evaluate(definition.get("Properties", {}), self._scope(template))
            kind.check(logical_id, properties)
        except (TemplateError, ResourceFailed) as error:
            verb = "UPDATE" if present else "CREATE"
            self._fail(present or self._blank(logical_id, definition, needs), verb, error)
            raise
        if present is None or not present.physical_id:
            self._create(logical_id, definition, kind, properties, needs)
            return
        if present.type != kind.name:
            self._replace(present, definition, kind, properties, needs)
            return
        changed = changed_properties(present.properties, properties)
        if not changed:
            self._keep(present, definition, needs)
        elif any(kind.replaces(name) for name in changed):
            self._replace(present, definition, kind, properties, needs)
        else:
            self._update(present, definition, kind, properties, needs)

    def _create(
        self,
        logical_id: str,
        definition: Mapping[str, Any],
        kind: ResourceType,
        properties: dict[str, Any],
        needs: set[str],
    ) -> None:
        resource = self._blank(logical_id, definition, needs)
        resource.properties = properties
        self._put(resource, "CREATE_IN_PROGRESS")
        try:
            made = kind.create(self._context(logical_id), properties)
        except Exception as error:
            self._fail(resource, "CREATE", error)
            raise
        self._made(resource, made, "CREATE_COMPLETE")

    def _update(
        self,
        present: Resource,
        definition: Mapping[str, Any],
        kind: ResourceType,
        properties: dict[str, Any],
        needs: set[str],
    ) -> None:
        assert kind.update is not None
        resource = replace(present, updated_ms=self._cfn.clock.now_ms())
        self._put(resource, "UPDATE_IN_PROGRESS")
        try:
            made = kind.update(
                self._context(resource.logical_id),
                resource.physical_id,
                present.properties,
                properties,
            )
        except Exception as error:
            resource.properties = properties
            self._fail(resource, "UPDATE", error)
            raise
        if made.physical_id != present.physical_id:
            with self._lock:
                # A custom resource may answer with another id: the old one is deleted in the clean-up.
                self._stack.obsolete.append(present)
        _redefine(resource, definition, needs)
        resource.properties = properties
        self._made(resource, made, "UPDATE_COMPLETE")

    def _replace(
        self,
        present: Resource,
        definition: Mapping[str, Any],
        kind: ResourceType,
        properties: dict[str, Any],
        needs: set[str],
    ) -> None:
        reason = (
            "Requested update requires the creation of a new physical resource; hence creating one."
        )
        resource = self._blank(present.logical_id, definition, needs)
        resource.properties = properties
        self._event(present, "UPDATE_IN_PROGRESS", reason)
        try:
            made = kind.create(self._context(resource.logical_id), properties)
        except Exception as error:
            self._event(present, "UPDATE_FAILED", _reason(error))
            raise
        retired = replace(present)
        if present.replace_policy in RETAINING:
            retired.deletion_policy = "Retain"
        else:
            retired.deletion_policy = "Delete"
        with self._lock:
            self._stack.obsolete.append(retired)
        self._made(resource, made, "UPDATE_COMPLETE")

    def _keep(self, present: Resource, definition: Mapping[str, Any], needs: set[str]) -> None:
        with self._lock:
            _redefine(present, definition, needs)
            self._save()

    def _retire_removed(self, template: Template) -> None:
        wanted = self._wanted(template)
        stack = self._stack
        for name in [name for name in stack.resources if name not in wanted]:
            stack.obsolete.append(stack.resources.pop(name))
        # Dependents first: the clean-up takes from the end.
        order = {name: place for place, name in enumerate((stack.previous or {}).get("order", []))}
        stack.obsolete.sort(key=lambda resource: order.get(resource.logical_id, 0))

    # --- deleting -----------------------------------------------------------------------------

    def _delete_all(self, resources: Mapping[str, Resource], *, rolling_back: bool = False) -> str:
        """Delete resources, dependents first; return why some are left, or nothing."""
        needs = {name: set(resource.depends_on) for name, resource in resources.items()}

        def work(name: str) -> None:
            resource = resources[name]
            if resource.status == "DELETE_COMPLETE":
                return
            policy = resource.deletion_policy
            retain = policy in ("Retain", "Snapshot") or (
                policy == "RetainExceptOnCreate" and not rolling_back
            )
            if retain:
                with self._lock:
                    resource.status = "DELETE_SKIPPED"
                self._event(resource, "DELETE_SKIPPED")
                return
            try:
                self._delete_one(resource)
            except Exception as error:
                self._fail(resource, "DELETE", error)
                raise

        failure = self._in_order(graph.reverse(needs), work)
        if failure is None:
            return ""
        left = [name for name, r in resources.items() if r.status == "DELETE_FAILED"]
        return f"The following resource(s) failed to delete: [{', '.join(sorted(left))}]. "

    def _delete_one(self, resource: Resource) -> None:
        self._event(resource, "DELETE_IN_PROGRESS")
        if resource.physical_id:
            kind = self._type(resource.type)
            kind.delete(
                self._context(resource.logical_id), resource.physical_id, resource.properties
            )
        with self._lock:
            resource.status = "DELETE_COMPLETE"
            self._save()
        self._event(resource, "DELETE_COMPLETE")

    # --- bookkeeping --------------------------------------------------------------------------

    def _type(self, name: str) -> ResourceType:
        kind = self._cfn.resource_type(name)
        if kind is None:
            raise ResourceFailed(f"Resource type {name} is not supported by headrace")
        return kind

    def _scope(self, template: Template) -> Scope:
        values = {
            name: self._cfn.effective_parameter(value)
            for name, value in self._stack.parameters.items()
        }
        with self._lock:
            resources = dict(self._stack.resources)
        return scope_of(self._cfn, self._stack, template, values, resources)

    def _context(self, logical_id: str) -> Context:
        return self._cfn.context(self._stack, logical_id)

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
        self._cfn.check_exports(self._stack, outputs)
        return outputs

    def _blank(self, logical_id: str, definition: Mapping[str, Any], needs: set[str]) -> Resource:
        resource = Resource(logical_id, definition["Type"], "")
        _redefine(resource, definition, needs)
        resource.updated_ms = self._cfn.clock.now_ms()
        return resource

    def _put(self, resource: Resource, status: str) -> None:
        with self._lock:
            resource.status = status
            self._stack.resources[resource.logical_id] = resource
            self._save()
        self._event(resource, status)

    def _made(self, resource: Resource, made: Made, status: str) -> None:
        resource.physical_id = made.physical_id
        resource.attributes = made.attributes
        resource.updated_ms = self._cfn.clock.now_ms()
        self._put(resource, status)

    def _fail(self, resource: Resource, verb: str, error: BaseException) -> None:
        resource.reason = _reason(error)
        with self._lock:
            resource.status = f"{verb}_FAILED"
            self._stack.resources[resource.logical_id] = resource
            self._save()
        self._event(resource, resource.status, resource.reason)

    def _event(self, resource: Resource, status: str, reason: str = "") -> None:
        self._cfn.add_event(
            self._stack,
            logical_id=resource.logical_id,
            physical_id=resource.physical_id,
            kind=resource.type,
            status=status,
            reason=reason,
            properties=resource.properties,
        )

    def _set_status(self, status: str, reason: str = "") -> None:
        self._cfn.set_status(self._stack, status, reason)

    def _finish(self, status: str, reason: str = "") -> None:
        self._cfn.set_status(self._stack, status, reason)

    def _save(self) -> None:
        with self._lock:
            self._cfn.stacks.save(self._stack)


def _redefine(resource: Resource, definition: Mapping[str, Any], needs: set[str]) -> None:
    resource.depends_on = sorted(needs)
    resource.deletion_policy = str(definition.get("DeletionPolicy", "Delete"))
    resource.replace_policy = str(definition.get("UpdateReplacePolicy", "Delete"))
    resource.definition = {
        key: value for key, value in definition.items() if key not in ("Properties", "DependsOn")
    }


def _reason(error: BaseException) -> str:
    if isinstance(error, AwsError):
        return f"{error.message} (Service: {error.code}, Status Code: {error.status})"
    if isinstance(error, ResourceFailed | TemplateError):
        return str(error)
    return f"Internal failure of headrace: {type(error).__name__}: {error}"
