"""Checks the template and the settings of a request, and resolves its parameters.

Settings: allowed resource types, rollback triggers, tags, topics. Template: unknown resource types are refused with
what to do instead; in strict mode so are properties that would be ignored. A template's rules say what its parameters
must be.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, InvalidArn
from headrace.core.system_tags import is_system
from headrace.core.values import get_list
from headrace.core.wildcards import glob_matches
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.requests.template_expansion import (
    ExpandedTemplate,
    StackRequest,
    read_parameters,
)
from headrace.services.cloudformation.resources import (
    coded_types,
    declared_types,
    resource_type,
)
from headrace.services.cloudformation.resources.schemas import aws_types
from headrace.services.cloudformation.stacks.scope import decide, scope_of
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.template import graph, parameters
from headrace.services.cloudformation.template.capabilities import check_capabilities
from headrace.services.cloudformation.template.intrinsics import Scope, evaluate
from headrace.services.cloudformation.template.outputs import check_outputs
from headrace.services.cloudformation.template.references import all_dependencies
from headrace.services.cloudformation.template.template import Template


def check_settings(template: Template, request: StackRequest) -> None:
    """Raise TemplateError for a request's resource types, rollback triggers or tags."""
    _check_allowed_types(template, get_list(request, "ResourceTypes"))
    _check_triggers(request.get("RollbackConfiguration") or {})
    _check_tags(request)


def _check_allowed_types(template: Template, allowed: list[str]) -> None:
    """Raise TemplateError when the request does not allow a resource's type (recorded)."""
    for resource in template.resources.values():
        kind = str(resource["Type"])
        if allowed and not any(glob_matches(pattern, kind) for pattern in allowed):
            raise TemplateError(
                f"Resource type {kind} is not allowed by parameter ResourceTypes [{', '.join(allowed)}]"
            )


def _check_triggers(configuration: Mapping[str, Any]) -> None:
    """Raise TemplateError for rollback triggers that are not alarms (recorded)."""
    for trigger in get_list(configuration, "RollbackTriggers"):
        if trigger["Type"] not in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
            raise TemplateError("Rollback Trigger Type not supported")
        if not _is_alarm(trigger["Arn"]):
            raise TemplateError("RelativeId of a Rollback Trigger's ARN is incorrect")


def _is_alarm(text: str) -> bool:
    try:
        return Arn.parse(text).resource.startswith("alarm:")
    except InvalidArn:
        return False


def _check_tags(request: StackRequest) -> None:
    """Raise TemplateError when a stack's tag has a key that AWS reserves (aws-quickstart/quickstart-examples#39)."""
    if any(is_system(tag["Key"]) for tag in get_list(request, "Tags")):
        raise TemplateError("aws: prefixed tag key names are not allowed for external use.")


def check_topics(cfn: CloudFormation, stack: Stack, request: Mapping[str, Any]) -> None:
    """Raise TemplateError when SNS refuses a topic in the request's NotificationARNs.

    CloudFormation passes on SNS's sentence (observed: aws/aws-cdk#20806, for a wrong ARN; for a missing topic it is
    assumed). Topics of other accounts are not checked: their policies may allow publishing alone.
    """
    for topic in get_list(request, "NotificationARNs"):
        try:
            if Arn.parse(topic).account not in ("", stack.account):
                continue
        except InvalidArn:
            pass  # SNS gives the reason
        try:
            cfn.lookups.control.call(
                "sns",
                "GetTopicAttributes",
                {"TopicArn": topic},
                account=stack.account,
                region=stack.region,
            )
        except AwsError as error:
            raise TemplateError(
                f"{error.message} (Service: AmazonSNS; Status Code: {error.status}; Error Code: {error.code};"
                f" Request ID: {cfn.ids.uuid()}; Proxy: null)"
            ) from error


def check_types(template: Template, *, strict: bool) -> None:
    """Raise AwsError for an unknown resource type or, in strict mode, for a property that would be ignored."""
    kinds = {str(resource["Type"]) for resource in template.resources.values()}
    unknown = sorted(kind for kind in kinds if resource_type(kind) is None)
    if unknown:
        raise AwsError(
            "ValidationError",
            f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]"
            f" ({_unknown_sentence(unknown)}{_what_instead(unknown)})",
        )
    if strict:
        dropped = [row for row in fidelity_of(template) if row["level"] == "ignored"]
        if dropped:
            shown = ", ".join(f"{row['resource']}.{row['property']}" for row in dropped)
            raise AwsError(
                "ValidationError",
                f"headrace --strict refuses properties it would ignore: {shown}",
            )


def _unknown_sentence(unknown: list[str]) -> str:
    """Return a sentence: which unknown types AWS has, and which are unknown here; AWS may have newer types."""
    lacking = [name for name in unknown if name in aws_types()]
    wrong = [name for name in unknown if name not in lacking]
    parts: list[str] = []
    if lacking:
        parts.append(f"AWS has {', '.join(lacking)}, which headrace does not support")
    if wrong:
        parts.append(f"not in headrace: {', '.join(wrong)}{_nearest(wrong)}")
    return "; ".join(parts)


def _nearest(unknown: list[str]) -> str:
    """Return a suggestion of known types with similar names, as the end of a sentence."""
    known = [*coded_types(), *declared_types()]
    near = [match for name in unknown for match in difflib.get_close_matches(name, known, 1, 0.85)]
    return f"; nearest: {', '.join(near)}" if near else ""


_INSTEAD = {
    "::MODULE": "modules are not expanded: put their resources into the template",
}


def _what_instead(unknown: list[str]) -> str:
    """Return the alternatives to modules and stack sets, as the end of a sentence."""
    advice = (
        sentence
        for end, sentence in _INSTEAD.items()
        if any(kind.endswith(end) for kind in unknown)
    )
    return "".join(f"; {sentence}" for sentence in advice)


def check_rules(template: Template, scope: Scope) -> None:
    """Raise TemplateError when a rule's assertion does not hold."""
    for rule in template.rules.values():
        condition = rule.get("RuleCondition")
        if condition is not None and not evaluate(condition, scope):
            continue
        for assertion in get_list(rule, "Assertions"):
            if not evaluate(assertion["Assert"], scope):
                described = assertion.get("AssertDescription", "an assertion failed")
                raise TemplateError(f"Template constraint violation: {described}")


def prepare(
    cfn: CloudFormation, stack: Stack, request: StackRequest, expanded: ExpandedTemplate
) -> tuple[Template, dict[str, Any]]:
    """Return the template and the resolved parameters of a request. Raises AwsError, TemplateError."""
    template = expanded.template
    if template is None:
        raise expanded.refusal()
    check_types(template, strict=cfn.strict)
    graph.check_acyclic(all_dependencies(template))
    check_capabilities(
        template, get_list(request, "Capabilities"), is_change_set="ChangeSetName" in request
    )
    check_settings(template, request)
    parameters_given = read_parameters(request)
    resolved = parameters.resolve(
        template.parameters,
        {
            p["ParameterKey"]: str(p["ParameterValue"])
            for p in parameters_given
            if p.get("ParameterValue") is not None
        },
        {name: value["value"] for name, value in stack.parameters.items()},
        {p["ParameterKey"] for p in parameters_given if p.get("UsePreviousValue")},
        lambda name: cfn.lookups.ssm_parameter(stack, name),
    )
    values = {name: asdict(parameter) for name, parameter in resolved.items()}
    # Rules and conditions depend on no resource.
    effective = parameters.effective_values(values)
    scope = scope_of(cfn.lookups, stack, template, effective, stack.resources)
    decide(template, scope)
    check_rules(template, scope)
    check_outputs(template, scope)
    return template, values
