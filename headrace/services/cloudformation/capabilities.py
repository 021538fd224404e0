"""Capabilities: what a request must acknowledge because its template makes IAM resources."""

from __future__ import annotations

from headrace.aws.errors import AwsError
from headrace.services.cloudformation.template import Template

_NAMED_IAM = {
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
}


def check_capabilities(template: Template, given: list[str]) -> None:
    """Raise InsufficientCapabilitiesException when the template makes IAM resources unasked."""
    iam = [r for r in template.resources.values() if str(r["Type"]).startswith("AWS::IAM::")]
    if not iam or "CAPABILITY_NAMED_IAM" in given:
        return
    named = any(_NAMED_IAM.get(r["Type"], "") in r.get("Properties", {}) for r in iam)
    if named or "CAPABILITY_IAM" not in given:
        needed = "CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM"
        raise AwsError("InsufficientCapabilitiesException", f"Requires capabilities : [{needed}]")
