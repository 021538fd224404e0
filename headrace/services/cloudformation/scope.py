"""What names stand for in one stack, at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.aws.errors import AwsError
from headrace.services.cloudformation import limits
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.intrinsics import NO_VALUE, UNKNOWN, Scope
from headrace.services.cloudformation.state import Resource, Stack
from headrace.services.cloudformation.template import Template
from headrace.services.cloudformation.template_checks import conditions_in_order

if TYPE_CHECKING:
    from headrace.services.cloudformation.service import CloudFormation


def pseudo_parameters(stack: Stack) -> dict[str, Any]:
    """Return AWS::Region and its kin."""
    return {
        "AWS::AccountId": stack.account,
        "AWS::NotificationARNs": stack.notification_arns,
        "AWS::NoValue": NO_VALUE,
        "AWS::Partition": "aws",
        "AWS::Region": stack.region,
        "AWS::StackId": stack.stack_id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": "amazonaws.com",
    }


def scope_of(
    cfn: CloudFormation,
    stack: Stack,
    template: Template,
    parameters: Mapping[str, Any],
    resources: Mapping[str, Resource],
    *,
    later: Callable[[str], bool] = lambda _: False,
    imported: Callable[[str], Any] | None = None,
    decided: dict[str, bool] | None = None,
) -> Scope:
    """Return the scope in which `template`'s values are evaluated.

    `parameters` are effective values by name; `resources` those that are there; `later` says whether a
    resource will only be known after apply, for change sets; `imported` overrides how exports are read;
    `decided` are conditions whose values are known.
    """
    names: dict[str, Any] = {**pseudo_parameters(stack), **parameters}
    for logical_id in template.resources:
        if later(logical_id):
            names[logical_id] = UNKNOWN
        elif logical_id in resources:
            names[logical_id] = resources[logical_id].physical_id

    def attribute(logical_id: str, name: str) -> Any:
        if later(logical_id):
            return UNKNOWN
        resource = resources.get(logical_id)
        if resource is None:
            raise TemplateError(
                f"Template error: instance of Fn::GetAtt references undefined resource {logical_id}"
            )
        if name in resource.attributes:
            return resource.attributes[name]
        value: Any = resource.attributes
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise ResourceFailed(
                    f"Requested attribute {name} does not exist in schema for {resource.type}"
                )
            value = value[part]  # type: ignore[assignment]
        return value  # type: ignore[return-value]

    return Scope(
        names=names,
        attribute=attribute,
        imported=imported or (lambda name: cfn.read_export(stack, name)),
        dynamic=lambda service, key: read_dynamic(cfn, stack, service, key),
        conditions=template.conditions,
        mappings=template.mappings,
        decided={} if decided is None else decided,
    )


def decide(template: Template, scope: Scope) -> None:
    """Work every condition out, those first that others name. Raises TemplateError."""
    for name in conditions_in_order(template):
        scope.condition(name)
    scope.allowance_bytes = limits.PRODUCED_BYTES


def check_operation_size(size_bytes: int) -> None:
    """Raise TemplateError when the properties of an operation's resources are too large together."""
    if size_bytes > limits.OPERATION_BYTES:
        raise TemplateError(
            f"Template error: the properties of all resources have more than {limits.OPERATION_BYTES:,} bytes, which"
            " headrace does not store"
        )


def read_dynamic(cfn: CloudFormation, stack: Stack, service: str, key: str) -> str:
    """Return what a dynamic reference stands for. Raises ResourceFailed."""
    where = {"account": stack.account, "region": stack.region}
    try:
        if service in ("ssm", "ssm-secure"):
            answer = cfn.control.call(
                "ssm", "GetParameter", {"Name": key, "WithDecryption": True}, **where
            )
            return str(answer["Parameter"]["Value"])
        import json

        name, _, rest = key.partition(":SecretString")
        answer = cfn.control.call("secretsmanager", "GetSecretValue", {"SecretId": name}, **where)
        field = rest.strip(":").split(":")[0]
        text = str(answer["SecretString"])
        return str(json.loads(text)[field]) if field else text
    except (AwsError, KeyError, ValueError) as error:
        raise ResourceFailed(
            f"Could not resolve {{{{resolve:{service}:{key}}}}}: {error}"
        ) from error


def read_ssm_parameter(cfn: CloudFormation, stack: Stack, name: str) -> str:
    """Return the value of an SSM-typed parameter. Raises TemplateError."""
    try:
        answer = cfn.control.call(
            "ssm", "GetParameter", {"Name": name}, account=stack.account, region=stack.region
        )
    except AwsError as error:
        raise TemplateError(
            f"Unable to fetch parameters [{name}] from parameter store for this account."
        ) from error
    return str(answer["Parameter"]["Value"])
