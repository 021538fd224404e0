"""Finds resources by their tags, and tags resources of any service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.aws.shapes.tagging import FailureInfo, TagFilter
from headrace.core.arn import Arn
from headrace.core.ports import ControlPlane
from headrace.services.tagging.store import KINDS, Kind, RegionServices, TaggedResource


class Tagging:
    """All tagged resources of all services. Thread-safe: it has no state."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def resources(self, call: Call, types: Sequence[str] = ()) -> list[TaggedResource]:
        """Return the tagged resources of the call's account and region, of these types or of all, sorted by ARN."""
        scope = self._place(call)
        tagged = [
            resource
            for kind in KINDS.values()
            if not types or any(_may_have(kind, type_name) for type_name in types)
            for resource in kind.found(scope)
            if resource.tags and (not types or any(_is(resource, type_name) for type_name in types))
        ]
        return sorted(tagged, key=lambda resource: resource.arn)

    def change(
        self, call: Call, arns: Sequence[str], change: Callable[[Kind, RegionServices, str], Any]
    ) -> dict[str, FailureInfo]:
        """Change each resource's tags; return the FailedResourcesMap."""
        scope = self._place(call)
        failed: dict[str, FailureInfo] = {}
        for arn in arns:
            try:
                change(_kind_of(arn), scope, arn)
            except AwsError as error:
                failed[arn] = {
                    "StatusCode": error.status,
                    "ErrorCode": "InvalidParameterException"
                    if error.status < 500
                    else "InternalServiceException",
                    "ErrorMessage": error.message,
                }
        return failed

    def _place(self, call: Call) -> RegionServices:
        return RegionServices(self._control, call.account, call.region)


def _kind_of(arn: str) -> Kind:
    try:
        kind = KINDS.get(Arn.parse(arn).service)
    except ValueError:
        kind = None
    if kind is None:
        raise AwsError(
            "InvalidParameterException", f"{arn} is no ARN of a resource that can be tagged here."
        )
    return kind


def _may_have(kind: Kind, type_filter: str) -> bool:
    return type_filter.partition(":")[0] == kind.service


def _is(resource: TaggedResource, type_filter: str) -> bool:
    """Return whether a resource has a type such as `s3` or `kinesis:stream`."""
    service, _, wanted_type = type_filter.partition(":")
    arn = Arn.parse(resource.arn)
    if arn.service != service:
        return False
    if not wanted_type or wanted_type.strip("/") == KINDS[service].type:
        return True
    return arn.resource.lstrip("/").startswith((f"{wanted_type}/", f"{wanted_type}:"))


def matching(resource: TaggedResource, filters: Sequence[TagFilter]) -> bool:
    """Return whether a resource has a tag for each filter: the key, and one of the values if the filter has any."""
    for tag_filter in filters:
        key, values = tag_filter.get("Key"), tag_filter.get("Values")
        if key is None:
            continue
        if key not in resource.tags or (values and resource.tags[key] not in values):
            return False
    return True
