"""CDK's metadata, the resource type without API calls."""

from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    nothing_to_delete,
    stored,
)


def _make(context: Context, properties: Properties) -> Made:
    return Made(context.generated_name(64))


def _keep(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    return Made(physical_id)


TYPES = [
    ResourceType("AWS::CDK::Metadata", stored("Analytics"), _make, nothing_to_delete, update=_keep),
]
