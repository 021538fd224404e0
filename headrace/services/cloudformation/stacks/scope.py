"""Resolves the names in a template: parameters, resources, exports of other stacks, dynamic references."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import partition_of, url_suffix_of
from headrace.core.ports import ControlPlane
from headrace.services.cloudformation.errors import (
    NoSuchAttribute,
    ResourceFailed,
    TemplateError,
)
from headrace.services.cloudformation.stacks.exports import Exports
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.template import graph
from headrace.services.cloudformation.template.intrinsics import Scope, build_unresolved_error
from headrace.services.cloudformation.template.references import conditions_in
from headrace.services.cloudformation.template.template import Template
from headrace.services.cloudformation.template.values import NO_VALUE, UNKNOWN, Allowance


@dataclass(frozen=True, slots=True)
class Lookups:
    """Reads values from outside a template: from other stacks, SSM and Secrets Manager."""

    exports: Exports
    control: ControlPlane

    def dynamic(self, stack: Stack, service: str, key: str) -> str:
        """Return the value of a dynamic reference. Raises ResourceFailed."""
        where: dict[str, Any] = {
            "account": stack.account,
            "region": stack.region,
            "acting": stack.acting,
        }
        try:
            if service in ("ssm", "ssm-secure"):
                answer = self.control.call(
                    "ssm", "GetParameter", {"Name": key, "WithDecryption": True}, **where
                )
                return str(answer["Parameter"]["Value"])
            name, _, rest = key.partition(":SecretString")
            answer = self.control.call(
                "secretsmanager", "GetSecretValue", {"SecretId": name}, **where
            )
            field = rest.strip(":").split(":")[0]
            text = str(answer["SecretString"])
            return str(json.loads(text)[field]) if field else text
        except (AwsError, KeyError, ValueError) as error:
            raise ResourceFailed(
                f"Could not resolve {{{{resolve:{service}:{key}}}}}: {error}"
            ) from error

    def ssm_parameter(self, stack: Stack, name: str) -> str:
        """Return the value of a parameter of an SSM type. Raises TemplateError."""
        try:
            answer = self.control.call(
                "ssm", "GetParameter", {"Name": name}, account=stack.account, region=stack.region
            )
        except AwsError as error:
            raise TemplateError(
                f"Unable to fetch parameters [{name}] from parameter store for this account."
            ) from error
        return str(answer["Parameter"]["Value"])


def pseudo_parameters(stack: Stack) -> dict[str, Any]:
    """Return the values of AWS::Region and the other pseudo parameters."""
    return {
        "AWS::AccountId": stack.account,
        "AWS::NotificationARNs": stack.notification_arns,
        "AWS::NoValue": NO_VALUE,
        "AWS::Partition": partition_of(stack.region),
        "AWS::Region": stack.region,
        "AWS::StackId": stack.stack_id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": url_suffix_of(stack.region),
    }


def scope_of(
    lookups: Lookups,
    stack: Stack,
    template: Template,
    parameters: Mapping[str, Any],
    resources: Mapping[str, Resource],
    *,
    later: Callable[[str], bool] = lambda _: False,
    skipped: Callable[[str], bool] = lambda _: False,
    imported: Callable[[str], Any] | None = None,
    decided: dict[str, bool] | None = None,
) -> Scope:
    """Return the scope in which `template`'s values are evaluated.

    `parameters` are effective values by name; `resources` are the stack's existing ones; `later` says whether a
    resource's values are only known after the template is applied, for change sets; `skipped` whether its condition is
    false; `imported` replaces `Exports.read`, which also notes that the stack uses the export; `decided` are conditions
    whose values are known.
    """
    names: dict[str, Any] = {**pseudo_parameters(stack), **parameters}
    for logical_id in template.resources:
        if skipped(logical_id):
            continue
        if later(logical_id):
            names[logical_id] = UNKNOWN
        elif logical_id in resources:
            names[logical_id] = resources[logical_id].physical_id

    def attribute(logical_id: str, name: str) -> Any:
        if skipped(logical_id):
            raise build_unresolved_error(logical_id)
        if later(logical_id):
            return UNKNOWN
        resource = resources.get(logical_id)
        if resource is None:
            raise TemplateError(
                f"Template error: instance of Fn::GetAtt references undefined resource {logical_id}"
            )
        if name in resource.attributes:
            return resource.attributes[name]
        # A property is an attribute too (recorded: an SNS topic's DisplayName).
        for source in (resource.attributes, resource.properties):
            value = _at_path(source, name)
            if value is not None:
                return value
        raise NoSuchAttribute(resource.type, logical_id, name)

    return Scope(
        names=names,
        attribute=attribute,
        imported=imported or (lambda name: lookups.exports.read(stack, name)),
        dynamic=lambda service, key: lookups.dynamic(stack, service, key),
        conditions=template.conditions,
        mappings=template.mappings,
        decided={} if decided is None else decided,
    )


def _at_path(value: Any, path: str) -> Any:
    """Return the member at a path such as `Endpoint.Address`; None when it is missing."""
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(part)
    return value


def decide(template: Template, scope: Scope) -> None:
    """Evaluate every condition, each after those that it refers to. Raises TemplateError."""
    conditions = template.conditions.items()
    for name in graph.in_order({name: set(conditions_in(value)) for name, value in conditions}):
        scope.condition(name)
    scope.allowance = Allowance()
