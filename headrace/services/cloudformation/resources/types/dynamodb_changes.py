"""The changes of a DynamoDB table that keep its items: indexes, deletion protection, backups, encryption."""

from __future__ import annotations

from typing import Any, cast

from headrace.core.values import section
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import Context, Properties, boolean, without

Indexes = dict[str, dict[str, Any]]
# Observed by many (aws-cdk 14920, amplify-category-api 988).
_ONE_AT_A_TIME = "Cannot perform more than one GSI creation or deletion in a single update"
_FIXED = (
    "Cannot update GSI's properties other than Provisioned Throughput and Contributor Insights Specification."
    " You can create a new GSI with a different name."
)
_ATTRIBUTES = "AttributeDefinitions"


def edits_an_attribute(old: Properties, new: Properties) -> bool:
    """Whether an attribute gets another type, which replaces the table (documented: AttributeDefinitions)."""
    before, after = (
        {
            attribute["AttributeName"]: attribute["AttributeType"]
            for attribute in _read_list(one, _ATTRIBUTES)
        }
        for one in (old, new)
    )
    return any(after.get(name, kind) != kind for name, kind in before.items())


def _read_list(properties: Properties, name: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", properties.get(name) or [])


def _indexes(properties: Properties) -> Indexes:
    return {index["IndexName"]: index for index in _read_list(properties, "GlobalSecondaryIndexes")}


def change_indexes(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Delete the removed indexes, create the new ones, and set the capacity of the others.

    The properties have the API's types. Raises ResourceFailed, as AWS does, when an update creates or deletes two
    indexes, or changes the keys or projection of one.
    """
    before, after = _indexes(old), _indexes(new)
    if before == after:
        return
    # The table's actual indexes: in a rollback, some changes of the failed update were never made.
    there = _indexes(context.call("dynamodb", "DescribeTable", {"TableName": name})["Table"])
    fresh = [index_name for index_name in after if index_name not in there]
    gone = [index_name for index_name in before if index_name not in after and index_name in there]
    if len(fresh) > 1 or len(gone) > 1:
        raise ResourceFailed(_ONE_AT_A_TIME)
    kept = [index_name for index_name in after if index_name in there]
    if any(_form(after[index_name]) != _form(there[index_name]) for index_name in kept):
        raise ResourceFailed(_FIXED)
    changes: list[dict[str, Any]] = [{"Delete": {"IndexName": index_name}} for index_name in gone]
    changes += [{"Create": after[index_name]} for index_name in fresh]
    for index_name in kept:
        capacity = after[index_name].get("ProvisionedThroughput")
        if capacity and capacity != before.get(index_name, {}).get("ProvisionedThroughput"):
            update = {"IndexName": index_name, "ProvisionedThroughput": capacity}
            changes.append({"Update": update})
    for change in changes:
        params = {"TableName": name, "GlobalSecondaryIndexUpdates": [change]}
        context.call("dynamodb", "UpdateTable", {**params, _ATTRIBUTES: new[_ATTRIBUTES]})


def _form(index: dict[str, Any]) -> tuple[Any, ...]:
    """Return the parts of an index that cannot change."""
    projection = section(index, "Projection")
    names = sorted(projection.get("NonKeyAttributes") or [])
    return index.get("KeySchema"), projection.get("ProjectionType"), names


def set_protection(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Switch a table's deletion protection on or off."""
    before, after = (boolean(one.get("DeletionProtectionEnabled", False)) for one in (old, new))
    if before != after:
        params = {"TableName": name, "DeletionProtectionEnabled": after}
        context.call("dynamodb", "UpdateTable", params)


def set_backups(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Switch a table's point-in-time recovery on or off."""
    key = "PointInTimeRecoverySpecification"
    before, after = section(old, key), section(new, key)
    if before != after:
        recovery = {"PointInTimeRecoveryEnabled": False, **after}
        recovery["PointInTimeRecoveryEnabled"] = boolean(recovery["PointInTimeRecoveryEnabled"])
        params = {"TableName": name, key: recovery}
        context.call("dynamodb", "UpdateContinuousBackups", params)


def set_encryption(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Change a table's encryption; without one in the template, the table gets DynamoDB's own."""
    before, after = section(old, "SSESpecification"), section(new, "SSESpecification")
    if before != after:
        params = {"TableName": name, "SSESpecification": encryption(after)}
        context.call("dynamodb", "UpdateTable", params)


def encryption(specification: Properties) -> Properties:
    """Return a table's encryption in the API's form."""
    turned = {"Enabled": boolean(specification.get("SSEEnabled", False))}
    return {**without(specification, "SSEEnabled"), **turned}
