"""Evaluates a resource's definition in a template: its properties, metadata, CreationPolicy and UpdatePolicy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.services.cloudformation.deployment.alias_deployments import policy_of
from headrace.services.cloudformation.deployment.resource_states import type_of
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources import snapshots
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.signals import ExpectedSignals, creation_policy
from headrace.services.cloudformation.state import Resource
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate_whole


@dataclass(frozen=True, slots=True)
class EvaluatedResource:
    """A resource as its template defines it.

    Attributes:
        resource: has its properties and metadata, and no physical id.
        kind: its type.
        signals: what its CreationPolicy waits for; None: nothing.
        deployment: how its UpdatePolicy shifts an alias to a new version; None: at once.
    """

    resource: Resource
    kind: ResourceType
    signals: ExpectedSignals | None
    deployment: dict[str, Any] | None


def outline(
    logical_id: str, definition: Mapping[str, Any], depends_on: set[str], now_ms: int
) -> Resource:
    """Return a resource as its template defines it, without the parts that need evaluation."""
    return Resource(
        logical_id,
        definition["Type"],
        "",
        depends_on=sorted(depends_on),
        deletion_policy=str(definition.get("DeletionPolicy", snapshots.default_policy(definition))),
        replace_policy=str(definition.get("UpdateReplacePolicy", "Delete")),
        definition={
            key: value
            for key, value in definition.items()
            if key not in ("Properties", "DependsOn")
        },
        updated_ms=now_ms,
    )


def evaluate_resource(
    resource: Resource, definition: Mapping[str, Any], scope: Callable[[], Scope]
) -> EvaluatedResource:
    """Evaluate a definition, and set the properties and metadata of `resource`, which `outline` returned.

    `scope` returns a new one for each part. Raises TemplateError, ResourceFailed.
    """
    logical_id = resource.logical_id
    kind = type_of(resource.type)
    properties = evaluate_whole(definition.get("Properties", {}), scope())
    if not isinstance(properties, dict):
        raise ResourceFailed(
            f"Template format error: [/Resources/{logical_id}/Properties] must be an object."
        )
    properties = cast("dict[str, Any]", properties)
    resource.properties = properties
    kind.check(logical_id, properties)
    resource.metadata = evaluate_whole(definition.get("Metadata", {}), scope())

    def value_of(value: Any) -> Any:
        return evaluate_whole(value, scope())

    return EvaluatedResource(
        resource, kind, creation_policy(definition, value_of), policy_of(definition, value_of)
    )
