"""Copies a request's settings into a stack, its stack policy too: shared by creations, updates and change sets.

`deployment/stack_resources.py` applies stack policies to updates.

Checks the template and the settings of a request, and resolves its parameters.

Settings: allowed resource types, rollback triggers, tags, topics. Template: unknown resource types are refused with
what to do instead; in strict mode so are properties that would be ignored. A template's rules say what its parameters
must be.

Reads the template of a request, and runs its transforms.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.aws.shapes.cloudformation import (
    CreateChangeSetInput,
    CreateStackInput,
    UpdateStackInput,
)
from headrace.core.arn import Arn, InvalidArn
from headrace.core.patterns import glob_matches
from headrace.core.system_tags import is_system
from headrace.core.values import get_list, parse_json
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import (
    ResourceFailed,
    TemplateError,
    TransformFailed,
)
from headrace.services.cloudformation.fidelity import fidelity_of, log_ignored
from headrace.services.cloudformation.resources import (
    list_coded_types,
    list_declared_types,
    resource_type,
)
from headrace.services.cloudformation.resources.schemas import aws_types
from headrace.services.cloudformation.state import ChangeSet, Stack
from headrace.services.cloudformation.store import resource_document
from headrace.services.cloudformation.template import (
    function_checks,
    language_extensions,
    parameters,
)
from headrace.services.cloudformation.template.scope import (
    check_outputs,
    check_rules,
    decide,
    scope_of,
)
from headrace.services.cloudformation.template.template import (
    Template,
    all_dependencies,
    check_acyclic,
    in_order,
)
from headrace.services.cloudformation.template.template_checks import check_capabilities, parse

_NAME = re.compile("[a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*")

StackRequest = CreateStackInput | UpdateStackInput | CreateChangeSetInput


def check_name(name: str) -> None:
    """Raise TemplateError for an invalid stack name (the first sentence is recorded)."""
    wrong = "1 validation error detected: Value '{}' at 'stackName' failed to satisfy constraint: Member must"
    if not _NAME.fullmatch(name):
        raise TemplateError(
            f"{wrong.format(name[:1000])} satisfy regular expression pattern:"
            " [a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*"
        )
    if len(name) > errors.STACK_NAME_CHARACTERS and not name.startswith("arn:"):
        raise TemplateError(
            f"{wrong.format(name[:1000])} have length less than or equal to {errors.STACK_NAME_CHARACTERS}"
        )


@dataclass(frozen=True, slots=True)
class ExpandedTemplate:
    """The template that a request's text expands to, or the error that prevents it."""

    template: Template | None = None
    error: Exception | None = None

    def refusal(self) -> Exception:
        """Return the error: an AwsError, TemplateError or ResourceFailed."""
        return self.error or TemplateError("Template format error: there is no template")


def expand(cfn: CloudFormation, call: Call, request: StackRequest) -> ExpandedTemplate:
    """Read a request's template and run its transforms; the caller does not hold the lock.

    A macro's function may take minutes, and other stacks continue meanwhile. `prepare` raises the errors that are found
    here, after the errors about the stack.
    """
    name = request["StackName"]
    try:
        own = {
            p["ParameterKey"]: str(p["ParameterValue"])
            for p in read_parameters(request)
            if p.get("ParameterValue") is not None
        }
        with cfn.lock:
            stack = cfn.stacks.find(call.account, call.region, name)
            if stack is None:
                stack = Stack("", name, call.account, call.region, "", call.now_ms)
            previous, parameters = stack.original_body or stack.body, stack.parameters
        values_by_name = {name: str(value["value"]) for name, value in parameters.items()}
        body = previous if request.get("UsePreviousTemplate") else cfn.read_template(request)
        expanded = cfn.transforms.expand(body, stack, values_by_name | own)
        template = parse(body if expanded is None else expanded)
        if language_extensions.NAME not in body:
            function_checks.check_unextended(template)
        return ExpandedTemplate(template if expanded is None else replace(template, original=body))
    except (AwsError, TemplateError, ResourceFailed) as error:
        return ExpandedTemplate(error=error)


def read_parameters(request: StackRequest) -> list[Any]:
    """Return the parameters that a request gives. Raises TemplateError when one has no key."""
    entries = get_list(request, "Parameters")
    for number, parameter in enumerate(entries, 1):
        if not parameter.get("ParameterKey"):  # assumed, like other missing members
            raise TemplateError(
                f"1 validation error detected: Value null at 'parameters.{number}.member.parameterKey' failed to"
                " satisfy constraint: Member must not be null"
            )
    return entries


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
    known = [*list_coded_types(), *list_declared_types()]
    near = [match for name in unknown for match in difflib.get_close_matches(name, known, 1, 0.85)]
    return f"; nearest: {', '.join(near)}" if near else ""


# The end or the beginning of a type's name -> what to do instead.
_INSTEAD = {
    "::MODULE": "modules are not expanded: put their resources into the template",
    "AWS::AppSync::": "no GraphQL or event API is served: an API of AWS::ApiGatewayV2 is",
    "AWS::KafkaConnect::": "connectors do not run: `headrace cdc` captures a PostgreSQL, Firehose delivers to S3",
    "AWS::KinesisAnalytics::": "`headrace sql` runs the queries of Kinesis Analytics",
    "AWS::MSK::": "no Kafka runs: give clients a broker of your own",
    "AWS::Timestream::": "its queries do not run: Athena answers queries over records that Firehose delivered",
}


def _what_instead(unknown: list[str]) -> str:
    """Return the alternatives to types that headrace does not have, as the end of a sentence."""
    advice = (
        sentence
        for part, sentence in _INSTEAD.items()
        if any(kind.startswith(part) or kind.endswith(part) for kind in unknown)
    )
    return "".join(f"; {sentence}" for sentence in advice)


def prepare(
    cfn: CloudFormation, stack: Stack, request: StackRequest, expanded: ExpandedTemplate
) -> tuple[Template, dict[str, Any]]:
    """Return the template and the resolved parameters of a request. Raises AwsError, TemplateError."""
    template = expanded.template
    if template is None:
        raise expanded.refusal()
    check_types(template, strict=cfn.strict)
    check_acyclic(all_dependencies(template))
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


def prepare_new(
    cfn: CloudFormation, stack: Stack, request: StackRequest, expanded: ExpandedTemplate
) -> tuple[Template, dict[str, Any], str]:
    """Do `prepare`; if a transform failed, return what the stack has then, an empty template, and why it failed."""
    if not isinstance(expanded.error, TransformFailed):
        return *prepare(cfn, stack, request, expanded), ""
    body = request.get("TemplateBody") or "{}"
    template = replace(Template.empty(body), original=body)
    is_change_set = "ChangeSetName" in request
    check_capabilities(template, get_list(request, "Capabilities"), is_change_set=is_change_set)
    return template, {}, str(expanded.error)


# The members of a request that contain or link to a policy: the stack's, and the one for one update.
STANDING = ("StackPolicyBody", "StackPolicyURL")
FOR_NOW = ("StackPolicyDuringUpdateBody", "StackPolicyDuringUpdateURL")


def policy_of(
    cfn: CloudFormation, request: Mapping[str, Any], members: tuple[str, str] = STANDING
) -> str | None:
    """Return the policy that a request contains or links to, or None. Raises TemplateError."""
    body, url = (request.get(member) for member in members)
    if body and url:  # recorded, like the other sentence
        raise TemplateError(f"You cannot specify both {members[1]} and {members[0]}")
    if not body and not url:
        return None
    text = str(body) if body else cfn.read_object(str(url))
    if not _is_policy(text):
        raise TemplateError("Error validating stack policy: Invalid stack policy")
    return text


def _is_policy(text: str) -> bool:
    try:
        document: Any = parse_json(text)
    except ValueError:
        return False
    if not isinstance(document, dict):
        return False
    statements: Any = cast("dict[str, Any]", document).get("Statement", [])
    return isinstance(statements, list) and all(map(_is_statement, cast("list[Any]", statements)))


def _is_statement(statement: Any) -> bool:
    """Whether a statement allows or denies updates to everybody (documented: protect-stack-resources)."""
    if not isinstance(statement, dict):
        return False
    members = cast("dict[str, Any]", statement)
    actions: Any = members.get("Action", members.get("NotAction"))
    names = cast("list[Any]", actions) if isinstance(actions, list) else [actions]
    return (
        members.get("Effect") in ("Allow", "Deny")
        and members.get("Principal") == "*"
        and ("Resource" in members or "NotResource" in members)
        and all(isinstance(name, str) and name.startswith("Update:") for name in names)
        and _is_condition(members.get("Condition", {}))
    )


def _is_condition(condition: Any) -> bool:
    return isinstance(condition, dict) and all(
        isinstance(keys, dict) for keys in cast("dict[str, Any]", condition).values()
    )


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


def tags_of(request: StackRequest, stack: Stack) -> dict[str, str]:
    """Return the tags that a request gives the stack; without any, the stack's own."""
    tags = request.get("Tags")
    return stack.tags if tags is None else {tag["Key"]: tag["Value"] for tag in tags}


def disables_rollback(request: CreateStackInput | UpdateStackInput) -> bool:
    """Whether a request keeps the resources of a failed operation as they are."""
    configured = request.get("DeploymentConfig") or {}
    return bool(request.get("DisableRollback") or configured.get("DisableRollback"))


def take_over(
    stack: Stack, template: Template, values: dict[str, Any], request: StackRequest
) -> None:
    """Copy a request's template and settings into the stack; the caller stores it when it sets the status."""
    tags = tags_of(request, stack)
    if stack.body:
        # The state that a failed update restores.
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
            "order": in_order({name: set(r.depends_on) for name, r in stack.resources.items()}),
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
    stack.capabilities = get_list(request, "Capabilities")
    stack.imports = []
    stack.role_arn = request.get("RoleARN") or stack.role_arn
    if request.get("NotificationARNs") is not None:
        stack.notification_arns = get_list(request, "NotificationARNs")
    if configuration := request.get("RollbackConfiguration"):
        # A request without a member keeps the stack's value (documented: API_RollbackConfiguration).
        stack.rollback_configuration = {**stack.rollback_configuration, **configuration}
    log_ignored(stack.name, template)


def fail_change_set(change_set: ChangeSet, reason: str) -> None:
    """Set a change set to FAILED, so that it cannot be executed."""
    change_set.status = "FAILED"
    change_set.reason = reason
    change_set.execution_status = "UNAVAILABLE"
