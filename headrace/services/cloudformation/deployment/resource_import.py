"""Imports one existing resource into a stack, unchanged."""

from __future__ import annotations

from headrace.services.cloudformation.changes import imports, stack_tags
from headrace.services.cloudformation.deployment.resource_states import ResourceStates
from headrace.services.cloudformation.state import Resource


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
