"""StackSets with self-managed permissions: sets and their instances; `stack_set_operations.py` shows the operations.

Errors' codes are the model's; their sentences are observed by many, where not marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes import cloudformation as shapes
from headrace.core.arn import is_account_id
from headrace.core.values import BadMarker, get_list, get_mapping, page_of, present
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.cloudformation.errors import PAGE_ITEMS, TemplateError, validation_error
from headrace.services.cloudformation.stack_sets import (
    Action,
    SetOperation,
    StackInstance,
    StackSet,
    count_tolerated,
    order_targets,
)
from headrace.services.cloudformation.template.template_checks import parse

_T = TypeVar("_T")
_NAME = re.compile("[a-zA-Z][-a-zA-Z0-9]{0,127}")
_KEPT = (
    "Description",
    "Capabilities",
    "Tags",
    "AdministrationRoleARN",
    "ExecutionRoleName",
    "ManagedExecution",
)
InstanceRequest = (
    shapes.CreateStackInstancesInput
    | shapes.UpdateStackInstancesInput
    | shapes.DeleteStackInstancesInput
)


def _refuse_organizations(request: Mapping[str, Any]) -> None:
    """Refuse what needs an organization, by name."""
    if request.get("PermissionModel") == "SERVICE_MANAGED" or request.get("AutoDeployment"):
        raise validation_error(
            "headrace has StackSets with self-managed permissions only: service-managed ones need AWS Organizations"
        )
    if request.get("CallAs") == "DELEGATED_ADMIN":
        raise validation_error(
            "headrace has no delegated administrators of StackSets: they need AWS Organizations"
        )
    for name in (
        "StackSetOutputBucket",
        "StackId",
        "ExecutionRoleTemplateBody",
        "ExecutionRoleTemplateUrl",
        "UseAdminExecutionRole",
    ):
        if request.get(name):
            raise validation_error(f"headrace does not implement {name} of StackSets")


def find_stack_set(cfn: CloudFormation, call: Call, name: str) -> StackSet:
    """Return a set of the caller's. Raises StackSetNotFoundException."""
    stack_set = cfn.stack_sets.find(call.account, call.region, name)
    if stack_set is None:
        raise AwsError("StackSetNotFoundException", f"StackSet {name} not found", 404)
    return stack_set


def cut_page(items: Iterable[_T], request: Mapping[str, Any]) -> tuple[list[_T], str | None]:
    """Return the page that a request asks for, and the next one's token. Raises ValidationError."""
    try:
        return page_of(items, request.get("NextToken"), request.get("MaxResults") or PAGE_ITEMS)
    except BadMarker:
        raise validation_error("The specified NextToken is invalid.") from None  # assumed


def _settings(
    cfn: CloudFormation,
    request: shapes.CreateStackSetInput | shapes.UpdateStackSetInput,
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings that a request makes of the ones before. Raises AwsError, TemplateError.

    As for stacks, parameters that are not named are gone; other members that are missing stay.
    """
    used = request.get("UsePreviousTemplate")
    body = str(before["TemplateBody"]) if used else cfn.read_template(request)
    declared = parse(body).parameters
    previous = {p["ParameterKey"]: p["ParameterValue"] for p in before.get("Parameters", ())}
    values: dict[str, str] = {}
    for parameter in get_list(request, "Parameters"):
        key = parameter["ParameterKey"]
        if key not in declared:
            raise validation_error(f"Parameters: [{key}] do not exist in the template")
        old = previous.get(key) if parameter.get("UsePreviousValue") else None
        value = parameter.get("ParameterValue", old)
        if value is not None:
            values[key] = value
    missing = sorted(k for k, d in declared.items() if "Default" not in d and k not in values)
    if missing:
        raise validation_error(f"Parameters: [{', '.join(missing)}] must have values")
    return {
        **{name: before[name] for name in _KEPT if name in before},
        **{name: value for name, value in request.items() if name in _KEPT},
        "TemplateBody": body,
        "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in values.items()],
    }


@operation("CreateStackSet")
def create_stack_set(
    cfn: CloudFormation, call: Call, request: shapes.CreateStackSetInput
) -> shapes.CreateStackSetOutput:
    """Create a set without instances. Source: API_CreateStackSet."""
    name = request["StackSetName"]
    if _NAME.fullmatch(name) is None:
        raise TemplateError(
            f"1 validation error detected: Value '{name[:1000]}' at 'stackSetName' failed to satisfy constraint: Member"
            " must satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]{0,127}"
        )
    _refuse_organizations(request)
    settings = _settings(cfn, request, {})
    with cfn.lock:
        if cfn.stack_sets.find(call.account, call.region, name) is not None:
            raise AwsError("NameAlreadyExistsException", f"StackSet {name} already exists", 409)
        one_set = StackSet(f"{name}:{cfn.ids.uuid()}", name, call.account, call.region, settings)
        cfn.stack_sets.save(one_set)
    return {"StackSetId": one_set.set_id}


@operation("UpdateStackSet")
def update_stack_set(
    cfn: CloudFormation, call: Call, request: shapes.UpdateStackSetInput
) -> shapes.UpdateStackSetOutput:
    """Change a set, and the stacks of its instances in the background. Source: API_UpdateStackSet.

    With Accounts and Regions only these are updated; the others are then OUTDATED.
    """
    _refuse_organizations(request)
    with cfn.lock:
        one_set = find_stack_set(cfn, call, request["StackSetName"])
        _check_idle(cfn, one_set, request)
        settings = _settings(cfn, request, one_set.settings)
        instances = cfn.stack_sets.instances(one_set)
        accounts = set(_accounts(request)) or {i.account for i in instances}
        regions = set(get_list(request, "Regions")) or {i.region for i in instances}
        _check_role(cfn, one_set, settings)
        one_set.settings = settings
        cfn.stack_sets.save(one_set)
        chosen = [i for i in instances if i.account in accounts and i.region in regions]
        for instance in instances:
            instance.status = "OUTDATED"
            if instance in chosen:
                instance.detailed = "PENDING"
            cfn.stack_sets.save(instance)
        return {"OperationId": _start(cfn, call, one_set, "UPDATE", chosen, request)}


@operation("DeleteStackSet")
def delete_stack_set(cfn: CloudFormation, call: Call, request: shapes.DeleteStackSetInput) -> None:
    """Delete a set that has no instances. Source: API_DeleteStackSet."""
    with cfn.lock:
        one_set = find_stack_set(cfn, call, request["StackSetName"])
        _check_idle(cfn, one_set, {})
        if cfn.stack_sets.instances(one_set):
            raise AwsError("StackSetNotEmptyException", "StackSet is not empty", 409)
        one_set.deleted = True
        cfn.stack_sets.save(one_set)


@operation("DescribeStackSet")
def describe_stack_set(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackSetInput
) -> shapes.DescribeStackSetOutput:
    """Return a set. Source: API_DescribeStackSet."""
    one_set = find_stack_set(cfn, call, request["StackSetName"])
    settings = one_set.settings
    regions = {instance.region: None for instance in cfn.stack_sets.instances(one_set)}
    described: Any = {
        "StackSetName": one_set.name,
        "StackSetId": one_set.set_id,
        "StackSetARN": one_set.arn,
        "Status": "ACTIVE",
        "PermissionModel": "SELF_MANAGED",
        "Capabilities": [],
        "Tags": [],
        "ManagedExecution": {"Active": False},
        **settings,
        "AdministrationRoleARN": one_set.administration_role,
        "ExecutionRoleName": one_set.execution_role,
        "OrganizationalUnitIds": [],
        "Regions": list(regions),
    }
    return {"StackSet": described}


@operation("ListStackSets")
def list_stack_sets(
    cfn: CloudFormation, call: Call, request: shapes.ListStackSetsInput
) -> shapes.ListStackSetsOutput:
    """Return the account's sets of a region, deleted ones too. Source: API_ListStackSets."""
    rows = [
        present(
            {
                "StackSetName": one_set.name,
                "StackSetId": one_set.set_id,
                "Description": one_set.settings.get("Description"),
                "Status": "DELETED" if one_set.deleted else "ACTIVE",
                "PermissionModel": "SELF_MANAGED",
                "DriftStatus": "NOT_CHECKED",
                "ManagedExecution": one_set.settings.get("ManagedExecution", {"Active": False}),
            }
        )
        for one_set in cfn.stack_sets.of(call.account, call.region)
    ]
    status = request.get("Status")
    page, token = cut_page([r for r in rows if status in (None, r["Status"])], request)
    return present({"Summaries": page, "NextToken": token})


# --- instances --------------------------------------------------------------------------------


def _accounts(request: InstanceRequest | shapes.UpdateStackSetInput) -> list[str]:
    targets = get_mapping(request, "DeploymentTargets")
    if targets.get("OrganizationalUnitIds") or targets.get("AccountsUrl"):
        raise validation_error(
            "StackSets with SELF_MANAGED permission model can only have accounts as target"
        )  # assumed
    accounts = [*get_list(request, "Accounts"), *get_list(targets, "Accounts")]
    for account in accounts:
        if not is_account_id(account):
            raise validation_error(f"{account} is not a valid account id")  # assumed
    return accounts


def _check_idle(cfn: CloudFormation, one_set: StackSet, request: Mapping[str, Any]) -> None:
    """Refuse a second operation at a time, and an operation id that was used."""
    for one in cfn.stack_sets.operations(one_set):
        if one.operation_id == request.get("OperationId"):
            raise AwsError(
                "OperationIdAlreadyExistsException",
                f"Operation ID {one.operation_id} already exists",
                409,
            )
        if one.status in ("RUNNING", "STOPPING"):
            raise AwsError(
                "OperationInProgressException",
                f"Another Operation on StackSet {one_set.arn} is in progress: {one.operation_id}",
                409,
            )


def _check_role(cfn: CloudFormation, one_set: StackSet, settings: Mapping[str, Any]) -> None:
    arn = settings.get("AdministrationRoleARN") or one_set.administration_role
    name = arn.rpartition("/")[2]
    if not cfn.stack_sets.has_role(one_set.account, name):
        raise validation_error(
            f"Account {one_set.account} should have '{name}' role with trust relationship to CloudFormation service."
        )


def _start(
    cfn: CloudFormation,
    call: Call,
    one_set: StackSet,
    action: Action,
    instances: list[StackInstance],
    request: InstanceRequest | shapes.UpdateStackSetInput,
) -> str:
    preferences = get_mapping(request, "OperationPreferences")
    accounts = {instance.account for instance in instances}
    operation_id = request.get("OperationId") or cfn.ids.uuid()
    here = {(i.account, i.region) for i in instances}
    ordered = order_targets(sorted(accounts), [i.region for i in instances], preferences)
    cfn.stack_sets.start(
        one_set,
        SetOperation(
            operation_id,
            one_set.set_id,
            action,
            call.now_ms,
            [target for target in ordered if tuple(target) in here],
            tolerated=count_tolerated(preferences, len(accounts)),
            retain=bool(request.get("RetainStacks")),
            preferences=preferences,
        ),
    )
    return operation_id


def _choose(
    cfn: CloudFormation, call: Call, request: InstanceRequest
) -> tuple[StackSet, dict[tuple[str, str], StackInstance | None]]:
    """Return the set and, by account and region, the instances that a request names; None where there is none yet.

    Raises AwsError.
    """
    one_set = find_stack_set(cfn, call, request["StackSetName"])
    _check_idle(cfn, one_set, request)
    accounts, regions = _accounts(request), get_list(request, "Regions")
    if not accounts or not regions:
        raise validation_error("Accounts and Regions must not be empty")  # assumed
    _check_role(cfn, one_set, one_set.settings)
    instances = {(i.account, i.region): i for i in cfn.stack_sets.instances(one_set)}
    return one_set, {
        (account, region): instances.get((account, region))
        for account, region in order_targets(accounts, regions, {})
    }


@operation("CreateStackInstances")
def create_stack_instances(
    cfn: CloudFormation, call: Call, request: shapes.CreateStackInstancesInput
) -> shapes.CreateStackInstancesOutput:
    """Create the set's stack in accounts and regions, in the background. Source: API_CreateStackInstances.

    Where there is one already, it gets the set's present template (documented).
    """
    with cfn.lock:
        one_set, chosen = _choose(cfn, call, request)
        instances: list[StackInstance] = []
        for target, known in chosen.items():
            if known is None:
                name = f"StackSet-{one_set.name}-{cfn.ids.uuid()}"
                known = StackInstance(one_set.set_id, *target, name)
            instances.append(known)
        _mark(cfn, instances, request.get("ParameterOverrides"))
        return {"OperationId": _start(cfn, call, one_set, "CREATE", instances, request)}


def _mark(cfn: CloudFormation, instances: list[StackInstance], overrides: list[Any] | None) -> None:
    """Store that an operation waits for instances; with `overrides`, these are their parameters from now on."""
    for instance in instances:
        if overrides is not None:
            kept = {p["ParameterKey"]: p["ParameterValue"] for p in instance.overrides}
            instance.overrides = [_override(parameter, kept) for parameter in overrides]
        instance.detailed = "PENDING"
        cfn.stack_sets.save(instance)


def _override(parameter: Mapping[str, Any], kept: Mapping[str, str]) -> dict[str, str]:
    key = str(parameter.get("ParameterKey"))
    is_kept = parameter.get("UsePreviousValue")
    value = kept.get(key, "") if is_kept else str(parameter.get("ParameterValue", ""))
    return {"ParameterKey": key, "ParameterValue": value}


@operation("UpdateStackInstances")
def update_stack_instances(
    cfn: CloudFormation, call: Call, request: shapes.UpdateStackInstancesInput
) -> shapes.UpdateStackInstancesOutput:
    """Change the parameters of instances, in the background. Source: API_UpdateStackInstances."""
    with cfn.lock:
        one_set, chosen = _choose(cfn, call, request)
        instances: list[StackInstance] = []
        for target, known in chosen.items():
            if known is None:
                raise _instance_not_found(one_set, *target)
            instances.append(known)
        _mark(cfn, instances, request.get("ParameterOverrides"))
        return {"OperationId": _start(cfn, call, one_set, "UPDATE", instances, request)}


@operation("DeleteStackInstances")
def delete_stack_instances(
    cfn: CloudFormation, call: Call, request: shapes.DeleteStackInstancesInput
) -> shapes.DeleteStackInstancesOutput:
    """Delete instances, and their stacks unless RetainStacks. Source: API_DeleteStackInstances."""
    with cfn.lock:
        one_set, chosen = _choose(cfn, call, request)
        instances = [known for known in chosen.values() if known is not None]
        _mark(cfn, instances, None)
        return {"OperationId": _start(cfn, call, one_set, "DELETE", instances, request)}


def _instance_not_found(one_set: StackSet, account: str, region: str) -> AwsError:
    return AwsError(
        "StackInstanceNotFoundException",
        f"Stack instance not found for StackSet {one_set.name}, account {account}, region {region}",  # assumed
        404,
    )


def _row(instance: StackInstance) -> dict[str, Any]:
    return present(
        {
            "StackSetId": instance.set_id,
            "Region": instance.region,
            "Account": instance.account,
            "StackId": instance.stack_id or None,
            "Status": instance.status,
            "StatusReason": instance.reason or None,
            "StackInstanceStatus": {"DetailedStatus": instance.detailed},
            "OrganizationalUnitId": "",
            "DriftStatus": "NOT_CHECKED",
            "LastOperationId": instance.operation_id or None,
        }
    )


@operation("DescribeStackInstance")
def describe_stack_instance(
    cfn: CloudFormation, call: Call, request: shapes.DescribeStackInstanceInput
) -> shapes.DescribeStackInstanceOutput:
    """Return an instance. Source: API_DescribeStackInstance."""
    one_set = find_stack_set(cfn, call, request["StackSetName"])
    target = request["StackInstanceAccount"], request["StackInstanceRegion"]
    for instance in cfn.stack_sets.instances(one_set):
        if (instance.account, instance.region) == target:
            row: Any = {**_row(instance), "ParameterOverrides": instance.overrides}
            return {"StackInstance": row}
    raise _instance_not_found(one_set, *target)


@operation("ListStackInstances")
def list_stack_instances(
    cfn: CloudFormation, call: Call, request: shapes.ListStackInstancesInput
) -> shapes.ListStackInstancesOutput:
    """Return a set's instances. Source: API_ListStackInstances."""
    account, region = request.get("StackInstanceAccount"), request.get("StackInstanceRegion")
    rows = [
        _row(instance)
        for instance in cfn.stack_sets.instances(find_stack_set(cfn, call, request["StackSetName"]))
        if account in (None, instance.account) and region in (None, instance.region)
    ]
    for one in get_list(request, "Filters"):
        member = {
            "LAST_OPERATION_ID": "LastOperationId",
            "DRIFT_STATUS": "DriftStatus",
            "DETAILED_STATUS": "StackInstanceStatus",
        }[one["Name"]]
        values = one["Values"].split(",")
        rows = [
            row
            for row in rows
            if (
                row[member]["DetailedStatus"]
                if member == "StackInstanceStatus"
                else row.get(member)
            )
            in values
        ]
    page, token = cut_page(rows, request)
    return present({"Summaries": page, "NextToken": token})
