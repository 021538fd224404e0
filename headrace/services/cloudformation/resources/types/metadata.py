"""CDK's metadata, the resource type without API calls."""

from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    nothing_to_delete,
    stored,
)


def _make(context: Context, properties: Properties) -> ResourceResult:
    return ResourceResult(context.generate_name(64))


def _keep(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    return ResourceResult(physical_id)


TYPES = [
    ResourceType("AWS::CDK::Metadata", stored("Analytics"), _make, nothing_to_delete, update=_keep),
]
