"""Runs a template's transforms for a stack, with S3 objects, IAM's managed policies and macros' functions."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, FunctionInvoker, FunctionNotFound, FunctionThrottled
from headrace.services.cloudformation.errors import TemplateError, TransformFailed
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template.template_text import load
from headrace.services.cloudformation.transforms import expansion
from headrace.services.cloudformation.transforms.context import TransformContext

log = logging.getLogger(__name__)

MACRO = "AWS::CloudFormation::Macro"


class Transforms:
    """Expands templates. Thread-safe."""

    def __init__(
        self,
        *,
        stacks: Stacks,
        control: ControlPlane,
        functions: FunctionInvoker,
        ids: Ids,
        read_object: Callable[[str], str],
    ) -> None:
        self._stacks = stacks
        self._control = control
        self._functions = functions
        self._ids = ids
        self._read_object = read_object

    def expand(self, body: str, stack: Stack, parameters: Mapping[str, str]) -> str | None:
        """Return an expanded template as JSON; None when it names no transform. Raises TemplateError.

        Args:
            body: the template's text.
            stack: the stack that it is expanded for.
            parameters: parameter values; the other parameters have their defaults.
        """
        if "Transform" not in body:
            return None
        document = load(body)
        template = cast("dict[str, Any]", document if isinstance(document, dict) else {})
        if not expansion.has_transforms(template):
            return None
        context = TransformContext(
            stack.account,
            stack.region,
            {**_defaults(template), **parameters},
            _list_names(template),
            self._read_object,
            lambda name, event: self._run_macro(stack, name, event),
            lambda: self._list_managed_policies(stack),
        )
        return json.dumps(expansion.expand(template, context))

    def _run_macro(self, stack: Stack, name: str, event: dict[str, Any]) -> dict[str, Any]:
        function = self._function_of(stack, name)
        event["requestId"] = self._ids.uuid()
        failed = f"Transform {event['transformId']} failed"
        try:
            result = self._functions.invoke(function, json.dumps(event).encode())
        except (FunctionNotFound, FunctionThrottled) as error:
            raise TransformFailed(f"{failed}: {error}") from error
        try:
            answer: Any = json.loads(result.payload)
        except ValueError:
            answer = None
        if result.function_error or not isinstance(answer, dict):
            shown = bytes(result.payload).decode("utf-8", "replace")[:500]
            log.warning("the function of transform %s answered: %s", event["transformId"], shown)
            raise TransformFailed(
                f"Received malformed response from transform {event['transformId']}"
            )
        response = cast("dict[str, Any]", answer)
        if response.get("status") != "success":
            message = response.get("errorMessage")
            why = f"with: {message}" if message else "without an error message."
            raise TransformFailed(f"{failed} {why}")
        return response

    def _function_of(self, stack: Stack, name: str) -> str:
        for other, macro in self._stacks.resources_of_type(stack.account, stack.region, MACRO):
            if other.exists and macro.physical_id == name:
                function = str(macro.properties["FunctionName"])
                if function.startswith("arn:"):
                    return function
                return make_arn("lambda", stack.region, stack.account, f"function:{function}")
        raise TemplateError(f"No transform named {stack.account}::{name} found.")

    def _list_managed_policies(self, stack: Stack) -> dict[str, str]:
        arns: dict[str, str] = {}
        params: dict[str, Any] = {"Scope": "AWS", "MaxItems": 1000}
        while True:
            try:
                page = self._control.call(
                    "iam", "ListPolicies", params, account=stack.account, region=stack.region
                )
            except AwsError as error:
                raise TemplateError(
                    f"AWS's managed policies could not be listed: {error.message}"
                ) from error
            policies: list[dict[str, str]] = page["Policies"]
            arns |= {policy["PolicyName"]: policy["Arn"] for policy in policies}
            if not page.get("IsTruncated"):
                return arns
            params["Marker"] = page["Marker"]


def _defaults(document: Mapping[str, Any]) -> dict[str, str]:
    declared = document.get("Parameters")
    defaults: dict[str, str] = {}
    for name, declared_parameter in cast(
        "dict[str, Any]", declared if isinstance(declared, dict) else {}
    ).items():
        declaration = cast(
            "dict[str, Any]", declared_parameter if isinstance(declared_parameter, dict) else {}
        )
        if "Default" in declaration:
            defaults[name] = str(declaration["Default"])
    return defaults


def _list_names(document: Mapping[str, Any]) -> frozenset[str]:
    declared = document.get("Parameters")
    return frozenset(
        name
        for name, declaration in cast(
            "dict[str, Any]", declared if isinstance(declared, dict) else {}
        ).items()
        if isinstance(declaration, dict)
        and str(cast("dict[str, Any]", declaration).get("Type")).startswith(
            ("CommaDelimitedList", "List<")
        )
    )
