"""DynamoDB tables."""

from __future__ import annotations

from typing import Any, cast

from headrace.services.cloudformation.resources.base import (
    Context,
    Made,
    Properties,
    ResourceType,
    boolean,
    enforced,
    stored,
    tag_list,
)

_NUMBERS = frozenset({"ReadCapacityUnits", "WriteCapacityUnits"})


def _typed(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _typed(item, key) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_typed(item) for item in cast("list[Any]", value)]
    return int(value) if name in _NUMBERS else value


def _create(context: Context, properties: Properties) -> Made:
    name = properties.get("TableName") or context.generated_name(255)
    params: dict[str, Any] = {
        key: _typed(properties[key], key)
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
    tags = tag_list(properties, context)
    if tags:
        params["Tags"] = tags
    context.call("dynamodb", "CreateTable", params)
    context.note_made(name)
    _set_time_to_live(context, name, {}, properties)
    return _made(context, name)


def _made(context: Context, name: str) -> Made:
    table = context.call("dynamodb", "DescribeTable", {"TableName": name})["Table"]
    attributes = {"Arn": table["TableArn"]}
    if table.get("LatestStreamArn"):
        attributes["StreamArn"] = table["LatestStreamArn"]
    return Made(name, attributes)


def _set_time_to_live(context: Context, name: str, old: Properties, new: Properties) -> None:
    ttl = new.get("TimeToLiveSpecification")
    if ttl and ttl != old.get("TimeToLiveSpecification"):
        context.call(
            "dynamodb",
            "UpdateTimeToLive",
            {
                "TableName": name,
                "TimeToLiveSpecification": {
                    "AttributeName": ttl["AttributeName"],
                    "Enabled": boolean(ttl.get("Enabled", True)),
                },
            },
        )


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> Made:
    if new.get("ProvisionedThroughput") != old.get("ProvisionedThroughput") or (
        new.get("BillingMode") != old.get("BillingMode")
    ):
        params: dict[str, Any] = {
            "TableName": physical_id,
            "BillingMode": new.get("BillingMode", "PROVISIONED"),
        }
        if "ProvisionedThroughput" in new:
            params["ProvisionedThroughput"] = _typed(new["ProvisionedThroughput"])
        context.call("dynamodb", "UpdateTable", params)
    _set_time_to_live(context, physical_id, old, new)
    return _made(context, physical_id)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"TableName": physical_id}
    context.gone_is_fine("dynamodb", "DeleteTable", params, "ResourceNotFoundException")


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
                "Tags",
            ),
            **stored(
                "ProvisionedThroughput",
                "PointInTimeRecoverySpecification",
                "SSESpecification",
                "TableClass",
                "DeletionProtectionEnabled",
            ),
        },
        _create,
        _delete,
        update=_update,
        named_by=("TableName",),
        replace_on=frozenset(
            {
                "TableName",
                "AttributeDefinitions",
                "KeySchema",
                "GlobalSecondaryIndexes",
                "LocalSecondaryIndexes",
                "StreamSpecification",
            }
        ),
    )
]
