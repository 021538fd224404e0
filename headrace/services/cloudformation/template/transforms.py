"""Runs a template's transforms in order: Fn::Transform from the innermost outwards, then the template's.

What transforms use: the stack's account, region and parameters, S3 objects, macros, AWS's managed policies.

Runs a template's transforms for a stack, with S3 objects, IAM's managed policies and macros' functions.

`AWS::Serverless-2016-10-31`: AWS's own aws-sam-translator converts SAM's resources to CloudFormation's.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import URL_SUFFIXES, make_arn, partition_of
from headrace.core.extras import install_command
from headrace.core.ids import Ids
from headrace.core.ports import ControlPlane, FunctionInvoker, FunctionNotFound, FunctionThrottled
from headrace.core.values import as_mapping, parse_json
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError, TransformFailed
from headrace.services.cloudformation.state import Stack
from headrace.services.cloudformation.store import Stacks
from headrace.services.cloudformation.template import language_extensions
from headrace.services.cloudformation.template.functions import substitute
from headrace.services.cloudformation.template.template import sub_names, sub_parts
from headrace.services.cloudformation.template.template_text import load


@dataclass(frozen=True, slots=True)
class TransformContext:
    """The stack that a template is expanded for.

    Attributes:
        account, region: the stack's.
        parameters: the values of the template's parameters, as text; defaults for those that are not given.
        lists: the names of the parameters that are lists; macros get them as lists (as AWS's examples do).
        read: returns the text of the object at an S3 address. Raises TemplateError.
        run_macro: (name of the macro, event) to its function's answer. Raises TemplateError.
        policies: returns the ARNs of AWS's managed policies by their names.
    """

    account: str
    region: str
    parameters: Mapping[str, str]
    lists: frozenset[str]
    read: Callable[[str], str]
    run_macro: Callable[[str, dict[str, Any]], dict[str, Any]]
    policies: Callable[[], dict[str, str]]

    def value_of(self, name: str) -> Any:
        """Return a parameter's value, text or a list of texts; None: there is no such parameter."""
        value = self.parameters.get(name)
        if value is None or name not in self.lists:
            return value
        return [item.strip() for item in value.split(",")] if value else []


INCLUDE = "AWS::Include"


def transforms_of(document: Any) -> list[str]:
    """Return the names of the transforms of the whole template, in order."""
    if not isinstance(document, Mapping):
        return []
    return [
        name for name, _ in _list_transforms(cast("Mapping[str, Any]", document).get("Transform"))
    ]


def has_transforms(document: Any) -> bool:
    """Whether a template contains any transform."""
    if isinstance(document, list):
        return any(map(has_transforms, cast("list[Any]", document)))
    if not isinstance(document, Mapping):
        return False
    mapping = cast("Mapping[str, Any]", document)
    return bool(
        (mapping.get("Transform") and "Resources" in mapping) or "Fn::Transform" in mapping
    ) or any(map(has_transforms, mapping.values()))


# Documented: transform-reference.html.
_OF_AWS = ("AWS::SecretsManager-", "AWS::CodeDeployBlueGreen", "AWS::ServiceCatalog")


def expand(document: dict[str, Any], context: TransformContext) -> dict[str, Any]:
    """Return a template after its transforms. Raises TemplateError."""
    whole = _list_transforms(document.get("Transform"))
    expanded = cast(
        "dict[str, Any]", _inside({k: v for k, v in document.items() if k != "Transform"}, context)
    )
    for name, params in whole:
        if name == SERVERLESS:
            expanded = expand_serverless(expanded, context)
        elif name == language_extensions.NAME:
            expanded = language_extensions.expand(expanded, context.parameters)
        elif name == INCLUDE:
            expanded = {**expanded, **_include(params, context)}
        elif name.startswith(_OF_AWS):
            hint = "; name your own function by RotationLambdaARN" if "Secrets" in name else ""
            raise TransformFailed(f"headrace does not have AWS's transform {name}{hint}")
        else:
            expanded = _run_macro(name, params, expanded, context)
            if not isinstance(expanded, dict):  # recorded
                raise TransformFailed("Template format error: unsupported structure.")
    expanded.pop("Transform", None)
    if len(json.dumps(expanded)) > errors.PRODUCED_BYTES:
        raise TemplateError(
            f"Template error: transforms produce more than {errors.PRODUCED_BYTES:,} bytes, which headrace does"
            " not take"
        )
    return expanded


def _list_transforms(section: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the transforms in a template's Transform section, each with its parameters."""
    items = cast(
        "list[Any]", section if isinstance(section, list) else [section] if section else []
    )
    transforms: list[tuple[str, dict[str, Any]]] = []
    for item in items:
        if isinstance(item, str):
            transforms.append((item, {}))
        elif isinstance(item, Mapping) and "Name" in item:
            mapping = cast("Mapping[str, Any]", item)
            if not isinstance(mapping["Name"], str):  # recorded
                raise TemplateError("Key Name of transform definition must be a string.")
            transforms.append((mapping["Name"], dict(mapping.get("Parameters") or {})))
        else:
            raise TemplateError(
                "Template format error: Transform must be a name, or an object with a Name"
            )
    return transforms


def _inside(value: Any, context: TransformContext) -> Any:
    """Return a value in which every Fn::Transform is replaced by its result."""
    if isinstance(value, list):
        return [_inside(item, context) for item in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    mapping = cast("Mapping[str, Any]", value)
    expanded: Any = {k: _inside(v, context) for k, v in mapping.items() if k != "Fn::Transform"}
    for name, params in _list_transforms(mapping.get("Fn::Transform")):
        by_include = name == INCLUDE
        expanded = (
            {**expanded, **_include(params, context)}
            if by_include
            else _run_macro(name, params, expanded, context)
        )
    return expanded


def _include(params: Mapping[str, Any], context: TransformContext) -> dict[str, Any]:
    location = _plain(params.get("Location"), context)
    if not isinstance(location, str):
        raise TransformFailed(
            f"Transform {INCLUDE} failed with: The Location parameter must be an S3 address"
        )
    try:
        fragment = load(context.read(location))
    except TemplateError as error:
        raise TransformFailed(f"Transform {INCLUDE} failed with: {error}") from error
    if not isinstance(fragment, dict):
        raise TransformFailed(f"Transform {INCLUDE} failed with: {location} is not an object")
    return cast("dict[str, Any]", fragment)


def _run_macro(
    name: str, params: Mapping[str, Any], fragment: Any, context: TransformContext
) -> Any:
    event = {
        "region": context.region,
        "accountId": context.account,
        "transformId": f"{context.account}::{name}",
        "fragment": fragment,
        "params": {key: _plain(value, context) for key, value in params.items()},
        "templateParameterValues": {name: context.value_of(name) for name in context.parameters},
    }
    return context.run_macro(name, event).get("fragment")


def _plain(value: Any, context: TransformContext) -> Any:
    """Return a transform's parameter, in which Ref and Fn::Sub of template parameters are resolved (recorded)."""
    if not isinstance(value, Mapping):
        return value
    mapping = cast("Mapping[str, Any]", value)
    if set(mapping) == {"Ref"}:
        value = context.value_of(str(mapping["Ref"]))
        return mapping if value is None else value
    if set(mapping) == {"Fn::Sub"}:
        return _fill_sub(mapping["Fn::Sub"], context) or mapping
    return mapping


def _fill_sub(argument: Any, context: TransformContext) -> str | None:
    """Return the text of an Fn::Sub, or None when it refers to a resource."""
    text, variables = sub_parts(argument)
    partition = partition_of(context.region)
    known = {
        **context.parameters,
        "AWS::AccountId": context.account,
        "AWS::Partition": partition,
        "AWS::Region": context.region,
        "AWS::URLSuffix": URL_SUFFIXES[partition],
        **{name: _plain(one, context) for name, one in variables.items()},
    }
    values = {name: known.get(name) for name in sub_names(text)}
    if not all(isinstance(one, str) for one in values.values()):
        return None
    return substitute(text, values)


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
        if not has_transforms(template):
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
        return json.dumps(expand(template, context))

    def _run_macro(self, stack: Stack, name: str, event: dict[str, Any]) -> dict[str, Any]:
        function = self._function_of(stack, name)
        event["requestId"] = self._ids.uuid()
        failed = f"Transform {event['transformId']} failed"
        try:
            result = self._functions.invoke(function, json.dumps(event).encode())
        except (FunctionNotFound, FunctionThrottled) as error:
            raise TransformFailed(f"{failed}: {error}") from error
        try:
            answer: Any = parse_json(result.payload)
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


SERVERLESS = "AWS::Serverless-2016-10-31"
# The translator stores the region in a class attribute.
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Session:
    """A stand-in for a boto3 session, with the one member that the translator reads."""

    region_name: str


def _refuse_applications(document: Mapping[str, Any]) -> None:
    """Refuse applications of the Serverless Application Repository, which the translator would ask the real AWS for."""
    for name, resource in as_mapping(document.get("Resources")).items():
        members = as_mapping(resource)
        location = as_mapping(members.get("Properties")).get("Location")
        if members.get("Type") == "AWS::Serverless::Application" and isinstance(location, Mapping):
            application = cast("Mapping[str, Any]", location).get("ApplicationId")
            raise TransformFailed(
                f"Transform {SERVERLESS} failed with: headrace has no Serverless Application Repository, which {name}"
                f" takes {application} from. Give its Location the template itself: a local path for `sam package`,"
                " or its URL in a bucket"
            )


def expand_serverless(document: dict[str, Any], context: TransformContext) -> dict[str, Any]:
    """Return a template without SAM's resources. Raises TemplateError, with the translator's sentences."""
    try:
        # The import takes half a second; only stacks that use SAM pay for it.
        from samtranslator.model.exceptions import InvalidDocumentException
        from samtranslator.parser.parser import Parser
        from samtranslator.translator.translator import Translator
        from samtranslator.utils import py27hash_fix
    except ModuleNotFoundError as error:
        raise TemplateError(
            f"Transform {SERVERLESS} needs AWS's translator, which is not installed: {install_command('sam')}"
        ) from error

    _refuse_applications(document)
    values = dict(context.parameters)
    session: Any = _Session(context.region)
    with _LOCK:
        translator = Translator(None, Parser(), boto_session=session)
        try:
            py27hash_fix.to_py27_compatible_template(document, values)
            translated = translator.translate(
                document, parameter_values=values, get_managed_policy_map=context.policies
            )
        except InvalidDocumentException as error:
            causes = [str(cause.message) for cause in error.causes]
            shown = " ".join([str(error.message), *causes])
            raise TransformFailed(f"Transform {SERVERLESS} failed with: {shown}") from error
        finally:
            translator.metrics.publish()  # nobody receives the log
    return py27hash_fix.undo_mark_unicode_str_in_template(translated)
