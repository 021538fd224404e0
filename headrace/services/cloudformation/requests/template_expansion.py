"""Reads the template of a request, and runs its transforms."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call
from headrace.aws.shapes.cloudformation import (
    CreateChangeSetInput,
    CreateStackInput,
    UpdateStackInput,
)
from headrace.core.values import get_list
from headrace.services.cloudformation import limits
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.template.template import Template
from headrace.services.cloudformation.template.template_checks import parse

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
    if len(name) > limits.STACK_NAME_CHARACTERS and not name.startswith("arn:"):
        raise TemplateError(
            f"{wrong.format(name[:1000])} have length less than or equal to {limits.STACK_NAME_CHARACTERS}"
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
        return ExpandedTemplate(
            parse(body) if expanded is None else replace(parse(expanded), original=body)
        )
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
