"""Types of settings that other resources name by an id, and whose own service nothing here answers.

They exist only as resources of their stack: they have an id and attributes, and no call shows their settings, which
therefore count as ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.arn import make_arn
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    ignored,
    nothing_to_delete,
)

_SETTINGS_ONLY = "headrace keeps it with the stack only: no call shows it, and it has no effect"


def _kind(
    name: str,
    properties: Sequence[str],
    *,
    physical_id: str = "{uuid}",
    attributes: Mapping[str, str],
    fixed: Sequence[str] = (),
) -> ResourceType:
    """Return a type whose id is a form of `uuid`, `name` and the properties; attributes are forms of the id, too."""

    def result(context: Context, identifier: str, values: Properties) -> ResourceResult:
        filled = {
            name: _fill(form, context, values, identifier) for name, form in attributes.items()
        }
        return ResourceResult(identifier, filled)

    def create(context: Context, values: Properties) -> ResourceResult:
        return result(context, _fill(physical_id, context, values), values)

    def update(
        context: Context, identifier: str, old: Properties, new: Properties
    ) -> ResourceResult:
        return result(context, identifier, new)

    return ResourceType(
        name,
        ignored(*properties),
        create,
        nothing_to_delete,
        update=update,
        replace_on=frozenset(fixed),
        remark=lambda values: dict.fromkeys(values, _SETTINGS_ONLY),
    )


def _fill(form: str, context: Context, values: Properties, identifier: str = "") -> str:
    """Return a form with its fields; `SERVICE ...` of a form that begins with `arn ` becomes an ARN."""
    fields: dict[str, Any] = {"id": identifier, "account": context.account}
    if "{uuid}" in form:
        fields["uuid"] = context.ids.uuid()
    if "{name}" in form:
        named = (value for key, value in values.items() if key.endswith("Name"))
        fields["name"] = next(named, None) or context.generate_name(64)
    text = form.format(**fields, **{k: v for k, v in values.items() if k not in fields})
    if not text.startswith("arn "):
        return text
    _, service, resource = text.split(" ")
    return make_arn(service, context.region, context.account, resource)


TYPES = [
    _kind("AWS::CloudFront::CachePolicy", ["CachePolicyConfig"], attributes={"Id": "{id}"}),
    _kind(
        "AWS::CloudFront::OriginRequestPolicy",
        ["OriginRequestPolicyConfig"],
        attributes={"Id": "{id}"},
    ),
    _kind(
        "AWS::CloudFront::ResponseHeadersPolicy",
        ["ResponseHeadersPolicyConfig"],
        attributes={"Id": "{id}"},
    ),
    _kind(
        "AWS::MSK::Configuration",
        ["Name", "KafkaVersionsList", "ServerProperties", "Description", "LatestRevision"],
        physical_id="arn kafka configuration/{Name}/{uuid}",
        attributes={"Arn": "{id}", "LatestRevision.Revision": "1"},
        fixed=["Name", "KafkaVersionsList"],
    ),
    _kind(
        "AWS::EventSchemas::Registry",
        ["RegistryName", "Description", "Tags"],
        physical_id="arn schemas registry/{name}",
        attributes={"RegistryArn": "{id}", "RegistryName": "{name}"},
        fixed=["RegistryName"],
    ),
    _kind(
        "AWS::EventSchemas::Schema",
        ["RegistryName", "SchemaName", "Type", "Content", "Description", "Tags"],
        physical_id="arn schemas schema/{RegistryName}/{uuid}",
        attributes={"SchemaArn": "{id}", "SchemaVersion": "1"},
        fixed=["RegistryName", "SchemaName"],
    ),
    _kind(
        "AWS::XRay::Group",
        ["GroupName", "FilterExpression", "InsightsConfiguration", "Tags"],
        physical_id="arn xray group/{name}/{uuid}",
        attributes={"GroupARN": "{id}"},
    ),
    _kind(
        "AWS::XRay::SamplingRule",
        ["SamplingRule", "SamplingRuleRecord", "SamplingRuleUpdate", "RuleName", "Tags"],
        physical_id="arn xray sampling-rule/{uuid}",
        attributes={"RuleARN": "{id}"},
    ),
    _kind(
        "AWS::IoT::Logging",
        ["AccountId", "DefaultLogLevel", "RoleArn", "EventConfigurations"],
        physical_id="{account}",
        attributes={},
        fixed=["AccountId"],
    ),
]
