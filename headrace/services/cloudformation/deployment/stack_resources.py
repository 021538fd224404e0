"""Creates and updates the resources of one stack.

Every step is stored before the next begins, so that a restarted cloud can roll back from where the killed one stopped.
A resource that fails ends in a FAILED status with the reason.

Decides which resources an update may change, replace or delete under the stack policy. Pure functions.

Documented: .../UserGuide/protect-stack-resources.html. The sentences of denials were observed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from headrace.core.patterns import glob_matches
from headrace.services.cloudformation.changes import imports, stack_tags
from headrace.services.cloudformation.deployment.alias_deployments import AliasDeployment
from headrace.services.cloudformation.deployment.parallel_runs import run_in_order
from headrace.services.cloudformation.deployment.resource_removal import Removal
from headrace.services.cloudformation.deployment.resource_states import (
    INITIATED,
    EvaluatedResource,
    ResourceStates,
    create,
    evaluate_resource,
    make,
    outline,
)
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.resources.base import ResourceResult, list_changed_properties
from headrace.services.cloudformation.resources.schemas import convert_to_texts
from headrace.services.cloudformation.state import Resource
from headrace.services.cloudformation.template.functions import OperationSize
from headrace.services.cloudformation.template.intrinsics import Scope
from headrace.services.cloudformation.template.parameters import effective_values
from headrace.services.cloudformation.template.scope import (
    Lookups,
    decide,
    evaluate_outputs,
    scope_of,
)
from headrace.services.cloudformation.template.template import Template, dependencies


def denial(policy: str, action: str, logical_id: str, kind: str) -> str:
    """Return why a policy denies an update action on a resource; an empty text: it is allowed.

    Args:
        policy: as `policy_of` returned it; an empty text allows everything.
        action: such as `Update:Replace`.
        logical_id: the resource's.
        kind: the resource's type.
    """
    if not policy:
        return ""
    statements: list[dict[str, Any]] = json.loads(policy).get("Statement", [])
    resource = f"LogicalResourceId/{logical_id}"
    allowed = False
    for number, statement in enumerate(statements, 1):
        if not (
            _is_meant(statement, "Action", action)
            and _is_meant(statement, "Resource", resource)
            and _holds(statement.get("Condition") or {}, kind)
        ):
            continue
        if statement["Effect"] == "Deny":
            named = _texts(statement.get("Resource", statement.get("NotResource")))
            return (
                f"Action denied by stack policy: Statement [#{number}] does not allow [{action}] for resource"
                f" [{', '.join(named)}];"
            )
        allowed = True
    # A stack policy denies every update that no statement allows (documented).
    return "" if allowed else "Action not allowed by stack policy"


def _texts(value: Any) -> list[str]:
    return [str(item) for item in cast("list[Any]", value if isinstance(value, list) else [value])]


def _is_meant(statement: Mapping[str, Any], member: str, value: str) -> bool:
    """Whether a statement's Action or Resource, or NotAction or NotResource, applies to a value."""
    if f"Not{member}" in statement:
        return not any(glob_matches(text, value) for text in _texts(statement[f"Not{member}"]))
    return any(glob_matches(text, value) for text in _texts(statement.get(member, [])))


def _holds(condition: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition on the resource's type is true; any other condition is false."""
    for operator, keys in condition.items():
        for key, values in cast("Mapping[str, Any]", keys).items():
            expected = _texts(values)
            matches = operator == "StringLike" and any(
                glob_matches(text, kind) for text in expected
            )
            equals = operator == "StringEquals" and kind in expected
            if key != "ResourceType" or not (matches or equals):
                return False
    return True


# Imports one existing resource into a stack, unchanged.


def import_resource(states: ResourceStates, resource: Resource) -> None:
    """Import the existing resource that the operation names for this logical id. Raises ResourceFailed, AwsError."""
    identifier = states.stack.importing[resource.logical_id]
    resource.physical_id, resource.imported = identifier, True
    states.set_status(resource, "IMPORT_IN_PROGRESS", "Resource import started.")
    try:
        context = states.context(resource)
        result = imports.adopt(context, resource.type, identifier, resource.properties)
    except Exception as error:
        states.fail(resource, "IMPORT", error)
        raise
    states.store_result(resource, result, "IMPORT_COMPLETE", "Resource import completed.")
    if stack_tags.follows(resource.type):
        _tag(states, resource)


def _tag(states: ResourceStates, resource: Resource) -> None:
    """Put the stack's tags on an imported resource."""
    reason = "Apply stack-level tags to imported resource if applicable."
    states.set_status(resource, "UPDATE_IN_PROGRESS", reason)
    try:
        system = stack_tags.system_tags(states.stack, resource)
        tags = {**states.stack.tags, **system}
        stack_tags.retag(states.ports, states.stack, resource, {}, tags)
    except Exception as error:
        states.fail(resource, "UPDATE", error)
        raise
    states.set_status(resource, "UPDATE_COMPLETE")


class Provisioner:
    """Creates and updates the resources of one stack, for one operation. One thread calls the public methods.

    Its own threads work on resources that do not depend on each other.
    """

    def __init__(self, states: ResourceStates, removal: Removal, lookups: Lookups) -> None:
        self._states = states
        self._removal = removal
        self._lookups = lookups
        self._stack = states.stack
        self._size = OperationSize()
        self._decided: dict[str, bool] = {}

    # --- creating and updating ----------------------------------------------------------------

    def apply(self, template: Template) -> str | None:
        """Create or update every resource of `template`; return the reason of a failure, or None. Raises CloudStopped.

        The caller stores the stack, which has the new outputs, together with its next status.
        """
        scope = self._scope(template)
        decide(template, scope)
        self._decided = scope.decided
        enabled = self._list_enabled(template)
        kept = self._check_removals(enabled)
        if kept:
            return f"The following resource(s) failed to update: [{', '.join(kept)}]."
        scope = self._scope(template)
        if missing := self._lookups.exports.missing(self._stack, template, enabled, scope):
            return missing
        depends_on = {
            name: dependencies(template, name) & enabled
            for name in template.resources
            if name in enabled
        }
        failed = run_in_order(
            depends_on,
            lambda name: self._apply_one(template, name, depends_on[name]),
            stop=self._states.stop,
            keep_going=False,
            executor=self._states.ports.executor,
        )
        if failed:
            return self._states.describe_failures(failed)
        if self._states.stop.is_set():
            return "The operation was cancelled."
        try:
            outputs = evaluate_outputs(template, self._scope(template))
            self._lookups.exports.check(self._stack, outputs)
            self._stack.outputs = outputs
        except (TemplateError, ResourceFailed) as error:
            return str(error)
        return None

    def _list_enabled(self, template: Template) -> set[str]:
        scope = self._scope(template)
        return {
            name
            for name, resource in template.resources.items()
            if "Condition" not in resource or scope.condition(resource["Condition"])
        }

    def _apply_one(self, template: Template, logical_id: str, depends_on: set[str]) -> None:
        definition = template.resources[logical_id]
        present = self._stack.resources.get(logical_id)
        target = outline(logical_id, definition, depends_on, self._states.ports.clock.now_ms())
        try:
            defined = evaluate_resource(target, definition, lambda: self._scope(template))
            with self._states.lock:
                self._size.add(target.properties)
        except Exception as error:
            verb = "UPDATE" if present else "CREATE"
            self._states.fail(present or target, verb, error)
            raise
        if present is None or not present.physical_id:
            if logical_id in self._stack.importing:
                import_resource(self._states, target)
            else:
                create(self._states, defined)
            return
        kind = defined.kind
        if present.status == "CREATE_FAILED":
            self._make_again(present, defined)
            return
        if present.type != kind.name:
            self._check_policy(present, "Update:Replace")
            self._replace(present, defined)
            return
        changed = list_changed_properties(present.properties, target.properties)
        retagged = stack_tags.follows(kind.name) and stack_tags.differ(
            self._stack, self._stack.tags
        )
        if changed and kind.fixed:
            # Observed; the user guide says "Updates are not supported" of each property.
            refusal = ResourceFailed(f"Update to resource type {kind.name} is not supported.")
            self._states.fail(present, "UPDATE", refusal)
            raise refusal
        replaced = False
        if changed or retagged:
            replaced = kind.is_replaced(changed, present.properties, target.properties)
            self._check_policy(present, "Update:Replace" if replaced else "Update:Modify")
        if not changed and not retagged:
            self._keep(present, target)
        elif replaced:
            self._replace(present, defined)
        else:
            self._update(present, defined)

    def _check_policy(self, present: Resource, action: str) -> None:
        """Raise ResourceFailed when the stack's policy denies the update's action on a resource."""
        policy = self._stack.enforced_policy
        reason = denial(policy, action, present.logical_id, present.type)
        if reason:
            refusal = ResourceFailed(reason)
            self._states.fail(present, "UPDATE", refusal)
            raise refusal

    def _check_removals(self, enabled: set[str]) -> list[str]:
        """Return the resources that the update would remove and the stack's policy protects."""
        kept: list[str] = []
        for name, resource in list(self._stack.resources.items()):
            if name not in enabled:
                try:
                    self._check_policy(resource, "Update:Delete")
                except ResourceFailed:
                    kept.append(name)
        return kept

    def _make_again(self, half_made: Resource, defined: EvaluatedResource) -> None:
        """Create a resource again that a failed creation, not rolled back, left incomplete."""
        try:
            self._removal.delete_one(half_made)
        except Exception as error:
            self._states.fail(half_made, "CREATE", error)
            raise
        defined.resource.updated_ms = self._states.ports.clock.now_ms()
        create(self._states, defined)

    def _update(self, present: Resource, defined: EvaluatedResource) -> None:
        target, kind = defined.resource, defined.kind
        assert kind.update is not None
        now_ms = self._states.ports.clock.now_ms()
        # The new properties are stored before the update: after a kill, a rollback restores what was begun.
        resource = replace(present, updated_ms=now_ms, properties=target.properties)
        self._states.set_status(resource, "UPDATE_IN_PROGRESS")
        try:
            result = ResourceResult(present.physical_id, present.attributes)
            if present.properties != target.properties:
                policy = defined.deployment
                change = AliasDeployment(policy, kind.update).update if policy else kind.update
                result = change(
                    self._states.context(resource),
                    resource.physical_id,
                    convert_to_texts(kind.name, present.properties),
                    defined.arguments,
                )
            if stack_tags.follows(kind.name):
                self._retag(present, target)
        except Exception as error:
            self._states.fail(resource, "UPDATE", error)
            raise
        _redefine(resource, target)
        # A custom resource may answer with another id: the clean-up deletes the resource with the old id.
        retired = present if result.physical_id != present.physical_id else None
        self._states.store_update(resource, result, retired=retired)

    def _retag(self, present: Resource, target: Resource) -> None:
        stack = self._stack
        before = stack.tags if stack.previous is None else stack.previous["tags"]
        stack_tags.retag(
            self._states.ports,
            stack,
            present,
            stack_tags.all_tags(present.properties, before),
            stack_tags.all_tags(target.properties, stack.tags),
        )

    def _replace(self, present: Resource, defined: EvaluatedResource) -> None:
        resource = defined.resource
        reason = (
            "Requested update requires the creation of a new physical resource; hence creating one."
        )
        shown = replace(present, properties=resource.properties)
        self._states.event(shown, "UPDATE_IN_PROGRESS", reason)
        # Listed for deletion as soon as it exists, even when its replacement fails later.
        half_made = replace(resource, deletion_policy="Delete")

        def keep() -> None:
            half_made.physical_id = resource.physical_id
            self._states.save()
            self._states.event(resource, "UPDATE_IN_PROGRESS", INITIATED)

        with self._states.lock:
            self._stack.obsolete.append(half_made)
            self._states.save()
        try:
            result = make(self._states, defined, keep)
        except Exception as error:
            if not half_made.physical_id:
                self._drop(half_made)
            self._states.fail(present, "UPDATE", error)
            raise
        retired = replace(present, deletion_policy=present.replace_policy)
        self._states.store_update(resource, result, retired=retired, half_made=half_made)

    def _drop(self, half_made: Resource) -> None:
        """Forget a replacement that was not created."""
        with self._states.lock:
            self._stack.obsolete = [r for r in self._stack.obsolete if r is not half_made]
            self._states.save()

    def _keep(self, present: Resource, target: Resource) -> None:
        with self._states.lock:
            _redefine(present, target)
            self._states.stacks.save_resource(self._stack, present)

    def retire_removed(self, template: Template) -> None:
        """Move the resources that `template` no longer has to `obsolete`; the caller stores the stack."""
        enabled = self._list_enabled(template)
        stack = self._stack
        for name in [name for name in stack.resources if name not in enabled]:
            stack.obsolete.append(stack.resources.pop(name))
        # Dependents first: the clean-up deletes from the end of the list.
        order = {
            name: position for position, name in enumerate((stack.previous or {}).get("order", []))
        }
        stack.obsolete.sort(key=lambda resource: order.get(resource.logical_id, 0))

    # --- bookkeeping --------------------------------------------------------------------------

    def _scope(self, template: Template) -> Scope:
        values = effective_values(self._stack.parameters)
        with self._states.lock:
            resources = dict(self._stack.resources)
        return scope_of(
            self._lookups, self._stack, template, values, resources, decided=dict(self._decided)
        )


def _redefine(resource: Resource, target: Resource) -> None:
    """Set a resource's new definition, except its properties."""
    resource.depends_on = target.depends_on
    resource.deletion_policy = target.deletion_policy
    resource.replace_policy = target.replace_policy
    resource.definition = target.definition
    resource.metadata = target.metadata
