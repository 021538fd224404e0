"""Gives Cloud Control the resource types: creates, changes and deletes single resources outside of stacks.

Implements `headrace.core.resource_types.ResourceTypes`. A change that would replace the resource is refused, as on AWS.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.resource_types import (
    KnownResource,
    ResourceCancelled,
    ResourcePlace,
    ResourceRefused,
)
from headrace.services.cloudformation.changes import stack_tags
from headrace.services.cloudformation.changes.imports import means_existing
from headrace.services.cloudformation.errors import (
    Cancelled,
    ResourceFailed,
    log_defect,
    reason_of,
)
from headrace.services.cloudformation.ports import Ports
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import (
    Context,
    ResourceResult,
    ResourceType,
    list_changed_properties,
)
from headrace.services.cloudformation.resources.live_models import (
    is_listed,
    list_live,
    read_model,
    read_tags,
    without_write_only,
)
from headrace.services.cloudformation.store import Stacks

# These exist only in a stack, or have nothing behind them.
_OF_STACKS = (
    *("Custom::", "AWS::CloudFormation::", "AWS::CDK::"),
    *("AWS::SNS::TopicPolicy", "AWS::SQS::QueuePolicy"),
)
_ARNS = ("Arn", "TopicArn", "StreamARN")
# The prefix of generated names, in place of a stack's name.
_NAME = "cloudcontrol"


class SingleResources:
    """See `headrace.core.resource_types.ResourceTypes`. Thread-safe: it keeps nothing."""

    def __init__(self, stacks: Stacks, ports: Ports) -> None:
        self._stacks = stacks
        self._ports = ports

    def is_known(self, kind: str) -> bool:
        """See `ResourceTypes.is_known`."""
        return resource_type(kind) is not None

    def knows(self, kind: str) -> bool:
        """See `ResourceTypes.knows`."""
        return not kind.startswith(_OF_STACKS) and self.is_known(kind)

    def create(
        self, place: ResourcePlace, kind: str, properties: Mapping[str, Any]
    ) -> KnownResource:
        """See `ResourceTypes.create`."""
        kind_found, context, new = (
            self._type(kind),
            self._context(place, kind),
            dict(properties),
        )
        with _refusals(kind, kind_found.name_of(new)):
            kind_found.check(kind, new)
            existing = kind_found.find(context, new) if kind_found.find is not None else None
            if existing:
                raise _exists(kind, existing)
            return self._build_known_resource(kind_found, kind_found.create(context, new), new)

    def read(
        self, place: ResourcePlace, kind: str, identifier: str, known: KnownResource | None
    ) -> KnownResource | None:
        """See `ResourceTypes.read`."""
        kind_found, context = self._type(kind), self._context(place, kind)
        reading = kind_found.reading
        is_found_by_id = reading is not None and (reading.named or is_listed(kind))
        if known is None and not is_found_by_id:
            return None
        with _refusals(kind, identifier):
            if known is None:
                known = _adopt(kind_found, context, identifier)
            if known is None:
                return None
            model = read_model(kind_found, context, known.identifier, known.properties)
            if model is None:
                return None
            arn = next((known.attributes[n] for n in _ARNS if n in known.attributes), None)
            if "Tags" in kind_found.properties and stack_tags.follows(kind) and arn:
                tags = read_tags(context, str(arn))
                if tags or "Tags" in known.properties:
                    model["Tags"] = tags
            return replace(known, properties=model)

    def readable(self, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """See `ResourceTypes.readable`."""
        return without_write_only(kind, properties)

    def list_identifiers(self, place: ResourcePlace, kind: str) -> list[str]:
        """See `ResourceTypes.list_identifiers`."""
        with _refusals(kind, ""):
            return list_live(self._context(place, kind), kind)

    def update(
        self,
        place: ResourcePlace,
        kind: str,
        before: KnownResource,
        properties: Mapping[str, Any],
    ) -> KnownResource:
        """See `ResourceTypes.update`."""
        kind_found, old, new = self._type(kind), dict(before.properties), dict(properties)
        with _refusals(kind, before.identifier):
            kind_found.check(kind, new)
            changed = list_changed_properties(old, new)
            fixed = [name for name in changed if kind_found.replaces(name)]
            if not fixed and kind_found.is_replaced((), old, new):
                fixed = changed
            if fixed:
                shown = ", ".join(f"/properties/{name}" for name in fixed)
                raise ResourceRefused(
                    "NotUpdatable",
                    f"Invalid patch update: createOnlyProperties [{shown}] cannot be updated",
                )
            result = ResourceResult(before.identifier, dict(before.attributes))
            if changed and kind_found.update is not None:
                result = kind_found.update(self._context(place, kind), before.identifier, old, new)
            return self._build_known_resource(kind_found, result, new)

    def delete(self, place: ResourcePlace, kind: str, resource: KnownResource) -> None:
        """See `ResourceTypes.delete`."""
        with _refusals(kind, resource.identifier):
            properties = dict(resource.properties)
            self._type(kind).delete(self._context(place, kind), resource.identifier, properties)

    def in_stacks(self, account: str, region: str, kind: str) -> list[KnownResource]:
        """See `ResourceTypes.in_stacks`."""
        return [
            KnownResource(
                resource.physical_id, resource.properties, resource.attributes, resource.updated_ms
            )
            for stack, resource in self._stacks.resources_of_type(account, region, kind)
            if stack.exists and resource.physical_id and not resource.status.startswith("DELETE_")
        ]

    def _type(self, kind: str) -> ResourceType:
        known = resource_type(kind)
        if known is None:
            raise ResourceRefused("InvalidRequest", f"The type {kind} is not known")
        return known

    def _build_known_resource(
        self, kind: ResourceType, result: ResourceResult, properties: Mapping[str, Any]
    ) -> KnownResource:
        # A generated name is also a property of the resource.
        name = {kind.named_by[0]: result.physical_id} if len(kind.named_by) == 1 else {}
        shown = name if name and kind.named_by[0] not in properties else {}
        return KnownResource(
            result.physical_id,
            {**properties, **shown},
            result.attributes,
            self._ports.clock.now_ms(),
        )

    def _context(self, place: ResourcePlace, kind: str) -> Context:
        ports = self._ports
        return Context(
            control=ports.control,
            clock=ports.clock,
            ids=ports.ids,
            account=place.account,
            region=place.region,
            stack_name=_NAME,
            stack_id="",
            logical_id=kind.rpartition("::")[2],
            tags={},
            endpoint_url=ports.endpoint_url(),
            responses=ports.responses,
            functions=ports.functions,
            stop=place.stop,
            note_made=place.note_made,
        )


def _adopt(kind: ResourceType, context: Context, identifier: str) -> KnownResource | None:
    """Return a resource that neither a stack nor Cloud Control made; None: it does not exist."""
    assert kind.reading is not None
    name = {kind.named_by[0]: identifier} if len(kind.named_by) == 1 else {}
    result = kind.reading.adopt(context, identifier, name)
    return None if result is None else KnownResource(result.physical_id, {}, result.attributes)


def _exists(kind: str, identifier: str) -> ResourceRefused:
    return ResourceRefused(
        "AlreadyExists", f"Resource of type '{kind}' with identifier '{identifier}' already exists."
    )


@contextlib.contextmanager
def _refusals(kind: str, identifier: str) -> Generator[None]:
    """Convert a resource type's errors to ResourceRefused, with the code for the kind of refusal."""
    try:
        yield
    except Cancelled as error:
        raise ResourceCancelled(str(error)) from error
    except ResourceFailed as error:
        raise ResourceRefused("InvalidRequest", str(error)) from error
    except AwsError as error:
        if means_existing(error):
            raise _exists(kind, identifier) from error
        code = "GeneralServiceException" if error.status >= 500 else "InvalidRequest"
        raise ResourceRefused(code, reason_of(error)) from error
    except ResourceRefused:
        raise
    except Exception as error:
        log_defect(f"{kind} {identifier}", error)
        raise ResourceRefused("InternalFailure", reason_of(error)) from error
