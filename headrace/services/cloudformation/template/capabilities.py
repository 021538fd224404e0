"""Capabilities: what a request must acknowledge when its template creates IAM resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.template.template import Template

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
