"""Checks the template and the settings of a request, and resolves its parameters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.core.values import get_list
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.requests.request_checks import check_settings
from headrace.services.cloudformation.requests.template_expansion import (
    ExpandedTemplate,
    StackRequest,
    read_parameters,
)
from headrace.services.cloudformation.requests.type_checks import check_types
from headrace.services.cloudformation.stacks.scope import decide, scope_of
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.template import graph, parameters
from headrace.services.cloudformation.template.capabilities import check_capabilities
from headrace.services.cloudformation.template.outputs import check_outputs
from headrace.services.cloudformation.template.references import all_dependencies
from headrace.services.cloudformation.template.rules import check_rules
from headrace.services.cloudformation.template.template import Template


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
