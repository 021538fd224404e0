"""Checks the template and the settings of a request, and resolves its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headrace.core.arn import Arn, InvalidArn
from headrace.core.system_tags import is_system
from headrace.core.values import listed
from headrace.core.wildcards import glob_matches
from headrace.services.cloudformation import graph, notifications, parameters
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.capabilities import check_capabilities
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.expanding import Expanded, StackRequest, given_parameters
from headrace.services.cloudformation.fidelity import check_types
from headrace.services.cloudformation.intrinsics import Scope, evaluate
from headrace.services.cloudformation.outputs import check_exports
from headrace.services.cloudformation.references import all_dependencies
from headrace.services.cloudformation.scope import decide, scope_of
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.template import Template


def prepare(
    cfn: CloudFormation, stack: Stack, request: StackRequest, expanded: Expanded
) -> tuple[Template, dict[str, Any]]:
    """Return the template and the resolved parameters of a request. Raises AwsError, TemplateError."""
    template = expanded.template
    if template is None:
        raise expanded.refusal()
    check_types(template, strict=cfn.strict)
    graph.check_acyclic(all_dependencies(template))
    check_capabilities(
        template, listed(request, "Capabilities"), is_change_set="ChangeSetName" in request
    )
    _check_allowed_types(template, listed(request, "ResourceTypes"))
    _check_triggers(request.get("RollbackConfiguration") or {})
    _check_tags(request)
    given = given_parameters(request)
    resolved = parameters.resolve(
        template.parameters,
        {
            p["ParameterKey"]: str(p["ParameterValue"])
            for p in given
            if p.get("ParameterValue") is not None
        },
        {name: value["value"] for name, value in stack.parameters.items()},
        {p["ParameterKey"] for p in given if p.get("UsePreviousValue")},
        lambda name: cfn.lookups.ssm_parameter(stack, name),
    )
    values = {name: asdict(parameter) for name, parameter in resolved.items()}
    # Rules and conditions depend on no resource.
    effective = parameters.effective_values(values)
    scope = scope_of(cfn.lookups, stack, template, effective, stack.resources)
    decide(template, scope)
    _check_rules(template, scope)
    check_exports(template, scope)
    return template, values


def _check_allowed_types(template: Template, allowed: list[str]) -> None:
    """Raise TemplateError when a resource's type is none of those that the request allows (recorded)."""
    for resource in template.resources.values():
        kind = str(resource["Type"])
        if allowed and not any(glob_matches(pattern, kind) for pattern in allowed):
            raise TemplateError(
                f"Resource type {kind} is not allowed by parameter ResourceTypes [{', '.join(allowed)}]"
            )


def _check_triggers(configuration: Mapping[str, Any]) -> None:
    """Raise TemplateError for rollback triggers that are no alarms (recorded)."""
    for trigger in listed(configuration, "RollbackTriggers"):
        if trigger["Type"] not in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
            raise TemplateError("Rollback Trigger Type not supported")
        if not _is_alarm(trigger["Arn"]):
            raise TemplateError("RelativeId of a Rollback Trigger's ARN is incorrect")


def check_topics(cfn: CloudFormation, stack: Stack, request: Mapping[str, Any]) -> None:
    """Raise TemplateError when a request names a topic, to be told of the stack's events, that SNS refuses."""
    topics = listed(request, "NotificationARNs")
    if topics:
        notifications.check_topics(cfn.lookups.control, cfn.ids, stack, topics)


def _check_tags(request: StackRequest) -> None:
    """Raise TemplateError when a stack's tag has a key that is AWS's own (aws-quickstart/quickstart-examples#39)."""
    if any(is_system(tag["Key"]) for tag in listed(request, "Tags")):
        raise TemplateError("aws: prefixed tag key names are not allowed for external use.")


def _is_alarm(text: str) -> bool:
    try:
        return Arn.parse(text).resource.startswith("alarm:")
    except InvalidArn:
        return False


def _check_rules(template: Template, scope: Scope) -> None:
    """Raise TemplateError when a rule's assertion does not hold."""
    for rule in template.rules.values():
        condition = rule.get("RuleCondition")
        if condition is not None and not evaluate(condition, scope):
            continue
        for assertion in listed(rule, "Assertions"):
            if not evaluate(assertion["Assert"], scope):
                described = assertion.get("AssertDescription", "an assertion failed")
                raise TemplateError(f"Template constraint violation: {described}")
