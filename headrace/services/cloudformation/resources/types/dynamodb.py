"""DynamoDB tables and global tables; a global table has only the replica in the stack's own region.

The changes of a DynamoDB table that keep its items: indexes, deletion protection, backups, encryption.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.core.values import section
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
    ignored,
    stored,
    tag_list,
    without,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

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


_INSIGHTS = "ContributorInsightsSpecification"
_NUMBERS = frozenset({"ReadCapacityUnits", "WriteCapacityUnits"})


def _convert_types(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _convert_types(item, key) for key, item in items if key != _INSIGHTS}
    if isinstance(value, list):
        return [_convert_types(item) for item in cast("list[Any]", value)]
    return int(value) if name in _NUMBERS else value


def _create(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("TableName") or context.generate_name(255)
    params: dict[str, Any] = {
        key: _convert_types(properties[key], key)
        for key in (
            "AttributeDefinitions",
            "BillingMode",
            "GlobalSecondaryIndexes",
            "KeySchema",
            "LocalSecondaryIndexes",
            "ProvisionedThroughput",
        )
        if key in properties
    }
    params["TableName"] = name
    params.setdefault("BillingMode", "PROVISIONED")
    if "StreamSpecification" in properties:
        view = properties["StreamSpecification"]["StreamViewType"]
        params["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view}
    if sse := section(properties, "SSESpecification"):
        params["SSESpecification"] = encryption(sse)
    if tags := tag_list(properties, context):
        params["Tags"] = tags
    context.call("dynamodb", "CreateTable", params)
    context.note_made(name)
    _set_time_to_live(context, name, {}, properties)
    _set_destination(context, name, {}, properties)
    set_backups(context, name, {}, properties)
    set_protection(context, name, {}, properties)
    return _build_result(context, name)


def _build_result(context: Context, name: str) -> ResourceResult:
    table = context.call("dynamodb", "DescribeTable", {"TableName": name})["Table"]
    attributes = {"Arn": table["TableArn"]}
    if table.get("TableId"):
        attributes["TableId"] = table["TableId"]
    if table.get("LatestStreamArn"):
        attributes["StreamArn"] = table["LatestStreamArn"]
    return ResourceResult(name, attributes)


def _set_time_to_live(context: Context, name: str, old: Properties, new: Properties) -> None:
    ttl = new.get("TimeToLiveSpecification")
    if ttl and ttl != old.get("TimeToLiveSpecification"):
        context.call(
            "dynamodb",
            "UpdateTimeToLive",
            {
                "TableName": name,
                "TimeToLiveSpecification": {
                    **without(ttl, "Enabled"),
                    "Enabled": boolean(ttl.get("Enabled", True)),
                },
            },
        )


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    if new.get("ProvisionedThroughput") != old.get("ProvisionedThroughput") or (
        new.get("BillingMode") != old.get("BillingMode")
    ):
        params: dict[str, Any] = {
            "TableName": physical_id,
            "BillingMode": new.get("BillingMode", "PROVISIONED"),
        }
        if "ProvisionedThroughput" in new:
            params["ProvisionedThroughput"] = _convert_types(new["ProvisionedThroughput"])
        context.call("dynamodb", "UpdateTable", params)
    change_indexes(
        context,
        physical_id,
        cast("Properties", _convert_types(old)),
        cast("Properties", _convert_types(new)),
    )
    set_protection(context, physical_id, old, new)
    set_backups(context, physical_id, old, new)
    set_encryption(context, physical_id, old, new)
    _set_time_to_live(context, physical_id, old, new)
    _set_stream(context, physical_id, old, new)
    _set_destination(context, physical_id, old, new)
    return _build_result(context, physical_id)


def _set_stream(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Switch a table's stream on or off; another view type needs the stream off in between, as on AWS."""
    before = section(old, "StreamSpecification").get("StreamViewType")
    after = section(new, "StreamSpecification").get("StreamViewType")
    if before == after:
        return
    if before:
        off = {"TableName": name, "StreamSpecification": {"StreamEnabled": False}}
        context.call("dynamodb", "UpdateTable", off)
    if after:
        on = {"StreamEnabled": True, "StreamViewType": after}
        context.call("dynamodb", "UpdateTable", {"TableName": name, "StreamSpecification": on})


def _set_destination(context: Context, name: str, old: Properties, new: Properties) -> None:
    """Send a table's changes to the Kinesis stream that the template names."""
    before = section(old, "KinesisStreamSpecification")
    after = section(new, "KinesisStreamSpecification")
    if before == after:
        return
    member = "ApproximateCreationDateTimePrecision"
    table = {"TableName": name, "StreamArn": after.get("StreamArn")}
    precision = {member: after[member]} if after.get(member) else {}
    if before and before.get("StreamArn") == after.get("StreamArn"):
        if precision:
            configuration = {"UpdateKinesisStreamingConfiguration": precision}
            context.call(
                "dynamodb", "UpdateKinesisStreamingDestination", {**table, **configuration}
            )
        return
    if before:
        gone = {"TableName": name, "StreamArn": before["StreamArn"]}
        context.delete_if_exists(
            "dynamodb", "DisableKinesisStreamingDestination", gone, "ResourceNotFoundException"
        )
    if after:
        configuration = {"EnableKinesisStreamingConfiguration": precision} if precision else {}
        context.call("dynamodb", "EnableKinesisStreamingDestination", {**table, **configuration})


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"TableName": physical_id}
    context.delete_if_exists("dynamodb", "DeleteTable", params, "ResourceNotFoundException")


# --- global tables ------------------------------------------------------------------------------


def _replica(properties: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return a global table's replica in a region. Raises ResourceFailed."""
    replicas: list[dict[str, Any]] = properties.get("Replicas") or []
    replica = next((one for one in replicas if one.get("Region") == region), None)
    if replica is None:
        # Documented: the stack's own region must be among them; the sentence is assumed.
        raise ResourceFailed(f"Global Table must include a replica in the stack's region {region}.")
    return replica


def _as_table(context: Context, properties: Properties) -> Properties:
    """Return the properties of the table that is a global table's replica in the stack's region."""
    replica = _replica(properties, context.region)
    table = without(
        properties, "Replicas", "WriteProvisionedThroughputSettings", "SSESpecification"
    )
    table["BillingMode"] = properties.get("BillingMode", "PROVISIONED")
    for name in (
        "Tags",
        "KinesisStreamSpecification",
        "DeletionProtectionEnabled",
        "PointInTimeRecoverySpecification",
    ):
        if replica.get(name):
            table[name] = replica[name]
    indexes: list[dict[str, Any]] = properties.get("GlobalSecondaryIndexes") or []
    keys = ("IndexName", "KeySchema", "Projection")
    table["GlobalSecondaryIndexes"] = [
        {key: index[key] for key in keys if key in index} for index in indexes
    ]
    if table["BillingMode"] == "PROVISIONED":
        table["ProvisionedThroughput"] = _throughput(properties, replica)
        for index in table["GlobalSecondaryIndexes"]:
            index["ProvisionedThroughput"] = table["ProvisionedThroughput"]
    if not indexes:
        del table["GlobalSecondaryIndexes"]
    return table


def _throughput(properties: Properties, replica: Mapping[str, Any]) -> dict[str, int]:
    """Return the initial capacity of automatic scaling; headrace does not scale it."""
    write = section(
        properties, "WriteProvisionedThroughputSettings", "WriteCapacityAutoScalingSettings"
    )
    read = section(replica, "ReadProvisionedThroughputSettings")
    scaled = section(read, "ReadCapacityAutoScalingSettings")
    return {
        "ReadCapacityUnits": int(
            read.get("ReadCapacityUnits")
            or scaled.get("SeedCapacity")
            or scaled.get("MinCapacity", 5)
        ),
        "WriteCapacityUnits": int(write.get("SeedCapacity") or write.get("MinCapacity", 5)),
    }


def _create_global(context: Context, properties: Properties) -> ResourceResult:
    return _create(context, _as_table(context, properties))


def _update_global(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    return _update(context, physical_id, _as_table(context, old), _as_table(context, new))


def _remark_global(properties: Properties) -> Mapping[str, str]:
    replicas: list[Any] = properties.get("Replicas") or []
    if len(replicas) < 2:
        return {}
    return {"Replicas": "headrace creates only the replica in the stack's region"}


TYPES = [
    ResourceType(
        "AWS::DynamoDB::Table",
        {
            **enforced(
                "TableName",
                "AttributeDefinitions",
                "KeySchema",
                "GlobalSecondaryIndexes",
                "LocalSecondaryIndexes",
                "BillingMode",
                "StreamSpecification",
                "TimeToLiveSpecification",
                "KinesisStreamSpecification",
                "Tags",
                "DeletionProtectionEnabled",
            ),
            **stored(
                "ProvisionedThroughput",
                "PointInTimeRecoverySpecification",
                "SSESpecification",
                "TableClass",
            ),
            # Insights, and capacities that nothing is measured against.
            **ignored(_INSIGHTS, "OnDemandThroughput", "WarmThroughput"),
        },
        _create,
        _delete,
        update=_update,
        named_by=("TableName",),
        replace_on=frozenset({"TableName", "KeySchema", "LocalSecondaryIndexes"}),
        may_replace=frozenset({"AttributeDefinitions"}),
        replaced_if=edits_an_attribute,
        dropped=lambda table: (
            [f"GlobalSecondaryIndexes.{_INSIGHTS}"] * (_INSIGHTS in str(_indexes(table)))
        ),
    ),
    ResourceType(
        "AWS::DynamoDB::GlobalTable",
        {
            **enforced(
                "TableName",
                "AttributeDefinitions",
                "KeySchema",
                "GlobalSecondaryIndexes",
                "LocalSecondaryIndexes",
                "BillingMode",
                "StreamSpecification",
                "TimeToLiveSpecification",
                "Replicas",
            ),
            **stored(
                "WriteProvisionedThroughputSettings",
                "WriteOnDemandThroughputSettings",
                "SSESpecification",
            ),
            **ignored(
                "ReadProvisionedThroughputSettings",
                "ReadOnDemandThroughputSettings",
                "WarmThroughput",
                "MultiRegionConsistency",
                "GlobalTableWitnesses",
                "GlobalTableSourceArn",
                "GlobalTableSettingsReplicationMode",
            ),
        },
        _create_global,
        _delete,
        update=_update_global,
        remark=_remark_global,
        named_by=("TableName",),
        replace_on=frozenset({"TableName", "KeySchema", "LocalSecondaryIndexes"}),
        may_replace=frozenset({"AttributeDefinitions"}),
        replaced_if=edits_an_attribute,
    ),
]


def _time_to_live(settings: dict[str, Any]) -> dict[str, Any]:
    enabled = settings["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
    return {"AttributeName": settings.get("AttributeName"), "Enabled": enabled}


def _encryption(table: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = table.get("SSEDescription", {})
    if settings.get("Status") not in ("ENABLED", "ENABLING", "UPDATING"):
        return {"SSEEnabled": False}
    key = settings.get("KMSMasterKeyArn")
    return {"SSEEnabled": True, "SSEType": settings["SSEType"], "KMSMasterKeyId": key}


def _without_key(_: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return a template's encryption without its key, which a table answers by its ARN alone."""
    return {name: value for name, value in settings.items() if name != "KMSMasterKeyId"}


def _recovery(backups: dict[str, Any]) -> dict[str, Any]:
    recovery: dict[str, Any] = backups.get("PointInTimeRecoveryDescription", {})
    enabled = recovery.get("PointInTimeRecoveryStatus") == "ENABLED"
    days = recovery.get("RecoveryPeriodInDays")
    return {"PointInTimeRecoveryEnabled": enabled, "RecoveryPeriodInDays": days}


def _changes_to(destinations: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((d for d in destinations if d["DestinationStatus"] in ("ENABLING", "ACTIVE")), None)


def _capacity(table: dict[str, Any]) -> dict[str, Any] | None:
    # DescribeTable answers zeros for a table on demand; such a table has no such property.
    return None if _billing(table) == "PAY_PER_REQUEST" else table.get("ProvisionedThroughput")


def _billing(table: dict[str, Any]) -> str:
    return str(table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"))


def _read(operation: str, at: str, properties: Mapping[str, Any], **more: Any) -> ReadCall:
    return ReadCall(operation, {"TableName": "@id"}, at, properties, **more)


READINGS = (
    ReadingRules(
        "AWS::DynamoDB::Table",
        "dynamodb",
        (
            _read(
                "DescribeTable",
                "Table",
                same(
                    "AttributeDefinitions DeletionProtectionEnabled "
                    "GlobalSecondaryIndexes KeySchema LocalSecondaryIndexes "
                    "StreamSpecification TableName WarmThroughput",
                    BillingMode=_billing,
                    ProvisionedThroughput=_capacity,
                ),
            ),
            _read("DescribeTable", "Table", {"SSESpecification": _encryption}, turn=_without_key),
            _read(
                "DescribeTimeToLive",
                "TimeToLiveDescription",
                {"TimeToLiveSpecification": _time_to_live},
            ),
            _read(
                "DescribeContinuousBackups",
                "ContinuousBackupsDescription",
                {"PointInTimeRecoverySpecification": _recovery},
            ),
            _read(
                "DescribeKinesisStreamingDestination",
                "KinesisDataStreamDestinations",
                {"KinesisStreamSpecification": _changes_to},
            ),
        ),
        {"Arn": "TableArn", "StreamArn": "LatestStreamArn"},
    ),
)
