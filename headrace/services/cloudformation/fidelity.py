"""What CloudFormation accepts without acting on it: request parameters and resource properties."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from headrace.core.ports import FidelityLevel
from headrace.services.cloudformation.deployment.alias_deployments import ALIAS, POLICY
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources import resource_type
from headrace.services.cloudformation.resources.base import ResourceType
from headrace.services.cloudformation.signals import SIGNALLED
from headrace.services.cloudformation.template.template import Template

log = logging.getLogger(__name__)

_DROPPED: dict[str, FidelityLevel] = dict.fromkeys(
    ("DeploymentConfig.Mode", "DisableValidation"), "ignored"
)
FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateStack": {
        **_DROPPED,
    },
    "UpdateStack": {
        **_DROPPED,
    },
    "DeleteStack": {
        "DeploymentConfig": "ignored",
    },
    "ContinueUpdateRollback": {"ForceRollback": "ignored", "RoleARN": "ignored"},
    "RollbackStack": {
        "DeploymentConfig": "ignored",
        "RoleARN": "ignored",
    },
    "CreateChangeSet": {
        "DeploymentConfig": "stored",
        "DisableValidation": "ignored",
        # A nested stack is shown as one change, without the changes in it.
        "IncludeNestedStacks": "stored",
    },
    # AWS's own types have one version and no publisher.
    **{
        # Stacks are worked on one after another.
        name: dict.fromkeys(
            (
                "OperationPreferences.MaxConcurrentCount",
                "OperationPreferences.MaxConcurrentPercentage",
                "OperationPreferences.RegionConcurrencyType",
                "OperationPreferences.ConcurrencyMode",
            ),
            "stored",
        )
        for name in (
            "UpdateStackSet",
            "CreateStackInstances",
            "UpdateStackInstances",
            "DeleteStackInstances",
        )
    },
    "DescribeType": {
        "VersionId": "ignored",
        "PublisherId": "ignored",
        "PublicVersionNumber": "ignored",
    },
    "ListTypeVersions": {"PublisherId": "ignored"},
    "GetTemplateSummary": {
        "CallAs": "ignored",
        "StackSetName": "ignored",
        "TemplateSummaryConfig": "ignored",
    },
}


_JUDGED = "headrace iam report judges it, and --iam enforce enforces it"
# What stored properties do nevertheless.
_REMARKS = {
    **dict.fromkeys(
        (
            "AssumeRolePolicyDocument", "InstanceProfile", "JobFlowRole", "ManagedPolicyArns", "PermissionsBoundary",
            "Policies", "PolicyDocument", "ResourcePolicy", "Role", "RoleARN", "RoleArn", "Roles", "ServiceRole",
        ),
        _JUDGED,
    ),
    "ReleaseLabel": "it chooses the Spark that runs, which is PyPI's instead of Amazon's",
}  # fmt: skip


def fidelity_of(template: Template) -> list[dict[str, str]]:
    """Return each property in `template` that is not enforced, with its level and any remark."""
    rows: list[dict[str, str]] = []
    for logical_id, resource in template.resources.items():
        kind = resource_type(str(resource["Type"]))
        if kind is None:
            continue
        properties = resource.get("Properties", {})
        remarks: Mapping[str, str] = {}
        if kind.remark is not None:
            remarks = kind.remark(properties)
        levels = {name: kind.properties.get(name, "enforced") for name in properties}
        for name, remark in remarks.items():
            if levels.get(name, "enforced") != "enforced":
                continue  # The row of the property's level says it.
            rows.append(
                {
                    "resource": logical_id,
                    "type": kind.name,
                    "property": name,
                    "level": "stored",
                    "remark": remark,
                }
            )
        dropped = _list_dropped(kind, properties)
        rows += [
            {"resource": logical_id, "type": kind.name, "property": path, "level": "ignored"}
            for path in (*dropped, *_policies_dropped(kind.name, resource))
        ]
        for name, level in levels.items():
            remark = remarks.get(name) or _REMARKS.get(name)
            if level != "enforced":
                rows.append(
                    {
                        "resource": logical_id,
                        "type": kind.name,
                        "property": name,
                        "level": level,
                        **({"remark": remark} if remark else {}),
                    }
                )
    return rows


def _list_dropped(kind: ResourceType, properties: dict[str, Any]) -> Sequence[str]:
    try:
        return kind.dropped(properties) if kind.dropped is not None else ()
    except ResourceFailed:
        return ()  # The value has the wrong type; the resource fails with that error when it is created.


def _policies_dropped(kind: str, resource: Mapping[str, Any]) -> list[str]:
    """Return a resource's policies that have no effect: rolling updates, and signals to other types."""
    updates: Any = resource.get("UpdatePolicy")
    dropped = [
        f"UpdatePolicy.{name}"
        for name in (cast("dict[str, Any]", updates) if isinstance(updates, dict) else {})
        if not (kind == ALIAS and name == POLICY)
    ]
    if "CreationPolicy" in resource and kind not in SIGNALLED:
        dropped.append("CreationPolicy")
    return dropped


def log_ignored(stack_name: str, template: Template) -> None:
    """Log which properties of a template are ignored."""
    rows = [row for row in fidelity_of(template) if row["level"] == "ignored"]
    if rows:
        shown = ", ".join(f"{row['resource']}.{row['property']}" for row in rows)
        log.warning("stack %s: ignored properties: %s", stack_name, shown)


_EACH_STACK = "each instance's stack has DetectStackDrift."
_READ_BACK = "ListResources and GetResource of the Cloud Control API read resources back."
_OTHER_TYPES = "a custom resource (Custom::) or a macro does what a type of your own would."
# What to do instead of operations that are not here.
INSTEAD: Mapping[str, str] = {
    "CreateStackRefactor": "retain the resource (DeletionPolicy), remove it, and import it under its new name"
    " (cdk import, or a change set of the type IMPORT).",
    "DetectStackSetDrift": _EACH_STACK,
    "ListStackInstanceResourceDrifts": _EACH_STACK,
    "ImportStacksToStackSet": "delete the stacks, and create them as instances (CreateStackInstances).",
    "CreateGeneratedTemplate": _READ_BACK,
    "StartResourceScan": _READ_BACK,
    "RegisterType": _OTHER_TYPES,
    "ActivateType": _OTHER_TYPES,
    "DescribeEvents": "DescribeStackEvents has a stack's events.",
    "EstimateTemplateCost": "`headrace plan` estimates what a load costs in a month.",
}
