"""A parsed template: its sections as one value. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.services.cloudformation.errors import TemplateError

# The only version (documented: format-version-structure).
VERSION = "2010-09-09"
SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion",
        "Description",
        "Metadata",
        "Parameters",
        "Rules",
        "Mappings",
        "Conditions",
        "Transform",
        "Resources",
        "Outputs",
        "Hooks",
    }
)
RESOURCE_KEYS = frozenset(
    {
        "Type",
        "Properties",
        "DependsOn",
        "Condition",
        "Metadata",
        "CreationPolicy",
        "DeletionPolicy",
        "UpdatePolicy",
        "UpdateReplacePolicy",
        "Version",
    }
)
PSEUDO_PARAMETERS = frozenset(
    {
        "AWS::AccountId",
        "AWS::NotificationARNs",
        "AWS::NoValue",
        "AWS::Partition",
        "AWS::Region",
        "AWS::StackId",
        "AWS::StackName",
        "AWS::URLSuffix",
    }
)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; a section that is missing is empty."""

    body: str
    description: str
    parameters: Mapping[str, Any]
    rules: Mapping[str, Any]
    mappings: Mapping[str, Any]
    conditions: Mapping[str, Any]
    resources: Mapping[str, Any]
    outputs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    version: str
    # The text from which transforms produced `body`; empty without transforms.
    original: str = ""

    @classmethod
    def empty(cls, body: str) -> Template:
        """Return an empty template, for a text that could not be read or transformed."""
        return cls(body, "", {}, {}, {}, {}, {}, {}, {}, "")


def template_of(body: str, value: Any) -> Template:
    """Return the template in `value`, the loaded `body`, without checking its sections. Raises TemplateError."""
    if not isinstance(value, dict):
        raise TemplateError("Template format error: unsupported structure.")
    template = cast("dict[str, Any]", value)
    unknown = sorted(set(template) - SECTIONS)
    if unknown:
        raise TemplateError(f"Invalid template property or properties [{', '.join(unknown)}]")
    if not isinstance(template.get("Resources", {}), dict):
        raise TemplateError("Template format error: Any Resources member must be an object.")
    resources = _section(template, "Resources")
    if not resources:
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    return Template(
        body=body,
        description=_description(template),
        parameters=_section(template, "Parameters"),
        rules=_section(template, "Rules"),
        mappings=_section(template, "Mappings"),
        conditions=_section(template, "Conditions"),
        resources=resources,
        outputs=_section(template, "Outputs"),
        metadata=_section(template, "Metadata"),
        version=_version(template),
    )


def _description(template: dict[str, Any]) -> str:
    value: Any = template.get("Description", "")
    if not isinstance(value, str):
        raise TemplateError("Template format error: Every Description member must be a string.")
    return value


def _version(template: dict[str, Any]) -> str:
    version = str(template.get("AWSTemplateFormatVersion", ""))
    if version not in ("", VERSION):
        # Reported by many.
        raise TemplateError(
            f"Template format error: {version} is not a supported value for AWSTemplateFormatVersion"
        )
    return version


def _section(template: dict[str, Any], name: str) -> Mapping[str, Any]:
    value: Any = template.get(name) or {}
    if not isinstance(value, dict):
        raise TemplateError(f"Template format error: {name} must be an object.")
    return cast("dict[str, Any]", value)
