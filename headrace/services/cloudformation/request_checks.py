"""Checks what a request says beside its template: the types it allows, rollback triggers, tags, topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.errors import AwsError
from headrace.core.arn import Arn, InvalidArn
from headrace.core.system_tags import is_system
from headrace.core.values import listed
from headrace.core.wildcards import glob_matches
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.expanding import StackRequest
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.template import Template


def check_settings(template: Template, request: StackRequest) -> None:
    """Raise TemplateError for the types, the triggers or the tags of a request."""
    _check_allowed_types(template, listed(request, "ResourceTypes"))
    _check_triggers(request.get("RollbackConfiguration") or {})
    _check_tags(request)


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


def _is_alarm(text: str) -> bool:
    try:
        return Arn.parse(text).resource.startswith("alarm:")
    except InvalidArn:
        return False


def _check_tags(request: StackRequest) -> None:
    """Raise TemplateError when a stack's tag has a key that is AWS's own (aws-quickstart/quickstart-examples#39)."""
    if any(is_system(tag["Key"]) for tag in listed(request, "Tags")):
        raise TemplateError("aws: prefixed tag key names are not allowed for external use.")


def check_topics(cfn: CloudFormation, stack: Stack, request: Mapping[str, Any]) -> None:
    """Raise TemplateError when a request names a topic, to be told of the stack's events, that SNS refuses.

    CloudFormation answers in SNS' words (observed: aws/aws-cdk#20806, of a wrong ARN; that those of a missing topic are
    passed on too is assumed). Topics of other accounts are not asked for: their policies may allow publishing alone.
    """
    for topic in listed(request, "NotificationARNs"):
        try:
            if Arn.parse(topic).account not in ("", stack.account):
                continue
        except InvalidArn:
            pass  # SNS says what is wrong with it
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
