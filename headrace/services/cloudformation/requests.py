"""From a request to a stack operation: what create, update and change-set requests have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call
from headrace.core.values import listed
from headrace.services.cloudformation import changes, graph, limits
from headrace.services.cloudformation import parameters as parameters_module
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.intrinsics import (
    UNKNOWN,
    Scope,
    evaluate,
    size_of,
)
from headrace.services.cloudformation.scope import (
    check_operation_size,
    decide,
    read_ssm_parameter,
    scope_of,
)
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.template import Template, dependencies
from headrace.services.cloudformation.template_checks import parse

if TYPE_CHECKING:
    from headrace.services.cloudformation.service import CloudFormation

NO_CHANGES = (
    "The submitted information didn't contain changes."
    " Submit different information to create a change set."
)
NO_UPDATES = "No updates are to be performed."
UPDATABLE = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "IMPORT_COMPLETE",
    "IMPORT_ROLLBACK_COMPLETE",
    "UPDATE_FAILED",
    "CREATE_FAILED",
)
_NAMED_IAM = {
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
}


def prepare(
    cfn: CloudFormation, call: Call, stack: Stack, request: Mapping[str, Any]
) -> tuple[Template, dict[str, Any]]:
    """Return the template and the resolved parameters of a request. Raises AwsError, TemplateError."""
    body = stack.body if request.get("UsePreviousTemplate") else cfn.read_template(request)
    template = parse(body)
    cfn.check_types(template)
    for name in template.resources:
        dependencies(template, name)
    graph.check_acyclic({name: dependencies(template, name) for name in template.resources})
    check_capabilities(template, listed(request, "Capabilities"))
    given = listed(request, "Parameters")
    resolved = parameters_module.resolve(
        template.parameters,
        {
            p["ParameterKey"]: str(p["ParameterValue"])
            for p in given
            if p.get("ParameterValue") is not None
        },
        {name: value["value"] for name, value in stack.parameters.items()},
        {p["ParameterKey"] for p in given if p.get("UsePreviousValue")},
        lambda name: read_ssm_parameter(cfn, stack, name),
    )
    values = {name: asdict(parameter) for name, parameter in resolved.items()}
    check_rules(template, _scope(cfn, stack, template, values))
    return template, values


def check_capabilities(template: Template, given: list[str]) -> None:
    """Raise InsufficientCapabilitiesException when the template makes IAM resources unasked."""
    iam = [r for r in template.resources.values() if str(r["Type"]).startswith("AWS::IAM::")]
    if not iam or "CAPABILITY_NAMED_IAM" in given:
        return
    named = any(_NAMED_IAM.get(r["Type"], "") in r.get("Properties", {}) for r in iam)
    if named or "CAPABILITY_IAM" not in given:
        needed = "CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM"
        raise AwsError("InsufficientCapabilitiesException", f"Requires capabilities : [{needed}]")


def check_rules(template: Template, scope: Scope) -> None:
    """Raise TemplateError when a rule's assertion does not hold."""
    for rule in template.rules.values():
        condition = rule.get("RuleCondition")
        if condition is not None and not evaluate(condition, scope):
            continue
        for assertion in listed(rule, "Assertions"):
            if not evaluate(assertion["Assert"], scope):
                described = assertion.get("AssertDescription", "an assertion failed")
                raise TemplateError(f"Template constraint violation: {described}")


def _scope(
    cfn: CloudFormation, stack: Stack, template: Template, values: Mapping[str, Any]
) -> Scope:
    """Return a scope for what does not depend on resources."""
    effective = {name: cfn.effective_parameter(value) for name, value in values.items()}
    scope = scope_of(cfn, stack, template, effective, stack.resources)
    decide(template, scope)
    return scope


def tags_of(request: Mapping[str, Any], stack: Stack) -> dict[str, str]:
    """Return the stack's tags as the request wants them; without any they stay."""
    given = request.get("Tags")
    return stack.tags if given is None else {tag["Key"]: tag["Value"] for tag in given}


def resource_changes(
    cfn: CloudFormation, stack: Stack, template: Template, values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the resource changes that this template would bring to the stack."""
    effective = {name: cfn.effective_parameter(value) for name, value in values.items()}
    pending: set[str] = {name for name in template.resources if name not in stack.resources}
    scope = scope_of(
        cfn,
        stack,
        template,
        effective,
        stack.resources,
        later=pending.__contains__,
        imported=lambda name: _imported(cfn, stack, name),
    )
    decide(template, scope)
    changed: dict[str, dict[str, Any]] = {}
    size_bytes = 0
    # What others need first: a replaced resource makes what refers to it change too.
    for name in graph.in_order({name: dependencies(template, name) for name in template.resources}):
        definition = template.resources[name]
        if "Condition" in definition and not scope.condition(definition["Condition"]):
            continue
        properties = _evaluated(definition, scope)
        size_bytes += size_of(properties)
        check_operation_size(size_bytes)
        change = _change_of(cfn, stack, name, definition, properties)
        if change is None:
            continue
        changed[name] = change
        if change.get("Replacement") == "True":
            pending.add(name)
            scope.names[name] = UNKNOWN
    found = {name: changed[name] for name in template.resources if name in changed}
    kept = {
        name
        for name, resource in template.resources.items()
        if "Condition" not in resource or scope.condition(resource["Condition"])
    }
    for name, resource in stack.resources.items():
        if name not in kept:
            found[name] = changes.removed(resource)
    return [{"Type": "Resource", "ResourceChange": change} for change in found.values()]


def _imported(cfn: CloudFormation, stack: Stack, name: str) -> str:
    found = cfn.exports(stack.account, stack.region).get(name)
    if found is None:
        raise TemplateError(f"No export named {name} found.")
    return found[1]


def _evaluated(definition: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    scope.allowance_bytes = limits.PRODUCED_BYTES
    try:
        return evaluate(definition.get("Properties", {}), scope)
    except ResourceFailed as error:
        raise TemplateError(str(error)) from error


def _change_of(
    cfn: CloudFormation,
    stack: Stack,
    name: str,
    definition: dict[str, Any],
    properties: dict[str, Any],
) -> dict[str, Any] | None:
    present = stack.resources.get(name)
    if present is None or not present.physical_id:
        return changes.added(name, definition["Type"], properties)
    kind = cfn.resource_type(definition["Type"])
    assert kind is not None
    return changes.modified(present, kind, properties, definition)


def outputs_differ(old_body: str, template: Template) -> bool:
    """Whether a template's outputs are not those of the stack's present one."""
    return not old_body or _canonical(parse(old_body).outputs) != _canonical(template.outputs)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def has_changes(
    stack: Stack, template: Template, found: list[dict[str, Any]], tags: Mapping[str, str]
) -> bool:
    """Whether executing would do anything."""
    return bool(found) or dict(tags) != stack.tags or outputs_differ(stack.body, template)


def begin(
    cfn: CloudFormation,
    stack: Stack,
    template: Template,
    values: dict[str, Any],
    request: Mapping[str, Any],
    now_ms: int,
) -> None:
    """Take the request's settings over into the stack; the caller stores it by setting its status."""
    tags = tags_of(request, stack)
    if stack.body:
        # What an update that fails goes back to.
        stack.previous = {
            "body": stack.body,
            "description": stack.description,
            "parameters": stack.parameters,
            "tags": stack.tags,
            "capabilities": stack.capabilities,
            "outputs": stack.outputs,
            "imports": list(stack.imports),
            "resources": {name: resource.document() for name, resource in stack.resources.items()},
            "order": graph.in_order(
                {name: set(r.depends_on) for name, r in stack.resources.items()}
            ),
        }
    stack.body = template.body
    stack.description = template.description
    stack.parameters = values
    stack.tags = tags
    stack.capabilities = list(listed(request, "Capabilities"))
    stack.imports = []
    stack.role_arn = request.get("RoleARN") or stack.role_arn
    if request.get("NotificationARNs") is not None:
        stack.notification_arns = list(request["NotificationARNs"])
    if request.get("RollbackConfiguration"):
        stack.rollback_configuration = dict(request["RollbackConfiguration"])
    cfn_log_fidelity(cfn, stack, template)


def cfn_log_fidelity(cfn: CloudFormation, stack: Stack, template: Template) -> None:
    """Say in the log which properties of a deployment are not acted upon."""
    import logging

    rows = [row for row in cfn.fidelity_of(template) if row["level"] == "ignored"]
    if rows:
        shown = ", ".join(f"{row['resource']}.{row['property']}" for row in rows)
        logging.getLogger(__name__).warning("stack %s: ignored properties: %s", stack.name, shown)


def fail_change_set(change_set: ChangeSet, reason: str) -> None:
    """Mark a change set as one that cannot be executed."""
    change_set.status = "FAILED"
    change_set.reason = reason
    change_set.execution_status = "UNAVAILABLE"
