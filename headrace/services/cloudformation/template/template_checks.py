"""Checks a template's form, names, references and AWS's quotas. Pure functions.

The sentences of the errors are AWS's, recorded or observed; those about mapping attributes, conditions and names that
are too long are assumed.

Capabilities: what a request must acknowledge when its template creates IAM resources.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.values import as_mapping
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.resources.base import SNAPSHOT, WITH_SNAPSHOTS
from headrace.services.cloudformation.template.function_checks import check_export, check_forms
from headrace.services.cloudformation.template.template import (
    PSEUDO_PARAMETERS,
    RESOURCE_KEYS,
    Template,
    conditions_in,
    in_circles,
    mentions,
    template_of,
)
from headrace.services.cloudformation.template.template_text import load

_AUTO_EXPAND = "CAPABILITY_AUTO_EXPAND"
_NAMED_IAM = {
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
}


def iam_resources(template: Template) -> list[Mapping[str, Any]]:
    """Return the template's IAM resources."""
    return [r for r in template.resources.values() if str(r["Type"]).startswith("AWS::IAM::")]


def find_needed_capability(template: Template) -> str:
    """Return the capability that a template needs, or an empty text."""
    iam = iam_resources(template)
    named = any(_NAMED_IAM.get(r["Type"], "") in r.get("Properties", {}) for r in iam)
    return "CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM" if iam else ""


def check_capabilities(template: Template, capabilities: list[str], *, is_change_set: bool) -> None:
    """Raise InsufficientCapabilitiesException when the request does not acknowledge IAM resources or transforms.

    Creating a change set needs no acknowledgement of transforms: it shows their result (documented: API_CreateStack).
    """
    if template.original and not is_change_set and _AUTO_EXPAND not in capabilities:
        raise AwsError(
            "InsufficientCapabilitiesException", f"Requires capabilities : [{_AUTO_EXPAND}]"
        )
    needed = find_needed_capability(template)
    if needed and needed not in capabilities and "CAPABILITY_NAMED_IAM" not in capabilities:
        raise AwsError("InsufficientCapabilitiesException", f"Requires capabilities : [{needed}]")


# The allowed policies for a deleted resource, and for a replaced one.
_POLICIES = {
    "DeletionPolicy": ("Delete", "Retain", "RetainExceptOnCreate", SNAPSHOT),
    "UpdateReplacePolicy": ("Delete", "Retain", SNAPSHOT),
}
# The types of parameters; AWS-specific and SSM types are matched by their forms.
_PLAIN_TYPES = ("String", "Number", "CommaDelimitedList", "List<Number>", "List<String>")
_AWS_TYPES = ("AWS::", "List<AWS::")
_PARAMETER_KEYS = frozenset(
    {
        "AllowedPattern", "AllowedValues", "ConstraintDescription", "Default", "Description", "MaxLength", "MaxValue",
        "MinLength", "MinValue", "NoEcho", "Type",
    }
)  # fmt: skip
_ATTRIBUTE = re.compile("[a-zA-Z0-9]+")


@functools.lru_cache(maxsize=4)
def parse(body: str) -> Template:
    """Return the checked template in `body`; callers share it and do not change it. Raises TemplateError."""
    template = template_of(body, load(body))
    _check_quotas(template)
    _check_parameters(template)
    _check_mappings(template)
    _check_conditions(template)
    _check_rules(template)
    _check_resources(template)
    _check_outputs(template)
    check_forms(template)
    _check_references(template)
    return template


def _check_quotas(template: Template) -> None:
    counts = len(template.resources), errors.RESOURCES
    if counts[0] > counts[1]:
        raise TemplateError(
            f"Template format error: Number of resources, {counts[0]}, is greater than maximum allowed, {counts[1]}"
        )
    for noun, section, most in (
        ("Parameter", template.parameters, errors.PARAMETERS),
        ("Outputs", template.outputs, errors.OUTPUTS),
        ("Mappings", template.mappings, errors.MAPPINGS),
    ):
        if len(section) > most:
            raise TemplateError(
                f"Template format error: {noun} count {len(section)} is greater than max allowed {most}"
            )
    if len(template.description.encode("utf-8", "surrogatepass")) > errors.DESCRIPTION_BYTES:
        raise TemplateError(
            f"Template format error: 'Description' length is greater than {errors.DESCRIPTION_BYTES}."
        )
    count = template.body.count("{{resolve:")
    if count > errors.DYNAMIC_REFERENCES:
        raise TemplateError(
            f"Template format error: Dynamic references count {count} is greater than max allowed"
            f" {errors.DYNAMIC_REFERENCES}"
        )


def _check_name(noun: str, name: str) -> None:
    if not (name.isascii() and name.isalnum()):
        raise TemplateError(f"Template format error: {noun} name {name} is non alphanumeric.")
    _check_length(noun, name)


def _check_length(noun: str, name: str) -> None:
    if len(name) > errors.NAME_CHARACTERS:
        raise TemplateError(
            f"Template format error: {noun} name {name[: errors.NAME_CHARACTERS]}... is longer than"
            f" {errors.NAME_CHARACTERS} characters."
        )


def _check_parameters(template: Template) -> None:
    for name, declaration in template.parameters.items():
        _check_name("Parameter", name)
        if not isinstance(as_mapping(declaration).get("Type"), str):
            raise TemplateError(
                "Template format error: Every Parameters object must contain a Type member."
            )
        for key in as_mapping(declaration).keys() - _PARAMETER_KEYS:
            # Observed for Type beside Properties: a resource in the Parameters section.
            raise TemplateError(f"Invalid template parameter property '{key}'")
        kind = str(as_mapping(declaration)["Type"])
        if kind not in _PLAIN_TYPES and not kind.startswith(_AWS_TYPES):
            # Documented: knowledge-center/cloudformation-template-validation.
            raise TemplateError(f"Template format error: Unrecognized parameter type: {kind}")
        if not isinstance(as_mapping(declaration).get("AllowedValues", []), list):
            raise TemplateError(f"Template format error: AllowedValues of {name} must be a list.")


def _check_mappings(template: Template) -> None:
    for name, mapping in template.mappings.items():
        _check_name("Mapping", name)
        if not isinstance(mapping, dict):
            raise TemplateError(
                f"Template format error: Every Mappings member {name} must be a map"
            )
        for key, values in as_mapping(mapping).items():
            _check_length("Mapping attribute", key)
            if not isinstance(values, dict):
                raise TemplateError(
                    f"Template format error: Every Mappings member {key} must be a map"
                )
            for attribute, value in as_mapping(values).items():
                _check_length("Mapping attribute", attribute)
                if not _ATTRIBUTE.fullmatch(attribute):
                    # Reported by many.
                    raise TemplateError(
                        f"Template format error: Mappings attribute name '{attribute}' must contain only alphanumeric"
                        " characters."
                    )
                plain = [value] if not isinstance(value, list) else cast("list[Any]", value)
                if any(isinstance(item, (dict, list)) for item in plain):
                    raise TemplateError(
                        "Template format error: Every Mappings attribute must be a String or a List."
                    )
        count = len(as_mapping(mapping))
        if count > errors.MAPPING_ATTRIBUTES:
            raise TemplateError(
                f"Template format error: Mapping {name} attributes count {count} is greater than max allowed"
                f" {errors.MAPPING_ATTRIBUTES}"
            )


def _check_conditions(template: Template) -> None:
    named: dict[str, set[str]] = {}
    for name, condition in template.conditions.items():
        _check_name("Condition", name)
        if not isinstance(condition, dict):
            raise TemplateError(
                "Template format error: Conditions can only be boolean operations on parameters and other conditions"
            )
        named[name] = set(conditions_in(condition))
        missing = named[name] - set(template.conditions)
        if missing:
            raise TemplateError(
                f"Template error: unresolved condition dependency {min(missing)} in Conditions block of the template"
            )
    circle = in_circles(named)
    if circle:
        raise TemplateError(
            f"Template error: Found circular condition dependency: {', '.join(circle)}"
        )


def _check_rules(template: Template) -> None:
    for name, rule in template.rules.items():
        assertions: Any = as_mapping(rule).get("Assertions")
        if not isinstance(assertions, list) or not all(
            "Assert" in as_mapping(one) for one in cast("list[Any]", assertions)
        ):
            raise TemplateError(
                f"Template format error: Rule {name} must contain Assertions, each with an Assert member."
            )


def _check_resources(template: Template) -> None:
    for name, definition in template.resources.items():
        _check_name("Resource", name)
        if not isinstance(definition, dict):
            raise TemplateError("Template format error: Any Resources member must be an object.")
        resource = as_mapping(definition)
        for key in resource.keys() - RESOURCE_KEYS:
            raise TemplateError(f"Invalid template resource property '{key}'")  # recorded
        where = f"Template format error: [/Resources/{name}"
        if not isinstance(resource.get("Type", ""), str):
            # Observed: aws-cloudformation/cfn-lint#1630.
            raise TemplateError(f"{where}] Every Type member must be a string.")
        if "Type" not in resource:
            raise TemplateError(f"{where}] Every Resources object must contain a Type member.")
        if not isinstance(resource.get("Properties", {}), dict):
            raise TemplateError(f"{where}/Properties] must be an object.")
        depends_on: Any = resource.get("DependsOn", [])
        names = cast("list[Any]", depends_on) if isinstance(depends_on, list) else [depends_on]
        if not all(isinstance(one, str) for one in names):
            raise TemplateError(f"{where}/DependsOn] must be a string or a list of strings.")
        _check_policies(name, resource)
        _check_condition(template, resource, "Resources")


def _check_policies(name: str, resource: Mapping[str, Any]) -> None:
    """Check a resource's deletion policies. Sentences: observed; the one for UpdateReplacePolicy is assumed."""
    for key, policies in _POLICIES.items():
        if key not in resource:
            continue
        policy: Any = resource[key]
        if not isinstance(policy, str):
            # Observed: awslabs/aws-servicebroker#22.
            raise TemplateError(f"Template format error: Every {key} member must be a string.")
        if policy not in policies:
            raise TemplateError(
                f"Template format error: Unrecognized {key} {policy} for resource {name}"
            )
        if policy == SNAPSHOT and resource["Type"] not in WITH_SNAPSHOTS:
            verb = "deletion" if key == "DeletionPolicy" else "update replace"
            raise TemplateError(
                f"Template error: resource type {resource['Type']} does not support {verb} policy {SNAPSHOT}"
            )


def _check_outputs(template: Template) -> None:
    for name, output in template.outputs.items():
        _check_name("Output", name)
        if "Value" not in as_mapping(output):
            raise TemplateError(
                "Template format error: Every Outputs member must contain a Value object"
            )
        if isinstance(as_mapping(output).get("Description"), (dict, list)):
            # The sentence's form is assumed.
            raise TemplateError("Template format error: Description must be a string.")
        if "Export" in as_mapping(output):
            check_export(name, as_mapping(as_mapping(output)["Export"]).get("Name", ""), template)
        _check_condition(template, as_mapping(output), "Outputs")


def _check_condition(template: Template, definition: Mapping[str, Any], block: str) -> None:
    condition = definition.get("Condition")
    if condition is None:
        return
    if not isinstance(condition, str) or condition not in template.conditions:
        raise TemplateError(
            f"Template format error: Unresolved condition dependency {condition} in the {block} block of the template"
        )


def _check_references(template: Template) -> None:
    """Raise TemplateError for names that refer to nothing, with AWS's sentence for each function."""
    known = {*template.resources, *template.parameters, *PSEUDO_PARAMETERS}
    for block in ("resources", "outputs"):
        unknown = [one for one in mentions(getattr(template, block)) if one[1] not in known]
        missing = {name for _, name, attribute in unknown if not attribute}
        if missing:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies [{', '.join(sorted(missing))}] in the"
                f" {block.title()} block of the template"
            )
        for function, name, attribute in unknown:
            what = f"undefined resource {name}"
            if function == "Fn::Sub":
                what = f"invalid resource attribute {name}.{attribute}"
            raise TemplateError(f"Template error: instance of {function} references {what}")
