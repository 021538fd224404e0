"""Checks a request's settings beside its template: allowed resource types, rollback triggers, tags, topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn, InvalidArn
from headrace.core.system_tags import is_system
from headrace.core.values import get_list
from headrace.core.wildcards import glob_matches
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.requests.template_expansion import StackRequest
from headrace.services.cloudformation.state import Stack
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
