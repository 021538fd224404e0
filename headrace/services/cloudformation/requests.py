"""What CreateStack, UpdateStack and CreateChangeSet share: reading and checking a template, and taking it over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call
from headrace.aws.shapes.cloudformation import (
    CreateChangeSetInput,
    CreateStackInput,
    UpdateStackInput,
)
from headrace.core.arn import Arn, InvalidArn
from headrace.core.system_tags import is_system
from headrace.core.values import listed
from headrace.core.wildcards import glob_matches
from headrace.services.cloudformation import graph, limits, notifications, parameters
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.capabilities import check_capabilities
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.fidelity import check_types, log_ignored
from headrace.services.cloudformation.intrinsics import Scope, evaluate
from headrace.services.cloudformation.references import all_dependencies
from headrace.services.cloudformation.scope import decide, scope_of
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.store import resource_document
from headrace.services.cloudformation.template import Template
from headrace.services.cloudformation.template_checks import parse

NO_CHANGES = (
    "The submitted information didn't contain changes."
    " Submit different information to create a change set."
)
NO_UPDATES = "No updates are to be performed."
_NAME = re.compile("[a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*")
UPDATABLE = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "IMPORT_COMPLETE",
    "IMPORT_ROLLBACK_COMPLETE",
    "UPDATE_FAILED",
    "CREATE_FAILED",
)

StackRequest = CreateStackInput | UpdateStackInput | CreateChangeSetInput


@dataclass(frozen=True, slots=True)
class Expanded:
    """What a request's template becomes, or why it becomes nothing."""

    template: Template | None = None
    error: Exception | None = None

    def get(self) -> Template:
        """Return the template. Raises AwsError, TemplateError, ResourceFailed."""
        if self.template is None:
            raise self.error or TemplateError("Template format error: there is no template")
        return self.template


def expand(cfn: CloudFormation, call: Call, request: StackRequest) -> Expanded:
    """Read a request's template and run its transforms; the caller does not hold the lock.

    A macro's function may take minutes, and other stacks go on meanwhile. What is wrong is raised by `prepare`, after
    what is wrong with the stack.
    """
    name = request["StackName"]
    with cfn.lock:
        stack = cfn.stacks.find(call.account, call.region, name)
        if stack is None:
            stack = Stack("", name, call.account, call.region, "", call.now_ms)
        previous, parameters = stack.original_body or stack.body, stack.parameters
    try:
        body = previous if request.get("UsePreviousTemplate") else cfn.read_template(request)
        return Expanded(_expanded(cfn, stack, request, body, parameters))
    except (AwsError, TemplateError, ResourceFailed) as error:
        return Expanded(error=error)


def check_name(name: str) -> None:
    """Raise TemplateError for a name that no stack can have (the first sentence is recorded)."""
    wrong = "1 validation error detected: Value '{}' at 'stackName' failed to satisfy constraint: Member must"
    if not _NAME.fullmatch(name):
        raise TemplateError(
            f"{wrong.format(name[:1000])} satisfy regular expression pattern:"
            " [a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*"
        )
    if len(name) > limits.STACK_NAME_CHARACTERS and not name.startswith("arn:"):
        raise TemplateError(
            f"{wrong.format(name[:1000])} have length less than or equal to {limits.STACK_NAME_CHARACTERS}"
        )


def prepare(
    cfn: CloudFormation, stack: Stack, request: StackRequest, expanded: Expanded
) -> tuple[Template, dict[str, Any]]:
    """Return the template and the resolved parameters of a request. Raises AwsError, TemplateError."""
    template = expanded.get()
    check_types(template, strict=cfn.strict)
    graph.check_acyclic(all_dependencies(template))
    check_capabilities(
        template, listed(request, "Capabilities"), is_change_set="ChangeSetName" in request
    )
    check_allowed_types(template, listed(request, "ResourceTypes"))
    check_triggers(request.get("RollbackConfiguration") or {})
    check_tags(request)
    given = _parameters(request)
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
    check_rules(template, scope)
    return template, values


def _parameters(request: StackRequest) -> list[Any]:
    """Return the parameters that a request gives. Raises TemplateError when one has no key."""
    given = listed(request, "Parameters")
    for place, parameter in enumerate(given, 1):
        if not parameter.get("ParameterKey"):  # assumed to read as other missing members do
            raise TemplateError(
                f"1 validation error detected: Value null at 'parameters.{place}.member.parameterKey' failed to satisfy"
                " constraint: Member must not be null"
            )
    return given


def _expanded(
    cfn: CloudFormation,
    stack: Stack,
    request: StackRequest,
    body: str,
    parameters: Mapping[str, Any],
) -> Template:
    """Return the template that a text is, or becomes by its transforms. Raises TemplateError."""
    given = {name: str(value["value"]) for name, value in parameters.items()}
    given |= {
        p["ParameterKey"]: str(p["ParameterValue"])
        for p in _parameters(request)
        if p.get("ParameterValue") is not None
    }
    made = cfn.transforms.expand(body, stack, given)
    return parse(body) if made is None else replace(parse(made), original=body)


def check_allowed_types(template: Template, allowed: list[str]) -> None:
    """Raise TemplateError when a resource's type is none of those that the request allows (recorded)."""
    for resource in template.resources.values():
        kind = str(resource["Type"])
        if allowed and not any(glob_matches(pattern, kind) for pattern in allowed):
            raise TemplateError(
                f"Resource type {kind} is not allowed by parameter ResourceTypes [{', '.join(allowed)}]"
            )


def check_triggers(configuration: Mapping[str, Any]) -> None:
    """Raise TemplateError for rollback triggers that are no alarms (recorded)."""
    for trigger in listed(configuration, "RollbackTriggers"):
        if trigger["Type"] not in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
            raise TemplateError("Rollback Trigger Type not supported")
        if not _is_alarm(trigger["Arn"]):
            raise TemplateError("RelativeId of a Rollback Trigger's ARN is incorrect")


def check_topics(cfn: CloudFormation, stack: Stack, request: Mapping[str, Any]) -> None:
    """Raise TemplateError when a request names a topic, to be told of the stack's events, that SNS refuses."""
    topics = listed(request, "NotificationARNs")
    notifications.check_topics(cfn.lookups.control, cfn.ids, stack, topics)


def check_tags(request: StackRequest) -> None:
    """Raise TemplateError when a stack's tag has a key that is AWS's own (aws-quickstart/quickstart-examples#39)."""
    if any(is_system(tag["Key"]) for tag in listed(request, "Tags")):
        raise TemplateError("aws: prefixed tag key names are not allowed for external use.")


def _is_alarm(text: str) -> bool:
    try:
        return Arn.parse(text).resource.startswith("alarm:")
    except InvalidArn:
        return False


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


def tags_of(request: StackRequest, stack: Stack) -> dict[str, str]:
    """Return the tags that a request gives the stack, or those that the stack has."""
    given = request.get("Tags")
    return stack.tags if given is None else {tag["Key"]: tag["Value"] for tag in given}


def disables_rollback(request: CreateStackInput | UpdateStackInput) -> bool:
    """Whether a request has what a failed operation made stay as it is."""
    configured = request.get("DeploymentConfig") or {}
    return bool(request.get("DisableRollback") or configured.get("DisableRollback"))


def take_over(
    stack: Stack, template: Template, values: dict[str, Any], request: StackRequest
) -> None:
    """Take a request's template and settings over into the stack; the caller stores it by setting its status."""
    tags = tags_of(request, stack)
    if stack.body:
        # The state to which an update that fails goes back.
        stack.previous = {
            "body": stack.body,
            "original_body": stack.original_body,
            "description": stack.description,
            "parameters": stack.parameters,
            "tags": stack.tags,
            "capabilities": stack.capabilities,
            "outputs": stack.outputs,
            "imports": list(stack.imports),
            "resources": {
                name: resource_document(resource) for name, resource in stack.resources.items()
            },
            "order": graph.in_order(
                {name: set(r.depends_on) for name, r in stack.resources.items()}
            ),
        }
    stack.enforced_policy = stack.policy if stack.body else ""
    stack.temporary_policy = ""
    stack.retain_except_on_create = bool(request.get("RetainExceptOnCreate"))
    stack.importing = {}
    stack.body = template.body
    stack.original_body = template.original
    stack.description = template.description
    stack.parameters = values
    stack.tags = tags
    stack.capabilities = listed(request, "Capabilities")
    stack.imports = []
    stack.role_arn = request.get("RoleARN") or stack.role_arn
    if request.get("NotificationARNs") is not None:
        stack.notification_arns = listed(request, "NotificationARNs")
    if configuration := request.get("RollbackConfiguration"):
        # What it does not say stands (documented: API_RollbackConfiguration).
        stack.rollback_configuration = {**stack.rollback_configuration, **configuration}
    log_ignored(stack.name, template)


def fail_change_set(change_set: ChangeSet, reason: str) -> None:
    """Mark a change set as one that cannot be executed."""
    change_set.status = "FAILED"
    change_set.reason = reason
    change_set.execution_status = "UNAVAILABLE"
